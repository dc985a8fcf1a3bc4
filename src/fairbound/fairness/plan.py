"""From stated bounds and group codes to arithmetic: which rows form which cells, and which cells each bound compares.

A *cell* is a set of rows whose mean some bound needs (a group, a group's positives, or the rows of a class). A *contrast* is one
inequality `sum_t coef_t q[idx_t] - bound <= 0` in the cell means q; an absolute value makes two. Whatever the number
of groups, values and gradients are one indexed (or matrix) reduction.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from fairbound.base.errors import EmptyGroupError, OptionError
from fairbound.fairness.class_risk import ClassRisk
from fairbound.fairness.notions import GroupGap, Notion
from fairbound.rows.groups import Groups, cross, label_text


@dataclass(frozen=True)
class Column:
    """A partition of rows into cells: groups of some attributes, by label where `conditions` says so.

    attributes: indices into Groups.attributes; () is one group, all rows with every attribute of `known` known.
    sizes: number of groups per attribute. offset: number of its first cell.
    statistic: "rate", "loss" or "error" (predicted as another class than its own); surrogate, sharpness: what stands in
        for a rate or an error in training.
    """

    attributes: tuple[int, ...]
    known: tuple[int, ...]
    sizes: tuple[int, ...]
    conditions: tuple[int | None, ...]
    offset: int
    statistic: str
    surrogate: str
    sharpness: float

    @property
    def groups(self) -> int:
        return int(np.prod(self.sizes)) if self.attributes else 1

    @property
    def cells(self) -> int:
        return self.groups * len(self.conditions)

    @property
    def kind(self) -> tuple[str, str, float]:
        return ("loss", "loss", 1.0) if self.statistic == "loss" else (self.statistic, self.surrogate, self.sharpness)


@dataclass(frozen=True)
class Best:
    """Contrasts `rows` compare with the cell among `cells` that is best off: the highest (sign 1) or lowest (-1) mean."""

    rows: tuple[int, ...]
    cells: tuple[int, ...]
    sign: int


@dataclass(frozen=True)
class Plan:
    """Compiled bounds. K cells, m contrasts of up to t terms, stated by `notions`.

    index, coefficient: (m, t); bounds: (m,); names: m contrast names; cell_names: K; notion_of: (m,) index into notions.
    dropped: cells left out because the data have no row for them.
    """

    notions: tuple[Notion, ...]
    columns: tuple[Column, ...]
    index: np.ndarray
    coefficient: np.ndarray
    bounds: np.ndarray
    names: tuple[str, ...]
    cell_names: tuple[str, ...]
    notion_of: np.ndarray
    best: tuple[Best, ...]
    dropped: tuple[str, ...] = ()

    @property
    def m(self) -> int:
        return len(self.bounds)

    @property
    def n_cells(self) -> int:
        return len(self.cell_names)

    @property
    def kinds(self) -> tuple[tuple[str, str, float], ...]:
        """The distinct per-row functions that the columns average: (statistic, surrogate, sharpness)."""
        return tuple(dict.fromkeys(c.kind for c in self.columns))

    def cells(self, codes: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """(n, C) cell of each row in each column; K (one past the last) where the row is in none.

        codes: (n, A) group codes, -1 missing; targets: (n,) labels in {0, 1}, or class numbers.
        """
        out = np.empty((len(targets), len(self.columns)), dtype=np.int64)
        for j, column in enumerate(self.columns):
            group = (
                cross([codes[:, a] for a in column.attributes], column.sizes)
                if column.attributes
                else np.where((codes[:, list(column.known)] >= 0).all(axis=1), 0, -1)
            )
            if column.conditions == (None,):
                part = np.zeros(len(targets), dtype=np.int64)
            else:
                part = np.full(len(targets), -1, dtype=np.int64)
                for position, label in enumerate(column.conditions):
                    part[targets == label] = position
            inside = (group >= 0) & (part >= 0)
            out[:, j] = np.where(inside, column.offset + part * column.groups + group, self.n_cells)
        return out

    def rows_of(self, notion: int) -> np.ndarray:
        """Contrasts that state the given notion."""
        return np.flatnonzero(self.notion_of == notion)

    def touched(self, cells: Iterable[int]) -> tuple[list[str], list[str]]:
        """Names of the contrasts that use one of `cells`, and of those cells; K (no cell) is passed over."""
        inside = np.unique([c for c in cells if c < self.n_cells]).astype(np.int64)
        rows = (np.isin(self.index, inside) & (self.coefficient != 0)).any(axis=1)
        return [self.names[i] for i in np.flatnonzero(rows)], [self.cell_names[c] for c in inside]


def _attribute_sets(notion: GroupGap, groups: Groups) -> list[tuple[int, ...]]:
    everything = tuple(range(len(groups.attributes)))
    if notion.attributes == "each":
        return [(a,) for a in everything]
    if notion.attributes == "crossed":
        return [everything]
    unknown = [a for a in notion.attributes if a not in groups.attributes]
    if unknown:
        raise OptionError(f"{notion.text!r} names the attributes {unknown}; the data have {list(groups.attributes)}.")
    return [tuple(groups.attributes.index(a) for a in notion.attributes)]


def _group_names(attributes: tuple[int, ...], groups: Groups) -> list[str]:
    names = [""]
    for a in attributes:
        names = [f"{left} & {label}".removeprefix(" & ") for left in names for label in groups.labels[a]]
    return names


CONDITION = {None: "", 1: " | y=1", 0: " | y=0"}


def compile_plan(
    notions: tuple[Notion, ...], groups: Groups, targets: np.ndarray, classes: Sequence[Any] | None = None
) -> Plan:
    """The plan of `notions` on the data's groups and classes.

    classes: the labels of the class numbers 0, 1, ... in `targets`; None for the numbers themselves.
    A crossed group that does not occur at all is not a group. A group that occurs but has no row where a notion needs
    one (no positives, say) raises EmptyGroupError, or is dropped and listed where the notion says empty="drop".
    """
    builder = _Builder(groups, np.asarray(targets))
    risks = {
        notion: class_number(notion.class_, targets, classes) for notion in notions if isinstance(notion, ClassRisk)
    }
    for number, notion in enumerate(notions):
        if isinstance(notion, ClassRisk):
            builder.add_class(number, notion, risks)
            continue
        for attributes in _attribute_sets(notion, groups):
            builder.add(number, notion, attributes)
    return builder.plan(notions)


def class_number(label: Any, targets: np.ndarray, classes: Sequence[Any] | None = None) -> int:
    """The class number of `label`, a label or its text; `targets` and `classes` as in `compile_plan`.

    Raises: OptionError with the classes there are, where it is none of them.
    """
    wanted = str(label_text(label))
    labels = [str(label_text(v)) for v in (np.arange(int(np.max(targets)) + 1) if classes is None else classes)]
    if wanted in labels:
        return labels.index(wanted)
    near = difflib.get_close_matches(wanted, labels, 1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    known = ", ".join(map(repr, labels[:20])) + (", ..." if len(labels) > 20 else "")
    raise OptionError(f"there is no class {wanted!r}; {meant}The classes are {known}.")


class _Builder:
    def __init__(self, groups: Groups, targets: np.ndarray):
        self.groups, self.targets = groups, targets
        self.columns: list[Column] = []
        self.cell_names: list[str] = []
        self.contrasts: list[tuple[list[int], list[float], float, str, int]] = []
        self.best: list[Best] = []
        self.dropped: list[str] = []

    def column(self, notion: GroupGap, attributes: tuple[int, ...], known: tuple[int, ...]) -> Column:
        sizes = tuple(len(self.groups.labels[a]) for a in attributes)
        wanted = Column(
            attributes, known, sizes, notion.conditioned, 0, notion.statistic, notion.surrogate, notion.sharpness
        )
        for column in self.columns:
            if (column.attributes, column.known, column.conditions, column.kind) == (
                wanted.attributes,
                wanted.known,
                wanted.conditions,
                wanted.kind,
            ):
                return column
        column = Column(**{**wanted.__dict__, "offset": len(self.cell_names)})
        self.columns.append(column)
        names = _group_names(attributes, self.groups) if attributes else ["overall"]
        self.cell_names += [f"{name}{CONDITION[c]}" for c in column.conditions for name in names]
        return column

    def add(self, number: int, notion: GroupGap, attributes: tuple[int, ...]) -> None:
        column = self.column(notion, attributes, attributes)
        code = cross([self.groups.codes[:, a] for a in attributes], column.sizes)
        occurring = (
            [g for g in range(column.groups) if (code == g).any()]
            if column.groups < 50
            else (np.unique(code[code >= 0]).tolist())
        )
        names = _group_names(attributes, self.groups)
        counts = {
            c: np.bincount(
                code[(code >= 0) & ((self.targets == c) if c is not None else True)], minlength=column.groups
            )
            for c in column.conditions
        }
        empty = [g for g in occurring if any(counts[c][g] == 0 for c in column.conditions)]
        if empty and notion.empty == "raise":
            c, g = next((c, g) for g in empty for c in column.conditions if counts[c][g] == 0)
            what = "row" if c is None else "positive row (y = 1)" if c == 1 else "negative row (y = 0)"
            raise EmptyGroupError(
                f"{notion.text!r}: the group {names[g]!r} has no {what}, so its part of the bound is undefined. Merge the group "
                f"with another, mark its value missing, or state the bound with empty=drop."
            )
        self.dropped += [names[g] for g in empty]
        kept = [g for g in occurring if g not in set(empty)]
        if len(kept) < (1 if notion.against == "overall" else 2):
            raise EmptyGroupError(
                f"{notion.text!r} compares groups of {'*'.join(self.groups.attributes[a] for a in attributes)!r}, but only "
                f"{[names[g] for g in kept]} can be measured; at least two groups are needed."
            )

        def cell(g: int, position: int) -> int:
            return column.offset + position * column.groups + g

        positions = range(len(column.conditions))
        if notion.against == "best":
            sign = 1 if notion.statistic == "rate" else -1
            for p in positions:
                first = len(self.contrasts)
                for g in kept:
                    terms = ([cell(g, p), cell(g, p)], [float(sign), -float(sign)])
                    self.contrast(
                        number,
                        notion,
                        terms,
                        f"best - {names[g]}" if sign > 0 else f"{names[g]} - best",
                        CONDITION[column.conditions[p]],
                    )
                self.best.append(Best(tuple(range(first, len(self.contrasts))), tuple(cell(g, p) for g in kept), sign))
            return
        if notion.against == "overall":
            overall = self.column(notion, (), attributes)
            pairs: list[tuple[int, int | None]] = [(g, None) for g in kept]
        else:
            pairs = list(combinations(kept, 2))  # type: ignore[arg-type]
        for a, b in pairs:
            name_b = "overall" if b is None else names[b]
            gaps = [(cell(a, p), overall.offset + p if b is None else cell(b, p)) for p in positions]
            if notion.aggregation == "sum" and len(gaps) == 2:
                for s in (1.0, -1.0):
                    for t in (1.0, -1.0):
                        words = (
                            f"{'' if s > 0 else '-'}({names[a]} - {name_b}) | y=1, {'' if t > 0 else '-'}(same) | y=0"
                        )
                        self.contrast(number, notion, ([*gaps[0], *gaps[1]], [s, -s, t, -t]), words, "")
            else:
                for p, (i, j) in zip(positions, gaps, strict=True):
                    tail = CONDITION[column.conditions[p]]
                    self.contrast(number, notion, ([i, j], [1.0, -1.0]), f"{names[a]} - {name_b}", tail)
                    self.contrast(number, notion, ([j, i], [1.0, -1.0]), f"{name_b} - {names[a]}", tail)

    def add_class(self, number: int, notion: ClassRisk, risks: Mapping[ClassRisk, int]) -> None:
        """One column for the classes of all `risks` that train on the same surrogate: no row has two classes."""
        kind = ("error", notion.surrogate, notion.sharpness)
        column = next((c for c in self.columns if c.kind == kind), None)
        if column is None:
            alike = {
                code: risk.class_ for risk, code in risks.items() if ("error", risk.surrogate, risk.sharpness) == kind
            }
            column = Column((), (), (), tuple(sorted(alike)), len(self.cell_names), *kind)
            self.columns.append(column)
            self.cell_names += [f"class {alike[code]}" for code in sorted(alike)]
        code = risks[notion]
        if not (self.targets == code).any():
            raise EmptyGroupError(
                f"{notion.text!r}: no row has the label {notion.class_!r}, so the bound is undefined. Give rows of that "
                "class, or drop its bound."
            )
        cell = column.offset + column.conditions.index(code)
        self.contrast(number, notion, ([cell], [1.0]), f"class {notion.class_}", "")

    def contrast(
        self, number: int, notion: Notion, terms: tuple[list[int], list[float]], words: str, tail: str
    ) -> None:
        self.contrasts.append((*terms, notion.bound, f"{notion.name}: {words}{tail}", number))

    def plan(self, notions: tuple[Notion, ...]) -> Plan:
        width = max((len(c[0]) for c in self.contrasts), default=2)
        index = np.zeros((len(self.contrasts), width), dtype=np.int64)
        coefficient = np.zeros((len(self.contrasts), width))
        for row, (cells, coefficients, *_) in enumerate(self.contrasts):
            index[row, : len(cells)], coefficient[row, : len(cells)] = cells, coefficients
        return Plan(
            notions,
            tuple(self.columns),
            index,
            coefficient,
            np.array([c[2] for c in self.contrasts]),
            tuple(c[3] for c in self.contrasts),
            tuple(self.cell_names),
            np.array([c[4] for c in self.contrasts], dtype=np.int64),
            tuple(self.best),
            tuple(self.dropped),
        )
