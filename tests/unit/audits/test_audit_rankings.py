"""Audits of rankings: the numbers of their definitions, intervals clustered by query, and a page and a text that show them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, ndcg_score

import fairbound as fb
from fairbound.base.errors import DataError, OptionError
from fairbound.report import audit_page, table
from fairbound.report.schema import validate


def some_rows(seed=0, queries=80, size=8, skew=0.0):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(queries), size)
    group = rng.choice(["a", "b"], len(qid))
    y = rng.integers(0, 4, len(qid))
    scores = y + skew * (group == "b") + rng.normal(size=len(qid))
    order = rng.permutation(len(qid))
    return scores[order], y[order], group[order], qid[order]


def test_metrics_are_means_over_queries():
    s, y, group, qid = some_rows()
    found = fb.audit(s, y, group, qid=qid)
    validate(found)
    rows = [np.flatnonzero(qid == q) for q in np.unique(qid)]
    gained = [ndcg_score([2.0 ** y[r] - 1], [s[r]]) for r in rows if y[r].max() > 0]
    precise = [average_precision_score(y[r] > 0, s[r]) for r in rows if y[r].max() > 0]
    assert found["metrics"]["ndcg"] == pytest.approx(np.mean(gained))
    assert found["metrics"]["mean_average_precision"] == pytest.approx(np.mean(precise))
    for name, made in found["metric_intervals"].items():
        assert made["lower"] < made["value"] < made["upper"] and made["count"] <= 80, name
    assert found["data"]["queries"] == 80 and found["data"]["rows"] == 640 and found["verdict"] is None


def test_groups_show_their_attention_and_their_pairs():
    s, y, group, qid = some_rows(1, skew=2.0)
    a, b = fb.audit(s, y, group, qid=qid)["groups"]
    assert b["rates"]["share_of_attention"]["value"] > b["rates"]["share_of_documents"]["value"] + 0.05
    assert a["rates"]["share_of_attention"]["value"] < a["rates"]["share_of_documents"]["value"] - 0.05
    pairs = [(i, j) for q in np.unique(qid) for i in np.flatnonzero(qid == q) for j in np.flatnonzero(qid == q)]
    own = [s[i] > s[j] for i, j in pairs if y[i] > y[j] and group[i] == "a"]
    assert a["rates"]["pairwise_accuracy"]["value"] == pytest.approx(np.mean(own))
    assert a["rates"]["pairwise_accuracy"]["count"] == len(own) and a["n"] == (group == "a").sum()


def test_verdicts_and_compared_rankers_are_shown_on_the_page_and_as_text():
    s, y, group, qid = some_rows(2, queries=400)
    skewed = s + 5 * (group == "b")
    bounds = ["pairwise_parity[inter] <= 0.2", "exposure_parity <= 0.1"]
    found = fb.audit(s, y, group, bounds, qid=qid, compare={"skewed": skewed})
    assert found["verdict"] == "met" and [c["verdict"] for c in found["constraints"]] == ["met", "met"]
    assert [c["verdict"] for c in found["comparison"][0]["constraints"]] == ["violated", "violated"]
    text = table(found)
    assert "NDCG at 10" in text and "undefined" not in text and "precision (relevant: above 0)" in text
    assert "NDCG at 10" in audit_page(found) and "Share of attention" in audit_page(found)
    assert fb.audit(skewed, y, group, bounds, qid=qid)["exit_code"] == 1


def test_a_bound_on_every_query_is_broken_by_one_and_never_confirmed():
    s, y, group, qid = some_rows(3)
    assert fb.audit(s, y, group, "query_pairwise_parity <= 0.1", qid=qid)["verdict"] == "violated"
    perfect = fb.audit(y + 0.0, y, group, "query_pairwise_parity <= 0.1", qid=qid)
    assert perfect["verdict"] == "insufficient" and perfect["constraints"][0]["value"] == 0
    table(perfect)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"constraint": "demographic_parity <= 0.1"}, OptionError, "a ranker makes none"),
        ({"sensitive_features": None, "constraint": "exposure_parity <= 0.1"}, DataError, "pass sensitive_features"),
        ({"sample_weight": 1}, OptionError, "takes no sample_weight"),
        ({"qid": [1, 2]}, DataError, "documents|rows with a query"),
        ({"scores": np.nan}, DataError, "missing or infinite"),
    ],
)
def test_what_cannot_be_used_is_said(change, error, said):
    s, y, group, qid = some_rows(4)
    given = {"scores": s, "y": y, "sensitive_features": group, "qid": qid} | change
    if given["scores"] is np.nan or np.ndim(given["scores"]) == 0:
        given["scores"] = np.where(np.arange(len(s)) == 0, np.nan, s)
    with pytest.raises(error, match=said):
        fb.audit(**given)


@pytest.mark.long
def test_intervals_over_queries_cover_what_they_promise():
    """2,000 audits of 60 queries; the truth is that of 30,000 queries. Means over queries are guaranteed, so they err more seldom."""
    s, y, group, qid = some_rows(5, queries=30_000)
    truth = fb.audit(s, y, group, qid=qid)
    missed = dict.fromkeys([*truth["metrics"], "share", "pairs"], 0)
    runs = 2000
    for seed in range(runs):
        made = fb.audit(
            *(some_rows(100 + seed, queries=60)[i] for i in (0, 1, 2)), qid=some_rows(100 + seed, queries=60)[3]
        )
        for name in truth["metrics"]:
            interval = made["metric_intervals"][name]
            missed[name] += not interval["lower"] <= truth["metrics"][name] <= interval["upper"]
        for key, rate in (("share", "share_of_attention"), ("pairs", "pairwise_accuracy")):
            interval = made["groups"][0]["rates"][rate]
            missed[key] += not interval["lower"] <= truth["groups"][0]["rates"][rate]["value"] <= interval["upper"]
    print({name: f"{count / runs:.2%}" for name, count in missed.items()})
    assert max(missed.values()) / runs < 0.05 + 0.01 + 3 * np.sqrt(0.05 * 0.95 / runs)
