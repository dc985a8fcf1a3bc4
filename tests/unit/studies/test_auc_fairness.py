"""The study `auc-fairness` and its measures."""

import json
from dataclasses import replace
from functools import partial

import pytest
import torch

import fairbound as fb
from fairbound.base.errors import OptionError
from fairbound.fairness.area_problems.linear_auc import LinearAUC
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import MLP
from fairbound.solver.solve import solve
from fairbound.studies import auc_fairness
from fairbound.studies.auc_fairness import Options, task
from fairbound.studies.library import load_spec
from fairbound.studies.runner import run_study
from fairbound.studies.spec import DataSpec
from fairbound.studies.table import Block
from fairbound.studies.tried import Tried

ASKED = {"dataset": "loanapp", "group": "sex", "kind": "inter", "rows": 600}
METHODS = ("none", "ours-0_05", "known-0_05", "exact-0_05", "levels-0_2", "proxy-0_05", "moved-0_05")
NET = ("none-net", "ours-net-0_05", "known-net-0_05", "levels-net-0_2", "proxy-0_05", "moved-0_05")


def shortened(study):
    """The study with one data pass a setting, and of each method the last setting alone."""
    methods = {
        key: replace(m, options={**m.options, "candidates": m.options["candidates"][-1:], "passes": 1})
        if "candidates" in m.options else m
        for key, m in study.methods.items()
    }  # fmt: skip
    return replace(study, methods=methods)


@pytest.fixture
def tiny():
    """The study on a part of a small data set, a method of each kind."""
    study = shortened(load_spec("auc-fairness"))
    item = replace(study.items[0], key="tiny", data=("loans",), methods=METHODS)
    net = replace(item, key="tiny-net", data=("loans-net",), methods=NET)
    data = {
        "loans": DataSpec(key="loans", title="loans", task=ASKED),
        "loans-net": DataSpec(key="loans-net", title="loans", task=ASKED | {"model": "network"}),
    }
    return replace(study, items=(item, net), data=data, seeds=1, budget="3 epochs")


def test_the_study_has_every_pair_of_data_and_kind():
    study = load_spec("auc-fairness")
    tasks = [study.data[i.data[0]].task for i in study.items if "convergence" not in i.key]
    assert len({(t["dataset"], t["kind"], t.get("model")) for t in tasks}) == len(tasks) == 18
    for item in study.items:
        its = {m.partition("-")[0] for m in item.methods}
        if "convergence" in item.key:
            assert its == ({"iqrc"} if "net" in item.key else {"sfls"})
            continue
        expected = {"none", "ours", "levels", "proxy"} | (set() if item.key.endswith("net") else {"exact"})
        if "intra" not in item.key:
            expected |= {"moved", "known"}
        expected |= {"correlation"} if "group" in item.key else set()
        assert its == expected


def test_a_tiny_form_runs(tiny, tmp_path, monkeypatch):
    few = partial(fb.ScaleAndShift, scales=(0.8, 1.0, 1.2), shifts=tuple(i / 10 for i in range(-10, 11)))
    monkeypatch.setattr(auc_fairness, "ScaleAndShift", few)
    done = run_study(tiny, tmp_path)
    assert not done.failed and done.done == len(METHODS) + len(NET)
    known_by = {json.loads(line)["checksum"] for line in (tmp_path / "records.jsonl").read_text().splitlines()}
    assert [len(c) for c in known_by] == [64]
    results = json.loads((tmp_path / "results.json").read_text())
    areas = {r["row"]: r["ours"] for r in results if r["column"] == "test AUC"}
    assert set(areas) == {*METHODS, *NET} and all(0 < area < 1 for area in areas.values())
    linear = [m for m in METHODS if m.partition("-")[0] in ("none", "ours", "known", "exact", "moved")]
    assert all(areas[m] > 0.5 for m in linear)
    met = {r["row"]: r["ours"] for r in results if r["column"] == "train met"}
    assert met["ours-0_05"] == met["known-0_05"] == met["moved-0_05"] == 1
    families = [f["family"] for f in json.loads((tmp_path / "summary.json").read_text())["blocks"][0]["findings"]]
    assert families == ["exact", "levels", "proxy", "moved"]
    assert not any(r["only_start"] for r in results if r["row"].split("-")[0] in ("ours", "known", "exact", "moved"))
    cost = {
        (r["item"], r["row"], r["column"]): r["ours"] for r in results if r["column"] in ("seconds", "steps", "passes")
    }
    for item, method in [("tiny", m) for m in METHODS[1:3] + METHODS[6:]] + [("tiny-net", m) for m in NET[:3]]:
        assert cost[item, method, "steps"] > 0 and cost[item, method, "passes"] > 1, method
    assert cost["tiny", "exact-0_05", "steps"] == 0 < cost["tiny", "exact-0_05", "seconds"]
    read = {m: json.loads((tmp_path / "cells" / f"loans.{m}.s0.json").read_text()) for m in METHODS}
    for method, words in (("ours-0_05", "the trained model"), ("exact-0_05", "the exact solution")):
        made = read[method]
        assert made["message"].startswith(
            f"every bound is met by {words}" if made["feasible"] else f"{words} misses a bound by"
        )
    assert read["proxy-0_05"]["before"] is None and read["ours-0_05"]["before"]["seconds"] > 0


def test_a_block_of_level_sets_alone_says_where_they_ended(tiny):
    numbers = {
        "levels-0_5": {"last gap": {0: 0.02}, "last excess": {0: -0.01}, "passes": {0: 100.0}},
        "levels-0_2": {"last gap": {0: None}, "last excess": {0: 0.03}, "passes": {0: 50.0}},
    }
    item = replace(tiny.items[0], methods=tuple(numbers))
    (found,) = auc_fairness.findings(Block(tiny, item, "loans", None, {}, numbers, []))
    assert found["text"] == (
        "loans, last outer iterate on the training rows (means; below 0 the bound is met): level sets, kappa 0.5: excess over "
        "kappa -0.0100 after 100 data passes, relative gap to the exact optimum 0.0200; level sets, kappa 0.2: excess over "
        "kappa 0.0300 after 50 data passes."
    )


def test_what_is_measured_is_the_metric(tiny):
    cell = next(c for c in tiny.cells() if c.method.key == "none")
    made = task(cell, None)
    x = torch.randn(made.problem.n, generator=torch.Generator().manual_seed(0))
    held = made.options["validation"]
    assert made.measure(x)["validation AUC"] == pytest.approx(1 - float(held.evaluate(x).f), abs=1e-6)
    assert held.rows + made.problem.rows < 600
    found, problem = made.measure(x), made.problem
    scores, y = problem.all_scores(x).numpy(), problem.targets.numpy().astype(int)
    groups = problem.groups.take(problem.strata.order)
    text = "auc_parity[inter]"
    assert found["train difference"] == pytest.approx(fb.measure(text, scores, y, groups, threshold=0), abs=1e-6)
    assert found["train AUC"] == pytest.approx(1 - float(problem.evaluate(x).f), abs=1e-6)
    assert found["test AUC"] != found["train AUC"]


def point(difference, area, seed=0):
    """The numbers of a method whose test rows give these."""
    return {"test difference": {seed: difference}, "test AUC": {seed: area}}


def test_findings_count_points_below_our_frontier(tiny):
    numbers = {
        "none": point(0.25, 0.90), "ours-1": point(0.02, 0.80), "ours-2": point(0.05, 0.85),
        "proxy-1": point(0.02, 0.80), "proxy-2": point(0.03, 0.82), "proxy-3": point(0.01, 0.7), "proxy-4": point(0.15, 0.87),
        "proxy-5": point(0.3, 0.9), "levels-1": point(0.0, 0.5),
    }  # fmt: skip
    found, constant = auc_fairness.findings(Block(tiny, tiny.items[0], "loans", None, {}, numbers, []))
    assert (found["held"], found["points"], constant["held"]) == (3, 5, 1)  # a constant score is everybody's
    assert "smaller: 1, by at most 0.0033;" in found["text"]  # at 0.03 the line from 0.80 to 0.85 has 0.8167
    assert "all of ours: 1" in found["text"]
    numbers |= {
        "moved-1": point(0.02, 0.82),
        "known-1": point(0.02, 0.83),
    }  # groups known help beside those that know them
    both = auc_fairness.findings(Block(tiny, tiny.items[0], "loans", None, {}, numbers, []))
    assert [(f["family"], f["held"]) for f in both] == [("proxy", 3), ("levels", 1), ("moved", 1)]


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "all"},
        {"bound": 1.5},
        {"start": "exact"},
        {"start": "trained"},
        {"moved": True},
        {"moved": True, "bound": 0.1, "start": "exact"},
        {"start": "zero"},
        {"model": "tree"},
        {"model": "network", "bound": 0.1, "start": "exact"},
        {"kappa": 0.1, "bound": 0.1},
        {"kappa": -0.1},
    ],
)
def test_wrong_options_are_refused(change):
    with pytest.raises(OptionError):
        Options(**{**ASKED, **change})


def test_findings_compare_splits_that_all_methods_have(tiny):
    """A point that is ahead by 0.01 on both splits is so beyond chance, one that is ahead by 0.03 and behind by 0.01 is not."""
    both = {"test difference": {0: 0.02, 1: 0.04}, "test AUC": {0: 0.8, 1: 0.8, 2: 0.1}}
    numbers = {
        "ours-1": {name: {**its, 2: 0.5} for name, its in both.items()},
        "proxy-1": {"test difference": both["test difference"], "test AUC": {0: 0.81, 1: 0.81 + 1e-6}},
        "proxy-2": {"test difference": both["test difference"], "test AUC": {0: 0.83, 1: 0.79}},
    }  # fmt: skip
    (found,) = auc_fairness.findings(Block(tiny, tiny.items[0], "loans", None, {}, numbers, []))
    assert found["held"] == 0
    assert "smaller: 2, by at most 0.0100, by more than two standard errors over 2 splits: 1." in found["text"]


def exact_problem(objective="loss"):
    data = fb.data.load("loanapp")
    X = torch.as_tensor(data.X[:200, :3]).double().nan_to_num()
    X = (X - X.mean(0)) / X.std(0)
    return FairProblem(MLP(3, bias=False), X, data.y[:200], objective=objective, dtype=torch.float64)


def test_settings_are_tried_in_turn_from_one_start():
    """Each candidate goes its own way from the start: the run's x is that of the candidate alone on the same batches."""
    problem, start = exact_problem(), torch.tensor([0.5, 0.5, 0.5], dtype=torch.float64)
    tables = [{"name": "sgd", "step_size": 0.1}, {"name": "sgd", "step_size": 0.4}]
    method = Tried(candidates=tables, passes=2, steps_per_epoch=3)
    found = solve(problem, method, budget="100 steps", x0=start, sampling="full")
    assert found.steps == 12 and found.stopped == "halted"
    alone = [solve(problem, fb.SGD(step_size=c), budget="6 steps", x0=start, sampling="full") for c in (0.1, 0.4)]
    assert torch.equal(found.last, alone[1].last) and not torch.equal(alone[0].last, alone[1].last)
    assert torch.equal(found.x, min((a.x for a in alone), key=lambda x: float(problem.evaluate(x).f)))
    with pytest.raises(OptionError):
        Tried(candidates=[])
    with pytest.raises(OptionError):
        Tried(candidates=tables, passes=0)


@pytest.mark.parametrize("place", [0, 1])
def test_a_setting_that_diverges_costs_only_its_own_turn(place):
    """Its quadratic loss overflows; the other setting's iterates are those it has alone, and the run ends after both."""
    problem, start = exact_problem("auc[surrogate=quadratic]"), torch.zeros(3)
    tables = [{"name": "sgd", "step_size": 0.1}]
    tables.insert(place, {"name": "sgd", "step_size": 1e60})
    method = Tried(candidates=tables, passes=2, steps_per_epoch=3)
    run = partial(solve, problem, x0=start.double(), sampling="full", record_every="1 epochs")
    found = run(method, budget="100 steps", nonfinite="skip")
    alone = run(fb.SGD(step_size=0.1), budget="6 steps")
    assert found.steps == 12 and found.stopped == "halted"
    assert float(problem.evaluate(found.x).f) == float(problem.evaluate(alone.x).f) < 0.5


def test_the_gap_of_a_level_set_is_to_the_exact_optimum(tiny):
    cell = next(c for c in tiny.cells() if c.method.key == "levels-0_2")
    made = task(cell, None)
    train = made.problem
    rows = train.problem.features.double().numpy()
    y = train.problem.targets.numpy().astype(int)
    groups = train.problem.groups.take(train.problem.strata.order)
    best = LinearAUC.of("auc_parity[inter,surrogate=quadratic]", rows, y, groups).solve(0.2)
    x = torch.cat([torch.as_tensor(best.weights), torch.zeros(train.n - rows.shape[1])]).float()
    seen = made.watch(x, train.evaluate(x))
    assert seen["gap"] == pytest.approx(0.0, abs=1e-4) and seen["excess"] < 1e-4
    zero = torch.zeros(train.n)
    assert made.watch(zero, train.evaluate(zero))["gap"] == pytest.approx(1.0, abs=1e-6)
