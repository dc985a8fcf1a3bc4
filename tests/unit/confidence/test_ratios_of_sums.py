"""Bounds of ratios of sums over clusters: against the jackknife written out, against means, and how often they err."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fairbound.base.errors import DataError
from fairbound.confidence.contrasts import Contrasts
from fairbound.confidence.ratios_of_sums import ratio_of_sums_bounds

ONE = Contrasts(np.array([[0]]), np.array([[1.0]]))
GAP = Contrasts(np.array([[0, 1], [1, 0]]), np.array([[1.0, -1.0]] * 2))


def some_clusters(rng, q, p=(0.6, 0.6), spread=4.0, rho=8.0):
    """(q, 2) wins and pairs of q clusters of unlike size, whose shares vary around p by a Beta distribution."""
    d = rng.poisson(np.exp(rng.normal(1.5, 0.8, (q, 2))) * spread / 4).astype(float)
    share = np.stack([rng.beta(rho * pi, rho * (1 - pi), q) for pi in p], 1)
    return rng.binomial(d.astype(int), share).astype(float), d


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("contrasts", [ONE, GAP])
def test_the_width_is_that_of_the_jackknife_written_out(seed, contrasts):
    u, d = some_clusters(np.random.default_rng(seed), 60)
    found = ratio_of_sums_bounds(u, d, contrasts, 0.1, low=0.0, high=1.0)
    ratio = u.sum(0) / d.sum(0)
    np.testing.assert_allclose(found.estimates, (contrasts.coefficient * ratio[contrasts.index]).sum(1), atol=1e-12)
    mean = d.sum(0) / (d > 0).sum(0)
    u, d = np.vstack([u, 0 * mean, mean]), np.vstack([d, mean, mean])
    # each ratio moves by the clusters that it has; of n clusters the jackknife's variance is (n - 1) / n sum (moved)^2
    n = (d > 0).sum(0)
    moved = np.zeros(d.shape)
    for q in range(len(d)):
        for k in range(2):
            if d[q, k] > 0:
                rest = [i for i in range(len(d)) if i != q]
                moved[q, k] = u[rest, k].sum() / d[rest, k].sum() - u[:, k].sum() / d[:, k].sum()
    moved *= np.sqrt((n - 1) / n)
    error = np.sqrt(((contrasts.coefficient * moved[:, contrasts.index]).sum(-1) ** 2).sum(0))
    freedom = ((d**2).sum(0) ** 2 / (d**4).sum(0))[contrasts.index].min(1) - 1
    theta, total = u.sum(0) / d.sum(0), d.sum(0)
    for i, (index, c) in enumerate(zip(contrasts.index, contrasts.coefficient, strict=True)):
        e = [(u[:, k] - theta[k] * d[:, k]) / total[k] for k in index]
        w = [d[:, k] / total[k] - 1 / len(d) for k in index]
        z = sum(ck * ek for ck, ek in zip(c, e, strict=True))
        v = (z**2).sum()
        beta = [(ek * z).sum() / v for ek in e]
        bend = sum(ck * b * (z * wk).sum() for ck, b, wk in zip(c, beta, w, strict=True)) / v**0.5
        shift = -sum(ck * (wk * (ek - b * z)).sum() for ck, b, wk, ek in zip(c, beta, w, e, strict=True)) / v**0.5
        for level, ends in ((0.1 / len(contrasts), ("lowers", "uppers")), (0.1, ("", "upper"))):
            t = stats.t.ppf(1 - level, freedom[i])
            lean = -(z**3).sum() / v**1.5 * (2 * t**2 + 1) / 6 + bend * t**2 + shift
            if ends[0]:
                assert found.estimates[i] - found.lowers[i] == pytest.approx((t + max(lean, 0)) * error[i])
                assert found.uppers[i] - found.estimates[i] == pytest.approx((t + max(-lean, 0)) * error[i])
            elif len(contrasts) == 1:
                assert found.upper - found.estimates[i] == pytest.approx((t + max(-lean, 0)) * error[i])


def test_clusters_of_equal_size_are_a_sample_of_means():
    rng = np.random.default_rng(0)
    u = rng.uniform(size=(400, 1))
    found = ratio_of_sums_bounds(u, np.ones_like(u), ONE, 0.05, low=0.0, high=1.0)
    plain = stats.t.ppf(0.95, 399) * u.std(ddof=1) / 20  # of values that lie evenly about their mean
    assert found.value == pytest.approx(u.mean()) and found.upper - found.value == pytest.approx(plain, rel=0.01)


def test_a_law_that_lies_askew_widens_the_bound_on_its_long_side():
    """Of clusters of equal size the ratio is a mean: of a law that lies askew the bound on the long side is wider than Student's in almost
    every sample, of one that lies evenly in few, and none is narrower."""
    rng, q = np.random.default_rng(0), 100
    for law, askew in ((lambda n: rng.beta(0.3, 2.7, n), True), (lambda n: rng.beta(2, 2, n), False)):
        below = 0
        for _ in range(600):
            u = law((q, 1))
            found = ratio_of_sums_bounds(u, np.ones_like(u), ONE, 0.05, low=0.0, high=1.0)
            plain = stats.t.ppf(0.95, q - 1) * u.std(ddof=1) / 10
            assert found.upper - found.value >= plain * 0.97 and found.value - found.lower >= plain * 0.97
            below += found.upper - found.value > 1.05 * plain
        assert below > 570 if askew else below < 60


def test_a_share_of_one_is_not_certain_and_few_clusters_promise_nothing():
    d = np.full((100, 1), 5.0)
    found = ratio_of_sums_bounds(d, d, ONE, 0.05, low=0.0, high=1.0)
    assert found.value == 1 and found.lower < 1 - 1 / 100
    few = ratio_of_sums_bounds(d[:19], d[:19], ONE, 0.05, low=0.0, high=1.0)
    assert few.lower == -np.inf and few.upper == np.inf
    one_weighs = np.r_[1000.0, np.ones(99)][:, None]
    assert ratio_of_sums_bounds(0.5 * one_weighs, one_weighs, ONE, 0.05, low=0.0, high=1.0).upper == np.inf


@pytest.mark.parametrize("bad", [np.array([[np.nan]]), np.ones((2, 3))])
def test_what_cannot_be_used_is_said(bad):
    with pytest.raises(DataError, match="must be finite"):
        ratio_of_sums_bounds(bad, np.ones((2, 2)), ONE, low=0.0, high=1.0)


SETTINGS = {
    "60 clusters, unlike": {"q": 60},
    "60 clusters, few pairs": {"q": 60, "spread": 0.8},
    "200 clusters, high shares": {"q": 200, "p": (0.95, 0.9)},
    "200 clusters, of one mind": {"q": 200, "rho": 0.5},
    "1000 clusters, unlike": {"q": 1000, "p": (0.7, 0.6)},
}


@pytest.mark.long
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("contrasts", [ONE, GAP], ids=["share", "gap"])
def test_bounds_err_about_as_often_as_they_say(name, contrasts):
    """4,000 samples; the true share is p, since cluster sizes do not depend on shares. The standard error is 0.0034."""
    setting = dict(SETTINGS[name])
    p = setting.get("p", (0.6, 0.6))
    truth = (contrasts.coefficient * np.array(p)[contrasts.index]).sum(-1)
    rng, runs, above, below = np.random.default_rng(1), 4000, 0, 0
    for _ in range(runs):
        u, d = some_clusters(rng, **setting)
        found = ratio_of_sums_bounds(u, d, contrasts, 0.05, low=0.0, high=1.0)
        above += found.upper < truth.max()
        below += found.lower > truth.max()
    print(f"{name}: upper bounds err in {above / runs:.2%}, lower in {below / runs:.2%} of {runs} samples")
    assert max(above, below) / runs < 0.05 + 2 * np.sqrt(0.05 * 0.95 / runs)
