"""Claims about what a report says: advice, units and remarks agree with what was measured."""

from __future__ import annotations

import numpy as np
import pytest

import fairbound as fb
from fairbound import report
from fairbound.report import words

pytest.importorskip("matplotlib", reason="the page's charts need the extra 'report'")


def undecided(**facts: object) -> dict:
    """A bound of 0.1 that rows could not decide."""
    found = {"bound": 0.1, "value": 0.05, "lower": 0.0, "upper": 0.2, "confidence": 0.95, "why": None}
    return found | {"verdict": "insufficient", "rows_needed": 3000, "groups": {"a": 400, "b": 90}} | facts


def test_no_bound_is_moved_once_the_data_are_seen():
    said = words.explain(undecided(rows_needed=10**7), 500)
    assert "Train under a tighter bound, or gather more rows." in said and "looser" not in said


def test_a_label_that_is_a_number_has_no_classes():
    rng = np.random.default_rng(0)
    y, sex = rng.normal(size=500), np.repeat(["f", "m"], 250)
    page = report.audit_page(fb.audit(y + 0.1, y, sex, "residual_gap[largest=8] <= 1"))
    assert "classes" not in page
