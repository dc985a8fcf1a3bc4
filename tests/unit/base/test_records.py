"""Records on disk: whole lines whatever happens to the disk or the process, and a clock that stops for measuring."""

import json
import math
import os
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
import torch

from fairbound.base import records
from fairbound.base.files import sum_of_content
from fairbound.base.records import Clock, Counts, Recorder, hardware, plain, read_records, versions


def test_rows_are_lines_of_json(tmp_path):
    path = tmp_path / "r.jsonl"
    recorder = Recorder(path)
    recorder.add({"step": 0, "x": torch.tensor([1.0, float("nan")]), "best": torch.tensor(3), "n": np.float32(0.5)})
    recorder.add({"step": 1, "inner": {"g": [float("inf"), (1, 2)]}})
    assert path.read_text().count("\n") == 2
    assert read_records(path) == recorder.rows == [
        {"step": 0, "x": [1.0, None], "best": 3, "n": 0.5}, {"step": 1, "inner": {"g": [None, [1, 2]]}},
    ]  # fmt: skip
    memory = Recorder()
    memory.add({"step": 0})
    assert memory.rows == [{"step": 0}] and plain(float("-inf")) is None


def test_a_full_disk_warns_once_and_keeps_the_rows():
    recorder = Recorder(os.devnull.replace("null", "full") and __import__("pathlib").Path("/dev/full"))
    if not recorder.path.exists():
        pytest.skip("no /dev/full on this system")
    with pytest.warns(RuntimeWarning, match=r"/dev/full \(No space left on device\).*stay in memory"):
        recorder.add({"step": 0})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recorder.add({"step": 1})
    assert [r["step"] for r in recorder.rows] == [0, 1] and recorder.unwritten == 2


def test_a_write_cut_off_by_the_system_leaves_whole_lines_and_is_made_up_for(tmp_path):
    """A file-size limit in a child process: the third row fits in part, and must not stay so."""
    path = tmp_path / "r.jsonl"
    code = f"""
import pathlib, resource, sys, warnings
from fairbound.base.records import Recorder, read_records
path = pathlib.Path({str(path)!r})
recorder = Recorder(path)
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
recorder.add({{"step": 0, "text": "x" * 100}}); recorder.add({{"step": 1, "text": "x" * 100}})
size = path.stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, hard))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    recorder.add({{"step": 2, "text": "x" * 100}}); recorder.add({{"step": 3, "text": "x" * 100}})
assert len(caught) == 1 and path.stat().st_size == size and recorder.unwritten == 2
assert len(read_records(path)) == 2
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
recorder.add({{"step": 4}})
assert [r["step"] for r in read_records(path)] == [0, 1, 2, 3, 4] and recorder.unwritten == 0
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_missing_folder_does_not_stop_a_run(tmp_path):
    recorder = Recorder(tmp_path / "no" / "such" / "r.jsonl")
    with pytest.warns(RuntimeWarning, match="No such file"):
        recorder.add({"step": 0})
    (tmp_path / "no" / "such").mkdir(parents=True)
    recorder.add({"step": 1})
    assert [r["step"] for r in read_records(recorder.path)] == [0, 1]


def test_a_line_cut_short_by_a_kill_is_left_out_and_then_dropped(tmp_path):
    path = tmp_path / "r.jsonl"
    for cut in ('{"step": 2, "tr', '{"st', "{"):
        path.write_text('{"step": 0}\n{"step": 1}\n' + cut)
        assert [r["step"] for r in read_records(path)] == [0, 1]
        recorder = Recorder(path)
        recorder.add({"step": 5})
        assert [r["step"] for r in read_records(path)] == [0, 1, 5]
    path.write_text('{"step": 0}\n{"st\n{"step": 1}\n')
    with pytest.raises(ValueError, match="line 2 is not JSON, though 1 lines follow"):
        read_records(path)


def test_another_file_given_by_mistake_is_not_cut(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("a,b\n1,2")
    Recorder(path)
    assert path.read_text() == "a,b\n1,2"


def test_resuming_rewrites_this_run_s_rows_and_no_other_s(tmp_path):
    path = tmp_path / "r.jsonl"
    Recorder(path).add({"step": 7, "run": "earlier"})
    first = Recorder(path)
    first.add({"step": 0})
    saved, where = list(first.rows), json.loads(json.dumps(first.where()))
    first.add({"step": 1})
    first.add({"step": 2})  # after the checkpoint: killed here, and the next process does them again
    second = Recorder(path)
    second.resume(saved, where)
    second.add({"step": 1})
    assert [r["step"] for r in read_records(path)] == [7, 0, 1]
    elsewhere = Recorder(tmp_path / "other.jsonl")
    elsewhere.resume(list(saved), where)
    assert [r["step"] for r in read_records(elsewhere.path)] == [0]
    longer = tmp_path / "longer.jsonl"
    longer.write_text('{"step": 100}\n' * 50)
    Recorder(longer).resume(list(saved), where)
    assert len(read_records(longer)) == 51  # another file's rows are not this run's to drop
    path.unlink()
    gone = Recorder(path)
    gone.resume(list(saved), where)
    assert [r["step"] for r in read_records(path)] == [0]


def test_the_clock_stops_while_paused():
    clock = Clock(5.0)
    with clock.paused():
        before = clock.seconds
        time.sleep(0.05)
        assert clock.seconds == before
    time.sleep(0.02)
    assert 5.02 <= clock.seconds < 5.05 + 1
    with pytest.raises(RuntimeError), clock.paused():
        raise RuntimeError
    before = clock.seconds
    time.sleep(0.01)
    assert clock.seconds > before


def test_counts_and_versions():
    assert Counts(values=2).as_dict() == {
        "values": 2, "gradients": 0, "jvps": 0, "jacobians": 0, "samples": 0, "unseen": 0, "nonfinite": 0,
    }  # fmt: skip
    assert versions()["torch"] == torch.__version__ and set(hardware()) == {"machine", "system", "threads"}


@pytest.mark.parametrize("wrap", [list, tuple, np.array, torch.tensor])
def test_numbers_of_every_kind_become_json_and_what_is_not_finite_null(wrap):
    assert plain(wrap([1.5, -2.0])) == [1.5, -2.0]
    assert plain({"a": [wrap([[1.0, math.nan], [math.inf, 2.0]])]}) == {"a": [[[1.0, None], [None, 2.0]]]}
    assert plain([1e308, 1e308, 1]) == [1e308, 1e308, 1] and plain([math.inf, -math.inf]) == [None, None]
    given = [1.0, 2.0]
    assert plain(given) is not given
    json.dumps(plain([np.float32(1.5), np.int64(2), np.array([True])]), allow_nan=False)


def test_a_checksum_of_content_is_the_same_before_and_after_it_is_written():
    content = {"b": (1, 2.5), "a": {10: "x", 9: None}, "nested": [{"t": 0.1 + 0.2}]}
    read = json.loads(json.dumps(content))
    assert sum_of_content(content) == sum_of_content(read) == sum_of_content(read | {"checksum": "other"})
    assert sum_of_content(read | {"b": [1, 2.6]}) != sum_of_content(read)


def test_long_vectors_stay_tensors_in_memory_and_are_numbers_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "LONG", 3)
    recorder = Recorder(tmp_path / "r.jsonl")
    long, short = torch.arange(4.0), torch.arange(3.0)
    recorder.add({"step": 0, "train": {"g": long, "h": short, "i": torch.tensor([1.0, math.nan, 0.0, 2.0])}})
    held = recorder.rows[0]["train"]
    assert torch.equal(held["g"], long) and held["h"] == [0.0, 1.0, 2.0] and held["i"] == [1.0, None, 0.0, 2.0]
    assert read_records(tmp_path / "r.jsonl") == [{"step": 0, "train": held | {"g": [0.0, 1.0, 2.0, 3.0]}}]
