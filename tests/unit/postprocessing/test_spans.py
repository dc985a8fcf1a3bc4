"""What spans say of every two cells is what the inequalities say one by one, and they are found where all pairs are there."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from fairbound.fairness.compiled.builder import compile_plan
from fairbound.fairness.notions import constraints
from fairbound.postprocessing.spans import spans_of
from fairbound.postprocessing.sweep import sweep_of
from fairbound.rows.groups import Groups

STATED = {
    "demographic_parity[both] <= 0.05": 2,
    "equalized_odds[by=race] <= 0.1": 2,
    "demographic_parity_ratio[by=race] >= 0.9": 1,
    "equal_opportunity[best, by=race] <= 0.05": 1,
    "demographic_parity[by=sex] <= 0.05": 0,
    "equalized_odds[sum, by=race] <= 0.1": 0,
    "error_rate_parity[overall, by=race] <= 0.05": 0,
}


@pytest.mark.parametrize("stated", STATED)
def test_the_largest_excess_is_that_of_the_inequalities_one_by_one(stated):
    rng = np.random.default_rng(0)
    groups = Groups.of({"race": rng.choice(list("abcde"), 400), "sex": rng.choice(["F", "M"], 400)})
    y, weight = rng.integers(0, 2, 400), rng.uniform(0.5, 2, 400)
    bounds = constraints([stated, "error of class 1 <= 0.3"])
    sweep = sweep_of(compile_plan(bounds, groups, y, ("0", "1")), groups.codes, y, weight)
    assert len(spans_of(sweep.program.contrasts, sweep.bounds)[0]) == STATED[stated]
    selected = np.stack([np.bincount(sweep.atom, weight * (rng.random(400) < p), 20) for p in (0, 0.2, 0.9, 1)])
    worst = (sweep.program.fixed[:, None] + sweep.program.matrix @ selected.T).max(0)
    np.testing.assert_allclose(np.maximum(sweep.largest(selected), 0), np.maximum(worst, 0), atol=1e-12)


def test_one_pair_that_is_missing_makes_no_span():
    """Nor do cells compared at another bound, or with a first part that counts more than the second."""
    pairs = [(i, j) for i in range(4) for j in range(4) if i != j]
    rows = np.array([np.eye(4)[i] - np.eye(4)[j] for i, j in pairs])
    for contrasts, bounds, found in ((rows, [0.1] * 12, 1), (rows[1:], [0.1] * 11, 0), (rows, [0.2] + [0.1] * 11, 0),
                                     (np.maximum(rows, 0.5 * rows), [0.1] * 12, 0)):  # fmt: skip
        spans, other = spans_of(sparse.csr_array(contrasts), np.array(bounds))
        assert len(spans) == found and len(other) == (0 if found else len(bounds))
    span = spans_of(sparse.csr_array(rows), np.full(12, 0.1))[0][0]
    np.testing.assert_allclose(span.largest(np.array([[0.5], [0.2], [0.9], [0.4]])), [0.6])
