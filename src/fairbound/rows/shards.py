"""The processes that hold the rows of one table together, each its own part: sums over all of them.

Everything that is computed of all rows is made of sums and counts, which add up over parts as they do over rows; ratios
such as rates are taken after the sums. So a group that one process lacks is no special case.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from fairbound.base.errors import DataError, OptionError

T = TypeVar("T")


class Shards(Protocol):
    """The parts of a table. count: how many there are; place: which of them this is, from 0;
    alone: whether there is only one."""

    count: int
    place: int
    alone: bool

    def sum(self, value: Tensor) -> Tensor:
        """The sum over all parts of a tensor of one shape, the same to the bit in every process."""
        ...

    def gather(self, value: Any) -> list[Any]:
        """The plain data of every part, in the order of the processes."""
        ...


class Alone:
    """One part: the whole table."""

    count: int = 1
    place: int = 0
    alone: bool = True

    def sum(self, value: Tensor) -> Tensor:
        return value

    def gather(self, value: Any) -> list[Any]:
        return [value]


ALONE: Shards = Alone()


def _ended() -> None:
    """End the process group, whose threads else abort about every fourth process as it ends."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


class Processes:
    """One part in each process of torch's default process group;
    every process must make the same calls in the same order."""

    def __init__(self) -> None:
        """Raises: OptionError where no process group was begun, and torchrun did not start this process."""
        if not torch.distributed.is_available():
            raise OptionError("this build of torch cannot train on several processes; leave distributed=False.")
        if not torch.distributed.is_initialized():
            if "WORLD_SIZE" not in os.environ:
                raise OptionError(
                    "distributed=True trains on several processes. Start them with 'torchrun --nproc-per-node 2 FILE.py' (or '-m fairbound fit "
                    "... --distributed'), or call torch.distributed.init_process_group first."
                )
            torch.distributed.init_process_group("gloo")
            atexit.register(_ended)
        self.count, self.place = torch.distributed.get_world_size(), torch.distributed.get_rank()
        self.alone = self.count == 1

    def sum(self, value: Tensor) -> Tensor:
        out = value.clone()
        torch.distributed.all_reduce(out)
        return out

    def gather(self, value: Any) -> list[Any]:
        out: list[Any] = [None] * self.count
        torch.distributed.all_gather_object(out, value)
        return out


def all_or_none(shards: Shards, work: Callable[[], T]) -> T:
    """What `work` gives, which asks nothing of the other processes; all of them go on, or none does.

    Raises: what `work` raises here; else DataError, with what it raised there, where it did so in another process.
    """
    if shards.alone:
        return work()
    try:
        found = work()
    except Exception as error:
        shards.gather(f"{error}")
        raise
    for place, said in enumerate(shards.gather(None)):
        if said is not None:
            raise DataError(f"process {place} of {shards.count} (counting from 0) cannot go on: {said}")
    return found
