"""Rows that come in clusters: effective numbers by hand, copies that tell nothing, and how often verdicts are wrong."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fairbound as fb
from fairbound.base.errors import DataError, OptionError
from fairbound.confidence.contrasts import Contrasts
from fairbound.confidence.effective_rows import LEVEL, ClusterSums, clustered_trials, shared_clusters
from fairbound.confidence.means import mean_bounds
from fairbound.confidence.rates import largest_lower, rate_upper_bounds
from fairbound.rows.clusters import cluster_codes

GAP = Contrasts(np.array([[0, 1], [1, 0]]), np.array([[1.0, -1.0], [1.0, -1.0]]))


def trials(hits, sizes, most=None):
    """Effective successes and trials of one cell."""
    hits, sizes = np.asarray(hits, dtype=float), np.asarray(sizes, dtype=float)
    q = len(hits)
    sums = ClusterSums(np.zeros(q, dtype=int), np.arange(q), hits, sizes, 1, q)
    x, n = clustered_trials(sums, np.array([sizes.sum() if most is None else most]))
    return float(x[0]), float(n[0])


def ratio(freedom):
    return (stats.norm.ppf(1 - LEVEL) / stats.t.ppf(1 - LEVEL, freedom)) ** 2


def test_clusters_all_alike_count_once_each():
    """Rows of a cluster that agree are one observation, whose variance has the divisor of clusters less one."""
    hits = np.repeat([1.0, 0.0], [8, 12])
    for size in (1, 2, 7):
        assert trials(size * hits, np.full(20, size)) == pytest.approx((0.4 * 19 * ratio(19), 19 * ratio(19)))


def test_numbers_by_hand():
    """Sizes 4, 1, 1, 2 with 2, 1, 0, 0 successes: p = 3/8, z = (1/2, 5/8, -3/8, -3/4) / 8."""
    z2 = (0.5**2 + 0.625**2 + 0.375**2 + 0.75**2) / 64
    v, p = z2 * 4 / 3, 3 / 8
    alike = max(p * (1 - p) / (64 / 22), v)
    mixed = (2 * v + 3 * alike) / 5  # two clusters have a success, the rarer outcome
    freedom = 22**2 / (256 + 1 + 1 + 16) - 1
    n = p * (1 - p) / mixed * ratio(max(freedom, 1))
    assert trials([2, 1, 0, 0], [4, 1, 1, 2]) == pytest.approx((p * n, n))


def test_at_a_rate_of_zero_the_clusters_count_and_never_more_than_the_rows():
    assert trials(np.zeros(30), np.full(30, 5)) == pytest.approx((0.0, 30 * ratio(29)))
    assert trials(np.full(30, 5), np.full(30, 5))[1] == pytest.approx(30 * ratio(29))
    many = trials(np.ones(3000), np.full(3000, 2))[1]  # one of two rows always: less than no variance of chance
    assert many == pytest.approx(6000 * ratio(2999))


def test_shared_clusters():
    """Cells moved alike by every cluster: their difference does not vary, their sum twice as much as if independent."""
    cluster = np.tile(np.arange(3), 2)
    sums = ClusterSums(np.repeat([0, 1], 3), cluster, np.array([2.0, 0, 1, 2, 0, 1]), np.full(6, 2.0), 2, 3)
    moved = sums.moved()
    assert moved.toarray()[0] == pytest.approx(np.array([1, -1, 0]) / 6)
    of = lambda a, b: shared_clusters(moved, Contrasts(np.array([[0, 1]]), np.array([[a, b]])))  # noqa: E731
    assert of(1.0, -1.0) == pytest.approx([1, 1]) and of(1.0, 1.0) == pytest.approx([2, 2])
    assert of(1.0, 0.5) == pytest.approx([1.5**2 / 1.25] * 2)
    apart = ClusterSums(sums.cell, np.arange(6), sums.total, sums.weight, 2, 6).moved()
    assert shared_clusters(apart, Contrasts(np.array([[0, 1]]), np.array([[1.0, 1.0]]))).tolist() == [1, 1]


@pytest.fixture
def scored():
    rng = np.random.default_rng(1)
    n = 900
    sex = rng.choice(["f", "m"], n)
    y = rng.integers(0, 2, n)
    return rng.normal(y + 0.2 * (sex == "m"), 1.0), y, sex


BOUNDS = ("demographic_parity <= 0.1", "equalized_odds[sum] <= 0.3", "f1_parity <= 0.2", "demographic_parity_ratio >= 0.8",
          "loss_gap <= 0.2", "loss_gap[largest=3] <= 0.2", "auc_parity[intra] <= 0.2", "auc_parity[bpsn] <= 0.2")  # fmt: skip


@pytest.mark.parametrize("text", BOUNDS)
def test_copies_of_rows_tell_nothing(scored, text):
    """Every row five times over, as one cluster: the limits of twice over; of losses and areas those of the rows once."""

    def found(times, clusters=True):
        s, y, sex = (np.repeat(part, times) for part in scored)
        who = np.repeat(np.arange(900), times) if clusters else None
        made = fb.audit(s, y, sex, text, threshold=0, clusters=who)["constraints"][0]
        return np.array([made["value"], made["lower"], made["upper"]])

    once, copies = found(1, clusters=False), found(5)
    assert copies == pytest.approx(found(2), rel=1e-9, abs=1e-12)
    if text.startswith(("loss_gap <=", "auc")):
        assert copies == pytest.approx(once, rel=1e-9, abs=1e-12)
    elif "largest" not in text:  # Student's t in place of the normal law, 400 degrees of freedom or so
        width, before = np.abs(copies[1:] - copies[0]), np.abs(once[1:] - once[0])
        assert (
            copies[0] == pytest.approx(once[0]) and (before - 1e-12 <= width).all() and (width <= 1.02 * before).all()
        )
    assert np.abs(copies - copies[0]).max() > 1.5 * np.abs(found(5, clusters=False) - copies[0]).max()


def test_rows_that_are_all_of_different_clusters_change_nothing(scored):
    s, y, sex = scored
    plain = fb.audit(s, y, sex, BOUNDS[0], threshold=0)["constraints"]
    assert fb.audit(s, y, sex, BOUNDS[0], threshold=0, clusters=np.arange(900))["constraints"] == plain


def test_losses_of_clusters_are_their_means_weighed_by_their_rows(scored):
    s, y, sex = scored
    who = np.arange(900) // 3
    found = fb.audit(s, y, sex, "loss_gap[largest=3] <= 0.2", threshold=0, clusters=who)["constraints"][0]
    loss = np.minimum(np.logaddexp(0, np.where(y == 1, -s, s)), 3)
    cell, pairs = (sex == "m").astype(int), (sex == "m") * 300 + who
    rows = np.bincount(pairs, minlength=600)
    mean = np.bincount(pairs, weights=loss, minlength=600)[rows > 0] / rows[rows > 0]
    by_hand = mean_bounds(
        mean, np.repeat([0, 1], 300)[rows > 0], 2, GAP, 0.05, low=0.0, high=3.0, weights=rows[rows > 0]
    )
    assert (found["lower"], found["upper"]) == pytest.approx((by_hand.lower, by_hand.upper))
    assert cell.sum() and "guaranteed" in found["method"] and "cluster" in found["method"]


@pytest.mark.parametrize(("alike", "rates"), [(0.3, (0.5, 0.4)), (1.0, (0.3, 0.15))])
def test_verdicts_are_wrong_no_more_often_than_promised(alike, rates):
    """100 and 400 persons with 1 to 20 rows; the bound is the true gap. By rows both errors are far above 5 %."""
    rng, runs = np.random.default_rng(0), 1500
    plain, together = [], []
    for p, persons in zip(rates, (100, 400), strict=True):
        own = rng.beta(p * (1 / alike - 1), (1 - p) * (1 / alike - 1), (runs, persons)) if alike < 1 else (
            rng.random((runs, persons)) < p).astype(float)  # fmt: skip
        rows = rng.integers(1, 21, (runs, persons))
        hits = rng.binomial(rows, own)
        run = np.repeat(np.arange(runs), persons)
        sums = ClusterSums(
            run, np.arange(len(run)), hits.ravel().astype(float), rows.ravel().astype(float), runs, len(run)
        )
        plain.append((hits.sum(1), rows.sum(1)))
        together.append(clustered_trials(sums, rows.sum(1)))
    gap, most = rates[0] - rates[1], 0.05 + 3 * np.sqrt(0.05 * 0.95 / runs)
    for made, holds in ((plain, False), (together, True)):
        x, n = (np.stack([pair[k] for pair in made], 1) for k in (0, 1))
        met = np.max([rate_upper_bounds(x, n, GAP.take(np.array([i])), 0.05)[:, 0] for i in (0, 1)], 0) < gap
        violated = largest_lower(x, n, GAP, 0.05) > gap
        wrong = [float(met.mean()), float(violated.mean())]
        assert max(wrong) <= most if holds else min(wrong) > 0.12


def test_persons_in_both_groups(scored):
    """Rates of two labels added up: persons who are alike under both labels take evidence from their sum."""
    rng = np.random.default_rng(3)
    who = np.repeat(np.arange(300), 4)
    y = np.tile([0, 1, 0, 1], 300)
    sex = np.repeat(rng.choice(["f", "m"], 300), 4)
    decided = np.repeat(rng.integers(0, 2, 300), 4)
    found = fb.audit(decided, y, sex, "equalized_odds[sum] <= 0.3", clusters=who)["constraints"][0]
    alone = fb.audit(decided, y, sex, "equal_opportunity <= 0.3", clusters=who)["constraints"][0]
    assert found["value"] == pytest.approx(2 * alone["value"])
    assert found["upper"] >= 2 * alone["upper"] - 0.01  # as of one decision counted twice


def test_what_is_refused(scored):
    s, y, sex = scored
    who = np.arange(900) // 2
    with pytest.raises(OptionError, match="cannot be judged where rows come in clusters"):
        fb.audit(s, y, sex, "partial_statistical_parity[0:0.5] <= 0.1", threshold=0, clusters=who)
    with pytest.raises(OptionError, match="leave clusters out"):
        fb.audit(s, y, qid=who, clusters=who)
    with pytest.raises(DataError, match="one cluster for each row"):
        fb.audit(s, y, sex, BOUNDS[0], threshold=0, clusters=who[:5])

    class Own(type(fb.constraint("demographic_parity <= 0.1"))):
        def values(self, rows, compared):
            from dataclasses import replace

            return super().values(replace(rows, clusters=None), compared)

    with pytest.raises(OptionError, match="do not heed them"):
        fb.audit(s, y, sex, Own(bound=0.1), threshold=0, clusters=who)


def test_codes():
    assert cluster_codes(["b", "a", None, "b", None], 5).tolist() == [0, 1, 2, 0, 3]
    assert cluster_codes([3, 1, 2], 3) is None and cluster_codes([np.nan, np.nan], 2) is None
    note = fb.audit([0, 1, 1, 0], [0, 1, 0, 1], clusters=["a", "a", "b", None])["notes"][0]
    assert "4 rows come in 3 clusters of up to 2" in note
