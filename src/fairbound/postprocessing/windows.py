"""Single thresholds of many groups whose rates are to lie near each other, by windows that hold the rates of all.

Bounds a q_i - b q_j <= B between every two groups hold where all rates lie in one window [l, (B + b l) / a]. Where rates
rise or fall with the threshold, a window leaves every group a range of its thresholds, of which it takes the cheapest,
whatever the others take:

    for each lower edge l:
        for each group: p <- the cheapest threshold whose rates lie in the windows
    the cheapest of these choices

Where the lower edges are all rates that occur, this gives the best choice there is. Under bounds on several rates, as
equalized odds has them, these may be too many pairs; some of them are taken then, and more about the best window. Under
other bounds, such as those on differences from the rate of all, choices in windows of some widths are given, which may
meet them or not.

Source: an observation on the linear program of Hardt, Price, Srebro (2016), section 5; the cheapest thresholds of ranges
    by the tables of Bender and Farach-Colton (2000), The LCA problem revisited, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fairbound.postprocessing.curves import Curve
from fairbound.postprocessing.program import Program
from fairbound.postprocessing.spans import Span, spans_of

MOST_WORK = 1 << 22
"""Windows times groups that are looked at, at most."""

GRID = 160_000
"""Windows of one grid."""

WIDTHS, COARSER = (0.4, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005), 16
"""Widths of windows under other bounds, and by how much smaller their grids are."""

FINER = 2
"""Grids about the best window of the one before."""

MOST_RATES = 4
"""Bounded rates for which there is a grid."""

ROUNDING = 1e-13
BEST, LOOKED_AT = 5, 100
"""Choices that are taken of a grid, and its best windows that these are looked for in."""


class Choices(NamedTuple):
    """points: some choices (C,), the cheapest of each grid first. of_bounds: whether every choice in such a window meets
    the bounds. exact: whether no other choice that meets them costs less than the first."""

    points: list[np.ndarray]
    of_bounds: bool = False
    exact: bool = False


def by_windows(program: Program) -> Choices:
    """Cheap choices of one threshold per group that windows give."""
    costs = [_Cheapest(curve.selected @ program.unit_costs) for curve in program.curves]
    most = MOST_WORK // len(costs)
    families = _compared(program)
    if not families:
        return Choices(_of_some_widths(program, costs, min(GRID // COARSER, most)))
    edges = [family.edges() for family in families]
    if math.prod(map(len, edges)) <= most:
        return Choices(_best_of(families, costs, edges)[0], of_bounds=True, exact=True)
    each = _each(families, min(GRID, most))
    places = [(0, len(of) - 1) for of in edges]
    found: list[np.ndarray] = []
    for _ in range(1 + FINER):
        choices, best = _best_of(
            families, costs, [_some(of, *ends, each) for of, ends in zip(edges, places, strict=True)]
        )
        if not choices:
            break
        found = [*choices, *found]
        steps = [-(-(last - first) // (each - 1)) for first, last in places]
        at = [int(np.searchsorted(of, low)) for of, low in zip(edges, best, strict=True)]
        places = [(max(0, i - k), min(len(of) - 1, i + k)) for of, i, k in zip(edges, at, steps, strict=True)]
    return Choices(found, of_bounds=True)


def _of_some_widths(program: Program, costs: list[_Cheapest], most: int) -> list[np.ndarray]:
    """Of each of the WIDTHS the best choice in windows of every kind of rates that a bound of the program looks at."""
    labels = {tuple(np.unique(program.slope[[cell]].tocoo().coords[1] % 2)) for cell in range(len(program.cells))}
    rates = [[_rates_of_labels(curve, list(some)) for curve in program.curves] for some in sorted(labels) if some]
    if not rates:
        return []
    of_widths = [[_Family(Span(np.zeros(0), 1.0, 1.0, width), of) for of in rates] for width in WIDTHS]
    each = _each(of_widths[0], most)
    edges = [_some(of, 0, len(of) - 1, each) for of in (family.edges() for family in of_widths[0])]
    return [choice for families in of_widths for choice in _best_of(families, costs, edges)[0][:1]]


def _each(families: list[_Family], most: int) -> int:
    """How many lower edges of each family make at most so many windows, but three at least."""
    return max(3, int(most ** (1 / len(families))))


def _some(edges: np.ndarray, first: int, last: int, most: int) -> np.ndarray:
    """At most so many of edges[first], ..., edges[last], evenly."""
    return edges[np.unique(np.linspace(first, last, min(most, last - first + 1)).round().astype(np.int64))]


@dataclass(frozen=True)
class _Family:
    """The rates that one span compares. rates: of each group those of its thresholds, None where it has none here."""

    span: Span
    rates: list[np.ndarray | None]

    def edges(self) -> np.ndarray:
        """All rates that occur, rising."""
        return np.unique(np.concatenate([rates for rates in self.rates if rates is not None]))

    def ranges(self, c: int, low: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first and last threshold of group c in the windows with these lower edges, of any shape; the last is
        before the first where there is none."""
        rates = self.rates[c]
        assert rates is not None
        high = (self.span.bound + self.span.b * low) / self.span.a
        if rates[-1] < rates[0]:
            rates, low, high = -rates, -high, -low
        first = np.searchsorted(rates, low - ROUNDING, "left")
        return first, np.searchsorted(rates, high + ROUNDING, "right") - 1


def _compared(program: Program) -> list[_Family]:
    """The rates that the program's bounds compare, those of each bound; none where some bound is not on rates of three
    groups or more, each of one curve, that rise or fall with the threshold."""
    spans, others = spans_of(program.contrasts, program.bounds)
    if len(others) or len(spans) > MOST_RATES:
        return []
    families = []
    for span in spans:
        rates: list[np.ndarray | None] = [None] * len(program.curves)
        for cell in span.cells:
            row = program.slope[[cell]].tocoo()
            at = np.unique(row.coords[1] // 2)
            if len(at) != 1 or rates[at[0]] is not None or row.data.min() < 0 < row.data.max():
                return []
            slope = np.zeros(2)
            slope[row.coords[1] % 2] = row.data
            rates[at[0]] = program.base[cell] + program.curves[at[0]].selected @ slope
        families.append(_Family(span, rates))
    return families


def _rates_of_labels(curve: Curve, labels: list[int]) -> np.ndarray | None:
    """The share of the rows with these labels that each threshold selects; None where there are none."""
    total = curve.total[labels].sum()
    return curve.selected[:, labels].sum(1) / total if total > 0 else None


def _best_of(
    families: list[_Family], costs: list[_Cheapest], edges: list[np.ndarray]
) -> tuple[list[np.ndarray], list[float]]:
    """The BEST choices in windows with every combination of the families' lower edges, each choice once, the cheapest
    first, and the edges of the best window; both empty where no window leaves every group a threshold."""
    lows = np.meshgrid(*edges, indexing="ij", sparse=True)
    total = np.zeros(tuple(map(len, edges)))
    for c, cheapest in enumerate(costs):
        points = _points(families, cheapest, c, lows)
        total += np.where(points >= 0, cheapest.costs[points], np.inf)
    order = np.argsort(total, axis=None, kind="stable")[:LOOKED_AT]
    order = order[np.isfinite(total.ravel()[order])]
    if not len(order):
        return [], []
    at = [of[i] for of, i in zip(edges, np.unravel_index(order, total.shape), strict=True)]
    choices = np.stack([_points(families, cheapest, c, at) for c, cheapest in enumerate(costs)], axis=1)
    first = np.sort(np.unique(choices, axis=0, return_index=True)[1])
    return list(choices[first[:BEST]]), [float(low[0]) for low in at]


def _points(families: list[_Family], cheapest: _Cheapest, c: int, lows: Sequence[np.ndarray]) -> np.ndarray:
    """The cheapest point of group c in each window, -1 where it has none. lows: of each family the lower edges, which
    are broadcast against each other."""
    first, last = np.zeros((), dtype=np.int64), np.array(len(cheapest.costs) - 1)
    for family, low in zip(families, lows, strict=True):
        if family.rates[c] is not None:
            lowest, highest = family.ranges(c, low)
            first, last = np.maximum(first, lowest), np.minimum(last, highest)
    first, last = np.broadcast_arrays(first, last, *lows)[:2]
    points, some = np.full(first.shape, -1), first <= last
    points[some] = cheapest.between(first[some], last[some])
    return points


class _Cheapest:
    """Answers where the least of costs (p,) lies between two places; the first of equal ones."""

    def __init__(self, costs: np.ndarray):
        self.costs = costs
        self._tables = [np.arange(len(costs))]
        width = 1
        while 2 * width <= len(costs):
            table = self._tables[-1]
            self._tables.append(self._cheaper(table[:-width], table[width:]))
            width *= 2

    def _cheaper(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        return np.where(self.costs[other] < self.costs[one], other, one)

    def between(self, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """(m,) the places from `first` to `last` (m,), first <= last."""
        halvings = np.frexp(last - first + 1)[1] - 1
        out = np.empty_like(first)
        for k in np.unique(halvings):
            at, table = halvings == k, self._tables[k]
            out[at] = self._cheaper(table[first[at]], table[last[at] - (1 << int(k)) + 1])
        return out
