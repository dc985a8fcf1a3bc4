"""Rows of weight 0 are no rows: whatever stands in them, models and verdicts are those of the other rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

import fairbound as fb
from fairbound.base.errors import DataError, OptionError

N = 600


def rows():
    """Features, labels, groups, weights and which of these are above 0; where they are 0 nothing makes sense."""
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b"], N).astype(object)
    X = rng.normal(size=(N, 2)) + (group == "b")[:, None] * 0.8
    y = (X[:, 0] + rng.normal(size=N) > 0.5).astype(object)
    weight = rng.choice([0.0, 1.0, 2.5], N)
    gone = weight == 0
    X[gone], y[gone], group[gone] = np.inf, None, "ghost"
    return X, y, group, weight, ~gone


@pytest.mark.parametrize("form", ["arrays", "frames", "lists", "names", "encoded"])
def test_a_classifier_is_that_of_the_other_rows(form: str) -> None:
    X, y, group, weight, kept = rows()
    options = fb.TableOptions(knots=0)
    alone = fb.FairClassifier("demographic_parity <= 0.05", options=options)
    alone.fit(X[kept], y[kept].astype(bool), group[kept], weight[kept])
    model = fb.FairClassifier("demographic_parity <= 0.05", options=options)
    if form == "frames":
        at = {"index": np.arange(N)[::-1]}
        frame = pd.DataFrame(X, columns=["x0", "x1"], **at)
        model.fit(frame, pd.Series(y, **at), pd.Series(group, **at), pd.Series(weight, **at))
    elif form == "lists":
        model.fit(X.tolist(), y.tolist(), {"group": group.tolist()}, weight.tolist())
    elif form == "names":
        frame = pd.DataFrame(X, columns=["x0", "x1"]).assign(group=group)
        model.set_params(sensitive_columns="drop").fit(frame, y, "group", weight)
    elif form == "encoded":
        X[~kept] = 0.0
        encoder = fb.tables.TableEncoder(options).fit(X[kept])
        model.set_params(options=None).fit(fb.tables.Encoded.of(encoder, X), y, group, weight)
    else:
        model.fit(X, y, group, weight)
    assert np.array_equal(model.coef_, alone.coef_) and model.groups_.labels == (("a", "b"),)


@pytest.mark.filterwarnings("ignore:Constructing a DIA matrix")
@pytest.mark.parametrize("form", ["coo", "dia", "bsr", "csr", "csc", "lil", "dok"])
def test_of_a_sparse_matrix_of_any_form_too(form: str) -> None:
    X, y, group, weight, kept = rows()
    X[~kept] = 0.0
    table = csr_array(X).asformat(form)
    found = fb.FairClassifier("demographic_parity <= 0.05").fit(table, y, group, weight)
    alone = fb.FairClassifier("demographic_parity <= 0.05")
    alone.fit(csr_array(X[kept]), y[kept].astype(bool), group[kept], weight[kept])
    assert np.array_equal(found.coef_, alone.coef_)
    fb.FairRegressor("residual_gap <= 0.2").fit(table, X[:, 0], group, weight)


def test_so_are_a_regressor_a_certificate_and_a_feasible_bound() -> None:
    X, y, group, weight, kept = rows()
    numbers = np.where(kept, X[:, 0], np.nan)
    found = fb.FairRegressor("residual_gap <= 0.2").fit(X, numbers, group, weight)
    alone = fb.FairRegressor("residual_gap <= 0.2").fit(X[kept], numbers[kept], group[kept], weight[kept])
    assert np.array_equal(found.predict(X[kept]), alone.predict(X[kept]))
    certified = fb.FairClassifier("demographic_parity <= 0.4", certify=True).fit(X, y, group, weight)
    assert certified.groups_.labels == (("a", "b"),)
    assert sum(fb.feasibility("demographic_parity <= 0.4", X, y, group, weight)["rows"].values()) == kept.sum()


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_model_that_gets_a_number_for_every_two_rows_says_how_to_leave_rows_out() -> None:
    X, y, group, weight, keep = rows()
    X[~keep], y = 0.0, (X[:, 0] > 0.5).astype(int)
    kernel, bound = X @ X.T, "demographic_parity <= 0.2"
    for made in (fb.PostProcessor(SVC(kernel="precomputed"), bound), fb.Reduction(SVC(kernel="precomputed"), bound)):
        with pytest.raises(OptionError, match=rf"SVC gets .* every two rows.*{keep.sum()} rows.*X\[keep\]\[:, keep\]"):
            made.fit(kernel, y, group, sample_weight=weight)
    made = fb.PostProcessor(SVC(kernel="precomputed"), bound)
    made.fit(kernel[keep][:, keep], y[keep], group[keep], sample_weight=weight[keep])
    assert len(made.predict(kernel[:9][:, keep], group[keep][:9])) == 9
    fitted = SVC(kernel="precomputed").fit(kernel, y)
    found = fb.PostProcessor(fitted, bound, prefit=True).fit(kernel, y, group, sample_weight=weight)
    assert sum(one["rows"] for one in found.fit_report_["groups"]) == keep.sum()


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
def test_scores_at_hand_are_of_all_rows() -> None:
    X, y, group, weight, keep = rows()
    at_hand = np.random.default_rng(1).normal(size=N)
    model, bound = LogisticRegression().fit(X[keep], y[keep].astype(bool)), "demographic_parity <= 0.2"
    found = fb.PostProcessor(model, bound, prefit=True, scores=lambda model, X: at_hand)
    alone = fb.PostProcessor(model, bound, prefit=True, scores=lambda model, X: at_hand[keep])
    found.fit(X, y, group, sample_weight=weight)
    alone.fit(X[keep], y[keep].astype(bool), group[keep], sample_weight=weight[keep])
    assert found.fit_report_ == alone.fit_report_


def test_verdicts_and_comparisons_are_those_of_the_other_rows() -> None:
    _, y, group, weight, kept = rows()
    scores, other = np.random.default_rng(1).normal(size=(2, N))
    bound, people = "demographic_parity <= 0.2", np.arange(N) // 2
    options = {"threshold": 0, "compare": {"other": other}}
    found = fb.audit(scores, y, group, bound, sample_weight=weight, clusters=people, **options)
    options["compare"] = {"other": other[kept]}
    of_others = (scores[kept], y[kept], group[kept], bound)
    alone = fb.audit(*of_others, sample_weight=weight[kept], clusters=people[kept], **options)
    assert found["notes"].pop(-3) == f"{(~kept).sum()} of {N} rows have the weight 0 and are left out."
    assert found | {"created": 0} == alone | {"created": 0}
    found = fb.compare(scores, other, y, group, bound, threshold=0, sample_weight=weight)
    alone = fb.compare(scores[kept], other[kept], *of_others[1:], threshold=0, sample_weight=weight[kept])
    assert found | {"created": 0} == alone | {"created": 0}


def test_columns_of_another_length_are_refused() -> None:
    X, y, group, weight, _ = rows()
    with pytest.raises(DataError, match="X has 10 rows, y 600"):
        fb.FairClassifier().fit(X[:10], y, group, weight)
    with pytest.raises(DataError, match="sample_weight has 600 rows, and another column 10"):
        fb.FairClassifier().fit(X, y, group[:10], weight)
