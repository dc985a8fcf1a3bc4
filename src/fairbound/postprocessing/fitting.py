"""From scores, labels, groups and stated bounds to the rule that decides best under them, and what is known of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from fairbound.base.errors import DataError, OptionError
from fairbound.base.names import shortlist
from fairbound.base.records import plain
from fairbound.fairness.bound import Bound
from fairbound.fairness.compiled.builder import compile_plan
from fairbound.fairness.compiled.contrasts import PlanContrasts
from fairbound.fairness.compiled.plan import Plan
from fairbound.fairness.few_rows import bounds_below_a_step
from fairbound.postprocessing.costs import EQUAL, checked_costs, saves_nothing
from fairbound.postprocessing.curves import at_threshold, curve_of
from fairbound.postprocessing.deterministic import best_choice
from fairbound.postprocessing.optimum import Mixture, Relaxation, lower_bound
from fairbound.postprocessing.program import Program, program_of
from fairbound.postprocessing.rule import GroupRule
from fairbound.rows.groups import Groups, cross
from fairbound.rows.scores import check_finite_scores

FEW_ROWS = 50
"""Fewer rows than these say little of a threshold of their own."""
SHORT = 0.01
"""By so much more than that of mixtures the mean cost of single thresholds is said."""
SEEN = 0.0005
"""The same where they decide alike for all: as much as three digits show."""


@dataclass(frozen=True, kw_only=True)
class RuleOptions:
    """randomised: whether a group may mix thresholds. costs: of a false positive and of a false negative; equal ones
    make accuracy the objective."""

    randomised: bool = False
    costs: tuple[float, float] = EQUAL

    def __post_init__(self) -> None:
        object.__setattr__(self, "costs", checked_costs(self.costs))


def fit_rule(
    scores: np.ndarray,
    target: np.ndarray,
    groups: Groups,
    bounds: Sequence[Bound],
    *,
    classes: Sequence[Any] = (0, 1),
    weight: np.ndarray | None,
    options: RuleOptions | None = None,
) -> tuple[GroupRule, dict[str, Any]]:
    """The rule of lowest cost under the bounds on these rows, and a report of it as plain data
    (docs/postprocessing.md).

    scores: (n,) finite, larger is more positive. target: (n,) in {0, 1}, of the labels `classes`. groups: of the rows.
    weight: (n,) >= 0, None for equal ones.
    Raises: OptionError where a bound is no weighted sum of rates, where no rule meets the bounds, or where none with
        one threshold per group was found; DataError for scores that are not finite; EmptyGroupError for a group without
        the rows that a bound compares.
    """
    options = options or RuleOptions()
    check_finite_scores(scores)
    weight = np.ones(len(scores)) if weight is None else weight
    some = np.flatnonzero(weight > 0)
    scores, target, weight, known = scores[some], target[some], weight[some], groups.take(some)
    if len(np.unique(target)) < 2:
        raise DataError("all rows of positive weight have one class; both are needed to choose thresholds.")
    plan = compile_plan(bounds, known, target, classes)
    at = sorted({a for column in plan.columns for a in (*column.attributes, *column.known)})
    codes, member = _members(known.codes[:, at], [len(known.labels[a]) for a in at])
    whole = np.full((len(codes), len(known.attributes)), -1, dtype=np.int64)
    whole[:, at] = codes
    each = _rows_of(member, len(codes))
    curves = tuple(curve_of(scores[rows], target[rows], weight[rows]) for rows in each)
    program = program_of(plan, whole, curves, options.costs)
    whole_curve = curve_of(scores, target, weight)
    pooled = float(whole_curve.thresholds[(whole_curve.selected @ program.unit_costs).argmin()])
    count = np.bincount(member, minlength=len(codes))
    if len(few := _few_under_no_bound(program, count)):
        at_pooled = {c: at_threshold(pooled, scores[each[c]], target[each[c]], weight[each[c]]) for c in few.tolist()}
        curves = tuple(at_pooled.get(c, curve) for c, curve in enumerate(curves))
        program = replace(program, curves=curves)
    relaxation = Relaxation(program)
    root = relaxation.solve([(0, len(c) - 1) for c in curves])
    if root is None:
        raise OptionError(_infeasible(bounds, relaxation.least_excess()))
    mixture, proved = (root, True) if options.randomised else _single(program, relaxation, root, bounds)
    rule = GroupRule(
        tuple(known.attributes[a] for a in at),
        tuple(known.labels[a] for a in at),
        codes,
        tuple(tuple(c.thresholds[p].tolist()) for c, p in zip(curves, mixture.points, strict=True)),
        tuple(tuple(s.tolist()) for s in mixture.shares),
        pooled,
    )
    return rule, {
        **_report(plan, program, rule, mixture, root, proved, count),
        "warnings": _of_few_rows(rule, count, few),
        "rows": len(scores),
        "dropped_groups": list(plan.dropped),
        "dropped_rows": dict(zip(plan.dropped, plan.dropped_rows, strict=True)),
        "small_groups": small_groups(plan, known, target),
    }


def small_groups(plan: Plan, groups: Groups, target: np.ndarray) -> list[str]:
    """What is said of groups with too few rows for the bounds. groups, target: of the n rows of the plan."""
    return [found.said for found in bounds_below_a_step(plan, plan.counts(groups.codes, target))]


def _members(codes: np.ndarray, sizes: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows of codes (n, A), -1 among them, and which of them each row is."""
    if not sizes:
        return np.zeros((1, 0), dtype=np.int64), np.zeros(len(codes), dtype=np.int64)
    flat = cross([column + 1 for column in codes.T], [size + 1 for size in sizes])
    _, first, member = np.unique(flat, return_index=True, return_inverse=True)
    return codes[first], member.ravel()


def _rows_of(member: np.ndarray, k: int) -> list[np.ndarray]:
    order = np.argsort(member, kind="stable")
    return np.split(order, np.cumsum(np.bincount(member, minlength=k))[:-1])


def _infeasible(bounds: Sequence[Bound], excess: float) -> str:
    stated = " and ".join(repr(b.text) for b in bounds)
    return (
        f"no thresholds meet {stated} on these scores, mixed or not: the smallest excess over a bound is {excess:.4g}. Loosen a "
        "bound, or give a better score."
    )


def _single(program: Program, relaxation: Relaxation, root: Mixture, bounds: Sequence[Bound]) -> tuple[Mixture, bool]:
    """The best choice of one threshold per group as a mixture of one, and whether it is proved."""
    found = best_choice(program, relaxation, root)
    if found is None:
        stated = " and ".join(repr(b.text) for b in bounds)
        raise OptionError(
            f"no rule with one threshold for each group was found that meets {stated}; mixtures of thresholds do. Loosen the "
            "bound, or take randomised=True."
        )
    points = tuple(np.array([p]) for p in found.points)
    return Mixture(points, (np.ones(1),) * len(points), found.cost, root.multipliers), found.proved


def _report(
    plan: Plan, program: Program, rule: GroupRule, mixture: Mixture, root: Mixture, proved: bool, rows: np.ndarray
) -> dict[str, Any]:
    selected = mixture.selected(program)
    cost, least = program.cost(selected), lower_bound(program, root.multipliers)
    constant = program.cost_of_constants
    right = selected[:, 1].sum() + sum(float(c.total[0]) for c in program.curves) - selected[:, 0].sum()
    equal = program.costs[0] == program.costs[1]
    thresholds = rule.to_dict()["thresholds"]
    tight = np.flatnonzero(root.multipliers > 0)
    return {
        "constraints": _stated_values(plan, program, selected),
        "accuracy": float(right / program.total),
        "accuracy_bound": 1 - least / program.costs[0] if equal else None,
        "costs": list(program.costs),
        "cost": cost,
        "no_better_than_constant": saves_nothing(cost, constant, int(rows.sum()), max(program.costs)),
        "lowest_cost": least,
        "gap": cost - least,
        "proved": proved,
        "randomised": rule.randomised,
        "multipliers": {plan.names[program.row_of[i]]: float(root.multipliers[i]) for i in tight},
        "groups": [
            {"group": rule.name(c), "rows": int(rows[c]), "thresholds": thresholds[c], "shares": list(rule.shares[c])}
            | _rates(curve.total, selected[c])
            for c, curve in enumerate(program.curves)
        ],
        "shortfall": _shortfall(program, root, selected, cost, equal),
    }


def _stated_values(plan: Plan, program: Program, selected: np.ndarray) -> list[dict[str, Any]]:
    """Every bound with its value on the rows; of a rule that is random, that of its mean rates."""
    q = torch.zeros(plan.n_cells, dtype=torch.float64)
    q[torch.as_tensor(program.cells)] = torch.as_tensor(program.means(selected))
    contrasts = PlanContrasts(plan)
    out = []
    for number, bound in enumerate(plan.notions):
        value = float(bound.value_of(*contrasts.raw(q, plan.rows_of(number))))
        out.append(
            {
                "text": bound.text,
                "sense": bound.sense,
                "bound": float(bound.stated),
                "train_value": plain(value),
            }
        )
    return out


def _rates(total: np.ndarray, selected: np.ndarray) -> dict[str, Any]:
    """The rates of a group by the weights (2,) of its rows and of its selected rows of both labels."""
    return {
        "selection_rate": float(selected.sum() / total.sum()),
        "true_positive_rate": float(selected[1] / total[1]) if total[1] > 0 else None,
        "false_positive_rate": float(selected[0] / total[0]) if total[0] > 0 else None,
    }


def _few_under_no_bound(program: Program, rows: np.ndarray) -> np.ndarray:
    """The numbers of the groups of few rows that no bound holds for. rows: (C,) of each group."""
    free = (abs(program.matrix).sum(0) == 0).reshape(-1, 2).all(1)
    return np.flatnonzero(free & (rows < FEW_ROWS))


def _of_few_rows(rule: GroupRule, rows: np.ndarray, pooled: np.ndarray) -> list[str]:
    """What is said of groups of few rows. pooled: the numbers of those that the threshold of all rows decides."""
    order = [c for c in np.argsort(rows, kind="stable").tolist() if rows[c] < FEW_ROWS]
    said = (
        f"Thresholds fitted to fewer than {FEW_ROWS} rows follow these rows and may miss the bound on new ones: {{}}.",
        f"Groups of fewer than {FEW_ROWS} rows that no bound holds for are decided by the best threshold of all rows together: {{}}.",
    )
    few = [c for c in order if c not in pooled], [c for c in order if c in pooled]
    named = (shortlist(f"{rule.name(c)!r} ({rows[c]})" for c in some) for some in few)
    return [text.format(names) for text, names in zip(said, named, strict=True) if names]


def _shortfall(program: Program, root: Mixture, selected: np.ndarray, cost: float, equal: bool) -> str | None:
    """That mixtures of thresholds cost less by far than single ones,
    or by anything that is seen where these decide alike for all."""
    share = selected.sum() / program.total
    constant = len(program.curves) > 1 and (share <= 0 or share >= 1)
    if cost - root.cost <= (SEEN if constant else SHORT) * max(program.costs):
        return None
    head = (
        "Every row gets the same decision: no other choice of one threshold for each group that meets the bounds was found."
        if constant
        else "One threshold for each group costs much under these bounds."
    )
    here, mixed = (1 - c / program.costs[0] if equal else c for c in (cost, root.cost))
    what = "accuracy" if equal else "mean cost of an error"
    return f"{head} The {what} on the rows of fit is {here:.3f}; mixtures of thresholds, which decide some rows by a draw, have {mixed:.3f}."
