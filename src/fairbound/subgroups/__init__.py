"""Subgroups by the billion: address them, count those that occur, draw some, find the most violated, bound them.

    groups = Groups.of({"sex": ..., "race": ..., "birthplace": ...})
    subgroups = Subgroups.of(groups)                      # an address space; nothing is listed
    cells = occurring(subgroups, groups.codes)            # one pass over the rows
    search = most_violated(cells, scores > 0)             # exact, with a certificate
    fit = bound_subgroups(train, model, X, y, subgroups, groups.codes, "demographic_parity[overall] <= 0.1")

The parts: `index` (numbers and names), `counts` (cells, counts, draws), `lattice` and `search` (branch and bound),
`rounds` (bounds on chosen subgroups, rounds of training and search).
"""

from fairbound.subgroups.counts import OccurringCells, occurring
from fairbound.subgroups.index import Subgroups
from fairbound.subgroups.rounds import (
    Round,
    SubgroupFit,
    bound_subgroups,
    subgroup_problem,
    violations,
)
from fairbound.subgroups.search import Found, Search, most_violated

__all__ = [
    "Found",
    "OccurringCells",
    "Round",
    "Search",
    "SubgroupFit",
    "Subgroups",
    "bound_subgroups",
    "most_violated",
    "occurring",
    "subgroup_problem",
    "violations",
]
