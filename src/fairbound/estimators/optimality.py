"""How nearly a trained model is an optimum."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from fairbound.methods import FullBatchALM, Method
from fairbound.subproblems.multipliers import kkt

NEAR_ROWS = 20_000
"""Up to so many rows it is said of a model trained on random batches how nearly it meets the conditions of
optimality."""


def optimality(problem: Any, method: Method[Any], x: Tensor, rows: int) -> dict[str, Any]:
    """How nearly x (n,) is an optimum under the last surrogates of the method, with the multipliers that are not 0 by
    name. Of a method that goes by random batches nothing is said where the `rows`, or the parameters,
    are more than NEAR_ROWS."""
    if isinstance(method, FullBatchALM):
        problem = problem.sharpened(method.sharpness[-1])
    elif max(rows, problem.n) > NEAR_ROWS:
        return {}
    near = kkt(problem, x)
    multipliers = {problem.names[i]: float(near.multipliers[i]) for i in near.multipliers.nonzero().flatten().tolist()}
    return {**near._asdict(), "multipliers": multipliers}
