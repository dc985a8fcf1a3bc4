"""Fairness bounds inside a PyTorch training loop of your own: three changed lines, any torch optimiser.

    dual = Dual("demographic_parity <= 0.02", groups=train_groups, targets=train_targets)
    loss = dual.loss(scores, y, group)      # in place of criterion(scores, y)
    dual.step()                             # after optimizer.step()

Every batch adds to running means q of the cells (a group, or a group's positives) that the bounds compare, and every
`dual_every` steps moves the multipliers: with g = A q - bounds,   y <- [y + eta g]_+,   w = [y + rho g]_+,
both g times `dual_scale` (1 for rates by a sigmoid, 1/4 for the logistic loss).
Between updates w is fixed, so that the gradient of f + w . g is that of a weighted mean over rows,
    1/B sum_i ( l_i + sum_j v[cell_ij] phi_j(s_i) ),    v = A'w / (share of all rows seen so far that lie in the cell),
whose cost does not depend on the number of bounds. It is linear in rows: micro-batches add up to one big batch, and a
batch without a group has no term for it.

Source: Kliachkin et al. (2025), section 3.3 and Algorithm 2 with mu = 0, in the form of `fairbound.methods.alm`.
Departs: from alm, g comes from rows that the loop has seen lately instead of rows drawn for it, and a bound one of
    whose groups had no row since the last update keeps its multiplier.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from fairbound.base.errors import FairboundError, OptionError
from fairbound.fairness.builder import compile_plan
from fairbound.fairness.contrasts import Memo, PlanContrasts, dual_scale, seen_contrasts
from fairbound.fairness.notions import Bound
from fairbound.fairness.plan import Plan
from fairbound.fairness.pointwise import LOSSES, Pointwise
from fairbound.fairness.trial import refuse_probabilities, takes_logits
from fairbound.methods.alm import ALM
from fairbound.optim.batch import Batch, Keys, class_names, device_named, loss_of_rows, no_loss, without_number
from fairbound.optim.means import RunningMeans, best_of, cell_weights, compared, processes, report_of, stated_values
from fairbound.optim.multipliers import moved
from fairbound.optim.numbers import NumberKeys, units_of
from fairbound.optim.queue import Queue
from fairbound.optim.recent import usual
from fairbound.optim.rows import MEMORY, check_means, remembered, stated_bounds, training_rows, warn_of_few_rows
from fairbound.optim.state import DualReport, as_tensors, check_options, checked_state, fresh_state, not_finite
from fairbound.optim.weighted import Watch, Weights, weighted_loss
from fairbound.rows.groups import Groups, label_text

FORMAT = 2
MOST_STEPS = 64  # most steps that an update waits for rows
PASSED = 64  # updates whose estimates are looked at together

PerRowLoss = str | Pointwise | Callable[[Tensor, Tensor], Tensor]


class Dual:
    """Keeps stated bounds in a PyTorch loop of your own: multipliers, and the loss that carries them (docs/pytorch.md).

        dual = Dual("demographic_parity <= 0.05", groups=sex, targets=y)   # 1: before the loop
        loss = dual.loss(model(x), y_batch, sex_batch)                     # 2: in place of criterion(model(x), y_batch)
        dual.step()                                                        # 3: after optimizer.step()

    stated: bounds as text or objects, one or several.
    groups, targets: sensitive attributes (n, A) and labels (n,) of the training rows. They fix which groups exist and
        are not kept. Integers are group codes as they are, -1 missing; of anything else `encode` gives the codes.
        Targets are in {0, 1}, classes, or numbers under bounds on predicted numbers (residual_gap, group_squared_error,
        prediction_parity), which are in the targets' units.
    group_names: labels of the codes, {attribute: labels} or a sequence for one attribute. Without `groups` (a stream)
        every combination is assumed to occur with both labels.
    classes: None for labels 0 and 1 and one score per row; else the k class labels, or k. `loss` then takes (B, k)
        scores and class numbers, and bounds on classes can be stated (they need no groups).
    loss: "logistic" (with classes: cross-entropy), "hinge", "squared", or a function (scores, targets) -> (B,). Under
        bounds on predicted numbers always "squared".
    soft_targets: labels may lie between 0 and 1: a row of label p counts as two, of label 1 with weight p and of label
        0 with weight 1 - p.
    dual_every: steps between moves of the multipliers; before the first, rows are only measured. None: 20. Under
        bounds on rates, unless `distributed`, small batches make it longer, with longer moves: until rows fill `memory`
        (at most 2048), 64 steps at most.
    dual_step_size (eta): per move; make it and `dual_every` smaller by the same factor.
    penalty (rho), dual_values, multiplier_bound, decay, decay_steps: as in ALM; k counts step() calls.
    memory: rows after which a row's part in the running estimates has fallen to 1/e; larger is less noisy and later.
        None: 2048, or as many as `groups` has if these are fewer, and at least 32 per cell.
    nonfinite: "raise" at the first NaN or infinity, or "skip" such a batch, with gradients of 0, and count it.
    distributed: sum over the processes of the default group. Each must call step() equally often, with batches of equal
        size.

    Raises: OptionError, DataError, EmptyGroupError where the options, the rows or a group cannot be used.
    """

    def __init__(
        self,
        stated: str | Bound | Sequence[str | Bound],
        *,
        groups: Any = None,
        targets: Any = None,
        group_names: Mapping[str, Sequence[str]] | Sequence[str] | None = None,
        classes: int | Sequence[Any] | None = None,
        loss: PerRowLoss = "logistic",
        soft_targets: bool = False,
        dual_step_size: float = 1.0,
        penalty: float = 2.0,
        dual_every: int | None = None,
        memory: float | None = None,
        dual_values: Literal["true", "surrogate"] = "true",
        multiplier_bound: float = 100.0,
        decay: float = 0.5,
        decay_steps: float = 1000.0,
        nonfinite: Literal["raise", "skip"] = "raise",
        distributed: bool = False,
    ):
        self._given = {name: value for name, value in locals().items() if name != "self"}
        self.config = ALM(
            dual_step_size=dual_step_size,
            penalty=penalty,
            dual_every=ALM.dual_every if dual_every is None else dual_every,
            dual_values=dual_values,
            multiplier_bound=multiplier_bound,
            decay=decay,
            decay_steps=decay_steps,
        )
        check_options(dual_every, nonfinite, distributed, memory)
        notions = stated_bounds(stated, streaming=groups is None and group_names is None)
        units = self._units = units_of(notions, targets, loss, classes=classes, soft_targets=soft_targets)
        if units is None:
            self.classes = class_names(classes)
        else:
            notions, targets, loss, self.classes = *units.settled(notions, targets), "squared", (0,)
        self.stated = notions
        rows = training_rows(groups, targets, group_names, self.classes)
        self._given |= {"stated": self.stated, "groups": rows, "targets": units, "group_names": None}
        self.groups = Groups(rows.codes[:0], rows.attributes, rows.labels)
        named = None if classes is None else self.classes
        self.plan: Plan = compile_plan(notions, rows, classes=named) if units is None else units.plan(notions, rows)
        check_means(self.plan)
        if targets is not None and rows is not groups:
            warn_of_few_rows(self.plan, notions, rows)
        self.nonfinite, self.distributed = nonfinite, distributed
        self.memory = remembered(self.plan, None if groups is None else rows) if memory is None else memory
        self._given["memory"] = self.memory
        outputs = 1 if classes is None else len(self.classes)
        self._loss = loss_of_rows(loss, outputs, soft_targets)
        for bound in notions:
            bound.check_model(outputs, rows.targets)
        self.soft_targets = soft_targets
        self._kinds = [f.trained(self._loss) for f in self.plan.functions]
        true = [f.exact(self._loss) for f in self.plan.functions]
        self._of_logits = takes_logits(self._loss, self.plan)
        self._keys = Keys(self.plan, self.groups, len(self.classes), outputs)
        if units is not None:
            self._keys = NumberKeys(self.plan, self.groups, units)
        self._per_bound = 1.0 if units is None else units.per_bound(notions)
        statistics = [true, self._kinds] if dual_values == "surrogate" and self._kinds != true else [true]
        self._means = RunningMeans(self.plan, statistics, self._loss, self.memory, self._keys)
        self._contrasts = PlanContrasts(self.plan)
        self._scale = dual_scale(self.plan, self._kinds)
        self._state = fresh_state(self.plan.m, len(notions))
        self._passed: list[tuple[np.ndarray, np.ndarray]] = []
        self._place = torch.device("cpu"), torch.float32
        self._weights = Weights()
        self._watch = Watch(2 * self.config.dual_every)
        rates = all(kind is self._loss or (kind.name == "sigmoid" and kind.odd) for kind in self._kinds)
        waits = rates and self._loss not in self._kinds and dual_every is None and not distributed
        self._enough = min(self.memory, MEMORY) if waits else 0
        self._quick = rates and self._keys.by_code and self._loss is LOSSES["logistic"] and not soft_targets

    def __repr__(self) -> str:
        stated = ", ".join(repr(b.text) for b in self.stated)
        sizes = {name: len(known) for name, known in zip(self.groups.attributes, self.groups.labels, strict=True)}
        by = f", groups={sizes}" if sizes else ""
        many = "" if self._keys.outputs == 1 else f", classes={len(self.classes)}"
        return f"Dual({stated}{by}{many}, m={self.m}, steps={self._state['k']}, largest multiplier={self._state['multipliers'].max():.3g})"

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle and copy: how to build it again, with its state."""
        return _built, (self._given, self.state_dict())

    @property
    def m(self) -> int:
        """Number of inequalities."""
        return self.plan.m

    @property
    def names(self) -> Sequence[str]:
        """(m,) what each inequality compares."""
        return self.plan.names

    @property
    def multipliers(self) -> Tensor:
        """(m,) y, in [0, multiplier_bound]."""
        return torch.tensor(self._state["multipliers"])

    @property
    def weights(self) -> Tensor:
        """(m,) w = [y + rho g]_+, the weights of the inequalities in the gradient."""
        return torch.tensor(self._state["w"])

    def encode(self, sensitive_features: Any) -> Tensor:
        """(n, A) int64 codes of new rows for `loss`; a group not known here, or missing, is -1."""
        return torch.as_tensor(self.groups.encode(sensitive_features)[0].codes)

    def values(self) -> dict[str, float]:
        """Running estimate of each stated bound's true metric, in its units; NaN where no row could tell yet.

        With several processes, as of the last update.
        """
        means = self._means
        mean, rows = (
            means.latest()[:2] if processes(self.distributed) == 1 else (means.state["mean"], means.state["rows"])
        )
        values = self._per_bound * np.array(stated_values(self.plan, self._contrasts, mean, rows))
        return dict(zip([b.text for b in self.stated], values.tolist(), strict=True))

    def report(self) -> DualReport:
        """Values, multipliers, caps, groups that batches lacked, and how many rows of each group the values rest on."""
        self._compare()
        s, cap = self._state, self.config.multiplier_bound
        return report_of(self.plan, self.stated, s, self._means, self.values(), self._per_bound, cap)

    # -- the two calls of a loop --------------------------------------------------------------------------------

    def loss(
        self, scores: Tensor, targets: Any, group: Any = None, *, weight: Any = None, observe: bool = True
    ) -> Tensor:
        """() the mean loss of a batch plus the multipliers times the bounds, to call .backward() on; in float32 at
        least.

        scores: (B,) or (B, 1), higher is more positive; with classes (B, k).
        targets: (B,) in {0, 1}, class numbers, or numbers.
        group: (B,) or (B, A) codes; a row of -1 (missing) enters the mean loss only.
        weight: (B,) >= 0, what each row counts for in the loss, whose sum is divided by B, and in the rates of its
            groups.
        observe: False where the batch must not enter the running estimates (validation, points that LBFGS tries). A
            loop under rates that takes second derivatives not from its beginning lacks them for up to 15 steps unless
            observe=False.
        Raises: OptionError (shapes; probabilities in place of scores); DataError (labels, codes; after the first
            `dual_every` steps it may come from `step`); NonFiniteError, which names batch, constraints and groups.
        """
        state = self._state
        if self._quick and observe and weight is None and state["k"] >= self.config.dual_every:
            self._follow(scores)
            found = usual(scores, targets, group, self._means.recent.dtype)
            if found and (value := self._weights.usual_loss(*found, self._watch.at(state["k"]))) is not None:
                state["calls"] += 1
                self._means.recent.add(found[1], state["k"])
                return value
        batch = self._read(scores, targets, group, weight)
        value = self._weights.loss(self._loss, batch.scores, batch.y, batch.places, batch.weight, batch.rows)
        if not self._usable(value, batch, observe):
            return no_loss(batch.scores)
        if observe:
            self._means.add(batch, state["k"])
        value = self._weights.whole(value)
        return value if self._units is None else self._units.sd**2 * value

    @torch.no_grad()
    def observe(self, scores: Tensor, targets: Any, group: Any = None, *, weight: Any = None) -> None:
        """Let a batch enter the running estimates without a loss; arguments as in `loss`."""
        batch = self._read(scores, targets, group, weight)
        value = weighted_loss(self._loss, batch.scores, batch.y, batch.weight, batch.rows)
        if self._usable(value, batch, True):
            self._means.add(batch, self._state["k"])

    def step(self) -> None:
        """Close an optimiser step; every `dual_every` of them it moves the multipliers."""
        s, world = self._state, processes(self.distributed)
        if world == 1 and s["calls"] == s["calls_at_step"]:
            raise FairboundError(
                "Dual.step() was called without a batch since the last step(); call loss(scores, "
                "targets, group) or observe(...) in every step."
            )
        s["calls_at_step"] = s["calls"]
        s["k"] += 1
        n = s["k"] - s["weighed"]
        if n >= self.config.dual_every and (n >= MOST_STEPS or self._means.since >= self._enough):
            self._update(world)
        else:
            self._means.shorten(world)

    def _read(self, scores: Tensor, targets: Any, group: Any, weight: Any) -> Batch:
        """The batch, checked. Whole numbers among the targets are looked for until the multipliers first move."""
        self._follow(scores)
        careful = self._state["k"] < self.config.dual_every
        if careful and self._of_logits:
            refuse_probabilities(scores)
        return self._keys.read(scores, targets, group, weight, self.soft_targets, careful)

    def _follow(self, s: Tensor) -> None:
        if not isinstance(s, Tensor):
            raise OptionError(f"scores must be a tensor of a model that torch differentiates, got {type(s).__name__}.")
        dtype = torch.float32 if s.dtype in (torch.float16, torch.bfloat16) else s.dtype
        if (s.device, dtype) != self._place and s.is_floating_point():
            self.to(s.device, dtype)

    def _usable(self, value: Tensor, batch: Batch, observe: bool) -> bool:
        """Whether every score and loss is finite; raises or skips the batch where one is not.
        value: the batch's loss."""
        state = self._state
        state["calls"] += observe
        logistic = self._loss is LOSSES["logistic"]
        total = value.item() if logistic else float(value.detach() + 0 * batch.scores.detach().sum())
        if total - total == 0.0:
            return True
        bad = without_number(batch, self._loss)
        if not bool(bad.any()):
            return True
        if self.nonfinite == "skip":
            state["skipped"] += 1
            return False
        names, groups = self.plan.touched(self._keys.table[batch.keys[bad].cpu()].flatten().tolist())
        raise not_finite(int(bad.sum()), len(bad), state["calls"], names, groups)

    # -- multipliers --------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _update(self, world: int) -> None:
        """y <- [y + eta g]_+, w = [y + rho g]_+ for the contrasts whose groups all had rows since the last update."""
        s = self._state
        rows = self._means.update(world, self._place[0])
        g, memo = compared(self._contrasts, self._means.state["mean"][:, -1])
        g = g if self._units is None else np.clip(g, -1, 1)  # an untrained model may be many standard deviations off
        fresh = None if np.count_nonzero(rows) == len(rows) else seen_contrasts(self.plan, torch.from_numpy(rows > 0))
        known = None if fresh is None else fresh.numpy()
        s["g"], s["multipliers"], s["w"] = moved(s, self.config, self._scale, g, known)
        s["weighed"], s["processes"] = s["k"], world
        self._passed.append((self._means.state["mean"], self._means.state["rows"]))
        if len(self._passed) == PASSED:
            self._compare()
        self._weigh(memo)

    def _compare(self) -> None:
        """Take the estimates of the updates passed into the best so far: many at once, as only reports need them."""
        self._state["smallest"] = best_of(self.plan, self._contrasts, self._state["smallest"], self._passed)
        self._passed = []

    def _weigh(self, memo: Memo | None) -> None:
        """What rows weigh until the multipliers move again. memo: of the contrasts at the running means."""
        w = self._state["w"]
        if not np.count_nonzero(w):
            self._weights = Weights()
            return
        w, by_cell = cell_weights(self._contrasts, w, self._means.state, self._state["weighed"], memo)
        constant = -w.dot(self.plan.bounds)
        self._weights = Weights.of(self._keys, self._kinds, self._loss, by_cell, constant, self._place)

    def to(self, device: Any = None, dtype: torch.dtype | None = None) -> Dual:
        """Itself, ready for scores on this device and of this dtype; `loss` does so by itself when scores move. Rows
        are kept and looked up there; sums and multipliers stay on the CPU."""
        place = self._place[0] if device is None else device_named(device)
        self._place = place, dtype or self._place[1]
        self._keys.to(place)
        self._means.to(*self._place)
        self._weigh(compared(self._contrasts, self._means.state["mean"][:, -1])[1])
        return self

    # -- checkpoints --------------------------------------------------------------------------------------------

    def _identity(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "stated": [b.text for b in self.stated],
            "names": list(self.names),
            "cells": list(self.plan.cell_names),
            "loss": self._loss.name,
            "dual_values": self.config.dual_values,
            "classes": [str(label_text(c)) for c in self.classes],
            "outputs": self._keys.outputs,
            **({} if self._units is None else {"units": [self._units.mean, self._units.sd]}),
        }

    def state_dict(self) -> dict[str, Any]:
        """Multipliers, running estimates and counters as plain values and CPU tensors, with the names they belong to.

        With several processes, the rows since the last update are this process's own: save one per process.
        """
        self._compare()
        state = as_tensors({**self._state, **self._means.state})
        return {**self._identity(), **state, "queue": self._means.saved()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from `state_dict()`: the same batches then give the same numbers, bit for bit.

        Raises: CheckpointError where a key is missing or unknown, where bounds, names, groups or loss differ, or where
        a value has another shape or is not a possible one (NaN, a negative multiplier). Nothing is changed then.
        """
        fresh = as_tensors({**self._state, **self._means.state})
        state = checked_state(state_dict, fresh, self._identity(), self.config.multiplier_bound, ("queue",))
        queue = Queue.of(state_dict["queue"], self._keys)
        self._state, self._passed = {key: state[key] for key in self._state}, []
        self._means.resume(state, queue)
        self._watch = Watch(self._state["k"] + self.config.dual_every)
        self.to(*self._place)


def _built(given: dict[str, Any], state: dict[str, Any]) -> Dual:
    dual = Dual(**given)
    dual.load_state_dict(state)
    return dual
