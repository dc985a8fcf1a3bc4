"""A network trained again in other ways, where random batches under bounds on groups and on classes together end at
one hardly better than a constant.

Bounds that are missed together add up to multipliers at which one answer for all rows looks best: that of a bounded
class, which may be the rarer one. So random batches are made again with slower multipliers; where that is of no use
either, the last layer of a network is solved on all rows, as under bounds on groups alone. The best of these models is
taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from fairbound.estimators.choosing import MARGINS, SMOOTH, Chosen
from fairbound.estimators.group_rule import Learnt
from fairbound.estimators.judged_rows import LabelledRows
from fairbound.estimators.trained import hardly_better_than_constant
from fairbound.estimators.training import slower
from fairbound.fairness.bound import Bound
from fairbound.methods import ALM
from fairbound.models.mlp import is_linear
from fairbound.models.model import Model, ModuleModel
from fairbound.models.scoring import has_last_layer

SLOWER = "Trained on random batches (alm) with slower multipliers of the bounds, as nearly nothing was learnt with the usual ones."
LAST_LAYER = (
    "Trained on random batches (alm), its last layer then on all rows at once (full_batch_alm), as nearly nothing was learnt "
    "on random batches alone."
)


def may_run_again(estimator: Any, stated: Sequence[Bound]) -> bool:
    """Whether the user of a classifier leaves open how it is trained under bounds on groups and classes together, and
    decisions are the aim."""
    free = estimator.algorithm == "auto" and estimator.class_weight is None and not estimator.distributed
    aims = estimator.objective in ("auto", "accuracy") and estimator.objective_class is None
    return free and aims and estimator.loss in SMOOTH and len({bound.about == "class" for bound in stated}) == 2


def best_of_runs(learnt: Learnt, again: Callable[..., Learnt], features: Any, rows: LabelledRows) -> Learnt:
    """`learnt`, or of a network of two classes that is hardly better than a constant the best of the models that are
    trained otherwise: one that meets the bounds before one that does not, then the more accurate one.

    again: trains it as the `Chosen` says that it is called with. features: (n, d), of the rows.
    """
    model = learnt.model
    mass = np.bincount(rows.codes, rows.weight)
    share = float(mass.max() / mass.sum())

    def rank(one: Learnt) -> tuple[bool, float]:
        return one.solution.found, one.report["accuracy"]

    for choice in _others(model, features):
        if learnt.solution.interrupted or not hardly_better_than_constant(learnt.report["accuracy"], share):
            break
        if isinstance(model, ModuleModel):
            model.bind(model.start(torch.Generator(), learnt.x.dtype))
        other = again(instead=choice)
        learnt = max(learnt, other, key=rank)
        if other.solution.interrupted:
            return learnt._replace(solution=replace(learnt.solution, stopped="interrupted"))
    return learnt


def _others(model: Model, features: Any) -> Iterator[Chosen]:
    """How a model of one score that is not linear is trained then, one after the other."""
    if model.outputs > 1 or is_linear(model):
        return
    usual = ALM()
    yield Chosen(slower(usual), True, SLOWER, MARGINS)
    if has_last_layer(model, features):
        yield Chosen(usual, True, LAST_LAYER, MARGINS, last_layer=True)
