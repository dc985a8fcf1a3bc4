"""A trained model as a folder of plain files, which loads without executing code.

- ``model.json``: the manifest (what the caller says about the model, and what this module adds: format, versions, and
  the size and sha256 of every other file). Written last: without it, or with a file that differs, nothing loads.
- ``weights.safetensors``: the tensors, in the safetensors format. The same tensors give the same bytes.
- ``encoder.json``: the :class:`~fairbound.tables.TableEncoder`, where the model has one.
- further text files named by the caller.

Folders of format version 1 kept the tensors in ``weights.npz``; they still load.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch

from fairbound._version import __version__
from fairbound.base.errors import DataError
from fairbound.base.files import atomic_write_many, check_writable
from fairbound.tables import TableEncoder

__all__ = ["FORMAT_VERSION", "Folder", "ModelFolderError", "check_writable", "load_folder", "save_folder"]

FORMAT = "fairbound-model"
FORMAT_VERSION = 2
_MANIFEST, _WEIGHTS, _ENCODER = "model.json", "weights.safetensors", "encoder.json"
_OLD_WEIGHTS = "weights.npz"  # of format version 1
_ADDED = ("format", "format_version", "library_version", "files")


class ModelFolderError(DataError):
    """A model folder cannot be saved as asked, or is not one, is damaged, or was written by a newer version."""


@dataclass(frozen=True)
class Folder:
    """What a model folder holds.

    ``manifest``: as given to :func:`save_folder` (tuples as lists), with format, format_version, library_version added.
    ``tensors``: name -> CPU tensor, bit for bit and with the dtype and shape that were saved.
    ``extras``: file name -> text.
    """

    manifest: dict[str, Any]
    tensors: dict[str, torch.Tensor]
    encoder: TableEncoder | None = None
    extras: dict[str, str] = field(default_factory=dict)


def save_folder(
    path: str | os.PathLike[str],
    *,
    manifest: Mapping[str, Any],
    tensors: Mapping[str, torch.Tensor],
    encoder: TableEncoder | None = None,
    extras: Mapping[str, str] | None = None,
) -> Path:
    """Write a model folder, over an older one if there is one; other files in the folder are left alone.

    manifest: plain JSON data about the model, such as ``{"model": {"kind": "mlp", "hidden": [64, 32], "n_features":
    108}, "classes": [0, 1], "constraints": ["demographic_parity <= 0.02"], "seed": 0, "data_sha256": "..."}``.
    tensors: name -> dense tensor without NaN, on any device, of a dtype that safetensors knows (all but complex128).
    extras: file name -> text for further files.

    Everything is written under other names and flushed before the first file is replaced, and ``model.json`` comes
    last: a full disk leaves the old model, and a kill the old model or a folder that :func:`load_folder` refuses, never
    a mixture that loads.

    Returns: the folder's path.
    Raises: ModelFolderError for a manifest that is not plain JSON, a tensor or file name that cannot be stored; OSError
    naming the folder and the next move where it cannot be written.
    """
    wrong = [name for name in _ADDED if name in manifest]
    if wrong:
        raise ModelFolderError(f"the manifest may not set {wrong}: the library writes them. Use other names.")
    contents = {_WEIGHTS: _packed(tensors)}
    if encoder is not None:
        contents[_ENCODER] = encoder.to_json().encode("utf-8")
    for name, text in (extras or {}).items():
        if not name or Path(name).name != name or name.startswith(".") or name in (_MANIFEST, _WEIGHTS, _ENCODER):
            raise ModelFolderError(
                f"{name!r} cannot be an extra file: use a plain file name that the folder does not use."
            )
        contents[name] = text.encode("utf-8")
    whole = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "library_version": __version__,
        **manifest,
        "files": {name: {"bytes": len(data), "sha256": _sha256(data)} for name, data in contents.items()},
    }
    folder = check_writable(path)
    atomic_write_many(folder, {**contents, _MANIFEST: _manifest_bytes(whole)})
    return folder


def load_folder(path: str | os.PathLike[str]) -> Folder:
    """Read a model folder, checking every file against the manifest. No code from the folder is executed.

    Raises: FileNotFoundError where there is no such folder; ModelFolderError where a file is missing, empty, cut off or
    changed, where a weight is NaN, where the folder is no model, or where a newer version wrote it.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise FileNotFoundError(
            f"there is no model folder {str(folder)!r}; check the path (it is a folder, not a file)."
        )
    manifest = _read_manifest(folder)
    files = {name: _read_checked(folder, name, facts) for name, facts in manifest.pop("files").items()}
    old = manifest.pop("tensors", None)
    try:
        if manifest["format_version"] == 1:
            tensors = _unpacked_old(files.pop(_OLD_WEIGHTS), old)
        else:
            tensors = safetensors.torch.load(files.pop(_WEIGHTS))
        coder = TableEncoder.from_json(files.pop(_ENCODER).decode("utf-8")) if _ENCODER in files else None
        extras = {name: data.decode("utf-8") for name, data in files.items()}
    except (KeyError, TypeError, ValueError, OSError, zipfile.BadZipFile, safetensors.SafetensorError) as error:
        raise ModelFolderError(
            f"the model folder {str(folder)!r} is complete but cannot be read: {error}. Save the model again."
        ) from error
    _check_no_nan(tensors)
    return Folder(manifest, tensors, coder, extras)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _manifest_bytes(whole: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(whole, indent=1, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ModelFolderError(
            f"the manifest is not plain JSON: {error}. Use dicts, lists, strings, finite numbers, bools and None."
        ) from error
    _check_keys(whole)
    return text.encode("utf-8")


def _check_keys(value: Any) -> None:
    """JSON turns other keys into text without a word, so that they would not come back."""
    if isinstance(value, Mapping):
        odd = [key for key in value if not isinstance(key, str)]
        if odd:
            raise ModelFolderError(f"the manifest is not plain JSON: the key {odd[0]!r} is no string. Make it one.")
        for part in value.values():
            _check_keys(part)
    elif isinstance(value, list | tuple):
        for part in value:
            _check_keys(part)


def _read_manifest(folder: Path) -> dict[str, Any]:
    where = folder / _MANIFEST
    if not where.is_file():
        raise ModelFolderError(f"{str(folder)!r} is no model folder: it has no {_MANIFEST}. Was saving it interrupted?")
    raw = where.read_bytes()
    try:
        manifest = json.loads(raw)
    except ValueError as error:
        state = "empty (0 bytes)" if not raw else f"damaged or cut off ({error})"
        raise ModelFolderError(f"{str(where)!r} is {state}. Copy the folder again or save the model again.") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ModelFolderError(f"{str(where)!r} does not describe a fairbound model (its 'format' is not {FORMAT!r}).")
    version = manifest.get("format_version")
    if not isinstance(version, int) or version < 1:
        raise ModelFolderError(f"{str(where)!r} has format_version {version!r}, which is none. Save the model again.")
    if version > FORMAT_VERSION:
        raise ModelFolderError(
            f"{str(folder)!r} has format version {version}, written by fairbound {manifest.get('library_version')}; "
            f"this is {__version__} and reads up to version {FORMAT_VERSION}. Upgrade: pip install -U fairbound"
        )
    files = manifest.get("files")
    if not isinstance(files, dict) or (_OLD_WEIGHTS if version == 1 else _WEIGHTS) not in files:
        raise ModelFolderError(f"{str(where)!r} does not list the file of the weights. Save the model again.")
    return manifest


def _read_checked(folder: Path, name: str, facts: Any) -> bytes:
    where = folder / name
    if Path(name).name != name or not isinstance(facts, dict):
        raise ModelFolderError(f"the manifest of {str(folder)!r} names a file {name!r} that cannot be in it.")
    if not where.is_file():
        raise ModelFolderError(f"the model folder {str(folder)!r} lacks {name}. Copy the whole folder again.")
    data = where.read_bytes()
    size = facts.get("bytes")
    if len(data) != size:
        state = "empty (0 bytes)" if not data else f"{len(data)} bytes long"
        raise ModelFolderError(
            f"{str(where)!r} is {state} where {_MANIFEST} says {size}: cut off, or from another save. Copy "
            "the folder again."
        )
    if _sha256(data) != facts.get("sha256"):
        raise ModelFolderError(
            f"{str(where)!r} does not have the sha256 that {_MANIFEST} says: changed since, or from another save. "
            "Copy the folder again or save the model again."
        )
    return data


def _packed(tensors: Mapping[str, torch.Tensor]) -> bytes:
    """The tensors in the safetensors format; each is copied, since that format holds no views and no shared memory."""
    try:
        if "__metadata__" in tensors:
            raise ValueError("the name '__metadata__' is taken by the format")
        plain = {
            name: tensor.detach().cpu().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
            for name, tensor in tensors.items()
        }
        packed = safetensors.torch.save(plain)
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ModelFolderError(
            f"the weights cannot be stored: {error}. Give text names and dense tensors of a dtype that safetensors knows."
        ) from error
    _check_no_nan(plain)
    return packed


def _check_no_nan(tensors: Mapping[str, torch.Tensor]) -> None:
    for name, tensor in tensors.items():
        if tensor.isnan().any():
            raise ModelFolderError(f"tensor {name!r} holds NaN: such a model scores nothing. Train it again.")


def _unpacked_old(data: bytes, described: Any) -> dict[str, torch.Tensor]:
    """The tensors of ``weights.npz``; ``described``: name -> dtype and shape. A bfloat16 was stored as its 16 bits."""
    tensors = {}
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        for name in arrays.files:
            tensor = torch.from_numpy(np.array(arrays[name]))
            tensors[name] = tensor.view(torch.bfloat16) if described[name]["dtype"] == "bfloat16" else tensor
    return tensors
