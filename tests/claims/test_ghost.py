"""Stochastic Ghost (Kliachkin et al. 2025, section 3.2 and Algorithm 1), claim by claim.

Expectations are sums over every multiset of a few elements, weighted by its multinomial probability, so they carry no
noise; where batches are really drawn, means of thousands of them are held against exact values within 5 standard errors
(a false alarm in 1.7 million; the seeds are fixed).
"""

from collections import Counter
from dataclasses import fields, replace
from itertools import combinations_with_replacement, pairwise
from math import factorial, prod

import numpy as np
import pytest
import torch

from fairbound.base.errors import OptionError
from fairbound.methods import METHODS, StochasticGhost, algorithm
from fairbound.methods.stochastic_ghost import (
    Averages,
    averages,
    direction,
    estimate,
    kappa_of,
)
from fairbound.problems.problem import Draws
from fairbound.problems.wrappers import Counted
from fairbound.testing import PROBLEMS, Spy, run
from twelve_rows import convex_fair, tiny

# Three elements X_j = (grad f, c, grad c) at one x: the first needs its constraint, the second does not, and the rows
# of c turn from element to element, so d(X) bends with the sample.
ELEMENTS = [
    Averages(np.array([1.0, -0.5]), np.array([0.4, -0.5]), np.array([[1.0, 0.3], [-1.0, -0.3]])),
    Averages(np.array([-0.2, 0.8]), np.array([-0.3, 0.1]), np.array([[0.5, -0.4], [-0.5, 0.4]])),
    Averages(np.array([0.3, 0.9]), np.array([0.6, -0.8]), np.array([[0.2, 1.1], [-0.2, -1.1]])),
]


def mean_of(weighted):
    """(sum of weights, averages) of (weight, Averages) pairs."""
    return Averages(*(sum(w * getattr(s, f.name) for w, s in weighted) for f in fields(Averages)))


def batches(elements, size):
    """Every batch of `size` independent elements up to order, as (probability, averages)."""
    out = []
    for chosen in combinations_with_replacement(range(len(elements)), size):
        counts = Counter(chosen)
        orders = factorial(size) // prod(factorial(c) for c in counts.values())
        out.append((orders / len(elements) ** size, mean_of([(c / size, elements[j]) for j, c in counts.items()])))
    return out


def mean_direction(config, elements, size):
    return sum(p * direction(config, s)[0] for p, s in batches(elements, size))


def mean_estimate(config, elements):
    """E[d_k] by enumerating N, X^1 and both halves. X^1 enters (9) by d(X^1) alone, so its mean is taken apart."""
    first = ELEMENTS[0]
    total = mean_direction(config, elements, 1) - direction(config, first)[0]
    for level, probability in enumerate(config.level_law):
        halves = batches(elements, 2**level)
        for p, odd in halves:
            for q, even in halves:
                total = total + probability * p * q * estimate(config, first, odd, even, level)[0]
    return total


@pytest.mark.parametrize("preset", StochasticGhost.presets)
@pytest.mark.parametrize("max_level", [0, 1, 2])
def test_the_estimators_mean_is_the_direction_of_the_largest_batches(max_level, preset):
    """The telescoping sum: E[d_k] = E[d(X^(2^(max_level + 1)))], exactly; without the correction it is not."""
    config = algorithm(f"stochastic_ghost:{preset}", max_level=max_level)
    exact = mean_direction(config, ELEMENTS, 2 ** (max_level + 1))
    np.testing.assert_allclose(mean_estimate(config, ELEMENTS), exact, atol=1e-9)
    assert np.abs(mean_direction(config, ELEMENTS, 1) - exact).max() > 1e-2


def test_the_estimators_mean_equals_the_full_batch_direction_where_d_is_affine():
    """With J the same in every element and one row that always binds, d is affine in (grad f, c): no bias at all."""
    row, shift = np.array([[1.0, 0.3]]), np.array([2.0, 0.0])
    elements = [Averages(e.gradient - shift, e.c[:1] + 2, row) for e in ELEMENTS]
    config = StochasticGhost(max_level=2)
    full, multipliers = direction(config, mean_of([(1 / 3, e) for e in elements]))
    assert multipliers[0] > 0 and all(direction(config, e)[1][0] > 0 for e in elements)
    np.testing.assert_allclose(mean_estimate(config, elements), full, atol=1e-9)


def test_the_estimators_mean_tends_to_the_full_batch_direction():
    """d is piecewise affine here, so the bias left by stopping at max_level falls far faster than 1 / batch size."""
    config = StochasticGhost()
    full = direction(config, mean_of([(1 / 3, e) for e in ELEMENTS]))[0]
    bias = [np.abs(mean_direction(config, ELEMENTS, 2 ** (level + 1)) - full).max() for level in (0, 1, 2, 3, 4)]
    assert all(after < before for before, after in pairwise(bias)) and bias[-1] < 1e-3 * bias[0], bias


def test_levels_follow_the_truncated_geometric_law_and_need_no_state():
    config = StochasticGhost(max_level=4)
    drawn = [config.level_at(seed, k) for seed in range(5) for k in range(4000)]
    expected = config.level_law * len(drawn)
    assert config.level_law[1] / config.level_law[0] == pytest.approx(0.6) and config.level_law.sum() == pytest.approx(
        1
    )
    counts = np.bincount(drawn, minlength=5)
    assert (np.abs(counts - expected) <= 5 * np.sqrt(expected)).all()
    assert config.level_at(3, 17) == config.level_at(3, 17)
    assert {StochasticGhost(max_level=0).level_at(0, k) for k in range(50)} == {0}


def test_drawn_samples_are_unbiased_at_every_level():
    problem = tiny("loss_gap <= 0.1")
    x = torch.tensor([0.4, -0.7, 0.2], dtype=torch.float64)
    config, draws = StochasticGhost(), Draws(problem, (0,), 8)
    e, jacobian = problem.jacobian(x, problem.full())
    exact = [jacobian[0].numpy(), e.g.numpy(), jacobian[1:].numpy()]
    for level in (0, 3):
        drawn = [averages(config, x, draws, f"level {level}", k, level) for k in range(400)]
        for field, value in zip(fields(Averages), exact, strict=True):
            sample = np.stack([getattr(s, field.name) for s in drawn])
            error = sample.std(0) / np.sqrt(len(sample))
            assert (np.abs(sample.mean(0) - value) <= 5 * error).all(), field.name


def test_steps_have_the_mean_of_the_direction_over_the_largest_batches():
    """The whole path, draws included: the mean of 250 steps from one x against 250 batches of 2^(max_level + 1)."""
    problem, config = tiny("loss_gap <= 0.1"), StochasticGhost(max_level=2, step_size=1.0, step_decay=0.0)
    x = torch.tensor([0.4, -0.7, 0.2], dtype=torch.float64)
    draws = Draws(problem, (0,), 8)
    state, moves = config.init(problem, x.clone(), draws), []
    for _ in range(250):
        state.x.copy_(x)
        state = config.step(state, problem, draws)
        moves.append((state.x - x).numpy())
    whole = [direction(config, averages(config, x, draws, "check", k, 3))[0] for k in range(250)]
    error = np.sqrt(np.var(moves, axis=0) / len(moves) + np.var(whole, axis=0) / len(whole))
    assert (np.abs(np.mean(moves, axis=0) - np.mean(whole, axis=0)) <= 5 * error).all()


class Watched(Spy):
    """Notes every sample taken, with its batch."""

    def __init__(self, problem):
        super().__init__(problem)
        self.taken = []

    def sample(self, seeds, name, k, size, kind):
        batch = super().sample(seeds, name, k, size, kind)
        self.taken.append(((seeds, name, k, size, kind), batch))
        return batch


def test_no_sample_is_used_twice_and_subgroups_get_equal_rows():
    """The smaller of the two groups has five rows, so eight rows of each are two independent batches of four."""
    problem, config = Watched(tiny("loss_gap <= 0.1")), StochasticGhost(max_level=2, element_rows=2)
    state = run(config, problem, 60)
    keys = [key for key, _ in problem.taken]
    levels = Counter(config.level_at(0, k) for k in range(60))
    assert sorted(levels) == [0, 1, 2]
    assert len(set(keys)) == len(keys) == 60 * 6 + 2 * levels[2]
    rows = {level: sum(size for _, name, _, size, _ in keys if name == f"pair {level} xi") for level in levels}
    assert rows == {level: 2 * 2 * 2**level * count for level, count in levels.items()}
    for (_, name, _, size, kind), batch in problem.taken:
        if name.endswith("zeta"):
            assert kind == "balanced" and size <= 2 * 4
            assert torch.bincount(batch.cells.flatten()).tolist() == [size // 2, size // 2]
            rows[name] = rows.get(name, 0) + size
        else:
            assert kind == "uniform"
    assert all(rows[f"pair {level} zeta"] == 2 * rows[level] for level in levels)
    assert int(state.visits.sum()) == state.counted == 59


def test_a_step_that_was_skipped_leaves_later_draws_as_they_were():
    """solve(nonfinite="skip") raises k without a step; the samples of the steps after it do not move."""
    seen = []
    for skipped in (False, True):
        problem, config = Watched(tiny("loss_gap <= 0.1")), StochasticGhost(max_level=2)
        draws = Draws(problem, (0,), 8)
        state = config.init(problem, problem.start((0,)), draws)
        for k in range(30):
            if k == 20:
                problem.taken.clear()
            state = replace(state, k=k + 1) if skipped and k in (7, 8) else config.step(state, problem, draws)
        seen.append([key for key, _ in problem.taken])
    assert seen[0] == seen[1]


def test_kappa_is_the_papers_formula_and_swapped_is_the_published_codes():
    c, jacobian = np.array([0.7]), np.array([[0.5, -0.4, 0.2]])
    norm = 1.1

    def formula(weight, radius):
        return (1 - weight) * 0.7 + weight * max(0.0, 0.7 - radius * norm)

    paper, published = algorithm("stochastic_ghost:paper"), algorithm("stochastic_ghost:published-code")
    assert paper == StochasticGhost()
    assert kappa_of(paper, c, jacobian) == pytest.approx(formula(0.5, 0.8), abs=1e-12)
    assert kappa_of(published, c, jacobian) == pytest.approx(formula(0.8, 0.5), abs=1e-12)
    assert kappa_of(paper, -c, jacobian) == 0.0
    sample = Averages(np.zeros(3), c, jacobian)
    assert np.abs(direction(paper, sample)[0] - direction(published, sample)[0]).max() > 0.05


def test_the_steps_shrink_by_the_papers_recursion():
    config, problem = StochasticGhost(step_size=0.3, step_decay=0.2, max_level=1), PROBLEMS["active"]()
    alphas = []
    run(config, problem, 4, after=lambda state: alphas.append(state.alpha))
    expected = [0.3]
    for _ in range(3):
        expected.append(expected[-1] * (1 - 0.2 * expected[-1]))
    assert alphas == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("name", ["active", "inactive", "two_sided", "weakly_convex_constraint"])
def test_without_noise_it_converges_to_the_optimum_and_its_multipliers(name):
    """Samples are exact, so (9) is the deterministic method's direction; with a constant step it converges linearly."""
    problem = PROBLEMS[name]()
    state = run(StochasticGhost(step_size=0.5, step_decay=0.0, max_level=1), problem, 150)
    np.testing.assert_allclose(state.x, problem.optimum.x, atol=1e-7)
    np.testing.assert_allclose(state.multipliers, problem.optimum.multipliers, atol=1e-6)


def test_on_all_rows_it_is_the_deterministic_method():
    problem = Counted(convex_fair())
    state = run(StochasticGhost(step_size=0.5, step_decay=0.0), problem, 400, sampling="full")
    np.testing.assert_allclose(state.x, problem.optimum.x, atol=1e-6)
    np.testing.assert_allclose(state.multipliers, problem.optimum.multipliers, atol=1e-6)
    assert problem.counts.jacobians == 400 and problem.counts.gradients == 0


def test_where_nothing_is_feasible_it_finds_the_least_violation():
    problem = PROBLEMS["infeasible"]()
    state = run(StochasticGhost(step_size=0.5, step_decay=0.0, max_level=0), problem, 150)
    np.testing.assert_allclose(state.x, problem.optimum.x, atol=1e-6)


def test_a_stack_whose_runs_have_their_own_bounds_equals_single_runs():
    problem = tiny("loss_gap <= 0.1")
    bounds = torch.tensor([[0.05, 0.05], [0.4, 0.4]], dtype=torch.float64)
    config = StochasticGhost(max_level=2)
    stacked = Counted(problem.with_bounds(bounds))
    together = run(config, stacked, 30, seeds=(5, 6))
    apart = [Counted(problem.with_bounds(b)) for b in bounds]
    for r, (seed, own) in enumerate(zip((5, 6), apart, strict=True)):
        single = run(config, own, 30, seeds=(seed,))
        assert torch.equal(together.x[r], single.x) and torch.equal(together.multipliers[r], single.multipliers)
    assert stacked.counts.samples == sum(own.counts.samples for own in apart) > 0


def test_without_constraints_a_step_is_an_unbiased_gradient_step():
    problem = Counted(tiny(None))
    state = run(StochasticGhost(step_size=0.5, step_decay=0.0), problem, 1)
    draws = Draws(problem, (0,), 8)
    expected = averages(StochasticGhost(), problem.start((0,)), draws, "single", 0, 0).gradient
    np.testing.assert_allclose(state.x, problem.start((0,)).numpy() - 0.5 * expected, atol=1e-12)
    assert state.multipliers.shape == (0,) and problem.counts.jacobians == 0


def test_it_is_registered_and_refuses_what_it_cannot_do():
    assert METHODS["stochastic_ghost"] is StochasticGhost
    assert algorithm("stochastic_ghost:published-code").kappa == "swapped"
    with pytest.raises(OptionError, match="Ball"):
        run(StochasticGhost(), PROBLEMS["ball"](), 1)
    for options in (
        {"step_size": 0.0},
        {"step_decay": -1.0},
        {"step_size": 2.0, "step_decay": 0.5},
        {"proximal": 0.0},
        {"box": 0.1},
        {"relaxation": 0.0},
        {"relaxation": 1.5},
        {"radius": 1.5, "kappa": "swapped"},
        {"kappa": "code"},
        {"level_probability": 1.0},
        {"max_level": -1},
        {"max_level": 1.5},
        {"element_rows": 0},
    ):
        with pytest.raises(OptionError):
            StochasticGhost(**options)
