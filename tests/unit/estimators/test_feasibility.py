"""fb.feasibility: the curve is that of its models, the rules pick what they say, and more rows are worth what an audit of them says."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import fairbound as fb
from fairbound.base.errors import DataError, OptionError
from fairbound.cli import app as cli
from fairbound.estimators.feasibility import Scored, _bounds, _said, more_rows
from fairbound.estimators.knee import knee, said_of, sure_knee
from fairbound.rows.groups import Groups

BOUND = "demographic_parity <= 0.15"


def people(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["F", "M"], n, p=[0.2, 0.8])
    pay, skill = rng.normal(size=n) + 0.8 * (sex == "M"), rng.normal(size=n)
    return (
        pd.DataFrame({"pay": pay, "skill": skill}),
        np.where(pay + skill + rng.normal(size=n) > 0.5, "yes", "no"),
        sex,
    )


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    X, y, sex = people()
    path = tmp_path_factory.mktemp("feasibility") / "people.csv"
    X.assign(sex=sex, y=y).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def found(file):
    there = pd.read_csv(file)
    return fb.feasibility(BOUND, there[["pay", "skill"]], there["y"], {"sex": there["sex"]}, random_state=0)


def test_the_curve_falls_and_its_points_are_what_the_rules_say(found):
    curve = found["curve"]
    json.dumps(found, allow_nan=False)
    assert curve[0]["trained_under"] is None and 0.15 in [one["trained_under"] for one in curve]
    under = [one["trained_under"] for one in curve[1:]]
    assert under == sorted(under, reverse=True) and 0 < under[-1] < 0.01
    assert curve[0]["value"] > 0.15 > 0.1 > found["smallest"]["value"]
    assert all(one["lower"] <= one["value"] <= one["upper"] for one in curve)
    certified = [one for one in curve if one["certified"]]
    assert certified == [one for one in curve if one["upper"] <= 0.15] != []
    assert found["cheapest"] in certified and found["cheapest"]["cost"] == min(one["cost"] for one in certified)
    assert found["smallest"]["value"] == min(one["value"] for one in curve)
    assert "would narrow the interval most" in found["said"] and "costs" in found["said"]


def test_a_model_that_decides_all_rows_alike_is_said_to_be_one(found):
    assert not any(one["constant"] for one in found["curve"])
    held = found["rows"]["held"]
    alike = {**found, "cheapest": {**found["cheapest"], "constant": True, "alike": held}}
    under, free = (
        _said({**alike, "cheapest": {**alike["cheapest"], "trained_under": bound}}, fb.constraint(BOUND))
        for bound in (0.1, None)
    )
    assert "It gives every row the same decision; loosen the bound" in under and "features" not in under
    assert "It gives every row the same decision: the features tell too little of the label." in free
    assert "loosen" not in free
    alike["cheapest"]["alike"] = held - 3
    assert (
        f"It gives {held - 3:,} of {held:,} held-out rows the same decision, and decides hardly more of them rightly"
        in _said(alike, fb.constraint(BOUND))
    )


def test_a_model_that_decides_nearly_all_rows_alike_is_said_to_decide_next_to_nothing():
    rng, n = np.random.default_rng(0), 2400
    y, sex = np.arange(n) % 12 == 0, np.where(np.arange(n) // 12 % 2 == 0, "F", "M")
    told = np.zeros(n)
    told[np.flatnonzero(y)[:6]] = 1
    found = fb.feasibility("demographic_parity <= 0.05", np.column_stack([rng.normal(size=n), told]), y, sex, random_state=0)  # fmt: skip
    free = found["cheapest"]
    assert free["trained_under"] is None and free["certified"] and free["constant"] and 1190 < free["alike"] < 1200
    assert f"It gives {free['alike']:,} of 1,200 held-out rows the same decision, and decides hardly" in found["said"]


@pytest.mark.long
def test_where_hardly_any_label_is_positive_the_same_decision_is_the_cheapest():
    x, sex = np.random.default_rng(0).normal(size=(400, 2)), np.repeat(["F", "M"], 200)
    rare = fb.feasibility("demographic_parity <= 0.2", x, np.arange(400) % 40 == 0, sex, random_state=0)
    assert rare["cheapest"]["constant"] and rare["smallest"]["constant"] and "same decision" in rare["said"]


def test_the_smaller_group_s_rows_are_worth_more_and_are_named(found):
    more = found["more_rows"]
    (small,) = (value for name, value in more.items() if name.endswith(": F"))
    assert small > 2 * min(more.values()) > 0
    assert f"more held-out rows of {max(more, key=more.get)}" in found["said"]


def test_more_rows_of_a_group_that_the_bound_leaves_out_are_not_asked_for():
    rng = np.random.default_rng(0)
    groups = Groups.of(
        pd.DataFrame({"s": rng.choice(["u", "v"], 800), "g": rng.choice(["a", "b", "c"], 800, p=(0.5, 0.49, 0.01))})
    )
    scores = rng.random(800)
    rows = Scored(rng.integers(0, 2, 800), (scores > 0.5).astype(np.int64), ("0", "1"), scores, groups, None)
    bound = fb.constraint("demographic_parity[fewest=30] <= 0.05")
    kept = more_rows(rows, bound, 0.05)
    assert set(kept) == {"s: u", "s: v", "g: a", "g: b"}
    now, (_, _, codes) = bound.judge(rows, 0.05)["upper"], groups.by_attribute[1]
    of_b = np.where(codes == 1, 1 + 1000 / (codes == 1).sum(), 1.0)
    then = bound.settled_on(rows.occurring).judge(replace(rows, each=of_b), 0.05)["upper"]
    assert kept["g: b"] == pytest.approx(now - then) and now > then


def test_a_bound_out_of_reach_says_how_many_rows_would_do():
    X, y, sex = people(600)
    found = fb.feasibility("demographic_parity <= 0.02", X, y, sex, algorithm="alm", budget="10 steps")
    assert found["cheapest"] is None and "would not confirm it" in found["said"]
    beyond = found["smallest"]["value"] > 0.02
    assert ("they would show it violated" if beyond else "they would confirm it") in found["said"]


def test_rows_without_a_group_are_counted_and_a_tiny_group_may_be_left_out(tmp_path, capsys):
    X, y, sex = people(600)
    sex = sex.astype(object)
    sex[:4], sex[4:34] = "X", None
    bound, said = "demographic_parity <= 0.05", "sex is not known in 30 of 600 rows; they are in none of its groups"
    found = fb.feasibility(bound, X, y, {"sex": sex}, algorithm="alm", budget="10 steps", random_state=0)
    (warning,) = found["warnings"]
    assert warning.startswith(said) and found["cheapest"] is None
    advice = (
        "gather more of this group first, or leave groups of so few rows out (demographic_parity[fewest=30] <= 0.05)."
    )
    assert f"X has 2 held-out rows, too few to say how many would decide it: {advice}" in found["said"]
    X.assign(sex=sex, y=y).to_csv(tmp_path / "d.csv", index=False)
    args = ["feasibility", "--data", str(tmp_path / "d.csv"), "--label", "y", "--group", "sex", "--constraint", bound]
    args += ["--algorithm", "alm", "--budget", "10 steps", "--out", str(tmp_path / "o")]
    assert cli.main(args) == 0 and f"warning: {said}" in capsys.readouterr().out
    assert json.loads((tmp_path / "o" / "feasibility.json").read_text())["warnings"] == [warning]


@pytest.mark.parametrize(("accuracy", "says"), [(0.81, "costs 1.00 points of accuracy."), (0.82, "costs no accuracy."),
                                                (0.8242, "costs no accuracy: it has 0.42 points more than the model without a bound on these rows.")])  # fmt: skip
def test_what_the_bound_costs_is_said_as_a_gain_where_it_is_one(accuracy, says):
    ends = {"value": 0.02, "lower": 0.01, "upper": 0.03, "constant": False}
    cheap, free = ({"trained_under": under, "accuracy": a, **ends} for under, a in [(0.05, accuracy), (None, 0.82)])
    out = {"bound": "demographic_parity <= 0.05", "rows": {"held": 100}, "curve": [free, cheap], "smallest": cheap}
    out |= {"cheapest": cheap, "knee": None, "rows_needed": None, "more_rows": {}}
    assert _said(out, fb.constraint(out["bound"])).endswith(f"is trained under 0.05 and {says}")


def test_of_a_bound_from_below_the_largest_value_is_the_best_and_rows_that_do_nothing_are_left_out():
    best = {"trained_under": 0.9, "accuracy": 0.8, "value": 0.85, "lower": 0.8, "upper": 0.9, "constant": False}
    out = {"bound": "recall of class b >= 0.95", "rows": {"held": 100}, "curve": [best], "smallest": best}
    out |= {"cheapest": None, "knee": None, "rows_needed": 2000, "more_rows": {"race: black": 0.00004}}
    said = _said(out, fb.constraint(out["bound"]))
    assert said.startswith("The largest value reached is 0.8500 (0.8000 to 0.9000) on 100 held-out rows.")
    assert "Of the model of the largest value" in said and said.endswith("they would show it violated.")


def test_bounds_from_below_and_theknee():
    ratio = fb.constraint("demographic_parity_ratio >= 0.8")
    made = [b.stated for b in _bounds(ratio, 0.4)]
    assert made == sorted(made) and 0.8 in made and made[-1] == 0.988
    parity = [b.stated for b in _bounds(fb.constraint("demographic_parity <= 0.1"), 0.3)]
    assert parity == sorted(parity, reverse=True) and 0.1 in parity and parity[-1] == 0.006
    curve = [{"value": v, "cost": c} for v, c in [(0.3, 0.10), (0.2, 0.11), (0.1, 0.12), (0.0, 0.30)]]
    assert knee(curve) == 2 and knee(curve[:2]) is None


def curve_of(under, accuracies):
    """A curve of nested models, each worse one wrong on the rows of the better and on more, of 2,000 rows."""
    wrong = np.array([np.arange(2000) >= round(2000 * accuracy) for accuracy in accuracies])
    curve = [
        {"trained_under": b, "value": 0.3 if b is None else b, "cost": row.mean()}
        for b, row in zip(under, wrong, strict=True)
    ]
    return curve, wrong


UNDER = (None, 0.2, 0.1, 0.05, 0.0006)


def test_a_knee_is_said_where_it_is_beyond_chance():
    curve, wrong = curve_of(UNDER, (0.8, 0.798, 0.796, 0.79, 0.7))
    found = sure_knee(curve, "trained_under", "at most", wrong)
    assert (curve[found.at]["trained_under"], found.flat) == (0.05, False)
    assert said_of(0.05, False) == "Bounds tighter than about 0.05 cost more accuracy for each step."
    weight = np.ones(2000)
    weight[[0, 1500]] = 1e6  # of two rows that count, one is decided by all models but the last
    assert sure_knee(curve, "trained_under", "at most", wrong, weight).at is None


def test_a_flat_curve_has_no_knee():
    """As of a newcomer: from 0.6975 to 0.7137, the knee at the tightest bound tried."""
    curve, wrong = curve_of(UNDER, (0.7075, 0.7137, 0.7, 0.6975, 0.71))
    rng = np.random.default_rng(0)
    wrong = np.array([rng.permutation(row) for row in wrong])  # each on rows of its own
    assert sure_knee(curve, "trained_under", "at most", wrong) == (None, True)
    assert said_of(None, True).startswith("Accuracy hardly changes")


def test_an_even_price_has_no_knee_and_is_not_called_flat():
    curve, wrong = curve_of((None, 0.2, 0.1, 0.0), (0.9, 0.8, 0.7, 0.6))
    assert sure_knee(curve, "trained_under", "at most", wrong) == (None, False) and said_of(None, False) == ""


def test_no_bound_is_tighter_than_the_tightest():
    """The model under the tightest bound may measure a little more than another, and be the knee by its cost."""
    curve, wrong = curve_of((None, 0.2, 0.1, 0.0006), (0.8, 0.798, 0.6, 0.79))
    curve[2]["value"], curve[3]["value"] = 0.01, 0.02
    assert knee(curve) == 3 and sure_knee(curve, "trained_under", "at most", wrong).at is None


def test_the_command_says_what_python_says(file, found, tmp_path, capsys):
    """The sensitive column of the file is no feature."""
    pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
    call = ["feasibility", "--data", file, "--label", "y", "--group", "sex", "--out", tmp_path]
    assert cli.main([str(a) for a in [*call, "--constraint", BOUND]]) == 0
    text, progress = capsys.readouterr()
    written = json.loads((tmp_path / "feasibility.json").read_text())
    assert written == json.loads(json.dumps(found)) and found["said"] in text
    assert all(name in text for name in found["more_rows"])
    assert "trained without a bound: accuracy" in progress and f"trained under {BOUND}: accuracy" in progress
    assert progress.count("on the held-out rows") == len(found["curve"])
    assert cli.main([str(a) for a in call]) == 2


def test_wrong_use():
    X, y, sex = people(200)
    with pytest.raises(DataError, match="sensitive_features"):
        fb.feasibility(BOUND, X, y)
    for bounds in ([], [BOUND, "equalized_odds <= 0.1"]):
        with pytest.raises(OptionError, match=f"asks about one bound, got {len(bounds)}"):
            fb.feasibility(bounds, X, y, sex)
    with pytest.raises(DataError, match="sensitive_features"):
        fb.feasibility([BOUND], X, y)  # a list of one is that one
    with pytest.raises(OptionError, match="confidence"):
        fb.feasibility(BOUND, X, y, sex, confidence=1.2)
