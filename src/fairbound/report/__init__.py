"""Audits as files and pages: plain data in (schema ``fairbound.audit/1``), ``audit.json`` and one HTML page out.

This room imports no algorithm: what it shows is what the audit holds, and fixing a label never reruns an experiment.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairbound.base.files import atomic_write_many
from fairbound.report import schema
from fairbound.report.card import impact_csv, model_card
from fairbound.report.page import audit_page
from fairbound.report.percentiles import interval_files
from fairbound.report.terminal import table

__all__ = ["audit_files", "audit_page", "interval_files", "schema", "table", "write_audit"]


def audit_files(audit: dict[str, Any]) -> dict[str, bytes]:
    """The files of an audit by name: ``audit.json``, ``model_card.md``, ``impact.csv`` where groups were compared, and
    ``report.html`` where the page can be drawn, that is where matplotlib
    and jinja2 are installed. Raises: schema.SchemaError; ImportError if jsonschema is missing."""
    schema.validate(audit)
    text = json.dumps(audit, ensure_ascii=False, allow_nan=False, indent=2)
    texts = {"audit.json": text + "\n", "model_card.md": model_card(audit), "impact.csv": impact_csv(audit)}
    files = {name: text.encode("utf-8", "backslashreplace") for name, text in texts.items() if text}
    with contextlib.suppress(ImportError):
        files["report.html"] = audit_page(audit).encode("utf-8")
    return files


def write_audit(
    audit: dict[str, Any],
    folder: str | os.PathLike[str],
    also: Mapping[str, bytes] | None = None,
    removed: Sequence[str] = (),
    last: Mapping[str, bytes] | None = None,
) -> tuple[Path, Path]:
    """Write ``audit.json`` and ``report.html`` into ``folder`` (made where missing) and return their paths; beside them
    the model card ``model_card.md`` and, where groups were compared, ``impact.csv``, the table of impact ratios
    (docs/evidence.md).
    also: further files by name, replaced together with these. removed: files that go. last: files that stay as they are until
    all others are replaced, as they vouch for them.

    Each file appears whole or not at all, and never beside the other one of an older audit. A page that cannot be drawn
    costs no numbers.

    Raises: schema.SchemaError before anything is written; ImportError if jsonschema is missing, or if
    matplotlib or jinja2 is (the JSON is there then); OSError if the folder cannot be written.
    """
    files = {**(also or {}), **audit_files(audit)}
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    json_path, html_path = folder / "audit.json", folder / "report.html"
    older = [name for name in files if "/" not in name]
    atomic_write_many(folder, {**files, **(last or {})}, removed=[*older, "report.html", "impact.csv", *removed])
    if "report.html" not in files:
        try:
            audit_page(audit)
        except ImportError as error:
            raise ImportError(f"{json_path} is written, but no page: {error}") from error
    return json_path, html_path
