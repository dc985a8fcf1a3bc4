"""The exact value and the verdict of bounds on distributions of scores, from the curves of the shares above every
score.

A bound says what it makes of two groups' curves T (t,), one number for each threshold from the highest to the lowest:
`gap(a, b)`, which must grow with a and shrink with b. Bands around the shares of the rows become bands of T, and so
bounds of the gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fairbound.base.errors import EmptyGroupError
from fairbound.base.names import Names
from fairbound.confidence.bands import band_widths
from fairbound.confidence.contrasts import GapBounds
from fairbound.confidence.rows_needed import MOST_ROWS
from fairbound.fairness.comparing import Compared
from fairbound.fairness.percentiles.intervals import Percentiles
from fairbound.fairness.scored import Finding, Scored
from fairbound.fairness.verdicts.clustered import method_of_rows
from fairbound.fairness.verdicts.findings import finding, nothing_found, stated_facts
from fairbound.fairness.verdicts.judging import without_rows
from fairbound.fairness.verdicts.leaving_out import left_out_facts
from fairbound.fairness.verdicts.values import quotient
from fairbound.ranking.exceedance import exceedance

METHOD = "Dvoretzky-Kiefer-Wolfowitz bands of every group's distribution of scores (guaranteed); Bonferroni over groups and stated bounds"

FEWEST_POINTS, MOST_POINTS, MOST_GAPS = 4, 32, 1 << 14
"""Thresholds of a group at which `gaps_at_thresholds` looks, and gaps that they should not be more than."""


@dataclass(frozen=True)
class Curves:
    """The curves of k groups, compared on one set of attributes. thresholds: (t,) the distinct scores, descending.
    above: (k, t + 2) shares above every threshold, from above all scores to below all. rows: (k,) effective rows.
    intervals: of each group."""

    compared: Compared
    thresholds: np.ndarray
    above: np.ndarray
    rows: np.ndarray
    count: np.ndarray
    intervals: Sequence[Percentiles]

    @classmethod
    def of(cls, rows: Scored, compared: Compared, intervals: Sequence[Percentiles]) -> Curves:
        member, k = compared.of_rows(rows.groups), len(compared)
        thresholds, above = exceedance(rows.scores, member, k, rows.weight)
        ends = np.zeros((k, 1)), np.ones((k, 1))
        w = np.ones(len(rows)) if rows.weight is None else np.asarray(rows.weight, dtype=np.float64)
        inside = member >= 0
        total, square = (np.bincount(member[inside], weights=v[inside], minlength=k) for v in (w, w * w))
        effective = quotient(total**2, square)
        count = np.bincount(member[inside & (w > 0)], minlength=k)
        return cls(compared, thresholds, np.hstack([ends[0], above, ends[1]]), effective, count, intervals)

    def moved(self, by: np.ndarray) -> np.ndarray:
        """(k, t + 2) shares of the rows within the intervals, those of all rows moved by (k,) and kept in [0, 1]: above
        all scores as far as a band there reaches, below all of them 1."""
        ranks = np.clip(self.above + by[:, None], 0.0, 1.0)
        ranks[:, -1] = 1.0
        return np.stack([part.through(rank) for part, rank in zip(self.intervals, ranks, strict=True)])

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """(2 p,), (2 p,) every two groups in both orders, the one after the other."""
        a, b = self.compared.pairs("pairwise")
        return np.stack([a, b], 1).ravel(), np.stack([b, a], 1).ravel()

    def name(self, i: int) -> str:
        a, b = self.pairs()
        return f"{self.compared.name(int(a[i]))} above {self.compared.name(int(b[i]))}"


def curves_of(bound: Any, rows: Scored, empty: str | None = None) -> tuple[list[Curves], list[str]]:
    """The curves of each set of attributes, and the groups left out.
    Raises: EmptyGroupError as the bound's `compared` does."""
    made, missing = [], []
    for compared, dropped in bound.compared(rows.occurring, empty):
        made.append(Curves.of(rows, compared, bound.intervals_of(compared)))
        missing += dropped
    return made, missing


def measured_curves(bound: Any, rows: Scored) -> np.ndarray:
    """(m,) the gap of every two groups' curves, in both orders."""
    return np.concatenate([_gaps(bound, c, 0.0) for c in curves_of(bound, rows)[0]])


def gaps_at_thresholds(bound: Any, rows: Scored) -> np.ndarray:
    """(m,) by how much one of every two groups' curves lies above the other, in both orders, at some of the thresholds of
    both: those between which a group has equally many of the rows of its intervals.

    The thresholds look at no weights, so that they are the same for the same rows weighed otherwise, also by 0."""
    out, made = [], curves_of(bound, rows)[0]
    pairs = sum(len(c.pairs()[0]) for c in made)
    shares = np.arange(0.5, points := max(FEWEST_POINTS, min(MOST_POINTS, MOST_GAPS // (2 * pairs)))) / points
    for curves in made:
        member, places = curves.compared.of_rows(rows.groups), []
        for g, intervals in enumerate(curves.intervals):
            own = np.sort(np.asarray(rows.scores)[member == g])[::-1]
            chosen = own[np.minimum(intervals.rank(shares) * len(own), len(own) - 1).astype(int)]
            places.append(np.searchsorted(-curves.thresholds, -chosen) + 1)
        a, b = curves.pairs()
        there = np.array(places)
        at, moved = np.hstack([there[a], there[b]]), curves.moved(np.zeros(len(places)))
        out.append((moved[a[:, None], at] - moved[b[:, None], at]).ravel())
    return np.concatenate(out)


def judge_curves(bound: Any, rows: Scored, alpha: float) -> Finding:
    """The verdict on the largest gap, of all sets of attributes together."""
    try:
        made, dropped = curves_of(bound, rows, "drop")
    except EmptyGroupError as error:
        return stated_facts(bound, rows) | nothing_found(str(error)) | left_out_facts(bound, rows.occurring)
    found = _bounds(bound, made, alpha, 1.0)
    name = Names([(len(c.pairs()[0]), c.name) for c in made]).__getitem__
    method = method_of_rows(METHOD if rows.weight is None else METHOD.replace("guaranteed", "asymptotic"), rows)
    groups = {c.compared.name(g): int(n) for c in made for g, n in enumerate(c.count)}
    needed = partial(_rows_needed, bound, made, len(rows), alpha)
    return finding(bound, rows, found, name, groups, method, needed, missing=without_rows(bound, rows, dropped))


def _gaps(bound: Any, curves: Curves, width: Any) -> np.ndarray:
    """(2 p,) the gap of every ordered pair, the first group's share raised and the second's lowered by `width` (k,)."""
    width = np.broadcast_to(np.asarray(width, dtype=np.float64), (len(curves.compared),))
    high, low = curves.moved(width), curves.moved(-width)
    return np.array([bound.gap(high[a], low[b]) for a, b in zip(*curves.pairs(), strict=True)])


def _bounds(bound: Any, made: list[Curves], alpha: float, grown: float) -> GapBounds:
    """Estimates and bounds of all pairs, as of `grown` times as many rows."""
    widths = np.split(
        band_widths(np.concatenate([c.rows for c in made]) * grown, alpha), np.cumsum([len(c.rows) for c in made])[:-1]
    )
    estimates, uppers, lowers = (
        np.concatenate([_gaps(bound, c, sign * w) for c, w in zip(made, widths, strict=True)]) for sign in (0, 1, -1)
    )
    worst = int(np.argmax(estimates))
    lower = max(0.0, float(lowers.max()))
    return GapBounds(float(estimates[worst]), lower, float(uppers.max()), worst, estimates, lowers, uppers)


def _rows_needed(bound: Any, made: list[Curves], rows: int, alpha: float) -> int | None:
    """Fewest rows that would decide if the curves, and shares of rows, stayed as observed;
    None if 10^12 would not do."""
    limit = float(bound.bound)

    def decided(n: float) -> bool:
        found = _bounds(bound, made, alpha, n / rows)
        return found.upper <= limit or found.lower > limit

    low, high = rows, 2 * rows
    while not decided(high):
        if high >= MOST_ROWS:
            return None
        low, high = high, 4 * high
    while high - low > max(1, low // 1000):
        middle = (low + high) // 2
        low, high = (low, middle) if decided(middle) else (middle, high)
    return high
