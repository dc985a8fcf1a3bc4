"""Modules of a user's own are found on Python's path, then in the folder that the program runs in."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fairbound.base.errors import OptionError
from fairbound.base.own import own_module


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder that the program runs in and that is not on Python's path."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    for name in ("own_measures", "own_helpers"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return folder


def test_the_folder_of_the_command_goes_last_and_only_where_it_holds_the_module(here, tmp_path, monkeypatch):
    before = list(sys.path)
    with pytest.raises(OptionError, match=r"no module 'own_measures' to import.*in the module's folder"):
        own_module("own_measures")
    assert sys.path == before
    (here / "own_measures.py").write_text("import own_helpers\nWHERE = own_helpers.WHERE")
    (here / "own_helpers.py").write_text("WHERE = 'here'")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "own_helpers.py").write_text("WHERE = 'elsewhere'")
    monkeypatch.syspath_prepend(elsewhere)
    assert own_module("own_measures").WHERE == "elsewhere"
    assert sys.path == [str(elsewhere), *before, str(here)]


def test_an_installed_command_finds_modules_beside_it(here, tmp_path):
    (here / "own_measures.py").write_text("")
    (tmp_path / "command.py").write_text("from fairbound.base.own import own_module; own_module('own_measures')")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for safe, code in (([], 0), (["-P"], 1)):  # sys.path begins with the folder of the command, or -P leaves it out
        done = subprocess.run(
            [sys.executable, *safe, tmp_path / "command.py"], env=environment, capture_output=True, text=True
        )
        assert done.returncode == code, done.stderr
        assert code == 0 or "there is no module 'own_measures'" in done.stderr
