"""`fairbound monitor` killed or failing while it writes: the state and its report are of the same decisions again after the
next call."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fairbound as fb

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
pytest.importorskip("matplotlib", reason="the page's charts need the extra 'report'")

BOUND = ("--constraint", "demographic_parity <= 0.2")
PAGES = ("audit.json", "report.html", "model_card.md", "impact.csv")


class KilledError(BaseException):
    """What stands for a signal that ends the process."""


@pytest.fixture
def cut_short(monkeypatch):
    """A call by which the first `steps` renames and removals of files in a folder are done, and the next kills."""
    replace, unlink, done = os.replace, Path.unlink, []

    def counted(do, name, *arguments, **options):
        if not name.endswith((".part", ".lock")):
            if len(done) == counted.steps:
                raise KilledError
            done.append(name)
        return do(*arguments, **options)

    monkeypatch.setattr(os, "replace", lambda part, target: counted(replace, str(target), part, target))
    monkeypatch.setattr(Path, "unlink", lambda path, **options: counted(unlink, str(path), path, **options))

    def start(steps: int | None) -> list[str]:
        done.clear()
        counted.steps = steps
        return done

    start(None)
    return start


def decisions(path: Path, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"loan": np.arange(n) + 10_000 * seed, "sex": rng.choice(["F", "M"], n)})
    for name in ("paid", "granted"):
        frame[name] = rng.choice(["no", "yes"], n)
    frame.to_csv(path, index=False)


def rows_of(state: Path) -> tuple[int, int, int, bool]:
    """Decisions that the state, audit.json and the page are of, and whether each other page is there."""
    found = json.loads((state / "audit.json").read_text())
    of_page = max(n for n in (800, 1400) if f"over {n:,} decisions" in (state / "report.html").read_text())
    return (
        fb.Monitor.load(state / "monitor.json").rows,
        found["data"]["rows"],
        of_page,
        all((state / p).exists() for p in PAGES),
    )


@pytest.fixture
def begun(run, tmp_path):
    """A state of 800 decisions, and the arguments of a call that counts 600 more; with ids or without."""

    def make(*by_id: str) -> list[object]:
        for day, n in ((1, 800), (2, 600), (3, 0)):
            decisions(tmp_path / f"{day}.csv", n, day)
        args = ["monitor", "--label", "paid", "--group", "sex", "--score", "granted", *by_id]
        code, _, err = run(*args, "--state", tmp_path / "begun", "--data", tmp_path / "1.csv", *BOUND)
        assert code == 0, err
        return args

    return make


@pytest.mark.parametrize(("by_id", "after"), [((), "2.csv"), (("--id", "loan"), "3.csv")])
def test_a_call_that_is_killed_between_any_two_files_can_be_run_again(run, tmp_path, begun, cut_short, by_id, after):
    """after: the file of the next call, which is the same again or that of a quiet day."""
    args = begun(*by_id)
    shutil.copytree(tmp_path / "begun", tmp_path / "whole")
    done = cut_short(None)
    assert run(*args, "--state", tmp_path / "whole", "--data", tmp_path / "2.csv")[0] == 0
    steps = list(done)
    assert Path(steps[-1]).name == "monitor.json" and len(steps) > 8
    counted = 1400 if after == "2.csv" else 800
    for at in range(len(steps)):
        state = tmp_path / str(at)
        shutil.copytree(tmp_path / "begun", state)
        cut_short(at)
        with pytest.raises(KilledError):
            run(*args, "--state", state, "--data", tmp_path / "2.csv")
        cut_short(None)
        assert fb.Monitor.load(state / "monitor.json").rows == 800
        code, _, err = run(*args, "--state", state, "--data", tmp_path / after)
        assert code == 0 and rows_of(state) == (counted, counted, counted, True), (steps[at], err)


@pytest.mark.parametrize("by_id", [(), ("--id", "loan")])
def test_a_report_of_other_decisions_than_the_state_is_written_again(run, tmp_path, begun, by_id):
    """As where the report could not be written after the state."""
    args = begun(*by_id)
    older = tmp_path / "older"
    shutil.copytree(tmp_path / "begun", older)
    assert run(*args, "--state", tmp_path / "begun", "--data", tmp_path / "2.csv")[0] == 0
    for after in ("2.csv", "3.csv"):
        state = tmp_path / f"state-{after}"
        shutil.copytree(older, state)
        shutil.copy(tmp_path / "begun" / "monitor.json", state)
        code, out, err = run(*args, "--state", state, "--data", tmp_path / after, "--json")
        said = json.loads(out)
        assert code == 0 and said["counted"] == 0 and "is written again" in said["warnings"][0], err
        assert rows_of(state) == (1400, 1400, 1400, True)
        assert (state / "monitor.json").read_bytes() == (tmp_path / "begun" / "monitor.json").read_bytes()
        code, out, err = run(*args, "--state", state, "--data", tmp_path / after, "--json")
        if after == "2.csv" and not by_id:
            assert code == 2 and "would count twice" in err
        else:
            assert code == 0 and "written again" not in out


def test_the_exit_code_of_a_report_written_again_is_that_of_its_verdict(run, tmp_path):
    args = ["monitor", "--state", tmp_path / "state", "--label", "paid", "--group", "sex", "--score", "granted"]
    decisions(tmp_path / "1.csv", 800, 1)
    decisions(tmp_path / "2.csv", 0, 2)
    assert run(*args, "--data", tmp_path / "1.csv", "--constraint", "demographic_parity <= 0.05")[0] == 3
    assert run(*args, "--data", tmp_path / "2.csv")[0] == 0
    for after in ("1.csv", "2.csv"):
        (tmp_path / "state" / "audit.json").unlink()
        assert run(*args, "--data", tmp_path / after)[0] == 3


def test_a_page_that_cannot_be_written_leaves_the_state_as_it_was(run, tmp_path, begun):
    args = [*begun(), "--state", tmp_path / "begun", "--data", tmp_path / "2.csv"]
    page, state = tmp_path / "begun" / "report.html", tmp_path / "begun" / "monitor.json"
    before = state.read_bytes()
    page.unlink()
    page.mkdir()
    code, _, err = run(*args)
    assert code == 2 and "report.html" in err and state.read_bytes() == before
    page.rmdir()
    assert run(*args)[0] == 0 and rows_of(tmp_path / "begun") == (1400, 1400, 1400, True)
