"""The rows of a cell: a data set loaded, split by the seed, standardised on its training rows, and groups coded."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairbound.base.errors import DataError
from fairbound.base.seeds import seed_for
from fairbound.data import Dataset, GaussianParity, load, prepare
from fairbound.data.acs import raw_path
from fairbound.data.files import data_folder
from fairbound.studies.fair_models.spec import DataSpec, Study
from fairbound.studies.spec import named

GENERATED = "gaussian-parity"


@dataclass(frozen=True, eq=False)
class Part:
    """x: (n, d) float32; y: (n,) in {0, 1}; group: (n,) 0 the reference, 1 the protected group, -1 neither."""

    x: np.ndarray
    y: np.ndarray
    group: np.ndarray

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: np.ndarray) -> Part:
        return Part(self.x[rows], self.y[rows], self.group[rows])


@dataclass(frozen=True, eq=False)
class Rows:
    """train, test: the parts. checksum: sha256 of all the data set's features, labels and groups, before the split."""

    train: Part
    test: Part
    checksum: str


def available(data: DataSpec, data_dir: str | os.PathLike[str] | None) -> bool:
    """Whether the data set's files are in the data folder (asked of raw Census files, which may be absent)."""
    if data.dataset != "acs-income":
        return True
    states = data.options.get("state", "OK")
    folder, year = data_folder(data_dir, data.dataset), int(data.options.get("year", 2018))
    return all(raw_path(folder, s, year).is_file() for s in ([states] if isinstance(states, str) else states))


def with_data(study: Study, data_dir: str | None) -> tuple[Study, list[str]]:
    """The study with data sets that are not in the folder replaced as they say, and a note for each."""
    notes: list[str] = []
    places: dict[str, tuple[str, ...]] = {}
    for key in named(study.items, "data"):
        spec = study.data[key]
        if not spec.instead or available(spec, data_dir):
            places[key] = (key,)
            continue
        places[key] = spec.instead
        taken = " and ".join(study.data[k].title for k in spec.instead)
        notes.append(f"The files of {spec.title} are not in the data folder; {taken} take its place.")
    items = tuple(
        replace(item, data=tuple(dict.fromkeys(k for d in item.data for k in places[d]))) for item in study.items
    )
    return replace(study, items=items), notes


def load_rows(data: DataSpec, seed: int, data_dir: str | os.PathLike[str] | None, held: float = 0.0) -> Rows:
    """The rows of one run, 80/20 and stratified by group, as in KLBM25's section 4.1; another split for every seed.

    held: where positive, this share of the training rows takes the place of the test rows, which are dropped.
    """
    options = json.dumps(dict(data.options), sort_keys=True)
    dataset, checksum = _loaded(data.dataset, options, data.group, None if data_dir is None else str(data_dir))
    made = prepare(dataset, seed, group=data.group)
    codes = {name: code for code, name in enumerate(data.groups)}
    parts = []
    for x, y, labels in ((made.X_train, made.y_train, made.group_train), (made.X_test, made.y_test, made.group_test)):
        group = np.array([codes.get(label, -1) for label in labels], dtype=np.int64)
        absent = [name for name, code in codes.items() if not (group == code).any()]
        if absent:
            raise DataError(f"data {data.key!r}: no row has {data.group} = {absent[0]!r}; correct `groups`.")
        parts.append(Part(np.ascontiguousarray(x, dtype=np.float32), y, group))
    train, test = parts
    if held:
        train, test = divided(train, held, seed, "tuning")
    return Rows(train, test, checksum)


def divided(part: Part, share: float, seed: int, purpose: str) -> tuple[Part, Part]:
    """`part` without a `share` of each group's rows, and those rows."""
    rng = np.random.default_rng(seed_for("divide", purpose, seed))
    away = np.zeros(len(part), dtype=bool)
    for code in np.unique(part.group):
        rows = rng.permutation(np.flatnonzero(part.group == code))
        away[rows[: round(share * len(rows))]] = True
    return part.take(np.flatnonzero(~away)), part.take(np.flatnonzero(away))


@functools.lru_cache(maxsize=2)
def _loaded(name: str, options: str, group: str, data_dir: str | None) -> tuple[Dataset, str]:
    chosen: dict[str, Any] = json.loads(options)
    if name == GENERATED:
        dataset = GaussianParity().sample(chosen.get("n", 2000), chosen.get("seed", 0), group_features=False)
    else:
        dataset = load(name, data_dir, **chosen)
    digest = hashlib.sha256(np.ascontiguousarray(dataset.X, dtype=np.float64).tobytes())
    digest.update(np.ascontiguousarray(dataset.y, dtype=np.int64).tobytes())
    digest.update("\0".join(map(str, dataset.group(group))).encode())
    return dataset, digest.hexdigest()
