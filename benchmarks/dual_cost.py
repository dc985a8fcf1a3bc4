"""What a step of a user's own torch loop costs with `fairbound.optim.Dual` in it, in plain steps (= 1), one thread.

UCI Adult, sex as the group, MLP 64-32 ReLU, group-balanced batches of 8, 64 and 512 rows drawn in advance, a bound on losses and one on
selection rates. Beside each stand two steps that somebody who knows torch would write for the same penalty with a multiplier that never
moves, without checks, records and updates: `by hand` with the means of both groups, and `least` with a weight for each row's group, looked
up, which is the fewest operations that give the gradient of the penalty; `one node` is that of a bound on rates with a hook in place of its
nodes of autograd. `floor` is `least` with what must be read of every batch, in one function
without an object: labels as whole numbers, the ranges of labels and codes, a key of both for the statistics, and whether the loss is
finite; no updates. (`Dual` reads labels and codes of several batches at once, at updates.) `--compile`
compiles the network of all with torch.compile and takes the compiled plain step as 1. `--parts` prints where the time of a step goes, in
microseconds of processor time. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import harness

harness.single_thread()

import ours  # noqa: E402
import peers  # noqa: E402
import torch  # noqa: E402
from tasks import FixedBatch, Rows, adult, balanced_batches, mlp  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from fairbound.optim import Dual  # noqa: E402

torch.set_num_threads(1)

STATED = {"loss_gap": "loss_gap <= 0.005", "demographic_parity": "demographic_parity <= 0.02"}
LIMIT = 1.2
MULTIPLIER = 0.3
BY_GROUP = torch.tensor([2 * MULTIPLIER, -2 * MULTIPLIER])
"""The multiplier over the share of each group, with its sign: half of the rows are of each."""


def group_gap(per_row: Tensor, group: Tensor) -> Tensor:
    """() the mean of one group less that of the other."""
    sums = torch.zeros(2).index_add(0, group, per_row) / torch.bincount(group, minlength=2)
    return sums[0] - sums[1]


def gap_by_hand(s: Tensor, y: Tensor, group: Tensor) -> Tensor:
    each = functional.binary_cross_entropy_with_logits(s, y, reduction="none")
    return each.mean() + MULTIPLIER * group_gap(each, group)


def gap_least(s: Tensor, y: Tensor, group: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(s, y, 1 + BY_GROUP.take(group))


def parity_by_hand(s: Tensor, y: Tensor, group: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(s, y) + MULTIPLIER * group_gap(torch.sigmoid(s), group)


def parity_least(s: Tensor, y: Tensor, group: Tensor) -> Tensor:
    penalty = torch.dot(BY_GROUP.take(group), torch.sigmoid(s)) / len(s)
    return functional.binary_cross_entropy_with_logits(s, y) + penalty


def parity_one_node(s: Tensor, y: Tensor, group: Tensor) -> Tensor:
    """The same loss, slope and second derivative without a node of autograd beside that of the loss: a hook on it adds the slope."""
    weight = BY_GROUP.take(group) / len(s)
    value = functional.binary_cross_entropy_with_logits(s, y)
    p = torch.sigmoid(s.detach())
    slope = torch.ops.aten.sigmoid_backward(weight, p)

    def add_slope(inside: tuple[Tensor, ...], outside: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        more = torch.ops.aten.sigmoid_backward(weight, torch.sigmoid(s)) if torch.is_grad_enabled() else slope
        return torch.addcmul(inside[0], outside[0], more), *inside[1:]

    assert value.grad_fn is not None
    value.grad_fn.register_hook(add_slope)
    value.detach().add_(torch.dot(weight, p))
    return value


SEEN: list[tuple[Tensor, Tensor]] = []


def floor(loss_of: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """`loss_of` with the reading of a batch that multipliers and checks need."""

    def loss(s: Tensor, y: Tensor, group: Tensor) -> Tensor:
        labels = y.long()
        for codes in (labels, group):
            low, high = torch.aminmax(codes)
            if low.item() < 0 or high.item() > 1:
                raise ValueError("no label or group of these rows")
        value = loss_of(s, y, group)
        total = value.item()
        if total - total != 0:
            raise ValueError("not finite")
        SEEN.append((s.detach(), torch.add(labels, group, alpha=2)))
        if len(SEEN) == ours.PERIOD:
            SEEN.clear()
        return value

    return loss


WRITTEN: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "loss_gap, by hand": gap_by_hand,
    "loss_gap, least": gap_least,
    "loss_gap, floor": floor(gap_least),
    "demographic_parity, by hand": parity_by_hand,
    "demographic_parity, least": parity_least,
    "demographic_parity, one node": parity_one_node,
    "demographic_parity, floor": floor(parity_least),
}


def written(net: nn.Module, batches: Sequence[FixedBatch], loss_of: Callable[..., Tensor]) -> harness.Step:
    """One step of a loop with a penalty of one's own."""
    optimizer = torch.optim.SGD(net.parameters(), lr=ours.STEP_SIZE)
    k = len(batches)

    def step(i: int) -> None:
        b = batches[i % k]
        optimizer.zero_grad()
        loss = loss_of(net(b.x).squeeze(-1), b.y, b.group)
        loss.backward()
        optimizer.step()

    return step


def timed(rows: Rows, size: int, compiled: bool, rounds: int) -> dict[str, Any]:
    """A plain step and each with a bound or a penalty, interleaved."""
    net, batches = mlp(rows.x.shape[1]), balanced_batches(rows, size)

    def fresh() -> Any:
        return torch.compile(copy.deepcopy(net)) if compiled else copy.deepcopy(net)

    steps = {"plain": peers.plain_sgd(fresh(), batches)}
    steps |= {name: ours.dual_in_a_loop(fresh(), batches, rows, stated) for name, stated in STATED.items()}
    steps |= {name: written(fresh(), batches, loss_of) for name, loss_of in WRITTEN.items()}
    return harness.interleave(
        steps, "plain", rounds=rounds, block_seconds=0.02, multiple=dict.fromkeys(STATED, ours.PERIOD)
    )


def parts(rows: Rows, size: int, rounds: int) -> dict[str, dict[str, float]]:
    """Microseconds of each part of a step: lower quartiles of processor time over steps, blocks of all kinds in turn.

    update: every `dual_every` steps, spread over them; step: `Dual.step` in between.
    """
    net, batches = mlp(rows.x.shape[1]), balanced_batches(rows, size)
    plain = functional.binary_cross_entropy_with_logits
    loops: dict[str, Any] = {"plain": lambda s, y, group: plain(s, y)}
    loops |= {name: loss_of for name, loss_of in WRITTEN.items() if "by hand" not in name}
    loops |= {
        name: Dual(bound, groups=rows.group.reshape(-1, 1), targets=rows.y, dual_step_size=ours.DUAL_STEP_SIZE)
        for name, bound in STATED.items()
    }
    nets = {name: copy.deepcopy(net) for name in loops}
    optimizers = {name: torch.optim.SGD(nets[name].parameters(), lr=ours.STEP_SIZE) for name in loops}
    names = ("forward", "loss", "backward", "optimiser", "step", "update")
    taken: dict[str, dict[str, list[int]]] = {name: {part: [] for part in names} for name in loops}

    def step(name: str, b: FixedBatch) -> None:
        own, spent = loops[name], taken[name]
        now = [time.thread_time_ns()]
        optimizers[name].zero_grad()
        s = nets[name](b.x).squeeze(-1)
        now.append(time.thread_time_ns())
        loss = own.loss(s, b.y, b.group) if isinstance(own, Dual) else own(s, b.y, b.group)
        now.append(time.thread_time_ns())
        loss.backward()
        now.append(time.thread_time_ns())
        optimizers[name].step()
        now.append(time.thread_time_ns())
        if isinstance(own, Dual):
            own.step()
            now.append(time.thread_time_ns())
        last = "update" if len(now) == 6 and len(spent["loss"]) % ours.PERIOD == ours.PERIOD - 1 else "step"
        for part, begin, end in zip((*names[:4], last), now, now[1:], strict=False):
            spent[part].append(end - begin)

    for _ in range(rounds):
        for name in loops:
            for i in range(2 * len(batches)):
                step(name, batches[i % len(batches)])
    return {name: {part: _lower(times, part) for part, times in found.items()} for name, found in taken.items()}


def _lower(times: list[int], part: str) -> float:
    """Microseconds a step."""
    if not times:
        return 0.0
    return round(statistics.quantiles(times, n=4)[0] / 1000 / (ours.PERIOD if part == "update" else 1), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100, help="interleaved rounds per batch size")
    parser.add_argument("--batches", default="8,64,512")
    parser.add_argument(
        "--compile", action="store_true", help="compile the network of every step (needs a C++ compiler)"
    )
    parser.add_argument("--parts", action="store_true", help="print the microseconds of each part of a step instead")
    args = parser.parse_args()
    train, _ = adult()
    if args.parts:
        sizes = [int(s) for s in args.batches.split(",")]
        harness.emit(
            {"benchmark": "dual_cost", "unit": "us", "batch": {s: parts(train, s, args.rounds) for s in sizes}}
        )
        return
    result: dict[str, Any] = {
        "benchmark": "dual_cost",
        "unit": "one plain torch SGD step",
        "compiled": args.compile,
        "batch": {},
    }
    for size in (int(s) for s in args.batches.split(",")):
        harness.note(f"batch {size}")
        result["batch"][str(size)] = timed(train, size, args.compile, args.rounds)
    result["checks"] = [
        harness.check(f"{name}, batch {size}, processor time", table[name]["ratio_cpu"], LIMIT)
        for size, table in result["batch"].items()
        for name in [*STATED, *WRITTEN]
    ]
    result["environment"] = harness.environment()
    harness.emit(result)


if __name__ == "__main__":
    main()
