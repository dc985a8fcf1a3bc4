"""`fairbound audit` without `--label`: decisions, scores or a saved model judged by the shares selected alone. And what is
said where the rows without an outcome were decided otherwise than those that have one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fairbound.audits.audit import audit
from fairbound.audits.decisions import check_decisions_alone
from fairbound.base.errors import DataError, DataWarning, silenced
from fairbound.cli.bounds import bounds_for
from fairbound.cli.files.columns import (
    column_of,
    decided_or_scored,
    file_columns,
    groups_in,
    in_file,
    labelled_rows,
    narrow_columns,
    one_column,
    speaks_of,
    weight_notes,
    with_decisions,
)
from fairbound.cli.files.row_warnings import repeated_row_warnings
from fairbound.cli.judging.audit_facts import judged_so, whole_file_facts
from fairbound.cli.judging.counted import ReadScores, counted_file
from fairbound.cli.judging.judged_model import (
    JudgedInParts,
    beside_training,
    dropped_group_warnings,
    encoded_by_model,
    encoding_notes,
    group_columns,
    label_of_training,
    model_facts,
    model_of_two_classes,
)
from fairbound.cli.options.judging import AuditOptions
from fairbound.estimators.classifier import FairClassifier
from fairbound.estimators.saving.folder import Folder
from fairbound.fairness.predictions import read_decisions
from fairbound.rows.scores import as_logits, decided_scores
from fairbound.tables import read_table

DECIDED = "decision"
"""What the column of --score holds where no label is named."""
CHANCE = 4.0
"""Standard errors by which shares of positive decisions must differ to be spoken of."""


def audited_decisions(options: AuditOptions, folder: Folder | None) -> dict[str, Any]:
    """The audit of a file's column of decisions or scores, or of the model saved in `folder` on its rows, without outcomes."""
    classifier = None if folder is None else model_of_two_classes(folder, options.positive)
    bounds = bounds_for(options, classifier)
    check_decisions_alone(bounds)
    if options.chunk_rows is not None:
        return _counted(options, options.chunk_rows, folder, classifier, bounds)
    table = read_table(options.data, **options.file_format)
    frame = with_decisions(table, options.score, threshold=options.threshold)
    attributes = group_columns(options, frame.columns, classifier, bounds)
    if classifier is None:
        column = one_column(options.score, frame.columns, "--score")
        frame, notes = labelled_rows(frame, column, options, DECIDED)
        groups = groups_in(frame, attributes)
        decisions = {"scores": frame[column], "threshold": options.threshold, "positive": options.positive}
        said: list[str] = []
    else:
        column = label_of_training(folder)
        encoded = encoded_by_model(classifier, frame, options, {column, options.weights, options.clusters, *attributes})
        notes = encoding_notes(encoded.report)
        groups, said = beside_training(classifier, groups_in(frame, attributes), bounds, len(frame))
        said = [*encoded.report.strange_lines(), *said]
        with silenced(DataWarning):  # said above
            scores = classifier.decision_function(encoded, groups)
        decisions = {"scores": scores, "threshold": 0.0, "classes": classifier.classes_.tolist()}
    said = [*repeated_row_warnings(frame, column if column in frame.columns else None, options.clusters), *said]
    with in_file(options.data, frame.index.to_numpy()):
        found = audit(
            **decisions,
            y=None,
            sensitive_features=groups,
            constraint=bounds,
            **judged_so(options, frame),
            model=model_facts(classifier, options, folder),
            notes=[*notes, *weight_notes(options.weights)],
            **_facts(options, column, folder, said),
        )
    found["warnings"] += dropped_group_warnings(classifier, found)
    return found


def _facts(options: AuditOptions, column: str, folder: Folder | None, said: Sequence[str]) -> dict[str, Any]:
    """What `audit` is told of the file; which decision is positive it says by itself."""
    facts = whole_file_facts(options, column, folder, warnings=said)
    facts["data"].pop("positive")
    return facts


def _counted(
    options: AuditOptions, chunk_rows: int, folder: Folder | None, classifier: FairClassifier | None, bounds: list[Any]
) -> dict[str, Any]:
    """As `audited_decisions`, of a file read in parts, of which counts are kept."""
    columns = file_columns(options)
    attributes = group_columns(options, columns, classifier, bounds)
    given = None if classifier is not None else _read_column(options, columns, chunk_rows)
    classes = given.classes if given is not None else None if classifier is None else classifier.classes_.tolist()
    model = None if classifier is None else JudgedInParts(classifier)
    scores, kept = (model, None) if given is None else (given.scores, given.kept)
    assert scores is not None  # there is a column or a model
    merged = counted_file(options, chunk_rows, attributes, scores, None, kept)
    column = str(options.score) if classifier is None else label_of_training(folder)
    facts = _facts(options, column, folder, [] if model is None else model.warnings(attributes, bounds))
    if classes is not None:
        facts["data"]["positive"] = str(classes[1])
    notes = [*given.notes, given.scores.read_as] if given is not None else []
    if model is not None:
        notes = model.notes({column, options.weights, options.clusters, *attributes})
    found = merged.audit(
        bounds,
        classes=classes or ("0", "1"),
        confidence=options.confidence,
        power=options.power,
        model=model_facts(classifier, options, folder),
        notes=notes,
        **facts,
    )
    found["warnings"] += dropped_group_warnings(classifier, found)
    return found


def _read_column(options: AuditOptions, columns: Sequence[str], chunk_rows: int) -> _Column:
    """The column of decisions or scores of a file read in parts."""
    score = str(options.score)
    narrow = narrow_columns(options, [column_of(score, columns, "--score")], chunk_rows)
    narrow = with_decisions(narrow, score, threshold=options.threshold)
    narrow, notes = labelled_rows(narrow, score, options, DECIDED)
    kept = narrow.index.to_numpy()
    with in_file(options.data, kept):
        numbers, _, classes = read_decisions(narrow[score], options.threshold, None, options.positive)
        scores = ReadScores(*decided_scores(numbers, options.threshold))
    return _Column(kept, scores, classes, notes)


class _Column(NamedTuple):
    """kept: (n,) numbers of the file's rows that have a decision. scores: of them. classes: what 0 and 1 mean, where the
    column holds words. notes: on rows left out."""

    kept: np.ndarray
    scores: ReadScores
    classes: Sequence[Any] | None
    notes: list[str]


def left_out_warnings(
    judged: Any,
    left_out: Any,
    column: str,
    classes: tuple[Any, Any],
    threshold: float | None,
    remedy: str = " by leaving --label out",
) -> list[str]:
    """`share_difference_warnings` of the rows of a file that are `judged` and those `left_out`, which have no label; frames.
    column: of the decisions or scores, or stated of one. classes: the labels that 0 and 1 mean."""
    import pandas as pd

    stated = speaks_of(column, left_out.columns) is not None
    left_out = with_decisions(left_out, column, occurs=False)
    known, unknown = (rows[column][rows[column].notna()] for rows in (judged, left_out))
    if not len(unknown):
        return []
    try:
        whole = decided_or_scored(pd.concat([known, unknown]).to_frame(), column, classes, stated)
        positive = as_logits(whole, threshold)[0] > 0
    except DataError:  # the rows that are judged can be read; of the others nothing is said
        return []
    return share_difference_warnings(positive[len(known) :], positive[: len(known)], remedy)


def model_left_out_warnings(
    classifier: FairClassifier,
    judged: np.ndarray,
    left_out: Iterable[Any],
    attributes: Sequence[str],
    remedy: str = " by leaving --label out",
) -> list[str]:
    """`share_difference_warnings` of the rows of a file that a saved model of two classes is judged on and of those `left_out`,
    frames; nothing where the model cannot take these. judged: (n,) bools, the decisions. attributes: the columns of the
    groups."""
    try:
        with silenced(DataWarning):
            found = [
                classifier.decision_function(
                    frame, groups_in(frame, attributes, whole=False) if classifier.needs_groups else None
                )
                for frame in left_out
                if len(frame)
            ]
    except DataError:
        return []
    return share_difference_warnings(np.concatenate(found) > 0, judged, remedy, by_model=True) if found else []


def share_difference_warnings(
    left_out: np.ndarray, judged: np.ndarray, remedy: str, by_model: bool = False
) -> list[str]:
    """A warning where the shares of positive decisions (bools) among rows without an outcome and among those judged
    differ by more than chance. remedy: how the decisions on all can be judged. by_model: whether a saved model decides
    here, so that other decisions may have been made of the rows, by which they have an outcome or none."""
    if not len(left_out) or not len(judged):
        return []
    out, kept = float(left_out.mean()), float(judged.mean())
    both = (left_out.sum() + judged.sum()) / (len(left_out) + len(judged))
    if abs(out - kept) <= CHANCE * np.sqrt(both * (1 - both) * (1 / len(left_out) + 1 / len(judged))):
        return []
    out_of, of_judged = (f"{100 * share:.3g} % of" for share in (out, kept))
    found = (
        f"The rows without an outcome are unlike those judged: the model selects {out_of} the {len(left_out):,} rows without "
        f"one, and {of_judged} those judged."
        if by_model
        else f"Who has an outcome depends on the decision: {out_of} the {len(left_out):,} rows without one were decided "
        f"positive, and {of_judged} those judged."
    )
    return [
        f"{found} So the rates here are not those of everyone: the shares selected of all rows can be had{remedy}; their true "
        "and false positive rates cannot."
    ]
