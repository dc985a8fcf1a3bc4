"""What training never met, in the rows that a saved model is given: every command says it once, in what it writes."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import fairbound as fb
from fairbound.base.errors import DataWarning
from fairbound.cli import predict as command

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")

OUTSIDE = (
    "{} of 600 rows have a value of 'reg' that the thresholds were not fitted to; the threshold of all rows together"
)


@pytest.fixture
def folder(tmp_path):
    """A model with thresholds by region, where some rows of training have none, one without, and new rows of which 90 are of another region and one has a
    mistyped amount."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=600).round(3), "reg": rng.choice(["north", "south"], 600)})
    frame["y"] = np.where(frame.x + (frame.reg == "north") + rng.normal(size=600) > 0.5, "yes", "no")
    for name, by_group in (("by group", True), ("plain", False)):
        model = fb.FairClassifier("demographic_parity <= 0.2", use_groups_at_prediction=by_group, budget="50 steps")
        some_missing = frame.reg.where(frame.index % 10 > 0)
        with pytest.warns(DataWarning, match="reg is missing in 60 training rows"):
            model.fit(frame[["x"]], frame.y, sensitive_features=some_missing).save(tmp_path / name)
    frame.loc[::7, "reg"] = "west"
    frame.loc[590, "x"] = 5000.0
    frame.to_csv(tmp_path / "new.csv", index=False)
    return tmp_path


def said_by(run, *args):
    """The warnings of a command's JSON, and standard error."""
    code, out, err = run(*args, "--json")
    assert code in (0, 1, 3), err
    return json.loads(out)["warnings"], err


def test_predict_counts_rows_of_unknown_groups_in_all_parts_together(run, folder, monkeypatch):
    monkeypatch.setattr(command, "ROWS", 64)
    args = ("predict", "--data", folder / "new.csv", "--model", folder / "by group", "--out", folder / "out.csv")
    said, err = said_by(run, *args)
    assert [line.startswith(OUTSIDE.format(86)) for line in said].count(True) == 1 and "not fitted to" not in err
    assert any("1 of 600 rows hold a value far outside training's range" in line for line in said)


@pytest.mark.parametrize("more", [(), ("--chunk-rows", 77)])
@pytest.mark.parametrize("label", [(), ("--label", "y")])
def test_an_audit_writes_them_into_its_report(run, folder, more, label):
    args = ("--data", folder / "new.csv", "--model", folder / "by group", "--group", "reg", "--out", folder / "o")
    said, err = said_by(run, "audit", *args, *label, *more)
    assert json.loads((folder / "o" / "audit.json").read_text())["warnings"] == said
    assert [line.startswith(OUTSIDE.format(86)) for line in said].count(True) == 1 and "not fitted to" not in err


@pytest.mark.parametrize("label", [(), ("--label", "y")])
def test_a_comparison_names_the_model_and_a_monitor_keeps_them(run, folder, label):
    args = ("--data", folder / "new.csv", "--group", "reg", *label)
    far = "x: 1 of 600 rows hold a value far outside training's range"
    two = (folder / "plain", folder / "by group")
    said, err = said_by(run, "compare", *two, *args, "--out", folder / "c")
    assert json.loads((folder / "c" / "compare.json").read_text())["warnings"] == said
    starts = [f"{two[0]}: {far}", f"{two[1]}: {far}", f"{two[1]}: {OUTSIDE.format(86)}"]
    assert [sum(line.startswith(start) for line in said) for start in starts] == [1, 1, 1]
    assert sum("not fitted to" in line for line in said) == 1
    assert "far outside" not in err and "not fitted to" not in err
    said, err = said_by(run, "monitor", *args, "--model", two[1], "--state", folder / "m")
    assert any(line.startswith(far) for line in said) and any(line.startswith(OUTSIDE.format(86)) for line in said)
    assert "far outside" not in err and "not fitted to" not in err


def test_an_audit_of_numbers_or_of_an_order_writes_them_too(run, folder):
    new = pd.read_csv(folder / "new.csv").assign(q=np.repeat(np.arange(100), 6), grade=np.resize([0, 1, 2], 600))
    new.to_csv(folder / "new.csv", index=False)
    old = new[new.x < 5000]
    fb.FairRegressor("residual_gap <= 0.5", budget="5 steps").fit(
        old[["x"]], old.grade, sensitive_features=old[["reg"]]
    ).save(folder / "number")
    fb.FairRanker("exposure_parity <= 0.5", budget="5 steps").fit(
        old[["x"]], old.grade, old.q, sensitive_features=old[["reg"]]
    ).save(folder / "order")
    args = ("audit", "--data", folder / "new.csv", "--label", "grade", "--group", "reg", "--out", folder / "o")
    for more in (("--model", folder / "number"), ("--model", folder / "order", "--qid", "q")):
        said, err = said_by(run, *args, *more)
        assert any("1 of 600 rows hold a value far outside training's range" in line for line in said), err
        assert "far outside" not in err
