"""Columns that look like identifiers of rows or persons, by their names and values."""

from __future__ import annotations

import re

import numpy as np

_NAME = re.compile(
    r"((.*[\W_])?(id|uuid|guid)([\W_].*)?"
    r"|(patient|subject|person|customer|client|user|member|applicant|borrower|respondent|participant|employee|student|household)"
    r"[\W_]*(id|no|nr|num|number|key|code)?"
    r"|(school|class|teacher|hospital|doctor|firm|company|store|branch|bank|court|judge|county|district|region|state|city|family|case|record"
    r"|account|product|item|cust|stud|emp|hh|pt|pat|p)[\W_]*id(num|no|nr)?[\W_]*[a-z0-9]?)",
    re.IGNORECASE,
)
_CAMEL = re.compile(r".*[a-z0-9]I[dD]")
FEWEST = 20
"""Values that an identifier has at least."""
COINCIDENCES = 10
"""Whole numbers of which no two are alike are taken for an identifier where chance would make so many of them alike."""


def names_identifier(name: str) -> bool:
    """Whether a column of this name says who or which row it is, or to whom it belongs: id, patient_id, CustomerID,
    subject, pidnum, schoolid2."""
    return bool(_NAME.fullmatch(name) or _CAMEL.fullmatch(name))


def is_identifier(name: str, values: np.ndarray) -> bool:
    """Whether numbers (n,) seem to be an identifier: whole, and either named like one, with at least 20 different
    values, or all different where as many numbers of this range, drawn at random, would coincide ten times or more.
    NaN counts as missing."""
    few = values[: 5 * FEWEST]
    named = names_identifier(name)
    if not _whole(few) or (not named and len(np.unique(few)) < len(few)):  # says no to nearly all columns
        return False
    known = values if values.dtype.kind in "iu" else values[~np.isnan(values)]
    if len(known) < FEWEST or not _whole(known):
        return False
    n, span = len(known), int(known.max()) - int(known.min())
    if not named and 2 * COINCIDENCES * span > n * (n - 1):
        return False
    different = len(np.unique(known))
    return different >= FEWEST if named else different == n


def _whole(values: np.ndarray) -> bool:
    if values.dtype.kind in "iu":
        return True
    known = values[~np.isnan(values)]
    return bool(np.isfinite(known).all() and (known == np.floor(known)).all())
