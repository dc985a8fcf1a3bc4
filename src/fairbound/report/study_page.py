"""A study as one HTML page that needs nothing else: findings, tables, figures, settings, how it was measured.

Which columns of results.json a table has is declared by the study (`studies.spec.TableSpec`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from typing import Any

from fairbound.base.names import count_of
from fairbound.report import words
from fairbound.report.figures import Drawing
from fairbound.report.render import drawing, render


def rows_of(results: Sequence[dict[str, Any]], block: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of results.json that a block shows."""
    return [r for r in results if r["item"] == block["item"] and r["data"] in block["data"]]


def shows(table: dict[str, Any], item: str) -> bool:
    """Whether an item shows a table."""
    return not table.get("items") or item in table["items"]


def study_page(
    study: dict[str, Any],
    results: Sequence[dict[str, Any]],
    summary: dict[str, Any],
    drawn: Mapping[str, Sequence[tuple[Drawing, str]]],
) -> str:
    """The page as text. drawn: key of a block -> drawings with their inline SVG.

    Raises: ImportError naming the extra where jinja2 is missing.
    """
    budgets = dict.fromkeys(item["budget"] or study["budget"] for item in study["items"])
    about = [study["source"], count_of(study["seeds"], "seed"), f"{', '.join(budgets)} a run"]
    about += [f"{name} {value}" for name, value in study["task"].items()]
    return render(
        "study.html.j2",
        study=study,
        summary=summary,
        about=about,
        blocks=[_block(study, rows_of(results, b), b, drawn[b["key"]]) for b in summary["blocks"]],
        tuned=_tuned(study),
        trial_budgets=dict.fromkeys(
            i.get("trial_budget") or study["tuning"]["budget"] for i in study["items"] if i["tuned"]
        ),
    )


def _block(
    study: dict[str, Any], rows: Sequence[dict[str, Any]], block: dict[str, Any], drawn: Sequence[tuple[Drawing, str]]
) -> dict[str, Any]:
    """A block as the page shows it: its notes, findings, and figures, and per data set its tables."""
    item = next(i for i in study["items"] if i["key"] == block["item"])
    data = []
    for key, about in zip(block["data"], block["about"], strict=True):
        methods: dict[str, dict[str, dict[str, Any]]] = {}
        for row in (r for r in rows if r["data"] == key):
            methods.setdefault(row["row"], {})[row["column"]] = row
        tables = [_table(study, spec, methods) for spec in study["tables"] if shows(spec, item["key"])]
        data.append({"key": key, "title": study["data"][key]["title"], "about": about, "tables": tables})
    warned = [text for d in block["data"] for text in item.get("warnings", {}).get(d, ())]
    return {
        "title": block["title"],
        "notes": [n for n in (item["note"], *(study["data"][d]["note"] for d in block["data"]), *warned) if n],
        "findings": block["findings"],
        "data": data,
        "figures": [{"svg": drawing(svg), "title": d.title, "caption": d.caption} for d, svg in drawn],
    }


def _table(
    study: dict[str, Any], spec: dict[str, Any], methods: Mapping[str, Mapping[str, dict[str, Any]]]
) -> dict[str, Any]:
    """A declared table: methods down, the columns that fit its patterns across.

    methods: method -> column -> its row of results.json.
    """
    measured = dict.fromkeys(c for values in methods.values() for c in values)
    columns = [c for pattern in spec["columns"] for c in measured if fnmatch(c, pattern)]
    rows = []
    for method, values in methods.items():
        cells: list[dict[str, Any]] = []
        for c in columns:
            if c not in values:
                cells.append({"value": None, "win": False})
                continue
            percent = any(fnmatch(c, pattern) for pattern in spec["percent"])
            win = spec["lowest"] and not percent and _is_lowest(c, values, methods)
            cells.append({**_cell(values[c], spec["digits"], percent), "win": win})
        any_row = next(iter(values.values()))
        title = study["methods"][method]["title"]
        rows.append({"method": title, **_reported(any_row), "cells": cells})
    return {"caption": spec["caption"], "columns": columns, "rows": rows}


def _reported(row: Mapping[str, Any]) -> dict[str, str]:
    """Which model a row is of, "nearest" where no best iterate met the bounds, and in how many runs it is another."""
    runs, missed, starts = row["runs"], row.get("missed", 0), row["only_start"]
    said = [f"only the start in {starts} of {runs} runs"] if starts else []
    said += [f"nearest to the bounds, which none met, in {missed} of {runs} runs"] if 0 < missed < runs else []
    return {"output": "nearest" if missed == runs else row["output"], "but": "; ".join(said)}


def _is_lowest(
    column: str, values: Mapping[str, dict[str, Any]], methods: Mapping[str, Mapping[str, dict[str, Any]]]
) -> bool:
    """Whether no method has less in a column; one with runs that report their starting point takes no part."""
    shown = [v[column] for v in methods.values() if column in v]
    known = [row["ours"] for row in shown if row["ours"] is not None and not row["only_start"]]
    return bool(known) and not values[column]["only_start"] and values[column]["ours"] == min(known)


def _cell(row: Mapping[str, Any], digits: int, percent: bool) -> dict[str, Any]:
    """A value with its standard deviation, or with its interval or the runs that have it below, and the paper's."""
    if row["ours"] is None:
        value = "∞" if "infinite" in row["statistic"] and row["runs"] > row["n"] else "–"
    elif percent:
        value = f"{100 * row['ours']:.0f} %"
    else:
        value = _number(row["ours"], digits) + ("" if row["std"] is None else f" ± {_number(row['std'], digits)}")
    below = []
    if row["lower"] is not None:
        below.append(f"{_number(row['lower'], digits)} to {_number(row['upper'], digits)}")
    if row["n"] < row["runs"]:
        below.append(f"{row['n']} of {row['runs']} runs")
    if row["paper"] is not None:
        below.append(f"paper {_number(row['paper'], digits)} ± {_number(row['paper_std'], digits)}")
    return {"value": value, "below": below}


def _number(value: float | None, digits: int) -> str:
    if value is None:
        return "∞"
    if abs(value) >= 1000 or float(value).is_integer():
        return f"{value:,.0f}".replace("-", "−")
    if 0 < abs(value) < 0.5 * 10**-digits:
        return f"{value:.2g}".replace("-", "−")
    return words.number(value, digits)


def _tuned(study: dict[str, Any]) -> list[dict[str, Any]]:
    """The settings that were tuned, per data set and method."""
    return [
        {
            "title": f"{study['methods'][method]['title']} on {data}",
            "options": ", ".join(f"{k}={v}" for k, v in chosen["options"].items()),
            "loss": _number(chosen["loss"], 3),
            "gap": _number(chosen["gap"], 4),
            "trials": chosen["trials"],
            "met": chosen.get("met"),
        }
        for data, by in study["chosen"].items()
        for method, chosen in by.items()
        if method in study["methods"]
    ]
