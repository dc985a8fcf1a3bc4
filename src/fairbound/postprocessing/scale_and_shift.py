"""Scores of one group scaled and shifted until areas under ROC curves agree: w1 h + w2 for its rows, h for all others.

Source: Kallus, Zhou (2019), The fairness of risk scores beyond classification: bipartite ranking and the xAUC metric;
    Yao, Lin, Yang (2023), E.2 and E.3, for the form and the grids: w1 in [0, 5] by 0.05, w2 in [-3, 3] by 0.1.
Departs: scores are first scaled to unit standard deviation, so that the grids mean the same for every score; kept is
    the pair with the largest area that meets the bound, and of pairs that do not the one nearest to it. The smaller
    group moves unless one is named; the source moves the group gamma = 1, on bank the larger one (ages 25 to 60). For
    w1 > 0, w1 h + w2 for one group orders all rows as (h - w2) / w1 for the other, so that only the grid is another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from fairbound.base.errors import DataError, OptionError
from fairbound.base.names import shortlist
from fairbound.base.undoing import undone_on_failure
from fairbound.fairness.areas.judging import cells_of_rows, largest_difference
from fairbound.fairness.notions.auc import AUCParity, area_bound
from fairbound.fairness.scored import Scored
from fairbound.ranking.wins import Wins, cell_wins
from fairbound.rows.groups import Groups
from fairbound.rows.labels import read_targets

SCALES = tuple(np.round(np.arange(0, 5.001, 0.05), 10))
SHIFTS = tuple(np.round(np.arange(-3, 3.001, 0.1), 10))
FIT_ROWS = 5000


@dataclass(eq=False, repr=False)
class ScaleAndShift(BaseEstimator):
    """A transformer of scores, given the group of every row at prediction, for an `auc_parity` between two groups.

    constraint: one bound as text or object. group: the label of the group whose scores move; None for the smaller.
    scales, shifts: the grids of w1 >= 0 and w2. rows: a random part of so many rows is tried, None for all;
    random_state: its seed.

    After fit: scale_, shift_ (w1, w2 in standard deviations), spread_ (that deviation), group_, met_, value_ and auc_
    on the rows tried.
    """

    constraint: str | AUCParity
    _: KW_ONLY
    group: str | None = None
    scales: Any = SCALES
    shifts: Any = SHIFTS
    rows: int | None = FIT_ROWS
    random_state: int = 0

    @undone_on_failure
    def fit(self, scores: Any, y: Any, sensitive_features: Any) -> ScaleAndShift:
        """scores: (n,) real; y: (n,) in {0, 1}; sensitive_features: (n,) of two groups.

        Raises: DataError for other groups, OptionError for another bound, EmptyGroupError as the bound does.
        """
        stated = area_bound(self.constraint, "ScaleAndShift")
        if stated.kind == "intra":
            raise OptionError(
                "scaling and shifting the scores of a group by the same numbers keeps the order within it, so that areas within groups "
                "do not change; take another kind than 'intra'."
            )
        groups, s, target = self._read(scores, sensitive_features, y)
        part = np.arange(len(s))
        if self.rows is not None and len(s) > self.rows:
            part = np.random.default_rng(self.random_state).permutation(len(s))[: self.rows]
        self.spread_ = float(s.std()) or 1.0
        labels = groups.labels[0]
        counts = np.bincount(groups.codes[:, 0], minlength=2)
        self.group_ = labels[int(counts.argmin())] if self.group is None else str(self.group)
        if self.group_ not in labels:
            raise DataError(f"no row is in group {self.group_!r}; there are {', '.join(labels)}.")
        mine = (groups.codes[:, 0] == labels.index(self.group_))[part]
        rows = Scored(target[part], target[part], scores=s[part], groups=groups.take(part))
        target = rows.target
        if target.min() == target.max():
            raise DataError(f"all rows tried have label {target[0]}; rows of both labels are needed.")
        pairs = [(float(scale), float(shift)) for scale in self.scales for shift in self.shifts]
        if not pairs or not all(0 <= scale < np.inf and abs(shift) < np.inf for scale, shift in pairs):
            raise OptionError("scales (at least 0) and shifts must be finite numbers, one or more of each.")
        compared = [found for found, _ in stated.differences(rows.occurring)]
        wins = _moved_wins(s[part], cells_of_rows(rows, compared[0].compared), mine)
        positive = np.arange(4) >= 2  # of the cells, label * 2 + group
        tried = []
        for scale, shift in pairs:
            found = wins(scale, shift * self.spread_)
            value = max(largest_difference(found, c) for c in compared)
            tried.append((value, float(found.areas(positive, ~positive))))
        values, areas = np.array(tried).T
        met = values <= stated.bound
        i = int(np.argmax(np.where(met, areas, -np.inf)) if met.any() else values.argmin())
        self.value_, self.auc_, (self.scale_, self.shift_) = float(values[i]), float(areas[i]), pairs[i]
        self.met_ = bool(met[i])
        return self

    def transform(self, scores: Any, sensitive_features: Any) -> np.ndarray:
        """(n,) the scores, those of the group moved. Groups not seen, and missing ones, keep theirs."""
        check_is_fitted(self)
        groups = Groups.of(sensitive_features)
        s = np.asarray(scores, dtype=np.float64)
        if s.shape != (len(groups),):
            raise DataError(f"scores are {s.shape}, sensitive_features {len(groups)} rows.")
        labels = groups.labels[0]
        code = labels.index(self.group_) if self.group_ in labels else -2
        return np.where(groups.codes[:, 0] == code, self.scale_ * s + self.shift_ * self.spread_, s)

    def _read(self, scores: Any, sensitive_features: Any, y: Any) -> tuple[Groups, np.ndarray, np.ndarray]:
        groups = Groups.of(sensitive_features)
        s = np.asarray(scores, dtype=np.float64)
        target = read_targets(y, len(groups))
        if s.shape != (len(groups),) or not np.isfinite(s).all() or target is None:
            raise DataError("scores must be (n,) finite numbers, with y and sensitive_features of the same rows.")
        check_two_groups(groups)
        return groups, s, np.asarray(target, dtype=np.int64)


def check_two_groups(groups: Groups) -> None:
    """Raises: DataError where groups are not two of one attribute, known for every row, whose scores can be moved."""
    needed = "scores are moved for one of two groups"
    if len(groups.attributes) != 1:
        raise DataError(f"{needed}: name one attribute, not {len(groups.attributes)}, {shortlist(groups.attributes)}.")
    name, labels, gone = groups.attributes[0], groups.labels[0], groups.codes[:, 0] < 0
    if len(labels) != 2:
        raise DataError(
            f"{needed}: {name!r} has {len(labels)}, {shortlist(labels, quoted=True)}. Merge them into two, or leave out the rows of "
            "others."
        )
    if gone.any():
        raise DataError(
            f"{needed}, which must be known for every row: {name!r} is missing in {gone.sum():,} of {len(gone):,} rows, the first in row "
            f"{gone.argmax()} (counting from 0). Fill them in, or leave these rows out."
        )


def _moved_wins(s: np.ndarray, cells: np.ndarray, mine: np.ndarray) -> Callable[[float, float], Wins]:
    """w1, w2 -> the wins between the 4 cells of the rows where the scores s (n,) of the rows `mine` are w1 s + w2,
    w1 >= 0.

    Within a group the order stays (all are ties at w1 = 0), so only rows of different groups are compared, in scores
    sorted once.
    """
    own, others = np.unique(cells[mine]).tolist(), np.unique(cells[~mine]).tolist()
    ordered = {c: np.sort(s[cells == c]) for c in (*own, *others)}
    first = cell_wins(s, cells, 4)

    def wins(scale: float, shift: float) -> Wins:
        above = first.above.copy()
        if scale == 0:
            above[np.ix_(own, own)] = np.outer(first.totals[own], first.totals[own]) / 2
        for a in own:
            moved = scale * ordered[a] + shift
            for b in others:
                sides = [np.searchsorted(ordered[b], moved, side).sum() for side in ("left", "right")]
                above[a, b] = sum(sides) / 2
                above[b, a] = first.totals[a] * first.totals[b] - above[a, b]
        return Wins(above, first.totals)

    return wins
