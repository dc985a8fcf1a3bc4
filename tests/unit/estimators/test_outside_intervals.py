"""Notes of a fit report on bounds within percentile intervals that no decision changes in."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.estimators.facts.outside_intervals import outside_intervals
from fairbound.fairness.compiled.statistics import RATES
from fairbound.fairness.notions.partial import PartialRateBound
from fairbound.fairness.percentiles.intervals import Percentiles
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import MLP

N = 100
"""Rows of each of two groups, whose scores are N ranks each; the highest half has label 1."""


def noted(stated, threshold):
    """The notes where `threshold` of the N ranks of each group are predicted positive."""
    rank = np.tile(np.arange(N), 2)
    y, group = (rank < N // 2).astype(int), np.repeat([0, 1], N)
    problem = FairProblem(MLP(1), -rank[:, None].astype(float), y, group, stated)
    return outside_intervals(problem, torch.tensor([1.0, threshold - 0.5]))


@pytest.mark.parametrize(
    ("bound", "positive", "said"),
    [
        ("demographic_parity", 10, "negative"),
        ("demographic_parity", 20, "negative"),
        ("demographic_parity", 21, None),
        ("demographic_parity", 40, None),
        ("demographic_parity", 60, "positive"),
        ("demographic_parity", 90, "positive"),
        ("demographic_parity", 0, None),
        ("equal_opportunity", 9, "row of the interval of positive labels is predicted negative"),
        ("equal_opportunity", 20, None),
        ("equal_opportunity", 30, "interval around the share of positive decisions among them tells more"),
        ("equalized_odds", 50, "positive labels is predicted positive, of negative labels negative"),
        ("equalized_odds", 20, None),
        ("equalized_odds", 5, "row of the interval of either label is predicted negative"),
    ],
)
def test_a_line_outside_the_interval_of_every_group_is_said_to_be_there(bound, positive, said):
    """20 to 60 % of all 100 rows are ranks 20 to 60, of the 50 of a label ranks 10 to 30 from its first."""
    notes = noted(f"partial_{bound}[0.2:0.6] <= 0.1", positive)
    assert len(notes) == (said is not None)
    assert all(said in note and "outside the interval" in note and "value 0" in note for note in notes)


class FalsePositives(PartialRateBound):
    name = "partial_false_positives"
    rates = (RATES["false_positive_rate"],)


class TurnedRound(PartialRateBound):
    name = "partial_turned_round"
    rates = (RATES["false_positive_rate"], RATES["true_positive_rate"])


@pytest.mark.parametrize(
    ("kind", "positive", "said"),
    [
        (FalsePositives, 40, "row of the interval of negative labels is predicted negative. .* decisions among them"),
        (FalsePositives, 90, "row of the interval of negative labels is predicted positive"),
        (TurnedRound, 50, "of negative labels is predicted negative, of positive labels positive. .* of each label"),
        (TurnedRound, 5, "row of the interval of either label is predicted negative"),
    ],
)
def test_bounds_of_ones_own_on_other_labels_have_a_note(kind, positive, said):
    (note,) = noted(kind(bound=0.1, interval=Percentiles.read("0.2:0.6")), positive)
    assert re.search(said, note)


def test_each_bound_has_a_note_of_its_own():
    stated = [
        "demographic_parity <= 0.1",
        "partial_demographic_parity[0.2:0.6] <= 0.1",
        "partial_demographic_parity[0.05:0.3] <= 0.1",
    ]
    assert [note.split(":")[0] + note.split(":")[1][:3] for note in noted(stated, 40)] == [
        "partial_demographic_parity[0.050.3"
    ]
    assert noted(stated[:1], 40) == []


@pytest.mark.parametrize("seed", range(3))
def test_the_note_is_in_the_report_where_the_value_is_zero(seed):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, 400)
    X = rng.normal(size=(400, 2)) + 0.3 * group[:, None]
    y = (X.sum(1) + rng.logistic(size=400) > 0).astype(int)
    bounds = [f"partial_demographic_parity[{interval}] <= 0.2" for interval in ("0.01:0.1", "0.3:0.7")]
    for bound, outside in zip(bounds, (True, False), strict=True):
        model = fb.FairClassifier(bound, options=fb.TableOptions(knots=0), random_state=0).fit(
            X, y, sensitive_features=group
        )
        notes = [note for note in model.fit_report_["notes"] if "outside the interval" in note]
        assert len(notes) == outside
        assert (abs(model.fit_report_["constraints"][0]["train_value"]) < 1e-6) == outside
