"""The end of a PyTorch loop: the last layer of a trained network solved on all rows under the stated bounds.

    done = finish(model, "demographic_parity <= 0.03", x, y, sensitive_features=group)     # changes the layer in place

What the layers before make of the rows stays as training left it. The last layer is a linear model of that, and is
solved as one: a bound that the loop ended above is met on these rows where that costs least. Values are measured on the
scores of the layer as it is written.

Source: Kirichenko, Izmailov, Wilson (2023), Last layer re-training is sufficient for robustness to spurious
    correlations; Mao, Deng, Yao, Ye, Kawaguchi, Zou (2023), Last-layer fairness fine-tuning is simple and effective for
    neural networks.
Departs: the layer is solved under stated bounds on all rows at once, as `FairClassifier` does a linear model, not
    fine-tuned under a penalty.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor, nn

from fairbound.base.callers import users_line
from fairbound.base.errors import DataWarning, OptionError
from fairbound.estimators.classifier import FairClassifier
from fairbound.estimators.linear.coefficients import linear_parts
from fairbound.estimators.parameter_checks import classifier_bounds
from fairbound.estimators.problems import builder
from fairbound.estimators.trained import largest_share
from fairbound.fairness.notions import Bound
from fairbound.models.mlp import MLP
from fairbound.optim.last_linear import Rows, network_rows
from fairbound.problems.problem import Measured
from fairbound.rows.groups import Groups, no_groups
from fairbound.rows.weighted import scaled_weights, weights_of_fit
from fairbound.tables import Encoded, TableEncoder, TableOptions


@dataclass(frozen=True)
class Finished:
    """What `finish` did; `str(done)` says it in words.

    layer: the layer's name in the module. features, rows: how many numbers it takes, and of how many rows. changed:
        whether its weights are new. feasible: whether every bound is met on these rows.
    accuracy, accuracy_before: the share of the rows decided rightly, by their weights. values, values_before: of each
        stated bound, in its units. report: `fit_report_` of the FairClassifier that solved the layer.
    """

    layer: str
    features: int
    rows: int
    changed: bool
    feasible: bool
    accuracy: float
    accuracy_before: float
    values: dict[str, float]
    values_before: dict[str, float]
    report: dict[str, Any]

    def __str__(self) -> str:
        why = (
            "it meets the bounds, and nothing found is better"
            if self.feasible
            else "nothing found comes nearer to them"
        )
        did = "solved anew" if self.changed else f"left as it was: {why}"
        lines = [
            f"Last layer {self.layer!r} ({self.features} features, {self.rows:,} rows): {did}.",
            f"accuracy {self.accuracy:.4f}, before {self.accuracy_before:.4f}",
            *(f"{text}: {value:.4f}, before {self.values_before[text]:.4f}" for text, value in self.values.items()),
        ]
        return "\n".join([*lines, *([] if self.feasible else ["Not every bound is met on these rows."])])


def finish(
    model: nn.Module,
    stated: str | Bound | Sequence[str | Bound],
    inputs: Any,
    targets: Any = None,
    sensitive_features: Any = None,
    *,
    sample_weight: Any = None,
    objective: Literal["auto", "accuracy", "loss"] = "auto",
    weight_decay: float | Literal["auto"] = "auto",
    random_state: int = 0,
    batch_size: int = 1024,
) -> Finished:
    """Solve the last layer of a trained classifier on these rows under bounds, in place.

    model: gives one score per row, (B,) or (B, 1), positive above 0, or one per class, (B, k); the scores are those of
        an `nn.Linear` with a bias, unchanged. It is run in evaluation mode without gradients, and left in the mode that
        it was in. The layer is changed where it is frozen (`requires_grad=False`) too.
    stated: bounds as text or objects, one or several: those of `FairClassifier`, on areas under ROC curves too. Two
        scores of two classes take the bounds of one.
    inputs: (n, ...) tensor or array, or a tuple or dict of these, the arguments of the model, with `targets`; or, without
        these, batches one after the other in any order, as a DataLoader gives them: (inputs, targets), (inputs,
        targets, groups) or (inputs, targets, groups, weights). Numbers become those of the model's device and dtype.
        What the last layer takes of all rows is held in memory.
    targets: (n,) 0 and 1; of k classes the numbers 0 to k - 1, each in some row.
    sensitive_features, sample_weight: of these rows, as in `FairClassifier.fit`; tensors of group codes, as
        `Dual.encode` gives, have -1 where a group is missing.
    objective, weight_decay, random_state: as in `FairClassifier`. batch_size: rows that the model is run on at once.

    A layer that meets the bounds stays where none found is more accurate (has a lower loss, with `objective="loss"`);
    one that does not stays where nothing found comes nearer to them. The rows should be many for each number that the
    layer takes. Weights are rounded to the layer's dtype: half precision may leave a bound missed by a little, which is
    said.

    Raises: OptionError where the scores are not those of such a layer; DataError, OptionError, NonFiniteError for rows
        and bounds that cannot be used; nothing is changed then. Warns: ConvergenceWarning where not every bound is met;
        DataWarning of groups of few rows, and where the model had fewer rows right than one answer for all.
    """
    fair = FairClassifier(stated, objective=objective, weight_decay=weight_decay, random_state=random_state)
    bounds = classifier_bounds(fair)
    if torch.is_inference_mode_enabled():
        raise OptionError(
            "finish runs the model again and changes its weights; call it outside torch.inference_mode()."
        )
    rows = network_rows(model, inputs, targets, sensitive_features, sample_weight, batch_size)
    done = _solved(rows, fair, bounds)
    for said in done.report["small_groups"]:
        warnings.warn(said, DataWarning, stacklevel=users_line())
    if not done.feasible:
        missed = "; ".join(f"{text} is {value:.4f}" for text, value in done.values.items())
        warnings.warn(
            f"no last layer was found that meets every bound on these rows: {missed}. Train the layers before under the "
            "bounds too (Dual), give more rows, or loosen a bound.",
            ConvergenceWarning,
            stacklevel=users_line(),
        )
    return done


def _solved(rows: Rows, fair: FairClassifier, bounds: Sequence[Bound]) -> Finished:
    """The layer solved by the classifier, and written where it is better; both are measured as they are written."""
    groups = no_groups(len(rows.y)) if rows.groups is None else Groups.of(rows.groups)
    weight = scaled_weights(weights_of_fit(rows.weight, len(rows.y)))
    build = builder(
        MLP(rows.outputs, outputs=rows.outputs), rows.y, groups, bounds, weight, classes=list(range(max(2, rows.outputs))),
        loss="logistic" if rows.outputs == 1 else "cross_entropy",
    )  # fmt: skip

    as_they_are = torch.cat([torch.eye(rows.outputs).flatten(), torch.zeros(rows.outputs)])
    problem = build(rows.scores(), in_place=False)
    if problem.n > problem.model.n:
        raise OptionError(
            f"{bounds[0].text!r} trains thresholds beside the model, which finish does not do; take "
            "FairClassifier(model=module)."
        )
    was, before = problem.reported(as_they_are), rows.weights()
    _warn_of_order(float(was.extra["accuracy"]), largest_share(problem))
    with warnings.catch_warnings():  # of columns, which these are not, and of options that finish does not have
        warnings.simplefilter("ignore", DataWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        fair.fit(_encoded(rows.hidden[:, rows.varying]), rows.y, groups, weight)
    rows.write(_weights_of(fair, rows))
    now = build(rows.scores(), plan=problem.plan, in_place=False).reported(as_they_are)
    changed = _better(now, was, fair.objective)
    if not changed:
        rows.restore(before)
    kept = now if changed else was
    return Finished(
        layer=rows.name, features=rows.hidden.shape[1], rows=len(rows.y), changed=changed,
        feasible=float(kept.violation) <= 0, accuracy=float(kept.extra["accuracy"]),
        accuracy_before=float(was.extra["accuracy"]), values=_values(bounds, kept), values_before=_values(bounds, was),
        report=fair.fit_report_,
    )  # fmt: skip


def _better(now: Measured, was: Measured, objective: str) -> bool:
    """Whether the new layer is nearer to the bounds, or meets them as the old one does and serves the objective better."""
    if float(was.violation) > 0:
        return float(now.violation) < float(was.violation)
    if objective == "loss":
        return float(now.violation) <= 0 and float(now.f) < float(was.f)
    return float(now.violation) <= 0 and float(now.extra["accuracy"]) > float(was.extra["accuracy"])


def _warn_of_order(accuracy: float, common: float) -> None:
    """Warns: DataWarning where the model had fewer rows right than the most frequent label, of the share `common`, has."""
    if accuracy < common - 0.01:
        warnings.warn(
            f"the model decides {accuracy:.1%} of these rows rightly, and one answer for all rows {common:.1%}. Are "
            "the targets in the order of the inputs, and is 1 the label of scores above 0? Batches of (inputs, targets, "
            "groups) keep the order of a shuffled loader.",
            DataWarning,
            stacklevel=users_line(),
        )


def _encoded(hidden: np.ndarray) -> Encoded:
    """The varying numbers that the layer takes, in units of their spread."""
    return Encoded.of(TableEncoder(TableOptions(knots=0, jumps=0, pairs=0)), hidden, by_column=True)


def _weights_of(fair: FairClassifier, rows: Rows) -> tuple[Tensor, Tensor]:
    """(c, h) weights and (c,) intercepts of a linear model fitted to the varying numbers of the rows."""
    weight, bias = linear_parts(fair.model_, fair.x_, fair.encoder_)
    known = [rows.varying[int(name.removeprefix("x"))] for name in fair.encoder_.feature_names]
    whole = np.zeros((len(weight), rows.hidden.shape[1]))
    whole[:, known] = weight
    return torch.from_numpy(whole), torch.from_numpy(bias)


def _values(bounds: Sequence[Bound], measured: Measured) -> dict[str, float]:
    found = measured.extra["stated"].tolist() if bounds else []
    return dict(zip([bound.text for bound in bounds], found, strict=True))
