"""Twelve rows: small enough that an expectation over batches is a finite sum, with a certified constrained optimum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from fairbound.fairness.notions import Bound
from fairbound.fairness.problem import FairProblem
from fairbound.models.model import MLP, Model
from fairbound.testing.known import Optimum

FEATURES = np.array(
    [
        [-1.3, -0.2],
        [1.1, 0.7],
        [-2.2, 0.0],
        [-1.2, 0.1],
        [-2.2, 0.2],
        [0.8, 1.6],
        [0.9, 0.5],
        [-0.9, 2.3],
        [-1.3, 1.1],
        [0.3, -0.9],
        [-0.1, -0.7],
        [1.0, -0.1],
    ]
)
TARGETS = np.array([1, 0, 0, 0, 0, 0, 1, 1, 0, 1, 0, 1])
TWO_GROUPS = np.array(list("aaaaabbbbbbb"))
THREE_GROUPS = np.array(list("aaabbbbccccc"))
WEIGHTS = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.5, 1.0, 0.25, 2.0, 1.0, 1.0, 0.75])
MEAN_SCORES = "demographic_parity[surrogate=clipped,sharpness=0.25] <= 0.05"


def tiny(
    stated: str | Bound | Sequence[str | Bound] | None = MEAN_SCORES,
    *,
    model: Model | None = None,
    groups: Any = TWO_GROUPS,
    rows: Sequence[int] | None = None,
    **options: Any,
) -> FairProblem:
    """A FairProblem over the twelve rows, or over `rows` of them; options go to FairProblem, which gets float64."""
    at = np.arange(len(TARGETS)) if rows is None else np.asarray(rows)
    return FairProblem(
        model or MLP(FEATURES.shape[1]),
        FEATURES[at],
        TARGETS[at],
        None if stated is None else groups[at],
        stated,
        **{"dtype": torch.float64, **options},
    )


class ConvexFair(FairProblem):
    """Logistic regression on the twelve rows with the group means of the scores at most 0.2 apart.

    The clipped surrogate with sharpness 1/4 is linear while |score| < 2, which holds with room to spare from the start
    (zero) to the optimum, so the two inequalities of the bound are linear there and the problem is convex.
    """

    optimum: Optimum
    name = "convex_fair"


def convex_fair(*, dtype: torch.dtype = torch.float64, device: str | torch.device = "cpu") -> ConvexFair:
    """`ConvexFair` with its optimum, by Newton's method on the KKT system (residual 3e-17) and, independently, by the
    cone solver Clarabel through cvxpy (objective equal to 2e-9)."""
    problem = ConvexFair(MLP(2), FEATURES, TARGETS, TWO_GROUPS, MEAN_SCORES, dtype=dtype, device=device)
    problem.optimum = Optimum(
        torch.tensor([0.25271498075085613, -0.30930825754572816, -0.12435000854465758], dtype=torch.float64),
        0.6455096041099592,
        torch.tensor([0.0, 0.29903303117153035], dtype=torch.float64),
        torch.tensor([0.5499721310064204, -0.16113367012034957, -0.07959380436599399], dtype=torch.float64),
        0.6297029182743908,
        1.0,
        "KKT residual 3e-17 in float64; cvxpy with Clarabel agrees to 2e-9",
    )
    return problem
