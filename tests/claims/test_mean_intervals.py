"""Limits of means by betting, of weighted rates and means, and Welch's t keep the promises they make."""

import numpy as np
import pytest
from scipy import stats

from fairbound.confidence.betting import CAP, likely_width, mean_limits
from fairbound.confidence.contrasts import Contrasts
from fairbound.confidence.means import ASYMPTOTIC_ROWS, mean_bounds, mean_rows_needed, moments, welch_bounds
from fairbound.confidence.single import bernstein_width, clopper_pearson, effective_trials

PAIR = Contrasts(np.array([[0, 1], [0, 1]]), np.array([[1.0, -1.0], [-1.0, 1.0]]))
ONE = Contrasts(np.array([[0, 1]]), np.array([[1.0, -1.0]]))


def most_errors(level, draws):
    """Most errors that `draws` draws make at an error probability of `level`, but for a chance of 1e-4."""
    return stats.binom.ppf(1 - 1e-4, draws, level)


def cells_of(draws):
    return np.repeat(np.arange(len(draws)), draws.shape[1])


LAWS = {
    "exponential": lambda rng, size: np.minimum(rng.exponential(size=size), 5) / 5,
    "rare": lambda rng, size: (rng.random(size) < 0.05).astype(float),
    "often": lambda rng, size: 1.0 - (rng.random(size) < 0.05),
    "even": lambda rng, size: rng.random(size),
}


# ---- betting


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("n", [1, 10, 100, 1000])
def test_betting_limits_err_no_more_often_than_their_level(law, n):
    """Each side at level 0.05, 2,000 samples (300 of 1,000 rows)."""
    rng = np.random.default_rng(n)
    draws = LAWS[law](rng, (2000 if n < 1000 else 300, n))
    truth = LAWS[law](np.random.default_rng(0), 2_000_000).mean()
    lower, upper = mean_limits(draws.ravel(), cells_of(draws), len(draws), 0.05)
    assert (lower > truth).sum() <= most_errors(0.05, len(draws))
    assert (upper < truth).sum() <= most_errors(0.05, len(draws))
    if n == 1000 and law != "even":
        assert (lower > truth).any() or (upper < truth).any()  # and so the limits have no room to spare


def capital(x, w, m, level):
    """Largest log capital of a gambler who bets on a mean above m, row by row as the source writes it."""
    n, log, best, total = len(x), np.log(1 / level), 0.0, 0.0
    for i in range(n):
        seen_x, seen_w = x[:i], w[:i]
        means = []
        for j in range(1, i + 1):
            average = seen_w[:j].mean()
            means.append((average / 2 + seen_w[:j] @ seen_x[:j]) / (average + seen_w[:j].sum()))
        first = (seen_w**2).mean() / 4 if i else 1 / 4
        variance = (first + ((seen_w * (seen_x - np.array(means))) ** 2).sum()) / (i + 1)
        bet = min(np.sqrt(2 * log / (n * variance)), CAP / m)
        total += np.log(1 + bet * w[i] * (x[i] - m))
        best = max(best, total)
    return best


@pytest.mark.parametrize("weighted", [False, True])
def test_capital_at_the_limit_is_one_over_the_level(weighted, monkeypatch):
    """The limits are where the capital, written out row by row, just reaches 1 / level; the permutation is switched off."""
    monkeypatch.setattr(np, "lexsort", lambda keys: np.arange(len(keys[0])))
    rng = np.random.default_rng(4)
    x, w = rng.beta(1, 3, 60), (rng.uniform(0.1, 1, 60) if weighted else np.ones(60))
    lower, upper = mean_limits(2 + 3 * x, np.zeros(60, int), 1, 0.1, 2, 5, weights=w, largest_weight=1.0)
    low, high = (lower[0] - 2) / 3, (upper[0] - 2) / 3
    assert capital(x, w, low, 0.1) == pytest.approx(np.log(10), abs=1e-5)
    assert capital(1 - x, w, 1 - high, 0.1) == pytest.approx(np.log(10), abs=1e-5)
    assert 0 < low < np.average(x, weights=w) < high < 1


def test_betting_limits_do_not_depend_on_the_unit_of_weights_or_on_other_cells():
    rng = np.random.default_rng(0)
    x, cell, w = rng.random(300), rng.integers(-1, 3, 300), rng.random(300)
    plain = mean_limits(x, cell, 4, 0.05, weights=w)
    np.testing.assert_allclose(mean_limits(x, cell, 4, 0.05, weights=7 * w), plain, atol=1e-8)
    np.testing.assert_array_equal(mean_limits(x, cell, 4, 0.05, weights=np.ones(300)), mean_limits(x, cell, 4, 0.05))
    assert (plain[0][3], plain[1][3]) == (0.0, 1.0)  # a cell without rows
    assert (plain[0] <= plain[1]).all()


def test_betting_is_sharper_than_empirical_bernstein_and_close_to_student():
    """On 400 exponential losses in [0, 5]: less than 0.6 of Bernstein's width, and at most 1.6 times Student's."""
    draws = LAWS["exponential"](np.random.default_rng(0), (50, 400)) * 5
    lower, upper = mean_limits(draws.ravel(), cells_of(draws), 50, 0.025, 0, 5)
    half = (upper - lower).mean() / 2
    variance = draws.var(1, ddof=1)
    assert half < 0.6 * bernstein_width(variance, 400, 0.025, 5).mean()
    assert half < 1.6 * (stats.t.ppf(0.975, 399) * np.sqrt(variance / 400)).mean()


def test_empirical_bernstein_is_its_formula_and_covers():
    log = np.log(2 / 0.05)
    assert bernstein_width(0.2, 50, 0.05, 3) == pytest.approx(np.sqrt(2 * 0.2 * log / 50) + 7 * 3 * log / (3 * 49))
    assert bernstein_width(0.2, 1, 0.05, 3) == np.inf
    rng = np.random.default_rng(0)
    for n in (10, 100, 1000):
        x = rng.binomial(n, 0.1, 4000) / n
        assert (x - bernstein_width(x * (1 - x) * n / (n - 1), n, 0.05, 1) > 0.1).sum() <= most_errors(0.05, 4000)


# ---- contrasts of means


def test_guaranteed_bounds_unite_the_limits_at_the_level_of_the_sides_used():
    rng = np.random.default_rng(0)
    x, cell = rng.random(200), rng.integers(0, 3, 200)
    for which, sides in [(PAIR, 4), (ONE, 2), (Contrasts(np.array([[2]]), np.array([[2.0]])), 1)]:
        found = mean_bounds(x, cell, 3, which, 0.06, low=0, high=1)
        low, high = mean_limits(x, cell, 3, 0.06 / sides)
        c = np.zeros((len(which), 3))
        np.add.at(c, (np.arange(len(which))[:, None], which.index), which.coefficient)
        np.testing.assert_allclose(found.uppers, np.maximum(c, 0) @ high + np.minimum(c, 0) @ low)
        np.testing.assert_allclose(found.lowers, np.maximum(c, 0) @ low + np.minimum(c, 0) @ high)
        np.testing.assert_allclose(found.estimates, c @ [x[cell == k].mean() for k in range(3)])


@pytest.mark.parametrize("rows", [10, pytest.param(50, marks=pytest.mark.long)])
def test_guaranteed_bounds_of_a_gap_hold_where_welch_breaks(rows):
    """Rare large losses: Welch finds "met" far too often, the guaranteed bounds err no more often than they may."""
    rng = np.random.default_rng(rows)
    runs = 300
    truth, errors, welch = 0.1, 0, 0
    cell = np.repeat([0, 1], [rows, 4 * rows])
    for _ in range(runs):
        x = np.concatenate([rng.random(rows) < 0.1, np.zeros(4 * rows)]) + 0.01 * rng.random(5 * rows)
        errors += mean_bounds(x, cell, 2, PAIR, low=0, high=1.01).upper < truth
        welch += welch_bounds(*moments(x, cell, 2), PAIR, least_rows=2).upper < truth
    assert errors <= most_errors(0.05, runs)
    assert welch > most_errors(0.05, runs)


def test_welch_bounds_equal_scipy():
    rng = np.random.default_rng(0)
    a, b = rng.exponential(size=30), rng.exponential(size=80)
    sample = moments(np.concatenate([a, b]), np.repeat([0, 1], [30, 80]), 2)
    np.testing.assert_allclose(sample, [[a.mean(), b.mean()], [a.var(ddof=1), b.var(ddof=1)], [30, 80]])
    found = welch_bounds(*sample, PAIR, 0.1, least_rows=2)
    for i, (first, second) in enumerate([(a, b), (b, a)]):
        welch = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.9)
        np.testing.assert_allclose([found.lowers[i], found.uppers[i]], welch, rtol=1e-10)
    scaled = welch_bounds(
        sample[0], sample[1], sample[2], Contrasts(np.array([[0, 1]]), np.array([[2.0, -1.0]])), 0.05, 2
    )
    parts = np.array([4 * sample[1][0] / 30, sample[1][1] / 80])
    freedom = parts.sum() ** 2 / (parts**2 / [29, 79]).sum()
    assert scaled.upper - scaled.value == pytest.approx(stats.t.ppf(0.95, freedom) * np.sqrt(parts.sum()))


def test_welch_says_nothing_below_its_least_rows():
    for rows, said in [(ASYMPTOTIC_ROWS - 1, "insufficient"), (ASYMPTOTIC_ROWS, "met")]:
        found = welch_bounds([0.4, 0.41], [0.1, 0.1], [rows, 10_000], PAIR)
        assert found.verdict(0.3) == said
    nothing = welch_bounds([np.nan, 0.4], [np.nan, 0.1], [0, 5000], PAIR)
    assert (nothing.lower, nothing.upper, nothing.verdict(0.1)) == (0.0, np.inf, "insufficient")
    assert np.isnan(nothing.value)


def test_rows_needed_for_welch_is_the_first_number_that_decides():
    means, variances, shares = np.array([0.62, 0.40]), np.array([0.3, 0.2]), np.array([0.2, 0.8])
    n = mean_rows_needed(means, variances, shares, PAIR, 0.25)
    said = [welch_bounds(means, variances, rows * shares, PAIR).verdict(0.25) for rows in (n - 1, n)]
    assert said == ["insufficient", "met"]
    few = mean_rows_needed([0.9, 0.1], variances, shares, PAIR, 0.05)
    assert few == pytest.approx(ASYMPTOTIC_ROWS / 0.2, abs=3)
    assert mean_rows_needed([0.4, 0.4], [0.1, 0.1], [0.5, 0.5], PAIR, 0.0) is None


def test_rows_needed_for_guaranteed_bounds_are_about_the_rows_that_decide():
    """Errors of a tenth: of 100 samples of the number stated at least half decide, of two thirds of it at most half."""
    rng = np.random.default_rng(0)
    shares, rate = np.array([0.5, 0.5]), np.array([0.1, 0.1])
    n = mean_rows_needed(rate, rate * (1 - rate), shares, PAIR, 0.05, low=0, high=1)
    met = []
    for rows in (n, 2 * n // 3):
        cell = np.arange(rows) % 2
        found = (mean_bounds(rng.random(rows) < 0.1, cell, 2, PAIR, low=0, high=1) for _ in range(100))
        met.append(sum(bounds.verdict(0.05) == "met" for bounds in found))
    assert met[0] >= stats.binom.ppf(1e-4, 100, 0.5) and met[1] <= stats.binom.ppf(1 - 1e-4, 100, 0.5)
    constant, said = mean_rows_needed(rate, [0.0, 0.0], shares, PAIR, 0.05, low=0, high=3), []
    for rows in (int(0.9 * constant), int(1.1 * constant)):
        found = mean_bounds(np.full(rows, 0.1), np.arange(rows) % 2, 2, PAIR, low=0, high=3)
        said.append(found.verdict(0.05))
    assert said == ["insufficient", "met"]


def test_rows_needed_for_welch_heed_that_every_group_needs_some_by_chance():
    """Two groups of 8 % of the rows each: where each is expected to have 200, both had them in a fifth of samples."""
    rng, shares = np.random.default_rng(0), np.array([0.08, 0.08, 0.84])
    pairs = Contrasts(np.array([(a, b) for a in range(3) for b in range(3) if a != b]), np.tile([1.0, -1.0], (6, 1)))
    n = mean_rows_needed([0.4] * 3, [1.0] * 3, shares, pairs, 2.0)
    enough = (rng.multinomial(n, shares, 4000) >= ASYMPTOTIC_ROWS).all(1).mean()
    assert 0.45 < enough < 0.55
    one = mean_rows_needed([0.4, 3.4, 0.4], [1.0] * 3, shares, pairs, 2.0)
    assert 0.45 < (rng.binomial(one, 0.08, 4000) >= ASYMPTOTIC_ROWS).mean() < 0.6


@pytest.mark.parametrize("level", [0.05, 0.005])
@pytest.mark.parametrize("n", [30, 100, 1000])
def test_how_far_limits_of_bets_lie_is_known_beforehand(n, level):
    """To 10 % where values vary little, to 20 % of losses that are mostly near 0."""
    rng = np.random.default_rng(0)
    for draw, close in ((lambda m: 0.5 + rng.normal(0, 0.03, m), 0.1), (lambda m: rng.beta(0.5, 9.5, m), 0.2)):
        many = draw(100_000)
        lower, upper = mean_limits(values := draw(50 * n), np.repeat(np.arange(50), n), 50, level)
        found = values.reshape(50, n).mean(1)
        mean = np.array([many.mean(), 1 - many.mean()])
        expected = likely_width(mean, np.full(2, many.var()), np.full(2, n), level)
        assert np.array([np.mean(found - lower), np.mean(upper - found)]) == pytest.approx(expected, rel=close)


# ---- weights


def weighted_draws(rng, runs, n, rate, law):
    z = rng.random((runs, n)) < rate
    if law == "apart":
        return z, rng.lognormal(sigma=0.7, size=z.shape)
    return z, np.where(z, 4.0, 1.0)


@pytest.mark.parametrize("law", ["apart", "with the outcome"])
def test_effective_trials_keep_the_level_where_other_sizes_break_it(law):
    """Raw counts break it under both laws, Kish's size where weights go with the outcome; 97.5 % limits, 400 rows."""
    runs, n, level = 4000, 400, 0.025
    z, w = weighted_draws(np.random.default_rng(5), runs, n, 0.1, law)
    truth = 0.1 if law == "apart" else 0.4 / 1.3
    successes, trials = effective_trials((w * z).sum(1), w.sum(1), (w**2 * z).sum(1), (w**2).sum(1))

    def errors(trials):
        lower = clopper_pearson(successes / effective * trials, trials, level, "lower")[0]
        upper = clopper_pearson(successes / effective * trials, trials, level, "upper")[1]
        return max((lower > truth).sum(), (upper < truth).sum())

    effective = trials
    kish = w.sum(1) ** 2 / (w**2).sum(1)
    allowed = most_errors(1.2 * level, runs)  # asymptotic: a fifth above the level
    assert errors(trials) <= allowed
    assert errors(np.full(runs, float(n))) > 1.2 * allowed
    if law != "apart":
        assert errors(kish) > 1.2 * allowed


def test_effective_trials_are_the_counts_without_weights_and_never_above_kish():
    x, n = np.array([0, 3, 7, 0]), np.array([7, 7, 7, 0])
    np.testing.assert_allclose(effective_trials(2 * x, 2 * n, 4 * x, 4 * n), [x, n])
    z, w = weighted_draws(np.random.default_rng(0), 500, 60, 0.5, "with the outcome")
    sums = (w * z).sum(1), w.sum(1), (w**2 * z).sum(1), (w**2).sum(1)
    successes, trials = effective_trials(*sums)
    np.testing.assert_allclose(successes / trials, sums[0] / sums[1])
    kish = sums[1] ** 2 / sums[3]
    p = sums[0] / sums[1]
    linear = p * (1 - p) / ((w * (z - p[:, None])) ** 2).sum(1) * sums[1] ** 2
    np.testing.assert_allclose(trials, np.minimum(kish, linear))
    assert (linear > kish).any()


@pytest.mark.parametrize("n", [50, 400])
def test_weighted_betting_holds_where_weights_go_with_the_outcome(n):
    runs = 1000
    z, w = weighted_draws(np.random.default_rng(n), runs, n, 0.1, "with the outcome")
    lower, upper = mean_limits(z.ravel(), cells_of(z), runs, 0.025, weights=w.ravel(), largest_weight=4.0)
    truth = 0.4 / 1.3
    assert (lower > truth).sum() <= most_errors(0.025, runs)
    assert (upper < truth).sum() <= most_errors(0.025, runs)
    plain = z.mean(1)
    assert ((lower < truth) & (upper > truth) & (upper > plain)).mean() > 0.9


def test_weighted_moments_have_the_variance_of_the_weighted_mean():
    """Over 4,000 samples whose weights go with the values; the plain variance by Kish's size is a third too small."""
    rng = np.random.default_rng(0)
    x, w = weighted_draws(rng, 4000, 200, 0.1, "with the outcome")
    mean, variance, count = moments(x.ravel(), cells_of(x), 4000, w.ravel())
    np.testing.assert_allclose(mean, np.average(x, axis=1, weights=w))
    np.testing.assert_allclose(count, w.sum(1) ** 2 / (w**2).sum(1))
    assert (variance / count).mean() == pytest.approx(mean.var(), rel=0.08)
    plain = mean * (1 - mean) / count
    assert plain.mean() < 0.7 * mean.var()


def test_effective_trials_are_those_of_the_linearised_variance():
    """p (1 - p) / v with v = sum w^2 (z - p)^2 / (sum w)^2, row by row, where that is below Kish's size."""
    rng = np.random.default_rng(4)
    below = 0
    for _ in range(50):
        w, z = rng.uniform(0.1, 4, 30), (rng.random(30) < 0.4).astype(float)
        w *= np.where(z > 0, 1.0, 5 * (rng.random(30) < 0.3) + 0.2)
        p = (w @ z) / w.sum()
        expected = p * (1 - p) * w.sum() ** 2 / (w**2 @ (z - p) ** 2)
        kish = w.sum() ** 2 / (w @ w)
        below += expected < kish
        successes, trials = effective_trials([w @ z], [w.sum()], [w**2 @ z], [w @ w])
        assert trials[0] == pytest.approx(min(expected, kish), rel=1e-12)
        assert successes[0] == pytest.approx(p * trials[0], rel=1e-12)
    assert below > 0
