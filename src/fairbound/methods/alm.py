"""Augmented Lagrangian with multipliers estimated apart from the primal steps: the library's default method.

    every `dual_every` steps, on `dual_rows` fresh rows:  g = g_true(x) + margin,  y <- [y + eta g]_+,  w = [y + rho g]_+
    every step, on one batch:                             x <- Proj_X(x - tau_k (grad f(x) + sum_i w_i grad g_i(x)))

The weights w stay fixed between dual updates, so a primal step is one weighted backward pass whatever the number of
constraints, and no product of two noisy estimates of g enters the gradient.

Source: Kliachkin et al. (2025), section 3.3 and Algorithm 2 with mu = 0; Rockafellar (1973) for the inequality form.
Departs: slacks are eliminated ([y + rho g]_+ in place of y + rho (g + s)); multipliers are clipped at their bound
    instead of reset to zero; g comes from many rows now and then instead of a batch every step, and from the true
    metric instead of the surrogate (as in Cotter et al. 2019) unless `dual_values` says otherwise; a share of each
    bound is kept as margin; f and g share one primal batch where the paper draws xi and zeta apart; eta and rho are
    scaled by a bound on the constraints' slopes; long gradients are clipped; steps decay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fairbound.base.checks import check_choice, limit, nonnegative, positive, share
from fairbound.methods.method import Method, State, no_multipliers
from fairbound.methods.primal import OptimizerFactory, check_optimizer, clipped, decayed, make_optimizer, move
from fairbound.problems.problem import Draws, Problem


@dataclass(frozen=True, kw_only=True)
class ALMState(State):
    """x: (..., n) iterate, moved in place; multipliers, w: y and weights (..., m); a constraint whose groups the rows
    of a dual update lack keeps both. optimizer: what moves x, None for plain steps."""

    w: Tensor
    optimizer: torch.optim.Optimizer | None


@dataclass(frozen=True, kw_only=True)
class ALM(Method[ALMState]):
    """For bounds on many rows or large models: descends on random batches, with a multiplier of every broken bound.

    Take it where the rows or the model are too large for `full_batch_alm`; `auto` takes it for networks and modules.
    Formulas and source: help(fairbound.methods.alm).

    step_size: > 0, tau; at step k it is step_size / (1 + k / decay_steps)^decay.
    dual_step_size: > 0, eta, for each rise of the multipliers; times the same decay, and times `Problem.dual_scale`.
    penalty: >= 0, rho, the weight of the violation itself; times `Problem.dual_scale`.
    dual_every: primal steps between two rises of the multipliers.
    dual_rows: rows on which g is measured for a rise; 0 for all, None for eight batches and at most 1,024.
    dual_values: "true" raises multipliers by the stated metric, "surrogate" by what training differentiates.
    multiplier_bound: > 0, may be infinite; multipliers and weights stay in [0, multiplier_bound].
    margin: share of each stated bound to stay below it by, in [0, 1), so that iterates settle inside and not around it.
    clip: > 0, may be infinite; a longer primal gradient is shortened to it. It bounds the damage of an overshoot.
    weight_decay: w >= 0; w x is added to the primal gradient.
    optimizer: what moves x, as in SGD.
    decay: >= 0, the power by which steps fade; 0 for constant steps.
    decay_steps: > 0, after how many steps they begin to.

    `Problem.dual_scale` is 1 for rates by a sigmoid, and 1/4 for the logistic loss, which is four times as steep.
    """

    step_size: float = 0.1
    dual_step_size: float = 1.0
    penalty: float = 1.0
    dual_every: int = 20
    dual_rows: int | None = None
    dual_values: Literal["true", "surrogate"] = "true"
    multiplier_bound: float = 100.0
    margin: float = 0.05
    clip: float = 10.0
    weight_decay: float = 0.0
    optimizer: str | OptimizerFactory = "sgd"
    decay: float = 0.5
    decay_steps: float = 1000.0

    name: ClassVar[str] = "alm"
    partial: ClassVar[bool] = True
    margin_is_share: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive(self, "step_size", "dual_step_size", "dual_every", "decay_steps")
        limit(self, "multiplier_bound", "clip")
        nonnegative(self, "penalty", "dual_rows", "decay", "weight_decay")
        check_optimizer(self.optimizer)
        share(self, "margin")
        check_choice("dual_values", self.dual_values, ("true", "surrogate"))

    def init(self, problem: Problem, x: Tensor, draws: Draws) -> ALMState:
        """At x (..., n), which is moved in place, with y = w = 0."""
        zero = no_multipliers(problem, x)
        optimizer = make_optimizer(self.optimizer, x, self.step_size)
        return ALMState(x=x, k=0, multipliers=zero, w=zero.clone(), optimizer=optimizer)

    def step(self, state: ALMState, problem: Problem, draws: Draws) -> ALMState:
        """A dual update where it is due, then a primal step on one batch."""
        slower = decayed(state.k, self.decay_steps, self.decay)
        if state.k % self.dual_every == 0 and problem.m:
            state = self.dual_update(state, problem, draws, slower)
        batch = draws("primal", state.k)
        _, gradient = problem.gradient(state.x, batch, (1.0, state.w if problem.m else None))
        if self.weight_decay:
            gradient = gradient.add(state.x, alpha=self.weight_decay)
        move(state.x, clipped(gradient, self.clip), state.optimizer, self.step_size, slower)
        state.x.copy_(problem.domain.project(state.x))
        return state.next()

    def dual_update(self, state: ALMState, problem: Problem, draws: Draws, slower: float) -> ALMState:
        """y and w (..., m) from fresh rows; slower: the factor by which the dual step has decayed."""
        size = min(8 * draws.batch_size, 1024) if self.dual_rows is None else self.dual_rows
        rows = draws("dual", state.k // self.dual_every, size=size, sampling=None if size else "full")
        measured = problem.values(state.x, rows, true=self.dual_values == "true")
        scale, before = measured.of(problem.dual_scale), measured.of(state.multipliers)
        inner = measured.g + self.margin * measured.of(problem.bounds)
        y = (before + (self.dual_step_size * slower) * scale * inner).clamp_(0, self.multiplier_bound)
        w = (y + self.penalty * scale * inner).clamp_(0, self.multiplier_bound)
        if measured.seen is not None:
            y, w = torch.where(measured.seen, y, before), torch.where(measured.seen, w, measured.of(state.w))
        return replace(state, multipliers=measured.put(state.multipliers, y), w=measured.put(state.w, w))
