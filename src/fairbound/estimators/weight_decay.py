"""Chooses the weight decay of a linear model by the leave-one-out loss of its training rows.

    minimise  mean loss + decay / 2 |w|^2        w: the weights, the intercept not among them

Of n rows the decays GRID / n are tried: the model without bounds is fitted with each, and its loss at every row is measured
as if that row had not been there. One fit gives all n of these, as without row i the scores change by nearly one Newton step:

    score_i without row i  =  score_i + h_i / (1 - h_i q_i) (p_i - y_i),        h = diag(A (A' Q A + n decay I)^-1 A'),  Q = diag(q),

A the features and a column of ones, p the probabilities and q = p (1 - p), both times the rows' weights. Nothing is random, and no row is held back.

Source: Rad and Maleki (2020), A scalable estimate of the out-of-sample prediction error via approximate leave-one-out cross-validation, Journal
    of the Royal Statistical Society B 82, 965-996.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Literal, TypeGuard

import numpy as np
import torch
from scipy.special import expit
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
"""The decay, times the rows, of tables too large to try GRID: that of scikit-learn's LogisticRegression."""

MOST_WORK = 2e8
"""GRID is tried up to this product of a table's cells with the smaller number of its rows and columns."""

ITERATIONS, SETTLED = 50, 1e-8
"""Newton steps of a fit at most, and the fall of the mean loss expected of one at which it is the last."""

SLOW = 0.1
"""Second derivatives are computed anew where a step promises more than this share of what the step before it
promised."""


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


def decay_of(
    problem: FairProblem, stated: float | Literal["auto"], at_once: bool, chosen: dict[bytes, float] | None = None
) -> float:
    """The decay to train `problem` with, where a number or "auto" is `stated`; at_once: whether it is trained on all rows at once. chosen: the
    decays chosen before on these features, by labels and weights, to which this one is added.

    Raises: OptionError for a number that would not be followed.
    """
    possible = at_once and linear(problem.model) and (problem.refined or problem.plan.objective is None)
    if stated == "auto":
        if not possible or problem.loss is not LOGISTIC:
            return 0.0
        chosen = {} if chosen is None else chosen
        key = _of_rows(problem)
        if key not in chosen:
            chosen[key] = auto_decay(problem)
        return chosen[key]
    if stated and not possible:
        raise OptionError(
            f"weight_decay={stated!r} is for linear models of two classes that are trained on all rows at once to the loss or to accuracy; leave "
            "it at 'auto', or name a method that has such an option, as fb.ALM(weight_decay=...)."
        )
    return float(stated)


def _of_rows(problem: FairProblem) -> bytes:
    """A key of the labels and weights that does not depend on the order of the rows."""
    weight = torch.ones_like(problem.targets) if problem.row_weight is None else problem.row_weight
    made = torch.empty(2, problem.rows, dtype=problem.dtype)
    made[:, torch.as_tensor(problem.strata.order)] = torch.stack([problem.targets, weight]).cpu()
    return hashlib.sha256(made.numpy().tobytes()).digest()


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
    least, best, Q = np.inf, USUAL, None
    for many in GRID:
        penalty = np.where(np.arange(A.shape[1]) < dense.shape[1], many, 0.0)
        x = fitted(A, y, mass, penalty, x, Q)
        loss, Q = leave_one_out(A, y, mass, penalty, x)
        if loss < least:
            least, best = loss, many
    return best / rows


def fitted(
    A: np.ndarray, y: np.ndarray, mass: np.ndarray, penalty: np.ndarray, x: np.ndarray, Q: np.ndarray | None = None
) -> np.ndarray:
    """(p,) the lowest sum of the logistic losses of rows A (n, p) with labels y (n,), times their mass (n,), and of penalty / 2 x^2, by
    damped Newton steps from x. Q: A' Q A (p, p) nearby, which serves while steps shorten fast."""
    scores, before = A @ x, np.inf
    now = _total(scores, y, mass) + penalty @ x**2 / 2
    for _ in range(ITERATIONS):
        p = expit(scores)
        slope = A.T @ (mass * (p - y)) + penalty * x
        step = np.linalg.solve(_with(penalty, _second(A, mass, p) if Q is None else Q), slope)
        expected = slope @ step / 2
        if Q is not None and expected > SLOW * before:
            Q = None
            continue
        share, along = 1.0, A @ step
        while True:
            moved = x - share * step
            after = _total(scores - share * along, y, mass) + penalty @ moved**2 / 2
            if after <= now or share < 1e-6:
                break
            share /= 2
        x, scores, now, before = moved, scores - share * along, after, expected
        if expected < SETTLED * len(y):
            break
    return x


def leave_one_out(
    A: np.ndarray, y: np.ndarray, mass: np.ndarray, penalty: np.ndarray, x: np.ndarray
) -> tuple[float, np.ndarray]:
    """The mean logistic loss of every row at the x that the other rows would give, nearly, and A' Q A (p, p); arguments as of `fitted`, whose
    x it is."""
    scores = A @ x
    p = expit(scores)
    Q = _second(A, mass, p)
    turned = A @ np.linalg.inv(np.linalg.cholesky(_with(penalty, Q))).T
    h = mass * np.einsum("np,np->n", turned, turned)
    without = scores + h * (p - y) / np.maximum(1 - h * p * (1 - p), 1e-6)
    return _total(without, y, mass) / mass.sum(), Q


def _second(A: np.ndarray, mass: np.ndarray, p: np.ndarray) -> np.ndarray:
    """(p, p) A' Q A at the probabilities p (n,)."""
    root = A * np.sqrt(mass * p * (1 - p))[:, None]
    return root.T @ root


def _total(scores: np.ndarray, y: np.ndarray, mass: np.ndarray) -> float:
    """The sum of the rows' losses, times their mass."""
    return float(mass @ (np.logaddexp(0, scores) - y * scores))


def _with(penalty: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Q and the penalty on its diagonal, with a little that keeps an inverse."""
    return Q + np.diag(penalty + 1e-9 * Q.trace())
