"""`fairbound compare A B`: two saved models, or two columns of scores, on the rows of one file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairbound.audits.compare import compare
from fairbound.audits.decisions import check_decisions_alone
from fairbound.base.errors import DataError, OptionError
from fairbound.base.files import atomic_write_many
from fairbound.base.names import shortlist
from fairbound.cli.bounds import bounds_for
from fairbound.cli.files.columns import (
    decided_or_scored,
    file_checksum,
    groups_in,
    in_file,
    in_label,
    labelled_table,
    named_columns,
    one_column,
    speaks_of,
    weights_of,
    with_decisions,
)
from fairbound.cli.files.kinds import as_read_for
from fairbound.cli.files.outcome import Outcome, json_file
from fairbound.cli.files.row_warnings import KEEP_ONE, repeated_row_warnings
from fairbound.cli.files.saved_model import other_column_warnings, trained_on
from fairbound.cli.judging.decided import left_out_warnings, model_left_out_warnings
from fairbound.cli.judging.judged_model import (
    check_classifier,
    check_groups_named,
    in_words_of,
    label_of_training,
    labels_of_training,
    model_of_two_classes,
)
from fairbound.cli.judging.unfamiliar import scored
from fairbound.cli.options.judging import CompareOptions
from fairbound.estimators.classifier import FairClassifier
from fairbound.estimators.saving.folder import Folder, load_folder
from fairbound.fairness.notions import Bound
from fairbound.fairness.predictions import read_decisions
from fairbound.report.compare import compare_page
from fairbound.report.terminal import table
from fairbound.rows.groups import Groups
from fairbound.rows.labels import class_labels, differently_spelled, positive_last
from fairbound.rows.scores import as_logits
from fairbound.tables import read_table

ALONE = " by fairbound audit without --label"
"""How the decisions on all rows can be judged."""
_Scored = tuple[np.ndarray, list[str]]
"""Logits (n,), and what a reader must know of the rows that a saved model scored."""


def run_compare(options: CompareOptions) -> Outcome:
    """Measure both on all rows of the file; write compare.json and compare.html where a folder is given.
    The exit code is 0."""
    found = compared(options)
    text = table(found)
    if options.out is not None:
        files = {"compare.json": json_file(found)}
        with contextlib.suppress(ImportError):
            files["compare.html"] = compare_page(found).encode()
        atomic_write_many(options.out, files, removed=["compare.html"])
        text += "".join(f"\nwritten  {options.out / name}" for name in files)
    return Outcome(found, text, 0)


def compared(options: CompareOptions) -> dict[str, Any]:
    """What `fairbound.compare` finds of the two on the file."""
    if options.label is None:
        return _compared_decisions(options)
    frame, label, _, left_out = labelled_table(options)
    columns = [n for n in (options.first, options.second) if not Path(n).is_dir()]
    stated = {n for n in columns if speaks_of(n, frame.columns) is not None}
    frame = with_decisions(frame, *columns, threshold=options.threshold)
    attributes = named_columns(options.group, frame.columns, "--group")
    groups = groups_in(frame, attributes)
    folders = _folders(options)
    models = [None if folder is None else FairClassifier.load(folder) for folder in folders]
    known = [str(m.classes_[1]) for m in models if m is not None and len(m.classes_) == 2]
    if len(set(known)) > 1:
        raise OptionError(f"the two models have different positive labels: {' and '.join(map(repr, known))}.")
    with in_label(options.data, label, frame.index.to_numpy()):
        words = [name for name in columns if name in frame and name not in stated]
        frame, left_out = _as_trained(options, frame, left_out, label, words, models)
        codes, named = class_labels(frame[label])
        if len(named) > 2:
            these = f"compare takes labels of two values, and these have {len(named)}, {shortlist(named, quoted=True)}."
            if alike := differently_spelled(named):
                raise DataError(f"{these} {alike} Write them alike.")
            raise DataError(
                f"{these} Make a column of one "
                f"class against the rest, such as {label} == {named[0]!r}, and compare by that, or audit each model by itself."
            )
        target, classes = positive_last(codes, named, next(iter(known), options.positive))
    scores, unfamiliar = _of_both(
        _scores(named, model, frame, classes, groups, options, named in stated)
        for named, model in zip((options.first, options.second), models, strict=True)
    )
    bounds = bounds_for(options, *models)
    if options.threshold is not None and (losses := [b.text for b in bounds if b.judged_from == "losses"]):
        raise OptionError(
            f"{losses[0]!r} is on losses, and scores moved to --threshold {options.threshold:g} have others; leave it out, or take "
            "fairbound.compare of Python."
        )
    found = _measured(options, frame, groups, bounds, scores, target, classes)
    found["warnings"] += [
        *_named_warnings(options, unfamiliar),
        *(said for folder in folders for said in other_column_warnings(folder, label, options.weights)),
        *repeated_row_warnings(frame, label, remedy=KEEP_ONE),
        *_named_warnings(
            options,
            [
                left_out_warnings(frame, left_out, named, classes, options.threshold, ALONE)
                if model is None
                else model_left_out_warnings(
                    model, logits > 0, [as_read_for(model, left_out, options.data)], attributes, ALONE
                )
                for named, model, logits in zip((options.first, options.second), models, scores, strict=True)
            ],
        ),
        *_training_file_warnings(options, dict(zip(_names(options), folders, strict=True))),
    ]
    return found


def _as_trained(
    options: CompareOptions,
    frame: Any,
    left_out: Any,
    label: str,
    columns: Sequence[str],
    models: Sequence[FairClassifier | None],
) -> tuple[Any, Any]:
    """The rows judged and those left out, with the labels, and the columns that may hold some, in the words of the models.
    Raises: as `labels_of_training`."""
    for model in models:
        if model is None or len(model.classes_) > 2:  # of which `_scores` speaks
            continue
        frame = frame.assign(**{label: labels_of_training(frame[label], model, options.positive)})
        known = model.classes_.tolist()
        frame, left_out = (
            part.assign(**{name: in_words_of(part[name], known) for name in columns}) for part in (frame, left_out)
        )
    return frame, left_out


def _folders(options: CompareOptions) -> list[Folder | None]:
    """Of both the folder, where a saved model is named. Raises: OptionError for one that is no classifier."""
    folders = [load_folder(named) if Path(named).is_dir() else None for named in (options.first, options.second)]
    for folder in folders:
        if folder is not None:
            check_classifier(folder, "compare")
    return folders


def _of_both(found: Iterable[_Scored]) -> tuple[tuple[np.ndarray, np.ndarray], list[list[str]]]:
    """The scores of both, and the warnings of each."""
    (first, said), (second, more) = found
    return (first, second), [said, more]


def _named_warnings(options: CompareOptions, said: Sequence[Sequence[str]]) -> list[str]:
    """What is said of each of both, with its name before it."""
    return [
        f"{named}: {line}" for named, lines in zip((options.first, options.second), said, strict=True) for line in lines
    ]


def _names(options: CompareOptions) -> tuple[str, str]:
    return Path(options.first).as_posix(), Path(options.second).as_posix()


def _measured(
    options: CompareOptions,
    frame: Any,
    groups: Groups | None,
    bounds: Sequence[Bound],
    scores: tuple[np.ndarray, np.ndarray],
    target: np.ndarray | None = None,
    classes: Sequence[Any] | None = None,
) -> dict[str, Any]:
    """What `fairbound.compare` finds of logits (n,) of both on the rows of a frame."""
    found = compare(
        *scores,
        target,
        groups,
        bounds,
        classes=classes,
        threshold=0.0,
        confidence=options.confidence,
        sample_weight=weights_of(frame, options.weights, options.data),
        names=_names(options),
    )
    return found if options.weights is None else found | {"weights": options.weights}


def _compared_decisions(options: CompareOptions) -> dict[str, Any]:
    """What `fairbound.compare` finds of two saved models, or columns of decisions or scores, without outcomes."""
    two = (options.first, options.second)
    folders = _folders(options)
    models = [None if folder is None else model_of_two_classes(folder, options.positive) for folder in folders]
    bounds = bounds_for(options, *models)
    check_decisions_alone(bounds)
    frame = read_table(options.data, **options.file_format)
    stated = (n for n, model in zip(two, models, strict=True) if model is None)
    frame = with_decisions(frame, *stated, threshold=options.threshold)
    groups = groups_in(frame, named_columns(options.group, frame.columns, "--group"))
    scores, unfamiliar = _of_both(
        _decided(named, model, frame, groups, options) for named, model in zip(two, models, strict=True)
    )
    found = _measured(options, frame, groups, bounds, scores)
    columns = [label_of_training(folder) for folder in folders if folder is not None] or [options.first]
    found["warnings"] += [
        *_named_warnings(options, unfamiliar),
        *(s for folder in folders for s in other_column_warnings(folder, label_of_training(folder), options.weights)),
        *repeated_row_warnings(frame, columns[0] if columns[0] in frame.columns else None, remedy=KEEP_ONE),
        *_training_file_warnings(options, dict(zip(_names(options), folders, strict=True))),
    ]
    return found


def _decided(
    named: str, model: FairClassifier | None, frame: Any, groups: Groups | None, options: CompareOptions
) -> _Scored:
    """As `_scores`, of a column of decisions or scores that nobody knows the outcomes of."""
    with in_file(options.data, frame.index.to_numpy()):
        if model is not None:
            check_groups_named(model, named, () if groups is None else groups.attributes)
            return scored(model, as_read_for(model, frame, options.data), groups)
        column = one_column(named, frame.columns, "A or B (no folder of this name)")
        numbers, _, words = read_decisions(frame[column], options.threshold, None, options.positive)
        return as_logits(numbers, None if words is not None else options.threshold)[0], []


def _training_file_warnings(options: CompareOptions, folders: dict[str, Folder | None]) -> list[str]:
    """A warning for each model that was trained on the file. folders: by name."""
    checksum = file_checksum(options.data)
    return [
        f"{options.data} is the file that {name} was trained on: most of its rows are not new to it, which flatters it and says "
        "little about new rows."
        for name, folder in folders.items()
        if trained_on(folder, checksum)
    ]


def _scores(
    named: str,
    model: FairClassifier | None,
    frame: Any,
    classes: tuple[Any, Any],
    groups: Groups | None,
    options: CompareOptions,
    stated: bool,
) -> _Scored:
    """Logits (n,) of a saved model or of a column of scores or labels, and the model's warnings. classes: the labels of
    the file. stated: as in `decided_or_scored`."""
    if model is not None:
        if len(model.classes_) > 2:
            raise OptionError(f"the model {named!r} has {len(model.classes_)} classes; compare takes models of two.")
        check_groups_named(model, named, () if groups is None else groups.attributes)
        with in_file(options.data, frame.index.to_numpy()):
            return scored(model, as_read_for(model, frame, options.data), groups)
    column = one_column(named, frame.columns, "A or B (no folder of this name)")
    with in_file(options.data, frame.index.to_numpy()):
        given = decided_or_scored(frame, column, classes, stated)
        return as_logits(given, None if np.isin(given, (0, 1)).all() else options.threshold)[0], []
