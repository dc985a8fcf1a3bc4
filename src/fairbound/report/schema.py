"""The shape of an audit, version ``fairbound.audit/1``: one table of checks, read beside ``docs/audit-schema.md``.

An audit is plain data (dict, list, str, int, float, bool, None), so that it can be written as JSON and read anywhere.
``validate`` names the first offending field by its path, for example ``audit.constraints[0].upper``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from typing import Any

SCHEMA = "fairbound.audit/1"
EXIT_CODES = {"met": 0, "violated": 1, "insufficient": 3}

Check = Callable[[Any, str], None]


class SchemaError(ValueError):
    """An audit breaks the schema; ``path`` is the offending field."""

    def __init__(self, path: str, problem: str):
        super().__init__(f"{path} {problem} (schema {SCHEMA}, docs/audit-schema.md)")
        self.path = path


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _text(value: Any, path: str) -> None:
    if not isinstance(value, str):
        raise SchemaError(path, f"must be a string, got {type(value).__name__} {_shown(value)}")


def _iso(value: Any, path: str) -> None:
    _text(value, path)
    try:
        datetime.fromisoformat(value)
    except ValueError:
        raise SchemaError(path, f"must be an ISO 8601 date and time, got {_shown(value)}") from None


def _number(low: float = -math.inf, high: float = math.inf) -> Check:
    def check(value: Any, path: str) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise SchemaError(path, f"must be a plain number, got {type(value).__name__} {_shown(value)}")
        if not math.isfinite(value):
            raise SchemaError(path, f"is {value}: write null, and say why in 'why' where the record has one")
        if not low <= value <= high:
            raise SchemaError(path, f"must lie in [{low:g}, {high:g}], got {value!r}")

    return check


def _integer(low: int = 0) -> Check:
    def check(value: Any, path: str) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise SchemaError(path, f"must be a plain int, got {type(value).__name__} {_shown(value)}")
        if value < low:
            raise SchemaError(path, f"must be at least {low}, got {value}")

    return check


def _one_of(*words: Any) -> Check:
    def check(value: Any, path: str) -> None:
        if value not in words:
            raise SchemaError(path, f"must be one of {', '.join(map(repr, words))}, got {_shown(value)}")

    return check


def _or_null(inner: Check) -> Check:
    def check(value: Any, path: str) -> None:
        if value is not None:
            inner(value, path)

    return check


def _list(inner: Check) -> Check:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, (list, tuple)):
            raise SchemaError(path, f"must be a list, got {type(value).__name__}")
        for i, item in enumerate(value):
            inner(item, f"{path}[{i}]")

    return check


def _map(inner: Check) -> Check:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise SchemaError(path, f"must be an object, got {type(value).__name__}")
        for key, item in value.items():
            if not isinstance(key, str):
                raise SchemaError(path, f"must have string keys, got {type(key).__name__} {_shown(key)}")
            inner(item, f"{path}[{key!r}]")

    return check


def _record(optional: dict[str, Check] | None = None, **required: Check) -> Check:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise SchemaError(path, f"must be an object, got {type(value).__name__}")
        for key, inner in required.items():
            if key not in value:
                raise SchemaError(f"{path}.{key}", "is missing")
            inner(value[key], f"{path}.{key}")
        for key, inner in (optional or {}).items():
            if key in value:
                inner(value[key], f"{path}.{key}")

    return check


def _both(*checks: Check) -> Check:
    def check(value: Any, path: str) -> None:
        for each in checks:
            each(value, path)

    return check


def _ordered(value: dict, path: str) -> None:
    lower, upper = value["lower"], value["upper"]
    if lower is not None and upper is not None and lower > upper:
        raise SchemaError(f"{path}.lower", f"is {lower!r}, above the upper bound {upper!r}")


def _explained(value: dict, path: str) -> None:
    if value["value"] is None and not value["why"]:
        raise SchemaError(f"{path}.why", "must say why the value is null, for example 'no positives'")


def _histogram(value: dict, path: str) -> None:
    edges = value["edges"]
    if len(edges) < 2:
        raise SchemaError(f"{path}.edges", f"must hold at least two edges, got {len(edges)}")
    for i in range(1, len(edges)):
        if not edges[i] > edges[i - 1]:
            raise SchemaError(f"{path}.edges[{i}]", f"must be above the edge before it, got {edges[i]!r}")
    for group, counts in value["groups"].items():
        if len(counts) != len(edges) - 1:
            raise SchemaError(f"{path}.groups[{group!r}]", f"must hold {len(edges) - 1} counts, got {len(counts)}")


def _same_length(value: dict, path: str) -> None:
    n = len(value["steps"])
    series = {"seconds": value["seconds"], "loss": value["loss"]}
    series |= {f"constraints[{k!r}]": v for k, v in value["constraints"].items()}
    series |= {f"multipliers[{k!r}]": v for k, v in value["multipliers"].items()}
    for name, points in series.items():
        if len(points) != n:
            raise SchemaError(f"{path}.{name}", f"must hold {n} values, one per step, got {len(points)}")


def _verdict_follows(audit: dict, path: str) -> None:
    found = {c["verdict"] for c in audit["constraints"]}
    expected = next((word for word in ("violated", "insufficient", "met") if word in found), None)
    if audit["verdict"] != expected:
        reason = "no bound was stated" if expected is None else "it is the worst verdict of the constraints"
        raise SchemaError(f"{path}.verdict", f"must be {expected!r}: {reason}; got {_shown(audit['verdict'])}")
    code = 0 if expected is None else EXIT_CODES[expected]
    if audit["exit_code"] != code:
        raise SchemaError(f"{path}.exit_code", f"must be {code} for verdict {expected!r}, got {audit['exit_code']!r}")


_real = _number()
_unit = _number(0, 1)
_verdict = _one_of(*EXIT_CODES)
_series = _list(_or_null(_real))

_rate = _both(
    _record(value=_or_null(_unit), lower=_or_null(_unit), upper=_or_null(_unit), count=_integer(), why=_or_null(_text)),
    _ordered,
    _explained,
)
_group = _record(
    attribute=_text,
    group=_text,
    n=_integer(),
    positives=_or_null(_integer()),
    rates=_map(_rate),
    mean_loss=_or_null(_real),
)
_contrast = _both(_record(name=_text, value=_or_null(_real), lower=_or_null(_real), upper=_or_null(_real)), _ordered)
_sense = {"sense": _one_of("at most", "at least")}
_constraint = _both(
    _record(
        _sense,
        name=_text,
        text=_text,
        bound=_real,
        value=_or_null(_real),
        lower=_or_null(_real),
        upper=_or_null(_real),
        confidence=_number(0.5, 1),
        verdict=_verdict,
        rows_needed=_or_null(_integer(1)),
        worst=_or_null(_text),
        method=_text,
        groups=_map(_integer()),
        contrasts=_list(_contrast),
        why=_or_null(_text),
    ),
    _ordered,
    _explained,
)
_compared = _both(
    _record(
        _sense,
        text=_text,
        bound=_real,
        value=_or_null(_real),
        lower=_or_null(_real),
        upper=_or_null(_real),
        verdict=_verdict,
    ),
    _ordered,
)
_audit = _both(
    _record(
        schema=_one_of(SCHEMA),
        title=_text,
        created=_iso,
        verdict=_or_null(_verdict),
        exit_code=_integer(),
        library=_map(_text),
        data=_record(
            {"classes": _list(_text)},
            name=_text,
            rows=_integer(),
            train_rows=_or_null(_integer()),
            checksum=_or_null(_text),
            label=_text,
            positive=_or_null(_text),
            sensitive=_list(_text),
            split=_text,
            missing_group_rows=_map(_integer()),
        ),
        model=_or_null(
            _record(
                kind=_text,
                description=_text,
                algorithm=_or_null(_text),
                seed=_or_null(_integer()),
                budget=_or_null(_text),
                seconds=_or_null(_number(0)),
                steps=_or_null(_integer()),
            )
        ),
        metrics=_map(_or_null(_real)),
        groups=_list(_group),
        constraints=_list(_constraint),
        comparison=_list(
            _record(name=_text, accuracy=_or_null(_real), auc=_or_null(_real), constraints=_list(_compared))
        ),
        distributions=_list(
            _both(
                _record(
                    {"threshold": _or_null(_real)},
                    attribute=_text,
                    edges=_list(_real),
                    groups=_map(_list(_integer())),
                ),
                _histogram,
            )
        ),
        trajectory=_or_null(
            _both(
                _record(
                    steps=_list(_integer()),
                    seconds=_series,
                    loss=_series,
                    constraints=_map(_series),
                    bounds=_map(_real),
                    multipliers=_map(_series),
                    split=_text,
                ),
                _same_length,
            )
        ),
        warnings=_list(_text),
        notes=_list(_text),
    ),
    _verdict_follows,
)


def validate(audit: Any) -> None:
    """Check ``audit`` against schema ``fairbound.audit/1``.

    audit: the dict described in ``docs/audit-schema.md``. Keys that the schema does not name are allowed and ignored.

    Raises: SchemaError (a ValueError) naming the first offending field by its path, for example
    ``audit.constraints[0].upper is nan: write null ...``.
    """
    _audit(audit, "audit")
