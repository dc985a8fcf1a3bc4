"""What the numbers of a study say, computed: where the subject is below the others, and whose outer iterates are feasible."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairbound.confidence.single import clopper_pearson

EVERY = "runs with every outer iterate feasible"


def findings(
    study: dict[str, Any], item: dict[str, Any], data: str, compared: dict[str, Any], numbers: dict[str, list[dict]]
) -> list[dict[str, Any]]:
    """One entry on one instance: {"data", "below": True, False or None where not judged, "text"}.

    compared: {"at": (t,) places, "medians": method -> (t,), "tolerance": how well the optimum is known}; a median is
    infinite where half of the runs have no feasible iterate. Where two methods both have the optimum neither is below.
    """
    titles = {m: study["methods"][m]["title"] for m in item["methods"]}
    subject, unit = study["subject"], item["axis"]
    rivals = [m for m in study["against"] if m in item["methods"]]
    lead = f"{study['data'][data]['title']}: "
    missing = [titles[m] for m in (subject, *rivals) if m not in compared["medians"]]
    at, verdicts, parts = compared["at"], [], []
    if missing or not rivals or not len(at):
        why = "no run went far enough" if rivals else "it runs alone here"
        why = f"{' and '.join(missing)} did not finish" if missing else why
        return [{"data": data, "below": None, "text": f"{lead}not judged, as {why}. {_share(titles, numbers)}".strip()}]
    ours = np.asarray(compared["medians"][subject])
    for rival in rivals:
        theirs = np.asarray(compared["medians"][rival])
        level = (np.abs(ours) <= compared["tolerance"]) & (np.abs(theirs) <= compared["tolerance"])
        below = (ours < theirs) & ~level
        verdicts.append(bool((below | level).all() and below.any()))
        last = f"{_gap(ours[-1])} against {_gap(theirs[-1])} at {at[-1]:g}"
        if below.all():
            parts.append(f"below {titles[rival]} at all {len(at)} {unit} compared, {at[0]:g} to {at[-1]:g} ({last})")
        elif verdicts[-1]:
            parts.append(
                f"below {titles[rival]} at {int(below.sum())} of {len(at)} {unit} compared and level at the others, where "
                "both have the optimum"
            )
        else:
            worst = int(np.flatnonzero(~below & ~level)[0]) if (~below & ~level).any() else 0
            first = f"first at {at[worst]:g}: {_gap(ours[worst])} against {_gap(theirs[worst])}"
            parts.append(
                f"NOT below {titles[rival]} at {int((~below).sum())} of {len(at)} {unit} compared ({first}; {last})"
            )
    text = f"{lead}{titles[subject]} is {'; '.join(parts)}. {_share(titles, numbers)}"
    return [{"data": data, "below": all(verdicts), "text": text.strip()}]


def _gap(value: float) -> str:
    return f"{value:.3g}" if np.isfinite(value) else "no feasible iterate"


def _share(titles: dict[str, str], numbers: dict[str, list[dict]]) -> str:
    """Of whose runs every outer iterate is feasible."""
    parts = []
    for method, rows in numbers.items():
        by = {r["column"]: r for r in rows}
        row = by[EVERY]
        if row["n"]:
            parts.append(f"{titles[method]} {round(row['ours'] * row['n'])} of {row['n']}")
        if row["n"] < by["outer iterates"]["n"]:
            parts.append(f"{titles[method]} without any in {row['runs'] - row['n']} of {row['runs']}")
    return f"Runs whose every outer iterate is feasible: {', '.join(parts)}." if parts else ""


def overall(study: dict[str, Any], told: list[dict[str, Any]], results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The findings over all instances: on which share the subject is below all it is compared with, and where not."""
    titles = {m: study["methods"][m]["title"] for m in study["methods"]}
    names = {d: study["data"][d]["title"] for d in study["data"]}
    judged = [f for f in told if f["below"] is not None]
    out = []
    if judged:
        rivals = " and ".join(titles[m] for m in study["against"] if m in titles)
        yes = [names[f["data"]] for f in judged if f["below"]]
        no = [names[f["data"]] for f in judged if not f["below"]]
        text = (
            f"{titles[study['subject']]} has a lower gap among feasible iterates than {rivals}, where an item has them, at "
            f"every place compared (but for those where both have the optimum) on {len(yes)} of {len(judged)} instances ({len(yes) / len(judged):.0%})."
        )
        text += f" Not on: {', '.join(no)}." if no else ""
        out.append({"question": "below", "yes": len(yes), "of": len(judged), "not_on": no, "text": text})
    if left := [names[f["data"]] for f in told if f["below"] is None]:
        out.append({"question": "not judged", "text": f"Not judged: {', '.join(left)}."})
    for method in titles:
        rows = [r for r in results if r["row"] == method and r["column"] == EVERY and r["n"]]
        n = sum(r["n"] for r in rows)
        if n:
            good = sum(round(r["ours"] * r["n"]) for r in rows)
            low, high = (float(v) for v in clopper_pearson(good, n))
            short = [f"{names[r['data']]} ({round(r['ours'] * r['n'])} of {r['n']})" for r in rows if r["ours"] < 1]
            text = f"{titles[method]}: every outer iterate feasible in {good} of {n} runs (95 % interval {low:.3f} to {high:.3f})."
            text += f" Not in all on: {', '.join(short)}." if short else ""
            out.append({"question": EVERY, "method": method, "good": good, "n": n, "text": text})
    return out
