"""Handwritten digits in two colours, and the small network that is trained on them: an image task for bounds on scores.

Is a digit 5 or more? Every picture is red or green; red with probability 0.7 where the answer is yes and 0.3 where it
is no, so that the colour, which is the group, tells of the answer, and a network that sees it scores the red pictures
higher.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from fairbound.base.seeds import seed_for
from fairbound.data import load
from fairbound.fairness.problem import FairProblem
from fairbound.methods import SGD, algorithm
from fairbound.models.mlp import MLP
from fairbound.models.model import ModuleModel
from fairbound.models.scoring import last_inputs
from fairbound.solver.solve import solve
from fairbound.studies.rows import PARTS, StudyRows, checksum, in_parts

SIDE, CHANNELS, LAST = 14, 2, 64
RED = {True: 0.7, False: 0.3}


def coloured_digits(shares: Sequence[float], seed: int, data_dir: str | None, most: int = 0) -> dict[str, StudyRows]:
    """Training, validation and test rows: pictures (n, 2, 14, 14) in [0, 1], a channel for each colour; labels and
    colours (n,).

    MNIST's 10,000 test pictures, each cell the mean of 2 x 2 pixels. shares: of the rows. most: a random part of so
    many rows, 0 for all.
    """
    data = load("mnist-test", data_dir)
    grey = np.asarray(data.X, dtype=np.float32).reshape(-1, SIDE, 2, SIDE, 2).mean(axis=(2, 4))
    y = (np.asarray(data.y) >= 5).astype(np.int64)
    rng = np.random.default_rng(seed_for("coloured digits", root=seed))
    red = rng.random(len(y)) < np.where(y == 1, RED[True], RED[False])
    x = np.zeros((len(y), CHANNELS, SIDE, SIDE), dtype=np.float32)
    x[np.arange(len(y)), np.where(red, 0, 1)] = grey
    colours = np.where(red, "red", "green")
    every = StudyRows(x, y, colours, checksum(data.X, y, colours))
    return {name: every.take(rows) for name, rows in zip(PARTS, in_parts(len(y), shares, rng, most), strict=True)}


def network(seed: int) -> ModuleModel:
    """Two convolutions and a linear layer, 1,385 parameters."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_for("digits", root=seed))
        layers = nn.Sequential(
            nn.Conv2d(CHANNELS, 8, 3, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(), nn.Flatten(),
            nn.Linear(LAST, 1),
        )  # fmt: skip
    return ModuleModel(layers)


def trained_layers(rows: StudyRows, seed: int, steps: int) -> Tensor:
    """(n,) parameters of `network` after `steps` of training without bounds, but those of the last layer, which are 0:
    every picture has one score, and so every bound on scores is met.
    It stands for the layers that the source takes from ImageNet."""
    problem = FairProblem(network(seed), rows.x, rows.y, rows.group, [])
    x = solve(problem, SGD(step_size=0.1), budget=f"{steps} steps", seed=seed).last.clone()
    x[-(LAST + 1) :] = 0.0
    return x


def last_layer_solved(model: ModuleModel, rows: StudyRows, x: Tensor, bound: str) -> Tensor:
    """(n,) the parameters x of `network` with the last layer solved anew on all rows under `bound`, a linear model of
    what the others make of them.

    Few steps of random batches come near a bound and seldom within it; this is within it by its true distance, where
    anything found is.
    """
    before, own = x[: model.n - LAST - 1], x[model.n - LAST - 1 : model.n]
    inputs = last_inputs(model, x, torch.from_numpy(rows.x))
    assert inputs is not None
    problem = FairProblem(MLP(LAST), inputs.numpy(), rows.y, rows.group, [bound])
    x0 = problem.start([0])
    x0[: LAST + 1] = own
    found = solve(problem, algorithm("full_batch_alm:thresholds"), sampling="full", x0=x0)
    return torch.cat([before, problem.split(found.x)[0]])
