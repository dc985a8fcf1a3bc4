"""The decisions in a file that `fairbound monitor` can count now: those whose outcome is known, or where decisions are
watched alone all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fairbound.audits.decisions import check_decisions_alone
from fairbound.base.errors import DataError, NoRowsError, OptionError
from fairbound.cli.bounds import bounds_for
from fairbound.cli.files.columns import (
    groups_in,
    in_file,
    in_label,
    named_columns,
    one_column,
    speaks_of,
    with_decisions,
)
from fairbound.cli.judging.judged_model import (
    check_groups_named,
    in_words_of,
    labels_of_training,
    model_of_two_classes,
)
from fairbound.cli.judging.unfamiliar import scored
from fairbound.cli.monitoring.same_state import OTHERS
from fairbound.cli.options.judging import MonitorOptions
from fairbound.estimators.classifier import FairClassifier
from fairbound.estimators.saving.folder import Folder
from fairbound.monitoring import Monitor
from fairbound.rows.groups import texts_of
from fairbound.tables import read_table

DECIDED = "the model's decisions"
"""The column of what a saved model decides, where that is watched without outcomes."""


class NothingNewError(Exception):
    """A file holds no decision that can be counted now, as on a quiet day; the text says why."""


class CountedBeforeError(DataError):
    """The rows of a file without ids were counted before."""


class NewDecisions(NamedTuple):
    """The n rows of a file that can be counted now.

    frame: these rows. places: (n,) their numbers in the file. label: the column of their outcomes, or of the decisions in
    place of these. given: (n,) scores or decisions. attributes: the columns of their groups. classifier: the saved model
    that decides, None where a column does. waiting: the rows of the file whose outcome is not known. said: what a reader
    must know.
    """

    frame: Any
    places: np.ndarray
    label: str
    given: Any
    attributes: list[str]
    classifier: FairClassifier | None
    waiting: Any
    said: list[str]


def read_decisions_of(
    options: MonitorOptions, data: str, monitor: Monitor | None, folder: Folder | None, checksum: str
) -> NewDecisions:
    """The decisions in the file `data`, of this checksum. monitor: that is to count them, None where it is begun.
    folder: of the saved model that decides, or None.

    Raises: NothingNewError where there are none that can be counted now; CountedBeforeError.
    """
    frame = _rows_of(options, data, monitor, checksum)
    frame = with_decisions(frame, options.score, occurs=monitor is None, threshold=options.threshold)
    if folder is not None and options.label is None and _watches_alone(monitor):
        return _of_model_alone(options, data, frame, folder, monitor)
    return _beside_labels(options, data, frame, folder)


def _watches_alone(monitor: Monitor | None) -> bool:
    """Whether the decisions of a saved model are, or can be, watched without outcomes."""
    return monitor is None or ("model" in monitor.columns and "label" not in monitor.columns)


def _rows_of(options: MonitorOptions, data: str, monitor: Monitor | None, checksum: str) -> Any:
    """The rows of a file. Raises: CountedBeforeError; NothingNewError for one without rows."""
    for file in [] if monitor is None or options.id is not None else monitor.files:
        if file["sha256"] == checksum:
            raise CountedBeforeError(f"{data} was counted before, as {file['name']}; its rows would count twice.")
    try:
        return read_table(data, **options.file_format)
    except NoRowsError as error:
        named = {f"--{what}": getattr(options, what) for what in ("label", *OTHERS)}
        if options.score is not None and speaks_of(options.score, error.columns) is None:
            named["--score"] = options.score
        for option, name in named.items():
            if name is not None and (option, name) != ("--label", options.score):
                one_column(name, error.columns, option)
        named_columns(options.group, error.columns, "--group")
        raise NothingNewError(f"{Path(data).name} has a header and no rows.") from None


def _of_model_alone(
    options: MonitorOptions, data: str, frame: Any, folder: Folder, monitor: Monitor | None
) -> NewDecisions:
    """What the saved model decides on all rows of a file, whose outcomes nobody asks for."""
    classifier = model_of_two_classes(folder, options.positive)
    check_decisions_alone(bounds_for(options, classifier) if monitor is None else monitor.bounds)
    attributes = named_columns(options.group, frame.columns, "--group", classifier.needs_groups)
    check_groups_named(classifier, str(options.model), attributes)
    with in_file(data):
        given, said = scored(classifier, frame, groups_in(frame, attributes, whole=False))
    decided = frame.assign(**{DECIDED: classifier.classes_[(given > 0).astype(int)]})
    return NewDecisions(decided, np.arange(len(frame)), DECIDED, given, attributes, classifier, decided[:0], said)


def _beside_labels(options: MonitorOptions, data: str, frame: Any, folder: Folder | None) -> NewDecisions:
    """The rows of a file that have a label, and what was decided on them: by a column of the file, or by the saved model."""
    label = one_column(options.label, frame.columns, "--label")
    if label == options.score and frame[label].nunique() > 2:
        raise OptionError(
            f"the column {label!r} has more than two values; say which count as positive, as in --score '{label}>0.5'."
        )
    attributes = named_columns(options.group, frame.columns, "--group")
    known = np.array([v is not None for v in texts_of(frame[label])], dtype=bool)
    waiting, frame, places = frame[~known], frame[known], np.flatnonzero(known)
    if not len(frame):
        raise NothingNewError(f"No row of {Path(data).name} has a value in the column {label!r} yet.")
    said = [f"{len(waiting):,} rows without a label were left out; their outcome is not known yet."]
    said = said if len(waiting) else []
    if folder is None:
        given = frame[one_column(options.score, frame.columns, "--score")]
        return NewDecisions(frame, places, label, given, attributes, None, waiting, said)
    classifier = FairClassifier.load(folder)
    check_groups_named(classifier, str(options.model), attributes)
    frame = frame.assign(**{label: _in_words_of_training(frame[label], classifier, options, places)})
    with in_file(data, places):
        given, unfamiliar = scored(classifier, frame, groups_in(frame, attributes, whole=False))
    given = given if given.ndim == 1 else classifier.classes_[given.argmax(axis=1)]
    return NewDecisions(frame, places, label, given, attributes, classifier, waiting, [*said, *unfamiliar])


def _in_words_of_training(labels: Any, classifier: FairClassifier, options: MonitorOptions, places: np.ndarray) -> Any:
    """A file's column of labels in the words of the saved model's. places: of these rows in the file. Raises: as
    `labels_of_training`."""
    if len(classifier.classes_) > 2:
        return in_words_of(labels, classifier.classes_.tolist())
    with in_label(str(options.data), str(options.label), places):
        return labels_of_training(labels, classifier, options.positive)
