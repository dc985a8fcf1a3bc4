"""`fairbound datasets`: the named data sets, what is known about each, and downloading them from their publishers."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from typing import Any

from fairbound import data
from fairbound.base.errors import OptionError
from fairbound.cli.files.outcome import Outcome
from fairbound.cli.options.data import FetchOptions, InfoOptions, ListOptions
from fairbound.data.files import ENVIRONMENT
from fairbound.report.terminal import grid


def list_datasets(options: ListOptions) -> Outcome:
    """One line per data set."""
    entries = [data.info(name) for name in data.names()]
    rows = [(e.name, "" if e.rows is None else f"{e.rows:,}", ", ".join(e.groups), e.title) for e in entries]
    heads = ("name", "rows", "groups (the first by default)", "title")
    text = grid("", heads, rows, left=heads[2:])
    return Outcome({"datasets": [_facts(e.name) for e in entries]}, text)


def describe_dataset(options: InfoOptions) -> Outcome:
    """All that is known about one data set without reading it."""
    facts = _facts(options.name)
    shown = {
        "title": facts["title"],
        "rows": facts["rows"],
        "positives": facts["positives"],
        "positive when": facts["label"],
        "groups": ", ".join(facts["groups"]),
        "options": ", ".join(f"{k}={v!r}" for k, v in facts["options"].items()),
        "licence": facts["licence"],
        "citation": facts["citation"],
        "note": facts["note"],
        "files": "\n".join(
            f"{f['path']}  sha256:{f['sha256']}  {f['url'] or 'no publisher offers it in this form'}"
            for f in facts["files"]
        ),
    }
    pad = "\n" + " " * 15
    lines = [
        f"{key:<13}  {str(value).replace(chr(10), pad)}" for key, value in shown.items() if value not in (None, "")
    ]
    return Outcome(facts, "\n".join([options.name, *lines]))


def fetch_dataset(options: FetchOptions) -> Outcome:
    """Download the files of a data set into the data folder."""
    name = options.name
    given = options.data_dir or os.environ.get(ENVIRONMENT)
    entry = data.info(name)
    if not given and (entry.files or name == "acs-income"):
        raise OptionError(f"say where to put the files: --data-dir DIR, or set {ENVIRONMENT}.")
    chosen: dict[str, Any] = {}
    if options.state is not None:
        chosen["state"] = [s.strip() for s in options.state.split(",")]
    if options.year is not None:
        chosen["year"] = options.year
    paths = data.fetch(name, given or ".", progress=sys.stderr.isatty(), **chosen)
    text = "\n".join(map(str, paths)) or f"{name} is part of the package; nothing to download."
    return Outcome({"name": name, "files": [str(p) for p in paths]}, text)


def _facts(name: str) -> dict[str, Any]:
    facts = asdict(data.info(name))
    for inner in ("loader", "label_options"):
        del facts[inner]
    return {**facts, "options": data.options(name)}
