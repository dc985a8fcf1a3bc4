"""The training doctor on records made to show each fault, on gradients that vanish and surrogates that lie, and (long) on runs."""

from __future__ import annotations

import importlib.util
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.base.errors import OptionError
from fairbound.methods import algorithm
from twelve_rows import tiny

ROOT = Path(__file__).resolve().parents[3]
T = np.arange(40)
CALM = {"loss": 0.7 - 0.3 * (1 - np.exp(-T / 3)), "g": 0.2 * np.exp(-T / 3) - 0.01, "y": 1 - np.exp(-T / 4)}


@pytest.fixture(scope="module")
def solved():
    problem = tiny()
    return fb.solve(problem, fb.ALM(), budget="5 steps"), problem


def run_of(solution, *, loss, g, y, met=True, samples=100):
    """A solution with these numbers (T,) in its records, of one constraint."""
    rows = [
        {
            "step": 50 * t,
            "samples": samples * 50 * t,
            "train": {"f": float(f), "g": [float(c)]},
            "multipliers": [float(w)],
        }
        for t, (f, c, w) in enumerate(zip(loss, g, y, strict=True))
    ]
    return replace(solution, records=rows, feasible=torch.tensor(met), best_step=torch.tensor(1000 if met else 0))


RNG = np.random.default_rng(0)
BUILT = {
    "diverging": CALM | {"loss": 0.7 * 1.05**T},
    "oscillating": CALM | {"y": 1 + 0.8 * np.sin(1.7 * T), "g": 0.05 * np.cos(1.7 * T)},
    "undertrained": CALM | {"loss": 0.7 - 0.005 * T},
    "infeasible": CALM | {"g": 0.1 + 0.001 * RNG.normal(size=40), "y": 0.2 * T, "met": False},
    "inactive": CALM | {"g": -0.5 + 0 * T, "y": 0.0 * T},
}


@pytest.mark.parametrize("fault", BUILT)
def test_records_made_to_show_a_fault_are_told(solved, fault):
    assert next(a.fault for a in fb.diagnose(run_of(solved[0], **BUILT[fault]))) == fault


def _of_two(solution, first, second, multipliers):
    """A run of two constraints (T,), (T,) of which the first has the multipliers (T,)."""
    run = run_of(solution, **CALM)
    rows = [
        row | {"train": row["train"] | {"g": [float(a), float(b)]}, "multipliers": [float(w), 0.0]}
        for row, a, b, w in zip(run.records, first, second, multipliers, strict=True)
    ]
    return replace(run, records=rows)


def test_the_other_side_of_a_bound_that_binds_is_not_called_inactive(solved):
    gap = CALM["g"] + 0.05
    assert fb.diagnose(_of_two(solved[0], gap - 0.05, -gap - 0.05, CALM["y"])) == []
    (idle,) = fb.diagnose(_of_two(solved[0], gap - 0.9, -gap - 0.9, 0 * T))
    assert idle.said.startswith("constraint 0 with its other side, constraint 1 never binds")
    (apart,) = fb.diagnose(_of_two(solved[0], gap - 0.05, gap**2 - 0.9, CALM["y"]))
    assert apart.said.startswith("constraint 1 never binds")


def test_calm_records_are_left_alone_and_few_say_nothing(solved):
    assert fb.diagnose(run_of(solved[0], **CALM)) == []
    few = {name: values[:3] for name, values in BUILT["diverging"].items()}
    assert fb.diagnose(run_of(solved[0], **few)) == []
    nan = CALM | {"loss": np.where(T > 30, np.nan, CALM["loss"])}
    assert [a.fault for a in fb.diagnose(run_of(solved[0], **nan))] == ["diverging"]
    free = run_of(solved[0], **CALM)
    for row in free.records:
        row["train"]["g"], row["multipliers"] = [], []
    assert fb.diagnose(free) == []


def test_a_violation_that_still_falls_is_undertrained_and_not_infeasible(solved):
    falling = CALM | {"g": 0.5 - 0.01 * T, "y": 0.1 * T, "met": False}
    assert [a.fault for a in fb.diagnose(run_of(solved[0], **falling))] == ["undertrained"]


def test_small_batches_are_blamed_for_a_multiplier_that_swings(solved):
    solution, problem = solved
    swings = BUILT["oscillating"]
    # twelve rows: a batch of two measures the gap with a deviation of about a half, one of all rows without error
    names = [
        [a.fault for a in fb.diagnose(_wide(run_of(solution, **swings, met=False, samples=n), problem), problem)]
        for n in (2, 5000)
    ]
    assert names[0][0] == "noise" and names[1][0] == "oscillating"
    moves = [fb.diagnose(run_of(solution, **swings, samples=n))[0].next for n in (2, 5000)]
    unmet, met = (_wide(run_of(solution, **swings, met=met, samples=5000), problem) for met in (False, True))
    moves.append(fb.diagnose(unmet, problem)[0].next)
    assert ["dual_step_size" in move for move in moves] == [True, True, False], "steps of all rows have none"
    assert fb.diagnose(met, problem) == [], "of steps of all rows the best is taken, wherever the last one jumped"


def _wide(solution, problem):
    """The same records with the problem's number of constraints, all alike."""
    rows = [
        r | {"train": r["train"] | {"g": r["train"]["g"] * problem.m}, "multipliers": r["multipliers"] * problem.m}
        for r in solution.records
    ]
    return replace(solution, records=rows, last=torch.tensor([1.0, 0.5, 0.0], dtype=torch.float64))


def test_a_clipped_surrogate_far_out_has_lost_its_gradient(solved):
    solution, _ = solved
    problem = tiny("demographic_parity[surrogate=clipped,sharpness=0.5] <= 0.05")
    stuck = _wide(run_of(solution, **CALM | {"g": 0.3 + 0 * T, "met": False}), problem)
    assert fb.diagnose(stuck, problem) == [] or fb.diagnose(stuck, problem)[0].fault != "vanished_gradient"
    far = replace(stuck, last=torch.tensor([400.0, -300.0, 90.0], dtype=torch.float64))
    assert [a.fault for a in fb.diagnose(far, problem)] == ["vanished_gradient"]


def test_a_flat_surrogate_that_is_met_where_the_metric_is_not_is_told(solved):
    solution, _ = solved
    problem = tiny("demographic_parity[sharpness=0.2] <= 0.05")
    run = _wide(run_of(solution, **CALM | {"g": 0.3 + 0 * T, "met": False}), problem)
    run = replace(run, last=torch.tensor([0.3, 0.1, 0.0], dtype=torch.float64))
    assert [a.fault for a in fb.diagnose(run, problem)] == ["surrogate_far"]


@pytest.mark.parametrize("fault", ["diverging", "undertrained"])
def test_a_method_without_a_step_size_is_not_told_to_change_it(solved, fault):
    run = run_of(solved[0], **BUILT[fault])
    words = {
        type(method).__name__: fb.diagnose(replace(run, method=method))[0].next
        for method in (fb.ALM(), fb.FullBatchALM(), algorithm("projected_gradient"))
    }
    assert ["step_size" in said for said in words.values()] == [True, False, True]
    if fault == "diverging":
        assert "penalty" in words["FullBatchALM"] and "penalty" not in words["ALM"]


def test_a_stack_of_runs_is_refused():
    stack = fb.solve(tiny(), fb.ALM(), budget="5 steps", seed=(0, 1))
    with pytest.raises(OptionError, match="one run"):
        fb.diagnose(stack)


@pytest.mark.filterwarnings("ignore:.*by itself tells the labels")  # its labels are made from one column
def test_a_fit_keeps_its_advice():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = (X[:, 0] > 0).astype(int)
    model = fb.FairClassifier("demographic_parity <= 0.9").fit(X, y, sensitive_features=rng.integers(0, 2, 400))
    assert [a["fault"] for a in model.fit_report_["advice"]] == ["inactive"]
    assert all(set(a) == {"fault", "said", "next"} for a in model.fit_report_["advice"])


def test_the_example_of_the_page_is_infeasible(capsys):
    text = (ROOT / "docs" / "training.md").read_text(encoding="utf-8").split("## When training goes wrong")[1]
    exec(re.search(r"^```python\n(.*?)^```$", text, flags=re.M | re.S)[1], {})
    assert capsys.readouterr().out.startswith("infeasible - ")


@pytest.mark.long
def test_faults_built_into_runs_are_named_first():
    """9 of 10 runs of each fault, 19 of 20 healthy ones; benchmarks/doctor.py. About 5 minutes."""
    spec = importlib.util.spec_from_file_location("doctor", ROOT / "benchmarks" / "doctor.py")
    sys.path.insert(0, str(ROOT / "benchmarks"))
    doctor = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(doctor)
    hits, silent, total = doctor.measure(range(10))
    assert min(hits.values()) >= 9 and silent >= 0.95 * total, hits
