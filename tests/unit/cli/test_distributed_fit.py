"""`fairbound fit --distributed`: under torchrun one model of all rows, judged and written once."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import fairbound as fb
from fairbound.cli.app import main

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
pytest.importorskip("jinja2", reason="the page needs the extra 'report'")


@pytest.fixture
def given(tmp_path):
    rng = np.random.default_rng(0)
    sex, other = rng.choice(["f", "m"], 900), rng.choice(["p", "q", "r"], 900)
    x = rng.normal(size=900) + (sex == "m")
    y = np.where(x + rng.normal(size=900) > 0.5, "yes", "no")
    pd.DataFrame({"x": x, "other": other, "sex": sex, "y": y}).to_csv(tmp_path / "a.csv", index=False)
    return [
        "fit", "--data", f"{tmp_path}/a.csv", "--label", "y", "--group", "sex",
        "--constraint", "demographic_parity <= 0.05", "--json"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ([], "torchrun --nproc"),
        (["--certify"], "--certify is not for several"),
        (["--chunk-rows", "50"], "--chunk-rows is not for"),
    ],
)
def test_one_process_and_what_one_alone_can_do_are_refused(given, more, says, tmp_path, capsys):
    assert main([*given, "--distributed", *more, "--out", f"{tmp_path}/out"]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.long
def test_two_processes_write_the_model_of_one(given, tmp_path, capsys):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "fairbound"]
    ran = subprocess.run(
        [*torchrun, *given, "--distributed", "--out", f"{tmp_path}/two"], capture_output=True, text=True, timeout=400
    )
    assert ran.returncode == 0, ran.stderr
    (said,) = ran.stdout.strip().splitlines()
    two = json.loads(said)
    assert main([*given, "--out", f"{tmp_path}/one"]) in (0, 1, 3)
    one = json.loads(capsys.readouterr().out)
    assert two["rows"] == one["rows"] and two["verdict"] == one["verdict"]
    models = [fb.FairClassifier.load(tmp_path / name / "model") for name in ("one", "two")]
    table = pd.read_csv(tmp_path / "a.csv")
    scores = [m.decision_function(table[["x", "other"]]) for m in models]
    assert np.corrcoef(*scores)[0, 1] > 0.999
    assert [abs(a["train_value"] - 0.05) < 0.01 for m in models for a in m.fit_report_["constraints"]] == [True, True]
    assert models[1].fit_report_["feasible"]
