"""What partial statistical parity measures on held-out rows by chance alone, where the groups' scores have one distribution.

For the group sizes of the held-out rows of the experiments' splits (He, Huang, Yao, Lin 2026, G.1), on their intervals and of all scores: the mean and
the 95 % point of the largest distance over simulated continuous scores. No continuous scores can do better in the mean, whatever
their bound on the training rows. Prints one JSON object.
"""

from __future__ import annotations

import argparse
from typing import Any

import harness

harness.single_thread()

import numpy as np  # noqa: E402

from fairbound.fairness.measuring import measure  # noqa: E402

# rows of the two groups: held out, and trained on
SPLITS: dict[str, tuple[str, tuple[int, int], tuple[int, int]]] = {
    "a9a": ("0.05:0.3", (5421, 10860), (9694, 19609)),
    "bank": ("0:0.25", (396, 7842), (1187, 23526)),
    "law-school": ("0.7:1", (827, 4373), (1860, 9839)),
}


def by_chance(interval: str, rows: tuple[int, int], repeats: int, seed: int) -> dict[str, float]:
    """Of two groups of `rows`, whose scores are uniform: mean and 95 % point of the distance on the interval."""
    rng, group = np.random.default_rng(seed), np.repeat(["a", "b"], rows)
    text, y = f"partial_statistical_parity[{interval}]", np.zeros(len(group))
    found = [measure(text, rng.random(len(group)), y, group, threshold=0.5) for _ in range(repeats)]
    return {"mean": float(np.mean(found)), "95 %": float(np.quantile(found, 0.95))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    results: dict[str, Any] = {
        name: {
            "interval": interval,
            "held out": {"rows": held} | by_chance(interval, held, given.repeats, given.seed),
            "train": {"rows": train} | by_chance(interval, train, given.repeats, given.seed),
            "held out, all scores": by_chance("0:1", held, given.repeats, given.seed),
        }
        for name, (interval, held, train) in SPLITS.items()
    }
    harness.emit({"benchmark": "partial_floor", "repeats": given.repeats, "results": results})


if __name__ == "__main__":
    main()
