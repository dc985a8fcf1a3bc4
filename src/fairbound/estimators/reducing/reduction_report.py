"""What `fairbound.Reduction` says of its fit: the report, and what it warns of."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fairbound.base.callers import users_line
from fairbound.base.errors import DataWarning
from fairbound.estimators.facts.fit_warnings import missed_words, missing_group_words
from fairbound.estimators.reducing.lottery import SHORT, Lottery
from fairbound.fairness.compiled.plan import Plan
from fairbound.fairness.few_rows import BelowAStep, bounds_below_a_step, dropped_words_of_groups
from fairbound.fairness.notions import Bound
from fairbound.fairness.scored import Scored
from fairbound.postprocessing.costs import cost_of_constants, saves_nothing
from fairbound.postprocessing.sweep import ROUNDING
from fairbound.rows.groups import Groups

JUDGED, BY_OTHERS = "the training rows{}", ", each decided by a fit that had not seen it"
KNOWN = (
    "The classifier without the bound is right on nearly all training rows, as one is that knows these rows by heart; bounds and accuracy are "
    "then kept on them alone. Take folds=5, and judge what it decides of rows held out."
)


@dataclass(frozen=True)
class Facts:
    """Of a fit. rows, own: as they were judged, and as the fitted model decides them. groups: of the rows. costs: of a false
    positive and of a false negative. excess: the largest over a bound. folds: 0 or K. by_heart: whether the fit without bounds is
    right on nearly all rows that it was fitted to."""

    stated: tuple[Bound, ...]
    plan: Plan
    rows: Scored
    own: Scored
    groups: Groups
    costs: tuple[float, float]
    notes: Sequence[str]
    excess: float
    multipliers: np.ndarray
    lottery: Lottery
    fits: int
    folds: int
    by_heart: bool

    @property
    def met(self) -> bool:
        """Whether the bounds are met on the rows as they were judged."""
        return self.excess <= ROUNDING

    @property
    def where(self) -> str:
        return JUDGED.format(BY_OTHERS if self.folds else "")

    @property
    def equal(self) -> bool:
        """Whether wrong decisions cost alike, so that accuracy is what counts."""
        return self.costs[0] == self.costs[1]

    def cost(self, rows: Scored) -> float:
        """The mean cost of a wrong decision."""
        each = np.where(rows.target == 1, self.costs[1], self.costs[0])
        return float(np.average(rows.wrong * each, weights=rows.weight))

    def cost_of_constants(self) -> float:
        """The lower of the mean costs of both answers, each given to all rows."""
        return cost_of_constants(self.costs, float(np.average(self.rows.target, weights=self.rows.weight)))

    def said(self, cost: float) -> str:
        """A mean cost in words: as an accuracy where wrong decisions cost alike."""
        return f"{1 - cost / self.costs[0] if self.equal else cost:.3f}"


def reduction_report(facts: Facts) -> dict[str, Any]:
    """What `fit_report_` holds, but for the threshold."""
    below = bounds_below_a_step(facts.plan, facts.plan.counts(facts.groups.codes, facts.rows.target))
    help_ = _what_may_help(below)
    cost, lottery = facts.cost(facts.rows), facts.lottery
    dearest = max(facts.costs)
    of_lottery = lottery.error * dearest
    alike = saves_nothing(cost, facts.cost_of_constants(), len(facts.rows), dearest)
    aims = all(
        bound.about != "class" for bound in facts.stated
    )  # a bound on a class may well cost more than a constant
    return {
        "constraints": [
            {
                "text": b.text,
                "sense": b.sense,
                "bound": float(b.stated),
                "train_value": b.measure(facts.rows),
                "own_value": b.measure(facts.own),
            }
            for b in facts.stated
        ],
        "feasible": facts.met,
        "message": _message(facts, below),
        "accuracy": float(np.average(~facts.rows.wrong, weights=facts.rows.weight)),
        "costs": list(facts.costs),
        "cost": cost,
        "lottery_accuracy": 1 - lottery.error if lottery.meets and facts.equal else None,
        "lottery_cost": of_lottery if lottery.meets else None,
        "shortfall": _shortfall(facts, cost, of_lottery, help_),
        "no_better_than_constant": alike,
        "nothing_learnt": _nothing_learnt(facts, help_) if alike and aims else None,
        "known_rows": KNOWN if facts.by_heart else None,
        "fits": facts.fits,
        "multipliers": {facts.plan.names[i]: float(y) for i, y in enumerate(facts.multipliers) if y > 1e-6},
        "dropped_groups": list(facts.plan.dropped),
        "dropped_rows": dict(zip(facts.plan.dropped, facts.plan.dropped_rows, strict=True)),
        "small_groups": [found.said for found in below],
        "missing_group_rows": facts.groups.unknown(),
        "notes": list(facts.notes),
    }


def warn_of_reduction(report: Mapping[str, Any]) -> None:
    """Warns: DataWarning of groups that were left out or are too small for a bound, of rows whose group is not known, and of
    a model that may know its rows by heart;
    ConvergenceWarning where no model meets the bounds, has learnt nothing, or a lottery would be far better."""
    said = dropped_words_of_groups(report["dropped_groups"], report["dropped_rows"])
    known = filter(None, [report["known_rows"]])
    for text in [*said, *report["small_groups"], *missing_group_words(report["missing_group_rows"]), *known]:
        warnings.warn(text, DataWarning, stacklevel=users_line())
    missed = None if report["feasible"] else report["message"]
    if told := [text for text in (missed, report["shortfall"], report["nothing_learnt"]) if text]:
        warnings.warn(" ".join(told), ConvergenceWarning, stacklevel=users_line())


def _message(facts: Facts, below: Sequence[BelowAStep]) -> str:
    missed = _missed_by_own(facts.stated, facts.own) if facts.folds else ""
    if facts.met:
        return f"every bound is met on {facts.where}" + (f". {missed}." if missed else "")
    advice = _what_may_help(below) or "Loosen the bound, or raise rounds."
    return (
        f"no model and threshold meets every bound on {facts.where}: the smallest excess is {facts.excess:.4g}"
        f"{_of_several(facts)}. {advice}" + (f" {missed}." if missed else "")
    )


def _of_several(facts: Facts) -> str:
    """Which of several bounds the model misses that comes nearest to them all; "" where one is stated."""
    missed = missed_words(facts.stated, [bound.measure(facts.rows) for bound in facts.stated])
    return f": {missed}" if missed and len(facts.stated) > 1 else ""


def _missed_by_own(stated: Sequence[Bound], own: Scored) -> str:
    """Which bounds the model misses on rows that all but one of its fits have seen, and by how much; "" for none."""
    missed = missed_words(stated, [bound.measure(own) for bound in stated])
    if not missed:
        return ""
    return (
        "As the returned model decides these rows, which is the mean of these fits and so has seen them, "
        f"{missed}; fb.audit on rows held out says what to expect of others"
    )


def _what_may_help(below: Sequence[BelowAStep]) -> str | None:
    """What to do where groups of few rows leave hardly a choice; None where there are none."""
    first = next((found for found in below if found.bound.about == "group"), None)
    if first is None:
        return None
    if first.bound.bound == 0:
        return "A bound of 0 leaves hardly another choice: state the difference that you can accept."
    leave = "" if first.without is None else f"leave them out ({first.without}), "
    return f"Groups of few rows leave hardly another choice: {leave}merge them with others, or loosen the bound."


def _nothing_learnt(facts: Facts, help_: str | None) -> str:
    """What is said of decisions that are no better than one answer for all rows."""
    better = "more accurate" if facts.equal else "cheaper"
    said = f"On {facts.where}{',' if facts.folds else ''} the decisions are no {better} than the same one for all rows."
    if help_ is not None:
        return f"{said} {help_}"
    rare = float(np.average(facts.rows.target, weights=facts.rows.weight))
    count = " Where errors on the rarer label count more, say so: costs=(of a false positive, of a false negative)."
    return (
        f"{said} Loosen the bound; where the classifier without the bound is no better, the features tell too little of the label."
        f"{count if facts.equal and min(rare, 1 - rare) <= 0.2 else ''}"
    )


def _shortfall(facts: Facts, cost: float, of_lottery: float, help_: str | None) -> str | None:
    """That a lottery over the fits would be better by far than the decisions, or meet the bounds where these do not."""
    if not facts.lottery.ahead(cost / max(facts.costs) if facts.met else None, SHORT):
        return None
    what = "accuracy" if facts.equal else "mean cost of an error"
    here = f"the {what} is {facts.said(cost)}" if facts.met else "no single rule that meets the bounds was found"
    instead = help_ or (
        "Take fb.FairClassifier, whose linear model or network is trained under the bound itself, loosen the "
        "bound, or, if one person may be decided in two ways, fairlearn's ExponentiatedGradient."
    )
    return (
        f"Deciding every row the same way each time costs much here: {here} on {facts.where}; the best lottery over the same fits, which decides some "
        f"rows by a draw, has {facts.said(of_lottery)}. {instead}"
    )
