"""Fairness bounds inside a PyTorch training loop of your own: three changed lines, any torch optimiser.

    dual = Dual("demographic_parity <= 0.02", groups=train_groups, targets=train_targets)
    loss = dual.loss(scores, y, group)      # in place of criterion(scores, y)
    dual.step()                             # after optimizer.step()

Every batch adds to running means q of the cells (a group, or a group's positives) that the bounds compare, and every
`dual_every` steps moves the multipliers: with g = A q - bounds,   y <- [y + eta g]_+,   w = [y + rho g]_+,
both g times `dual_scale` (1 for rates by a sigmoid, 1/4 for the logistic loss). Differences of mean losses are moved
faster and with a guard, rates that swing from one side of their bound to the other with less, ratios by less where few
rows stand below them: see `multipliers`.
Between updates w is fixed, so that the gradient of f + w . g is that of a weighted mean over rows,
    1/B sum_i ( l_i + sum_j v[cell_ij] phi_j(s_i) ),    v = A'w / (share of all rows seen so far that lie in the cell),
whose cost does not depend on the number of bounds. It is linear in rows: micro-batches add up to one big batch, and a
batch without a group has no term for it.

Source: Kliachkin et al. (2025), section 3.3 and Algorithm 2 with mu = 0, in the form of `fairbound.methods.alm`.
Departs: from alm, g comes from rows that the loop has seen lately instead of rows drawn for it, and a bound one of
    whose groups had no row since the last update keeps its multiplier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from fairbound.base.errors import OptionError
from fairbound.fairness.compiled.contrasts import Memo, seen_contrasts
from fairbound.fairness.module_trial import refuse_probabilities
from fairbound.fairness.notions import Bound
from fairbound.optim.batch import (
    Batch,
    check_step,
    device_named,
    no_loss,
    refuse_rows,
    warned_of_no_step,
    without_number,
)
from fairbound.optim.codes import encoded, warn_of_no_rows, warn_of_rows_to_come
from fairbound.optim.compiled import DualOptions, PerRowLoss, compiled
from fairbound.optim.estimates import (
    LATELY,
    Best,
    exact_means,
    in_one_line,
    named_values,
    report_of,
    warn_of_measured,
    warn_of_nothing_measured,
)
from fairbound.optim.fast_queue import usual
from fairbound.optim.means import RunningMeans, cell_weights, compared, processes
from fairbound.optim.multipliers import factors_of_ratios, moved, noise_of, room_of_contrasts, shrunk
from fairbound.optim.queue import Queue
from fairbound.optim.state import DualReport, as_tensors, checked_state, fresh_state, identity
from fairbound.optim.together import check_built_alike, options_of, warn_of_processes_apart
from fairbound.optim.weighted import Weights, weighted_loss

MOST_STEPS = 64  # most steps that an update waits for rows


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
    loss: "logistic" (with classes: cross-entropy), "hinge", "squared", which draws scores to -1 and 1, a loss module of
        torch (its reduction is set to "none" on a copy), or a function (scores, targets) -> (B,). Under bounds on predicted numbers always "squared", of these.
    soft_targets: labels, those of `targets` too, may lie between 0 and 1: a row of label p counts as two, of label 1
        with weight p and of label 0 with weight 1 - p.
    dual_every: steps between moves of the multipliers; before the first, rows are only measured. None: 20. Under
        bounds on rates, unless `distributed`, small batches make it longer, with longer moves: until rows fill `memory`
        (at most 2048), 64 steps at most.
    dual_step_size (eta): per move; make it and `dual_every` smaller by the same factor. Under bounds on rates a move is
        smaller by itself where `memory` holds the rows of more than 16 steps.
    penalty (rho), dual_values, multiplier_bound, decay, decay_steps: as in ALM; k counts step() calls.
    memory: rows after which a row's part in the running estimates has fallen to 1/e; larger is less noisy and later.
        None: 2048, or as many as `groups` has if these are fewer, and at least 32 per cell.
    nonfinite: "raise" at the first NaN or infinity, or "skip" such a batch, with gradients of 0, and count it.
    distributed: sum over the processes of the default group. Each must be built with the same groups in the same order,
        and call step() equally often, with batches of equal size.

    Raises: OptionError, DataError, EmptyGroupError where the options, the rows or a group cannot be used; from the
        first update or `measure` OptionError where processes were built differently.
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
        self._begin(
            DualOptions(
                stated, groups=groups, targets=targets, group_names=group_names, classes=classes, loss=loss,
                soft_targets=soft_targets, dual_step_size=dual_step_size, penalty=penalty, dual_every=dual_every,
                memory=memory, dual_values=dual_values, multiplier_bound=multiplier_bound, decay=decay,
                decay_steps=decay_steps, nonfinite=nonfinite, distributed=distributed,
            )
        )  # fmt: skip

    def _begin(self, options: DualOptions) -> None:
        """Begin at multipliers of 0, under these options."""
        c = self._compiled = compiled(options)
        self.config, self.nonfinite, self.distributed = options.config, options.nonfinite, options.distributed
        self.stated, self.classes, self.soft_targets = c.bounds, c.classes, options.soft_targets
        self.groups, self.plan, self.memory = c.groups, c.plan, c.memory
        self._means = RunningMeans(c.plan, c.statistics, c.loss, c.memory, c.keys)
        self._state = fresh_state(c.plan.m, len(c.bounds))
        self._best = Best(c.plan, c.contrasts, LATELY * c.memory)
        self._place = torch.device("cpu"), torch.float32
        self._weights = Weights()
        self._built_alike = self._asked = False

    def __repr__(self) -> str:
        return in_one_line(self.stated, self.groups, self._compiled.keys.outputs, self._state)

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle and copy: how to build it again, with its state."""
        return _built, (self._compiled.options, self.state_dict())

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
        """(m,) y, in [0, multiplier_bound]; of ratios y times `factors_of_ratios` of `multipliers` is that of the bound."""
        return torch.tensor(self._state["multipliers"])

    @property
    def weights(self) -> Tensor:
        """(m,) the weights of the inequalities in the gradient: w = [y + rho g]_+, of ratios times `factors_of_ratios`."""
        return torch.tensor(self._state["w"])

    def encode(self, sensitive_features: Any) -> Tensor:
        """(n, A) int64 codes of new rows for `loss`; a group not known or missing is -1. Columns without names stand in
        order. With `group_names` integers are codes, unless a name is a number too. Raises: DataError where none is known.
        Warns: DataWarning where some are not."""
        return torch.as_tensor(encoded(self.groups, sensitive_features, self._compiled.options.group_names is not None))

    def values(self) -> dict[str, float]:
        """Running estimate of each stated bound's true metric, in its units; NaN where no row could tell yet.

        With several processes, as of the last update.
        """
        mean, rows, *_ = self._means.latest(processes(self.distributed))
        return named_values(self.plan, self.stated, self._compiled.contrasts, self._compiled.per_bound, mean, rows)

    def measure(self, batches: Iterable[Sequence[Any]]) -> dict[str, float]:
        """The exact value of each stated bound on all rows of these batches, in its units; nothing of them enters the
        running estimates.

            model.eval()
            dual.measure((model(x), y, g) for x, y, g in loader)

        batches: of (scores, targets), (scores, targets, group) or (scores, targets, group, weight), as in `loss`; taken
            one after the other, without gradients. With several processes their rows are put together: every process
            calls it, or the others wait for it.
        Returns: NaN where no row tells a value. Raises: as `loss`; NonFiniteError also where `nonfinite` is "skip".
            Warns: DataWarning where a value is NaN, all scores lie in [0, 1], as probabilities do, or all rows are decided
            alike.
        """
        world = self._together()
        mean, rows, span = exact_means(self._means, batches, partial(self._read, careful=True), world, self._place[0])
        warn_of_measured(self.plan, mean, rows, self.classes, span if self._compiled.of_logits else None)
        values = named_values(self.plan, self.stated, self._compiled.contrasts, self._compiled.per_bound, mean, rows)
        warn_of_nothing_measured(values)
        return values

    def report(self) -> DualReport:
        """Values, multipliers, caps, groups that batches lacked, and how many rows of each group the values rest on."""
        s, cap = self._best.settled(self._state), self.config.multiplier_bound
        c = self._compiled
        about = c.per_bound, cap, c.of_losses, self.classes, c.options.groups
        return report_of(self.plan, self.stated, s, self._means, self.values(), *about)

    def loss(
        self, scores: Tensor, targets: Any, group: Any = None, *, weight: Any = None, observe: bool | None = None
    ) -> Tensor:
        """() the mean loss of a batch plus the multipliers times the bounds, to call .backward() on; in float32 at
        least.

        scores: (B,) or (B, 1), higher is more positive; with classes (B, k).
        targets: (B,) in {0, 1}, class numbers, or numbers.
        group: (B,) or (B, A) codes; a row of -1 (missing) enters the mean loss only.
        weight: (B,) >= 0, what each row counts for in the loss, whose sum is divided by B, and in the rates of its
            groups.
        observe: whether the batch enters the running estimates. None: where torch records a graph, which it does not
            under `torch.no_grad()`, as in a validation; say False for points that LBFGS tries.
        Raises: OptionError (shapes; probabilities in place of scores); DataError (labels, codes; after the first
            `dual_every` steps it may come from `step`); NonFiniteError, which names batch, constraints and groups.
        Warns: DataWarning once where 200 losses were asked for without a `step`, or several of as many rows together as
            the training rows.
        """
        state = self._state
        observe = torch.is_grad_enabled() if observe is None else observe
        if self._compiled.quick and observe and weight is None and state["k"] >= self.config.dual_every:
            self._follow(scores)
            found = usual(scores, targets, group, self._means.fast_queue.dtype)
            if found and (value := self._weights.usual_loss(*found)) is not None:
                state["calls"] += 1
                self._means.fast_queue.add(found[1], state["k"])
                return value
        batch = self._read(scores, targets, group, weight)
        value = self._weights.loss(self._compiled.loss, batch.scores, batch.y, batch.places, batch.weight, batch.rows)
        if not self._usable(value, batch, observe):
            return no_loss(batch.scores)
        if observe:
            self._means.add(batch, state["k"])
            if not self._asked:
                self._asked = warned_of_no_step(state, self._means.seen_rows, self._compiled.options.groups)
        value = self._weights.whole(value)
        units = self._compiled.units
        return value if units is None else units.sd**2 * value

    @torch.no_grad()
    def observe(self, scores: Tensor, targets: Any, group: Any = None, *, weight: Any = None) -> None:
        """Let a batch enter the running estimates without a loss; arguments as in `loss`."""
        batch = self._read(scores, targets, group, weight)
        value = weighted_loss(self._compiled.loss, batch.scores, batch.y, batch.weight, batch.rows)
        if self._usable(value, batch, True):
            self._means.add(batch, self._state["k"])

    def step(self) -> None:
        """Close an optimiser step; every `dual_every` of them it moves the multipliers."""
        s, world = self._state, processes(self.distributed)
        check_step(s, world)
        s["calls_at_step"] = s["calls"]
        s["k"] += 1
        n = s["k"] - s["weighed"]
        if n >= self.config.dual_every and (n >= MOST_STEPS or self._means.since >= self._compiled.enough):
            first, before = not s["weighed"], self._means.state["total_rows"]
            self._update()
            if first:
                warn_of_no_rows(self.plan, self._means.state, s["k"])
            if before < self.memory <= self._means.state["total_rows"]:
                warn_of_rows_to_come(self.plan, self._means.state, s["k"], self._compiled.options.groups)
        else:
            self._means.shorten(world)

    def _read(self, scores: Tensor, targets: Any, group: Any, weight: Any, careful: bool | None = None) -> Batch:
        """The batch, checked. careful: as of `Keys.read`; None: until the multipliers first move."""
        self._follow(scores)
        careful = self._state["k"] < self.config.dual_every if careful is None else careful
        if careful and self._compiled.of_logits:
            refuse_probabilities(scores)
        return self._compiled.keys.read(scores, targets, group, weight, self.soft_targets, careful)

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
        bad = without_number(value, batch, self._compiled.loss)
        if bad is not None and self.nonfinite != "skip":
            refuse_rows(bad, batch, self.plan, self._compiled.keys, state["calls"])
        state["skipped"] += bad is not None
        return bad is None

    @torch.no_grad()
    def _update(self) -> None:
        """y <- [y + eta g]_+, w = [y + rho g]_+ for the contrasts whose groups all had rows since the last update."""
        s, c, world = self._state, self._compiled, self._together()
        before = self._means.state["total_rows"]
        rows = self._means.update(world, self._place[0])
        g, memo = compared(c.contrasts, self._means.moving())
        even = factors_of_ratios(c.contrasts, memo)
        g = g * even
        if c.units is not None:  # an untrained model may be many standard deviations off
            g = np.clip(g, -1, 1)
        fresh = None if rows.all() else seen_contrasts(self.plan, torch.from_numpy(rows > 0))
        known = None if fresh is None else fresh.numpy()
        room = room_of_contrasts(c.contrasts, memo, c.of_losses, self._means.state, s["multipliers"])
        since = self._means.state["total_rows"] - before
        noise = noise_of(self.plan, c.rates, self._means.resting())
        behind = (s["k"] - s["weighed"]) * min(self.memory, before + since) / max(since, 1)
        s |= moved(s, self.config, c.scale, g, known, room, self.plan.bounds, since / self.memory, noise, behind)
        s["w"], s["weighed"], s["processes"] = s["w"] * even, s["k"], world
        self._best.note(s, self._means.state, since)
        self._weigh(memo)

    def _together(self) -> int:
        """How many processes work together. At the first of their sums all are held to have been built alike."""
        world = processes(self.distributed)
        if not self._built_alike:
            if world > 1:
                options = options_of(self.stated, self.config, self.memory)
                check_built_alike({**self._identity(), "options": options}, world, self._place[0])
            elif not self.distributed:
                warn_of_processes_apart()
            self._built_alike = True
        return world

    def _weigh(self, memo: Memo | None) -> None:
        """What rows weigh until the multipliers move again. memo: of the contrasts at the running means."""
        w, c = self._state["w"], self._compiled
        if not np.count_nonzero(w):
            self._weights = Weights()
            return
        w, by_cell = cell_weights(c.contrasts, w, self._means.state, self._state["weighed"], memo)
        constant = -w.dot(self.plan.bounds) * self._means.mean_weight
        factor = shrunk(by_cell, c.of_losses, self._means.state)
        self._weights = Weights.of(c.keys, c.kinds, c.loss, by_cell, constant, self._place, factor)

    def to(self, device: Any = None, dtype: torch.dtype | None = None) -> Dual:
        """Itself, ready for scores on this device and of this dtype; `loss` does so by itself when scores move. Rows
        are kept and looked up there; sums and multipliers stay on the CPU."""
        place = self._place[0] if device is None else device_named(device)
        self._place = place, dtype or self._place[1]
        self._compiled.keys.to(place)
        self._means.to(*self._place)
        self._weigh(compared(self._compiled.contrasts, self._means.moving())[1])
        return self

    def _identity(self) -> dict[str, Any]:
        c, by = self._compiled, self.config.dual_values
        return identity(self.plan, self.stated, c.loss.name, by, self.classes, c.keys.outputs, c.units)

    def state_dict(self) -> dict[str, Any]:
        """Multipliers, running estimates and counters as plain values and CPU tensors, with the names they belong to.

        With several processes, the rows since the last update are this process's own: save one per process.
        """
        state = as_tensors({**self._best.settled(self._state), **self._means.state})
        return {**self._identity(), **state, "queue": self._means.saved()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from `state_dict()`: the same batches then give the same numbers, bit for bit.

        Raises: CheckpointError where a key is missing or unknown, where bounds, names, groups or loss differ, or where
        a value has another shape or is not a possible one (NaN, a negative multiplier). Nothing is changed then.
        How much a bound allows may differ, as may options that say how multipliers move, such as `penalty`: those of this
        Dual count from here on.
        """
        fresh = as_tensors({**self._state, **self._means.state})
        state = checked_state(state_dict, fresh, self._identity(), self.config.multiplier_bound, ("queue",))
        queue = Queue.of(state_dict["queue"], self._compiled.keys)
        self._state = {key: state[key] for key in self._state}
        self._best.passed.clear()
        self._means.resume(state, queue)
        self.to(*self._place)


def _built(options: DualOptions, state: dict[str, Any]) -> Dual:
    dual = Dual.__new__(Dual)
    dual._begin(options)
    dual.load_state_dict(state)
    return dual
