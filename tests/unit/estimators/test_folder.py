"""Model folders: bit-for-bit round trips, no pickle, and no way to load half a model; atomic writing of files."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import pickle
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairbound.base import files
from fairbound.base.errors import DataError
from fairbound.base.files import atomic_write_bytes, atomic_write_many, atomic_write_text, check_writable
from fairbound.estimators.saving import folder as folder_module
from fairbound.estimators.saving.folder import FORMAT_VERSION, ModelFolderError, load_folder, save_folder
from fairbound.tables import TableEncoder, TableOptions

MANIFEST = {
    "model": {"kind": "mlp", "hidden": [64, 32], "n_features": 3},
    "classes": ["no", "yes"],
    "constraints": ["demographic_parity <= 0.02"],
    "seed": 0,
    "data_sha256": "ab" * 32,
}


def tensors(seed=0):
    rng = torch.Generator().manual_seed(seed)
    return {"0.weight": torch.randn(4, 3, generator=rng), "0.bias": torch.randn(4, generator=rng, dtype=torch.float64)}


def encoder():
    rows = [[1.0 / 3, "a", True], [2.0, "b", False], [None, "a", True]]
    return TableEncoder(TableOptions(min_count=1)).fit(rows)


def save(path, seed=0):
    return save_folder(path, manifest=MANIFEST, tensors=tensors(seed), encoder=encoder(), extras={"note.md": "é\r\n"})


def same(left, right):
    """Equal dtype, shape and bits (signed zeros too)."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    return safetensors.torch.save({"t": left}) == safetensors.torch.save({"t": right.detach().contiguous()})


def edit_manifest(folder, change):
    where = folder / "model.json"
    manifest = json.loads(where.read_text())
    change(manifest)
    where.write_text(json.dumps({**manifest, "checksum": folder_module.sum_of_content(manifest)}))


# --- round trips ----------------------------------------------------------------------------------------------------


def test_what_is_saved_comes_back_bit_for_bit(tmp_path):
    folder = load_folder(save(tmp_path / "deep" / "model"))
    assert {key: folder.manifest[key] for key in MANIFEST} == MANIFEST
    assert load_folder(tmp_path / "deep").manifest == folder.manifest  # as a command leaves it, among other things
    assert folder.manifest["format_version"] == FORMAT_VERSION and folder.manifest["library_version"]
    assert set(folder.tensors) == {"0.weight", "0.bias"}
    assert all(same(folder.tensors[name], t) for name, t in tensors().items())
    assert folder.encoder.to_json() == encoder().to_json()
    assert folder.extras == {"note.md": "é\r\n"}
    assert sorted(p.name for p in (tmp_path / "deep" / "model").iterdir()) == [
        "encoder.json",
        "model.json",
        "note.md",
        "weights.safetensors",
    ]


def test_a_module_restored_from_the_folder_gives_the_same_scores(tmp_path):
    torch.manual_seed(0)
    module, other = torch.nn.Linear(3, 1), torch.nn.Linear(3, 1)
    save_folder(tmp_path, manifest=MANIFEST, tensors=module.state_dict())
    folder = load_folder(tmp_path)
    assert folder.encoder is None and folder.extras == {}
    other.load_state_dict(folder.tensors)
    x = torch.randn(7, 3)
    assert torch.equal(module(x), other(x))


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(3.5),
        torch.zeros(0, 4),
        torch.tensor([float("inf"), -0.0]),
        torch.arange(6).reshape(2, 3).t(),
        torch.tensor([1.5, -2.25, 3e38]).to(torch.bfloat16),
        torch.tensor([1.5]).half(),
        torch.tensor([True, False]),
        torch.tensor([1, 255], dtype=torch.uint8),
        torch.tensor([1 + 2j]).conj(),
        torch.nn.Parameter(torch.ones(2)),
        torch.ones(3).expand(2, 3),
        torch.ones(2).to(torch.float8_e4m3fn),
    ],
)
def test_every_dtype_and_layout_round_trips(tmp_path, tensor):
    save_folder(tmp_path, manifest={}, tensors={"t": tensor})
    assert same(load_folder(tmp_path).tensors["t"], tensor.detach().resolve_conj())


json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=20, deadline=None)
@given(
    note=json_data,
    values=st.dictionaries(
        st.text(max_size=6, alphabet="ab.0/é "), st.lists(st.floats(allow_nan=False), max_size=4), max_size=3
    ),
)
def test_any_manifest_and_tensors_round_trip(tmp_path_factory, note, values):
    path = tmp_path_factory.mktemp("model")
    given_tensors = {name: torch.tensor(v, dtype=torch.float64) for name, v in values.items()}
    save_folder(path, manifest={"note": note}, tensors=given_tensors)
    folder = load_folder(path)
    assert folder.manifest["note"] == note
    assert set(folder.tensors) == set(given_tensors)
    assert all(same(folder.tensors[name], t) for name, t in given_tensors.items())


def test_the_same_model_gives_the_same_bytes(tmp_path):
    first, second = save(tmp_path / "a"), save(tmp_path / "b")
    for name in ("model.json", "weights.safetensors", "encoder.json"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_tensors_that_share_memory_come_back_each_on_its_own(tmp_path):
    whole = torch.arange(6.0).reshape(2, 3)
    save_folder(tmp_path, manifest={}, tensors={"all": whole, "again": whole, "column": whole[:, 1]})
    back = load_folder(tmp_path).tensors
    assert torch.equal(back["again"], whole) and torch.equal(back["column"], torch.tensor([1.0, 4.0]))
    back["all"].zero_()
    assert torch.equal(back["again"], whole)


def test_saving_over_a_model_replaces_it_and_leaves_other_files(tmp_path):
    save(tmp_path, seed=0)
    (tmp_path / "report.html").write_text("kept")
    save_folder(tmp_path, manifest={"seed": 1}, tensors=tensors(1))
    folder = load_folder(tmp_path)
    assert folder.manifest["seed"] == 1 and folder.encoder is None and folder.extras == {}
    assert same(folder.tensors["0.weight"], tensors(1)["0.weight"])
    assert (tmp_path / "report.html").read_text() == "kept"
    assert not (tmp_path / "encoder.json").exists() and not (tmp_path / "note.md").exists()


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_saving_through_a_link_writes_the_folder_that_it_names_and_leaves_the_link(tmp_path):
    save(tmp_path / "v1", seed=0)
    (tmp_path / "current").symlink_to("v1")
    save_folder(tmp_path / "current", manifest={"seed": 1}, tensors=tensors(1))
    assert (tmp_path / "current").is_symlink() and load_folder(tmp_path / "v1").manifest["seed"] == 1


# --- damage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["model.json", "weights.safetensors", "encoder.json", "note.md"])
def test_missing_empty_cut_or_changed_files_are_refused(tmp_path, name):
    where = save(tmp_path) / name
    whole = where.read_bytes()
    where.unlink()
    with pytest.raises(ModelFolderError, match=r"has no model\.json" if name == "model.json" else f"lacks {name}"):
        load_folder(tmp_path)
    where.write_bytes(b"")
    with pytest.raises(ModelFolderError, match=r"empty \(0 bytes\)"):
        load_folder(tmp_path)
    for cut in sorted({1, len(whole) // 2, len(whole) - 1}):
        where.write_bytes(whole[:cut])
        with pytest.raises(ModelFolderError, match="cut off"):
            load_folder(tmp_path)
    if name != "model.json":
        for place in {0, len(whole) // 2, len(whole) - 1}:
            where.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            with pytest.raises(ModelFolderError, match="sha256"):
                load_folder(tmp_path)
    where.write_bytes(whole)
    load_folder(tmp_path)


def test_every_bit_of_the_manifest_counts(tmp_path):
    where = save(tmp_path) / "model.json"
    whole = where.read_bytes()
    before = load_folder(tmp_path).manifest
    for at in range(0, 8 * len(whole), 7):
        damaged = bytearray(whole)
        damaged[at // 8] ^= 1 << at % 8
        where.write_bytes(damaged)
        try:
            assert load_folder(tmp_path).manifest == before, at  # a blank between two fields
        except ModelFolderError:
            continue


def test_deep_nesting_is_refused(tmp_path):
    save(tmp_path)
    (tmp_path / "model.json").write_text('{"a":' * 100_000)
    with pytest.raises(ModelFolderError, match="damaged or cut off"):
        load_folder(tmp_path)
    with pytest.raises(DataError, match="damaged"):
        TableEncoder.from_json("[" * 100_000)


def test_files_of_impossible_size_are_refused_before_they_are_read(tmp_path):
    """Sparse files: they claim 32 GB and take no room on the disk."""
    save(tmp_path)
    for name, words in (("model.json", "more than a model"), ("weights.safetensors", "bytes long")):
        whole = (tmp_path / name).read_bytes()
        os.truncate(tmp_path / name, 32 << 30)
        with pytest.raises(ModelFolderError, match=words):
            load_folder(tmp_path)
        (tmp_path / name).write_bytes(whole)
    edit_manifest(tmp_path, lambda m: m["files"]["weights.safetensors"].update(bytes=32 << 30))
    os.truncate(tmp_path / "weights.safetensors", 32 << 30)
    with pytest.raises(ModelFolderError, match="more than a model"):
        load_folder(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"learnt": [{"kind": "number"}]}, {"learnt": [1]}, {"learnt": 3}, {"learnt": None}, {"options": []}, {"inputs": 3},
        {"options": {"min_count": -1}}, {"dropped": [1]}, {"version": 99}, {"learnt": None, "scale": ["a"]},
        {"learnt": None, "scale": [0.0]}, {"learnt": [{"name": "x", "kind": "category", "values": "ab", "other": 1, "missing": 0}]},
        {"learnt": [{"name": "x", "kind": "number", "mean": "0", "sd": 1.0, "median": 0.0, "indicator": False}]},
        {"learnt": [{"name": "x", "kind": "number", "mean": 0.0, "sd": 0.0, "median": 0.0, "indicator": False}]},
    ],
)  # fmt: skip
def test_an_encoder_with_an_odd_field_is_refused(change):
    with pytest.raises(DataError):
        TableEncoder.from_json(json.dumps({**json.loads(encoder().to_json()), **change}))


def test_a_newer_format_asks_for_an_upgrade(tmp_path):
    save(tmp_path)
    edit_manifest(tmp_path, lambda m: m.update(format_version=FORMAT_VERSION + 1, library_version="9.9"))
    with pytest.raises(ModelFolderError, match=r"format version 4, written by fairbound 9\.9.*Upgrade"):
        load_folder(tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m.update(format="other"), "does not describe a fairbound model"),
        (lambda m: m.update(format_version="1"), "format_version '1'"),
        (lambda m: m.update(format_version=2), "format version 2, of before the first release"),
        (lambda m: m.pop("files"), "does not list"),
        (lambda m: m["files"].pop("weights.safetensors"), "does not list"),
        (lambda m: m["files"].update({"../x": {"bytes": 0}}), "cannot be in it"),
    ],
)
def test_manifests_that_do_not_fit_are_refused(tmp_path, change, words):
    save(tmp_path)
    edit_manifest(tmp_path, change)
    with pytest.raises(ModelFolderError, match=words):
        load_folder(tmp_path)


def test_folders_that_are_no_models_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no model folder"):
        load_folder(tmp_path / "none")
    with pytest.raises(ModelFolderError, match=r"no model\.json"):
        load_folder(tmp_path)
    (tmp_path / "model.json").write_text("[]")
    with pytest.raises(ModelFolderError, match="does not describe"):
        load_folder(tmp_path)


class Bomb:
    def __reduce__(self):
        return os.mkdir, (os.environ["BOMB"],)


def with_weights(folder, data):
    """The folder with other weights, which model.json vouches for."""
    (folder / "weights.safetensors").write_bytes(data)
    facts = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    edit_manifest(folder, lambda m: m.update(files={"weights.safetensors": facts}))


def test_a_pickle_in_the_weights_is_not_executed(tmp_path, monkeypatch):
    monkeypatch.setenv("BOMB", str(tmp_path / "executed"))
    folder = save(tmp_path / "model")
    with_weights(folder, pickle.dumps(Bomb()))
    with pytest.raises(ModelFolderError, match="cannot be read"):
        load_folder(folder)
    assert not (tmp_path / "executed").exists()


def crafted(header: bytes, body: bytes = b"\0" * 8, length: int | None = None) -> bytes:
    """A safetensors file of any header, which may be said to have another length."""
    return (len(header) if length is None else length).to_bytes(8, "little") + header + body


@pytest.mark.parametrize(
    "data",
    [
        b"",
        crafted(b"{}", length=10**12),
        crafted(b"{}", length=2**64 - 1),
        crafted(b"not JSON"),
        crafted(b'{"t":{"dtype":"F32","shape":[2],"data_offsets":[0,800]}}'),
        crafted(b'{"t":{"dtype":"F32","shape":[2000000000,2000000000,2000000000],"data_offsets":[0,8]}}'),
        crafted(b'{"t":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}}'),
        crafted(
            b'{"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"u":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
        ),
        safetensors.torch.save({"t": torch.ones(3)})[:-1],
        safetensors.torch.save({"t": torch.ones(3)}) + b"x",
    ],
)
def test_weights_that_are_no_safetensors_file_are_refused(tmp_path, data):
    with_weights(save(tmp_path), data)
    with pytest.raises(ModelFolderError, match="cannot be read"):
        load_folder(tmp_path)


def test_weights_that_are_nan_are_refused_on_both_ways(tmp_path):
    broken = {"a": torch.ones(2), "b": torch.tensor([1.0, float("nan")], dtype=torch.bfloat16)}
    with pytest.raises(ModelFolderError, match="tensor 'b' holds NaN"):
        save_folder(tmp_path, manifest={}, tensors=broken)
    with_weights(save(tmp_path), safetensors.torch.save(broken))
    with pytest.raises(ModelFolderError, match="tensor 'b' holds NaN"):
        load_folder(tmp_path)


# --- what cannot be saved -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"manifest": {"files": {}}}, r"may not set \['files'\]"),
        ({"manifest": {"a": float("nan")}}, "not plain JSON"),
        ({"manifest": {"a": object()}}, "not plain JSON"),
        ({"manifest": {"a": np.float32(1)}}, "not plain JSON"),
        ({"manifest": {"a": [{1: 2}]}}, "the key 1 is no string"),
        ({"tensors": {1: torch.ones(1)}}, "weights cannot be stored"),
        ({"tensors": {"__metadata__": torch.ones(1)}}, "name '__metadata__' is taken"),
        ({"tensors": {"a": torch.ones(2).to_sparse()}}, "dense tensors"),
        ({"tensors": {"a": [1.0]}}, "dense tensors"),
        ({"tensors": {"a": torch.ones(2, dtype=torch.complex128)}}, "complex128"),
        ({"extras": {"model.json": ""}}, "cannot be an extra file"),
        ({"extras": {"../x": ""}}, "cannot be an extra file"),
        ({"extras": {".x": ""}}, "cannot be an extra file"),
        ({"extras": {"": ""}}, "cannot be an extra file"),
    ],
)
def test_what_cannot_be_stored_is_refused_before_anything_is_written(tmp_path, arguments, words):
    with pytest.raises(ModelFolderError, match=words):
        save_folder(tmp_path / "m", **{"manifest": MANIFEST, "tensors": tensors(), **arguments})
    assert not (tmp_path / "m").exists() or list((tmp_path / "m").iterdir()) == []


# --- disks and permissions ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def without_privileges():
    """Permissions bind even where the tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def locked(tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir()
    for part in (tmp_path, *tmp_path.parents[:2]):
        part.chmod(part.stat().st_mode | 0o055)
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)


def test_check_writable_creates_the_folder_and_leaves_nothing_in_it(tmp_path):
    folder = check_writable(tmp_path / "a" / "b")
    assert folder.is_dir() and list(folder.iterdir()) == []
    assert check_writable(str(folder)) == folder


def test_an_unwritable_folder_is_said_at_once(locked, tmp_path):
    with without_privileges():
        for act in (
            lambda: check_writable(locked),
            lambda: check_writable(locked / "new"),
            lambda: save(locked),
            lambda: atomic_write_bytes(locked / "x", b"1"),
        ):
            with pytest.raises(PermissionError, match=r"locked.*no permission.*choose another folder"):
                act()
    assert list(locked.iterdir()) == []
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(NotADirectoryError, match="a part of the path is a file"):
            check_writable(path)


def fail_on_call(number, code):
    """An fsync that fails on its ``number``-th call as the system would with ``code``."""
    calls = []

    def fsync(handle):
        calls.append(handle)
        if len(calls) == number:
            raise OSError(code, os.strerror(code))

    return fsync


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_a_full_disk_leaves_the_old_model(tmp_path, monkeypatch, number):
    save(tmp_path, seed=0)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    monkeypatch.setattr(files.os, "fsync", fail_on_call(number, errno.ENOSPC))
    with pytest.raises(OSError, match=r"could not write|cannot be written") as caught:
        save(tmp_path, seed=1)
    assert caught.value.errno == errno.ENOSPC and "the disk is full: free some space" in str(caught.value)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
    assert same(load_folder(tmp_path).tensors["0.weight"], tensors(0)["0.weight"])


@pytest.mark.parametrize("number", [1, 2, 3])
def test_dying_between_two_renames_never_leaves_a_mixture_that_loads(tmp_path, monkeypatch, number):
    save(tmp_path, seed=0)
    done = []

    def replace(part, target, real=os.replace):
        if len(done) == number:
            raise KeyboardInterrupt
        done.append(target)
        real(part, target)

    monkeypatch.setattr(files.os, "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path, seed=1)
    with pytest.raises(ModelFolderError, match="from another save"):
        load_folder(tmp_path)


def test_a_real_size_limit_leaves_the_old_file(tmp_path):
    resource = pytest.importorskip("resource")
    path = tmp_path / "x.bin"
    atomic_write_bytes(path, b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # python ignores SIGXFSZ, so write() fails with EFBIG
    try:
        with pytest.raises(OSError, match=r"x\.bin.*larger than the system's limit") as caught:
            atomic_write_bytes(path, b"n" * 1_000_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.errno == errno.EFBIG
    assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["x.bin"]


def test_killed_writers_leave_old_or_new_content_only(tmp_path):
    path = tmp_path / "x.bin"
    script = """
import sys
from fairbound.base.files import atomic_write_bytes
for i in range(10**6):
    atomic_write_bytes(sys.argv[1], bytes([i % 256]) * 300_000)
"""
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", script, str(path)])
        until = time.monotonic() + 60
        path.unlink(missing_ok=True)
        while not path.exists() and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        data = path.read_bytes()
        assert len(data) == 300_000 and len(set(data)) == 1


def test_atomic_write_keeps_modes_and_follows_links(tmp_path):
    path, link = tmp_path / "a" / "x", tmp_path / "link"
    with pytest.raises(FileNotFoundError, match="its folder does not exist: create it first"):
        atomic_write_bytes(path, b"1")
    path.parent.mkdir()
    path.write_bytes(b"0")
    path.chmod(0o640)
    link.symlink_to(path)
    assert atomic_write_bytes(link, memoryview(b"new")) == link
    assert link.is_symlink() and path.read_bytes() == b"new" and path.stat().st_mode & 0o777 == 0o640
    atomic_write_text(str(path), "é\n")
    assert path.read_bytes() == "é\n".encode()
    with pytest.raises(IsADirectoryError, match="is a folder"):
        atomic_write_bytes(path.parent, b"1")
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a", "link", "x"]


def test_many_files_are_all_staged_before_one_is_replaced(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "b").mkdir()
    with pytest.raises(IsADirectoryError, match=r"/b'"):
        atomic_write_many(tmp_path, {"a": b"new", "b": b"new"})
    assert (tmp_path / "a").read_bytes() == b"old" and sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]
