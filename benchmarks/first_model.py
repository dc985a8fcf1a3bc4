"""The first audited fair model on Adult: five lines of Python, or one command. Seconds on the clock and of processor time.

    FAIRBOUND_DATA=DATA python benchmarks/first_model.py [--threads 2]

Everything counts, the imports too; installation does not. Seed 0, the published split.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time

LINES = """\
import fairbound as fb
data = fb.data.load("adult"); train, held = data.splits["train"], data.splits["test"]
X, sex, bound = data.without("sex").X, data.group("sex"), "demographic_parity <= 0.02"
fair = fb.FairClassifier(bound).fit(X[train], data.y[train], sensitive_features=sex[train])
print(fb.report.table(fb.audit(fair.decision_function(X[held]), data.y[held], sex[held], bound, threshold=0)))
"""
COMMAND = "import sys; from fairbound.cli.app import main; sys.exit(main(sys.argv[1:]))"


def measured(arguments: list[str], threads: int) -> tuple[float, float, str]:
    """Seconds on the clock, seconds of processor time, and what was printed."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    env = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, *arguments], env=env, cwd=folder, capture_output=True, text=True)
    clock, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1, 3):
        sys.exit(done.stderr)
    return clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    threads = parser.parse_args().threads
    command = ["fit", "--data", "adult", "--constraint", "demographic_parity <= 0.02", "--out", "out"]
    for name, arguments in (
        ("five lines of Python", ["-c", LINES]),
        ("one command, beside a model without bounds", ["-c", COMMAND, *command]),
        ("one command, --no-baseline", ["-c", COMMAND, *command, "--no-baseline"]),
    ):
        clock, processor, printed = measured(arguments, threads)
        verdict = next(line for line in printed.splitlines() if line.strip())
        print(f"{name:45} {clock:6.1f} s on the clock, {processor:6.1f} s of processor time   {verdict}", flush=True)
    print(f"{threads} threads, load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
