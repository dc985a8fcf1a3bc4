"""Convex losses of linear scores: of one score per row, and of the margins of a row's class over all others."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from fairbound.base.errors import OptionError
from fairbound.fairness.pointwise import HINGE, LOGISTIC, Pointwise

RAMP = Pointwise("ramp", lambda s, y: (s + 0.5).clamp_min(0), lambda s, y: (s > -0.5).to(s.dtype))
RAMP_DOWN = Pointwise("ramp_down", lambda s, y: (0.5 - s).clamp_min(0), lambda s, y: -(s < 0.5).to(s.dtype))


def _margin_loss(
    name: str, value: Callable[[Tensor], Tensor], slope: Callable[[Tensor], Tensor], at_zero: float
) -> Pointwise:
    """sum over l != y of value(s_y - s_l); value(0) = at_zero."""

    def margins(s: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        own = y.long().expand(s.shape[:-1]).unsqueeze(-1)
        return s.gather(-1, own) - s, own

    def total(s: Tensor, y: Tensor) -> Tensor:
        return value(margins(s, y)[0]).sum(-1) - at_zero

    def slopes(s: Tensor, y: Tensor) -> Tensor:
        z, own = margins(s, y)
        d = slope(z).scatter_(-1, own, 0.0)
        return (-d).scatter_(-1, own, d.sum(-1, keepdim=True))

    return Pointwise(name, total, slopes, per_class=True)


MARGIN_HINGE = _margin_loss("margin_hinge", lambda z: (1 - z).clamp_min(0), lambda z: -(z < 1).to(z.dtype), 1.0)
MARGIN_LOGISTIC = _margin_loss(
    "margin_logistic", lambda z: functional.softplus(-z), lambda z: torch.sigmoid(-z).neg(), 0.6931471805599453
)

LOSSES = {p.name: p for p in (HINGE, LOGISTIC, RAMP, RAMP_DOWN, MARGIN_HINGE, MARGIN_LOGISTIC)}
"""By name, all convex and monotone in every score. With s a row's score and y its label, 0 or 1:

hinge (1 - (2y - 1) s)_+; logistic log(1 + exp(-(2y - 1) s)); ramp (s + 1/2)_+; ramp_down (1/2 - s)_+. With s a score
for every class and y the row's class: margin_hinge sum_{l != y} (1 - (s_y - s_l))_+, margin_logistic the same of
log(1 + exp(-z)). A slope at a kink is that of the flat side.
"""


def score_loss(name: str, classes: int) -> Pointwise:
    """The loss called `name` for rows with one score (classes = 1) or a score for every class.

    Raises: OptionError if there is none.
    """
    fitting = [loss.name for loss in LOSSES.values() if loss.per_class == (classes > 1)]
    if name not in fitting:
        raise OptionError(f"unknown loss {name!r} for {classes} scores per row; known: {', '.join(fitting)}.")
    return LOSSES[name]
