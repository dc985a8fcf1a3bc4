"""The page of a study of models: tables beside the paper's, loss and gap, cost, tuned settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import markup as m
from . import words
from .fair_models_figures import drawings
from .study_page import settings_table

__all__ = ["MEASURED", "drawings", "lead", "meta", "settings", "tables"]

TABLE = ("Ind", "Sp", "Ina", "Sf", "Wd", "W1")
WORDS = {
    "Ind": "independence", "Sp": "separation", "Ina": "inaccuracy", "Sf": "sufficiency",
    "Wd": "squared W2, 50 bins", "W1": "Wasserstein, order 1",
}  # fmt: skip
OUTPUTS = {"last": "last iterate", "best": "best verified iterate", "random": "random iterate"}
Columns = Mapping[str, Mapping[str, dict[str, Any]]]
MEASURED = (("Splits", "80/20, stratified by group, another one for every seed and the same for every method"),)


def meta(study: dict[str, Any]) -> list[str]:
    """What stands below the title, as markup."""
    return [
        m.code(study["constraint"]), f"{study['seeds']} seed{'s' * (study['seeds'] > 1)}",
        f"{m.name(study['budget'])} a run", m.name(study["model"]), f"batches of {study['batch_size']}",
    ]  # fmt: skip


def lead(study: dict[str, Any], block: dict[str, Any]) -> str:
    """The rows of the block's data set."""
    data, sizes = study["data"][block["data"]], block["rows"]
    return " ".join(
        f"{sizes[part]['rows']:,} {words_}, {sizes[part]['protected']:,} of them {m.name(data['groups'][1])}{end}"
        for part, words_, end in (("train", "training rows", ";"), ("test", "test rows", "."))
    )


def tables(study: dict[str, Any], item: dict[str, Any], block: dict[str, Any], rows: Sequence[dict[str, Any]]) -> str:
    """The block's tables. rows: its rows of results.json."""
    columns: dict[str, dict[str, dict]] = {method: {} for method in block["methods"]}
    for row in rows:
        columns[row["row"]][row["column"]] = row
    measures = "".join(_measures(study, item, columns, part) for part in ("train", "test"))
    return measures + _gaps(study, columns) + _cost(study, columns)


def _measures(study: dict, item: dict, columns: Columns, part: str) -> str:
    """KLBM25's Table 3 on one part: ours, and the paper's below where it prints one."""
    shown = [f"{part} {name}" for name in TABLE]
    best = {c: _lowest(columns, c) for c in shown}
    rows = []
    for method, told in columns.items():
        cells = []
        for c in shown:
            row = told[c]
            digits = 4 if c.endswith("Wd") else 3
            text = f"<span class=ours>{_pm(row['ours'], row['std'], digits)}</span>"
            if row["paper"] is not None:
                text += f"<span class=paper>paper {_pm(row['paper'], row['paper_std'], digits)}</span>"
            cells.append(f"<td{' class=win' if method == best[c] else ''}>{text}</td>")
        output = OUTPUTS[next(iter(told.values()))["output"]]
        rows.append([f"{m.row_name(study['methods'][method]['title'])}<span class=sub>{output}</span>", *cells])
    heads = ["Method", *(f"{n}<span class=sub>{WORDS[n]}</span>" for n in TABLE)]
    paper = f" The paper's numbers are of {m.name(study['paper_data'])}." if item["paper"] else ""
    caption = (
        f"<b>{part.capitalize()} rows</b>: mean ± standard deviation over runs; smaller is better, the lowest is "
        f"shaded.{paper}"
    )
    return m.table(caption, heads, rows, f"measures on {part} rows", "tight")


def _lowest(columns: Columns, column: str) -> str | None:
    known = {k: told[column]["ours"] for k, told in columns.items() if told[column]["ours"] is not None}
    return min(known, key=known.__getitem__) if known else None


def _gaps(study: dict, columns: Columns) -> str:
    rows = []
    for method, told in columns.items():
        share = [told[c]["ours"] for c in ("train within the bound", "late evaluations within the bound")]
        rows.append([
            m.row_name(study["methods"][method]["title"]),
            *(_pm(told[f"{part} loss"]["ours"], told[f"{part} loss"]["std"]) for part in ("train", "test")),
            *(_gap(told, part) for part in ("train", "test")),
            *("–" if s is None else f"{100 * s:.0f} %" for s in share),
        ])  # fmt: skip
    heads = [
        "Method", "Train loss", "Test loss", "Train |gap|<span class=sub>and with its sign</span>",
        "Test |gap|<span class=sub>and with its sign</span>", "Runs within<span class=sub>at the end, train</span>",
        "Evaluations within<span class=sub>last third, train</span>",
    ]  # fmt: skip
    caption = f"<b>Loss and gap</b> of the reported model, against the bound {words.bound(study['bound'])}."
    return m.table(caption, heads, rows, "loss and gap", "tight")


def _gap(told: Mapping[str, dict[str, Any]], part: str) -> str:
    size, signed = told[f"{part} |gap|"], told[f"{part} gap"]
    text = f"{_pm(size['ours'], size['std'], 4)}<span class=paper>{_pm(signed['ours'], signed['std'], 4)}</span>"
    return f"<td>{text}</td>"


def _cost(study: dict, columns: Columns) -> str:
    rows = []
    for method, told in columns.items():
        n = told["seconds to the bound"]["n"]
        reach = [told[f"{axis} to the bound"]["ours"] for axis in ("seconds", "samples", "calls")]
        rows.append([
            m.row_name(study["methods"][method]["title"]),
            *(_count(told[c]["ours"]) for c in ("steps", "samples", "calls")),
            _pm(told["seconds"]["ours"], None, 1), f"{n} of {told['steps']['n']}",
            "–" if reach[0] is None else f"{reach[0]:.2f}", _count(reach[1]), _count(reach[2]),
        ])  # fmt: skip
    heads = [
        "Method", "Steps", "Rows used", "Oracle calls", "Seconds", "Runs that reach<span class=sub>the bound</span>",
        "Seconds<span class=sub>until then</span>", "Rows<span class=sub>until then</span>",
        "Calls<span class=sub>until then</span>",
    ]  # fmt: skip
    caption = (
        "<b>Cost</b>: means over runs, and medians until the mean size of the training gap over 10 evaluations is "
        "within the bound. Evaluation counts nowhere. A Jacobian counts as one call and one more for every constraint."
    )
    return m.table(caption, heads, rows, "cost", "tight")


def _pm(mean: float | None, std: float | None, digits: int = 3) -> str:
    if mean is None:
        return "–"
    text = words.number(mean, digits)
    return text if std is None else f"{text} ± {words.number(std, digits)}"


def _count(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def settings(study: dict[str, Any]) -> str:
    """The settings of every method, and those that were tuned."""
    more = {"Model reported": lambda told: OUTPUTS[told["output"]]}
    body = settings_table(study, "Options given per epoch show 1 here.", more)
    tuning = study["tuning"]
    if tuning:
        chosen = [
            [
                m.row_name(f"{study['methods'][method]['title']} on {data}"),
                f"<td class=left>{m.code(', '.join(f'{k}={v}' for k, v in c['options'].items()))}</td>",
                _pm(c["loss"], None), _pm(c["gap"], None, 4), str(c["trials"]),
            ]
            for data, by in tuning["chosen"].items()
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
