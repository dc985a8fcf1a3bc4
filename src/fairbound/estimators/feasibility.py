"""Before a long run: the smallest violation that can be reached, what each bound costs,
and what more rows would decide."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairbound.base.checks import check_confidence
from fairbound.base.errors import OptionError
from fairbound.base.seeds import seed_for
from fairbound.base.verdicts import about, direction, left_out, odds, of_left_out, scarce
from fairbound.estimators.certificates.frontier import frontier
from fairbound.estimators.certificates.judged_models import Judged, excess, judged
from fairbound.estimators.classifier import FairClassifier
from fairbound.estimators.conventions import seed_of
from fairbound.estimators.judged_rows import LabelledRows
from fairbound.estimators.knee import said_of, sure_knee
from fairbound.estimators.parameter_checks import classifier_bounds
from fairbound.estimators.trained import hardly_better_than_constant, rows_alike
from fairbound.fairness.bound import Bound, check_judged
from fairbound.fairness.few_rows import without_few_rows
from fairbound.fairness.notions import constraints
from fairbound.fairness.scored import Scored
from fairbound.rows.doubtful import unknown_groups
from fairbound.rows.split import stratified_split

LOG = logging.getLogger("fairbound.feasibility")

KEPT = (1.0, 0.7, 0.5, 0.35, 0.2, 0.1, 0.02)
"""Shares of what the model without bounds leaves free that the bounds along the curve keep."""

MORE = 1000

LITTLE = ": the features tell too little of the label."
LOOSEN = "; loosen the bound for one that tells rows apart."
"""What follows of a model that decides nearly all rows alike, where it is the one without bounds, and where it was trained under one."""

SHOWN = 0.00005
"""The smallest number that is not printed as 0."""


def feasibility(
    constraint: str | Bound | Sequence[str | Bound],
    X: Any,
    y: Any,
    sensitive_features: Any = None,
    sample_weight: Any = None,
    *,
    confidence: float = 0.95,
    **options: Any,
) -> dict[str, Any]:
    """What one bound costs and whether these rows could confirm it, before a long run.

    A model is trained without the bound on half of the rows, then under tighter and tighter ones, and judged on the
    other half. No entry is a certificate, as the best of many intervals is too good: `FairClassifier(certify=True)`
    gives one.

    constraint: one bound (or a list of one). Other arguments: as in `FairClassifier.fit`.
    options: those of FairClassifier, such as model or objective.
    Returns: plain data.
        "curve": one entry per model from loose to tight: `trained_under`, `value`, `lower`, `upper`, `accuracy`,
        `cost` (what `objective` minimises), `certified` (whether its interval lies within the stated bound), `constant`
        (whether it decides all held-out rows alike, or nearly all and hardly more of them rightly than one that does),
        `alike` (how many rows have its most frequent decision).
        "smallest": the entry of the smallest value. "knee": the one from which on a tighter bound costs much (farthest
        above the line between the ends), None where that may be chance. "cheapest": the least costly one whose interval
        lies within the bound, or None.
        "more_rows": for each group how much lower the confidence bound of the cheapest (of none: of the smallest)
        would be with 1,000 more held-out rows of it, where rates alone are bounded. "said": all this in words. "warnings": rows whose group is missing.
        Where `fewest` or `empty=drop` leaves groups out on these rows, also what an audit says of them
        (docs/audit-schema.md): "left_out" and the like.
    Each model is logged at INFO as it is done.
    """
    bounds = constraints(constraint)
    if len(bounds) != 1:
        raise OptionError(f"feasibility asks about one bound, got {len(bounds)}; ask about each by itself.")
    stated = bounds[0]
    check_judged(bounds)
    check_confidence(confidence)
    if unknown := sorted(set(options) - set(FairClassifier().get_params())):
        raise OptionError(f"FairClassifier has no parameter {unknown[0]!r}, so feasibility takes none.")
    classifier = FairClassifier(stated, **options)
    classifier_bounds(classifier)
    rows = LabelledRows.of(classifier, X, y, sensitive_features, sample_weight)
    strata = np.column_stack([rows.codes, rows.groups.codes])
    seed = seed_of(classifier.random_state)
    classifier.set_params(random_state=seed)
    train, held = (rows.take(part) for part in stratified_split(strata, [0.5], seed_for("feasibility", root=seed)))

    def judge(model: Any) -> Judged:
        one = judged(model, [held], [stated], 1 - confidence, classifier.objective)
        under = "".join(f"under {fact['text']}" for fact in model.fit_report_["constraints"])
        LOG.info(f"trained {under or 'without a bound'}: accuracy {one.measured:.4f} on the held-out rows")
        return one

    found = [judge(model) for model in frontier(classifier, train, [()])]
    stages = [(bound,) for bound in _bounds(stated, found[0].findings[0]["value"])]
    found += [judge(model) for model in frontier(classifier, train, stages, found[0].model)]
    scored = [held.scored(one.model, confidence) for one in found]
    curve = [_entry(one, rows) for one, rows in zip(found, scored, strict=True)]
    order = sorted(range(len(found)), key=lambda i: excess(found[i], [stated]))
    inside = [i for i in order if curve[i]["certified"]]
    cheapest = min(inside, key=lambda i: found[i].cost, default=None)
    chosen = order[0] if cheapest is None else cheapest
    more = more_rows(scored[chosen], stated, 1 - confidence)
    wrong = np.stack([rows.wrong for rows in scored])
    bent = sure_knee(curve, "trained_under", stated.sense, wrong, held.weight)
    out = {
        "bound": stated.text,
        "confidence": confidence,
        "rows": {"train": len(train), "held": len(held)},
        "curve": curve,
        "smallest": curve[order[0]],
        "knee": None if bent.at is None else curve[bent.at],
        "cheapest": None if cheapest is None else curve[cheapest],
        "rows_needed": found[chosen].findings[0]["rows_needed"],
        "more_rows": more,
        "warnings": unknown_groups(rows.groups.unknown(), len(rows)),
        **of_left_out(found[0].findings[0]),
    }
    return {**out, "said": _said(out, stated, bent.flat, _too_few(found[chosen].findings[0], stated))}


def _too_few(finding: dict[str, Any], stated: Bound) -> str:
    """`scarce`, and the bound that leaves such groups out, where that can be said."""
    said, without = scarce(finding), without_few_rows(stated, np.array(list(finding["groups"].values())))
    return f"{said[:-1]}, or leave groups of so few rows out ({without})." if said and without else said


def _bounds(stated: Bound, free: float | None) -> list[Bound]:
    """The bounds along the curve, from loose to tight, with the stated one among them."""
    least = stated.sense == "at least"
    room = (1 - (stated.stated if free is None else free)) if least else (stated.stated if free is None else free)
    numbers = {round(1 - k * room if least else k * room, 5) for k in KEPT[1:]} | {stated.stated}
    loose = sorted(numbers, reverse=not least)
    return [stated.at(number) for number in loose]


def _entry(one: Judged, rows: Scored) -> dict[str, Any]:
    facts = one.model.fit_report_["constraints"]
    found, alike = one.findings[0], int(np.bincount(rows.predicted).max())
    return {
        "trained_under": facts[0]["bound"] if facts else None,
        "value": found["value"],
        "lower": found["lower"],
        "upper": found["upper"],
        "accuracy": one.measured,
        "cost": one.cost,
        "certified": found["verdict"] == "met",
        "constant": alike == len(rows.predicted) or _nearly_constant(rows, one.measured),
        "alike": alike,
    }


def _nearly_constant(rows: Scored, accuracy: float) -> bool:
    """Whether nearly all rows are decided alike, and hardly more of them rightly than by a constant."""
    labels = np.bincount(rows.target, weights=rows.mass[1])
    largest = float(labels.max() / labels.sum())
    return hardly_better_than_constant(accuracy, largest) and rows_alike(rows.predicted, largest) is not None


def _alike(entry: dict[str, Any], rows: int) -> str:
    """What is said of a model that decides all or nearly all of so many held-out rows alike."""
    if entry["alike"] == rows:
        return "gives every row the same decision"
    return f"gives {entry['alike']:,} of {rows:,} held-out rows the same decision, and decides hardly more of them rightly than one that gives it to all"


def more_rows(scored: Scored, stated: Bound, alpha: float) -> dict[str, float]:
    """By group, how much nearer to the value the confidence bound that decides "met" would be with MORE more rows of it
    like those there, 0 where it would be no nearer; nothing of groups that the bound leaves out, and where other than
    counts of unweighted rows of groups are bounded, or the value is not known."""
    end = "lower" if stated.sense == "at least" else "upper"
    if stated.judged_from != "counts" or not scored.groups.attributes or not (scored.weight is scored.clusters is None):
        return {}
    stated = stated.of_classes(scored.classes).settled_on(scored.occurring)  # more rows bring no group back
    now, out = stated.judge(scored, alpha)[end], {}
    kept = dict(getattr(stated, "only", None) or ())
    for i, (attribute, labels, codes) in enumerate(scored.groups.by_attribute):
        for g, label in enumerate(labels):
            mine = codes == g
            if mine.any() and now is not None and g in kept.get((i,), (g,)):
                each = np.where(mine, 1 + MORE / mine.sum(), 1.0)
                then = stated.judge(replace(scored, each=each), alpha)[end]
                nearer = float(then) - float(now) if end == "lower" else float(now) - float(then)
                out[f"{attribute}: {label}"] = max(0.0, nearer)
    return out


def worth_of_rows(more_rows: dict[str, float]) -> str:
    """A sentence that names the group of which more rows help most; "" if none helps. more_rows: as from
    `more_rows`."""
    best = max(more_rows, key=lambda name: more_rows[name], default="")
    if not best or more_rows[best] < SHOWN:
        return ""
    return f"{MORE:,} more held-out rows of {best} would narrow the interval most, by {more_rows[best]:.4f}."


def _said(out: dict[str, Any], stated: Bound, flat: bool = False, few: str = "") -> str:
    """The findings of `feasibility` in a few sentences. flat: whether accuracy changes by no more than chance. few: what
    is said of a group of too few rows to plan by."""
    small, cheap, bent = out["smallest"], out["cheapest"], out["knee"]
    rows = f"{out['rows']['held']:,}"
    ends = ["not known" if small[k] is None else f"{small[k]:.4f}" for k in ("value", "lower", "upper")]
    which = "largest" if stated.sense == "at least" else "smallest"
    said = [f"The {which} value reached is {ends[0]} ({ends[1]} to {ends[2]}) on {rows} held-out rows."]
    if small["constant"]:
        said.append(f"Its model {_alike(small, out['rows']['held'])}.")
    if cheap is None:
        said.append(f"No model's interval lies within {out['bound']}: these rows would not confirm it.")
        if few:
            said.append(few.strip())
        elif out["rows_needed"] is not None:
            way = direction([small | {"bound": stated.stated, "sense": stated.sense}])
            would = f"about {about(out['rows_needed'])} held-out rows would decide it {odds()}; here were {rows}."
            said.append(f"Of the model of the {which} value {would}{way}")
    else:
        under = "without a bound" if cheap["trained_under"] is None else f"under {cheap['trained_under']:g}"
        lost = round(100 * (out["curve"][0]["accuracy"] - cheap["accuracy"]), 2)
        price = f"costs {lost:.2f} points of accuracy" if lost > 0 else "costs no accuracy"
        more = f": it has {-lost:.2f} points more than the model without a bound on these rows" if lost < 0 else ""
        said.append(
            f"The cheapest model whose interval lies within {out['bound']} is trained {under} and {price}{more}."
        )
        if cheap["constant"]:
            said.append(
                f"It {_alike(cheap, out['rows']['held'])}{LITTLE if cheap['trained_under'] is None else LOOSEN}"
            )
    said.append(said_of(None if bent is None else bent["trained_under"], flat))
    said.append(worth_of_rows(out["more_rows"]))
    if "left_out" in out:
        said.append(left_out([out]).strip())
    return " ".join(filter(None, said))
