"""Sensitive attributes -> integer group codes: each attribute by itself or crossed; missing values stay missing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from narwhals.stable.v2.dependencies import is_pandas_index
from sklearn import get_config

from fairbound.base.errors import DataError
from fairbound.base.names import seen
from fairbound.rows.reading import coded_labels, frame_of, is_missing, plain_array, series_of

MISSING = -1
MANY_VALUES = 100
MANY_FRACTIONS = 20
"""Values of which one is a fraction and all are numbers, from which on they are taken for amounts or weights."""
SAYS_NOTHING = frozenset({"true", "false", "yes", "no", "y", "n"})
"""Labels of which two say nothing without their attribute, as numbers do."""
BITS, BOOLEANS = ("0", "1"), ("False", "True")
AND = " & "
"""Joins the labels of crossed groups in their name."""


def texts_of(column: Any) -> np.ndarray:
    """(n,) object array of text labels of one column; None, NaN, NaT and pandas.NA become None."""
    codes, texts = _coded_texts(column)
    return np.array([*texts, None], dtype=object)[codes]


def _coded_texts(column: Any) -> tuple[np.ndarray, list[str | None]]:
    """One column as codes (n,) and the texts that they number; some texts may be equal, and None means missing."""
    try:
        codes, values = coded_labels(column)
    except TypeError as error:
        raise DataError(f"a group must be a text, a number, a bool or a date, and one is not ({error}).") from None
    return codes, [label_text(value) for value in values]


def label_text(value: Any) -> str | None:
    """A label as text, a whole number without its ".0"; None for None, NaN, NaT and pandas.NA."""
    if is_missing(value):
        return None
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def columns_of(sensitive_features: Any) -> dict[str, Any]:
    """The columns of sensitive features as `Groups.of` takes them, by attribute. Raises: DataError for other shapes."""
    if isinstance(sensitive_features, dict):
        return {str(k): v for k, v in sensitive_features.items()}
    if is_pandas_index(sensitive_features):
        sensitive_features = _levels(sensitive_features)
    frame = frame_of(sensitive_features)
    if frame is not None:
        return {str(name): frame.get_column(name) for name in frame.columns}
    series = series_of(sensitive_features)
    if series is not None:
        return {str(series.name or "group"): series}
    array = np.asarray(plain_array(sensitive_features))
    if isinstance(sensitive_features, list | tuple) and array.dtype.kind in "US":
        array = np.asarray(sensitive_features, dtype=object)  # where None and NaN are no texts
    array = array if array.dtype.kind in "biu" else array.astype(object)
    if array.ndim == 1:
        return {"group": array}
    if array.ndim == 2:
        names = ["group"] if array.shape[1] == 1 else [f"group{j}" for j in range(array.shape[1])]
        return {name: array[:, j] for j, name in enumerate(names)}
    raise DataError(f"sensitive_features must have one or two dimensions, got {array.ndim}.")


def _levels(index: Any) -> Any:
    """The levels of an index of pandas as a frame, those without a name called as the columns of an array are; of one level
    a Series."""
    if index.nlevels == 1:
        return index.get_level_values(0).to_series()
    names = [f"group{j}" if name is None else name for j, name in enumerate(index.names)]
    return index.to_frame(index=False, name=names, allow_duplicates=True)


def has_names(sensitive_features: Any) -> bool:
    """Whether sensitive features name their attributes, as a dict, a frame or a named Series does."""
    if isinstance(sensitive_features, dict) or frame_of(sensitive_features) is not None:
        return True
    if is_pandas_index(sensitive_features):
        return all(name is not None for name in sensitive_features.names)
    series = series_of(sensitive_features)
    return series is not None and bool(series.name)


@dataclass(frozen=True)
class Groups:
    """Group membership of n rows under A attributes.

    codes: (n, A) int64, a column per attribute; MISSING (-1) where the attribute is not known.
    attributes: A names. labels: for each attribute the group names, in code order.
    """

    codes: np.ndarray
    attributes: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if self.codes.ndim != 2 or self.codes.shape[1] != len(self.attributes):
            raise DataError(f"codes must be (n, {len(self.attributes)}), got {self.codes.shape}.")

    @classmethod
    def of(cls, sensitive_features: Any, *, whole: bool = True) -> Groups:
        """Groups from a frame or Series of any dataframe library, index of pandas (an attribute for each level), dict of
        columns, array (n,) or (n, A), tensor or list; labels in sorted order. A `Groups` is returned as it is.

        whole: whether these are all rows; of a part of them nothing is asked but that it can be read.
        Raises: DataError for what holds no such columns, and of all rows as `check_whole`.
        """
        if isinstance(sensitive_features, Groups):
            return sensitive_features
        codes, names = [], []
        columns = columns_of(sensitive_features)
        for column in columns.values():
            coded, texts = _coded_texts(column)
            known = sorted({v for v in texts if v is not None}, key=natural_order)
            codes.append(_places(texts, known)[coded])
            names.append(tuple(known))
        if not codes:
            raise DataError("sensitive_features holds no attribute.")
        if len({len(c) for c in codes}) > 1:
            raise DataError(f"the sensitive attributes differ in length: {[len(c) for c in codes]}.")
        joined = np.stack(codes, axis=1) if len(codes) > 1 else codes[0][:, None]
        found = cls(joined, tuple(columns), tuple(names))
        if whole:
            check_whole(found.names, len(found))
        return found

    @classmethod
    def of_rows(cls, sensitive_features: Any, n: int, what: str = "scores", *, whole: bool = True) -> Groups:
        """`Groups.of`, for n rows; of no attribute for None. what: the other column of the rows, for the message.

        Raises: DataError where they are not n.
        """
        found = no_groups(n) if sensitive_features is None else cls.of(sensitive_features, whole=whole)
        if len(found) != n:
            raise DataError(f"{n} {what} but {len(found)} rows of sensitive features.")
        return found

    def encode(self, sensitive_features: Any) -> tuple[Groups, dict[str, int]]:
        """New rows in the codes of these groups, and how many rows per attribute have a group never seen here.

        A group never seen becomes MISSING: no bound was stated for it. Booleans are the groups 0 and 1, and the other
        way round.
        """
        found, unseen = self._encode(sensitive_features)
        return found, dict(zip(self.attributes, map(int, unseen.sum(0)), strict=True))

    def _encode(self, sensitive_features: Any) -> tuple[Groups, np.ndarray]:
        """As `encode`, and (n, A) bool, whether a row has a group never seen here."""
        given = sensitive_features if isinstance(sensitive_features, Groups) else None
        columns: dict[str, Any] = columns_of(sensitive_features) if given is None else given._coded
        if len(columns) == len(self.attributes) and set(columns) != set(self.attributes) and len(columns) == 1:
            columns = {self.attributes[0]: next(iter(columns.values()))}
        absent = [a for a in self.attributes if a not in columns]
        if absent:
            how = (
                ""
                if given or has_names(sensitive_features)
                else " Pass a dict or a data frame with columns of these names."
            )
            raise DataError(f"sensitive_features lacks {absent}; it has {sorted(columns)}.{how}")
        codes, unseen = [], []
        for attribute, known in zip(self.attributes, self.labels, strict=True):
            coded, texts = _coded_texts(columns[attribute]) if given is None else columns[attribute]
            texts = _as_known(texts, known)
            places = _places(texts, known)
            new = np.array([v is not None for v in texts] + [False]) & (np.append(places, 0) == MISSING)
            unseen.append(new[coded])
            codes.append(places[coded])
        return Groups(np.stack(codes, axis=1), self.attributes, self.labels), np.stack(unseen, axis=1)

    def encode_needed(self, sensitive_features: Any, n: int, use: str) -> tuple[Groups, np.ndarray]:
        """As `encode`, of n rows whose prediction needs their groups; and (n, A) bool, whether a row has a group never seen
        here. use: what is done with the rows, for the message.

        Raises: DataError where the groups are not given, or are not n.
        """
        if sensitive_features is None:
            routed = get_config()["enable_metadata_routing"]
            hint = (
                " Scorers by name, as scoring='accuracy', cannot pass groups to predict: leave scoring out, with "
                "set_score_request(sensitive_features=True) of the estimator, or take fb.scorer."
                if routed
                else " Where scikit-learn asks for them (cross_val_score, GridSearchCV), call sklearn.set_config(enable_metadata_routing=True) "
                "first, and set_score_request(sensitive_features=True) of the estimator; params= then reaches them, but not "
                "through scorers by name, as scoring='accuracy'."
            )
            raise DataError(
                f"these predictions need the groups of the rows: pass them by name, as sensitive_features=, with {', '.join(self.attributes)}."
                f"{hint}"
            )
        found, unseen = self._encode(sensitive_features)
        return Groups.of_rows(found, n, f"rows to {use}"), unseen

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """By attribute, the names of its groups."""
        return dict(zip(self.attributes, self.labels, strict=True))

    @property
    def by_attribute(self) -> list[tuple[str, tuple[str, ...], np.ndarray]]:
        """Of every attribute its name, the names of its groups, and (n,) the codes of the rows."""
        return list(zip(self.attributes, self.labels, self.codes.T, strict=True))

    @property
    def _coded(self) -> dict[str, tuple[np.ndarray, list[str | None]]]:
        """By attribute, the codes of the rows and what they stand for."""
        return {attribute: (code, [*known, None]) for attribute, known, code in self.by_attribute}

    def after(self, known: Groups) -> tuple[Groups, dict[str, list[str]]]:
        """The same rows, with the groups of `known` first among their groups, even those without a row here; and the
        other groups, by attribute.

        known: of the same attributes, in any order.
        """
        codes, labels, new = [], [], {}
        for attribute, first in zip(known.attributes, known.labels, strict=True):
            j = self.attributes.index(attribute)
            new[attribute] = [label for label in self.labels[j] if label not in first]
            every = (*first, *new[attribute])
            place = np.array([*map(every.index, self.labels[j]), MISSING], dtype=np.int64)
            codes.append(place[self.codes[:, j]])
            labels.append(every)
        return Groups(np.stack(codes, axis=1), known.attributes, tuple(labels)), new

    @classmethod
    def joined(cls, parts: Sequence[Groups]) -> Groups:
        """The rows of all parts, which have the same attributes and labels."""
        return cls(np.concatenate([part.codes for part in parts]), parts[0].attributes, parts[0].labels)

    def unknown(self, each: np.ndarray | None = None) -> dict[str, int]:
        """By attribute, the rows whose group is not known. each: (n,) how many rows each one stands for,
        None for one."""
        each = np.ones(len(self), dtype=np.int64) if each is None else each
        return {attribute: int(each[code < 0].sum()) for attribute, _, code in self.by_attribute}

    def take(self, rows: np.ndarray | Sequence[int]) -> Groups:
        """The groups of the rows numbered `rows` (k,), or of those marked by a mask (n,)."""
        return Groups(self.codes[rows], self.attributes, self.labels)

    def crossed(self) -> Groups:
        """One attribute whose groups are the combinations that occur, named as `said_labels` has it; MISSING where any
        attribute is."""
        code = cross([self.codes[:, j] for j in range(len(self.attributes))], [len(v) for v in self.labels])
        occurring = np.unique(code[code >= 0])
        dense = np.full(math.prod(len(v) for v in self.labels), MISSING, dtype=np.int64)
        dense[occurring] = np.arange(len(occurring))
        labels, said = [], said_labels(self.attributes, self.labels, crossed=True)
        for flat in occurring:
            parts = []
            for known in reversed(said):
                flat, j = divmod(int(flat), len(known))
                parts.append(known[j])
            labels.append(AND.join(reversed(parts)))
        codes = np.where(code >= 0, dense[np.maximum(code, 0)], MISSING)
        return Groups(codes[:, None], ("*".join(self.attributes),), (tuple(labels),))

    def counts(self) -> dict[str, dict[str, int]]:
        """Rows per group, by attribute; groups without a row are listed with 0."""
        return {
            a: dict(zip(known, np.bincount(code[code >= 0], minlength=len(known)).tolist(), strict=True))
            for a, known, code in self.by_attribute
        }

    def __len__(self) -> int:
        return len(self.codes)


def no_groups(n: int) -> Groups:
    """n rows under no attribute at all."""
    return Groups(np.zeros((n, 0), dtype=np.int64), (), ())


def check_whole(names: Mapping[str, Sequence[str]], rows: int) -> None:
    """names: by attribute, the groups that all `rows` rows of a table have.

    Raises: DataError where there are no rows, and for an attribute without a known value, with more than 20 values that
        are numbers with fractions, or as `check_many`.
    """
    if names and not rows:
        raise DataError("the table has no rows. Check the filter or the file that made it.")
    for attribute, known in names.items():
        if not known:
            raise DataError(f"the sensitive attribute {attribute!r} has no known value; give another column.")
        if len(known) > MANY_FRACTIONS and are_fractions(known):
            raise _no_groups_but_values(attribute, known, rows)
    check_many(names, rows)


def check_many(names: Mapping[str, Sequence[str]], rows: int) -> None:
    """Raises: DataError for an attribute of too `many_values`. names: by attribute, groups that occur; rows: of the whole
    table."""
    for attribute, known in names.items():
        if many_values(known, rows):
            raise _no_groups_but_values(attribute, known, rows)


def many_values(known: Sequence[str], rows: int) -> bool:
    """Whether an attribute has more than 100 values `known`, and more than a tenth as many as there are rows."""
    return len(known) > MANY_VALUES and len(known) > rows / 10


def _no_groups_but_values(attribute: str, known: Sequence[str], rows: int) -> DataError:
    return DataError(
        f"the sensitive attribute {attribute!r} has {len(known)} values in {rows} rows, such as {known[-1]!r}; it looks like a "
        "number or an identifier. Bin it first (pandas.cut). Weights of rows are passed by name, as sample_weight=."
    )


def check_lengths(X: Any, n: int, groups: Groups) -> None:
    """Raises: DataError where the rows of X, n labels and the groups differ in number."""
    rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if rows != n or len(groups) != n:
        of_groups = f", sensitive_features {len(groups)}" if groups.attributes else ""
        raise DataError(f"X has {rows} rows, y {n}{of_groups}.")


def cross(codes: Sequence[np.ndarray], sizes: Sequence[int]) -> np.ndarray:
    """Mixed-radix code of several attributes; MISSING where any is."""
    flat = np.zeros_like(codes[0])
    missing = np.zeros(len(flat), dtype=bool)
    for code, size in zip(codes, sizes, strict=True):
        flat *= size
        flat += np.maximum(code, 0)
        missing |= code < 0
    return np.where(missing, MISSING, flat)


def said_labels(
    attributes: Sequence[str], labels: Sequence[Sequence[str]], *, crossed: bool = False
) -> tuple[tuple[str, ...], ...]:
    """The labels of every attribute as they stand in the names of groups.

    They are said with the attribute, "sex: 1", where one of its labels is a number or two are words such as yes, or
    where two attributes share the label; and everywhere where a label of `crossed` groups holds the sign that joins
    them. A label that begins or ends with a blank, or is empty, stands in quotation marks.
    """
    times = Counter(label for known in labels for label in known)
    bare = [any(map(is_number, known)) or len(SAYS_NOTHING & {v.lower() for v in known}) > 1 for known in labels]
    joined = crossed and len(labels) > 1 and any(AND in label for label in times)
    return tuple(
        tuple(f"{attribute}: {seen(v)}" if joined or alone or times[v] > 1 else seen(v) for v in known)
        for attribute, known, alone in zip(attributes, labels, bare, strict=True)
    )


def natural_order(label: str) -> tuple[int, float, str]:
    """A key that sorts numbers by size, before texts."""
    return (0, float(label), label) if is_number(label) else (1, 0.0, label)


def _as_known(texts: Sequence[str | None], known: Sequence[str]) -> Sequence[str | None]:
    """The texts of new rows, False and True as 0 and 1 where those are all the known ones, and the other way round."""
    for own, theirs in ((BITS, BOOLEANS), (BOOLEANS, BITS)):
        if set(known) <= set(own) and set(texts) - {None} <= set(theirs):
            return [None if text is None else own[theirs.index(text)] for text in texts]
    return texts


def _places(texts: Sequence[str | None], known: Sequence[str]) -> np.ndarray:
    """(k,) the number of each text among the known ones, MISSING for others and for None."""
    table = {label: i for i, label in enumerate(known)}
    return np.array([MISSING if v is None else table.get(v, MISSING) for v in texts], dtype=np.int64)


def are_fractions(names: Sequence[str]) -> bool:
    """Whether all names are numbers, and some no whole ones."""
    return all(map(is_number, names)) and not all(float(name).is_integer() for name in names)


def is_number(text: str) -> bool:
    """Whether a text is written as a number; "nan" is not one."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
