"""Do the intervals of `auc_parity` keep their promise? False verdicts of simulated audits, by notion, law and rows.

Two groups of the same number of rows, or the second four times as large ("1:4"); 40 % of the rows are positive. The bound put
to the test is the true gap itself, so that "violated" is false, and "met" is false just below it: each may occur in 5 % of
the audits. The true gap is that of a population of a million rows, from which audits are drawn with replacement. Laws:
normal scores with areas 0.85 and 0.75 inside the groups and one group shifted; the same near 1 (0.99 and 0.96); with ties
(rounded to whole numbers); with exponential scores; and no difference at all.

Prints one JSON object: percent of false "met" / false "violated" and the mean distance of the upper bound from the true gap;
by rows the largest of each percentage, and the mean of the distances.
"""

from __future__ import annotations

import argparse
import json
import sys

import numpy as np
from scipy.stats import norm

import fairbound as fb
from fairbound.fairness.scored import Scored
from fairbound.rows.groups import Groups

ROWS = (20, 100, 1000)  # of the smaller group
KINDS = ("group", "inter", "intra", "positive", "bpsn", "bpsn_bnsp")
POPULATION = 1_000_000
ALPHA = 0.05


def law(name: str, times: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, labels and groups (0, 1) of a population, of group 1 `times` as many."""
    group, y = (rng.random(POPULATION) > 1 / (1 + times)).astype(int), (rng.random(POPULATION) < 0.4).astype(int)
    if name == "exponential":
        return rng.exponential(size=POPULATION) * np.where(y == 1, np.where(group == 0, 6.0, 3.0), 1.0), y, group
    area = {"near 1": (0.99, 0.96), "no difference": (0.8, 0.8)}.get(name, (0.85, 0.75))
    ahead = np.sqrt(2) * norm.ppf(np.array(area))[group]
    shift = 0.0 if name == "no difference" else 0.3
    s = rng.normal(size=POPULATION) + ahead * y + shift * group
    return s.round() if name == "ties" else s, y, group


def false_verdicts(name: str, rows: int, times: int, audits: int) -> dict[str, tuple[float, float, float]]:
    """By kind: shares of audits whose upper bound is below, and whose lower bound is above, the true gap; mean upper - gap."""
    rng = np.random.default_rng(0)
    s, y, group = law(name, times, rng)
    places = [np.flatnonzero(group == g) for g in (0, 1)]
    bounds = {kind: fb.constraint(f"auc_parity[{kind}]", bound=0.0) for kind in KINDS}

    def scored(at: np.ndarray | slice) -> Scored:
        return Scored(y[at], y[at], scores=s[at], groups=Groups(group[at][:, None], ("g",), (("a", "b"),)))

    gaps = {kind: bound.measure(scored(slice(None))) for kind, bound in bounds.items()}
    found = {kind: np.zeros(3) for kind in KINDS}
    for _ in range(audits):
        held = scored(np.concatenate([rng.choice(p, n) for p, n in zip(places, (rows, rows * times), strict=True)]))
        for kind, gap in gaps.items():
            made = bounds[kind].judge(held, ALPHA)
            if made["value"] is not None:
                found[kind] += (made["upper"] < gap, made["lower"] > gap, made["upper"] - gap)
    return {kind: tuple((sums / audits).tolist()) for kind, sums in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--audits", type=int, default=500)
    parser.add_argument("--rows", type=int, nargs="*", default=list(ROWS))
    options = parser.parse_args()
    found: dict[str, str] = {}
    worst: dict[int, list[tuple[float, float, float]]] = {}
    for rows in options.rows:
        for times in (1, 4):
            for name in ("normal", "near 1", "ties", "exponential", "no difference"):
                for kind, (below, above, far) in false_verdicts(name, rows, times, options.audits).items():
                    key = f"{rows} rows, 1:{times}, {name}, {kind}"
                    found[key] = f"{100 * below:.1f} / {100 * above:.1f} ({far:.3f})"
                    print(f"{key}: {found[key]}", file=sys.stderr, flush=True)
                    worst.setdefault(rows, []).append((100 * below, 100 * above, far))
    summary = {}
    for rows, seen in worst.items():
        below, above, far = np.array(seen).T
        summary[rows] = {
            "met": round(below.max(), 1),
            "violated": round(above.max(), 1),
            "distance": round(far.mean(), 3),
        }
    print(json.dumps({"audits": options.audits, "false met / violated (width)": found, "worst": summary}, indent=1))


if __name__ == "__main__":
    main()
