"""Whether the processes that train together were built alike: cells and contrasts are summed number by number, so that
the same number must mean the same in all of them."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

import torch
from torch import distributed

from fairbound.base.callers import users_line
from fairbound.base.errors import DataWarning, OptionError
from fairbound.fairness.bound import Bound
from fairbound.methods.alm import ALM
from fairbound.optim.state import shown

DIGITS = 15
"""Hexadecimal digits of a digest that an int64 holds."""


def options_of(stated: Iterable[Bound], config: ALM, memory: float) -> list[str]:
    """The options of a Dual that must agree, a text for each."""
    return [
        *(b.text for b in stated),
        *(f"{f.name}={getattr(config, f.name)!r}" for f in fields(config)),
        f"memory={memory:g}",
    ]


def check_built_alike(identity: Mapping[str, Any], world: int, device: torch.device) -> None:
    """Raises: OptionError in every process where one was built with other bounds, groups, loss or options.
    identity: what must agree, as plain values. Every one of the `world` processes calls it."""
    said = json.dumps(identity, default=str)
    digest = int(hashlib.sha256(said.encode()).hexdigest()[:DIGITS], 16)
    ends = torch.tensor([digest, -digest], device=device)
    distributed.all_reduce(ends, op=distributed.ReduceOp.MAX)
    if int(ends.sum()) == 0:
        return
    each: list[Any] = [None] * world
    distributed.all_gather_object(each, said)
    found = [json.loads(text) for text in each]
    other = next(rank for rank, one in enumerate(found) if one != found[0])
    key = next(key for key in found[0] if found[0][key] != found[other].get(key))
    here, there = found[0][key], found[other].get(key)
    if key == "options":  # as many in all processes, whose bounds are alike but for their numbers
        apart = [pair for pair in zip(here, there, strict=True) if pair[0] != pair[1]]
        here, there = (", ".join(texts) for texts in zip(*apart, strict=True))
    else:
        here, there = shown(here), shown(there)
    raise OptionError(
        f"the processes built Dual differently: {key} of process 0 are {here}, of process {other} {there}. Sums of groups are joined "
        "by their numbers, so build it alike in all of them: from the same list of groups in the same order (group_names=, "
        "sorted), or from all training rows rather than from the part of each."
    )


def warn_of_processes_apart() -> None:
    """Warns: DataWarning where processes train together and a Dual does not say so."""
    if distributed.is_available() and distributed.is_initialized() and (world := distributed.get_world_size()) > 1:
        warnings.warn(
            f"{world} processes train together, and this Dual counts the rows of its own alone: multipliers will differ between them. "
            "Say Dual(..., distributed=True).",
            DataWarning,
            stacklevel=users_line(),
        )
