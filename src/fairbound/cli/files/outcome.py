"""What a command hands back to the command line, and small words shared by the commands."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairbound.base.verdicts import LEFT_OUT, in_clusters
from fairbound.report import table, write_audit
from fairbound.report.words import unit


@dataclass(frozen=True)
class Outcome:
    """summary: the JSON object of `--json`. text: for people. exit_code: 0 done or met, 1 violated (of a study: a run
    failed), 3 insufficient, 130 interrupted."""

    summary: dict[str, Any]
    text: str
    exit_code: int = 0


LOG = logging.getLogger("fairbound.cli")
PROGRESS = logging.getLogger("fairbound.progress")


def say(text: str) -> None:
    """Progress for people: logged at INFO, which the command line shows on standard error unless --quiet is given."""
    LOG.info(text)


def shows_progress() -> bool:
    """Whether progress is to be drawn: standard error is a terminal or --progress is given,
    and nobody asked for quiet."""
    return PROGRESS.isEnabledFor(logging.INFO)


def verdict_summary(audit: dict[str, Any], *, seconds: float | None, seed: int | None, out: Path) -> dict[str, Any]:
    """The JSON object of an audit: verdict, metrics and constraints on the held-out rows."""
    keys = (
        "name", "text", "sense", "bound", "value", "lower", "upper", "verdict", "rows_needed", "power", "groups",
        "group_clusters", "why",
        *LEFT_OUT,
    )  # fmt: skip
    return {
        "verdict": audit["verdict"],
        "metrics": audit["metrics"],
        "constraints": [{key: c[key] for key in keys if key in c} for c in audit["constraints"]],
        "rows": audit["data"]["rows"],
        **({"clusters": audit["data"]["clusters"]["count"]} if "clusters" in audit["data"] else {}),
        "warnings": audit["warnings"],
        "seconds": seconds,
        "seed": seed,
        "out": str(out),
        **({"certificate": audit["certificate"]} if "certificate" in audit else {}),
    }


def verdict_text(audit: dict[str, Any]) -> str:
    """The audit as a table, and of each undecided bound the group with the fewest rows, which widens its interval."""
    lines = [table(audit)]
    for c in audit["constraints"]:
        if c["verdict"] == "insufficient" and len(c["groups"]) > 1 and not c["why"]:
            clusters = c.get("group_clusters", {})
            group, n = min(c["groups"].items(), key=lambda item: (clusters.get(item[0], item[1]), item[1]))
            few = clusters.get(group)
            group = re.sub(
                r", predicted .*?(?= \| y=|$)", "", group
            )  # its rows are all of the group, whatever is predicted
            rows = unit(audit).replace("rows", c.get("unit", "rows"))
            rows = rows[:-1] if n == 1 and "unit" not in c else rows
            lines.append(f"{c['text']}: its smallest group is {group}, with {n:,} {rows}{in_clusters(few)}.")
    return "\n".join(lines)


def written_audit(
    found: dict[str, Any],
    out: Path,
    seconds: float | None = None,
    seed: int | None = None,
    files: Mapping[str, bytes] | None = None,
    removed: Sequence[str] = (),
) -> Outcome:
    """Write an audit to its folder, together with `files` by name; what the command says of it. removed: files that go."""
    write_audit(found, out, files, removed)
    for place in {(out / name).parent for name in removed} - {out}:
        with contextlib.suppress(OSError):  # something of the user's is in it
            place.rmdir()
    places = {Path(name).stem: name for name in files or ()}
    return audit_outcome(found, out, seconds, seed, [], places)


def audit_outcome(
    found: dict[str, Any],
    out: Path,
    seconds: float | None,
    seed: int | None,
    lines: Sequence[str],
    places: Mapping[str, str],
) -> Outcome:
    """What a command says of an audit that it wrote. places: further files in its folder, by what they are."""
    places = {"report": "report.html", "report as data": "audit.json", **places}
    width = max(map(len, places))
    written = [f"{what:<{width}}  {out / name}" for what, name in places.items()]
    summary = verdict_summary(found, seconds=seconds, seed=seed, out=out)
    return Outcome(summary, "\n".join([verdict_text(found), *lines, "", *written]), found["exit_code"])


def json_file(found: dict[str, Any]) -> bytes:
    """What a command found, as the content of a file."""
    return (json.dumps(found, ensure_ascii=False, allow_nan=False, indent=2) + "\n").encode()


def csv_file(*heads: str, lines: Iterable[Sequence[Any]]) -> bytes:
    """A table as the content of a CSV file."""
    made = io.StringIO()
    csv.writer(made, lineterminator="\n").writerows([heads, *lines])
    return made.getvalue().encode()
