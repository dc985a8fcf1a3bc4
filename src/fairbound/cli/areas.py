"""`fairbound stream` and `fairbound shift`: bounds on areas under ROC curves, for files read in chunks and for scores at hand."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairbound.audits.audit import audit
from fairbound.base.errors import OptionError
from fairbound.base.files import atomic_write_many, check_writable
from fairbound.base.seeds import seed_for
from fairbound.cli.outcome import Outcome, say, stated_bounds, verdict_summary, verdict_text
from fairbound.cli.rows import InputRows, listed, number_column, one_column, read_rows, split_rows
from fairbound.estimators.streaming_auc import StreamingAUC
from fairbound.fairness.notions.auc import AUCParity
from fairbound.postprocessing.scale_and_shift import ScaleAndShift
from fairbound.report import audit_files
from fairbound.rows.groups import Groups
from fairbound.rows.labels import binary_labels
from fairbound.rows.reading import take_rows
from fairbound.rows.split import stratified_split
from fairbound.tables import Chunks, TableEncoder, read_table
from fairbound.tables.chunks import ROWS
from fairbound.tables.in_parts import learn_chunks

SCORE_ONLY = (
    "Where a positive decision begins is left open; accuracy and rates are those of scores above {threshold:g}."
)


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """The options of `fairbound stream`; see `fairbound stream --help`."""

    data: str
    constraint: list[str]
    out: Path
    label: str | None = None
    group: str | None = None
    positive: str | None = None
    drop: str | None = None
    solver: str = "exact"
    kappa: float | None = None
    sample: int = 10_000
    seed: int = 0
    test_size: float | None = None
    confidence: float = 0.95
    data_dir: str | None = None
    chunk_rows: int | None = None

    def __post_init__(self) -> None:
        if self.solver == "rows" and self.kappa is None:
            raise OptionError("--solver rows needs --kappa, the bound on the surrogate: try 0.2.")


def run_stream(options: StreamOptions) -> Outcome:
    """Learn chunk by chunk, judge on held-out rows, write weights.json and the report; the exit code is the verdict's."""
    bound = _one_area(options.constraint)
    check_writable(options.out)
    began = time.perf_counter()
    rows = read_rows(
        options.data, label=options.label, group=options.group, positive=options.positive, drop=options.drop,
        data_dir=options.data_dir, chunk_rows=options.chunk_rows,
    )  # fmt: skip
    split = split_rows(rows, options.test_size, options.seed)
    say(f"{rows.name}: {len(split.train):,} rows in chunks under {bound.text}; {len(split.test):,} rows are held out.")
    encoder, labels = TableEncoder(), dict(zip(rows.groups.attributes, map(list, rows.groups.labels), strict=True))
    learn_chunks(encoder, Chunks(lambda: (part for _, part in _parts(rows, split.train))))
    made = StreamingAUC(
        bound, solver=options.solver, kappa="auto" if options.kappa is None else options.kappa, sample=options.sample,
        warm_up=min(2000, max(len(split.train) // 4, 1)), groups=labels, random_state=options.seed,
    )  # fmt: skip
    for numbers, part in _parts(rows, split.train):
        made.partial_fit(encoder.transform(part), rows.target[numbers], rows.groups.take(numbers))
    scores = np.concatenate([made.decision_function(encoder.transform(part)) for _, part in _parts(rows, split.test)])
    seconds = time.perf_counter() - began
    about = f"linear score on {made.n_features_in_} features, solver {options.solver}, kappa {made.kappa_:.4g}"
    notes = [*rows.notes, SCORE_ONLY.format(threshold=0)]
    if made.met_ is not None:
        verb = "met the bound" if made.met_ else "came nearest to the bound"
        notes.append(
            f"The surrogate that {verb} on a sample of the stream: the quadratic loss with kappa {made.kappa_:.3g}."
        )
    found = audit(
        scores, rows.target[split.test], rows.groups.take(split.test), bound, threshold=0.0, classes=rows.classes,
        confidence=options.confidence, title=f"{rows.label}: {rows.name}", notes=notes,
        data={"name": rows.name, "train_rows": len(split.train), "checksum": rows.checksum, "label": rows.label,
              "positive": str(rows.classes[1]), "split": split.words},
        model={"kind": "linear", "description": about, "algorithm": "streaming_auc", "seed": options.seed, "budget": None,
               "seconds": seconds, "steps": None},
    )  # fmt: skip
    weights = {
        "constraint": bound.text, "kappa": made.kappa_, "met_on_sample": made.met_, "rows": made.rows_,
        "weights": dict(zip(encoder.feature_names, made.coef_.tolist(), strict=True)), "encoder": json.loads(encoder.to_json()),
    }  # fmt: skip
    return _written(options.out, found, {"weights.json": _json(weights)}, seconds, options.seed)


@dataclass(frozen=True, kw_only=True)
class ShiftOptions:
    """The options of `fairbound shift`; see `fairbound shift --help`."""

    data: str
    label: str
    score: str
    group: str
    constraint: list[str]
    out: Path
    move: str | None = None
    positive: str | None = None
    threshold: float | None = None
    seed: int = 0
    test_size: float = 0.5
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if not 0 < self.test_size < 1:
            raise OptionError(f"--test-size must be a share of the rows between 0 and 1, got {self.test_size}.")


def run_shift(options: ShiftOptions) -> Outcome:
    """Fit scale and shift on some rows, judge the moved scores on the others, write shift.json, scores.csv and the report."""
    bound = _one_area(options.constraint)
    check_writable(options.out)
    began = time.perf_counter()
    frame = read_table(options.data)
    columns = list(frame.columns)
    label, column = one_column(options.label, columns, "--label"), one_column(options.score, columns, "--score")
    attributes = listed(options.group, columns, "--group")
    scores, groups = number_column(frame, column), Groups.of({a: frame[a] for a in attributes})
    target, classes = binary_labels(frame[label], options.positive)
    strata = np.column_stack([target, groups.codes])
    train, test = stratified_split(strata, [options.test_size], seed_for("shift", root=options.seed))
    move = ScaleAndShift(bound, group=options.move, random_state=options.seed)
    move.fit(scores[train], target[train], groups.take(train))
    moved = move.transform(scores, groups)
    threshold = options.threshold
    if threshold is None:
        threshold = 0.5 if scores.min() >= 0 and scores.max() <= 1 else 0.0
    share = f"{100 * options.test_size:g} % held out, stratified by label and group, seed {options.seed}"
    found = audit(
        moved[test], target[test], groups.take(test), bound, threshold=threshold, classes=classes,
        confidence=options.confidence, title=f"{label}: {Path(options.data).name}, {column} moved",
        compare={"before": scores[test]}, notes=[SCORE_ONLY.format(threshold=threshold)],
        data={"name": Path(options.data).name, "train_rows": len(train), "label": label, "positive": str(classes[1]), "split": share},
    )  # fmt: skip
    done = {
        "constraint": bound.text, "group": move.group_, "scale": move.scale_, "shift": move.shift_ * move.spread_,
        "met_on_fitted_rows": bool(move.met_), "value": move.value_, "auc": move.auc_,
    }  # fmt: skip
    lines = "\n".join(["row,held_out,score", *(f"{i},{int(h)},{v!r}" for i, (h, v) in enumerate(_marked(moved, test)))])
    files = {"shift.json": _json(done), "scores.csv": (lines + "\n").encode()}
    return _written(options.out, found, files, time.perf_counter() - began, options.seed)


def _marked(moved: np.ndarray, test: np.ndarray) -> Iterator[tuple[bool, float]]:
    held = np.zeros(len(moved), dtype=bool)
    held[test] = True
    return zip(held.tolist(), moved.tolist(), strict=True)


def _one_area(texts: list[str]) -> AUCParity:
    """The one bound that is stated. Raises: OptionError for others."""
    bounds = stated_bounds(texts)
    if len(bounds) != 1 or not isinstance(bounds[0], AUCParity):
        raise OptionError("state one bound on areas, such as --constraint 'auc_parity[group] <= 0.05'.")
    return bounds[0]


def _parts(rows: InputRows, numbers: np.ndarray) -> Iterator[tuple[np.ndarray, Any]]:
    """The rows `numbers` in order, in parts: their numbers, and the table."""
    if isinstance(rows.X, Chunks):
        at = 0
        for part in rows.X.take(numbers):
            size = part.num_rows if hasattr(part, "num_rows") else len(part)
            yield numbers[at : at + size], part
            at += size
        return
    for at in range(0, len(numbers), ROWS):
        some = numbers[at : at + ROWS]
        yield some, take_rows(rows.X, some)


def _json(made: dict[str, Any]) -> bytes:
    return (json.dumps(made, ensure_ascii=False, allow_nan=False, indent=2) + "\n").encode()


def _written(out: Path, found: dict[str, Any], files: dict[str, bytes], seconds: float, seed: int) -> Outcome:
    """The report and `files` in the folder, and what the command says."""
    report = audit_files(found)
    atomic_write_many(out, files | report, removed=("report.html", "audit.json", "impact.csv"))
    names = [*files, *(n for n in ("report.html", "audit.json") if n in report)]
    text = verdict_text(found) + "\n\n" + "\n".join(f"written  {out / name}" for name in names)
    summary = verdict_summary(found, seconds=seconds, seed=seed, out=out)
    return Outcome(summary, text, found["exit_code"])
