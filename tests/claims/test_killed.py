"""Commands killed at random moments: what they left is never read as whole unless it is, and the same command then finishes cleanly."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fairbound.base.errors import FairboundError
from fairbound.estimators.saving.folder import load_folder

KILLS = 34
COMMON = ["--data", "loanapp", "--budget", "400 steps", "--algorithm", "alm", "--seed", "0"]
COMMANDS = {
    "fit": ["fit", *COMMON, "--no-baseline", "--constraint", "demographic_parity <= 0.1"],
    "frontier": ["frontier", *COMMON, "--constraint", "demographic_parity"],
    "reproduce": ["reproduce", "deep-benchmark", "--quick", "--seeds", "1", "--budget", "150 steps"],
}
OF_THE_CLOCK = ("seconds", "cpu", "slowdown")


def started(command: str, out: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "fairbound", *COMMANDS[command], "--out", str(out), "--quiet"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def whole(out: Path) -> None:
    """Every JSON file parses, every line of records but a last one too, and a model loads or is refused in words."""
    for path in out.rglob("*.json"):
        json.loads(path.read_text(encoding="utf-8"))
    for path in out.rglob("*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines()[:-1]:
            json.loads(line)
    for manifest in out.rglob("model.json"):
        with contextlib.suppress(FairboundError):
            load_folder(manifest.parent)


def numbers(out: Path) -> dict:
    """What the command found, without times and places."""
    found = {}
    for path in sorted(out.rglob("audit.json")) + sorted(out.rglob("frontier.json")):
        text = json.loads(path.read_text(encoding="utf-8"))
        for point in text.get("points", ()):
            del point["seconds"]
        found[str(path.relative_to(out))] = {
            k: text[k] for k in ("verdict", "constraints", "metrics", "points") if k in text
        }
    for path in sorted(out.rglob("cells/*.jsonl")):
        records = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        found[path.name] = [{k: v for k, v in record.items() if k not in OF_THE_CLOCK} for record in records]
    assert found
    return found


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS)
def test_a_killed_command_leaves_nothing_half_written_and_runs_again(command, tmp_path):
    if command == "reproduce" and "FAIRBOUND_DATA" not in os.environ:
        pytest.skip("no real data")
    begin = time.monotonic()
    assert started(command, tmp_path / "whole").wait() in (0, 1, 3)
    took, rng = time.monotonic() - begin, random.Random(0)
    out = tmp_path / "killed"
    for _ in range(int(os.environ.get("FAIRBOUND_KILLS", KILLS))):
        process = started(command, out)
        time.sleep(rng.uniform(0, took))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if out.is_dir():
            whole(out)
    assert started(command, out).wait() in (0, 1, 3)
    whole(out)
    assert numbers(out) == numbers(tmp_path / "whole")
