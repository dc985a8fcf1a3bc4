"""`FairClassifier`, a scikit-learn estimator that meets stated bounds on groups and classes.
Constructor arguments are stored untouched."""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import nn

from fairbound.base.errors import OptionError
from fairbound.base.undoing import undone_on_failure
from fairbound.estimators.certificates.certifying import fit_certified
from fairbound.estimators.classifier_training import ClassifierTraining
from fairbound.estimators.conventions import TrainedEstimator, on_few_threads, seed_of, timed
from fairbound.estimators.facts.fit_warnings import warn_of_fit
from fairbound.estimators.group_rule import falls_short, more_accurate, without_rule
from fairbound.estimators.judged_rows import LabelledRows
from fairbound.estimators.linear.bent_for_bounds import may_need_bends, with_bends
from fairbound.estimators.linear.coefficients import linear_parts
from fairbound.estimators.parameter_checks import classifier_bounds
from fairbound.estimators.retrained_networks import best_of_runs, may_run_again
from fairbound.estimators.saving.folder import Folder
from fairbound.estimators.saving.saved import arguments_of, classifier_facts, opened, restored
from fairbound.estimators.sharded import check_agreed, shards_of
from fairbound.estimators.training_rows import (
    columns_taken,
    features_of,
    fit_features,
    model_scores,
)
from fairbound.fairness.module_trial import refuse_probabilities, trial
from fairbound.models.model import ModuleModel
from fairbound.models.scoring import refuse_overflow
from fairbound.postprocessing import GroupRule
from fairbound.rows.accuracy import accuracy_of
from fairbound.rows.groups import check_lengths
from fairbound.rows.reading import warn_of_order
from fairbound.rows.shards import all_or_none
from fairbound.rows.sparse import SparseRows
from fairbound.tables import EncodeReport
from fairbound.tables.group_terms import check_terms, codes_of, with_terms
from fairbound.tables.naming import groups_to_decide_by


@dataclass(eq=False, repr=False)
class FairClassifier(TrainedEstimator, ClassifierMixin, BaseEstimator):
    """A classifier trained to the lowest loss under stated fairness bounds; its decisions are deterministic.

        fair = fb.FairClassifier("demographic_parity <= 0.05").fit(X, y, sensitive_features=sex)
        fair.predict(X_new)  # needs no group
        fair.fit_report_["constraints"]  # where each bound stands on the training rows

    What is bounded:

    constraint: a bound as text ("demographic_parity <= 0.02", "recall of class b >= 0.95"), an object, a list of them,
        or None. Bounds on rates of positive decisions need two classes; those on the rates of every class
        (`class_recall_parity`, ...), on mean losses and on one class take any number.
    certify: True, or a confidence such as 0.99: train so that rows kept apart confirm the bounds
        (docs/certificates.md). `fit_report_["certificate"]` has the verdict.
    on_insufficient: of a model that is not confirmed: "warn", or "raise" CertificateError.
    positive: of two classes, the label that counts as positive; None for the greater one.

    What is trained:

    model: "linear", "mlp:64,32" (a network with layers of 64 and 32 units), or a torch.nn.Module from (B, d) features
        to (B,) or (B, 1) scores, with k > 2 classes to (B, k). An nn.Module gets numeric X as it is, of a frame the
        columns of training by name, integers as floats unless it cannot run on floats, and is itself trained; the
        others get the features of a TableEncoder (standardised numbers, 0/1 columns).
    objective: what is minimised under the bounds (docs/training.md):
        "loss": the mean loss; "accuracy": wrong decisions, smoothed;
        "auto": decisions on new rows: the mean loss, unless that is no better than one answer for all, with gentle
        surrogates of rates; where all rows are taken at once under bounds on errors of classes or on score
        distributions, wrong decisions as far as the scores keep their order;
        "largest_group_loss": the largest mean loss of a group, with [crossed] or [by=ATTRIBUTE] as bounds have them;
        "auc": ranks by the area under the ROC curve (docs/auc.md).
    objective_class: a label, for the loss over the rows of that class alone; None for all rows.
    loss: "logistic" (with k > 2 classes cross-entropy), or for two classes "hinge" or "squared", both of labels -1 and 1.
    class_weight: None, "balanced" or {label: weight >= 0}: what a row of each class counts in the loss, not in the
        bounds.
    weight_decay: D >= 0 adds D/2 |w|^2 for the weights w of a linear model; "auto" chooses D, for the last layer of a
        network too (docs/training.md).
    sensitive_columns: a column of X with the name of a sensitive attribute: "keep" or "drop" it as a feature. Where X has
        no column names nothing can be dropped, and a warning says so.
    options: a TableOptions. A linear model bends in some numbers, and takes some columns together, where labels ask for
        it; TableOptions(knots=0) keeps it straight. A network is told where numbers jump; jumps=0 leaves that out.

    Groups at prediction, where the law allows their use; predictions then need `sensitive_features`:

    use_groups_at_prediction: decide by a threshold for each group (docs/postprocessing.md); `predict_proba` needs none.
    group_terms: weights of its own for every group of one sensitive attribute (docs/partial.md).

    How it is trained:

    algorithm: "auto", a method's name, or one with options, such as fb.ALM(step_size=0.05). "auto" takes all rows at
        once for linear models, else random batches; `fit_report_["notes"]` says what it took and why.
    budget: "30s" of training in all, or "5000 steps" of one run, of which a fit may make several
        (docs/training.md#budgets); None for max(1500 steps, 10 epochs) a run, up to 4 times that while no bound is met.
    batch_size, sampling: rows of a random batch, and how they are drawn.
    validation: share of rows held back to choose the iterate that also meets the bounds there. "auto": none where all
        rows are taken at once; else 20 % where groups are large enough for the bound, else none.
    distributed: every process of a torch.distributed group calls fit with its own rows; all get the same model.
    random_state: a seed; None, a RandomState or a Generator draw one, which `fit_report_["seed"]` says.
    progress, or verbose >= 1: lines on standard error.

    After fit: classes_, encoder_, groups_, n_features_in_, solution_; of linear models coef_ and intercept_ (for the
    features `encoder_.feature_names`, in the units of the table); fit_report_ (plain data; "accuracy" is that on the
    training rows) and trajectory_ (loss, bounds and multipliers over training, docs/audit-schema.md).
    """

    _: KW_ONLY
    loss: str = "logistic"
    objective: Any = "auto"
    objective_class: Any = None
    positive: Any = None
    use_groups_at_prediction: bool = False
    group_terms: bool = False
    weight_decay: float | str = "auto"
    class_weight: Any = None
    distributed: bool = False
    sampling: str = "balanced"

    __metadata_request__predict: ClassVar[dict[str, bool]] = {"sensitive_features": True}
    __metadata_request__decision_function: ClassVar[dict[str, bool]] = {"sensitive_features": True}
    __metadata_request__predict_proba: ClassVar[dict[str, bool]] = {"sensitive_features": True}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"sensitive_features": True}

    @undone_on_failure
    def fit(self, X: Any, y: Any, sensitive_features: Any = None, sample_weight: Any = None) -> FairClassifier:
        """Train on X (n, d) and y (n,).

        X: DataFrame (pandas, polars, pyarrow, ...), numpy array, scipy sparse matrix, torch tensor or list of rows; or
            `tables.Encoded`, where several models are trained on one table; or `tables.Chunks`, a table larger than
            memory. y: two or more values.
        sensitive_features: (n,) or (n, a) array, Series, DataFrame or dict of columns, or a name or list of names of
            columns of X; the third argument, where scikit-learn's estimators take weights. Missing values are
            constrained only where known. Bounds on classes need none. sample_weight: (n,) >= 0.
        Raises: DataError or OptionError that says what to change; the estimator is then as it was before.
        Warns: ConvergenceWarning with the smallest excess reached, where no iterate met every bound; DataWarning of
            columns and groups that were left out, and of groups too small for a bound.
        """
        check_agreed(self)
        given = X, y, sensitive_features, sample_weight
        if self.certify:
            return fit_certified(self, LabelledRows, *given)
        rows = LabelledRows.of(self, *given)
        return self._fit(rows.X, rows)

    @timed
    @on_few_threads
    def _fit(self, X: Any, rows: LabelledRows, x0: Any = None) -> FairClassifier:
        """`fit` without a certificate, on rows whose table is X; x0: parameters to begin at."""
        stated, groups, limit = classifier_bounds(self), rows.groups, self._limit()
        trained_under = without_rule(stated, rows.classes) if self.use_groups_at_prediction else stated
        shards = shards_of(self)
        features, notes = fit_features(self, X, groups, shards, rows.codes)
        if isinstance(self.model, nn.Module):
            refuse_probabilities(trial(self.model, torch.from_numpy(features)))
        all_or_none(shards, lambda: check_lengths(features, len(rows), groups))
        if self.group_terms:
            if isinstance(self.model, nn.Module):
                raise OptionError(
                    "group_terms=True extends the features of an encoded table; an nn.Module takes X as it is."
                )
            check_terms(groups)
            features = with_terms(features, groups.codes[:, 0], len(groups.labels[0]))
        self.classes_, self.groups_ = np.array(rows.classes), groups
        seed = shards.gather(seed_of(self.random_state))[0]
        training = ClassifierTraining(
            estimator=self, bounds=stated, X=X, features=features, rows=rows, notes=notes, shards=shards, limit=limit,
            seed=seed, x0=x0,
        )  # fmt: skip
        learnt = training.under(trained_under)
        if falls_short(learnt.report) and not (limit and limit.over):
            learnt = more_accurate(learnt, training.under(stated), self.group_terms)
        if limit is None and may_run_again(self, trained_under):
            learnt = best_of_runs(learnt, partial(training.under, trained_under), features, rows)
        self.model_, self.x_, self.solution_, self.trajectory_, self.fit_report_, self.rule_ = learnt
        if isinstance(self.model_, ModuleModel):
            self.model_.bind(self.x_)  # training leaves it at a point that it looked at last
        if x0 is None and may_need_bends(self, X, rows) and (bent := with_bends(self, X, rows)) is not None:
            for name in [name for name in vars(bent) if name.endswith("_")]:
                setattr(self, name, getattr(bent, name))
        warn_of_fit(self.fit_report_, trained_under)
        return self

    @property
    def coef_(self) -> np.ndarray:
        """(1, d), or (k, d) of k > 2 classes: the weights of a linear model, in the units of the table."""
        return self._linear[0]

    @property
    def intercept_(self) -> np.ndarray:
        """(1,) or (k,): what a linear model adds."""
        return self._linear[1]

    @property
    def _linear(self) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self)
        if self.group_terms:
            raise AttributeError(
                "coef_ and intercept_ are of one linear model; with group_terms every group has its own."
            )
        return linear_parts(self.model_, self.x_, self.encoder_)

    # -- predicting ---------------------------------------------------------------------------------------------

    @property
    def needs_groups(self) -> bool:
        """Whether its decisions need the groups of the rows."""
        return self.rule_ is not None or self.group_terms

    def encode(self, X: Any) -> tuple[torch.Tensor | SparseRows, EncodeReport | None]:
        """The features of the table (n, d), without group terms, SparseRows where the model was trained on a sparse
        table, and what happened to the table on the way."""
        check_is_fitted(self)
        table, module = columns_taken(self, X), getattr(self.model_, "module", None)
        return features_of(table, self.encoder_, self.n_features_in_, module=module)

    def decision_function(self, X: Any, sensitive_features: Any = None) -> np.ndarray:
        """(n,) logits, above 0 where the positive class is predicted; with k > 2 classes (n, k), the largest is
        predicted.

        sensitive_features: needed with `group_terms` and with `use_groups_at_prediction`, and not looked at else; with
        the latter a logit is that of the model minus the threshold of the row's group.

        A row's score is that of the row alone to 1e-12, whatever other rows X holds: built-in models are computed in
        float64 (an nn.Module in float32, in which it is trained). Training works in float32, and so does X that is
        `tables.Encoded`: its scores are those of the table to 1e-6.
        """
        check_is_fitted(self)
        sensitive_features = groups_to_decide_by(X, sensitive_features) if self.needs_groups else None
        scores = self._logits(X, sensitive_features)
        if self.rule_ is None:
            return scores
        return self.rule_.margins(scores, self.rule_.groups_of(sensitive_features, len(scores)))

    def _logits(self, X: Any, sensitive_features: Any) -> np.ndarray:
        """The scores of the fitted model alone. Raises: DataError where one is no finite number."""
        extended = None
        if self.group_terms:
            trained = self.groups_

            def extended(features: Any) -> Any:
                codes = codes_of(trained, sensitive_features, features.shape[0])
                return with_terms(features, codes, len(trained.labels[0]))

        with np.errstate(over="ignore", invalid="ignore"):
            scores = model_scores(self, X, extended)
        refuse_overflow(scores, of_module=self.encoder_ is None)
        return scores

    def predict_proba(self, X: Any, sensitive_features: Any = None) -> np.ndarray:
        """(n, k) probabilities of classes_, by the logistic function or the softmax of the model's scores.
        sensitive_features: needed with `group_terms`."""
        check_is_fitted(self)
        sensitive_features = groups_to_decide_by(X, sensitive_features) if self.group_terms else None
        return probabilities(self._logits(X, sensitive_features))

    def predict(self, X: Any, sensitive_features: Any = None) -> np.ndarray:
        """(n,) predicted labels; the same input gives the same labels every time.
        sensitive_features: as in `decision_function`."""
        scores = self.decision_function(X, sensitive_features)
        return self.classes_[scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(int)]

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None) -> float:
        """The accuracy of the predictions, in [0, 1]. y: (n,) in the words of training. sample_weight: (n,) >= 0.
        sensitive_features: as in `decision_function`. Raises: DataError as `predict`, and for missing labels."""
        warn_of_order(X=X, y=y, sample_weight=sample_weight)
        return accuracy_of(self.predict(X, sensitive_features), y, self.classes_, sample_weight)

    # -- the model folder ---------------------------------------------------------------------------------------

    _facts = classifier_facts

    @classmethod
    def load(cls, path: str | os.PathLike[str] | Folder, module: nn.Module | None = None) -> FairClassifier:
        """The classifier saved at `path`, ready to predict.

        module: needed where the model was an nn.Module: the same architecture, whose weights are replaced.
        """
        folder = opened(path, "FairClassifier")
        manifest = folder.manifest
        self: FairClassifier = restored(cls(**arguments_of(manifest, module, repr(folder.path))), folder)
        self.rule_ = None if manifest.get("rule") is None else GroupRule.from_dict(manifest["rule"])
        self.classes_ = np.array(manifest["classes"])
        return self


def probabilities(scores: np.ndarray) -> np.ndarray:
    """(n, k) probabilities of the classes from a model's scores: (n,) of two classes, (n, k) of more."""
    if scores.ndim == 2:
        return softmax(scores, axis=1)
    p, out = expit(scores), np.empty((len(scores), 2))
    np.subtract(1, p, out=out[:, 0])
    out[:, 1] = p
    return out
