"""Partial against full bounds at equal accuracy."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from fairbound.fairness.measuring import measure

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


def folder_of(folder, item, models, *more):
    """Of results.json with a method's accuracy, distance and full fairness."""
    columns = ("test accuracy", "test interval pSP", "test full fairness")
    rows = [
        {"item": item, "row": m, "column": c, "ours": v}
        for m, values in models.items()
        for c, v in zip(columns, values, strict=True)
    ]
    (folder / "results.json").write_text(json.dumps([*rows, *more]))
    return against.measured(folder)


def test_a_printed_point_is_met_by_any_model_as_fair_after_what_is_allowed(tmp_path):
    models = {
        "none": (0.90, 0.8, 0.4), "full-0_2": (0.88, 0.4, 0.8), "interval-0_2": (0.87, 0.2, 0.806),
        "interval-0_08": (0.86, 0.2, 0.9), "interval-0_01": (0.85, 0.0, 1.0),
    }  # fmt: skip
    found = folder_of(tmp_path, "bank", models)["bank"]
    paper = [(0.8801, 0.806), (0.872, 0.811), (0.87, 0.9), (0.85, 0.96)]
    assert [(one["method"], one["short"]) for one in against.printed(found, paper)] == [
        ("interval-0_2", 0.0081), ("interval-0_2", 0.0), ("interval-0_08", 0.008), (None, None),
    ]  # fmt: skip
    assert [one["mixed"] for one in against.printed(found, paper)] == [0.0, 0.0, 0.007, None]
    assert [(one["bound"], one["beyond"]) for one in against.distances(found)] == [(0.2, 0.0), (0.08, 0.09)]


def test_a_mixture_lies_between_its_models():
    assert against.mixed([(0.9, 0.5), (0.8, 0.9), (0.82, 0.6)], 0.8) == pytest.approx(0.825)
    assert against.mixed([(0.9, 0.5), (0.8, 0.9)], 0.91) is None and against.mixed([(0.9, 0.5)], 0.4) == 0.9


@pytest.mark.parametrize("seed", range(3))
def test_a_mixture_is_at_least_as_fair_as_its_models_in_the_mean(seed):
    """One half of each: every row twice, with either model's score."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], 200)
    one, other = rng.normal(size=200) + (group == "a"), rng.normal(size=200) - 0.5 * (group == "b")

    def distance(scores, groups):
        return measure("partial_statistical_parity", scores, np.zeros(len(scores)), groups, threshold=0)

    both = distance(np.append(one, other), np.append(group, group))
    assert both <= (distance(one, group) + distance(other, group)) / 2 + 1e-12


def test_the_points_of_both_of_the_paper_s_tables_count_once():
    assert len(against.of_paper("a9a")) == 15 and (0.8325, 0.9703) in against.of_paper("a9a")
    assert len(against.of_paper("law-school")) == 15 and (0.891, 0.9625) in against.of_paper("law-school")
    assert len(against.of_paper("bank")) == 12 and (0.9015, 0.4366) not in against.of_paper("bank")


def test_a_study_s_folder_becomes_a_picture(tmp_path):
    models = {m: (a, d, 0.9) for m, (a, d) in MODELS.items()} | {"interval-0_02": (0.89, 0.0, 1.0)}
    found = folder_of(tmp_path, "bank", models, {"item": "bank-idca", "row": "x", "column": "y", "ours": 1})
    assert against.points(found["bank"]) == MODELS
    drawn = against.files(against.picture({"bank": against.compared(MODELS)}))
    assert (
        drawn["partial-against-full.svg"].startswith(b"<?xml") and drawn["partial-against-full.png"][:4] == b"\x89PNG"
    )
