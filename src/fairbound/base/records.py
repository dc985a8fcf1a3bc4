"""What a run writes down: oracle counts, a clock that stops while measuring, and one JSON line per record."""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Counts:
    """Oracle calls so far. `samples` counts rows touched by any of the four verbs, per run where runs are stacked."""

    values: int = 0
    gradients: int = 0
    jvps: int = 0
    jacobians: int = 0
    samples: int = 0
    unseen: int = 0  # constraint values asked of a batch that lacked one of their groups
    nonfinite: int = 0  # batches skipped because a loss, constraint or gradient was NaN or infinite

    def as_dict(self) -> dict[str, int]:
        return dict(vars(self))


class Clock:
    """Seconds spent training, of the clock or of the processor. `paused()` keeps evaluation out of the count."""

    def __init__(self, seconds: float = 0.0, *, processor: bool = False):
        self._now = time.process_time if processor else time.perf_counter
        self._before = seconds
        self._since: float | None = self._now()

    @property
    def seconds(self) -> float:
        running = 0.0 if self._since is None else self._now() - self._since
        return self._before + running

    @contextlib.contextmanager
    def paused(self):
        self._before, self._since = self.seconds, None
        try:
            yield
        finally:
            self._since = self._now()


def versions() -> dict[str, str]:
    """Versions of this library, Python and what the numbers depend on."""
    import numpy
    import scipy
    import sklearn
    import torch

    from fairbound.base.version import __version__

    return {
        "fairbound": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


def hardware() -> dict[str, Any]:
    """Processor architecture, operating system and the number of threads torch uses."""
    import torch

    return {"machine": platform.machine(), "system": platform.system(), "threads": torch.get_num_threads()}


def plain(value: Any) -> Any:
    """`value` as JSON can hold it: tensors and arrays become lists, NaN and infinities become None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        if set(map(type, value)) == {float} and math.isfinite(sum(value)):
            return list(value)  # as values of many bounds are
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


LONG = 10_000
"""Vectors of more numbers stay tensors in memory, where a list takes eight times as much."""


def _held(value: Any) -> Any:
    """`value` as `plain` gives it, but for long tensors of finite numbers, which stay tensors."""
    if isinstance(value, dict):
        return {str(k): _held(v) for k, v in value.items()}
    if hasattr(value, "isfinite") and value.numel() > LONG and bool(value.isfinite().all()):
        return value.detach().cpu()
    return plain(value)


_ROW = b'{"step"'  # how a row of a run begins


@dataclass
class Recorder:
    """Keeps records in memory, as JSON can hold them but for vectors of more than LONG numbers, and, where `path` is given,
    appends each as one JSON line.

    A full disk does not stop a run: the write is tried once more at the next record, the rows stay in memory, and
    one `RuntimeWarning` says so. The file never keeps a part of a line. `unwritten` counts the rows that it lacks;
    `start` is the byte at which this run's rows begin, after those of earlier runs.
    """

    path: Path | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)
    unwritten: int = 0
    start: int = 0
    _warned: bool = False

    def __post_init__(self) -> None:
        if self.path is not None:
            self.start = _whole_lines(self.path)

    def add(self, row: dict[str, Any]) -> None:
        self.rows.append(_held(row))
        self.unwritten += 1
        self._write()

    def where(self) -> dict[str, Any]:
        """Which part of which file is this run's, for a checkpoint."""
        return {"path": None if self.path is None else str(self.path.resolve()), "start": self.start}

    def resume(self, rows: list[dict[str, Any]], where: dict[str, Any]) -> None:
        """Take up `rows` of an earlier process: what it wrote after them leaves the file, other runs' rows stay."""
        self.rows, self.unwritten = list(rows), len(rows)
        if self.path is not None and self.path.is_file() and where["path"] == str(self.path.resolve()):
            self.start = min(where["start"], self.start)
            os.truncate(self.path, self.start)
        self._write()

    def _write(self) -> None:
        if self.path is None or not self.unwritten:
            return
        text = "".join(json.dumps(plain(r), allow_nan=False) + "\n" for r in self.rows[-self.unwritten :])
        before = self.path.stat().st_size if self.path.is_file() else None
        try:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(text)
            self.unwritten = 0
        except OSError as error:
            if before is not None:
                os.truncate(self.path, before)
            if not self._warned:
                self._warned = True
                warnings.warn(
                    f"records could not be written to {self.path} ({error.strerror}); training goes on and the records "
                    "stay in memory (Solution.records). Free some space or pass another path.",
                    RuntimeWarning,
                    stacklevel=3,
                )


def _whole_lines(path: Path) -> int:
    """Size of a records file after dropping a last line that a killed process left unfinished; 0 without a file."""
    if not path.is_file():
        return 0
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if data[whole:].startswith(_ROW[: len(data) - whole]) and whole < len(data):
        os.truncate(path, whole)
        return whole
    return len(data)


def read_records(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a records file; a last line cut short by a killed process is left out."""
    rows = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            rest = Path(path).read_text(encoding="utf-8").splitlines()[number:]
            if rest:
                raise ValueError(f"{path}: line {number} is not JSON, though {len(rest)} lines follow it") from None
    return rows
