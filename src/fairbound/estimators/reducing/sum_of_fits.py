"""A weighted sum of the scores of several fits, with one threshold, that meets bounds where no single fit does without
many more errors.

A lottery over fits decides a row by a draw; the sum of their scores decides it the same every time. Weights may be
below 0: where two fits differ in what they give a group, their difference takes it back. The scores of many fits are
much alike, so weights are looked for on their COMPONENTS main directions of difference: by descent of the smoothed
penalised error from the best fits and from the lottery (`fairbound.estimators.reducing.smoothed`), and where that ends far from
the lottery, by moves of one weight at a time, each with a descent behind it. Of all weights and thresholds
on the way, the most accurate that meets the true bounds on the training rows is taken.

Source: Wolpert (1992), Stacked generalization; Caruana, Niculescu-Mizil, Crew, Ksikes (2004), Ensemble selection from
    libraries of models.
Departs: fits of one classifier to other costs; under bounds; on the rows that they were fitted to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fairbound.estimators.reducing.lottery import NEAR, NEGLIGIBLE, Lottery
from fairbound.estimators.reducing.smoothed import Smoothed
from fairbound.estimators.reducing.weight_search import ROWS, Search, Weighted
from fairbound.postprocessing.scoring import CODES, scores_of
from fairbound.postprocessing.sweep import Sweep

COMPONENTS = 16
STARTS = 4
"""Single fits from which the descent begins, beside the lottery."""
WAYS = ((1.0, 0.5, 0.2, 0.1), (0.3, 0.1))
"""Widths of each descent: a wide one may leave a poor start, a narrow one stays with a good one."""
MOVED = 150
"""Sums that are tried on each way of single moves."""


@dataclass(frozen=True)
class SeveralModels:
    """models: fitted to tables of the same columns, whose number and names are those of the first one."""

    models: tuple[Any, ...]

    def __getattr__(self, name: str) -> Any:
        if name in ("n_features_in_", "feature_names_in_"):
            return getattr(self.models[0], name)
        raise AttributeError(name)


@dataclass(frozen=True)
class DecidesTogether(SeveralModels):
    """Models with one score of all, and the threshold on it that `Reduction` has chosen."""

    threshold: float = field(kw_only=True)

    def decision_function(self, X: Any) -> np.ndarray:
        """(n,) scores, from which the threshold is not taken away."""
        raise NotImplementedError

    def predict(self, X: Any) -> np.ndarray:
        """(n,) 1 where the score is above the threshold, else 0: as `Reduction` decides, in the codes of its fits."""
        return (self.decision_function(X) > self.threshold).astype(np.int64)


@dataclass(frozen=True)
class SumOfFits(DecidesTogether):
    """models: fitted to the labels 0 and 1, with scores as `scores_of` has them. weights: of each, of any sign; their
    sizes sum to 1."""

    weights: tuple[float, ...]

    def decision_function(self, X: Any) -> np.ndarray:
        """(n,) the weighted sum of the models' scores."""
        parts = zip(self.models, self.weights, strict=True)
        return np.asarray(sum(weight * scores_of(model, "auto", X, CODES) for model, weight in parts))


def best_sum(sweep: Sweep, scores: Sequence[np.ndarray], lottery: Lottery) -> Weighted | None:
    """The most accurate sum found that meets the bounds on the rows of the scores, each (n,); None where none does."""
    rows = np.stack(scores)
    turn = _directions(rows)
    if not len(turn):
        return None
    main = turn @ rows
    main -= main.mean(axis=1, keepdims=True)
    search, smoothed = Search(sweep, main, lottery.penalty), Smoothed(sweep, main, lottery.penalty)
    single = [_along(main, one) for one in rows]
    starts = [single[k] for k in np.argsort([search.at(one) for one in single], kind="stable")[:STARTS]]
    if lottery.shares.sum() > NEGLIGIBLE:
        starts.append(_along(main, lottery.shares @ rows))

    def descended(start: np.ndarray, ways: Sequence[tuple[float, ...]]) -> list[np.ndarray]:
        threshold = sweep.best(start @ main, np.inf)[0]
        ends = []
        for widths in ways:
            way = list(smoothed.descent(start, threshold if np.isfinite(threshold) else 0.0, widths))
            for weights in way:
                search.at(weights)
            ends += way[-1:]
        return ends

    ends = [end for start in starts for end in descended(start, WAYS)]
    if lottery.ahead(None if search.best is None else search.best[0], NEAR):
        for start in (*sorted(ends, key=search.at)[:1], starts[0], starts[-1]):
            moved = search.run(start, min(MOVED, ROWS // rows.shape[1]), _moved)
            ends += [moved, *descended(moved, WAYS[-1:])]
    found = search.best_of(ends)
    if found is None:
        return None
    weights = found.weights @ turn
    weights /= np.abs(weights).sum()
    return replace(found, weights=weights, threshold=sweep.best(weights @ rows, np.inf)[0])


def _directions(rows: np.ndarray) -> np.ndarray:
    """(c, k) weights of the scores `rows` (k, n) that give their c <= COMPONENTS main directions, of spread 1."""
    spread = rows.std(axis=1)
    some = np.flatnonzero(spread > 1e-12)
    if not len(some):
        return np.zeros((0, len(rows)))
    even = (rows[some] - rows[some].mean(axis=1, keepdims=True)) / spread[some, None]
    sizes, directions = np.linalg.eigh(even @ even.T / rows.shape[1])
    kept = [k for k in np.argsort(-sizes, kind="stable")[:COMPONENTS] if sizes[k] > 1e-6 * sizes.max()]
    out = np.zeros((len(kept), len(rows)))
    out[:, some] = (directions[:, kept] / np.sqrt(sizes[kept])).T / spread[some]
    return out


def _moved(weights: np.ndarray, move: float) -> list[np.ndarray]:
    """One weight more or less by `move`, and the length 1 again."""
    moved = [weights + sign * move * one for one in np.eye(len(weights)) for sign in (1, -1)]
    return [one / np.linalg.norm(one) for one in moved if one.any()]


def _along(main: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """(c,) weights of length 1 of the directions `main` (c, n) that come nearest to the scores (n,)."""
    found = main @ (scores - scores.mean()) / len(scores)
    return found / max(float(np.linalg.norm(found)), 1e-12)
