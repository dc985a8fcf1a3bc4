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
from fairbound.optim.batch import Batch, Keys
from fairbound.optim.state import DualReport, by_name

QUEUE_ROWS = 1 << 16  # rows kept before they are summed, where no update comes first


@dataclass
class Queue:
    """Rows of the latest batches, as they came: what running sums are made of, now and then, in one go.

    scores: (B,) or (B, k) of each batch; keys: (B,); weights: (B,), or None for equal ones; steps: the optimiser step each came
    in; sizes: the rows that the loop gave.
    """

    scores: list[Tensor] = field(default_factory=list)
    keys: list[Tensor] = field(default_factory=list)
    weights: list[Tensor | None] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    rows: int = 0

    def add(self, batch: Batch, step: int) -> None:
        """A batch of step `step`."""
        self.scores.append(batch.scores.detach())
        self.keys.append(batch.keys)
        self.weights.append(batch.weight)
        self.steps.append(step)
        self.sizes.append(batch.rows)
        self.rows += batch.rows

    def to(self, device: torch.device) -> None:
        self.scores = [s.to(device) for s in self.scores]
        self.keys = [k.to(device) for k in self.keys]
        self.weights = [None if w is None else w.to(device) for w in self.weights]

    def joined(self) -> tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor]:
        """All rows: scores (N,) or (N, k), keys (N,), weights (N,) or None, number of the batch (N,), and rows that came in
        later steps (N,)."""
        entries, steps = np.array([len(k) for k in self.keys]), np.array(self.steps)
        until = np.cumsum(self.sizes)
        age = self.rows - until[np.searchsorted(steps, steps, side="right") - 1]
        per_row = torch.as_tensor(np.repeat(np.stack([np.arange(len(entries)), age]), entries, axis=1))
        number, later = per_row.to(self.keys[0].device)
        weight = None
        if any(w is not None for w in self.weights):
            pairs = zip(self.weights, self.scores, strict=True)
            weight = torch.cat([s.new_ones(len(s)) if w is None else w for w, s in pairs])
        return torch.cat(self.scores), torch.cat(self.keys), weight, number, later

    def plain(self) -> dict[str, Any]:
        """Lists of CPU tensors and numbers."""
        return {
            "scores": [s.to("cpu", copy=True) for s in self.scores],
            "keys": [k.to("cpu", copy=True) for k in self.keys],
            "weights": [None if w is None else w.to("cpu", copy=True) for w in self.weights],
            "steps": list(self.steps),
            "sizes": list(self.sizes),
        }

    @classmethod
    def of(cls, saved: Any, keys: Keys) -> Queue:
        """The rows that `plain` gave. Raises: CheckpointError where they are not such rows."""
        shape = () if keys.outputs == 1 else (keys.outputs,)
        try:
            made = cls(
                [v.clone() for v in saved["scores"]],
                [k.clone() for k in saved["keys"]],
                [None if w is None else w.clone() for w in saved["weights"]],
                list(saved["steps"]),
                list(saved["sizes"]),
            )
            parts = list(zip(made.scores, made.keys, made.weights, made.steps, made.sizes, strict=True))
            fits = len(saved) == 5 and made.steps == sorted(made.steps)
            for s, k, w, _, size in parts:
                fits = fits and (
                    s.shape == (len(k), *shape)
                    and k.dtype == torch.int64
                    and len(k) in (size, 2 * size)
                    and bool(torch.isfinite(s).all() & ((k >= -keys.n) & (k < keys.n)).all())
                    and (w is None or (w.shape == k.shape and bool((torch.isfinite(w) & (w >= 0)).all())))
                )
        except (TypeError, KeyError, AttributeError, IndexError, ValueError) as error:
            raise CheckpointError(
                f"the state of Dual has unreadable recent rows ({type(error).__name__}: {error}); "
                "pass what state_dict() returned."
            ) from error
        if not fits:
            raise CheckpointError(
                "the state of Dual has recent rows of other shapes, or with NaN; use an earlier checkpoint."
            )
        made.rows = sum(made.sizes)
        return made


class RunningMeans:
    """memory: in rows. statistics: for each, one function per row function of the plan, whose means over cells are kept.
    loss: the function whose values come with the rows. world: number of processes that are summed over.

    state: mean (K, S), weight (K,): means and their effective weight, at the last update. rows (K,), lacked (K,), mass (K,):
    all rows seen till then, batches without one, and the rows' weight; total_rows, total_batches. window (K, 1 + S): decayed
    weights and sums since then, of the window_rows in window_batches no longer in the queue; tally (K, 3): their rows, lacks
    and weight.
    """

    def __init__(self, plan: Plan, statistics: list[list[Pointwise]], loss: Pointwise, memory: float, keys: Keys):
        self.plan, self.statistics, self.loss, self.memory, self.keys = plan, statistics, loss, memory, keys
        self.columns_of = [[j for j, c in enumerate(plan.columns) if c.function == f] for f in plan.functions]
        self.state, self.queue = self.fresh(), Queue()

    def fresh(self) -> dict[str, Any]:
        k, s = self.plan.n_cells, len(self.statistics)
        shapes = {"mean": (k, s), "weight": (k,), "rows": (k,), "lacked": (k,), "mass": (k,)}
        shapes |= {"window": (k, 1 + s), "tally": (k, 3)}
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
        scores, keys, weight, batch, age = queue.joined()
        y, cells = torch.remainder(keys, self.keys.classes).to(scores.dtype), self.keys.table[keys]
        dtype = _exact(scores.device)
        entries = torch.ones(*cells.shape, 1 + len(self.statistics), dtype=dtype, device=scores.device)
        for slot, kinds in enumerate(self.statistics, start=1):
            for kind, columns in zip(kinds, self.columns_of, strict=True):
                entries[:, columns, slot] = kind.value(scores, y).to(dtype).unsqueeze(1)
        if weight is not None:
            entries *= weight.to(dtype).view(-1, 1, 1)
        mass = entries[..., 0].flatten().clone()
        entries *= torch.exp(age.to(dtype) * (-world / self.memory)).view(-1, 1, 1)
        sums = entries.new_zeros(k + 1, entries.shape[-1]).index_add_(0, cells.flatten(), entries.flatten(0, 1))
        known = cells if weight is None else torch.where(weight.unsqueeze(1) > 0, cells, k)
        met = torch.zeros(len(queue.steps), k + 1, dtype=torch.bool, device=cells.device)
        met[batch.unsqueeze(1), known] = True
        rows, batches = torch.bincount(known.flatten(), minlength=k + 1), met.sum(0)
        masses = entries.new_zeros(k + 1).index_add_(0, cells.flatten(), mass)
        tally = torch.stack([rows.to(dtype), (len(queue.steps) - batches).to(dtype), masses], dim=1)
        kept = math.exp(-queue.rows * world / self.memory)
        return s["window"] * kept + sums[:k].cpu().double(), s["tally"] + tally[:k].cpu().double()

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
        s["rows"], s["lacked"], s["mass"] = (
            before + more for before, more in zip((s["rows"], s["lacked"], s["mass"]), tally.T, strict=True)
        )
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


def report_of(
    plan: Plan, state: dict[str, Any], means: RunningMeans, values: dict[str, float], cap: float
) -> DualReport:
    """Where a Dual stands. state: of the Dual; values: of its bounds, by text; cap: what no multiplier exceeds."""
    y, names = state["multipliers"], plan.cell_names
    compared = plan.used_cells().tolist()
    lacked, rows = means.lacked().tolist(), means.latest()[1].tolist()
    return DualReport(
        steps=state["k"],
        batches=means.seen_batches,
        rows=means.seen_rows,
        skipped=state["skipped"],
        values=values,
        bounds={n.text: float(n.stated) for n in plan.notions},
        smallest={
            b.text: better(b, values[b.text], v) if values[b.text] == values[b.text] else math.nan
            for b, v in zip(plan.notions, state["smallest"].tolist(), strict=True)
        },
        multipliers={plan.names[i]: float(y[i]) for i in y.nonzero().flatten().tolist()},
        at_cap=tuple(plan.names[i] for i in (y >= cap).nonzero().flatten().tolist()),
        lacking=by_name((names[c], int(lacked[c])) for c in compared if lacked[c]),
        unmeasured=tuple(by_name((names[c], 1) for c in compared if not rows[c])),
        processes=state["processes"],
    )
