"""Functions of one row's score and label, with their slope in the score: losses, and surrogates of `score > 0`.

A function here is `value(scores, targets)` and `slope(scores, targets)`, both row by row, so the gradient of any
weighted sum of group means is one weighted backward pass through the model. A row has one score, or one per class.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.weak import WeakTensorKeyDictionary

from fairbound.base.errors import OptionError


@dataclass(frozen=True)
class Pointwise:
    """name; value: (scores, targets (..., B)) -> (..., B); slope: the same arguments -> a tensor shaped like scores.

    lipschitz: the largest |slope|. per_class: scores are (..., B, c), one for each of c classes; else (..., B).
    odd: whether value(-s) = 1 - value(s), as of a share of decisions.
    softmax: (class, sharpness) where the value is the probability of a class by the softmax of the scores times the
        sharpness, so that several such functions share one softmax; else None.
    A plan's column may average one directly: it is then both the trained and the exact function.
    """

    name: str
    value: Callable[[Tensor, Tensor], Tensor]
    slope: Callable[[Tensor, Tensor], Tensor]
    lipschitz: float = 1.0
    per_class: bool = False
    odd: bool = False
    softmax: tuple[int, float] | None = None

    def sharpened(self, factor: float) -> Pointwise:
        return self

    def trained(self, loss: Pointwise) -> Pointwise:
        return self

    def exact(self, loss: Pointwise) -> Pointwise:
        return self


def _signs(targets: Tensor) -> Tensor:
    return 2 * targets - 1


LOGISTIC = Pointwise("logistic", lambda s, y: functional.softplus(s) - y * s, lambda s, y: torch.sigmoid(s) - y)
HINGE = Pointwise(
    "hinge",
    lambda s, y: (1 - _signs(y) * s).clamp_min(0),
    lambda s, y: torch.where(_signs(y) * s < 1, -_signs(y), torch.zeros_like(s)),
)
SQUARED = Pointwise("squared", lambda s, y: (s - y).square(), lambda s, y: 2 * (s - y))
SQUARED_MARGIN = Pointwise("squared_margin", lambda s, y: (s - _signs(y)).square(), lambda s, y: 2 * (s - _signs(y)))
"""Of labels 0 and 1, as -1 and 1: scores are decided at 0, and `SQUARED` draws them to 0 and 1."""

TWO_CLASSES = (LOGISTIC, HINGE, SQUARED_MARGIN)
"""Losses of labels 0 and 1."""


def _cross_entropy(s: Tensor, y: Tensor) -> Tensor:
    own = s.gather(-1, y.long().expand(s.shape[:-1]).unsqueeze(-1)).squeeze(-1)
    return torch.logsumexp(s, -1) - own


def _cross_entropy_slope(s: Tensor, y: Tensor) -> Tensor:
    own = y.long().expand(s.shape[:-1]).unsqueeze(-1)
    return torch.softmax(s, -1).scatter_add(-1, own, torch.full_like(own, -1, dtype=s.dtype))


CROSS_ENTROPY = Pointwise("cross_entropy", _cross_entropy, _cross_entropy_slope, per_class=True)

LOSSES = {
    "logistic": LOGISTIC, "bce": LOGISTIC, "hinge": HINGE, "squared": SQUARED, "squared_margin": SQUARED_MARGIN,
    "cross_entropy": CROSS_ENTROPY,
}  # fmt: skip


def of_decisions(loss: Any) -> Any:
    """The loss that an option named, where scores above 0 are decided positive: of "squared" its form for that."""
    return SQUARED_MARGIN.name if isinstance(loss, str) and loss == SQUARED.name else loss


def _sigmoid(sharpness: float) -> Pointwise:
    def value(s: Tensor, y: Tensor) -> Tensor:
        return torch.sigmoid(s if sharpness == 1 else sharpness * s)  # a product is a node of autograd more

    def slope(s: Tensor, y: Tensor) -> Tensor:
        p = value(s, y)
        return (p - p * p) * sharpness

    return Pointwise("sigmoid", value, slope, sharpness / 4, odd=True)


def _hinge_rate(sharpness: float) -> Pointwise:
    return Pointwise(
        "hinge",
        lambda s, y: (1 + sharpness * s).clamp_min(0),
        lambda s, y: torch.where(sharpness * s > -1, torch.full_like(s, sharpness), torch.zeros_like(s)),
        sharpness,
    )


def _clipped(sharpness: float) -> Pointwise:
    return Pointwise(
        "clipped",
        lambda s, y: (sharpness * s + 0.5).clamp(0, 1),
        lambda s, y: torch.where((sharpness * s).abs() < 0.5, torch.full_like(s, sharpness), torch.zeros_like(s)),
        sharpness,
    )


SURROGATES = {"sigmoid": _sigmoid, "hinge": _hinge_rate, "clipped": _clipped}


WRONG_CLASS = Pointwise(
    "wrong", lambda s, y: (s.argmax(-1) != y.long()).to(s.dtype), lambda s, y: torch.zeros_like(s), per_class=True
)


def _others(s: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """(..., B, 1) the row's own class, and (..., B, c) the scores with -inf in its place."""
    own = y.long().expand(s.shape[:-1]).unsqueeze(-1)
    return own, s.scatter(-1, own, -torch.inf)


def _deficit(s: Tensor, y: Tensor, smooth: float | None) -> Tensor:
    """By how much the best other class is ahead of the row's own (..., B): 1/t log sum exp(t s) of the other classes with
    t = smooth, their largest score with None."""
    own, others = _others(s, y)
    best = others.max(-1)[0] if smooth is None else torch.logsumexp(smooth * others, -1) / smooth
    return best - s.gather(-1, own).squeeze(-1)


def _deficit_slope(s: Tensor, y: Tensor, smooth: float | None) -> Tensor:
    """(..., B, c) the slope of `_deficit` in s."""
    own, others = _others(s, y)
    if smooth is None:
        slope = torch.zeros_like(s).scatter_(-1, others.max(-1, keepdim=True)[1], 1.0)
    else:
        slope = torch.softmax(smooth * others, -1)
    return slope.scatter(-1, own, -1.0)


def class_error(surrogate: str, sharpness: float, loss: Pointwise) -> Pointwise:
    """The differentiable surrogate of "predicted as another class than its own", for models of one score (which says
    class 1 where it is above 0) or of a score per class, as `loss` takes them.

    With "sigmoid" it is one minus the probability of the own class, by the logistic function or softmax of the scores
    times sharpness; "hinge" and "clipped" are of the margin to the best other class.
    """
    rate = SURROGATES[surrogate](sharpness)
    if not loss.per_class:
        return Pointwise(
            surrogate,
            lambda s, y: rate.value(-_signs(y) * s, y),
            lambda s, y: -_signs(y) * rate.slope(-_signs(y) * s, y),
            rate.lipschitz,
        )
    smooth = sharpness if surrogate == "sigmoid" else None

    def slope(s: Tensor, y: Tensor) -> Tensor:
        return rate.slope(_deficit(s, y, smooth), y).unsqueeze(-1) * _deficit_slope(s, y, smooth)

    return Pointwise(
        surrogate, lambda s, y: rate.value(_deficit(s, y, smooth), y), slope, rate.lipschitz, per_class=True
    )


def class_share(code: int, surrogate: str, sharpness: float, loss: Pointwise) -> Pointwise:
    """The differentiable surrogate of "predicted as class `code`", for models as in `class_error`.

    With "sigmoid" it is the probability of the class, by the logistic function or softmax of the scores times
    sharpness.
    """
    rate = SURROGATES[surrogate](sharpness)
    name = f"{surrogate}, class {code}"
    if not loss.per_class:
        sign = 1.0 if code == 1 else -1.0
        return Pointwise(
            name, lambda s, y: rate.value(sign * s, y), lambda s, y: sign * rate.slope(sign * s, y), rate.lipschitz
        )
    if surrogate == "sigmoid":
        return Pointwise(
            name,
            lambda s, y: _probabilities(s, sharpness)[..., code],
            lambda s, y: softmax_slopes([code], sharpness, s, torch.ones_like(s[..., :1])),
            rate.lipschitz,
            per_class=True,
            softmax=(code, sharpness),
        )

    def own(s: Tensor) -> Tensor:
        return s.new_full(s.shape[:-1], code)

    def value(s: Tensor, y: Tensor) -> Tensor:
        return rate.value(-_deficit(s, own(s), None), y)

    def slope(s: Tensor, y: Tensor) -> Tensor:
        return -rate.slope(-_deficit(s, own(s), None), y).unsqueeze(-1) * _deficit_slope(s, own(s), None)

    return Pointwise(name, value, slope, rate.lipschitz, per_class=True)


_KEPT: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
"""Of scores: their version, a sharpness, and the softmax that was taken last, with that sharpness."""


def _probabilities(s: Tensor, sharpness: float) -> Tensor:
    """(..., B, c) the softmax of the scores times the sharpness, not to be written to. It is kept as long as the scores
    are there and unchanged, as the function of every class asks for it; not in a graph of autograd."""
    alone = torch.is_inference_mode_enabled() or s.is_inference() or (s.requires_grad and torch.is_grad_enabled())
    kept = None if alone else _KEPT.get(s)
    if kept is not None and kept[:2] == (s._version, sharpness) and kept[2]._version == 0:
        return kept[2]
    p = torch.softmax(s if sharpness == 1 else sharpness * s, -1)
    if not alone:
        _KEPT[s] = (s._version, sharpness, p)
    return p


def softmax_slopes(codes: Sequence[int], sharpness: float, s: Tensor, weights: Tensor) -> Tensor:
    """The gradient in s (..., B, c) of the sum of the probabilities p_k of the classes `codes` weighted by `weights`
    (..., B, k): with W_j the weight of class j, t p_j (W_j - sum_i W_i p_i) for the sharpness t."""
    p = _probabilities(s, sharpness)
    if list(codes) != list(range(s.shape[-1])):
        at = torch.tensor(codes, device=s.device)
        weights = torch.zeros_like(p).index_add(-1, at, weights.expand(*p.shape[:-1], -1))
    weighted = weights * p
    return sharpness * torch.addcmul(weighted, p, weighted.sum(-1, keepdim=True), value=-1)


def summed_slopes(functions: Sequence[Pointwise], s: Tensor, y: Tensor, weights: Tensor, per_class: bool) -> Tensor:
    """The sum over the P functions of their slopes at s, each weighted row by row: weights (..., P*B) -> like s.
    Probabilities of classes by one softmax take it once. per_class: whether a row has a score for each class."""
    shares = [f.softmax for f in functions if f.softmax is not None]
    if len(shares) == len(functions) and len({sharpness for _, sharpness in shares}) == 1:
        each = weights.unflatten(-1, (len(functions), -1)).transpose(-1, -2)
        return softmax_slopes([code for code, _ in shares], shares[0][1], s, each)
    pieces = weights.split(y.shape[-1], dim=-1) if len(functions) > 1 else (weights,)
    total: Any = None
    for function, piece in zip(functions, pieces, strict=True):
        part = (piece.unsqueeze(-1) if per_class else piece) * function.slope(s, y)
        total = part if total is None else total + part
    return total


def custom_loss(loss: Callable[[Tensor, Tensor], Tensor], outputs: int) -> Pointwise:
    """A user's per-row loss `loss(scores (B,), targets (B,)) -> (B,)`; its slope comes from autograd. Of a loss module of
    torch a copy with reduction "none" is taken.

    With outputs > 1 scores are (B, outputs) and targets integers. Stacked runs are given as one long batch.
    """
    per_class = outputs > 1
    if isinstance(loss, nn.Module) and getattr(loss, "reduction", "none") != "none":
        copied: Any = copy.copy(loss)
        copied.reduction = "none"
        loss = copied

    hint = "use reduction='none'"
    if isinstance(loss, nn.Module) and not per_class:
        hint += ", and where it takes a score for each class, classes= of Dual"

    def value(s: Tensor, y: Tensor) -> Tensor:
        shape = s.shape[:-1] if per_class else s.shape
        labels = y.expand(shape).reshape(-1)
        result = loss(s.reshape(-1, outputs), labels.long()) if per_class else loss(s.reshape(-1), labels)
        if result.shape != labels.shape:
            raise OptionError(
                f"the loss must return one value per row, shape {tuple(labels.shape)}, got {tuple(result.shape)}; {hint}."
            )
        return result.view(shape)

    def slope(s: Tensor, y: Tensor) -> Tensor:
        with torch.enable_grad():
            leaf = s.detach().requires_grad_()
            return torch.autograd.grad(value(leaf, y).sum(), leaf)[0]

    return Pointwise(getattr(loss, "__name__", type(loss).__name__), value, slope, per_class=per_class)


def loss_named(loss: str | Pointwise | Callable[[Tensor, Tensor], Tensor], outputs: int = 1) -> Pointwise:
    """The loss called `loss`; a Pointwise as it is; a callable as the loss of a model with `outputs` scores per row."""
    if isinstance(loss, Pointwise):
        return loss
    if callable(loss):
        return custom_loss(loss, outputs)
    if loss not in LOSSES:
        raise OptionError(
            f"unknown loss {loss!r}; known: {', '.join(LOSSES)}, or pass a function of (scores, targets)."
        )
    return LOSSES[loss]
