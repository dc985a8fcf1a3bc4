"""One run of a study, in one thread: the task made, solved, watched, measured, and written.

A study's measures are a module with

    Options               a dataclass of the task's options, checked at construction; none where it has none
    task(cell, data_dir)  the Task of a Cell
    numbers(run, compare) column -> value of one run, for results.json (see `fairbound.studies.table`)

and, where it has use for them, `Compare` (a dataclass of the options of an item's comparison), `STATISTICS` (pattern of
columns -> statistic over runs), `findings(block)`, `overall(study, findings, results)`, `absent(task, data_dir)`,
`check(task, data_dir)` (raises OptionError where the data lack what the task names, before anything runs) and `MEASURED`
(what the page says of the measurement).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from fairbound.base.errors import CheckpointError, FairboundError
from fairbound.base.records import hardware, versions
from fairbound.base.threads import one_thread
from fairbound.problems.problem import Measured, Problem
from fairbound.problems.wrappers import Watched
from fairbound.solver.solve import Solution, solve
from fairbound.studies.checked import imported
from fairbound.studies.spec import Cell
from fairbound.studies.store import checkpoint_of, write_cell

SCHEMA = "fairbound.study-cell/2"
COUNTED = ("samples", "values", "gradients", "jvps", "jacobians")
SHOWN = ("apart", "largest_lambda", "largest_mu")
Row = dict[str, Any]


@dataclass
class Before:
    """The training that made the point that a run begins at. words: that point, for the message of the run. seconds: of
    the processor; steps, samples: of all its runs, also those whose models were not taken."""

    words: str
    seconds: float = 0.0
    steps: int = 0
    samples: int = 0

    def add(self, solution: Solution, after: Solution | None = None) -> Solution:
        """Count the steps and rows of a solution, less those of the one that it went on from; return it."""
        self.steps += solution.steps - (0 if after is None else after.steps)
        self.samples += solution.counts.samples - (0 if after is None else after.counts.samples)
        return solution


@dataclass(frozen=True)
class Task:
    """What a cell runs, what is watched on the way, and how the models that it returns are measured.

    problem: as `solve` takes it. watch: x (n,) and the problem's own measurement there -> columns of the record.
    measure: x (n,) -> columns of the rows of the last, the best and (where the method has one) the random model; None
    for no such rows. derive: adds columns to the records of the finished run that depend on those before.
    options: further arguments of `solve`. about: the data in words, for the page. checksum: of the data.
    facts: what else the result is to say. trained: what runs the cell in place of `solve`, given its keyword arguments
    budget, batch_size, sampling and seed; the records of its solution are kept as they are. before: the training that
    made the start of `options`, whose cost is the run's too; where the run reports that start, a model was trained.
    """

    problem: Any
    watch: Callable[[Tensor, Measured], Mapping[str, Any]]
    measure: Callable[[Tensor], Mapping[str, Any]] | None = None
    derive: Callable[[list[Row]], None] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    about: str = ""
    checksum: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    trained: Callable[..., Solution] | None = None
    before: Before | None = None


@dataclass(frozen=True)
class Run:
    """A finished run. result: what its file says. records: its evaluations in order. models: of its outputs, "last",
    "best" and "random" where there is one. output: the one that its table rows are of."""

    result: dict[str, Any]
    records: list[Row]
    models: dict[str, Row]
    output: str

    @property
    def missed(self) -> bool:
        """Whether the model reported is the best iterate, and meets not all bounds that it was trained under."""
        return self.output == "best" and not self.result.get("feasible", True)

    def only_start(self, output: str = "") -> bool:
        """Whether its model `output`, by default the one reported, is the starting point: no iterate of the training
        met the bounds, or came nearer to them. A start that was trained before is a model like others."""
        model = self.models.get(output or self.output)
        return model is not None and model["step"] == 0 and not self.result.get("before")


def run_cell(cell: Cell, folder: Path, data_dir: str | None, environment: dict[str, Any]) -> dict[str, Any]:
    """Run `cell` and write its files to `folder`, from its checkpoint there if an earlier run was stopped.

    environment: facts to keep beside the library's versions and the hardware (commit, jobs, backend).
    Returns: {"key", "status": "done" | "failed" | "interrupted", "message", "seconds"}; a failure of the run itself (a
    loss that is not finite, an empty group) is reported and the study goes on.
    """
    began = time.perf_counter()
    with one_thread():
        try:
            status = _run(cell, folder, data_dir, environment)
        except (FairboundError, ArithmeticError) as error:
            status = {"status": "failed", "message": f"{type(error).__name__}: {error}"}
    return {"key": cell.key, "seconds": time.perf_counter() - began, **status}


def _run(cell: Cell, folder: Path, data_dir: str | None, environment: dict[str, Any]) -> dict[str, Any]:
    task = imported(cell.measures).task(cell, data_dir)
    solution, config = _solved(task, cell, folder)
    if solution.interrupted:
        return {"status": "interrupted", "message": "stopped by the user; it goes on from its checkpoint"}
    facts = {
        "cell": cell.key, "data": cell.data, "method": cell.method.key, "seed": cell.seed, "checksum": task.checksum,
    }  # fmt: skip
    run_on = {"versions": versions(), "hardware": hardware(), **environment}
    records = [{**facts, "output": None, **row} for row in solution.records]
    if task.derive is not None:
        task.derive(records)
    if task.measure is not None:
        for output, x in _models(solution).items():
            step = int(solution.best_step) if output == "best" else solution.steps
            records.append({**facts, "output": output, "step": step, **task.measure(x)})
    before, message = task.before, _message(task, solution)
    result = {
        "schema": SCHEMA, **facts, "fingerprint": cell.fingerprint, **run_on, "config": repr(config),
        "task": cell.task, "budget": cell.budget, "steps": solution.steps, "seconds": solution.seconds,
        "before": None if before is None else asdict(before), "feasible": bool(solution.feasible), "about": task.about,
        "message": message, **task.facts,
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }  # fmt: skip
    write_cell(folder, cell.key, result, [{**row, **run_on} for row in records])
    checkpoint_of(cell, folder).unlink(missing_ok=True)
    return {"status": "done", "message": message}


def _message(task: Task, solution: Solution) -> str:
    """What the run ended with; of a trained start that it reports, not that there is only a start."""
    if task.before is None or int(solution.best_step) > 0 or not task.problem.m:
        return solution.message
    if bool(solution.feasible):
        return f"every bound is met by {task.before.words}."
    return f"{task.before.words} misses a bound by {float(solution.violation):.4g}."


_BEGUN: set[str] = set()
"""Methods that have made two steps in this process before they were timed: what is
loaded at first use is no cost of theirs."""


def _solved(task: Task, cell: Cell, folder: Path) -> tuple[Solution, Any]:
    problem = _Timed(task.problem, task.watch)
    method, checkpoint = cell.method, checkpoint_of(cell, folder)
    per_epoch = dict.fromkeys(method.per_epoch, math.ceil(task.problem.rows / cell.batch_size))
    config = method.config({**cell.options, **per_epoch})
    basic: dict[str, Any] = {
        "budget": cell.budget, "batch_size": cell.batch_size, "sampling": method.sampling, "seed": cell.seed,
    }  # fmt: skip
    if task.trained is not None:
        return task.trained(**basic), config
    arguments: dict[str, Any] = {
        **basic, "average": method.average, "record_every": cell.record_every or None, "keep": lambda row: _kept(row, problem),
        "checkpoint": checkpoint, "checkpoint_every": cell.checkpoint_every, **task.options,
    }  # fmt: skip
    if config.name not in _BEGUN:
        solve(task.problem, config, **{**basic, "budget": "2 steps"})
        _BEGUN.add(config.name)
    problem.since = time.thread_time()
    try:
        return solve(problem, config, **arguments), config
    except CheckpointError:  # cut short, or of another version of the method: start anew
        checkpoint.unlink(missing_ok=True)
        return solve(problem, config, **arguments), config


class _Timed(Watched):
    """A watched problem that knows the processor seconds of its thread outside evaluations: `cpu`,
    after each of them."""

    def __init__(self, inner: Problem, watch: Callable[[Tensor, Measured], Mapping[str, Any]]):
        super().__init__(inner, watch)
        self.first, self.cpu, self.since = True, 0.0, time.thread_time()

    def evaluate(self, x: Tensor) -> Measured:
        self.cpu += time.thread_time() - self.since
        measured = super().evaluate(x)
        self.since = time.thread_time()
        return measured


def _kept(row: Row, problem: _Timed) -> Row:
    """What is kept of a record of `solve`: counters, what was watched, and the method's outer iterates, level and upper
    bound where it has them. A run taken up from its checkpoint counts what went before in seconds of the clock."""
    if problem.first and row["step"]:
        problem.cpu = float(row["seconds"])
    problem.first = False
    calls = row["values"] + row["gradients"] + row["jvps"] + (1 + problem.m) * row["jacobians"]
    return {
        "step": row["step"], "seconds": row["seconds"], "cpu": problem.cpu, "samples": row["samples"],
        "passes": row["samples"] / problem.rows, "calls": calls, "counts": {name: row[name] for name in COUNTED},
        **row["train"]["watched"], **{name: row.get(name) for name in ("outer", "level", "upper")},
        **{name: row[name] for name in SHOWN if name in row},
    }  # fmt: skip


def _models(solution: Solution) -> dict[str, Tensor]:
    models = {"last": solution.last, "best": solution.x}
    return models | ({"random": solution.state.output} if hasattr(solution.state, "output") else {})
