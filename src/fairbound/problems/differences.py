"""Problems whose functions are differences of convex functions, and their convex upper models.

A problem that offers the split has `plus` and `minus`: two problems with the same n, m, names and batches, every
function of both convex, and F_i = F_i^plus - F_i^minus for f and every g_i (bounds in the plus part). At a point c the
minus part lies above its tangent, so

    F_i(x) <= F_i^plus(x) - F_i^minus(c) - <grad F_i^minus(c), x - c>,   with equality at x = c:

a convex problem whose feasible points are feasible, which methods for differences of convex functions solve again and
again.

Source: Le Thi, Pham Dinh (2018), "DC programming and DCA: thirty years of developments", for the scheme.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from fairbound.base.errors import OptionError
from fairbound.problems.base import DATA, BaseProblem
from fairbound.problems.problem import Evaluation, Measured, Problem, Ranges, Weights
from fairbound.problems.wrappers import Wrapper


def _less(a: Evaluation, f: Tensor, g: Tensor) -> Evaluation:
    seen = a.seen
    return Evaluation(a.f - f, a.g - g if seen is None else (a.g - g) * seen, seen)


class Difference(BaseProblem):
    """The difference of two problems that take the same batches. plus, minus: of equal n and m; what is not a function
    (domain, names, bounds, batches, start) is the plus part's.
    A constraint that either part misses in a batch is not seen."""

    plus: Problem  # type: ignore[assignment]
    minus: Problem  # type: ignore[assignment]

    def __init__(self, plus: Problem, minus: Problem):
        if (plus.n, plus.m) != (minus.n, minus.m):
            raise OptionError(
                f"the parts of a difference have n = {plus.n} and {minus.n}, m = {plus.m} and {minus.m}; both must agree."
            )
        self.plus, self.minus = plus, minus
        self._say_as(plus, DATA)
        self.unbiased = plus.unbiased and minus.unbiased

    def start(self, seeds: Sequence[int]) -> Tensor:
        """x0: (n,) for one seed, (R, n) for several."""
        return self.plus.start(seeds)

    def sample(self, seeds: Sequence[int], name: str, k: int, size: int, kind: str) -> Any:
        """The plus part's batch, which both parts take."""
        return self.plus.sample(seeds, name, k, size, kind)

    def values(self, x: Tensor, batch: Any, true: bool = False) -> Evaluation:
        """f (...,) and g (..., m) on the batch at x (..., n)."""
        other = self.minus.values(x, batch, true)
        return _less(self.plus.values(x, batch, true), other.f, other.g)

    def gradient(
        self, x: Tensor, batch: Any, weights: Weights | Callable[[Evaluation], Weights]
    ) -> tuple[Evaluation | None, Tensor]:
        """The evaluation where `weights` is a function of it (else None), and the gradient (..., n) of w0 f + w . g."""
        evaluation = self.values(x, batch) if callable(weights) else None
        chosen: Weights = weights(evaluation) if callable(weights) else weights  # type: ignore[arg-type]
        plus, minus = (part.gradient(x, batch, chosen)[1] for part in (self.plus, self.minus))
        return evaluation, plus - minus

    def jvp(self, x: Tensor, batch: Any, dx: Tensor) -> Tensor:
        """(..., 1 + m): derivatives of f, g_1, ..., g_m along dx (..., n)."""
        return self.plus.jvp(x, batch, dx) - self.minus.jvp(x, batch, dx)

    def jacobian(self, x: Tensor, batch: Any, which: Sequence[int] | None = None) -> tuple[Evaluation, Tensor]:
        """The evaluation, and the gradients (..., 1 + m, n), or the rows `which` of them."""
        plus, rows = self.plus.jacobian(x, batch, which)
        minus, others = self.minus.jacobian(x, batch, which)
        return _less(plus, minus.f, minus.g), rows - others

    def evaluate(self, x: Tensor) -> Measured:
        """The difference of the parts' true values at x (..., n): f (...,) and g (..., m)."""
        plus, minus = self.plus.evaluate(x), self.minus.evaluate(x)
        return Measured(plus.f - minus.f, plus.g - minus.g, {})


class Linearised(Wrapper):
    """The convex model of a difference of convex functions at a point, for training; `evaluate` is the problem's own.

    centre: (n,), or (R, n) for a stack with a point each. Its f and g equal the problem's at the centre, on every
    batch, and are nowhere smaller. Raises: OptionError where the problem offers no `plus` and `minus`.
    """

    def __init__(self, inner: Problem, centre: Tensor):
        super().__init__(inner)
        if inner.plus is None or inner.minus is None:
            raise OptionError(
                f"{type(inner).__name__} is not known as a difference of convex functions: it has no `plus` and `minus`. Give it "
                "both, or take fairbound.problems.differences.Difference(plus, minus)."
            )
        self.upper, self.lower, self.centre = inner.plus, inner.minus, centre.clone()
        self.convex, self.plus, self.minus = inner.plus.convex, None, None
        self._last: Any = None
        self._tangents: tuple[Any, Evaluation, Tensor] | None = None

    def values(self, x: Tensor, batch: Any, true: bool = False) -> Evaluation:
        """f (...,) and g (..., m) of the model; with `true` the problem's own, whose metric has no model."""
        if true:
            return self.inner.values(x, batch, true)
        return self._over(self.upper.values(x, batch), x, batch, self._kept(batch))

    def gradient(
        self, x: Tensor, batch: Any, weights: Weights | Callable[[Evaluation], Weights]
    ) -> tuple[Evaluation | None, Tensor]:
        """The evaluation where `weights` is a function of it (else None), and the gradient (..., n) of w0 f + w . g."""
        tangents = self._kept(batch)
        evaluation: Evaluation | None = None
        chosen: Any = weights

        def seen(plus: Evaluation) -> Weights:
            nonlocal evaluation, chosen
            evaluation = self._over(plus, x, batch, tangents)
            chosen = weights(evaluation)  # type: ignore[operator]
            return chosen

        slope = self.upper.gradient(x, batch, seen if callable(weights) else weights)[1]
        if tangents is None or x.dim() > 1:
            return evaluation, slope - self.lower.gradient(self._at(x), batch, chosen)[1]
        w0, w = chosen
        return evaluation, slope - w0 * tangents[1][0] - (0.0 if w is None else w @ tangents[1][1:])

    def jvp(self, x: Tensor, batch: Any, dx: Tensor) -> Tensor:
        """(..., 1 + m): derivatives of the model along dx (..., n)."""
        return self.upper.jvp(x, batch, dx) - self.lower.jvp(self._at(x), batch, dx)

    def jacobian(self, x: Tensor, batch: Any, which: Sequence[int] | None = None) -> tuple[Evaluation, Tensor]:
        """The model's evaluation, and its gradients (..., 1 + m, n), or the rows `which` of them."""
        evaluation, rows = self.upper.jacobian(x, batch, which)
        tangents = self._kept(batch)
        if tangents is not None and x.dim() == 1:
            lower = tangents[1] if which is None else tangents[1][list(which)]
        else:
            lower = self.lower.jacobian(self._at(x), batch, which)[1]
        return self._over(evaluation, x, batch, tangents), rows - lower

    def sharpened(self, factor: float) -> Problem:
        """The model of the inner problem with surrogates `factor` times as steep, at the same centre."""
        return self if factor == 1 else Linearised(self.inner.sharpened(factor), self.centre)

    def _kept(self, batch: Any) -> tuple[Evaluation, Tensor] | None:
        """Values and gradients of the minus part at the centre (n,), of all rows or of a batch that comes again; None
        at the first call of another one."""
        if self._tangents is not None and self._tangents[0] is batch:
            return self._tangents[1:]
        everything = getattr(batch, "rows", batch) is None
        if (self._last is not batch and not everything) or self.centre.dim() > 1:
            self._last = batch
            return None
        self._tangents = (batch, *self.lower.jacobian(self.centre, batch))
        return self._tangents[1:]

    def ranges(self, x: Tensor | None = None) -> Ranges | None:
        """None: the tangents are not known row by row."""
        return None

    def of_run(self, r: int) -> Problem:
        """Around the inner problem of run r, with the centre of that run."""
        inner = self.inner.of_run(r)
        if self.centre.dim() == 1:
            return self if inner is self.inner else Linearised(inner, self.centre)
        return Linearised(inner, self.centre[r])

    def _at(self, x: Tensor) -> Tensor:
        return self.centre.expand_as(x)

    def _over(self, plus: Evaluation, x: Tensor, batch: Any, tangents: tuple[Evaluation, Tensor] | None) -> Evaluation:
        """The plus part's values less the tangents of the minus part at the centre."""
        at = self._at(x)
        if tangents is not None and x.dim() == 1:
            minus, along = tangents[0], tangents[1] @ (x - at)
        else:
            minus, along = self.lower.values(at, batch), self.lower.jvp(at, batch, x - at)
        return _less(plus, minus.f + along[..., 0], minus.g + along[..., 1:])
