"""One run of a study, in one thread: prepared and read by its kind, solved, checkpointed and written here."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from fairbound.base.errors import CheckpointError, FairboundError
from fairbound.base.records import hardware, versions
from fairbound.solver.solve import solve
from fairbound.studies.registry import KINDS
from fairbound.studies.spec import Cell
from fairbound.studies.store import checkpoint_of, write_cell

SCHEMA = "fairbound.study-cell/1"


def run_cell(cell: Cell, folder: Path, data_dir: str | None, environment: dict[str, Any]) -> dict[str, Any]:
    """Run `cell` and write its files to `folder`, from its checkpoint there if an earlier run was stopped.

    environment: facts to keep beside the library's versions and the hardware (commit, jobs, backend).
    Returns: {"key", "status": "done" | "failed" | "interrupted", "message", "seconds"}; a failure of the run itself (a
    loss that is not finite, an empty group) is told and the study goes on.
    """
    began = time.perf_counter()
    with one_thread():
        try:
            told = _run(cell, folder, data_dir, environment)
        except (FairboundError, ArithmeticError) as error:
            told = {"status": "failed", "message": f"{type(error).__name__}: {error}"}
    return {"key": cell.key, "seconds": time.perf_counter() - began, **told}


def _run(cell: Cell, folder: Path, data_dir: str | None, environment: dict[str, Any]) -> dict[str, Any]:
    ready = KINDS[cell.kind].prepare(cell, data_dir)
    checkpoint = checkpoint_of(cell, folder)
    arguments: dict[str, Any] = {
        "budget": cell.budget, "batch_size": cell.batch_size, "sampling": cell.method.sampling, "seed": cell.seed,
        "checkpoint": checkpoint, "checkpoint_every": cell.checkpoint_every, **ready.options,
    }  # fmt: skip
    try:
        solution = solve(ready.problem, ready.config, **arguments)
    except CheckpointError:  # cut short, or of another version of the method: start anew
        checkpoint.unlink(missing_ok=True)
        solution = solve(ready.problem, ready.config, **arguments)
    if solution.stopped == "interrupted":
        return {"status": "interrupted", "message": "stopped by the user; it goes on from its checkpoint"}
    facts = {
        "data": cell.data.key, "method": cell.method.key, "seed": cell.seed, "checksum": ready.checksum,
        "versions": versions(), "hardware": hardware(), **environment,
    }  # fmt: skip
    records, own = ready.read(solution)
    result = {
        "schema": SCHEMA, "key": cell.key, "fingerprint": cell.fingerprint, **facts, "config": repr(ready.config),
        "budget": cell.budget, "steps": solution.steps, "seconds": solution.seconds, "counts": records[-1]["counts"],
        "message": solution.message, **own, "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }  # fmt: skip
    write_cell(folder, cell.key, result, [{"cell": cell.key, **r, **facts} for r in records])
    checkpoint.unlink(missing_ok=True)
    return {"status": "done", "message": result["message"]}


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Torch on one thread inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
