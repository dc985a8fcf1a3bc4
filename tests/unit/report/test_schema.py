"""Claims about the audit schema: each missing, ill-typed or inconsistent field is named by its path."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

import report_examples as examples
from fairbound.report.schema import SchemaError, validate


def records(value, path="audit"):
    """Every dict of the audit that is a record, not a map from names, with its path."""
    maps = {
        "library",
        "metrics",
        "missing_group_rows",
        "rates",
        "groups",
        "bounds",
        "multipliers",
    }
    if isinstance(value, dict):
        key = path.rsplit(".", 1)[-1]
        if key not in maps and path != "audit.trajectory.constraints":
            yield path, value
        for k, v in value.items():
            yield from records(v, f"{path}[{k!r}]" if key in maps else f"{path}.{k}")
    elif isinstance(value, list):
        for i, v in enumerate(value):
            yield from records(v, f"{path}[{i}]")


def floats(value, path="audit"):
    """(container, key) of every float in the audit."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for k, v in list(items):
        if isinstance(v, float):
            yield value, k
        yield from floats(v)


def test_every_missing_field_is_named_by_its_path():
    audit = examples.mortgage()
    seen = 0
    for path, record in list(records(audit)):
        for key in list(record):
            if key == "threshold":
                continue
            value = record.pop(key)
            with pytest.raises(SchemaError, match="is missing") as caught:
                validate(audit)
            record[key] = value
            assert caught.value.path == f"{path}.{key}"
            seen += 1
    assert seen > 150
    validate(audit)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, "0.5", True, np.float32(0.5)])
def test_every_number_must_be_a_finite_plain_number(bad):
    audit = examples.mortgage()
    audit["trajectory"] = examples.trajectory(["demographic_parity"], [0.03], points=4)
    audit["distributions"][0]["edges"] = [0.0, 1.0]
    audit["distributions"][0]["groups"] = {"white": [1]}
    places = list(floats(audit))
    assert len(places) > 80
    for container, key in places:
        value, container[key] = container[key], bad
        with pytest.raises(SchemaError):
            validate(audit)
        container[key] = value
    validate(audit)


def put(path: list, value):
    def change(audit: dict) -> None:
        for key in path[:-1]:
            audit = audit[key]
        audit[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "path", "said"),
    [
        (put(["schema"], "fairbound.audit/2"), "audit.schema", "fairbound.audit/1"),
        (put(["created"], "yesterday"), "audit.created", "ISO 8601"),
        (put(["verdict"], "met"), "audit.verdict", "worst verdict"),
        (put(["verdict"], "passed"), "audit.verdict", "must be one of"),
        (put(["exit_code"], 0), "audit.exit_code", "must be 3"),
        (put(["constraints"], []), "audit.verdict", "no bound was stated"),
        (put(["constraints"], {}), "audit.constraints", "must be a list"),
        (put(["constraints", 0, "bound"], None), "audit.constraints[0].bound", "plain number"),
        (put(["constraints", 1, "value"], None), "audit.constraints[1].why", "why the value is null"),
        (put(["constraints", 0, "lower"], 0.9), "audit.constraints[0].lower", "above the upper bound"),
        (put(["constraints", 0, "confidence"], 95), "audit.constraints[0].confidence", "[0.5, 1]"),
        (put(["constraints", 0, "rows_needed"], 10.5), "audit.constraints[0].rows_needed", "plain int"),
        (put(["constraints", 0, "groups", "white"], -1), "audit.constraints[0].groups['white']", "at least 0"),
        (put(["data", "rows"], np.int64(3)), "audit.data.rows", "plain int"),
        (put(["groups", 0, "rates", "accuracy", "value"], 1.2), "audit.groups[0].rates['accuracy'].value", "[0, 1]"),
        (put(["groups", 0, "n"], True), "audit.groups[0].n", "plain int"),
        (put(["library", 3], "x"), "audit.library", "string keys"),
        (put(["distributions", 0, "edges"], [0.0]), "audit.distributions[0].edges", "two edges"),
        (put(["distributions", 0, "edges", 1], -99.0), "audit.distributions[0].edges[1]", "above the edge before"),
        (put(["distributions", 0, "groups", "black"], [1]), "audit.distributions[0].groups['black']", "32 counts"),
        (put(["trajectory", "loss"], [0.1]), "audit.trajectory.loss", "one per step"),
        (put(["trajectory", "multipliers", "x"], []), "audit.trajectory.multipliers['x']", "one per step"),
        (put(["warnings"], "careful"), "audit.warnings", "must be a list"),
        (put(["model"], "linear"), "audit.model", "must be an object"),
    ],
)
def test_a_broken_field_is_named_with_what_is_wrong(change, path, said):
    audit = examples.mortgage()
    change(audit)
    with pytest.raises(SchemaError, match=re.escape(said)) as caught:
        validate(audit)
    assert caught.value.path == path
    assert str(caught.value).startswith(path)


@pytest.mark.parametrize("audit", [None, [], "audit", 3])
def test_something_that_is_no_audit_is_refused(audit):
    with pytest.raises(SchemaError, match="audit must be an object"):
        validate(audit)


def test_keys_of_later_versions_are_ignored():
    audit = examples.mortgage() | {"extra": math.nan}
    audit["data"]["owner"] = "me"
    validate(audit)


def test_documented_example_and_keys_match_the_schema():
    page = Path(__file__).resolve().parents[3] / "docs" / "audit-schema.md"
    text = page.read_text(encoding="utf-8")
    (block,) = re.findall(r"```json\n(.*?)```", text, flags=re.S)
    audit = json.loads(block)
    validate(audit)
    keys = {key for _, record in records(audit) for key in record}
    assert keys == {key for _, record in records(examples.mortgage()) for key in record}
    assert not [key for key in keys if f"`{key}`" not in text]
