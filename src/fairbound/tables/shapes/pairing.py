"""Which two columns of a table should act together, found by tests: what neither tells alone.

Each column splits the rows in two in some ways: a number at a value, a category from all others. Two splits of two
columns make four cells.

    fit a regression of the labels on the features: logistic of two classes, least squares of numbers
    repeat, until there are MOST pairs
        for every two columns and every two of their splits: the score statistic of a 0/1 column of the rows of one cell,
            beside the two splits themselves
        of every two columns take the splits of the largest, if chance gives so large a one with probability at most
            LEVEL / (splits of all two columns); of these the AT_ONCE surest; none at all: end
        fit again, with a 0/1 column of the rows in both splits, and of those splits themselves that are no feature yet
    take out, the least sure first, the columns without which the loss is hardly larger, as jumps (`growing`)

With slopes s and variances v of the four cells, and d = s1 / v1 - s2 / v2 - s3 / v3 + s4 / v4, the statistic is
d^2 / (1 / v1 + 1 / v2 + 1 / v3 + 1 / v4). It leaves out what further columns account for, so that the tests ask for
rather more. Of labels that are numbers the sum of 1 / v is the larger of those with one variance for all rows and with
one for each.

Source: Lou, Caruana, Gehrke and Hooker (2013), Accurate intelligible models with pairwise interactions, KDD, for every
    two columns by cumulative sums over four cells; Rao (1948), Mathematical Proceedings of the Cambridge Philosophical
    Society 44, 50-57, for the score test.
Departs: a test says which are taken, in place of a ranking; both splits themselves are accounted for, and become
    columns too; a category is split from all others; a pair is one 0/1 column of a linear model, not a table of cells.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri

from fairbound.base.seeds import seed_for
from fairbound.tables.shapes.bending import LEVEL
from fairbound.tables.shapes.growing import Growing
from fairbound.tables.shapes.jumping import LEAST, NEAR
from fairbound.tables.shapes.splits import Divided

MOST, AT_ONCE = 32, 4
"""Pairs at most, and how many of them are added before the regression is fitted again."""

COLUMNS = 64
"""Columns that are looked at: of more, those that the regression's scores vary with most."""

CELLS = 1 << 25
"""Rows times pairs of columns that are looked at, at most; of more a random part of the rows."""

Found = tuple[int, int, int, int]
"""A column and its split, another column and its split."""


class Together(NamedTuple):
    """pairs: whose rows in both splits need a 0/1 column; jumps: columns and splits at which numbers need to jump too."""

    pairs: list[Found]
    jumps: list[tuple[int, int]]


def pairs_of(
    regression: Growing,
    columns: Sequence[Divided],
    known: Collection[tuple[int, int]] = (),
    share: float = 1.0,
) -> Together:
    """What the labels ask for; the regression, on the features of the columns, gets its columns. known: splits at which
    numbers jump already. share: of LEVEL and of MOST."""
    tests = sum(len(first.splits) * len(second.splits) for first, second in combinations(columns, 2))
    if not tests:
        return Together([], [])
    enough, first, found = chdtri(1, share * LEVEL / tests), regression.width, list[Found]()
    added, jumps = list[Found | tuple[int, int]](), set(known)
    left, spread, squares = regression.fitted()
    looked_at = list(combinations(_most_telling(regression, columns), 2))
    rows = _part(len(left), len(looked_at))
    some = [column._replace(bins=column.bins[rows]) for column in columns]
    while True:
        left, spread, squares = left[rows], spread[rows], None if squares is None else squares[rows]
        surest_of = {}
        for c, d in looked_at:
            size, s, t = surest(some[c], some[d], left, spread, squares)
            if size > NEAR * enough:
                surest_of[c, d] = size, (c, s, d, t)
        looked_at = list(surest_of)
        sure = sorted((one for one in surest_of.values() if one[0] > enough), reverse=True)
        new = [pair for _, pair in sure if pair not in found][: min(AT_ONCE, int(share * MOST) - len(found))]
        if not new:
            break
        for c, s, d, t in new:
            for of, split in ((c, s), (d, t)):
                if (of, split) not in jumps and (jump := columns[of].jump(split)) is not None:
                    jumps.add((of, split))
                    added.append((of, split))
                    regression.add(jump)
            added.append((c, s, d, t))
            regression.add(columns[c].of_rows(s) & columns[d].of_rows(t))
        found += new
        left, spread, squares = regression.fitted()
    kept = [one for one, needed in zip(added, regression.keep_needed(first, share * LEVEL), strict=True) if needed]
    return Together([one for one in kept if len(one) == 4], [one for one in kept if len(one) == 2])


def _part(rows: int, pairs: int) -> np.ndarray | slice:
    """Numbers of the rows that are looked at, at random where there are too many."""
    most = max(CELLS // max(pairs, 1), 1)
    if rows <= most:
        return slice(None)
    return np.sort(np.random.default_rng(seed_for("pairs")).choice(rows, most, replace=False))


def _most_telling(regression: Growing, columns: Sequence[Divided]) -> list[int]:
    """Numbers of at most COLUMNS columns, ascending."""
    if len(columns) <= COLUMNS:
        return list(range(len(columns)))
    spreads = [regression.spread_of(column.features) for column in columns]
    return sorted(np.argsort(spreads)[::-1][:COLUMNS].tolist())


def surest(
    first: Divided,
    second: Divided,
    left: np.ndarray,
    spread: np.ndarray,
    squares: np.ndarray | None = None,
) -> tuple[float, int, int]:
    """The largest statistic of two columns' splits, 0 where none can be tested, and the numbers of these.

    left: (n,) labels less what is expected; spread: (n,) the variance of each; squares: (n,) of `left`, where these may
    show that `spread` is too small.
    """
    shape = first.splits.shape[1], second.splits.shape[1]
    both = first.bins * shape[1] + second.bins

    def cells(of: np.ndarray) -> np.ndarray:
        """(4, s, t) sums over the cells: in both splits, in the first alone, in the second alone, in neither."""
        table = np.bincount(both, of, shape[0] * shape[1]).reshape(shape)
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
