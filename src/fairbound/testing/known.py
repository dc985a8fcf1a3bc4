"""A problem written out by hand, with noise of stated variance and a known optimum.

A `KnownProblem` offers the four verbs on functions F = (f, g_1, ..., g_m) written out by hand, with noise that is
zero on a "full" batch and zero-mean on any other:

    F_i(x; batch) = F_i(x) + a_i + b_i . x,    a_i ~ N(0, noise^2 / size),   b_i ~ N(0, noise^2 / size) in each entry

so values and gradients of one batch belong together, a gradient has variance noise^2 / size per entry, and a value
noise^2 (1 + |x|^2) / size. The noise is a pure function of (seeds, name, k, size, kind).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairbound.base.errors import OptionError
from fairbound.base.seeds import seed_for
from fairbound.problems.base import BaseProblem
from fairbound.problems.domain import Domain, Space
from fairbound.problems.problem import Evaluation, Measured, Weights, check_finite
from fairbound.rows.sampling import check_kind

BLOCK = 64  # batches whose noise is drawn at once
ROWS = 1000  # rows in an epoch of a KnownProblem


@dataclass(frozen=True)
class Optimum:
    """What is known about a problem.

    x: (n,) the minimiser, f its objective, multipliers: (m,) of the constraints (None where they are not unique).
    violation: the least possible largest violation; where it is positive x attains it and f is its objective.
    free_x, free_f: the minimiser over the domain alone, without the constraints.
    slope: a bound on |grad f| and |grad g_i| near x and on the way there. certificate: why all this is true.
    """

    x: Tensor
    f: float
    multipliers: Tensor | None
    free_x: Tensor
    free_f: float
    slope: float
    certificate: str
    violation: float = 0.0


class Noise(NamedTuple):
    """value (..., 1 + m) and slope (..., 1 + m, n) of one batch; None for a full batch. size: rows it counts as."""

    value: Tensor | None
    slope: Tensor | None
    size: int
    key: tuple[str, int]


Functions = Callable[[Tensor], Sequence[Tensor]]


class KnownProblem(BaseProblem):
    """min f(x) subject to g_i(x) <= 0 over a domain, with its optimum.

    functions: x (..., n) -> the 1 + m values (...,) of f, g_1, ...; slopes: x -> their 1 + m (sub)gradients (..., n).
    start: (n,) the first iterate is this plus N(0, 0.1^2), projected. noise: standard deviation per row, >= 0.
    convex: whether f, every g_i and the domain are convex.
    """

    def __init__(
        self,
        name: str,
        functions: Functions,
        slopes: Functions,
        start: Sequence[float],
        optimum: Optimum,
        m: int,
        *,
        domain: Domain | None = None,
        noise: float = 0.0,
        convex: bool = True,
        dtype: torch.dtype = torch.float64,
        device: str | torch.device = "cpu",
    ):
        if not noise >= 0:
            raise OptionError(f"noise is a standard deviation and must not be negative, got {noise!r}.")
        self.name, self.functions, self.slopes, self.optimum = name, functions, slopes, optimum
        self.n, self.m = len(start), m
        self.domain, self.rows = domain or Space(), ROWS
        self.noise, self.convex, self.dtype, self.device = noise, convex, dtype, torch.device(device)
        self._start = torch.tensor(start, dtype=dtype)
        self._blocks: dict[tuple, tuple[int, Tensor]] = {}

    def start(self, seeds: Sequence[int]) -> Tensor:
        """(n,) for one seed, (R, n) for several."""
        near = [
            self._start + 0.1 * torch.randn(self.n, dtype=self.dtype, generator=_generator("start", root=s))
            for s in seeds
        ]
        return self.domain.project((near[0] if len(seeds) == 1 else torch.stack(near)).to(self.device))

    def sample(self, seeds: Sequence[int], name: str, k: int, size: int, kind: str) -> Noise:
        """Noise of the k-th batch of the stream `name`; the kinds other than "full" do not differ here."""
        check_kind(kind)
        if kind == "full":
            return Noise(None, None, self.rows, (name, k))
        if self.noise == 0:
            return Noise(None, None, size, (name, k))
        stream, (block, at) = (tuple(seeds), name, size, kind), divmod(k, BLOCK)
        if self._blocks.get(stream, (-1,))[0] != block:
            shape = (BLOCK, 1 + self.m, 1 + self.n)
            drawn = [
                torch.randn(shape, dtype=torch.float64, generator=_generator(name, block, size, kind, root=s))
                for s in seeds
            ]
            made = (drawn[0] if len(seeds) == 1 else torch.stack(drawn, 1)) * (self.noise / math.sqrt(size))
            self._blocks[stream] = (block, made.to(dtype=self.dtype, device=self.device))
        noise = self._blocks[stream][1][at]
        return Noise(noise[..., 0], noise[..., 1:], size, (name, k))

    def values(self, x: Tensor, batch: Noise, true: bool = False) -> Evaluation:
        """f (...,) and g (..., m) on the batch; metric and surrogate are the same here."""
        return self._evaluate(x, batch)

    def gradient(
        self, x: Tensor, batch: Noise, weights: Weights | Callable[[Evaluation], Weights]
    ) -> tuple[Evaluation | None, Tensor]:
        """The evaluation where `weights` is a function of it (else None), and the gradient (..., n) of w0 f + w . g."""
        evaluation = self._evaluate(x, batch) if callable(weights) else None
        w0, w = weights(evaluation) if callable(weights) else weights  # type: ignore[arg-type]
        jacobian = self._slopes(x, batch)
        gradient = jacobian[..., 0, :] * w0
        if w is not None:
            gradient = gradient + (w.unsqueeze(-1) * jacobian[..., 1:, :]).sum(-2)
        check_finite(gradient, lambda: self._explain(batch, "gradient"))
        return evaluation, gradient

    def jvp(self, x: Tensor, batch: Noise, dx: Tensor) -> Tensor:
        """(..., 1 + m): derivatives of f, g_1, ..., g_m along dx (..., n)."""
        return (self._slopes(x, batch) * dx.unsqueeze(-2)).sum(-1)

    def jacobian(self, x: Tensor, batch: Noise, which: Sequence[int] | None = None) -> tuple[Evaluation, Tensor]:
        """The evaluation, and the gradients (..., 1 + m, n) of f, g_1, ..., g_m, or the rows `which` of them."""
        slopes = self._slopes(x, batch)
        return self._evaluate(x, batch), slopes if which is None else slopes[..., list(which), :]

    def evaluate(self, x: Tensor) -> Measured:
        """The exact f (...,) and g (..., m) at x (..., n)."""
        F = torch.stack(list(self.functions(x)), dim=-1)
        return Measured(F[..., 0], F[..., 1:], {})

    def _evaluate(self, x: Tensor, batch: Noise) -> Evaluation:
        F = torch.stack(list(self.functions(x)), dim=-1)
        if batch.value is not None and batch.slope is not None:
            F = F + batch.value + (batch.slope * x.unsqueeze(-2)).sum(-1)
        check_finite(F, lambda: self._explain(batch, "objective or a constraint"))
        return Evaluation(F[..., 0], F[..., 1:])

    def _slopes(self, x: Tensor, batch: Noise) -> Tensor:
        jacobian = torch.stack(list(self.slopes(x)), dim=-2)
        return jacobian if batch.slope is None else jacobian + batch.slope

    def _explain(self, batch: Noise, what: str) -> str:
        where = f"batch {batch.key[1]} of stream {batch.key[0]!r}"
        return f"the {what} of {self.name} is NaN or infinite in {where}; lower the step size."


def _generator(*parts: Any, root: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed_for("known problem", *parts, root=root))
