"""All rows at once, taken a slice at a time: the same numbers as in one piece, and no more than a slice of row values held."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.fairness.evaluation import row_sums
from fairbound.fairness.objectives import Accuracy
from fairbound.models.mlp import MLP

STATED = {
    "differences": ["demographic_parity <= 0.1", "equalized_odds <= 0.2"],
    "loss": ["loss_gap <= 0.1"],
    "ratios": ["predictive_parity <= 0.3", "demographic_parity_ratio >= 0.8"],
}


def problem(stated: list[str], model: MLP, objective: object, weighted: bool) -> fb.FairProblem:
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(203, 3)), rng.choice(["a", "b", "c"], 203, p=[0.6, 0.38, 0.02])
    y = (X[:, 0] + rng.normal(size=203) > 0).astype(int)
    weight = rng.uniform(0.5, 2, 203) if weighted else None
    return fb.FairProblem(model, X, y, group, stated, objective=objective, sample_weight=weight, dtype=torch.float64)


@pytest.mark.parametrize("size", [17, 64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("objective", [None, Accuracy(0.5)], ids=["loss", "accuracy"])
@pytest.mark.parametrize("model", [MLP(3), MLP(3, (4,))], ids=["linear", "network"])
@pytest.mark.parametrize("stated", STATED.values(), ids=list(STATED))
def test_slices_of_any_length_give_the_numbers_of_one_piece(monkeypatch, stated, model, objective, weighted, size):
    def numbers() -> list[torch.Tensor]:
        made = problem(stated, model, objective, weighted)
        x = 0.5 * torch.randn(model.n, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        two = torch.stack([x, -x])
        batch, w = made.full(), torch.linspace(-1, 2, made.m, dtype=torch.float64)
        e, jacobian = made.jacobian(x, batch)
        stack = made.values(two, batch)
        measured = made.evaluate(two)
        return [
            *(e.f, e.g, jacobian, stack.f, stack.g, made.values(x, batch, true=True).g, measured.f, measured.g),
            made.gradient(x, batch, (0.7, w))[1],
            made.gradient(two, batch, lambda e: (torch.ones(2, 1, dtype=torch.float64), e.g))[1],
            made.jvp(x, batch, torch.ones_like(x)),
        ]

    whole = numbers()
    monkeypatch.setattr(row_sums, "SLICE", size)
    for one, other in zip(whole, numbers(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12)


def test_no_more_than_a_slice_of_row_values_is_asked_for(monkeypatch):
    monkeypatch.setattr(row_sums, "SLICE", 16)
    made = problem(STATED["differences"], MLP(3), Accuracy(0.5), False)
    lengths: list[int] = []

    def watched(function):
        def slope(scores, targets):
            lengths.append(len(scores))
            return function.slope(scores, targets)

        return replace(function, slope=slope)

    made._functions = [watched(f) for f in made._functions]
    made.gradient(torch.ones(made.n, dtype=torch.float64), made.full(), lambda e: (1.0, e.g))
    assert lengths and max(lengths) <= 16


@pytest.mark.parametrize("stated", STATED.values(), ids=list(STATED))
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_slopes_of_an_objective_made_of_parts_are_those_of_differences(stated, share):
    made = problem(stated, MLP(3), Accuracy(share), True)
    x = 0.5 * torch.randn(made.n, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    jacobian = made.jacobian(x, made.full())[1]
    for i, h in enumerate(1e-5 * torch.eye(made.n, dtype=torch.float64)):
        ends = [made.values(x + sign * h, made.full()) for sign in (1, -1)]
        moved = [torch.cat([e.f.view(1), e.g]) for e in ends]
        torch.testing.assert_close(jacobian[:, i], (moved[0] - moved[1]) / 2e-5, rtol=1e-6, atol=1e-7)
        assert torch.allclose(made.gradient(x, made.full(), (1.0, None))[1], jacobian[0], atol=1e-12)


def test_rows_of_a_batch_count_in_their_cells_by_weight():
    cells = torch.tensor([[0, 2], [1, 2], [0, 3], [3, 2]])  # 3: in no cell
    w = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    shares, present = row_sums.batch_shares(cells, w, 3, torch.float64)
    expected = [[1 / 4, 1 / 7], [1, 2 / 7], [3 / 4, 0], [0, 4 / 7]]
    assert torch.allclose(shares, torch.tensor(expected, dtype=torch.float64)) and present.tolist() == [True] * 3
