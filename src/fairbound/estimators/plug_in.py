"""Bounds around any classifier by probabilities: fits to group and label at once, whose mean probabilities are then priced.

Prices y >= 0 of the bounds make a positive decision of a row of group a and label l worth gain[a, l]. What a row is worth in the mean,
sum over a and l of P(a, l | x) gain[a, l], is the score: above 0 a positive decision lowers the priced error. Decisions need no group,
and prices are looked for without another fit. They and the threshold are judged by probabilities of fits that had not seen the row,
so that a model that knows its rows by heart is not taken at its word. New rows are decided by the mean of these fits.

Source: Menon, Williamson (2018), The cost of fairness in binary classification, section 4 (plug-in of estimated probabilities);
Zeng, Dobriban, Cheng (2022), Bayes-optimal classifiers under group fairness; Parmanto, Munro, Doyle (1996), Reducing variance of committee
prediction with resampling techniques (the mean of fits to all folds but one). Departs: group and label are estimated jointly; any bounds that are
weighted sums of rates, any number of groups; prices by exponentiated gradient on cross-fitted rows, with the best of all thresholds.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import _safe_indexing

from fairbound.base.errors import DataError
from fairbound.estimators.lottery import Lottery, Pairs
from fairbound.estimators.mean_of_fits import SeveralModels, best_mean
from fairbound.postprocessing.scoring import fitted_to
from fairbound.postprocessing.sweep import ROUNDING, Sweep

MEANT = 20
"""Priced scores of which means are tried."""


@dataclass(frozen=True)
class Priced(SeveralModels):
    """models: fitted to the atoms (2 * group + label) of rows, each numbered by their place in its `atoms`. gain: (2 C,) of an atom."""

    atoms: tuple[np.ndarray, ...]
    gain: np.ndarray

    def decision_function(self, X: Any) -> np.ndarray:
        """(n,) what a positive decision is worth in the mean of the models, in shares of a row."""
        worth = [probabilities(model, X) @ self.gain[of] for model, of in zip(self.models, self.atoms, strict=True)]
        return np.mean(worth, axis=0)


def probabilities(model: Any, X: Any) -> np.ndarray:
    """(n, k) of the model's k atoms, in the order of their numbers."""
    found = np.asarray(model.predict_proba(X), dtype=np.float64)
    if not np.isfinite(found).all():
        raise DataError(
            f"{type(model).__name__} gives probabilities that are no finite numbers; drop or fill rows without values."
        )
    return found


class PlugIn:
    """The prices tried so far, with the best threshold of each; of them the best by rows that a fit had not seen."""

    def __init__(self, estimator: Any, X: Any, weight: np.ndarray | None, sweep: Sweep, folds: int):
        self.estimator, self.X, self.weight, self.sweep, self.fits = estimator, X, weight, sweep, 0
        self.rows = len(sweep.atom)
        self._chance = np.zeros((self.rows, len(sweep.program.curves) * 2))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The least populated class", UserWarning)  # it is missing in a fold then
            parts = list(StratifiedKFold(folds, shuffle=True, random_state=0).split(sweep.atom, sweep.atom))
        self._models: list[tuple[Any, np.ndarray]] = []
        for seen, judged in parts:
            model, atoms = self._fitted(seen)
            self._models.append((model, atoms))
            self._chance[np.ix_(judged, atoms)] = probabilities(model, _safe_indexing(X, judged))
        self._pairs, self._tried = Pairs(sweep), list[np.ndarray]()
        self._best: tuple[tuple[bool, float, float], tuple[np.ndarray, float, float]] | None = None

    def _fitted(self, rows: np.ndarray) -> tuple[Any, np.ndarray]:
        atoms, numbers = np.unique(self.sweep.atom[rows], return_inverse=True)
        weight = None if self.weight is None else self.weight[rows]
        self.fits += 1
        return fitted_to(self.estimator, _safe_indexing(self.X, rows), numbers, weight), atoms

    def fit(self, prices: np.ndarray) -> np.ndarray:
        """(m,) the excess of every inequality under these prices, where a positive decision is worth more than 0."""
        scores = self._chance @ self._gain(prices)
        self._pairs.add(scores)
        self._tried.append(prices.copy())
        self._take(prices.copy(), scores, 0.0)
        return self.sweep.excess((scores > 0).astype(float))

    def mixed(self) -> Lottery:
        """The best lottery over the priced scores. Where none of these alone is near to it, more prices near to its multipliers are tried, and means of
        prices."""
        lottery = self._pairs.best()
        assert self._best is not None
        if not lottery.far_ahead(None if self._best[0][0] else self._best[0][2]):
            return lottery
        lottery = self._pairs.near(self.fit, lottery)
        of = self._pairs.nearest(lottery, MEANT)
        tried = [self._tried[k] for k in of]
        scores = [self._chance @ self._gain(prices) for prices in tried]
        found = best_mean(self.sweep, scores, replace(lottery, shares=lottery.shares[of]))
        if found is not None:
            prices = found.shares @ np.stack(tried)
            self._take(prices, self._chance @ self._gain(prices), found.threshold)
        return lottery

    def _take(self, prices: np.ndarray, scores: np.ndarray, own: float) -> None:
        """Keep what is better than all before: of what meets the bounds the fewest errors, else the smallest excess."""
        threshold, excess, error = self.sweep.best(scores, own)
        rank = (excess > ROUNDING, excess if excess > ROUNDING else error, error)
        if self._best is None or rank < self._best[0]:
            self._best = (rank, (prices, threshold, excess))
            self.decided = scores > threshold

    def _gain(self, prices: np.ndarray) -> np.ndarray:
        return self.sweep.worth(prices) * self.rows

    def best(self) -> tuple[Any, float, float, np.ndarray]:
        """The models priced, the threshold, largest excess, and the prices."""
        assert self._best is not None
        prices, threshold, excess = self._best[1]
        models, atoms = zip(*self._models, strict=True)
        return Priced(models, atoms, self._gain(prices)), threshold, excess, prices
