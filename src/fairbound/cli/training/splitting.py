"""The rows of a command divided into those for training and those held out, and both encoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fairbound.base.errors import OptionError
from fairbound.base.names import shortlist
from fairbound.base.seeds import seed_for
from fairbound.cli.files.advice import for_commands
from fairbound.cli.training.rows import InputRows
from fairbound.rows.groups import Groups
from fairbound.rows.queries import split_by_query
from fairbound.rows.reading import take_rows
from fairbound.rows.split import split_whole, stratified_split
from fairbound.tables import Chunks, Encoded, TableEncoder, TableOptions
from fairbound.tables.encode_report import identifier_words

TEST_SHARE = 0.25
FEW_ROWS = 5


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers for training and held out, and how they were chosen, in words."""

    train: np.ndarray
    test: np.ndarray
    words: str


def split_rows(rows: InputRows, share: float | None, seed: int) -> Split:
    """The published split where there is one and no share is asked for; else `share` of every label and group, of
    numbers of every group, of documents whole queries.

    Every stratum keeps a row in training, as `stratified_split` says. Raises: OptionError where a part would be empty.
    """
    if share is None and rows.published:
        train, test = rows.published["train"], rows.published["test"]
        return Split(train, test, f"the published split of {rows.name}: {len(test):,} rows held out")
    share, chance = TEST_SHARE if share is None else share, seed_for("held-out", root=seed)
    if rows.qid is not None:
        train, test = split_by_query(rows.qid, [share], chance)
        words = "of the queries held out"
    else:
        by = ["label"] * bool(rows.classes) + ["group"] * bool(rows.groups.attributes)
        strata = np.column_stack([*([rows.target] if rows.classes else []), rows.groups.codes])
        words = f"held out, stratified by {' and '.join(by)}"
        if rows.units is None:
            train, test = stratified_split(strata, [share], chance)
        else:
            train, test = split_whole(rows.units, strata, [share], chance)
            words = f"of the values of {rows.split_by} {words} of their first rows"
    if not len(test) or (rows.classes and len(np.unique(rows.target[train])) < 2):
        raise OptionError(f"{len(rows)} rows are too few to hold out {share:g} of them for the verdict.")
    return Split(train, test, f"{100 * share:g} % {words}, seed {seed}")


@dataclass(frozen=True, eq=False)
class Parts:
    """Rows divided by `split` and encoded, each table once: train, which the encoder learnt from, and held (out)."""

    rows: InputRows
    split: Split
    train: Encoded
    held: Encoded

    @property
    def identifier_warnings(self) -> list[str]:
        """What is said of features that look like identifiers."""
        return [for_commands(said) for said in identifier_words(self.train.report.identifiers)]


def table_options(options: Any) -> TableOptions | None:
    """Of the encoder, by a command's knots, jumps, pairs and max_categories; None where they are its own."""
    stated: dict[str, Any] = {name: getattr(options, name) for name in ("knots", "jumps", "pairs", "max_categories")}
    if all(value is None for value in stated.values()):
        return None
    for name, value in stated.items():
        if isinstance(value, str) and value.isdecimal():
            stated[name] = int(value)
    return TableOptions(**stated)


def encoded_parts(rows: InputRows, split: Split, options: TableOptions | None, by_column: bool = False) -> Parts:
    """The parts of `split` as features, for any number of models. by_column: as in `Encoded.of`, of the training rows.
    Raises: DataError naming the column that cannot be."""
    encoder = TableEncoder(options)
    take = rows.X.take if isinstance(rows.X, Chunks) else partial(take_rows, rows.X)
    made = []
    for part, of_training in ((split.train, True), (split.test, False)):
        with rows.in_lines_of(part):
            labels = rows.target[part]
            made.append(Encoded.of(encoder, take(part), labels=labels, by_column=by_column and of_training))
    return Parts(rows, split, *made)


def tiny_group_warnings(groups: Groups, train: np.ndarray, bounds: Sequence[Any]) -> list[str]:
    """For each attribute, a line that names its tiny groups in training, with their rows, but for those that all bounds
    leave out by `fewest`."""
    out, least = [], min((getattr(bound, "fewest", None) or 0 for bound in bounds), default=0)
    part = groups.take(train)
    for attribute, counts in part.counts().items():
        few = {g: n for g, n in counts.items() if least <= n < FEW_ROWS}
        if few:
            named = shortlist((f"{g!r} ({n})" for g, n in few.items()), 5)
            out.append(
                f"{attribute}: too few training rows to control or measure the rates of {named}. Merge such groups with others, or "
                "leave their cells empty to take them out of the bound."
            )
    return out
