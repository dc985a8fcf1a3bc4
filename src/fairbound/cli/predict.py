"""`fairbound predict`: what a saved model says of the rows of a file, as a CSV file in their order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairbound.base.errors import DataError, OptionError
from fairbound.base.files import atomic_write_text
from fairbound.cli.outcome import Outcome
from fairbound.cli.rows import file_columns, in_lines, is_file, listed, pandas_part
from fairbound.estimators.classifier import FairClassifier
from fairbound.estimators.folder import load_folder
from fairbound.estimators.ranker import FairRanker
from fairbound.estimators.regressor import FairRegressor
from fairbound.tables import Chunks
from fairbound.tables.chunks import ROWS

DOORS: dict[str | None, Any] = {None: FairClassifier, "regression": FairRegressor, "ranking": FairRanker}


@dataclass(frozen=True, kw_only=True)
class PredictOptions:
    """data: a CSV or Parquet file, read in parts. model: folder of a saved model. out: the CSV file to write. keep: columns of the
    data that are copied into it, separated by commas, such as an identifier."""

    data: str
    model: Path
    out: Path
    keep: str | None = None

    def __post_init__(self) -> None:
        if self.out.is_dir():
            raise OptionError(f"--out names the file to write, and {self.out} is a folder.")


def run_predict(options: PredictOptions) -> Outcome:
    """Write a line for each row: of two classes `prediction`, `probability` (of the positive one) and `score` (above 0 where that
    is predicted), of more `prediction` and the probability of each, of numbers `prediction`, of rankings `score`."""
    import pandas as pd

    if not is_file(options.data):
        raise OptionError(f"--data of predict is a CSV or Parquet file, and {options.data!r} is none.")
    task = load_folder(str(options.model)).manifest.get("task")
    if task not in DOORS:
        raise OptionError(f"the model in {options.model} is for {task!r}, of which this version knows nothing.")
    model = DOORS[task].load(options.model)
    kept = listed(options.keep, file_columns(options.data), "--keep")
    parts, first = [], 0
    for part in Chunks.read(options.data, rows=ROWS):
        frame = pandas_part(part)
        try:
            found = _predicted(model, frame)
        except DataError as error:
            raise DataError(f"{options.data}, rows from {first + 1} on: {in_lines(error)}") from None
        parts.append(pd.DataFrame({name: frame[name].to_numpy() for name in kept} | found))
        first += len(frame)
    if not parts:
        raise DataError(f"{options.data} has no rows.")
    table = pd.concat(parts)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    path = atomic_write_text(options.out, table.to_csv(index=False))
    summary: dict[str, Any] = {"rows": len(table), "columns": list(table.columns), "out": str(path)}
    text = f"{len(table):,} rows: {', '.join(table.columns)}\n"
    if "prediction" in table and task is None:
        counts = table["prediction"].value_counts(sort=False).sort_index()
        summary["predicted"] = {str(label): int(count) for label, count in counts.items()}
        text += "".join(f"  {label}: {count:,} ({count / len(table):.1%})\n" for label, count in counts.items())
    return Outcome(summary, f"{text}written  {path}")


def _predicted(model: Any, frame: Any) -> dict[str, np.ndarray]:
    """The columns of one part."""
    if isinstance(model, FairRanker):
        return {"score": model.predict(frame)}
    if isinstance(model, FairRegressor):
        return {"prediction": model.predict(frame)}
    groups = None
    if model.rule_ is not None:
        lacking = [name for name in model.groups_.attributes if name not in frame]
        if lacking:
            raise DataError(f"the model's thresholds are by {', '.join(lacking)}, and the file has no such column.")
        groups = {name: frame[name] for name in model.groups_.attributes}
    scores, probabilities = model.decision_function(frame, groups), model.predict_proba(frame)
    if scores.ndim == 2:
        each = {f"probability {label}": probabilities[:, k] for k, label in enumerate(model.classes_)}
        return {"prediction": model.classes_[scores.argmax(axis=1)], **each}
    decided = model.classes_[(scores > 0).astype(int)]
    return {"prediction": decided, "probability": probabilities[:, 1], "score": scores}
