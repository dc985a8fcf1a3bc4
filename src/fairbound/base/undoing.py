"""A fit that fails leaves an estimator as it was: no mixture of an old model and a new table."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from torch import nn
from torch.nn.parameter import is_lazy

Method = TypeVar("Method", bound=Callable[..., Any])


def undone_on_failure(method: Method) -> Method:
    """A method, such as `fit`, that raises or is interrupted with the attributes of its object as they were before it
    was called, and the parameters of a module among these as well.

    The method must replace attributes: what it changes in place stays changed."""

    @wraps(method)
    def undone(self: Any, *given: Any, **named: Any) -> Any:
        before = dict(vars(self))
        modules = [value for value in before.values() if isinstance(value, nn.Module)]
        held = [(p, p.data) for module in modules for p in module.parameters() if not is_lazy(p)]
        try:
            return method(self, *given, **named)
        except BaseException:
            self.__dict__ = before
            for parameter, values in held:
                parameter.data = values
            raise

    return cast(Method, undone)
