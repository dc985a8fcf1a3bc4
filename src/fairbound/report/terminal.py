"""Printed tables, drawn by rich: any rows under their heads, and an audit as text for a terminal."""

from __future__ import annotations

import io
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from fairbound.base.extras import extra
from fairbound.base.names import seen
from fairbound.report import summary, words
from fairbound.report.compare import COMPARE_SCHEMA, most_telling, said, tells
from fairbound.report.schema import validate
from fairbound.report.tables import compared, metric_of, model_metrics
from fairbound.report.tables import groups as group_tables

WIDEST = 1000  # columns of a table that is not printed on a terminal
MOST_GROUPS = 12  # rows of a printed table of groups, the largest groups


def printable(text: str) -> str:
    """``text`` with control and format characters (a terminal would obey them) as visible escapes."""
    return "".join(c if unicodedata.category(c)[0] != "C" else c.encode("unicode_escape").decode() for c in text)


def grid(
    title: str, heads: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[str] = (), width: int = 0
) -> str:
    """A table in a box, as text without colour codes.

    left: heads of the columns, beside the first, that hold words; the others hold numbers and are set to the right.
    width: columns to fit into, by folding cells; 0 takes the width of the terminal, and what the cells need where
    the output is none, so that the text of a file or a pipe does not depend on where it was made.

    Raises: ImportError naming the extra where rich is missing.
    """
    with extra("report", "printed tables need rich"):
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    made = Table(title=Text(printable(title)), title_justify="left", box=box.ROUNDED)
    for j, head in enumerate(heads):
        made.add_column(Text(printable(head)), justify="left" if j == 0 or head in left else "right")
    for row in rows:
        made.add_row(*(Text(printable(cell)) for cell in row))
    if not width:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDEST
    out = io.StringIO()
    Console(file=out, width=width, color_system=None, force_terminal=False, legacy_windows=False).print(made)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def table(audit: dict[str, Any], *, width: int = 0) -> str:
    """The verdict, its reasons and the numbers as text for a terminal, without colour codes.

    audit: schema ``fairbound.audit/1``, or what `fairbound.compare` found. width: columns that the tables fit into, as
    of :func:`grid`.

    Raises: SchemaError if the audit breaks the schema; ImportError naming the extra where rich or jsonschema is
    missing.
    """
    if isinstance(audit, dict) and audit.get("schema") == COMPARE_SCHEMA:
        return _differences(audit, width)
    validate(audit)
    metrics = ", ".join(
        f"{printable(words.label(k))} {words.number(v)}{_interval(audit.get('metric_intervals', {}).get(k))}"
        for k, v in audit["metrics"].items()
    )
    if audit["data"]["positive"] not in (None, "1"):
        metrics += f". Positive is {printable(audit['data']['label'])} = {printable(audit['data']['positive'])}"
    if labels := words.labels_named(audit):
        metrics += f". {printable(labels).removesuffix('.')}"
    if audit["data"].get("weighted"):
        metrics += ". " * bool(metrics) + "Every row counts with its weight"
    if (given := words.offered(audit)) is not None:
        metrics += (
            ". " * bool(metrics) + f"Of {given:,} rows given, {audit['data']['rows']:,} were counted, by their weight"
        )
    parts = [f"{words.VERDICTS[audit['verdict']]}: {summary.said(audit)}", metrics]
    if "certificate" in audit:
        made = audit["certificate"]
        free = f"The same model without the bound: {words.VERDICTS[made['unconstrained']['verdict']].lower()}."
        parts.insert(0, f"Certificate: {printable(made['said'])}\n{free} {words.certified_price(made)}")
    if audit["constraints"]:
        heads = ("constraint", "bound", "measured", "at least", "at most", "verdict")
        cells = [
            (c["text"], words.bound(c["bound"]), *words.beside_bound(c), _verdict(c)) for c in audit["constraints"]
        ]
        parts.append(grid(f"Constraints on {summary.judged_rows(audit)}", heads, cells, ("verdict",), width))
    if audit["comparison"]:
        texts = compared(audit)
        parts.append(
            grid(
                "Models", ("model", *map(_short_label, model_metrics(audit)), *texts), _models(audit, texts), (), width
            )
        )
    parts += [_groups(t, width) for t in group_tables(audit)["tables"]]
    parts += [f"{printable(c['text'])}: {printable(words.said_of(c, audit))}" for c in audit["constraints"]]
    parts += [f"warning: {printable(w)}" for w in audit["warnings"]]
    return "\n\n".join(part for part in parts if part)


def _differences(found: dict[str, Any], width: int) -> str:
    """What a comparison found, a line for each difference."""
    first, second = found["names"]
    title = f"{second} less {first} on {found['rows']:,} rows"
    interval = f"{words.percent(found['confidence'])} interval"
    heads = ("measured", first, second, "difference", interval, "verdict")
    shown = most_telling(found["differences"])
    rows = [
        (
            d["name"],
            *(words.number(d[k], absent="–") for k in ("first", "second", "difference")),
            _interval(d).strip() or "–",
            tells(d),
        )
        for d in shown
    ]
    parts = [printable(said(found)), grid(title, heads, rows, ("verdict",), width)]
    if left := len(found["differences"]) - len(shown):
        parts.append(
            f"{left:,} more differences between groups are not shown, the less clear and the smaller ones; all are in the data (--json, "
            "compare.json of --out)."
        )
    return "\n\n".join(parts + [f"warning: {printable(w)}" for w in found["warnings"]])


def _groups(made: dict[str, Any], width: int) -> str:
    """The rates and means of the largest groups of one attribute."""
    shown = sorted(made["groups"], key=lambda g: -g["n"])[:MOST_GROUPS]
    left = len(made["groups"]) - len(shown)
    title = f"{made['of'].title()} of {made['attribute']}" + (
        f", the {MOST_GROUPS} largest; {left:,} more on the page" if left else ""
    )
    rows = [
        [
            seen(g["group"]),
            f"{g['n']:,}",
            *(_rate(g, name) for name in made["rates"]),
            *(words.number(g["means"][name]["value"]) + _interval(g["means"][name]) for name in made["means"]),
        ]
        for g in shown
    ]
    return grid(
        title,
        ("class" if made["of"] == "classes" else "group", "rows", *map(_short_label, [*made["rates"], *made["means"]])),
        rows,
        (),
        width,
    )


def _rate(group: dict[str, Any], name: str) -> str:
    found = group["rates"].get(name)
    return "–" if found is None else words.number(found["value"], 3)


def _verdict(c: dict[str, Any]) -> str:
    return words.VERDICTS[c["verdict"]].lower()


def _interval(made: dict[str, Any] | None, beside: float | None = None) -> str:
    """The ends of an interval as they follow its value; "" where one is not known."""
    if made is None or None in (made["lower"], made["upper"]):
        return ""
    return f" [{words.number(made['lower'], beside=beside)}, {words.number(made['upper'], beside=beside)}]"


def _short_label(metric: str) -> str:
    label = words.label(metric)
    return label if label[1:2].isupper() else label[:1].lower() + label[1:]


def _models(audit: dict[str, Any], texts: Sequence[str]) -> Iterable[list[str]]:
    for model in audit["comparison"]:
        of = {c["text"]: c for c in model["constraints"]}
        row = [model["name"], *(words.number(metric_of(model, key)) for key in model_metrics(audit))]
        yield row + [_short(of[t]) if t in of else "–" for t in texts]


def _short(c: dict[str, Any]) -> str:
    return f"{words.number(c['value'], beside=c['bound'])}{_interval(c, beside=c['bound'])} {_verdict(c)}"
