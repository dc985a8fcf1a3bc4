"""Seconds that are stated hold for all runs of a fit together."""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn

import fairbound as fb
from fairbound.solver.budget import Budget
from fairbound.solver.run import Run

SECONDS, NOW = 60.0, 1000.0


def table(rows=600):
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b"], rows)
    X = (rng.normal(size=(rows, 3)) + (group == "b")[:, None]).astype(np.float32)
    return X, (X[:, 0] * X[:, 1] + rng.normal(size=rows) > 0.5).astype(int), group


@pytest.fixture
def runs(monkeypatch):
    """Of every run: its method's name, its budget, and the time when it began. On a clock of which runs alone take time,
    each takes all that it may."""
    made, clock = [], [NOW]
    monkeypatch.setattr(Budget, "_now", lambda budget: clock[0])

    def go(run, of=Run.go):
        limit = run.settings.limit
        made.append((run.settings.method.name, limit, clock[0]))
        found = of(run)
        clock[0] = max(clock[0], min(limit.deadline, clock[0] + limit.seconds))
        return found

    monkeypatch.setattr(Run, "go", go)
    return made


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::fairbound.DataWarning")
@pytest.mark.parametrize("model", ["linear", pytest.param("mlp:4", marks=pytest.mark.long), "module"])
@pytest.mark.parametrize("algorithm", ["auto", "alm"])
def test_no_run_of_a_fit_goes_beyond_the_seconds_that_were_stated(runs, model, algorithm):
    """Under a bound that few steps do not meet, so that many runs follow each other."""
    X, y, group = table()
    made = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)) if model == "module" else model
    fair = fb.FairClassifier(
        "equalized_odds <= 0.001", model=made, algorithm=algorithm, budget=Budget(seconds=SECONDS, steps=30)
    )
    fair.fit(X, y, sensitive_features=group)
    assert max(limit.deadline for _, limit, _ in runs) <= NOW + SECONDS
    assert fair.fit_report_["budget"] == "60 seconds, 30 steps"
    if algorithm == "auto" and model != "linear":
        assert [name for name, limit, begun in runs if name == "full_batch_alm" and begun < limit.deadline]
