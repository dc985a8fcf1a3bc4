"""Inexact proximal point: a sequence of strongly convex problems around moving centres, each left to another method.

    centre c_0 = x_0;   c_{s+1} ~ argmin_X f(x) + rho/2 |x - c_s|^2   subject to   g_i(x) + rho/2 |x - c_s|^2 <= 0

by `inner_steps` steps of the inner method from c_s. Where f and g_i are rho'-weakly convex with rho' < rho (a loss of
linear scores is convex, a difference of means of sigmoids weakly so), every such problem is strongly convex.

IPP-SSG ("proximal_point:ssg") has the switching subgradient method inside, IPP-ConEx ("proximal_point:conex")
constraint extrapolation, both with the step sizes and the weighted means of strongly convex problems. IQRC
("proximal_point:iqrc") has the stochastic feasible level-set method, for networks under `PairSaddleProblem` too, with
the rho of its source.

Source: Ma, Lin, Yang (2020) and Yao, Lin, Yang (2023), Algorithm 3 (IQRC); Boob, Deng, Lan (2022), section 3
(IPP-ConEx); Huang and Lin (2023), appendix (IPP-SSG, after Ma, Lin, Yang 2020).
Departs: every centre gets equally many steps. Multipliers of the inner method go on from a centre to the next, where
    the sources begin at zero (those of SFLS are members of its dual set and begin at its centre). What is returned on
    the way is the inner method's point, not the centre before it, nor one drawn at random. The proximal term enters an
    inner step by its slope.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from torch import Tensor

from fairbound.base.checks import positive
from fairbound.methods.conex import ConEx
from fairbound.methods.method import Method, State, check_inner
from fairbound.methods.sfls import SFLS
from fairbound.methods.switching_subgradient import SwitchingSubgradient
from fairbound.problems.penalised import Proximal
from fairbound.problems.problem import Draws, Problem


@dataclass(frozen=True, kw_only=True)
class ProximalPointState(State):
    """inner: the state of the method held, whose x is this x. centre: (..., n) c_s.
    centres: how many there have been."""

    inner: State
    centre: Tensor
    centres: int

    @property
    def point(self) -> Tensor:
        """(..., n) the inner method's."""
        return self.inner.point


@dataclass(frozen=True, kw_only=True)
class ProximalPoint(Method[ProximalPointState]):
    """For mildly non-convex problems: makes them strongly convex around a centre, and leaves each to another method.

    Take it to use a method for convex problems on others; the presets are IPP-SSG, IPP-ConEx and IQRC of the
    literature.
    Formulas and source: help(fairbound.methods.proximal_point).

    inner: a method, in `algorithm` also its name or a table {name = ..., options}; ConEx by default.
    rho: > 0, the strength of the proximal terms; to exceed the weak convexity of f and g.
    inner_steps: steps for each centre.
    on_constraints: whether the constraints have the proximal term too.
    """

    inner: Any = field(default_factory=lambda: ConEx(modulus=0.1, output="average"))
    rho: float = 0.1
    inner_steps: int = 50
    on_constraints: bool = True

    name: ClassVar[str] = "proximal_point"
    presets: ClassVar[dict[str, dict]] = {
        "conex": {},
        "ssg": {
            "inner": SwitchingSubgradient(
                rule="strongly-convex", modulus=0.1, objective_step=0.1, constraint_step=0.1, tolerance=0.0
            )
        },
        "iqrc": {
            "inner": SFLS(restart="last", scaling="dual", step_size=0.3, theta=1.01, margin="none", min_steps=60),
            "rho": 1e-5,
            "inner_steps": 500,
        },
    }

    def __post_init__(self) -> None:
        positive(self, "rho", "inner_steps")
        check_inner(self)

    @property
    def takes_inner_maxima(self) -> bool:  # type: ignore[override]
        """Whether the inner method takes problems with inner maximisations."""
        return getattr(self.inner, "takes_inner_maxima", False)

    @property
    def needs(self) -> frozenset[str]:  # type: ignore[override]
        """What the inner method needs; the proximal terms see to convexity."""
        return self.inner.needs - {"convex"}

    def init(self, problem: Problem, x: Tensor, draws: Draws) -> ProximalPointState:
        """At the first centre x (..., n)."""
        centre = x.clone()
        inner = self.inner.init(self._around(problem, centre), x, draws)
        return ProximalPointState(x=x, k=0, multipliers=inner.multipliers, inner=inner, centre=centre, centres=1)

    def step(self, state: ProximalPointState, problem: Problem, draws: Draws) -> ProximalPointState:
        """A step of the inner method, from a new centre where it is due."""
        held, centre, centres = state.inner, state.centre, state.centres
        if state.k == centres * self.inner_steps:
            centre, centres = held.point.clone(), centres + 1
            state.x.copy_(centre)
            begun = self.inner.init(self._around(problem, centre), state.x, draws)
            held = replace(begun, multipliers=held.multipliers)
        batches = draws.since(state.k - held.k)
        held = self.inner.step(held, self._around(problem, centre), batches)
        return state.next(multipliers=held.multipliers, inner=held, centre=centre, centres=centres)

    def _around(self, problem: Problem, centre: Tensor) -> Proximal:
        return Proximal(problem, centre, self.rho, on_constraints=self.on_constraints)
