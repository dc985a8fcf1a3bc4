"""Training seconds until a run is feasible: our SSL-ALM and ALM, and other people's code in its own environment.

Task: ACSIncome (Colorado, partial Oklahoma), race white or not, 80/20 split stratified by group, standardised, MLP 64-32,
|loss_A - loss_B| <= 0.005. Each run is a process of its own with one thread, on the same arrays from the same start.
Every contender is evaluated exactly, on all training rows, at the first step at or after every multiple of `--every`
seconds of its own processor time; evaluations stop the clock. A run is feasible at the end of the first window of ten
consecutive evaluations whose mean |gap| is at most 0.005 and whose mean loss is below that of the best constant score:
a network near its start treats all alike and would count otherwise. A run that gets nowhere within `--limit` counts as
that limit, so that its median, and a ratio to it, are lower bounds (">=").
Prints one JSON object; the table goes to standard error.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import harness

harness.single_thread()

import numpy as np  # noqa: E402
import torch  # noqa: E402

HERE = Path(__file__).parent / "contenders"
sys.path.insert(0, str(HERE))

from stopwatch import BOUND, WINDOW, Task, reached  # noqa: E402
from tasks import acs_income, mlp  # noqa: E402

TARGET = 3.0
OURS = "SSL-ALM"


@dataclass(frozen=True)
class Contender:
    """script and name: the worker and its entry; environment: "library", "paper" (0.1.0) or "peers" (0.4.2)."""

    environment: str
    script: str
    name: str
    settings: dict[str, Any]


def ours(algorithm: str, batch_size: int = 64, **options: Any) -> Contender:
    settings = {"algorithm": algorithm, "batch_size": batch_size, "options": options}
    return Contender("library", "library.py", "method", settings)


def dual_alm(optimizer: str, lr: float, dual_lr: float, moreau: float = 0.0) -> Contender:
    dual = {"lr": dual_lr, "penalty": 1.0}
    settings = {"optimizer": optimizer, "lr": lr, "moreau": moreau, "batch_size": 64, "dual": dual}
    return Contender("peers", "dual_optim.py", "alm", settings)


PAPER_ALM = {"batch_size": 8, "constraint_batch_size": 8, "lambda_bound": 10, "rho": 1.0, "tau": 0.01, "eta": 0.05}
PAPER_SSG = {"batch_size": 16, "constraint_batch_size": 16, "ctol_rule": "const", "ctol": 1e-4}
CONTENDERS = {
    OURS: ours("ssl_alm"),
    "SSL-ALM, paper's settings": ours("ssl_alm:paper", 8, constraint_batch_size=16),
    "ALM": ours("alm"),
    # its experiments' configuration files; a constraint's batch is that many rows of each group
    "0.1.0 ssl_alm": Contender("paper", "paper_code.py", "ssl_alm", PAPER_ALM | {"mu": 2.0, "beta": 0.5}),
    "0.1.0 alm (mu = 0)": Contender("paper", "paper_code.py", "ssl_alm", PAPER_ALM | {"mu": 0.0, "beta": 1.0}),
    # its paper's experiments on fairness: Adam 1e-3, dual step 0.05, penalty 1; the README's loop
    "0.4.2 ALM": dual_alm("Adam", 0.001, 0.05),
    "0.4.2 ALM + Moreau": dual_alm("Adam", 0.001, 0.05, moreau=2.0),
    "0.1.0 ghost": Contender(
        "paper",
        "paper_code.py",
        "ghost",
        {
            "alpha": 0.4,
            "beta": 10.0,
            "gamma0": 0.02,
            "rho": 0.8,
            "lamb": 0.5,
            "zeta": 0.001,
            "tau": 1,
            "stepsize_rule": "dimin",
        },
    ),
    "0.1.0 switching_subgradient": Contender(
        "paper",
        "paper_code.py",
        "ssg",
        PAPER_SSG | {"f_stepsize_rule": "const", "f_stepsize": 0.2, "c_stepsize_rule": "const", "c_stepsize": 0.02},
    ),
}
TUNING = {
    f"0.4.2 ALM {optimizer} {lr} dual {dual_lr}": dual_alm(optimizer, lr, dual_lr)
    for optimizer, lr in (("Adam", 0.001), ("Adam", 0.01), ("SGD", 0.1))
    for dual_lr in (0.05, 0.5)
}
"""A declared grid for 0.4.2's ALM, run by `--tune` on seeds of its own."""


def time_reached(rows: Sequence[dict[str, float]], constant: float) -> float:
    """Seconds at the end of the first feasible window of a run's evaluations; infinity if there is none."""
    gaps, losses = [row["gap"] for row in rows], [row["loss"] for row in rows]
    for end in range(WINDOW, len(rows) + 1):
        if reached(gaps[:end][-WINDOW:], losses[:end][-WINDOW:], constant):
            return rows[end - 1]["s"]
    return math.inf


def parsed(text: str) -> list[dict[str, float]]:
    """A worker's evaluations. Raises: ValueError where times do not increase or a number is not finite."""
    rows = [json.loads(line) for line in text.splitlines()]
    for before, row in zip([{"s": -math.inf}, *rows], rows, strict=False):
        if not row["s"] > before["s"] or not all(math.isfinite(v) for v in row.values()):
            raise ValueError(f"evaluations are not in order, or not finite, at {row}")
    return rows


def summary(times: Sequence[float], limit: float) -> dict[str, Any]:
    """Median and quartiles of times, those above the limit counted as the limit; censored: how many of them."""
    kept = [min(t, limit) for t in times]
    low, _, high = np.percentile(kept, [25, 50, 75])
    return {
        "median": round(statistics.median(kept), 3),
        "quartiles": [round(float(low), 3), round(float(high), 3)],
        "censored": sum(t > limit for t in times),
        "seconds": [None if t > limit else round(t, 3) for t in times],
    }


def ratio(theirs: dict[str, Any], mine: dict[str, Any], limit: float) -> dict[str, Any]:
    """Their median over ours; a lower bound where their median is the limit. None where ours never arrives."""
    if mine["median"] >= limit:
        return {"ratio": None, "lower_bound": False}
    return {"ratio": round(theirs["median"] / mine["median"], 2), "lower_bound": theirs["median"] >= limit}


def write_task(state: str, seed: int, path: Path) -> Task:
    train, _ = acs_income(state, seed)
    start = torch.nn.utils.parameters_to_vector(mlp(train.x.shape[1], seed=seed).parameters()).detach()
    task = Task(train.x, train.y, train.group, start)
    np.savez(path, **{name: value.numpy() for name, value in vars(task).items()})
    return task


def run(contender: Contender, python: str, task: Path, seed: int, args: argparse.Namespace) -> list[dict[str, float]]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "evaluations.jsonl"
        command = [python, str(HERE / contender.script), contender.name, str(task), str(seed)]
        command += ["--settings", json.dumps(contender.settings), "--every", str(args.every)]
        command += ["--limit", str(args.limit), "--out", str(out)] + ([] if args.full else ["--stop-early"])
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{contender.script} {contender.name} failed: {done.stderr[-2000:]}")
        return parsed(out.read_text())


def versions(python: str) -> dict[str, str]:
    code = (
        "import importlib.metadata as m, json\n"
        "names = {d.metadata['Name'].lower() for d in m.distributions()}\n"
        "print(json.dumps({n: m.version(n) for n in ('torch', 'numpy', 'humancompatible-train', 'fairbound') if n in names}))"
    )
    return json.loads(subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", help="interpreter with humancompatible-train 0.4.2; without it, left out")
    parser.add_argument("--paper", help="interpreter with humancompatible-train 0.1.0; without it, left out")
    parser.add_argument("--contenders", help="separated by semicolons; all by default")
    parser.add_argument("--states", default="CO,OK_partial")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--every", type=float, default=0.02, help="seconds of training between evaluations")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds of training")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--full", action="store_true", help="run to the limit and report the last window's gap too")
    parser.add_argument("--tune", action="store_true", help="the declared grid for 0.4.2's ALM instead")
    args = parser.parse_args()
    pythons = {"library": sys.executable, "peers": args.peers, "paper": args.paper}
    known = TUNING if args.tune else CONTENDERS
    asked = args.contenders.split(";") if args.contenders else list(known)
    names = [name for name in asked if pythons[known[name].environment]]
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    results: dict[str, dict[str, Any]] = {}
    checks = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(args.jobs) as pool:
        for state in args.states.split(","):
            paths = {seed: Path(folder) / f"{state}-{seed}.npz" for seed in seeds}
            constants = {seed: write_task(state, seed, path).constant_loss() for seed, path in paths.items()}
            rows: dict[str, dict[str, Any]] = {}
            for name in names:
                python = pythons[known[name].environment]
                runs = list(
                    pool.map(lambda s, c=known[name], p=python, at=paths: run(c, str(p), at[s], s, args), seeds)
                )
                times = [time_reached(r, constants[seed]) for r, seed in zip(runs, seeds, strict=True)]
                rows[name] = summary(times, args.limit)
                rows[name]["steps_per_second"] = round(
                    statistics.median(r[-1]["steps"] / r[-1]["s"] for r in runs if r)
                )
                if args.full:
                    rows[name]["last_gaps"] = [round(r[-1]["gap"], 5) for r in runs]
                harness.note(f"{state} {name}: {rows[name]['median']} {rows[name]['quartiles']}")
            if OURS in rows:
                for name in names:
                    rows[name] |= ratio(rows[name], rows[OURS], args.limit)
                    if known[name].environment != "library":
                        checks.append(
                            harness.check(f"{state}: SSL-ALM's time / {name}'s", _inverse(rows[name]), 1 / TARGET)
                        )
            results[state] = rows
            for name, row in rows.items():
                bound = ">= " if row.get("lower_bound") else ""
                harness.note(
                    f"{state:11s} {name:30s} {row['median']:7.2f} s {row['quartiles']} censored {row['censored']} "
                    f"ratio {bound}{row.get('ratio')}"
                )
    harness.emit(
        {
            "benchmark": "time_to_feasibility",
            "bound": BOUND,
            "window": WINDOW,
            "every": args.every,
            "limit": args.limit,
            "seeds": list(seeds),
            "jobs": args.jobs,
            "clock": "processor time of the worker process, evaluation excluded",
            "settings": {name: known[name].settings for name in names},
            "results": results,
            "checks": checks,
            "skipped": [name for name in asked if name not in names],
            "versions": {name: versions(str(python)) for name, python in pythons.items() if python},
            "environment": harness.environment("fairbound"),
        }
    )


def _inverse(row: dict[str, Any]) -> float:
    return math.inf if not row["ratio"] else 1 / row["ratio"]


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    main()
