"""A linear model moved along lines on which wrong decisions are counted."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.estimators.linear import full_batch
from fairbound.fairness.lines import fewer_wrong as lines
from fairbound.fairness.lines.counted_rows import CountedRows
from fairbound.fairness.objectives import Accuracy
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import MLP

BOUNDS = ("demographic_parity <= 0.02", "equalized_odds <= 0.05", "error_rate_parity <= 0.05")
QUOTIENTS = ("predictive_parity <= 0.05", "f1_parity <= 0.05")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(800, 8)) * np.arange(1, 9)
GROUP = RNG.integers(0, 2, 800)
Y = (X[:, 0] + 0.5 * GROUP + 0.2 * X[:, 7] + RNG.normal(size=800) > 0).astype(int)
WEIGHT = RNG.uniform(0.5, 2, 800)


def made(bound=BOUNDS[0], **options):
    return FairProblem(MLP(8), X, Y, GROUP, bound, objective=Accuracy(0.5), dtype=torch.float64, **options)


def inside(problem):
    """Points that decide by one feature, or none, about which the bounds are met."""
    for scale in (0.0, 0.3, 1.0, 3.0):
        x = torch.zeros(9, dtype=torch.float64)
        x[1:3] = torch.tensor([scale, 1.0], dtype=torch.float64)
        x[8] = 100.0 if float(problem.evaluate(x).violation) > 0 else 0.0
        yield x


@pytest.mark.parametrize(
    ("bound", "weighted"),
    [
        (BOUNDS[0], True),
        (BOUNDS[1], False),
        (QUOTIENTS[0], True),
        (QUOTIENTS[1], False),
        *(
            pytest.param(BOUNDS[k], w, marks=pytest.mark.long)
            for k, w in ((0, False), (1, True), (2, False), (2, True))
        ),
    ],
)
def test_no_stretch_of_a_line_that_meets_the_bounds_decides_fewer_rows_wrongly(bound, weighted):
    problem = made(bound, **({"sample_weight": WEIGHT} if weighted else {})).with_objective(Accuracy(1.0))
    whole, rng, found = CountedRows.of(problem, torch.zeros(9, dtype=torch.float64)), np.random.default_rng(1), 0
    for x in inside(problem):
        for reach in (0.1, 1.0, 5.0):
            v, scores = torch.from_numpy(rng.normal(size=9)), whole.scores(x).numpy()
            along = (whole.features @ v[:-1] + v[-1]).numpy()
            before, here = problem.evaluate(x), whole.sums(x)
            best = lines.fewest(scores, along, reach, whole.turns, here, whole.judged(here), whole.judged)
            crossings = np.sort(-scores / along)
            middles = (crossings[1:] + crossings[:-1])[np.diff(crossings) > 2 * lines.FLAT * reach] / 2
            points = x + torch.from_numpy(middles[np.abs(middles) < reach])[:, None] * v
            tried = problem.evaluate(points)
            near = [int(k) for k in tried.f.argsort() if float(tried.violation[k]) <= 1e-9]  # rounded otherwise alone
            least = next((float(tried.f[k]) for k in near if float(problem.evaluate(points[k]).violation) <= 0), np.inf)
            if best is None:
                assert not least < float(before.f) - 1e-9
                continue
            after = problem.evaluate(x + best[0] * v)
            np.testing.assert_allclose(whole.judged(best[1]), [float(after.f), *after.g.tolist()], atol=1e-9)
            assert float(after.violation) <= 0 and float(after.f) <= min(least, float(before.f)) + 1e-9
            found += 1
    assert found


def missing(bound):
    """A problem whose groups are told by the feature that labels follow, and a point that misses the bound by it."""
    problem = FairProblem(MLP(8), X, Y, X[:, 0] > 0.5, bound, objective=Accuracy(0.5), dtype=torch.float64)
    return problem, torch.tensor([1.0] + [0.0] * 8, dtype=torch.float64)


@pytest.mark.parametrize("bound", (*BOUNDS, *QUOTIENTS))
def test_no_stretch_of_a_line_misses_the_bounds_by_less_where_they_are_missed(bound):
    problem, x = missing(bound)
    problem = problem.with_objective(Accuracy(1.0))
    whole, rng, least = CountedRows.of(problem, x), np.random.default_rng(2), []
    here = whole.sums(x)
    now = whole.judged(here)
    assert lines.missed(now) > 0
    for reach in (0.1, 1.0, 5.0):
        v, scores = torch.from_numpy(rng.normal(size=9)), whole.scores(x).numpy()
        along = (whole.features @ v[:-1] + v[-1]).numpy()
        crossings = np.sort(-scores / along)
        middles = (crossings[1:] + crossings[:-1])[np.diff(crossings) > 2 * lines.FLAT * reach] / 2
        states = whole.judged(np.array([whole.sums(x + t * v) for t in middles[np.abs(middles) < reach]]).T)
        over = np.square(states[1:].clip(0)).sum(0)
        t, sums = lines.fewest(scores, along, reach, whole.turns, here, now, whole.judged)
        found = whole.judged(sums)
        assert np.allclose(found, whole.judged(whole.sums(x + t * v)), rtol=0, atol=1e-9)
        assert abs(lines.missed(found) - over.min()) < 1e-9
        assert found[0] <= states[0, over <= over.min() + 1e-12].min() + 1e-9
        least.append(over.min() < lines.missed(now))
    assert any(least)


@pytest.mark.parametrize("bound", (*BOUNDS, QUOTIENTS[1]))
def test_a_model_that_misses_its_bounds_comes_to_meet_them(bound):
    problem, x = missing(bound)
    assert float(problem.evaluate(x).violation) > 0.02
    after = problem.evaluate(lines.fewer_wrong(problem, x))
    assert float(after.violation) <= 0
    assert float(after.extra["accuracy"]) > max(Y.mean(), 1 - Y.mean()) + 0.1


@pytest.mark.parametrize(("wide", "gain"), [(lines.WIDE, 0.05), (0.05, 0.0)])
@pytest.mark.parametrize("bound", BOUNDS)
def test_what_comes_of_it_meets_the_bounds_and_is_no_less_accurate(bound, wide, gain, monkeypatch):
    """Also where the rows looked at are too few to tell."""
    monkeypatch.setattr(lines, "WIDE", wide)
    problem = made(bound)
    gains = []
    for x in inside(problem):
        before, after = (problem.evaluate(at) for at in (x, lines.fewer_wrong(problem, x)))
        assert float(before.violation) > 0 or float(after.violation) <= 0
        gains.append(float(after.extra["accuracy"] - before.extra["accuracy"]))
    assert min(gains) >= 0
    assert max(gains) >= gain


def test_where_lines_led_outside_the_bounds_is_forgotten(monkeypatch):
    problem, better = made("demographic_parity <= 0.001"), torch.eye(9, dtype=torch.float64)[0]
    start = 0.01 * better - 100 * torch.eye(9, dtype=torch.float64)[8]
    before, outside = problem.evaluate(start), problem.evaluate(better)
    assert float(before.violation) <= 0 < float(outside.violation)
    assert outside.extra["accuracy"] > before.extra["accuracy"]
    spread = problem.all_scores(start).std()
    monkeypatch.setattr(np.linalg, "eigh", lambda of: (np.ones(9), np.eye(9)))
    monkeypatch.setattr(lines, "_walk", lambda *args: ((better - start) / spread).numpy())
    assert torch.equal(lines.fewer_wrong(problem, start), start)


def test_the_same_point_every_time_and_none_without_a_pass_over_all_rows():
    problem, x = made(), next(iter(inside(made())))
    assert torch.equal(lines.fewer_wrong(problem, x), lines.fewer_wrong(problem, x))
    losses = FairProblem(MLP(8), X, Y, GROUP, "loss_gap <= 0.2", objective=Accuracy(0.5))
    assert lines.fewer_wrong(losses, x.float()).tolist() == x.tolist()


@pytest.mark.parametrize("bound", QUOTIENTS)
def test_quotients_of_decisions_are_those_that_are_measured(bound):
    problem = made(bound, sample_weight=WEIGHT).with_objective(Accuracy(1.0))
    x = torch.linspace(-0.4, 0.5, 9, dtype=torch.float64)
    whole = CountedRows.of(problem, x)
    for last in (-0.4, 0.5, 100.0):
        x[8] = last
        exact = problem.evaluate(x)
        np.testing.assert_allclose(whole.judged(whole.sums(x)), [float(exact.f), *exact.g.tolist()], atol=1e-9)


def test_the_objective_accuracy_has_what_it_finds_and_others_do_not(monkeypatch):
    def accuracy(objective, **options):
        model = fb.FairClassifier(BOUNDS[0], objective=objective, **options).fit(X, Y, sensitive_features=GROUP)
        assert model.fit_report_["feasible"]
        return model.fit_report_["accuracy"]

    names = ("accuracy", "auto", "loss")
    found, held = [accuracy(name) for name in names], accuracy("accuracy", validation=0.2)
    monkeypatch.setattr(full_batch, "fewer_wrong", lambda problem, x: x)
    without = [accuracy(name) for name in names]
    assert found[0] > without[0]
    assert found[1:] == without[1:] and held == accuracy("accuracy", validation=0.2)


@pytest.mark.parametrize("seed", range(6))
def test_a_quotient_by_no_decisions_is_undefined_where_weights_round(seed):
    rng = np.random.default_rng(seed)
    X, group, weight = rng.normal(size=(150, 4)), rng.integers(0, 3, 150), rng.uniform(0.2, 3, 150)
    y = (X[:, 0] + rng.normal(size=150) > 0.5).astype(int)
    stated, options = "false_omission_rate_parity <= 0.05", {"objective": Accuracy(1.0), "dtype": torch.float64}
    problem = FairProblem(MLP(4), X, y, group, stated, sample_weight=weight, **options)
    x = torch.tensor([0.1, 0, 0, 0, 50.0], dtype=torch.float64)
    whole = CountedRows.of(problem, x)
    np.testing.assert_allclose(whole.judged(whole.sums(x))[1:], problem.evaluate(x).g, atol=1e-9)
