"""A bound found violated names the groups that show it, where the largest difference is of groups too small to show
anything."""

from __future__ import annotations

import numpy as np
import pytest

import fairbound as fb
from fairbound.report import schema


def decided(rates: dict[str, tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Decisions and groups: of each name, selected of how many rows."""
    hits = np.concatenate([np.arange(n) < k for k, n in rates.values()]).astype(int)
    return hits, np.repeat(list(rates), [n for _, n in rates.values()])


@pytest.mark.parametrize("bound", ["demographic_parity <= 0.1", "demographic_parity_ratio >= 0.8"])
def test_the_comparison_that_shows_a_violation_is_named_beside_that_of_the_value(bound):
    hits, group = decided({"big": (3000, 5000), "low": (2000, 5000), "two": (0, 2), "one": (1, 1)})
    found = fb.audit(hits, None, group, bound)
    schema.validate(found)
    (judged,) = found["constraints"]
    assert judged["verdict"] == "violated" and "two" in judged["worst_groups"]
    assert set(judged["shown_by"]["name"].replace("/", "-").split(" - ")) == {"big", "low"}
    assert judged["shown_by"]["value"] == pytest.approx(0.2 if "ratio" not in bound else 2 / 3)
    assert f"lies beyond the bound most surely is {judged['shown_by']['name']}" in fb.report.table(found)


@pytest.mark.parametrize(
    ("rates", "verdict"),
    [
        ({"big": (3000, 5000), "low": (2000, 5000), "mid": (2500, 5000)}, "violated"),
        ({"big": (30, 50), "low": (20, 50), "one": (0, 1)}, "insufficient"),
    ],
)
def test_nothing_is_added_where_the_value_itself_shows_it_or_nothing_is_shown(rates, verdict):
    hits, group = decided(rates)
    (judged,) = fb.audit(hits, None, group, "demographic_parity <= 0.1")["constraints"]
    assert judged["verdict"] == verdict and "shown_by" not in judged
