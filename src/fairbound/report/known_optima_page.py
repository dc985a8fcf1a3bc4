"""The page of a study of optima: gaps among feasible iterates, feasibility, optima with their certificates, settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import markup as m
from .known_optima_figures import drawings

__all__ = ["MEASURED", "drawings", "lead", "meta", "settings", "tables"]

EVERY = "runs with every outer iterate feasible"
MEASURED = (
    (
        "Measured",
        "objective and every constraint on all the data (or in closed form), exactly, at every outer iterate and at even spacing",
    ),
    ("Feasible", "every constraint at most 0, with no tolerance"),
    ("Data pass", "as many rows touched as the instance has, by any oracle call; evaluation is not counted"),
)


def meta(study: dict[str, Any]) -> list[str]:
    """What stands below the title, as markup."""
    budgets = ", ".join(dict.fromkeys(item["budget"] for item in study["items"]))
    return [f"{study['seeds']} seed{'s' * (study['seeds'] > 1)}", f"{m.text(budgets)} a run"]


def lead(study: dict[str, Any], block: dict[str, Any]) -> str:
    """The instances of the block."""
    told = []
    for key, its in block["instances"].items():
        size = f"{its['rows']:,} rows, " if its["rows"] > 1 else ""
        told.append(f"{m.name(study['data'][key]['title'])} ({size}{its['m']:,} constraint{'s' * (its['m'] > 1)})")
    return "; ".join(told) + "."


def tables(study: dict[str, Any], item: dict[str, Any], block: dict[str, Any], rows: Sequence[dict[str, Any]]) -> str:
    """The block's tables. rows: its rows of results.json."""
    told: dict[str, dict[str, dict[str, dict]]] = {}
    for row in rows:
        told.setdefault(row["data"], {}).setdefault(row["row"], {})[row["column"]] = row
    parts = [_optima(study, block)]
    for data, methods in told.items():
        parts.append(_gaps(study, item, data, methods))
    return "".join(parts)


def _gaps(study: dict, item: dict, data: str, methods: dict[str, dict[str, dict]]) -> str:
    unit = item["axis"]
    columns = [f"relative gap at {place:g} {unit}" for place in item["at"]]
    columns = [c for c in columns if any(c in told for told in methods.values())]
    lowest = {
        c: min((t[c]["ours"] for t in methods.values() if c in t and t[c]["ours"] is not None), default=None)
        for c in columns
    }
    body = []
    for method, told in methods.items():
        cells = [_gap(told.get(c), lowest[c]) for c in columns]
        first, outer, share = (told[c] for c in (f"{unit} to the first feasible iterate", "outer iterates", EVERY))
        runs = share["runs"]
        cells += [
            _plain(first["ours"], f"{first['n']} of {runs} runs"),
            _plain(outer["ours"], ""),
            _share(share),
            _percent(told["evaluations that are feasible"]["ours"]),
            _plain(told["seconds"]["ours"], ""),
        ]
        body.append([m.row_name(study["methods"][method]["title"]), *cells])
    heads = [
        "Method", *(f"Gap at {c.split(' at ')[1]}" for c in columns),
        f"First feasible<span class=sub>iterate, {unit}</span>", "Outer iterates",
        "All feasible<span class=sub>outer iterates; share of runs, 95 % interval</span>",
        "Evaluations feasible<span class=sub>share</span>", "Seconds",
    ]  # fmt: skip
    caption = (
        f"<b>{m.name(study['data'][data]['title'])}</b>: lowest gap of a feasible iterate so far, relative to that of the "
        "start; median (quartiles) over runs, ∞ where half of the runs have none. The lowest is shaded."
    )
    return m.table(caption, heads, body, f"gaps on {data}", "tight")


def _gap(row: dict[str, Any] | None, lowest: float | None) -> str:
    if row is None:
        return "<td>–</td>"
    ends = f"{_number(row['lower'])} to {_number(row['upper'])}"
    ends += f"; {row['n']} of {row['runs']} runs" if row["n"] < row["runs"] else ""
    win = " class=win" if row["ours"] is not None and row["ours"] == lowest else ""
    return f"<td{win}><span class=ours>{_number(row['ours'])}</span><span class=paper>{ends}</span></td>"


def _number(value: float | None) -> str:
    if value is None:
        return "∞"
    return "0" if abs(value) < 1e-9 else m.text(f"{value:.3g}".replace("-", "−"))


def _plain(value: float | None, below: str) -> str:
    text = "–" if value is None else f"{value:,.4g}"
    return f"<td>{text}<span class=paper>{below}</span></td>" if below else f"<td>{text}</td>"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"


def _share(row: dict[str, Any]) -> str:
    if row["ours"] is None:
        return "<td>–</td>"
    ends = f"{row['n']} runs, {row['lower']:.2f} to {row['upper']:.2f}"
    return f"<td>{_percent(row['ours'])}<span class=paper>{ends}</span></td>"


def _optima(study: dict, block: dict) -> str:
    pairs: list[tuple[str, str | None]] = []
    for key in block["instances"]:
        its, known = study["data"][key], study["data"][key]["optimum"]
        told = f"f* = {known['f']:.9g}, {known['x0_f']:.6g} at the start: {known['certificate']}."
        pairs.append((its["title"], m.name(told, None) + (f" {m.name(its['note'], None)}" if its["note"] else "")))
    return f"<div class=card><h3>Optima, found independently of these methods</h3>{m.facts(pairs)}</div>"


def settings(study: dict[str, Any]) -> str:
    """The settings of every method in every item."""
    rows = []
    for item in study["items"]:
        for method, config in study["settings"][item["key"]].items():
            told = study["methods"][method]
            batch = "all rows" if told["sampling"] == "full" else f"{told['batch'] or item['batch']:,}"
            rows.append([
                m.row_name(told["title"]), f"<td class=left>{m.text(item['key'])}</td>",
                f"<td class=left>{m.code(config)}</td>", f"<td class=left>{m.text(told['sampling'])}</td>", batch,
                str(min(told["seeds"] or study["seeds"], study["seeds"])),
            ])  # fmt: skip
    heads = ["Method", "Item", "Settings", "Batches", "Rows of each block", "Seeds"]
    return m.table("<b>Settings</b> of every method.", heads, rows, "settings")
