"""The synthetic problem's frontier against brute force, a linear program, numeric integration and simulation."""

import numpy as np
import pytest
from scipy import sparse
from scipy.integrate import quad
from scipy.optimize import linprog
from scipy.stats import norm

from fairbound.base.errors import OptionError
from fairbound.data import GaussianParity

TWO = GaussianParity()
UNEVEN = GaussianParity(proportions=(0.2, 0.8), base_rates=(0.3, 0.6), centres=(0.5, -0.4), separations=(1.2, 2.5))
THREE = GaussianParity(
    proportions=(0.5, 0.3, 0.2), base_rates=(0.6, 0.4, 0.25), centres=(0.4, 0.0, -0.5), separations=(2.0, 1.5, 2.5)
)
DELTAS = (0.0, 0.01, 0.05, 0.1, 0.2)
PEAK = norm.pdf(0)  # no density here exceeds that of N(0, 1) at its mean


def density(problem, k, y, s):
    return norm.pdf(s, problem.centres[k] + (y - 0.5) * problem.separations[k])


def cells(problem, h):
    """Edges, and for each group the probability of (y = 0, cell) and (y = 1, cell)."""
    edges = np.concatenate([[-np.inf], np.arange(-8, 8 + h / 2, h), [np.inf]])
    mass = []
    for p, q, m, d in zip(problem.proportions, problem.base_rates, problem.centres, problem.separations, strict=True):
        negative, positive = np.diff(norm.cdf(edges - m + d / 2)), np.diff(norm.cdf(edges - m - d / 2))
        mass.append((p * (1 - q) * negative, p * q * positive))
    return edges, mass


def lp_frontier(problem, delta, h, aware):
    """The best accuracy of a randomised rule that sees only the cell of s (and the group, if aware): a lower bound."""
    _, mass = cells(problem, h)
    n, G = len(mass[0][0]), problem.groups
    gain = [positive - negative for negative, positive in mass]
    rate = [(negative + positive) / p for (negative, positive), p in zip(mass, problem.proportions, strict=True)]
    columns = G if aware else 1
    cost = np.concatenate(gain) if aware else np.sum(gain, axis=0)
    rows = []
    for i in range(G):
        for j in range(G):
            if i != j:
                block = [sparse.csr_matrix((1, n)) for _ in range(columns)]
                block[i if aware else 0] = block[i if aware else 0] + sparse.csr_matrix(rate[i])
                block[j if aware else 0] = block[j if aware else 0] - sparse.csr_matrix(rate[j])
                rows.append(sparse.hstack(block))
    solved = linprog(-cost, A_ub=sparse.vstack(rows), b_ub=np.full(len(rows), delta), bounds=(0, 1))
    return sum(negative.sum() for negative, _ in mass) - solved.fun


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize(
    ("problem", "aware"), [(TWO, True), (UNEVEN, True), (THREE, True), (TWO, False), (UNEVEN, False)]
)
def test_frontier_is_the_limit_of_linear_programs(problem, aware, delta):
    """The program's rules are a subset of all rules, so it cannot win. Conversely, moving each end of the optimal
    regions of a bound delta - e to the grid moves it by h/2 at most, hence each rate by PEAK * h/2 per end and the
    accuracy too: feasible for e = PEAK * h * ends."""
    h = 0.02
    point = problem.frontier(delta, aware=aware)
    ends = 1 if aware else sum(np.isfinite(region).sum() for region in point.regions) + 1
    program = lp_frontier(problem, delta, h, aware)
    assert program <= point.accuracy + 1e-7
    slack = PEAK * h * ends
    if delta >= slack:
        assert program >= problem.frontier(delta - slack, aware=aware).accuracy - slack / 2 - 1e-7
    else:
        assert program >= point.accuracy - slack * (1 + point.shift)


@pytest.mark.parametrize("problem", [TWO, UNEVEN])
@pytest.mark.parametrize("delta", [0.02, 0.1])
def test_frontier_against_a_grid_of_threshold_pairs(problem, delta):
    h = 0.01
    grid = np.arange(-4, 4, h)
    rates, correct = [], []
    for p, q, m, d in zip(problem.proportions, problem.base_rates, problem.centres, problem.separations, strict=True):
        negative, positive = norm.sf(grid - m + d / 2), norm.sf(grid - m - d / 2)
        rates.append(q * positive + (1 - q) * negative)
        correct.append(p * (q * positive + (1 - q) * (1 - negative)))
    feasible = np.abs(rates[0][:, None] - rates[1][None, :]) <= delta
    best = np.where(feasible, correct[0][:, None] + correct[1][None, :], 0).max()
    assert best <= problem.frontier(delta).accuracy + 1e-12
    # Rounding both thresholds moves each by h/2 at most: see the linear program above, with one end per group.
    assert best >= problem.frontier(delta - PEAK * h).accuracy - PEAK * h / 2


@pytest.mark.parametrize("problem", [TWO, UNEVEN, THREE])
def test_accuracy_and_rates_against_numeric_integration(problem):
    point = problem.frontier(0.05)
    accuracy = 0.0
    for k, t in enumerate(point.thresholds):
        p, q = problem.proportions[k], problem.base_rates[k]
        hit, false = (quad(lambda s, k=k, y=y: density(problem, k, y, s), t, 15)[0] for y in (1, 0))
        miss_right = quad(lambda s, k=k: density(problem, k, 0, s), -15, t)[0]
        accuracy += p * (q * hit + (1 - q) * miss_right)
        assert q * hit + (1 - q) * false == pytest.approx(point.rates[k], abs=1e-7)
    assert accuracy == pytest.approx(point.accuracy, abs=1e-7)


def test_blind_regions_against_numeric_integration():
    point = UNEVEN.frontier(0.02, aware=False)
    accuracy, rates = 0.0, [0.0, 0.0]
    for k, (p, q) in enumerate(zip(UNEVEN.proportions, UNEVEN.base_rates, strict=True)):
        hit, false = (
            sum(
                quad(lambda s, k=k, y=y: density(UNEVEN, k, y, s), max(a, -15), min(b, 15))[0] for a, b in point.regions
            )
            for y in (1, 0)
        )
        accuracy += p * (q * hit + (1 - q) * (1 - false))
        rates[k] = q * hit + (1 - q) * false
    assert accuracy == pytest.approx(point.accuracy, abs=1e-7)
    assert rates == pytest.approx(point.rates, abs=1e-7)


@pytest.mark.parametrize("aware", [True, False])
def test_the_bound_binds_exactly_and_the_price_is_the_slope(aware):
    free = UNEVEN.frontier(1.0, aware=aware)
    assert free.shift == 0
    for delta in (0.01, 0.05, 0.9 * free.disparity):
        point = UNEVEN.frontier(delta, aware=aware)
        assert point.disparity == pytest.approx(delta, abs=1e-10)
        e = 1e-4
        above, below = (UNEVEN.frontier(delta + sign * e, aware=aware).accuracy for sign in (1, -1))
        # Central difference: error e**2 / 6 times the third derivative, and 1e-10 / e of rounding.
        assert (above - below) / (2 * e) == pytest.approx(point.shift, abs=2e-5)
    assert UNEVEN.frontier(free.disparity + 1e-6, aware=aware).accuracy == pytest.approx(free.accuracy, abs=1e-12)


@pytest.mark.parametrize("aware", [True, False])
@pytest.mark.parametrize("problem", [TWO, UNEVEN])
def test_frontier_rises_and_is_concave(problem, aware):
    accuracy = np.array([problem.frontier(d, aware=aware).accuracy for d in np.linspace(0, 0.5, 26)])
    assert (np.diff(accuracy) >= -1e-12).all() and (np.diff(accuracy, 2) <= 1e-9).all()
    if not aware:
        informed = [problem.frontier(d).accuracy for d in np.linspace(0, 0.5, 26)]
        assert (accuracy <= np.array(informed) + 1e-12).all()


@pytest.mark.parametrize("seed", range(5))
def test_simulation_agrees_within_standard_errors(seed):
    n = 200_000
    data = THREE.sample(n, seed)
    group = data.sensitive["group"].astype(int)
    point = THREE.frontier(0.05)
    chosen = data.X[:, 0] > np.array(point.thresholds)[group]
    assert abs((chosen == data.y).mean() - point.accuracy) < 5 * np.sqrt(point.accuracy * (1 - point.accuracy) / n)
    for k in range(3):
        size = (group == k).sum()
        assert abs(size / n - THREE.proportions[k]) < 5 * np.sqrt(0.25 / n)
        assert abs(data.y[group == k].mean() - THREE.base_rates[k]) < 5 * np.sqrt(0.25 / size)
        assert abs(chosen[group == k].mean() - point.rates[k]) < 5 * np.sqrt(0.25 / size)


def test_a_linear_model_reaches_the_unconstrained_optimum():
    from sklearn.linear_model import LogisticRegression

    train, held = TWO.sample(20_000, 0), TWO.sample(200_000, 1)
    reached = LogisticRegression(C=1e4).fit(train.X, train.y).score(held.X, held.y)
    best = TWO.frontier(1.0).accuracy
    error = np.sqrt(best * (1 - best) / 200_000)
    # The excess risk of 7 fitted weights is of order 7 / 20,000, well below five standard errors (0.004).
    assert abs(reached - best) < 5 * error


def test_samples_repeat_and_can_hide_the_group():
    a, b, c = TWO.sample(50, 3), TWO.sample(50, 3), TWO.sample(50, 4)
    assert np.array_equal(a.X, b.X) and not np.array_equal(a.X, c.X)
    assert a.feature_names == ("signal", "noise_1", "noise_2", "noise_3", "noise_4", "group=1")
    hidden = TWO.sample(50, 3, group_features=False)
    assert np.array_equal(a.without("group").X, hidden.X)
    assert np.array_equal(a.X[:, -1] == 1, a.sensitive["group"] == "1")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: GaussianParity(proportions=(0.5, 0.4)), "sum 1"),
        (lambda: GaussianParity(proportions=(1.0,)), "one value per group"),
        (lambda: GaussianParity(base_rates=(0.5, 1.0)), "base_rates"),
        (lambda: GaussianParity(separations=(0.0, 1.0)), "separations"),
        (lambda: GaussianParity(centres=(0.0, 99.0)), "centres"),
        (lambda: GaussianParity(nuisance=-1), "nuisance"),
        (lambda: TWO.frontier(-0.1), "delta"),
        (lambda: TWO.frontier(1.1), "delta"),
        (lambda: THREE.frontier(0.1, aware=False), "two groups"),
        (lambda: TWO.sample(0, 0), "n must be"),
        (lambda: TWO.evaluate((0.0,)), "2 groups need"),
    ],
)
def test_wrong_options_are_named(make, words):
    with pytest.raises(OptionError, match=words):
        make()
