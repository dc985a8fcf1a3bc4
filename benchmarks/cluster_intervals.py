"""How often verdicts on a difference of two groups' rates are wrong where persons have several rows each.

Every person has a rate of positive decisions of their own, by a beta law; "alike" is the correlation of two decisions
on one person (0 for independent rows, 1 for the same decision always). The true difference is the bound itself, so that
"met" and "violated" are both wrong; 5 % of each are promised. Worst of three pairs of rates (0.5 and 0.4, 0.3 and 0.15,
0.1 and 0.05) and of second groups as large as the first and four times as large.

    python benchmarks/cluster_intervals.py [--runs 1000]
"""

from __future__ import annotations

import argparse

import numpy as np

from fairbound.confidence.betting import mean_limits
from fairbound.confidence.contrasts import Contrasts
from fairbound.confidence.effective_rows import ClusterSums, clustered_trials
from fairbound.confidence.rates import largest_lower, rate_upper_bounds

ALPHA = 0.05
BETS = 50  # runs of the slower limits
RATES = ((0.5, 0.4), (0.3, 0.15), (0.1, 0.05))
ONE = [Contrasts(np.array([[0, 1]]), np.array([[sign, -sign]])) for sign in (1.0, -1.0)]
BOTH = Contrasts(np.array([[0, 1], [1, 0]]), np.array([[1.0, -1.0], [1.0, -1.0]]))
SIZES = {
    "1": lambda rng, shape: np.ones(shape, dtype=int),
    "5": lambda rng, shape: np.full(shape, 5),
    "1 to 20": lambda rng, shape: rng.integers(1, 21, shape),
    "20 of one person in ten, else 1": lambda rng, shape: np.where(rng.random(shape) < 0.1, 20, 1),
    "10 with the person's rate, else 2": None,
}

MOST = {"1": 1.0, "5": 5.0, "10 with the person's rate, else 2": 10.0}  # rows of a person; 20 for the others


def drawn(
    rng: np.random.Generator, sizes: str, rate: float, alike: float, shape: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Positive decisions and rows (runs, persons) whose rate over all rows is `rate`."""
    of_size = SIZES[sizes]
    mean = rate if of_size else _mean_of_persons(rate, alike)
    if alike in (0, 1):
        own = np.full(shape, mean) if not alike else (rng.random(shape) < mean).astype(float)
    else:
        own = rng.beta(mean * (1 / alike - 1), (1 - mean) * (1 / alike - 1), shape)
    rows = of_size(rng, shape) if of_size else np.where(rng.random(shape) < own, 10, 2)
    return rng.binomial(rows, own), rows


def _mean_of_persons(rate: float, alike: float) -> float:
    """The mean m of the persons' rates with E[p (2 + 8 p)] / E[2 + 8 p] = rate, E[p^2] = m^2 + alike m (1 - m)."""
    a, b, c = 8 * (1 - alike), 2 + 8 * alike - 8 * rate, -2 * rate
    return -c / b if not a else (-b + np.sqrt(b * b - 4 * a * c)) / (2 * a)


def wrong(x: np.ndarray, n: np.ndarray, bound: float) -> tuple[float, float, float]:
    """Percent of false "met" and false "violated", and the mean excess of the upper bound; x, n: (runs, 2)."""
    upper = np.max([rate_upper_bounds(x, n, one, ALPHA)[:, 0] for one in ONE], 0)
    lower = largest_lower(x, n, BOTH, ALPHA)
    return 100 * float((upper < bound).mean()), 100 * float((lower > bound).mean()), float(upper.mean()) - bound


def betting(sums: ClusterSums, runs: int, bound: float, most: float) -> tuple[float, float, float]:
    """As `wrong` on the first runs, of guaranteed limits of the means of persons, weighted by their rows."""
    few = min(runs, BETS)
    mine = sums.cell < 2 * few
    cell, cluster, total, weight = (part[mine] for part in sums[:4])
    sums = ClusterSums(cell, cluster, total, weight, 2 * few, sums.clusters)
    found = []
    for level in (ALPHA / 2, ALPHA / 4):
        low, high = mean_limits(
            sums.total / sums.weight, sums.cell, sums.cells, level, weights=sums.weight, largest_weight=most
        )
        low, high = low.reshape(few, 2), high.reshape(few, 2)
        found.append(
            (
                np.maximum(high[:, 0] - low[:, 1], high[:, 1] - low[:, 0]),
                np.maximum(low[:, 0] - high[:, 1], low[:, 1] - high[:, 0]),
            )
        )
    upper, lower = found[0][0], found[1][1]
    return 100 * float((upper < bound).mean()), 100 * float((lower > bound).mean()), float(upper.mean()) - bound


def measured(sizes: str, alike: float, persons: int, runs: int) -> list[tuple[float, float, float]]:
    """Worst "met" and "violated" and the mean excess: by rows, by effective numbers, by betting."""
    out = []
    for case, (first, second) in enumerate(RATES):
        for times in (1, 4):
            rng = np.random.default_rng([list(SIZES).index(sizes), int(10 * alike), persons, case, times])
            pairs = [drawn(rng, sizes, p, alike, (runs, q)) for p, q in ((first, persons), (second, times * persons))]
            x, n = (np.stack([pair[k].sum(1) for pair in pairs], 1).astype(float) for k in (0, 1))
            cells = [np.repeat(2 * np.arange(runs) + g, pair[0].shape[1]) for g, pair in enumerate(pairs)]
            total, weight = (np.concatenate([pair[k].ravel() for pair in pairs]).astype(float) for k in (0, 1))
            cell = np.concatenate(cells)
            sums = ClusterSums(cell, np.arange(len(cell)), total, weight, 2 * runs, len(cell))
            successes, trials = (part.reshape(runs, 2) for part in clustered_trials(sums, n.ravel()))
            bound = first - second
            out.append(
                (wrong(x, n, bound), wrong(successes, trials, bound), betting(sums, runs, bound, MOST.get(sizes, 20.0)))
            )
    found = np.array(out)
    return [(*found[:, k, :2].max(0), found[:, k, 2].mean()) for k in range(3)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    runs = parser.parse_args().runs
    print("| rows of a person | alike | persons of the first group | by rows | by persons | betting |")
    print("| --- | --- | --- | --- | --- | --- |")
    for sizes in SIZES:
        for alike in (0.0,) if sizes == "1" else (0.3, 1.0):
            for persons in (40, 400):
                cells = [f"{m:.1f} / {v:.1f} ({e:.3f})" for m, v, e in measured(sizes, alike, persons, runs)]
                print(f"| {sizes} | {alike:g} | {persons} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
