"""Tables into features: what is learnt on the training rows is applied unchanged to every later row, and saved as JSON.

What becomes of a column, decided on the training table:

- numbers: ``(x - mean) / sd`` (over the known values; the range where fewer than ``min_count`` differ from one value). Missing values take the median, and
  where any were missing in training a 0/1 column ``name=(missing)`` says so.
- with ``knots=5`` a number has up to five more columns ``name above knot``: ``max(x - knot, 0) / sd``, at values of
  training of equal steps of rank, so that a linear model may bend there; with ``knots="auto"``, the default of linear
  classifiers, three, of the numbers for which labels of two values ask (`fairbound.tables.shapes.bending` has the test), and
  0/1 columns ``name>value`` where they ask for a jump (`fairbound.tables.shapes.jumping`).
- two columns that tell together what neither tells alone, as labels show, have 0/1 columns of their own, such as
  ``age>45 & job=admin``, after those of all columns (`fairbound.tables.shapes.pairing` has the test). There a missing number
  lies beyond nothing where training had gaps.
- dates and durations: as numbers, in days (dates: since 1970-01-01 UTC). So are texts all of which are dates such as
  2024-05-31, 2024/05/31, 31.05.2024, 31-May-2024, 5/31/2024 or 31-5-2024 (where days above 12 show what comes first), with a time or not, and that with its zone (+01:00) or not; times of a day such as 9:05 PM (a part of a day); or durations such as 1 days 02:35:51, where they have more than 50 different values, or than a stated ``max_categories``.
- categories (bool, categorical, text, mixed objects): one 0/1 column ``name=value`` for each value of training; values
  rarer than ``min_count`` and those beyond ``max_categories`` share ``name=(other)``; missing is the category
  ``name=(missing)``. Blanks around a text do not count, an empty text is missing; 1, 1.0 and "1" are one, "1.0" and 007 others.
- whole numbers stay numbers, however few: say ``categorical=("code",)`` or give the column a categorical type.
- a frame's text stays a category even if all of it is numbers; numbers kept as objects (Decimal too) are numbers, and texts in a
  table without column types are where they have more than 50 (or ``max_categories``) different values and no leading zeros. Text
  that is a number in nearly all rows is an error: most likely of typing. A warning names text that becomes categories
  though most of at least ten different values are numbers, unless all are whole ones, and few enough for a feature each.
- dropped, with the reason in ``dropped`` and a warning: constant columns, columns with no known value, text nearly
  unique per row.

At prediction a value spelt as none of training is the one that has its number or truth value (1.0 for "1", TRUE for True; not
007 for "7"), and a date that of the text which means it, such as 31.05.2024, where dates became categories. Else it goes to
``name=(other)`` where that column exists, or its row has zeros in all columns of that name, and it is counted in the
:class:`EncodeReport`. So is a missing value; a category column that had none in training treats it like an unseen one.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError

from fairbound.base.callers import users_line
from fairbound.base.errors import DataError, DataWarning
from fairbound.base.undoing import undone_on_failure
from fairbound.tables.columns import Column, Table, by_name, by_place, read_columns
from fairbound.tables.encode_report import EncodeReport, dropped_words, is_of_one_table
from fairbound.tables.features import Feature, Unseen, names_out
from fairbound.tables.identifiers import is_identifier
from fairbound.tables.layout import Layout, OfCategory
from fairbound.tables.learning import check_options, finite, infinite_error, learn_column, warned_of
from fairbound.tables.numbers import NumberFeature, Tally, fill_numbers, learn_numbers, slices
from fairbound.tables.options import TableOptions
from fairbound.tables.pairs import Pair
from fairbound.tables.ranges import RangeCounts
from fairbound.tables.scaled import learn_scale, scaled
from fairbound.tables.shapes.shapes import Asked, shaped
from fairbound.tables.stored import Learnt
from fairbound.tables.sums import ROWS_AT_ONCE, Block, number_array

_UNFITTED = "this TableEncoder is not fitted yet. Call fit(table) with the training rows first."


class TableEncoder(TransformerMixin, BaseEstimator):
    """Learns on one table how to turn tables into features: standardised numbers, 0/1 columns of text.

    `fit` and `transform` take a DataFrame of any library that narwhals reads (pandas, polars, pyarrow, ...), a 2-D
    numpy array or torch tensor, a list of rows, or a scipy sparse matrix, which stays sparse. Frames are matched by
    name in any order; extra columns are ignored and reported. A table without names is matched by place. As a step of
    a scikit-learn `Pipeline` it lets any estimator take tables; `y` (n,) is looked at under "auto" alone. The
    module's docstring has the rules.

    After `fit`: `n_features_in_` and `feature_names_in_` (the columns of the training table), `feature_names` (d,), `columns` (the
    input columns it needs), `dropped` (column -> reason) and `last_report`, the `EncodeReport` of the latest `fit` or `transform`.

    Raises: DataError naming the column and the next move, for every table that does not fit.
    """

    _laid: Layout | None = None

    def __init__(self, options: TableOptions | None = None) -> None:
        self.options = options or TableOptions()
        self.last_report: EncodeReport | None = None
        self._told = set[str]()  # columns of which it was said that they have values that training never had
        self.dropped: dict[str, str] = {}
        self.learnt: tuple[Feature, ...] | None = None  # of a dense table, in order
        self.pairs: tuple[Pair, ...] = ()  # of its columns, whose features come last
        self.scale: np.ndarray | None = None  # sparse tables: (d,) divisor of each column
        self._inputs: tuple[str, ...] = ()  # all training columns in order, dropped ones too
        self.named = False  # whether the training table had column names
        self.identifiers: tuple[str, ...] = ()  # features that look like identifiers in the training table; not saved
        self.doubts: tuple[str, ...] = ()  # what is said of columns in training; not saved

    def __sklearn_is_fitted__(self) -> bool:
        return self.fitted

    @property
    def fitted(self) -> bool:
        """Whether ``fit`` was called."""
        return self.learnt is not None or self.scale is not None

    @property
    def sparse(self) -> bool:
        """Whether it was fitted on a sparse table, so that ``transform`` returns one."""
        return self.scale is not None

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the input columns that ``transform`` needs, in training order."""
        self._check_fitted()
        return self._inputs if self.learnt is None else tuple(spec.name for spec in self.learnt)

    @property
    def n_features_in_(self) -> int:
        """The number of columns of the training table, those that it drops too. Raises: NotFittedError."""
        self._check_fitted()
        return len(self._inputs)

    @property
    def feature_names_in_(self) -> np.ndarray:
        """(c,) their names. Raises: AttributeError where they had none, as other transformers do, and before `fit`."""
        if not self.named:
            raise AttributeError("this TableEncoder is not fitted, or was fitted to a table without column names.")
        return np.array(self._inputs, dtype=object)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the d features that ``transform`` returns."""
        self._check_fitted()
        if self.learnt is None:
            return self._inputs
        return *(f for spec in self.learnt for f in spec.feature_names), *(pair.feature_name for pair in self.pairs)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """(d,) names of the features. input_features: the names of the columns of a table that had none.
        Raises: ValueError where they are not those of training."""
        self._check_fitted()
        return names_out(self.learnt, self.pairs, self._inputs, self.named, input_features)

    @property
    def bent(self) -> tuple[str, ...]:
        """Names of the columns that have knots."""
        return tuple(spec.name for spec in self._numbers if spec.knots)

    @property
    def jumping(self) -> dict[str, tuple[float, ...]]:
        """Of the columns that have jumps, the values beyond which they have 0/1 columns."""
        return {spec.name: spec.jumps for spec in self._numbers if spec.jumps}

    @property
    def _numbers(self) -> list[NumberFeature]:
        self._check_fitted()
        return [spec for spec in self.learnt or () if isinstance(spec, NumberFeature)]

    @undone_on_failure
    def fit(self, table: Any, y: Any = None) -> TableEncoder:
        """Learn from the training table, (n, c) with n, c >= 1; forgets what was learnt before. Returns self.
        Warns: DataWarning of columns that are dropped."""
        self._fit(table, y)
        self._warn_of_dropped()
        return self

    def transform(self, table: Any) -> Any:
        """The features of a table: (n, d) float64, dense, or csr_array where it was fitted on a sparse table. After
        `set_output` a frame, as of scikit-learn's transformers, which refuse it of a sparse table.
        Warns: DataWarning once of each column with a value that training never had."""
        features, report = self.encode(table)
        self.warn(report, strange=False)
        return features

    def warn(self, report: EncodeReport, strange: bool = True) -> None:
        """Warns: DataWarning once of each column with a value that training never had, in a table of this report;
        with `strange` also of columns unlike those of training. Neither `of_one_table`."""
        if is_of_one_table():
            return
        new = report.new.keys() - self._told
        self._told |= new
        for line in report.new_lines(new) + (report.strange_lines(besides=new) if strange else []):
            warnings.warn(line, DataWarning, stacklevel=users_line())

    @undone_on_failure
    def fit_transform(self, table: Any, y: Any = None) -> Any:
        """``fit(table).transform(table)``, reading the table once. Warns: as `fit`."""
        features = self.fit_encode(table, y=y)[0]
        self._warn_of_dropped()
        return features

    def _warn_of_dropped(self) -> None:
        for said in dropped_words(self.dropped):
            warnings.warn(said, DataWarning, stacklevel=users_line())

    @undone_on_failure
    def fit_encode(
        self, table: Any, dtype: Any = np.float64, y: Any = None, by_column: bool = False
    ) -> tuple[Any, EncodeReport]:
        """``fit(table, y).encode(table, dtype, by_column)``, reading the table once; what was dropped stands in the
        report."""
        read = self._fit(table, y)
        if self.learnt is None:
            return self.encode(table, dtype)
        return self._filled(read, by_name(read, self.columns), dtype, by_column, positional=False)

    def encode(self, table: Any, dtype: Any = np.float64, by_column: bool = False) -> tuple[Any, EncodeReport]:
        """``transform`` together with its report, which also becomes ``last_report``. dtype: of dense features.
        by_column: whether these are to lie column by column in memory.

        Raises: DataError for a missing column, text in a column of numbers, infinities (unless ``infinite="missing"``),
        or no rows.
        """
        if self.scale is not None:
            features = scaled(table, self.scale)
            self.last_report = EncodeReport(*features.shape)
            return features, self.last_report
        read, positional, given = self._read(table)
        return self._filled(read, given, dtype, by_column, positional)

    def _fit(self, table: Any, y: Any) -> Table:
        """Learn from the training table; returns its columns, none for a sparse one."""
        if sp.issparse(table):
            self._fit_sparse(table)
            return Table((), self._inputs, table.shape[0], named=False)
        read = read_columns(table)
        check_options(self.options, read)
        missing, infinite, dropped = {}, {}, {}
        learnt, doubts = list[Feature](), list[str]()
        numbers = [c for c in read.columns if not c.coded and c.name not in self.options.categorical]
        ordinary = learn_numbers(numbers, self.options.most_knots, self.options.min_count)
        for raw in read.columns:
            if raw.name in ordinary:
                learnt.append(ordinary[raw.name])
                continue
            column, bad = finite(raw, self.options)
            if bad:
                infinite[column.name] = bad
            if gone := int(column.missing.sum()):
                missing[column.name] = gone
            spec, reason, doubt = learn_column(column, self.options)
            doubts.append(doubt)
            learnt += [] if spec is None else [spec]
            if reason is not None:
                dropped[column.name] = reason
        self.adopt(learnt, dropped, read.names, read.named, read.rows)
        self.doubts = warned_of(doubts, numbers)
        plain = [c for c in numbers if c.kind == "number" and c.name not in dropped]  # a date is no identifier
        self.identifiers = tuple(c.name for c in plain if is_identifier(c.name, c.values))
        if self.options.by_labels:
            asked, given = Asked.of(y, read.rows), tuple(learnt)
            self.learnt, self.pairs = shaped(given, self.options, asked, partial(self._features_of, read))
        self.last_report = EncodeReport(
            read.rows, len(self.feature_names), missing=missing, infinite=infinite, dropped=dict(self.dropped)
        )
        return read

    def _features_of(self, read: Table, learnt: tuple[Feature, ...], rows: np.ndarray) -> np.ndarray:
        """The features of some rows of the training table, if `learnt` is what was learnt of it."""
        self.learnt = learnt
        columns = tuple(replace(column, values=column.values[rows]) for column in read.columns)
        part = replace(read, columns=columns, rows=len(rows))
        given = {column.name: column for column in columns}
        return self._filled(part, given, np.float64, by_column=True, positional=False)[0]

    def adopt(
        self, learnt: Sequence[Feature], dropped: dict[str, str], inputs: tuple[str, ...], named: bool, rows: int
    ) -> None:
        """Take what was learnt of the columns `inputs`. Raises: DataError where it is nothing."""
        if not learnt:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in dropped.items())
            raise DataError(f"no column is left to learn from (n_samples={rows}): {reasons}. Add columns that vary.")
        self.learnt, self.pairs, self.scale, self.dropped = tuple(learnt), (), None, dropped
        self._inputs, self.named, self._told = inputs, named, set()

    def _filled(
        self, read: Table, given: Mapping[str, Column], dtype: Any, by_column: bool, positional: bool
    ) -> tuple[np.ndarray, EncodeReport]:
        """The features of a table that was read, and the report. given: the columns by their names in training."""
        out = np.zeros((read.rows, self._layout.width), dtype=dtype, order="F" if by_column else "C")
        numbers, categories = self._layout.places(given)
        unseen = {spec.name: spec.fill(out, at, column) for spec, at, column in categories}
        counted = fill_numbers(out, [(spec, at, column.values) for spec, at, column in numbers])
        self._layout.pairs.fill(out, self._layout.by_name(numbers, categories))
        seen = RangeCounts(self._layout.ranges, [column.values for _, _, column in numbers])
        for part in slices(read.rows, ROWS_AT_ONCE):
            seen.look(part)
        return out, self._reported(read, positional, counted, seen, categories, unseen)

    def weighted(self, table: Any, weight: np.ndarray) -> np.ndarray:
        """(n, k) float64: ``encode(table)[0] @ weight`` for weight (d, k), without making the features of a dense
        table.

        A row's sums are those of the row alone to a few roundings of its terms. Raises: as `encode`.
        """
        block = self._block(table)
        if block is None:
            read, positional, given = self._read(table)
            numbers, categories = self._layout.places(given)
        else:
            positional, numbers, categories = isinstance(table, np.ndarray), [], []
            read = Table((), self._inputs, len(block.values), named=not positional)
        out = np.zeros((read.rows, weight.shape[1]))
        unseen = {spec.name: spec.add_weighted(out, at, column, weight) for spec, at, column in categories}
        columns = [column.values for _, _, column in numbers]
        source = block or Block.of(columns) or columns
        seen = RangeCounts(self._layout.ranges, source)
        counted = self._layout.numbers.add(out, source, weight, seen.look)
        self._layout.pairs.add_weighted(out, self._layout.by_name(numbers, categories, block), weight)
        self.warn(self._reported(read, positional, counted, seen, categories, unseen))
        return out

    @property
    def _layout(self) -> Layout:
        laid = self._laid
        if laid is None or laid.learnt is not self.learnt or laid.pairs.pairs is not self.pairs:
            laid = self._laid = Layout(self.learnt or (), self.pairs, self._inputs)
        return laid

    def _block(self, table: Any) -> Block | None:
        """The columns of a table of plain numbers in training's order, as one array; None for other tables, and where
        this would copy a large one."""
        if self.learnt is None or self._layout.at is None:
            return None
        values = number_array(table, self._inputs if self.named else None)
        return None if values is None or values.shape[1] != len(self._inputs) else Block(values, self._layout.at)

    def _read(self, table: Any) -> tuple[Table, bool, Mapping[str, Column]]:
        """A table's columns, whether they are matched by place, and those needed by their names in training."""
        if self.learnt is None:
            raise NotFittedError(_UNFITTED)
        if sp.issparse(table):
            raise DataError("the encoder was fitted on a dense table and got a sparse one. Pass table.toarray().")
        read = read_columns(table, wanted=set(self.columns) if self.named else None)
        positional = not (self.named and read.named)
        return read, positional, by_place(read, self._inputs) if positional else by_name(read, self.columns)

    def _reported(
        self,
        read: Table,
        positional: bool,
        counted: list[Tally],
        seen: RangeCounts,
        categories: list[OfCategory],
        unseen: Mapping[str, Unseen],
    ) -> EncodeReport:
        """The report on a table, which becomes ``last_report``. Raises: DataError for infinities that are errors."""
        tallies = {spec.name: tally for spec, tally in zip(self._layout.numbers.features, counted, strict=True)}
        for name, tally in tallies.items():
            if tally.infinite and self.options.infinite == "error":
                raise infinite_error(name, tally.infinite, tally.first)
        gone = {spec.name: int(column.missing.sum()) for spec, _, column in categories}
        gone |= {name: tally.missing for name, tally in tallies.items()}
        known, gaps = set(self._inputs), [column.missing for _, _, column in categories] if all(gone.values()) else None
        outside = seen.outside(gaps)
        self.last_report = EncodeReport(
            rows=read.rows,
            features=self._layout.width,
            unseen={name: found.rows for name, found in unseen.items() if found.rows},
            new={name: found.new for name, found in unseen.items() if found.new},
            rare={spec.name: spec.rare for spec, _, _ in categories if spec.rare},
            full=tuple(spec.name for spec, _, _ in categories if spec.full),
            missing={name: gone[name] for name in self.columns if gone[name]},
            gaps={spec.name: spec.gaps for spec in self.learnt or () if gone[spec.name]},
            **asdict(outside),
            infinite={name: tally.infinite for name, tally in tallies.items() if tally.infinite},
            dropped=dict(self.dropped),
            ignored=() if positional else tuple(name for name in read.names if name not in known),
            positional=positional and (self.named or read.named),
            identifiers=self.identifiers,
            doubts=self.doubts,
        )
        return self.last_report

    def to_json(self) -> str:
        """All that was learnt, as JSON text; ``from_json`` gives an encoder with bit-identical output."""
        self._check_fitted()
        stored = Learnt(self.options, self._inputs, self.named, self.dropped, self.learnt, self.pairs, self.scale)
        return stored.to_json()

    @classmethod
    def from_json(cls, text: str) -> TableEncoder:
        """The encoder that ``to_json`` wrote.

        Raises: DataError for text that is damaged, is something else, or was written by a newer version.
        """
        stored = Learnt.from_json(text)
        encoder = cls(stored.options)
        encoder._inputs, encoder.named, encoder.dropped = stored.inputs, stored.named, stored.dropped
        encoder.learnt, encoder.pairs, encoder.scale = stored.learnt, stored.pairs, stored.scale
        return encoder

    def _check_fitted(self) -> None:
        if not self.fitted:
            raise NotFittedError(_UNFITTED)

    def _fit_sparse(self, table: Any) -> None:
        scale = learn_scale(table, self.options)
        self.learnt, self.pairs, self.scale, self.dropped, self.named = None, (), scale, {}, False
        self._inputs = tuple(f"x{place}" for place in range(len(scale)))
        self.last_report = EncodeReport(table.shape[0], len(scale))
