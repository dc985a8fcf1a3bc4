"""The wheel and the sdist: built from a copy of the tree, whole, and usable where the tree is not. No network is needed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = "import sys, setuptools.build_meta as b; print(getattr(b, sys.argv[1])(sys.argv[2]))"
SNIPPET = """
import fairbound as fb
from fairbound.optim import Dual

model: fb.FairClassifier = fb.FairClassifier("demographic_parity <= 0.02", budget="10s", random_state=None)
dual = Dual(["loss_gap <= 0.01"], group_names=["a", "b"])
steps: int = dual.m
wrong: str = dual.m
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Folder with a wheel and an sdist of a copy of what the package is made of."""
    folder = tmp_path_factory.mktemp("release")
    copy = folder / "copy"
    copy.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for hook in ("build_wheel", "build_sdist"):
        done = subprocess.run(
            [sys.executable, "-c", BUILD, hook, str(folder)], cwd=copy, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr[-2000:]
    return folder


def contents(names):
    return {name.split("fairbound/", 1)[1] for name in names if "fairbound/" in name}


def test_both_hold_every_file_of_the_package(built):
    here = {
        path.relative_to(ROOT / "src" / "fairbound").as_posix()
        for path in (ROOT / "src" / "fairbound").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        assert contents(wheel.namelist()) == here
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        assert contents(n.split("/src/", 1)[1] for n in sdist.getnames() if "/src/fairbound/" in n) >= here


def installed(built):
    target = built / "installed"
    if not target.exists():
        with zipfile.ZipFile(
            next(built.glob("*.whl"))
        ) as wheel:  # a wheel without scripts is installed by unpacking it
            wheel.extractall(target)
    return target


def run(built, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(installed(built))}
    return subprocess.run(arguments, cwd=built, env=environment, capture_output=True, text=True, timeout=500)


def test_the_wheel_runs_away_from_the_tree(built):
    code = "import fairbound, sys; print(fairbound.__file__); from fairbound.cli.app import main; sys.exit(main(['datasets', 'list']))"
    done = run(built, sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    assert str(installed(built)) in done.stdout and "loanapp" in done.stdout


@pytest.mark.long
def test_a_users_types_are_checked_against_the_package(built):
    (built / "mine.py").write_text(SNIPPET)
    done = run(built, sys.executable, "-m", "mypy", "--no-incremental", "--ignore-missing-imports", "mine.py")
    assert done.stdout.count("error:") == 1 and "mine.py:8: error: Incompatible types in assignment" in done.stdout, (
        done.stdout
    )
