"""Chooses the weight decay of a linear model by the leave-one-out loss of its training rows.

    minimise  mean loss + decay / 2 |w|^2        w: the weights, the intercept not among them

Of n rows the decays GRID / n are tried, from 1 / n on the way on which the loss falls, until it rises: the model
without bounds is fitted with each, and its loss at every row is measured as if that row had not been there. One fit
gives all n of these, as without row i the scores change by nearly one Newton step:

    score_i without row i  =  score_i + h_i / (1 - h_i q_i) (p_i - y_i),        h = diag(A (A' Q A + n decay I)^-1 A'),  Q = diag(q),

A the features and a column of ones, p the probabilities and q = p (1 - p), both times the rows' weights. Nothing is
random, and no row is held back. Of a large table an even part of the rows is taken, m of n: what m decay is best there
is close to what n decay is best for all, as both are the pull of the squares against that of a single row.

Source: Rad and Maleki (2020), A scalable estimate of the out-of-sample prediction error via approximate leave-one-out
    cross-validation, Journal of the Royal Statistical Society B 82, 965-996.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fairbound.base.errors import OptionError
from fairbound.fairness.pointwise import CROSS_ENTROPY, LOGISTIC
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import MLP, is_linear
from fairbound.problems.penalised import Distance, Penalised
from fairbound.problems.problem import Measured
from fairbound.rows.by_column import rows_at
from fairbound.rows.sparse import SparseRows
from fairbound.tables.numbers import slices
from fairbound.tables.shapes.regressions import TWO_CLASSES, Curved, fitted, ridged

GRID = (256.0, 64.0, 16.0, 4.0, 1.0, 0.25)
"""Decays that are tried, times the rows."""

USUAL = 1.0
"""The decay, times the rows, of tables too wide to try GRID: that of scikit-learn's LogisticRegression."""

MOST_WORK = 1e8
"""GRID is tried on as many rows as keep the product of cells with the smaller number of rows and columns below this,"""

PER_COLUMN, MOST_OF_WIDE = 10, 1e9
"""or MOST_OF_WIDE, if that is on no more than PER_COLUMN rows for each column."""

ENOUGH, ENOUGH_EACH = 5000, 100
"""Rows, and rows for each column, of which the larger number is enough: on more, any decay of GRID costs little."""

FEWEST = 500
"""Rows on which it may be decided for a table that has more."""


class Decayed(Penalised):
    """The problem with decay / 2 |w|^2 in its objective, by which points are compared too. w: the weights of a linear
    model, of another model all parameters."""

    def __init__(self, inner: FairProblem, decay: float):
        model = inner.model
        count = model.features * model.outputs if is_linear(model) else inner.n
        zeros = torch.zeros(count, dtype=inner.dtype, device=inner.device)
        super().__init__(inner, Distance(zeros), decay, convex=True, unbiased=True)

    def evaluate(self, x: Tensor) -> Measured:
        """The inner problem's, but for the objective; "loss" stays without the squares."""
        found = self.inner.evaluate(x)
        more = self.strength * self.penalty.value(x, None)
        return replace(found, f=found.f + more, extra={"loss": found.f, **found.extra})


def decay_of(
    problem: FairProblem, stated: float | Literal["auto"], at_once: bool, chosen: dict[bytes, float] | None = None
) -> float:
    """The decay to train `problem` with, where a number or "auto" is `stated`; at_once: whether it is trained on all
    rows at once. chosen: the decays chosen before on these features, by labels and weights, to which this one is added.

    Raises: OptionError for a number that would not be followed.
    """
    of_rows = problem.refined or problem.plan.objective is None or problem.class_losses is not None
    possible = at_once and is_linear(problem.model) and of_rows
    if stated == "auto":
        if not possible or problem.loss not in (LOGISTIC, CROSS_ENTROPY):
            return 0.0
        if chosen is None:
            return auto_decay(problem)
        key = _of_rows(problem)
        if key not in chosen:
            chosen[key] = auto_decay(problem)
        return chosen[key]
    if stated and not possible:
        raise OptionError(
            f"weight_decay={stated!r} is for linear models that are trained on all rows at once to the loss or to accuracy; leave "
            "it at 'auto', or name a method that has such an option, as fb.ALM(weight_decay=...)."
        )
    return float(stated)


def _of_rows(problem: FairProblem) -> bytes:
    """A key of the labels and weights that does not depend on the order of the rows."""
    made = torch.empty(2, problem.rows, dtype=problem.dtype)
    made[:, torch.as_tensor(problem.strata.order)] = torch.stack([problem.targets, _mass(problem)]).cpu()
    return hashlib.sha256(made.numpy().data).digest()


def _mass(problem: FairProblem) -> torch.Tensor:
    """(n,) the weight of every row in the objective, class weights included."""
    weight = problem.weight_of_rows()
    if problem.class_losses is None:
        return weight
    mass = problem.weight_of_classes(len(problem.class_losses.coefficients)).cpu().numpy()
    counts = torch.as_tensor(problem.class_losses.row_weights(mass)).to(weight)
    return weight * counts[problem.targets.long()]


def auto_decay(problem: FairProblem) -> float:
    """The decay of GRID / n of the lowest loss by leave-one-out, for a linear model of logistic scores; USUAL / n where
    that takes long, for sparse rows, and where other processes hold rows too. Of k > 2 classes the losses of k models,
    of each class against the rest, are added up."""
    model, rows, features = problem.model, problem.total_rows, problem.features
    assert isinstance(model, MLP)
    taken = _taken(rows, model.features, model.outputs)
    if not len(taken) or problem.shards.count > 1 or isinstance(features, SparseRows):
        return USUAL / rows
    A = np.ones((len(taken), model.features + model.bias), dtype=np.float32, order="F")
    for part in slices(len(taken)):
        A[part, : model.features] = (
            rows_at(features, torch.as_tensor(taken[part], device=features.device)).cpu().numpy()
        )
    if len(taken) < model.features:  # as many columns as rows have the same scores, at the same length of the weights
        A = np.column_stack([np.linalg.qr(A[:, : model.features].T)[1].T, A[:, model.features :]])
    weights = A.shape[1] - model.bias
    mass = _mass(problem)[taken].cpu().double().numpy()
    mass = mass / mass.mean()
    targets = problem.targets[taken].cpu().double().numpy()
    labels = [targets]
    if model.outputs > 1:
        labels = [(targets == k).astype(float) for k in np.unique(targets)]
    xs = [np.zeros(A.shape[1])] * len(labels)
    near: list[Curved | None] = [None] * len(labels)

    def loss_with(many: float) -> float:
        penalty = np.where(np.arange(A.shape[1]) < weights, many, 0.0)
        loss = 0.0
        for k, y in enumerate(labels):
            xs[k], scores, _ = fitted(A, y, mass, penalty, xs[k], near[k])
            one, near[k] = leave_one_out(A, y, mass, penalty, scores)
            loss += one
        return loss

    best, least = USUAL, loss_with(USUAL)
    for way in ([many for many in GRID if many < USUAL], [many for many in reversed(GRID) if many > USUAL]):
        for many in way if best == USUAL else ():
            if (loss := loss_with(many)) >= least:
                break
            best, least = many, loss
    return best / rows


def _taken(rows: int, columns: int, models: int) -> np.ndarray:
    """The rows that leave-one-out takes of a table for so many models: all, an even part, or none."""
    usual, wide = (_rows_within(most / models, columns) for most in (MOST_WORK, MOST_OF_WIDE))
    usual = min(usual, max(ENOUGH, ENOUGH_EACH * columns))
    part = min(rows, max(usual, min(wide, PER_COLUMN * columns)))
    return np.arange(part) * rows // part if part >= min(rows, FEWEST) else np.arange(0)


def _rows_within(work: float, columns: int) -> int:
    """The rows whose cells times the smaller number of rows and columns is at most `work`."""
    return int(work / columns**2 if work >= columns**3 else (work / columns) ** 0.5)


def leave_one_out(
    A: np.ndarray, y: np.ndarray, mass: np.ndarray, penalty: np.ndarray, scores: np.ndarray
) -> tuple[float, Curved]:
    """The mean logistic loss of every row at the weights that the other rows would give, nearly, and the second
    derivatives of all; arguments as of `fitted`, whose scores (n,) they are."""
    p = TWO_CLASSES.expected(scores)
    curved = Curved.of(A, mass * TWO_CLASSES.curvature(p))
    turn = np.linalg.inv(np.linalg.cholesky(ridged(penalty, curved.Q))).T.astype(A.dtype)
    h = np.empty(len(A))
    for part in slices(len(A)):
        turned = A[part] @ turn
        np.einsum("np,np->n", turned, turned, out=h[part])
    h *= mass
    without = scores + h * (p - y) / np.maximum(1 - h * p * (1 - p), 1e-6)
    return TWO_CLASSES.total(without, y, mass) / mass.sum(), curved
