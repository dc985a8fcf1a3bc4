"""Shared fixtures: where the real data lies, and the --long switch for statistical claims."""

import os
import sys
from pathlib import Path

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else every process that a test starts compiles the package again,
sys.dont_write_bytecode = False  # and every run of the tests prepares all their assertions again: 20 s on each core
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):  # tests run two at a time, on two cores
    os.environ.setdefault(name, "1")

import pytest  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def without_waiting_for_the_disk():
    """What this process writes in a test need not outlive a power failure."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="also run the long statistical claims")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--long"):
        return
    skip = pytest.mark.skip(reason="a long statistical claim; run with --long")
    for item in items:
        if "long" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data: FAIRBOUND_DATA, else ../shared/data beside the project; skips where neither is there."""
    named = os.environ.get("FAIRBOUND_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data: FAIRBOUND_DATA is unset and {folder.name!r} is not beside the project")
    return folder
