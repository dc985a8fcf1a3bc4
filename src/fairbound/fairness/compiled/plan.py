"""Compiled bounds: which rows form which cells, what is computed from the cells' means, and which numbers must be <= 0.

A *cell* is a set of rows over which a bound needs a mean: a group, a group's positives, the rows of a class.
*Quantities* are the cells' means and, after them, what some bounds need besides: the mean loss, statistics of a whole
batch, auxiliary variables, and ratios of two quantities. A *contrast* is an inequality
`sum_t coef_t q[idx_t] - bound <= 0` in the quantities; an absolute value makes two. A *combination* is any other
function of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from fairbound.base.names import Names
from fairbound.confidence.contrasts import mirrored
from fairbound.fairness.compiled.forms import Auxiliary, Combination, Function, Statistic
from fairbound.rows.groups import cross


@dataclass(frozen=True)
class CellColumn:
    """A partition of rows into cells, over which one row function is averaged.

    attributes: indices into Groups.attributes; () is one group, all rows with every attribute of `known` known.
    sizes: number of groups per attribute. conditions: a cell of each group for the rows of each of these labels;
    (None,) for all of its rows. offset: number of its first cell. without: the number of groups of each attribute of
    `known`, and the codes in their crossing of groups whose rows are in no cell; empty where there are none.
    """

    attributes: tuple[int, ...]
    known: tuple[int, ...]
    sizes: tuple[int, ...]
    conditions: tuple[int | None, ...]
    offset: int
    function: Function
    without: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    @property
    def groups(self) -> int:
        return int(np.prod(self.sizes)) if self.attributes else 1

    @property
    def cells(self) -> int:
        return self.groups * len(self.conditions)


@dataclass(frozen=True)
class BestOff:
    """Contrasts `rows` compare with the one of `quantities` that is best off, the highest (sign 1) or the lowest (-1):
    it stands in the first place of their index."""

    rows: tuple[int, ...]
    quantities: tuple[int, ...]
    sign: int


@dataclass(frozen=True)
class Objective:
    """What is minimised in place of the mean loss: the sum of coefficient times quantities, or their largest."""

    index: tuple[int, ...]
    coefficient: tuple[float, ...]
    how: Literal["sum", "max"] = "sum"


@dataclass(frozen=True)
class Plan:
    """Compiled bounds: K cells, Q quantities, m constraints, the first of them contrasts of up to t terms.

    notions: the stated bounds. index, coefficient: (m_c, t) of the m_c contrasts; bounds: (m_c,). ratios: (R, 2)
    quantities whose quotients are the last R quantities. combinations: of the constraints after the contrasts;
    combined_cells: the cells that each of them reads.
    notion_of: (m,) number of the bound that each constraint belongs to. spare: (m,) slack, a share of which a method
    may keep as margin.
    dropped: groups left out for want of rows; dropped_rows: how many rows each of them has.
    """

    notions: tuple[Any, ...]
    columns: tuple[CellColumn, ...]
    index: np.ndarray
    coefficient: np.ndarray
    bounds: np.ndarray
    names: Sequence[str]
    cell_names: tuple[str, ...]
    notion_of: np.ndarray
    spare: np.ndarray
    best: tuple[BestOff, ...] = ()
    dropped: tuple[str, ...] = ()
    dropped_rows: tuple[int, ...] = ()
    ratios: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))
    statistics: tuple[Statistic, ...] = ()
    auxiliaries: tuple[Auxiliary, ...] = ()
    combinations: tuple[Combination, ...] = ()
    combined_cells: tuple[tuple[int, ...], ...] = ()
    objective: Objective | None = None

    @property
    def m(self) -> int:
        return len(self.notion_of)

    @property
    def n_cells(self) -> int:
        return len(self.cell_names)

    @property
    def functions(self) -> tuple[Function, ...]:
        """The distinct row functions that the columns average."""
        return tuple(dict.fromkeys(c.function for c in self.columns))

    def cells_averaging(self, function: Function) -> np.ndarray:
        """(k,) the cells over whose rows a row function is averaged."""
        own = [np.arange(c.offset, c.offset + c.cells) for c in self.columns if c.function == function]
        return np.concatenate([np.zeros(0, dtype=np.int64), *own])

    @cached_property
    def beyond_means(self) -> bool:
        """Whether something else is computed than contrasts of cell means and of their ratios, the objective among them
        or the mean loss."""
        return bool(self.statistics or self.auxiliaries or self.combinations or (self.objective and not self.joint))

    @property
    def ranks(self) -> bool:
        """Whether a single statistic is minimised: the area under the ROC curve, which looks at the order of scores."""
        return self.objective is not None and len(self.objective.index) == 1 and self.objective.index[0] > self.n_cells

    @cached_property
    def uses_means(self) -> bool:
        """Whether cell means matter: a bound on scores alone names cells, to know the rows of each group,
        but needs no mean."""
        named = [self.index[self.coefficient != 0], *([self.objective.index] if self.objective else [])]
        parts = (self.best, self.combinations, len(self.ratios))
        return any(map(bool, parts)) or any((np.asarray(n) < self.n_cells).any() for n in named)

    @cached_property
    def joint(self) -> Plan | None:
        """A plan of 1 + m contrasts, the objective before the m;
        None where it is no sum of cell means beside contrasts."""
        f = self.objective
        parts = (self.statistics, self.auxiliaries, self.combinations, self.best)
        if f is None or f.how != "sum" or any(parts) or len(self.ratios) or max(f.index) >= self.n_cells:
            return None
        wide = max(len(f.index), self.index.shape[1])

        def under(first: Sequence[float], rows: np.ndarray) -> np.ndarray:
            out = np.zeros((1 + len(rows), wide), dtype=rows.dtype)
            out[0, : len(first)], out[1:, : rows.shape[1]] = first, rows
            return out

        return replace(
            self,
            index=under(f.index, self.index),
            coefficient=under(f.coefficient, self.coefficient),
            bounds=np.r_[0.0, self.bounds],
            spare=np.r_[0.0, self.spare],
            notion_of=np.r_[-1, self.notion_of],
            names=Names([(1, lambda _: "objective"), (self.m, self.names.__getitem__)]),
            objective=None,
        )

    @property
    def unbiased(self) -> bool:
        """Whether values and gradients on a balanced batch of rows of equal weight are unbiased: all is linear in the
        means. Of weighted rows those of statistics are not, whose means are over the weights of the batch."""
        curved = self.objective is not None and self.objective.how == "max"
        parts: list[Any] = [*self.statistics, *self.combinations]
        return not (self.best or len(self.ratios) or curved) and all(p.unbiased for p in parts)

    @cached_property
    def mirrored(self) -> dict[int, int]:
        """Constraints that have the negative of an earlier one's gradient: the other side of |a - b| <= bound."""
        return {} if self.best else mirrored(self.index, self.coefficient)

    @cached_property
    def cells_of(self) -> np.ndarray:
        """(m_c, t) the cell behind each term: of a ratio its denominator's; K where there is none."""
        behind = np.full(self.quantities, self.n_cells, dtype=np.int64)
        behind[: self.n_cells] = np.arange(self.n_cells)
        if len(self.ratios):
            behind[-len(self.ratios) :] = behind[self.ratios[:, 1]]
        return np.where(self.coefficient != 0, behind[self.index], self.n_cells)

    def differences(self, one: int, other: int) -> np.ndarray:
        """Numbers of the contrasts that are a mean over group `one` less that over group
        `other`: codes of groups of one attribute."""
        group_of = np.full(self.n_cells + 1, -1)
        for column in self.columns:
            if len(column.attributes) == 1:
                group_of[column.offset : column.offset + column.cells] = np.arange(column.cells) % column.groups
        groups, c = group_of[self.cells_of], self.coefficient
        fits = [((c == sign) & (groups == group)).sum(1) == 1 for sign, group in ((1, one), (-1, other))]
        return np.flatnonzero(np.all([*fits, (c != 0).sum(1) == 2], 0))

    @property
    def quantities(self) -> int:
        """Q: cells, and beyond means the mean loss, statistics and auxiliaries; then ratios."""
        more = 1 + sum(s.size for s in self.statistics) + sum(a.size for a in self.auxiliaries)
        return self.n_cells + (more if self.beyond_means else 0) + len(self.ratios)

    def cells(self, codes: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """(n, C) cell of each row in each column, in the smallest integers that hold it; K (one past the last) where
        the row is in none.

        codes: (n, A) group codes, -1 missing; targets: (n,) labels in {0, 1}, or class numbers.
        """
        out = np.empty((len(targets), len(self.columns)), dtype=np.min_scalar_type(-self.n_cells - 1))
        for j, column in enumerate(self.columns):
            group = (
                cross([codes[:, a] for a in column.attributes], column.sizes)
                if column.attributes
                else np.where((codes[:, list(column.known)] >= 0).all(axis=1), 0, -1)
            )
            if column.without[1]:
                own = cross([codes[:, a] for a in column.known], column.without[0])
                group = np.where(np.isin(own, column.without[1]), -1, group)
            part: Any = 0
            if column.conditions != (None,):
                part = np.full(len(targets), -1, dtype=np.int64)
                for position, label in enumerate(column.conditions):
                    part[targets == label] = position
            inside = (group >= 0) & (part >= 0)
            out[:, j] = np.where(inside, column.offset + part * column.groups + group, self.n_cells)
        return out

    def counts(self, codes: np.ndarray, targets: np.ndarray, each: np.ndarray | None = None) -> np.ndarray:
        """(K,) rows in every cell. codes, targets: as in `cells`; each: (n,) how many rows each one stands for, None for
        one."""
        cells = self.cells(codes, targets)
        weights = None if each is None else np.repeat(each, cells.shape[1])
        return np.bincount(cells.ravel(), weights, self.n_cells + 1)[:-1].astype(np.int64)

    def rows_of(self, notion: int) -> np.ndarray:
        """Constraints that state the given notion."""
        return np.flatnonzero(self.notion_of == notion)

    def used_cells(self, rows: np.ndarray | None = None) -> np.ndarray:
        """Cells behind the contrasts `rows` (all of them by default), in order."""
        cells = np.unique(self.cells_of if rows is None else self.cells_of[rows[rows < len(self.index)]])
        return cells[cells < self.n_cells]

    def touched(self, cells: Iterable[int]) -> tuple[list[str], list[str]]:
        """Names of the contrasts that use one of `cells`, and of those cells; K (no cell) is passed over."""
        inside = np.unique([c for c in cells if c < self.n_cells]).astype(np.int64)
        rows = np.isin(self.cells_of, inside).any(axis=1)
        return [self.names[i] for i in np.flatnonzero(rows)[:100]], [self.cell_names[c] for c in inside]
