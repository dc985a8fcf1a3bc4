"""Decisions without outcomes: the verdict on shares selected is that of the same decisions beside any labels, and nothing
is said that only outcomes can tell."""

from __future__ import annotations

import numpy as np
import pytest

import fairbound as fb
from fairbound.audits.decisions import SAID
from fairbound.base.errors import DataError, OptionError
from fairbound.report import audit_page, schema

BOUNDS = [
    "demographic_parity <= 0.1",
    "demographic_parity_ratio[crossed] >= 0.8",
    "conditional_demographic_parity[given=sex] <= 0.3",
]


def people(n: int = 3000) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
    """Scores, groups and outcomes."""
    rng = np.random.default_rng(5)
    groups = {"race": rng.choice(["a", "b", "c"], n), "sex": rng.choice(["F", "M"], n)}
    scores = rng.normal(size=n) + 0.5 * (groups["race"] == "a")
    return scores, groups, rng.integers(0, 2, n)


@pytest.mark.parametrize("weighted", [False, True])
def test_verdicts_and_ratios_are_those_of_the_same_decisions_beside_any_labels(weighted):
    scores, groups, y = people()
    more = {"sample_weight": np.random.default_rng(1).uniform(0.5, 2.0, len(y))} if weighted else {}
    alone, beside = (fb.audit(scores, labels, groups, BOUNDS, **more) for labels in (None, y))
    schema.validate(alone)
    assert alone["constraints"] == beside["constraints"] and alone["impact"] == beside["impact"]
    assert alone["metrics"] == {"selection_rate": beside["metrics"]["selection_rate"]} and SAID in alone["notes"]
    for group, same in zip(alone["groups"], beside["groups"], strict=True):
        assert group["rates"] == {"selection_rate": same["rates"]["selection_rate"]}
        assert group["positives"] is None and group["mean_loss"] is None


@pytest.mark.parametrize("positive", [None, "denied"])
def test_words_are_decisions_too(positive):
    scores, groups, _ = people()
    words = np.where(scores > 0, "granted", "denied")
    found = fb.audit(words, None, groups, "demographic_parity <= 0.1", positive=positive)
    chosen = scores > 0 if positive is None else scores <= 0
    assert found["metrics"] == {"selection_rate": pytest.approx(chosen.mean())}
    assert found["data"]["positive"] == (positive or "granted")
    printed = fb.report.table(found)
    assert f"Positive is decision = {positive or 'granted'}" in printed and "ccuracy" not in printed
    assert "Positives" not in audit_page(found) and "True positive rate" not in audit_page(found)


def test_the_value_alone_can_be_had_too():
    scores, groups, y = people()
    for bound in BOUNDS:
        value = fb.measure(bound, scores, y, groups)
        assert fb.measure(bound, scores, None, groups) == value
        words = np.where(scores > 0, "a", "r")
        assert fb.measure(bound, words, None, groups, positive="a") == value
    with pytest.raises(DataError, match="'equal_opportunity' needs the labels y"):
        fb.measure("equal_opportunity", scores, None, groups)
    with pytest.raises(DataError, match="metrics need the labels y"):
        fb.metrics.table("selection_rate", scores, None, groups)


def test_two_models_are_compared_by_whom_they_select():
    scores, groups, y = people()
    other = scores + np.random.default_rng(8).normal(size=len(y))
    bound = "demographic_parity <= 0.1"
    alone, beside = (fb.compare(scores, other, labels, groups, bound, draws=100) for labels in (None, y))
    same = [d for d in beside["differences"] if d["name"].startswith(("selection_rate", "demographic"))]
    assert alone["differences"][0]["difference"] == pytest.approx((other > 0).mean() - (scores > 0).mean())
    assert alone["differences"][1:-1] == same[:-1]  # the bound's interval is a bootstrap's, drawn from other cells
    assert all(alone["differences"][-1][key] == same[-1][key] for key in ("name", "first", "second", "difference"))
    assert alone["differences"][-1]["upper"] == pytest.approx(same[-1]["upper"], abs=0.03)
    words = [np.where(s > 0, "a", "r") for s in (scores, other)]
    assert fb.compare(*words, None, groups, bound, positive="a", draws=100)["differences"] == alone["differences"]


def test_another_model_is_compared_by_whom_it_selects():
    scores, groups, _ = people()
    found = fb.audit(scores, None, groups, "demographic_parity <= 0.1", compare={"turned": -scores})
    schema.validate(found)
    assert found["comparison"][0]["metrics"] == {"selection_rate": pytest.approx((scores < 0).mean())}
    assert "turned" in fb.report.table(found)


@pytest.mark.parametrize("bound", ["equal_opportunity <= 0.1", "loss_gap <= 0.1", "predictive_parity <= 0.1"])
def test_bounds_that_need_outcomes_are_refused_and_others_named(bound):
    scores, groups, _ = people()
    with pytest.raises(OptionError, match=r"needs the outcomes .* state demographic_parity, "):
        fb.audit(scores, None, groups, bound)


def test_what_cannot_be_read_as_decisions_is_said():
    scores, groups, _ = people()
    with pytest.raises(OptionError, match="say where positive begins with threshold="):
        fb.audit(scores, None, groups, BOUNDS, positive="yes")
    words = np.where(scores > 0, "yes", "no")
    with pytest.raises(OptionError, match="these are words; leave it out"):
        fb.audit(words, None, groups, BOUNDS, threshold=0.5)
    with pytest.raises(DataError, match="two classes are needed"):
        fb.audit(groups["race"], None, groups["sex"], "demographic_parity <= 0.1")
    with pytest.raises(OptionError, match="needs the relevance of every row"):
        fb.audit(scores, None, groups, qid=np.zeros(len(scores)))
