"""`fairbound frontier`: train under a range of bounds and several seeds, and show what each bound costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fairbound.audits.audit import audit
from fairbound.base.errors import OptionError
from fairbound.base.files import atomic_write_many
from fairbound.base.interrupts import INTERRUPTED
from fairbound.base.records import versions
from fairbound.base.verdicts import left_out, of_left_out
from fairbound.cli.bounds import bounds_of_texts, by_class, check_of_classes, of_classes_only, of_two_classes
from fairbound.cli.files.advice import for_commands
from fairbound.cli.files.outcome import Outcome, json_file, say
from fairbound.cli.files.saved_model import interrupted
from fairbound.cli.options.training import FrontierOptions
from fairbound.cli.training.fit import encoded, judged_rows, train
from fairbound.cli.training.frontier_page import certifiable, shown_by_group
from fairbound.cli.training.rows import InputRows, rows_of_options
from fairbound.cli.training.splitting import Split, split_rows
from fairbound.estimators.classifier import FairClassifier
from fairbound.estimators.feasibility import more_rows, worth_of_rows
from fairbound.estimators.knee import said_of, sure_knee
from fairbound.fairness.notions import Bound
from fairbound.fairness.scored import Scored
from fairbound.report.frontier import frontier_chart, frontier_page, frontier_table
from fairbound.rows.groups import label_text

SCHEMA = "fairbound.frontier/1"


def stated_range(options: FrontierOptions) -> list[Bound]:
    """One bound for each number, the loosest last."""
    try:
        numbers = sorted({float(part) for part in options.bounds.split(",")})
    except ValueError:
        raise OptionError(f"--bounds must be numbers separated by commas, got {options.bounds!r}.") from None
    bounds = [bounds_of_texts([options.constraint.strip()], options.cross, number)[0] for number in numbers]
    return bounds[::-1] if bounds[0].sense == "at least" else bounds


def run_frontier(options: FrontierOptions) -> Outcome:
    """Train bounds x seeds models and one unconstrained model per seed; write frontier.json, charts and a page.

    Seed s decides split and training as in `fit --seed s`, so that every point can be had again by itself.
    """
    stated = stated_range(options)
    check_of_classes(stated, "frontier")
    rows = rows_of_options(options, not of_classes_only(stated), of_two_classes(stated))
    rows.check_bounds(stated)
    points: list[dict[str, Any]] = []
    for seed in range(options.seed, options.seed + options.seeds):
        split = split_rows(rows, options.test_size, seed)
        found, wrong = _of_seed(replace(options, seed=seed), stated, rows, split, first=seed == options.seed)
        if seed == options.seed:
            curve = [p | {"cost": 1 - p["accuracy"]} for p in found]
            bent = sure_knee(curve, "bound", stated[0].sense, wrong, rows.weight_of(split.test))
        points += found
        if points[-1]["interrupted"]:
            break
    first = [p for p in points if p["seed"] == options.seed]
    made = certifiable(first, stated[0].sense)
    knee = None if bent.at is None else first[bent.at]["bound"]
    result = {
        "schema": SCHEMA,
        "data": rows.name,
        "label": rows.label,
        "sensitive": list(rows.groups.attributes),
        "notion": stated[0].statement,
        "sense": stated[0].sense,
        "confidence": options.confidence,
        "split": split.words.replace(f", seed {seed}", ", another split for each seed"),
        "model": options.model,
        "points": points,
        "certificates": made,
        "knee": knee,
        "advice": _advice(made, said_of(knee, bent.flat), points, options.seed, stated[0].sense),
        "warnings": list(
            dict.fromkeys(line for point in first for line in (*point["warnings"], *_left_out_warnings(point)))
        ),
        "complete": not points[-1]["interrupted"],
        "summary": _summary(points, stated),
        "library": versions(),
        "seconds": sum(p["seconds"] for p in points),
        "seed": options.seed,
        "out": str(options.out),
    }
    files = {"frontier.json": json_file(result), **frontier_chart(result)}
    files["report.html"] = frontier_page(result).encode()
    atomic_write_many(options.out, files, removed=list(files))
    warned = "".join(f"warning: {line}\n\n" for line in result["warnings"])
    text = f"{frontier_table(result)}\n\n{warned}" + "\n".join(str(options.out / name) for name in files)
    if result["complete"]:
        return Outcome(result, text)
    asked = options.seeds * (1 + len(stated))
    stopped = f"Interrupted after {len(points)} of {asked} models; the last one was cut short."
    return Outcome(result, f"{stopped}\n\n{text}", INTERRUPTED)


def _of_seed(
    options: FrontierOptions, stated: list[Bound], rows: InputRows, split: Split, first: bool
) -> tuple[list[dict[str, Any]], np.ndarray]:
    """The points of one seed, without a bound, then under each, and (k, n) the held-out rows that each decides wrong.
    first: whether the page shows it group by group."""
    parts = encoded(options, rows, split)
    by_group = first and len(rows.classes) == 2 and bool(rows.groups.attributes) and not by_class(stated)
    points: list[dict[str, Any]] = []
    wrong, free = [], None
    for bound in [None, *stated]:
        if bound is not None:
            say(f"{rows.name}: seed {options.seed}, {bound.text}")
        classifier = train(options, [] if bound is None else [bound], parts, beside=bound is None)
        held = judged_rows(classifier, rows, parts.held, split.test, by_class=by_class(stated))
        found = audit(**held, constraint=bound or stated[-1], confidence=options.confidence)
        point = _point(bound, options.seed, found, classifier)
        if bound is None:
            learnt = judged_rows(classifier, rows, parts.train, split.train, by_class=by_class(stated))
            point["train_value"] = audit(**learnt, constraint=stated[-1])["constraints"][0]["value"]
        free = held["scores"] if free is None else free
        points.append(point | _of_groups(found, held, free, bound) if by_group else point)
        wrong.append((held["scores"] > 0 if "threshold" in held else held["scores"]) != held["y"])
        if point["interrupted"]:
            break
    return points, np.stack(wrong)


def _of_groups(found: dict[str, Any], held: dict[str, Any], free: np.ndarray, bound: Bound | None) -> dict[str, Any]:
    """What the page shows of a model group by group, and what more rows would buy where it was trained under a bound.
    found: its audit; held: what that was given; free: (n,) the unconstrained model's scores."""
    scores, target, groups = held["scores"], held["y"], held["sensitive_features"]
    out = shown_by_group(found, scores, target, groups, free)
    if bound is not None:
        labels = tuple(str(label_text(v)) for v in held["classes"])
        decided = (scores > 0).astype(np.int64)
        weight, clusters = held["sample_weight"], held.get("clusters")
        rows = Scored(target, decided, labels, scores, groups, weight, clusters=clusters)
        out["more_rows"] = more_rows(rows, bound, 1 - found["constraints"][0]["confidence"])
    return out


def _advice(made: list[dict[str, Any]], bent: str, points: list[dict[str, Any]], seed: int, sense: str) -> str:
    """Which bound to take: the tightest that a certificate would confirm, and what is said of the knee (`bent`)."""
    met = [c for c in made if c["verdict"] == "met"]
    first = [p for p in points if p["seed"] == seed and p["bound"] is not None and p["value"] is not None]
    said = []
    if first:
        values = [p["value"] for p in first]
        which, best = ("largest", max(values)) if sense == "at least" else ("smallest", min(values))
        said.append(f"The {which} value that the models of seed {seed} reach on held-out rows is {best:.4f}.")
    if met:
        said.append(
            f"The tightest of these bounds that a certificate would confirm is {met[0]['bound']:g}, by the model trained under "
            f"{met[0]['trained_under']:g}."
        )
    elif made:
        said.append("None of these bounds would be confirmed by a certificate on these rows.")
    said.append(bent)
    chosen = [p for p in first if p["bound"] == (met[0]["trained_under"] if met else p["bound"]) and p.get("more_rows")]
    if chosen:
        nearest = (max if sense == "at least" else min)(chosen, key=lambda p: p["value"])
        said.append(worth_of_rows(nearest["more_rows"]))
    return " ".join(filter(None, said))


def _point(stated: Bound | None, seed: int, found: dict[str, Any], classifier: FairClassifier) -> dict[str, Any]:
    """One trained model: what was asked, and what its held-out rows say."""
    judged, facts = found["constraints"][0], classifier.fit_report_
    trained = facts["constraints"]
    return {
        "bound": None if stated is None else stated.stated,
        "seed": seed,
        "accuracy": found["metrics"]["accuracy"],
        "auc": found["metrics"].get("auc"),
        "value": judged["value"],
        "lower": judged["lower"],
        "upper": judged["upper"],
        "verdict": None if stated is None else judged["verdict"],
        **of_left_out(judged),
        "train_value": trained[0]["train_value"] if trained else None,
        "feasible": facts["feasible"] if trained else None,
        "warnings": [for_commands(said) for said in facts["warnings"]] if trained else [],
        "seconds": facts["seconds"],
        "interrupted": interrupted(classifier),
    }


def _left_out_warnings(point: dict[str, Any]) -> list[str]:
    """What a reader must know of groups that the bound leaves out on the held-out rows."""
    said = left_out([point]).strip() if "left_out" in point else ""
    return [f"Rows held out with seed {point['seed']}: {said[0].lower()}{said[1:]}"] if said else []


def _summary(points: list[dict[str, Any]], stated: list[Bound]) -> list[dict[str, Any]]:
    """For each bound, the loosest last, the mean over the seeds, and the smallest and largest measured value."""
    out, trained = [], {p["bound"] for p in points}
    for bound in [*(b.stated for b in stated if b.stated in trained), None]:
        rows = [p for p in points if p["bound"] == bound]
        values = [p["value"] for p in rows if p["value"] is not None]
        out.append(
            {
                "bound": bound,
                "n": len(rows),
                "accuracy": _mean(rows, "accuracy"),
                "auc": _mean(rows, "auc"),
                "value": _mean(rows, "value"),
                "smallest": min(values, default=None),
                "largest": max(values, default=None),
                "train_value": _mean(rows, "train_value"),
                "verdicts": {v: sum(p["verdict"] == v for p in rows) for v in ("met", "violated", "insufficient")},
            }
        )
    return out


def _mean(rows: list[dict[str, Any]], key: str) -> float | None:
    known = [r[key] for r in rows if r[key] is not None]
    return float(np.mean(known)) if known else None
