"""A study as one HTML page that needs nothing else: findings, tables, figures, settings, how it was measured.

Which columns of results.json a table has is declared by the study (`studies.spec.TableSpec`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from importlib import resources
from typing import Any

from fairbound.report import markup as m
from fairbound.report import words
from fairbound.report.study_figures import Drawing

_STYLE = """
.figure { overflow-x: auto; } .figure .chart { min-width: 680px; }
.ours { font-weight: 600; } .paper { display: block; color: var(--muted); font-size: 12.5px; white-space: nowrap; }
.win { background: var(--met-soft); } .findings li { margin: 0 0 7px; max-width: 96ch; }
nav ul { display: flex; flex-wrap: wrap; gap: 4px 18px; list-style: none; margin: 14px 0 0; padding: 0; }
nav { font-size: 14.5px; }
"""
OUTPUTS = {
    "last": "last iterate", "best": "best verified iterate", "random": "random iterate", "point": "points on the way",
}  # fmt: skip


def rows_of(results: Sequence[dict[str, Any]], block: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of results.json that a block shows."""
    return [r for r in results if r["item"] == block["item"] and r["data"] in block["data"]]


def study_page(
    study: dict[str, Any],
    results: Sequence[dict[str, Any]],
    summary: dict[str, Any],
    drawn: Mapping[str, Sequence[tuple[Drawing, str]]],
) -> str:
    """The page as text. drawn: key of a block -> drawings with their inline SVG."""
    css = resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8") + _STYLE
    title = m.name(study["title"], None)
    budgets = dict.fromkeys(item["budget"] or study["budget"] for item in study["items"])
    about = [study["source"], f"{study['seeds']} seed{'s' * (study['seeds'] > 1)}", f"{', '.join(budgets)} a run"]
    about += [f"{name} {value}" for name, value in study["task"].items()]
    body, links = [], []
    if summary["findings"]:
        body.append(m.section("Findings", "", _findings(summary["findings"]), "findings"))
        links.append('<li><a href="#findings-h">Findings</a></li>')
    for n, block in enumerate(summary["blocks"], start=1):
        heading = m.name(block["title"], None)
        links.append(f'<li><a href="#b{n}-h">{heading}</a></li>')
        body.append(_block(study, rows_of(results, block), block, drawn[block["key"]], heading, f"b{n}"))
    ends = (("settings", "Settings"), ("measured", "How it was measured"))
    links += [f'<li><a href="#{anchor}-h">{name}</a></li>' for anchor, name in ends]
    quick = " (quick form)" if study["quick"] else ""
    parts = [
        m.Head().format(title=title, css=css),
        f"<header><p class=eyebrow>Study{quick}</p><h1>{title}</h1><p class=meta>{' · '.join(map(m.name, about))}</p>"
        f"<nav><ul>{''.join(links)}</ul></nav></header><main>",
        *body,
        m.section("Settings", "", _settings(study), "settings"),
        _measured(study),
        "</main>",
        f"<footer>Written by fairbound {m.name(study['environment']['versions']['fairbound'])}, "
        f"{m.text(study['created'])}. The same facts for machines: <code>results.json</code>, "
        "<code>summary.json</code>, <code>records.jsonl</code>.</footer>",
        "</body>\n</html>\n",
    ]
    return "\n".join(parts)


def _findings(findings: Sequence[dict[str, Any]], heading: str = "") -> str:
    entries = "".join(f"<li>{m.name(f['text'], None)}</li>" for f in findings)
    title = f"<h3>{heading}</h3>" if heading else ""
    return f"<div class=card>{title}<ul class='said findings'>{entries}</ul></div>"


def _block(
    study: dict, rows: Sequence[dict], block: dict, drawn: Sequence[tuple[Drawing, str]], heading: str, anchor: str
) -> str:
    item = next(i for i in study["items"] if i["key"] == block["item"])
    data = {d: study["data"][d] for d in block["data"]}
    notes = [n for n in (item["note"], *(its["note"] for its in data.values())) if n]
    body = "".join(f"<p class=small>{m.name(n, None)}</p>" for n in notes)
    if block["findings"]:
        body += _findings(block["findings"], "Which method wins where")
    for d, about in zip(data, block["about"], strict=True):
        if len(data) > 1:
            body += f"<h3>{m.name(data[d]['title'])}</h3>"
        body += f"<p class=small>{m.name(about, None)}.</p>" if about else ""
        columns: dict[str, dict[str, dict]] = {}
        for row in (r for r in rows if r["data"] == d):
            columns.setdefault(row["row"], {})[row["column"]] = row
        body += "".join(_table(study, spec, columns, f"{d} {n}") for n, spec in enumerate(study["tables"], start=1))
    for drawing, svg in drawn:
        body += (
            f"<figure class=card><div class=figure>{svg}</div><figcaption><b>{m.text(drawing.title)}.</b> "
            f"{m.name(drawing.caption, None)}</figcaption></figure>"
        )
    return m.section(heading, "", body, anchor)


def _table(study: dict, spec: dict, columns: Mapping[str, Mapping[str, dict]], label: str) -> str:
    """A declared table: methods down, the columns that fit its patterns across."""
    there = dict.fromkeys(c for told in columns.values() for c in told)
    shown = [c for pattern in spec["columns"] for c in there if fnmatch(c, pattern)]
    rows = []
    for method, told in columns.items():
        output = OUTPUTS[next(iter(told.values()))["output"]]
        cells = []
        for c in shown:
            known = [t[c]["ours"] for t in columns.values() if c in t and t[c]["ours"] is not None]
            win = spec["lowest"] and c in told and known and told[c]["ours"] == min(known)
            percent = any(fnmatch(c, pattern) for pattern in spec["percent"])
            text = _cell(told[c], spec["digits"], percent) if c in told else "–"
            cells.append(f"<td{' class=win' if win and not percent else ''}>{text}</td>")
        rows.append([f"{m.row_name(study['methods'][method]['title'])}<span class=sub>{output}</span>", *cells])
    return m.table(m.text(spec["caption"]), ["Method", *map(m.text, shown)], rows, label, "tight")


def _cell(row: Mapping[str, Any], digits: int, percent: bool) -> str:
    """A value with its standard deviation, or with its interval or the runs that have it below, and the paper's."""
    if row["ours"] is None:
        text = "∞" if "infinite" in row["statistic"] and row["runs"] > row["n"] else "–"
    elif percent:
        text = f"{100 * row['ours']:.0f} %"
    else:
        text = _number(row["ours"], digits) + ("" if row["std"] is None else f" ± {_number(row['std'], digits)}")
    below = []
    if row["lower"] is not None:
        below.append(f"{_number(row['lower'], digits)} to {_number(row['upper'], digits)}")
    if row["n"] < row["runs"]:
        below.append(f"{row['n']} of {row['runs']} runs")
    if row["paper"] is not None:
        below.append(f"paper {_number(row['paper'], digits)} ± {_number(row['paper_std'], digits)}")
    return f"<span class=ours>{text}</span>" + "".join(f"<span class=paper>{line}</span>" for line in below)


def _number(value: float | None, digits: int) -> str:
    if value is None:
        return "∞"
    if abs(value) >= 1000 or float(value).is_integer():
        return f"{value:,.0f}".replace("-", "−")
    if 0 < abs(value) < 0.5 * 10**-digits:
        return f"{value:.2g}".replace("-", "−")
    return words.number(value, digits)


def _settings(study: dict[str, Any]) -> str:
    """The settings of every method in every item, and those that were tuned."""
    rows = [
        [
            m.row_name(its["title"]), f"<td class=left>{m.text(', '.join(its['items']))}</td>",
            f"<td class=left>{m.code(its['config'])}</td>", f"<td class=left>{m.text(its['sampling'])}</td>",
            m.text(its["batch"]), f"<td class=left>{m.text(OUTPUTS[its['output']])}</td>",
        ]
        for its in study["settings"]
    ]  # fmt: skip
    heads = ["Method", "Items", "Settings", "Sampling", "Batch", "Model reported"]
    caption = "<b>Settings</b> of every method. Options given per epoch show 1 here."
    body = m.table(caption, heads, rows, "settings")
    if study["chosen"]:
        tuning = study["tuning"]
        chosen = [
            [
                m.row_name(f"{study['methods'][method]['title']} on {data}"),
                f"<td class=left>{m.code(', '.join(f'{k}={v}' for k, v in c['options'].items()))}</td>",
                _number(c["loss"], 3), _number(c["gap"], 4), str(c["trials"]),
            ]
            for data, by in study["chosen"].items()
            for method, c in by.items()
            if method in study["methods"]
        ]  # fmt: skip
        caption = (
            f"<b>Tuned settings</b>: {tuning['seeds']} seed(s) of {m.text(tuning['budget'])} a trial, judged on "
            f"{100 * tuning['validation']:.0f} % of the training rows."
        )
        heads = ["Method", "<span class=left>Chosen</span>", "Validation loss", "Validation |gap|", "Trials"]
        body += m.table(caption, heads, chosen, "tuned settings")
    return body


def _measured(study: dict[str, Any]) -> str:
    env, slow = study["environment"], study["slowdown"]
    hardware = ", ".join(f"{m.name(k)} {m.name(v)}" for k, v in env["hardware"].items())
    parallel = None
    if slow:
        parallel = "1 cell at a time"
        if slow["jobs"] > 1:
            parallel = (
                f"{slow['jobs']} cells at a time ({m.text(slow['backend'])}), {slow['slowdown']:.2f} times as long"
            )
            parallel += " as alone"
    failures = "; ".join(f"{m.name(k)}: {m.name(v, None)}" for k, v in study["failures"].items())
    pairs: list[tuple[str, str | None]] = [
        ("Cells", f"{study['cells']['finished']} of {study['cells']['asked']} finished"), ("Failed", failures or None),
        ("Parallel runs", parallel),
        ("Clock", "seconds of training in one thread; evaluation is not counted"),
        *((name, m.name(text, None)) for name, text in study["measured"].items()),
        ("Hardware", f"{hardware}; {env['processors']} processors"),
        ("Versions", ", ".join(f"{m.name(k)} {m.name(v)}" for k, v in env["versions"].items())),
        ("Revision", None if env["commit"] is None else m.code(env["commit"])),
    ]  # fmt: skip
    body = f"<div class=card>{m.facts(pairs)}</div>"
    if study["notes"]:
        body += f'<div class="card"><h3>Notes</h3>{m.items(study["notes"], "said")}</div>'
    return m.section("How it was measured", "", body, "measured")
