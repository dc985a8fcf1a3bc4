"""Which two columns of a table should act together, found by tests: what neither tells alone.

Each column splits the rows in two in some ways: a number at a value, a category from all others. Two splits of two
columns make four cells.

    fit a regression of the labels on the features: logistic of two classes, least squares of numbers
    repeat, until there are MOST pairs
        for every two columns and every two of their splits: the score statistic of a 0/1 column of the rows of one cell,
            beside the two splits themselves
        of every two columns take the splits of the largest, if chance gives so large a one with probability at most
            LEVEL / (splits of all two columns); of these the AT_ONCE surest; none at all: end
        fit again, with a 0/1 column of the rows in both splits
    take out, the least sure first, the pairs without which the loss is hardly larger, as jumps (`growing`)

With slopes s and variances v of the four cells, and d = s1 / v1 - s2 / v2 - s3 / v3 + s4 / v4, the statistic is
d^2 / (1 / v1 + 1 / v2 + 1 / v3 + 1 / v4). It leaves out what further columns account for, so that the tests ask for
rather more. Of labels that are numbers the sum is the larger of those with one variance for all rows and with one for
each.

Source: Lou, Caruana, Gehrke and Hooker (2013), Accurate intelligible models with pairwise interactions, KDD, for every
    two columns by cumulative sums over four cells; Rao (1948), Mathematical Proceedings of the Cambridge Philosophical
    Society 44, 50-57, for the score test.
Departs: a test says which are taken, in place of a ranking; both splits themselves are accounted for; categories are
    split one from the others; columns whose sums take part stay linear.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from scipy.special import chdtri

from fairbound.tables.bending import LEVEL
from fairbound.tables.growing import Growing
from fairbound.tables.jumping import LEAST, NEAR
from fairbound.tables.splits import Divided

MOST, AT_ONCE = 32, 4
"""Pairs at most, and how many of them are added before the regression is fitted again."""

COLUMNS = 64
"""Columns that are looked at: of more, those that the regression's scores vary with most."""

CELLS = 1 << 25
"""Rows times pairs of columns that are looked at, at most; of more an even part of the rows."""

Found = tuple[int, int, int, int]
"""A column and its split, another column and its split."""


def pairs_of(regression: Growing, columns: Sequence[Divided], share: float = 1.0) -> list[Found]:
    """The pairs of splits whose rows in both need a 0/1 column; the regression, on the features of the columns, gets
    these. share: of LEVEL and of MOST."""
    tests = sum(len(first.splits) * len(second.splits) for first, second in combinations(columns, 2))
    if not tests:
        return []
    enough, first, found = chdtri(1, share * LEVEL / tests), regression.width, list[Found]()
    left, spread, squares = regression.fitted()
    looked_at = list(combinations(_most_telling(regression, columns), 2))
    rows = slice(None, None, -(-len(left) * len(looked_at) // CELLS))
    while True:
        surest_of = {}
        for c, d in looked_at:
            size, s, t = surest(columns[c], columns[d], rows, left, spread, squares)
            if size > NEAR * enough:
                surest_of[c, d] = size, (c, s, d, t)
        looked_at = list(surest_of)
        sure = sorted((one for one in surest_of.values() if one[0] > enough), reverse=True)
        new = [pair for _, pair in sure if pair not in found][: min(AT_ONCE, int(share * MOST) - len(found))]
        if not new:
            break
        for c, s, d, t in new:
            regression.add(columns[c].of_rows(s) & columns[d].of_rows(t))
        found += new
        left, spread, squares = regression.fitted()
    kept = regression.keep_needed(first, share * LEVEL)
    return [pair for pair, needed in zip(found, kept, strict=True) if needed]


def _most_telling(regression: Growing, columns: Sequence[Divided]) -> list[int]:
    """Numbers of at most COLUMNS columns, ascending."""
    if len(columns) <= COLUMNS:
        return list(range(len(columns)))
    spreads = [regression.spread_of(column.features) for column in columns]
    return sorted(np.argsort(spreads)[::-1][:COLUMNS].tolist())


def surest(
    first: Divided,
    second: Divided,
    rows: slice,
    left: np.ndarray,
    spread: np.ndarray,
    squares: np.ndarray | None = None,
) -> tuple[float, int, int]:
    """The largest statistic of two columns' splits, 0 where none can be tested, and the numbers of these.

    rows: those that count. left: (n,) labels less what is expected; spread: (n,) the variance of each; squares: (n,) of
    `left`, where these may show that `spread` is too small.
    """
    shape = first.splits.shape[1], second.splits.shape[1]
    both = first.bins[rows] * shape[1] + second.bins[rows]

    def cells(of: np.ndarray) -> np.ndarray:
        """(4, s, t) sums over the cells: in both splits, in the first alone, in the second alone, in neither."""
        table = np.bincount(both, of[rows], shape[0] * shape[1]).reshape(shape)
        by_first, by_second = first.splits @ table, second.splits @ table.sum(0)
        inner, outer = by_first @ second.splits.T, by_first.sum(1)[:, None]
        return np.stack([inner, outer - inner, by_second - inner, table.sum() - outer - by_second + inner])

    slope, size = cells(left), cells(spread)
    testable = (size >= LEAST).all(axis=0)
    if not testable.any():
        return 0.0, 0, 0
    size = np.where(testable, size, 1.0)
    mean, variance = slope / size, (1 / size).sum(0)
    if squares is not None:
        variance = np.maximum(variance, (cells(squares) / size**2).sum(0))
    statistic = np.where(testable, (mean[0] - mean[1] - mean[2] + mean[3]) ** 2 / variance, 0.0)
    s, t = divmod(int(statistic.argmax()), statistic.shape[1])
    return float(statistic[s, t]), s, t
