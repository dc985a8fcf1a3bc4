"""Which part of a model of any library takes the weights of rows, with scikit-learn's metadata routing and without."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import Parameter, signature
from typing import Any

from sklearn import get_config
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from fairbound.base.errors import OptionError

WEIGHT = "sample_weight"


def weighted_part(estimator: Any) -> tuple[Any, str]:
    """What takes the weights of rows, and their name in `fit` where metadata routing is off: a pipeline's last step, the
    estimator in a search, whose `fit` hands on what it is given, or the estimator itself."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        inner, of = weighted_part(last)
        return inner, f"{name}__{of}"
    if _hands_on(estimator) and hasattr(estimator, "estimator"):
        return weighted_part(estimator.estimator)
    return estimator, WEIGHT


def takes_weights(part: Any) -> bool:
    """Whether the `fit` of what `weighted_part` found takes weights by name, or anything."""
    return has_fit_parameter(part, WEIGHT) or _hands_on(part)


def check_takes_weights(estimator: Any) -> None:
    """Raises: OptionError where an estimator that is to be fitted to rows of unequal weights takes none."""
    part, _ = weighted_part(estimator)
    if not takes_weights(part) and not _asked_for_before(estimator):
        raise OptionError(
            f"{type(part).__name__}.fit takes no sample_weight, and weights were given. Leave them out, take a classifier that takes them, "
            "or fit this one to other rows and let fb.PostProcessor(model, bound, prefit=True) weigh the thresholds alone."
        )


def _asked_for_before(estimator: Any) -> bool:
    """Whether a step of a pipeline before the last requests weights, with metadata routing on."""
    return isinstance(estimator, Pipeline) and _routing() and bool(with_weights(estimator, 1.0)[1])


def _hands_on(estimator: Any) -> bool:
    """Whether its `fit` takes arguments of any name, and weights not by theirs."""
    taken = signature(estimator.fit).parameters if hasattr(estimator, "fit") else {}
    return WEIGHT not in taken and any(one.kind is Parameter.VAR_KEYWORD for one in taken.values())


def refuses_weights(estimator: Any) -> bool:
    """Whether the part that takes the weights was told not to, by set_fit_request(sample_weight=False)."""
    return _routing() and _requests(weighted_part(estimator)[0], "fit").get(WEIGHT) is False


def with_weights(estimator: Any, weight: Any) -> tuple[Any, dict[str, Any]]:
    """A clone of the estimator, and the weights as its `fit` takes them.

    With metadata routing on, every part that was not told whether it gets weights is told in the clone: the last step
    of a pipeline gets them, as with routing off, and no other. What a person requested holds.
    """
    made = clone(estimator)
    if weight is None:
        return made, {}
    last, name = weighted_part(made)
    if not _routing():
        return made, {name: weight}
    for part in _parts(last):
        _settle(part, "fit", True)
    for part in _parts(made):
        _settle(part, "fit", False)
        _settle(part, "score", False)  # a search inside would weigh its scores
    if isinstance(made, Pipeline) and not made.get_metadata_routing().consumes("fit", [WEIGHT]):
        return made, {}
    return made, {WEIGHT: weight}


def _routing() -> bool:
    return bool(get_config()["enable_metadata_routing"])


def _parts(estimator: Any) -> Iterator[Any]:
    """The estimator and all estimators inside it."""
    yield estimator
    if hasattr(estimator, "get_params"):
        yield from (part for part in estimator.get_params(deep=True).values() if hasattr(part, "get_params"))


def _requests(part: Any, method: str) -> dict[str, Any]:
    """What a method of the estimator itself, not of those inside it, requests."""
    if not hasattr(part, f"set_{method}_request"):
        return {}
    return dict(getattr(part._get_metadata_request(), method).requests)  # scikit-learn has no public way


def _settle(part: Any, method: str, wanted: bool) -> None:
    """Request the weights, or refuse them, where a method takes them and nobody said which; a request under another
    name becomes one under their own, by which they are passed here."""
    requests = _requests(part, method)
    if WEIGHT in requests and not isinstance(requests[WEIGHT], bool):
        named = isinstance(requests[WEIGHT], str)
        getattr(part, f"set_{method}_request")(**{WEIGHT: wanted or named})
