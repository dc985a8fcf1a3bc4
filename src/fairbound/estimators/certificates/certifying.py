"""`certify=True` of the estimators: a model whose bounds are confirmed by rows that took no part in making it.

    divide the rows at random into three parts: train, choose, certify
    train without the bounds, then under the stated ones, then under tighter and tighter ones; where rates of decisions are
        bounded, some under bounds on smoothed decisions alone
    on the rows to train and to choose: order the models by their excess over the stated bounds, from the lowest, and leave
        out those that are no less costly than one before them. The excess is the one to be expected of new rows: models held
        to smoothed decisions keep theirs, others fall back by a share of the way to the model without bounds
    on the rows to certify: test "some stated bound is broken" for one model after another, each at the whole level,
        until it is first not rejected
    return the last model for which it was

The order is settled before the rows to certify are looked at, and a model is tested only if the hypotheses before it
were all rejected. So the first true hypothesis of the order is rejected with probability at most 1 - confidence,
whatever the number of models: choosing costs nothing. What is costly was settled with the order, on the rows to train
and choose: on the rows to certify a model tested before may look cheaper, and to take it for that would be a choice
that the promise does not cover. The bounds of one model need no share of the level each: "one of them is broken" is
rejected only where each of them is (Berger 1982).

Source: Angelopoulos, Bates, Candes, Jordan, Lei (2021), Learn then test, section 3.2 (fixed sequence testing);
    Laufer-Goldshtein, Fisch, Barzilay, Jaakkola (2023), Efficiently controlling multiple risks with Pareto testing, for
    the order; Berger (1982), Technometrics 24, 295-300, for several bounds at once.
Departs: how far the tighter bounds lie inside the stated ones is measured in half-widths of the interval that the rows
    to certify will give, estimated on the other rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from fairbound.base.callers import users_line
from fairbound.base.errors import CertificateError, CertificateWarning, EmptyGroupError, OptionError
from fairbound.base.seeds import seed_for
from fairbound.estimators.certificates.candidates import candidates
from fairbound.estimators.certificates.certificate import certificate_of, report_of
from fairbound.estimators.certificates.judged_models import Judged, fall_back, judged, pareto
from fairbound.estimators.conventions import seed_of, timed
from fairbound.estimators.facts.fit_warnings import warn_of_fit
from fairbound.estimators.judged_rows import JudgedRows
from fairbound.estimators.training_rows import check_readable
from fairbound.fairness.bound import Bound, check_judged
from fairbound.fairness.notions import constraints
from fairbound.tables.naming import keep_names

CHOOSE = 0.1
"""Share of the rows to choose on."""

LEAST, MOST = 0.25, 0.5
"""Smallest and largest share of the rows to certify on."""

ENOUGH = 60
"""Times a bound's `fewest_rows` that the smallest group should have to certify: a half-width
of about a third of the bound, or less."""


@timed
def fit_certified(classifier: Any, kind: Any, *given: Any) -> Any:
    """`classifier`, or another estimator, fitted to the model of least cost that the rows to certify confirm.

    The cost is that on the other rows. kind: the class of the rows, a JudgedRows whose `of` reads what was `given` to
    fit. Adds certify_rows_, the numbers of the rows that took no part in making the model, unconstrained_, the model of
    the same rows without bounds, and fit_report_["certificate"].
    Raises: OptionError where there is no bound, or one without a valid interval; DataError where a label, or a group
    that a bound compares, is too rare to be among the rows to train on; CertificateError where no model of these rows
    could be confirmed, or this one is not and on_insufficient is "raise". Warns: CertificateWarning where it is "warn";
    as a fit without a certificate does of the model taken.
    """
    stated, alpha = _checked(classifier)
    rows = kind.of(classifier, *given)
    seed = seed_of(classifier.random_state)
    numbers = divided(stated, rows, seed)
    train, choose, certify = (rows.take(part) for part in numbers)
    rows.check(train)
    certify.check_to_certify(stated, alpha)
    check_readable(classifier, train.X, rows.X, train.groups)
    stated, objective = train.settled(stated), getattr(classifier, "objective", None)
    try:
        tried = candidates(classifier, stated, train, choose, len(certify), alpha)
    except EmptyGroupError as empty:
        raise EmptyGroupError(
            f"Of {len(rows)} rows certify=True leaves {len(train)} to train on. There, {empty}"
        ) from empty
    order = pareto(tried, stated, fall_back(tried[0].model, stated, train))
    tested: list[Judged] = []
    for candidate in order:
        tested.append(
            judged(candidate.model, [certify], stated, alpha, objective)._replace(smoothed=candidate.smoothed)
        )
        if tested[-1].verdict != "met":
            break
    passed = [one for one in tested if one.verdict == "met"]
    taken = passed[-1] if passed else tested[0]
    free = judged(tried[0].model, [certify], stated, alpha, objective)
    keep = classifier.get_params(deep=False)
    classifier.__dict__.update(taken.model.__dict__)
    keep_names(classifier, vars(taken.model).get("feature_names_in_"))
    classifier.set_params(**keep)
    classifier.certify_rows_, classifier.groups_ = numbers[2], rows.groups
    classifier.unconstrained_ = tried[0].model
    if hasattr(classifier, "constraints_"):
        classifier.constraints_ = stated
    sizes = dict(zip(("train", "choose", "certify"), map(len, numbers), strict=True))
    certificate = certificate_of(taken, free, tested, order, stated, alpha, sizes, rows)
    classifier.fit_report_ = facts = report_of(classifier.fit_report_, stated, certificate)
    if not passed:
        if classifier.on_insufficient == "raise":
            raise CertificateError(certificate["said"])
        warnings.warn(certificate["said"], CertificateWarning, stacklevel=users_line())
    if "small_groups" in facts:  # not of a ranker
        warn_of_fit(facts, stated if facts["feasible"] else ())
    return classifier


def _checked(classifier: Any) -> tuple[tuple[Bound, ...], float]:
    """The stated bounds and the error probability of the certificate."""
    stated = constraints(classifier.constraint)
    if not stated:
        raise OptionError("certify=True needs a bound, as in 'demographic_parity <= 0.05'.")
    confidence = 0.95 if classifier.certify is True else float(classifier.certify)
    check_certifiable(stated)
    return stated, 1 - confidence


def check_certifiable(stated: Sequence[Bound]) -> None:
    """Raises: OptionError naming a bound that has no verdict, or of whose value no interval holds well enough."""
    check_judged(stated)
    for bound in stated:
        if bound.uncertain is not None:
            raise OptionError(f"{bound.text!r} cannot be certified: {bound.uncertain}")


def divided(stated: Sequence[Bound], rows: JudgedRows, seed: int) -> list[np.ndarray]:
    """Numbers of the rows to train, to choose and to certify on, each with the same share of every group.

    A quarter to a half of the rows certify: as many as give the smallest group or class ENOUGH times the rows that the
    bound asks for.
    """
    wanted = max(LEAST, *(ENOUGH * bound.fewest_rows / max(rows.smallest(bound), 1) for bound in stated))
    train, choose, certify = rows.split([CHOOSE, min(wanted, MOST)], seed_for("certify", root=seed))
    return [train, choose, certify]
