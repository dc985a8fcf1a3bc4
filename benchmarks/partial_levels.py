"""Law school under a bound of 0.005 on its interval: models of few score levels that meet it, found by going through them all.

A model of the whole-numbered columns alone (two deciles of grades, full or part time, income, sex, tier) has few score levels. Of
every vector of small whole weights the share of each group's training rows at or below its first levels is taken, and of every pair
of vectors, one for each group, whose shares on the interval are nowhere further apart than the bound, the score's one scale
and shift are fitted to the mean loss. Prints one JSON object: how many pairs there are, and those of lowest loss, with the true distance, accuracy and
loss on the training rows, and the same on held-out rows.
"""

from __future__ import annotations

import argparse
import itertools
from typing import Any

import harness

harness.single_thread()

import numpy as np  # noqa: E402
from scipy.optimize import minimize  # noqa: E402
from scipy.spatial import cKDTree  # noqa: E402

from fairbound.fairness.measuring import measure  # noqa: E402
from fairbound.studies.partial_fairness import Options, parts_of  # noqa: E402

COLUMNS = (0, 1, 6, 7, 8, 9)
INTERVAL, LENGTH, LEVELS = "0.7:1", 0.3, 14
RULE = f"partial_statistical_parity[{INTERVAL}]"


def whole(rows: np.ndarray, like: np.ndarray) -> np.ndarray:
    """(n, c) the columns as the whole numbers 0, 1, ... that they are on the rows `like`."""
    steps = [(np.unique(column)[0], np.diff(np.unique(column)).min()) for column in like.T]
    return np.stack([np.rint((column - low) / step) for column, (low, step) in zip(rows.T, steps, strict=True)], 1)


def shares(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(k, LEVELS) of each of the weights (k, c): the share of rows at or below the first levels, at most that of the interval."""
    kinds, count = np.unique(rows, axis=0, return_counts=True)
    out = []
    for some in np.array_split(weights, max(1, len(weights) // 1000)):
        scores = some @ kinds.T
        scores -= scores.min(1, keepdims=True)
        out.append(np.stack([(scores <= level) @ (count / count.sum()) for level in range(LEVELS)], 1))
    return np.minimum(np.concatenate(out), LENGTH)


def fitted(scores: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """The lowest mean loss of a scale and a shift of scores (n,), and these two."""

    def of(z: np.ndarray) -> tuple[float, np.ndarray]:
        margin = z[0] * scores + z[1]
        excess = 1 / (1 + np.exp(-margin)) - y
        return float(np.mean(np.logaddexp(0, margin) - y * margin)), np.array([excess @ scores, excess.sum()]) / len(y)

    found = minimize(of, np.array([0.1, 1.0]), jac=True, method="BFGS")
    return float(found.fun), found.x


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bound", type=float, default=0.005)
    parser.add_argument("--largest", type=int, default=2, help="largest size of a weight")
    parser.add_argument("--split", type=int, default=0)
    parser.add_argument("--shown", type=int, default=5)
    parser.add_argument("--data-dir")
    given = parser.parse_args()
    asked = Options(dataset="law-school", group="race", interval=INTERVAL, shares=(0.5625, 0.1875, 0.25))
    parts = parts_of(asked, given.split, given.data_dir)
    own = parts["train"].x[:, COLUMNS]
    first = parts["train"].group == np.unique(parts["train"].group)[0]
    weights = np.array(list(itertools.product(range(-given.largest, given.largest + 1), repeat=len(COLUMNS))))
    weights = weights[np.gcd.reduce(np.abs(weights), axis=1) == 1]
    rows = whole(own, own)
    curves = [shares(rows[part], weights) for part in (first, ~first)]
    kept = [np.flatnonzero((curve[:, 0] < LENGTH) & (curve[:, -1] >= LENGTH)) for curve in curves]
    near = cKDTree(curves[1][kept[1]]).query_ball_point(curves[0][kept[0]], given.bound * LENGTH, p=np.inf)
    pairs = [(int(a), int(kept[1][b])) for a, found in zip(kept[0], near, strict=True) for b in found]

    def scores(pair: tuple[int, int], name: str) -> np.ndarray:
        part = parts[name]
        places, group = whole(part.x[:, COLUMNS], own), part.group == np.unique(part.group)[0]
        out = np.empty(len(places))
        for w, member, base in zip(pair, (group, ~group), (first, ~first), strict=True):
            out[member] = (places[member] @ weights[w]) - (rows[base] @ weights[w]).min()
        return out

    models: list[dict[str, Any]] = []
    for pair in pairs:
        loss, (scale, shift) = fitted(scores(pair, "train"), parts["train"].y.astype(float))
        if scale <= 0:
            continue  # the order of the scores is turned round, and with it the interval
        made: dict[str, Any] = {"weights": [weights[w].tolist() for w in pair], "loss": loss}
        for name, part in parts.items():
            margin = scale * scores(pair, name) + shift
            distance = measure(RULE, margin, part.y, part.group, threshold=0)
            made[name] = {"distance": distance, "accuracy": float(np.mean((margin > 0) == part.y))}
        if made["train"]["distance"] <= given.bound:
            models.append(made)
    models.sort(key=lambda made: made["loss"])
    share = float(parts["train"].y.mean())
    constant = {"loss": -share * np.log(share) - (1 - share) * np.log(1 - share), "accuracy": max(share, 1 - share)}
    harness.emit(
        {"benchmark": "partial_levels", "split": given.split, "bound": given.bound, "vectors": len(weights)}
        | {"pairs": len(pairs), "meet the bound": len(models), "constant": constant, "models": models[: given.shown]}
    )


if __name__ == "__main__":
    main()
