"""What 20 stacked runs cost (5 seeds x 4 bounds in one set of tensors), in single runs (= 1), on two threads.

UCI Adult by sex, MLP 64-32, loss gap; one step of the whole method, drawing and multiplier updates included. Every run
of the stack has its own bound, and the batches of its seed. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

THREADS = 2
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = str(THREADS)

import harness  # noqa: E402
import ours  # noqa: E402
import torch  # noqa: E402
from tasks import Rows, adult  # noqa: E402

from fairbound.methods import ALM  # noqa: E402

torch.set_num_threads(THREADS)

SEEDS, BOUNDS = tuple(range(5)), (0.005, 0.01, 0.02, 0.05)


def table(rows: Rows, size: int, model: str, rounds: int) -> dict[str, Any]:
    """One run, and the stack, by the built-in kernels or (model "nn.Module") by autograd."""
    features = rows.x.shape[1]
    config = ALM(step_size=ours.STEP_SIZE, dual_step_size=ours.DUAL_STEP_SIZE)

    def made() -> Any:
        chosen = ours.module_mlp(features) if model == "nn.Module" else ours.built_in(model, features)
        return ours.problem(chosen, rows, "loss_gap <= 0.005")

    single, many = made(), made()
    bounds = torch.tensor(BOUNDS).repeat(len(SEEDS)).unsqueeze(1).expand(-1, many.m)
    seeds = tuple(s for s in SEEDS for _ in BOUNDS)
    steps = {
        "one run": ours.run_step(single, (0,), size, config),
        f"{len(seeds)} stacked runs": ours.run_step(many.with_bounds(bounds), seeds, size, config),
    }
    return harness.interleave(
        steps, "one run", rounds=rounds, block_seconds=0.05, multiple=dict.fromkeys(steps, ours.PERIOD)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batches", default="8,64,512")
    parser.add_argument("--models", default="mlp:64,32;linear;nn.Module", help="separated by semicolons")
    args = parser.parse_args()
    train, _ = adult()
    tables: dict[str, Any] = {}
    checks = []
    for model in args.models.split(";"):
        tables[model] = {}
        for size in (int(s) for s in args.batches.split(",")):
            result = table(train, size, model, args.rounds)
            tables[model][str(size)] = result
            ratio = result[f"{len(SEEDS) * len(BOUNDS)} stacked runs"]["ratio"]
            checks.append(harness.check(f"20 stacked runs of {model}, batch {size}", ratio, 6.0))
            harness.note(f"{model} batch {size}: {ratio}")
    harness.emit(
        {
            "benchmark": "stacked",
            "unit": "one run",
            "threads": THREADS,
            "models": tables,
            "checks": checks,
            "environment": harness.environment(),
        }
    )


if __name__ == "__main__":
    main()
