"""The study of chance: distributions that are apart by a stated distance, and what small samples of one distribution measure."""

import sys
from pathlib import Path

import numpy as np
import pytest

from fairbound.fairness.measuring import measure

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
import partial_floor


@pytest.mark.parametrize(("distance", "ends"), [(0.1, 1.0), (0.3, 1.0), (0.1, 0.15), (0.3, 0.35), (0.005, 1.0)])
def test_distributions_are_as_far_apart_as_stated(distance, ends):
    ranks = (np.arange(20_000) + 0.5) / 20_000
    scores = -np.append(partial_floor.shifted(ranks, "0.05:0.3", distance, ends), ranks)
    group, y = np.repeat(["a", "b"], 20_000), np.zeros(40_000)
    there = measure("partial_statistical_parity[0.05:0.3]", scores, y, group, threshold=0)
    assert there == pytest.approx(distance, abs=2e-3)
    outside = [measure(f"partial_statistical_parity[{i}]", scores, y, group, threshold=0) for i in ("0:0.05", "0.3:1")]
    assert max(outside) < 2e-3


def test_what_chance_measures_grows_with_the_distance_and_falls_with_the_rows():
    of = lambda rows, *apart: partial_floor.by_chance("0:0.25", rows, 60, 0, *apart)["mean"]  # noqa: E731
    few, many = of((100, 400)), of((1000, 4000))
    assert few == pytest.approx(10**0.5 * many, rel=0.2)
    twice = of((100, 400), 0.0, 1.0, (100, 400))
    assert twice == pytest.approx(2**0.5 * few, rel=0.15)  # two samples, each with its chance
    assert of((100, 400), 0.2) > max(few, 0.2) and of((100, 400), 0.2, 0.25) > of((100, 400), 0.2)


def test_no_two_distributions_measure_less_than_the_least():
    """One row and very many: a share of one half at every threshold is right to 1/2 always, equal shares to 3/4 in the mean."""
    assert partial_floor.least("0:1", (1, 10**6), 300, 0)["at least"] == pytest.approx(0.5, abs=0.01)
    assert partial_floor.by_chance("0:1", (1, 20_000), 200, 0)["mean"] == pytest.approx(0.75, abs=0.05)


def test_the_least_is_hardly_below_what_one_distribution_measures():
    found = partial_floor.least("0:0.25", (100, 400), 400, 0)
    alike = partial_floor.by_chance("0:0.25", (100, 400), 200, 0)["mean"]
    assert 0.85 * alike < found["at least"] <= found["new samples"] + 3 * found["error"] < 1.05 * alike
