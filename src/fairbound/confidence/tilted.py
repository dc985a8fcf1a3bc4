"""Sharper bounds for the difference of two rates that may be looked at after every row.

The forecaster of `fairbound.confidence.sequences` pays for learning both rates, where only their difference is asked.
Here each pair of rates p is tested by bets on one line alone, that on which the difference grows. With
S = S_a / pi_a - S_b / pi_b the successes after a checkpoint, cell k's weighed by one over its share pi_k of the rows
until then,

    M_t(p) = prod_k exp(t x_k)^(S_k) / (1 - p_k + p_k exp(t x_k))^(n_k),    x = (1 / pi_a, -1 / pi_b),  t > 0,

is a martingale if p is the truth: each factor has mean 1. The bet t is best where the true difference exceeds that of p
by about t times the variance of the weighed outcome. So a few bets t = 1, 1/2, 1/4, ... are mixed, with weights that
were chosen before any stream was looked at and favour an excess of about 0.05. They say little of pairs that are far
off in both rates alike; those the forecasters exclude. So LINE of the capital is put on the line and the rest on the
forecasters:

    M(p) = LINE sum_t w_t M_t(p) + (1 - LINE) sum_j w_j M_j(p),    and M(p) ever reaches 1 / error with probability at most error.

M is convex in p. The lower bound is the least difference of a pair p with M(p) < 1 / error, found by bisection, the
least M at a difference by a search along the other direction.

A pair and its reverse can share one error: where p_a >= p_b the bets are on a, else on b, so that each p has one
martingale.

Sources: Waudby-Smith, Ramdas (2024), JRSS B 86, 1-27, mixtures of bets; Wang, Ramdas, Grünwald (2024),
arXiv:2402.18810, and Grünwald, de Heide, Koolen (2024), JRSS B 86, 1091-1128, for bets along the line on which the null
is left fastest.
Departs: theirs choose the nearest null; here every null has its own bets.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import xlogy

from fairbound.confidence.bisection import bisected
from fairbound.confidence.contrasts import Contrasts
from fairbound.confidence.sequences import CountsInTime, anytime_bounds

LINE = 0.75
BETS = 0.5 ** np.arange(12)
_PRIOR = 1 / (1 + ((np.log2(BETS) - np.log2(0.05)) / 2) ** 2)
WEIGHTS = _PRIOR / _PRIOR.sum()

FEWEST = 10
"""Rows that each of the two cells must have at the checkpoint from which on there are bets."""

FIRST = 16
"""Pairs, those with the lowest bounds of the forecasters, that are sharpened before it is known which others matter."""

HUGE, LONGEST = 1e12, 30.0
BISECTIONS = 16
OFFSETS = np.concatenate([-(0.5 ** np.arange(14)), [0.0], 0.5 ** np.arange(13, -1, -1)])
POINTS, ROUNDS = 9, 6


class Pairs:
    """What is known of pairs (P, 2) of cells, and M for differences that are asked."""

    def __init__(self, counts: CountsInTime, pairs: np.ndarray):
        self.known = [
            (
                _rate(part.successes, part.trials)[..., pairs],
                part.trials[..., pairs],
                part.lost[..., pairs],
                part.log_weight,
            )
            for part in counts.scored()
        ]
        s, n = counts.successes[..., pairs], counts.trials[..., pairs]
        self.estimate = _rate(s, n)[..., 0] - _rate(s, n)[..., 1]
        self.middle = (_rate(s, n) * n).sum(-1) / np.maximum(n.sum(-1), 1)
        self.lean = (n[..., 1] - n[..., 0]) / np.maximum(n.sum(-1), 1)
        self.successes, self.trials, self.tilt = self._after_a_checkpoint(counts, pairs)

    def _after_a_checkpoint(self, counts: CountsInTime, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Successes and trials (..., P, 2) that are bet on, and x (..., P, 2);
        no rows where no checkpoint is late enough."""
        s, n = counts.successes[..., pairs], counts.trials[..., pairs]
        hits, rows, tilt = np.zeros_like(s), np.zeros_like(n), np.ones_like(n)
        open_ = np.ones(self.estimate.shape, dtype=bool)
        for before in counts.before[1:]:
            if before is None:
                continue
            s0, n0 = before[0][..., pairs], before[1][..., pairs]
            begins = (open_ & (n0.min(-1) >= FEWEST))[..., None]
            share = n0 / np.maximum(n0.sum(-1, keepdims=True), 1)
            x = np.divide([1.0, -1.0], share, out=np.ones_like(share), where=share > 0)
            hits, rows, tilt = np.where(begins, s - s0, hits), np.where(begins, n - n0, rows), np.where(begins, x, tilt)
            open_ &= ~begins[..., 0]
        return hits, rows, tilt

    def likely(self, difference: np.ndarray) -> np.ndarray:
        """(..., P, 1) about the mean rate at which pairs with this difference fit best."""
        d = np.asarray(difference)
        return np.clip(self.middle + self.lean * d / 2, np.abs(d) / 2, 1 - np.abs(d) / 2)[..., None]

    def take(self, which: np.ndarray) -> Pairs:
        """The pairs of the mask (..., P), one after another."""
        made = object.__new__(Pairs)
        for name in ("estimate", "middle", "lean", "successes", "trials", "tilt"):
            setattr(made, name, getattr(self, name)[which])
        made.known = [(q[which], n[which], lost[which], w) for q, n, lost, w in self.known]
        return made

    def log_martingale(self, difference: np.ndarray) -> np.ndarray:
        """(..., P) the logarithm of the least M(p) over pairs p with this difference (..., P),
        with bets that it is larger."""
        d, likely = np.asarray(difference)[..., None], self.likely(difference)
        least, most = np.abs(d) / 2, 1 - np.abs(d) / 2
        middle = np.clip(likely + (most - least) * OFFSETS, least, most)  # (..., P, g), mean rates
        for _ in range(ROUNDS + 1):
            value = self.at(np.clip(np.stack([middle + d / 2, middle - d / 2], -1), 0.0, 1.0))
            best, last = value.argmin(-1)[..., None], middle.shape[-1] - 1
            low, high = (
                np.take_along_axis(middle, np.clip(best + side, 0, last), -1) for side in (-1, 1)
            )  # M is convex, so its least value lies between the neighbours of the best point
            middle = low + (high - low) * np.linspace(0, 1, POINTS)
        return np.asarray(value.min(-1))

    def at(self, p: np.ndarray) -> np.ndarray:
        """(..., P, g) log M at rates p (..., P, g, 2)."""
        spread = [np.expand_dims(a, -2) for a in (self.successes, self.trials, self.tilt)]
        s, n, x = (a[..., None] for a in spread)  # (..., P, 1, 2, 1)
        bet = np.clip(BETS * x, -LONGEST, LONGEST)
        with np.errstate(divide="ignore"):
            gain = (s * bet - n * np.log1p(p[..., None] * np.expm1(bet))).sum(-2) + np.log(LINE * WEIGHTS)
        parts = [gain, *(self._forecaster(part, p)[..., None] for part in self.known)]
        gain = np.concatenate(parts, -1)
        most = np.minimum(gain.max(-1), HUGE)  # a rate of 0 or 1 may be impossible
        return most + np.log(np.exp(np.minimum(gain - most[..., None], 0.0)).sum(-1))

    @staticmethod
    def _forecaster(part: tuple[np.ndarray, np.ndarray, np.ndarray, float], p: np.ndarray) -> np.ndarray:
        """(..., P, g) the logarithm of the share of M of a forecaster."""
        q, n, lost, log_weight = part
        q, n = q[..., None, :], n[..., None, :]
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = n * (xlogy(q, q) - xlogy(q, p) + xlogy(1 - q, 1 - q) - xlogy(1 - q, 1 - p))
        return np.log(1 - LINE) + log_weight + np.where(n > 0, apart, 0.0).sum(-1) - lost.sum(-1)[..., None]


def _rate(s: np.ndarray, n: np.ndarray) -> np.ndarray:
    return np.divide(s, n, out=np.zeros_like(s), where=n > 0)


def _forecast_lower(counts: CountsInTime, cells: np.ndarray, error: np.ndarray) -> np.ndarray:
    """(..., P) the lower bounds that the forecasters' share of M gives by itself."""
    differences = Contrasts(cells, np.tile([1.0, -1.0], (len(cells), 1)))
    return anytime_bounds(counts, differences, error * (1 - LINE))[0]


def difference_bounds(counts: CountsInTime, pairs: Any, error: Any) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds (..., P) of p_a - p_b over pairs (P, 2) of different cells (a, b), in [-1, 1].

    error: (P,) or a number, the probability that a bound of the pair, or of the same cells in the other order, ever
    fails. The lower bound is sharp where the forecasters tell which of the two rates is larger, the upper one is
    theirs.
    """
    cells = np.asarray(pairs)
    e = np.broadcast_to(np.asarray(error, dtype=np.float64), (len(cells),))
    lower, both = _forecast_lower(counts, cells, e), Pairs(counts, cells)
    clear = lower > 0
    lower[clear] = _sharpened(both.take(clear), lower[clear], np.broadcast_to(e, clear.shape)[clear])
    return lower, -_forecast_lower(counts, cells[:, ::-1], e)


def lowest_differences(counts: CountsInTime, pairs: Any, error: float) -> np.ndarray:
    """(P,) lower bounds of p_a - p_b over pairs (P, 2) of different cells (a, b), in [-1, 1], of one sample. The least of
    them is sharp: of pairs for certain above it the bounds are the forecasters'.

    error: the probability that the bound of a pair ever fails, which nothing else shares.
    """
    cells = np.asarray(pairs)
    low, both, e = _forecast_lower(counts, cells, np.full(len(cells), error)), Pairs(counts, cells), float(error)
    some = low <= np.partition(low, min(FIRST, len(low)) - 1)[min(FIRST, len(low)) - 1]
    out = low.copy()
    out[some] = _sharpened(both.take(some), low[some], np.full(some.sum(), e))
    more = ~some & (low < out[some].min())
    out[more] = _sharpened(both.take(more), low[more], np.full(more.sum(), e))
    return out


def _sharpened(both: Pairs, low: np.ndarray, error: np.ndarray) -> np.ndarray:
    """(..., P) the least difference from `low` on that M does not exclude, from below."""

    def excluded(middle: np.ndarray) -> np.ndarray:
        return both.log_martingale(middle) >= np.log(1 / error)

    return bisected(excluded, low, np.maximum(both.estimate, low), BISECTIONS)[0]


def exceeds(counts: CountsInTime, pairs: Any, error: Any, difference: Any, shared: bool = False) -> np.ndarray:
    """(..., P) whether the lower bound is above `difference`, a number or (..., P), that of `lowest_differences`, or with `shared` of
    `difference_bounds` (a `difference` >= 0 then); it need not be found for that."""
    cells = np.asarray(pairs)
    e = np.broadcast_to(np.asarray(error, dtype=np.float64), (len(cells),))
    both = Pairs(counts, cells)
    room = np.broadcast_to(np.log(1 / e), both.estimate.shape)
    asked = np.broadcast_to(np.asarray(difference, dtype=np.float64), room.shape)
    at = both.likely(asked)
    out = (both.estimate > asked) & (
        both.at(np.stack([at + asked[..., None] / 2, at - asked[..., None] / 2], -1))[..., 0] >= room
    )
    if out.any():
        out[out] = both.take(out).log_martingale(asked[out]) >= room[out]
    return out & (_forecast_lower(counts, cells, e) > 0) if shared and out.any() else out
