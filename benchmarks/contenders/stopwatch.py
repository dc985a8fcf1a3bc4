"""What every contender shares: the arrays of the task, the starting network, and the stopwatch that takes evaluations.

Imports torch and numpy alone, so that it runs in every peer's own environment.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

import numpy as np
import torch
from torch import Tensor, nn

BOUND = 0.005
WINDOW = 10
"""Evaluations that the smoothed gap is the mean of."""


@dataclass(frozen=True)
class Task:
    """x: (n, d) float32; y: (n,) in {0., 1.}; group: (n,) in {0, 1}; start: flat parameters of the MLP 64-32."""

    x: Tensor
    y: Tensor
    group: Tensor
    start: Tensor

    @classmethod
    def load(cls, path: str) -> Task:
        with np.load(path) as arrays:
            return cls(*(torch.from_numpy(arrays[name]) for name in ("x", "y", "group", "start")))

    def network(self) -> nn.Sequential:
        """The MLP 64-32 with the parameters `start`."""
        d = self.x.shape[1]
        net = nn.Sequential(nn.Linear(d, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))
        nn.utils.vector_to_parameters(self.start.clone(), net.parameters())
        return net

    def members(self) -> list[list[int]]:
        """Row numbers of each group."""
        return [torch.nonzero(self.group == code).flatten().tolist() for code in (0, 1)]

    def signed_gap(self, scores: Tensor) -> tuple[float, float]:
        """L_0 - L_1 and the mean loss over all rows, in double precision; scores: (n,)."""
        loss = nn.functional.binary_cross_entropy_with_logits(scores.double(), self.y.double(), reduction="none")
        return float(loss[self.group == 0].mean() - loss[self.group == 1].mean()), float(loss.mean())

    def constant_loss(self) -> float:
        """Mean loss of the best constant score: the entropy of the labels."""
        p = float(self.y.double().mean())
        return float(-p * np.log(p) - (1 - p) * np.log1p(-p))


def reached(gaps: Sequence[float], losses: Sequence[float], constant: float) -> bool:
    """Whether the last WINDOW evaluations are feasible: their mean |gap| is at most BOUND and their mean loss below
    `constant`, that of the best constant score (a network near its start scores everyone alike: feasible, and useless).
    """
    if len(gaps) < WINDOW:
        return False
    gap = sum(abs(g) for g in gaps[-WINDOW:]) / WINDOW
    return gap <= BOUND and sum(losses[-WINDOW:]) / WINDOW < constant


class Finished(Exception):
    """The run's time is up, or what it was run for has been reached."""


class Stopwatch:
    """Evaluates the current iterate at the first step at or after every multiple of `every` seconds of training.

    Seconds are the process's own processor time, and stand still during an evaluation, so that other work on the
    machine does not count. One JSON line per evaluation: s, steps, gap (signed), loss.
    """

    def __init__(
        self,
        task: Task,
        scores: Callable[[], Tensor],
        every: float,
        limit: float,
        stop_early: bool,
        out: TextIO,
        ticks_per_step: int = 1,
    ):
        self.task, self.scores, self.every, self.limit, self.out = task, scores, every, limit, out
        self.constant = task.constant_loss() if stop_early else 0.0
        self.gaps: list[float] = []
        self.losses: list[float] = []
        self.ticks, self.ticks_per_step, self.next = 0, ticks_per_step, every
        self.origin = time.process_time()

    def start(self) -> None:
        self.origin = time.process_time()

    def tick(self) -> None:
        """Called `ticks_per_step` times a step, whenever the iterate is whole. Raises: Finished."""
        self.ticks += 1
        now = time.process_time()
        trained = now - self.origin
        if trained < self.next:
            return
        with torch.no_grad():
            gap, loss = self.task.signed_gap(self.scores().reshape(-1))
        self.gaps.append(gap)
        self.losses.append(loss)
        row = {"s": round(trained, 5), "steps": self.ticks // self.ticks_per_step, "gap": gap, "loss": loss}
        self.out.write(json.dumps(row) + "\n")
        self.next = self.every * (trained // self.every + 1)
        if trained >= self.limit or reached(self.gaps, self.losses, self.constant):
            raise Finished
        self.origin += time.process_time() - now


def main(contenders: dict[str, Callable[[Task, int, dict[str, Any], Callable[..., Stopwatch]], None]]) -> None:
    """Run one contender of a worker script: `worker.py NAME TASK.npz SEED --settings JSON`, evaluations to --out."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=list(contenders))
    parser.add_argument("task")
    parser.add_argument("seed", type=int)
    parser.add_argument("--settings", default="{}")
    parser.add_argument("--every", type=float, required=True)
    parser.add_argument("--limit", type=float, required=True)
    parser.add_argument("--stop-early", action="store_true")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    task = Task.load(args.task)
    with open(args.out, "w") as out:

        def stopwatch(scores: Callable[[], Tensor], ticks_per_step: int = 1) -> Stopwatch:
            return Stopwatch(task, scores, args.every, args.limit, args.stop_early, out, ticks_per_step)

        try:
            contenders[args.name](task, args.seed, json.loads(args.settings), stopwatch)
        except Finished:
            return
    sys.exit("the method returned before its time was up")
