"""What a loop with fairness bounds gets wrong elsewhere, and whether `fairbound.optim` gets it right.

The cases are failures seen in humancompatible-train 0.4.2, cooper-optim 1.0.1, fairret 0.1.3 and torchmetrics: absent
groups, groups without positives, NaN multipliers, bounds out of reach, satisfied inequalities, checkpoints, processes.

`python tests/claims/test_optim_peers.py` prints what Dual costs beside a plain loss, one JSON line per case.
"""

import json
import math
import statistics
import time
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from two_processes import in_two_processes, needs_gloo

from fairbound.base.errors import EmptyGroupError, NonFiniteError, OptionError
from fairbound.data.generator import GaussianParity
from fairbound.optim import Dual

pytestmark = pytest.mark.filterwarnings("ignore:.*too few training rows")  # what is tested here is not the data

# -- groups that are not there -------------------------------------------------------------------------------------


def test_an_absent_group_is_neither_a_violation_nor_another_group():
    """fairret reports a violation of 1.0; torchmetrics reports group 2 under the name of group 0."""
    dual = Dual("demographic_parity <= 0.1", group_names=["a", "b", "c"], dual_every=1, memory=math.inf)
    everyone = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    dual.loss(everyone, torch.tensor([1, 0] * 3), torch.tensor([0, 0, 1, 1, 2, 2]))
    dual.step()
    assert dual.values() == {"demographic_parity <= 0.1": 0.0}
    for _ in range(3):
        dual.loss(torch.tensor([1.0, -1.0, -1.0]), torch.tensor([1, 0, 0]), torch.tensor([0, 0, 2]))
        dual.step()
    report = dual.report()
    rates = {"a": 4 / 8, "b": 1 / 2, "c": 1 / 5}
    assert report.values["demographic_parity <= 0.1"] == pytest.approx(rates["b"] - rates["c"], abs=1e-12)
    assert report.lacking == {"b": 3} and "b (3)" in str(report)
    touched = {name for name in report.multipliers if " b" in name or "b " in name}
    assert set(report.multipliers) == {"demographic_parity: a - c"} and not touched


def test_a_group_away_for_long_keeps_its_estimate_to_the_last_bit():
    dual = Dual("demographic_parity[overall] <= 0.1", group_names=["a", "b"], dual_every=1, memory=2)
    dual.observe(torch.tensor([1.0, 1.0, 1.0, -1.0]), [1] * 4, [0, 1, 1, 1])
    dual.step()
    kept = dual.state_dict()["mean"][1]
    for _ in range(400):  # its weight falls to exp(-800), which is 0 in float64
        dual.observe(torch.tensor([1.0, -1.0, 1.0, -1.0]), [1] * 4, [0] * 4)
        dual.step()
    assert torch.equal(dual.state_dict()["mean"][1], kept)
    dual.observe(torch.tensor([-1.0]), [1], [1])
    dual.step()
    assert dual.state_dict()["mean"][1].tolist() == [0.0]
    assert dual.report().lacking == {"a": 1, "b": 400}


def test_batches_without_positives_of_a_group_are_counted_and_finite():
    """libauc: NaN; fairlearn: 0.0 or 1.0 without a warning."""
    dual = Dual("equal_opportunity <= 0.1", group_names=["a", "b"], dual_every=2)
    scores = torch.tensor([2.0, -2.0, 1.0, 1.0], requires_grad=True)
    for _ in range(6):
        loss = dual.loss(scores, torch.tensor([1, 1, 0, 0]), torch.tensor([0, 0, 1, 1]))
        loss.backward()
        dual.step()
    report = dual.report()
    assert math.isnan(report.values["equal_opportunity <= 0.1"]) and "not measured yet" in str(report)
    assert report.lacking == {"b | y=1": 6} and report.unmeasured == ("b | y=1",)
    assert not dual.multipliers.any() and bool(torch.isfinite(scores.grad).all())


def test_a_group_without_positives_in_training_is_refused_or_dropped_by_request():
    rows = {"groups": [0, 0, 1, 1], "targets": [0, 1, 0, 0]}
    with pytest.raises(EmptyGroupError, match="'group: 1' has no positive row"):
        Dual("equal_opportunity <= 0.1", **rows)
    assert Dual("demographic_parity <= 0.1", **rows).m == 2


# -- NaN, satisfied bounds, bounds out of reach --------------------------------------------------------------------


def test_one_nan_never_reaches_the_multipliers():
    """humancompatible-train and cooper: multipliers NaN for ever, saved and reloaded as NaN."""
    dual = Dual("loss_gap <= 0.001", group_names=["a", "b"], dual_every=1)
    good = torch.tensor([1.0, -2.0]), torch.tensor([1, 1]), torch.tensor([0, 1])
    for k in range(6):
        if k == 3:
            with pytest.raises(NonFiniteError, match="batch 4; groups b; constraints loss_gap: a - b, loss_gap: b - a"):
                dual.loss(torch.tensor([1.0, math.nan]), *good[1:])
            continue
        dual.loss(*good)
        dual.step()
    once = dual.multipliers
    again = Dual("loss_gap <= 0.001", group_names=["a", "b"], dual_every=1)
    for _ in range(5):
        again.loss(*good)
        again.step()
    assert torch.equal(once, again.multipliers) and once.max() > 0
    assert all(
        bool(torch.isfinite(v).all()) for k, v in dual.state_dict().items() if torch.is_tensor(v) and k != "smallest"
    )


def test_two_satisfied_inequalities_stay_at_zero():
    """humancompatible-train's default treats the pair as equalities and drives its multipliers below zero."""
    dual = Dual("demographic_parity <= 0.3", group_names=["a", "b"], dual_every=1)
    scores = torch.tensor([1.0, -1.0, 1.0, -1.0, -1.0], requires_grad=True)
    y, group = torch.tensor([1, 0, 1, 0, 0]), torch.tensor([0, 0, 1, 1, 1])
    for _ in range(50):
        loss = dual.loss(scores, y, group)
        dual.step()
    assert dual.multipliers.tolist() == [0.0, 0.0] == dual.weights.tolist()
    plain = functional.binary_cross_entropy_with_logits(scores, y.float())
    assert loss.item() == pytest.approx(plain.item(), rel=1e-6)
    assert torch.allclose(*torch.autograd.grad(loss, scores), *torch.autograd.grad(plain, scores), rtol=1e-5)


def test_a_bound_out_of_reach_is_said_with_the_smallest_value_and_the_multiplier_stays_at_its_cap():
    """humancompatible-train, cooper and fairlearn: silent, and multipliers without end."""
    dual = Dual("loss_gap <= 0.01", group_names=["a", "b"], dual_every=1, multiplier_bound=3.0, decay=0.0)
    fixed = torch.tensor([4.0, 4.0])  # a model that cannot change: losses 0.018 and 4.018
    for _ in range(60):  # from 0.5 on, where rows of a weigh nothing, by 0.05 each
        dual.loss(fixed, torch.tensor([1, 0]), torch.tensor([0, 1]))
        dual.step()
    report = dual.report()
    assert dual.multipliers.tolist() == [0.0, 3.0] and report.at_cap == ("loss_gap: b - a",)
    for found in (report.smallest, report.values):
        assert found == {"loss_gap <= 0.01": pytest.approx(4.0, abs=1e-5)}
    assert "out of reach" in str(report) and "smallest so far 4" in str(report)


# -- loops that reach their bound ----------------------------------------------------------------------------------

OPTIMIZERS = {
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.02),
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.2),
}


UNEQUAL = GaussianParity(separations=(3.0, 1.0))  # the second group's labels are harder to tell


def trained(stated, optimizer, seed, task, epochs=50, batch=100, **options):
    data = task.sample(2000, seed)
    features, y = torch.tensor(data.X, dtype=torch.float32), torch.tensor(data.y)
    group = torch.tensor(data.sensitive["group"].astype(np.int64))
    generator = torch.Generator().manual_seed(seed)
    net = nn.Linear(features.shape[1], 1)
    with torch.no_grad():
        net.weight.zero_()
        net.bias.zero_()
    engine = OPTIMIZERS[optimizer](net.parameters())
    slower = torch.optim.lr_scheduler.LambdaLR(engine, lambda k: (1 + k / 200) ** -0.5)
    dual = Dual(stated, groups=group, targets=y, **options) if stated else None
    for _ in range(epochs):
        for part in torch.randperm(len(y), generator=generator).split(batch):
            scores = net(features[part])
            loss = (
                dual.loss(scores, y[part], group[part])
                if dual
                else functional.binary_cross_entropy_with_logits(scores.squeeze(1), y[part].float())
            )
            engine.zero_grad()
            loss.backward()
            engine.step()
            slower.step()
            if dual:
                dual.step()
    with torch.no_grad():
        scores = net(features).squeeze(1)
    losses = functional.binary_cross_entropy_with_logits(scores, y.float(), reduction="none")
    rates = [float((scores > 0)[group == k].float().mean()) for k in (0, 1)]
    means = [float(losses[group == k].mean()) for k in (0, 1)]
    accuracy = float(((scores > 0) == y).float().mean())
    return abs(rates[0] - rates[1]), abs(means[0] - means[1]), accuracy, dual


def loops(quick):
    """Optimisers and seeds: all pairs of them, but one in the long run."""
    pairs = [(optimizer, seed) for optimizer in sorted(OPTIMIZERS) for seed in range(2)]
    return pytest.mark.parametrize(
        ("optimizer", "seed"), [pytest.param(*p, marks=[] if p == quick else [pytest.mark.long]) for p in pairs]
    )


@loops(quick=("adam", 0))
def test_a_loop_reaches_its_bound_on_rates_for_every_seed(optimizer, seed):
    """At the default options. Tolerances: the running estimate is of models up to 2,048 rows (20 steps) old, in which
    the gap moves by about 0.01 here, so twice that; the accuracy of 2,000 rows has standard error 0.0083, so three of
    it below the best accuracy that any classifier with this gap has on the population."""
    task = GaussianParity()
    best = task.frontier(0.05).accuracy
    assert trained(None, optimizer, 0, task, epochs=10)[0] > 0.2
    gap, _, accuracy, dual = trained("demographic_parity <= 0.05", optimizer, seed, task, epochs=40)
    assert gap <= 0.05 + 0.02
    assert accuracy >= best - 0.025
    assert abs(dual.values()["demographic_parity <= 0.05"] - gap) < 0.02


@loops(quick=("sgd", 1))
def test_a_loop_reaches_its_bound_on_losses_for_every_seed(optimizer, seed):
    assert trained(None, optimizer, 0, UNEQUAL, epochs=10)[1] > 0.3
    _, gap, _, dual = trained("loss_gap <= 0.1", optimizer, seed, UNEQUAL, penalty=8.0)
    assert gap <= 0.1 + 0.01
    assert dual.multipliers[0] == 0.0 < dual.multipliers[1] < 1.5  # only "harder group - easier group" binds


# -- several processes ---------------------------------------------------------------------------------------------

STATED = ("demographic_parity <= 0.02", "loss_gap[overall] <= 0.01")


def sharded(n=96):
    """Rows in which the second half of every batch of 16 has no member of group 0."""
    rng = np.random.default_rng(0)
    group = np.tile(np.r_[[0] * 5, [1] * 3, [1] * 8], n // 16)
    x = rng.normal(size=(n, 3)) + group[:, None]
    y = (x[:, 0] + rng.normal(size=n) > 0.7).astype(np.int64)
    return torch.tensor(x), torch.tensor(y), torch.tensor(group)


def run_loop(net, dual, features, y, group, part):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.3)
    for k in range(36):
        rows = torch.arange(16)[part] + 16 * (k % 6)
        loss = dual.loss(net(features[rows]), y[rows], group[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        dual.step()


def process(rank, folder):
    """What each of the two processes does."""
    features, y, group = sharded()
    net = nn.Linear(3, 1).double()
    nn.init.zeros_(net.weight)
    nn.init.zeros_(net.bias)
    dual = Dual(STATED, groups=group, targets=y, dual_every=6, memory=50, distributed=True)
    run_loop(DistributedDataParallel(net), dual, features, y, group, slice(8 * rank, 8 * rank + 8))
    torch.save(
        {
            "net": net.state_dict(),
            "y": dual.multipliers,
            "w": dual.weights,
            "values": dual.values(),
            "batches": dual.report().batches,
            "rows": dual.report().rows,
            "processes": dual.report().processes,
        },
        f"{folder}/{rank}.pt",
    )


@needs_gloo
def test_two_processes_with_half_batches_are_one_process_with_whole_ones(joined):
    features, y, group = sharded()
    net = nn.Linear(3, 1).double()
    nn.init.zeros_(net.weight)
    nn.init.zeros_(net.bias)
    alone = Dual(STATED, groups=group, targets=y, dual_every=6, memory=50)
    run_loop(net, alone, features, y, group, slice(None))
    assert alone.multipliers.max() > 0
    for rank in (0, 1):
        there = torch.load(joined / f"{rank}.pt", weights_only=True)
        torch.testing.assert_close(there["y"], alone.multipliers, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(there["w"], alone.weights, rtol=1e-10, atol=1e-12)
        for name, value in net.state_dict().items():
            torch.testing.assert_close(there["net"][name], value, rtol=1e-10, atol=1e-12)
        assert there["values"] == pytest.approx(alone.values(), abs=1e-12)
        assert (there["batches"], there["rows"], there["processes"]) == (72, 36 * 16, 2)


def built_apart(rank, folder):
    """One of two processes that build Dual differently; what each is told goes to a file."""
    scores, y, group, said = torch.tensor([1.0, -1.0]), [1, 0], [0, 1], []
    for names, options in (
        (["a", "b"][:: 1 - 2 * rank], {}),
        (["a", "b", "c"][: 2 + rank], {}),
        (["a", "b"], {"penalty": 2.0 + rank}),
        (["a", "b"], {"memory": 100.0}),
    ):
        for exact in (False, True):
            dual = Dual("demographic_parity <= 0.1", group_names=names, distributed=True, dual_every=1, **options)
            try:
                if exact:
                    dual.measure([(scores, y, group)])
                dual.observe(scores, y, group)
                dual.step()
                said.append(f"{dual.report().processes} together")
            except OptionError as error:
                said.append(str(error))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        alone = Dual("demographic_parity <= 0.1", group_names=["a", "b"], dual_every=1)
        for _ in range(2):
            alone.observe(scores, y, group)
            alone.step()
    said += [str(one.message) for one in caught]
    torch.save(said, f"{folder}/apart{rank}.pt")


def both(rank, folder):
    """A process takes longer to start than either."""
    process(rank, folder)
    built_apart(rank, folder)


@pytest.fixture(scope="module")
def joined(tmp_path_factory):
    """The folder in which two processes left what they did."""
    folder = tmp_path_factory.mktemp("joined")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GLOO_SOCKET_IFNAME", "lo")
        in_two_processes(both, folder)
    return folder


@needs_gloo
def test_processes_that_build_it_differently_are_refused_before_their_sums_are_joined(joined):
    """Sums of the groups a, b and b, a joined by number gave a difference of 0.0 where it was 0.92."""
    here, there = (torch.load(joined / f"apart{rank}.pt", weights_only=True) for rank in (0, 1))
    assert here == there and len(here) == 9
    swapped, more, options, alike = here[0:2], here[2:4], here[4:6], here[6:8]
    assert all("names of process 0 are 2: demographic_parity: a - b" in text for text in swapped)
    assert all("process 1 6: demographic_parity: a - b" in text for text in more)
    assert all("options of process 0 are penalty=2.0, of process 1 penalty=3.0. Sums" in text for text in options)
    assert alike == ["2 together"] * 2
    assert here[8].startswith("2 processes train together, and this Dual counts the rows of its own alone")


def test_distributed_without_a_process_group_is_one_process():
    dual = Dual("demographic_parity <= 0.1", group_names=["a", "b"], distributed=True, dual_every=1)
    dual.observe(torch.tensor([1.0, -1.0]), [1, 0], [0, 1])
    dual.step()
    assert dual.report().processes == 1 and dual.values() == {"demographic_parity <= 0.1": 1.0}


# -- cost ----------------------------------------------------------------------------------------------------------


def cost(groups, batch, stated, repeats=400):
    """Microseconds, medians of interleaved calls on one thread: loss and backward, and one SGD step of an MLP 64-32."""
    group = torch.arange(batch) % groups
    y = (torch.arange(batch) // groups) % 2
    dual = Dual(stated, group_names=[str(k) for k in range(groups)])
    net = nn.Sequential(nn.Linear(100, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))
    features, criterion, floats = torch.randn(batch, 100), nn.BCEWithLogitsLoss(), y.float()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
    for _ in range(dual.config.dual_every):
        dual.observe(torch.randn(batch) + group / groups, y, group)
        dual.step()
    leaf = torch.randn(batch, requires_grad=True)

    def step(loss, close=None):
        optimizer.zero_grad()
        loss(net(features).squeeze(1)).backward()
        optimizer.step()
        if close:
            close()

    calls = {
        "plain_loss": lambda: criterion(leaf, floats).backward(),
        "dual_loss": lambda: dual.loss(leaf, y, group, observe=False).backward(),
        "plain_step": lambda: step(lambda s: criterion(s, floats)),
        "dual_step": lambda: step(lambda s: dual.loss(s, y, group), dual.step),
    }
    times = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - begin)
    micro = {name: 1e6 * statistics.median(seconds) for name, seconds in times.items()}
    mean = {name: 1e6 * statistics.fmean(times[name]) for name in ("plain_step", "dual_step")}
    return {
        "stated": stated,
        "groups": groups,
        "inequalities": dual.m,
        "batch": batch,
        **{name: round(value, 1) for name, value in micro.items()},
        "step_ratio_median": round(micro["dual_step"] / micro["plain_step"], 2),
        "step_ratio_mean_with_updates": round(mean["dual_step"] / mean["plain_step"], 2),
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for case in (
        (2, 8, "loss_gap <= 0.005"),
        (2, 64, "loss_gap <= 0.005"),
        (2, 512, "loss_gap <= 0.005"),
        (2, 64, "demographic_parity <= 0.02"),
        (535, 1070, "loss_gap[overall] <= 0.005"),
        (535, 1070, "demographic_parity[overall] <= 0.02"),
    ):
        print(json.dumps(cost(*case)))
