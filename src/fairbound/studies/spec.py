"""What a study states in its TOML file, checked before anything starts.

A *cell* is one run: a data set or an instance, a method with its options, and a seed. An *item* groups cells into what
is shown together (a figure or a table of a paper). What a cell runs and what is measured is said by the study's
measures: a module, named in the TOML, with the options of its task (`Options`), the task itself, the numbers of a run,
and the findings. See `fairbound.studies.task` and docs/extending.md.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from fairbound.base.errors import OptionError
from fairbound.methods import algorithm
from fairbound.solver.budget import Budget
from fairbound.studies.checked import NoOptions, imported, known, made
from fairbound.studies.shown import FigureSpec, TableSpec

TUNED = "-tuned"
OUTPUTS = ("last", "best", "random")
Values = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class DataSpec:
    """What a cell runs on. title, note: for the reader. task: options of the task. seeds: runs of a method on it, 0 for
    the study's number. instead: keys of data that take its place where it cannot be had."""

    key: str
    title: str
    note: str = ""
    task: Values = field(default_factory=dict)
    seeds: int = 0
    instead: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class MethodSpec:
    """A method of a study.

    algorithm: a name of `fairbound.methods` with a preset after a colon, or a class as "package.module:Class"; options:
    on top of it. per_epoch: options set to the steps of one epoch. sampling, average, record_every: of `solve`. task:
    options of the task. seeds, batch: in place of the study's and the item's. output: the model that its table rows are
    of: the "last" iterate (or average), the "best" verified one, or the method's own "random" one. grid: option ->
    values to tune over; tune_by: "bound" prefers settings that miss the bound least, then the lower loss, "loss" the
    lower loss. color: in figures, a name of the page's palette.
    """

    key: str
    title: str
    algorithm: str
    options: Values = field(default_factory=dict)
    per_epoch: tuple[str, ...] = ()
    sampling: str = "balanced"
    average: int = 0
    record_every: int | str = 0
    task: Values = field(default_factory=dict)
    seeds: int = 0
    batch: int = 0
    output: str = "last"
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    tune_by: str = "bound"
    color: str = ""

    def __post_init__(self) -> None:
        if self.output not in OUTPUTS:
            raise OptionError(f"method {self.key!r}: output must be one of {', '.join(OUTPUTS)}, got {self.output!r}.")
        if self.tune_by not in ("bound", "loss"):
            raise OptionError(f"method {self.key!r}: tune_by must be 'bound' or 'loss', got {self.tune_by!r}.")
        for option in ("record_every", "average", "seeds", "batch"):
            value = getattr(self, option)
            if isinstance(value, int) and value < 0:
                raise OptionError(f"method {self.key!r}: {option} must not be negative, got {value}.")
        for options in (self.options, *self.trials()):
            self.config({**options, **dict.fromkeys(self.per_epoch, 1)})

    def config(self, options: Values) -> Any:
        """The configuration with `options`, in place of the method's own. Raises: OptionError naming the method."""
        try:
            return algorithm(self.algorithm, **options)
        except OptionError as error:
            raise OptionError(f"method {self.key!r}: {error}") from None

    def trials(self) -> list[dict[str, Any]]:
        """Options of every point of the grid."""
        return [
            {**self.options, **dict(zip(self.grid, values, strict=True))}
            for values in itertools.product(*self.grid.values())
        ]


@dataclass(frozen=True, kw_only=True)
class ItemSpec:
    """What is shown together: methods side by side on some data.

    paper: the table of the study's `paper` whose numbers stand beside. figures: keys of the study's figures, all of
    them by default. compare: options of the comparison. together: all data in one block of the page, with a panel each.
    budget, batch, record_every, sampling: of its runs, in place of the study's and (but for full batches) the methods'
    own; quick_budget: with `--quick`. presets: method -> preset of its algorithm here. trial_budget: of each trial with
    `--tune`; the items that state one are tuned, the first item where none does. tuned: its methods run with the
    settings that `--tune` chose.
    """

    key: str
    title: str
    data: tuple[str, ...]
    methods: tuple[str, ...]
    note: str = ""
    paper: str = ""
    figures: tuple[str, ...] | None = None
    compare: Values = field(default_factory=dict)
    together: bool = False
    budget: str = ""
    quick_budget: str = ""
    batch: int = 0
    record_every: int | str = 0
    sampling: str = ""
    presets: Mapping[str, str] = field(default_factory=dict)
    trial_budget: str = ""
    tuned: bool = False


@dataclass(frozen=True, kw_only=True)
class QuickSpec:
    """What `--quick` runs instead. items, data: these alone, where any are named;
    instead: data -> data in its place."""

    seeds: int = 2
    items: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    instead: Mapping[str, str] = field(default_factory=dict)
    budget: str = ""


@dataclass(frozen=True, kw_only=True)
class TuningSpec:
    """How settings are chosen (`fairbound.studies.tuning`).

    seeds: of every trial. budget: of the trials of items that state none. validation: share of the training rows held
    apart, 0 where the measures judge on the training rows alone. The columns of a trial's model that judge it: train,
    together: by how much groups differ on the rows of training, and on these and the held rows together; loss, value:
    on the held rows, value for the page alone. tolerance: up to which the bound is taken as met, by default the bound.
    """

    seeds: int = 1
    budget: str = "10s"
    validation: float = 0.25
    loss: str = "test loss"
    train: str = "train |gap|"
    together: str = "together |gap|"
    value: str = "test |gap|"
    tolerance: float | None = None

    @property
    def words(self) -> str:
        """The rule in words, for the page."""
        if not self.validation:
            return (
                "Chosen is the setting that misses the bound least on the training rows, then the one of lowest loss."
            )
        return (
            f"{self.validation:.0%} of the training rows are held apart. Chosen is the setting that misses the bound least on "
            "the other training rows, then least on these and the held ones together, then the one of lowest loss on the held."
        )


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run. key: names its files. measures: the module of its task; task: the task's options. held: in a trial, the
    share of the training rows that takes the place of the test rows. checkpoint_every: seconds between checkpoints."""

    key: str
    measures: str
    data: str
    method: MethodSpec
    task: Values
    options: Values
    seed: int
    budget: str
    batch_size: int
    record_every: int | str
    held: float = 0.0
    checkpoint_every: float = 10.0

    @property
    def fingerprint(self) -> str:
        """Hash of all that decides the run, also the defaults of its method: a finished cell with another one is run
        again."""
        decides = {k: getattr(self.method, k) for k in ("algorithm", "per_epoch", "sampling", "average")}
        config = repr(self.method.config({**self.options, **dict.fromkeys(self.method.per_epoch, 1)}))
        decides["config"] = re.sub(r" at 0x\w+", "", config)  # where a function lies in memory decides nothing
        own = {k: v for k, v in self.__dict__.items() if k not in ("key", "method", "checkpoint_every")}
        return hashlib.sha256(json.dumps([decides, own], sort_keys=True, default=dict).encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class StudySpec:
    """A study. measures: the module of its task and numbers, by dotted name. seeds: 0 .. seeds - 1. task, compare:
    options of the task and of the comparison, for all cells and items. paper: table -> row -> column -> (mean, std) as
    printed. measured: what the page says of the measurement, name -> text."""

    name: str
    title: str
    source: str
    measures: str
    seeds: int
    items: tuple[ItemSpec, ...]
    data: Mapping[str, DataSpec]
    methods: Mapping[str, MethodSpec]
    task: Values = field(default_factory=dict)
    compare: Values = field(default_factory=dict)
    budget: str = ""
    batch: int = 64
    checkpoint_every: float = 10.0
    quick: QuickSpec = field(default_factory=QuickSpec)
    tuning: TuningSpec = field(default_factory=TuningSpec)
    figures: tuple[FigureSpec, ...] = ()
    tables: tuple[TableSpec, ...] = ()
    paper: Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]] = field(default_factory=dict)
    measured: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        where = f"study {self.name!r}"
        if self.seeds < 1 or self.batch < 1:
            raise OptionError(f"{where}: seeds and batch must be at least 1, got {self.seeds} and {self.batch}.")
        for table, rows in self.paper.items():
            for row, columns in rows.items():
                for column, numbers in columns.items():
                    if len(numbers) != 2:
                        name = f"paper.{table}.{row}.{column}"
                        raise OptionError(f"{where}: {name} must be two numbers, [mean, deviation], got {numbers!r}.")
        figures = [f.key for f in self.figures]
        for item in self.items:
            of = f"item {item.key!r} of {where}"
            for kind, names, among in (
                ("data", item.data, self.data), ("method", item.methods, self.methods),
                ("method", item.presets, item.methods), ("figure", item.figures or (), figures),
            ):  # fmt: skip
                for name in names:
                    known(of, kind, name, among)
            budget = item.budget or self.budget
            trial = item.trial_budget or self.tuning.budget
            for text in (budget, item.quick_budget or budget, self.quick.budget or budget, trial):
                Budget.of(text)
            self.compared(item)
        counts = {m.key: len(m.trials()) for m in self.methods.values() if m.grid}
        if len(set(counts.values())) > 1:
            raise OptionError(f"{where}: tuning budgets must be equal, but the grids have {counts} points.")
        self.cells({d: {m: self.methods[m].options for m in self.methods} for d in self.data}, seeds=1)

    def compared(self, item: ItemSpec) -> Any:
        """The options of the item's comparison, as the measures check them; None where they have none."""
        kind = getattr(imported(self.measures), "Compare", None)
        given = {**self.compare, **item.compare}
        return kind if kind is None else made(kind, f"the comparison of item {item.key!r}", given)

    def only(self, keys: Iterable[str]) -> Self:
        """The study with the named items alone. Raises: OptionError for an unknown name, and for one that tuning makes."""
        keys, there = list(keys), [item.key for item in self.items]
        for key in keys:
            if key not in there and key.endswith(TUNED) and (untuned := key.removesuffix(TUNED)) in there:
                raise OptionError(
                    f"study {self.name!r}: item {key!r} is there with --tune alone (tune=True); name {untuned!r} and tune: "
                    "both are run then."
                )
            known(f"study {self.name!r}", "item", key, there)
        return replace(self, items=tuple(item for item in self.items if item.key in keys))

    def quickly(self) -> Self:
        """The study that `--quick` runs: fewer seeds, the quick items and data, `solve`'s own spacing of records."""
        quick, items = self.quick, []
        for item in self.items:
            if quick.items and item.key not in quick.items:
                continue
            data = tuple(quick.instead.get(d, d) for d in item.data)
            data = tuple(d for d in data if d in quick.data) or data
            items.append(replace(item, data=data, budget=item.quick_budget or item.budget))
        methods = {key: replace(m, record_every=0) for key, m in self.methods.items()}
        return replace(
            self, seeds=quick.seeds, budget=quick.budget or self.budget, items=tuple(items), methods=methods,
            checkpoint_every=60.0,
        )  # fmt: skip

    def within(self, budget: str) -> Self:
        """The study with `budget` for every run."""
        return replace(self, budget=budget, items=tuple(replace(item, budget="") for item in self.items))

    def with_tuned(self) -> Self:
        """The study with one more item for each that is tuned: its methods that have a grid, on its data.

        Raises: OptionError where such an item has no method with a grid.
        """
        methods, items = dict(self.methods), list(self.items)
        for item in [i for i in self.items if i.trial_budget] or self.items[:1]:
            own = [self.methods[key] for key in item.methods if self.methods[key].grid]
            if not own:
                raise OptionError(f"study {self.name!r}: no method of item {item.key!r} has a grid to tune over.")
            tuned = {m.key + TUNED: replace(m, key=m.key + TUNED, title=f"{m.title}, tuned") for m in own}
            methods |= tuned
            trial = item.trial_budget or self.tuning.budget
            note = f"{len(own[0].trials())} settings a method, {self.tuning.seeds} seed(s) of {trial} each. {self.tuning.words}"
            title = f"{item.title}: equal tuning budgets"
            items.append(
                replace(item, key=item.key + TUNED, title=title, methods=tuple(tuned), tuned=True, paper="", note=note)
            )
        keys = {item.key for item in items}
        tables = tuple(
            replace(t, items=(*t.items, *(k + TUNED for k in t.items if k + TUNED in keys))) for t in self.tables
        )
        return replace(self, items=tuple(items), methods=methods, tables=tables)

    def cells(self, chosen: Mapping[str, Mapping[str, Values]] | None = None, seeds: int | None = None) -> list[Cell]:
        """Every cell once, seed by seed. chosen: data -> method -> options that trials chose, its own where there are
        none.
        seeds: in place of its own.

        Raises: OptionError where two items run a method on the same data in different ways.
        """
        cells: dict[str, Cell] = {}
        for seed, item in itertools.product(range(seeds or self.seeds), self.items):
            for data, method in itertools.product(item.data, item.methods):
                its = self.methods[method]
                if seed >= min(n or self.seeds for n in (its.seeds, self.data[data].seeds)):
                    continue
                tuned = (chosen or {}).get(data, {}) if item.tuned else {}
                options = tuned.get(method.removesuffix(TUNED), its.options)
                cell = self._cell(f"{data}.{method}.s{seed}", item, data, options, seed, method)
                if cells.setdefault(cell.key, cell).fingerprint != cell.fingerprint:
                    raise OptionError(
                        f"study {self.name!r}: item {item.key!r} runs {method!r} on {data!r} in another way than an item "
                        "before it; give the method or the data another key there."
                    )
        return list(cells.values())

    def trials(self) -> list[Cell]:
        """Every cell of the tuning: grid points x tuning seeds, for each data set and method of the tuned items."""
        cells = []
        for item in (i for i in self.items if i.tuned):
            for data, key in itertools.product(item.data, (m.removesuffix(TUNED) for m in item.methods)):
                for n, options in enumerate(self.methods[key].trials()):
                    for seed in range(self.tuning.seeds):
                        cell = self._cell(f"tune.{data}.{key}.{n}.s{seed}", item, data, options, seed, key)
                        budget = item.trial_budget or self.tuning.budget
                        cells.append(replace(cell, budget=budget, held=self.tuning.validation))
        return cells

    def _cell(self, key: str, item: ItemSpec, data: str, options: Values, seed: int, name: str) -> Cell:
        method = self.method_in(item, name)
        given = {**self.task, **self.data[data].task, **method.task}
        where = f"the task of data {data!r} with method {name!r}"
        task = made(getattr(imported(self.measures), "Options", NoOptions), where, given)
        return Cell(
            key=key, measures=self.measures, data=data, method=method, task=asdict(task), options=dict(options),
            seed=seed, budget=item.budget or self.budget, batch_size=method.batch or item.batch or self.batch,
            record_every=method.record_every or item.record_every, checkpoint_every=self.checkpoint_every,
        )  # fmt: skip

    def method_in(self, item: ItemSpec, key: str) -> MethodSpec:
        """A method with the preset and the sampling that an item gives it."""
        method = self.methods[key]
        if preset := item.presets.get(key, ""):
            words = method.algorithm.split(":")
            named = words[: 2 if "." in words[0] else 1]  # "module:Class" or a short name, without a preset of its own
            method = replace(method, algorithm=":".join([*named, preset]))
        if item.sampling and method.sampling != "full":
            method = replace(method, sampling=item.sampling)
        return method
