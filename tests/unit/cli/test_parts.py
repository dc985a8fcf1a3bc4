"""Parquet files, and files read in parts: the command line's verdicts are those of the file read whole."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fairbound as fb
from fairbound.report import schema

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
pytest.importorskip("matplotlib", reason="the page's charts need the extra 'report'")
PARITY = ["--constraint", "demographic_parity <= 0.2"]


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    n = 800
    sex, skill = rng.choice(["F", "M"], n), rng.normal(size=n)
    pay = np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n) + (sex == "M"))
    approved = np.where(np.nan_to_num(pay) + 2 * skill > 0.6, "yes", "no")
    city, likely = rng.choice(["Bath", "Ely", None], n), 1 / (1 + np.exp(-skill))
    frame = pd.DataFrame({"pay": pay, "skill": skill, "city": city, "sex": sex, "p": likely, "approved": approved})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    return {"csv": tmp_path / "t.csv", "parquet": tmp_path / "t.parquet"}


def audit_of(folder):
    found = json.loads((folder / "audit.json").read_text())
    schema.validate(found)
    return found


def fit(run, source, out, *more):
    code, _, error = run(
        "fit", "--data", source, "--label", "approved", "--group", "sex", "--drop", "p", "--budget", "300 steps",
        "--no-baseline", "--out", out, *PARITY, *more,
    )  # fmt: skip
    assert code in (0, 1, 3), error
    return audit_of(out)


def test_fit_in_parts_is_fit_of_the_whole_file(run, files, tmp_path):
    whole = fit(run, files["csv"], tmp_path / "whole")
    for kind, more in (("parquet", ["--chunk-rows", 90]), ("csv", ["--chunk-rows", 300])):
        found = fit(run, files[kind], tmp_path / f"{kind}{len(more)}", *more)
        assert found["data"]["train_rows"] == whole["data"]["train_rows"] == 600
        for mine, other in zip(found["constraints"], whole["constraints"], strict=True):
            assert mine["groups"] == other["groups"] and mine["value"] == pytest.approx(other["value"], abs=0.02)
        assert found["metrics"]["auc"] == pytest.approx(whole["metrics"]["auc"], abs=1e-3)
        assert any("read in parts (--chunk-rows)" in said for said in found["notes"])
    assert not any("read in parts (--chunk-rows)" in said for said in whole["notes"])


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_audit_in_parts_is_audit_of_the_whole_file(run, files, tmp_path, kind):
    fit(run, files["csv"], tmp_path / "fit")
    for source in (["--score", "p"], ["--model", tmp_path / "fit" / "model"]):
        found = []
        for more in ([], ["--chunk-rows", 130]):
            out = tmp_path / f"{len(more)}"
            code, _, error = run(
                "audit", "--data", files[kind], "--label", "approved", "--group", "sex", "--out", out, *source, *PARITY,
                *more,
            )  # fmt: skip
            assert code in (0, 1, 3), error
            found.append(audit_of(out))
        whole, parts = found
        same = ("constraints", "distributions", "verdict", "exit_code", "data", "model", "title")
        assert {k: whole[k] for k in same} == {k: parts[k] for k in same}
        assert whole["metrics"]["accuracy"] == parts["metrics"]["accuracy"] and parts["metrics"]["auc"] is None
        assert (kind == "csv" and "--model" in source) == any("trained on" in line for line in parts["warnings"])


@pytest.mark.parametrize("more", [[], ["--label", "approved"]], ids=["without labels", "with labels"])
def test_a_saved_model_notes_the_same_of_rows_read_in_parts(run, files, tmp_path, more):
    fit(run, files["csv"], tmp_path / "fit")
    new = pd.read_csv(files["csv"])
    new.loc[::100, "city"], new.loc[3, "skill"] = "Rome", np.nan
    new.assign(other=1).to_csv(files["csv"], index=False)
    noted = []
    for parts in ([], ["--chunk-rows", 130]):
        args = ("--data", files["csv"], "--model", tmp_path / "fit" / "model", "--group", "sex", *PARITY, *more)
        code, _, error = run("audit", *args, "--out", tmp_path / "o", *parts)
        assert code in (0, 1, 3), error
        noted.append([line for line in audit_of(tmp_path / "o")["notes"] if ": " in line])
    assert noted[0] == noted[1] and {
        "city: 8 of 800 rows have a value unseen or too rare in training.",
        "skill: 1 of 800 rows are missing.",
        "other: not in the training table, ignored.",
    } <= set(noted[0])


@pytest.mark.parametrize(
    "score",
    [
        ("logit",),
        ("p",),
        ("p", "--threshold", 0.3),
        ("said",),
        ("said=yes",),
        ("p>0.4",),
        ("p<0.4", "--positive", "no"),
    ],
    ids=str,
)
def test_a_column_is_read_in_parts_as_in_the_whole_file(run, tmp_path, score):
    """The first rows hold decisions, or probabilities, and later ones show that the column holds neither."""
    rng = np.random.default_rng(1)
    logit = np.abs(rng.normal(size=600)) * np.where(np.arange(600) < 100, 0.1, rng.choice([-1, 1], 600))
    p = np.where(np.arange(600) < 100, rng.choice([0.0, 1.0], 600), 1 / (1 + np.exp(-logit)))
    y = np.where(logit + rng.normal(size=600) > 0, "yes", "no").astype(object)
    y[5::50] = None
    said = np.where(np.arange(600) < 100, "no", np.where(p > 0.5, "yes", "no"))
    frame = pd.DataFrame({"logit": logit, "p": p, "said": said, "y": y, "g": rng.choice(["F", "M"], 600)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    found = []
    for more in ((), ("--chunk-rows", 70)):
        out = tmp_path / f"{len(more)}"
        code, _, error = run(
            "audit", "--data", tmp_path / "t.csv", "--label", "y", "--group", "g", "--score", *score, "--out", out, *PARITY,
            "--drop-missing-labels", *more,
        )  # fmt: skip
        assert code in (0, 1, 3), error
        found.append(audit_of(out))
    whole, parts = found
    same = ("constraints", "distributions", "verdict", "data", "warnings", "notes")
    assert {k: whole[k] for k in same} == {k: parts[k] for k in same}
    assert whole["metrics"]["accuracy"] == parts["metrics"]["accuracy"]


def test_what_cannot_be_read_in_parts_is_said(run, files, tmp_path):
    code, _, error = run("fit", "--data", "loanapp", "--chunk-rows", 10, "--out", tmp_path / "o", *PARITY)
    assert code == 2 and "--chunk-rows is for files" in error
    code, _, error = run(
        "audit", "--data", files["csv"], "--label", "approved", "--group", "sex", "--score", "p", "--chunk-rows", 99,
        "--constraint", "loss_gap <= 0.1", "--out", tmp_path / "o",
    )  # fmt: skip
    assert code == 2 and "cannot be judged from counts" in error
    rng = np.random.default_rng(0)
    three = pd.DataFrame({"x": rng.normal(size=300), "y": rng.choice(["a", "b", "c"], 300)})
    three.to_csv(tmp_path / "three.csv", index=False)
    fb.FairClassifier(budget="20 steps").fit(three[["x"]], three.y).save(tmp_path / "model")
    args = ("--data", tmp_path / "three.csv", "--label", "y", "--model", tmp_path / "model", "--out", tmp_path / "o")
    code, _, error = run("audit", *args, "--chunk-rows", 99)
    assert code == 2 and "has 3 classes, and rows that are read in parts are counted for two" in error
    assert run("audit", *args)[0] == 0


@pytest.fixture
def judged(run, tmp_path):
    """The audit in parts of a saved model on rows that are given, with a label or without: its exit code and what it
    prints."""
    rng = np.random.default_rng(0)
    old = pd.DataFrame({"x": rng.normal(size=300), "sex": rng.choice(["F", "M"], 300)})
    model = fb.FairClassifier("demographic_parity <= 0.5", budget="20 steps", algorithm="alm")
    model.fit(old[["x"]], old.x + rng.normal(size=300) > 0, sensitive_features=old.sex).save(tmp_path / "model")

    def audit(rows, group, *more):
        rows.assign(y=rng.random(len(rows)) > 0.5).to_csv(tmp_path / "new.csv", index=False)
        args = ("--data", tmp_path / "new.csv", "--model", tmp_path / "model", "--group", group, "--chunk-rows", 150)
        code, _, error = run("audit", *args, "--out", tmp_path / "o", *more)
        return code, error

    return audit


@pytest.mark.parametrize("more", [(), ("--label", "y")], ids=["without labels", "with labels"])
def test_groups_of_parts_are_looked_at_of_the_whole_file(judged, more):
    rows = pd.DataFrame({"x": np.linspace(-2, 2, 2000), "id": [f"p{i}" for i in range(2000)]})
    rows["region"] = [f"r{i % 150}" for i in range(2000)]
    code, error = judged(rows.assign(g=None), "g", *more)
    assert code == 2 and "the sensitive attribute 'g' has no known value" in error
    code, error = judged(rows.assign(g=0.5 + np.arange(2000) % 30), "g", *more)
    assert code == 2 and "the sensitive attribute 'g' has 30 values in 2000 rows, such as" in error
    code, error = judged(rows, "id", *more)  # it ends as soon as these are too many for a file of 2,000 rows
    assert code == 2 and "the sensitive attribute 'id' has 300 values in 2000 rows, such as" in error
    code, error = judged(rows, "region", *more)  # of which the first part shows as many as it has rows
    assert code in (0, 1, 3), error
