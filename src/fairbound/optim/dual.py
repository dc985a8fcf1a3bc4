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

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, distributed

from fairbound.base.errors import FairboundError, NonFiniteError, OptionError
from fairbound.fairness.builder import compile_plan
from fairbound.fairness.contrasts import Contrasts, dual_scale, seen_contrasts
from fairbound.fairness.notions import Bound, constraints
from fairbound.fairness.plan import Plan
from fairbound.fairness.pointwise import Pointwise, loss_named
from fairbound.methods.alm import ALM
from fairbound.methods.primal import decayed, positive
from fairbound.optim.means import Queue, RunningMeans, better, cells_behind, stated_values
from fairbound.optim.rows import CellTable, training_rows
from fairbound.optim.state import DualReport, by_name, check_options, checked_state, some
from fairbound.rows.groups import Groups

FORMAT = 1
MEMORY = 2048
MEMORY_PER_CELL = 32

PerRowLoss = str | Pointwise | Callable[[Tensor, Tensor], Tensor]


class Dual:
    """Multipliers for stated bounds, and the loss that carries them.

    stated: bounds as text or objects, one or several.
    groups, targets: sensitive attributes (n, A) and labels (n,) in {0, 1} of the training rows; they fix which groups
        exist and are not kept. Integers are taken as group codes as they are, -1 missing, and are what `loss` gets;
        anything else goes through Groups.of, and `encode` gives the codes.
    group_names: labels of the codes, {attribute: labels} or a sequence for one attribute. Without `groups` (streaming)
        every combination is assumed to occur with both labels.
    loss: "logistic", "hinge", "squared", or a function (scores (B,), targets (B,)) -> (B,) that autograd can follow.
    dual_step_size (eta), penalty (rho), dual_every, dual_values, multiplier_bound, decay, decay_steps: as in ALM;
        k counts step() calls, and the first `dual_every` of them only measure. eta is per update: where dual_every is
        made smaller, make eta smaller by the same factor.
    memory: rows after which a row's part in the running estimates has fallen to 1/e; larger is less noisy and later.
        None: 2048, or 32 per cell if that is more.
    nonfinite: "raise" at the first NaN or infinity, or "skip" such a batch (no gradient, no statistics) and count it.
    distributed: sum the cells' sums and counts over the processes of the default group, where one is initialised.
        Each process must call step() equally often; batches are taken to be of equal size.

    Raises: OptionError, DataError, EmptyGroupError where the options, the rows or a group cannot be used.
    """

    def __init__(
        self,
        stated: str | Bound | Sequence[str | Bound],
        *,
        groups: Any = None,
        targets: Any = None,
        group_names: Mapping[str, Sequence[str]] | Sequence[str] | None = None,
        loss: PerRowLoss = "logistic",
        dual_step_size: float = 1.0,
        penalty: float = 2.0,
        dual_every: int = 20,
        memory: float | None = None,
        dual_values: Literal["true", "surrogate"] = "true",
        multiplier_bound: float = 100.0,
        decay: float = 0.5,
        decay_steps: float = 1000.0,
        nonfinite: Literal["raise", "skip"] = "raise",
        distributed: bool = False,
    ):
        self.config = ALM(
            dual_step_size=dual_step_size,
            penalty=penalty,
            dual_every=dual_every,
            dual_values=dual_values,
            multiplier_bound=multiplier_bound,
            decay=decay,
            decay_steps=decay_steps,
        )
        check_options(dual_every, nonfinite, distributed)
        notions = constraints(stated)
        classes = [b.text for b in notions if "groups" not in b.needs]
        if classes:
            raise OptionError(
                f"Dual compares groups, and {classes[0]!r} speaks of a class; train with FairClassifier or formulate."
            )
        if not notions:
            raise OptionError(
                "Dual needs at least one bound, as in 'demographic_parity <= 0.02'; without one use your own loss."
            )
        rows = training_rows(groups, targets, group_names)
        self.groups = Groups(rows.codes[:0], rows.attributes, rows.labels)
        self.plan: Plan = compile_plan(notions, rows)
        if self.plan.beyond_means:
            raise OptionError(
                f"Dual keeps means over groups, and {notions[0].text!r} needs more; train with FairClassifier."
            )
        self.nonfinite, self.distributed = nonfinite, distributed
        self.memory = max(MEMORY, MEMORY_PER_CELL * self.plan.n_cells) if memory is None else memory
        positive(memory=self.memory)
        self._loss = loss_named(loss)
        if self._loss.per_class:
            raise OptionError(
                f"the loss {self._loss.name!r} takes a score for every class; Dual takes one score per row."
            )
        self._kinds = [f.trained(self._loss) for f in self.plan.functions]
        true = [f.exact(self._loss) for f in self.plan.functions]
        both = dual_values == "surrogate" and self._kinds != true
        self._means = RunningMeans(self.plan, [true, self._kinds] if both else [true], self._loss, self.memory)
        self._contrasts = Contrasts(self.plan)
        self._scale = torch.as_tensor(dual_scale(self.plan, self._kinds))
        self._cells = CellTable(self.plan, [len(names) for names in self.groups.labels])
        self._state = self._fresh()
        self._place = torch.device("cpu"), torch.float32
        self._row_weights: Tensor | None = None
        self._constant = 0.0

    def _fresh(self) -> dict[str, Any]:
        """What changes beside the running means. smallest: of each bound's estimates at updates. k: steps; weighed: k
        at the last update; calls: batches of this process, and calls_at_step: the same at the last step()."""
        numbers = ("k", "weighed", "calls", "calls_at_step", "skipped")
        return {
            **{name: torch.zeros(self.plan.m, dtype=torch.float64) for name in ("multipliers", "g", "w")},
            "smallest": torch.full((len(self.plan.notions),), math.nan, dtype=torch.float64),
            **dict.fromkeys(numbers, 0),
            "processes": 1,
        }

    # -- what can be read ---------------------------------------------------------------------------------------

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
        return self._state["multipliers"].clone()

    @property
    def weights(self) -> Tensor:
        """(m,) w = [y + rho g]_+, the weights of the inequalities in the gradient."""
        return self._state["w"].clone()

    def encode(self, sensitive_features: Any) -> Tensor:
        """(n, A) int64 codes of new rows for `loss`; a group not known here, or missing, is -1."""
        return torch.as_tensor(self.groups.encode(sensitive_features)[0].codes)

    def values(self) -> dict[str, float]:
        """Running estimate of each stated bound's true metric, in its units; NaN where no row could tell yet.

        With several processes, as of the last update.
        """
        kept = self._means.state
        mean, rows = self._means.latest() if self._world() == 1 else (kept["mean"], kept["rows"])
        texts = [n.text for n in self.plan.notions]
        return dict(zip(texts, stated_values(self.plan, self._contrasts, mean[:, 0], rows > 0), strict=True))

    def report(self) -> DualReport:
        """Values, multipliers, caps, and groups that batches lacked."""
        s, names = self._state, self.plan.cell_names
        y = s["multipliers"]
        compared = self.plan.used_cells().tolist()
        lacked, rows = self._means.lacked().tolist(), self._means.latest()[1].tolist()
        values = self.values()
        return DualReport(
            steps=s["k"],
            batches=self._means.seen_batches,
            rows=self._means.seen_rows,
            skipped=s["skipped"],
            values=values,
            bounds={n.text: float(n.stated) for n in self.plan.notions},
            smallest={
                b.text: better(b, values[b.text], v) if values[b.text] == values[b.text] else math.nan
                for b, v in zip(self.plan.notions, s["smallest"].tolist(), strict=True)
            },
            multipliers={self.names[i]: float(y[i]) for i in y.nonzero().flatten().tolist()},
            at_cap=tuple(self.names[i] for i in (y >= self.config.multiplier_bound).nonzero().flatten().tolist()),
            lacking=by_name((names[c], int(lacked[c])) for c in compared if lacked[c]),
            unmeasured=tuple(by_name((names[c], 1) for c in compared if not rows[c])),
            processes=s["processes"],
        )

    # -- the two calls of a loop --------------------------------------------------------------------------------

    def loss(self, scores: Tensor, targets: Tensor, group: Tensor, *, observe: bool = True) -> Tensor:
        """() mean loss of the batch plus w . g, to call .backward() on; in float32 at least.

        scores: (B,) or (B, 1), higher is more positive. targets: (B,) in {0, 1}. group: (B,) or (B, A) codes, -1
        missing: such a row enters the mean loss only. observe: False where the batch must not enter the running
        estimates (validation, or an LBFGS closure, which tries points; see `observe`).
        Raises: OptionError (shapes), DataError (labels, codes), NonFiniteError naming batch, constraints and groups.
        """
        s, y, cells = self._rows(scores, targets, group)
        per_row = self._loss.value(s, y).to(s.dtype)
        if not self._usable(s, per_row, cells, observe):
            return torch.zeros((), dtype=s.dtype, device=s.device, requires_grad=True)
        if observe:
            self._means.queue.add(s, per_row, y, cells, self._state["k"])
        if self._row_weights is None:
            return per_row.mean()
        v = self._row_weights.take(cells)
        own, others = torch.ones_like(y), []
        for kind, columns in zip(self._kinds, self._means.columns_of, strict=True):
            part = v if len(columns) == v.shape[1] else v[:, columns]
            part = part.squeeze(1) if part.shape[1] == 1 else part.sum(1)
            if kind is self._loss:
                own += part
            else:
                others.append(torch.dot(part.div_(len(s)), kind.value(s, y)))
        return sum(others, torch.dot(own.div_(len(s)), per_row)) + self._constant

    @torch.no_grad()
    def observe(self, scores: Tensor, targets: Tensor, group: Tensor) -> None:
        """Let a batch enter the running estimates without a loss; arguments as in `loss`."""
        s, y, cells = self._rows(scores.detach(), targets, group)
        per_row = self._loss.value(s, y).to(s.dtype)
        if self._usable(s, per_row, cells, True):
            self._means.queue.add(s, per_row, y, cells, self._state["k"])

    @torch.no_grad()
    def step(self) -> None:
        """Close an optimiser step; every `dual_every` of them moves the multipliers."""
        s, world = self._state, self._world()
        if world == 1 and s["calls"] == s["calls_at_step"]:
            raise FairboundError(
                "Dual.step() was called without a batch since the last step(); call loss(scores, "
                "targets, group) or observe(...) in every step."
            )
        s["calls_at_step"] = s["calls"]
        s["k"] += 1
        if s["k"] % self.config.dual_every == 0:
            self._update(world)
        else:
            self._means.shorten(world)

    def _rows(self, scores: Tensor, targets: Tensor, group: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Scores (B,) and targets (B,) in float32 at least, and cells (B, C)."""
        if scores.dim() == 2 and scores.shape[1] == 1:
            scores = scores.squeeze(1)
        if scores.dim() != 1 or not scores.is_floating_point() or not len(scores):
            raise OptionError(
                f"scores must be floating (B,) or (B, 1), one real score per row and at least one row, "
                f"got {scores.dtype} {tuple(scores.shape)}. Several classes are not supported: pass the "
                "score of the class that counts as positive against the rest."
            )
        s = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
        if (s.device, s.dtype) != self._place:
            self._move(s.device, s.dtype)
        try:
            codes = torch.as_tensor(group, device=s.device)
        except (TypeError, ValueError):
            raise OptionError("group must hold integer codes, as dual.encode(sensitive_features) gives.") from None
        labels = torch.as_tensor(targets, device=s.device)
        shapes = tuple(labels.shape), tuple(codes.shape)
        labels, codes = labels.reshape(-1), codes.unsqueeze(1) if codes.dim() == 1 else codes
        attributes = len(self.groups.attributes)
        if len(labels) != len(s) or codes.shape != (len(s), attributes) or codes.is_floating_point():
            raise OptionError(
                f"targets must be ({len(s)},) and group integer codes ({len(s)}, {attributes}), one "
                f"column for each of {self.groups.attributes}, got {shapes[0]} and {codes.dtype} "
                f"{shapes[1]}."
            )
        return s, labels.to(s.dtype), self._cells(codes.long(), labels, self.groups)

    def _usable(self, s: Tensor, per_row: Tensor, cells: Tensor, observe: bool) -> bool:
        """Whether every score and loss is finite; raises or skips the batch where one is not."""
        state = self._state
        state["calls"] += observe
        total = float(torch.dot(s.detach(), per_row.detach()))
        if total - total == 0.0:
            return True
        bad = ~(torch.isfinite(s) & torch.isfinite(per_row)).detach()
        if not bool(bad.any()):
            return True
        if self.nonfinite == "skip":
            state["skipped"] += 1
            return False
        names, groups = self.plan.touched(cells[bad].flatten().tolist())
        raise NonFiniteError(
            f"scores or losses are NaN or infinite in {int(bad.sum())} of {len(s)} rows of batch {state['calls']}"
            + (f"; groups {some(groups)}; constraints {some(names)}" if groups else "; no bound is on their groups")
            + ". Nothing of the batch entered the multipliers. Look for NaN or huge values in these rows, lower the "
            "learning rate, or use Dual(..., nonfinite='skip') to skip and count such batches."
        )

    # -- multipliers --------------------------------------------------------------------------------------------

    def _world(self) -> int:
        together = self.distributed and distributed.is_available() and distributed.is_initialized()
        return distributed.get_world_size() if together else 1

    def _update(self, world: int) -> None:
        """y <- [y + eta g]_+, w = [y + rho g]_+ for the contrasts whose groups all had rows since the last update."""
        s, config = self._state, self.config
        fresh = seen_contrasts(self.plan, self._means.update(world, self._place[0]) > 0)
        mean, rows = self._means.state["mean"], self._means.state["rows"]
        s["weighed"], s["processes"] = s["k"], world
        slower = decayed(s["k"], config.decay_steps, config.decay)
        g, _ = self._contrasts.values(mean[:, -1])
        move = self._scale * g
        y = (s["multipliers"] + config.dual_step_size * slower * move).clamp_(0, config.multiplier_bound)
        if fresh is not None:
            g, y = torch.where(fresh, g, s["g"]), torch.where(fresh, y, s["multipliers"])
        s["g"], s["multipliers"] = g, y
        s["w"] = (y + config.penalty * self._scale * g).clamp_(0, config.multiplier_bound)
        now = stated_values(self.plan, self._contrasts, mean[:, 0], rows > 0)
        best = [better(b, *pair) for b, *pair in zip(self.plan.notions, s["smallest"].tolist(), now, strict=True)]
        s["smallest"] = torch.tensor(best, dtype=torch.float64)
        self._weigh()

    def _weigh(self) -> None:
        """Weight of a row by cell, (K + 1,), the last for rows in none; and the constant -w . bounds.

        A contrast whose rarest cell has a fraction of a row per step enters with that fraction of its weight, so that
        no row weighs more than w.
        """
        s, means = self._state, self._means.state
        if not bool(s["w"].any()):
            self._row_weights, self._constant = None, 0.0
            return
        memo = self._contrasts.values(means["mean"][:, -1])[1]
        often = torch.cat([(means["rows"] / s["weighed"]).clamp_max(1), means["rows"].new_ones(1)])
        w = s["w"] * often[cells_behind(self.plan, self._contrasts, memo)].amin(-1)
        share = means["rows"] / means["total_rows"]
        v = torch.where(share > 0, self._contrasts.vjp(w, memo) / share.clamp_min(1e-300), 0.0)
        self._row_weights = torch.cat([v, v.new_zeros(1)]).to(*self._place)
        self._constant = -float(w @ self._contrasts.bounds)

    def _move(self, device: torch.device, dtype: torch.dtype) -> None:
        """Rows are kept and looked up where the scores are; sums and multipliers stay on the CPU."""
        self._place = device, dtype
        self._cells.to(device)
        self._means.queue.to(device)
        self._weigh()

    # -- checkpoints --------------------------------------------------------------------------------------------

    def _identity(self) -> dict[str, Any]:
        return {
            "stated": [n.text for n in self.plan.notions],
            "names": list(self.names),
            "cells": list(self.plan.cell_names),
            "loss": self._loss.name,
            "dual_values": self.config.dual_values,
        }

    def state_dict(self) -> dict[str, Any]:
        """Multipliers, running estimates and counters as plain values and CPU tensors, with the names they belong to.

        With several processes, the rows since the last update are this process's own: save one per process.
        """
        state = {**self._state, **self._means.state}
        copied = {key: value.clone() if isinstance(value, Tensor) else value for key, value in state.items()}
        return {"format": FORMAT, **self._identity(), **copied, "queue": self._means.queue.plain()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from `state_dict()`: the same batches then give the same numbers, bit for bit.

        Raises: CheckpointError where a key is missing or unknown, where bounds, names, groups or loss differ, or where
        a value has another shape or is not a possible one (NaN, a negative multiplier). Nothing is changed then.
        """
        here = {"format": FORMAT, **self._identity()}
        fresh = {**self._fresh(), **self._means.fresh()}
        state = checked_state(state_dict, fresh, here, self.config.multiplier_bound, ("queue",))
        queue = Queue.of(state_dict["queue"], len(self.plan.columns), self.plan.n_cells)
        self._state = {key: state[key] for key in self._fresh()}
        self._means.state, self._means.queue = {key: state[key] for key in self._means.fresh()}, queue
        self._move(*self._place)
