"""The verdict on a bound on areas under ROC curves from pairs of rows as they come; limits hold at all looks together.

The pairs are those of `pairing`: of each area independent numbers 0, 1/2 or 1 with the area as their mean, of which no
row is part of two areas of a comparison. So what holds for losses in [0, 1] holds for them (`judging`), and an area is
a cell. A comparison with 1/2 is a single cell.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairbound.base.errors import EmptyGroupError
from fairbound.confidence.contrasts import Contrasts, largest
from fairbound.confidence.sequences import CountsInTime
from fairbound.fairness.areas.compared import Comparisons
from fairbound.fairness.areas.judging import rows_compared
from fairbound.fairness.notions.auc import AUCParity
from fairbound.fairness.scored import Finding, Scored
from fairbound.fairness.verdicts.findings import contrast_facts, nothing_found, split_missing, stated_facts, unmeasured
from fairbound.fairness.verdicts.judging import without_rows
from fairbound.fairness.verdicts.leaving_out import left_out_facts
from fairbound.fairness.verdicts.values import quotient
from fairbound.monitoring.judging import START, Shares, limits_in_time, rows_needed
from fairbound.monitoring.pairing import AreaTally, Pairing, Who, roles_of

METHOD = (
    "areas of pairs in order of arrival, shuffled within a call, each row in one pair, with limits that hold at all looks together (mixture martingales of their "
    "wins); Bonferroni over comparisons and stated bounds"
)


def judge_areas_in_time(
    bound: AUCParity, rows: Scored, tally: AreaTally, checkpoints: int, shares: Shares, alpha: float, needed: bool
) -> Finding:
    """The verdict on `bound` now; all verdicts ever given this way are right together with probability 1 - alpha.

    rows: combinations that stand for `each` rows. checkpoints: how many were passed.
    """
    base = stated_facts(bound, rows)
    if rows.total < START:
        return base | nothing_found(f"Nothing is said before {START} rows.")
    try:
        made = bound.differences(rows.occurring, "drop")
    except EmptyGroupError as empty:
        return base | nothing_found(str(empty)) | left_out_facts(bound, rows.occurring)
    known, areas = tally.pairings.get(bound.text, {}), roles_of(bound.kind, bound.with_everyone).areas
    whos = [who for found, _ in made for who in _compared(found)]
    names = [found.name(i) for found, _ in made for i in range(len(found))]
    pairings = [known.get(who, Pairing.begun(areas, [0] * checkpoints)) for who in whos]
    before = [
        None if any(p.before[j] is None for p in pairings) else [p.before[j] for p in pairings]
        for j in range(checkpoints)
    ]
    counts = CountsInTime.of(
        *_joined([(p.wins, p.pairs) for p in pairings]), [None if b is None else _joined(b) for b in before]
    )
    cell = np.repeat(np.arange(len(whos)), 2)[:, None]
    if areas == 2:
        contrasts, half = (
            Contrasts(2 * cell + [0, 1], np.tile([[1.0, -1.0], [-1.0, 1.0]], (len(whos), 1))),
            np.zeros(2 * len(whos)),
        )
    else:
        contrasts, half = Contrasts(cell, np.tile([[1.0], [-1.0]], (len(whos), 1))), np.tile([0.5, -0.5], len(whos))
    error = alpha * shares.of([str(tuple(who)) for who in whos for _ in range(2)])
    wins = quotient(counts.successes, counts.trials, np.nan)
    lower, upper, singles = limits_in_time(counts, contrasts, None, error, alpha)
    found = largest(contrasts, contrasts.of(wins) - half, lower - half, upper - half, singles - half)
    verdict = found.verdict(float(bound.bound))
    dropped = (name for _, names in made for name in names)
    missing, more = split_missing(bound, without_rows(bound, rows, dropped), rows)
    if missing and verdict == "met":
        verdict = "insufficient"
    undecided = needed and verdict == "insufficient"
    why = None if counts.trials.all() else "Some groups that are compared have no pair of rows yet."
    why = unmeasured(missing, "decision") if missing else why
    return (
        base
        | contrast_facts(found, lambda i: names[i])
        | {
            "verdict": verdict,
            "rows_needed": rows_needed(counts, rows.total, contrasts, bound.bound + half, error, alpha)
            if undecided and not missing
            else None,
            "method": METHOD,
            "groups": rows_compared(rows, made, bound.conditions()),
            "why": why,
        }
        | more
    )


def _compared(found: Comparisons) -> list[Who]:
    """Who is compared, of every two differences of opposite sign."""
    compared = found.compared

    def group(g: int) -> tuple[str, ...] | None:
        if g == len(compared):
            return None
        places = np.unravel_index(int(compared.codes[g]), compared.sizes)
        return tuple(names[int(i)] for names, i in zip(compared.labels, places, strict=True))

    pairs = zip(found.a.tolist(), found.b.tolist(), strict=True)
    return [Who(compared.attributes, group(a), group(b)) for a, b in pairs]  # type: ignore[arg-type]


def _joined(parts: Any) -> tuple[np.ndarray, np.ndarray]:
    """(K,) wins and pairs of all areas."""
    wins, pairs = zip(*parts, strict=True)
    return np.concatenate(wins).astype(float), np.concatenate(pairs).astype(float)
