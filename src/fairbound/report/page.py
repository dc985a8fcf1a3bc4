"""The audit as one HTML page that needs nothing else: no script, no font, no image, no request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from fairbound.base.verdicts import WORST_FIRST
from fairbound.report import curves, plots, tables, words
from fairbound.report.percentiles import percentile_charts
from fairbound.report.render import drawing, render
from fairbound.report.roc import roc_charts, surrogate_said
from fairbound.report.schema import validate


def audit_page(audit: dict[str, Any]) -> str:
    """The page for ``audit`` (schema ``fairbound.audit/1``) as text: equal for equal audits and one matplotlib.

    Raises: SchemaError if the audit breaks the schema; ImportError if matplotlib, jinja2 or jsonschema is missing.
    """
    validate(audit)
    uids = (f"c{i}" for i in count(1))
    constraints = tables.constraints(audit, uids)
    return render(
        "audit.html.j2",
        audit=audit,
        members=words.members(audit),
        created=words.date(audit["created"]),
        constraints=constraints,
        worst_first=sorted(constraints, key=lambda c: WORST_FIRST.index(c["verdict"])),
        alike=len({c["verdict"] for c in constraints}) == 1,
        levels=sorted({words.percent(c["confidence"]) for c in constraints}),
        rule=words.rule(constraints),
        **tables.groups(audit),
        compared=tables.compared(audit),
        measured_by=tables.model_metrics(audit),
        metric_heads=[words.label(key) for key in tables.model_metrics(audit)],
        distributions=curves.distributions(audit, uids),
        percentiles=percentile_charts(audit, uids),
        roc=roc_charts(audit, uids),
        surrogate=surrogate_said(audit),
        trajectory=curves.trajectory(audit, uids),
        advice=[f"{a['said']} {a['next']}" for a in audit.get("advice", [])],
        over_time=curves.over_time(audit, uids),
        price=_price(audit.get("certificate"), uids),
        spent=_spent(audit["model"]),
        methods=_by_method(constraints),
    )


def _price(made: dict[str, Any] | None, uids: Iterator[str]) -> Any:
    """The picture of a certificate of one bound; None where there is none to draw."""
    if made is None or isinstance(made["bound"], list):
        return None
    if None in [
        made["unconstrained"]["values"][0],
        *(v for c in made["candidates"] for v in (*c["values"], *c["uppers"])),
    ]:
        return None
    free, measure = made["unconstrained"], made.get("measure", "accuracy")
    alt = (
        f"{words.label(measure)} over the measured value. Unconstrained: {free['values'][0]:.4f} at {free[measure]:.4f}. "
        f"Returned: confidence bound {made['upper']:.4f} at {made[measure]:.4f}, bound {made['bound']:g}."
    )
    return drawing(plots.price(made, next(uids), alt))


def _spent(model: dict[str, Any] | None) -> str:
    steps, seconds = (None, None) if model is None else (model["steps"], model["seconds"])
    whole = None if seconds is None else f"{seconds:.3g} s for the whole fit"
    of_run = None if steps is None else f"{steps:,} steps of the run that gave the model"
    return "; ".join(part for part in (whole, of_run) if part)


def _by_method(constraints: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The constraints whose bounds were computed in the same way, by that way."""
    return {c["method"]: [d for d in constraints if d["method"] == c["method"]] for c in constraints}
