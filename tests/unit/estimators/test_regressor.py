"""The regressor: bounds met on its own rows at a price near the exact one, units, bad input, folders."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import optimize, stats
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression

import fairbound as fb
from fairbound.base.errors import DataError, DataWarning, OptionError
from fairbound.estimators.linear.penalty import penalised
from fairbound.fairness.notions import constraint
from fairbound.models.mlp import MLP
from fairbound.report import audit_page, schema
from fairbound.testing import check_gradient


def rows(seed=0, n=1500, scale=1.0):
    """y follows pay and skill and differs by sex beyond them, so that a model without sex has residuals of both signs."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["F", "M"], n)
    X = np.column_stack([rng.normal(size=n) + (sex == "M"), rng.normal(size=n)])
    y = X @ [1.0, 0.5] + 0.8 * (sex == "M") + (0.6 + 0.5 * (sex == "F")) * rng.normal(size=n)
    return X, scale * y + 40 * scale, sex


def by_hand(name, predicted, y, sex, at=()):
    f, m = sex == "F", sex == "M"
    if name == "residual_gap":
        return abs((predicted - y)[f].mean() - (predicted - y)[m].mean())
    if name == "group_squared_error":
        return max(((predicted - y)[g] ** 2).mean() for g in (f, m))
    return max(abs((predicted[f] > t).mean() - (predicted[m] > t).mean()) for t in at)


def halfway(X, y, sex):
    """Between the error of F under least squares of all rows, and under least squares of its own."""
    f = sex == "F"
    errors = [((LinearRegression().fit(X[rows], y[rows]).predict(X[f]) - y[f]) ** 2).mean() for rows in (f, f | True)]
    return sum(errors) / 2


@pytest.mark.parametrize(
    ("stated", "model", "seed"),
    [("residual_gap <= 0.05", "linear", 0), ("group_squared_error", "linear", 0), ("prediction_parity <= 0.1", "linear", 0),
     ("prediction_parity[at=39.5:41] <= 0.05", "linear", 0), ("residual_gap <= 0.05", "mlp:6", 0),
     *(pytest.param(stated, model, seed, marks=pytest.mark.long)
       for stated in ("residual_gap <= 0.05", "group_squared_error", "prediction_parity <= 0.1", "prediction_parity[at=39.5:41] <= 0.05")
       for model, seed in (("linear", 1), ("mlp:6", 0)))],
)  # fmt: skip
def test_the_bound_is_met_on_the_training_rows(stated, model, seed):
    X, y, sex = rows(seed)
    free = fb.FairRegressor(model=model, budget="800 steps").fit(X, y)
    if stated == "group_squared_error":
        stated = f"group_squared_error <= {halfway(X, y, sex)}"
    fair = fb.FairRegressor(stated, model=model, validation=0, budget=None if model == "linear" else "800 steps")
    fair.fit(X, y, sex)
    (bound,) = fair.constraints_
    value = by_hand(bound.name, fair.predict(X), y, sex, getattr(bound, "thresholds", ()))
    assert fair.fit_report_["feasible"] and value <= bound.bound * (1 + 1e-9)
    assert fair.fit_report_["constraints"][0]["train_value"] == pytest.approx(value, abs=1e-12)
    assert fb.measure(bound, fair.predict(X), y, sex) == pytest.approx(value, abs=1e-12)
    assert by_hand(bound.name, free.predict(X), y, sex, getattr(bound, "thresholds", ())) > bound.bound
    assert fair.score(X, y) > 0.05  # of the variance: no constant


@pytest.mark.parametrize("seed", range(3))
def test_the_price_of_a_mean_residual_is_the_exact_one(seed):
    """The mean squared error is that of the quadratic program, solved apart."""
    X, y, sex = rows(seed, n=400)
    fair = fb.FairRegressor("residual_gap <= 0.1").fit(X, y, sex)
    A = np.column_stack([X, np.ones(len(X))])
    a = A[sex == "F"].mean(0) - A[sex == "M"].mean(0)
    b = y[sex == "F"].mean() - y[sex == "M"].mean()
    exact = optimize.minimize(
        lambda w: ((A @ w - y) ** 2).mean(), np.linalg.lstsq(A, y)[0], jac=lambda w: 2 * A.T @ (A @ w - y) / len(y),
        constraints=[{"type": "ineq", "fun": lambda w, s=s: 0.1 - s * (a @ w - b)} for s in (1, -1)],
        options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    assert fair.fit_report_["train_loss"] == pytest.approx(exact.fun, rel=2e-3)
    assert fair.fit_report_["train_loss"] >= exact.fun * (1 - 1e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # the mean of the labels is nearer to them
@pytest.mark.parametrize("bound", [0.5, 2.0])
def test_a_gap_that_costs_much_is_closed_at_the_exact_price(bound):
    """The features hardly go with sex, so that the multipliers of the bounds are large."""
    rng = np.random.default_rng(0)
    sex = rng.choice(["F", "M"], 700, p=[0.6, 0.4])
    X = np.column_stack([rng.normal(size=700) + 0.1 * (sex == "M"), rng.normal(size=700)])
    y = 30 * X[:, 0] - 12 * (sex == "M") + 12 * rng.normal(size=700) + 60
    fair = fb.FairRegressor(f"residual_gap <= {bound}").fit(X, y, sex)
    A, d = np.column_stack([X, np.ones(700)]), np.where(sex == "F", 1 / (sex == "F").sum(), -1 / (sex == "M").sum())
    free, along = np.linalg.lstsq(A, y, rcond=None)[0], np.linalg.solve(A.T @ A, A.T @ d)
    gap = d @ (A @ free - y)
    exact = free - along * (gap - np.sign(gap) * bound) / (d @ A @ along)  # least squares on the edge of the bound
    assert fair.fit_report_["feasible"] and abs(gap) > 5 * bound
    assert fair.fit_report_["train_loss"] <= 1.01 * ((A @ exact - y) ** 2).mean()


@pytest.mark.parametrize(("apart", "usual"), [(0.02, False), (3.0, True)])
def test_the_penalty_takes_what_exceeds_a_linear_bound_to_an_eleventh_in_a_round(apart, usual):
    """rho = 10 / (a' H^-1 a), or 100 where that is more, for the slope a and the curvature H of least squares."""
    rng = np.random.default_rng(0)
    group = np.arange(500) % 2
    X = rng.normal(size=(500, 3)) + apart * group[:, None]
    problem = fb.FairProblem(
        MLP(3), X, X[:, 0] + rng.normal(size=500), group, "residual_gap <= 0.1", loss="squared", dtype=torch.float64
    )
    found = penalised(fb.FullBatchALM(), problem)
    A = np.c_[X, np.ones(500)]
    a = A[group == 1].mean(0) - A[group == 0].mean(0)
    steep = 10 / (a @ np.linalg.solve(2 * A.T @ A / 500, a))
    assert (steep < 100) == usual
    assert found.penalty == pytest.approx(max(steep, 100.0), rel=1e-6)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_rounds_alone_reach_the_least_error_under_a_bound_two_hundred_thousandths_tighter(share):
    """Least squares on the edge of a bound b has an error E(b) in closed form. A margin m leaves E(b (1 - m)) in reach, and
    the rounds, which keep one hundred thousandth, may be off by as much again."""
    rng = np.random.default_rng(0)
    group = np.arange(500) % 2
    X = rng.normal(size=(500, 3)) + 0.5 * group[:, None]
    y = X @ [1.0, 0.5, 0.3] + group + rng.normal(size=500)
    A, d = np.c_[X, np.ones(500)], np.where(group == 1, 1 / 250, -1 / 250)
    free, along = np.linalg.lstsq(A, y, rcond=None)[0], np.linalg.solve(A.T @ A, A.T @ d)
    gap = d @ (A @ free - y)

    def error(w):
        return ((A @ w - y) ** 2).mean()

    def least(b):
        return error(free - along * (gap - np.sign(gap) * b) / (d @ A @ along))

    bound = share * abs(gap)
    stated = f"residual_gap <= {bound}"
    problem = fb.FairProblem(MLP(3), X, y, group, stated, loss="squared", dtype=torch.float64)
    found = fb.solve(problem, penalised(fb.FullBatchALM(), problem), budget="200 steps")
    assert found.feasible
    assert least(bound) * (1 - 1e-9) <= error(found.x.numpy()) <= least(bound * (1 - 2e-5))


@pytest.mark.parametrize("bound", ["residual_gap <= 1", "prediction_parity <= 0.5", "group_squared_error <= 9"])
def test_bounds_on_numbers_have_a_larger_penalty_than_others(bound):
    rng = np.random.default_rng(0)
    group, X = np.arange(300) % 2, rng.normal(size=(300, 2)) + (np.arange(300) % 2)[:, None]
    model = fb.FairRegressor(bound).fit(X, X.sum(1) + rng.normal(size=300), group)
    assert "penalty=100.0" in model.fit_report_["options"] and fb.FullBatchALM().penalty == 10


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # the mean of the labels is nearer to them
@pytest.mark.parametrize(("alike", "share"), [(0.03, 0.05), (0.03, 0.8), (0.3, 0.9), (1.0, 0.5)])
def test_linear_bounds_of_groups_however_alike_are_met_at_the_exact_price(alike, share):
    """The flatter the bounds, the larger the multipliers, up to many times what the usual penalty can raise them to."""
    rng = np.random.default_rng(0)
    sex = rng.choice(["F", "M"], 1500)
    X = rng.normal(size=(1500, 3)) + alike * (sex == "M")[:, None]
    X[:, 1] = X[:, 0] ** 2 + 0.1 * X[:, 1]
    y = X @ [3.0, 1.0, 2.0] + 3 * (sex == "M") + 5 * rng.normal(size=1500)
    A, d = np.column_stack([X, np.ones(1500)]), np.where(sex == "F", 1 / (sex == "F").sum(), -1 / (sex == "M").sum())
    free, along = np.linalg.lstsq(A, y, rcond=None)[0], np.linalg.solve(A.T @ A, A.T @ d)
    gap = d @ (A @ free - y)
    bound = share * abs(gap)
    fair = fb.FairRegressor(f"residual_gap <= {bound}", options=fb.TableOptions(knots=0)).fit(X, y, sex)
    exact = free - along * (gap - np.sign(gap) * bound) / (d @ A @ along)
    assert fair.fit_report_["feasible"]
    assert fair.fit_report_["train_loss"] == pytest.approx(((A @ exact - y) ** 2).mean(), rel=1e-3)


def searched(X, y, value, bound, start, points=4000):
    """The lowest root mean squared error of a random walk over linear models from `start`, which meets the bound."""
    rng, A = np.random.default_rng(1), np.column_stack([np.ones(len(X)), X])
    lowest = ((A @ start - y) ** 2).mean() ** 0.5
    assert value(A @ start) <= bound
    for _ in range(points):
        w = start + rng.choice([0.02, 0.1, 0.4, 1.0]) * rng.normal(size=len(start))
        error = ((A @ w - y) ** 2).mean() ** 0.5
        if error < lowest and value(A @ w) <= bound:
            start, lowest = w, error
    return lowest


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 3))])
def test_parity_of_shares_costs_no_more_than_a_random_search_finds(seed):
    rng = np.random.default_rng(seed)
    sex, X, at = rng.choice(["F", "M"], 1500), rng.normal(size=(1500, 3)), (25, 30, 35)
    X[:, 0] += 0.8 * (sex == "F")
    y = 30 + 5 * X[:, 0] + 3 * X[:, 1] + 4 * (sex == "F") + 2 * rng.normal(size=1500)
    fair = fb.FairRegressor("prediction_parity[at=25:30:35] <= 0.1").fit(X, y, sex)
    found = searched(X, y, lambda p: by_hand("prediction_parity", p, y, sex, at), 0.1, np.array([y.mean(), 0, 3, 0]))
    assert fair.fit_report_["feasible"] and by_hand("prediction_parity", fair.predict(X), y, sex, at) <= 0.1
    assert fair.fit_report_["train_loss"] ** 0.5 <= 1.01 * found


def test_without_a_bound_it_is_least_squares():
    X, y, _ = rows()
    ours, theirs = fb.FairRegressor().fit(X, y).predict(X), LinearRegression().fit(X, y).predict(X)
    assert np.abs(ours - theirs).max() < 0.02 * theirs.std()


@pytest.mark.parametrize(("stated", "times"), [("residual_gap <= {}", 1), ("group_squared_error <= {}", 2)])
def test_units_of_the_label_do_not_matter(stated, times):
    X, y, sex = rows(1)
    bound = 0.1 if times == 1 else halfway(X, y, sex)
    one = fb.FairRegressor(stated.format(bound)).fit(X, y, sex).predict(X)
    many = fb.FairRegressor(stated.format(bound * 1e4**times)).fit(X, 1e4 * y, sex).predict(X)
    np.testing.assert_allclose(many / 1e4, one, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("stated", ["residual_gap", "group_squared_error", "prediction_parity[at=0.1:-0.4,sharpness=2.0]",
                                    "prediction_parity[overall,at=1e+05]"])  # fmt: skip
def test_slopes_are_differences_and_texts_read_back(stated):
    X, y, sex = rows(n=90)
    bound = constraint(stated, bound=0.3)
    assert constraint(bound.text) == bound
    check_gradient(
        fb.FairProblem(
            fb.FairRegressor().fit(X, y).model_, X, (y - 40), {"sex": sex}, bound, loss="squared", dtype=torch.float64
        )
    )


def test_weights_are_rows():
    X, y, sex = rows(n=300)
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    weighted = fb.FairRegressor("residual_gap <= 0.1").fit(X, y, sex, sample_weight=weight).predict(X)
    repeated = [np.repeat(part, weight, axis=0) for part in (X, y, sex)]
    written = fb.FairRegressor("residual_gap <= 0.1").fit(*repeated).predict(X)
    np.testing.assert_allclose(weighted, written, atol=0.02)


def test_audits_judge_predicted_numbers():
    X, y, sex = rows(n=6000)
    fair = fb.FairRegressor("residual_gap <= 0.05").fit(X, y, sex)
    stated = ["residual_gap <= 0.2", "group_squared_error <= 0.5", "prediction_parity[at=40:41] <= 0.05"]
    found = fb.audit(fair.predict(X), y, sex, stated, compare={"mean": np.full(len(y), y.mean())})
    assert [c["verdict"] for c in found["constraints"]] == ["met", "violated", "violated"]
    for c in found["constraints"]:
        assert c["lower"] <= c["value"] <= c["upper"]
    assert found["metrics"]["root_mean_squared_error"] == pytest.approx(((fair.predict(X) - y) ** 2).mean() ** 0.5)
    assert found["groups"][0]["mean_loss"] == pytest.approx(((fair.predict(X) - y)[sex == "F"] ** 2).mean())
    schema.validate(found)
    assert "residual_gap" in fb.report.table(found)


def test_audits_show_what_bounds_on_numbers_compare_in_every_group():
    _, y, sex = rows(n=2000)
    predicted = y + np.random.default_rng(1).normal(np.where(sex == "F", 0.5, 0.0), 1.0)
    stated = ["residual_gap <= 0.2", "residual_gap[largest=2] <= 0.2", "prediction_parity[at=40:41] <= 0.05"]
    found = fb.audit(predicted, y, sex, stated)
    schema.validate(found)
    by = {g["group"]: g for g in found["groups"]}
    apart = by["F"]["means"]["mean_residual"]["value"] - by["M"]["means"]["mean_residual"]["value"]
    assert apart == pytest.approx(abs(found["constraints"][0]["value"]), abs=1e-12)
    clipped = [by[g]["means"]["mean residual, none beyond 2"]["value"] for g in "FM"]
    assert clipped[0] - clipped[1] == pytest.approx(found["constraints"][1]["value"], abs=1e-12)
    mine = (predicted - y)[sex == "F"]
    interval = stats.ttest_1samp(mine, 0).confidence_interval(0.95)
    made = by["F"]["means"]["mean_residual"]
    assert (made["lower"], made["upper"]) == pytest.approx((interval.low, interval.high), abs=1e-12)
    assert all(m["lower"] < m["value"] < m["upper"] for g in by.values() for m in g["means"].values())
    assert by["F"]["rates"]["predicted above 40"]["value"] == pytest.approx((predicted[sex == "F"] > 40).mean())
    assert f"{made['value']:.4f} [{made['lower']:.4f}, {made['upper']:.4f}]" in fb.report.table(found)
    page = audit_page(found)
    assert "Mean residual, none beyond 2" in page and f"<b>{made['value']:.4f}</b>" in page
    few = fb.audit(predicted[:100], y[:100], sex[:100], stated[0])["groups"][0]["means"]["mean_residual"]
    assert (
        few["value"] is not None and few["lower"] is few["upper"] is None
    )  # Student's t of few rows promises too much


def test_an_infeasible_bound_is_said():
    X, y, sex = rows()
    with pytest.warns(ConvergenceWarning, match="group_squared_error <= 0.01 is"):
        fair = fb.FairRegressor("group_squared_error <= 0.01", budget="50 steps").fit(X, y, sex)
    assert not fair.fit_report_["feasible"]
    bounds = ["group_squared_error <= 0.01", "residual_gap <= 100", "residual_gap <= 0.001"]
    with pytest.warns(
        ConvergenceWarning, match="group_squared_error <= 0.01 is .*, residual_gap <= 0.001 is "
    ) as caught:
        fair = fb.FairRegressor(bounds, budget="1 steps").fit(X, y, sex)
    assert not any("residual_gap <= 100 is" in str(w.message) for w in caught)
    for c in (fair.fit_report_["constraints"][i] for i in (0, 2)):
        assert f"{c['text']} is {c['train_value']:.6g}" in fair.fit_report_["message"]


def test_a_bound_met_by_predictions_further_off_than_the_mean_is_said():
    """Pay differs by sex, and a column tells it only faintly: to carry the difference it needs a weight that spoils all predictions."""
    rng = np.random.default_rng(0)
    man = rng.integers(0, 2, 2000)
    faint = rng.normal(size=2000) + 0.1 * man
    pay = 6.0 * man + rng.normal(size=2000)
    with pytest.warns(ConvergenceWarning, match="the mean of all labels, predicted for everyone, would have"):
        model = fb.FairRegressor("residual_gap <= 0.5").fit(faint[:, None], pay, sensitive_features=man)
    assert model.fit_report_["feasible"] and model.fit_report_["no_better_than_constant"]
    assert model.score(faint[:, None], pay) < 0 and model.fit_report_["nothing_learnt"] in model.fit_report_["warnings"]
    free = fb.FairRegressor("residual_gap <= 10").fit(faint[:, None], pay, sensitive_features=man)
    assert not free.fit_report_["no_better_than_constant"]


@pytest.mark.parametrize("model", ["linear", "mlp:5"])
def test_a_saved_model_predicts_the_same(model, tmp_path):
    X, y, sex = rows(n=300)
    fair = fb.FairRegressor("residual_gap <= 0.2", model=model, budget="200 steps").fit(X, y, sex)
    fair.save(tmp_path / "m")
    again = fb.FairRegressor.load(tmp_path / "m")
    assert (again.predict(X) == fair.predict(X)).all() and again.constraints_ == fair.constraints_
    with pytest.raises(DataError, match="FairRegressor"):
        fb.FairClassifier.load(tmp_path / "m")


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [({"constraint": "demographic_parity <= 0.1"}, OptionError, "residual_gap"), ({"model": 3}, OptionError, "linear"),
     ({"batch_size": 0}, OptionError, "batch_size"), ({"y": "text"}, DataError, "numbers"),
     ({"y": np.nan}, DataError, "the labels y are missing or infinite"), ({"sensitive_features": None}, DataError, "needs fit")],
)  # fmt: skip
def test_bad_input_is_said(change, error, words):
    X, y, sex = rows(n=50)
    made = fb.FairRegressor(**{"constraint": "residual_gap <= 0.1", **{k: v for k, v in change.items() if k in ("constraint", "model", "batch_size")}})  # fmt: skip
    y = np.full(50, change["y"]) if "y" in change else y
    with pytest.raises(error, match=words):
        made.fit(X, y, None if "sensitive_features" in change else sex)


@pytest.mark.parametrize(
    ("stated", "words"),
    [("prediction_parity[at=1:1] <= 0.1", "different"), ("prediction_parity[at=x] <= 0.1", "not a number"),
     ("group_squared_error[overall] <= 0.1", "unknown option"), ("residual_gap <= -1", "must lie")],
)  # fmt: skip
def test_bad_statements_are_refused(stated, words):
    with pytest.raises(OptionError, match=words):
        constraint(stated)


def test_thresholds_are_asked_for_in_measures():
    with pytest.raises(OptionError, match="names no threshold"):
        fb.measure("prediction_parity", [1.0, 2.0], [1.0, 2.0], ["a", "b"])


def test_thresholds_that_are_not_stated_are_the_deciles_of_the_labels():
    labels = np.array([0.0, 10.0, 20.0, 30.0, 40.0])
    assert fb.constraint("prediction_parity <= 0.1").settled(labels).thresholds == tuple(4.0 * k for k in range(1, 10))
    assert fb.constraint("prediction_parity <= 0.1").settled(np.repeat([1.0, 2.0], [9, 1])).thresholds == (1.0, 1.1)
    for stated in ("prediction_parity[at=3] <= 0.1", "residual_gap <= 0.1"):
        assert fb.constraint(stated).settled(labels) == fb.constraint(stated)


def test_a_network_without_a_bound_learns_as_much_as_under_one_that_never_binds():
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(3000, 4)), rng.integers(0, 2, 3000)
    y = 10 * np.sin(2 * X[:, 0]) * X[:, 1] + 5 * np.abs(X[:, 2]) + rng.normal(size=3000)
    errors = []
    for bound in (None, "residual_gap <= 1000"):
        model = fb.FairRegressor(bound, model="mlp:32", random_state=0).fit(X, y, sensitive_features=group)
        batches = [note for note in model.fit_report_["notes"] if note.startswith("Random batches")]
        assert any("ended after" in note for note in batches)
        errors.append(float(np.sqrt(np.mean((model.predict(X) - y) ** 2))))
    assert errors[0] < 1.15 * errors[1], "1,500 steps and the last layer alone leave 1.3 times the error"


def test_rows_without_a_group_are_warned_of_and_errors_quote_bounds_as_stated():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y, group = 50 + 10 * X[:, 0] + rng.normal(size=300), np.where(np.arange(300) % 3 == 0, None, "a")
    group[1::3] = "b"
    with pytest.warns(DataWarning, match="group is missing in 100 training rows; no bound holds for them"):
        fb.FairRegressor("residual_gap <= 1").fit(X, y, sensitive_features=group)
    with pytest.raises(OptionError, match=r"'group_squared_error\[by=sex\] <= 100' names 'sex'"):
        fb.FairRegressor("group_squared_error[by=sex] <= 100").fit(X, y, sensitive_features=group)


def test_a_bound_of_exactly_0_on_numbers_is_met_to_rounding():
    """In the units of any label; a thousandth of the labels' spread is no rounding, and a bound of 1e-9 is stated as it is."""
    rng = np.random.default_rng(0)
    group, X = rng.integers(0, 2, 600), rng.normal(size=(600, 3))
    X[:, 2] += group
    y = 3 * X[:, 0] + 0.8 * group + rng.normal(size=600)
    for unit in (1.0, 1e6):
        model = fb.FairRegressor("residual_gap <= 0").fit(X, unit * y, sensitive_features=group)
        facts = model.fit_report_
        value = facts["constraints"][0]["train_value"]
        assert facts["feasible"] and 0 < value <= 1e-6 * unit * y.std()
        assert "every bound is met" in facts["message"] and "residual_gap <= 0 is met to rounding" in facts["message"]
    zero, near = (constraint(text).rounding(2.0) for text in ("residual_gap <= 0", "residual_gap <= 1e-9"))
    assert zero == pytest.approx(2e-6) and near == 0 == constraint("group_squared_error <= 0").rounding(2.0)
    with pytest.warns(ConvergenceWarning, match="residual_gap <= 0 is 0.*Loosen the bounds"):
        fb.FairRegressor("residual_gap <= 0", budget="1 steps", algorithm="alm").fit(X, y, sensitive_features=group)


@pytest.mark.parametrize("scale", [1.0, 1000.0])
@pytest.mark.parametrize(
    "stated", ["residual_gap <= {}", "group_squared_error <= {}", "prediction_parity[at={}] <= 0.1"]
)
def test_the_trajectory_is_in_units_of_the_label(stated, scale):
    """It begins at the mean of the labels, predicted for everyone."""
    X, y, sex = rows(scale=scale)
    number = 40.5 * scale if "parity" in stated else 2 * scale**2 if "squared" in stated else 0.1 * scale
    fair = fb.FairRegressor(stated.format(number), random_state=0).fit(X, y, sex)
    found, (bound,) = fair.trajectory_, fair.constraints_
    assert found["steps"] == [row["step"] for row in fair.solution_.records]
    assert found["loss"][0] == pytest.approx(y.var()) and found["loss"][-1] < y.var()
    mean = np.full(len(y), y.mean())
    at = (number,) if "parity" in stated else ()
    (values,) = found["constraints"].values()
    assert values[0] == pytest.approx(by_hand(bound.name, mean, y, sex, at))
    assert values[-1] == pytest.approx(fair.fit_report_["constraints"][0]["train_value"], rel=0.01, abs=0.01)
    assert found["bounds"] == {bound.text: pytest.approx(bound.stated)}
    assert (
        all(name.endswith(f", above {number:g}") == bool(at) for name in found["multipliers"]) and found["multipliers"]
    )
