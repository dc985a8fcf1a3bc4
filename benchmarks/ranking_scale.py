"""A ranker under 470,000 pairwise constraints at the size of MSLR-WEB10K: seconds of an epoch, memory, and what it reaches.

    python benchmarks/ranking_scale.py [--queries 10000] [--epochs 1] [--methods alm,plada,sgd] [--model linear] [--bound 0.2]

The rows are made (`fairbound.data.rows_like_mslr`), 1.2 million documents of 136 features, and the bound is
`query_pairwise_parity`, a constraint for every query and quality score. Every method takes batches of 32 queries. An epoch's seconds
are those of its steps; what was reached is measured on all queries. The peak of memory is that of the whole process.
"""

from __future__ import annotations

import argparse
import time

import harness
import numpy as np
import torch

import fairbound as fb
from fairbound import data
from fairbound.fairness.ranking_problem import RankingProblem
from fairbound.methods import algorithm
from fairbound.models.model import model_of
from fairbound.problems.problem import Draws

BATCH = 32
OPTIONS = {
    "alm": {"dual_values": "surrogate", "dual_every": 1, "dual_rows": BATCH, "dual_step_size": 0.1, "penalty": 0.1},
    "plada": {"dual_values": "surrogate", "constraint_rows": BATCH, "alpha": 0.02, "step_size": 0.05},
}


def peak() -> float:
    """GiB of memory at the most so far."""
    return harness.memory() / 1024


def reached(problem: RankingProblem, x: torch.Tensor) -> str:
    """Error and violations on all queries."""
    measured = problem.evaluate(x)
    over = measured.g.clamp_min(0)
    return (
        f"pair error {float(measured.extra['pair_error']):.4f}, {float((over > 0).double().mean()):.2%} of the constraints "
        f"violated, mean violation {float(over.mean()):.5f}, largest {float(over.max()):.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--methods", default="alm,plada,sgd")
    parser.add_argument("--model", default="linear")
    parser.add_argument("--bound", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    start = time.perf_counter()
    rows = data.rows_like_mslr(asked.queries, asked.seed)
    print(f"{len(rows):,} documents of {asked.queries:,} queries made in {time.perf_counter() - start:.1f} s")
    start = time.perf_counter()
    problem = RankingProblem(
        model_of(asked.model, rows.X.shape[1]),
        torch.as_tensor(rows.X),
        rows.y,
        rows.qid,
        {"score": rows.group("score")},
        f"query_pairwise_parity <= {asked.bound}",
    )
    print(f"{problem.m:,} constraints built in {time.perf_counter() - start:.1f} s; peak {peak():.2f} GiB")
    of_document = problem._cells[0].of_document
    alone = np.bincount(of_document[of_document >= 0], minlength=problem.m) == 1
    drawn = torch.randn(problem.n, generator=torch.Generator().manual_seed(asked.seed))
    print(
        f"{alone.mean():.0%} of the constraints speak of a single better document; scores of random weights: {reached(problem, drawn)}"
    )
    steps = int(np.ceil(problem.rows / BATCH))
    for name in asked.methods.split(","):
        method = type(algorithm(name))(**OPTIONS.get(name, {}))
        draws = Draws(problem, (asked.seed,), BATCH, "shuffled")
        state = method.init(problem, problem.start((asked.seed,)), draws)
        for epoch in range(1, asked.epochs + 1):
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(steps):
                state = method.step(state, problem, draws)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            print(
                f"{name}, epoch {epoch}: {wall:.1f} s ({cpu:.1f} s of processor) for {steps} steps of {BATCH} queries; "
                f"{reached(problem, state.point)}; peak {peak():.2f} GiB"
            )
    print(f"fairbound {fb.__version__}, {asked.threads} threads, seed {asked.seed}, model {asked.model}")


if __name__ == "__main__":
    main()
