"""A study of a user's own costs a TOML file and one module of measures, as docs/extending.md says."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from fnmatch import fnmatch
from pathlib import Path

import pytest

from fairbound.base.errors import DataError, OptionError
from fairbound.studies import load_spec, run_study

DOCS = Path(__file__).parents[3] / "docs" / "extending.md"
MINE = '''
from dataclasses import dataclass, replace
from typing import ClassVar

from fairbound.methods import State


@dataclass(frozen=True, kw_only=True)
class Halving:
    """Gradient steps whose size halves every `every` steps."""

    every: int = 50
    name: ClassVar[str] = "halving"
    presets: ClassVar[dict] = {"slow": {"every": 100}}
    needs: ClassVar[frozenset] = frozenset()

    def init(self, problem, x, draws):
        return State(x=x, k=0, multipliers=x.new_zeros(problem.m))

    def step(self, state, problem, draws):
        _, slope = problem.gradient(state.x, draws("mine", state.k), (1.0, None))
        state.x.copy_(problem.domain.project(state.x - 0.5 ** (1 + state.k // self.every) * slope))
        return replace(state, k=state.k + 1)
'''


@pytest.fixture(autouse=True)
def imports_are_forgotten():
    yield
    for name in ("my_methods", "my_notions", "my_measures", "plain_measures"):
        sys.modules.pop(name, None)


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The study of docs/extending.md in a folder of its own, on the path."""
    section = DOCS.read_text(encoding="utf-8").split("## A study\n")[1].split("\n## ")[0]
    toml, measures = (re.search(rf"```{kind}\n(.*?)```", section, re.S)[1] for kind in ("toml", "python"))
    toml = toml.replace('methods = ["sgd"]', 'methods = ["sgd", "mine"]')
    toml += textwrap.dedent("""
        [methods.mine]
        title = "Mine"
        algorithm = "study_methods:Halving:slow"
        """)
    (tmp_path / "study_methods.py").write_text(MINE)
    (tmp_path / "my_study.toml").write_text(toml)
    (tmp_path / "my_measures.py").write_text(measures)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_study_is_a_toml_and_one_file_of_measures(own):
    run = run_study(own / "my_study.toml", own / "out")
    assert not run.failed and run.done == 2 * len(run.study["methods"])
    results = json.loads((run.out / "results.json").read_text())
    records = [json.loads(line) for line in (run.out / "records.jsonl").read_text().splitlines()]
    for method in run.study["methods"]:
        row = next(r for r in results if (r["row"], r["column"]) == (method, "distance"))
        last = [[r for r in records if (r["method"], r["seed"], r["output"]) == (method, s, None)][-1] for s in (0, 1)]
        assert row["ours"] == pytest.approx(sum(r["distance"] for r in last) / 2) and row["n"] == 2
        assert row["ours"] < 0.5 * records[0]["distance"]
    row = next(r for r in results if r["row"] == "sgd" and r["column"] == "distance")
    assert (row["item"], row["paper"], row["paper_std"]) == ("main", 0.1, 0.02)
    summary = json.loads((run.out / "summary.json").read_text())
    assert summary["blocks"][0]["findings"][0]["text"].startswith("Smallest distance: ")


def test_a_study_finished_with_other_jobs_says_how_each_cell_ran(own):
    pytest.importorskip("matplotlib", reason="figures need the extra 'report'")
    from fairbound.report.study_report import write_report

    run_study(own / "my_study.toml", own / "out", seeds=1, jobs=2, backend="threading")
    run = run_study(own / "my_study.toml", own / "out", seeds=1)
    assert (run.done, run.reused) == (0, 2) and [p["jobs"] for p in run.study["paces"]] == [2]
    assert "2 cells at a time (threading)" in write_report(run.out).read_text(encoding="utf-8")
    run = run_study(own / "my_study.toml", own / "out", seeds=2)
    assert [(p["jobs"], p["cells"]) for p in run.study["paces"]] == [(2, 2), (1, 2)]
    text = write_report(run.out).read_text(encoding="utf-8")
    assert "2 of the cells: 2 cells at a time" in text and "2 of the cells: 1 cell at a time" in text


def test_one_run_of_each_method_is_said_to_tell_nothing_apart(own):
    summary = json.loads((run_study(own / "my_study.toml", own / "out", seeds=1).out / "summary.json").read_text())
    text = summary["blocks"][0]["findings"][0]["text"]
    assert "; one run of a method cannot tell it apart from " in text and text.endswith(", 3 of the same seeds can.")
    assert "not told apart" not in text


def test_its_page_is_drawn_like_any_other(own):
    pytest.importorskip("matplotlib", reason="figures need the extra 'report'")
    from fairbound.report.study_report import write_report

    run = run_study(own / "my_study.toml", own / "out", seeds=1)
    text = write_report(run.out).read_text(encoding="utf-8")
    assert sorted(p.name for p in (run.out / "figures").iterdir()) == ["main-wide-path.png", "main-wide-path.svg"]
    assert text.count('<svg class="chart"') == 1 and "paper 0.100 ± 0.020" in text


def test_columns_that_are_none_are_named_with_the_nearest(own):
    pytest.importorskip("matplotlib", reason="figures need the extra 'report'")
    from fairbound.report.study_report import write_report

    toml, said = (own / "my_study.toml").read_text(), []
    (own / "my_study.toml").write_text(toml.replace('["distance*"]', '["distance*", "stepps"]'))
    write_report(run_study(own / "my_study.toml", own / "out", seeds=1).out, said.append)
    assert any(
        "a table asks for 'stepps', which is no column of results.json; did you mean 'steps'" in line for line in said
    )
    (own / "my_study.toml").write_text(toml.replace('y = ["distance"]', 'y = ["distence"]'))
    run = run_study(own / "my_study.toml", own / "out", seeds=1)
    with pytest.raises(
        DataError, match=r"figure 'path' draws 'distence', which is no column .* did you mean 'distance'"
    ):
        write_report(run.out)
    assert run.done == 0 and run.reused == 2


def test_columns_of_a_table_of_items_that_are_not_run_are_not_asked_for(own):
    pytest.importorskip("matplotlib", reason="figures need the extra 'report'")
    from fairbound.report.study_report import write_report

    toml = (own / "my_study.toml").read_text()
    start = toml.index("[[items]]")
    item = toml[start : toml.index("\n[", start)]
    other = '[[tables]]\ncaption = "Of the other."\ncolumns = ["steps", "a column of its own"]\nitems = ["other"]\n'
    toml = toml.replace(item, f"{item}\n{item.replace('main', 'other')}\n{other}", 1)
    (own / "my_study.toml").write_text(toml)
    said: list[str] = []
    page = write_report(run_study(own / "my_study.toml", own / "out", seeds=1, only=["main"]).out, said.append)
    assert not any("a table asks for" in line for line in said)
    assert "Of the other." not in page.read_text(encoding="utf-8")
    page = write_report(run_study(own / "my_study.toml", own / "out", seeds=1).out, said.append)
    assert sum("a table asks for 'a column of its own'" in line for line in said) == 1
    assert page.read_text(encoding="utf-8").count("Of the other.") == 1
    (own / "my_study.toml").write_text(toml.replace('items = ["other"]', 'items = ["othr"]'))
    with pytest.raises(OptionError, match="has no item 'othr'; did you mean 'other'"):
        load_spec(own / "my_study.toml")


def test_a_wrong_option_of_its_task_is_named_before_anything_runs(own):
    text = (own / "my_study.toml").read_text().replace("width = 2.0", "widht = 2.0")
    (own / "my_study.toml").write_text(text)
    with pytest.raises(OptionError, match="data 'wide' with method 'sgd' has no key 'widht'; did you mean 'width'"):
        load_spec(own / "my_study.toml")


def test_a_task_without_options_needs_none(own):
    plain = (own / "my_measures.py").read_text().replace("asked = Options(**cell.task)", "asked = Asked(target=1.0)")
    (own / "plain_measures.py").write_text(plain.replace("class Options", "class Asked"))
    text = (own / "my_study.toml").read_text().replace("my_measures", "plain_measures")
    (own / "my_study.toml").write_text(text)
    with pytest.raises(OptionError, match="has no key 'target'; there are: none"):
        load_spec(own / "my_study.toml")
    (own / "my_study.toml").write_text(re.sub(r"(?m)^task = .*$", "", text))
    assert not run_study(own / "my_study.toml", own / "out").failed


def test_the_whole_study_of_the_page_compares_a_method_and_a_notion_of_ones_own(tmp_path, monkeypatch):
    """The TOML of docs/reproduce.md with the method and the notion of docs/extending.md, on a few steps."""
    text = DOCS.read_text(encoding="utf-8")
    for name, part in (("my_methods", "## A method\n"), ("my_notions", "## A notion\n")):
        (tmp_path / f"{name}.py").write_text(re.search(r"```python\n(.*?)```", text.split(part)[1], re.S)[1])
    page = DOCS.with_name("reproduce.md").read_text(encoding="utf-8").split("## A method, a constraint, a study")[1]
    (tmp_path / "mine.toml").write_text(re.search(r"```toml\n(.*?)```", page, re.S)[1])
    monkeypatch.syspath_prepend(tmp_path)
    said: list[str] = []
    run = run_study(tmp_path / "mine.toml", tmp_path / "out", seeds=1, budget="2 steps", say=said.append)
    assert not run.failed and run.done == 8
    results = json.loads((run.out / "results.json").read_text())
    assert {r["row"] for r in results} == {"mine", "mine-strict", "alm", "sgd"}
    assert {r["data"] for r in results} == {"adult", "loans"} and {r["output"] for r in results} == {"best"}
    for pattern in run.study["tables"][0]["columns"]:
        assert any(fnmatch(r["column"], pattern) for r in results), pattern
    assert set(run.study["measured"]) == {"Splits", "Best verified", "Only the start"}
    assert not any("loosen it" in line for line in said)  # advice is for a run by itself
