"""How sure the running estimates of a `Dual` are: standard errors of bounds on means of rows and on ratios of them."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from fairbound.fairness.compiled.contrasts import PlanContrasts, seen_contrasts
from fairbound.fairness.compiled.plan import Plan
from fairbound.fairness.compiled.statistics import RowFunction, behind
from fairbound.optim.means import of_rates


def standard_errors(plan: Plan, contrasts: PlanContrasts, mean: np.ndarray, weight: np.ndarray) -> list[float]:
    """How far beyond each bound's value, away from what is asked for, one of its contrasts is with its standard error
    added: the value's own error where there is one contrast. From the cells' means (K, S) and the rows that these rest
    on (K,), as if cells had no row in common; NaN where not measured."""
    q = torch.from_numpy(mean[:, 0])
    memo, known = contrasts.values(q)[1], seen_contrasts(plan, torch.from_numpy(weight > 0))
    index = contrasts.index if memo is None or memo.compared is None else memo.compared
    near, variance = (torch.from_numpy(v) for v in quantities(plan, mean, weight))
    out = []
    for number, bound in enumerate(plan.notions):
        rows = plan.rows_of(number)
        rows = rows if known is None else rows[known[rows].numpy()]
        if not len(rows):
            out.append(math.nan)
            continue
        chosen, coefficient = index[rows], contrasts.coefficient[rows]
        with torch.enable_grad():
            terms = torch.where(coefficient != 0, near[chosen], 0.0).requires_grad_()
            each = bound.value_of((terms * coefficient).sum(-1, keepdim=True), terms.unsqueeze(-2))
            (slope,) = torch.autograd.grad(each.sum(), terms)
        errors = _together(slope, chosen, variance[chosen]).sqrt()
        raw, terms = contrasts.raw(q, rows)
        each, value = bound.value_of(raw.unsqueeze(-1), terms.unsqueeze(-2)), bound.value_of(raw, terms)
        beyond = value - (each - errors).min() if bound.sense == "at least" else (each + errors).max() - value
        out.append(float(beyond))
    return out


def _together(slope: Tensor, chosen: Tensor, variance: Tensor) -> Tensor:
    """(r,) variances of sums of quantities times slopes; quantities `chosen` twice are one. All (r, t)."""
    same = chosen.unsqueeze(-1) == chosen.unsqueeze(-2)
    return (slope.unsqueeze(-1) * slope.unsqueeze(-2) * same * variance.unsqueeze(-1)).sum((-2, -1)).clamp_min(0)


def quantities(plan: Plan, mean: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(Q,) the cells and the ratios of them, rates moved a little away from 0 and 1, where they would look certain; and
    (Q,) their variances: of a ratio by the slope of its value in the binomial share behind it. As `standard_errors`."""
    n, p, rates = np.maximum(weight, 1), mean[:, 0], of_rates(plan)
    near, variance = _share(p * n, n)
    near = np.where(rates, near, p)
    variance = np.where(rates, variance, np.maximum(mean[:, -1] - p * p, 0) / n)
    if not len(plan.ratios):
        return near, variance
    table = [
        c.function.table if isinstance(c.function, RowFunction) else None for c in plan.columns for _ in range(c.cells)
    ]
    found = []
    for above, below in plan.ratios:
        a, b, c = (1.0, 1.0, 0.0) if above == below else behind(table[above], table[below])
        successes = n[above] * p[above] / a
        failures = (n[below] * p[below] - b * successes) / c if c else 0.0
        share, spread = _share(successes, successes + failures)
        under = b * share + c * (1 - share)
        found.append((a * share / under, spread * (a * c / under**2) ** 2))
    of_ratios = np.array(found)
    return np.append(near, of_ratios[:, 0]), np.append(variance, of_ratios[:, 1])


def _share(successes: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The share of successes among n, never 0 or 1, and its variance."""
    near = (successes + 1) / (n + 2)
    return near, near * (1 - near) / np.maximum(n, 1)
