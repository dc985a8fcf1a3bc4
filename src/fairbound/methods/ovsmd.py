"""Stochastic mirror descent with online validation: the oracle of the stochastic feasible level-set method.

    H(r) = min_{x in X} max_{y in Y} phi(x, y),    phi(x, y) = y_0 (f(x) - r) + sum_i y_i g_i(x),    Y the simplex

    z_0 = (x_0, y_0) = argmin omega_z,    omega_z = omega_x / (2 D_x^2) + omega_y / (2 D_y^2)
    for t = 0, 1, ...:
        one batch:  G_x = y_0 grad f + sum_i y_i grad g_i,   G_y = (f - r, g_1, ..., g_m)
        averages with weights gamma_t = c / sqrt(t + 1) of x_t, of G_y, and of the affine piece Phi + <G_x, x - x_t>
        x_{t+1} = prox_x(2 D_x^2 gamma_t G_x),   y_{t+1} = prox_y(-2 D_y^2 gamma_t G_y)

phi is linear in y, so Phi(x_t, y_t) + <G_y, y - y_t> = <G_y, y>: the online upper bound (12) is the support of Y at the
averaged G_y, its largest entry for the simplex. The online lower bound (13) is the minimum over X of the averaged
affine piece.

Confidence. With Student margins that hold for all entries of the averaged G_y at once, the support at the exact
averages is at most the largest within the margins, which Y knows (`DualSet.highest`).

A dual set may charge its members a cost d: then H(r) = min max phi - d, and d stands in the mirror step in y, in the
support and in the affine pieces (Yao, Lin, Yang (2023), Algorithm 2).

Source: Lin, Nadarajah, Soheili, Yang (2020), Algorithms 2 and 3, equations (9), (10), (12), (13), Proposition 1,
Theorem 2.
Departs: Y is `problem.dual_set`, the simplex unless the problem has another. (13) has G_x, where the paper prints G_y.
    A constraint whose groups a batch lacks enters no average of G_y and moves its own dual variable by its average so
    far; in G_x and in the piece of (13) it counts as 0, so that (13) is to be read only where every batch saw every
    constraint. The output is the mean of x_t with the weights gamma_t, which the bounds (12) and (13) hold for; line 8
    of Yao, Lin and Yang's Algorithm 2 returns their plain mean, while their (26) has the weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch
from scipy.special import stdtrit
from torch import Tensor

from fairbound.base.checks import check_kinds, nonnegative, positive
from fairbound.base.errors import OptionError
from fairbound.problems.domain import Domain
from fairbound.problems.dual_sets import DualSet
from fairbound.problems.problem import Evaluation, Problem, Weights, check_finite


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of the oracle, under way. Entry 0 of an (m + 1) belongs to the objective.

    x: (..., n) x_t; y: (..., m + 1) y_t; t: (...,) int64 iterations of this call.
    average: (..., n) of x; weight: (...,) sum of gamma. mean, spread, weights, squares: (..., m + 1) average of G_y,
    weighted sum of its squared deviations, and the sums of gamma and of gamma^2, over the iterations that saw the
    constraint.
    offset: (...,), slope: (..., n) the averaged affine piece offset + <slope, x>.
    """

    x: Tensor
    y: Tensor
    t: Tensor
    average: Tensor
    weight: Tensor
    mean: Tensor
    spread: Tensor
    weights: Tensor
    squares: Tensor
    offset: Tensor
    slope: Tensor


D = TypeVar("D")


def fresh(problem: Problem, x: Tensor, constraints_only: Tensor | None = None) -> Call:
    """A call that has not begun, at x (..., n), with y at the centre of the problem's dual set.

    constraints_only: (...,) bool, the runs whose y_0 stays 0; None for none.
    """
    lead = x.shape[:-1]
    zeros, zero = x.new_zeros(*lead, problem.m + 1), x.new_zeros(lead)
    shut = None if constraints_only is None else _shut(constraints_only, zeros)
    return Call(
        x=x,
        y=problem.dual_set.centre(zeros, shut),
        t=torch.zeros(lead, dtype=torch.int64, device=x.device),
        average=x.clone(),
        weight=zero,
        mean=zeros,
        spread=zeros.clone(),
        weights=zeros.clone(),
        squares=zeros.clone(),
        offset=zero.clone(),
        slope=torch.zeros_like(x),
    )


SCALINGS = ("diameters", "dual", "none")


def check_scaling(scaling: str) -> None:
    """Raises: OptionError where there is no scaling of steps with this name."""
    if scaling not in SCALINGS:
        raise OptionError(f"scaling must be one of {', '.join(SCALINGS)}, got {scaling!r}.")


def rates(problem: Problem, scaling: str, diameter: float | None = None) -> tuple[float, float]:
    """(2 D_x^2, 2 D_y^2), by which gamma is multiplied in x and in y, with scaling "diameters"; (1, 2 D_y^2) with
    "dual", (1, 1) with "none".

    diameter: D_x to use instead of the domain's. An unbounded domain without one has the rate 1 in x.
    """
    if scaling == "none":
        return 1.0, 1.0
    square = problem.domain.squared_diameter(problem.n) if diameter is None else diameter**2
    of_x = 2 * square if scaling == "diameters" and math.isfinite(square) else 1.0
    return of_x, 2 * problem.dual_set.squared_diameter(problem.m + 1)


def iterate(
    call: Call, problem: Problem, batch: Any, level: Tensor, step_size: float, rate: tuple[float, float]
) -> Call:
    """Lines 4 and 5 of Algorithms 2 and 3. A new call; x is not moved in place.

    level: (...,) r; where it is +inf the constraints alone count, y_0 stays 0, and entry 0 of `mean` averages f itself.
    step_size: c in gamma_t = c / sqrt(t + 1). Raises: NonFiniteError at a NaN or an infinity in f, g or the gradient.
    """
    y, only = call.y, torch.isinf(level)
    w0 = y[0] if y.dim() == 1 else y[..., :1]
    weights: Weights = (w0, y[..., 1:] if problem.m else None)
    e, gradient = problem.gradient(call.x, batch, lambda _: weights)
    assert e is not None
    F = torch.cat([(e.f - level.masked_fill(only, 0.0)).unsqueeze(-1), e.g], dim=-1)

    def where(what: str) -> str:
        return f"{what} NaN or infinite in iteration {int(call.t.max())} of a call; lower step_size."

    check_finite(F, lambda: where("the objective or a constraint is"))
    check_finite(gradient, lambda: where("the gradient is"))
    gamma = step_size / (call.t + 1).to(F.dtype).sqrt()
    call = _averaged(call, F, e, gradient, gamma, problem.dual_set.cost(y))
    G_y = F if e.seen is None else torch.where(_seen(e, F), F, call.mean)
    zeta = (-rate[1] * gamma.unsqueeze(-1)) * G_y
    return replace(
        call,
        x=problem.domain.prox(call.x, (rate[0] * gamma.unsqueeze(-1)) * gradient),
        y=problem.dual_set.prox(y, zeta.masked_fill(_shut(only, zeta), torch.inf), rate[1] * gamma),
        t=call.t + 1,
    )


def _averaged(call: Call, F: Tensor, e: Evaluation, gradient: Tensor, gamma: Tensor, cost: Tensor) -> Call:
    """Running means with weights gamma; spread by West's update, which does not cancel. cost: (...,) d(y)."""
    weight = call.weight + gamma
    share = gamma / weight
    piece = (call.y * F).sum(-1) - cost - (gradient * call.x).sum(-1)
    each = gamma.unsqueeze(-1).expand_as(F)
    if e.seen is not None:
        each = each * _seen(e, F)
    weights = call.weights + each
    away = F - call.mean
    mean = call.mean + away * (each / weights.clamp_min(torch.finfo(F.dtype).tiny))
    return replace(
        call,
        average=call.average + share.unsqueeze(-1) * (call.x - call.average),
        weight=weight,
        mean=mean,
        spread=call.spread + each * away * (F - mean),
        weights=weights,
        squares=call.squares + each.square(),
        offset=call.offset + share * (piece - call.offset),
        slope=call.slope + share.unsqueeze(-1) * (gradient - call.slope),
    )


def upper_bound(mean: Tensor, level: Tensor, dual_set: DualSet) -> Tensor:
    """(...,) the support of the dual set at `mean` (..., m + 1), of a call the online upper bound (12).

    level: (...,); where it is +inf the constraints alone count, and without any there is nothing to bound: -inf.
    """
    return dual_set.support(mean.masked_fill(_entry0(torch.isinf(level), mean), -torch.inf)).value


def objective_alone(G: Tensor, problem: Problem) -> Tensor:
    """(...,) the objective's own value in G (..., m + 1), in which it is f - r: the support with y_0 = 1."""
    others = torch.zeros_like(G, dtype=torch.bool)
    others[..., 1 : G.shape[-1] - problem.lifted] = True
    return problem.dual_set.support(G.masked_fill(others, -torch.inf)).value


def lower_bound(call: Call, domain: Domain) -> Tensor:
    """(...,) the online lower bound (13)."""
    return call.offset + domain.minimise_linear(call.slope)


def margin(call: Call, delta: Tensor) -> Tensor:
    """(..., m + 1) what to add to `mean` so that it exceeds the average of the exact values at x_0, ..., x_t.

    One-sided Student bounds that hold for all m + 1 entries and all iterations of the call together with probability
    1 - delta (...,) as far as averages are normal: entry and look t share delta / ((m + 1) t (t + 1)). The degrees of
    freedom are (sum gamma)^2 / sum gamma^2 - 1; spread also holds the drift of the values along the call, which widens
    the bound. +inf below two effective iterations, as for a constraint not seen.
    """
    looks = (call.t * (call.t + 1)).clamp_min(1) * call.mean.shape[-1]
    level = (delta.double() / looks).clamp(1e-300, 0.5).unsqueeze(-1)
    weights, squares = call.weights.double(), call.squares.double()
    freedom = weights.square() / squares.clamp_min(1e-300) - 1
    known = freedom >= 1
    freedom = torch.where(known, freedom, 1.0)
    error = (call.spread.double().clamp_min(0) / weights.clamp_min(1e-300) / freedom).sqrt()
    alike = bool((freedom == freedom[..., :1]).all())  # as where every batch saw every constraint
    quantile = student_quantile(level, freedom[..., :1] if alike else freedom)
    return torch.where(known, quantile * error, torch.inf).to(call.mean.dtype)


def student_quantile(level: Tensor, freedom: Tensor) -> Tensor:
    """What Student's variable with `freedom` degrees exceeds with probability `level` in (0, 1/2];
    both float64, broadcast."""
    quantile = stdtrit(freedom.cpu().numpy(), level.cpu().numpy())
    return -torch.as_tensor(quantile, dtype=torch.float64, device=freedom.device)


def multipliers(call: Call) -> Tensor:
    """(..., m) y_i / y_0, by which y_0 (f - r) + sum y_i g_i is a Lagrangian; 0 where y_0 is."""
    first = call.y[..., :1]
    return torch.where(first > 0, call.y[..., 1:] / first.clamp_min(torch.finfo(first.dtype).tiny), 0.0)


def choose(mask: Tensor, first: D, second: D) -> D:
    """`first` where mask (...,), else `second`: two equal dataclasses of tensors; what is no tensor is the second's."""
    chosen: dict[str, Any] = {}
    for f in fields(second):  # type: ignore[arg-type]
        a, b = getattr(first, f.name), getattr(second, f.name)
        if isinstance(b, Tensor):
            chosen[f.name] = torch.where(mask.view(mask.shape + (1,) * (b.dim() - mask.dim())), a, b)
        elif isinstance(b, Call):
            chosen[f.name] = choose(mask, a, b)
    return replace(second, **chosen)  # type: ignore[type-var]


def _entry0(mask: Tensor, like: Tensor) -> Tensor:
    """(..., m + 1) mask at the objective's entry, False elsewhere."""
    out = torch.zeros_like(like, dtype=torch.bool)
    out[..., 0] = mask
    return out


def _shut(constraints_only: Tensor, like: Tensor) -> Tensor:
    """(..., m + 1) the entries of y that stay 0; none where there is no constraint."""
    return _entry0(constraints_only & (like.shape[-1] > 1), like)


def _seen(e: Evaluation, F: Tensor) -> Tensor:
    assert e.seen is not None
    return torch.cat([torch.ones_like(F[..., :1], dtype=torch.bool), e.seen.expand_as(e.g)], dim=-1)


@dataclass(frozen=True, kw_only=True)
class LightTails:
    """Light-tail constants of Assumption 2, (6) to (8): M_x of |G_x|_*, M_y of |G_y|_inf, Q of |Phi - phi|;
    M_x, M_y > 0."""

    M_x: float
    M_y: float
    Q: float

    def __post_init__(self) -> None:
        check_kinds(self)
        positive(self, "M_x", "M_y")
        nonnegative(self, "Q")

    def M(self, problem: Problem, diameter: float | None = None) -> float:
        """(9), with `diameter` for D_x where given. Raises: OptionError for an unbounded domain without one."""
        square = problem.domain.squared_diameter(problem.n) if diameter is None else diameter**2
        if not math.isfinite(square):
            raise OptionError(
                "the theoretical constants need a bounded domain (Box, Ball, Simplex or a Product of them); "
                "bound the parameters, give a diameter, or use stopping='practical' with a step_size."
            )
        dual = problem.dual_set.squared_diameter(problem.m + 1)
        return math.sqrt(2 * square / problem.domain.modulus() * self.M_x**2 + 2 * dual * self.M_y**2)


def omega(delta: Tensor | float) -> Tensor:
    """Omega(delta) of (10), in float64."""
    log = torch.log(24 / torch.as_tensor(delta, dtype=torch.float64))
    return torch.maximum((12 * log).sqrt(), 4 / 3 * log)


def smd_limit(delta: Tensor | float, error: float, M: float) -> Tensor:
    """W(delta, eps) of Proposition 1."""
    constant = 10 * M * omega(delta) + 4.5 * M
    return _limit(8 * constant / error, 4 * constant / error)


def ovsmd_limit(delta: Tensor | float, error: float, M: float, Q: float) -> Tensor:
    """T(delta, eps) of Theorem 2."""
    constant = Q * omega(delta) + 10 * M * omega(delta) + 4.5 * M
    return _limit(16 * constant / error, 8 * constant / error)


def _limit(outer: Tensor, inner: Tensor) -> Tensor:
    return ((outer * inner.log()).square() - 2).clamp_min(6).ceil()
