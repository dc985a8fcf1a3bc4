"""A run's state on disk: written whole or not at all, read without executing code."""

from __future__ import annotations

import io
import pickle
import zipfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from fairbound.base.errors import CheckpointError
from fairbound.base.files import atomic_write_bytes

FORMAT = 1
ARCHIVE = b"PK\x03\x04"  # how a file of torch.save begins


def state_to_plain(state: Any) -> dict[str, Any]:
    """Tensors, numbers and the optimiser's state_dict, by field name."""
    out = {}
    for f in fields(state):
        value = getattr(state, f.name)
        out[f.name] = value.state_dict() if isinstance(value, torch.optim.Optimizer) else value
    return out


def plain_to_state(fresh: Any, saved: dict[str, Any]) -> Any:
    """`fresh`, a state just made by init, with every value replaced by the saved one; x keeps its storage."""
    values: dict[str, Any] = {}
    for f in fields(fresh):
        old, new = getattr(fresh, f.name), saved[f.name]
        if isinstance(old, torch.optim.Optimizer):
            old.load_state_dict(new)
            values[f.name] = old
        elif isinstance(old, torch.Tensor) and f.name == "x":
            values[f.name] = old.copy_(new)
        else:
            values[f.name] = new
    return type(fresh)(**values)


def save(path: str | Path, content: dict[str, Any]) -> None:
    """Write `content` (tensors, numbers, text, lists, dicts) to `path` in one atomic replace."""
    buffer = io.BytesIO()
    torch.save({"format": FORMAT, **content}, buffer)
    atomic_write_bytes(Path(path), buffer.getvalue())


def load(path: str | Path, identity: dict[str, Any]) -> dict[str, Any]:
    """The content saved at `path`.

    identity: what must agree (method, options, problem, seeds, batches); a difference is named.
    Raises: CheckpointError for an empty, truncated or foreign file.
    """
    path = Path(path)
    data = path.read_bytes()
    if not data:
        raise CheckpointError(f"the checkpoint {path} is empty (0 bytes); delete it to start anew.")
    try:
        if not data.startswith(ARCHIVE):
            raise ValueError("not an archive")
        content = torch.load(io.BytesIO(data), weights_only=True)
    except (RuntimeError, EOFError, zipfile.BadZipFile, pickle.UnpicklingError, KeyError, ValueError, OSError) as error:
        raise CheckpointError(
            f"the checkpoint {path} cannot be read ({type(error).__name__}); it is truncated or not a "
            "checkpoint of fairbound. Delete it to start anew."
        ) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise CheckpointError(
            f"the checkpoint {path} has format {content.get('format') if isinstance(content, dict) else None!r}; "
            f"this version reads {FORMAT}."
        )
    saved = content.get("identity", {})
    for key, value in identity.items():
        if saved.get(key) != value:
            raise CheckpointError(
                f"the checkpoint {path} is of another run: its {key} is {saved.get(key)!r}, this run's is {value!r}. "
                "Give another path, or delete it to start anew."
            )
    return content
