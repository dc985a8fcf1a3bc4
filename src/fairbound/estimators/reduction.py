"""Training under bounds for those who keep their model: any scikit-learn classifier that takes sample weights.

A bound that is a weighted sum of rates gives every row a cost of a positive decision. A classifier of lowest cost is
an ordinary one on rows relabelled and weighted by these costs, so that the model is fitted again and again while the
multipliers of missed bounds rise.

Source: Agarwal, Beygelzimer, Dudik, Langford, Wallach (2018), A reductions approach to fair classification, Algorithm
1.
Departs: one of the models fitted on the way is returned, with one threshold on its score, in place of a lottery over
all of them: of all models and thresholds, the most accurate that meets the true bounds on the training rows. Where the
best lottery is far more accurate there, a weighted sum of the models' scores may take the place of one
(`fairbound.estimators.reducing.sum_of_fits`). Grid: the mean multipliers of the run are tried too, scaled by several factors
(their section 3.4 in one direction). For models that know their rows by heart see
`fairbound.estimators.reducing.plug_in` and `TriedByOthers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils.validation import check_is_fitted

from fairbound.base.errors import DataError, OptionError
from fairbound.base.said_once import said_once
from fairbound.base.undoing import undone_on_failure
from fairbound.estimators.conventions import on_few_threads
from fairbound.estimators.reducing.lottery import Lottery
from fairbound.estimators.reducing.plug_in import PlugIn
from fairbound.estimators.reducing.reduction_fits import Told, Tried, TriedByOthers
from fairbound.estimators.reducing.reduction_report import Facts, reduction_report, warn_of_reduction
from fairbound.estimators.training_rows import checked_labels
from fairbound.fairness.bound import groups_wanted
from fairbound.fairness.compiled.builder import compile_plan
from fairbound.fairness.notions import Bound, constraints
from fairbound.fairness.scored import Scored
from fairbound.postprocessing.costs import checked_costs, costs_for, without_class_weight
from fairbound.postprocessing.folds import (
    check_every_row_counts,
    check_folds,
    folds_taken,
    nearly_all_right,
    scores_own_rows_better,
)
from fairbound.postprocessing.rule import margins
from fairbound.postprocessing.scoring import CODES, names_seen, scores_of
from fairbound.postprocessing.sweep import ROUNDING, Sweep, sweep_of
from fairbound.postprocessing.weights import check_takes_weights, refuses_weights, takes_weights, weighted_part
from fairbound.rows.accuracy import accuracy_of
from fairbound.rows.doubtful import warn_of_groups
from fairbound.rows.groups import Groups
from fairbound.rows.labels import OF_CLASSES, binary_labels
from fairbound.rows.reading import warn_of_order
from fairbound.rows.weighted import scaled_weights, weights_of_fit
from fairbound.tables.naming import column_names, keep_names
from fairbound.tables.taking import in_memory, rows_that_count

SCALES = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0)
QUICK = 6
"""How often as many rounds where a round needs no fit."""
OWN = 0.05
"""An excess over a bound of what is decided of the rows of fit that is small beside what relabelled rows may gain."""
LARGEST = 100.0
"""Most that the multipliers of all bounds may sum to."""


Rule = TypeVar("Rule", Tried, PlugIn)


@dataclass(eq=False, repr=False)
class Reduction(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Any scikit-learn classifier that takes `sample_weight`, fitted under stated bounds; decisions need no group.

    estimator: the classifier; a clone is fitted each time, to labels 0 and 1, of which 1 is positive. Of a Pipeline the last step takes the weights, and with
        metadata routing every other step that requests them.
    constraint: bounds on selection, error, true and false positive rates of groups, or ratios of them, as text or
        objects.
    folds: 0 judges every fit by the rows that it was fitted to, which suits models that score these no better than
        others. K >= 2 is for those that do, as boosted trees: K fits to the labels and to the groups of each label,
        whose mean probabilities give what a positive decision is worth (`fairbound.estimators.reducing.plug_in`); bounds and
        threshold are judged on training rows by a fit that had not seen them. Where that gives hardly more than one answer
        for all, and for a classifier without `predict_proba`, as an SVC, relabelled rows are fitted K times at all
        multipliers, and the mean of these fits decides. "auto" takes 5 where a fit to four fifths of the rows scores these
        better than the others, of both labels together, by more than happens by chance in 1 of 100 cases.
    costs: of a false positive and of a false negative, by which fits are weighted and models and thresholds chosen;
        (1, 1) maximises accuracy. None takes those of the class_weight of the estimator (of a Pipeline, of its last
        step), given by labels of y or "balanced", and a note says so; (1, 1) where it has none. Either way the fits are
        made without class_weight.
    positive: the label that counts as positive; None for the greater one.
    verbose: from 1 on, a line on standard error for each fit.

    After fit: classes_, folds_ (0 or K), estimator_ (the fitted model, or a `SumOfFits`, with folds and probabilities an
        `ExpectedGain`, which decide 0 or 1 by `predict` as Reduction does; a fitted model's own `predict` knows nothing
        of the bounds), threshold_ (a row is positive where its score is above; infinite where all rows get the same
        decision), and fit_report_, plain data of the
        training rows: "feasible" (whether the true bounds are met), "constraints" (with the "train_value" by which it
        was judged, and the "own_value" of what `predict` says of these rows, which differs with folds; "message" says
        where that misses a bound), "accuracy", "costs", "cost" (the mean cost of an error), "lottery_cost" and, of equal
        costs, "lottery_accuracy" (those of the best lottery over the same fits; None where none meets the bounds),
        "shortfall" (what to do where that is better by 0.01 of the larger cost, else None), "no_better_than_constant"
        (whether the same decision for all rows costs as little), "nothing_learnt" (what is said of that, else None),
        "known_rows" (what is said where the fit without bounds is right on nearly all rows that it was fitted to, else
        None), "small_groups", "missing_group_rows" (by attribute), "dropped_groups", "notes", "fits", "multipliers"
        (those of the returned fit; of the two directions of a difference one is taken from the other in what rows cost).
    """

    estimator: Any = None
    constraint: str | Bound | Sequence[str | Bound] | None = None
    _: KW_ONLY
    rounds: int = 20
    step: float = 2.0
    folds: int | Literal["auto"] = "auto"
    costs: tuple[float, float] | None = None
    positive: Any = None
    verbose: int = 0

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"sensitive_features": True}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        if self.estimator is not None:
            from sklearn.utils import get_tags  # scikit-learn 1.6, the first that asks for tags

            tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    @undone_on_failure
    @on_few_threads
    def fit(self, X: Any, y: Any, sensitive_features: Any = None, sample_weight: Any = None) -> Reduction:
        """Fit to rows X (n, d) as the estimator takes them, labels y (n,) of two values, and their groups.

        sensitive_features: as in FairClassifier.fit. sample_weight: (n,) >= 0; the estimator gets them over their mean.
        Raises: OptionError where the estimator takes no weights, or takes a number for every two rows and some have weight 0,
            where its class_weight names other labels than y, or a bound is no weighted sum of rates; DataError for rows that cannot be used. Warns: ConvergenceWarning where no model
            and threshold meets every bound on the training rows, where a lottery over the same fits is more accurate
            there by 0.01, and where the decisions are no better than the same one for all; DataWarning of groups with
            too few rows for a bound, of rows whose group is missing, and of a model that may know its rows by heart.
        """
        stated = self._checked()
        warn_of_order(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight)
        if y is None:
            raise DataError("Reduction requires y to be passed, but the target y is None.")
        X = in_memory(X, "Reduction")
        check_every_row_counts(self.estimator, sample_weight, y)
        X, y, given, sample_weight = rows_that_count(X, y, sensitive_features, sample_weight)
        codes, classes = binary_labels(checked_labels(X, y), self.positive, OF_CLASSES)
        if given is None:
            raise groups_wanted(stated[0].text)
        groups, n = Groups.of(given), len(codes)
        if len(groups) != n:
            raise DataError(f"y has {n} rows, sensitive_features {len(groups)}.")
        warn_of_groups(groups, codes)
        weight = scaled_weights(weights_of_fit(sample_weight, n))
        if weight is not None:
            check_takes_weights(self.estimator)
        self.classes_ = np.array(classes)
        plan = compile_plan(stated, groups, codes, classes)
        costs, notes = costs_for(self.costs, self.estimator, codes, classes, weight)
        estimator = without_class_weight(self.estimator)  # which the costs take the place of
        sweep = sweep_of(plan, groups.codes, codes, np.ones(n) if weight is None else weight, costs)
        told = Told(bool(self.verbose))
        with said_once():
            self.folds_, untold = folds_taken(self.folds, lambda: self._known(estimator, X, codes, weight))
            told.heading(self.folds_, n)
            tried, lottery, fits = self._tried(estimator, X, weight, sweep, told)
            model, threshold, excess, multipliers = tried.best()
            told.ended()
            by_heart = untold and isinstance(tried, Tried) and nearly_all_right(tried.first_scores(), codes, weight)
        self.estimator_, self.threshold_ = model, threshold
        if hasattr(model, "n_features_in_"):
            self.n_features_in_ = model.n_features_in_
        keep_names(self, names_seen(model) or column_names(X))
        rows = Scored(codes, tried.decided.astype(np.int64), tuple(map(str, classes)), groups=groups, weight=weight)
        own = replace(rows, predicted=(self._scores(X) > threshold).astype(np.int64)) if self.folds_ else rows
        self.fit_report_ = reduction_report(
            Facts(
                stated,
                plan,
                rows,
                own,
                groups,
                costs,
                notes,
                excess,
                multipliers,
                lottery,
                fits,
                self.folds_,
                by_heart,
            )
        ) | {"threshold": float(threshold)}
        warn_of_reduction(self.fit_report_)
        return self

    def _checked(self) -> tuple[Bound, ...]:
        stated = constraints(self.constraint)
        if not stated:
            raise OptionError("Reduction needs at least one bound, as in constraint='demographic_parity <= 0.02'.")
        if isinstance(self.estimator, type) or not hasattr(self.estimator, "fit"):
            raise OptionError(
                f"Reduction needs a classifier to fit, as in LogisticRegression(), got {self.estimator!r}."
            )
        last, _ = weighted_part(self.estimator)
        weighs = self.folds in (0, "auto") or not self._gives_probabilities
        if weighs and not takes_weights(last):
            raise OptionError(
                f"{type(last).__name__}.fit takes no sample_weight, by which bounds are brought in. Take another "
                "classifier, or fb.PostProcessor."
            )
        if weighs and refuses_weights(self.estimator):
            raise OptionError(
                f"{type(last).__name__} refuses sample_weight, by which bounds are brought in; call "
                "set_fit_request(sample_weight=True) on it."
            )
        if not (isinstance(self.rounds, int) and self.rounds >= 1):
            raise OptionError(f"rounds must be a whole number of at least 1, got {self.rounds!r}.")
        if not 0 < self.step < np.inf:
            raise OptionError(f"step must be positive, got {self.step!r}.")
        check_folds(self.folds, self.estimator)
        if self.costs is not None:
            checked_costs(self.costs)
        return stated

    @property
    def _gives_probabilities(self) -> bool:
        return hasattr(self.estimator, "predict_proba")

    def _weighs(self) -> bool:
        """Whether the classifier can be fitted to weighted rows."""
        return takes_weights(weighted_part(self.estimator)[0]) and not refuses_weights(self.estimator)

    def _known(self, estimator: Any, X: Any, codes: np.ndarray, weight: np.ndarray | None) -> bool | None:
        """Whether the model scores its rows better than others; None where that cannot be told."""
        return scores_own_rows_better(estimator, "auto", X, codes, CODES, weight)

    def _tried(
        self, estimator: Any, X: Any, weight: np.ndarray | None, sweep: Sweep, told: Told
    ) -> tuple[Tried | PlugIn, Lottery, int]:
        """The rules tried, as folds and classifier allow, the best lottery over them, and how many fits were made.

        Where probabilities of label and group give hardly more than one answer for all, relabelled rows are fitted too.
        That way is taken where it is clearly better, unless the mean of its fits, which decides new rows, is farther
        beyond the bounds."""
        if not self.folds_:
            tried, lottery = self._searched(Tried(estimator, X, sweep, told), self.rounds)
            return tried, lottery, tried.fits
        if not self._gives_probabilities:
            tried, lottery = self._searched(TriedByOthers(estimator, X, sweep, self.folds_, told), self.rounds)
            return tried, lottery, tried.fits
        found, lottery = self._searched(PlugIn(estimator, X, weight, sweep, self.folds_, told), self.rounds * QUICK)
        if not (found.saves_little and self._weighs()):
            return found, lottery, found.fits
        tried, other = self._searched(TriedByOthers(estimator, X, sweep, self.folds_, told), self.rounds)
        fits = found.fits + tried.fits
        if tried.clearly_better_than(found) and _own_excess(tried, X) <= max(OWN, _own_excess(found, X)):
            return tried, other, fits
        return found, lottery, fits

    def _searched(self, tried: Rule, rounds: int) -> tuple[Rule, Lottery]:
        """The rules, with those at the multipliers looked for, and the best lottery over them."""
        self._descend(tried, rounds)
        return tried, tried.mixed()

    def _descend(self, tried: Tried | PlugIn, rounds: int) -> None:
        """Judge under multipliers that follow the missed bounds, then under multiples of their mean."""
        m = len(tried.sweep.bounds)
        theta, total = np.zeros(m), np.zeros(m)
        for k in range(rounds):
            weights = np.exp(theta - max(theta.max(initial=0.0), 0.0))
            rest = np.exp(-max(theta.max(initial=0.0), 0.0))
            multipliers = LARGEST * weights / (rest + weights.sum()) if k else np.zeros(m)
            g = tried.fit(multipliers)
            total += multipliers
            if k == 0 and g.max(initial=-1.0) <= ROUNDING:
                return  # the model without bounds meets them
            if k == 0:
                theta = np.full(m, np.log(1 / (LARGEST * m)))
            theta = theta + self.step * g / (1 + k) ** 0.5
        mean = total / max(rounds - 1, 1)
        for scale in SCALES:
            tried.fit(scale * mean)

    # -- predicting ---------------------------------------------------------------------------------------------

    def _scores(self, X: Any) -> np.ndarray:
        return scores_of(self.estimator_, "auto", X, CODES, names_seen(self))

    def decision_function(self, X: Any) -> np.ndarray:
        """(n,) the model's score minus the threshold, above 0 where the positive label is predicted; of an infinite
        threshold finite too, by `fairbound.postprocessing.rule.margins`."""
        check_is_fitted(self)
        scores = self._scores(X)
        return margins(scores, np.full(len(scores), self.threshold_))

    def predict(self, X: Any) -> np.ndarray:
        """(n,) labels; the same input gives the same labels every time."""
        check_is_fitted(self)
        return self.classes_[(self._scores(X) > self.threshold_).astype(int)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy of the predictions; arguments and errors as of `FairClassifier.score`."""
        warn_of_order(X=X, y=y, sample_weight=sample_weight)
        return accuracy_of(self.predict(X), y, self.classes_, sample_weight)


def _own_excess(tried: Tried | PlugIn, X: Any) -> float:
    """The largest excess over a bound of what the model of the best rule decides of the rows X that it was fitted to."""
    model, threshold, _, _ = tried.best()
    selected = scores_of(model, "auto", X, CODES) > threshold
    return float(tried.sweep.excess(selected.astype(float)).max(initial=-1.0))
