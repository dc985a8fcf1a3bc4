"""The file of a monitor: its state as JSON, with a checksum."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from fairbound.base.errors import CheckpointError
from fairbound.base.files import atomic_write_text


def write_state(path: str | os.PathLike[str], state: dict[str, Any]) -> str:
    """Write the state, and give its checksum; the old file stays until the new one is whole."""
    text = _text(state)
    atomic_write_text(Path(path), f'{{"sha256": "{_sum_of(text)}",\n"state": {text}}}\n')
    return _sum_of(text)


def read_state(path: str | os.PathLike[str]) -> tuple[dict[str, Any], str]:
    """The state at `path` and its checksum. Raises: FileNotFoundError,
    and CheckpointError for a file that is damaged or is none."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}; check the path.")
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
        state, total = whole["state"], whole["sha256"]
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{str(path)!r} is no state of a monitor, or is cut off; take a backup of it.") from error
    if _sum_of(_text(state)) != total:
        raise CheckpointError(
            f"{str(path)!r} was changed after it was written (its checksum differs); take a backup of it."
        )
    return state, total


def stored_sum(path: str | os.PathLike[str]) -> str | None:
    """The checksum that a file says, None where there is no file."""
    path = Path(path)
    if not path.exists():
        return None
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["sha256"])
    except (ValueError, KeyError, TypeError, OSError):
        return "unreadable"


def _text(state: dict[str, Any]) -> str:
    return json.dumps(state, ensure_ascii=False, allow_nan=False)


def _sum_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
