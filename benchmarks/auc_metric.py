"""The exact areas of Yao, Lin, Yang (2023), Appendix A, of ten million scores: seconds beside one sort of the scores.

One run: sort and metric in turn, `--rounds` times, processor time of the process, and the ratio of the two minima. The
scores are normal, with four groups and two labels; "tied" rounds them to 1,000 values, "weighted" gives rows weights.

Prints one JSON object on standard output and progress on standard error.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fairbound.ranking.wins import cell_wins

TARGET = 3.0


def seconds(work: Callable[[], Any]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--groups", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    scores = rng.normal(size=options.rows)
    cells = rng.integers(0, 2 * options.groups, options.rows)
    weight = rng.random(options.rows)
    cases = {"different": (scores, None), "tied": (scores.round(2), None), "weighted": (scores, weight)}
    found = {}
    for name, (s, w) in cases.items():
        sorts, metrics = [], []
        for number in range(options.rounds):
            sorts.append(seconds(partial(np.sort, s)))
            metrics.append(seconds(partial(cell_wins, s, cells, 2 * options.groups, w)))
            print(f"{name} {number}: sort {sorts[-1]:.3f} s, metric {metrics[-1]:.3f} s", file=sys.stderr)
        found[name] = {
            "sort": round(min(sorts), 4),
            "metric": round(min(metrics), 4),
            "ratio": round(min(metrics) / min(sorts), 2),
        }
    checks = {"ratio": {"value": found["different"]["ratio"], "target": TARGET}}
    checks["ratio"]["met"] = found["different"]["ratio"] <= TARGET
    print(json.dumps({"rows": options.rows, "groups": options.groups, **found, "checks": checks}, indent=1))


if __name__ == "__main__":
    main()
