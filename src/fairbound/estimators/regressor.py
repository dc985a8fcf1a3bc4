"""`FairRegressor`, a scikit-learn estimator that predicts numbers under stated bounds between groups."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from fairbound.base.callers import users_line
from fairbound.base.errors import DataError, DataWarning, FairboundError, OptionError
from fairbound.base.undoing import undone_on_failure
from fairbound.estimators.certificates.certifying import fit_certified
from fairbound.estimators.choosing import chosen
from fairbound.estimators.conventions import TrainedEstimator, on_few_threads, seed_of, timed
from fairbound.estimators.facts.fit_report import fit_report
from fairbound.estimators.facts.fit_warnings import ROUNDING, missed_words, warn_of_fit
from fairbound.estimators.facts.trajectory import lasting, trajectory
from fairbound.estimators.judged_rows import NumberRows
from fairbound.estimators.linear.penalty import penalised
from fairbound.estimators.parameter_checks import check_options
from fairbound.estimators.problems import builder, problems_of
from fairbound.estimators.saving.folder import Folder
from fairbound.estimators.saving.saved import check_manifest, opened, restored, shared_arguments
from fairbound.estimators.trained import Trained
from fairbound.estimators.training import trained_by
from fairbound.estimators.training_rows import fit_features, model_scores
from fairbound.estimators.validation import held_share
from fairbound.fairness.least_squares import TRIES, lowest_within
from fairbound.fairness.notions import constraints
from fairbound.fairness.predictions import finite_numbers, read_numbers
from fairbound.methods import FullBatchALM
from fairbound.models.model import model_of
from fairbound.rows.groups import Groups, check_lengths
from fairbound.rows.reading import read_weights, warn_of_order
from fairbound.rows.weighted import without_weight_0

CONSTANT = "All labels y are {:g}: there is nothing to learn from the features. Was the right column given?"
"""The warning of labels all alike."""


@dataclass(eq=False, repr=False)
class FairRegressor(TrainedEstimator, RegressorMixin, BaseEstimator):
    """A model of the lowest mean squared error under stated bounds on groups; its predictions are deterministic.

    constraint: a bound as text or object, a list of them, or None. Numbers are in the units of the label:
        "residual_gap <= 0.1": mean residuals of the groups differ by at most so much;
        "group_squared_error <= 0.5": the mean squared error of each group;
        "prediction_parity[at=10:20:30] <= 0.05": the shares predicted above each threshold (without `at` the deciles
        of the training labels) differ by at most so much.
    model: "linear" or "mlp:64,32".
    certify: as in FairClassifier, with a price in root mean squared error. Bounds on mean errors need their largest
        value, as in "group_squared_error[largest=10] <= 0.5".
    Further options are as in FairClassifier.

    After fit: constraints_ (the bounds with their thresholds), encoder_, groups_, n_features_in_, solution_, fit_report_
        (plain data; "feasible" says whether every bound is met on the training rows) and trajectory_ (loss, bounds and
        multipliers over training, docs/audit-schema.md; in units of the label).
    """

    _: KW_ONLY
    model: str = "linear"
    sampling: str = "balanced"

    @undone_on_failure
    def fit(self, X: Any, y: Any, sensitive_features: Any = None, sample_weight: Any = None) -> FairRegressor:
        """Train on X (n, d) and numbers y (n,).

        X, sensitive_features, sample_weight: as in FairClassifier.fit.
        Raises: DataError or OptionError that says what to change; the estimator is then as it was before.
        Warns: ConvergenceWarning with the smallest excess reached, where not every bound is met on the training rows,
            and where they are met by predictions further from the labels than their mean; DataWarning as
            FairClassifier.fit, and of labels all alike.
        """
        self._checked_bounds()
        given = X, y, sensitive_features, sample_weight
        if self.certify:
            return fit_certified(self, NumberRows, *given)  # type: ignore[no-any-return]
        rows = NumberRows.of(self, *given)
        return self._fit(rows.X, rows)

    @timed
    @on_few_threads
    def _fit(self, X: Any, rows: NumberRows, x0: Any = None) -> FairRegressor:
        """`fit` without a certificate, on rows whose table is X; x0: parameters to begin at."""
        targets, groups, weights, n, limit = rows.y, rows.groups, rows.weight, len(rows), self._limit()
        stated: tuple[Any, ...] = rows.settled(self._checked_bounds())
        features, notes = fit_features(self, X, groups, labels=targets)
        check_lengths(features, n, groups)
        self.groups_ = groups
        self.shift_, self.scale_ = _mean_and_spread(targets, weights)
        self.constraints_ = stated
        self.model_ = model_of(self.model, features.shape[1], 1)
        scaled = tuple(b.rescaled(self.shift_, self.scale_) for b in stated)
        choice = chosen(self.algorithm, self.model_, features, loss="squared", objective="loss", stated=scaled)
        nothing = np.zeros(n, dtype=np.int64)  # labels to stratify by: numbers are none
        share, said = held_share(
            self.validation, choice.at_once or choice.last_layer, scaled, groups, nothing, np.array([0])
        )
        notes = [*notes, *([choice.why] if choice.why else []), *said]
        y = (targets - self.shift_) / self.scale_
        build = builder(self.model_, y, groups, scaled, weights, loss="squared", dtype=torch.float64)
        seed = seed_of(self.random_state)
        with _in_own_units(stated, scaled):
            made = problems_of(
                build, features, nothing, groups, share=share, seed=seed, own=False, begins=choice.at_once
            )
        if choice.automatic and isinstance(choice.method, FullBatchALM):
            choice = choice._replace(method=penalised(choice.method, made.problem))
        trained = trained_by(self, made, choice, limit, seed, x0)
        truth = groups, weights, targets
        trained, predicted = self._met_by_predictions(X, trained, choice.automatic, *truth)
        self.trajectory_ = self._over_training(trained, scaled)
        facts = fit_report(trained, seed, self.encoder_report_, notes, groups)
        for name in ("warnings", "small_groups", "remarks"):
            facts[name] = [_as_stated(line, stated, scaled) for line in facts[name]]
        facts |= self._in_label_units(predicted, *truth)
        if stated and facts["train_loss"] > (1 + ROUNDING) * self.scale_**2:
            facts |= {"no_better_than_constant": True, "nothing_learnt": self._worse_than_mean(facts["train_loss"])}
            facts["warnings"] = [*facts["warnings"], facts["nothing_learnt"]]
        if (targets == self.shift_).all():
            constant, other = CONSTANT.format(self.shift_), facts["nothing_learnt"]
            facts |= {"nothing_learnt": None, "warnings": [*(w for w in facts["warnings"] if w != other), constant]}
            warnings.warn(constant, DataWarning, stacklevel=users_line())
        self.fit_report_ = facts
        warn_of_fit(facts, stated)
        return self

    def _worse_than_mean(self, loss: float) -> str:
        """The warning that the labels' mean would be nearer to them than the predictions, whose error is `loss`."""
        return (
            f"On the training rows the root mean squared error is {loss**0.5:.4g}; the mean of all labels, predicted for everyone, would have "
            f"{self.scale_:.4g}. The features can meet the bound only by predictions far from the labels: loosen it, or give other features."
        )

    def _checked_bounds(self) -> tuple[Any, ...]:
        """The stated bounds, where the parameters are sound."""
        if not isinstance(self.model, str):
            raise OptionError(
                f"model must be 'linear' or 'mlp:64,32', got {type(self.model).__name__}. A module of your own is trained by "
                "fb.formulate(module, 'squared', ...)."
            )
        check_options(self)
        return regression_bounds(constraints(self.constraint))

    def _met_by_predictions(
        self,
        X: Any,
        trained: Trained,
        automatic: bool,
        groups: Groups,
        weights: np.ndarray | None,
        targets: np.ndarray,
    ) -> tuple[Trained, np.ndarray]:
        """What was trained, and the predictions (n,) of the training rows. Training sees features of single precision,
        `predict` others: where it therefore misses a bound, the exact optimum is taken again with as much more room.

        automatic: whether the method was left to "auto", which ends there."""
        exact = automatic and isinstance(trained.method, FullBatchALM)
        exact = (
            exact and trained.held is None and bool(trained.solution.feasible)
        )  # else there was no such point before
        problem, room = trained.problem, torch.zeros(trained.problem.m, dtype=torch.float64)
        budget = trained.budget
        for tries_left in range(TRIES if exact else 0, -1, -1):
            self.solution_, self.x_ = lasting(trained.solution), trained.solution.x
            predicted = self.predict(X)
            over = np.zeros(len(self.constraints_))
            for i, (bound, value) in enumerate(self._values(predicted, groups, weights, targets)):
                excess = value - bound.stated - bound.rounding(self.scale_)
                over[i] = max(0.0, excess) / bound.unit(self.scale_)
            if not over.any() or not tries_left:
                break
            room += 2 * torch.from_numpy(over)[torch.from_numpy(problem.plan.notion_of)]
            x = lowest_within(problem, room, lambda: budget.over)
            if x is None:
                break
            trained = trained._replace(solution=replace(trained.solution, x=x))
        return trained, predicted

    def _values(
        self, predicted: np.ndarray, groups: Groups, weights: np.ndarray | None, targets: np.ndarray
    ) -> list[tuple[Any, float]]:
        """Every bound and its value on rows with these predictions (n,)."""
        scored = replace(read_numbers(predicted, targets), groups=groups, weight=weights)
        return [(bound, bound.measure(scored)) for bound in self.constraints_]

    def _in_label_units(
        self, predicted: np.ndarray, groups: Groups, weights: np.ndarray | None, targets: np.ndarray
    ) -> dict[str, Any]:
        """The measures of the predictions on the training rows, including those held back for validation."""
        values = [value for _, value in self._values(predicted, groups, weights, targets)]
        rounded = [0 < v <= b.rounding(self.scale_) for b, v in zip(self.constraints_, values, strict=True)]
        unequal = [(b, v) for b, v, near in zip(self.constraints_, values, rounded, strict=True) if not near]
        units = [b.unit(self.scale_) for b, _ in unequal]
        missed = missed_words([b for b, _ in unequal], [v for _, v in unequal], units)
        to_rounding = "".join(
            f"; {b.text} is met to rounding, as {v:.2g} is less than a millionth of the labels' standard deviation"
            for b, v, near in zip(self.constraints_, values, rounded, strict=True)
            if near
        )
        return {
            "constraints": [
                {"text": b.text, "sense": b.sense, "bound": b.stated, "train_value": v}
                for b, v in zip(self.constraints_, values, strict=True)
            ],
            "feasible": not missed,
            "message": f"not every bound is met on the training rows: {missed}. "
            "Loosen the bounds, train longer (budget), or take a larger model."
            if missed
            else f"every bound is met on the training rows{to_rounding}",
            "train_loss": float(np.average((predicted - targets) ** 2, weights=weights)),
        }

    def _over_training(self, trained: Trained, scaled: Sequence[Any]) -> dict[str, Any]:
        """The trajectory of training, which knew the labels and the bounds `scaled`, in units of the labels."""
        plan, stated = trained.problem.plan, self.constraints_
        found = trajectory(trained.solution.records, plan)
        units = [bound.unit(self.scale_) for bound in stated]
        bound_of = dict(zip(plan.names, plan.notion_of.tolist(), strict=True))
        in_units = {
            own.text: (found["constraints"][b.text], unit) for own, b, unit in zip(stated, scaled, units, strict=True)
        }
        return found | {
            "loss": _times(found["loss"], self.scale_**2),
            "constraints": {text: _times(values, unit) for text, (values, unit) in in_units.items()},
            "bounds": {bound.text: float(bound.stated) for bound in stated},
            "multipliers": {
                _named_as(name, stated, scaled): _times(values, self.scale_**2 / units[bound_of[name]])
                for name, values in found["multipliers"].items()
            },
        }

    # -- predicting ---------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> np.ndarray:
        """(n,) predicted numbers, in the units of y; the same input gives the same numbers every time."""
        check_is_fitted(self)
        return self.shift_ + self.scale_ * model_scores(self, X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination R^2, at most 1. y: (n,) numbers. sample_weight: (n,) >= 0.
        Raises: DataError as `predict`, and for labels and weights that `fit` refuses."""
        warn_of_order(X=X, y=y, sample_weight=sample_weight)
        predicted = self.predict(X)
        weight, truth, predicted = without_weight_0(sample_weight, y, predicted)
        weights = None if weight is None else read_weights(weight, len(predicted))
        return float(r2_score(finite_numbers("the labels y", truth, len(predicted)), predicted, sample_weight=weights))

    # -- the model folder ---------------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        return {"task": "regression", "shift": self.shift_, "scale": self.scale_}

    @classmethod
    def load(cls, path: str | os.PathLike[str] | Folder) -> FairRegressor:
        """The regressor saved at `path`, ready to predict. Raises: ModelFolderError where another model lies there."""
        folder = opened(path, "FairRegressor")
        manifest, where = folder.manifest, repr(folder.path)
        check_manifest(manifest, where, besides=("classes", "loss"))
        self: FairRegressor = restored(cls(**shared_arguments(manifest, None, where)), folder)
        self.constraints_ = constraints(manifest["constraints"])
        self.shift_, self.scale_ = manifest["shift"], manifest["scale"]
        return self


def regression_bounds(stated: Sequence[Any]) -> tuple[Any, ...]:
    """The bounds, where all are of predicted numbers. Raises: OptionError naming one that is not."""
    for bound in stated:
        if "predictions" not in bound.needs:
            raise OptionError(
                f"{bound.text!r} speaks of classes; of predicted numbers state residual_gap, group_squared_error or "
                "prediction_parity."
            )
    return tuple(stated)


def _named_as(name: str, stated: Sequence[Any], scaled: Sequence[Any]) -> str:
    """The name of a constraint on the scaled labels, with a threshold at its end as it was stated."""
    pairs = (
        pair for own, other in zip(stated, scaled, strict=True) for pair in zip(own.tails, other.tails, strict=True)
    )
    return next((name.removesuffix(other) + own for own, other in pairs if other and name.endswith(other)), name)


def _times(values: Sequence[float | None], unit: float) -> list[float | None]:
    return [None if value is None else value * unit for value in values]


def _mean_and_spread(targets: np.ndarray, weights: np.ndarray | None) -> tuple[float, float]:
    """The mean and the standard deviation of labels (n,), 1 for that of labels all alike. Raises: DataError where their
    squares overflow."""
    if (targets == targets[0]).all():
        return float(targets[0]), 1.0  # averages of them may be off by a rounding
    mean = float(np.average(targets, weights=weights))
    with np.errstate(over="ignore"):
        spread = float(np.average((targets - mean) ** 2, weights=weights)) ** 0.5 or 1.0
    if not np.isfinite(spread):
        raise DataError(
            f"the labels y are up to {np.abs(targets).max():.3g}, whose squares overflow. Give them in larger units."
        )
    return mean, spread


@contextmanager
def _in_own_units(stated: Sequence[Any], scaled: Sequence[Any]) -> Iterator[None]:
    """Within it errors quote bounds as they were stated, and not in the units of training."""
    try:
        yield
    except FairboundError as error:
        raise type(error)(_as_stated(str(error), stated, scaled)) from None


def _as_stated(said: str, stated: Sequence[Any], scaled: Sequence[Any]) -> str:
    """Words in which the scaled bounds are quoted as they were stated."""
    for own, other in zip(stated, scaled, strict=True):
        said = said.replace(other.text, own.text)
    return said
