"""The file of a monitor: its state as JSON, with a checksum."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from fairbound.base.errors import CheckpointError


def state_file(state: dict[str, Any]) -> tuple[bytes, str]:
    """The content of the file of a state, and the state's checksum."""
    text = _text(state)
    total = _sum_of(text)
    return f'{{"sha256": "{total}",\n"state": {text}}}\n'.encode(), total


def check_not_changed(path: str | os.PathLike[str], known: str | None) -> None:
    """Raises: CheckpointError where the file at `path` is not that of the checksum `known`, as `stored_sum` gives it: another
    process has written it since, or there is one already."""
    if stored_sum(path) != known:
        what = "is there already" if known is None else "was changed since it was read"
        raise CheckpointError(f"{str(path)!r} {what}; load it and add the rows to it, or save elsewhere.")


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
