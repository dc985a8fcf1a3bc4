"""The lowest cost of wrong decisions that mixtures of thresholds reach under bounds on rates, with a certificate.

A group's mixtures select every convex combination of the corners of its ROC curve, so the best of them is a linear
program in the weights of the corners. The multipliers y >= 0 of its inequalities give a lower bound without the solver,
    cost >= fixed + y . g0 + sum over groups of the least (cost + G'y) . s over all thresholds,
which holds for every rule that decides by thresholds in groups, at random or not.

Source: Hardt, Price, Srebro (2016), sections 3 and 4.1. Departs: any number of groups, bounds that are not 0, and every
    bound that is linear in the rates; the corners of the curve in place of its functions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from fairbound.base.errors import FairboundError
from fairbound.postprocessing.curves import corners
from fairbound.postprocessing.program import Program

TOLERANCES = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
NEGLIGIBLE = 1e-11  # a smaller weight of a corner is none

Span = tuple[int, int]


@dataclass(frozen=True)
class Mixture:
    """Of every group the thresholds that are mixed and how often each is taken; cost: of the program.

    points, shares: for each group numbers of its curve's points, in order, and their shares, with sum 1.
    """

    points: tuple[np.ndarray, ...]
    shares: tuple[np.ndarray, ...]
    cost: float
    multipliers: np.ndarray

    def selected(self, program: Program) -> np.ndarray:
        """(C, 2) weight of the selected rows of each group and label, in the mean."""
        parts = zip(program.curves, self.points, self.shares, strict=True)
        return np.array([share @ curve.selected[points] for curve, points, share in parts])


class Relaxation:
    """The program over mixtures, with the points of every group's curve limited to a span of them."""

    def __init__(self, program: Program):
        self.program = program
        self._corners: dict[tuple[int, Span], np.ndarray] = {}

    def solve(self, spans: list[Span]) -> Mixture | None:
        """The best mixture of the points first, ..., last of every group; None where none meets the bounds."""
        program, cells = self.program, len(self.program.cells)
        points = [self._corners_of(c, span) for c, span in enumerate(spans)]
        selected, columns = self._selected(points)
        width = len(selected)
        cost = np.concatenate([selected @ program.unit_costs, np.zeros(cells)])
        means = sparse.hstack([program.slope @ columns, -sparse.eye_array(cells)])
        found = linprog(
            cost,
            A_ub=sparse.hstack([sparse.csr_array((len(program.bounds), width)), program.contrasts], format="csc"),
            b_ub=program.bounds,
            A_eq=sparse.vstack([_sums_of_shares(points, cells), means], format="csc"),
            b_eq=np.concatenate([np.ones(len(points)), -program.base]),
            bounds=[(0, None)] * width + [(None, None)] * cells,
            method="highs",
            options=TOLERANCES,
        )
        if found.status == 2:
            return None
        if found.status != 0:
            raise FairboundError(f"the linear program of the thresholds was not solved: {found.message}")
        ends = np.cumsum([len(p) for p in points])[:-1]
        kept, shares = [], []
        for numbers, part in zip(points, np.split(found.x[:width], ends), strict=True):
            some = part > NEGLIGIBLE
            kept.append(numbers[some])
            shares.append(part[some] / part[some].sum())
        multipliers = np.maximum(-found.ineqlin.marginals, 0.0)
        return Mixture(tuple(kept), tuple(shares), float(found.fun) + program.fixed_cost, multipliers)

    def least_excess(self) -> float:
        """The smallest t >= 0 such that a mixture has G s + g0 <= t."""
        program = self.program
        points = [corners(c.selected, 0, len(c) - 1) for c in program.curves]
        _, columns = self._selected(points)
        found = linprog(
            np.append(np.zeros(columns.shape[1]), 1.0),
            A_ub=sparse.hstack([program.matrix @ columns, -np.ones((len(program.bounds), 1))], format="csc"),
            b_ub=-program.fixed,
            A_eq=_sums_of_shares(points, 1),
            b_eq=np.ones(len(points)),
            method="highs",
            options=TOLERANCES,
        )
        return float(found.fun)

    def _corners_of(self, group: int, span: Span) -> np.ndarray:
        if (group, span) not in self._corners:
            self._corners[group, span] = corners(self.program.curves[group].selected, *span)
        return self._corners[group, span]

    def _selected(self, points: list[np.ndarray]) -> tuple[np.ndarray, sparse.csc_array]:
        """What each point selects, (V, 2), and the same as columns (2 C, V) of the s that it belongs to."""
        selected = np.concatenate([c.selected[p] for c, p in zip(self.program.curves, points, strict=True)])
        group = np.repeat(np.arange(len(points)), [len(p) for p in points])
        column = np.arange(len(selected))
        at = (np.concatenate([2 * group, 2 * group + 1]), np.concatenate([column, column]))
        return selected, sparse.csc_array(sparse.coo_array((selected.T.ravel(), at), (2 * len(points), len(selected))))


def _sums_of_shares(points: list[np.ndarray], more: int) -> sparse.csc_array:
    """(C, V + more) what takes the shares of the V points, and as many variables more, to their sum in each group."""
    group = np.repeat(np.arange(len(points)), [len(p) for p in points])
    entries = (np.ones(len(group)), (group, np.arange(len(group))))
    return sparse.csc_array(sparse.coo_array(entries, (len(points), len(group) + more)))


def lower_bound(program: Program, multipliers: np.ndarray) -> float:
    """A cost that no thresholds, mixed or not, undercut under the bounds; multipliers: any y (m,) >= 0."""
    costs = (multipliers @ program.matrix).reshape(-1, 2) + program.unit_costs
    least = sum(float((c.selected @ cost).min()) for c, cost in zip(program.curves, costs, strict=True))
    return program.fixed_cost + float(multipliers @ program.fixed) + least
