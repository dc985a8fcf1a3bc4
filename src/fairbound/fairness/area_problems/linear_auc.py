"""An exact solver: the linear score of largest AUC under a bound `auc_parity`, both by quadratic surrogates.

    min over w of L[+, -]    subject to    L[G1', G1] + L[G2, G2'] - 1 <= kappa for every comparison, in both directions,
    L[a, b] = E c1 (w.x - w.x' - 1)^2 = c1 (w'(S_a + S_b) w + ((m_a - m_b).w - 1)^2)

with m, S the means and covariances of the features in the sets a and b: one pass over the rows, then d variables. kappa
bounds the surrogate; measure the true difference of areas of the scores with `fb.measure`.

Source: Yao, Lin, Yang (2023), (6) with the quadratic loss; the exact solution is this library's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairbound.base.errors import DataError, OptionError
from fairbound.fairness.area_problems.row_saddle import PairSums
from fairbound.fairness.areas.compared import Comparisons
from fairbound.fairness.notions.auc import AUCParity, area_bound
from fairbound.rows.groups import Groups, cross
from fairbound.rows.labels import read_targets
from fairbound.rows.moments import Moments
from fairbound.rows.occurring import Occurring
from fairbound.subproblems.quadratic_set import QuadraticSet
from fairbound.subproblems.quadratics import QuadraticProgram, QuadraticSolution


@dataclass(frozen=True)
class LinearScores:
    """weights: (d,) of the score w.x. loss: L[+, -]. differences: (m,) surrogates of the differences of areas, each at
    most kappa. multipliers: (m,) >= 0. gap: how far the loss may lie above the optimum."""

    weights: np.ndarray
    loss: float
    differences: np.ndarray
    multipliers: np.ndarray
    gap: float
    kappa: float


class LinearAUC:
    """The optimisation problem of one bound. Of the rows only moments are kept.

    bound: an `auc_parity` over one set of attributes; its surrogate must be quadratic, and the objective uses its c1.
    quadratics: A (m, d, d), b (m, d) and c (m,) of the surrogates w'Aw + b'w + c of the m differences, with 1/2 itself
        where an area is compared with it (`solve` compares with the pairs of one set, whose area is 1/2).
    moments: of cells label * (G + 1) + group, with group G for rows whose group is not known, as `moments_of` gives
        them.
    Raises: EmptyGroupError for a group without the rows that the bound needs; OptionError for another bound.
    """

    def __init__(self, bound: str | AUCParity, occurring: Occurring, moments: Moments):
        stated = area_bound(bound, "the exact solver", 0.0)
        found = _comparisons(stated, occurring)
        sets, sides = _sets_and_sides(found)
        own = moments.of_sets(sets)
        if not own.weight.all():
            raise DataError("the moments lack rows of a set that is compared; give those of all rows.")
        mean, covariance = own.mean, own.covariance
        first, second, third, fourth = sides.T
        c1, zero = stated.c1, np.zeros(1, dtype=np.int64)

        def loss(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            gap = mean[a] - mean[b]
            return c1 * (covariance[a] + covariance[b] + gap[:, :, None] * gap[:, None, :]), -2 * c1 * gap

        parts = [loss(zero, zero + 1), loss(second, first), loss(third, fourth)]
        A = np.concatenate([parts[0][0], parts[1][0] + parts[2][0]])
        b = np.concatenate([parts[0][1], parts[1][1] + parts[2][1]])
        self._c = np.r_[c1, np.full(len(found), 2 * c1 - 1)]
        self.names = [found.name(i) for i in range(len(found))]
        alone = stated.kind in ("group", "positive", "negative")  # compared with 1/2, not with pairs of one set
        self.quadratics = (*parts[1], np.full(len(found), c1 - 0.5)) if alone else (A[1:], b[1:], self._c[1:])
        self._program = QuadraticProgram(A, b, self._c)

    @classmethod
    def of(
        cls, bound: str | AUCParity, features: Any, y: Any, sensitive_features: Any, *, sample_weight: Any = None
    ) -> LinearAUC:
        """From rows: features (n, d), dense or sparse; y (n,) in {0, 1}; sensitive_features as in `audit`."""
        groups = Groups.of(sensitive_features)
        target = read_targets(y, len(groups))
        if target is None:
            raise DataError("the labels y are needed.")
        occurring = Occurring.of(groups, target)
        moments = moments_of(bound, groups, target, features, sample_weight)
        return cls(bound, occurring, moments)

    def solve(self, kappa: float, start: LinearScores | None = None) -> LinearScores:
        """The optimum with surrogates of at most kappa >= 0. start: the solution for another kappa; Newton's method
        begins at its multipliers. Raises: OptionError for kappa below 0; SubproblemError where no linear score meets
        it."""
        if not kappa >= 0:
            raise OptionError(f"kappa must be at least 0, got {kappa}.")
        found: QuadraticSolution = self._program.solve(
            self._c - np.r_[0.0, np.full(len(self.names), kappa)], None if start is None else start.multipliers
        )
        return LinearScores(found.x, found.f, found.g + kappa, found.multipliers, found.gap, kappa)


def quadratic_set(bound: str | AUCParity, features: Any, y: Any, sensitive_features: Any, kappa: float) -> QuadraticSet:
    """The weights w of linear scores w.x whose quadratic surrogate of `bound` is at most kappa >= 0 in both directions;
    what follows w in x, such as an intercept, is free. Rows as in `LinearAUC.of`.

    Source: He, Huang, Yao, Lin (2026), (102), (105), (107).
    """
    program = LinearAUC.of(bound, features, y, sensitive_features)
    A, b, c = program.quadratics
    return QuadraticSet(A, b, c - kappa)


def pair_sums(bound: str | AUCParity, occurring: Occurring, kappa: float) -> PairSums:
    """The sums of pair losses that `RowSaddle` bounds by kappa for this bound; cells as in `LinearAUC`."""
    sets, sides = _sets_and_sides(_comparisons(bound, occurring))
    pairs = [(0, 0, 1)]
    for i, (first, second, third, fourth) in enumerate(sides.tolist(), start=1):
        pairs += [(i, second, first), (i, third, fourth)]
    return PairSums(sets, tuple(pairs), (0.0, *[-1.0 - kappa] * len(sides)))


def cells_of(groups: Groups, target: np.ndarray, attributes: Sequence[int]) -> np.ndarray:
    """(n,) the cell of each row, label * (G + 1) + group, of G crossed groups; group G where it is not known."""
    sizes = [len(groups.labels[a]) for a in attributes]
    codes, G = cross([groups.codes[:, a] for a in attributes], sizes), int(np.prod(sizes))
    return target * (G + 1) + np.where(codes < 0, G, codes)


def attributes_of(bound: str | AUCParity, occurring: Occurring) -> tuple[int, ...]:
    """The attributes whose groups the bound compares."""
    return _comparisons(bound, occurring).compared.attributes


def _sets_and_sides(found: Comparisons) -> tuple[np.ndarray, np.ndarray]:
    """(2 + S, 2 (G + 1)) sets of cells: all positives, all negatives, and those compared; (m,
    4) which of them are compared."""
    G = found.sets.shape[1] // 2
    sets = np.pad(found.sets.reshape(-1, 2, G), ((0, 0), (0, 0), (0, 1))).reshape(-1, 2 * (G + 1))
    everyone = np.repeat([[False, True], [True, False]], G + 1, axis=1)
    place = np.zeros(len(found.sets), dtype=np.int64)
    place[found.used] = 2 + np.arange(len(found.used))
    return np.concatenate([everyone, sets[found.used]]), place[found.sides]


def moments_of(
    bound: str | AUCParity, groups: Groups, target: np.ndarray, features: Any, sample_weight: Any = None
) -> Moments:
    """The moments of some rows, as `LinearAUC` takes them. Moments of parts of a table can be merged."""
    of_all = replace(
        area_bound(bound, "the exact solver", 0.0), fewest=None
    )  # groups that are left out keep their cells
    compared = _comparisons(of_all, Occurring.every(groups.attributes, groups.labels)).compared
    cells = cells_of(groups, target, compared.attributes)
    return Moments.of(features, cells, 2 * (int(np.prod(compared.sizes)) + 1), sample_weight)


def _comparisons(bound: str | AUCParity, occurring: Occurring) -> Comparisons:
    stated = area_bound(bound, "the exact solver", 0.0)
    if stated.surrogate != "quadratic":
        raise OptionError("the exact solver takes auc_parity[..., surrogate=quadratic].")
    made = stated.differences(occurring)
    if len(made) > 1:
        raise OptionError(f"{stated.text!r} compares {len(made)} attributes apart; name one, by=..., or take crossed.")
    return made[0][0]
