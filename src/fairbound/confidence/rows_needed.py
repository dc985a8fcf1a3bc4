"""How many rows would decide a bound on the largest of several contrasts, if what was measured is the truth.

"Met" needs every contrast within the bound at once: of two groups with equal rates both differences, a - b and b - a,
and new rows move one of them towards the bound whichever way they fall. So the rows asked for are those of which audits
decide with a stated probability, of all contrasts together. Estimates are taken as normal, and cells as independent,
or as correlated as is stated; where more than one pair of opposite contrasts matters the probability is counted over
draws with a fixed seed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special

from fairbound.confidence.contrasts import Contrasts, mirrored

MOST_ROWS = 10**12
WITNESSES = 64
MANY = 4096
"""Contrasts of which all are looked at, however likely."""

MOST_DRAWS, LEAST_DRAWS = 2000, 200
DRAWN_VALUES = 1 << 22
"""Of how many draws a probability is the share: as many as have so many values together, within these limits."""

NEVER = 1e-4
"""Contrasts whose chances to fail add up to less are left out of draws."""

MOST_DRAWN = 1 << 19
"""Contrasts that are drawn at most, the likeliest to fail."""

Upper = Callable[[Contrasts, int, int], np.ndarray]
"""Of contrasts (m',), n rows and the number of contrasts that share the error, the upper bounds (m',) if n rows
measured the same, never below the estimates."""

Correlation = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Of cells a and b, arrays that broadcast together."""


class Together:
    """How estimates of m contrasts move together: draws (D, m) of their errors, each over its standard deviation."""

    def __init__(self, contrasts: Contrasts, deviation: np.ndarray, correlation: Correlation | None = None):
        """deviation: (K,) standard deviations of the cells, up to a common factor. correlation: as of `fewest_rows`."""
        draws = int(np.clip(DRAWN_VALUES // len(contrasts), LEAST_DRAWS, MOST_DRAWS))
        used, place = np.unique(contrasts.index, return_inverse=True)
        z = np.random.default_rng(0).standard_normal((draws, len(used)))
        if correlation is not None:
            size, axes = np.linalg.eigh(correlation(used[:, None], used))
            z = z @ (axes * np.sqrt(np.maximum(size, 0.0))).T
        z *= np.nan_to_num(deviation[used], posinf=0.0)
        moved = np.zeros((draws, len(contrasts)), dtype=np.float32)
        for c, cell in zip(contrasts.coefficient.T, place.reshape(contrasts.index.shape).T, strict=True):
            moved += (c * z[:, cell]).astype(np.float32)
        size = np.sqrt((moved**2).mean(0))
        self.draws = np.divide(moved, size, out=np.zeros_like(moved), where=size > 0)

    def within(self, limits: np.ndarray) -> float:
        """The probability that every error, over its standard deviation, is at most its limit (m,)."""
        return float((self.draws <= limits).all(1).mean())


def fewest_rows(
    contrasts: Contrasts,
    values: np.ndarray,
    bound: float,
    upper: Upper,
    alpha: float = 0.05,
    power: float = 0.5,
    *,
    deviation: np.ndarray | None = None,
    correlation: Correlation | None = None,
) -> int | None:
    """About the fewest rows n that decide "the largest contrast <= bound" with probability `power`, if the cells'
    values (K,) are the truth. None beyond 10^12 rows.

    upper: as of `Upper`, for bounds of one contrast wrong with probability alpha. deviation: (K,) standard deviations
    of the cells' values times the root of the rows. Where None, the distance of such a bound from its estimate over the
    normal quantile of alpha is taken, about the standard error, and at least that where bounds are conservative.
    correlation: of the cells; None where they are independent.

    All contrasts must be found within the bound at once; or one must be found above it, for which the rows are those of
    the likeliest one alone: where several lie as far above it, more audits decide than asked.
    """
    estimates = contrasts.of(values)
    least = fewest_if_measured_again(contrasts, estimates, bound, upper)
    if least is None:
        return None
    breaks = bool(estimates.max() > bound)
    side, value, limit = (-contrasts, -estimates, -bound) if breaks else (contrasts, estimates, bound)

    def room(which: Contrasts, at: np.ndarray, n: int) -> np.ndarray:
        """How many standard errors each bound is within the limit, if the same is measured."""
        reached = upper(which, n, len(contrasts) if breaks else 1)
        if deviation is None:
            alone = upper(which, n, 1) if breaks else reached
            error = (alone - at) / -special.ndtri(alpha)
        else:
            error = deviations_of(which, deviation) / np.sqrt(n)
        return (limit - reached) / np.maximum(error, 1e-300)

    def chances(which: np.ndarray, n: int) -> np.ndarray:
        """How likely n rows are not to find the contrasts with these numbers on their side."""
        return np.asarray(special.ndtr(-room(side.take(which), value[which], n)))

    def surely(fails: np.ndarray) -> bool:
        return bool((fails.min() if breaks else fails.sum()) <= 1 - power)

    most = _first_of_likeliest(chances, surely, len(value), least - 1, breaks)
    if most is None or most == least or breaks:
        return most
    fails = chances(np.arange(len(value)), least)
    chosen = np.flatnonzero(fails > NEVER / len(fails))
    chosen = chosen if len(chosen) <= MOST_DRAWN else np.sort(_top(fails, MOST_DRAWN))
    some, at = contrasts.take(chosen), estimates[chosen]
    if len(chosen) <= WITNESSES and len(chosen) - len(mirrored(some.index, some.coefficient)) <= 1:
        return most  # the chances of one pair do not overlap, so that they add up
    cells = Contrasts(np.arange(len(values))[:, None], np.ones((len(values), 1)))
    spread = upper(cells, least, 1) - values if deviation is None else deviation
    together = Together(some, spread, correlation)

    return _first(lambda n: together.within(room(some, at, n)) >= power, least - 1, most) or most


def deviations_of(contrasts: Contrasts, deviation: np.ndarray) -> np.ndarray:
    """(m,) standard deviations of contrasts of independent cells with these (K,)."""
    parts = np.where(contrasts.coefficient != 0, contrasts.coefficient * deviation[contrasts.index], 0.0)
    return np.asarray(np.sqrt((parts**2).sum(-1)))


def fewest_if_measured_again(
    contrasts: Contrasts,
    estimates: np.ndarray,
    bound: float,
    upper: Upper,
) -> int | None:
    """Fewest rows n that decide "the largest contrast <= bound", found by bisection; None beyond 10^12 rows.

    upper: as of `Upper`, never below the estimates. So estimates above the bound can only be found "violated" (some lower bound above it, all sharing
    the error), others only "met" (every upper bound within it, each with the whole error, as in `largest`).

    Bisection looks at a few contrasts, the witnesses; all are then looked at once. If those not looked at do not change
    the decision there, the answer is that of all: "met" by all at n, and not by the witnesses at n - 1; or "violated"
    by a witness at n, and by none at n - 1. Else the ones that do become witnesses.
    """
    value = float(estimates.max())
    if not np.isfinite(value) or np.isclose(value, bound, rtol=0, atol=1e-12):
        return None
    breaks = value > bound

    def excess(which: Contrasts, n: int) -> np.ndarray:
        return (-upper(-which, n, len(contrasts)) if breaks else upper(which, n, 1)) - bound

    def decided(n: int) -> bool:
        return bool((excess(seen, n) > 0).any()) is breaks

    chosen = _top(estimates)
    low, high = 0, MOST_ROWS
    while True:
        seen = contrasts.take(chosen)
        found = _first(decided, low, high)
        if found is None and not breaks:
            return None
        look = high if found is None else found - breaks
        over = excess(contrasts, look) if look > low else np.zeros(len(contrasts))
        if not (over > 0).any():
            return found
        low, high = (low, look) if breaks else (look, high)
        top = _top(over)
        chosen = np.union1d(chosen, top[over[top] > 0])


def _first_of_likeliest(
    chances: Callable[[np.ndarray, int], np.ndarray],
    surely: Callable[[np.ndarray], bool],
    m: int,
    low: int,
    breaks: bool,
) -> int | None:
    """Least n in (low, MOST_ROWS] at which `chances` of all m contrasts are surely enough; None where none is.

    Of many contrasts the likeliest to fail, or to break the bound, are looked at, and more of them until the others
    change nothing.
    """
    sign, high, every = -1.0 if breaks else 1.0, MOST_ROWS, np.arange(m)
    chosen = every if m <= MANY else _top(sign * chances(every, low + 1), MANY)
    while True:
        found = _first(lambda n, seen=chosen: surely(chances(seen, n)), low, high)  # type: ignore[misc]
        if len(chosen) == m or (found is None and not breaks):
            return found
        look = high if found is None else found - breaks
        if look == low or surely(each := chances(every, look)) is not breaks:
            return found
        low, high = (low, look) if breaks else (look, high)
        chosen = np.union1d(chosen, _top(sign * each, 8 * len(chosen)))


def _top(values: np.ndarray, few: int = WITNESSES) -> np.ndarray:
    """Numbers of the largest few values."""
    few = min(few, len(values))
    return np.argpartition(values, len(values) - few)[len(values) - few :]


def _first(decided: Callable[[int], bool], low: int, most: int) -> int | None:
    """Least n in (low, most] with decided(n), by doubling and bisection; None where decided(most) is false."""
    high = min(max(2 * low, 1), most)
    while not decided(high):
        if high == most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decided(middle) else (middle, high)
    return high
