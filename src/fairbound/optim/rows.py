"""Which groups and labels the training rows of a `Dual` have."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from fairbound.base.callers import users_line
from fairbound.base.errors import DataError, DataWarning, OptionError
from fairbound.fairness.class_numbers import Advice, check_class_numbers
from fairbound.fairness.compiled.plan import Plan
from fairbound.fairness.few_rows import bounds_below_a_step, dropped_words_of_groups
from fairbound.fairness.notions import Bound, constraints
from fairbound.rows.doubtful import warn_of_groups
from fairbound.rows.groups import MISSING, Groups, no_groups
from fairbound.rows.occurring import Occurring

LARGEST_CODE = 1 << 16
MEMORY = 2048
MEMORY_PER_CELL = 32
OF_DUAL = Advice("Labels between 0 and 1 need Dual(soft_targets=True).", more="give classes=")
PARTS = 1 << 20  # into which a row with a soft label is divided


def stated_bounds(stated: Any, streaming: bool, counted: bool) -> tuple[Bound, ...]:
    """The bounds. streaming: whether nothing is said of the groups; counted: whether the rows of each are known. Raises:
    OptionError where there is no bound, one compares groups of which nothing is said, or leaves out groups of few rows
    (`fewest`) where none are counted."""
    notions = constraints(stated)
    if not notions:
        raise OptionError(
            "Dual needs at least one bound, as in 'demographic_parity <= 0.02'; without one use your own loss."
        )
    compared = [b.text for b in notions if "groups" in b.needs]
    if compared and streaming:
        raise OptionError(
            f"{compared[0]!r} compares groups: Dual needs groups= and targets= of the training rows, or group_names= for "
            "streaming data."
        )
    least = [b.text for b in notions if getattr(b, "fewest", None) is not None]
    if least and not counted:
        raise OptionError(
            f"{least[0]!r} counts the rows of each group: Dual needs groups= and targets= of the training rows for it. Of a "
            "stream, leave fewest out and pass -1 for rows of small groups."
        )
    return notions


def check_means(plan: Plan) -> None:
    """Raises: OptionError where bounds are on more than means over groups."""
    if plan.beyond_means:
        texts = " or ".join(repr(b.text) for b in plan.notions)
        raise OptionError(
            f"Dual keeps means over groups, and {texts} needs more; train the module with FairClassifier(model=...) or "
            "fb.formulate."
        )


def warn_of_few_rows(plan: Plan, stated: tuple[Bound, ...], rows: Occurring) -> None:
    """Warns: DataWarning where a group (or class) of the training rows has too few rows for a bound, and of groups left
    out. stated: the plan's bounds in the units that they were stated in."""
    for said in dropped_words_of_groups(plan.dropped, dict(zip(plan.dropped, plan.dropped_rows, strict=True))):
        warnings.warn(said, DataWarning, stacklevel=users_line())
    for found in bounds_below_a_step(replace(plan, notions=stated), plan.counts(rows.codes, rows.targets, rows.counts)):
        warnings.warn(found.said, DataWarning, stacklevel=users_line())


def remembered(plan: Plan, rows: Occurring | None) -> int:
    """How many rows the running estimates look back by default: no more than one pass over the training rows, as
    earlier passes tell of earlier weights, but 32 for each cell. rows: None of a stream, whose number is not known."""
    one_pass = MEMORY if rows is None else min(MEMORY, rows.rows)
    return max(one_pass, MEMORY_PER_CELL * plan.n_cells)


def training_rows(
    groups: Any, targets: Any, names: Any, classes: tuple[Any, ...] = (0, 1), soft: bool = False
) -> Occurring:
    """Which groups and labels the training rows have; without them every combination of the named groups and labels.

    soft: whether targets may lie between 0 and 1; such a row has both labels, each by its share.
    classes: their labels; targets are their numbers, or texts that are such labels. Without groups and names there are
    no attributes. Groups that were made here are taken as they are.
    """
    if isinstance(groups, Occurring):
        return groups
    if names is not None and not isinstance(names, Mapping):
        names = {"group": names}
    labels = None if names is None else tuple(tuple(str(v) for v in column) for column in names.values())
    if groups is None:
        if labels is not None and not all(labels):
            raise OptionError("group_names= holds an attribute without a group.")
        if targets is not None and labels is not None:
            raise OptionError("targets= was given without groups=; give both, or group_names= alone.")
        if targets is not None:
            y = _labels(targets, classes, soft)
            return _occurring(no_groups(len(y)), y)
        return Occurring.every(tuple(names or ()), labels or (), len(classes))
    if targets is None:
        raise OptionError(
            "groups= was given without targets=; the labels of the same rows are needed to see which "
            "groups have positives and negatives."
        )
    made, y = _coded(groups, names, labels), _labels(targets, classes, soft)
    if len(y) != len(made):
        raise DataError(f"groups and targets differ in length: {len(made)} and {len(y)}.")
    return _occurring(made, y)


def _occurring(groups: Groups, y: np.ndarray) -> Occurring:
    """The groups and labels of rows, where y are soft with the rows that the shares of their labels add up to, at least
    one of each."""
    if y.dtype.kind != "f":
        return Occurring.of(groups, y)
    of_labels = [np.flatnonzero(share > 0) for share in (1 - y, y)]
    share = np.concatenate([(1 - y)[of_labels[0]], y[of_labels[1]]])
    labels = np.repeat([0, 1], [len(rows) for rows in of_labels])
    made = Occurring.of(groups.take(np.concatenate(of_labels)), labels, np.ceil(PARTS * share))
    return replace(made, counts=np.maximum(np.rint(made.counts / PARTS), 1).astype(np.int64))


def _labels(targets: Any, classes: tuple[Any, ...], soft: bool = False) -> np.ndarray:
    """(n,) class numbers, or where they are soft floats in [0, 1]."""
    y = np.asarray(targets.detach().cpu() if isinstance(targets, Tensor) else targets).reshape(-1)
    if y.dtype.kind in "OUS" and all(isinstance(c, str) for c in classes):
        place = {name: i for i, name in enumerate(classes)}
        other = [v for v in y.tolist() if v not in place]
        if other:
            raise DataError(f"targets must be among classes={list(classes)}, got {other[0]!r}.")
        return np.array([place[v] for v in y.tolist()], dtype=np.int64)
    between = soft and len(classes) == 2 and y.dtype.kind == "f" and ((y >= 0) & (y <= 1)).all()
    if between and not np.isin(y, (0, 1)).all():
        return y.astype(np.float64)
    check_class_numbers(y, len(classes), OF_DUAL)
    return y.astype(np.int64)


def _coded(groups: Any, names: Any, labels: tuple[tuple[str, ...], ...] | None) -> Groups:
    array = None
    if not isinstance(groups, (Groups, Mapping)) and not hasattr(groups, "columns"):
        array = np.asarray(groups.detach().cpu() if isinstance(groups, Tensor) else groups)
    if array is None or array.dtype.kind not in "iub":
        if labels is not None:
            raise OptionError(
                "group_names= labels integer codes, but groups= are not integers; their own values are the names."
            )
        made = Groups.of(groups)
        warn_of_groups(made)
        return made
    codes = array.reshape(len(array), -1).astype(np.int64)
    if not codes.size or codes.min() < MISSING or codes.max() > LARGEST_CODE:
        found = f"values in [{codes.min()}, {codes.max()}]" if codes.size else "no rows"
        raise DataError(
            f"integer groups are codes from 0 to {LARGEST_CODE}, -1 missing, with at least one row; got "
            f"{found}. Number them with fb.Groups.of first."
        )
    if labels is None:
        width = codes.shape[1]
        names = ["group"] if width == 1 else [f"group{a}" for a in range(width)]
        labels = tuple(tuple(map(str, range(int(codes[:, a].max()) + 1))) for a in range(width))
    if len(labels) != codes.shape[1] or any(len(known) <= codes[:, a].max() for a, known in enumerate(labels)):
        raise OptionError(
            f"group_names= has {[len(known) for known in labels]} labels by attribute, but the codes go "
            f"up to {codes.max(axis=0).tolist()}; each attribute needs a label per code."
        )
    if gone := int((codes == MISSING).any(1).sum()):
        warnings.warn(
            f"{gone:,} of {len(codes):,} rows are in no group: -1 is missing. Where -1 names a group, number groups from 0.",
            DataWarning,
            stacklevel=users_line(),
        )
    return Groups(codes, tuple(names), labels)
