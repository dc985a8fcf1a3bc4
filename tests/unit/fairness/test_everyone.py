"""Groups beside all rows: the shares of the groups are measured as well, and limits heed it, in audits and over time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

import fairbound as fb
from fairbound.fairness.scored import Scored
from fairbound.fairness.verdicts.everyone import without_overall
from fairbound.fairness.verdicts.judging import compared_sets
from fairbound.rows.groups import Groups


def rows_of(sizes, positives):
    """Rows of groups of these sizes, of which so many are selected; a selected one has the loss 1, another 0."""
    sizes, positives = np.asarray(sizes), np.asarray(positives)
    group = np.repeat(np.arange(len(sizes)), sizes)
    chosen = np.concatenate([np.arange(n) < s for n, s in zip(sizes, positives, strict=True)]).astype(int)
    groups = Groups(group[:, None], ("g",), (tuple(f"g{i}" for i in range(len(sizes))),))
    return Scored(0 * chosen, chosen, ("0", "1"), groups=groups, losses=chosen.astype(float))


@pytest.mark.parametrize("share", [pytest.param(0.5, marks=pytest.mark.long), 0.3])
@pytest.mark.parametrize(
    ("name", "n"), [("demographic_parity[overall]", 80), ("demographic_parity[overall]", 600), ("loss_gap[overall]", 900),
                    ("loss_gap[overall,largest=1]", 500)],
)  # fmt: skip
def test_verdicts_on_far_groups_beside_all_rows_err_within_their_level(name, n, share):
    """Exactly, over all numbers of rows of the first group: it has the value 1 and the other 0, so the shares alone are chance."""
    truth = max(share, 1 - share)
    at_bound, beyond = (fb.constraint(f"{name} <= {truth + d:.12f}") for d in (1e-9, -1e-9))
    wrong = np.zeros(2)
    sizes = np.arange(*stats.binom.ppf([1e-4, 1 - 1e-4], n, share).astype(int))
    for first in sizes[:: 1 if n < 100 else 3]:
        rows = rows_of([first, n - first], [first, 0])
        verdicts = at_bound.judge(rows, 0.05)["verdict"], beyond.judge(rows, 0.05)["verdict"]
        chance = stats.binom.pmf(first + np.arange(1 if n < 100 else 3), n, share).sum()
        wrong += chance * np.array([verdicts[0] == "violated", verdicts[1] == "met"])
    assert (wrong < 0.055).all(), wrong  # of three numbers of rows one is looked at


def test_the_variance_by_shares_is_that_of_the_value_of_all_rows():
    sizes, positives = np.array([40, 100, 60]), np.array([8, 70, 3])
    rows, bound = rows_of(sizes, positives), fb.constraint("demographic_parity[overall] <= 0.1")
    ((compared, _),) = bound.compared(rows.occurring)
    of, made = bound.values(rows, compared), bound.value_contrasts(compared)
    moved = without_overall(made, of, 3)[2] / 200
    rng = np.random.default_rng(0)
    everyone = rng.multinomial(200, sizes / 200, 100_000) @ (positives / sizes) / 200
    assert moved == pytest.approx(np.full(6, everyone.var()), rel=0.02)  # 100,000 draws: 2 % are four standard errors
    sets = compared_sets(bound, rows)[0]
    assert sets.contrasts.moved_by_shares(2 * sets.joined("trials")) == pytest.approx(moved / 2)
    assert compared_sets(fb.constraint("demographic_parity <= 0.1"), rows)[0].between is None


def test_of_sums_of_values_the_shares_move_each():
    rng = np.random.default_rng(1)
    n = 300
    group, y = rng.integers(0, 3, n), rng.integers(0, 2, n)
    chosen = (rng.random(n) < 0.2 + 0.3 * group).astype(int)
    rows = Scored(y, chosen, ("0", "1"), groups=Groups(group[:, None], ("g",), (("a", "b", "c"),)))
    each = compared_sets(fb.constraint("equalized_odds[overall] <= 0.1"), rows)[0].contrasts
    both = compared_sets(fb.constraint("equalized_odds[overall,sum] <= 0.1"), rows)[0].contrasts
    trials = compared_sets(fb.constraint("equalized_odds[overall] <= 0.1"), rows)[0].joined("trials")
    single = np.sqrt(each.moved_by_shares(trials))
    assert np.sqrt(both.moved_by_shares(trials)) == pytest.approx(np.full(12, np.unique(single.round(12)).sum()))


@pytest.mark.parametrize(
    "name", ["demographic_parity[overall]", pytest.param("equalized_odds[overall,sum]", marks=pytest.mark.long)]
)
def test_limits_at_all_looks_heed_the_shares(name):
    """20 streams of two halves of the people, of whom nearly all and nearly none are selected; the value is known."""
    rates, error, ever, streams = np.array([0.99, 0.01]), 0.1, 0, 20
    truth = 0.49 * (2 if "sum" in name else 1)
    for seed in range(streams):
        rng = np.random.default_rng(seed)
        monitor, wrong = fb.Monitor(f"{name} <= 0.4", 1 - error), False
        for rows in map(int, np.diff([0, 2000, 16_000])):
            group, y = rng.integers(0, 2, rows), rng.integers(0, 2, rows)
            monitor.update(y, (rng.random(rows) < rates[group]).astype(int), {"g": group})
            (found,) = monitor._judged(needed=False)[1]
            wrong |= not found["lower"] <= truth <= found["upper"]
        ever += wrong
    assert ever <= stats.binom.ppf(1 - 1e-4, streams, error)
    assert found["upper"] - found["lower"] < 0.15
    assert all(a < b for a, b in pairwise((0, found["lower"], found["value"], found["upper"], 2)))
