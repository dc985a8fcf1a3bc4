"""The suggested interval: against every interval measured by itself, brute force over scores, and what bad input is told."""

import json

import numpy as np
import pytest

import fairbound as fb
from fairbound.base.errors import DataError, EmptyGroupError, OptionError
from fairbound.fairness.notions import constraint
from fairbound.fairness.percentiles.judging import curves_of
from fairbound.fairness.percentiles.score_profile import disparity_at, score_at
from fairbound.fairness.scored import Scored
from fairbound.fairness.suggesting import candidates
from fairbound.rows.groups import Groups


def rows(seed=0, n=300, ties=False):
    """Groups that are alike but for the rows from 15 % to 45 % of each."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    s = rng.normal(size=n)
    s = s + np.where((group == "b") & (abs(s - 0.5) < 0.5), 0.4, 0.0)
    return (np.round(3 * s) / 3 if ties else s), group


def curves(scores, group, weight=None):
    nobody = np.zeros(len(scores), dtype=np.int64)
    made = Scored(nobody, nobody, scores=scores, groups=Groups.of(group), weight=weight)
    return curves_of(constraint("partial_statistical_parity", bound=1.0), made)[0][0]


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_suggestion_is_the_largest_of_all_that_hold_the_rate(ties, weighted):
    s, group = rows(ties=ties)
    w = np.random.default_rng(1).integers(1, 4, len(s)).astype(float) if weighted else None
    found = fb.suggest_interval(s, group, sample_weight=w)
    p = np.average(s > 0, weights=w)
    assert found["positive_rate"] == pytest.approx(p, abs=1e-12)
    every = {}
    for i in range(21):
        for steps in (4, 5, 6):
            a, b = i / 20, (i + steps) / 20
            if b <= 1 and a <= p < b:
                text = f"partial_statistical_parity[{a:g}:{b:g}]"
                every[a, b] = fb.measure(text, s, np.zeros(len(s)), group, sample_weight=w, threshold=0)
    got = {tuple(one["interval"]): one["value"] for one in found["candidates"]}
    assert got == pytest.approx(every, abs=1e-12)
    assert found["value"] == pytest.approx(max(every.values()), abs=1e-12) == got[tuple(found["interval"])]
    assert found["candidates"][0] == {"interval": found["interval"], "value": found["value"]}
    assert constraint(f"{found['text']} <= 0.1").interval.parts == (tuple(found["interval"]),)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


@pytest.mark.parametrize("ties", [False, True])
def test_scores_and_disparity_at_every_percentile_by_brute_force(ties):
    s, group = rows(seed=2, n=90, ties=ties)
    made = curves(s, group)
    names = [made.compared.name(k) for k in range(3)]
    above = {(g, t): (s[group == g] > t).mean() for g in names for t in s}
    percentiles = np.linspace(0, 1, 33)
    for k, g in enumerate(names):
        own = [min(t for t in s[group == g] if above[g, t] <= p) for p in percentiles]
        assert score_at(made, k, percentiles) == pytest.approx(own, abs=1e-15)
    for p, got in zip(percentiles, disparity_at(made, percentiles), strict=True):
        gaps = [0.0]
        for g in names:
            reached = [t for t in s if above[g, t] >= p]
            if reached:
                gaps += [abs(above[g, max(reached)] - above[h, max(reached)]) for h in names]
        assert got == pytest.approx(max(gaps), abs=1e-12)


def test_the_largest_disparity_is_the_distance_of_the_distributions():
    s, group = rows(seed=3)
    made = curves(s, group)
    full = fb.measure("partial_statistical_parity", s, np.zeros(len(s)), group, threshold=0)
    assert disparity_at(made, np.unique(made.above)).max() == pytest.approx(full, abs=1e-12)


def test_where_only_a_stretch_differs_the_suggestion_lies_on_it():
    """Simulated groups: equal but between the ranks 0.2 and 0.4, where group b's scores are lowered."""
    rank = (np.arange(4000) + 0.5) / 4000
    a = 1 - rank
    b = np.where((rank > 0.2) & (rank < 0.4), 0.6 + (1 - rank - 0.6) ** 2, 1 - rank)
    found = fb.suggest_interval(np.r_[a, b], ["a"] * 4000 + ["b"] * 4000, positive_rate=0.39)
    assert found["interval"] == [0.2, 0.4]
    assert found["threshold"] is None
    disparity = np.array(found["profiles"][0]["disparity"])
    assert disparity[[5, 15, 45, 90]] == pytest.approx(0, abs=1e-3)
    assert disparity[30] > 0.05


def test_several_attributes_count_by_the_largest():
    s, group = rows(seed=4)
    other = np.random.default_rng(5).choice(["x", "y"], len(s))
    both = fb.suggest_interval(s, {"g": group, "h": other})
    alone = [fb.suggest_interval(s, {"g": group}), fb.suggest_interval(s, {"h": other})]
    values = [{tuple(c["interval"]): c["value"] for c in one["candidates"]} for one in (both, *alone)]
    assert values[0] == pytest.approx({i: max(values[1][i], values[2][i]) for i in values[0]}, abs=1e-12)
    assert [p["attribute"] for p in both["profiles"]] == ["g", "h"]


def test_probabilities_are_decided_at_one_half():
    s, group = rows(seed=6)
    found = fb.suggest_interval(1 / (1 + np.exp(-s)), group)
    assert found["threshold"] == 0.5
    assert found["interval"] == fb.suggest_interval(s, group)["interval"]
    assert max(found["profiles"][0]["groups"]["a"]["scores"]) <= 1


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.3, 0.95, 1.0])
def test_every_rate_has_candidates_that_hold_it(rate):
    for interval in candidates(rate):
        ((a, b),) = interval.parts
        assert a <= rate < b or rate == b == 1


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"positive_rate": 1.2}, OptionError, "must lie in"),
        ({"positive_rate": 0.2, "threshold": 0.0}, OptionError, "either"),
        ({"lengths": ()}, OptionError, "lengths"),
        ({"step": 0.0}, OptionError, "step"),
        ({"positive_rate": 0.5, "lengths": (0.1,), "step": 0.4}, OptionError, "no interval"),
        ({"scores": np.array([0, 1] * 150)}, DataError, "two values"),
        ({"scores": np.r_[np.nan, np.ones(299)]}, DataError, "missing or infinite"),
        ({"sensitive_features": ["a"] * 300}, EmptyGroupError, "at least two groups"),
        ({"sensitive_features": ["a", "b"]}, DataError, "2 rows"),
    ],
)
def test_bad_input_is_told(change, error, said):
    s, group = rows()
    given = {"scores": s, "sensitive_features": group, **change}
    with pytest.raises(error, match=said):
        fb.suggest_interval(given.pop("scores"), given.pop("sensitive_features"), **given)
