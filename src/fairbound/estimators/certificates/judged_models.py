"""Judges the models that a certificate or `feasibility` tries, and puts them in order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from fairbound.estimators.judged_rows import JudgedRows
from fairbound.fairness.bound import Bound
from fairbound.fairness.scored import Finding, Scored
from fairbound.tables.encode_report import of_one_table

APART = 0.25
"""The squared Mahalanobis distance between two groups' features that is assumed. Of d weights that make the means of a
group of n rows and of the others equal, a share of about d / (d + n APART) of the difference comes back in new rows: so
much of the direction between the means is noise. `benchmarks/unseen_tables.py --certify` shows what the order is worth
on tables of some thousand rows."""


class Judged(NamedTuple):
    """A model, what was found of each stated bound on some rows, its cost and what it measures there, as of JudgedRows,
    and whether it was held to smoothed decisions."""

    model: Any
    findings: list[Finding]
    cost: float
    measured: float
    smoothed: bool = False

    @property
    def verdict(self) -> str:
        """The verdict on all bounds together."""
        verdicts = [found["verdict"] for found in self.findings]
        if "violated" in verdicts:
            return "violated"
        return "met" if all(v == "met" for v in verdicts) else "insufficient"


def judged(model: Any, parts: Sequence[JudgedRows], stated: Sequence[Bound], alpha: float, objective: Any) -> Judged:
    """What the rows of `parts` together say of a model. They are of the table that it was trained on."""
    with of_one_table():
        each = [part.scored(model, 1 - alpha) for part in parts]
    rows = each[0] if len(each) == 1 else Scored.joined(each)
    kind = parts[0]
    return Judged(model, [b.judge(rows, alpha) for b in stated], kind.cost(rows, objective), kind.measured(rows))


def half_width(found: Finding) -> float:
    """How far the confidence bound that decides "met" lies from the value; 0 where the value is not known."""
    ends = ("value", "lower") if found["sense"] == "at least" else ("upper", "value")
    high, low = (found[name] for name in ends)
    return 0.0 if high is None or low is None else float(high - low)


def excess(one: Judged, stated: Sequence[Bound]) -> float:
    """The largest excess over a stated bound, in units of what it leaves free; infinite where one is not measured."""
    out = []
    for found, bound in zip(one.findings, stated, strict=True):
        if found["value"] is None:
            return math.inf
        over = found["value"] - bound.stated
        least = bound.sense == "at least"
        out.append((-over if least else over) / max(1 - bound.stated if least else bound.stated, 1e-12))
    return max(out)


def fall_back(model: Any, stated: Sequence[Bound], train: JudgedRows) -> float:
    """The share, in [0, 1), of what bounds reduced on the training rows that comes back on new rows; see APART."""
    d, n = model.x_.shape[-1], min(train.smallest(bound) for bound in stated)
    return d / (d + n * APART)


def pareto(tried: Sequence[Judged], stated: Sequence[Bound], share: float = 0.0) -> list[Judged]:
    """The models from the lowest expected excess on, each less costly than all before it.

    share: of the way to the first model, which has no bounds, that the others but the smoothed ones fall back.
    """
    free = excess(tried[0], stated)

    def expected(one: Judged) -> float:
        own = excess(one, stated)
        return own if one.smoothed or not free < math.inf else own + share * max(free - own, 0.0)

    out: list[Judged] = []
    for one in sorted(tried, key=lambda one: (expected(one), one.cost)):
        if not out or one.cost < out[-1].cost:
            out.append(one)
    return out
