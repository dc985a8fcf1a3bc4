"""A run's state on disk: written whole or not at all, read without executing code.

The file is a line of text, HEAD and the sha256 of the rest, and then an archive of torch.save. A file that differs from
its sha256 in one bit is refused; so is one whose parts are not those of the run, or that holds NaN.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import torch

from fairbound.base.errors import CheckpointError
from fairbound.base.files import atomic_write_bytes
from fairbound.base.names import shortlist

FORMAT = 4
MARK = b"fairbound-checkpoint "
HEAD = MARK + b"%d " % FORMAT
DIGEST = 64
MOST_NAMES = 1000
ARCHIVE = b"PK\x03\x04"  # how a file of torch.save begins
SHOWN = 3  # numbers of a message
HUGE = 1e300  # stands for an infinity in the identity

ALIKE = {"bounds": (1e-6, 0.0), "start": (1e-4, 1e-5), "training": (1e-4, 1e-5), "validation": (1e-4, 1e-5)}
"""By how much numbers of the identity may differ that other threads or devices round otherwise: as a share of
each, and of the largest."""

APART = {
    "bounds": "it was run under other bounds, {there} in place of {here}",
    "start": "it began at another point",
    "training": "objective and constraints are {there} at a point where they are {here} now, so that rows, "
    "labels, groups, weights or functions differ",
    "validation": "objective and constraints of the validation problem are {there} at a point where they are {here} now, so that rows, "
    "labels, groups, weights or functions differ",
}
"""What is said of numbers that differ."""


def state_to_plain(state: Any) -> Any:
    """Tensors, numbers and an optimiser's state_dict, by field name; states inside a state,
    lists and dicts likewise."""
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
        try:
            fresh.load_state_dict(saved)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise _not_of_this_run(place, f"no state of {type(fresh).__name__}: {error}") from error
        return fresh
    if is_dataclass(fresh) and not isinstance(fresh, type):
        names = [f.name for f in fields(fresh)]
        _check_parts(place, names, saved)
        for name in {"x", "multipliers", "k"} & set(names):
            check_like(saved[name], getattr(fresh, name), f"{place}.{name}")
        values = {name: plain_to_state(getattr(fresh, name), saved[name], f"{place}.{name}") for name in names}
        x = getattr(fresh, "x", None)
        if isinstance(x, torch.Tensor):
            values["x"] = x.copy_(saved["x"])
        return type(fresh)(**values)
    if isinstance(fresh, dict) and any(_has_parts(value) for value in fresh.values()):
        _check_parts(place, list(fresh), saved)
        return {key: plain_to_state(value, saved[key], f"{place}[{key!r}]") for key, value in fresh.items()}
    if isinstance(fresh, (list, tuple)) and any(_has_parts(value) for value in fresh):
        if not isinstance(saved, (list, tuple)):
            raise _not_of_this_run(place, f"a {type(saved).__name__}")
        _check_parts(place, range(len(fresh)), dict(enumerate(saved)))
        made = [plain_to_state(value, saved[i], f"{place}[{i}]") for i, value in enumerate(fresh)]
        return made if isinstance(fresh, list) else tuple(made)
    if isinstance(fresh, tuple):
        if not isinstance(saved, (list, tuple)):
            raise _not_of_this_run(place, f"a {type(saved).__name__}")
        return tuple(saved)
    return saved


def check_like(saved: Any, fresh: Any, place: str) -> None:
    """Whether `saved` can stand where `fresh` does: tensors of one shape and dtype, numbers >= 0, dicts with the same
    keys, lists of dicts. Raises: CheckpointError naming the place."""
    if isinstance(fresh, torch.Tensor):
        if not isinstance(saved, torch.Tensor) or (saved.shape, saved.dtype) != (fresh.shape, fresh.dtype):
            found = f"{saved.dtype} {tuple(saved.shape)}" if isinstance(saved, torch.Tensor) else type(saved).__name__
            raise _not_of_this_run(place, f"{found} where the run has {fresh.dtype} {tuple(fresh.shape)}")
    elif isinstance(fresh, dict):
        _check_parts(place, fresh, saved)
        for key, value in fresh.items():
            check_like(saved[key], value, f"{place}.{key}")
    elif isinstance(fresh, list):
        if not isinstance(saved, list) or not all(isinstance(value, dict) for value in saved):
            raise _not_of_this_run(place, "no list of records")
    elif isinstance(fresh, int | float) and not isinstance(fresh, bool):
        if isinstance(saved, bool) or not isinstance(saved, int | float) or not saved >= 0:
            raise _not_of_this_run(place, f"{saved!r} where the run has a number >= 0")
        if isinstance(fresh, int) and not isinstance(saved, int):
            raise _not_of_this_run(place, f"{saved!r} where the run has a whole number")
    elif saved is not None and not (isinstance(fresh, str) and isinstance(saved, str)):
        raise _not_of_this_run(place, f"a {type(saved).__name__}")


def _not_of_this_run(place: str, found: str) -> CheckpointError:
    return CheckpointError(f"the checkpoint's {place} is {found}. It is of another run: delete it to start anew.")


def _check_no_nan(value: Any, place: str) -> None:
    if isinstance(value, torch.Tensor):
        bad = value.is_floating_point() and bool(value.isnan().any())
    else:
        bad = isinstance(value, float) and value != value
    if bad:
        raise CheckpointError(f"the checkpoint holds NaN in {place}; delete it to start anew.")
    if isinstance(value, dict):
        for key, part in value.items():
            _check_no_nan(part, f"{place}.{key}" if place else str(key))
    elif isinstance(value, (list, tuple)):
        for part in value:
            _check_no_nan(part, place)


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
    """The names as a checkpoint's identity holds them: themselves,
    or their number and digest where there are very many."""
    if len(names) <= MOST_NAMES:
        return list(names)
    return f"{len(names)} names, sha256 {hashlib.sha256(chr(10).join(names).encode()).hexdigest()[:16]}"


def save(path: str | Path, content: dict[str, Any]) -> None:
    """Write `content` (tensors, numbers, text, lists, dicts) to `path` in one atomic replace."""
    buffer = io.BytesIO()
    torch.save({"format": FORMAT, **content}, buffer)
    data = buffer.getvalue()
    atomic_write_bytes(Path(path), b"".join([HEAD, hashlib.sha256(data).hexdigest().encode(), b"\n", data]))


def load(path: str | Path, identity: dict[str, Any]) -> dict[str, Any]:
    """The content saved at `path`.

    identity: what must agree (see `identity_of`), numbers up to rounding; a difference is named.
    Raises: CheckpointError for an empty, truncated, damaged or foreign file, and for NaN.
    """
    path = Path(path)
    data = path.read_bytes()
    if not data:
        raise CheckpointError(f"the checkpoint {path} is empty (0 bytes); delete it to start anew.")
    if data.startswith(ARCHIVE):
        raise CheckpointError(
            f"the checkpoint {path} is of an older version of fairbound, or not a checkpoint. Delete it to start anew."
        )
    of = data[len(MARK) : len(HEAD)].split(b" ")[0]
    if data.startswith(MARK) and of.isdigit() and int(of) != FORMAT:
        raise CheckpointError(
            f"the checkpoint {path} is of another version of fairbound: its format is {int(of)}, this version reads {FORMAT}. "
            "Delete it to start anew."
        )
    begin = len(HEAD) + DIGEST + 1
    try:
        if not data.startswith(HEAD):
            raise ValueError("not a checkpoint")
        if hashlib.sha256(data[begin:]).hexdigest().encode() + b"\n" != data[len(HEAD) : begin]:
            raise ValueError("its content is not what its sha256 says")
        _check_archive(data[begin:])
        content = torch.load(io.BytesIO(data[begin:]), weights_only=True)
    except Exception as error:  # what a damaged archive raises in torch has no list
        raise CheckpointError(
            f"the checkpoint {path} cannot be read ({type(error).__name__}: {str(error)[:100]}); it is damaged, truncated or not a "
            "checkpoint of fairbound. Delete it to start anew."
        ) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise CheckpointError(
            f"the checkpoint {path} has format {content.get('format') if isinstance(content, dict) else None!r}; "
            f"this version reads {FORMAT}."
        )
    saved = content.get("identity")
    if not isinstance(saved, dict):
        raise CheckpointError(f"the checkpoint {path} does not say of which run it is. Delete it to start anew.")
    _check_no_nan(content, "")
    for key, value in identity.items():
        if apart := _difference(key, saved.get(key), value):
            raise CheckpointError(
                f"the checkpoint {path} is of another run: {apart}. Give another path, or delete it to start anew."
            )
    return content


def _difference(key: str, saved: Any, value: Any) -> str:
    """What is to be said where an entry of the identity differs; "" where it does not."""
    if key not in ALIKE:
        alike = not isinstance(saved, torch.Tensor) and saved == value
        return "" if alike else f"its {key} is {saved!r}, this run's is {value!r}"
    if not isinstance(saved, torch.Tensor) or value is None:
        had, has = ("with" if isinstance(one, torch.Tensor) else "without" for one in (saved, value))
        return "" if saved is None and value is None else f"it was run {had} {key}, and this run is {has} it"
    if saved.shape != value.shape:
        return APART[key].format(there=_numbers(saved), here=_numbers(value))
    share, of_largest = ALIKE[key]
    size = torch.maximum(saved.abs(), value.abs())
    usual = size[size < HUGE]
    largest = float(usual.max()) if usual.numel() else 0.0
    other = ((saved - value).abs() > share * size + of_largest * largest).flatten()
    if not other.any():
        return ""
    return APART[key].format(there=_numbers(saved.flatten()[other]), here=_numbers(value.flatten()[other]))


def _numbers(values: torch.Tensor) -> str:
    return shortlist([f"{v:.6g}" for v in values.flatten().tolist()], SHOWN) or "no numbers"


def _check_archive(data: bytes) -> None:
    """Raises: ValueError for an archive that would unpack to more than it is, which torch.save never writes."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > len(data):
            raise ValueError("its parts are larger than the file")
