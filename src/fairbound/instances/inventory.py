"""Perishable-inventory control as an approximate linear program with thousands of sampled constraints.

Source: Lin, Nadarajah, Soheili, Yang (2020), section 6.2; the decision process is that of Lin, Nadarajah, Soheili
(2019).
Departs: the program is a maximisation and is negated here; "V = max" in the text is a minimum of costs; the text does
not say how states and actions are sampled, here uniformly over their domain.

A state is s = (z0, z1, q1): stock with 0 and 1 periods of life left, and the order under way; an action a is a new
order. With demand G, (z0, z1, q1) becomes (max(z1 - (G - z0)_+, l_s), q1, a). x = (tau, theta) weighs an intercept and
18 basis functions of the state, and the program is

    min  -(tau + sum_b theta_b phi_b(s0))   over |x| <= 5 in every entry
    s.t. (1 - gamma) tau + sum_b theta_b (phi_b(s_i) - gamma E phi_b(s_i')) - c(s_i, a_i) <= 0,   i = 1..m.

Everything random is piecewise linear in G, so a batch of draws enters only through its mean and through
D(t) = mean (t - G)_+ at eleven thresholds per constraint. With T = z0 + z1 and y = z1 - (G - z0)_+, for z1 >= 0 >= l_s,

    (y - c)_+ = (T - min(c, z1) - G)_+ - (z0 - G)_+,    z0' = l_s + (y - l_s)_+,    (G - t)_+ = G - t + (t - G)_+,
    (z0' - c)_+ = (y - max(c, l_s))_+ + (l_s - c)_+,    (c - z0')_+ = c - z0' + (z0' - c)_+,

and therefore g(x) = K x + k - (c_b + c_l) mean G + D(thresholds) (W x + w), where K, k and the thresholds are fixed and
the columns of D have the same factors (W x + w) in every constraint. The expectation is the same sum with the closed
form of E (t - G)_+ for a truncated normal. The thresholds are sorted once: a batch of sorted draws cuts them into runs
on which D is linear. Sampling constraints by their weight would save little: a dual step needs every value, and the
gradient beside them is two small products.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import ndtr, ndtri
from torch import Tensor

from fairbound.base.errors import OptionError
from fairbound.base.seeds import seed_for
from fairbound.problems.base import BaseProblem
from fairbound.problems.domain import Box
from fairbound.problems.problem import Evaluation, Measured, Weights, check_finite
from fairbound.rows.sampling import check_kind

DISCOUNT = 0.95
PURCHASE, LOST_SALE = 20.0, 100.0
LARGEST_ORDER, LOWEST_STOCK = 10.0, -10.0
START_STATE = (5.0, 0.0, 0.0)
LEAD_TIME = 2
BASIS = 18


@dataclass(frozen=True)
class TruncatedNormal:
    """Normal(centre, scale^2) conditioned on [lower, upper]; centre and scale are those before truncation."""

    centre: float
    scale: float
    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not (self.scale > 0 and self.lower < self.upper):
            raise OptionError(
                f"a truncated normal needs scale > 0 and lower < upper; got {self.scale}, {self.lower}, {self.upper}."
            )

    def quantile(self, p: np.ndarray) -> np.ndarray:
        """The p-quantiles, for p in [0, 1]."""
        low, high = (ndtr((end - self.centre) / self.scale) for end in (self.lower, self.upper))
        return np.clip(self.centre + self.scale * ndtri(low + np.asarray(p) * (high - low)), self.lower, self.upper)

    @property
    def mean(self) -> float:
        """E G, from E (upper - G)_+ = upper - E G."""
        return float(self.upper - self.shortfall(np.array([self.upper]))[0])

    def shortfall(self, t: np.ndarray) -> np.ndarray:
        """E (t - G)_+, the integral of the distribution function up to t."""
        t = np.asarray(t, dtype=float)
        low, high = (self.lower - self.centre) / self.scale, (self.upper - self.centre) / self.scale
        at = (np.clip(t, self.lower, self.upper) - self.centre) / self.scale
        inside = self.scale * (_integral(at) - _integral(np.array(low)) - ndtr(low) * (at - low))
        return inside / (ndtr(high) - ndtr(low)) + np.maximum(t - self.upper, 0.0)


def _integral(u: np.ndarray) -> np.ndarray:
    """An antiderivative of the standard normal distribution function."""
    return u * ndtr(u) + np.exp(-0.5 * u * u) / math.sqrt(2 * math.pi)


DEMAND = TruncatedNormal(5.0, 2.0, 0.0, 10.0)
LEVELS = (5.0, float(DEMAND.quantile(np.array(0.25))))  # E G = median by symmetry, and the lower quartile
LEVEL_OF_BASIS = (0, 1, 0)  # the levels nu = E G, G^0.25, G^0.5 of the text


def basis(z0: np.ndarray, z1: np.ndarray, q1: np.ndarray) -> np.ndarray:
    """phi: (..., 18) of states given by arrays (...,): z0, z1, q1, then for nu = E G, the lower quartile, the median

        (z0 - nu)_+, (z0 + z1 - 2 nu)_+, (z0 + z1 + q1 - 3 nu)_+, (2 nu - z0 - z1 - q1)_+, (nu - z1 - q1)_+.

    E G is the median, as the demand is symmetric, so that columns 3..7 and 13..17 coincide: kept as the text lists
    them, they let the weight of such a function range over twice the box.
    """
    columns = [z0, z1, q1]
    for level in LEVEL_OF_BASIS:
        nu = LEVELS[level]
        columns += [z0 - nu, z0 + z1 - 2 * nu, z0 + z1 + q1 - 3 * nu, 2 * nu - z0 - z1 - q1, nu - z1 - q1]
    phi = np.stack(np.broadcast_arrays(*columns), axis=-1)
    np.maximum(phi[..., 3:], 0.0, out=phi[..., 3:])
    return phi


class DemandBatch(NamedTuple):
    """D: (..., m, 11) mean (t - G)_+ at the thresholds; mean: (...,) demand; size: draws it counts as;
    key: its name."""

    D: Tensor
    mean: Tensor
    size: int
    key: tuple[str, int]


class Inventory(BaseProblem):
    """The program above as a problem: n = 19, m sampled (state, action) pairs, objective exact.

    costs: (c_h, c_d, c_b) >= 0 per unit held, disposed of, backlogged. constraints: m >= 1. seed: of the sampled pairs.
    box: bound on every entry of x, 5 in the source. With 5 the box alone decides the optimum: over it the objective is
    at least -5 (1 + sum_b phi_b(s0)) = -166.705 whatever the costs, some feasible points attain this, and every
    multiplier is 0, though constraints are in the way (x = 5 sign(phi(s0)) violates some). From a box of 10 on they
    bind at the optimum, a dozen of them at 100, and its value depends on the costs.

    A batch of `size` demand draws serves all constraints. Kinds: "uniform" and "shuffled" draw independently, as the
    source does; "balanced" draws once from each of `size` equally likely intervals of the demand, which is unbiased too
    and far less noisy; "full" is the expectation in closed form. Where a stack of R runs is sampled, each has its own
    draws. `rows` is 1, as there are no data: a budget in epochs counts draws.

    states: (m, 3), actions: (m,), the sampled pairs. x = 0 is strictly feasible: there g_i = -c(s_i, a_i).
    """

    rows = 1
    convex = True

    def __init__(
        self,
        costs: Sequence[float] = (2.0, 10.0, 10.0),
        constraints: int = 10_000,
        seed: int = 0,
        *,
        box: float = 5.0,
        dtype: torch.dtype = torch.float64,
    ):
        if len(costs) != 3 or not all(math.isfinite(c) and c >= 0 for c in costs):
            raise OptionError(
                f"costs are three finite numbers >= 0 (holding, disposal, backlogging), got {tuple(costs)}."
            )
        if constraints < 1:
            raise OptionError(f"constraints must be at least 1, got {constraints}.")
        if not (box > 0 and math.isfinite(box)):
            raise OptionError(f"box must be positive and finite, got {box}; it bounds every entry of x.")
        self.costs, self.m, self.n, self.dtype = tuple(float(c) for c in costs), int(constraints), BASIS + 1, dtype
        self.names = tuple(f"pair {i}" for i in range(self.m))
        self.box, self.domain = float(box), Box(-float(box), float(box))
        low = np.array([LOWEST_STOCK, 0.0, 0.0, 0.0])
        drawn = np.random.default_rng(seed_for("inventory pairs", self.m, root=seed)).random((self.m, 4))
        pairs = low + drawn * (LARGEST_ORDER - low)
        self.states, self.actions = pairs[:, :3], pairs[:, 3]

        fixed = _fixed_part(self.states, self.actions, self.costs)
        self._K, self._k, self._W, self._w = (torch.as_tensor(part, dtype=dtype) for part in fixed[:4])
        self._mean_cost = self.costs[2] + LOST_SALE
        self._thresholds = fixed[4]
        order = np.argsort(self._thresholds, axis=None, kind="stable")
        self._sorted = self._thresholds.ravel()[order]
        self._place = torch.empty(len(order), dtype=torch.int64)
        self._place[torch.as_tensor(order)] = torch.arange(len(order))
        self.objective = -torch.as_tensor(np.r_[1.0, basis(*np.array(START_STATE))], dtype=dtype)
        self._expectation = DemandBatch(
            torch.as_tensor(DEMAND.shortfall(self._thresholds), dtype=dtype),
            torch.tensor(DEMAND.mean, dtype=dtype),
            self.rows,
            ("full", 0),
        )

    def start(self, seeds: Sequence[int]) -> Tensor:
        """x = 0, strictly feasible: (n,) for one seed, (R, n) for several."""
        return torch.zeros((self.n,) if len(seeds) == 1 else (len(seeds), self.n), dtype=self.dtype)

    def sample(self, seeds: Sequence[int], name: str, k: int, size: int, kind: str) -> DemandBatch:
        """`size` demand draws, of each run its own where there are several seeds."""
        check_kind(kind)
        if size < 1:
            raise OptionError(f"a batch needs at least one draw, got {size}.")
        if kind == "full":
            return self._expectation._replace(key=(name, k))
        stratified = kind == "balanced"
        draws = []
        for seed in seeds:
            p = np.random.default_rng(seed_for("demand", name, k, size, stratified, root=seed)).random(size)
            draws.append(DEMAND.quantile((np.arange(size) + p) / size if stratified else p))
        return self.batch(draws[0] if len(draws) == 1 else np.stack(draws), (name, k))

    def batch(self, demand: np.ndarray, key: tuple[str, int] = ("given", 0)) -> DemandBatch:
        """The batch of the given draws: (size,), or (R, size) for a stack."""
        demand = np.sort(np.asarray(demand, dtype=float), axis=-1)
        if demand.ndim == 2:
            single = [self.batch(row, key) for row in demand]
            return DemandBatch(
                torch.stack([b.D for b in single]), torch.stack([b.mean for b in single]), demand.shape[-1], key
            )
        size = len(demand)
        runs = np.diff(np.searchsorted(self._sorted, demand), prepend=0, append=len(self._sorted))
        below = np.concatenate([[0.0], np.cumsum(demand)]) / size
        shortfall = self._sorted * np.repeat(np.arange(size + 1) / size, runs)
        shortfall -= np.repeat(below, runs)
        D = torch.from_numpy(shortfall).to(self.dtype).index_select(0, self._place).view(self._thresholds.shape)
        return DemandBatch(D, torch.tensor(below[-1], dtype=self.dtype), size, key)

    def matrices(self, batch: DemandBatch | None = None) -> tuple[Tensor, Tensor]:
        """A: (..., m, n) and b: (..., m) with g(x) = A x + b on the batch; None for the expectation."""
        batch = self._expectation if batch is None else batch
        return self._K + batch.D @ self._W, self._k - self._mean_cost * batch.mean.unsqueeze(-1) + batch.D @ self._w

    def values(self, x: Tensor, batch: DemandBatch, true: bool = False) -> Evaluation:
        """f, exact, and g on the batch; metric and surrogate are the same here."""
        return self._evaluate(x, batch)

    def gradient(
        self, x: Tensor, batch: DemandBatch, weights: Weights | Callable[[Evaluation], Weights]
    ) -> tuple[Evaluation | None, Tensor]:
        evaluation = self._evaluate(x, batch) if callable(weights) else None
        w0, w = weights(evaluation) if callable(weights) else weights  # type: ignore[arg-type]
        gradient = self.objective * w0 + torch.zeros_like(x)
        if w is not None:
            columns = (w.unsqueeze(-2) @ batch.D).squeeze(-2)
            gradient = gradient + w @ self._K + columns @ self._W
        check_finite(gradient, lambda: self._explain(batch, "gradient"))
        return evaluation, gradient

    def jvp(self, x: Tensor, batch: DemandBatch, dx: Tensor) -> Tensor:
        along = dx @ self._K.T + (batch.D @ (dx @ self._W.T).unsqueeze(-1)).squeeze(-1)
        return torch.cat([(dx @ self.objective).unsqueeze(-1), along], dim=-1)

    def jacobian(self, x: Tensor, batch: DemandBatch, which: Sequence[int] | None = None) -> tuple[Evaluation, Tensor]:
        """The evaluation, and the gradients (..., 1 + m, n), or the rows `which` of them."""
        A = self._K + batch.D @ self._W
        rows = torch.cat([self.objective.expand(*A.shape[:-2], 1, self.n), A], dim=-2)
        if which is not None:
            rows = rows[..., list(which), :]
        return self._evaluate(x, batch), rows.expand(*x.shape[:-1], *rows.shape[-2:])

    def evaluate(self, x: Tensor) -> Measured:
        """The exact f and g: the expectation over demand in closed form."""
        exact = self._evaluate(x, self._expectation)
        return Measured(exact.f, exact.g, {})

    def _evaluate(self, x: Tensor, batch: DemandBatch) -> Evaluation:
        factors = x @ self._W.T + self._w
        g = x @ self._K.T + (self._k - self._mean_cost * batch.mean.unsqueeze(-1))
        g = g + (batch.D @ factors.unsqueeze(-1)).squeeze(-1)
        check_finite(g, lambda: self._explain(batch, "objective or a constraint"))
        return Evaluation(x @ self.objective, g)

    def _explain(self, batch: DemandBatch, what: str) -> str:
        where = f"batch {batch.key[1]} of stream {batch.key[0]!r}"
        return f"the {what} of the inventory program is NaN or infinite in {where}; lower the step size."


def _fixed_part(
    states: np.ndarray, actions: np.ndarray, costs: Sequence[float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """K (m, n), k (m,), W (J, n), w (J,) and thresholds (m, J) of the module's formula for g.

    Columns of the thresholds: z0, z0 + z1, z0 + z1 - l_s, then for each of the two levels nu the four c of
    (z0' - nu)_+, (z0' + z1' - 2 nu)_+, (z0' + z1' + q1' - 3 nu)_+ and (2 nu - z0' - z1' - q1')_+.
    """
    hold, dispose, backlog = costs
    z0, z1, q1 = states.T
    total, least = z0 + z1, LOWEST_STOCK
    stock = 1  # column of x that weighs z0; those of z1 and q1 follow

    thresholds = [z0, total, total - least]
    W = np.zeros((3 + 4 * len(LEVELS), BASIS + 1))
    w = np.zeros(len(W))
    K = np.concatenate([np.full((len(z0), 1), 1 - DISCOUNT), basis(z0, z1, q1)], axis=1)

    def next_stock(column: int, factor: float) -> None:
        """Add factor * E z0', which is l_s + D(total - l_s) - D(z0), to a column."""
        K[:, column] += factor * least
        W[2, column] += factor
        W[0, column] -= factor

    next_stock(stock, -DISCOUNT)
    K[:, stock + 1] -= DISCOUNT * q1
    K[:, stock + 2] -= DISCOUNT * actions
    for at, level in enumerate(LEVELS):
        cuts = (level, 2 * level - q1, 3 * level - q1 - actions, 2 * level - q1 - actions)
        columns = [4 + 5 * j for j, of in enumerate(LEVEL_OF_BASIS) if of == at]
        for j, cut in enumerate(cuts):
            place = 3 + 4 * at + j
            thresholds.append(total - np.minimum(np.maximum(cut, least), z1))
            for column in columns:
                W[place, column + j] -= DISCOUNT
                W[0, column + j] += DISCOUNT
                K[:, column + j] -= DISCOUNT * np.maximum(least - cut, 0.0)
                if j == 3:
                    K[:, column + j] -= DISCOUNT * cut
                    next_stock(column + j, DISCOUNT)
        for column in columns:
            K[:, column + 4] -= DISCOUNT * np.maximum(level - q1 - actions, 0.0)

    w[0], w[1], w[2] = hold - dispose, -hold - backlog, -LOST_SALE
    k = -(DISCOUNT**LEAD_TIME) * PURCHASE * actions + backlog * total + LOST_SALE * (total - least)
    return K, k, W, w, np.stack(thresholds, axis=1)
