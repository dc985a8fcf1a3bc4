"""Choosing settings on validation rows: every method gets as many trials, of the same length, on the same rows.

Test rows are not loaded into a trial: a share of the training rows judges in their place.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from fairbound.studies.spec import Cell, MethodSpec, StudySpec
from fairbound.studies.store import is_done, read_cell_records


def choose(study: StudySpec, trials: list[Cell], folder: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """data -> method -> {"options", "loss", "gap", "trials"} of the best setting, by means over the tuning seeds.

    A setting is better if its gap exceeds the tolerance by less, then if its loss is lower; for methods that tune by
    the loss, only the latter. A method without a finished trial (it cannot take the bound, say) is left out.
    """
    found: dict[tuple[str, str], dict[int, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for cell in (c for c in trials if is_done(c, folder)):
        rows = read_cell_records(folder, cell.key)
        judged = next(r for r in rows if r["output"] == cell.method.output)  # its test rows are the validation rows
        place = cell.method.trials().index(dict(cell.options))
        found[cell.data, cell.method.key][place].append((judged[study.tuning.loss], judged[study.tuning.value]))
    chosen: dict[str, dict[str, dict[str, Any]]] = {}
    for data, method in dict.fromkeys((c.data, c.method.key) for c in trials):
        if found[data, method]:
            chosen.setdefault(data, {})[method] = _best(study, study.methods[method], found[data, method])
    return chosen


def _best(study: StudySpec, method: MethodSpec, by_place: dict[int, list[tuple[float, float]]]) -> dict[str, Any]:
    scored = []
    for place, judged in by_place.items():
        losses, gaps = np.array(judged).T
        excess = float(np.maximum(gaps - study.tuning.tolerance, 0).mean()) if method.tune_by == "bound" else 0.0
        scored.append((excess, float(losses.mean()), float(gaps.mean()), place))
    _, loss, gap, place = min(scored)
    return {"options": method.trials()[place], "loss": loss, "gap": gap, "trials": len(scored)}
