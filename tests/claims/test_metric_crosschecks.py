"""Every exact metric against fairlearn, scikit-learn or scipy, on random rows with ties, weights and many groups."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sk

import fairbound as fb
from fairbound.fairness import metrics as fm
from fairbound.fairness.distances import wasserstein
from fairbound.ranking.wins import cell_wins

fairlearn = pytest.importorskip(
    "fairlearn.metrics", reason="the cross-check needs fairlearn (pip install fairbound[dev])"
)

CLOSE = {"rtol": 1e-12, "atol": 1e-13}  # sums of at most 2,000 terms of one sign in double precision


@st.composite
def rows(draw, most_groups=5):
    """Scores on a coarse grid (so with ties), labels, groups with every (group, label) present, weights or None."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, k = draw(st.integers(40, 400)), draw(st.integers(2, most_groups))
    groups, y = rng.integers(0, k, n), rng.integers(0, 2, n)
    scores = np.round(rng.normal(0.4 * y + 0.2 * groups, 1), draw(st.integers(0, 3)))
    groups, y = np.concatenate([groups, np.repeat(np.arange(k), 4)]), np.concatenate([y, np.tile([0, 0, 1, 1], k)])
    scores = np.concatenate([scores, np.tile([-1.0, 1.0], 2 * k)])
    weight = rng.choice([0.25, 0.5, 1.0, 3.0], len(y)) if draw(st.booleans()) else None
    return scores, y, groups, weight


exhaustive = settings(max_examples=30, deadline=None, derandomize=True)
beside_fairlearn = settings(exhaustive, max_examples=6)  # fairlearn's frames take most of the time


@beside_fairlearn
@given(rows())
def test_notions_equal_fairlearn_and_sklearn(case):
    scores, y, groups, weight = case
    yhat = (scores > 0).astype(int)
    parameters = None if weight is None else {"sample_weight": weight}
    for name, function in [
        ("demographic_parity", fairlearn.selection_rate),
        ("equal_opportunity", fairlearn.true_positive_rate),
        ("predictive_equality", fairlearn.false_positive_rate),
        ("false_negative_rate_parity", fairlearn.false_negative_rate),
        ("predictive_parity", sk.precision_score),
        ("f1_parity", sk.f1_score),
        ("error_rate_parity", sk.zero_one_loss),
    ]:
        frame = fairlearn.MetricFrame(
            metrics=function, y_true=y, y_pred=yhat, sensitive_features=groups, sample_params=parameters
        )
        found = fb.measure(name, scores, y, groups, sample_weight=weight)
        if np.isnan(found):  # nobody of a group is predicted positive: scikit-learn calls the precision 0
            assert name == "predictive_parity" and any(not yhat[groups == g].any() for g in set(groups))
            continue
        np.testing.assert_allclose(found, frame.difference(), **CLOSE, err_msg=name)
        if name != "f1_parity":
            found = fb.measure(f"{name}[overall]", scores, y, groups, sample_weight=weight)
            np.testing.assert_allclose(found, frame.difference(method="to_overall"), **CLOSE, err_msg=name)


@exhaustive
@given(rows(most_groups=4))
def test_benchmark_metrics_equal_their_definitions_written_out(case):
    """Section 2 of the benchmark paper, pair by pair, with scikit-learn's rates."""
    scores, y, groups, weight = case
    w = np.ones(len(y)) if weight is None else weight
    yhat = (scores > 0).astype(int)

    def chance(event, given):
        return np.average(event[given], weights=w[given])

    ind, sp, sf = [], [], []
    for s in range(groups.max() + 1):
        for t in range(s):
            a, b = groups == s, groups == t
            ind.append(abs(chance(yhat, a) - chance(yhat, b)))
            sp.append(sum(abs(chance(yhat, a & (y == v)) - chance(yhat, b & (y == v))) for v in (0, 1)))
            sf.append(sum(abs(chance(y, a & (yhat == v)) - chance(y, b & (yhat == v))) for v in (0, 1)))
    found = fm.benchmark_metrics(scores, y, groups, weight)
    for name, pairs in [("Ind", ind), ("Sp", sp), ("Sf", sf)]:
        np.testing.assert_allclose(found[name], max(pairs), **CLOSE, err_msg=name)
    np.testing.assert_allclose(found["Ina"], sk.zero_one_loss(y, yhat, sample_weight=weight), **CLOSE)
    np.testing.assert_allclose(found["AUC"], sk.roc_auc_score(y, scores, sample_weight=weight), **CLOSE)


@exhaustive
@given(rows())
def test_auc_equals_sklearn_overall_and_in_groups(case):
    scores, y, groups, weight = case
    np.testing.assert_allclose(fm.auc(scores, y, weight), sk.roc_auc_score(y, scores, sample_weight=weight), **CLOSE)
    k = groups.max() + 1
    areas = cell_wins(scores, groups + k * y, 2 * k, weight).between(np.eye(2 * k, dtype=bool))
    found = np.diag(areas[k:, :k])
    for k in range(groups.max() + 1):
        mine = groups == k
        w = None if weight is None else weight[mine]
        np.testing.assert_allclose(found[k], sk.roc_auc_score(y[mine], scores[mine], sample_weight=w), **CLOSE)


def test_auc_equals_the_sum_over_all_pairs():
    rng = np.random.default_rng(0)
    scores, y, w = rng.integers(0, 6, 80).astype(float), rng.integers(0, 2, 80), rng.random(80)
    p, q = y == 1, y == 0
    wins = (scores[p][:, None] > scores[q]) + 0.5 * (scores[p][:, None] == scores[q])
    expected = (w[p][:, None] * w[q] * wins).sum() / (w[p].sum() * w[q].sum())
    found = fm.auc(scores, y, w)
    np.testing.assert_allclose(found, expected, **CLOSE)


@exhaustive
@given(rows())
def test_wasserstein_equals_scipy(case):
    scores, _, groups, weight = case
    w = np.ones(len(scores)) if weight is None else weight
    values = 1 / (1 + np.exp(-scores))
    expected = max(
        stats.wasserstein_distance(values[groups == a], values[groups == b], w[groups == a], w[groups == b])
        for a in range(groups.max() + 1)
        for b in range(a)
    )
    np.testing.assert_allclose(fm.wasserstein_distance(scores, groups, weight), expected, rtol=1e-10, atol=1e-12)


def test_wasserstein_of_order_two_equals_the_sorted_coupling():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=500), rng.normal(1, 2, size=500)
    expected = np.sqrt(np.mean((np.sort(a) - np.sort(b)) ** 2))
    np.testing.assert_allclose(wasserstein(a, b, order=2), expected, rtol=1e-10)
    gaussian = np.sqrt(1 + 1)  # sqrt((mu - mu')^2 + (sigma - sigma')^2) in the limit
    assert abs(expected - gaussian) < 0.25


def test_wasserstein_is_at_least_the_gap_of_means():
    rng = np.random.default_rng(1)
    scores, groups = rng.normal(size=300), rng.integers(0, 2, 300)
    p = 1 / (1 + np.exp(-scores))
    assert fm.wasserstein_distance(scores, groups) >= abs(p[groups == 0].mean() - p[groups == 1].mean()) - 1e-15


def test_integer_weights_are_copies_of_rows():
    rng = np.random.default_rng(2)
    scores, y, groups = rng.normal(size=200), rng.integers(0, 2, 200), rng.integers(0, 3, 200)
    copies = rng.integers(1, 4, 200)
    weighted = fm.benchmark_metrics(scores, y, groups, copies)
    repeated = fm.benchmark_metrics(*(np.repeat(a, copies) for a in (scores, y, groups)))
    for name, value in repeated.items():
        np.testing.assert_allclose(weighted[name], value, rtol=1e-10, err_msg=name)
