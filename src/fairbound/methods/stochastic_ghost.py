"""Stochastic Ghost: a convex quadratic program gives the direction, a multilevel estimator makes its mean right.

On a mini-batch X with averages (grad f, c, J = grad c) the direction d(X) solves, by its dual in m variables,

    min_d  grad f . d + tau/2 |d|^2   subject to   c + J d <= kappa e,   |d|_inf <= beta                       (8)
    kappa = (1 - lambda) max_i (c_i)_+ + lambda min_{|d|_inf <= rho} max_i (c_i + J_i d)_+

and with N drawn, P(N = j) = p_j, and fresh samples X^1 of one element and X^(2^(N+1)) of 2^(N+1) elements

    d_k = d(X^1) + (d(X^(2^(N+1))) - (d(odd half) + d(even half)) / 2) / p_N                                     (9)
    x+ = x + alpha_k d_k,     alpha_k = alpha_{k-1} (1 - alpha_hat alpha_{k-1})

f and c are to be continuously differentiable: at a kink the linearised rows say nothing of the other side, and the
method can settle at a violation that does not shrink with the steps.

Source: Kliachkin et al. (2025), section 3.2, equations (8) and (9), Algorithm 1; Facchinei and Kungurtsev (2023);
    Blanchet, Glynn and Pei (2019) for the estimator.
Departs: N stops at `max_level`, with p_j = (1 - p0)^j p0 / (1 - (1 - p0)^(max_level + 1)). The sum over levels still
    telescopes exactly: E d_k is the mean of d over batches of 2^(max_level + 1) elements, where the source's is the
    limit of that mean as the batches grow (at p0 = 0.4 its expected batch is infinite).
    An element is one row for f, drawn uniformly, and, independently, one row of every subgroup for c and J, weighted
    to be unbiased (the source: "an equal number of data points for every subgroup"). `element_rows` asks for more.
    c and J of the whole batch are the averages of the two halves', as they are where c is an average over rows; a
    problem whose batches are biased, such as one with a bound against the best-off group, is refused.
    With sampling="full" d is the exact direction, as in Facchinei et al. (2021). kappa="swapped" exchanges lambda and
    rho, as the code published with the paper does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from fairbound.base.checks import check_choice, nonnegative, positive
from fairbound.base.errors import OptionError
from fairbound.base.seeds import seed_for
from fairbound.methods.method import Method, State, no_multipliers
from fairbound.problems.problem import Draws, Problem
from fairbound.subproblems import direction_qp, least_violation, row_factor


@dataclass(frozen=True, kw_only=True)
class GhostState(State):
    """x: (..., n); k: steps done; multipliers: (..., m) of (8) on the step's largest batch; alpha: latest step size;
    visits: (..., max_level + 1) how often each level was drawn in steps 0, ..., counted - 1: it numbers the batches."""

    alpha: float
    visits: Tensor
    counted: int


@dataclass(frozen=True)
class Averages:
    """The averages of a mini-batch, in float64. gradient: (n,) of f; c: (m,); jacobian: (m, n) of c."""

    gradient: np.ndarray
    c: np.ndarray
    jacobian: np.ndarray


@dataclass(frozen=True, kw_only=True)
class StochasticGhost(Method[GhostState]):
    """For smooth bounds on random batches: the direction of each step is the solution of a small quadratic program.

    Take it to compare with its paper; on our 26 problems its loss was never within 5 % of the lowest
    (docs/which_method.md).
    Formulas and source: help(fairbound.methods.stochastic_ghost).

    step_size: > 0, alpha_0; step_size * step_decay must be below 1.
    step_decay: >= 0, alpha_hat.
    proximal: > 0, tau of (8).
    box: > 0, beta, the largest entry of a direction.
    relaxation: lambda in (0, 1], how much of kappa is the linearised violation.
    radius: > 0, rho, of the box of the linearised violation.
    kappa: "paper", or "swapped" for lambda and rho exchanged.
    level_probability: p0 in (0, 1); smaller means large batches more often.
    max_level: >= 0, largest N, so a step sees at most 2^(max_level + 1) + 1 elements.
    element_rows: rows of an element for f, and of every subgroup for c.
    """

    step_size: float = 0.05
    step_decay: float = 0.05
    proximal: float = 1.0
    box: float = 10.0
    relaxation: float = 0.5
    radius: float = 0.8
    kappa: Literal["paper", "swapped"] = "paper"
    level_probability: float = 0.4
    max_level: int = 10
    element_rows: int = 1

    name: ClassVar[str] = "stochastic_ghost"
    presets: ClassVar[dict[str, dict]] = {"paper": {}, "published-code": {"kappa": "swapped"}}
    needs: ClassVar[frozenset[str]] = frozenset({"space", "unbiased"})

    def __post_init__(self) -> None:
        positive(self, "step_size", "proximal", "box", "radius", "element_rows", "level_probability", "relaxation")
        nonnegative(self, "step_decay", "max_level")
        check_choice("kappa", self.kappa, ("paper", "swapped"))
        if not self.level_probability < 1:
            raise OptionError(f"level_probability must lie in (0, 1), got {self.level_probability!r}.")
        if self.step_size * self.step_decay >= 1:
            raise OptionError(
                f"step_size * step_decay must be below 1, got {self.step_size * self.step_decay:.3g}: the steps "
                "alpha (1 - step_decay alpha) would not stay positive."
            )
        if not 0 < self.weight <= 1:
            raise OptionError(
                f"{'radius' if self.kappa == 'swapped' else 'relaxation'}, the weight of the linearised violation in "
                f"kappa, must lie in (0, 1], got {self.weight!r}."
            )
        if self.weight * self.reach > self.box:
            raise OptionError(
                f"box must be at least relaxation * radius = {self.weight * self.reach:.3g}, got {self.box!r}: with a "
                "smaller one the quadratic program may have no solution."
            )

    @property
    def weight(self) -> float:
        """The weight of the linearised violation in kappa."""
        return self.radius if self.kappa == "swapped" else self.relaxation

    @property
    def reach(self) -> float:
        """The half-width of the box over which the violation is linearised."""
        return self.relaxation if self.kappa == "swapped" else self.radius

    @cached_property
    def level_law(self) -> np.ndarray:
        """(max_level + 1,) P(N = 0), ..., P(N = max_level)."""
        p = self.level_probability * (1 - self.level_probability) ** np.arange(self.max_level + 1)
        return p / p.sum()

    def init(self, problem: Problem, x: Tensor, draws: Draws) -> GhostState:
        """At x (..., n), with no level visited."""
        return GhostState(
            x=x,
            k=0,
            multipliers=no_multipliers(problem, x),
            alpha=self.step_size,
            visits=torch.zeros(*x.shape[:-1], self.max_level + 1, dtype=torch.int64),
            counted=0,
        )

    def step(self, state: GhostState, problem: Problem, draws: Draws) -> GhostState:
        """x + alpha d_k, every run of a stack with its own level and its own quadratic programs."""
        k, x = state.k, state.x
        alpha = state.alpha * (1 - self.step_decay * state.alpha) if k else self.step_size  # line 11
        visits, multipliers = state.visits.clone(), state.multipliers.clone()
        xs, counts, duals = (t if x.dim() > 1 else t.unsqueeze(0) for t in (x, visits, multipliers))
        moves = []
        for r, seed in enumerate(draws.seeds):
            for past in range(state.counted, k):
                counts[r, self.level_at(seed, past)] += 1
            own = Draws(problem if x.dim() == 1 else problem.of_run(r), (seed,), draws.batch_size, draws.sampling)
            d, y = self._direction(x if x.dim() == 1 else xs[r], own, self.level_at(seed, k), counts[r], k)
            moves.append(torch.from_numpy(d))
            duals[r] = torch.from_numpy(y).to(duals)
        move = moves[0] if x.dim() == 1 else torch.stack(moves)
        x.add_(move.to(x), alpha=alpha)  # line 12
        return state.next(multipliers=multipliers, alpha=alpha, visits=visits, counted=max(k, state.counted))

    def level_at(self, seed: int, k: int) -> int:
        """N of step k: a function of (seed, k)."""
        u = (seed_for("level", k, root=seed) + 0.5) / 2**63
        return min(int(np.searchsorted(self.level_law.cumsum(), u, side="right")), self.max_level)

    def _direction(self, x: Tensor, draws: Draws, level: int, visits: Tensor, k: int) -> tuple[np.ndarray, np.ndarray]:
        """d_k (n,) and the multipliers (m,) at x (n,) of one run."""
        if draws.sampling == "full":
            e, jacobian = draws.problem.jacobian(x, draws("all", 0))
            rows = _float64(jacobian)
            return direction(self, Averages(rows[0], _float64(e.g), rows[1:]))
        at = 2 * int(visits[level])
        single = averages(self, x, draws, "single", k, 0)  # lines 4 to 9
        odd, even = (averages(self, x, draws, f"pair {level}", at + i, level) for i in (0, 1))
        return estimate(self, single, odd, even, level)


def averages(config: StochasticGhost, x: Tensor, draws: Draws, name: str, k: int, level: int) -> Averages:
    """The k-th sample of 2^level elements of the stream `name`, for x (n,).

    A balanced batch takes a subgroup with no more rows than its share whole, so it would not be a sample of independent
    elements; such a sample is put together from smaller batches.
    """
    problem, elements = draws.problem, 2**level
    _, gradient = problem.gradient(x, draws(f"{name} xi", k, config.element_rows * elements, "uniform"), (1.0, None))
    if not problem.m:
        return Averages(_float64(gradient), np.zeros(0), np.zeros((0, problem.n)))
    sizes = _subgroup_sizes(problem)
    parts = 1
    while parts < elements and config.element_rows * elements >= parts * min(sizes):
        parts *= 2
    rows = config.element_rows * (elements // parts) * len(sizes)
    c, jacobian = np.zeros(problem.m), np.zeros((problem.m, problem.n))
    for part in range(parts):
        e, slopes = problem.jacobian(x, draws(f"{name} zeta", k * parts + part, rows, "balanced"))
        c += _float64(e.g) / parts
        jacobian += _float64(slopes[1:]) / parts
    return Averages(_float64(gradient), c, jacobian)


def direction(config: StochasticGhost, sample: Averages) -> tuple[np.ndarray, np.ndarray]:
    """d (n,) and multipliers (m,) of (8)."""
    g, c, jacobian = sample.gradient, sample.c, sample.jacobian
    if not len(c):
        return np.clip(g / -config.proximal, -config.box, config.box), c
    factor = row_factor(jacobian)
    kappa = kappa_of(config, c, jacobian, factor)
    qp = direction_qp(g, c, jacobian, kappa, config.proximal, config.box, factor=factor)
    return qp.d, qp.multipliers


def kappa_of(config: StochasticGhost, c: np.ndarray, jacobian: np.ndarray, factor: np.ndarray | None = None) -> float:
    """kappa_k: large enough for the rows of (8) to be satisfiable inside the box."""
    worst = max(0.0, float(c.max()))
    if worst == 0.0:
        return 0.0
    reachable = least_violation(c, jacobian, config.reach, factor=factor)
    return (1 - config.weight) * worst + config.weight * (reachable.value + max(0.0, reachable.gap))


def estimate(
    config: StochasticGhost, single: Averages, odd: Averages, even: Averages, level: int
) -> tuple[np.ndarray, np.ndarray]:
    """d_k (n,) of (9), and the multipliers (m,) of the whole batch, from X^1 and the halves of X^(2^(level + 1))."""
    whole = Averages((odd.gradient + even.gradient) / 2, (odd.c + even.c) / 2, (odd.jacobian + even.jacobian) / 2)
    d_whole, y = direction(config, whole)
    d_odd, d_even, d_single = (direction(config, s)[0] for s in (odd, even, single))
    return d_single + (d_whole - (d_odd + d_even) / 2) / float(config.level_law[level]), y


def _float64(values: Tensor) -> np.ndarray:
    return values.detach().cpu().double().numpy()


def _subgroup_sizes(problem: Problem) -> Sequence[float]:
    """Rows of each subgroup of which a balanced batch takes equally many; one endless group where there are none."""
    return (np.inf,) if problem.strata is None else problem.strata.sizes.tolist()
