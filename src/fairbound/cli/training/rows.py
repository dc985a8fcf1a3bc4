"""The rows a command works on: a CSV file or a named data set as features, labels and groups."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fairbound import data
from fairbound.base.errors import DataError, OptionError
from fairbound.base.names import did_you_mean
from fairbound.cli.files.columns import (
    file_checksum,
    file_columns,
    groups_in,
    in_file,
    in_label,
    labelled_rows,
    named_columns,
    narrow_columns,
    one_column,
    units_of,
    weight_notes,
    weights_of,
)
from fairbound.cli.files.kinds import as_stated
from fairbound.cli.files.outcome import say
from fairbound.cli.files.row_warnings import (
    KEEP_ONE,
    code_warnings,
    copy_warnings,
    identifier_warnings,
    missing_word_notes,
)
from fairbound.cli.options.common import FileOptions, RowOptions
from fairbound.data.registry import is_own
from fairbound.fairness.bound import check_clustered
from fairbound.rows.doubtful import twin_words
from fairbound.rows.groups import Groups, no_groups
from fairbound.rows.labels import CLASSES, class_labels, positive_last
from fairbound.tables import Chunks, Encoded, TableEncoder
from fairbound.tables.marks import Mark
from fairbound.tables.reading.files import table_and_marks

ReadLabels = Callable[[Any], tuple[np.ndarray, tuple[Any, ...]]]
"""Of a column of labels, the targets and the classes."""


@dataclass(frozen=True, eq=False)
class InputRows:
    """n labelled rows. X: pandas frame, CSR matrix or Chunks; y: (n,) labels as the file has them; target: (n,) class
    numbers.

    classes: the labels of the class numbers; of two, the positive one is last; () where target holds numbers.
    published: row numbers of the publisher's "train" and "test", or empty. weight: (n,) >= 0, or None. path: of the
    file; a named set has none. numbers: (n,) of the rows in the file, None where they are all of it. qid: (n,) the
    query of each row, or None. units: (n,) the person of each row, by the column split_by, or None. warnings: what a
    reader must know of persons with several rows and of features that are a group. marks: before decimals in the file, by
    separator, where its numbers show it.
    """

    name: str
    X: Any
    y: np.ndarray
    target: np.ndarray
    classes: tuple[Any, ...]
    groups: Groups
    label: str
    checksum: str | None
    published: Mapping[str, np.ndarray] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    weight: np.ndarray | None = None
    path: str = ""
    numbers: np.ndarray | None = None
    qid: Any = None
    split_by: str | None = None
    units: np.ndarray | None = None
    warnings: tuple[str, ...] = ()
    marks: Mapping[str, Mark] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.target)

    def groups_of(self, rows: np.ndarray) -> Groups | None:
        """The groups of some rows, None where there is no attribute."""
        return self.groups.take(rows) if self.groups.attributes else None

    def weight_of(self, rows: np.ndarray) -> np.ndarray | None:
        """The weights of some rows, None where all rows count alike."""
        return None if self.weight is None else self.weight[rows]

    def counting(self, rows: np.ndarray) -> int:
        """How many of some rows have a weight above 0, without weights all of them."""
        weight = self.weight_of(rows)
        return len(rows) if weight is None else int(np.count_nonzero(weight))

    def known_of(self, rows: np.ndarray) -> dict[str, Any]:
        """What `audit` takes of some rows beside their scores."""
        groups, weight = self.groups_of(rows), self.weight_of(rows)
        known = {"y": self.target[rows], "sensitive_features": groups, "sample_weight": weight}
        if self.units is not None:
            known["clusters"] = self.units[rows]
        return known if self.qid is None else known | {"qid": np.asarray(self.qid)[rows]}

    def places_of(self, rows: np.ndarray) -> np.ndarray:
        """Where some rows stand in the file or the data set, counted from 0."""
        return rows if self.numbers is None else self.numbers[rows]

    def check_bounds(self, bounds: Sequence[Any]) -> None:
        """Raises: OptionError for a bound that cannot be judged where persons have several rows, if some have."""
        if self.units is not None and len(np.unique(self.units)) < len(self):
            check_clustered(bounds)

    def in_lines_of(self, rows: np.ndarray | None = None) -> AbstractContextManager[None]:
        """Errors of data raised within name the file and its lines; rows: (k,) those that the error numbers,
        None for all."""
        return in_file(self.path, self.numbers if rows is None else self.places_of(rows))


@contextmanager
def in_lines_of_parts(rows: InputRows) -> Iterator[None]:
    """As `rows.in_lines_of`, for errors that may count the rows of a part alone: the whole table is then read again, so
    that the error names lines of the file."""
    try:
        yield
    except DataError:
        with rows.in_lines_of():
            Encoded.of(TableEncoder(), rows.X)
        raise


def is_file(source: str) -> bool:
    """Whether `--data` means a file: it exists, or it looks like a path rather than the name of a data set."""
    if source in data.names():
        return False
    if is_own(source) and not Path(source).exists():
        return False
    return Path(source).exists() or os.sep in source or "." in Path(source).name


def rows_of_options(
    options: RowOptions, needs_groups: bool = True, two_classes: bool = True, instead: str = CLASSES
) -> InputRows:
    """The rows of `options.data`, a CSV or Parquet file or the name of a data set, which has its own label and groups.

    needs_groups: whether a group must be named; else there may be none. two_classes: whether y must have two, as it
    must where a positive one is named. instead: as in `binary_labels`.
    Raises: DataError or OptionError saying what is wrong with the file or the options; OSError for a wrong path.
    """
    read = partial(read_labels, positive=options.positive, two_classes=two_classes, instead=instead)
    if is_file(options.data):
        return rows_of_file(options, needs_groups, read, chunk_rows=options.chunk_rows)
    return rows_of_data_set(options, needs_groups, read)


def read_labels(
    y: Any, positive: str | None, two_classes: bool, instead: str = CLASSES
) -> tuple[np.ndarray, tuple[Any, ...]]:
    """(n,) class numbers and the labels: two where `two_classes` says so or a positive one is named,
    else two or more."""
    codes, classes = class_labels(y)
    if len(classes) > 2 and not two_classes and positive is None:
        return codes, classes
    return positive_last(codes, classes, positive, y, instead)


def rows_of_file(
    options: FileOptions,
    needs_groups: bool,
    read: ReadLabels,
    query: str | None = None,
    chunk_rows: int | None = None,
) -> InputRows:
    """The rows of the file `options.data`. read: takes the column of labels. query: the column of the query."""
    path = options.data
    frame, marks = table_and_marks(path, **options.file_format) if chunk_rows is None else (None, {})
    columns = file_columns(options) if frame is None else list(frame.columns)
    label = one_column(options.label, columns, "--label")
    attributes = named_columns(options.group, columns, "--group", needs_groups)
    dropped = named_columns(options.drop, columns, "--drop")
    queries = [] if query is None else [one_column(query, columns, "--qid")]
    weigh = [] if options.weights is None else [one_column(options.weights, columns, "--weights")]
    split_by = getattr(options, "split_by", None)
    by = [] if split_by is None else [one_column(split_by, columns, "--split-by")]
    if label in [*attributes, *dropped, *by]:
        raise OptionError(
            f"column {label!r} is the label and cannot be a group, be dropped or say who a row is of too."
        )
    if frame is None:
        frame = narrow_columns(options, list(dict.fromkeys([label, *attributes, *weigh, *by])), chunk_rows)
    rows = len(frame)
    frame, unlabelled = labelled_rows(frame, label, options)
    numbers = frame.index.to_numpy() if len(frame) < rows else None
    with in_label(path, label, numbers):
        target, classes = read(frame[label])
    away = {label, *dropped, *weigh, *queries, *by, *(() if options.keep_sensitive else attributes)}
    features = [column for column in columns if column not in away]
    if not features:
        raise OptionError(f"{path}: no column is left to learn from after the label, groups and dropped columns.")
    notes = unlabelled + ([] if options.keep_sensitive or not attributes else [_dropped_note(attributes, attributes)])
    if dropped:
        notes.append(f"Columns left out by --drop: {', '.join(dropped)}.")
    weight = weights_of(frame, options.weights, path)
    notes += weight_notes(options.weights)
    if by and split_by not in attributes:
        notes.append(f"Rows of one {split_by} are on one side of the split; it is not among the features.")
    may_split = hasattr(options, "split_by") and not getattr(options, "certify", False) and query is None
    remedy = "--split-by {} holds out whole persons, and takes their rows together." if may_split else KEEP_ONE
    warnings = () if by else identifier_warnings(frame.drop(columns=[label, *queries]), remedy)
    groups = groups_in(frame, attributes) or no_groups(len(frame))
    if chunk_rows is None:
        copies = () if by or queries else copy_warnings(frame)  # of a query's documents many may be alike
        warnings = (*warnings, *copies, *code_warnings(frame[features]))
        shown = frame[list(dict.fromkeys([*features, *attributes]))]
        notes += missing_word_notes(shown, path, options.file_format, attributes)
    if chunk_rows is None and not options.keep_sensitive:
        warnings = (*warnings, *twin_words(frame[features], groups))
    for said in warnings:
        say(said)
    checksum = file_checksum(path)
    y = np.array(frame[label].tolist(), dtype=object if classes and isinstance(classes[0], str) else None)
    X: Any = None
    if chunk_rows is None:
        X = frame[features]
    else:  # the features of a file that is read in parts are kept in a file too
        X = Chunks.read(path, rows=chunk_rows, columns=features, folder=tempfile.gettempdir(), **options.file_format)
        next(iter(X), None)  # looks through the file, and warns: what reads it later is silent
        marks = X.marks
        X = X if numbers is None else X.take(numbers)
    named_columns(options.text, columns, "--text")
    X = as_stated(X, options.text)
    return InputRows(
        Path(path).name, X, y, target, classes, groups, label, checksum, {}, tuple(notes), weight, path, numbers,
        frame[query] if queries else None, split_by, units_of(frame, by[0]) if by else None, warnings, marks,
    )  # fmt: skip


def rows_of_data_set(options: RowOptions, needs_groups: bool, read: ReadLabels, ranked: bool = False) -> InputRows:
    """The rows of the named data set `options.data`. read: as of `rows_of_file`. ranked: whether they are documents of its
    queries, whose groups are looked at even where none is needed."""
    if options.chunk_rows is not None:
        raise OptionError("--chunk-rows is for files; a named data set is read whole.")
    if getattr(options, "split_by", None) is not None:
        raise OptionError("--split-by names a column of a file; a named data set has none of persons.")
    if options.encoding or options.decimal or options.text:
        raise OptionError("--encoding, --decimal and --text are for files; a named data set is read as it is written.")
    name, keep_sensitive = options.data, options.keep_sensitive
    if name not in data.names() and not is_own(name):
        hint = did_you_mean(name, data.names(), before=". ", otherwise=f". Named data sets: {', '.join(data.names())}.")
        raise OptionError(f"--data {name!r} is neither a file nor the name of a data set{hint}")
    if needs_groups and not data.info(name).groups:
        raise OptionError(f"data set {name!r} has no sensitive attribute, so there are no groups to compare.")
    entry, dataset = data.info(name), data.load(name, options.data_dir)
    if options.label not in (None, dataset.label):
        raise OptionError(f"data set {name!r} has the label {dataset.label!r} ({entry.label}); leave --label out.")
    if options.positive is not None:
        raise OptionError(f"data set {name!r} defines its positive label ({entry.label}); leave --positive out.")
    if ranked and dataset.qid is None:
        raise OptionError(f"data set {name!r} has no queries; leave --qid out.")
    default = entry.groups[0] if needs_groups or (ranked and entry.groups) else None
    attributes = named_columns(options.group or default, list(dataset.sensitive), "--group")
    wanted = attributes if not keep_sensitive else []
    extra = named_columns(options.drop, list(dict.fromkeys(dataset.feature_sources)), "--drop")
    shown = dataset.without(*wanted, *extra) if wanted or extra else dataset
    X = shown.features
    sources = [s for a in attributes for s in dataset.sensitive_sources.get(a, (a,))]
    notes = []
    if attributes:
        notes.append(
            _dropped_note(attributes, sources)
            if not keep_sensitive
            else f"Columns that tell {', '.join(attributes)} kept among the features: {', '.join(dict.fromkeys(sources))}."
        )
    if extra:
        notes.append(f"Columns left out by --drop: {', '.join(extra)}.")
    if options.weights is not None:
        if options.weights != "survey" or dataset.weight is None:
            has = "has survey weights: --weights survey" if dataset.weight is not None else "has no survey weights"
            raise OptionError(f"--weights {options.weights!r}: data set {name!r} {has}.")
        notes.append("Every row counts with its weight in the survey.")
    target, classes = read(dataset.y)
    sums = [f"sha256:{file.sha256}" for file in entry.files]
    published = dataset.splits if {"train", "test"} <= set(dataset.splits) else {}
    groups = Groups.of({a: dataset.group(a) for a in attributes}) if attributes else no_groups(len(dataset))
    return InputRows(
        name,
        X,
        dataset.y,
        target,
        classes,
        groups,
        dataset.label,
        " ".join(sums) or None,
        published,
        tuple(notes),
        dataset.weight if options.weights else None,
        qid=dataset.qid if ranked else None,
    )


def _dropped_note(attributes: Sequence[str], sources: Sequence[str]) -> str:
    columns = ", ".join(dict.fromkeys(sources))
    return f"Sensitive: {', '.join(attributes)}. Not among the features ({columns} dropped; --keep-sensitive keeps it)."
