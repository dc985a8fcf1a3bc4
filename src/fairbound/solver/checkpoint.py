"""A run's state on disk: written whole or not at all, read without executing code."""

from __future__ import annotations

import hashlib
import io
import pickle
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import torch

from fairbound.base.errors import CheckpointError
from fairbound.base.files import atomic_write_bytes

FORMAT = 2
MOST_NAMES = 1000
ARCHIVE = b"PK\x03\x04"  # how a file of torch.save begins


def state_to_plain(state: Any) -> Any:
    """Tensors, numbers and an optimiser's state_dict, by field name; states inside a state, lists and dicts likewise."""
    if isinstance(state, torch.optim.Optimizer):
        return state.state_dict()
    if is_dataclass(state) and not isinstance(state, type):
        return {f.name: state_to_plain(getattr(state, f.name)) for f in fields(state)}
    if isinstance(state, dict):
        return {key: state_to_plain(value) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return [state_to_plain(value) for value in state]
    return state


def plain_to_state(fresh: Any, saved: Any, place: str = "state") -> Any:
    """`fresh`, a state just made by init, with every value replaced by the saved one; each x keeps its storage.

    Raises: CheckpointError where the saved state has other parts.
    """
    if isinstance(fresh, torch.optim.Optimizer):
        fresh.load_state_dict(saved)
        return fresh
    if is_dataclass(fresh) and not isinstance(fresh, type):
        names = [f.name for f in fields(fresh)]
        _check_parts(place, names, saved)
        values = {name: plain_to_state(getattr(fresh, name), saved[name], f"{place}.{name}") for name in names}
        x = getattr(fresh, "x", None)
        if isinstance(x, torch.Tensor):
            values["x"] = x.copy_(saved["x"])
        return type(fresh)(**values)
    if isinstance(fresh, dict) and any(_has_parts(value) for value in fresh.values()):
        _check_parts(place, list(fresh), saved)
        return {key: plain_to_state(value, saved[key], f"{place}[{key!r}]") for key, value in fresh.items()}
    if isinstance(fresh, (list, tuple)) and any(_has_parts(value) for value in fresh):
        _check_parts(place, range(len(fresh)), dict(enumerate(saved)))
        made = [plain_to_state(value, saved[i], f"{place}[{i}]") for i, value in enumerate(fresh)]
        return made if isinstance(fresh, list) else tuple(made)
    return tuple(saved) if isinstance(fresh, tuple) else saved


def _has_parts(value: Any) -> bool:
    return isinstance(value, (dict, list, tuple, torch.optim.Optimizer)) or is_dataclass(value)


def _check_parts(place: str, names: Iterable[Any], saved: Any) -> None:
    found = set(saved) if isinstance(saved, dict) else set()
    if found != set(names):
        differing = ", ".join(sorted(map(str, found ^ set(names))))
        raise CheckpointError(
            f"the checkpoint is of another version of the method: it differs in the parts {differing} of the {place}. Delete it "
            "to start anew."
        )


def of_names(names: Sequence[str]) -> list[str] | str:
    """The names as a checkpoint's identity holds them: themselves, or their number and digest where there are very many."""
    if len(names) <= MOST_NAMES:
        return list(names)
    return f"{len(names)} names, sha256 {hashlib.sha256(chr(10).join(names).encode()).hexdigest()[:16]}"


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
