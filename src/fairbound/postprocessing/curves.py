"""The ROC curve of one group: what each threshold selects, and the corners of what mixtures of thresholds select."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

PASSES = 30  # over whole arrays, before the points that are left are walked one by one


@dataclass(frozen=True)
class Curve:
    """Every threshold that tells rows of a group apart, from the one that selects nobody to the one that selects all.

    thresholds: (p,) decreasing, inf first and -inf last; a row is selected where its score is above. selected: (p, 2)
    weight of the selected rows of label 0 and 1. every: (2,) weight of all rows, where the threshold is given and is the
    only one (`at_threshold`); None for that of the last one.
    """

    thresholds: np.ndarray
    selected: np.ndarray
    every: np.ndarray | None = None

    @property
    def total(self) -> np.ndarray:
        """(2,) weight of all rows of label 0 and 1."""
        return self.selected[-1] if self.every is None else self.every

    def __len__(self) -> int:
        return len(self.thresholds)


def curve_of(scores: np.ndarray, target: np.ndarray, weight: np.ndarray) -> Curve:
    """The curve of rows with scores (n,), labels (n,) in {0, 1} and weights (n,) > 0, n >= 1;
    equal scores are one step."""
    order = np.argsort(-scores, kind="stable")
    s, y, w = scores[order], target[order], weight[order]
    last = np.flatnonzero(np.append(s[1:] != s[:-1], True))  # of every run of equal scores
    sums = np.stack([np.cumsum(w * (y == label)) for label in (0, 1)], axis=1)[last]
    selected = np.concatenate([np.zeros((1, 2)), sums])
    thresholds = np.concatenate([[np.inf], between(s[last][:-1], s[last][1:]), [-np.inf]])
    moved = np.append(True, (selected[1:] != selected[:-1]).any(1))  # not where weights vanish in the sum
    thresholds, selected = thresholds[moved], selected[moved]
    thresholds[-1] = -np.inf
    return Curve(thresholds, selected)


def at_threshold(threshold: float, scores: np.ndarray, target: np.ndarray, weight: np.ndarray) -> Curve:
    """Of rows as in `curve_of` the one point of a threshold that is given."""
    every, above = (np.bincount(target, w, minlength=2) for w in (weight, weight * (scores > threshold)))
    return Curve(np.array([threshold]), above[None, :], every)


def between(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Midpoints of numbers high >= low (k,): below `high` where the two differ, and at or above `low`."""
    middle = 0.5 * high + 0.5 * low
    return np.where(middle < high, np.maximum(middle, low), low)


def corners(selected: np.ndarray, first: int, last: int) -> np.ndarray:
    """Numbers of the points first, ..., last of a curve that are corners of their convex hull, in order."""
    part = selected[first : last + 1]
    sides = [_chain(part[:, 0], part[:, 1], sign) for sign in (1.0, -1.0)]
    return first + np.unique(np.concatenate(sides))


def _chain(x: np.ndarray, y: np.ndarray, sign: float) -> np.ndarray:
    """Numbers of the corners of the upper (sign 1) or lower (-1) hull of points that rise in x and y.

    Source: Andrew (1979), the monotone chain; before it, points that lie under the line of their neighbours are dropped
    at once, as often as that pays.
    """
    kept = np.arange(len(x))
    for _ in range(PASSES):
        dx, dy = np.diff(x[kept]), np.diff(y[kept])
        turns = sign * (dx[:-1] * dy[1:] - dy[:-1] * dx[1:]) < 0
        if turns.all():
            return kept
        kept = kept[np.concatenate([[True], turns, [True]])]
    chain: list[int] = []
    for i in kept.tolist():
        while len(chain) > 1:
            a, b = chain[-2], chain[-1]
            if sign * ((x[b] - x[a]) * (y[i] - y[b]) - (y[b] - y[a]) * (x[i] - x[b])) < 0:
                break
            chain.pop()
        chain.append(i)
    return np.array(chain)
