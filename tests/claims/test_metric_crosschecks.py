"""Every exact metric against fairlearn, scikit-learn or scipy, on random rows with ties, weights and many groups."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sk

from fairbound.fairness import metrics as fm
from fairbound.fairness.distances import group_auc, wasserstein

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


exhaustive = settings(max_examples=60, deadline=None, derandomize=True)
beside_fairlearn = settings(exhaustive, max_examples=12)  # fairlearn's frames take most of the time


@beside_fairlearn
@given(rows())
def test_rates_equal_fairlearn_metric_frame_and_sklearn(case):
    scores, y, groups, weight = case
    yhat = (scores > 0).astype(int)
    counts = fm.by_group(scores, y, groups, weight)
    parameters = None if weight is None else {"sample_weight": weight}

    def frame(function):
        return fairlearn.MetricFrame(
            metrics=function, y_true=y, y_pred=yhat, sensitive_features=groups, sample_params=parameters
        )

    for name, function in [
        ("selection_rate", fairlearn.selection_rate),
        ("true_positive_rate", fairlearn.true_positive_rate),
        ("false_positive_rate", fairlearn.false_positive_rate),
        ("positive_predictive_value", sk.precision_score),
        ("base_rate", lambda t, _, sample_weight=None: np.average(t, weights=sample_weight)),
        ("error_rate", sk.zero_one_loss),
    ]:
        found = frame(function)
        np.testing.assert_allclose(getattr(counts, name), found.by_group.to_numpy(), **CLOSE, err_msg=name)
        np.testing.assert_allclose(counts.overall[name], found.overall, **CLOSE)
        np.testing.assert_allclose(fm.gap(counts, name), found.difference(), **CLOSE)
        to_overall = found.difference(method="to_overall")
        np.testing.assert_allclose(fm.gap(counts, name, against="overall"), to_overall, **CLOSE)
        np.testing.assert_allclose(fm.ratio(counts, name), found.ratio(), **CLOSE)
        np.testing.assert_allclose(fm.ratio(counts, name, "overall"), found.ratio(method="to_overall"), **CLOSE)
    for k in range(len(counts.labels)):
        mine = groups == k
        w = None if weight is None else weight[mine]
        table = sk.confusion_matrix(y[mine], yhat[mine], sample_weight=w, labels=[0, 1])
        np.testing.assert_allclose(counts.cell_weight[k], table, **CLOSE)
        omitted = sk.confusion_matrix(y[mine], yhat[mine], sample_weight=w, labels=[0, 1], normalize="pred")[1, 0]
        np.testing.assert_allclose(counts.false_omission_rate[k], omitted, **CLOSE)
        probability = 1 / (1 + np.exp(-scores[mine]))
        np.testing.assert_allclose(counts.mean_loss[k], sk.log_loss(y[mine], probability, sample_weight=w), rtol=1e-10)
    np.testing.assert_array_equal(counts.n, np.bincount(groups))


@beside_fairlearn
@given(rows())
def test_named_gaps_equal_fairlearn(case):
    scores, y, groups, weight = case
    yhat = (scores > 0).astype(int)
    theirs = {"sensitive_features": groups, "sample_weight": weight}
    for ours, method in [("pairwise", "between_groups"), ("overall", "to_overall")]:
        for function, other in [
            (fm.demographic_parity_difference, fairlearn.demographic_parity_difference),
            (fm.demographic_parity_ratio, fairlearn.demographic_parity_ratio),
            (fm.equal_opportunity_difference, fairlearn.equal_opportunity_difference),
            (fm.predictive_equality_difference, fairlearn.false_positive_rate_difference),
            (fm.equalized_odds_difference, fairlearn.equalized_odds_difference),
        ]:
            found = function(scores, y, groups, weight, against=ours)
            np.testing.assert_allclose(found, other(y, yhat, method=method, **theirs), **CLOSE, err_msg=other.__name__)
    np.testing.assert_allclose(
        fm.inaccuracy(scores, y, weight), sk.zero_one_loss(y, yhat, sample_weight=weight), **CLOSE
    )


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
    np.testing.assert_allclose(fm.independence(scores, y, groups, weight), max(ind), **CLOSE)
    np.testing.assert_allclose(fm.separation(scores, y, groups, weight), max(sp), **CLOSE)
    np.testing.assert_allclose(fm.sufficiency(scores, y, groups, weight), max(sf), **CLOSE)
    np.testing.assert_allclose(found["AUC"], sk.roc_auc_score(y, scores, sample_weight=weight), **CLOSE)


@exhaustive
@given(rows())
def test_auc_equals_sklearn_overall_and_in_groups(case):
    scores, y, groups, weight = case
    np.testing.assert_allclose(fm.auc(scores, y, weight), sk.roc_auc_score(y, scores, sample_weight=weight), **CLOSE)
    counts = fm.by_group(scores, y, groups, weight)
    for k in range(len(counts.labels)):
        mine = groups == k
        w = None if weight is None else weight[mine]
        np.testing.assert_allclose(counts.auc[k], sk.roc_auc_score(y[mine], scores[mine], sample_weight=w), **CLOSE)


def test_auc_equals_the_sum_over_all_pairs():
    rng = np.random.default_rng(0)
    scores, y, w = rng.integers(0, 6, 80).astype(float), rng.integers(0, 2, 80), rng.random(80)
    p, q = y == 1, y == 0
    wins = (scores[p][:, None] > scores[q]) + 0.5 * (scores[p][:, None] == scores[q])
    expected = (w[p][:, None] * w[q] * wins).sum() / (w[p].sum() * w[q].sum())
    found = group_auc(scores, y, np.zeros(80, dtype=int), 1, w)[0]
    np.testing.assert_allclose(found, expected, **CLOSE)


@exhaustive
@given(rows())
def test_wasserstein_equals_scipy(case):
    scores, _, groups, weight = case
    w = np.ones(len(scores)) if weight is None else weight
    for transform, values in [("identity", scores), ("sigmoid", 1 / (1 + np.exp(-scores)))]:
        expected = max(
            stats.wasserstein_distance(values[groups == a], values[groups == b], w[groups == a], w[groups == b])
            for a in range(groups.max() + 1)
            for b in range(a)
        )
        found = fm.wasserstein_distance(scores, groups, weight, transform=transform)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


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


def test_half_a_million_rows_and_a_thousand_groups_stay_fast():
    """O(n log n): a bound an O(n * groups) or O(n^2) rendering misses by a wide margin."""
    rng = np.random.default_rng(0)
    n = 500_000
    scores, y, groups = rng.normal(size=n), rng.integers(0, 2, n), rng.integers(0, 1000, n)
    start = time.process_time()
    counts = fm.by_group(scores, y, groups)
    fm.odds_gap(counts, agg="sum")
    assert time.process_time() - start < 3
    assert len(counts.auc) == 1000
