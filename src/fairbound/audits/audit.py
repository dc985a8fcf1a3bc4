"""`audit`, the verdict on stated bounds from held-out rows: values, simultaneous confidence bounds, as plain data.

For every stated bound the true metric is measured on rows the model has not seen. The bound is *met* where even the
upper confidence bound of the metric is within it, *violated* where even the lower one is above it, and else there is
*not enough evidence*; then the number of rows that would decide is given. With s stated bounds each is judged at level
(1 - confidence) / s, and all contrasts of a bound at once, so that the chance of any wrong verdict is at most
1 - confidence.

Source: Newcombe (1998), Clopper and Pearson (1934), as set out in `fairbound.confidence.contrasts`; Berger (1982),
    Multiparameter hypothesis testing and acceptance sampling, for `together=False`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from fairbound.audits.assembling import assembled, facts_of_data
from fairbound.audits.classes import class_facts
from fairbound.audits.decisions import SAID, check_decisions_alone, decisions_alone
from fairbound.audits.groups import claim_no_probability, claim_no_ranking, group_facts
from fairbound.audits.numbers import number_facts
from fairbound.audits.power import check_power, words_of_power
from fairbound.audits.rankings import ranking_facts
from fairbound.base.checks import check_confidence
from fairbound.base.errors import DataError, OptionError
from fairbound.base.names import seen
from fairbound.base.verdicts import of_each
from fairbound.fairness.bound import check_clustered, check_groups
from fairbound.fairness.notions import Bound, constraints
from fairbound.fairness.notions.regression import PredictionBound
from fairbound.fairness.predictions import more_than_two, read_numbers, read_predictions, speak_of_labels
from fairbound.fairness.scored import Scored
from fairbound.rows.clusters import cluster_codes, facts_of_clusters, words_of_clusters
from fairbound.rows.doubtful import own_label_words
from fairbound.rows.groups import Groups, label_text
from fairbound.rows.labels import as_decisions, class_tuple, two_valued
from fairbound.rows.queries import query_codes
from fairbound.rows.reading import check_rows, column_array, read_weights, warn_of_order
from fairbound.rows.scores import (
    DECISIONS,
    decided_scores,
    refuse_decisions,
    said_of_scores,
    tell_probabilities,
    usual_threshold,
)
from fairbound.rows.weighted import kish_size, scaled_weights, uneven_words, without_weight_0

EFFECTIVE = "By their weights the {:,} rows tell as much of a mean as {:,.1f} rows of equal weight would."
NO_POSITIVE = "positive= names the label of positive decisions, of which this audit knows none; leave it out."


def audit(
    scores: Any,
    y: Any,
    sensitive_features: Any = None,
    constraint: str | Bound | Sequence[str | Bound] | None = None,
    *,
    classes: Sequence[Any] | int | None = None,
    positive: Any = None,
    threshold: float | None = None,
    confidence: float = 0.95,
    together: bool = True,
    power: float = 0.5,
    sample_weight: Any = None,
    clusters: Any = None,
    qid: Any = None,
    title: str | None = None,
    data: Mapping[str, Any] | None = None,
    model: Mapping[str, Any] | None = None,
    compare: Mapping[str, Any] | None = None,
    trajectory: Mapping[str, Any] | None = None,
    warnings: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """Judge scores or decisions on held-out rows under stated bounds: a verdict with confidence bounds, as plain data.
    What is judged comes first, the true labels second; scikit-learn's metrics take them the other way round, and two
    columns of hard labels in the wrong order cannot be told.

        found = fb.audit(scores, y, sex, "demographic_parity <= 0.05", threshold=0)
        print(fb.report.table(found))

    scores: (n,) decisions, probabilities or real scores; of more than two classes the predicted labels (n,) or scores
        (n, k); under bounds on predicted numbers these numbers.
    y: (n,) in {0, 1}, or of two other values, or the classes, or numbers. None judges the decisions alone, by bounds on
        the shares selected; scores may then be two words, such as approved and denied.
    sensitive_features: (n,) or (n, a) groups, a dict or table of columns; None without bounds on groups. Pass the
        training Groups' `encode` of these rows to have a group without any row reported.
    constraint: stated bounds, as text or objects; None only measures the groups.
    threshold: where a positive decision begins, in the units of the scores (0 for real scores of a classifier).
    positive: of two labels the one that large scores speak of; None for the greater one.
    classes: the k labels, in the order of the scores' columns, or k where they are 0 to k - 1; of two the
        negative one first. For y in {0, 1} what 0 and 1 mean.
    confidence: in (0.5, 1), of the limits of all stated bounds together.
    together: False for limits of each bound by itself, as of a certificate. That all bounds are met is then still said
        wrongly with probability 1 - confidence at most, as it takes a bound that is not (Berger, 1982); the limits do
        not hold all at once, and that some bound is violated is said wrongly more often.
    power: in [0.5, 1), with what probability `rows_needed` rows decide, if what was measured is the truth.
    sample_weight: (n,) >= 0; bounds then use effective numbers of rows.
    clusters: (n,) which rows belong together, such as the person that each is of: limits then take persons, not rows,
        for independent (docs/intervals.md). A row whose cluster is missing is by itself.
    qid: (n,) the query of each row, for an audit of a ranking: scores order the documents of a query, y >= 0 is their
        relevance (docs/ranking.md).
    compare: name -> (n,) scores of other models.
    title, data, model, trajectory, warnings, notes: facts for the report (docs/audit-schema.md).
    Returns: a dict of the schema "fairbound.audit/1", with "verdict" ("met", "violated", "insufficient") and
        "exit_code" (0 met or no bound stated, 1 violated, 3 insufficient).
    Raises: DataError for unusable input, OptionError for options out of range.
    """
    check_confidence(confidence)
    bounds = constraints(constraint)
    check_power(power, bounds)
    _check_columns(scores, y, sensitive_features, sample_weight, clusters, qid, compare)
    classes = None if classes is None else class_tuple(classes)
    rows = sample_weight, scores, y, sensitive_features, clusters, _compared(compare)
    (sample_weight, scores, y, sensitive_features, clusters, compare), left, uneven = _counted(qid, *rows)
    if positive is not None and (qid is not None or any(b.needs & {"classes", "predictions"} for b in bounds)):
        raise OptionError(NO_POSITIVE)
    data = {**(data or {}), **({} if sample_weight is None else {"weighted": True})}
    if not (outcomes := y is not None):
        check_decisions_alone(bounds, qid)
        scores, y, classes, data = decisions_alone(scores, threshold, classes, positive, data)
        positive, notes = None, [*notes, SAID]
    given = Given(
        scores, y, sensitive_features, classes, positive, threshold, confidence, sample_weight, compare,
        _together(clusters, y, bounds, qid), outcomes, power,
    )  # fmt: skip
    named = data.pop("clusters", {}).get("column", getattr(clusters, "name", None))
    facts = _judged(given, qid, bounds, together, data | facts_of_clusters(given.clusters, named))
    warnings, notes = [*uneven, *warnings], [*notes, *left, *words_of_clusters(given.clusters), *words_of_power(power)]
    return assembled(facts, title, bounds, model=model, trajectory=trajectory, warnings=warnings, notes=notes)


def _check_columns(
    scores: Any, y: Any, sensitive_features: Any, sample_weight: Any, clusters: Any, qid: Any, compare: Any
) -> None:
    """What `audit` is given of the rows, by its names. Raises: DataError as `check_rows`. Warns: as `warn_of_order`."""
    check_rows(**{"scores": scores, "the labels y": y} if y is not None else {"scores": scores})
    others = {"sample_weight": sample_weight, "clusters": clusters, "qid": qid, "compare": compare}
    warn_of_order(scores=scores, y=y, sensitive_features=sensitive_features, **others)


def _compared(compare: Any) -> Mapping[str, Any]:
    """The scores of other models by name. Raises: OptionError for what is no mapping."""
    if compare is not None and not isinstance(compare, Mapping):
        raise OptionError("compare must be a mapping of names to scores, such as {'other model': scores}.")
    return compare or {}


def _counted(qid: Any, sample_weight: Any, *columns: Any) -> tuple[tuple[Any, ...], list[str], list[str]]:
    """`scaled_weights` and columns of the rows with a weight above 0, what is said of others, and `uneven_words`. A ranking
    takes no weights."""
    if qid is not None or sample_weight is None:
        return (sample_weight, *columns), [], []
    weight, *kept = without_weight_0(sample_weight, *columns)
    n, left = len(sample_weight), len(weight)
    words = [f"{n - left:,} of {n:,} rows have the weight 0 and are left out."] if left < n else []
    known = read_weights(weight, len(kept[0]))
    return (scaled_weights(known), *kept), words, uneven_words(known)


def _together(clusters: Any, y: Any, bounds: Sequence[Bound], qid: Any) -> np.ndarray | None:
    """(n,) the clusters as numbers, None where none has two rows.
    Raises: OptionError where no verdict heeds them, DataError for another shape."""
    if clusters is None:
        return None
    if qid is not None:
        raise OptionError("an audit of a ranking takes queries for independent, and no clusters; leave clusters out.")
    together = cluster_codes(clusters, len(y))
    if together is not None:
        check_clustered(bounds)
    return together


class Given(NamedTuple):
    """What `audit` is given of the rows, by its names. sample_weight: (n,) over their mean, None for equal ones; of a ranking
    as given. outcomes: whether there are labels; else y is the decisions."""

    scores: Any
    y: Any
    sensitive_features: Any
    classes: Sequence[Any] | None
    positive: Any
    threshold: float | None
    confidence: float
    sample_weight: Any
    compare: Mapping[str, Any]
    clusters: np.ndarray | None
    outcomes: bool
    power: float


def _judged(given: Given, qid: Any, bounds: tuple[Bound, ...], together: bool, data: Mapping[str, Any]) -> Any:
    """`_facts_of`, at the level that the bounds share, or that each has alone."""
    alpha = (1 - given.confidence) / (max(len(bounds), 1) if together else 1)
    facts = _facts_of(given, qid, bounds, alpha, data)
    if not together:
        facts["constraints"] = [{**c, "method": of_each(c["method"])} for c in facts["constraints"]]
    if given.sample_weight is not None:
        effective = EFFECTIVE.format(len(given.sample_weight), kish_size(given.sample_weight))
        facts["notes"] = [*facts.get("notes", ()), effective]
    return facts


def _facts_of(given: Given, qid: Any, bounds: tuple[Bound, ...], alpha: float, data: Mapping[str, Any]) -> Any:
    """The findings of rankings, of predicted numbers, of more than two classes, or of decisions between two."""
    if qid is not None:
        return _ranking_facts(given, qid, bounds, alpha, data)
    if any("predictions" in b.needs for b in bounds):
        return _number_facts(given, bounds, alpha, data)
    classes = given.outcomes and given.positive is None
    if classes and _of_classes(given.scores, given.y, given.classes, given.sensitive_features, bounds):
        return _class_facts(given, bounds, alpha, data)
    return _group_facts(given, bounds, alpha, data)


def _ranking_facts(
    given: Given, qid: Any, bounds: tuple[Bound, ...], alpha: float, data: Mapping[str, Any]
) -> dict[str, Any]:
    """The facts of an audit of a ranking; qid: (n,) the query of each row."""
    if given.sample_weight is not None or given.threshold is not None or given.classes is not None:
        raise OptionError("an audit of a ranking takes no sample_weight, threshold or classes.")
    groups = given.sensitive_features
    found = ranking_facts(given.scores, given.y, qid, groups, given.compare, bounds, alpha, given.confidence)
    facts = {"label": "relevance", "positive": None, **data}
    about = facts_of_data(Groups.of_rows(groups, len(given.y)), facts)
    return {"data": about | {"queries": len(np.unique(query_codes(qid)[0]))}, **found}


def _class_facts(given: Given, bounds: tuple[Bound, ...], alpha: float, data: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of an audit of predicted labels, or of a score per class."""
    for bound in bounds:
        if bound.needs & {"two classes", "scores"}:
            raise OptionError(f"{bound.text!r} cannot be judged beside bounds on every class; audit it by itself.")
    rows, others = _scored(given, bounds, lambda scores: read_predictions(scores, given.y, given.classes))
    about = facts_of_data(rows.groups, {"positive": None, **data, "classes": list(rows.classes)})
    found = class_facts(rows, others, bounds, alpha, about["label"])
    found["warnings"] += own_label_words(rows.groups, rows.target)
    return {"data": about, **found}


def _number_facts(given: Given, bounds: tuple[Bound, ...], alpha: float, data: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of an audit of predicted numbers."""
    for bound in bounds:
        if "predictions" not in bound.needs:
            raise OptionError(
                f"{bound.text!r} speaks of decisions, and others of predicted numbers; audit it by itself."
            )
    rows, others = _scored(given, bounds, lambda predictions: read_numbers(predictions, given.y))
    about = facts_of_data(rows.groups, {**data, "positive": None})
    of_numbers = cast("tuple[PredictionBound, ...]", bounds)
    return {"data": about, **number_facts(rows, others, of_numbers, alpha)}


def _scored(given: Given, bounds: Sequence[Bound], read: Callable[[Any], Scored]) -> tuple[Scored, dict[str, Scored]]:
    """What was predicted for the rows, by the model and by those that it is compared with;
    read: of the predictions of one."""
    groups = compared_groups(given, bounds, len(given.y))
    rows, *others = (
        replace(
            read(one),
            weight=given.sample_weight,
            confidence=given.confidence,
            groups=groups,
            clusters=given.clusters,
            power=given.power,
        )
        for one in (given.scores, *given.compare.values())
    )
    return rows, dict(zip(given.compare, others, strict=True))


def compared_groups(given: Given, bounds: Sequence[Bound], n: int) -> Groups:
    """The groups of the n rows. Raises: DataError where a bound compares them and none are given, or n differs."""
    check_groups(bounds, given.sensitive_features)
    return Groups.of_rows(given.sensitive_features, n)


def _group_facts(given: Given, bounds: tuple[Bound, ...], alpha: float, data: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of an audit of one score per row."""
    known = given.classes if given.classes is not None and len(given.classes) == 2 else None
    target, meant = two_valued(given.y, len(column_array("y", given.y)), known, given.positive)
    s, decided, words = decided_scores(as_decisions(given.scores, meant), given.threshold)
    n = len(s)
    if n != len(target):
        raise DataError(f"y must have shape ({n},), one label for each score, got ({len(target)},).")
    groups = compared_groups(given, bounds, n)
    needs_scores = any("scores" in b.needs for b in bounds)
    on_losses = any(b.judged_from == "losses" for b in bounds)
    if needs_scores:
        refuse_decisions(words, on_losses=on_losses)
    others = {
        name: _read_compared(name, as_decisions(other, meant), given.threshold, n, needs_scores)
        for name, other in given.compare.items()
    }
    means = given.classes or meant or ("0", "1")
    labels = tuple(str(label_text(v)) for v in means)
    said = [] if given.threshold is not None else [words if meant is None else said_of_scores(words, meant[1])]
    if meant is not None and given.classes is None and given.positive is None:
        said.append(f"Of the labels {labels[0]} and {labels[1]}, {labels[1]} is taken as positive.")
    if meant is not None or given.classes is not None:
        data = {"positive": labels[1], **data}

    def scored(logits: np.ndarray, decided: np.ndarray) -> Scored:
        return Scored(
            target,
            decided,
            labels,
            logits,
            groups,
            given.sample_weight,
            given.confidence,
            clusters=given.clusters,
            power=given.power,
        )

    found = group_facts(
        scored(s, decided), {name: scored(*other) for name, other in others.items()}, bounds, alpha, given.outcomes
    )
    if not tell_probabilities(words):
        claim_no_probability(found)
    found["warnings"] += _turned_round(found["metrics"].get("auc"), target, labels, words == DECISIONS)
    if words == DECISIONS:
        claim_no_ranking(found)
    if given.outcomes:
        found["warnings"] += [*_one_label(target, labels), *own_label_words(groups, target)]
    if given.threshold == 0 and not np.isin(s, (0, 1)).all() and usual_threshold(s) == 0.5:
        rows = "every row" if s.min() > 0 else "every row above 0"
        found["warnings"].append(
            f"All scores lie in [0, 1], so threshold=0 selects {rows}; did you mean threshold=0.5?"
        )
    return {"data": facts_of_data(groups, data), "notes": said, **found}


def _one_label(target: np.ndarray, labels: tuple[str, ...]) -> list[str]:
    """A warning where all rows (n,) have one label."""
    known = np.unique(target)
    if len(known) > 1:
        return []
    rows = "The one row has" if len(target) == 1 else f"All {len(target):,} rows have"
    return [
        f"{rows} the label {labels[int(known[0])]}: what needs the other one is not measured. Check the label "
        "column or the filter."
    ]


def _turned_round(
    area: float | None, target: np.ndarray, labels: tuple[str, ...], decisions: bool = False
) -> list[str]:
    """A warning where the scores rank the negative label above the positive one, far more than by chance. decisions:
    whether they are decisions, whose area nobody is told.

    The area under scores that say nothing has the variance (n + 1) / (12 n0 n1): Mann and Whitney (1947).
    """
    negatives, positives = np.bincount(target, minlength=2).tolist()
    if area is None or area > 0.5 - max(0.1, 4 * math.sqrt((len(target) + 1) / (12 * negatives * positives))):
        return []
    if decisions:
        return [
            f"Rows of {labels[0]} are decided positive far more often than rows of {labels[1]}, which is taken as positive. Are the "
            "decisions turned round? Where they are labels, give them as such; else name the other label as positive "
            "(--positive; in Python positive= or the labels y)."
        ]
    other, taken = map(seen, labels)
    asked = f" Did you mean {other} (--positive; in Python positive= or the labels y)?" if labels[0].strip() else ""
    return [
        f"The AUC is {area:.3f}, far below 0.5: the scores are higher for {other} than for {taken}, which is taken as positive.{asked}"
    ]


def _of_classes(
    scores: Any, y: Any, classes: Sequence[Any] | None, sensitive_features: Any, bounds: Sequence[Bound]
) -> bool:
    """Whether this is an audit of labels or of a score per class, rather than of one score that says 1 or 0."""
    if any("classes" in b.needs for b in bounds):
        return True
    if any("groups" in b.needs for b in bounds):
        return False
    if sensitive_features is not None and not bounds:
        return more_than_two(scores, classes)
    return speak_of_labels(scores, y, classes)


def _read_compared(
    name: str, scores: Any, threshold: float | None, rows: int, needs_scores: bool
) -> tuple[np.ndarray, np.ndarray]:
    s, decided, words = decided_scores(scores, threshold)
    if needs_scores:
        refuse_decisions(words, f"the compared scores {name!r}")
    if len(s) != rows:
        raise DataError(f"the compared scores {name!r} have {len(s)} rows, the audit {rows}.")
    return s, decided
