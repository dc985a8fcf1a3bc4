"""Run a study: pending cells through joblib, then the merged records, the numbers and the findings.

Everything is kept in one folder. A cell that is finished is not run again, a cell that was stopped goes on from its
checkpoint, and a cell whose settings have changed is run anew; so a killed sweep restarts where it stopped.

`study.json`     what was asked, what was found of the data, environment, failures
`cells/`         a result and the records of every cell (see `store`)
`records.jsonl`  the records of all cells, one table
`results.json`   the numbers of each table, the paper's beside ours
`summary.json`   the blocks of the page with their findings
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fairbound.base.errors import DataError, OptionError
from fairbound.base.files import atomic_write_many, atomic_write_text, check_writable
from fairbound.base.records import hardware, plain, versions
from fairbound.data.files import data_folder
from fairbound.studies import workers
from fairbound.studies.checked import imported
from fairbound.studies.library import load_spec
from fairbound.studies.spec import TUNED, Cell, ItemSpec, StudySpec
from fairbound.studies.store import checkpoint_of, is_done, read_cell_records, read_result
from fairbound.studies.table import summarise
from fairbound.studies.task import Run, run_cell
from fairbound.studies.tuning import choose

SCHEMA = "fairbound.study/2"
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
    tune: also choose settings of every method on validation rows, with equal budgets, and run them as the item
    "KEY-tuned" of each that is tuned.
    seeds, budget: in place of the study's own. say: receives lines of progress.
    Raises: OptionError for wrong use, and where `out` holds another study; DataError where `data_dir` is no folder,
        data cannot be read or no cell finishes; KeyboardInterrupt after Ctrl-C, with finished cells and checkpoints kept.
    """
    study = spec if isinstance(spec, StudySpec) else load_spec(spec)
    study = _asked(study, quick, only, tune, seeds, budget)
    place = None if data_dir is None else str(data_folder(data_dir, study.name))
    folder = check_writable(Path(out))
    _refuse_another(folder, study.name)
    cells_folder = check_writable(folder / "cells")
    study, notes = _placed(study, place)
    environment = {"commit": commit(), "jobs": jobs, "backend": backend}
    engine = _Engine(cells_folder, place, environment, jobs, backend, say)
    chosen: dict[str, Any] = {}
    if trials := study.trials():
        engine.run(trials)
        chosen = choose(study, trials, cells_folder)
        for text in (its["warning"] for by in chosen.values() for its in by.values() if its["warning"]):
            say(text)
        atomic_write_text(folder / "tuned.json", json.dumps(chosen, indent=2) + "\n")
    cells = study.cells({d: {m: c["options"] for m, c in by.items()} for d, by in chosen.items()})
    engine.run(cells)
    found = [c for c in cells if is_done(c, cells_folder)]
    if not found:
        first = next(iter(engine.failures.values())).removesuffix(".")
        raise DataError(f"no cell of the study finished; the first reason: {first}.")
    results = {c.key: its for c in found if (its := read_result(cells_folder, c.key)) is not None}
    used = {kind: {name for item in study.items for name in getattr(item, kind)} for kind in ("data", "methods")}
    facts = {
        "schema": SCHEMA, **{k: v for k, v in asdict(study).items() if k not in ("quick", "checkpoint_every")},
        "measured": {**getattr(imported(study.measures), "MEASURED", {}), **study.measured},
        "quick": quick, "items": [_item(study, item, chosen) for item in study.items],
        "data": {d: asdict(study.data[d]) for d in study.data if d in used["data"]},
        "methods": {m: asdict(study.methods[m]) for m in study.methods if m in used["methods"]},
        "settings": _settings(study, chosen), "chosen": chosen, "notes": [*study.notes, *notes],
        "failures": engine.failures, "cells": {"asked": len(cells), "finished": len(found)},
        "environment": {**environment, "versions": versions(), "hardware": hardware(), "processors": os.cpu_count()},
        "slowdown": engine.slowdown, "paces": _paces(results.values()), "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }  # fmt: skip
    facts = plain(facts)
    _write(folder, study, facts, found, results)
    return StudyRun(folder, engine.done, engine.reused, tuple(engine.failures), facts)


def _paces(results: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """How many cells ran beside how many others, as their results say: a study may be finished with other jobs than it
    was begun with."""
    found: dict[tuple[Any, ...], int] = defaultdict(int)
    for result in results:
        found[tuple(result.get(name) for name in ("jobs", "backend", "slowdown"))] += 1
    return [
        {"jobs": jobs, "backend": backend, "slowdown": slowdown, "cells": n}
        for (jobs, backend, slowdown), n in found.items()
    ]


def _write(
    folder: Path, study: StudySpec, facts: dict[str, Any], cells: Iterable[Cell], results: dict[str, dict[str, Any]]
) -> None:
    """Merge the cells' records into records.jsonl, and write results.json, summary.json and study.json from them and
    from the cells' results, by their keys."""
    runs: dict[tuple[str, str], list[Run]] = defaultdict(list)
    with open(folder / "records.jsonl.part", "w", encoding="utf-8") as merged:
        for cell in cells:
            rows = read_cell_records(folder / "cells", cell.key)
            merged.writelines(json.dumps(r, allow_nan=False) + "\n" for r in rows)
            models = {r["output"]: r for r in rows if r["output"] is not None}
            records, output = [r for r in rows if r["output"] is None], study.methods[cell.method.key].output
            runs[cell.data, cell.method.key].append(
                Run(results[cell.key], records, models, output if models else "point")
            )
    os.replace(folder / "records.jsonl.part", folder / "records.jsonl")
    tables, summary = summarise(study, runs)
    contents = {"results.json": tables, "summary.json": summary, "study.json": facts}
    atomic_write_many(
        folder, {k: (json.dumps(plain(v), allow_nan=False, indent=1) + "\n").encode() for k, v in contents.items()}
    )


def _placed(study: StudySpec, data_dir: str | None) -> tuple[StudySpec, list[str]]:
    """The study without data that cannot be had, and a note for each: others take their place where the study names
    some.

    Raises: OptionError where none is left, and where the measures find that the data lack what the study names.
    """
    measures = imported(study.measures)
    absent = getattr(measures, "absent", lambda data, data_dir: "")
    check = getattr(measures, "check", lambda data, data_dir: None)
    notes, places = [], {}
    for key in dict.fromkeys(d for item in study.items for d in item.data):
        data = study.data[key]
        asked = {**study.task, **data.task, "key": key}
        why = absent(asked, data_dir)
        places[key] = data.instead if why else (key,)
        if why and data.instead:
            others = " and ".join(study.data[k].title for k in data.instead)
            notes.append(f"{data.title} is left out: {why} {others} take its place.")
        elif why:
            notes.append(f"{data.title} is left out: {why}")
        if not why:
            check(asked, data_dir)
    items = [replace(i, data=tuple(dict.fromkeys(k for d in i.data for k in places[d]))) for i in study.items]
    items = [item for item in items if item.data]
    if not items:
        raise OptionError(notes[0])
    return replace(study, items=tuple(items)), notes


def _item(study: StudySpec, item: ItemSpec, chosen: dict[str, Any]) -> dict[str, Any]:
    """The item as study.json has it. warnings: of a tuned one, by data, what is to be said of its `chosen` settings."""
    compare, own = study.compared(item), [m.removesuffix(TUNED) for m in item.methods if item.tuned]
    warnings = {
        d: [its["warning"] for m, its in chosen.get(d, {}).items() if m in own and its["warning"]] for d in item.data
    }
    return {**asdict(item), "compare": {} if compare is None else asdict(compare), "warnings": warnings}


def _settings(study: StudySpec, chosen: dict[str, Any]) -> list[dict[str, Any]]:
    """The settings of every method, in the items that share them; options given per epoch show 1. Of a tuned item they
    are those `chosen` on each of its data."""
    out: dict[tuple[str, ...], dict[str, Any]] = {}
    for item in study.items:
        for key, data in itertools.product(item.methods, item.data if item.tuned else ("",)):
            method = study.method_in(item, key)
            batch = "all rows" if method.sampling == "full" else f"{method.batch or item.batch or study.batch:,}"
            options = chosen.get(data, {}).get(key.removesuffix(TUNED), {}).get("options", method.options)
            said = {
                "title": f"{method.title} on {study.data[data].title}" if data else method.title,
                "algorithm": method.algorithm, "sampling": method.sampling, "batch": batch,
                "config": repr(method.config({**options, **dict.fromkeys(method.per_epoch, 1)})),
                "output": method.output,
            }  # fmt: skip
            out.setdefault(tuple(said.values()), {**said, "items": []})["items"].append(item.key)
    return list(out.values())


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
            for n, end in enumerate(run(tasks), start=1):
                where = f"[{n}/{len(pending)}] {end['key']}"
                self.say(f"{where}: {end['status']} in {end['seconds']:.1f} s; {_outcome(end)}")
                if end["status"] == "done":
                    self.done += 1
                elif end["status"] == "failed":
                    self.failures[end["key"]] = end["message"]
                else:
                    stopped = True
                    break
        if stopped:
            raise KeyboardInterrupt


def _outcome(end: dict[str, Any]) -> str:
    """What a cell ended with; of a finished one without the advice, which is for a run by itself."""
    message: str = end["message"]
    return message.partition(". ")[0].removesuffix(".") if end["status"] == "done" else message


def _asked(
    study: StudySpec, quick: bool, only: Sequence[str] | None, tune: bool, seeds: int | None, budget: str | None
) -> StudySpec:
    if only is not None:
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
        found = [
            subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, timeout=10, check=True).stdout
            for words in (("rev-parse", "HEAD"), ("status", "--porcelain", "--untracked-files=no", "--", "."))
        ]
    except (OSError, subprocess.SubprocessError):
        return None
    return found[0].strip() + ("+" if found[1].strip() else "")
