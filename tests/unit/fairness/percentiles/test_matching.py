"""Linear models moved until the scores of groups are distributed alike on an interval."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

import fairbound as fb
from fairbound.fairness.percentiles.intervals import Percentiles
from fairbound.fairness.percentiles.matching import Matched
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import MLP
from fairbound.tables.group_terms import with_terms

BOUND = "partial_statistical_parity[0.2:0.6+0.8:1] <= {:g}"


def rows(groups=2, n=1500, d=5, seed=0):
    """(n, d) features whose spread depends on the group, terms of each group, labels, and groups."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, groups, n)
    xi = rng.normal(size=(n, d)) * (1 + 0.5 * group[:, None]) + 0.3 * group[:, None] * rng.exponential(size=(n, d))
    y = (xi[:, 0] + rng.normal(size=n) > 0.5).astype(int)
    return with_terms(xi, group, groups).astype(np.float32), y, np.array([f"g{k}" for k in group])


def problem(bound, groups=2, dense=True, **options):
    X, y, group = rows(groups)
    return FairProblem(MLP(X.shape[1]), X if dense else sparse.csr_matrix(X), y, group, BOUND.format(bound), **options)


def beside(made, seed=0):
    """A point at which scores of the groups differ, and rise with the labels."""
    x = made.start([0])
    x[: made.model.n] = torch.from_numpy(np.random.default_rng(seed).normal(scale=0.4, size=made.model.n)).to(x)
    x[0] += 2.0
    return x


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("groups", [2, 3])
def test_the_bound_is_met_by_a_model_that_is_no_constant(groups, dense):
    made = problem(0.04, groups, dense)
    x = beside(made)
    assert float(made.evaluate(x).extra["stated"]) > 0.2
    moved = made.nearer(x)
    assert float(made.evaluate(moved).violation) == 0
    scores = made.all_scores(moved)
    assert len(scores.unique()) > 1000 and float(scores.std()) > 0.1
    assert torch.equal(moved[made.model.n :], x[made.model.n :])


def test_weights_count_as_so_many_rows():
    X, y, group = rows()
    weight = np.random.default_rng(1).integers(0, 3, len(y))
    one = FairProblem(MLP(X.shape[1]), X, y, group, BOUND.format(0.05), sample_weight=weight, dtype=torch.float64)
    many = np.repeat(np.arange(len(y)), weight)
    other = FairProblem(MLP(X.shape[1]), X[many], y[many], group[many], BOUND.format(0.05), dtype=torch.float64)
    moved = one.nearer(beside(one))
    assert float(one.evaluate(moved).violation) == 0 == float(other.evaluate(moved).violation)


@pytest.mark.parametrize("seed", [0, 2])
def test_rows_that_are_alike_are_moved_as_one(seed):
    """Where many rows have one score they alone are next to a threshold, and the slope there has no size."""
    rng = np.random.default_rng(seed)
    n, group = 8000, rng.integers(0, 2, 8000)
    first = np.minimum(rng.exponential(0.3, n) * (1 + 0.3 * group), 1.5)
    few = [(24 * first).round() / 24, rng.integers(0, 5, n) / 2]
    X = np.column_stack([*few, rng.random((n, 3)) < np.array([0.3, 0.5, 0.2]) + 0.2 * group[:, None]])
    X, w = X.astype(np.float32), np.array([1.0, 0.62, 0.71, -0.53, 0.37])
    every = Matched(X, group, np.ones(len(X)), (Percentiles.read("0.2:0.5"),) * 2, lambda w: X @ w)
    one = every.alike_as_one()
    assert len(one.member) == len(np.unique(np.column_stack([X, group]), axis=0)) < 3000
    assert one.weight.sum() == len(X) and one.alike_as_one() is one
    assert one.worst(w) == pytest.approx(every.worst(w), abs=1e-12)
    assert one.worst(one.moved(w, 0.03)) <= 0.03 < every.worst(every.moved(w, 0.03))

    y = (X @ w + rng.logistic(size=len(X)) > 1).astype(int)
    made = FairProblem(MLP(5), X, y, group, "partial_statistical_parity[0.2:0.5] <= 0.03", dtype=torch.float64)
    x = made.start([0])
    x[:5] = torch.from_numpy(w)
    assert float(made.evaluate(made.nearer(x)).violation) == 0


def test_slopes_of_the_difference_are_those_of_finite_differences():
    """Of many rows, whose shares above a threshold are nearly smooth in the weights."""
    X, _, group = rows(n=200_000, d=2)
    interval = Percentiles.read("0.2:0.6+0.8:1")
    w = np.array([1.0, -0.5, 0.3, 0.4, 0.2])
    made = Matched(X.astype(float), (group == "g1").astype(int), np.ones(len(X)), (interval,) * 2, lambda w: X @ w)
    now = made._point(w)
    gap = np.searchsorted(now.above[0], 0.7)
    chosen = np.searchsorted((now.curves[0] + now.curves[1]) / 2, [0.2, 0.35, 0.8])
    chosen = np.append(chosen, gap)  # where group 0 has a rank between the intervals
    slopes = np.asarray(made._row_slopes(now, chosen, 1.0) @ X)
    highest, lowest = now.curves[:, chosen].argmax(0), now.curves[:, chosen].argmin(0)

    def difference(w):
        s = X @ w
        above = [[np.mean(s[group == g] > t) for t in now.at[chosen]] for g in ("g0", "g1")]
        curves = np.stack([interval.through(p) for p in above])
        return np.take_along_axis(curves, highest[None], 0)[0] - np.take_along_axis(curves, lowest[None], 0)[0]

    h = 0.02
    found = np.stack([(difference(w + h * e) - difference(w - h * e)) / (2 * h) for e in np.eye(len(w))], 1)
    assert np.abs(slopes).max() > 0.2
    np.testing.assert_allclose(slopes, found, atol=0.06)


def test_other_problems_know_no_nearer_point():
    X, y, group = rows()
    x = torch.zeros(3000)
    network = FairProblem(MLP(X.shape[1], (4,)), X, y, group, BOUND.format(0.1))
    rates = FairProblem(MLP(X.shape[1]), X, y, group, "demographic_parity <= 0.1")
    assert network.nearer(x[: network.n]) is None and rates.nearer(x[: rates.n]) is None


def test_scores_have_the_scale_and_shift_of_lowest_objective():
    made = problem(0.9)
    x = beside(made)
    moved = made.nearer(x)
    order = made.all_scores(x).argsort()
    assert float(made.evaluate(moved).f) < float(made.evaluate(x).f) - 0.05
    assert bool((made.all_scores(moved)[order].diff() > -1e-4).all())
    for scale, shift in ((1.05, 0.0), (0.95, 0.0), (1.0, 0.05), (1.0, -0.05)):
        other = torch.cat([scale * moved[: made.model.n], moved[made.model.n :]])
        other[made.model.n - 1] += shift
        assert float(made.evaluate(other).f) > float(made.evaluate(moved).f)


def test_training_ends_at_a_model_where_its_iterates_miss_a_small_bound():
    X, y, group = rows()
    made = FairProblem(MLP(X.shape[1]), X, y, group, BOUND.format(0.02))
    solution = fb.solve(made, "full_batch_alm:thresholds", budget="6 steps", sampling="full")
    assert all(float(r["train"]["stated"][0]) > 0.02 for r in solution.records[1:])
    assert solution.found and float(made.evaluate(solution.x).violation) == 0
    assert len(made.all_scores(solution.x).unique()) > 1000
