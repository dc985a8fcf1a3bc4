"""What the exact metrics say on small tables done by hand, on absent groups and labels, and on wrong input."""

import numpy as np
import pytest
import torch

from fairbound.base.errors import DataError, EmptyGroupError, NonFiniteError, OptionError
from fairbound.fairness import metrics as fm
from fairbound.fairness.distances import binned_squared_wasserstein, wasserstein

# group a: TP 2, FN 1, FP 1, TN 1; group b: TP 1, FN 2, FP 0, TN 3; two rows without a group
Y = np.array([1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 0])
YHAT = np.array([1, 1, 0, 1, 0, 1, 0, 0, 0, 0, 0, 1, 1])
GROUPS = np.array(["a"] * 5 + ["b"] * 6 + [None, None], dtype=object)
SCORES = np.where(YHAT == 1, 1.5, -0.5)


def test_counts_and_rates_by_hand():
    counts = fm.by_group(SCORES, Y, GROUPS)
    assert counts.labels == ("a", "b")
    assert counts.missing == 2
    np.testing.assert_array_equal(counts.n, [5, 6])
    np.testing.assert_array_equal(counts.positives, [3, 3])
    np.testing.assert_array_equal(counts.cells, [[[1, 1], [1, 2]], [[3, 0], [2, 1]]])
    for name, a, b, overall in [
        ("selection_rate", 3 / 5, 1 / 6, 4 / 11),
        ("true_positive_rate", 2 / 3, 1 / 3, 3 / 6),
        ("false_positive_rate", 1 / 2, 0, 1 / 5),
        ("positive_predictive_value", 2 / 3, 1, 3 / 4),
        ("false_omission_rate", 1 / 2, 2 / 5, 3 / 7),
        ("base_rate", 3 / 5, 1 / 2, 6 / 11),
        ("error_rate", 2 / 5, 1 / 3, 4 / 11),
    ]:
        np.testing.assert_allclose(getattr(counts, name), [a, b], rtol=1e-15, err_msg=name)
        assert counts.overall[name] == pytest.approx(overall, rel=1e-15)
    assert counts.undefined == ()


def test_gaps_by_hand():
    args = (SCORES, Y, GROUPS)
    assert fm.demographic_parity_difference(*args) == pytest.approx(3 / 5 - 1 / 6)
    assert fm.demographic_parity_ratio(*args) == pytest.approx((1 / 6) / (3 / 5))
    assert fm.equal_opportunity_difference(*args) == pytest.approx(1 / 3)
    assert fm.predictive_equality_difference(*args) == pytest.approx(1 / 2)
    assert fm.equalized_odds_difference(*args) == pytest.approx(1 / 2)
    assert fm.equalized_odds_difference(*args, agg="sum") == pytest.approx(1 / 3 + 1 / 2)
    assert fm.demographic_parity_difference(*args, against="overall") == pytest.approx(3 / 5 - 4 / 11)
    assert fm.demographic_parity_ratio(*args, against="overall") == pytest.approx((1 / 6) / (4 / 11))
    assert fm.demographic_parity_difference(*args, against="best") == pytest.approx(3 / 5 - 1 / 6)
    assert fm.independence(*args) == pytest.approx(3 / 5 - 1 / 6)
    assert fm.separation(*args) == pytest.approx(1 / 3 + 1 / 2)
    assert fm.sufficiency(*args) == pytest.approx((1 - 2 / 3) + (1 / 2 - 2 / 5))
    assert fm.inaccuracy(SCORES, Y) == pytest.approx(5 / 13)  # with the rows that have no group


def test_odds_gap_sums_one_pair_at_a_time():
    """Three groups whose largest gaps lie in different pairs: the sum of the two ranges would be too large."""
    counts = [(0.9, 0.1), (0.5, 0.1), (0.7, 0.5)]
    y, yhat, groups = [], [], []
    for g, (tpr, fpr) in enumerate(counts):
        for label, rate in [(1, tpr), (0, fpr)]:
            y += [label] * 10
            yhat += [1] * round(10 * rate) + [0] * round(10 - 10 * rate)
            groups += [g] * 10
    pairs = [abs(a[0] - b[0]) + abs(a[1] - b[1]) for a in counts for b in counts]
    assert fm.separation(yhat, y, groups) == pytest.approx(max(pairs)) == pytest.approx(0.6)
    assert fm.equalized_odds_difference(yhat, y, groups, agg="sum", against="best") == pytest.approx(0.2 + 0.4)
    tpr, fpr = (np.array([c[i] for c in counts]) for i in (0, 1))
    overall = np.max(np.abs(tpr - tpr.mean()) + np.abs(fpr - fpr.mean()))
    assert fm.equalized_odds_difference(yhat, y, groups, agg="sum", against="overall") == pytest.approx(overall)


@pytest.mark.parametrize("form", ["logits", "bool", "01", "pm1", "torch", "column"])
def test_scores_and_decisions_of_every_form_are_read_alike(form):
    scores = {
        "logits": SCORES,
        "bool": YHAT == 1,
        "01": YHAT,
        "pm1": 2 * YHAT - 1,
        "torch": torch.tensor(SCORES, requires_grad=True),
        "column": SCORES[:, None],
    }[form]
    assert fm.separation(scores, torch.tensor(Y), GROUPS) == pytest.approx(1 / 3 + 1 / 2)


def test_a_threshold_for_probabilities():
    probability = np.where(YHAT == 1, 0.8, 0.3)
    assert fm.inaccuracy(probability, Y, threshold=0.5) == pytest.approx(5 / 13)
    assert fm.demographic_parity_difference(probability, None, GROUPS, threshold=0.5) == pytest.approx(3 / 5 - 1 / 6)


@pytest.mark.parametrize(
    "groups",
    [
        np.array([0] * 5 + [1] * 6 + [-1, -1]),
        np.array([7.0] * 5 + [9.0] * 6 + [np.nan, -1.0]),
        np.array([True] * 5 + [False] * 6 + [None, None], dtype=object),
        ["x"] * 5 + ["y"] * 6 + [None, float("nan")],
        torch.tensor([0] * 5 + [1] * 6 + [-1, -1]),
    ],
    ids=["codes", "floats", "objects", "list", "torch"],
)
def test_groups_of_every_form_are_read_alike(groups):
    counts = fm.by_group(SCORES, Y, groups)
    assert sorted(counts.n) == [5, 6]
    assert counts.missing == 2
    assert fm.gap(counts, "selection_rate") == pytest.approx(3 / 5 - 1 / 6)


def test_pandas_missing_values():
    pd = pytest.importorskip("pandas")
    groups = pd.Series(["a"] * 5 + ["b"] * 6 + [pd.NA, None], dtype="string")
    assert fm.by_group(pd.Series(SCORES), pd.Series(Y), groups).missing == 2
    assert fm.by_group(SCORES, Y, pd.Categorical(list(GROUPS))).labels == ("a", "b")


def test_labels_declare_groups_that_have_no_row():
    counts = fm.by_group(SCORES[:11], Y[:11], np.repeat([0, 2], [5, 6]), labels=["a", "b", "c"])
    assert counts.labels == ("a", "b", "c")
    np.testing.assert_array_equal(counts.n, [5, 0, 6])
    assert ("b", "selection_rate") in counts.undefined
    assert np.isnan(counts.selection_rate[1])
    with pytest.raises(EmptyGroupError, match=r"selection_rate is undefined in 1 of 3 groups.*'b'"):
        fm.gap(counts, "selection_rate")
    assert np.isnan(fm.gap(counts, "selection_rate", undefined="nan"))
    named = fm.by_group(SCORES, Y, GROUPS, labels=["b", "a", "c"])
    np.testing.assert_array_equal(named.n, [6, 5, 0])


def test_codes_with_a_hole_keep_their_own_names():
    assert fm.by_group(SCORES[:11], Y[:11], np.repeat([0, 2], [5, 6])).labels == (0, 2)


def test_a_group_without_positives_is_undefined_not_zero():
    y = np.where(GROUPS == "b", 0, Y)
    counts = fm.by_group(SCORES, y, GROUPS)
    assert counts.undefined == (("b", "true_positive_rate"), ("b", "auc"))
    assert np.isnan(counts.true_positive_rate[1])
    for metric in (fm.equal_opportunity_difference, fm.equalized_odds_difference, fm.separation):
        with pytest.raises(EmptyGroupError, match="true_positive_rate"):
            metric(SCORES, y, GROUPS)
    assert np.isnan(fm.equalized_odds_difference(SCORES, y, GROUPS, undefined="nan"))
    assert fm.demographic_parity_difference(SCORES, y, GROUPS) == pytest.approx(3 / 5 - 1 / 6)


def test_one_group_has_nothing_to_compare_with():
    with pytest.raises(EmptyGroupError, match="at least two groups"):
        fm.demographic_parity_difference(SCORES, Y, ["a"] * 13)
    assert np.isnan(fm.demographic_parity_difference(SCORES, Y, ["a"] * 13, undefined="nan"))
    assert np.isnan(fm.wasserstein_distance(SCORES, ["a"] * 13, undefined="nan"))


def test_a_ratio_of_zeros_is_undefined():
    with pytest.raises(EmptyGroupError, match="0 / 0"):
        fm.demographic_parity_ratio(np.zeros(13), Y, GROUPS)
    assert np.isnan(fm.demographic_parity_ratio(np.zeros(13), Y, GROUPS, undefined="nan"))


def test_without_labels_only_selection_is_defined():
    counts = fm.by_group(SCORES, None, GROUPS)
    assert counts.positives is None
    assert np.isnan(counts.base_rate).all()
    assert ("a", "selection_rate") not in counts.undefined
    with pytest.raises(DataError, match="needs y"):
        counts.trials("base_rate")


def test_trials_are_counts_without_weights_and_effective_with():
    counts = fm.by_group(SCORES, Y, GROUPS)
    for name, successes, trials in [
        ("selection_rate", [3, 1], [5, 6]),
        ("true_positive_rate", [2, 1], [3, 3]),
        ("false_positive_rate", [1, 0], [2, 3]),
        ("positive_predictive_value", [2, 1], [3, 1]),
    ]:
        for found, expected in zip(counts.trials(name), (successes, trials), strict=True):
            np.testing.assert_array_equal(found, expected)
    equal = fm.by_group(SCORES, Y, GROUPS, np.full(13, 0.3)).trials("true_positive_rate")
    np.testing.assert_allclose(equal, [[2, 1], [3, 3]], rtol=1e-12)
    weight = np.array([4.0, 1, 1] + [1] * 10)
    successes, trials = fm.by_group(SCORES, Y, GROUPS, weight).trials("true_positive_rate")
    assert trials[0] == pytest.approx(6**2 / 18)
    assert successes[0] / trials[0] == pytest.approx(5 / 6)


def test_loss_moments():
    losses = np.arange(13.0)
    counts = fm.by_group(YHAT, Y, GROUPS, losses=losses)
    np.testing.assert_allclose(counts.mean_loss, [2, 7.5])
    np.testing.assert_allclose(counts.loss_variance, [losses[:5].var(ddof=1), losses[5:11].var(ddof=1)])
    assert fm.loss_gap(YHAT, Y, GROUPS, losses=losses) == pytest.approx(5.5)
    assert fm.loss_gap(YHAT, Y, GROUPS, losses=losses, against="overall") == pytest.approx(3)
    with pytest.raises(DataError, match="decisions"):
        fm.loss_gap(YHAT, Y, GROUPS)
    logistic = np.log1p(np.exp(-(2 * Y - 1) * SCORES))
    assert fm.loss_gap(SCORES, Y, GROUPS) == pytest.approx(abs(logistic[:5].mean() - logistic[5:11].mean()))


def test_infinite_losses_are_named():
    scores = np.where(Y == 1, -np.inf, SCORES)
    with pytest.raises(NonFiniteError, match="mean_loss is infinite in"):
        fm.loss_gap(scores, Y, GROUPS)


def test_auc_and_its_absence():
    assert fm.auc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]) == 0.75
    assert fm.auc([1, 1, 1, 1], [0, 0, 1, 1]) == 0.5
    with pytest.raises(EmptyGroupError, match="lack positives or negatives"):
        fm.auc([0.1, 0.2], [1, 1])
    assert np.isnan(fm.auc([0.1, 0.2], [1, 1], undefined="nan"))
    with pytest.raises(OptionError, match="ranking=True"):
        fm.gap(fm.by_group(SCORES, Y, GROUPS, ranking=False), "auc")


def test_wasserstein_of_a_shift_and_of_weights_as_copies():
    values = np.array([0.0, 1.0, 1.0, 5.0])
    for order in (1, 2, 3):
        assert wasserstein(values, values + 0.25, order=order) == pytest.approx(0.25)
    assert wasserstein([0.0, 1.0], [2.0], [3.0, 1.0], [7.0]) == pytest.approx((3 * 2 + 1) / 4)
    assert wasserstein([0.0, 1.0], [2.0], [3.0, 1.0], order=2) == pytest.approx(np.sqrt((3 * 4 + 1) / 4))
    assert wasserstein([0.0, 9.0], [0.0], [1.0, 0.0]) == 0.0
    with pytest.raises(EmptyGroupError, match="second"):
        wasserstein([1.0], [])
    with pytest.raises(OptionError, match="order"):
        wasserstein([1.0], [2.0], order=0.5)
    with pytest.raises(DataError, match="finite"):
        wasserstein([np.inf], [2.0])
    with pytest.raises(DataError, match="shape"):
        wasserstein([1.0, 2.0], [2.0], [1.0])


def test_wasserstein_of_groups_takes_the_worst_pair():
    scores = np.concatenate([np.zeros(4), np.full(4, 0.5), np.full(4, 2.0)])
    groups = np.repeat(["a", "b", "c"], 4)
    sigmoid = 1 / (1 + np.exp(-2.0))
    assert fm.wasserstein_distance(scores, groups) == pytest.approx(sigmoid - 0.5)
    assert fm.wasserstein_distance(scores, groups, transform="identity") == pytest.approx(2.0)
    with pytest.raises(DataError, match="decisions"):
        fm.wasserstein_distance(scores > 1, groups)
    with pytest.raises(EmptyGroupError, match="'d'"):
        fm.wasserstein_distance(scores, groups, labels=["a", "b", "c", "d"])


def test_binned_squared_wasserstein_is_a_square_over_the_reference_range():
    rng = np.random.default_rng(0)
    reference, other = rng.uniform(0, 1, 200_000), rng.uniform(0.1, 0.9, 200_000)
    exact = wasserstein(reference, other, order=2) ** 2
    assert binned_squared_wasserstein(reference, other) == pytest.approx(exact, abs=2 * np.sqrt(exact) / 50)
    inside = binned_squared_wasserstein(reference, np.concatenate([other, np.full(10**5, 7.0)]))
    assert inside == pytest.approx(binned_squared_wasserstein(reference, other), rel=1e-12)
    with pytest.raises(EmptyGroupError, match="range"):
        binned_squared_wasserstein(reference, other + 5)


def test_benchmark_metrics_have_the_papers_columns():
    found = fm.benchmark_metrics(SCORES, Y, GROUPS)
    assert list(found) == ["Ind", "Sp", "Ina", "Sf", "Wd", "AUC"]
    assert found["Sp"] == fm.separation(SCORES, Y, GROUPS)
    assert np.isnan(fm.benchmark_metrics(np.ones(13), Y, GROUPS)["Sf"])


def test_rows_without_weight_count_as_rows_but_define_nothing():
    weight = np.where(GROUPS == "b", 0.0, 1.0)
    counts = fm.by_group(SCORES, Y, GROUPS, weight)
    np.testing.assert_array_equal(counts.n, [5, 6])
    assert ("b", "selection_rate") in counts.undefined


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: fm.by_group([], [], []), DataError, "empty"),
        (lambda: fm.by_group([np.nan, 1.0], [0, 1], [0, 1]), DataError, "NaN in 1 of 2 rows, first in row 0"),
        (lambda: fm.by_group([0.3, 1.0], [0, 2], [0, 1]), DataError, "0 and 1 only"),
        (lambda: fm.by_group([0.3, 1.0], [0, 1, 1], [0, 1]), DataError, "y must have shape"),
        (lambda: fm.by_group([0.3, 1.0], [0, 1], [[0, 1], [1, 1]]), DataError, "groups must have shape"),
        (lambda: fm.by_group([3, 1], [0, 1], [0, 1]), DataError, "integers other than"),
        (lambda: fm.by_group([0.3, 1.0], [0, 1], [0, 1], [1.0, -1.0]), DataError, "non-negative"),
        (lambda: fm.by_group([0.3, 1.0], [0, 1], [0, 1], [0.0, 0.0]), DataError, "not all zero"),
        (lambda: fm.by_group([0.3, 1.0], [0, 1], [-1, -1]), DataError, "none of the 2 rows"),
        (lambda: fm.by_group([0.3, 1.0], [0, 1], [0, 5], labels=["a", "b"]), DataError, "2 labels"),
        (lambda: fm.by_group([0.3, 1.0], [0, 1], ["a", "z"], labels=["a", "b"]), DataError, "'z'"),
        (lambda: fm.by_group([0.3, 1.0], [0, 1], [0, 1], losses=[np.nan, 1]), DataError, "losses is NaN"),
        (lambda: fm.gap(fm.by_group([0.3, 1.0], [0, 1], [0, 1]), "n"), OptionError, "quantity"),
        (lambda: fm.inaccuracy([0.3, 1.0], None), DataError, "needs y"),
        (
            lambda: fm.demographic_parity_difference([0.3, 1.0], None, [0, 1], against="worst"),
            OptionError,
            "against must be one of",
        ),
        (
            lambda: fm.demographic_parity_difference([0.3, 1.0], None, [0, 1], undefined="zero"),
            OptionError,
            "undefined",
        ),
        (lambda: fm.equalized_odds_difference([0.3, 1.0], [0, 1], [0, 1], agg="mean"), OptionError, "agg"),
    ],
)
def test_wrong_use_is_refused_with_a_reason(call, error, says):
    with pytest.raises(error, match=says):
        call()
