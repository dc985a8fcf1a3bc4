"""The model card of an audit (Markdown with YAML metadata), and its table of
impact ratios as CSV: evidence to hand on."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from typing import Any

from fairbound.base.names import seen
from fairbound.report import summary, words

COLUMNS = (
    "attribute", "category", "n", "share", "selected", "selection_rate", "impact_ratio", "scoring_rate",
    "scoring_impact_ratio", "left_out", "below_four_fifths", "fisher_p_value", "small_sample",
)  # fmt: skip

PIPELINES = ("tabular-classification", "tabular-regression")
"""The tasks that registries know as pipelines; of rankings they have none."""


def impact_csv(audit: dict[str, Any]) -> str:
    """One line per category and intersection, one for the rows of an unknown category;
    "" where the audit has no such table."""
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(COLUMNS)
    for table in audit.get("impact", []):
        for c in table["categories"]:
            screen = c["four_fifths"] or {}
            cells = [c[k] for k in COLUMNS[1:10]]
            cells += [screen.get(k) for k in ("below", "p_value", "small_sample")]
            lines.writerow([_safe(v) for v in (table["attribute"], *cells)])
        lines.writerow([_safe(table["attribute"]), "(unknown)", table["unknown"], *[""] * 10])
    return out.getvalue() if audit.get("impact") else ""


def _safe(value: Any) -> Any:
    """A text that no spreadsheet takes for a formula."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + words.clean(value)
    return words.clean(value) if isinstance(value, str) else "" if value is None else value


def model_card(audit: dict[str, Any]) -> str:
    """The card as Markdown, with metadata that Hugging Face and other registries read; every number is the audit's."""
    return "\n".join([*_metadata(audit), *_body(audit)]).rstrip() + "\n"


def _metadata(audit: dict[str, Any]) -> Iterator[str]:
    data, model = audit["data"], audit["model"] or {}
    tags = ["fairness", *(c["name"] for c in audit["constraints"])]
    yield "---"
    yield "library_name: fairbound"
    yield f"tags: {_yaml(list(dict.fromkeys(tags)))}"
    task = words.task(audit)
    if task in PIPELINES:
        yield f"pipeline_tag: {_yaml(task)}"
    yield "model-index:"
    yield f"  - name: {_yaml(audit['title'])}"
    yield "    results:"
    yield f"      - task: {{type: {_yaml(task)}}}"
    yield f"        dataset: {{name: {_yaml(data['name'])}, type: tabular, revision: {_yaml(data['checksum'])}}}"
    yield "        metrics:"
    for name, value in audit["metrics"].items():
        yield f"          - {{type: {_yaml(name)}, value: {_yaml(value)}}}"
    yield "fairbound:"
    yield f"  verdict: {_yaml(audit['verdict'])}"
    yield f"  created: {_yaml(audit['created'])}"
    yield f"  seed: {_yaml(model.get('seed'))}"
    yield f"  versions: {_yaml(audit['library'])}"
    yield f"  bounds: {_yaml([{k: c[k] for k in ('text', 'value', 'lower', 'upper', 'verdict')} for c in audit['constraints']])}"
    yield "---"


def _yaml(value: Any) -> str:
    """A value as YAML, of which JSON is a part."""
    return json.dumps(value, ensure_ascii=True)


def _body(audit: dict[str, Any]) -> Iterator[str]:
    data, model = audit["data"], audit["model"]
    yield f"\n# {_text(audit['title'])}\n"
    yield f"**{words.VERDICTS[audit['verdict']]}.** {_text(summary.said(audit))}\n"
    yield "## Model\n"
    if model is None:
        yield "Only its scores were given.\n"
    else:
        facts = {k: model[k] for k in ("kind", "description", "algorithm", "seed", "budget", "steps", "seconds")}
        facts["checksum"] = model.get("checksum")
        yield from (f"- {k}: {_text(v)}" for k, v in facts.items() if v not in (None, ""))
        if model.get("weights"):
            yield f"\n### What the model looks at\n\n{words.WEIGHTS}\n"
            shown = (
                [w["feature"], words.figures(w["weight"]), words.number(w["standardised"], 3)] for w in model["weights"]
            )
            yield from _table(("feature", "per unit", "per standard deviation"), shown)
    yield "\nIntended use, and uses it is not made for: not stated here. Whoever hands the model on states them.\n"
    yield "## Data\n"
    facts = {
        "data": data["name"], "checksum": data["checksum"], "label": data["label"], "positive": data["positive"],
        "sensitive": ", ".join(data["sensitive"]), "rows judged": data["rows"], "rows in training": data["train_rows"],
        "how they were chosen": data["split"],
    }  # fmt: skip
    yield from (f"- {k}: {_text(v)}" for k, v in facts.items() if v not in (None, ""))
    if audit["constraints"]:
        yield "\n## Bounds\n"
        yield from _table(
            ("bound", "measured", "at least", "at most", "confidence", "verdict"),
            (
                [c["text"], *words.beside_bound(c), words.percent(c["confidence"]), words.VERDICTS[c["verdict"]].lower()]
                for c in audit["constraints"]
            ),
        )  # fmt: skip
        levels = " and ".join(sorted({words.percent(c["confidence"]) for c in audit["constraints"]}))
        yield f"\n{words.ONE_SIDED}{levels}, by these methods:\n"
        yield from (f"- {_text(c['text'])}: {_text(c['method'])}" for c in audit["constraints"])
    if "certificate" in audit:
        made = audit["certificate"]
        yield f"\n## Certificate: {words.VERDICTS[made['verdict']].lower()}\n"
        yield f"{_text(made['said'])}\n"
        yield f"Beside it the same model without the bound: {words.VERDICTS[made['unconstrained']['verdict']].lower()}. {words.certified_price(made)}\n"
        yield words.PROMISE
    yield from _impact(audit)
    for title, lines in (("Warnings", audit["warnings"]), ("Notes", audit["notes"])):
        if lines:
            yield f"\n## {title}\n"
            yield from (f"- {_text(line)}" for line in lines)
    yield "\n## Versions\n"
    yield ", ".join(f"{_text(k)} {_text(v)}" for k, v in audit["library"].items())
    yield "\nThe same facts for machines: audit.json; with pictures: report.html."


def _impact(audit: dict[str, Any]) -> Iterator[str]:
    if not audit.get("impact"):
        return
    heading, said = words.impact(audit)
    yield f"\n## {heading}\n"
    yield f"{_text(said)}\n"
    for table in audit["impact"]:
        yield f"\n### {_text(table['attribute'])}\n"
        rows = []
        for c in table["categories"]:
            screen = c["four_fifths"]
            said = c["left_out"] or ("" if screen is None else words.screened(screen))
            rates = [c[k] for k in ("selection_rate", "impact_ratio", "scoring_rate", "scoring_impact_ratio")]
            rows.append(
                [
                    seen(c["category"]),
                    words.count(c["n"]),
                    *(words.number(v, 3, absent="–") for v in rates),
                    said,
                ]
            )
        yield from _table(
            ("category", "n", "selection rate", "impact ratio", "scoring rate", "scoring impact ratio", "remark"), rows
        )
        yield f"\nUnknown: {words.count(table['unknown'])} rows, in no category."


def _table(heads: tuple[str, ...], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield "| " + " | ".join(_text(cell) for cell in row) + " |"


def _text(value: object) -> str:
    """A text that Markdown shows as it is, on one line."""
    text = " ".join(words.clean(str(value)).split())
    for sign in "\\`*_{}[]<>#|":
        text = text.replace(sign, "\\" + sign if sign != "<" else "&lt;")
    return text
