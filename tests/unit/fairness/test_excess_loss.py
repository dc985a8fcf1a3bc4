"""`excess_loss`: losses of overlapping subgroups above that of all rows, by direct means; trained, measured and judged alike."""

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.data import load, threshold_groups
from fairbound.data.communities import THRESHOLDS
from fairbound.fairness.evaluation.row_sums import DenseSums, IndexedSums
from fairbound.models.mlp import MLP
from fairbound.rows.groups import Groups


def rows(members=40, n=300, seed=0):
    """Features, labels, memberships (members, n) of overlapping subgroups, and the same as Groups."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, 4)), rng.integers(0, 2, n)
    M = rng.normal(size=(members, 1)) * 0.5 < X[:, rng.integers(0, 4, members)].T
    return X, y, M, groups_of(M)


def groups_of(M):
    labels = tuple(("out", f"in {i}") for i in range(len(M)))
    return Groups(M.T.astype(np.int64), tuple(f"g{i}" for i in range(len(M))), labels)


@pytest.mark.parametrize("members", [3, 40])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_constraints_are_equation_18_group_by_group(members, loss):
    """On all rows and in stacks, for few columns (indexed sums) and many (a matrix); gradients by differences."""
    X, y, M, groups = rows(members)
    stated = "excess_loss[skip=out] <= 0.02"
    problem = fb.FairProblem(MLP(4), X, y, groups, stated, loss=loss, dtype=torch.float64)
    assert problem.m == members and list(problem.names) == [f"excess_loss: in {i} - overall" for i in range(members)]
    batch = problem.sample((0,), "a", 0, 1, "full")
    assert (batch.row_sums.dense is not None) == (members >= 16)
    x = torch.randn(2, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for point in (x[0], x):
        s = point[..., :4] @ torch.tensor(X).T + point[..., 4:]
        margin = (2 * torch.tensor(y) - 1) * s
        each = (1 - margin).clamp_min(0) if loss == "hinge" else torch.nn.functional.softplus(-margin)
        expected = (
            torch.stack([each[..., m].mean(-1) for m in torch.tensor(M)], -1) - each.mean(-1, keepdim=True) - 0.02
        )
        assert torch.allclose(problem.values(point, batch).g, expected, atol=1e-12)
        assert torch.allclose(problem.evaluate(point).g, expected, atol=1e-12)
    w = torch.rand(members, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    _, slope = problem.gradient(x[0], batch, (0.0, w))
    h = 1e-6
    for j in range(5):
        d = torch.zeros(5, dtype=torch.float64)
        d[j] = h
        up, down = ((problem.values(x[0] + s * d, batch).g * w).sum() for s in (1, -1))
        assert float(slope[j]) == pytest.approx(float(up - down) / (2 * h), abs=1e-7)


def test_a_matrix_and_indexed_sums_are_the_same_map():
    X, y, _, groups = rows(30)
    problem = fb.FairProblem(MLP(4), X, y, groups, "excess_loss[skip=out] <= 0.02", dtype=torch.float64)
    batch = problem.sample((0,), "a", 0, 256, "uniform")
    assert isinstance(batch.row_sums, DenseSums)
    whole = problem.full().row_sums
    indexed = IndexedSums(whole.cells, whole.rows, whole.shares, whole.contrasts)
    phi = torch.randn(len(whole.sizes), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert torch.allclose(whole.values(phi)[0], indexed.values(phi)[0], atol=1e-13)
    w = torch.randn(30, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert torch.allclose(whole.vjp(w), indexed.vjp(w), atol=1e-13)


def test_all_groups_without_skip_and_the_exact_measure():
    X, y, M, groups = rows(2)
    scores = X[:, 0]
    loss = np.logaddexp(0, -(2 * y - 1) * scores)
    of = [loss[m == side].mean() - loss.mean() for m in M for side in (0, 1)]
    assert fb.measure("excess_loss", scores, y, groups) == pytest.approx(max(of), abs=1e-12)
    inside = [loss[m].mean() - loss.mean() for m in M]
    assert fb.measure("excess_loss[skip=out]", scores, y, groups) == pytest.approx(max(inside), abs=1e-12)
    problem = fb.FairProblem(MLP(4), X, y, groups, "excess_loss <= 0.1")
    assert (
        problem.m == 4 and fb.constraint("excess_loss[skip=out,y=1] <= 0.1").text == "excess_loss[skip=out,y=1] <= 0.1"
    )


def test_the_verdict_is_on_the_same_value():
    X, y, M, groups = rows(3, n=2000)
    report = fb.audit(X[:, 0], y, groups, "excess_loss[skip=out] <= 0.5")
    found = report["constraints"][0]
    loss = np.logaddexp(0, -(2 * y - 1) * X[:, 0])
    assert found["value"] == pytest.approx(max(loss[m].mean() - loss.mean() for m in M), abs=1e-9)
    assert found["lower"] <= found["value"] <= found["upper"] and found["verdict"] == "met"


def test_nothing_left_to_bound_is_refused():
    X, y, _, _ = rows(1)
    only = Groups(np.zeros((len(y), 1), dtype=np.int64), ("g",), (("out",),))
    with pytest.raises(fb.FairboundError, match="skip"):
        fb.FairProblem(MLP(4), X, y, only, "excess_loss[skip=out] <= 0.1")
    with pytest.raises(fb.FairboundError, match="compares every group with all rows"):
        fb.constraint("excess_loss <= 0.1").__class__(bound=0.1, against="best")


def test_535_groups_of_communities():
    """The thresholds 0.06, 0.105, ..., 0.465 leave PLADA's 535 of 1,000 groups with more than 1 % of the rows."""
    try:
        data = load("communities-crime")
    except fb.FairboundError as error:
        pytest.skip(str(error))
    members, levels = threshold_groups(data, thresholds=THRESHOLDS)
    assert members.shape == (535, 1994) and members.mean(1).min() > 0.01
    assert THRESHOLDS[0] == 0.06 and THRESHOLDS[-1] == 0.465 and set(np.unique(levels)) <= set(THRESHOLDS)
