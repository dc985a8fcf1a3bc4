"""`fairbound fit`: train under stated bounds, judge the result on held-out rows, write the model and the report."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fairbound.audits.audit import audit
from fairbound.base.errors import CertificateWarning, DataWarning, OptionError, silenced
from fairbound.base.files import check_writable
from fairbound.base.locks import locked
from fairbound.cli.audited import add_own_model, data_facts
from fairbound.cli.fitted import interrupted, training_facts, written_fit
from fairbound.cli.options import FitOptions, TrainOptions
from fairbound.cli.outcome import LOG, Outcome, say, shows_progress
from fairbound.cli.rows import (
    InputRows,
    Parts,
    Split,
    encoded_parts,
    group_warnings,
    in_lines_of_parts,
    read_rows,
    split_rows,
    table_options,
)
from fairbound.cli.stated import by_class, of_classes_only, of_two_classes, stated_bounds
from fairbound.estimators.certifying import check_certifiable
from fairbound.estimators.classifier import FairClassifier
from fairbound.estimators.fit_report import UNDER_BOUNDS, UNTOLD
from fairbound.estimators.judged_rows import taken
from fairbound.estimators.options import classifier_bounds
from fairbound.fairness.objectives import objective_of
from fairbound.rows.shards import ALONE, Processes, Shards
from fairbound.tables import Encoded


def fit(options: FitOptions) -> Outcome:
    """Train, judge and write; the outcome's exit code is the verdict's, or 130 where an interrupt cut training short.

    Of several processes that train together the first one alone judges and writes; the exit code is 0 then, as torchrun takes another
    for a crash.
    """
    if options.use_groups_at_prediction and not options.constraint:
        raise OptionError("--use-groups-at-prediction needs a bound: state one with --constraint.")
    bounds = stated_bounds(options.constraint, options.cross)
    if options.certify:
        check_certifiable(bounds)
    shards = Processes() if options.distributed else ALONE
    if shards.place:
        LOG.setLevel(logging.WARNING)  # the first process says what happens
        return _fit(options, bounds, shards)
    with locked(check_writable(options.out)):
        return _fit(options, bounds, shards)


def _fit(options: FitOptions, bounds: list, shards: Shards) -> Outcome:
    minimised = objective_of(options.objective)
    grouped = minimised is not None and "groups" in minimised.needs
    compares = grouped or options.group_terms or not of_classes_only(bounds)
    rows = read_rows(options, needs_groups=compares, two_classes=grouped or of_two_classes(bounds))
    under = " and ".join(b.text for b in bounds) or "no bound"
    classifier_bounds(of_options(options, bounds, rows))
    for said in rows.numbering:
        say(said)
    if options.certify:
        say(f"{rows.name}: training on a part of {len(rows.target):,} rows until another part confirms {under}.")
        parts, classifier = train_certified(options, bounds, rows)
        stopped, baseline = interrupted(classifier), classifier.unconstrained_ if options.baseline else None
    else:
        split = split_rows(rows, options.test_size, options.seed)
        parts = encoded_parts(rows, split, options.knots)
        say(f"{rows.name}: training on {len(split.train):,} rows under {under}; {len(split.test):,} rows are held out.")
        classifier = train(options, bounds, parts, shards)
        stopped = interrupted(classifier)
        baseline = train(options, [], parts, shards) if bounds and options.baseline and not stopped else None
        if baseline is not None and interrupted(baseline):
            stopped, baseline = True, None
    if shards.place:
        return Outcome({}, "", 0)
    found = judge(options, bounds, parts, classifier, baseline)
    lines = [] if options.certify else _in_training(bounds, parts, classifier, baseline)
    outcome = written_fit(found, options.out, classifier, rows.checksum, lines, stopped=stopped)
    return outcome if shards.alone or stopped else replace(outcome, exit_code=0)


def train_certified(options: FitOptions, bounds: list, rows: InputRows) -> tuple[Parts, FairClassifier]:
    """The classifier with its certificate, and the rows that confirm it as those held out, read by its encoder."""
    classifier = of_options(options, bounds, rows).set_params(
        certify=options.confidence, on_insufficient=options.on_insufficient
    )
    with silenced(CertificateWarning, DataWarning), in_lines_of_parts(rows):  # the verdict says it
        classifier.fit(rows.X, rows.y, rows.groups if rows.groups.attributes else None, rows.weight)
    held = classifier.certify_rows_
    made = np.setdiff1d(np.arange(len(rows.target)), held)
    assert classifier.encoder_ is not None
    words = f"{len(held) / len(rows.target):.0%} of the rows, kept apart to certify, seed {options.seed}"
    with rows.in_lines_of(held):
        encoded = Encoded.of(classifier.encoder_, taken(rows.X, held))
    return Parts(rows, Split(made, held, words), encoded, encoded), classifier


def _in_training(bounds: list, parts: Parts, classifier: FairClassifier, baseline: FairClassifier | None) -> list[str]:
    """The exact value of every bound on the training rows, with and without it: what training did, beside its verdict."""
    measured = (
        None
        if baseline is None
        else judged_rows(baseline, parts.rows, parts.train, parts.split.train, by_class(bounds))
    )
    out = []
    for i, bound in enumerate(bounds):
        value = classifier.fit_report_["constraints"][i]["train_value"]
        line = f"On the training rows, which the verdict is not about, the value of {bound.text!r} is {value:.4f}"
        if measured is not None:
            value = audit(**measured, constraint=bound)["constraints"][0]["value"]
            line += "" if value is None else f"; without the bound it is {value:.4f}"
        out.append(line + ".")
    return out


def train(options: TrainOptions, bounds: list, parts: Parts, shards: Shards = ALONE) -> FairClassifier:
    """The classifier of these options on the training rows; without bounds, the unconstrained one. shards: the processes that
    train together; each has read all rows and trains on its own part."""
    rows, numbers, table = parts.rows, parts.split.train, parts.train
    classifier = of_options(options, bounds, rows)
    if not shards.alone:
        mine = np.arange(shards.place, len(numbers), shards.count)
        numbers, table = numbers[mine], taken(table, mine)
        classifier.set_params(distributed=True)
    minimised = objective_of(options.objective)
    compares = bounds or options.group_terms or (minimised is not None and "groups" in minimised.needs)
    groups = rows.groups_of(numbers) if compares else None
    with silenced(ConvergenceWarning, DataWarning):  # `reader_warnings` says it
        return classifier.fit(table, rows.y[numbers], groups, rows.weight_of(numbers))


def of_options(options: TrainOptions, bounds: list, rows: InputRows) -> FairClassifier:
    """The classifier that the options name, not fitted yet."""
    return FairClassifier(
        bounds or None,
        model=options.model,
        options=table_options(options.knots),
        algorithm=options.algorithm,
        objective=options.objective,
        budget=options.budget,
        batch_size=options.batch_size,
        positive=rows.classes[1] if len(rows.classes) == 2 else None,
        use_groups_at_prediction=options.use_groups_at_prediction and bool(bounds),
        group_terms=options.group_terms,
        random_state=options.seed,
        progress=shows_progress(),
    )


def judged_rows(
    classifier: FairClassifier, rows: InputRows, encoded: Encoded, numbers: np.ndarray, by_class: bool = False
) -> dict[str, Any]:
    """What `audit` needs of the rows `numbers`: predicted labels where there are more than two classes or `by_class` says so,
    else scores."""
    groups = rows.groups_of(numbers)
    weight = rows.weight_of(numbers)
    facts: dict[str, Any] = {"sensitive_features": groups, "classes": rows.classes, "sample_weight": weight}
    if len(rows.classes) > 2 or by_class:
        return {"scores": classifier.predict(encoded, groups), "y": rows.y[numbers], **facts}
    return {
        "scores": classifier.decision_function(encoded, groups),
        "y": rows.target[numbers],
        "threshold": 0.0,
        **facts,
    }


def judge(
    options: TrainOptions, bounds: list, parts: Parts, classifier: FairClassifier, baseline: FairClassifier | None
) -> dict[str, Any]:
    """The audit of the classifier on the held-out rows, beside the baseline's."""
    rows, split, encoding = parts.rows, parts.split, parts.held.report
    compare = {}
    if baseline is not None:
        compare["unconstrained"] = judged_rows(baseline, rows, parts.held, split.test, by_class(bounds))["scores"]
    facts = classifier.fit_report_
    notes = [*rows.notes, *facts["notes"]]
    notes += [
        f"Held-out rows, column {name}: {count:,} of {encoding.rows:,} have a value unseen or too rare in training."
        for name, count in encoding.unseen.items()
    ]
    found = audit(
        **judged_rows(classifier, rows, parts.held, split.test, by_class(bounds)),
        constraint=bounds,
        confidence=options.confidence,
        compare=compare,
        **data_facts(rows.name, rows.label, split.words, rows.checksum, len(split.train), rows.classes),
        model={
            "kind": options.model,
            "description": f"{options.model} model on {classifier.model_.spec()['features']} features",
            **training_facts(classifier),
        },
        trajectory=classifier.trajectory_,
        warnings=_untold(reader_warnings(rows, split, classifier), facts, baseline),
        notes=notes,
    )
    if facts.get("advice"):
        found["advice"] = facts["advice"]
    add_own_model(found, facts)
    return found


def _untold(said: list[str], facts: dict[str, Any], baseline: FairClassifier | None) -> list[str]:
    """The warnings, where neither model is better than a constant with the reason, which is not the bound."""
    if baseline is None or not (facts["no_better_than_constant"] and baseline.fit_report_["no_better_than_constant"]):
        return said
    return [line.replace(UNDER_BOUNDS, f"The model without the bound is no better: {UNTOLD}") for line in said]


def reader_warnings(rows: InputRows, split: Split, classifier: FairClassifier) -> list[str]:
    """What a reader must know before trusting the verdict."""
    facts, out = classifier.fit_report_, []
    if facts["constraints"] and not facts["feasible"]:
        out.append(facts["message"][0].upper() + facts["message"][1:])
        for stated in facts["constraints"]:
            under = stated.get("trained_under", stated["text"])
            curve = [v for v in classifier.trajectory_["constraints"].get(under, ()) if v is not None]
            floor = stated["sense"] == "at least"
            if curve and (max(curve) < stated["bound"] if floor else min(curve) > stated["bound"]):
                best = (
                    f"largest value reached on the training rows was {max(curve):.4g}"
                    if floor
                    else (f"smallest value reached on the training rows was {min(curve):.4g}")
                )
                out.append(f"{stated['text']}: the {best}.")
    out += facts["warnings"]
    if interrupted(classifier):
        out.append(f"Training was interrupted after {facts['steps']:,} steps; the best model so far is judged.")
    if facts["dropped_groups"]:
        out.append(f"Groups left out of the bounds for want of rows: {', '.join(facts['dropped_groups'])}.")
    return out + rows.numbering + group_warnings(rows.groups, split.train)
