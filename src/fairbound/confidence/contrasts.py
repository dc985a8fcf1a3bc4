"""Contrasts of cells, the bounds of the largest of them, and the verdict.

Cells (groups, or groups with a label) have independent samples, and a gap is the largest of m contrasts
``sum_k c_k theta_k`` of their rates or means: |p_1 - p_2| is the two contrasts (1, -1) and (-1, 1). The four-fifths
rule p_1 >= 0.8 p_2 is the contrast 0.8 p_2 - p_1 <= 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import special
from scipy.optimize import brentq
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from fairbound.base.errors import DataError

Verdict = Literal["met", "violated", "insufficient"]
Sense = Literal["at most", "at least"]

ROOM = 0.5
"""See `pair_level`."""


@dataclass(frozen=True)
class Contrasts:
    """m weighted sums of cells with at most t terms each.

    index: (m, t) int64, the terms' cells. coefficient: (m, t) finite; 0 marks an unused term. A cell may occur twice in
    a row; its coefficients are then added up here. between: (m,) where coefficients are measured shares of the cells,
    which rows of other people would move: the variance of a contrast by that, times the rows of its cells together.
    None for known coefficients. Raises: DataError for shapes or values that do not fit.
    """

    index: np.ndarray
    coefficient: np.ndarray
    between: np.ndarray | None = None

    def __post_init__(self) -> None:
        index, c = np.asarray(self.index), np.asarray(self.coefficient, dtype=np.float64)
        if index.ndim != 2 or index.shape != c.shape or not index.size or index.dtype.kind not in "iu":
            raise DataError(
                f"contrasts need index and coefficient of one shape (m, t), index of integers; "
                f"got {index.shape} {index.dtype} and {c.shape}."
            )
        if not np.isfinite(c).all() or (index < 0).any():
            raise DataError("contrasts need finite coefficients and cells numbered from 0.")
        index, c = _added_up(index.astype(np.int64), c)
        object.__setattr__(self, "index", index)
        object.__setattr__(self, "coefficient", c)

    def __len__(self) -> int:
        return len(self.index)

    def __neg__(self) -> Contrasts:
        return _trusted(self.index, 0.0 - self.coefficient, self.between)

    def take(self, rows: np.ndarray) -> Contrasts:
        """The contrasts with these numbers."""
        between = None if self.between is None else self.between[rows]
        return _trusted(self.index[rows], self.coefficient[rows], between)

    def of(self, values: np.ndarray) -> np.ndarray:
        """(..., m) sums of values (..., K); NaN where a used value is NaN, or infinite ones cancel."""
        with np.errstate(invalid="ignore"):
            return np.where(self.coefficient != 0, self.coefficient * values[..., self.index], 0.0).sum(-1)

    def check(self, cells: int) -> None:
        """Raises DataError where a contrast uses a cell beyond the number of cells."""
        if int(self.index.max()) >= cells:
            raise DataError(f"a contrast uses cell {int(self.index.max())}, but there are {cells} cells (from 0).")

    def moved_by_shares(self, trials: np.ndarray) -> np.ndarray:
        """(..., m) the variance of each contrast by the shares of its cells, if these have `trials` (..., K)."""
        if self.between is None:
            return np.zeros((*trials.shape[:-1], len(self)))
        rows = np.where(self.coefficient != 0, trials[..., self.index], 0.0).sum(-1)
        return np.divide(self.between, rows, out=np.zeros(rows.shape), where=rows > 0)

    def sides(self, cells: int) -> np.ndarray:
        """(K,) how many of the two signs each cell is used with: 0, 1 or 2."""
        signs = [np.bincount(self.index[s], minlength=cells) > 0 for s in (self.coefficient > 0, self.coefficient < 0)]
        return signs[0].astype(np.int64) + signs[1]

    def pairs(self) -> np.ndarray | None:
        """(m, 2) the cells (a, b) where every contrast is a difference a - b of two cells; else None."""
        c, index = self.coefficient, self.index
        if c.shape[1] != 2 or not (np.sort(c, 1) == (-1.0, 1.0)).all():
            return None
        return np.where(c[:, :1] > 0, index, index[:, ::-1])

    @classmethod
    def beside(cls, parts: Sequence[Contrasts]) -> Contrasts:
        """The contrasts of several sets of cells, which are numbered one set after another."""
        width = max(part.index.shape[1] for part in parts)
        before = np.cumsum([0, *(int(part.index.max()) + 1 for part in parts)])
        wide = lambda a: np.pad(a, ((0, 0), (0, width - a.shape[1])))  # noqa: E731
        index = [wide(part.index) + first for part, first in zip(parts, before, strict=False)]
        return _trusted(np.concatenate(index), np.concatenate([wide(part.coefficient) for part in parts]))

    def add_up_to_zero(self) -> bool:
        """Whether the sum of all contrasts is zero whatever the cells' values, so that the largest is at least 0."""
        total = np.bincount(self.index.ravel(), weights=self.coefficient.ravel())
        return bool(np.allclose(total, 0, atol=1e-9))


def mirrored(index: np.ndarray, coefficient: np.ndarray) -> dict[int, int]:
    """Of sums of terms (m, t) as of `Contrasts`, the number of each that is an earlier one with the other sign, b - a
    for a - b, and of that one."""
    m = len(index)
    cells = np.where(coefficient == 0, -1, index)
    order = np.lexsort((coefficient, cells))
    cells, c = np.take_along_axis(cells, order, 1), np.take_along_axis(coefficient, order, 1)
    both = np.concatenate([np.hstack([cells, c]), np.hstack([cells, 0.0 - c])])
    number = np.unique(both, axis=0, return_inverse=True)[1].ravel()
    first = np.full(2 * m, m)
    np.minimum.at(first, number[:m], np.arange(m))
    negative = first[number[m:]]
    return {int(i): int(negative[i]) for i in np.flatnonzero(negative <= np.arange(m))}


def _trusted(index: np.ndarray, coefficient: np.ndarray, between: np.ndarray | None = None) -> Contrasts:
    """Contrasts of arrays that were checked before."""
    made = object.__new__(Contrasts)
    object.__setattr__(made, "index", index)
    object.__setattr__(made, "coefficient", coefficient)
    object.__setattr__(made, "between", between)
    return made


def _added_up(index: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same contrasts without a cell twice in a row."""
    if index.shape[1] == 1:
        return index, c
    order = np.argsort(index, axis=1, kind="stable")
    ordered = np.take_along_axis(index, order, 1)
    again = ordered[:, 1:] == ordered[:, :-1]
    if not again.any():
        return index, c
    sums = np.take_along_axis(c, order, 1)
    for j in np.flatnonzero(again.any(0)):
        sums[:, j + 1] += np.where(again[:, j], sums[:, j], 0.0)
        sums[again[:, j], j] = 0.0
    return ordered, sums


@dataclass(frozen=True)
class GapBounds:
    """Bounds of the largest of m contrasts, or (sense "at least") of the smallest of m ratios.

    value, lower, upper: in the metric's units; lower and upper hold with probability 1 - alpha each. lower is at least
    0 where the contrasts add up to zero, as a gap's do. worst: the contrast with the largest estimate (smallest ratio).
    estimates: (m,); lowers, uppers: (m,) hold for all contrasts at once. NaN and infinite or trivial where a contrast
    uses an empty cell. upper (of ratios, lower) may lie inside the largest of uppers: see `largest`. contrasts: what
    was bounded, where it is sums of cells.
    """

    value: float
    lower: float
    upper: float
    worst: int
    estimates: np.ndarray
    lowers: np.ndarray
    uppers: np.ndarray
    sense: Sense = "at most"
    contrasts: Contrasts | None = None

    def verdict(self, bound: float) -> Verdict:
        """On "gap <= bound", or on "ratio >= bound" with sense "at least"."""
        if self.sense == "at least":
            return verdict(-self.upper, -self.lower, -bound)
        return verdict(self.lower, self.upper, bound)

    def within(self, most: float) -> GapBounds:
        """The same where no contrast can be larger than `most`."""
        upper, uppers = min(self.upper, most), np.minimum(self.uppers, most)
        return replace(self, upper=upper, uppers=uppers, lowers=np.maximum(self.lowers, -most))


def verdict(lower: float, upper: float, bound: float) -> Verdict:
    """ "met" where upper <= bound, "violated" where lower > bound, else (and for NaN) "insufficient"."""
    if upper <= bound:
        return "met"
    return "violated" if lower > bound else "insufficient"


def largest(
    contrasts: Contrasts,
    estimates: np.ndarray,
    lowers: np.ndarray,
    uppers: np.ndarray,
    singles: np.ndarray,
    lower: float | None = None,
) -> GapBounds:
    """The bounds of the largest contrast, from simultaneous bounds (m,) of all contrasts.

    lower: its lower bound; the largest of lowers where None.
    singles: (m,) upper bounds, each of which alone holds with probability 1 - alpha. The largest of them holds for the
    largest contrast with the same probability, however many there are: it is too low only where the bound of that very
    contrast is.

    Source: Berger (1982), Technometrics 24, 295-300 (intersection-union tests).
    """
    known = ~np.isnan(estimates)
    worst = int(np.argmax(np.where(known, estimates, -np.inf))) if known.any() else 0
    lower = float(lowers.max()) if lower is None else lower
    if contrasts.add_up_to_zero():
        lower = max(lower, 0.0)
    value = float(estimates[worst])
    return GapBounds(value, lower, float(singles.max()), worst, estimates, lowers, uppers, contrasts=contrasts)


def smallest(ratios: np.ndarray, lower: float, lowers: np.ndarray, uppers: np.ndarray, both_orders: bool) -> GapBounds:
    """The bounds of the smallest of m ratios, from simultaneous bounds (m,) of all and the lower bound of the smallest.
    both_orders: whether every ratio is there the other way round too, so that one is at most 1."""
    known = ~np.isnan(ratios)
    worst = int(np.argmin(np.where(known, ratios, np.inf))) if known.any() else 0
    upper = min(float(uppers.min()), 1.0 if both_orders else np.inf)
    return GapBounds(float(ratios[worst]), lower, upper, worst, ratios, lowers, uppers, "at least")


def joined(each: list[GapBounds]) -> GapBounds:
    """The bounds of the largest of several largest differences, whose bounds hold together.
    Of two opposite ones one is at least 0."""
    worst = int(np.argmax([b.value for b in each]))
    before = sum(len(b.estimates) for b in each[:worst])
    estimates, lowers, uppers = (
        np.concatenate([getattr(b, part) for b in each]) for part in ("estimates", "lowers", "uppers")
    )
    lower, upper = max(0.0, *(b.lower for b in each)), max(b.upper for b in each)
    contrasts = Contrasts.beside([b.contrasts for b in each if b.contrasts is not None])
    return GapBounds(
        each[worst].value, lower, upper, before + each[worst].worst, estimates, lowers, uppers, contrasts=contrasts
    )


def pair_level(contrasts: Contrasts, alpha: float) -> float | None:
    """The level of each lower limit under which the largest of them is a lower bound of the largest difference, where
    it is kept only at ROOM times its distance from the estimate or above; None where the contrasts are no differences
    in both orders.

    Let M be the largest difference. Of three cells at most two pairs differ by more than M / 2, so that these pairs
    form no triangle: of k cells that are compared they are at most k^2 / 4 (Mantel 1907). Only they can come near the
    bound; with z the quantile of the level g, normal limits are wrong with probability at most
        far (g + P(Z > (1 + 2 ROOM) z)) + (pairs - far) (P(Z > (1 + ROOM / 2) z) + P(Z > (1 + 3 ROOM / 2) z)) = alpha.
    """
    compared = contrasts.pairs()
    if compared is None:
        return None
    first, second = compared.T
    cells = int(compared.max()) + 1
    one, other = (np.sort(pair, kind="stable") for pair in (first * cells + second, second * cells + first))
    if (one[1:] == one[:-1]).any() or not np.array_equal(one, other):
        return None
    pairs = len(contrasts) // 2
    graph = coo_array((np.ones(len(first)), (first, second)), shape=(cells, cells))
    sizes = np.bincount(connected_components(graph, directed=False)[1])
    far = min(int((sizes**2 // 4).sum()), pairs)

    def beyond(z: float) -> float:
        p = special.ndtr(-np.array([z, (1 + 2 * ROOM) * z, (1 + ROOM / 2) * z, (1 + 1.5 * ROOM) * z]))
        return float(far * (p[0] + p[1]) + (pairs - far) * (p[2] + p[3]) - alpha)

    return float(special.ndtr(-brentq(beyond, 0.0, 40.0)))


ONE_CELL = Contrasts(np.zeros((1, 1), dtype=np.int64), np.ones((1, 1)))
"""One cell by itself."""
