"""How many threads small work takes.

Threads that wait for each other cost more than small matrices do, and where cores are busy many times more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from threadpoolctl import threadpool_limits


@contextlib.contextmanager
def one_thread(when: bool = True) -> Iterator[None]:
    """Torch, BLAS and OpenMP on one thread inside the block, if `when`; after it as they were."""
    if not when:
        yield
        return
    before = torch.get_num_threads()
    with threadpool_limits(1):
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)
