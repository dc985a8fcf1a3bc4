"""Odd input at every door: no exception but the library's own, nothing slow. A short corpus always, 1e5 inputs under --long.

Each door has seeds and one change at a time: of characters, of bytes, of fields. What is accepted must be usable.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import random
import resource
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.base.errors import FairboundError
from fairbound.cli.options.common import RowOptions
from fairbound.cli.training.rows import InputRows, rows_of_options
from fairbound.estimators.saving.folder import load_folder
from fairbound.methods import ALM
from fairbound.solver import checkpoint
from fairbound.solver.solve import solve
from fairbound.testing import PROBLEMS

SHORT, LONG = 150, 100_000
SECONDS, MEMORY = 1.0, 1 << 30
OWN = (FairboundError, OSError)

PIECES = [
    "demographic_parity", "equal_opportunity", "recall", "error", "of class", "b", "loss_gap", "auc_parity", "group_loss",
    "[", "]", ",", "=", "+", "by=", "sharpness=", "surrogate=", "sigmoid", "each", "crossed", "overall", "pairwise", "y=1",
    "<=", ">=", "<", "≤", "0.02", "1e-3", "-1", "nan", "inf", "1_0", "٣", "2%", " ", "\n", "\0", "é", "and", "0.1 >=", "'", "(",
    "empty=drop", "largest=5", "given=x", "Demographic_Parity", "_", "9" * 400, "e" * 3,
]  # fmt: skip
STATED = [
    "demographic_parity <= 0.02",
    "recall of class b >= 0.95",
    "loss_gap[y=1,crossed,largest=5] <= 0.1",
    "auc_parity <= 0.1",
]


def changed(data: bytes, rng: random.Random) -> bytes:
    """Bytes with a few of them flipped, taken out, doubled or put in."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(out) + 1)
        kind = rng.randrange(4)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del out[at : at + rng.randint(1, 40)]
        elif kind == 2:
            out[at:at] = out[at : at + rng.randint(1, 40)]
        else:
            out[at:at] = rng.choice(
                [b"\0", b"\xff\xfe", b",", b"\n", b'"', b"NaN", b"1e999", b"[" * 50, b"{}", b"-1", b"null"]
            )
    return bytes(out)


def value(rng: random.Random, n: int):
    """An argument that someone may pass where n rows are meant."""
    made = np.random.default_rng(rng.randrange(1 << 30))
    odd = [
        None, 3, "sex", "", [], {}, [[]], [None] * n, [1] * n, ["a", 1] * (n // 2), [{}] * n, [[1, 2]] * n, float("nan"), True, b"x",
        np.zeros((n, 3)), np.zeros(n - 1), np.full(n, np.nan), np.full(n, np.inf), made.normal(size=n), made.integers(0, 2, n),
        made.integers(0, 5, n), made.choice(["F", "M"], n), made.uniform(size=n), np.full(n, 1e308), np.zeros(n), np.ones(n),
        np.zeros(n, dtype=complex), np.array(["x"] * n, dtype=object), torch.zeros(n), torch.ones(n, 1), (v for v in range(n)),
        made.integers(0, 2, n).astype(bool), np.array([np.datetime64("2020-01-01")] * n), {"a": made.integers(0, 2, n)}, object(),
        np.array(0.5), -made.uniform(size=n), np.full(n, 1e-320), [float("nan"), 1.0] * (n // 2), range(n), made.integers(0, 2, n) * 2 - 1,
    ]  # fmt: skip
    return rng.choice(odd)


def constraint_text(rng: random.Random, _: Path) -> None:
    if rng.random() < 0.5:
        text = "".join(rng.choice(PIECES) + rng.choice(["", " "]) for _ in range(rng.randint(1, 8)))
    else:
        text = changed(rng.choice(STATED).encode(), rng).decode("utf-8", "replace")
    found = fb.constraint(text)
    assert fb.constraint(found.text) == found or "=" in text


def table_file(rng: random.Random, folder: Path) -> None:
    file = folder / "t.csv"
    if not (folder / "seed.csv").exists():
        rows = ["x,sex,y", *(f"{k / 7},{'FM'[k % 2]},{int(k % 3 == 0)}" for k in range(40))]
        (folder / "seed.csv").write_text("\n".join(rows) + "\n")
    file.write_bytes(changed((folder / "seed.csv").read_bytes(), rng))
    read = rows_of_options(RowOptions(data=str(file), label="y", group="sex"))
    assert isinstance(read, InputRows) and len(read.y) == len(read.groups)


def checkpoint_file(rng: random.Random, folder: Path) -> None:
    file, seed = folder / "c.ckpt", folder / "seed.ckpt"
    options = {"budget": "4 steps", "batch_size": 4}
    if not seed.exists():
        solve(PROBLEMS["two_sided"](), ALM(optimizer="adam"), checkpoint=seed, **options)
    data, begin = seed.read_bytes(), len(checkpoint.HEAD) + checkpoint.DIGEST + 1
    data = changed(data, rng)
    if rng.random() < 0.5 and len(data) > begin:  # a checksum that fits what was changed
        data = checkpoint.HEAD + hashlib.sha256(data[begin:]).hexdigest().encode() + b"\n" + data[begin:]
    file.write_bytes(data)
    run = solve(PROBLEMS["two_sided"](), ALM(optimizer="adam"), checkpoint=file, **options)
    assert bool(torch.isfinite(run.x).all())


def model_folder(rng: random.Random, folder: Path) -> None:
    where = folder / "m"
    if not where.exists():
        made = np.random.default_rng(0)
        X, y = made.normal(size=(60, 2)), made.integers(0, 2, 60)
        fb.FairClassifier(budget="3 steps").fit(X, y).save(where)
    name = rng.choice(["model.json", "weights.safetensors", "encoder.json"])
    kept = {path: path.read_bytes() for path in (where / name, where / "model.json")}
    try:
        (where / name).write_bytes(changed(kept[where / name], rng))
        if rng.random() < 0.7:  # sums that fit what was changed
            reseal(where)
        load_folder(where)
        scores = fb.FairClassifier.load(where).decision_function(np.zeros((2, 2)))
        assert scores.shape == (2,)
    finally:
        for path, data in kept.items():
            path.write_bytes(data)


def reseal(where: Path) -> None:
    from fairbound.estimators.saving import folder as module

    try:
        manifest = json.loads((where / "model.json").read_bytes())
        for name, facts in manifest["files"].items():
            data = (where / name).read_bytes()
            facts.update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
        manifest["checksum"] = module.sum_of_content(manifest)
        (where / "model.json").write_text(json.dumps(manifest))
    except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError):
        pass


def audit_arguments(rng: random.Random, _: Path) -> None:
    n = 20
    made = np.random.default_rng(rng.randrange(1 << 30))
    given = {
        "scores": made.normal(size=n), "y": made.integers(0, 2, n), "sensitive_features": made.choice(["F", "M"], n),
        "constraint": rng.choice([*STATED[:1], *STATED[2:], None, "equalized_odds <= 0.1"]),
    }  # fmt: skip
    for name in rng.sample(
        ["scores", "y", "sensitive_features", "sample_weight", "threshold", "classes", "constraint", "confidence"], 2
    ):
        given[name] = value(rng, n)
    found = fb.audit(**given)
    json.dumps(found, allow_nan=False)


def places(plain, at=()):
    """Where plain data can be changed, the first few of each list."""
    for key in plain if isinstance(plain, dict) else range(min(len(plain), 3)) if isinstance(plain, list) else ():
        yield (*at, key)
        yield from places(plain[key], (*at, key))


def monitor_state(rng: random.Random, folder: Path) -> None:
    if not (path := folder / "state.json").exists():
        made = np.random.default_rng(0)
        watched = ["auc_parity[intra] <= 0.1", "demographic_parity <= 0.1", "loss_gap[largest=2] <= 0.5"]
        monitor = fb.Monitor(watched, threshold=0.5)
        score, groups = made.normal(size=300), {"sex": made.choice(["F", "M"], 300)}
        monitor.update(made.integers(0, 2, 300), score, groups, losses=np.abs(score)).verdicts()
        path.write_text(json.dumps(monitor.to_dict()))
    state = json.loads(path.read_text())
    *at, last = rng.choice(list(places(state)))
    inside = state
    for key in at:
        inside = inside[key]
    inside[last] = rng.choice(
        [None, -1, 3, "x", [], {}, math.inf, math.nan, True, [None], [[1]], 1.5, "", 10**30, {"a": 1}]
    )
    if rng.random() < 0.2:
        del inside[last]
    fb.Monitor.from_dict(state).update([1], [0.2], {"sex": ["F"]}, losses=[0.1])


DOORS = [constraint_text, table_file, checkpoint_file, model_folder, audit_arguments, monitor_state]
SLOWER = (table_file, checkpoint_file, model_folder, monitor_state)


def tried(door, seeds, folder) -> list[str]:
    """What went wrong, with the seed that shows it again."""
    wrong, slowest = [], 0.0
    for seed in seeds:
        begin = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                door(random.Random(seed), folder)
        except OWN:
            pass
        except Exception as error:
            wrong.append(f"{door.__name__}({seed}): {type(error).__name__}: {str(error)[:120]}")
        took = time.process_time() - begin
        slowest = max(slowest, took if seed != seeds[0] else 0.0)  # the first imports and makes the seed
        if len(wrong) > 20:
            break
    if slowest > SECONDS:
        wrong.append(f"{door.__name__}: one input took {slowest:.1f} s")
    return wrong


@pytest.fixture
def folder(tmp_path):
    """A folder in memory where the system has one: on a disk, writing files takes most of the time of these tests."""
    memory = Path("/dev/shm")
    if not (memory.is_dir() and os.access(memory, os.W_OK)):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as made:
        yield Path(made)


@pytest.mark.parametrize("door", DOORS, ids=lambda d: d.__name__)
def test_odd_input_raises_nothing_but_our_errors(door, folder):
    assert tried(door, range(SHORT if door not in SLOWER else SHORT // 3), folder) == []


@pytest.mark.long
@pytest.mark.parametrize("door", DOORS, ids=lambda d: d.__name__)
def test_much_odd_input_raises_nothing_but_our_errors(door, folder):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert tried(door, range(1_000, 1_000 + LONG), folder) == []
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < MEMORY


def test_a_fault_would_be_found(tmp_path):
    def faulty(rng, folder):
        if rng.random() < 0.1:
            raise KeyError("x")

    assert tried(faulty, range(100), tmp_path)
    assert io.BytesIO(changed(b"abc", random.Random(0))).getvalue() != b"abc"
