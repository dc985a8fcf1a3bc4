"""What a FairProblem takes for labels and features, and what it says of others."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch

import fairbound as fb
from fairbound.base.errors import DataError
from fairbound.fairness.class_numbers import Advice, check_class_numbers, how_to_pass
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import MLP
from twelve_rows import FEATURES, TARGETS, TWO_GROUPS, tiny

POSITIVE = "targets == POSITIVE"
BY_LABEL = "equal_opportunity <= 0.1"


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (TARGETS + 1, POSITIVE),
        (2 * TARGETS - 1, POSITIVE),
        (np.where(TARGETS == 1, "yes", "no"), POSITIVE),
        (TARGETS / 2, "a loss of your own"),
        (TARGETS + 0.5, "the loss 'squared'"),
        (np.where(np.arange(12) == 3, np.nan, TARGETS), "Drop the rows"),
        (pd.Series(TARGETS, dtype="Int64").mask(np.arange(12) == 3), "Drop the rows"),
    ],
)
def test_other_labels_of_two_classes_are_refused(y, words):
    """They would be trained on as targets of the loss, and the rows of label 1 be those that are bounded."""
    with pytest.raises(DataError, match=f"targets must be 0 or 1, got .*{words}"):
        FairProblem(MLP(2), FEATURES, y, TWO_GROUPS, BY_LABEL)
    for loss in ("hinge", "squared_margin"):
        with pytest.raises(DataError, match="targets must be 0 or 1"):
            FairProblem(MLP(2), FEATURES, y, loss=loss)
    with pytest.raises(DataError, match="targets must be 0 or 1"):
        fb.formulate(torch.nn.Linear(2, 1), "squared", (FEATURES, y), TWO_GROUPS, "demographic_parity <= 0.1")


def test_numbers_are_free_under_a_loss_of_numbers_where_no_bound_looks_at_labels():
    y = FEATURES[:, 0] * 3
    assert FairProblem(MLP(2), FEATURES, y, TWO_GROUPS, "demographic_parity <= 0.1", loss="squared").m == 2
    own = FairProblem(MLP(2), FEATURES, TARGETS * 0.8 + 0.1, loss=lambda s, y: (s - y).abs())
    assert sorted(set(own.targets.tolist())) == pytest.approx([0.1, 0.9])
    for stated in (BY_LABEL, "loss_gap[y=1] <= 0.1"):
        with pytest.raises(DataError, match="needs labels 0 and 1"):
            FairProblem(MLP(2), FEATURES, y, TWO_GROUPS, stated, loss="squared")
    with pytest.raises(DataError, match=r"must be numbers, and row 0 .* has 'b'"):
        FairProblem(MLP(2), FEATURES, np.array(["b"] * 12), loss="squared")
    y[5] = np.nan
    with pytest.raises(DataError, match="finite numbers, got nan in row 5"):
        FairProblem(MLP(2), FEATURES, y, loss="squared")


def test_classes_are_their_numbers():
    y = np.arange(12) % 3
    assert FairProblem(MLP(2, (), 3), FEATURES, y, loss="cross_entropy").rows == 12
    with pytest.raises(DataError, match=r"targets must be class numbers 0 to 2, got \[3\]\.$"):
        FairProblem(MLP(2, (), 3), FEATURES, y + 1, loss="cross_entropy")


def test_tables_columns_and_tensors_are_read_as_arrays_are():
    x = torch.linspace(-1, 1, 3, dtype=torch.float64)
    wanted = tiny(BY_LABEL).evaluate(x)
    given = [
        (pd.DataFrame(FEATURES), pd.Series(TARGETS)),
        (pd.DataFrame(FEATURES), pd.Series(TARGETS, dtype="Int64")),
        (torch.as_tensor(FEATURES), torch.as_tensor(TARGETS == 1)),
        (FEATURES[:, ::-1].copy()[:, ::-1], TARGETS[:, None]),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for features, y in given:
            found = FairProblem(MLP(2), features, y, TWO_GROUPS, BY_LABEL, dtype=torch.float64).evaluate(x)
            assert torch.equal(found.f, wanted.f) and torch.equal(found.g, wanted.g)
    with pytest.raises(DataError, match="features must be numbers"):
        FairProblem(MLP(2), pd.DataFrame({"a": ["x"] * 12, "b": ["y"] * 12}), TARGETS)


def test_what_is_said_of_labels_names_some_of_those_that_are_wrong():
    advice = Advice("BETWEEN.", more="MORE", numbers="NUMBERS")
    with pytest.raises(DataError, match=r"got \[2, 3, 4, 5, 6\]\. Of two classes .*; of more MORE\.$"):
        check_class_numbers(np.arange(20), 2, advice)
    with pytest.raises(DataError, match=r"got \[2, 'x'\]\."):
        check_class_numbers(np.array([0, "x", 2], dtype=object), 2, advice)
    assert how_to_pass([0.5], 2, advice) == " BETWEEN."
    assert how_to_pass([0.5, 2.5], 2, advice) == " To predict numbers, NUMBERS."
    assert how_to_pass([7], 3, advice) == ""


@pytest.mark.parametrize(
    "features",
    [
        pd.DataFrame({"a": FEATURES[:, 0], "b": FEATURES[:, 1] > 0}),
        pd.DataFrame({"a": FEATURES[:, 0].round().astype(int), "b": FEATURES[:, 1]}).astype(object),
        FEATURES.astype(">f8"),
    ],
)
def test_columns_of_several_kinds_of_numbers_are_features(features):
    made = FairProblem(MLP(2), features, TARGETS, TWO_GROUPS, BY_LABEL, dtype=torch.float64)
    plain = FairProblem(MLP(2), np.asarray(features, dtype=np.float64), TARGETS, TWO_GROUPS, BY_LABEL, dtype=torch.float64)  # fmt: skip
    assert torch.equal(made.features, plain.features)


@pytest.mark.parametrize("other", ["1.5", None])
def test_texts_and_gaps_are_no_features(other):
    cells = FEATURES.astype(object)
    cells[3, 1] = other
    with pytest.raises(DataError, match="features must be numbers, got object"):
        FairProblem(MLP(2), cells, TARGETS, TWO_GROUPS, BY_LABEL)
