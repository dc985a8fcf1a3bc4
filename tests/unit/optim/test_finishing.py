"""`finish` solves the last layer of a network in place: bounds are met as they are counted, and nothing else moves."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import nn

import fairbound as fb
from fairbound.base.errors import DataError, NonFiniteError, OptionError
from fairbound.optim import Dual, finish

pytestmark = pytest.mark.filterwarnings("ignore:the model decides", "ignore:`torch.jit")

N = 1500
BOUND = "demographic_parity <= 0.02"


def rows(classes=2):
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, N)
    X = (rng.normal(size=(N, 3)) + 0.6 * group[:, None]).astype("float32")
    score = X @ [1.0, -0.5, 0.7] + X[:, 0] * X[:, 1] + rng.normal(size=N)
    y = np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))
    return torch.from_numpy(X), y, group


def network(outputs=1, *last):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, outputs), *last)


def scores_of(model, X):
    with torch.no_grad():
        return copy.deepcopy(model).eval()(X).squeeze(1).numpy()


def test_the_bound_is_met_in_place_and_what_is_said_is_true():
    X, y, group = rows()
    model = network()
    before = scores_of(model, X) > 0
    body, head = copy.deepcopy(model[0].state_dict()), model[3].weight
    done = finish(model, BOUND, X, y, group)
    decided = scores_of(model, X) > 0
    rates = [decided[group == g].mean() for g in (0, 1)]
    assert abs(rates[0] - rates[1]) <= 0.02 and done.feasible and done.changed
    assert done.values == {BOUND: pytest.approx(abs(rates[0] - rates[1]), abs=1e-9)}
    assert done.values_before[BOUND] == pytest.approx(abs(before[group == 0].mean() - before[group == 1].mean()))
    assert done.accuracy == pytest.approx((decided == y).mean())
    assert done.accuracy_before == pytest.approx((before == y).mean())
    assert (done.layer, done.features, done.rows) == ("3", 8, N)
    assert model[3].weight is head and all(
        torch.equal(a, b) for a, b in zip(body.values(), model[0].parameters(), strict=True)
    )
    assert all(part.training for part in model.modules()) and not model[3]._forward_hooks
    assert head.requires_grad and head.is_leaf
    assert "solved anew" in str(done) and f"{BOUND}: {done.values[BOUND]:.4f}" in str(done)


def test_it_is_the_linear_model_of_what_the_layers_before_make():
    """The decisions of FairClassifier on these numbers, but for rows at the threshold to rounding."""
    X, y, group = rows()
    model = network()
    with torch.no_grad():
        inputs = copy.deepcopy(model).eval()[:3](X).numpy()
    finish(model, BOUND, X, y, group, weight_decay=0.0)
    line = fb.FairClassifier(
        BOUND, weight_decay=0.0, random_state=0, options=fb.TableOptions(knots=0, jumps=0, pairs=0)
    )
    line.fit(inputs, y, group)
    np.testing.assert_allclose(scores_of(model, X), line.decision_function(inputs), atol=2e-4)


@pytest.mark.parametrize("kind", ["batches", "tuple", "dict", "array"])
def test_inputs_come_in_batches_of_any_kind(kind):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = network()

        def forward(self, first, rest=None):
            return self.net(first if rest is None else torch.cat([first, rest], 1))

    X, y, group = rows()
    wanted, model = Two(), Two()
    finish(wanted, BOUND, X, y, group)
    given = {"tuple": (X[:, :1], X[:, 1:]), "dict": {"first": X[:, :1], "rest": X[:, 1:]}, "array": X.double().numpy()}
    targets, code = torch.from_numpy(y)[:, None], torch.from_numpy(group)[:, None]
    if kind == "batches":
        parts = [(X[i], targets[i], code[i]) for i in torch.arange(N).split(100)]
        finish(model, BOUND, (part for part in parts))
    else:
        finish(model, BOUND, given[kind], targets, code)
    for a, b in zip(wanted.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def test_two_scores_of_two_classes_are_one_score_and_its_negative():
    X, y, group = rows()
    one, two = network(), network(2)
    two.load_state_dict({**two.state_dict(), **{k: v for k, v in one.state_dict().items() if k.startswith("0")}})
    mean = two[3].weight.detach().mean(0)
    done, wanted = finish(two, BOUND, X, y, group), finish(one, BOUND, X, y, group)
    with torch.no_grad():
        both = copy.deepcopy(two).eval()(X)
    np.testing.assert_allclose((both[:, 1] - both[:, 0]).numpy(), scores_of(one, X), atol=1e-4)
    torch.testing.assert_close(two[3].weight.detach().mean(0), mean)
    assert (done.values, done.accuracy) == (wanted.values, wanted.accuracy)


def test_more_classes_under_a_bound_on_a_class():
    X, y, _ = rows(3)
    model = network(3)
    done = finish(model, "error of class 1 <= 0.4", X, y)
    with torch.no_grad():
        decided = copy.deepcopy(model).eval()(X).argmax(1).numpy()
    assert done.values["error of class 1 <= 0.4"] == pytest.approx((decided != y)[y == 1].mean(), abs=1e-6)
    assert done.feasible and done.accuracy == pytest.approx((decided == y).mean())


def test_areas_and_weights():
    X, y, group = rows()
    weight = np.random.default_rng(1).integers(1, 4, N)
    done = finish(network(), [BOUND, "auc_parity[group] <= 0.05"], X, y, group)
    assert done.feasible and set(done.values) == {BOUND, "auc_parity[group] <= 0.05"}
    model = network()
    done = finish(model, BOUND, X, y, group, sample_weight=torch.from_numpy(weight))
    decided = scores_of(model, X) > 0
    rates = [np.average(decided[group == g], weights=weight[group == g]) for g in (0, 1)]
    assert done.feasible and abs(rates[0] - rates[1]) <= 0.02
    assert done.accuracy == pytest.approx(np.average(decided == y, weights=weight))


def test_rows_of_weight_zero_are_no_rows():
    """Neither are what they hold, which may be no number, their targets or a group that only they have."""
    X, y, group = rows()
    first, second = network(), network()
    alone = finish(first, BOUND, X, y, group)
    padded = torch.cat([torch.full((50, 3), torch.nan), X, torch.full((100, 3), 1000.0)])
    others, weight = np.r_[[7] * 50, y, [0] * 100], np.r_[np.zeros(50), np.ones(N), np.zeros(100)]
    groups = np.array([*["c"] * 50, *map(str, group), *["d"] * 100])
    done = finish(second, BOUND, padded, others, groups, sample_weight=weight)
    assert (done.rows, done.accuracy, done.values) == (N, alone.accuracy, alone.values)
    assert torch.equal(first[3].weight, second[3].weight)
    padded[52] = torch.inf
    with pytest.raises(NonFiniteError, match=r"1 of 1500 rows.*first in row 52"):
        finish(network(), BOUND, padded, others, groups, sample_weight=weight)


def test_units_that_say_nothing_get_no_weight():
    X, y, group = rows()
    model = network()
    with torch.no_grad():
        model[0].bias[2], model[0].bias[5] = -100.0, torch.nan_to_num(torch.tensor(7.0))
        model[0].weight[5] = 0
    finish(model, BOUND, X, y, group)
    assert model[3].weight[0, [2, 5]].tolist() == [0.0, 0.0]
    assert torch.isfinite(model[3].weight).all()


def test_a_layer_nearer_to_bounds_that_cannot_be_met_stays():
    X, y, group = rows()
    model = network()
    asked = ["recall of class 1 >= 0.99", "recall of class 0 >= 0.99"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        first = finish(model, asked, X, y, group)
        kept = copy.deepcopy(model.state_dict())
        again = finish(model, asked, X, y, group)
    assert not first.feasible and "Not every bound is met" in str(first)
    excess = [max(0.99 - v for v in done.values.values()) for done in (first, again)]
    assert excess[1] <= excess[0] + 1e-9
    assert not again.changed and all(torch.equal(kept[k], v) for k, v in model.state_dict().items())
    assert again.accuracy == again.accuracy_before and "left as it was" in str(again)


def test_after_a_loop_under_a_dual():
    X, y, group = rows()
    model, dual = network(), Dual(BOUND, groups=group, targets=y)
    optimizer, code = torch.optim.Adam(model.parameters(), lr=0.01), dual.encode(group)
    for part in torch.arange(N).split(100):
        optimizer.zero_grad()
        dual.loss(model(X[part]), torch.from_numpy(y)[part], code[part]).backward()
        optimizer.step()
        dual.step()
    done = finish(model, dual.stated, X, y, group)
    model.eval()
    assert dual.measure([(model(X), torch.from_numpy(y), code)])[BOUND] == pytest.approx(done.values[BOUND], abs=1e-6)
    assert done.feasible


def test_a_module_wrapped_by_torch_is_what_it_wraps():
    X, y, group = rows()
    for wrap in (nn.DataParallel, torch.compile, lambda net: nn.DataParallel(torch.compile(net))):
        net = network()
        assert finish(wrap(net), BOUND, X, y, group).feasible
        decided = scores_of(net, X) > 0
        assert abs(decided[group == 0].mean() - decided[group == 1].mean()) <= 0.02


class Own(nn.Module):
    """A module whose scores `made` makes of the network and its inputs."""

    def __init__(self, made, net=None):
        super().__init__()
        self.made, self.module = made, net or network()

    def forward(self, X):
        return self.made(self.module, X)


def test_a_module_of_ones_own_around_another_is_run_as_it_is():
    X, y, group = rows()
    model = Own(lambda net, x: net((x - 3) / 2))
    done = finish(model, BOUND, X, y, group)
    decided = scores_of(model, X) > 0
    assert done.accuracy == pytest.approx((decided == y).mean())
    assert done.values[BOUND] == pytest.approx(abs(decided[group == 0].mean() - decided[group == 1].mean()))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("scale", [1.0, 1e5])
def test_what_is_said_is_of_the_layer_as_it_is_written(dtype, scale):
    """Rounded to its dtype, and however large its weights were."""
    X, y, group = rows()
    model = network().to(dtype)
    with torch.no_grad():
        model[3].weight.mul_(min(scale, 1e3) if dtype == torch.float16 else scale)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        done = finish(model, BOUND, X, y, group)
    with torch.no_grad():
        decided = (copy.deepcopy(model).eval()(X.to(dtype)).squeeze(1) > 0).numpy()
    off = abs(decided[group == 0].mean() - decided[group == 1].mean())
    assert done.values[BOUND] == pytest.approx(off, abs=2e-3) and done.accuracy == pytest.approx(
        (decided == y).mean(), abs=2e-3
    )
    assert done.feasible is (done.values[BOUND] <= 0.02)


def test_batches_of_a_shuffled_loader_keep_their_order():
    X, y, group = rows()
    code = torch.from_numpy(np.where(np.arange(N) % 10, group, -1))
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(X, torch.from_numpy(y), code), batch_size=100, shuffle=True
    )
    wanted, model = network(), network()
    first = finish(wanted, BOUND, X, y, code)  # -1 is missing
    second = finish(model, BOUND, loader)
    known = np.arange(N) % 10 > 0
    decided = scores_of(model, X) > 0
    rates = [decided[known & (group == g)].mean() for g in (0, 1)]
    assert second.values[BOUND] == pytest.approx(abs(rates[0] - rates[1])) and second.feasible
    assert second.accuracy == pytest.approx(first.accuracy, abs=0.01) == pytest.approx((decided == y).mean(), abs=0.01)


def test_targets_in_another_order_are_warned_of():
    X, y, group = rows()
    model = network()
    finish(model, "demographic_parity <= 1", X, y, group)
    with pytest.warns(fb.DataWarning, match="in the order of the inputs"):
        finish(model, BOUND, X, 1 - y, group)


def test_a_layer_that_meets_the_bound_stays_where_none_found_is_more_accurate():
    X, y, group = rows()
    model = network()
    first = finish(model, BOUND, X, y, group)
    kept = copy.deepcopy(model.state_dict())
    again = finish(model, BOUND, X, y, group, weight_decay=1e3)
    assert not again.changed and again.feasible and again.accuracy == first.accuracy
    assert all(torch.equal(kept[k], v) for k, v in model.state_dict().items())
    assert "nothing found is better" in str(again)


def test_the_global_random_state_stays():
    X, y, group = rows()
    state = torch.random.get_rng_state()
    finish(network(), BOUND, X, y, group)
    torch.manual_seed(0)
    network()
    assert finish(network(), [], X, y, group).values == {}
    torch.random.set_rng_state(state)


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head, self.after = nn.Linear(3, 4), nn.Linear(4, 1), nn.Module()
        self.after.weight = self.head.weight

    def forward(self, X):
        return self.head(self.body(X).relu())


def hooked():
    model = network()
    model[3].register_forward_hook(lambda layer, given, out: 3 * out + 1)
    return model


REFUSED = {
    "sigmoid": (lambda X, y, g: (network(1, nn.Sigmoid()), BOUND, X, y, g), OptionError, "without a sigmoid"),
    "no bias": (lambda X, y, g: (nn.Linear(3, 1, bias=False), BOUND, X, y, g), OptionError, "with a bias"),
    "shared": (lambda X, y, g: (Shared(), BOUND, X, y, g), OptionError, "used elsewhere"),
    "no module": (lambda X, y, g: (len, BOUND, X, y, g), OptionError, "torch.nn.Module"),
    "no rows": (lambda X, y, g: (network(), BOUND, X[:0], y[:0], g[:0]), DataError, "no rows"),
    "no batches": (lambda X, y, g: (network(), BOUND, 3, y, g), OptionError, "Batches of a loader"),
    "lengths": (lambda X, y, g: (network(), BOUND, X[1:], y, g), DataError, "1499 rows and targets 1500"),
    "NaN": (lambda X, y, g: (network(), BOUND, X + torch.nan, y, g), NonFiniteError, "1500 of 1500 rows"),
    "three classes": (lambda X, y, g: (network(), BOUND, X, np.arange(N) % 3, g), DataError, "needs targets 0 to 1"),
    "text labels": (lambda X, y, g: (network(), BOUND, X, np.where(y, "yes", "no"), g), DataError, "these are no, yes"),
    "scaled": (lambda X, y, g: (Own(lambda net, x: 2 * net(x)), BOUND, X, y, g), OptionError, "without a sigmoid"),
    "turned": (
        lambda X, y, g: (Own(lambda net, x: net(x).reshape(2, -1).T, network(2)), BOUND, X, y, g),
        OptionError,
        "without a sigmoid",
    ),
    "random": (
        lambda X, y, g: (Own(lambda net, x: net(nn.functional.dropout(x, 0.5))), BOUND, X, y, g),
        OptionError,
        "each time",
    ),
    "used": (
        lambda X, y, g: (Own(lambda net, x: net(x * net[3].weight.sum())), BOUND, X, y, g),
        OptionError,
        "used elsewhere",
    ),
    "hooked": (lambda X, y, g: (hooked(), BOUND, X, y, g), OptionError, "has hooks"),
    "dead": (lambda X, y, g: (network(), BOUND, 0 * X, y, g), DataError, "same numbers of every row"),
    "frame": (lambda X, y, g: (network(), BOUND, pd.DataFrame(X.numpy()), y, g), OptionError, "TableEncoder"),
    "thresholds": (
        lambda X, y, g: (network(), "partial_statistical_parity[0.1:0.5] <= 0.1", X, y, g),
        OptionError,
        "trains thresholds",
    ),
    "batches alone": (lambda X, y, g: (network(), BOUND, [X]), OptionError, r"\(inputs, targets\)"),
    "rows at once": (lambda X, y, g: (network(), BOUND, X, y, g, None, 0), TypeError, "positional"),
    "names of classes": (
        lambda X, y, g: (network(3), "error of class 1 <= 0.4", X, 1 + np.arange(N) % 3),
        DataError,
        "0 to 2",
    ),
    "no groups": (lambda X, y, g: (network(), BOUND, X, y), (OptionError, DataError), "sensitive"),
    "numbers": (lambda X, y, g: (network(), "residual_gap <= 0.1", X, y, g), OptionError, "FairRegressor"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_finished_is_refused_and_left_as_it_was(case):
    given, error, words = REFUSED[case]
    model, *rest = given(*rows())
    before = copy.deepcopy(model.state_dict()) if isinstance(model, nn.Module) else {}
    with pytest.raises(error, match=words):
        finish(model, *rest)
    assert all(torch.equal(v, model.state_dict()[k]) for k, v in before.items())
