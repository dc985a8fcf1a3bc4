"""The command line: verdicts as exit codes, one JSON object, one clear line for wrong use, and files that read back."""

from __future__ import annotations

import gzip
import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import fairbound as fb
from fairbound.cli import app as cli
from fairbound.report import schema
from fairbound.tables import Encoded
from fairbound.tables import encoder as encoder_module

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
pytest.importorskip("matplotlib", reason="the page's charts need the extra 'report'")
QUICK = ["--algorithm", "alm", "--budget", "60 steps"]
PARITY = ["--constraint", "demographic_parity <= 0.2"]


def people(n: int = 800, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    sex = rng.choice(["F", "M"], n)
    pay, skill = rng.normal(size=n) + 1.2 * (sex == "M"), rng.normal(size=n)
    approved = np.where(pay + 2 * skill + 0.5 * rng.normal(size=n) > 0.6, "yes", "no")
    city, age = rng.choice(["Bath", "Ely", "York"], n), rng.integers(18, 70, n)
    return pd.DataFrame({"pay": pay, "skill": skill, "age": age, "city": city, "sex": sex, "approved": approved})


@pytest.fixture
def csv(tmp_path):
    people().to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def fit(run, source, out, *more):
    usual = {"--label": "approved", "--group": "sex", **dict(zip(QUICK[::2], QUICK[1::2], strict=True))}
    named = [word for name, value in usual.items() if name not in more for word in (name, value)]
    return run("fit", "--data", source, "--out", out, *named, *more)


# -- fit ------------------------------------------------------------------------------------------------------


def test_fit_writes_the_model_the_page_and_the_records(run, csv, tmp_path):
    out = tmp_path / "deep" / "out"
    code, text, _ = fit(run, csv, out, *PARITY)
    audit = json.loads((out / "audit.json").read_text())
    schema.validate(audit)
    assert code == audit["exit_code"] == {"met": 0, "violated": 1, "insufficient": 3}[audit["verdict"]]
    assert [m["name"] for m in audit["comparison"]] == ["constrained", "unconstrained"]
    assert audit["data"]["train_rows"] + audit["data"]["rows"] == 800 and audit["data"]["rows"] == 200
    assert audit["data"]["positive"] == "yes" and audit["data"]["checksum"].startswith("sha256:")
    assert "<!doctype html>" in (out / "report.html").read_text()
    records = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    assert records[-1]["step"] == audit["trajectory"]["steps"][-1] > 0
    loaded = fb.FairClassifier.load(out / "model")
    assert loaded.classes_.tolist() == ["no", "yes"]
    for shown in ("accuracy", "AUC", "constrained", "unconstrained", "demographic_parity <= 0.2", str(out / "model")):
        assert shown in text


def test_each_table_is_encoded_once_and_the_held_out_rows_are_scored_once_a_model(run, csv, tmp_path, monkeypatch):
    """For the model and its baseline together; the audit is of rows that training has not seen."""
    read, trained, scored = [], [], []
    of, fit_, score = Encoded.of.__func__, fb.FairClassifier.fit, fb.FairClassifier.decision_function

    def encoded(cls, encoder, table, **options):
        read.append((set(table.index), of(cls, encoder, table, **options)))
        return read[-1][1]

    def fitted(self, X, *more, **options):
        trained.append(X)
        return fit_(self, X, *more, **options)

    def scores(self, X, *groups):
        scored.append(X)
        return score(self, X, *groups)

    columns = []
    read_columns = encoder_module.read_columns
    monkeypatch.setattr(
        encoder_module, "read_columns", lambda *a, **k: columns.append(len(a[0])) or read_columns(*a, **k)
    )
    monkeypatch.setattr(Encoded, "of", classmethod(encoded))
    monkeypatch.setattr(fb.FairClassifier, "fit", fitted)
    monkeypatch.setattr(fb.FairClassifier, "decision_function", scores)
    fit(run, csv, tmp_path / "out", *PARITY)
    assert columns == [600, 200], "a table was read twice"
    (train, of_train), (held, of_held) = read
    assert len(train) == 600 and len(held) == 200 and train.isdisjoint(held)
    assert trained == [of_train, of_train]
    assert sorted(map(len, scored)) == [200, 200, 600]  # each model on the held-out rows, the baseline on its own
    assert [X for X in scored if len(X) == 200] == [of_held, of_held]
    monkeypatch.undo()
    found = json.loads((tmp_path / "out" / "audit.json").read_text())
    own, metrics = found["comparison"][0], found["metrics"]
    assert (own["accuracy"], own["auc"]) == (metrics["accuracy"], metrics["auc"])
    assert own["constraints"][0]["value"] == found["constraints"][0]["value"]


def test_json_is_one_object_with_the_design_s_keys(run, csv, tmp_path):
    code, text, _ = fit(run, csv, tmp_path / "out", *PARITY, "--json", "--seed", "5")
    found = json.loads(text)
    assert text.count("\n") == 1
    assert found["verdict"] in ("met", "violated", "insufficient") and code in (0, 1, 3)
    assert 0.5 < found["metrics"]["accuracy"] <= 1 and 0.5 < found["metrics"]["auc"] <= 1
    (bound,) = found["constraints"]
    assert bound["name"] == "demographic_parity" and bound["bound"] == 0.2
    assert bound["value"] <= bound["upper"] and sum(bound["groups"].values()) == 200
    assert found["seconds"] > 0 and found["seed"] == 5 and found["out"] == str(tmp_path / "out")


def test_equal_seeds_write_equal_models(run, csv, tmp_path):
    for name in ("a", "b", "c"):
        fit(run, csv, tmp_path / name, *PARITY, "--no-baseline", "--seed", "1" if name == "c" else "0")
    X = people()
    scores = {name: fb.FairClassifier.load(tmp_path / name / "model").decision_function(X) for name in "abc"}
    np.testing.assert_array_equal(scores["a"], scores["b"])
    assert not np.array_equal(scores["a"], scores["c"])
    assert json.loads((tmp_path / "a" / "audit.json").read_text())["comparison"] == []


def test_the_embedded_sample_needs_no_label_and_no_group(run, tmp_path):
    code, text, _ = run("fit", "--data", "loanapp", *QUICK, "--constraint", "demographic_parity <= 0.03", "--json",
                        "--out", tmp_path)  # fmt: skip
    found = json.loads(text)
    assert set(found["constraints"][0]["groups"]) == {"black", "hispanic", "white"} and code in (0, 1, 3)
    assert found["verdict"] != "insufficient" or found["constraints"][0]["rows_needed"] > found["rows"]
    names = fb.FairClassifier.load(tmp_path / "model").encoder_.feature_names
    assert not any(name.startswith("race") for name in names)


def test_sensitive_columns_are_dropped_by_default_and_kept_by_option(run, csv, tmp_path):
    for option, kept in ((None, False), ("--keep-sensitive", True)):
        out = tmp_path / str(kept)
        fit(run, csv, out, *PARITY, *([option] if option else []))
        names = fb.FairClassifier.load(out / "model").encoder_.feature_names
        assert any(name.startswith("sex=") for name in names) == kept
        notes = json.loads((out / "audit.json").read_text())["notes"]
        assert any(("kept" if kept else "dropped") in note and "sex" in note for note in notes)


def test_several_bounds_crossed_groups_mlp_and_every_option(run, tmp_path):
    frame = people(1200).assign(old=lambda f: np.where(f["age"] > 44, "old", "young"), id=lambda f: f.index)
    frame.to_csv(tmp_path / "p.csv", sep=";", index=False)
    code, text, err = run(
        "fit", "--data", tmp_path / "p.csv", "--label", "approved", "--group", "sex,old", "--cross", "--drop", "id,age",
        "--constraint", "demographic_parity <= 0.2", "--constraint", "equal_opportunity[each] <= 0.3", "--json",
        "--model", "mlp:4", "--algorithm", "ssl_alm", "--seed", "3", "--budget", "100 steps", "--positive", "no",
        "--test-size", "0.5", "--batch-size", "32", "--confidence", "0.8", "--out", tmp_path / "o",
    )  # fmt: skip
    assert code in (0, 1, 3), err
    found = json.loads(text)
    assert found["rows"] == pytest.approx(600, abs=1)
    assert [c["name"] for c in found["constraints"]] == ["demographic_parity", "equal_opportunity"]
    assert set(found["constraints"][0]["groups"]) == {"F & old", "F & young", "M & old", "M & young"}
    audit = json.loads((tmp_path / "o" / "audit.json").read_text())
    assert audit["data"]["positive"] == "no" and audit["model"]["kind"] == "mlp:4"
    assert fb.FairClassifier.load(tmp_path / "o" / "model").encoder_.columns == ("pay", "skill", "city")


def test_without_a_bound_nothing_is_judged(run, csv, tmp_path):
    code, text, _ = fit(run, csv, tmp_path / "o", "--json")
    assert code == 0 and json.loads(text)["verdict"] is None


def test_published_splits_are_used_and_a_test_size_overrides_them(run, data_dir, tmp_path):
    quick = ("--budget", "2 steps", "--no-baseline", "--json", "--data-dir", data_dir)
    bound = ("--constraint", "demographic_parity <= 0.02")
    _, text, _ = run("fit", "--data", "adult", *bound, *quick, "--out", tmp_path / "a")
    assert json.loads(text)["rows"] == 16281
    _, text, _ = run("fit", "--data", "adult", *bound, *quick, "--test-size", "0.1", "--out", tmp_path / "b")
    assert json.loads(text)["rows"] == pytest.approx(4884, abs=2)


def test_a_gzip_file_with_tabs_reads_alike(run, tmp_path):
    path = tmp_path / "people.tsv.gz"
    path.write_bytes(gzip.compress(people().to_csv(index=False, sep="\t").encode()))
    assert fit(run, path, tmp_path / "o", *PARITY)[0] in (0, 1, 3)


# -- what a reader must know ---------------------------------------------------------------------------------


def warnings_of(folder):
    audit = json.loads((folder / "audit.json").read_text())
    return "\n".join(audit["warnings"]), "\n".join(audit["notes"])


def test_dropped_columns_tiny_groups_and_unknown_groups_are_warnings(run, tmp_path):
    frame = people()
    frame["same"], frame["gone"] = 1, ""
    frame.loc[0, "sex"], frame.loc[1:8, "sex"] = "X", ""
    frame.to_csv(tmp_path / "p.csv", index=False)
    code, text, _ = fit(run, tmp_path / "p.csv", tmp_path / "o", *PARITY)
    said, _ = warnings_of(tmp_path / "o")
    assert code in (1, 3), "a group without a held-out row cannot be judged"
    assert said.count("Column 'same' was dropped") == said.count("Column 'gone' was dropped") == 1
    assert "sex: too few training rows to control or measure the rates of 'X' (1). Merge" in said
    assert "sex is missing in" in said
    assert "Column 'same' was dropped" in text
    fit(
        run,
        tmp_path / "p.csv",
        tmp_path / "few",
        "--group",
        "sex",
        "--constraint",
        "demographic_parity[fewest=5] <= 0.1",
    )
    assert "too few training rows" not in warnings_of(tmp_path / "few")[0], "the bound leaves that group out"


def test_unseen_categories_in_held_out_rows_are_a_note(run, tmp_path):
    frame = people()
    rare = np.random.default_rng(0).permutation(800)[:8]
    frame.loc[rare, "city"] = [f"T{i}" for i in range(8)]
    frame.to_csv(tmp_path / "p.csv", index=False)
    fit(run, tmp_path / "p.csv", tmp_path / "o", *PARITY)
    _, notes = warnings_of(tmp_path / "o")
    assert "column city" in notes and "unseen or too rare" in notes


def test_an_infeasible_bound_is_said_with_the_smallest_value(run, csv, tmp_path):
    # no network reaches a loss gap of exactly 0 from a random start
    fit(run, csv, tmp_path / "o", "--constraint", "loss_gap <= 0", "--model", "mlp:3", "--no-baseline",
        "--algorithm", "alm")  # fmt: skip
    said, _ = warnings_of(tmp_path / "o")
    assert (
        "No iterate met every bound" in said and "on the training rows the smallest value of any model tried is" in said
    )


def test_bounds_that_cannot_be_met_together_are_said_to(run, csv, tmp_path):
    both = ["--constraint", "recall of class yes >= 0.999", "--constraint", "recall of class no >= 0.999"]
    fit(run, csv, tmp_path / "o", *both)
    said, _ = warnings_of(tmp_path / "o")
    assert "No model that was tried met the bounds together; one of them by itself may be met." in said
    assert "of any model tried under all bounds together is" in said


def test_a_model_that_never_left_the_start_is_a_warning(run, csv, tmp_path):
    # at weights of 0 every row's loss is log 2; no other model comes within rounding of that
    bound = ["--constraint", "loss_gap <= 1e-7"]
    fit(run, csv, tmp_path / "o", *bound, "--algorithm", "sgd", "--budget", "60 steps")
    said, _ = warnings_of(tmp_path / "o")
    assert "it has learnt nothing" in said


def test_features_that_say_nothing_of_the_label_are_said_to(run, tmp_path):
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], 800)
    frame = pd.DataFrame(
        {"age": rng.normal(size=800), "sex": sex, "y": rng.random(800) < np.where(sex == "f", 0.45, 0.25)}
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    args = (
        "--data", tmp_path / "t.csv", "--label", "y", "--group", "sex",
        "--constraint", "demographic_parity <= 0.05"
    )  # fmt: skip
    run("fit", *args, *QUICK, "--out", tmp_path / "o")
    said, _ = warnings_of(tmp_path / "o")
    assert "The model without the bound is no better: these features tell too little of the label" in said
    assert "loosen the bound" not in said
    run("fit", *args, *QUICK, "--no-baseline", "--out", tmp_path / "p")
    said, _ = warnings_of(tmp_path / "p")
    assert "loosen the bound" in said and "where a model without the bound is no better" in said


# -- audit ----------------------------------------------------------------------------------------------------


def scored(n: int, rates: dict[str, float], seed: int = 0) -> pd.DataFrame:
    """n rows of each group, of which exactly the given share has score 1."""
    parts = []
    for group, rate in rates.items():
        score = (np.arange(n) < round(rate * n)).astype(int)
        parts.append(pd.DataFrame({"score": score, "y": np.arange(n) % 2, "group": group}))
    return pd.concat(parts)


@pytest.mark.parametrize(
    ("n", "rates", "verdict", "code"),
    [
        (20000, {"a": 0.40, "b": 0.41}, "met", 0),
        (20000, {"a": 0.40, "b": 0.50}, "violated", 1),
        (50, {"a": 0.40, "b": 0.44}, "insufficient", 3),
    ],
)
def test_exit_codes_of_an_audit_are_its_verdict(run, tmp_path, n, rates, verdict, code):
    scored(n, rates).to_csv(tmp_path / "s.csv", index=False)
    got, text, _ = run("audit", "--data", tmp_path / "s.csv", "--score", "score", "--label", "y", "--group", "group",
                       "--constraint", "demographic_parity <= 0.05", "--json", "--out", tmp_path / "o")  # fmt: skip
    found = json.loads(text)
    assert (found["verdict"], got) == (verdict, code)
    assert found["constraints"][0]["value"] == pytest.approx(rates["b"] - rates["a"], abs=1e-12)
    if verdict == "insufficient":
        assert found["constraints"][0]["rows_needed"] > 100
        _, text, _ = run("audit", "--data", tmp_path / "s.csv", "--score", "score", "--label", "y", "--group", "group",
                         "--constraint", "demographic_parity <= 0.05", "--out", tmp_path / "o")  # fmt: skip
        assert "held-out rows of this kind would decide it" in text
        assert "its smallest group is a, with 50 held-out rows." in text


def test_a_group_without_a_row_is_not_passed_over_for_the_smallest(run, csv, tmp_path):
    frame = people()
    frame.loc[::3, "sex"] = "X"
    frame.to_csv(tmp_path / "three.csv", index=False)
    fit(run, tmp_path / "three.csv", tmp_path / "o", *PARITY)
    _, text, _ = run("audit", "--data", csv, "--model", tmp_path / "o" / "model", "--label", "approved",
                     "--group", "sex", "--out", tmp_path / "a")  # fmt: skip
    assert "No held-out row measures" in text and "its smallest group" not in text


def test_what_is_done_about_a_model_that_is_not_confirmed_needs_certify(run, csv, tmp_path):
    code, _, error = fit(run, csv, tmp_path / "o", *PARITY, "--on-insufficient", "raise")
    assert code == 2 and "--on-insufficient is of a model that --certify confirms" in error


def test_the_smallest_group_of_a_bound_on_classes_is_named_without_a_class(run, tmp_path):
    frame = pd.DataFrame({"sex": ["M", "W", "W"] * 20, "y": ["A", "B", "C", "B"] * 15, "p": ["B", "B", "C"] * 20})
    frame.to_csv(tmp_path / "c.csv", index=False)
    _, out, _ = run("audit", "--data", tmp_path / "c.csv", "--label", "y", "--score", "p", "--group", "sex",
                    "--constraint", "class_demographic_parity <= 0.55", "--out", tmp_path / "o")  # fmt: skip
    assert "its smallest group is M, with 20 held-out rows." in out


def test_a_saved_model_brings_its_bounds_and_knows_its_training_file(run, csv, tmp_path):
    fit(run, csv, tmp_path / "o", *PARITY)
    fresh = people(3000, seed=9).assign(sex=lambda f: np.where(f.index == 0, "X", f["sex"]))
    fresh.to_csv(tmp_path / "new.csv", index=False)
    common = ("--model", tmp_path / "o" / "model", "--label", "approved", "--group", "sex", "--json")
    code, text, _ = run("audit", "--data", tmp_path / "new.csv", *common, "--out", tmp_path / "n")
    found = json.loads(text)
    assert [c["text"] for c in found["constraints"]] == ["demographic_parity <= 0.2"] and found["rows"] == 3000
    assert any("training lacked" in w for w in found["warnings"]) and code in (0, 1, 3)
    predicted = fb.FairClassifier.load(tmp_path / "o" / "model").predict(fresh)
    assert found["metrics"]["accuracy"] == pytest.approx(np.mean(predicted == fresh["approved"]), abs=1e-12)
    _, text, _ = run("audit", "--data", tmp_path / "new.csv", *common[:-1], "--out", tmp_path / "n")
    assert "Positive is approved = yes" in text
    code, _, said = run("audit", "--data", csv, *common, "--positive", "no", "--out", tmp_path / "n")
    assert code == 2 and "the model's positive label is 'yes', not 'no'" in said
    same = tmp_path / "same"
    _, text, _ = run("audit", "--data", csv, *common, "--out", same)
    assert any("file that the model was trained on" in w for w in json.loads(text)["warnings"])
    shown, card = re.sub("<[^>]+>", "", (same / "report.html").read_text()), (same / "model_card.md").read_text()
    counted = "800 rows of the file that the model was trained on"
    assert counted in shown and counted in card and "judged, most of them not held out" in shown
    for text in (shown, card):
        assert not re.search("800 held[- ]out|Held-out rows800|taken as held out", text)


def test_texts_that_are_no_decisions_say_what_may_stand_there(run, tmp_path):
    people(60).assign(said="maybe").to_csv(tmp_path / "s.csv", index=False)
    asked = ("--score", "said", "--label", "approved", "--group", "sex", "--out", tmp_path / "o")
    code, _, said = run("audit", "--data", tmp_path / "s.csv", *asked)
    assert code == 2 and "Give scores as numbers, or decisions as the labels 'no' and 'yes'." in said


def test_probabilities_and_thresholds(run, tmp_path):
    frame = people(500)
    frame["p"] = 1 / (1 + np.exp(-frame["pay"]))
    frame.to_csv(tmp_path / "s.csv", index=False)
    for threshold, expected in ((None, 0.5), ("0.7", 0.7)):
        more = () if threshold is None else ("--threshold", threshold)
        _, text, _ = run("audit", "--data", tmp_path / "s.csv", "--score", "p", "--label", "approved", "--group", "sex",
                         "--json", "--out", tmp_path / "o", *more)  # fmt: skip
        rate = json.loads(text)["metrics"]["selection_rate"]
        assert rate == pytest.approx(np.mean(frame["p"] > expected), abs=1e-12)


# -- frontier and data sets -----------------------------------------------------------------------------------


def test_a_frontier_lists_every_model_and_draws_it(run, csv, tmp_path):
    code, text, _ = run("frontier", "--data", csv, "--label", "approved", "--group", "sex", "--constraint",
                        "demographic_parity", "--bounds", "0.2,0.05", "--seeds", "2", *QUICK, "--out", tmp_path / "f",
                        "--json")  # fmt: skip
    found = json.loads(text)
    assert code == 0
    assert [(p["bound"], p["seed"]) for p in found["points"]] == [
        (None, 0), (0.05, 0), (0.2, 0), (None, 1), (0.05, 1), (0.2, 1)
    ]  # fmt: skip
    assert [s["bound"] for s in found["summary"]] == [0.05, 0.2, None]
    assert all(p["train_value"] <= p["bound"] for p in found["points"] if p["feasible"])
    assert json.loads((tmp_path / "f" / "frontier.json").read_text()) | {"exit_code": 0} == found
    page = (tmp_path / "f" / "report.html").read_text()
    scripts = ['<script type="application/json" id="data">', "<script>"]  # the control that moves the bound
    assert re.findall("<script[^>]*>", page) == scripts and "<svg" in page
    assert 'src="http' not in page and "@import" not in page
    assert (tmp_path / "f" / "frontier.png").read_bytes().startswith(b"\x89PNG")
    _, text, _ = fit(run, csv, tmp_path / "one", "--constraint", "demographic_parity <= 0.05", "--json", "--seed", "1")
    point = found["points"][4]
    assert json.loads(text)["constraints"][0]["value"] == point["value"]


def test_of_bounds_from_below_the_loosest_is_the_last_of_a_frontier(run, csv, tmp_path):
    _, text, _ = run("frontier", "--data", csv, "--label", "approved", "--group", "sex", "--constraint",
                     "demographic_parity_ratio", "--bounds", "0.5,0.9", *QUICK, "--out", tmp_path / "f",
                     "--json", "--seeds", "1")  # fmt: skip
    found = json.loads(text)
    assert found["sense"] == "at least" and [s["bound"] for s in found["summary"]] == [0.9, 0.5, None]


def test_an_interrupt_ends_a_frontier_after_the_model_it_cut_short(run, csv, tmp_path, monkeypatch):
    from fairbound.cli.training import frontier

    whole = frontier.train

    def cut_short(options, bounds, parts, **more):
        classifier = whole(options, bounds, parts, **more)
        if bounds:
            classifier.solution_ = replace(classifier.solution_, stopped="interrupted")
        return classifier

    monkeypatch.setattr(frontier, "train", cut_short)
    code, text, _ = run("frontier", "--data", csv, "--label", "approved", "--group", "sex", "--constraint",
                        "demographic_parity", "--bounds", "0.2,0.05", "--seeds", "2", *QUICK, "--out", tmp_path / "f",
                        "--json")  # fmt: skip
    found = json.loads(text)
    assert code == 130 and found["complete"] is False
    assert [(p["bound"], p["interrupted"]) for p in found["points"]] == [(None, False), (0.05, True)]


@pytest.mark.parametrize("which", ["model", "baseline"])
def test_an_interrupted_fit_saves_its_model_trains_no_more_and_exits_130(run, csv, tmp_path, monkeypatch, which):
    from fairbound.cli.training import fit as module

    whole, made = module.train, []

    def cut_short(options, bounds, parts, shards, **more):
        classifier = whole(options, bounds, parts, shards, **more)
        made.append("model" if bounds else "baseline")
        if made[-1] == which:
            classifier.solution_ = replace(classifier.solution_, stopped="interrupted")
        return classifier

    monkeypatch.setattr(module, "train", cut_short)
    code, text, _ = fit(run, csv, tmp_path / "o", *PARITY)
    assert code == 130 and text.startswith("Interrupted")
    assert made == (["model"] if which == "model" else ["model", "baseline"])
    found = json.loads((tmp_path / "o" / "audit.json").read_text())
    schema.validate(found)
    assert found["comparison"] == [] and found["verdict"] is not None
    assert fb.FairClassifier.load(tmp_path / "o" / "model").classes_.tolist() == ["no", "yes"]


@pytest.mark.long
def test_ctrl_c_ends_fit_with_exit_code_130(csv, tmp_path):
    """With a budget of ten minutes for the model and as much for the baseline, it ends within the test's patience."""
    command = [sys.executable, "-m", "fairbound", "fit", "--data", str(csv), "--label", "approved", "--group", "sex",
               "--algorithm", "alm", "--budget", "600s", *PARITY, "--out", str(tmp_path / "o")]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        for line in running.stderr:
            if "training on" in line:
                break
        time.sleep(1.0)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=100)
    assert running.returncode == 130 and "Traceback" not in err


def test_data_sets_are_listed_and_described(run):
    code, text, _ = run("datasets", "list")
    assert code == 0 and all(name in text for name in fb.data.names())
    code, text, _ = run("datasets", "info", "adult", "--json")
    assert code == 0 and json.loads(text)["rows"] == 48842
    code, text, _ = run("datasets", "fetch", "loanapp")
    assert code == 0 and "part of the package" in text
    code, text, err = run("datasets", "info", "adlut")
    assert code == 2 and not text and "Did you mean 'adult'" in err


# -- wrong use ------------------------------------------------------------------------------------------------


def spoilt(tmp_path, **columns):
    people().assign(**columns).to_csv(tmp_path / "p.csv", index=False)
    return tmp_path / "p.csv"


def text_file(tmp_path, text):
    (tmp_path / "p.csv").write_text(text)
    return tmp_path / "p.csv"


HEAD = "pay,age,city,sex,approved\n"
BAD_FILES = {
    "empty": (lambda t: text_file(t, ""), "empty"),
    "header only": (lambda t: text_file(t, HEAD), "no rows"),
    "duplicate names": (lambda t: text_file(t, "pay,pay,sex,approved\n1,2,F,yes\n2,1,M,no\n"), "'pay'"),
    "ragged": (lambda t: text_file(t, HEAD + "1,2,Ely,F,yes\n1,2,Ely,F\n3,4,Ely,M,no\n"), "line 3"),
    "no such file": (lambda t: t / "none.csv", "does not exist"),
    "a folder": (lambda t: t, "folder"),
    "one label": (lambda t: spoilt(t, approved="yes"), "one class"),
    "three labels": (lambda t: spoilt(t, approved=lambda f: f.index % 3), "3 values"),
    "missing labels": (lambda t: spoilt(t, approved=lambda f: f["approved"].where(f.index > 3)), "4 of 800"),
    "infinite": (lambda t: spoilt(t, pay=lambda f: f["pay"].where(f.index > 3, np.inf)), "'pay'"),
    "text in a numeric column": (
        lambda t: spoilt(t, pay=lambda f: f["pay"].astype(object).where(f.index > 3, "much")),
        "'pay'",
    ),
    "no feature left": (lambda t: text_file(t, "sex,approved\nF,yes\nM,no\n"), "no column is left"),
    "one group": (lambda t: spoilt(t, sex="F"), "at least two groups"),
    "no known group": (lambda t: spoilt(t, sex=""), "no known value"),
    "too few rows": (lambda t: text_file(t, HEAD + "1,2,Ely,F,yes\n1,2,Ely,M,no\n"), "too few"),
    "groups are numbers": (lambda t: spoilt(t, sex=lambda f: f["pay"]), "Bin it"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_one_line_and_exit_code_2(run, tmp_path, case):
    make, said = BAD_FILES[case]
    code, text, err = fit(run, make(tmp_path), tmp_path / "o", *PARITY, "--json")
    last = err.splitlines()[-1]
    assert code == 2 and text == "" and "Traceback" not in err
    assert last.startswith("fairbound: ") and said in last
    assert not (tmp_path / "o" / "audit.json").exists()


BAD_OPTIONS = {
    "negative bound": (["--constraint", "demographic_parity <= -0.1"], "bound"),
    "bound above 1": (["--constraint", "demographic_parity <= 1.1"], "bound"),
    "unknown notion": (["--constraint", "parity <= 0.1"], "unknown constraint"),
    "stated twice": (["--constraint", "equal_opportunity <= 0.1"] * 2, "twice"),
    "unknown attribute": (["--constraint", "demographic_parity[race] <= 0.1"], "race"),
    "model": (["--model", "tree"], "tree"),
    "algorithm": (["--algorithm", "magic"], "magic"),
    "budget": (["--budget", "soon"], "soon"),
    "test size": (["--test-size", "1.5"], "--test-size"),
    "confidence": (["--confidence", "0.2"], "confidence"),
    "batch size": (["--batch-size", "0"], "batch-size"),
    "seed": (["--seed", "one"], "seed"),
    "positive": (["--positive", "maybe"], "maybe"),
    "label": (["--label", "aproved"], "Did you mean 'approved'"),
    "group": (["--group", "gender"], "no column 'gender'"),
    "label as group": (["--group", "approved"], "label"),
    "drop": (["--drop", "salary"], "salary"),
    "unknown option": (["--fast"], "--fast"),
}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_a_bad_option_is_one_line_and_exit_code_2(run, csv, tmp_path, case):
    options, said = BAD_OPTIONS[case]
    stated = [] if "--constraint" in options else PARITY
    code, text, err = fit(run, csv, tmp_path / "o", *stated, *options)
    last = err.splitlines()[-1]
    assert code == 2 and text == "" and "Traceback" not in err
    assert last.startswith("fairbound: ") and said in last


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fitt"], "Did you mean 'fit'"),
        (["fit"], "Missing option"),
        (["fit", "--data", "loanap", "--out", "OUT"], "Did you mean 'loanapp'"),
        (["fit", "--data", "loanapp", "--label", "sex", "--out", "OUT"], "leave --label out"),
        (["fit", "--data", "loanapp", "--group", "age", "--out", "OUT"], "no column 'age'"),
        (["fit", "--data", "bank", "--data-dir", "nowhere", "--out", "OUT"], "nowhere"),
        (["audit", "--data", "CSV", "--label", "approved", "--group", "sex", "--out", "OUT"], "either --score"),
        (
            ["audit", "--data", "CSV", "--label", "approved", "--group", "sex", "--score", "city", "--out", "OUT"],
            "city",
        ),
        (["audit", "--data", "CSV", "--label", "approved", "--group", "sex", "--model", "no", "--out", "OUT"], "no"),
        (["frontier", "--data", "CSV", "--constraint", "recall of b", "--out", "OUT"], "recall of class b >= 0.95"),
        (
            ["frontier", "--data", "CSV", "--constraint", "demographic_parity <= 0.1", "--out", "OUT"],
            "without its bound",
        ),
        (
            ["frontier", "--data", "CSV", "--constraint", "demographic_parity", "--bounds", "x", "--out", "OUT"],
            "--bounds",
        ),
    ],
)
def test_wrong_use_of_the_commands(run, csv, tmp_path, arguments, said):
    places = {"OUT": tmp_path / "o", "CSV": csv}
    code, text, err = run(*(places.get(a, a) for a in arguments))
    assert code == 2 and text == "" and err.startswith("fairbound: ") and said in err and "Traceback" not in err


def test_an_output_folder_that_cannot_be_written_is_found_before_training(run, csv, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(fb.FairClassifier, "fit", lambda *a, **k: pytest.fail("trained first"))
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        code, _, err = fit(run, csv, out, *PARITY)
        assert code == 2 and "file" in err and err.startswith("fairbound: ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--algorithm", "magic"], "magic"),
        (["--model", "tree"], "tree"),
        (["--budget", "soon"], "soon"),
        (["--test-size", "2"], "--test-size"),
        (["--confidence", "0.4"], "--confidence"),
    ],
)
@pytest.mark.parametrize("command", ["fit", "frontier"])
def test_a_wrong_option_is_found_before_the_table_is_read(run, tmp_path, command, options, said):
    stated = "demographic_parity" if command == "frontier" else "demographic_parity <= 0.1"
    code, _, err = run(command, "--data", tmp_path / "no.csv", "--label", "y", "--constraint", stated, *options, "--out",
                       tmp_path / "o")  # fmt: skip
    assert code == 2 and said in err and "no.csv" not in err and not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("command", "given"),
    [
        ("fit", ["--constraint", "residual_gap <= 0.1", "--out", "o"]),
        (
            "fit",
            ["--constraint", "residual_gap <= 0.1", "--out", "o", "--estimator", "sklearn.tree.DecisionTreeClassifier"],
        ),
        ("frontier", ["--constraint", "residual_gap", "--out", "o"]),
        ("feasibility", ["--constraint", "residual_gap <= 0.1"]),
    ],
)
def test_bounds_on_numbers_are_sent_to_regress(run, csv, command, given):
    code, _, err = run(command, "--data", csv, "--label", "age", "--group", "sex", *given)
    assert code == 2 and f"and {command} takes bounds on classes only; train under it with fairbound regress." in err


def test_a_long_list_of_columns_says_how_many_it_leaves_out(run, tmp_path):
    pd.DataFrame({f"c{i}": [0, 1] for i in range(30)}).to_csv(tmp_path / "p.csv", index=False)
    code, _, err = run("fit", "--data", tmp_path / "p.csv", "--label", "zzz", "--group", "c1", "--out", tmp_path / "o")
    assert code == 2 and "c19 and 10 more." in err and "c20" not in err


def test_a_full_disk_is_one_line(run, csv, tmp_path, monkeypatch):
    from fairbound import report as module

    def full(folder, contents, removed):
        raise OSError(28, f"could not write {str(folder)!r}: the disk is full")

    fit(run, csv, tmp_path / "o", *PARITY)
    before = {path: path.read_bytes() for path in (tmp_path / "o").rglob("*") if path.is_file()}
    monkeypatch.setattr(module, "atomic_write_many", full)
    code, text, err = fit(run, csv, tmp_path / "o", *PARITY, "--seed", "1")
    assert code == 2 and text == "" and "the disk is full" in err.splitlines()[-1]
    assert before == {path: path.read_bytes() for path in (tmp_path / "o").rglob("*") if path.is_file()}


def test_a_truncated_model_is_one_line(run, csv, tmp_path):
    fit(run, csv, tmp_path / "o", *PARITY)
    for file in (tmp_path / "o" / "model").iterdir():
        file.write_bytes(file.read_bytes()[:20])
    code, _, err = run("audit", "--data", csv, "--model", tmp_path / "o" / "model", "--label", "approved", "--group",
                       "sex", "--out", tmp_path / "a")  # fmt: skip
    assert code == 2 and "damaged or cut off" in err and "Traceback" not in err


def test_debug_shows_where_an_error_arose(run, tmp_path):
    code, _, err = fit(run, tmp_path / "none.csv", tmp_path / "o", "--debug")
    assert code == 2 and "Traceback" in err and err.splitlines()[-1].startswith("fairbound: ")


def test_an_error_of_ours_is_one_line_too(run, csv, tmp_path, monkeypatch):
    from fairbound.cli.training import fit as module

    monkeypatch.setattr(module, "judge", lambda *a: 1 / 0)
    code, _, err = fit(run, csv, tmp_path / "o", *PARITY)
    assert code == 2 and err.splitlines()[-1] == "fairbound: ZeroDivisionError: division by zero (--debug shows where)"


def test_help_and_version(run):
    assert run("--version") == (0, f"{fb.__version__}\n", "")
    for arguments in ([], ["--help"], ["datasets"], ["fit", "--help"]):
        code, text, err = run(*arguments)
        assert code == 0 and "Usage: fairbound" in text and not err
    assert "not enough evidence" in " ".join(run("--help")[1].split())


def test_without_typer_the_message_names_the_extra(capsys, monkeypatch):
    monkeypatch.setattr(cli, "typer", None)
    assert cli.main(["fit"]) == 2
    assert "pip install 'fairbound[cli]'" in capsys.readouterr().err


def test_the_installed_command_returns_the_exit_code():
    done = subprocess.run([sys.executable, "-m", "fairbound", "fit", "--fast"], capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith("fairbound: ")
    assert len(done.stderr.splitlines()) == 1


def test_features_that_look_like_identifiers_are_named_with_the_option_that_leaves_them_out(run, csv, tmp_path):
    frame = pd.read_csv(csv)
    frame["case"] = np.cumsum(np.random.default_rng(0).integers(1, 5, len(frame))) + 1000
    frame.to_csv(tmp_path / "t.csv", index=False)
    said = "These columns look like identifiers of rows or persons, and are features: case. Leave them out with --drop"
    fit(run, tmp_path / "t.csv", tmp_path / "o", *PARITY)
    audit = json.loads((tmp_path / "o" / "audit.json").read_text())
    assert sum(warning.startswith(said) for warning in audit["warnings"]) == 1
    fit(run, tmp_path / "t.csv", tmp_path / "d", *PARITY, "--drop", "case")
    assert "look like identifiers" not in (tmp_path / "d" / "audit.json").read_text()


def test_wrong_use_points_at_the_help_of_its_command(run):
    code, _, said = run("fit", "--postive", "yes")
    assert code == 2 and "See fairbound fit --help." in said


def test_groups_left_out_by_fewest_are_named_before_a_bound_is_chosen(run, tmp_path):
    table = people()
    table.loc[table.index[::90], "sex"] = "X"
    table.to_csv(tmp_path / "few.csv", index=False)
    bound = "demographic_parity[fewest=20]"
    usual = ["--data", tmp_path / "few.csv", "--label", "approved", "--group", "sex", *QUICK, "--out", tmp_path]
    code, text, _ = run("frontier", *usual, "--constraint", bound, "--bounds", "0.2", "--seeds", 1)
    assert code == 0 and "Rows held out with seed 0: left out (fewest=20): 1 group with" in text and "X (" in text
    found = json.loads((tmp_path / "frontier.json").read_text())
    assert all(point["left_out_groups"][0]["group"].endswith("X") for point in found["points"])
    code, text, _ = run("feasibility", *usual, "--constraint", f"{bound} <= 0.2")
    assert code == 0 and "Left out (fewest=20): 1 group with" in text
    assert json.loads((tmp_path / "feasibility.json").read_text())["left_out"] == ["X"]


@pytest.mark.parametrize(
    ("algorithm", "bound"),
    [
        ("sgd_fairret", "demographic_parity <= 0.2"),
        ("sgd_correlation", "demographic_parity <= 0.2"),
        ("idca", "partial_statistical_parity[0.5:0.9] <= 0.5"),
    ],
)
def test_a_method_that_needs_groups_or_a_bound_has_a_model_without_bounds_beside_it(
    run, csv, tmp_path, algorithm, bound
):
    short = ["--algorithm", algorithm, "--budget", "3 steps"]
    code, _, said = fit(run, csv, tmp_path / "out", "--constraint", bound, *short)
    assert code in (0, 1, 3), said
    audit = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert [m["name"] for m in audit["comparison"]] == ["constrained", "unconstrained"]
    notion, _, number = bound.partition(" <= ")
    source = ["--data", csv, "--label", "approved", "--group", "sex", *short, "--seeds", 1]
    code, _, said = run("frontier", *source, "--constraint", notion, "--bounds", number, "--out", tmp_path / "f")
    assert code == 0, said
    if algorithm != "idca":  # a penalty without a bound
        assert fit(run, csv, tmp_path / "alone", *short)[0] == 0
        assert fb.load(tmp_path / "alone" / "model").fit_report_["algorithm"] == algorithm
