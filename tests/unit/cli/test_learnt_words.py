"""Categories that are spelt as a missing value is: a saved model knows them, and training says where they are lost."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import pytest

import fairbound as fb
from fairbound.tables import Chunks, Kinds, read_table
from fairbound.tables.notation import MISSING_WORDS

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")

BOUND = ("--constraint", "demographic_parity <= 0.4")
TRAIN = (*BOUND, "--algorithm", "alm", "--budget", "20 steps")


def drugs(rows=600, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "prev": rng.choice(["None", "N/A", "Fine", "?", ""], rows, p=[0.5, 0.15, 0.15, 0.1, 0.1]),
        "amount": rng.normal(size=rows).round(3),
        "sex": rng.choice(["f", "m"], rows),
    })  # fmt: skip
    effect = frame.prev.map({"None": 1.5, "N/A": -1.5, "Fine": 0.3, "?": 1.0, "": -0.5})
    return frame.assign(y=np.where(frame.amount + effect + rng.normal(size=rows) > 0, "yes", "no"))


@pytest.fixture
def folder(tmp_path, run):
    """A model of texts of Parquet, and the same new rows as CSV and as Parquet."""
    pytest.importorskip("pyarrow")
    drugs().to_parquet(tmp_path / "train.parquet")
    words = ("--data", tmp_path / "train.parquet", "--label", "y", "--group", "sex", *TRAIN)
    code, _, said = run("fit", *words, "--out", tmp_path / "fit", "--no-baseline")
    assert code in (0, 1, 3), said
    new = drugs(seed=1)
    new.to_csv(tmp_path / "new.csv", index=False)
    new.to_parquet(tmp_path / "new.parquet")
    return tmp_path


def test_a_category_that_a_model_learnt_is_no_missing_value_of_a_csv_file(folder, run):
    scores, measured = [], []
    for name in ("new.csv", "new.parquet"):
        words = ("--data", folder / name, "--model", folder / "fit/model")
        code, out, said = run("predict", *words, "--out", folder / "out.csv", "--json")
        assert code == 0, said
        assert not json.loads(out)["warnings"] + json.loads(out)["notes"]
        scores.append(pd.read_csv(folder / "out.csv").score.to_numpy())
        for more in ((), ("--chunk-rows", 250)):
            audit = ("--label", "y", "--group", "sex", *BOUND, "--out", folder / "audit", "--json", *more)
            code, out, said = run("audit", *words, *audit)
            assert code in (0, 1, 3), said
            measured.append(json.loads(out)["metrics"]["accuracy"])
    np.testing.assert_array_equal(*scores)
    assert len(measured) == 4 and len(set(measured)) == 1


def test_so_it_is_where_models_are_compared_and_monitored(folder, run):
    found = []
    for name in ("new.csv", "new.parquet"):
        rows = ("--data", folder / name, "--label", "y")
        code, out, said = run("compare", folder / "fit/model", "amount>0", *rows, "--group", "sex", "--json")
        assert code in (0, 1, 3), said
        state = folder / f"state of {name}"
        code, seen, said = run(
            "monitor", *rows, "--group", "sex", "--model", folder / "fit/model", *BOUND, "--state", state, "--json"
        )
        assert code in (0, 1, 3), said
        found.append([json.loads(text) for text in (out, seen)])
    for one, other in zip(*found, strict=True):
        assert _numbers(one) == _numbers(other) != []


def test_two_models_read_a_word_each_as_it_was_learnt(folder, run):
    drugs().to_csv(folder / "train.csv", index=False)
    words = ("--data", folder / "train.csv", "--label", "y", "--group", "sex", *TRAIN)
    assert run("fit", *words, "--out", folder / "gaps", "--no-baseline")[0] in (0, 1, 3)
    rows, found = ("--data", folder / "new.csv"), {}
    for name in ("fit", "gaps"):
        assert run("predict", *rows, "--model", folder / name / "model", "--out", folder / f"{name}.csv")[0] == 0
        found[name] = pd.read_csv(folder / f"{name}.csv").score > 0
    groups = [[by_sex.mean() for _, by_sex in found[name].groupby(drugs(seed=1).sex)] for name in found]
    for label in ((), ("--label", "y")):
        models = [folder / name / "model" for name in found]
        code, out, said = run("compare", *models, *rows, *label, "--group", "sex", *BOUND, "--json")
        assert code in (0, 1, 3), said
        compared = json.loads(out)
        assert compared["changed"] == (found["fit"] != found["gaps"]).sum() > 0
        rates = [row for row in compared["differences"] if row["name"].startswith("selection_rate, sex")]
        assert [[row[side] for row in rates] for side in ("first", "second")] == groups


def test_each_model_reads_the_rows_without_a_label_as_it_learnt_them(folder, run):
    drugs().to_csv(folder / "train.csv", index=False)
    words = ("--data", folder / "train.csv", "--label", "y", "--group", "sex", *TRAIN)
    assert run("fit", *words, "--out", folder / "gaps", "--no-baseline")[0] in (0, 1, 3)
    new = drugs(seed=1)
    new["y"] = new.y.where(new.amount > 0)
    known = new.y.notna().to_numpy()
    new.to_csv(folder / "new.csv", index=False)
    models, rows = [folder / name / "model" for name in ("fit", "gaps")], ("--data", folder / "new.csv")
    more = ("--label", "y", "--group", "sex", *BOUND, "--drop-missing-labels", "--json")
    code, out, said = run("compare", *models, *rows, *more)
    assert code in (0, 1, 3), said
    for model in models:
        assert run("predict", *rows, "--model", model, "--out", folder / "o.csv")[0] == 0
        chosen = pd.read_csv(folder / "o.csv").score > 0
        shares = [f"{100 * chosen[part].mean():.3g} % of" for part in (~known, known)]
        begins = f"{model}: The rows without an outcome are unlike those judged: the model selects"
        (line,) = (line for line in json.loads(out)["warnings"] if line.startswith(begins))
        assert f"{begins} {shares[0]} the {(~known).sum()} rows without one, and {shares[1]} those judged" in line


def _numbers(value):
    """All numbers of what a command says, but how long it took."""
    if isinstance(value, dict):
        return [number for key, each in value.items() if key != "seconds" for number in _numbers(each)]
    if isinstance(value, list):
        return [number for each in value for number in _numbers(each)]
    return [value] if isinstance(value, float) else []


def test_kinds_of_an_encoder_keep_its_words_alone(tmp_path):
    drugs().to_csv(tmp_path / "new.csv", index=False)
    encoder = fb.TableEncoder().fit(drugs()[["prev", "amount"]])
    kinds = Kinds.learnt(encoder)
    frame = read_table(tmp_path / "new.csv", kinds=kinds)
    assert frame.prev.fillna("").tolist() == drugs().prev.tolist() and frame.prev.isna().any()
    parts = list(Chunks.read(tmp_path / "new.csv", rows=100, kinds=kinds, columns=["prev", "y"]))
    assert pd.concat(parts).prev.fillna("").tolist() == drugs().prev.tolist()
    lone = pd.DataFrame({"prev": ["NULL", *MISSING_WORDS[1:]], "amount": "NA"})
    lone.to_csv(tmp_path / "lone.csv", index=False)
    frame = read_table(tmp_path / "lone.csv", kinds=kinds)
    assert sorted(frame.prev.dropna()) == ["?", "N/A", "None"] and frame.amount.isna().all()


def test_cells_that_pandas_takes_for_missing_are_missing(tmp_path):
    words = pd.Series(MISSING_WORDS)
    (tmp_path / "all.csv").write_text("a,b\n" + "".join(f'"{word}",x\n' for word in words))
    assert read_table(tmp_path / "all.csv").a.isna().all()
    assert pd.read_csv(tmp_path / "all.csv").a.dropna().tolist() == ["?", "."]


def test_training_says_once_which_words_count_as_missing(tmp_path, run):
    frame = drugs()
    frame["few"] = np.where(np.arange(len(frame)) < 10, "NA", ["a", "b"] * 300)
    frame["gap"] = np.where(np.arange(len(frame)) % 3 == 0, "", "x")
    frame["number"] = np.where(np.arange(len(frame)) % 3 == 0, "NA", frame.amount.astype(str))
    frame.to_csv(tmp_path / "train.csv")
    for more in ((), ("--drop", "prev")):
        words = ("--data", tmp_path / "train.csv", "--label", "y", "--group", "sex", *TRAIN, *more)
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            code, _, said = run("fit", *words, "--no-baseline", "--out", tmp_path / "fit", "--json")
        assert said.count("the first column has no name") == 1
        assert code in (0, 1, 3), said
        notes = [
            note
            for note in json.loads((tmp_path / "fit/audit.json").read_text())["notes"]
            if "count as missing" in note
        ]
        rows = (frame.prev == "None").sum()
        whole = [
            f"Cells 'None' of column prev count as missing: {rows} of 600 rows. If they are a category, write them"
        ]
        assert [note[: len(whole[0])] for note in notes] == whole * (not more)


@pytest.mark.parametrize("more", [(), ("--keep-sensitive",)])
def test_training_says_that_a_group_called_na_counts_as_missing(tmp_path, run, more):
    frame = (
        drugs().drop(columns="prev").assign(region=np.resize(["NA", "EU", "AS"], 600), code=np.resize(["None", 1], 600))
    )
    frame.to_csv(tmp_path / "train.csv", index=False)
    words = ("--data", tmp_path / "train.csv", "--label", "y", "--group", "region,sex", *TRAIN, *more)
    code, _, said = run("fit", *words, "--no-baseline", "--out", tmp_path / "fit", "--json")
    assert code in (0, 1, 3), said
    notes = [
        note for note in json.loads((tmp_path / "fit/audit.json").read_text())["notes"] if "count as missing" in note
    ]
    assert notes == [
        "Cells 'NA' of column region count as missing: 200 of 600 rows, which are in no group. If 'NA' is a group, write it "
        "otherwise, or save the table as Parquet, where it is text."
    ]
