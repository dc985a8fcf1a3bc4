"""`fairbound audit`: judge scores in a file, or a saved model on the rows of a file, against stated bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fairbound.audits.audit import audit
from fairbound.base.errors import DataWarning, OptionError, silenced
from fairbound.cli.bounds import bounds_for, bounds_of_texts, by_class, of_classes_only
from fairbound.cli.files.columns import (
    column_of,
    decided_or_scored,
    file_columns,
    groups_in,
    in_file,
    in_label,
    labelled_rows,
    labelled_table,
    narrow_columns,
    one_column,
    pandas_part,
    speaks_of,
    weight_notes,
    with_decisions,
)
from fairbound.cli.files.older_files import check_no_other_run
from fairbound.cli.files.outcome import Outcome, written_audit
from fairbound.cli.files.row_warnings import repeated_row_warnings
from fairbound.cli.judging.audit_facts import judged_so, whole_file_facts
from fairbound.cli.judging.counted import ReadScores, counted_file
from fairbound.cli.judging.decided import audited_decisions, left_out_warnings, model_left_out_warnings
from fairbound.cli.judging.judged_model import (
    JudgedInParts,
    beside_training,
    check_classifier,
    dropped_group_warnings,
    encoded_by_model,
    encoding_notes,
    group_columns,
    in_words_of,
    labels_of_training,
    model_facts,
)
from fairbound.cli.judging.predicted_numbers import audit_numbers
from fairbound.cli.options.judging import AuditOptions
from fairbound.estimators.classifier import FairClassifier
from fairbound.estimators.saving.folder import Folder, load_folder
from fairbound.estimators.saving.saved import kind_of
from fairbound.fairness.notions import Bound
from fairbound.rows.groups import Groups, texts_of
from fairbound.rows.labels import binary_labels
from fairbound.rows.scores import as_logits, decided_scores, said_of_scores
from fairbound.tables import Chunks, Encoded
from fairbound.tables.reading.parquet import is_parquet


def run_audit(options: AuditOptions) -> Outcome:
    """Judge all rows of the file as held out and write audit.json and report.html."""
    folder = None if options.model is None else load_folder(options.model)
    check_no_other_run(options.out, folder)
    if options.label is None:
        found = audited_decisions(options, folder)
        found["warnings"] += _missing_group_warnings(found, options)
        return written_audit(found, options.out)
    if options.chunk_rows is not None:
        return audit_in_parts(options, options.chunk_rows, folder)
    bounds = bounds_of_texts(options.constraint, options.cross)
    of_numbers = folder is not None and kind_of(folder) == "FairRegressor"
    if of_numbers or any("predictions" in b.needs for b in bounds):
        return audit_numbers(options, bounds, folder)
    frame, label, unlabelled, left_out = labelled_table(options)
    stated = options.score is not None and speaks_of(options.score, frame.columns) is not None
    frame = with_decisions(frame, options.score, threshold=options.threshold)
    classifier, bounds = _model_and_bounds(options, folder)
    attributes = group_columns(options, frame.columns, classifier, bounds)
    groups = groups_in(frame, attributes)
    warnings = list(repeated_row_warnings(frame, label, options.clusters))
    measured: dict[str, Any]
    if classifier is not None:
        encoded = encoded_by_model(classifier, frame, options, {label, options.weights, options.clusters, *attributes})
        notes = encoding_notes(encoded.report)
        groups, said = beside_training(classifier, groups, bounds, len(frame))
        warnings += [*encoded.report.strange_lines(), *said]
        with silenced(DataWarning):  # said above
            measured = _scores_of_model(classifier, encoded, frame, label, options, groups, bounds)
            if len(left_out) and len(classifier.classes_) == 2:
                given = measured["scores"]
                judged = given > 0 if "threshold" in measured else given == classifier.classes_[1]
                warnings += model_left_out_warnings(classifier, judged, [left_out], attributes)
    else:
        column = one_column(options.score, frame.columns, "--score")
        names = set(texts_of(frame[label]))
        of_labels = of_classes_only(bounds) or by_class(bounds) or (not bounds and groups is None and len(names) > 2)
        if of_labels and set(texts_of(frame[column])) <= names:
            measured, notes = {"scores": frame[column], "y": frame[label]}, [f"The predictions are labels of {label}."]
        else:
            two = _zero_or_one(frame, label, options)
            with in_file(options.data, frame.index.to_numpy()):
                scores = decided_or_scored(frame, column, two["classes"], stated)
                read_as = as_logits(scores, options.threshold)[1]
                notes = [read_as if stated else said_of_scores(read_as, two["classes"][1])]
            warnings += left_out_warnings(frame, left_out, column, two["classes"], options.threshold)
            measured = {"scores": scores, "threshold": options.threshold, **two}
    classes = measured.get("classes", ())
    found = audit(
        **measured,
        sensitive_features=groups,
        constraint=bounds,
        **judged_so(options, frame),
        **whole_file_facts(options, label, folder, classes=classes, warnings=warnings),
        model=model_facts(classifier, options, folder),
        notes=[*unlabelled, *notes, *weight_notes(options.weights)],
    )
    found["warnings"] += [*_missing_group_warnings(found, options), *dropped_group_warnings(classifier, found)]
    return written_audit(found, options.out)


def _model_and_bounds(options: AuditOptions, folder: Folder | None) -> tuple[FairClassifier | None, list[Bound]]:
    """The saved classifier, None where there is none, and the bounds. Raises: OptionError for a saved model that is no
    classifier."""
    if folder is not None:
        check_classifier(folder, "audit without --qid" if options.chunk_rows is None else "audit --chunk-rows")
    classifier = None if folder is None else FairClassifier.load(folder)
    return classifier, bounds_for(options, classifier)


def audit_in_parts(options: AuditOptions, chunk_rows: int, folder: Folder | None) -> Outcome:
    """As `run_audit`, of a file read in parts: two classes, and bounds on rates or on a class,
    which counts can tell."""
    columns = file_columns(options)
    label = one_column(options.label, columns, "--label")
    classifier, bounds = _model_and_bounds(options, folder)
    if classifier is not None and len(classifier.classes_) > 2:
        raise OptionError(
            f"the model in {options.model} has {len(classifier.classes_)} classes, and rows that are read in parts are counted for two; "
            "leave --chunk-rows out."
        )
    attributes = group_columns(options, columns, classifier, bounds)
    named = {label} if classifier is not None else {label, column_of(options.score, columns, "--score")}
    narrow = narrow_columns(options, sorted(named), chunk_rows)
    labels, unlabelled = labelled_rows(narrow, label, options)
    labels = with_decisions(labels, options.score, threshold=options.threshold)
    left_out = narrow[narrow[label].isna()]
    two, kept = _zero_or_one(labels, label, options, classifier), labels.index.to_numpy()
    target, classes = two["y"], two["classes"]
    if classifier is None:
        given, read = _read_scores(options, columns, labels, classes)
        merged = counted_file(options, chunk_rows, attributes, given, target, kept)
        warnings, notes = left_out_warnings(labels, left_out, str(options.score), classes, options.threshold), [read]
    else:
        model = JudgedInParts(classifier)
        merged = counted_file(options, chunk_rows, attributes, model, target, kept)
        judged = np.repeat(merged.cells[:, -1] == 1, merged.counts)
        others = _rows_in_parts(options, chunk_rows, left_out.index.to_numpy())
        warnings = model.warnings(attributes, bounds) + model_left_out_warnings(classifier, judged, others, attributes)
        notes = model.notes({label, options.weights, options.clusters, *attributes})
    said = merged.audit(
        bounds,
        classes=classes,
        confidence=options.confidence,
        power=options.power,
        **whole_file_facts(options, label, folder, classes=classes, warnings=warnings),
        model=model_facts(classifier, options, folder),
        notes=[*unlabelled, *notes],
    )
    said["warnings"] += [*_missing_group_warnings(said, options), *dropped_group_warnings(classifier, said)]
    return written_audit(said, options.out)


def _read_scores(
    options: AuditOptions, columns: Sequence[str], labelled: Any, classes: tuple[Any, Any]
) -> tuple[ReadScores, str]:
    """The column of --score of all rows that have a label at once, as what scores are is seen from all of them, and what is
    noted of that. columns: of the file; classes: the labels that 0 and 1 mean."""
    score = str(options.score)
    stated = speaks_of(score, columns) is not None
    with in_file(options.data, labelled.index.to_numpy()):
        scores = decided_or_scored(labelled, score, classes, stated)
        found = ReadScores(*decided_scores(scores, options.threshold))
    return found, found.read_as if stated else said_of_scores(found.read_as, classes[1])


def _rows_in_parts(options: AuditOptions, chunk_rows: int, rows: np.ndarray) -> Iterator[Any]:
    """Some rows of the file, by their numbers, read in parts; it is not read for none."""
    if len(rows):
        yield from map(pandas_part, Chunks.read(options.data, rows=chunk_rows, **options.file_format).take(rows))


def _missing_group_warnings(found: dict[str, Any], options: AuditOptions) -> list[str]:
    """Where groups of a CSV file are not known, which words are read as that, since a group may be called by one of
    them."""
    if not any(found["data"]["missing_group_rows"].values()) or is_parquet(options.data):
        return []
    return [
        "In a CSV file an empty cell, ? and words such as NA, None, nan or null are read as not known (docs/commands.md). "
        "Where one of them is the name of a group, write it otherwise."
    ]


def _scores_of_model(
    classifier: FairClassifier,
    encoded: Encoded,
    frame: Any,
    label: str,
    options: AuditOptions,
    groups: Groups | None,
    bounds: Sequence[Any],
) -> dict[str, Any]:
    """Scores and labels for `audit`: with more than two classes, or bounds on every class, the predicted labels."""
    if len(classifier.classes_) > 2 or by_class(bounds):
        if options.positive is not None:
            raise OptionError(
                f"the model has {len(classifier.classes_)} classes, none of them positive; leave --positive out."
            )
        return {
            "scores": classifier.predict(encoded, groups),
            "y": in_words_of(frame[label], classifier.classes_.tolist()),
            "classes": classifier.classes_.tolist(),
        }
    two = _zero_or_one(frame, label, options, classifier)
    return {"scores": classifier.decision_function(encoded, groups), "threshold": 0.0, **two}


def _zero_or_one(
    frame: Any, label: str, options: AuditOptions, classifier: FairClassifier | None = None
) -> dict[str, Any]:
    """The label column as 0 and 1, and the labels that these mean, which are those of the saved model where there is one."""
    labels, positive = frame[label], options.positive
    with in_label(options.data, label, frame.index.to_numpy()):
        if classifier is not None:
            labels = labels_of_training(labels, classifier, positive)
            positive = str(classifier.classes_[1])
        target, classes = binary_labels(labels, positive)
    return {"y": target, "classes": classes}
