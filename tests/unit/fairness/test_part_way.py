"""A linear model part of the way to one that is more accurate and orders the rows too badly."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

import fairbound as fb
from fairbound.estimators.linear import full_batch
from fairbound.fairness.lines.part_way import HALVINGS, MARGIN, part_way, with_intercept
from fairbound.fairness.objectives import Accuracy
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import MLP

RNG = np.random.default_rng(0)
GROUP = RNG.integers(0, 2, 600)
X = RNG.normal(size=(600, 8)) + 0.5 * GROUP[:, None]
Y = (X[:, 0] + 0.5 * X[:, 1] + RNG.normal(size=600) > 0.5).astype(int)
WEIGHT = RNG.uniform(0.5, 2, 600)
ONE_ANSWER, MODEL = (
    torch.tensor(x, dtype=torch.float64) for x in ([*[0.0] * 7, 1.0, 100.0], [1.0, 0.5, *[0.0] * 6, -0.5])
)


def made(bound="demographic_parity <= 0.3", **options):
    return FairProblem(MLP(8), X, Y, GROUP, bound, objective=Accuracy(0.5), dtype=torch.float64, **options)


def until(end):
    """Whether a point of the line from ONE_ANSWER to MODEL is no farther than `end`."""
    return lambda at: float(at[0]) <= end + 1e-12


@pytest.mark.parametrize("bound", ["demographic_parity <= 0.2", "equalized_odds <= 0.1", "error_rate_parity <= 0.02"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("end", "intercept"), [(0.4, 100.0), (0.8, 2.0)])
def test_it_goes_as_far_as_is_allowed_and_no_intercept_within_the_bounds_decides_fewer_rows_wrongly(
    bound, weighted, end, intercept
):
    """With the second intercept the point itself is more accurate than the bounds allow, for some of them."""
    start = torch.cat([ONE_ANSWER[:-1], torch.tensor([intercept], dtype=torch.float64)])
    problem = made(bound, **({"sample_weight": WEIGHT} if weighted else {}))
    x, t = part_way(problem, start, MODEL, until(end))
    assert t <= end < t + 2**-HALVINGS
    torch.testing.assert_close(x[:-1], (start + t * (MODEL - start))[:-1])
    found = problem.evaluate(x)
    assert float(found.violation) <= 0
    scores, most = problem.all_scores(x).sort().values, 0.0
    for threshold in (scores[1:] + scores[:-1]) / 2:
        moved = x.clone()
        moved[-1] -= threshold
        other = problem.evaluate(moved)
        most = max(most, float(other.extra["accuracy"]) if float(other.violation) <= 0 else 0.0)
    assert float(found.extra["accuracy"]) == pytest.approx(max(most, float(found.extra["accuracy"])), abs=1e-9)
    assert float(found.extra["accuracy"]) > float(problem.evaluate(start).extra["accuracy"])


@pytest.mark.parametrize("few", [0.1, 0.02])
def test_of_the_intercepts_that_decide_alike_the_loss_is_lowest(few):
    """Labels so rare that one answer for all rows is best, which a wide stretch of intercepts gives."""
    rng = np.random.default_rng(1)
    y = (rng.random(600) < few).astype(int)
    problem = FairProblem(
        MLP(8), X, y, GROUP, "demographic_parity <= 0.3", objective=Accuracy(0.5), dtype=torch.float64
    )
    start = torch.cat([MODEL[:-1] / 8, torch.tensor([0.1], dtype=torch.float64)])
    x, t = part_way(problem, start, start, until(1.0))
    assert t > 0 and float(problem.all_scores(x).max()) < 0
    near, edge = problem.all_scores(x), float(problem.all_scores(x).std())
    loss = lambda by: float(problem.evaluate(with_intercept(x, by)).extra["loss"])  # noqa: E731
    room = -float(near.max())  # to the first row that is decided otherwise
    assert room >= 0.999 * MARGIN * edge
    steps = np.linspace(-3, max(room - MARGIN * edge, 0.0), 61)
    assert loss(0.0) <= min(map(loss, steps)) + 1e-5
    assert abs(near.sigmoid().mean() - y.mean()) < 0.01


@pytest.mark.parametrize(("times", "goes"), [(0.3, True), (3.0, False)])
def test_a_little_accuracy_is_not_paid_for_by_much_loss(times, goes):
    """Fewer are decided wrongly with another intercept, by 0.005; it costs half as much loss where scores are small, and
    three times as much where they are large."""
    problem = made("demographic_parity <= 0.6")
    start = times * torch.cat([MODEL[:-1], torch.tensor([-0.5], dtype=torch.float64)])
    x, t = part_way(problem, start, start, until(torch.inf))
    before, after = problem.evaluate(start), problem.evaluate(x)
    assert (t > 0) is goes
    if goes:
        gain = after.extra["accuracy"] - before.extra["accuracy"]
        assert 0 < after.extra["loss"] - before.extra["loss"] < gain


@pytest.mark.parametrize(
    ("other", "allowed", "bound"),
    [
        (MODEL, until(-1.0), "demographic_parity <= 0.3"),  # no point is allowed
        (MODEL, until(0.5), "loss_gap <= 0.2"),  # losses are not counted
    ],
)
def test_the_point_it_began_at_comes_back_where_none_is_better(other, allowed, bound):
    x, t = part_way(made(bound), ONE_ANSWER, other, allowed)
    assert torch.equal(x, ONE_ANSWER) and t == 0


def test_a_point_with_the_best_intercept_stays_where_the_way_leads_nowhere_else():
    problem = made()
    x, _ = part_way(problem, ONE_ANSWER, MODEL, until(1.0))
    again, t = part_way(problem, x, x, until(1.0))
    assert torch.equal(again, x) and t == 0


def test_auto_is_more_accurate_where_the_area_stops_it_and_stays_within_the_limit(monkeypatch):
    """Accuracy asks for another order than the loss: one feature tells the few rows that are likely positive,
    the other all rows."""
    rng = np.random.default_rng(2)
    X, group = rng.normal(size=(3000, 8)), rng.integers(0, 2, 3000)
    likely = (X[:, 0] > 1.5) & (rng.random(3000) < 0.9)
    y = (rng.random(3000) < np.where(likely, 0.8, 0.4 / (1 + np.exp(-X[:, 1])))).astype(int)

    def fitted(objective):
        steep = fb.FullBatchALM(dual_values="shifted")
        model = fb.FairClassifier("demographic_parity <= 0.1", objective=objective, algorithm=steep)
        model.fit(X, y, sensitive_features=group)
        facts = model.fit_report_["optimality"]
        assert model.fit_report_["feasible"]
        return model.fit_report_["accuracy"], roc_auc_score(y, model.decision_function(X)), facts["error_share"]

    before, loss = fitted("auto"), fitted("loss")
    monkeypatch.setattr(full_batch, "MANY_ROWS", len(y))
    after = fitted("auto")
    assert after[0] > before[0] and before[2] < after[2] < full_batch.MIDDLE
    assert after[1] >= loss[1] - full_batch.AUC_LOSS
    assert after[1] < before[1]
