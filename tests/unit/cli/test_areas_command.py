"""`fairbound stream` and `fairbound shift`: what Python does, on files, with the report of what it gave."""

import json

import numpy as np
import pandas as pd
import pytest

import fairbound as fb
from fairbound.ranking.wins import auc

BOUND = "auc_parity[group] <= 0.1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng, n = np.random.default_rng(0), 600
    made = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "city": rng.choice(["x", "y", "z"], n)})
    made["sex"] = np.where(rng.random(n) < 1 / (1 + np.exp(-2 * made.a)), "M", "F")
    made["hired"] = np.where(made.a + made.b + rng.normal(size=n) > 0, "yes", "no")
    made["score"] = (made.a + 0.5 * made.b).round(6)
    made.loc[::50, "b"] = np.nan
    where = tmp_path_factory.mktemp("areas")
    made.to_csv(where / "rows.csv", index=False)
    return where


def test_a_stream_is_read_in_chunks_and_judged(run, folder):
    common = [
        "--data", folder / "rows.csv", "--label", "hired", "--group", "sex", "--constraint", BOUND,
        "--drop", "score"
    ]  # fmt: skip
    weights = {}
    for rows in (100, 333):
        code, out, _ = run("stream", *common, "--chunk-rows", rows, "--out", folder / f"s{rows}", "--json")
        found = json.loads(out)
        assert code in (0, 1, 3) and found["constraints"][0]["text"] == BOUND
        weights[rows] = json.loads((folder / f"s{rows}" / "weights.json").read_text())
        audit = json.loads((folder / f"s{rows}" / "audit.json").read_text())
        assert audit["metrics"]["auc"] > 0.6 and audit["roc"] and any("surrogate that met" in n for n in audit["notes"])
    assert weights[100]["met_on_sample"] is True and weights[100]["rows"] == 450
    assert weights[100]["weights"].keys() == weights[333]["weights"].keys()
    for name, value in weights[100]["weights"].items():
        assert value == pytest.approx(weights[333]["weights"][name], rel=1e-6, abs=1e-8)
    free, _, _ = run(
        "stream", *common[:6], "--constraint", "auc_parity[group] <= 1", "--drop", "score", "--out", folder / "free"
    )
    assert free == 0
    area = [json.loads((folder / d / "audit.json").read_text())["constraints"][0]["value"] for d in ("free", "s100")]
    assert area[0] > area[1] + 0.05


def test_steps_on_single_rows_and_named_data(run, folder):
    code, _, err = run(
        "stream", "--data", "loanapp", "--constraint", "auc_parity[inter] <= 0.3", "--solver", "rows", "--kappa", "0.3",
        "--out", folder / "rows", "--json",
    )  # fmt: skip
    assert code in (0, 1, 3), err
    assert json.loads((folder / "rows" / "weights.json").read_text())["kappa"] == 0.3


def test_scores_are_shifted_and_judged_on_other_rows(run, folder):
    common = ["--data", folder / "rows.csv", "--label", "hired", "--score", "score", "--group", "sex"]
    code, out, _ = run("shift", *common, "--constraint", BOUND, "--out", folder / "m", "--json")
    assert code in (0, 1, 3) and json.loads(out)["constraints"][0]["value"] < 0.2
    frame, made = pd.read_csv(folder / "rows.csv"), json.loads((folder / "m" / "shift.json").read_text())
    moved = pd.read_csv(folder / "m" / "scores.csv")
    mine = (frame.sex == made["group"]).to_numpy()
    expected = np.where(mine, made["scale"] * frame.score + made["shift"], frame.score)
    assert moved.score.to_numpy() == pytest.approx(expected, abs=1e-12) and made["met_on_fitted_rows"]
    held = moved.held_out.to_numpy() == 1
    y = (frame.hired == "yes").to_numpy()[held]
    audit = json.loads((folder / "m" / "audit.json").read_text())
    assert audit["metrics"]["auc"] == pytest.approx(auc(moved.score[held], y, ~y), abs=1e-9)
    value = fb.measure("auc_parity[group]", moved.score[held], y.astype(int), frame.sex[held], threshold=0)
    assert audit["constraints"][0]["value"] == pytest.approx(value, abs=1e-12)
    assert audit["comparison"][-1]["constraints"][0]["value"] > 0.2  # before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["stream", "--constraint", "demographic_parity <= 0.1"], "takes one auc_parity"),
        (["stream"], "one bound on areas"),
        (["stream", "--constraint", BOUND, "--solver", "rows"], "needs --kappa"),
        (["shift", "--score", "score", "--constraint", BOUND, "--test-size", "1.5"], "--test-size"),
        (["shift", "--score", "score", "--constraint", "auc_parity[intra] <= 0.1"], "order within"),
        (["shift", "--score", "city", "--constraint", BOUND], "no numbers"),
        (["shift", "--score", "score", "--constraint", BOUND, "--move", "X"], "no row is in group"),
    ],
)
def test_what_is_refused(run, folder, arguments, said):
    common = ["--data", folder / "rows.csv", "--label", "hired", "--group", "sex", "--out", folder / "no"]
    code, _, err = run(arguments[0], *common, *arguments[1:])
    assert code == 2 and said in err


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("sex", "gone.csv: scores are moved for one of two groups, which must be known for every row: 'sex' is missing in 2 of 600"),
        ("score", "gone.csv: the score is missing or infinite in 2 of 600 rows, the first in line 6 of the file"),
    ],
)  # fmt: skip
def test_shift_says_where_groups_and_scores_are_missing(run, folder, column, said):
    made = pd.read_csv(folder / "rows.csv")
    made.loc[[4, 9], column] = np.nan
    made.to_csv(folder / "gone.csv", index=False)
    common = ["--data", folder / "gone.csv", "--label", "hired", "--score", "score", "--group", "sex", "--out", folder]
    code, _, err = run("shift", *common, "--constraint", BOUND)
    assert code == 2 and said in err and "line 6 of the file" in err, err
