"""`fairbound audit`: judge scores in a file, or a saved model on the rows of a file, against stated bounds."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairbound.audits.audit import audit
from fairbound.base.errors import DataError, OptionError
from fairbound.base.files import check_writable
from fairbound.cli.fit import TRAINED_ON
from fairbound.cli.outcome import Outcome, of_classes_only, stated_bounds, verdict_summary, verdict_text
from fairbound.cli.rows import listed, one_column
from fairbound.estimators.classifier import FairClassifier
from fairbound.estimators.folder import load_folder
from fairbound.report import write_audit
from fairbound.rows.groups import Groups, texts_of
from fairbound.rows.labels import binary_labels
from fairbound.rows.scores import as_logits
from fairbound.tables import Encoded, read_table


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """The options of `fairbound audit`; see `fairbound audit --help`."""

    data: str
    label: str
    group: str | None = None
    out: Path
    score: str | None = None
    model: Path | None = None
    positive: str | None = None
    threshold: float | None = None
    constraint: list[str]
    cross: bool = False
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if (self.score is None) == (self.model is None):
            raise OptionError("give either --score COL (a column of scores) or --model DIR (a saved model).")
        if self.model is not None and self.threshold is not None:
            raise OptionError("--threshold belongs to --score; a saved model decides by itself.")


def run_audit(options: AuditOptions) -> Outcome:
    """Judge all rows of the file as held out and write audit.json and report.html."""
    bounds = stated_bounds(options.constraint, options.cross)
    check_writable(options.out)
    frame = read_table(options.data)
    columns = list(frame.columns)
    label = one_column(options.label, columns, "--label")
    attributes = listed(options.group, columns, "--group")
    groups = Groups.of({a: frame[a] for a in attributes}) if attributes else None
    warnings: list[str] = []
    checksum = "sha256:" + hashlib.sha256(Path(options.data).read_bytes()).hexdigest()
    classifier = None if options.model is None else FairClassifier.load(options.model)
    if classifier is not None and not options.constraint:
        bounds = stated_bounds(_saved_bounds(classifier), options.cross)
    decides_by_groups = classifier is not None and classifier.rule_ is not None
    if groups is None and (decides_by_groups or not of_classes_only(bounds)):
        one_column(None, columns, "--group")
    measured: dict[str, Any]
    if classifier is not None:
        assert classifier.encoder_ is not None  # a module has none, and `load` refuses one without its code
        encoded = Encoded.of(classifier.encoder_, frame)
        notes = [line for line in encoded.report.lines() if ": dropped, " not in line]
        if groups is not None:
            groups = _known_groups(classifier, groups, frame, warnings)
        if load_folder(str(options.model)).extras.get(TRAINED_ON) == checksum:
            warnings.append(
                "This is the file that the model was trained on: most of its rows are not held out, and the "
                "verdict says nothing about new rows."
            )
        measured = _of_model(classifier, encoded, frame, label, options, groups)
        facts = classifier.fit_report_
        model: dict[str, Any] = {
            "kind": facts["model"]["kind"],
            "description": f"saved in {Path(str(options.model)).name}",
            "algorithm": facts["algorithm"],
            "seed": facts["seed"],
            "budget": facts["budget"],
            "seconds": facts["seconds"],
            "steps": facts["steps"],
        }
    else:
        column = one_column(options.score, columns, "--score")
        model = {"kind": "scores", "description": f"the column {options.score} of the file"}
        if of_classes_only(bounds) and set(texts_of(frame[column])) <= set(texts_of(frame[label])):
            measured, notes = {"scores": frame[column], "y": frame[label]}, [f"The predictions are labels of {label}."]
        else:
            scores = _numbers(frame, column)
            notes = [as_logits(scores, options.threshold)[1]]
            measured = {
                "scores": scores,
                "threshold": options.threshold,
                **_two(frame, label, options.positive, options),
            }
    classes = measured.get("classes", ())
    found = audit(
        **measured,
        sensitive_features=groups,
        constraint=bounds,
        confidence=options.confidence,
        title=f"{label}: {Path(options.data).name}",
        data={
            "name": Path(options.data).name,
            "checksum": checksum,
            "label": label,
            "positive": str(classes[1]) if len(classes) == 2 else None,
            "split": "all rows of the file, taken as held out",
        },
        model=model,
        warnings=warnings,
        notes=notes,
    )
    write_audit(found, options.out)
    written = f"report          {options.out / 'report.html'}\nreport as data  {options.out / 'audit.json'}"
    summary = verdict_summary(found, seconds=None, seed=None, out=options.out)
    return Outcome(summary, f"{verdict_text(found)}\n\n{written}", found["exit_code"])


def _of_model(
    classifier: FairClassifier, encoded: Encoded, frame: Any, label: str, options: AuditOptions, groups: Groups | None
) -> dict[str, Any]:
    """Scores and labels for `audit`: with more than two classes the predicted labels."""
    if len(classifier.classes_) > 2:
        if options.positive is not None:
            raise OptionError(
                f"the model has {len(classifier.classes_)} classes, none of them positive; leave --positive out."
            )
        return {"scores": classifier.predict(encoded), "y": frame[label], "classes": classifier.classes_.tolist()}
    positive = str(classifier.classes_[1])
    if options.positive not in (None, positive):
        raise OptionError(
            f"the model's positive label is {positive!r}, not {options.positive!r}; leave --positive out."
        )
    two = _two(frame, label, positive, options)
    return {"scores": classifier.decision_function(encoded, groups), "threshold": 0.0, **two}


def _two(frame: Any, label: str, positive: str | None, options: AuditOptions) -> dict[str, Any]:
    """The label column as 0 and 1, and the labels that these mean."""
    try:
        target, classes = binary_labels(frame[label], positive)
    except DataError as error:
        raise DataError(f"{options.data}, label column {label!r}: {error}") from None
    return {"y": target, "classes": classes}


def _numbers(frame: Any, column: str) -> np.ndarray:
    try:
        return np.asarray(frame[column], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"the score column {column!r} holds values that are no numbers ({error}).") from None


def _saved_bounds(classifier: FairClassifier) -> list[str]:
    stated: Any = classifier.constraint
    return [] if stated is None else [stated] if isinstance(stated, str) else list(stated)


def _known_groups(classifier: FairClassifier, groups: Groups, frame: Any, warnings: list[str]) -> Groups:
    """The file's groups in the model's codes, so that a group of training without a row here is noticed."""
    known = classifier.groups_
    if known is None or set(known.attributes) != set(groups.attributes):
        return groups
    encoded, unseen = known.encode({a: frame[a] for a in known.attributes})
    for attribute, count in unseen.items():
        if count:
            warnings.append(
                f"{attribute}: {count:,} of {len(frame):,} rows have a group that training lacked; no bound holds "
                "for it."
            )
    return encoded
