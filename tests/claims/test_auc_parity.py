"""`auc_parity`: the exact values against all pairs, the surrogates against enumeration and differences, and the verdicts."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import binom
from sklearn import config_context
from sklearn.metrics import roc_auc_score

import fairbound as fb
from fairbound.base.errors import DataError, EmptyGroupError, OptionError
from fairbound.fairness.areas.compared import KINDS
from fairbound.fairness.areas.pair_losses import PairLosses, Quadratic, Ramp, Sigmoid
from fairbound.fairness.notions import AUCParity, constraint
from fairbound.fairness.objectives import AUCLoss, objective_of
from fairbound.fairness.problem import FairProblem
from fairbound.fairness.scored import Scored
from fairbound.models.mlp import MLP
from fairbound.rows.groups import Groups
from fairbound.testing import check_gradient


def rows(n=120, groups="abc", seed=0):
    rng = np.random.default_rng(seed)
    g = rng.choice(list(groups), n)
    y = (rng.random(n) < 0.4).astype(int)
    return rng.integers(-8, 12, n) / 3 + y + 0.5 * (g == "a"), y, g, rng.integers(1, 4, n).astype(float)


def area(s, w, first, second):
    won = (s[:, None] > s) + 0.5 * (s[:, None] == s)
    both = np.outer(w * first, w * second)
    return (won * both).sum() / both.sum()


def by_definition(kind, s, y, g, w, overall):
    """Appendix A of Yao, Lin, Yang (2023), from masks of rows and the double sum."""
    P, N, D = y == 1, y == 0, np.ones(len(y), dtype=bool)
    found = []
    for a, b in itertools.permutations(sorted(set(g)), 2):
        A, B = g == a, D if overall else g == b
        first, second = {
            "group": ((A, B), None),
            "inter": ((P & A, N & B), (P & B, N & A)),
            "intra": ((P & A, N & A), (P & B, N & B)),
            "positive": ((P & A, P & B), None),
            "negative": ((N & A, N & B), None),
            "bpsn": ((P, N & A), (P, N & B)),
            "bnsp": ((P & A, N), (P & B, N)),
            "bpsn_bnsp": ((P, N & A), (P & A, N)),
        }[kind]
        found.append(abs(area(s, w, *first) - (0.5 if second is None else area(s, w, *second))))
    return max(found)


@pytest.mark.parametrize("overall", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_value_is_that_of_the_definition(kind, overall):
    for seed, groups in ((0, "ab"), (1, "abc"), (2, "abcd")):
        s, y, g, w = rows(seed=seed, groups=groups)
        text = f"auc_parity[{kind}{',overall' if overall else ''}]"
        one = np.ones(len(y))
        assert fb.measure(text, s, y, g, threshold=0) == pytest.approx(
            by_definition(kind, s, y, g, one, overall), abs=1e-13
        )
        weighted = fb.measure(text, s, y, g, threshold=0, sample_weight=w)
        assert weighted == pytest.approx(by_definition(kind, s, y, g, w, overall), abs=1e-13)
        finding = fb.audit(s, y, g, f"{text} <= 0.1", threshold=0, sample_weight=w)["constraints"][0]
        assert finding["value"] == pytest.approx(weighted, abs=1e-12)
        assert finding["lower"] <= finding["value"] <= finding["upper"]


def test_the_text_and_its_errors():
    made = constraint("auc_parity[inter,overall,by=sex,surrogate=ramp,sharpness=2.5] <= 0.02")
    assert made == AUCParity(
        kind="inter", against="overall", attributes=("sex",), surrogate="ramp", sharpness=2.5, bound=0.02
    )
    assert constraint(made.text) == made and made.text.startswith("auc_parity[inter,overall,by=sex")
    for text, said in {
        "auc_parity <= 0.1": "say one of group, inter, intra, positive",
        "auc_parity[best,group] <= 0.1": "unknown option 'best'",
        "auc_parity[group,inter] <= 0.1": "say the same thing twice",
        "auc_parity[group,surrogate=hinge] <= 0.1": "surrogate must be one of 'sigmoid', 'ramp', 'quadratic'",
        "auc_parity[group,sharpness=0] <= 0.1": "sharpness must be positive",
        "auc_parity[group,c1=-1] <= 0.1": "c1 must be positive",
        "auc_parity[intr] <= 0.1": "did you mean 'int",
    }.items():
        with pytest.raises(OptionError, match=said):
            constraint(text)


def test_what_cannot_be_measured_is_said():
    s, y, g, _ = rows()
    with pytest.raises(DataError, match="needs scores or probabilities"):
        fb.measure("auc_parity[group]", (s > 0).astype(int), y, g)
    with pytest.raises(EmptyGroupError, match="'a' has no positive row"):
        fb.measure("auc_parity[intra]", s, np.where(g == "a", 0, y), g, threshold=0)
    left = fb.measure("auc_parity[intra,empty=drop]", s, np.where(g == "a", 0, y), g, threshold=0)
    assert left == pytest.approx(fb.measure("auc_parity[intra]", s[g != "a"], y[g != "a"], g[g != "a"], threshold=0))
    with pytest.raises(EmptyGroupError, match="none of one of them"):
        fb.measure("auc_parity[bpsn]", s, 0 * y, g, threshold=0)
    audit = fb.audit(s, np.where(g == "a", 0, y), g, "auc_parity[intra] <= 0.9", threshold=0)["constraints"][0]
    assert audit["verdict"] == "insufficient" and "a" in audit["why"]
    # a group without positives still has negatives among everyone's
    y2 = np.where(g == "a", 0, y)
    everyone = area(s, np.ones(len(s)), y2 == 1, y2 == 0)
    worst = max(abs(area(s, np.ones(len(s)), (y2 == 1) & (g == k), (y2 == 0) & (g == k)) - everyone) for k in "bc")
    found = fb.measure("auc_parity[intra,overall,empty=drop]", s, y2, g, threshold=0)
    assert found == pytest.approx(worst, abs=1e-13)


# -- surrogates ------------------------------------------------------------------------------------------------------

PAIR = {
    "sigmoid": (Sigmoid(1.7), lambda t: 1 / (1 + np.exp(1.7 * t))),
    "ramp": (Ramp(0.8), lambda t: np.clip(0.5 - 0.8 * t, 0, 1)),
    "quadratic": (Quadratic(0.7), lambda t: 0.7 * (t - 1) ** 2),
}


def table_of(loss, s, W):
    return loss.table(s, W)[0]


def slope_of(loss, s, W, C):
    return loss.slope(loss.table(s, W)[1], C)


def tables(seed, R=None, B=23, S=4):
    generator = torch.Generator().manual_seed(seed)
    lead = () if R is None else (R,)
    s = torch.randn(*lead, B, generator=generator, dtype=torch.float64)
    W = torch.rand(*lead, S, B, generator=generator, dtype=torch.float64)
    W = W * (torch.rand(*lead, S, B, generator=generator) < 0.6)
    return s, W / W.sum(-1, keepdim=True), torch.randn(*lead, S, S, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", PAIR)
def test_a_table_of_losses_is_the_double_sum_and_its_slope_a_difference(name, seed, monkeypatch):
    loss, of = PAIR[name]
    for R in (None, 3):
        s, W, C = tables(seed, R)
        for most in (1, 1 << 22):  # rows at a time do not matter
            monkeypatch.setattr("fairbound.fairness.areas.pair_losses.PAIRS_AT_ONCE", most)
            found = table_of(loss, s, W).reshape(-1, 4, 4).numpy()
            slope = slope_of(loss, s, W, C)
            for run, (t, w) in enumerate(zip(s.reshape(-1, 23).numpy(), W.reshape(-1, 4, 23).numpy(), strict=True)):
                pairs = of(t[:, None] - t)
                np.testing.assert_allclose(found[run], w @ pairs @ w.T, rtol=1e-12, atol=1e-13)
            for i in range(23):
                step = torch.zeros_like(s)
                step[..., i] = 1e-6
                change = (C * (table_of(loss, s + step, W) - table_of(loss, s - step, W))).sum((-1, -2)) / 2e-6
                torch.testing.assert_close(slope[..., i], change, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("sharpness", [1.0, 8.0])
def test_a_long_batch_on_a_grid_is_the_double_sum(sharpness, monkeypatch):
    s, W, C = tables(9, 2, 400, 3)
    s[1, :5] = s[1, 0]
    loss = Sigmoid(sharpness)
    table, slope = table_of(loss, s, W), slope_of(loss, s, W, C)
    monkeypatch.setattr("fairbound.fairness.areas.pair_losses.GRID_ROWS", 10)
    found = table_of(loss, s, W)
    torch.testing.assert_close(found, table, rtol=0, atol=1e-5)
    torch.testing.assert_close(found + found.mT, torch.ones_like(found), rtol=0, atol=1e-12)
    # the slope is that of the sum on the grid, and near that of the sum over the pairs
    torch.testing.assert_close(slope_of(loss, s, W, C), slope, rtol=1e-3, atol=1e-4 * float(slope.abs().max()))
    s[:, 0], s[:, 1] = -9.0, 9.0  # the ends of the grid, which then stay where they are
    mine = slope_of(loss, s, W, C)
    for i in range(7, 20):
        step = torch.zeros_like(s)
        step[:, i] = 1e-7
        change = (C * (table_of(loss, s + step, W) - table_of(loss, s - step, W))).sum((-1, -2)) / 2e-7
        torch.testing.assert_close(mine[:, i], change, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(table_of(loss, 0 * s, W), torch.full_like(table, 0.5), rtol=0, atol=1e-12)
    s[0, 0] = torch.nan  # pair by pair, and NaN
    torch.testing.assert_close(
        table_of(loss, s, W), W @ torch.sigmoid(sharpness * (s[:, None] - s[:, :, None])) @ W.mT, equal_nan=True
    )


def test_widely_spread_scores_are_counted_on_a_coarser_grid(monkeypatch):
    s, W, C = tables(10, 2, 400, 3)
    s, loss = 300 * s, Sigmoid(8.0)
    table, slope = table_of(loss, s, W), slope_of(loss, s, W, C)
    monkeypatch.setattr("fairbound.fairness.areas.pair_losses.GRID_ROWS", 10)
    monkeypatch.setattr("fairbound.fairness.areas.pair_losses.MOST_POINTS", 1 << 12)
    found = table_of(loss, s, W)
    torch.testing.assert_close(found, table, rtol=0, atol=2e-3)
    torch.testing.assert_close(found + found.mT, torch.ones_like(found), rtol=0, atol=1e-12)
    assert not torch.equal(found, table) and (slope_of(loss, s, W, C) * slope).sum() > 0


def test_a_few_scores_far_from_all_others_leave_a_long_batch_on_its_grid(monkeypatch):
    s, W, C = tables(10, 2, 400, 3)
    s[0, :3], s[1, 5] = torch.tensor([4e6, 4e6 + 0.3, -9e5]), 1e7
    loss = Sigmoid(1.0)
    table, slope = table_of(loss, s, W), slope_of(loss, s, W, C)
    monkeypatch.setattr("fairbound.fairness.areas.pair_losses.GRID_ROWS", 10)
    monkeypatch.setattr(Sigmoid, "_blocks", None)
    torch.testing.assert_close(table_of(loss, s, W), table, rtol=0, atol=1e-5)
    torch.testing.assert_close(slope_of(loss, s, W, C), slope, rtol=1e-3, atol=1e-4 * float(slope.abs().max()))


def test_the_quadratic_double_sum_is_the_linear_time_form():
    rng = np.random.default_rng(0)
    s, t = rng.normal(size=40), rng.normal(size=31) + 0.3
    for c1 in (0.25, 0.5, 1.0, 2.0):
        double = np.mean(c1 * (s[:, None] - t - 1) ** 2)
        W = torch.zeros(2, 71, dtype=torch.float64)
        W[0, :40], W[1, 40:] = 1 / 40, 1 / 31
        table = table_of(Quadratic(c1), torch.as_tensor(np.concatenate([s, t])), W)
        assert float(table[0, 1]) == pytest.approx(double, abs=1e-13)
        means = c1 * (np.mean(s**2) - s.mean() ** 2 + np.mean(t**2) - t.mean() ** 2 + (s.mean() - t.mean() - 1) ** 2)
        assert means == pytest.approx(double, abs=1e-13)


def features(n=70, seed=0, groups="ab"):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    g = rng.choice(list(groups), n)
    y = (rng.random(n) < 1 / (1 + np.exp(-X[:, 0] - (g == "a")))).astype(int)
    return X, y, g


@pytest.mark.parametrize("surrogate", PAIR)
@pytest.mark.parametrize("kind", ["group", "inter", "bpsn_bnsp", "positive,overall"])
def test_gradients_of_training_and_the_true_value(kind, surrogate):
    X, y, g = features(groups="abc")
    stated = [f"auc_parity[{kind},surrogate={surrogate}] <= 0.05", "loss_gap <= 0.3"]
    make = lambda **kw: FairProblem(MLP(3), X, y, g, stated, **({"dtype": torch.float64} | kw))  # noqa: E731
    problem = make()
    x = problem.start([3])
    measured = problem.evaluate(x)
    exact = fb.measure(f"auc_parity[{kind}]", problem.model.scores(x, torch.as_tensor(X)).numpy(), y, g, threshold=0)
    assert float(problem.stated_values(measured)[0]) == pytest.approx(exact, abs=1e-12)
    assert float(measured.g[: problem.m - 6].max()) == pytest.approx(exact - 0.05, abs=1e-12)
    assert problem.unbiased == (surrogate != "quadratic")
    check_gradient(make, kinds=("balanced", "full"), batch_size=40, points=1)
    check_gradient(make, kinds=("full",), batch_size=40, seeds=(0, 1), points=1)


@pytest.mark.parametrize("surrogate", ["sigmoid", "ramp"])
@pytest.mark.parametrize("kind", ["group", "intra", "positive,overall", "bpsn"])
def test_balanced_batches_are_unbiased(kind, surrogate):
    """The mean over every balanced batch there is: two rows, with replacement, of each of four cells of three."""
    rng = np.random.default_rng(0)
    y, g = np.tile([0, 1], 6), np.repeat(["a", "b"], 6)
    s = torch.as_tensor(rng.normal(size=12))
    bound = constraint(f"auc_parity[{kind},surrogate={surrogate}] <= 0.1")
    problem = FairProblem(MLP(1), rng.normal(size=(12, 1)), y, g, bound, dtype=torch.float64)
    (statistic,) = problem.plan.statistics
    assert isinstance(statistic, PairLosses)
    none, full = torch.empty(0), problem.full()
    whole = statistic.value(s, none, full, False)[0]
    starts, places = problem.strata.starts, list(itertools.product(range(3), repeat=2))
    at = torch.tensor([[start + i for start, pair in zip(starts, chosen, strict=True) for i in pair]
                       for chosen in itertools.product(places, repeat=len(starts))])  # fmt: skip
    batch = SimpleNamespace(
        cells=full.cells[at], targets=full.targets[at], objective=torch.full(at.shape, 1 / at.shape[1]).double()
    )
    every = statistic.value(s[at], none, batch, False)[0]
    assert len(every) == 9 ** len(starts) and problem.unbiased
    torch.testing.assert_close(every.mean(0), whole, rtol=0, atol=1e-12)
    # of weighted rows a batch has its own sums of weights, so that its values are biased, and the problem says so
    w = rng.exponential(size=12)
    weighted = FairProblem(MLP(1), rng.normal(size=(12, 1)), y, g, bound, sample_weight=w, dtype=torch.float64)
    whole = statistic.value(s, none, weighted.full(), False)[0]
    batch.objective, batch.kept = weighted.full().objective[at], {}
    assert not weighted.unbiased
    assert (statistic.value(s[at], none, batch, False)[0].mean(0) - whole).abs().max() > 1e-3


@pytest.mark.filterwarnings("ignore:Column .* is the sensitive attribute")  # the group is a feature on purpose
def test_a_model_is_trained_to_the_bound():
    X, y, g = features(1500, 2)
    X = np.column_stack([X, g == "a"])
    free = fb.FairClassifier(budget="300 steps", random_state=0).fit(X, y, sensitive_features=g)
    held = fb.FairClassifier("auc_parity[group] <= 0.05", budget="600 steps", random_state=0).fit(
        X, y, sensitive_features=g
    )
    value = lambda model: fb.measure("auc_parity[group]", model.decision_function(X), y, g, threshold=0)  # noqa: E731
    assert value(free) > 0.15 and value(held) < 0.07
    assert held.fit_report_["constraints"][0]["text"] == "auc_parity[group] <= 0.05"
    with config_context(enable_metadata_routing=True):
        found = fb.scorer("auc_parity[group]")(held, X, y, sensitive_features=g)
    assert found == pytest.approx(-value(held))


@pytest.mark.parametrize("surrogate", PAIR)
def test_the_area_itself_is_an_objective(surrogate):
    X, y, g = features(60, 4)
    stated, objective = "auc_parity[intra] <= 0.1", f"auc[surrogate={surrogate},sharpness=2,c1=0.25]"
    make = lambda **kw: FairProblem(  # noqa: E731
        MLP(3), X, y, g, stated, objective=objective, **({"dtype": torch.float64} | kw)
    )
    problem = make()
    x = problem.start([1])
    s = problem.model.scores(x, torch.as_tensor(X)).numpy()
    assert float(problem.evaluate(x).f) == pytest.approx(1 - roc_auc_score(y, s), abs=1e-12)
    of = {"sigmoid": lambda t: 1 / (1 + np.exp(2 * t)), "ramp": lambda t: np.clip(0.5 - 2 * t, 0, 1),
          "quadratic": lambda t: 0.25 * (t - 1) ** 2}[surrogate]  # fmt: skip
    mean = of(s[y == 1][:, None] - s[y == 0]).mean()
    assert float(problem.values(x, problem.full()).f) == pytest.approx(mean, abs=1e-12)
    check_gradient(make, kinds=("balanced", "full"), batch_size=40, points=1)


def test_the_objective_is_read_and_refused():
    assert objective_of("auc") == AUCLoss() and objective_of(" auc ").text == "auc"
    made = objective_of("auc[surrogate=quadratic,c1=1]")
    assert made == AUCLoss("quadratic", c1=1.0) and objective_of(made.text) == made
    for text, said in {
        "auc[hinge]": "unknown option 'hinge'",
        "auc[surrogate=hinge]": "surrogate must be",
        "aucs": "unknown",
    }.items():
        with pytest.raises(OptionError, match=said):
            objective_of(text)
    X, y, g = features()
    with pytest.raises(EmptyGroupError, match="one is missing"):
        FairProblem(MLP(3), X, 0 * y, g, objective="auc")
    with pytest.raises(OptionError, match="two classes"):
        FairProblem(MLP(3, outputs=3), X, y + (X[:, 0] > 1), g, objective="auc", loss="cross_entropy")
    two = FairProblem(MLP(3, outputs=2), X, y, g, objective="auc", loss="cross_entropy")
    with pytest.raises(OptionError, match="one score per row"):
        two.evaluate(two.start([0]))


# -- verdicts --------------------------------------------------------------------------------------------------------


def scored(s, y, g):
    return Scored(y, y, scores=s, groups=Groups(g[:, None], ("g",), (("a", "b"),)))


def wrong_verdicts(kind, n, audits, shift, seed=0):
    """Shares of audits of n rows a group whose upper (lower) bound is below (above) the true difference."""
    rng = np.random.default_rng(seed)
    bound = constraint(f"auc_parity[{kind}] <= 0.1")
    population = 200_000
    y, g = rng.integers(0, 2, population), rng.integers(0, 2, population)
    s = rng.normal(size=population) + (1 + shift * g) * y
    gap = bound.measure(scored(s, y, g))
    places = [np.flatnonzero(g == k) for k in (0, 1)]
    wrong = np.zeros(2)
    for _ in range(audits):
        at = np.concatenate([rng.choice(p, n) for p in places])
        found = bound.judge(scored(s[at], y[at], g[at]), 0.05)
        wrong += (found["upper"] < gap, found["lower"] > gap)
    return wrong / audits


@pytest.mark.parametrize("kind", ["group", "intra", pytest.param("bpsn_bnsp", marks=pytest.mark.long)])
def test_verdicts_are_seldom_wrong(kind):
    """5 % are promised; if that is kept, more than 13 of 100 audits are wrong with probability below 0.001."""
    assert (wrong_verdicts(kind, 60, 100, 0.6) <= 13 / 100).all()


@pytest.mark.long
@pytest.mark.parametrize("n", [20, 100, 1000])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shift", [0.0, 0.6, 2.0])
def test_verdicts_are_seldom_wrong_at_any_size(kind, n, shift):
    assert (wrong_verdicts(kind, n, 500, shift, 1) <= 0.05 + 3.1 * np.sqrt(0.05 * 0.95 / 500)).all()


def test_few_rows_in_perfect_order_decide_nothing():
    y, g = np.tile([0, 1], 20), np.repeat([0, 1], 20)
    perfect = scored(y.astype(float) + 0.001 * np.arange(40), y, g)
    found = constraint("auc_parity[intra] <= 0.02").judge(perfect, 0.05)
    assert found["value"] == 0 and found["verdict"] == "insufficient" and found["rows_needed"] > 40
    # of ten pairs in order, one side's limit, and the upper bound of the largest difference has the whole error
    assert found["upper"] == pytest.approx(1 - 0.05 ** (1 / 10), rel=1e-9)


def test_a_perfect_group_beside_an_imperfect_one_is_seldom_met_wrongly():
    """One group in perfect order; each of the other's ten positives falls behind all negatives with probability p, so that the
    true difference is p. With k of them behind, "met" is said of bounds from the upper one on, wrongly where p lies above it:
    then k or fewer are behind with probability binom.cdf(k, 10, p), which falls in p and may be 5 % at most."""
    y, g = np.tile([0, 1], 20), np.repeat([0, 1], 20)
    behind = np.flatnonzero((y == 1) & (g == 1))
    for k in range(10):
        s = y.astype(float)
        s[behind[:k]] = -1.0
        found = constraint("auc_parity[intra] <= 0.02").judge(scored(s, y, g), 0.05)
        assert found["value"] == pytest.approx(k / 10)
        assert binom.cdf(k, 10, found["upper"]) <= 0.05 + 1e-9
