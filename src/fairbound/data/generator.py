"""Synthetic classification with a known best trade-off between accuracy and demographic parity, at any size.

A row has a group k with probability p_k, a label with P(y = 1 | k) = q_k, and a signal
s | y, k ~ N(m_k + (2 y - 1) d_k / 2, 1).
Then P(y = 1 | s, k) = logistic(d_k (s - m_k) + logit q_k) increases in s, so that for every selection rate the most
accurate rule of a group is a threshold on s, and rates and accuracies are sums of normal tails.

The frontier: the largest accuracy of any classifier whose selection rates r_k all lie within `delta` of each other.
- Attribute-aware: group accuracy A_k(r) is concave in r, with slope 2 P(y = 1 | threshold, k) - 1. So the best rates
  are the unconstrained ones clipped to an interval [a, a + delta], and a is the root of a monotone function.
- Attribute-blind, two groups: by Lagrangian duality the best rule of s selects where
  (2 P(y = 1 | s) - 1) p(s) > lambda (p(s | 1) - p(s | 0)), and the difference of rates is monotone in lambda.

Source: for the form of both rules, Menon and Williamson (2018), "The cost of fairness in binary classification"; the
reduction to one dimension is elementary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import norm

from fairbound.base.errors import OptionError
from fairbound.base.seeds import seed_for
from fairbound.data.dataset import Dataset

TAIL = 12.0
GRID = 4001


@dataclass(frozen=True)
class FrontierPoint:
    """The best classifier at one bound.

    accuracy: its accuracy. rates: its selection rate in each group. disparity: largest minus smallest rate (<= delta).
    thresholds: per group, select where s > threshold (aware); empty for a blind rule.
    regions: intervals (low, high) of s that a blind rule selects, ends may be infinite; empty for an aware one.
    shift: the multiplier of the bound, d accuracy / d delta >= 0.
    """

    delta: float
    accuracy: float
    disparity: float
    rates: tuple[float, ...]
    shift: float
    thresholds: tuple[float, ...] = ()
    regions: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, kw_only=True)
class GaussianParity:
    """Made rows of two classes and several groups, of which the best classifier under a bound is known (see the
    module).

    proportions: p_k > 0, at least two, of sum 1. base_rates: q_k in (0, 1). centres: m_k. separations: d_k > 0; if all
        are equal, the attribute-aware optimum is linear in (s, group indicators), so that a linear model can reach it.
    nuisance: features of standard normal noise beside the signal.
    """

    proportions: tuple[float, ...] = (0.7, 0.3)
    base_rates: tuple[float, ...] = (0.55, 0.35)
    centres: tuple[float, ...] = (0.3, -0.3)
    separations: tuple[float, ...] = (2.0, 2.0)
    nuisance: int = 4

    def __post_init__(self) -> None:
        if not len(self.proportions) == len(self.base_rates) == len(self.centres) == len(self.separations) >= 2:
            raise OptionError(
                "proportions, base_rates, centres and separations need one value per group, two groups at least."
            )
        if min(self.proportions) <= 0 or abs(sum(self.proportions) - 1) > 1e-9:
            raise OptionError(f"proportions must be positive with sum 1, got {self.proportions}.")
        if not all(0 < q < 1 for q in self.base_rates):
            raise OptionError(f"base_rates must be in (0, 1), got {self.base_rates}.")
        if not all(0 < d <= 10 for d in self.separations) or not all(abs(m) <= 10 for m in self.centres):
            raise OptionError(
                f"separations must be in (0, 10] and centres in [-10, 10]: {self.separations}, {self.centres}."
            )
        if self.nuisance < 0:
            raise OptionError(f"nuisance must be at least 0, got {self.nuisance}.")

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.proportions)

    def sample(self, n: int, seed: int, *, group_features: bool = True) -> Dataset:
        """`n` rows: features signal, noise_1.. and, with `group_features`, the indicators group=1.. (group 0 is the
        reference); sensitive attribute "group" with labels "0", "1", ..
        """
        if n < 1:
            raise OptionError(f"n must be at least 1, got {n}.")
        rng = np.random.default_rng(seed_for("gaussian-parity", seed))
        k = rng.choice(self.groups, size=n, p=self.proportions)
        y = (rng.random(n) < np.array(self.base_rates)[k]).astype(np.int64)
        signal = np.array(self.centres)[k] + (y - 0.5) * np.array(self.separations)[k] + rng.standard_normal(n)
        blocks = [signal[:, None], rng.standard_normal((n, self.nuisance))]
        names = ["signal", *(f"noise_{j + 1}" for j in range(self.nuisance))]
        sources = list(names)
        if group_features:
            blocks.append((k[:, None] == np.arange(1, self.groups)).astype(np.float64))
            names += [f"group={j}" for j in range(1, self.groups)]
            sources += ["group"] * (self.groups - 1)
        return Dataset(
            name="gaussian-parity",
            X=np.hstack(blocks),
            y=y,
            sensitive={"group": np.array([str(j) for j in range(self.groups)], dtype=object)[k]},
            feature_names=tuple(names),
            feature_sources=tuple(sources),
            sensitive_sources={"group": ("group",)},
            description="Gaussian signal with a known accuracy / demographic parity frontier",
        )

    def evaluate(self, thresholds: tuple[float, ...]) -> tuple[float, tuple[float, ...]]:
        """(accuracy, selection rate of each group) of the rule: select where s > thresholds[k]."""
        if len(thresholds) != self.groups:
            raise OptionError(f"{self.groups} groups need as many thresholds, got {len(thresholds)}.")
        regions = [((t, np.inf),) for t in thresholds]
        return self._accuracy(regions), tuple(self._rate(k, regions[k]) for k in range(self.groups))

    def frontier(self, delta: float, *, aware: bool = True) -> FrontierPoint:
        """The most accurate classifier whose selection rates lie within `delta` of each other, delta in [0, 1].

        aware: the classifier may use the group; otherwise only s (two groups). Accurate to about 1e-10.
        """
        if not 0 <= delta <= 1:
            raise OptionError(f"delta must be in [0, 1], got {delta}.")
        return self._aware(delta) if aware else self._blind(delta)

    def _tails(self, k: int, x: float) -> tuple[float, float]:
        """P(s > x | k, y = 0) and P(s > x | k, y = 1)."""
        m, d = self.centres[k], self.separations[k]
        return float(norm.sf(x - m + d / 2)), float(norm.sf(x - m - d / 2))

    def _selected(self, k: int, regions: tuple[tuple[float, float], ...]) -> tuple[float, float]:
        """P(s in regions | k, y = 0) and the same for y = 1."""
        ends = [(self._tails(k, low), self._tails(k, high)) for low, high in regions]
        return sum(a[0] - b[0] for a, b in ends), sum(a[1] - b[1] for a, b in ends)

    def _rate(self, k: int, regions: tuple[tuple[float, float], ...]) -> float:
        negative, positive = self._selected(k, regions)
        return self.base_rates[k] * positive + (1 - self.base_rates[k]) * negative

    def _accuracy(self, regions: Sequence[tuple[tuple[float, float], ...]]) -> float:
        total = 0.0
        for k, (p, q) in enumerate(zip(self.proportions, self.base_rates, strict=True)):
            negative, positive = self._selected(k, regions[k])
            total += p * (q * positive + (1 - q) * (1 - negative))
        return total

    def _threshold(self, k: int, rate: float) -> float:
        """The threshold of group k at which its selection rate is `rate`; infinite at rates 0 and 1."""
        low, high = self.centres[k] - TAIL - self.separations[k], self.centres[k] + TAIL + self.separations[k]
        if rate >= self._rate(k, ((low, np.inf),)):
            return -np.inf
        if rate <= self._rate(k, ((high, np.inf),)):
            return np.inf
        return brentq(lambda t: self._rate(k, ((t, np.inf),)) - rate, low, high, xtol=1e-14, rtol=1e-14)

    def _slope(self, k: int, rate: float) -> float:
        """Derivative of p_k A_k at a selection rate: p_k (2 P(y = 1 | threshold, k) - 1), decreasing in the rate."""
        threshold = self._threshold(k, rate)
        eta = expit(self.separations[k] * (threshold - self.centres[k]) + logit(self.base_rates[k]))
        return self.proportions[k] * float(2 * eta - 1)

    def _aware(self, delta: float) -> FrontierPoint:
        free = [
            m - float(logit(q)) / d for m, q, d in zip(self.centres, self.base_rates, self.separations, strict=True)
        ]
        best = self.evaluate(tuple(free))[1]
        thresholds, shift = tuple(free), 0.0
        if max(best) - min(best) > delta:

            def derivative(a: float) -> float:
                below = sum(self._slope(k, a) for k, rate in enumerate(best) if rate < a)
                return below + sum(self._slope(k, a + delta) for k, rate in enumerate(best) if rate > a + delta)

            a = brentq(derivative, min(best), max(best) - delta, xtol=1e-14, rtol=1e-14)
            rates = [min(max(rate, a), a + delta) for rate in best]
            thresholds = tuple(self._threshold(k, rate) for k, rate in enumerate(rates))
            shift = sum(self._slope(k, a + delta) for k, rate in enumerate(best) if rate > a + delta)
        accuracy, rates_of = self.evaluate(thresholds)
        return FrontierPoint(delta, accuracy, max(rates_of) - min(rates_of), rates_of, shift, thresholds=thresholds)

    def _blind(self, delta: float) -> FrontierPoint:
        if self.groups != 2:
            raise OptionError(f"the attribute-blind frontier is for two groups, this problem has {self.groups}.")

        def difference(shift: float) -> float:
            regions = self._regions(shift)
            return self._rate(0, regions) - self._rate(1, regions)

        shift, gap = 0.0, difference(0.0)
        if abs(gap) > delta:
            target, sign = (delta, 1.0) if gap > 0 else (-delta, -1.0)
            far = sign
            while sign * (difference(far) - target) > 0 and abs(far) < 1e6:
                far *= 2
            shift = brentq(lambda x: difference(x) - target, 0.0, far, xtol=1e-14, rtol=1e-14)
        regions = self._regions(shift)
        rates = (self._rate(0, regions), self._rate(1, regions))
        return FrontierPoint(
            delta, self._accuracy([regions] * 2), abs(rates[0] - rates[1]), rates, abs(shift), regions=regions
        )

    def _regions(self, shift: float) -> tuple[tuple[float, float], ...]:
        """Where (2 P(y = 1 | s) - 1) p(s) > shift (p(s | 0) - p(s | 1)): sign changes on a grid, refined."""
        low = min(self.centres) - max(self.separations) - TAIL
        high = max(self.centres) + max(self.separations) + TAIL

        def gain(s: np.ndarray | float) -> np.ndarray:
            parts = []
            for p, q, m, d, sign in zip(
                self.proportions, self.base_rates, self.centres, self.separations, (1.0, -1.0), strict=True
            ):
                positive = q * np.exp(-((s - m - d / 2) ** 2) / 2)
                negative = (1 - q) * np.exp(-((s - m + d / 2) ** 2) / 2)
                parts.append(p * (positive - negative) - sign * shift * (positive + negative))
            return np.asarray(parts[0] + parts[1])

        grid = np.linspace(low, high, GRID)
        selected = gain(grid) > 0
        changes = np.flatnonzero(selected[1:] != selected[:-1])
        roots = [float(brentq(lambda s: float(gain(s)), grid[i], grid[i + 1], xtol=1e-14, rtol=1e-14)) for i in changes]
        ends = ([-np.inf] if selected[0] else []) + roots + ([np.inf] if selected[-1] else [])
        return tuple(zip(ends[::2], ends[1::2], strict=True))
