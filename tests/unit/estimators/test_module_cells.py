"""Cells that a module of one's own cannot take: they are named in training and at prediction, and no decision is made of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import fairbound as fb
from fairbound.base.errors import DataError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
Y = (X[:, 0] + RNG.normal(size=300) > 0).astype(int)


class Rooted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.last = torch.nn.Linear(3, 1)

    def forward(self, x):
        return self.last(torch.sqrt(x + 100)) - 5


@pytest.fixture(scope="module")
def models():
    classifier = fb.FairClassifier(model=Rooted(), budget="20 steps").fit(X, Y)
    ranker = fb.FairRanker(model=Rooted(), budget="20 steps").fit(X, Y, qid=np.repeat(np.arange(30), 10))
    return classifier, ranker


@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize("cell", [np.nan, np.inf, -np.inf, 1e300])
def test_a_cell_that_is_no_finite_number_is_named(models, cell):
    odd = X.copy()
    odd[7, 1] = cell
    for table, name in ((odd, "x1"), (pd.DataFrame(odd, columns=["a", "b", "c"]), "b")):
        said = rf"column '{name}' is missing, infinite or too large for single precision in row 7 .counting from 0"
        for model in models:
            with pytest.raises(DataError, match=said):
                model.predict(table)
        with pytest.raises(DataError, match=said):
            fb.FairClassifier(model=Rooted(), budget="20 steps").fit(table, Y)


def test_what_a_module_makes_of_finite_cells_is_not_said_of_these(models):
    odd = X.copy()
    odd[7, 1] = -200
    with pytest.raises(DataError, match=r"in row 7 .counting from 0.: the module makes NaN of finite features there"):
        models[0].predict(odd)
