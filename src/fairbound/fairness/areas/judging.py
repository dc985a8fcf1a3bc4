"""The exact value and the verdict of bounds that compare areas under ROC curves between sets of groups and labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairbound.base.errors import EmptyGroupError
from fairbound.base.names import Names
from fairbound.confidence.auc import area_bounds, area_rows_needed, measure_areas
from fairbound.confidence.contrasts import Contrasts, joined
from fairbound.fairness.areas.compared import Comparisons
from fairbound.fairness.comparing import Compared
from fairbound.fairness.compiled.builder import CONDITION
from fairbound.fairness.scored import Finding, Scored
from fairbound.fairness.verdicts.clustered import method_of_rows
from fairbound.fairness.verdicts.findings import finding, nothing_found, stated_facts
from fairbound.fairness.verdicts.judging import without_rows
from fairbound.fairness.verdicts.leaving_out import left_out_facts
from fairbound.ranking.wins import Wins, cell_wins
from fairbound.rows.groups import cross

METHOD = "DeLong variances with Clopper-Pearson limits of the single areas, joined by MOVER; Bonferroni over contrasts (lower bound) and stated bounds"


def cells_of_rows(rows: Scored, compared: Compared) -> np.ndarray:
    """(n,) the cell of each row, label * G + group; -1 where its group is not known or its weight is 0."""
    codes = rows.groups.codes
    group = cross([codes[:, a] for a in compared.attributes], compared.sizes)
    known = group >= 0 if rows.weight is None else (group >= 0) & (np.asarray(rows.weight) > 0)
    return np.where(known, rows.target * int(np.prod(compared.sizes)) + group, -1)


def measured_areas(bound: Any, rows: Scored) -> np.ndarray:
    """(m,) the differences of areas on the rows. Raises: EmptyGroupError as the bound's `differences` does."""
    values = []
    for found, _ in bound.differences(rows.occurring):
        cells = cells_of_rows(rows, found.compared)
        values.append(differences_of_areas(cell_wins(rows.scores, cells, found.sets.shape[1], rows.weight), found))
    return np.concatenate(values)


def differences_of_areas(wins: Wins, found: Comparisons) -> np.ndarray:
    """(m,) the differences of the areas compared, from the wins between their cells."""
    areas = wins.between(found.sets)
    first, second, third, fourth = found.sides.T
    return areas[first, second] - areas[third, fourth]


def largest_difference(wins: Wins, found: Comparisons) -> float:
    """The largest difference of the areas compared."""
    return float(differences_of_areas(wins, found).max())


def judge_areas(bound: Any, rows: Scored, alpha: float) -> Finding:
    """The verdict on the largest difference of areas, of all sets of attributes together."""
    try:
        made = bound.differences(rows.occurring, "drop")
    except EmptyGroupError as error:
        return stated_facts(bound, rows) | nothing_found(str(error)) | left_out_facts(bound, rows.occurring)
    missing = without_rows(bound, rows, (name for _, dropped in made for name in dropped))
    parts = [_areas(rows, found) for found, _ in made]
    level = alpha / sum(len(found) for found, _ in made)
    found = joined([area_bounds(areas, contrasts, level * len(contrasts), alpha) for areas, contrasts in parts])

    def needed() -> int | None:
        each = [
            area_rows_needed(a, c, len(rows), float(bound.bound), level * len(c), alpha, rows.power) for a, c in parts
        ]
        return None if any(n is None for n in each) else max(n for n in each if n is not None)

    method = method_of_rows(METHOD, rows)
    groups = rows_compared(rows, made, bound.conditions())
    name = Names([(len(found), found.name) for found, _ in made]).__getitem__
    return finding(bound, rows, found, name, groups, method, needed, missing=missing)


def _areas(rows: Scored, found: Comparisons) -> tuple[Any, Contrasts]:
    """The areas that are compared, and the contrasts between them."""
    pairs, place = np.unique(found.sides.reshape(-1, 2), axis=0, return_inverse=True)
    contrasts = Contrasts(place.reshape(-1, 2), np.broadcast_to([1.0, -1.0], (len(found), 2)))
    cells = cells_of_rows(rows, found.compared)
    return measure_areas(rows.scores, cells, found.sets, pairs, contrasts, rows.weight, rows.clusters), contrasts


def rows_compared(
    rows: Scored, made: list[tuple[Comparisons, list[str]]], conditions: tuple[int | None, ...]
) -> dict[str, int]:
    """Rows of each group that are compared, by label where it matters."""
    out: dict[str, int] = {}
    for found, _ in made:
        compared = found.compared
        for y in conditions:
            count = rows.occurring.per_group(compared.attributes, y)[compared.codes]
            out |= {f"{compared.name(g)}{CONDITION[y]}": int(n) for g, n in enumerate(count)}
    return out
