"""`fairbound fit`: train under stated bounds, judge the result on held-out rows, write the model and the report."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fairbound.audits.audit import audit
from fairbound.base.files import atomic_write_text, check_writable
from fairbound.cli.outcome import (
    Outcome,
    json_lines,
    of_classes_only,
    say,
    stated_bounds,
    verdict_summary,
    verdict_text,
)
from fairbound.cli.rows import Rows, Split, group_warnings, read_rows, split_rows
from fairbound.estimators.classifier import FairClassifier
from fairbound.report import write_audit

TRAINED_ON = "data.txt"


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """The options of `fairbound fit`; see `fairbound fit --help`."""

    data: str
    label: str | None
    group: str | None
    constraint: list[str]
    out: Path
    model: str = "linear"
    algorithm: str = "auto"
    seed: int = 0
    budget: str | None = None
    positive: str | None = None
    test_size: float | None = None
    batch_size: int = 256
    keep_sensitive: bool = False
    drop: str | None = None
    baseline: bool = True
    cross: bool = False
    confidence: float = 0.95
    data_dir: str | None = None

    def rows(self, needs_groups: bool = True) -> Rows:
        """The rows these options name; needs_groups as in `read_rows`."""
        return read_rows(
            self.data,
            label=self.label,
            group=self.group,
            positive=self.positive,
            keep_sensitive=self.keep_sensitive,
            drop=self.drop,
            data_dir=self.data_dir,
            needs_groups=needs_groups,
        )


def fit(options: FitOptions) -> Outcome:
    """Train, judge and write; the outcome's exit code is the verdict's."""
    bounds = stated_bounds(options.constraint, options.cross)
    check_writable(options.out)
    rows = options.rows(needs_groups=not of_classes_only(bounds))
    split = split_rows(rows, options.test_size, options.seed)
    under = " and ".join(b.text for b in bounds) or "no bound"
    say(f"{rows.name}: training on {len(split.train):,} rows under {under}; {len(split.test):,} rows are held out.")
    classifier = train(options, bounds, rows, split)
    baseline = train(options, [], rows, split) if bounds and options.baseline else None
    found = judge(options, bounds, rows, split, classifier, baseline)
    out = options.out
    classifier.save(out / "model", extras={TRAINED_ON: rows.checksum} if rows.checksum else None)
    write_audit(found, out)
    atomic_write_text(out / "records.jsonl", json_lines(classifier.solution_.records))
    written = "\n".join(
        f"{what:<17} {out / name}"
        for what, name in (
            ("report", "report.html"),
            ("report as data", "audit.json"),
            ("model", "model"),
            ("training records", "records.jsonl"),
        )
    )
    seconds = classifier.fit_report_["seconds"]
    summary = verdict_summary(found, seconds=seconds, seed=options.seed, out=out)
    trained = "".join(f"\n{line}" for line in _in_training(bounds, rows, split, classifier, baseline))
    return Outcome(summary, f"{verdict_text(found)}{trained}\n\n{written}", found["exit_code"])


def _in_training(
    bounds: list, rows: Rows, split: Split, classifier: FairClassifier, baseline: FairClassifier | None
) -> list[str]:
    """The exact value of every bound on the training rows, with and without it: what training did, beside its verdict."""
    out = []
    for i, bound in enumerate(bounds):
        line = f"{bound.text}: {classifier.fit_report_['constraints'][i]['train_value']:.4f} on the training rows"
        if baseline is not None:
            free = audit(**judged_rows(baseline, rows, split.train), constraint=bound)
            value = free["constraints"][0]["value"]
            line += "" if value is None else f", {value:.4f} without the bound"
        out.append(line + ".")
    return out


def train(options: FitOptions, bounds: list, rows: Rows, split: Split) -> FairClassifier:
    """The classifier of these options on the training rows; without bounds, the unconstrained one."""
    classifier = FairClassifier(
        bounds or None,
        model=options.model,
        algorithm=options.algorithm,
        budget=options.budget,
        batch_size=options.batch_size,
        positive=rows.classes[1] if len(rows.classes) == 2 else None,
        random_state=options.seed,
        progress=sys.stderr.isatty(),
    )
    groups = rows.groups.take(split.train) if bounds and rows.groups.attributes else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # reader_warnings says it, with more
        return classifier.fit(rows.features(split.train), rows.y[split.train], sensitive_features=groups)


def judged_rows(classifier: FairClassifier, rows: Rows, part: np.ndarray) -> dict[str, Any]:
    """What `audit` needs of the rows `part`: predicted labels where there are more than two classes, else scores."""
    X, groups = rows.features(part), rows.groups.take(part)
    known = groups if groups.attributes else None
    if len(rows.classes) > 2:
        return {"scores": classifier.predict(X), "y": rows.y[part], "classes": rows.classes}
    return {
        "scores": classifier.decision_function(X),
        "y": rows.target[part],
        "sensitive_features": known,
        "classes": rows.classes,
        "threshold": 0.0,
    }


def judge(
    options: FitOptions,
    bounds: list,
    rows: Rows,
    split: Split,
    classifier: FairClassifier,
    baseline: FairClassifier | None,
) -> dict[str, Any]:
    """The audit of the classifier on the held-out rows, beside the baseline's."""
    held = rows.features(split.test)
    _, encoding = classifier.encode(held)
    measured = judged_rows(classifier, rows, split.test)
    compare = {}
    if baseline is not None:
        compare = {
            "constrained": measured["scores"],
            "unconstrained": judged_rows(baseline, rows, split.test)["scores"],
        }
    facts = classifier.fit_report_
    notes = [*rows.notes, *facts["notes"]]
    if encoding is not None:
        notes += [
            f"Held-out rows, column {name}: {count:,} of {encoding.rows:,} have a value unseen or too rare in training."
            for name, count in encoding.unseen.items()
        ]
    return audit(
        **measured,
        constraint=bounds,
        confidence=options.confidence,
        title=f"{rows.label}: {rows.name}",
        compare=compare,
        data={
            "name": rows.name,
            "train_rows": len(split.train),
            "checksum": rows.checksum,
            "label": rows.label,
            "positive": str(rows.classes[1]) if len(rows.classes) == 2 else None,
            "split": split.words,
        },
        model={
            "kind": options.model,
            "description": f"{options.model} model on {classifier.model_.spec()['features']} features",
            "algorithm": facts["algorithm"],
            "seed": options.seed,
            "budget": facts["budget"],
            "seconds": facts["seconds"],
            "steps": facts["steps"],
        },
        trajectory=classifier.trajectory_,
        warnings=reader_warnings(rows, split, classifier),
        notes=notes,
    )


def reader_warnings(rows: Rows, split: Split, classifier: FairClassifier) -> list[str]:
    """What a reader must know before trusting the verdict."""
    facts, out = classifier.fit_report_, []
    if facts["constraints"] and not facts["feasible"]:
        out.append(facts["message"][0].upper() + facts["message"][1:])
        for stated in facts["constraints"]:
            curve = [v for v in classifier.trajectory_["constraints"][stated["text"]] if v is not None]
            floor = stated["sense"] == "at least"
            if curve and (max(curve) < stated["bound"] if floor else min(curve) > stated["bound"]):
                best = (
                    f"largest value reached on the training rows was {max(curve):.4g}"
                    if floor
                    else (f"smallest value reached on the training rows was {min(curve):.4g}")
                )
                out.append(f"{stated['text']}: the {best}.")
    elif facts["constraints"] and facts["best_step"] == 0:
        out.append(
            "The start of training is the only model found that meets every bound, and it has learnt nothing. Train "
            "longer (--budget), or loosen the bound."
        )
    out += facts["warnings"]
    if classifier.solution_.stopped == "interrupted":
        out.append(f"Training was interrupted after {facts['steps']:,} steps; the best model so far is judged.")
    if facts["dropped_groups"]:
        out.append(f"Groups left out of the bounds for want of rows: {', '.join(facts['dropped_groups'])}.")
    encoding = facts["encoding"] or {}
    out += [f"Column {name} was dropped: {reason}." for name, reason in encoding.get("dropped", {}).items()]
    return out + group_warnings(rows.groups, split.train)
