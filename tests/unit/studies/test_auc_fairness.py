"""The study `auc-fairness` and its measures."""

import json
from dataclasses import replace
from functools import partial

import pytest
import torch

import fairbound as fb
from fairbound.base.errors import OptionError
from fairbound.studies import auc_fairness
from fairbound.studies.auc_fairness import Options, task
from fairbound.studies.library import load_spec
from fairbound.studies.runner import run_study
from fairbound.studies.spec import DataSpec
from fairbound.studies.table import Block

ASKED = {"dataset": "loanapp", "group": "sex", "kind": "inter", "rows": 600}
METHODS = ("none", "ours-0_05", "exact-0_05", "proxy-0_05", "correlation-0_2", "moved-0_05")


@pytest.fixture
def tiny():
    """The study on a part of a small data set, a method of each kind."""
    study = load_spec("auc-fairness")
    item = replace(study.items[0], key="tiny", data=("loans",), methods=METHODS)
    data = {"loans": DataSpec(key="loans", title="loans", task=ASKED)}
    return replace(study, items=(item,), data=data, seeds=1, budget="3 epochs")


def test_the_study_has_every_pair_of_data_and_kind():
    study = load_spec("auc-fairness")
    kinds = {(study.data[i.data[0]].task["dataset"], study.data[i.data[0]].task["kind"]) for i in study.items}
    assert len(kinds) == len(study.items) == 9
    for item in study.items:
        its = {m.partition("-")[0] for m in item.methods}
        assert its == {"none", "ours", "exact", "proxy", "correlation"} | (
            {"moved"} if "intra" not in item.key else set()
        )


def test_a_tiny_form_runs(tiny, tmp_path, monkeypatch):
    few = partial(fb.ScaleAndShift, scales=(0.8, 1.0, 1.2), shifts=tuple(i / 10 for i in range(-10, 11)))
    monkeypatch.setattr(auc_fairness, "ScaleAndShift", few)
    monkeypatch.setattr("fairbound.studies.workers.slowdown", lambda backend, jobs: {"slowdown": 1.0})
    done = run_study(tiny, tmp_path)
    assert not done.failed and done.done == len(METHODS)
    results = json.loads((tmp_path / "results.json").read_text())
    areas = {r["row"]: r["ours"] for r in results if r["column"] == "test AUC"}
    assert set(areas) == set(METHODS) and all(0.4 < area < 1 for area in areas.values())
    met = {r["row"]: r["ours"] for r in results if r["column"] == "train met"}
    assert met["ours-0_05"] == met["moved-0_05"] == 1
    families = [f["family"] for f in json.loads((tmp_path / "summary.json").read_text())["blocks"][0]["findings"]]
    assert families == ["none", "exact", "proxy", "correlation", "moved"]


def test_what_is_measured_is_the_metric(tiny):
    cell = next(c for c in tiny.cells() if c.method.key == "none")
    made = task(cell, None)
    x = torch.randn(made.problem.n, generator=torch.Generator().manual_seed(0))
    found, problem = made.measure(x), made.problem
    scores, y = problem.all_scores(x).numpy(), problem.targets.numpy().astype(int)
    groups = problem.groups.take(problem.strata.order)
    text = "auc_parity[inter]"
    assert found["train difference"] == pytest.approx(fb.measure(text, scores, y, groups, threshold=0), abs=1e-6)
    assert found["train AUC"] == pytest.approx(1 - float(problem.evaluate(x).f), abs=1e-6)
    assert found["test AUC"] != found["train AUC"]


def test_findings_count_points_that_ours_holds(tiny):
    def point(difference, area):
        return {"test difference": {0: difference}, "test AUC": {0: area}}

    numbers = {
        "ours-1": point(0.02, 0.80), "ours-2": point(0.05, 0.85),
        "proxy-1": point(0.02, 0.80), "proxy-2": point(0.04, 0.81), "proxy-3": point(0.01, 0.7),
    }  # fmt: skip
    (found,) = auc_fairness.findings(Block(tiny, tiny.items[0], "loans", None, {}, numbers, []))
    assert (found["held"], found["points"]) == (1, 3)
    assert "by at most 0.0100" in found["text"] and "all of ours: 1" in found["text"]


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "all"},
        {"bound": 1.5},
        {"start": "exact"},
        {"moved": True},
        {"moved": True, "bound": 0.1, "start": "exact"},
        {"start": "zero"},
    ],
)
def test_wrong_options_are_refused(change):
    with pytest.raises(OptionError):
        Options(**{**ASKED, **change})
