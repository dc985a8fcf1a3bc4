"""What the running means of a `Dual` say of its bounds: values, how sure they are, and the report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbound.fairness.bound import Bound
from fairbound.fairness.contrasts import PlanContrasts, seen_contrasts
from fairbound.fairness.plan import Plan
from fairbound.fairness.statistics import SELECTED, RowFunction
from fairbound.optim.batch import Batch, refuse_rows, without_number
from fairbound.optim.means import RunningMeans, cell_weights, of_rates
from fairbound.optim.multipliers import raised, shrunk
from fairbound.optim.state import DualReport, by_name

PASSED = 64  # updates whose estimates are looked at together


def exact_means(
    running: RunningMeans, batches: Iterable[Sequence[Any]], read: Callable[..., Batch], world: int, place: torch.device
) -> tuple[np.ndarray, np.ndarray]:
    """(K, S) means and (K,) rows of cells over all rows of batches; the statistics of `running`, which stays as it is.

    batches: of (scores, targets, group, weight), the last two perhaps left out. read: these -> a batch. world:
    processes whose rows are put together, on the device `place`. Raises: NonFiniteError where a score or loss is NaN or infinite.
    """
    found = RunningMeans(running.plan, running.statistics[:1], running.loss, math.inf, running.keys)
    with torch.no_grad():
        for number, (scores, targets, *rest) in enumerate(batches):
            batch = read(scores, targets, *rest, *[None] * (2 - len(rest)))
            bad = without_number(torch.tensor(math.nan), batch, running.loss)  # of none is the loss known
            if bad is not None:
                refuse_rows(bad, batch, running.plan, running.keys, number + 1)
            found.add(batch, number)
            found.shorten(1)
        found.update(world, place)
    return found.state["mean"], found.state["rows"]


def _measured(plan: Plan, contrasts: PlanContrasts, q: Tensor, rows: np.ndarray) -> list[Any]:
    """The value of each bound from cell means q (K,), NaN where none of its groups has rows (K,)."""
    known, out = seen_contrasts(plan, torch.from_numpy(rows > 0)), []
    for number, bound in enumerate(plan.notions):
        rows = plan.rows_of(number)
        rows = rows if known is None else rows[known[rows].numpy()]
        out.append(bound.value_of(*contrasts.raw(q, rows)) if len(rows) else math.nan)
    return out


def stated_values(plan: Plan, contrasts: PlanContrasts, mean: np.ndarray, rows: np.ndarray) -> list[float]:
    """The same as numbers, from means (K, S)."""
    return [float(v) for v in _measured(plan, contrasts, torch.from_numpy(mean)[:, 0], rows)]


def named_values(
    plan: Plan, stated: Sequence[Bound], contrasts: PlanContrasts, per_bound: Any, mean: np.ndarray, rows: np.ndarray
) -> dict[str, float]:
    """The text of each bound and its value in its units. per_bound: what 1 in those of the means (K, S) is in these."""
    values = per_bound * np.array(stated_values(plan, contrasts, mean, rows))
    return dict(zip([b.text for b in stated], values.tolist(), strict=True))


def standard_errors(plan: Plan, contrasts: PlanContrasts, mean: np.ndarray, weight: np.ndarray) -> list[float]:
    """The standard error of each bound's value, from its slopes in the cells' means (K, S) and the rows that these rest
    on (K,), as if cells had no row in common; NaN where it is a ratio of sums, or not measured."""
    n, p = np.maximum(weight, 1), mean[:, 0]
    near = (p * n + 1) / (n + 2)  # of rates: never 0 or 1
    variance = np.where(of_rates(plan), near * (1 - near), np.maximum(mean[:, -1] - p * p, 0)) / n
    apart = 1e-9 * np.arange(plan.n_cells)  # of two equal contrasts one has a slope
    with torch.enable_grad():
        q = torch.from_numpy(p + apart).requires_grad_()
        values, out = _measured(plan, contrasts, q, weight), []
        for value in values:
            known = isinstance(value, Tensor) and value.requires_grad and not len(plan.ratios)
            slope = torch.autograd.grad(value, q, retain_graph=True)[0].numpy() if known else np.full(len(n), math.nan)
            out.append(math.sqrt(slope**2 @ variance))
    return out


def better(bound: Bound, one: float, other: float) -> float:
    """The value nearer to what is asked for; the one that is a number where one is NaN."""
    if one != one or other != other:
        return other if one != one else one
    return max(one, other) if bound.sense == "at least" else min(one, other)


class Best:
    """The best of each bound's estimates at updates, worked out for many updates at once, as only reports need it.
    passed: means (K, S) and rows (K,) of those not looked at yet."""

    def __init__(self, plan: Plan, contrasts: PlanContrasts):
        self.plan, self.contrasts = plan, contrasts
        self.passed: list[tuple[np.ndarray, np.ndarray]] = []

    def note(self, state: dict[str, Any], means: dict[str, Any]) -> None:
        """An update of a Dual with this state, from these running means."""
        self.passed.append((means["mean"], means["rows"]))
        if len(self.passed) == PASSED:
            self.settled(state)

    def settled(self, state: dict[str, Any]) -> dict[str, Any]:
        """The state, with `smallest` brought up to date."""
        best = state["smallest"].tolist()
        for means in self.passed:
            now = stated_values(self.plan, self.contrasts, *means)
            best = [better(*each) for each in zip(self.plan.notions, best, now, strict=True)]
        state["smallest"] = np.array(best)
        self.passed.clear()
        return state


def _decided_alike(plan: Plan, means: np.ndarray) -> str | None:
    """How all rows are decided, "positive" or "negative", by the means of cells with rows; None where not alike, or
    where other things are averaged than decisions."""
    if not len(means) or not all(isinstance(f, RowFunction) and f.table == SELECTED for f in plan.functions):
        return None
    return "positive" if means.min() > 1 - 1e-9 else "negative" if means.max() < 1e-9 else None


def report_of(
    plan: Plan,
    stated: Sequence[Bound],
    state: dict[str, Any],
    means: RunningMeans,
    values: dict[str, float],
    per_bound: Any,
    cap: float,
    of_losses: np.ndarray,
) -> DualReport:
    """Where a Dual stands. stated: its bounds; state: of the Dual; values: of the bounds, in their units; per_bound:
    what 1 in the state's is in these; cap: what no
    multiplier exceeds; of_losses: (K + 1,) cells that average the loss."""
    y, names = torch.from_numpy(state["multipliers"]), plan.cell_names
    compared = plan.used_cells().tolist()
    lacked, (latest, seen, weight, _) = means.lacked().tolist(), means.latest()
    rows, smallest = seen.tolist(), (per_bound * state["smallest"]).tolist()
    contrasts, (mean, _, rest, trail) = PlanContrasts(plan), means.latest(state["processes"])
    errors = per_bound * np.array(standard_errors(plan, contrasts, mean, rest))
    now, before = (np.array(stated_values(plan, contrasts, q, rest)) for q in (mean, trail[:, None]))
    drifts = per_bound * (now - before)
    memo = contrasts.values(torch.from_numpy(means.moving()))[1]
    by_cell = cell_weights(contrasts, state["w"], means.state, max(state["weighed"], 1), memo)[1]
    below = raised(by_cell, of_losses) * shrunk(by_cell, of_losses, means.state)
    return DualReport(
        steps=state["k"],
        batches=means.seen_batches,
        rows=means.seen_rows,
        skipped=state["skipped"],
        values=values,
        standard_errors=dict(zip(values, errors.tolist(), strict=True)),
        drifts=dict(zip(values, drifts.tolist(), strict=True)),
        bounds={b.text: float(b.stated) for b in stated},
        smallest={
            b.text: better(b, values[b.text], v) if values[b.text] == values[b.text] else math.nan
            for b, v in zip(stated, smallest, strict=True)
        },
        multipliers={plan.names[i]: float(y[i]) for i in y.nonzero().flatten().tolist()},
        raised={names[c]: -float(below[c]) for c in below.nonzero()[0].tolist()},
        at_cap=tuple(plan.names[i] for i in (y >= cap).nonzero().flatten().tolist()),
        lacking=by_name((names[c], int(lacked[c])) for c in compared if lacked[c]),
        unmeasured=tuple(by_name((names[c], 1) for c in compared if not rows[c])),
        rests_on={names[c]: round(float(weight[c])) for c in sorted(compared, key=lambda c: -weight[c]) if rows[c]},
        processes=state["processes"],
        alike=_decided_alike(plan, latest[seen > 0, 0]),
    )
