"""Do intervals keep their promise? False verdicts and widths for gaps of mean losses, and for weighted rates.

Two groups, the larger with four times the rows; 95 % one-sided bounds of the gap |mean_1 - mean_2|. The bound put to the
test is the true gap itself, so "violated" is false, and "met" is false just below it: each may occur in 5 % of the runs.
Every law is tried with the small group above and below, and the worse of the two is shown. Laws: exponential losses;
mean 1 against 0.3; losses of an MLP (64-32, 30 passes over half of law school) on the other half, resampled, by race;
losses with mean 0.2 and with a loss of 20 in 1 of 200, against 1 of 1,000, rows. "clipped" methods bound the gap of losses of which those above 5 count as
5; Welch's t the gap of the losses themselves.

--weights: one rate and its two one-sided 97.5 % limits, from weighted rows, by law of weight and outcome; each limit may
be wrong in 2.5 % of the runs.

Prints one JSON object (a table in Markdown goes to standard error). Law school is left out where its file is not found.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from typing import Any

import numpy as np

from fairbound.base.errors import FairboundError
from fairbound.confidence.betting import mean_limits
from fairbound.confidence.contrasts import Contrasts
from fairbound.confidence.means import moments, welch_bounds
from fairbound.confidence.single import bernstein_width, clopper_pearson, effective_trials

ROWS = (10, 20, 50, 100, 200, 500, 2000)
TIMES = 4  # rows of the larger group for one of the smaller
MOST_DRAWN = 250_000  # rows of a case, all runs of a betting method together
CLIP = 5.0
ALPHA = 0.05
METHODS = ("Welch", "Welch, clipped", "MOVER of betting", "betting", "empirical Bernstein")


def law_school() -> tuple[np.ndarray, np.ndarray]:
    """Losses of the non-white and of the white students, on rows that the MLP was not trained on."""
    from sklearn.neural_network import MLPClassifier
    from sklearn.preprocessing import StandardScaler

    from fairbound.data import load

    data = load("law-school")
    x = StandardScaler().fit_transform(data.X)
    train = np.random.default_rng(0).random(len(x)) < 0.5
    model = MLPClassifier((64, 32), alpha=0.0, max_iter=30, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that 30 passes do not converge is intended
        p = model.fit(x[train], data.y[train]).predict_proba(x[~train])
    losses = -np.log(np.clip(p[np.arange(len(p)), data.y[~train]], 1e-12, None))
    white = data.group("race")[~train] == "White"
    return losses[~white], losses[white]


def laws() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Two populations of losses by name; samples are drawn from them with replacement."""
    rng = np.random.default_rng(1)
    size = 1_000_000
    exponential = rng.exponential(size=size), 0.3 * rng.exponential(size=size)
    rare = [0.2 * rng.exponential(size=size) + 20.0 * (rng.random(size) < often) for often in (0.005, 0.001)]
    made = {"exponential": exponential, "rare large losses": (rare[0], rare[1])}
    try:
        made["law school, MLP"] = law_school()
    except (FairboundError, OSError, ImportError) as error:
        print(f"law school is left out: {error}", file=sys.stderr)
    return made


def gap_bounds(method: str, x: np.ndarray, cell: np.ndarray, runs: int) -> tuple[np.ndarray, np.ndarray]:
    """(runs,) lower and upper bounds of |mean of cell 2 r - mean of cell 2 r + 1| for every run r."""
    m, v, n = (a.reshape(runs, 2) for a in moments(x, cell, 2 * runs))
    if method.startswith("Welch"):
        both = Contrasts(np.array([[0, 1], [0, 1]]), np.array([[1.0, -1.0], [-1.0, 1.0]]))
        found = [welch_bounds(*sample, both, ALPHA, 2) for sample in zip(m, v, n, strict=True)]
        return np.array([b.lower for b in found]), np.array([b.upper for b in found])
    level = ALPHA / 2 if method.startswith("MOVER") else ALPHA / 4
    if method == "empirical Bernstein":
        width = bernstein_width(v, n, level, CLIP)
        low, high = np.maximum(m - width, 0), np.minimum(m + width, CLIP)
    else:
        low, high = (a.reshape(runs, 2) for a in mean_limits(x, cell, 2 * runs, level, 0.0, CLIP))
    join = np.hypot if method.startswith("MOVER") else np.add
    gap = m[:, 0] - m[:, 1]
    over, under = join(high[:, 0] - m[:, 0], m[:, 1] - low[:, 1]), join(m[:, 0] - low[:, 0], high[:, 1] - m[:, 1])
    lower = np.maximum(np.maximum(gap - under, -gap - over), 0)
    return lower, np.maximum(gap + over, under - gap)


def losses_table(runs: int) -> list[dict[str, Any]]:
    out = []
    for law, populations in laws().items():
        for rows in ROWS:
            entry: dict[str, dict[str, float]] = {}
            for order in (0, 1):
                small, large = populations[order], populations[1 - order]
                rng = np.random.default_rng([rows, order])
                size = rows * (1 + TIMES)
                many = max(min(runs, 12 * MOST_DRAWN // size), 100)
                draws = np.concatenate(
                    [rng.choice(small, (many, rows)), rng.choice(large, (many, TIMES * rows))], axis=1
                )
                few = max(min(runs, MOST_DRAWN // size), 100)
                for method in METHODS:
                    repeats = many if method.startswith("Welch") else few
                    cell = np.repeat(np.arange(2 * repeats), np.tile([rows, TIMES * rows], repeats))
                    limit = np.inf if method == "Welch" else CLIP
                    truth = abs(np.minimum(small, limit).mean() - np.minimum(large, limit).mean())
                    lower, upper = gap_bounds(method, np.minimum(draws[:repeats].ravel(), limit), cell, repeats)
                    here = {
                        "violated": float((lower > truth).mean()),
                        "met": float((upper < truth).mean()),
                        "width": float((upper - truth).mean()),
                    }
                    worst = entry.setdefault(method, here)
                    entry[method] = {key: max(value, here[key]) for key, value in worst.items()}
            out.append({"law": law, "rows": rows, "runs": {"Welch": many, "others": few}, "methods": entry})
            print(_loss_row(out[-1]), file=sys.stderr, flush=True)
    return out


def _loss_row(entry: dict[str, Any]) -> str:
    cells = [f"{100 * e['violated']:.1f} / {100 * e['met']:.1f} ({e['width']:.2f})" for e in entry["methods"].values()]
    return f"| {entry['law']} | {entry['rows']:,} | " + " | ".join(cells) + " |"


WEIGHTED = {
    "apart from the outcome, log-normal (0.5)": lambda rng, z: rng.lognormal(sigma=0.5, size=z.shape),
    "4 with the outcome, else 1": lambda rng, z: np.where(z, 4.0, 1.0),
    "1 with the outcome, else 4": lambda rng, z: np.where(z, 1.0, 4.0),
    "log-normal (0.5), doubled with the outcome": lambda rng, z: (
        rng.lognormal(sigma=0.5, size=z.shape) * np.where(z, 2.0, 1.0)
    ),
    "10 in a tenth of rows, more often with the outcome": lambda rng, z: np.where(
        rng.random(z.shape) < np.where(z, 0.3, 0.05), 10.0, 1.0
    ),
}


def weights_table(runs: int) -> list[dict[str, Any]]:
    out = []
    for law, weigh in WEIGHTED.items():
        for rate in (0.1, 0.4):
            big = np.random.default_rng(0).random(2_000_000) < rate
            w = weigh(np.random.default_rng(1), big)
            truth = float(w[big].sum() / w.sum())
            for rows in (50, 100, 400):
                rng = np.random.default_rng([rows, 2])
                z = rng.random((runs, rows)) < rate
                w = weigh(rng, z)
                sums = (w * z).sum(1), w.sum(1), (w * w * z).sum(1), (w * w).sum(1)
                share, kish = sums[0] / sums[1], sums[1] ** 2 / sums[3]
                sizes = {
                    "rows": np.full(runs, float(rows)),
                    "Kish": kish,
                    "effective_trials": effective_trials(*sums)[1],
                }
                limits = {
                    name: (
                        clopper_pearson(share * n, n, ALPHA / 2, "lower")[0],
                        clopper_pearson(share * n, n, ALPHA / 2, "upper")[1],
                    )
                    for name, n in sizes.items()
                }
                cell = np.repeat(np.arange(runs), rows)
                limits["betting"] = mean_limits(z.ravel(), cell, runs, ALPHA / 2, weights=w.ravel())
                entry = {
                    name: {
                        "above": float((low > truth).mean()),
                        "below": float((high < truth).mean()),
                        "width": float((high - low).mean()),
                    }
                    for name, (low, high) in limits.items()
                }
                out.append({"law": law, "rate": truth, "rows": rows, "runs": runs, "methods": entry})
                print(_weight_row(out[-1]), file=sys.stderr, flush=True)
    return out


def _weight_row(entry: dict[str, Any]) -> str:
    cells = [f"{100 * e['above']:.1f} / {100 * e['below']:.1f} ({e['width']:.2f})" for e in entry["methods"].values()]
    return f"| {entry['law']} | {entry['rate']:.2f} | {entry['rows']} | " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", action="store_true", help="weighted rates instead of gaps of losses")
    parser.add_argument("--runs", type=int, default=1000, help="runs of each case; fewer where rows are many")
    given = parser.parse_args()
    start = time.process_time()
    table = weights_table(given.runs) if given.weights else losses_table(given.runs)
    print(json.dumps({"table": table, "processor_seconds": round(time.process_time() - start, 1)}))


if __name__ == "__main__":
    main()
