"""Linear regressors end at the exact optimum, and what they predict meets the bounds to the last digit."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
import torch
from scipy import optimize
from sklearn.exceptions import ConvergenceWarning

import fairbound as fb
from fairbound.base.errors import DataWarning
from fairbound.estimators import regressor
from fairbound.estimators.certificates.frontier import frontier
from fairbound.estimators.facts.fit_warnings import missed_words
from fairbound.estimators.judged_rows import NumberRows
from fairbound.estimators.linear import full_batch
from fairbound.methods import FullBatchALM

SEX = np.random.default_rng(0).choice(["F", "M"], 700, p=[0.4, 0.6])
MAN = SEX == "M"


def rows(seed=0):
    """Pay that rises more with skill for men, beside a part that goes with sex."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=700) + 0.5 * MAN, rng.normal(size=700), rng.normal(size=700) + MAN])
    return X, X @ [1.0, 0.5, 0.0] + 0.8 * MAN + MAN * X[:, 1] + 0.7 * rng.normal(size=700)


def gap(predicted, y):
    return abs((predicted - y)[MAN].mean() - (predicted - y)[~MAN].mean())


def worst_error(predicted, y):
    return max(((predicted - y)[part] ** 2).mean() for part in (MAN, ~MAN))


@pytest.mark.parametrize("unit", [1.0, 1e-6, 1e6])
@pytest.mark.parametrize(("most_gap", "most_error"), [(None, 0.9), (0.2, 1.0), (0.1, 1.1)])
def test_bounds_on_squared_errors_and_residuals_together_cost_no_more_than_they_must(most_gap, most_error, unit):
    X, y = rows()
    stated = [f"group_squared_error <= {most_error * unit**2!r}"]
    stated += [f"residual_gap <= {most_gap * unit!r}"] if most_gap else []
    fair = fb.FairRegressor(stated, options=fb.TableOptions(knots=0)).fit(X, unit * y, SEX)
    A, parts = np.column_stack([X, np.ones(700)]), [(MAN / MAN.sum()), ~MAN / (~MAN).sum()]
    limits = [lambda x, p=p: most_error - p @ (A @ x - y) ** 2 for p in parts]
    if most_gap:
        limits += [lambda x, s=s: most_gap - s * (parts[0] - parts[1]) @ (A @ x - y) for s in (1, -1)]
    free = np.linalg.lstsq(A, y, rcond=None)[0]
    exact = optimize.minimize(
        lambda x: ((A @ x - y) ** 2).mean(), free, jac=lambda x: 2 * A.T @ (A @ x - y) / 700,
        constraints=[{"type": "ineq", "fun": one} for one in limits], options={"ftol": 1e-14, "maxiter": 1000},
    )  # fmt: skip
    assert exact.success and min(one(free) for one in limits) < 0
    predicted = fair.predict(X) / unit
    assert fair.fit_report_["feasible"] and worst_error(predicted, y) <= most_error * (1 + 1e-12)
    assert most_gap is None or gap(predicted, y) <= most_gap * (1 + 1e-12)
    assert ((predicted - y) ** 2).mean() == pytest.approx(exact.fun, rel=1e-6)


def test_what_is_predicted_meets_the_bound_though_training_sees_rounded_features(monkeypatch):
    """Features of single precision put these mean residuals up to 4e-9 of the labels' spread elsewhere."""
    X, y = rows()
    bounds = (0.001, 0.004, 0.02, 0.1)

    def excesses():
        fits = [fb.FairRegressor(f"residual_gap <= {b}").fit(X, y, SEX) for b in bounds]
        return [gap(fit.predict(X), y) - b for fit, b in zip(fits, bounds, strict=True)], fits

    over, fits = excesses()
    assert all(-1e-7 < by <= 0 for by in over) and all(fit.fit_report_["feasible"] for fit in fits)
    assert all((fit.solution_.x == fit.x_).all() for fit in fits)
    monkeypatch.setattr(regressor, "TRIES", 0)
    with pytest.warns(ConvergenceWarning, match=r"residual_gap <= .* is 0\.\d{7,}"):
        over, fits = excesses()
    assert min(over) > 0 and not any(fit.fit_report_["feasible"] for fit in fits)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_a_missed_bound_is_said_in_any_unit_of_the_label(unit):
    """Missed by half of the bound, which is no rounding though the numbers may be far below 1."""
    X, y = rows()
    with pytest.warns(ConvergenceWarning, match="not every bound is met on the training rows: group_squared_error"):
        fair = fb.FairRegressor(f"group_squared_error <= {0.5 * unit**2!r}").fit(X, unit * y, SEX)
    assert not fair.fit_report_["feasible"]


def test_a_value_that_misses_in_its_last_digits_is_told_from_the_bound():
    bound = fb.constraint("residual_gap <= 0.1")
    assert missed_words([bound], [0.1 + 1e-9], [0.0]) == "residual_gap <= 0.1 is 0.100000001"
    assert missed_words([bound], [0.2], [1.0]) == "residual_gap <= 0.1 is 0.2"
    assert missed_words([bound], [0.1 + 1e-9], [10.0]) == "", "a rounding of labels that vary by 10"


@pytest.mark.parametrize("bound", [0.0, 0.05])
def test_the_best_off_group_is_trained_against_as_every_two_are(bound):
    """The largest difference from the lowest mean residual is the largest of any two groups."""
    X, y = rows()
    region = np.random.default_rng(5).integers(0, 4, 700)
    X = np.column_stack([X, np.eye(4)[region] + np.random.default_rng(6).normal(size=(700, 4))])
    y = y + 0.6 * (region == 1) - 0.5 * (region == 3)
    made = [fb.FairRegressor(f"residual_gap{how} <= {bound}").fit(X, y, region) for how in ("", "[best]")]
    values = [one.fit_report_["constraints"][0] for one in made]
    assert values[1]["text"] == f"residual_gap[best] <= {bound:g}" and all(one.fit_report_["feasible"] for one in made)
    assert values[0]["train_value"] == pytest.approx(values[1]["train_value"], abs=1e-9)
    np.testing.assert_allclose(made[0].predict(X), made[1].predict(X), atol=1e-7)
    shares = [fb.FairRegressor(f"prediction_parity[{how}at=1] <= 0.1").fit(X, y, region) for how in ("", "best,")]
    np.testing.assert_allclose(shares[0].predict(X), shares[1].predict(X), atol=1e-12)


def test_the_rounds_before_are_kept_where_the_optimum_is_not_known(monkeypatch):
    X, y = rows()
    known = fb.FairRegressor("group_squared_error <= 0.9").fit(X, y, SEX)
    monkeypatch.setattr(full_batch, "lowest_within", lambda problem, **_: None)
    without = fb.FairRegressor("group_squared_error <= 0.9").fit(X, y, SEX)
    assert known.fit_report_["train_loss"] < without.fit_report_["train_loss"]
    monkeypatch.setattr(full_batch, "lowest_within", lambda problem, **_: torch.zeros(problem.n, dtype=torch.float64))
    worse = fb.FairRegressor("group_squared_error <= 0.9").fit(X, y, SEX)
    assert worse.fit_report_["train_loss"] == pytest.approx(without.fit_report_["train_loss"], rel=1e-12)


def test_a_frontier_ends_at_the_optimum_of_each_bound():
    X, y = rows()
    bounds = ["residual_gap <= 0.2", "residual_gap <= 0.05", "residual_gap <= 0"]
    given = fb.FairRegressor(bounds[0], random_state=0)
    stages = [[fb.constraint(text)] for text in bounds]
    for text, one in zip(bounds, frontier(given, NumberRows.of(given, X, y, SEX, None), stages), strict=True):
        alone = fb.FairRegressor(text, random_state=0).fit(X, y, SEX).fit_report_
        assert one.fit_report_["feasible"] and one.algorithm == "auto"
        assert one.fit_report_["train_loss"] == pytest.approx(alone["train_loss"], rel=1e-6)


def test_a_start_at_the_optimum_counts_as_found():
    """Bounds that cost nothing, each begun at the model of the one before."""
    X, y = rows()
    given = fb.FairRegressor(random_state=0)
    stages = [[fb.constraint(f"group_squared_error <= {bound}")] for bound in (9, 8, 7, 6)]
    for one in frontier(given, NumberRows.of(given, X, y, SEX, None), stages):
        assert one.solution_.found and one.fit_report_["nothing_learnt"] is None


def test_a_frontier_of_numbers_tries_random_batches_at_the_first_bound_that_no_model_meets():
    X, y = rows()
    given = fb.FairRegressor(random_state=0)
    stages = [[fb.constraint(f"group_squared_error <= {bound}")] for bound in (2.0, 0.5, 0.4)]
    fits = list(frontier(given, NumberRows.of(given, X, y, SEX, None), stages))
    assert [one.fit_report_["feasible"] for one in fits] == [True, False, False]
    assert [one.algorithm == "auto" for one in fits] == [True, True, False]


def test_the_program_is_not_tried_again_where_no_point_was_found(monkeypatch):
    X, y = rows()
    tried = []
    for where in (full_batch, regressor):
        monkeypatch.setattr(where, "lowest_within", lambda *_, where=where, **__: tried.append(where))
    with pytest.warns(ConvergenceWarning, match="group_squared_error"):
        fb.FairRegressor("group_squared_error <= 0.01").fit(X, y, SEX)
    assert tried == [full_batch]


def test_where_the_seconds_are_over_rounds_alone_are_made(monkeypatch):
    """With a deadline that has come before the rounds end."""
    X, y = rows()
    late = fb.Budget(seconds=1, deadline=0.0)
    found = []
    of = full_batch.lowest_within
    monkeypatch.setattr(full_batch, "lowest_within", lambda *given, **more: found.append(of(*given, **more)))
    with pytest.warns(ConvergenceWarning):
        fb.FairRegressor("residual_gap <= 0.001", budget=late).fit(X, y, SEX)
    fb.FairRegressor("residual_gap <= 0.001", budget="100 steps").fit(X, y, SEX)
    assert found[0] is None and found[1] is not None


def test_the_report_names_a_method_that_can_be_made():
    X, y = rows()
    said = fb.FairRegressor("residual_gap <= 0.1").fit(X, y, SEX).fit_report_["options"]
    assert said.startswith("FullBatchALM(") and eval(said, {"FullBatchALM": FullBatchALM}).margin == 1e-5


@pytest.mark.parametrize("weights", [None, np.full(700, 0.1)])
@pytest.mark.parametrize("value", [0.1, 0.0, -3e7])
def test_labels_all_alike_are_said_to_be(value, weights):
    X, _ = rows()
    with pytest.warns(DataWarning, match=re.escape(f"All labels y are {value:g}: there is nothing to learn")):
        fair = fb.FairRegressor("residual_gap <= 0.1").fit(X, np.full(700, value), SEX, sample_weight=weights)
    assert any("there is nothing to learn" in said for said in fair.fit_report_["warnings"])
    assert fair.fit_report_["feasible"] and (fair.predict(X) == value).all() and fair.scale_ == 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        varied = fb.FairRegressor().fit(X, np.r_[np.full(699, value), value + 1])
    assert not any("nothing to learn" in said for said in varied.fit_report_["warnings"])


@pytest.mark.parametrize(("text", "number"), [("residual_gap", 0.2), ("group_squared_error", 1.0)])
def test_multipliers_say_by_how_much_the_loss_falls_where_the_bound_is_looser(text, number):
    """In squared units of the label for one of the bound."""
    X, y = rows()
    unit, step = 1000.0, 0.005
    size = unit if text == "residual_gap" else unit**2
    fits = [
        fb.FairRegressor(f"{text} <= {size * (number + by)!r}", options=fb.TableOptions(knots=0)).fit(X, unit * y, SEX)
        for by in (-step, 0, step)
    ]
    loss = [fit.fit_report_["train_loss"] for fit in fits]
    multipliers = sum(values[-1] for values in fits[1].trajectory_["multipliers"].values())
    assert multipliers == pytest.approx((loss[0] - loss[2]) / (2 * step * size), rel=0.01)
