"""The new decisions of a file counted into the state of `fairbound monitor`, which the first file begins."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fairbound.base.errors import DataError, OptionError
from fairbound.cli.bounds import bounds_for, of_two_classes
from fairbound.cli.files.columns import file_checksum, in_file, numbers_in, numbers_of, one_column
from fairbound.cli.files.row_warnings import KEEP_ONE, repeated_row_warnings
from fairbound.cli.judging.decided import model_left_out_warnings, share_difference_warnings
from fairbound.cli.monitoring.new_decisions import DECIDED, NewDecisions, NothingNewError, read_decisions_of
from fairbound.cli.monitoring.repeated_rows import beside_the_last
from fairbound.cli.monitoring.same_state import OTHERS, check_columns
from fairbound.cli.options.judging import MonitorOptions
from fairbound.estimators.saving.folder import Folder, model_folder
from fairbound.monitoring import Monitor
from fairbound.monitoring.tally import OTHER_LABELS
from fairbound.rows.groups import label_text, texts_of
from fairbound.rows.labels import binary_labels, class_labels
from fairbound.rows.scores import DECISIONS, as_logits, usual_threshold

CONFIDENCE = 0.95
WATCH = " by a state begun without --label"


def with_new_decisions(
    options: MonitorOptions, data: str, monitor: Monitor | None, folder: Folder | None
) -> tuple[Monitor, list[str]]:
    """The monitor (made where there is none) with the decisions of the file, and what is said of them.
    folder: of the saved model that decides, or None.

    Raises: NothingNewError where the file has no decision to count; CountedBeforeError.
    """
    checksum = file_checksum(data)
    new = read_decisions_of(options, data, monitor, folder, checksum)
    source = _source(options, new)
    with in_file(data, new.places):
        if monitor is None:
            monitor = _begun(options, new)
        else:
            check_columns(source, new.attributes, monitor)
        decided = _as_counted(new.given, options.score, monitor)
    said = [*new.said, *_count(options, data, new, decided, monitor, checksum)]
    monitor.columns = source
    return monitor, [*said, *_waiting_warnings(options, new, decided, monitor)]


def _source(options: MonitorOptions, new: NewDecisions) -> dict[str, str]:
    """Where the decisions come from, as the state remembers it: the column of scores or the checksum of the saved model,
    the column of outcomes, where these are known, and the others that are named."""
    source = {} if options.label is None else {"label": new.label}
    if options.model is None:
        source["score"] = str(options.score)
    else:
        source["model"] = file_checksum(str(model_folder(options.model) / "model.json"))
    named = {what: getattr(options, what) for what in OTHERS}
    return source | {what: one_column(name, new.frame.columns, f"--{what}") for what, name in named.items() if name}


def _begun(options: MonitorOptions, new: NewDecisions) -> Monitor:
    """A new monitor, whose labels and threshold are those of its first decisions."""
    label, classifier = new.frame[new.label], new.classifier
    bounds = bounds_for(options, classifier)
    classes: tuple[Any, ...]
    threshold: float | None
    if classifier is not None:
        classes, threshold = tuple(classifier.classes_.tolist()), 0.0 if len(classifier.classes_) == 2 else None
    elif options.positive is None and not of_two_classes(bounds) and len(class_labels(label)[1]) > 2:
        classes, threshold = class_labels(label)[1], None
    else:
        classes, threshold = binary_labels(label, options.positive)[1], options.threshold
        if threshold is None and not set(texts_of(new.given)) <= {str(label_text(v)) for v in classes}:
            scores = numbers_of(new.given, str(options.score))
            threshold = None if as_logits(scores)[1] == DECISIONS else usual_threshold(scores)
    confidence = CONFIDENCE if options.confidence is None else options.confidence
    if options.weights is not None and options.largest_weight is None:
        raise OptionError("--weights needs --largest-weight, the largest weight that a row can have.")
    return Monitor(bounds, confidence, classes=classes, threshold=threshold, largest_weight=options.largest_weight)


def _as_counted(given: Any, column: str | None, monitor: Monitor) -> Any:
    """Decisions as the monitor takes them: scores where it has a threshold, else labels. column: of scores."""
    if monitor.threshold is not None:
        return numbers_of(given, str(column))
    if set(texts_of(given)) <= set(monitor.classes):
        return given
    logits, words = as_logits(numbers_of(given, str(column)))
    if words != DECISIONS:
        raise DataError("the score column holds scores, but that of the first file held decisions; give decisions.")
    return np.array(monitor.classes, dtype=object)[(logits > 0).astype(int)]


def _count(
    options: MonitorOptions, data: str, new: NewDecisions, decided: Any, monitor: Monitor, checksum: str
) -> list[str]:
    """Count the new decisions of a file; what is said of its rows. decided: (n,) as `_as_counted` gives them.

    Raises: NothingNewError where all were counted before.
    """
    frame, name, before = new.frame, Path(data).name, monitor.repeated
    beside = {"sample_weight": options.weights, "ids": options.id}
    more = {argument: frame[column] for argument, column in beside.items() if column}
    if any(bound.judged_from == "losses" for bound in monitor.bounds):
        more["losses"] = _losses(options, data, new, monitor)
    groups = {attribute: frame[attribute] for attribute in new.attributes} or None
    with _in_columns(data, {"y_true": new.label, "y_pred": options.score or DECIDED}), in_file(data, new.places):
        monitor.update(frame[new.label], decided, groups, **more)
    repeated = monitor.repeated - before
    if repeated == len(frame):
        raise NothingNewError(f"Each decision of {name} with a known outcome was counted before, by its {options.id}.")
    monitor.files.append({"name": name, "sha256": checksum, "rows": len(frame) - repeated})
    if options.id is not None:
        said = repeated_row_warnings(frame[~frame[options.id].duplicated()], new.label, remedy=KEEP_ONE)
        left_out = (
            f"{repeated:,} of {len(frame):,} decisions of {name} were left out: their {options.id} was counted before. What was counted "
            "then stays, also where the file says otherwise now."
        )
        return [*([left_out] if repeated else []), *said]
    again, monitor.last_file = beside_the_last(frame, name, monitor.last_file)
    return [*repeated_row_warnings(frame, new.label, remedy=KEEP_ONE), *again]


def _losses(options: MonitorOptions, data: str, new: NewDecisions, monitor: Monitor) -> np.ndarray:
    """(n,) a column of the file; of a saved model of two classes the logistic loss of its scores."""
    if options.loss is not None:
        return numbers_in(new.frame, options.loss, data, "--loss")
    if options.model is None or monitor.threshold is None:
        raise OptionError("a bound on mean losses is watched; name the column of each row's loss with --loss.")
    positive = np.array([text == monitor.classes[1] for text in texts_of(new.frame[new.label])])
    return np.logaddexp(0.0, np.where(positive, -1.0, 1.0) * np.asarray(new.given, dtype=np.float64))


@contextlib.contextmanager
def _in_columns(source: str, columns: dict[str, str]) -> Iterator[None]:
    """Errors of data name the file, and its columns in place of the arguments that they were passed as.
    columns: by argument."""
    try:
        yield
    except DataError as error:
        said = str(error).replace(OTHER_LABELS, ", the labels that the monitor began with.")
        for argument, column in columns.items():
            said = said.replace(argument, f"the column {column!r}")
        raise DataError(f"{Path(source).name}: {said}") from None


def _waiting_warnings(options: MonitorOptions, new: NewDecisions, decided: Any, monitor: Monitor) -> list[str]:
    """What is said where the rows whose outcome is not known are decided otherwise than those counted, of two classes."""
    if len(monitor.classes) > 2:
        return []
    judged = _positive(decided, monitor)
    if new.classifier is not None:
        return model_left_out_warnings(new.classifier, judged, [new.waiting], new.attributes, WATCH)
    others = new.waiting[options.score][new.waiting[options.score].notna()]
    try:
        return share_difference_warnings(_positive(_as_counted(others, options.score, monitor), monitor), judged, WATCH)
    except DataError:  # what cannot be read there is counted nowhere
        return []


def _positive(decided: Any, monitor: Monitor) -> np.ndarray:
    """(n,) bool of decisions as `_as_counted` gives them."""
    if monitor.threshold is not None:
        return np.asarray(decided, dtype=np.float64) > monitor.threshold
    return np.array([text == monitor.classes[1] for text in texts_of(decided)], dtype=bool)
