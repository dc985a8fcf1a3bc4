"""Checks that a method keeps the promises that `solve` relies on; each raises AssertionError saying what broke.

A problem is passed as an instance, or (so that dtype and device can be varied, and nothing is shared between two runs)
as a maker: a function `make(dtype=torch.float64, device="cpu") -> Problem`. A method is passed as it is given to
`solve`.

    from fairbound.testing import PROBLEMS, conformance
    conformance(MyMethod(step_size=0.1), PROBLEMS["two_sided"])
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairbound.base.errors import CheckpointError, OptionError
from fairbound.problems.problem import Draws
from fairbound.problems.wrappers import Counted
from fairbound.solver import checkpoint
from fairbound.solver.points import outside
from fairbound.testing.running import Make, Spy, close, differences, is_made, make_problem, run, tensors


def check_repeatable(method: Any, problem: Make, *, steps: int = 20, **options: Any) -> None:
    """Two runs with one seed agree bit for bit, whatever torch's global generator does; another seed differs."""
    torch.manual_seed(1)
    first = run(method, problem, steps, **options)
    before = torch.random.get_rng_state()
    torch.manual_seed(2)
    second = run(method, problem, steps, **options)
    _none(differences(first, second), "two runs with the same seed differ")
    torch.random.set_rng_state(before)
    third = run(method, problem, steps, **{**options, "seeds": (12345,)})
    if not differences(first.x, third.x) and not torch.equal(
        make_problem(problem).start((0,)), make_problem(problem).start((12345,))
    ):
        raise AssertionError("runs with different seeds and different starts end in the same x.")


def check_resume(
    method: Any,
    problem: Make,
    *,
    steps: int = 24,
    at: Sequence[int] = (1, 11),
    seeds: Sequence[int] = (0,),
    **options: Any,
) -> None:
    """A run saved to a file after `at` steps and taken up by a fresh state equals the unbroken run bit for bit."""
    unbroken = run(method, problem, steps, seeds=seeds, **options)
    for done in at:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "state.ckpt"
            half = run(method, problem, done, seeds=seeds, **options)
            checkpoint.save(path, {"identity": {}, "state": checkpoint.state_to_plain(half)})
            made = make_problem(problem)
            draws = Draws(made, seeds, options.get("batch_size", 8), options.get("sampling", "balanced"))
            fresh = method.init(made, made.start(tuple(seeds)), draws)
            try:
                state = checkpoint.plain_to_state(fresh, checkpoint.load(path, {})["state"])
            except CheckpointError as error:
                raise AssertionError(f"a state saved after {done} steps cannot be read back: {error}") from error
        _none(differences(half, state), f"a state read back after {done} steps is not the one saved")
        for _ in range(steps - done):
            state = method.step(state, made, draws)
        _none(differences(unbroken, state), f"a run resumed after {done} of {steps} steps is not the unbroken one")


def check_dtype(
    method: Any,
    problem: Make,
    *,
    dtypes: Sequence[torch.dtype] = (torch.float32, torch.float64),
    steps: int = 5,
    **options: Any,
) -> None:
    """Every floating tensor of the state keeps the dtype of x; integers and the optimiser's counters are left alone."""
    for dtype in dtypes:
        made: dict[str, Any] = {} if is_made(problem) else {"dtype": dtype}
        state = run(method, problem, steps, **options, **made)
        expected = state.x.dtype
        if not is_made(problem) and expected != dtype:
            raise AssertionError(f"a problem in {dtype} leads to x in {expected}.")
        for name, value in tensors(state):
            if value.is_floating_point() and value.dtype != expected:
                raise AssertionError(f"{name} is {value.dtype}, x is {expected}.")


def check_device(
    method: Any,
    problem: Make,
    *,
    devices: Sequence[str] | None = None,
    steps: int = 5,
    tolerance: float = 1e-9,
    **options: Any,
) -> None:
    """Every tensor that depends on x lies on its device, and other devices reproduce the CPU's x up to `tolerance`.

    devices: defaults to "cpu", and "cuda" where one is available.
    """
    devices = devices or (["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"])
    reference = None
    for device in devices:
        made: dict[str, Any] = {} if is_made(problem) else {"device": device}
        state = run(method, problem, steps, **options, **made)
        if not is_made(problem) and state.x.device.type != torch.device(device).type:
            raise AssertionError(f"a problem on {device} leads to x on {state.x.device}.")
        for name, value in tensors(state):
            if value.is_floating_point() and value.device != state.x.device:
                raise AssertionError(f"{name} is on {value.device}, x on {state.x.device}.")
        reference = state.x.cpu() if reference is None else reference
        close(state.x.cpu(), reference, tolerance, f"x after {steps} steps on {device} against {devices[0]}")


def check_stacked(
    method: Any,
    problem: Make,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    steps: int = 15,
    tolerance: float = 1e-9,
    **options: Any,
) -> None:
    """A stack of R runs equals the R single runs up to rounding (`tolerance`, absolute and relative, in float64)."""
    stacked = run(method, problem, steps, seeds=tuple(seeds), **options)
    for r, seed in enumerate(seeds):
        single = run(method, problem, steps, seeds=(seed,), **options)
        for (name, one), (_, many) in zip(tensors(single), tensors(stacked), strict=True):
            _none(differences(one, many[r], name, tolerance), f"run {r} of a stack differs from the single run")


def check_counts(method: Any, problem: Make, *, steps: int = 10, seeds: Sequence[int] = (0,), **options: Any) -> None:
    """The counts of a run are the calls that reach the problem and the rows asked for; none goes past the wrapper that
    counts, and the method does not call evaluate, which is not counted."""
    spy = Spy(make_problem(problem))
    counted = Counted(spy)
    state = run(method, counted, steps, seeds=seeds, **options)
    if spy.evaluations:
        raise AssertionError(
            f"the method called evaluate {spy.evaluations} times in {steps} steps. That goes over all rows and is not counted: ask "
            'values of a batch, draws(name, k, sampling="full") for one of all rows.'
        )
    counted.evaluate(state.x)
    found = counted.counts.as_dict()
    for name, seen in spy.seen.items():
        if found[name] != seen:
            raise AssertionError(f"counts.{name} is {found[name]}, but {seen} were made.")


def check_domain(method: Any, problem: Make, *, steps: int = 20, seeds: Sequence[int] = (0,), **options: Any) -> None:
    """What the method would return after each step lies in the problem's domain, up to rounding: outside it no point is
    feasible."""
    made = make_problem(problem)

    def look(state: Any) -> None:
        away = outside(made, state.point)
        if bool((away > 0).any()):
            raise AssertionError(
                f"after {state.k} steps the point lies outside the problem's domain, by {float(away.max()):.3g} in an entry. Take "
                "problem.domain.project(x) of what a step gives."
            )

    run(method, made, steps, seeds=seeds, after=look, **options)


@dataclass(frozen=True)
class Reached:
    """The best iterate of each run. gap: f - f*; violation: above the least possible; distance: to x*."""

    gap: Tensor
    violation: Tensor
    distance: Tensor


def check_optimum(
    method: Any,
    problem: Make,
    *,
    steps: int,
    violation: float,
    last_step: float,
    constrained: bool = True,
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    every: int = 10,
    **options: Any,
) -> Reached:
    """Every run comes within `violation` of the least possible one and, there, within a derived gap of the optimum.

    A run ends as soon as it has, and at the latest after `steps` steps. The problem has an `optimum` (see
    KnownProblem). As in `solve`, the best iterate of each run counts: the lowest f among those looked at (every `every`
    steps) that violate by at most `violation`. The gap allowed is

        violation * sum of the optimal multipliers    an excess v of g_i can lower a convex f by at most y_i v
      + last_step * slope^2                           a move by last_step * slope changes f by that times slope

    with `last_step` the step size of the last steps and `slope` the problem's bound on gradients. Where the least
    violation is positive only the violation is checked; with constrained=False (a method that ignores the constraints)
    f is compared with its free minimum.
    """
    made = make_problem(problem)
    if not hasattr(made, "optimum"):
        raise OptionError(
            f"{type(made).__name__} says no optimum, so none can be checked: give it `optimum`, an Optimum, as KnownProblem has, or "
            "leave optimum= out."
        )
    optimum, full = made.optimum, made.sample(tuple(seeds), "check", 0, 1, "full")
    target, point = (optimum.f, optimum.x) if constrained else (optimum.free_f, optimum.free_x)
    multipliers = optimum.multipliers if constrained and optimum.multipliers is not None else torch.zeros(())
    gap = violation * float(multipliers.sum()) + last_step * optimum.slope**2
    judged = optimum.violation == 0 or not constrained
    lead = (len(seeds),) if len(seeds) > 1 else ()
    best = torch.full(lead, torch.inf, dtype=torch.float64)
    least, nearest = best.clone(), made.start(tuple(seeds)).double().cpu()

    def look(state: Any) -> bool:
        nonlocal best, least, nearest
        if state.k % every and state.k != steps:
            return False
        x = state.point
        e = made.values(x, full)
        f = e.f.double().cpu()
        excess = torch.zeros_like(f)
        if made.m and constrained:
            excess = (e.g.clamp_min(0).amax(-1) - optimum.violation).double().cpu()
        better = excess < least if optimum.violation > 0 and constrained else (excess <= violation) & (f < best)
        best, least = torch.where(better, f, best), torch.minimum(least, excess)
        nearest = torch.where(better.unsqueeze(-1), x.double().cpu(), nearest)
        near = (best - target).abs() <= gap if judged else torch.ones(())
        return bool((least <= violation).all() and near.all())

    run(method, made, steps, seeds=seeds, after=look, **options)
    reached = Reached(best - target, least, (nearest - point).norm(dim=-1))
    name = f"{type(method).__name__} on {getattr(made, 'name', type(made).__name__)}"
    if bool((least > violation).any()):
        raise AssertionError(
            f"{name}: the violation stays {least.tolist()} above the least possible, more than {violation:.3g}."
        )
    if judged and bool((reached.gap.abs() > gap).any()):
        raise AssertionError(f"{name}: f - f* = {reached.gap.tolist()}, more than {gap:.3g}; f* = {target:.6g}.")
    return reached


CHECKS: tuple[Callable[..., Any], ...] = (
    check_repeatable,
    check_resume,
    check_dtype,
    check_device,
    check_stacked,
    check_counts,
    check_domain,
)


def conformance(
    method: Any,
    problem: Make,
    *,
    checks: Sequence[Callable[..., Any]] = CHECKS,
    optimum: dict[str, Any] | None = None,
    **options: Any,
) -> None:
    """All checks of a method on a problem; `check_optimum` too where `optimum` gives its arguments, as in
    optimum={"steps": 3000, "violation": 0.01, "last_step": 0.01}."""
    for check in checks:
        check(method, problem, **options)
    if optimum is not None:
        check_optimum(method, problem, **{**options, **optimum})


def _none(found: list[str], what: str) -> None:
    if found:
        raise AssertionError(f"{what}: {'; '.join(found[:3])}.")
