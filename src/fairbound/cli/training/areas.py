"""`fairbound stream` and `fairbound shift`: bounds on areas under ROC curves,
for files read in chunks and for scores at hand."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fairbound.audits.audit import audit
from fairbound.base.errors import OptionError
from fairbound.base.files import check_not_read
from fairbound.base.seeds import seed_for
from fairbound.cli.files.columns import in_file, in_label, labelled_table, named_columns, numbers_in, one_column
from fairbound.cli.files.older_files import check_no_other_model, left_by_others
from fairbound.cli.files.outcome import Outcome, csv_file, json_file, say, written_audit
from fairbound.cli.judging.audit_facts import data_facts
from fairbound.cli.options.judging import ShiftOptions
from fairbound.cli.options.training import StreamOptions
from fairbound.cli.training.rows import InputRows, rows_of_options
from fairbound.cli.training.splitting import split_rows
from fairbound.estimators.streaming_auc import StreamingAUC
from fairbound.fairness.notions.auc import AUCParity, area_bound
from fairbound.postprocessing.scale_and_shift import ScaleAndShift, check_two_groups
from fairbound.rows.groups import Groups
from fairbound.rows.labels import binary_labels
from fairbound.rows.reading import take_rows
from fairbound.rows.scores import check_finite_scores, usual_threshold
from fairbound.rows.split import stratified_split
from fairbound.tables import Chunks, TableEncoder
from fairbound.tables.in_parts import learn_chunks
from fairbound.tables.reading.chunks import ROWS

SCORES = "scores.csv"
"""What shift writes of the moved scores, beside its report."""
SCORE_ONLY = (
    "The scores rank; training chose no threshold for decisions. Accuracy and the rates of groups are those of taking scores above "
    "{threshold:g} as positive, which may decide worse than another threshold."
)


def run_stream(options: StreamOptions) -> Outcome:
    """Learn chunk by chunk, judge on held-out rows, write weights.json and the report;
    the exit code is the verdict's."""
    bound = _one_area(options.constraint)
    check_no_other_model(options.out)
    began = time.perf_counter()
    rows = rows_of_options(options)
    split = split_rows(rows, options.test_size, options.seed)
    train, held = map(rows.counting, (split.train, split.test))
    say(f"{rows.name}: {train:,} rows in chunks under {bound.text}; {held:,} rows are held out.")
    encoder, labels = TableEncoder(), dict(zip(rows.groups.attributes, map(list, rows.groups.labels), strict=True))
    with rows.in_lines_of(split.train):
        learn_chunks(encoder, Chunks(lambda: (part for _, part in _parts(rows, split.train))))
    made = StreamingAUC(
        bound, solver=options.solver, kappa="auto" if options.kappa is None else options.kappa, sample=options.sample,
        warm_up=min(2000, max(len(split.train) // 4, 1)), groups=labels, random_state=options.seed,
    )  # fmt: skip
    for numbers, features in _encoded(rows, split.train, encoder):
        made.partial_fit(features, rows.target[numbers], rows.groups.take(numbers), rows.weight_of(numbers))
    scores = np.concatenate([made.decision_function(features) for _, features in _encoded(rows, split.test, encoder)])
    seconds = time.perf_counter() - began
    about = f"linear score on {made.n_features_in_} features, solver {options.solver}, kappa {made.kappa_:.4g}"
    notes = [*rows.notes, SCORE_ONLY.format(threshold=0)]
    if made.met_ is not None:
        verb = "met the bound" if made.met_ else "came nearest to the bound"
        notes.append(
            f"The surrogate that {verb} on a sample of the stream: the quadratic loss with kappa {made.kappa_:.3g}."
        )
    found = audit(
        scores, **rows.known_of(split.test), constraint=bound, threshold=0.0, classes=rows.classes,
        confidence=options.confidence, notes=notes,
        **data_facts(rows.name, rows.label, split.words, rows.checksum, rows.counting(split.train), rows.classes),
        model={"kind": "linear", "description": about, "algorithm": "streaming_auc", "seed": options.seed, "budget": None,
               "seconds": seconds, "steps": None},
    )  # fmt: skip
    weights = {
        "constraint": bound.text, "kappa": made.kappa_, "met_on_sample": made.met_, "rows": made.rows_,
        "weights": dict(zip(encoder.feature_names, made.coef_.tolist(), strict=True)), "encoder": json.loads(encoder.to_json()),
    }  # fmt: skip
    files = {"weights.json": json_file(weights)}
    return written_audit(found, options.out, seconds, options.seed, files, left_by_others(options.out, files))


def run_shift(options: ShiftOptions) -> Outcome:
    """Fit scale and shift on some rows, judge the moved scores on the others, write shift.json,
    scores.csv and the report."""
    bound = _one_area(options.constraint)
    check_not_read(options.out / SCORES, options.data)
    check_no_other_model(options.out)
    began = time.perf_counter()
    frame, label, notes, _ = labelled_table(options)
    column = one_column(options.score, frame.columns, "--score")
    attributes = named_columns(options.group, frame.columns, "--group")
    scores, groups = numbers_in(frame, column, options.data), Groups.of(frame[attributes])
    with in_file(options.data, frame.index.to_numpy()):
        check_finite_scores(scores)
        check_two_groups(groups)
    with in_label(options.data, label, frame.index.to_numpy()):
        target, classes = binary_labels(frame[label], options.positive)
    strata = np.column_stack([target, groups.codes])
    train, test = stratified_split(strata, [options.test_size], seed_for("shift", root=options.seed))
    move = ScaleAndShift(bound, group=options.move, random_state=options.seed)
    move.fit(scores[train], target[train], groups.take(train))
    moved = move.transform(scores, groups)
    threshold = usual_threshold(scores) if options.threshold is None else options.threshold
    share = f"{100 * options.test_size:g} % held out, stratified by label and group, seed {options.seed}"
    found = audit(
        moved[test], target[test], groups.take(test), bound, threshold=threshold, classes=classes,
        confidence=options.confidence, title=f"{label}: {Path(options.data).name}, {column} moved",
        compare={"before": scores[test]}, notes=[*notes, SCORE_ONLY.format(threshold=threshold)],
        data={"name": Path(options.data).name, "train_rows": len(train), "label": label, "positive": str(classes[1]), "split": share},
    )  # fmt: skip
    found["warnings"] += _worse_warnings(found)
    done = {
        "constraint": bound.text, "group": move.group_, "scale": move.scale_, "shift": move.shift_ * move.spread_,
        "met_on_fitted_rows": bool(move.met_), "value": move.value_, "auc": move.auc_,
    }  # fmt: skip
    held = np.isin(np.arange(len(moved)), test).astype(int)
    scored = csv_file("row", "held_out", "score", lines=zip(frame.index, held, moved.tolist(), strict=True))
    files = {"shift.json": json_file(done), SCORES: scored}
    seconds, older = time.perf_counter() - began, left_by_others(options.out, files)
    return written_audit(found, options.out, seconds, options.seed, files, older)


def _worse_warnings(found: dict[str, Any]) -> list[str]:
    """A warning where the moved scores have a larger difference of areas on the rows judged than those before."""
    (moved,), (before,) = found["constraints"], found["comparison"][0]["constraints"]
    if moved["value"] is None or before["value"] is None or moved["value"] <= before["value"]:
        return []
    return [
        f"On the rows judged {moved['text']} measures {moved['value']:.4f} with the moved scores and {before['value']:.4f} with those "
        "before: the move, fitted to other rows, made it worse here. Keep the scores as they are, or fit it to more rows."
    ]


def _encoded(rows: InputRows, numbers: np.ndarray, encoder: TableEncoder) -> Iterator[tuple[np.ndarray, Any]]:
    """The rows `numbers` in order, in parts: their numbers, and their features."""
    for some, part in _parts(rows, numbers):
        with rows.in_lines_of(some):
            features = encoder.encode(part)[0]
        yield some, features


def _one_area(texts: list[str]) -> AUCParity:
    """The one bound that is stated. Raises: OptionError for others."""
    if len(texts) != 1:
        raise OptionError("state one bound on areas, such as --constraint 'auc_parity[group] <= 0.05'.")
    return area_bound(texts[0], "this command")


def _parts(rows: InputRows, numbers: np.ndarray) -> Iterator[tuple[np.ndarray, Any]]:
    """The rows `numbers` in order, in parts: their numbers, and the table."""
    if isinstance(rows.X, Chunks):
        at = 0
        for part in rows.X.take(numbers):
            yield numbers[at : at + len(part)], part
            at += len(part)
        return
    for at in range(0, len(numbers), ROWS):
        some = numbers[at : at + ROWS]
        yield some, take_rows(rows.X, some)
