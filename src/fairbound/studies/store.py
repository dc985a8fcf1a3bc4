"""The files of a cell: its checkpoint, and when it is finished two others, each whole or not at all.

`cells/KEY.jsonl`  a line per evaluation, and per model that the run returned (whose `output` is not null): counters,
                   seconds of training, what was measured, and what the run depends on (versions, hardware, seed,
                   checksum of the data)
`cells/KEY.json`   the result. Its presence says that the cell is finished.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fairbound.base.files import atomic_write_text
from fairbound.base.records import plain
from fairbound.studies.spec import Cell


def checkpoint_of(cell: Cell, folder: Path) -> Path:
    """Where the cell's checkpoint is while it runs; another one for other settings."""
    return folder / f"{cell.key}.{cell.fingerprint}.checkpoint"


def is_done(cell: Cell, folder: Path) -> bool:
    """Whether `folder` holds the finished result of exactly this cell."""
    return (result := read_result(folder, cell.key)) is not None and result["fingerprint"] == cell.fingerprint


def read_result(folder: Path, key: str) -> dict[str, Any] | None:
    """The result of a finished cell, or None."""
    try:
        return json.loads((folder / f"{key}.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def read_cell_records(folder: Path, key: str) -> list[dict[str, Any]]:
    """The evaluations of a finished cell in order, and the measures of the models that it returned."""
    return [json.loads(line) for line in (folder / f"{key}.jsonl").read_text(encoding="utf-8").splitlines()]


def write_cell(folder: Path, key: str, result: dict[str, Any], records: Iterable[dict[str, Any]]) -> None:
    """Write both files, the result last."""
    lines = "".join(json.dumps(plain(r), allow_nan=False) + "\n" for r in records)
    atomic_write_text(folder / f"{key}.jsonl", lines)
    atomic_write_text(folder / f"{key}.json", json.dumps(plain(result), allow_nan=False) + "\n")
