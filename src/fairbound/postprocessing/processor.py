"""The stand-alone post-processor: a threshold for each group on top of a model of any library."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from fairbound.base.callers import users_line
from fairbound.base.checks import check_choice
from fairbound.base.errors import DataError, DataWarning, OptionError
from fairbound.base.files import atomic_write_text, sum_of_content
from fairbound.base.names import shortlist
from fairbound.base.said_once import said_once
from fairbound.base.undoing import undone_on_failure
from fairbound.base.version import __version__
from fairbound.fairness.bound import groups_wanted
from fairbound.fairness.few_rows import dropped_words_of_groups
from fairbound.fairness.notions import Bound, constraints
from fairbound.postprocessing.costs import costs_for
from fairbound.postprocessing.fitting import RuleOptions, fit_rule
from fairbound.postprocessing.folds import (
    check_every_row_counts,
    check_folds,
    folds_taken,
    kinds_of,
    nearly_all_right,
    parts_of,
    scores_by_others,
    scores_own_rows_better,
)
from fairbound.postprocessing.rule import GroupRule, draws
from fairbound.postprocessing.scoring import check_how, fitted_to, is_fitted, names_seen, scores_of
from fairbound.postprocessing.weights import check_takes_weights
from fairbound.rows.accuracy import accuracy_of
from fairbound.rows.doubtful import warn_of_groups
from fairbound.rows.groups import Groups, check_lengths, no_groups
from fairbound.rows.labels import OF_CLASSES, binary_labels
from fairbound.rows.reading import warn_of_order
from fairbound.rows.weighted import scaled_weights, weights_of_fit, without_weight_0
from fairbound.tables.naming import column_names, groups_to_decide_by, keep_names
from fairbound.tables.taking import in_memory, rows_that_count

FORMAT, FORMAT_VERSION = "fairbound-postprocessor", 2
INSTEAD = (
    "Take randomised=True, loosen the bound, or take FairClassifier with the same bound: trained under it, its scores lose less, "
    "without a draw."
)
"""What to do where single thresholds cost much."""
ALIKE = (
    "Every row gets the same decision: under these bounds nothing is better on the rows of fit. Where one kind of error counts more than the "
    "other, say so with costs=(of a false positive, of a false negative)."
)
NOT_KNOWN = (
    "{0} is missing in {1:,} of the rows of fit; these are a group of their own, and no bound on {0} holds for them."
)
UNLOOKED = "Thresholds do not look at {}, which no stated bound compares, and accuracy_bound and lowest_cost are of thresholds that do not."
ONE_ROW = (
    "one row is decided by a draw, and without row_ids= all rows that are scored one by one get the same draw, so that the bound no longer "
    "holds in the mean. Pass the row's identifier as row_ids=[...]."
)
KNOWN = (
    "The model's scores are right on nearly all rows of fit, as those of a model are that knows these rows by heart; the bound is then kept on "
    "them alone. If the model was fitted to them, pass rows that it has not seen, or leave its fit to PostProcessor: prefit=False, folds=5."
)
JUDGED, BY_OTHERS = "the rows of fit{}", ", each scored by a fit that had not seen it"


@dataclass(eq=False, repr=False)
class PostProcessor(ClassifierMixin, BaseEstimator):
    """The thresholds, one for each group, that decide best on any score under stated bounds on rates.

    Every decision needs the group, which the law does not allow everywhere (docs/postprocessing.md).

    estimator: a model of any library with `decision_function`, `predict_proba` or `predict`; None where X is the scores
        themselves, (n,) or (n, 1), larger for more positive.
    constraint: one bound or several, as text or objects: on selection, error, true and false positive rates of groups,
        their ratios, and on the recall or error of a class.
    prefit: True takes the estimator as it is, False fits a clone of it to all rows first, "auto" does so where it is not
        fitted. A fitted model needs rows here that it was not fitted to.
    folds: of a model that is fitted here. 0 chooses thresholds by its scores of the rows that it was fitted to. K >= 2
        is for models that know their rows by heart, as forests: every row is scored by one of K more fits, that had not
        seen it. "auto" takes 5 where a fit to four fifths of the rows is right on more of these than of the others, by
        0.02 and by 1.5 standard errors.
    scores: "auto" for the first of these methods that there is, one of their names, or a function (estimator, X) ->
        (n,); `fit` gives it rows of weight 0 too where the estimator is fitted already.
    randomised: False for one threshold per group. True mixes two: a row between them is decided at random, by
        `random_state` and the row's identifier alone (see `predict`).
    costs: of a false positive and of a false negative; (1, 1) maximises accuracy. None takes those of the class_weight
        of the estimator (of a Pipeline, of its last step), given by labels of y or "balanced", and a note says so;
        (1, 1) where it has none.
    unknown: what to do with a row of a group that was not fitted: "pooled" decides it by the best threshold of all rows
        together and warns; "raise" raises UnknownGroupError.
    positive: the label that counts as positive; None for the greater one.

    A missing group is a group of its own where the rows of `fit` have it, without a part in the bounds. Groups of fewer
    than 50 rows that no bound holds for, as missing ones or those that `fewest` leaves out, are decided by the best
    threshold of all rows together. A combination of attributes is under the bounds on each of them.
    After fit: classes_, folds_ (0 or K), estimator_ (the model that scores), rule_ (a GroupRule), fit_report_ (plain
        data: accuracy, what is proved of it, bounds and rates on the rows of fit, as they were scored for the thresholds).
    """

    estimator: Any = None
    constraint: str | Bound | Sequence[str | Bound] | None = None
    _: KW_ONLY
    prefit: bool | str = "auto"
    folds: int | Literal["auto"] = "auto"
    scores: str | Callable[[Any, Any], Any] = "auto"
    randomised: bool = False
    costs: tuple[float, float] | None = None
    unknown: str = "pooled"
    positive: Any = None
    random_state: int | None = 0

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"sensitive_features": True}
    __metadata_request__predict: ClassVar[dict[str, bool]] = {"sensitive_features": True}
    __metadata_request__decision_function: ClassVar[dict[str, bool]] = {"sensitive_features": True}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"sensitive_features": True}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        if hasattr(self.estimator, "__sklearn_tags__"):
            tags.input_tags = self.estimator.__sklearn_tags__().input_tags
            return tags
        tags.input_tags.one_d_array = True
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        return tags

    @undone_on_failure
    def fit(self, X: Any, y: Any, sensitive_features: Any = None, sample_weight: Any = None) -> PostProcessor:
        """Choose the thresholds on rows X (n, d), labels y (n,) of two values, and their groups.

        sensitive_features: as in FairClassifier.fit. sample_weight: (n,) >= 0, of the thresholds, and of the estimator
            where it is fitted too; it gets them over their mean, and none where all are equal.
        Raises: OptionError where the bounds cannot be met by thresholds, or are no weighted sums of rates, and where the
            estimator is fitted and takes no weights, or takes a number for every two rows and some have weight 0;
            DataError for rows that cannot be used; EmptyGroupError for a group without the rows that a bound compares. Warns:
            ConvergenceWarning where mixtures of thresholds would be more accurate by a point or more, or every row gets
            the same decision; DataWarning of rows whose group is missing, of groups that a bound leaves out, of groups of
            fewer than 50 rows, and of those of too few for a bound where thresholds move in steps.
        """
        stated = self._checked()
        if y is None:
            raise DataError("PostProcessor requires y to be passed, but the target y is None.")
        warn_of_order(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight)
        every = in_memory(X, "PostProcessor")
        if fits := self._fits_the_model():
            check_every_row_counts(self.estimator, sample_weight, y)
        X, y, given, counting = rows_that_count(every, y, sensitive_features, sample_weight)
        codes, classes = binary_labels(y, self.positive, OF_CLASSES)
        compared = [b.text for b in stated if "groups" in b.needs]
        if compared and given is None:
            raise groups_wanted(compared[0])
        groups = no_groups(len(codes)) if given is None else Groups.of(given)
        warn_of_groups(groups, codes)
        self.classes_ = np.array(classes)
        weight = scaled_weights(weights_of_fit(counting, len(codes)))
        if fits and weight is not None:
            check_takes_weights(self.estimator)
        labels = self.classes_[codes].reshape(getattr(y, "shape", -1))  # a model may warn of (n, 1)
        with said_once():
            self.estimator_ = fitted_to(self.estimator, X, labels, weight) if fits else self.estimator
            if callable(self.scores) and not fits:  # it may have scores of these rows at hand
                _, scores = without_weight_0(
                    sample_weight, scores_of(self.estimator_, self.scores, every, self.classes_)
                )
            else:
                scores = scores_of(self.estimator_, self.scores, X, self.classes_)
            check_lengths(scores, len(codes), groups)
            known = partial(self._known, X, codes, weight) if fits else lambda: None
            self.folds_, untold = folds_taken(self.folds, known)
            if self.folds_:
                scores = self._scores_by_others(X, codes, groups, weight)
        if hasattr(self.estimator_, "n_features_in_"):
            self.n_features_in_ = self.estimator_.n_features_in_
        keep_names(self, names_seen(self.estimator_) or column_names(X))
        costs, notes = costs_for(self.costs, self.estimator, codes, classes, weight)
        options = RuleOptions(randomised=self.randomised, costs=costs)
        self.rule_, self.fit_report_ = fit_rule(
            scores, codes, groups, stated, classes=classes, weight=weight, options=options
        )
        self.fit_report_ |= {"folds": self.folds_, "judged_on": JUDGED.format(BY_OTHERS if self.folds_ else "")}
        unknown = {name: n for name, n in groups.unknown().items() if name in self.rule_.attributes}
        if unlooked := [name for name in groups.attributes if name not in self.rule_.attributes]:
            notes = [*notes, UNLOOKED.format(shortlist(unlooked, quoted=True))]
        self.fit_report_ |= {"notes": notes, "missing_group_rows": unknown}
        told = [NOT_KNOWN.format(name, n) for name, n in unknown.items() if n]
        told += dropped_words_of_groups(self.fit_report_["dropped_groups"], self.fit_report_["dropped_rows"])
        for said in [*told, *self.fit_report_["warnings"]]:
            warnings.warn(said, DataWarning, stacklevel=users_line())
        if untold and self.estimator is not None and nearly_all_right(scores, codes, weight):
            self.fit_report_["warnings"].append(KNOWN)
            warnings.warn(KNOWN, DataWarning, stacklevel=users_line())
        if self.fit_report_["shortfall"] or not self.randomised:  # mixtures do not move in steps
            for said in self.fit_report_["small_groups"]:
                warnings.warn(said, DataWarning, stacklevel=users_line())
        if self.fit_report_["shortfall"]:
            warnings.warn(f"{self.fit_report_['shortfall']} {INSTEAD}", ConvergenceWarning, stacklevel=users_line())
        elif {group["selection_rate"] for group in self.fit_report_["groups"]} in ({0.0}, {1.0}):
            self.fit_report_["warnings"].append(ALIKE)
            warnings.warn(ALIKE, ConvergenceWarning, stacklevel=users_line())
        return self

    def _checked(self) -> tuple[Bound, ...]:
        """The stated bounds; the other options are checked on the way."""
        stated = constraints(self.constraint)
        if not stated:
            first = " The first argument is the model that scores." if isinstance(self.estimator, str | Bound) else ""
            raise OptionError(
                f"PostProcessor needs at least one bound, as in constraint='demographic_parity <= 0.02'.{first}"
            )
        check_how(self.scores)
        check_folds(self.folds, self.estimator)
        check_choice("unknown", self.unknown, ("pooled", "raise"))
        if self.prefit not in (True, False, "auto"):
            raise OptionError(f"prefit must be True, False or 'auto', got {self.prefit!r}.")
        if not isinstance(self.random_state, Integral | None):
            raise OptionError(
                f"random_state must be a whole number or None, got {type(self.random_state).__name__}: a row's draw depends on it "
                "and on the row's identifier alone."
            )
        return stated

    def _fits_the_model(self) -> bool:
        """Whether the model that scores is a clone fitted here, not the estimator as it is."""
        model = self.estimator
        if model is None or self.prefit is True or (self.prefit == "auto" and is_fitted(model)):
            if self.folds not in (0, "auto"):
                raise OptionError(
                    f"folds={self.folds} is for a model that is fitted here, and this one is fitted already. Leave it out, "
                    "or take prefit=False."
                )
            return False
        if not hasattr(model, "fit"):
            raise OptionError(f"{type(model).__name__} has no fit method; pass it fitted, with prefit=True.")
        return True

    def _known(self, X: Any, codes: np.ndarray, weight: np.ndarray | None) -> bool | None:
        """Whether the model scores its rows better than others; None where that cannot be told."""
        labels = self.classes_[codes]
        return scores_own_rows_better(self.estimator, self.scores, X, labels, self.classes_, weight)

    def _scores_by_others(self, X: Any, codes: np.ndarray, groups: Groups, weight: np.ndarray | None) -> np.ndarray:
        """(n,) scores of every row by a fit that had not seen it."""
        group = np.unique(groups.codes, axis=0, return_inverse=True)[1].ravel() if groups.attributes else 0 * codes
        return scores_by_others(
            self.estimator,
            self.scores,
            X,
            self.classes_[codes],
            self.classes_,
            weight,
            parts_of(kinds_of(group, codes, self.folds_), self.folds_),
        )

    # -- predicting ---------------------------------------------------------------------------------------------

    def predict(self, X: Any, sensitive_features: Any = None, row_ids: Any = None) -> np.ndarray:
        """(n,) labels. The same arguments give the same labels every time.

        sensitive_features: the groups, with the attributes that the bounds name. row_ids: (n,) identifiers of the rows,
            for a randomised rule: a row of the same identifier, group and score always gets the same label. None for
            the row's place in X, 0, 1, ...: rows scored one by one would then all get the draw of place 0.
        Raises: UnknownGroupError with unknown="raise"; DataError without the groups. Warns: DataWarning of rows of no
            fitted group with unknown="pooled"; UserWarning of a single row that is drawn for without row_ids.
        """
        warn_of_order(X=X, row_ids=row_ids)
        chances = self.selection_probability(X, sensitive_features)
        return self.classes_[(self._draws(chances, row_ids) < chances).astype(int)]

    def _draws(self, chances: np.ndarray, row_ids: Any) -> np.ndarray:
        """(n,) in [0, 1); 0 where nothing is left to chance."""
        open_ = np.flatnonzero((chances > 0) & (chances < 1))
        ids = np.arange(len(chances)) if row_ids is None else np.asarray(row_ids)
        if ids.shape != chances.shape:
            raise DataError(f"row_ids must have shape ({len(chances)},), got {ids.shape}.")
        if row_ids is None and len(chances) == 1 and len(open_):
            warnings.warn(ONE_ROW, UserWarning, stacklevel=3)
        out = np.zeros(len(chances))
        out[open_] = draws(0 if self.random_state is None else int(self.random_state), ids[open_])
        return out

    def selection_probability(self, X: Any, sensitive_features: Any = None) -> np.ndarray:
        """(n,) probability that the rule decides for the positive label: 0 or 1 but for randomised rules. It is no
        probability of the label itself."""
        scores, group = self._scored(X, sensitive_features)
        return self.rule_.chances(scores, group)

    @available_if(lambda self: not self.randomised)
    def decision_function(self, X: Any, sensitive_features: Any = None) -> np.ndarray:
        """(n,) score minus the threshold of the row's group, above 0 where the positive label is predicted."""
        scores, group = self._scored(X, sensitive_features)
        return self.rule_.margins(scores, group)

    def _scored(self, X: Any, sensitive_features: Any) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self)
        scores = scores_of(self.estimator_, self.scores, X, self.classes_, names_seen(self))
        given = groups_to_decide_by(X, sensitive_features)
        return scores, self.rule_.groups_of(given, len(scores), self.unknown)  # type: ignore[arg-type]

    @available_if(lambda self: hasattr(getattr(self, "estimator_", self.estimator), "predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, 2) probabilities of classes_ as the estimator gives them, which the thresholds leave as they are:
        `predict` does not decide at 0.5, and `selection_probability` is that of its decisions.
        Only of an estimator that has them."""
        check_is_fitted(self)
        positive = scores_of(self.estimator_, "predict_proba", X, self.classes_, names_seen(self))
        return np.column_stack([1 - positive, positive])

    def score(self, X: Any, y: Any, sensitive_features: Any = None, sample_weight: Any = None) -> float:
        """The accuracy of the predictions; arguments and errors as of `FairClassifier.score`."""
        warn_of_order(X=X, y=y, sample_weight=sample_weight)
        return accuracy_of(self.predict(X, sensitive_features), y, self.classes_, sample_weight)

    # -- the file -----------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the thresholds as one JSON file. The estimator is not in it:
        save it by the means of its own library."""
        check_is_fitted(self)
        data = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "library_version": __version__,
            "constraints": [b.text for b in constraints(self.constraint)],
            "classes": [c.item() if hasattr(c, "item") else c for c in self.classes_],
            "scores": self.scores if isinstance(self.scores, str) else None,
            "randomised": self.randomised,
            "costs": self.fit_report_["costs"],
            "unknown": self.unknown,
            "random_state": self.random_state,
            "rule": self.rule_.to_dict(),
            "feature_names": names_seen(self) or None,
            "fit": self.fit_report_,
        }
        data["checksum"] = sum_of_content(data)
        atomic_write_text(path, json.dumps(data, indent=1, allow_nan=False) + "\n")

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], estimator: Any = None, scores: str | Callable[[Any, Any], Any] | None = None
    ) -> PostProcessor:
        """The thresholds saved at `path` on top of the fitted `estimator`, ready to predict.

        scores: needed where it was a function.
        Raises: DataError where the file is none of these, OptionError where `scores` is missing.
        """
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
            if data["format"] != FORMAT or data["format_version"] != FORMAT_VERSION:
                raise ValueError(f"format {data['format']!r}, version {data['format_version']!r}")
            if data["checksum"] != sum_of_content(data):
                raise ValueError("its content differs from its own sha256: copy it again, or save the thresholds again")
            rule = GroupRule.from_dict(data["rule"])
            how = scores or data["scores"]
            stated, classes = data["constraints"], data["classes"]
            options = {k: data[k] for k in ("randomised", "unknown", "random_state")} | {"costs": tuple(data["costs"])}
            report, names = data["fit"], list(map(str, data.get("feature_names") or ()))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{str(path)!r} holds no thresholds of this version of fairbound ({error}).") from None
        if how is None:
            raise OptionError("the scores were a function, which is not saved; pass it as scores=.")
        self = cls(estimator, stated, prefit=True, scores=how, positive=classes[1], **options)
        self.classes_, self.rule_, self.fit_report_, self.estimator_ = np.array(classes), rule, report, estimator
        self.folds_ = report.get("folds", 0)
        keep_names(self, names_seen(estimator) or names)
        return self
