"""The study of methods on instances with a known optimum: checked, run, killed and restarted, summed up, drawn."""

from __future__ import annotations

import json
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from fairbound.base import series
from fairbound.base.errors import DataError, OptionError
from fairbound.instances import exact, instance
from fairbound.report.study_page import _cell
from fairbound.solver.solve import solve
from fairbound.studies import level_set, load_spec, run_study
from fairbound.studies.library import parse
from fairbound.studies.runner import _placed
from fairbound.studies.table import summarise
from fairbound.studies.task import Run
from fairbound.testing import PROBLEMS
from study_examples import changed

TINY = """
name = "tiny-optima"
title = "Tiny"
source = "nobody"
measures = "fairbound.studies.level_set"
seeds = 2
compare = { subject = "dfls", against = ["ynw"] }
checkpoint_every = 0.05

[quick]
seeds = 1
items = ["steps"]

[[items]]
key = "steps"
title = "Steps"
data = ["inventory-2-10-10"]
methods = ["dfls", "ynw"]
budget = "40 steps"
quick_budget = "20 steps"
batch = 20
record_every = 4
compare = { axis = "steps", at = [10, 40], since = 10, every = 10 }
together = true

[[items]]
key = "passes"
title = "Passes"
data = ["np-connect-4-head"]
methods = ["dfls", "ynw"]
presets = { dfls = "paper-neyman-pearson" }
budget = "3 epochs"
batch = 50
record_every = "0.5 epochs"
compare = { at = [1, 2, 50], since = 1, every = 1 }
together = true

[data.inventory-2-10-10]
title = "Inventory"
task = { instance = "inventory-2-10-10" }
note = "A note"

[data.np-connect-4-head]
title = "connect-4"
task = { instance = "np-connect-4-head" }

[methods.dfls]
title = "DFLS"
algorithm = "dfls"
options = { step_size = 1.0 }
sampling = "full"
seeds = 1

[methods.ynw]
title = "YNW"
algorithm = "ynw:paper"

[[tables]]
caption = "Gaps"
columns = ["relative gap at *", "runs with *"]
percent = ["runs with *"]

[[figures]]
key = "paths"
kind = "curve"
title = "Paths"
x = ["compare.axis"]
y = ["relative gap", "worst"]
scales = ["linear", "symlog"]
lines = [[0.0], [0.0]]
ranges = [[-1.25, 1.25], []]
marks = "outer"

[[figures]]
key = "feasible"
kind = "curve"
title = "Feasible"
x = ["compare.axis"]
y = ["lowest relative gap"]
scales = ["log"]
ranges = [[0.0001, 1.25]]
missing = "infinite"
"""
TABLE = tomllib.loads(TINY)
COLUMNS = {
    "item", "row", "column", "data", "ours", "lower", "upper", "n", "runs", "std", "paper", "paper_std", "output",
    "only_start", "missed", "statistic",
}  # fmt: skip


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The item without data files, run once: the run, its results, summary and records."""
    run = run_study(parse(TABLE), tmp_path_factory.mktemp("tiny"), only=["steps"])
    read = [json.loads((run.out / f"{n}.json").read_text()) for n in ("results", "summary", "study")]
    return run, *read, lines(run.out / "records.jsonl")


# -- the TOML ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("items.0.compare.axis", "epochs", "the comparison has no axis 'epochs'; there are: passes, steps, iterations"),
        ("items.0.compare.at", [], "since, every and all of `at` must be positive"),
        ("items.0.compare.since", 0, "since, every and all of `at` must be positive"),
        ("items.0.compare.ever", 1, "the comparison of item 'steps' has no key 'ever'; did you mean 'every'"),
        ("items.0.budget", "soon", "cannot read the budget"),
        (
            "items.1.data",
            ["inventory-2-10-10"],
            "item 'passes' runs 'dfls' on 'inventory-2-10-10' in another way than an",
        ),
        ("items.1.presets", {"dfls": "papers"}, "method 'dfls': dfls has no preset 'papers'"),
        ("items.1.presets", {"dfl": "paper"}, "has no method 'dfl'"),
        (
            "data.np-connect-4-head.task.instance",
            "np-connect-4-heads",
            "no instance 'np-connect-4-heads'; did you mean",
        ),
        ("methods.ynw.task", {"batch": "in total"}, "the task's option batch has no value 'in total'"),
        ("methods.ynw.seeds", -1, "seeds must not be negative"),
        ("methods.ynw.gird", {}, "method 'ynw' has no key 'gird'; did you mean 'grid'"),
        ("seeds", 0, "seeds and batch must be at least 1"),
    ],
)
def test_a_wrong_study_says_what_is_wrong(path, value, said):
    with pytest.raises(OptionError, match=said):
        parse(changed(TABLE, path, value))


def test_cells_follow_presets_seeds_and_the_quick_form():
    study = parse(TABLE)
    keys = [c.key for c in study.cells()]
    assert keys == [
        *(f"{d}.{m}.s0" for d in ("inventory-2-10-10", "np-connect-4-head") for m in ("dfls", "ynw")),
        *(f"{d}.ynw.s1" for d in ("inventory-2-10-10", "np-connect-4-head")),
    ]  # fmt: skip
    assert {c.method.algorithm for c in study.cells() if c.method.key == "dfls"} == {
        "dfls",
        "dfls:paper-neyman-pearson",
    }
    quick = study.quickly()
    assert [(c.key, c.budget) for c in quick.cells()] == [
        ("inventory-2-10-10.dfls.s0", "20 steps"), ("inventory-2-10-10.ynw.s0", "20 steps"),
    ]  # fmt: skip
    assert {c.budget for c in study.within("7 steps").cells()} == {"7 steps"}
    assert [c.seed for c in parse(changed(TABLE, "seeds", 1)).cells()] == [0] * 4
    with pytest.raises(OptionError, match="no method of item 'steps' has a grid to tune over"):
        study.with_tuned()


def test_what_changes_a_run_changes_its_fingerprint_and_nothing_else_does():
    cell = parse(TABLE).cells()[0]
    for path, value in (
        ("items.0.batch", 21), ("items.0.record_every", 5), ("items.0.budget", "41 steps"),
        ("methods.dfls.options", {"step_size": 2.0}), ("methods.dfls.task", {"batch": "in all"}),
    ):  # fmt: skip
        assert parse(changed(TABLE, path, value)).cells()[0].fingerprint != cell.fingerprint, path
    for path, value in (
        ("title", "T"), ("items.0.compare.at", [7]), ("items.0.compare.since", 3), ("methods.dfls.title", "T"), ("seeds", 1),
        ("data.inventory-2-10-10.note", "N"), ("methods.ynw.options", {"horizon": 7}),
    ):  # fmt: skip
        assert parse(changed(TABLE, path, value)).cells()[0].fingerprint == cell.fingerprint, path


# -- records -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, [0, 1]])
def test_every_outer_iterate_is_a_record(seed):
    problem = PROBLEMS["active"]()
    found = solve(problem, "dfls", budget="200 steps", record_every=1000, seed=seed)
    outer = torch.as_tensor([r["outer"] for r in found.records]).reshape(len(found.records), -1)
    assert (outer[-1] > 3).all()
    assert ((outer.diff(dim=0) >= 0) & (outer.diff(dim=0) <= 1)).all()  # none is missed
    assert all({"level", "upper"} <= set(r) for r in found.records)


def test_records_may_be_spaced_by_data_passes():
    problem = PROBLEMS["active"]()  # 1,000 rows
    found = solve(problem, "sgd", budget="5 epochs", batch_size=64, record_every="0.5 epochs")
    passes = np.array([r["samples"] for r in found.records]) / problem.rows
    step = passes[1:-1] % 0.5
    assert len(passes) == 11 and passes[0] == 0 and (step < 64 / problem.rows).all()
    for wrong in ("5 steps", "0.5 epochs, 3s", "now"):
        with pytest.raises(OptionError, match="record_every is a whole number of steps, passes like"):
            solve(problem, "sgd", budget="1 epoch", record_every=wrong)


def test_what_is_not_kept_is_not_in_the_records():
    found = solve(
        PROBLEMS["active"](), "sgd", budget="10 steps", keep=lambda row: {"step": row["step"], "f": row["train"]["f"]}
    )
    assert [set(r) for r in found.records] == [{"step", "f"}] * 2


# -- the run -------------------------------------------------------------------------------------------------------


def test_evaluations_are_exact_and_name_their_place(tiny):
    run, _, _, study, records = tiny
    problem = instance("inventory-2-10-10")
    measured = problem.evaluate(problem.start((0,)))
    first = [r for r in records if r["step"] == 0]
    assert len(first) == 3
    for r in first:
        assert r["f"] == float(measured.f) and r["worst"] == float(measured.g.max())
        assert r["worst_at"] == int(measured.g.argmax())
        assert set(r) >= {"data", "method", "seed", "checksum", "versions", "hardware", "commit", "jobs", "backend"}
        assert r["checksum"] == exact.checksum(problem)
    mine = [r for r in records if r["cell"] == "inventory-2-10-10.ynw.s1"]
    assert [r["step"] for r in mine] == list(range(0, 41, 4)) and mine[0]["outer"] is None
    found = solve(problem, study["methods"]["ynw"]["algorithm"], budget="40 steps", batch_size=20, seed=1)
    assert mine[-1]["f"] == float(problem.evaluate(found.last).f)
    best = exact.optimum("inventory-2-10-10")
    assert first[0]["relative gap"] == 1.0 and mine[-1]["gap"] == mine[-1]["f"] - best.f
    summary = json.loads((run.out / "summary.json").read_text())
    assert summary["blocks"][0]["about"][0].startswith(f"10,000 constraints; f* = {best.f:.9g}, ")


def test_results_have_their_schema(tiny):
    _, results, summary, _, _ = tiny
    for row in results:
        assert set(row) == COLUMNS and row["paper"] is None
        assert 0 <= row["n"] <= row["runs"] and row["runs"] == (1 if row["row"] == "dfls" else 2)
    columns = {r["column"] for r in results}
    assert columns >= {
        "relative gap at 10 steps", "relative gap at 40 steps", "steps to the first feasible iterate",
        "runs with every outer iterate feasible", "evaluations that are feasible", "outer iterates", "seconds",
    }  # fmt: skip
    assert len({(r["row"], r["data"], r["column"]) for r in results}) == len(results)
    (block,) = summary["blocks"]
    assert (block["key"], block["data"]) == ("steps", ["inventory-2-10-10"])


def test_finished_cells_are_reused(tiny):
    run, _, _, _, _ = tiny
    again = run_study(parse(TABLE), run.out, only=["steps"])
    assert (again.done, again.reused) == (0, 3)


def test_an_optimum_of_other_data_is_refused(tmp_path, monkeypatch):
    known = exact.optimum("inventory-2-10-10")
    monkeypatch.setattr(exact, "optimum", lambda name: replace(known, checksum="0" * 16))
    with pytest.raises(DataError, match="the stored optimum belongs to other data"):
        run_study(parse(TABLE), tmp_path, only=["steps"], seeds=1, backend="threading")


def test_an_instance_without_an_optimum_is_left_out_and_named(monkeypatch):
    stored = exact.optimum

    def only_one(name):
        if name == "np-connect-4-head":
            raise OptionError("no optimum is stored")
        return stored(name)

    monkeypatch.setattr(exact, "optimum", only_one)
    study, notes = _placed(parse(TABLE), None)
    assert [item.key for item in study.items] == ["steps"]
    assert notes == ["connect-4 is left out: no optimum is stored"]
    with pytest.raises(OptionError, match="no optimum is stored"):
        _placed(parse(TABLE).only(["passes"]), None)


def test_each_exact_evaluation_of_the_certified_method_is_an_iteration(tmp_path):
    table = changed(TABLE, "methods.certified", {"title": "Certified", "algorithm": "certified_level_set"})
    table["items"] = [{**table["items"][0], "methods": ["certified", "ynw"], "compare": {
        "subject": "certified", "against": ["ynw"], "axis": "iterations", "at": [10, 40], "since": 10, "every": 10,
    }}]  # fmt: skip
    run_study(parse(table), tmp_path, seeds=1)
    last = {r["method"]: r for r in lines(tmp_path / "records.jsonl")}
    for r in last.values():
        assert r["steps"] == 40 and r["iterations"] == 40 + r["counts"]["values"]
    assert last["certified"]["counts"]["values"] > 5 and last["ynw"]["iterations"] == 40
    alone = solve(instance("inventory-2-10-10"), "certified_level_set", budget="40 steps", batch_size=20, seed=0)
    assert alone.counts.values == last["certified"]["iterations"] - 40
    row = next(
        r for r in json.loads((tmp_path / "results.json").read_text())
        if (r["row"], r["column"]) == ("certified", "relative gap at 10 iterations")
    )  # fmt: skip
    mine = [r for r in lines(tmp_path / "records.jsonl") if r["method"] == "certified" and r["iterations"] <= 10]
    assert row["ours"] == mine[-1]["lowest relative gap"]


def test_batches_are_read_as_rows_of_every_block_or_in_all(data_dir):
    study = load_spec("level-set").only(["figure2"])
    sizes = {}
    for cell in study.cells():
        if cell.data == "np-pendigits" and cell.method.algorithm.startswith("sfls"):
            sizes[cell.method.key] = level_set.task(cell, str(data_dir)).options["batch_size"]
    assert sizes == {"sfls": 10_000, "sfls-total": 1000, "sfls-plain": 10_000, "sfls-plain-total": 1000}


def test_the_studys_own_methods_run_on_real_rows(data_dir, tmp_path):
    study = load_spec("level-set")
    item = next(i for i in study.items if i.key == "figure2")
    alone = replace(study, items=(replace(item, data=("np-connect-4-head",)),))
    run = run_study(alone, tmp_path, seeds=1, budget="1 epoch", data_dir=data_dir)
    assert run.done == len(item.methods) and not run.failed
    last = {r["method"]: r for r in lines(tmp_path / "records.jsonl")}
    assert {m for m, r in last.items() if r["outer"] is None} == {m for m in item.methods if m.startswith("ynw")}
    assert all(r["passes"] >= 1 and r["samples"] == r["passes"] * 2345 for r in last.values())
    settings = {its["title"]: its["config"] for its in run.study["settings"]}
    assert "level=3.0" in settings["SFLS"] and "theta=2.0" in settings["SFLS"] and "level=3.0" in settings["DFLS"]


# -- the numbers -----------------------------------------------------------------------------------------------------


def made_up(method: str, seed: int, rows: list[tuple]) -> Run:
    """A run of rows (passes, f, worst, outer) on an instance with the optimum 1, 2 below the start."""
    records = [
        {"step": i, "passes": p, "worst": w, "outer": o, "relative gap": (f - 1) / 2, "counts": {"values": 0}}
        for i, (p, f, w, o) in enumerate(rows)
    ]
    level_set.derive(records)
    for r in records:  # as JSON has it
        r["lowest relative gap"] = None if np.isinf(r["lowest relative gap"]) else r["lowest relative gap"]
    result = {
        "data": "one",
        "method": method,
        "seed": seed,
        "seconds": 1.0,
        "steps": len(rows),
        "unsure": 0.0,
        "about": "",
    }
    return Run(result, records, {}, "point")


def summary_of(study: dict, runs: list[Run]) -> tuple[list[dict], dict]:
    by_place: dict = {}
    for run in runs:
        by_place.setdefault((run.result["data"], run.result["method"]), []).append(run)
    return summarise(parse(study), by_place)


STUDY = {
    "name": "s", "title": "S", "source": "nobody", "measures": "fairbound.studies.level_set", "seeds": 2,
    "budget": "4 epochs", "compare": {"subject": "ours", "against": ["ynw", "dfls"]},
    "methods": {m: {"title": m.upper(), "algorithm": "sgd"} for m in ("ours", "ynw", "dfls")},
    "data": {"one": {"title": "One", "task": {"instance": "fair-a9a"}}},
    "items": [{
        "key": "i", "title": "I", "data": ["one"], "methods": ["ours", "ynw", "dfls"],
        "compare": {"at": [2, 3, 9], "since": 2, "every": 1},
    }],
}  # fmt: skip
OURS = [
    made_up("ours", 0, [(0, 3.0, -1.0, 0), (1, 2.0, -0.1, 1), (2, 1.5, -0.1, 2), (4, 1.2, -0.1, 3)]),
    made_up("ours", 1, [(0, 3.0, -1.0, 0), (1, 1.4, -0.5, 0), (2, 1.6, 0.0, 1), (4, 1.1, 0.1, 2)]),
]
YNW = [
    made_up("ynw", 0, [(0, 3.0, -1.0, None), (1, 0.5, 2.0, None), (2, 1.8, -0.1, None), (4, 1.9, -0.2, None)]),
    made_up("ynw", 1, [(0, 3.0, -1.0, None), (1, 0.5, 2.0, None), (3, 0.9, 0.3, None), (4, 1.5, -0.1, None)]),
]
DFLS = [made_up("dfls", 0, [(0, 3.0, -1.0, 0), (2, 3.0, -1.0, 0), (3, 1.2, -0.1, 1), (4, 1.15, -0.1, 2)])]


def test_gaps_are_those_of_feasible_answers_so_far():
    results, _ = summary_of(STUDY, OURS + YNW + DFLS)
    by = {(r["row"], r["column"]): r for r in results}
    row = by["ours", "relative gap at 2 passes"]  # 0.25 and 0.3: a point before the first outer iterate is no answer
    assert row["ours"] == pytest.approx(0.275) and (row["n"], row["runs"]) == (2, 2)
    assert (row["lower"], row["upper"]) == (pytest.approx(0.2625), pytest.approx(0.2875))
    row = by["ynw", "relative gap at 2 passes"]  # 0.4, and none
    assert row["ours"] is None and row["lower"] is None and (row["n"], row["runs"]) == (1, 2)
    assert by["dfls", "relative gap at 3 passes"]["ours"] == pytest.approx(0.1)
    assert by["dfls", "relative gap at 2 passes"]["n"] == 0 and ("ours", "relative gap at 9 passes") not in by
    assert by["ynw", "passes to the first feasible iterate"]["ours"] == 3.0  # of 2 and 4
    assert by["ours", "evaluations that are feasible"]["ours"] == pytest.approx((1 + 0.5) / 2)
    row = by["ours", "runs with every outer iterate feasible"]  # the second run's last one is not
    low, high = stats.beta.ppf([0.025, 0.975], [1, 2], [2, 1])
    assert row["ours"] == 0.5 and row["n"] == 2
    assert (row["lower"], row["upper"]) == (pytest.approx(low), pytest.approx(high))
    row = by["ynw", "runs with every outer iterate feasible"]
    assert row["ours"] is None and row["n"] == 0 and by["ynw", "outer iterates"]["ours"] is None


def test_what_a_method_lacks_is_a_dash_and_a_gap_that_it_never_reaches_infinite():
    none = made_up("dfls", 0, [(0, 3.0, -1.0, 0), (2, 3.0, -1.0, 0)])  # no outer iterate, and so no answer
    results, _ = summary_of(STUDY, [*OURS, *YNW, none])
    shown = {(r["row"], r["column"]): _cell(r, 3, False)["value"] for r in results}
    assert shown["ynw", "outer iterates"] == "–" and shown["dfls", "outer iterates"] == "0"
    assert shown["dfls", "evaluations that are feasible"] == "–"
    assert shown["dfls", "passes to the first feasible iterate"] == shown["ynw", "relative gap at 2 passes"] == "∞"


def test_findings_name_where_the_subject_is_not_below():
    _, summary = summary_of(STUDY, OURS + YNW + DFLS)
    (one,) = summary["blocks"][0]["findings"]
    assert one["below"] is False
    assert one["text"] == (
        "One: OURS is below YNW at all 3 passes compared, 2 to 4 (0.2 against 0.325 at 4); NOT below DFLS at 2 of 3 passes "
        "compared (first at 3: 0.275 against 0.1; 0.2 against 0.075 at 4). Runs whose every outer iterate is feasible: "
        "OURS 1 of 2, DFLS 1 of 1."
    )
    whole = [f["text"] for f in summary["findings"]]
    assert whole[0].endswith(
        "at every place compared (but for those where both have the optimum) on 0 of 1 instances (0%). Not on: One."
    )
    assert whole[1].startswith("OURS: every outer iterate feasible in 1 of 2 runs (95 % interval 0.013 to 0.987)")
    assert whole[1].endswith("Not in all on: One (1 of 2).")


def test_findings_say_where_it_is_below_and_what_was_not_judged():
    _, summary = summary_of(STUDY, OURS + YNW + [made_up("dfls", 0, [(0, 3.0, -1.0, 0), (4, 3.0, -1.0, 0)])])
    (one,) = summary["blocks"][0]["findings"]
    assert one["below"] is True and "below DFLS at all 3 passes" in one["text"]
    assert "(0.2 against no feasible iterate at 4)" in one["text"] and "DFLS without any in 1 of 1" in one["text"]
    assert summary["findings"][0]["text"].endswith("on 1 of 1 instances (100%).")
    assert summary["findings"][-1]["text"] == "DFLS: no outer iterate in any of 1 runs."
    _, summary = summary_of(STUDY, OURS + YNW)
    assert summary["blocks"][0]["findings"][0]["below"] is None
    assert summary["findings"][0]["text"] == "Not judged: One."
    assert "not judged, as DFLS did not finish" in summary["blocks"][0]["findings"][0]["text"]


def test_the_headline_of_feasible_outer_iterates_says_how_many_runs_made_none():
    without = made_up("dfls", 1, [(0, 3.0, -1.0, 0), (4, 3.0, -1.0, 0)])
    _, summary = summary_of(STUDY, OURS + YNW + [*DFLS, without])
    by = {f["method"]: f for f in summary["findings"] if "method" in f}
    assert set(by) == {"ours", "dfls"}  # YNW has no outer iterates
    assert (by["dfls"]["good"], by["dfls"]["n"], by["dfls"]["none"], by["ours"]["none"]) == (1, 1, 1, 0)
    assert by["dfls"]["text"] == (
        "DFLS: every outer iterate feasible in 1 of 1 runs that made any (95 % interval 0.025 to 1.000); "
        "1 other run made none."
    )


def test_two_methods_at_the_optimum_are_level():
    study = json.loads(json.dumps(STUDY))
    study["compare"]["against"] = ["ynw"]
    ours = [made_up("ours", 0, [(0, 3.0, -1.0, 0), (1, 1.0, -1.0, 1), (4, 1.0, -1.0, 2)])]
    ynw = [(0, 3.0, -1.0, None), (2, 1.2, -1.0, None), (3, 1.0 + 1e-10, -1.0, None), (4, 1.0, -1.0, None)]
    _, summary = summary_of(study, [*ours, made_up("ynw", 0, ynw)])
    (one,) = summary["blocks"][0]["findings"]
    assert (
        one["below"] and "below YNW at 1 of 3 passes compared and level at the others, where both have" in one["text"]
    )
    _, summary = summary_of(
        study, [*ours, made_up("ynw", 0, [(0, 3.0, -1.0, None), (1, 1.0, -1.0, None), (4, 1.0, -1.0, None)])]
    )
    assert summary["blocks"][0]["findings"][0]["below"] is False  # nowhere below


@pytest.mark.parametrize("runs", [1, 2, 3, 10])
def test_quartiles_are_numpys_and_hold_for_infinite_runs(runs):
    values = np.random.default_rng(runs).normal(size=(runs, 7))
    for name, found in series.quartiles(values).items():
        q = {"q25": 0.25, "median": 0.5, "q75": 0.75}[name]
        np.testing.assert_allclose(found, np.quantile(values, q, axis=0), rtol=1e-12, atol=1e-15)
    values[:, 0] = np.inf
    values[0, 1] = np.inf
    found = series.quartiles(values)
    assert np.isinf(found["q25"][0]) and np.isinf(found["median"][0])
    assert np.isinf(found["median"][1]) == (runs <= 2) and not any(np.isnan(v).any() for v in found.values())


# -- the report ----------------------------------------------------------------------------------------------------


def test_the_report_is_drawn_from_the_folder_alone(tiny, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra 'report'")
    from fairbound.report.study_report import write_report

    run, results, summary, study, _ = tiny
    shutil.copy(run.out / "records.jsonl", tmp_path / "records.jsonl")
    study = json.loads(json.dumps(study))
    study["methods"]["ynw"]["title"] = "<b>$x_1^2$</b>"
    for name, value in (("study", study), ("results", results), ("summary", summary)):
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    text = write_report(tmp_path).read_text(encoding="utf-8")
    names = sorted(p.name for p in (tmp_path / "figures").iterdir())
    assert names == [f"steps-{k}.{e}" for k in ("feasible", "paths") for e in ("png", "svg")]
    assert text.count('<svg class="chart"') == 2 and "<script" not in text and "<b>$" not in text
    assert "http" not in text.replace("http-equiv", "")
    assert "duals give the lower bound" in text and "Findings" in text and "A note" in text


@pytest.mark.long
def test_the_command_runs_the_study(tmp_path, capsys):
    pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
    pytest.importorskip("matplotlib", reason="figures need the extra 'report'")
    from fairbound.cli.app import main

    asked = ["reproduce", "level-set", "--quick", "--only", "figure1", "--seeds", "1", "--budget", "60 steps"]
    assert main([*asked, "--out", str(tmp_path / "out"), "--json"]) == 0
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["cells"] == {"asked": 4, "finished": 4} and set(outcome["findings"]) == {"figure1", "all"}
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "cells", "figures", "records.jsonl", "report.html", "results.json", "study.json", "summary.json",
    }  # fmt: skip
