"""A study as data: what every kind of study states in its TOML file, checked before anything starts.

A *cell* is one run: a data set or instance, a method with its options, and a seed. An *item* groups cells into what is
shown together (a figure or a table of a paper). What a cell does, what is measured and what is drawn is its kind's:
`fair_models` trains models under a fairness bound, `known_optima` follows methods towards an optimum that is known.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar, Self

from fairbound.base.errors import OptionError
from fairbound.methods import algorithm
from fairbound.solver.solve import Solution


@dataclass(frozen=True, kw_only=True)
class DataSpec:
    """What a cell runs on. title, note: for the reader."""

    key: str
    title: str
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class MethodSpec:
    """A method of a study.

    algorithm: a name of `fairbound.methods`, with a preset after a colon; options: on top of it. sampling: of `solve`.
    """

    key: str
    title: str
    algorithm: str
    options: Mapping[str, Any] = field(default_factory=dict)
    sampling: str = "balanced"

    def config(self, options: Mapping[str, Any]) -> Any:
        """The configuration with `options`, in place of the method's own. Raises: OptionError naming the method."""
        try:
            return algorithm(self.algorithm, **options)
        except OptionError as error:
            raise OptionError(f"method {self.key!r}: {error}") from None

    @property
    def settings(self) -> str:
        """The configuration as text."""
        return repr(self.config(self.options))


@dataclass(frozen=True, kw_only=True)
class ItemSpec:
    """What is shown together: methods side by side on some data."""

    key: str
    title: str
    data: tuple[str, ...]
    methods: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class QuickSpec:
    """What `--quick` runs instead: so many seeds, and these items and data alone where any are named."""

    seeds: int = 2
    items: tuple[str, ...] = ()
    data: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run. key: names its files. kind: of its study. checkpoint_every: seconds between its checkpoints."""

    key: str
    kind: str
    data: DataSpec
    method: MethodSpec
    options: Mapping[str, Any]
    seed: int
    budget: str
    batch_size: int
    checkpoint_every: float

    untold: ClassVar[frozenset[str]] = frozenset({"key", "kind", "checkpoint_every", "title", "note"})

    @property
    def fingerprint(self) -> str:
        """Hash of all that decides the run: a finished cell with another one is run again."""
        told = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in self.untold}
        for part in ("data", "method"):
            told[part] = {k: v for k, v in asdict(told[part]).items() if k == "key" or k not in self.untold}
        return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class StudySpec:
    """What all studies share. seeds: 0 .. seeds - 1. checkpoint_every: seconds between a cell's checkpoints.

    paper: table -> row -> column -> (mean, std) as printed. parts: the classes of the TOML file's tables.
    """

    name: str
    title: str
    source: str
    seeds: int
    items: tuple[Any, ...]
    data: Mapping[str, Any]
    methods: Mapping[str, Any]
    kind: str = "fair-models"
    checkpoint_every: float = 10.0
    quick: Any = field(default_factory=QuickSpec)
    paper: Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    parts: ClassVar[dict[str, type]] = {}

    def __post_init__(self) -> None:
        for item in self.items:
            for kind, named, among in self.named_by(item):
                for name in named:
                    known(f"item {item.key!r} of study {self.name!r}", kind, name, among)

    def named_by(self, item: Any) -> list[tuple[str, Sequence[str], Iterable[str]]]:
        """(what, names that the item uses, names that there are)."""
        return [("data", item.data, self.data), ("method", item.methods, self.methods)]

    def only(self, keys: Iterable[str]) -> Self:
        """The study with the named items alone. Raises: OptionError for an unknown name."""
        keys, there = list(keys), [item.key for item in self.items]
        for key in keys:
            known(f"study {self.name!r}", "item", key, there)
        return replace(self, items=tuple(item for item in self.items if item.key in keys))

    def quickly(self) -> Self:
        """The study that `--quick` runs."""
        raise NotImplementedError

    def within(self, budget: str) -> Self:
        """The study with `budget` for every run."""
        raise NotImplementedError

    def with_tuned(self) -> Self:
        """The study with an item more, of settings to be chosen by trials."""
        raise OptionError(f"study {self.name!r} has nothing to tune; leave --tune out.")

    def trials(self) -> list[Cell]:
        """The cells that choose settings."""
        return []

    def cells(self, chosen: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None) -> list[Cell]:
        """Every cell once, in the order in which they run. chosen: data -> method -> options that trials chose."""
        raise NotImplementedError


@dataclass(frozen=True)
class Prepared:
    """A cell made ready for `solve`.

    options: further arguments of `solve`. checksum: of the data. facts: what else each record is to say.
    read: the Solution -> (evaluations, the result's own entries).
    """

    problem: Any
    config: Any
    options: Mapping[str, Any]
    checksum: str
    read: Callable[[Solution], tuple[list[dict[str, Any]], dict[str, Any]]]


Run = tuple[dict[str, Any], list[dict[str, Any]]]
"""The result and the evaluations of a finished cell."""


def _as_it_is(study: Any, data_dir: str | None) -> tuple[Any, list[str]]:
    return study, []


@dataclass(frozen=True)
class Kind:
    """What the runner must know of a kind of study.

    spec: the class of its studies. prepare: a cell and the data folder -> what `solve` runs. facts: what study.json says
    beside what every study says. summarise: study.json and the runs -> (results.json, summary.json), the latter with
    "blocks": [{"key", "title", "findings": [{"text"}], ...}] and "findings" of the whole. place: the study with absent
    data replaced, and a note for each. choose: (study, trials, folder) -> data -> method -> {"options", ...}.
    """

    spec: type[StudySpec]
    prepare: Callable[[Any, str | None], Prepared]
    facts: Callable[[Any, dict[str, Any]], dict[str, Any]]
    summarise: Callable[[dict[str, Any], list[Run]], tuple[list[dict[str, Any]], dict[str, Any]]]
    place: Callable[[Any, str | None], tuple[Any, list[str]]] = _as_it_is
    choose: Callable[..., dict[str, Any]] | None = None


def made(kind: Any, where: str, values: Mapping[str, Any]) -> Any:
    """An instance of `kind` from a TOML table. Raises: OptionError for an unknown or a missing key."""
    there = {f.name: f for f in fields(kind)}
    for name in values:
        known(where, "key", name, there)
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    try:
        return kind(**given)
    except TypeError as error:
        raise OptionError(f"{where}: {str(error).partition('__init__() ')[2]}.") from None


def known(where: str, kind: str, name: str, names: Iterable[str]) -> None:
    """Raises: OptionError where `name` is not among `names`, with the nearest of them."""
    if name not in names:
        near = difflib.get_close_matches(name, names, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names)}."
        raise OptionError(f"{where} has no {kind} {name!r}; {hint}")


def named(items: Iterable[ItemSpec], kind: str) -> tuple[str, ...]:
    """Every name of `kind` ("data" or "methods") that the items use, once."""
    return tuple(dict.fromkeys(name for item in items for name in getattr(item, kind)))
