"""The study of which method when: what a cell measures, what `auto` does in it, and how methods are ranked."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.base.errors import OptionError
from fairbound.estimators.choosing import chosen
from fairbound.models.model import ModuleModel
from fairbound.solver.budget import Budget
from fairbound.studies import load_spec, which_method
from fairbound.studies.runner import run_study
from fairbound.studies.spec import Cell, MethodSpec
from fairbound.studies.task import Run, run_cell

GENERATED = {
    "dataset": "gaussian-parity", "group": "group", "groups": ["0", "1"], "options": {"n": 400, "seed": 3},
    "constraint": "demographic_parity <= 0.05",
}  # fmt: skip


def cell(task, budget="0.05 cpu s"):
    method = MethodSpec(key="alm", title="alm", algorithm="alm", output="best")
    return Cell(
        key="k", measures="fairbound.studies.which_method", data="d", method=method, task=task, options={}, seed=0,
        budget=budget, batch_size=8, record_every=0,
    )  # fmt: skip


def test_a_cell_measures_the_stated_metric_on_both_parts():
    made = which_method.task(cell(GENERATED), None)
    x = torch.randn(made.problem.n, generator=torch.Generator().manual_seed(0))
    found, scores = made.measure(x), made.problem.all_scores(x).numpy()
    group = made.problem.groups.codes[made.problem.strata.order, 0]
    gap = abs((scores[group == 0] > 0).mean() - (scores[group == 1] > 0).mean())
    assert found["train excess"] == pytest.approx(max(0.0, gap - 0.05), abs=1e-6) and found["moved"] == 1
    assert made.measure(made.problem.start((0,)))["moved"] == 0


def test_auto_is_run_as_the_classifier_runs_it(tmp_path):
    """One run of all rows at once on a linear model, whose records are kept; random batches first on a network."""
    done = run_cell(cell({**GENERATED, "door": "auto"}, "5 cpu s"), tmp_path, None, {})
    assert done["status"] == "done" and "every bound is met" in done["message"]
    made = which_method.task(cell({**GENERATED, "door": "auto", "model": "mlp:4"}), None)
    solution = made.trained(budget="0.2 cpu s", batch_size=8, sampling="balanced", seed=0)
    assert {"step", "cpu", "loss", "excess"} <= set(solution.records[0]) and solution.records[-1]["cpu"] > 0
    assert (
        solution.seconds >= 0.075 + 0.075
    )  # batches under bounds and without take three quarters of their halves, or more
    asked = which_method.Options(**GENERATED)
    images = which_method._model("conv", np.zeros((2, 1, 28, 28), dtype=np.float32), 0)
    assert isinstance(images, ModuleModel) and images.scores(images._start, torch.zeros(3, 1, 28, 28)).shape == (3,)
    stated = [fb.constraint(asked.constraint)]
    choice = chosen("auto", images, np.zeros((2, 1, 28, 28)), loss="logistic", objective="loss", stated=stated)
    assert choice.method.name == "alm" and choice.last_layer


def test_images_have_groups_of_equal_size_and_their_own_split():
    try:
        rows = which_method._images(0, None, 0.0)
    except Exception as error:
        pytest.skip(str(error))
    assert len(rows.train) == 8000 and rows.train.x.shape[1:] == (1, 28, 28)
    assert abs(rows.train.group.mean() - 0.5) < 0.01 and 0.4 < rows.train.y.mean() < 0.6
    again = which_method._images(1, None, 0.0)
    assert (again.train.x != rows.train.x).any()


def test_a_model_at_the_start_meets_no_bound():
    records = [{"step": 0, "cpu": 0.0}, {"step": 5, "cpu": 0.1}, {"step": 9, "cpu": 0.2}]
    model = {"step": 5, "train excess": 0.0, "train loss": 0.6, "test loss": 0.61, "test excess": 0.01, "moved": 1.0}
    out = which_method.numbers(Run({"steps": 9, "seconds": 0.3}, records, {"best": model}, "best"), None)
    assert (
        out["meets the bound"] == 1
        and out["found at"] == 0.1
        and out["train loss where met"] == 0.6
        and out["cpu"] == 0.3
    )
    for change in ({"moved": 0.0}, {"train excess": 1e-6}):
        out = which_method.numbers(Run({"steps": 9, "seconds": 0.3}, records, {"best": model | change}, "best"), None)
        assert out["meets the bound"] == 0 and out["train loss where met"] is None and out["found at"] is None


def test_feasible_runs_come_first_and_the_profile_counts_cells():
    study = load_spec("which-method")

    def rows(data, method, met, loss, at):
        values = {"meets the bound": met, "train loss where met": loss, "found at": at}
        return [{"item": "linear", "data": data, "row": method, "column": c, "ours": v} for c, v in values.items()]

    found = [
        *rows("compas-dp", "auto", 1.0, 0.6, 0.1), *rows("compas-dp", "alm", 1.0, 0.605, 0.1),
        *rows("compas-dp", "plada", 0.5, 0.5, 0.1), *rows("law-dp", "auto", 1.0, 0.33, 0.1),
        *rows("law-dp", "alm", 1.0, 0.3, 0.1), *rows("law-dp", "plada", 1.0, 0.31, 0.1),
    ]  # fmt: skip
    said = {f["method"]: f for f in which_method.overall(study, [], found)}
    assert said["auto"]["met"] == 2 and said["auto"]["near"] == [1, 1, 1] and said["auto"]["far"] == ["law-dp"]
    assert said["alm"]["near"] == [2, 2, 2] and said["plada"]["met"] == 1 and said["plada"]["missed"] == ["compas-dp"]
    assert [f["method"] for f in which_method.overall(study, [], found)] == ["alm", "auto", "plada"]


def test_tuning_covers_every_kind_of_model_with_equal_budgets():
    """Three settings a method, its own among them, each for half the time of a run; `auto` has no settings to tune."""
    study = load_spec("which-method").with_tuned()
    tuned = {i.key: i for i in study.items if i.tuned}
    assert set(tuned) == {"linear-tuned", "network-tuned", "convolutions-tuned"}
    trials = Counter((c.data, c.method.key) for c in study.trials())
    assert set(trials.values()) == {3} and {d for d, _ in trials} == set(study.data)
    budgets = {c.data: c.budget for c in study.trials()}
    for key, item in ((key, i) for i in study.items for key in i.data):
        assert (
            Budget.of(budgets[key]).seconds == Budget.of(item.budget).seconds / 2 and Budget.of(budgets[key]).processor
        )
    for item in (i for i in study.items if not i.tuned):
        assert tuned[item.key + "-tuned"].methods == tuple(f"{m}-tuned" for m in item.methods if m != "auto")
        for method in (study.methods[m] for m in item.methods if m != "auto"):
            own = method.config(method.options)
            assert [method.config(options) for options in method.trials()].count(own) == 1
    assert {i.key for i in load_spec("which-method").only(["network"]).with_tuned().items} == {
        "network",
        "network-tuned",
    }


def test_the_tuned_profile_is_beside_all_runs():
    """`auto` once more among the tuned, and a tuned run above the same method's own settings counts as such."""
    study = load_spec("which-method").with_tuned()

    def rows(item, method, loss):
        values = {"meets the bound": 1.0, "train loss where met": loss, "found at": 0.1}
        return [{"item": item, "data": "compas-dp", "row": method, "column": c, "ours": v} for c, v in values.items()]

    found = rows("linear", "auto", 0.605) + rows("linear", "alm", 0.6) + rows("linear-tuned", "alm-tuned", 0.63)
    said = which_method.overall(study, [], found)
    assert [(f["question"], f["method"], f["near"]) for f in said] == [
        ("profile", "auto", [1, 1, 1]), ("profile", "alm", [1, 1, 1]),
        ("profile, tuned", "auto", [1, 1, 1]), ("profile, tuned", "alm-tuned", [0, 0, 1]),
    ]  # fmt: skip
    assert said[3]["text"].startswith(
        "alm, tuned: bound met in every run of 1 of 1 cells; of the lowest loss of any method"
    )


def test_wrong_tasks():
    with pytest.raises(OptionError, match="state the group"):
        which_method.Options(dataset="adult", constraint="demographic_parity <= 0.1")
    with pytest.raises(OptionError, match="door"):
        which_method.Options(**GENERATED, door="other")


def test_data_that_are_not_there_are_said_once_before_the_first_cell(tmp_path, monkeypatch):
    monkeypatch.setenv("FAIRBOUND_DATA", str(tmp_path / "none"))
    images = [
        key for key, data in load_spec("which-method").data.items() if data.task["dataset"] == which_method.IMAGES
    ]
    study = load_spec("which-method")
    items = tuple(replace(item, data=tuple(d for d in item.data if d in images)) for item in study.items)
    study = replace(study, items=tuple(item for item in items if item.data))
    said = []
    with pytest.raises(OptionError, match=r"is left out: the data folder .* does not exist"):
        run_study(study, tmp_path / "out", say=said.append)
    assert said == [] and not list((tmp_path / "out" / "cells").iterdir())
