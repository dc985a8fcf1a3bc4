"""The fits of `fairbound.Reduction` in which multipliers move, and what is returned of them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from fairbound.base import progress
from fairbound.base.errors import OptionError
from fairbound.estimators.reducing.lottery import NEAR, SHORT, Lottery, Pairs
from fairbound.estimators.reducing.sum_of_fits import SumOfFits, best_sum
from fairbound.postprocessing.folds import kinds_of, parts_of
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


LITTLE = 0.2
"""Where bounds leave this share, or less, of what the rule without them saves beside one answer for all, another way to
meet them is tried too."""


class Rules:
    """The best rule of those tried: of what meets the bounds the one with the fewest errors,
    else that of the smallest excess."""

    sweep: Sweep
    decided: np.ndarray
    told: Told
    _best: tuple[tuple[bool, float, float], tuple[Any, float, float, np.ndarray]] | None = None
    _unbounded: float

    @property
    def saves_little(self) -> bool:
        """Whether the best rule has hardly fewer errors than one answer for all, beside those that the first saves, which
        knows no bounds; also where none meets them."""
        if self._best is None or self._best[0][0]:
            return True
        constant = self.sweep.program.cost_of_constants
        return constant - self._best[0][2] <= LITTLE * (constant - self._unbounded)

    def clearly_better_than(self, other: Rules) -> bool:
        """Whether the best rule has fewer errors by SHORT, or alone meets the bounds, as both were judged."""
        if self._best is None or other._best is None:
            return other._best is None
        missed, value, _ = other._best[0]
        return self._best[0][:2] < (missed, value if missed else value - SHORT)

    def _take(self, model: Any, multipliers: np.ndarray, scores: np.ndarray, own: float) -> None:
        """Keep a model with its best threshold on its scores (n,) if it is better than all before."""
        if self._best is None:
            self._unbounded = self.sweep.error(scores > own)
        threshold, excess, error = self.sweep.best(scores, own)
        rank = (excess > ROUNDING, excess if excess > ROUNDING else error, error)
        if self._best is None or rank < self._best[0]:
            self._best = (rank, (model, threshold, excess, multipliers))
            self.decided = scores > threshold

    def _behind(self, lottery: Lottery) -> bool:
        """Whether the lottery is more accurate than the best rule by more than NEAR."""
        if self._best is None:
            return False
        missed, _, error = self._best[0]
        return lottery.ahead(None if missed else error, NEAR)


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
        found = self._fitted(labels, weights)
        if found is None:
            return self.sweep.excess((labels > 0).astype(float))
        model, scores, own = found
        self.models.append(model)
        self.pairs.add(scores)
        self._take(model, multipliers, scores, own)
        excess = self.sweep.excess((scores > own).astype(float))
        self.told.fit(float(excess.max(initial=-1.0)))
        return excess

    def _fitted(self, labels: np.ndarray, weights: np.ndarray) -> tuple[Any, np.ndarray, float] | None:
        """A model, its scores (n,) and its own threshold; None where it would see one label alone."""
        model = fitted_to(self.estimator, self.X, labels, weights)
        return model, self._scores(model), own_threshold(model)

    def _scores(self, model: Any) -> np.ndarray:
        return scores_of(model, "auto", self.X, CODES)

    def first_scores(self) -> np.ndarray:
        """(n,) scores of the first model."""
        return self._scores(self.models[0])

    def scores(self) -> list[np.ndarray]:
        """Of every model, in the order of the fits."""
        return [self._scores(model) for model in self.models]

    def _of_sum(self, model: SumOfFits, parts: list[np.ndarray]) -> np.ndarray:
        """(n,) scores of a sum of models, whose own are `parts`."""
        return model.decision_function(self.X)

    def mixed(self) -> Lottery:
        """The best lottery over the fits. Where none of these alone is near to it, more are fitted at its multipliers,
        and weighted sums of their scores tried."""
        lottery = self.pairs.best()
        if not self._behind(lottery):
            return lottery
        lottery = self.pairs.near(self.fit, lottery)
        scores = self.scores()
        found = best_sum(self.sweep, scores, lottery)
        if found is not None:
            used = np.flatnonzero(found.weights)
            models, weights = tuple(self.models[k] for k in used), tuple(found.weights[used].tolist())
            model = SumOfFits(models, weights, threshold=found.threshold)
            self._take(model, lottery.multipliers, self._of_sum(model, [scores[k] for k in used]), found.threshold)
        return lottery

    def best(self) -> tuple[Any, float, float, np.ndarray]:
        """The model, its threshold, largest excess, and the multipliers it was fitted at."""
        if self._best is None:
            raise OptionError("no model could be fitted: at all multipliers all rows had the same label.")
        model, threshold, excess, multipliers = self._best[1]
        if isinstance(model, SumOfFits):
            model = replace(model, threshold=threshold)
        return model, threshold, excess, multipliers


class TriedByOthers(Tried):
    """The same for classifiers that score their own rows otherwise than others: at all multipliers one fit to the
    rows outside of each fold, which scores the fold. What is returned decides by the mean of these fits."""

    def __init__(self, estimator: Any, X: Any, sweep: Sweep, folds: int, told: Told):
        super().__init__(estimator, X, sweep, told)
        self.parts = parts_of(kinds_of(*np.divmod(sweep.atom, 2), folds), folds)
        self._unseen: list[np.ndarray] = []

    @property
    def fits(self) -> int:
        return len(self.models) * len(self.parts)

    def _fitted(self, labels: np.ndarray, weights: np.ndarray) -> tuple[Any, np.ndarray, float] | None:
        fits, scores = list[Any](), np.zeros(len(labels))
        if any(len(np.unique(labels[seen][weights[seen] > 0])) < 2 for seen, _ in self.parts):
            return None
        for seen, own in self.parts:
            if fits:
                self.told.fit()
            fits.append(fitted_to(self.estimator, _safe_indexing(self.X, seen), labels[seen], weights[seen]))
            scores[own] = scores_of(fits[-1], "auto", _safe_indexing(self.X, own), CODES)
        self._unseen.append(scores)
        threshold = own_threshold(fits[0])
        return SumOfFits(tuple(fits), (1 / len(fits),) * len(fits), threshold=threshold), scores, threshold

    def scores(self) -> list[np.ndarray]:
        return self._unseen

    def _of_sum(self, model: SumOfFits, parts: list[np.ndarray]) -> np.ndarray:
        return np.asarray(sum(weight * part for weight, part in zip(model.weights, parts, strict=True)))
