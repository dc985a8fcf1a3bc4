"""Blocks on one thread leave the numbers of threads as they were, nested, overlapping and after errors."""

from __future__ import annotations

import threading

import numpy as np  # noqa: F401  its BLAS is one of the pools
import pytest
import torch
from threadpoolctl import threadpool_info

from fairbound.base.threads import one_thread


@pytest.fixture(autouse=True)
def two():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def pools():
    return sorted((pool["filepath"], pool["num_threads"]) for pool in threadpool_info())


def test_nested_blocks_and_errors():
    before = pools()
    with one_thread():
        with one_thread():
            assert torch.get_num_threads() == 1 and {n for _, n in pools()} == {1}
        with one_thread(False):
            pass
    assert torch.get_num_threads() == 2 and pools() == before
    with pytest.raises(ValueError, match="inside"), one_thread():
        raise ValueError("inside")
    assert torch.get_num_threads() == 2 and pools() == before
    with one_thread(False):
        assert torch.get_num_threads() == 2


def test_blocks_of_two_threads_that_overlap():
    before, begun, ended = pools(), threading.Event(), threading.Event()

    def other():
        with one_thread():
            begun.set()
            ended.wait(10)

    thread = threading.Thread(target=other)
    with one_thread():
        thread.start()
        begun.wait(10)
    ended.set()
    thread.join()
    assert torch.get_num_threads() == 2 and pools() == before
