"""The augmented Lagrangian on all rows: against known multipliers and a known frontier, and what it promises of bounds, of its
start and of the classifier built on it."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import fairbound as fb
from fairbound.base.errors import DataWarning, OptionError
from fairbound.data.generator import GaussianParity
from fairbound.estimators import problems, training
from fairbound.estimators.linear import full_batch
from fairbound.estimators.networks.last_layer import last_layer
from fairbound.fairness.objectives import Accuracy
from fairbound.methods.full_batch_alm import LEAST, _by_secant
from fairbound.models.model import MLP
from fairbound.problems.problem import Draws
from twelve_rows import convex_fair

GAUSSIAN = GaussianParity(nuisance=0)
TIGHT = "equalized_odds <= 0.02"


def one_hot(n: int, seed: int):
    """Five columns of categories, two groups with other shares of them, and labels that follow both."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    columns = [(rng.random(n) * (4 + group) + rng.random(n) * j).astype(int) for j in range(5)]
    score = sum(c * (1 - 0.3 * j) for j, c in enumerate(columns)) - 3 + 0.8 * group
    y = (score + rng.logistic(size=n) * 1.5 > 0).astype(int)
    X = pd.DataFrame({f"c{j}": c.astype(str) for j, c in enumerate(columns)})
    return X, y, np.where(group == 1, "a", "b")


def gap(positive, group):
    rates = [positive[group == g].mean() for g in np.unique(group)]
    return max(rates) - min(rates)


def test_the_first_multipliers_are_those_of_the_optimum():
    """At a KKT point the least-squares multipliers solve grad f + J' y = 0 exactly; those of the twelve rows are known to
    3e-17, and where no bound is near they are 0."""
    problem = convex_fair()
    method = fb.FullBatchALM(dual_values="surrogate", sharpness=(1.0,))
    everything = Draws(problem, (0,), 1, "full")
    state = method.init(problem, problem.optimum.x.clone(), everything)
    assert torch.allclose(state.multipliers, problem.optimum.multipliers, atol=1e-12, rtol=0)
    assert not method.init(problem, torch.zeros(problem.n, dtype=torch.float64), everything).multipliers.any()


def test_multipliers_make_the_point_of_a_round_stationary():
    """Where a round is solved to its end, grad f + y . grad g^s is 0 with the multipliers that it hands on."""
    X, y, group = one_hot(1000, 0)
    features = fb.TableEncoder().fit_transform(X)
    problem = fb.FairProblem(MLP(features.shape[1]), features, y, group, TIGHT, dtype=torch.float64)
    method, draws = (
        fb.FullBatchALM(sharpness=(3.0,), iterations=400, dual_values="shifted"),
        Draws(problem, (0,), 1, "full"),
    )
    state = method.init(problem, problem.start((0,)), draws)
    for _ in range(3):
        state = method.step(state, problem, draws)
        assert state.multipliers.any()
        slope = problem.sharpened(3.0).gradient(state.x, problem.full(), (1.0, state.multipliers))[1]
        assert slope.norm() < 2e-3


def test_a_penalty_that_is_too_small_grows_until_a_round_takes_a_quarter_of_what_exceeds_the_bound():
    """By the rule of the module's docstring, recomputed from what each round leaves; and the multipliers follow it."""
    problem, least = convex_fair(), 1e-3
    draws = Draws(problem, (0,), 1, "full")
    method = fb.FullBatchALM(dual_values="surrogate", sharpness=(1.0,), penalty=least)
    state, grown = method.init(problem, problem.start((0,)), draws), []
    before = torch.full((problem.m,), torch.inf, dtype=torch.float64)
    factor = torch.ones(problem.m, dtype=torch.float64)
    for _ in range(8):
        y, margin = state.multipliers, state.margin
        state = method.step(state, problem, draws)
        g = problem.values(state.x, problem.full()).g
        moved = (y + least * factor * problem.dual_scale * (g + margin)).clamp_min(0)
        torch.testing.assert_close(state.multipliers, moved)
        for i in range(problem.m):
            if before[i] > 0 and g[i] > 0.75 * before[i]:
                factor[i] = min(4 * float(factor[i]), 16.0)
        before = g
        assert torch.equal(state.growth, factor)
        grown.append(float(factor.max()))
    assert grown[0] == 1.0 and 4.0 in grown and grown[-1] == 16.0
    assert (state.growth[problem.optimum.multipliers == 0] == 1).all()
    for excess, wanted in ((-1.0, 1.0), (torch.inf, 1.0), (1e-9, 4.0)):
        state = method.init(problem, problem.start((0,)), draws)
        state.excess.fill_(excess)
        state = method.step(state, problem, draws)
        assert float(state.growth[problem.values(state.x, problem.full()).g > 0].max()) == wanted


def test_rounds_outside_that_change_little_count_once_the_bounds_were_met():
    X, y, group = one_hot(300, 1)
    features = fb.TableEncoder().fit_transform(X)
    problem = fb.FairProblem(MLP(features.shape[1]), features, y, group, TIGHT, dtype=torch.float64)
    draws = Draws(problem, (0,), 1, "full")
    for tolerance, lowest, idle in ((10.0, 1.0, 1), (10.0, float("inf"), 0), (1e-4, 1.0, 0)):
        method = fb.FullBatchALM(sharpness=(3.0,), margin=0.0, tolerance=tolerance, dual_values="shifted")
        state = method.init(problem, problem.start((0,)), draws)
        state.lowest.fill_(lowest)
        state = method.step(state, problem, draws)
        assert problem.values(state.x, problem.full(), true=True).g.max() > 0
        assert int(state.idle) == idle


@pytest.mark.parametrize("keep", [True, False])
def test_curvature_is_kept_from_round_to_round_where_it_is_asked_for(keep):
    """Otherwise a round is the same whatever the round before knew, and so it always is where surrogates sharpen."""
    X, y, group = one_hot(300, 1)
    features = fb.TableEncoder().fit_transform(X)
    problem = fb.FairProblem(MLP(features.shape[1]), features, y, group, TIGHT, dtype=torch.float64)
    method, draws = fb.FullBatchALM(keep_curvature=keep, iterations=2), Draws(problem, (0,), 1, "full")
    state = method.init(problem, problem.start((0,)), draws)
    for k in range(3):
        assert state.pairs.any() == (keep and k > 0) and state.pairs.shape[-1] == (problem.n if keep else 0)
        without = replace(state, x=state.x.clone(), pairs=torch.zeros_like(state.pairs))
        after, state = method.step(without, problem, draws), method.step(state, problem, draws)
        assert torch.equal(after.x, state.x) == (not keep or k != 1)


def test_surrogates_and_offsets_are_the_metric_after_every_round():
    X, y, group = one_hot(1000, 0)
    features = fb.TableEncoder().fit_transform(X)
    problem = fb.FairProblem(MLP(features.shape[1]), features, y, group, TIGHT, dtype=torch.float64)
    method, draws = fb.FullBatchALM(), Draws(problem, (0,), 1, "full")
    state = method.init(problem, problem.start((0,)), draws)
    for k in range(6):
        x = state.x.clone()
        sharp = problem.sharpened(method.sharpness[min(max(k - 1, 0) // 2, 2)])
        trained, true = (p.values(x, problem.full(), true=t).g for p, t in ((sharp, False), (problem, True)))
        assert torch.allclose(trained + state.offset, true, atol=1e-12)
        state = method.step(state, problem, draws)


def test_offsets_go_a_share_of_the_way_at_the_last_sharpness():
    X, y, group = one_hot(1000, 0)
    features = fb.TableEncoder().fit_transform(X)
    problem = fb.FairProblem(MLP(features.shape[1]), features, y, group, TIGHT, dtype=torch.float64)
    draws, after = Draws(problem, (0,), 1, "full"), {}
    for share in (1.0, 0.25):
        method = fb.FullBatchALM(sharpness=(3.0,), relaxation=share)
        first = method.init(problem, problem.start((0,)), draws)
        after[share] = method.step(first, problem, draws)
    assert torch.equal(after[1.0].x, after[0.25].x) and not torch.equal(after[1.0].offset, first.offset)
    assert torch.allclose(after[0.25].offset, first.offset + 0.25 * (after[1.0].offset - first.offset), atol=1e-12)
    state = fb.FullBatchALM(sharpness=(3.0,)).init(problem, problem.start((0,)), draws)
    for _ in range(6):
        state = fb.FullBatchALM(sharpness=(3.0,)).step(state, problem, draws)
    assert (state.share == 1).all()
    early = fb.FullBatchALM(sharpness=(3.0, 4.0), relaxation=0.25)
    assert torch.equal(
        early.step(early.init(problem, problem.start((0,)), draws), problem, draws).offset, after[1.0].offset
    )
    for wrong in (0.0, 1.5, float("nan")):
        with pytest.raises(OptionError, match="relaxation must"):
            fb.FullBatchALM(relaxation=wrong)


@pytest.mark.parametrize("pace", [0.5, 1.0, 2.5, 6.0])
def test_a_secant_closes_a_gap_that_changes_at_one_pace(pace):
    """A gap e(c) = 1 - pace c, whose offset goes all the way first, is closed by the second step, where that is at least LEAST
    of the way and not more than all of it; else the step is cut there. What does not fall is followed as before."""
    one, offset, share = torch.ones(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64), torch.ones(1)
    before = one - pace * offset
    offset = offset + share * before
    gap = one - pace * offset
    share = _by_secant(share, before, gap, 1.0)
    assert share == pytest.approx(min(1 / pace, 1.0))
    assert float(one - pace * (offset + share * gap)) == pytest.approx(0.0 if pace >= 1 else (1 - pace) ** 2)
    assert float(_by_secant(share, gap, 2 * gap, 1.0)) == float(share) == float(_by_secant(share, 0 * gap, gap, 1.0))
    far = _by_secant(one, one, torch.full_like(one, -99.0), 0.5)
    assert float(far) == pytest.approx(0.5 * LEAST)


def test_a_margin_does_not_take_what_an_offset_has_yet_to_go():
    """Numbers with a few far values: the metric changes several times as fast as its surrogate at first, and rounds are outside
    while the offset follows. Margins that double there would keep a third of the bound for good."""
    rng = np.random.default_rng(2)
    group = rng.integers(0, 2, 4000)
    X = rng.standard_t(2, (4000, 4)) + np.outer(group, [2.0, 0, 0, 0])
    y = (X @ [0.5, 0.5, 0.2, 0.0] + rng.logistic(size=4000) > 0.5).astype(int)
    fair = fb.FairClassifier("demographic_parity <= 0.1", options=fb.TableOptions(knots=0)).fit(X, y, group)
    assert fair.fit_report_["feasible"] and gap(fair.predict(X), group) > 0.098


@pytest.mark.parametrize("grows", ["doubled", "after_offsets", "by_excess"])
def test_a_margin_grows_by_the_rule_that_is_asked_for(grows):
    """Recomputed from what each round leaves, with surrogates that agree with the metric, so that no offset has to go."""
    problem, draws = convex_fair(), Draws(convex_fair(), (0,), 1, "full")
    method = fb.FullBatchALM(dual_values="surrogate", sharpness=(1.0,), penalty=0.5, margin=1e-3, margin_grows=grows)
    state, rose = method.init(problem, problem.start((0,)), draws), 0
    most = torch.maximum(state.margin, 0.5 * problem.bounds)
    for _ in range(6):
        before = state.margin
        state = method.step(state, problem, draws)
        g = problem.values(state.x, problem.full()).g
        larger = torch.maximum(2 * before, before + g) if grows == "by_excess" else 2 * before
        torch.testing.assert_close(state.margin, torch.where(g > 0, torch.minimum(larger, most), before))
        rose += int((state.margin > 2 * before).any())
    assert bool(rose) == (grows == "by_excess")


def test_a_run_whose_margins_grow_by_excess_ends_where_it_comes_inside_from_outside():
    """And not where it was inside from the first round on, as it need not be at its lowest objective there."""
    problem = convex_fair()
    draws = Draws(problem, (0,), 1, "full")
    method = fb.FullBatchALM(dual_values="surrogate", sharpness=(1.0,), patience=3, margin_grows="by_excess")
    state, outside = method.init(problem, problem.start((0,)), draws), []
    while not state.halted:
        state = method.step(state, problem, draws)
        outside.append(bool((problem.values(state.x, problem.full()).g > 0).any()))
    assert outside[0] and outside == [True] * (len(outside) - 1) + [False]
    X, y, group = one_hot(300, 1)
    features = fb.TableEncoder().fit_transform(X)
    loose = fb.FairProblem(MLP(features.shape[1]), features, y, group, "demographic_parity <= 0.9")
    assert fb.solve(loose, method, budget="20 steps").steps >= 3


def test_offsets_of_a_gentle_surrogate_settle_where_few_rows_are_bounded():
    """The rates of the small group's rare positives change several times as fast as their gentle surrogate: offsets that go all
    the way send the model to and fro until the last of 40 rounds (as multipliers of the metric do, which know no secant)."""
    rng = np.random.default_rng(0)
    small = rng.random(6000) < 0.1
    X = rng.normal(size=(6000, 3)) + np.outer(small, [0, 1, 0])
    y = (X @ [1, 1, 0.5] + 0.5 * rng.logistic(size=6000) > 3.5).astype(int)
    options = {"objective": "loss", "weight_decay": 0, "options": fb.TableOptions(knots=0)}
    model = fb.FairClassifier("equal_opportunity <= 0.03", algorithm="full_batch_alm:rates", **options)
    model.fit(X, y, np.where(small, "a", "b"))
    assert model.fit_report_["feasible"] and model.fit_report_["steps"] <= 20


def test_objective_auto_takes_gentle_surrogates_of_decisions_about_groups():
    """Those are hardly nearer to the error rate than the loss is, so that it stays at the lowest loss there."""
    X, y, group = one_hot(600, 0)
    for objective, last in (("auto", 1.0), ("loss", 8.0), ("accuracy", 8.0)):
        fair = fb.FairClassifier("demographic_parity <= 0.1", objective=objective).fit(X, y, group)
        assert fair.solution_.method.sharpness[-1] == last and fair.solution_.method.dual_values == "shifted"
        assert bool(fair.fit_report_["optimality"]["error_share"]) == (objective == "accuracy")
    features = fb.TableEncoder().fit_transform(X)
    usual = fb.FullBatchALM()
    of = {
        "classes": fb.FairProblem(MLP(features.shape[1]), features, y, None, "error of class 1 <= 0.1"),
        "few rows": fb.FairProblem(MLP(1), (features[:, :1] > 0).astype(float), y, group, TIGHT),
        "rates": fb.FairProblem(MLP(features.shape[1]), features, y, group, TIGHT),
    }
    for name, problem in of.items():
        method = full_batch.suited(usual, problem, "auto")
        assert method.dual_values == "shifted" and method.sharpness == ((1.0,) if name == "rates" else usual.sharpness)


@pytest.mark.filterwarnings("ignore:Column .* is the sensitive attribute")  # the group is a feature on purpose
@pytest.mark.parametrize(
    ("seed", "bound"), [(0, 0.02), *(pytest.param(*p, marks=pytest.mark.long) for p in ((0, 0.1), (1, 0.02), (1, 0.1)))]
)
def test_it_reaches_the_known_frontier(seed, bound):
    """With equal separations the best rule of (signal, group) under parity is linear, and its accuracy a sum of normal tails.
    Three numbers fitted to the mean of n smooth losses lose about 3 / n = 0.0001 of it, and the decisions' own noise
    n^(-2/3) = 0.001 (Kim and Pollard 1990): held to the frontier at the disparity that the fitted rule itself has."""
    rows = GAUSSIAN.sample(30_000, seed=seed)
    group = rows.group("group")
    model = fb.FairClassifier(f"demographic_parity <= {bound}", objective="accuracy").fit(rows.X, rows.y, group)
    assert model.fit_report_["algorithm"] == "full_batch_alm"
    assert gap(model.predict(rows.X), group) <= bound + 1e-12
    at = model.decision_function(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    thresholds = (-at[0] / (at[1] - at[0]), -at[2] / (at[1] - at[0]))
    accuracy, rates = GAUSSIAN.evaluate(thresholds)
    assert accuracy >= GAUSSIAN.frontier(max(rates) - min(rates)).accuracy - 0.001


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("objective", ["auto", "loss", "accuracy"])
def test_tight_bounds_on_categories_are_met_by_a_model_that_is_no_constant(seed, objective):
    X, y, group = one_hot(3000, seed)
    model = fb.FairClassifier(TIGHT, objective=objective).fit(X, y, group)
    positive = model.predict(X)
    assert max(gap(positive[y == label], group[y == label]) for label in (0, 1)) <= 0.02 + 1e-12
    assert model.fit_report_["feasible"] and model.fit_report_["best_step"] > 0
    free = LogisticRegression(max_iter=1000).fit(pd.get_dummies(X), y).score(pd.get_dummies(X), y)
    constant = max(y.mean(), 1 - y.mean())
    assert (positive == y).mean() > constant + 0.5 * (free - constant)


def test_accuracy_rises_and_the_order_of_scores_is_kept():
    X, y, group = one_hot(6000, 0)
    steep = {"weight_decay": 0, "algorithm": fb.FullBatchALM(dual_values="shifted")}
    of = {
        objective: fb.FairClassifier("demographic_parity <= 0.03", objective=objective, **steep).fit(X, y, group)
        for objective in ("loss", "auto", "accuracy")
    }
    accuracy = {name: (model.predict(X) == y).mean() for name, model in of.items()}
    area = {name: roc_auc_score(y, model.decision_function(X)) for name, model in of.items()}
    assert accuracy["loss"] < accuracy["accuracy"] and accuracy["loss"] <= accuracy["auto"]
    assert area["auto"] >= area["loss"] - full_batch.AUC_LOSS
    losses = {name: model.fit_report_["train_loss"] for name, model in of.items()}
    assert losses["loss"] < losses["accuracy"]


def test_without_a_bound_the_lowest_loss_is_that_of_logistic_regression():
    X, y, _ = one_hot(3000, 1)
    ours = fb.FairClassifier(objective="loss", weight_decay=0).fit(X, y)
    features, _ = ours.encode(X)
    peer = LogisticRegression(C=np.inf, max_iter=5000, tol=1e-10).fit(features.numpy().astype(float), y)
    s = peer.decision_function(features.numpy().astype(float))
    least = (np.logaddexp(0, s) - y * s).mean()
    assert least - 1e-6 <= ours.fit_report_["train_loss"] <= least + 1e-4


def test_a_bound_that_does_not_bind_costs_nothing():
    X, y, group = one_hot(3000, 2)
    free = fb.FairClassifier().fit(X, y)
    loose = fb.FairClassifier("demographic_parity <= 0.9").fit(X, y, group)
    assert abs((free.predict(X) == y).mean() - (loose.predict(X) == y).mean()) <= 0.0005 + 1 / len(y)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_run_that_begins_at_a_solution_knows_its_multipliers(seed):
    """The least-squares multipliers at a solution are the slope of the lowest loss there: moving the bound by a tenth moves
    it by about that, the curve being convex."""
    X, y, group = one_hot(4000, seed)
    features = fb.TableEncoder().fit_transform(X)

    def problem(bound):
        return fb.FairProblem(MLP(features.shape[1]), features, y, group, f"demographic_parity <= {bound}")

    method = fb.FullBatchALM(tolerance=1e-6, patience=4, dual_values="shifted")
    tight, loose = (fb.solve(problem(bound), method, budget="60 steps") for bound in (0.05, 0.06))
    at = problem(0.05)
    state = fb.FullBatchALM(sharpness=(8.0,)).init(at, tight.x, Draws(at, (0,), 1, "full"))
    slope = float(at.evaluate(tight.x).f - problem(0.06).evaluate(loose.x).f) / 0.01
    assert float(state.multipliers.max()) == pytest.approx(slope, rel=0.5)


def test_a_large_table_begins_with_a_part_of_its_rows(monkeypatch):
    X, y, group = one_hot(6000, 4)
    whole = fb.FairClassifier("demographic_parity <= 0.03").fit(X, y, group)
    monkeypatch.setattr(problems, "MANY_ROWS", 3000)
    monkeypatch.setattr(problems, "PART_ROWS", 1500)
    parted = fb.FairClassifier("demographic_parity <= 0.03").fit(X, y, group)
    for fair in (parted, fb.FairClassifier("demographic_parity <= 0.03", objective="loss").fit(X, y, group)):
        method = fair.solution_.method  # rounds on all rows are short where surrogates are gentle
        short = method.iterations == full_batch.FEW_ITERATIONS and method.margin_grows == "by_excess"
        assert short == (fair is parted)
    assert gap(parted.predict(X), group) <= 0.03 + 1e-12
    assert (parted.predict(X) == y).mean() > (whole.predict(X) == y).mean() - 0.01
    strata = np.array([[0]] * 5999 + [[1]])
    assert 5999 in problems.part_of(6000, strata, seed=0)


def test_sharper_surrogates_are_nearer_to_the_metric_and_share_the_rows():
    rng = np.random.default_rng(0)
    problem = fb.FairProblem(
        MLP(3), rng.normal(size=(400, 3)), rng.integers(0, 2, 400), rng.choice(["a", "b"], 400),
        "demographic_parity <= 0.1", objective=Accuracy(0.5), dtype=torch.float64,
    )  # fmt: skip
    x, everything = torch.tensor([1.0, -2.0, 0.5, 0.1], dtype=torch.float64), problem.full()
    true = problem.values(x, everything, true=True)
    off = [float((problem.sharpened(k).values(x, everything).g - true.g).abs().max()) for k in (1, 10, 100, 1e4)]
    assert off == sorted(off, reverse=True) and off[-1] < 1e-3
    assert problem.sharpened(3).features is problem.features
    whole = problem.with_objective(Accuracy(1.0))
    assert whole.features is problem.features
    assert float(whole.evaluate(x).f) == pytest.approx(1 - float(whole.evaluate(x).extra["accuracy"]))
    half = 0.5 * float(problem.evaluate(x).extra["loss"]) + 0.5 * float(whole.evaluate(x).f)
    assert float(problem.evaluate(x).f) == pytest.approx(half)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sharpness": ()}, "sharpness"),
        ({"sharpness": (1.0, -2.0)}, "sharpness"),
        ({"iterations": 0}, "iterations"),
        ({"margin": 1.0}, "margin"),
        ({"dual_values": "both"}, "dual_values"),
        ({"margin_grows": "twice"}, "margin_grows"),
    ],
)
def test_wrong_options_name_themselves(options, said):
    with pytest.raises(OptionError, match=said):
        fb.FullBatchALM(**options)
    with pytest.raises(OptionError, match="share"):
        Accuracy(1.5)


@pytest.mark.parametrize("bias", [True, False])
def test_the_curvature_is_the_second_moment_of_the_features_dense_or_sparse(bias):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 4)) * (rng.random((200, 4)) < 0.5), rng.integers(0, 2, 200)
    rows = np.column_stack([X, np.ones(200)]) if bias else X
    for features in (X, sparse.csr_matrix(X)):
        problem = fb.FairProblem(MLP(4, bias=bias), features, y, dtype=torch.float64)
        assert np.allclose(problem.curvature(), rows.T @ rows / 200, atol=1e-12)
        three = fb.FairProblem(MLP(4, bias=bias, outputs=3), features, y, loss="cross_entropy", dtype=torch.float64)
        places = np.arange(three.n)
        of_score = np.column_stack([places[:12].reshape(3, 4), places[12:]]) if bias else places.reshape(3, 4)
        expected = np.zeros((three.n, three.n))
        for own in of_score:
            expected[np.ix_(own, own)] = rows.T @ rows / 200
        assert np.allclose(three.curvature(), expected, atol=1e-12)
    assert fb.FairProblem(MLP(4, (3,)), X, y).curvature() is None


# -- the last layer of a network ------------------------------------------------------------------------------


def network(stated, X, y, group, **options):
    return fb.FairClassifier(stated, model="mlp:16,8", budget="400 steps", **options).fit(X, y, group)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_the_last_layer_meets_a_bound_that_random_batches_miss_or_pay_more_for(seed):
    X, y, group = one_hot(3000, seed)
    on_batches = network(TIGHT, X, y, group, algorithm="alm", random_state=seed)
    finished = network(TIGHT, X, y, group, random_state=seed)
    positive = finished.predict(X)
    assert max(gap(positive[y == label], group[y == label]) for label in (0, 1)) <= 0.02 + 1e-12
    assert finished.fit_report_["feasible"]
    if on_batches.fit_report_["feasible"]:
        assert (positive == y).mean() >= (on_batches.predict(X) == y).mean()
    assert any("last layer" in note for note in finished.fit_report_["notes"])


@pytest.mark.filterwarnings("ignore:The model gives:sklearn.exceptions.ConvergenceWarning")  # few rows, a tight bound
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_of_layers_trained_with_and_without_bounds_the_better_model_is_taken(monkeypatch, seed):
    X, y, group = one_hot(1500, seed)
    both = []

    def kept(first, second, *others):
        both.extend([first, second])
        return better(first, second, *others)

    better = training.better
    monkeypatch.setattr(training, "better", kept)
    model = network(TIGHT, X, y, group, random_state=seed, validation=0)
    assert [one.method.name for one in both] == ["alm", "sgd"]
    of = [(one.solution.found, float(one.problem.evaluate(one.solution.x).extra["accuracy"])) for one in both]
    assert model.fit_report_["feasible"]
    assert (model.predict(X) == y).mean() == pytest.approx(max(of)[1], abs=1e-6)
    assert any("without bounds (sgd)" in note for note in model.fit_report_["notes"]) == (of[1] > of[0])


@pytest.mark.parametrize("thin", [False, True])
def test_the_last_layer_s_problem_has_the_network_s_scores(thin):
    rng = np.random.default_rng(0)
    X, y, group = (
        rng.normal(size=(300, 4)) * (rng.random((300, 4)) < 0.5),
        rng.integers(0, 2, 300),
        rng.choice(["a", "b"], 300),
    )
    weight = rng.random(300)
    problem = fb.FairProblem(
        MLP(4, (6, 5)), sparse.csr_matrix(X) if thin else X, y, group, "equalized_odds <= 0.1",
        sample_weight=weight, dtype=torch.float64,
    )  # fmt: skip
    x = problem.start((0,))
    own = last_layer(problem, x, "no")
    assert own.n == 6
    ours, whole = own.evaluate(x[-6:]), problem.evaluate(x)
    assert torch.allclose(ours.f, whole.f) and torch.allclose(ours.g, whole.g, atol=1e-12)
    for part in (0, slice(1, None)):
        full = problem.jacobian(x, problem.full())[1][part, -6:]
        assert torch.allclose(own.jacobian(x[-6:], own.full())[1][part], full, atol=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_of_a_ratio_of_rates_the_better_of_two_ways_is_taken():
    """Ratios of rates are hard for smooth steps on all rows; what is returned is no worse than either way by itself."""
    X, y, group = one_hot(600, 5)
    of = {
        way: fb.FairClassifier("predictive_parity <= 0.03", algorithm=way, budget="200 steps").fit(X, y, group)
        for way in ("auto", "alm", "full_batch_alm")
    }
    met = {way: model.fit_report_["feasible"] for way, model in of.items()}
    accuracy = {way: (model.predict(X) == y).mean() for way, model in of.items()}
    assert met["auto"] and accuracy["auto"] >= max(a for way, a in accuracy.items() if met[way]) - 1e-12


@pytest.mark.long
def test_a_bound_finer_than_the_steps_of_a_small_group_is_met_by_a_trained_model():
    """Rates of 40 rows move in steps of 0.025, over which smooth surrogates leap; a constant meets the bound at 0.5."""
    rng = np.random.default_rng(0)
    group = np.repeat(["a", "b", "c"], [900, 120, 80])
    X = rng.normal(size=(1100, 6))
    y = (X[:, 0] + 0.5 * X[:, 1] + 0.5 * (group == "b") - 0.5 * (group == "c") + rng.logistic(size=1100) > 0).astype(
        int
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # it says that the groups are small
        model = fb.FairClassifier("equalized_odds <= 0.01").fit(X, y, sensitive_features=group)
    assert model.fit_report_["feasible"] and model.fit_report_["best_step"] > 0
    assert fb.measure("equalized_odds", model.decision_function(X), y, sensitive_features=group) <= 0.01 + 1e-6
    assert model.score(X, y) > 0.62
