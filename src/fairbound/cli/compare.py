"""`fairbound compare A B`: two saved models, or two columns of scores, on the rows of one file."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np

from fairbound.audits.compare import compare
from fairbound.base.errors import DataError, OptionError
from fairbound.base.files import atomic_write_many
from fairbound.base.names import shortlist
from fairbound.cli.bounds import bounds_for
from fairbound.cli.columns import (
    decided_or_scored,
    file_checksum,
    groups_in,
    in_file,
    in_label,
    labelled_table,
    listed,
    one_column,
    weights_of,
    with_decisions,
)
from fairbound.cli.decided import left_out_words
from fairbound.cli.judging_options import CompareOptions
from fairbound.cli.outcome import Outcome, json_file
from fairbound.cli.row_warnings import KEEP_ONE, said_of_rows
from fairbound.cli.saved_model import other_columns, trained_on
from fairbound.estimators.classifier import FairClassifier
from fairbound.estimators.folder import load_folder
from fairbound.report.compare import compare_page
from fairbound.report.terminal import table
from fairbound.rows.groups import Groups
from fairbound.rows.labels import class_labels, positive_last
from fairbound.rows.scores import as_logits
from fairbound.tables import read_table


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
    frame, label, unlabelled = labelled_table(options)
    frame = with_decisions(frame, *(n for n in (options.first, options.second) if not Path(n).is_dir()))
    groups = groups_in(frame, listed(options.group, frame.columns, "--group"))
    folders = [load_folder(named) if Path(named).is_dir() else None for named in (options.first, options.second)]
    models = [None if folder is None else FairClassifier.load(folder) for folder in folders]
    known = [str(m.classes_[1]) for m in models if m is not None]
    if len(set(known)) > 1:
        raise OptionError(f"the two models have different positive labels: {' and '.join(map(repr, known))}.")
    with in_label(options.data, label, frame.index.to_numpy()):
        codes, named = class_labels(frame[label])
        if len(named) > 2:
            raise DataError(
                f"compare takes labels of two values, and these have {len(named)}, {shortlist(named, quoted=True)}. Make a column of one "
                f"class against the rest, such as {label} == {named[0]!r}, and compare by that, or audit each model by itself."
            )
        target, classes = positive_last(codes, named, options.positive or next(iter(known), None))
    first, second = (
        _scores(named, model, frame, classes, groups, options)
        for named, model in zip((options.first, options.second), models, strict=True)
    )
    names = (Path(options.first).as_posix(), Path(options.second).as_posix())
    found = compare(
        first,
        second,
        target,
        groups,
        bounds_for(options, *models),
        classes=classes,
        threshold=0.0,
        confidence=options.confidence,
        sample_weight=weights_of(frame, options.weights, options.data),
        names=names,
    )
    checksum = file_checksum(options.data)
    own = [name for name, folder in zip(names, folders, strict=True) if trained_on(folder, checksum)]
    found["warnings"] += [
        *(said for folder in folders for said in other_columns(folder, label, options.weights)),
        *said_of_rows(frame, label, remedy=KEEP_ONE),
        *(
            f"{named}: {said}"
            for named, model in zip((options.first, options.second), models, strict=True)
            if model is None
            for said in left_out_words(
                options, label, named, classes, unlabelled, " by fairbound audit without --label"
            )
        ),
        *(
            f"{options.data} is the file that {name} was trained on: most of its rows are not new to it, which flatters it and says "
            "little about new rows."
            for name in dict.fromkeys(own)
        ),
    ]
    return found


def _compared_decisions(options: CompareOptions) -> dict[str, Any]:
    """What `fairbound.compare` finds of two columns of decisions or scores without outcomes."""
    frame = with_decisions(read_table(options.data, **options.file_format), options.first, options.second)
    both = [one_column(named, frame.columns, "A or B") for named in (options.first, options.second)]
    groups = groups_in(frame, listed(options.group, frame.columns, "--group"))
    with in_file(options.data):
        found = compare(
            frame[both[0]],
            frame[both[1]],
            None,
            groups,
            bounds_for(options),
            positive=options.positive,
            threshold=options.threshold,
            confidence=options.confidence,
            sample_weight=weights_of(frame, options.weights, options.data),
            names=(both[0], both[1]),
        )
    found["warnings"] += said_of_rows(frame, both[0], remedy=KEEP_ONE)
    return found


def _scores(
    named: str,
    model: FairClassifier | None,
    frame: Any,
    classes: tuple[Any, Any],
    groups: Groups | None,
    options: CompareOptions,
) -> np.ndarray:
    """Logits (n,) of a saved model or of a column of scores or labels. classes: the labels of the file."""
    if model is not None:
        if len(model.classes_) > 2:
            raise OptionError(f"the model {named!r} has {len(model.classes_)} classes; compare takes models of two.")
        with in_file(options.data, frame.index.to_numpy()):
            return model.decision_function(frame, groups)
    column = one_column(named, frame.columns, "A or B (no folder of this name)")
    given = decided_or_scored(frame, column, classes)
    with in_file(options.data, frame.index.to_numpy()):
        return as_logits(given, None if np.isin(given, (0, 1)).all() else options.threshold)[0]
