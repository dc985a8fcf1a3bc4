"""Where the effect of a number should jump, found by tests: codes kept as numbers, spikes, ages at which a rule begins.

    fit a regression of the labels on the features: logistic of two classes, least squares of numbers
    repeat, until there are MOST jumps
        for each number: of the rows with values in (a, b], for every interval of its values, the score statistic (how
            far the labels lie from what the regression expects, over the spread that this has by chance)
        of each number take the interval of the largest, if chance gives so large a one with probability at most
            LEVEL / (intervals of all numbers); take off what it accounts for, and look for the next; none at all: end
        fit again, with a 0/1 column of the values beyond each end of these intervals
    take out, the least sure first, the jumps without which the loss is hardly larger: less than chance alone makes it
        with probability LEVEL / (number of jumps)

Values are counted in some BINS bins, one of their own for those that many rows have. The spread leaves out what
other columns account for, so that the tests ask for rather more. Of labels that are numbers it is the larger of those
with one variance for all rows and with one for each.

Source: Olshen, Venkatraman, Lucito and Wigler (2004), Biostatistics 5, 557-572, for intervals, of which both ends are
    sought at once; Rao (1948), Mathematical Proceedings of the Cambridge Philosophical Society 44, 50-57, for the score
    test.
Departs: of chance the normal distribution stands in for permutations.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri

from fairbound.tables.shapes.bending import LEVEL
from fairbound.tables.shapes.growing import Growing

MOST = 128
"""Jumps of all numbers together, at most."""

CELLS = 1 << 23
"""Cells of the features that the tests look at, at most."""

BINS = 256
"""Bins of a number, nearly: `ends_of_bins` says how many more there may be."""

NEAR = 0.5
"""Share of a sure statistic that must have been seen, for later columns to make it sure."""

LEAST = 10.0
"""Sum of p (1 - p) that the rows of an interval need, and those outside it, or so many rows where labels are numbers:
with less, the normal distribution is no good stand-in for chance."""


class Binned(NamedTuple):
    """The values of a number in bins. edges: (k,) ascending, between the bins; bins: (n,) of each row, 0 to k."""

    edges: np.ndarray
    bins: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> Binned:
        """Of values (n,), mostly in fewer than BINS bins. Every value that more than n / BINS rows have is a bin of its own,
        the others are divided into bins of about as many rows each."""
        low, high = values.min(), values.max()
        if ((values == low) | (values == high)).all():  # sooner known than a sort ends
            edges = np.array([(low + high) / 2] if low < high else [])
            return cls(edges, (values[:, None] > edges).sum(axis=1))
        kinds, kind, counts = np.unique(values, return_inverse=True, return_counts=True)
        last = ends_of_bins(counts, BINS)
        edges = (kinds[last] + kinds[last + 1]) / 2
        return cls(edges, np.searchsorted(edges, kinds)[kind])

    def coarser(self, most: int) -> Binned:
        """In fewer bins, each of some of these, as of `ends_of_bins`."""
        ends = ends_of_bins(np.bincount(self.bins, minlength=len(self.edges) + 1), most)
        return Binned(self.edges[ends], np.searchsorted(ends, np.arange(len(self.edges) + 1))[self.bins])


def jumps_of(regression: Growing, numbers: Sequence[Binned], share: float = 1.0) -> list[list[float]]:
    """Of each number the edges, ascending, beyond which a 0/1 column is asked for; the regression, on features of these
    numbers, gets these columns. share: of LEVEL and of MOST."""
    asked_of = {n: number for n, number in enumerate(numbers) if len(number.edges) > 1}
    intervals = sum(len(own.edges) * (len(own.edges) + 1) // 2 for own in asked_of.values())
    jumps: list[list[float]] = [[] for _ in numbers]
    if not intervals:
        return jumps
    enough = chdtri(1, share * LEVEL / intervals)
    found, first = list[tuple[int, int]](), regression.width
    while True:
        left, spread, squares = regression.fitted()
        asked = {
            n: sure_intervals(own.bins, len(own.edges) + 1, left, spread, enough, squares)
            for n, own in asked_of.items()
        }
        asked_of = {n: own for n, own in asked_of.items() if asked[n].largest > NEAR * enough}
        in_turn = sorted((turn, n, edge) for n, of in asked.items() for turn, edge in enumerate(of.edges))
        new = [(n, edge) for _, n, edge in in_turn if (n, edge) not in found][: int(share * MOST) - len(found)]
        if not new:
            break
        for n, edge in new:
            regression.add(numbers[n].bins > edge)
        found += new
    for (n, edge), needed in zip(found, regression.keep_needed(first, share * LEVEL), strict=True):
        if needed:
            jumps[n].append(float(numbers[n].edges[edge]))
    return [sorted(own) for own in jumps]


def ends_of_bins(counts: np.ndarray, most: int) -> np.ndarray:
    """(k,) the last kind of each bin but the last, k < 2 most: mostly k < most, but where common kinds and rare ones take
    turns. counts: of the rows of each kind, in order."""
    if len(counts) <= most:
        return np.arange(len(counts) - 1)
    common = counts * most > counts.sum()
    rest = np.cumsum(np.where(common, 0, counts))
    share = max(most - 2 * int(common.sum()), 1)
    part = np.ceil(rest * share / max(int(rest[-1]), 1))
    ends = common | np.r_[common[1:], True] | np.r_[part[1:] > part[:-1], True]
    return np.flatnonzero(ends)[:-1]


@lru_cache(maxsize=8)
def pairs_of(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Every two of `count` places, the first before the second."""
    first, end = np.triu_indices(count, 1)
    return first, end


class Sure(NamedTuple):
    """Edges at the ends of intervals, the surest first, and the largest statistic of all, 0 where none can be tested."""

    edges: list[int]
    largest: float


def sure_intervals(
    bins: np.ndarray,
    count: int,
    left: np.ndarray,
    spread: np.ndarray,
    enough: float,
    squares: np.ndarray | None = None,
) -> Sure:
    """The intervals of bins whose rows are misjudged surely, each found when what the ones before account for is taken
    off.

    bins: (n,) of each row, 0 to count - 1; edge i lies behind bin i. left: (n,) labels less what is expected. spread:
    (n,) the variance of each. enough: the least score statistic. squares: (n,) of `left`, where these may show that
    `spread` is too small.
    """
    slope, size = (np.bincount(bins, of, count) for of in (left, spread))
    seen = None if squares is None else np.bincount(bins, squares, count)
    first, end, variance = testable_intervals(size, seen)
    edges, largest = list[int](), 0.0
    while len(first):
        so_far = np.r_[0.0, slope.cumsum()]
        statistic = (so_far[end] - so_far[first]) ** 2 / variance
        best = int(statistic.argmax())
        largest = max(largest, float(statistic[best]))
        begins, ends = int(first[best]), int(end[best])
        new = [edge for edge in (begins - 1, ends - 1) if 0 <= edge < count - 1 and edge not in edges]
        if not statistic[best] > enough or not new:
            break
        edges += new
        inside = np.zeros(count, dtype=bool)
        inside[begins:ends] = True
        for part in (inside, ~inside):
            slope[part] -= size[part] * slope[part].sum() / size[part].sum()
    return Sure(edges, largest)


def testable_intervals(size: np.ndarray, seen: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The intervals of bins [first, end) (k,) with enough rows in them and outside, and (k,) the variance of the slope of
    each. size, seen: (count,) sums of each bin's `spread` and `squares`."""
    first, end = pairs_of(len(size) + 1)
    size = np.r_[0.0, size.cumsum()]
    within = size[end] - size[first]
    outside = size[-1] - within
    testable = (within >= LEAST) & (outside >= LEAST)
    first, end, within, outside = (of[testable] for of in (first, end, within, outside))
    variance = within * outside / size[-1]
    if seen is not None:
        seen = np.r_[0.0, seen.cumsum()]
        inside = seen[end] - seen[first]
        variance = np.maximum(variance, (inside * outside**2 + (seen[-1] - inside) * within**2) / size[-1] ** 2)
    return first, end, variance
