"""`fairbound predict`: what a saved model says of the rows of a file, as a CSV file in their order."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from fairbound.base.errors import DataError, DataWarning, NoRowsError, OptionError, silenced
from fairbound.base.files import atomic_write_text, check_not_read
from fairbound.cli.columns import file_columns, in_file, listed, pandas_part
from fairbound.cli.judging_options import PredictOptions
from fairbound.cli.outcome import Outcome
from fairbound.cli.rows import is_file
from fairbound.cli.saved_model import trained_columns
from fairbound.estimators.classifier import FairClassifier, probabilities
from fairbound.estimators.folder import load_folder, model_folder
from fairbound.estimators.ranker import FairRanker
from fairbound.estimators.regressor import FairRegressor
from fairbound.estimators.saved import kind_of
from fairbound.tables import Chunks
from fairbound.tables.chunks import ROWS

MODELS: dict[str, Any] = {kind.__name__: kind for kind in (FairClassifier, FairRegressor, FairRanker)}


def run_predict(options: PredictOptions) -> Outcome:
    """Write a line for each row: of two classes `prediction`, `probability` (of the positive one) and `score` (above 0
    where that is predicted), of more `prediction` and the probability of each, of numbers `prediction`,
    of rankings `score`."""
    import pandas as pd

    if not is_file(options.data):
        raise OptionError(f"--data of predict is a CSV or Parquet file, and {options.data!r} is none.")
    folder = load_folder(options.model)
    check_not_read(options.out, options.data, model_folder(options.model))
    model = MODELS[kind_of(folder)].load(folder)
    try:
        kept = listed(options.keep, file_columns(options), "--keep")
    except NoRowsError as quiet:
        return _nothing(options, model, quiet.columns)
    parts, first, unseen = [], 0, Counter[str]()
    for part in Chunks.read(options.data, rows=ROWS, **options.file_format):
        frame = pandas_part(part)
        with (
            in_file(options.data, np.arange(first, first + len(frame))),
            silenced(DataWarning),
        ):  # said once, of all parts
            found = _predicted(model, frame)
        unseen.update(model.encoder_.last_report.unseen)
        parts.append(pd.DataFrame({name: frame[name].to_numpy() for name in kept} | found))
        first += len(frame)
    if not parts:
        raise DataError(f"{options.data} has no rows.")
    table = pd.concat(parts)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    path = atomic_write_text(options.out, table.to_csv(index=False))
    summary: dict[str, Any] = {"rows": len(table), "columns": list(table.columns), "out": str(path)}
    weighted = bool(trained_columns(folder).get("weights"))
    text = f"{len(table):,} rows: {', '.join(table.columns)}\n"
    if "prediction" in table and isinstance(model, FairClassifier):
        counts = table["prediction"].value_counts(sort=False).sort_index()
        summary["predicted"] = {str(label): int(count) for label, count in counts.items()}
        text += "".join(f"  {label}: {count:,} ({count / len(table):.1%})\n" for label, count in counts.items())
        text += "  (rows are counted here; the model was trained with weights)\n" * weighted
    summary["warnings"] = replace(model.encoder_.last_report, rows=len(table), unseen=dict(unseen)).strange_lines()
    summary["notes"] = [
        f"{name}: {count:,} of {len(table):,} rows have a value unseen or too rare in training."
        for name, count in sorted(unseen.items())
        if count and not any(line.startswith(f"{name}: ") for line in summary["warnings"])
    ]
    text += "".join(f"note: {line}\n" for line in summary["notes"])
    text += "".join(f"warning: {line}\n" for line in summary["warnings"])
    return Outcome(summary, f"{text}written  {path}")


def _nothing(options: PredictOptions, model: Any, columns: list[str]) -> Outcome:
    """Write the header alone for a file of these columns without rows, as of a day on which nothing came."""
    import pandas as pd

    kept = listed(options.keep, columns, "--keep")
    with silenced(UserWarning):  # of a row that stands for none
        found = _predicted(model, pd.DataFrame({name: [np.nan] for name in columns}))  # looks at the columns
    table = pd.DataFrame(columns=[*kept, *found])
    options.out.parent.mkdir(parents=True, exist_ok=True)
    path = atomic_write_text(options.out, table.to_csv(index=False))
    said = f"{options.data} has a header and no rows, so there is nothing to predict."
    summary = {"rows": 0, "columns": list(table.columns), "out": str(path), "warnings": [], "notes": [said]}
    return Outcome(summary, f"note: {said}\nwritten  {path} (a header alone)")


def _predicted(model: Any, frame: Any) -> dict[str, np.ndarray]:
    """The columns of one part."""
    if isinstance(model, FairRanker):
        return {"score": model.predict(frame)}
    if isinstance(model, FairRegressor):
        return {"prediction": model.predict(frame)}
    groups = None
    if model.needs_groups:
        lacking = [name for name in model.groups_.attributes if name not in frame]
        if lacking:
            raise DataError(f"the model decides by {', '.join(lacking)}, and the file has no such column.")
        groups = {name: frame[name] for name in model.groups_.attributes}
    scores = model.decision_function(frame, groups)
    chances = probabilities(scores) if groups is None else model.predict_proba(frame, groups)
    if scores.ndim == 2:
        each = {f"probability {label}": chances[:, k] for k, label in enumerate(model.classes_)}
        return {"prediction": model.classes_[scores.argmax(axis=1)], **each}
    decided = model.classes_[(scores > 0).astype(int)]
    return {"prediction": decided, "probability": chances[:, 1], "score": scores}
