"""One writer of a folder at a time, and results that never stand beside those of another run."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest

from fairbound.base import files
from fairbound.base.errors import OptionError
from fairbound.base.files import atomic_write_many
from fairbound.base.locks import NAME, locked

HOLD = "import sys, time; from fairbound.base.locks import locked\nwith locked(sys.argv[1]): print('held', flush=True); time.sleep(60)"


def test_a_second_writer_is_refused_while_the_first_is_there(tmp_path):
    said = "another fairbound command is writing into"
    with locked(tmp_path), pytest.raises(OptionError, match=said), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass
    assert os.listdir(tmp_path) == []


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE)
    assert other.stdout.readline() == b"held\n"
    with pytest.raises(OptionError), locked(tmp_path):
        pass
    other.send_signal(signal.SIGKILL)
    other.wait()
    other.stdout.close()
    assert (tmp_path / NAME).exists()  # the file stays, its lock does not
    with locked(tmp_path):
        pass


def _count(folder, rounds):
    for _ in range(rounds):
        while True:
            try:
                with locked(folder):
                    n = int((folder / "n").read_text())
                    time.sleep(0.001)
                    (folder / "n").write_text(str(n + 1))
                break
            except OptionError:
                time.sleep(0.001)


def test_many_writers_take_turns(tmp_path):
    (tmp_path / "n").write_text("0")
    others = [multiprocessing.get_context("fork").Process(target=_count, args=(tmp_path, 20)) for _ in range(3)]
    for other in others:
        other.start()
    for other in others:
        other.join(30)
    assert (tmp_path / "n").read_text() == "60"


@pytest.mark.parametrize("number", range(5))
def test_dying_between_two_renames_never_leaves_old_beside_new(tmp_path, monkeypatch, number):
    old = {"model/weights": b"old", "model/model.json": b"old", "audit.json": b"old", "report.html": b"old"}
    atomic_write_many(tmp_path, old)
    replace, calls = os.replace, []

    def dies(a, b):
        if len(calls) == number:
            raise KeyboardInterrupt
        calls.append(b)
        replace(a, b)

    monkeypatch.setattr(files.os, "replace", dies)
    new = dict.fromkeys(old, b"new")
    with contextlib.suppress(KeyboardInterrupt):
        atomic_write_many(tmp_path, new, removed=["audit.json", "report.html"])
    model = (tmp_path / "model" / "model.json").read_bytes()
    for name in ("audit.json", "report.html"):
        assert not (tmp_path / name).exists() or (tmp_path / name).read_bytes() == model == b"new"
