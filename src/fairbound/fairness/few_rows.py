"""Groups and classes with too few rows for a stated bound, and what is said of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fairbound.base.names import shortlist
from fairbound.fairness.bound import Bound
from fairbound.fairness.compiled.plan import Plan

MOST_FEWEST = 10_000
"""The largest number of rows that `fewest_advised` tries."""
USUAL_FEWEST = 30
"""The `fewest` that is advised where the steps of rates ask for no more."""
FEW_STEPS = 20
"""Two groups whose rates can be equal at fewer steps than this can hardly be treated alike to the last row."""


def cells_behind(plan: Plan, rows: np.ndarray) -> np.ndarray:
    """The cells of the contrasts `rows`, those of the sets of a statistic among them."""
    index, first, out = plan.index[rows[rows < len(plan.index)]], plan.n_cells + 1, [plan.used_cells(rows)]
    for statistic in plan.statistics:
        if ((index >= first) & (index < first + statistic.size)).any() and hasattr(statistic, "sets"):
            out.append(statistic.offset + np.flatnonzero(statistic.sets.any(0)))  # type: ignore[attr-defined]
        first += statistic.size
    return np.unique(np.concatenate(out))


class BelowAStep(NamedTuple):
    """A bound smaller than the steps in which the value of a group (or class) of few rows moves. said: of it, with the
    next move; without: the bound as text that leaves such groups out, as `without_few_rows` gives it."""

    bound: Bound
    said: str
    without: str | None


def bounds_below_a_step(plan: Plan, rows: np.ndarray) -> list[BelowAStep]:
    """The bounds that groups (or classes) of few rows can hardly meet. rows: (K,) training rows of every cell."""
    out = []
    for number, bound in enumerate(plan.notions):
        if bound.bound == 0:
            said = _said_of_equality(plan, number, rows)
            out += [BelowAStep(bound, said, None)] if said else []
            continue
        used = cells_behind(plan, plan.rows_of(number))
        step = {c: bound.step_of(max(int(rows[c]), 1)) for c in used.tolist()}
        few = sorted((c for c in step if step[c] > bound.bound), key=lambda c: rows[c])
        if not few:
            continue
        if bound.about == "class":
            why = f"with only {rows[few[0]]} training rows of the class, one error already breaks the bound."
            said = f"{bound.text}: {why} Give more rows of it, or loosen the bound."
            out.append(BelowAStep(bound, said, None))
            continue
        named = shortlist((f"{plan.cell_names[c]!r} ({rows[c]})" for c in few), 3)
        why = (
            "A rate over n rows moves in steps of 1/n, and the rates of all other groups must lie near such a step (near 0 or 1 for "
            "one row), which can cost most of the accuracy"
        )
        if abs(step[few[0]] * rows[few[0]] - 1) > 1e-9:
            why = f"What is measured of {rows[few[0]]} rows moves in steps of {step[few[0]]:.2g}"
        if bound.free_thresholds:
            why = f"{rows[few[0]]} scores are {step[few[0]]:.2g} from another group's at least, unless they are tied"
        without = without_few_rows(bound, rows[used])
        leave = "" if without is None else f"leave groups of so few rows out ({without}), "
        said = (
            f"{bound.text}: too few training rows for a difference this small in {named}. {why}. Merge the group with another, "
            f"{leave}mark its values missing so that no bound holds for it, or loosen the bound."
        )
        out.append(BelowAStep(bound, said, without))
    return out


def _said_of_equality(plan: Plan, number: int, rows: np.ndarray) -> str | None:
    """What is said of a bound of 0 on rates of groups that are the same in few points only: shares of n and of m rows
    are, at multiples of 1 / gcd(n, m). None of others."""
    bound = plan.notions[number]
    if bound.about != "group" or bound.free_thresholds or abs(bound.step_of(7) * 7 - 1) > 1e-9:
        return None
    at = plan.rows_of(number)
    index, used = plan.index[at[at < len(plan.index)]], plan.coefficient[at[at < len(plan.index)]] != 0
    two = (used.sum(1) == 2) & ((index < plan.n_cells) | ~used).all(1)
    pairs = np.unique(np.sort(index[two][used[two]].reshape(-1, 2), axis=1), axis=0)
    pairs = pairs[(rows[pairs] > 0).all(1)]
    if not len(pairs):
        return None
    common = np.gcd.reduce(rows[pairs].astype(np.int64), axis=1)
    if common.min() >= FEW_STEPS:
        return None
    some = pairs[common.argmin()]
    named = " and ".join(f"{plan.cell_names[c]!r} ({rows[c]:,})" for c in some)
    where = "0 and 1 alone" if common.min() == 1 else f"multiples of 1/{common.min()} alone"
    step = max(bound.step_of(int(rows[c])) for c in some)
    return (
        f"{bound.text}: the rates of {named} training rows can be equal at {where}, so that hardly more than one answer for all rows "
        f"meets the bound. State the difference that you can accept, of at least {step:.2g}, a step of the smaller group."
    )


def dropped_words_of_groups(names: Sequence[str], rows: Mapping[str, int]) -> list[str]:
    """What is said of the groups `names` that are left out of the bounds in training. rows: of those that have some."""
    if not names:
        return []
    named = shortlist([f"{name} ({rows[name]:,})" if rows.get(name) else name for name in names], 10)
    many = f" ({len(names):,} groups)" if len(names) > 1 else ""
    return [f"groups left out of the bounds for want of rows{many}: {named}."]


def without_few_rows(bound: Bound, rows: np.ndarray) -> str | None:
    """The bound as text that leaves out the groups whose value moves in steps above it; None where `fewest_advised` is.
    rows: (k,) of the cells that it compares."""
    fewest = fewest_advised(bound, rows)
    return None if fewest is None else replace(bound, fewest=fewest).text  # type: ignore[type-var]


def fewest_advised(bound: Bound, rows: np.ndarray) -> int | None:
    """The `fewest` that leaves out the groups whose value moves in steps above the bound, at least 30 where that leaves two
    groups; None where the bound takes none, or hardly a group would be left. rows: (k,) of the cells that it compares."""
    if "fewest" not in bound.OPTIONS:
        return None
    least = next((n for n in range(1, MOST_FEWEST + 1) if bound.step_of(n) <= bound.bound), None)
    if least is None:
        return None
    return next((n for n in (max(least, USUAL_FEWEST), least) if (rows >= n).sum() >= 2), None)
