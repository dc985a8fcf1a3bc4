"""Running means of the cells that bounds compare, from the batches a loop has seen lately.

    S <- S exp(-b / memory) + (sums over the b rows of a step),    N likewise,    mean = S / N.

Batches are kept as they come and summed at updates, together with those of other processes: sums and counts, never
ratios. A cell without a row keeps its mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed

from fairbound.fairness.bound import Bound
from fairbound.fairness.contrasts import Memo, PlanContrasts, seen_contrasts
from fairbound.fairness.plan import Plan
from fairbound.fairness.pointwise import Pointwise
from fairbound.fairness.statistics import SELECTED, ClassShare, RowFunction
from fairbound.optim.batch import Batch, Keys
from fairbound.optim.queue import Queue
from fairbound.optim.recent import Recent
from fairbound.optim.state import DualReport, by_name

LEAST = 1e-300  # for the weight of a cell without rows
# rows, or sums of a batch over a cell, that are kept before they are summed up, where no update comes first
QUEUE_ROWS = 1 << 16


@lru_cache(maxsize=8)
def layout(
    steps: tuple[int, ...], sizes: tuple[int, ...], lengths: tuple[int, ...], rate: float, width: int, columns: int
) -> tuple[np.ndarray, np.ndarray]:
    """What depends on the shape of joined rows alone, kept because the shape seldom changes: for each row of each
    column (columns * N,) what it still weighs, exp(-rate * rows of later steps), and its batch's number times
    `width`."""
    ages, later, since, step = [], 0, 0, None
    for own, size in zip(reversed(steps), reversed(sizes), strict=True):
        if own != step:
            later, since, step = later + since, 0, own
        since += size
        ages.append(later)
    faded, first = np.exp(-rate * np.array(ages[::-1])), width * np.arange(len(ages))
    return np.tile(faded.repeat(lengths), columns), np.tile(first.repeat(lengths), columns)


class RunningMeans:
    """memory: in rows. statistics: for each, one function per row function of the plan, whose means over cells are
    kept.
    loss: the function whose values come with the rows. world: number of processes that are summed over.

    state: mean (K, S), weight (K,): means and their effective weight, at the last update. rows (K,), lacked (K,), mass
    (K,): all rows seen till then, batches without one, and the rows' weight; total_rows, total_batches. window (K,
    1 + S): decayed weights and sums since then, of the window_rows in window_batches no longer in the queue; tally (K,
    3): their rows, lacks and weight.
    """

    def __init__(self, plan: Plan, statistics: list[list[Pointwise]], loss: Pointwise, memory: float, keys: Keys):
        self.plan, self.statistics, self.loss, self.memory, self.keys = plan, statistics, loss, memory, keys
        self._function_of = [plan.functions.index(c.function) for c in plan.columns]
        self._most_batches = QUEUE_ROWS // max(plan.n_cells, 1)
        self.state, self.queue, self.recent = self.fresh(), Queue(), Recent(torch.float32)

    def fresh(self) -> dict[str, Any]:
        k, s = self.plan.n_cells, len(self.statistics)
        shapes = {"mean": (k, s), "weight": (k,), "rows": (k,), "lacked": (k,), "mass": (k,)}
        shapes |= {"window": (k, 1 + s), "tally": (k, 3)}
        numbers = ("total_rows", "total_batches", "window_rows", "window_batches")
        return {**{name: np.zeros(shape) for name, shape in shapes.items()}, **dict.fromkeys(numbers, 0)}

    @property
    def since(self) -> int:
        """Rows since the last update."""
        return self.state["window_rows"] + self.queue.rows + self.recent.rows

    @property
    def seen_rows(self) -> int:
        return self.state["total_rows"] + self.since

    @property
    def seen_batches(self) -> int:
        return (
            self.state["total_batches"] + self.state["window_batches"] + len(self.queue.steps) + len(self.recent.steps)
        )

    def to(self, device: torch.device, dtype: torch.dtype) -> None:
        """Where the latest rows are kept, and the dtype of their scores."""
        if self.recent.rows:
            self.queue.take_in(self.recent, self.keys)
        self.queue.to(device)
        self.recent = Recent(dtype if device.type == "cpu" else None)

    def saved(self) -> dict[str, Any]:
        """The latest rows as plain data."""
        if self.recent.rows:
            self.queue.take_in(self.recent, self.keys)
        return self.queue.plain()

    def resume(self, state: Mapping[str, Any], queue: Queue) -> None:
        """Continue from these sums and latest rows."""
        self.state, self.queue = {key: state[key] for key in self.state}, queue
        self.recent.clear()

    @torch.no_grad()
    def counted(self, world: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """window and tally with the latest rows added; the state stays as it is."""
        s = self.state
        if not (rows := self.queue.rows + self.recent.rows):
            return s["window"], s["tally"]
        scores, y, cells, weight, shape = self._latest_rows().joined(self.keys)
        columns, width, batches = len(cells), self.plan.n_cells + 1, len(shape[0])
        faded, first = layout(*shape, world / self.memory, width, columns)
        place, met = cells.ravel(), None
        if weight is not None:
            weight = np.tile(weight, columns)
            faded, met = faded * weight, weight > 0
        found = np.bincount(place + first, met, batches * width).reshape(batches, width)
        window = [np.bincount(place, faded, width)]
        for kinds in self.statistics:
            values = [kind.value(scores, y).numpy() for kind in kinds]
            each = values[0] if columns == 1 else np.concatenate([values[f] for f in self._function_of])
            window.append(np.bincount(place, faded * each, width))
        seen = np.add.reduce(found)
        tally = [seen, np.add.reduce(found == 0), seen if weight is None else np.bincount(place, weight, width)]
        return self._more(s["window"], math.exp(-rows * world / self.memory), window), self._more(
            s["tally"], 1.0, tally
        )

    def _more(self, before: np.ndarray, factor: float, columns: list[np.ndarray]) -> np.ndarray:
        """(K, columns): sums of a window, faded, and further ones, (K + 1,) each."""
        sums = np.array(columns, dtype=float).T[:-1]
        return before * factor + sums if self.state["window_rows"] else sums

    def _latest_rows(self) -> Queue | Recent:
        """The rows since the last sums, in one place: those of both kinds of batches in the queue."""
        if not self.queue.rows:
            return self.recent
        if self.recent.rows:
            self.queue.take_in(self.recent, self.keys)
        return self.queue

    def add(self, batch: Batch, step: int) -> None:
        """A batch of step `step`."""
        if self.recent.rows:
            self.queue.take_in(self.recent, self.keys)
        self.queue.add(batch, self.keys.kept(batch), step)

    def latest(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(K, S) means, (K,) rows seen, and (K,) rows that the means rest on, each counted as what it still weighs;
        with what this process has seen since the last update."""
        window, tally = self.counted()
        mean, weight = self._joined(window, self.since)
        return mean, self.state["rows"] + tally[:, 0], weight

    def lacked(self) -> np.ndarray:
        """(K,) batches without a row of the cell."""
        return self.state["lacked"] + self.counted()[1][:, 1]

    def shorten(self, world: int) -> None:
        """Sum the latest rows up where there are many."""
        queue, recent = self.queue, self.recent
        if queue.rows + recent.rows > QUEUE_ROWS or len(queue.keys) + len(recent.steps) > self._most_batches:
            self._empty(world)

    def update(self, world: int, device: torch.device) -> np.ndarray:
        """Bring mean, weight, rows and lacked up to date, over all processes; (K,) rows since the last update."""
        s = self.state
        self._empty(world)
        window, tally, rows, batches = s["window"], s["tally"], s["window_rows"], s["window_batches"]
        if world > 1:
            joint = torch.as_tensor(np.concatenate([window.ravel(), tally.ravel(), [rows, batches]]))
            joint = joint.to(device, _exact(device))
            distributed.all_reduce(joint)
            *sums, rows, batches = joint.tolist()
            window = np.array(sums[: window.size]).reshape(window.shape)
            tally, rows, batches = np.array(sums[window.size :]).reshape(tally.shape), int(rows), int(batches)
        s["mean"], s["weight"] = self._joined(window, rows)
        seen, lacked, mass = tally.T
        s["rows"], s["lacked"], s["mass"] = s["rows"] + seen, s["lacked"] + lacked, s["mass"] + mass
        s["total_rows"] += rows
        s["total_batches"] += batches
        s["window"], s["tally"] = np.zeros(window.shape), np.zeros(tally.shape)
        s["window_rows"] = s["window_batches"] = 0
        return seen

    def _empty(self, world: int) -> None:
        s = self.state
        s["window"], s["tally"] = self.counted(world)
        s["window_rows"] += self.queue.rows + self.recent.rows
        s["window_batches"] += len(self.queue.steps) + len(self.recent.steps)
        self.recent.clear()
        if self.queue.rows:
            self.queue = Queue()

    def _joined(self, window: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
        """mean and weight with a window of `rows` rows added."""
        after = self.state["weight"] * math.exp(-rows / self.memory) + window[:, 0]
        mean = self.state["mean"]
        return mean + (window[:, 1:] - window[:, :1] * mean) / np.maximum(after, LEAST)[:, None], after


def processes(together: bool) -> int:
    """How many processes work together: those of the default group where it is initialised, else 1."""
    joined = together and distributed.is_available() and distributed.is_initialized()
    return distributed.get_world_size() if joined else 1


def _exact(device: torch.device) -> torch.dtype:
    """The dtype of sums: float64 where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


def _measured(plan: Plan, contrasts: PlanContrasts, q: Tensor, rows: np.ndarray) -> list[Any]:
    """The value of each bound from cell means q (K,), NaN where none of its groups has rows (K,)."""
    known, out = seen_contrasts(plan, torch.from_numpy(rows > 0)), []
    for number, bound in enumerate(plan.notions):
        rows = plan.rows_of(number)
        rows = rows if known is None else rows[known[rows].numpy()]
        out.append(bound.value_of(*contrasts.raw(q, rows)) if len(rows) else math.nan)
    return out


def stated_values(plan: Plan, contrasts: PlanContrasts, mean: np.ndarray, rows: np.ndarray) -> list[float]:
    """The same as numbers, from means (K, S)."""
    return [float(v) for v in _measured(plan, contrasts, torch.from_numpy(mean)[:, 0], rows)]


def standard_errors(plan: Plan, contrasts: PlanContrasts, mean: np.ndarray, weight: np.ndarray) -> list[float]:
    """The standard error of each bound's value, from its slopes in the cells' rates and the rows that these rest on
    (K,), as if cells had no row in common; NaN where it is not made of rates alone, or not measured."""
    n, rates = np.maximum(weight, 1), np.zeros(plan.n_cells, dtype=bool)
    for column in plan.columns:
        f = column.function
        counted = isinstance(f, RowFunction) and f.table is not None and {v for row in f.table for v in row} <= {0, 1}
        rates[column.offset : column.offset + column.cells] = counted or isinstance(f, ClassShare)
    p = (mean[:, 0] * n + 1) / (n + 2)  # never 0 or 1
    variance, apart = p * (1 - p) / n, 1e-9 * np.arange(plan.n_cells)  # of two equal contrasts one has a slope
    with torch.enable_grad():
        q = torch.from_numpy(mean[:, 0] + apart).requires_grad_()
        values, out = _measured(plan, contrasts, q, weight), []
        for value in values:
            of_rates = isinstance(value, Tensor) and value.requires_grad and not len(plan.ratios)
            slope = (
                torch.autograd.grad(value, q, retain_graph=True)[0].numpy() if of_rates else np.full(len(n), math.nan)
            )
            out.append(math.sqrt(slope**2 @ variance) if rates[slope != 0].all() else math.nan)
    return out


def better(bound: Bound, one: float, other: float) -> float:
    """The value nearer to what is asked for; the one that is a number where one is NaN."""
    if one != one or other != other:
        return other if one != one else one
    return max(one, other) if bound.sense == "at least" else min(one, other)


def best_of(
    plan: Plan, contrasts: PlanContrasts, best: np.ndarray, passed: list[tuple[np.ndarray, np.ndarray]]
) -> np.ndarray:
    """(bounds,) the best of each bound's estimates so far and of those from means and rows that were passed since."""
    out = best.tolist()
    for means in passed:
        now = stated_values(plan, contrasts, *means)
        out = [better(*each) for each in zip(plan.notions, out, now, strict=True)]
    return np.array(out)


def compared(contrasts: PlanContrasts, q: np.ndarray) -> tuple[np.ndarray, Memo | None]:
    """g (m,) at cell means q (K,), and what `cell_weights` needs; plain differences without torch,
    which costs a third."""
    if contrasts.is_difference:
        first, second = contrasts.plan.index.T
        return q[first] - q[second] - contrasts.plan.bounds, None
    g, memo = contrasts.values(torch.from_numpy(q))
    return g.numpy(), memo


def cell_weights(
    contrasts: PlanContrasts, w: np.ndarray, state: dict[str, Any], steps: int, memo: Memo | None
) -> tuple[np.ndarray, np.ndarray]:
    """w (m,) as it enters the loss, and (K + 1,) what a row of each cell, and of none, then weighs: the gradient of w .
    g in the cell's mean over the share of all rows that lie in it. state: of the running means, after `steps` steps.

    A contrast whose rarest cell has a fraction of a row per step enters with that fraction of its weight, so that no
    row weighs more than w.
    """
    plan, rows = contrasts.plan, state["rows"]
    if np.count_nonzero(rows < steps):
        often, cells = np.append(np.minimum(rows / steps, 1), 1), plan.cells_of
        if memo is not None and memo.compared is not None and not len(plan.ratios):
            cells = torch.where(contrasts.coefficient != 0, memo.compared, plan.n_cells).numpy()
        w = w * often[cells].min(-1)
    if contrasts.is_difference:
        first, second = plan.index.T
        slope = np.bincount(first, w, plan.n_cells + 1) - np.bincount(second, w, plan.n_cells + 1)
    else:
        slope = np.append(contrasts.vjp(torch.from_numpy(w), memo).numpy(), 0.0)
    slope[:-1] *= state["total_rows"] / np.maximum(state["mass"], LEAST)
    return w, slope


def _decided_alike(plan: Plan, means: np.ndarray) -> str | None:
    """How all rows are decided, "positive" or "negative", by the means of cells with rows; None where not alike, or
    where other things are averaged than decisions."""
    if not len(means) or not all(isinstance(f, RowFunction) and f.table == SELECTED for f in plan.functions):
        return None
    return "positive" if means.min() > 1 - 1e-9 else "negative" if means.max() < 1e-9 else None


def report_of(
    plan: Plan,
    stated: Sequence[Bound],
    state: dict[str, Any],
    means: RunningMeans,
    values: dict[str, float],
    per_bound: Any,
    cap: float,
) -> DualReport:
    """Where a Dual stands. stated: its bounds; state: of the Dual; values: of the bounds, in their units; per_bound:
    what 1 in the state's is in these; cap: what no
    multiplier exceeds."""
    y, names = torch.from_numpy(state["multipliers"]), plan.cell_names
    compared = plan.used_cells().tolist()
    lacked, (latest, seen, weight) = means.lacked().tolist(), means.latest()
    rows, smallest = seen.tolist(), (per_bound * state["smallest"]).tolist()
    rest = (latest, weight) if state["processes"] == 1 else (means.state["mean"], means.state["weight"])
    errors = per_bound * np.array(standard_errors(plan, PlanContrasts(plan), *rest))
    return DualReport(
        steps=state["k"],
        batches=means.seen_batches,
        rows=means.seen_rows,
        skipped=state["skipped"],
        values=values,
        standard_errors=dict(zip(values, errors.tolist(), strict=True)),
        bounds={b.text: float(b.stated) for b in stated},
        smallest={
            b.text: better(b, values[b.text], v) if values[b.text] == values[b.text] else math.nan
            for b, v in zip(stated, smallest, strict=True)
        },
        multipliers={plan.names[i]: float(y[i]) for i in y.nonzero().flatten().tolist()},
        at_cap=tuple(plan.names[i] for i in (y >= cap).nonzero().flatten().tolist()),
        lacking=by_name((names[c], int(lacked[c])) for c in compared if lacked[c]),
        unmeasured=tuple(by_name((names[c], 1) for c in compared if not rows[c])),
        rests_on={names[c]: round(float(weight[c])) for c in sorted(compared, key=lambda c: -weight[c]) if rows[c]},
        processes=state["processes"],
        alike=_decided_alike(plan, latest[seen > 0, 0]),
    )
