"""What a fit warns of."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from fairbound.base.callers import users_line
from fairbound.base.errors import DataWarning
from fairbound.fairness.bound import Bound
from fairbound.fairness.few_rows import dropped_words_of_groups
from fairbound.tables.encode_report import dropped_words, empty_words, identifier_words

ROUNDING = 1e-9
"""Excess over a bound, as a share of it or of the unit of its values, that is none."""


def missing_group_words(missing: Mapping[str, int], ranked: bool = False) -> list[str]:
    """What is said of training rows whose group is not known; missing: their number by attribute. ranked: whether the
    rows are documents of queries."""
    also = "; they take places in the order and are among all" if ranked else ""
    return [f"{a} is missing in {n:,} training rows; no bound holds for them{also}." for a, n in missing.items() if n]


def missed_words(stated: Sequence[Bound], values: Sequence[Any], units: Sequence[float] | None = None) -> str:
    """Which of the bounds are missed by the values measured of them, and these: "a <= 0.1 is 0.2, b >= 0.9 is 0.8"; "" for
    none. Differences of rounding are not counted.

    units: for each bound how large values usually are, by default 1, as of shares."""
    said = []
    for i, (bound, value) in enumerate(zip(stated, map(float, values), strict=True)):
        excess = (value - bound.stated) * (1 if bound.sense == "at most" else -1)
        if not excess <= ROUNDING * max(1.0 if units is None else units[i], abs(bound.stated)):
            said.append(_missed(bound, value))
    return ", ".join(said)


def _missed(bound: Bound, value: float) -> str:
    """A missed bound and its value, with as many digits as tell them apart."""
    digits = next((d for d in range(6, 17) if float(f"{value:.{d}g}") != bound.stated), 17)
    return f"{bound.text} is {value:.{digits}g}"


def encoding_words(encoding: Mapping[str, Any] | None) -> list[str]:
    """What is said of the training table: of columns that were dropped or look like identifiers, and of rows without any
    value. encoding: an `EncodeReport` as plain data."""
    found = encoding or {}
    columns = dropped_words(found.get("dropped", {})) + identifier_words(found.get("identifiers", ()))
    return columns + empty_words(found.get("empty", 0), found.get("rows", 0))


def warn_of_fit(facts: Mapping[str, Any], trained_under: Sequence[Any]) -> None:
    """Warns: DataWarning of columns and groups that were left out, of groups that are too small for a bound, of rows
    whose group is not known, of a feature that tells the label, and of a bound that says less than it seems to;
    ConvergenceWarning where no model that has learnt something met every bound of `trained_under`.

    facts: a `fit_report_`.
    """
    said = encoding_words(facts["encoding"])
    said += dropped_words_of_groups(facts["dropped_groups"], facts.get("dropped_rows", {}))
    said += [*facts["remarks"], *filter(None, [facts["telling_feature"]])]
    for text in [*said, *facts["small_groups"], *missing_group_words(facts["missing_group_rows"])]:
        warnings.warn(text, DataWarning, stacklevel=users_line())
    if trained_under and not facts["feasible"]:
        warnings.warn(facts["message"], ConvergenceWarning, stacklevel=users_line())
    elif trained_under and facts["nothing_learnt"] is not None:
        warnings.warn(facts["nothing_learnt"], ConvergenceWarning, stacklevel=users_line())
