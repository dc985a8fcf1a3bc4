"""Bounds on rankings as text, their values on small examples worked out by hand, and their verdicts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fairbound as fb
from fairbound.base.errors import DataError, OptionError
from fairbound.fairness.notions import ExposureParity, constraint
from fairbound.fairness.scored import Scored
from fairbound.ranking.documents import Documents

TEXTS = [
    "pairwise_parity[inter] <= 0.05",
    "pairwise_parity[intra] <= 0.1",
    "pairwise_parity[marginal,crossed,sharpness=3.0] <= 0.1",
    "exposure_parity <= 0.02",
    "exposure_parity[merit,by=sex,empty=drop] <= 0.02",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_bound_reads_what_it_writes(text):
    assert constraint(text).text == text


def test_words_that_say_nothing_new_are_left_out():
    assert constraint("exposure_parity[size] <= 0.1") == ExposureParity(bound=0.1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pairwise_parity[inter,overall] <= 0.1", "unknown option 'overall'"),
        ("pairwise_parity <= 0.1", "say one of inter, intra, marginal"),
        ("exposure_parity <= 1.5", "must lie in"),
        ("exposure_parity[sharpness=0] <= 0.1", "sharpness must be positive"),
    ],
)
def test_what_cannot_be_read_is_said(text, said):
    with pytest.raises(OptionError, match=said):
        constraint(text)


@pytest.mark.parametrize("text", TEXTS[:4:3])
def test_rows_without_queries_have_no_ranking(text):
    y = np.array([0, 1] * 10)
    with pytest.raises(OptionError, match="Train a FairRanker"):
        fb.FairProblem(_model(), y[:, None].astype(float), y, y, text)
    with pytest.raises(OptionError, match=r"say to which query .* measure\(..., qid=QUERIES\)"):
        fb.measure(text, y / 2, y, y)
    with pytest.raises(DataError, match="say to which query"):
        fb.audit(y / 2, y, y, text)


@pytest.mark.parametrize("text", [*TEXTS[:2], TEXTS[3], "query_pairwise_parity <= 0.3"])
def test_measure_says_of_graded_documents_in_any_order_what_an_audit_finds(text):
    rng = np.random.default_rng(0)
    qid, group, grade = rng.integers(0, 40, 500), rng.choice(["a", "b"], 500), rng.integers(0, 4, 500)
    scores = grade + rng.normal(size=500) * (1 + (group == "a"))
    found = fb.audit(scores, grade, group, text, qid=qid)["constraints"][0]["value"]
    assert fb.measure(text, scores, grade, group, qid=qid, threshold=0) == pytest.approx(found) and found > 0


def test_measure_takes_queries_for_rankings_alone_and_nothing_else_with_them():
    y = np.array([0, 1] * 10)
    with pytest.raises(OptionError, match=r"'demographic_parity' speaks of no queries; leave qid out"):
        fb.measure("demographic_parity", y, y, y, qid=y)
    with pytest.raises(OptionError, match="takes no sample_weight"):
        fb.measure("exposure_parity", y / 2, y, y, qid=y, sample_weight=y + 1.0)
    with pytest.raises(OptionError, match="scorers take no queries"):
        fb.scorer("exposure_parity")


def test_a_bound_on_every_query_has_one_side():
    """a loses 1 of 4 pairs, b 3 of 5, all 4 of 9: a is further below all than b is above, and breaks nothing."""
    rows = scored([2.5, 2.0, 0.0, 3.0, 1.0], [3, 2, 1, 0, 0], [0] * 5, list("abbbb"))
    bound = constraint("query_pairwise_parity <= 1")
    assert bound.cells(rows.documents)[0].values(rows.documents.won(rows.scores)) == pytest.approx(
        [1 / 4 - 4 / 9, 3 / 5 - 4 / 9]
    )
    assert bound.measure(rows) == pytest.approx(3 / 5 - 4 / 9)


def _model():
    from fairbound.models.mlp import MLP

    return MLP(1)


def scored(scores, relevance, qid, groups):
    documents = Documents.of(qid, relevance, groups)
    order = documents.queries.order
    s = np.asarray(scores, dtype=float)[order]
    zero = np.zeros(len(s), dtype=np.int64)
    return Scored(zero, zero, ("", ""), s, documents.groups, documents=documents)


def test_pairs_of_an_example_by_hand():
    """Query 0: a2 b1 a0 b0 (relevance as numbered), scored so that b1 leads. Query 1: b1 a0, in the right order."""
    relevance = [2, 1, 0, 0, 1, 0]
    groups = list("ababba")
    qid = [0, 0, 0, 0, 1, 1]
    rows = scored([3.0, 4.0, 1.0, 2.0, 5.0, 4.0], relevance, qid, groups)
    # a above b: (a2, b1) lost, (a2, b0) won: 1/2. b above a: (b1, a0) won, and in query 1 (b1, a0) won: 1
    assert constraint("pairwise_parity[inter] <= 1").measure(rows) == pytest.approx(0.5)
    # within a: (a2, a0) won: 1. within b: (b1, b0) won: 1
    assert constraint("pairwise_parity[intra] <= 1").measure(rows) == 0
    # better a: (a2, b1) lost, (a2, a0), (a2, b0) won: 2/3. better b: (b1, a0), (b1, b0), (b1, a0): 1
    assert constraint("pairwise_parity[marginal] <= 1").measure(rows) == pytest.approx(1 / 3)


def test_exposure_of_an_example_by_hand():
    """Two queries of two documents, a first in both: a gets 1 / (1 + 1/log2(3)) of the attention and has half the documents."""
    rows = scored([2, 1, 2, 1], [1, 0, 1, 1], [0, 0, 1, 1], list("abab"))
    share = 1 / (1 + 1 / np.log2(3))
    assert constraint("exposure_parity <= 1").measure(rows) == pytest.approx(share - 0.5)
    # by relevance a is to have all of query 0 and half of query 1
    expected = ((share - 1) + (share - 0.5)) / 2
    assert constraint("exposure_parity[merit] <= 1").measure(rows) == pytest.approx(abs(expected))


@pytest.mark.parametrize("seed", range(5))
def test_one_score_for_all_has_no_difference_of_exposure_but_for_nothing(seed):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(30), rng.integers(2, 12, 30))
    group = rng.integers(0, 3, len(qid)).astype(str)
    assert fb.measure("exposure_parity", np.zeros(len(qid)), np.ones(len(qid)), group, qid=qid) == 0.0


def test_a_query_of_one_group_says_nothing_of_exposure():
    one = scored([2, 1], [1, 0], [0, 0], list("ab"))
    two = scored([2, 1, 5, 4], [1, 0, 1, 0], [0, 0, 1, 1], list("abaa"))
    stated = constraint("exposure_parity <= 1")
    assert stated.measure(one) == stated.measure(two)


@pytest.mark.parametrize("text", TEXTS[:2] + ["pairwise_parity[marginal] <= 0.1", "exposure_parity <= 0.02"])
def test_a_verdict_has_the_exact_value_inside_its_bounds(text):
    rng = np.random.default_rng(0)
    n = 3000
    qid, groups, y = np.repeat(np.arange(300), 10), rng.integers(0, 2, n), rng.integers(0, 3, n)
    for lift, verdict in ((0.0, "met"), (2.0, "violated")):
        rows = scored(y + lift * groups * (1 - 2 * (y == 2)) + rng.normal(size=n) * 0.5, y, qid, groups)
        loose = constraint(text.split("<=")[0] + ("<= 0.2" if lift == 0 else "<= 0.005"))
        found = loose.judge(rows, 0.05)
        assert found["value"] == pytest.approx(loose.measure(rows), abs=1e-12)
        assert found["lower"] <= found["value"] <= found["upper"]
        if "intra" not in text or lift == 0:
            assert found["verdict"] == verdict, found
        assert all(count <= 300 for count in found["groups"].values())


def test_few_queries_are_not_enough():
    rng = np.random.default_rng(1)
    n = 100
    rows = scored(rng.normal(size=n), rng.integers(0, 3, n), np.repeat(np.arange(10), 10), rng.integers(0, 2, n))
    found = constraint("pairwise_parity[inter] <= 0.3").judge(rows, 0.05)
    assert found["verdict"] == "insufficient" and "Fewer than 20" in found["why"] and found["upper"] is None
    one = scored([1.0, 2.0], [0, 1], [0, 0], ["a", "a"])
    found = constraint("pairwise_parity[inter] <= 0.3").judge(one, 0.05)
    assert found["verdict"] == "insufficient" and "two groups" in found["why"]


@pytest.mark.parametrize("bound", [0.02, 0.05])
def test_so_many_queries_decide_about_as_often_as_not_where_limits_are_those_of_bets(bound):
    """Few queries that differ little have limits that narrow about as their number, and not as its root: up to ten times the
    rows were asked for."""
    rng = np.random.default_rng(0)
    group, score = rng.integers(0, 2, 800), rng.normal(size=800)
    group[::10], group[1::10] = 0, 1

    def judged(queries):
        rows = (queries[:, None] * 10 + np.arange(10)).ravel()
        qid = np.repeat(np.arange(len(queries)), 10)
        label = np.arange(len(rows)) % 2
        return fb.audit(score[rows], label, group[rows], f"exposure_parity <= {bound}", qid=qid)["constraints"][0]

    found = judged(np.arange(80))
    assert found["value"] < bound / 2 and found["verdict"] == "insufficient"
    n = found["rows_needed"] // 10
    decided = sum(judged(rng.integers(0, 80, n))["verdict"] != "insufficient" for _ in range(40))
    assert stats.binom.ppf(1e-4, 40, 0.4) <= decided <= stats.binom.ppf(1 - 1e-4, 40, 0.7)


def test_so_many_queries_decide_about_as_often_as_not_where_groups_are_ranked_alike():
    """60 samples of the queries measured, taken as the truth; the rows for the same measurement again decided 5 of 60."""
    rng, text = np.random.default_rng(0), "pairwise_parity[inter] <= 0.1"
    group, label = rng.integers(0, 2, 600), rng.integers(0, 3, 600)
    score = rng.normal(size=600)

    def judged(queries):
        rows = (queries[:, None] * 10 + np.arange(10)).ravel()
        qid = np.repeat(np.arange(len(queries)), 10)
        return fb.audit(score[rows], label[rows], group[rows], text, qid=qid)["constraints"][0]

    found = judged(np.arange(60))
    assert found["value"] < 0.03 and found["verdict"] == "insufficient"
    n = found["rows_needed"] // 10
    decided = sum(judged(rng.integers(0, 60, n))["verdict"] != "insufficient" for _ in range(60))
    assert stats.binom.ppf(1e-4, 60, 0.4) <= decided <= stats.binom.ppf(1 - 1e-4, 60, 0.7)
