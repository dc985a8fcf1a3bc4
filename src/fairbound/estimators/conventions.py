"""What all estimators share: their parameters, random states, warnings of feature names, and how a fit is timed."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import wraps
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import nn

from fairbound.base.callers import users_line
from fairbound.base.errors import OptionError
from fairbound.base.threads import one_thread
from fairbound.estimators.saving.folder import save_folder
from fairbound.estimators.saving.saved import parts_of
from fairbound.fairness.bound import Bound
from fairbound.rows.reading import frame_of
from fairbound.solver.budget import Budget
from fairbound.tables import Encoded, TableOptions
from fairbound.tables.naming import column_names

LARGEST_SEED = 2**31 - 1


SMALL = 1 << 24
"""Cells of a table up to which models other than modules are trained on one thread."""


def on_few_threads(fit: Any) -> Any:
    """A method `fit(self, X, ...)` that takes one thread where little is computed at a time: for tables of at most
    SMALL cells, and for built-in networks, whose batches are small."""

    @wraps(fit)
    def fitted(self: Any, X: Any, *others: Any, **named: Any) -> Any:
        frame_of(X)  # refuses a table whose rows are not computed yet, which has no shape either
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
    budget: str | Budget | None = None
    batch_size: int = 256
    validation: float | str = "auto"
    sensitive_columns: str = "keep"
    options: TableOptions | None = None
    certify: bool | float = False
    on_insufficient: Literal["warn", "raise"] = "warn"
    random_state: Any = 0
    progress: bool = False
    verbose: int = 0

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"sensitive_features": True}

    def _facts(self) -> dict[str, Any]:
        """What the model folder says of this kind of estimator, besides what it says of each."""
        raise NotImplementedError

    @property
    def _shows_progress(self) -> bool:
        return bool(self.progress or self.verbose)

    def _limit(self) -> Budget | None:
        """The stated budget, its seconds counted from now on; None where none is stated."""
        return None if self.budget is None else Budget.of(self.budget).from_now()

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
