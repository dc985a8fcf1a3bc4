"""Fair problems: stated bounds against loops over groups, batches against enumeration, verbs against differences."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

from fairbound.base.errors import DataError, EmptyGroupError, NonFiniteError, OptionError
from fairbound.fairness.evaluation import row_sums
from fairbound.fairness.evaluation.row_sums import DenseSums, IndexedSums
from fairbound.fairness.pointwise import LOSSES, SURROGATES
from fairbound.fairness.problem import FairProblem
from fairbound.models.model import MLP, ModuleModel
from fairbound.problems.problem import Draws
from fairbound.problems.wrappers import Counted
from fairbound.rows import sampling
from fairbound.rows.groups import Groups
from fairbound.testing import check_gradient, check_stacked
from twelve_rows import FEATURES, TARGETS, THREE_GROUPS, TWO_GROUPS, WEIGHTS, tiny

STATED = [
    "loss_gap <= 0.005",
    "loss_gap[y=both,overall] <= 0.1",
    "demographic_parity <= 0.02",
    "demographic_parity[overall,surrogate=clipped] <= 0.02",
    "demographic_parity[best,surrogate=hinge,sharpness=2] <= 0.02",
    "equal_opportunity[surrogate=loss] <= 0.1",
    "equalized_odds[sum] <= 0.1",
    "equalized_odds[best] <= 0.1",
    ["equalized_odds[sum] <= 0.05", "loss_gap[best] <= 0.1", "predictive_equality <= 0.2"],
]


def rows(seed=0, n=300):
    """Features, labels and three attributes with missing values and unequal groups."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = (X[:, 0] + rng.normal(size=n) > 0).astype(int)
    attributes = {
        "sex": rng.choice(["f", "m"], n, p=[0.3, 0.7]).astype(object),
        "race": rng.choice(["a", "b", "c"], n, p=[0.2, 0.3, 0.5]).astype(object),
        "age": rng.choice(["young", "old"], n).astype(object),
    }
    for name, share in (("sex", 0.1), ("race", 0.05)):
        attributes[name][rng.random(n) < share] = None
    return X, y, attributes


@pytest.mark.parametrize("stated", STATED, ids=str)
@pytest.mark.parametrize("model", ["linear", "mlp", "module"])
def test_verbs_agree_with_central_differences(stated, model):
    made = {"linear": lambda: MLP(2), "mlp": lambda: MLP(2, (4, 3)), "module": _module}[model]()
    make = lambda: tiny(stated, model=made, groups=THREE_GROUPS)  # noqa: E731
    kinds = ("balanced", "uniform", "shuffled", "full")
    check_gradient(make, kinds=kinds, batch_size=9, points=1)
    check_gradient(make, kinds=("balanced", "full"), batch_size=5, seeds=(0, 1), points=1)


def _module():
    torch.manual_seed(3)
    return ModuleModel(nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)).double())


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared", "squared_margin", lambda s, y: (s - y).abs() ** 1.5])
@pytest.mark.parametrize("weighted", [False, True])
def test_verbs_agree_for_every_loss_with_and_without_weights(loss, weighted):
    weight = WEIGHTS if weighted else None
    for stated in (None, ["loss_gap <= 0.1", "demographic_parity[surrogate=loss] <= 0.1"]):
        check_gradient(lambda stated=stated: tiny(stated, loss=loss, sample_weight=weight), points=1)


def test_verbs_agree_for_several_classes():
    for stated in (None, "loss_gap <= 0.1"):
        for model in (MLP(2, (4,), outputs=3), MLP(2, outputs=3)):
            check_gradient(lambda s=stated, m=model: tiny(s, model=m, loss="cross_entropy"), points=1)


def test_dropout_draws_the_same_units_in_every_verb_of_a_batch():
    torch.manual_seed(0)
    model = ModuleModel(nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Dropout(0.5), nn.Linear(16, 1)).double())
    before = torch.random.get_rng_state()
    check_gradient(tiny("loss_gap <= 0.1", model=model), kinds=("balanced", "uniform"), points=2, seeds=(0,))
    assert torch.equal(torch.random.get_rng_state(), before)
    problem = tiny("loss_gap <= 0.1", model=model)
    x = problem.start([0])
    a, b = (problem.values(x, problem.sample([0], "primal", k, 12, "balanced")) for k in (0, 1))
    assert not torch.equal(a.f, b.f)


@pytest.mark.parametrize("name", [name for name in (*LOSSES, *SURROGATES) if name != "cross_entropy"])
def test_pointwise_slopes_are_derivatives(name):
    function = LOSSES[name] if name in LOSSES else SURROGATES[name](1.7)
    s = torch.linspace(-3.013, 3.021, 101, dtype=torch.float64)
    h = 1e-6
    for y in (torch.zeros_like(s), torch.ones_like(s)):
        numeric = (function.value(s + h, y) - function.value(s - h, y)) / (2 * h)
        assert torch.allclose(function.slope(s, y), numeric, atol=1e-8)


@pytest.mark.parametrize("stated", [s for s in STATED if "best" not in str(s)], ids=str)
@pytest.mark.parametrize("kind", ["balanced", "uniform"])
@pytest.mark.parametrize("runs", [1, 3])
def test_dense_and_indexed_sums_give_the_same_numbers(stated, kind, runs, monkeypatch):
    X, y, columns = rows()
    found = {}
    for limit, cls in ((1 << 30, DenseSums), (0, IndexedSums)):
        monkeypatch.setattr(row_sums, "DENSE_LIMIT", limit)
        monkeypatch.setattr(row_sums, "DENSE_FOR", 0)
        problem = FairProblem(MLP(4), X, y, columns, stated, dtype=torch.float64)
        seeds = tuple(range(runs))
        x = problem.start(seeds) + 0.3
        batch = problem.sample(seeds, "s", 2, 64, kind)
        assert isinstance(batch.row_sums, cls)
        w = torch.linspace(-1, 2, problem.m, dtype=torch.float64).expand(*x.shape[:-1], -1)
        e, gradient = problem.gradient(x, batch, lambda e, w=w: (0.7, w))
        found[cls] = (e.f, e.g, gradient, problem.jvp(x, batch, torch.ones_like(x)))
    for a, b in zip(*found.values(), strict=True):
        assert torch.allclose(a, b, rtol=0, atol=1e-12)


def distinct(problem, size, kind, draws=4000):
    """The different batches of a stream, with how often each came."""
    batches, times = {}, Counter()
    for k in range(draws):
        batch = problem.sample((0,), "enumerate", k, size, kind)
        key = tuple(map(tuple, batch.features.tolist()))
        batches[key] = batch
        times[key] += 1
    return list(batches.values()), np.array([times[key] for key in batches])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("stated", ["loss_gap <= 0.01", "demographic_parity[overall] <= 0.01", None])
def test_balanced_batches_are_unbiased(stated, weighted):
    """Six rows, groups of 2 and 4, one row of each per batch: 8 equally likely batches, whose mean is the full data."""
    at = [0, 1, 5, 6, 7, 8]
    problem = tiny(stated, rows=at, sample_weight=WEIGHTS[at] if weighted else None)
    if stated is None:
        problem = tiny("loss_gap <= 0.01", rows=at, sample_weight=WEIGHTS[at] if weighted else None)
    batches, times = distinct(problem, 2, "balanced")
    assert len(batches) == 2 * 4
    # multinomial counts, 8 cells: chi-square with 7 degrees of freedom exceeds 47 with probability 5e-8
    assert ((times - 500) ** 2 / 500).sum() < 47
    x = torch.tensor([0.4, -0.7, 0.2], dtype=torch.float64)
    w = torch.linspace(0.5, 2, problem.m, dtype=torch.float64)
    mean = [torch.stack(parts).mean(0) for parts in zip(*(
        (*problem.values(x, b)[:2], problem.gradient(x, b, (1.0, w))[1]) for b in batches), strict=True)]  # fmt: skip
    full = problem.full()
    exact = (*problem.values(x, full)[:2], problem.gradient(x, full, (1.0, w))[1])
    for a, b in zip(mean, exact, strict=True):
        assert torch.allclose(a, b, rtol=0, atol=1e-14)


def test_small_strata_take_part_whole_and_stay_unbiased():
    """Four places for groups of 1 and 4 rows: the single row once, three of the four drawn, weighted back."""
    at = [0, 5, 6, 7, 8]
    problem = tiny("loss_gap <= 0.01", rows=at)
    batches, _ = distinct(problem, 4, "balanced")
    single = FEATURES[0].tolist()
    assert len(batches) == 4**3 and all([f.tolist() for f in b.features].count(single) == 1 for b in batches)
    x = torch.tensor([0.4, -0.7, 0.2], dtype=torch.float64)
    g = torch.stack([problem.values(x, b).g for b in batches]).mean(0)
    f = torch.stack([problem.values(x, b).f for b in batches]).mean(0)
    exact = problem.values(x, problem.full())
    assert torch.allclose(g, exact.g, atol=1e-14) and torch.allclose(f, exact.f, atol=1e-14)


@pytest.mark.parametrize("weighted", [False, True])
def test_uniform_batches_have_an_unbiased_objective_and_the_batch_s_own_group_means(weighted):
    at = [0, 1, 5, 6]
    weight = WEIGHTS[at] if weighted else None
    problem = tiny("loss_gap <= 0.01", rows=at, sample_weight=weight)
    batches, _ = distinct(problem, 2, "uniform")
    assert len(batches) == 4**2
    x = torch.tensor([0.4, -0.7, 0.2], dtype=torch.float64)
    f = torch.stack([problem.values(x, b).f for b in batches]).mean()
    assert torch.allclose(f, problem.values(x, problem.full()).f, atol=1e-14)
    for b in batches:
        e = problem.values(x, b)
        groups = {TWO_GROUPS[at][np.flatnonzero((FEATURES[at] == row).all(1))[0]] for row in b.features.numpy()}
        seen = torch.ones_like(e.g, dtype=torch.bool) if e.seen is None else e.seen
        assert bool(seen.all()) == (len(groups) == 2)
        assert len(groups) == 2 or not e.g.any()


def test_fewer_places_than_strata_still_gives_an_unbiased_objective():
    problem = tiny("equalized_odds <= 0.1", groups=THREE_GROUPS)  # strata: group and label, more than 2
    batches, times = distinct(problem, 2, "balanced", 6000)
    x = torch.tensor([0.4, -0.7, 0.2], dtype=torch.float64)
    f = np.array([float(problem.values(x, b).f) for b in batches])
    mean, deviation = (
        np.average(f, weights=times),
        np.sqrt(np.average((f - np.average(f, weights=times)) ** 2, weights=times)),
    )
    exact = float(problem.values(x, problem.full()).f)
    assert abs(mean - exact) < 5 * deviation / np.sqrt(6000)  # five standard errors
    assert any(b.seen is not None and not b.seen.all() for b in batches)


def test_an_absent_group_is_masked_and_counted_never_a_rate_of_zero():
    problem = tiny(["demographic_parity <= 0.01", "loss_gap <= 0.01"], groups=THREE_GROUPS)
    x = torch.tensor([0.4, -0.7, 0.2], dtype=torch.float64)
    for k in range(50):
        batch = problem.sample((0,), "s", k, 3, "uniform")
        present = {THREE_GROUPS[np.flatnonzero((row == FEATURES).all(1))[0]] for row in batch.features.numpy()}
        counted = Counted(problem)
        e = counted.values(x, batch)
        expected = [set(name.split(": ")[1].split(" - ")) <= present for name in problem.names]
        seen = torch.ones(problem.m, dtype=torch.bool) if e.seen is None else e.seen
        assert seen.tolist() == expected
        assert not e.g[~seen].any() and counted.counts.unseen == expected.count(False)
        w = torch.ones(problem.m, dtype=torch.float64)
        _, with_all = problem.gradient(x, batch, (0.0, w))
        _, with_seen = problem.gradient(x, batch, (0.0, w * seen))
        assert torch.equal(with_all, with_seen)


@pytest.mark.parametrize("kind", ["balanced", "uniform", "shuffled"])
@pytest.mark.parametrize("limit", [4 << 20, 1])
def test_a_batch_does_not_depend_on_how_many_are_stacked_or_gathered(kind, limit, monkeypatch):
    """Batch k is a function of (seed, name, k, size, kind): whatever the memory limit, the stack and the dtype."""
    at = (0, 1, 63, 64, 129, 5)
    reference = {k: tiny().sample((7,), "s", k, 4, kind).features for k in at}
    monkeypatch.setattr(sampling, "CHUNK_BYTES", limit)
    stacked, single = tiny(), tiny(dtype=torch.float32)
    for k in at:
        assert torch.equal(stacked.sample((3, 7, 9), "s", k, 4, kind).features[1], reference[k])
        assert torch.equal(single.sample((7,), "s", k, 4, kind).features, reference[k].float())
    other = {k: tiny().sample((7,), "t", k, 4, kind).features for k in at}
    assert not any(torch.equal(reference[k], other[k]) for k in at) or kind == "shuffled"


def test_stacked_runs_may_have_their_own_bounds():
    base = tiny("loss_gap <= 0.01")
    bounds = torch.tensor([[0.0, 0.0], [0.1, 0.2]], dtype=torch.float64)
    stacked = base.with_bounds(bounds)
    x = base.start([0, 1])
    assert torch.allclose(stacked.evaluate(x).g, base.evaluate(x).g + 0.01 - bounds)
    assert torch.allclose(stacked.stated_values(stacked.evaluate(x))[0], base.stated_values(base.evaluate(x))[0])
    with pytest.raises(OptionError, match="one per constraint"):
        base.with_bounds(torch.zeros(3))


def test_crossed_groups_that_do_not_occur_are_no_groups():
    groups = {"a": np.array(list("xxyy") * 3), "b": np.array(list("ppqq") * 3)}
    problem = FairProblem(MLP(2), FEATURES, TARGETS, groups, "demographic_parity[crossed] <= 0.1")
    assert problem.m == 2 and problem.names[0] == "demographic_parity: x & p - y & q"


def test_empty_groups_raise_or_are_dropped_by_option():
    y = np.where(THREE_GROUPS == "b", 0, TARGETS)
    with pytest.raises(EmptyGroupError, match=r"'b' has no positive row.*'equal_opportunity\[empty=drop\] <= 0\.1'"):
        FairProblem(MLP(2), FEATURES, y, THREE_GROUPS, "equal_opportunity <= 0.1")
    problem = FairProblem(MLP(2), FEATURES, y, THREE_GROUPS, "equal_opportunity[empty=drop] <= 0.1")
    assert problem.plan.dropped == ("b",) and problem.m == 2
    with pytest.raises(EmptyGroupError, match="at least two groups"):
        FairProblem(MLP(2), FEATURES, TARGETS, np.array(["a"] * 12), "demographic_parity <= 0.1")
    one = np.where(np.arange(12) == 0, "lonely", "rest")
    assert FairProblem(MLP(2), FEATURES, TARGETS, one, "demographic_parity <= 0.1").m == 2
    with pytest.raises(EmptyGroupError):
        FairProblem(MLP(2), FEATURES, np.zeros(12), THREE_GROUPS, "equal_opportunity[overall,empty=drop] <= 0.1")


def test_a_group_without_rows_or_weight_is_refused_where_a_plan_or_weights_hide_it():
    plan = tiny("demographic_parity <= 0.1", groups=THREE_GROUPS).plan
    held = Groups.of(THREE_GROUPS).take(np.flatnonzero(THREE_GROUPS != "b"))
    keep = THREE_GROUPS != "b"
    with pytest.raises(EmptyGroupError, match="'b'"):
        FairProblem(MLP(2), FEATURES[keep], TARGETS[keep], held, plan)
    with pytest.raises(EmptyGroupError, match=r"positive weight.*'b'"):
        tiny("demographic_parity <= 0.1", groups=THREE_GROUPS, sample_weight=np.where(keep, 1.0, 0.0))


def test_nan_losses_name_batch_group_and_constraint_and_reach_no_evaluation():
    def loss(s, y):
        return (s - y) ** 2 + 0 * (1e6 - s).sqrt()  # NaN, with a NaN slope, where a score exceeds a million

    X = FEATURES.copy()
    X[7] = 1e9  # a row of group b
    for stated, verb in product(["loss_gap <= 0.1", "demographic_parity <= 0.1"], ["values", "gradient", "weights"]):
        problem = FairProblem(MLP(2), X, TARGETS, TWO_GROUPS, stated, loss=loss, dtype=torch.float64)
        x = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)
        draws = Draws(problem, (0,), 12, "full")
        with pytest.raises(NonFiniteError, match=r"1 of 12 rows of batch 0 .*group.* b[ ;].*a - b"):
            if verb == "values":
                problem.values(x, draws("s", 3), true=True)
            elif verb == "gradient":
                problem.gradient(x, draws("s", 3), (1.0, torch.ones(2, dtype=torch.float64)))
            else:
                problem.gradient(x, draws("s", 3), lambda e: pytest.fail("NaN reached the multipliers"))


def test_infinite_losses_with_finite_slopes_do_not_reach_the_weights():
    """softplus(1e400) is infinite though its slope is 1: the gradient alone would not show it."""
    X = FEATURES.copy()
    X[7] = 1e300
    problem = FairProblem(MLP(2), X, TARGETS, TWO_GROUPS, "loss_gap <= 0.1", dtype=torch.float64)
    x = torch.tensor([1e10, 0.0, 0.0], dtype=torch.float64)
    with pytest.raises(NonFiniteError, match="groups b"):
        problem.gradient(x, problem.full(), lambda e: pytest.fail("an infinity reached the multipliers"))


def test_bad_input_is_refused_with_the_next_move():
    bad = FEATURES.copy()
    bad[4, 1] = np.inf
    with pytest.raises(DataError, match=r"feature 1 is NaN or infinite in row 4.*Impute"):
        FairProblem(MLP(2), bad, TARGETS)
    with pytest.raises(DataError, match="needs sensitive features"):
        FairProblem(MLP(2), FEATURES, TARGETS, None, "demographic_parity <= 0.1")
    with pytest.raises(DataError, match="differ in length"):
        FairProblem(MLP(2), FEATURES[:5], TARGETS)
    with pytest.raises(DataError, match="no rows"):
        FairProblem(MLP(2), FEATURES[:0], TARGETS[:0])
    for weight in (-WEIGHTS, 0 * WEIGHTS, WEIGHTS[:3], WEIGHTS * np.nan):
        with pytest.raises(DataError, match="sample_weight"):
            tiny(sample_weight=weight)
    with pytest.raises(OptionError, match="unknown sampling 'balance'"):
        tiny().sample((0,), "s", 0, 4, "balance")
    with pytest.raises(OptionError, match="unknown loss"):
        tiny(loss="l2")
    with pytest.raises(OptionError, match="one value per row"):
        tiny(loss=lambda s, y: ((s - y) ** 2).mean()).full and tiny(loss=lambda s, y: ((s - y) ** 2).mean()).evaluate(
            torch.zeros(3, dtype=torch.float64)
        )
    with pytest.raises(OptionError, match="names 'income', which is not among the sensitive features"):
        tiny("demographic_parity[by=income] <= 0.1")


def test_a_stack_equals_single_runs_with_a_module():
    from fairbound.methods import SGD

    check_stacked(SGD(), lambda **o: tiny("loss_gap <= 0.1", model=_module(), **o))


@pytest.mark.parametrize("stated", STATED, ids=str)
def test_the_jacobians_rows_are_the_gradients_and_one_side_of_a_pair_is_enough(stated, monkeypatch):
    X, y, attributes = rows()
    problem = FairProblem(MLP(4), X, y, attributes, stated, dtype=torch.float64)
    x = torch.randn(problem.n, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    batch = problem.sample((0,), "jacobian", 0, 128, "uniform")
    alone = torch.stack([problem.gradient(x, batch, (0.0, w))[1] for w in torch.eye(problem.m, dtype=torch.float64)])
    pulls, forward = [], problem.model.forward

    def counting(*given):
        scores, tape = forward(*given)
        vjp = tape.vjp
        tape.vjp = lambda ds: pulls.append(1) or vjp(ds)
        return scores, tape

    monkeypatch.setattr(problem.model, "forward", counting)
    torch.testing.assert_close(problem.jacobian(x, batch)[1][1:], alone, rtol=0, atol=1e-13)
    pairs = 0 if problem.plan.best else problem.m // 2
    assert len(pulls) == 1 + problem.m - pairs
