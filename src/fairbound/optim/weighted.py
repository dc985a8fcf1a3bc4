"""A weighted sum of row functions of the scores as one node of autograd, its slope in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from fairbound.fairness.pointwise import LOSSES, Pointwise

Part = tuple[Pointwise, Tensor]


class WeightedSum(torch.autograd.Function):
    """1 / rows sum_k sum_i w_k[i] phi_k(s_i). `apply(s, y, parts, rows)`: scores (B,) or (B, c), labels (B,), for each k the
    function and its weights (B,).

    One node costs what the plain loss costs, where one node for each function, product and sum costs several times that. Its
    slope is a function of the scores, so that it can be differentiated again.
    """

    @staticmethod
    def forward(ctx: Any, s: Tensor, y: Tensor, parts: Sequence[Part], rows: int) -> Tensor:
        ctx.parts, ctx.rows = parts, rows
        ctx.save_for_backward(s, y, _slope(s, y, parts, rows))
        value = torch.dot(parts[0][1], parts[0][0].value(s, y))
        for kind, w in parts[1:]:
            value += torch.dot(w, kind.value(s, y))
        return value.div_(rows)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        s, y, slope = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient itself is differentiated
            slope = _slope(s, y, ctx.parts, ctx.rows)
        return outer[0] * slope, None, None, None


def _slope(s: Tensor, y: Tensor, parts: Sequence[Part], rows: int) -> Tensor:
    total: Any = None
    for kind, w in parts:
        one = kind.slope(s, y) * (w if s.dim() == 1 else w.unsqueeze(1))
        total = one if total is None else total + one
    return total / rows


def weighted_loss(loss: Pointwise, s: Tensor, y: Tensor, weight: Tensor | None, rows: int) -> Tensor:
    """() the sum of the rows' losses, each times its weight (B,), over `rows`."""
    if loss is LOSSES["logistic"]:
        mean = functional.binary_cross_entropy_with_logits(s, y, weight)
        return mean if s.shape[0] == rows else mean * (s.shape[0] / rows)
    per_row = loss.value(s, y).to(s.dtype)
    return per_row.mean() if weight is None else torch.dot(weight, per_row) / rows
