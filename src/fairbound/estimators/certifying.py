"""`FairClassifier(certify=True)` and its like: a model whose bounds are confirmed by rows that took no part in making it.

    divide the rows at random into three parts: train, choose, certify
    train without the bounds, then under the stated ones, then under tighter and tighter ones; where rates of decisions are
        bounded, some under bounds on smoothed decisions alone
    on the rows to train and to choose: order the models by their excess over the stated bounds, from the lowest, and leave
        out those that are no less costly than one before them. The excess is the one to be expected of new rows: models held
        to smoothed decisions keep theirs, others fall back by a share of the way to the model without bounds
    on the rows to certify: test "some stated bound is broken" for one model after another, each at the whole level,
        until it is first not rejected
    return the last model for which it was

The order is settled before the rows to certify are looked at, and a model is tested only if the hypotheses before it were all
rejected. So the first true hypothesis of the order is rejected with probability at most 1 - confidence, whatever the number of
models: choosing costs nothing. The bounds of one model need no share of the level each: "one of them is broken" is rejected
only where each of them is (Berger 1982).

Source: Angelopoulos, Bates, Candes, Jordan, Lei (2021), Learn then test, section 3.2 (fixed sequence testing); Laufer-Goldshtein,
    Fisch, Barzilay, Jaakkola (2023), Efficiently controlling multiple risks with Pareto testing, for the order; Berger (1982),
    Technometrics 24, 295-300, for several bounds at once.
Departs: how far the tighter bounds lie inside the stated ones is measured in half-widths of the interval that the rows to
    certify will give, estimated on the other rows.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from fairbound.base.errors import CertificateError, CertificateWarning, EmptyGroupError, OptionError
from fairbound.base.seeds import seed_for
from fairbound.base.verdicts import about, against
from fairbound.estimators.conventions import seed_of
from fairbound.estimators.frontier import frontier
from fairbound.estimators.judged_rows import JudgedRows
from fairbound.estimators.validation import CONFIRM
from fairbound.fairness.bound import Bound
from fairbound.fairness.notions import constraints
from fairbound.fairness.scored import Finding, Scored
from fairbound.methods import FullBatchALM

CHOOSE = 0.1
"""Share of the rows to choose on."""

LEAST, MOST = 0.25, 0.5
"""Smallest and largest share of the rows to certify on."""

ENOUGH = 60
"""Times a bound's `fewest_rows` that the smallest group should have to certify: a half-width of about a third of the bound, or less."""

INSIDE = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0)
"""Half-widths by which the bounds of further candidates lie inside the stated ones; the first to be tested is the last of these."""

INSIDE_FEW = (1.0, 2.0, 3.0)
"""The same for methods of random batches, each of whose runs takes its whole budget."""

INSIDE_SMOOTH = (2.0, 3.0, 4.0)
"""The same for models held to smoothed decisions. They are mostly tested first, and one that fails keeps all others from being tested."""

SMOOTH = FullBatchALM(sharpness=(1.0,), dual_values="surrogate")
"""What trains them. A bound on the decisions of few rows is met by moving single rows over the threshold, which does nothing for
new rows; probabilities of decisions cannot be moved so."""

APART = 0.25
"""The squared Mahalanobis distance of two groups' features that is reckoned with. Of d weights that make the means of a group of n
rows and of the others equal, a share of about d / (d + n APART) of the difference comes back in new rows: so much of the direction
between the means is noise. `benchmarks/unseen_tables.py --certify` shows what the order is worth on tables of some thousand rows."""

LEFT = 0.1
"""The share of a stated bound that its tightest candidate keeps at least."""


class Judged(NamedTuple):
    """A model, what was found of each stated bound on some rows, its cost and what it measures there, as of JudgedRows, and whether
    it was held to smoothed decisions."""

    model: Any
    findings: list[Finding]
    cost: float
    measured: float
    smoothed: bool = False

    @property
    def verdict(self) -> str:
        """On all bounds together."""
        verdicts = [found["verdict"] for found in self.findings]
        if "violated" in verdicts:
            return "violated"
        return "met" if all(v == "met" for v in verdicts) else "insufficient"


def fit_certified(classifier: Any, kind: Any, *given: Any) -> Any:
    """`classifier`, or another estimator, fitted to the least costly model that the rows confirm.

    kind: of its rows, a JudgedRows whose `of` reads what was `given` to fit.
    Adds certify_rows_, the numbers of the rows that took no part in making the model, unconstrained_, the model of the same rows
    without bounds, and fit_report_["certificate"].
    Raises: OptionError where there is no bound, or one without a valid interval; DataError where a label, or a group that a bound
    compares, is too rare to be among the rows to train on; CertificateError where no model of these rows could be confirmed, or
    this one is not and on_insufficient is "raise". Warns: CertificateWarning where it is "warn".
    """
    stated, alpha = _checked(classifier)
    rows = kind.of(classifier, *given)
    seed = seed_of(classifier.random_state)
    numbers = divided(stated, rows, seed)
    train, choose, certify = (rows.take(part) for part in numbers)
    rows.check(train)
    certify.check_to_certify(stated, alpha)
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
    classifier.set_params(**keep)
    classifier.certify_rows_, classifier.groups_ = numbers[2], rows.groups
    classifier.unconstrained_ = tried[0].model
    if hasattr(classifier, "constraints_"):
        classifier.constraints_ = stated
    sizes = dict(zip(("train", "choose", "certify"), map(len, numbers), strict=True))
    certificate = certificate_of(taken, free, tested, stated, alpha, sizes, rows)
    classifier.fit_report_ = _report(classifier.fit_report_, stated, certificate)
    if not passed:
        if classifier.on_insufficient == "raise":
            raise CertificateError(certificate["said"])
        warnings.warn(certificate["said"], CertificateWarning, stacklevel=3)
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
    """Raises: OptionError naming a bound of whose value no interval holds well enough."""
    for bound in stated:
        if bound.uncertain is not None:
            raise OptionError(f"{bound.text!r} cannot be certified: {bound.uncertain}")


def divided(stated: Sequence[Bound], rows: JudgedRows, seed: int) -> list[np.ndarray]:
    """Numbers of the rows to train, to choose and to certify on, each with the same share of every group.

    A quarter to a half of the rows certify: as many as give the smallest group or class ENOUGH times the rows that the bound
    asks for.
    """
    wanted = max(LEAST, *(ENOUGH * bound.fewest_rows / max(rows.smallest(bound), 1) for bound in stated))
    train, choose, certify = rows.split([CHOOSE, min(wanted, MOST)], seed_for("certify", root=seed))
    return [train, choose, certify]


def judged(model: Any, parts: Sequence[JudgedRows], stated: Sequence[Bound], alpha: float, objective: Any) -> Judged:
    """What the rows of `parts` together say of a model."""
    each = [part.scored(model, 1 - alpha) for part in parts]
    rows = each[0] if len(each) == 1 else Scored.joined(each)
    kind = parts[0]
    return Judged(model, [b.judge(rows, alpha) for b in stated], kind.cost(rows, objective), kind.measured(rows))


def candidates(
    classifier: Any, stated: Sequence[Bound], train: JudgedRows, choose: JudgedRows, certify: int, alpha: float
) -> list[Judged]:
    """The models without bounds, under the stated bounds, under tighter ones, and those held to smoothed decisions, judged on the
    rows to train and choose.

    certify: number of rows to certify on, which with what the second model shows decides how much tighter.
    """

    def judge(model: Any) -> Judged:
        return judged(model, [train, choose], stated, alpha, getattr(classifier, "objective", None))

    out = [judge(model) for model in frontier(classifier, train, [(), stated])]
    scale = math.sqrt((len(train) + len(choose)) / max(certify, 1))
    widths = [half_width(found) * scale for found in out[-1].findings]
    at_once = out[-1].model.fit_report_["algorithm"] == FullBatchALM.name

    def stages(all_inside: Sequence[float]) -> list[tuple[Bound, ...]]:
        made = [
            tuple(tightened(b, inside * width) for b, width in zip(stated, widths, strict=True))
            for inside in all_inside
        ]
        return [stage for stage in dict.fromkeys(made) if stage != stated]

    if out[-1].model.solution_.stopped != "interrupted":
        out += [judge(m) for m in frontier(classifier, train, stages(INSIDE if at_once else INSIDE_FEW), out[-1].model)]
    if at_once and _may_smooth(classifier, stated) and out[-1].model.solution_.stopped != "interrupted":
        smooth = clone(classifier).set_params(algorithm=SMOOTH, objective="loss")
        made = frontier(smooth, train, stages(INSIDE_SMOOTH), out[0].model)
        out += [judge(model)._replace(smoothed=True) for model in made]
    return out


def _may_smooth(classifier: Any, stated: Sequence[Bound]) -> bool:
    """Whether models held to smoothed decisions are candidates: what else trains them is what "auto" takes, and all bounds are on
    rates of decisions."""
    objective = getattr(classifier, "objective", None)
    automatic = classifier.algorithm == "auto" and objective in ("auto", "accuracy", "loss")
    return automatic and not classifier.use_groups_at_prediction and all(bound.of_counts for bound in stated)


def half_width(found: Finding) -> float:
    """How far the confidence bound that decides "met" lies from the value; 0 where the value is not known."""
    ends = ("value", "lower") if found["sense"] == "at least" else ("upper", "value")
    high, low = (found[name] for name in ends)
    return 0.0 if high is None or low is None else float(high - low)


def tightened(bound: Bound, by: float) -> Bound:
    """The bound tightened, but never so far that less than LEFT of what it leaves free is left."""
    if bound.sense == "at least":
        return bound.at(round(min(bound.stated + by, 1 - LEFT * (1 - bound.stated)), 5))
    return bound.at(round(max(bound.stated - by, LEFT * bound.stated), 5))


def excess(one: Judged, stated: Sequence[Bound]) -> float:
    """The largest excess over a stated bound, in units of what it leaves free; infinite where one is not measured."""
    out = []
    for found, bound in zip(one.findings, stated, strict=True):
        if found["value"] is None:
            return math.inf
        over = found["value"] - bound.stated
        least = bound.sense == "at least"
        out.append((-over if least else over) / max(1 - bound.stated if least else bound.stated, 1e-12))
    return max(out)


def fall_back(model: Any, stated: Sequence[Bound], train: JudgedRows) -> float:
    """The share, in [0, 1), of what its bounds took from a model like this one that new rows give back; see APART."""
    d, n = model.x_.shape[-1], min(train.smallest(bound) for bound in stated)
    return d / (d + n * APART)


def pareto(tried: Sequence[Judged], stated: Sequence[Bound], share: float = 0.0) -> list[Judged]:
    """The models from the lowest expected excess on, each less costly than all before it.

    share: of the way to the first model, which has no bounds, that the others but the smoothed ones fall back.
    """
    free = excess(tried[0], stated)

    def expected(one: Judged) -> float:
        own = excess(one, stated)
        return own if one.smoothed or not free < math.inf else own + share * max(free - own, 0.0)

    out: list[Judged] = []
    for one in sorted(tried, key=lambda one: (expected(one), one.cost)):
        if not out or one.cost < out[-1].cost:
            out.append(one)
    return out


def certificate_of(
    taken: Judged,
    free: Judged,
    tested: Sequence[Judged],
    stated: Sequence[Bound],
    alpha: float,
    sizes: dict[str, int],
    rows: JudgedRows,
) -> dict[str, Any]:
    """The certificate as plain data; docs/certificates.md names its fields. rows: any, which say what is measured."""
    verdict, confidence, measure = taken.verdict, round(1 - alpha, 12), rows.measure
    lost = free.measured - taken.measured
    facts = [
        {name: found[name] for name in ("text", "sense", "bound", "value", "verdict", "rows_needed", "method", "why")}
        | {"upper": _limit(found)}
        for found in taken.findings
    ]
    uppers = [fact["upper"] for fact in facts]
    needed = [fact["rows_needed"] for fact in facts if fact["verdict"] == "insufficient"]
    enough = max(needed) if verdict == "insufficient" and needed and all(needed) else None
    rows_needed = None if enough is None else math.ceil(enough * sum(sizes.values()) / sizes["certify"])
    return {
        "verdict": verdict,
        "text": " and ".join(b.text for b in stated),
        "bound": stated[0].stated if len(stated) == 1 else [b.stated for b in stated],
        "upper": uppers[0] if len(stated) == 1 else uppers,
        "confidence": confidence,
        "rows": sizes,
        "rows_needed": rows_needed,
        "candidates": [_candidate(one, measure) for one in tested],
        "measure": measure,
        "price": lost if rows.gains else -lost,
        measure: taken.measured,
        "unconstrained": {
            measure: free.measured,
            "verdict": free.verdict,
            "values": [found["value"] for found in free.findings],
        },
        "constraints": facts,
        "said": _said(verdict, facts, confidence, sizes, enough, rows_needed) + _next_move(taken),
    }


def _next_move(taken: Judged) -> str:
    """What to do where the bounds are not confirmed; "" where they are."""
    if taken.verdict == "met":
        return ""
    for found in taken.findings:
        room = 1 - found["bound"] if found["sense"] == "at least" else found["bound"]
        if (width := half_width(found)) > room:
            return (
                f" That confidence bound lies {width:.3f} from the value, further than {found['text']} leaves: so few rows could not "
                "confirm it of a model without any difference either. Give more rows, or loosen the bound."
            )
    facts = taken.model.fit_report_
    if taken.verdict == "violated" and facts["feasible"] and facts["constraints"]:
        values = " and ".join(f"{fact['train_value']:.4f}" for fact in facts["constraints"])
        return (
            f" On the rows that it was trained on it has {values}: too few rows for so many columns. Give more rows or fewer columns, "
            "or loosen the bound."
        )
    return " Give more rows, loosen the bound, or take another model."


def _limit(found: Finding) -> float | None:
    """The confidence bound that decides "met": the upper one, of "at least" the lower one."""
    return found["lower"] if found["sense"] == "at least" else found["upper"]  # type: ignore[no-any-return]


def _candidate(one: Judged, measure: str) -> dict[str, Any]:
    return {
        "trained_under": [c["text"] for c in one.model.fit_report_["constraints"]],
        "smoothed": one.smoothed,
        measure: one.measured,
        "values": [found["value"] for found in one.findings],
        "uppers": [_limit(found) for found in one.findings],
        "verdict": one.verdict,
    }


def _said(
    verdict: str,
    facts: Sequence[dict[str, Any]],
    confidence: float,
    sizes: dict[str, int],
    enough: int | None,
    rows_needed: int | None,
) -> str:
    """The certificate in one or two sentences. enough, rows_needed: rows to certify, and rows in all, that would decide."""
    text = " and ".join(fact["text"] for fact in facts)
    rows = f"{sizes['certify']:,} rows that took no part in training"
    limits = " and ".join("unknown" if fact["upper"] is None else f"{fact['upper']:.4f}" for fact in facts)
    are, limit, bound = ("is", "bound is", "bound") if len(facts) == 1 else ("are", "bounds are", "bounds")
    if verdict == "met":
        return f"{text} {are} met with {100 * confidence:g} % confidence on {rows}: the confidence {limit} {limits}."
    if verdict == "violated":
        return f"{text} {are} violated on {rows} by the most cautious model found."
    more = ""
    if enough is not None and rows_needed is not None:
        total = sum(sizes.values())
        more = f" About {about(enough)} such rows would decide it, {about(rows_needed)} in all; here were {total:,}.{against(facts)}"
    return f"{text} cannot be certified: {rows} leave the confidence {bound} at {limits}.{more}"


def _report(facts: dict[str, Any], stated: Sequence[Bound], certificate: dict[str, Any]) -> dict[str, Any]:
    """The report of the model taken, which speaks of the stated bounds and says what it was trained under."""
    under = facts["constraints"]
    trained = [*under, *({"text": None, "train_value": None} for _ in stated[len(under) :])]
    constraints = [
        {
            "text": b.text,
            "sense": b.sense,
            "bound": b.stated,
            "train_value": t["train_value"],
            "trained_under": t["text"],
        }
        for b, t in zip(stated, trained, strict=True)
    ]
    sizes = certificate["rows"]
    note = (
        f"Rows: {sizes['train']:,} to train, {sizes['choose']:,} to choose, {sizes['certify']:,} to certify "
        f"({sizes['certify'] / sum(sizes.values()):.0%}: by the size of the smallest group beside the bound)."
    )
    kept = [said for said in facts["notes"] if CONFIRM not in said]
    return {"certificate": certificate, **facts, "constraints": constraints, "notes": [*kept, note]}
