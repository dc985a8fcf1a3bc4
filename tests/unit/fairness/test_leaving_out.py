"""`fewest=` leaves groups of few rows out of a bound: alike wherever it is judged or trained under, and never in silence."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import fairbound as fb
from fairbound.base import verdicts
from fairbound.base.errors import DataWarning, EmptyGroupError, OptionError
from fairbound.estimators.feasibility import more_rows
from fairbound.fairness.compiled.builder import compile_plan
from fairbound.fairness.notions.rankings import PairwiseParity
from fairbound.fairness.notions.registry import constraints
from fairbound.fairness.objectives import LargestGroupLoss
from fairbound.fairness.scored import Scored
from fairbound.monitoring import judging
from fairbound.optim import Dual
from fairbound.rows.groups import Groups

LEFT_OUT = {"D & F": 7, "D & M": 12}
NOTIONS = [
    "demographic_parity[crossed,{}] <= 0.2",
    "demographic_parity[overall,crossed,{}] <= 0.2",
    "equalized_odds[by=race+sex,{}] <= 0.3",
    "equal_opportunity[best,crossed,{}] <= 0.3",
    "demographic_parity_ratio[crossed,{}] >= 0.5",
    "predictive_parity[crossed,{}] <= 0.3",
    "class_equalized_odds[crossed,{}] <= 0.3",
    "loss_gap[largest=5,crossed,{}] <= 0.3",
    "auc_parity[intra,crossed,{}] <= 0.3",
    "auc_parity[bpsn,crossed,{}] <= 0.3",
    "auc_parity[positive,overall,crossed,{}] <= 0.3",
    "partial_statistical_parity[0.05:0.5,crossed,{}] <= 0.5",
    "partial_equal_opportunity[0.05:0.5,crossed,{}] <= 0.5",
]


@pytest.fixture(scope="module")
def rows():
    """scores, y, groups, and which rows are in a cell of fewer than 30 rows."""
    rng = np.random.default_rng(0)
    race = np.repeat(["A", "B", "C", "D"], [1600, 1000, 200, 19])
    sex = rng.choice(["F", "M"], len(race))
    sex[-19:] = np.repeat(["F", "M"], [7, 12])
    y = rng.integers(0, 2, len(race))
    y[-19:] = np.arange(19) % 2
    return rng.normal(size=len(race)) + y + 0.2 * (sex == "M"), y, {"race": race, "sex": sex}, race == "D"


def some(rows, keep):
    scores, y, groups, _ = rows
    return scores[keep], y[keep], {name: column[keep] for name, column in groups.items()}


@pytest.mark.parametrize("notion", NOTIONS)
def test_a_bound_is_that_of_the_groups_that_are_left(rows, notion):
    stated = notion.format("fewest=30")
    assert (
        fb.constraint(stated).text == fb.constraint(fb.constraint(stated).text).text
        and fb.constraint(stated).fewest == 30
    )
    scores, y, groups, few = rows
    if notion.startswith("class"):
        scores = (scores > 0).astype(int)
    made = fb.audit(scores, y, groups, stated, threshold=0)
    _, of_rest, groups_of_rest = some(rows, ~few)
    rest = fb.audit(scores[~few], of_rest, groups_of_rest, notion.format("empty=drop"), threshold=0)
    found, alone = made["constraints"][0], rest["constraints"][0]
    for key in ("value", "worst", "groups", "verdict"):
        assert found[key] == (pytest.approx(alone[key]) if key == "value" else alone[key]), key
    assert found["lower"] == pytest.approx(alone["lower"]) and found["upper"] == pytest.approx(alone["upper"])
    assert fb.measure(stated.split(" ")[0], scores, y, groups) == pytest.approx(found["value"])
    assert found["left_out"] == sorted(LEFT_OUT) and found["left_out_rows"] == 19 and found["fewest"] == 30
    assert {one["group"]: one["rows"] for one in found["left_out_groups"]} == LEFT_OUT
    said = fb.report.table(made)
    assert "The verdict does not speak of 2 groups with 19 rows, which fewest=30 leaves out." in said
    assert "Left out (fewest=30): 2 groups with 19 rows, of which it says nothing: D & M (12 rows" in said


def test_rows_are_counted_where_a_value_needs_them(rows):
    scores, y, groups, _ = rows
    n = int(((groups["race"] == "C") & (groups["sex"] == "F") & (y == 1)).sum())
    of_all = sum((groups["race"] == "C") & (groups["sex"] == "F"))
    assert n < of_all
    found = fb.audit(scores, y, groups, f"equalized_odds[crossed,fewest={n + 1}] <= 0.3", threshold=0)["constraints"][0]
    cell = {one["group"]: one for one in found["left_out_groups"]}["C & F"]
    assert cell["rows"] == of_all and cell["fewest"] <= n
    positive = fb.audit(scores, y, groups, f"equal_opportunity[crossed,fewest={n + 1}] <= 0.3", threshold=0)[
        "constraints"
    ]
    assert f"C & F ({of_all} rows, {n} positive rows)" in verdicts.left_out(positive)
    classes = fb.audit(
        *(np.where(one > 0, "yes", "no") for one in (scores, y)),
        groups,
        f"class_equalized_odds[crossed,fewest={n + 1}] <= 0.9",
    )
    assert f"C & F ({of_all} rows, {n} rows of the class 'yes')" in verdicts.left_out(classes["constraints"])
    kept = fb.audit(scores, y, groups, f"equal_opportunity[crossed,fewest={n}] <= 0.3", threshold=0)["constraints"][0]
    assert "C & F | y=1" in kept["groups"] and "C & F" not in kept["left_out"]


def test_a_group_that_nothing_is_left_to_compare_with_is_left_out_too(rows):
    scores, y, groups, _ = rows
    stated = "conditional_demographic_parity[given=race,fewest=10] <= 0.5"
    found = fb.audit(scores, y, groups, stated, threshold=0)["constraints"][0]
    assert found["left_out"] == ["D & F", "D & M"] and found["left_out_rows"] == 19  # D & M has 12, and D & F 7
    assert [one.get("alone") for one in found["left_out_groups"]] == [None, True]
    said = verdicts.left_out([found])
    assert "D & M (12 rows, and no other group is left to compare it with), D & F (7 rows)." in said


def test_fewest_of_one_row_is_what_empty_drop_says(rows):
    scores, y, groups, _ = rows
    one, drop = (fb.constraint(f"equalized_odds[crossed,{word}] <= 0.3") for word in ("fewest=1", "empty=drop"))
    y = np.where(groups["race"] == "D", 0, y)
    found, other = (fb.audit(scores, y, groups, b, threshold=0)["constraints"][0] for b in (one, drop))
    assert found["left_out"] == other["left_out"] == ["D & F", "D & M"]
    assert (found["value"], found["upper"]) == (other["value"], other["upper"])


@pytest.mark.parametrize("wrong", ["0", "-1", "nan", "inf", "30.5"])
def test_numbers_that_count_no_rows_are_refused(wrong):
    with pytest.raises(OptionError, match=r"fewest must be a whole number of rows, 1 or more, got .* fewest=30"):
        fb.constraint(f"demographic_parity[fewest={wrong}] <= 0.1")
    with pytest.raises(OptionError, match="fewest must be a whole number"):
        fb.DemographicParity(bound=0.1, fewest=float(wrong))


def test_what_is_no_number_is_refused():
    with pytest.raises(OptionError, match=r"the fewest 'few' in .* is not a number"):
        fb.constraint("demographic_parity[fewest=few] <= 0.1")
    for wrong in (True, "30"):
        with pytest.raises(OptionError, match="fewest must be a whole number"):
            fb.DemographicParity(bound=0.1, fewest=wrong)
    assert fb.DemographicParity(bound=0.1, fewest=np.int64(30)).text == "demographic_parity[fewest=30] <= 0.1"


@pytest.mark.parametrize(("fewest", "left"), [(5000, "none of them"), (830, "only ['A & ")])
def test_where_too_few_groups_are_left_nothing_is_said_to_be_met(rows, fewest, left):
    scores, y, groups, _ = rows
    groups = {"race": groups["race"], "sex": np.where(groups["race"] == "A", "F", groups["sex"])}
    stated = f"demographic_parity[crossed,fewest={fewest}] <= 0.9"
    made = fb.audit(scores, y, groups, stated, threshold=0)
    found = made["constraints"][0]
    assert found["verdict"] == "insufficient" and found["value"] is None and left in found["why"]
    assert "State a smaller fewest, merge groups, or give more rows" in found["why"]
    assert found["left_out_rows"] == (2819 if fewest == 5000 else 1219)
    assert "Left out" in fb.report.table(made)
    with pytest.raises(EmptyGroupError, match="State a smaller fewest"):
        fb.FairClassifier(stated).fit(scores[:, None], y, sensitive_features=groups)


def test_counts_and_monitors_leave_out_alike(rows, monkeypatch):
    monkeypatch.setattr(
        judging, "rows_needed", lambda *_: None
    )  # which takes a second a bound, and is not asked about here
    scores, y, groups, _ = rows
    stated = ["demographic_parity[crossed,fewest=30] <= 0.3", "equalized_odds[crossed,fewest=30] <= 0.4"]
    whole = fb.audit(scores, y, groups, stated, threshold=0)["constraints"]
    parts = [fb.AuditCounts.of(*some(rows, np.arange(k, len(y), 3)), threshold=0) for k in range(3)]
    assert parts[0].merge(parts[1]).merge(parts[2]).audit(stated)["constraints"] == whole
    monitor = fb.Monitor([*stated, "auc_parity[intra,crossed,fewest=30] <= 0.4"], threshold=0.0)
    looked = monitor.update(y, scores, groups).look()
    for found in looked["constraints"]:
        assert (found["left_out"], found["left_out_rows"]) == (sorted(LEFT_OUT), 19)
        assert not any(name.startswith("D &") for name in found["groups"])
    assert "does not speak of 2 groups with 19 rows" in fb.report.table(looked)
    more = {"race": np.repeat("D", 400), "sex": np.resize(["F", "M"], 400)}
    rng = np.random.default_rng(1)
    monitor.update(rng.integers(0, 2, 400), rng.normal(size=400), more)
    assert all("left_out" not in found and len(found["groups"]) >= 8 for found in monitor.look()["constraints"])


@pytest.mark.parametrize("notion", [n for n in NOTIONS if "partial" not in n])
def test_training_compares_the_same_groups(rows, notion):
    _, y, groups, few = rows
    bound, whole = fb.constraint(notion.format("fewest=30")), fb.Groups.of(groups)
    plan = compile_plan((bound,), whole, y)
    rest = compile_plan((fb.constraint(notion.format("empty=drop")),), whole.take(~few), y[~few])
    assert dict(zip(plan.dropped, plan.dropped_rows, strict=True)) == LEFT_OUT
    assert list(plan.names) == list(rest.names)
    assert (plan.counts(whole.codes, y) == rest.counts(whole.codes[~few], y[~few])).all()  # not even among all rows


@pytest.mark.parametrize(
    "notion", ["demographic_parity[overall,crossed,{}] <= 0.05", "auc_parity[intra,crossed,{}] <= 0.1"]
)
def test_a_fit_leaves_out_names_and_remembers(rows, notion, tmp_path):
    scores, y, groups, _ = rows
    rng = np.random.default_rng(2)
    X = pd.DataFrame({"a": scores + rng.normal(size=len(y)), "b": rng.normal(size=len(y)) + (groups["sex"] == "M")})
    stated = notion.format("fewest=30")
    with pytest.warns(
        DataWarning, match=r"left out of the bounds for want of rows \(2 groups\): D & F \(7\), D & M \(12\)"
    ):
        fair = fb.FairClassifier(stated, random_state=0).fit(X, y, sensitive_features=groups)
    facts = fair.fit_report_
    assert facts["dropped_groups"] == sorted(LEFT_OUT) and facts["dropped_rows"] == LEFT_OUT
    value = fb.measure(stated.split(" ")[0], fair.decision_function(X), y, groups)
    assert facts["constraints"][0]["train_value"] == pytest.approx(value, abs=1e-4) and facts["feasible"]
    fair.save(tmp_path / "model")
    again = fb.FairClassifier.load(tmp_path / "model")
    assert again.constraint in (stated, [stated]) and again.fit_report_["dropped_rows"] == LEFT_OUT


def test_thresholds_and_reductions_leave_out_alike(rows):
    from sklearn.linear_model import LogisticRegression

    scores, y, groups, _ = rows
    stated = "demographic_parity[crossed,fewest=30] <= 0.1"
    plain = fb.FairClassifier(random_state=0).fit(scores[:, None], y)
    with (
        pytest.warns(DataWarning, match="for want of rows"),
        pytest.warns(DataWarning, match=r"no bound holds for are decided .* 'D & F' \(7\), 'D & M' \(12\)"),
    ):
        moved = fb.PostProcessor(plain, stated).fit(scores[:, None], y, groups)
    assert moved.fit_report_["dropped_rows"] == LEFT_OUT
    with pytest.warns(DataWarning, match="for want of rows"):
        made = fb.Reduction(LogisticRegression(), stated, folds=0).fit(scores[:, None], y, sensitive_features=groups)
    assert made.fit_report_["dropped_rows"] == LEFT_OUT


def test_a_certificate_says_whom_it_does_not_speak_of(rows):
    scores, y, groups, _ = rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        fair = fb.FairClassifier("demographic_parity[crossed,fewest=30] <= 0.5", certify=True, random_state=0)
        fair.fit(scores[:, None], y, sensitive_features=groups)
    made = fair.fit_report_["certificate"]
    (fact,) = made["constraints"]
    assert {"D & F", "D & M"} <= set(fact["left_out"]) and fact["left_out_rows"] >= 5
    assert "Left out (fewest=30)" in made["said"]


def test_two_models_are_compared_on_the_groups_that_are_left(rows):
    scores, y, groups, few = rows
    other = scores + np.random.default_rng(3).normal(size=len(y))
    stated = "demographic_parity[crossed,fewest=30] <= 0.1"
    found = fb.compare(scores, other, y, groups, stated, threshold=0, draws=200)
    assert any("Left out (fewest=30): 2 groups with 19 rows" in said for said in found["warnings"])
    rest = fb.compare(
        scores[~few],
        other[~few],
        y[~few],
        some(rows, ~few)[2],
        stated.replace("fewest=30", "empty=drop"),
        threshold=0,
        draws=200,
    )
    assert found["differences"][-1]["difference"] == pytest.approx(rest["differences"][-1]["difference"])


def test_other_numbers_of_the_same_rows_bring_no_group_back(rows):
    scores, y, groups, _ = rows
    bound = fb.constraint("demographic_parity[crossed,fewest=30] <= 0.1")
    made = Scored(y, (scores > 0).astype(int), scores=scores, groups=fb.Groups.of(groups))
    settled = bound.settled_on(made.occurring)
    assert settled == bound and settled.text == bound.text
    drawn = made.take(np.random.default_rng(0).integers(0, len(y), 40))  # hardly a cell has 30 of 40
    (left, _), *_ = settled.compared(drawn.occurring)
    assert len(left) > 2 and not any(left.name(g).startswith("D") for g in range(len(left)))
    assert more_rows(made, bound, 0.05)["race: D"] == 0.0


def test_a_dual_names_whom_it_leaves_out_and_needs_rows_to_count(rows):
    _, y, groups, _ = rows
    stated = "demographic_parity[crossed,fewest=30] <= 0.1"
    with pytest.warns(DataWarning, match=r"for want of rows \(2 groups\): D & F \(7\), D & M \(12\)"):
        dual = Dual(stated, groups=groups, targets=y)
    assert not any("D" in name.split(": ")[1] for name in dual.names)
    with pytest.raises(OptionError, match="Dual needs groups= and targets="):
        Dual("demographic_parity[fewest=30] <= 0.1", group_names={"sex": ["F", "M"]})


def test_what_cannot_count_rows_refuses_it(rows):
    scores, y, groups, _ = rows
    with pytest.raises(OptionError, match="leave fewest out, or compare groups pairwise"):
        fb.Monitor("auc_parity[bpsn,fewest=30] <= 0.1", threshold=0.5)
    with pytest.raises(OptionError, match="leave fewest out"):
        fb.StreamingAUC("auc_parity[intra,fewest=30] <= 0.1").partial_fit(scores[:, None], y, groups["sex"])
    with pytest.raises(OptionError, match="unknown option 'fewest=30'"):
        fb.constraint("pairwise_parity[inter,fewest=30] <= 0.1")
    with pytest.raises(OptionError, match="measured by queries, and fewest counts rows"):
        PairwiseParity(bound=0.1, kind="inter", fewest=30)


def test_an_objective_of_groups_stands_behind_bounds_that_leave_groups_out():
    """Groups that a bound leaves out still count in the largest group loss, with and without bounds."""
    y, groups = np.array([0, 1] * 6 + [1]), Groups.of(np.array(["a"] * 6 + ["b"] * 6 + ["c"]))
    for stated in ([], constraints("demographic_parity[fewest=2] <= 0.1")):
        plan = compile_plan(stated, groups, y, objective=LargestGroupLoss())
        assert plan.cell_names[-3:] == ("a", "b", "c")
        assert plan.cells(groups.codes, y)[-1, -1] == len(plan.cell_names) - 1
