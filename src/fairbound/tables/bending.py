"""Which numbers a linear model should bend at, found by a test of each: `TableOptions(knots="auto")`.

    fit a logistic regression of the labels on the features without knots
    for each number: the score statistic (slope of the log-likelihood along its knots, over the spread that slope has by chance)
    keep the knots of the numbers for which chance gives so large a one with probability at most LEVEL / (number of numbers)

One regression is fitted, however many numbers there are.

Source: Rao (1948), Mathematical Proceedings of the Cambridge Philosophical Society 44, 50-57, for the score test;
    Neyman (1959), Optimal asymptotic tests of composite statistical hypotheses, for a regression that is not quite at
    its end.
Departs: of more than ROWS rows or CELLS cells a random part is looked at; weights of rows are not.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.special import chdtrc

from fairbound.base.seeds import seed_for
from fairbound.tables.regressions import fitted, probabilities, times

MOST = 3
"""Knots of a number that bends."""

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


def useful(features: np.ndarray, labels: np.ndarray, added: Iterable[np.ndarray]) -> list[bool]:
    """Whether the labels ask for the knots of each number.

    features: (n, d) without knots. labels: (n,) 0 or 1. added: of each number (n, k) how far it lies above each knot.
    """
    X, scores = regression(np.asarray(features, dtype=float), labels)
    statistics = score_statistics(X, added, labels, probabilities(scores))
    return [bool(df and chdtrc(df, size) <= LEVEL / len(statistics)) for size, df in statistics]


def regression(features: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The features (n, d) with ones behind them, and (n,) the scores of a logistic regression of the labels (n,), 0 or
    1, on them, nearly at its end, in the precision of the features."""
    X = np.column_stack([features, np.ones(len(features), features.dtype)])
    penalty = np.r_[np.full(features.shape[1], PENALTY), 0.0]
    return X, times(X, fitted(X, labels, np.ones(len(X)), penalty, np.zeros(X.shape[1]), settled=NEARLY))


def score_statistics(
    X: np.ndarray, added: Iterable[np.ndarray], labels: np.ndarray, p: np.ndarray
) -> list[tuple[float, int]]:
    """The score statistic of each of some sets of columns, added to X, and its degrees of freedom.

    X: (n, d), ones among its columns. added: (n, k) each. p: (n,) probabilities of label 1 by the logistic regression
    on X, nearly.
    """
    weight = (p * (1 - p))[:, None]
    inverse = np.linalg.pinv(X.T @ (weight * X) + 1e-6 * np.eye(X.shape[1]), hermitian=True)
    left = labels - p
    left = left - (weight * X) @ (inverse @ (X.T @ left))  # after a Newton step, which ends the regression
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
        sizes, axes = np.linalg.eigh(spread)
        kept = sizes > LEAST_LEFT * np.trace(whole)
        slope = axes[:, kept].T @ slopes[own]
        out.append((float((slope**2 / sizes[kept]).sum()), int(kept.sum())))
    return out
