"""Splits a plan into the difference of two plans with convex functions, given such splits of its statistics.

Of a contrast sum_t c_t q_t, a term with c_t > 0 gives c_t q_t+ to the plus part and c_t q_t- to the minus part, one
with c_t < 0 the other way round. A mean of the loss is convex as it is, so its minus part is 0; auxiliary variables are
linear and stay in the plus part. All this holds for a linear model and a convex loss.

Source: He, Huang, Yao, Lin (2026), Appendix D.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairbound.fairness.compiled.plan import Objective, Plan
from fairbound.fairness.compiled.statistics import LOSS


def plan_parts(plan: Plan) -> tuple[Plan, Plan] | None:
    """(plus, minus), with the bounds in the plus part and no objective in the minus part; None where nothing is known.

    Both have the columns and auxiliary variables of `plan`, so that they take its batches and its points.
    """
    known = all(hasattr(s, "in_parts") for s in plan.statistics) and plan.statistics
    others = plan.combinations or plan.best or len(plan.ratios) or plan.objective is not None
    if not known or others or any(f != LOSS for f in plan.functions):
        return None
    statistics = tuple(s.in_parts() for s in plan.statistics)  # type: ignore[attr-defined]
    sizes = [s.size for s in plan.statistics]
    before = plan.n_cells + 1
    plus = np.arange(plan.quantities)
    minus = np.full(plan.quantities, -1)
    for size, start in zip(sizes, np.cumsum([before, *sizes[:-1]]), strict=True):
        plus[start : start + size] += start - before
        minus[start : start + size] = plus[start : start + size] + size
    first_auxiliary = before + sum(sizes)
    plus[first_auxiliary:] += sum(sizes)
    linear = plan.index >= first_auxiliary
    up = (plan.coefficient > 0) | linear

    def part(own: bool) -> Plan:
        """The plus part (own), or the minus part."""
        place = np.where(up == own, plus[plan.index], minus[plan.index])
        keep = (place >= 0) & (~linear | own) & (plan.coefficient != 0)
        size = np.where(linear, plan.coefficient, np.abs(plan.coefficient))
        return replace(
            plan,
            statistics=statistics,
            index=np.where(keep, place, 0),
            coefficient=np.where(keep, size, 0.0),
            bounds=plan.bounds if own else np.zeros_like(plan.bounds),
            objective=None if own else Objective((0,), (0.0,)),
        )

    return part(True), part(False)
