"""What one iteration of Stochastic Ghost costs, in plain torch SGD steps (= 1) of 8, 16 and 64 rows, one thread.

The task of Kliachkin et al. (2025): ACSIncome (partial Oklahoma extract, 9 features), race white or not, MLP 64-32 ReLU,
loss_gap <= 0.005, their parameters. An iteration draws its level N, P(N = j) = p_j, and its cost grows with 2^N, so
iterations are timed one by one and their average is sum_j p_j (mean cost at level j), free of the luck of the draw in
a heavy tail; each is divided by the SGD step of the block run right before its own in the same process. Thread time.

Ghost takes one row of every subgroup in an element ("rows 1", the paper's) or as many as the SGD batch has over all
subgroups ("rows B": then every one of its four samples holds at least an SGD batch). Batches are drawn in advance, as
SGD's are, or in the step. Prints a table on standard error and one JSON object.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable
from typing import Any

import harness

harness.single_thread()

import ours  # noqa: E402
import peers  # noqa: E402
import torch  # noqa: E402
from tasks import acs_income, balanced_batches, mlp  # noqa: E402

import fairbound as fb  # noqa: E402
from fairbound.methods import algorithm  # noqa: E402
from fairbound.problems.problem import Draws  # noqa: E402

torch.set_num_threads(1)

STATED = "loss_gap <= 0.005"
TARGET = 15.0
SGD_BLOCK = 200


class Ghost:
    """A run of Stochastic Ghost whose iterations are timed by level."""

    def __init__(self, problem: fb.FairProblem, config: Any, draws: Draws):
        self.problem, self.config, self.draws = problem, config, draws
        self.state = config.init(problem, problem.start((0,)), draws)
        self.costs: list[list[float]] = [[] for _ in config.level_law]

    def iterate(self, times: int, unit: float) -> None:
        """`unit`: seconds of an SGD step now."""
        for _ in range(times):
            level = self.config.level_at(0, self.state.k)
            before = time.thread_time()
            self.state = self.config.step(self.state, self.problem, self.draws)
            self.costs[level].append((time.thread_time() - before) / unit)

    def forget(self) -> None:
        """Start the measurement anew, after a warm-up."""
        self.costs = [[] for _ in self.costs]

    def average(self) -> float:
        """SGD steps an iteration costs over the law of the levels; a level not drawn counts as twice the one below."""
        total, cost = 0.0, 0.0
        for probability, costs in zip(self.config.level_law, self.costs, strict=True):
            cost = statistics.fmean(costs) if costs else 2 * cost
            total += float(probability) * cost
        return total


def block(step: Callable[[int], Any], times: int) -> float:
    before = time.thread_time()
    for i in range(times):
        step(i)
    return (time.thread_time() - before) / times


def measure(size: int, rounds: int, iterations: int) -> dict[str, dict[str, float]]:
    """Every way of running Ghost beside plain SGD on batches of `size` rows."""
    train, _ = acs_income("OK_partial")
    features, net = train.x.shape[1], mlp(train.x.shape[1])
    sgd = peers.plain_sgd(copy.deepcopy(net), balanced_batches(train, size))
    runs: dict[str, Ghost] = {}
    for rows in sorted({1, size // 2}):
        config = algorithm("stochastic_ghost:paper", element_rows=rows)
        for model in ("nn.Module", "built-in MLP"):
            for drawing in (False, True):
                made = (
                    ours.of_module(copy.deepcopy(net)) if model == "nn.Module" else ours.built_in("mlp:64,32", features)
                )
                problem = ours.problem(made, train, STATED)
                draws = Draws(problem, (0,), size) if drawing else ours.PreparedDraws(problem, size)
                name = f"rows {1 if rows == 1 else 'B'}, {model}{', drawing included' if drawing else ''}"
                runs[name] = Ghost(problem, config, draws)
    for ghost in runs.values():
        ghost.iterate(iterations, block(sgd, SGD_BLOCK))
        ghost.forget()
    unit: list[float] = []
    for _ in range(rounds):
        for ghost in runs.values():
            unit.append(block(sgd, SGD_BLOCK))
            ghost.iterate(iterations, unit[-1])
    step = 1e6 * statistics.median(unit)
    table = {"plain SGD": {"us": round(step, 2), "ratio": 1.0, "iterations": float(SGD_BLOCK * len(unit))}}
    for name, ghost in runs.items():
        ratio = ghost.average()
        table[name] = {
            "us": round(ratio * step, 2),
            "ratio": round(ratio, 3),
            "iterations": float(sum(map(len, ghost.costs))),
        }
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--iterations", type=int, default=50, help="Ghost iterations a round, for each candidate")
    parser.add_argument("--batches", default="8,16,64")
    args = parser.parse_args()
    tables = {size: measure(int(size), args.rounds, args.iterations) for size in args.batches.split(",")}
    checks = []
    for size, table in tables.items():
        harness.note(f"{f'batch {size}':<44}{'us':>10}{'SGD steps':>12}{'target':>9}")
        for name, row in table.items():
            target = TARGET if name.startswith("rows 1") else None
            harness.note(
                f"  {name:<42}{row['us']:>10.1f}{row['ratio']:>12.2f}{'' if target is None else f'{target:g}':>9}"
            )
            if target is not None:
                checks.append(harness.check(f"batch {size}: {name}", row["ratio"], target))
    harness.emit(
        {
            "benchmark": "ghost_cost",
            "unit": "one plain torch SGD step of the same batch size",
            "batch": tables,
            "checks": checks,
            "environment": harness.environment("fairbound", "scipy"),
        }
    )


if __name__ == "__main__":
    main()
