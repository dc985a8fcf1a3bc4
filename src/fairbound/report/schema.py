"""The shape of an audit: ``audit.schema.json`` (JSON Schema, draft 2020-12), read beside ``docs/audit-schema.md``.

An audit is plain data (dict, list, str, int, float, bool, None), so that it can be written as JSON and read anywhere.
Five rules that JSON Schema cannot state are checked here: the ends of an interval are in order, the edges of a
histogram increase, each of its groups has a count for every bin, each series of a trajectory a value for every step,
and each list over percentiles one for every percentile.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Any

from fairbound.base.extras import extra
from fairbound.base.verdicts import AUDIT_SCHEMA

_TYPES = {
    "object": ("an object with text keys", lambda v: isinstance(v, dict) and all(isinstance(k, str) for k in v)),
    "array": ("a list", lambda v: isinstance(v, (list, tuple))),
    "string": ("a text", lambda v: isinstance(v, str)),
    "integer": ("a plain int", lambda v: isinstance(v, int) and not isinstance(v, bool)),
    "number": ("a plain, finite number", lambda v: type(v) is not bool and isinstance(v, (int, float)) and _finite(v)),
    "null": ("null", lambda v: v is None),
}


class SchemaError(ValueError):
    """An audit breaks the schema; ``path`` is the offending field, ``problem`` what is wrong with it."""

    def __init__(self, path: str, problem: str):
        super().__init__(f"{path} {problem} (schema {AUDIT_SCHEMA}, docs/audit-schema.md)")
        self.path, self.problem = path, problem

    def __reduce__(self) -> tuple[type[SchemaError], tuple[str, str]]:
        return type(self), (self.path, self.problem)


def validate(audit: Any) -> None:
    """Check ``audit`` against schema ``fairbound.audit/1``.

    audit: the dict described in ``docs/audit-schema.md``. Keys that the schema does not name are allowed and ignored.

    Raises: SchemaError (a ValueError) naming the first offending field by its path, for example
    ``audit.constraints[0].upper must be a plain, finite number or null, got float nan``; ImportError naming the extra
    where jsonschema is missing.
    """
    validator = _validator()
    for error in validator.iter_errors(audit):
        if error.validator == "required":
            missing = next(key for key in error.validator_value if key not in error.instance)
            raise SchemaError(_text([*error.path, missing]), "is missing")
        raise SchemaError(_text(error.path), _said(error))
    for path, problem in _disagreements(audit):
        raise SchemaError(_text(path), problem)


@cache
def _validator() -> Any:
    with extra("report", "checking an audit needs jsonschema"):
        from jsonschema import Draft202012Validator, FormatChecker, validators
    formats = FormatChecker(formats=())
    formats.checks("date-time", raises=ValueError)(datetime.fromisoformat)
    types = Draft202012Validator.TYPE_CHECKER.redefine_many(
        {name: lambda _, value, is_type=is_type: is_type(value) for name, (_, is_type) in _TYPES.items()}
    )
    schema = json.loads(resources.files("fairbound.report").joinpath("audit.schema.json").read_text(encoding="utf-8"))
    return validators.extend(Draft202012Validator, type_checker=types)(schema, format_checker=formats)


def _text(path: Iterable[str | int]) -> str:
    """``audit.data.rows``, ``audit.groups[0].rates['my rate']``: a name with other signs than letters in brackets."""
    parts = (f".{p}" if isinstance(p, str) and p.isidentifier() else f"[{p!r}]" for p in path)
    return "audit" + "".join(parts)


def _finite(value: float) -> bool:
    return isinstance(value, int) or math.isfinite(value)


def _said(error: Any) -> str:
    """What the schema expects of the field, and what stands there."""
    got = f"got {type(error.instance).__name__} {_shown(error.instance)}"
    match error.validator:
        case "type":
            wanted = error.validator_value
            names = " or ".join(_TYPES[t][0] for t in ([wanted] if isinstance(wanted, str) else wanted))
            problem = f"must be {names}, {got}"
        case "const":
            problem = f"must be {error.validator_value!r}, {got}"
        case "enum":
            problem = f"must be one of {', '.join(map(repr, error.validator_value))}, {got}"
        case _:
            problem = f"does not fit: {error.message.replace(repr(error.instance), _shown(error.instance))}"
    about = error.schema.get("description")
    return f"{problem} ({about})" if about else problem


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


Path = tuple[str | int, ...]


def _disagreements(audit: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    """(path, problem) of every field that contradicts another."""
    for path, record in _intervals(audit):
        lower, upper = record["lower"], record["upper"]
        if lower is not None and upper is not None and lower > upper:
            yield (*path, "lower"), f"is {lower!r}, above the upper bound {upper!r}"
    for i, d in enumerate(audit["distributions"]):
        for j, (before, after) in enumerate(pairwise(d["edges"]), start=1):
            if not after > before:
                yield ("distributions", i, "edges", j), f"must be above the edge before it, got {after!r}"
    for path, values, wanted, of in _lists(audit):
        if len(values) != wanted:
            yield path, f"must hold {wanted} {of}, got {len(values)}"


def _lists(audit: dict[str, Any]) -> Iterator[tuple[Path, list, int, str]]:
    """(path, list, its length, of what) of every list that another one gives the length."""
    for i, d in enumerate(audit["distributions"]):
        for group, counts in d["groups"].items():
            yield ("distributions", i, "groups", group), counts, len(d["edges"]) - 1, "counts"
    for i, one in enumerate(audit.get("percentiles", [])):
        percentiles, of = len(one["percentiles"]), "values, one per percentile"
        yield ("percentiles", i, "disparity"), one["disparity"], percentiles, of
        for name, group in one["groups"].items():
            yield ("percentiles", i, "groups", name, "scores"), group["scores"], percentiles, of
    for i, one in enumerate(audit.get("roc", [])):
        for j, picture in enumerate(one["pictures"]):
            for k, curve in enumerate(picture["curves"]):
                path: Path = ("roc", i, "pictures", j, "curves", k, "y")
                yield path, curve["y"], len(curve["x"]), "values, as x does"
    if t := audit["trajectory"]:
        steps, of = len(t["steps"]), "values, one per step"
        for part in ("seconds", "loss"):
            yield ("trajectory", part), t[part], steps, of
        for part in ("constraints", "multipliers"):
            yield from ((("trajectory", part, name), v, steps, of) for name, v in t[part].items())


def _intervals(audit: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """(path, record) of every record with the ends of an interval."""
    for i, group in enumerate(audit["groups"]):
        for kind in ("rates", "means"):
            yield from ((("groups", i, kind, name), made) for name, made in group.get(kind, {}).items())
    for i, c in enumerate(audit["constraints"]):
        yield ("constraints", i), c
        yield from ((("constraints", i, "contrasts", j), k) for j, k in enumerate(c["contrasts"]))
    for i, model in enumerate(audit["comparison"]):
        yield from ((("comparison", i, "constraints", j), c) for j, c in enumerate(model["constraints"]))
