"""The one training loop: budget, seeds, records, the best iterate that meets the true bounds, checkpoint and resume."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from fairbound.base.errors import NonFiniteError, OptionError
from fairbound.base.files import check_writable
from fairbound.base.interrupts import Interrupts
from fairbound.base.records import Clock, Counts, Recorder
from fairbound.methods import algorithm as algorithm_named
from fairbound.methods import method_of
from fairbound.problems.problem import Draws, Measured, Problem
from fairbound.solver import checkpoint as store
from fairbound.solver.budget import Budget

AVERAGE_EVERY = 10
COUNTED_BY = 1000


@dataclass
class Best:
    """The best iterate so far: feasible before infeasible; then the lower objective; then the smaller violation.

    x: (..., n); f, violation: (...,) of the rows it was chosen on; step: (...,) where it was met; met: (...,) the last step
    at which any iterate met the bounds, -1 for none.
    """

    x: Tensor
    f: Tensor
    violation: Tensor
    step: Tensor
    met: Tensor

    @classmethod
    def none(cls, x: Tensor) -> Best:
        lead = x.shape[:-1]
        far = torch.full(lead, math.inf, dtype=torch.float64)
        never = torch.full(lead, -1, dtype=torch.int64)
        return cls(x.clone(), far, far.clone(), never, never.clone())

    @property
    def found(self) -> bool:
        """Whether every run has met the bounds somewhere else than at its start."""
        return bool((self.met > 0).all())

    def offer(self, x: Tensor, f: Tensor, violation: Tensor, step: int) -> None:
        f, violation = f.double().cpu(), violation.double().cpu()
        feasible, was = violation <= 0, self.violation <= 0
        better = (feasible & ~was) | (feasible & was & (f < self.f)) | (~feasible & ~was & (violation < self.violation))
        self.x = torch.where(better.unsqueeze(-1).to(x.device), x, self.x)
        self.f, self.violation = torch.where(better, f, self.f), torch.where(better, violation, self.violation)
        self.step = torch.where(better, torch.full_like(self.step, step), self.step)
        self.met = torch.where(feasible, torch.full_like(self.met, step), self.met)

    def settled(self, step: int) -> bool:
        """Whether every run has met the bounds in the second half of its steps, and so not by an early chance alone."""
        return bool((self.met >= max(1, step // 2)).all())


@dataclass(frozen=True)
class Solution:
    """What a run returns.

    x: (..., n) the best verified iterate; last: (..., n) the final one, or the average where one
    was asked for or the method returns one; feasible: (...,) whether x meets every true
    bound on the rows it was chosen on; violation: (...,) its largest excess over a bound, in the metric's units.
    records: one row per evaluation; steps, seconds (training only), counts; stopped: "budget", "interrupted", or "halted" by the
    method itself, whose state says that it is `done`.
    """

    x: Tensor
    last: Tensor
    feasible: Tensor
    violation: Tensor
    best_step: Tensor
    state: Any
    records: list[dict[str, Any]]
    steps: int
    seconds: float
    counts: Counts
    stopped: Literal["budget", "interrupted", "halted"]
    message: str

    def __repr__(self) -> str:
        last = self.records[-1]["train"]["f"] if self.records else None
        return (
            f"Solution(feasible={self.feasible.tolist()}, violation={self.violation.tolist()}, "
            f"best_step={self.best_step.tolist()}, steps={self.steps}, seconds={self.seconds:.3g}, "
            f"last training loss={last}, stopped={self.stopped!r})"
        )


def solve(
    problem: Problem,
    algorithm: Any = "alm",
    *,
    budget: str | float | Budget = "30s",
    batch_size: int = 64,
    sampling: str = "balanced",
    seed: int | Sequence[int] = 0,
    x0: Tensor | None = None,
    validation: Problem | None = None,
    record_every: int | str | None = None,
    records: str | Path | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: float = 60.0,
    nonfinite: Literal["raise", "skip"] = "raise",
    patience: float = 1.0,
    average: int = 0,
    progress: bool = False,
    callback: Callable[[dict[str, Any]], None] | None = None,
    keep: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> Solution:
    """Run `algorithm` on `problem` and return the best iterate that meets the true bounds.

    algorithm: a name ("alm", "ssl_alm:paper"), or a configuration (fb.ALM(step_size=0.05)).
    budget: "30s", "5000 steps", "10 epochs", "2e6 samples", Budget(...), or seconds. Evaluation is not counted.
    seed: one, or R of them for a stack of R runs in one set of tensors.
    validation: the same bounds on other rows; an iterate is feasible if it meets them on both, and is ranked there.
    record_every: steps between evaluations, or data passes as "0.5 epochs"; None spaces them by 50 steps, then by 5 % of
        the steps done. A method that counts its outer iterates is evaluated at each of them besides.
    x0: (n,) or (R, n); None for the problem's own start. Counts begin at zero, on `problem.counts`.
    records: JSON-lines file to append to. checkpoint: file to write every `checkpoint_every` seconds, on an interrupt
        and at the end; where it exists the run goes on from it, bit for bit as an unbroken one would.
        A disk that fills up stops neither: a warning says so, and what was written before stays whole.
    patience: up to this many times the budget is spent while no iterate of the second half of the steps meets the bounds.
    average: power p of an average of the iterates that forgets the early ones: weights grow like k^p, so that about the
        last share 1 / (p + 1) of the steps counts (Shamir and Zhang 2013; taken every tenth step). The average is then
        what is measured, compared and returned. 0 for the iterates themselves. Bounds hold far more steadily at it.
    nonfinite: "raise" NonFiniteError at a NaN or infinity, or "skip" the batch (or record) and count it.
    keep: what to keep of a record, where all of it is too much (10,000 constraints at every evaluation, say).
    """
    config = algorithm_named(algorithm) if isinstance(algorithm, str) else algorithm
    method, limit = method_of(config), Budget.of(budget)
    seeds = (seed,) if isinstance(seed, int) else tuple(seed)
    if batch_size < 1 or not seeds or nonfinite not in ("raise", "skip"):
        raise OptionError(
            f"batch_size must be at least 1, seeds not empty and nonfinite 'raise' or 'skip'; got {batch_size}, "
            f"{seeds}, {nonfinite!r}."
        )
    spacing = _Spacing(record_every)
    if not isinstance(average, int) or isinstance(average, bool) or average < 0:
        raise OptionError(f"average must not be negative, and a whole number; got {average!r}.")
    rows = getattr(problem, "rows", 1)
    draws = Draws(problem, seeds, batch_size, sampling)
    x = problem.start(seeds) if x0 is None else _first(x0, problem.n, len(seeds))
    state = method.init(config, problem, x, draws)
    if average and hasattr(state, "outer"):
        raise OptionError(f"{config.name} returns its outer iterates, whose average is not one; leave average at 0.")
    mean = point_of(state).clone() if average else None
    best, recorder, clock = Best.none(x), Recorder(Path(records) if records else None), Clock()
    identity = {
        "method": config.name,
        "options": _text_of(config),
        "dtype": str(x.dtype),
        "seeds": list(seeds),
        "batch_size": batch_size,
        "sampling": sampling,
        "parameters": problem.n,
        "constraints": list(problem.names),
        "rows": rows,
        "average": average,
    }
    next_record: float = 0
    problem.counts = Counts()
    if checkpoint is not None:
        check_writable(Path(checkpoint).parent)
    if checkpoint is not None and Path(checkpoint).exists():
        saved = store.load(checkpoint, identity)
        state = store.plain_to_state(state, saved["state"])
        best, clock, mean = Best(**saved["best"]), Clock(saved["seconds"]), saved["mean"]
        problem.counts = Counts(**saved["counts"])
        next_record = saved["next_record"]
        recorder.resume(saved["records"], saved["recorded"])

    def current() -> Tensor:
        return point_of(state) if mean is None else mean

    def save() -> None:
        if checkpoint is None:
            return
        content = {
            "identity": identity,
            "state": store.state_to_plain(state),
            "best": best.__dict__,
            "mean": mean,
            "seconds": clock.seconds,
            "counts": problem.counts.as_dict(),
            "next_record": next_record,
            "records": recorder.rows,
            "recorded": recorder.where(),
        }
        try:
            store.save(checkpoint, content)
        except OSError as error:
            warnings.warn(
                f"{error.strerror}; the checkpoint before it is kept and training goes on.",
                RuntimeWarning,
                stacklevel=3,
            )

    def record() -> None:
        try:
            row = _measure(problem, validation, state, current(), best, clock)
        except NonFiniteError:
            if nonfinite == "raise":
                raise
            problem.counts.nonfinite += 1
            return
        if progress:
            _show(row)
        row = row if keep is None else keep(row)
        recorder.add(row)
        if callback is not None:
            callback(row)

    saved_at = clock.seconds
    outer = state.outer.clone() if hasattr(state, "outer") else None  # at the last record
    with Interrupts() as interrupts:
        while True:
            spent = spacing.done(state.k, problem.counts.samples, rows)
            if spent >= next_record or (outer is not None and not torch.equal(outer, state.outer)):
                with clock.paused():
                    record()
                outer = None if outer is None else state.outer.clone()
                next_record = spacing.after(spent) if spent >= next_record else next_record
            stretch = patience if patience > 1 and problem.m and not best.settled(state.k) else 1.0
            used = clock.seconds / stretch, state.k / stretch, problem.counts.samples / stretch
            halted = bool(state.done.all()) if hasattr(state, "done") else False
            if limit.spent(*used, rows) or interrupts.seen or halted:
                break
            if state.k == COUNTED_BY and not problem.counts.samples and math.isinf(limit.seconds + limit.steps):
                raise OptionError(
                    f"the problem has counted no rows in {COUNTED_BY} steps, so a budget of {limit.text} would never end. Let its "
                    "verbs add to counts.samples, or give a budget in steps or seconds."
                )
            if checkpoint is not None and clock.seconds - saved_at >= checkpoint_every:
                with clock.paused():
                    save()
                saved_at = clock.seconds
            try:
                state = method.step(config, state, problem, draws)
            except NonFiniteError:
                if nonfinite == "raise":
                    raise
                problem.counts.nonfinite += 1
                state = replace(state, k=state.k + 1)
            if mean is not None and state.k % AVERAGE_EVERY == 0:
                mean.lerp_(point_of(state), min(1.0, AVERAGE_EVERY * (average + 1) / (state.k + average)))
        seconds = clock.seconds
        with clock.paused():
            if not recorder.rows or recorder.rows[-1]["step"] != state.k:
                record()
            save()
    if progress:
        print(file=sys.stderr)
    feasible = best.violation <= 0
    return Solution(
        best.x,
        current().clone(),
        feasible,
        best.violation,
        best.step,
        state,
        recorder.rows,
        state.k,
        seconds,
        problem.counts,
        "interrupted" if interrupts.seen else "halted" if halted else "budget",
        _message(problem, state, best, validation is not None),
    )


class _Spacing:
    """When the next record is due, in steps, or in data passes where the text says epochs."""

    def __init__(self, every: int | str | None):
        told = Budget.of(every) if isinstance(every, str) else None
        if told is not None and not math.isinf(min(told.seconds, told.steps, told.samples)):
            raise OptionError(f"record_every is a number of steps, or passes like '0.5 epochs'; got {every!r}.")
        if isinstance(every, int) and every < 1:
            raise OptionError(f"record_every must be at least 1, got {every}.")
        self.steps = every if isinstance(every, int) else None
        self.epochs = None if told is None else told.epochs

    def done(self, k: int, samples: int, rows: int) -> float:
        return k if self.epochs is None else samples / rows

    def after(self, done: float) -> float:
        if self.epochs is not None:
            return (math.floor(done / self.epochs) + 1) * self.epochs
        return done + (self.steps or max(50, done // 20))


def _measure(
    problem: Problem, validation: Problem | None, state: Any, x: Tensor, best: Best, clock: Clock
) -> dict[str, Any]:
    """One record of x, which is offered as the best."""
    train = problem.evaluate(x)
    row = {"step": state.k, "seconds": clock.seconds, **problem.counts.as_dict(), "train": _numbers(train)}
    f, violation = train.f, train.violation
    if validation is not None:
        held = validation.evaluate(x)
        row["validation"] = _numbers(held)
        f, violation = held.f, torch.maximum(violation, held.violation)
    best.offer(x, f, violation, state.k)
    row["multipliers"] = state.multipliers.clone()
    row |= {name: getattr(state, name).clone() for name in ("outer", "level", "upper") if hasattr(state, name)}
    row["best_step"] = best.step
    return row


def point_of(state: Any) -> Tensor:
    """(..., n) what a method would return now: `state.point` where it has one (an average, an outer iterate), else x."""
    return getattr(state, "point", state.x)


def _numbers(measured: Measured) -> dict[str, Any]:
    return {"f": measured.f, "g": measured.g, **measured.extra}


def _message(problem: Problem, state: Any, best: Best, validated: bool) -> str:
    if problem.m == 0:
        return "no bound was stated."
    if hasattr(state, "outer") and not bool((state.outer > 0).all()):
        return "the method has no outer iterate yet, so it vouches for no point. Run it longer. Measured: " + _verdict(
            best, validated
        )
    unseen = problem.counts.unseen
    absent = f" Batches lacked a group {unseen:,} times; those constraints were left as they were." if unseen else ""
    return _verdict(best, validated) + absent


def _verdict(best: Best, validated: bool) -> str:
    where = "the training and the validation rows" if validated else "the training rows"
    missed = ~(best.violation <= 0)
    if not missed.any() and not best.found:
        return (
            f"the bounds are met on {where}, but by no iterate that training reached: only the starting point meets them. Loosen "
            "the bound, train longer, or merge small groups."
        )
    if not missed.any():
        return f"every bound is met on {where}."
    least = float(best.violation[missed].min())
    runs = "" if missed.dim() == 0 else f" in {int(missed.sum())} of {missed.numel()} runs"
    return (
        f"no iterate met every bound on {where}{runs}; the smallest excess reached is {least:.4g} in the units of the "
        "metric. The bound may be infeasible for this model and data: loosen it, train longer, or take another model."
    )


def _first(x0: Tensor, n: int, runs: int) -> Tensor:
    """A copy of x0 for one run (n,) or a stack (R, n)."""
    shape = (n,) if runs == 1 else (runs, n)
    if x0.shape[-1:] != (n,) or x0.dim() > len(shape) or (x0.dim() == 2 and x0.shape != shape):
        raise OptionError(f"x0 must have shape {shape}, got {tuple(x0.shape)}.")
    return x0.detach().expand(shape).clone()


def _text_of(config: Any) -> str:
    """The configuration as text that is the same in every process: a function by its name, not its address."""
    parts = []
    for f in fields(config):
        value = getattr(config, f.name)
        named = callable(value) and hasattr(value, "__qualname__")
        parts.append(f"{f.name}={f'{value.__module__}.{value.__qualname__}' if named else repr(value)}")
    return f"{type(config).__name__}({', '.join(parts)})"


def _show(row: dict[str, Any]) -> None:
    g = row["train"]["g"]
    worst = float(g.max()) if g.numel() else 0.0
    print(
        f"\rstep {row['step']:>8}  {row['seconds']:7.1f} s  loss {float(row['train']['f'].mean()):.4f}  "
        f"worst g {worst:+.4f}",
        end="",
        file=sys.stderr,
        flush=True,
    )
