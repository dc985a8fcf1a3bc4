"""Scores shrunk until mean losses are within their bounds, where the fewest wrong decisions are asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fairbound as fb
from fairbound.estimators.linear import shrunk_scores

BOUND = "loss_gap <= 0.02"
STRAIGHT = fb.TableOptions(knots=0)


def table(seed, n=900):
    """Labels of one group are far harder to tell than those of the other."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 3))
    y = (X[:, 0] + 0.3 * X[:, 1] + np.where(group == 1, 3.0, 0.2) * rng.normal(size=n) > 0.3).astype(int)
    return X, y, group


def fitted(seed, objective, bound=BOUND, **options):
    X, y, group = table(seed)
    model = fb.FairClassifier(bound, objective=objective, options=STRAIGHT, random_state=0, **options)
    return model.fit(X, y, sensitive_features=group if bound else None), X, y, group


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", range(4))
def test_the_fewest_wrong_decisions_under_a_bound_on_losses_are_those_without(seed):
    """Scores near 0 meet any difference of losses, so the bound costs no decisions."""
    free = fitted(seed, "accuracy", None)[0].fit_report_["accuracy"]
    model, X, y, group = fitted(seed, "accuracy")
    assert model.fit_report_["feasible"] and model.fit_report_["accuracy"] >= free - 1e-6
    scores = model.decision_function(X)
    losses = np.logaddexp(0, np.where(y == 1, -scores, scores))
    assert abs(losses[group == 1].mean() - losses[group == 0].mean()) <= 0.02 + 1e-6
    larger = np.logaddexp(0, np.where(y == 1, -2 * scores, 2 * scores))
    gap = abs(larger[group == 1].mean() - larger[group == 0].mean())
    assert gap > 0.02 or larger.mean() > losses.mean()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_other_objectives_and_bounds_keep_their_scores():
    for objective, bound in (("loss", BOUND), ("auto", BOUND), ("accuracy", "demographic_parity <= 0.02")):
        notes = fitted(0, objective, bound)[0].fit_report_["notes"]
        assert not any("were moved and multiplied" in note for note in notes)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_model_that_has_learnt_nothing_under_it_is_told_of_smaller_scores():
    rng = np.random.default_rng(0)
    group = (rng.random(900) < 0.3).astype(int)
    X = rng.normal(size=(900, 2)) + 0.2 * group[:, None]
    y = (rng.random(900) < np.where(group == 1, 0.45, 0.08)).astype(int)
    model = fb.FairClassifier(BOUND, options=STRAIGHT, random_state=0).fit(X, y, sensitive_features=group)
    said = model.fit_report_["what_may_help"]
    assert said is not None and "objective='accuracy' takes such a model" in said
    accurate = fb.FairClassifier(BOUND, objective="accuracy", options=STRAIGHT, random_state=0)
    accurate.fit(X, y, sensitive_features=group)
    assert accurate.fit_report_["accuracy"] >= max(y.mean(), 1 - y.mean()) > model.fit_report_["accuracy"] - 1e-9


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_is_taken_has_its_own_optimality_and_an_interruption_is_kept(monkeypatch):
    whole, judged, looked_at = shrunk_scores.train_full_batch, shrunk_scores.optimality, []

    def near(problem, method, x, rows):
        looked_at.append(x)
        return {**judged(problem, method, x, rows), "own": 1.0}

    def interrupted(*given, **options):
        solution, facts = whole(*given, **options)
        return replace(solution, stopped="interrupted"), facts

    monkeypatch.setattr(shrunk_scores, "optimality", near)
    taken = fitted(0, "accuracy")[0]
    assert any("were moved and multiplied" in note for note in taken.fit_report_["notes"])
    assert taken.fit_report_["optimality"]["own"] == 1.0 and (looked_at[0] == taken.solution_.x).all()
    monkeypatch.setattr(shrunk_scores, "train_full_batch", interrupted)
    model = fitted(0, "accuracy")[0]
    assert model.solution_.interrupted and "interrupted" in " ".join(model.fit_report_["notes"])
