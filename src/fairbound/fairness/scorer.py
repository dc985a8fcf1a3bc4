"""`scorer`, the value of a bound for scikit-learn's `cross_validate` and `GridSearchCV`."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from fairbound.base.errors import DataError, OptionError
from fairbound.base.names import plain_repr
from fairbound.fairness.bound import Bound
from fairbound.fairness.measuring import measure, refuse_positive
from fairbound.fairness.notions import constraint
from fairbound.rows.labels import labels_of
from fairbound.rows.reading import plain_array

SCORES = ("decision_function", "predict_proba")


def scorer(stated: str | Bound, *, positive: Any = None) -> Scorer:
    """A scorer for `cross_validate` and `GridSearchCV` that asks for `sensitive_features`: greater is fairer.

    Bounds on decisions are measured on what the estimator's `predict` says; bounds on scores (losses, areas,
    percentiles) on its `decision_function` or `predict_proba`. Where these methods take `sensitive_features`, they get
    them.

    It needs metadata routing (`sklearn.set_config(enable_metadata_routing=True)`). positive: the label that counts as
    positive; None for the last of the estimator's `classes_`. Leave it out for rates of every class and for numbers.
    Raises: OptionError for the text, for a positive label that the bound does not speak of, and without metadata
    routing. When it scores: OptionError where the estimator lacks the method, or nothing says which label is positive;
    DataError for rows that cannot be used.
    """
    from sklearn import get_config

    bound = constraint(stated, bound=1.0)
    if bound.needs & {"classes", "predictions"}:
        refuse_positive(bound, positive)
    if "queries" in bound.needs:
        raise OptionError(
            f"{bound.statement!r} bounds a ranking; scorers take no queries. Use measure(..., qid=QUERIES)."
        )
    if not get_config()["enable_metadata_routing"]:
        raise OptionError(
            "the scorer asks for sensitive_features by scikit-learn's metadata routing; call "
            "sklearn.set_config(enable_metadata_routing=True) before it is made."
        )
    return Scorer(bound, positive)


class Scorer:
    """What `scorer` returns, called with a fitted estimator and rows."""

    def __init__(self, bound: Bound, positive: Any):
        self.bound, self.positive = bound, positive
        self._requests: dict[str, Any] = {"sensitive_features": True}

    def __call__(
        self, estimator: Any, X: Any, y: Any, sensitive_features: Any = None, sample_weight: Any = None
    ) -> float:
        """The value of the bound on these rows, negative where less is fairer."""
        how: dict[str, Any] = {"sample_weight": sample_weight}
        if "scores" in self.bound.needs:
            how["threshold"] = 0.5 if self._method(estimator) == "predict_proba" else 0.0
        if self.bound.about == "class":
            how["positive"] = self.positive
        found, truth = self._scored(estimator, X, y, sensitive_features)
        value = measure(self.bound, found, truth, sensitive_features, **how)
        return value if self.bound.sense == "at least" else -value

    def __repr__(self) -> str:
        return f"scorer({self.bound.statement!r}, positive={plain_repr(self.positive)})"

    def set_score_request(self, **requests: bool | str | None) -> Scorer:
        """Which of sensitive_features and sample_weight are asked for, and under which name, as of scikit-learn's scorers.
        What is not named stays as it was: sensitive_features are asked for until False is said of them."""
        self._requests = self._requests | requests
        self.get_metadata_routing()  # refuses what is no name
        return self

    def get_metadata_routing(self) -> Any:
        """What scikit-learn's metadata routing asks."""
        from sklearn.utils.metadata_routing import MetadataRequest

        asked = MetadataRequest(owner=self)
        for name, alias in self._requests.items():
            asked.score.add_request(param=name, alias=alias)
        return asked

    def _scored(self, estimator: Any, X: Any, y: Any, groups: Any) -> tuple[Any, Any]:
        """What the bound is measured on, and the labels: of bounds on one positive label both as 0 and 1."""
        method = self._method(estimator)
        found = plain_array(_called(estimator, method, X, groups))
        if self.bound.about == "class" or self.bound.needs & {"classes", "predictions"}:
            return found, y
        positive = self._positive(estimator, y)
        target = labels_of(y, positive)[0]
        if method == "predict":
            return _decisions(estimator, found, positive), target
        own = list(getattr(estimator, "classes_", ()))
        if method == "predict_proba" and found.ndim == 2 and found.shape[1] == 2:
            return found[:, own.index(positive) if own else 1], target
        return (-found if own and own[0] == positive else found), target

    def _method(self, estimator: Any) -> str:
        """The method that says what is measured. Raises: OptionError where the estimator has none."""
        names = SCORES if "scores" in self.bound.needs else ("predict",)
        for name in names:
            if hasattr(estimator, name):
                return name
        what = "scores" if names is SCORES else "decisions"
        raise OptionError(
            f"{self.bound.statement!r} is measured on {what}, and {type(estimator).__name__} has no {' or '.join(names)}."
        )

    def _positive(self, estimator: Any, y: Any) -> Any:
        """The label that counts as positive. Raises: OptionError where nothing says which."""
        if self.positive is not None:
            return self.positive
        labels = getattr(estimator, "classes_", None)
        if labels is not None and len(labels) == 2:
            return labels[1]
        values = plain_array(y)
        if values.dtype.kind in "biuf" and any(np.isin(values, two).all() for two in ((0, 1), (-1, 1))):
            return 1
        said = "no classes_" if labels is None else f"{len(labels)} classes"
        raise OptionError(
            f"{self.bound.statement!r} speaks of a positive label, and {type(estimator).__name__} has {said}; name it: "
            f"fb.scorer({self.bound.statement!r}, positive=POSITIVE), of labels of two values."
        )


def _called(estimator: Any, name: str, X: Any, groups: Any) -> Any:
    """What a method of the estimator says of X; it gets the groups where it takes them."""
    method = getattr(estimator, name)
    takes = groups is not None and (_has_parameter(method) or _routes(estimator, name))
    return method(X, sensitive_features=groups) if takes else method(X)


def _has_parameter(method: Any) -> bool:
    try:
        return "sensitive_features" in inspect.signature(method).parameters
    except (TypeError, ValueError):  # of a method that says nothing of its arguments
        return False


def _routes(estimator: Any, name: str) -> bool:
    """Whether the estimator, such as a pipeline, hands groups on to one that asks for them."""
    if not hasattr(estimator, "get_metadata_routing"):
        return False
    return bool(estimator.get_metadata_routing().consumes(name, ["sensitive_features"]))


def _decisions(estimator: Any, predicted: np.ndarray, positive: Any) -> np.ndarray:
    """(n,) 1 where the predicted label is the positive one. Raises: DataError for predictions that are no labels."""
    texts = predicted.dtype.kind in "OUST" and any(isinstance(v, str) for v in predicted.ravel())
    fractions = predicted.dtype.kind == "f" and not (predicted == np.round(predicted)).all()
    if predicted.ndim != 1 or texts != isinstance(positive, str) or fractions:
        raise DataError(
            f"a bound on decisions needs predicted labels, {plain_repr(positive)} where they are positive, and "
            f"{type(estimator).__name__}.predict says {predicted.ravel()[0]!r}."
        )
    return (predicted == positive).astype(np.int64)
