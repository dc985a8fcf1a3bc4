"""`fairbound monitor`: add a file of labelled decisions to a monitor's state,
and judge its bounds on all decisions so far."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fairbound.audits.decisions import check_decisions_alone, forget_outcomes
from fairbound.base.errors import DataError, NoRowsError, OptionError
from fairbound.cli.audit_facts import OF_TRAINING
from fairbound.cli.bounds import bounds_for, of_two_classes, stated_bounds
from fairbound.cli.changed_groups import changed_groups
from fairbound.cli.columns import (
    file_checksum,
    groups_in,
    in_file,
    in_label,
    listed,
    numbers_in,
    numbers_of,
    one_column,
    speaks_of,
    with_decisions,
)
from fairbound.cli.counted_rows import beside_the_last
from fairbound.cli.decided import decided_otherwise, left_out_by_model
from fairbound.cli.judged_model import (
    check_classifier,
    in_words_of,
    label_of_training,
    labels_of_training,
    model_of_two_classes,
)
from fairbound.cli.judging_options import MonitorOptions
from fairbound.cli.outcome import Outcome, audit_outcome
from fairbound.cli.row_warnings import KEEP_ONE, said_of_rows
from fairbound.cli.same_state import OTHERS, check_columns, check_same
from fairbound.cli.saved_model import other_columns, trained_on
from fairbound.cli.unfamiliar import scored
from fairbound.estimators.classifier import FairClassifier
from fairbound.estimators.saving.folder import Folder, load_folder, model_folder
from fairbound.monitoring import Monitor
from fairbound.monitoring.stored import check_not_changed, state_file, stored_sum
from fairbound.monitoring.tally import OTHER_LABELS
from fairbound.report import write_audit
from fairbound.rows.groups import Groups, label_text, texts_of
from fairbound.rows.labels import binary_labels, class_labels
from fairbound.rows.scores import DECISIONS, as_logits, usual_threshold
from fairbound.tables import read_table

STATE = "monitor.json"
CONFIDENCE = 0.95
DECIDED = "the model's decisions"
WATCH = " by a state begun without --label"
WRITTEN_AGAIN = (
    "The report was of other decisions than the state, as after a call that was cut short, and is written again."
)


class _NothingNewError(Exception):
    """A file holds no decision that can be counted now, as on a quiet day; the text says why."""


class _CountedBeforeError(DataError):
    """The rows of a file without ids were counted before."""


def run_monitor(options: MonitorOptions) -> Outcome:
    """Add the rows of the file, judge, and write audit.json, report.html and the state into the folder of the state. All are
    staged before the first is replaced, and the state comes last: where a call is cut short, its file can be counted again."""
    path = options.state / STATE
    before_reading = stored_sum(path)
    monitor = Monitor.load(path) if path.exists() else None
    if monitor is not None:
        check_same(options, monitor)
    folder = None if options.model is None else load_folder(options.model)
    if folder is not None:
        check_classifier(folder, "monitor")
    options = _of_decisions(options, monitor)
    said: list[str] = []
    rows, repeated = (0, 0) if monitor is None else (monitor.rows, monitor.repeated)
    if options.data is not None:
        before = {} if monitor is None else monitor.groups
        try:
            monitor, said = _added(options, options.data, monitor, folder)
        except _NothingNewError as quiet:
            return _unchanged(options, path, folder, f"{quiet} Nothing new was counted; the state is as it was.")
        except _CountedBeforeError as again:
            if monitor is None or _shows(options.state, monitor):
                raise
            return _unchanged(options, path, folder, f"{again} The state is as it was.")
        said += changed_groups(options.data, before, monitor.groups, rows, monitor.rows - rows)
    if monitor is None:
        raise OptionError(f"there is no monitor in {str(options.state)!r} yet; begin it with --data and --constraint.")
    if any(trained_on(folder, file["sha256"]) for file in monitor.files):
        said.append(OF_TRAINING)
    if options.data is not None:
        said += other_columns(folder, options.label or label_of_training(folder), options.weights)
    found = _looked(options, monitor, said)
    check_not_changed(path, before_reading)
    write_audit(found, options.state, last={STATE: state_file(monitor.to_dict())[0]})
    return _outcome(options, monitor, found, monitor.rows - rows, monitor.repeated - repeated)


def _looked(options: MonitorOptions, monitor: Monitor, said: list[str]) -> dict[str, Any]:
    """The audit of all decisions so far, with what is said of the file in front of its warnings."""
    found = monitor.look(title=f"Monitor: {options.state.name}")
    named = monitor.columns
    if named and len(monitor.classes) == 2 and named.get("label") == named.get("score"):  # of a model both are None
        forget_outcomes(found)
    found["warnings"] = [*said, *found["warnings"]]
    return found


def _outcome(options: MonitorOptions, monitor: Monitor, found: dict[str, Any], counted: int, repeated: int) -> Outcome:
    """What the command says. counted: decisions that this call added; repeated: those that it left out as known."""
    growth = found["monitoring"]["growth"]
    alarms = [f"alarm: {text} was found violated at {rows:,} decisions" for text, rows in monitor.alarms.items()]
    outcome = audit_outcome(found, options.state, None, None, alarms, {"state": STATE})
    outcome.summary.update(alarms=monitor.alarms, growth=growth, counted=counted, repeated=repeated)
    return replace(outcome, exit_code=1) if growth and options.fail_on == "growth" else outcome


def _unchanged(options: MonitorOptions, path: Path, folder: Folder | None, why: str) -> Outcome:
    """What the command says of a file of a quiet day. The exit code is 0, unless a bound was found violated, which
    stays so; a monitor that is not begun stays so. Where the report is of other decisions than the state, as after a call
    that was cut short, it is written again, and the exit code is that of its verdict."""
    if not path.exists():
        bounds = bounds_for(options, None if folder is None else FairClassifier.load(folder))
        why += f" The monitor of {', '.join(bound.text for bound in bounds)} begins with the first decisions."
        summary: dict[str, Any] = {
            "verdict": None,
            "constraints": [],
            "rows": 0,
            "warnings": [why],
            "alarms": {},
            "counted": 0,
        }
        return Outcome(summary | {"repeated": 0, "out": str(options.state)}, why)
    monitor = Monitor.load(path)
    shown = _shows(options.state, monitor)
    found = _looked(options, monitor, [why if shown else f"{why} {WRITTEN_AGAIN}"])
    outcome = _outcome(options, monitor, found, 0, 0)
    if shown:
        return replace(outcome, exit_code=1 if outcome.exit_code == 1 else 0)
    write_audit(found, options.state)
    return outcome


def _shows(folder: Path, monitor: Monitor) -> bool:
    """Whether the audit.json in a folder is of the decisions that the monitor has counted."""
    try:
        shown = json.loads((folder / "audit.json").read_bytes())
        return bool(shown["data"]["rows"] == monitor.rows and shown["monitoring"]["files"] == monitor.files)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _of_decisions(options: MonitorOptions, monitor: Monitor | None) -> MonitorOptions:
    """The options with the decisions in place of labels, where no label is named, or the decisions themselves, and the
    state has none.

    Raises: OptionError for bounds that need outcomes, and for a threshold beside decisions.
    """
    if options.label not in (None, options.score) or options.score is None or options.data is None:
        return options  # a saved model's decisions are known when it is loaded
    if monitor is not None and monitor.columns.get("label") != options.score:
        return options
    check_decisions_alone(monitor.bounds if monitor is not None else stated_bounds(options.constraint, options.cross))
    if options.threshold is not None:
        column = re.split("[<>=]", options.score)[0]
        raise OptionError(
            f"without --label, --score alone says what counts as positive, as in --score '{column}>{options.threshold:g}'; leave "
            "--threshold out."
        )
    return replace(options, label=options.score)


def _added(
    options: MonitorOptions, data: str, monitor: Monitor | None, folder: Folder | None
) -> tuple[Monitor, list[str]]:
    """The monitor (made where there is none) with the rows of the file, and what is said of them.
    folder: of the saved model that decides, or None.

    Raises: _NothingNewError where the file has no decision to count.
    """
    checksum = file_checksum(data)
    frame = with_decisions(
        _rows_of(options, data, monitor, checksum),
        options.score,
        occurs=monitor is None,
        threshold=options.threshold,
    )
    classifier, given, unfamiliar = None, None, list[str]()
    if alone := folder is not None and options.label is None and _watches_alone(monitor):
        classifier = model_of_two_classes(folder, options.positive)
        check_decisions_alone(bounds_for(options, classifier) if monitor is None else monitor.bounds)
        with in_file(data):
            own = groups_in(
                frame, listed(options.group, frame.columns, "--group", classifier.needs_groups), whole=False
            )
            given, unfamiliar = scored(classifier, frame, own)
        frame = frame.assign(**{DECIDED: classifier.classes_[(given > 0).astype(int)]})
    label = DECIDED if alone else one_column(options.label, frame.columns, "--label")
    if label == options.score and frame[label].nunique() > 2:
        raise OptionError(
            f"the column {label!r} has more than two values; say which count as positive, as in --score '{label}>0.5'."
        )
    attributes = listed(options.group, frame.columns, "--group")
    known = np.array([v is not None for v in texts_of(frame[label])], dtype=bool)
    unknown, frame = frame[~known], frame[known]
    if not len(frame):
        raise _NothingNewError(f"No row of {Path(data).name} has a value in the column {label!r} yet.")
    classifier = FairClassifier.load(folder) if classifier is None and folder is not None else classifier
    groups = {a: frame[a] for a in attributes} if attributes else None
    if classifier is None:
        given = frame[one_column(options.score, frame.columns, "--score")]
    elif given is None:
        frame = frame.assign(**{label: _in_words_of_training(frame[label], classifier, options, np.flatnonzero(known))})
        with in_file(data, np.flatnonzero(known)):
            given, unfamiliar = scored(classifier, frame, None if groups is None else Groups.of(groups, whole=False))
        given = given if given.ndim == 1 else classifier.classes_[given.argmax(axis=1)]
    source = ({} if alone else {"label": label}) | _decides(options)
    source |= {
        what: one_column(name, frame.columns, f"--{what}") for what in OTHERS if (name := getattr(options, what))
    }
    with in_file(data, np.flatnonzero(known)):
        if monitor is None:
            monitor = _begun(options, frame[label], given, classifier)
        else:
            check_columns(source, attributes, monitor)
        decided = _predicted(given, options.score, monitor)
    said = (
        []
        if not len(unknown)
        else [f"{len(unknown):,} rows without a label were left out; their outcome is not known yet."]
    )
    said += unfamiliar
    said += _counted(options, frame, label, (given, decided, groups), monitor, checksum, np.flatnonzero(known))
    monitor.columns = source
    if len(monitor.classes) > 2:
        return monitor, said
    judged = _positive(decided, monitor)
    if classifier is not None:
        return monitor, said + left_out_by_model(classifier, judged, [unknown], attributes, WATCH)
    others = unknown[options.score][unknown[options.score].notna()]
    with contextlib.suppress(DataError):  # what cannot be read there is counted nowhere
        said += decided_otherwise(_positive(_predicted(others, options.score, monitor), monitor), judged, WATCH)
    return monitor, said


def _in_words_of_training(labels: Any, classifier: FairClassifier, options: MonitorOptions, rows: np.ndarray) -> Any:
    """A file's column of labels in the words of the saved model's. rows: their numbers in the file. Raises: as
    `labels_of_training`."""
    if len(classifier.classes_) > 2:
        return in_words_of(labels, classifier.classes_.tolist())
    with in_label(str(options.data), str(options.label), rows):
        return labels_of_training(labels, classifier, options.positive)


def _rows_of(options: MonitorOptions, data: str, monitor: Monitor | None, checksum: str) -> Any:
    """The rows of a file. Raises: _CountedBeforeError; _NothingNewError for one without rows."""
    for file in [] if monitor is None or options.id is not None else monitor.files:
        if file["sha256"] == checksum:
            raise _CountedBeforeError(f"{data} was counted before, as {file['name']}; its rows would count twice.")
    try:
        return read_table(data, **options.file_format)
    except NoRowsError as error:
        named = {f"--{what}": getattr(options, what) for what in ("label", *OTHERS)}
        if options.score is not None and speaks_of(options.score, error.columns) is None:
            named["--score"] = options.score
        for option, name in named.items():
            if name is not None and (option, name) != ("--label", options.score):
                one_column(name, error.columns, option)
        listed(options.group, error.columns, "--group")
        raise _NothingNewError(f"{Path(data).name} has a header and no rows.") from None


def _counted(
    options: MonitorOptions,
    frame: Any,
    label: str,
    what: tuple[Any, Any, Any],
    monitor: Monitor,
    checksum: str,
    rows: np.ndarray,
) -> list[str]:
    """Count the rows of a frame; what is said of them. what: given as scores or decisions, as the monitor takes them,
    and the groups. rows: their numbers in the file.

    Raises: _NothingNewError where all were counted before.
    """
    given, decided, groups = what
    name, repeated = Path(str(options.data)).name, monitor.repeated
    more = {what: frame[column] for what, column in (("sample_weight", options.weights), ("ids", options.id)) if column}
    if any(bound.judged_from == "losses" for bound in monitor.bounds):
        more["losses"] = _losses(options, frame, label, given, monitor)
    argued = {"y_true": label, "y_pred": options.score or DECIDED}
    with _in_columns(str(options.data), argued), in_file(str(options.data), rows):
        monitor.update(frame[label], decided, groups, **more)
    repeated = monitor.repeated - repeated
    if repeated == len(frame):
        raise _NothingNewError(f"Each decision of {name} with a known outcome was counted before, by its {options.id}.")
    monitor.files.append({"name": name, "sha256": checksum, "rows": len(frame) - repeated})
    if options.id is not None:
        said = said_of_rows(frame[~frame[options.id].duplicated()], label, remedy=KEEP_ONE)
        left_out = (
            f"{repeated:,} of {len(frame):,} decisions of {name} were left out: their {options.id} was counted before. What was counted "
            "then stays, also where the file says otherwise now."
        )
        return [*([left_out] if repeated else []), *said]
    again, monitor.last_file = beside_the_last(frame, name, monitor.last_file)
    return [*said_of_rows(frame, label, remedy=KEEP_ONE), *again]


def _watches_alone(monitor: Monitor | None) -> bool:
    """Whether the decisions of a saved model are, or can be, watched without outcomes."""
    return monitor is None or ("model" in monitor.columns and "label" not in monitor.columns)


def _positive(decided: Any, monitor: Monitor) -> np.ndarray:
    """(n,) bool of decisions as `_predicted` gives them."""
    if monitor.threshold is not None:
        return np.asarray(decided, dtype=np.float64) > monitor.threshold
    return np.array([text == monitor.classes[1] for text in texts_of(decided)], dtype=bool)


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


def _begun(options: MonitorOptions, label: Any, given: Any, classifier: FairClassifier | None) -> Monitor:
    """A new monitor, whose labels and threshold are those of the first file."""
    bounds = bounds_for(options, classifier)
    classes: tuple[Any, ...]
    threshold: float | None
    if classifier is not None:
        classes, threshold = tuple(classifier.classes_.tolist()), 0.0 if len(classifier.classes_) == 2 else None
    elif options.positive is None and not of_two_classes(bounds) and len(class_labels(label)[1]) > 2:
        classes, threshold = class_labels(label)[1], None
    else:
        classes, threshold = binary_labels(label, options.positive)[1], options.threshold
        if threshold is None and not set(texts_of(given)) <= {str(label_text(v)) for v in classes}:
            scores = numbers_of(given, str(options.score))
            threshold = None if as_logits(scores)[1] == DECISIONS else usual_threshold(scores)
    confidence = CONFIDENCE if options.confidence is None else options.confidence
    if options.weights is not None and options.largest_weight is None:
        raise OptionError("--weights needs --largest-weight, the largest weight that a row can have.")
    return Monitor(bounds, confidence, classes=classes, threshold=threshold, largest_weight=options.largest_weight)


def _losses(options: MonitorOptions, frame: Any, label: str, given: Any, monitor: Monitor) -> np.ndarray:
    """(n,) a column of the file; of a saved model of two classes the logistic loss of its scores."""
    if options.loss is not None:
        return numbers_in(frame, options.loss, str(options.data), "--loss")
    if options.model is None or monitor.threshold is None:
        raise OptionError("a bound on mean losses is watched; name the column of each row's loss with --loss.")
    positive = np.array([text == monitor.classes[1] for text in texts_of(frame[label])])
    return np.logaddexp(0.0, np.where(positive, -1.0, 1.0) * np.asarray(given, dtype=np.float64))


def _decides(options: MonitorOptions) -> dict[str, str]:
    """What decides, as the state remembers it: the column of scores, or the checksum of the saved model."""
    if options.model is not None:
        return {"model": file_checksum(str(model_folder(options.model) / "model.json"))}
    return {"score": str(options.score)}


def _predicted(given: Any, column: str | None, monitor: Monitor) -> Any:
    """Decisions as the monitor takes them: scores where it has a threshold, else labels. column: of scores."""
    if monitor.threshold is not None:
        return numbers_of(given, str(column))
    if set(texts_of(given)) <= set(monitor.classes):
        return given
    logits, words = as_logits(numbers_of(given, str(column)))
    if words != DECISIONS:
        raise DataError("the score column holds scores, but that of the first file held decisions; give decisions.")
    return np.array(monitor.classes, dtype=object)[(logits > 0).astype(int)]
