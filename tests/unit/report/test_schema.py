"""Claims about the audit schema: each missing, ill-typed or inconsistent field is named by its path."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import re
import sys
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

import fairbound as fb
import report_examples as examples
from fairbound.base import verdicts
from fairbound.report import schema
from fairbound.report.schema import SchemaError, validate

jsonschema = pytest.importorskip("jsonschema", reason="checking an audit needs the extra 'report'")


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
            yield from records(v, f"{path}.{k}")
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
        (put(["constraints", 0, "sense"], "about"), "audit.constraints[0].sense", "'at most', 'at least'"),
        (
            put(["comparison", 1, "constraints", 0, "lower"], 1.0),
            "audit.comparison[1].constraints[0].lower",
            "above the upper",
        ),
        (put(["verdict"], "met"), "audit.verdict", "worst verdict"),
        (put(["verdict"], "passed"), "audit.verdict", "must be one of"),
        (put(["exit_code"], 0), "audit.exit_code", "must be 3"),
        (put(["constraints"], []), "audit.verdict", "no bound was stated"),
        (put(["constraints"], {}), "audit.constraints", "must be a list"),
        (put(["constraints", 0, "bound"], None), "audit.constraints[0].bound", "must be a plain, finite number, got"),
        (put(["constraints", 1, "value"], None), "audit.constraints[1].why", "why the value is null"),
        (put(["constraints", 0, "lower"], 0.9), "audit.constraints[0].lower", "above the upper bound"),
        (
            put(["constraints", 0, "confidence"], 95),
            "audit.constraints[0].confidence",
            "95 is greater than or equal to the maximum of 1",
        ),
        (put(["constraints", 0, "rows_needed"], 10.5), "audit.constraints[0].rows_needed", "plain int"),
        (put(["constraints", 0, "groups", "white"], -1), "audit.constraints[0].groups.white", "minimum of 0"),
        (put(["data", "rows"], np.int64(3)), "audit.data.rows", "plain int"),
        (
            put(["groups", 0, "rates", "accuracy", "value"], 1.2),
            "audit.groups[0].rates.accuracy.value",
            "1.2 is greater than the maximum of 1",
        ),
        (put(["groups", 0, "n"], True), "audit.groups[0].n", "plain int"),
        (put(["library", 3], "x"), "audit.library", "text keys"),
        (put(["distributions", 0, "edges"], [0.0]), "audit.distributions[0].edges", "two edges"),
        (put(["distributions", 0, "edges", 1], -99.0), "audit.distributions[0].edges[1]", "above the edge before"),
        (put(["distributions", 0, "groups", "black"], [1]), "audit.distributions[0].groups.black", "32 counts"),
        (put(["trajectory", "loss"], [0.1]), "audit.trajectory.loss", "one per step"),
        (put(["trajectory", "multipliers", "a b"], []), "audit.trajectory.multipliers['a b']", "one per step"),
        (put(["trajectory", "multipliers", "x"], []), "audit.trajectory.multipliers.x", "one per step"),
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


def schema_file() -> dict:
    return json.loads(resources.files("fairbound.report").joinpath("audit.schema.json").read_text(encoding="utf-8"))


def test_the_published_file_is_a_schema_of_draft_2020_12_that_any_reader_can_use():
    schema = schema_file()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["properties"]["schema"]["const"] == verdicts.AUDIT_SCHEMA
    assert set(schema["$defs"]["constraint"]["properties"]["verdict"]["enum"]) == set(verdicts.EXIT_CODES)
    reader = jsonschema.Draft202012Validator(schema)
    for example in examples.ALL:
        reader.validate(example())
    for path in (["verdict"], ["exit_code"], ["constraints", 0, "text"], ["groups", 0, "n"]):
        audit = examples.mortgage()
        put(path, "met" if path == ["verdict"] else 1)(audit)
        assert [list(error.path) for error in reader.iter_errors(audit)] == [path] * (path != ["groups", 0, "n"])


@pytest.mark.parametrize("found", list(itertools.product(verdicts.EXIT_CODES, repeat=2)))
def test_the_verdict_of_an_audit_is_the_worst_and_no_other_is_allowed(found):
    audit = examples.mortgage()
    for c, verdict in zip(audit["constraints"], found, strict=True):
        c["verdict"] = verdict
    allowed = []
    for verdict, code in itertools.product((*verdicts.EXIT_CODES, None), range(4)):
        with contextlib.suppress(SchemaError):
            validate(audit | {"verdict": verdict, "exit_code": code})
            allowed.append((verdict, code))
    worst = verdicts.worst_verdict(found)
    assert allowed == [(worst, verdicts.EXIT_CODES[worst])]


def test_without_jsonschema_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    schema._validator.cache_clear()
    with pytest.raises(ImportError, match=r"pip install 'fairbound\[report\]'"):
        validate(examples.mortgage())


PAGE = (Path(__file__).resolve().parents[3] / "docs" / "audit-schema.md").read_text(encoding="utf-8")


def test_documented_example_is_valid():
    (block,) = re.findall(r"```json\n(.*?)```", PAGE, flags=re.S)
    audit = json.loads(block)
    validate(audit)
    keys = {key for _, record in records(audit) for key in record}
    assert keys >= {key for _, record in records(examples.mortgage()) for key in record}


def test_documented_example_is_what_an_audit_writes():
    (block,) = re.findall(r"```json\n(.*?)```", PAGE, flags=re.S)
    written = json.loads(block)
    rng = np.random.default_rng(0)
    y, decided, race = rng.integers(0, 2, 400), rng.random(400), rng.choice(["black", "hispanic", "white"], 400)
    race = {"race": race}
    made = fb.audit(decided, y, race, "demographic_parity <= 0.03", compare={"unconstrained": rng.random(400)})
    for part in ("data", "metrics"):
        assert set(written[part]) == set(made[part])
    for part in ("groups", "constraints", "comparison", "distributions"):
        assert {frozenset(one) for one in written[part]} == {frozenset(one) for one in made[part]}
    (shown,), (found,) = written["constraints"], made["constraints"]
    assert shown["method"] == found["method"]
    assert {c["name"] for c in shown["contrasts"]} == {c["name"] for c in found["contrasts"]}
    assert shown["worst"] == shown["contrasts"][0]["name"] and shown["value"] == shown["contrasts"][0]["value"]
    assert [frozenset(c) for c in shown["contrasts"]] == [frozenset(c) for c in found["contrasts"]]


TYPES = {"int": "integer", "list of strings": "array", "list": "array"}


@pytest.mark.parametrize(
    ("section", "place"),
    [
        ("Top level", []),
        ("`data`", ["properties", "data"]),
        ("`model`", ["properties", "model"]),
        ("`groups`", ["$defs", "group"]),
        ("`constraints`", ["$defs", "constraint"]),
    ],
)
def test_documented_fields_and_types_are_those_of_the_schema(section, place):
    record = schema_file()
    for key in place:
        record = record[key]
    text = PAGE.split(f"## {section}\n")[1].split("\n## ")[0]
    documented = {}
    for fields, kind, _ in re.findall(r"^\| (.*?) \| (.*?) \| (.*) \|$", text, flags=re.M)[1:]:
        types = {TYPES.get(k, k.split()[0]) for k in kind.split(" or ")}
        documented |= {name: types for name in re.findall(r"`(\w+)`", fields)}
    assert set(documented) == set(record["properties"])
    for name, field in record["properties"].items():
        if "type" in field:
            assert documented[name] == set(np.atleast_1d(field["type"])), name


@pytest.mark.parametrize(
    "place", ["rate", "contrast", "compared", "series", "comparison", "distributions", "trajectory"]
)
def test_every_other_field_is_explained(place):
    schema = schema_file()
    record = schema["$defs"].get(place) or schema["properties"][place]
    assert all(f"`{name}`" in PAGE for name in record.get("items", record).get("properties", {}))
