"""`fairbound interval`: which percentile interval of the scores in a file to bound, and a picture that shows why."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from fairbound.base.errors import OptionError
from fairbound.base.files import atomic_write_many, check_writable
from fairbound.cli.outcome import Outcome
from fairbound.cli.rows import listed, number_column, one_column
from fairbound.fairness.suggesting import suggest_interval
from fairbound.report import interval_files
from fairbound.report.terminal import grid
from fairbound.tables import read_table

SHOWN = 8


@dataclass(frozen=True, kw_only=True)
class IntervalOptions:
    """The options of `fairbound interval`; see `fairbound interval --help`."""

    data: str
    score: str
    group: str
    positive_rate: float | None = None
    threshold: float | None = None
    out: Path | None = None


def run_interval(options: IntervalOptions) -> Outcome:
    """Suggest an interval for all rows of the file; write interval.json, interval.png and interval.svg where a folder is given."""
    if options.out is not None:
        check_writable(options.out)
    frame = read_table(options.data)
    columns = list(frame.columns)
    column = one_column(options.score, columns, "--score")
    attributes = listed(options.group, columns, "--group")
    if not attributes:
        raise OptionError("--group names the columns whose groups are compared.")
    found = suggest_interval(
        number_column(frame, column),
        {a: frame[a] for a in attributes},
        positive_rate=options.positive_rate,
        threshold=options.threshold,
    )
    title = (
        f"Intervals that hold the rate of positive decisions, {found['positive_rate']:.4g}, on {found['rows']:,} rows"
    )
    lines = [["{:g}:{:g}".format(*one["interval"]), f"{one['value']:.4f}"] for one in found["candidates"][:SHOWN]]
    text = grid(title, ("interval", "largest difference of shares"), lines)
    text += f"\nbound  {found['text']} <= ..."
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        data = json.dumps(found, ensure_ascii=False, allow_nan=False, indent=2) + "\n"
        atomic_write_many(options.out, {"interval.json": data.encode(), **interval_files(found)})
        text += f"\npicture  {options.out / 'interval.png'}\nas data  {options.out / 'interval.json'}"
    return Outcome(found, text)
