"""What a step of a user's own torch loop costs on a GPU with `fairbound.optim.Dual` in it, in plain steps (= 1), wall clock.

Made data (50 numbers, two groups, seed 0), MLP 256-128 ReLU, random batches drawn in advance that lie on the device. Beside Dual stands a
step with a penalty written by hand: the difference of two group means times a multiplier that never moves. Blocks of steps in turn, each
ended by a wait for the device; medians over rounds. `--device cpu` runs the same there. `--fit N` also times training on N rows at once
(the same MLP under demographic parity, 200 evaluations of the loss's gradient with that of the bound) on the device and on the CPU.
`--classifier N` also times `FairClassifier` with this MLP as it stands by default, on N rows under demographic parity, on both, and
prints its accuracy and difference on the rows and on as many others.
Prints one JSON object.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import harness
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fairbound import FairClassifier, FairProblem
from fairbound.models.model import model_of
from fairbound.optim import Dual

FEATURES, BATCHES, STEPS = 50, 32, 100
STATED = {
    "demographic_parity": "demographic_parity <= 0.02",
    "equalized_odds and loss_gap": ["equalized_odds <= 0.02", "loss_gap <= 0.01"],
}


def made(rows: int) -> tuple[Tensor, Tensor, Tensor]:
    """(rows, FEATURES) features, labels and groups 0 and 1; the second group has more positives. No line tells the labels."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, rows)
    x = (rng.normal(size=(rows, FEATURES)) + 0.2 * group[:, None]).astype(np.float32)
    y = (x[:, :5].sum(1) + 2 * x[:, 5] * x[:, 6] + rng.normal(size=rows) > 1).astype(np.int64)
    return torch.from_numpy(x), torch.from_numpy(y), torch.from_numpy(group)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(FEATURES, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 1))


def by_hand(s: Tensor, y: Tensor, group: Tensor) -> Tensor:
    """The loss and a penalty on the difference of two group means."""
    p = torch.sigmoid(s)
    sums = torch.zeros(2, device=s.device).index_add(0, group, p) / torch.bincount(group, minlength=2)
    return functional.binary_cross_entropy_with_logits(s, y.float()) + 0.3 * (sums[0] - sums[1])


def loops(size: int, device: str) -> dict[str, Callable[[int], None]]:
    """A step of each kind on the batch of a number."""
    x, y, group = made(BATCHES * size)
    batches = [tuple(t.to(device) for t in part) for part in zip(*(v.split(size) for v in (x, y, group)), strict=True)]
    duals = {name: Dual(bound, groups=group, targets=y) for name, bound in STATED.items()}
    losses: dict[str, Callable[..., Tensor]] = {
        "plain": lambda s, y, group: functional.binary_cross_entropy_with_logits(s, y.float()),
        "by hand": by_hand,
        **{name: dual.loss for name, dual in duals.items()},
    }

    def step_of(name: str) -> Callable[[int], None]:
        net, loss_of, dual = network().to(device), losses[name], duals.get(name)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

        def step(i: int) -> None:
            x, y, group = batches[i % BATCHES]
            optimizer.zero_grad()
            loss_of(net(x).squeeze(1), y, group).backward()
            optimizer.step()
            if dual is not None:
                dual.step()

        return step

    return {name: step_of(name) for name in losses}


def waited(device: str) -> float:
    """The time when the device has done what it was asked to do."""
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter()


def timed(size: int, device: str, rounds: int) -> dict[str, float]:
    """Microseconds of a plain step, and the others in plain steps."""
    steps = loops(size, device)
    for step in steps.values():
        for i in range(STEPS):
            step(i)
    spent: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            begun = waited(device)
            for i in range(STEPS):
                step(i)
            spent[name].append((waited(device) - begun) / STEPS)
    plain = statistics.median(spent["plain"])
    ratios = {name: [a / b for a, b in zip(v, spent["plain"], strict=True)] for name, v in spent.items()}
    return {"plain, us": round(1e6 * plain, 1)} | {
        name: round(statistics.median(v), 3) for name, v in ratios.items() if name != "plain"
    }


def fits(rows: int, device: str) -> dict[str, float]:
    """Seconds of 200 gradients on all rows, after one that is not timed."""
    x, y, group = made(rows)
    spent = {}
    for place in dict.fromkeys((device, "cpu")):
        problem = FairProblem(
            model_of("mlp:256,128", FEATURES), x, y, group, "demographic_parity <= 0.02", device=place
        )
        at, batch = problem.start([0]), problem.full()
        weights = (1.0, torch.full((problem.m,), 0.1, device=place))
        count = 200 if place != "cpu" else 4
        problem.gradient(at, batch, weights)
        begun = waited(place)
        for _ in range(count):
            problem.gradient(at, batch, weights)
        spent[place] = round(200 / count * (waited(place) - begun), 3)
    return spent


def classifiers(rows: int, device: str) -> dict[str, dict[str, float]]:
    """Seconds, accuracy and difference of fits with default settings, the first of which also loads what they need."""
    x, y, group = (v.numpy() for v in made(2 * rows))
    found = {}
    for place in dict.fromkeys((device, "cpu")):
        fair = FairClassifier("demographic_parity <= 0.02", model=network().to(place))
        begun = waited(place)
        fair.fit(x[:rows], y[:rows], sensitive_features=group[:rows])
        found[place] = {"seconds": round(waited(place) - begun, 1), "steps": fair.fit_report_["steps"]}
        for name, part in {"training": slice(rows), "held-out": slice(rows, None)}.items():
            told, of = fair.predict(x[part]), group[part]
            found[place][f"{name} accuracy"] = round(float(np.mean(told == y[part])), 4)
            rates = [float(told[of == k].mean()) for k in (0, 1)]
            found[place][f"{name} difference"] = round(abs(rates[0] - rates[1]), 4)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--batches", default="64,1024,16384")
    parser.add_argument("--fit", type=int, default=0, metavar="N")
    parser.add_argument("--classifier", type=int, default=0, metavar="N")
    args = parser.parse_args()
    result = {"benchmark": "gpu", "device": args.device, "unit": "one plain torch SGD step, wall clock"}
    result["batch"] = {s: timed(int(s), args.device, args.rounds) for s in args.batches.split(",")}
    if args.fit:
        result["seconds of 200 gradients"] = fits(args.fit, args.device)
    if args.classifier:
        result["classifier"] = classifiers(args.classifier, args.device)
    result["environment"] = harness.environment()
    harness.emit(result)


if __name__ == "__main__":
    main()
