"""One copy of the features: problems sorted where their rows lie equal those that copy, and fit makes no second copy."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.estimators import problems, training
from fairbound.fairness import row_checks
from fairbound.fairness.evaluation import batches
from fairbound.fairness.problem import FairProblem
from fairbound.models.model import model_of
from fairbound.rows.by_column import by_column, column_after_column, rows_at
from fairbound.rows.groups import Groups
from fairbound.rows.sampling import reorder
from fairbound.rows.strata import ranked


@pytest.mark.parametrize("shape", [(1, 1), (7, 1), (500, 3), (300, 50), (40, 3, 5)])
def test_rows_are_reordered_in_the_memory_they_have(shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    whole = torch.zeros(shape[0] + 3, shape[1]).t().contiguous().t()
    for order in (np.random.default_rng(1).permutation(shape[0]), np.arange(shape[0])):
        for moved in (
            [x.clone()] if len(shape) > 2 else [x.clone(), column_after_column(x.clone()), whole[2:-1].copy_(x)]
        ):
            place, places = moved.data_ptr(), torch.as_tensor(order)
            assert torch.equal(rows_at(moved, places[:2]), x[places[:2]])
            reorder(moved, order)
            assert torch.equal(moved, x[places]) and moved.data_ptr() == place
    assert not whole[:2].any() and not whole[-1].any()


@pytest.mark.parametrize("most", [1, 3, 40, 10**6])
def test_ranks_are_those_of_sorted_distinct_codes(most):
    codes = np.random.default_rng(2).integers(0, most, 300)
    rank, sizes = ranked(codes)
    _, inverse, counts = np.unique(codes, return_inverse=True, return_counts=True)
    assert np.array_equal(rank, inverse) and np.array_equal(sizes, counts)
    assert len(ranked(codes[:0])[1]) == 0


def rows(n=2000, d=6):
    rng = np.random.default_rng(4)
    return rng.normal(size=(n, d)).astype(np.float32), rng.integers(0, 2, n), Groups.of(rng.choice(["a", "b"], n))


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_problem_sorted_in_place_is_the_problem_that_copies(monkeypatch, order):
    monkeypatch.setattr(row_checks, "MOST_COPIED", 0)  # as of a large table
    X, y, groups = rows()
    X = np.asarray(X, order=order)
    model, given = model_of("linear", 6), X.copy()
    copied = FairProblem(model, X, y, groups, "equalized_odds <= 0.1")
    assert np.array_equal(X, given), "a caller's features were moved"
    own = FairProblem(model, X, y, groups, "equalized_odds <= 0.1", in_place=True)
    assert torch.equal(own.features, copied.features) and torch.equal(own.targets, copied.targets)
    assert own.features.data_ptr() == X.ctypes.data and by_column(own.features) == (order == "F")
    wide = FairProblem(model, given, y, groups, "equalized_odds <= 0.1", dtype=torch.float64, in_place=True)
    assert np.array_equal(given, rows()[0]) and torch.equal(wide.features.float(), copied.features)


def test_a_problem_holds_few_bytes_of_a_row_beside_its_features():
    """In int64 the cells of three columns alone would be 24 bytes of each row, of fifty features as float32 an eighth."""
    options = {"stated": "demographic_parity <= 0.1", "objective": "accuracy", "in_place": True}
    FairProblem(model_of("linear", 2), *rows(100, 2), **options).full()
    given = rows(50_000, 2)
    tracemalloc.start()
    problem = FairProblem(model_of("linear", 2), *given, **options)
    problem.full(), problem.counts_of_cells(), problem.within(np.ones(problem.plan.n_cells + 1, dtype=bool))
    held, most = (size / problem.rows for size in tracemalloc.get_traced_memory())
    tracemalloc.stop()
    assert problem.cells.shape == (50_000, 3) and held < 8, "the order as int32, and a byte for each cell"
    assert most < 50, "a few numbers of each row"


@pytest.mark.parametrize("weighted", [False, True])
def test_the_weight_of_classes_is_a_sum_over_all_slices_of_rows(monkeypatch, weighted):
    monkeypatch.setattr(batches, "SLICE", 300)
    X, y, _ = rows(1000)
    weight = np.random.default_rng(5).uniform(0, 2, 1000) if weighted else None
    problem = FairProblem(model_of("linear", 6), X, y, sample_weight=weight, dtype=torch.float64)
    np.testing.assert_allclose(problem.weight_of_classes(3), np.bincount(y, weight, 3), rtol=1e-12)


@pytest.mark.parametrize(("labels", "bytes_each"), [(125, 1), (126, 2)])
def test_cells_held_in_small_integers_are_those_of_the_plan(labels, bytes_each):
    X, y, _ = rows(3000)
    names = [None if i % 11 == 0 else f"group {i % labels}" for i in range(3000)]
    groups = Groups.of(names)
    problem = FairProblem(model_of("linear", 6), X, y, groups, "demographic_parity <= 0.1", objective="accuracy")
    cells, none = problem.plan.cells(groups.codes, y), problem.plan.n_cells
    assert cells.itemsize == bytes_each and none == labels + 2 and cells.shape[1] == 3
    assert cells[:, 0].tolist() == [none if name is None else groups.labels[0].index(name) for name in names]
    assert np.array_equal(problem.cells.numpy(), cells[problem.strata.order])
    assert torch.equal(problem.full().cells, problem.cells)
    assert np.array_equal(problem.counts_of_cells(), np.bincount(cells.ravel().astype(int))[:none])
    chosen = np.arange(none + 1) % 5 == 0
    assert np.array_equal(problem.within(chosen), chosen[problem.cells.numpy()].any(1))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("validation", [0, "auto"])
@pytest.mark.parametrize("encoded", [False, True])
def test_training_and_validation_rows_share_one_array_that_is_not_the_callers(monkeypatch, validation, encoded):
    monkeypatch.setattr(row_checks, "MOST_COPIED", 0)  # as of a large table
    X, y, groups = rows()
    seen = []
    real = training.train
    monkeypatch.setattr(training, "train", lambda *a, **k: seen.append(a) or real(*a, **k))
    table = fb.tables.Encoded.of(fb.TableEncoder(), X) if encoded else X
    given = (table.features if encoded else X).copy()
    fair = fb.FairClassifier("demographic_parity <= 0.9", algorithm="alm", validation=validation, budget="20 steps")
    fair.fit(table, y, groups)
    assert np.array_equal(table.features if encoded else X, given)
    problem, held, _, build = seen[0][0]
    if held is None:
        assert validation == 0 and problem.rows == len(y)
        return
    behind = held.features.data_ptr() == problem.features.data_ptr() + problem.features.nbytes
    assert held.rows == 400 and (behind or encoded)
    if validation == "auto":
        features = torch.from_numpy(fb.TableEncoder().fit_encode(X, np.float32)[0])
        whole = FairProblem(model_of("linear", 6), features, y, groups, "demographic_parity <= 0.9")
        assert torch.equal(build().features, whole.features)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("validation", [0, 0.2])
@pytest.mark.parametrize("algorithm", ["auto", "alm"])
def test_a_table_and_its_encoding_which_is_not_moved_train_the_same_model(monkeypatch, validation, algorithm):
    monkeypatch.setattr(problems, "MANY_ROWS", 600)
    monkeypatch.setattr(problems, "PART_ROWS", 300)  # so that a part of the rows begins
    X, y, groups = rows()
    y = (X[:, 0] + X[:, 1] + np.random.default_rng(6).normal(size=len(y)) > 0).astype(int)
    options = {"algorithm": algorithm, "validation": validation, "budget": "30 steps"}
    own, encoded = (
        fb.FairClassifier("demographic_parity <= 0.05", **options).fit(table, y, groups)
        for table in (X, fb.tables.Encoded.of(fb.TableEncoder(), X))
    )
    assert torch.equal(own.x_, encoded.x_) and torch.equal(own.solution_.last, encoded.solution_.last)
    assert own.solution_.last.abs().sum() > 0
