"""A trained model as a folder of plain files, which loads without executing code.

- ``model.json``: the manifest (what the caller says about the model, and what this module adds: format, versions,
  the size and sha256 of every other file, and the sha256 of all this). Written last: without it, or with a file that
  differs, nothing loads.
- ``weights.safetensors``: the tensors, in the safetensors format. The same tensors give the same bytes.
- ``encoder.json``: the :class:`~fairbound.tables.TableEncoder`, where the model has one.
- further text files named by the caller.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from fairbound.base.errors import DataError
from fairbound.base.files import atomic_write_many, check_writable, sum_of_content
from fairbound.base.version import __version__
from fairbound.postprocessing.processor import FORMAT as OF_THRESHOLDS
from fairbound.tables import TableEncoder

__all__ = ["FORMAT_VERSION", "Folder", "ModelFolderError", "check_writable", "load_folder", "save_folder"]

FORMAT = "fairbound-model"
FORMAT_VERSION = 3
_MANIFEST, _WEIGHTS, _ENCODER = "model.json", "weights.safetensors", "encoder.json"
_ADDED = ("format", "format_version", "library_version", "files", "checksum")
_MOST_TEXT, _MOST_BYTES = 1 << 26, 1 << 34  # of a JSON file, and of all files together


class ModelFolderError(DataError):
    """A model folder cannot be saved as asked, or is not one, is damaged, or was written by another version."""


@dataclass(frozen=True)
class Folder:
    """What a model folder holds.

    ``manifest``: as given to :func:`save_folder` (tuples as lists), with format, format_version, library_version added.
    ``tensors``: name -> CPU tensor, bit for bit and with the dtype and shape that were saved.
    ``extras``: file name -> text. ``path``: where it lies. ``checksum``: the sha256 of ``model.json``, which holds those of
    the other files.
    """

    manifest: dict[str, Any]
    tensors: dict[str, torch.Tensor]
    encoder: TableEncoder | None = None
    extras: dict[str, str] = field(default_factory=dict)
    path: str = ""
    checksum: str = ""


def save_folder(
    path: str | os.PathLike[str],
    *,
    manifest: Mapping[str, Any],
    tensors: Mapping[str, torch.Tensor],
    encoder: TableEncoder | None = None,
    extras: Mapping[str, str] | None = None,
) -> Path:
    """Write a model folder, over an older one if there is one, whose files go; others in the folder are left alone.

    Everything is written under other names and flushed before the first file is replaced, and ``model.json`` comes
    last: a full disk leaves the old model, and a kill the old model or a folder that :func:`load_folder` refuses, never
    a mixture that loads. Arguments as in :func:`folder_contents`.

    Returns: the folder's path.
    Raises: ModelFolderError as :func:`folder_contents`; OSError naming the folder and the next move where it cannot be
    written.
    """
    contents = folder_contents(manifest=manifest, tensors=tensors, encoder=encoder, extras=extras)
    folder = check_writable(path)
    atomic_write_many(folder, contents, removed=[name for name in files_of_model(folder) if name not in contents])
    return folder


def files_of_model(folder: Path) -> list[str]:
    """The files of the model that is saved in `folder`, first the one without which it does not load; [] where there is none."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_bytes())
        names = list(manifest["files"]) if manifest["format"] == FORMAT else []
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [_MANIFEST, *(name for name in names if Path(name).name == name)] if names else []


def folder_contents(
    *,
    manifest: Mapping[str, Any],
    tensors: Mapping[str, torch.Tensor],
    encoder: TableEncoder | None = None,
    extras: Mapping[str, str] | None = None,
) -> dict[str, bytes]:
    """The files of a model folder, by name, in the order in which they are to be replaced.

    manifest: plain JSON data about the model, such as ``{"model": {"kind": "mlp", "hidden": [64, 32], "n_features":
    108}, "classes": [0, 1], "constraints": ["demographic_parity <= 0.02"], "seed": 0, "data_sha256": "..."}``.
    tensors: name -> dense tensor without NaN, on any device, of a dtype that safetensors knows (all but complex128).
    extras: file name -> text for further files.

    Raises: ModelFolderError for a manifest that is not plain JSON, a tensor or file name that cannot be stored.
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
    _manifest_bytes(whole)
    whole["checksum"] = sum_of_content(whole)
    return {**contents, _MANIFEST: _manifest_bytes(whole)}


def model_folder(path: str | os.PathLike[str]) -> Path:
    """The folder of a saved model: `path`, or its part "model" where a command wrote a model among other things."""
    folder, inner = Path(path), Path(path) / "model"
    return inner if not (folder / _MANIFEST).exists() and (inner / _MANIFEST).exists() else folder


def load_folder(path: str | os.PathLike[str]) -> Folder:
    """Read a model folder, or the one named "model" in a folder that a command wrote, checking every file against the
    manifest. No code from the folder is executed.

    Raises: FileNotFoundError where there is no such folder; ModelFolderError where a file is missing, empty, cut off or
    changed, where a weight is NaN, where the folder is no model (but a file of a PostProcessor, say), or where a version
    wrote it that has another format.
    """
    folder = Path(path)
    if _holds_thresholds(folder):
        raise ModelFolderError(
            f"{str(folder)!r} holds the thresholds of a fb.PostProcessor and no model; fb.PostProcessor.load({str(folder)!r}, "
            "estimator) puts them on top of the fitted estimator, which is saved by the means of its own library."
        )
    if not folder.is_dir():
        raise FileNotFoundError(
            f"there is no model folder {str(folder)!r}; check the path (it is a folder, not a file)."
        )
    folder = model_folder(folder)
    manifest = _read_manifest(folder)
    manifest.pop("checksum", None)
    _check_sizes(folder, manifest["files"])
    files = {name: _read_checked(folder, name, facts) for name, facts in manifest.pop("files").items()}
    try:
        tensors = safetensors.torch.load(files.pop(_WEIGHTS))
        coder = TableEncoder.from_json(files.pop(_ENCODER).decode("utf-8")) if _ENCODER in files else None
        extras = {name: data.decode("utf-8") for name, data in files.items()}
    except (KeyError, TypeError, ValueError, RecursionError, safetensors.SafetensorError) as error:
        raise ModelFolderError(
            f"the model folder {str(folder)!r} is complete but cannot be read: {error}. Save the model again."
        ) from error
    _check_no_nan(tensors)
    return Folder(manifest, tensors, coder, extras, str(path), _sha256((folder / _MANIFEST).read_bytes()))


def _holds_thresholds(path: Path) -> bool:
    """Whether a file begins as those of `PostProcessor.save` do."""
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        return f'"format": "{OF_THRESHOLDS}"'.encode() in file.read(100)


def checksum_of(contents: Mapping[str, bytes]) -> str:
    """The checksum of the folder that has these files, as of `folder_contents`."""
    return _sha256(contents[_MANIFEST])


def _check_sizes(folder: Path, files: Mapping[str, Any]) -> None:
    """Raises: ModelFolderError where the manifest names more than is read into memory."""
    sizes = [facts.get("bytes", -1) if isinstance(facts, dict) else -1 for facts in files.values()]
    if not all(isinstance(size, int) and size >= 0 for size in sizes):
        raise ModelFolderError(f"the manifest of {str(folder)!r} has a file without a size. Save the model again.")
    too_long = [name for name, size in zip(files, sizes, strict=True) if name == _ENCODER and size > _MOST_TEXT]
    if too_long or sum(sizes) > _MOST_BYTES:
        raise ModelFolderError(f"{str(folder)!r} names {sum(sizes):,} bytes, more than a model of this library has.")


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
        raise ModelFolderError(
            f"{str(folder)!r} is no model folder: it has no {_MANIFEST}. Name the folder that a model was saved to; if it is that, saving was interrupted."
        )
    if where.stat().st_size > _MOST_TEXT:
        raise ModelFolderError(
            f"{str(where)!r} has {where.stat().st_size:,} bytes, more than a model of this library has."
        )
    raw = where.read_bytes()
    try:
        manifest = json.loads(raw)
    except (ValueError, RecursionError) as error:
        state = "empty (0 bytes)" if not raw else f"damaged or cut off ({error})"
        raise ModelFolderError(f"{str(where)!r} is {state}. Copy the folder again or save the model again.") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ModelFolderError(f"{str(where)!r} does not describe a fairbound model (its 'format' is not {FORMAT!r}).")
    version = manifest.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ModelFolderError(f"{str(where)!r} has format_version {version!r}, which is none. Save the model again.")
    if version > FORMAT_VERSION:
        raise ModelFolderError(
            f"{str(folder)!r} has format version {version}, written by fairbound {manifest.get('library_version')}; "
            f"this is {__version__} and reads up to version {FORMAT_VERSION}. Upgrade: pip install -U fairbound"
        )
    if version < FORMAT_VERSION:
        raise ModelFolderError(
            f"{str(folder)!r} has format version {version}, of before the first release; this is {__version__} and reads version "
            f"{FORMAT_VERSION}. Train the model again."
        )
    if manifest.get("checksum") != sum_of_content(manifest):
        raise ModelFolderError(
            f"{str(where)!r} is not what was written there: its content differs from its own sha256. Copy the folder again or "
            "save the model again."
        )
    files = manifest.get("files")
    if not isinstance(files, dict) or _WEIGHTS not in files:
        raise ModelFolderError(f"{str(where)!r} does not list the file of the weights. Save the model again.")
    return manifest


def _read_checked(folder: Path, name: str, facts: Any) -> bytes:
    where = folder / name
    if Path(name).name != name or not isinstance(facts, dict):
        raise ModelFolderError(f"the manifest of {str(folder)!r} names a file {name!r} that cannot be in it.")
    if not where.is_file():
        raise ModelFolderError(f"the model folder {str(folder)!r} lacks {name}. Copy the whole folder again.")
    size, found = facts.get("bytes"), where.stat().st_size
    if found != size:
        state = "empty (0 bytes)" if not found else f"{found} bytes long"
        raise ModelFolderError(
            f"{str(where)!r} is {state} where {_MANIFEST} says {size}: cut off, or from another save. Copy "
            "the folder again."
        )
    data = where.read_bytes()
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
