"""Where cells run: joblib's own processes or threads, or a Ray or Dask cluster; and how much runs slow each other down.

On a cluster every worker must see the output folder and the data folder under the same paths. `ray.init` reads
RAY_ADDRESS and Dask reads DASK_SCHEDULER_ADDRESS; without one, local workers are started.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from fairbound.base.errors import OptionError
from fairbound.base.extras import extra
from fairbound.base.threads import one_thread

BACKENDS = ("loky", "threading", "ray", "dask")
CALIBRATION_STEPS = 3000


@contextlib.contextmanager
def workers(backend: str, jobs: int) -> Iterator[Callable[[Iterable[Any]], Iterator[Any]]]:
    """`jobs` workers as a function from joblib tasks to their results, as they finish (with "ray", when all have).

    Raises: OptionError for an unknown backend or jobs < 1; ImportError naming the extra that is missing.
    """
    if backend not in BACKENDS:
        raise OptionError(f"unknown backend {backend!r}; known: {', '.join(BACKENDS)}.")
    if jobs < 1:
        raise OptionError(f"jobs must be at least 1, got {jobs}.")
    from joblib import Parallel, parallel_config

    with contextlib.ExitStack() as stack:
        options: dict[str, Any] = {"backend": backend}
        if backend == "ray":
            stack.enter_context(_ray(jobs))
        elif backend == "dask":
            stack.enter_context(_dask(jobs))
        elif backend == "loky":
            options["inner_max_num_threads"] = 1

        def run(tasks: Iterable[Any]) -> Iterator[Any]:
            with parallel_config(**options):
                order = "list" if backend == "ray" else "generator_unordered"  # ray hands its results back together
                yield from Parallel(n_jobs=jobs, return_as=order, batch_size=1, pre_dispatch=jobs)(tasks)

        yield run


@contextlib.contextmanager
def _ray(jobs: int) -> Iterator[None]:
    with extra("ray", "backend 'ray' needs ray"):
        import ray
        from ray.util.joblib import register_ray
    mine = not ray.is_initialized()
    if mine:
        import os

        own: dict[str, Any] = {"num_cpus": jobs, "include_dashboard": False}
        ray.init(**({} if os.environ.get("RAY_ADDRESS") else own))
    register_ray()
    try:
        yield
    finally:
        if mine:
            ray.shutdown()


@contextlib.contextmanager
def _dask(jobs: int) -> Iterator[None]:
    with extra("dask", "backend 'dask' needs dask.distributed"):
        import dask
        from dask.distributed import Client
    local = {"n_workers": jobs, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with Client(**({} if dask.config.get("scheduler-address", None) else local)):
        yield


def slowdown(backend: str, jobs: int) -> dict[str, Any]:
    """How much longer a fixed loop of training-sized work takes when `jobs` workers run it at once.

    Returns: {"alone": seconds, "together": [seconds of each worker], "slowdown": median together / alone}; 1 means that
    parallel cells had the same machine as cells run one by one. One worker is not slowed down: nothing is measured
    then.
    """
    if jobs == 1:
        return {"jobs": 1, "backend": backend, "alone": None, "together": [], "slowdown": 1.0}
    from joblib import delayed

    with workers(backend, jobs) as run:
        list(run(delayed(_loop)(0.0, 1) for _ in range(jobs)))  # the workers start and import
        (alone,) = run([delayed(_loop)(0.0, CALIBRATION_STEPS)])
        start = time.time() + 1.0
        together = list(run(delayed(_loop)(start, CALIBRATION_STEPS) for _ in range(jobs)))
    return {
        "jobs": jobs, "backend": backend, "alone": alone, "together": together,
        "slowdown": statistics.median(together) / alone,
    }  # fmt: skip


def _loop(start: float, steps: int) -> float:
    """Seconds of `steps` small matrix products in one thread, the least of three, begun at time `start`."""
    with one_thread():
        generator = torch.Generator().manual_seed(0)
        x, w, v = (torch.randn(shape, generator=generator) for shape in ((64, 64), (64, 32), (32, 64)))
        time.sleep(max(0.0, start - time.time()))
        taken = []
        for _ in range(3):
            began = time.perf_counter()
            for _ in range(steps):
                x = torch.relu(x @ w) @ v
                x = x / (1 + x.abs().amax())
            taken.append(time.perf_counter() - began)
    return min(taken)
