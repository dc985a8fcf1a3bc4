"""Switching subgradient against Algorithm 3 of Kliachkin et al. (2025): switch, tolerance schedule, random output."""

import numpy as np
import pytest
import torch
from scipy import stats

from fairbound.base.errors import OptionError
from fairbound.methods import SwitchingSubgradient
from fairbound.methods.switching_subgradient import _largest, _masked
from fairbound.problems.problem import Draws, Evaluation
from fairbound.testing import PROBLEMS, run
from twelve_rows import tiny


def test_the_tolerance_follows_the_paper():
    """1e-4 for 500 iterations, then times 0.97 each epoch (224 steps of 64 rows in the 14,334 training rows)."""
    config = SwitchingSubgradient()
    assert [config.tolerance_at(k) for k in (0, 1, 499)] == [1e-4] * 3
    expected = 1e-4
    for k in range(500, 500 + 10 * 224):
        if (k - 500) % 224 == 0:
            expected *= 0.97
        assert config.tolerance_at(k) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("rule", ["constant", "diminishing", "adaptive"])
@pytest.mark.parametrize("name", ["two_sided", "largest", "simplex", "infeasible"])
def test_steps_equal_algorithm_3_written_by_hand(name, rule):
    problem = PROBLEMS[name]()
    config = SwitchingSubgradient(rule=rule, objective_step=0.1, constraint_step=0.05, tolerance=1e-2,
                                  tolerance_from=20, tolerance_every=10)  # fmt: skip
    state = run(config, problem, 100)
    x, on_objective = problem.start((0,)), 0
    full = problem.sample((0,), "a", 0, 1, "full")
    for k in range(100):
        eps = 1e-2 if k < 20 else 1e-2 * 0.97 ** (1 + (k - 20) // 10)
        e, jacobian = problem.jacobian(x, full)
        worst = float(e.g.max())
        direction = jacobian[0] if worst <= eps else jacobian[1 + int(e.g.argmax())]
        base = 0.1 if worst <= eps else 0.05
        on_objective += worst <= eps
        size = {"constant": base, "diminishing": base / (k + 1) ** 0.5,
                "adaptive": base * (eps if worst <= eps else worst) / float(direction @ direction)}[rule]  # fmt: skip
        x = problem.domain.project(x - size * direction)
    assert torch.allclose(state.x, x, rtol=0, atol=1e-12)
    assert int(state.objective_steps) == on_objective


def test_the_random_output_has_the_law_of_the_paper():
    """P(tau = k) = eta_k / sum eta for k >= k0, by chi-square over 4,000 runs in one stack.

    Six recorded steps: 5 degrees of freedom; 35.9 is exceeded with probability 1e-6.
    """
    runs, steps, first = 4000, 8, 2
    config = SwitchingSubgradient(rule="diminishing", objective_step=0.3, constraint_step=0.1, record_from=first)
    problem = PROBLEMS["inactive"]()
    path = [problem.start(tuple(range(runs)))]
    state = run(config, problem, steps, seeds=tuple(range(runs)), after=lambda s: path.append(s.x.clone()))
    eta = np.array([0.3 / (k + 1) ** 0.5 if k >= first else 0.0 for k in range(steps)])
    assert bool((state.objective_steps == steps).all())  # every step has size eta_k
    assert torch.allclose(state.weight, torch.full((runs,), float(eta.sum()), dtype=torch.float64))
    chosen = torch.stack([(state.output == x).all(-1) for x in path[:steps]])
    assert bool((chosen.sum(0) == 1).all())
    observed, expected = chosen.sum(1).numpy()[first:], (runs * eta / eta.sum())[first:]
    assert ((observed - expected) ** 2 / expected).sum() < stats.chi2.isf(1e-6, len(expected) - 1)


def test_the_switch_uses_the_largest_constraint_of_its_own_sample():
    problem = tiny("loss_gap <= 0.02")
    asked = []

    class Listening(Draws):
        def __call__(self, name, k, size=None, sampling=None):
            asked.append((name, size))
            return super().__call__(name, k, size, sampling)

    draws = Listening(problem, (0,), 4)
    config = SwitchingSubgradient(constraint_batch_size=10, tolerance=10.0)
    state = config.init(problem, problem.start((0,)), draws)
    state = config.step(state, problem, draws)
    assert asked == [("test", 10), ("xi", None)] and int(state.objective_steps) == 1
    asked.clear()
    config = SwitchingSubgradient(tolerance=0.0)
    state.x.copy_(torch.tensor([3.0, -2.0, 1.0]))
    state = config.step(state, problem, draws)
    assert asked == [("test", None), ("zeta", None)] and int(state.objective_steps) == 1


def test_a_sample_that_lacks_a_group_neither_triggers_nor_hides_a_constraint():
    """Where no constraint can be read the step is on the objective; where some can, the largest of those decides."""
    f, g = torch.zeros(()), torch.tensor([0.0, -0.3, 0.2])
    assert float(_masked(Evaluation(f, g, torch.tensor([False, True, False]))).amax()) == pytest.approx(-0.3)
    assert _largest(Evaluation(f, g, torch.tensor([False, True, False])))[1].tolist() == [0, 1, 0]
    assert float(_masked(Evaluation(f, g, torch.zeros(3, dtype=torch.bool))).amax()) == -torch.inf


def test_options_are_checked():
    wrong = [
        {"objective_step": 0},
        {"constraint_step": -1},
        {"tolerance": -1e-4},
        {"rule": "polyak"},
        {"tolerance_every": 0},
        {"tolerance": 0.0, "rule": "adaptive"},
    ]
    for bad in wrong:
        with pytest.raises(OptionError, match=next(iter(bad))):
            SwitchingSubgradient(**bad)
