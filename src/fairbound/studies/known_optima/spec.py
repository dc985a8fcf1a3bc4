"""A study of methods on instances whose optimum is known, as its TOML file states it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from fairbound.base.errors import OptionError
from fairbound.instances import INSTANCES
from fairbound.solver.budget import Budget
from fairbound.studies import spec

AXES = ("passes", "steps")


@dataclass(frozen=True, kw_only=True)
class Instance(spec.DataSpec):
    """An instance of `fairbound.instances`, by its key there. seeds: runs of a method on it, 0 for the study's number."""

    seeds: int = 0


@dataclass(frozen=True, kw_only=True)
class MethodSpec(spec.MethodSpec):
    """A method of a study. seeds: runs of it, 0 for the study's number (a method without chance needs one). batch: rows of
    every block (or draws, where there are none), 0 for the item's. An item may name a preset of the algorithm."""

    seeds: int = 0
    batch: int = 0

    def __post_init__(self) -> None:
        if self.seeds < 0 or self.batch < 0:
            raise OptionError(f"method {self.key!r}: seeds and batch must not be negative.")
        self.config(self.options)

    def with_preset(self, preset: str) -> MethodSpec:
        """The method with the algorithm's preset of this name; its own where the name is empty."""
        return replace(self, algorithm=f"{self.algorithm.partition(':')[0]}:{preset}") if preset else self


@dataclass(frozen=True, kw_only=True)
class ItemSpec(spec.ItemSpec):
    """What is shown together: instances side by side.

    axis: "passes" over the data, or "steps", along which runs are compared. budget: of each run, quick_budget: with
    `--quick`; of one pass or step more than compared is no use. batch: rows of every block, or draws. record_every: as
    `solve` takes it. at: places on the axis whose numbers go into the table. since, every: the places at which one method
    must be below another to be called so are since, since + every, ... presets: method -> preset of its algorithm here.
    sampling: of every method that does not take full batches; "" for the method's own.
    """

    budget: str
    batch: int
    at: tuple[float, ...]
    since: float
    every: float
    record_every: int | str
    axis: str = "passes"
    quick_budget: str = ""
    sampling: str = ""
    presets: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.axis not in AXES:
            raise OptionError(f"item {self.key!r}: axis must be one of {', '.join(AXES)}, got {self.axis!r}.")
        if self.batch < 1 or not (self.since > 0 and self.every > 0 and self.at and min(self.at) > 0):
            raise OptionError(f"item {self.key!r}: batch, since, every and all of `at` must be positive.")
        for budget in (self.budget, self.quick_budget or self.budget):
            Budget.of(budget)


@dataclass(frozen=True, kw_only=True)
class Cell(spec.Cell):
    """One run. batch_size: rows of every block of the instance."""

    data: Instance
    method: MethodSpec
    record_every: int | str

    untold: ClassVar[frozenset[str]] = spec.Cell.untold | {"seeds", "batch"}


@dataclass(frozen=True, kw_only=True)
class Study(spec.StudySpec):
    """A study of optima. subject: the method that findings are about; against: the methods it is compared with."""

    items: tuple[ItemSpec, ...]
    data: Mapping[str, Instance]
    methods: Mapping[str, MethodSpec]
    subject: str
    against: tuple[str, ...]

    parts: ClassVar[dict[str, type]] = {
        "items": ItemSpec, "data": Instance, "methods": MethodSpec, "quick": spec.QuickSpec,
    }  # fmt: skip

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise OptionError(f"study {self.name!r}: seeds must be at least 1.")
        super().__post_init__()
        for name in (self.subject, *self.against):
            spec.known(f"study {self.name!r}", "method", name, self.methods)
        for key in self.data:
            spec.known("fairbound.instances", "instance", key, INSTANCES)
        shown = [d for item in self.items for d in item.data]
        if twice := [d for d in dict.fromkeys(shown) if shown.count(d) > 1]:
            raise OptionError(f"study {self.name!r}: the instance {twice[0]!r} is in two items; an instance has one.")
        for item in self.items:
            spec.known(f"item {item.key!r} of study {self.name!r}", "method", self.subject, item.methods)
            for method, preset in item.presets.items():
                spec.known(f"item {item.key!r} of study {self.name!r}", "method", method, item.methods)
                its = self.methods[method].with_preset(preset)
                its.config(its.options)

    def quickly(self) -> Study:
        """Fewer seeds, the quick items with their quick budgets, and of their instances the quick ones."""
        items = []
        for item in self.items:
            data = tuple(d for d in item.data if d in self.quick.data) or item.data
            if not self.quick.items or item.key in self.quick.items:
                items.append(replace(item, data=data, budget=item.quick_budget or item.budget))
        return replace(self, seeds=self.quick.seeds, items=tuple(items), checkpoint_every=60.0)

    def within(self, budget: str) -> Study:
        return replace(self, items=tuple(replace(item, budget=budget) for item in self.items))

    def cells(self, chosen: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None) -> list[spec.Cell]:
        """Every cell once, instance by instance; nothing is tuned, so `chosen` does not matter."""
        cells: list[spec.Cell] = []
        for item in self.items:
            for data in item.data:
                for method in self.methods_of(item):
                    its = self.data[data]
                    for seed in range(min(self.seeds, method.seeds or self.seeds, its.seeds or self.seeds)):
                        cells.append(self._cell(item, its, method, seed))
        return cells

    def _cell(self, item: ItemSpec, data: Instance, method: MethodSpec, seed: int) -> Cell:
        if item.sampling and method.sampling != "full":
            method = replace(method, sampling=item.sampling)
        return Cell(
            key=f"{data.key}.{method.key}.s{seed}", kind=self.kind, data=data, method=method,
            options=dict(method.options), seed=seed, budget=item.budget, batch_size=method.batch or item.batch,
            checkpoint_every=self.checkpoint_every, record_every=item.record_every,
        )  # fmt: skip

    def methods_of(self, item: ItemSpec) -> list[MethodSpec]:
        """The methods of an item with the presets that it names."""
        return [self.methods[m].with_preset(item.presets.get(m, "")) for m in item.methods]
