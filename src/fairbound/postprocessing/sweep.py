"""One threshold for all rows, swept over every value that tells rows apart: the error and all bounds at each,
at once. The error is the share of wrong decisions, each of which counts with its cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from fairbound.fairness.compiled.plan import Plan
from fairbound.postprocessing.costs import EQUAL
from fairbound.postprocessing.curves import Curve, between
from fairbound.postprocessing.program import Program, program_of
from fairbound.postprocessing.spans import Span, spans_of

MOST = 1 << 22  # entries of (thresholds, atoms) that are held at a time
ROUNDING = 1e-9  # an excess over a bound that is none


@dataclass(frozen=True)
class Sweep:
    """n rows of C groups under a plan whose bounds are weighted sums of rates.

    atom: (n,) 2 * group + label of every row. weight: (n,) >= 0. program: of the groups; see `Program`.
    """

    atom: np.ndarray
    weight: np.ndarray
    program: Program

    @property
    def bounds(self) -> np.ndarray:
        """(m,) the bounds of the inequalities."""
        return self.program.bounds

    @cached_property
    def cost(self) -> np.ndarray:
        """(2 C,) what selecting a unit of weight of an atom adds to the share of wrong decisions."""
        return np.tile(self.program.unit_costs, len(self.program.curves))

    def gains(self, multipliers: np.ndarray) -> np.ndarray:
        """(n,) by how much selecting each row lowers error + multipliers . g."""
        return self.weight * self.worth(multipliers)[self.atom]

    def worth(self, multipliers: np.ndarray) -> np.ndarray:
        """(2 C,) by how much selecting a unit of weight of an atom lowers error + multipliers . g."""
        return -(self.cost + self.program.matrix.T @ multipliers)

    def excess(self, selected: np.ndarray) -> np.ndarray:
        """(m,) the inequalities' excess where the rows `selected` (n,) in {0, 1} are."""
        return self.program.fixed + self.program.matrix @ self._of_atoms(selected)

    def error(self, selected: np.ndarray) -> float:
        """The share of wrong decisions where the rows `selected` (n,) in {0, 1} are."""
        return float(self.errors(self._of_atoms(selected)[None])[0])

    def _of_atoms(self, selected: np.ndarray) -> np.ndarray:
        """(2 C,) the weight of every atom that the rows `selected` have."""
        return np.bincount(self.atom, self.weight * selected, len(self.cost))

    def errors(self, selected: np.ndarray) -> np.ndarray:
        """(k,) the share of wrong decisions of what is selected of every atom (k, 2 C)."""
        return self.program.fixed_cost + selected @ self.cost

    @cached_property
    def _compared(self) -> tuple[list[Span], sparse.csr_array, np.ndarray]:
        """Bounds between every two of some cells, and the other inequalities, A q <= bounds."""
        spans, other = spans_of(self.program.contrasts, self.bounds)
        return spans, self.program.contrasts[other], self.bounds[other]

    def largest(self, selected: np.ndarray) -> np.ndarray:
        """(k,) the largest excess over a bound of what is selected of every atom (k, 2 C), where there is one."""
        spans, contrasts, bounds = self._compared
        means = self.program.base[:, None] + self.program.slope @ selected.T
        found = [span.largest(means) for span in spans]
        return np.max([*found, *([(contrasts @ means - bounds[:, None]).max(0)] if len(bounds) else [])], axis=0)

    def _judged(self, selected: np.ndarray) -> np.ndarray:
        """(2, k) errors and largest excesses."""
        return np.stack([self.errors(selected), self.largest(selected)])

    def selected(self, scores: np.ndarray, most: int) -> np.ndarray:
        """(k, 2 C) what thresholds select of every atom, the first of them nothing and the last all; k is at most
        `most` + 1, of distinct scores at equal shares of the rows where there are more."""
        levels = np.unique(scores)[::-1]
        if len(levels) > most:
            levels = np.unique(np.quantile(scores, np.arange(most) / most, method="lower"))[::-1]
        step = np.searchsorted(-levels, -scores)  # of the first level that is not above
        width = len(self.cost)
        sums = np.bincount(step * width + self.atom, self.weight, len(levels) * width).reshape(-1, width)
        return np.concatenate([np.zeros((1, width)), np.cumsum(sums, axis=0)])

    def best(self, scores: np.ndarray, own: float) -> tuple[float, float, float]:
        """The threshold of lowest error under the bounds, or of least excess where none meets them, its largest excess
        and its error. own: taken where no other threshold is better. scores: (n,);
        a row is selected where its score is above."""
        order = np.argsort(-scores, kind="stable")
        s = scores[order]
        last = np.append(s[1:] != s[:-1], True)
        thresholds = np.concatenate([[np.inf], np.append(between(s[:-1], s[1:]), -np.inf)[last]])
        width = len(self.cost)
        taken, parts = np.zeros((1, width)), [self._judged(np.zeros((1, width)))]
        rows = max(1, MOST // width)
        for some in (slice(start, start + rows) for start in range(0, len(s), rows)):
            one = np.zeros((len(s[some]), width))
            one[np.arange(len(one)), self.atom[order[some]]] = self.weight[order[some]]
            taken = taken[-1] + np.cumsum(one, axis=0)
            parts.append(self._judged(taken[last[some]]))
        error, worst = np.concatenate(parts, axis=1)
        met = worst <= ROUNDING
        value = np.where(met, error, np.inf) if met.any() else worst
        at = int(np.argmin(value))
        mine = int(np.count_nonzero(last[: np.searchsorted(-s, -own, side="left")]))
        if value[mine] <= value[at]:
            return own, float(worst[mine]), float(error[mine])
        return float(thresholds[at]), float(worst[at]), float(error[at])


def sweep_of(
    plan: Plan, codes: np.ndarray, target: np.ndarray, weight: np.ndarray, costs: tuple[float, float] = EQUAL
) -> Sweep:
    """The sweep of rows with groups codes (n, A), labels (n,) in {0, 1} and weights (n,). costs: of a false positive and
    of a false negative; an error of the dearer kind counts 1.

    Raises: OptionError where a bound is no weighted sum of rates of decisions.
    """
    found, group = np.unique(codes, axis=0, return_inverse=True)
    atom = 2 * group.ravel() + target
    totals = np.bincount(atom, weight, 2 * len(found)).reshape(-1, 2)
    ends = np.array([np.inf, -np.inf])
    curves = tuple(Curve(ends, np.stack([np.zeros(2), total])) for total in totals)
    return Sweep(atom, weight, program_of(plan, found, curves, (costs[0] / max(costs), costs[1] / max(costs))))
