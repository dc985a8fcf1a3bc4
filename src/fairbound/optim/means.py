"""Running means of the cells that bounds compare, from the batches a loop has seen lately.

    S <- S exp(-b / memory) + (sums over the b rows of a step),    N likewise,    mean = S / N.

Batches are kept as they come and summed at updates, together with those of other processes: sums and counts, never
ratios. A cell without a row keeps its mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed

from fairbound.base.errors import CheckpointError
from fairbound.fairness.bound import Bound
from fairbound.fairness.contrasts import Contrasts, Memo, seen_contrasts
from fairbound.fairness.plan import Plan
from fairbound.fairness.pointwise import Pointwise

QUEUE_ROWS = 1 << 16  # rows kept before they are summed, where no update comes first


@dataclass
class Queue:
    """Rows of the latest batches, as they came: what running sums are made of, now and then, in one go.

    values: (3, B) scores, losses and targets of each batch; cells: (B, C); steps: the optimiser step each came in.
    """

    values: list[Tensor] = field(default_factory=list)
    cells: list[Tensor] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    rows: int = 0

    def add(self, scores: Tensor, losses: Tensor, y: Tensor, cells: Tensor, step: int) -> None:
        """A batch of step `step`: scores, losses and labels (B,), cells (B, C)."""
        self.values.append(torch.stack([scores.detach(), losses.detach(), y]))
        self.cells.append(cells)
        self.steps.append(step)
        self.rows += len(cells)

    def to(self, device: torch.device) -> None:
        self.values = [v.to(device) for v in self.values]
        self.cells = [c.to(device) for c in self.cells]

    def joined(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """All rows: values (3, N), cells (N, C), number of the batch (N,), and rows that came in later steps (N,)."""
        sizes, steps = np.array([len(c) for c in self.cells]), np.array(self.steps)
        until = np.cumsum(sizes)
        age = self.rows - until[np.searchsorted(steps, steps, side="right") - 1]
        per_row = torch.as_tensor(np.repeat(np.stack([np.arange(len(sizes)), age]), sizes, axis=1))
        number, later = per_row.to(self.cells[0].device)
        return torch.cat(self.values, dim=1), torch.cat(self.cells), number, later

    def plain(self) -> dict[str, Any]:
        """Lists of CPU tensors and numbers."""
        return {
            "values": [v.to("cpu", copy=True) for v in self.values],
            "cells": [c.to("cpu", copy=True) for c in self.cells],
            "steps": list(self.steps),
        }

    @classmethod
    def of(cls, saved: Any, columns: int, none: int) -> Queue:
        """The rows that `plain` gave. Raises: CheckpointError where they are not such rows."""
        try:
            values, cells = [v.clone() for v in saved["values"]], [c.clone() for c in saved["cells"]]
            steps = list(saved["steps"])
            fits = (
                len(saved) == 3
                and len(values) == len(cells) == len(steps)
                and steps == sorted(steps)
                and all(
                    v.shape == (3, len(c))
                    and c.shape[1] == columns
                    and c.dtype == torch.int64
                    and bool(torch.isfinite(v).all() & ((c >= 0) & (c <= none)).all())
                    for v, c in zip(values, cells, strict=True)
                )
            )
        except (TypeError, KeyError, AttributeError, IndexError) as error:
            raise CheckpointError(
                f"the state of Dual has unreadable recent rows ({type(error).__name__}: {error}); "
                "pass what state_dict() returned."
            ) from error
        if not fits:
            raise CheckpointError(
                "the state of Dual has recent rows of other shapes, or with NaN; use an earlier checkpoint."
            )
        return cls(values, cells, steps, sum(len(c) for c in cells))


class RunningMeans:
    """memory: in rows. statistics: for each, one function per row function of the plan, whose means over cells are kept.
    loss: the function whose values come with the rows. world: number of processes that are summed over.

    state: mean (K, S), weight (K,): means and their effective rows, at the last update. rows (K,), lacked (K,): all
    rows seen till then, and batches without one; total_rows, total_batches. window (K, 1 + S): decayed counts and sums
    since then, of the window_rows in window_batches no longer in the queue; tally (K, 2): their rows and lacks.
    """

    def __init__(self, plan: Plan, statistics: list[list[Pointwise]], loss: Pointwise, memory: float):
        self.plan, self.statistics, self.loss, self.memory = plan, statistics, loss, memory
        self.columns_of = [[j for j, c in enumerate(plan.columns) if c.function == f] for f in plan.functions]
        self.state, self.queue = self.fresh(), Queue()

    def fresh(self) -> dict[str, Any]:
        k, s = self.plan.n_cells, len(self.statistics)
        shapes = {"mean": (k, s), "weight": (k,), "rows": (k,), "lacked": (k,), "window": (k, 1 + s), "tally": (k, 2)}
        numbers = ("total_rows", "total_batches", "window_rows", "window_batches")
        return {
            **{name: torch.zeros(shape, dtype=torch.float64) for name, shape in shapes.items()},
            **dict.fromkeys(numbers, 0),
        }

    @property
    def seen_rows(self) -> int:
        return self.state["total_rows"] + self.state["window_rows"] + self.queue.rows

    @property
    def seen_batches(self) -> int:
        return self.state["total_batches"] + self.state["window_batches"] + len(self.queue.steps)

    @torch.no_grad()
    def counted(self, world: int = 1) -> tuple[Tensor, Tensor]:
        """window and tally with the queue added; the state stays as it is."""
        s, queue, k = self.state, self.queue, self.plan.n_cells
        if not queue.rows:
            return s["window"].clone(), s["tally"].clone()
        (scores, losses, y), cells, batch, age = queue.joined()
        dtype = _exact(scores.device)
        entries = torch.ones(*cells.shape, 1 + len(self.statistics), dtype=dtype, device=scores.device)
        for slot, kinds in enumerate(self.statistics, start=1):
            for kind, columns in zip(kinds, self.columns_of, strict=True):
                phi = losses if kind is self.loss else kind.value(scores, y)
                entries[:, columns, slot] = phi.to(dtype).unsqueeze(1)
        entries *= torch.exp(age.to(dtype) * (-world / self.memory)).view(-1, 1, 1)
        sums = entries.new_zeros(k + 1, entries.shape[-1]).index_add_(0, cells.flatten(), entries.flatten(0, 1))
        met = torch.unique(batch.unsqueeze(1) * (k + 1) + cells) % (k + 1)
        rows, batches = (torch.bincount(c, minlength=k + 1) for c in (cells.flatten(), met))
        tally = torch.stack([rows, len(queue.steps) - batches], dim=1)
        kept = math.exp(-queue.rows * world / self.memory)
        return s["window"] * kept + sums[:k].cpu().double(), s["tally"] + tally[:k].cpu()

    def latest(self) -> tuple[Tensor, Tensor]:
        """(K, S) means and (K,) rows seen, with what this process has seen since the last update."""
        window, tally = self.counted()
        return self._joined(window, self.state["window_rows"] + self.queue.rows)[0], self.state["rows"] + tally[:, 0]

    def lacked(self) -> Tensor:
        """(K,) batches without a row of the cell."""
        return self.state["lacked"] + self.counted()[1][:, 1]

    def shorten(self, world: int) -> None:
        """Sum the queue up where it has grown long."""
        if self.queue.rows > QUEUE_ROWS:
            self._empty(world)

    def update(self, world: int, device: torch.device) -> Tensor:
        """Bring mean, weight, rows and lacked up to date, over all processes; (K,) rows since the last update."""
        s = self.state
        self._empty(world)
        totals = torch.tensor([s["window_rows"], s["window_batches"]], dtype=torch.float64)
        window, tally = s["window"], s["tally"]
        if world > 1:
            parts = (window, tally, totals)
            joint = torch.cat([p.flatten() for p in parts]).to(device, _exact(device))
            distributed.all_reduce(joint)
            flat = joint.cpu().double().split([p.numel() for p in parts])
            window, tally, totals = (f.view_as(p) for f, p in zip(flat, parts, strict=True))
        rows, batches = (int(t) for t in totals.tolist())
        s["mean"], s["weight"] = self._joined(window, rows)
        s["rows"], s["lacked"] = s["rows"] + tally[:, 0], s["lacked"] + tally[:, 1]
        s["total_rows"] += rows
        s["total_batches"] += batches
        s["window"], s["tally"] = torch.zeros_like(window), torch.zeros_like(tally)
        s["window_rows"] = s["window_batches"] = 0
        return tally[:, 0]

    def _empty(self, world: int) -> None:
        s = self.state
        s["window"], s["tally"] = self.counted(world)
        s["window_rows"] += self.queue.rows
        s["window_batches"] += len(self.queue.steps)
        self.queue = Queue()

    def _joined(self, window: Tensor, rows: int) -> tuple[Tensor, Tensor]:
        """mean and weight with a window of `rows` rows added."""
        before = self.state["weight"] * math.exp(-rows / self.memory)
        after = before + window[:, 0]
        mean = (before.unsqueeze(1) * self.state["mean"] + window[:, 1:]) / after.clamp_min(1e-300).unsqueeze(1)
        return torch.where(window[:, :1] > 0, mean, self.state["mean"]), after


def _exact(device: torch.device) -> torch.dtype:
    """The dtype of sums: float64 where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


def stated_values(plan: Plan, contrasts: Contrasts, q: Tensor, seen: Tensor) -> list[float]:
    """The value of each bound from cell means q (K,), NaN where none of its groups has been seen (K,)."""
    known = seen_contrasts(plan, seen)
    out = []
    for number, bound in enumerate(plan.notions):
        rows = plan.rows_of(number)
        rows = rows if known is None else rows[known[rows].numpy()]
        out.append(float(bound.value_of(*contrasts.raw(q, rows))) if len(rows) else math.nan)
    return out


def better(bound: Bound, one: float, other: float) -> float:
    """The value nearer to what is asked for; the one that is a number where one is NaN."""
    if one != one or other != other:
        return other if one != one else one
    return max(one, other) if bound.sense == "at least" else min(one, other)


def cells_behind(plan: Plan, contrasts: Contrasts, memo: Memo | None) -> Tensor:
    """(m, t) the cell behind each term of each contrast, K for none."""
    if memo is None or memo.compared is None or len(plan.ratios):
        return torch.as_tensor(plan.cells_of)
    return torch.where(contrasts.coefficient != 0, memo.compared, plan.n_cells)
