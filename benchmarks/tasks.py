"""The data and the models the benchmarks share: UCI Adult by sex, and group-balanced batches prepared in advance."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from fairbound.data import Prepared, load, prepare


@dataclass(frozen=True)
class Rows:
    """Encoded rows in float32.

    x: (n, d) features, standardised on the training rows. y: (n,) in {0., 1.}. group: (n,) codes 0..G-1.
    """

    x: Tensor
    y: Tensor
    group: Tensor

    def __len__(self) -> int:
        return len(self.y)


def adult(seed: int = 0) -> tuple[Rows, Rows]:
    """UCI Adult (48,842 rows) split 80/20: train, test. Group 0 = Female, 1 = Male; sex is not a feature."""
    return coded(prepare(load("adult"), seed, group="sex"), ("Female", "Male"))


def acs_income(state: str, seed: int = 0) -> tuple[Rows, Rows]:
    """An ACSIncome 2018 extract ("CO", "NE", "OK_partial") as Kliachkin et al. (2025) prepare it; 0 = Non-White."""
    data = load(f"acs-income-{state.lower().replace('_', '-')}")
    return coded(prepare(data, seed, group="race_binary"), ("Non-White", "White"))


def coded(data: Prepared, names: tuple[str, ...]) -> tuple[Rows, Rows]:
    """Train and test rows as float32 tensors, groups as codes in the order of `names`."""

    def rows(x: np.ndarray, y: np.ndarray, group: np.ndarray) -> Rows:
        codes = np.array([names.index(label) for label in group])
        return Rows(
            torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y.astype(np.float32)), torch.from_numpy(codes)
        )

    return (
        rows(data.X_train, data.y_train, data.group_train),
        rows(data.X_test, data.y_test, data.group_test),
    )


@dataclass(frozen=True)
class FixedBatch:
    """A group-balanced batch, rows sorted by group.

    x: (B, d). y: (B,). group: (B,) codes. mean: (G, B) matrix whose product with per-row values gives group means.
    """

    x: Tensor
    y: Tensor
    group: Tensor
    mean: Tensor
    rows: Tensor


def balanced_batches(rows: Rows, size: int, count: int = 64, seed: int = 0, groups: int = 2) -> list[FixedBatch]:
    """`count` batches of `size` rows with size // groups rows of each group, drawn without replacement in a batch."""
    generator = torch.Generator().manual_seed(seed)
    members = [torch.nonzero(rows.group == k).flatten() for k in range(groups)]
    each = size // groups
    group = torch.arange(groups).repeat_interleave(each)
    mean = torch.zeros(groups, each * groups)
    mean[group, torch.arange(each * groups)] = 1.0 / each
    out = []
    for _ in range(count):
        picks = [m[torch.randperm(len(m), generator=generator)[:each]] for m in members]
        index = torch.cat(picks)
        out.append(FixedBatch(rows.x[index].contiguous(), rows.y[index].contiguous(), group, mean, index))
    return out


def mlp(features: int, hidden: tuple[int, ...] = (64, 32), seed: int = 0) -> nn.Sequential:
    """ReLU network with one output, torch's default initialisation under `seed` (the global generator is restored)."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sizes = (features, *hidden)
        layers: list[nn.Module] = []
        for a, b in pairwise(sizes):
            layers += [nn.Linear(a, b), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(sizes[-1], 1))


def linear(features: int, seed: int = 0) -> nn.Sequential:
    """A linear model as a one-layer `nn.Sequential`."""
    return mlp(features, hidden=(), seed=seed)
