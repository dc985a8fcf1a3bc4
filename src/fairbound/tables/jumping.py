"""Where the effect of a number should jump, found by tests: codes kept as numbers, spikes, ages at which a rule begins.

    fit a logistic regression of the labels on the features
    repeat, until there are MOST jumps
        for each number: of the rows with values in (a, b], for every interval of its values, the score statistic (how
            far the labels lie from what the regression expects, over the spread that this has by chance)
        keep the ends of the intervals for which chance gives so large a one with probability at most LEVEL / (intervals
            of all numbers), of each number the largest; none: end
        fit again, with a 0/1 column of the values beyond each end

Values are counted in at most BINS bins, one of their own for those that many rows have. The spread leaves out what
other columns account for, so that the tests ask for rather more.

Source: Olshen, Venkatraman, Lucito and Wigler (2004), Biostatistics 5, 557-572, for intervals, of which both ends are
    sought at once; Rao (1948), Mathematical Proceedings of the Cambridge Philosophical Society 44, 50-57, for the score
    test.
Departs: of chance the normal distribution stands in for permutations.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import chdtri

from fairbound.tables.bending import LEVEL, NEARLY, PENALTY
from fairbound.tables.logistic import fitted, probabilities, second

MOST = 128
"""Jumps of all numbers together, at most."""

CELLS = 1 << 23
"""Cells of the features that the tests look at, at most."""

BINS = 256
"""Bins of a number, at most."""

LEAST = 10.0
"""Sum of p (1 - p) that the rows of an interval need, and those outside it: with less, the normal distribution is no
good stand-in for chance."""


def jumps_of(features: np.ndarray, labels: np.ndarray, numbers: Sequence[int]) -> list[list[float]]:
    """Of each number the values, ascending and between those of the rows, beyond which a 0/1 column is asked for.

    features: (n, d). labels: (n,) 0 or 1. numbers: the columns of features that are numbers.
    """
    edges = [edges_of(features[:, at]) for at in numbers]
    intervals = sum(len(own) * (len(own) + 1) // 2 for own in edges)
    found: list[list[float]] = [[] for _ in numbers]
    if not intervals:
        return found
    bins = [np.searchsorted(own, features[:, at]) for own, at in zip(edges, numbers, strict=True)]
    enough = chdtri(1, LEVEL / intervals)
    regression = _Growing(features, labels, MOST)
    ended = True
    while regression.added < MOST:
        p = regression.fitted(ended)
        before = regression.added
        for own, of, kept in zip(edges, bins, found, strict=True):
            for end in surest_interval(of, len(own) + 1, labels - p, p * (1 - p), enough):
                if float(own[end]) not in kept and regression.added < MOST:
                    kept.append(float(own[end]))
                    regression.add(of > end)
        if regression.added == before and ended:
            break
        ended = regression.added == before
    return [sorted(kept) for kept in found]


class _Growing:
    """The logistic regression of labels (n,) on features (n, d) to which at most `more` columns come one by one."""

    def __init__(self, features: np.ndarray, labels: np.ndarray, more: int):
        self.labels, self.added, self.start = labels, 0, features.shape[1] + 1
        self.room = np.empty((len(features), self.start + more), order="F")
        self.room[:, 0], self.room[:, 1 : self.start] = 1.0, features
        self.x, self.p = np.zeros(self.start), np.full(len(features), 0.5)
        self.near = np.empty((0, 0))

    def fitted(self, ended: bool) -> np.ndarray:
        """(n,) probabilities of label 1: nearly at the end of the regression where it is to be `ended`, else after one
        Newton step, with the second derivatives of the end before and those of the columns that came since."""
        width, mass = self.start + self.added, np.ones(len(self.labels))
        A, x, Q = self.room[:, :width], np.r_[self.x, np.zeros(width - len(self.x))], None
        if not ended:
            known = len(self.near)
            new = A.T @ ((self.p * (1 - self.p))[:, None] * A[:, known:])
            self.near = Q = np.block([[self.near, new[:known]], [new.T]])
        penalty = np.r_[0.0, np.full(width - 1, PENALTY)]
        self.x = fitted(A, self.labels, mass, penalty, x, Q, NEARLY if ended else np.inf)
        self.p = probabilities(A @ self.x)
        if ended:
            self.near = second(A, mass, self.p)
        return self.p

    def add(self, column: np.ndarray) -> None:
        """Add a column (n,)."""
        self.room[:, self.start + self.added] = column
        self.added += 1


def edges_of(values: np.ndarray) -> np.ndarray:
    """(k,) ascending edges between values (n,), k < BINS; none of values of fewer than three kinds. Every value that
    more than n / BINS rows have is a bin of its own, the others are divided into bins of about as many rows each."""
    kinds, counts = np.unique(values, return_counts=True)
    if len(kinds) < 3:
        return kinds[:0]
    if len(kinds) > BINS:
        common = counts * BINS > len(values)
        rest = np.cumsum(np.where(common, 0, counts))
        share = max(BINS - 2 * int(common.sum()), 1)
        part = np.ceil(rest * share / max(int(rest[-1]), 1))
        ends = common | np.r_[common[1:], True] | np.r_[part[1:] > part[:-1], True]
        last = np.flatnonzero(ends)[:-1]
    else:
        last = np.arange(len(kinds) - 1)
    return (kinds[last] + kinds[last + 1]) / 2


def surest_interval(bins: np.ndarray, count: int, left: np.ndarray, spread: np.ndarray, enough: float) -> list[int]:
    """The edges that end the interval of bins whose rows are misjudged most surely; none where not even that is sure.

    bins: (n,) of each row, 0 to count - 1; edge i lies behind bin i. left: (n,) labels less probabilities. spread: (n,)
    p (1 - p). enough: the least score statistic.
    """
    slope, size = (np.r_[0.0, np.bincount(bins, of, count).cumsum()] for of in (left, spread))
    first, end = np.triu_indices(count + 1, 1)
    within = size[end] - size[first]
    outside = size[-1] - within
    testable = (within >= LEAST) & (outside >= LEAST)
    if not testable.any():
        return []
    first, end, within, outside = (of[testable] for of in (first, end, within, outside))
    statistic = (slope[end] - slope[first]) ** 2 * size[-1] / (within * outside)
    best = int(statistic.argmax())
    if statistic[best] <= enough:
        return []
    return [int(edge) - 1 for edge in (first[best], end[best]) if 0 < edge < count]
