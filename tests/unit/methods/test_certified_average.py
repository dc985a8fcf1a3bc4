"""The certified method's candidate is the weighted mean of its iterates, with the weights written out."""

from __future__ import annotations

import math

import pytest
import torch

from fairbound.methods import CertifiedLevelSet
from fairbound.testing import PROBLEMS, run


@pytest.mark.parametrize("power", [0, 1, 3])
@pytest.mark.parametrize("steps", [1, 2, 17])
def test_iterate_t_weighs_the_rising_product_t_to_t_plus_power(power, steps):
    """Weights t (t + 1) ... (t + p - 1) of the t-th point, t = 1, 2, ...: the recursion's closed form."""
    problem = PROBLEMS["two_sided"](noise=0.1)
    points = [problem.start((0,))]
    config = CertifiedLevelSet(certify="surrogate", averaging=power)
    state = run(config, problem, steps, after=lambda state: points.append(state.x.clone()))
    weights = torch.tensor([math.prod(range(t, t + power)) for t in range(1, steps + 1)], dtype=torch.float64)
    mean = (weights.unsqueeze(-1) * torch.stack(points[:steps])).sum(0) / weights.sum()
    torch.testing.assert_close(state.average, mean, rtol=0, atol=1e-12)
