"""A linear classifier whose shares of positive decisions in two groups are within a ratio kappa, in convex form.

With b in {-1, 1} a row's label and z = a . x its score,

    min over |x|_2 <= lambda of   mean phi(b z)                                             over the labelled rows
    subject to                    mean_M (z + 1/2)_+ + mean_F (1/2 - z)_+ / kappa <= 1 / kappa
                                  mean_F (z + 1/2)_+ + mean_M (1/2 - z)_+ / kappa <= 1 / kappa

Source: Lin, Nadarajah, Soheili, Yang (2020), section 6.4, formulation (15) and the convex form after it.
Departs: the text prints phi(-b z), which would reward errors (phi falls); and sigma(z) = 1 - sigma(-z) is what its
    reformulation uses, not the same of phi.

What feasible means. A row is called positive with probability sigma(z) = min(1, (z + 1/2)_+). As
sigma(z) <= (z + 1/2)_+ and 1 - sigma(z) = sigma(-z) <= (1/2 - z)_+, a feasible x satisfies mean_M sigma <= mean_F
sigma / kappa and mean_F sigma <= mean_M sigma / kappa: each group's expected share of positives is at least kappa times
the other's. The converse fails: scores beyond 1/2 in absolute value cost more in the convex form than in the ratio.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fairbound.base.errors import DataError, OptionError
from fairbound.instances.linear_terms import Block, LinearTerms, Term

LOSSES = ("hinge", "logistic")


def fair_ratio(
    X: Any,
    y: Any,
    X_m: Any,
    X_f: Any,
    *,
    radius: float = 5.0,
    kappa: float = 0.95,
    loss: str = "hinge",
    dtype: torch.dtype = torch.float64,
    name: str = "fair_ratio",
) -> LinearTerms:
    """Classification whose rates of positive decisions in two groups keep a ratio, in the convex form of (15).

    It has two constraints and the blocks "labelled", "M" and "F".

    X: (rows, d) array or SciPy sparse matrix.
    y: (rows,) labels in {0, 1} or {-1, 1}.
    X_m, X_f: (rows, d) unlabelled rows of the two groups.
    radius: lambda.
    kappa: in (0, 1].
    loss: phi(z), "hinge" (1 - z)_+ or "logistic".

    x = 0 is feasible: its left-hand sides are (1 + 1 / kappa) / 2 <= 1 / kappa, strictly so for kappa < 1.
    Raises: DataError for rows or labels that cannot be used; OptionError for other options.
    """
    if loss not in LOSSES:
        raise OptionError(f"loss must be one of {', '.join(LOSSES)}, got {loss!r}.")
    if not 0 < kappa <= 1:
        raise OptionError(f"kappa is a ratio of shares and must be in (0, 1], got {kappa!r}.")
    labels = np.asarray(y)
    values = set(np.unique(labels).tolist())
    if values not in ({0, 1}, {-1, 1}):
        raise DataError(f"y must hold both labels, 0 and 1 (or -1 and 1), got {sorted(map(str, values))[:5]}.")
    inverse = 1.0 / kappa
    return LinearTerms(
        [Block("labelled", X, (labels > 0).astype(np.int64)), Block("M", X_m), Block("F", X_f)],
        [
            Term(0, 0, loss),
            Term(1, 1, "ramp"),
            Term(1, 2, "ramp_down", inverse),
            Term(2, 2, "ramp"),
            Term(2, 1, "ramp_down", inverse),
        ],
        [inverse, inverse],
        radius=radius,
        names=["share of M over share of F", "share of F over share of M"],
        dtype=dtype,
        name=name,
    )
