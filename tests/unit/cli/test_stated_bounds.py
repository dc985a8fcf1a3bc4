"""What the options of a command make of the bounds that their texts state."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from fairbound.cli.bounds import bounds_of_texts

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
pytest.importorskip("matplotlib", reason="the page's charts need the extra 'report'")


@pytest.fixture
def lent(tmp_path):
    """Decisions on 800 people of two attributes, with a score and outcomes."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"sex": rng.choice(["F", "M"], 800), "race": rng.choice(["a", "b"], 800), "p": rng.random(800)}
    )
    frame = frame.assign(old=(rng.random(800) * 4).round(2), paid=(rng.random(800) < frame.p).astype(int))
    frame.to_csv(tmp_path / "lent.csv", index=False)
    return tmp_path / "lent.csv"


@pytest.mark.parametrize("words", ["each", "each,fewest=50", "overall, each", "by=sex", "both"])
def test_a_bound_that_says_what_it_compares_keeps_to_it_where_others_are_crossed(words):
    said, plain = bounds_of_texts([f"equal_opportunity[{words}] <= 0.1", "demographic_parity <= 0.1"], cross=True)
    assert said == bounds_of_texts([f"equal_opportunity[{words}] <= 0.1"])[0]
    assert plain.attributes == "crossed"


def test_a_monitor_of_bounds_that_say_so_takes_the_same_options_again(lent, run, tmp_path):
    same = ("--label", "paid", "--score", "p", "--group", "sex,race", "--cross")
    bounds = ("--constraint", "demographic_parity[each] <= 0.3", "--constraint", "equal_opportunity <= 0.4")

    def call(*more):
        pd.read_csv(lent).sample(frac=0.5, random_state=len(more)).to_csv(lent, index=False)  # another file
        return run("monitor", "--state", tmp_path / "state", "--data", lent, *same, *more)

    assert call(*bounds)[0] in (0, 1, 3)
    assert all(call(*words)[0] in (0, 1, 3) for words in (bounds, ()))
    code, _, said = call("--constraint", "demographic_parity <= 0.3", "--constraint", "equal_opportunity <= 0.4")
    assert code == 2 and "--constraint differs from the state" in said
    stated = json.loads((tmp_path / "state" / "audit.json").read_text())["constraints"]
    assert [c["text"] for c in stated] == ["demographic_parity <= 0.3", "equal_opportunity[crossed] <= 0.4"]


def test_a_threshold_beside_a_decision_that_is_stated_is_refused(lent, run, tmp_path):
    score, threshold = ("--score", "old>0.6"), ("--threshold", "0.5")
    rows = ("--data", lent, "--group", "sex")
    labelled = (*rows, "--label", "paid")
    bound = ("--constraint", "demographic_parity <= 0.5")
    out = ("--out", tmp_path / "out")
    for words in (
        ("audit", *labelled, *score, *bound, *out),
        ("audit", *rows, *score, *bound, *out),
        ("audit", *rows, *score, *bound, *out, "--chunk-rows", 100),
        ("monitor", *labelled, *score, *bound, "--state", tmp_path / "state"),
        ("compare", "old>0.6", "p>0.5", *labelled),
    ):
        code, _, said = run(*words, *threshold)
        assert code == 2 and "says itself what counts as positive, and takes no --threshold 0.5" in said, (words, said)
    code, _, said = run("monitor", *rows, *score, *bound, "--state", tmp_path / "state", *threshold)
    assert code == 2 and "leave --threshold out" in said
    assert run("compare", "old>0.6", "p", *labelled, *threshold)[0] == 0  # the other one takes it


def test_outcomes_are_not_judged_by_themselves(lent, run, tmp_path):
    same = (
        "--data",
        lent,
        "--score",
        "paid",
        "--label",
        "paid",
        "--group",
        "sex",
        "--constraint",
        "equal_opportunity <= 0.5",
    )
    code, _, said = run("audit", *same, "--out", tmp_path / "o")
    assert code == 2 and "--score and --label both name 'paid'" in said
    code, _, said = run("monitor", *same, "--state", tmp_path / "state")
    assert code == 2 and "needs the outcomes of the rows" in said


def test_a_weighted_audit_says_so(lent, run, tmp_path):
    frame = pd.read_csv(lent)
    frame.assign(w=1.0 + np.arange(len(frame)) % 2).to_csv(lent, index=False)
    words = ("audit", "--data", lent, "--score", "p", "--label", "paid", "--out", tmp_path / "o")
    assert "Every row counts with its weight" in run(*words, "--weights", "w")[1]
    assert "Every row counts" not in run(*words)[1]
