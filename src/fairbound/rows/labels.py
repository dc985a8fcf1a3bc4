"""True labels as class numbers: of two classes, of any number of classes, and labels that are 0 and 1 already."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from decimal import Decimal
from numbers import Integral
from typing import Any

import numpy as np

from fairbound.base.callers import users_line
from fairbound.base.errors import BINARY, DataError, DataWarning, OptionError
from fairbound.base.names import did_you_mean, plain_repr, shortlist, unspelled
from fairbound.rows.reading import column_array, column_values, frame_of, is_missing, places_among, plain_array

MANY_CLASSES = 100
SOME = 0.01
"""Share of the rows from which on a number that may be a code is spoken of."""
FEWEST = 10
"""Rows of the other labels beside which one that is in a single row is taken for a mistake."""
MANY_NUMBERS = 10
"""More labels than this, each a number, are taken for a quantity."""
NO = re.compile(
    r"(?<![^\W_])(no|not|non|never|false|denied|rejected|refused|declined|failed|bad"
    r"|nein|nicht|falsch|abgelehnt|nee|nej|nei|nie|nem|nao|não|faux|falso|hayır|нет)(?![^\W_])",
    re.IGNORECASE,
)
"""Words of labels that say no, of English and of other languages in which the word for yes may come before it."""
MISSING_CODES = frozenset({-1, -7, -8, -9, -77, -88, -99, -999, -9999, 7, 8, 9, 77, 88, 98, 99, 999, 9999})
"""Numbers by which surveys and old databases write that a value is missing."""
FEATURE_CODES = frozenset({-7, -8, -9, -77, -88, -99, *(s * (10**k - 1) for s in (1, -1) for k in range(3, 9))})
"""Those of them that are looked for among amounts, of which many are small."""
CLASSES = (
    "bound the rates of every class (class_demographic_parity, class_recall_parity, class_equalized_odds, class_error_parity) or the recall of "
    "a class, which need no positive one."
)
OF_CLASSES = f"with fb.FairClassifier {CLASSES}"
"""The same for those who decide between two classes alone."""
REGRESSOR = "or predict the number itself with fb.FairRegressor."


def binary_labels(y: Any, positive: Any = None, instead: str = CLASSES) -> tuple[np.ndarray, tuple[Any, Any]]:
    """Two-valued labels as 0 and 1.

    y: (n,) or (n, 1) numbers, also decimals, bools or strings, in a list, numpy array, torch tensor or Series of any
    dataframe library.
    positive: the value that becomes 1; its text is enough (``"1"`` for the number 1). Without it the greater of the two
    in sorted order is positive: 1 of 0/1, 1 of -1/1, True, "yes" of no/yes, ">50K" of <=50K/>50K. Say it for pairs such
    as "approved"/"denied", where the alphabet does not know which one is meant; where it takes the one that says no, a
    DataWarning asks. instead: what to do with the labels of more classes, after "take that, or".

    Returns: (codes, classes): (n,) int64 in {0, 1}, and (negative, positive) as Python values.
    Raises: DataError where labels are missing, not finite, of mixed types, or have one value or more than two.
    """
    return positive_last(*class_labels(y), positive, y, instead)


def positive_last(
    codes: np.ndarray, classes: tuple[Any, ...], positive: Any = None, y: Any = None, instead: str = CLASSES
) -> tuple[np.ndarray, tuple[Any, Any]]:
    """What `class_labels` returned for two classes, with the positive one as class 1; positive and instead as in `binary_labels`.

    y: the labels; where they are ordered categories, and in that order the other one is the greater, a DataWarning asks.
    Raises: DataError where there are more than two classes, or none of them is `positive`.
    """
    if len(classes) > 2:
        if len({unspelled(c) for c in classes}) == 2:
            raise DataError(two_needed(codes, classes))
        what = None if positive is None else f"positive={plain_repr(positive)}"
        raise DataError(f"{two_needed(codes, classes, what, positive, instead)} {BINARY}")
    if positive is not None:
        top = [i for i, v in enumerate(classes) if v == positive and isinstance(v, str) == isinstance(positive, str)]
        top = top or [i for i, v in enumerate(classes) if is_label(v, positive)]
        if not top:
            hint = did_you_mean(str(positive), map(str, classes), before=". ", otherwise=". Name one of these.")
            raise DataError(
                f"positive={plain_repr(positive)} is not among the labels {shortlist(classes, quoted=True)}{hint}"
            )
        if top[0] == 0:
            return 1 - codes, (classes[1], classes[0])
    elif (blank := next(filter(_is_blank, classes), None)) is not None:
        warnings.warn(
            f"The label {blank!r} is blank, and counts as a class like any other; {classes[1]!r} is positive. Where it means not known, "
            "drop its rows; else give it a name.",
            DataWarning,
            stacklevel=users_line(),
        )
    elif (doubt := _why_not_the_greater(classes, y)) is not None:
        warnings.warn(
            f"The label {classes[1]!r} counts as positive, as the greater of the two, though {doubt}. To turn them, "
            f"pass positive={classes[0]!r}; if it is meant, positive={classes[1]!r}.",
            DataWarning,
            stacklevel=users_line(),
        )
    return codes, (classes[0], classes[1])


def _why_not_the_greater(classes: tuple[Any, ...], y: Any) -> str | None:
    """What speaks against the greater of two classes being the positive one, None for nothing."""
    order = _own_order(y)
    if order and order.index(classes[1]) < order.index(classes[0]):
        return f"its ordered categories end with {classes[0]!r} (texts are sorted by the alphabet here)"
    if _says_no(classes[1]) and not _says_no(classes[0]):
        return "it reads like the negative one"
    return None


def _own_order(y: Any) -> list[Any]:
    """The categories of ordered labels, a column or a table of one, in their order; [] of others."""
    frame = frame_of(y)
    column = y if frame is None or frame.shape[1] != 1 else frame.get_column(frame.columns[0]).to_native()
    dtype = getattr(column, "dtype", None)
    ordered = getattr(dtype, "ordered", False) or type(dtype).__name__ == "Enum"  # of pandas; of polars
    return list(dtype.categories) if ordered else []  # type: ignore[union-attr]


def is_label(label: Any, named: Any) -> bool:
    """Whether `named`, a label or its text as in a file, means `label`: TRUE in a file is True, 1 may be 1.0, and blanks at
    the ends of a text do not count."""
    text = str(named).strip()
    if isinstance(label, bool):
        return text.casefold() == str(label).casefold()
    if not isinstance(label, str) and not isinstance(named, bool):
        try:
            return bool(float(text) == label)
        except ValueError:
            return False
    return str(label).strip() == text


def same_label(label: Any, known: Sequence[Any]) -> Any:
    """The one of the labels `known` that `label` means, as `is_label` tells, or else but for capitals and blanks at the ends;
    None where there is none, or more than one."""
    alike = [one for one in known if is_label(one, label)]
    alike = alike or [one for one in known if str(one).strip().casefold() == str(label).strip().casefold()]
    return alike[0] if len(alike) == 1 else None


def _says_no(label: Any) -> bool:
    return isinstance(label, str) and NO.search(label) is not None


def differently_spelled(classes: Sequence[Any]) -> str:
    """A sentence on labels that differ only in capitals or blanks; "" where there are none."""
    spelled: dict[str, list[Any]] = {}
    for label in classes:
        spelled.setdefault(unspelled(label), []).append(label)
    alike = [" and ".join(map(repr, same)) for same in spelled.values() if len(same) > 1]
    return f"Of these {', and '.join(alike)} differ only in capitals or blanks." if alike else ""


def two_needed(
    codes: np.ndarray, classes: tuple[Any, ...], what: str | None = None, positive: Any = None, instead: str = CLASSES
) -> str:
    """What is said where `what`, None for all that was asked, needs two classes and the labels, of class numbers `codes`
    (n,), have more. positive: the label that was named as positive, if one was. instead: as in `binary_labels`."""
    if len({unspelled(c) for c in classes}) == 2:
        shown = shortlist(classes, quoted=True)
        return (
            f"the labels have {len(classes)} values, {shown}, which differ only in capitals or blanks. Make them two."
        )
    needed = "two classes are needed" if what is None else f"{what} needs two classes"
    needed += f", a positive and a negative one, but the labels have {len(classes)} values, {shortlist(classes, quoted=True)}."
    if len(classes) > MANY_NUMBERS and not any(isinstance(c, str) for c in classes):
        return f"{needed} Where these are amounts, make a label of those above a threshold, {REGRESSOR}"
    if alike := differently_spelled(classes):
        return f"{needed} {alike} Write them alike."
    times = np.bincount(codes, minlength=len(classes))
    if len(classes) == 3 and times.min() == 1 and np.sort(times)[1] >= FEWEST:
        alone = int(times.argmin())
        return f"{needed} Of these {classes[alone]!r} is in row {int((codes == alone).argmax())} (counting from 0) alone. If that row sums up the others, or is wrong, leave it out."
    rest = [c for c in classes if not _is_missing_code(c)]
    missing = [c for c in classes if _is_missing_code(c)] if len(rest) == 2 else []
    if missing:
        needed += (
            f" Is {shortlist(missing, quoted=True)} a code for a missing label? Then empty these cells and leave their rows out "
            "(--drop-missing-labels; in Python drop the rows)."
        )
    known = rest if missing else [c for c in classes if not _is_blank(c)]
    one = next((c for c in known if positive is not None and str(c).strip() == str(positive).strip()), known[0])
    return f"{needed} Make a label of one class against the rest, such as y == {one!r}, and take that, or {instead}"


def _is_blank(label: Any) -> bool:
    return isinstance(label, str) and not label.strip()


def _is_missing_code(label: Any) -> bool:
    """Whether a label is blank, or a number, or its text, of `MISSING_CODES`."""
    try:
        return _is_blank(label) or (not isinstance(label, bool) and float(label) in MISSING_CODES)
    except ValueError:
        return False


def stray_codes(values: np.ndarray) -> list[float]:
    """The numbers of `FEATURE_CODES` that seem to mean a missing value among numbers (n,), NaN for unknown ones: each is
    in at least one of a hundred rows, and they lie farther from all others than these from each other, or below 0
    where no other does."""
    codes = np.array(sorted(FEATURE_CODES))
    coded = np.isin(values, codes)
    known = values[~coded & np.isfinite(values)]
    if not coded.any() or len(known) == 0:
        return []
    low, high = float(known.min()), float(known.max())
    found, rows = np.unique(values[coded], return_counts=True)
    far = np.maximum(low - found, found - high) > high - low
    stray = (far & (high > low)) | ((found < 0) & (low >= 0))
    return [float(code) for code in found[stray & (rows >= SOME * len(values))]]


def class_labels(y: Any) -> tuple[np.ndarray, tuple[Any, ...]]:
    """Labels of two or more classes as class numbers 0, 1, ... in sorted order.

    y: as in `binary_labels`.
    Returns: (codes, classes): (n,) int64, and the k labels as Python values.
    Raises: DataError where labels are missing, not finite, of mixed types, of one class only, or no classes: fractions,
        or more than 100 values in fewer than ten rows each.
    """
    if isinstance(y, np.ndarray) and not np.ma.is_masked(y) and y.ndim == 1 and y.dtype.kind in "biuf":
        found = np.unique(y)
        if len(found) >= 2 and np.isfinite(found).all():
            return places_among(found, y), _checked_classes(found.tolist(), len(y))
    values = sound_labels(y)
    classes = _checked_classes(sorted(set(values)), len(values))
    if len(classes) < 2:
        raise DataError(
            f"all {len(values)} labels have one class, {shortlist(classes, quoted=True)}; two are needed. Check the label column or the filter."
        )
    place = {v: i for i, v in enumerate(classes)}
    return np.fromiter((place[v] for v in values), dtype=np.int64, count=len(values)), classes


def sound_labels(y: Any) -> list[Any]:
    """The labels as Python values. Raises: DataError where there are none, and for missing, infinite and mixed ones."""
    values = plain_labels(y)
    if not values:
        raise DataError("there are no labels: found 0 sample(s). Check the filter or the file that made them.")
    gone = [i for i, v in enumerate(values) if is_missing(v)]
    if gone:
        raise DataError(
            f"{len(gone)} of {len(values)} labels are missing (NaN), the first in row {gone[0]} (counting from 0). "
            "Drop these rows from the table and the labels."
        )
    kinds = set(map(kind_of_label, values))
    if len(kinds) > 1:
        raise DataError(f"the labels mix {' and '.join(sorted(kinds))} values. Make them one type.")
    if any(isinstance(v, float) and v in (float("inf"), float("-inf")) for v in set(values)):
        raise DataError("the labels hold infinite (inf) values. Correct them.")
    return values


def kind_of_label(label: Any) -> str:
    """What a label, a Python value, is: text, bool or number."""
    return "text" if isinstance(label, str) else "bool" if isinstance(label, bool) else "number"


def read_targets(y: Any, n: int) -> np.ndarray | None:
    """(n,) int64 labels that are 0 and 1 already; None for None.

    Raises: DataError for another length and for other values.
    """
    if y is None:
        return None
    column = column_array("y", y, n)
    if not np.isin(column, (0, 1)).all():
        other = column[~np.isin(column, (0, 1))].tolist()
        raise DataError(
            f"y must hold 0 and 1 only, but {len(other)} of {n} rows hold others, such as {other[0]!r}. "
            "Pass y == POSITIVE, with the value that counts as positive."
        )
    return column.astype(np.int64)


def labels_of(y: Any, positive: Any) -> tuple[np.ndarray, tuple[Any, Any]]:
    """(n,) int64, 1 where a label is `positive`, and (negative, positive); of labels of one class the negative one may
    be None.

    Raises: DataError where labels are missing, of mixed types or have more than two values, and where there are two of
    which `positive` is none.
    """
    values = column_values("the labels", y)
    if len({v for v in values if not is_missing(v)}) > 1 or any(map(is_missing, values)):
        codes, classes = binary_labels(y, positive)
        return codes, classes
    target = np.array([v == positive or is_label(v, positive) for v in values], dtype=np.int64)
    negative = None if target.all() else values[0]
    return target, (negative, positive)


def two_valued(y: Any, n: int, classes: Any = None, positive: Any = None) -> tuple[np.ndarray, tuple[Any, Any] | None]:
    """(n,) labels as 0 and 1, and what these mean, (negative, positive); None where they are 0 and 1 already.

    classes: the (negative, positive) labels; positive: the latter alone; without both the greater one of y's two is
    positive.
    Raises: DataError for another length, and for labels that are none of the two; OptionError for both.
    """
    if positive is not None:
        if classes is not None:
            raise OptionError("classes= and positive= both say which label is positive; keep one of them.")
        return labels_of(y, positive)
    column = column_array("y", y, n)
    if column.dtype.kind in "biuf" and np.isin(column, (0, 1)).all():
        return column.astype(np.int64), None
    values = np.empty(n, dtype=object)
    values[:] = plain_labels(y)
    if all(isinstance(v, int | float | bool) and v in (0, 1) for v in set(values.tolist())):
        return values.astype(np.int64), None
    if classes is None:
        codes, found = positive_last(*class_labels(y), y=y)
        return codes, found
    low, high = classes
    other = [v for v in set(values.tolist()) if v not in (low, high)]
    if other:
        raise DataError(f"y holds {other[0]!r}, which is none of the classes {low!r} and {high!r}.")
    return (values == high).astype(np.int64), (low, high)


MOST_CLASSES = 1_000_000
"""Classes that a number may stand for."""


def class_tuple(classes: Any) -> tuple[Any, ...]:
    """The labels of classes; a number k, 2 to MOST_CLASSES, stands for 0 to k - 1. Raises: OptionError where they are
    none."""
    if isinstance(classes, Integral) and 2 <= int(classes) <= MOST_CLASSES:
        return tuple(range(int(classes)))
    try:
        given = tuple(classes.tolist() if hasattr(classes, "tolist") else classes)
        hash(given)
    except TypeError:
        given = ()
    if isinstance(classes, str | bytes) or len(given) < 2:
        raise OptionError(
            f"classes must be the labels of two or more classes, or their number k, up to {MOST_CLASSES:,}, where labels are 0 to k - 1; got {str(classes)[:60]!r}."
        )
    return given


def as_decisions(scores: Any, classes: tuple[Any, Any] | None) -> Any:
    """Predicted labels (n,) of `classes`, (negative, positive), as 0 and 1; other scores as they are. Of labels 1 and 0,
    of which 0 is positive, a column of both is turned round."""
    if classes is not None and classes[0] is None and classes[1] in (0, 1):
        classes = 1 - classes[1], classes[1]
    if classes is None or tuple(classes) in ((0, 1), (-1, 1)):
        return scores
    text, values = isinstance(classes[1], str), plain_array(scores)
    if values.dtype.kind in "biufc":
        return scores if text or not np.isin(values, classes).all() else (values == classes[1]).astype(np.int64)
    given = column_values("scores", scores)
    if not given or not all(isinstance(v, str) == text and v in classes for v in given):
        return scores
    return np.array([v == classes[1] for v in given], dtype=np.int64)


def plain_labels(y: Any) -> list[Any]:
    """The n labels as Python values, decimals as floats. Raises: DataError for one that is no number, bool or text."""
    values = column_values("the labels", y)
    values = [v.item() if isinstance(v, np.generic) else float(v) if isinstance(v, Decimal) else v for v in values]
    odd = next((v for v in values if not isinstance(v, str | bool | int | float) and not is_missing(v)), None)
    if odd is not None:
        raise DataError(f"a label is a {type(odd).__name__} ({str(odd)[:40]!r}); labels are numbers, bools or strings.")
    return values


def _checked_classes(classes: list[Any], rows: int) -> tuple[Any, ...]:
    if len(classes) > 2 and any(isinstance(v, float) and not v.is_integer() for v in classes):
        raise DataError(
            f"Unknown label type: continuous. The labels have {len(classes)} values, {shortlist(classes, quoted=True)}, which are no classes. "
            f"Choose a threshold, or bin them, and pass that, {REGRESSOR}"
        )
    if len(classes) > MANY_CLASSES and len(classes) > rows / 10:
        raise DataError(
            f"the labels have {len(classes)} values in {rows} rows, {shortlist(classes, quoted=True)}: numbers or identifiers rather than "
            f"classes. Choose a threshold, or bin them, and pass that, {REGRESSOR}"
        )
    return tuple(classes)
