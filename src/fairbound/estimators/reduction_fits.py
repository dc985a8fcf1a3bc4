"""The fits of `fairbound.Reduction` in which multipliers move, and what is returned of them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from fairbound.base import progress
from fairbound.base.errors import OptionError
from fairbound.estimators.lottery import Lottery, Pairs
from fairbound.estimators.sum_of_fits import SumOfFits, best_sum
from fairbound.postprocessing.scoring import CODES, fitted_to, scores_of
from fairbound.postprocessing.sweep import ROUNDING, Sweep


def own_threshold(model: Any) -> float:
    """Where a fitted classifier itself begins to decide for the positive label, in the scores of `scores_of`."""
    return 0.0 if hasattr(model, "decision_function") else 0.5


class Told:
    """Where asked for, a heading and a line of progress after each fit, with the seconds since the heading."""

    def __init__(self, shown: bool):
        self._shown, self._begun, self._fits = shown, time.perf_counter(), 0

    def heading(self, folds: int, rows: int) -> None:
        if self._shown:
            how = f"{folds} folds" if folds else "each fit to all rows"
            progress.heading(f"reduction: {how}, {rows:,} rows")

    def fit(self, worst: float | None = None) -> None:
        """worst: the largest excess of a bound under the fit."""
        self._fits += 1
        if self._shown:
            excess = "" if worst is None else f"  worst g {worst:+.4f}"
            progress.line(f"fit {self._fits:>4}  {time.perf_counter() - self._begun:7.1f} s{excess}")

    def ended(self) -> None:
        if self._shown:
            progress.ended()


class Rules:
    """The best rule of those tried: of what meets the bounds the one with the fewest errors,
    else that of the smallest excess."""

    sweep: Sweep
    decided: np.ndarray
    told: Told
    _best: tuple[tuple[bool, float, float], tuple[Any, float, float, np.ndarray]] | None = None

    def _take(self, model: Any, multipliers: np.ndarray, scores: np.ndarray, own: float) -> None:
        """Keep a model with its best threshold on its scores (n,) if it is better than all before."""
        threshold, excess, error = self.sweep.best(scores, own)
        rank = (excess > ROUNDING, excess if excess > ROUNDING else error, error)
        if self._best is None or rank < self._best[0]:
            self._best = (rank, (model, threshold, excess, multipliers))
            self.decided = scores > threshold

    def _behind(self, lottery: Lottery) -> bool:
        """Whether the lottery is far more accurate than the best rule."""
        if self._best is None:
            return False
        missed, _, error = self._best[0]
        return lottery.far_ahead(None if missed else error)


class Tried(Rules):
    """The models fitted so far, and the best of them with its best threshold."""

    def __init__(self, estimator: Any, X: Any, sweep: Sweep, told: Told):
        self.estimator, self.X, self.sweep, self.told = estimator, X, sweep, told
        self.models: list[Any] = []
        self.pairs = Pairs(sweep)

    @property
    def fits(self) -> int:
        return len(self.models)

    def fit(self, multipliers: np.ndarray) -> np.ndarray:
        """(m,) the excess of every inequality under the model fitted at these multipliers and its own threshold."""
        gain = self.sweep.gains(multipliers)  # what a positive decision of each row saves
        labels, weights = (gain > 0).astype(np.int64), np.abs(gain)
        weights = weights * (len(weights) / weights.sum())
        if len(np.unique(labels[weights > 0])) < 2:
            return self.sweep.excess((labels > 0).astype(float))  # a constant needs no fit
        model = fitted_to(self.estimator, self.X, labels, weights)
        scores = self._scores(model)
        self.models.append(model)
        self.pairs.add(scores)
        own = own_threshold(model)
        self._take(model, multipliers, scores, own)
        excess = self.sweep.excess((scores > own).astype(float))
        self.told.fit(float(excess.max(initial=-1.0)))
        return excess

    def _scores(self, model: Any) -> np.ndarray:
        return scores_of(model, "auto", self.X, CODES)

    def mixed(self) -> Lottery:
        """The best lottery over the fits. Where none of these alone is near to it, more are fitted at its multipliers,
        and weighted sums of their scores tried."""
        lottery = self.pairs.best()
        if not self._behind(lottery):
            return lottery
        lottery = self.pairs.near(self.fit, lottery)
        scores = [self._scores(model) for model in self.models]
        found = best_sum(self.sweep, scores, lottery)
        if found is not None:
            used = np.flatnonzero(found.weights)
            models, weights = tuple(self.models[k] for k in used), tuple(found.weights[used].tolist())
            model = SumOfFits(models, weights, threshold=found.threshold)
            self._take(model, lottery.multipliers, model.decision_function(self.X), found.threshold)
        return lottery

    def best(self) -> tuple[Any, float, float, np.ndarray]:
        """The model, its threshold, largest excess, and the multipliers it was fitted at."""
        if self._best is None:
            raise OptionError("no model could be fitted: at all multipliers all rows had the same label.")
        model, threshold, excess, multipliers = self._best[1]
        if isinstance(model, SumOfFits):
            model = replace(model, threshold=threshold)
        return model, threshold, excess, multipliers
