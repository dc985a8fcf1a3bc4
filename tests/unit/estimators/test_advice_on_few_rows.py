"""What is advised where groups of few rows leave hardly more than a constant is what can help, and does help."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
import torch
from scipy import sparse

import fairbound as fb
from fairbound.fairness.compiled.builder import compile_plan
from fairbound.fairness.few_rows import bounds_below_a_step, without_few_rows
from fairbound.fairness.notions import constraints
from fairbound.rows.groups import Groups


def people():
    """Rows of two large groups and twelve of five rows each; the first feature tells something of the large ones alone."""
    rng = np.random.default_rng(0)
    group = np.concatenate([np.resize(["a", "b"], 800), np.repeat([f"t{i}" for i in range(12)], 5)])
    y = rng.integers(0, 2, len(group))
    y[800:] = np.resize([0, 1, 1, 0, 1], 60)
    x = np.column_stack([rng.normal(size=len(group)) + y * (np.arange(len(group)) < 800), rng.normal(size=len(group))])
    return x, y, group


@pytest.fixture(scope="module")
def said():
    """Each warning of a fit under equalised odds with tiny groups, and the report."""
    x, y, group = people()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fair = fb.FairClassifier("equalized_odds <= 0.1", random_state=0).fit(x, y, group)
    return [str(one.message) for one in caught], fair.fit_report_


def test_both_warnings_advise_to_leave_the_groups_out(said):
    texts, facts = said
    small, learnt = (next(t for t in texts if words in t) for words in ("too few training rows", "the same answer"))
    text = "equalized_odds[fewest=30] <= 0.1"
    assert f"leave groups of so few rows out ({text})" in small
    assert f"leave them out ({text}), merge them with others, mark their values missing, or loosen the bound" in learnt
    assert learnt == facts["nothing_learnt"] and facts["what_may_help"] in learnt
    for useless in ("objective='accuracy'", "algorithm='alm'", "mlp:16", "budget)"):
        assert useless not in learnt


def test_the_advice_helps(said):
    _, before = said
    x, y, group = people()
    stated = re.search(r"\((equalized_odds\[.*?\] <= 0.1)\)", before["what_may_help"])[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fair = fb.FairClassifier(stated, random_state=0).fit(x, y, group)
    assert fair.fit_report_["nothing_learnt"] is None and fair.fit_report_["what_may_help"] is None
    assert fair.fit_report_["accuracy"] > before["accuracy"] + 0.05


@pytest.mark.parametrize(
    ("stated", "rows", "text"),
    [
        ("demographic_parity <= 0.05", [4, 30, 40], "demographic_parity[fewest=30] <= 0.05"),
        ("demographic_parity[crossed,fewest=5] <= 0.05", [7, 30, 40], "demographic_parity[crossed,fewest=30] <= 0.05"),
        ("demographic_parity <= 0.05", [4, 25, 25], "demographic_parity[fewest=20] <= 0.05"),  # none has 30
        ("demographic_parity <= 0.02", [4, 60, 70], "demographic_parity[fewest=50] <= 0.02"),
        ("demographic_parity <= 0.05", [4, 5, 40], None),  # one group would be left
        ("demographic_parity_ratio >= 0.8", [1, 30, 40], "demographic_parity_ratio[fewest=30] >= 0.8"),
        ("pairwise_parity[inter] <= 0.05", [4, 30, 40], None),
        ("recall of class 1 >= 0.9", [4], None),
    ],
)
def test_the_bound_that_is_advised_leaves_out_what_moves_in_larger_steps(stated, rows, text):
    assert without_few_rows(fb.constraint(stated), np.array(rows)) == text


def fitted(bound, rows=(701, 800), tells=1.0):
    """The report and warnings of a fit to two groups of so many rows, whose first feature tells something."""
    rng = np.random.default_rng(0)
    group = np.repeat(["a", "b"], rows)
    y = rng.integers(0, 2, len(group))
    x = np.column_stack([rng.normal(size=len(y)) + tells * y, rng.normal(size=len(y)) + 0.5 * (group == "a")])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fair = fb.FairClassifier(bound, random_state=0).fit(x, y, group)
    return fair.fit_report_, [str(one.message) for one in caught]


def test_a_bound_of_0_that_hardly_a_rate_can_meet_is_said_and_ends_soon():
    facts, texts = fitted("demographic_parity <= 0")
    (said,) = (
        text for text in texts if text.startswith("demographic_parity <= 0: the rates of 'a' (701) and 'b' (800)")
    )
    assert "equal at 0 and 1 alone" in said and "at least 0.0014" in said
    (learnt,) = (text for text in texts if "the same answer" in text)
    assert "A bound of 0 leaves it hardly another choice" in learnt and "objective='accuracy'" not in learnt
    assert facts["steps"] <= 10 and any("were tried, as rates of groups" in note for note in facts["notes"])


@pytest.mark.parametrize(
    ("bound", "rows", "said"),
    [("demographic_parity <= 0", (700, 800), False), ("demographic_parity <= 0", (701, 701), False),
     ("demographic_parity <= 0", (703, 800), True), ("demographic_parity <= 0", (700, 805), False),
     ("loss_gap <= 0", (701, 800), False)],
)  # fmt: skip
def test_equality_is_spoken_of_where_steps_of_two_groups_hardly_meet(bound, rows, said):
    groups = Groups.of({"g": np.repeat(["a", "b"], rows)})
    y = np.arange(sum(rows)) % 2
    plan = compile_plan(constraints(bound), groups, y, (0, 1))
    found = bounds_below_a_step(plan, plan.counts(groups.codes, y))
    assert bool(found) == said


def test_a_bound_that_costs_nothing_is_not_blamed_and_no_more_is_trained():
    facts, texts = fitted("demographic_parity <= 0.9", (1500, 1501), tells=0.0)
    (learnt,) = (text for text in texts if "the same answer" in text)
    assert "These features tell too little of the label" in learnt and "loosen the bound" not in learnt
    free, _ = fitted(None, (1500, 1501), tells=0.0)
    assert learnt.endswith(free["what_may_help"])
    assert not any("alm" in note and "better model" in note for note in facts["notes"])
    blamed, texts = fitted("demographic_parity <= 0.002", tells=0.0)
    assert blamed["optimality"]["multipliers"] == {} or "loosen the bound" in " ".join(texts)


@pytest.mark.filterwarnings("ignore")
def test_features_are_not_blamed_where_no_model_but_the_start_met_the_bound():
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1], 200)
    X = group[:, None] + 0.1 * rng.normal(size=(400, 1))
    y = (rng.random(400) < 0.15 + 0.02 * X[:, 0]).astype(int)  # hardly a slope leads away from a constant
    fair = fb.FairClassifier("partial_statistical_parity[0.2:0.5] <= 0.01", random_state=0).fit(X, y, group)
    assert fair.fit_report_["best_step"] == 0
    learnt = fair.fit_report_["nothing_learnt"]
    assert "only model found that meets every bound" in learnt
    assert "These features tell too little" not in learnt and "loosen the bound" in learnt


@pytest.mark.parametrize(
    ("options", "ways"),
    [
        ({"algorithm": "alm"}, "Try objective='accuracy' or a network (mlp:16), train longer"),
        ({"algorithm": "alm", "objective": "accuracy"}, "Try a network (mlp:16), train longer"),
        (
            {"algorithm": "sgd_max_penalty", "model": "mlp:4"},
            "Try objective='accuracy' or algorithm='alm', train longer",
        ),
        ({"algorithm": "alm", "objective": "accuracy", "model": "mlp:4"}, "Train longer (a larger budget), loosen"),
    ],
)
def test_what_was_done_already_is_not_advised(options, ways):
    rng = np.random.default_rng(3)
    group = np.repeat(["a", "b"], 400)
    y = (rng.random(800) < np.where(group == "a", 0.7, 0.2)).astype(int)  # the features tell the group alone
    x = (group == "a").astype(float)[:, None] + 0.05 * rng.normal(size=(800, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fair = fb.FairClassifier(
            "demographic_parity <= 0.02", budget="150 steps", validation=0, random_state=0, **options
        ).fit(x, y, group)
    assert ways in fair.fit_report_["nothing_learnt"]


@pytest.mark.filterwarnings("ignore")
def test_knots_are_advised_where_they_can_be_had_alone():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2)), np.arange(200) % 5 == 0
    module = torch.nn.Linear(2, 1)
    advice = [
        fb.FairClassifier(budget="20 steps", options=fb.TableOptions(knots=0), **own)
        .fit(table, y)
        .fit_report_["what_may_help"]
        for table, own in ((X, {}), (sparse.csr_matrix(X), {}), (X, {"model": module}))
    ]
    for said, ways in zip(
        advice,
        ("let it bend more (5 knots, or a model mlp:16)", "let it bend more (a model mlp:16)", "make it larger"),
        strict=True,
    ):
        assert said.startswith(
            f"These features tell too little of the label. Give the model more of them, {ways}, or train longer"
        )
