"""The fairness penalty: equal to the package fairret where that is installed, to its definition everywhere."""

from dataclasses import fields

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.base.errors import DataError, OptionError
from fairbound.fairness.fairret import STATISTICS, GroupPenalty, NormPenalty, one_hot
from fairbound.methods import METHODS, SGD, SGDFairret, algorithm
from fairbound.models.model import MLP
from fairbound.problems.penalised import Penalised
from fairbound.problems.wrappers import Counted
from fairbound.testing import PROBLEMS, check_dtype, check_gradient, check_repeatable, check_resume, check_stacked
from fairbound.testing.running import run
from twelve_rows import FEATURES, TARGETS, THREE_GROUPS, TWO_GROUPS, WEIGHTS, tiny

PACKAGE = {
    "positive_rate": "PositiveRate",
    "true_positive_rate": "TruePositiveRate",
    "false_positive_rate": "FalsePositiveRate",
    "accuracy": "Accuracy",
    "positive_predictive_value": "PositivePredictiveValue",
    "false_omission_rate": "FalseOmissionRate",
    "false_negatives_per_false_positive": "FalseNegativeFalsePositiveFraction",
    "f1": "FScore",
}
# the statistic of one set of rows, written from its name: sums of expected confusion counts
TP, FP = (lambda p, y: (p * y).sum()), (lambda p, y: (p * (1 - y)).sum())
TN, FN = (lambda p, y: ((1 - p) * (1 - y)).sum()), (lambda p, y: ((1 - p) * y).sum())
DEFINITIONS = {
    "positive_rate": lambda p, y: p.mean(),
    "true_positive_rate": lambda p, y: TP(p, y) / (TP(p, y) + FN(p, y)),
    "false_positive_rate": lambda p, y: FP(p, y) / (FP(p, y) + TN(p, y)),
    "accuracy": lambda p, y: (TP(p, y) + TN(p, y)) / len(y),
    "positive_predictive_value": lambda p, y: TP(p, y) / (TP(p, y) + FP(p, y)),
    "false_omission_rate": lambda p, y: FN(p, y) / (FN(p, y) + TN(p, y)),
    "false_negatives_per_false_positive": lambda p, y: FN(p, y) / FP(p, y),
    "f1": lambda p, y: 2 * TP(p, y) / (2 * TP(p, y) + FP(p, y) + FN(p, y)),
}


def rows(seed, n=40, groups=3):
    rng = np.random.default_rng(seed)
    code = np.concatenate([np.arange(groups), np.arange(groups), rng.integers(0, groups, n - 2 * groups)])
    y = np.concatenate([np.zeros(groups), np.ones(groups), rng.integers(0, 2, n - 2 * groups)])
    return torch.as_tensor(rng.normal(size=n) * 2), torch.as_tensor(np.eye(groups)[code]), torch.as_tensor(y)


def by_definition(statistic, norm, scores, groups, y):
    leaf = scores.clone().requires_grad_()
    p, stat = torch.sigmoid(leaf), DEFINITIONS[statistic]
    overall = stat(p, y)
    gaps = torch.stack([(stat(p[g == 1], y[g == 1]) / overall - 1).abs() for g in groups.T])
    value = gaps.pow(norm).sum().pow(1 / norm)
    return value.detach(), torch.autograd.grad(value, leaf)[0]


def test_every_statistic_of_the_package_is_here():
    assert set(STATISTICS) == set(PACKAGE) == set(DEFINITIONS)


@pytest.mark.parametrize("norm", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("statistic", STATISTICS)
def test_value_and_gradient_are_the_definition(statistic, norm):
    for seed in range(5):
        for groups in (2, 3, 5):
            data = rows(seed, groups=groups)
            value, slope = by_definition(statistic, norm, *data)
            made = NormPenalty(statistic, norm)(*data)
            assert made.undefined == 0
            torch.testing.assert_close(made.value, value, rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(made.slope, slope, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("norm", [1, 2, 3])
@pytest.mark.parametrize("statistic", STATISTICS)
def test_value_and_gradient_are_the_package(statistic, norm):
    fairret = pytest.importorskip("fairret.statistic", reason="the package fairret is not installed")
    from fairret.loss import NormLoss

    loss = NormLoss(getattr(fairret, PACKAGE[statistic])(), p=norm)
    for seed in range(5):
        scores, groups, y = rows(seed)
        leaf = scores.clone().requires_grad_()
        label = () if statistic == "positive_rate" else (y.unsqueeze(1),)
        value = loss(leaf.unsqueeze(1), groups, *label)
        (slope,) = torch.autograd.grad(value, leaf)
        made = NormPenalty(statistic, norm)(scores, groups, y)
        torch.testing.assert_close(made.value, value.detach(), rtol=1e-6, atol=1e-10)
        torch.testing.assert_close(made.slope, slope, rtol=1e-6, atol=1e-10)


def test_two_groups_in_closed_form():
    """Groups of n and m rows with mean predictions a and b: the overall rate is c = (n a + m b) / (n + m), and the gaps
    are m |a - b| / ((n + m) c) and n |a - b| / ((n + m) c)."""
    p = torch.tensor([0.2, 0.4, 0.9, 0.7, 0.5], dtype=torch.float64)
    groups = torch.tensor([[1, 0], [1, 0], [0, 1], [0, 1], [0, 1]], dtype=torch.float64)
    a, b, n, m = 0.3, 0.7, 2, 3
    gaps = np.array([m, n]) * abs(a - b) / (n * a + m * b)
    for norm in (1, 2, 4):
        made = NormPenalty("positive_rate", norm)(torch.logit(p), groups, torch.zeros(5, dtype=torch.float64))
        assert float(made.value) == pytest.approx((gaps**norm).sum() ** (1 / norm), abs=1e-14)


def test_no_gap_has_value_and_slope_zero():
    scores, y = torch.zeros(6, dtype=torch.float64), torch.tensor([0.0, 1, 0, 1, 0, 1], dtype=torch.float64)
    groups = torch.tensor([[1.0, 0]] * 2 + [[0, 1.0]] * 4, dtype=torch.float64)
    for norm in (1.0, 2.0):
        made = NormPenalty("accuracy", norm)(scores, groups, y)
        assert float(made.value) == 0 and bool((made.slope == 0).all())


@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_weight_of_two_is_the_row_twice(statistic):
    scores, groups, y = rows(3)
    weights = torch.as_tensor(np.random.default_rng(0).integers(1, 4, len(y))).double()
    again = torch.repeat_interleave(torch.arange(len(y)), weights.long())
    made = NormPenalty(statistic, 2)(scores, groups, y, weights)
    repeated = NormPenalty(statistic, 2)(scores[again], groups[again], y[again])
    torch.testing.assert_close(made.value, repeated.value, rtol=1e-12, atol=0)
    folded = torch.zeros_like(scores).index_add_(0, again, repeated.slope)
    torch.testing.assert_close(made.slope, folded, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_an_absent_group_is_left_out_and_counted(statistic):
    scores, groups, y = rows(1)
    wider = torch.cat([groups, torch.zeros(len(y), 1)], 1)
    plain, made = NormPenalty(statistic)(scores, groups, y), NormPenalty(statistic)(scores, wider, y)
    assert made.undefined == 1 and plain.undefined == 0
    assert torch.equal(made.value, plain.value) and torch.equal(made.slope, plain.slope)


def test_no_positives_leave_a_true_positive_rate_out():
    scores, groups, y = rows(2)
    penalty = NormPenalty("true_positive_rate")
    without = torch.where(groups[:, 0] == 1, 0.0, y)
    made, others = penalty(scores, groups, without), penalty(scores, groups[:, 1:], without)
    assert made.undefined == 1 and torch.equal(made.value, others.value) and torch.equal(made.slope, others.slope)
    none = penalty(scores, groups, torch.zeros_like(y))
    assert none.undefined == 3 and float(none.value) == 0 and bool((none.slope == 0).all())


def test_predictions_that_underflow_to_zero_are_undefined_not_nan():
    _, groups, y = rows(2)
    made = NormPenalty("positive_rate", 2)(torch.full_like(y, -1000.0), groups, y)
    assert made.undefined == 3 and float(made.value) == 0 and bool((made.slope == 0).all())


def test_a_row_of_unknown_group_counts_among_everybody():
    scores, groups, y = rows(4)
    groups[7:12] = 0
    value, slope = by_definition("accuracy", 1, scores, groups, y)
    made = NormPenalty("accuracy")(scores, groups, y)
    torch.testing.assert_close(made.value, value)
    torch.testing.assert_close(made.slope, slope)
    assert float(made.slope[7:12].abs().max()) > 0


def penalised(penalty=None, strength=0.7, stated="demographic_parity <= 0.1", groups=THREE_GROUPS, **options):
    attributes = options.pop("attributes", "each")
    problem = tiny(stated, groups=groups, **options)
    return Penalised(problem, GroupPenalty(problem, penalty or NormPenalty("accuracy"), attributes), strength)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_the_four_verbs_of_the_penalised_problem_agree(statistic):
    check_gradient(penalised(NormPenalty(statistic, 1.0)))


@pytest.mark.parametrize("more", [{"stated": "loss_gap[y=both,sum] <= 0.1"}, {"sample_weight": WEIGHTS}], ids=list)
def test_the_four_verbs_agree_with_another_norm_and_bound_and_with_weights(more):
    check_gradient(penalised(NormPenalty("f1", 2.0), **more))


def test_the_objective_is_the_loss_plus_strength_times_the_penalty():
    problem = tiny("demographic_parity <= 0.1")
    made = Penalised(problem, GroupPenalty(problem, NormPenalty("accuracy")), 0.7)
    x = torch.tensor([0.3, -1.1, 0.2], dtype=torch.float64)
    groups = torch.as_tensor((TWO_GROUPS[:, None] == ["a", "b"]).astype(float))
    scores = torch.as_tensor(FEATURES) @ x[:2] + x[2]
    value, _ = by_definition("accuracy", 1, scores, groups, torch.as_tensor(TARGETS).double())
    full = made.full()
    rise = float(made.values(x, full).f - problem.values(x, problem.full()).f)
    assert rise == pytest.approx(0.7 * float(value), abs=1e-14)
    measured = made.evaluate(x)
    assert float(measured.f) == float(problem.evaluate(x).f)
    assert float(made.penalty.value(x, full)) == pytest.approx(float(value), abs=1e-14)


def test_a_balanced_batch_is_weighted_back():
    """Groups of 3, 4 and 5 rows have as many places in a batch, and their share of the population as weight."""
    problem = penalised()
    batch = problem.sample((0,), "x", 0, 6, "balanced")
    groups = problem.penalty.sensitive[batch.rows]
    weight = torch.einsum("b,bs->s", batch.objective.expand(len(groups)), groups)
    torch.testing.assert_close(weight, torch.tensor([3, 4, 5], dtype=torch.float64) / 12)


def test_one_hot_columns():
    codes = {"sex": ["f", "m", None, "f"], "race": ["x", "y", "y", "z"]}
    problem = fb.FairProblem(MLP(1), np.zeros((4, 1)), [0, 1, 0, 1], codes, None)
    assert one_hot(problem).tolist() == [[1, 0, 1, 0, 0], [0, 1, 0, 1, 0], [0, 0, 0, 1, 0], [1, 0, 0, 0, 1]]
    assert one_hot(problem, "crossed").tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 1, 0]]
    assert one_hot(problem, ("sex",)).tolist() == [[1, 0], [0, 1], [0, 0], [1, 0]]
    assert one_hot(problem) is one_hot(problem)
    with pytest.raises(OptionError, match="age"):
        one_hot(problem, ("age",))


def test_one_hot_follows_the_problem_s_order_of_rows():
    groups = np.array(list("bababcbabcba"))
    problem = tiny("loss_gap <= 0.1", groups=groups)
    sorted_groups = groups[problem.strata.order]
    assert torch.equal(one_hot(problem), torch.as_tensor((sorted_groups[:, None] == ["a", "b", "c"]).astype(float)))


# -- the method -------------------------------------------------------------------------------------------------


def test_a_step_is_the_gradient_of_loss_plus_penalty():
    problem = tiny("demographic_parity <= 0.1")
    config = SGDFairret(strength=2.0, statistic="positive_rate", norm=2.0, step_size=0.3)
    state = run(config, problem, 1, sampling="full")
    made = Penalised(problem, GroupPenalty(problem, NormPenalty("positive_rate", 2.0)), 2.0)
    x0 = made.start((0,))
    _, gradient = made.gradient(x0, made.full(), (1.0, None))
    assert torch.equal(state.x, x0 - 0.3 * gradient)


@pytest.mark.parametrize("sampling", ["balanced", "uniform", "shuffled"])
def test_without_strength_it_is_sgd(sampling):
    stated = "demographic_parity <= 0.1"
    plain = run(SGD(step_size=0.2), tiny(stated), 20, sampling=sampling)
    assert torch.equal(run(SGDFairret(strength=0.0, step_size=0.2), tiny(stated), 20, sampling=sampling).x, plain.x)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_repeatable_resumable_stacked_dtype(optimizer):
    config = SGDFairret(step_size=0.05, optimizer=optimizer)

    def make(dtype=torch.float64, device="cpu"):
        return tiny("demographic_parity <= 0.1", groups=THREE_GROUPS, dtype=dtype, device=device)

    check_repeatable(config, make, steps=8)
    check_resume(config, make, steps=8, at=(1, 5))
    check_stacked(config, make, steps=6)
    check_stacked(config, make, sampling="uniform", steps=6)
    check_dtype(config, make, steps=3)


def test_costs_and_absent_groups_are_counted_on_the_user_s_problem():
    problem = Counted(tiny("demographic_parity <= 0.1", groups=THREE_GROUPS))
    state = run(SGDFairret(), problem, 10, batch_size=2, sampling="uniform")
    assert (problem.counts.gradients, problem.counts.samples) == (10, 20)
    assert state.undefined >= 10  # two rows are never of all three groups


def test_the_penalty_brings_the_groups_together():
    """On the embedded sample: equal selection rates cost little loss, and a stronger penalty brings them nearer."""
    pytest.importorskip("pandas")
    data = fb.data.load("loanapp")
    X = np.nan_to_num((data.X - np.nanmean(data.X, 0)) / np.maximum(np.nanstd(data.X, 0), 1e-9))
    race = np.where(data.group("race") == "white", "white", "other")
    gaps = []
    for strength in (0.0, 0.1, 0.3):
        problem = fb.FairProblem(MLP(X.shape[1]), X, data.y, race, "demographic_parity <= 0.02")
        config = SGDFairret(strength=strength, statistic="positive_rate", step_size=0.1)
        solution = fb.solve(problem, config, budget="150 steps", sampling="full", record_every=150)
        scores = problem.all_scores(solution.last).sigmoid()
        white = torch.as_tensor(race[problem.strata.order] == "white")
        gaps.append(abs(float(scores[white].mean() - scores[~white].mean())))
    assert gaps[2] < gaps[1] < gaps[0] and gaps[2] < gaps[0] / 4


def test_the_user_s_own_penalty():
    stated = "demographic_parity <= 0.1"
    own = SGDFairret(penalty=lambda s, g, y: NormPenalty("accuracy")(s.squeeze(1), g, y.squeeze(1)).value)
    for options in ({"sampling": "uniform"}, {"sampling": "full"}, {"sampling": "uniform", "seeds": (0, 1)}):
        ours, theirs = (run(c, tiny(stated, groups=THREE_GROUPS), 10, **options) for c in (SGDFairret(), own))
        torch.testing.assert_close(ours.x, theirs.x, rtol=1e-10, atol=1e-12)


def test_an_object_of_the_package_plugs_in():
    pytest.importorskip("fairret.loss", reason="the package fairret is not installed")
    from fairret.loss import LSELoss, NormLoss
    from fairret.statistic import Accuracy, PositiveRate

    stated, options = "demographic_parity <= 0.1", {"sampling": "full"}
    ours = run(SGDFairret(), tiny(stated), 20, **options)
    theirs = run(SGDFairret(penalty=NormLoss(Accuracy())), tiny(stated), 20, **options)
    torch.testing.assert_close(ours.x, theirs.x, rtol=1e-6, atol=1e-10)
    rate = NormLoss(PositiveRate())
    theirs = run(SGDFairret(penalty=lambda s, g, y: rate(s, g)), tiny(stated), 20, **options)
    torch.testing.assert_close(run(SGDFairret(statistic="positive_rate"), tiny(stated), 20, **options).x, theirs.x)
    smooth = run(SGDFairret(penalty=LSELoss(Accuracy())), tiny(stated), 20, **options)
    assert bool(torch.isfinite(smooth.x).all()) and not torch.equal(smooth.x, ours.x)


def test_it_is_a_method_with_the_paper_s_preset():
    assert METHODS["sgd_fairret"] is SGDFairret
    paper = algorithm("sgd_fairret:paper", strength=0.5)
    assert (paper.statistic, paper.norm, paper.step_size, paper.strength) == ("accuracy", 1.0, 0.05, 0.5)
    assert fb.solve(tiny("demographic_parity <= 0.1"), "sgd_fairret", budget="5 steps").steps == 5
    assert {f.name for f in fields(SGD)} <= {f.name for f in fields(SGDFairret)}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"strength": -1.0}, "strength"),
        ({"strength": float("nan")}, "strength"),
        ({"statistic": "recall"}, "unknown statistic"),
        ({"norm": 0.5}, "norm must be"),
        ({"norm": float("inf")}, "norm must be"),
        ({"penalty": 3}, "penalty must be a function"),
        ({"attributes": 7}, "attributes"),
        ({"step_size": 0.0}, "step_size"),
        ({"optimizer": "adamm"}, "optimizer"),
    ],
)
def test_wrong_options_are_named(options, words):
    with pytest.raises(OptionError, match=words):
        SGDFairret(**options)


def test_wrong_use_is_explained():
    with pytest.raises(OptionError, match="needs a FairProblem"):
        run(SGDFairret(), PROBLEMS["active"], 1)
    with pytest.raises(DataError, match="without sensitive features"):
        run(SGDFairret(), tiny(None), 1)
    with pytest.raises(OptionError, match="one score per row"):
        GroupPenalty(fb.FairProblem(MLP(2, (), 3), FEATURES, TARGETS, TWO_GROUPS, loss="cross_entropy"), NormPenalty())
    with pytest.raises(OptionError, match="must return one number"):
        run(SGDFairret(penalty=lambda s, g, y: s), tiny("demographic_parity <= 0.1"), 1)
    with pytest.raises(OptionError, match="'sex'"):
        run(SGDFairret(attributes="sex"), tiny("demographic_parity <= 0.1"), 1)
