"""A study of models trained under a fairness bound, as its TOML file states it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from fairbound.base.errors import OptionError
from fairbound.fairness.notions import constraint
from fairbound.solver.budget import Budget
from fairbound.studies import spec

FIGURES = ("curves", "densities", "spider", "profiles", "tradeoff")
OUTPUTS = ("last", "best", "random")
TUNED = "-tuned"


@dataclass(frozen=True, kw_only=True)
class DataSpec(spec.DataSpec):
    """A data set of a study.

    dataset, options: arguments of `fairbound.data.load`; "gaussian-parity" is the generator, with options n and seed.
    group: the sensitive attribute; it is not a feature. groups: (reference, protected), two of its values; a signed gap
    is protected minus reference, and rows with other values are in no group. instead: keys of data sets that take its
    place where its files are not in the data folder. note: what a reader must know about it.
    """

    dataset: str
    group: str
    groups: tuple[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)
    instead: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.groups) != 2 or self.groups[0] == self.groups[1]:
            raise OptionError(f"data {self.key!r}: groups must be [reference, protected], got {list(self.groups)}.")


@dataclass(frozen=True, kw_only=True)
class MethodSpec(spec.MethodSpec):
    """A method of a study.

    per_epoch: options set to the number of steps of one epoch of the data set. output: the model of its table row:
    "last" iterate, "best" verified one, or the method's own "random" output. record_every: steps between evaluations; 0
    spaces them as `solve` does. average: power of `solve`'s average of the iterates, 0 for none. constraint: what it trains under, where it is not the study's bound. validation: share
    of the training rows kept apart to choose the best iterate on. grid: option -> values to tune over.
    tune_by: "bound" prefers settings within the tuning tolerance, then the lower loss; "loss" looks at the loss alone.
    """

    per_epoch: tuple[str, ...] = ()
    output: str = "last"
    record_every: int = 0
    average: int = 0
    constraint: str = ""
    validation: float = 0.0
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    tune_by: str = "bound"

    def __post_init__(self) -> None:
        if self.output not in OUTPUTS:
            raise OptionError(f"method {self.key!r}: output must be one of {', '.join(OUTPUTS)}, got {self.output!r}.")
        if self.tune_by not in ("bound", "loss"):
            raise OptionError(f"method {self.key!r}: tune_by must be 'bound' or 'loss', got {self.tune_by!r}.")
        if not 0 <= self.validation < 1:
            raise OptionError(f"method {self.key!r}: validation is a share in [0, 1), got {self.validation}.")
        for option in ("record_every", "average"):
            if (value := getattr(self, option)) < 0:
                raise OptionError(f"method {self.key!r}: {option} must not be negative, got {value}.")
        if self.constraint:
            constraint(self.constraint)
        for options in (self.options, *self.trials()):
            self.config({**options, **dict.fromkeys(self.per_epoch, 1)})

    @property
    def settings(self) -> str:
        """The configuration as text, with 1 for what is given per epoch."""
        return repr(self.config({**self.options, **dict.fromkeys(self.per_epoch, 1)}))

    def trials(self) -> list[dict[str, Any]]:
        """Options of every point of the grid, the method's own ones included."""
        return [
            {**self.options, **dict(zip(self.grid, values, strict=True))}
            for values in itertools.product(*self.grid.values())
        ]


@dataclass(frozen=True, kw_only=True)
class ItemSpec(spec.ItemSpec):
    """What is shown together. paper: name of the table in the study's `paper` whose numbers stand beside; figures: of
    FIGURES. tuned: the methods run with the settings that `--tune` chose."""

    figures: tuple[str, ...] = FIGURES
    paper: str = ""
    tuned: bool = False


@dataclass(frozen=True, kw_only=True)
class TuningSpec:
    """seeds, budget: of every trial. validation: share of the training rows that judges. tolerance: gap taken as met."""

    seeds: int = 1
    budget: str = "10s"
    validation: float = 0.25
    tolerance: float = 0.02


@dataclass(frozen=True, kw_only=True)
class QuickSpec(spec.QuickSpec):
    """What `--quick` runs instead; `data` takes the place of every item's."""

    budget: str = "3s"


@dataclass(frozen=True, kw_only=True)
class Cell(spec.Cell):
    """One run. tuning: it is a trial, on the training rows alone; its key then names the trial."""

    data: DataSpec
    method: MethodSpec
    model: str
    constraint: str
    tuning: float = 0.0

    untold: ClassVar[frozenset[str]] = spec.Cell.untold | {"instead", "grid", "tune_by", "output"}


@dataclass(frozen=True, kw_only=True)
class Study(spec.StudySpec):
    """A study of models. constraint: the bound that decides feasibility everywhere."""

    model: str
    batch_size: int
    constraint: str
    budget: str
    items: tuple[ItemSpec, ...]
    data: Mapping[str, DataSpec]
    methods: Mapping[str, MethodSpec]
    tuning: TuningSpec = field(default_factory=TuningSpec)
    quick: QuickSpec = field(default_factory=QuickSpec)
    paper_data: str = ""

    parts: ClassVar[dict[str, type]] = {
        "items": ItemSpec, "data": DataSpec, "methods": MethodSpec, "tuning": TuningSpec, "quick": QuickSpec,
    }  # fmt: skip

    def __post_init__(self) -> None:
        if self.seeds < 1 or self.batch_size < 1:
            raise OptionError(f"study {self.name!r}: seeds and batch_size must be at least 1.")
        Budget.of(self.budget)
        constraint(self.constraint)
        super().__post_init__()
        counts = {m.key: len(m.trials()) for m in self.methods.values() if m.grid}
        if len(set(counts.values())) > 1:
            raise OptionError(
                f"study {self.name!r}: tuning budgets must be equal, but the grids have {counts} points; give each as "
                "many."
            )

    @property
    def bound(self) -> float:
        return constraint(self.constraint).bound

    def named_by(self, item: ItemSpec) -> list[tuple[str, Sequence[str], Iterable[str]]]:
        return [*super().named_by(item), ("figure", item.figures, FIGURES)]

    def quickly(self) -> Study:
        """Fewer seeds and seconds, and the quick items on the quick data sets."""
        items = []
        for item in self.items:
            if not self.quick.items or item.key in self.quick.items:
                items.append(replace(item, data=self.quick.data or item.data))
        return replace(
            self, seeds=self.quick.seeds, budget=self.quick.budget, items=tuple(items), checkpoint_every=60.0,
            methods={key: replace(m, record_every=0) for key, m in self.methods.items()},
        )  # fmt: skip

    def within(self, budget: str) -> Study:
        return replace(self, budget=budget)

    def with_tuned(self) -> Study:
        """The study with one more item, "tuned": the methods that have a grid, on the data sets of the first item."""
        first = self.items[0]
        methods = tuple(key for key in first.methods if self.methods[key].grid)
        if not methods:
            raise OptionError(f"study {self.name!r}: no method of item {first.key!r} has a grid to tune over.")
        tuned = {
            key + TUNED: replace(self.methods[key], key=key + TUNED, title=f"{self.methods[key].title}, tuned")
            for key in methods
        }
        item = ItemSpec(
            key="tuned", title="Equal tuning budgets", data=first.data, methods=tuple(tuned), tuned=True,
            note=f"{len(self.methods[methods[0]].trials())} settings a method, {self.tuning.seeds} seed(s) of "
                 f"{self.tuning.budget} each, judged on {self.tuning.validation:.0%} of the training rows.",
        )  # fmt: skip
        return replace(self, items=(*self.items, item), methods={**self.methods, **tuned})

    def cells(self, chosen: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None) -> list[spec.Cell]:
        """Every cell once, seed by seed. chosen: data -> method -> options that tuning chose."""
        wanted = dict.fromkeys((d, m, item.tuned) for item in self.items for d in item.data for m in item.methods)
        cells: list[spec.Cell] = []
        for seed in range(self.seeds):
            for data, method, tuned in wanted:
                its = self.methods[method]
                options = (chosen or {})[data][method.removesuffix(TUNED)] if tuned else its.options
                cells.append(self._cell(f"{data}.{method}.s{seed}", data, its, options, seed, self.budget))
        return cells

    def trials(self) -> list[spec.Cell]:
        """Every cell of the tuning: grid points x tuning seeds, for each data set and method of the tuned item."""
        cells: list[spec.Cell] = []
        for item in (i for i in self.items if i.tuned):
            for data, key in itertools.product(item.data, item.methods):
                its = self.methods[key.removesuffix(TUNED)]
                for n, options in enumerate(its.trials()):
                    for seed in range(self.tuning.seeds):
                        name = f"tune.{data}.{its.key}.{n}.s{seed}"
                        cell = self._cell(name, data, its, options, seed, self.tuning.budget)
                        cells.append(replace(cell, tuning=self.tuning.validation))
        return cells

    def _cell(
        self, key: str, data: str, method: MethodSpec, options: Mapping[str, Any], seed: int, budget: str
    ) -> Cell:
        return Cell(
            key=key, kind=self.kind, data=self.data[data], method=method, options=dict(options), seed=seed,
            budget=budget, model=self.model, batch_size=self.batch_size, constraint=self.constraint,
            checkpoint_every=self.checkpoint_every,
        )  # fmt: skip
