"""The plain rendering of the benchmark is the library's problem, its subgradients are subgradients, and its steps descend."""

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path[:0] = [str(Path(__file__).parents[3] / "benchmarks")]

import partial_speed as bench  # noqa: E402

from fairbound.fairness.notions import constraint  # noqa: E402
from fairbound.fairness.percentiles.intervals import Percentiles  # noqa: E402
from fairbound.fairness.problem import FairProblem  # noqa: E402
from fairbound.models.mlp import MLP  # noqa: E402
from fairbound.studies.rows import StudyRows  # noqa: E402

TEXT = bench.TEXT.format("0.1:0.6", 0.1)


@pytest.fixture(scope="module")
def both():
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b"], 300)
    x = np.column_stack([rng.normal(size=(300, 2)), group == "a"]).astype(np.float32)
    y = (rng.random(300) < 1 / (1 + np.exp(-x[:, 0] - x[:, 2]))).astype(int)
    bound = constraint(TEXT)
    plain = bench.Plain(StudyRows(x, y, group), Percentiles.read("0.1:0.6"), 0.1, bound.levels())
    return plain, FairProblem(MLP(3), x, y, group, TEXT, dtype=torch.float64)


def points(problem, count=5):
    start = problem.start([0]).numpy().reshape(-1)
    return [start + np.random.default_rng(i).normal(size=len(start)) * 0.3 for i in range(count)]


def test_it_is_the_same_problem(both):
    plain, ours = both
    for x in points(ours):
        e = ours.values(torch.from_numpy(x), ours.full())
        assert plain.loss(x)[0] == pytest.approx(float(e.f), abs=1e-10)
        g = plain.constraints(*plain.halves(x))
        assert np.sort(g.ravel()) == pytest.approx(np.sort(e.g.numpy().ravel()), abs=1e-9)


def test_its_slopes_are_subgradients(both):
    plain, ours = both
    for x, other in pairwise(points(ours)):
        f, slope = plain.loss(x)
        assert plain.loss(other)[0] >= f + slope @ (other - x) - 1e-12
        for place in range(10):
            for i, side in enumerate((0.5, -0.5)):
                at, away = plain.halves(x)[i][1, place], plain.halves(other)[i][1, place]
                assert away >= at + plain.slope(x, side, 1, place) @ (other - x) - 1e-12


def test_an_evaluation_is_measured_beside_the_scores(both):
    seen = bench.evaluation(both[1], repeats=3)
    assert seen["ratio"] == seen["evaluation"] / seen["scores"] > 1


def test_its_iterates_stay_near_the_bounds_and_lower_the_loss(both):
    plain, ours = both
    start = ours.start([0]).numpy().reshape(-1)
    seen = [start, *(x for _, x in bench.plain_idca(plain, start, 4, 150, 2e-3))]
    assert all(plain.constraints(*plain.halves(x)).max() <= 2e-3 + 1e-12 for x in seen[1:])
    losses = [plain.loss(x)[0] for x in seen]
    assert all(b <= a + 1e-12 for a, b in pairwise(losses))
    assert losses[-1] < losses[0] - 0.01
