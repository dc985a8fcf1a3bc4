"""Stochastic mirror descent and level sets on single rows of a linear score: AUC under AUC bounds, from a stream.

    row z:  g_w, g_a, g_b, g_y, g_alpha of Phi at (w, a, b, y, alpha)          `pair_saddle` with this row alone
            w <- w - eta g_w,   a, b <- [a - eta g_a], [b - eta g_b]            within [-reach, reach]
            (y, alpha) <- mirror step of `LiftedSimplex`                        Lemma 3
    after a block of rows: U = the online upper bound of H(r);                  Lemma 4
            if U < 0, the call ends: keep the mean of w, and r <- r + U / (2 theta)

These are the formulas of `methods/smd.py` on batches of one row, in plain numbers and two BLAS calls a row: a step
costs microseconds, where one of tensors costs a millisecond. Nothing grows with the rows.

Source: Yao, Lin, Yang (2023), Algorithms 1 and 2.
Departs: the interval of a, b and alpha grows where it is too short; a call begins where the one before ended, in x and
    in y; steps shrink with the rows of the whole run, within a call only where `decay` says so; a row so long that its
    step would overshoot its own score is stepped on less; Pr(z in G) is the share of the rows so far; w is free.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import daxpy

from fairbound.base.checks import limit, positive
from fairbound.base.errors import OptionError


class PairSums(NamedTuple):
    """What is compared. sets: (S, K) bool, which cells of rows each set has. pairs: J losses (owner, set, set): of
    owner 0 is the objective, of 1..m the bounds. constants: (1 + m,) what is added to each owner's sum of losses."""

    sets: np.ndarray
    pairs: tuple[tuple[int, int, int], ...]
    constants: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class SaddleOptions:
    """Options of `RowSaddle`.

    c1: of the quadratic loss. step_size: eta, for features in whitened coordinates. dual_step: tau. inertia: what
    stands for K in the mirror step of y; less moves y faster. reach: of a, b and alpha at first; it is doubled where
    one of them comes to its end, so that it holds the means of all sets. theta: > 1; the level moves by U / (2 theta).
    horizon, decay: steps are c / sqrt(1 + rows / horizon) / (1 + t)^decay after so many rows in all, t of them in this
    call.
    least: rows of a call before its bound is judged.
    """

    c1: float = 0.5
    step_size: float = 2e-4
    dual_step: float = 5e-3
    inertia: float = 2.0
    reach: float = 1.5
    theta: float = 1.01
    horizon: float = 20_000.0
    decay: float = 0.0
    least: int = 2000

    def __post_init__(self) -> None:
        limit(self, "horizon")
        positive(self, "c1", "step_size", "dual_step", "inertia", "reach", "least")
        if not self.theta > 1 or not 0 <= self.decay < 1:
            raise OptionError(f"theta must be above 1 and decay lie in [0, 1), got {self.theta!r} and {self.decay!r}.")


@dataclass
class RowSaddle:
    """A run. level: r. counts: (K,) rows of each cell so far. w: (d,), a, b, alpha: J, y: 1 + m numbers. In this
    call, total is the sum of w times the steps' weights, weight the sum of these weights; reach: of a, b and alpha now;
    sums, slopes: of F and G. t: rows of this call; outer: calls that ended; output: (d,) the mean of w of the last of
    them."""

    asked: PairSums
    options: SaddleOptions
    level: float
    w: np.ndarray
    counts: list[float]
    a: list[float]
    b: list[float]
    alpha: list[float]
    y: list[float]
    total: np.ndarray = field(init=False)
    output: np.ndarray = field(init=False)
    reach: float = field(init=False)
    outer: int = 0
    rows: int = 0

    @classmethod
    def start(cls, asked: PairSums, d: int, options: SaddleOptions, level: float | None = None) -> RowSaddle:
        """Before the first row, w = 0; level: None for c1, the loss of a constant score."""
        zeros, parts = [0.0] * len(asked.pairs), len(asked.constants)
        level = options.c1 if level is None else level
        counts = [0.0] * asked.sets.shape[1]
        return cls(asked, options, level, np.zeros(d), counts, zeros, zeros[:], zeros[:], [1 / parts] * parts)

    def __post_init__(self) -> None:
        self.output, self.reach = np.zeros_like(self.w), self.options.reach
        self._owners = [owner for owner, _, _ in self.asked.pairs]
        self._sets_of = [np.flatnonzero(column).tolist() for column in self.asked.sets.T]
        self._cells_of = [np.flatnonzero(row).tolist() for row in self.asked.sets]
        self._pairs_of = [
            [(j, o, p, q, self.asked.sets[p, c], self.asked.sets[q, c]) for j, (o, p, q) in enumerate(self.asked.pairs)
             if self.asked.sets[p, c] or self.asked.sets[q, c]]
            for c in range(self.asked.sets.shape[1])
        ]  # fmt: skip
        self.restart()

    def copy(self) -> RowSaddle:
        """A run that goes on from here by itself."""
        made = copy.copy(self)
        for name in ("w", "total", "counts", "a", "b", "alpha", "_sums", "_slopes"):  # what a row changes in place
            setattr(made, name, getattr(self, name).copy())
        return made

    def restart(self) -> None:
        """Begin a call: sums at zero, all else as it is."""
        self.total = np.zeros_like(self.w)
        self._sums, self._slopes = [0.0] * len(self.y), [0.0] * len(self.a)
        self._weight, self._t = 0.0, 0

    def feed(self, X: np.ndarray, cells: np.ndarray, known: bool = False) -> None:
        """Rows X (B, d) of cells (B,) < K, in this order; then the call ends if it may. A row whose cell is in no set
        is skipped.

        known: whether `counts` already hold the shares of the cells, as on a second pass over the rows.
        """
        rows = np.ascontiguousarray(X, dtype=np.float64)
        lengths = np.einsum("ij,ij->i", rows, rows).tolist()
        self._totals = [sum(self.counts[c] for c in members) for members in self._cells_of]
        self._all = sum(self.counts)
        for x, length, cell in zip(rows, lengths, cells.tolist(), strict=True):
            if not known:
                self.counts[cell] += 1.0
                self._all += 1.0
                for one in self._sets_of[cell]:
                    self._totals[one] += 1.0
            if self._pairs_of[cell]:
                self._row(x, length, cell)
        if max(map(abs, (*self.a, *self.b, *self.alpha))) >= self.reach:
            self.reach *= 2
            self.restart()  # its bound was taken over too small a set
        if self._t >= self.options.least and (upper := self.upper) < 0:
            self.output, self.outer = self.total / self._weight, self.outer + 1
            self.level += upper / (2 * self.options.theta)
            self.restart()

    def _row(self, x: np.ndarray, length: float, cell: int) -> None:
        """One step, from the row x (d,) of squared length |x|^2."""
        options, y, a, b, alpha = self.options, self.y, self.a, self.b, self.alpha
        two, reach, c1 = 2 * options.c1, self.reach, options.c1
        shrink = (1 + self.rows / options.horizon) ** -0.5 * (1 + self._t) ** -options.decay
        eta, tau = options.step_size * shrink, options.dual_step * shrink
        n, totals = self._all, self._totals
        s = float(x.dot(self.w))
        F, G = list(self.asked.constants), [0.0] * len(a)
        F[0] -= self.level
        for owner in self._owners:
            F[owner] += c1
        along = stiff = 0.0
        for j, owner, first, second, in_first, in_second in self._pairs_of[cell]:
            u, lifted = y[owner], y[owner] * (alpha[j] - 1.0)
            if in_first:
                weight, away = n / totals[first], s - a[j]
                F[owner] += weight * (c1 * away * away - two * s)
                G[j] += weight * two * s
                along += weight * two * (u * away + lifted)
                stiff += weight * two * u
                a[j] = min(max(a[j] + eta * two * u * weight * away, -reach), reach)
            if in_second:
                weight, away = n / totals[second], s - b[j]
                F[owner] += weight * (c1 * away * away + two * s)
                G[j] -= weight * two * s
                along += weight * two * (u * away - lifted)
                stiff += weight * two * u
                b[j] = min(max(b[j] + eta * two * u * weight * away, -reach), reach)
        daxpy(self.w, self.total, a=tau)
        self._weight, self._t, self.rows = self._weight + tau, self._t + 1, self.rows + 1
        for i, value in enumerate(F):
            self._sums[i] += tau * value
        for j, value in enumerate(G):
            self._slopes[j] += tau * value
        daxpy(x, self.w, a=-eta * along / max(1.0, eta * stiff * length))
        self._dual_step(F, G, tau)

    def _dual_step(self, F: list[float], G: list[float], tau: float) -> None:
        """Lemma 3: the mirror step of (y, alpha) along F and G."""
        options, alpha = self.options, self.alpha
        c1, reach = options.c1, self.reach
        gain = [tau * value for value in F]
        for j, owner in enumerate(self._owners):
            before = alpha[j]
            new = min(max((before + tau * G[j] / (2 * c1)) / (1 + tau), -reach), reach)
            gain[owner] += tau * G[j] * new - c1 * ((new - before) ** 2 + tau * new * new)
            alpha[j] = new
        most = max(gain)
        raised = [max(u, 1e-300) * math.exp((g - most) / options.inertia) for u, g in zip(self.y, gain, strict=True)]
        total = sum(raised)
        self.y = [u / total for u in raised]

    @property
    def complete(self) -> bool:
        """Whether every set that is compared has had a row."""
        compared = {one for _, *sides in self.asked.pairs for one in sides}
        return all(sum(self.counts[c] for c in self._cells_of[one]) > 0 for one in compared)

    @property
    def upper(self) -> float:
        """U, the online upper bound of H(r) (Lemma 4); infinite before the first row of a call."""
        if not self._t:
            return math.inf
        c1, reach = self.options.c1, self.reach
        values = [value / self._weight for value in self._sums]
        for j, (owner, _, _) in enumerate(self.asked.pairs):
            v = self._slopes[j] / self._weight
            alpha = min(max(v / (2 * c1), -reach), reach)
            values[owner] += alpha * v - c1 * alpha * alpha
        return max(values)

    @property
    def point(self) -> np.ndarray:
        """(d,) the last outer iterate; the mean of w in this call until there is one."""
        return self.output if self.outer or not self._t else self.total / self._weight
