"""Work of two processes that gloo joins: this one, and one that is spawned."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from torch import distributed, multiprocessing

needs_gloo = pytest.mark.skipif(
    not distributed.is_available() or not distributed.is_gloo_available(), reason="torch without gloo"
)


def in_two_processes(work: Callable[[int, str], None], folder: Path) -> None:
    """Call work(rank, folder) as rank 0 here and as rank 1 there; work: a function of a module."""
    other = multiprocessing.spawn(_joined, args=(1, work, str(folder)), nprocs=1, join=False)
    _joined(None, 0, work, str(folder))
    while not other.join():
        pass


def _joined(started: int | None, rank: int, work: Callable[[int, str], None], folder: str) -> None:
    """One of the two; started: the number of the spawned one, None in this one."""
    torch.set_num_threads(1)
    store, patience = f"file://{folder}/store", timedelta(seconds=100)
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=2, timeout=patience)
    work(rank, folder)
    distributed.destroy_process_group()
