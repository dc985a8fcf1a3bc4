"""What the tables of the page show: constraints with their intervals, groups with their rates, models side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairbound.report import plots, words
from fairbound.report.render import drawing

MOST_CONTRASTS = 40


def constraints(audit: dict[str, Any], uids: Iterator[str]) -> list[dict[str, Any]]:
    """Each constraint with what is said and drawn of it.

    Added: ``said``; ``svg``, empty where nothing was measured; ``behind``, the sizes of very many groups; ``shown``,
    the worst contrasts, and ``left``, the number of the others; ``scale``, the ends that the contrasts are drawn
    between; ``open``, whether the contrasts are unfolded; ``n_contrasts``.
    """
    made = []
    for c in audit["constraints"]:
        said = words.said_of(c, audit)
        sign = 1 if words.at_least(c) else -1
        one_way = [k for k in c["contrasts"] if not k.get("mirrored")]
        contrasts = sorted(one_way, key=lambda k: (k["value"] is None, sign * (k["value"] or 0.0)))
        if len(contrasts) < 2:
            contrasts = []
        known = [v for k in contrasts for v in (k["lower"], k["value"], k["upper"]) if v is not None]
        sizes = c["groups"].values()
        more = {
            "said": said,
            "svg": "" if c["value"] is None else drawing(plots.interval(c, next(uids), f"{c['text']}: {said}")),
            "behind": f"{len(sizes)} groups, {min(sizes):,} to {max(sizes):,} rows each" if sizes else "not recorded",
            "shown": contrasts[:MOST_CONTRASTS],
            "left": max(0, len(contrasts) - MOST_CONTRASTS),
            "scale": (min([0.0, *known]), max([c["bound"], *known])),
            "open": len(audit["constraints"]) <= 2 and len(contrasts) <= 6,
            "n_contrasts": len(c["contrasts"]),
            "mirrored": len(one_way) < len(c["contrasts"]),
        }
        made.append({**c, **more})
    return made


def groups(audit: dict[str, Any]) -> dict[str, Any]:
    """The groups of each attribute, in the order given, and the rates and means that any of them has; of rates their
    meaning, of means the ends that they are drawn between. of: what the entries of an attribute are. counted: how many
    there are of each kind."""
    found = dict.fromkeys(rate for g in audit["groups"] for rate in g["rates"])
    rates = [r for r in words.RATES if r in found] + [r for r in found if r not in words.RATES]
    meaning = "; ".join(f"{words.RATES[r][0].lower()}: {words.RATES[r][1]}" for r in rates if r in words.RATES)
    missing = audit["data"]["missing_group_rows"]
    tables = []
    attributes = list(dict.fromkeys(g["attribute"] for g in audit["groups"]))
    label = attributes[0] if attributes and words.members(audit) == "classes" else None  # the classes stand first
    for attribute in attributes:
        members = [g for g in audit["groups"] if g["attribute"] == attribute]
        own = [r for r in rates if any(r in g["rates"] for g in members)]
        labels = [words.label(r) for r in own]
        means = {name: _scale(members, name) for name in dict.fromkeys(m for g in members for m in g.get("means", {}))}
        more = {"missing": missing.get(attribute, 0), "rates": own, "labels": labels, "means": means}
        more["positives"] = any(g["positives"] is not None for g in members)
        more["of"] = "classes" if attribute == label else "groups"
        more["mean_labels"] = [words.label(name) for name in means]
        tables.append({"attribute": attribute, "groups": members, **more})
    counted = {words.members(audit): 0}
    for table in tables:
        counted[table["of"]] = counted.get(table["of"], 0) + len(table["groups"])
    return {
        "tables": tables,
        "counted": counted,
        "meaning": f" {meaning[0].upper()}{meaning[1:]}." if meaning else "",
        "with_means": any(g.get("means") for g in audit["groups"]),
        "with_loss": any(g["mean_loss"] is not None and not g.get("means") for g in audit["groups"]),
    }


def _scale(members: list[dict[str, Any]], name: str) -> tuple[float, float]:
    """The ends, 0 between them, that a mean is drawn between in every group."""
    ends = [g["means"][name][end] for g in members for end in ("value", "lower", "upper")]
    known = [0.0, *(v for v in ends if v is not None)]
    return (min(known), max(known) if max(known) > min(known) else 1.0)


def model_metrics(audit: dict[str, Any]) -> list[str]:
    """What the models compared are measured by besides the constraints: accuracy, and AUC where one has it,
    or of rankings what they have."""
    models = audit["comparison"]
    own = [list(model["metrics"]) for model in models if "metrics" in model]
    if len(own) == len(models) and own:
        return own[0]
    return ["accuracy", "auc"] if any(model.get("auc") is not None for model in models) else ["accuracy"]


def metric_of(model: dict[str, Any], metric: str) -> float | None:
    """The value of one of them."""
    return model.get("metrics", model)[metric]


def compared(audit: dict[str, Any]) -> list[str]:
    """The texts of the constraints that any compared model is judged by, each once."""
    return list(dict.fromkeys(c["text"] for model in audit["comparison"] for c in model["constraints"]))
