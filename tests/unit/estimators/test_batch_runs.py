"""Random batches: which run follows which, and when more margin is kept."""

from types import SimpleNamespace

import pytest

import fairbound as fb
from fairbound.estimators.choosing import MARGINS
from fairbound.estimators.networks import batch_runs
from fairbound.estimators.networks.batch_runs import on_batches
from fairbound.estimators.problems import Problems
from fairbound.methods import ALM
from fairbound.solver.budget import Budget
from fairbound.solver.solve import Solution

FOUND, MISSED = (True, 10), (False, 10)


def solution(feasible, best_step, stopped="budget"):
    violation = 0.0 if feasible else 1.0
    return Solution(None, None, feasible, violation, best_step, None, [], 10, 0.1, None, stopped, "")


@pytest.mark.parametrize(
    ("runs", "expected", "stopped"),
    [
        ([FOUND], ["own"], "budget"),
        ([MISSED, FOUND], ["own", "dual"], "budget"),
        ([MISSED, MISSED, FOUND], ["own", "dual", "all"], "budget"),
        ([(True, 0), FOUND], ["own", "dual"], "budget"),  # only the start was found
        ([(*MISSED, "interrupted")], ["own"], "interrupted"),
        ([MISSED, (*MISSED, "interrupted")], ["own", "dual"], "interrupted"),
        ([MISSED, MISSED, (*FOUND, "interrupted")], ["own", "dual", "all"], "interrupted"),
    ],
)
def test_a_run_follows_where_none_was_found_and_nobody_stopped(monkeypatch, runs, expected, stopped):
    made, left = [], list(runs)
    monkeypatch.setattr(batch_runs, "missed_beyond_chance", lambda *rows: [])
    monkeypatch.setattr(batch_runs, "DualRows", lambda own, held: problem("dual"))

    def run(problem, method, validation, budget):
        made.append(problem.name)
        return solution(*left.pop(0))

    plan = SimpleNamespace(notions=(fb.ClassRisk(class_="b", error=0.1),))

    def problem(name):
        return SimpleNamespace(name=name, rows=100, plan=plan)

    parts = Problems(problem("own"), problem("held"), all_rows=lambda: problem("all"))
    trained = on_batches(parts, run, ALM(), MARGINS, Budget(steps=10))
    assert made == expected and not left
    assert trained.solution.stopped == stopped


@pytest.mark.parametrize(
    ("runs", "margins", "noted"),
    [
        ([FOUND], [0.05], False),
        ([MISSED, FOUND], [0.05, 0.2], True),
        ([(True, 0), MISSED, FOUND], [0.05, 0.2, 0.5], True),  # only the start was found
        ([MISSED, MISSED, MISSED], [0.05, 0.2, 0.5], False),
        ([MISSED, (*MISSED, "interrupted")], [0.05, 0.2], False),
    ],
)
def test_more_margin_is_kept_where_no_iterate_met_a_bound_on_groups(runs, margins, noted):
    made, left = [], list(runs)

    def run(problem, method, validation, budget):
        made.append(method.margin)
        return solution(*left.pop(0))

    plan = SimpleNamespace(notions=(fb.DemographicParity(bound=0.1),))
    problem = SimpleNamespace(plan=plan)
    trained = on_batches(Problems(problem), run, ALM(), MARGINS, Budget(steps=10))
    assert made == margins and bool(trained.notes) == noted
    found = [run[:2] for run in runs][-1] == FOUND
    assert bool(trained.solution.feasible and trained.solution.best_step) == found
