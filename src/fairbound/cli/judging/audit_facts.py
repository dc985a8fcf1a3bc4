"""What the commands tell `audit` of the rows and the model, and what they add to what it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairbound.audits.records import compared_model
from fairbound.base.verdicts import EXIT_CODES
from fairbound.cli.files.columns import clusters_of, file_checksum, weights_of
from fairbound.cli.files.saved_model import other_column_warnings, trained_on
from fairbound.cli.options.judging import AuditOptions
from fairbound.estimators.saving.folder import Folder
from fairbound.report.words import VERDICTS

OF_TRAINING = (
    "This is the file that the model was trained on: most of its rows are not held out, and the verdict says nothing about "
    "new rows."
)

NOT_CONFIRMED = (
    "On the rows judged the verdict on it is “{}”: new rows can differ from those of training. Give more rows, or train under a tighter "
    "bound."
)
"""What is advised of a bound that is kept in training and not confirmed on the rows judged."""


def data_facts(
    name: str,
    label: str,
    split: str,
    checksum: str | None,
    train_rows: int | None = None,
    classes: Sequence[Any] = (),
    clusters: str | None = None,
) -> dict[str, Any]:
    """Title and data of a report, as `audit` takes them. split: how the held-out rows were chosen; classes: the labels,
    of two the positive one last; clusters: the column that says which rows belong together."""
    positive = str(classes[1]) if len(classes) == 2 else None
    data = {"name": name, "train_rows": train_rows, "checksum": checksum, "label": label, "positive": positive}
    together = {} if clusters is None else {"clusters": {"column": clusters}}
    return {"title": f"{label}: {name}", "data": {**data, "split": split, **together}}


def judged_so(options: AuditOptions, frame: Any) -> dict[str, Any]:
    """How `audit` is to judge the rows of a table, as the options say."""
    return {
        "confidence": options.confidence,
        "power": options.power,
        "sample_weight": weights_of(frame, options.weights, options.data),
        "clusters": clusters_of(frame, options.clusters),
    }


def whole_file_facts(
    options: AuditOptions,
    label: str,
    folder: Folder | None,
    rows: str = "rows",
    classes: Sequence[Any] = (),
    warnings: Sequence[str] = (),
) -> dict[str, Any]:
    """`data_facts` of a file whose rows are all judged, and the warnings: those given, and more where the model saved
    in `folder` was trained on this file, on another label or with weights. rows: what they are called."""
    checksum = file_checksum(options.data)
    seen = trained_on(folder, checksum)
    held_out = "" if folder is None and options.label is None else ", taken as held out"
    split = f"all {rows} of the file{', which the model was trained on' if seen else held_out}"
    facts = data_facts(Path(options.data).name, label, split, checksum, classes=classes, clusters=options.clusters)
    if seen:
        facts["data"]["trained_on"] = True
    odd = other_column_warnings(folder, label, options.weights)
    return {**facts, "warnings": [*([OF_TRAINING] if seen else []), *odd, *warnings]}


def add_own_model(audit: dict[str, Any], facts: dict[str, Any]) -> None:
    """Add the model itself, first, to those that it is compared with, and the certificate of its fit_report_ `facts`,
    where it has one, which then decides the audit's verdict and exit code."""
    if audit["comparison"]:
        audit["comparison"].insert(0, compared_model("constrained", audit["metrics"], audit["constraints"]))
    if "certificate" in facts:
        audit["certificate"] = facts["certificate"]
        audit["verdict"] = facts["certificate"]["verdict"]
        audit["exit_code"] = EXIT_CODES[audit["verdict"]]


def beside_verdicts(advice: Sequence[Mapping[str, str]], audit: Mapping[str, Any]) -> list[dict[str, str]]:
    """The advice of training with a word on each bound that it calls kept and that the audit does not find met."""
    said_of = {repr(c["text"]): c["verdict"] for c in audit["constraints"]}
    out = []
    for one in advice:
        verdict = next((v for text, v in said_of.items() if one["said"].startswith(text)), audit["verdict"])
        if one["fault"] == "inactive" and verdict != "met":
            one = {**one, "next": NOT_CONFIRMED.format(VERDICTS[verdict].lower())}
        out.append(dict(one))
    return out
