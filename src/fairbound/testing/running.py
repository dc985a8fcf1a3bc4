"""What the checks share: running a method, comparing states, and a wrapper that counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from fairbound.methods.method import check_needs
from fairbound.problems.problem import Draws, Problem
from fairbound.problems.stated import check_stated
from fairbound.problems.wrappers import Wrapper

Make = Problem | Callable[..., Problem]


def is_made(problem: Make) -> bool:
    """Whether it is a problem; else it makes one, as a function or as the problem's class."""
    return hasattr(problem, "values") and not isinstance(problem, type)


def make_problem(problem: Make, **options: Any) -> Any:
    """The problem itself, or a fresh one from its maker. Raises: OptionError where it says of itself what cannot be."""
    made: Any = problem if is_made(problem) else problem(**options)  # type: ignore[operator]
    check_stated(made)
    return made


def run(
    method: Any,
    problem: Make,
    steps: int,
    *,
    seeds: Sequence[int] = (0,),
    batch_size: int = 8,
    sampling: str = "balanced",
    after: Callable[[Any], bool | None] | None = None,
    **options: Any,
) -> Any:
    """The state after `steps` steps of `method` from the problem's start; `after(state)` is called after each, and True
    ends the run.

    Oracle calls are counted where the problem given is `Counted`. Raises: OptionError where the problem lacks what the
    method needs.
    """
    made = make_problem(problem, **options)
    check_needs(method, made)
    draws = Draws(made, seeds, batch_size, sampling)
    state = method.init(made, made.start(tuple(seeds)), draws)
    for _ in range(steps):
        state = method.step(state, made, draws)
        if after is not None and after(state):
            break
    return state


def tensors(state: Any, path: str = "state") -> list[tuple[str, Tensor]]:
    """Every tensor of a state with its place, those of inner states among them."""
    found: list[tuple[str, Tensor]] = []
    for f in fields(state):
        value = getattr(state, f.name)
        if isinstance(value, Tensor):
            found.append((f"{path}.{f.name}", value))
        elif is_dataclass(value):
            found += tensors(value, f"{path}.{f.name}")
    return found


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


class Spy(Wrapper):
    """A problem that also counts, by itself, the calls of its verbs, the rows that its batches were asked to have, and,
    as `evaluations`, the calls of `evaluate`."""

    def __init__(self, problem: Any):
        super().__init__(problem)
        self._sizes: dict[int, tuple[Any, int]] = {}
        self.seen = dict.fromkeys(("values", "gradients", "jvps", "jacobians", "samples"), 0)
        self.evaluations = 0

    def sample(self, seeds: Sequence[int], name: str, k: int, size: int, kind: str) -> Any:
        batch = super().sample(seeds, name, k, size, kind)
        rows = self.rows if kind == "full" else size if kind == "uniform" else min(size, self.rows)
        self._sizes[id(batch)] = batch, rows
        return batch

    def _note(self, verb: str, batch: Any) -> None:
        self.seen[verb] += 1
        self.seen["samples"] += self._sizes[id(batch)][1]

    def values(self, x: Tensor, batch: Any, true: bool = False) -> Any:
        self._note("values", batch)
        return super().values(x, batch, true)

    def gradient(self, x: Tensor, batch: Any, weights: Any) -> Any:
        self._note("gradients", batch)
        return super().gradient(x, batch, weights)

    def jvp(self, x: Tensor, batch: Any, dx: Tensor) -> Tensor:
        self._note("jvps", batch)
        return super().jvp(x, batch, dx)

    def jacobian(self, x: Tensor, batch: Any, which: Sequence[int] | None = None) -> Any:
        self._note("jacobians", batch)
        return super().jacobian(x, batch, which)

    def evaluate(self, x: Tensor) -> Any:
        self.evaluations += 1
        return super().evaluate(x)


def close(value: Tensor, expected: Tensor, tolerance: float, what: str) -> None:
    """Raises: AssertionError where the two differ in shape, or by more than `tolerance`, absolute and relative."""
    if value.shape != expected.shape:
        raise AssertionError(f"{what}: shape {tuple(value.shape)}, expected {tuple(expected.shape)}.")
    error = float(((value - expected).abs() / (1 + expected.abs())).max()) if value.numel() else 0.0
    if not error <= tolerance:
        raise AssertionError(f"{what}: they differ by {error:.3g}, more than {tolerance:.3g}.")
