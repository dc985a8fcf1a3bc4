"""How a method moves x along a gradient: plain steps, or any torch optimiser on the flat parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fairbound.base.errors import OptionError

OptimizerFactory = Callable[[list[Tensor]], torch.optim.Optimizer]
OPTIMIZERS: dict[str, Callable[[list[Tensor], float], torch.optim.Optimizer]] = {
    "momentum": lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9),
    "adam": lambda p, lr: torch.optim.Adam(p, lr=lr),
    "adamw": lambda p, lr: torch.optim.AdamW(p, lr=lr),
}


def check_optimizer(optimizer: str | OptimizerFactory) -> None:
    """Raises: OptionError where there is no torch optimiser of that name."""
    if not (callable(optimizer) or optimizer in ("sgd", *OPTIMIZERS)):
        raise OptionError(
            f"unknown optimizer {optimizer!r}; known: sgd, {', '.join(OPTIMIZERS)}, or a function "
            "params -> torch.optim.Optimizer."
        )


def make_optimizer(optimizer: str | OptimizerFactory, x: Tensor, step_size: float) -> torch.optim.Optimizer | None:
    """The torch optimiser that moves x in place; None for plain steps."""
    if optimizer == "sgd":
        return None
    made: Any = optimizer([x]) if callable(optimizer) else OPTIMIZERS[optimizer]([x], step_size)
    for group in made.param_groups:
        group.setdefault("initial_lr", group["lr"])
    return made


def move(
    x: Tensor, gradient: Tensor, optimizer: torch.optim.Optimizer | None, step_size: float, factor: float = 1.0
) -> None:
    """x <- x - factor * step_size * gradient in place, or one step of `optimizer`
    with its learning rate times `factor`."""
    if optimizer is None:
        x.sub_(gradient, alpha=step_size * factor)
        return
    for group in optimizer.param_groups:
        group["lr"] = group["initial_lr"] * factor
    x.grad = gradient
    optimizer.step()
    x.grad = None


def clipped(gradient: Tensor, most: float) -> Tensor:
    """gradient (..., n), every run's shortened to norm `most` where it is longer."""
    if gradient.dim() == 1:
        norm = float(gradient.dot(gradient)) ** 0.5
        return gradient if norm <= most else gradient * (most / norm)
    return gradient * (most / gradient.norm(dim=-1, keepdim=True)).clamp_max(1)


def decayed(k: int, horizon: float, power: float) -> float:
    """1 / (1 + k / horizon)^power, the usual diminishing step; 1 where power is 0."""
    return 1.0 if power == 0 else (1 + k / horizon) ** -power
