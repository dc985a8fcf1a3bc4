"""A run of a method on a problem: its steps, records, best iterate, budget and checkpoint."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from fairbound.base import progress
from fairbound.base.errors import NonFiniteError, OptionError
from fairbound.base.files import check_writable
from fairbound.base.interrupts import Interrupts
from fairbound.base.records import Clock, Counts, Recorder
from fairbound.base.seeds import seed_for
from fairbound.methods.method import State, declared
from fairbound.problems.problem import Draws, Measured, Problem
from fairbound.problems.wrappers import Counted
from fairbound.solver import checkpoint as store
from fairbound.solver.best import LATEST, Best
from fairbound.solver.identity import identity_of
from fairbound.solver.points import first_point, judged, objective_and_violation
from fairbound.solver.settings import Settings

AVERAGE_EVERY = 10
COUNTED_BY = 1000

Stopped = Literal["budget", "interrupted", "halted"]


class Run:
    """A run under way, from the problem's start or from its checkpoint.

    state: the method's. mean: (..., n) the average of the iterates, None where none was asked for. best, recorder,
    clock: what has been found, written down and spent. problem: the one given, with its oracle calls counted.
    """

    def __init__(self, problem: Problem, settings: Settings, x0: Tensor | None, records: Path | None):
        self.settings, self.problem = settings, Counted(problem)
        self.draws = Draws(self.problem, settings.seeds, settings.batch_size, settings.sampling)
        x = first_point(x0, problem, settings.seeds)
        self._identity = {} if settings.checkpoint is None else identity_of(self.problem, settings, x)
        self.state: State = settings.method.init(self.problem, x, self.draws)
        if settings.average and self.state.outer is not None:
            raise OptionError(
                f"{settings.method.name} returns its outer iterates, whose average is not one; leave average at 0."
            )
        self.mean = self.state.point.clone() if settings.average else None
        self.problem.counts = Counts()
        self.lands = self.state.outer is None and problem.m > 0
        self.best = Best.none(x, LATEST if self.lands else 0)
        self.recorder = Recorder(records)
        self.clock = Clock(processor=settings.limit.processor)
        self.next_record: float = 0
        if settings.checkpoint is not None:
            check_writable(settings.checkpoint.parent)
            if settings.checkpoint.exists():
                self._resume(settings.checkpoint)

    @property
    def counts(self) -> Counts:
        """Oracle calls so far."""
        return self.problem.counts

    @property
    def current(self) -> Tensor:
        """(..., n) what the run would return as its last iterate now."""
        return self.state.point if self.mean is None else self.mean

    def go(self) -> tuple[Stopped, float]:
        """Steps until the budget is spent, the method halts or the user stops the run: why it ended,
        and the seconds."""
        if self.settings.progress:
            progress.heading(self._heading)
        saved_at, outer = self.clock.seconds, self.state.outer
        outer = None if outer is None else outer.clone()  # at the last record
        with Interrupts() as interrupts:
            while True:
                outer = self._record_if_due(outer)
                halted = self.state.halted
                halted = halted if isinstance(halted, bool) else bool(halted.all())
                if self._spent() or interrupts.seen or halted:
                    break
                if self.settings.checkpoint and self.clock.seconds - saved_at >= self.settings.checkpoint_every:
                    with self.clock.paused():
                        self._save()
                    saved_at = self.clock.seconds
                self._step()
            seconds = self.clock.seconds
            with self.clock.paused():
                if not self.recorder.rows or self.recorder.rows[-1]["step"] != self.state.k:
                    self._record()
                self._save()
                if self.lands and not interrupts.seen:
                    self._finish(lambda: interrupts.seen)
        if self.settings.progress:
            progress.ended()
        return "interrupted" if interrupts.seen else "halted" if halted else "budget", seconds

    def _finish(self, stopped: Callable[[], bool]) -> None:
        """Look for better points after the last step. For methods that search: those that the problem itself finds
        nearer to its bounds; where it knows none and no iterate met the bounds, random points near each late iterate,
        on no more rows than training has looked at. Then for all methods: what the problem finds from a start that
        alone meets the bounds, and points between the iterates."""
        single, searches = self.state.x.dim() == 1, getattr(self.settings.method, "searches_at_end", False)
        points = self.counts.samples // self.problem.rows
        for r, seed in enumerate(self.settings.seeds):
            problem, held = self.problem.of_run(r), self.settings.validation
            held = None if held is None else held.of_run(r)
            measure, run = partial(self._tried, problem, held), None if single else r
            more: dict[str, Any] = {"run": run, "stopped": stopped}
            more["generator"] = torch.Generator().manual_seed(seed_for("search", root=seed))
            if searches and not self.best.approach(measure, self.state.k, nearer=problem.nearer, **more):
                self.best.search(measure, self.state.k, project=problem.domain.project, points=points, **more)
            if not stopped():
                self.best.better_start(measure, nearer=problem.nearer, run=run)
        self.best.land(partial(self._tried, self.problem, self.settings.validation), self.state.k)

    def _tried(self, problem: Problem, held: Problem | None, x: Tensor) -> tuple[Tensor, Tensor]:
        """Objective and violation (...,) of points x (..., n) that are tried; of one to be skipped for NaN they are
        infinite."""
        try:
            return objective_and_violation(problem, held, x)
        except NonFiniteError:
            if self.settings.nonfinite == "raise":
                raise
            self.counts.nonfinite += 1
            return (x.new_full(x.shape[:-1], torch.inf),) * 2

    def _step(self) -> None:
        average = self.settings.average
        try:
            self.state = self.settings.method.step(self.state, self.problem, self.draws)
        except NonFiniteError:
            if self.settings.nonfinite == "raise":
                raise
            self.counts.nonfinite += 1
            self.state = replace(self.state, k=self.state.k + 1)
        if self.mean is not None and self.state.k % AVERAGE_EVERY == 0:
            share = min(1.0, AVERAGE_EVERY * (average + 1) / (self.state.k + average))
            self.mean.lerp_(self.state.point, share)

    def _spent(self) -> bool:
        """Whether the budget is spent, with what `patience` adds to it while no late iterate meets the bounds."""
        k, patience, limit, samples = self.state.k, self.settings.patience, self.settings.limit, self.counts.samples
        if k == COUNTED_BY and not samples and math.isinf(limit.seconds + limit.steps):
            raise OptionError(
                f"the method has asked for no rows in {COUNTED_BY} steps, so a budget of {limit.text} would never end. Give a "
                "budget in steps or seconds."
            )
        stretch = patience if patience > 1 and self.problem.m and not self.best.settled(k) else 1.0
        return limit.over or limit.spent(
            self.clock.seconds / stretch, k / stretch, samples / stretch, self.problem.rows
        )

    # -- records ------------------------------------------------------------------------------------------------

    def _record_if_due(self, outer: Tensor | None) -> Tensor | None:
        """A record where one is due, or an outer iterate is new; outer: (...,) their number at the last record,
        or None."""
        spent = self.settings.spacing.done(self.state.k, self.counts.samples, self.problem.rows)
        now = self.state.outer
        if spent < self.next_record and (outer is None or now is None or torch.equal(outer, now)):
            return outer
        with self.clock.paused():
            self._record()
        if spent >= self.next_record:
            self.next_record = self.settings.spacing.after(spent)
        return None if now is None else now.clone()

    def _record(self) -> None:
        settings = self.settings
        try:
            row = self._measured()
        except NonFiniteError:
            if settings.nonfinite == "raise":
                raise
            self.counts.nonfinite += 1
            return
        if settings.progress:
            _show(row)
        row = row if settings.keep is None else settings.keep(row)
        self.recorder.add(row)
        if settings.callback is not None:
            settings.callback(row)

    def _measured(self) -> dict[str, Any]:
        """One record of the current point, which is offered as the best."""
        state, x = self.state, self.current
        f, violation, train, held = judged(self.problem, self.settings.validation, x)
        row = {"step": state.k, "seconds": self.clock.seconds, **self.counts.as_dict(), "train": _numbers(train)}
        if held is not None:
            row["validation"] = _numbers(held)
        self.best.offer(x, f, violation, state.k)
        row["multipliers"] = state.multipliers.clone()
        if state.outer is not None:
            row["outer"] = state.outer.clone()
        row |= {name: value.clone() for name, value in state.shown.items()}
        row["best_step"] = self.best.step
        return row

    @property
    def _heading(self) -> str:
        """Which run of a fit the lines of progress below are of."""
        method, problem = self.settings.method, self.problem
        whole = self.settings.sampling == "full" or declared(method, "all_rows", False)
        rows = "all rows at once" if whole else "random batches"
        bounds = "under the bounds" if problem.m and declared(method, "takes_bounds", True) else "without bounds"
        said = (rows, bounds, getattr(problem, "aim", ""), f"{problem.rows:,} rows")
        return f"{method.name}: {', '.join(filter(None, said))}"

    # -- checkpoints --------------------------------------------------------------------------------------------

    def _resume(self, path: Path) -> None:
        saved = store.load(path, self._identity)
        fresh = self._content()
        fresh["recorded"] |= {"path": ""}  # another file may be named for the records
        apart: dict[str, Any] = {
            "state": {},
            "identity": {},
        }  # `plain_to_state` checks the one, `load` has checked the other
        shown = {name: apart.get(name, part) for name, part in saved.items()}
        store.check_like(shown, {"format": 0, **fresh, **apart}, "content")
        self.state = store.plain_to_state(self.state, saved["state"])
        self.best, self.mean = Best(**saved["best"]), saved["mean"]
        self.clock = Clock(saved["seconds"], processor=self.settings.limit.processor)
        self.problem.counts = Counts(**saved["counts"])
        self.next_record = saved["next_record"]
        self.recorder.resume(saved["records"], saved["recorded"])

    def _content(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        return {
            "identity": self._identity,
            "state": store.state_to_plain(self.state),
            "best": self.best.__dict__,
            "mean": self.mean,
            "seconds": self.clock.seconds,
            "counts": self.counts.as_dict(),
            "next_record": float(self.next_record),
            "records": self.recorder.rows,
            "recorded": self.recorder.where(),
        }

    def _save(self) -> None:
        if self.settings.checkpoint is None:
            return
        try:
            store.save(self.settings.checkpoint, self._content())
        except OSError as error:
            warnings.warn(
                f"{error.strerror}; the checkpoint before it is kept and training goes on.",
                RuntimeWarning,
                stacklevel=4,
            )


def _numbers(measured: Measured) -> dict[str, Any]:
    return {"f": measured.f, "g": measured.g, **measured.extra}


def _show(row: dict[str, Any]) -> None:
    """The line of a record, which come ever less often."""
    g = row["train"]["g"]
    worst = float(g.max()) if g.numel() else 0.0
    progress.line(
        f"step {row['step']:>8}  {row['seconds']:7.1f} s  loss {float(row['train']['f'].mean()):.4f}  worst g {worst:+.4f}"
    )
