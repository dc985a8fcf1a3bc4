"""Pairs of rows by who has the higher score, counted between cells of rows from one sort, and the areas they make.

    AUC(G, G') = Pr(s > s' | G, G') + 1/2 Pr(s = s' | G, G'),    a row of G and a row of G' drawn independently

is the weight of the pairs (row of G, row of G') in which the first wins, ties as one half, over the weight of all such
pairs. A row of both sets is also paired with itself, a tie, so that AUC(G, G) is exactly 1/2. Sets that are unions of
disjoint cells need the k x k table of wins between the cells, and no second look at the rows.

Source: Yao, Lin, Yang (2023), Definition 1; Hanley, McNeil (1982) for ties.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from fairbound.base.errors import DataError
from fairbound.ranking.packed import CHUNK, cell_bits, sorted_keys, tied_pairs, word_codes, word_table

TABLE_NUMBERS = 1 << 17  # numbers of a table of scores by cells that is held at a time
MOST_PACKED = 64  # most cells that are sorted with the scores
MOST_COMPARED = 256  # most rows that are compared pair by pair


@dataclass(frozen=True)
class Wins:
    """above: (k, k) weight of the pairs of a row of cell a and a row of cell b in which the first has the higher score,
    ties as one half. totals: (k,) weight of each cell."""

    above: np.ndarray
    totals: np.ndarray

    def areas(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """(...,) AUC(first, second) of sets (..., k) of whole cells, True for the cells in it;
        NaN where a set is empty."""
        f, s = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
        won = ((f @ self.above) * s).sum(-1)
        pairs = (f @ self.totals) * (s @ self.totals)
        return np.divide(won, pairs, out=np.full(np.shape(won), np.nan), where=pairs > 0)

    def between(self, sets: np.ndarray) -> np.ndarray:
        """(S, S) AUC(sets[a], sets[b]) of all pairs of the sets (S, k); NaN where a set is empty."""
        member = np.asarray(sets, dtype=float)
        totals = member @ self.totals
        pairs = np.outer(totals, totals)
        return np.divide(member @ self.above @ member.T, pairs, out=np.full(pairs.shape, np.nan), where=pairs > 0)


def cell_wins(scores: Any, cells: Any, k: int, weight: Any = None) -> Wins:
    """The table of wins between the cells 0 .. k - 1, from one sort.

    scores: (n,) real. cells: (n,) integers below k; rows with a negative one are in no cell. weight: (n,) >= 0, None
    for 1. Exact for rows of weight 1, up to 6e7 of them. Time O(n log n + n k), memory O(n).
    Raises: DataError for shapes that do not fit, and for scores that are NaN.
    """
    s, c = np.asarray(scores, dtype=np.float64), np.asarray(cells)
    w = None if weight is None else np.asarray(weight, dtype=np.float64)
    if s.ndim != 1 or c.shape != s.shape or (w is not None and w.shape != s.shape):
        raise DataError(f"scores, cells and weights must be (n,), got {s.shape}, {c.shape}, {np.shape(weight)}.")
    if np.isnan(s).any():
        raise DataError(f"{int(np.isnan(s).sum())} of {len(s)} scores are NaN; drop these rows or fill them.")
    c = c.astype(np.int64, copy=False)
    if len(c) and int(c.max()) >= k:
        raise DataError(f"cells are numbered from 0 to {k - 1}, got {int(c.max())}.")
    if len(c) and int(c.min()) < 0:
        known = c >= 0
        s, c, w = s[known], c[known], None if w is None else w[known]
    if len(s) <= MOST_COMPARED:
        return _compared_wins(s, c, k, w)
    made = _packed_wins(s, c, k) if w is None and k <= MOST_PACKED else None
    if made is not None:
        return made
    order = np.argsort(s)
    s, c, w = s[order], c[order], np.ones(len(s)) if w is None else w[order]
    starts = np.flatnonzero(np.r_[True, s[1:] != s[:-1], True]) if len(s) else np.zeros(1, dtype=np.int64)
    above, before = np.zeros((k, k)), np.zeros(k)
    length = max(TABLE_NUMBERS // k, 1)
    for at in range(0, len(starts) - 1, length):
        bounds = starts[at : at + length + 1]
        rows, distinct = slice(bounds[0], bounds[-1]), len(bounds) - 1
        place = np.repeat(np.arange(distinct), np.diff(bounds)) * k + c[rows]
        table = np.bincount(place, weights=w[rows], minlength=distinct * k).reshape(-1, k)
        won, total = _joined(table)
        above += won + table.T @ table / 2 + np.outer(total, before)
        before += total
    return Wins(above, before)


def _compared_wins(s: np.ndarray, c: np.ndarray, k: int, w: np.ndarray | None) -> Wins:
    """The table of `cell_wins` for few rows, each compared with each."""
    member = (c[:, None] == np.arange(k)).astype(np.float64)
    if w is not None:
        member *= w[:, None]
    above = s[:, None] > s
    won = above + 0.5 * ~(above | above.T)
    return Wins(member.T @ won @ member, member.sum(0))


@cache
def _halves(steps: int) -> np.ndarray:
    """(2^steps,) the order in which neighbours of all steps are half the length apart."""
    order = np.zeros(1, dtype=np.int64)
    for _ in range(steps):
        order = np.concatenate([2 * order, 2 * order + 1])
    return order


def _packed_wins(s: np.ndarray, c: np.ndarray, k: int) -> Wins | None:
    """The table of `cell_wins` for rows of weight 1 by `packed`; None where that cannot tell scores apart."""
    found = sorted_keys(s, c, k)
    if found is None:
        return None
    key, tied = found
    q, counts, within = word_table(k)
    above, before, seen = np.zeros((k, k)), np.zeros(k), np.zeros(len(counts))
    whole = len(key) // q * q
    for at in range(0, whole, CHUNK):
        codes = word_codes(key[at : min(at + CHUNK, whole)], k, q)
        seen += np.bincount(codes, minlength=len(counts))
        won, total = _joined(counts.take(codes, axis=0), q)
        above += won + np.outer(total, before)
        before += total
    above += np.tensordot(seen, within.astype(np.float64), 1)
    for cell in (key[whole:] & (2 ** cell_bits(k) - 1)).tolist():
        above[cell] += before
        before[cell] += 1
    above[np.diag_indices(k)] += before / 2
    if tied:  # among equal scores the rows of later cells were taken for the higher ones
        pairs = tied_pairs(key, k)
        above += (pairs - pairs.T) / 2
    return Wins(above, before)


def _joined(table: np.ndarray, rows: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Wins (k, k) of later over earlier rows of a table (u, k) of weights by ascending score, and its sum (k,).

    Neighbours are compared and then joined, until one is left; they are laid out so that each step compares one half
    with the other. rows: behind each row of a table in float32, which holds until sums might be rounded.
    """
    order = _halves(max(len(table) - 1, 0).bit_length())
    if len(order) > len(table):
        table = np.concatenate([table, np.zeros((len(order) - len(table), table.shape[1]), table.dtype)])
    table, above = table[order], np.zeros((table.shape[1],) * 2)
    while len(table) > 1:
        half = len(table) // 2
        if table.dtype == np.float32 and len(table) * rows**2 > 1 << 25:
            table = table.astype(np.float64)
        above += table[half:].T @ table[:half]
        table, rows = table[:half] + table[half:], 2 * rows
    return above, table[0].astype(np.float64)


def auc(scores: Any, first: Any, second: Any, weight: Any = None) -> float:
    """AUC(first, second) of any two sets of rows, which may overlap; NaN where one has no weight.

    scores: (n,) real; first, second: (n,) bool, True for the rows of the set; weight: (n,) >= 0, None for 1.
    """
    one, two = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    if one.shape != two.shape:
        raise DataError(f"the two sets must be marked among the same rows, got {one.shape} and {two.shape}.")
    cells = one + 2 * two.astype(np.int64) - 1
    inside = np.array([[True, False, True], [False, True, True]])
    return float(cell_wins(scores, cells, 3, weight).areas(*inside))
