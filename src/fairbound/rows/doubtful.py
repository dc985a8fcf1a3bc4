"""Groups that are not known, or look like a mistake: two spellings of one, a missing value, a quantity, a column that is one by another
name."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from fairbound.base.callers import users_line
from fairbound.base.errors import DataError, DataWarning
from fairbound.base.names import unspelled
from fairbound.rows.groups import Groups, are_fractions, is_number, texts_of
from fairbound.rows.labels import FEATURE_CODES
from fairbound.rows.reading import frame_of, plain_array

MANY_NUMBERS = 20
"""More groups than this, each a number, are taken for a quantity."""
READS_MISSING = frozenset({
    "", "nan", "none", "null", "na", "n/a", "<na>", "nat", "?", ".", "unknown", "notknown", "missing", "notstated",
    "notavailable", "notprovided", "notspecified", "notreported",
})  # fmt: skip
"""Names of groups that may stand for a missing value."""
FIRST = 200
"""Rows by which nearly all columns are seen to be no groups."""
FEWEST = 10
"""Rows for each group that such a coincidence needs."""
ROWS = 1 << 16
"""Rows that are looked at together, so that many rows take no memory of their own."""


def unknown_groups(missing: Mapping[str, int], rows: int, ranked: bool = False) -> list[str]:
    """A warning for each attribute that is missing in some of the rows. missing: their number by attribute. ranked: whether the
    rows are documents of queries."""
    if ranked:
        what, left = "documents", "but take places in the order and are among all (docs/ranking.md)."
    else:
        what, left = "rows", "and no bound on its groups looks at them."
    return [
        f"{attribute} is not known in {n:,} of {rows:,} {what}; they are in none of its groups, {left}"
        for attribute, n in missing.items()
        if n
    ]


def doubtful_groups(labels: Mapping[str, Sequence[str]]) -> list[str]:
    """A warning for every two groups whose names differ only in capitals, blanks or how letters are stored, for groups
    that are blank or read like a missing value, and for each attribute of many numbers, such as an age, or of fractions.
    labels: attribute to the names of its groups."""
    out = []
    for attribute, names in labels.items():
        if len(names) > MANY_NUMBERS and all(map(is_number, names)):
            out.append(
                f"{attribute} has {len(names)} groups, each a number, such as {names[0]}. Where it is a quantity, such as an age, make a "
                "column of a few bands and compare these (pandas.cut)."
            )
        elif are_fractions(names):
            out.append(
                f"{attribute} has groups that are fractions, such as {names[-1]}. If these are weights of rows, pass them by name, as sample_weight=."
            )
        codes = [name for name in names if is_number(name) and float(name) in FEATURE_CODES and float(name) < 0]
        if any(is_number(name) and float(name) < 0 and name not in codes for name in names):
            codes = []
        if "-1" in names and "0" in names and all(is_number(name) for name in names):
            codes.append("-1")
        if unnamed := [name for name in names if unspelled(name) in READS_MISSING or name in codes]:
            out.append(
                f"{attribute}: {', '.join(map(repr, unnamed))} {'is' if len(unnamed) == 1 else 'are'} counted as a group of "
                "people like any other. Where it means not known, make it missing (None): its rows are in no group then."
            )
        alike: dict[str, str] = {}
        for name in names:
            first = alike.setdefault(unspelled(name), name)
            if first != name:
                letters = unicodedata.normalize("NFKC", first) == unicodedata.normalize("NFKC", name)
                pair = f"{first!a} and {name!a}" if letters else f"{first!r} and {name!r}"
                what = "how their letters are stored (unicodedata.normalize)" if letters else "capitals or blanks"
                out.append(
                    f"{attribute}: the groups {pair} differ only in {what}, and are counted as two groups. If they are one, "
                    "give them one spelling from the start."
                )
    return out


def twin_words(X: Any, groups: Groups) -> list[str]:
    """What is said of columns of X that are a sensitive attribute by another name: in the rows whose group is known, each
    group has one value, and each value one group. Columns of arrays, sparse tables, tensors and lists of rows are called
    x0, x1, ... Nothing of other tables, or of one of other length."""
    out, frame = [], frame_of(X)
    table = _without_names(X) if frame is None else None  # opened once for all attributes
    for attribute, labels, code in groups.by_attribute:
        if len(code) < FEWEST * len(labels) or len(np.unique(code[code >= 0])) < 2:
            continue  # of one group a constant column tells nothing
        like = _like_groups(table, code) if frame is None else _named_like_groups(frame, code, groups.attributes)
        for name, column in like:
            if _one_to_one(column, code):
                out.append(
                    f"Column {name!r} is the sensitive attribute {attribute!r} by another name, one value for each group, and a "
                    "feature: predictions use the group. Leave it out of X (--drop) if they must not."
                )
    return out


def _named_like_groups(frame: Any, code: np.ndarray, attributes: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Names and values of the columns of a frame which, by its first rows, may tell the groups `code` (n,) and be told by
    them, but for those that have the name of an attribute."""
    for name in frame.columns if len(frame) == len(code) else ():
        column = frame.get_column(name)
        if str(name) not in attributes and _one_to_one(column[:FIRST], code[:FIRST]):
            yield str(name), column


def _like_groups(table: Any, code: np.ndarray) -> Iterator[tuple[str, Any]]:
    """Names and values of the columns of a table as of `_without_names` which, by a few of its rows, may tell the groups
    `code` (n,) and be told by them."""
    if table is None or table.shape[0] != len(code):
        return
    known = np.flatnonzero(code >= 0)
    present, first = np.unique(code[known], return_index=True)
    rows = known[np.union1d(first, np.arange(min(FIRST, len(known))))]
    some, place = table[rows], (np.searchsorted(rows, known[first]), np.searchsorted(present, code[rows]))
    if sparse.issparse(table):
        for j in _told_by_groups(some, *place):
            yield f"x{j}", table[:, [j]].tocsc().toarray()[:, 0]
        return
    if some.dtype.kind == "O":
        may = [_one_to_one(column, code[rows]) for column in some.T]
    else:
        of_groups = some[place[0]]
        ordered = np.sort(of_groups, axis=0)
        may = (some == of_groups[place[1]]).all(axis=0) & (ordered[1:] != ordered[:-1]).all(axis=0)
    for j in np.flatnonzero(may).tolist():
        yield f"x{j}", table[:, j]


def _told_by_groups(some: Any, first: np.ndarray, code: np.ndarray) -> list[int]:
    """The columns of a sparse table (n, d), never made dense, in which all rows of a group have one value and no two groups
    the same. first: (groups,) a row of each group; code: (n,) the group of each row."""
    of_groups = some[first]
    other = (some != of_groups[code]).tocsc()
    other.eliminate_zeros()
    filled = of_groups.tocsc()
    filled.eliminate_zeros()  # one group at most has zero, so a column without any other value tells none apart
    may = np.flatnonzero((np.diff(other.indptr) == 0) & (np.diff(filled.indptr) >= len(first) - 1))
    values = np.sort(filled[:, may].toarray(), axis=0)
    return may[(values[1:] != values[:-1]).all(axis=0)].tolist()


def _without_names(X: Any) -> Any:
    """An array, tensor or list of rows as an array (n, d), a sparse table by rows; None for another table."""
    if sparse.issparse(X):
        return X.tocsr() if X.ndim == 2 else None
    if not isinstance(X, list | tuple) and len(getattr(X, "shape", ())) != 2:
        return None
    try:
        array = plain_array(X)
    except ValueError:  # rows of different lengths
        return None
    return array if array.ndim == 2 else None


def own_label_words(groups: Groups, target: np.ndarray) -> list[str]:
    """What is said of an attribute whose groups tell the labels target (n,): there are several labels, and each group has
    one of them alone, in the rows whose group is known. Nothing of groups of another number of rows."""
    out: list[str] = []
    if len(groups) != len(target):
        return out
    for attribute, labels, code in groups.by_attribute:
        if len(code) >= FEWEST * len(labels) and _labels_of_groups(code, target, len(labels)) > 1:
            out.append(
                f"The groups of {attribute} tell the labels: all rows of a group have the same label. Groups then differ as labels do. "
                "Name a sensitive attribute in its place."
            )
    return out


def _labels_of_groups(code: np.ndarray, target: np.ndarray, groups: int) -> int:
    """How many labels target (n,) there are in rows whose group code (n,) is known, where each group has one alone; else 0."""
    label, seen = np.zeros(groups, dtype=target.dtype), np.zeros(groups, dtype=bool)
    for at in range(0, len(code), ROWS):
        part, labels = code[at : at + ROWS], target[at : at + ROWS]
        part, labels = part[part >= 0], labels[part >= 0]
        new = ~seen[part]
        label[part[new]], seen[part[new]] = labels[new], True
        if (label[part] != labels).any():
            return 0
    return len(np.unique(label[seen]))


def _one_to_one(column: Any, code: np.ndarray) -> bool:
    """Whether values and group codes (n,) tell each other, and some group is known."""
    try:
        pairs = {(text, c) for text, c in zip(texts_of(column).tolist(), code.tolist(), strict=True) if c >= 0}
    except DataError:  # cells that are no values, such as lists
        return False
    values, known = ({pair[i] for pair in pairs} for i in (0, 1))
    return len(values) == len(known) == len(pairs) > 0


def warn_of_groups(groups: Groups, target: np.ndarray | None = None) -> None:
    """Warns: DataWarning with each of `doubtful_groups`, and of `own_label_words` where the rows have class numbers
    target (n,)."""
    told = [] if target is None else own_label_words(groups, target)
    for said in [*doubtful_groups(groups.names), *told]:
        warnings.warn(said, DataWarning, stacklevel=users_line())
