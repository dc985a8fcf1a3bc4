"""Bounds on predicted numbers in a `Dual`: numbers in standard units, in which multipliers have their usual size.

s' = (s - mean) / sd, y' = (y - mean) / sd, of the training targets; the loss in the loop is sd^2 times that of s' and
y'.

A bound that is missed by more than 1 in these units moves its multiplier as one missed by 1: a model that has learnt
nothing yet may be far off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbound.base.errors import DataError, OptionError
from fairbound.fairness.compiled.builder import compile_plan
from fairbound.fairness.compiled.plan import Plan
from fairbound.optim.batch import Batch, Keys, on_device, without_padding
from fairbound.rows.occurring import Occurring


@dataclass(frozen=True)
class Units:
    """The units of predicted numbers: mean and standard deviation of training targets."""

    mean: float = 0.0
    sd: float = 1.0

    @classmethod
    def of(cls, targets: Any) -> Units:
        """The units of targets (n,); None leaves numbers as they are, Units are taken as they are. Raises: DataError
        for targets that are not finite."""
        if targets is None or isinstance(targets, Units):
            return targets or cls()
        try:
            y = np.asarray(targets.detach().cpu() if isinstance(targets, Tensor) else targets, dtype=np.float64)
        except (TypeError, ValueError):
            y = np.array([np.nan])
        if not y.size or not np.isfinite(y).all():
            raise DataError("targets must be finite numbers, as the bounds are on predicted numbers.")
        return cls(float(y.mean()), float(y.std()) or 1.0)

    def settled(self, notions: Sequence[Any], targets: Any) -> tuple[tuple[Any, ...], np.ndarray | None]:
        """The bounds, with what they take from the targets (n,) filled in, and one class for each target."""
        if targets is None or isinstance(targets, Units):
            return tuple(notions), None
        y = np.asarray(targets, dtype=np.float64).reshape(-1)
        return tuple(b.settled(y) for b in notions), np.zeros(len(y), dtype=np.int64)

    def plan(self, notions: Sequence[Any], rows: Occurring) -> Plan:
        """The plan of the bounds on standard units, whose names say the units of the label."""
        made = compile_plan([b.rescaled(self.mean, self.sd) for b in notions], rows)
        return replace(made, names=compile_plan(notions, rows).names)

    def per_bound(self, notions: Sequence[Any]) -> np.ndarray:
        """(bounds,) what 1 of each bound's value in standard units is in those it is stated in."""
        return np.array([1 / b.at(1.0).rescaled(0.0, self.sd).bound for b in notions])


def units_of(notions: Sequence[Any], targets: Any, loss: Any, **others: Any) -> Units | None:
    """The units of predicted numbers, None where the bounds are on classes. others: options of `Dual` for classes, and
    their values.

    Raises: OptionError where some bounds are on numbers and some on classes, or an option does not fit; DataError as
    `Units.of`.
    """
    texts = {"predictions" in b.needs: b.text for b in notions}
    if True not in texts:
        return None
    if len(texts) == 2:
        raise OptionError(
            f"{texts[True]!r} is on predicted numbers, {texts[False]!r} on classes; a model predicts one of them."
        )
    others["loss"] = loss not in ("logistic", "squared")  # the first is the default of classes
    if odd := [name for name, given in others.items() if given]:
        own = " For a loss of your own take fb.formulate(module, loss, ...)." if odd == ["loss"] else ""
        raise OptionError(
            f"{texts[True]!r} is on predicted numbers, which are trained to the least squared error; leave {odd[0]}= out.{own}"
        )
    return Units.of(targets)


class NumberKeys(Keys):
    """As `Keys`, of rows whose label is a number: it stands beside the score where rows are kept,
    and no key tells it."""

    kept_shape = (2,)

    def __init__(self, plan: Plan, groups: Any, units: Units):
        super().__init__(plan, groups, 1, 1)
        self.units = units

    def read(self, scores: Tensor, targets: Any, group: Any, weight: Any, soft: bool, careful: bool) -> Batch:
        """The batch in standard units. Raises: OptionError for shapes, DataError for targets,
        codes and weights that cannot be."""
        s = self._scores(scores)
        y = on_device(s.device, targets, "targets must be numbers, one for each row of scores.").reshape(-1)
        if len(y) != len(s) or y.is_complex():
            raise OptionError(
                f"targets must be ({len(s)},) real numbers, one for each row of scores, got {y.dtype} ({len(y)},)."
            )
        if not bool(torch.isfinite(y).all()):
            raise DataError("targets must be finite numbers.")
        w = None if weight is None else self._weight(weight, s)
        s = s if w is None else without_padding(s, w)
        s, y = ((v.to(s.dtype) - self.units.mean) / self.units.sd for v in (s, y))
        return self._batch(
            s, y, self._codes(group, s), torch.zeros(len(s), dtype=torch.int64, device=s.device), w, len(s)
        )

    def kept(self, batch: Batch) -> Tensor:
        return torch.stack([batch.scores.detach(), batch.y], -1)

    def apart(self, kept: Tensor, keys: np.ndarray) -> tuple[Tensor, Tensor]:
        return kept[:, 0], kept[:, 1]


def keys_of(plan: Plan, groups: Any, classes: int, outputs: int, units: Units | None) -> Keys:
    """The keys of rows: of so many classes and scores each, or of numbers in these units."""
    return Keys(plan, groups, classes, outputs) if units is None else NumberKeys(plan, groups, units)
