"""Running means of the cells that bounds compare, from the batches a loop has seen lately.

    S <- S exp(-b / memory) + (sums over the b rows of a step),    N likewise,    mean = S / N.

Batches are kept as they come and summed at updates, together with those of other processes: sums and counts, never
ratios. A cell without a row keeps its mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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

    def joined(self) -> tuple[Tensor, np.ndarray, np.ndarray | None, np.ndarray]:
        """All rows, on the CPU: scores (N,) or (N, k), keys (N,), weights (N,) or None, and the batch's number (N,)."""
        weight = None
        if any(w is not None for w in self.weights):
            pairs = zip(self.weights, self.scores, strict=True)
            weight = torch.cat([s.new_ones(len(s)) if w is None else w for w, s in pairs]).cpu().double().numpy()
        number = np.arange(len(self.keys)).repeat([len(k) for k in self.keys])
        return torch.cat(self.scores).cpu(), torch.cat(self.keys).cpu().numpy(), weight, number

    def ages(self) -> list[int]:
        """How many rows came in later steps than each batch."""
        out, later, since, step = [], 0, 0, None
        for own, size in zip(reversed(self.steps), reversed(self.sizes), strict=True):
            if own != step:
                later, since, step = later + since, 0, own
            since += size
            out.append(later)
        return out[::-1]

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
        self._cells, self._labels = keys.table.numpy(), np.arange(keys.n, dtype=np.float32) % keys.classes
        self._kinds = [kind for kinds in statistics for kind in kinds]
        several = [plan.functions.index(c.function) for c in plan.columns] if len(plan.functions) > 1 else [0]
        self._sums_of = [[1 + slot * len(plan.functions) + f for f in several] for slot in range(len(statistics))]
        self.state, self.queue = self.fresh(), Queue()

    def fresh(self) -> dict[str, Any]:
        k, s = self.plan.n_cells, len(self.statistics)
        shapes = {"mean": (k, s), "weight": (k,), "rows": (k,), "lacked": (k,), "mass": (k,)}
        shapes |= {"window": (k, 1 + s), "tally": (k, 3)}
        numbers = ("total_rows", "total_batches", "window_rows", "window_batches")
        return {**{name: np.zeros(shape) for name, shape in shapes.items()}, **dict.fromkeys(numbers, 0)}

    @property
    def seen_rows(self) -> int:
        return self.state["total_rows"] + self.state["window_rows"] + self.queue.rows

    @property
    def seen_batches(self) -> int:
        return self.state["total_batches"] + self.state["window_batches"] + len(self.queue.steps)

    @torch.no_grad()
    def counted(self, world: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """window and tally with the queue added; the state stays as it is."""
        s, queue = self.state, self.queue
        if not queue.rows:
            return s["window"], s["tally"]
        scores, keys, weight, batch = queue.joined()
        y = torch.as_tensor(self._labels[keys], dtype=scores.dtype)
        per_row: list[np.ndarray | None] = [weight]
        for kind in self._kinds:
            values = kind.value(scores, y).numpy()
            per_row.append(values if weight is None else values * weight)
        width = self.keys.n + self.keys.classes  # keys begin at minus the number of classes
        place = batch * width + keys + self.keys.classes
        place, counts, sums = summed(place, None if weight is None else weight > 0, per_row)
        number, key = np.divmod(place, width)
        cells = self._cells[key - self.keys.classes]
        fading = np.array([math.exp(-age * world / self.memory) for age in queue.ages()])[number]
        columns = [self._by_cell(cells, fading * sums[0])]
        columns += [self._by_cell(cells, *(fading * sums[j] for j in of)) for of in self._sums_of]
        rows = self._by_cell(cells, counts)
        lacked = len(queue.steps) - self._batches_with(number, cells, counts)
        mass = rows if weight is None else self._by_cell(cells, sums[0])
        kept = math.exp(-queue.rows * world / self.memory)
        return s["window"] * kept + np.array(columns).T, s["tally"] + np.array([rows, lacked, mass]).T

    def _by_cell(self, cells: np.ndarray, *numbers: np.ndarray) -> np.ndarray:
        """(K,) sums over cells (P, columns) of numbers (P,): one for all columns, or one for each."""
        each = np.repeat(numbers[0], cells.shape[1]) if len(numbers) == 1 else np.stack(numbers, axis=1).ravel()
        return np.bincount(cells.ravel(), each, minlength=self.plan.n_cells + 1)[:-1]

    def _batches_with(self, number: np.ndarray, cells: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """(K,) in how many batches each cell has a row; number, counts: (P,), of the batches and of rows; cells: (P, columns)."""
        some = slice(None) if counts.all() else counts > 0
        met = np.zeros((int(number[-1]) + 1, self.plan.n_cells + 1), dtype=bool)
        met[number[some, None], cells[some]] = True
        return np.count_nonzero(met[:, :-1], axis=0)

    def latest(self) -> tuple[np.ndarray, np.ndarray]:
        """(K, S) means and (K,) rows seen, with what this process has seen since the last update."""
        window, tally = self.counted()
        return self._joined(window, self.state["window_rows"] + self.queue.rows)[0], self.state["rows"] + tally[:, 0]

    def lacked(self) -> np.ndarray:
        """(K,) batches without a row of the cell."""
        return self.state["lacked"] + self.counted()[1][:, 1]

    def shorten(self, world: int) -> None:
        """Sum the queue up where it has grown long."""
        if self.queue.rows > QUEUE_ROWS:
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
        for name, more in zip(("rows", "lacked", "mass"), tally.T, strict=True):
            s[name] = s[name] + more
        s["total_rows"] += rows
        s["total_batches"] += batches
        s["window"], s["tally"] = np.zeros(window.shape), np.zeros(tally.shape)
        s["window_rows"] = s["window_batches"] = 0
        return tally[:, 0]

    def _empty(self, world: int) -> None:
        s = self.state
        s["window"], s["tally"] = self.counted(world)
        s["window_rows"] += self.queue.rows
        s["window_batches"] += len(self.queue.steps)
        self.queue = Queue()

    def _joined(self, window: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
        """mean and weight with a window of `rows` rows added."""
        before = self.state["weight"] * math.exp(-rows / self.memory)
        after = before + window[:, 0]
        mean = (before[:, None] * self.state["mean"] + window[:, 1:]) / np.maximum(after, 1e-300)[:, None]
        return np.where(window[:, :1] > 0, mean, self.state["mean"]), after


def _exact(device: torch.device) -> torch.dtype:
    """The dtype of sums: float64 where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


def summed(
    place: np.ndarray, known: np.ndarray | None, per_row: Sequence[np.ndarray | None]
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Sums over the rows of each place. place: (N,) >= 0; known: (N,) which rows count, None for all; per_row: (N,) numbers of
    the rows, None for ones.

    Returns: the P places that occur, how many rows of each count (P,), and the sums (P,) of each of `per_row`.
    """
    if int(place.max()) > 4 * len(place) + 1024:  # too many empty places to go through
        occurring, place = np.unique(place, return_inverse=True)
        ones = np.bincount(place)
        kept = np.arange(len(ones))
    else:
        ones = np.bincount(place)
        occurring = kept = np.flatnonzero(ones)
    counts = ones if known is None else np.bincount(place[known], minlength=len(ones))
    return occurring, counts[kept], [(ones if v is None else np.bincount(place, v))[kept] for v in per_row]


def stated_values(plan: Plan, contrasts: Contrasts, mean: np.ndarray, rows: np.ndarray) -> list[float]:
    """The value of each bound from cell means (K, S), NaN where none of its groups has rows (K,)."""
    q, known, out = torch.from_numpy(mean)[:, 0], seen_contrasts(plan, torch.from_numpy(rows > 0)), []
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


def best_of(
    plan: Plan, contrasts: Contrasts, best: np.ndarray, passed: list[tuple[np.ndarray, np.ndarray]]
) -> np.ndarray:
    """(bounds,) the best of each bound's estimates so far and of those from means and rows that were passed since."""
    out = best.tolist()
    for means in passed:
        now = stated_values(plan, contrasts, *means)
        out = [better(*each) for each in zip(plan.notions, out, now, strict=True)]
    return np.array(out)


def cells_behind(plan: Plan, contrasts: Contrasts, memo: Memo | None) -> np.ndarray:
    """(m, t) the cell behind each term of each contrast, K for none."""
    if memo is None or memo.compared is None or len(plan.ratios):
        return plan.cells_of
    return torch.where(contrasts.coefficient != 0, memo.compared, plan.n_cells).numpy()


def report_of(
    plan: Plan, state: dict[str, Any], means: RunningMeans, values: dict[str, float], cap: float
) -> DualReport:
    """Where a Dual stands. state: of the Dual; values: of its bounds, by text; cap: what no multiplier exceeds."""
    y, names = torch.from_numpy(state["multipliers"]), plan.cell_names
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
