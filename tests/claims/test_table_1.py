"""Table 1 of Kliachkin et al. (2025): demographic parity, equal opportunity and equalised odds, on losses and on rates,
for any number of groups and several at once, against sums written out group by group."""

from itertools import combinations

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.base.errors import OptionError
from fairbound.models.model import MLP
from fairbound.testing import check_gradient
from twelve_rows import WEIGHTS, tiny

ALL, POSITIVE, NEGATIVE = None, 1, 0


def case(seed, groups, n=60):
    rng = np.random.default_rng(seed)
    code = np.concatenate([np.repeat(np.arange(groups), 2), rng.integers(0, groups, n - 2 * groups)])
    y = np.concatenate([np.tile([0, 1], groups), rng.integers(0, 2, n - 2 * groups)])
    X = rng.normal(size=(n, 3)) + 0.4 * code[:, None]
    return X, y, code, rng.normal(size=4), rng.uniform(0.2, 3, n)


def statistics(X, y, x):
    scores = X @ x[:3] + x[3]
    return {"loss": np.log1p(np.exp(-(2 * y - 1) * scores)), "rate": (scores > 0).astype(float)}


def gap(values, y, code, weights, a, b, label):
    keep = np.ones(len(y), bool) if label is ALL else y == label
    means = [np.average(values[keep & (code == g)], weights=weights[keep & (code == g)]) for g in (a, b)]
    return abs(means[0] - means[1])


# text, statistic, labels, and how the gaps of the labels join
TABLE_1 = [
    ("loss_gap <= 0.01", "loss", (ALL,), max),
    ("loss_gap[y=1] <= 0.01", "loss", (POSITIVE,), max),
    ("loss_gap[y=0] <= 0.01", "loss", (NEGATIVE,), max),
    ("loss_gap[y=both] <= 0.01", "loss", (POSITIVE, NEGATIVE), max),
    ("loss_gap[y=both,sum] <= 0.01", "loss", (POSITIVE, NEGATIVE), sum),
    ("demographic_parity <= 0.01", "rate", (ALL,), max),
    ("equal_opportunity <= 0.01", "rate", (POSITIVE,), max),
    ("predictive_equality <= 0.01", "rate", (NEGATIVE,), max),
    ("equalized_odds <= 0.01", "rate", (POSITIVE, NEGATIVE), max),
    ("equalized_odds[sum] <= 0.01", "rate", (POSITIVE, NEGATIVE), sum),
]


def by_hand(statistic, labels, join, X, y, code, x, weights):
    values = statistics(X, y, x)[statistic]
    pairs = combinations(range(code.max() + 1), 2)
    return max(join([gap(values, y, code, weights, a, b, v) for v in labels]) for a, b in pairs)


@pytest.mark.parametrize(("text", "statistic", "labels", "join"), TABLE_1)
@pytest.mark.parametrize("groups", [2, 3, 7])
def test_every_row_is_its_definition(text, statistic, labels, join, groups):
    for seed in range(5):
        X, y, code, x, w = case(seed, groups)
        for weights in (None, w):
            problem = fb.FairProblem(MLP(3), X, y, code, text, sample_weight=weights, dtype=torch.float64)
            measured = problem.evaluate(torch.as_tensor(x))
            expected = by_hand(statistic, labels, join, X, y, code, x, np.ones(60) if weights is None else weights)
            assert float(problem.stated_values(measured)[0]) == pytest.approx(expected, abs=1e-12)
            assert float(measured.g.max()) == pytest.approx(expected - 0.01, abs=1e-12)
            full = problem.values(torch.as_tensor(x), problem.full(), true=True)
            torch.testing.assert_close(full.g, measured.g, rtol=0, atol=1e-12)


def test_several_at_once_are_each_alone():
    X, y, code, x, _ = case(0, 4)
    problem = fb.FairProblem(MLP(3), X, y, code, [text for text, *_ in TABLE_1], dtype=torch.float64)
    values = problem.stated_values(problem.evaluate(torch.as_tensor(x)))
    for value, (_, statistic, labels, join) in zip(values, TABLE_1, strict=True):
        assert float(value) == pytest.approx(by_hand(statistic, labels, join, X, y, code, x, np.ones(60)), abs=1e-12)


@pytest.mark.parametrize("against", ["pairwise", "overall"])
def test_the_sum_over_labels_is_four_inequalities_a_pair(against):
    problem = tiny(f"loss_gap[{against},y=both,sum] <= 0.3", groups=np.array(list("aaabbbbccccc")))
    assert problem.m == 4 * 3
    check_gradient(problem)
    check_gradient(tiny(f"loss_gap[{against},y=both,sum] <= 0.3", sample_weight=WEIGHTS))
    x = torch.tensor([0.4, -0.8, 0.1], dtype=torch.float64)
    g = problem.evaluate(x).g + 0.3
    if against == "pairwise":  # s u + t v over the four signs: the largest is |u| + |v|, the smallest its negative
        quads = g.view(3, 4)
        torch.testing.assert_close(quads.amax(1), -quads.amin(1))
        torch.testing.assert_close(quads.sum(1), torch.zeros(3, dtype=torch.float64), rtol=0, atol=1e-14)


def test_sum_and_max_are_read_and_written():
    stated = fb.constraint("loss_gap[crossed,y=both,sum] <= 0.25")
    assert stated == fb.LossGap(bound=0.25, given="both", aggregated="sum", attributes="crossed")
    assert fb.constraint(stated.text) == stated and "sum" in stated.text
    assert fb.constraint("loss_gap[y=both,max] <= 0.25") == fb.LossGap(bound=0.25, given="both")
    for text, words in (
        ("loss_gap[sum] <= 0.1", "say y=both"),
        ("loss_gap[y=1,sum] <= 0.1", "say y=both"),
        ("loss_gap[best,y=both,sum] <= 0.1", "best"),
    ):
        with pytest.raises(OptionError, match=words):
            fb.constraint(text)
    with pytest.raises(OptionError, match="aggregated"):
        fb.LossGap(bound=0.1, given="both", aggregated="mean")


def test_alm_meets_the_summed_bound():
    """min loss subject to |gap given y=1| + |gap given y=0| <= 0.05 on rows whose groups differ; two seeds."""
    for seed in range(2):
        X, y, code, _, _ = case(seed, 3, n=240)
        problem = fb.FairProblem(MLP(3), X, y, code, "loss_gap[y=both,sum] <= 0.05", dtype=torch.float64)
        free = fb.FairProblem(MLP(3), X, y, None, dtype=torch.float64)
        start = problem.start((0,))
        fitted = fb.solve(free, fb.SGD(step_size=0.3), budget="600 steps", sampling="full").x
        solution = fb.solve(problem, fb.ALM(step_size=0.1), budget="1500 steps", batch_size=120)
        at = problem.evaluate(solution.x)
        assert float(problem.evaluate(fitted).violation) > 0.05
        assert bool(solution.feasible) and float(at.violation) == 0 and float(at.f) < float(problem.evaluate(start).f)
