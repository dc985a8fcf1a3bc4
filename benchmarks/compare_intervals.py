"""How often the interval of `fb.compare` for the difference of a bound's value is wrong, and how wide it is.

Rows of groups are decided by two models whose decisions on a row are tied: a share "same" of the rows has one uniform
number for both, which each compares with its own rate of the group (so that one of them selects whom the other does, and
more). 95 % intervals: 2.5 % may lie too high, 2.5 % too low. No data.

    python benchmarks/compare_intervals.py [--runs 1000] [--losses]
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np

import fairbound as fb

PARITY, ODDS, RATIO = "demographic_parity <= 1", "equalized_odds <= 1", "demographic_parity_ratio >= 0.8"
POSITIVE = 0.4
# rows, shares of the groups, their rates by each model (of negatives, of positives, where these differ), same, bound
DECIDED: list[tuple[int, list[float], Any, Any, float, str]] = [
    (1000, [0.96, 0.04], [0.5, 0.95], [0.5, 0.9], 0.9, PARITY),
    (1000, [0.96, 0.04], [0.5, 0.95], [0.5, 0.95], 0.9, PARITY),
    (1000, [0.9, 0.1], [0.5, 0.97], [0.5, 0.95], 0.9, PARITY),
    (400, [0.5, 0.5], [0.0, 0.05], [0.0, 0.02], 0.9, PARITY),
    (1000, [0.9, 0.1], [0.5, 0.1], [0.5, 0.05], 0.9, PARITY),
    (1000, [0.9, 0.1], [0.5, 0.1], [0.5, 0.05], 0.9, "demographic_parity[overall] <= 1"),
    (1000, [0.5, 0.5], [0.0, 0.1], [0.0, 0.05], 0.9, PARITY),
    (1000, [0.96, 0.04], [0.3, 0.6], [0.3, 0.5], 0.9, PARITY),
    (500, [0.7, 0.3], [0.3, 0.5], [0.3, 0.4], 0.7, PARITY),
    (500, [0.7, 0.3], [0.3, 0.5], [0.3, 0.4], 0.0, PARITY),
    (500, [0.7, 0.3], [0.3, 0.5], [0.3, 0.5], 0.999, PARITY),
    (200, [0.7, 0.3], [0.03, 0.06], [0.03, 0.03], 0.9, PARITY),
    (400, [0.5, 0.5], [0.0, 1.0], [0.0, 1.0], 0.9, PARITY),
    (400, [0.5, 0.5], [0.0, 1.0], [0.02, 0.98], 0.9, PARITY),
    (1000, [0.5, 0.5], [0.3, 0.3], [0.3, 0.3], 0.8, PARITY),
    (1000, [0.5, 0.5], [0.3, 0.3], [0.3, 0.3], 1.0, PARITY),
    (5500, [0.9, 0.1], [0.9, 0.88], [0.9, 0.88], 1.0, PARITY),
    (1000, [0.5, 0.5], [0.3, 0.3], [0.3, 0.6], 0.0, PARITY),
    (1000, [0.5, 0.5], [0.3, 0.3], [0.3, 0.45], 0.8, PARITY),
    (5000, [0.5, 0.5], [0.3, 0.3], [0.3, 0.4], 0.8, PARITY),
    (1000, [0.4, 0.3, 0.3], [0.3] * 3, [0.3, 0.3, 0.45], 0.5, PARITY),
    (1000, [0.4, 0.3, 0.3], [0.3, 0.3, 0.5], [0.3, 0.4, 0.45], 0.8, PARITY),
    (1000, [0.2] * 5, [0.3] * 5, [0.3] * 5, 0.8, PARITY),
    (1000, [0.2] * 5, [0.3] * 4 + [0.4], [0.3] * 5, 0.8, PARITY),
    (1000, [0.2] * 5, [0.2] * 4 + [0.6], [0.2] * 4 + [0.5], 0.8, PARITY),
    (1000, [0.7, 0.3], [[0.2, 0.3], [0.7, 0.5]], [[0.2, 0.25], [0.7, 0.6]], 0.8, ODDS),
    (1000, [0.9, 0.1], [[0.02, 0.1], [0.9, 0.95]], [[0.02, 0.05], [0.9, 0.9]], 0.9, ODDS),
    (500, [0.7, 0.3], [0.3, 0.15], [0.3, 0.24], 0.8, RATIO),
    (2000, [0.7, 0.3], [0.3, 0.15], [0.3, 0.21], 0.8, RATIO),
    (1000, [0.7, 0.3], [0.05, 0.1], [0.05, 0.05], 0.8, RATIO),
    (1000, [0.2] * 5, [0.3] * 4 + [0.2], [0.3] * 5, 0.8, RATIO),
    (1000, [0.5, 0.5], [0.3, 0.3], [0.3, 0.2], 0.5, RATIO),
    (1000, [0.5, 0.5], [0.3, 0.3], [0.3, 0.3], 0.8, RATIO),
    (800, [0.25] * 4, [0.3] * 4, [0.3] * 4, 0.0, RATIO),
    (800, [0.25] * 4, [0.3] * 4, [0.3] * 4, 0.5, RATIO),
    (800, [0.25] * 4, [0.3] * 4, [0.3] * 3 + [0.24], 0.0, RATIO),
    (800, [0.25] * 4, [0.3] * 4, [0.2, 0.3, 0.3, 0.45], 0.8, RATIO),
    (1000, [0.4, 0.3, 0.3], [0.1] * 3, [0.1, 0.1, 0.05], 0.9, RATIO),
    (6000, [0.4, 0.3, 0.3], [0.3] * 3, [0.3] * 3, 0.0, RATIO),
]
LOSSES = ("normal scores", "overconfident scores", "5 in 3 of 100 rows")
LOSS_ROWS = (40, 100, 400)


def value(rates: np.ndarray, shares: np.ndarray, text: str) -> float:
    """The value of the bound where the groups have these rates (2, k), of negatives and positives."""
    selected = (1 - POSITIVE) * rates[0] + POSITIVE * rates[1]
    if text == RATIO:
        return float(selected.min() / selected.max())
    if text == ODDS:
        return float(np.ptp(rates, axis=1).max())
    return float(np.ptp(selected) if text == PARITY else np.abs(selected - shares @ selected).max())


def of_decisions(case: tuple[int, list[float], Any, Any, float, str], runs: int, weighted: bool) -> str:
    n, shares, *rates, same, text = case
    first, second = (np.broadcast_to(r, (2, len(shares))) for r in rates)
    truth = value(second, np.array(shares), text) - value(first, np.array(shares), text)
    rng, found = np.random.default_rng(0), []
    for _ in range(runs):
        g, y = rng.choice(len(shares), n, p=shares), (rng.random(n) < POSITIVE).astype(int)
        u = rng.random(n)
        v = np.where(rng.random(n) < same, u, rng.random(n))
        given: dict[str, Any] = {"sample_weight": rng.choice([0.5, 1.0, 3.0], n)} if weighted else {}
        a, b = ((part < r[y, g]).astype(int) for part, r in ((u, first), (v, second)))
        found.append(fb.compare(a, b, y, {"g": g.astype(str)}, text, classes=(0, 1), **given)["differences"][-1])
    return cells(found, truth)


def cells(found: list[dict[str, Any]], truth: float) -> str:
    low, high = np.array([(d["lower"], d["upper"]) for d in found]).T
    wrong = [100 * float(part.mean()) for part in (low > truth + 1e-9, high < truth - 1e-9)]
    return f"{truth:.3f} | {wrong[0]:.1f} / {wrong[1]:.1f} | {(high - low).mean():.3f} |"


def losses(rng: np.random.Generator, n: int, law: str) -> tuple[np.ndarray, np.ndarray]:
    """(n,) scores of positive rows by two models."""
    if law == LOSSES[0]:
        s = rng.normal(1, 1.5, n)
        return s, 1.3 * s + rng.normal(0, 0.5, n)
    if law == LOSSES[1]:
        s = rng.normal(1, 4, n)
        return s, 0.5 * s
    large = rng.random(n) < 0.03
    return np.where(large, -5.0, 1.5), np.where(large & (rng.random(n) < 0.5), -5.0, 1.5) + 0.05 * rng.normal(size=n)


def mean_change(law: str) -> float:
    first, second = losses(np.random.default_rng(0), 4_000_000, law)
    return float((np.logaddexp(0, -second) - np.logaddexp(0, -first)).mean())


def of_losses(law: str, rows: int, runs: int) -> str:
    """A group with these losses, four times as many rows of another without any to speak of."""
    truth, rng, found = mean_change(law), np.random.default_rng(0), []
    groups, y = np.repeat(["few", "many"], (rows, 4 * rows)), np.ones(5 * rows, dtype=int)
    for _ in range(runs):
        a, b = (np.r_[part, np.full(4 * rows, 20.0)] for part in losses(rng, rows, law))
        given: dict[str, Any] = {"classes": (0, 1), "threshold": 0.0}
        found.append(fb.compare(a, b, y, {"g": groups}, "loss_gap <= 1", **given)["differences"][-1])
    return cells(found, truth)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--losses", action="store_true")
    parser.add_argument("--weights", action="store_true", help="every row weighs 0.5, 1 or 3")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.losses:
        print("| losses | rows | true difference | too high / too low, % | width |\n| --- | --- | --- | --- | --- |")
        for law in LOSSES:
            for rows in LOSS_ROWS:
                print(f"| {law} | {rows} | {of_losses(law, rows, options.runs)}", flush=True)
        return
    print("| bound | rows (shares) | rates: first | second | same | true difference | too high / too low, % | width |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for case in DECIDED:
        n, shares, first, second, same, text = case
        named = f"`{text.split(' ')[0]}` | {n} ({', '.join(map(str, shares))}) | {first} | {second} | {same:g}"
        print(f"| {named} | {of_decisions(case, options.runs, options.weights)}", flush=True)


if __name__ == "__main__":
    main()
