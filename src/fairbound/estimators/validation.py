"""Validation rows: how many are held back, when they show that a bound is missed,
which groups say too little of new rows."""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

from fairbound.confidence.single import clopper_pearson
from fairbound.fairness.compiled.builder import compile_plan
from fairbound.fairness.few_rows import cells_behind
from fairbound.fairness.notions import Bound
from fairbound.fairness.problem import FairProblem
from fairbound.rows.groups import Groups

VALIDATION = 0.2

CONFIRM = "certify=True confirms a bound on rows kept apart."
"""How a note on a model without a certificate ends."""


def held_share(
    asked: float | str,
    at_once: bool,
    stated: tuple[Bound, ...],
    groups: Groups,
    y: np.ndarray,
    classes: np.ndarray,
) -> tuple[float, list[str]]:
    """The share of rows to hold back: a number `asked` for; or by "auto" VALIDATION, but none for a method of all rows at
    once, which needs no choice of iterate, and where a part of the smallest group or class could not show the bound,
    which a note then says."""
    if asked != "auto":
        return float(asked), []
    if at_once:
        return 0.0, []
    for about in ("group", "class"):
        bounds = tuple(b for b in stated if b.about == about)
        if not bounds:
            continue
        plan = compile_plan(bounds, groups, y, classes.tolist())
        used = np.concatenate([cells_behind(plan, plan.rows_of(number)) for number in range(len(bounds))])
        rows = plan.counts(groups.codes, y)
        rows = rows[used] if len(used) else rows  # not those of groups left out
        smallest = int(rows[rows > 0].min(initial=len(y)))
        if VALIDATION * smallest < max(*(b.fewest_rows for b in bounds), 50):
            return 0.0, [
                f"No rows were held back for validation: the smallest {about} has {smallest} rows, too few to measure "
                f"{bounds[0].measures} as small as the bound on a part of them. The bound was verified on the training rows."
            ]
    return (VALIDATION if stated else 0.0), []


def missed_beyond_chance(problem: FairProblem, held: FairProblem, x: Tensor) -> list[str]:
    """The bounds on classes that x meets on its own rows and misses on the rows `held`, where even the lower confidence
    limit of the error (at 5 %) is above the bound."""
    met = problem.evaluate(x).g <= 0
    g, rows, plan, out = held.evaluate(x).g, held.counts_of_cells(), held.plan, []
    for number, notion in enumerate(plan.notions):
        if notion.about == "class":
            at = plan.rows_of(number)[0]
            if at >= len(plan.index):  # a function of means is no share of rows
                continue
            n = rows[plan.index[at, 0]]
            wrong = min(max(float(g[at]) + notion.bound, 0.0), 1.0) * n
            if met[at] and clopper_pearson(wrong, n, 0.05, "lower")[0] > notion.bound:
                out.append(notion.text)
    return out


def thin_groups(problem: FairProblem) -> list[str]:
    """For each bound on shares of rows, what is said where the smallest group's share in
    new rows has a standard error above it."""
    out = []
    plan, rows = problem.plan, problem.counts_of_cells()
    for number, bound in enumerate(plan.notions):
        used = cells_behind(plan, plan.rows_of(number))
        if not len(used):  # as of a function of means
            continue
        cell = min(used.tolist(), key=lambda c: rows[c])
        n = max(int(rows[cell]), 1)
        spread = 0.5 / math.sqrt(n)
        if bound.about == "group" and bound.step_of(n) == 1 / n and bound.bound < spread:
            out.append(
                f"{bound.text} is met on the training rows; of new rows they say less: a share of {n:,} rows, as many as "
                f"{plan.cell_names[cell]!r} has, has a standard error of up to {spread:.2g}. {CONFIRM}"
            )
    return out
