"""The set of points that meet convex quadratic bounds, with its exact Euclidean projection.

The projection of v is the solution of min |x - v|^2 under the bounds, which `QuadraticProgram` finds by Newton's method
on its dual: one multiplier for each bound, whatever the number of variables.

Source: He, Huang, Yao, Lin (2026), (108) to (110), for the sets of their baselines.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fairbound.base.errors import OptionError
from fairbound.problems.domain import Domain
from fairbound.subproblems.quadratics import QuadraticProgram

MET = 1e-9
"""Bounds above 0 by no more than this count as met, so that a projected point stays where it is."""


class QuadraticSet(Domain):
    """x with x_d' A_i x_d + b_i' x_d + c_i <= 0 for i = 1..m, where x_d are the first d entries of x; the others are
    free.

    A: (m, d, d) positive semidefinite; b: (m, d); c: (m,).
    Raises: OptionError for other shapes; when projecting, SubproblemError where no point meets the bounds.
    """

    def __init__(self, A: np.ndarray, b: np.ndarray, c: np.ndarray):
        m, d = b.shape
        if A.shape != (m, d, d) or c.shape != (m,):
            raise OptionError(
                f"a quadratic set needs A (m, d, d), b (m, d), c (m,); got {A.shape}, {b.shape}, {c.shape}."
            )
        self.A, self.b, self.c = A, b, c
        self._program = QuadraticProgram(
            np.concatenate([np.eye(d)[None], A]), np.concatenate([np.zeros((1, d)), b]), np.r_[0.0, c]
        )
        self._multipliers = np.zeros(m)

    def values(self, x: np.ndarray) -> np.ndarray:
        """(m,) the bounds at x (d,), each to be at most 0."""
        return self.A @ x @ x + self.b @ x + self.c

    def project(self, x: Tensor) -> Tensor:
        """The nearest point of the set to every x (..., n)."""
        flat = x.reshape(-1, x.shape[-1]).clone()
        d = self.b.shape[1]
        for row in flat:
            v = row[:d].double().cpu().numpy()
            if self.values(v).max(initial=-np.inf) > MET:
                found = self._program.solve(start=self._multipliers, slope=-2 * v)
                self._multipliers = found.multipliers
                row[:d] = torch.as_tensor(found.x).to(row)
        return flat.reshape(x.shape)
