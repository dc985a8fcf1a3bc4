"""The sweep as people run it: killed and restarted, on several kinds of workers, as a command, on real rows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fairbound.solver import checkpoint as store
from fairbound.studies import run_study
from study_examples import write_tiny

TIMED = ("seconds", "cpu", "jobs", "backend", "slowdown")
RUN = "import sys; from fairbound.studies import run_study; run_study(sys.argv[1], sys.argv[2], only=['main'])"


def evaluations(out: Path) -> list[dict]:
    """What a run with a step budget repeats exactly."""
    lines = (out / "records.jsonl").read_text(encoding="utf-8").splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in TIMED} for line in lines]


def start(spec: Path, out: Path) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.Popen(
        [sys.executable, "-c", RUN, str(spec), str(out)], env=environment, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def wait_for(found, process: subprocess.Popen, seconds: float = 120.0) -> None:
    until = time.monotonic() + seconds
    while not found():
        if process.poll() is not None or time.monotonic() > until:
            pytest.fail(f"the sweep did not get so far (exit code {process.poll()})")
        time.sleep(0.01)


def kill(process: subprocess.Popen) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_a_killed_sweep_restarts_where_it_stopped_and_its_cell_goes_on_from_its_checkpoint(tmp_path):
    spec, out = write_tiny(tmp_path, "2000 steps"), tmp_path / "out"
    spec.write_text(
        spec.read_text(encoding="utf-8")
        .replace('methods = ["sgd", "alm"]', 'methods = ["alm"]')
        .replace("checkpoint_every = 0.1", "checkpoint_every = 0.02"),
        encoding="utf-8",
    )
    process = start(spec, out)
    wait_for(lambda: list((out / "cells").glob("generated.alm.s1.*.checkpoint")), process)
    kill(process)
    (checkpoint,) = (out / "cells").glob("generated.alm.*.checkpoint")
    finished = {p: p.stat().st_mtime_ns for p in (out / "cells").glob("*.json")}
    assert [p.name for p in finished] == ["generated.alm.s0.json"] and not (out / "results.json").exists()
    assert 0 < store.load(checkpoint, {})["next_record"] <= 2000
    run = run_study(spec, out, only=["main"])
    assert (run.reused, run.done) == (1, 1)
    assert {p: p.stat().st_mtime_ns for p in finished} == finished
    assert not list((out / "cells").glob("*.checkpoint"))
    assert evaluations(out) == evaluations(run_study(spec, tmp_path / "unbroken", only=["main"]).out)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The folder of the tiny study, run by one process."""
    folder = tmp_path_factory.mktemp("alone")
    return run_study(write_tiny(folder), folder / "out").out


@pytest.mark.parametrize("backend", ["loky", "ray", "dask"])
@pytest.mark.filterwarnings("default")  # the engines' own warnings are theirs
def test_two_workers_of_every_engine_give_what_one_gives(backend, alone, tmp_path):
    if backend in ("ray", "dask"):
        module = {"ray": "ray", "dask": "dask.distributed"}[backend]
        pytest.importorskip(module, reason=f"the extra {backend!r} is not installed")
    spec = write_tiny(tmp_path)
    run = run_study(spec, tmp_path / backend, jobs=2, backend=backend)
    assert run.done == 6 and not run.failed
    assert evaluations(run.out) == evaluations(alone)
    slowdown = run.study["slowdown"]
    assert slowdown["jobs"] == 2 and len(slowdown["together"]) == 2 and slowdown["slowdown"] > 0


def test_the_command_writes_everything_and_says_who_wins(tmp_path, capsys):
    pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
    pytest.importorskip("matplotlib", reason="figures need the extra 'report'")
    from fairbound.cli.app import main

    out = tmp_path / "out"
    asked = ["reproduce", str(write_tiny(tmp_path)), "--quick", "--only", "main", "--out", str(out), "--json"]
    assert main(asked) == 0
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["cells"] == {"asked": 2, "finished": 2} and outcome["ran"] == 2
    assert any("Lowest test loss" in text for text in outcome["findings"]["main/generated"])
    assert {p.name for p in out.iterdir()} == {
        "cells", "figures", "records.jsonl", "report.html", "results.json", "study.json", "summary.json",
    }  # fmt: skip
    assert main(["reproduce", "deep-benchmrk", "--out", str(out)]) == 2
    assert "did you mean 'deep-benchmark'" in capsys.readouterr().err


def test_the_benchmark_runs_on_real_rows_with_all_methods(data_dir, tmp_path):
    if not (data_dir / "acs" / "acsincome_2018_OK_partial.csv.gz").is_file():
        pytest.skip("no ACSIncome extract of Oklahoma in the data folder")
    run = run_study("deep-benchmark", tmp_path, quick=True, seeds=1, budget="120 steps", data_dir=data_dir)
    assert run.done == 10 and not run.failed
    results = json.loads((tmp_path / "results.json").read_text())
    row = next(r for r in results if (r["item"], r["row"], r["column"]) == ("table3", "sgd", "test Ind"))
    assert row["paper"] == 0.096775 and row["data"] == "acs-ok-partial" and row["n"] == 1
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["blocks"][0]["about"][0].startswith("6,592 training rows, 1,679 of them Non-White; ")
