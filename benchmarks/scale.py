"""What a large table costs beside scikit-learn's LogisticRegression: processor time of every part, and memory over the data.

A table of ROWS x 50 float32 numbers with two groups, as a numpy array, as a DataFrame, and as a DataFrame five of whose
columns are texts. "times" are processor seconds of one thread: reading labels and groups, encoding, the training problem
(sorted rows included), one evaluation of it, scores and probabilities of the fitted model, scores of one that bends in
every number, and the same of LogisticRegression in the same process; then of predictions of 1 row, of 1,000 and of all,
beside scikit-learn's pipeline that standardises numbers and turns texts into 0/1 columns. "memory" is the peak of a process that fits or predicts, less that of one that
only holds the data, in units of the table as float32. Prints a table on standard error and one JSON object; Linux only.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import harness

harness.single_thread()

import numpy as np  # noqa: E402

COLUMNS, TEXTS, VALUES = 50, 5, 8
TABLES = ("array", "frame", "texts")
MEMORY = ("hold", "fit", "predict", "logistic regression")
BOUND = "demographic_parity <= 0.02"


def data(kind: str, rows: int, seed: int = 0) -> tuple[Any, np.ndarray, np.ndarray]:
    """The table, labels in {0, 1} and a group of each row; made a slice at a time, so that the peak is the table itself.

    seed: of the rows; what they are drawn from is the same for all."""
    fixed, rng = np.random.default_rng(0), np.random.default_rng([1, seed])
    X = np.empty((rows, COLUMNS), dtype=np.float32)
    y, group = np.empty(rows, dtype=np.int64), np.empty(rows, dtype=np.int64)
    weight = fixed.standard_normal(COLUMNS) / np.sqrt(COLUMNS)
    scale, centre = fixed.uniform(0.5, 20, COLUMNS), fixed.uniform(-30, 30, COLUMNS)
    for at in range(0, rows, 1 << 14):
        part = slice(at, min(at + (1 << 14), rows))
        z = rng.standard_normal((part.stop - at, COLUMNS))
        group[part] = rng.random(len(z)) < 0.4
        z[:, 0] += 0.5 * group[part]
        y[part] = rng.random(len(z)) < 1 / (1 + np.exp(-2 * (z @ weight)))
        X[part] = z * scale + centre
    if kind == "array":
        return X, y, group
    import pandas as pd

    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(COLUMNS)], copy=False)
    if kind == "texts":
        words = np.array([f"value {v}" for v in range(VALUES)], dtype=object)
        for j in range(TEXTS):
            frame[f"x{j}"] = words[rng.integers(0, VALUES, rows)]
    return frame, y, group


def seconds(run: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """The least processor time of `repeats` runs, and what the last one returned."""
    least, out = float("inf"), None
    for _ in range(repeats):
        out = None
        start = time.process_time()
        out = run()
        least = min(least, time.process_time() - start)
    return least, out


def numbers_of(table: Any) -> Any:
    """What LogisticRegression can take of a table: its columns of numbers."""
    return table if isinstance(table, np.ndarray) else table.select_dtypes("number")


def training_parts(X: Any, y: np.ndarray, group: np.ndarray, repeats: int) -> dict[str, float]:
    """Processor seconds of what comes before and around training."""
    from fairbound.fairness.problem import FairProblem
    from fairbound.models.model import model_of
    from fairbound.rows.groups import Groups
    from fairbound.rows.labels import class_labels
    from fairbound.tables import Encoded, TableEncoder

    out = {}
    out["labels and groups"], (_, groups) = seconds(lambda: (class_labels(y), Groups.of(group)), repeats)
    out["encode"], encoded = seconds(lambda: Encoded.of(TableEncoder(), X), repeats)
    model = model_of("linear", encoded.features.shape[1])
    out["problem"], problem = seconds(lambda: FairProblem(model, encoded.features, y, groups, BOUND), repeats)
    x = problem.start([0])
    out["evaluation"], _ = seconds(lambda: problem.evaluate(x), repeats)
    return out


def times(kind: str, rows: int, repeats: int) -> dict[str, Any]:
    """Processor seconds of every part on one table, in this process."""
    import torch
    from sklearn.linear_model import LogisticRegression

    import fairbound as fb

    torch.set_num_threads(1)
    X, y, group = data(kind, rows)
    out = training_parts(X, y, group, repeats)
    some = slice(0, max(rows // 10, 4000))
    few = X[some] if kind == "array" else X.iloc[some]
    fair = fb.FairClassifier(BOUND, budget="300 steps", validation=0)
    fair.fit(few, y[some], sensitive_features=group[some])
    out["scores"], _ = seconds(lambda: fair.decision_function(X), repeats)
    out["probabilities"], _ = seconds(lambda: fair.predict_proba(X), repeats)
    bent = fb.FairClassifier(BOUND, budget="50 steps", validation=0, options=fb.TableOptions(knots=3))
    bent.fit(few[:4000], y[:4000], sensitive_features=group[:4000])
    out["scores, all numbers bend"], _ = seconds(lambda: bent.decision_function(X), repeats)
    plain = numbers_of(X)
    logistic = LogisticRegression()
    out["logistic regression: fit"], _ = seconds(lambda: logistic.fit(plain, y))
    out["logistic regression: scores"], _ = seconds(lambda: logistic.decision_function(plain), repeats)
    out["logistic regression: probabilities"], _ = seconds(lambda: logistic.predict_proba(plain), repeats)
    out |= predictions(kind, fair, X, y)
    return {name: round(value, 6) for name, value in out.items()}


def pipeline(kind: str) -> Any:
    """scikit-learn's way from a table to LogisticRegression."""
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    if kind != "texts":
        return make_pipeline(StandardScaler(), LogisticRegression())
    columns = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
    )
    return make_pipeline(columns, LogisticRegression())


def predictions(kind: str, fair: Any, X: Any, y: np.ndarray) -> dict[str, float]:
    """Processor seconds of predicting a few rows of X, and all, by ours and by scikit-learn's pipeline."""
    head = (lambda n: X[:n]) if kind == "array" else (lambda n: X.iloc[:n])
    theirs, out = pipeline(kind).fit(head(4000), y[:4000]), {}
    for rows in (1, 1000, len(X)):
        part, calls = head(rows), 200 if rows <= 1000 else 1
        for name, model in (("predict", fair), ("pipeline: predict", theirs)):

            def run(m: Any = model, p: Any = part, c: int = calls) -> list[Any]:
                return [m.predict(p) for _ in range(c)]

            taken, _ = seconds(run, 5)
            out[f"{name} {rows:,} row{'s' * (rows > 1)}"] = taken / calls
    return out


def peak(what: str, kind: str, rows: int, budget: str | None) -> dict[str, Any]:
    """Peak memory of this process in MiB after doing `what`, and its processor seconds."""
    import torch
    from sklearn.linear_model import LogisticRegression

    import fairbound as fb

    torch.set_num_threads(1)
    X, y, group = data(kind, rows)
    small = slice(0, min(rows, 4000))
    few = X[small] if kind == "array" else X.iloc[small]
    fair = fb.FairClassifier(BOUND, budget="50 steps", validation=0)
    fair.fit(few, y[small], sensitive_features=group[small])  # so that what is loaded at the first fit counts as held
    found: dict[str, Any] = {}
    start = time.process_time()
    if what == "fit":
        fair = fb.FairClassifier(BOUND, budget=budget).fit(X, y, sensitive_features=group)
        found["feasible"] = bool(fair.fit_report_["feasible"])
        found["features"] = len(fair.encoder_.feature_names)
    elif what == "predict":
        found["positive"] = round(float((fair.decision_function(X) > 0).mean()), 4)
    elif what == "logistic regression":
        logistic = LogisticRegression().fit(numbers_of(X), y)
        found["positive"] = round(float(logistic.predict(numbers_of(X)).mean()), 4)
    found["seconds"] = round(time.process_time() - start, 2)
    return {"mib": harness.memory(), **found}


def in_own_process(*arguments: str, file: str = __file__) -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore", file, "--in-this-process", *arguments]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def memory_of(kind: str, rows: int, cases: list[str], options: list[str]) -> dict[str, Any]:
    """Peaks over the process that only holds the data, in units of the float32 table."""
    table = rows * COLUMNS * 4 / 2**20
    found = {case: in_own_process(*options, "--tables", kind, "--memory", case) for case in ["hold", *cases]}
    held = found.pop("hold")["mib"]
    return {case: {"over_data": round((one.pop("mib") - held) / table, 3), **one} for case, one in found.items()} | {
        "table_mib": round(table, 1)
    }


def checks_of(kind: str, found: dict[str, Any], memory: dict[str, Any]) -> list[dict[str, Any]]:
    out = []
    for part in ("scores", "probabilities"):
        ratio = found[part] / max(found[f"logistic regression: {part}"], 1e-9)
        if kind != "texts":  # LogisticRegression cannot read texts
            out.append(harness.check(f"{kind}: {part} over logistic regression's", ratio, 1.5))
    for name in (name for name in found if name.startswith("predict ")):
        ratio = found[name] / max(found[f"pipeline: {name}"], 1e-9)
        out.append(harness.check(f"{kind}: {name} over scikit-learn's pipeline", ratio, 1.5))
    if "fit" in memory:
        ratio = memory["fit"]["seconds"] / max(found["logistic regression: fit"], 1e-9)
        out.append(harness.check(f"{kind}: fit over logistic regression's", ratio, 3.0))
        out.append(harness.check(f"{kind}: memory of fit over the float32 table", memory["fit"]["over_data"], 1.5))
        over = memory["fit"]["over_data"] * COLUMNS / memory["fit"]["features"]
        out.append(harness.check(f"{kind}: memory of fit over its float32 features", over, 1.5))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--tables", default=",".join(TABLES), help="array, frame, texts")
    parser.add_argument("--memory", default=",".join(MEMORY[1:]), help="fit, predict, logistic regression; or none")
    parser.add_argument("--budget", default=None, help="of the fit; the default budget without it")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--in-this-process", action="store_true", help="run one case and print its figures")
    args = parser.parse_args()
    options = ["--rows", str(args.rows), "--repeats", str(args.repeats)]
    options += [] if args.budget is None else ["--budget", args.budget]
    if args.in_this_process:
        harness.emit(
            peak(args.memory, args.tables, args.rows, args.budget)
            if args.memory in MEMORY
            else times(args.tables, args.rows, args.repeats)
        )
        return
    cases = [] if args.memory == "none" else args.memory.split(",")
    results, checks = {}, []
    for kind in args.tables.split(","):
        found = in_own_process(*options, "--tables", kind, "--memory", "none")
        memory = memory_of(kind, args.rows, cases, options) if cases else {}
        results[kind] = {"times": found, "memory": memory}
        checks += checks_of(kind, found, memory)
        for name, value in found.items():
            harness.note(f"{kind:<8}{name:<36}{value:>12.6f} s")
        for name, one in memory.items():
            if isinstance(one, dict):
                harness.note(f"{kind:<8}{'memory of ' + name:<36}{one['over_data']:>10.2f} x the table")
    for one in checks:
        harness.note(str(one))
    harness.emit(
        {
            "benchmark": "scale",
            "rows": args.rows,
            "columns": COLUMNS,
            "unit": "processor seconds; memory in float32 tables",
            "tables": results,
            "checks": checks,
            "environment": harness.environment("fairbound", "scikit-learn", "pandas"),
        }
    )


if __name__ == "__main__":
    main()
