"""`solve`: budget, seeds, records, the best iterate that meets the true bounds, checkpoint and resume."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import Tensor

from fairbound.base.records import Counts
from fairbound.base.seeds import seeds_of
from fairbound.base.series import floats
from fairbound.methods import algorithm as algorithm_named
from fairbound.methods.method import Method, State, check_needs, has_step_size
from fairbound.problems.problem import Problem
from fairbound.problems.stated import check_stated
from fairbound.solver.budget import Budget
from fairbound.solver.run import Run, Stopped
from fairbound.solver.settings import FIRST_RECORD, Settings, Spacing, check_validation, path_of


@dataclass(frozen=True)
class Solution:
    """What a run returns.

    x: (..., n) the best point that was measured: of those that meet every true bound the one of lowest objective, else
    the one that misses them least. It is an iterate, or lies between or near iterates where a search after the last
    step found a better one there.
    last: (..., n) the final iterate, or the average where one was asked for or the method returns one.
    feasible: (...,) whether x meets every true bound on the rows it was chosen on; violation: (...,) its largest excess
    over a bound, in the metric's units.
    best_step: (...,) the step of x, the last one for a point of the search. 0 for the start, and for a point between it
    and an iterate that missed the bounds, where only the start met them and the point has gained less than half of what
    that iterate has.
    message: the verdict in words, with advice.
    method: what solved it; None where that is not known.
    records: one row per evaluation, of plain data, but for the values and multipliers of more than 10,000 constraints, which
    are tensors; steps, seconds (training only), counts; stopped: "budget", "interrupted", or
    "halted" by the method itself, whose state says that it is `halted`.
    """

    x: Tensor
    last: Tensor
    feasible: Tensor
    violation: Tensor
    best_step: Tensor
    state: State
    records: list[dict[str, Any]]
    steps: int
    seconds: float
    counts: Counts
    stopped: Stopped
    message: str
    method: Method[Any] | None = None

    @property
    def found(self) -> bool:
        """Whether a point other than the start met every bound, of a single run."""
        return bool(self.feasible) and int(self.best_step) > 0

    @property
    def interrupted(self) -> bool:
        """Whether the user ended it, as by Ctrl-C."""
        return self.stopped == "interrupted"

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
    budget: str | Budget = "30s",
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
    """Train: run a method on a problem until the budget ends, and return the best iterate that meets the true bounds.

    Take it for a module (`fb.formulate`), a problem of your own, or to compare methods; for a table `fb.FairClassifier`
    does all of it.

    problem: what is minimised and what is bounded; see `fairbound.problems.base.BaseProblem`.
    algorithm: a name ("alm", "ssl_alm:paper"), a class to import ("package.module:Class"), or a method with its options
        (fb.ALM(step_size=0.05)); one of your own works like ours.
    budget: "30s", "20 cpu s" (of the processor), "5000 steps", "10 epochs", "2e6 samples", or Budget(...).
        Evaluation is not counted.
    batch_size: rows of a batch.
    sampling: how they are drawn: "balanced" over groups and labels, "uniform", "shuffled" or "full".
    seed: a whole number >= 0, or R different ones for a stack of R runs.
    x0: (n,) or (R, n), in the problem's domain; None for its own start, whose dtype and device x0 is brought to.
    validation: the same bounds on other rows; an iterate is feasible if it meets them on both, and is ranked there.
    record_every: steps between evaluations, or "0.5 epochs", or a share of the steps done as "5%". None: 50 steps (a
        method may say fewer), then 5 % of the steps done. A method's outer iterates are evaluated besides.
    records: JSON-lines file to append to, read by `fairbound.base.records.read_records`.
    checkpoint: file to write every `checkpoint_every` seconds, on an interrupt and at the end. Where it exists the run
        goes on from it, bit for bit as an unbroken one would; that of another method, seed, bound, start or data (told
        by `evaluate` at a point beside the start) is refused.
    checkpoint_every: seconds, >= 0.
    nonfinite: "raise" NonFiniteError at a NaN or infinity, or "skip" the batch (or record, or point tried after the last
        step) and count it.
    patience: up to this many times the budget, >= 1, is spent while no iterate of the second half of the steps meets the
        bounds.
    average: power p of an average of the iterates with weights like k^p, so that about the last share 1 / (p + 1) of
        the steps counts (Shamir and Zhang 2013); every tenth iterate enters it. The average is then what is measured
        and returned; bounds hold far more steadily at it. 0 for the iterates themselves.
    progress: whether lines go to standard error, after one that says which run they are of.
    callback: a function of each record.
    keep: what to keep of a record.
    Raises: OptionError for wrong options, for a start outside the domain, where the problem lacks what the method needs,
        and where what it says of itself or gives is of another kind or shape than `Problem` says;
        NonFiniteError; CheckpointError.
    """
    method = algorithm_named(algorithm)
    check_stated(problem)
    check_needs(method, problem)
    check_validation(validation, problem)
    settings = Settings(
        method=method,
        limit=Budget.of(budget),
        seeds=seeds_of(seed),
        batch_size=batch_size,
        sampling=sampling,
        spacing=Spacing(record_every, getattr(method, "record_every", FIRST_RECORD)),
        nonfinite=nonfinite,
        patience=patience,
        average=average,
        validation=validation,
        checkpoint=path_of("checkpoint", checkpoint),
        checkpoint_every=checkpoint_every,
        progress=progress,
        callback=callback,
        keep=keep,
    )
    run = Run(problem, settings, x0, path_of("records", records))
    return _solution(run, *run.go())


def _solution(run: Run, stopped: Stopped, seconds: float) -> Solution:
    return Solution(
        x=run.best.x,
        last=run.current.clone(),
        feasible=run.best.violation <= 0,
        violation=run.best.violation,
        best_step=run.best.step,
        state=run.state,
        records=run.recorder.rows,
        steps=run.state.k,
        seconds=seconds,
        counts=run.counts,
        stopped=stopped,
        message=_message(run),
        method=run.settings.method,
    )


def _message(run: Run) -> str:
    if run.problem.m == 0:
        return "no bound was stated."
    verdict, outer = run.best.verdict(_where(run), bool(run.problem.strata)), run.state.outer
    if outer is not None and not bool((outer > 0).all()):
        return f"the method has no outer iterate yet, so it vouches for no point. Run it longer. Measured: {verdict}"
    unseen = run.counts.unseen
    absent = f" Batches lacked a group {unseen:,} times; those constraints were left as they were." if unseen else ""
    return verdict + ("" if run.best.found else _divergence(run)) + absent


def _where(run: Run) -> str:
    """What the best iterate was chosen on: rows, where the problem has any."""
    if run.problem.rows > 1:
        return (
            " on the training rows" if run.settings.validation is None else " on the training and the validation rows"
        )
    return "" if run.settings.validation is None else " on the problem and on that of validation"


def _divergence(run: Run) -> str:
    """What is said where the last record of one run has both a higher objective than the first and a larger
    violation."""
    rows = run.recorder.rows
    if not rows or not all(isinstance(row.get("train", {}).get("f"), float) for row in (rows[0], rows[-1])):
        return ""
    (f, before), (last, after) = (
        (row["train"]["f"], float(np.max(floats(row["train"]["g"]), initial=0.0))) for row in (rows[0], rows[-1])
    )
    if not (last > f and after > before):
        return ""
    return (
        f" The steps led away: from the first record to the last the objective rose from {f:.4g} to {last:.4g} and the "
        f"largest violation from {before:.4g} to {after:.4g}."
    ) + " Take a smaller step size." * has_step_size(run.settings.method)
