"""Which numbers a linear model should bend at, found by a test of each: `TableOptions(knots="auto")`.

    fit a regression of the labels on the features without knots: logistic of two classes, least squares of numbers
    for each number: the score statistic (slope of the log-likelihood along its knots, over the spread that slope has by chance)
    keep the knots of the numbers for which chance gives so large a one with probability at most LEVEL / (number of numbers)

One regression is fitted, however many numbers there are. How far labels that are numbers lie from what is expected may
depend on the row: the spread of a slope is the larger of those with one variance for all rows and with one for each.

Source: Rao (1948), Mathematical Proceedings of the Cambridge Philosophical Society 44, 50-57, for the score test;
    Neyman (1959), Optimal asymptotic tests of composite statistical hypotheses, for a regression that is not quite at
    its end; White (1982), Econometrica 50, 1-25, for a variance of each row.
Departs: of more than ROWS rows or CELLS cells a random part is looked at; weights of rows are not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.special import chdtrc

from fairbound.base.seeds import seed_for
from fairbound.tables.shapes.regressions import TWO_CLASSES, Fit, fitted

LEVEL = 0.01
"""Probability that any number bends where none should."""

ROWS, CELLS = 50_000, 1 << 21
"""Rows that the test looks at, and cells of their features without knots, at most."""

FEWEST = 10
"""Rows that the test needs for each feature."""

PENALTY, NEARLY = 1e-4, 1e-5
"""On the squared weights of the regression, and the fall of the mean loss expected of a Newton step at
which it is the last but that of the test."""

LEAST_LEFT = 1e-6
"""Share of the knots' spread that other columns must leave: a number that follows from a category needs no knots."""


def looked_at(rows: int, features: int, cells: int = CELLS) -> np.ndarray | None:
    """Numbers of the rows of a table that the test looks at, None where they are too few for it. cells: as CELLS."""
    most = min(rows, ROWS, cells // features)
    if most < FEWEST * (features + 1):
        return None
    return (
        np.arange(rows) if most == rows else np.random.default_rng(seed_for("knots")).choice(rows, most, replace=False)
    )


def useful(
    features: np.ndarray, labels: np.ndarray, added: Iterable[np.ndarray], loss: Any = TWO_CLASSES, share: float = 1.0
) -> tuple[list[bool], np.ndarray]:
    """Whether the labels ask for the knots of each number, and the weights (d + 1,) of the regression without knots.

    features: (n, d) without knots. labels: (n,) 0 or 1, or numbers, as the loss has it. added: of each number (n, k)
    how far it lies above each knot. share: of LEVEL.
    """
    X, fit = regression(np.asarray(features, dtype=float), labels, loss)
    statistics = score_statistics(X, added, labels, loss.expected(fit.scores), loss)
    return [bool(df and chdtrc(df, size) <= share * LEVEL / len(statistics)) for size, df in statistics], fit.x


def regression(features: np.ndarray, labels: np.ndarray, loss: Any = TWO_CLASSES) -> tuple[np.ndarray, Fit]:
    """The features (n, d) with ones behind them, and a regression of the labels (n,) on them, nearly at its end, in the
    precision of the features."""
    X = np.column_stack([features, np.ones(len(features), features.dtype)])
    penalty = np.r_[np.full(features.shape[1], PENALTY), 0.0]
    start = np.zeros(X.shape[1])
    return X, fitted(X, labels, np.ones(len(X)), penalty, start, settled=NEARLY, loss=loss)


def score_statistics(
    X: np.ndarray, added: Iterable[np.ndarray], labels: np.ndarray, expected: np.ndarray, loss: Any = TWO_CLASSES
) -> list[tuple[float, int]]:
    """The score statistic of each of some sets of columns, added to X, and its degrees of freedom.

    X: (n, d), ones among its columns. added: (n, k) each. expected: (n,) labels by the regression on X, nearly.
    """
    weight = loss.curvature(expected)[:, None]
    inverse = np.linalg.pinv(X.T @ (weight * X) + 1e-6 * np.eye(X.shape[1]), hermitian=True)
    left = labels - expected
    left = left - (weight * X) @ (inverse @ (X.T @ left))  # after a Newton step, which ends the regression
    dispersion = loss.dispersion(left, X.shape[1])
    sets = list(added)
    E, widths = np.hstack(sets), [columns.shape[1] for columns in sets]
    del sets
    E -= E.mean(0)
    weighed = weight * E
    both, slopes, out, end = X.T @ weighed, E.T @ left, [], 0
    explained = inverse @ both
    for width in widths:
        start, end = end, end + width
        own = slice(start, end)
        whole = E[:, own].T @ weighed[:, own]
        spread = whole - both[:, own].T @ explained[:, own]  # of the slope, without what the columns of X account for
        size, df = _size(slopes[own], dispersion * spread, dispersion * np.trace(whole))
        if not loss.spread_is_known:
            of_rows = left[:, None] * (E[:, own] - X @ explained[:, own])
            size = min(size, _size(slopes[own], of_rows.T @ of_rows, dispersion * np.trace(whole))[0])
        out.append((size, df))
    return out


def _size(slope: np.ndarray, spread: np.ndarray, whole: float) -> tuple[float, int]:
    """slope (k,) squared over its spread (k, k) in the directions in which that is more than LEAST_LEFT of `whole`, and
    how many these are."""
    sizes, axes = np.linalg.eigh(spread)
    kept = sizes > LEAST_LEFT * whole
    along = axes[:, kept].T @ slope
    return float((along**2 / sizes[kept]).sum()), int(kept.sum())
