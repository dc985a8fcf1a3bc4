"""An estimator as a manifest of plain data, and back: every field is checked before it is used."""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from fairbound.base.errors import FairboundError
from fairbound.estimators.saving.folder import Folder, ModelFolderError, load_folder
from fairbound.fairness.notions import constraints
from fairbound.fairness.objectives import objective_of
from fairbound.methods import Method
from fairbound.methods import algorithm as algorithm_named
from fairbound.models.model import model_of
from fairbound.rows.groups import Groups
from fairbound.solver.budget import Budget
from fairbound.tables import TableOptions
from fairbound.tables.group_terms import width_with_terms
from fairbound.tables.naming import keep_names

PLAIN = (
    "batch_size",
    "sampling",
    "validation",
    "sensitive_columns",
    "objective_class",
    "positive",
    "certify",
    "on_insufficient",
    "group_terms",
    "weight_decay",
    "progress",
    "verbose",
)
"""Parameters that are kept as they are."""


TASKS = {None: "FairClassifier", "ranking": "FairRanker", "regression": "FairRegressor"}
"""What a model folder may hold, by its manifest's "task"."""


def kind_of(folder: Folder) -> str:
    """The class of the model in a folder. Raises: ModelFolderError for one that only a later version knows."""
    task = folder.manifest.get("task")
    if task not in TASKS:
        raise ModelFolderError(f"the model in {folder.path!r} is for {task!r}, of which this version knows nothing.")
    return TASKS[task]


def opened(path: str | os.PathLike[str] | Folder, kind: str) -> Folder:
    """The folder at `path`, or one that was read before. Raises: ModelFolderError
    unless it holds a model of this kind."""
    folder = path if isinstance(path, Folder) else load_folder(path)
    if (found := kind_of(folder)) != kind:
        raise ModelFolderError(f"the model in {folder.path!r} is a {found}; load it with {found}.load.")
    return folder


def restored(estimator: Any, folder: Folder) -> Any:
    """The estimator with what every fitted one has. Raises: ModelFolderError where
    the weights are not those of its model."""
    manifest, spec = folder.manifest, folder.manifest["model"]
    estimator.model_ = model_of(estimator.model, spec.get("features", manifest["features"]), spec.get("outputs", 1))
    estimator.x_ = folder.tensors.get("x", torch.empty(0))
    if estimator.x_.shape != (estimator.model_.n,):
        raise ModelFolderError(
            f"the weights in {folder.path!r} have shape {tuple(estimator.x_.shape)}, the model has {estimator.model_.n} "
            "parameters; pass a module of the architecture that was trained."
        )
    taken = getattr(estimator.model_, "features", None)
    estimator.groups_ = groups_of(manifest)
    if getattr(estimator, "group_terms", False):
        _check_terms(folder, estimator.groups_, taken)
    elif folder.encoder is not None and taken is not None:
        _check_made(folder.path, len(folder.encoder.feature_names), taken)
    estimator.encoder_, estimator.dropped_columns_ = folder.encoder, manifest["dropped_columns"]
    seen = getattr(folder.encoder, "n_features_in_", manifest["features"])  # folders of before have the columns kept
    estimator.n_features_in_, estimator.fit_report_ = seen, manifest["fit"]
    keep_names(estimator, getattr(folder.encoder, "feature_names_in_", manifest.get("feature_names")))
    estimator._loaded_with = estimator.fit_report_, folder.extras
    return estimator


def _check_made(path: str, made: int, taken: int) -> None:
    """Raises: ModelFolderError where the encoder makes other features than the model takes."""
    if made != taken:
        raise ModelFolderError(
            f"the encoder in {path!r} makes {made} features, the model takes {taken}. Save the model again."
        )


def _check_terms(folder: Folder, groups: Groups, taken: int | None) -> None:
    """Raises: ModelFolderError where the model takes other features than its encoder and its groups make."""
    encoder, one = folder.encoder, len(groups.attributes) == 1
    if encoder is None or not one or taken != width_with_terms(len(encoder.feature_names), len(groups.labels[0])):
        raise ModelFolderError(
            f"the model in {folder.path!r} does not fit its groups and its encoder. Save the model again."
        )


def parts_of(estimator: Any) -> dict[str, Any]:
    """The manifest, the tensors, the encoder and the further files of a fitted estimator, as `save_folder` takes them.
    The latter are those that it was loaded with, such as what it was trained on, unless it was fitted again since."""
    report, extras = getattr(estimator, "_loaded_with", (None, {}))
    return {
        "manifest": manifest_of(estimator),
        "tensors": {"x": estimator.x_},
        "encoder": estimator.encoder_,
        "extras": dict(extras) if report is estimator.fit_report_ else {},
    }


def classifier_facts(classifier: Any) -> dict[str, Any]:
    """What a model folder says of a fitted classifier alone."""
    minimised = objective_of(classifier.objective)
    return {
        "classes": [_scalar(c) for c in classifier.classes_],
        "loss": classifier.loss,
        "objective": classifier.objective if minimised is None else minimised.text,
        "rule": None if classifier.rule_ is None else classifier.rule_.to_dict(),
        "parameters": _parameters(classifier),
    }


def manifest_of(estimator: Any) -> dict[str, Any]:
    """What a model folder says of a fitted estimator; its weights and its encoder are kept beside it. How long the fit
    took is left out, so that two fits that are the same have the same checksum."""
    known, stated = estimator.groups_, getattr(estimator, "constraints_", None) or constraints(estimator.constraint)
    groups = {"attributes": list(known.attributes), "labels": [list(v) for v in known.labels]}
    return {
        **estimator._facts(),
        "model": estimator.model_.spec(),
        "constraints": [bound.text for bound in stated],
        "groups": groups if known.attributes else None,
        "dropped_columns": estimator.dropped_columns_,
        "features": int(estimator.n_features_in_),
        "feature_names": list(map(str, getattr(estimator, "feature_names_in_", ()))) or None,
        "fit": {**estimator.fit_report_, "seconds": None},
    }


def _parameters(classifier: Any) -> dict[str, Any]:
    """The constructor's other arguments as plain data; the seed is the one that was used. An algorithm or a model that
    plain data cannot give back is left out."""
    out: dict[str, Any] = {name: _scalar(getattr(classifier, name)) for name in PLAIN}
    budget, weight, options = classifier.budget, classifier.class_weight, classifier.options
    out["random_state"] = classifier.fit_report_["seed"]
    out["budget"] = budget.text if isinstance(budget, Budget) else _scalar(budget)
    out["options"] = None if options is None else asdict(options)
    out["class_weight"] = (
        [[_scalar(label), float(value)] for label, value in weight.items()] if isinstance(weight, Mapping) else weight
    )
    if (method := _method(classifier.algorithm)) is not None:
        out["algorithm"] = method
    return out


def _scalar(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _method(algorithm: Any) -> Any:
    """An algorithm as its name, or as {"name": ..., options}; None for one that plain data cannot give back."""
    if isinstance(algorithm, str):
        return algorithm
    options: dict[str, Any] = {}
    for field in fields(algorithm):
        value = getattr(algorithm, field.name)
        value = _method(value) if is_dataclass(value) and isinstance(value, Method) else value
        if not isinstance(value, str | numbers.Real | tuple | dict | None):
            return None
        options[field.name] = list(value) if isinstance(value, tuple) else value
    kind = type(algorithm)
    return {"name": f"{kind.__module__}:{kind.__qualname__}", **options}


def arguments_of(manifest: Mapping[str, Any], module: nn.Module | None, where: str) -> dict[str, Any]:
    """The constructor's arguments that a manifest gives. module: the model, where it is an nn.Module.

    Raises: ModelFolderError naming the field that is missing or wrong.
    """
    check_manifest(manifest, where)
    out = {
        **shared_arguments(manifest, module, where),
        "loss": manifest["loss"],
        "objective": manifest.get("objective", "loss"),  # folders written before there was a choice
        "use_groups_at_prediction": manifest.get("rule") is not None,
    }
    if out["objective"] == "loss with class weights":
        out["objective"] = "loss"
    try:
        return out | _read_parameters(manifest.get("parameters", {}))
    except (FairboundError, TypeError, ValueError, KeyError, AttributeError) as error:
        raise _wrong(where, "parameters", str(error)) from error


def shared_arguments(manifest: Mapping[str, Any], module: nn.Module | None, where: str) -> dict[str, Any]:
    """The bounds and the model, of which every estimator has both; arguments and errors as of `arguments_of`."""
    spec, stated = manifest["model"], manifest["constraints"]
    if spec["kind"] == "module" and module is None:
        raise ModelFolderError(
            f"the model in {where} is a torch module ({spec['class']}); no code is stored with it. Pass "
            "module=, built with the same architecture."
        )
    hidden = spec.get("hidden")
    built_in = "mlp:" + ",".join(map(str, hidden)) if hidden else "linear"
    return {
        "constraint": stated[0] if len(stated) == 1 else stated or None,
        "model": module if spec["kind"] == "module" else built_in,
    }


def _read_parameters(saved: Mapping[str, Any]) -> dict[str, Any]:
    known = {*PLAIN, "random_state", "budget", "options", "class_weight", "algorithm"}
    if unknown := sorted(set(saved) - known):
        raise ValueError(f"unknown {unknown}")
    out = {name: saved[name] for name in saved if name not in ("options", "class_weight", "algorithm")}
    if saved.get("options") is not None:
        out["options"] = TableOptions(**saved["options"])
    weight = saved.get("class_weight")
    out["class_weight"] = weight if weight is None or isinstance(weight, str) else {k: float(v) for k, v in weight}
    method = saved.get("algorithm", "auto")
    own = isinstance(method, dict) and not str(method.get("name")).startswith("fairbound.methods.")
    if isinstance(method, dict) and not own:  # a class of one's own is code, which loading never imports
        out["algorithm"] = algorithm_named(**_tuples(method))
    elif isinstance(method, str):
        out["algorithm"] = method
    return out


def _tuples(method: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a method with tuples for lists."""
    return {
        key: _tuples(value) if isinstance(value, dict) else tuple(value) if isinstance(value, list) else value
        for key, value in method.items()
    }


def groups_of(manifest: Mapping[str, Any]) -> Groups:
    """The groups that the model was trained under, without rows."""
    saved = manifest["groups"] or {"attributes": [], "labels": []}
    names = tuple(saved["attributes"])
    no_rows = np.zeros((0, len(names)), dtype=np.int64)
    return Groups(no_rows, names, tuple(map(tuple, saved["labels"])))


# -- checks ----------------------------------------------------------------------------------------------------------

_Check = Callable[[Any], bool]


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _model(value: Any) -> bool:
    if not isinstance(value, dict) or value.get("kind") not in ("linear", "mlp", "module"):
        return False
    if not _count(value.get("outputs", 1)):
        return False
    if value["kind"] == "module":
        return isinstance(value.get("class"), str)
    hidden = value.get("hidden")
    return _count(value.get("features")) and isinstance(hidden, list) and all(_count(h) for h in hidden)


def _classes(value: Any) -> bool:
    if (
        not isinstance(value, list)
        or len(value) < 2
        or len({(type(v), v) for v in value if isinstance(v, str | bool | int | float)}) < len(value)
    ):
        return False
    return len({isinstance(v, str) for v in value}) == 1


def _groups(value: Any) -> bool:
    if value is None:
        return True
    if not isinstance(value, dict) or set(value) != {"attributes", "labels"} or not _texts(value["attributes"]):
        return False
    labels = value["labels"]
    return isinstance(labels, list) and len(labels) == len(value["attributes"]) and all(map(_texts, labels))


_FACTS = {"algorithm", "seed", "budget", "steps", "seconds", "feasible", "constraints", "model"}

FIELDS: dict[str, _Check] = {
    "model": _model,
    "classes": _classes,
    "constraints": _texts,
    "groups": _groups,
    "loss": lambda v: isinstance(v, str),
    "dropped_columns": _texts,
    "features": _count,
    "fit": lambda v: isinstance(v, dict) and set(v) >= _FACTS and isinstance(v["model"], dict),
}
"""The fields that a manifest must have, each with what it must be."""

OTHERS: dict[str, _Check] = {
    "feature_names": lambda v: v is None or _texts(v),
    "objective": lambda v: v is None or isinstance(v, str),
    "rule": lambda v: v is None or isinstance(v, dict),
    "parameters": lambda v: isinstance(v, dict),
}
"""The fields that a manifest may have."""


def check_manifest(manifest: Mapping[str, Any], where: str, besides: Sequence[str] = ()) -> None:
    """Raises: ModelFolderError naming the field that is missing or wrong.
    besides: fields that this kind of model lacks."""
    for name, good in {**FIELDS, **OTHERS}.items():
        if name in besides:
            continue
        if name not in manifest:
            if name in FIELDS:
                raise _wrong(where, name, "it is missing")
        elif not good(manifest[name]):
            raise _wrong(where, name, f"got {str(manifest[name])[:80]}")


def _wrong(where: str, field: str, why: str) -> ModelFolderError:
    return ModelFolderError(
        f"model.json in {where} cannot be used: its {field!r} is not what was saved there ({why}). Save the model again."
    )
