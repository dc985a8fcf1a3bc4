"""Rows divided at random into parts that keep the shares of every stratum: the one splitter of the library."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fairbound.base.errors import OptionError
from fairbound.rows.strata import ranked, strata_of


def stratified_split(strata: np.ndarray, shares: Sequence[float], seed: int) -> list[np.ndarray]:
    """Random parts of n rows: first the rows that are left over, then a part for each share.

    strata: (n, C) integers; equal rows are one stratum, and C = 0 is a single one. shares: of all rows, each in [0, 1),
    with a sum below 1. seed: decides the parts, as a function of the strata and shares alone.

    A part of share p has p * n rows, rounded up. A stratum of k rows gives it the whole part of its proportional share,
    and one row more where its fraction is among the largest, equal fractions in random order; so it is off by at most
    one row. Of every stratum at least one row is left over: one of a single row gives none, and a part may then be
    smaller.

    Returns: sorted row numbers, 1 + len(shares) arrays that together hold every row once.
    """
    if min(shares, default=0) < 0 or not sum(shares) < 1:
        raise OptionError(f"shares must not be negative, with a sum below 1; got {list(shares)}.")
    n, (stratum, _) = len(strata), strata_of(strata)
    numbers = np.arange(n, dtype=np.min_scalar_type(-n - 1))  # in half the memory
    left, parts = np.random.default_rng(seed).permutation(numbers), []
    for share in shares:
        chosen = _first_rows(stratum[left], math.ceil(round(share * n, 9)))
        parts.append(left[chosen])
        left = left[~chosen]
    return [np.sort(part).astype(np.int64) for part in (left, *parts)]


def split_whole(units: np.ndarray, strata: np.ndarray, shares: Sequence[float], seed: int) -> list[np.ndarray]:
    """As `stratified_split`, with all rows of a unit, such as one person, in one part.

    units: (n,) integers. strata: (n, C); a unit is in that of its first row. shares: of the units.
    """
    _, first, unit = np.unique(units, return_index=True, return_inverse=True)
    part = np.empty(len(first), dtype=np.int64)
    for number, chosen in enumerate(stratified_split(strata[first], shares, seed)):
        part[chosen] = number
    return [np.flatnonzero(part[unit] == number) for number in range(1 + len(shares))]


def _first_rows(stratum: np.ndarray, size: int) -> np.ndarray:
    """Mask of `size` rows: the first ones of each stratum, as many as its share by the largest remainders."""
    number, counts = ranked(stratum)
    order = np.argsort(number, kind="stable")
    starts = np.cumsum(counts) - counts
    first = order[starts]
    exact = counts * (size / max(len(stratum), 1))
    quota = np.minimum(np.floor(exact).astype(np.int64), counts - 1)
    open_ = np.flatnonzero(quota < counts - 1)
    by_remainder = open_[np.lexsort((first[open_], -(exact - quota)[open_]))]
    quota[by_remainder[: size - quota.sum()]] += 1
    edge = np.zeros(len(stratum) + 1, dtype=np.int8)
    edge[starts] += 1
    edge[starts + quota] -= 1
    chosen = np.empty(len(stratum), dtype=bool)
    chosen[order] = edge.cumsum(dtype=np.int8)[:-1]
    return chosen
