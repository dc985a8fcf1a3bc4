"""A warning that a difference of two rates has grown, which may come before all rows together break the bound.

The rows until a checkpoint, which was fixed in advance, give an upper limit of the difference at one
look (`confidence.rates`); the rows since give a lower one at all looks (`confidence.tilted`, with bets from the
checkpoint on). Where the second lies above the first the difference was smaller before. Under rates that never change
any such warning, at whatever look, has at most the probability of the errors given: of a pair's error the i-th
checkpoint takes 1 / 2^i, half of it for the limit before and a quarter for each direction since. The same lower limit
says whether the difference since then is above the bound, at no further cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fairbound.confidence.contrasts import Contrasts
from fairbound.confidence.rates import rate_upper_bounds
from fairbound.confidence.sequences import CountsInTime
from fairbound.confidence.tilted import FEWEST, Pairs
from fairbound.fairness.bound import Bound

FIRST = 2
"""The number of the first checkpoint whose rows say enough to compare with."""


def grown(
    bound: Bound, counts: CountsInTime, contrasts: Contrasts, error: np.ndarray, name: Callable[[int], str]
) -> dict[str, Any] | None:
    """What is known of the checkpoint and the pair by which the difference has grown most for certain, and `said_of` it;
    None where none has, or no differences of two rates are compared.

    error: (m,) of each contrast, which the one of the same cells in the other order shares. name: of the i-th.
    """
    pairs = contrasts.pairs()
    if pairs is None:
        return None
    best, found = 0.0, None
    for i, j in enumerate(range(FIRST, len(counts.before)), start=1):
        if (before := counts.before[j]) is None:
            continue
        most = _most(*before, contrasts, error / 2 ** (i + 1))
        now = _difference(counts.successes - before[0], counts.trials - before[1], pairs)
        few = np.minimum(before[1], counts.trials - before[1])[pairs].min(-1) < FEWEST
        maybe = np.flatnonzero((now > most) & ~few)
        since = Pairs(CountsInTime(counts.successes, counts.trials, [None] * j + list(counts.before[j:])), pairs[maybe])
        since.estimate = now[maybe]
        room = np.log(2 ** (i + 2) / error[maybe])
        sure = since.log_martingale(most[maybe]) >= room
        limit = np.full(len(maybe), float(bound.bound))
        above = (now[maybe] > limit) & (since.log_martingale(limit) >= room)
        for k, beyond in zip(maybe[sure], above[sure], strict=True):
            if now[k] - most[k] > best:
                best = now[k] - most[k]
                found = {
                    "text": bound.text,
                    "comparison": name(int(k)),
                    "rows_before": int(before[1][pairs[k]].sum()),
                    "rows_since": int((counts.trials - before[1])[pairs[k]].sum()),
                    "before": float(_difference(*before, pairs)[k]),
                    "before_at_most": float(most[k]),
                    "since": float(now[k]),
                    "violated_since": bool(beyond),
                }
    return found


def said_of(found: dict[str, Any]) -> str:
    """The warning of what `grown` found."""
    beyond = ", for certain more than the bound" if found["violated_since"] else ""
    return (
        f"{found['text']}: {found['comparison']} has grown: it was {found['before']:.4f} in the first {found['rows_before']:,} rows "
        f"of the two (at most {found['before_at_most']:.4f}) and is {found['since']:.4f} in those since{beyond}. The verdict is on all "
        "rows since the start; begin a new state to judge the new rates."
    )


def _difference(s: np.ndarray, n: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """(m,) differences of the rates of each pair of cells."""
    rate = np.divide(s, n, out=np.full(n.shape, np.nan), where=n > 0)[pairs]
    return np.asarray(rate[:, 0] - rate[:, 1])


def _most(s: np.ndarray, n: np.ndarray, contrasts: Contrasts, level: np.ndarray) -> np.ndarray:
    """(m,) upper limits of the sizes of the differences, each wrong with probability at most `level` (m,)."""
    out = np.empty(len(contrasts))
    for one in np.unique(level):
        mine = np.flatnonzero(level == one)
        each = contrasts.take(mine)
        alpha = float(one) * len(mine)
        out[mine] = np.maximum(rate_upper_bounds(s, n, each, alpha), rate_upper_bounds(s, n, -each, alpha))
    return out
