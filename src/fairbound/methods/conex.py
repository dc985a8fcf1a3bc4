"""ConEx: constraint extrapolation, a primal-dual method whose multipliers step along linearised, extrapolated
constraints.

With l_t = g(x_{t-1}) + g'(x_{t-1}) (x_t - x_{t-1}), the constraints at x_t as seen from the point before, step t is

    s       = (1 + theta_t) l_t - theta_t l_{t-1}
    y_{t+1} = [y_t + s / tau_t]_+
    x_{t+1} = argmin_X <grad f(x_t) + sum_i y_{t+1,i} grad g_i(x_t), x> + eta_t/2 |x - x_t|^2

The output is the mean of x_1, x_2, ..., weighted gamma_t. Where f is strongly convex with modulus a,

    eta_t = 1 / step_size + a t / 2,   1 / tau_t = dual_step (t + 1),   theta_t = (t + t0 + 1) / (t + t0 + 2) = gamma_{t-1} / gamma_t

with t0 = 2 / (a step_size) - 1, so that eta_t = a (t + t0 + 1) / 2; with modulus 0 all are constant,
theta_t = gamma_t = 1.

Source: Boob, Deng, Lan (2022), Stochastic first-order methods for convex and nonconvex functional constrained
    optimization, Algorithm 1, and the step sizes of its theorem for strongly convex problems: t0 = 4 (L_0 + B
    L_g) / a + 2 there, theta_t, eta_t and gamma_t as above, 1 / tau_t = a (t + 1) / (32 M^2). These agree with a
    published implementation of IPP-ConEx by others; the text of the theorem itself was not at hand.
Departs: f and g are the smooth parts alone (nothing is kept exact in the proximal step); the step sizes are stated by
    their first values, in place of the Lipschitz constants; y has an upper bound, since its steps grow with t where no
    point is feasible; one batch serves gradient, values and linearisation of a step, where the source draws two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from fairbound.base.checks import check_choice, limit, nonnegative, positive
from fairbound.methods.method import Method, State, no_multipliers
from fairbound.problems.problem import Draws, Evaluation, Problem, Weights


@dataclass(frozen=True, kw_only=True)
class ConExState(State):
    """x: (..., n) x_t; multipliers: y_t (..., m). linear, before: (..., m) l_t and l_{t-1}. mean: (..., n) the output
    so far, x itself where the last iterate is asked for."""

    linear: Tensor
    before: Tensor
    mean: Tensor

    @property
    def point(self) -> Tensor:
        """(..., n) the output."""
        return self.mean


@dataclass(frozen=True, kw_only=True)
class ConEx(Method[ConExState]):
    """For smooth bounds on random batches: descends with a multiplier of every bound that looks one step ahead.

    Take it as the inner method of `proximal_point`, as its source does, or by itself where the loss is strongly convex.
    Formulas and source: help(fairbound.methods.conex).

    step_size: > 0, 1 / eta_0; theory has at most half of one over the smoothness of f + y . g.
    modulus: >= 0, a, of strong convexity; 0 keeps all steps constant.
    dual_step: > 0, 1 / tau_0; theory has a / (32 M^2) for constraints of slope M.
    multiplier_bound: > 0, may be infinite; y stays in [0, multiplier_bound].
    output: what is returned, the latest iterate ("last") or the mean of all of them ("average").
    """

    step_size: float = 0.1
    modulus: float = 0.0
    dual_step: float = 0.1
    multiplier_bound: float = 100.0
    output: Literal["last", "average"] = "last"

    name: ClassVar[str] = "conex"
    presets: ClassVar[dict[str, dict]] = {"strongly-convex": {"modulus": 0.1, "output": "average"}}

    def __post_init__(self) -> None:
        positive(self, "step_size", "dual_step")
        limit(self, "multiplier_bound")
        nonnegative(self, "modulus")
        check_choice("output", self.output, ("last", "average"))

    def weight(self, t: int) -> float:
        """gamma_t."""
        if self.modulus == 0:
            return 1.0
        return t + 2 / (self.modulus * self.step_size) + 1

    def init(self, problem: Problem, x: Tensor, draws: Draws) -> ConExState:
        """At x_0 = x_{-1} (..., n), with y_0 = 0; the first step measures l_0 = g(x_0)."""
        zero = no_multipliers(problem, x)
        mean = x.clone() if self.output == "average" else x
        return ConExState(x=x, k=0, multipliers=zero, linear=zero.clone(), before=zero.clone(), mean=mean)

    def step(self, state: ConExState, problem: Problem, draws: Draws) -> ConExState:
        """Step t, on one batch."""
        t, x, y = state.k, state.x, state.multipliers
        batch = draws("xi", t)
        theta = self.weight(t - 1) / self.weight(t)
        rise = self.dual_step * (t + 1 if self.modulus else 1)
        here = y

        def weights(e: Evaluation) -> Weights:
            nonlocal y, here
            linear, before = (e.g, e.g) if t == 0 else (state.linear, state.before)
            y = (y + rise * ((1 + theta) * linear - theta * before)).clamp(0, self.multiplier_bound)
            here = e.g
            return 1.0, y

        _, slope = problem.gradient(x, batch, weights)
        moved = problem.domain.project(x - slope / (1 / self.step_size + self.modulus * t / 2))
        linear = here + problem.jvp(x, batch, moved - x)[..., 1:] if problem.m else here
        before = here if t == 0 else state.linear
        x.copy_(moved)
        mean = x
        if self.output == "average":
            total = (t + 1) * (self.weight(0) + self.weight(t)) / 2
            mean = state.mean + self.weight(t) / total * (x - state.mean)
        return state.next(multipliers=y, linear=linear, before=before, mean=mean)
