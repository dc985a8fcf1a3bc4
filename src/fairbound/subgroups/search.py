"""The most violated subgroup, exactly: branch and bound over every conjunction with enough rows.

For a per-row statistic with mean r (or a reference given), find the subgroups S of at least `min_count` rows with the
largest |mean over S - r|. A subgroup inside S is a union of S's cells, so with u(S) the mean of the `min_count` rows
of S in its highest cells (each row counted as its cell's mean, the last cell in part) and l(S) the same from below,

    |mean over T - r| <= max(u(S) - r, r - l(S))    for every T inside S with at least min_count rows.

Families of conjunctions (all that fix the same attributes) are refined best bound first; what cannot beat the best
gaps found is dropped. The search ends when nothing open can, and says how much it looked at.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairbound.base.errors import DataError, OptionError
from fairbound.subgroups.counts import OccurringCells, check_limits
from fairbound.subgroups.lattice import Family, Lattice

OPEN_BYTES = 256 << 20
"""Families held for best-first order; beyond it the latest is refined first, which holds few."""


@dataclass(frozen=True)
class Found:
    """One subgroup: its number and name, its rows, the statistic's mean over them and what that is compared with."""

    index: int
    name: str
    count: int
    mean: float
    reference: float

    @property
    def gap(self) -> float:
        """|mean - reference|, in the statistic's units."""
        return abs(self.mean - self.reference)


@dataclass(frozen=True)
class Search:
    """The largest gaps, largest first, and the certificate.

    found: at most `top` subgroups with distinct rows. bound: no other subgroup of at least min_count rows has a larger
        gap than this. exact: whether found[-1].gap reaches bound, so that found are the largest, up to `rounding`.
    rounding: the most that rounding may take from a bound; 0 where the statistic takes whole values (a decision).
    visited: conjunctions whose gap was computed; families: sets of fixed attributes met; pruned: conjunctions not
        refined because of their bound.
    """

    found: tuple[Found, ...]
    bound: float
    exact: bool
    rounding: float
    visited: int
    families: int
    pruned: int

    @property
    def worst(self) -> Found:
        return self.found[0]


def most_violated(
    occurring: OccurringCells,
    statistic: Any,
    reference: float | str = "overall",
    *,
    min_count: int = 200,
    max_fixed: int | None = None,
    top: int = 1,
    rows: Any = None,
    max_visited: int | None = None,
) -> Search:
    """The `top` subgroups, among all with at least min_count rows, whose mean is farthest from the reference.

    statistic: (n,) finite number per row (a decision, a loss), in the order of the codes that `occurring` counted.
    reference: "overall", the mean over all rows considered, or a number.
    max_fixed: at most this many fixed attributes; None for no limit.
    rows: (n,) bool mask, only these rows count and are averaged (the positives, for equal opportunity); None for all.
    max_visited: stop after about this many conjunctions, with what `bound` then proves.
    A row with a missing value is left out of the subgroups that fix that attribute, and of no others.
    Subgroups with the same rows are one, named so that no fixed attribute can be left out. Everyone is not a subgroup.
    Raises: DataError for wrong lengths, NaN or infinities, or no subgroup with enough rows.
    """
    check_limits(min_count, max_fixed)
    if top < 1 or (max_visited is not None and max_visited < 1):
        raise OptionError(f"top and max_visited must be at least 1, got {top} and {max_visited}.")
    cells = _Cells.of(occurring, statistic, rows)
    if isinstance(reference, str):
        if reference != "overall":
            raise OptionError(f"reference must be 'overall' or a number, got {reference!r}.")
        against = cells.mean
    else:
        against = float(reference)
        if not math.isfinite(against):
            raise OptionError(f"reference must be finite, got {reference}.")
    search = _BranchAndBound(occurring, cells, against, min_count, max_fixed, top)
    search.run(math.inf if max_visited is None else max_visited)
    return search.result()


@dataclass(frozen=True)
class _Cells:
    """Cells that have a row considered, by ascending mean of the statistic. place: their positions in OccurringCells."""

    place: np.ndarray
    count: np.ndarray
    total: np.ndarray
    mean: float
    rounding: float

    @classmethod
    def of(cls, occurring: OccurringCells, statistic: Any, rows: Any) -> _Cells:
        if occurring.row_cell is None:
            raise DataError("these cells were counted from a stream; count one array of codes to search them.")
        values = np.asarray(statistic.detach().cpu() if hasattr(statistic, "detach") else statistic)
        values = values.astype(np.float64)
        if values.shape != occurring.row_cell.shape or not np.isfinite(values).all():
            raise DataError(
                f"the statistic must be {len(occurring.row_cell)} finite numbers, one per row; got {values.shape}"
                f"{'' if np.isfinite(values).all() else ' with NaN or infinities'}."
            )
        row_cell = occurring.row_cell
        if rows is not None:
            mask = np.asarray(rows)
            if mask.shape != row_cell.shape or mask.dtype != bool:
                raise DataError(f"rows must be a bool mask of {len(row_cell)}, got {mask.dtype} {mask.shape}.")
            row_cell, values = row_cell[mask], values[mask]
        if not len(values):
            raise DataError("rows leaves no row to average.")
        count = np.bincount(row_cell, minlength=len(occurring))
        total = np.bincount(row_cell, weights=values, minlength=len(occurring))
        mass = float(np.abs(values).sum())
        whole = mass < 2**52 and bool((values == np.rint(values)).all())
        place = np.flatnonzero(count)
        place = place[np.argsort(total[place] / count[place], kind="stable")]
        return cls(
            place,
            count[place],
            total[place],
            float(values.mean()),
            0.0 if whole else 2 * len(values) * float(np.finfo(float).eps) * mass,
        )


class _BranchAndBound:
    def __init__(
        self,
        occurring: OccurringCells,
        cells: _Cells,
        reference: float,
        min_count: int,
        max_fixed: int | None,
        top: int,
    ):
        self.occurring, self.cells, self.reference, self.top = occurring, cells, reference, top
        subgroups = occurring.subgroups
        self.lattice = Lattice(
            occurring.codes[cells.place], cells.count, subgroups.sizes, subgroups.weights, min_count, max_fixed
        )
        self.average = cells.total / cells.count
        self.rounding = cells.rounding / min_count
        rng = np.random.default_rng(0)
        self.prints = rng.integers(0, 2**63, size=len(cells.place), dtype=np.uint64)
        self.pool: dict[int, tuple[float, int]] = {}  # fingerprint of the rows -> gap, number of the subgroup
        self.visited = self.families = self.pruned = 0
        self.left = -math.inf  # the largest bound among what an early stop leaves open
        self.bounds: dict[int, np.ndarray] = {}
        self.open: dict[int, Family] = {}
        self.held = self.sequence = 0
        self.heap: list[tuple[float, int]] = []

    @property
    def threshold(self) -> float:
        """The gap to beat."""
        return min(self.pool.values())[0] if len(self.pool) == self.top else -math.inf

    def run(self, limit: float) -> None:
        self.meet(self.lattice.root())
        while self.open:
            family, bounds = self.take()
            alive = self.worth(bounds)
            family, bounds = family.keep(alive), bounds[alive]
            for attribute in self.lattice.later(family):
                if self.visited >= limit:
                    self.left = float(bounds.max())
                    break
                self.meet(self.lattice.refine(family, attribute))
            if self.visited >= limit:
                self.left = max([self.left, *(float(b.max()) for b in self.bounds.values())])
                break

    def worth(self, bounds: np.ndarray) -> np.ndarray:
        """Which bounds promise more than the gap to beat."""
        alive = bounds + self.rounding > self.threshold
        self.pruned += int((~alive).sum())
        return alive

    def take(self) -> tuple[Family, np.ndarray]:
        """The family with the best bound; the latest, where too much is held."""
        if self.held > OPEN_BYTES:
            key = next(reversed(self.open))
        else:
            while self.heap[0][1] not in self.open:
                heapq.heappop(self.heap)
            key = heapq.heappop(self.heap)[1]
        family = self.open.pop(key)
        self.held -= family.nbytes
        return family, self.bounds.pop(key)

    def meet(self, family: Family) -> None:
        """Compute a family's gaps, keep the best, and open what may hold better ones."""
        if not len(family):
            return
        if family.fixed:
            self.families += 1
            self.visited += len(family)
            sums = np.add.reduceat(self.cells.total[family.cells], family.starts[:-1])
            self.offer(family, np.abs(sums / family.count - self.reference))
        if not self.lattice.later(family):
            return
        bounds = self.upper(family)
        alive = self.worth(bounds)
        if alive.any():
            family, bounds = family.keep(alive), bounds[alive]
            self.open[self.sequence], self.bounds[self.sequence] = family, bounds
            heapq.heappush(self.heap, (-float(bounds.max()), self.sequence))
            self.sequence += 1
            self.held += family.nbytes

    def offer(self, family: Family, gaps: np.ndarray) -> None:
        for j in np.argsort(-gaps, kind="stable")[: self.top]:
            gap = float(gaps[j])
            if gap <= self.threshold:
                break
            rows = int(np.add.reduce(self.prints[family.cells[family.starts[j] : family.starts[j + 1]]]))
            if rows not in self.pool:
                if len(self.pool) == self.top:
                    del self.pool[min(self.pool, key=self.pool.__getitem__)]
                self.pool[rows] = (gap, int(family.index[j]))

    def upper(self, family: Family) -> np.ndarray:
        """(g,) bounds on the gap of anything inside each conjunction."""
        count, total, cells, need = self.cells.count, self.cells.total, family.cells, self.lattice.min_count
        rows, sums = np.cumsum(count[cells]), np.cumsum(total[cells])
        first, last = family.starts[:-1], family.starts[1:] - 1
        rows_before, sums_before = rows[first] - count[cells[first]], sums[first] - total[cells[first]]
        target = rows_before + need
        at = np.searchsorted(rows, target, side="left")
        split = cells[at]
        low = sums[at] - total[split] - sums_before + (target - rows[at] + count[split]) * self.average[split]
        target = rows[last] - need
        at = np.searchsorted(rows, target, side="right")
        high = sums[last] - sums[at] + (rows[at] - target) * self.average[cells[at]]
        return np.maximum(high / need - self.reference, self.reference - low / need)

    def result(self) -> Search:
        if not self.pool:
            raise DataError(
                f"no subgroup has at least {self.lattice.min_count} of the {int(self.cells.count.sum())} rows; lower "
                "min_count or bin the attributes more coarsely."
            )
        ranked = sorted(self.pool.values(), key=lambda v: (-v[0], v[1]))
        found = tuple(self.describe(number) for _, number in ranked)
        bound = max(self.left, found[-1].gap)
        exact = bound <= found[-1].gap
        return Search(found, bound, exact, self.rounding, self.visited, self.families, self.pruned)

    def describe(self, number: int) -> Found:
        """The subgroup under its shortest name: an attribute whose release adds no row is left open."""
        cells, subgroups = self.cells, self.occurring.subgroups
        codes = self.occurring.codes[cells.place]
        fixed = {a: c for a, c in enumerate(subgroups.decode([number])[0]) if c >= 0}
        inside = _inside(codes, fixed)
        for attribute in sorted(fixed, key=lambda a: (-subgroups.sizes[a], a)):
            fewer = {a: c for a, c in fixed.items() if a != attribute}
            if fewer and np.array_equal(_inside(codes, fewer), inside):
                fixed = fewer
        index = sum((int(c) + 1) * int(subgroups.weights[a]) for a, c in fixed.items())
        count = int(cells.count[inside].sum())
        mean = float(cells.total[inside].sum() / count)
        return Found(index, subgroups.name(index), count, mean, self.reference)


def _inside(codes: np.ndarray, fixed: dict[int, Any]) -> np.ndarray:
    inside = np.ones(len(codes), dtype=bool)
    for attribute, code in fixed.items():
        inside &= codes[:, attribute] == code
    return inside
