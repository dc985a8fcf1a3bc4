"""Bounds of contrasts and ratios of rates keep their promises: coverage by enumerating binomials, else by simulation."""

import itertools

import numpy as np
import pytest
from scipy import special, stats

from fairbound.confidence.contrasts import Contrasts
from fairbound.confidence.rates import (
    largest_lower,
    rate_bounds,
    rate_rows_needed,
    rate_upper_bounds,
    ratio_bounds,
    share_bounds,
    share_rows_needed,
)
from fairbound.confidence.rows_needed import _first
from fairbound.confidence.single import clopper_pearson

RATES = (0.02, 0.1, 0.3, 0.5)
HIGH_RATES = (0.02, 0.1, 0.3, 0.5, 0.7, 0.9)
SIZES = {200: ((100, 100), (20, 180), (180, 20)), 2000: ((1000, 1000), (200, 1800), (1800, 200))}
TAIL = 1e-9  # probability left out at each end of an enumeration


def contrasts(*rows):
    """Contrasts from a dense matrix."""
    c = np.array(rows, dtype=float)
    return Contrasts(np.tile(np.arange(c.shape[1]), (len(c), 1)), c)


def pairwise(k):
    a, b = np.array(list(itertools.permutations(range(k), 2))).T
    return Contrasts(np.stack([a, b], 1), np.tile([1.0, -1.0], (len(a), 1)))


PAIR = pairwise(2)
ONE = contrasts([1, -1])


def f1(p):
    return 2 * p / (1 + p)


def odds(p):
    return p / (1 - p)


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


def coverage(which, sizes, rates, alpha, **options):
    """Exact probability that all contrasts are covered."""
    x, w = all_pairs(sizes, rates)
    transform = options.get("transform") or (lambda p: p)
    upper = rate_upper_bounds(x, sizes, which, alpha, **options)
    return w @ covers(upper, which.of(transform(np.asarray(rates)))).all(1)


# ---- one rate


@pytest.mark.parametrize("n", [1, 2, 20, 200, 2000, 20000])
@pytest.mark.parametrize("side", ["lower", "upper", "two-sided"])
def test_clopper_pearson_never_falls_below_nominal(n, side):
    grid = np.concatenate([RATES, np.linspace(0.0005, 0.9995, 61 if n <= 200 else 9)])
    for alpha, p in itertools.product((0.05, 0.005), grid):
        x, w = outcomes(n, p)
        lower, upper = clopper_pearson(x, n, alpha, side)
        assert w @ ((lower <= p) & (p <= upper)) >= 1 - alpha - 4 * TAIL, (p, alpha)


# ---- contrasts of two rates


@pytest.mark.parametrize(
    "sizes", [*SIZES[200], *(pytest.param(sizes, marks=pytest.mark.long) for sizes in SIZES[2000][:2])], ids=str
)
def test_difference_of_two_rates_covers_by_enumeration(sizes):
    """At n = 200 and 2,000 in all, split 50/50, 10/90 and 90/10: no noise, so nominal or better but for TAIL."""
    for rates in itertools.product(RATES, RATES):
        for which, alpha in [(PAIR, 0.05), (ONE, 0.005)]:
            assert coverage(which, sizes, rates, alpha) >= 1 - alpha - 8 * TAIL, (rates, alpha)


@pytest.mark.parametrize("sizes", [(20, 20), (20, 180), pytest.param((180, 20), marks=pytest.mark.long)], ids=str)
@pytest.mark.parametrize(
    ("which", "transform"),
    [
        (contrasts([0.8, -1]), None),
        (contrasts([-0.8, 1]), None),
        (ONE, f1),
        (contrasts([-1, 1]), f1),
        (ONE, odds),
        (contrasts([-1, 1]), odds),
    ],
    ids=["0.8 b - a", "a - 0.8 b", "f1", "-f1", "odds", "-odds"],
)
def test_four_fifths_f1_and_odds_cover_by_enumeration(sizes, which, transform):
    for rates in itertools.product(HIGH_RATES, HIGH_RATES):
        found = coverage(which, sizes, rates, 0.025, transform=transform)
        assert found >= 0.975 - 8 * TAIL, (rates, found)


@pytest.mark.long
@pytest.mark.parametrize("sizes", [*SIZES[200], *SIZES[2000], (2000, 18000), (50, 50), (20, 20)], ids=str)
@pytest.mark.parametrize("alpha", [0.1, 0.05, 0.025, 0.05 / 6, 0.0025])
def test_difference_covers_on_a_finer_grid_and_at_corrected_levels(sizes, alpha):
    """Enumerated over rates in [0.005, 0.5] at the levels that a correction for up to 20 comparisons leads to."""
    for rates in itertools.product((0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5), repeat=2):
        assert coverage(ONE, sizes, rates, alpha) >= 1 - alpha - 8 * TAIL, rates


@pytest.mark.long
@pytest.mark.parametrize("sizes", [*SIZES[200], *SIZES[2000], (50, 50), (20, 20)], ids=str)
@pytest.mark.parametrize("alpha", [0.1, 0.05, 0.025, 0.0025])
def test_other_contrasts_cover_on_a_finer_grid(sizes, alpha):
    grid = (0.02, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9)
    for rates in itertools.product(grid, grid):
        for which, transform in [
            (contrasts([0.8, -1]), None),
            (contrasts([-0.8, 1]), None),
            (ONE, f1),
            (ONE, odds),
        ]:
            assert coverage(which, sizes, rates, alpha, transform=transform) >= 1 - alpha - 8 * TAIL, rates


def test_the_term_of_half_a_row_is_needed_and_so_is_its_half():
    """Without it the bound falls short at 180 and 20 rows, and so it does with half of it: the reason for its size."""
    for rates, alpha, kept in [((0.3, 0.02), 0.025, 0.0), ((0.4, 0.02), 0.0025, 0.5)]:
        sizes = (180, 20)
        x, w = all_pairs(sizes, rates)
        upper = rate_upper_bounds(x, sizes, ONE, alpha)[:, 0]
        truth = rates[0] - rates[1]
        assert w @ covers(upper, truth) >= 1 - alpha
        assert w @ covers(upper - (1 - kept) * 0.5 / 20, truth) < 1 - alpha


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("cells", "size"), [(3, 5), (10, 3), (10, 5), pytest.param(10, 8, marks=pytest.mark.long)])
def test_the_mean_of_many_rates_covers_by_enumeration(cells, size, sign):
    """All ways of so many cells to have 0, 1, ... successes; cells that have equally many are alike."""
    bars = np.array(list(itertools.combinations(range(cells + size), size)))
    ends = np.pad(bars, ((0, 0), (1, 1)), constant_values=((0, 0), (-1, cells + size)))
    counts = np.diff(ends, axis=1) - 1
    x = np.array([np.repeat(np.arange(size + 1), row) for row in counts])
    ways = special.gammaln(cells + 1) - special.gammaln(counts + 1).sum(1)
    which = contrasts([sign / cells] * cells)
    for p, alpha in itertools.product((*HIGH_RATES, 0.8, 0.98), (0.05, 0.01, 0.0025)):
        w = np.exp(ways + counts @ stats.binom.logpmf(np.arange(size + 1), size, p))
        upper = rate_upper_bounds(x, np.full(cells, size), which, alpha)[:, 0]
        assert w.sum() == pytest.approx(1) and w @ covers(upper, sign * p) >= 1 - alpha, (p, alpha)


@pytest.mark.parametrize(
    ("classes", "sizes", "rates"),
    [(26, (20, 400), (0.9, 0.8)), (26, (400, 20), (0.99, 0.9)), (10, (10, 100), (0.9, 0.8)), (30, (20, 20), (0.99, 0.01))],
)  # fmt: skip
def test_the_difference_of_mean_rates_of_many_classes_covers(classes, sizes, rates):
    """By simulation, at most three standard errors below."""
    n, p = np.repeat(sizes, classes), np.repeat(rates, classes)
    x = np.random.default_rng(0).binomial(n, p, size=(5000, 2 * classes))
    for sign, alpha in itertools.product((1, -1), (0.05, 0.01)):
        which = contrasts(sign * np.repeat([1.0, -1.0], classes) / classes)
        held = covers(rate_upper_bounds(x, n, which, alpha)[:, 0], sign * (rates[0] - rates[1])).mean()
        assert held >= 1 - alpha - 3 * np.sqrt(alpha * (1 - alpha) / len(x)), (sign, alpha, held)


@pytest.mark.parametrize("total", [200, 2000, 20000])
def test_many_groups_and_compound_gaps_cover(total):
    """Pairs of four groups, groups against the overall rate, and equalised odds as a sum, by simulation."""
    shares = np.array([0.1, 0.2, 0.3, 0.4])
    sizes = (total * shares).astype(int)
    against = np.eye(4) - shares
    signs = [[s, -s, t, -t] for s in (1, -1) for t in (1, -1)]
    draws, alpha = 4000, 0.05
    for rates, which in itertools.product(
        [(0.02, 0.1, 0.3, 0.5), (0.1, 0.1, 0.1, 0.1), (0.5, 0.5, 0.02, 0.3)],
        [pairwise(4), contrasts(*against, *-against), contrasts(*signs)],
    ):
        x = np.random.default_rng(0).binomial(sizes, rates, size=(draws, 4))
        upper = rate_upper_bounds(x, sizes, which, alpha)
        held = covers(upper, which.of(np.asarray(rates))).all(1).mean()
        assert held >= 1 - alpha - 3 * np.sqrt(alpha * (1 - alpha) / draws), (rates, held)


@pytest.mark.parametrize("sizes", [(20, 180), (200, 1800)], ids=str)
def test_a_verdict_is_wrong_with_probability_at_most_alpha(sizes):
    """Truth on the bound: "violated" is wrong; truth just above it: "met" is wrong. Each at most 5 % of the time."""
    for rates in [(0.1, 0.1), (0.3, 0.1), (0.1, 0.3), (0.5, 0.02)]:
        gap = abs(rates[0] - rates[1])
        x, w = all_pairs(sizes, rates)
        upper = np.stack([rate_upper_bounds(x, sizes, PAIR.take([i]))[:, 0] for i in range(2)]).max(0)
        lower = np.maximum(largest_lower(x, sizes, PAIR), 0)
        assert w @ (lower > gap) <= 0.05
        assert w @ (upper < gap - 1e-12) <= 0.05
        for i in range(0, len(x), len(x) // 5):
            bounds = rate_bounds(x[i], sizes, PAIR)
            np.testing.assert_allclose([bounds.lower, bounds.upper], [lower[i], upper[i]], rtol=1e-12)


@pytest.mark.parametrize(
    ("sizes", "alpha"),
    [
        *(((50, 50), alpha) for alpha in (0.05, 0.01)),
        *(((20, 180), alpha) for alpha in (0.05, 0.01)),
        pytest.param((200, 1800), 0.05, marks=pytest.mark.long),
    ],
)
def test_the_lower_bound_of_a_gap_holds_without_half_of_the_error_for_each_order(sizes, alpha):
    """By enumeration, from equal rates, where both orders may break it, to far ones; and sharper than Bonferroni where it decides."""
    sharper = 0
    for rates in itertools.product((0.02, 0.1, 0.3, 0.5, 0.8), repeat=2):
        x, w = all_pairs(sizes, rates)
        lower, plain = largest_lower(x, sizes, PAIR, alpha), -rate_upper_bounds(x, sizes, -PAIR, alpha).min(1)
        assert w @ (lower > abs(rates[0] - rates[1]) + 1e-12) <= alpha
        assert (lower >= plain).all()
        sharper += (lower > plain).mean()
    assert sharper > 5  # of 25 laws, by share of outcomes


def test_the_lower_bound_of_many_pairs_holds():
    """Groups at two ends, the case in which most pairs come near the bound; three standard errors of 5,000 draws."""
    for rates in [(0.3, 0.4), (0.3, 0.3, 0.4, 0.4), (0.3, 0.35, 0.4), (0.2,) * 5, (0.3, 0.3, 0.3, 0.4, 0.4, 0.4)]:
        k = len(rates)
        x = np.random.default_rng(k).binomial(400, rates, size=(5000, k))
        wrong = (largest_lower(x, np.full(k, 400), pairwise(k)) > max(rates) - min(rates) + 1e-12).mean()
        assert wrong <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 5000), (rates, wrong)


# ---- ratios


@pytest.mark.parametrize("seed", range(3))
def test_ratio_bounds_give_the_verdict_of_their_contrasts(seed):
    """At any stated ratio, and just on either side of each bound."""
    rng = np.random.default_rng(seed)
    pair = np.array([[0, 1]])
    for _ in range(80):
        n = rng.integers(1, 200, 2)
        x = rng.binomial(n, rng.random(2))
        found = ratio_bounds(x, n, pair)
        ends = [v for v in (found.lower, found.upper) if 0 < v < np.inf]
        for tau in [0.5, 0.8, 1.0, 1.3, *(v * (1 + e) for v in ends for e in (-1e-9, 1e-9))]:
            linear = rate_bounds(x, n, Contrasts(pair[:, ::-1], np.array([[tau, -1.0]])))
            assert linear.verdict(0.0) == found.verdict(tau), (x, n, tau)


def test_ratio_bounds_of_many_pairs_give_the_verdict_of_all_their_contrasts():
    """Three groups, all ordered pairs, at and around each bound up to 1: the level is shared in the same way."""
    rng = np.random.default_rng(0)
    pairs = np.array(list(itertools.permutations(range(3), 2)))
    for _ in range(100):
        n = rng.integers(20, 2000, 3)
        x = rng.binomial(n, rng.uniform(0.1, 0.9, 3))
        found = ratio_bounds(x, n, pairs)
        for tau in [0.8, *(v * (1 + e) for v in (found.lower, found.upper) for e in (-1e-9, 1e-9) if 0 < v < 1)]:
            linear = rate_bounds(x, n, Contrasts(pairs[:, ::-1], np.tile([tau, -1.0], (6, 1))))
            assert linear.verdict(0.0) == found.verdict(tau), (x, n, tau)


@pytest.mark.parametrize("sizes", [(20, 20), (15, 60), pytest.param((20, 180), marks=pytest.mark.long)], ids=str)
def test_ratio_bounds_cover_by_enumeration(sizes):
    for rates in [(0.1, 0.1), (0.3, 0.1), (0.1, 0.7), (0.7, 0.3)]:
        x, w = all_pairs(sizes, rates)
        found = [ratio_bounds(v, sizes, np.array([[0, 1]])) for v in x]
        truth = rates[0] / rates[1]
        assert w @ np.array([b.lower <= truth + 1e-12 for b in found]) >= 0.95 - 8 * TAIL, rates
        assert w @ np.array([b.upper >= truth - 1e-12 for b in found]) >= 0.95 - 8 * TAIL, rates


def test_the_smallest_ratio_over_both_orders_is_at_most_one():
    both = np.array([[0, 1], [1, 0], [0, 2], [2, 0], [1, 2], [2, 1]])
    found = ratio_bounds([80, 50, 0], [100, 100, 0], both)
    assert found.value == pytest.approx(5 / 8)
    assert tuple(both[found.worst]) == (1, 0)
    assert (found.lower, found.upper) == (0.0, pytest.approx(found.uppers[1]))  # a cell without rows decides nothing
    assert ratio_bounds([50, 50], [100, 100], both[:2]).upper == 1.0
    assert ratio_bounds([50, 50], [100, 100], both[:1]).upper > 1.0
    assert ratio_bounds([0, 0], [10, 10], both[:1]).verdict(0.8) == "insufficient"


# ---- rows needed


@pytest.mark.parametrize(
    ("which", "options"),
    [(PAIR, {}), (contrasts([0.8, -1], [-1, 0.8]), {}), (PAIR, {"transform": f1})],
    ids=["rates", "0.8", "f1"],
)
def test_rows_needed_is_the_first_number_that_decides(which, options):
    """If the same is measured again: where one contrast alone is near the bound that is as likely as not."""
    rates, shares = np.array([0.32, 0.11]), np.array([0.1, 0.9])
    value = float(which.of(options.get("transform", lambda p: p)(rates)).max())
    for bound in (value + 0.02, value - 0.008):
        n = rate_rows_needed(rates, shares, which, bound, **options)
        for rows, decided in [(n, True), (n - 1, False), (2 * n, True)]:
            found = rate_bounds(rates * rows * shares, rows * shares, which, **options).verdict(bound)
            assert (found == ("met" if bound > value else "violated")) is decided


def test_the_rows_needed_of_one_rate_are_the_first_number_that_decides():
    for bound in (0.7, 0.85):
        n = share_rows_needed(0.8, 0.5, bound, 0.05)
        for rows, decided in [(n, True), (n - 1, False), (2 * n, True)]:
            found = share_bounds(0.8 * rows * 0.5, rows * 0.5, 0.05).verdict(bound)
            assert (found == ("violated" if bound < 0.8 else "met")) is decided


def test_rows_needed_grows_towards_the_bound_and_with_certainty():
    rates, shares = [0.12, 0.11], [0.1, 0.9]
    below = [rate_rows_needed(rates, shares, PAIR, b) for b in (0.2, 0.1, 0.05, 0.02, 0.0101)]
    above = [rate_rows_needed(rates, shares, PAIR, b) for b in (0.0, 0.005, 0.009, 0.0099)]
    certain = [rate_rows_needed(rates, shares, PAIR, 0.05, alpha) for alpha in (0.2, 0.05, 0.01, 0.0001)]
    for series in (below, above, certain):
        assert all(isinstance(n, int) for n in series)
        assert series == sorted(set(series))


def test_rows_needed_is_none_where_no_number_decides():
    assert rate_rows_needed([0.12, 0.11], [0.5, 0.5], PAIR, 0.12 - 0.11) is None
    assert rate_rows_needed([0.12, 0.11], [0.5, 0.5], PAIR, 0.01 + 1e-9) is None
    assert rate_rows_needed([0.1, 0.1], [0.5, 0.5], PAIR, 0.0) is None
    assert rate_rows_needed([0.1, 0.3], [1.0, 0.0], PAIR, 0.05) is None
    assert rate_rows_needed([1.0, 0.3], [0.5, 0.5], PAIR, 0.05, transform=odds) is None


def test_the_least_number_is_found_wherever_it_lies():
    for low in (0, 1, 3):
        for least in range(low + 1, 70):
            assert _first(lambda n, least=least: n >= least, low, 64) == (least if least <= 64 else None)
