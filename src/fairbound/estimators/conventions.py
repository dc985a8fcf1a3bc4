"""Conventions of scikit-learn: random states, sensitive columns by name, class weights, coefficients, feature names."""

from __future__ import annotations

import numbers
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import wraps
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import nn

from fairbound.base.callers import users_line
from fairbound.base.errors import DataWarning, OptionError
from fairbound.base.threads import one_thread
from fairbound.estimators.folder import save_folder
from fairbound.estimators.saved import parts_of
from fairbound.fairness.bound import Bound
from fairbound.fairness.builder import class_number
from fairbound.fairness.few_rows import dropped_words_of_groups
from fairbound.fairness.objectives import ClassLoss, ClassLosses, objective_of
from fairbound.models.mlp import is_linear
from fairbound.solver.budget import Budget
from fairbound.tables import Encoded, TableEncoder, TableOptions
from fairbound.tables.encode_report import dropped_words, identifier_words
from fairbound.tables.naming import column_names
from fairbound.tables.numbers import NumberFeature

LARGEST_SEED = 2**31 - 1


SMALL = 1 << 24
"""Cells of a table up to which models other than modules are trained on one thread."""


def on_few_threads(fit: Any) -> Any:
    """A method `fit(self, X, ...)` that takes one thread where little is computed at a time: for tables of at most
    SMALL cells, and for built-in networks, whose batches are small."""

    @wraps(fit)
    def fitted(self: Any, X: Any, *others: Any, **named: Any) -> Any:
        model: Any = getattr(self, "model", "linear")
        shape: Any = getattr(X.features if isinstance(X, Encoded) else X, "shape", ())
        small = len(shape) == 2 and shape[0] * shape[1] <= SMALL
        with one_thread(isinstance(model, str) and (small or model != "linear")):
            return fit(self, X, *others, **named)

    return fitted


def timed(fit: Any) -> Any:
    """A method `fit` of an estimator, whose report has as "seconds" the time of all of it by the clock."""

    @wraps(fit)
    def fitted(self: Any, *given: Any, **named: Any) -> Any:
        begun = time.perf_counter()
        out = fit(self, *given, **named)
        self.fit_report_["seconds"] = time.perf_counter() - begun
        return out

    return fitted


class TakesTables:
    """Tells scikit-learn that an estimator takes missing values, sparse tables and text. Stands before other mixins."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = tags.input_tags.sparse = tags.input_tags.string = True
        return tags


@dataclass(eq=False, repr=False)
class TrainedEstimator(TakesTables):
    """The parameters of every estimator that trains a model itself; they are stored untouched. Under scikit-learn's
    metadata routing `fit` requests the sensitive features by default."""

    constraint: str | Bound | Sequence[str | Bound] | None = None
    _: KW_ONLY
    model: str | nn.Module = "linear"
    algorithm: Any = "auto"
    budget: str | float | Budget | None = None
    batch_size: int = 256
    validation: float | str = "auto"
    sensitive_columns: str = "keep"
    options: TableOptions | None = None
    certify: bool | float = False
    on_insufficient: Literal["warn", "raise"] = "warn"
    random_state: Any = 0
    progress: bool = False

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"sensitive_features": True}

    def _facts(self) -> dict[str, Any]:
        """What the model folder says of this kind of estimator, besides what it says of each."""
        raise NotImplementedError

    def save(self, path: str | os.PathLike[str], extras: Mapping[str, str] | None = None) -> None:
        """Write the fitted model to a folder of JSON and arrays, which loads without executing code.
        extras: further text files, beside those that the model was loaded with. Files of an older model there go."""
        check_is_fitted(self)
        parts = parts_of(self)
        save_folder(path, **parts | {"extras": parts["extras"] | dict(extras or {})})


def seed_of(random_state: Any) -> int:
    """The seed that `random_state` gives: an integer >= 0 itself; None, a RandomState or a Generator a fresh one drawn
    from it, numpy's global one for None. Raises: OptionError."""
    if isinstance(random_state, int | np.integer) and random_state >= 0:
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(LARGEST_SEED))
    if random_state is None or isinstance(random_state, np.random.RandomState):
        return int(check_random_state(random_state).randint(LARGEST_SEED))
    raise OptionError(
        f"random_state must be an integer >= 0, None, a RandomState or a Generator of numpy; got {random_state!r}."
    )


def warn_of_names(names: Sequence[str] | None, X: Any, estimator: str) -> None:
    """Warns: UserWarning, in scikit-learn's words, where one of training and X has column names and the other none.

    names: of the training columns, None where they had none.
    """
    given = column_names(X) is not None
    if given and names is None:
        said = f"X has feature names, but {estimator} was fitted without feature names"
    elif not given and names is not None and _is_table(X):
        said = f"X does not have valid feature names, but {estimator} was fitted with feature names"
    else:
        return
    warnings.warn(said, UserWarning, stacklevel=users_line())


def _is_table(X: Any) -> bool:
    """Whether X has rows and columns; others are refused, and their lack of names is not the reason."""
    if hasattr(X, "shape"):
        return len(X.shape) == 2
    return not isinstance(X, Mapping) and not (isinstance(X, Sequence) and len(X) and isinstance(X[0], Mapping))


def missing_group_words(missing: Mapping[str, int]) -> list[str]:
    """What is said of training rows whose group is not known; missing: their number by attribute."""
    return [f"{a} is missing in {n:,} training rows; no bound holds for them." for a, n in missing.items() if n]


def warn_of_fit(facts: Mapping[str, Any], trained_under: Sequence[Any]) -> None:
    """Warns: DataWarning of columns and groups that were left out, of groups that are too small for a bound, of rows
    whose group is not known, of a feature that tells the label, and of a bound that says less than it seems to;
    ConvergenceWarning where no model that has learnt something met every bound of `trained_under`.

    facts: a `fit_report_`.
    """
    said = dropped_words((facts["encoding"] or {}).get("dropped", {}))
    said += identifier_words((facts["encoding"] or {}).get("identifiers", ()))
    said += dropped_words_of_groups(facts["dropped_groups"], facts.get("dropped_rows", {}))
    said += [*facts["remarks"], *filter(None, [facts["telling_feature"]])]
    for text in [*said, *facts["small_groups"], *missing_group_words(facts["missing_group_rows"])]:
        warnings.warn(text, DataWarning, stacklevel=users_line())
    if trained_under and not facts["feasible"]:
        warnings.warn(facts["message"], ConvergenceWarning, stacklevel=users_line())
    elif trained_under and facts["nothing_learnt"] is not None:
        warnings.warn(facts["nothing_learnt"], ConvergenceWarning, stacklevel=users_line())


def one_objective(
    objective: Any,
    objective_class: Any,
    class_weight: Any,
    classes: Sequence[Any],
    codes: np.ndarray,
    weight: np.ndarray | None,
) -> Any:
    """What is minimised, of three ways to state it: the objective; the loss of one class; with class weights the mean
    loss in which every row counts with the weight w_c of its class, so that the share of class c in it is
    w_c n_c / sum_c w_c n_c.

    class_weight: None, "balanced" (w_c = 1 / n_c up to a factor), or a mapping of labels to weights >= 0, 1 for a label
    it lacks. codes: (n,) class numbers. weight: (n,) >= 0, or None.
    Raises: OptionError where more than one is stated.
    """
    others = objective_of(objective) is not None
    if class_weight is None:
        if objective_class is None:
            return objective
        if others:
            raise OptionError(
                f"objective={objective!r} and objective_class={objective_class!r} are two objectives; keep one of them."
            )
        return ClassLoss(objective_class)
    if others or objective_class is not None:
        raise OptionError("class_weight weighs the loss; leave objective and objective_class out beside it.")
    factor, share = np.ones(len(classes)), np.bincount(codes, weights=weight, minlength=len(classes))
    if isinstance(class_weight, str) and class_weight == "balanced":
        factor = np.divide(1.0, share, out=np.zeros(len(classes)), where=share > 0)
    elif not isinstance(class_weight, Mapping):
        raise OptionError(
            f"class_weight must be None, 'balanced' or a dict of labels to weights, got {class_weight!r}."
        )
    else:
        for label, value in class_weight.items():
            if not isinstance(value, numbers.Real) or not 0 <= float(value) < np.inf:
                raise OptionError(f"class_weight[{label!r}] must be a number >= 0, got {value!r}.")
            factor[class_number(label, codes, classes)] = float(value)
    weighed_share = share * factor
    if not weighed_share.sum() > 0:
        raise OptionError("class_weight gives every row the weight 0.")
    return ClassLosses(tuple((weighed_share / weighed_share.sum()).tolist()))


def linear_parts(model: Any, x: Any, encoder: TableEncoder | None) -> tuple[np.ndarray, np.ndarray]:
    """(k, d) weights and (k,) intercepts of a linear model in the units of the table: a number's weight is per unit of
    its column.

    k: 1, or the number of classes. Column j belongs to `encoder.feature_names[j]`; missing numbers take the median.
    Raises: AttributeError for a model that is not linear.
    """
    if not is_linear(model):
        raise AttributeError("coef_ and intercept_ are of linear models; this one is not.")
    weight, bias = (part.double().numpy().copy() for part in model.layers.split(x))
    if encoder is None or encoder.learnt is None:
        scale = np.ones(weight.shape[1]) if encoder is None else encoder.scale
        return weight / scale, bias
    at = 0
    for spec in encoder.learnt:
        if isinstance(spec, NumberFeature) and spec.sd is not None:
            weight[:, at : at + 1 + len(spec.knots)] /= spec.sd
            bias -= weight[:, at] * spec.mean
        at += len(spec.feature_names)
    return weight, bias
