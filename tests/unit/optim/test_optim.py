"""The PyTorch door: arithmetic of the loss and the running means, options, wrong input, checkpoints."""

import copy
import io
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fairbound.base.errors import (
    CheckpointError,
    DataError,
    DataWarning,
    EmptyGroupError,
    FairboundError,
    NonFiniteError,
    OptionError,
)
from fairbound.fairness.pointwise import class_error, loss_named, of_decisions
from fairbound.fairness.problem import FairProblem
from fairbound.models.model import model_of
from fairbound.optim import Dual
from fairbound.optim.means import layout
from fairbound.optim.weighted import WeightedSum
from fairbound.rows.groups import Groups

pytestmark = [  # what is tested here is not the data
    pytest.mark.filterwarnings("ignore:.*too few training rows"),
    pytest.mark.filterwarnings("ignore:.*rows are in no group"),
]

N = 240
LOOSE = {"dual_every": 1, "memory": math.inf, "decay": 0.0}  # the mean of every row seen, at every step


def rows(seed=0, attributes=1, missing=0.0):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, (N, attributes))
    group[rng.random((N, attributes)) < missing] = -1
    x = rng.normal(size=(N, 4)) + 0.7 * np.maximum(group[:, :1], 0)
    y = (x @ np.array([1.0, -0.5, 0.3, 0.0]) + rng.normal(size=N) > 0.5).astype(np.int64)
    return torch.tensor(x), torch.tensor(y), torch.tensor(group)


STATED = [
    "loss_gap <= 0.005",
    "loss_gap[best,y=1] <= 0.01",
    "demographic_parity <= 0.01",
    "demographic_parity[overall,surrogate=hinge] <= 0.01",
    "demographic_parity[crossed,surrogate=loss] <= 0.01",
    "equal_opportunity[surrogate=clipped,sharpness=0.3] <= 0.02",
    "equalized_odds[sum,group0+group1] <= 0.02",
    ("demographic_parity <= 0.01", "loss_gap[overall] <= 0.005", "predictive_equality[crossed] <= 0.03"),
]


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared"])
@pytest.mark.parametrize("stated", STATED, ids=str)
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_value_and_gradient_are_those_of_the_problem_with_the_same_weights(stated, loss, missing):
    features, y, group = rows(attributes=2, missing=missing)
    groups = Groups(group.numpy(), ("group0", "group1"), (("0", "1", "2"),) * 2)
    dual = Dual(stated, groups=group, targets=y, loss=loss, dual_values="surrogate", **LOOSE)
    of = of_decisions(loss)
    problem = FairProblem(model_of("mlp:5", 4), features, y, groups, stated, loss=of, dtype=torch.float64)
    x = problem.start([3]).requires_grad_()
    dual.observe(problem.model.scores(x, features), y, group)
    dual.step()
    assert dual.weights.max() > 0 and dual.names == problem.names
    value = dual.loss(problem.model.scores(x, features), y, group, observe=False)
    value.backward()
    evaluation, gradient = problem.gradient(x.detach(), problem.full(), (1.0, dual.weights))
    at = problem.values(x.detach(), problem.full())
    assert evaluation is None
    factor = value.detach() / (at.f + dual.weights @ at.g)
    assert factor == pytest.approx(1, abs=1e-9) or (factor < 1 and dual.report().raised)
    torch.testing.assert_close(x.grad, factor * gradient, rtol=1e-6, atol=1e-9)
    full = problem.stated_values(problem.evaluate(x.detach()))
    assert list(dual.values().values()) == pytest.approx([float(v) for v in full], abs=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_slope_of_a_weighted_sum_may_be_differentiated_again(classes):
    made = torch.Generator().manual_seed(0)
    s = torch.randn(7, *([3] if classes == 3 else []), generator=made, dtype=torch.float64, requires_grad=True)
    y, loss = torch.arange(7) % classes, loss_named("cross_entropy" if classes == 3 else "logistic", classes - 1)
    w = torch.rand(2, 7, generator=made, dtype=torch.float64)
    kinds = [class_error("sigmoid", 2.0, loss), class_error("sigmoid", 3.0, loss)]
    parts = list(zip(kinds, w, strict=True))
    plain = sum(w @ kind.value(s, y) for kind, w in parts)
    torch.testing.assert_close(WeightedSum.apply(s, y, parts), plain)

    def value(s):
        return WeightedSum.apply(s, y, parts)

    assert torch.autograd.gradcheck(value, s) and torch.autograd.gradgradcheck(value, s)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("attributes", [1, 2])
def test_sums_of_many_batches_are_those_of_a_loop_over_rows(weighted, attributes):
    features, y, group = rows(attributes=attributes, missing=0.2)
    dual = Dual(["demographic_parity <= 0.1", "equalized_odds <= 0.1"], groups=group, targets=y, memory=50.0)
    weight = np.arange(N) % 3 if weighted else np.ones(N)
    parts = np.split(np.arange(N), [8, 16, 17, 100])
    for number, part in enumerate(parts):
        more = {"weight": torch.tensor(weight[part])} if weighted else {}
        dual.observe(features[part, 0], y[part], group[part], **more)
        dual._state["k"] += number % 2
    window, tally = np.zeros((dual.plan.n_cells, 3)), np.zeros((dual.plan.n_cells, 3))
    cells = dual.plan.cells(group.numpy(), y.numpy())
    steps = [0, 0, 1, 1, 2]
    later = [sum(len(p) for p, s in zip(parts, steps, strict=True) if s > own) for own in steps]
    for part, age in zip(parts, later, strict=True):
        found = np.zeros(dual.plan.n_cells)
        for i in part:
            for cell in cells[i][cells[i] < dual.plan.n_cells]:
                window[cell] += np.exp(-age / 50) * weight[i] * np.array([1, weight[i], float(features[i, 0] > 0)])
                found[cell] += weight[i] > 0
                tally[cell, 2] += weight[i]
        tally[:, 0] += found
        tally[:, 1] += found == 0
    for made, by_hand in zip(dual._means.counted(), (window, tally, [weight.sum()]), strict=True):
        np.testing.assert_allclose(made, by_hand, rtol=1e-12, atol=1e-12)
    assert tally[:, 1].any()


def test_any_function_of_scores_and_targets_is_a_loss_and_autograd_follows_it():
    features, y, group = rows()
    theta = torch.zeros(4, dtype=torch.float64, requires_grad=True)

    def focal(scores, targets):
        p = torch.sigmoid(scores)
        return -(targets * (1 - p) ** 2 * p.log() + (1 - targets) * p**2 * (1 - p).log())

    slow = {**LOOSE, "dual_step_size": 0.1, "penalty": 0.1}
    dual = Dual("loss_gap <= 0.0", groups=group, targets=y, loss=focal, **slow)
    scores = features @ (theta + 0.3)
    dual.loss(scores, y, group)
    dual.step()
    dual.loss(scores, y, group).backward()
    per_row = focal(features @ (theta + 0.3), y.double())
    means = torch.stack([per_row[group[:, 0] == k].mean() for k in range(3)])
    pairs = dual.plan.index
    g = means[pairs[:, 0]] - means[pairs[:, 1]]
    (by_hand,) = torch.autograd.grad(per_row.mean() + dual.weights @ g, theta)
    torch.testing.assert_close(theta.grad, by_hand, rtol=1e-9, atol=1e-12)


def test_a_loss_that_is_already_averaged_is_refused():
    features, y, group = rows()
    dual = Dual("loss_gap <= 0.1", groups=group, targets=y, loss=functional.binary_cross_entropy_with_logits)
    with pytest.raises(OptionError, match="reduction='none'"):
        dual.loss(features[:, 0], y, group)


def test_gradient_and_estimates_of_micro_batches_are_those_of_one_big_batch():
    features, y, group = rows()
    split = np.array_split(np.arange(N), 4)
    halves = []
    for parts in ([np.arange(N)], split):
        dual = Dual(
            ["demographic_parity <= 0.01", "loss_gap <= 0.001"], groups=group, targets=y, dual_every=2, decay=0.0
        )
        theta = torch.full((4,), 0.2, dtype=torch.float64, requires_grad=True)
        for _ in range(4):
            theta.grad = None
            for part in parts:
                (dual.loss(features[part] @ theta, y[part], group[part]) / len(parts)).backward()
            dual.step()
        halves.append((theta.grad, dual.multipliers, dual.weights, list(dual.values().values())))
    for one, many in zip(*halves, strict=True):
        torch.testing.assert_close(torch.as_tensor(one), torch.as_tensor(many), rtol=1e-12, atol=1e-13)


def test_a_mean_is_a_ratio_of_sums_and_not_a_mean_of_ratios():
    dual = Dual("demographic_parity <= 0.1", groups=[0, 1], targets=[0, 1], **LOOSE)
    one = torch.ones(1)
    dual.observe(one, [1], [0])
    dual.observe(-torch.ones(9), [0] * 9, [0] * 9)
    dual.observe(-one, [0], [1])
    dual.step()
    assert dual.values()["demographic_parity <= 0.1"] == pytest.approx(0.1, abs=1e-12)  # 1 of 10; not (1 + 0) / 2


def test_rows_fade_by_1_over_e_every_memory_rows():
    dual = Dual("demographic_parity <= 0.1", group_names=["a", "b"], memory=20, dual_every=2)
    for rate in (1.0, 0.0, 1.0):  # 10 rows a step, each group half of them
        scores = torch.cat([torch.full((5,), 2 * rate - 1), torch.full((5,), -1.0)])
        dual.observe(scores, torch.zeros(10), torch.tensor([0] * 5 + [1] * 5))
        dual.step()
    weights = np.exp(-np.array([20, 10, 0]) / 20)
    assert dual.values()["demographic_parity <= 0.1"] == pytest.approx(weights @ [1, 0, 1] / weights.sum(), abs=1e-12)


def test_long_queues_are_summed_up_without_a_trace(monkeypatch):
    features, y, group = rows()
    seen = []
    for most in (1 << 16, 25):
        monkeypatch.setattr("fairbound.optim.means.QUEUE_ROWS", most)
        dual = Dual("demographic_parity <= 0.01", groups=group, targets=y, memory=100, dual_every=7)
        for part in torch.arange(N).split(10):
            dual.observe(features[part, 0], y[part], group[part])
            dual.step()
        seen.append((dual.multipliers, dual.values(), dual.report()))
        assert (dual._means.queue.rows > 25) == (most > 25)
    torch.testing.assert_close(seen[0][0], seen[1][0], rtol=1e-12, atol=1e-14)
    assert seen[0][1] == pytest.approx(seen[1][1], abs=1e-12)
    assert seen[0][2].lacking == seen[1][2].lacking and seen[0][2].batches == seen[1][2].batches == 24


def test_the_best_estimate_is_that_of_all_updates_whenever_it_is_looked_up(monkeypatch):
    features, y, group = rows()
    dual = Dual("demographic_parity <= 0.01", groups=group, targets=y, memory=30, dual_every=2)
    best = []
    for most in (1, 5, 64):
        monkeypatch.setattr("fairbound.optim.estimates.PASSED", most)
        made = Dual("demographic_parity <= 0.01", groups=group, targets=y, memory=30, dual_every=2)
        seen = []
        for number, part in enumerate(torch.arange(N).split(10), start=1):
            made.observe(features[part, 0], y[part], group[part])
            made.step()
            seen += list(made.values().values()) if number % 2 == 0 else []
        best.append(made.report().smallest)
        assert made.state_dict()["smallest"].tolist() == list(best[-1].values()) == [np.nanmin(seen)]
    assert best[0] == best[1] == best[2] and np.nanmin(seen) < seen[-1]
    dual.load_state_dict(made.state_dict())
    assert dual.report().smallest == best[0]


def test_the_age_of_a_batch_is_the_number_of_rows_of_later_steps():
    faded, first = layout((0, 0, 1, 3, 3, 3), (5, 2, 4, 1, 1, 6), (1, 1, 2, 1, 1, 1), 0.1, 3, 2)
    np.testing.assert_allclose(faded, np.exp(-0.1 * np.array([12, 12, 8, 8, 0, 0, 0] * 2)), rtol=1e-15)
    assert first.tolist() == [0, 3, 6, 6, 9, 12, 15] * 2


def test_multipliers_follow_the_update_of_the_method():
    dual = Dual(
        "demographic_parity <= 0.1",
        groups=[0, 1],
        targets=[0, 1],
        dual_every=1,
        dual_step_size=0.5,
        penalty=2.0,
        decay_steps=4.0,
        decay=1.0,
        multiplier_bound=0.4,
        memory=math.inf,
    )
    y = torch.zeros(2, dtype=torch.float64)
    for k in (1, 2, 3):
        dual.observe(torch.tensor([1.0, -1.0]), [1, 0], [0, 1])  # rates 1 and 0: g = (0.9, -1.1)
        dual.step()
        g = torch.tensor([0.9, -1.1], dtype=torch.float64)
        y = (y + 0.5 / (1 + k / 4) * g).clamp(0, 0.4)
        torch.testing.assert_close(dual.multipliers, y)
        torch.testing.assert_close(dual.weights, (y + 2 * g).clamp(0, 0.4))


@pytest.mark.filterwarnings("ignore:demographic_parity.* can be equal at 0 and 1 alone")
def test_a_bound_with_a_rare_group_enters_with_the_fraction_of_steps_that_have_a_row_of_it():
    dual = Dual("demographic_parity[surrogate=hinge] <= 0.0", groups=[0, 1], targets=[0, 1], **LOOSE)
    for rare in (True, False, False, False):  # 8 rows a step, 1 of 32 in the rare group
        dual.observe(torch.ones(8), torch.ones(8), torch.tensor([1 if rare else 0] + [0] * 7))
        dual.step()
    state = dual.state_dict()
    state["w"] = torch.tensor([0.0, 2.0], dtype=torch.float64)  # rare - common
    dual.load_state_dict(state)
    scores = torch.ones(8, dtype=torch.float64, requires_grad=True)
    dual.loss(scores, torch.ones(8), torch.tensor([1] + [0] * 7), observe=False).backward()
    own = (torch.sigmoid(torch.tensor(1.0, dtype=torch.float64)) - 1) / 8
    assert scores.grad[0] == pytest.approx(float(own) + 2.0, abs=1e-9)  # w / 4 * 32 / 8, not w * 32 / 8
    assert scores.grad[1] == pytest.approx(float(own) - 2.0 / 4 * 32 / 31 / 8, abs=1e-9)


# -- scores: shapes, dtypes, mixed precision -----------------------------------------------------------------------


def test_a_column_of_scores_targets_and_groups_is_one_of_each():
    features, y, group = rows()
    results = []
    for shape in ((-1,), (-1, 1)):
        dual = Dual("demographic_parity <= 0.01", groups=group, targets=y, **LOOSE)
        s = features[:, 0]
        dual.loss(s.reshape(shape), y.reshape(shape), group.reshape(shape))
        dual.step()
        results.append(dual.loss(s.reshape(shape), y.reshape(shape).double(), group.reshape(shape).to(torch.int8)))
    assert results[0] == results[1] and results[0].shape == ()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_statistics_of_half_precision_scores_are_in_float32(dtype):
    features, y, group = rows()
    scores = (features[:, 0] * 2).to(dtype)
    duals = [Dual("loss_gap <= 0.0", groups=group, targets=y, **LOOSE) for _ in range(2)]
    for dual, s in zip(duals, (scores, scores.float()), strict=True):
        assert dual.loss(s, y, group).dtype == torch.float32
        dual.step()
    assert torch.equal(duals[0].multipliers, duals[1].multipliers) and duals[0].multipliers.max() > 0


def test_autocast_and_a_gradient_scaler_need_nothing_else():
    features, y, group = rows()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    dual = Dual(["demographic_parity <= 0.01", "loss_gap <= 0.01"], groups=group, targets=y, dual_every=2)
    losses = []
    for _ in range(30):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            scores = net(features.float())
            loss = dual.loss(scores, y, group)
        assert scores.dtype == torch.bfloat16 and loss.dtype == torch.float32
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        dual.step()
        losses.append(loss.item())
    assert dual.multipliers.max() > 0 and all(map(math.isfinite, losses))


@pytest.mark.parametrize("scores", [torch.zeros(4, 3), torch.zeros(4, dtype=torch.int64), torch.zeros(())])
def test_scores_of_another_shape_are_refused(scores):
    dual = Dual("demographic_parity <= 0.1", groups=[0, 1], targets=[0, 1])
    with pytest.raises(OptionError, match="one real score per row"):
        dual.loss(scores, torch.zeros(len(scores) if scores.dim() else 1), torch.zeros(4, dtype=torch.int64))


@pytest.mark.parametrize(
    ("targets", "group", "error", "words"),
    [
        ([0, 1, 0], [0, 1], OptionError, "targets must be"),
        ([0, 1], [0, 1, 1], OptionError, "group has 3; give both of the same batch"),
        ([0, 1], [0.0, 1.0], OptionError, "integer codes"),
        ([0, 1], [[0, 1], [0, 1]], OptionError, "one column"),
        ([0, 2], [0, 1], DataError, "got 2 in row 1"),
        ([0, 0.5], [0, 1], DataError, r"got 0\.5 in row 1"),
        ([0, -1], [0, 1], DataError, "got -1 in row 1"),
        ([0, 1], [0, 2], DataError, "group code 2 of 'group' in row 1"),
        ([0, 1], [-2, 1], DataError, "group code -2 of 'group' in row 0"),
    ],
)
def test_targets_and_codes_that_cannot_be_are_refused(targets, group, error, words):
    dual = Dual("demographic_parity <= 0.1", groups=[0, 1], targets=[0, 1])
    for call in (dual.loss, dual.observe):
        with pytest.raises(error, match=words):
            call(torch.zeros(2), torch.tensor(targets), torch.tensor(group))
    with pytest.raises(OptionError, match=r"integer codes, as dual\.encode"):
        dual.loss(torch.zeros(2), torch.tensor([0, 1]), np.array(["a", "b"], dtype=object))
    assert dual.report().batches == 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_scores_on_a_gpu_give_the_numbers_of_the_cpu():
    features, y, group = rows()
    duals = []
    for device in ("cpu", "cuda"):
        dual = Dual(["demographic_parity[best] <= 0.01", "loss_gap <= 0.001"], groups=group, targets=y, dual_every=3)
        for part in torch.arange(N).split(20):
            loss = dual.loss(features[part, 0].to(device), y[part].to(device), group[part].to(device))
            dual.step()
        assert loss.device.type == device
        duals.append(dual)
    assert duals[0].values() == pytest.approx(duals[1].values(), abs=1e-9)
    torch.testing.assert_close(duals[0].multipliers, duals[1].multipliers, rtol=1e-9, atol=1e-12)
    duals[0].load_state_dict(duals[1].state_dict())


# -- groups: codes, names, missing ---------------------------------------------------------------------------------


def test_text_groups_are_encoded_and_unseen_or_missing_values_are_minus_one():
    dual = Dual("demographic_parity <= 0.1", groups={"sex": ["F", "M", "F", "M"]}, targets=[0, 1, 1, 0])
    with pytest.warns(DataWarning, match="not known here"):
        assert dual.encode({"sex": ["M", "F", None, "X"]}).tolist() == [[1], [0], [-1], [-1]]
    assert dual.names == ("demographic_parity: F - M", "demographic_parity: M - F")


@pytest.mark.filterwarnings("ignore:demographic_parity.* can be equal at 0 and 1 alone")
def test_rows_of_no_known_group_enter_the_objective_only():
    dual = Dual("demographic_parity <= 0.0", groups=[0, 1], targets=[0, 1], **LOOSE)
    dual.observe(torch.tensor([1.0, -1.0, 1.0, 1.0]), [1, 0, 1, 0], [0, 1, -1, -1])
    dual.step()
    assert dual.values()["demographic_parity <= 0"] == 1.0
    s = torch.full((4,), 0.5, requires_grad=True)
    dual.loss(s, torch.tensor([1, 0, 1, 0]), torch.tensor([0, 1, -1, -1])).backward()
    alone = torch.full((2,), 0.5, requires_grad=True)
    functional.binary_cross_entropy_with_logits(alone, torch.tensor([1.0, 0.0]), reduction="sum").div(4).backward()
    torch.testing.assert_close(s.grad[2:], alone.grad)
    assert not torch.allclose(s.grad[:2], alone.grad)


def test_streaming_needs_names_only():
    dual = Dual("equal_opportunity[crossed] <= 0.1", group_names={"sex": ["F", "M"], "age": ["young", "old"]}, **LOOSE)
    assert dual.m == 12
    dual.observe(torch.tensor([1.0, -1.0]), [1, 1], [[0, 0], [1, 1]])
    dual.step()
    report = dual.report()
    assert report.unmeasured == ("F & old | y=1", "M & young | y=1") and "no row yet of F & old" in str(report)
    assert report.values["equal_opportunity[crossed] <= 0.1"] == 1.0
    assert set(report.multipliers) == {"equal_opportunity: F & young - M & old | y=1"}


def test_integer_groups_keep_their_values_as_codes():
    dual = Dual("demographic_parity <= 0.1", groups=np.array([1, 2, -1, 2]), targets=[0, 1, 0, 1])
    assert dual.names[0] == "demographic_parity: group: 1 - group: 2"
    named = Dual("demographic_parity <= 0.1", groups=torch.tensor([0, 1]), targets=[0, 1], group_names=["x", "y"])
    assert named.names[0] == "demographic_parity: x - y"


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({}, OptionError, "group_names="),
        ({"group_names": []}, OptionError, "group_names="),
        ({"group_names": ["a", "b"], "targets": [0, 1]}, OptionError, "without groups="),
        ({"groups": [0, 1]}, OptionError, "without targets="),
        ({"groups": [0, 1, 1], "targets": [0, 1]}, DataError, "differ in length"),
        (
            {"groups": [0, 1], "targets": [0, 2]},
            DataError,
            r"must be 0 or 1, got \[2\]. Of two classes pass targets == POSITIVE",
        ),
        ({"groups": [0, 1], "targets": ["no", "yes"]}, DataError, "pass targets == POSITIVE.*; of more give classes="),
        ({"groups": [0, 1], "targets": [0.2, 1]}, DataError, "soft_targets=True"),
        ({"groups": [0, 1], "targets": [14.5, 3]}, DataError, "residual_gap"),
        ({"groups": ["a", "b"], "targets": [0, 1], "group_names": ["a", "b"]}, OptionError, "not integers"),
        ({"groups": [0, 1, 2], "targets": [0, 1, 1], "group_names": ["a", "b"]}, OptionError, "a label per code"),
        ({"groups": [0, 10**6], "targets": [0, 1]}, DataError, "Number them"),
        ({"groups": [0, -3], "targets": [0, 1]}, DataError, "Number them"),
        ({"groups": [0, 0], "targets": [0, 1]}, EmptyGroupError, "at least two groups"),
    ],
)
def test_training_rows_that_cannot_be_used(arguments, error, words):
    with pytest.raises(error, match=words):
        Dual("demographic_parity <= 0.1", **arguments)


# -- options -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "option",
    [
        {"dual_step_size": 0},
        {"dual_step_size": -1.0},
        {"dual_step_size": math.nan},
        {"penalty": -0.1},
        {"dual_every": 0},
        {"dual_every": 2.5},
        {"memory": 0},
        {"memory": -3},
        {"memory": math.nan},
        {"multiplier_bound": 0},
        {"decay": -1},
        {"decay_steps": 0},
        {"dual_values": "real"},
        {"nonfinite": "ignore"},
        {"loss": "l2"},
        {"loss": "cross_entropy"},
        {"distributed": True, "nonfinite": "skip"},
    ],
    ids=str,
)
def test_options_out_of_range_are_refused_at_construction(option):
    with pytest.raises(OptionError):
        Dual("demographic_parity <= 0.1", groups=[0, 1], targets=[0, 1], **option)


def test_an_unknown_option_or_bound_is_refused():
    with pytest.raises(TypeError, match="step_sise"):
        Dual("demographic_parity <= 0.1", groups=[0, 1], targets=[0, 1], step_sise=1.0)
    for stated in ("parity <= 0.1", "demographic_parity <= -0.1", "demographic_parity <= 1.5", []):
        with pytest.raises(OptionError):
            Dual(stated, groups=[0, 1], targets=[0, 1])


def test_a_step_without_a_batch_is_a_mistake():
    dual = Dual("demographic_parity <= 0.1", groups=[0, 1], targets=[0, 1])
    with pytest.raises(FairboundError, match="without a batch"):
        dual.step()


def test_a_report_says_where_step_was_never_called():
    dual = Dual("demographic_parity <= 0.1", groups=[0, 1], targets=[0, 1])
    said = "dual.step() was never called"
    assert said not in str(dual.report())  # nothing has begun
    for batches in (1, 2):
        dual.loss(torch.zeros(2), torch.tensor([0, 1]), torch.tensor([0, 1]))
        assert f"0 steps, {batches} batches" in str(dual.report()) and said in str(dual.report())
    dual.step()
    assert said not in str(dual.report())


# -- NaN -----------------------------------------------------------------------------------------------------------


def skip_batch(dual, bad):
    scores = torch.tensor([1.0, bad, -1.0], requires_grad=True)
    return scores, dual.loss(scores, torch.tensor([1, 0, 0]), torch.tensor([0, 1, 0]))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_skipped_batch_leaves_no_gradient_and_no_trace(bad):
    dual = Dual("demographic_parity <= 0.1", groups=[0, 1], targets=[0, 1], nonfinite="skip", dual_every=1)
    scores, loss = skip_batch(dual, bad)
    loss.backward()
    dual.step()
    report = dual.report()
    assert scores.grad.tolist() == [0, 0, 0] and loss.item() == 0.0
    assert report.skipped == 1 and report.rows == 0 and "1 batches skipped" in str(report)
    assert not dual.multipliers.any()


@pytest.mark.parametrize("stated", ["demographic_parity <= 0.1", "residual_gap <= 0.1"])
def test_a_skipped_batch_has_gradients_of_zero_even_where_inputs_are_nan(stated):
    features, y, group = rows()
    dual = Dual(stated, groups=group, targets=y, nonfinite="skip", dual_every=1)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).double()
    before = [p.detach().clone() for p in net.parameters()]
    optimizer, scaler = torch.optim.SGD(net.parameters(), lr=0.1), torch.amp.GradScaler("cpu")
    spoilt = features.clone()
    spoilt[0, 0] = math.nan
    for _ in range(3):  # before and after the multipliers move
        optimizer.zero_grad()
        loss = dual.loss(net(spoilt).squeeze(1), y, group)
        scaler.scale(loss).backward()
        assert loss.item() == 0 and all(p.grad is not None and not p.grad.any() for p in net.parameters())
        scaler.step(optimizer)  # a scaler wants a gradient in one parameter at least
        scaler.update()
        assert all(torch.equal(p, q) for p, q in zip(net.parameters(), before, strict=True))
        dual.loss(net(features), y, group)
        dual.step()
    assert dual.report().skipped == 3 and dual.report().batches == 3


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_the_error_names_batch_constraint_and_group_and_nothing_has_changed(bad, loss):
    dual = Dual("demographic_parity <= 0.1", group_names=["north", "south"], dual_every=1, loss=loss)
    dual.loss(torch.tensor([1.0, -1.0]), torch.tensor([1, 0]), torch.tensor([0, 1]))
    before = dual.values(), dual.report().rows
    words = "1 of 3 rows of batch 2; groups south; constraints demographic_parity: north - south"
    with pytest.raises(NonFiniteError, match=words):
        skip_batch(dual, bad)
    assert (dual.values(), dual.report().rows) == before


def test_large_finite_losses_are_not_mistaken_for_infinite_ones():
    dual = Dual("demographic_parity <= 0.1", groups=[0, 1], targets=[0, 1], loss="squared")
    loss = dual.loss(torch.tensor([1e15, -1e15, 1e15]), torch.tensor([0, 0, 1]), torch.tensor([0, 1, 0]))
    assert math.isfinite(loss.item()) and dual.report().batches == 1  # scores times losses overflow, each is finite


# -- checkpoints ---------------------------------------------------------------------------------------------------


def loop(dual, net, optimizer, start, stop, data):
    features, y, group = data
    order = torch.randperm(N, generator=torch.Generator().manual_seed(5)).repeat(4)
    for k in range(start, stop):
        part = order[k * 16 : k * 16 + 16]
        loss = dual.loss(net(features[part]), y[part], group[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        dual.step()


@pytest.mark.parametrize("at", [7, 10, 13])
@pytest.mark.parametrize("values", ["true", "surrogate"])
def test_a_resumed_loop_is_bit_for_bit_the_unbroken_one(at, values):
    data = rows()
    stated = ["demographic_parity[best] <= 0.01", "loss_gap <= 0.001"]

    def made():
        torch.manual_seed(1)
        net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1)).double()
        dual = Dual(stated, groups=data[2], targets=data[1], dual_every=5, memory=60, dual_values=values)
        return dual, net, torch.optim.Adam(net.parameters(), lr=0.05)

    whole = made()
    loop(*whole, 0, 40, data)
    first = made()
    loop(*first, 0, at, data)
    first[0].values(), first[0].report()  # looking changes nothing
    saved = io.BytesIO()
    torch.save([part.state_dict() for part in first], saved)
    saved.seek(0)
    loop(*first, at, at + 3, data)  # nor does training on change what was saved
    second = made()
    for part, state in zip(second, torch.load(saved, weights_only=True), strict=True):
        part.load_state_dict(state)
    loop(*second, at, 40, data)
    one, two = whole[0].state_dict(), second[0].state_dict()
    assert whole[0].multipliers.any() and one.keys() == two.keys()
    for key in one:
        if isinstance(one[key], torch.Tensor):
            assert torch.equal(one[key], two[key]), key
        elif key != "queue":
            assert one[key] == two[key], key
    assert all(map(torch.equal, one["queue"]["scores"], two["queue"]["scores"]))
    assert all(torch.equal(a, b) for a, b in zip(whole[1].parameters(), second[1].parameters(), strict=True))


def trained(**options):
    _, y, group = rows()
    dual = Dual("demographic_parity <= 0.01", groups=group, targets=y, dual_every=2, **options)
    for k in range(3):
        dual.observe(torch.linspace(-1, 1, N) + 0.1 * k, y, group)
        dual.step()
    return dual


@pytest.mark.parametrize("key", sorted(Dual("loss_gap <= 0.1", group_names=["a", "b"]).state_dict()))
def test_a_missing_key_is_named(key):
    state = trained().state_dict()
    del state[key]
    with pytest.raises(CheckpointError, match=f"lacks .'{key}'"):
        trained().load_state_dict(state)


def changed(**values):
    return lambda state: state | values


def recent(scores, keys):
    return {"scores": [scores], "keys": [keys], "weights": [None], "steps": [2], "sizes": [len(keys)]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (changed(more=1), "unknown .'more'"),
        (changed(format=99), "its format are 99"),
        (changed(names=["demographic_parity: a - b"]), "its names are 1: demographic_parity: a - b, here 6"),
        (changed(stated=["demographic_parity <= 0.5"]), "its stated"),
        (changed(loss="hinge"), "its loss"),
        (changed(dual_values="surrogate"), "its dual_values"),
        (changed(multipliers=torch.zeros(2, dtype=torch.float64)), r"multipliers as torch.float64 \(2,\)"),
        (changed(multipliers=torch.zeros(6)), "multipliers as torch.float32"),
        (changed(multipliers=[0.0] * 6), "multipliers as list"),
        (changed(multipliers=torch.full((6,), math.nan, dtype=torch.float64)), "impossible multipliers"),
        (changed(multipliers=torch.full((6,), -1.0, dtype=torch.float64)), "impossible multipliers"),
        (changed(w=torch.full((6,), 1e9, dtype=torch.float64)), "impossible w"),
        (changed(mean=torch.full((3, 1), math.inf, dtype=torch.float64)), "impossible mean"),
        (changed(k=-1), "k = -1"),
        (changed(k="3"), "k = '3'"),
        (changed(queue=None), "unreadable recent rows"),
        (changed(queue={"scores": [], "keys": []}), "unreadable recent rows"),
        (
            changed(queue=recent(torch.zeros(3), torch.zeros(2).long())),
            "other shapes",
        ),
        (
            changed(queue=recent(torch.full((1,), math.nan), torch.zeros(1).long())),
            "NaN",
        ),
        (
            changed(queue=recent(torch.zeros(1), torch.full((1,), 99))),
            "other shapes",
        ),
    ],
)
def test_a_foreign_or_spoilt_state_is_refused_and_changes_nothing(change, words):
    dual = trained()
    before = copy.deepcopy(dual.state_dict())
    with pytest.raises(CheckpointError, match=words):
        dual.load_state_dict(change(trained().state_dict()))
    after = dual.state_dict()
    assert (
        all(torch.equal(before[k], after[k]) for k in ("multipliers", "mean", "window")) and before["k"] == after["k"]
    )


def test_the_state_of_two_groups_does_not_load_into_three():
    two = Dual("demographic_parity <= 0.1", groups=[0, 1], targets=[0, 1])
    three = Dual("demographic_parity <= 0.1", groups=[0, 1, 2], targets=[0, 1, 1])
    with pytest.raises(CheckpointError, match=r"its names are 2: .* here 6"):
        three.load_state_dict(two.state_dict())


# -- LBFGS ---------------------------------------------------------------------------------------------------------


def test_an_lbfgs_closure_does_not_observe_the_points_it_tries():
    features, y, group = rows()
    net = nn.Linear(4, 1).double()
    dual = Dual("demographic_parity <= 0.05", groups=group, targets=y, dual_every=1, dual_step_size=0.3, penalty=0.3)
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=5, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = dual.loss(net(features), y, group, observe=False)
        loss.backward()
        return loss

    for _ in range(60):
        optimizer.step(closure)
        dual.observe(net(features), y, group)
        dual.step()
    report = dual.report()
    assert report.batches == report.steps == 60 and report.rows == 60 * N
    positive = (net(features).squeeze(1) > 0).double()
    rates = [float(positive[group[:, 0] == k].mean()) for k in range(3)]
    assert max(rates) - min(rates) <= 0.05 + 2 / 70  # a row or two of the smallest group, about 70 rows


def test_a_loss_of_classes_without_classes_is_told_what_it_lacks():
    dual = Dual("demographic_parity <= 0.05", group_names=["a", "b"], loss=torch.nn.CrossEntropyLoss())
    with pytest.raises(OptionError, match="reduction='none', and where it takes a score for each class, classes="):
        dual.loss(torch.randn(4), [0, 1, 0, 1], [0, 0, 1, 1])


def test_a_bound_may_be_tightened_on_the_way():
    y, group = torch.arange(400) % 2, torch.arange(400) // 2 % 2
    s = torch.where(group == 0, 1.0, -1.0)
    loose, tight = (Dual(f"equalized_odds <= {v}", groups=group, targets=y, dual_every=1) for v in (0.5, 0.1))
    loose.observe(s, y, group)
    loose.step()
    tight.load_state_dict(loose.state_dict())
    assert torch.equal(tight.multipliers, loose.multipliers) and tight.multipliers.any()
    for dual in (loose, tight):
        dual.observe(s, y, group)
        dual.step()
    risen = tight.multipliers - loose.multipliers
    torch.testing.assert_close(risen[risen > 0], torch.full((2,), 0.4, dtype=torch.float64), atol=1e-2, rtol=0)
    other = Dual("demographic_parity <= 0.1", groups=group, targets=y)
    with pytest.raises(CheckpointError, match="of another problem: its stated are"):
        other.load_state_dict(loose.state_dict())
