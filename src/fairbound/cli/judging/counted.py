"""The rows of a file that is read in parts, counted for an audit of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fairbound.audits.counts import AuditCounts
from fairbound.cli.files.columns import groups_in, in_file, pandas_part
from fairbound.cli.judging.judged_model import JudgedInParts
from fairbound.cli.options.judging import AuditOptions
from fairbound.rows.groups import Groups, check_many, check_whole, many_values
from fairbound.tables import Chunks


class ReadScores(NamedTuple):
    """Of all rows that are counted (n,) logits, decisions 0 and 1, and how they were read."""

    logits: np.ndarray
    decided: np.ndarray
    read_as: str


def counted_file(
    options: AuditOptions,
    chunk_rows: int,
    attributes: Sequence[str],
    scores: JudgedInParts | ReadScores,
    target: np.ndarray | None,
    kept: np.ndarray | None = None,
) -> AuditCounts:
    """The counts of all rows of the file `options.data`, read `chunk_rows` at a time.

    scores: a saved model that scores each part, or what was read of all rows. target: (n,) labels 0 and 1, None where they
    are not known. kept: (n,) the rows of the file that are counted, ascending; None for all.
    Raises: DataError for groups that `Groups.of` refuses in all rows, of too many values as soon as they were read.
    """
    parts = Chunks.read(options.data, rows=chunk_rows, **options.file_format)
    merged: AuditCounts | None = None
    at, whole = 0, None if kept is None else len(kept)
    for part in parts if kept is None else parts.take(kept):
        frame = pandas_part(part)
        rows = np.arange(at, at + len(frame))
        at += len(frame)
        groups = groups_in(frame, attributes, whole=False)
        with in_file(options.data, rows if kept is None else kept[rows]):
            counts = _counts(scores, frame, rows, groups, None if target is None else target[rows])
        merged = counts if merged is None else merged.merge(counts)
        occurring = merged.occurring
        if any(many_values(known, at) for known in occurring.values()):
            whole = _rows_of_file(options, chunk_rows, attributes[0]) if whole is None else whole
            check_many(occurring, whole)
    assert merged is not None  # a file without rows has no columns either
    check_whole(merged.occurring, len(merged))
    return merged


def _counts(
    scores: JudgedInParts | ReadScores, frame: Any, rows: np.ndarray, groups: Groups | None, target: np.ndarray | None
) -> AuditCounts:
    """Of a part: its rows as a frame, their places (k,) among all that are counted, their groups and labels (k,)."""
    if isinstance(scores, ReadScores):
        return AuditCounts.of_read(scores.logits[rows], scores.decided[rows], scores.read_as, target, groups)
    found, groups = scores.scored(frame, groups)
    return AuditCounts.of(found, target, groups, threshold=0.0)


def _rows_of_file(options: AuditOptions, chunk_rows: int, column: str) -> int:
    """How many rows the file has, of which one column is read."""
    return len(Chunks.read(options.data, rows=chunk_rows, columns=[column], **options.file_format))
