"""Networks whose numbers jump where the labels ask for it, though nothing is said of jumps."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse

import fairbound as fb
from fairbound.base.errors import OptionError
from fairbound.tables import Chunks, Encoded, TableOptions

pytestmark = pytest.mark.filterwarnings("ignore:On the training rows the model is no more")  # so few are the steps
BOUND = "demographic_parity <= 0.1"
EDGES = (20.5, 35.5, 80.5, 95.5, 140.5, 155.5, 200.5, 215.5, 260.5, 275.5)
TOLD = "the network is told whether these numbers lie above so many values: code (10)."
FEW = {"model": "mlp:4", "budget": "20 steps", "algorithm": "alm"}


def rows(n: int = 2000, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Rows whose label is 1 where a code kept as a number lies in one of five ranges, but for one in ten."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"code": rng.integers(0, 300, n), "x": rng.normal(size=n)})
    inside = X.code.mod(60).between(21, 35)
    return X, (inside ^ (rng.random(n) < 0.1)).to_numpy().astype(int), rng.choice(["f", "m"], n)


def fitted(X, y, group, bound=BOUND, **options):
    return fb.FairClassifier(bound, **(FEW | options)).fit(X, y, sensitive_features=group)


def test_a_network_is_told_where_a_code_jumps_and_learns_it():
    X, y, group = rows()
    new, labels, _ = rows(seed=1)
    network = {"model": "mlp:4", "budget": "150 steps", "algorithm": "auto"}
    model = fitted(X, y, group, **network)
    assert np.abs(np.subtract(model.encoder_.jumping["code"], EDGES)).max() < 1.5 and model.encoder_.bent == ()
    assert sum(TOLD in note for note in model.fit_report_["notes"]) == 1
    without = fitted(X, y, group, options=TableOptions(jumps=0), **network)
    assert without.encoder_.jumping == {} and not any("lie above" in note for note in without.fit_report_["notes"])
    assert model.score(new, labels) > 0.88 > 0.75 > without.score(new, labels)


@pytest.mark.parametrize("options", [TableOptions(knots=0), TableOptions(knots=2), TableOptions(jumps=0)])
def test_what_is_said_of_knots_or_jumps_is_kept(options):
    assert fitted(*rows(), options=options).encoder_.jumping == {}


def test_no_number_jumps_where_the_labels_do_not_ask_or_the_table_is_not_whole():
    X, y, group = rows()
    chance = np.random.default_rng(5).permutation(y)
    for model in (
        fitted(X, chance, group),
        fitted(sparse.csr_array(X.to_numpy(dtype=float)), y, group),
        fitted(Chunks(lambda: [X[:900], X[900:]]), y, group),
        fitted(Encoded.of(fb.TableEncoder(), X), y, group),
    ):
        assert model.encoder_.jumping == {}
        assert not any("lie above" in note or "labels ask" in note for note in model.fit_report_["notes"])
    number = fb.FairRegressor(model="mlp:4", budget="20 steps").fit(X, y + 0.1 * X.x)
    assert number.encoder_.jumping == {}  # on public tables it did not pay
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    assert fitted(X.astype("float32"), y, group, model=module).encoder_ is None


def test_an_encoded_table_may_stand_beside_other_options_of_the_network(tmp_path):
    X, y, group = rows()
    model = fitted(X, y, group, options=TableOptions(min_count=3))
    assert len(model.encoder_.jumping["code"]) == len(EDGES)
    again = Encoded.of(model.encoder_, X)
    fitted(again, y, group, options=TableOptions(min_count=3))
    with pytest.raises(OptionError, match="encoded already"):
        fitted(again, y, group, options=TableOptions(min_count=3, jumps=0))
    model.save(tmp_path / "model")
    assert np.array_equal(fb.FairClassifier.load(tmp_path / "model").decision_function(X), model.decision_function(X))
