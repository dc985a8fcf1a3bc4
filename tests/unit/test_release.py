"""The wheel and the sdist: built from a copy of the tree, whole, and usable where the tree is not. No network is needed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
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


@pytest.fixture(scope="module", params=["*.whl", pytest.param("*.tar.gz", marks=pytest.mark.long)])
def environment(built, request):
    """The folder of programs of a new environment into which pip has installed the wheel, or the sdist, with this one's other packages."""
    folder = built / request.param[-2:]
    venv.create(folder, symlinks=True)
    (program,) = folder.glob("bin/python")
    (packages,) = folder.glob("lib/*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    done = run(
        folder, sys.executable, "-m", "pip", "--python", program, "install", "--no-deps", "--no-index", "--no-build-isolation",
        next(built.glob(request.param)),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return program.parent


def run(folder, *arguments):
    without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(arguments, cwd=folder, env=without, capture_output=True, text=True, timeout=500)


def test_both_run_in_a_new_environment_away_from_the_tree(environment):
    found = run(environment, environment / "python", "-c", "import fairbound; print(fairbound.__file__)")
    assert found.stdout.startswith(str(environment.parent)), found
    done = run(environment, environment / "fairbound", "datasets", "list")
    assert done.returncode == 0 and "loanapp" in done.stdout, done.stderr


@pytest.mark.long
def test_a_users_types_are_checked_against_the_package(environment):
    (environment / "mine.py").write_text(SNIPPET)
    options = ("--no-incremental", "--ignore-missing-imports", "--python-executable", environment / "python")
    done = run(environment, sys.executable, "-m", "mypy", *options, "mine.py")
    assert done.stdout.count("error:") == 1 and "mine.py:8: error: Incompatible types in assignment" in done.stdout, (
        done.stdout
    )


def test_the_version_stands_in_one_place():
    """What cites the library names no version of its own, and the package takes its from the module."""
    assert "\nversion:" not in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert 'attr = "fairbound.base.version.__version__"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
