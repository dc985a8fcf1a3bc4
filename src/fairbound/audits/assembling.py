"""What was found of bounds, rows and model, put together as the plain data of an audit."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairbound.base.names import count_of
from fairbound.base.records import versions
from fairbound.base.verdicts import AUDIT_SCHEMA, EXIT_CODES, FEW_ROWS, in_clusters, worst_verdict
from fairbound.fairness.bound import remarks_on
from fairbound.fairness.few_rows import USUAL_FEWEST, fewest_advised
from fairbound.fairness.notions import Bound
from fairbound.rows.doubtful import doubtful_groups, unknown_groups
from fairbound.rows.groups import Groups


def assembled(
    facts: dict[str, Any],
    title: str | None,
    bounds: Sequence[Bound],
    *,
    model: Mapping[str, Any] | None = None,
    trajectory: Mapping[str, Any] | None = None,
    warnings: Sequence[str] = (),
    notes: Sequence[str],
) -> dict[str, Any]:
    """The audit made of what was found: its verdict, exit code, time, library versions and what the caller adds.
    bounds: those judged."""
    verdict = worst_verdict(c["verdict"] for c in facts["constraints"])
    remarks = remarks_on(bounds, facts["data"]["sensitive"])
    if title is None:
        title = "Fairness audit" if facts["data"]["sensitive"] else "Audit of a classifier"
    names = {a: [g["group"] for g in facts["groups"] if g["attribute"] == a] for a in facts["data"]["sensitive"]}
    said = [
        *facts["warnings"],
        *unknown_groups(facts["data"]["missing_group_rows"], facts["data"]["rows"], bool(facts["data"].get("queries"))),
        *doubtful_groups(names),
        *_decided_by_few(facts["constraints"], bounds),
    ]
    return {
        "schema": AUDIT_SCHEMA,
        "title": title,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "verdict": verdict,
        "exit_code": EXIT_CODES.get(verdict or "met", 0),
        "library": versions(),
        "model": None if model is None else _model(model),
        "trajectory": None if trajectory is None else dict(trajectory),
        **facts,
        "warnings": list(dict.fromkeys([*warnings, *said, *remarks])),
        "notes": list(dict.fromkeys([*notes, *facts.get("notes", ())])),
    }


def _decided_by_few(constraints: Sequence[Mapping[str, Any]], bounds: Sequence[Bound]) -> list[str]:
    """A warning for every bound that is not met, and whose value, if there is a difference at all,
    is that of groups of very few rows."""
    out = []
    for c, bound in zip(constraints, bounds, strict=True):
        clusters = c.get("group_clusters", {})
        few = {name: n for name, n in c.get("worst_groups", {}).items() if 0 < min(n, clusters.get(name, n)) < FEW_ROWS}
        if few and c["verdict"] != "met" and c["value"]:
            rows = ", ".join(
                f"{count_of(n, 'held-out row')}{in_clusters(clusters.get(name))} "
                f"{'measures' if n == 1 else 'measure'} {name}"
                for name, n in few.items()
            )
            advised = fewest_advised(bound, np.array(list(c["groups"].values()))) or USUAL_FEWEST
            leave = "State a larger fewest" if "fewest=" in c["text"] else f"State fewest={advised} in the bound"
            out.append(
                f"{c['text']}: its value is that of {c['worst']}, and only {rows}. {leave} to leave out groups of fewer "
                "rows, merge small groups with others, or mark their values missing: then their rows are in no group."
            )
    return out


def facts_of_data(groups: Groups, facts: Mapping[str, Any], each: np.ndarray | None = None) -> dict[str, Any]:
    """What a report says of the data. each: (n,) how many rows each one of the groups stands for, None for one."""
    base = {
        "name": "rows given",
        "train_rows": None,
        "checksum": None,
        "label": "y",
        "positive": "1",
        "split": "the rows given, taken as held out",
    }
    return {
        **base,
        **facts,
        "rows": len(groups) if each is None else int(each.sum()),
        "sensitive": list(groups.attributes),
        "missing_group_rows": groups.unknown(each),
    }


def _model(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "kind": "scores",
        "description": "",
        "algorithm": None,
        "seed": None,
        "budget": None,
        "seconds": None,
        "steps": None,
        **facts,
    }
