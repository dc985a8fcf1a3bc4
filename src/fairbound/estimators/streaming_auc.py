"""A linear score of largest AUC under a bound on areas, from a stream: chunks or single rows,
in memory that does not grow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from fairbound.base.checks import check_choice
from fairbound.base.errors import DataError, OptionError
from fairbound.base.undoing import undone_on_failure
from fairbound.fairness.area_problems.kappa_path import along_kappa
from fairbound.fairness.area_problems.linear_auc import LinearAUC, attributes_of, cells_of, pair_sums
from fairbound.fairness.area_problems.row_saddle import RowSaddle, SaddleOptions
from fairbound.fairness.measuring import measure
from fairbound.fairness.notions.auc import AUCParity, area_bound
from fairbound.ranking.wins import auc
from fairbound.rows.groups import Groups, check_whole
from fairbound.rows.labels import read_targets
from fairbound.rows.moments import Moments
from fairbound.rows.occurring import Occurring
from fairbound.rows.reading import read_weights, warn_of_order
from fairbound.tables.reading.chunks import Chunks

RIDGE, SMALLEST_SCALE = 0.1, 0.1
"""In the coordinates of solver="rows": what is added to variances of features of unit scale, and the smallest standard
deviation that is used, so that rare values do not make long rows."""

Key = tuple[int, tuple[str | None, ...]]
Kept = tuple[np.ndarray, Key, float]
"""Features, label and groups, and weight of a row of the sample."""


class _Solution(NamedTuple):
    """The weights (d,) of the rows so far, kappa, whether the bound holds on the sample, and what was tried."""

    weights: np.ndarray
    kappa: float
    met: bool | None = None
    path: tuple[dict[str, float], ...] = ()


@dataclass(eq=False, repr=False)
class StreamingAUC(BaseEstimator):
    """The weights w of scores w . x with the largest area under the ROC curve under one `auc_parity`, learnt by
    `partial_fit`.

    constraint: one bound on the true areas, such as "auc_parity[group] <= 0.02". Training uses the quadratic
        loss in place of the areas.
    solver: "exact" keeps means and covariances of the features by group and label, from which a solution takes
        milliseconds; it is the same whatever the order of the rows, to rounding. "rows" takes one step of stochastic
        mirror descent a row (`fairness/area_problems/row_saddle.py`), for rows in random order.
    kappa: the surrogate's bound. "auto" tries many and takes the one whose scores have the largest area while they meet
        the stated bound, on a random sample of the rows so far; "rows" needs a number.
    sample: rows of that sample, a reservoir. warm_up: the first rows, from which "rows" takes means, variances and
        groups before it begins; rows of a group that they lack are refused, so give `groups` where the stream is
        sorted.
    groups: None, or the labels of the groups by attribute, {"sex": ["F", "M"]}.
    options: a SaddleOptions for "rows". random_state: seed of the sample.

    After `partial_fit`: rows_ (rows so far), and of these, solved for when one of them is read: coef_ (d,), kappa_, met_
    (whether the bound holds on the sample; None where kappa is given), path_ (what was tried: kappa, area, value).
    """

    constraint: str | AUCParity
    _: KW_ONLY
    solver: str = "exact"
    kappa: float | str = "auto"
    sample: int = 10_000
    warm_up: int = 2_000
    groups: dict[str, list[str]] | None = None
    options: SaddleOptions | None = None
    random_state: int = 0

    @undone_on_failure
    def partial_fit(self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any = None) -> StreamingAUC:
        """Learn from rows X (n, d), numbers, dense or sparse, n >= 1; y (n,) in {0, 1}; sensitive_features as in
        `audit`.

        sample_weight: (n,) >= 0, for solver="exact" alone. Raises: DataError for rows that cannot be used.
        """
        warn_of_order(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight)
        groups = Groups.of(sensitive_features, whole=False)
        if not len(groups):
            raise DataError("there are no rows.")
        if isinstance(X, Chunks):
            raise DataError(
                "X is read in parts (Chunks), and partial_fit takes one part at a time, with its own y and sensitive_features: call it "
                "for each part in turn."
            )
        features = sparse.csr_matrix(X) if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
        if features.ndim != 2 or not np.isfinite(features.data if sparse.issparse(features) else features).all():
            raise DataError("X must be (n, d) numbers, none of them NaN or infinite; encode and impute first.")
        target = read_targets(y, len(groups))
        if target is None or features.shape[0] != len(groups):
            raise DataError(f"X has {features.shape[0]} rows, sensitive_features {len(groups)}; y must have as many.")
        if sample_weight is not None and self.solver == "rows":
            raise OptionError("solver='rows' takes no weights; take solver='exact'.")
        target = np.asarray(target, dtype=np.int64)
        weight = np.ones(len(target)) if sample_weight is None else read_weights(sample_weight, len(target))
        if not getattr(self, "rows_", 0):
            self._begin(groups.attributes, int(features.shape[1]))
        if features.shape[1] != self.n_features_in_:
            raise DataError(f"X has {features.shape[1]} columns, the rows before had {self.n_features_in_}.")
        if groups.attributes != self._attributes:
            raise DataError(f"the attributes are {groups.attributes}, those of the rows before {self._attributes}.")
        keys = self._keys(groups, target)
        if self.solver == "exact":
            self._add_moments(features, keys, weight)
        else:
            self._steps(features, keys)
        if self.kappa == "auto":
            self._draw(features, keys, weight)
        self.rows_ += len(target)
        self._found: _Solution | None = None
        return self

    def _begin(self, attributes: tuple[str, ...], columns: int) -> None:
        stated = area_bound(self.constraint, "StreamingAUC")
        if stated.fewest is not None:
            raise OptionError(
                f"{stated.text!r} counts the rows of each group, which StreamingAUC does not know before they have passed; leave "
                "fewest out, and mark the values of small groups missing."
            )
        check_choice("solver", self.solver, ("exact", "rows"))
        if self.kappa == "auto" and self.solver == "rows":
            raise OptionError("solver='rows' needs a number as kappa, the bound on the surrogate: try 0.2.")
        if self.kappa != "auto" and not (isinstance(self.kappa, (int, float)) and 0 <= self.kappa < np.inf):
            raise OptionError(f"kappa must be 'auto' or a number of at least 0, got {self.kappa!r}.")
        if self.sample < 1 or self.warm_up < 1:
            raise OptionError(f"sample and warm_up must be at least 1, got {self.sample!r} and {self.warm_up!r}.")
        self._stated = stated
        self._bound = replace(stated, surrogate="quadratic")
        self.rows_ = 0
        self._attributes, self.n_features_in_ = attributes, columns
        self._found = None
        self._moments: dict[Key, Moments] = {}
        self._kept: list[Kept] = []
        self._waiting: list[tuple[np.ndarray, Key]] = []
        self._run: RowSaddle | None = None
        self._rng = np.random.default_rng(self.random_state)

    def _keys(self, groups: Groups, target: np.ndarray) -> list[Key]:
        """Label and group names of every row."""
        names = [
            [None if code < 0 else labels[code] for code in column]
            for labels, column in zip(groups.labels, groups.codes.T.tolist(), strict=True)
        ]
        return list(zip(target.tolist(), zip(*names, strict=True), strict=True))

    def _groups_of(self, keys: list[Key]) -> tuple[Groups, np.ndarray]:
        """Groups and labels of rows with these keys; all groups that were named or seen have codes."""
        labels: list[tuple[str, ...]] = []
        for at, name in enumerate(self._attributes):
            asked = (self.groups or {}).get(name, [])
            seen = {name_of for _, g in keys if (name_of := g[at]) is not None}
            labels.append(tuple(sorted({str(v) for v in asked} | seen)))
        codes = [[-1 if v is None else labels[at].index(v) for at, v in enumerate(g)] for _, g in keys]
        table = np.array(codes, dtype=np.int64).reshape(len(keys), len(self._attributes))
        return Groups(table, self._attributes, tuple(labels)), np.array([y for y, _ in keys], dtype=np.int64)

    def _check_groups(self, groups: Groups, rows: int) -> None:
        """Raises: DataError as `check_whole`, for attributes whose groups were not named."""
        check_whole({a: known for a, known in groups.names.items() if a not in (self.groups or {})}, rows)

    # -- exact --------------------------------------------------------------------------------------------------

    def _add_moments(self, features: Any, keys: list[Key], weight: np.ndarray) -> None:
        places: dict[Key, list[int]] = {}
        for i, key in enumerate(keys):
            places.setdefault(key, []).append(i)
        made = {
            k: Moments.of(features[at], np.zeros(len(at), dtype=np.int64), 1, weight[at]) for k, at in places.items()
        }
        self._moments = _merged(self._moments, made)

    @undone_on_failure
    def merge(self, other: StreamingAUC) -> StreamingAUC:
        """Take in what another estimator with solver="exact" and the same arguments has learnt of other rows, as of
        another shard. The sample stays this one's, topped up in proportion."""
        if self.solver != "exact" or other.solver != "exact" or self.get_params() != other.get_params():
            raise OptionError("merge takes two estimators with solver='exact' and equal arguments.")
        if not getattr(other, "rows_", 0):
            return self
        if not getattr(self, "rows_", 0):
            self._begin(other._attributes, other.n_features_in_)
        if (self._attributes, self.n_features_in_) != (other._attributes, other.n_features_in_):
            raise DataError(
                f"merge takes rows of the same attributes and as many columns; these have {self._attributes} and "
                f"{self.n_features_in_}, those of the other {other._attributes} and {other.n_features_in_}."
            )
        self._moments = _merged(self._moments, other._moments)
        both = self.rows_ + other.rows_
        size = min(self.sample, len(self._kept) + len(other._kept))
        mine = int(self._rng.binomial(size, self.rows_ / both))
        mine = min(max(mine, size - len(other._kept)), len(self._kept))
        self._kept = [
            part[i]
            for part, k in ((self._kept, mine), (other._kept, size - mine))
            for i in self._rng.permutation(len(part))[:k]
        ]
        self.rows_, self._found = both, None
        return self

    def _draw(self, features: Any, keys: list[Key], weight: np.ndarray) -> None:
        """Keep a uniform sample of the rows so far (Vitter's algorithm R)."""
        ranks = self.rows_ + np.arange(len(keys))
        places = np.where(ranks < self.sample, ranks, self._rng.integers(0, ranks + 1))
        kept = list(self._kept)
        for i in np.flatnonzero(places < self.sample).tolist():
            row = features[i].toarray().ravel() if sparse.issparse(features) else features[i]
            entry = (row.astype(np.float32), keys[i], float(weight[i]))
            if places[i] < len(kept):
                kept[places[i]] = entry
            else:
                kept.append(entry)
        self._kept = kept

    def _solved(self) -> _Solution:
        """What the moments of the rows so far give."""
        keys = [key for key, made in self._moments.items() if made.weight[0] > 0]
        groups, target = self._groups_of(keys)
        self._check_groups(groups, self.rows_)
        occurring = Occurring.of(groups, target)
        attributes = attributes_of(self._bound, occurring)
        size = 2 * (int(np.prod([len(groups.labels[a]) for a in attributes])) + 1)
        moments = Moments.none(size, self.n_features_in_)
        for cell, key in zip(cells_of(groups, target, attributes).tolist(), keys, strict=True):
            part = self._moments[key]
            one = Moments.none(size, self.n_features_in_)
            one.weight[cell], one.mean[cell], one.scatter[cell] = part.weight[0], part.mean[0], part.scatter[0]
            moments = moments.merge(one)
        program = LinearAUC(self._bound, occurring, moments)
        if self.kappa != "auto":
            return _Solution(program.solve(float(self.kappa)).weights, float(self.kappa))
        rows = np.stack([row for row, _, _ in self._kept])
        member, labels = self._groups_of([key for _, key, _ in self._kept])
        own = np.array([weight for _, _, weight in self._kept])

        def of(weights: np.ndarray) -> tuple[float, float]:
            scores = rows @ weights
            value = measure(self._stated, scores, labels, member, threshold=0, sample_weight=own)
            return auc(scores, labels == 1, labels == 0, own), value

        path = along_kappa(program, of, self._stated.bound)
        tried = tuple({"kappa": t.scores.kappa, "auc": t.auc, "value": t.value} for t in path.tried)
        return _Solution(path.chosen.scores.weights, path.chosen.scores.kappa, path.met, tried)

    # -- rows ---------------------------------------------------------------------------------------------------

    def _steps(self, features: Any, keys: list[Key]) -> None:
        dense = features.toarray() if sparse.issparse(features) else features
        if self._run is None:
            waiting = [*self._waiting, *zip(dense, keys, strict=True)]
            if len(waiting) < self.warm_up:
                self._waiting = waiting
                return
            dense, keys = np.stack([row for row, _ in waiting]), [key for _, key in waiting]
            self._warm(dense, keys)
            self._waiting = []
        assert self._run is not None
        unknown = {g for _, g in keys} - self._known
        if unknown:
            raise DataError(f"rows of {sorted(map(str, unknown))} came after the first {self.warm_up}; give groups=.")
        codes = {key: self._code(key) for key in set(keys)}
        run = self._run.copy()
        run.feed((dense - self._mean) @ self._whiten, np.array([codes[key] for key in keys]))
        self._run = run

    def _warm(self, rows: np.ndarray, keys: list[Key]) -> None:
        """Coordinates and groups, from the first rows."""
        groups = self._groups_of(keys)[0]
        self._check_groups(groups, len(rows))
        every = Occurring.every(groups.attributes, groups.labels)
        self._labels, self._of = groups.labels, attributes_of(self._bound, every)
        self._known = set(product(*[(*labels, None) for labels in groups.labels]))
        self._mean = rows.mean(0)
        scale = np.maximum(rows.std(0), SMALLEST_SCALE)
        values, vectors = np.linalg.eigh(np.cov((rows / scale).T, ddof=0).reshape(rows.shape[1], -1))
        self._whiten = vectors / np.sqrt(np.maximum(values, 0) + RIDGE) / scale[:, None]
        options = self.options or SaddleOptions(c1=self._bound.c1)
        self._run = RowSaddle.start(pair_sums(self._bound, every, float(self.kappa)), rows.shape[1], options)

    def _code(self, key: Key) -> int:
        """The cell of a row."""
        y, names = key
        codes = np.array([[-1 if v is None else self._labels[at].index(v) for at, v in enumerate(names)]])
        return int(cells_of(Groups(codes, self._attributes, self._labels), np.array([y]), self._of)[0])

    # -- scores -------------------------------------------------------------------------------------------------

    @property
    def coef_(self) -> np.ndarray:
        """(d,) the weights after the rows so far. Raises, as `kappa_`, `met_` and `path_` do: NotFittedError before the
        first; EmptyGroupError, DataError where these do not do yet."""
        return self._solution.weights

    @property
    def kappa_(self) -> float:
        """The surrogate's bound under which `coef_` was found."""
        return self._solution.kappa

    @property
    def met_(self) -> bool | None:
        """Whether the scores of `coef_` meet the bound on the sample; None where kappa is given."""
        return self._solution.met

    @property
    def path_(self) -> list[dict[str, float]]:
        """Every kappa that was tried, with the area ("auc") and the value of the bound on the sample; [] where kappa is
        given."""
        return list(self._solution.path)

    @property
    def _solution(self) -> _Solution:
        if not getattr(self, "rows_", 0):
            raise NotFittedError("StreamingAUC has seen no rows; call partial_fit.")
        if self._found is None:
            if self.solver == "exact":
                self._found = self._solved()
            elif self._run is None:
                raise DataError(f"solver='rows' begins after {self.warm_up} rows; it has seen {self.rows_}.")
            elif not self._run.complete:
                raise DataError(
                    "no row of some set that the bound or the area compares has arrived yet; feed more rows."
                )
            else:
                self._found = _Solution(self._whiten @ self._run.point, float(self.kappa))
        return self._found

    def decision_function(self, X: Any) -> np.ndarray:
        """(n,) scores of X (n, d). Which of them are positive is left open."""
        return np.asarray(X @ self.coef_).ravel()


def _merged(first: Mapping[Key, Moments], second: Mapping[Key, Moments]) -> dict[Key, Moments]:
    """The moments of the rows of both."""
    return {**first, **{key: made if key not in first else first[key].merge(made) for key, made in second.items()}}
