"""How much more or less one model's value of a bound is than another's, where the value is a largest contrast of groups.

The value is c = max_j c_j. Where several contrasts are nearly the largest its bootstrap fails, however many rows there
are. So only those move by which chance may have made another the largest. Of what the true contrasts may be, given the
rows, there are draws (`drawn_again`):

    c_j of the rows; h_j >= l_j the j-th true contrast of a draw, at most and at least; s_j the standard deviation
    over the draws of how far h_j lies below that of the largest c, or l_j, the larger one
    J = those j with c_j >= c - sqrt(log n) s_j

Let k be the one that is truly the largest of the other model, whose contrasts are marked '. It is fixed, but not known.
The other value is k's true contrast there, and this model's value is no less than two things: its largest contrast less
what chance may have added to it, and its own true contrast k. So in truth the other value less this one is at most

    h'_k + max_J (c_j - l_j) - c    and    h'_k - l_k                           (as in the draws)

For each of the two its quantile over the draws is a limit, but the smaller of two limits fails more often than each. So
both take the same place in the order of their draws, the lowest at which the share of draws that lie above neither is the
level. Both limits hold together at that level, and the smaller one with them. Where the two are one and the same in every
draw, as for one k that is by far the largest of both models, this is their quantile. The largest of these limits over
the k in J' holds whichever k it is. The second is left out for a k outside J, where it says little and the first would
pay for it.

The second is what says that two models which decide nearly alike differ by little. A model's h_j with the other's l_k
are drawn together: what both decide alike cancels. Of ratios, which are bounded from below, the least is taken in place
of the largest, and J is found by their logarithms.

Source: Andrews, Soares (2010), Econometrica 78, 119-157, for J and sqrt(log n).
"""

from __future__ import annotations

import math
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

    at, spreads, moves = _told(own, sign), np.empty((2, m)), np.empty((2, m), dtype=bool)
    for k in range(2):
        largest = _told(sign * draws(k, at[k].argmax(keepdims=True)), sign)
        for block, ends in blocks(k, np.arange(m)):
            spreads[k, block], moves[k, block] = (
                (largest - _told(ends, sign)).std(1).max(0),
                np.ptp(ends, axis=1).any(0),
            )
    near = [np.flatnonzero(row) for row in at >= at.max(1, keepdims=True) - np.log(n) ** 0.5 * spreads]
    still = not any(moves[k, near[k]].any() for k in range(2))
    if still or (np.array_equal(*own) and _alike(blocks(0, near[0]), blocks(1, near[0]))):
        return {}
    above = [np.max([(own[k, b] - ends[1]).max(1) for b, ends in blocks(k, near[k])], axis=0) for k in range(2)]

    def highest(k: int) -> float:
        """A limit from above of the other value less the k-th one."""
        other, found = 1 - k, []
        both = zip(blocks(other, near[other]), blocks(k, near[other]), strict=True)
        for (block, theirs), (_, ours) in both:
            first = theirs[0] + above[k][:, None] - own[k].max()
            second = np.where(np.isin(block, near[k]), theirs[0] - ours[1], first)
            found.append(_lower_of_two(first, second, (1 + confidence) / 2).max())
        return float(max(found))

    value = float(own[1].max() - own[0].max())
    low, high = min(value, -highest(1)), max(value, highest(0))
    low, high = (low, high) if sign > 0 else (-high, -low)
    return {"lower": max(low, -reach), "upper": min(high, reach)}


def _lower_of_two(first: np.ndarray, second: np.ndarray, level: float) -> np.ndarray:
    """(p,) the smaller of limits from above of two numbers, (D, p) each in D draws: at the same place in the order of
    each, the lowest at which one more draw like these exceeds neither with probability `level`."""
    both, D = (first, second), len(first)
    places = np.maximum(*(part.argsort(0, kind="stable").argsort(0) for part in both))
    place = np.sort(places, 0)[min(math.ceil(level * (D + 1)), D) - 1][None]
    return np.minimum(*(np.take_along_axis(np.sort(part, 0), place, 0)[0] for part in both))


def _told(contrasts: np.ndarray, sign: float) -> np.ndarray:
    """That by which those near the largest are told: of quotients their logarithms, in which a / b and b / a are equally
    uncertain."""
    return contrasts if sign > 0 else -np.log(np.clip(-contrasts, *FARTHEST))


def _alike(first: Blocks, second: Blocks) -> bool:
    """Whether the contrasts of one model are at most, in all draws, what those of the other are at least."""
    return all(np.array_equal(a[0], b[1]) for (_, a), (_, b) in zip(first, second, strict=True))
