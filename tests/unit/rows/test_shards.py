"""The processes that hold the rows of one table together."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

CODE = """
import atexit

import torch

atexit.register(lambda: print("begun" if torch.distributed.is_initialized() else "ended"))
from fairbound.rows.shards import Processes

print(Processes().gather("here"), torch.distributed.is_initialized())
"""


def test_a_group_of_processes_is_ended_by_who_began_it():
    """Its threads abort a process that ends with them, now and then: what is left of it then is asked after all other exits."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torchrun = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env={**os.environ, **torchrun}, capture_output=True, text=True, timeout=100
    )
    assert (done.returncode, done.stdout.split("\n")) == (0, ["['here'] True", "ended", ""]), done.stderr
