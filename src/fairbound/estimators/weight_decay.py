"""How much the squared weights of a linear model count beside its loss: what leave-one-out of the training rows asks for.

    minimise  mean loss + decay / 2 |w|^2        w: the weights, the intercept not among them

Of n rows the decays GRID / n are tried: the model without bounds is fitted with each, and its loss at every row is measured as if that row
had not been there. One fit gives all n of these, as without row i the scores change by nearly one Newton step:

    score_i without row i  =  score_i + h_i / (1 - h_i q_i) (p_i - y_i),        h = diag(A (A' Q A + n decay I)^-1 A'),  Q = diag(q),

A the features and a column of ones, p the probabilities and q = p (1 - p), both times the rows' weights. Nothing is random, and no row is held back.

Source: Rad and Maleki (2020), A scalable estimate of the out-of-sample prediction error via approximate leave-one-out cross-validation, Journal
    of the Royal Statistical Society B 82, 965-996.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeGuard

import numpy as np
import torch
from torch import Tensor

from fairbound.base.errors import OptionError
from fairbound.fairness.pointwise import LOGISTIC
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import MLP
from fairbound.models.model import Model
from fairbound.problems.penalised import Distance, Penalised
from fairbound.problems.problem import Measured
from fairbound.rows.sparse import SparseRows

GRID = (256.0, 64.0, 16.0, 4.0, 1.0, 0.25)
"""Decays that are tried, times the rows."""

USUAL = 1.0
"""Of tables too large to try them, times the rows: that of scikit-learn's LogisticRegression."""

MOST_WORK = 2e8
"""Cells of a table times its rows or columns, the fewer of them, up to which they are tried."""

ITERATIONS, SETTLED = 50, 1e-8
"""Newton steps of a fit at most, and the fall of the mean loss at which it ends."""


class Decayed(Penalised):
    """The problem with decay / 2 |w|^2 in its objective, by which points are compared too. w: the weights of a linear model, of another
    model all parameters."""

    def __init__(self, inner: FairProblem, decay: float):
        count = inner.model.features if linear(inner.model) else inner.n
        zeros = torch.zeros(count, dtype=inner.dtype, device=inner.device)
        super().__init__(inner, Distance(zeros), decay, convex=True, unbiased=True)

    def evaluate(self, x: Tensor) -> Measured:
        """The inner problem's, but for the objective; "loss" stays without the squares."""
        found = self.inner.evaluate(x)
        more = self.strength * self.penalty.value(x, None)
        return replace(found, f=found.f + more, extra={"loss": found.f, **found.extra})


def linear(model: Model) -> TypeGuard[MLP]:
    """Whether it is linear, with one score."""
    return isinstance(model, MLP) and not model.hidden and model.outputs == 1


def decay_of(problem: FairProblem, stated: float | Literal["auto"], at_once: bool) -> float:
    """The decay to train `problem` with, where a number or "auto" is `stated`; at_once: whether it is trained on all rows at once.

    Raises: OptionError for a number that would not be followed.
    """
    possible = at_once and linear(problem.model) and (problem.refined or problem.plan.objective is None)
    if stated == "auto":
        return auto_decay(problem) if possible and problem.loss is LOGISTIC else 0.0
    if stated and not possible:
        raise OptionError(
            f"weight_decay={stated!r} is for linear models of two classes that are trained on all rows at once to the loss or to accuracy; leave "
            "it at 'auto', or name a method that has such an option, as fb.ALM(weight_decay=...)."
        )
    return float(stated)


def auto_decay(problem: FairProblem) -> float:
    """The decay of GRID / n of the lowest loss by leave-one-out, for a linear model of one logistic score; USUAL / n where that takes long,
    and for sparse rows."""
    model, rows, features = problem.model, problem.total_rows, problem.features
    assert isinstance(model, MLP)
    large = rows * model.features * min(rows, model.features) > MOST_WORK
    if large or problem.shards.count > 1 or isinstance(features, SparseRows):
        return USUAL / rows
    dense = features.cpu().double().numpy()
    if rows < model.features:  # as many columns as rows have the same scores, at the same length of the weights
        dense = np.linalg.qr(dense.T)[1].T
    A = np.column_stack([dense, np.ones(rows)]) if model.bias else dense
    mass = np.ones(rows) if problem.row_weight is None else problem.row_weight.cpu().double().numpy()
    mass = mass / mass.mean()
    y, x = problem.targets.cpu().double().numpy(), np.zeros(A.shape[1])
    least, best = np.inf, USUAL
    for many in GRID:
        penalty = np.where(np.arange(A.shape[1]) < dense.shape[1], many, 0.0)
        x = fitted(A, y, mass, penalty, x)
        loss = leave_one_out(A, y, mass, penalty, x)
        if loss < least:
            least, best = loss, many
    return best / rows


def fitted(A: np.ndarray, y: np.ndarray, mass: np.ndarray, penalty: np.ndarray, x: np.ndarray) -> np.ndarray:
    """(p,) the lowest sum of the logistic losses of rows A (n, p) with labels y (n,), times their mass (n,), and of penalty / 2 x^2, by
    damped Newton steps from x."""

    def total(at: np.ndarray) -> float:
        scores = A @ at
        return float(mass @ (np.logaddexp(0, scores) - y * scores) + penalty @ at**2 / 2)

    now = total(x)
    for _ in range(ITERATIONS):
        p, H = _curved(A, mass, penalty, x)
        slope = A.T @ (mass * (p - y)) + penalty * x
        step, share = np.linalg.solve(H, slope), 1.0
        while (after := total(x - share * step)) > now and share > 1e-6:
            share /= 2
        x, before, now = x - share * step, now, after
        if before - now < SETTLED * len(y):
            break
    return x


def leave_one_out(A: np.ndarray, y: np.ndarray, mass: np.ndarray, penalty: np.ndarray, x: np.ndarray) -> float:
    """The mean logistic loss of every row at the x that the other rows would give, nearly; arguments as of `fitted`, whose x it is."""
    p, H = _curved(A, mass, penalty, x)
    h = mass * np.einsum("np,pn->n", A, np.linalg.solve(H, A.T))
    scores = A @ x + h * (p - y) / np.maximum(1 - h * p * (1 - p), 1e-6)
    return float(mass @ (np.logaddexp(0, scores) - y * scores) / mass.sum())


def _curved(A: np.ndarray, mass: np.ndarray, penalty: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The probabilities (n,) and the second derivatives (p, p) at x."""
    p = 1 / (1 + np.exp(-np.clip(A @ x, -500, 500)))
    H = (A.T * (mass * p * (1 - p))) @ A
    H[np.diag_indices_from(H)] += penalty + 1e-9 * len(A)
    return p, H
