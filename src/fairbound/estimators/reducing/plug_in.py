"""Bounds around any classifier by probabilities of label and group, which say what a positive decision is worth.

Multipliers y >= 0 of the bounds make a positive decision of a row of group a and label l worth gain[a, l]. What a row
is worth in the mean, sum over a and l of P(a, l | x) gain[a, l], is the score: above 0 a positive decision lowers the
Lagrangian, error + y . excess. Decisions need no group, and y is looked for without another fit. They and the threshold
are judged by probabilities of fits that had not seen the row, so that a model that knows its rows by heart is not taken
at its word. New rows are decided by the mean of these fits. P(a, l | x) is P(l | x) P(a | x, l): the label is fitted on
all rows, which is easier than every pair of a group and a label, and the group on the rows of each label.

Source: Menon, Williamson (2018), The cost of fairness in binary classification, section 4 (plug-in of estimated
probabilities); Zeng, Dobriban, Cheng (2022), Bayes-optimal classifiers under group fairness; Parmanto, Munro, Doyle
(1996), Reducing variance of committee prediction with resampling techniques (the mean of fits to all folds but one).
Departs: any bounds that are weighted sums of rates, any number of groups; multipliers by exponentiated gradient on
cross-fitted rows, with the best of all thresholds. Where the best lottery is far more accurate than that, the gains
themselves are moved, one atom at a time (`fairbound.estimators.reducing.weight_search`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.utils import _safe_indexing

from fairbound.base.errors import DataError
from fairbound.estimators.reducing.lottery import NEGLIGIBLE, Lottery, Pairs
from fairbound.estimators.reducing.reduction_fits import Rules, Told
from fairbound.estimators.reducing.sum_of_fits import DecidesTogether, SeveralModels
from fairbound.estimators.reducing.weight_search import Search, Weighted
from fairbound.postprocessing.folds import parts_of
from fairbound.postprocessing.scoring import fitted_to
from fairbound.postprocessing.sweep import Sweep

STARTS = 4
"""Gains, beside those of the best lottery, near to which better ones are looked for."""


@dataclass(frozen=True)
class LabelThenGroup(SeveralModels):
    """models: of the label, and of the group on the rows of each label,
    each fitted to places in its `values`: labels, then groups of `width`."""

    values: tuple[np.ndarray, ...]
    width: int

    def atoms(self, X: Any) -> np.ndarray:
        """(n, 2 width) the probability of each atom, 2 * group + label."""
        labels = probabilities(self.models[0], X)
        out = np.zeros((len(labels), self.width, 2))
        for place, label in enumerate(self.values[0]):
            of = labels[:, [place]] * probabilities(self.models[1 + place], X)
            out[:, self.values[1 + place], label] = of
        return out.reshape(len(labels), -1)


@dataclass(frozen=True)
class ExpectedGain(DecidesTogether):
    """models: `LabelThenGroup`. gain: (2 C,) of an atom."""

    gain: np.ndarray

    def decision_function(self, X: Any) -> np.ndarray:
        """(n,) what a positive decision is worth in the mean of the models, in shares of a row."""
        return np.mean([model.atoms(X) @ self.gain for model in self.models], axis=0)


def probabilities(model: Any, X: Any) -> np.ndarray:
    """(n, k) of the model's k classes, in their order."""
    found = np.asarray(model.predict_proba(X), dtype=np.float64)
    if not np.isfinite(found).all():
        raise DataError(
            f"{type(model).__name__} gives probabilities that are no finite numbers; drop or fill rows without values."
        )
    return found


class PlugIn(Rules):
    """The multipliers tried so far, with the best threshold of each; of them the best by rows unseen in a fit."""

    def __init__(self, estimator: Any, X: Any, weight: np.ndarray | None, sweep: Sweep, folds: int, told: Told):
        self.estimator, self.X, self.weight, self.sweep, self.told, self.fits = estimator, X, weight, sweep, told, 0
        self.rows = len(sweep.atom)
        self._chance = np.zeros((self.rows, len(sweep.program.curves) * 2))
        self._models = []
        for seen, judged in parts_of(sweep.atom, folds):
            self._models.append(self._fitted(seen))
            self._chance[judged] = self._models[-1].atoms(_safe_indexing(X, judged))
        self._pairs, self._tried = Pairs(sweep), list[np.ndarray]()

    def _fitted(self, rows: np.ndarray) -> LabelThenGroup:
        group, label = np.divmod(self.sweep.atom[rows], 2)
        fits = [self._one(rows, label)]
        fits += [self._one(rows[label == value], group[label == value]) for value in fits[0][1]]
        models, values = zip(*fits, strict=True)
        return LabelThenGroup(models, values, len(self.sweep.program.curves))

    def _one(self, rows: np.ndarray, target: np.ndarray) -> tuple[Any, np.ndarray]:
        """A model fitted to the places of `target` (k,) in its values, and these."""
        values, places = np.unique(target, return_inverse=True)
        weight = None if self.weight is None else self.weight[rows]
        X = _safe_indexing(self.X, rows)
        if len(values) == 1:
            return DummyClassifier(strategy="prior").fit(X, places), values
        self.fits += 1
        model = fitted_to(self.estimator, X, places, weight)
        self.told.fit()
        return model, values

    def fit(self, multipliers: np.ndarray) -> np.ndarray:
        """(m,) the excess of every inequality where a positive decision is worth more than 0 at these multipliers."""
        gain = self._gain(multipliers)
        scores = self._chance @ gain
        self._pairs.add(scores)
        self._tried.append(gain)
        self._take(gain, multipliers.copy(), scores, 0.0)
        return self.sweep.excess((scores > 0).astype(float))

    def mixed(self) -> Lottery:
        """The best lottery over the scores. Where none of these alone is near to it, more multipliers near to its own
        are tried, then gains of atoms near to the best ones, whatever multipliers they would be of."""
        lottery = self._pairs.best()
        if not self._behind(lottery):
            return lottery
        lottery = self._pairs.near(self.fit, lottery)
        found = self._searched(lottery)
        if found is not None:
            self._take(found.weights, lottery.multipliers, self._chance @ found.weights, found.threshold)
        return lottery

    def _searched(self, lottery: Lottery) -> Weighted | None:
        """The best gains on the ways from those of the lottery and of lowest penalised error."""
        search = Search(self.sweep, self._chance.T, lottery.penalty)
        starts = [self._tried[k] for k in self._pairs.nearest(lottery, STARTS)]
        if lottery.shares.sum() > NEGLIGIBLE:
            starts.append(lottery.shares @ np.stack(self._tried))
        return search.best_by_moves([gain / np.abs(gain).max() for gain in starts if gain.any()], _one_more_or_less)

    def _gain(self, multipliers: np.ndarray) -> np.ndarray:
        return self.sweep.worth(multipliers) * self.rows

    def best(self) -> tuple[Any, float, float, np.ndarray]:
        """The models with their gain, the threshold, largest excess, and the multipliers."""
        assert self._best is not None
        gain, threshold, excess, multipliers = self._best[1]
        return ExpectedGain(tuple(self._models), gain, threshold=threshold), threshold, excess, multipliers


def _one_more_or_less(gain: np.ndarray, move: float) -> list[np.ndarray]:
    """One gain more or less by `move`."""
    return [gain + sign * move * one for one in np.eye(len(gain)) for sign in (1, -1)]
