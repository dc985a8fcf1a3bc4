"""Rankings of the documents of each query, measured exactly: pairs in the right order, gain, precision, exposure.

Every function takes the documents of one query after another: scores (n,), relevance (n,) and starts (Q + 1,), query q
being the rows starts[q] .. starts[q + 1]. Each is one or a few sorts, O(n log n), with memory linear in n.

A pair is two documents of one query of different relevance, the better and the worse one. It is won where the better
one has the higher score, half won where the scores are equal.

Source: Järvelin, Kekäläinen (2002) for the discounted gain, with gains 2^relevance - 1 and the discount
    1 / log2(1 + rank) of Burges et al. (2005); Singh, Joachims (2018), section 3, for exposure, with the same discount.
"""

from __future__ import annotations

import numpy as np


def of_query(starts: np.ndarray) -> np.ndarray:
    """(n,) query of each document."""
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def sums(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """(Q, ...) sums over the documents of each query of values (n, ...)."""
    return np.add.reduceat(values.astype(np.float64, copy=False), starts[:-1], axis=0)


def ranks(scores: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """(n,) places from 1 for the highest score of the query on;
    documents of equal scores share the mean of their places."""
    query = of_query(starts)
    order = np.lexsort((-scores, query))
    first, last = _runs(query[order], scores[order])
    out = np.empty(len(scores))
    out[order] = (first + last) / 2 - starts[query[order]] + 0.5
    return out


def _runs(key: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n,) where the run of equal (key, value) that each sorted place is in begins, and where it ends."""
    edge = np.flatnonzero(np.r_[True, (key[1:] != key[:-1]) | (value[1:] != value[:-1]), True])
    length = np.diff(edge)
    return np.repeat(edge[:-1], length), np.repeat(edge[1:], length)


def wins(
    scores: np.ndarray, relevance: np.ndarray, starts: np.ndarray, member: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """For each document, the pairs in which it is the better one: those won and all, (n, G) by the set of the worse
    one.

    member: (n, G) bool or numbers, whether each document is in each of G sets (how often). Two documents are a pair by
    the highest bit in which the ranks of their relevances differ. Every bit sorts the documents, which are in the order
    of their scores within a query already: time O(n (G + log n) log levels).
    """
    level = np.unique(relevance, return_inverse=True)[1].ravel()
    query, n = of_query(starts), len(scores)
    by_score = np.lexsort((scores, query))
    won, pairs = np.zeros((n, member.shape[1])), np.zeros((n, member.shape[1]))
    for bit in range(int(level.max(initial=0)).bit_length()):
        key = query * (int(level.max()) + 1) + (level >> (bit + 1))
        order = by_score[np.argsort(key[by_score], kind="stable")]
        sorted_key, high = key[order], (level[order] >> bit) & 1 == 1
        low = np.zeros((n + 1, member.shape[1]))
        np.cumsum(member[order] * ~high[:, None], axis=0, out=low[1:])
        edge = np.flatnonzero(np.r_[True, sorted_key[1:] != sorted_key[:-1], True])
        begin, end = (np.repeat(part, np.diff(edge)) for part in (edge[:-1], edge[1:]))
        first, last = _runs(sorted_key, scores[order])
        better = order[high]
        won[better] += (low[first[high]] + low[last[high]]) / 2 - low[begin[high]]
        pairs[better] += low[end[high]] - low[begin[high]]
    return won, pairs


def discount(rank: np.ndarray) -> np.ndarray:
    """1 / log2(1 + rank): how much attention a place gets, 1 for the first."""
    return 1 / np.log2(1 + rank)


def discounts(scores: np.ndarray, starts: np.ndarray, k: int | None = None) -> np.ndarray:
    """(n,) the discount of each document's place in its query, 0 beyond the first k (None: all); documents of equal
    scores share the mean of theirs."""
    query = of_query(starts)
    order = np.lexsort((-scores, query))
    place = np.arange(len(scores)) - starts[query[order]]
    given = np.where(place < (len(scores) if k is None else k), discount(place + 1.0), 0.0)
    first, last = _runs(query[order], scores[order])
    total = np.concatenate([[0.0], np.cumsum(given)])
    out = np.empty(len(scores))
    out[order] = (total[last] - total[first]) / (last - first)
    return out


def exposures(scores: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """(n,) share of its query's attention that each document gets; documents of equal scores get the same."""
    out = discounts(scores, starts)
    return out / np.repeat(sums(out, starts), np.diff(starts))


def ndcg(scores: np.ndarray, relevance: np.ndarray, starts: np.ndarray, k: int | None = None) -> np.ndarray:
    """(Q,) discounted gain of the first k places (None: all), over that of the best order; NaN where nothing is
    relevant.

    Documents of equal scores share their gains evenly, the mean over their orders (McSherry, Najork 2008). The gains of a
    query are taken over 2 to its largest relevance, which leaves the ratio as it is: a relevance of 1024 is finite so.
    """
    largest = np.repeat(np.maximum.reduceat(relevance, starts[:-1]), np.diff(starts)).astype(np.float64)
    gain = np.exp2(relevance - largest) - np.exp2(-largest)
    gained, best = (sums(gain * discounts(by, starts, k), starts) for by in (scores, relevance.astype(np.float64)))
    return np.divide(gained, best, out=np.full(len(starts) - 1, np.nan), where=best > 0)


def average_precision(scores: np.ndarray, relevant: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """(Q,) mean, over the relevant documents, of the share of relevant ones among those ranked no lower; NaN without
    any.

    relevant: (n,) bool. Among equal scores the documents that are not relevant come first, the worst order.
    """
    query = of_query(starts)
    order = np.lexsort((relevant, -scores, query))
    hit = relevant[order].astype(np.float64)
    found = np.cumsum(hit)
    found -= np.concatenate([[0.0], found])[starts[:-1]][query[order]]
    precision = hit * found / (np.arange(len(scores)) - starts[query[order]] + 1)
    total = sums(hit, starts)
    return np.divide(sums(precision, starts), total, out=np.full(len(starts) - 1, np.nan), where=total > 0)
