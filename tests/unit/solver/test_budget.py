"""Budgets as people write them."""

import math

import pytest
import torch

from fairbound.base.errors import OptionError
from fairbound.methods import ALM
from fairbound.solver.budget import Budget
from fairbound.solver.solve import solve
from fairbound.testing import PROBLEMS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30s", {"seconds": 30}),
        ("30 seconds", {"seconds": 30}),
        ("1 second", {"seconds": 1}),
        (".5 sec", {"seconds": 0.5}),
        ("2min", {"seconds": 120}),
        ("1.5 h", {"seconds": 5400}),
        ("2 hours", {"seconds": 7200}),
        ("5000 steps", {"steps": 5000}),
        ("1 step", {"steps": 1}),
        ("2e6 samples", {"samples": 2e6}),
        ("1e+3 SAMPLES", {"samples": 1000}),
        ("10 epochs", {"epochs": 10}),
        ("10 epochs, 30s", {"epochs": 10, "seconds": 30}),
        ("20 cpu s", {"seconds": 20, "processor": True}),
        ("2 cpu min, 5 epochs", {"seconds": 120, "epochs": 5, "processor": True}),
    ],
)
def test_what_people_write(text, expected):
    budget = Budget.of(text)
    assert budget == Budget(**expected) and Budget.of(budget) is budget
    assert Budget.of(budget.text) == budget


@pytest.mark.parametrize(
    "text",
    ["", "30", "30 ms", "fast", "1.2.3 s", "-5 s", "5 stepss", "5 steps 3 s", "nan s", "s", "5 cpu steps", "5 cpu"],
)
def test_what_cannot_be_read_is_said(text):
    with pytest.raises(OptionError, match=r"cannot read the budget"):
        Budget.of(text)


def test_limits_are_checked():
    for bad in ({"steps": 0}, {"seconds": -1}, {"samples": math.nan}):
        with pytest.raises(OptionError, match="must be positive"):
            Budget(**bad)
    with pytest.raises(OptionError, match="at least one finite limit"):
        Budget()
    with pytest.raises(OptionError, match="states seconds twice"):
        Budget.of("1 min, 30 s")
    for number in (300, 0.5, True):
        with pytest.raises(OptionError, match="a text with a unit"):
            Budget.of(number)


def test_whichever_ends_first():
    budget = Budget(seconds=10, steps=100, samples=1000, epochs=2)
    none = {"seconds": 0.0, "steps": 0, "samples": 0, "rows": 400}
    assert not budget.spent(**none)
    for reached in ({"seconds": 10.0}, {"steps": 100}, {"samples": 800}, {"samples": 1000, "rows": 10**6}):
        assert budget.spent(**none | reached)
        just_below = {k: v - 1e-9 if k == "seconds" else v - (k in ("steps", "samples")) for k, v in reached.items()}
        assert not budget.spent(**none | just_below)


@pytest.fixture
def clock(monkeypatch):
    """A clock, as a list of its one reading, that stands still unless a test moves it."""
    reading = [100.0]
    monkeypatch.setattr(Budget, "_now", lambda budget: reading[0])
    return reading


def test_a_deadline_is_shared_by_all_that_is_begun_under_it(clock):
    """20 of 30 s from 100 on end at 120; half of the 12 s left at 108 at 114; other limits are as stated."""
    whole = Budget.of("20 s, 50 steps").from_now()
    clock[0] = 108.0
    assert not whole.over and whole.part(1.0) == whole and whole.text == "20 seconds, 50 steps"
    half, rounds = whole.part(0.5), Budget(steps=3).until(whole)
    clock[0] = 113.9
    assert not half.over
    clock[0] = 114.0
    assert half.over and not whole.over and half.steps == 50
    clock[0] = 120.0
    assert whole.over and rounds.over and rounds.steps == 3


def test_without_seconds_there_is_no_deadline(clock):
    steps = Budget(steps=5)
    assert steps.from_now() == steps.part(0.1) == steps.until(Budget(epochs=2)) == steps
    clock[0] = 1e300
    assert not steps.over


@pytest.mark.parametrize(("left", "made"), [(-1.0, 0), (3.5, 4)])
def test_no_step_is_begun_after_the_deadline(clock, left, made):
    """Each step takes a second of the clock here."""
    problem = PROBLEMS["two_sided"]()
    limit = Budget(steps=20).until(Budget(seconds=1.0, deadline=clock[0] + left))

    def step(method, state, on, draws, of=ALM.step):
        clock[0] += 1.0
        return of(method, state, on, draws)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ALM, "step", step)
        solution = solve(problem, "alm", budget=limit)
    assert solution.steps == made and solution.stopped == "budget" and torch.isfinite(solution.x).all()
