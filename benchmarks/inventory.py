"""What a step on the inventory program costs: 10,000 constraints, 100 demand draws, in steps of a plain numpy rendering.

A step draws the demand, evaluates objective and constraints and the gradient of their weighted sum on the batch, moves x
against it within the box and the weights by the constraints' values, as mirror descent on the saddle point does. The
rendering below evaluates every function of section 6.2 of Lin, Nadarajah, Soheili, Yang (2020) on every draw, vectorised
over chunks of constraints that stay in the cache. Prints one JSON object.
"""

from __future__ import annotations

import argparse
from typing import Any

import harness

harness.single_thread()

import numpy as np  # noqa: E402
import torch  # noqa: E402

from fairbound.instances.inventory import DEMAND, LEVELS, START_STATE, Inventory, basis  # noqa: E402

torch.set_num_threads(1)

DRAWS, STEP_SIZE, DUAL_STEP_SIZE = 100, 0.01, 1e-4
RATIO = 0.1


class Plain:
    """The program's estimates from draws: every function on every draw, a chunk of constraints at a time."""

    def __init__(self, states: np.ndarray, actions: np.ndarray, costs: tuple[float, ...], chunk: int):
        self.states, self.actions, self.costs, self.chunk = states, actions, costs, chunk
        self.now = basis(*states.T)
        self.c = -np.r_[1.0, basis(*np.array(START_STATE))]

    def matrices(self, demand: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A (m, 19) and b (m,) of the constraints A x + b <= 0 on the batch."""
        m, gamma = len(self.actions), 0.95
        A, b = np.empty((m, 19)), np.empty(m)
        A[:, 0] = 1 - gamma
        for first in range(0, m, self.chunk):
            span = slice(first, first + self.chunk)
            A[span, 1:] = self.now[span]
            phi, b[span] = self.next_basis_and_cost(span, demand)
            A[span, 1:] -= gamma * phi
        np.negative(b, out=b)
        return A, b

    def next_basis_and_cost(self, span: slice, demand: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means over the draws of phi at the next state (B, 18) and of the cost (B,)."""
        z0, z1, q1 = self.states[span].T
        action, (hold, dispose, backlog) = self.actions[span], self.costs
        work = np.empty((len(action), len(demand)))

        def mean_positive(values: np.ndarray, shift: np.ndarray | float) -> np.ndarray:
            """mean (values + shift)_+ over the draws."""
            np.add(values, shift if np.ndim(shift) == 0 else shift[:, None], out=work)  # type: ignore[index]
            return np.maximum(work, 0.0, out=work).mean(1)

        short = np.maximum(demand - z0[:, None], 0.0)
        left = z1[:, None] - short
        missing = demand - (z0 + z1)[:, None]
        cost = 0.95**2 * 20 * action + hold * mean_positive(left, 0.0) + backlog * mean_positive(missing, 0.0)
        cost += dispose * mean_positive(-demand, z0) + 100 * mean_positive(missing, -10.0)
        stock = np.maximum(left, -10.0)
        phi = np.empty((len(action), 18))
        phi[:, 0], phi[:, 1], phi[:, 2] = stock.mean(1), q1, action
        below = -stock
        for at, nu in ((3, LEVELS[0]), (8, LEVELS[1])):
            phi[:, at] = mean_positive(stock, -nu)
            phi[:, at + 1] = mean_positive(stock, q1 - 2 * nu)
            phi[:, at + 2] = mean_positive(stock, q1 + action - 3 * nu)
            phi[:, at + 3] = mean_positive(below, 2 * nu - q1 - action)
            phi[:, at + 4] = np.maximum(nu - q1 - action, 0.0)
        phi[:, 13:] = phi[:, 3:8]  # the median of the demand is its mean
        return phi, cost


def plain_step(program: Plain) -> harness.Step:
    x, y, rng = (
        np.zeros(19),
        np.full(1 + len(program.actions), 1 / (1 + len(program.actions))),
        np.random.default_rng(0),
    )

    def step(i: int) -> None:
        nonlocal x, y
        A, b = program.matrices(DEMAND.quantile(rng.random(DRAWS)))
        F = np.r_[program.c @ x, A @ x + b]
        x = np.clip(x - STEP_SIZE * (y[0] * program.c + y[1:] @ A), -5.0, 5.0)
        y = y * np.exp(DUAL_STEP_SIZE * (F - F.max()))
        y /= y.sum()

    return step


def our_step(problem: Inventory) -> harness.Step:
    x = problem.start((0,))
    y = torch.full((1 + problem.m,), 1 / (1 + problem.m), dtype=torch.float64)

    def step(i: int) -> None:
        nonlocal x, y
        batch = problem.sample((0,), "xi", i, DRAWS, "uniform")
        at, gradient = problem.gradient(x, batch, (lambda _: (y[0], y[1:])))
        F = torch.cat([at.f.unsqueeze(-1), at.g], dim=-1)  # type: ignore[union-attr]
        x = problem.domain.project(x - STEP_SIZE * gradient)
        y = y * torch.exp(DUAL_STEP_SIZE * (F - F.max()))
        y /= y.sum()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--constraints", type=int, default=10_000)
    parser.add_argument(
        "--chunks", default="256,1024,4096", help="constraints at once in the rendering; the fastest is meant"
    )
    args = parser.parse_args()
    problem = Inventory(constraints=args.constraints)
    plains = {
        f"plain numpy, {c} at once": Plain(problem.states, problem.actions, problem.costs, int(c))
        for c in args.chunks.split(",")
    }
    demand = DEMAND.quantile(np.random.default_rng(1).random(DRAWS))
    mine = problem.matrices(problem.batch(demand))
    differ = max(
        float(np.abs(a - b.numpy()).max())
        for p in plains.values()
        for a, b in zip(p.matrices(demand), mine, strict=True)
    )
    steps: dict[str, harness.Step] = {name: plain_step(program) for name, program in plains.items()}
    steps["fairbound"] = our_step(problem)
    first = next(iter(steps))
    table = harness.interleave(steps, first, rounds=args.rounds, block_seconds=0.05)
    for row in table.values():
        row["per_second"] = round(1e6 / row["us"], 1)
    fastest = min(plains, key=lambda name: table[name]["ratio"])
    result: dict[str, Any] = {"benchmark": "inventory", "unit": f"one step of {first!r}"}
    result |= {"constraints": problem.m, "draws": DRAWS, "largest_difference": differ, "steps": table}
    against = table["fairbound"]["ratio"] / table[fastest]["ratio"]
    result |= {"fastest_rendering": fastest, "times_its_iterations": round(1 / against, 1)}
    result["checks"] = [
        harness.check("fairbound in steps of the fastest rendering", against, RATIO),
        harness.check("largest difference of A and b", differ, 1e-9),
    ]
    result["environment"] = harness.environment("scipy")
    harness.emit(result)


if __name__ == "__main__":
    main()
