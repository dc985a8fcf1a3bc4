"""The verdict on a bound from counts in time, with limits that hold at all looks together.

What a bound compares is that of the audit (`fairness.verdicts.judging`); the limits are those of `confidence.sequences`.
Comparisons of the same cells share one set of rates. The error probability of a bound is divided among these sets once,
at the first look with at least START rows, and stays so: a set keeps its share for ever. A set that appears later,
because a new group did, takes of what was kept back for late ones: the i-th of them a share 1 / (i (i + 1)) of it,
which add up to one. The limit within which a bound is met uses the whole error for each comparison: it fails only where
that of the largest one does.

A loss x in [0, largest] counts as x / largest of a success. All martingales here are products of exp(a x) / (1 - p + p
exp(a)) for x = 0 or 1; for x between them exp(a x) <= 1 - x + x exp(a), so that they are supermartingales for every x
in [0, 1] with mean p, and the limits hold (Hoeffding 1963, JASA 58, 13-30, section 2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from fairbound.base.errors import EmptyGroupError, OptionError
from fairbound.confidence.contrasts import ONE_CELL, Contrasts, GapBounds, largest, smallest
from fairbound.confidence.contrasts import verdict as decided
from fairbound.confidence.rates import Transform
from fairbound.confidence.sequences import CountsInTime, anytime_bounds, anytime_ratio_bounds, checkpoint_rows
from fairbound.confidence.tilted import difference_bounds, exceeds, lowest_differences
from fairbound.fairness.compiled.builder import class_number
from fairbound.fairness.scored import Finding, Scored
from fairbound.fairness.verdicts.findings import contrast_facts, nothing_found, split_missing, stated_facts, unmeasured
from fairbound.fairness.verdicts.judging import Sets, compared_sets, nothing_over_nothing
from fairbound.fairness.verdicts.leaving_out import left_out_facts
from fairbound.fairness.verdicts.values import quotient
from fairbound.monitoring.everyone import Everyone
from fairbound.monitoring.growth import grown
from fairbound.monitoring.spread import Spread
from fairbound.monitoring.tally import Moment

CLOSE = 1e-5
"""A limit this near to the measured value was stopped there: each limit is searched for on its own side."""

START = 100
MOST_ROWS = 10**9
SECTIONS = 6
"""Numbers of rows that are asked in a round, whether they would decide."""
LATE = 0.1
"""The share of the error probability that is kept for groups that appear late."""

LOSS_METHOD = "limits of mean losses up to {:g} that hold at all looks together (mixture martingales of their sums); Bonferroni over sets of groups and stated bounds"
METHOD = "limits of the rates that hold at all looks together (mixture martingales of the counts); Bonferroni over sets of groups and stated bounds"


@dataclass
class Shares:
    """Who has which share of the error probability of a bound. first: names of the sets at the first look; late: of
    later ones, in the order in which they appeared."""

    first: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        names = [*self.first, *self.late]
        if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise ValueError(f"the shares are not of different sets: {names}")
        self.first, self.late = list(self.first), list(self.late)

    def of(self, names: list[str]) -> np.ndarray:
        """(m,) the share of each name, which it keeps."""
        known = dict.fromkeys(names)
        if not self.first:
            self.first = list(known)
        self.late += [name for name in known if name not in self.first and name not in self.late]
        place = {name: i for i, name in enumerate(self.late, start=1)}
        share = {name: LATE / (i * (i + 1)) for name, i in place.items()}
        share |= dict.fromkeys(self.first, (1 - LATE) / max(len(self.first), 1))
        return np.array([share[name] for name in names])


def judge_in_time(
    bound: Any,
    rows: Scored,
    now: Moment,
    before: list[Moment | None],
    shares: Shares,
    alpha: float,
    needed: bool,
    losses: int | None,
) -> Finding:
    """The verdict on `bound` now; all verdicts ever given this way are right together with probability 1 - alpha.

    rows: combinations that stand for `each` rows; now, before: what is known of them now and at each checkpoint, None
    where that is not known. losses: of a bound on mean losses, which of the sums are its own.
    Beside what an audit finds, "grown" is what is known of a difference that has grown.
    """
    bound = bound.of_classes(rows.classes)
    base = stated_facts(bound, rows)
    if rows.total < START:
        return base | nothing_found(f"Nothing is said before {START} rows.")
    if bound.about == "class":
        return base | _of_class(bound, rows, [b and b.each for b in before], shares, alpha, needed)
    unit = 1.0 if losses is None else float(bound.largest)
    try:
        sets, missing = compared_sets(bound, _at(rows, now, losses))
    except EmptyGroupError as empty:
        return base | nothing_found(str(empty)) | left_out_facts(bound, rows.occurring)
    names = sets.cell_names(bound.tails)
    counts = CountsInTime.of(
        *_counts(bound, sets, _at(rows, now, losses), unit),
        [b if b is None else _counts(bound, sets, _at(rows, b, losses), unit) for b in before],
    )
    error = alpha * shares.of(_names(sets, names))
    everyone = Everyone.of(sets)
    found = _bounds(bound, counts, sets, error, alpha, unit, everyone)
    verdict = found.verdict(float(bound.bound))
    missing, more = split_missing(bound, missing, rows)
    if missing and verdict == "met":
        verdict = "insufficient"
    contrasts = Contrasts(sets.index, sets.coefficient)
    transform = sets.values[0][1].transform
    limit = 0.0 if bound.compares == "ratios" else float(bound.bound) / unit
    return (
        base
        | contrast_facts(found, sets.name)
        | {
            "verdict": verdict,
            "rows_needed": rows_needed(counts, rows.total, contrasts, limit, error, alpha, transform, everyone)
            if needed and verdict == "insufficient" and not missing
            else None,
            "method": METHOD if losses is None else LOSS_METHOD.format(unit),
            "groups": {name: int(n) for name, n in zip(names, sets.joined("totals"), strict=True)},
            "why": unmeasured(missing, "decision") if missing else nothing_over_nothing(bound, sets),
            "grown": grown(bound, counts, contrasts, error, sets.name)
            if needed and losses is None and transform is None and bound.compares == "differences"
            else None,
        }
        | more
    )


def contradicted(finding: Finding) -> str | None:
    """A warning where the limits, which depend on the order of decisions, exclude the value of all."""
    value, lower, upper = (finding[name] for name in ("value", "lower", "upper"))
    if value is None or lower is None or upper is None:
        return None
    if (0 < value <= lower + CLOSE) or (upper - CLOSE <= value < 1):
        return (
            f"{finding['text']}: the measured value, {value:.4f}, is that of all decisions together, and the order in which they came "
            "contradicts it: the rates have changed. Start a new monitor to judge the new rates."
        )
    return None


def _at(rows: Scored, moment: Moment, losses: int | None) -> Scored:
    """The combinations as they were at a moment; of losses each has the mean,
    and weighs as many rows as it stood for."""
    if losses is None:
        return replace(rows, each=moment.each)
    each = moment.each.astype(np.float64)
    mean = quotient(moment.losses[:, losses], each)
    return replace(rows, each=None, weight=each, losses=mean)


def _counts(bound: Any, sets: Sets, rows: Scored, unit: float) -> tuple[np.ndarray, np.ndarray]:
    """(U,) successes and trials of the cells that a bound compares; for losses, successes are their sum over the
    largest loss."""
    values = [bound.values(rows, compared) for compared, _ in sets.values]
    if rows.losses is not None and rows.weight is not None:
        trials = np.concatenate([np.ravel(v.totals) for v in values])
        means = np.concatenate([np.ravel(v.means) for v in values])
        return np.clip(np.nan_to_num(means) * trials / unit, 0.0, trials), trials
    successes, trials = (
        np.concatenate([np.ravel(getattr(v, part)) for v in values]) for part in ("successes", "trials")
    )
    return np.rint(successes), np.rint(trials)


def _bounds(
    bound: Any,
    counts: CountsInTime,
    sets: Sets,
    error: np.ndarray,
    alpha: float,
    unit: float,
    everyone: Everyone | None,
) -> GapBounds:
    """error: (m,) of each contrast. unit: what a success stands for. The limit within which a bound is met needs no
    sharing: see `confidence.contrasts.largest`."""
    if bound.compares == "ratios":
        return _ratios(counts, sets.index[:, ::-1], error, alpha)
    contrasts, transform = Contrasts(sets.index, sets.coefficient), sets.values[0][1].transform
    lower, upper, singles = limits_in_time(counts, contrasts, transform, error, alpha, everyone)
    return largest(contrasts, contrasts.of(sets.joined("estimates")), unit * lower, unit * upper, unit * singles)


def _limits_and_pairs(
    contrasts: Contrasts, transform: Transform | None, everyone: Everyone | None
) -> tuple[Callable[..., tuple[np.ndarray, np.ndarray]], np.ndarray | None]:
    """A function of counts, contrasts and an error that gives lower and upper limits; and the pairs of cells where all
    contrasts are plain differences of two, which have sharper limits."""
    if everyone is not None:
        return everyone.bounds, None
    return partial(anytime_bounds, transform=transform), contrasts.pairs() if transform is None else None


def limits_in_time(
    counts: CountsInTime,
    contrasts: Contrasts,
    transform: Transform | None,
    error: np.ndarray,
    alpha: float,
    everyone: Everyone | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lower and upper limits (m,) of the contrasts with error (m,), and upper ones each with the error alpha, of which the
    largest matters: of contrasts for certain below it they may be wider."""
    limits, pairs = _limits_and_pairs(contrasts, transform, everyone)
    if pairs is None:
        return *limits(counts, contrasts, error), limits(counts, contrasts, alpha)[1]
    lower, upper = difference_bounds(counts, pairs, error)
    return lower, upper, -lowest_differences(counts, pairs[:, ::-1], alpha)


def rows_needed(
    counts: CountsInTime,
    rows: int,
    contrasts: Contrasts,
    bound: float | np.ndarray,
    error: np.ndarray,
    alpha: float,
    transform: Transform | None = None,
    everyone: Everyone | None = None,
) -> int | None:
    """About how many rows in all would decide with probability one half, to 10 %, if rates and shares are those
    observed; None beyond 10^9. Checkpoints are those passed, as they are remembered, and the coming ones.

    bound: of each contrast, a number or (m,), where differences of two cells have the same. All contrasts must be found
    within it at once (`Spread`), or one beyond it.
    Limits at the same rates narrow as rows come, so that what so many rows decide more decide too; the first number of
    them is found by asking SECTIONS numbers a round.
    """
    grid = np.unique(np.round(rows * 1.1 ** np.arange(1, 200)))
    grid = grid[grid <= MOST_ROWS]
    if (counts.trials == 0).any() or not len(grid):
        return None
    p, share = counts.successes / counts.trials, counts.trials / rows
    coming = [at for at in map(checkpoint_rows, range(len(counts.before), 40)) if at < grid[-1]]
    limits, pairs = _limits_and_pairs(contrasts, transform, everyone)
    spread = Spread.of(counts, rows, contrasts, bound, transform)

    def decide(then: np.ndarray) -> np.ndarray:
        """(G,) whether so many rows (G,) would decide."""
        n, *later = (np.minimum(then, at)[:, None] * share for at in (np.inf, *coming))
        passed = [b if b is None else (b[0] + 0 * n, b[1] + 0 * n) for b in counts.before[1:]]
        in_time = CountsInTime.of(p * n, n, [*passed, *((p * m, m) for m in later)])
        inside = spread.reached(then)
        if pairs is None:
            within = limits(in_time, contrasts, alpha)[1] <= inside
            beyond = limits(in_time, contrasts, error)[0] > bound
        else:
            most = float(np.max(bound))
            within = exceeds(in_time, pairs[:, ::-1], alpha, -inside)
            beyond = exceeds(in_time, pairs, error, most, shared=True)
        return np.asarray(within.all(-1) | beyond.any(-1))

    first, known = 0, len(grid)  # the least number is from `first` on, and `known` decides, if it is one of the grid
    while first < known:
        at = np.unique(np.linspace(first, known - 1, SECTIONS).astype(np.int64))
        found = decide(grid[at])
        place = int(np.argmax(found)) if found.any() else len(at)
        first = int(at[place - 1]) + 1 if place else int(at[0])
        known = int(at[place]) if place < len(at) else known
    return int(grid[known]) if known < len(grid) else None


def _ratios(counts: CountsInTime, pairs: np.ndarray, error: np.ndarray, alpha: float) -> GapBounds:
    lower, upper = anytime_ratio_bounds(counts, pairs, error)
    alone = anytime_ratio_bounds(counts, pairs, alpha)[0]
    p = quotient(counts.successes, counts.trials, np.nan)
    a, b = p[pairs.T]
    estimates = np.divide(a, b, out=np.where(a == b, 1.0, np.inf), where=b > 0)
    estimates = np.where(np.isnan(a + b), np.nan, estimates)
    return smallest(estimates, float(alone.min()), lower, upper, both_orders=True)


def _names(sets: Sets, names: list[str]) -> list[str]:
    """(m,) the name of the set of cells behind each contrast."""
    number = np.repeat(np.arange(len(sets.values)), [v.trials.size for _, v in sets.values])
    out = []
    for index, c in zip(sets.index.tolist(), sets.coefficient.tolist(), strict=True):
        cells = sorted({i for i, v in zip(index, c, strict=True) if v != 0})
        out.append(" | ".join([str(int(number[cells[0]])) if cells else "", *(names[i] for i in cells)]))
    return out


def _of_class(
    bound: Any, rows: Scored, before: list[np.ndarray | None], shares: Shares, alpha: float, needed: bool
) -> Finding:
    """The verdict on a bound on the error, or recall, of one class."""
    name = f"class {bound.class_}"
    mine = rows.target == class_number(bound.class_, rows.target, rows.classes)

    def of(each: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        n = np.ones(len(rows)) if each is None else each
        return np.array([n[mine & rows.wrong].sum()], dtype=float), np.array([n[mine].sum()], dtype=float)

    counts = CountsInTime.of(*of(rows.each), [None if b is None else of(b) for b in before])
    if not counts.trials[0]:
        return nothing_found(f"No row has the label {bound.class_}.")
    error = alpha * shares.of([name])
    lower, upper = (float(end[0]) for end in anytime_bounds(counts, ONE_CELL, error))
    value = float(counts.successes[0] / counts.trials[0])
    verdict = decided(lower, upper, float(bound.bound))
    if bound.sense == "at least":
        value, lower, upper = 1 - value, 1 - upper, 1 - lower
    measured = {"value": value, "lower": lower, "upper": upper}
    undecided = needed and verdict == "insufficient"
    more_rows = rows_needed(counts, rows.total, ONE_CELL, bound.bound, error, alpha) if undecided else None
    more = {"verdict": verdict, "rows_needed": more_rows, "worst": None, "method": METHOD, "why": None}
    return measured | more | {"groups": {name: int(counts.trials[0])}, "contrasts": [{"name": name, **measured}]}


def check_watched(bound: Any, threshold: float | None) -> None:
    """Raises: OptionError for a bound that cannot be judged from sums over rows or pairs, saying why. threshold: of
    scores, None for decisions."""
    if bound.judged_from == "areas":
        if bound.fewest is not None and (bound.with_everyone or bound.kind in ("bpsn", "bnsp")):
            raise OptionError(
                f"{bound.text!r} compares groups with everyone, and a monitor pairs rows of everyone as they come, before it is known "
                "which groups have few; leave fewest out, or compare groups pairwise."
            )
        if threshold is None:
            raise OptionError(
                f"{bound.text!r} ranks rows by their scores; give y_pred as scores, and the threshold of a positive decision "
                "(Monitor(..., threshold=0.5), --threshold)."
            )
    elif bound.judged_from == "losses":
        if bound.uncertain is not None:
            raise OptionError(f"{bound.text!r} cannot be monitored: {bound.uncertain}")
    elif bound.judged_from != "counts":
        raise OptionError(
            f"{bound.text!r} cannot be told from counts, so it cannot be monitored: it compares rows with each other, and a monitor "
            "keeps no rows. Audit it instead, on rows that no earlier audit has used."
        )


def anytime_groups(groups: list[dict[str, Any]], alpha: float) -> list[dict[str, Any]]:
    """The groups' rates with limits that hold at all looks; no loss is known."""
    for group in groups:
        group["mean_loss"] = None
        known = [rate for rate in group["rates"].values() if rate["value"] is not None]
        trials = np.array([[rate["count"]] for rate in known], dtype=float).reshape(-1, 1)
        values = np.array([[rate["value"]] for rate in known]).reshape(-1, 1)
        counts = CountsInTime.of(np.rint(values * trials), trials)
        lower, upper = anytime_bounds(counts, ONE_CELL, alpha)
        for rate, low, high in zip(known, lower[:, 0].tolist(), upper[:, 0].tolist(), strict=True):
            rate |= {"lower": min(low, rate["value"]), "upper": max(high, rate["value"])}
    return groups
