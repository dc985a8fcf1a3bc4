"""Costs of wrong decisions."""

from __future__ import annotations

from fairbound.postprocessing.costs import cost_of_constants, saves_nothing


def test_one_wrong_decision_of_the_dearer_kind_counts_and_half_of_it_does_not():
    """By costs (1, 2) a false positive is half a wrong decision of the dearer kind, however the numbers of rows round."""
    for rows in range(30, 300):
        positive = rows // 3
        constant = cost_of_constants((1.0, 2.0), positive / rows)
        assert constant == min(2 * positive / rows, 1 - positive / rows)
        errors = constant * rows
        assert saves_nothing((errors - 1) / rows, constant, rows, dearest=2.0)
        assert not saves_nothing((errors - 2) / rows, constant, rows, dearest=2.0)
