"""What a step of a user's own torch loop costs with `fairbound.optim.Dual` in it, in plain steps (= 1), one thread.

UCI Adult, sex as the group, MLP 64-32 ReLU, group-balanced batches of 8, 64 and 512 rows drawn in advance, a bound on losses and one on
selection rates. `--compile` compiles the network of both with torch.compile and takes the compiled plain step as 1. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import copy
from typing import Any

import harness

harness.single_thread()

import ours  # noqa: E402
import peers  # noqa: E402
import torch  # noqa: E402
from tasks import Rows, adult, balanced_batches, mlp  # noqa: E402

torch.set_num_threads(1)

STATED = {"loss_gap": "loss_gap <= 0.005", "demographic_parity": "demographic_parity <= 0.02"}
LIMIT = 1.2


def timed(rows: Rows, size: int, compiled: bool, rounds: int) -> dict[str, Any]:
    """A plain step and one with each bound, interleaved."""
    net, batches = mlp(rows.x.shape[1]), balanced_batches(rows, size)

    def fresh() -> Any:
        return torch.compile(copy.deepcopy(net)) if compiled else copy.deepcopy(net)

    steps = {"plain": peers.plain_sgd(fresh(), batches)}
    steps |= {name: ours.dual_in_a_loop(fresh(), batches, rows, stated) for name, stated in STATED.items()}
    return harness.interleave(
        steps, "plain", rounds=rounds, block_seconds=0.02, multiple=dict.fromkeys(STATED, ours.PERIOD)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100, help="interleaved rounds per batch size")
    parser.add_argument("--batches", default="8,64,512")
    parser.add_argument(
        "--compile", action="store_true", help="compile the network of every step (needs a C++ compiler)"
    )
    args = parser.parse_args()
    train, _ = adult()
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
        for name in STATED
    ]
    result["environment"] = harness.environment()
    harness.emit(result)


if __name__ == "__main__":
    main()
