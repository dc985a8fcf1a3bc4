"""Checkpoints: whole or not at all, read without running code, and refused where they are another run's."""

import hashlib
import io
import pickle
import zipfile
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from fairbound.base.errors import CheckpointError
from fairbound.methods import ALM, State
from fairbound.problems.base import Numbered
from fairbound.problems.problem import Draws
from fairbound.solver import checkpoint
from fairbound.solver.solve import solve
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
    fresh = config.init(problem, problem.start((0,)), Draws(problem, (0,), 8))
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
        with pytest.raises(CheckpointError, match=r"truncated or not a checkpoint|damaged"):
            checkpoint.load(saved, IDENTITY)


def test_every_single_bit_that_flips_is_an_error(saved):
    whole = bytearray(saved.read_bytes())
    places = [*range(0, 8 * 140, 3), *range(0, 8 * len(whole), 8 * 53 + 1)]
    for at in places:
        damaged = whole.copy()
        damaged[at // 8] ^= 1 << at % 8
        saved.write_bytes(damaged)
        with pytest.raises(CheckpointError):
            checkpoint.load(saved, IDENTITY)


def sealed(path, content):
    """A file of this content with a checksum that fits, as one who means harm would write it."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    data = buffer.getvalue() if not isinstance(content, bytes) else content
    path.write_bytes(checkpoint.HEAD + hashlib.sha256(data).hexdigest().encode() + b"\n" + data)
    return path


@pytest.mark.parametrize(
    "content",
    [
        {"format": 4}, {"format": 4, "identity": []}, {"format": 3, "identity": IDENTITY}, [1], torch.zeros(2),
        {"format": 4, "identity": IDENTITY, "state": {"x": torch.tensor([0.0, float("nan")])}},
        {"format": 4, "identity": IDENTITY, "seconds": float("nan")}, b"", b"PK\x03\x04", b"\x80\x04N.",
    ],
)  # fmt: skip
def test_a_checksum_that_fits_does_not_make_a_checkpoint(tmp_path, content):
    with pytest.raises(CheckpointError):
        checkpoint.load(sealed(tmp_path / "s.ckpt", content), IDENTITY)


def test_an_archive_that_unpacks_to_far_more_is_refused(tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"\0" * 10_000_000)
    with pytest.raises(CheckpointError, match="larger than the file"):
        checkpoint.load(sealed(tmp_path / "bomb.ckpt", buffer.getvalue()), IDENTITY)


def spoiled(content, path, value):
    """A copy of nested dicts with one entry replaced, or taken out where value is `spoiled`."""
    out = dict(content)
    key = path[0]
    if len(path) > 1:
        out[key] = spoiled(out[key], path[1:], value)
    elif value is spoiled:
        del out[key]
    else:
        out[key] = value
    return out


PARTS = ("state", "best", "mean", "seconds", "counts", "next_record", "records", "recorded")


@pytest.mark.parametrize(
    "path, value",
    [
        *(((part,), spoiled) for part in PARTS), *(((part,), "odd") for part in PARTS),
        (("state", "x"), torch.zeros(99)), (("state", "x"), None), (("state", "multipliers"), torch.zeros(99)),
        (("state", "k"), -1), (("state", "k"), 1.5), (("state", "optimizer"), {"param_groups": []}),
        (("best", "x"), torch.zeros(99)), (("best", "f"), spoiled), (("best", "step"), torch.tensor(0.5)),
        (("counts", "samples"), "many"), (("counts", "samples"), spoiled), (("counts", "more"), 3),
        (("seconds",), -1.0), (("records",), [1]), (("recorded", "start"), None), (("more",), 1),
    ],
)  # fmt: skip
def test_every_part_of_a_run_is_checked(tmp_path, path, value):
    """A part that is missing, of another kind or of another shape is named; the run does not begin."""
    problem, file = PROBLEMS["two_sided"](), tmp_path / "run.ckpt"
    options = {"budget": "6 steps", "batch_size": 4, "checkpoint": file}
    solve(problem, ALM(optimizer="adam"), **options)
    data = file.read_bytes()[len(checkpoint.HEAD) + checkpoint.DIGEST + 1 :]
    content = torch.load(io.BytesIO(data), weights_only=True)
    sealed(file, spoiled(content, path, value))
    with pytest.raises(CheckpointError):
        solve(problem, ALM(optimizer="adam"), **options)


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
        {"format": 2},
    ):
        torch.save(content, path)
        with pytest.raises(CheckpointError):
            checkpoint.load(path, IDENTITY)


class _Runs:
    def __reduce__(self):
        return (exec, ("raise SystemExit('code ran')",))


def test_reading_runs_no_code(tmp_path):
    path = tmp_path / "evil.ckpt"
    torch.save({"format": 2, "identity": _Runs()}, path)
    with pytest.raises(CheckpointError):
        checkpoint.load(path, IDENTITY)
    path.write_bytes(pickle.dumps(_Runs()))
    with pytest.raises(CheckpointError):
        checkpoint.load(path, IDENTITY)


@pytest.mark.parametrize("key", IDENTITY)
def test_another_run_s_checkpoint_names_the_difference(saved, key):
    with pytest.raises(CheckpointError, match=rf"of another run: its {key} is .* this run's is 'other'"):
        checkpoint.load(saved, IDENTITY | {key: "other"})


@dataclass(frozen=True, kw_only=True)
class Outer(State):
    inner: Any
    pair: tuple
    notes: dict


def nested(step_size=0.1):
    """A state that holds another with an optimiser, and more of them in a tuple and a dict."""
    problem, config = PROBLEMS["two_sided"](), ALM(optimizer="momentum", dual_every=2, step_size=step_size)
    states = [run(config, problem, k) for k in (7, 3, 5)]
    zero = states[0].multipliers
    return Outer(x=states[0].x, k=2, multipliers=zero, inner=states[0], pair=(states[1], 3), notes={"a": states[2]})


def test_states_inside_a_state_come_back_with_their_optimisers(tmp_path):
    path, state = tmp_path / "s.ckpt", nested()
    checkpoint.save(path, {"identity": {}, "state": checkpoint.state_to_plain(state)})
    fresh = nested(step_size=0.3)
    assert differences(state, fresh)
    back = checkpoint.plain_to_state(fresh, checkpoint.load(path, {})["state"])
    assert differences(state, back) == []
    assert back.inner.x is fresh.inner.x is back.x  # the optimiser moves this very tensor
    assert back.inner.optimizer.param_groups[0]["params"][0] is back.x


def test_a_state_of_other_parts_is_refused_by_name():
    saved = checkpoint.state_to_plain(nested())
    del saved["inner"]["w"]
    with pytest.raises(CheckpointError, match=r"differs in the parts w of the state\.inner"):
        checkpoint.plain_to_state(nested(), saved)


def test_very_many_names_are_kept_as_a_digest():
    assert checkpoint.of_names(["a", "b"]) == ["a", "b"] and checkpoint.of_names(Numbered(1000)) == list(Numbered(1000))
    many = checkpoint.of_names(Numbered(500_000))
    assert isinstance(many, str) and many.startswith("500000 names, sha256 ")
    assert many == checkpoint.of_names(list(Numbered(500_000)))
    assert many != checkpoint.of_names([*list(Numbered(499_999)), "g"])
