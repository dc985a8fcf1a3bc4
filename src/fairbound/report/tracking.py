"""Records of a run where other tools show them: TensorBoard and MLflow.

A record is a row of `solve(..., records="run.jsonl")` or `Solution.records`, or `vars(dual.report())` of a loop of
one's own: numbers by name, and a step. `TensorBoard` and `MLflow` are functions of one record, so that they can be
passed as `solve(..., callback=...)`; `add_all` takes the records that there are, or the file that holds them. The
packages are imported where one is made.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fairbound.base.records import plain, read_records

MOST = 20


def scalars(record: Mapping[str, Any], most: int = MOST) -> dict[str, float]:
    """The finite numbers of a record by path, as "train/f" or "multipliers/0"; of more than `most` beside each other
    the largest alone, as "multipliers/largest"."""
    out: dict[str, float] = {}
    for name, value in plain(dict(record)).items():
        below = dict(enumerate(value)) if isinstance(value, list) else value
        if isinstance(below, dict):
            inner = scalars({str(key): v for key, v in below.items()}, most)
            if len(below) > most:
                inner = {"largest": max(inner.values())} if inner else {}
            out |= {f"{name}/{path}": number for path, number in inner.items()}
        elif isinstance(value, (int, float)) and math.isfinite(value):
            out[str(name)] = float(value)
    return out


class Tracker:
    """What the trackers share. A subclass says in `write` where numbers go."""

    def __call__(self, record: Mapping[str, Any], step: int | None = None) -> None:
        """Add one record; step: its place, by default the record's `step` or `steps`."""
        numbers = scalars(record)
        at = step if step is not None else int(numbers.pop("step", numbers.pop("steps", 0)))
        self.write(numbers, at)

    def add_all(self, records: str | os.PathLike[str] | Iterable[Mapping[str, Any]]) -> None:
        """Add records, or those of a JSON-lines file."""
        for record in read_records(Path(records)) if isinstance(records, (str, os.PathLike)) else records:
            self(record)

    def write(self, numbers: dict[str, float], step: int) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Write what is still held back."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class TensorBoard(Tracker):
    """Scalars in an event file of `folder`, for `tensorboard --logdir`.
    Raises: ImportError where tensorboard is missing."""

    def __init__(self, folder: str | os.PathLike[str]):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError("TensorBoard needs its package: pip install tensorboard") from error
        self.writer = SummaryWriter(os.fspath(folder))

    def write(self, numbers: dict[str, float], step: int) -> None:
        for name, number in numbers.items():
            self.writer.add_scalar(name, number, step)

    def close(self) -> None:
        self.writer.close()


class MLflow(Tracker):
    """Metrics of a run of MLflow: of `run_id`, else of a new run of `experiment`, which `close` ends.

    uri: of the store, as "sqlite:///runs.db"; None for MLflow's own setting. Raises: ImportError where mlflow is
    missing.
    """

    def __init__(self, experiment: str = "fairbound", *, uri: str | None = None, run_id: str | None = None):
        try:
            from mlflow import MlflowClient
        except ImportError as error:
            raise ImportError("MLflow needs its package: pip install mlflow") from error
        self.client: Any = MlflowClient(tracking_uri=uri)
        self.ends = run_id is None
        if run_id is None:
            found = self.client.get_experiment_by_name(experiment)
            number = self.client.create_experiment(experiment) if found is None else found.experiment_id
            run_id = self.client.create_run(number).info.run_id
        self.run_id = run_id

    def write(self, numbers: dict[str, float], step: int) -> None:
        for name, number in numbers.items():
            self.client.log_metric(self.run_id, name, number, step=step)

    def close(self) -> None:
        if self.ends:
            self.client.set_terminated(self.run_id)
