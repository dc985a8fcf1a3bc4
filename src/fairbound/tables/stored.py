"""What a `TableEncoder` has learnt as JSON text, and back."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from fairbound.base.errors import DataError
from fairbound.tables.cells import MISSING
from fairbound.tables.dates import ORDERS
from fairbound.tables.features import CategoryFeature, Feature
from fairbound.tables.numbers import NumberFeature
from fairbound.tables.options import TableOptions
from fairbound.tables.pairs import Pair, Side

FORMAT, VERSION = "fairbound-table-encoder", 1
"""Name and version of the JSON."""


class Learnt(NamedTuple):
    """All that an encoder needs to turn later tables into features. The fields are its own of these names; inputs: all
    columns of training, in order."""

    options: TableOptions
    inputs: tuple[str, ...]
    named: bool
    dropped: dict[str, str]
    learnt: tuple[Feature, ...] | None
    pairs: tuple[Pair, ...]
    scale: np.ndarray | None

    def to_json(self) -> str:
        """The text that `from_json` reads."""
        state = {
            "format": FORMAT,
            "version": VERSION,
            "options": asdict(self.options),
            "inputs": self.inputs,
            "named": self.named,
            "dropped": self.dropped,
            "learnt": None if self.learnt is None else [asdict(spec) for spec in self.learnt],
            "pairs": [asdict(pair) for pair in self.pairs],
            "scale": None if self.scale is None else self.scale.tolist(),
        }
        return json.dumps(state, indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Learnt:
        """What `to_json` wrote. Raises: DataError for text that is damaged, is something else, or was written by a newer
        version."""
        state = _read(text)
        learnt = scale = None
        pairs: tuple[Pair, ...] = ()
        try:
            inputs = tuple(state["inputs"])
            if state["learnt"] is not None:
                learnt = tuple(_feature(spec) for spec in state["learnt"])
                if not learnt or not {spec.name for spec in learnt} <= set(inputs):
                    raise ValueError("a feature is of no column")
                pairs = tuple(_pair(pair, learnt) for pair in state.get("pairs", ()))  # older folders have none
            else:
                scale = np.array(state["scale"], dtype=np.float64)
                if not (scale > 0).all() or scale.ndim != 1:
                    raise ValueError("a divisor is not positive")
            options = TableOptions(**state["options"])
            return cls(options, inputs, bool(state["named"]), dict(state["dropped"]), learnt, pairs, scale)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(
                f"the encoder's JSON lacks a part or has a wrong one ({error}). Save the model again."
            ) from error


def _read(text: str) -> dict[str, Any]:
    """Raises: DataError for text that is damaged, something else, or of a newer version."""
    try:
        state = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"the encoder's JSON is damaged or cut off ({error}). Save the model again.") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise DataError(f"this JSON is not a table encoder (its 'format' is not {FORMAT!r}).")
    if not isinstance(state.get("version"), int) or state["version"] > VERSION:
        raise DataError(
            f"the encoder has format version {state.get('version')!r}; this library reads up to {VERSION}. Upgrade fairbound."
        )
    return state


def _feature(state: dict[str, Any]) -> Feature:
    """The feature whose fields are ``state``, as ``dataclasses.asdict`` wrote them.

    Raises: KeyError, TypeError or ValueError where a field is missing or wrong.
    """
    if not isinstance(state["name"], str):
        raise ValueError(f"the name of a column is {state['name']!r}")
    if not 0 <= state.get("gaps", 0.0) <= 1:
        raise ValueError(f"the share of missing values of column {state['name']!r} is {state['gaps']!r}")
    if state["kind"] == "category":
        if not all(isinstance(value, str) for value in state["values"]) or isinstance(state["values"], str):
            raise ValueError(f"the values of column {state['name']!r} are no texts")
        if not all(isinstance(mark, bool) for mark in (state["other"], state["missing"], state.get("full", False))):
            raise ValueError(f"column {state['name']!r} has marks that are neither true nor false")
        if not 0 <= state.get("rare", 0.0) <= 1:  # folders written before there was one have none
            raise ValueError(f"the share of rare values of column {state['name']!r} is {state['rare']!r}")
        return CategoryFeature(**{**state, "values": tuple(state["values"])})
    if state["kind"] not in ("number", "days"):
        raise ValueError(f"unknown kind {state['kind']!r}")
    sd = state["sd"]
    # folders written before there were any have none
    knots, jumps = (tuple(state.get(key, ())) for key in ("knots", "jumps"))
    ends = [state[key] for key in ("low", "high") if state.get(key) is not None]
    for value in (state["mean"], state["median"], *(() if sd is None else (sd,)), *knots, *jumps, *ends):
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"column {state['name']!r} has {value!r} where a number belongs")
    if state.get("order", "") not in ("", *ORDERS):
        raise ValueError(f"the dates of column {state['name']!r} are written {state['order']!r}")
    if (sd is not None and not sd > 0) or not isinstance(state["indicator"], bool):
        raise ValueError(f"column {state['name']!r} has an impossible spread or mark")
    for what, values in (("knots", knots), ("jumps", jumps)):
        if list(values) != sorted(set(values)) or (values and sd is None):
            raise ValueError(f"the {what} of column {state['name']!r} do not ascend")
    return NumberFeature(**{**state, "knots": knots, "jumps": jumps})


def _pair(state: dict[str, Any], learnt: tuple[Feature, ...]) -> Pair:
    """Raises: ValueError for sides that are of no column, or of one column."""
    of = {spec.name: spec for spec in learnt}
    pair = Pair(Side(**state["first"]), Side(**state["second"]))
    for side in pair.sides:
        spec = of.get(side.name)
        if isinstance(spec, CategoryFeature):
            fits = side.beyond is None and side.value in spec.texts
        elif side.value is not None:
            fits = spec is not None and spec.indicator and side.value == MISSING and side.beyond is None
        else:
            known = isinstance(side.beyond, float) and math.isfinite(side.beyond)
            fits = spec is not None and spec.sd is not None and known
        if not fits:
            raise ValueError(f"a pair is of {side}, which no column has")
    if pair.first.name == pair.second.name:
        raise ValueError(f"a pair is of column {pair.first.name!r} alone")
    return pair
