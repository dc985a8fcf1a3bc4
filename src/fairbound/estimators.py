"""The scikit-learn door: a classifier that meets stated bounds on groups and classes. Constructor arguments are stored untouched."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.utils.validation import check_is_fitted
from torch import nn

from fairbound.algorithms import algorithm as algorithm_named
from fairbound.budget import Budget
from fairbound.cell_bounds import clopper_pearson
from fairbound.errors import DataError, OptionError
from fairbound.fairness.class_risk import ClassRisk
from fairbound.fairness.notions import GroupGap, Notion, constraints
from fairbound.fairness.plan import Plan, compile_plan
from fairbound.fairness.problem import FairProblem
from fairbound.folder import ModelFolderError, load_folder, save_folder
from fairbound.groups import Groups, no_groups
from fairbound.model import model_of
from fairbound.problem import Measured
from fairbound.sampling import Strata
from fairbound.seeds import seed_for
from fairbound.solve import Solution, solve
from fairbound.sparse_rows import SparseRows
from fairbound.tables import EncodeReport, TableEncoder, TableOptions, binary_labels, class_labels
from fairbound.trajectory import trajectory

LEAST_STEPS = 1500
EPOCHS = 10
PATIENCE = 4.0
VALIDATION = 0.2


class FairClassifier(ClassifierMixin, BaseEstimator):
    """A linear model, MLP or `nn.Module` trained to the lowest loss under stated bounds; deterministic predictions.

    constraint: bounds as text ("demographic_parity <= 0.02", "recall of class b >= 0.95"), objects, a list of them, or
        None. Bounds on groups need two classes, bounds on a class any number.
    model: "linear", "mlp:64,32", or a torch.nn.Module that maps (B, d) features to (B,) or (B, 1) logits, with k > 2
        classes to (B, k). An nn.Module gets numeric X as it is; the others a TableEncoder's features (standardised numbers, one-hot categories).
    algorithm: a method's name, a configuration such as fb.ALM(step_size=0.05), or "auto" (the augmented Lagrangian).
    loss: "logistic" (with k > 2 classes cross-entropy), or for two classes "hinge" or "squared".
    budget: "30s", "5000 steps", ...; None for max(1500 steps, 10 epochs), and up to 4 times that while no bound is met.
    validation: share of the rows held back to choose the iterate that also meets the bounds there (where none does, the
        augmented Lagrangian is run again with multipliers from these rows); "auto" holds back 20 % where every group would keep enough rows to measure a difference as small as the bound, else none.
    sensitive_columns: what to do with a column of X that bears the name of a sensitive attribute: "keep" or "drop".
    objective_class: None for the lowest loss over all rows; a label for the lowest loss over the rows of that class, as in
        Neyman-Pearson classification.
    positive: of two classes, the label that counts as positive; None for the greater one.
    options: a TableOptions for the encoder. random_state: integer seed. progress: a line on standard error.

    After fit: classes_, encoder_, groups_, n_features_in_, solution_, and as plain data fit_report_ (facts of the problem)
    and trajectory_ (loss, bounds and multipliers over training, as in docs/audit-schema.md).
    """

    def __init__(
        self,
        constraint: str | Notion | Sequence[str | Notion] | None = None,
        *,
        model: str | nn.Module = "linear",
        algorithm: Any = "auto",
        loss: str = "logistic",
        budget: str | float | Budget | None = None,
        batch_size: int = 256,
        sampling: str = "balanced",
        validation: float | str = "auto",
        sensitive_columns: str = "keep",
        objective_class: Any = None,
        positive: Any = None,
        options: TableOptions | None = None,
        random_state: int | None = 0,
        progress: bool = False,
    ):
        self.constraint = constraint
        self.model = model
        self.algorithm = algorithm
        self.loss = loss
        self.budget = budget
        self.batch_size = batch_size
        self.sampling = sampling
        self.validation = validation
        self.sensitive_columns = sensitive_columns
        self.objective_class = objective_class
        self.positive = positive
        self.options = options
        self.random_state = random_state
        self.progress = progress

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        return tags

    def fit(self, X: Any, y: Any, sensitive_features: Any = None, sample_weight: Any = None) -> FairClassifier:
        """Train on X (n, d) and y (n,).

        X: pandas or polars DataFrame, numpy array, scipy sparse matrix, torch tensor or list of rows. y: two or more
            values.
        sensitive_features: (n,) or (n, a) array, Series, DataFrame or dict of columns; missing values are constrained
            only where known. Bounds on classes need none. sample_weight: (n,) >= 0.
        Raises: DataError or OptionError that says what to change.
        Warns: ConvergenceWarning with the smallest excess reached, where no iterate met every bound.
        """
        stated = constraints(self.constraint)
        if self.sensitive_columns not in ("keep", "drop"):
            raise OptionError(f"sensitive_columns must be 'keep' or 'drop', got {self.sensitive_columns!r}.")
        if self.batch_size < 1:
            raise OptionError(f"batch_size must be at least 1, got {self.batch_size!r}.")
        compared = [n.text for n in stated if isinstance(n, GroupGap)]
        if compared and sensitive_features is None:
            raise DataError(f"the bound {compared[0]!r} needs fit(X, y, sensitive_features=...).")
        codes, classes = self._labels(_checked_labels(X, y), compared)
        groups = None if sensitive_features is None else Groups.of(sensitive_features)
        notes: list[str] = []
        cautions: list[str] = []
        self.dropped_columns_ = self._shared_columns(X, groups, notes)
        features = self._fit_features(_without(X, self.dropped_columns_))
        n = len(codes)
        if features.shape[0] != n or (groups is not None and len(groups) != n):
            raise DataError(
                f"X has {features.shape[0]} rows, y {n}" + (f", sensitive_features {len(groups)}." if groups else ".")
            )
        self.classes_ = np.array(classes)
        self.groups_ = groups
        self.model_ = model_of(self.model, features.shape[1], 1 if len(classes) == 2 else len(classes))
        problem, held, build = self._problems(features, codes, groups, stated, sample_weight, notes)
        config = (
            algorithm_named("alm") if isinstance(self.algorithm, str) and self.algorithm == "auto" else self.algorithm
        )
        config = algorithm_named(config) if isinstance(config, str) else config
        steps = max(LEAST_STEPS, math.ceil(EPOCHS * problem.rows / self.batch_size))
        budget = Budget.of(self.budget) if self.budget is not None else Budget(steps=steps)
        seed = 0 if self.random_state is None else int(self.random_state)
        run = partial(
            solve,
            algorithm=config,
            budget=budget,
            batch_size=self.batch_size,
            sampling=self.sampling,
            seed=seed,
            patience=PATIENCE if self.budget is None else 1.0,
            progress=self.progress,
        )
        self.solution_ = run(problem, validation=held)
        if held is not None and config.name == "alm" and not _found(self.solution_):
            again = run(problem.with_dual_rows(held), validation=held)
            if _found(again):
                notes.append(
                    "With multipliers of the training rows no model met every bound on the validation rows too, so the "
                    "multipliers follow the validation rows."
                )
            if _found(again) or again.violation < self.solution_.violation:
                self.solution_ = again
        missed = [] if held is None or _found(self.solution_) else _surely_missed(problem, held, self.solution_.x)
        if missed:
            cautions.append(
                f"On the rows held back for validation {missed[0]!r} is missed by more than chance explains: the model fits its "
                "own rows better than new ones. Take a smaller model or more rows, or loosen the bound."
            )
        elif held is not None and self.validation == "auto" and not _found(self.solution_):
            cautions.append(
                f"No model met every bound on the training rows and on the {held.rows:,} rows held back for validation "
                "too, so it was trained and verified on all rows; on new rows the bound may be missed."
            )
            problem, held = build(None), None
            self.solution_ = run(problem)
        self.x_ = self.solution_.x
        self.trajectory_ = trajectory(self.solution_.records, problem.plan)
        self.fit_report_ = self._report(problem, held, config, budget, seed, notes, cautions)
        if stated and not (self.fit_report_["feasible"] and self.fit_report_["best_step"] > 0):
            warnings.warn(self.solution_.message, ConvergenceWarning, stacklevel=2)
        elif stated and self.fit_report_["no_better_than_constant"]:
            warnings.warn(self.fit_report_["warnings"][-1], ConvergenceWarning, stacklevel=2)
        return self

    def _labels(self, y: Any, compared: Sequence[str]) -> tuple[np.ndarray, tuple[Any, ...]]:
        """(n,) class numbers and the labels; of two, the positive one is last. compared: bounds on groups."""
        codes, classes = class_labels(y)
        if len(classes) == 2:
            return binary_labels(y, self.positive)
        if compared or self.positive is not None:
            what = f"the bound {compared[0]!r}" if compared else f"positive={self.positive!r}"
            raise DataError(
                f"{what} needs two classes, a positive and a negative one, but y has {len(classes)} values, "
                f"{', '.join(map(repr, classes[:6]))}{', ...' if len(classes) > 6 else ''}. Choose one class against the rest, "
                "or bound the recall of a class."
            )
        if self.loss not in ("logistic", "cross_entropy"):
            raise OptionError(f"loss={self.loss!r} is for two classes; y has {len(classes)}. Take 'logistic'.")
        return codes, classes

    def _shared_columns(self, X: Any, groups: Groups | None, notes: list[str]) -> list[str]:
        if groups is None or not hasattr(X, "columns"):
            return []
        shared = [c for c in map(str, X.columns) if c in groups.attributes]
        if shared and self.sensitive_columns == "drop":
            notes.append(f"Sensitive columns dropped from the features: {', '.join(shared)}.")
            return shared
        if shared:
            notes.append(f"Sensitive columns kept among the features: {', '.join(shared)}.")
        return []

    def _fit_features(self, X: Any) -> Any:
        if isinstance(self.model, nn.Module):
            self.encoder_, self.encoder_report_ = None, None
            array = _module_features(X)
            self.n_features_in_ = array.shape[1]
            return array
        self.encoder_ = TableEncoder(self.options).fit(X)
        self.n_features_in_ = len(self.encoder_.columns)
        if hasattr(X, "columns"):
            self.feature_names_in_ = np.array([str(c) for c in X.columns], dtype=object)
        features, self.encoder_report_ = self.encoder_.encode(X)
        return features

    def _problems(
        self,
        features: Any,
        y: np.ndarray,
        groups: Groups | None,
        stated: tuple[Notion, ...],
        sample_weight: Any,
        notes: list[str],
    ) -> tuple[FairProblem, FairProblem | None, Callable[[Any], FairProblem]]:
        """The problem to train on, the one to validate on (or None), and what builds one of given rows (None: all)."""
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)

        def build(rows: Any, plan: Any = None) -> FairProblem:
            part = features if rows is None else features[rows]
            return FairProblem(
                self.model_,
                part,
                y if rows is None else y[rows],
                groups if rows is None or groups is None else groups.take(rows),
                stated,
                classes=self.classes_.tolist(),
                objective_class=self.objective_class,
                loss=_loss_of(self.loss, self.model_.outputs),
                sample_weight=weights if rows is None or weights is None else weights[rows],
                plan=plan,
            )

        share = (
            _validation_share(stated, groups, y, self.classes_, notes)
            if self.validation == "auto"
            else float(self.validation)
        )
        if not 0 <= share < 1:
            raise OptionError(f"validation must be 'auto' or a share in [0, 1), got {self.validation!r}.")
        if share == 0:
            return build(None), None, build
        strata = y[:, None] if groups is None else np.column_stack([y, groups.codes])
        train, held = _split(strata, share, 0 if self.random_state is None else int(self.random_state))
        problem = build(train)
        return problem, build(held, problem.plan), build

    def _report(
        self,
        problem: FairProblem,
        held: FairProblem | None,
        config: Any,
        budget: Budget,
        seed: int,
        notes: list[str],
        cautions: list[str],
    ) -> dict[str, Any]:
        solution = self.solution_
        measured = problem.evaluate(self.x_)
        values = problem.stated_values(measured)
        cautions += _coarse_groups(problem.plan, problem.counts_of_cells())
        constant = self._no_better_than_constant(problem, measured)
        if constant:
            cautions.append(
                "On the training rows the model is no more accurate than one that gives every row the same answer. "
                "Train longer (budget), loosen the bound, or merge small groups."
            )
        return {
            "model": self.model_.spec(),
            "algorithm": config.name,
            "options": repr(config),
            "seed": seed,
            "budget": budget.text,
            "steps": solution.steps,
            "seconds": solution.seconds,
            "best_step": int(solution.best_step),
            "feasible": bool(solution.feasible),
            "message": solution.message,
            "train_rows": problem.rows,
            "validation_rows": 0 if held is None else held.rows,
            "train_loss": float(measured.f),
            "constraints": [
                {"text": c.text, "sense": c.sense, "bound": float(c.level), "train_value": float(v)}
                for c, v in zip(problem.plan.notions, values, strict=True)
            ],
            "no_better_than_constant": constant,
            "dropped_groups": list(problem.plan.dropped),
            "encoding": None if self.encoder_report_ is None else self.encoder_report_.to_dict(),
            "notes": notes,
            "warnings": cautions,
        }

    def _no_better_than_constant(self, problem: FairProblem, measured: Measured) -> bool:
        """A bound on a class may well cost more accuracy than that, so that nothing is said under one."""
        if "accuracy" not in measured.extra or any(isinstance(n, ClassRisk) for n in problem.plan.notions):
            return False
        largest = float(problem.targets.long().bincount().max()) / problem.rows
        return bool(float(measured.extra["accuracy"]) <= largest + 1e-9)

    # -- predicting ---------------------------------------------------------------------------------------------

    def encode(self, X: Any) -> tuple[torch.Tensor | SparseRows, EncodeReport | None]:
        """The features that the model sees (n, d), SparseRows where it was trained on a sparse table, and what happened to
        the table on the way."""
        check_is_fitted(self)
        X = _without(X, self.dropped_columns_)
        if self.encoder_ is None:
            array = _module_features(X)
            if array.shape[1] != self.n_features_in_:
                raise DataError(
                    f"X has {array.shape[1]} features, but FairClassifier is expecting {self.n_features_in_} features."
                )
            return torch.as_tensor(array, dtype=torch.float32), None
        features, report = self.encoder_.encode(X)
        if sparse.issparse(features):
            return SparseRows.of(features, torch.float32), report
        return torch.as_tensor(features, dtype=torch.float32), report

    def decision_function(self, X: Any) -> np.ndarray:
        """(n,) logits, above 0 where the positive class is predicted; with k > 2 classes (n, k), the largest is predicted."""
        features, _ = self.encode(X)
        module = getattr(self.model_, "module", None)
        if module is not None:
            module.eval()
        with torch.no_grad():
            scores = [self.model_.scores(self.x_, part) for part in features.split(16384)]
        return torch.cat(scores).double().numpy()

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, k) probabilities of classes_, by the logistic function or the softmax of the scores."""
        scores = self.decision_function(X)
        if scores.ndim == 2:
            return softmax(scores, axis=1)
        p = expit(scores)
        return np.column_stack([1 - p, p])

    def predict(self, X: Any) -> np.ndarray:
        """(n,) predicted labels; the same input gives the same labels every time."""
        scores = self.decision_function(X)
        return self.classes_[scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(int)]

    # -- the model folder ---------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], extras: dict[str, str] | None = None) -> None:
        """Write the fitted model as a folder of JSON and arrays; loading it executes no code."""
        check_is_fitted(self)
        groups = (
            None
            if self.groups_ is None
            else {"attributes": list(self.groups_.attributes), "labels": [list(v) for v in self.groups_.labels]}
        )
        manifest = {
            "model": self.model_.spec(),
            "classes": [c.item() if hasattr(c, "item") else c for c in self.classes_],
            "constraints": [c.text for c in constraints(self.constraint)],
            "groups": groups,
            "loss": self.loss,
            "dropped_columns": self.dropped_columns_,
            "features": int(self.n_features_in_),
            "fit": self.fit_report_,
        }
        save_folder(path, manifest=manifest, tensors={"x": self.x_}, encoder=self.encoder_, extras=extras)

    @classmethod
    def load(cls, path: str | os.PathLike[str], module: nn.Module | None = None) -> FairClassifier:
        """The classifier saved at `path`, ready to predict.

        module: needed where the model was an nn.Module: the same architecture, whose weights are replaced.
        """
        folder = load_folder(path)
        manifest = folder.manifest
        spec = manifest["model"]
        if spec["kind"] == "module" and module is None:
            raise ModelFolderError(
                f"the model in {str(path)!r} is a torch module ({spec['class']}); no code is stored with it. Pass "
                "module=, built with the same architecture."
            )
        made: str | nn.Module = (
            module
            if spec["kind"] == "module" and module is not None
            else ("linear" if not spec["hidden"] else "mlp:" + ",".join(map(str, spec["hidden"])))
        )
        stated = manifest["constraints"]
        self = cls(stated[0] if len(stated) == 1 else stated or None, model=made, loss=manifest["loss"])
        width = spec.get("features", manifest["features"])
        self.model_ = model_of(made, width, spec.get("outputs", 1))
        self.x_ = folder.tensors["x"]
        if self.x_.shape != (self.model_.n,):
            raise ModelFolderError(
                f"the weights in {str(path)!r} have shape {tuple(self.x_.shape)}, the model has {self.model_.n} "
                "parameters; pass a module of the architecture that was trained."
            )
        self.classes_ = np.array(manifest["classes"])
        self.encoder_, self.dropped_columns_ = folder.encoder, manifest["dropped_columns"]
        self.n_features_in_ = manifest["features"]
        g = manifest["groups"]
        self.groups_ = (
            None
            if g is None
            else Groups(
                np.zeros((0, len(g["attributes"])), dtype=np.int64),
                tuple(g["attributes"]),
                tuple(map(tuple, g["labels"])),
            )
        )
        self.fit_report_ = manifest["fit"]
        return self


def _found(solution: Solution) -> bool:
    """Whether a model other than the start met every bound."""
    return bool(solution.feasible) and int(solution.best_step) > 0


def _surely_missed(problem: FairProblem, held: FairProblem, x: torch.Tensor) -> list[str]:
    """The bounds on classes that x meets on its own rows and misses on the rows `held`, where even the lower confidence
    limit of the error (at 5 %) is above the bound."""
    met = problem.evaluate(x).g <= 0
    g, rows, plan, out = held.evaluate(x).g, held.counts_of_cells(), held.plan, []
    for number, notion in enumerate(plan.notions):
        if isinstance(notion, ClassRisk):
            at = plan.rows_of(number)[0]
            n = rows[plan.index[at, 0]]
            wrong = min(max(float(g[at]) + notion.bound, 0.0), 1.0) * n
            if met[at] and clopper_pearson(wrong, n, 0.05, "lower")[0] > notion.bound:
                out.append(notion.text)
    return out


def _checked_labels(X: Any, y: Any) -> Any:
    """y as one column of real labels, in scikit-learn's words where it is something else."""
    if y is None:
        raise DataError("FairClassifier requires y to be passed, but the target y is None.")
    if any(getattr(getattr(part, "dtype", None), "kind", None) == "c" for part in (X, y)):
        raise DataError("Complex data not supported: X and y must be real.")
    shape: tuple[int, ...] = getattr(y, "shape", ())
    if len(shape) == 2 and shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected; it is taken as one column of labels.",
            DataConversionWarning,
            stacklevel=3,
        )
    return y


def _loss_of(loss: str, outputs: int) -> str:
    """The logistic loss and cross-entropy are one, of two classes by one score and of more by a score for each."""
    return loss if loss not in ("logistic", "cross_entropy") else "logistic" if outputs == 1 else "cross_entropy"


def _without(X: Any, columns: Sequence[str]) -> Any:
    if not columns or not hasattr(X, "columns"):
        return X
    present = [c for c in X.columns if str(c) in columns]
    return X.drop(columns=present) if hasattr(X, "iloc") else X.drop(present)


def _module_features(X: Any) -> np.ndarray:
    if hasattr(X, "detach"):
        X = X.detach().cpu().numpy()
    elif hasattr(X, "to_numpy"):
        X = X.to_numpy()
    try:
        array = np.require(X, dtype=np.float32, requirements=["W"])
    except (TypeError, ValueError) as error:
        raise DataError(
            f"an nn.Module needs numeric features ({error}); encode the table with fairbound.TableEncoder first."
        ) from None
    if array.ndim < 2:
        raise DataError(f"X must have at least two dimensions, got {array.ndim}.")
    return array


def _validation_share(
    stated: tuple[Notion, ...], groups: Groups | None, y: np.ndarray, classes: np.ndarray, notes: list[str]
) -> float:
    """The share of rows to hold back: none where a part of the smallest group or class could not show the bound."""
    for kind, what, measured in ((GroupGap, "group", "difference"), (ClassRisk, "class", "error")):
        bounds = tuple(n for n in stated if isinstance(n, kind))
        if not bounds:
            continue
        known = no_groups(len(y)) if groups is None else groups
        plan = compile_plan(bounds, known, y, classes.tolist())
        rows = np.bincount(plan.cells(known.codes, y).ravel(), minlength=plan.n_cells + 1)[:-1]
        smallest, bound = rows[rows > 0].min(), max(min(n.bound for n in bounds), 0.01)
        if VALIDATION * smallest < max(0.25 / bound**2 if kind is GroupGap else 1 / bound, 50):
            notes.append(
                f"No rows were held back for validation: the smallest {what} has {smallest} rows, too few to measure "
                f"{'a' if kind is GroupGap else 'an'} {measured} as small as the bound on a part of them. The bound was "
                "verified on the training rows."
            )
            return 0.0
    return VALIDATION if stated else 0.0


def _coarse_groups(plan: Plan, rows: np.ndarray) -> list[str]:
    """For each bound on rates, the groups (or the class) whose rates move in steps larger than the bound. rows: (K,) rows of each cell."""
    out = []
    for number, notion in enumerate(plan.notions):
        if notion.statistic == "loss" or notion.bound == 0:
            continue
        used = np.unique(plan.index[plan.rows_of(number)][plan.coefficient[plan.rows_of(number)] != 0])
        few = [c for c in used[np.argsort(rows[used], kind="stable")] if rows[c] * notion.bound < 1]
        if few:
            named = ", ".join(f"{plan.cell_names[c]!r} ({rows[c]})" for c in few[:3]) + (
                ", ..." if len(few) > 3 else ""
            )
            if isinstance(notion, ClassRisk):
                out.append(
                    f"{notion.text}: with only {rows[few[0]]} training rows of the class, one error already breaks the bound. "
                    "Give more rows of it, or loosen the bound."
                )
                continue
            out.append(
                f"{notion.text}: too few training rows for a difference this small in {named}; a rate over n rows moves in "
                "steps of 1/n. Merge the group with another, mark it missing, or loosen the bound."
            )
    return out


def _split(strata: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on and rows held back, the same share of every stratum."""
    parts = Strata.of(strata)
    rng = np.random.default_rng(seed_for("validation", root=seed))
    held = []
    for start, size in zip(parts.starts, parts.sizes, strict=True):
        rows = parts.order[start : start + size]
        held.append(rng.permutation(rows)[: round(share * size)])
    chosen = np.sort(np.concatenate(held))
    keep = np.ones(len(strata), dtype=bool)
    keep[chosen] = False
    return np.flatnonzero(keep), chosen
