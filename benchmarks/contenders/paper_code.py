"""humancompatible-train 0.1.0, the code published with Kliachkin et al. (2025): its own loops, timed from the outside.

The loops take no callback, so the stopwatch ticks where they draw for the first constraint. They save no states and
print nothing here, which spares them time.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

import torch
from humancompatible.train.algorithms import SSG, SSLALM, StochasticGhost
from humancompatible.train.fairness.constraints import FairnessConstraint, loss_equality
from stopwatch import BOUND, Stopwatch, Task, main
from torch import Tensor, nn

FOREVER = 10**9


class Ticking(FairnessConstraint):
    """A constraint that ticks whenever a loop draws rows for it."""

    def __init__(self, tick: Callable[[], None], *args: Any, **options: Any):
        super().__init__(*args, **options)
        self.tick = tick

    def sample_loader(self) -> Any:
        self.tick()
        return super().sample_loader()

    def sample_dataset(self, N: int, *args: Any, **options: Any) -> Any:
        self.tick()
        return super().sample_dataset(N, *args, **options)


def run(kind: type, draws_per_step: int) -> Callable[..., None]:
    """A contender: the method `kind` with `settings` as its `optimize` takes them, but constraint_batch_size."""

    def contender(task: Task, seed: int, settings: dict[str, Any], stopwatch: Callable[..., Stopwatch]) -> None:
        rows_per_group = settings.pop("constraint_batch_size", None)
        net, criterion = task.network(), nn.BCEWithLogitsLoss()
        data = torch.utils.data.TensorDataset(task.x, task.y)
        watch = stopwatch(lambda: net(task.x), draws_per_step)

        def signed(sign: float) -> Callable[..., Tensor]:
            return lambda net, rows: sign * loss_equality(criterion, net, rows) - BOUND

        options = {"batch_size": rows_per_group, "seed": seed}
        constraints = [
            Ticking(watch.tick, data, task.members(), signed(1.0), **options),
            FairnessConstraint(data, task.members(), signed(-1.0), **options),
        ]
        method = kind(net, data, criterion, constraints)
        watch.start()
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            method.optimize(**settings, max_runtime=FOREVER, seed=seed, verbose=False, save_state_interval=FOREVER)

    return contender


if __name__ == "__main__":
    main({"ssl_alm": run(SSLALM, 2), "ssg": run(SSG, 1), "ghost": run(StochasticGhost, 2)})
