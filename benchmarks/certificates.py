"""How often a certified bound is broken, how often one is given, and what it costs: resamples of a population that is known.

    python benchmarks/certificates.py acs-parity --rows 20000 --resamples 100
    python benchmarks/certificates.py table      # of all that was measured into --out

A resample is a random part of the population; the truth is measured on the rest of it (at most 300,000 rows; of the generator,
on 300,000 new rows). "Broken" counts certificates "met" whose model breaks the stated bound there; its interval is Clopper-Pearson's, 95 %.
"Cost" is the accuracy there of the model that is trained under the stated bound on all rows of the resample, less that of the one certified.
Models are linear, without knots and weight decay.
Every finding is appended to --out, where a later call goes on.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import fairbound as fb
from fairbound.base.errors import CertificateWarning
from fairbound.confidence.single import clopper_pearson
from fairbound.data.generator import GaussianParity
from fairbound.estimators.judged_rows import LabelledRows

TRUTH = 300_000
PLAIN: dict[str, Any] = {"options": fb.TableOptions(knots=0), "weight_decay": 0}
CASES = {
    "acs-parity": ("acs", "demographic_parity <= 0.05", ("sex",)),
    "acs-odds": ("acs", "equalized_odds <= 0.05", ("sex",)),
    "acs-crossed": ("acs", "demographic_parity[crossed] <= 0.05", ("race_binary", "sex")),
    "generator-parity": ("generator", "demographic_parity <= 0.05", ("group",)),
}
GENERATOR = GaussianParity(proportions=(0.6, 0.4), base_rates=(0.5, 0.35), centres=(0.0, -0.3), separations=(1.5, 1.5))


class Population:
    """Features, labels and groups; `part(seed, n)` gives a resample and the rows that tell the truth."""

    def __init__(self, name: str, attributes: tuple[str, ...]):
        self.generated = name == "generator"
        if self.generated:
            return
        data = fb.data.load("acs-income-us-46pct")
        kept = data.without(*attributes)
        self.X = kept.features.to_numpy(dtype=np.float32)
        self.y = data.y
        self.groups = fb.Groups.of({name: data.group(name) for name in attributes})

    def part(self, seed: int, n: int):
        rng = np.random.default_rng(seed)
        if self.generated:
            made = GENERATOR.sample(n + TRUTH, seed)
            rows = np.arange(n + TRUTH)
            X, y, groups = made.X, made.y, fb.Groups.of({"group": made.group("group")})
        else:
            rows = rng.permutation(len(self.y))[: n + TRUTH]
            X, y, groups = self.X, self.y, self.groups
        return [(X[i], y[i], groups.take(i)) for i in (np.sort(rows[:n]), np.sort(rows[n:]))]


def resample(population: Population, text: str, n: int, seed: int) -> dict:
    """One resample: the certificate, the true value of its model, and what both models reach on the rest."""
    (X, y, groups), (rest, labels, known) = population.part(seed, n)
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CertificateWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        plain = fb.FairClassifier(text, **PLAIN).fit(X, y, sensitive_features=groups)
        between = time.process_time()
        fair = fb.FairClassifier(text, certify=True, **PLAIN).fit(X, y, sensitive_features=groups)
    ended = time.process_time()
    if "interrupted" in (plain.solution_.stopped, fair.solution_.stopped):
        raise KeyboardInterrupt
    bound = fb.constraint(text)
    truth = {}
    for name, model in (("plain", plain), ("fair", fair)):
        rows = LabelledRows(rest, labels, (0, 1), known, None).scored(model, 0.95)
        truth[name] = {"value": bound.measure(rows), "accuracy": float((~rows.wrong).mean())}
    made = fair.fit_report_["certificate"]
    return {
        "seed": seed,
        "verdict": made["verdict"],
        "rows_needed": made["rows_needed"],
        "upper": made["upper"],
        "broken": made["verdict"] == "met" and truth["fair"]["value"] > bound.bound,
        "plain_broken": truth["plain"]["value"] > bound.bound,
        "cost": truth["plain"]["accuracy"] - truth["fair"]["accuracy"],
        "truth": truth,
        "seconds": [between - begun, ended - between],
    }


def line(case: str, n: int, found: list[dict]) -> str:
    """A row of the table."""
    r, broken = len(found), sum(f["broken"] for f in found)
    met = [f for f in found if f["verdict"] == "met"]
    low, high = (float(v) for v in clopper_pearson(broken, r, 0.05))
    cost = f"{np.mean([f['cost'] for f in met]):.4f}" if met else "-"
    needed = [f["rows_needed"] for f in found if f["rows_needed"]]
    return (
        f"| {case} | {n:,} | {r} | {sum(f['plain_broken'] for f in found) / r:.0%} | {broken} ({low:.1%} to {high:.1%}) | "
        f"{len(met) / r:.0%} | {cost} | {f'{int(np.median(needed)):,}' if needed else '-'} | "
        f"{np.mean([f['seconds'][1] / f['seconds'][0] for f in found]):.1f} |"
    )


HEAD = """| case | rows | resamples | uncertified model breaks the bound | certified bound broken (95 % interval) | met | cost in accuracy where met | rows that would decide, median | time of the uncertified fit |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |"""


def measured(folder: Path, case: str, rows: int) -> list[dict]:
    """The findings that the folder holds."""
    kept = folder / f"{case}-{rows}.jsonl"
    return [json.loads(row) for row in kept.read_text().splitlines()] if kept.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("case", choices=[*CASES, "table"])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--resamples", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("certificates-out"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    print(HEAD, flush=True)
    if given.case == "table":
        sizes = [path.stem.rpartition("-") for path in given.out.glob("*.jsonl")]
        for case, rows in sorted((case, int(rows)) for case, _, rows in sizes):
            print(line(case, rows, measured(given.out, case, rows)))
        return
    source, text, attributes = CASES[given.case]
    found = measured(given.out, given.case, given.rows)
    population = Population(source, attributes)
    for seed in range(len(found), given.resamples):
        found.append(resample(population, text, given.rows, seed))
        with (given.out / f"{given.case}-{given.rows}.jsonl").open("a") as file:
            file.write(json.dumps(found[-1]) + "\n")
    print(line(given.case, given.rows, found[: given.resamples]))


if __name__ == "__main__":
    main()
