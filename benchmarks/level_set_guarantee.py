"""Feasibility of every outer iterate, counted: seeded runs of a level-set method on small convex problems.

A run keeps the promise where each of its outer iterates meets the exact constraints. Prints one JSON object (the table
goes to standard error): by method and problem the share of such runs with its Clopper-Pearson interval, the number of
outer iterates, the data passes until the first, and the relative gap (f - f*) / (f(x0) - f*) of the last. The target is
a share of 1 - delta. --instance takes a problem of fairbound.instances instead, with real data.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import torch

from fairbound.confidence.single import clopper_pearson
from fairbound.instances import instance, optimum
from fairbound.methods import algorithm
from fairbound.problems.wrappers import Counted
from fairbound.testing import LEVEL_SETS, run

torch.set_num_threads(1)


def measured(
    config: Any, problem: Any, best: float, runs: int, steps: int, batch_size: int, confidence: float
) -> dict[str, Any]:
    """One method on one problem with f* = best; the runs are one stack."""
    lead = (runs,) if runs > 1 else ()
    kept, last = torch.ones(lead, dtype=torch.bool), torch.zeros(lead, dtype=torch.int64)
    first = torch.full(lead, torch.inf)
    worst = -torch.inf
    problem = Counted(problem)

    def look(state: Any) -> None:
        nonlocal kept, last, worst, first
        new = state.outer > last
        if bool(new.any()):
            g = problem.evaluate(state.output).g.amax(-1)
            worst = max(worst, float(g[new].max()))
            first = torch.where(new, first.clamp_max(problem.counts.samples / problem.rows), first)
            kept, last = kept & (~new | (g <= 0)), state.outer.clone()

    seeds = tuple(range(runs))
    state = run(config, problem, steps, seeds=seeds, batch_size=batch_size, after=look)
    found = int(kept.sum())
    low, high = clopper_pearson(found, runs, 1 - confidence)
    start = problem.evaluate(problem.start(seeds)).f
    gap = (
        ((problem.evaluate(state.output).f - best) / (start - best))
        .double()
        .quantile(torch.tensor([0.25, 0.5, 0.75]).double())
    )
    return {
        "runs": runs,
        "feasible_runs": found,
        "share": found / runs,
        "interval": [float(low), float(high)],
        "worst_g_of_an_outer_iterate": worst if worst > -torch.inf else None,
        "outer_iterates": [int(state.outer.min()), int(state.outer.median()), int(state.outer.max())],
        "passes": round(problem.counts.samples / problem.rows, 2),
        "passes_to_first_median": round(float(first.median()), 2) if float(first.median()) < torch.inf else None,
        "relative_gap_quartiles": [round(v, 4) for v in gap.tolist()],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", nargs="+", default=["sfls"], help='names as in fb.solve: "sfls", "sfls:fair"')
    parser.add_argument("--problem", nargs="*", default=list(LEVEL_SETS), choices=list(LEVEL_SETS))
    parser.add_argument("--instance", nargs="*", default=[], help="of fairbound.instances, in place of --problem")
    parser.add_argument("--options", type=json.loads, default={}, help='of every method, as {"restart": "last"}')
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--noise", type=float, default=1.0, help="standard deviation of one row of a small problem")
    parser.add_argument("--confidence", type=float, default=0.95, help="of the Clopper-Pearson interval")
    given = parser.parse_args()
    problems: dict[str, tuple[Any, float]] = {}
    for name in given.instance or given.problem:
        if given.instance:
            problems[name] = instance(name), optimum(name).f
        else:
            made = LEVEL_SETS[name](noise=given.noise)
            problems[name] = made, made.optimum.f
    rows, checks = {}, {}
    for method in given.method:
        config = algorithm(method, **given.options)
        for name, (problem, best) in problems.items():
            row = measured(config, problem, best, given.runs, given.steps, given.batch_size, given.confidence)
            rows[f"{method} / {name}"] = row
            checks[f"{method} / {name}"] = row["share"] >= 1 - getattr(config, "delta", 0.05)
            print(
                f"{method:20} {name:20} feasible {row['feasible_runs']:4}/{given.runs} = {row['share']:.3f} "
                f"[{row['interval'][0]:.3f}, {row['interval'][1]:.3f}]  outer {row['outer_iterates']}  first at pass "
                f"{row['passes_to_first_median']} of {row['passes']}  worst g {row['worst_g_of_an_outer_iterate']}  "
                f"relative gap {row['relative_gap_quartiles'][1]:.3f}",
                file=sys.stderr,
                flush=True,
            )
    print(json.dumps({"settings": vars(given), "rows": rows, "checks": checks}, indent=1))


if __name__ == "__main__":
    main()
