"""Confidence bounds for contrasts of rates that may be looked at after every row: they hold at all times together.

Each cell k has independent draws with rate p_k. A forecaster who has seen s successes in n rows gives the next one the
probability (s + 1/2) / (n + 1). The probability that these forecasts give to all rows so far, over the one that p
gives, is a martingale if p is the truth, so by Ville's inequality it ever reaches 1 / error with probability at most
``error``. The rates at which it has not are a convex set of all cells together, and the bounds of a contrast are its
least and largest value on that set.

Forecasts of the first rows are poor and cost evidence for ever. So there are several forecasters, j = 0, 1, ...: the
j-th watches until checkpoint j (0, 250, 2,000, 16,000, ... rows, whatever their cells) and is scored on later rows
alone. The mean of their martingales with weights w_j is a martingale too; it is at least w_j times the j-th, so each of
them gives a set, with error w_j times as large, and the bounds are the best that one of the sets gives.

With counts (s, n) now and (s_j, n_j) at the checkpoint, f = n - s, and p^ the rate of the rows after it, the set of j
is

    sum_k (n_k - n_jk) KL(p^_k, p_k) <= log(1 / (w_j error)) + sum_k max_p log lik_k(p) - log (B(s + 1/2, f + 1/2) / B(s_j + 1/2, f_j + 1/2))

Sources: Robbins (1970), Ann. Math. Statist. 41, 1397-1409, mixtures; Krichevsky, Trofimov (1981), IEEE Trans. Inf.
Theory 27, 199-207, the forecaster; Turner, Grünwald (2023), Statist. Probab. Lett. 198, 109835, sets of rates of
several groups that hold at all times. Departs: theirs bet on blocks of rows of both groups; these need counts alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaln, rel_entr, xlogy

from fairbound.base.errors import DataError
from fairbound.confidence.bisection import bisected
from fairbound.confidence.contrasts import Contrasts
from fairbound.confidence.rates import Transform
from fairbound.confidence.single import check_trials

FIRST, GROWTH = 250, 8
"""Rows at the first checkpoint, and how many times as many at the next."""

EVEN = 4
BISECTIONS = 36
STEEPEST = 1e12


def checkpoint_rows(j: int) -> int:
    """Rows after which the j-th forecaster is scored: 0, 250, 2,000, 16,000, ..."""
    return 0 if j == 0 else FIRST * GROWTH ** (j - 1)


def checkpoint_weight(j: int) -> float:
    """Weight of the j-th forecaster: 1/5 each for the first four, then 1/5 over 2 3, 3 4, ...,
    so that all add up to 1."""
    if j < EVEN:
        return 0.2
    return 0.2 / ((j - EVEN + 1) * (j - EVEN + 2))


class Scored(NamedTuple):
    """Successes and trials (..., K) that a forecaster is scored on, what its forecasts lost (..., K) against the best
    rate in hindsight, in nats, and the logarithm of its weight."""

    successes: np.ndarray
    trials: np.ndarray
    lost: np.ndarray
    log_weight: float


@dataclass(frozen=True)
class CountsInTime:
    """Successes and trials (..., K) now and at the checkpoints passed, the first of which is the start, with none.

    Where the j-th entry of `before` is None its checkpoint is not known, and its forecaster is left out.
    """

    successes: np.ndarray
    trials: np.ndarray
    before: Sequence[tuple[np.ndarray, np.ndarray] | None] = ()

    @classmethod
    def of(cls, successes: Any, trials: Any, before: Sequence[tuple[Any, Any] | None] = ()) -> CountsInTime:
        """Checked. Raises: DataError where counts do not fit, or were larger before."""
        s, n = check_trials(successes, trials)
        nothing = (np.zeros_like(s), np.zeros_like(n))
        earlier = [None if b is None else check_trials(*b) for b in before]
        for b in earlier:
            if b is not None and ((b[0] > s).any() or (b[1] - b[0] > n - s).any()):
                raise DataError("counts at a checkpoint are larger than those now; counts can only grow.")
        return cls(s, n, [nothing, *earlier])

    def scored(self) -> list[Scored]:
        """Each forecaster whose checkpoint is known."""
        out = []
        f = self.trials - self.successes
        for j, b in enumerate(self.before):
            if b is None:
                continue
            s, n = self.successes - b[0], self.trials - b[1]
            p = np.divide(s, n, out=np.zeros_like(n), where=n > 0)
            best = xlogy(s, p) + xlogy(n - s, 1 - p)
            forecast = betaln(self.successes + 0.5, f + 0.5) - betaln(b[0] + 0.5, b[1] - b[0] + 0.5)
            out.append(Scored(s, n, best - forecast, float(np.log(checkpoint_weight(j)))))
        return out


def anytime_bounds(
    counts: CountsInTime, contrasts: Contrasts, error: Any, transform: Transform | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds, each (..., m), of the contrasts.

    error: (m,) the probability that a bound of the contrast, or of another contrast of the same cells, ever fails.
    transform: increasing on [0, 1]: the contrast is of its images; the cells' limits are then joined by their worst
    case.
    """
    contrasts.check(counts.trials.shape[-1])
    index = contrasts.index
    c = np.stack([contrasts.coefficient, -contrasts.coefficient])  # (2, m, t): upper bounds, and minus the lower ones
    room = np.log(1 / np.broadcast_to(np.asarray(error, dtype=np.float64), (len(contrasts),)))
    known = counts.scored()
    lead = (len(known),) + (1,) * counts.trials.ndim
    weight = np.array([part.log_weight for part in known]).reshape(lead)
    s, n, lost = (
        np.where(c != 0, np.expand_dims(np.stack([part[i] for part in known])[..., index], -3), 0.0) for i in range(3)
    )
    weight = np.expand_dims(weight, -1)
    p = np.divide(s, n, out=np.zeros_like(n), where=n > 0)
    if transform is None:
        bound = _largest(p, n, np.broadcast_to(c, p.shape), room - weight + lost.sum(-1))
    else:
        bound = _of_images(p, n, np.broadcast_to(c, p.shape), room - weight, lost, transform)
    bound = bound.min(0)
    return -bound[..., 1, :], bound[..., 0, :]


def _largest(p: np.ndarray, n: np.ndarray, c: np.ndarray, room: np.ndarray) -> np.ndarray:
    """(...,) largest sum of c q over rates q (..., t) with sum n KL(p, q) <= room (...,), from above; c (..., t).

    Where the sum is largest, n (q - p) / (q (1 - q)) = mu c for some mu > 0, a quadratic equation in q; the divergence
    grows with mu.
    """
    most = np.where(c > 0, 1.0, 0.0)
    alone = n == 0

    def at(log_mu: np.ndarray) -> np.ndarray:
        a = np.exp(log_mu)[..., None] * c / np.where(alone, 1.0, n)
        root = np.sqrt(np.maximum((1 - a) ** 2 + 4 * a * p, 0.0))
        below = 1 - a + root
        q = np.where(a > 1, (a - 1 + root) / (2 * np.where(a > 1, a, 1.0)), 2 * p / np.where(below > 0, below, 1.0))
        return np.where(alone, most, np.clip(q, 0.0, 1.0))

    def spent(q: np.ndarray) -> np.ndarray:
        apart = np.where(alone, 0.0, rel_entr(p, q) + rel_entr(1 - p, 1 - q))
        return (n * apart).sum(-1)

    least = np.full(room.shape, -np.log(STEEPEST))
    q = at(bisected(lambda log_mu: spent(at(log_mu)) <= room, least, -least, BISECTIONS)[1])
    q = np.where((spent(q) <= room)[..., None], most, q)
    return np.where(c != 0, c * q, 0.0).sum(-1)


def _of_images(
    p: np.ndarray, n: np.ndarray, c: np.ndarray, room: np.ndarray, lost: np.ndarray, transform: Transform
) -> np.ndarray:
    """(...,) upper bounds of contrasts of the images of rates: those of each cell alone,
    with equal shares of the error."""
    terms = np.maximum((c != 0).sum(-1), 1)
    alone = (room + np.log(terms))[..., None] + lost
    sign = np.where(c > 0, 1.0, -1.0)
    ends = sign * _largest(p[..., None], n[..., None], sign[..., None], alone)
    with np.errstate(divide="ignore", invalid="ignore"):
        sums = np.where(c != 0, c * np.asarray(transform(np.clip(ends, 0.0, 1.0)), dtype=np.float64), 0.0).sum(-1)
    return np.where(np.isnan(sums), np.inf, sums)


def anytime_ratio_bounds(counts: CountsInTime, pairs: np.ndarray, error: Any) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds (..., P) of the ratios p_a / p_b over pairs (P, 2) of cells (a, b); in [0, inf].

    error: (P,) as for the contrast of the two cells.
    """
    a, b = np.asarray(pairs).T
    room = np.log(1 / np.broadcast_to(np.asarray(error, dtype=np.float64), a.shape))
    shape = (*counts.trials.shape[:-1], len(a))
    lower, upper = np.zeros(shape), np.full(shape, np.inf)
    for s, n, lost, weight in counts.scored():
        p = np.divide(s, n, out=np.zeros_like(n), where=n > 0)
        left = room - weight + lost[..., a] + lost[..., b]
        lower = np.maximum(lower, _least_ratio(p[..., a], n[..., a], p[..., b], n[..., b], left))
        turned = _least_ratio(p[..., b], n[..., b], p[..., a], n[..., a], left)
        upper = np.minimum(upper, np.divide(1.0, turned, out=np.full(shape, np.inf), where=turned > 0))
    return lower, upper


def _least_ratio(p: np.ndarray, n: np.ndarray, q: np.ndarray, m: np.ndarray, room: np.ndarray) -> np.ndarray:
    """(...,) least r with min over x of n KL(p, r x) + m KL(q, x) <= room, from below; 0 where a cell has no row.

    The x is the smaller root of a quadratic equation (Miettinen, Nurminen 1985, Statistics in Medicine 4, 213-226).
    """
    some = (n > 0) & (m > 0)
    n, m = np.where(some, n, 1.0), np.where(some, m, 1.0)

    def spent(r: np.ndarray) -> np.ndarray:
        hits = n * p + m * q
        middle = r * (n + m * q) + m + n * p
        x = 2 * hits / (middle + np.sqrt(np.maximum(middle**2 - 4 * (n + m) * r * hits, 0.0)))
        x, y = np.clip(x, 0.0, 1.0), np.clip(r * x, 0.0, 1.0)
        return n * (rel_entr(p, y) + rel_entr(1 - p, 1 - y)) + m * (rel_entr(q, x) + rel_entr(1 - q, 1 - x))

    most = np.minimum(np.divide(p, q, out=np.full(room.shape, 1e9), where=q > 0), 1e9) * np.ones(room.shape)
    least = bisected(lambda r: spent(r) > room, np.zeros(room.shape), most, BISECTIONS)[0]
    return np.where(some & (p > 0), least, 0.0)
