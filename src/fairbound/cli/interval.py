"""`fairbound interval`: which percentile interval of the scores in a file to bound, and a picture that shows why."""

from __future__ import annotations

from fairbound.base.errors import OptionError
from fairbound.base.files import atomic_write_many
from fairbound.cli.files.columns import named_columns, numbers_in, one_column, weights_of
from fairbound.cli.files.outcome import Outcome, json_file
from fairbound.cli.options.judging import IntervalOptions
from fairbound.fairness.suggesting import suggest_interval
from fairbound.report import interval_files
from fairbound.report.terminal import grid
from fairbound.tables import read_table

SHOWN = 8


def run_interval(options: IntervalOptions) -> Outcome:
    """Suggest an interval for all rows of the file; write interval.json,
    interval.png and interval.svg where a folder is given."""
    frame = read_table(options.data, **options.file_format)
    column = one_column(options.score, frame.columns, "--score")
    attributes = named_columns(options.group, frame.columns, "--group")
    if not attributes:
        raise OptionError("--group names the columns whose groups are compared.")
    found = suggest_interval(
        numbers_in(frame, column, options.data),
        {a: frame[a] for a in attributes},
        positive_rate=options.positive_rate,
        threshold=options.threshold,
        sample_weight=weights_of(frame, options.weights, options.data),
    )
    title = (
        f"Intervals that hold the rate of positive decisions, {found['positive_rate']:.4g}, on {found['rows']:,} rows"
    )
    lines = [["{:g}:{:g}".format(*one["interval"]), f"{one['value']:.4f}"] for one in found["candidates"][:SHOWN]]
    text = grid(title, ("interval", "largest difference of shares"), lines)
    text += f"\nbound  {found['text']} <= ..."
    if options.out is not None:
        atomic_write_many(options.out, {"interval.json": json_file(found), **interval_files(found)})
        text += f"\npicture  {options.out / 'interval.png'}\nas data  {options.out / 'interval.json'}"
    return Outcome(found, text)
