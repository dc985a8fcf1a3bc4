"""How much more or less one model's value of a bound is than another's, where the value is a largest contrast of groups.

The value is c = max_j c_j. Where several contrasts are nearly the largest its bootstrap fails, however many rows there
are. So only those move by which chance may have made another the largest. Of what the true contrasts may be, given the
rows, there are draws (`drawn_again`):

    c_j of the rows; h_j >= l_j the j-th true contrast of a draw, at most and at least; s_j the standard deviation of
    h_j or l_j over the draws, the larger one
    J = those j with c_j >= c - sqrt(log n) s_j

c lies above its true value by at most the largest c_j - l_j of J, and the true value of the other model, ', is
c'_k + (h'_k - c'_k) at most for the one k that is truly its largest. Which k that is, is not known. So the value of one
model less that of the other is in truth at least

    c - max_k (c'_k + q_k),   q_k the quantile of max_J (c_j - l_j) + h'_k - c'_k,   k in J'

A model's h_j with the other's l_k are drawn together: what both decide alike cancels. Of ratios, which are bounded from
below, the least is taken in place of the largest, and J is found by their logarithms, with 2 s_j.

Source: Andrews, Soares (2010), Econometrica 78, 119-157, for J and sqrt(log n).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

FARTHEST = 0.01, 100.0
"""Quotients between which logarithms say which of them may be the least."""

FEWEST = 100
"""Draws below which there are no limits."""

BLOCK = 1024
"""Contrasts that are looked at together."""

Draws = Callable[[int, np.ndarray], np.ndarray]
"""The number of a model, 0 or 1, and those of p contrasts, ascending -> (2, D, p) what these are in truth in D draws, at
most and at least."""

Blocks = Iterator[tuple[np.ndarray, np.ndarray]]
"""The numbers of some contrasts, and what these are in truth in all draws, of one block after another."""


def difference_of_largest(
    own: np.ndarray, draws: Draws, compares: str, n: int, confidence: float, reach: float
) -> dict[str, float]:
    """Limits of the second value less the first; {} of fewer than 100 draws and where nothing varies, as an interval of
    one point would claim certainty.

    own: (2, m) the contrasts of n rows. reach: from 0 to it all values lie."""
    if draws(0, np.arange(1)).shape[1] < FEWEST:
        return {}
    sign = -1.0 if compares == "ratios" else 1.0
    own, m = sign * own, own.shape[1]

    def blocks(k: int, some: np.ndarray) -> Blocks:
        """Of each block of contrasts its numbers, and what `draws` has of the k-th model."""
        for block in np.split(some, range(BLOCK, len(some), BLOCK)):
            yield block, sign * draws(k, block)

    spreads, moves = np.empty((2, m)), np.empty((2, m), dtype=bool)
    for k in range(2):
        for block, ends in blocks(k, np.arange(m)):
            spreads[k, block], moves[k, block] = _told(ends, sign).std(1).max(0), np.ptp(ends, axis=1).any(0)
    reached = (1.0 if sign > 0 else 2.0) * np.log(n) ** 0.5 * spreads
    at = _told(own, sign)
    near = [np.flatnonzero(row) for row in at >= at.max(1, keepdims=True) - reached]
    still = not any(moves[k, near[k]].any() for k in range(2))
    if still or (np.array_equal(*own) and _alike(blocks(0, near[0]), blocks(1, near[0]))):
        return {}
    above = [np.max([(own[k, b] - ends[1]).max(1) for b, ends in blocks(k, near[k])], axis=0) for k in range(2)]

    def lowest(k: int) -> float:
        """A limit from below of the k-th value less the other one."""
        other, level = 1 - k, (1 + confidence) / 2
        highest = [
            (own[other, b] + np.quantile(above[k][:, None] + ends[0] - own[other, b], level, axis=0)).max()
            for b, ends in blocks(other, near[other])
        ]
        return float(own[k].max() - max(highest))

    value = float(own[1].max() - own[0].max())
    low, high = min(value, lowest(1)), max(value, -lowest(0))
    low, high = (low, high) if sign > 0 else (-high, -low)
    return {"lower": max(low, -reach), "upper": min(high, reach)}


def _told(contrasts: np.ndarray, sign: float) -> np.ndarray:
    """That by which those near the largest are told: of quotients their logarithms, in which a / b and b / a are equally
    uncertain, and move apart by twice as much."""
    return contrasts if sign > 0 else -np.log(np.clip(-contrasts, *FARTHEST))


def _alike(first: Blocks, second: Blocks) -> bool:
    """Whether the contrasts of one model are at most, in all draws, what those of the other are at least."""
    return all(np.array_equal(a[0], b[1]) for (_, a), (_, b) in zip(first, second, strict=True))
