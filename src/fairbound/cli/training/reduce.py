"""`fairbound fit --estimator`: a scikit-learn classifier of the user's,
fitted under stated bounds by `fairbound.Reduction`."""

from __future__ import annotations

import ast
import time
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.exceptions import ConvergenceWarning

from fairbound.audits.audit import audit
from fairbound.audits.groups import claim_no_probability
from fairbound.base.errors import DataWarning, OptionError, silenced
from fairbound.base.files import check_not_read
from fairbound.base.own import own_module
from fairbound.cli.bounds import bounds_in_words, bounds_of_texts, check_of_classes
from fairbound.cli.files.older_files import left_by_others
from fairbound.cli.files.outcome import Outcome, csv_file, say, shows_progress, written_audit
from fairbound.cli.judging.audit_facts import add_own_model, data_facts
from fairbound.cli.options.training import FitOptions
from fairbound.cli.training.common import value_in_training
from fairbound.cli.training.rows import rows_of_options
from fairbound.cli.training.splitting import Parts, encoded_parts, split_rows, table_options, tiny_group_warnings
from fairbound.estimators.reducing.plug_in import ExpectedGain
from fairbound.estimators.reducing.reduction_fits import own_threshold
from fairbound.estimators.reduction import Reduction
from fairbound.postprocessing.scoring import CODES, fitted_to, scores_of
from fairbound.rows.labels import CLASSES
from fairbound.rows.weighted import scaled_weights
from fairbound.tables.taking import rows_that_count

NOT_FOR_ESTIMATORS = (
    "model", "algorithm", "objective", "weight_decay", "budget", "batch_size", "certify", "use_groups_at_prediction",
    "group_terms", "chunk_rows", "qid",
)  # fmt: skip
DECISIONS = "decisions.csv"
"""What is written of the decisions, beside the report."""
NOT_SAVED = (
    "No model is saved: a classifier of another library has no form that loads without running code. Decisions of these rows "
    "are in decisions.csv; to decide on new rows, fit in Python with fairbound.Reduction."
)


def fit_reduction(options: FitOptions) -> Outcome:
    """Fit, judge on held-out rows beside the classifier without bounds, and write decisions and report."""
    options.refuse("a classifier of another library", "--estimator", *NOT_FOR_ESTIMATORS)
    estimator = named_classifier(str(options.estimator), options.seed)
    bounds = bounds_of_texts(options.constraint, options.cross)
    check_of_classes(bounds, "fit")
    check_not_read(options.out / DECISIONS, options.data)
    rows = rows_of_options(options, instead=f"without --estimator {CLASSES}")
    rows.check_bounds(bounds)
    of_table = table_options(options)
    parts = encoded_parts(rows, split_rows(rows, options.test_size, options.seed), of_table)
    train, test = parts.split.train, parts.split.test
    for said in parts.identifier_warnings:
        say(said)
    say(
        f"{rows.name}: {type(estimator).__name__} on {rows.counting(train):,} rows under {bounds_in_words(bounds)}; "
        f"{rows.counting(test):,} rows are held out."
    )
    began = time.perf_counter()
    fair = Reduction(
        estimator,
        bounds or None,
        positive=rows.classes[1],
        folds="auto" if options.folds is None else options.folds,
        verbose=int(shows_progress()),
    )
    with silenced(ConvergenceWarning, DataWarning), rows.in_lines_of(train):  # the report says it
        fair.fit(parts.train.features, rows.y[train], rows.groups.take(train), rows.weight_of(train))
    seconds = time.perf_counter() - began
    scores = fair.decision_function(parts.held.features)
    found = _judged(options, bounds, parts, fair, scores, seconds)
    decided = np.asarray(rows.classes, dtype=object)[(scores > 0).astype(int)].tolist()
    decisions = csv_file(
        "row", "decision", "score", lines=zip(rows.places_of(test).tolist(), decided, scores.tolist(), strict=True)
    )
    older = left_by_others(options.out, [DECISIONS])
    return written_audit(found, options.out, seconds, options.seed, {DECISIONS: decisions}, older)


def named_classifier(text: str, seed: int) -> Any:
    """The classifier that `text` names, as "package.module.Class" or "package.module.Class(option=value, ...)" with
    plain values; the seed is its random_state where it has one and the text gives none.

    Raises: OptionError where the text is anything else, or the class is no scikit-learn classifier.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        call = tree if isinstance(tree, ast.Call) else ast.Call(tree, [], [])
        module, _, name = ast.unparse(call.func).rpartition(".")
        given = {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
        if call.args or None in [one.arg for one in call.keywords] or not isinstance(call.func, ast.Attribute):
            raise ValueError
        if not all(part.isidentifier() for part in [*module.split("."), name]):
            raise ValueError
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise OptionError(
            f"--estimator must be a class by its full name, with options of plain values if any, such as "
            f"'sklearn.tree.DecisionTreeClassifier(max_depth=5)', got {text[:100]!r}."
        ) from None
    kind = getattr(own_module(module), name, None)
    if not (isinstance(kind, type) and issubclass(kind, BaseEstimator)):
        raise OptionError(f"--estimator: {module} has no scikit-learn classifier {name!r}.")
    try:
        made = kind(**given)
    except TypeError as error:
        raise OptionError(f"--estimator {text!r}: {error}.") from None
    if not is_classifier(made):
        raise OptionError(f"--estimator: {name} is no classifier.")
    if "random_state" in made.get_params(deep=False) and "random_state" not in given:
        made.set_params(random_state=seed)
    return made


def _judged(
    options: FitOptions, bounds: list[Any], parts: Parts, fair: Reduction, scores: np.ndarray, seconds: float
) -> dict[str, Any]:
    """The audit of the held-out rows, beside the classifier without bounds."""
    rows, train, test = parts.rows, parts.split.train, parts.split.test
    facts, compare = fair.fit_report_, {}
    if options.baseline:
        X, y, _, weight = rows_that_count(parts.train.features, rows.target[train], None, rows.weight_of(train))
        free = fitted_to(fair.estimator, X, y, scaled_weights(weight))
        free_scores = scores_of(free, "auto", parts.held.features, CODES)
        compare["unconstrained"] = free_scores - own_threshold(free)
    found = audit(
        scores,
        **rows.known_of(test),
        constraint=bounds,
        threshold=0.0,
        classes=rows.classes,
        confidence=options.confidence,
        compare=compare,
        **data_facts(rows.name, rows.label, parts.split.words, rows.checksum, rows.counting(train), rows.classes,
                     rows.split_by),
        model={"kind": type(fair.estimator).__name__, "description": f"{options.estimator} under fairbound.Reduction",
               "algorithm": "plug-in" if isinstance(fair.estimator_, ExpectedGain) else "reduction", "seed": options.seed, "seconds": seconds, "steps": facts["fits"]},
        warnings=[*([] if facts["feasible"] else [facts["message"]]), *filter(None, [facts[said] for said in ("shortfall", "nothing_learnt", "known_rows")]), *parts.identifier_warnings, *rows.warnings, *tiny_group_warnings(rows.groups, train, bounds)],
        notes=[*rows.notes, *[value_in_training(c["text"], c["train_value"]) for c in facts["constraints"]], NOT_SAVED],
    )  # fmt: skip
    claim_no_probability(found)
    add_own_model(found, facts)
    return found
