"""Confidence bounds keep their promises: coverage by enumerating binomials where that is cheap, else by simulation."""

import itertools

import numpy as np
import pytest
from scipy import stats

from fairbound.base.errors import DataError, OptionError
from fairbound.confidence import contrasts as iv

RATES = (0.02, 0.1, 0.3, 0.5)
SIZES = {200: ((100, 100), (20, 180), (180, 20)), 2000: ((1000, 1000), (200, 1800), (1800, 200))}
PAIR = iv.contrast_matrix(2)
TAIL = 1e-9  # probability left out at each end of an enumeration


def outcomes(n, p):
    """Numbers of successes that matter, and their probabilities."""
    x = np.arange(max(stats.binom.ppf(TAIL, n, p) - 1, 0), min(stats.binom.ppf(1 - TAIL, n, p) + 1, n) + 1)
    return x, stats.binom.pmf(x, n, p)


def all_pairs(sizes, rates):
    """Every pair of outcomes of two groups, (N, 2), and its probability (N,)."""
    (x1, w1), (x2, w2) = (outcomes(n, p) for n, p in zip(sizes, rates, strict=True))
    return np.stack(np.meshgrid(x1, x2, indexing="ij"), axis=-1).reshape(-1, 2), np.outer(w1, w2).ravel()


def covers(upper, truth):
    return upper >= truth - 1e-12


# ---- one rate


@pytest.mark.parametrize(
    ("ours", "name"),
    [
        (iv.clopper_pearson, "exact"),
        (iv.wilson, "wilson"),
        (lambda *a: iv.wilson(*a, continuity=True), "wilsoncc"),
    ],
)
@pytest.mark.parametrize("alpha", [0.1, 0.01])
def test_single_rate_bounds_equal_scipy(ours, name, alpha):
    for x, n in [(0, 7), (3, 7), (7, 7), (1, 400), (390, 400)]:
        test = stats.binomtest(x, n)
        ci = test.proportion_ci(1 - alpha, method=name)
        np.testing.assert_allclose(np.array(ours(x, n, alpha, "two-sided")), [ci.low, ci.high], rtol=1e-9, atol=1e-12)
        for side, alternative, end in [("lower", "greater", 0), ("upper", "less", 1)]:
            one = stats.binomtest(x, n, alternative=alternative).proportion_ci(1 - alpha, method=name)
            np.testing.assert_allclose(ours(x, n, alpha, side)[end], one[end], rtol=1e-9, atol=1e-12)
            assert ours(x, n, alpha, side)[1 - end] == 1 - end


@pytest.mark.parametrize("n", [1, 2, 20, 200, 2000, 20000])
@pytest.mark.parametrize("side", ["lower", "upper", "two-sided"])
def test_clopper_pearson_never_falls_below_nominal(n, side):
    grid = np.concatenate([RATES, np.linspace(0.0005, 0.9995, 61 if n <= 200 else 9)])
    for alpha, p in itertools.product((0.05, 0.005), grid):
        x, w = outcomes(n, p)
        lower, upper = iv.clopper_pearson(x, n, alpha, side)
        assert w @ ((lower <= p) & (p <= upper)) >= 1 - alpha - 4 * TAIL, (p, alpha)


@pytest.mark.parametrize("n", [200, 2000, 20000])
@pytest.mark.parametrize("side", ["lower", "upper"])
def test_wilson_is_near_nominal_and_its_continuity_makes_it_safe(n, side):
    """Wilson alone dips below nominal; with continuity it does not by more than 0.005 for rates in [0.02, 0.5]."""
    plain, safe = [], []
    for p in np.linspace(0.02, 0.5, 49):
        x, w = outcomes(n, p)
        for found, continuity in [(plain, False), (safe, True)]:
            lower, upper = iv.wilson(x, n, 0.05, side, continuity)
            found.append(w @ ((lower <= p) & (p <= upper)))
    assert abs(np.mean(plain) - 0.95) < 0.012
    assert min(plain) < 0.95
    assert min(safe) >= 0.945


def test_no_rows_say_nothing():
    for bounds in (iv.clopper_pearson(0, 0), iv.wilson(0, 0)):
        assert [float(b) for b in bounds] == [0.0, 1.0]


# ---- differences of rates


def two_group_coverage(method, sizes, rates, alpha, correction):
    """Exact probabilities that both contrasts are covered, each one is, the largest one is by the largest bound."""
    x, w = all_pairs(sizes, rates)
    upper = iv.contrast_upper_bound(x, sizes, PAIR, alpha, method, correction)
    truth = PAIR @ np.asarray(rates)
    held = covers(upper, truth)
    return w @ held.all(1), (w @ held).min(), w @ covers(upper.max(1), truth.max())


@pytest.mark.parametrize("sizes", SIZES[200] + SIZES[2000], ids=str)
@pytest.mark.parametrize("method", ["mover", "exact"])
def test_difference_of_two_rates_covers_by_enumeration(sizes, method):
    """At n = 200 and 2,000 in all, split 50/50, 10/90 and 90/10: no noise, so nominal or better but for TAIL."""
    for rates in itertools.product(RATES, RATES):
        both, _, _ = two_group_coverage(method, sizes, rates, 0.05, "bonferroni")
        _, each, largest = two_group_coverage(method, sizes, rates, 0.05, "none")
        assert min(both, each, largest) >= 0.95 - 8 * TAIL, (rates, both, each, largest)


@pytest.mark.parametrize("sizes", [(10000, 10000), (2000, 18000), (18000, 2000)], ids=str)
@pytest.mark.parametrize("method", ["mover", "exact"])
def test_difference_of_two_rates_covers_at_20000_by_simulation(sizes, method):
    rng = np.random.default_rng(0)
    draws = 10_000
    for rates in itertools.product(RATES, RATES):
        x = rng.binomial(sizes, rates, size=(draws, 2))
        held = covers(iv.contrast_upper_bound(x, sizes, PAIR, 0.05, method), PAIR @ np.asarray(rates)).all(1)
        assert held.mean() >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / draws), rates


@pytest.mark.long
@pytest.mark.parametrize("sizes", [*SIZES[200], *SIZES[2000], (2000, 18000), (50, 50), (20, 20)], ids=str)
@pytest.mark.parametrize("alpha", [0.1, 0.05, 0.025, 0.05 / 6, 0.0025])
def test_difference_covers_on_a_finer_grid_and_at_corrected_levels(sizes, alpha):
    """Enumerated over rates in [0.005, 0.5] at the levels that a correction for up to 20 comparisons leads to."""
    for rates in itertools.product((0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5), repeat=2):
        _, each, largest = two_group_coverage("mover", sizes, rates, alpha, "none")
        assert min(each, largest) >= 1 - alpha - 8 * TAIL, (rates, each, largest)


def test_the_term_of_half_a_row_is_needed():
    """Without it the square-and-add bound falls short at 20 and 180 rows: the reason it is there."""
    sizes, rates, alpha = (180, 20), (0.3, 0.02), 0.025
    x, w = all_pairs(sizes, rates)
    upper = iv.contrast_upper_bound(x, sizes, [[1.0, -1.0]], alpha)[:, 0]
    truth = rates[0] - rates[1]
    assert w @ covers(upper, truth) >= 1 - alpha
    assert w @ covers(upper - 0.5 / 20, truth) < 1 - alpha - 0.005


@pytest.mark.parametrize("correction", ["bonferroni", "sidak", "none"])
def test_mover_is_sharper_than_exact(correction):
    x, n = [30, 300], [200, 1800]
    mover, exact = (iv.contrast_upper_bound(x, n, PAIR, 0.05, m, correction) for m in ("mover", "exact"))
    assert (mover < exact).all()
    assert (mover > PAIR @ (np.array(x) / n)).all()


def simulated(method, correction, sizes, rates, contrasts, draws=4000, seed=0, alpha=0.05):
    rng = np.random.default_rng(seed)
    x = rng.binomial(sizes, rates, size=(draws, len(sizes)))
    upper = iv.contrast_upper_bound(x, sizes, contrasts, alpha, method, correction)
    truth = contrasts @ np.asarray(rates)
    held = covers(upper, truth).all(1) if correction != "none" else covers(upper.max(1), truth.max())
    return held.mean(), 3 * np.sqrt(alpha * (1 - alpha) / draws)


@pytest.mark.parametrize("method", ["mover", "exact"])
@pytest.mark.parametrize("correction", ["bonferroni", "sidak", "none"])
@pytest.mark.parametrize("total", [200, 2000, 20000])
def test_many_groups_and_compound_gaps_cover(method, correction, total):
    """Pairs of four groups, groups against the overall rate, and equalised odds as a maximum and as a sum."""
    shares = np.array([0.1, 0.2, 0.3, 0.4])
    sizes = (total * shares).astype(int)
    cases = [
        (sizes, rates, iv.contrast_matrix(4, against, shares=shares))
        for rates in [(0.02, 0.1, 0.3, 0.5), (0.1, 0.1, 0.1, 0.1), (0.5, 0.5, 0.02, 0.3)]
        for against in ("pairwise", "overall")
    ]
    cases += [(sizes, (0.5, 0.3, 0.02, 0.1), iv.contrast_matrix(2, n_rates=2, agg=agg)) for agg in ("max", "sum")]
    for n, rates, contrasts in cases:
        coverage, slack = simulated(method, correction, n, rates, contrasts)
        assert coverage >= 0.95 - slack, (rates, coverage)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_random_groups_and_rates_cover(seed):
    rng = np.random.default_rng(seed)
    for _ in range(30):
        k = int(rng.integers(2, 7))
        sizes, rates = rng.integers(20, 2000, k), rng.uniform(0.01, 0.6, k)
        contrasts = iv.contrast_matrix(k)
        for correction in ("bonferroni", "sidak", "none"):
            coverage, slack = simulated("mover", correction, sizes, rates, contrasts, 20_000, seed)
            assert coverage >= 0.95 - slack, (sizes, rates, correction)


@pytest.mark.parametrize("correction", ["bonferroni", "none"])
@pytest.mark.parametrize("sizes", [(20, 180), (200, 1800)], ids=str)
def test_a_verdict_is_wrong_with_probability_at_most_alpha(sizes, correction):
    """Truth on the bound: "violated" is wrong; truth just above it: "met" is wrong. Each at most 5 % of the time."""
    for rates in [(0.1, 0.1), (0.3, 0.1), (0.1, 0.3), (0.5, 0.02)]:
        gap = abs(rates[0] - rates[1])
        x, w = all_pairs(sizes, rates)
        upper = iv.contrast_upper_bound(x, sizes, PAIR, correction=correction).max(1)
        lower = np.maximum(-iv.contrast_upper_bound(x, sizes, -PAIR), 0).max(1)
        assert w @ (lower > gap) <= 0.05
        assert w @ (upper < gap - 1e-12) <= 0.05
        for i in range(0, len(x), len(x) // 5):
            bounds = iv.rate_gap_bounds(x[i], sizes, PAIR, correction=correction)
            np.testing.assert_allclose([bounds.lower, bounds.upper], [lower[i], upper[i]], rtol=1e-12)


def test_gap_bounds_hold_the_gap_between_them_and_name_the_worst_pair():
    bounds = iv.rate_gap_bounds([10, 50, 30], [100, 200, 100], iv.contrast_matrix(3))
    assert bounds.value == pytest.approx(0.2)
    np.testing.assert_array_equal(iv.contrast_matrix(3)[bounds.worst], [-1, 0, 1])
    assert 0 <= bounds.lower <= bounds.value <= bounds.upper <= 1
    assert (bounds.lowers <= bounds.estimates).all()
    assert (bounds.estimates <= bounds.uppers).all()
    none = iv.rate_gap_bounds([10, 50, 30], [100, 200, 100], iv.contrast_matrix(3), correction="none")
    assert none.upper < bounds.upper
    assert none.lower == bounds.lower


def test_an_empty_group_decides_nothing():
    for method in ("mover", "exact"):
        bounds = iv.rate_gap_bounds([0, 5], [0, 50], PAIR, method=method)
        assert (bounds.lower, bounds.verdict(0.1)) == (0.0, "insufficient")
        assert bounds.upper > 0.9
        assert np.isnan(bounds.value)
    means = iv.mean_gap_bounds([np.nan, 0.4], [np.nan, 0.1], [0, 50], PAIR)
    assert means.upper == np.inf
    assert means.verdict(0.1) == "insufficient"


def test_the_verdict_reads_its_bounds():
    assert iv.verdict(0.0, 0.02, 0.02) == "met"
    assert iv.verdict(0.021, 0.05, 0.02) == "violated"
    assert iv.verdict(0.02, 0.05, 0.02) == "insufficient"
    assert iv.verdict(float("nan"), float("nan"), 0.02) == "insufficient"


def test_weighted_rows_cover_with_the_effective_number_of_trials():
    """Kish's effective size, an approximation: weights independent of the outcome, log-normal with variance 0.28."""
    rng = np.random.default_rng(0)
    draws, n, p = 4000, 1000, 0.1
    hits = 0
    for _ in range(draws):
        w = rng.lognormal(sigma=0.5, size=n)
        rate = w @ (rng.random(n) < p) / w.sum()
        effective = w.sum() ** 2 / (w @ w)
        hits += iv.clopper_pearson(rate * effective, effective, 0.05, "upper")[1] >= p
    assert hits / draws >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / draws)


# ---- contrast matrices


def test_the_largest_contrast_is_the_gap():
    rng = np.random.default_rng(0)
    a, b = rng.random(4), rng.random(4)
    shares = np.array([0.1, 0.2, 0.3, 0.4])
    both = np.concatenate([a, b])
    assert (iv.contrast_matrix(4) @ a).max() == pytest.approx(np.ptp(a))
    assert (iv.contrast_matrix(4, "best") @ a).max() == pytest.approx(np.ptp(a))
    overall = iv.contrast_matrix(4, "overall", shares=shares)
    assert (overall @ a).max() == pytest.approx(np.abs(a - shares @ a).max())
    assert (iv.contrast_matrix(4, n_rates=2) @ both).max() == pytest.approx(max(np.ptp(a), np.ptp(b)))
    pairs = itertools.combinations(range(4), 2)
    by_hand = max(abs(a[i] - a[j]) + abs(b[i] - b[j]) for i, j in pairs)
    assert (iv.contrast_matrix(4, n_rates=2, agg="sum") @ both).max() == pytest.approx(by_hand)


# ---- means


def test_student_bounds_equal_scipy():
    rng = np.random.default_rng(0)
    a, b = rng.exponential(size=30), rng.exponential(size=80)
    low, high = iv.mean_bounds(a.mean(), a.var(ddof=1), len(a), 0.1)
    ci = stats.ttest_1samp(a, 0).confidence_interval(0.9)
    np.testing.assert_allclose([low, high], [ci.low, ci.high], rtol=1e-10)
    upper = iv.mean_contrast_upper_bound(
        [a.mean(), b.mean()], [a.var(ddof=1), b.var(ddof=1)], [30, 80], [[1, -1]], 0.05, correction="none"
    )
    welch = stats.ttest_ind(a, b, equal_var=False, alternative="less").confidence_interval(0.95)
    np.testing.assert_allclose(upper, [welch.high], rtol=1e-10)


@pytest.mark.parametrize("method", ["empirical-bernstein", "hoeffding"])
def test_guaranteed_mean_bounds_cover(method):
    rng = np.random.default_rng(0)
    draws = 4000
    for n, p in itertools.product((20, 200, 2000), RATES):
        x = rng.binomial(n, p, size=draws)
        mean, variance = x / n, x / n * (1 - x / n) * n / (n - 1)
        lower, upper = iv.mean_bounds(mean, variance, n, 0.05, method=method, low=0, high=1)
        assert np.mean((lower <= p) & (p <= upper)) >= 0.95
        pair = iv.mean_contrast_upper_bound(
            np.stack([mean, mean[::-1]], 1),
            np.stack([variance, variance[::-1]], 1),
            n,
            PAIR,
            0.05,
            method,
            low=0,
            high=1,
        )
        assert covers(pair, 0.0).all(1).mean() >= 0.95


def skewed_coverage(sizes, draws, seed):
    rng = np.random.default_rng(seed)
    samples = [rng.exponential(size=(draws, n)) for n in sizes]
    means = np.stack([s.mean(1) for s in samples], 1)
    variances = np.stack([s.var(1, ddof=1) for s in samples], 1)
    return covers(iv.mean_contrast_upper_bound(means, variances, sizes, PAIR, 0.05), 0.0).all(1).mean()


def test_student_contrasts_of_skewed_losses_cover_to_the_order_of_their_approximation():
    """Exponential losses (skewness 2). The error of a one-sided t bound is of order skewness / sqrt(smallest group)."""
    for sizes in [(100, 100), (20, 180), (200, 1800)]:
        allowed = 0.05 * 2 * 2 / np.sqrt(min(sizes)) + 3 * np.sqrt(0.05 * 0.95 / 4000)
        assert skewed_coverage(sizes, 4000, 0) >= 0.95 - allowed


# ---- rows needed


@pytest.mark.parametrize("method", ["mover", "exact"])
def test_rows_needed_is_the_first_number_that_decides(method):
    rates, shares = np.array([0.12, 0.11]), np.array([0.1, 0.9])
    for bound in (0.03, 0.002):
        n = iv.rows_needed(rates, shares, bound, PAIR, method=method)
        for rows, decided in [(n, True), (n - 1, False), (2 * n, True)]:
            found = iv.rate_gap_bounds(rates * rows * shares, rows * shares, PAIR, method=method).verdict(bound)
            assert (found == ("met" if bound > 0.01 else "violated")) is decided


def test_rows_needed_grows_towards_the_bound_and_with_certainty():
    rates, shares = [0.12, 0.11], [0.1, 0.9]
    below = [iv.rows_needed(rates, shares, b, PAIR) for b in (0.2, 0.1, 0.05, 0.02, 0.0101)]
    above = [iv.rows_needed(rates, shares, b, PAIR) for b in (0.0, 0.005, 0.009, 0.0099)]
    certain = [iv.rows_needed(rates, shares, 0.05, PAIR, alpha) for alpha in (0.2, 0.05, 0.01, 0.0001)]
    for series in (below, above, certain):
        assert all(isinstance(n, int) for n in series)
        assert series == sorted(set(series))


def test_rows_needed_is_none_where_no_number_decides():
    assert iv.rows_needed([0.12, 0.11], [0.5, 0.5], 0.12 - 0.11, PAIR) is None
    assert iv.rows_needed([0.12, 0.11], [0.5, 0.5], 0.01 + 1e-9, PAIR) is None
    assert iv.rows_needed([0.1, 0.1], [0.5, 0.5], 0.0, PAIR) is None
    assert iv.rows_needed([0.1, 0.3], [1.0, 0.0], 0.05, PAIR) is None
    assert iv.rows_needed_for_means([0.4, 0.4], [0.1, 0.1], [0.5, 0.5], 0.0, PAIR) is None


def test_rows_needed_for_means_is_the_first_number_that_decides():
    means, variances, shares = np.array([0.42, 0.40]), np.array([0.3, 0.2]), np.array([0.2, 0.8])
    n = iv.rows_needed_for_means(means, variances, shares, 0.05, PAIR)
    verdicts = [iv.mean_gap_bounds(means, variances, rows * shares, PAIR).verdict(0.05) for rows in (n - 1, n)]
    assert verdicts == ["insufficient", "met"]
    bounded = iv.rows_needed_for_means(
        means, variances, shares, 0.05, PAIR, method="empirical-bernstein", low=0, high=2
    )
    assert bounded > n


# ---- wrong use


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: iv.clopper_pearson(3, 2), DataError, "between 0 and counts"),
        (lambda: iv.clopper_pearson(np.nan, 2), DataError, "between 0 and counts"),
        (lambda: iv.wilson([1, 2, 3], [4, 5]), DataError, "broadcast"),
        (lambda: iv.clopper_pearson(1, 2, 0.0), OptionError, "alpha"),
        (lambda: iv.clopper_pearson(1, 2, 0.7), OptionError, "alpha"),
        (lambda: iv.wilson(1, 2, 0.05, "both"), OptionError, "side"),
        (lambda: iv.contrast_upper_bound([1, 2], [4, 5], PAIR, method="newcombe"), OptionError, "method"),
        (lambda: iv.contrast_upper_bound([1, 2], [4, 5], PAIR, correction="holm"), OptionError, "correction"),
        (lambda: iv.contrast_upper_bound([1, 2, 3], [4, 5, 6], PAIR), DataError, "coefficients"),
        (lambda: iv.mean_bounds(0.5, 0.1, 10, method="hoeffding"), OptionError, "low"),
        (lambda: iv.mean_bounds(0.5, 0.1, 10, method="betting"), OptionError, "method"),
        (lambda: iv.contrast_matrix(1), DataError, "two groups"),
        (lambda: iv.contrast_matrix(2, "overall"), OptionError, "shares"),
        (lambda: iv.contrast_matrix(2, "overall", shares=[0.5, 0.6]), OptionError, "shares"),
        (lambda: iv.contrast_matrix(2, "best", n_rates=2, agg="sum"), OptionError, "pairwise"),
        (lambda: iv.contrast_matrix(5000), DataError, "overall"),
        (lambda: iv.rows_needed([0.1, 1.2], [0.5, 0.5], 0.1, PAIR), DataError, "rates"),
        (lambda: iv.rows_needed([0.1, np.nan], [0.5, 0.5], 0.1, PAIR), DataError, "finite"),
    ],
)
def test_wrong_use_is_refused_with_a_reason(call, error, says):
    with pytest.raises(error, match=says):
        call()
