"""Running means of the cells that bounds compare, from the batches a loop has seen lately.

    S <- S exp(-b / memory) + (sums over the b rows of a step),    N likewise,    mean = S / N.

Batches are kept as they come and summed at updates, together with those of other processes: sums and counts, never
ratios. A cell without a row keeps its mean.

A mean of rows seen while the model moved lags behind: by a drift d of the cell per row, steady, by d memory. So does a
mean of that mean, T <- T + a (mean - T), which moves with it from update to update; with a = b / (b + memory) for the b
rows between two of them mean - T is d memory too, the lag of the mean itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import distributed

from fairbound.fairness.compiled.contrasts import Memo, PlanContrasts
from fairbound.fairness.compiled.plan import Plan
from fairbound.fairness.compiled.statistics import ClassShare, RowFunction
from fairbound.fairness.pointwise import Pointwise
from fairbound.optim.batch import Batch, Keys
from fairbound.optim.fast_queue import FastQueue
from fairbound.optim.queue import Queue

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


class Latest(NamedTuple):
    """mean: (K, S); rows: (K,) seen; weight: (K,) what the rows still weigh; resting: (K,) how many rows of equal weights
    the means rest on; trail: (K,)."""

    mean: np.ndarray
    rows: np.ndarray
    weight: np.ndarray
    resting: np.ndarray
    trail: np.ndarray


class RunningMeans:
    """memory: in rows. statistics: for each, one function per row function of the plan, whose means over cells are
    kept; the last is what moves the multipliers. Where the first is not of rates alone, the means of its squares come
    after them.
    loss: the function whose values come with the rows. world: number of processes that are summed over.

    state: mean (K, S), weight (K,), squared (K,): means, and the decayed sums of their rows' weights and of these
    squared, at the last update; of a part of a row its weight times that of the whole row in place of the square.
    trail (K,): see above, of the first statistic. rows (K,), lacked (K,), mass (K,): all rows seen till then, batches
    without one, and the rows' weight; total_rows, total_batches, total_mass (1,): the same of rows of any group.
    window (K, 2 + S): decayed weights, squared weights and sums since then, of the window_rows of window_mass (1,) in
    window_batches no longer in the queue; tally (K, 3): their rows, lacks and weight.
    """

    def __init__(self, plan: Plan, statistics: list[list[Pointwise]], loss: Pointwise, memory: float, keys: Keys):
        self.plan, self.statistics, self.loss, self.memory, self.keys = plan, statistics, loss, memory, keys
        self._function_of = [plan.functions.index(c.function) for c in plan.columns]
        self.squares = not of_rates(plan).all()
        self._most_batches = QUEUE_ROWS // max(plan.n_cells, 1)
        self.state, self.queue, self.fast_queue = self.fresh(), Queue(), FastQueue(torch.float32)

    def fresh(self) -> dict[str, Any]:
        k, s = self.plan.n_cells, len(self.statistics) + self.squares
        shapes = {"mean": (k, s), **dict.fromkeys(("trail", "weight", "squared", "rows", "lacked", "mass"), (k,))}
        shapes |= {"window": (k, 2 + s), "tally": (k, 3), "total_mass": (1,), "window_mass": (1,)}
        numbers = ("total_rows", "total_batches", "window_rows", "window_batches")
        return {**{name: np.zeros(shape) for name, shape in shapes.items()}, **dict.fromkeys(numbers, 0)}

    @property
    def since(self) -> int:
        """Rows since the last update."""
        return self.state["window_rows"] + self.queue.rows + self.fast_queue.rows

    @property
    def seen_rows(self) -> int:
        return self.state["total_rows"] + self.since

    @property
    def seen_batches(self) -> int:
        return (
            self.state["total_batches"]
            + self.state["window_batches"]
            + len(self.queue.steps)
            + len(self.fast_queue.steps)
        )

    def to(self, device: torch.device, dtype: torch.dtype) -> None:
        """Where the latest rows are kept, and the dtype of their scores."""
        if self.fast_queue.rows:
            self.queue.take_in(self.fast_queue, self.keys)
        self.queue.to(device)
        self.fast_queue = FastQueue(dtype if device.type == "cpu" else None)

    def saved(self) -> dict[str, Any]:
        """The latest rows as plain data."""
        if self.fast_queue.rows:
            self.queue.take_in(self.fast_queue, self.keys)
        return self.queue.plain()

    def resume(self, state: Mapping[str, Any], queue: Queue) -> None:
        """Continue from these sums and latest rows."""
        self.state, self.queue = {key: state[key] for key in self.state}, queue
        self.fast_queue.clear()

    @torch.no_grad()
    def counted(self, world: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """window, tally and window_mass with the latest rows added; the state stays as it is."""
        s = self.state
        if not (rows := self.queue.rows + self.fast_queue.rows):
            return s["window"], s["tally"], s["window_mass"]
        scores, y, cells, weight, shape = self._latest_rows().joined(self.keys)
        columns, width, batches = len(cells), self.plan.n_cells + 1, len(shape[0])
        faded, first = layout(*shape, world / self.memory, width, columns)
        place, met, mass, squared = cells.ravel(), None, float(rows), faded
        if weight is not None:
            (weight, whole), mass = np.tile(weight, columns), weight[0].sum()
            faded, met = faded * weight, weight > 0
            squared = faded * whole
        found = np.bincount(place + first, met, batches * width).reshape(batches, width)
        window = [np.bincount(place, faded, width)]
        window.append(window[0] if weight is None else np.bincount(place, squared, width))
        for kinds in self.statistics:
            values = [kind.value(scores, y).numpy() for kind in kinds]
            each = values[0] if columns == 1 else np.concatenate([values[f] for f in self._function_of])
            window.append(np.bincount(place, faded * each, width))
            if self.squares and kinds is self.statistics[0]:
                squares = np.bincount(place, faded * each * each, width)
        window += [squares] if self.squares else []
        seen = np.add.reduce(found)
        tally = [seen, np.add.reduce(found == 0), seen if weight is None else np.bincount(place, weight, width)]
        kept = math.exp(-rows * world / self.memory)
        return self._more(s["window"], kept, window), self._more(s["tally"], 1.0, tally), s["window_mass"] + mass

    def _more(self, before: np.ndarray, factor: float, columns: list[np.ndarray]) -> np.ndarray:
        """(K, columns): sums of a window, faded, and further ones, (K + 1,) each."""
        sums = np.array(columns, dtype=float).T[:-1]
        return before * factor + sums if self.state["window_rows"] else sums

    def _latest_rows(self) -> Queue | FastQueue:
        """The rows since the last sums, in one place: those of both kinds of batches in the queue."""
        if not self.queue.rows:
            return self.fast_queue
        if self.fast_queue.rows:
            self.queue.take_in(self.fast_queue, self.keys)
        return self.queue

    def add(self, batch: Batch, step: int) -> None:
        """A batch of step `step`."""
        if self.fast_queue.rows:
            self.queue.take_in(self.fast_queue, self.keys)
        self.queue.add(batch, self.keys.kept(batch), step)

    def moving(self) -> np.ndarray:
        """(K,) the means that move the multipliers, as of the last update."""
        return self.state["mean"][:, len(self.statistics) - 1]

    def resting(self) -> np.ndarray:
        """(K,) rows that the means of the last update rest on, as `latest` counts them."""
        return resting(self.state["weight"], self.state["squared"])

    @property
    def mean_weight(self) -> float:
        """The mean weight of all rows of the last update and before."""
        return float(self.state["total_mass"][0]) / max(self.state["total_rows"], 1)

    def latest(self, world: int = 1) -> Latest:
        """The means with what has been seen since the last update, of several processes as of it."""
        s = self.state
        if world > 1:
            return Latest(s["mean"], s["rows"], s["weight"], self.resting(), s["trail"])
        window, tally, _ = self.counted()
        mean, *weights = self._joined(window, self.since)
        return Latest(mean, s["rows"] + tally[:, 0], weights[0], resting(*weights), self._trailed(mean, self.since))

    def lacked(self) -> np.ndarray:
        """(K,) batches without a row of the cell."""
        return self.state["lacked"] + self.counted()[1][:, 1]

    def shorten(self, world: int) -> None:
        """Sum the latest rows up where there are many."""
        queue, fast = self.queue, self.fast_queue
        if queue.rows + fast.rows > QUEUE_ROWS or len(queue.keys) + len(fast.steps) > self._most_batches:
            self._empty(world)

    def update(self, world: int, device: torch.device) -> np.ndarray:
        """Bring mean, weight, rows and lacked up to date, over all processes; (K,) rows since the last update."""
        s = self.state
        self._empty(world)
        window, tally = s["window"], s["tally"]
        mass, rows, batches = s["window_mass"][0], s["window_rows"], s["window_batches"]
        if world > 1:
            joint = torch.as_tensor(np.concatenate([window.ravel(), tally.ravel(), [mass, rows, batches]]))
            joint = joint.to(device, _exact(device))
            distributed.all_reduce(joint)
            *sums, mass, rows, batches = joint.tolist()
            window = np.array(sums[: window.size]).reshape(window.shape)
            tally, rows, batches = np.array(sums[window.size :]).reshape(tally.shape), int(rows), int(batches)
        mean, weight, squared = self._joined(window, rows)
        s["trail"] = self._trailed(mean, rows)
        s["mean"], s["weight"], s["squared"] = mean, weight, squared
        seen, lacked, weighed = tally.T
        s["rows"], s["lacked"], s["mass"] = s["rows"] + seen, s["lacked"] + lacked, s["mass"] + weighed
        s["total_rows"] += rows
        s["total_batches"] += batches
        s["total_mass"] = s["total_mass"] + mass
        s["window"], s["tally"] = np.zeros(window.shape), np.zeros(tally.shape)
        s["window_rows"], s["window_batches"], s["window_mass"] = 0, 0, np.zeros(1)
        return seen

    def _empty(self, world: int) -> None:
        s = self.state
        s["window"], s["tally"], s["window_mass"] = self.counted(world)
        s["window_rows"] += self.queue.rows + self.fast_queue.rows
        s["window_batches"] += len(self.queue.steps) + len(self.fast_queue.steps)
        self.fast_queue.clear()
        if self.queue.rows:
            self.queue = Queue()

    def _joined(self, window: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """mean, weight and squared with a window of `rows` rows added."""
        s, kept = self.state, math.exp(-rows / self.memory)
        after, mean = s["weight"] * kept + window[:, 0], s["mean"]
        moved = mean + (window[:, 2:] - window[:, :1] * mean) / np.maximum(after, LEAST)[:, None]
        return moved, after, s["squared"] * kept + window[:, 1]

    def _trailed(self, mean: np.ndarray, rows: int) -> np.ndarray:
        """(K,) the trail of means (K, S) `rows` rows after the last update; a cell's first mean is its trail."""
        s = self.state
        moved = s["trail"] + rows / (rows + self.memory) * (mean[:, 0] - s["trail"]) if rows else s["trail"]
        return np.where(s["weight"] > 0, moved, mean[:, 0])


def resting(weight: np.ndarray, squared: np.ndarray) -> np.ndarray:
    """(K,) how many rows of equal weights would tell a mean as surely as rows of these sums of weights and of squared
    weights do (Kish 1965): as many as there are where all weights are equal, whatever they are."""
    return weight * weight / np.maximum(squared, LEAST)


def averages(plan: Plan, chosen: Sequence[bool]) -> np.ndarray:
    """(K + 1,) whether each cell, and none, averages one of the chosen row functions of the plan."""
    out = np.zeros(plan.n_cells + 1, dtype=bool)
    for column in plan.columns:
        out[column.offset : column.offset + column.cells] = chosen[plan.functions.index(column.function)]
    return out


def of_rates(plan: Plan) -> np.ndarray:
    """(K,) whether each cell averages decisions, which are 0 or 1."""
    tables = [f.table if isinstance(f, RowFunction) else None for f in plan.functions]
    counted = [t is not None and {v for row in t for v in row} <= {0, 1} for t in tables]
    shares = [isinstance(f, ClassShare) for f in plan.functions]
    return averages(plan, [a or b for a, b in zip(counted, shares, strict=True)])[:-1]


def processes(together: bool) -> int:
    """How many processes work together: those of the default group where it is initialised, else 1."""
    joined = together and distributed.is_available() and distributed.is_initialized()
    return distributed.get_world_size() if joined else 1


def _exact(device: torch.device) -> torch.dtype:
    """The dtype of sums: float64 where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


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
    slope[:-1] *= state["total_mass"] / np.maximum(state["mass"], LEAST)
    return w, slope
