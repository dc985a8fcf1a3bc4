"""Bounds on groups and on classes together: all rows at once for linear models, other runs where a network learns nothing."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

import fairbound as fb
from fairbound.estimators import retrained_networks
from fairbound.estimators.group_rule import Learnt
from fairbound.fairness.notions import constraints
from fairbound.models.mlp import MLP

BOTH = ["demographic_parity <= 0.05", "recall of class 1 >= 0.7"]


def table(n=1500):
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b"], n)
    X = rng.normal(size=(n, 4)) + (group == "b")[:, None] * [0.7, 0, 0, 0]
    return X, (X @ [1.0, -0.5, 0.3, 0.0] + rng.logistic(size=n) > 1.0).astype(int), group


def test_a_linear_model_takes_all_rows_at_once_and_is_more_accurate_than_on_batches():
    X, y, group = table()
    fits = [fb.FairClassifier(BOTH, algorithm=a, random_state=0).fit(X, y, group) for a in ("auto", "alm")]
    at_once, batches = (fit.fit_report_ for fit in fits)
    assert at_once["algorithm"] == "full_batch_alm" and at_once["feasible"] and at_once["validation_rows"] == 0
    assert at_once["accuracy"] > batches["accuracy"]


@dataclass
class Ended:
    found: bool
    stopped: str = "halted"

    @property
    def interrupted(self):
        return self.stopped == "interrupted"


def learnt(accuracy, found=True, model=None, stopped="halted"):
    return Learnt(model or MLP(3, (4,)), np.zeros(1), Ended(found, stopped), {}, {"accuracy": accuracy})


ROWS = SimpleNamespace(codes=np.repeat([0, 1], [70, 30]), weight=None)


def tried(first, others):
    """What is taken, and by how many other runs."""
    made = []

    def again(instead):
        made.append(instead)
        return others[len(made) - 1]

    return retrained_networks.best_of_runs(first, again, np.zeros((100, 3)), ROWS), made


def test_other_runs_are_made_until_one_has_learnt_something():
    slower, last = learnt(0.6), learnt(0.8)
    taken, made = tried(learnt(0.28), [slower, last])
    assert taken is last and [choice.last_layer for choice in made] == [False, True]
    assert made[0].method.penalty < made[1].method.penalty == fb.ALM().penalty
    better = learnt(0.75)
    taken, made = tried(learnt(0.28), [better, last])
    assert taken is better and len(made) == 1
    first = learnt(0.75)
    assert tried(first, []) == (first, [])


def test_a_run_that_meets_the_bounds_goes_before_a_more_accurate_one():
    first, missing = learnt(0.5), learnt(0.71, found=False)
    assert tried(first, [missing, missing])[0] is first
    assert tried(missing, [first, missing])[0] is first


@pytest.mark.parametrize("model", [MLP(3), MLP(3, (4,), 3)])
def test_linear_models_and_networks_of_more_classes_are_left(model):
    first = learnt(0.1, model=model)
    assert tried(first, []) == (first, [])


@pytest.mark.parametrize(
    ("stated", "options", "may"),
    [
        (BOTH, {}, True),
        (BOTH[:1], {}, False),
        (BOTH[1:], {}, False),
        ([], {}, False),
        (BOTH, {"algorithm": "alm"}, False),
        (BOTH, {"objective": "loss"}, False),
        (BOTH, {"class_weight": "balanced"}, False),
        (BOTH, {"loss": "hinge"}, False),
    ],
)
def test_other_runs_are_for_what_the_user_leaves_open(stated, options, may):
    assert retrained_networks.may_run_again(fb.FairClassifier(stated, **options), constraints(stated)) is may


def test_the_last_layer_is_solved_under_bounds_on_classes_by_their_names(monkeypatch):
    X, y, group = table(600)
    monkeypatch.setattr(retrained_networks, "hardly_better_than_constant", lambda *_: True)
    words = np.array(["no", "yes"])[y]
    stated = ["demographic_parity <= 0.05", "recall of class yes >= 0.6"]
    fair = fb.FairClassifier(stated, model="mlp:8", random_state=0).fit(X, words, group)
    alone = fb.FairClassifier(stated, model="mlp:8", random_state=0, budget="1500 steps").fit(X, words, group)
    assert fair.fit_report_["feasible"] and fair.fit_report_["accuracy"] >= alone.fit_report_["accuracy"]


def test_a_user_who_stops_a_run_has_the_best_until_then_and_no_further_run():
    first = learnt(0.5)
    taken, made = tried(first, [learnt(0.3, stopped="interrupted"), learnt(0.8)])
    assert taken.report is first.report and taken.solution.interrupted and len(made) == 1
