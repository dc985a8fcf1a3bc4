"""Numbers that leave the rest of their column nearly one value are spoken of at training, and heavy tails are not."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from fairbound.base.errors import DataWarning
from fairbound.tables import TableEncoder


def told(values):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        encoder = TableEncoder().fit(pd.DataFrame({"income": values, "x": np.arange(len(values)) % 7}))
    assert [str(w.message) for w in said if w.category is DataWarning] == list(encoder.doubts)
    return list(encoder.doubts)


@pytest.mark.parametrize(("wrong", "rows"), [(1e6, 17), (1e300, 10), (-1e6, 1), (1e7, 60)])
def test_a_few_numbers_far_from_all_others_are_told(wrong, rows):
    values = np.random.default_rng(0).gamma(2.0, 1000.0, 1200)
    values[:rows] = wrong
    (said,) = told(values)
    assert said.startswith(
        f"column 'income': {rows} of 1,200 numbers are as far off as {wrong:g}, while nine of ten lie"
    )
    assert told(np.where(np.arange(1200) % 5 == 4, np.nan, values))


@pytest.mark.parametrize("seed", range(5))
def test_heavy_tails_and_columns_of_mostly_one_value_are_not(seed):
    """A lognormal number of spread 2, a Cauchy-like one of a few rows, and amounts that most rows have not."""
    rng = np.random.default_rng(seed)
    assert told(rng.lognormal(8, 1.5, 20_000)) == []
    assert told(rng.standard_t(3, 20_000)) == []
    assert told(np.where(rng.random(5000) < 0.04, 1e5 * rng.random(5000), 0.0)) == []
    assert told(rng.integers(0, 2, 5000).astype(float)) == []


def test_few_known_values_of_many_rows_are_looked_at_too():
    values = np.full(100_000, np.nan)
    values[::11] = np.random.default_rng(0).gamma(2.0, 1000.0, len(values[::11]))
    values[11 * 700] = 1e9
    assert "1 of 9,091 numbers are as far off as 1e+09" in told(values)[0]


def test_more_rows_than_one_in_twenty_are_no_mistake():
    values = np.random.default_rng(0).gamma(2.0, 1000.0, 1000)
    values[:100] = 1e7
    assert told(values) == []
