"""How many threads small work takes.

Threads that wait for each other cost more than small matrices do, and where cores are busy many times more.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Iterator
from typing import Any

import torch
from threadpoolctl import ThreadpoolController

_LOCK = threading.Lock()
_inside: list[Any] = []  # the limits of each block that is under way, of any thread of this process
_usual = 0  # torch's threads before the first of them


@contextlib.contextmanager
def one_thread(when: bool = True) -> Iterator[None]:
    """Torch, BLAS and OpenMP on one thread inside the block, if `when`;
    after the last of several blocks at once as before the first."""
    global _usual
    if not when:
        yield
        return
    with _LOCK:
        if not _inside:
            _usual = torch.get_num_threads()
        _inside.append(_libraries(len(sys.modules)).limit(limits=1))
    torch.set_num_threads(1)
    try:
        yield
    finally:
        with _LOCK:
            first = _inside[0]
            _inside.pop()
            if not _inside:
                first.restore_original_limits()
        torch.set_num_threads(_usual)


@functools.lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """Those of this process that take threads, looked for anew (some milliseconds) once `modules`
    were imported that may have brought more."""
    return ThreadpoolController()
