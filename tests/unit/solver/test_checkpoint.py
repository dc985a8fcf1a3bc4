"""Checkpoints: whole or not at all, read without running code, and refused where they are another run's."""

import pickle

import pytest
import torch

from fairbound.base.errors import CheckpointError
from fairbound.methods import ALM, alm
from fairbound.problems.problem import Draws
from fairbound.solver import checkpoint
from fairbound.testing import PROBLEMS, differences, run

IDENTITY = {"method": "alm", "seeds": [0], "rows": 10}


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "run.ckpt"
    checkpoint.save(path, {"identity": IDENTITY, "state": {"x": torch.arange(3.0)}, "records": [{"step": 0}]})
    return path


def test_content_comes_back(saved):
    content = checkpoint.load(saved, IDENTITY)
    assert torch.equal(content["state"]["x"], torch.arange(3.0)) and content["records"] == [{"step": 0}]
    assert [p.name for p in saved.parent.iterdir()] == ["run.ckpt"]  # no temporary file stays


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam", "adamw"])
def test_a_state_comes_back_with_its_optimiser(optimizer, tmp_path):
    problem, config = PROBLEMS["two_sided"](), ALM(optimizer=optimizer, dual_every=2)
    state = run(config, problem, 7)
    path = tmp_path / "s.ckpt"
    checkpoint.save(path, {"identity": {}, "state": checkpoint.state_to_plain(state)})
    fresh = alm.init(config, problem, problem.start((0,)), Draws(problem, (0,), 8))
    x = fresh.x
    back = checkpoint.plain_to_state(fresh, checkpoint.load(path, {})["state"])
    assert differences(state, back) == [] and back.x is x  # the optimiser moves this very tensor
    if back.optimizer is not None:
        assert back.optimizer.param_groups[0]["params"][0] is x


def test_every_truncation_is_an_error_that_says_so(saved):
    whole = saved.read_bytes()
    saved.write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"is empty \(0 bytes\); delete it"):
        checkpoint.load(saved, IDENTITY)
    for length in (1, 2, 4, 30, len(whole) // 4, len(whole) // 2, len(whole) - 100, len(whole) - 23, len(whole) - 1):
        saved.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match="truncated or not a checkpoint"):
            checkpoint.load(saved, IDENTITY)


def test_damaged_bytes_are_an_error(saved):
    whole = bytearray(saved.read_bytes())
    for at in range(40, len(whole), 97):
        damaged = whole.copy()
        damaged[at] ^= 0xFF
        saved.write_bytes(damaged)
        try:
            content = checkpoint.load(saved, IDENTITY)
        except CheckpointError:
            continue
        assert content["identity"] == IDENTITY and torch.equal(content["state"]["x"], torch.arange(3.0))  # padding


@pytest.mark.parametrize("foreign", [b"not a checkpoint", b"PK\x03\x04 nothing more", b"{}", b"\x80\x04N."])
def test_foreign_files_are_refused(tmp_path, foreign):
    path = tmp_path / "f.ckpt"
    path.write_bytes(foreign)
    with pytest.raises(CheckpointError):
        checkpoint.load(path, IDENTITY)


def test_torch_files_of_something_else_are_refused(tmp_path):
    path = tmp_path / "t.ckpt"
    for content in (
        torch.zeros(3),
        {"weights": torch.zeros(3)},
        {"format": 999, "identity": IDENTITY},
        [1, 2],
        {"format": 1},
    ):
        torch.save(content, path)
        with pytest.raises(CheckpointError):
            checkpoint.load(path, IDENTITY)


class _Runs:
    def __reduce__(self):
        return (exec, ("raise SystemExit('code ran')",))


def test_reading_runs_no_code(tmp_path):
    path = tmp_path / "evil.ckpt"
    torch.save({"format": 1, "identity": _Runs()}, path)
    with pytest.raises(CheckpointError):
        checkpoint.load(path, IDENTITY)
    path.write_bytes(pickle.dumps(_Runs()))
    with pytest.raises(CheckpointError):
        checkpoint.load(path, IDENTITY)


@pytest.mark.parametrize("key", IDENTITY)
def test_another_run_s_checkpoint_names_the_difference(saved, key):
    with pytest.raises(CheckpointError, match=rf"of another run: its {key} is .* this run's is 'other'"):
        checkpoint.load(saved, IDENTITY | {key: "other"})
