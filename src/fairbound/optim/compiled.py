"""The options of a `Dual`, and what is compiled of them once: its plan, functions and keys. Nothing here changes while
rows come, but the device of the keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from torch import Tensor

from fairbound.base.checks import check_kinds
from fairbound.fairness.compiled.builder import compile_plan
from fairbound.fairness.compiled.contrasts import PlanContrasts, dual_scale
from fairbound.fairness.compiled.plan import Plan
from fairbound.fairness.module_trial import refuse_loss_of_probabilities, takes_logits
from fairbound.fairness.notions import Bound
from fairbound.fairness.pointwise import LOSSES, Pointwise, of_decisions
from fairbound.methods.alm import ALM
from fairbound.optim.batch import Keys, class_names, loss_of_rows
from fairbound.optim.means import averages, of_rates
from fairbound.optim.numbers import Units, keys_of, units_of
from fairbound.optim.rows import MEMORY, check_means, remembered, stated_bounds, training_rows, warn_of_few_rows
from fairbound.optim.state import check_options
from fairbound.rows.groups import Groups

PerRowLoss = str | Pointwise | Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class DualOptions:
    """The options of `Dual`, which describes them. config: those of the multipliers, as of the method. Raises:
    OptionError for what cannot be meant."""

    stated: str | Bound | Sequence[str | Bound]
    groups: Any
    targets: Any
    group_names: Mapping[str, Sequence[str]] | Sequence[str] | None
    classes: int | Sequence[Any] | None
    loss: PerRowLoss
    soft_targets: bool
    dual_step_size: float
    penalty: float
    dual_every: int | None
    memory: float | None
    dual_values: Literal["true", "surrogate"]
    multiplier_bound: float
    decay: float
    decay_steps: float
    nonfinite: Literal["raise", "skip"]
    distributed: bool
    config: ALM = field(init=False)

    def __post_init__(self) -> None:
        check_kinds(self)
        config = ALM(
            dual_step_size=self.dual_step_size,
            penalty=self.penalty,
            dual_every=ALM.dual_every if self.dual_every is None else self.dual_every,
            dual_values=self.dual_values,
            multiplier_bound=self.multiplier_bound,
            decay=self.decay,
            decay_steps=self.decay_steps,
        )
        object.__setattr__(self, "config", config)
        check_options(self.nonfinite, self.distributed, self.memory)


@dataclass(frozen=True)
class Compiled:
    """What the options of a `Dual` come to.

    options: with bounds as objects, the rows and units found, and the memory, so that the same `Dual` can be built of
        them without the training rows.
    bounds: the stated ones. classes: their labels. groups: names and labels, without rows. units: of predicted numbers,
        else None. per_bound: one unit of each bound in its own units.
    loss: of a row. kinds: the function that is trained for each row function of the plan; statistics: lists of such
        functions whose means are kept. of_logits: whether scores must be logits. keys: read the rows of a batch.
    contrasts, scale: of the plan, and what their dual steps are multiplied by. of_losses, rates: whether each cell
        averages losses, and whether it averages decisions.
    enough: rows that an update waits for. quick: whether batches may be read in the way of `FastQueue`.
    """

    options: DualOptions
    bounds: tuple[Any, ...]
    classes: tuple[Any, ...]
    groups: Groups
    plan: Plan
    units: Units | None
    per_bound: Any
    loss: Pointwise
    kinds: list[Pointwise]
    statistics: list[list[Pointwise]]
    of_logits: bool
    keys: Keys
    contrasts: PlanContrasts
    scale: np.ndarray
    of_losses: np.ndarray
    rates: np.ndarray
    memory: float
    enough: float
    quick: bool


def compiled(options: DualOptions) -> Compiled:
    """Raises: OptionError, DataError, EmptyGroupError where the options do not fit together, or the rows cannot be used.
    Warns: DataWarning of groups of few rows."""
    o, targets, loss = options, options.targets, options.loss
    bounds: tuple[Any, ...] = stated_bounds(
        o.stated, streaming=o.groups is None and o.group_names is None, counted=o.groups is not None
    )
    units = units_of(bounds, targets, loss, classes=o.classes, soft_targets=o.soft_targets)
    if units is None:
        classes, loss = class_names(o.classes), of_decisions(loss)
    else:
        bounds, targets, loss, classes = *units.settled(bounds, targets), "squared", (0,)
    rows = training_rows(o.groups, targets, o.group_names, classes, o.soft_targets)
    named = None if o.classes is None else classes
    plan = compile_plan(bounds, rows, classes=named) if units is None else units.plan(bounds, rows)
    check_means(plan)
    if targets is not None and rows is not o.groups:
        warn_of_few_rows(plan, bounds, rows)
    memory = remembered(plan, None if o.groups is None else rows) if o.memory is None else o.memory
    outputs = 1 if o.classes is None else len(classes)
    of_row = loss_of_rows(loss, outputs, o.soft_targets)
    for bound in bounds:
        bound.check_model(outputs, rows.targets)
    kinds, true = [f.trained(of_row) for f in plan.functions], [f.exact(of_row) for f in plan.functions]
    of_logits = takes_logits(of_row, plan)
    if of_logits:
        refuse_loss_of_probabilities(loss)
    groups = Groups(rows.codes[:0], rows.attributes, rows.labels)
    keys = keys_of(plan, groups, len(classes), outputs, units)
    rates = all(kind is of_row or (kind.name == "sigmoid" and kind.odd) for kind in kinds)
    waits = rates and of_row not in kinds and o.dual_every is None and not o.distributed
    return Compiled(
        options=replace(o, stated=bounds, groups=rows, targets=units, memory=memory),
        bounds=bounds,
        classes=classes,
        groups=groups,
        plan=plan,
        units=units,
        per_bound=1.0 if units is None else units.per_bound(bounds),
        loss=of_row,
        kinds=kinds,
        statistics=[true, kinds] if o.dual_values == "surrogate" and kinds != true else [true],
        of_logits=of_logits,
        keys=keys,
        contrasts=PlanContrasts(plan),
        scale=dual_scale(plan, kinds),
        of_losses=averages(plan, [kind is of_row for kind in kinds]),
        rates=of_rates(plan),
        memory=memory,
        enough=min(memory, MEMORY) if waits else 0,
        quick=rates and keys.by_code and of_row is LOSSES["logistic"] and not o.soft_targets,
    )
