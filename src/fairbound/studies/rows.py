"""Rows for a study of models: a data set loaded, split by the seed, standardised on its training rows, groups coded."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairbound.base.errors import DataError, OptionError
from fairbound.base.seeds import seed_for
from fairbound.data import Dataset, GaussianParity, info, load, prepare
from fairbound.data.acs import raw_path
from fairbound.data.files import data_folder
from fairbound.rows.groups import Groups
from fairbound.studies.checked import known
from fairbound.tables.group_terms import with_terms

GENERATED = "gaussian-parity"
PARTS = ("train", "validation", "test")


@dataclass(frozen=True, eq=False)
class StudyRows:
    """x: (n, d) float32, or pictures; y: (n,) in {0, 1}; group: (n,) names, or codes: 0 the reference,
    1 the protected group, -1 neither. checksum: of the whole data set, before it was split and standardised."""

    x: np.ndarray
    y: np.ndarray
    group: np.ndarray
    checksum: str = ""

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: np.ndarray) -> StudyRows:
        """The rows numbered `rows` (k,)."""
        return StudyRows(self.x[rows], self.y[rows], self.group[rows], self.checksum)

    def coded(self, attribute: str, names: Sequence[str]) -> Groups:
        """The groups of rows with codes. names: of the codes 0, 1, ..."""
        return Groups(self.group.reshape(-1, 1), (attribute,), (tuple(names),))


@dataclass(frozen=True, eq=False)
class SplitRows:
    """train, test: the parts."""

    train: StudyRows
    test: StudyRows

    @property
    def checksum(self) -> str:
        """Of all the data set's features, labels and groups, before the split."""
        return self.train.checksum

    def together(self) -> StudyRows:
        """The rows of both parts."""
        x, y, group = (np.concatenate([getattr(self.train, k), getattr(self.test, k)]) for k in ("x", "y", "group"))
        return StudyRows(x, y, group, self.train.checksum)


def shared_out(
    dataset: str,
    options: Mapping[str, Any],
    attribute: str,
    shares: Sequence[float],
    seed: int,
    data_dir: str | os.PathLike[str] | None,
    *,
    purpose: str,
    stated_test: bool,
    most: int,
    group_terms: bool,
) -> dict[str, StudyRows]:
    """Training, validation and test rows of a seed: missing numbers the mean, features standardised on the training
    rows.

    shares: of the rows, for training, validation and testing; stated_test: rows with a stated test split keep it, and
    the others are shared out. purpose: a word of the study, for its own random order. most: a random part of so many
    rows, 0 for all. group_terms: (xi, gamma, gamma xi) in place of the features xi, with gamma 1 in the first group by
    name.
    """
    data = load(dataset, data_dir, **options)
    X: Any = data.X
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    y, group = np.asarray(data.y), np.asarray(data.group(attribute))
    known_by = checksum(X, y, group)
    rng = np.random.default_rng(seed_for(purpose, dataset, root=seed))
    if stated_test:
        test, rest = data.splits["test"], rng.permutation(data.splits["train"])
        first, held = np.split(rest, [round(shares[0] / (shares[0] + shares[1]) * len(rest))])
    else:
        first, held, test = in_parts(len(y), shares, rng, most)
    X = standardised(X, first)
    if group_terms:
        first_label = min(label for label in group if isinstance(label, str))
        X = with_terms(X, (group == first_label).astype(np.int64), 2)
    every = StudyRows(X.astype(np.float32), y, group, known_by)
    return {name: every.take(rows) for name, rows in zip(PARTS, (first, held, test), strict=True)}


def checksum(X: np.ndarray, y: np.ndarray, group: np.ndarray) -> str:
    """The sha256 of the features (n, d), whole labels (n,) and groups of a data set."""
    digest = hashlib.sha256(np.ascontiguousarray(X, dtype=np.float64).tobytes())
    digest.update(np.ascontiguousarray(y, dtype=np.int64).tobytes())
    digest.update("\0".join(map(str, group)).encode())
    return digest.hexdigest()


def standardised(X: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The features (n, d) with mean 0 and spread 1 on `rows`, missing ones the mean."""
    mean, spread = np.nanmean(X[rows], axis=0), np.nanstd(X[rows], axis=0)
    return (np.where(np.isnan(X), mean, X) - mean) / np.where(spread > 0, spread, 1.0)


def in_parts(n: int, shares: Sequence[float], rng: np.random.Generator, most: int) -> list[np.ndarray]:
    """Row numbers in a random order, divided by the shares; most: of so many rows, 0 for all."""
    order = rng.permutation(n)[: most or None]
    return np.split(order, np.cumsum(np.round(np.array(shares[:2]) * len(order)).astype(int)))


def check_shares(shares: Sequence[float]) -> None:
    """Raises: OptionError unless `shares` are three numbers >= 0 that sum to 1."""
    if len(shares) != 3 or abs(sum(shares) - 1) > 1e-9 or min(shares) < 0:
        raise OptionError(f"shares must be three numbers >= 0 that sum to 1, got {list(shares)}.")


def missing(given: Mapping[str, Any], data_dir: str | None) -> str:
    """Why the data set of a task's options cannot be had; "" where it can."""
    if given["dataset"] == GENERATED:
        return ""
    try:
        load(given["dataset"], data_dir, **given.get("options", {}))
    except DataError as error:
        return str(error)
    return ""


def check_names(dataset: str, attribute: str) -> None:
    """Raises: OptionError where no data set has this name, and where its entry names
    sensitive attributes without this one."""
    if dataset != GENERATED and (known := info(dataset).groups) and attribute not in known:
        raise OptionError(f"data set {dataset!r} has no sensitive attribute {attribute!r}; it has: {', '.join(known)}.")


def check_values(
    dataset: str, options: Mapping[str, Any], attribute: str, names: Sequence[str], data_dir: str | None
) -> None:
    """Raises: OptionError where no row has one of the names as its attribute. Data that cannot be read are no matter
    of the names: their runs say why."""
    text = json.dumps(dict(options), sort_keys=True)
    try:
        there = _loaded(dataset, text, attribute, data_dir)[0].group(attribute)
    except DataError:
        return
    labels = list(dict.fromkeys(sorted(label for label in there.tolist() if isinstance(label, str))))
    for name in names:
        known(f"data set {dataset!r}", f"row of {attribute}", name, labels)


def census_files_there(options: Mapping[str, Any], data_dir: str | os.PathLike[str] | None) -> bool:
    """Whether the raw files of the data set "acs-income" with these options are in the data folder."""
    states = options.get("state", "OK")
    folder, year = data_folder(data_dir, "acs-income"), int(options.get("year", 2018))
    return all(raw_path(folder, s, year).is_file() for s in ([states] if isinstance(states, str) else states))


def load_rows(
    dataset: str,
    options: Mapping[str, Any],
    attribute: str,
    groups: Sequence[str],
    seed: int,
    data_dir: str | os.PathLike[str] | None,
    held: float = 0.0,
) -> SplitRows:
    """The rows of one run, 80/20 and stratified by group, as in KLBM25's section 4.1; another split for every seed.

    dataset, options: of `fairbound.data.load`; "gaussian-parity" is the generator, with options n and seed. attribute:
    the sensitive one, not a feature; groups: (reference, protected), two of its values. held: where positive, this
    share of the training rows takes the place of the test rows, which are dropped. Raises: DataError where a group has
    no row.
    """
    text = json.dumps(dict(options), sort_keys=True)
    loaded, known_by = _loaded(dataset, text, attribute, None if data_dir is None else str(data_dir))
    made = prepare(loaded, seed, group=attribute)
    codes = {name: code for code, name in enumerate(groups)}
    parts = []
    for x, y, labels in ((made.X_train, made.y_train, made.group_train), (made.X_test, made.y_test, made.group_test)):
        group = np.array([codes.get(label, -1) for label in labels], dtype=np.int64)
        absent = [name for name, code in codes.items() if not (group == code).any()]
        if absent:
            there = ", ".join(dict.fromkeys(sorted(label for label in labels if isinstance(label, str))))
            raise DataError(
                f"data {dataset!r}: no row has {attribute} = {absent[0]!r}; correct `groups`. There are: {there}."
            )
        parts.append(StudyRows(np.ascontiguousarray(x, dtype=np.float32), y, group, known_by))
    train, test = parts
    if held:
        train, test = divided(train, held, seed, "tuning")
    return SplitRows(train, test)


def divided(part: StudyRows, share: float, seed: int, purpose: str) -> tuple[StudyRows, StudyRows]:
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
    return dataset, checksum(dataset.X, dataset.y, dataset.group(group))
