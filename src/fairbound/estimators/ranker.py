"""`FairRanker`, a scikit-learn estimator that scores documents under bounds on exposure and on pairs between groups."""

from __future__ import annotations

import os
import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from torch import nn

from fairbound.base.callers import users_line
from fairbound.base.errors import DataError, DataWarning
from fairbound.base.undoing import undone_on_failure
from fairbound.estimators.certificates.certifying import fit_certified
from fairbound.estimators.conventions import TrainedEstimator, on_few_threads, seed_of, timed
from fairbound.estimators.facts.fit_warnings import encoding_words, missing_group_words
from fairbound.estimators.facts.trajectory import lasting, trajectory
from fairbound.estimators.judged_rows import DocumentRows
from fairbound.estimators.parameter_checks import check_options
from fairbound.estimators.ranker_training import report, train_ranker
from fairbound.estimators.saving.folder import Folder
from fairbound.estimators.saving.saved import check_manifest, opened, restored, shared_arguments
from fairbound.estimators.training_rows import fit_features, model_scores
from fairbound.fairness.ranking_problem import RankingProblem, ranking_bounds
from fairbound.models.model import ModuleModel, model_of
from fairbound.ranking import by_query
from fairbound.ranking.documents import read_relevance
from fairbound.rows.groups import check_lengths
from fairbound.rows.queries import Queries
from fairbound.rows.reading import take_rows, warn_of_order

PLAIN = ("batch_size", "partners", "validation", "sensitive_columns", "progress", "verbose")
"""Parameters that are saved as they are."""

NO_ORDER = (
    "the bounds are met on the training rows by an order that puts {:.0%} of the pairs of documents the wrong way, no better than one score "
    "for all: loosen the bound, or give features that tell relevance where groups are alike."
)


@dataclass(eq=False, repr=False)
class FairRanker(TrainedEstimator, BaseEstimator):
    """Scores documents so that the better one of a query comes first, under stated bounds on groups of documents.

    constraint: a bound on rankings as text ("pairwise_parity[inter] <= 0.05", "exposure_parity <= 0.02"), an object, a
        list of them, or None. They hold on the training queries by their true metric.
    model: "linear", "mlp:64,32", or a torch.nn.Module from (B, d) features to (B,) or (B, 1) scores.
    algorithm: "auto", a method's name, or one with options, such as fb.ALM(step_size=0.05). "auto" takes all queries
        at once for a linear model of not too many pairs, else random batches of queries.
    loss: of pairs, "logistic" or "hinge".
    batch_size: queries per step.
    partners: worse documents that each better one is compared with in a step.
    budget: as in FairClassifier; an epoch is of the queries.
    validation: share of queries held back to choose the iterate that also meets the bounds there; "auto" for 20 % where
        random batches are taken and there are at least 1,000 queries, else none.
    certify, on_insufficient: as in FairClassifier, for bounds that are means over queries (exposure_parity); the price
        is in NDCG.
    sensitive_columns, options, random_state, progress, verbose: as in FairClassifier.

    After fit: encoder_, groups_, n_features_in_, solution_, fit_report_ and trajectory_ as of FairClassifier.
    """

    _: KW_ONLY
    loss: str = "logistic"
    batch_size: int = 32
    partners: int = 4

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    @undone_on_failure
    def fit(self, X: Any, y: Any, qid: Any = None, sensitive_features: Any = None) -> FairRanker:
        """Train on documents X (n, d) of relevance y (n,), numbers >= 0.

        qid: (n,) the query of each document; needed, in any order. X, sensitive_features: as in FairClassifier.
        Raises: DataError or OptionError that says what to change; the estimator is then as it was before.
        Warns: ConvergenceWarning with the smallest excess reached, where no iterate met every bound, and where the order is
        no better than one score for all; DataWarning of columns that were left out, and of documents whose group is not known.
        """
        self._checked()
        given = X, y, qid, sensitive_features
        if self.certify:
            return fit_certified(self, DocumentRows, *given)  # type: ignore[no-any-return]
        return self._fit(X, DocumentRows.of(self, *given))

    @timed
    @on_few_threads
    def _fit(self, X: Any, rows: DocumentRows, x0: Any = None) -> FairRanker:
        """`fit` without a certificate, on documents whose table is X; x0: parameters to begin at."""
        stated, groups, limit = self._checked(), rows.groups, self._limit()
        features, notes = fit_features(self, X, groups)
        check_lengths(features, len(rows), groups)
        self.groups_, self.model_ = groups, model_of(self.model, features.shape[1])

        def build(at: Any = slice(None)) -> RankingProblem:
            return RankingProblem(
                self.model_,
                features if isinstance(at, slice) else take_rows(features, at),
                rows.relevance[at],
                rows.labels[rows.query[at]],
                groups.take(at),
                stated,
                loss=self.loss,
                partners=self.partners,
            )

        seed = seed_of(self.random_state)
        trained = train_ranker(self, build, rows.query, limit, seed, x0)
        trained = trained._replace(notes=[*notes, *trained.notes])
        self.solution_, self.fit_report_ = lasting(trained.solution), report(trained, seed, self.encoder_report_)
        self.x_ = self.solution_.x
        if isinstance(self.model_, ModuleModel):
            self.model_.bind(self.x_)
        self.trajectory_ = trajectory(trained.solution.records, trained.problem)
        for said in [
            *encoding_words(self.fit_report_["encoding"]),
            *missing_group_words(groups.unknown(), ranked=True),
        ]:
            warnings.warn(said, DataWarning, stacklevel=users_line())
        if stated and not (self.fit_report_["feasible"] and self.fit_report_["best_step"] > 0):
            warnings.warn(self.solution_.message, ConvergenceWarning, stacklevel=users_line())
        elif stated and self.fit_report_["train_pair_error"] >= 0.5:
            warnings.warn(
                NO_ORDER.format(self.fit_report_["train_pair_error"]), ConvergenceWarning, stacklevel=users_line()
            )
        return self

    def _checked(self) -> tuple[Any, ...]:
        """The stated bounds, where the parameters are sound."""
        check_options(self)
        return ranking_bounds(self.constraint)

    def predict(self, X: Any) -> np.ndarray:
        """(n,) scores; within a query the document with the highest comes first.
        Scores of different queries are not comparable."""
        check_is_fitted(self)
        return model_scores(self, X)

    def score(self, X: Any, y: Any, qid: Any = None) -> float:
        """The mean NDCG over the queries that have a relevant document. Raises: DataError where none has."""
        if qid is None:
            raise DataError("a ranking is judged query by query: call score(X, y, qid=...).")
        warn_of_order(X=X, y=y, qid=qid)
        queries, relevance = Queries.of(qid), read_relevance(y)
        gained = by_query.ndcg(self.predict(X)[queries.order], relevance[queries.order], queries.starts)
        if np.isnan(gained).all():
            raise DataError("no query has a relevant document, so NDCG is undefined.")
        return float(np.nanmean(gained))

    # -- files --------------------------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        parameters = {name: getattr(self, name) for name in PLAIN} | {"random_state": self.fit_report_["seed"]}
        return {"task": "ranking", "loss": self.loss, "parameters": parameters}

    @classmethod
    def load(cls, path: str | os.PathLike[str] | Folder, module: nn.Module | None = None) -> FairRanker:
        """The ranker saved at `path`, ready to predict. module: where the model was an nn.Module,
        the same architecture."""
        folder = opened(path, "FairRanker")
        manifest, where = folder.manifest, repr(folder.path)
        check_manifest(manifest, where, besides=("classes",))
        more = {
            name: value for name, value in manifest.get("parameters", {}).items() if name in (*PLAIN, "random_state")
        }
        made: FairRanker = restored(
            cls(**shared_arguments(manifest, module, where), loss=manifest["loss"], **more), folder
        )
        return made
