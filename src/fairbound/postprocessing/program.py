"""Bounds on rates as inequalities in what each group selects.

Let s (2 C) be the weights of the selected rows of each of C groups and both labels. Every cell mean of a plan that
averages decisions is linear in s, q = (N + B s) / W, and so is every contrast, g = A q - bounds = G s + g0 <= 0, and
the cost of wrong decisions. A contrast with the best-off group is one with every group.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from fairbound.base.errors import OptionError
from fairbound.fairness.bound import Bound
from fairbound.fairness.compiled.plan import CellColumn, Plan
from fairbound.fairness.compiled.statistics import SELECTED, ClassShare, RowFunction, Table
from fairbound.postprocessing.costs import cost_of_constants
from fairbound.postprocessing.curves import Curve

WRONG: Table = ((0, 1), (1, 0))


@dataclass(frozen=True)
class Program:
    """Minimise cost . s subject to G s + g0 <= 0, where s is on every group's curve, or on a mixture of its points.

    curves: C groups. cells: numbers (k,) of the plan's cells that are compared. base, slope: q = base + slope s, (k,)
    and (k, 2 C). contrasts: A (m, k); bounds: (m,); row_of: (m,) the plan's contrast that each belongs to. costs: of a
    false positive and of a false negative.
    """

    curves: tuple[Curve, ...]
    cells: np.ndarray
    base: np.ndarray
    slope: sparse.csr_array
    contrasts: sparse.csr_array
    bounds: np.ndarray
    row_of: np.ndarray
    costs: tuple[float, float]

    @cached_property
    def total(self) -> float:
        """Weight of all rows."""
        return float(sum(c.total.sum() for c in self.curves))

    @cached_property
    def unit_costs(self) -> np.ndarray:
        """(2,) what selecting a unit of weight of label 0 and 1 adds to the mean cost."""
        return np.array([self.costs[0], -self.costs[1]]) / self.total

    @cached_property
    def fixed_cost(self) -> float:
        """The mean cost where nobody is selected."""
        return self.costs[1] * float(sum(c.total[1] for c in self.curves)) / self.total

    @property
    def cost_of_constants(self) -> float:
        """The lower of the mean costs of both answers, each given to all rows."""
        return cost_of_constants(self.costs, sum(float(c.total[1]) for c in self.curves) / self.total)

    @cached_property
    def matrix(self) -> sparse.csc_array:
        """G (m, 2 C)."""
        return sparse.csc_array(self.contrasts @ self.slope)

    @cached_property
    def fixed(self) -> np.ndarray:
        """g0 (m,)."""
        return self.contrasts @ self.base - self.bounds

    def cost(self, s: np.ndarray) -> float:
        """The mean cost of a wrong decision over all rows; s: (C, 2)."""
        return self.fixed_cost + float((s @ self.unit_costs).sum())

    def means(self, s: np.ndarray) -> np.ndarray:
        """(k,) means of the cells compared."""
        return self.base + self.slope @ s.ravel()

    def excess(self, s: np.ndarray) -> np.ndarray:
        """g (m,)."""
        return self.fixed + self.matrix @ s.ravel()


def program_of(plan: Plan, codes: np.ndarray, curves: tuple[Curve, ...], costs: tuple[float, float]) -> Program:
    """The program of a plan's bounds on groups with codes (C, A), -1 where an attribute is not known, and their curves.

    Raises: OptionError where a bound is no weighted sum of rates of decisions.
    """
    check_linear(plan)
    used = plan.used_cells()
    labels = np.tile([0, 1], len(codes))
    cells = plan.cells(np.repeat(codes, 2, axis=0), labels)
    totals = np.concatenate([c.total for c in curves])
    atoms = np.arange(len(labels))
    weight, base = np.zeros(plan.n_cells + 1), np.zeros(plan.n_cells + 1)
    parts = []
    for column, cell in zip(plan.columns, cells.T, strict=True):
        table = _table(column)
        if table is None:
            continue
        t = np.asarray(table, dtype=float)[labels]
        weight += np.bincount(cell, totals, plan.n_cells + 1)
        base += np.bincount(cell, totals * t[:, 0], plan.n_cells + 1)
        parts.append(sparse.coo_array((t[:, 1] - t[:, 0], (cell, atoms)), (plan.n_cells + 1, len(labels))))
    slope = sparse.csr_array(sum(parts, start=sparse.coo_array((plan.n_cells + 1, len(labels)))))[used]
    inverse = 1 / weight[used]
    index, coefficient, row_of = _every_best(plan)
    place = np.zeros(plan.n_cells, dtype=np.int64)
    place[used] = np.arange(len(used))
    some = coefficient != 0
    rows = np.broadcast_to(np.arange(len(index))[:, None], index.shape)
    contrasts = sparse.coo_array((coefficient[some], (rows[some], place[index[some]])), (len(index), len(used)))
    scaled = sparse.csr_array(sparse.diags_array(inverse) @ slope)
    bounds = plan.bounds[row_of]
    return Program(curves, used, base[used] * inverse, scaled, sparse.csr_array(contrasts), bounds, row_of, costs)


def check_linear(plan: Plan) -> None:
    """Raises: OptionError where a bound of the plan is no weighted sum of rates of decisions."""
    odd = [n for n in range(len(plan.notions)) if (plan.rows_of(n) >= len(plan.index)).any()]
    tables = np.ones(plan.quantities, dtype=bool)
    tables[plan.n_cells :] = False
    for column in plan.columns:
        tables[column.offset : column.offset + column.cells] = _table(column) is not None
    rows = ~(tables[plan.index] | (plan.coefficient == 0)).all(1)
    odd += plan.notion_of[: len(plan.index)][rows].tolist()
    if odd:
        bound: Bound = plan.notions[min(odd)]
        raise OptionError(
            f"{bound.text!r} is no weighted sum of selection, error, true and false positive rates, so that thresholds cannot "
            "be fitted to it. State demographic_parity, equal_opportunity, predictive_equality, equalized_odds, "
            "error_rate_parity, false_negative_rate_parity or a ratio of such rates; or train under it with FairClassifier."
        )


def _table(column: CellColumn) -> Table | None:
    """The weights of a column's decisions by label and decision; None where it averages something else."""
    function = column.function
    if isinstance(function, ClassShare):  # of the second class: of two it alone is compared
        return SELECTED
    if not isinstance(function, RowFunction):
        return None
    return WRONG if function.per_class else function.table


def _every_best(plan: Plan) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """index (m, t), coefficient (m, t) and the plan's contrast (m,),
    with a row for each candidate of a best-off group."""
    candidates = {
        row: [q for q in best.quantities if q != plan.index[row, 1]] for best in plan.best for row in best.rows
    }
    times = np.ones(len(plan.index), dtype=np.int64)
    for row, others in candidates.items():
        times[row] = max(1, len(others))
    at = np.repeat(np.arange(len(times)), times)
    index, first = plan.index[at].copy(), np.cumsum(times) - times
    for row, others in candidates.items():
        index[first[row] : first[row] + len(others), 0] = others
    return index, plan.coefficient[at], at
