"""What a verdict says: names, values and order of its contrasts, rows of no weight, and the rows that would decide."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fairbound.base.errors import EmptyGroupError, OptionError
from fairbound.confidence.contrasts import Contrasts
from fairbound.confidence.rates import rate_rows_needed, ratio_bounds
from fairbound.fairness.notions import constraint
from fairbound.fairness.problem import FairProblem
from fairbound.fairness.scored import Scored
from fairbound.models.mlp import MLP
from fairbound.report.words import explain
from fairbound.rows.groups import Groups


def scored(seed=0, n=300, weight=None, shift=0.0):
    rng = np.random.default_rng(seed)
    s = rng.normal(size=n) + shift
    y = (rng.random(n) < 0.5).astype(np.int64)
    groups = {"sex": rng.choice(["F", "M"], n), "race": rng.choice(["a", "b", "c"], n)}
    return Scored(y, (s > 0).astype(np.int64), ("0", "1"), s, Groups.of(groups), weight), groups


@pytest.mark.parametrize("stated", ["group_loss <= 0.5", "group_loss[y=both] <= 0.5", "group_loss[largest=1] <= 0.5"])
def test_a_group_loss_is_named_by_its_group_and_has_its_value(stated):
    """In the verdict as in training: every loss beside the name of the group it is of."""
    rows, columns = scored()
    bound = constraint(stated)
    found = {c["name"]: c["value"] for c in bound.judge(rows, 0.05)["contrasts"]}
    loss = rows.loss if bound.largest is None else np.minimum(rows.loss, bound.largest)
    expected = {
        g + tail: loss[(column == g) & inside].mean()
        for column in columns.values()
        for g in np.unique(column)
        for tail, inside in zip(
            ("", " | y=1", " | y=0"), (np.full(len(loss), True), rows.target == 1, rows.target == 0), strict=True
        )
        if (tail != "") == (bound.given == "both")
    }
    assert found == pytest.approx(expected, rel=1e-12)
    assert bound.judge(rows, 0.05)["worst"] == max(expected, key=expected.get)
    problem = FairProblem(MLP(1), rows.scores[:, None], rows.target, columns, bound)
    measured = problem.evaluate(problem.start((0,)) * 0 + 1)  # any one model
    by_name = dict(zip(problem.names, (measured.g + bound.bound).tolist(), strict=True))
    assert set(by_name) == {f"group_loss: {name}" for name in expected}


@pytest.mark.parametrize(
    "stated",
    ["demographic_parity <= 0.1", "demographic_parity_ratio >= 0.8", "predictive_parity <= 0.1", "loss_gap <= 0.1",
     "loss_gap[largest=1] <= 0.1", "treatment_equality <= 0.1", "group_loss <= 0.1", "demographic_parity[overall] <= 0.1"],
)  # fmt: skip
@pytest.mark.parametrize("lost", [{"sex": "F"}, {"race": "c"}])
def test_rows_of_no_weight_are_no_rows(stated, lost):
    """Value and limits are those of the rows without them, and their group is said to lack rows."""
    ((attribute, gone),) = lost.items()
    rows, columns = scored()
    out = columns[attribute] == gone
    weight = np.where(out, 0.0, 1.0)
    weighed = Scored(rows.target, rows.predicted, rows.classes, rows.scores, rows.groups, weight)
    kept = np.flatnonzero(~out)
    alone = Scored(rows.target[kept], rows.predicted[kept], rows.classes, rows.scores[kept],
                   rows.groups.take(kept), weight[kept])  # fmt: skip
    bound = constraint(stated)
    found, expected = bound.judge(weighed, 0.05), bound.judge(alone, 0.05)
    assert found["verdict"] != "met" and (gone in found["why"] or "only" in found["why"])
    for key in ("value", "lower", "upper", "worst"):
        assert found[key] == (expected[key] if isinstance(expected[key], str) else pytest.approx(expected[key]))
    assert [(c["name"], c["value"]) for c in found["contrasts"]] == [
        (c["name"], c["value"]) for c in expected["contrasts"]
    ]
    measured = []
    for part in (weighed, alone):
        try:
            measured.append(bound.measure(part))
        except EmptyGroupError as error:
            measured.append(str(error))
    assert measured[0] == (measured[1] if isinstance(measured[1], str) else pytest.approx(measured[1]))


def test_two_rates_of_zero_are_alike_and_no_evidence():
    """Nobody selected: the ratio is 1 for training, metric and verdict alike, and no number of rows shows it."""
    rows, columns = scored(shift=-100)
    bound = constraint("demographic_parity_ratio >= 0.8")
    found = bound.judge(rows, 0.05)
    assert bound.measure(rows) == found["value"] == 1.0 and found["verdict"] == "insufficient"
    said = "Nobody is selected in any group, and the ratio of 0 to 0 is taken as 1."
    assert found["why"] == said and said in explain(found, 300)
    other = constraint("true_positive_rate_ratio >= 0.8").judge(rows, 0.05)["why"]
    assert other == "Every rate compared is 0, and the ratio of 0 to 0 is taken as 1."
    assert bound.judge(scored()[0], 0.05)["why"] is None
    problem = FairProblem(MLP(1), rows.scores[:, None], rows.target, columns, bound)
    x = problem.start((0,)) * 0
    assert float(problem.evaluate(x).extra["stated"][0]) == 1.0


@pytest.mark.parametrize("stated", ["demographic_parity <= 0.02", "demographic_parity_ratio >= 0.9"])
def test_contrasts_are_listed_from_the_one_that_matters_most(stated):
    found = constraint(stated).judge(scored()[0], 0.05)
    values = [c["value"] for c in found["contrasts"]]
    assert values == sorted(values, reverse=found["sense"] == "at most") and values[0] == found["value"]


@pytest.mark.parametrize(
    ("stated", "kept"),
    [
        ("demographic_parity", 4),
        ("demographic_parity[overall]", 5),
        ("equalized_odds[sum]", 4),
        ("auc_parity[intra]", 4),
    ],
)
@pytest.mark.parametrize("shift", [0.0, 9.0])
def test_of_two_contrasts_that_say_the_same_both_ways_round_the_second_is_mirrored(stated, kept, shift):
    """Of 1 pair of sexes and 3 of races each is listed in both orders (equalized_odds[sum]: 4 signs); with a shift all rates are 1."""
    found = constraint(f"{stated} <= 0.02").judge(scored(shift=shift)[0], 0.05)["contrasts"]
    plain = {c["name"] for c in found if "mirrored" not in c}
    for place, c in enumerate(found):
        turned = {"value": -c["value"], "lower": -c["upper"], "upper": -c["lower"]}
        before = [{key: o[key] for key in turned} for o in found[:place] if "mirrored" not in o]
        assert "mirrored" not in c or any(o == pytest.approx(turned, abs=1e-12) for o in before)
    assert len(found) == 2 * len(plain) and len(plain) % kept == 0
    ratio = constraint("demographic_parity_ratio >= 0.8").judge(scored()[0], 0.05)["contrasts"]
    assert len(ratio) == 8 and not any("mirrored" in c for c in ratio)


@pytest.mark.parametrize("least", [0.5, 0.8, 0.9])
def test_rows_that_would_decide_a_ratio_are_those_of_its_linear_contrasts(least):
    """least p_b - p_a <= 0 for both orders of every two groups, at 0 whatever the bound is."""
    rows, columns = scored()
    found = constraint(f"demographic_parity_ratio[by=sex] >= {least}").judge(rows, 0.05)
    rates = np.array([rows.predicted[columns["sex"] == g].mean() for g in ("F", "M")])
    shares = np.array([(columns["sex"] == g).mean() for g in ("F", "M")])
    contrasts = Contrasts(np.array([[0, 1], [1, 0]]), np.array([[least, -1.0]] * 2))
    needed = rate_rows_needed(rates, shares, contrasts, 0.0, 0.05)
    assert found["rows_needed"] == (needed if found["verdict"] == "insufficient" else None)
    assert least < 0.9 or found["verdict"] == "insufficient"


def test_the_loss_replaces_no_decision_in_a_ratio():
    with pytest.raises(OptionError, match="always 1"):
        constraint("predictive_parity[surrogate=loss] <= 0.05")
    assert constraint("error_rate_parity[surrogate=loss] <= 0.05").surrogate == "loss"


@pytest.mark.parametrize("words", ["", "[best]"])
def test_a_ratio_is_named_as_it_is_divided(words):
    """ "a / b" is a's rate over b's, in the verdict; in training it is the inequality least q_b - q_a <= 0."""
    rows, columns = scored()
    bound = constraint(f"demographic_parity_ratio{words} >= 0.8")
    rates = {g: rows.predicted[column == g].mean() for column in columns.values() for g in np.unique(column)}
    contrasts = bound.judge(rows, 0.05)["contrasts"]
    for c in contrasts:
        above, below = c["name"].split(" / ")
        assert c["value"] == pytest.approx(rates[above] / rates[below])
        column = next(column for column in columns.values() if above in column)
        counts = np.array([[rows.predicted[column == g].sum(), (column == g).sum()] for g in (above, below)])
        alone = ratio_bounds(*counts.T, [[0, 1]], 0.05 / len(contrasts))
        assert (c["lower"], c["upper"]) == pytest.approx((alone.lowers[0], alone.uppers[0]))
    problem = FairProblem(MLP(1), rows.scores[:, None], rows.target, columns, bound, dtype=torch.float64)
    x = torch.tensor([1.0, 0.0], dtype=torch.float64)  # the score is the feature
    for name, g in zip(problem.names, problem.evaluate(x).g.tolist(), strict=True):
        above, below = name.split(": ")[1].split(" / ")
        group = next(column for column in columns.values() if above in column)
        other = max(rates[v] for v in np.unique(group)) if below == "best" else rates[below]
        assert g == pytest.approx(0.8 * other - rates[above], abs=1e-12)
