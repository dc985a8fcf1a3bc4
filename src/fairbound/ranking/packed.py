"""The counts of `wins` for rows of equal weight, several times faster.

A score's last few bits give way to the row's cell, so that one sort of plain integers orders both, and several rows at
a time are looked up in a table.

A score and its cell are one number, key = (score's bits, made to ascend with the score) with the low bits replaced.
"""

from __future__ import annotations

from functools import cache

import numpy as np

CHUNK = 1 << 16  # rows at a time: what fits near the processor
WORD_BITS = 12  # rows that are looked up together have so many bits of cells


def cell_bits(k: int) -> int:
    """Bits that hold a cell below k."""
    return max(int(k - 1).bit_length(), 1)


def sorted_keys(s: np.ndarray, c: np.ndarray, k: int) -> tuple[np.ndarray, bool] | None:
    """Keys (n,) of scores s (n,) float64 and cells c (n,), ascending, and whether two rows have equal scores.

    None where some scores are equal but for bits that gave way.
    """
    bits = cell_bits(k)
    low, used = np.int64((1 << bits) - 1), 0
    key = np.empty(len(s), dtype=np.int64)
    for at in range(0, len(s), CHUNK):
        part = slice(at, at + CHUNK)
        own = (s[part] + 0.0).view(np.int64)  # + 0.0: no -0.0, which is equal to 0.0 and has other bits
        used |= int(np.bitwise_or.reduce(own))
        own ^= (own >> 63) & np.int64(0x7FFF_FFFF_FFFF_FFFF)  # negative scores in ascending order too
        own &= ~low
        np.bitwise_or(own, c[part], out=key[part])
    key.sort()
    plain = key.view(np.uint64)
    parts = (plain[at : at + CHUNK + 1] for at in range(0, len(key), CHUNK))
    tied = any(((part[1:] ^ part[:-1]) <= np.uint64(low)).any() for part in parts)
    return None if tied and used & int(low) else (key, tied)


def tied_pairs(key: np.ndarray, k: int) -> np.ndarray:
    """(k, k) pairs of rows of cells a < b with equal scores, 0 for a >= b."""
    bits = cell_bits(k)
    ends = np.flatnonzero(np.r_[key[1:] != key[:-1], True])
    counts, key = np.diff(ends, prepend=-1), key[ends]
    cells, scores = key & ((1 << bits) - 1), key >> bits
    same = scores[1:] == scores[:-1]
    mixed = np.r_[same, False] | np.r_[False, same]
    run = np.cumsum(np.r_[True, ~same])[mixed] - 1
    run = np.cumsum(np.r_[0, run[1:] != run[:-1]]) if len(run) else run
    cells, counts = cells[mixed], counts[mixed]
    table = np.bincount(run * k + cells, weights=counts, minlength=(int(run[-1]) + 1) * k if len(run) else 0).reshape(
        -1, k
    )
    return np.triu(table.T @ table, 1)


@cache
def word_table(k: int) -> tuple[int, np.ndarray, np.ndarray]:
    """Rows q of a word; for every word of q cells its rows in each cell (words, k) and its wins of later rows over
    earlier ones (words, k, k), float32."""
    bits = cell_bits(k)
    q = 1 << (max(WORD_BITS // bits, 1).bit_length() - 1)
    digits = (np.arange(1 << (bits * q))[:, None] >> (bits * np.arange(q))) & ((1 << bits) - 1)
    rows = np.eye(1 << bits, k, dtype=np.float32)[digits]
    earlier = rows.cumsum(1) - rows
    return q, rows.sum(1), rows.transpose(0, 2, 1) @ earlier


def word_codes(key: np.ndarray, k: int, q: int) -> np.ndarray:
    """(n / q,) numbers of the words of sorted keys (n,)."""
    bits = cell_bits(k)
    cells = (key.view(np.uint8)[:: key.itemsize] & np.uint8((1 << bits) - 1)).reshape(-1, q)
    codes = cells[:, 0].astype(np.int64)
    for j in range(1, q):
        codes |= cells[:, j].astype(np.int64) << (bits * j)
    return codes
