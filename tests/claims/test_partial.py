"""Fairness on percentile intervals: exact values against brute force and the source's identities, the parts that training is made
of, and verdicts against the truth of simulated groups."""

import warnings

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.base.errors import EmptyGroupError, OptionError
from fairbound.confidence.bands import band_widths
from fairbound.fairness.few_rows import bounds_below_a_step
from fairbound.fairness.percentiles.intervals import Percentiles
from fairbound.fairness.percentiles.steps import STEPS
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import MLP
from fairbound.ranking.exceedance import exceedance
from fairbound.testing import check_gradient

INTERVALS = [((0.0, 1.0),), ((0.05, 0.3),), ((0.0, 0.25),), ((0.7, 1.0),), ((0.0, 0.1), (0.5, 0.75))]
TRAINED = [
    "partial_statistical_parity[0.05:0.6,surrogate={},sharpness=2] <= 0.2",
    "partial_demographic_parity[0.1:0.4+0.5:0.8,surrogate={}] <= 0.1",
    "partial_equal_opportunity[0.1:0.9,a@0.2:0.6,surrogate={}] <= 0.05",
    "partial_equalized_odds[0.05:0.9,surrogate={}] <= 0.1",
]


def rows(n=240, seed=0, ties=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    group = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    y = (rng.random(n) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    s = X[:, 0] + 0.4 * (group == "a")
    return X, y, group, np.round(2 * s) / 2 if ties else s


def problem(text, seed=0, hidden=(), dtype=torch.float64, n=240):
    X, y, group, _ = rows(n, seed)
    return FairProblem(MLP(3, hidden), X, y, group, text, dtype=dtype)


def points(p, count=4, seed=0):
    made = torch.Generator().manual_seed(seed)
    return [p.start([0]) + torch.randn(p.n, generator=made, dtype=torch.float64) * size for size in (0.2, 0.5, 1, 3)][
        :count
    ]


@pytest.mark.parametrize(
    "text", ["partial_statistical_parity[0.05:0.6] <= 0.2", "partial_demographic_parity[0.1:0.4] <= 0.1"]
)
def test_cell_means_that_no_bound_uses_are_left_out(text, monkeypatch):
    """The same values and slopes as with them, of bounds and of the loss."""
    p = problem(text)
    assert not p.plan.uses_means
    assert problem([text, "demographic_parity <= 0.1"]).plan.uses_means
    assert problem([text, "group_loss <= 0.6"]).plan.uses_means
    w = torch.linspace(-1, 1, p.m, dtype=torch.float64)
    seen = [p.gradient(x, p.full(), lambda e, w0=w0: (w0, w)) for x in points(p) for w0 in (0.0, 1.0)]
    monkeypatch.setitem(p.plan.__dict__, "uses_means", True)
    also = [p.gradient(x, p.full(), lambda e, w0=w0: (w0, w)) for x in points(p) for w0 in (0.0, 1.0)]
    for (e, slope), (e2, slope2) in zip(seen, also, strict=True):
        assert (float(e.f), e.g.tolist()) == (float(e2.f), e2.g.tolist())
        torch.testing.assert_close(slope, slope2, rtol=1e-12, atol=1e-12)


# -- what is measured -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", INTERVALS)
def test_the_share_through_an_interval_is_that_of_its_rows(parts):
    """(62) by counting, on scores without ties and interval ends between rows; (63) inside a single interval."""
    rng = np.random.default_rng(1)
    scores = rng.normal(size=400)
    interval = Percentiles(parts)
    rank = np.array([(scores > s).mean() for s in scores])
    inside = np.zeros(400, dtype=bool)
    for a, b in parts:
        inside |= (rank >= a) & (rank < b)
    for theta in np.r_[-9.0, np.sort(scores)[::7], 9.0]:
        above = (scores > theta).mean()
        assert interval.through(above) == pytest.approx((scores[inside] > theta).mean(), abs=1e-12)
        if len(parts) == 1 and parts[0][0] <= above <= parts[0][1]:
            a, b = parts[0]
            assert interval.through(above) == pytest.approx((above - a) / (b - a), abs=1e-12)
    t = np.linspace(0, 1, 21)[:-1]
    assert interval.through(interval.rank(t)) == pytest.approx(t, abs=1e-12)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_statistical_parity_is_the_largest_distance_at_any_threshold(ties, weighted):
    _, y, group, s = rows(ties=ties)
    w = np.random.default_rng(3).integers(1, 5, len(s)).astype(float) if weighted else None
    interval, own = Percentiles(((0.05, 0.4),)), Percentiles(((0.1, 0.3), (0.5, 0.9)))
    of = {"a": interval, "b": own, "c": interval}
    weight = np.ones(len(s)) if w is None else w
    largest = 0.0
    for theta in np.r_[-99, np.unique(s), np.unique(s) + 1e-9]:
        T = [of[g].through(weight[(group == g) & (s > theta)].sum() / weight[group == g].sum()) for g in "abc"]
        largest = max(largest, max(T) - min(T))
    found = fb.measure(
        "partial_statistical_parity[0.05:0.4,b@0.1:0.3+0.5:0.9]", s, y, group, sample_weight=w, threshold=0
    )
    assert found == pytest.approx(largest, abs=1e-12)
    if w is not None:  # a weight is so many rows
        again = np.repeat(np.arange(len(s)), w.astype(int))
        text = "partial_statistical_parity[0.05:0.4,b@0.1:0.3+0.5:0.9]"
        assert fb.measure(text, s[again], y[again], group[again], threshold=0) == pytest.approx(found, abs=1e-12)


@pytest.mark.parametrize("ties", [False, True])
def test_a_partial_area_is_that_of_the_rows_in_the_interval(ties):
    """Groups of 100 rows, so that intervals end between rows: the mean over all pairs of rows within, ties one half."""
    rng = np.random.default_rng(0)
    s, group = rng.normal(size=200), np.repeat(["a", "b"], 100)
    s = np.where(group == "a", s + 0.3, s)
    inside = {}
    for g in "ab":
        order = np.argsort(-s[group == g])
        inside[g] = s[group == g][order[10:60]]
    if ties:  # within the interval only, so that its ends stay between rows
        inside = {g: np.round(v, 1) for g, v in inside.items()}
        for g in "ab":
            at = np.flatnonzero(group == g)[np.argsort(-s[group == g])]
            s[at[:10]], s[at[60:]], s[at[10:60]] = s[at[:10]] + 1, s[at[60:]] - 1, inside[g]
    away = inside["a"][:, None] - inside["b"]
    expected = abs(((away > 0) + 0.5 * (away == 0)).mean() - 0.5)
    assert fb.measure("partial_group_auc[0.1:0.6]", s, np.tile([0, 1], 100), group, threshold=0) == pytest.approx(
        expected
    )
    whole = fb.measure("auc_parity[group]", s, np.tile([0, 1], 100), group, threshold=0)
    assert fb.measure("partial_group_auc", s, np.tile([0, 1], 100), group, threshold=0) == pytest.approx(
        whole, abs=1e-12
    )


def test_over_all_percentiles_the_bounds_are_those_without_intervals():
    from scipy.stats import ks_2samp

    _, y, group, s = rows()
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    ks = max(ks_2samp(s[group == a], s[group == b]).statistic for a, b in pairs)
    assert fb.measure("partial_statistical_parity", s, y, group, threshold=0) == pytest.approx(ks, abs=1e-12)
    for whole, known in (
        ("partial_demographic_parity", "demographic_parity"),
        ("partial_equal_opportunity", "equal_opportunity"),
        ("partial_equalized_odds", "equalized_odds"),
    ):
        value = fb.measure(known, s, y, group, threshold=0)
        assert fb.measure(whole, s, y, group, threshold=0) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_lemma_5_1_thresholds_exist_where_parity_holds_and_else_not(seed):
    """On continuous scores, for a fine grid of ranks p: a threshold with all ranks in [p, p + kappa |I|]."""
    rng = np.random.default_rng(seed)
    n = 4001
    groups = [rng.normal(size=n), rng.normal(0.1, 1.1, size=n)]
    s, group = np.concatenate(groups), np.repeat(["a", "b"], n)
    alpha, beta = 0.1, 0.5
    value = fb.measure(f"partial_statistical_parity[{alpha}:{beta}]", s, np.tile([0, 1], n), group, threshold=0)
    _, above = exceedance(s, (group == "b").astype(int), 2)
    step = 1 / n  # of the empirical curves
    for kappa, holds in ((value + 2 * step / (beta - alpha), True), (value - 3 * step / (beta - alpha), False)):
        ranks = np.linspace(alpha, beta - kappa * (beta - alpha), 4000, endpoint=False)
        exists = [
            bool(((above.min(0) >= p - step) & (above.max(0) <= p + step + kappa * (beta - alpha))).any())
            for p in ranks
        ]
        strictly = [bool(((above.min(0) >= p) & (above.max(0) <= p + kappa * (beta - alpha))).any()) for p in ranks]
        assert all(exists) if holds else not all(strictly)


def test_lemma_5_2_demographic_parity_is_a_function_of_the_rates():
    _, y, group, s = rows()
    a, b = 0.3, 0.6
    through = {g: (min((s[group == g] > 0).mean(), b) - min((s[group == g] > 0).mean(), a)) / (b - a) for g in "abc"}
    expected = max(through.values()) - min(through.values())
    assert fb.measure(f"partial_demographic_parity[{a}:{b}]", s, y, group, threshold=0) == pytest.approx(
        expected, abs=1e-12
    )
    by_label = fb.measure("partial_equalized_odds[0.3:0.6]", s, y, group, threshold=0)
    each = []
    for label in (0, 1):
        m = y == label
        each.append(fb.measure("partial_demographic_parity[0.3:0.6]", s[m], y[m], group[m], threshold=0))
    assert by_label == pytest.approx(max(each), abs=1e-12)


# -- what is stated -------------------------------------------------------------------------------------------------------


def test_text_and_object_are_one():
    for text in (
        "partial_statistical_parity[0.05:0.3] <= 0.1",
        "partial_statistical_parity[0:0.1+0.9:1,by=race,surrogate=clip,sharpness=1,points=20] <= 0.1",
        "partial_demographic_parity[0.05:0.3,Non-White@0.1:0.4,Some@0:0.1+0.2:0.3] <= 0.02",
        "partial_equalized_odds <= 0.05",
    ):
        assert fb.constraint(text).text == text
        assert fb.constraint(fb.constraint(text).text) == fb.constraint(text)
    assert fb.constraint("partial_sp[0.05:0.30] <= 0.1").interval == Percentiles(((0.05, 0.3),))


@pytest.mark.parametrize(
    "inside, says",
    [
        ("0.3:0.05", "0 <= alpha < beta <= 1"),
        ("0.1:0.3+0.2:0.4", "must not overlap"),
        ("0.1:1.5", "0 <= alpha < beta <= 1"),
        ("0.1:0.2,0.3:0.4", "same thing twice"),
        ("5%:30%", "0.05:0.3"),
        ("a@0.1:0.2,a@0.2:0.3", "two intervals"),
        ("points=0", "points must be"),
        ("surrogate=hinge", "surrogate must be"),
        ("overall", "unknown option"),
    ],
)
def test_what_is_no_bound_is_refused(inside, says):
    with pytest.raises(OptionError, match=says):
        fb.constraint(f"partial_statistical_parity[{inside}] <= 0.1")


def test_unknown_and_empty_groups_are_named():
    _, y, group, s = rows()
    with pytest.raises(OptionError, match="none of the groups a, b, c"):
        fb.measure("partial_statistical_parity[0:0.5,z@0:0.1]", s, y, group, threshold=0)
    with pytest.raises(EmptyGroupError, match="positive row"):
        fb.measure("partial_equal_opportunity", s, np.where(group == "c", 0, y), group, threshold=0)


# -- what is trained ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STEPS)
def test_a_step_is_the_difference_of_convex_functions(name):
    step = STEPS[name](3.0)
    x = torch.linspace(-4, 4, 4001, dtype=torch.float64)
    plus, minus = step.parts(x)
    assert torch.allclose(plus - minus, step.value(x), atol=1e-12)
    for part, slope in zip((plus, minus), step.slopes(x), strict=True):
        assert part.diff().diff().min() > -1e-12  # convex on the grid
        tangents = part[::50, None] + slope[::50, None] * (x - x[::50, None])
        assert (part - tangents).min() > -1e-12  # subgradient inequality, at kinks too
    p = torch.tensor([0.2, 0.7], dtype=torch.float64)
    thresholds = torch.tensor([step.threshold(v) for v in p.tolist()], dtype=torch.float64)
    assert torch.allclose(step.value(-thresholds), p, atol=1e-12)


AREA = "partial_group_auc[0.1:0.4+0.5:0.7,a@0.05:0.5,surrogate={}] <= 0.05"


@pytest.mark.parametrize("surrogate", STEPS)
@pytest.mark.parametrize("text", [*TRAINED, AREA])
def test_parts_are_convex_and_differ_by_the_problem(text, surrogate):
    p = problem(text.format(surrogate), n=120)
    full = p.full()
    assert p.plus.convex and p.minus.convex and not p.convex
    for x in points(p)[1::2]:
        e, a, b = (q.values(x, full) for q in (p, p.plus, p.minus))
        assert torch.allclose(e.f, a.f - b.f, atol=1e-12) and torch.allclose(e.g, a.g - b.g, atol=1e-10)
        assert b.f == 0
        for part in (p.plus, p.minus):
            at, slopes = part.jacobian(x, full)
            one_by_one = [part.gradient(x, full, (0.0, w))[1] for w in torch.eye(p.m, dtype=torch.float64)]
            assert torch.allclose(slopes[1:], torch.stack(one_by_one), atol=1e-10)
            for other in points(p, seed=5)[::2]:  # subgradient inequality
                away = part.values(other, full).g - at.g - (slopes[1:] * (other - x)).sum(-1)
                assert away.min() > -1e-9
                middle = part.values((x + other) / 2, full).g
                assert (middle - (at.g + part.values(other, full).g) / 2).max() < 1e-9


@pytest.mark.parametrize("text", TRAINED)
def test_gradients_are_those_of_the_values(text):
    stated = text.format("logistic")
    X, y, group, _ = rows(120)
    make = lambda **kw: FairProblem(MLP(3), X, y, group, stated, **({"dtype": torch.float64} | kw))  # noqa: E731
    check_gradient(make, kinds=("balanced", "full"), batch_size=60, points=1)
    check_gradient(make, kinds=("full",), batch_size=60, seeds=(0, 1), points=1)
    network = problem(stated, hidden=(4,))
    assert network.plus is not None and not network.plus.convex
    for p in (problem(stated), network, network.minus):
        for batch in (p.full(), p.sample([0], "a", 0, 60, "balanced")):
            x, dx = points(p, 2)
            slopes = p.jacobian(x, batch)[1]
            assert torch.allclose(p.jvp(x, batch, dx - x), slopes @ (dx - x), atol=1e-10)


def test_gradients_of_partial_areas_are_those_of_the_values():
    X, y, group, _ = rows(60)
    for surrogate in STEPS:
        stated = f"partial_group_auc[0.1:0.7,surrogate={surrogate}] <= 0.05"
        make = lambda **kw: FairProblem(MLP(3), X, y, group, stated, **({"dtype": torch.float64} | kw))  # noqa: B023, E731
        p = make()
        for x in points(p, 3):  # a step so small that no two rows change places
            slopes = p.jacobian(x, p.full())[1]
            for j in range(p.n):
                step = torch.zeros_like(x)
                step[j] = 1e-8
                change = (p.values(x + step, p.full()).g - p.values(x - step, p.full()).g) / 2e-8
                assert torch.allclose(slopes[1:, j], change, atol=1e-6)
        assert p.m == 6 and p.values(p.start([0]), p.full()).g == pytest.approx(-0.05 * np.ones(6))


@pytest.mark.parametrize("text", [*TRAINED, "partial_group_auc[0.1:0.7,surrogate={}] <= 0.05"])
def test_the_true_value_is_the_metric(text):
    stated = fb.constraint(text.format("clip"))
    X, y, group, _ = rows()
    p = problem(stated)
    for x in points(p):
        s = p.model.scores(x[: p.model.n], torch.as_tensor(X)).numpy()
        value = fb.measure(stated, s, y, group, threshold=0)
        assert float(p.evaluate(x).g.max()) == pytest.approx(value - stated.bound, abs=1e-9)
        assert float(p.evaluate(x).extra["stated"][0]) == pytest.approx(value, abs=1e-9)
        assert float(p.values(x, p.full(), true=True).g.max()) == pytest.approx(value - stated.bound, abs=1e-9)


@pytest.mark.parametrize("points, bound", [(3, 0.2), (6, 0.1)])
def test_a_threshold_stands_for_the_scores_nearest_to_its_rank(points, bound):
    """Against a loop over all scores: how far the shares of two groups lie from the middle of both, where they lie furthest; the
    slack side is smaller by twice as much as the threshold lies beside the middle of its ranks."""
    X, y, group, _ = rows(400)
    X, y, group = X[group != "c"], y[group != "c"], group[group != "c"]
    text = f"partial_statistical_parity[0:1,points={points}] <= {bound}"
    p = FairProblem(MLP(3), X, y, group, text, dtype=torch.float64)
    centre = (1 - bound) * np.arange(1, points + 1) / (points + 1) + bound / 2
    for seed in range(4):
        x = p.start([0])
        x[:3] = torch.randn(3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        s = p.model.scores(p.split(x)[0], torch.as_tensor(X)).numpy()

        def shares(theta, s=s):
            return np.array([(s[group == g] > theta).mean() for g in "ab"])

        middles = np.array([shares(t).mean() for t in s])
        x[-points:] = torch.tensor([s[abs(middles - c).argmin()] + 0.05 * i for i, c in enumerate(centre)])
        at = np.array([shares(float(t)) for t in x[-points:]])
        largest = 2 * at - at.sum(1, keepdims=True)
        smallest = largest.copy()
        for t in s:
            zone, away = abs(shares(t).mean() - centre).argmin(), 2 * shares(t) - shares(t).sum()
            largest[zone], smallest[zone] = np.maximum(largest[zone], away), np.minimum(smallest[zone], away)
        beside = at.sum(1, keepdims=True) - 2 * centre[:, None]
        upper, lower = largest - 2 * np.maximum(-beside, 0), -smallest - 2 * np.maximum(beside, 0)
        g = p.values(x, p.full(), true=True).g.numpy() + bound
        assert g == pytest.approx(np.concatenate([upper.T.ravel(), lower.T.ravel()]), abs=1e-9)
        assert g.max() == pytest.approx(fb.measure("partial_statistical_parity", s, y, group, threshold=0), abs=1e-9)


def test_the_constant_score_meets_the_surrogate():
    for surrogate in STEPS:
        for interval in ("0.05:0.3", "0:0.25", "0.7:1", "0:1"):
            p = problem(f"partial_statistical_parity[{interval},surrogate={surrogate}] <= 0.1")
            assert p.values(p.start([0]), p.full()).g.max() < 0


def test_a_grid_met_at_every_level_bounds_the_distance():
    """Where a steep step of training meets the bound at P levels, the curves are within kappa + (1 - kappa) / (P + 1)."""
    rng = np.random.default_rng(0)
    for kappa in (0.3, 0.5):
        text = f"partial_statistical_parity[0.1:0.6,surrogate=clip,sharpness=1e6,points=9] <= {kappa}"
        X, y, group, _ = rows(600)
        p = FairProblem(MLP(3), X, y, group, text, dtype=torch.float64)
        met = 0
        for _ in range(60):
            w = rng.normal(size=3) * [1, 1, 1]
            s = X @ w
            _, above = exceedance(s, np.unique(group, return_inverse=True)[1], 3)
            distinct = np.sort(np.unique(s))[::-1]
            stat = p.plan.statistics[0]
            low, high, _ = stat._ranks
            worst = np.maximum(
                (above[:, None, :] - high[:, :, None]).max(0), (low[:, :, None] - above[:, None, :]).max(0)
            )
            theta = distinct[worst.argmin(-1)] + 1e-5  # just above a score, so that no step is cut
            x = torch.cat([torch.as_tensor(np.r_[w, 0.0]), torch.as_tensor(theta)])
            if p.values(x, p.full()).g.max() <= 0:
                met += 1
                value = fb.measure(text, s, y, group, threshold=0)
                assert value <= kappa + (1 - kappa) / 10 + 2 / (0.5 * 100)  # and a row or two of the smallest group
        assert met > 2


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("partial_statistical_parity[0.1:0.5] <= 0.1", marks=pytest.mark.long),
        "partial_demographic_parity[0.1:0.5] <= 0.05",
    ],
)
def test_a_classifier_meets_the_true_bound_on_its_rows(text):
    X, y, group, _ = rows(800)
    X = np.column_stack([X, group == "a", group == "b"]).astype(float)
    y = np.where(np.random.default_rng(4).random(800) < 0.3, (group == "a").astype(int), y)
    free = fb.FairClassifier(random_state=0).fit(X, y)
    held = fb.FairClassifier(text, random_state=0, budget="4 steps").fit(X, y, sensitive_features=group)
    of = lambda m: fb.measure(text, m.decision_function(X), y, group, threshold=0)  # noqa: E731
    assert of(free) > 0.3
    assert of(held) <= fb.constraint(text).bound + 1e-6
    assert (held.predict(X) == y).mean() > max(y.mean(), 1 - y.mean()) + 0.03


# -- verdicts -------------------------------------------------------------------------------------------------------------


def test_band_widths_are_massarts():
    assert band_widths([100.0], 0.05) == pytest.approx(np.sqrt(np.log(40) / 200))
    assert band_widths([100.0, 400.0], 0.05) == pytest.approx([np.sqrt(np.log(80) / 200), np.sqrt(np.log(80) / 800)])
    assert band_widths([0.0], 0.05) == [1.0]


@pytest.mark.parametrize("samples", [80, pytest.param(300, marks=pytest.mark.long)])
def test_bands_cover_the_true_distance(samples):
    """Two groups whose true distance on [0.2, 0.6) is known; the bounds fail in at most 5 % of samples, up to 3 standard
    errors of so many of them (DKW is conservative, so they fail in far fewer)."""
    from scipy.stats import norm

    interval, rng = Percentiles(((0.2, 0.6),)), np.random.default_rng(0)
    theta = np.linspace(-6, 6, 20001)
    truth = np.abs(interval.through(norm.sf(theta, 0.3)) - interval.through(norm.sf(theta))).max()
    below = above = 0
    for _ in range(samples):
        s = np.concatenate([rng.normal(0.3, 1, 300), rng.normal(size=500)])
        found = fb.audit(s, np.tile([0, 1], 400), np.repeat(["a", "b"], [300, 500]),
                         "partial_statistical_parity[0.2:0.6] <= 1", threshold=0)["constraints"][0]  # fmt: skip
        assert found["lower"] <= found["value"] <= found["upper"]
        above += found["lower"] > truth
        below += found["upper"] < truth
    most = 0.05 + 3 * np.sqrt(0.05 * 0.95 / samples)
    assert below / samples <= most and above / samples <= most


def test_verdicts_say_what_rows_show():
    rng = np.random.default_rng(0)
    group = np.repeat(["a", "b"], 20_000)
    s = rng.normal(size=40_000)
    text = "partial_statistical_parity[0.1:0.6] <= {}"

    def judge(s, limit):
        return fb.audit(s, np.tile([0, 1], 20_000), group, text.format(limit), threshold=0)["constraints"][0]

    assert judge(s, 0.1)["verdict"] == "met"
    assert judge(s + (group == "a"), 0.1)["verdict"] == "violated"
    unsure = judge(s, 0.02)
    assert unsure["verdict"] == "insufficient" and unsure["rows_needed"] > 40_000
    assert unsure["worst"] in ("a above b", "b above a")


# -- groups with few rows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interval", ["0.05:0.3", "0:1", "0.1:0.2+0.6:0.9"])
@pytest.mark.parametrize("few", [1, 3, 7, 20])
def test_few_scores_of_their_own_are_so_far_from_any_other_group(interval, few):
    """No score of one group tied with one of the other: half the largest jump, but for the other group's own steps."""
    bound = fb.constraint(f"partial_statistical_parity[{interval}] <= 0.1")
    least = bound.step_of(few) - 0.5 / 4000 / bound.interval.length
    group = np.repeat(["a", "b"], [4000, few])
    for seed in range(10):
        rng = np.random.default_rng(seed)
        many = np.sort(rng.normal(size=4000))
        spread = many[(4000 * (1 - (np.arange(few) + rng.random(few)) / few)).astype(int)] + 1e-9
        for s in (spread, rng.normal(size=few)):
            scores = np.concatenate([many, s])
            assert fb.measure(bound, scores, np.arange(len(group)) % 2, group, threshold=0) >= least - 1e-12


def test_a_bound_that_few_rows_cannot_meet_is_said_and_ends_soon():
    rng = np.random.default_rng(0)
    X, group = rng.integers(0, 2, (64, 2)), np.repeat(["a", "b"], [60, 4])
    y = X[:, 0] ^ (rng.random(64) < 0.1)
    text = "partial_statistical_parity[0.05:0.3,points=1] <= 0.1"
    model = fb.FairClassifier(text, random_state=0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(X, y, sensitive_features=group)
    assert any("4 scores are 0.4 from another group's at least" in str(w.message) for w in said)
    assert model.fit_report_["steps"] == 10
    assert any("10 steps" in note for note in model.fit_report_["notes"])
    stated = ["partial_demographic_parity[0:0.5] <= 0.3", "demographic_parity <= 0.3", text]
    problem = FairProblem(MLP(2), X, y, group, stated)
    found = [found.said for found in bounds_below_a_step(problem.plan, problem.counts_of_cells())]
    assert [said.split(":")[0] for said in found] == ["partial_demographic_parity[0", "partial_statistical_parity[0.05"]
    assert "moves in steps of 0.5." in found[0]
    problem = FairProblem(MLP(2), X, y, np.repeat(["a", "b"], 32), text)
    assert not bounds_below_a_step(problem.plan, problem.counts_of_cells())
