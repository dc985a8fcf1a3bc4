"""A fitted estimator in its folder: what is written of it, and what an audit is told of how it was trained."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairbound.base.interrupts import INTERRUPTED
from fairbound.base.records import plain
from fairbound.cli.files.advice import for_commands
from fairbound.cli.files.older_files import left_by_others
from fairbound.cli.files.outcome import Outcome, audit_outcome
from fairbound.estimators.classifier import FairClassifier
from fairbound.estimators.saving.folder import Folder, checksum_of, folder_contents
from fairbound.estimators.saving.saved import parts_of
from fairbound.report import write_audit
from fairbound.tables.marks import BOTH, Mark

TRAINED_ON = "data.txt"
"""The file of a model folder that holds the checksum of what it was trained on."""
COLUMNS = "columns.json"
"""The file of a model folder that holds the names of the label and of the weights, null without weights, and the mark before
decimals of the file trained on, by separator, where its numbers have one that their separator does not tell; of both
marks, the names of the columns with commas too."""
HELD_OUT = "held_out.csv"
"""The file beside a report of the rows that the verdict is about, numbered from 0 as they stand in the data."""
MOST = 20
"""Weights that a report shows."""


def trained_on(folder: Folder | None, checksum: str) -> bool:
    """Whether the file of this checksum is the one that the saved model was trained on."""
    return folder is not None and folder.extras.get(TRAINED_ON) == checksum


def trained_columns(folder: Folder) -> dict[str, Any]:
    """What COLUMNS holds of a saved model: "label", "weights", "decimal" and "commas"; {} where its folder has none."""
    return json.loads(folder.extras.get(COLUMNS, "{}"))  # type: ignore[no-any-return]


def trained_marks(folder: Folder) -> dict[str, Mark]:
    """By separator, the mark before decimals of the file that a saved model was trained on, where that is known: of both
    marks, where the columns with commas are."""
    known = trained_columns(folder)
    commas = frozenset(known.get("commas", ()))
    return {one: Mark(mark, commas) for one, mark in known.get("decimal", {}).items() if commas or mark != BOTH}


def _of_marks(marks: Mapping[str, Mark]) -> dict[str, Any]:
    """What COLUMNS holds of `trained_marks`."""
    decimals = {separator: mark.decimal for separator, mark in marks.items()}
    commas = {name for mark in marks.values() for name in mark.commas}
    return ({"decimal": decimals} if decimals else {}) | ({"commas": sorted(commas)} if commas else {})


def other_column_warnings(folder: Folder | None, label: str, weights: str | None) -> list[str]:
    """What a reader must know where a saved model was trained on another label than it is judged by, or with weights
    and is judged without."""
    if folder is None:
        return []
    known, said = trained_columns(folder), []
    if known.get("label", label) != label:
        said.append(f"The model in {folder.path} was trained on the label {known['label']!r}, not {label!r}.")
    if known.get("weights") is not None and weights is None:
        said.append(
            f"The model in {folder.path} was trained with the weights {known['weights']!r}, and none are given here: rows count alike, so "
            "that these are not the rates that its bounds were met by. Name the weights with --weights."
        )
    return said


def interrupted(model: Any) -> bool:
    """Whether Ctrl-C cut the training of a fitted estimator short."""
    return bool(model.solution_.interrupted)


def training_facts(model: Any) -> dict[str, Any]:
    """How a fitted model was trained, as `audit` takes it beside the model's kind and description."""
    facts = {key: model.fit_report_[key] for key in ("algorithm", "seed", "budget", "seconds", "steps")}
    facts["stationarity"] = model.fit_report_.get("optimality", {}).get("stationarity")
    weights = _weights(model)
    return facts | ({"weights": weights} if weights else {})


def _weights(model: Any) -> list[dict[str, Any]]:
    """The features that weigh most in a linear classifier of two classes, the first MOST of them; [] of another model,
    and of one that decides by groups, for which they are not all."""
    if (
        not isinstance(model, FairClassifier)
        or model.encoder_ is None
        or len(model.classes_) != 2
        or model.needs_groups
    ):
        return []
    try:
        per_unit = model.coef_[0]
    except AttributeError:  # it is not linear
        return []
    network: Any = model.model_  # without a hidden layer
    standard, names = network.layers.split(model.x_)[0][0].double().numpy(), model.encoder_.feature_names
    return [
        {"feature": names[j], "weight": float(per_unit[j]), "standardised": float(standard[j])}
        for j in np.argsort(-np.abs(standard), kind="stable")[:MOST]
    ]


def written_fit(
    found: dict[str, Any],
    options: Any,
    model: Any,
    checksum: str | None,
    lines: Sequence[str],
    *,
    held: bytes,
    stopped: bool,
    marks: Mapping[str, Mark],
) -> Outcome:
    """Write a fitted estimator, its training records and its audit to the folder `options.out`, which is held; what the command
    says of it. All is written beside what is older before that is replaced, and the older report goes first, so that a
    kill never leaves it beside the new model.

    options: of the command, with `out` and `weights`. checksum: of the file trained on. lines: said after the verdict.
    held: the content of HELD_OUT. stopped: an interrupt cut training short. marks: before decimals in
    the file trained on, by separator.
    Raises: ImportError where the page cannot be drawn; the rest is there then.
    """
    found |= {name: [for_commands(said) for said in found[name]] for name in ("warnings", "notes")}
    out, columns = options.out, {"label": found["data"]["label"], "weights": options.weights}
    columns |= _of_marks(marks)
    extras = {COLUMNS: json.dumps(columns)} | ({} if checksum is None else {TRAINED_ON: checksum})
    contents = folder_contents(**parts_of(model) | {"extras": extras})
    found["model"]["checksum"] = f"sha256:{checksum_of(contents)}"
    files = {f"model/{name}": data for name, data in contents.items()}
    records = "".join(json.dumps(plain(row), allow_nan=False) + "\n" for row in model.solution_.records)
    files |= {"records.jsonl": records.encode(), HELD_OUT: held}
    write_audit(found, out, files, left_by_others(out, files))
    facts = model.fit_report_
    places = {"model": "model", "training records": "records.jsonl", "rows held out": HELD_OUT}
    outcome = audit_outcome(found, out, facts["seconds"], facts["seed"], lines, places)
    if not stopped:
        return outcome
    text = f"Interrupted; the best model so far was judged and saved.\n\n{outcome.text}"
    return Outcome(outcome.summary, text, INTERRUPTED)
