"""What the checks share: running a method, comparing states, and a wrapper that counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from fairbound.base.records import Counts
from fairbound.methods import method_of
from fairbound.problems.problem import Draws, Problem

Make = Problem | Callable[..., Problem]


def make_problem(problem: Make, **options: Any) -> Any:
    """The problem itself, or a fresh one from its maker."""
    return problem if hasattr(problem, "values") else problem(**options)  # type: ignore[operator]


def run(
    config: Any,
    problem: Make,
    steps: int,
    *,
    method: Any = None,
    seeds: Sequence[int] = (0,),
    batch_size: int = 8,
    sampling: str = "balanced",
    after: Callable[[Any], bool | None] | None = None,
    **options: Any,
) -> Any:
    """The state after `steps` steps from the problem's start; `after(state)` is called after each, and True ends the run."""
    method, made = method or method_of(config), make_problem(problem, **options)
    draws = Draws(made, seeds, batch_size, sampling)
    state = method.init(config, made, made.start(tuple(seeds)), draws)
    for _ in range(steps):
        state = method.step(config, state, made, draws)
        if after is not None and after(state):
            break
    return state


def differences(a: Any, b: Any, path: str = "state", tolerance: float = 0.0) -> list[str]:
    """Where two states differ: tensors entry by entry (NaN equals NaN), everything else by ==."""
    if isinstance(a, torch.optim.Optimizer):
        return differences(a.state_dict(), b.state_dict(), path, tolerance)
    if isinstance(a, Tensor):
        if a.shape != b.shape or a.dtype != b.dtype:
            return [f"{path}: {tuple(a.shape)} {a.dtype} against {tuple(b.shape)} {b.dtype}"]
        same = (
            torch.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
            if a.is_floating_point()
            else torch.equal(a, b)
        )
        return [] if same else [f"{path}: differs by up to {(a - b).abs().max().item():.3g}"]
    if isinstance(a, dict):
        if a.keys() != b.keys():
            return [f"{path}: keys {sorted(map(str, a))} against {sorted(map(str, b))}"]
        return [d for key in a for d in differences(a[key], b[key], f"{path}[{key!r}]", tolerance)]
    if isinstance(a, (list, tuple)):
        if len(a) != len(b):
            return [f"{path}: {len(a)} entries against {len(b)}"]
        return [
            d for i, (u, v) in enumerate(zip(a, b, strict=True)) for d in differences(u, v, f"{path}[{i}]", tolerance)
        ]
    if hasattr(a, "__dataclass_fields__"):
        return [
            d
            for f in fields(a)
            for d in differences(getattr(a, f.name), getattr(b, f.name), f"{path}.{f.name}", tolerance)
        ]
    return [] if a == b else [f"{path}: {a!r} against {b!r}"]


class Spy:
    """A problem that also counts, by itself, the calls of its verbs and the rows they were given."""

    def __init__(self, problem: Any):
        self._problem = problem
        self._sizes: dict[int, tuple[Any, int]] = {}
        self.seen = dict.fromkeys(("values", "gradients", "jvps", "jacobians", "samples"), 0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._problem, name)

    @property
    def counts(self) -> Counts:
        return self._problem.counts

    def sample(self, seeds: Sequence[int], name: str, k: int, size: int, kind: str) -> Any:
        batch = self._problem.sample(seeds, name, k, size, kind)
        rows = self._problem.rows if kind == "full" else size if kind == "uniform" else min(size, self._problem.rows)
        self._sizes[id(batch)] = batch, rows
        return batch

    def _note(self, verb: str, batch: Any) -> None:
        self.seen[verb] += 1
        self.seen["samples"] += self._sizes[id(batch)][1]

    def values(self, x: Tensor, batch: Any, true: bool = False) -> Any:
        self._note("values", batch)
        return self._problem.values(x, batch, true)

    def gradient(self, x: Tensor, batch: Any, weights: Any) -> Any:
        self._note("gradients", batch)
        return self._problem.gradient(x, batch, weights)

    def jvp(self, x: Tensor, batch: Any, dx: Tensor) -> Tensor:
        self._note("jvps", batch)
        return self._problem.jvp(x, batch, dx)

    def jacobian(self, x: Tensor, batch: Any) -> Any:
        self._note("jacobians", batch)
        return self._problem.jacobian(x, batch)


def close(value: Tensor, expected: Tensor, tolerance: float, what: str) -> None:
    error = float(((value - expected).abs() / (1 + expected.abs())).max()) if value.numel() else 0.0
    if not error <= tolerance:
        raise AssertionError(f"{what}: they differ by {error:.3g}, more than {tolerance:.3g}.")
