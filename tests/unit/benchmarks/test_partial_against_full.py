"""Partial against full bounds at equal accuracy."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
import partial_against_full as against

MODELS = {
    "none": (0.9, 0.8), "full-0_2": (0.88, 0.4), "full-0_1": (0.84, 0.1), "interval-0_2": (0.89, 0.3),
    "interval-0_1": (0.86, 0.3), "interval-0_05": (0.835, 0.2), "interval-0_01": (0.5, 0.0), "interval-0_3": (0.91, 0.7),
}  # fmt: skip


def test_what_full_bounds_leave_is_interpolated_and_the_lower_one_of_more_accurate_models():
    points = [(0.9, 0.8), (0.88, 0.4), (0.84, 0.1)]
    assert against.left_by_full(points, 0.86) == pytest.approx(0.25)
    assert against.left_by_full(points, 0.8) == pytest.approx(0.1)
    assert against.left_by_full(points, 0.901) is None
    assert against.left_by_full([*points, (0.85, 0.6)], 0.85) == pytest.approx(0.4)


def test_gains_are_signed_and_constants_are_left_out():
    found = {one["method"]: one for one in against.compared(MODELS)}
    assert list(found) == ["interval-0_2", "interval-0_1", "interval-0_05"]
    assert found["interval-0_2"]["gain"] == pytest.approx(0.3)
    assert found["interval-0_1"]["gain"] == pytest.approx(-0.05)
    assert found["interval-0_05"]["gain"] == pytest.approx(-0.1)


def test_a_study_s_folder_becomes_a_picture(tmp_path):
    rows = [
        {"item": "bank", "row": m, "column": c, "ours": v}
        for m, (a, d) in MODELS.items()
        for c, v in (("test accuracy", a), ("test interval pSP", d), ("test full fairness", 0.9))
    ]
    constant = (("test accuracy", 0.89), ("test interval pSP", 0.0), ("test full fairness", 1.0))
    rows += [{"item": "bank", "row": "interval-0_02", "column": c, "ours": v} for c, v in constant]
    (tmp_path / "results.json").write_text(
        json.dumps([*rows, {"item": "bank-idca", "row": "x", "column": "y", "ours": 1}])
    )
    assert against.measured(tmp_path) == {"bank": MODELS}
    drawn = against.files(against.picture({"bank": against.compared(MODELS)}))
    assert (
        drawn["partial-against-full.svg"].startswith(b"<?xml") and drawn["partial-against-full.png"][:4] == b"\x89PNG"
    )
