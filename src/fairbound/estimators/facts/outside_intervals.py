"""Notes on bounds on decisions within percentile intervals that a model meets as no decision changes within them."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from fairbound.estimators.trained import decisions
from fairbound.fairness.percentiles.interval_shares import WithinShares
from fairbound.fairness.problem import FairProblem


def outside_intervals(problem: FairProblem, x: Tensor) -> list[str]:
    """For each such bound a note, where at x (n,) all training rows of a group's interval have one decision, the same in all
    groups. Empty where the model decides all rows alike, and where other processes hold rows too."""
    plan = problem.plan
    if not any(isinstance(statistic, WithinShares) for statistic in plan.statistics) or not problem.shards.alone:
        return []
    if len(decisions(problem, x).unique()) < 2:
        return []
    scores, batch, z = problem.all_scores(x), problem.full(), problem.split(x)[1]
    ends = plan.n_cells + 1 + np.cumsum([0, *(s.size for s in plan.statistics)])
    every = zip(plan.statistics, ends[:-1], ends[1:], strict=True)
    parts = [one for one in every if isinstance(one[0], WithinShares)]
    said = []
    for number, bound in enumerate(plan.notions):
        rows = plan.rows_of(number)
        read = plan.index[rows[rows < len(plan.index)]]
        own = [s for s, first, after in parts if ((read >= first) & (read < after)).any()]
        shares = [statistic.value(scores, z, batch, True)[0].cpu().numpy() for statistic in own]
        said += [bound.outside_words(shares)] if shares else []
    return [note for note in said if note]
