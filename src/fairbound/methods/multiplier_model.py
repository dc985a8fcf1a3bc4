"""Multiplier model: a network maps the description of each constraint to its multiplier, so that many share few
parameters.

    lambda_i = softplus(h(d_i; w) + shift)          d_i the description of constraint i, h a small ReLU network
    x <- Proj_X(x - step_size (grad f + sum_i lambda_i grad g_i)),   w <- w + dual_step grad_w sum_i lambda_i(w) g_i / m

Both steps use the same multipliers; the second is Adam's by default.

Source: Narasimhan, Cotter, Zhou, Wang, Guo (2020), Approximate heavily-constrained learning with Lagrange multiplier
models.
Departs: all constraints that a batch speaks of enter a step, where the source samples some, and m is their number then;
    descriptions are those of the problem (`descriptions` of FairProblem and RankingProblem), or given; `shift` makes
    multipliers small at first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fairbound.base.checks import check_choice, limit, nonnegative, number, positive, share
from fairbound.base.errors import OptionError
from fairbound.base.seeds import seed_for
from fairbound.methods.method import Method, State
from fairbound.methods.primal import check_optimizer, clipped, decayed, make_optimizer, move
from fairbound.models.mlp import MLP
from fairbound.problems.problem import Draws, Problem

MOST_NAMED = 1024
"""So many constraints at most are told apart by their number alone, where the problem does not describe them."""


@dataclass(frozen=True, kw_only=True)
class NetworkState:
    """x: (..., p) the network's parameters, moved in place. optimizer: what moves them, None for plain steps."""

    x: Tensor
    optimizer: torch.optim.Optimizer | None


@dataclass(frozen=True, kw_only=True)
class MultiplierModelState(State):
    """x: (..., n); multipliers: (..., m) lambda. optimizer: what moves x, None for plain steps.
    network: the multipliers'."""

    optimizer: torch.optim.Optimizer | None
    network: NetworkState


@dataclass(frozen=True, kw_only=True)
class MultiplierModel(Method[MultiplierModelState]):
    """For very many bounds: a small network learns the multiplier of each bound from a description of it.

    Take it where the bounds are alike, as those of overlapping groups are, so that they can share what is learnt.
    Formulas and source: help(fairbound.methods.multiplier_model).

    hidden: widths of the network's layers.
    shift: added to the network's outputs; the default makes multipliers small at first.
    step_size: > 0, of x, divided by (1 + k / decay_steps)^decay.
    dual_step: > 0, of the network.
    optimizer: what moves x, as in SGD.
    dual_optimizer: what moves the network.
    descriptions: (m, p) a row for each constraint, as nested tuples; None for the problem's own.
    dual_values: "true" raises multipliers by the stated metric, "surrogate" by what training differentiates.
    margin: share of each stated bound to stay below it by, in [0, 1), so that iterates settle inside and not around it.
    clip: > 0, may be infinite; a longer gradient in x is shortened to it.
    decay: >= 0, the power by which steps of x fade; 0 for constant steps.
    decay_steps: > 0, after how many steps they begin to.
    """

    hidden: tuple[int, ...] = (64, 64, 64)
    shift: float = -2.0
    step_size: float = 0.1
    dual_step: float = 0.003
    optimizer: str = "sgd"
    dual_optimizer: str = "adam"
    descriptions: tuple[tuple[float, ...], ...] | None = None
    dual_values: Literal["true", "surrogate"] = "true"
    margin: float = 0.05
    clip: float = 10.0
    decay: float = 0.5
    decay_steps: float = 1000.0

    name: ClassVar[str] = "multiplier_model"
    partial: ClassVar[bool] = True
    margin_is_share: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive(self, "step_size", "dual_step", "decay_steps")
        limit(self, "clip")
        nonnegative(self, "decay")
        share(self, "margin")
        number(self, "shift")
        for name in (self.optimizer, self.dual_optimizer):
            check_optimizer(name)
        if not all(width > 0 for width in self.hidden):
            raise OptionError(f"hidden must be widths of at least 1, got {self.hidden!r}.")
        if self.descriptions and (len({len(row) for row in self.descriptions}) > 1 or not self.descriptions[0]):
            raise OptionError("descriptions must have equally many numbers in every row, and at least one.")
        check_choice("dual_values", self.dual_values, ("true", "surrogate"))

    def init(self, problem: Problem, x: Tensor, draws: Draws) -> MultiplierModelState:
        """At x (..., n), with the network at a start of its own for every seed."""
        described = self.described(problem, x)
        net = self._network(described)
        starts = [
            net.start(torch.Generator().manual_seed(seed_for("multiplier model", root=s)), x.dtype).to(x.device)
            for s in draws.seeds
        ]
        w = (starts[0] if x.dim() == 1 else torch.stack(starts)).clone()
        lam = torch.nn.functional.softplus(net.scores(w, described) + self.shift)
        network = NetworkState(x=w, optimizer=make_optimizer(self.dual_optimizer, w, self.dual_step))
        optimizer = make_optimizer(self.optimizer, x, self.step_size)
        return MultiplierModelState(x=x, k=0, multipliers=lam, optimizer=optimizer, network=network)

    def step(self, state: MultiplierModelState, problem: Problem, draws: Draws) -> MultiplierModelState:
        """x from one batch, then the network from rows of its own (on all rows, from the same)."""
        x, w, full = state.x, state.network.x, draws.sampling == "full"
        batch = draws("primal", state.k)
        described = self.described(problem, x)
        net = self._network(described)
        scores, tape = net.forward(w, described)
        lam = torch.nn.functional.softplus(scores + self.shift)
        if problem.m:
            rows = batch if full else draws("dual", state.k, max(draws.batch_size, min(8 * draws.batch_size, 1024)))
            e = problem.values(x, rows, true=self.dual_values == "true")
            g = e.g + self.margin * e.of(problem.bounds)
            g = g if e.seen is None else g * e.seen
            climb = tape.vjp(e.put(torch.zeros_like(scores), g / g.shape[-1]) * torch.sigmoid(scores + self.shift))
            move(w, -climb, state.network.optimizer, self.dual_step)
        _, slope = problem.gradient(x, batch, (1.0, lam if problem.m else None))
        move(
            x,
            clipped(slope, self.clip),
            state.optimizer,
            self.step_size,
            decayed(state.k, self.decay_steps, self.decay),
        )
        x.copy_(problem.domain.project(x))
        return state.next(multipliers=lam)

    def described(self, problem: Problem, like: Tensor) -> Tensor:
        """(m, p) the descriptions: given, the problem's, or the constraints' numbers as unit vectors.

        Raises: OptionError where there are none and too many constraints, or not m of them.
        """
        if self.descriptions is not None:
            given = torch.tensor(self.descriptions, dtype=like.dtype, device=like.device)
            if given.dim() != 2 or len(given) != problem.m:
                raise OptionError(
                    f"descriptions must be ({problem.m}, p), a row a constraint; got {tuple(given.shape)}."
                )
            return given
        own = getattr(problem, "descriptions", None)
        if own is not None:
            return own.to(like)
        if problem.m > MOST_NAMED:
            raise OptionError(
                f"the problem does not describe its {problem.m:,} constraints, and above {MOST_NAMED:,} they are not told apart by "
                "number alone; give descriptions, a row of numbers for each."
            )
        return torch.eye(max(problem.m, 1), dtype=like.dtype, device=like.device)[: problem.m]

    def _network(self, described: Tensor) -> MLP:
        return MLP(described.shape[-1], self.hidden)
