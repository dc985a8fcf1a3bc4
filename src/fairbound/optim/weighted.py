"""What rows weigh in the loss, and a weighted sum of row functions of the scores as one node of autograd, its slope in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fairbound.fairness.pointwise import LOSSES, Pointwise
from fairbound.optim.batch import Keys

Part = tuple[Pointwise, Tensor]


class WeightedSum(torch.autograd.Function):
    """sum_k sum_i w_k[i] phi_k(s_i). `apply(s, y, parts)`: scores (B,) or (B, c), labels (B,), for each k the function and its
    weights (B,).

    One node costs what the plain loss costs, where one node for each function, product and sum costs several times that. Its
    slope is a function of the scores, so that it can be differentiated again.
    """

    @staticmethod
    def forward(ctx: Any, s: Tensor, y: Tensor, parts: Sequence[Part]) -> Tensor:
        ctx.parts = parts
        ctx.save_for_backward(s, y, _slope(s, y, parts))
        value = torch.dot(parts[0][1], parts[0][0].value(s, y))
        for kind, w in parts[1:]:
            value += torch.dot(w, kind.value(s, y))
        return value

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        s, y, slope = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient itself is differentiated
            slope = _slope(s, y, ctx.parts)
        return outer[0] * slope, None, None


def _slope(s: Tensor, y: Tensor, parts: Sequence[Part]) -> Tensor:
    total: Any = None
    for kind, w in parts:
        one = kind.slope(s, y) * (w if s.dim() == 1 else w.unsqueeze(1))
        total = one if total is None else total + one
    return total


def weighted_loss(loss: Pointwise, s: Tensor, y: Tensor, weight: Tensor | None, rows: int) -> Tensor:
    """() the sum of the rows' losses, each times its weight (B,), over `rows`."""
    if loss is LOSSES["logistic"]:
        mean = functional.binary_cross_entropy_with_logits(s, y, weight)
        return mean if s.shape[0] == rows else mean * (s.shape[0] / rows)
    per_row = loss.value(s, y).to(s.dtype)
    return per_row.mean() if weight is None else torch.dot(weight, per_row) / rows


@dataclass(frozen=True)
class Weights:
    """What rows weigh between two moves of the multipliers, by their places in tables of `Keys.weights`.

    own: (places,) of the loss, None for 1 everywhere. others: of each other row function. constant: () -w . bounds, None for 0.
    """

    own: Tensor | None = None
    others: tuple[Part, ...] = ()
    constant: Tensor | None = None
    _of_rows: dict[int, tuple[Part, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, keys: Keys, kinds: Sequence[Pointwise], loss: Pointwise, by_cell: np.ndarray, constant: float, place: Any
    ) -> Weights:
        """kinds: the plan's row functions. by_cell: (K + 1,) as in `Keys.weights`. place: device and dtype."""
        own: Any = None
        others = []
        for number, kind in enumerate(kinds):
            table = keys.weights(number, by_cell)
            if kind is loss:
                own = table + (1.0 if own is None else own)
            else:
                others.append((kind, torch.from_numpy(table).to(*place)))
        own = None if own is None else torch.from_numpy(own).to(*place)
        return cls(own, tuple(others), torch.from_numpy(np.array(constant)).to(*place))

    def loss(self, loss: Pointwise, s: Tensor, y: Tensor, places: Tensor, weight: Tensor | None, rows: int) -> Tensor:
        """() the loss of B rows, less the constant. places, weight: (B,), the latter None for equal ones. rows: as of a batch."""
        own = weight if self.own is None else _weighed(self.own, places, weight)
        value = weighted_loss(loss, s, y, own, rows)
        if not self.others:
            return value
        others = self._of_rows.get(rows) or self._shared(rows)
        if len(others) > 1:
            return value + WeightedSum.apply(s, y, [(kind, _weighed(w, places, weight)) for kind, w in others])
        for kind, table in others:  # the nodes of one function cost less than one of our own
            value = value + torch.dot(_weighed(table, places, weight), kind.value(s, y))
        return value

    def _shared(self, rows: int) -> tuple[Part, ...]:
        """The other functions with their weights in the mean over so many rows; kept, as batches are mostly of one size."""
        self._of_rows[rows] = tuple((kind, table / rows) for kind, table in self.others)
        return self._of_rows[rows]

    def usual_loss(self, s: Tensor, y: Tensor, codes: Tensor) -> Tensor | None:
        """() the same of the logistic loss for rows whose places are their codes; None where a code has none, or it is not finite."""
        try:
            value = self.loss(LOSSES["logistic"], s, y, codes, None, y.shape[0])
        except IndexError:
            return None
        total = value.item()
        return value if total - total == 0.0 else None

    def whole(self, value: Tensor) -> Tensor:
        """The loss with the constant, which has no slope and so no node of autograd."""
        if self.constant is not None:
            value.detach().add_(self.constant)
        return value


def _weighed(table: Tensor, places: Tensor, weight: Tensor | None) -> Tensor:
    """(B,) the rows' weights times those of their places in the table."""
    found = table.take(places)
    return found if weight is None else found * weight
