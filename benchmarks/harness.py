"""Timing shared by the benchmark commands: interleaved blocks on one thread, medians, ratios within one run.

A candidate is a function `step(i)` that does one step on the i-th prepared batch. Candidates run in turn, a short block
of steps each, in an order that rotates from round to round, and a block of the reference runs right before each: a
slow phase of the machine meets both. Untimed steps, a third as many, precede every block, so that both find caches as
in a run of their own. A ratio is the median over rounds of (block of the candidate / the reference block before it).
"""

from __future__ import annotations

import gc
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

Step = Callable[[int], Any]


def single_thread() -> None:
    """One thread for torch and for the BLAS that numpy loads; call before importing numpy or torch."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def memory(entry: str = "VmHWM") -> float:
    """MiB of this process: VmHWM at most so far, VmRSS now. The peak that `resource` knows includes that of the process
    which began this one."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(entry + ":"):
            return int(line.split()[1]) / 1024
    raise OSError(f"/proc/self/status has no {entry}.")


def _block(step: Step, start: int, count: int) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.thread_time()
    for i in range(start, start + count):
        step(i)
    return time.perf_counter() - wall, time.thread_time() - cpu


def _steps_per_block(step: Step, target: float, warmup: float) -> int:
    """Run `step` for about `warmup` seconds, then say how many steps fill `target` seconds (at least 1)."""
    count, spent = 0, 0.0
    while spent < warmup or count < 3:
        spent += _block(step, count, 1)[0]
        count += 1
    return max(1, round(target / (spent / count)))


def interleave(
    candidates: dict[str, Step],
    reference: str | None = None,
    *,
    rounds: int = 60,
    block_seconds: float = 0.01,
    warmup_seconds: float = 0.1,
    per_call: dict[str, int] | None = None,
    multiple: dict[str, int] | None = None,
) -> dict[str, dict[str, float]]:
    """Time every candidate in interleaved blocks.

    Returns for each name: `us` (median microseconds per step, wall clock), `us_iqr` (their interquartile range),
    `steps` (timed steps), and against the reference `ratio`, `ratio_iqr` (paired blocks, wall clock) and
    `ratio_cpu` (the same with the thread's CPU clock, which other processes on the machine disturb less).
    `reference` defaults to the first candidate. `per_call[name]` says how many steps one call of a candidate does
    (1 where it is not named); all figures are per step. `multiple[name]`: a block of the candidate is a multiple of so
    many calls, so that work done every so many steps falls evenly on blocks.

    Raises: ValueError if there is no candidate or the reference is not one of them.
    """
    names = list(candidates)
    if not names:
        raise ValueError("interleave needs at least one candidate.")
    reference = names[0] if reference is None else reference
    if reference not in candidates:
        raise ValueError(f"reference {reference!r} is not among the candidates {names}.")
    counts = {name: _steps_per_block(candidates[name], block_seconds, warmup_seconds) for name in names}
    for name, period in (multiple or {}).items():
        counts[name] = max(1, round(counts[name] / period)) * period
    inside = {name: (per_call or {}).get(name, 1) for name in names}
    wall: dict[str, list[float]] = {name: [] for name in names}
    ratios: dict[str, list[float]] = {name: [] for name in names}
    cpu_ratios: dict[str, list[float]] = {name: [] for name in names}
    done = dict.fromkeys(names, 0)

    def timed(name: str) -> tuple[float, float]:
        count = counts[name]
        warm = max(1, count // 3)
        _block(candidates[name], done[name], warm)
        seconds, cpu_seconds = _block(candidates[name], done[name] + warm, count)
        done[name] += warm + count
        return seconds / count / inside[name], cpu_seconds / count / inside[name]

    gc.collect()
    gc.disable()
    try:
        for r in range(rounds):
            shift = r % len(names)
            for name in names[shift:] + names[:shift]:
                unit, cpu_unit = timed(reference)
                seconds, cpu_seconds = (unit, cpu_unit) if name == reference else timed(name)
                wall[name].append(seconds)
                ratios[name].append(seconds / unit)
                cpu_ratios[name].append(cpu_seconds / cpu_unit)
    finally:
        gc.enable()
    return {
        name: {
            "us": round(1e6 * statistics.median(wall[name]), 2),
            "us_iqr": round(1e6 * iqr(wall[name]), 2),
            "ratio": round(statistics.median(ratios[name]), 4),
            "ratio_iqr": round(iqr(ratios[name]), 4),
            "ratio_cpu": round(statistics.median(cpu_ratios[name]), 4),
            "steps": done[name] * inside[name],
        }
        for name in names
    }


def iqr(values: list[float]) -> float:
    """Interquartile range; 0 for fewer than two values."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4)
    return high - low


def check(name: str, value: float, limit: float) -> dict[str, Any]:
    """One line of a benchmark's verdict: `value` is meant to be at most `limit`."""
    return {"name": name, "value": round(value, 4), "at_most": limit, "ok": bool(value <= limit)}


def environment(*packages: str) -> dict[str, Any]:
    """Versions and hardware a result belongs to; a package that is missing has the value None."""
    versions: dict[str, str | None] = {}
    for name in ("torch", "numpy", *packages):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load_1min": load,
        "versions": versions,
    }


def emit(result: dict[str, Any]) -> None:
    """Print the result as one JSON object on standard output, the only thing a benchmark writes there."""
    sys.stdout.write(json.dumps(result, indent=1) + "\n")


def note(message: str) -> None:
    """A progress line on standard error."""
    sys.stderr.write(message + "\n")
