"""The step size of random batches under "auto": which is taken, what a trial costs, and when none is made."""

import math
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import fairbound as fb
from fairbound.base.errors import NonFiniteError
from fairbound.estimators.networks.step_trial import FACTORS, MOST_PASSES, SHARE, STEPS, step_tried
from fairbound.fairness.problem import FairProblem
from fairbound.methods import ALM
from fairbound.models.model import model_of
from fairbound.solver.budget import Budget
from fairbound.solver.solve import solve

ROWS = 1000
ENOUGH = math.ceil(STEPS / 2 / SHARE)


def last(f, g):
    return {"train": {"f": torch.tensor(f), "g": torch.tensor(g)}}


def run_of(costs, *, seconds=0.1, samples=640, stopped="budget", seen=None):
    """A run whose last iterate with each step size has the (f, g) of `costs`, or raises."""

    def run(problem, method, *, budget, patience):
        size = method.step_size
        if seen is not None:
            seen.append((size, budget))
        if costs[size] is None:
            raise NonFiniteError("too long")
        steps = int(min(budget.steps, STEPS))
        counts = SimpleNamespace(samples=samples)
        records = [last(0.0, [0.0]), last(*costs[size])]
        return SimpleNamespace(
            records=records, steps=steps, seconds=seconds, counts=counts, last=torch.full((2,), size),
            interrupted=stopped == "interrupted",
        )  # fmt: skip

    return run


@pytest.mark.parametrize(
    ("costs", "taken", "made"),
    [
        ({0.1: (0.5, [0.0]), 0.2: (0.1, [0.0]), 0.4: (0.3, [0.0])}, 0.4, 2),  # twice the step is not tried then
        ({0.1: (0.5, [0.0]), 0.2: (0.4, [0.0]), 0.4: (0.3, [0.18, 0.07])}, 0.2, 3),  # 0.55: what is exceeded counts
        ({0.1: (0.5, [-0.3]), 0.2: (0.45, [0.06]), 0.4: (0.49, [-9.0, 0.02])}, 0.1, 3),  # room under a bound is no gain
        ({0.1: (0.5, [0.0]), 0.2: (0.5, [0.0]), 0.4: (0.5, [0.0])}, 0.1, 3),  # the own where all are alike
        ({0.1: (0.5, [0.0]), 0.2: (0.4, [math.nan]), 0.4: None}, 0.2, 2),  # not told, and diverged
        ({0.1: None, 0.2: None, 0.4: None}, 0.1, 0),
    ],
)
def test_the_size_of_the_lowest_loss_with_the_excess_is_taken_and_the_run_goes_on_from_it(costs, taken, made):
    trial = step_tried(run_of(costs), SimpleNamespace(rows=ROWS), ALM(), Budget(steps=5000))
    assert trial.method == ALM(step_size=taken)
    assert trial.x is None if costs[0.1] is None else torch.equal(trial.x, torch.full((2,), taken))
    assert trial.left.steps == pytest.approx(5000 - made * STEPS)


def test_what_trials_take_is_taken_from_every_limit_and_all_make_the_same_steps():
    seen: list = []
    costs = {0.1 * factor: (factor, [0.0]) for factor in FACTORS}  # the own is best, so all are tried
    limit = Budget(seconds=2.0, samples=1e6, epochs=40.0, processor=True)
    trial = step_tried(run_of(costs, seen=seen), SimpleNamespace(rows=ROWS), ALM(), limit)
    assert trial.left.processor and trial.left.steps == math.inf
    left = (trial.left.seconds, trial.left.samples, trial.left.epochs)
    assert left == pytest.approx((2 - 0.3, 1e6 * 0.85, 40 * 0.85))  # of the seconds most is spent
    first = Budget(steps=STEPS, seconds=2 * SHARE, samples=1e6 * SHARE, epochs=40 * SHARE, processor=True)
    later = Budget(steps=STEPS, processor=True)
    assert [budget for _, budget in seen] == [first, later, later]


@pytest.mark.parametrize(
    ("limit", "samples", "trials"),
    [
        (Budget(steps=ENOUGH - 1), 64, 0),  # the share of it is less than half of the steps
        (Budget(steps=ENOUGH), 64, 2),
        (Budget(steps=1000), MOST_PASSES * ROWS / 10 + 1, 1),  # each row would be seen more than 50 times
        (Budget(steps=1000), MOST_PASSES * ROWS / 10, 2),
        (Budget(seconds=1.0), MOST_PASSES * ROWS / 10 + 1, 1),
        (Budget(samples=MOST_PASSES * ROWS * 2), 640, 1),
        (Budget(epochs=MOST_PASSES), 640, 2),
    ],
)
def test_none_is_tried_in_short_runs_and_in_those_of_many_passes(limit, samples, trials):
    seen: list = []
    costs = {0.1: (0.5, [0.0]), 0.2: (0.4, [0.0]), 0.4: (0.3, [0.0])}
    trial = step_tried(run_of(costs, samples=samples, seen=seen), SimpleNamespace(rows=ROWS), ALM(), limit)
    assert len(seen) == trials
    assert trial.method.step_size == (0.4 if trials == 2 else 0.1)
    if trials < 2:
        assert trial.left == limit and trial.x is None


def test_a_trial_that_the_user_stops_is_the_end():
    seen: list = []
    run = run_of({0.1: (0.5, [0.0])}, stopped="interrupted", seen=seen)
    trial = step_tried(run, SimpleNamespace(rows=ROWS), ALM(), Budget(steps=1000))
    assert trial.interrupted is not None and len(seen) == 1


def images(scale):
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.normal(size=(4000, 3)) * scale, dtype=torch.float32)
    y = (x[:, 0] > 0).numpy().astype(int)
    torch.manual_seed(0)
    return x, y, rng.choice(["a", "b"], len(x))


@pytest.mark.parametrize(("scale", "expected"), [(0.01, 0.4), (100.0, 0.1)])
def test_small_inputs_take_long_steps_and_large_ones_the_own(scale, expected):
    """The curvature of the loss grows with the square of the inputs, and with it the step that suits."""
    x, y, group = images(scale)
    problem = FairProblem(model_of(nn.Linear(3, 1), 3), x, y, group, "demographic_parity <= 0.5")
    run = partial(solve, batch_size=64, seed=0)
    first, again = (step_tried(run, problem, ALM(), Budget(steps=2000)) for _ in range(2))
    assert first.method.step_size == expected
    assert again.method == first.method and torch.equal(again.x, first.x)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:.*by itself tells the labels")  # its labels are made from one column
def test_auto_reports_the_size_it_took_and_linear_models_and_named_methods_keep_their_own():
    x, y, group = images(0.01)
    for algorithm, model, loss, expected in (
        ("auto", nn.Linear(3, 1), "logistic", 0.4),
        ("auto", "linear", "hinge", 0.1),  # a linear model arrives with either
        ("alm", nn.Linear(3, 1), "logistic", 0.1),
    ):
        options = {"budget": "600 steps", "batch_size": 64, "random_state": 0}
        made = fb.FairClassifier("demographic_parity <= 0.5", model=model, loss=loss, algorithm=algorithm, **options)
        report = made.fit(x.numpy(), y, sensitive_features=group).fit_report_
        assert f"step_size={expected}" in report["options"]
