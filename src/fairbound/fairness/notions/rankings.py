"""Bounds on rankings: documents of queries, ordered by score, whose groups are compared. `FairRanker` trains under
them.

    pairwise_parity[inter]      |A(a > b) - A(b > a)|      pairs whose documents are of two different groups
    pairwise_parity[intra]      |A(a > a) - A(b > b)|      pairs within one group
    pairwise_parity[marginal]   |A(a > any) - A(b > any)|  pairs by the group of the better document alone
    query_pairwise_parity       e(q, a) - e(q)             in every query q: the share of its pairs in the wrong order whose better
                                                           document is of group a, minus that of all its pairs (no size: one way)

where A(a > b) is the share of pairs in the right order among the pairs of one query whose better document is of group a
and whose worse one is of group b; the largest over every two groups. `exposure_parity` bounds, for every group, the
difference between the share of attention it gets and its share of the documents, or with [merit] of the relevance.

Source: Beutel et al. (2019), Fairness in recommendation ranking through pairwise comparisons; Narasimhan, Cotter,
    Gupta, Wang (2020), Pairwise fairness for ranking and regression; Singh, Joachims (2018), Fairness of exposure in
    rankings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from fairbound.base.checks import check_choice, positive
from fairbound.base.errors import DataError, EmptyGroupError, OptionError
from fairbound.fairness.comparing import Compared
from fairbound.fairness.compiled.builder import Builder
from fairbound.fairness.language import Key, Word
from fairbound.fairness.notions.groups import GroupBound
from fairbound.fairness.notions.registry import register
from fairbound.fairness.rankings.judging import RankingSums, judge_every_query, judge_ranking, measured_ranking
from fairbound.fairness.rankings.query_cells import QueryCells
from fairbound.fairness.rankings.statistics import Exposures, PairShares
from fairbound.fairness.scored import Finding, Scored
from fairbound.ranking.documents import Documents
from fairbound.rows.occurring import Occurring


@dataclass(frozen=True, kw_only=True)
class RankingBound(GroupBound):
    """Weighted sums of quantities of a ranking are at most `bound`. Options as of GroupBound, but for `fewest`.

    sharpness: multiplies differences of scores, over their spread, inside the sigmoids that training differentiates.
    """

    sharpness: float = 2.0

    each_query: ClassVar[bool] = False
    needs = frozenset({"groups", "queries"})
    OPTIONS: ClassVar[Any] = {
        **{key: GroupBound.OPTIONS[key] for key in ("each", "crossed", "by", "empty")},
        "sharpness": Key("sharpness", float, repr),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fewest is not None:
            raise OptionError(
                f"{self.name} is measured by queries, and fewest counts rows; leave it out. Mark the values of small groups missing, "
                "or merge them."
            )
        positive(self, "sharpness")

    def conditions(self) -> tuple[int | None, ...]:
        return (None,)

    def compile(self, builder: Builder) -> None:
        """Raises: OptionError: rows without queries have no ranking."""
        raise OptionError(
            f"{self.text!r} bounds a ranking, and these rows belong to no queries. Train a FairRanker with fit(X, y, qid=..., "
            "sensitive_features=...), or on the command line name the column of the query with --qid."
        )

    def sums(self, documents: Documents, empty: str | None = None) -> list[RankingSums]:
        """What is compared on the documents, for each set of attributes.

        Raises: EmptyGroupError for a group that no query measures, where `empty` (the bound's own by default) is
            "raise", and where nothing is left to compare.
        """
        occurring = Occurring.of(documents.groups, np.zeros(len(documents), dtype=np.int64))
        made = []
        for compared, dropped in self.compared(occurring, "drop"):
            found = self.of_groups(documents, compared, dropped)
            unseen = found.unmeasured()
            if unseen and (empty or self.empty) == "raise":
                raise EmptyGroupError(
                    f"{self.text!r}: no query measures {unseen[0]!r}. Give more queries, merge the group, mark its value "
                    f"missing, or leave it out: {replace(self, empty='drop').text!r}."
                )
            found = found.measured()
            if not len(found.index):
                raise EmptyGroupError(
                    f"{self.text!r}: no query has what it compares, {', '.join(map(repr, unseen[:4]))}."
                )
            made.append(found)
        return made

    def of_groups(self, documents: Documents, compared: Compared, dropped: list[str]) -> RankingSums:
        """The quantities and their sums for one set of attributes."""
        raise NotImplementedError

    def judge(self, rows: Scored, alpha: float) -> Finding:
        return judge_ranking(self, rows, self._documents(rows), alpha)

    def measure(self, rows: Scored) -> float:
        return measured_ranking(self, rows, self._documents(rows))

    def _documents(self, rows: Scored) -> Documents:
        if rows.documents is None:
            raise DataError(f"{self.text!r} bounds a ranking; say to which query each row belongs (qid=..., --qid).")
        return rows.documents


def both_ways(
    index: np.ndarray, words: Callable[[int], tuple[str, str]]
) -> tuple[np.ndarray, np.ndarray, Callable[[int], str]]:
    """The differences of two quantities, index (p, 2), in both directions: index and coefficient (2 p, 2),
    and their names."""
    index = np.stack([index, index[:, ::-1]], axis=1).reshape(-1, 2)
    name = lambda i: " - ".join(words(i // 2)[:: -1 if i % 2 else 1])  # noqa: E731
    return index, np.broadcast_to([1.0, -1.0], index.shape).copy(), name


@register()
@dataclass(frozen=True, kw_only=True)
class PairwiseParity(RankingBound):
    """Pairs whose better document is of one group are ordered right about as often as those of another.

    kind: "inter" pairs across two groups, "intra" within one, "marginal" whatever the worse document is.
    """

    kind: Literal["inter", "intra", "marginal"]

    name = "pairwise_parity"
    example = "0.05"
    measures = "a difference of pairwise accuracies"
    OPTIONS: ClassVar[Any] = {
        "inter": Word("kind", "inter"),
        "intra": Word("kind", "intra"),
        "marginal": Word("kind", "marginal"),
        **RankingBound.OPTIONS,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("kind", self.kind, ("inter", "intra", "marginal"))

    @property
    def uncertain(self) -> str | None:
        return (
            "a share of pairs is a ratio of two sums over queries, whose interval is asymptotic (docs/ranking.md has how often it "
            "errs). Certify exposure_parity, a mean over queries, or judge this bound by fb.audit(..., qid=...)."
        )

    def of_groups(self, documents: Documents, compared: Compared, dropped: list[str]) -> RankingSums:
        k = len(compared)
        statistic = PairShares.of(documents, compared.of_rows(documents.groups), k, self.sharpness)
        a, b = compared.pairs("pairwise")
        if self.kind == "inter":
            sides = np.stack([a * (k + 1) + b, b * (k + 1) + a], axis=1)
        else:
            worse = {"intra": (a, b), "marginal": (np.full_like(a, k), np.full_like(b, k))}[self.kind]
            sides = np.stack([a * (k + 1) + worse[0], b * (k + 1) + worse[1]], axis=1)
        names = [*(compared.name(g) for g in range(k)), "any"]
        said = lambda cell: f"{names[cell // (k + 1)]} above {names[cell % (k + 1)]}"  # noqa: E731
        index, coefficient, name = both_ways(sides, lambda i: (said(sides[i, 0]), said(sides[i, 1])))
        return RankingSums(statistic, index, coefficient, [name(i) for i in range(len(index))], said, dropped)


@register()
class QueryPairwiseParity(RankingBound):
    """In every query, pairs whose better document is of one group are in the wrong order at most `bound` more often
    than all pairs of the query: a constraint for each query and group.

    One way: a group that loses fewer pairs than all of the query breaks nothing. Then another loses more, and is bounded.

    It is stated of the queries at hand. Others are judged by what was measured on them; of queries not seen it promises
    nothing.

    Source: the paper on PLADA, appendix D.3: some 470,000 pairwise constraints on MSLR-WEB10K. It does not write them
        down; a constraint for every query and quality score is our reading.
    """

    name = "query_pairwise_parity"
    example = "0.2"
    measures = "a difference of pairwise errors"
    each_query: ClassVar[bool] = True

    def cells(self, documents: Documents) -> list[QueryCells]:
        """The cells of each set of attributes. Raises: EmptyGroupError where no query has two groups with pairs."""
        occurring = Occurring.of(documents.groups, np.zeros(len(documents), dtype=np.int64))
        made = []
        for compared, _ in self.compared(occurring, "drop"):
            groups = compared.of_rows(documents.groups)
            made.append(QueryCells.of(documents, groups, len(compared), compared.name, self.sharpness))
            if not len(made[-1]):
                raise EmptyGroupError(f"{self.text!r}: no query has pairs with better documents of two groups.")
        return made

    @property
    def uncertain(self) -> str | None:
        return (
            "it speaks of every query, and no sample of queries confirms that of the others. Certify exposure_parity."
        )

    def measure(self, rows: Scored) -> float:
        assert rows.scores is not None
        documents = self._documents(rows)
        won = documents.won(rows.scores)
        return max(float(made.values(won).max()) for made in self.cells(documents))

    def judge(self, rows: Scored, alpha: float) -> Finding:
        return judge_every_query(self, rows, self._documents(rows))


@register()
@dataclass(frozen=True, kw_only=True)
class ExposureParity(RankingBound):
    """Every group gets about the share of attention that it has of the documents, or of the relevance.

    share: "size" or "merit".
    """

    share: Literal["size", "merit"] = "size"

    name = "exposure_parity"
    example = "0.05"
    measures = "a difference of shares of attention"
    OPTIONS: ClassVar[Any] = {"size": Word("share", "size"), "merit": Word("share", "merit"), **RankingBound.OPTIONS}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("share", self.share, ("size", "merit"))

    def of_groups(self, documents: Documents, compared: Compared, dropped: list[str]) -> RankingSums:
        k = len(compared)
        groups = compared.of_rows(documents.groups)
        statistic = Exposures.of(documents, groups, k, self.sharpness, self.share == "merit")
        coefficient = np.tile([[1.0], [-1.0]], (k, 1))
        names = [f"{compared.name(i // 2)}, {'short' if i % 2 else 'over'} its share" for i in range(2 * k)]
        index = np.repeat(np.arange(k), 2)[:, None]
        return RankingSums(statistic, index, coefficient, names, compared.name, dropped)
