"""Diagnosis of a run from its records and, where given, from its problem: what is wrong, and what to do next.

Numbers are those of the second half of the records, by their count. The thresholds were set on runs with other seeds
and data than those of benchmarks/doctor.py, which prints how often a built fault is named first and how often a healthy
run is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from fairbound.base.errors import OptionError
from fairbound.base.series import floats
from fairbound.methods.method import has_step_size
from fairbound.problems.problem import Problem
from fairbound.solver.solve import Solution

FEWEST_RECORDS = 4
LOOKED_AT = 3
"""Constraints whose gradients are looked at: those of the largest violation and multiplier."""

BATCHES = 64
SWING = 0.3
"""Deviation of a multiplier over its mean, in the second half, that is more than a healthy run's."""

NOISY = 0.18
"""Deviation of a constraint between batches, times its `dual_scale` (1 for rates),
above which noise is what moves a multiplier."""

FALLING = 0.1
"""Share of all that was gained that the last quarter may still gain; steady progress gains a quarter."""

GRAVE = ("diverging", "vanished_gradient", "surrogate_far")
"""Faults that cause others, which are then not named."""

MOST_BESIDE = 200
SAME = 1e-4
"""Of how many constraints after it the other side of one is looked for, and what rounding leaves of their sum."""

SMALLER_STEPS = (
    "Take smaller steps: divide step_size and dual_step_size by 10, or set clip, and standardise the features."
)
OTHER_WAY = (
    "The method finds its steps by itself, so it is the bounds that raise the loss: train with another penalty (a tenth of it, "
    "or ten times it), take another model (a network such as mlp:16), or loosen the bound."
)
"""Advice on a loss that rose, for methods with a step size and without."""

WORSE = 1.5
VANISHED = 0.02
SLACK = 0.3


@dataclass(frozen=True)
class Advice:
    """fault: a word for programs. said: what was seen. next: what to try."""

    fault: str
    said: str
    next: str

    def to_dict(self) -> dict[str, str]:
        return asdict(self)


def diagnose(solution: Solution, problem: Problem | None = None) -> list[Advice]:
    """What went wrong in a finished run and what to try, the fault to repair first comes first; empty where nothing is
    wrong.

    solution: of one run (not a stack), with records that keep "train" and "multipliers".
    problem: the one solved; without it vanished gradients, surrogates far from the metric and noise cannot be seen.
    Returns: a list of Advice with `fault`, `said` and `next` (docs/training.md). A fault is "diverging",
        "vanished_gradient", "surrogate_far", "undertrained", "infeasible", "noise", "oscillating" or "inactive".
    Raises: OptionError for a stack of runs.
    """
    if solution.x.dim() != 1:
        raise OptionError("diagnose takes one run; solve with one seed, or look at the runs of a stack one by one.")
    rows = [r for r in solution.records if "train" in r and "multipliers" in r]
    if len(rows) < FEWEST_RECORDS:
        return []
    seen = _Seen(solution, problem, rows)
    checks: tuple[Callable[[_Seen], Iterator[Advice]], ...] = (
        _diverging,
        _vanished,
        _surrogate,
        _unsteady,
        _unfinished,
        _infeasible,
        _inactive,
    )
    found: list[Advice] = []
    for check in checks:
        for advice in check(seen):
            if advice.fault in GRAVE:
                return [advice]
            found.append(advice)
    return found


class _Seen:
    """A run's numbers: loss (T,), constraints and multipliers (T, m), and what the problem says at the last iterate."""

    def __init__(self, solution: Solution, problem: Problem | None, rows: list[dict[str, Any]]):
        self.solution, self.problem = solution, problem
        self.loss = floats([r["train"].get("loss", r["train"]["f"]) for r in rows])
        self.g = np.array([floats(r["train"]["g"]) for r in rows]).reshape(len(rows), -1)
        y = np.array([floats(r["multipliers"]) for r in rows]).reshape(len(rows), -1)
        self.y = y if y.shape == self.g.shape else np.zeros_like(self.g)
        self.rows_per_step = max(1, round(rows[-1].get("samples", 0) / max(rows[-1]["step"], 1)))
        self.half, self.last = len(rows) // 2, -max(1, len(rows) // 4)
        self.violation = np.maximum(self.g, 0).max(1, initial=0.0)

    @property
    def all_rows(self) -> bool:
        """Whether each step took all rows."""
        return self.rows_per_step >= getattr(self.problem, "total_rows", np.inf)

    @property
    def has_step_size(self) -> bool:
        return has_step_size(self.solution.method)

    @property
    def bounded(self) -> bool:
        return self.g.shape[1] > 0

    @property
    def unmet(self) -> bool:
        """Whether no iterate but the start met every bound."""
        return self.bounded and not self.solution.found

    def name(self, i: int) -> str:
        return repr(str(self.problem.names[i])) if self.problem is not None else f"constraint {i}"

    @cached_property
    def chosen(self) -> list[int]:
        """The constraints that matter most: of the largest violation at the end, then of the largest multiplier."""
        g, y = np.nan_to_num(self.g[self.last :].mean(0)), np.nan_to_num(np.abs(self.y[self.half :]).mean(0))
        top = [int(i) for i in np.argsort(-g)[:LOOKED_AT] if g[i] > 0]
        return list(dict.fromkeys([*top, *(int(i) for i in np.argsort(-y)[:LOOKED_AT] if y[i] > 0)]))[:LOOKED_AT]

    @property
    def sides(self) -> list[list[int]]:
        """The constraints one by one, the two sides of |a - b| <= bound together: their sum is the same all along,
        though each of them moves."""
        moved = self.g - self.g.mean(0)
        size, left, out = np.abs(moved).max(0), list(range(self.g.shape[1])), []
        while left:
            i = left.pop(0)
            other = [j for j in left[:MOST_BESIDE] if np.abs(moved[:, i] + moved[:, j]).max() <= SAME * size[i]]
            out.append([i, *other[:1]] if size[i] > 0 else [i])
            left = [j for j in left if j != out[-1][-1]]
        return out

    def slopes(self, x: torch.Tensor) -> np.ndarray:
        """(1 + chosen,) norms of the gradients of f and of the chosen constraints at x."""
        assert self.problem is not None
        which = [0, *(1 + i for i in self.chosen)]
        return self.problem.jacobian(x, self.everything, which)[1].double().norm(dim=-1).cpu().numpy()

    @cached_property
    def everything(self) -> Any:
        assert self.problem is not None
        return self.problem.sample((0,), "diagnosis", 0, self.problem.rows, "full")

    @cached_property
    def bound_sizes(self) -> np.ndarray:
        """(m,) the stated bounds, 0 where they are not known."""
        bounds = self.problem.bounds if self.problem is not None else 0.0
        given = bounds.double().cpu().numpy() if isinstance(bounds, torch.Tensor) else np.asarray(float(bounds))
        return np.broadcast_to(np.abs(given), self.g.shape[1:])


def _diverging(seen: _Seen) -> Iterator[Advice]:
    start, end = seen.loss[0], np.nanmean(seen.loss[seen.half :])
    late = seen.g[seen.half :]
    gone = np.isnan(seen.loss[seen.half :]).any() or (seen.bounded and np.isnan(late).all(1).any())
    if gone or end > WORSE * abs(start) + 1e-9:
        said = "became NaN or infinite" if gone else f"is {end:.4g} in the second half, from {start:.4g} at the start"
        yield Advice(
            "diverging",
            f"The run diverges: the loss {said}, with multipliers up to {np.nanmax(np.abs(seen.y), initial=0):.3g}.",
            SMALLER_STEPS if seen.has_step_size else OTHER_WAY,
        )


def _vanished(seen: _Seen) -> Iterator[Advice]:
    if seen.problem is None or not seen.unmet or not seen.chosen:
        return
    here, start = seen.slopes(seen.solution.last), seen.slopes(seen.problem.start((0,)))
    for place, i in enumerate(seen.chosen, start=1):
        largest = max(start[place], start[0])
        if seen.g[seen.last :, i].mean() > 0 and here[place] < VANISHED * largest:
            yield Advice(
                "vanished_gradient",
                f"{seen.name(i)} is violated, but its gradient has vanished: {here[place]:.2g} at the last iterate, where "
                f"gradients were up to {largest:.2g} at the start. No multiplier can move it.",
                "Take a surrogate that reaches further (surrogate=sigmoid, a smaller sharpness), start from smaller weights, or use "
                "fb.FullBatchALM, which sharpens step by step.",
            )
            return


def _surrogate(seen: _Seen) -> Iterator[Advice]:
    if seen.problem is None or not seen.chosen:
        return
    x = seen.solution.last
    trained = seen.problem.values(x, seen.everything).g.double().cpu().numpy()
    true = seen.problem.values(x, seen.everything, true=True).g.double().cpu().numpy()
    for i in seen.chosen:
        size = max(seen.bound_sizes[i], 0.01)
        apart = true[i] - trained[i]
        if seen.unmet and true[i] > 0.2 * size and trained[i] < 0.2 * size and apart > 0.5 * size:
            yield Advice(
                "surrogate_far",
                f"{seen.name(i)}: training sees {trained[i]:+.3g} beyond the bound, the metric says {true[i]:+.3g}. The surrogate is "
                "far from the metric, so meeting the one does not meet the other.",
                'Let multipliers follow the metric (dual_values="true"), raise the sharpness of the surrogate, or use '
                "fb.FullBatchALM.",
            )
            return


def _unfinished(seen: _Seen) -> Iterator[Advice]:
    for what, series, wanted in (("loss", seen.loss, True), ("largest violation", seen.violation, seen.unmet)):
        quarters = [part.mean() for part in np.array_split(series[1:], 4) if len(part)]
        gained = series[0] - np.nanmin(series) if what == "loss" else np.nanmax(series) - np.nanmin(series)
        falls = len(quarters) == 4 and bool((np.diff(quarters) < 0).all())
        if wanted and falls and quarters[2] - quarters[3] > FALLING * gained > 0:
            yield Advice(
                "undertrained",
                f"The {what} still falls: the last quarter of the run gained {(quarters[2] - quarters[3]) / gained:.0%} of all that was "
                "gained.",
                "Train longer (a larger budget)"
                + (", or take larger steps (step_size)." if seen.has_step_size else "."),
            )
            return


def _infeasible(seen: _Seen) -> Iterator[Advice]:
    if not seen.unmet:
        return
    late, before = seen.violation[seen.last :], seen.violation[seen.half : seen.last]
    if not len(before) or late.mean() < 0.85 * before.mean() or seen.violation[seen.half :].min() <= 0:
        return
    broken = np.flatnonzero(np.nan_to_num(seen.g[seen.half :]).min(0) > 0)
    rising = [i for i in broken if seen.y[-1, i] > 1.1 * seen.y[seen.half, i] > 0 or seen.y[-1, i] >= 10]
    if rising:
        worst = rising[int(np.argmax(seen.g[seen.last :, rising].mean(0)))]
        yield Advice(
            "infeasible",
            f"No model found meets every bound: the largest excess stays near {late.mean():.3g} (at {seen.name(int(worst))}) while its "
            f"multiplier grows to {seen.y[-1, worst]:.3g}. The bounds are infeasible for this model and data, or nearly so.",
            "Loosen or drop a bound, take a larger model, or let the decision know the group (use_groups_at_prediction).",
        )


def _unsteady(seen: _Seen) -> Iterator[Advice]:
    if not seen.bounded:
        return
    y = seen.y[seen.half :]
    i = int(np.argmax(y.mean(0)))
    mean, deviation = y[:, i].mean(), y[:, i].std()
    trend = abs(y[-len(y) // 3 :, i].mean() - y[: max(1, len(y) // 3), i].mean())
    if not mean > 0 or deviation < SWING * mean or trend > 2 * deviation or len(y) < FEWEST_RECORDS:
        return
    said = (
        f"The multiplier of {seen.name(i)} moves between {y[:, i].min():.3g} and {y[:, i].max():.3g} in the second half"
    )
    if seen.all_rows:
        if seen.unmet:  # else the best iterate has what the jumps found
            yield Advice(
                "oscillating",
                f"{said}: the rate moves in steps, over which it jumps to and fro.",
                "Merge groups of few rows, loosen the bound, or raise the penalty of FullBatchALM.",
            )
        return
    noise = _noise(seen, i)
    if noise is not None and noise > NOISY:
        yield Advice(
            "noise",
            f"{said}. A batch of {seen.rows_per_step:,} rows measures the constraint with a deviation of {noise:.2g}, so noise moves it.",
            "Take larger batches (batch_size), more rows for multipliers (dual_rows), or smaller dual steps (dual_step_size).",
        )
    else:
        yield Advice(
            "oscillating",
            f"{said}: it overshoots again and again.",
            "Divide dual_step_size by 5 or more, or raise penalty, which damps.",
        )


def _noise(seen: _Seen, i: int) -> float | None:
    """Deviation of the i-th constraint between batches of as many rows as a step takes, times its dual scale; None
    where it is not known."""
    if seen.problem is None:
        return None
    measured = []
    for k in range(BATCHES):
        batch = seen.problem.sample((0,), "diagnosis", k, seen.rows_per_step, "balanced")
        found = seen.problem.values(seen.solution.last, batch, true=True)
        if found.seen is None or bool(found.seen[i]):
            measured.append(float(found.g[i]))
    scale = seen.problem.dual_scale
    scale = float(scale[i]) if isinstance(scale, torch.Tensor) and scale.dim() else float(scale)
    return scale * float(np.std(measured)) if len(measured) > 3 else None


def _inactive(seen: _Seen) -> Iterator[Advice]:
    if not seen.bounded or seen.unmet:
        return
    late = slice(seen.half, None)
    plan = getattr(seen.problem, "plan", None)
    bounds = (
        [(repr(b.text), plan.rows_of(k)) for k, b in enumerate(plan.notions)]
        if plan is not None
        else [(" with its other side, ".join(map(seen.name, these)), these) for these in seen.sides]
    )
    scale = max(float(np.nanmax(np.abs(seen.y), initial=0.0)), 1.0)
    for name, these in bounds:
        these = np.asarray(these)
        room = (-seen.g[late][:, these] > SLACK * np.maximum(seen.bound_sizes[these], 1e-9)).all()
        if len(these) and room and np.abs(seen.y[late][:, these]).max() < 1e-3 * scale:
            yield Advice(
                "inactive",
                f"{name} never binds on the training rows: its multiplier is 0 and the model keeps well within it there.",
                "Training is not at fault. State a tighter bound if this one was meant to matter, or leave it out.",
            )
