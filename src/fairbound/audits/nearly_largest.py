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
the k in J' holds whichever k it is. The second is left out for a k outside J, where it says little and the others would
pay for it.

The second is what says that two models which decide nearly alike differ by little. A model's h_j with the other's l_k
are drawn together: what both decide alike cancels.

Of ratios, which are bounded from below, the least is taken in place of the largest. J and what chance may have added are
those of their logarithms, in which a ratio above 1, which cannot be the least, moves no more than the one turned round. And
the least ratio is for certain at most 1: h'_k less that is a third limit, taken together with the two as they are. It is
left out where 1, as a ratio that never moves, would not be in J. Where many groups are nearly alike it is the lowest.

Source: Andrews, Soares (2010), Econometrica 78, 119-157, for J and sqrt(log n).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

FARTHEST = 0.01, 100.0
"""Quotients between which logarithms are taken; the second is the largest that is looked at."""

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

    own: (2, m) the contrasts of n rows, ratios to 0 infinite. reach: from 0 to it all values lie."""
    if draws(0, np.arange(1)).shape[1] < FEWEST:
        return {}
    sign = -1.0 if compares == "ratios" else 1.0
    own, m, highest_ratio = _turned(own, sign), own.shape[1], np.array([-reach])

    def blocks(k: int, some: np.ndarray) -> Blocks:
        """Of each block of contrasts its numbers, and what `draws` has of the k-th model."""
        for block in np.split(some, range(BLOCK, len(some), BLOCK)):
            yield block, _turned(draws(k, block), sign)

    at, spreads, moves = _told(own, sign), np.empty((2, m)), np.empty((2, m), dtype=bool)
    margin, may_be_highest = np.log(n) ** 0.5, [False, False]
    for k in range(2):
        largest = _told(_turned(draws(k, at[k].argmax(keepdims=True)), sign), sign)
        if sign < 0:
            may_be_highest[k] = bool(_told(highest_ratio, sign) >= at[k].max() - margin * largest.std(1).max())
        for block, ends in blocks(k, np.arange(m)):
            spreads[k, block], moves[k, block] = (
                (largest - _told(ends, sign)).std(1).max(0),
                np.ptp(ends, axis=1).any(0),
            )
    near = [np.flatnonzero(row) for row in at >= at.max(1, keepdims=True) - margin * spreads]
    still = not any(moves[k, near[k]].any() for k in range(2))
    if still or (np.array_equal(*own) and _alike(blocks(0, near[0]), blocks(1, near[0]))):
        return {}

    def least(k: int) -> np.ndarray:
        """(D, 1) the k-th value less what chance may have added to it."""
        added = [(_told(own[k, b], sign) - _told(ends[1], sign)).max(1) for b, ends in blocks(k, near[k])]
        return _value_of(at[k].max() - np.max(added, axis=0), sign)[:, None]

    def highest(k: int) -> float:
        """A limit from above of the other value less the k-th one."""
        other, value, found = 1 - k, least(k), []
        both = zip(blocks(other, near[other]), blocks(k, near[other]), strict=True)
        for (block, theirs), (_, ours) in both:
            first = theirs[0] - value
            each = [first, np.where(np.isin(block, near[k]), theirs[0] - ours[1], first)]
            each += [theirs[0] - highest_ratio] if may_be_highest[k] else []
            found.append(_lowest(each, (1 + confidence) / 2).max())
        return float(max(found))

    value = float(own[1].max() - own[0].max())
    low, high = min(value, -highest(1)), max(value, highest(0))
    low, high = (low, high) if sign > 0 else (-high, -low)
    return {"lower": max(low, -reach), "upper": min(high, reach)}


def _lowest(each: list[np.ndarray], level: float) -> np.ndarray:
    """(p,) the smallest of limits from above of some numbers, (D, p) each in D draws: at the same place in the order of
    each, the lowest at which one more draw like these exceeds none with probability `level`."""
    places, D = np.max([part.argsort(0, kind="stable").argsort(0) for part in each], 0), len(each[0])
    place = np.sort(places, 0)[min(math.ceil(level * (D + 1)), D) - 1][None]
    return np.asarray(np.min([np.take_along_axis(np.sort(part, 0), place, 0)[0] for part in each], 0))


def _turned(contrasts: np.ndarray, sign: float) -> np.ndarray:
    """The contrasts, of ratios minus them: those far above 1, also infinite ones, are no more than the farthest."""
    return contrasts if sign > 0 else -np.minimum(contrasts, FARTHEST[1])


def _told(contrasts: np.ndarray, sign: float) -> np.ndarray:
    """That by which those near the largest are told: of quotients their logarithms, in which a / b and b / a are equally
    uncertain."""
    return contrasts if sign > 0 else -np.log(np.clip(-contrasts, *FARTHEST))


def _value_of(told: np.ndarray, sign: float) -> np.ndarray:
    """The contrasts of which `_told` gave these numbers."""
    return told if sign > 0 else -np.exp(-told)


def _alike(first: Blocks, second: Blocks) -> bool:
    """Whether the contrasts of one model are at most, in all draws, what those of the other are at least."""
    return all(np.array_equal(a[0], b[1]) for (_, a), (_, b) in zip(first, second, strict=True))
