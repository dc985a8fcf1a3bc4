"""Choosing settings on validation rows: every method gets as many trials, of the same length, on the same rows.

Test rows are not loaded into a trial: a share of the training rows is held apart in their place. A setting is better

1. if its trial misses the bound by less on the rows that it trained on: what a run is asked to do;
2. then if it misses it by less on these rows and the held ones together: a small group has few held rows, on which
   alone a gap is mostly chance;
3. then if its loss on the held rows is lower.

All are means over the tuning seeds. A trial that reports its starting point misses the bound, as no training met it,
and is judged by its last iterate. For methods that tune by the loss only the last rule counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairbound.base.errors import OptionError
from fairbound.base.names import did_you_mean
from fairbound.fairness.notions import constraint
from fairbound.studies.spec import Cell, MethodSpec, StudySpec
from fairbound.studies.store import is_done, read_cell_records


@dataclass(frozen=True)
class Judged:
    """A trial, or the mean of those of a setting. loss, gap: on the held rows. missed: by how much the bound is missed
    on the rows of training, infinite where a trial met it at no better loss than its start; together: on these and the
    held rows. starts: whether it reports its start, or the share of trials that do."""

    missed: float
    together: float
    loss: float
    gap: float
    starts: float


def choose(study: StudySpec, trials: list[Cell], folder: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """data -> method -> the best setting by the means over the tuning seeds.

    Of a setting: "options", "loss" and "gap" on the held rows, "trials": settings tried, "met": those whose trials met
    the bound on the rows of training, "warning": what is to be said where none did, else "". A method without a
    finished trial (it cannot take the bound, say) is left out.
    Raises: OptionError where the measures lack what the study tunes by.
    """
    found: dict[tuple[str, str], dict[int, list[Judged]]] = defaultdict(lambda: defaultdict(list))
    for cell in (c for c in trials if is_done(c, folder)):
        rows = read_cell_records(folder, cell.key)
        models = {r["output"]: r for r in rows if r["output"] is not None}  # their test rows are the validation rows
        place = cell.method.trials().index(dict(cell.options))
        found[cell.data, cell.method.key][place].append(_judged(study, cell, models))
    chosen: dict[str, dict[str, dict[str, Any]]] = {}
    for data, key in dict.fromkeys((c.data, c.method.key) for c in trials):
        if found[data, key]:
            method, title = study.methods[key], study.data[data].title
            chosen.setdefault(data, {})[key] = _best(method, title, found[data, key])
    return chosen


def _judged(study: StudySpec, cell: Cell, models: Mapping[str, Mapping[str, Any]]) -> Judged:
    """What a trial is judged by: of its models the one reported, or the last where that is the start."""
    asked, model = study.tuning, models[cell.method.output]
    start = model["step"] == 0
    model = models["last"] if start else model

    def measured(column: str) -> float:
        if column in model:
            return float(model[column])
        raise OptionError(
            f"study {study.name!r} tunes by {column!r}, which its trials do not measure"
            f"{did_you_mean(column, model, before='; ')} State columns that they have under [tuning]; a folder of trials "
            "of an earlier version cannot go on."
        )

    met = asked.tolerance
    if met is None:
        met = constraint(cell.task["constraint"]).bound if "constraint" in cell.task else 0.0
    missed, together = (max(measured(column) - met, 0.0) for column in (asked.train, asked.together))
    missed = np.inf if start and missed == 0 else missed
    return Judged(missed, together, measured(asked.loss), measured(asked.value), float(start))


def _best(method: MethodSpec, data: str, by_place: Mapping[int, list[Judged]]) -> dict[str, Any]:
    means = {place: _mean(judged) for place, judged in by_place.items()}
    by_loss = method.tune_by == "loss"

    def rank(place: int) -> tuple[float, ...]:
        its = means[place]
        return (its.loss, place) if by_loss else (its.missed, its.together, its.loss, place)

    place = min(means, key=rank)
    best, met = means[place], sum(its.missed == 0 for its in means.values())
    warning = "" if met or by_loss else f"{method.title} on {data}: no setting met the bound in its trial{_by(best)}."
    return {
        "options": method.trials()[place], "loss": best.loss, "gap": best.gap, "trials": len(means), "met": met,
        "warning": warning,
    }  # fmt: skip


def _by(best: Judged) -> str:
    if not np.isfinite(best.missed):
        return "; none is better than its starting point"
    words = "the last iterate of the one chosen" if best.starts else "the one chosen"
    return f"; {words} missed it by {best.missed:.3g} on the rows that it trained on"


def _mean(judged: list[Judged]) -> Judged:
    return Judged(*np.array([astuple(j) for j in judged]).mean(0).tolist())
