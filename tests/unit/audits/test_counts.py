"""Audits of counts: parts merged in any order and of any size give the audit of all rows."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import fairbound as fb
from fairbound.base.errors import DataError, OptionError

BOUNDS = [
    "demographic_parity <= 0.05",
    "demographic_parity[overall] <= 0.05",
    "equalized_odds[crossed] <= 0.1",
    "equal_opportunity[best] <= 0.1",
    "demographic_parity_ratio >= 0.8",
    "predictive_parity <= 0.1",
    "f1_parity <= 0.1",
    "treatment_equality <= 0.5",
    "conditional_demographic_parity[given=race,by=sex] <= 0.1",
    "recall of class 1 >= 0.5",
    "error of class 0 <= 0.5",
]


def rows(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["F", "M", None], n, p=[0.4, 0.5, 0.1])
    race = rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1])
    y = (rng.random(n) < 0.4).astype(int)
    return rng.normal(size=n) + y, y, {"sex": sex, "race": race}


def counted(scores, y, groups, ends, **options):
    parts = [slice(a, b) for a, b in zip([0, *ends], [*ends, len(y)], strict=True)]
    counts = [
        fb.AuditCounts.of(scores[p], y[p], {name: column[p] for name, column in groups.items()}, **options)
        for p in parts
    ]
    return functools.reduce(fb.AuditCounts.merge, counts)


def without(found, *names):
    return {name: value for name, value in found.items() if name not in (*names, "created")}


@pytest.mark.parametrize("ends", [[], [1500], [40, 41, 1000, 2999]])
@pytest.mark.parametrize("seed", [0, 1])
def test_merged_counts_give_the_audit_of_all_rows(ends, seed):
    scores, y, groups = rows(seed=seed)
    groups["sex"][:41] = "F"  # the first parts lack a group
    whole = fb.audit(scores, y, groups, BOUNDS, threshold=0.0)
    merged = counted(scores, y, groups, ends, threshold=0.0)
    found = merged.audit(BOUNDS)
    assert len(merged) == len(y) and found["metrics"]["auc"] is None
    inexact = ("metrics", "groups", "impact")  # counts know no median of the scores
    assert without(found, *inexact) == without(whole, *inexact)
    for name, value in found["metrics"].items():
        assert name == "auc" or value == pytest.approx(whole["metrics"][name], rel=1e-12)
    for mine, other in zip(found["groups"], whole["groups"], strict=True):
        assert without(mine, "mean_loss") == without(other, "mean_loss")
        assert mine["mean_loss"] == pytest.approx(other["mean_loss"], rel=1e-12)


def test_the_order_of_merging_does_not_matter():
    scores, y, groups = rows(500)
    parts = [slice(0, 100), slice(100, 260), slice(260, 500)]
    counts = [fb.AuditCounts.of(scores[p], y[p], {"sex": groups["sex"][p]}) for p in parts]
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        one = sum(counts[i] for i in order)
        other = counts[order[0]] + (counts[order[1]] + counts[order[2]])
        assert np.array_equal(one.cells, other.cells) and np.array_equal(one.counts, other.counts)
        assert one.labels == other.labels == (("F", "M"),)


def test_decisions_probabilities_and_no_groups():
    scores, y, groups = rows(400)
    decisions, likely = (scores > 0).astype(int), 1 / (1 + np.exp(-scores))
    for given in (decisions, likely):
        whole = fb.audit(given, y, groups, "demographic_parity <= 0.1")
        found = counted(given, y, groups, [100]).audit("demographic_parity <= 0.1")
        assert found["constraints"] == whole["constraints"] and found["distributions"] == whole["distributions"]
    alone = fb.AuditCounts.of(scores, y).audit("recall of class 1 >= 0.5")
    assert alone["constraints"] == fb.audit(scores, y, None, "recall of class 1 >= 0.5")["constraints"]
    constant = fb.AuditCounts.of(np.zeros(4), [0, 1, 0, 1], ["a", "a", "b", "b"]).audit()
    assert constant["warnings"] == ["Every row is predicted negative, so any bound on rates is met trivially."]


def test_what_counts_cannot_tell_is_refused():
    scores, y, groups = rows(300)
    counts = counted(scores, y, groups, [100])
    with pytest.raises(DataError, match=r"'loss_gap <= 0.1' cannot be judged from counts: pass the rows"):
        counts.audit("loss_gap <= 0.1")
    with pytest.raises(DataError, match="compares groups"):
        fb.AuditCounts.of(scores, y).audit("demographic_parity <= 0.1")
    with pytest.raises(DataError, match="cannot be merged"):
        counts.merge(fb.AuditCounts.of(scores, y))
    likely = fb.AuditCounts.of(1 / (1 + np.exp(-scores)), y, groups)
    with pytest.raises(DataError, match="read in two ways"):
        counts.merge(likely)
    with pytest.raises(OptionError, match="confidence"):
        counts.audit(confidence=0.3)
    with pytest.raises(DataError, match="300 scores but 299 rows"):
        fb.AuditCounts.of(scores, y, groups["race"][1:])


def test_counts_of_decisions_without_outcomes_give_the_audit_without_outcomes():
    scores, _, groups = rows(1200)
    stated = ["demographic_parity[crossed,fewest=30] <= 0.1", "demographic_parity_ratio >= 0.8"]
    parts = [slice(a, a + 300) for a in range(0, 1200, 300)]
    for given, threshold in ((scores, 0.0), ((scores > 0).astype(int), None)):
        counts = [
            fb.AuditCounts.of(given[p], None, {k: v[p] for k, v in groups.items()}, threshold=threshold) for p in parts
        ]
        found = functools.reduce(fb.AuditCounts.merge, counts).audit(stated)
        whole = fb.audit(given, None, groups, stated, threshold=threshold)
        for part in ("constraints", "metrics", "groups", "data", "distributions", "verdict"):
            assert found[part] == whole[part], part
        assert set(whole["notes"]) - set(found["notes"]) <= {n for n in whole["notes"] if n.startswith("The scores")}
        assert set(found["metrics"]) == {"selection_rate"}
        fb.report.table(found)


def test_counts_without_outcomes_refuse_what_needs_them_in_the_words_of_an_audit():
    scores, y, groups = rows(300)
    counts = fb.AuditCounts.of(scores, None, groups, threshold=0)
    with pytest.raises(OptionError) as of_counts:
        counts.audit("equalized_odds <= 0.1")
    with pytest.raises(OptionError) as of_rows:
        fb.audit(scores, None, groups, "equalized_odds <= 0.1", threshold=0)
    assert str(of_counts.value) == str(of_rows.value)
    with pytest.raises(DataError, match="give y of every part, or of none"):
        counts.merge(fb.AuditCounts.of(scores, y, groups, threshold=0))
    with pytest.raises(DataError, match="a stream of metrics needs the labels y"):
        fb.metrics.Stream(["accuracy"]).update(scores, None, groups)


def test_parts_without_a_known_group_or_without_rows_count_as_they_do_in_all_rows():
    scores, y, groups = rows(900)
    groups["sex"][300:600] = None
    stated = ["demographic_parity <= 0.1", "equalized_odds[crossed] <= 0.2"]
    whole = fb.audit(scores, y, groups, stated, threshold=0.0)
    found = counted(scores, y, groups, [0, 300, 600, 600, 900], threshold=0.0).audit(stated)
    for part in ("constraints", "data", "distributions", "warnings"):
        assert found[part] == whole[part], part
    none = fb.AuditCounts.of([], [], {"sex": [], "race": []})
    decisions = fb.AuditCounts.of((scores > 0).astype(int), y, groups)
    for merged in (none + none + decisions, decisions + none):  # no rows were read in no way
        assert merged.audit(stated)["constraints"] == whole["constraints"] and merged.read_as == decisions.read_as
    with pytest.raises(DataError, match="there are no scores; at least one row is needed"):
        (none + none).audit()
    with pytest.raises(DataError, match="'sex' has no known value"):
        counted(scores[300:600], y[300:600], {"sex": groups["sex"][300:600]}, [100]).audit()


def test_groups_are_as_many_as_all_rows_allow():
    scores, y, _ = rows(3000)
    region = np.array([f"r{i % 150:03}" for i in range(3000)])
    whole = fb.audit(scores, y, region, "demographic_parity <= 0.9", threshold=0.0)
    parts = counted(scores, y, {"group": region}, [1000, 2000], threshold=0.0)
    assert parts.audit("demographic_parity <= 0.9")["constraints"] == whole["constraints"]
    for said, column in (("150 values in 1000 rows", region[:1000]), ("1000 values in 1000 rows", np.arange(1000) / 8)):
        few = counted(scores[:1000], y[:1000], {"group": column}, [500], threshold=0.0)
        with pytest.raises(DataError, match=said):
            few.audit()
    named = fb.AuditCounts.of(scores[:1000], y[:1000], fb.Groups.of({"group": region}).take(range(1000)), threshold=0)
    assert len(named.audit()["groups"]) == 150  # groups that were told apart before are taken as they are
