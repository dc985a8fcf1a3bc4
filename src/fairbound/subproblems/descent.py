"""L-BFGS for one function after another: it begins each with the curvature that it learnt of the one before.

    d = -H slope        H: the inverse curvature from the latest moves s and turns t of the slope (two loops), from s.t / t.t
    along d the first step that falls enough and after which the slope is less steep (the weak conditions of Wolfe), by
    halving between steps that are too long and too short

Source: Nocedal and Wright (2006), algorithms 7.4 and 7.5; Lewis and Overton (2013), Nonsmooth optimization via
    quasi-Newton methods, for the search along a line.
Departs: a step that is too long goes to the lowest point of a parabola, between a tenth and half of it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

PAIRS = 10
"""Moves, and turns of the slope, that are kept."""

FALL, SLOPE = 1e-4, 0.9
"""A step is taken that falls by the first share of what the slope promised,
and leaves at most the second one of the slope."""

TRIES = 20
"""Points along a line at most."""

SETTLED = 1e-7
"""The value counts as lowest where an iteration falls, or promises to fall, by at most this share of its size (of 1,
if that is more)."""

TINY = float(np.finfo(np.float64).tiny)

FIRST = 4.0
"""The inverse curvature where nothing is known: of the logistic loss, whose curvature is 1/4 at most,
in features of unit spread."""

Function = Callable[[np.ndarray], tuple[float, np.ndarray]]


def no_pairs(n: int) -> np.ndarray:
    """(2, PAIRS, n) where nothing is known of the curvature."""
    return np.zeros((2, PAIRS, n))


def descended(function: Function, z: np.ndarray, pairs: np.ndarray, iterations: int) -> tuple[np.ndarray, np.ndarray]:
    """A point of lower value than z (n,), and the pairs (2, PAIRS, n) of moves and turns that are known there, the
    latest last.

    function: z -> value and slope. pairs: those known before. Where a search along a line finds no step to take, as at
    a kink, it goes on from the lowest point seen; where that is the one it began at, as if no curvature were known."""
    kept = [(s, t, 1 / (s @ t)) for s, t in zip(*pairs, strict=True) if s @ t > 0]
    value, slope = function(z)
    for _ in range(iterations):
        d = _direction(slope, kept)
        if -(slope @ d) / 2 <= SETTLED * max(abs(value), 1.0):
            break
        t, low, there = _along(function, z, value, slope, d)
        if t == 0 and not kept:
            break
        fell, move, turn = value - low, t * d, there - slope
        if move @ turn > 0:
            kept = [*kept[1 - PAIRS :], (move, turn, 1 / (move @ turn))]
        elif t == 0:
            kept = []
            continue
        z, value, slope = z + move, low, there
        if fell <= SETTLED * max(abs(value), 1.0):
            break
    out = no_pairs(len(z))
    for place, (s, t, _) in enumerate(kept, PAIRS - len(kept)):
        out[:, place] = s, t
    return z, out


def _direction(slope: np.ndarray, kept: list[tuple[np.ndarray, np.ndarray, float]]) -> np.ndarray:
    """(n,) -H slope by the pairs kept, each with 1 / s.t."""
    if not kept:
        return -min(FIRST, 1 / max(float(np.linalg.norm(slope)), TINY)) * slope
    d, shares = -slope, []
    for s, t, r in reversed(kept):
        shares.append(r * (s @ d))
        d -= shares[-1] * t
    _, t, r = kept[-1]
    d /= r * (t @ t)
    for (s, t, r), share in zip(kept, reversed(shares), strict=True):
        d += (share - r * (t @ d)) * s
    return d


def _along(
    function: Function, z: np.ndarray, value: float, slope: np.ndarray, d: np.ndarray
) -> tuple[float, float, np.ndarray]:
    """The step t along d, and value and slope at z + t d: one that fits the conditions, or else the lowest seen,
    0 included."""
    lowest, down = (0.0, value, slope), slope @ d
    low, high, t = 0.0, np.inf, 1.0
    for _ in range(TRIES):
        after, there = function(z + t * d)
        if after < lowest[1]:
            lowest = t, after, there
        excess = after - value - t * down
        if not excess <= (FALL - 1) * t * down:
            high = t
            t = low + (high - low) * min(0.5, max(0.1, -down * t / (2 * excess)))
        elif there @ d < SLOPE * down:
            low = t
            t = 2 * t if np.isinf(high) else (low + high) / 2
        else:
            return t, after, there
    return lowest
