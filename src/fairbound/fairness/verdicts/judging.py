"""The verdict on a bound between groups: confidence bounds for all its comparisons, from held-out rows.

Groups have independent rows, so a rate of a group is a binomial share given its trials, and the value of a bound is the
largest of m contrasts between groups (of a ratio, the smallest quotient). Lower and upper bounds hold for all of them
together with probability 1 - alpha each: see `fairbound.confidence`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairbound.base.errors import EmptyGroupError
from fairbound.base.names import Names, shortlist
from fairbound.confidence.contrasts import Contrasts, GapBounds
from fairbound.confidence.means import ASYMPTOTIC_ROWS, mean_bounds, mean_rows_needed, welch_bounds
from fairbound.confidence.rates import rate_bounds, rate_rows_needed, ratio_bounds, share_bounds, share_rows_needed
from fairbound.fairness.comparing import Compared, ValueContrasts
from fairbound.fairness.scored import Finding, Scored
from fairbound.fairness.verdicts.clustered import method_of_rows, with_shared_clusters
from fairbound.fairness.verdicts.everyone import without_overall
from fairbound.fairness.verdicts.findings import finding, nothing_found, stated_facts, unmeasured
from fairbound.fairness.verdicts.leaving_out import left_out_facts
from fairbound.fairness.verdicts.method_names import OF_RATIOS, method_of_bets, method_of_means, method_of_rates
from fairbound.fairness.verdicts.values import Values, quotient, share_of, share_values
from fairbound.rows.groups import said_labels


@dataclass(frozen=True)
class Sets:
    """The comparisons of all sets of attributes side by side: U cells, m contrasts.

    values: (R, k) of each set. index, coefficient: (m, t) in the U cells. found: the contrasts of each set. between:
    (m,) as of `Contrasts`, where groups are compared with all rows.
    """

    values: list[tuple[Compared, Values]]
    index: np.ndarray
    coefficient: np.ndarray
    found: list[ValueContrasts]
    between: np.ndarray | None = None

    @property
    def contrasts(self) -> Contrasts:
        """What is compared."""
        return Contrasts(self.index, self.coefficient, self.between)

    def joined(self, part: str) -> np.ndarray:
        """(U,) one of the arrays of Values, all sets and values one after another."""
        return np.concatenate([np.ravel(getattr(v, part)) for _, v in self.values])

    def name(self, i: int) -> str:
        """What the i-th contrast compares."""
        return Names([(len(found.index), found.name) for found in self.found])[i]

    def cell_names(self, tails: tuple[str, ...]) -> list[str]:
        return [f"{c.name(g)}{tail}" for c, _ in self.values for tail in tails for g in range(len(c))]


def compared_sets(bound: Any, rows: Scored) -> tuple[Sets, list[str]]:
    """What a bound compares on the rows, and the groups, or values of them, that no row measures.
    Raises: EmptyGroupError."""
    values, found, index, coefficient, between, missing = [], [], [], [], [], []
    offset = 0
    for compared, dropped in bound.compared(rows.occurring, "drop" if bound.leaves_out else "partly"):
        missing += dropped
        of = bound.values(rows, compared)
        k, r = len(compared), len(bound.tails)
        made = bound.value_contrasts(compared)
        if not len(made.index):
            continue
        at, c = made.index, made.coefficient
        if bound.against == "overall" and bound.compares != "values":
            at, c, moved = without_overall(made, of, k)
            between.append(moved)
        at = at - at // (k + 1)  # units without the overall ones are the cells in order
        values.append((compared, of))
        found.append(made)
        index.append(at + offset)
        coefficient.append(c)
        offset += r * k
    width = max(i.shape[1] for i in index)
    pad = lambda a: np.pad(a, ((0, 0), (0, width - a.shape[1])))  # noqa: E731
    at, c = (np.concatenate([pad(a) for a in parts]) for parts in (index, coefficient))
    sets = Sets(values, at, c, found, np.concatenate(between) if between else None)
    return sets, without_rows(bound, rows, missing)


def without_rows(bound: Any, rows: Scored, dropped: Iterable[str]) -> list[str]:
    """What no row measures: what was `dropped` of the groups compared, and declared groups without a row here."""
    return sorted({*_absent_groups(bound, rows), *dropped})


def _absent_groups(bound: Any, rows: Scored) -> list[str]:
    """Declared groups of the attributes that the bound compares one by one, without a row of positive weight here."""
    occurring = rows.occurring
    if bound.within is not None or bound.attributes == "crossed":
        return []
    if not isinstance(bound.attributes, str) and len(bound.attributes) > 1:
        return []
    named = occurring.attributes if bound.attributes in ("each", "both") else bound.attributes
    said = said_labels(occurring.attributes, occurring.labels)
    return [
        group
        for a, (name, groups) in enumerate(zip(occurring.attributes, said, strict=True))
        if name in named
        for group, n in zip(groups, occurring.per_group((a,)), strict=True)
        if n == 0
    ]


def measured_groups(bound: Any, rows: Scored) -> float:
    """The exact value of a bound between groups; NaN where a group has none.

    Raises: EmptyGroupError for a group without a row to measure, unless the bound leaves it out.
    """
    estimates = measured_contrasts(bound, rows)
    if np.isnan(estimates).any():
        return float("nan")
    return float(estimates.min() if bound.compares == "ratios" else estimates.max())


def measured_contrasts(bound: Any, rows: Scored) -> np.ndarray:
    """(m,) the contrasts of groups whose largest is the value of a bound, or the quotients whose least is; NaN where a
    value is undefined. Raises: as `measured_groups`."""
    bound.compared(rows.occurring)
    return _contrast_estimates(bound, compared_sets(bound, rows)[0])


def _contrast_estimates(bound: Any, sets: Sets) -> np.ndarray:
    """(m,) the measured contrasts, or quotients of a ratio; NaN where a value is undefined."""
    return compared_values(bound, sets.joined("estimates")[sets.index], sets.coefficient)


def compared_values(bound: Any, terms: np.ndarray, coefficient: np.ndarray) -> np.ndarray:
    """(..., m) the contrasts, or quotients of a ratio, of values terms (..., m, t); coefficient: (m, t)."""
    terms = np.where(coefficient != 0, terms, 0.0)
    if bound.compares == "ratios":
        of_other, of_group = terms[..., 0], terms[..., 1]
        equal = np.where(of_group == of_other, 1.0, np.inf)
        return np.divide(of_group, of_other, out=equal, where=of_other > 0)
    with np.errstate(invalid="ignore"):
        return np.asarray((terms * coefficient).sum(-1))


def compares_means(bound: Any) -> bool:
    """Whether the contrasts of a bound are `measured_contrasts`, those of shares or means of rows of groups."""
    return getattr(type(bound), "contrasts", None) is measured_contrasts


def judge_groups(bound: Any, rows: Scored, alpha: float) -> Finding:
    """The verdict on a bound between groups, or on a value of every group."""
    try:
        sets, missing = compared_sets(bound, rows)
    except EmptyGroupError as error:
        return stated_facts(bound, rows) | nothing_found(str(error)) | left_out_facts(bound, rows.occurring)
    if rows.clusters is not None:
        heeding = with_shared_clusters(bound, [v for _, v in sets.values], sets.contrasts)
        sets = replace(sets, values=[(c, v) for (c, _), v in zip(sets.values, heeding, strict=True)])
    names = sets.cell_names(bound.tails)
    found, method, needed = _bounds(bound, sets, rows, alpha)
    method = method_of_rows(method, rows)
    groups = {name: int(n) for name, n in zip(names, sets.joined("rows"), strict=True)}
    why, c = too_few_for_means(sets, names) or nothing_over_nothing(bound, sets), np.abs(sets.coefficient[found.worst])
    deciding = [names[i] for i in sets.index[found.worst][c > c.max() / 2]]
    return finding(bound, rows, found, sets.name, groups, method, needed, missing=missing, why=why) | {
        "worst_groups": {name: groups[name] for name in deciding},
        **_clusters(sets, names),
    }


def _clusters(sets: Sets, names: Sequence[str]) -> Finding:
    """In how many clusters the rows of each group come; {} where they are independent."""
    counts = [np.diff(v.moved.indptr) for _, v in sets.values if v.moved is not None]
    return {"group_clusters": dict(zip(names, np.concatenate(counts).tolist(), strict=True))} if counts else {}


def _bounds(bound: Any, sets: Sets, rows: Scored, alpha: float) -> tuple[GapBounds, str, Callable[[], int | None]]:
    """Bounds of the value, the name of the method, and a function that gives the number of rows that would decide."""
    contrasts, trials = sets.contrasts, sets.joined("trials")
    shares, one = trials / max(rows.total, 1), sets.values[0][1]
    if one.means is not None:
        return loss_bounds(bound, sets, contrasts, shares, alpha, rows.power)
    successes = sets.joined("successes")
    share = quotient(successes, trials)
    ratios = bound.compares == "ratios"
    needed = lambda: rate_rows_needed(  # noqa: E731
        share, shares, contrasts, 0.0 if ratios else float(bound.bound), alpha, one.transform, rows.power
    )
    if ratios:
        found = ratio_bounds(successes, trials, sets.index[:, ::-1], alpha)
        estimates = _contrast_estimates(bound, sets)  # two rates of 0 are alike
        worst = int(np.argmin(np.where(np.isnan(estimates), np.inf, estimates)))
        found = replace(found, estimates=estimates, worst=worst, value=float(estimates[worst]))
        return found, OF_RATIOS, needed
    found = rate_bounds(successes, trials, contrasts, alpha, transform=one.transform)
    if sets.between is not None:
        found = found.within(2.0 if bound.summed else 1.0)
    what = "differences" if bound.compares == "differences" else "sums"
    return found, method_of_rates(what, contrasts, alpha, one.transform is not None), needed


def nothing_over_nothing(bound: Any, sets: Sets) -> str | None:
    """That a ratio is one of 0 to 0, where every rate that it compares is 0; None elsewhere."""
    if bound.compares != "ratios" or sets.values[0][1].means is not None or sets.joined("successes").any():
        return None
    zero = "Nobody is selected in any group" if bound.name == "demographic_parity_ratio" else "Every rate compared is 0"
    return f"{zero}, and the ratio of 0 to 0 is taken as 1."


def too_few_for_means(sets: Sets, names: Sequence[str]) -> str | None:
    """The groups that have too few rows for bounds of means without a range; None where there are none."""
    of = sets.values[0][1]
    if of.means is None or of.largest is not None:
        return None
    trials, rows = sets.joined("trials"), sets.joined("rows")
    few = trials < ASYMPTOTIC_ROWS
    if not few.any():
        return None
    effective, rule = not np.allclose(trials[few], rows[few]), f"Means are judged from {ASYMPTOTIC_ROWS}"
    each = [
        f"{name} ({n:.4g} of {of:,} rows)" if effective else f"{name} ({n:.4g})"
        for name, n, of in zip(np.asarray(names)[few], trials[few], rows[few].astype(int), strict=True)
    ]
    if effective:
        rule += (
            " effective held-out rows of every group on (how many independent rows of equal weight would be as sure)"
        )
    else:
        rule += " held-out rows of every group on"
    return f"{rule}; fewer have {shortlist(each)}."


def loss_bounds(
    bound: Any, sets: Sets, contrasts: Contrasts, shares: np.ndarray, alpha: float, power: float
) -> tuple[GapBounds, str, Callable[[], int | None]]:
    mean, variance = sets.joined("means"), sets.joined("variances")
    least, largest = sets.values[0][1].least, sets.values[0][1].largest
    if largest is None:
        found = welch_bounds(mean, variance, sets.joined("trials"), contrasts, alpha)
        needed = lambda: mean_rows_needed(mean, variance, shares, contrasts, float(bound.bound), alpha, power=power)  # noqa: E731
        return found, method_of_means(bound, contrasts), needed
    cells, offset = [], 0
    for _, of in sets.values:
        assert of.cells is not None
        cells.append(np.where(of.cells >= 0, of.cells + offset, -1))
        offset += of.trials.size
    weights = None if sets.values[0][1].weights is None else sets.joined("weights")
    found = mean_bounds(
        sets.joined("losses"), np.concatenate(cells), offset, contrasts, alpha, low=least, high=largest, weights=weights
    )
    method = method_of_bets(bound, contrasts, least, largest, weights is not None)
    needed = lambda: mean_rows_needed(  # noqa: E731
        mean, variance, shares, contrasts, float(bound.bound), alpha, low=least, high=largest, power=power
    )
    return found, method, needed


def judge_shares(
    bound: Any,
    rows: Scored,
    shares: Sequence[tuple[str, np.ndarray, np.ndarray]],
    index: np.ndarray,
    coefficient: np.ndarray,
    name: Callable[[int], str],
    alpha: float,
) -> Finding:
    """The verdict on the largest of m weighted sums of shares, sum_t coefficient[i, t] share[index[i, t]] <= bound.

    shares: (name, among, hit), the share of the rows `among` (n,) that are `hit` (n,); those of one sum have no row in
    common. index, coefficient: (m, t). name: of the i-th sum.
    """
    base = stated_facts(bound, rows) | {"groups": {said: int(rows.mass[0][among].sum()) for said, among, _ in shares}}
    if not len(index) or not all(base["groups"].values()):
        empty = [said for said, n in base["groups"].items() if not n]
        why = unmeasured(empty) if empty else "There is nothing to compare."
        return base | nothing_found(why) | {"groups": base["groups"]}
    everyone = np.zeros(len(rows), dtype=np.int64)
    one, sums = (
        Values.of_shares([share_values(hit, among, rows, everyone, 1) for _, among, hit in shares]),
        Contrasts(index, coefficient),
    )
    if rows.clusters is not None:
        (one,) = with_shared_clusters(bound, [one], sums)
    successes, trials = one.successes[:, 0], one.trials[:, 0]
    found = rate_bounds(successes, trials, sums, alpha)
    share = quotient(successes, trials)
    method = method_of_rates("sums", sums, alpha)
    return finding(
        bound, rows, found, name, base["groups"], method_of_rows(method, rows),
        lambda: rate_rows_needed(share, trials / rows.total, sums, float(bound.bound), alpha, power=rows.power),
    )  # fmt: skip


def judge_share(bound: Any, name: str, rows: Scored, among: np.ndarray, hit: np.ndarray, alpha: float) -> Finding:
    """The verdict on one share of the rows `among` (n,): those that are `hit`, with exact binomial bounds."""
    groups = {name: int(rows.mass[0][among].sum())}
    successes, trials = (float(v) for v in share_of(hit, among, rows))
    if trials <= 0:
        why = f"No held-out row has the label {name.removeprefix('class ')}."
        return stated_facts(bound, rows) | nothing_found(why) | {"groups": groups}
    found = share_bounds(successes, trials, alpha)
    method = "Clopper-Pearson (exact binomial) on the rows of the class, Bonferroni over stated bounds"
    return finding(
        bound, rows, found, lambda _: name, groups, method_of_rows(method, rows),
        lambda: share_rows_needed(found.value, trials / rows.total, bound.bound, alpha, rows.power),
    ) | {"worst": None}  # fmt: skip
