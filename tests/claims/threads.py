"""Threads in place of the processes of a distributed fit."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import numpy as np
import pytest

pd = pytest.importorskip("pandas")


class Thread:
    """A thread in place of a process; `slots` and `barrier` are shared by all of them."""

    alone = False

    def __init__(self, place, slots, barrier):
        self.place, self.slots, self.barrier, self.count = place, slots, barrier, len(slots)

    def gather(self, value):
        self.slots[self.place] = value
        self.barrier.wait(30)
        out = deepcopy(self.slots)
        self.barrier.wait(30)
        return out

    def sum(self, value):
        return sum(self.gather(value.clone()))


def in_threads(count, do):
    """[do(shards of part k) for every part], all at once."""
    slots, barrier = [None] * count, threading.Barrier(count)
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda k: do(Thread(k, slots, barrier)), range(count)))


def halves(place, n=200):
    """The table, labels, groups and options of one of two processes."""
    rng = np.random.default_rng(place)
    X = pd.DataFrame(rng.normal(size=(n, 2)), columns=["x", "z"])
    return X, (X["x"] + rng.normal(size=n) > 0).to_numpy().astype(float), rng.choice(["a", "b"], n).astype(object), {}
