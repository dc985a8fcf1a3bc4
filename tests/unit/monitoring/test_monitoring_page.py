"""What docs/monitoring.md shows runs as it stands."""

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairbound.cli.app import main

pytest.importorskip("typer", reason="the page's commands need the extra 'cli'")
pytest.importorskip("matplotlib", reason="the page's charts need the extra 'report'")
TEXT = (Path(__file__).resolve().parents[3] / "docs" / "monitoring.md").read_text(encoding="utf-8")
PYTHON, LOSSES, AREAS = re.findall(r"^```python\n(.*?)^```$", TEXT, flags=re.M | re.S)
(BASH,) = re.findall(r"^```bash\n(.*?)^```$", TEXT, flags=re.M | re.S)


def test_the_example_in_python_alarms(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(PYTHON, {})
    alarms, verdict = capsys.readouterr().out.splitlines()
    assert alarms.startswith("{'demographic_parity <= 0.05': ") and verdict.startswith("violated 0.05")


def test_the_example_of_losses_and_weights_runs(capsys):
    exec(LOSSES, {})
    rows, verdict = capsys.readouterr().out.split()
    assert 0 < int(rows) < 20_000 and verdict == "violated"


def test_the_example_of_areas_runs(capsys):
    exec(AREAS, {})
    assert capsys.readouterr().out.strip() == "{'auc_parity[intra] <= 0.1': 'violated'}"


def test_the_commands_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for week in (1, 2):
        columns = {"sex": ["f", "m"], "paid": ["no", "yes"], "decision": [0, 1]}
        pd.DataFrame({c: rng.choice(v, 300) for c, v in columns.items()}).to_csv(f"week{week}.csv", index=False)
    for line in BASH.splitlines():
        assert main(shlex.split(line)[1:]) == 3
    (page,) = tmp_path.glob("**/report.html")
    assert "with 600 decisions" in page.read_text()
