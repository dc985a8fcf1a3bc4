"""Thresholds of groups: the optimum over mixtures, its certificate, and the best single thresholds, against enumeration,
another linear program, a hull of another library, and fairlearn's ThresholdOptimizer."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.spatial import ConvexHull
from sklearn.base import BaseEstimator

import fairbound as fb
from fairbound.base.errors import OptionError
from fairbound.fairness.compiled.builder import compile_plan
from fairbound.postprocessing import RuleOptions, deterministic, fit_rule
from fairbound.postprocessing.curves import corners, curve_of
from fairbound.postprocessing.optimum import Relaxation, lower_bound
from fairbound.postprocessing.program import program_of
from fairbound.postprocessing.windows import Choices
from fairbound.rows.groups import Groups

BOUNDS = [
    "demographic_parity <= 0.1",
    "demographic_parity <= 0",
    "demographic_parity[overall] <= 0.08",
    "demographic_parity[best] <= 0.1",
    "equal_opportunity <= 0.15",
    "predictive_equality[best] <= 0.2",
    "equalized_odds <= 0.25",
    "equalized_odds[sum] <= 0.3",
    "error_rate_parity <= 0.1",
    "false_negative_rate_parity[overall] <= 0.1",
    "demographic_parity_ratio >= 0.8",
    "true_positive_rate_ratio[best] >= 0.9",
    "recall of class 1 >= 0.8",
]


def rows(seed, n=15, k=2, levels=6, weighted=False):
    """Scores with ties, labels that follow them, groups, weights."""
    rng = np.random.default_rng(seed)
    group = np.concatenate([np.repeat(np.arange(k), 2), rng.integers(0, k, n - 2 * k)])
    y = np.concatenate([np.tile([0, 1], k), rng.integers(0, 2, n - 2 * k)])
    scores = np.round(rng.normal(size=n) + 0.8 * y + 0.5 * group, 6 if levels is None else 0) / 2
    weight = rng.choice([0.5, 1.0, 2.0, 3.5], n) if weighted else np.ones(n)
    return scores, y, np.array([f"g{g}" for g in group]), weight


def fitted(text, scores, y, group, weight, **options):
    bounds = [fb.constraint(t) for t in ([text] if isinstance(text, str) else text)]
    return fit_rule(scores, y, Groups.of(group), bounds, weight=weight, options=RuleOptions(**options))


def decide(cuts, scores, group):
    """(n,) decisions of one threshold per group, in the groups' sorted order."""
    names = sorted(set(group))
    return scores > np.array(cuts)[[names.index(g) for g in group]]


def value(text, decisions, y, group, weight):
    """The measured value by the library's own exact metric."""
    return fb.measure(fb.constraint(text), decisions.astype(int), y, group, sample_weight=weight)


def met(text, decisions, y, group, weight):
    if text.startswith("recall"):
        return np.average(decisions[y == 1], weights=weight[y == 1]) >= 0.8 - 1e-12
    bound = fb.constraint(text)
    v = value(text, decisions, y, group, weight)
    if np.isnan(v):  # 0 of 0 in both groups: no group has less than another
        return bound.sense == "at least"
    return v >= bound.bound - 1e-12 if bound.sense == "at least" else v <= bound.bound + 1e-12


def enumerated(text, scores, y, group, weight, costs=(1, 1)):
    """The lowest cost over every threshold of every group: the first that meets the bound, from the cheapest on."""
    names = sorted(set(group))
    choices = [np.append(-np.inf, np.unique(scores[group == g])) for g in names]
    tried = []
    for cuts in itertools.product(*choices):
        d = decide(cuts, scores, group)
        tried.append(((weight * (costs[0] * (d & (y == 0)) + costs[1] * (~d & (y == 1)))).sum() / weight.sum(), cuts))
    tried.sort()
    return next(cost for cost, cuts in tried if met(text, decide(cuts, scores, group), y, group, weight))


@pytest.mark.parametrize("text", BOUNDS)
@pytest.mark.parametrize(("k", "weighted"), [pytest.param(2, False, marks=pytest.mark.long), (2, True), (3, False)])
def test_single_thresholds_are_those_of_enumeration(text, k, weighted):
    for seed in range(2):
        scores, y, group, weight = rows(seed, n=14 + 2 * k, k=k, weighted=weighted)
        if text.startswith("recall"):  # names no attribute, so that one threshold decides all rows
            group = np.full(len(y), "g0")
        data = scores, y, group, weight
        rule, report = fitted(text, *data)
        decisions = rule.chances(scores, rule.groups_of(group, len(y))) == 1
        cost = (weight * (decisions != y)).sum() / weight.sum()
        assert cost == pytest.approx(enumerated(text, *data), abs=1e-9), seed
        assert report["proved"] and report["cost"] == pytest.approx(cost, abs=1e-12)
        assert met(text, decisions, y, group, weight)
        stated = report["constraints"][0]["train_value"]
        if not text.startswith("recall") and stated is not None:
            assert stated == pytest.approx(value(text, decisions, y, group, weight), abs=1e-12)


@pytest.mark.parametrize("text", ["demographic_parity <= 0.1", "equalized_odds <= 0.25", "error_rate_parity <= 0.1"])
def test_branching_alone_finds_them(text, monkeypatch):
    """Without the local moves, and with rows of unequal weight, so that no cost is pruned for being a fraction of a row;
    two groups, so that no windows are looked at."""
    monkeypatch.setattr(deterministic.Search, "improved", lambda self, points: points)
    monkeypatch.setattr(deterministic, "WORK", 20000)
    for seed in range(6):
        data = rows(seed, n=16, weighted=True)
        report = fitted(text, *data)[1]
        assert report["proved"] and report["cost"] == pytest.approx(enumerated(text, *data), abs=1e-9), seed


def test_the_search_goes_on_while_the_best_choice_is_far_from_mixtures(monkeypatch):
    rng = np.random.default_rng(20)
    group = rng.integers(0, 20, 2000)
    y = (rng.random(2000) < 0.3 + 0.3 * (group % 3 == 0)).astype(int)
    data = rng.normal(size=2000) + y * (0.5 + group / 20), y, group.astype(str), None
    monkeypatch.setattr(deterministic, "by_windows", lambda program: Choices([]))
    further = fitted("equalized_odds <= 0.03", *data)[1]
    monkeypatch.setattr(deterministic, "FURTHER", 1)
    short = fitted("equalized_odds <= 0.03", *data)[1]
    assert not short["proved"] and further["accuracy"] > short["accuracy"] + 0.01


def test_other_costs_than_accuracy_are_minimised():
    for seed in range(4):
        data = rows(seed, weighted=bool(seed % 2))
        for costs in ((1, 5), (3, 1), (0, 1)):
            report = fitted("equalized_odds <= 0.3", *data, costs=costs)[1]
            assert report["cost"] == pytest.approx(enumerated("equalized_odds <= 0.3", *data, costs=costs), abs=1e-9)


def rates_of_points(scores, y, group, weight):
    """For each group, (p, 2) false and true positive rates of every threshold, and the weights (2,) of its labels."""
    out = []
    for g in sorted(set(group)):
        s, t, w = scores[group == g], y[group == g], weight[group == g]
        points = [[(w * (s > c) * (t == v)).sum() for v in (0, 1)] for c in np.append(-np.inf, np.unique(s))]
        total = np.array([(w * (t == v)).sum() for v in (0, 1)])
        out.append((np.array(points) / total, total))
    return out


def independent_optimum(odds, bound, data):
    """The lowest error over mixtures of all thresholds, for equalised odds or demographic parity of two groups, in rates."""
    (a, na), (b, nb) = rates_of_points(*data)
    total = na.sum() + nb.sum()
    cost = np.concatenate([p @ (n * [1, -1]) for p, n in ((a, na), (b, nb))]) / total
    if odds:
        rows_ = [np.concatenate([a[:, v], -b[:, v]]) for v in (0, 1)]
    else:
        rows_ = [np.concatenate([a @ na / na.sum(), -(b @ nb) / nb.sum()])]
    ones = np.array([[1] * len(a) + [0] * len(b), [0] * len(a) + [1] * len(b)])
    found = linprog(cost, np.vstack([*rows_, *(-r for r in rows_)]), [bound] * (2 * len(rows_)), ones, [1, 1])
    return found.fun + (na[1] + nb[1]) / total


@pytest.mark.parametrize("odds", [True, False])
def test_mixtures_are_those_of_a_linear_program_in_rates_over_all_points(odds):
    for seed in range(4):
        data = rows(seed, n=30, weighted=bool(seed % 2))
        for bound in (0.0, 0.03, 0.2):
            text = f"{'equalized_odds' if odds else 'demographic_parity'} <= {bound}"
            rule, report = fitted(text, *data, randomised=True)
            assert report["cost"] == pytest.approx(independent_optimum(odds, bound, data), abs=1e-8)
            assert report["gap"] == pytest.approx(0, abs=1e-8)
            assert report["constraints"][0]["train_value"] <= bound + 1e-9
            scores, y, group, weight = data
            chance = rule.chances(scores, rule.groups_of(group, len(y)))
            error = (weight * np.where(y == 1, 1 - chance, chance)).sum() / weight.sum()
            assert error == pytest.approx(report["cost"], abs=1e-8)


@pytest.mark.parametrize("text", BOUNDS)
def test_any_multipliers_give_a_lower_bound_and_the_solver_s_give_the_optimum(text):
    for seed in range(2):
        scores, y, group, weight = rows(seed, n=40, k=3, weighted=True)
        groups, rng = Groups.of(group), np.random.default_rng(seed)
        plan = compile_plan([fb.constraint(text)], groups, y)
        used = groups.codes if any(c.attributes for c in plan.columns) else np.zeros((len(y), 1), dtype=int)
        codes, member = np.unique(used, axis=0, return_inverse=True)
        member = member.ravel()
        curves = tuple(curve_of(scores[member == c], y[member == c], weight[member == c]) for c in range(len(codes)))
        program = program_of(plan, codes, curves, (1.0, 1.0))
        root = Relaxation(program).solve([(0, len(c) - 1) for c in curves])
        assert lower_bound(program, root.multipliers) == pytest.approx(root.cost, abs=1e-8)
        assert program.excess(root.selected(program)).max() <= 1e-9
        for _ in range(20):
            assert lower_bound(program, rng.exponential(size=len(program.bounds)) * 0.2) <= root.cost + 1e-9
        assert report_cost(text, scores, y, group, weight) >= root.cost - 1e-9


def report_cost(text, *data):
    return fitted(text, *data)[1]["cost"]


def test_corners_are_those_of_another_hull():
    rng = np.random.default_rng(0)
    for n in (3, 10, 200, 3000):
        steps = rng.integers(0, 3, (n, 2)) + (rng.random((n, 2)) < 0.01)
        points = np.concatenate([np.zeros((1, 2)), np.cumsum(steps[steps.sum(1) > 0], axis=0)])
        assert set(corners(points, 0, len(points) - 1)) == set(ConvexHull(points).vertices)
    line = np.arange(50.0)[:, None] * [1, 2]
    assert corners(line, 3, 40).tolist() == [3, 40]


def large(seed, n=3000, k=3):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, k, n)
    y = (rng.random(n) < 0.25 + 0.15 * group).astype(int)
    return rng.normal(size=n) + 1.2 * y + 0.4 * group, y, np.array([f"g{g}" for g in group]), np.ones(n)


@pytest.mark.parametrize("text", ["demographic_parity <= 0.02", "equal_opportunity <= 0.02", "equalized_odds <= 0.05"])
def test_on_many_rows_single_thresholds_come_near_the_optimum_and_keep_the_bound(text):
    for seed in range(2):
        data = large(seed)
        rule, report = fitted(text, *data)
        scores, y, group, _ = data
        decisions = rule.chances(scores, rule.groups_of(group, len(y))) == 1
        assert value(text, decisions, y, group, None) <= fb.constraint(text).bound + 1e-12
        assert -1e-9 <= report["gap"] <= 0.004  # one row in 250
        assert report["accuracy"] == pytest.approx((decisions == y).mean(), abs=1e-12)
        assert report["accuracy"] <= report["accuracy_bound"] + 1e-9


def test_order_of_rows_scale_of_weights_and_a_rising_function_of_scores_change_no_decision():
    scores, y, group, weight = large(3, n=600)
    order = np.random.default_rng(1).permutation(len(y))
    rule, _ = fitted("equalized_odds <= 0.05", scores, y, group, weight)
    expected = rule.chances(scores, rule.groups_of(group, len(y)))
    other, _ = fitted("equalized_odds <= 0.05", scores[order], y[order], group[order], weight)
    assert (other.chances(scores, other.groups_of(group, len(y))) == expected).all()
    scaled, _ = fitted("equalized_odds <= 0.05", scores, y, group, 4 * weight)
    assert scaled.thresholds == rule.thresholds
    risen, _ = fitted("equalized_odds <= 0.05", np.exp(scores), y, group, weight)
    assert (risen.chances(np.exp(scores), risen.groups_of(group, len(y))) == expected).all()


def test_a_row_of_weight_three_is_three_rows():
    scores, y, group, _ = rows(5, n=20)
    times = np.random.default_rng(5).integers(1, 4, len(y))
    for randomised in (False, True):
        by_weight = fitted("equalized_odds <= 0.2", scores, y, group, times.astype(float), randomised=randomised)[1]
        copies = [np.repeat(part, times) for part in (scores, y, group)]
        by_copies = fitted("equalized_odds <= 0.2", *copies, np.ones(times.sum()), randomised=randomised)[1]
        assert by_weight["cost"] == pytest.approx(by_copies["cost"], abs=1e-9)


def test_several_bounds_hold_at_once_and_tighter_ones_cost_more():
    data = large(4, n=1500)
    costs = [
        fitted([f"demographic_parity <= {b}", f"equal_opportunity <= {b}"], *data, randomised=True)[1]["cost"]
        for b in (0.3, 0.1, 0.03, 0.0)
    ]
    assert costs == sorted(costs)
    alone = fitted("demographic_parity <= 0.03", *data, randomised=True)[1]["cost"]
    assert alone <= costs[2] + 1e-9
    report = fitted(["demographic_parity <= 0.03", "equal_opportunity <= 0.05"], *data)[1]
    assert [c["train_value"] <= c["bound"] + 1e-12 for c in report["constraints"]] == [True, True]


def test_bounds_that_no_thresholds_meet_are_an_error_with_the_excess():
    y = np.tile([0, 1], 20)
    with pytest.raises(OptionError, match=r"the smallest excess over a bound is 0\.25"):
        fitted(["recall of class 1 >= 0.75", "recall of class 0 >= 0.75"], np.zeros(40), y, ["a"] * 40, None)


@pytest.mark.parametrize(
    "text", ["predictive_parity <= 0.1", "f1_parity <= 0.1", "loss_gap <= 0.1", "group_loss <= 0.4"]
)
def test_bounds_that_are_no_weighted_sums_of_rates_are_refused(text):
    with pytest.raises(OptionError, match="is no weighted sum of selection, error, true and false positive rates"):
        fitted(text, *rows(0))


@pytest.mark.parametrize(
    ("theirs", "ours"), [("demographic_parity", "demographic_parity"), ("equalized_odds", "equalized_odds"),
                         ("true_positive_rate_parity", "equal_opportunity"),
                         ("false_positive_rate_parity", "predictive_equality")]
)  # fmt: skip
def test_the_optimum_at_bound_zero_is_at_least_fairlearn_s_and_near_it(theirs, ours):
    """fairlearn's grid of 1,000 rates interpolates the same curves, so that it loses at most the slope over a step or so."""
    post = pytest.importorskip("fairlearn.postprocessing", reason="fairlearn is not installed")
    for seed in range(3):
        scores, y, group, weight = large(seed, n=800, k=2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            other = post.ThresholdOptimizer(
                estimator=_Scores(),
                constraints=theirs,
                objective="accuracy_score",
                prefit=True,
                predict_method="predict",
            ).fit(scores[:, None], y, sensitive_features=group)
            chance = other._pmf_predict(scores[:, None], sensitive_features=group)[:, 1]
        accuracy = np.where(y == 1, chance, 1 - chance).mean()
        report = fitted(f"{ours} <= 0", scores, y, group, weight, randomised=True)[1]
        assert report["accuracy"] >= accuracy - 1e-9
        assert report["accuracy"] <= accuracy + 0.003


class _Scores(BaseEstimator):
    """A fitted model whose prediction is its one column."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.asarray(X)[:, 0]

    def __sklearn_is_fitted__(self):
        return True
