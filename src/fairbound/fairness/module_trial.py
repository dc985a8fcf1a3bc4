"""Runs a module on a few rows before training, so that wrong shapes, or scores that are no logits, fail early."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from fairbound.base.errors import OptionError
from fairbound.fairness.compiled.plan import Plan
from fairbound.fairness.compiled.statistics import ClassShare, RowFunction
from fairbound.fairness.pointwise import CROSS_ENTROPY, LOGISTIC, Pointwise

TRIAL_ROWS = 2


def trial(module: nn.Module, rows: Tensor) -> Tensor:
    """The module's scores of the first rows, in evaluation mode, with its own parameters, and the graph that made them.

    Raises: OptionError where it cannot run on them, or returns no scores.
    """
    rows = rows[:TRIAL_ROWS]
    first = next((p for p in module.parameters() if p.is_floating_point()), None)
    given = rows if first is None else rows.to(first.device, first.dtype if rows.is_floating_point() else rows.dtype)
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.enable_grad():
            scores = module(given)
    except (RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError) as error:
        kind = "Integer features stay integers, for embeddings; give floats where the module computes with them. "
        tokens = "An embedding takes integers: give an array of integers, with no other column. "
        raise OptionError(
            f"the module cannot run on features of shape {tuple(given.shape)}, {given.dtype}: {error}. "
            + (kind if not given.is_floating_point() else tokens if has_embedding(module) else "")
            + "Give features in the shape and type of the module's input."
        ) from error
    finally:
        for part, training in modes:
            part.training = training
    if not isinstance(scores, Tensor) or scores.shape[:1] != (len(given),) or scores.dim() > 2:
        shape = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        raise OptionError(
            f"the module must return scores (rows,), (rows, 1) or (rows, classes); {len(given)} rows gave {shape}."
        )
    return scores


def runs_on(module: nn.Module, rows: Tensor) -> bool:
    """Whether the module gives scores of the first rows."""
    try:
        trial(module, rows)
    except OptionError:
        return False
    return True


def has_embedding(module: nn.Module) -> bool:
    """Whether a part of the module looks integers up."""
    return any(isinstance(part, nn.Embedding | nn.EmbeddingBag) for part in module.modules())


def takes_logits(loss: Pointwise, plan: Plan) -> bool:
    """Whether scores must be logits: by the loss, or because decisions are counted, which are positive above 0."""
    decisions = (
        isinstance(f, ClassShare) or (isinstance(f, RowFunction) and (f.table is not None or f.per_class))
        for f in plan.functions
    )
    return loss in (LOGISTIC, CROSS_ENTROPY) or any(decisions)


def refuse_probabilities(scores: Tensor) -> None:
    """Raises: OptionError where the scores were made by a sigmoid or a softmax, and so are no logits."""
    node = scores.grad_fn
    while node is not None and node.name().rstrip("0123456789") in _VIEWS:
        node = node.next_functions[0][0] if node.next_functions else None
    if node is not None and node.name().rstrip("0123456789") in ("SigmoidBackward", "SoftmaxBackward"):
        several = scores.dim() == 2 and scores.shape[1] > 1
        why = "The loss takes the softmax itself." if several else "A rate counts scores above 0 as positive."
        raise OptionError(
            f"the scores are probabilities, made by a sigmoid or a softmax; pass the logits that go into it. {why}"
        )


def refuse_loss_of_probabilities(loss: Any) -> None:
    """Raises: OptionError where a loss of torch takes probabilities."""
    if isinstance(loss, nn.BCELoss) or loss is nn.functional.binary_cross_entropy:
        raise OptionError(
            "BCELoss takes probabilities, and a rate counts scores above 0 as positive. Leave loss= out and pass logits: "
            "the default is BCEWithLogitsLoss."
        )


_VIEWS = (
    "SqueezeBackward",
    "ViewBackward",
    "SelectBackward",
    "UnsqueezeBackward",
    "ReshapeAliasBackward",
    "ToCopyBackward",
)
