"""The end of a PyTorch loop: the last layer of a trained network solved on all rows under the stated bounds.

    done = finish(model, "demographic_parity <= 0.03", x, y, sensitive_features=group)     # changes the layer in place

What the layers before make of the rows stays as training left it. The last layer is a linear model of that, and is
solved as one: a bound that the loop ended above, or with much room below, is met on these rows where that costs least.

Source: Kirichenko, Izmailov, Wilson (2023), Last layer re-training is sufficient for robustness to spurious
    correlations; Mao, Deng, Yao, Ye, Kawaguchi, Zou (2023), Last-layer fairness fine-tuning is simple and effective for
    neural networks.
Departs: the layer is solved under stated bounds on all rows at once, as `FairClassifier` does a linear model, not fine-tuned under a
    penalty.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from fairbound.base.errors import DataError, DataWarning, NonFiniteError, OptionError
from fairbound.base.names import shortlist
from fairbound.estimators.classifier import FairClassifier
from fairbound.estimators.coefficients import linear_parts
from fairbound.estimators.problems import builder
from fairbound.fairness.notions import Bound, constraints
from fairbound.models.mlp import MLP
from fairbound.models.scoring import inputs_of
from fairbound.problems.problem import Measured
from fairbound.rows.groups import Groups, no_groups
from fairbound.rows.labels import class_labels
from fairbound.tables import Encoded, TableEncoder, TableOptions

WRAPPED = ("_orig_mod", "module")
"""Where torch.compile and DistributedDataParallel keep the module that they wrap."""


@dataclass(frozen=True)
class Finished:
    """What `finish` did; `str(done)` says it in words.

    layer: the layer's name in the module. features, rows: how many numbers it takes, and of how many rows. changed: whether its weights are new; they
        stay where the layer was nearer to the bounds than any found. feasible: whether every bound is met on these rows.
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
        did = "solved anew" if self.changed else "left as it was, as nothing found comes nearer to the bounds"
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
    targets: Any,
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
        it was in. Modules wrapped by torch.compile or DistributedDataParallel are taken as what they wrap.
    stated: bounds as text or objects, one or several: those of `FairClassifier`, on areas under ROC curves too.
    inputs: (n, ...) tensor or array; or batches one after the other, in the order of `targets`, each a tensor, or a
        tuple or dict of arguments of the model. Tensors are moved to the device of the layer.
    targets: (n,) labels of two classes, of which the greater counts as positive; of k classes the numbers 0 to k - 1.
    sensitive_features, sample_weight: of these rows, as in `FairClassifier.fit`.
    objective, weight_decay, random_state: as in `FairClassifier`. batch_size: rows that the model is run on at once.

    The rows should be many for each number that the layer takes, and rows that the network knows by heart say little
    of new ones: where rows were kept apart from training, finish on these.

    Raises: OptionError where the scores are not those of such a layer; DataError, OptionError for rows and bounds that
        cannot be used. Warns: ConvergenceWarning where not every bound is met.
    """
    bounds = constraints(stated)
    name, layer, hidden = _last_layer(_inner(model), _parts(inputs, batch_size))
    y, classes = class_labels(_plain(targets))
    _check_rows(hidden, y, classes, layer)
    groups = no_groups(len(y)) if sensitive_features is None else Groups.of(_plain(sensitive_features))
    weight = None if sample_weight is None else _plain(sample_weight)
    fair = FairClassifier(list(bounds), objective=objective, weight_decay=weight_decay, random_state=random_state)
    varying = np.flatnonzero(np.ptp(hidden, axis=0) > 0)
    fair.fit(_encoded(hidden[:, varying]), y, groups, weight)
    before, after = _of(layer, classes), _of_fit(fair, varying, hidden.shape[1])
    outputs = len(before) // (hidden.shape[1] + 1)
    build = builder(
        MLP(hidden.shape[1], outputs=outputs), y, groups, bounds, weight, classes=list(classes),
        loss="logistic" if outputs == 1 else "cross_entropy",
    )  # fmt: skip
    problem = build(hidden, in_place=False)
    was, now = problem.reported(before), problem.reported(after)
    changed = float(now.violation) <= 0 or float(now.violation) < float(was.violation)
    if changed:
        _move(layer, after - before, classes)
    kept = now if changed else was
    return Finished(
        layer=name, features=hidden.shape[1], rows=len(y), changed=changed, feasible=float(kept.violation) <= 0,
        accuracy=float(kept.extra["accuracy"]), accuracy_before=float(was.extra["accuracy"]),
        values=_values(bounds, kept), values_before=_values(bounds, was), report=fair.fit_report_,
    )  # fmt: skip


def _inner(model: Any) -> nn.Module:
    """The module that is wrapped, or itself."""
    for name in WRAPPED:
        inner = getattr(model, name, None)
        model = inner if isinstance(inner, nn.Module) and len(list(model.children())) == 1 else model
    if not isinstance(model, nn.Module):
        raise OptionError(f"model must be a torch.nn.Module, got {type(model).__name__}.")
    return model


def _plain(values: Any) -> Any:
    """What numpy reads in place of a tensor, a column (n, 1) as (n,)."""
    if not isinstance(values, Tensor):
        return values
    array = values.detach().cpu().numpy()
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def _parts(inputs: Any, rows: int) -> Iterator[Any]:
    """Batches of the inputs."""
    if isinstance(inputs, Tensor | np.ndarray):
        yield from torch.as_tensor(inputs).split(rows)
    elif isinstance(inputs, Iterable) and not isinstance(inputs, Mapping | str):
        yield from inputs
    else:
        raise OptionError(f"inputs must be a tensor, an array, or batches of them, got {type(inputs).__name__}.")


def _last_layer(module: nn.Module, parts: Iterator[Any]) -> tuple[str, nn.Linear, np.ndarray]:
    """The name of the last layer, itself, and (n, h) float32 what it makes its scores of."""
    linear = {part: name for name, part in module.named_modules() if type(part) is nn.Linear and part.bias is not None}
    place = next((p.device for p in module.parameters()), torch.device("cpu"))
    found = inputs_of(module, list(linear), (_moved(part, place) for part in parts))
    if found is None:
        raise OptionError(
            "the model's scores are not those of an nn.Linear with a bias, as they come from it, for any row given. Let the "
            "model return the logits of such a layer (without a sigmoid or softmax), and give one row at least."
        )
    layer, hidden = found
    uses = [
        p for part in module.modules() for p in part.parameters(recurse=False) if p is layer.weight or p is layer.bias
    ]
    if len(uses) != 2:
        raise OptionError(
            f"the weights of the last layer {linear[layer]!r} are used elsewhere in the model too, and would change there."
        )
    return linear[layer], layer, hidden.float().cpu().numpy()


def _moved(part: Any, place: torch.device) -> Any:
    """The arguments of a model, their tensors on the device."""
    if isinstance(part, Tensor | np.ndarray):
        return torch.as_tensor(part).to(place)
    if isinstance(part, Mapping):
        return {name: _moved(value, place) for name, value in part.items()}
    return tuple(_moved(value, place) for value in part) if isinstance(part, tuple | list) else part


def _check_rows(hidden: np.ndarray, y: np.ndarray, classes: Sequence[Any], layer: nn.Linear) -> None:
    if len(hidden) != len(y):
        raise DataError(f"inputs have {len(hidden)} rows and targets {len(y)}; give both of the same rows.")
    bad = ~np.isfinite(hidden).all(axis=1)
    if bad.any():
        raise NonFiniteError(
            f"what the model makes of {int(bad.sum())} of {len(bad)} rows is NaN or infinite, the first in row {int(bad.argmax())} "
            "(counting from 0). Look at these inputs, or go back to weights of before they diverged."
        )
    k = layer.out_features
    if (k <= 2 and len(classes) != 2) or (k > 2 and list(classes) != list(range(k))):
        wanted = "two classes" if k <= 2 else f"the classes 0 to {k - 1}, each in some row"
        raise DataError(
            f"a layer of {k} scores needs targets of {wanted}; these have {len(classes)}: {shortlist(list(map(str, classes)))}."
        )


def _encoded(hidden: np.ndarray) -> Encoded:
    """The varying numbers that the layer takes, in units of their spread."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # of columns, which these are not
        return Encoded.of(TableEncoder(TableOptions(knots=0, jumps=0, pairs=0)), hidden, by_column=True)


def _of(layer: nn.Linear, classes: Sequence[Any]) -> Tensor:
    """The layer's weights, then its intercepts, of one score where there are two classes."""
    weight, bias = layer.weight.detach().float().cpu(), layer.bias.detach().float().cpu()
    if len(weight) == len(classes) == 2:
        weight, bias = weight[1:] - weight[:1], bias[1:] - bias[:1]
    return torch.cat([weight.flatten(), bias])


def _of_fit(fair: FairClassifier, varying: np.ndarray, features: int) -> Tensor:
    """The same of a fitted linear model, whose weights are those of the numbers that vary."""
    weight, bias = linear_parts(fair.model_, fair.x_, fair.encoder_)
    known = [varying[int(name.removeprefix("x"))] for name in fair.encoder_.feature_names]
    whole = np.zeros((len(weight), features))
    whole[:, known] = weight
    return torch.from_numpy(np.concatenate([whole.ravel(), bias])).float()


@torch.no_grad()
def _move(layer: nn.Linear, by: Tensor, classes: Sequence[Any]) -> None:
    """Add to the layer's weights and intercepts; of two scores half is added to one and taken from the other."""
    outputs = len(by) // (layer.in_features + 1)
    weight, bias = by[: outputs * layer.in_features].view(outputs, -1), by[outputs * layer.in_features :]
    if outputs < layer.out_features:
        weight, bias = torch.cat([-weight, weight]) / 2, torch.cat([-bias, bias]) / 2
    layer.weight.add_(weight.to(layer.weight))
    layer.bias.add_(bias.to(layer.bias))


def _values(bounds: Sequence[Bound], measured: Measured) -> dict[str, float]:
    return dict(zip([bound.text for bound in bounds], measured.extra["stated"].tolist(), strict=True))
