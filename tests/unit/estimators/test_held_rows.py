"""The rows that `FairClassifier` holds back for validation are in no batch that it trains on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import fairbound as fb

N = 24
Y, GROUP = np.arange(N) % 2, np.repeat(["a", "b"], N // 2)


def fitted(x: np.ndarray, seed: int) -> fb.FairClassifier:
    """A linear module, so that no encoder sees the table; with 80 batches of 8 every training row is drawn."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = nn.Linear(2, 1)
    model = fb.FairClassifier(
        "demographic_parity <= 0.9", model=module, algorithm="alm", validation=0.25, budget="80 steps", batch_size=8,
        random_state=seed,
    )  # fmt: skip
    return model.fit(x, Y, sensitive_features=GROUP)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # so few rows need not be learnt
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_each_row_trains_or_validates(seed):
    """A row moved by itself changes the weights if it is trained on, and only the validation loss if it is held back."""
    x = np.random.default_rng(seed).normal(size=(N, 2)) + 3 * Y[:, None]
    first = fitted(x, seed)
    held = 0
    for row in range(N):
        moved = x.copy()
        moved[row] += 1.0
        again = fitted(moved, seed)
        trained_on = not torch.equal(first.solution_.last, again.solution_.last)
        losses = [model.solution_.records[0]["validation"]["f"] for model in (first, again)]
        assert trained_on == (losses[0] == losses[1])
        held += not trained_on
    assert held == first.fit_report_["validation_rows"] > 0
