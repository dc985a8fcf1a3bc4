"""`fairbound frontier`: train under a range of bounds and several seeds, and show what each bound costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fairbound.base.errors import OptionError
from fairbound.base.files import atomic_write_many, check_writable
from fairbound.base.interrupts import INTERRUPTED
from fairbound.base.locks import locked
from fairbound.base.records import versions
from fairbound.cli.explored import certifiable, explored
from fairbound.cli.fit import encoded, judge, judged_rows, train
from fairbound.cli.fitted import interrupted
from fairbound.cli.options import FrontierOptions
from fairbound.cli.outcome import Outcome, json_file, say
from fairbound.cli.rows import InputRows, Parts, Split, read_rows, split_rows
from fairbound.cli.stated import by_class, of_classes_only, of_two_classes, stated_bounds
from fairbound.cli.training import Trained
from fairbound.estimators.classifier import FairClassifier
from fairbound.estimators.feasibility import more_rows, worth_of_rows
from fairbound.estimators.knee import Bend, bend, said_of
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
    bounds = [stated_bounds([options.constraint.strip()], options.cross, number)[0] for number in numbers]
    return bounds[::-1] if bounds[0].sense == "at least" else bounds


def frontier(options: FrontierOptions) -> Outcome:
    """Train bounds x seeds models and one unconstrained model per seed; write frontier.json, charts and a page.

    Seed s decides split and training as in `fit --seed s`, so that every point can be had again by itself.
    """
    stated = stated_range(options)
    with locked(check_writable(options.out)):
        return _frontier(options, stated)


def _frontier(options: FrontierOptions, stated: list[Bound]) -> Outcome:
    rows = read_rows(options, not of_classes_only(stated), of_two_classes(stated))
    rows.check_bounds(stated)
    points: list[dict[str, Any]] = []
    bent = Bend(None, False)
    for seed in range(options.seed, options.seed + options.seeds):
        split = split_rows(rows, options.test_size, seed)
        found, wrong = _of_seed(replace(options, seed=seed), stated, rows, split, first=seed == options.seed)
        if not points:
            bent = _bend(found, stated[0].sense, wrong, rows.weight_of(split.test))
        points += found
        if _interrupted(points):
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
        "warnings": list(dict.fromkeys(line for point in first for line in point["warnings"])),
        "complete": not _interrupted(points),
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
    free = train(options, [], parts)
    shows_groups = first and len(rows.classes) == 2 and bool(rows.groups.attributes) and not by_class(stated)
    apart = Shown(parts, free) if shows_groups else None
    found = judge(options, [stated[-1]], parts, Trained(free, None, split, False))
    points, wrong = [_point(None, options.seed, found, free, apart)], [_wrong(parts, free)]
    for bound in stated:
        if _interrupted(points):
            break
        say(f"{rows.name}: seed {options.seed}, {bound.text}")
        classifier = train(options, [bound], parts)
        found = judge(options, [bound], parts, Trained(classifier, None, split, False))
        points.append(_point(bound, options.seed, found, classifier, apart))
        wrong.append(_wrong(parts, classifier))
    return points, np.stack(wrong)


def _wrong(parts: Parts, classifier: FairClassifier) -> np.ndarray:
    """(n,) the held-out rows that are given another label than their own."""
    found = judged_rows(classifier, parts.rows, parts.held, parts.split.test, by_class=True)
    return np.asarray(found["scores"] != found["y"])


def _interrupted(points: list[dict[str, Any]]) -> bool:
    return bool(points) and points[-1]["interrupted"]


class Shown:
    """The held-out rows of the seed whose models the page shows group by group,
    and the unconstrained model's scores there."""

    def __init__(self, parts: Parts, free: FairClassifier):
        self.parts, self.numbers = parts, parts.split.test
        self.free = self.scores(free)

    def scores(self, classifier: FairClassifier) -> np.ndarray:
        return np.asarray(judged_rows(classifier, self.parts.rows, self.parts.held, self.numbers)["scores"])

    def of(self, found: dict[str, Any], classifier: FairClassifier, bound: Bound | None) -> dict[str, Any]:
        """What the page shows of a model, and what more rows would buy where it was trained under a bound."""
        rows, scores = self.parts.rows, self.scores(classifier)
        groups, target = rows.groups.take(self.numbers), rows.target[self.numbers]
        out = explored(found, scores, target, groups, self.free)
        if bound is not None:
            labels = tuple(str(label_text(v)) for v in rows.classes)
            alpha = 1 - found["constraints"][0]["confidence"]
            out["more_rows"] = more_rows(
                Scored(
                    target,
                    (scores > 0).astype(np.int64),
                    labels,
                    scores,
                    groups,
                    rows.weight_of(self.numbers),
                    clusters=None if rows.units is None else rows.units[self.numbers],
                ),
                bound,
                alpha,
            )
        return out


def _bend(points: list[dict[str, Any]], sense: str, wrong: np.ndarray, weight: np.ndarray | None) -> Bend:
    """Where tighter bounds begin to cost more accuracy for each step. Arguments as of `bend`."""
    return bend([p | {"cost": 1 - p["accuracy"]} for p in points], "bound", sense, wrong, weight)


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


def _point(
    stated: Bound | None, seed: int, found: dict[str, Any], classifier: FairClassifier, apart: Shown | None
) -> dict[str, Any]:
    """One trained model: what was asked, and what its held-out rows say; of the first seed, group by group."""
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
        "train_value": trained[0]["train_value"] if trained else None,
        "feasible": facts["feasible"] if trained else None,
        "warnings": facts["warnings"] if trained else [],
        "seconds": facts["seconds"],
        "interrupted": interrupted(classifier),
        **({} if apart is None else apart.of(found, classifier, stated)),
    }


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
                "value": float(np.mean(values)) if values else None,
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
