"""Fits an encoder on a table in parts, and encodes one; the results are close to those of the table in one piece.

Means and deviations agree to rounding (1e-12), categories exactly. A median, which stands in for missing numbers, is
that of the features as float32, so it agrees to 1e-6 standard deviations.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from fairbound.base.errors import DataError
from fairbound.rows.shards import ALONE, Shards, all_or_none
from fairbound.tables.columns import as_category, as_number, read_columns
from fairbound.tables.encode_report import EncodeReport, merged_reports
from fairbound.tables.encoder import TableEncoder
from fairbound.tables.features import Feature, placed
from fairbound.tables.learning import check_options, infinite_error, learn_column, warned_of
from fairbound.tables.merging import Seen
from fairbound.tables.numbers import NumberFeature, median_of, slices, together
from fairbound.tables.options import TableOptions
from fairbound.tables.reading.chunks import Chunks

MEDIAN_BYTES = 1 << 26  # of columns copied at once to find their medians


def encode_chunks(encoder: TableEncoder, chunks: Chunks, shards: Shards) -> tuple[np.ndarray, EncodeReport]:
    """The float32 features (n, d) of a table in parts, and the report; an encoder that is not fitted yet learns from
    it.

    shards: the processes that hold a table each, of all of which it learns. A median is then the mean of theirs, and
    the report is on the rows of this process.

    Raises: DataError as the encoder does; its message counts rows within their part, and says where that begins.
    """
    fresh = not encoder.fitted
    if fresh:
        _learn(encoder, chunks, shards)
    out, encoder.last_report = all_or_none(shards, lambda: _encoded(encoder, chunks))
    if fresh:
        _set_medians(encoder, out, shards)
    return out, encoder.last_report


def _encoded(encoder: TableEncoder, chunks: Chunks) -> tuple[np.ndarray, EncodeReport]:
    """The features of this process's table and the report on them, with missing numbers still at their means."""
    out = chunks.room((len(chunks), len(encoder.feature_names)))
    reports: list[EncodeReport] = []
    at = 0
    for part in chunks:
        try:
            features, report = encoder.encode(part, np.float32)
        except DataError as error:
            raise DataError(f"{error} (In the part that begins with row {at}.)") from None
        out[at : at + report.rows] = features
        at += report.rows
        reports.append(report)
    return out, merged_reports(reports)


def learn_chunks(encoder: TableEncoder, chunks: Chunks) -> TableEncoder:
    """The encoder, which has learnt from a table in parts and keeps none of it. A missing number is then filled by the
    mean of its column, since a median needs all its values. Raises: DataError as the encoder does."""
    _learn(encoder, chunks, ALONE)
    return encoder


def _learn(encoder: TableEncoder, chunks: Chunks, shards: Shards) -> None:
    options = encoder.options
    seen, named = all_or_none(shards, lambda: _seen(options, chunks))
    first, *others = shards.gather(seen)
    for part in others:
        if [column.name for column in part] != [column.name for column in first]:
            raise DataError(
                "the processes hold tables of different columns; give each the same columns in the same order."
            )
        for so_far, column in zip(first, part, strict=True):
            so_far.merge(column)
    learnt, dropped, doubts = list[Feature](), dict[str, str](), list[str]()
    for whole in first:
        numbers = whole.kind in ("number", "days")
        try:
            spec, reason, doubt = (*whole.number_feature(), "") if numbers else learn_column(whole.as_column(), options)
        except (
            DataError
        ) as error:  # its column has the texts in another order than the table, so its row is not the table's
            raise DataError(re.sub(r" in row \d+ \(counting from 0\)", "", str(error))) from None
        if spec is not None:
            learnt.append(spec)
        if reason is not None:
            dropped[whole.name] = reason
        doubts.append(doubt)
    encoder.adopt(learnt, dropped, tuple(column.name for column in first), named, first[0].rows)
    encoder.doubts = warned_of(doubts)


def _seen(options: TableOptions, chunks: Chunks) -> tuple[list[Seen], bool]:
    """What the columns of this process's table hold, and whether they have names. Raises: DataError."""
    seen, named = list[Seen](), False
    if options.knots or options.jumps or options.pairs:
        raise DataError(
            "knots, jumps and pairs are found by the ranks of all values, which a table in parts does not tell; leave them out, or give the table whole."
        )
    for part in chunks:
        read = read_columns(part)
        if not seen:
            check_options(options, read)
            seen, named = [Seen(name) for name in read.names], read.named
        elif read.names != tuple(column.name for column in seen):
            raise DataError(
                f"the parts of the table have different columns: {[c.name for c in seen]}, {list(read.names)}."
            )
        for so_far, column in zip(seen, read.columns, strict=True):
            if column.name in options.categorical:
                column = as_category(column)
            elif column.name in options.numeric:
                column = as_number(column)
            so_far.merge(Seen.of(column))
    for whole in seen:
        if whole.infinite and options.infinite == "error":
            raise infinite_error(whole.name, whole.infinite, whole.first)
    return seen, named


def _set_medians(encoder: TableEncoder, out: np.ndarray, shards: Shards) -> None:
    """Put the medians of the features where values are missing, and into what the encoder has learnt."""
    learnt = list(encoder.learnt or ())
    places = [
        (i, own.start)
        for i, (spec, own) in enumerate(placed(learnt))
        if isinstance(spec, NumberFeature) and spec.sd is not None
    ]
    gaps = [_gaps(out, learnt[i], at) for i, at in places]
    found: list[tuple[float, int]] = []  # the median of this table, and of how many numbers
    for some in slices(len(places), max(1, MEDIAN_BYTES // max(1, 4 * len(out)))):
        columns = together([out[:, at] for _, at in places[some]])
        for values, missing in zip(columns, gaps[some], strict=True):
            known = np.delete(values, missing) if len(missing) else values
            found.append((median_of(known) if len(known) else 0.0, len(known)))
    if not shards.alone:
        parts = np.array(shards.gather(found)).reshape(shards.count, len(found), 2)
        found = [(float(np.average(part[:, 0], weights=part[:, 1])), 0) for part in parts.swapaxes(0, 1)]
    for (i, at), missing, (median, _) in zip(places, gaps, found, strict=True):
        spec = learnt[i]
        assert isinstance(spec, NumberFeature) and spec.sd is not None
        out[missing, at] = median
        learnt[i] = replace(spec, median=spec.mean + spec.sd * median)
    encoder.learnt = tuple(learnt)


def _gaps(out: np.ndarray, spec: Feature, at: int) -> np.ndarray:
    """The rows in which the number at column `at` of the features is missing, which the column after it marks."""
    return np.flatnonzero(out[:, at + 1]) if getattr(spec, "indicator", False) else np.zeros(0, dtype=np.int64)
