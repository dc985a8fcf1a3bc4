"""Weight decay: what is minimised, how much of it "auto" takes, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

import fairbound as fb
from fairbound.base.errors import OptionError
from fairbound.cli.app import main
from fairbound.estimators.linear.weight_decay import GRID, USUAL, Decayed, _taken, auto_decay, leave_one_out
from fairbound.fairness.objectives import ClassLosses
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import MLP
from fairbound.tables.shapes.regressions import Curved, fitted
from fairbound.testing import check_gradient


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    return X, (X[:, 0] + rng.logistic(size=60) > 0).astype(float), rng.uniform(0.5, 2, 60)


@pytest.mark.parametrize("many", [0.25, 1.0, 4.0, 16.0])
def test_one_fit_tells_the_loss_that_leaving_each_row_out_measures(rows, many):
    X, y, mass = rows
    A, penalty = np.column_stack([X, np.ones(60)]), np.r_[np.full(4, many), 0.0]
    x, scores, _ = fitted(A, y, mass, penalty, np.zeros(5))

    def loss(at, i):
        return np.logaddexp(0, A[i] @ at) - y[i] * (A[i] @ at)

    others = [np.arange(60) != i for i in range(60)]
    left_out = [loss(fitted(A[k], y[k], mass[k], penalty, np.zeros(5)).x, i) for i, k in enumerate(others)]
    exact, seen = np.average(left_out, weights=mass), np.average([loss(x, i) for i in range(60)], weights=mass)
    assert abs(leave_one_out(A, y, mass, penalty, scores)[0] - exact) < 0.04 * (exact - seen)


def test_second_derivatives_of_elsewhere_serve_while_they_are_of_use(rows):
    X, y, mass = rows
    penalty = np.full(4, 0.5)
    own = fitted(X, y, mass, penalty, np.zeros(4)).x
    for many in (0.1, 1.0, 30.0):
        elsewhere = Curved.of(X, np.full(60, many))
        np.testing.assert_allclose(fitted(X, y, mass, penalty, np.zeros(4), elsewhere).x, own, atol=1e-3)


@pytest.mark.parametrize("decay", [0.02, 0.3])
def test_the_objective_is_that_of_scikit_learn_with_the_same_penalty(rows, decay):
    X, y, mass = rows
    ours = fb.FairClassifier(objective="loss", weight_decay=decay).fit(X, y, sample_weight=mass)
    scaled = (X - X.mean(0)) / X.std(0)
    plain = LogisticRegression(C=1 / (decay * mass.sum()), tol=1e-10).fit(scaled, y, sample_weight=mass)
    np.testing.assert_allclose(ours.x_[:-1], plain.coef_[0], atol=2e-3)
    np.testing.assert_allclose(ours.x_[-1], plain.intercept_[0], atol=2e-3)
    assert ours.fit_report_["optimality"]["weight_decay"] == decay
    assert ours.fit_report_["optimality"]["duality_gap"] < 1e-3


def test_the_objective_of_more_classes_is_that_of_scikit_learn_too(rows):
    X, _, mass = rows
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + X[:, 1] ** 2, [-0.3, 0.9])]
    straight = fb.TableOptions(knots=0)
    ours = fb.FairClassifier(weight_decay=0.05, options=straight).fit(X, y, sample_weight=mass)
    assert ours.fit_report_["algorithm"] == "full_batch_alm" and ours.fit_report_["optimality"]["weight_decay"] == 0.05
    scaled = (X - X.mean(0)) / X.std(0)
    plain = LogisticRegression(C=1 / (0.05 * mass.sum()), tol=1e-10).fit(scaled, y, sample_weight=mass)
    np.testing.assert_allclose(ours.x_[:12].reshape(3, 4), plain.coef_, atol=3e-3)
    np.testing.assert_allclose(
        ours.x_[12:] - ours.x_[12:].mean(), plain.intercept_ - plain.intercept_.mean(), atol=3e-3
    )


def test_the_decay_of_more_classes_is_of_the_least_loss_of_each_against_the_rest_added_up():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(150, 10))
    y = (np.array([4, 4, 0]) * X[:, :3] + rng.gumbel(size=(150, 3))).argmax(1)  # the last class is told by little
    A, mass = np.column_stack([X, np.ones(150)]), np.ones(150)

    def losses(many):
        penalty = np.r_[np.full(10, many), 0.0]
        rest = [(y == k).astype(float) for k in range(3)]
        fits = [fitted(A, one, mass, penalty, np.zeros(11)).scores for one in rest]
        return [leave_one_out(A, one, mass, penalty, scores)[0] for one, scores in zip(rest, fits, strict=True)]

    each = np.array([losses(many) for many in GRID])
    found = auto_decay(FairProblem(MLP(10, outputs=3), X, y, None, None, loss="cross_entropy"))
    assert found * 150 == GRID[int(np.argmin(each.sum(1)))] != GRID[int(np.argmin(each[:, 2]))]


def test_all_stages_hold_to_it(rows):
    X, y, _ = rows
    group = np.where(X[:, 1] > 0, "a", "b")
    lengths = []
    for decay in (0.0, 0.05, 1.0):
        ours = fb.FairClassifier("demographic_parity <= 0.1", objective="accuracy", weight_decay=decay)
        ours.fit(X, y, sensitive_features=group)
        assert ours.fit_report_["constraints"][0]["train_value"] <= 0.1
        lengths.append(float(ours.x_[:-1].norm()))
    assert lengths[0] > 1.3 * lengths[1] > 2.6 * lengths[2]


def problem_of(X, y, **options):
    return FairProblem(MLP(X.shape[1]), X, y, None, None, **options)


def test_iterates_are_compared_by_what_is_minimised(rows):
    X, y, _ = rows
    made = Decayed(problem_of(X, y), 0.3)
    x = torch.linspace(-1, 1, 5)
    measured = made.evaluate(x)
    torch.testing.assert_close(measured.f, measured.extra["loss"] + 0.15 * x[:-1].square().sum())
    torch.testing.assert_close(measured.f, made.values(x, made.sample((0,), "full", 0, 1, "full")).f)
    check_gradient(Decayed(problem_of(X, y, dtype=torch.float64), 0.3))


def test_columns_of_noise_ask_for_more_of_it_and_rows_for_less():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3000, 40))
    y = (2 * X[:, 0] + rng.logistic(size=3000) > 0).astype(float)
    few, noisy, many = (problem_of(X[:n, :d], y[:n]) for n, d in ((150, 1), (150, 40), (3000, 40)))
    assert auto_decay(noisy) > 10 * auto_decay(few)
    assert auto_decay(noisy) > 10 * auto_decay(many)
    assert auto_decay(noisy) * 150 in GRID
    assert auto_decay(problem_of(csr_matrix(X[:150]), y[:150])) == USUAL / 150


def test_more_columns_than_rows_give_what_a_fit_in_all_columns_gives():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 60))
    y = (X[:, :3].sum(1) + rng.logistic(size=40) > 0).astype(float)
    A = np.column_stack([X, np.ones(40)])
    losses = []
    for many in GRID:
        penalty = np.r_[np.full(60, many), 0.0]
        scores = fitted(A, y, np.ones(40), penalty, np.zeros(61)).scores
        losses.append(leave_one_out(A, y, np.ones(40), penalty, scores)[0])
    assert auto_decay(problem_of(X, y)) == GRID[int(np.argmin(losses))] / 40


def test_class_weights_choose_as_rows_of_these_weights_do():
    """30 positive rows of 600, of noise but for one column: with equal classes the 30 count for half of the rows."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(600, 8)), np.arange(600) % 20 == 0
    X[:, 0] += 2 * y
    y = y.astype(float)
    half = ClassLosses((0.5, 0.5))
    chosen = auto_decay(FairProblem(MLP(8), X, y, objective=half))
    assert chosen == auto_decay(FairProblem(MLP(8), X, y, sample_weight=np.where(y > 0, 19.0, 1.0)))
    assert chosen != auto_decay(FairProblem(MLP(8), X, y))


def test_an_even_part_of_a_large_table_decides_for_all_of_it(monkeypatch):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(4000, 10))
    told = np.where(np.arange(4000) < 1000, 0.0, 1.0)
    y, mass = (told * X[:, 0] + rng.logistic(size=4000) > 0).astype(float), rng.uniform(0.5, 2, 4000)
    every = problem_of(X, y, sample_weight=mass)
    order = every.strata.order[::4]
    alone = auto_decay(problem_of(X[order], y[order], sample_weight=mass[order]))
    monkeypatch.setattr("fairbound.estimators.linear.weight_decay.MOST_WORK", 1000 * 10 * 10)
    assert auto_decay(every) * 4000 == pytest.approx(alone * 1000)
    first = auto_decay(problem_of(X[:1000], y[:1000], sample_weight=mass[:1000]))
    assert first * 1000 > alone * 1000 > USUAL


def test_tables_too_wide_to_try_it_take_the_usual_amount(rows, monkeypatch):
    X, y, _ = rows
    own = "fairbound.estimators.linear.weight_decay."
    monkeypatch.setattr(own + "FEWEST", 40)
    monkeypatch.setattr(own + "MOST_WORK", 39 * 4 * 4)
    monkeypatch.setattr(own + "MOST_OF_WIDE", 40 * 4 * 4 - 1)
    assert auto_decay(problem_of(X, y)) == USUAL / 60
    monkeypatch.setattr(own + "MOST_OF_WIDE", 60 * 4 * 4)
    of_ten_rows_each = auto_decay(problem_of(X, y))
    assert of_ten_rows_each != USUAL / 60
    monkeypatch.setattr(own + "MOST_WORK", 40 * 4 * 4)
    assert auto_decay(problem_of(X, y)) == of_ten_rows_each


@pytest.mark.parametrize(
    ("rows", "columns", "models", "taken"),
    [
        (60, 4, 1, 60),
        (25_000, 60, 1, 6_000),  # a hundred for each column are enough
        (100_000, 4, 1, 5_000),
        (100_000, 125, 1, 6_400),  # 1e8
        (20_000, 381, 1, 3_810),  # ten for each column
        (20_000, 1_000, 1, 1_000),  # 1e9
        (20_000, 2_000, 1, 707),  # fewer rows than columns: 707^2 2000
        (900, 1_000, 1, 900),
        (20_000, 5_000, 1, 0),
        (20_000, 381, 10, 688),
    ],
)
def test_wide_tables_are_decided_by_as_many_rows_as_the_work_allows(rows, columns, models, taken):
    found = _taken(rows, columns, models)
    assert len(found) == taken and (np.diff(found) >= rows // max(taken, 1)).all()


def test_as_many_columns_as_the_part_has_rows_decide_the_same(monkeypatch):
    """With fewer rows than columns the table is turned, which leaves all scores as they are."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(40, 60))
    y = (X[:, 0] + rng.logistic(size=40) > 0).astype(float)
    turned = auto_decay(problem_of(X, y))
    monkeypatch.setattr(np.linalg, "qr", lambda given: (None, given))
    assert turned == auto_decay(problem_of(X, y)) != USUAL / 40


def test_models_on_one_encoded_table_choose_it_once(rows, monkeypatch):
    X, y, mass = rows
    group, asked = np.where(X[:, 1] > 0, "a", "b"), []
    monkeypatch.setattr("fairbound.estimators.linear.weight_decay.auto_decay", lambda problem: asked.append(0) or 0.1)
    table = fb.tables.Encoded.of(fb.TableEncoder(), X)
    for bound in (None, "demographic_parity <= 0.2"):
        ours = fb.FairClassifier(bound).fit(table, y, sensitive_features=group)
        assert ours.fit_report_["optimality"]["weight_decay"] == 0.1
    assert len(asked) == 1
    fb.FairClassifier("demographic_parity <= 0.2").fit(table, 1 - y, sensitive_features=group)
    fb.FairClassifier("demographic_parity <= 0.2").fit(table, y, sensitive_features=group, sample_weight=mass)
    assert len(asked) == 3
    fb.FairClassifier("demographic_parity <= 0.2", validation=0.3).fit(table, y, sensitive_features=group)
    assert len(asked) == 4
    assert len(table.decays) == 3
    wrong = "all rows were read for a key that no other model asks for"
    monkeypatch.setattr("fairbound.estimators.linear.weight_decay._of_rows", lambda problem: pytest.fail(wrong))
    fb.FairClassifier().fit(X, y)


def test_it_is_saved_and_other_models_have_none(rows, tmp_path):
    X, y, _ = rows
    fb.FairClassifier(weight_decay=0.25).fit(X, y).save(tmp_path / "model")
    assert fb.FairClassifier.load(tmp_path / "model").weight_decay == 0.25
    plain = fb.FairClassifier(loss="squared").fit(X, y)
    assert plain.fit_report_["optimality"]["weight_decay"] == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"weight_decay": -1.0}, "weight_decay must be 'auto' or a number >= 0"),
        ({"weight_decay": "some"}, "weight_decay must be 'auto' or a number >= 0"),
        ({"weight_decay": 0.1, "algorithm": "sgd"}, "fb.ALM"),
        ({"weight_decay": 0.1, "model": "mlp:4", "budget": "5 steps"}, "linear models"),
        ({"weight_decay": 0.1, "objective": "auc"}, "linear models"),
    ],
)
def test_a_number_that_would_not_be_followed_is_refused(rows, options, said):
    with pytest.raises(OptionError, match=said):
        fb.FairClassifier(**options).fit(*rows[:2])


def test_the_command_takes_it(rows, tmp_path, capsys):
    X, y, _ = rows
    lines = [",".join(map(str, [*row, label])) for row, label in zip(X.round(3), y.astype(int), strict=True)]
    (tmp_path / "d.csv").write_text("\n".join(["a,b,c,d,y", *lines]))
    base = [
        "fit",
        "--data",
        str(tmp_path / "d.csv"),
        "--label",
        "y",
        "--constraint",
        "recall of class 1 >= 0.5",
        "--quiet",
    ]
    base += ["--algorithm", "full_batch_alm"]
    assert main([*base, "--weight-decay", "0.5", "--out", str(tmp_path / "out")]) == 3  # 15 rows tell little
    assert fb.FairClassifier.load(tmp_path / "out" / "model").weight_decay == 0.5
    assert main([*base, "--weight-decay", "some", "--out", str(tmp_path / "bad")]) == 2
    assert "--weight-decay must be 'auto' or a number >= 0" in capsys.readouterr().err
