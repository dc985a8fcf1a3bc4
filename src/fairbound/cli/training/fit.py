"""`fairbound fit`: train under stated bounds, judge the result on held-out rows, write the model and the report."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fairbound.base.checks import amount
from fairbound.base.errors import DataWarning, OptionError, silenced
from fairbound.cli.bounds import bounds_of_texts, by_class, check_of_classes, of_classes_only, of_two_classes
from fairbound.cli.files.outcome import LOG, Outcome, say
from fairbound.cli.files.saved_model import interrupted
from fairbound.cli.judging.audit_facts import beside_verdicts
from fairbound.cli.options.training import FitOptions, TrainOptions
from fairbound.cli.training.common import FittedPair, held_out, judged, parameters, reported, trained
from fairbound.cli.training.rows import InputRows, in_lines_of_parts, rows_of_options
from fairbound.cli.training.splitting import Parts, Split, encoded_parts, tiny_group_warnings
from fairbound.estimators.certificates.certifying import check_certifiable
from fairbound.estimators.choosing import penalises_groups, without_bounds
from fairbound.estimators.classifier import FairClassifier
from fairbound.estimators.facts.fit_report import BEND, WITHOUT_BOUNDS
from fairbound.estimators.parameter_checks import classifier_bounds
from fairbound.estimators.training_rows import at_once, encoder_options
from fairbound.fairness.few_rows import dropped_words_of_groups
from fairbound.fairness.objectives import objective_of
from fairbound.rows.shards import ALONE, Processes, Shards
from fairbound.tables import Encoded
from fairbound.tables.taking import taken

IN_PARTS = (
    "The file was read in parts (--chunk-rows), so the model is straight in every number: it may differ from that of the file "
    "read whole, in which numbers bend where labels ask for it."
)


def run_fit(options: FitOptions) -> Outcome:
    """Train, judge and write; the outcome's exit code is the verdict's, or 130 where an interrupt cut training short.

    Of several processes that train together the first one alone judges and writes; the exit code is 0 then, as torchrun
    takes another for a crash.
    """
    if options.use_groups_at_prediction and not options.constraint:
        raise OptionError("--use-groups-at-prediction needs a bound: state one with --constraint.")
    bounds = bounds_of_texts(options.constraint, options.cross)
    check_of_classes(bounds, "fit")
    if options.certify:
        check_certifiable(bounds)
    shards = Processes() if options.distributed else ALONE
    if shards.place:
        LOG.setLevel(logging.WARNING)  # the first process says what happens
    minimised = objective_of(options.objective)
    grouped = minimised is not None and "groups" in minimised.needs
    compares = grouped or options.group_terms or not of_classes_only(bounds)
    rows = rows_of_options(options, needs_groups=compares, two_classes=grouped or of_two_classes(bounds))
    classifier_bounds(of_options(options, bounds, rows))
    rows.check_bounds(bounds)
    split = held_out(options, rows)
    parts = None if split is None else encoded(options, rows, split, shards)
    for said in parts.identifier_warnings if parts else ():
        say(said)

    def fitted(_: np.ndarray, stated: list, certify: float) -> FairClassifier:
        if parts is None:
            return train_certified(options, stated, rows, certify)
        return train(options, stated, parts, shards, beside=bool(bounds) and not stated)

    done = trained(options, bounds, rows, split, fitted)
    if shards.place:
        return Outcome({}, "", 0)
    parts = parts or certified_parts(rows, done)
    found = judge(options, bounds, parts, done)
    of_training = partial(
        judged_rows, rows=rows, encoded=parts.train, numbers=parts.split.train, by_class=by_class(bounds)
    )
    outcome = reported(options, bounds, rows, done, found, of_training)
    return outcome if shards.alone or done.stopped else replace(outcome, exit_code=0)


def encoded(options: TrainOptions, rows: InputRows, split: Split, shards: Shards = ALONE) -> Parts:
    """The parts of `split` as the features of a classifier of these options."""
    made = of_options(options, [], rows)
    of_table = encoder_options(made, rows.X, rows.target[split.train], shards)
    with silenced(DataWarning):  # the report says it
        return encoded_parts(rows, split, of_table, at_once(made.model, made.algorithm))


def train_certified(options: FitOptions, bounds: list, rows: InputRows, confidence: float) -> FairClassifier:
    """The classifier of all rows with its certificate."""
    classifier = of_options(options, bounds, rows)
    classifier.set_params(certify=confidence, on_insufficient=options.on_insufficient)
    with silenced(DataWarning), in_lines_of_parts(rows):  # the verdict says it
        return classifier.fit(rows.X, rows.y, rows.groups if rows.groups.attributes else None, rows.weight)


def certified_parts(rows: InputRows, done: FittedPair) -> Parts:
    """The rows that confirm a certificate as those held out, read by its classifier's encoder."""
    held, encoder = done.split.test, done.model.encoder_
    with rows.in_lines_of(held):
        encoded = Encoded.of(encoder, taken(rows.X, held))
    return Parts(rows, done.split, encoded, encoded)


def train(
    options: TrainOptions, bounds: list, parts: Parts, shards: Shards = ALONE, *, beside: bool = False
) -> FairClassifier:
    """The classifier of these options on the training rows. shards: the processes that train together; each has read all
    rows and trains on its own part. beside: as in `of_options`."""
    rows, numbers, table = parts.rows, parts.split.train, parts.train
    classifier = of_options(options, bounds, rows, beside)
    if not shards.alone:
        mine = np.arange(shards.place, len(numbers), shards.count)
        numbers, table = numbers[mine], taken(table, mine)
        classifier.set_params(distributed=True)
    minimised = objective_of(options.objective)
    compares = options.group_terms or (minimised is not None and "groups" in minimised.needs)
    groups = rows.groups_of(numbers) if bounds or compares or penalises_groups(classifier.algorithm) else None
    with silenced(ConvergenceWarning, DataWarning):  # `reader_warnings` says it
        return classifier.fit(table, rows.y[numbers], groups, rows.weight_of(numbers))


def of_options(options: TrainOptions, bounds: list, rows: InputRows, beside: bool = False) -> FairClassifier:
    """The classifier that the options name, not fitted yet. beside: whether it is the one without bounds that another is
    compared with."""
    return FairClassifier(
        bounds or None,
        **(parameters(options) | ({"algorithm": without_bounds(options.algorithm)} if beside else {})),
        objective=options.objective,
        weight_decay=amount("weight_decay", options.weight_decay),
        batch_size=options.batch_size,
        positive=rows.classes[1] if len(rows.classes) == 2 else None,
        use_groups_at_prediction=options.use_groups_at_prediction and bool(bounds),
        group_terms=options.group_terms,
    )


def judged_rows(
    classifier: FairClassifier, rows: InputRows, encoded: Encoded, numbers: np.ndarray, by_class: bool = False
) -> dict[str, Any]:
    """What `audit` needs of the rows `numbers`: predicted labels where there are more than two classes or `by_class`
    says so, else scores."""
    facts = rows.known_of(numbers) | {"classes": rows.classes}
    groups = facts["sensitive_features"]
    if len(rows.classes) > 2 or by_class:
        return facts | {"scores": classifier.predict(encoded, groups), "y": rows.y[numbers]}
    return facts | {"scores": classifier.decision_function(encoded, groups), "threshold": 0.0}


def judge(options: TrainOptions, bounds: list, parts: Parts, done: FittedPair) -> dict[str, Any]:
    """The audit of the classifier on the held-out rows, beside the baseline's."""
    rows, split, encoding = parts.rows, parts.split, parts.held.report
    facts = done.model.fit_report_
    found = judged(
        options,
        bounds,
        rows,
        done,
        partial(judged_rows, rows=rows, encoded=parts.held, numbers=split.test, by_class=by_class(bounds)),
        about=f"{options.model} model on {done.model.model_.spec()['features']} features",
        warnings=_with_reason(reader_warnings(rows, split, done.model, bounds), facts, done.free),
        notes=[
            f"Held-out rows, column {name}: {count:,} of {encoding.rows:,} have a value unseen or too rare in training."
            for name, count in encoding.unseen.items()
        ]
        + ([IN_PARTS] if options.chunk_rows is not None else []),
    )
    if facts.get("advice"):
        found["advice"] = beside_verdicts(facts["advice"], found)
    return found


def _with_reason(said: list[str], facts: dict[str, Any], baseline: FairClassifier | None) -> list[str]:
    """The warnings, where neither model is better than a constant with the reason, which is not the bound."""
    if baseline is None or not (facts["no_better_than_constant"] and baseline.fit_report_["no_better_than_constant"]):
        return said
    if (may_help := facts["what_may_help"]) is None:
        return said
    more = f"The model without the bound is no better: {WITHOUT_BOUNDS.format(BEND)}"
    return [line.replace(may_help, more) for line in said]


def reader_warnings(rows: InputRows, split: Split, classifier: FairClassifier, bounds: Sequence[Any]) -> list[str]:
    """What a reader must know before trusting the verdict."""
    facts, out = classifier.fit_report_, []
    if facts["constraints"] and not facts["feasible"]:
        out.append(facts["message"][0].upper() + facts["message"][1:])
        together = len(facts["constraints"]) > 1
        if together:
            out.append("No model that was tried met the bounds together; one of them by itself may be met.")
        tried = "any model tried under all bounds together" if together else "any model tried"
        for stated in facts["constraints"]:
            under = stated.get("trained_under", stated["text"])
            curve = [v for v in classifier.trajectory_["constraints"].get(under, ()) if v is not None]
            floor = stated["sense"] == "at least"
            if curve and (max(curve) < stated["bound"] if floor else min(curve) > stated["bound"]):
                which, best = ("largest", max(curve)) if floor else ("smallest", min(curve))
                out.append(f"{stated['text']}: on the training rows the {which} value of {tried} is {best:.4g}.")
    out += facts["warnings"]
    if interrupted(classifier):
        out.append(f"Training was interrupted after {facts['steps']:,} steps; the best model so far is judged.")
    left_out = dropped_words_of_groups(facts["dropped_groups"], facts.get("dropped_rows", {}))
    out += [said[0].upper() + said[1:] for said in left_out]
    return out + tiny_group_warnings(rows.groups, split.train, bounds)
