"""Rows without a label: refused by name and line, or left out where --drop-missing-labels says so."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest

import fairbound as fb

MISSING = (7, 50, 51, 200)
LINES = {
    "fit": ("fit", "--no-baseline"),
    "parts": ("fit", "--no-baseline", "--chunk-rows", "60"),
    "certify": ("fit", "--certify"),
    "reduction": ("fit", "--estimator", "sklearn.tree.DecisionTreeClassifier(max_depth=2)", "--no-baseline"),
    "ranking": ("fit", "--qid", "q", "--no-baseline"),
    "regress": ("regress",),
    "audit": ("audit", "--score", "s"),
    "audit in parts": ("audit", "--score", "s", "--chunk-rows", "60"),
    "audit of numbers": ("audit", "--score", "s"),
    "audit of rankings": ("audit", "--score", "s", "--qid", "q"),
    "shift": ("shift", "--score", "s"),
    "compare": ("compare", "s", "x"),
}
BOUND = {
    "ranking": "exposure_parity <= 0.5",
    "audit of rankings": "exposure_parity <= 0.5",
    "regress": "residual_gap <= 0.5",
    "audit of numbers": "residual_gap <= 0.5",
    "shift": "auc_parity[group] <= 0.3",
}


@pytest.fixture
def files(tmp_path):
    """A file of 240 rows, four of them without a label, and the same without these rows."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=240).round(3)
    s, z = (x + rng.normal(size=240)).round(3), rng.normal(size=240).round(3)
    table = pd.DataFrame(
        {"x": x, "z": z, "s": s, "g": ["a", "b"] * 120, "q": np.repeat(np.arange(60), 4), "y": (s > 0) * 1.0}
    )
    whole, known = tmp_path / "whole.csv", tmp_path / "known.csv"
    table.loc[list(MISSING), "y"] = np.nan
    table.to_csv(whole, index=False)
    table.drop(index=list(MISSING)).to_csv(known, index=False)
    return whole, known


def called(run, name, path, out, *more):
    trains = name in ("fit", "parts", "certify", "ranking", "regress")
    budget = ("--budget", "5 steps") if trains else ()
    if name in ("fit", "certify"):
        budget += ("--algorithm", "alm")  # the quickest
    bound = BOUND.get(name, "demographic_parity <= 0.3")
    return run(
        *LINES[name], "--data", path, "--label", "y", "--group", "g", "--constraint", bound, *budget,
        "--out", out, *more
    )  # fmt: skip


@pytest.mark.parametrize("name", [name for name in LINES if name != "certify"])  # which reads as fit does, and is slow
def test_rows_without_a_label_are_refused_or_left_out(run, files, tmp_path, name):
    whole, known = files
    code, _, said = called(run, name, whole, tmp_path / "no")
    assert code == 2 and "4 of 240 labels are missing" in said and "line 9 of the file" in said, said
    assert "--drop-missing-labels" in said
    made = []
    for path, more in ((whole, ("--drop-missing-labels",)), (known, ())):
        out = tmp_path / path.stem
        code, _, said = called(run, name, path, out, *more)
        assert code in (0, 1, 3), said
        file = "compare.json" if name == "compare" else "audit.json"
        made.append(json.loads((out / file).read_text()))
    if name == "compare":
        assert made[0]["differences"] == made[1]["differences"] and made[0]["rows"] == 236
        return
    first, second = made
    assert first["constraints"] == second["constraints"] and first["metrics"] == second["metrics"]
    said = "4 of 240 labels are missing; these rows are left out (--drop-missing-labels)."
    assert said in first["notes"] and said not in second["notes"]


@pytest.mark.parametrize("name", ["fit", "parts", "certify", "reduction", "ranking", "regress"])
def test_lines_of_errors_are_those_of_the_whole_file(run, files, tmp_path, name):
    whole, _ = files
    table = pd.read_csv(whole)
    for row in (60, 210):  # two rows, as one of them may be held out and judged later
        table.loc[row, "x"] = np.inf
    table.to_csv(whole, index=False)
    code, _, said = called(run, name, whole, tmp_path / "out", "--drop-missing-labels")
    line = int(re.search(r"line (\d+) of the file", said)[1])
    assert code == 2 and line in (62, 212), said


def test_a_file_without_any_label_is_refused_all_the_same(run, files, tmp_path):
    whole, _ = files
    pd.read_csv(whole).assign(y=np.nan).to_csv(whole, index=False)
    code, _, said = called(run, "fit", whole, tmp_path / "out", "--drop-missing-labels")
    assert code == 2 and "no row has a label" in said, said


def test_bounds_that_do_not_fit_are_refused_before_anything_is_trained(run, files, tmp_path):
    more = ("--label", "y", "--group", "g", "--out", tmp_path / "out")
    for bound in ("demographic_parity <= 0.1", "residual_gap <= -1"):
        code, _, said = run("regress", "--data", tmp_path / "none.csv", *more, "--constraint", bound)
        assert code == 2 and "training" not in said and "none.csv" not in said, said
    code, _, said = run("regress", "--data", tmp_path / "none.csv", *more)
    assert code == 2 and "state a bound" in said
    for command, bound in (("regress", "residual_gap <= 0.1"), ("fit", "loss_gap <= 0.1")):
        code, _, said = run(command, "--data", tmp_path / "none.csv", *more, "--constraint", bound, "--certify")
        assert code == 2 and "cannot be certified" in said and "training on" not in said, said
    known = ("--data", files[1], *more)
    code, _, said = run("fit", *known, "--constraint", "residual_gap <= 0.1")
    assert code == 2 and "fairbound regress" in said and "training" not in said, said


def test_an_infinite_number_to_predict_is_named_by_its_line(run, files, tmp_path):
    table = pd.read_csv(files[0])
    table.loc[60, "y"] = np.inf
    table.to_csv(files[0], index=False)
    code, _, said = called(run, "regress", files[0], tmp_path / "out", "--drop-missing-labels")
    assert code == 2 and "line 62 of the file holds an infinite number" in said, said


@pytest.mark.parametrize("name", ["fit", "certify", "parts", "reduction"])
def test_the_numbers_of_the_rows_held_out_are_those_of_the_file(run, files, tmp_path, name):
    code, out, err = called(run, name, files[0], tmp_path / "o", "--drop-missing-labels", "--json")
    assert code != 2, err
    written = "decisions.csv" if name == "reduction" else "held_out.csv"
    held = pd.read_csv(tmp_path / "o" / written)
    table = pd.read_csv(files[0]).iloc[held.row]
    assert len(held) == json.loads(out)["rows"] and not set(held.row) & set(MISSING)
    decided = (
        held.decision if name == "reduction" else fb.load(tmp_path / "o" / "model").predict(table[["x", "z", "s", "q"]])
    )
    assert np.mean(np.asarray(decided) == table.y) == pytest.approx(json.loads(out)["metrics"]["accuracy"])


@pytest.fixture
def lent(tmp_path):
    """A model, and new rows whose outcome is known where x is large: of nearly all whom the model selects, and of few
    others."""
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"x": rng.normal(size=1500).round(3), "g": rng.choice(["a", "b"], 1500)})
    table["y"] = np.where(table.x + rng.normal(size=1500) > 0, "good", "bad")
    model = fb.FairClassifier("demographic_parity <= 0.3", budget="50 steps", algorithm="alm")
    old, new = table[:500], table[500:].reset_index(drop=True)
    model.fit(old[["x"]], old.y, sensitive_features=old[["g"]]).save(tmp_path / "model")
    new["decided"] = model.predict(new[["x"]])
    new["y"] = new.y.where((new.x > 0.2) | (rng.random(1000) < 0.05))
    new.to_csv(tmp_path / "new.csv", index=False)
    return tmp_path, new


def warned_by(run, *args):
    code, out, err = run(*args, "--json")
    assert code in (0, 1, 3), err
    return json.loads(out)["warnings"]


def unlike(new):
    """What is said of a model's decisions on the rows left out and on those judged."""
    known = new.y.notna()
    out, kept = (100 * (new.decided[rows] == "good").mean() for rows in (~known, known))
    return (
        f"The rows without an outcome are unlike those judged: the model selects {out:.3g} % of the {(~known).sum()} rows "
        f"without one, and {kept:.3g} % of those judged. So the rates here are not those of everyone"
    )


@pytest.mark.parametrize("more", [(), ("--chunk-rows", 130)])
def test_a_saved_model_that_selects_others_where_no_outcome_is_known_is_warned_of(run, lent, more):
    folder, new = lent
    args = ("audit", "--data", folder / "new.csv", "--label", "y", "--group", "g", "--drop-missing-labels")
    args = (*args, "--out", folder / "o", *more)
    said = warned_by(run, *args, "--model", folder / "model")
    assert sum(line.startswith(unlike(new)) for line in said) == 1
    said = warned_by(run, *args, "--score", "decided", "--positive", "good")
    assert sum(line.startswith("Who has an outcome depends on the decision") for line in said) == 1
    rng = np.random.default_rng(0)
    new.assign(y=np.where(rng.random(1000) < 0.5, None, rng.choice(["good", "bad"], 1000))).to_csv(
        folder / "new.csv", index=False
    )
    for source in (("--model", folder / "model"), ("--score", "decided", "--positive", "good")):
        assert not any("not those of everyone" in line for line in warned_by(run, *args, *source))


def test_so_it_is_by_gates_comparisons_and_monitors(run, lent):
    folder, new = lent
    rows = ("--data", folder / "new.csv", "--label", "y", "--group", "g")
    said = warned_by(run, "compare", folder / "model", "decided", *rows, "--drop-missing-labels")
    assert sum(line.startswith(f"{folder / 'model'}: {unlike(new)}") for line in said) == 1
    assert sum(line.startswith("decided: Who has an outcome depends on the decision") for line in said) == 1
    said = warned_by(run, "monitor", *rows, "--model", folder / "model", "--state", folder / "m")
    assert sum(line.startswith(unlike(new)) for line in said) == 1
    gate = 'data = "new.csv"\nlabel = "y"\ngroup = "g"\nmodel = "model"\ndrop_missing_labels = true\n'
    (folder / "gate.toml").write_text(gate)
    _, out, err = run("gate", "--config", folder / "gate.toml")
    assert unlike(new) in out and "can be had by leaving label out" in out, err


def test_so_it_is_of_a_model_that_needs_groups_where_parts_have_none(run, lent):
    folder, new = lent
    rng = np.random.default_rng(5)
    by_group = fb.FairClassifier(
        "demographic_parity <= 0.1", use_groups_at_prediction=True, budget="50 steps", algorithm="alm"
    )
    truth = np.where(new.x + (new.g == "a") + rng.normal(size=1000) > 0, "good", "bad")
    by_group.fit(new[["x"]], truth, sensitive_features=new[["g"]]).save(folder / "rule")
    rows = pd.concat([new[new.y.isna()], new[new.y.notna()]], ignore_index=True)
    rows.loc[:250, "g"] = None
    rows.to_csv(folder / "new.csv", index=False)
    with pytest.warns(fb.DataWarning, match="251 of 1,000 rows have a value of 'g'"):
        rows["decided"] = by_group.predict(rows[["x"]], rows[["g"]])
    args = ("audit", "--data", folder / "new.csv", "--label", "y", "--group", "g", "--drop-missing-labels")
    for more in ((), ("--chunk-rows", 130)):
        said = warned_by(run, *args, "--out", folder / "o", "--model", folder / "rule", *more)
        assert sum(line.startswith(unlike(rows)) for line in said) == 1
    rows[(rows.index <= 250) | rows.y.notna()].to_csv(folder / "new.csv", index=False)
    said = warned_by(run, *args, "--out", folder / "o", "--model", folder / "rule")
    assert sum(line.startswith("The rows without an outcome are unlike those judged") for line in said) == 1


def test_rows_left_out_that_a_model_cannot_take_are_passed_over(run, lent):
    folder, new = lent
    by_group = fb.FairClassifier(
        "demographic_parity <= 0.3", group_terms=True, model="linear", budget="20 steps", algorithm="alm"
    )
    known = new[new.y.notna()]
    by_group.fit(known[["x"]], known.y, sensitive_features=known[["g"]]).save(folder / "terms")
    new.assign(g=np.where(new.y.isna(), "c", new.g)).to_csv(folder / "new.csv", index=False)
    args = (
        "--data",
        folder / "new.csv",
        "--label",
        "y",
        "--group",
        "g",
        "--drop-missing-labels",
        "--out",
        folder / "o",
    )
    for more in ((), ("--chunk-rows", 130)):
        said = warned_by(run, "audit", *args, "--model", folder / "terms", *more)
        assert not any("unlike those judged" in line for line in said)


@pytest.mark.parametrize("more", [(), ("--chunk-rows", 100)])
def test_a_word_that_may_be_a_label_is_named(run, tmp_path, more):
    rng = np.random.default_rng(0)
    s = rng.random(400).round(3)
    y = np.where(s > 0.3, "Some", "Few").astype(object)
    y[::4], y[1] = "None", ""
    pd.DataFrame({"s": s, "g": ["a", "b"] * 200, "y": y}).to_csv(tmp_path / "t.csv", index=False)
    args = (
        "audit",
        "--data",
        tmp_path / "t.csv",
        "--label",
        "y",
        "--group",
        "g",
        "--score",
        "s",
        "--out",
        tmp_path / "o",
    )
    code, _, err = run(*args, "--positive", "Some", *more)
    said = "100 cells are 'None', which counts as missing in a CSV file: where it is a label, write it otherwise"
    assert code == 2 and f"101 of 400 labels are missing, the first in line 2 of the file. {said}" in err
    run(*args, "--positive", "Some", "--drop-missing-labels", *more)
    assert any(said in note for note in json.loads((tmp_path / "o" / "audit.json").read_text())["notes"])


@pytest.mark.parametrize("more", [(), ("--chunk-rows", 100)])
def test_so_is_one_among_numbers_and_one_that_decisions_are_stated_of(run, tmp_path, more):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400).astype(str).astype(object)
    grade = rng.choice(["A", "B"], 400).astype(object)
    y[::4], grade[::5] = "None", "N/A"
    table = pd.DataFrame({"s": rng.random(400).round(3), "g": ["a", "b"] * 200, "y": y, "grade": grade})
    table.to_csv(tmp_path / "t.csv", index=False)
    args = ("audit", "--data", tmp_path / "t.csv", "--group", "g", "--out", tmp_path / "o", *more)
    for word, rows, what, source in (
        ("None", 100, "label", ("--label", "y", "--score", "s")),
        ("N/A", 80, "decision", ("--score", "grade=A")),
    ):
        said = f"{rows} cells are {word!r}, which counts as missing in a CSV file: where it is a {what}, write it otherwise"
        code, _, err = run(*args, *source)
        assert code == 2 and f"{rows} of 400 {what}s are missing, the first in line 2 of the file. {said}" in err
        run(*args, *source, "--drop-missing-labels")
        assert any(said in note for note in json.loads((tmp_path / "o" / "audit.json").read_text())["notes"])
    amounts = table.assign(y=rng.normal(size=400).round(3).astype(str))
    amounts.loc[::4, "y"] = "None"
    amounts.to_csv(tmp_path / "t.csv", index=False)
    assert "cells are" not in run(*args, "--label", "y", "--score", "s")[2]
