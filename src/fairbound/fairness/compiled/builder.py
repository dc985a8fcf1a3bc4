"""Stated bounds -> Plan. Every bound compiles itself: it asks the builder for cells,
and states inequalities on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairbound.base.errors import OptionError
from fairbound.base.names import Names, did_you_mean, shortlist
from fairbound.confidence.contrasts import mirrored
from fairbound.fairness.comparing import Compared
from fairbound.fairness.compiled.forms import Auxiliary, Combination, Function, Statistic
from fairbound.fairness.compiled.plan import BestOff, CellColumn, Objective, Plan
from fairbound.rows.groups import Groups, label_text
from fairbound.rows.occurring import Occurring

CONDITION = {None: "", 1: " | y=1", 0: " | y=0"}
SLACK = 1e-12  # of the sum of two bounds, for rounding
_LATER = 1 << 40  # quantities beyond the cells are numbered from here until the number of cells is known


def compile_plan(
    bounds: Sequence[Any],
    groups: Groups | Occurring,
    targets: np.ndarray | None = None,
    classes: Sequence[Any] | None = None,
    *,
    objective: Any = None,
    everyone: bool = False,
) -> Plan:
    """The plan of the stated bounds on the data's groups and classes.

    groups: Groups with the class numbers `targets` (n,), or which of them occur. classes: the labels of the class
    numbers 0, 1, ...; None for the numbers themselves. objective: what is minimised in place of the mean loss, or None.
    everyone: rows outside every group count in overall means too.
    A crossed group that does not occur at all is no group. A group that occurs but has no row where a bound needs one
    (no positives, say) raises EmptyGroupError, or is dropped and listed where the bound says empty="drop"; one of fewer
    rows than the bound's `fewest` is dropped and listed too.
    """
    occurring = groups if isinstance(groups, Occurring) else Occurring.of(groups, np.asarray(targets))
    builder = Builder(occurring, classes, tuple(bounds), everyone)
    for number, bound in enumerate(bounds):
        builder.number = number
        bound.compile(builder)
    if objective is not None:
        builder.number = len(bounds)
        objective.compile_objective(builder)
    return builder.plan()


def class_number(label: Any, targets: np.ndarray, classes: Sequence[Any] | None = None) -> int:
    """The class number of `label`, a label, what equals it (0 is False) or its text; `targets` and `classes` as in
    `compile_plan`.

    Raises: OptionError with the classes there are, where it is none of them.
    """
    classes = list(range(int(np.max(targets)) + 1)) if classes is None else list(classes)
    if label in classes:
        return classes.index(label)
    wanted, labels = str(label_text(label)), [str(label_text(v)) for v in classes]
    if wanted in labels:
        return labels.index(wanted)
    meant = did_you_mean(wanted, labels, before="; ", otherwise=".")
    raise OptionError(f"there is no class {wanted!r}{meant} The classes are {shortlist(labels, 20, quoted=True)}.")


class Builder:
    """Collects cells and inequalities of the bounds that compile themselves.

    occurring: which groups and labels occur. stated: all bounds of the plan. number: the one that compiles now;
    behind the last, the objective.
    """

    def __init__(self, occurring: Occurring, classes: Sequence[Any] | None, stated: tuple[Any, ...], everyone: bool):
        self.occurring, self.classes, self.stated, self.everyone = occurring, classes, stated, everyone
        self.number = 0
        self._columns: list[CellColumn] = []
        self._cell_names: list[str] = []
        self._index: list[np.ndarray] = []
        self._coefficient: list[np.ndarray] = []
        self._bounds: list[np.ndarray] = []
        self._spare: list[np.ndarray] = []
        self._blocks: list[tuple[int, Callable[[int], str]]] = []
        self._owner: list[np.ndarray] = []
        self._best: list[BestOff] = []
        self._dropped: dict[str, int] = {}
        self._ratios: dict[tuple[int, int], int] = {}
        self._statistics: list[Statistic] = []
        self._auxiliaries: list[Auxiliary] = []
        self._asked: dict[int, list[CellColumn]] = {}
        self._late: list[tuple[Combination, Sequence[str], Sequence[int] | None]] = []
        self._late_owner: list[np.ndarray] = []
        self._objective: Objective | None = None

    def class_number(self, label: Any) -> int:
        return class_number(label, self.occurring.targets, self.classes)

    # -- quantities ---------------------------------------------------------------------------------------------

    def cells(
        self,
        function: Function,
        attributes: tuple[int, ...],
        conditions: tuple[int | None, ...],
        names: Callable[[], Sequence[str]],
        known: tuple[int, ...] | None = None,
        without: tuple[int, ...] = (),
    ) -> CellColumn:
        """The column of these groups and conditions; names() gives the groups' names, where the column is new.

        attributes: () for one group of all rows with every attribute of `known` known. without: codes in the crossing of
        `known` of groups whose rows are in no cell.
        """
        known = attributes if known is None else known
        wanted = (attributes, known, self.occurring.sizes(attributes), conditions)
        apart = (self.occurring.sizes(known), without) if without else ((), ())
        for column in self._columns:
            same = (column.attributes, column.known, column.sizes, column.conditions) == wanted
            if same and (column.function, column.without) == (function, apart):
                self._asked.setdefault(self.number, []).append(column)
                return column
        column = CellColumn(*wanted, len(self._cell_names), function, apart)
        self._columns.append(column)
        self._asked.setdefault(self.number, []).append(column)
        labels = names()
        self._cell_names += [f"{name}{CONDITION.get(c, f' | class {c}')}" for c in conditions for name in labels]
        return column

    def cells_of(self, function: Function, compared: Compared, conditions: tuple[int | None, ...]) -> CellColumn:
        """The column of the groups compared; where the bound states `fewest`, the groups left out have no cell."""
        return self.cells(function, compared.attributes, conditions, compared.all_names, without=self._apart(compared))

    def _apart(self, compared: Compared) -> tuple[int, ...]:
        """Codes of groups whose rows take no part in the bound, not even among all rows."""
        stated = self.stated[self.number] if self.number < len(self.stated) else None
        return () if getattr(stated, "fewest", None) is None else compared.left

    def numbers(
        self,
        compared: Compared,
        function: Function,
        conditions: tuple[int | None, ...],
        condition: int | None,
        overall: bool,
    ) -> np.ndarray:
        """(k + 1,) numbers of the cells of every group under one condition, and of all rows (0 where not `overall`).

        conditions: all those of the column, which other values share.
        """
        column = self.cells_of(function, compared, conditions)
        place = conditions.index(condition)
        own = column.offset + place * column.groups + compared.codes
        if not overall:
            return np.append(own, 0)
        known = () if self.everyone else compared.attributes
        apart = self._apart(compared) if known else ()
        everyone = self.cells(function, (), conditions, lambda: ["overall"], known, apart)
        return np.append(own, everyone.offset + place)

    def name_cells(self, names: dict[int, str]) -> None:
        """Give cells other names than those of their groups."""
        for cell, name in names.items():
            self._cell_names[cell] = name

    def ratio(self, above: np.ndarray, below: np.ndarray) -> np.ndarray:
        """Numbers of the quantities q[above] / q[below], arrays of one shape."""
        flat = zip(above.ravel().tolist(), below.ravel().tolist(), strict=True)
        made = [self._ratios.setdefault(pair, len(self._ratios)) for pair in flat]
        return np.array(made, dtype=np.int64).reshape(above.shape) + 3 * _LATER

    def loss(self) -> int:
        """Number of the quantity that is the mean loss over all rows."""
        return _LATER

    def statistic(self, statistic: Statistic) -> np.ndarray:
        """Numbers of the quantities that `statistic` computes of a batch."""
        start = 1 + sum(s.size for s in self._statistics)
        self._statistics.append(statistic)
        return _LATER + start + np.arange(statistic.size)

    @property
    def auxiliaries(self) -> int:
        """How many variables there are beside the model so far: the place of the next."""
        return sum(a.size for a in self._auxiliaries)

    def auxiliary(self, size: int, start: float | tuple[float, ...] = 0.0, **domain: Any) -> np.ndarray:
        """Numbers of the quantities that are `size` variables trained beside the model."""
        first = self.auxiliaries
        self._auxiliaries.append(Auxiliary(size, start, **domain))
        return 2 * _LATER + first + np.arange(size)

    def drop(self, compared: Compared) -> None:
        """Record the groups that are left out for want of rows, and how many they have."""
        rows = self.occurring.per_group(compared.attributes)
        self._dropped |= {
            name: int(rows[code]) for name, code in zip(compared.left_names(), compared.left, strict=True)
        }

    # -- inequalities -------------------------------------------------------------------------------------------

    def contrasts(
        self,
        index: np.ndarray,
        coefficient: Sequence[float] | np.ndarray,
        name: Callable[[int], str],
        bound: float | None = None,
        spare: float | None = None,
    ) -> int:
        """State sum_t coefficient[t] q[index[:, t]] <= bound for each row of index (r, t).

        name: of a row number; bound: the stated one by default. spare: the slack, a share of which a method may keep as
        margin; the bound by default. Returns the number of the first contrast.
        """
        rows, first = len(index), sum(map(len, self._index))
        bound = float(self.stated[self.number].bound) if bound is None else bound
        self._index.append(index)
        self._coefficient.append(np.broadcast_to(np.asarray(coefficient, dtype=np.float64), index.shape))
        self._bounds.append(np.full(rows, bound))
        self._spare.append(np.full(rows, bound if spare is None else spare))
        self._owner.append(np.full(rows, self.number, dtype=np.int64))
        said = self.stated[self.number].name
        self._blocks.append((rows, lambda i: f"{said}: {name(i)}"))
        return first

    def best(self, first: int, quantities: Sequence[int], sign: int) -> None:
        """The contrasts from `first` on, one for each of the quantities, compare with the best-off of them."""
        self._best.append(BestOff(tuple(range(first, first + len(quantities))), tuple(map(int, quantities)), sign))

    def combine(self, combination: Combination, names: Sequence[str], cells: Sequence[int] | None = None) -> None:
        """State combination(q) <= 0, m numbers called `names`.

        cells: numbers of the cells that it reads; a batch without a row of one of them says nothing of it. None: all
        cells with rows that this bound has asked for.
        """
        called = [f"{self.stated[self.number].name}: {name}" for name in names]
        self._late.append((combination, called, cells))
        self._late_owner.append(np.full(combination.m, self.number, dtype=np.int64))

    def minimise(self, index: Sequence[int], coefficient: Sequence[float], how: Any = "sum") -> None:
        """Take the sum of coefficient times quantities, or their largest, as the objective."""
        self._objective = Objective(tuple(map(int, index)), tuple(map(float, coefficient)), how)

    # -- the plan -----------------------------------------------------------------------------------------------

    def plan(self) -> Plan:
        width = max((i.shape[1] for i in self._index), default=2)
        pad = [
            (i, np.pad(c, ((0, 0), (0, width - c.shape[1]))))
            for i, c in zip(self._index, self._coefficient, strict=True)
        ]
        index = [np.pad(i, ((0, 0), (0, width - i.shape[1]))) for i, _ in pad]
        late = [(c.m, lambda i, names=names: names[i]) for c, names, _ in self._late]
        extra = sum(c.m for c, *_ in self._late)
        made = Plan(
            self.stated,
            tuple(self._columns),
            np.concatenate([np.zeros((0, width), dtype=np.int64), *index]),
            np.concatenate([np.zeros((0, width)), *(c for _, c in pad)]),
            np.concatenate([np.zeros(0), *self._bounds]),
            Names([*self._blocks, *late]),
            tuple(self._cell_names),
            np.concatenate([np.zeros(0, dtype=np.int64), *self._owner, *self._late_owner]),
            np.concatenate([np.zeros(0), *self._spare, np.zeros(extra)]),
            best=tuple(self._best),
            dropped=tuple(self._dropped),
            dropped_rows=tuple(self._dropped.values()),
            ratios=np.array(list(self._ratios), dtype=np.int64).reshape(-1, 2),
            statistics=tuple(self._statistics),
            auxiliaries=tuple(self._auxiliaries),
            combinations=tuple(c for c, *_ in self._late),
            objective=self._objective,
        )
        self._check_range(made)
        return self._numbered(replace(made, combined_cells=self._combined_cells(made)))

    def _check_range(self, plan: Plan) -> None:
        """Raises: OptionError naming a bound that asks of a number and of its negative, a - b and b - a, what no model
        gives both."""
        for number, bound in enumerate(plan.notions):
            rows = plan.rows_of(number)
            rows = rows[rows < len(plan.index)]
            if plan.best or not (plan.bounds[rows] < 0).any():
                continue
            for one, other in mirrored(plan.index[rows], plan.coefficient[rows]).items():
                i, j = int(rows[other]), int(rows[one])
                if plan.bounds[i] + plan.bounds[j] < -SLACK:
                    raise OptionError(
                        f"no model meets {bound.text!r}: it bounds {plan.names[i]!r} and its negative, of which one is at least "
                        f"0, by {plan.bounds[i]:g} and {plan.bounds[j]:g}. State a bound of at least 0."
                    )

    def _combined_cells(self, plan: Plan) -> tuple[tuple[int, ...], ...]:
        """The cells that each combination reads, as in `combine`."""
        if not self._late:
            return ()
        rows = plan.counts(self.occurring.codes, self.occurring.targets, self.occurring.counts)
        out = []
        for (_, _, cells), owner in zip(self._late, self._late_owner, strict=True):
            if cells is None:
                columns = self._asked.get(int(owner[0]), []) if len(owner) else []
                asked = {cell for c in columns for cell in range(c.offset, c.offset + c.cells)}
                cells = sorted(cell for cell in asked if rows[cell])
            out.append(tuple(int(cell) for cell in cells))
        return tuple(out)

    def _numbered(self, plan: Plan) -> Plan:
        """The plan with every quantity by its final number."""
        cells = len(self._cell_names)
        first_auxiliary = cells + 1 + sum(s.size for s in self._statistics)
        first_ratio = cells + (1 + sum(s.size for s in self._statistics) + sum(a.size for a in self._auxiliaries)
                               if plan.beyond_means else 0)  # fmt: skip

        def final(index: Any) -> np.ndarray:
            at = np.asarray(index, dtype=np.int64)
            starts = np.array([0, cells, first_auxiliary, first_ratio])
            return starts[at // _LATER] + at % _LATER

        objective = plan.objective
        return replace(
            plan,
            index=final(plan.index),
            ratios=final(plan.ratios),
            best=tuple(replace(b, quantities=tuple(final(b.quantities).tolist())) for b in plan.best),
            objective=None if objective is None else replace(objective, index=tuple(final(objective.index).tolist())),
        )
