"""humancompatible-train 0.4.2's ALM in the loop its documentation shows: a torch optimiser, `forward_update`, backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from humancompatible.train.dual_optim import ALM, MoreauEnvelope
from humancompatible.train.fairness.utils import BalancedBatchSampler
from stopwatch import BOUND, Stopwatch, Task, main
from torch import nn


def alm(task: Task, seed: int, settings: dict[str, Any], stopwatch: Callable[..., Stopwatch]) -> None:
    """settings: optimizer ("Adam" or "SGD"), lr, moreau (mu, 0 for none), batch_size, dual (arguments of ALM)."""
    net = task.network()
    criterion = nn.BCEWithLogitsLoss(reduction="none")
    primal: Any = getattr(torch.optim, settings["optimizer"])(net.parameters(), lr=settings["lr"])
    if settings["moreau"]:
        primal = MoreauEnvelope(primal, mu=settings["moreau"])
    dual = ALM(m=2, is_ineq=True, **settings["dual"])
    one_hot = nn.functional.one_hot(task.group).float()
    generator = torch.Generator().manual_seed(seed)
    sampler = BalancedBatchSampler(group_onehot=one_hot, batch_size=settings["batch_size"], generator=generator)
    data = torch.utils.data.TensorDataset(task.x, one_hot, task.y)
    loader = torch.utils.data.DataLoader(data, batch_sampler=sampler)
    watch = stopwatch(lambda: net(task.x))
    watch.start()
    while True:
        for x, groups, y in loader:
            per_row = criterion(net(x).squeeze(-1), y)
            means = (groups.T @ per_row) / groups.sum(0)
            gap = means[0] - means[1]
            constraints = torch.stack((gap - BOUND, -gap - BOUND))
            dual.forward_update(per_row.mean(), constraints).backward()
            primal.step()
            primal.zero_grad()
            watch.tick()


if __name__ == "__main__":
    main({"alm": alm})
