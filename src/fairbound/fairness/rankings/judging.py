"""The exact value and the verdict of a bound on rankings. Queries are independent, the documents of one are not.

A mean over queries of numbers in a known range has guaranteed bounds (`confidence.means`), a ratio of sums over queries
asymptotic ones (`confidence.ratios_of_sums`); docs/ranking.md has how often they err.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from fairbound.base.errors import EmptyGroupError
from fairbound.confidence.contrasts import Contrasts, GapBounds, joined
from fairbound.confidence.means import mean_bounds, mean_rows_needed, moments
from fairbound.confidence.ratios_of_sums import CLUSTERS, ratio_of_sums_bounds
from fairbound.confidence.rows_needed import Together
from fairbound.fairness.rankings.statistics import RankingStatistic
from fairbound.fairness.scored import Finding, Scored
from fairbound.fairness.verdicts.findings import finding, nothing_found, stated_facts
from fairbound.fairness.verdicts.judging import without_rows
from fairbound.ranking.documents import Documents

MEANS = "betting bounds of means over queries (guaranteed); Bonferroni over groups and stated bounds"
MOST_CELLS = 40
RATIOS = (
    "delete-one jackknife over queries with Student's t (asymptotic); Bonferroni over comparisons and stated bounds"
)


@dataclass(frozen=True, eq=False)
class RankingSums:
    """m weighted sums of the quantities of a statistic. index, coefficient: (m, t); names: m. said: the name of a
    quantity.
    dropped: groups without a document."""

    statistic: RankingStatistic
    index: np.ndarray
    coefficient: np.ndarray
    names: list[str]
    said: Callable[[int], str]
    dropped: list[str]

    def unmeasured(self) -> list[str]:
        """Names of the quantities that no query measures."""
        used = np.unique(self.index)
        return [self.said(int(c)) for c in used[self.statistic.totals[used] <= 0]]

    def measured(self) -> RankingSums:
        """The sums whose quantities are all measured; the others' are listed as dropped."""
        kept = np.flatnonzero((self.statistic.totals[self.index] > 0).all(-1))
        if len(kept) == len(self.index):
            return self
        return replace(
            self,
            index=self.index[kept],
            coefficient=self.coefficient[kept],
            names=[self.names[i] for i in kept],
            dropped=[*self.dropped, *self.unmeasured()],
        )

    def values(self, scores: np.ndarray) -> np.ndarray:
        """(m,) exact values for scores (n,) of the sorted documents."""
        ratio = self.statistic.counted(scores).sum(0) / np.maximum(self.statistic.totals, 1)
        return (self.coefficient * ratio[self.index]).sum(-1)

    @property
    def is_mean(self) -> bool:
        """Whether each quantity is a mean over queries."""
        d = self.statistic.denominators()
        return bool(((d == 0) | (d == 1)).all()) and self.index.shape[1] == 1

    def bounds(self, scores: np.ndarray, alpha: float, whole: float) -> GapBounds:
        """Bounds of the largest sum for scores (n,). alpha: of the lower bound; whole: of the upper bound of a ratio of
        sums, which does not share its error with other sets of attributes."""
        contrasts = Contrasts(self.index, self.coefficient)
        low, high = self.statistic.low, self.statistic.high
        if not self.is_mean:
            u, d = self.statistic.counted(scores), self.statistic.denominators()
            return ratio_of_sums_bounds(u, d, contrasts, alpha, low=low, high=high, whole=whole)
        return mean_bounds(*self._of_queries(scores), contrasts, alpha, low=low, high=high)

    def _of_queries(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
        """(Q K,) quantities of every query for scores (n,), where they are means; which one each is, -1 where the query does
        not count; and K."""
        u, d = self.statistic.counted(scores), self.statistic.denominators()
        cell = np.where(d > 0, np.arange(d.shape[1]), -1)
        return u.ravel(), cell.ravel(), d.shape[1]

    def documents_needed(self, scores: np.ndarray, bound: float, alpha: float) -> int | None:
        """About how many documents of such queries decide as often as not, where the quantities are means. alpha: as of
        `bounds`."""
        values, cell, size = self._of_queries(scores)
        means, variances, counts = moments(values, cell, size)
        used, place = np.unique(self.index, return_inverse=True)
        apart = np.where(cell >= 0, values - np.nan_to_num(means)[cell], 0.0).reshape(-1, size)[:, used]
        spread = np.sqrt((apart**2).sum(0))
        together = (apart.T @ apart) / np.maximum(spread * spread[:, None], 1e-300)
        return mean_rows_needed(
            means[used], variances[used], counts[used] / len(scores),
            Contrasts(place.reshape(self.index.shape), self.coefficient), bound, alpha,
            low=self.statistic.low, high=self.statistic.high, correlation=lambda a, b: together[a, b],
        )  # fmt: skip


def measured_ranking(bound: Any, rows: Scored, documents: Documents) -> float:
    """The largest sum. Raises: EmptyGroupError as the bound's `sums` does."""
    assert rows.scores is not None
    return max(float(made.values(rows.scores).max()) for made in bound.sums(documents))


def judge_ranking(bound: Any, rows: Scored, documents: Documents, alpha: float) -> Finding:
    """The verdict on the largest sum, of all sets of attributes together."""
    try:
        made = bound.sums(documents, "drop")
    except EmptyGroupError as error:
        return stated_facts(bound, rows) | nothing_found(str(error))
    scores = rows.scores
    assert scores is not None
    total = sum(len(one.names) for one in made)
    levels = [alpha * len(one.names) / total for one in made]
    found = joined([one.bounds(scores, level, alpha) for one, level in zip(made, levels, strict=True)])
    names = [name for one in made for name in one.names]
    few = f"Fewer than {CLUSTERS} held-out queries measure one of the groups; give more queries."
    groups = {
        one.said(int(c)): int((one.statistic.denominators()[:, c] > 0).sum())
        for one in made
        for c in np.unique(one.index)
    }
    return finding(
        bound,
        rows,
        found,
        names.__getitem__,
        groups,
        MEANS if made[0].is_mean else RATIOS,
        lambda: _documents_needed(made, scores, found, float(bound.bound), levels, alpha),
        missing=without_rows(bound, rows, (name for one in made for name in one.dropped)),
        unit="query",
        why=None if np.isfinite(found.upper) else few,
    ) | {"unit": "queries"}


def judge_every_query(bound: Any, rows: Scored, documents: Documents) -> Finding:
    """What was measured on these queries: one that breaks the bound proves a violation; others still may."""
    base = stated_facts(bound, rows)
    try:
        made = bound.cells(documents)
    except EmptyGroupError as error:
        return base | nothing_found(str(error))
    assert rows.scores is not None
    won = documents.won(rows.scores)
    values = np.concatenate([cells.values(won) for cells in made])
    names = [(cells, i) for cells in made for i in range(len(cells))]
    worst = np.argsort(-values, kind="stable")[:MOST_CELLS]
    value, broken = float(values.max()), int((values > float(bound.bound)).sum())
    measured = [
        {"name": names[i][0].name(names[i][1]), "value": float(values[i]), "lower": float(values[i]), "upper": None}
        for i in worst.tolist()
    ]
    return base | {
        "value": value,
        "lower": value,
        "upper": None,
        "verdict": "violated" if broken else "insufficient",
        "rows_needed": None,
        "worst": measured[0]["name"],
        "method": "counted: a bound on every query is broken by one, and no sample of queries can confirm it",
        "groups": {},
        "unit": "queries",
        "contrasts": measured,
        "why": f"{broken:,} of {len(values):,} pairs of a query and a group break it on these rows.",
    }


def _documents_needed(
    made: Sequence[RankingSums],
    scores: np.ndarray,
    found: GapBounds,
    bound: float,
    levels: Sequence[float],
    alpha: float,
) -> int | None:
    """About how many documents of such queries decide as often as not. levels: of the sums of each set of attributes."""
    if not made[0].is_mean:
        return _times_as_many(found, bound, len(scores), alpha)
    breaks = found.value > bound
    each = [
        one.documents_needed(scores, bound, level)
        for one, level in zip(made, levels, strict=True)
        if not breaks or one.values(scores).max() > bound
    ]
    known = [n for n in each if n is not None]
    if breaks:
        return min(known, default=None)
    return max(known) if len(known) == len(each) else None


def _times_as_many(found: GapBounds, bound: float, documents: int, alpha: float) -> int | None:
    """The same of ratios, whose limits narrow with the root of the number of queries. To be met, all sums must be found
    within the bound at once; they are taken as sums of independent quantities."""
    met = found.value <= bound
    far, room = (found.uppers - found.estimates, bound - found.estimates) if met else (
        np.array([found.value - found.lower]), np.array([found.value - bound])
    )  # fmt: skip
    if not np.isfinite(far).all() or room.min() <= 1e-9:
        return None
    times = (far / room).max()
    if met and found.contrasts is not None:
        error = far / -special.ndtri(alpha / len(far))
        together = Together(found.contrasts, np.ones(int(found.contrasts.index.max()) + 1))
        times = np.median(((together.draws - special.ndtri(alpha)) * error / room).max(1))
    return int(np.ceil(documents * max(float(times), 1.0) ** 2))
