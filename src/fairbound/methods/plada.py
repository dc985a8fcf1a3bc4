"""PLADA: a proximal-perturbed Lagrangian whose multipliers stay bounded without being clipped, one set a constraint.

With rho = alpha / (1 + alpha beta) and slacks u, 0 <= u <= u_max, step k at theta_k is

    lambda_k = mu_k + rho (G(theta_k) + u_k)                                                                (12)
    z_k      = (lambda_k - mu_k) / alpha                                                                    (13)
    theta_k+ ~ argmin_X <grad F(theta_k), theta> + <lambda_k, G(theta)> + |theta - theta_k|^2 / (2 eta)      (9)
    u_k+     = clip(u_k - tau lambda_k, 0, u_max)                                                          (10)
    mu_k+    = mu_k + gamma_k (lambda_k - mu_k) / rho                                                      (11)
               gamma_k = min(gamma_0, rho delta_k / (|lambda_k - mu_k|^2 + 1)),   delta_k = kappa / (k + 1)

mu moves by at most delta_k / 2 a step and lambda stays within rho |G + u| of it, whatever the problem.

Source: "A modified proximal-perturbed Lagrangian for non-convex non-smooth representatives of fairness constraints",
    Algorithm 1 and equations (6) to (13).
Departs: lines 6 and 7 of a step stand at the head of the next, where G(theta) is at hand, so that a step is one pass;
    the iterates are the same, and the first lambda follows (12). Of very many constraints, those that a batch lacks
    keep theirs. (9), which has no closed form, is solved by `inner_steps` projected subgradient steps of lengths 2
    eta / (j + 2), those of a (1/eta)-strongly convex function; the first is theta_k - eta (grad F + lambda . dG). u_max
    is ROOM times the largest |G_i| so far, as the paper gives no B_G. The start, which the paper leaves open: mu is the
    shortest multipliers y >= 0 of about the smallest |grad F + y . dG|, where steps are the theory's, the model is
    judged on all rows and constraints are few, else 0; u is 0 where mu > 0, else [-G]_+. On batches, G comes from rows
    of its own and eta decays. By default alpha, 1/beta, tau and the steps of mu are scaled so that steep constraints
    move as flat ones do. On all rows few constraints are weighed, all by one number, so that M_G^2 is `balance` times
    L_F: the method run on sqrt(share) G in place of G, so that multipliers do not take the longer the flatter G is.
    Where more constraints pull alike, as hundreds of overlapping groups do, rho is shared among them (divided by m
    M_G^2 / (2 sum_i |grad g_i|^2), which is 1 for g and -g). eta is halved where a step on all rows raises F + lambda .
    G by more than RISE; G is of the stated metric; a share of each bound is kept as margin, and gradients are clipped.
    The presets "paper" and "paper-network" have the paper's numbers (Table 2) and none of these.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from fairbound.base.checks import check_choice, limit, nonnegative, positive, share
from fairbound.base.errors import OptionError
from fairbound.methods.constants import constraint_slope, gradient_lipschitz, squared_norm
from fairbound.methods.method import Method, State, no_multipliers
from fairbound.methods.primal import clipped, decayed
from fairbound.problems.problem import Draws, Evaluation, Problem, Weights
from fairbound.subproblems.nonnegative import nonnegative_least_squares

INSIDE = 0.9
"""Step sizes are this share of the theory's limits, which must not be reached themselves."""

RISE = 0.1
"""The step size is halved where a step on all rows raises the Lagrangian by this
share of |F|: a network's constants grow."""

CONSTANT_ROWS, CONSTANT_ROWS_ON_BATCHES = 2048, 256
"""Rows of which the constants are estimated, all of them where there are no more. On batches the step size is mostly
LONGEST_ON_BATCHES, and more rows would take longer than the run does (two seconds for small convolutions)."""

ROOM = 2.0
"""u may rise to this multiple of the largest |G_i| so far: with less, u would hold multipliers below 0."""

FEW = 64
"""Constraints up to which all gradients are taken at the start."""

SHORT = 1e-3
"""Weight of the length of the first multipliers: the differences of three groups in a circle add up to 0, so that their
multipliers could all rise alike at no cost."""

LIGHTEST, HEAVIEST = 0.01, 100.0
"""Least and largest number by which constraints are weighed, where they are few."""

LONGEST, LONGEST_ON_BATCHES = 3.0, 0.3
"""No step size is taken longer than this, where f and g look flat."""

PAPER: dict[str, Any] = {
    "step_size": 1e-3,
    "slack_step": 0.1,
    "alpha": 10.0,
    "beta": 0.1,
    "dual_step": 0.1,
    "kappa": 1.0,
    "dual_values": "surrogate",
    "scaled": False,
    "margin": 0.0,
    "balance": None,
    "clip": math.inf,
    "decay": 0.0,
}


@dataclass(frozen=True, kw_only=True)
class PLADAState(State):
    """x: (..., n) theta. multipliers: lambda (..., m), of the step before. mu, u, z: (..., m). eta: (..., 1) step size
    of theta before it decays. reach: (..., m) the largest |G_i| seen; u is at most ROOM times it. merit: (..., 1)
    F + lambda . G of the step before. share: (..., 1) what rho is multiplied by, so that constraints are as steep as
    the objective is curved, or are many."""

    mu: Tensor
    u: Tensor
    z: Tensor
    eta: Tensor
    reach: Tensor
    merit: Tensor
    share: Tensor

    @property
    def shown(self) -> dict[str, Tensor]:
        """|lambda - mu|, which goes to 0, and the largest lambda and mu; (...,) each."""
        lam, mu = self.multipliers, self.mu
        if not lam.shape[-1]:
            return {}
        return {"apart": (lam - mu).norm(dim=-1), "largest_lambda": lam.abs().amax(-1), "largest_mu": mu.abs().amax(-1)}


@dataclass(frozen=True, kw_only=True)
class PLADA(Method[PLADAState]):
    """For non-convex bounds, on all rows or on batches: multipliers that cannot grow without end.

    Take it beside `alm`, which it comes near to; by default it estimates its own step size.
    Formulas and source: help(fairbound.methods.plada).

    alpha: > 0, the penalty on z; the paper has alpha > 1.
    beta: > 0, the proximal term between lambda and mu; the paper has beta < 1. rho = alpha / (1 + alpha beta).
    step_size: > 0, eta; None for the largest that the theory allows, 1 / (L_F + 3 rho M_G^2) and at most LONGEST, with
        both constants estimated at the start, of at most CONSTANT_ROWS rows (on batches CONSTANT_ROWS_ON_BATCHES).
    slack_step: > 0, tau; None for the largest that the theory allows, 1 / (3 rho).
    dual_step: gamma_0 in (0, 1].
    kappa: > 0, of delta_k = kappa / (k + 1); a larger one keeps gamma_0 for longer.
    inner_steps: subgradient steps on the proximal problem of theta.
    dual_values: "true" takes G of the stated metric, "surrogate" of what training differentiates.
    margin: share of each stated bound to stay below it by, in [0, 1), so that iterates settle inside and not around it.
    balance: > 0, what M_G^2 / L_F becomes by weighing the constraints, on all rows, for at most FEW of them and no
        `step_size`; None leaves them as they are, and the first mu at 0.
    scaled: whether rho is multiplied, and tau divided, by `Problem.dual_scale`: 1 for rates by a sigmoid, 1/4 for
        losses.
    clip: > 0, largest norm of a step's direction; inf for none.
    decay: >= 0; on batches, eta is divided by (1 + k / decay_steps)^decay.
    decay_steps: > 0, see decay.
    constraint_rows: rows of each G on batches; None for eight batches, at most 1,024.
    """

    alpha: float = 1.1
    beta: float = 0.1
    step_size: float | None = None
    slack_step: float | None = None
    dual_step: float = 1.0
    kappa: float = 200.0
    inner_steps: int = 1
    dual_values: Literal["true", "surrogate"] = "true"
    margin: float = 0.05
    balance: float | None = 0.5
    scaled: bool = True
    clip: float = 10.0
    decay: float = 0.5
    decay_steps: float = 1000.0
    constraint_rows: int | None = None

    name: ClassVar[str] = "plada"
    partial: ClassVar[bool] = True
    margin_is_share: ClassVar[bool] = True
    presets: ClassVar[dict[str, dict]] = {
        "paper": PAPER,
        "paper-network": {**PAPER, "step_size": 0.1, "slack_step": 0.01, "beta": 0.5},
    }

    def __post_init__(self) -> None:
        positive(self, "alpha", "beta", "step_size", "slack_step", "dual_step", "kappa", "inner_steps")
        positive(self, "balance", "decay_steps", "constraint_rows")
        limit(self, "clip")
        nonnegative(self, "decay")
        share(self, "margin")
        if self.dual_step > 1:
            raise OptionError(f"dual_step is gamma_0 and must lie in (0, 1], got {self.dual_step!r}.")
        check_choice("dual_values", self.dual_values, ("true", "surrogate"))

    @property
    def rho(self) -> float:
        """alpha / (1 + alpha beta)."""
        return self.alpha / (1 + self.alpha * self.beta)

    @property
    def tau(self) -> float:
        """The step size of the slacks."""
        return INSIDE / (3 * self.rho) if self.slack_step is None else self.slack_step

    def init(self, problem: Problem, x: Tensor, draws: Draws) -> PLADAState:
        """At x (..., n), with mu = 0; the first step sets u, eta and lambda."""
        zero = no_multipliers(problem, x)
        mu, u, z, reach = (zero.clone() for _ in range(4))
        eta = x.new_zeros(*x.shape[:-1], 1)
        far = torch.full_like(eta, torch.inf)
        return PLADAState(
            x=x, k=0, multipliers=zero, mu=mu, u=u, z=z, eta=eta, reach=reach, merit=far, share=torch.ones_like(eta)
        )

    def step(self, state: PLADAState, problem: Problem, draws: Draws) -> PLADAState:
        """Lines 6, 7 and 3 to 5 of Algorithm 1, in this order."""
        full, x = draws.sampling == "full", state.x
        batch = draws("primal", state.k)
        if state.k == 0:
            state = replace(state, **self.beginning(problem, x, draws))  # type: ignore[arg-type]
        if full and self.inner_steps == 1 and self.dual_values == "surrogate" and problem.m:
            moved: dict[str, Tensor] = {}

            def weights(e: Evaluation) -> Weights:
                moved.update(self._dual(state, problem, e, full))
                return 1.0, e.of(moved["multipliers"])

            _, slope = problem.gradient(x, batch, weights)
        else:
            moved = {}
            if problem.m:
                rows = batch if full else draws("dual", state.k, self._rows(draws))
                moved = self._dual(state, problem, problem.values(x, rows, true=self.dual_values == "true"), full)
            slope = self._direction(state, problem, batch, moved.get("multipliers"))
        state = state if "eta" not in moved else replace(state, eta=moved["eta"])
        eta = state.eta if full else state.eta * decayed(state.k, self.decay_steps, self.decay)
        slope = slope if math.isinf(self.clip) else clipped(slope, self.clip)
        x.copy_(problem.domain.project(x - eta * slope))
        return state.next(**moved)

    def beginning(self, problem: Problem, x: Tensor, draws: Draws) -> dict[str, Tensor]:
        """eta (..., 1), as it was given or the largest that the theory allows by constants estimated at x (..., n), the
        share of rho that leaves room for it, and the first mu where it is not 0."""
        one = x.new_ones((*x.shape[:-1], 1))
        if self.step_size is not None:
            return {"eta": self.step_size * one}
        full = draws.sampling == "full"
        rows = CONSTANT_ROWS if full else CONSTANT_ROWS_ON_BATCHES
        batch = draws("constants", 0, rows, "full" if problem.rows <= rows else "balanced")
        curvature, scale, first = gradient_lipschitz(problem, x, batch), self._scale(problem), {}
        if full and self.balance is not None and 0 < problem.m <= FEW and not problem.partial:
            slopes = problem.jacobian(x, batch)[1]
            weighed = slopes[..., 1:, :] * torch.as_tensor(scale).sqrt().to(x).unsqueeze(-1)
            steep = torch.linalg.matrix_norm(weighed, ord=2).square().unsqueeze(-1)
            known = (steep > 0) & (curvature > 0)
            part = torch.where(known, self.balance * curvature / steep, 1.0).clamp(LIGHTEST, HEAVIEST)
            first = {"mu": _stationary(slopes)}
        else:
            steep, part = constraint_slope(problem, x, batch, scale).square(), one
            if problem.m > 2 and not problem.partial:
                alike = steep * problem.m / (2 * squared_norm(problem, x, batch, scale))
                part = 1 / alike.clamp_min(1)
        longest = LONGEST if full else LONGEST_ON_BATCHES
        eta = INSIDE / (curvature + 3 * self.rho * steep * part).clamp_min(INSIDE / longest)
        return {"eta": eta, "share": part, **first}

    def _dual(self, state: PLADAState, problem: Problem, e: Evaluation, full: bool) -> dict[str, Tensor]:
        """(12), (13), (10) and (11) from G at theta_k: the fields of the state that they change. On all rows eta is
        halved where F + lambda . G has risen, which (24) excludes for the eta of the theory."""
        before = {name: e.of(getattr(state, name)) for name in ("multipliers", "mu", "u", "z", "reach")}
        scale, mu, rho = e.of(self._scale(problem)) * state.share, before["mu"], self.rho
        G = e.g + self.margin * e.of(problem.bounds)
        reach = torch.maximum(before["reach"], G.abs())
        begun = torch.where(mu > 0, 0.0, (-G).clamp_min(0))
        u = torch.where(before["reach"] == 0, begun, before["u"])  # where G was never seen before
        lam = mu + rho * scale * (G + u)
        apart = lam - mu
        gamma = (rho * self.kappa / (state.k + 1) / (apart.square().sum(-1, keepdim=True) + 1)).clamp_max(
            self.dual_step
        )
        changed = {
            "multipliers": lam,
            "z": apart / (self.alpha * scale),
            "u": torch.minimum((u - self.tau / scale * lam).clamp_min(0), ROOM * reach),
            "mu": mu + gamma / rho * apart,
            "reach": reach,
        }
        own: dict[str, Tensor] = {}
        if full and self.step_size is None:
            now = e.f.unsqueeze(-1) + (before["multipliers"] * G).sum(-1, keepdim=True)
            rose = now > state.merit + RISE * e.f.abs().unsqueeze(-1)
            own = {
                "eta": torch.where(rose, state.eta / 2, state.eta),
                "merit": e.f.unsqueeze(-1) + (lam * G).sum(-1, keepdim=True),
            }
        if e.seen is not None and not full:
            changed = {name: torch.where(e.seen, value, before[name]) for name, value in changed.items()}
        return {name: e.put(getattr(state, name), value) for name, value in changed.items()} | own

    def _direction(self, state: PLADAState, problem: Problem, batch: Any, lam: Tensor | None) -> Tensor:
        """(..., n) what theta moves along by eta: (theta_k - theta_k+) / eta before the last projection."""
        if self.inner_steps == 1 or lam is None:
            return problem.gradient(state.x, batch, (1.0, lam))[1]
        x, eta = state.x, state.eta
        of_f, at = problem.gradient(x, batch, (1.0, None))[1], x
        for j in range(self.inner_steps):
            slope = of_f + problem.gradient(at, batch, (0.0, lam))[1] + (at - x) / eta
            at = problem.domain.project(at - 2 * eta / (j + 2) * slope)
        return (x - at) / eta

    def _rows(self, draws: Draws) -> int:
        return self.constraint_rows or max(draws.batch_size, min(8 * draws.batch_size, 1024))

    def _scale(self, problem: Problem) -> Tensor | float:
        return problem.dual_scale if self.scaled else 1.0


def _stationary(slopes: Tensor) -> Tensor:
    """(..., m) the y >= 0 of the smallest |grad f + sum_i y_i grad g_i|^2 + (SHORT s |y|)^2, from the gradients (...,
    1 + m, n) of f and all g; s: the largest singular value of those of g."""
    rows = slopes.double().cpu().numpy().reshape(-1, *slopes.shape[-2:])
    zero, y = np.zeros(slopes.shape[-2] - 1), []
    for one in rows:
        ridge = SHORT * np.linalg.norm(one[1:], 2) * np.eye(len(zero))
        y.append(nonnegative_least_squares(np.vstack([one[1:].T, ridge]), np.append(-one[0], zero))[0])
    return torch.from_numpy(np.stack(y)).to(slopes).view(*slopes.shape[:-2], -1)
