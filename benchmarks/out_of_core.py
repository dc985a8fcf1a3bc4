"""Training from a Parquet file larger than the memory that it may take: ROWS x 50 float32 numbers, read in parts.

A first process writes the file. A second one fits `FairClassifier("demographic_parity <= 0.02")` on `Chunks.read(file, folder=...)`,
which keeps the encoded features in a file of that folder instead of in memory. Printed: processor seconds, whether the
bound is met on all rows, and the most memory that was the process's own at any time (RssAnon, looked at every 20 ms, over
that before the fit), and that with the pages of files beside it, which the system takes back when it needs them. Linux only.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import harness

harness.single_thread()

import numpy as np  # noqa: E402
import scale  # noqa: E402

BOUND = "demographic_parity <= 0.02"
PART = 1 << 17


def written(path: Path, rows: int) -> None:
    """The file: parts of the table of `scale.data`, the label and the group as columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for number, at in enumerate(range(0, rows, PART)):
        X, y, group = scale.data("array", min(PART, rows - at), number)
        columns = {f"x{j}": X[:, j] for j in range(X.shape[1])} | {
            "y": y.astype(np.int8),
            "group": group.astype(np.int8),
        }
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema, compression="NONE", use_dictionary=False)
        writer.write_table(table)
    writer.close()  # type: ignore[union-attr]


def memory() -> tuple[float, float]:
    """MiB that are the process's own, and with the pages of files."""
    fields = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    own, files = (float(fields[name].split()[0]) / 1024 for name in ("RssAnon", "RssFile"))
    return own, own + files


def fitted(path: Path, folder: str) -> dict[str, Any]:
    import pyarrow.parquet as pq
    import torch

    import fairbound as fb

    torch.set_num_threads(1)
    few, y, group = scale.data("array", 4000)
    fb.FairClassifier(BOUND, validation=0).fit(few, y, sensitive_features=group)  # so that all is loaded
    before, peak, done = memory(), [0.0, 0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            for i, now in enumerate(memory()):
                peak[i] = max(peak[i], now)

    watching = threading.Thread(target=watch)
    watching.start()
    start = time.process_time()
    narrow = pq.read_table(path, columns=["y", "group"])
    y, group = (narrow.column(name).to_numpy() for name in ("y", "group"))
    names = [name for name in pq.read_schema(path).names if name not in ("y", "group")]
    X = fb.tables.Chunks.read(path, columns=names, folder=folder)
    model = fb.FairClassifier(BOUND).fit(X, y, sensitive_features=group)
    seconds = time.process_time() - start
    done.set()
    watching.join()
    report = model.fit_report_
    return {
        "rows": len(y),
        "seconds": round(seconds, 1),
        "feasible": bool(report["feasible"]),
        "own_mib": round(peak[0] - before[0]),
        "with_files_mib": round(peak[1] - before[1]),
        "table_mib": round(len(y) * len(names) * 4 / 2**20),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--folder", default=None, help="where both files go; two tables of room are needed")
    parser.add_argument("--in-this-process", default=None, metavar="FILE")
    args = parser.parse_args()
    if args.in_this_process:
        harness.emit(fitted(Path(args.in_this_process), args.folder))
        return
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        path = Path(folder) / "table.parquet"
        written(path, args.rows)
        found = scale.in_own_process(str(path), "--folder", folder, file=__file__)
    harness.emit(
        {
            "benchmark": "out_of_core",
            **found,
            "checks": [harness.check("MiB of its own", found["own_mib"], 2048)],
            "environment": harness.environment("fairbound", "pyarrow"),
        }
    )


if __name__ == "__main__":
    main()
