"""Studies: the TOML is checked, cells are measured right, aggregates agree with numpy by hand, the report is drawn."""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
import tomllib
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import expit

from fairbound.base import series
from fairbound.base.errors import DataError, OptionError
from fairbound.methods import SGD
from fairbound.studies import deep_benchmark, load_spec, names, run_study
from fairbound.studies.compare import apart, lowest
from fairbound.studies.library import parse
from fairbound.studies.rows import StudyRows, divided, load_rows
from fairbound.studies.store import is_done, read_cell_records, read_result, write_cell
from fairbound.studies.table import Block, _once, rows_of
from fairbound.studies.task import Run, one_thread
from fairbound.studies.tuning import choose
from fairbound.studies.workers import slowdown, workers
from study_examples import TINY, changed, write_tiny

FLOAT32 = 480 * 2**-24  # rounding of a sum of 480 terms of size 1 in single precision
TABLE = tomllib.loads(TINY.format(budget="200 steps"))


def rows_for(seed, held=0.0, **other):
    asked = {**TABLE["data"]["generated"]["task"], **other}
    return load_rows(asked["dataset"], asked["options"], asked["group"], asked["groups"], seed, None, held)


def models(run, key):
    """Measures of the models that a cell returned, by output."""
    return {r["output"]: r for r in read_cell_records(run.out / "cells", key) if r["output"]}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The tiny study, run once."""
    folder = tmp_path_factory.mktemp("tiny")
    run = run_study(write_tiny(folder), folder / "out")
    read = {n: json.loads((run.out / f"{n}.json").read_text()) for n in ("study", "results", "summary")}
    records = [json.loads(line) for line in (run.out / "records.jsonl").read_text().splitlines()]
    return run, read, records


# -- the TOML ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", names())
def test_every_study_of_the_library_loads_and_its_cells_differ(name):
    study = load_spec(name)
    keys = [c.key for c in study.cells()]
    assert len(set(keys)) == len(keys) == len({c.fingerprint for c in study.cells()})
    assert study.quickly().cells()
    for rows in study.paper.values():
        assert set(rows) <= set(study.methods)


def test_table_3_is_typed_in_as_printed():
    printed = load_spec("deep-benchmark").paper["table3"]
    assert set(printed) == {"sgd", "ghost", "alm-paper", "ssl-alm", "ssw", "fairret"}
    assert printed["sgd"]["train Ind"] == [0.094443, 0.004259]
    assert printed["ssl-alm"]["test Ina"] == [0.240095, 0.011787]
    assert printed["ssw"]["test Wd"] == [0.001724, 0.001001]
    assert all(len(columns) == 10 for columns in printed.values())


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("methods.alm.algoritm", "alm", "did you mean 'algorithm'"),
        ("methods.alm.algorithm", "almm", "method 'alm': unknown algorithm 'almm'"),
        ("methods.alm.options", {"stepsize": 1}, "method 'alm': alm has no option 'stepsize'"),
        ("methods.alm.output", "first", "output must be one of last, best, random"),
        ("methods.alm.task", {"validation": 1.0}, "validation is a share"),
        ("methods.alm.task", {"trained": "loss_gap < 1"}, "cannot read the constraint"),
        (
            "methods.alm.task",
            {"train": "loss_gap <= 1"},
            "data 'generated' with method 'alm' has no key 'train'; did you",
        ),
        ("methods.alm.grid", {"step_size": [0.1]}, "tuning budgets must be equal"),
        ("methods.alm.tune_by", "luck", "tune_by must be"),
        ("methods.alm.record_every", -1, "record_every must not be negative"),
        ("items.0.methods", ["sgd", "alms"], "item 'main' of study 'tiny' has no method 'alms'; did you mean 'alm'"),
        ("items.0.figures", ["pie"], "has no figure 'pie'"),
        ("items.1.budget", "soon", "cannot read the budget"),
        ("figures.0.kind", "pie", "figure 'train' has no kind 'pie'"),
        ("figures.0.scales", ["cubic"], "figure 'train' has no scale 'cubic'"),
        ("data.generated.task.groups", ["1", "1"], "groups must be"),
        ("data.generated.task.dataset", "adlt", "no data set is called 'adlt'. Did you mean 'adult'?"),
        (
            "data.generated.task.dataset",
            "adult",
            "data set 'adult' has no sensitive attribute 'group'; it has: sex, race",
        ),
        ("seeds", 0, "seeds and batch must be at least 1"),
        ("budget", "soon", "cannot read the budget"),
        ("task.constraint", "loss_gap", "cannot read the constraint"),
        ("measures", "fairbound.studies.nothing", "no module 'fairbound.studies.nothing' to import"),
        ("colour", "red", "study 'tiny' has no key 'colour'"),
        ("methods.alm.each", [0.1], "method 'alm': each is a list of numbers"),
        ("methods.alm-$", {"title": "ALM", "algorithm": "alm", "each": ["one"]}, "each is a list of numbers"),
        ("methods.alm-$", {"title": "ALM", "algorithm": "alm", "each": [1, 2, 1.0]}, "method 'alm-1' is stated twice"),
        ("seeds", "two", "study 'tiny': seeds must be a whole number, got 'two'"),
        ("seeds", 1.5, "study 'tiny': seeds must be a whole number, got 1.5"),
        ("batch", "8", "study 'tiny': batch must be a whole number, got '8'"),
        ("task", 3, "study 'tiny': task must be a table, with names and their values, got 3"),
        ("data", "wide", "study 'tiny': data must be a table"),
        ("data.generated", "wide", "study 'tiny': data.generated must be a table"),
        ("items", {"key": "main"}, "study 'tiny': items must be a list"),
        ("quick", 1, "study 'tiny': quick must be a table"),
        ("quick.seeds", "1", "quick: seeds must be a whole number, got '1'"),
        ("methods.alm.title", 3, "method 'alm': title must be a text, got 3"),
        ("methods.alm.record_every", 0.5, "method 'alm': record_every must be a whole number or a text, got 0.5"),
        ("methods.alm.grid", {"step_size": 0.1}, "method 'alm': grid.step_size must be a list, got 0.1; write [0.1]"),
        ("items.0.data", "generated", "item 'main': data must be a list, got 'generated'; write ['generated'] for one"),
        ("items.0.together", "no", "item 'main': together must be True or False, got 'no'"),
        ("tables.0.columns", "test *", "table 0: columns must be a list, got 'test *'"),
        ("tables.0.columns", ["test *", 3], "table 0: columns[1] must be a text, got 3"),
        ("data.generated.task.groups", "0", "method 'sgd': groups must be a list"),
        ("task.validation", "a half", "validation must be a number, got 'a half'"),
        ("paper.table.sgd.seconds", 0.1, "study 'tiny': paper.table.sgd.seconds must be a list, got 0.1"),
        ("paper.table.sgd.seconds", [0.1], "paper.table.sgd.seconds must be two numbers, [mean, deviation], got [0.1]"),
        ("paper.table.sgd.seconds", [0.1, "0.02"], "paper.table.sgd.seconds[1] must be a number, got '0.02'"),
    ],
)
def test_a_wrong_study_says_what_is_wrong(path, value, said):
    with pytest.raises(OptionError, match="(?s)" + re.escape(said)):
        parse(changed(TABLE, path, value))


def test_each_number_of_a_table_is_a_table_of_its_own():
    shared = {"title": "step $", "algorithm": "alm", "options": {"step_size": "$", "margin": 0.1}, "per_epoch": []}
    plain = {
        f"alm-{key}": {**shared, "title": f"step {n}", "options": {"step_size": n, "margin": 0.1}}
        for key, n in (("0_05", 0.05), ("2", 2))
    }
    with_each = parse({**TABLE, "methods": {**TABLE["methods"], "alm-$": {"each": [0.05, 2], **shared}}})
    assert with_each == parse({**TABLE, "methods": {**TABLE["methods"], **plain}})


def test_a_missing_key_and_bad_files_are_named(tmp_path):
    table = json.loads(json.dumps(TABLE))
    del table["data"]["generated"]["task"]["group"]
    with pytest.raises(OptionError, match="data 'generated' with method 'sgd': 'group' must be stated"):
        parse(table)
    with pytest.raises(OptionError, match="did you mean 'deep-benchmark'"):
        load_spec("deep-benchmarks")
    with pytest.raises(OptionError, match="does not exist"):
        load_spec(tmp_path / "none.toml")
    (tmp_path / "broken.toml").write_text("name = ")
    with pytest.raises(OptionError, match="not valid TOML"):
        load_spec(tmp_path / "broken.toml")


def test_what_changes_a_run_changes_its_fingerprint_and_nothing_else_does():
    cell = parse(TABLE).cells()[0]
    for path, value in (
        ("budget", "201 steps"), ("batch", 31), ("task.model", "mlp:4"), ("task.constraint", "loss_gap <= 0.06"),
        ("methods.sgd.options", {"step_size": 0.2}), ("methods.sgd.record_every", 21),
        ("data.generated.task.options", {"n": 9}), ("methods.sgd.sampling", "uniform"), ("methods.sgd.average", 1),
    ):  # fmt: skip
        assert parse(changed(TABLE, path, value)).cells()[0].fingerprint != cell.fingerprint, path
    for path, value in (
        ("title", "T"), ("checkpoint_every", 3.0), ("methods.sgd.title", "T"), ("methods.sgd.grid", {"decay": [0, 1]}),
        ("data.generated.note", "N"), ("seeds", 1), ("methods.sgd.output", "best"),
    ):  # fmt: skip
        assert parse(changed(TABLE, path, value)).cells()[0].fingerprint == cell.fingerprint, path


def test_a_default_of_a_method_that_changed_changes_the_fingerprint_and_where_a_function_lies_does_not(monkeypatch):
    def cell(step, function):
        @dataclass(frozen=True, kw_only=True)
        class Own(SGD):
            step_size: float = step
            kept: object = function

        monkeypatch.setitem(sys.modules, "own_methods", SimpleNamespace(Own=Own))
        own = changed(changed(TABLE, "methods.sgd.options", {}), "methods.sgd.algorithm", "own_methods:Own")
        return parse(own).cells()[0]

    first, again, other = (cell(step, lambda x: x).fingerprint for step in (0.1, 0.1, 0.2))
    assert first == again != other


# -- rows ----------------------------------------------------------------------------------------------------------


def test_rows_are_split_by_the_seed_and_trials_never_see_test_rows():
    one, again, other = (rows_for(seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.train.x, again.train.x)
    assert not np.array_equal(one.train.y, other.train.y)
    assert len(one.train) == 480 and len(one.test) == 120
    assert one.checksum == other.checksum and len(one.checksum) == 64
    trial = rows_for(0, held=0.25)
    assert len(trial.train) + len(trial.test) == 480
    rows = {tuple(r) for r in np.concatenate([trial.train.x, trial.test.x]).tolist()}
    assert rows == {tuple(r) for r in one.train.x.tolist()}
    assert rows.isdisjoint({tuple(r) for r in one.test.x.tolist()})


def test_divided_takes_the_share_of_every_group():
    part = StudyRows(np.zeros((90, 1), np.float32), np.zeros(90), np.repeat([0, 1, -1], [40, 20, 30]))
    kept, away = divided(part, 0.25, 0, "x")
    assert np.bincount(away.group + 1).tolist() == [8, 10, 5] and np.bincount(kept.group + 1).tolist() == [22, 30, 15]


def test_a_group_that_does_not_occur_is_named():
    with pytest.raises(DataError, match="no row has group = '7'"):
        rows_for(0, groups=("0", "7"))


# -- a cell --------------------------------------------------------------------------------------------------------


def test_measures_of_a_model_by_hand():
    rng = np.random.default_rng(0)
    scores, y, group = rng.normal(size=400), rng.integers(0, 2, 400), rng.choice([-1, 0, 1], 400)
    found = deep_benchmark.measures(scores, StudyRows(np.zeros((400, 1)), y, group), ("a", "b"))
    hat = scores > 0
    a, b = (group == 0), (group == 1)
    assert found["Ind"] == pytest.approx(abs(hat[a].mean() - hat[b].mean()))
    sp = sum(abs(hat[a & (y == c)].mean() - hat[b & (y == c)].mean()) for c in (0, 1))
    assert found["Sp"] == pytest.approx(sp)
    sf = sum(abs(y[a & (hat == c)].mean() - y[b & (hat == c)].mean()) for c in (False, True))
    assert found["Sf"] == pytest.approx(sf)
    assert found["Ina"] == pytest.approx((hat != (y == 1)).mean())
    assert found["W1"] == pytest.approx(stats.wasserstein_distance(expit(scores[a]), expit(scores[b])))
    first, edges = np.histogram(expit(scores[a]), bins=50)
    second, _ = np.histogram(expit(scores[b]), bins=edges)
    u = (np.arange(200_000) + 0.5) / 200_000  # W2 as the mean squared difference of quantiles
    q = [edges[1:][np.searchsorted(np.cumsum(h) / h.sum(), u)] for h in (first, second)]
    assert found["Wd"] == pytest.approx(np.mean((q[0] - q[1]) ** 2), rel=1e-3)  # the grid of 2e5 levels errs by 1e-4
    assert found["histogram b"] == np.histogram(expit(scores[b]), bins=np.linspace(0, 1, 51))[0].tolist()


def test_records_hold_loss_and_signed_gap_of_train_and_test_and_what_the_run_depends_on(tiny):
    run, _, records = tiny
    study = load_spec(run.out.parent / "tiny.toml")
    cell = study.cells()[1]
    assert cell.key == "generated.alm.s0"
    mine = [r for r in records if r["cell"] == cell.key and r["output"] is None]
    assert [r["step"] for r in mine] == list(range(0, 201, 20))
    zero = math.log(2)  # a linear model starts at 0
    assert mine[0]["train loss"] == pytest.approx(zero) and abs(mine[0]["train gap"]) < FLOAT32
    for r in mine:
        assert abs(r["train gap"]) == pytest.approx(r["train |gap|"], abs=FLOAT32)
        assert set(r) >= {"data", "method", "seed", "checksum", "versions", "hardware", "commit", "jobs", "backend"}
        assert r["checksum"] == rows_for(0).checksum and r["hardware"]["threads"] == 1
    assert [r["seconds"] for r in mine] == sorted(r["seconds"] for r in mine)
    assert mine[-1]["calls"] == mine[-1]["counts"]["gradients"] + mine[-1]["counts"]["values"] >= 200
    last = models(run, cell.key)["last"]
    assert last["test gap"] == pytest.approx(mine[-1]["test gap"], abs=FLOAT32)
    assert last["test loss"] == pytest.approx(mine[-1]["test loss"], abs=FLOAT32)
    assert set(models(run, cell.key)) == {"last", "best"}
    assert set(models(run, "generated.ssw.s0")) == {"last", "best", "random"}
    inside = [r["train |gap|"] <= 0.05 for r in mine]
    assert [r["train once within the bound"] for r in mine] == [float(any(inside[: i + 1])) for i in range(len(mine))]
    best = [min((r["train loss"] for r in mine[: i + 1] if r["train |gap|"] <= 0.05), default=None) for i in range(11)]
    assert [r["lowest train loss within the bound"] for r in mine] == best


@pytest.mark.parametrize("order", [("0", "1"), ("1", "0")])
def test_a_gap_is_protected_minus_reference(order):
    table = changed(TABLE, "data.generated.task.groups", list(order))
    task = deep_benchmark.task(parse(table).cells()[0], None)
    test = rows_for(0, groups=order).test
    x = torch.randn(task.problem.n, generator=torch.Generator().manual_seed(0))
    scores = task.problem.all_scores(x, torch.from_numpy(test.x)).double().numpy()
    loss = np.logaddexp(0, scores) - test.y * scores
    gap = loss[test.group == 1].mean() - loss[test.group == 0].mean()
    found = task.watch(x, task.problem.evaluate(x))
    assert found["test gap"] == pytest.approx(gap, abs=FLOAT32)
    assert found["test |gap|"] == pytest.approx(abs(gap), abs=FLOAT32) and abs(gap) > 0.05
    assert task.measure(x)["test gap"] == found["test gap"]


def test_a_bound_must_compare_the_groups_and_of_several_gaps_the_largest_counts():
    table = changed(TABLE, "task.constraint", "loss_gap[overall] <= 0.05")
    with pytest.raises(OptionError, match="does not compare '1' with '0' directly"):
        deep_benchmark.task(parse(table).cells()[0], None)
    conditions = changed(TABLE, "task.constraint", "equalized_odds <= 0.05")  # two gaps of the protected group
    task = deep_benchmark.task(parse(conditions).cells()[0], None)
    x = torch.randn(task.problem.n, generator=torch.Generator().manual_seed(0))
    found, test = task.watch(x, task.problem.evaluate(x)), rows_for(0).test
    hat = task.problem.all_scores(x, torch.from_numpy(test.x)).numpy() > 0
    gaps = [
        hat[(test.group == 1) & (test.y == c)].mean() - hat[(test.group == 0) & (test.y == c)].mean() for c in (0, 1)
    ]
    assert found["test gap"] == pytest.approx(max(gaps, key=abs), abs=FLOAT32)


def test_selection_on_validation_and_a_tighter_bound_are_measured_on_all_training_rows(tmp_path):
    table = changed(TABLE, "methods.alm.task", {"validation": 0.25, "trained": "loss_gap <= 0.01"})
    study = replace(parse(table), seeds=1).only(["main"])
    run = run_study(study, tmp_path)
    assert read_result(run.out / "cells", "generated.alm.s0")["about"].startswith("480 training rows, ")
    rows = read_cell_records(run.out / "cells", "generated.alm.s0")
    last = [r for r in rows if r["output"] is None][-1]
    assert models(run, "generated.alm.s0")["last"]["train loss"] == pytest.approx(last["train loss"], abs=FLOAT32)
    assert last["train |gap|"] >= 0


def test_a_failing_cell_is_told_and_the_others_finish(tmp_path):
    table = changed(TABLE, "methods.sgd.options", {"step_size": 1e30})
    study = parse(changed(table, "task.model", "mlp:4")).only(["main"])
    run = run_study(replace(study, seeds=1), tmp_path)
    assert run.failed == ("generated.sgd.s0",) and run.done == 1
    assert "NonFiniteError" in run.study["failures"]["generated.sgd.s0"]
    assert run.study["cells"] == {"asked": 2, "finished": 1}
    alone = replace(study, items=(replace(study.items[0], methods=("sgd",)),))
    with pytest.raises(DataError, match=r"no cell of the study finished; the first reason: NonFiniteError"):
        run_study(alone, tmp_path / "alone")


def test_one_thread_is_put_back():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


# -- the run -------------------------------------------------------------------------------------------------------


def test_results_have_their_schema_and_the_papers_numbers_beside(tiny):
    _, read, _ = tiny
    places = set()
    for row in read["results"]:
        assert set(row) == {
            "item", "row", "column", "paper", "paper_std", "ours", "std", "lower", "upper", "n", "runs", "data", "output",
            "only_start", "missed", "statistic",
        }  # fmt: skip
        assert 0 <= row["n"] <= row["runs"] == 2
        places.add((row["item"], row["row"], row["column"]))
    assert len(places) == len(read["results"])
    by = {(r["row"], r["column"]): r for r in read["results"]}
    assert by["sgd", "test Ina"]["paper"] == 0.25 and by["sgd", "test Ina"]["paper_std"] == 0.01
    assert by["alm", "test Ina"]["paper"] is None
    assert {by[m, "test Ina"]["output"] for m in ("sgd", "alm", "ssw")} == {"last", "best", "random"}
    assert by["alm", "train within the bound"]["ours"] == 1.0


def test_numbers_are_means_over_the_cells(tiny):
    run, read, _ = tiny
    row = next(r for r in read["results"] if (r["row"], r["column"]) == ("alm", "test Sf"))
    values = [models(run, f"generated.alm.s{s}")["best"]["test Sf"] for s in (0, 1)]
    assert row["ours"] == pytest.approx(np.mean(values)) and row["std"] == pytest.approx(np.std(values, ddof=1))


def test_every_method_is_shown_under_both_output_rules(tiny):
    run, read, _ = tiny
    by = {(r["row"], r["column"]): r["ours"] for r in read["results"] if r["item"] == "main"}
    for method in ("sgd", "alm"):
        its = [models(run, f"generated.{method}.s{s}") for s in (0, 1)]
        for output, words in (("best", "best verified"), ("last", "last")):
            for column in ("train |gap|", "test Ina"):
                expected = np.mean([m[output][column] for m in its])
                assert by[method, f"{column} ({words})"] == pytest.approx(expected), (method, output)
            share = np.mean([m[output]["train |gap|"] <= 0.05 for m in its])
            assert by[method, f"train within the bound ({words})"] == share
    said = [f["text"] for f in read["summary"]["blocks"][0]["findings"]]
    for words in ("model reported", "best verified iterate", "last iterate"):
        assert any(
            text.startswith(f"Runs within 0.05 on the training rows, {words} of every method: SGD") for text in said
        )


def test_records_repeat_for_step_budgets_and_finished_cells_are_reused(tiny, tmp_path):
    run, _, records = tiny
    again = run_study(run.out.parent / "tiny.toml", tmp_path)
    others = [json.loads(line) for line in (again.out / "records.jsonl").read_text().splitlines()]
    timed = ("seconds", "cpu", "slowdown")  # all else repeats
    assert [{k: v for k, v in r.items() if k not in timed} for r in others] == [
        {k: v for k, v in r.items() if k not in timed} for r in records
    ]
    stamp = (again.out / "cells" / "generated.alm.s1.json").stat().st_mtime_ns
    third = run_study(run.out.parent / "tiny.toml", tmp_path)
    assert (third.done, third.reused) == (0, 6)
    assert (again.out / "cells" / "generated.alm.s1.json").stat().st_mtime_ns == stamp
    fourth = run_study(run.out.parent / "tiny.toml", tmp_path, budget="60 steps", only=["switching"])
    assert (fourth.done, fourth.reused) == (2, 0)


def test_quick_only_seeds_and_budget_choose_what_runs():
    study = load_spec("deep-benchmark")
    assert {c.data for c in study.quickly().cells()} == {"acs-ok-partial"}
    assert {c.budget for c in study.quickly().cells()} == {"3s"}
    assert {c.data for c in study.only(["adult", "bank"]).cells()} == {"adult", "bank"}
    with pytest.raises(OptionError, match="no item 'adults'; did you mean 'adult'"):
        study.only(["adults"])
    with pytest.raises(OptionError, match=r"there with --tune alone .*name 'table3' and tune"):
        study.only(["table3-tuned"])


def test_no_items_and_no_data_folder_are_told_before_anything_runs(tmp_path):
    text = TINY.format(budget="20 steps")
    (tmp_path / "tiny.toml").write_text(text)
    with pytest.raises(OptionError, match="nothing to run; name one of its items"):
        run_study(tmp_path / "tiny.toml", tmp_path / "out", only=[])
    with pytest.raises(DataError, match="nowhere' does not exist"):
        run_study(tmp_path / "tiny.toml", tmp_path / "out", data_dir=tmp_path / "nowhere")
    assert not (tmp_path / "out").exists()


def test_data_that_is_absent_is_replaced_and_named(tmp_path):
    from fairbound.studies.runner import _placed

    study, notes = _placed(load_spec("deep-benchmark").only(["table3"]), str(tmp_path))
    assert study.items[0].data == ("acs-co", "acs-ok-partial")
    assert notes == [
        "ACSIncome, Oklahoma 2018 is left out: its files are not in the data folder. ACSIncome, Colorado 2018 and "
        "ACSIncome, Oklahoma 2018, a random 46 % take its place."
    ]
    (tmp_path / "2018" / "1-Year").mkdir(parents=True)
    (tmp_path / "2018" / "1-Year" / "psam_p40.csv").write_text("")
    assert _placed(load_spec("deep-benchmark").only(["table3"]), str(tmp_path))[0].items[0].data == ("acs-ok",)


@pytest.mark.parametrize("name", names())
def test_a_missing_data_folder_is_said_before_the_first_cell(name, monkeypatch):
    """Of every study that needs files: by the error where nothing is left, else by a note."""
    from fairbound.studies.runner import _placed

    monkeypatch.delenv("FAIRBOUND_DATA", raising=False)
    study = load_spec(name).quickly()
    try:
        study, notes = _placed(study, None)
    except (OptionError, DataError) as error:
        study, notes = None, [str(error)]
    assert any("needs a folder of data files: pass data_dir" in note for note in notes)
    left = {d for item in study.items for d in item.data} if study else set()
    assert all(key.startswith(("inventory", "adult")) for key in left)


def test_the_items_of_a_study_are_listed_where_they_are_few():
    words = "has no item 'figure9'; did you mean 'figure3'? There are: figure1, figure2, figure3, figure3-large."
    with pytest.raises(OptionError, match=re.escape(words)):
        load_spec("level-set").only(["figure9"])
    with pytest.raises(OptionError, match=r"did you mean 'a9a-\w+'\?$"):
        load_spec("partial-fairness").only(["a9a-rival"])


def test_why_methods_are_not_told_apart_is_said_once():
    numbers = {m: {"loss": {0: v}, "gap": {0: -v}} for m, v in (("a", 0.2), ("b", 0.1))}
    found = [lowest(numbers, {"a": "A", "b": "B"}, column, f"lowest {column}") for column in ("loss", "gap", "none")]
    said = [finding["text"] for finding in _once([f for f in found if f is not None])]
    assert said == [
        "Lowest loss: B (0.1000); one run of a method cannot tell it apart from A, 3 of the same seeds can.",
        "Lowest gap: A (-0.2000), not told apart.",
    ]
    assert all("again" not in finding for finding in found if finding is not None)


def test_tuning_gives_every_method_as_many_trials_and_judges_on_validation_rows(tmp_path):
    study = replace(parse(TABLE), seeds=1)
    run = run_study(study, tmp_path, only=["main"], tune=True)
    chosen = json.loads((tmp_path / "tuned.json").read_text())["generated"]
    assert {m: c["trials"] for m, c in chosen.items()} == {"sgd": 2, "alm": 2}
    trials = [f"tune.generated.sgd.{i}.s0" for i in (0, 1)]
    for trial in trials:
        about = read_result(tmp_path / "cells", trial)["about"]
        assert about.startswith("360 training rows") and "; 120 test rows" in about
    losses = [models(run, trial)["last"]["test loss"] for trial in trials]
    assert chosen["sgd"]["options"] == {"step_size": [0.01, 0.3][int(np.argmin(losses))]}
    assert chosen["sgd"]["loss"] == pytest.approx(min(losses))
    assert {i["key"] for i in run.study["items"]} == {"main", "main-tuned"}
    results = json.loads((tmp_path / "results.json").read_text())
    assert {r["row"] for r in results if r["item"] == "main-tuned"} == {"sgd-tuned", "alm-tuned"}
    with pytest.raises(OptionError, match="no method of item 'switching' has a grid"):
        run_study(study, tmp_path, only=["switching"], tune=True)


def trial_of(study, folder, place, **model):
    """A finished trial of ALM's setting `place`, whose reported model measures this."""
    cell = next(c for c in study.trials() if c.key == f"tune.generated.alm.{place}.s0")
    start = {
        "output": "best",
        "train |gap|": 0.0,
        "together |gap|": 0.0,
        "test |gap|": 0.0,
        "test loss": 0.1,
        "step": 0,
    }
    best = start if model.pop("start", False) else {"output": "best", **model}
    write_cell(folder, cell.key, {"fingerprint": cell.fingerprint}, [best, {"output": "last", **model}])
    return cell


def judged(train, together, loss, start=False):
    """start: whether the best model is the start, and this is the last one."""
    found = {"train |gap|": train, "together |gap|": together, "test |gap|": 0.2, "test loss": loss, "step": 40}
    return found | {"start": start}


@pytest.mark.parametrize(
    ("first", "second", "place", "met"),
    [
        # the bound is 0.05: met in training before a smaller gap on few held rows, or a lower loss
        (judged(0.09, 0.01, 0.3), judged(0.05, 0.08, 0.6), 1, 1),
        (judged(0.09, 0.01, 0.3), judged(0.07, 0.08, 0.6), 1, 0),  # or missed by less
        (judged(0.01, 0.08, 0.3), judged(0.05, 0.06, 0.6), 1, 2),  # then on all rows together
        (judged(0.01, 0.05, 0.3), judged(0.05, 0.02, 0.2), 1, 2),  # then by the loss
        (judged(0.09, 0.0, 0.3, start=True), judged(0.07, 0.08, 0.6), 1, 0),  # a start is no doing of a setting
        (judged(0.09, 0.0, 0.3), judged(0.07, 0.08, 0.6, start=True), 1, 0),  # and the last iterate stands for it
        (judged(0.01, 0.0, 0.3, start=True), judged(0.07, 0.08, 0.6), 1, 0),  # at a higher loss than the start
    ],
)
def test_a_setting_is_chosen_by_its_own_rows_then_by_all_then_by_the_loss(tmp_path, first, second, place, met):
    study = replace(parse(TABLE), seeds=1).only(["main"]).with_tuned()
    trials = [trial_of(study, tmp_path, 0, **first), trial_of(study, tmp_path, 1, **second)]
    found = choose(study, trials, tmp_path)["generated"]["alm"]
    assert found["options"] == {"step_size": [0.05, 0.2][place]}
    assert (found["met"], found["trials"], bool(found["warning"])) == (met, 2, met == 0)
    if not met:
        said = found["warning"].replace("the last iterate of ", "")
        assert said.startswith(
            "ALM on Generated rows: no setting met the bound in its trial; the one chosen missed it by 0.02"
        )


def test_a_trial_that_lacks_what_the_study_tunes_by_says_so(tmp_path):
    study = replace(parse(TABLE), seeds=1).only(["main"]).with_tuned()
    trial = trial_of(study, tmp_path, 0, **{"train |gap|": 0.1, "step": 40})
    with pytest.raises(OptionError, match=r"tunes by 'together \|gap\|', which its trials do not measure"):
        choose(study, [trial], tmp_path)


def test_a_gap_on_training_and_held_rows_together_is_that_of_all_of_them(tmp_path):
    study = replace(parse(TABLE), seeds=1).only(["main"]).with_tuned()
    cell = next(c for c in study.trials() if c.method.key == "alm")
    made = deep_benchmark.task(cell, None)
    x = torch.randn(made.problem.n, generator=torch.Generator().manual_seed(0))
    found, parts = made.measure(x), rows_for(0, held=0.25)
    every = parts.together()
    assert len(every) == len(parts.train) + len(parts.test)
    whole = replace(parts, train=every).train
    scores = made.problem.all_scores(x, torch.from_numpy(whole.x)).double().numpy()
    losses = np.logaddexp(0.0, scores) - (whole.y > 0) * scores
    gap = abs(losses[whole.group == 1].mean() - losses[whole.group == 0].mean())
    assert found["together |gap|"] == pytest.approx(gap, abs=1e-5)
    assert "together |gap|" not in deep_benchmark.task(replace(cell, held=0.0), None).measure(x)


def test_the_page_of_a_tuned_study_shows_what_was_chosen_and_warns_where_nothing_met_the_bound(tmp_path):
    table = changed(tomllib.loads(TINY.format(budget="40 steps")), "task.constraint", "loss_gap <= 1e-9")
    del table["figures"], table["items"][1]
    said: list[str] = []
    run = run_study(parse(table), tmp_path / "out", seeds=1, tune=True, say=said.append)
    chosen = run.study["chosen"]["generated"]
    assert (chosen["alm"]["met"], chosen["sgd"]["warning"]) == (0, "")  # SGD tunes by the loss
    assert chosen["alm"]["warning"] in said
    settings = {s["title"]: s["config"] for s in run.study["settings"]}
    for key, title in (("alm", "ALM"), ("sgd", "SGD")):
        assert f"step_size={chosen[key]['options']['step_size']}" in settings[f"{title}, tuned on Generated rows"]
    pytest.importorskip("matplotlib", reason="figures need the extra 'report'")
    from fairbound.report.study_report import write_report

    page = write_report(run.out).read_text(encoding="utf-8")
    assert page.count(chosen["alm"]["warning"]) == 1
    names = re.findall(r'<[^>]*\sid="([^"]*)"', page)
    assert names and len(set(names)) == len(names)


def test_a_best_iterate_that_misses_the_bound_is_not_called_verified(tmp_path):
    table = changed(tomllib.loads(TINY.format(budget="40 steps")), "task.constraint", "loss_gap <= 0.05")
    del table["figures"], table["items"][1]
    run = run_study(parse(table), tmp_path / "out", seeds=2)
    pytest.importorskip("matplotlib", reason="figures need the extra 'report'")
    from fairbound.report.study_report import write_report

    for missed in range(3):  # of the two runs of ALM; those of SGD report the last iterate
        for seed in range(2):
            place = run.out / "cells" / f"generated.alm.s{seed}.json"
            place.write_text(json.dumps(json.loads(place.read_text()) | {"feasible": seed >= missed}))
            run_study(parse(table), run.out, seeds=2)
        rows = {r["row"]: r["missed"] for r in json.loads((run.out / "results.json").read_text())}
        assert rows == {"alm": missed, "sgd": 0}
        page = write_report(run.out).read_text(encoding="utf-8")
        assert ("best verified iterate; nearest to the bounds, which none met, in 1 of 2 runs" in page) == (missed == 1)
        assert ("iterate nearest to the bounds, which none met</span>" in page) == (missed == 2)


def test_a_tuned_item_shows_the_tables_of_its_own():
    study = parse(changed(TABLE, "tables.0.items", ["main"])).with_tuned()
    assert study.tables[0].items == ("main", "main-tuned")


def test_a_method_without_a_finished_trial_keeps_its_own_options(tmp_path):
    """One that cannot take the bound, for instance; the other methods are tuned all the same."""
    study = replace(parse(TABLE), seeds=1).only(["main"]).with_tuned()
    assert choose(study, study.trials(), tmp_path) == {}
    tuned = {c.method.key: c.options for c in study.cells({"generated": {"alm": {"step_size": 0.3}}})}
    assert tuned["alm-tuned"] == {"step_size": 0.3}
    assert tuned["sgd-tuned"] == study.methods["sgd"].options


def test_wrong_workers_are_refused(tmp_path):
    with pytest.raises(OptionError, match="'threads'; known: loky, threading, ray, dask"), workers("threads", 1):
        pass
    with pytest.raises(OptionError, match="jobs must be at least 1"), workers("loky", 0):
        pass
    for backend in ("ray", "dask"):
        try:
            __import__(backend)
        except ImportError:
            said = rf"backend '{backend}' needs .*: pip install 'fairbound\[{backend}\]'"
            with pytest.raises(ImportError, match=said), workers(backend, 1):
                pass


def test_slowdown_of_one_worker_is_one_and_of_two_a_ratio_of_seconds(monkeypatch):
    assert slowdown("loky", 1)["slowdown"] == 1.0
    monkeypatch.setattr("fairbound.studies.workers.CALIBRATION_STEPS", 500)
    two = slowdown("threading", 2)
    assert two["alone"] > 0 and len(two["together"]) == 2
    assert (
        two["slowdown"] == np.median(two["together"]) / two["alone"] > 0.5
    )  # two threads cannot be twice as fast as one alone


# -- aggregates ----------------------------------------------------------------------------------------------------


def test_held_is_the_last_value_so_far():
    at, values = [0.0, 1.0, 1.0, 3.0], [5.0, 6.0, 7.0, 8.0]
    grid = np.array([-1.0, 0.0, 0.5, 1.0, 2.9, 3.0, 9.0])
    np.testing.assert_array_equal(series.held(at, values, grid), [np.nan, 5, 5, 7, 7, 8, 8])


def test_band_is_numpys_mean_and_quartiles_of_the_known_runs():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(7, 11))
    values[:3, 2] = np.nan
    values[:, 5] = np.nan
    band = series.band(values)
    for j in range(11):
        known = values[~np.isnan(values[:, j]), j]
        for name, by_hand in (
            ("mean", np.mean), ("median", np.median), ("q25", lambda v: np.quantile(v, 0.25)),
            ("q75", lambda v: np.quantile(v, 0.75)),
        ):  # fmt: skip
            assert np.isnan(band[name][j]) if j == 5 else band[name][j] == pytest.approx(by_hand(known))


def test_trailing_mean_by_hand():
    values = np.random.default_rng(2).normal(size=25)
    expected = [values[max(0, i - 9) : i + 1].mean() for i in range(25)]
    np.testing.assert_allclose(series.trailing_mean(values, 10), expected, atol=1e-12)  # cumulative sums of 25 terms


def test_feasible_needs_a_full_window():
    assert series.feasible([0.0] * 5, 0.1, window=3).tolist() == [False, False, True, True, True]
    assert series.feasible([0.4, -0.1, -0.1, 0.1], 0.15, window=3).tolist() == [False, False, False, True]
    assert series.feasible([0.0, 0.0], 0.1, window=10).tolist() == [False, False]
    assert series.first_reached([1.0, 2.0, 4.0], np.array([False, True, True])) == 2.0
    assert series.first_reached([1.0], np.array([False])) is None


def test_statistics_over_runs_by_hand():
    def row(values, kind):
        (found,) = rows_of({"c": dict(enumerate(values))}, {"c": kind}, {"c": (1.0, 0.5)}, {"item": "i"})
        assert (
            found["paper"] == 1.0
            and found["paper_std"] == 0.5
            and found["item"] == "i"
            and found["runs"] == len(values)
        )
        return tuple(found[k] for k in ("ours", "std", "lower", "upper", "n"))

    assert row([1.0, None, 3.0], "mean") == (2.0, pytest.approx(math.sqrt(2)), None, None, 2)
    assert row([4.0], "mean") == (4.0, None, None, None, 1) and row([None], "mean") == (None, None, None, None, 0)
    assert row([4.0, None, 1.0, 2.0], "reached") == (2.0, None, None, None, 3)
    assert row([1.0, 2.0, math.inf], "quartiles") == (2.0, None, 1.5, None, 2)
    assert row([1.0, 2.0, None, 4.0], "known") == (2.0, None, 1.5, 3.0, 3) and row([None], "known")[0] is None
    low, high = stats.beta.ppf([0.025, 0.975], [1, 2], [2, 1])
    assert row([1.0, 0.0, None], "share") == (0.5, None, pytest.approx(low), pytest.approx(high), 2)
    assert row([None], "share") == (None, None, None, None, 0)


def numbers_of(**columns):
    for rule in ("", " (best verified)", " (last)"):
        columns.setdefault(f"train within the bound{rule}", [1.0] * len(next(iter(columns.values()))))
    return {k: dict(enumerate(v)) for k, v in columns.items()}


def test_apart_is_a_paired_t_test():
    rng = np.random.default_rng(3)
    for shift in (0.0, 0.4, 0.8, 3.0):
        a, b = rng.normal(size=10), rng.normal(size=10)
        expected = stats.ttest_rel(a + shift, b).pvalue < 0.05
        assert apart(numbers_of(x=a + shift), numbers_of(x=b), "x") == expected
    assert not apart(numbers_of(x=[1.0]), numbers_of(x=[0.0]), "x")


def test_findings_say_who_wins_and_who_dominates():
    table = changed(TABLE, "task.constraint", "loss_gap <= 0.1")
    table["methods"] = {m: {"title": m.upper(), "algorithm": "sgd"} for m in "abc"}
    table["items"] = [{"key": "i", "title": "I", "data": ["generated"], "methods": list("abc")}]
    study = parse(table)
    numbers = {
        "a": numbers_of(**{"test Ina": [0.10, 0.11, 0.12], "test Ind": [0.3, 0.3, 0.3], "test Sp": [0.1, 0.1, 0.1]}),
        "b": numbers_of(**{"test Ina": [0.20, 0.21, 0.22], "test Ind": [0.1, 0.1, 0.1], "test Sp": [0.2, 0.2, 0.2]}),
        "c": numbers_of(**{"test Ina": [0.10, 0.12, 0.12], "test Ind": [0.4, 0.4, 0.4], "test Sp": [0.3, 0.3, 0.3]}),
    }
    numbers["b"]["train within the bound"][1] = 0.0
    block = Block(study, study.items[0], "generated", None, {}, numbers, [])
    found = {f["question"]: f for f in deep_benchmark.findings(block)}
    assert found["within 0.1 on train, model reported"]["tied"] == ["a", "c"]
    text = found["within 0.1 on train, best verified iterate"]["text"]
    assert text.endswith("best verified iterate of every method: A 3 of 3, B 3 of 3, C 3 of 3.")
    lowest = found["lowest inaccuracy on test"]
    assert lowest["winner"] == "a" and lowest["tied"] == ["c"]
    assert lowest["text"] == "Lowest inaccuracy on test: A (0.1100), not told apart from C (0.1133)."
    text = found["lowest independence gap on test"]["text"]
    assert text == "Lowest independence gap on test: B (0.1000), before A (0.3000)."
    ind = found["dominance in (Ind and Ina) on test"]
    assert ind["winner"] is None and ind["dominated"] == {"a": ["c"], "b": [], "c": []}
    assert ind["text"].endswith("not dominated: A, B.")
    sp = found["dominance in (Sp and Ina) on test"]
    assert sp["winner"] == "a" and sp["text"] == "A dominates every other row in (Sp and Ina) on test."


def test_a_run_that_reports_its_start_is_marked_and_wins_nothing():
    table = changed(TABLE, "task.constraint", "loss_gap <= 0.1")
    table["methods"] = {m: {"title": m.upper(), "algorithm": "sgd"} for m in "abc"}
    table["items"] = [{"key": "i", "title": "I", "data": ["generated"], "methods": list("abc")}]
    study = parse(table)
    numbers = {
        "a": numbers_of(**{"test |gap|": [0.05, 0.07, 0.06]}),
        "b": numbers_of(**{"test |gap|": [0.0, 0.0, 0.0]}),
        "c": numbers_of(**{"test |gap|": [0.0, 0.09, 0.09]}),
    }
    first = {"a": [40, 40, 40], "b": [0, 0, 0], "c": [0, 40, 40]}  # steps of the best iterates
    runs = {
        m: [Run({"seed": s}, [], {"best": {"step": k}, "last": {"step": 40}}, "best") for s, k in enumerate(steps)]
        for m, steps in first.items()
    }
    found = {
        f["question"]: f for f in deep_benchmark.findings(Block(study, study.items[0], "g", None, runs, numbers, []))
    }
    text = found["within 0.1 on train, model reported"]["text"]
    assert text.endswith("A 3 of 3, B 3 of 3 (3 only the start), C 3 of 3 (1 only the start).")
    assert "only the start" not in found["within 0.1 on train, last iterate"]["text"]
    smallest = found["smallest gap on test"]
    assert smallest["winner"] == "a" and smallest["value"] == pytest.approx(0.06) and smallest["tied"] == ["c"]


def test_a_study_whose_bound_only_the_start_meets_says_so(tmp_path):
    table = changed(tomllib.loads(TINY.format(budget="40 steps")), "task.constraint", "demographic_parity <= 0.05")
    del table["figures"], table["items"][1]
    run = run_study(parse(table), tmp_path / "out", seeds=1)
    rows = json.loads((run.out / "results.json").read_text())
    by = {(r["row"], r["column"]): r for r in rows}
    assert by["alm", "train |gap|"]["ours"] == 0.0 == by["alm", "test |gap|"]["ours"]  # the start, with equal scores
    assert by["alm", "train within the bound"]["ours"] == 0.0 and by["alm", "test Ina"]["only_start"] == 1
    assert by["sgd", "test Ina"]["only_start"] == 0  # its last iterate
    assert all(
        g >= 0
        for r in read_cell_records(run.out / "cells", "generated.alm.s0")
        for g in (r["test |gap|"], r["train |gap|"])
    )
    pytest.importorskip("matplotlib", reason="figures need the extra 'report'")
    from fairbound.report.study_report import write_report

    said: list[str] = []
    page = write_report(run.out, said.append).read_text(encoding="utf-8")
    assert not said and not (run.out / "figures").exists()  # it states no figure
    assert "best verified iterate; only the start in 1 of 1 runs" in page and "ALM 0 of 1 (1 only the start)" in page


def test_too_few_rows_or_evaluations_make_no_comparison():
    table = changed(TABLE, "task.constraint", "loss_gap <= 0.1")
    table["items"] = [{"key": "i", "title": "I", "data": ["generated"], "methods": ["sgd", "alm"]}]
    study = parse(table)
    numbers = {m: numbers_of(**{"test Ina": [0.1], "test Ind": [0.3]}) for m in ("sgd", "alm")}
    started = {"best": {"step": 0}, "last": {"step": 0}}  # a run that reports its start is no row to compare
    for starts, said in ((("sgd", "alm"), False), (("sgd",), False), ((), True)):
        runs = {
            m: [Run({"seed": 0}, [{}] * 5, started if m in starts else {"best": {"step": 40}, "last": {"step": 40}}, "best")]
            for m in numbers
        }  # fmt: skip
        block = Block(study, study.items[0], "generated", None, runs, numbers, [])
        found = {f["question"]: f for f in deep_benchmark.findings(block)}
        assert ("dominance in (Ind and Ina) on test" in found) == said
        soonest = found["soonest within 0.1 on train, by the mean over 10 evaluations"]["text"]
        assert "the mean over 10 evaluations, of which no run has more than 5: give a larger budget" in soonest


def test_groups_that_the_data_do_not_have_are_refused_before_anything_runs(tmp_path):
    table = changed(TABLE, "data.generated.task.groups", ["0", "one"])
    said: list[str] = []
    with pytest.raises(OptionError, match="data set 'gaussian-parity' has no row of group 'one'; there are: 0, 1"):
        run_study(parse(table), tmp_path / "out", say=said.append)
    assert not said and not list((tmp_path / "out" / "cells").iterdir())
    table = changed(TABLE, "data.generated.task", {"dataset": "loanapp", "group": "race", "groups": ["White", "black"]})
    with pytest.raises(OptionError, match="no row of race 'White'; did you mean 'white'"):
        run_study(parse(table), tmp_path / "loans")
    with pytest.raises(DataError, match="There are: black, hispanic, white"):
        rows_for(0, dataset="loanapp", options={}, group="race", groups=("White", "black"))


def test_the_command_of_a_study_with_a_failed_run_exits_with_1(tmp_path, monkeypatch):
    pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
    from fairbound.cli import reproduce
    from fairbound.cli.options.data import ReproduceOptions

    monkeypatch.setattr(reproduce, "write_report", lambda out, say: out / "report.html")
    text = TINY.format(budget="20 steps").replace('model = "linear"', 'model = "mlp:4"')
    text = text.replace('algorithm = "sgd"', 'algorithm = "sgd"\noptions = { step_size = 1e30 }', 1)
    (tmp_path / "tiny.toml").write_text(text)
    options = dict(study=str(tmp_path / "tiny.toml"), out=tmp_path / "out", only="main", seeds=1)
    outcome = reproduce.run_reproduce(ReproduceOptions(**options))
    assert list(outcome.summary["failures"]) == ["generated.sgd.s0"] and outcome.exit_code == 1
    for only in ("", "main,"):
        with pytest.raises(OptionError, match="no item ''"):
            reproduce.run_reproduce(ReproduceOptions(**{**options, "only": only}))
    again = reproduce.run_reproduce(ReproduceOptions(**{**options, "only": "switching"}))
    assert not again.summary["failures"] and again.exit_code == 0


def test_the_noise_of_a_gap_of_losses_is_told_of_no_other_gap():
    numbers = {"sgd": numbers_of(**{"test loss": [0.5, 0.5], "test SE": [0.01, 0.01]})}
    for bound, told in (
        ("loss_gap <= 0.1", True),
        ("demographic_parity <= 0.1", False),
        ("loss_gap[y=1] <= 0.1", False),
    ):
        study = parse(changed(TABLE, "task.constraint", bound))
        block = Block(study, study.items[0], "generated", None, {}, numbers, [])
        texts = [f["text"] for f in deep_benchmark.findings(block)]
        assert any("would still show a mean gap of 0.0080" in text for text in texts) == told


# -- the report ----------------------------------------------------------------------------------------------------


def test_a_folder_that_holds_another_study_is_refused(tiny, tmp_path):
    run, _, _ = tiny
    text = (run.out.parent / "tiny.toml").read_text().replace('name = "', 'name = "other-', 1)
    (tmp_path / "other.toml").write_text(text)
    before = (run.out / "results.json").read_bytes()
    with pytest.raises(OptionError, match=r"holds the study .* a folder of its own"):
        run_study(tmp_path / "other.toml", run.out)
    assert (run.out / "results.json").read_bytes() == before


def test_the_report_is_drawn_from_the_folder_alone(tiny, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra 'report'")
    from fairbound.report.study_report import write_report

    run, _, _ = tiny
    for name in ("study.json", "results.json", "summary.json", "records.jsonl"):
        shutil.copy(run.out / name, tmp_path / name)
    page = write_report(tmp_path)
    names_ = sorted(p.name for p in (tmp_path / "figures").iterdir())
    kinds = ("densities", "profiles", "spider", "tradeoff", "train")
    expected = [f"main-generated-{k}.{e}" for k in kinds for e in ("png", "svg")]
    expected += [f"switching-generated-train.{e}" for e in ("png", "svg")]
    assert names_ == sorted(expected)
    text = page.read_text(encoding="utf-8")
    assert text.count('<svg class="chart"') == 6 and "<script" not in text
    assert "paper 0.250 ± 0.010" in text and "Which method wins where" in text
    assert "http" not in text.replace("http-equiv", "") and "mathdefault" not in text


def drawn_lines(tiny, block, key):
    """(x, y) of every line of a figure, panel by panel."""
    from matplotlib.figure import Figure

    from fairbound.report.figures import INKS
    from fairbound.report.study_figures import drawings
    from fairbound.report.study_page import rows_of as rows_shown

    _, read, records = tiny
    runs: dict = {}
    for row in records:
        runs.setdefault((row["data"], row["method"]), {}).setdefault(row["seed"], []).append(row)
    shown = read["summary"]["blocks"][block]
    drawing = next(
        d for d in drawings(read["study"], shown, rows_shown(read["results"], shown), runs) if d.name.endswith(key)
    )
    figure = Figure()
    drawing.paint(figure, INKS)
    return [[line.get_data() for line in ax.get_lines()] for ax in figure.axes]


def test_a_curve_is_the_median_of_the_held_records(tiny):
    pytest.importorskip("matplotlib", reason="figures need the extra 'report'")
    _, _, records = tiny
    panels = drawn_lines(tiny, 0, "train")
    assert len(panels) == 4  # loss and gap of two methods
    grid, drawn = panels[0][0]
    runs = [[r for r in records if (r["method"], r["seed"], r["output"]) == ("sgd", s, None)] for s in (0, 1)]
    for t, value in list(zip(grid, drawn, strict=True))[::20]:
        held = [[r["train loss"] for r in run if r["seconds"] <= t] for run in runs]
        assert value == pytest.approx(np.median([h[-1] for h in held if h])) if any(held) else np.isnan(value)


def test_a_profile_is_the_share_of_runs(tiny):
    pytest.importorskip("matplotlib", reason="figures need the extra 'report'")
    _, _, records = tiny
    panels = drawn_lines(tiny, 0, "profiles")
    grid, drawn = panels[1][1]  # ALM over calls
    runs = [[r for r in records if (r["method"], r["seed"], r["output"]) == ("alm", s, None)] for s in (0, 1)]
    for t, value in list(zip(grid, drawn, strict=True))[::20]:
        reached = [[r["train within the bound"] for r in run if r["calls"] <= t][-1] for run in runs]
        assert value == np.mean(reached)


def test_names_given_by_people_are_escaped_and_figures_are_the_same_each_time(tiny, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra 'report'")
    from fairbound.report.study_report import write_report

    _, read, _ = tiny
    study = json.loads(json.dumps(read["study"]))
    study["methods"]["sgd"]["title"] = "<b>$x_1^2$</b>\u202e & co"
    study["items"][0]["figures"] = ["train"]
    shutil.copy(tiny[0].out / "records.jsonl", tmp_path / "records.jsonl")
    study["data"]["generated"]["title"] = study["title"] = "<img src=x>"
    for name, value in (("study", study), ("results", read["results"]), ("summary", read["summary"])):
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    text = write_report(tmp_path).read_text(encoding="utf-8")
    assert "<img" not in text and "<b>$" not in text and "\u202e" not in text and "&lt;b&gt;$x_1^2$" in text
    before = {p.name: p.read_bytes() for p in (tmp_path / "figures").iterdir()}
    write_report(tmp_path)
    assert {p.name: p.read_bytes() for p in (tmp_path / "figures").iterdir()} == before != {}


def test_a_folder_without_a_study_is_named(tmp_path):
    from fairbound.report.study_report import write_report

    with pytest.raises(DataError, match="holds no study"):
        write_report(tmp_path)


def test_a_cell_is_done_only_with_its_own_settings(tiny):
    run, _, _ = tiny
    cell = load_spec(run.out.parent / "tiny.toml").cells()[0]
    assert is_done(cell, run.out / "cells")
    assert not is_done(replace(cell, budget="1 step"), run.out / "cells")
