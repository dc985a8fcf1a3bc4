"""The options of a later call of `fairbound monitor` against those that the state was begun with."""

from __future__ import annotations

from typing import Any

from fairbound.base.errors import OptionError
from fairbound.cli.bounds import bounds_of_texts
from fairbound.cli.options.judging import MonitorOptions
from fairbound.monitoring import Monitor
from fairbound.rows.labels import is_label

OTHERS = ("loss", "weights", "id")
"""Options that name further columns, which the state remembers."""


def check_same(options: MonitorOptions, monitor: Monitor) -> None:
    """Raises: OptionError for an option, given again, that differs from the one the monitor was begun with."""
    known = [bound.text for bound in monitor.bounds]
    stated = [bound.text for bound in bounds_of_texts(options.constraint, options.cross)]
    crossed = any(getattr(bound, "attributes", None) == "crossed" for bound in monitor.bounds)
    uncrossed = not crossed and any(bound.over("crossed") != bound for bound in monitor.bounds)
    if (stated != known) if stated else (options.cross and uncrossed):
        raise _differs("--constraint" if stated else "--cross", f"watches {known}", stated)
    if options.confidence not in (None, monitor.confidence):
        raise _differs("--confidence", f"has the confidence {monitor.confidence:g}", options.confidence)
    if options.largest_weight not in (None, monitor.largest_weight):
        has = "counts rows without weights" if monitor.largest_weight is None else f"has {monitor.largest_weight:g}"
        raise _differs("--largest-weight", has, options.largest_weight)
    if options.threshold not in (None, monitor.threshold):
        has = "counts decisions, without a threshold" if monitor.threshold is None else f"has {monitor.threshold:g}"
        raise _differs("--threshold", has, options.threshold)
    if options.positive is not None and (
        len(monitor.classes) > 2 or not _is_label(options.positive, monitor.classes[1])
    ):
        has = f"counts {monitor.classes[1]!r} as positive" if len(monitor.classes) == 2 else "has no positive label"
        raise _differs("--positive", has, options.positive)


def check_columns(source: dict[str, str], attributes: list[str], monitor: Monitor) -> None:
    """Raises: OptionError where groups, labels or decisions are taken from other columns, or of another model,
    than before."""
    before = sorted(monitor.attributes or ())
    if before and not attributes:
        raise OptionError(f"name the columns of {', '.join(before)} with --group, which this monitor compares.")
    if sorted(attributes) != before:
        raise _differs("--group", f"compares {', '.join(before) or 'no groups'}", ", ".join(attributes))
    if not monitor.columns:
        return
    for what in OTHERS:
        if source.get(what) != monitor.columns.get(what):
            has = repr(monitor.columns[what]) if what in monitor.columns else f"no column of a {what.rstrip('s')}"
            raise _differs(f"--{what}", f"has {has}", source.get(what))
    if "label" in monitor.columns and "label" not in source:
        raise _differs("--label", f"has {monitor.columns['label']!r}")
    for what in [name for name in source if name not in OTHERS]:
        if what == "label" and what not in monitor.columns:
            raise _differs("--label", "watches decisions without outcomes", source[what])
        if what not in monitor.columns:
            other = "a saved model" if what == "score" else f"the column {monitor.columns['score']!r}"
            raise _differs(f"--{what}", f"takes its decisions from {other}")
        if source[what] != monitor.columns[what]:
            has = "counts the decisions of another model" if what == "model" else f"has {monitor.columns[what]!r}"
            raise _differs(f"--{what}", has, None if what == "model" else source[what])


def _differs(option: str, has: str, given: Any = None) -> OptionError:
    instead = f", not {given!r}" if given else ""
    return OptionError(
        f"{option} differs from the state: this monitor {has}{instead}. Rows of both would be mixed; give what it was begun "
        "with, or begin another in a new --state folder."
    )


def _is_label(text: str, label: str) -> bool:
    """Whether `text` names the label of a state, in which a whole number has no ".0" and TRUE of a file is True."""
    return text.removesuffix(".0") == label or is_label({"True": True, "False": False}.get(label, label), text)
