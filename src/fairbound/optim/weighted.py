"""What rows weigh in the loss, and a weighted sum of row functions of the scores as one node of autograd,
its slope in closed form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor
from torch.nn import functional

from fairbound.fairness.pointwise import LOSSES, Pointwise
from fairbound.optim.batch import Keys
from fairbound.optim.fast_queue import Rows

Part = tuple[Pointwise, Tensor]


class WeightedSum(torch.autograd.Function):
    """sum_k sum_i w_k[i] phi_k(s_i). `apply(s, y, parts)`: scores (B,) or (B, c), labels (B,), for each k the function
    and its weights (B,).

    One node costs what the plain loss costs, where one node for each function, product and sum costs several times
    that. Its slope is a function of the scores, so that it can be differentiated again.
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

    own: (places,) of the loss, None for 1 everywhere. others: of each other row function. constant: -w . bounds. place:
    device and dtype of scores.
    """

    own: np.ndarray | None = None
    others: tuple[tuple[Pointwise, np.ndarray], ...] = ()
    constant: float = 0.0
    place: tuple[torch.device, torch.dtype] = (torch.device("cpu"), torch.float32)
    _of_rows: dict[int, tuple[np.ndarray, list[tuple[Pointwise, np.ndarray]]]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        keys: Keys,
        kinds: Sequence[Pointwise],
        loss: Pointwise,
        by_cell: np.ndarray,
        constant: float,
        place: Any,
        factor: float = 1.0,
    ) -> Weights:
        """kinds: the plan's row functions. by_cell: (K + 1,) as in `Keys.weights`. factor: of the whole loss."""
        own: Any = None
        others = []
        for number, kind in enumerate(kinds):
            table = keys.weights(number, by_cell)
            if kind is loss:
                own = table + (1.0 if own is None else own)
            else:
                others.append((kind, factor * table))
        return cls(own if own is None else factor * own, tuple(others), factor * constant, place)

    @cached_property
    def _tables(self) -> tuple[Tensor | None, list[Part], Tensor]:
        """own, others and the constant where the scores are."""
        own = None if self.own is None else torch.from_numpy(self.own).to(*self.place)
        others = [(kind, torch.from_numpy(table).to(*self.place)) for kind, table in self.others]
        return own, others, torch.tensor(self.constant).to(*self.place)

    def loss(self, loss: Pointwise, s: Tensor, y: Tensor, places: Tensor, weight: Tensor | None, rows: int) -> Tensor:
        """() the loss of B rows, without the constant. places, weight: (B,), the latter None for equal ones.
        rows: as of a batch."""
        own, others, _ = self._tables
        own = weight if own is None else _weighed(own, places, weight)
        value = weighted_loss(loss, s, y, own, rows)
        parts = [(kind, _weighed(table, places, weight) / rows) for kind, table in others]
        if len(parts) > 1:
            return value + WeightedSum.apply(s, y, parts)
        for kind, w in parts:  # the nodes of one function cost less than one of our own
            value = value + torch.dot(w, kind.value(s, y))
        return value

    def usual_loss(self, s: Tensor, rows: Rows) -> Tensor | None:
        """() the logistic loss of rows whose places are their codes, with the constant; None where a code has no place,
        or the loss is not finite. rows: the scores s without their graph, labels, codes."""
        _, y, codes = rows
        try:
            if self.others:
                return self._beside_rates(s, rows)
            own = self._tables[0]
            value = functional.binary_cross_entropy_with_logits(s, y, None if own is None else own.take(codes))
        except IndexError:
            return None
        total = value.item()
        return self.whole(value) if total - total == 0.0 else None

    def _beside_rates(self, s: Tensor, rows: Rows) -> Tensor | None:
        """The loss and its slope, worked out here, as the product s . slope, which shows the loss: one node of autograd
        costs less than one for each function, product and sum. Where the slope is to be differentiated again, torch
        works it out anew."""
        d, y, codes = [t.numpy() for t in rows]
        if not math.isfinite(d.dot(d)):  # a NaN, or a score so large that it is looked at row by row
            return None
        w, others = self._of_rows.get(len(d)) or self._shared(len(d))
        if self.own is not None:
            w = w.take(codes)
        wy, p = w * y, expit(d)
        slope = w * p
        slope -= wy
        total = self.constant + float(w.dot(np.logaddexp(0, d)) - wy.dot(d))
        parts = [(LOSSES["logistic"], w)]
        for kind, table in others:
            r, sharpness = table.take(codes), 4 * kind.lipschitz
            q = p if sharpness == 1 else expit(sharpness * d)
            total += float(r.dot(q))
            q = q - q * q
            q *= r
            slope += q if sharpness == 1 else sharpness * q
            parts.append((kind, r))
        if total - total != 0.0:
            return None
        value = torch.dot(s, torch.from_numpy(slope))
        value.detach().fill_(total)
        if value.grad_fn is not None:

            def again(inside: tuple[Tensor, ...], outside: tuple[Tensor, ...]) -> tuple[Any, ...] | None:
                if not torch.is_grad_enabled():
                    return None
                return outside[0] * _slope(s, rows[1], [(k, torch.from_numpy(v)) for k, v in parts]), *inside[1:]

            value.grad_fn.register_hook(again)
        return value

    def _shared(self, rows: int) -> tuple[np.ndarray, list[tuple[Pointwise, np.ndarray]]]:
        """own, or a row of ones, and others, in the mean over so many rows; kept, as batches are mostly of one size."""
        dtype, own = np.dtype(str(self.place[1]).removeprefix("torch.")), self.own
        own = (np.ones(rows) if own is None else own) / rows
        self._of_rows[rows] = own.astype(dtype), [(kind, (table / rows).astype(dtype)) for kind, table in self.others]
        return self._of_rows[rows]

    def whole(self, value: Tensor) -> Tensor:
        """The loss with the constant, which has no slope and so no node of autograd."""
        if self.constant:
            value.detach().add_(self._tables[2])
        return value


def _weighed(table: Tensor, places: Tensor, weight: Tensor | None) -> Tensor:
    """(B,) the rows' weights times those of their places in the table."""
    found = table.take(places)
    return found if weight is None else found * weight
