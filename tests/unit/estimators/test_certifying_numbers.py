"""Certificates of predicted numbers and of rankings: what an audit of the rows kept apart says, and what cannot be certified."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import fairbound as fb
from fairbound.base.errors import CertificateError, CertificateWarning, OptionError
from fairbound.cli import app as cli
from fairbound.confidence.betting import mean_limits
from fairbound.estimators.judged_rows import DocumentRows
from fairbound.fairness.predictions import read_numbers
from fairbound.fairness.scored import Scored
from fairbound.report import schema
from fairbound.rows.groups import Groups

QUICK = {"algorithm": "alm", "budget": "60 steps"}


def numbers(n=1200, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["F", "M"], n)
    X = np.column_stack([rng.normal(size=n) + 0.8 * (sex == "M"), rng.normal(size=n)])
    return X, X.sum(1) + 1.2 * (sex == "M") + rng.normal(size=n), sex


def ranked(queries=200, size=5, seed=0):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(queries), size)
    source, worth = rng.choice(["small", "large"], len(qid)), rng.normal(size=len(qid))
    X = np.column_stack([worth - 0.8 * (source == "small"), worth + 2 * rng.normal(size=len(qid))])
    mixed = rng.permutation(len(qid))
    return tuple(v[mixed] for v in (X, np.clip(np.round(worth + 1), 0, 3), qid, source))


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("residual_gap[largest=3] <= 0.9", {}),
        ("group_squared_error[largest=9] <= 2.5", {}),
        pytest.param("prediction_parity[at=0:1] <= 0.7", QUICK, marks=pytest.mark.long),
        ("prediction_parity <= 0.7", QUICK),
        pytest.param("prediction_parity[at=0:1] <= 0.5", {}, marks=pytest.mark.long),
    ],
)
def test_a_regressor_is_certified_by_the_audit_of_the_rows_kept_apart(text, options, tmp_path):
    X, y, sex = numbers()
    fair = fb.FairRegressor(text, certify=True, **options).fit(X, y, sensitive_features=sex)
    made, held = fair.fit_report_["certificate"], fair.certify_rows_
    (stated,) = fair.constraints_
    found = fb.audit(fair.predict(X[held]), y[held], sex[held], stated)["constraints"][0]
    assert made["verdict"] == found["verdict"] == "met" and made["text"] == stated.text
    assert made["upper"] == pytest.approx(found["upper"], abs=1e-12)
    error = [np.sqrt(np.mean((m.predict(X[held]) - y[held]) ** 2)) for m in (fair, fair.unconstrained_)]
    assert made["measure"] == "root_mean_squared_error" and made[made["measure"]] == pytest.approx(error[0])
    assert made["price"] == pytest.approx(error[0] - error[1]) and (error[0] > error[1] or "residual" not in text)
    if stated.text == text:
        fair.save(tmp_path / "model")
        loaded = fb.FairRegressor.load(tmp_path / "model")
        assert loaded.fit_report_["certificate"] == made and loaded.constraints_ == fair.constraints_
    else:  # thresholds that are left open are deciles of the labels to train on, of no others
        other = np.where(np.isin(np.arange(len(y)), held), y + 100, y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CertificateWarning)
            again = fb.FairRegressor(text, certify=True, algorithm="alm", budget="5 steps").fit(
                X, other, sensitive_features=sex
            )
        assert (again.certify_rows_ == held).all() and again.constraints_ == fair.constraints_


@pytest.mark.filterwarnings("ignore:On the training rows the root mean squared error")
def test_numbers_that_do_not_confirm_are_said_or_refused():
    X, y, sex = numbers(200)
    options = {"certify": True, "budget": "20 steps"}
    with pytest.warns(CertificateWarning, match="cannot be certified"):
        fair = fb.FairRegressor("residual_gap[largest=3] <= 0.2", **options).fit(X, y, sensitive_features=sex)
    assert fair.fit_report_["certificate"]["verdict"] == "insufficient"
    with pytest.raises(CertificateError):
        fb.FairRegressor("residual_gap[largest=3] <= 0.2", on_insufficient="raise", **options).fit(X, y, sex)
    for text, says in [
        ("residual_gap <= 0.4", r"residual_gap\[largest=8\]"),
        ("group_squared_error[crossed] <= 2", r"largest=40\]"),
    ]:
        with pytest.raises(OptionError, match=says):
            fb.FairRegressor(text, certify=True).fit(X, y, sensitive_features=sex)
    with pytest.raises(OptionError, match="largest must be a positive number"):
        fb.constraint("residual_gap[largest=0] <= 0.4")


def test_losses_beyond_the_largest_count_as_it():
    predicted, truth = np.array([0.0, 9.0, -9.0, 1.0]), np.array([1.0, 1.0, 1.0, 0.5])
    rows = replace(read_numbers(predicted, truth), groups=Groups.of(np.array(["a", "a", "b", "b"])))
    assert fb.constraint("residual_gap[largest=2] <= 1").measure(rows) == pytest.approx((-1 + 2) / 2 - (-2 + 0.5) / 2)
    assert fb.constraint("group_squared_error[largest=4] <= 1").measure(rows) == pytest.approx((1 + 4) / 2)
    assert fb.constraint("residual_gap <= 1").measure(rows) == pytest.approx((-1 + 8) / 2 - (-10 + 0.5) / 2)
    bound = fb.constraint("residual_gap[largest=2] <= 1")
    assert bound.rescaled(5.0, 4.0) == fb.constraint("residual_gap[largest=0.5] <= 0.25")
    assert fb.constraint("group_squared_error[largest=8] <= 4").rescaled(5.0, 2.0).largest == 2
    assert bound.text == "residual_gap[largest=2] <= 1" and fb.constraint(bound.text) == bound


def test_the_bound_of_clipped_residuals_is_that_of_betting_on_both_groups():
    rng = np.random.default_rng(0)
    truth, group = rng.normal(size=500), rng.choice(["a", "b"], 500)
    predicted = truth + rng.normal(size=500) * 2
    rows = replace(read_numbers(predicted, truth), groups=Groups.of(group))
    found = fb.constraint("residual_gap[largest=3] <= 1").judge(rows, 0.05)
    clipped = np.clip(predicted - truth, -3, 3)
    low, high = mean_limits(clipped, (group == "b").astype(int), 2, 0.025, -3.0, 3.0)
    ends = {"a - b": high[0] - low[1], "b - a": high[1] - low[0]}
    assert found["upper"] == pytest.approx(max(ends.values()), abs=1e-9)
    assert "from -3 to 3 (guaranteed)" in found["method"]


@pytest.fixture(scope="module")
def certified_ranker():
    X, grade, qid, source = ranked()
    options = {"certify": True, "budget": "20 steps"}
    return fb.FairRanker("exposure_parity <= 0.3", **options).fit(X, grade, qid=qid, sensitive_features=source)


def test_a_ranker_is_certified_by_queries_kept_apart(certified_ranker, tmp_path):
    X, grade, qid, source = ranked()
    made, held = certified_ranker.fit_report_["certificate"], certified_ranker.certify_rows_
    rest = np.setdiff1d(np.arange(len(qid)), held)
    assert not set(qid[held]) & set(qid[rest])
    scores = certified_ranker.predict(X[held])
    found = fb.audit(scores, grade[held], source[held], "exposure_parity <= 0.3", qid=qid[held])
    assert made["verdict"] == found["verdict"] == "met"
    assert made["upper"] == pytest.approx(found["constraints"][0]["upper"], abs=1e-12)
    assert made["measure"] == "ndcg" and made["ndcg"] == pytest.approx(found["metrics"]["ndcg"])
    free = certified_ranker.unconstrained_.score(X[held], grade[held], qid=qid[held])
    assert made["price"] == pytest.approx(free - made["ndcg"])
    certified_ranker.save(tmp_path / "model")
    assert fb.FairRanker.load(tmp_path / "model").fit_report_["certificate"] == made


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("pairwise_parity[inter] <= 0.1", "ratio of two sums over queries, whose interval is asymptotic"),
        ("query_pairwise_parity <= 0.3", "no sample of queries confirms"),
    ],
)
def test_rankings_without_a_valid_interval_are_refused_with_the_reason(text, says):
    X, grade, qid, source = ranked(20)
    with pytest.raises(OptionError, match=says):
        fb.FairRanker(text, certify=True).fit(X, grade, qid=qid, sensitive_features=source)


def test_parts_of_a_ranking_joined_are_the_ranking(certified_ranker):
    X, grade, qid, source = ranked(60)
    rows = DocumentRows.of(certified_ranker, X, grade, qid, source)
    bound = fb.constraint("exposure_parity <= 0.1")
    parts = [rows.take(np.flatnonzero(qid % 2 == i)).scored(certified_ranker, 0.95) for i in (0, 1)]
    whole, joined = rows.scored(certified_ranker, 0.95), Scored.joined(parts)
    assert bound.measure(joined) == pytest.approx(bound.measure(whole), abs=1e-12)
    assert bound.measure(joined) != pytest.approx(bound.measure(parts[0]), abs=1e-3)
    assert rows.measured(joined) == pytest.approx(rows.measured(whole), abs=1e-12)
    assert rows.smallest(bound) == min(len(np.unique(qid[source == name])) for name in ("small", "large"))


@pytest.mark.parametrize("command", ["regress", "fit"])
def test_the_commands_write_the_certificate_first(command, tmp_path, capsys):
    pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
    if command == "regress":
        X, y, group = numbers()
        frame, more, text = pd.DataFrame(X), [], "residual_gap[largest=3] <= 0.9"
    else:
        X, y, qid, group = ranked()
        frame, more, text = (
            pd.DataFrame(X).assign(q=qid),
            ["--qid", "q", "--budget", "20 steps"],
            "exposure_parity <= 0.3",
        )
    frame = frame.rename(columns=str).assign(g=group, y=y)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    call = [command, "--data", tmp_path / "rows.csv", "--label", "y", "--group", "g", "--out", tmp_path / "out", *more]
    code = cli.main([str(a) for a in [*call, "--certify", "--constraint", text]])
    said = capsys.readouterr().out
    audit = json.loads((tmp_path / "out" / "audit.json").read_text())
    schema.validate(audit)
    assert code == 0 and said.startswith(f"Certificate: {text} is met with 95 % confidence")
    assert audit["certificate"]["upper"] == pytest.approx(audit["constraints"][0]["upper"])
    assert [m["name"] for m in audit["comparison"]] == ["constrained", "unconstrained"]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "NDCG" in page if command == "fit" else "root mean squared error" in page
