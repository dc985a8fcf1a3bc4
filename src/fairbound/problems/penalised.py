"""Wrappers that add a term to the objective, and to the constraints where asked: a penalty,
or the squared distance to a point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from fairbound.base.errors import OptionError
from fairbound.problems.problem import Evaluation, Problem, Ranges, Weights
from fairbound.problems.wrappers import Wrapper


class Penalty(Protocol):
    """A function of x that is added to the objective."""

    def value(self, x: Tensor, batch: Any) -> Tensor:
        """(...,) the penalty at x (..., n) on the batch."""
        ...

    def gradient(self, x: Tensor, batch: Any) -> tuple[Tensor, Tensor]:
        """(...,) the penalty, and (..., n) its gradient."""
        ...


class Penalised(Wrapper):
    """A problem with a penalty added: f + strength * penalty, and in each g_i on_constraints * penalty.

    penalty: see `Penalty`.
    strength, on_constraints: >= 0, numbers.
    convex, unbiased: of the sum, which are the inner problem's and the penalty's together; False unless stated.
    """

    def __init__(
        self,
        inner: Problem,
        penalty: Penalty,
        strength: float = 1.0,
        *,
        on_constraints: float = 0.0,
        convex: bool = False,
        unbiased: bool = False,
    ):
        super().__init__(inner)
        for name, value in (("strength", strength), ("on_constraints", on_constraints)):
            if not value >= 0:
                raise OptionError(f"{name} must not be negative, got {value!r}.")
        self.penalty, self.strength, self.on_constraints = penalty, strength, on_constraints
        self.convex, self.unbiased = inner.convex and convex, inner.unbiased and unbiased
        self.plus = self.minus = None

    def values(self, x: Tensor, batch: Any, true: bool = False) -> Evaluation:
        return self._added(self.inner.values(x, batch, true), self.penalty.value(x, batch))

    def gradient(
        self, x: Tensor, batch: Any, weights: Weights | Callable[[Evaluation], Weights]
    ) -> tuple[Evaluation | None, Tensor]:
        if not callable(weights):
            evaluation, gradient = self.inner.gradient(x, batch, weights)
            factor = self._factor(weights)
            if isinstance(factor, float) and factor == 0.0:
                return evaluation, gradient
            return evaluation, gradient + factor * self.penalty.gradient(x, batch)[1]
        value, slope = self.penalty.gradient(x, batch)
        added: Evaluation | None = None
        chosen: Weights = (0.0, None)

        def seen(e: Evaluation) -> Weights:
            nonlocal added, chosen
            added = self._added(e, value)
            chosen = weights(added)
            return chosen

        gradient = self.inner.gradient(x, batch, seen)[1]
        return added, gradient + self._factor(chosen) * slope

    def jvp(self, x: Tensor, batch: Any, dx: Tensor) -> Tensor:
        along = self.inner.jvp(x, batch, dx).clone()
        added = (self.penalty.gradient(x, batch)[1] * dx).sum(-1, keepdim=True)
        along[..., :1] += self.strength * added
        if self.on_constraints:
            along[..., 1 : 1 + self._stated] += self.on_constraints * added
        return along

    def jacobian(self, x: Tensor, batch: Any, which: Sequence[int] | None = None) -> tuple[Evaluation, Tensor]:
        evaluation, jacobian = self.inner.jacobian(x, batch, which)
        value, slope = self.penalty.gradient(x, batch)
        jacobian = jacobian.clone()
        for place, i in enumerate(range(1 + self.m) if which is None else which):
            factor = self.strength if i == 0 else self.on_constraints * (i <= self._stated)
            if factor:
                jacobian[..., place, :] += factor * slope
        return self._added(evaluation, value), jacobian

    def ranges(self, x: Tensor | None = None) -> Ranges | None:
        """None: what the penalty adds is not known row by row."""
        return None

    def around(self, inner: Problem) -> Problem:
        made = super().around(inner)
        if made is not self:
            made.__dict__ |= {name: self.__dict__[name] for name in ("convex", "unbiased", "plus", "minus")}
        return made

    def _factor(self, weights: Weights) -> float | Tensor:
        """The weight of the penalty's gradient in the gradient of w0 f + w . g."""
        w0, w = weights
        factor = w0 * self.strength
        if w is None or not self.on_constraints:
            return factor
        return factor + self.on_constraints * w[..., : self._stated].sum(-1, keepdim=True)

    @property
    def _stated(self) -> int:
        """How many entries of g, from the first on, are constraints; inner maximisations multiply the others."""
        return self.m - self.lifted

    def _added(self, e: Evaluation, value: Tensor) -> Evaluation:
        g = e.g
        if self.on_constraints:
            added = (self.on_constraints * value.unsqueeze(-1)).expand(*g.shape[:-1], self._stated)
            g = g + torch.cat([added, g.new_zeros(*g.shape[:-1], self.lifted)], dim=-1)
            g = g if e.seen is None else g * e.seen
        return e._replace(f=e.f + self.strength * value, g=g)


class Distance:
    """|x - centre|^2 / 2. centre: (n,), or (R, n) for a stack with a centre each. A shorter centre than x
    measures the first entries of x alone."""

    def __init__(self, centre: Tensor):
        self.centre = centre

    def value(self, x: Tensor, batch: Any) -> Tensor:
        """(...,) half the squared distance."""
        return self._away(x).square().sum(-1) / 2

    def gradient(self, x: Tensor, batch: Any) -> tuple[Tensor, Tensor]:
        """(...,) half the squared distance, and (..., n) x - centre, 0 where there is none."""
        away, slope = self._away(x), torch.zeros_like(x)
        slope[..., : away.shape[-1]] = away
        return away.square().sum(-1) / 2, slope

    def _away(self, x: Tensor) -> Tensor:
        return x[..., : self.centre.shape[-1]] - self.centre


class Proximal(Penalised):
    """A problem with a pull to a centre, f + rho/2 |x - centre|^2 in place of f, as proximal-point methods solve it.

    centre: (n,) or (R, n).
    rho: > 0.
    on_constraints: whether g_i + rho/2 |x - centre|^2 <= 0 are the constraints, as where these are weakly convex.

    Convexity and unbiased batches are the inner problem's.
    """

    def __init__(self, inner: Problem, centre: Tensor, rho: float, *, on_constraints: bool = False):
        if not rho > 0:
            raise OptionError(f"rho must be positive, got {rho!r}.")
        more = rho if on_constraints else 0.0
        super().__init__(inner, Distance(centre), rho, on_constraints=more, convex=True, unbiased=True)

    def of_run(self, r: int) -> Problem:
        """Around the inner problem of run r, with the centre of that run."""
        centre, inner = self.penalty.centre, self.inner.of_run(r)  # type: ignore[attr-defined]
        if centre.dim() == 1:
            return self.around(inner)
        return Proximal(inner, centre[r], self.strength, on_constraints=self.on_constraints > 0)
