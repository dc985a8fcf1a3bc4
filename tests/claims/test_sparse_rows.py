"""Sparse tables train, validate and predict as their dense copies do, and are never made dense."""

import numpy as np
import pytest
import torch
from scipy import sparse

import fairbound as fb
from fairbound.base.errors import DataError, OptionError
from fairbound.fairness.problem import FairProblem
from fairbound.methods import ALM, DFLS, SGD, YNW, SwitchingSubgradient
from fairbound.models.model import ModuleModel, model_of
from fairbound.rows.sparse import SparseRows
from fairbound.testing import check_gradient, run


def table(n=300, d=40, seed=0, density=0.1):
    rng = np.random.default_rng(seed)
    X = sparse.random(n, d, density=density, format="csr", random_state=rng, data_rvs=lambda k: rng.normal(size=k))
    X.data[X.indptr[5] : X.indptr[6]] = 0
    X.eliminate_zeros()  # row 5 is empty
    group = rng.integers(0, 2, n)
    y = (X @ rng.normal(size=d) + 0.7 * group + 0.3 * rng.normal(size=n) > 0.3).astype(int)
    return X, y, group


@pytest.fixture
def no_dense_copies(monkeypatch):
    def refuse(self, *args, **options):
        raise AssertionError("a sparse matrix was made dense")

    for kind in (sparse.csr_matrix, sparse.csr_array):
        for name in ("toarray", "todense"):
            monkeypatch.setattr(kind, name, refuse)


def pair(model="linear", seeds=(0,), dtype=torch.float64, **options):
    X, y, group = table()
    return [
        FairProblem(model_of(model, 40), features, y, group, ["loss_gap <= 0.01", "demographic_parity <= 0.05"],
                    dtype=dtype, **options)
        for features in (X, X.toarray())
    ]  # fmt: skip


METHODS = [
    ALM(dual_every=2, dual_rows=32),
    SGD(),
    SwitchingSubgradient(constraint_step=0.2),
    DFLS(step_size=0.3),
    YNW(horizon=20),
]


@pytest.mark.parametrize("seeds", [(0,), (0, 1, 2)], ids=["one", "stack"])
@pytest.mark.parametrize("sampling", ["balanced", "uniform", "shuffled", "full"])
@pytest.mark.parametrize("config", METHODS, ids=lambda c: c.name)
def test_training_takes_the_same_steps(config, sampling, seeds):
    thin, dense = (run(config, p, 10, seeds=seeds, batch_size=16, sampling=sampling) for p in pair())
    assert float((thin.x - dense.x).abs().max()) <= 1e-10 * float(dense.x.abs().max())
    assert float(dense.x.abs().max()) > 0.01


@pytest.mark.parametrize("model", ["linear", "mlp:5", "mlp:6,4"])
@pytest.mark.parametrize("seeds", [(0,), (0, 1, 2)], ids=["one", "stack"])
def test_the_four_verbs_and_the_measured_values_are_those_of_the_dense_table(model, seeds):
    thin, dense = pair(model)
    x = dense.start(seeds) + 0.1
    dx = torch.randn(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(1))
    for kind in ("balanced", "uniform", "full"):
        a, b = (p.sample(seeds, "s", 3, 12, kind) for p in (thin, dense))
        for one, other in (
            (thin.values(x, a), dense.values(x, b)),
            (thin.jvp(x, a, dx), dense.jvp(x, b, dx)),
            (thin.jacobian(x, a), dense.jacobian(x, b)),
            (thin.gradient(x, a, (1.0, None))[1], dense.gradient(x, b, (1.0, None))[1]),
        ):
            torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12)
    for one, other in zip(vars(thin.evaluate(x)).values(), vars(dense.evaluate(x)).values(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-13)
    check_gradient(thin, seeds=seeds)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_classifier_never_fills_a_sparse_table(classes, no_dense_copies, tmp_path):
    X, y, group = table(400)
    y = y if classes == 2 else y + (X @ np.ones(40) > 1) * (y > 0)
    stated = "demographic_parity <= 0.3" if classes == 2 else "recall of class 1 >= 0.2"
    fitted = fb.FairClassifier(stated, budget="300 steps", validation=0.2).fit(X, y, sensitive_features=group)
    scores = fitted.decision_function(X)
    assert fitted.predict(X).shape == y.shape and fitted.predict_proba(X).shape == (400, classes)
    fitted.save(tmp_path / "model")
    assert np.array_equal(fb.FairClassifier.load(tmp_path / "model").decision_function(X), scores)
    assert fitted.fit_report_["validation_rows"] > 0


def test_sparse_and_dense_predictions_agree():
    X, y, _ = table()
    fitted = fb.FairClassifier(budget="300 steps").fit(X, y)
    scores = fitted.decision_function(X)
    np.testing.assert_array_equal(scores, fitted.decision_function(X.toarray()))
    features, _ = fitted.encode(X)
    weight, bias = fitted.x_[:-1].numpy(), float(fitted.x_[-1])
    by_hand = (features.matrices[0].toarray() @ weight + bias).astype(float)
    np.testing.assert_allclose(scores, by_hand, rtol=1e-5, atol=1e-6)  # float32


@pytest.mark.parametrize("n", [1, 7])
def test_rows_are_split_and_taken_as_they_stand(n):
    X = table()[0]
    rows = SparseRows.of(X, torch.float64)
    assert rows.shape == X.shape and len(rows) == 300
    assert rows.width == 1 + 2 * X.nnz // 300
    np.testing.assert_array_equal(np.vstack([p.matrices[0].toarray() for p in rows.split(n)]), X.toarray())
    index = torch.randint(0, 300, (4, 3, n), generator=torch.Generator().manual_seed(0))
    for taken, places in zip(rows.take(index), index, strict=True):
        assert taken.shape == (3, n, 40)
        for matrix, at in zip(taken.matrices, places, strict=True):
            np.testing.assert_array_equal(matrix.toarray(), X.toarray()[at.numpy()])


def test_what_cannot_be_done_with_a_sparse_table_is_said():
    X, y, group = table()
    module = ModuleModel(torch.nn.Linear(40, 1))
    with pytest.raises(DataError, match=r"ModuleModel computes with dense features.*300 x 40.*toarray"):
        FairProblem(module, X, y)
    with pytest.raises(OptionError, match="on the CPU"):
        FairProblem(model_of("linear", 40), X, y, device="meta")
    with pytest.raises(DataError, match="float32 or float64"):
        FairProblem(model_of("linear", 40), X, y, dtype=torch.float16)
    with pytest.raises(DataError, match="differ in length: 300, 299"):
        FairProblem(model_of("linear", 40), X, y[1:])
    row, column = 17, int(X[17].indices[0])
    X[row, column] = np.nan
    with pytest.raises(DataError, match=f"feature {column} is NaN or infinite in row {row} "):
        FairProblem(model_of("linear", 40), X, y, group, "loss_gap <= 0.1")
    with pytest.raises(DataError, match="must be a matrix"):
        SparseRows.of(sparse.coo_array(np.ones(3)), torch.float64)
