"""A linear model of numbers moved along lines on which shares above thresholds are counted."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.estimators.linear import full_batch
from fairbound.fairness.lines import lower_error as lines
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import MLP

RNG = np.random.default_rng(0)
GROUP = RNG.integers(0, 3, 600)
X = RNG.normal(size=(600, 4)) + (GROUP == 0)[:, None] * [1.0, 0, 0, 0]
Y = X @ [0.7, 0.4, 0.2, 0.0] + 0.3 * (GROUP == 0) + 0.5 * RNG.normal(size=600)
WEIGHT = RNG.uniform(0.5, 2, 600)
BOUNDS = ("prediction_parity[at=-0.5:0:0.5] <= 0.1", "prediction_parity[at=0,overall] <= 0.05")


def made(bound=BOUNDS[0], loss="squared", **options):
    return FairProblem(MLP(4), X, Y, GROUP, bound, loss=loss, dtype=torch.float64, **options)


def inside():
    """Points that predict nearly the same of all rows, between two thresholds."""
    for scale in (0.0, 0.02, 0.05):
        yield torch.tensor([0.0, scale, scale, 0.0, 0.25], dtype=torch.float64)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bound", BOUNDS)
def test_no_point_of_a_line_that_meets_the_bounds_has_a_lower_error(bound, weighted):
    problem = made(bound, **({"sample_weight": WEIGHT} if weighted else {}))
    counted, rng, moved = lines.CountedShares.of(problem), np.random.default_rng(1), 0
    for x in inside():
        assert float(problem.evaluate(x).violation) <= 0
        for reach in (0.05, 0.3, 1.0):
            v = torch.from_numpy(rng.normal(size=5))
            t = counted.lowest(counted.features @ x.numpy(), counted.features @ v.numpy(), reach)
            at_t, before = problem.evaluate(x + t * v), float(problem.evaluate(x).f)
            tried = problem.evaluate(x + torch.linspace(-reach, reach, 401, dtype=torch.float64)[:, None] * v)
            least = min(tried.f[tried.violation <= 0].tolist(), default=before)
            assert float(at_t.violation) <= 0 and float(at_t.f) <= before
            assert float(at_t.f) <= least + 1e-3 * abs(before - least) + 1e-9
            moved += t != 0
    assert moved > 3


@pytest.mark.parametrize(
    ("bound", "weighted"),
    [
        (BOUNDS[0], False),
        *(pytest.param(*p, marks=pytest.mark.long) for p in ((BOUNDS[0], True), (BOUNDS[1], False), (BOUNDS[1], True))),
    ],
)
def test_the_bounds_are_kept_and_rounding_of_the_features_changes_no_share(bound, weighted):
    problem = made(bound, **({"sample_weight": WEIGHT} if weighted else {}))
    rounded = FairProblem(MLP(4), X.astype(np.float32), Y, GROUP, bound, loss="squared", dtype=torch.float64,
                          **({"sample_weight": WEIGHT} if weighted else {}))  # fmt: skip
    for x in inside():
        after = lines.lower_error(problem, x)
        found = problem.evaluate(after)
        assert float(found.violation) <= 0 and float(found.f) < 0.99 * float(problem.evaluate(x).f)
        assert torch.equal(found.g, rounded.evaluate(after).g)
        assert torch.equal(after, lines.lower_error(problem, x))


def test_what_it_does_not_cover_stays_where_it_is(monkeypatch):
    x = next(inside())
    for bound in ("residual_gap <= 1", [BOUNDS[0], "group_squared_error <= 9"], []):
        assert lines.lower_error(made(bound), x) is x
    equal = FairProblem(MLP(4), X, 0 * Y, GROUP, BOUNDS[0], loss="squared", dtype=torch.float64)
    assert lines.lower_error(equal, x) is x
    monkeypatch.setattr(lines, "MOST", 1000)
    assert lines.lower_error(made(), x) is x


def test_a_fit_takes_the_lines_unless_rows_are_held_back(monkeypatch):
    asked = []
    monkeypatch.setattr(full_batch, "lower_error", lambda problem, x: asked.append(1) or x)
    fb.FairRegressor(BOUNDS[0]).fit(X, Y, GROUP)
    assert asked == [1]
    fb.FairRegressor(BOUNDS[0], validation=0.3).fit(X, Y, GROUP)
    assert asked == [1]


def test_a_random_part_that_is_opposite_to_steepest_descent_makes_no_line():
    """Of one coordinate both are 1 or -1, and their sum is often 0."""
    counted = lines.CountedShares.of(made())
    x = next(iter(inside())).numpy()
    for seed in range(5):
        moved = counted.walk(counted.features @ x, counted.features.T[:1], np.random.default_rng(seed))
        assert np.isfinite(moved).all()
