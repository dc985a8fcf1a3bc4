"""Run a study: pending cells through joblib, then the merged records, the numbers and the curves.

Everything is kept in one folder. A cell that is finished is not run again, a cell that was stopped goes on from its
checkpoint, and a cell whose settings have changed is run anew; so a killed sweep restarts where it stopped.

`study.json`     what was asked, what was found of the data, environment, failures
`cells/`         a result and the evaluations of every cell (see `store`)
`records.jsonl`  the evaluations of all cells
`results.json`   the numbers of each table, the paper's beside ours
`summary.json`   curves and findings: all that the figures need
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fairbound.base.errors import DataError, OptionError
from fairbound.base.files import atomic_write_many, atomic_write_text, check_writable
from fairbound.base.records import hardware, plain, versions
from fairbound.studies import workers
from fairbound.studies.cells import run_cell
from fairbound.studies.registry import KINDS, load_spec
from fairbound.studies.spec import Cell, MethodSpec, StudySpec, named
from fairbound.studies.store import checkpoint_of, is_done, read_cell_records, read_result

SCHEMA = "fairbound.study/1"
Say = Callable[[str], None]


@dataclass(frozen=True)
class StudyRun:
    """out: the folder. done, reused, failed: cells run now, found finished, not finished. study: as in study.json."""

    out: Path
    done: int
    reused: int
    failed: tuple[str, ...]
    study: dict[str, Any]


def run_study(
    spec: str | Path | StudySpec,
    out: str | os.PathLike[str],
    *,
    jobs: int = 1,
    backend: str = "loky",
    data_dir: str | os.PathLike[str] | None = None,
    quick: bool = False,
    only: Sequence[str] | None = None,
    tune: bool = False,
    seeds: int | None = None,
    budget: str | None = None,
    say: Say = lambda text: None,
) -> StudyRun:
    """Run a study into the folder `out`, or finish it where it stopped.

    spec: the name of a study, a TOML file, or a StudySpec. jobs: cells run at once, each in its own process and thread.
    backend: "loky" (processes), "threading", "ray" or "dask". quick: the study's short form. only: keys of its items.
    tune: also choose settings of every method on validation rows, with equal budgets, and run them as the item "tuned".
    seeds, budget: in place of the study's own. say: receives lines of progress.
    Raises: OptionError for wrong use, and where `out` holds another study; DataError where data cannot be read or no cell finishes; KeyboardInterrupt after
        Ctrl-C, with finished cells and checkpoints kept.
    """
    study = spec if isinstance(spec, StudySpec) else load_spec(spec)
    study = _asked(study, quick, only, tune, seeds, budget)
    folder = check_writable(Path(out))
    _refuse_another(folder, study.name)
    cells_folder = check_writable(folder / "cells")
    place = None if data_dir is None else str(data_dir)
    kind = KINDS[study.kind]
    study, notes = kind.place(study, place)
    environment = {"commit": commit(), "jobs": jobs, "backend": backend}
    engine = _Engine(cells_folder, place, environment, jobs, backend, say)
    chosen: dict[str, Any] = {}
    if trials := study.trials():
        engine.run(trials)
        assert kind.choose is not None
        chosen = kind.choose(study, trials, cells_folder)
        atomic_write_text(folder / "tuned.json", json.dumps(chosen, indent=2) + "\n")
    cells = study.cells({d: {m: c["options"] for m, c in by.items()} for d, by in chosen.items()})
    engine.run(cells)
    found = [c for c in cells if is_done(c, cells_folder)]
    if not found:
        first = next(iter(engine.failures.values())).removesuffix(".")
        raise DataError(f"no cell of the study finished; the first reason: {first}.")
    asked = {
        "schema": SCHEMA, "kind": study.kind, "name": study.name, "title": study.title, "source": study.source,
        "seeds": study.seeds, "quick": quick, "items": [asdict(i) for i in study.items],
        "data": {d: asdict(study.data[d]) for d in named(study.items, "data")},
        "methods": {m: _told(study.methods[m]) for m in named(study.items, "methods")},
        "paper": study.paper, "notes": [*study.notes, *notes],
        "failures": engine.failures, "cells": {"asked": len(cells), "finished": len(found)},
        "environment": {**environment, "versions": versions(), "hardware": hardware(), "processors": os.cpu_count()},
        "slowdown": engine.slowdown, "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }  # fmt: skip
    asked |= kind.facts(study, chosen)
    write_study(folder, asked, found)
    return StudyRun(folder, engine.done, engine.reused, tuple(engine.failures), asked)


def write_study(folder: Path, asked: dict[str, Any], cells: Iterable[Cell]) -> None:
    """Merge the cells' files into records.jsonl, and write results.json, summary.json and study.json from them."""
    runs = []
    with open(folder / "records.jsonl.part", "w", encoding="utf-8") as merged:
        for cell in cells:
            result, records = read_result(folder / "cells", cell.key), read_cell_records(folder / "cells", cell.key)
            assert result is not None
            runs.append((result, records))
            merged.writelines(json.dumps(r, allow_nan=False) + "\n" for r in records)
    os.replace(folder / "records.jsonl.part", folder / "records.jsonl")
    results, summary = KINDS[asked["kind"]].summarise(asked, runs)
    contents = {"results.json": results, "summary.json": summary, "study.json": asked}
    atomic_write_many(
        folder, {k: (json.dumps(plain(v), allow_nan=False, indent=1) + "\n").encode() for k, v in contents.items()}
    )


class _Engine:
    """Runs lists of cells, skips finished ones, and remembers what failed."""

    def __init__(self, folder: Path, data_dir: str | None, environment: dict, jobs: int, backend: str, say: Say):
        self.folder, self.data_dir, self.environment = folder, data_dir, environment
        self.jobs, self.backend, self.say = jobs, backend, say
        self.done = self.reused = 0
        self.failures: dict[str, str] = {}
        self.slowdown: dict[str, Any] | None = None

    def run(self, cells: list[Cell]) -> None:
        from joblib import delayed

        pending = []
        for cell in cells:
            if not is_done(cell, self.folder):
                pending.append(cell)
            else:  # it may have been killed after its result was written
                checkpoint_of(cell, self.folder).unlink(missing_ok=True)
        self.reused += len(cells) - len(pending)
        if len(pending) < len(cells):
            self.say(f"{len(cells) - len(pending)} of {len(cells)} cells are finished already")
        if not pending:
            return
        for cell in pending:  # a result of other settings would be read as this one's
            (self.folder / f"{cell.key}.json").unlink(missing_ok=True)
        if self.slowdown is None:
            self.slowdown = workers.slowdown(self.backend, self.jobs)
            if self.jobs > 1:
                self.say(f"{self.jobs} cells at once run {self.slowdown['slowdown']:.2f} times as long as one alone")
        facts = {**self.environment, "slowdown": round(self.slowdown["slowdown"], 3)}
        tasks = (delayed(run_cell)(cell, self.folder, self.data_dir, facts) for cell in pending)
        stopped = False
        with workers.workers(self.backend, self.jobs) as run:
            for n, told in enumerate(run(tasks), start=1):
                where = f"[{n}/{len(pending)}] {told['key']}"
                self.say(f"{where}: {told['status']} in {told['seconds']:.1f} s; {told['message']}")
                if told["status"] == "done":
                    self.done += 1
                elif told["status"] == "failed":
                    self.failures[told["key"]] = told["message"]
                else:
                    stopped = True
                    break
        if stopped:
            raise KeyboardInterrupt


def _asked(
    study: StudySpec, quick: bool, only: Sequence[str] | None, tune: bool, seeds: int | None, budget: str | None
) -> StudySpec:
    if only:
        study = study.only(only)
        if quick:
            study = replace(study, quick=replace(study.quick, items=()))
    if quick:
        study = study.quickly()
    if seeds is not None:
        study = replace(study, seeds=seeds)
    if budget is not None:
        study = study.within(budget)
    if tune:
        study = study.with_tuned()
    if not study.items:
        raise OptionError(f"study {study.name!r}: nothing to run; name one of its items.")
    return study


def _told(method: MethodSpec) -> dict[str, Any]:
    return {**asdict(method), "config": method.settings}


def _refuse_another(folder: Path, name: str) -> None:
    try:
        held = json.loads((folder / "study.json").read_text(encoding="utf-8"))["name"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if held != name:
        raise OptionError(f"{str(folder)!r} holds the study {held!r}; give {name!r} a folder of its own.")


def commit() -> str | None:
    """The revision of the source that runs, with "+" where files differ from it; None outside a checkout."""
    here = Path(__file__).resolve().parent
    try:
        told = [
            subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, timeout=10, check=True).stdout
            for words in (("rev-parse", "HEAD"), ("status", "--porcelain", "--untracked-files=no", "--", "."))
        ]
    except (OSError, subprocess.SubprocessError):
        return None
    return told[0].strip() + ("+" if told[1].strip() else "")
