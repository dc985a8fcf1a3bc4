"""What partial statistical parity measures on held-out rows by chance alone.

For the group sizes of the held-out rows of the experiments' splits (He, Huang, Yao, Lin 2026, G.1), on their intervals and of all scores: the mean and
the 95 % point of the largest distance over simulated continuous scores of one distribution, which is the same for every distribution. Then, for
each bound of the experiments (`apart`), the mean where the distance of the two distributions themselves is that bound: at one
threshold alone, and at almost all of the interval, as where training brings every threshold to its bound. And the same where the training
rows are so far apart (`apart on the training rows`): then the distributions differ by the chance of those rows as well, which a model that meets a small
bound there has learnt. And the least mean (`least`) of continuous scores whatever the two distributions: a bound whose mean on held-out rows is to be
below it asks for tied scores. Prints one JSON object.
"""

from __future__ import annotations

import argparse
from typing import Any

import harness

harness.single_thread()

import numpy as np  # noqa: E402

from fairbound.fairness.measuring import measure  # noqa: E402

# rows of the two groups, held out and trained on; bounds
SPLITS: dict[str, tuple[str, tuple[int, int], tuple[int, int], tuple[float, ...]]] = {
    "a9a": ("0.05:0.3", (5421, 10860), (9694, 19609), (0.28, 0.2, 0.1, 0.05, 0.01)),
    "bank": ("0:0.25", (441, 7796), (1367, 23346), (0.3, 0.22, 0.08, 0.01)),
    "law-school": ("0.7:1", (827, 4373), (1860, 9839), (0.2, 0.15, 0.1, 0.08, 0.005)),
}
SHARES = np.linspace(0, 1, 2001)
CELLS, SEARCH_STEPS = 250, 1000
"""Thresholds at which `least` looks, and steps of its search."""


def shifted(ranks: np.ndarray, interval: str, distance: float, ends: float) -> np.ndarray:
    """Ranks (n,) of a group's scores in another group, given those in their own: of the shares of the interval above a threshold, the first
    group's is larger by `distance` where the other's lies in [ends / 2, 1 - ends / 2], and by less and less towards 0 and 1."""
    low, high = (float(end) for end in interval.split(":"))
    own = SHARES + distance * np.minimum(1, 2 * np.minimum(SHARES, 1 - SHARES) / ends)
    inside, within = (ranks > low) & (ranks < high), (ranks - low) / (high - low)
    return np.where(inside, low + (high - low) * np.interp(within, own, SHARES), ranks)


def by_chance(
    interval: str,
    rows: tuple[int, int],
    repeats: int,
    seed: int,
    distance: float = 0.0,
    ends: float = 1.0,
    trained: tuple[int, int] | None = None,
) -> dict[str, float]:
    """Of two groups of `rows`, whose scores have one distribution or are apart as `shifted` says: mean, its standard error, and 95 % point
    of the distance measured on the interval. trained: where given, so many other rows of the two groups are what has one distribution or is apart
    as stated, not the groups themselves."""
    rng, group = np.random.default_rng(seed), np.repeat(["a", "b"], rows)
    text, y, found = f"partial_statistical_parity[{interval}]", np.zeros(len(group)), []
    for _ in range(repeats):
        ranks = rng.random(len(group))
        for n, part in zip(trained or (), (slice(rows[0]), slice(rows[0], None)), strict=False):
            known = np.concatenate([[0.0], np.sort(rng.random(n)), [1.0]])
            ranks[part] = np.interp(ranks[part], known, np.clip((np.arange(n + 2) - 0.5) / n, 0, 1))
        ranks[: rows[0]] = shifted(ranks[: rows[0]], interval, distance, ends)
        found.append(measure(text, -ranks, y, group, threshold=-0.5))
    return {
        "mean": float(np.mean(found)),
        "error": float(np.std(found) / repeats**0.5),
        "95 %": float(np.quantile(found, 0.95)),
    }


def least(interval: str, rows: tuple[int, int], repeats: int, seed: int) -> dict[str, float]:
    """The lowest mean distance of two groups of `rows` with continuous scores, over all ways that the shares above thresholds may differ.

    At the threshold below the top u of the first group the second has any other share, so the difference of the shares T of the interval is what
    chance makes of it at equal shares and any function d(u) more; d is searched for the lowest mean of the largest size, which is convex in d.
    "at least": that mean on the samples that d was searched on, so too low rather than too high. "new samples": of that d on as many others.
    What the second group's share changes in the spread of its own sample is left out.
    """
    rng, (low, high) = np.random.default_rng(seed), (float(end) for end in interval.split(":"))
    ends = np.linspace(max(0.0, low - 0.06), min(1.0, high + 0.06), CELLS + 1)
    cells = np.diff(np.concatenate([[0.0], ends, [1.0]]))

    def shares(n: int) -> np.ndarray:
        above = rng.multinomial(n, cells, 2 * repeats).cumsum(1)[:, :-1] / n
        return (np.clip(above, low, high) - low) / (high - low)

    own, new = np.split(shares(rows[0]) - shares(rows[1]), 2)
    d, lowest, best = np.zeros(CELLS + 1), np.inf, np.zeros(CELLS + 1)
    for k in range(SEARCH_STEPS):
        apart = own - d
        worst = np.abs(apart).argmax(1)
        signs = np.sign(apart[np.arange(repeats), worst])
        value = float(np.abs(apart).max(1).mean())
        if value < lowest:
            lowest, best = value, d
        slope = np.bincount(worst, signs, CELLS + 1) / repeats
        d = d + lowest * (1 - k / SEARCH_STEPS) * slope
    found = np.abs(new - best).max(1)
    return {"at least": lowest, "new samples": float(found.mean()), "error": float(found.std() / repeats**0.5)}


def apart(
    interval: str,
    rows: tuple[int, int],
    given: argparse.Namespace,
    bound: float,
    trained: tuple[int, int] | None = None,
) -> dict[str, float]:
    """The mean distance of groups of `rows` that are `bound` apart at one threshold, and at almost all of the interval."""
    ends = {"at one threshold": 1.0, "almost everywhere": bound + 0.05}
    of = lambda end: by_chance(interval, rows, given.repeats, given.seed, bound, end, trained)["mean"]  # noqa: E731
    return {where: of(end) for where, end in ends.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    results: dict[str, Any] = {
        name: {
            "interval": interval,
            "held out": {"rows": held} | by_chance(interval, held, given.repeats, given.seed),
            "least": least(interval, held, 8 * given.repeats, given.seed),
            "train": {"rows": train} | by_chance(interval, train, given.repeats, given.seed),
            "held out, all scores": by_chance("0:1", held, given.repeats, given.seed),
            "apart": {bound: apart(interval, held, given, bound) for bound in bounds},
            "apart on the training rows": {bound: apart(interval, held, given, bound, train) for bound in bounds},
        }
        for name, (interval, held, train, bounds) in SPLITS.items()
    }
    harness.emit({"benchmark": "partial_floor", "repeats": given.repeats, "results": results})


if __name__ == "__main__":
    main()
