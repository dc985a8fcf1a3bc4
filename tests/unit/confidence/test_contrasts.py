"""Sparse contrasts mean what their dense matrix means; formulas written out cell by cell; the search looks at few."""

import itertools

import numpy as np
import pytest
from scipy import stats

from fairbound.base.errors import DataError, OptionError
from fairbound.confidence import rows_needed as module
from fairbound.confidence.betting import mean_limits
from fairbound.confidence.contrasts import Contrasts, GapBounds, mirrored, pair_level, verdict
from fairbound.confidence.means import mean_bounds, mean_rows_needed, welch_bounds
from fairbound.confidence.rates import rate_bounds, rate_rows_needed, rate_upper_bounds, ratio_bounds
from fairbound.confidence.rows_needed import fewest_if_measured_again
from fairbound.confidence.single import clopper_pearson

PAIR = Contrasts(np.array([[0, 1], [0, 1]]), np.array([[1.0, -1.0], [-1.0, 1.0]]))


def dense(which, cells):
    c = np.zeros((len(which), cells))
    np.add.at(c, (np.arange(len(which))[:, None], which.index), which.coefficient)
    return c


def some_contrasts(rng, m, cells, terms):
    """Random contrasts with unused terms and with cells that occur twice in a row."""
    c = rng.choice([0.0, 1.0, -1.0, 0.8, -2.5], (m, terms))
    c[:, 0] = 1.0
    return rng.integers(0, cells, (m, terms)), c


@pytest.mark.parametrize("seed", range(3))
def test_sparse_contrasts_are_their_dense_matrix(seed):
    rng = np.random.default_rng(seed)
    index, c = some_contrasts(rng, 40, 5, 4)
    which = Contrasts(index, c)
    full = np.zeros((40, 5))
    np.add.at(full, (np.arange(40)[:, None], index), c)
    np.testing.assert_allclose(dense(which, 5), full, atol=1e-15)
    np.testing.assert_allclose(dense(-which, 5), -full, atol=1e-15)
    values = rng.random((3, 5))
    np.testing.assert_allclose(which.of(values), values @ full.T, atol=1e-14)
    np.testing.assert_array_equal(which.sides(5), (full > 0).any(0).astype(int) + (full < 0).any(0))
    for row in range(40):
        used = which.index[row][which.coefficient[row] != 0]
        assert len(set(used)) == len(used)
    assert not which.add_up_to_zero()
    assert PAIR.add_up_to_zero()
    assert len(which.take(np.array([3, 5]))) == 2


def f1(p):
    return 2 * p / (1 + p)


@pytest.mark.parametrize("transform", [None, f1], ids=["rates", "f1"])
@pytest.mark.parametrize("seed", range(3))
def test_bounds_are_their_formula_written_out_cell_by_cell(seed, transform):
    rng = np.random.default_rng(seed)
    which = Contrasts(*some_contrasts(rng, 20, 4, 3))
    c = dense(which, 4)
    n = rng.integers(5, 200, 4)
    x = rng.binomial(n, rng.uniform(0.2, 0.8, 4)).clip(1, n - 1)
    h = transform or (lambda p: p)
    level = 0.05 / len(c)
    low, high = stats.beta.ppf(level, x, n - x + 1), stats.beta.ppf(1 - level, x + 1, n - x)
    p = x / n
    found = rate_bounds(x, n, which, 0.05, transform)
    for sign, bounds in [(1, found.uppers), (-1, -found.lowers)]:
        for row, bound in zip(sign * c, bounds, strict=True):
            halves, apart = [0.0], {}
            for k in np.flatnonzero(row):
                ends = [abs(row[k] * (h(limit) - h(p[k]))) for limit in (high[k], low[k])]
                apart[k] = ends if row[k] > 0 else ends[::-1]
                side = 1 if row[k] > 0 else -1
                halves.append(abs(row[k] * (h(p[k] + side / (2 * n[k])) - h(p[k]))))
            if len(apart) > 2 and transform is None:
                q = (x + 1) / (n + 2)
                normal = stats.norm.ppf(1 - level) * np.sqrt(q * (1 - q) / n)
                u = {k: max(sum(ends) / 2, abs(row[k]) * normal[k]) for k, ends in apart.items()}
                r = np.sqrt(sum(size**2 for size in u.values()))
                joined = r + sum(u[k] ** 2 * (near - far) / 2 for k, (near, far) in apart.items()) / r**2
            else:
                joined = np.sqrt(sum(near**2 for near, _ in apart.values()))
            wanted = row @ h(p) + joined + max(halves)
            assert bound == pytest.approx(min(wanted, h(1.0) * np.maximum(row, 0).sum()), rel=1e-9, abs=1e-12)
    np.testing.assert_allclose(found.estimates, c @ h(p))
    assert found.value == found.estimates[found.worst] == found.estimates.max()
    assert found.lower == found.lowers.max()
    alone = [rate_bounds(x, n, which.take([i]), 0.05, transform).upper for i in range(len(which))]
    assert found.upper == max(alone) < found.uppers.max()


def test_the_level_of_pairs_solves_its_equation_and_is_for_pairs_alone():
    """k cells, k^2 / 4 far pairs, written out; two sets of cells by themselves; nothing where one order is lacking."""

    def complete(cells):
        pairs = np.array(list(itertools.permutations(cells, 2)))
        return pairs, np.tile([1.0, -1.0], (len(pairs), 1))

    for sets in ([range(2)], [range(5)], [range(3), range(3, 7)]):
        parts = [complete(cells) for cells in sets]
        which = Contrasts(*(np.concatenate(p) for p in zip(*parts, strict=True)))
        z = stats.norm.isf(pair_level(which, 0.05))
        far, pairs = sum(len(s) ** 2 // 4 for s in sets), len(which) // 2
        error = far * stats.norm.sf([z, 2 * z]).sum() + (pairs - far) * stats.norm.sf([1.25 * z, 1.75 * z]).sum()
        assert error == pytest.approx(0.05, rel=1e-9)
        assert 0.05 / len(which) < pair_level(which, 0.05) < 0.05
    index, c = complete(range(3))
    assert pair_level(Contrasts(index[:-1], c[:-1]), 0.05) is None
    assert pair_level(Contrasts(index, 0.8 * c), 0.05) is None
    assert pair_level(Contrasts(index[:, :1], c[:, :1]), 0.05) is None


def test_half_a_row_is_taken_on_the_other_side_at_the_end_of_the_range():
    """Ten of ten, F1 = 1: half a row up is not there, so the one below counts."""
    one = Contrasts(np.array([[0, 1]]), np.array([[1.0, -1.0]]))
    x, n, level = np.array([10, 40]), np.array([10, 100]), 0.05
    low = stats.beta.ppf(level, 40, 61)
    wanted = 1 - f1(0.4) + f1(0.4) - f1(low) + 1 - f1(0.95)
    assert rate_upper_bounds(x, n, one, 0.05, transform=f1)[0] == pytest.approx(min(wanted, 1.0))
    up = stats.beta.ppf(1 - level, 41, 60)
    lower = rate_upper_bounds(x, n, -one, 0.05, transform=f1)[0]
    below = 1 - f1(stats.beta.ppf(level, 10, 1))
    wanted = f1(0.4) - 1 + np.hypot(f1(up) - f1(0.4), below) + 1 - f1(0.95)
    assert lower == pytest.approx(wanted)


def test_infinite_images_make_infinite_bounds_and_never_nan():
    def odds(p):
        return p / (1 - p)

    for x in itertools.product((0, 3, 10), repeat=2):
        found = rate_bounds(x, (10, 10), PAIR, transform=odds)
        for values in (found.lowers, found.uppers):
            assert not np.isnan(values).any()
        if 10 in x:
            assert found.upper == np.inf
        assert found.lower >= 0
    empty = rate_bounds([0, 3], [0, 10], PAIR, transform=odds)
    assert (empty.lower, empty.upper, empty.verdict(0.1)) == (0.0, np.inf, "insufficient")


def test_gap_bounds_hold_the_gap_between_them_and_name_the_worst_pair():
    pairs = np.array(list(itertools.permutations(range(3), 2)))
    found = rate_bounds([10, 50, 30], [100, 200, 100], Contrasts(pairs, np.tile([1.0, -1.0], (6, 1))))
    assert found.value == pytest.approx(0.2)
    assert tuple(pairs[found.worst]) == (2, 0)
    assert 0 <= found.lower <= found.value <= found.upper <= 1
    assert (found.lowers <= found.estimates).all()
    assert (found.estimates <= found.uppers).all()


def test_an_empty_group_decides_nothing():
    found = rate_bounds([0, 5], [0, 50], PAIR)
    assert (found.lower, found.verdict(0.1)) == (0.0, "insufficient")
    assert found.upper > 0.9
    assert np.isnan(found.value)


def test_the_verdict_reads_its_bounds():
    assert verdict(0.0, 0.02, 0.02) == "met"
    assert verdict(0.021, 0.05, 0.02) == "violated"
    assert verdict(0.02, 0.05, 0.02) == "insufficient"
    assert verdict(float("nan"), float("nan"), 0.02) == "insufficient"
    none = np.zeros(0)
    ratio = GapBounds(0.8, 0.7, 0.9, 0, none, none, none, "at least")
    assert [ratio.verdict(b) for b in (0.7, 0.71, 0.9, 0.91)] == ["met", "insufficient", "insufficient", "violated"]


@pytest.mark.parametrize("seed", range(8))
def test_the_search_by_witnesses_finds_what_the_search_over_all_finds(seed, monkeypatch):
    """Contrasts whose bounds cross, so that the deciding one changes with n; 2 witnesses at a time."""
    rng = np.random.default_rng(seed)
    m = 60
    which = Contrasts(np.arange(m)[:, None], np.ones((m, 1)))
    estimates, width = rng.uniform(-0.2, 0.3, m), rng.lognormal(0, 2, m)

    def upper(some, n, together):
        assert together in (1, m)
        sign = np.sign(some.coefficient[:, 0])
        return sign * estimates[some.index[:, 0]] + width[some.index[:, 0]] / np.sqrt(n)

    for bound in (0.35, 0.301, 0.2, -0.1):
        rows = (width / (bound - estimates)) ** 2
        met = estimates.max() < bound
        wanted = np.ceil(rows.max()) if met else np.floor(rows[estimates > bound].min()) + 1
        for few in (2, 64):
            monkeypatch.setattr(module, "WITNESSES", few)
            assert fewest_if_measured_again(which, estimates, bound, upper) == wanted


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: Contrasts(np.array([[0, 1]]), np.array([[1.0]])), DataError, "one shape"),
        (lambda: Contrasts(np.array([[0.0, 1.0]]), np.array([[1.0, -1.0]])), DataError, "integers"),
        (lambda: Contrasts(np.zeros((0, 2), int), np.zeros((0, 2))), DataError, "one shape"),
        (lambda: Contrasts(np.array([[0, -1]]), np.array([[1.0, -1.0]])), DataError, "from 0"),
        (lambda: Contrasts(np.array([[0, 1]]), np.array([[1.0, np.nan]])), DataError, "finite"),
        (lambda: rate_bounds([1], [4], PAIR), DataError, "uses cell 1"),
        (lambda: rate_bounds([1, 2], [4, 5], PAIR, 0.7), OptionError, "alpha"),
        (lambda: clopper_pearson(3, 2), DataError, "between 0 and counts"),
        (lambda: clopper_pearson(np.nan, 2), DataError, "between 0 and counts"),
        (lambda: clopper_pearson([1, 2, 3], [4, 5]), DataError, "broadcast"),
        (lambda: clopper_pearson(1, 2, 0.0), OptionError, "alpha"),
        (lambda: clopper_pearson(1, 2, 0.05, "both"), OptionError, "side"),
        (lambda: ratio_bounds([1, 2], [4, 5], [[0, 2]]), DataError, "cells from 0 to 1"),
        (lambda: ratio_bounds([1, 2], [4, 5], [0, 1]), DataError, "integers"),
        (lambda: rate_rows_needed([0.1, 1.2], [0.5, 0.5], PAIR, 0.1), DataError, "rates"),
        (lambda: rate_rows_needed([0.1, np.nan], [0.5, 0.5], PAIR, 0.1), DataError, "finite"),
        (lambda: mean_limits([0.1, 1.2], [0, 0], 1, 0.05), DataError, "1 of 2 values"),
        (lambda: mean_limits([0.1, 0.2], [0, 1], 1, 0.05), DataError, "cells"),
        (lambda: mean_limits([0.1, 0.2], [0], 1, 0.05), DataError, "values, cells"),
        (lambda: mean_limits([0.1], [0], 1, 0.05, weights=[-1]), DataError, "non-negative"),
        (lambda: mean_limits([0.1], [0], 1, 0.05, weights=[2], largest_weight=1), DataError, "largest_weight"),
        (lambda: mean_limits([0.1], [0], 1, 0.05, 1, 0), OptionError, "low < high"),
        (lambda: mean_bounds([0.1], [0], 1, PAIR, low=0, high=1), DataError, "uses cell 1"),
        (lambda: welch_bounds([0.1, 0.2], [0.1], [5, 5], PAIR), DataError, "variances"),
        (lambda: mean_rows_needed([1, 2], [1, 1], [0.5, 0.5], PAIR, 0.1, low=0), OptionError, "low < high"),
    ],
)
def test_wrong_use_is_refused_with_a_reason(call, error, says):
    with pytest.raises(error, match=says):
        call()


@pytest.mark.parametrize("alpha", [0.1, 0.01])
def test_clopper_pearson_equals_scipy(alpha):
    for x, n in [(0, 7), (3, 7), (7, 7), (1, 400), (390, 400)]:
        ci = stats.binomtest(x, n).proportion_ci(1 - alpha, method="exact")
        np.testing.assert_allclose(clopper_pearson(x, n, alpha), [ci.low, ci.high], rtol=1e-9, atol=1e-12)
        for side, alternative, end in [("lower", "greater", 0), ("upper", "less", 1)]:
            one = stats.binomtest(x, n, alternative=alternative).proportion_ci(1 - alpha, method="exact")
            np.testing.assert_allclose(clopper_pearson(x, n, alpha, side)[end], one[end], rtol=1e-9, atol=1e-12)
            assert clopper_pearson(x, n, alpha, side)[1 - end] == 1 - end
    assert [float(b) for b in clopper_pearson(0, 0)] == [0.0, 1.0]


@pytest.mark.parametrize(("cells", "terms", "size"), [(4, 2, 60), (3, 3, 200), (2, 1, 9), (6, 4, 300)])
def test_mirrored_sums_are_those_of_the_other_sign_that_came_before(cells, terms, size):
    rng = np.random.default_rng(cells)
    index, coefficient = rng.integers(0, cells, (size, terms)), rng.choice([-1.0, 0.0, 0.5, 1.0], (size, terms))
    index[:, 1:][(index[:, 1:] == index[:, :-1])] += cells  # no cell twice, as `Contrasts` has none
    found, first, want = mirrored(index, coefficient), {}, {}
    for i, row in enumerate(zip(index.tolist(), coefficient.tolist(), strict=True)):
        own = sorted((k, c) for k, c in zip(*row, strict=True) if c)
        first.setdefault(tuple(own), i)
        if (other := first.get(tuple((k, -c) for k, c in own))) is not None:
            want[i] = other
    assert found == want and len(found) > 1
