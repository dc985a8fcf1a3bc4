"""The state of a monitor as plain data: its versions, and the counts in it."""

from __future__ import annotations

import math
import operator
from dataclasses import replace
from typing import Any

from fairbound.base.errors import CheckpointError
from fairbound.base.version import __version__
from fairbound.monitoring.ids import Ids
from fairbound.monitoring.pairing import AreaTally
from fairbound.monitoring.tally import Sums, Tally

FORMAT, WITH_IDS = "fairbound.monitor/1", "fairbound.monitor/2"
"""Of a state, and of one with ids, which versions that know none of ids must not add to."""


def format_of(tally: Tally) -> str:
    """The format in which a monitor with this tally is written."""
    return FORMAT if tally.ids is None else WITH_IDS


def check_format(state: Any) -> None:
    """Raises: CheckpointError where this is no state of a monitor, or one of a format that is not known."""
    if not isinstance(state, dict) or not str(written := state.get("format")).startswith("fairbound.monitor/"):
        raise CheckpointError(f"this is no state of a monitor ({FORMAT}); take the file that Monitor.save wrote.")
    if written not in (FORMAT, WITH_IDS):
        raise CheckpointError(
            f"the state has the format {written}, written by fairbound {state.get('library')}; this is {__version__} and reads "
            f"{FORMAT} and {WITH_IDS}. Upgrade: pip install -U fairbound"
        )


def tally_to_dict(tally: Tally) -> dict[str, Any]:
    """The counts as plain data."""
    keys = list(tally.counts)
    return {
        "attributes": None if tally.attributes is None else list(tally.attributes),
        "cells": [list(key) for key in keys],
        "counts": [tally.counts[key] for key in keys],
        "checkpoints": [None if b is None else [b.get(key, 0) for key in keys] for b in tally.before],
        "losses": [list(tally.losses.get(key, ())) for key in keys],
        "losses_at_checkpoints": [
            None if b is None else [list(b.get(key, ())) for key in keys] for b in tally.losses_before
        ],
        "offered": tally.offered,
        "seed": tally.seed,
        "areas": tally.areas.to_dict(),
        **({} if tally.ids is None else {"ids": tally.ids.to_text(), "repeated": tally.repeated}),
    }


def tally_from_dict(plain: dict[str, Any], empty: Tally) -> Tally:
    """The tally that `tally_to_dict` wrote; empty: one of the same options without rows. States of older versions have no
    losses and areas.

    Raises: KeyError, TypeError, ValueError, AttributeError, IndexError for other data.
    """
    keys = [tuple(cell) for cell in plain["cells"]]
    counts = dict(zip(keys, plain["counts"], strict=True))
    before = [None if b is None else dict(zip(keys, b, strict=True)) for b in plain["checkpoints"]]
    names, rows = plain["attributes"], sum(counts.values())
    many = len(empty.classes)
    if not all(isinstance(name, str) for name in names or ()):
        raise ValueError(f"the sensitive features have no names: {names}")
    for key in keys:
        *groups, y, decision = key
        if len(groups) != len(names or ()) or not all(v is None or isinstance(v, str) for v in groups):
            raise ValueError(f"the combination {key} does not name the groups of {names}")
        if not (_whole(y) and _whole(decision) and max(y, decision) < many):
            raise ValueError(f"the combination {key} has no label and decision of {many} classes")
    for of in (counts, *(b for b in before if b is not None)):
        if not all(map(_whole, of.values())) or any(n > counts[key] for key, n in of.items()):
            raise ValueError("the counts are not whole numbers that grow")

    def sums(of: Any) -> Sums | None:
        found = None if of is None else {key: tuple(v) for key, v in zip(keys, of, strict=True) if v}
        for v in (found or {}).values():
            if len(v) != len(empty.largest) or not all(map(math.isfinite, v)):
                raise ValueError("the sums of losses do not fit together")
        return found

    losses_before = list(map(sums, plain.get("losses_at_checkpoints", [[()] * len(keys)] * len(before))))
    if len(losses_before) != len(before):
        raise ValueError("the losses are not those at the checkpoints")
    ids = Ids.from_text(plain["ids"]) if "ids" in plain else None
    offered = operator.index(plain.get("offered", rows))
    if ids is not None and len(ids) != offered:
        raise ValueError(f"it has {len(ids)} ids of {offered} rows")
    return replace(
        empty,
        attributes=None if names is None else tuple(names),
        counts=counts,
        before=before,
        rows=rows,
        losses=sums(plain.get("losses", [()] * len(keys))) or {},
        losses_before=losses_before,
        offered=offered,
        seed=operator.index(plain.get("seed", 0)),
        areas=AreaTally.from_dict(plain.get("areas", {}), empty.areas.bounds, len(before)),
        ids=ids,
        repeated=operator.index(plain.get("repeated", 0)),
    )


def _whole(n: Any) -> bool:
    return isinstance(n, int) and not isinstance(n, bool) and n >= 0
