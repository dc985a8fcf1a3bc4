"""What the README and the examples show runs as it stands, in an empty folder, on the embedded sample."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fairbound.fairness.notions import NOTIONS
from fairbound.report import schema

pytest.importorskip("typer", reason="the README's first example needs the extra 'cli'")
pytest.importorskip("matplotlib", reason="the page's charts need the extra 'report'")
ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(bash|python)\n(.*?)^```$", README, flags=re.M | re.S)
# a verdict is no failure: exit codes 1 and 3 of fairbound go on, any other ends the script
VERDICTS_PASS = "set -uo pipefail; trap 'code=$?; case $code in 1|3) ;; *) exit $code ;; esac' ERR\n"


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    env = {**os.environ, "PATH": path, "PYTHONWARNINGS": "error", "OMP_NUM_THREADS": "1"}
    env.pop("FAIRBOUND_DATA", None)
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, encoding="utf-8", timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done


def script(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return run(["bash", "-c", f"{VERDICTS_PASS}{text}\nexit 0"], folder)


def test_the_readme_has_its_three_examples():
    assert [language for language, _ in BLOCKS] == ["bash", "python", "python"]


def test_the_command_line_example(tmp_path):
    done = script(BLOCKS[0][1], tmp_path)
    for folder in ("fair", "audited"):
        schema.validate(json.loads((tmp_path / folder / "audit.json").read_text()))
        assert (tmp_path / folder / "report.html").stat().st_size > 10_000
    assert "unconstrained" in done.stdout and "file that the model was trained on" in done.stdout
    assert len(json.loads((tmp_path / "cost" / "frontier.json").read_text())["points"]) == 6


@pytest.mark.parametrize("place", [1, 2], ids=["scikit-learn", "PyTorch"])
def test_the_python_examples(place, tmp_path):
    done = run([sys.executable, "-c", BLOCKS[place][1]], tmp_path)
    assert "demographic_parity <= 0.03: Measured" in done.stdout


@pytest.mark.parametrize("example", ["audit_a_column.sh", "choose_a_bound.py", "class_risk.py", "two_attributes.py"])
def test_the_examples(example, tmp_path):
    interpreter = "bash" if example.endswith(".sh") else sys.executable
    assert run([interpreter, str(ROOT / "examples" / example)], tmp_path).stdout


def test_every_notion_and_every_linked_file_is_there():
    for name in NOTIONS:
        assert f"`{name}`" in README, name
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_demo_of_the_makefile_is_the_command_that_the_readme_means(tmp_path):
    (line,) = re.findall(r"\$\(BIN\)/fairbound (fit .*?) \|\|", (ROOT / "Makefile").read_text())
    assert "--data loanapp" in line and '"demographic_parity <= 0.03"' in line
    done = script(f"fairbound {line}", tmp_path)
    for shown in ("Accuracy", "AUC", "bound", "measured", "constrained", "unconstrained", "demo-out/report.html"):
        assert shown in done.stdout
    if "Not enough evidence" in done.stdout:
        assert "held-out rows of this kind would decide it" in done.stdout
