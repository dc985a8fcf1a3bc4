"""Bounds around any classifier by probabilities: one fit to group and label at once, whose probabilities are then priced.

Prices y >= 0 of the bounds make a positive decision of a row of group a and label l worth gain[a, l]. What a row is worth in the mean,
sum over a and l of P(a, l | x) gain[a, l], is the score: above 0 a positive decision lowers the priced error. Decisions need no group,
and prices are looked for without another fit. They and the threshold are judged by probabilities of fits that had not seen the row,
so that a model that knows its rows by heart is not taken at its word.

Source: Menon, Williamson (2018), The cost of fairness in binary classification, section 4 (plug-in of estimated probabilities);
Zeng, Dobriban, Cheng (2022), Bayes-optimal classifiers under group fairness. Departs: group and label are estimated jointly; any bounds that are
weighted sums of rates, any number of groups; prices by exponentiated gradient on cross-fitted rows, with the best of all thresholds.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import _safe_indexing

from fairbound.base.errors import DataError
from fairbound.estimators.lottery import Lottery, Pairs
from fairbound.postprocessing.scoring import fitted_to
from fairbound.postprocessing.sweep import Sweep

ROUNDING = 1e-9


@dataclass(frozen=True)
class Priced:
    """model: fitted to the atoms (2 * group + label) of rows, numbered by their place in `atoms`. gain: (2 C,) of an atom."""

    model: Any
    atoms: np.ndarray
    gain: np.ndarray

    def __getattr__(self, name: str) -> Any:
        if name in ("n_features_in_", "feature_names_in_"):
            return getattr(self.model, name)
        raise AttributeError(name)

    def decision_function(self, X: Any) -> np.ndarray:
        """(n,) what a positive decision is worth, in shares of a row."""
        return probabilities(self.model, X) @ self.gain[self.atoms]


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
        for seen, judged in parts:
            model, atoms = self._fitted(seen)
            self._chance[np.ix_(judged, atoms)] = probabilities(model, _safe_indexing(X, judged))
        self._pairs = Pairs(sweep)
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
        threshold, excess, error = self.sweep.best(scores, 0.0)
        rank = (excess > ROUNDING, excess if excess > ROUNDING else error, error)
        if self._best is None or rank < self._best[0]:
            self._best = (rank, (prices.copy(), threshold, excess))
            self.decided = scores > threshold
        return self.sweep.excess((scores > 0).astype(float))

    def mixed(self) -> Lottery:
        """The best lottery over the priced scores."""
        return self._pairs.best()

    def _gain(self, prices: np.ndarray) -> np.ndarray:
        return self.sweep.worth(prices) * self.rows

    def best(self) -> tuple[Any, float, float, np.ndarray]:
        """The model, fitted to all rows, its threshold, largest excess, and the prices."""
        assert self._best is not None
        prices, threshold, excess = self._best[1]
        model, atoms = self._fitted(np.arange(self.rows))
        return Priced(model, atoms, self._gain(prices)), threshold, excess, prices
