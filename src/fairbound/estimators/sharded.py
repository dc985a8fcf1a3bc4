"""What the processes of a distributed fit must agree on before they train: the options, the classes,
and the groups of each attribute."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy

from fairbound.base.errors import DataError, OptionError
from fairbound.estimators.parameter_checks import check_distributed, classifier_bounds
from fairbound.rows.groups import MISSING, Groups, check_whole, natural_order
from fairbound.rows.labels import kind_of_label, sound_labels
from fairbound.rows.reading import LEAST, MOST, WIDEST, column_values, factorised, number_column
from fairbound.rows.shards import ALONE, Processes, Shards, all_or_none

OWN = ("random_state", "progress", "verbose")
"""Options that each process may have for itself: the seed is that of the first."""


def shards_of(classifier: Any) -> Shards:
    """The processes that train together, where its `distributed` says so."""
    return Processes() if classifier.distributed else ALONE


def check_agreed(classifier: Any) -> None:
    """Raises: OptionError for options of a FairClassifier that are not sound, that one process alone can follow, or that
    differ between processes, and for a module that begins at other parameters in another one; DataError for options that
    are not sound in another one."""
    shards = shards_of(classifier)

    def stated() -> dict[str, tuple[Any, str]]:
        bounds = classifier_bounds(classifier)
        check_distributed(shards, classifier)
        options = {k: v for k, v in classifier.get_params(deep=False).items() if k not in OWN and not shards.alone}
        options["constraint"] = [bound.text for bound in bounds]
        return {name: (_compared(value), _shown(value)) for name, value in options.items()}

    parts = shards.gather(all_or_none(shards, stated))
    for place, other in enumerate(parts):
        differing = [name for name, (value, _) in parts[0].items() if other[name][0] != value]
        if differing:
            name = differing[0]
            raise OptionError(
                f"the processes of a distributed fit have different options: {name} is {parts[0][name][1]} in process 0 and "
                f"{other[name][1]} in process {place} (counting from 0). Give all of them the same."
            )
    if isinstance(classifier.model, nn.Module) and not shards.alone:
        starts = shards.gather(all_or_none(shards, lambda: _checksum(classifier.model)))
        for place, start in enumerate(starts):
            if start != starts[0]:
                raise OptionError(
                    f"the module begins at other parameters in process {place} than in process 0 (counting from 0). Call "
                    "torch.manual_seed with one number before it is made, or load one state_dict in all of them."
                )


def _checksum(module: nn.Module) -> str:
    """The sha256 of the parameters and buffers of a module."""
    found = hashlib.sha256()
    for values in module.state_dict().values():
        if isinstance(values, torch.Tensor) and not is_lazy(values):
            found.update(values.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def _compared(value: Any) -> Any:
    """An option as plain data that == compares: numbers whatever their type, dicts and sets in any order; of what is no
    such data its text."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {_compared(key): _compared(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return tuple(map(_compared, value))
    if isinstance(value, set | frozenset):
        return frozenset(map(_compared, value))
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, {field.name: _compared(getattr(value, field.name)) for field in fields(value)}
    plain = value is None or isinstance(value, str | int) or (isinstance(value, float) and value == value)
    return value if plain else _shown(value)


def _shown(value: Any) -> str:
    """The text of an option, without the addresses of objects, which differ by process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def with_labels_of_all(y: Any, shards: Shards) -> tuple[Any, int | None]:
    """y (n,) followed by every label that occurs in any process, and n, None for all of them: read together, the classes
    are the same everywhere. Raises: DataError where labels of a process are not sound, or all processes have one
    class."""
    if shards.alone:
        return y, None
    values, kind = all_or_none(shards, lambda: _sound(y))
    own = factorised(values.tolist())[1] if kind == "text" else np.unique(values).tolist()
    parts = shards.gather((kind, own))
    for place, (other, _) in enumerate(parts):
        if other != parts[0][0]:
            raise DataError(
                f"the labels are {parts[0][0]} values in process 0 and {other} values in process {place} (counting from 0). "
                "Make them one type."
            )
    known = [v for _, part in parts for v in part]
    if len(set(known)) == 1:
        raise DataError(
            f"all labels of all processes are {known[0]!r}; two classes are needed. Check the label column."
        )
    return np.concatenate([values, np.array(known, dtype=object if kind == "text" else None)]), len(values)


def _sound(y: Any) -> tuple[np.ndarray, str]:
    """(n,) the labels of this process, checked by themselves, so that what is said of them has their rows; and their kind."""
    values = y if isinstance(y, np.ndarray) and y.ndim == 1 else np.array(column_values("the labels", y), dtype=object)
    if len(values) and values.dtype.kind in "biuf" and np.isfinite(values).all():
        return values, "bool" if values.dtype.kind == "b" else "number"
    labels = sound_labels(values)
    kind = kind_of_label(labels[0])
    return np.array(labels, dtype=object if kind == "text" else None), kind


def check_weighted(weight: Any, shards: Shards) -> None:
    """Raises: DataError where rows have a weight in one process, None for none, and not in another, where those of a
    process are so large or small that it would read them in a unit of its own, and where one above 0 is less than a 1e30th
    of another process's."""
    given = shards.gather(weight is not None)
    if len(set(given)) > 1:
        raise DataError(
            f"sample_weight is given in process {given.index(True)} of a distributed fit and not in process {given.index(False)} "
            "(counting from 0). Give weights in all of them, or in none; a weight of 1 for each row is as none."
        )
    if weight is None or shards.alone:
        return
    own = number_column("sample_weight", weight)
    parts = shards.gather((float(own.max()), float(own[own > 0].min(initial=np.inf))))
    most, least = (list(part) for part in zip(*parts, strict=True))
    for place, largest in enumerate(most):
        if not LEAST < largest < MOST:
            raise DataError(
                f"the largest sample_weight of process {place} (counting from 0) is {largest:g}; give the weights of all processes in "
                f"another unit, so that the largest of each lies between {LEAST:g} and {MOST:g}."
            )
    if min(least) < max(most) / WIDEST:
        raise DataError(
            f"sample_weight lies too far apart: {min(least):g} in process {least.index(min(least))} (counting from 0) and "
            f"{max(most):g} in process {most.index(max(most))}, more than {WIDEST:g} times as much. Rows that are not to count "
            "take the weight 0."
        )


def same_groups(groups: Groups | None, shards: Shards, checked: bool = False) -> Groups | None:
    """The groups of these rows, numbered among those that occur in any process; None where no process has any.
    checked: whether those of this process were looked at before, as those of a `Groups`.
    Raises: DataError for other attributes, and where `check_whole` refuses the groups of all rows."""
    if shards.alone:
        return groups
    parts = shards.gather(None if groups is None else (groups.attributes, groups.labels, len(groups), checked))
    names = [() if part is None else part[0] for part in parts]
    if len(set(names)) > 1:
        raise DataError(f"the processes name different sensitive attributes: {names}.")
    if groups is None:
        return None
    codes, labels = [], []
    for j, own in enumerate(groups.labels):
        known = tuple(sorted({text for _, part, *_ in parts for text in part[j]}, key=natural_order))
        place = np.array([*(known.index(text) for text in own), MISSING])
        codes.append(place[groups.codes[:, j]])
        labels.append(known)
    found = Groups(np.stack(codes, axis=1), groups.attributes, tuple(labels))
    if not all(looked_at for *_, looked_at in parts):
        check_whole(found.names, sum(rows for _, _, rows, _ in parts))
    return found
