"""A classifier's model trained under given bounds: how it is trained, on which rows, and the facts of its fit.

Under bounds on errors of classes alone a model without bounds may do, with something added to the scores of the classes
(see `class_offsets`): a network is trained so first, where decisions are the aim; a linear model is where these bounds
cost something. Where nothing that is added meets them, the model is trained under them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairbound.base.checks import amount
from fairbound.estimators.choosing import Chosen, chosen
from fairbound.estimators.class_weights import class_costs, one_objective
from fairbound.estimators.corrections.class_offsets import (
    held_for_classes,
    linear_with_offsets,
    moves_meet,
    network_with_offsets,
    takes_free_model,
)
from fairbound.estimators.corrections.last_intercept import (
    accurate_within_bounds,
    best_constant,
    clear_of_rounding,
    met_by_intercept,
)
from fairbound.estimators.facts.fit_report import fit_report
from fairbound.estimators.facts.trajectory import lasting, trajectory
from fairbound.estimators.group_rule import Learnt, with_rule
from fairbound.estimators.judged_rows import LabelledRows
from fairbound.estimators.linear.swept_intercept import swept_intercept
from fairbound.estimators.problems import Problems, builder, problems_of
from fairbound.estimators.trained import Trained, bounds_cost_nothing
from fairbound.estimators.training import trained_by
from fairbound.estimators.validation import held_share
from fairbound.fairness.bound import Bound
from fairbound.fairness.compiled.plan import Plan
from fairbound.fairness.objectives import Accuracy
from fairbound.fairness.pointwise import of_decisions
from fairbound.models.model import Model, model_of
from fairbound.rows.shards import Shards
from fairbound.solver.budget import Budget
from fairbound.tables import Encoded

CORRECTIONS = (met_by_intercept, swept_intercept, best_constant, accurate_within_bounds, clear_of_rounding)
"""What is mended in a trained model, one after another: a model that meets the bounds is looked for, then a better one,
then decisions are made clear. Each returns what it is given where it is of no use."""


@dataclass(frozen=True)
class ClassifierTraining:
    """The rows of one fit and how it trains on them.

    estimator: the FairClassifier, whose encoder, classes and groups are known, and its bounds. X: the table; features
    (n, d): what was made of it, and notes on that. shards: the processes that share the rows. limit: the budget, if one
    is stated. seed: of all that is drawn. x0: parameters to begin at, or None.
    """

    estimator: Any
    bounds: tuple[Bound, ...]
    X: Any
    features: Any
    rows: LabelledRows
    notes: list[str]
    shards: Shards
    limit: Budget | None
    seed: int
    x0: Any

    def under(self, stated: tuple[Bound, ...], instead: Chosen | None = None) -> Learnt:
        """The model trained under these bounds, and where groups may be used at prediction the thresholds that meet
        those of the estimator. instead: how it is trained, None as `chosen` says and the module's docstring."""
        choice = self._chosen(stated) if instead is None else instead
        if instead is None and self._free_model_first(stated):
            learnt = self._free_network(stated)
            if learnt is not None:
                return learnt
        if choice.otherwise is not None and self.limit is None:
            learnt = self._where_bounds_cost_nothing(stated, choice)
            if learnt is not None:
                return learnt
        choice = choice.otherwise or choice
        found, said = self._trained(stated, choice)
        return self._learnt(found, [choice.why, *said], choice.automatic)

    def _free_network(self, stated: tuple[Bound, ...]) -> Learnt | None:
        """A network without bounds whose scores are moved until the stated ones are met; None where no move does."""
        estimator, rows, choice = self.estimator, self.rows, self._chosen(())
        share = held_for_classes(estimator.validation, stated, rows.codes, rows.classes)
        found, _ = self._trained((), choice, share)
        moved = network_with_offsets(found, self._problems(stated, choice, share), estimator.classes_)
        if moved is None:
            return None
        return self._learnt(moved, [choice.why], automatic=False, records_under=found.problem.plan)

    def _where_bounds_cost_nothing(self, stated: tuple[Bound, ...], choice: Chosen) -> Learnt | None:
        """A linear model on whose training the stated bounds have no effect, or where decisions are the aim one without
        bounds whose scores are moved until they are met; None where there is neither."""
        found, said = self._trained(stated, choice)
        if bounds_cost_nothing(found.optimality):
            return self._learnt(found, [choice.why, *said], choice.automatic)
        if not moves_meet(self._objective, stated):
            return None
        moved = linear_with_offsets(found, lambda: self.under(()).solution, self.estimator.classes_)
        return None if moved is None else self._learnt(moved, said, automatic=False)

    def _chosen(self, stated: Sequence[Bound]) -> Chosen:
        estimator = self.estimator
        return chosen(
            estimator.algorithm,
            self._model,
            self.features,
            loss=estimator.loss,
            objective=self._objective,
            stated=stated,
        )

    def _free_model_first(self, stated: Sequence[Bound]) -> bool:
        estimator = self.estimator
        return self.limit is None and takes_free_model(
            self._model, self.features, estimator.algorithm, self._objective, stated, self.shards
        )

    def _trained(
        self, stated: tuple[Bound, ...], choice: Chosen, share: float | None = None
    ) -> tuple[Trained, list[str]]:
        """The run of the chosen method under these bounds, and what is said of the rows held back. share: how many are;
        None as the estimator's `validation` says."""
        estimator, rows, objective = self.estimator, self.rows, self._objective
        said: list[str] = []
        whole = choice.at_once or choice.last_layer or not self.shards.alone
        if share is None:
            share, said = held_share(estimator.validation, whole, stated, rows.groups, rows.codes, estimator.classes_)
        of_table = isinstance(self.X, Encoded) and not share and not estimator.group_terms
        found = trained_by(
            estimator, self._problems(stated, choice, share), choice, self.limit, self.seed, self.x0,
            refined=choice.refined(objective, self._model.outputs), by_accuracy=objective in ("auto", "accuracy"),
            terms_of=len(rows.groups.labels[0]) if estimator.group_terms else 1,
            weight_decay=amount("weight_decay", estimator.weight_decay), decays=self.X.decays if of_table else None,
        )  # fmt: skip
        return found, said

    def _problems(self, stated: tuple[Bound, ...], choice: Chosen, share: float) -> Problems:
        """Those of the rows under these bounds, a share of the rows held back."""
        estimator, rows, model, objective = self.estimator, self.rows, self._model, self._objective
        if choice.refined(objective, model.outputs) != "no":
            objective = Accuracy(0.0) if choice.at_once else "loss"
        build = builder(
            model, rows.codes, rows.groups, stated, rows.weight, classes=estimator.classes_.tolist(),
            objective=objective, loss=_loss_of(estimator.loss, model.outputs), shards=self.shards,
        )  # fmt: skip
        return problems_of(
            build, self.features, rows.codes, rows.groups,
            share=share, seed=self.seed, own=self._own(stated), begins=choice.at_once,
        )  # fmt: skip

    def _own(self, stated: tuple[Bound, ...]) -> bool:
        """Whether the features may be sorted in place: nobody else has them, no rule is fitted to the rows in their first
        order, and no other model is trained after this one."""
        estimator = self.estimator
        mine = isinstance(self.features, np.ndarray) and estimator.encoder_ is not None
        mine = mine and not isinstance(self.X, Encoded) and not estimator.use_groups_at_prediction
        last = bool(stated) or not self.bounds
        return mine and last and not any(bound.about == "class" for bound in stated)

    def _learnt(self, found: Trained, said: list[str], automatic: bool, records_under: Plan | None = None) -> Learnt:
        """The corrected model, the facts of its fit and its rule. said: of its training. automatic: whether a model no
        better than a constant may be replaced by one: a constant has a lower loss than scores with much added to them,
        and says less. records_under: the bounds that its records are of, where it was trained under others than it has.
        """
        estimator, rows, plan = self.estimator, self.rows, found.problem.plan
        trained = found._replace(automatic=automatic)
        for corrected in CORRECTIONS:
            trained = corrected(trained)
        notes = [*self.notes, *filter(None, said)]
        learnt = Learnt(
            self._model,
            trained.solution.x[: self._model.n],
            lasting(trained.solution),
            trajectory(trained.solution.records, records_under or plan),
            fit_report(
                trained, self.seed, estimator.encoder_report_, notes, rows.groups, estimator.encoder_, rows.codes
            ),
        )
        if not estimator.use_groups_at_prediction:
            return learnt
        errors_cost = class_costs(self._objective, rows.codes, rows.weight)
        return with_rule(learnt, self.features, rows, self.bounds, errors_cost, free=not plan.notions)

    @cached_property
    def _model(self) -> Model:
        k = len(self.rows.classes)
        return model_of(self.estimator.model, self.features.shape[1], 1 if k == 2 else k)

    @cached_property
    def _objective(self) -> Any:
        estimator, rows = self.estimator, self.rows
        return one_objective(
            estimator.objective,
            estimator.objective_class,
            estimator.class_weight,
            rows.classes,
            rows.codes,
            rows.weight,
        )


def _loss_of(loss: str, outputs: int) -> str:
    """The logistic loss and cross-entropy are one, of two classes by one score and of more by a score for each; the
    squared loss is that of labels -1 and 1, between which scores are decided."""
    if loss in ("logistic", "cross_entropy"):
        return "logistic" if outputs == 1 else "cross_entropy"
    return of_decisions(loss)
