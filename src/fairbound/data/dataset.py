"""One data set in memory: features, label, sensitive attributes, the published split, and deterministic new splits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from fairbound.base.errors import DataError, OptionError
from fairbound.base.seeds import seed_for
from fairbound.rows.split import stratified_split


@dataclass(frozen=True, eq=False)
class Dataset:
    """A labelled data set with its sensitive attributes.

    X: (n, d) float64 array or scipy CSR matrix. NaN marks a missing number (only `loanapp` and a CSV have any).
    y: (n,) int64; 0/1, or class numbers 0..k-1 for a multi-class set.
    sensitive: name -> (n,) object array of text labels, None where missing. Every attribute is here whether or not it
        is also a feature; `without` removes it from the features.
    feature_names: d names of the columns of X.
    feature_sources: d names: the raw column each feature was made from ("race" for "race=Black").
    sensitive_sources: attribute -> the raw columns that reveal it, e.g. {"age_25_60": ("age",)}.
    splits: the publisher's or the paper's parts, name -> sorted row numbers; empty where none was published.
    frame: pandas table of the raw feature columns, the label (0/1) under `label`, and one column for each sensitive
        attribute; None for sets that exist only in encoded form (a9a).
    feature_columns: columns of `frame` that are features, in order.
    qid: (n,) the query of each row, where rows are documents to rank and y their relevance; else None.
    label, positive: name of the label column, and what its 1 means in the original file.
    weight: (n,) > 0 how many people each row of a survey stands for; None where every row stands for one.
    """

    name: str
    X: Any
    y: np.ndarray
    sensitive: Mapping[str, np.ndarray]
    feature_names: tuple[str, ...]
    splits: Mapping[str, np.ndarray] = field(default_factory=dict)
    description: str = ""
    label: str = "label"
    positive: str = "1"
    frame: Any = None
    feature_columns: tuple[str, ...] = ()
    feature_sources: tuple[str, ...] = ()
    sensitive_sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    weight: np.ndarray | None = None
    qid: np.ndarray | None = None

    def __post_init__(self) -> None:
        n = len(self.y)
        if not self.feature_sources:
            object.__setattr__(self, "feature_sources", self.feature_names)
        if self.X.ndim != 2 or self.X.shape[0] != n:
            raise DataError(f"data set {self.name!r}: X has shape {self.X.shape} but there are {n} labels.")
        if not len(self.feature_names) == len(self.feature_sources) == self.X.shape[1]:
            raise DataError(f"data set {self.name!r}: {len(self.feature_names)} names for {self.X.shape[1]} features.")
        if n and (self.y.dtype.kind not in "iu" or self.y.min() < 0):
            raise DataError(f"data set {self.name!r}: labels must be integers from 0, got {np.unique(self.y)[:5]}.")
        if np.isinf(self.X.data if sparse.issparse(self.X) else self.X).any():
            raise DataError(f"data set {self.name!r}: X holds infinite values; remove or cap them.")
        for kind, columns in (
            ("sensitive attribute", self.sensitive),
            ("frame", {} if self.frame is None else {"": self.frame}),
        ):
            for key, column in columns.items():
                if len(column) != n:
                    raise DataError(f"data set {self.name!r}: {kind} {key!r} has {len(column)} rows, the labels {n}.")
        if self.weight is not None and (self.weight.shape != (n,) or not (self.weight > 0).all()):
            raise DataError(f"data set {self.name!r}: weight must be {n} positive numbers.")
        if self.qid is not None and len(self.qid) != n:
            raise DataError(f"data set {self.name!r}: qid has {len(self.qid)} rows, the labels {n}.")
        self._check_splits(n)

    def _check_splits(self, n: int) -> None:
        seen = np.zeros(n, dtype=bool)
        for part, rows in self.splits.items():
            if len(rows) and not 0 <= rows.min() <= rows.max() < n:
                raise DataError(f"data set {self.name!r}: split {part!r} names rows outside 0..{n - 1}.")
            if seen[rows].any():
                raise DataError(f"data set {self.name!r}: split {part!r} shares rows with another part.")
            seen[rows] = True

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        groups = ", ".join(self.sensitive)
        return f"Dataset({self.name!r}, {len(self)} rows, {self.X.shape[1]} features, sensitive: {groups or 'none'})"

    def group(self, name: str) -> np.ndarray:
        """(n,) object array: the labels of one sensitive attribute, None where missing.

        Raises: OptionError if the data set has no such attribute.
        """
        if name not in self.sensitive:
            known = ", ".join(self.sensitive) or "none"
            raise OptionError(f"data set {self.name!r} has no sensitive attribute {name!r}; it has: {known}.")
        return self.sensitive[name]

    @property
    def features(self) -> Any:
        """(n, ...) the feature columns of `frame`, as a person would hand them to an estimator;
        X where there is no frame."""
        return self.X if self.frame is None else self.frame[list(self.feature_columns)]

    def take(self, rows: Any) -> Dataset:
        """Only `rows` (integer positions or a mask), in that order; published splits are dropped."""
        rows = np.asarray(rows)
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        return replace(
            self,
            X=self.X[rows],
            y=self.y[rows],
            qid=None if self.qid is None else self.qid[rows],
            sensitive={key: column[rows] for key, column in self.sensitive.items()},
            splits={},
            weight=None if self.weight is None else self.weight[rows],
            frame=None if self.frame is None else self.frame.iloc[rows].reset_index(drop=True),
        )

    def without(self, *names: str) -> Dataset:
        """The same rows with the features that reveal `names` removed from X and from `feature_columns`.

        names: sensitive attributes (their source columns go) or raw columns. `sensitive` and `frame` stay whole.
        Raises: OptionError if a name is neither, or if no feature would be left.
        """
        gone: set[str] = set()
        for name in names:
            if name not in self.sensitive and name not in self.feature_sources:
                raise OptionError(f"data set {self.name!r} has no attribute or feature {name!r} to remove.")
            gone.update(self.sensitive_sources.get(name, (name,)))
        keep = [j for j, source in enumerate(self.feature_sources) if source not in gone]
        if not keep:
            raise OptionError(f"data set {self.name!r}: removing {', '.join(names)} leaves no feature.")
        return replace(
            self,
            X=self.X[:, keep],
            feature_names=tuple(self.feature_names[j] for j in keep),
            feature_sources=tuple(self.feature_sources[j] for j in keep),
            feature_columns=tuple(column for column in self.feature_columns if column not in gone),
        )

    def split(
        self,
        seed: int,
        test: float = 0.2,
        stratify: str | None = None,
        *,
        group: str | None = None,
        validation: float = 0.0,
    ) -> dict[str, np.ndarray]:
        """Random parts "train", "test" and, where `validation` > 0, "validation": sorted row numbers covering all rows.

        seed: names the repeat; with the data set's name it decides the split, whatever is trained on it.
        test, validation: shares of all rows in [0, 1), rounded up to whole rows, as `stratified_split` says.
        stratify: None, "label", "group" or "group,label": each part keeps the shares of these strata to within one row.
            A missing group label is a stratum of its own.
        group: the sensitive attribute meant by "group"; the first one by default.
        """
        if not (test >= 0 and validation >= 0 and 0 < test + validation < 1):
            raise OptionError(f"test={test} and validation={validation} must be shares whose sum is in (0, 1).")
        if math.ceil(round(test * len(self), 9)) + math.ceil(round(validation * len(self), 9)) >= len(self):
            raise OptionError(
                f"data set {self.name!r}: {len(self)} rows are too few for test={test}, validation={validation}."
            )
        shares = {part: share for part, share in (("test", test), ("validation", validation)) if share}
        seed = seed_for("split", self.name, seed)
        train, *held = stratified_split(self._strata(stratify, group)[:, None], list(shares.values()), seed)
        return {"train": train, **dict(zip(shares, held, strict=True))}

    def _strata(self, stratify: str | None, group: str | None) -> np.ndarray:
        """(n,) codes of the strata."""
        words = [] if stratify is None else [word.strip() for word in stratify.split(",")]
        if any(word not in ("group", "label") for word in words):
            raise OptionError(f"stratify must be None, 'label', 'group' or 'group,label', got {stratify!r}.")
        if group is not None and "group" not in words:
            raise OptionError(f"group={group!r} has no effect with stratify={stratify!r}; say stratify='group'.")
        codes = np.zeros(len(self), dtype=np.int64)
        if "label" in words:
            codes = self.y.astype(np.int64)
        if "group" in words:
            if not self.sensitive:
                raise OptionError(f"data set {self.name!r} has no sensitive attribute to stratify by.")
            labels = self.group(group or next(iter(self.sensitive)))
            texts = np.array(["" if label is None else f"={label}" for label in labels])
            codes = codes + np.unique(texts, return_inverse=True)[1] * (codes.max(initial=0) + 1)
        return codes
