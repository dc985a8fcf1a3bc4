"""`fairbound predict`: what a saved model says of the rows of a file, as a CSV file in their order."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from fairbound.base.errors import DataError, NoRowsError, OptionError, silenced
from fairbound.base.extras import extra
from fairbound.base.files import atomic_write_bytes, check_not_read
from fairbound.base.names import shortlist
from fairbound.cli.files.columns import file_columns, in_file, named_columns, pandas_part
from fairbound.cli.files.outcome import Outcome
from fairbound.cli.files.saved_model import trained_columns
from fairbound.cli.judging.unfamiliar import Unfamiliar
from fairbound.cli.options.judging import PredictOptions
from fairbound.cli.training.rows import is_file
from fairbound.estimators.classifier import FairClassifier, probabilities
from fairbound.estimators.loading import load
from fairbound.estimators.ranker import FairRanker
from fairbound.estimators.regressor import FairRegressor
from fairbound.estimators.saving.folder import load_folder, model_folder
from fairbound.tables import Chunks, Kinds
from fairbound.tables.reading.chunks import ROWS
from fairbound.tables.reading.parquet import is_parquet, whole_numbers

NOT_WRITTEN = (
    ".tsv", ".xlsx", ".xls", ".ods", ".json", ".jsonl", ".feather", ".arrow", ".orc", ".avro", ".zip", ".bz2", ".xz", ".zst",
    ".pkl", ".pickle", ".html",
)  # fmt: skip
"""Ends of names that say another format than predict writes."""


def run_predict(options: PredictOptions) -> Outcome:
    """Write a line for each row: of two classes `prediction`, `probability` (of the positive one) and `score` (above 0
    where that is predicted), of more `prediction` and the probability of each, of numbers `prediction`,
    of rankings `score`."""
    import pandas as pd

    if not is_file(options.data):
        raise OptionError(f"--data of predict is a CSV or Parquet file, and {options.data!r} is none.")
    folder = load_folder(options.model)
    check_not_read(options.out, options.data, *model_folder(options.model).glob("*"))
    _check_format(options.out)
    model = load(folder)
    try:
        columns = file_columns(options)
    except NoRowsError as quiet:
        return _nothing(options, model, quiet.columns)
    kept = named_columns(options.keep, columns, "--keep")
    named_columns(options.text, columns, "--text")
    parts, first, unfamiliar = [], 0, Unfamiliar(model)
    for part, beside in zip(_parts(options, model, columns), _verbatim(options, kept), strict=False):
        frame = pandas_part(part)
        with in_file(options.data, np.arange(first, first + len(frame))):
            groups = _groups_of(model, frame)
            with unfamiliar.part(groups):
                found = _predicted(model, frame, groups)
        _check_kept(kept, found)
        parts.append(pd.DataFrame({name: beside[name].array for name in kept} | found))
        first += len(frame)
    if not parts:
        raise DataError(f"{options.data} has no rows.")
    table = pd.concat(parts, ignore_index=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    path = atomic_write_bytes(options.out, _written(table, options.out))
    summary: dict[str, Any] = {"rows": len(table), "columns": list(table.columns), "out": str(path)}
    weighted = bool(trained_columns(folder).get("weights"))
    text = f"{len(table):,} rows: {', '.join(table.columns)}\n"
    if "prediction" in table and isinstance(model, FairClassifier):
        counts = table["prediction"].value_counts(sort=False).sort_index()
        summary["predicted"] = {str(label): int(count) for label, count in counts.items()}
        text += "".join(f"  {label}: {count:,} ({count / len(table):.1%})\n" for label, count in counts.items())
        text += "  (rows are counted here; the model was trained with weights)\n" * weighted
    summary["warnings"] = unfamiliar.warnings()
    summary["notes"] = unfamiliar.report.noted_lines()
    text += "".join(f"note: {line}\n" for line in summary["notes"])
    text += "".join(f"warning: {line}\n" for line in summary["warnings"])
    return Outcome(summary, f"{text}written  {path}")


def _parts(options: PredictOptions, model: Any, columns: Sequence[str]) -> Chunks:
    """The file as the saved model reads it: what it does not know as a number is text."""
    groups = model.groups_.attributes if isinstance(model, FairClassifier) and model.needs_groups else ()
    kinds = options.file_format["kinds"]
    if model.encoder_.named:
        kinds = replace(kinds.with_text(set(columns) - kinds.numbers), keys=frozenset(groups))
    return Chunks.read(options.data, rows=ROWS, **{**options.file_format, "kinds": kinds})


def _verbatim(options: PredictOptions, kept: list[str]) -> Iterable[Any]:
    """The kept columns, part by part, each cell of a CSV file as it is written; an empty one is missing in Parquet."""
    if not kept:
        return repeat({})
    kinds = Kinds(verbatim=True)
    read = Chunks.read(options.data, rows=ROWS, columns=kept, encoding=options.encoding, kinds=kinds)
    if is_parquet(options.data):
        return (whole_numbers(part, kept) for part in read)
    return (part.mask(part == "") if is_parquet(options.out) else part for part in read)


def _check_kept(kept: Sequence[str], found: Mapping[str, Any]) -> None:
    """Raises: OptionError for a kept column that would take the place of one of the model's, `found`."""
    if both := [name for name in kept if name in found]:
        raise OptionError(
            f"--keep names {shortlist(both, quoted=True)}, which the model's own columns are called. Rename the file's before, or leave "
            f"{'them' if len(both) > 1 else 'it'} out of --keep."
        )


def _check_format(out: Path) -> None:
    """Raises: OptionError for a name that says another format than is written."""
    said = "".join(out.suffixes[-2:]).lower()
    if said.endswith(NOT_WRITTEN) or said in (".parquet.gz", ".pq.gz"):
        raise OptionError(
            f"predict writes CSV (.csv, .csv.gz) and Parquet (.parquet), and the name of {out} says another format. Name it otherwise."
        )


def _written(table: Any, out: Path) -> bytes:
    """The table in the format that the file's name says: Parquet, gzip or plain CSV."""
    if is_parquet(out):
        with extra("parquet", "writing Parquet files needs pyarrow"):
            import pyarrow as pa
            import pyarrow.parquet as pq
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pandas(table, preserve_index=False), sink)
        return sink.getvalue()
    text = table.to_csv(index=False).encode("utf-8")
    return gzip.compress(text, mtime=0) if out.suffix.lower() == ".gz" else text


def _nothing(options: PredictOptions, model: Any, columns: list[str]) -> Outcome:
    """Write the header alone for a file of these columns without rows, as of a day on which nothing came."""
    import pandas as pd

    kept = named_columns(options.keep, columns, "--keep")
    with silenced(UserWarning):  # of a row that stands for none
        row = pd.DataFrame({name: [np.nan] for name in columns})
        found = _predicted(model, row, _groups_of(model, row))  # looks at the columns
    _check_kept(kept, found)
    table = pd.DataFrame(columns=[*kept, *found])
    options.out.parent.mkdir(parents=True, exist_ok=True)
    path = atomic_write_bytes(options.out, _written(table, options.out))
    said = f"{options.data} has a header and no rows, so there is nothing to predict."
    summary = {"rows": 0, "columns": list(table.columns), "out": str(path), "warnings": [], "notes": [said]}
    return Outcome(summary, f"note: {said}\nwritten  {path} (a header alone)")


def _groups_of(model: Any, frame: Any) -> dict[str, Any] | None:
    """The groups of the rows, None where the model does not decide by them. Raises: DataError where they are not there."""
    if not isinstance(model, FairClassifier) or not model.needs_groups:
        return None
    lacking = [name for name in model.groups_.attributes if name not in frame]
    if lacking:
        raise DataError(f"the model decides by {', '.join(lacking)}, and the file has no such column.")
    return {name: frame[name] for name in model.groups_.attributes}


def _predicted(model: Any, frame: Any, groups: dict[str, Any] | None) -> dict[str, np.ndarray]:
    """The columns of one part."""
    if isinstance(model, FairRanker):
        return {"score": model.predict(frame)}
    if isinstance(model, FairRegressor):
        return {"prediction": model.predict(frame)}
    scores = model.decision_function(frame, groups)
    chances = probabilities(scores) if groups is None else model.predict_proba(frame, groups)
    if scores.ndim == 2:
        each = {f"probability {label}": chances[:, k] for k, label in enumerate(model.classes_)}
        return {"prediction": model.classes_[scores.argmax(axis=1)], **each}
    decided = model.classes_[(scores > 0).astype(int)]
    return {"prediction": decided, "probability": chances[:, 1], "score": scores}
