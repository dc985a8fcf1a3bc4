"""One model of a study: trained on the rows of its seed, measured on training and test rows.

The result holds measures of the last, the best and (where the method has one) the random iterate, and the histograms of
their predictions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from scipy.special import expit

from fairbound.base.errors import FairboundError, OptionError
from fairbound.fairness.distances import binned_squared_wasserstein
from fairbound.fairness.metrics import benchmark_metrics
from fairbound.fairness.problem import FairProblem
from fairbound.models.model import model_of
from fairbound.problems.wrappers import Watched
from fairbound.rows.groups import Groups
from fairbound.solver.solve import Solution
from fairbound.studies.fair_models.rows import Part, Rows, divided, load_rows
from fairbound.studies.fair_models.spec import Cell
from fairbound.studies.spec import Prepared

EDGES = np.linspace(0.0, 1.0, 51)


def prepare(cell: Cell, data_dir: str | None) -> Prepared:
    """The rows of the cell's seed as a problem, measured on test rows too."""
    rows = load_rows(cell.data, cell.seed, data_dir, cell.tuning)
    fit, chosen_on = rows.train, None
    if cell.method.validation:
        fit, chosen_on = divided(rows.train, cell.method.validation, cell.seed, "validation")
    trained = cell.method.constraint or cell.constraint
    own = _problem(cell, fit, trained)
    same = chosen_on is None and trained == cell.constraint
    measured_on = {"train": own if same else _problem(cell, rows.train, cell.constraint)}
    measured_on["test"] = _problem(cell, rows.test, cell.constraint)
    problem = Watched(own, {name: other for name, other in measured_on.items() if other is not own})
    per_epoch = dict.fromkeys(cell.method.per_epoch, math.ceil(len(fit) / cell.batch_size))
    options = {
        "validation": None if chosen_on is None else _problem(cell, chosen_on, trained),
        "record_every": cell.method.record_every or None,
        "average": cell.method.average,
    }

    def read(solution: Solution) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        reader = _Reader(own, measured_on, cell)
        records = [reader.row(r) for r in solution.records]
        return records, {
            "calls": records[-1]["calls"], "groups": list(cell.data.groups),
            "rows": {name: _sizes(part) for name, part in (("train", rows.train), ("test", rows.test))},
            "outputs": _outputs(cell, measured_on, rows, solution, reader),
        }  # fmt: skip

    config = cell.method.config({**cell.options, **per_epoch})
    return Prepared(problem, config, options, rows.checksum, read)


def _problem(cell: Cell, part: Part, stated: str) -> FairProblem:
    model = model_of(cell.model, part.x.shape[1])
    groups = Groups(part.group.reshape(-1, 1), (cell.data.group,), (cell.data.groups,))
    return FairProblem(model, part.x, part.y, groups, stated)


class _Reader:
    """Rows of `solve` as rows of a study, and measured constraints as values of the metric."""

    def __init__(self, problem: FairProblem, measured_on: dict[str, FairProblem], cell: Cell):
        reference, protected = cell.data.groups
        self.m = problem.m
        self.plans = {part: other.plan for part, other in measured_on.items()}
        self.own = next((part for part, other in measured_on.items() if other is problem), None)
        self.signed = [i for i, n in enumerate(self.plans["test"].names) if f": {protected} - {reference}" in n]
        if not self.signed:
            raise OptionError(
                f"the bound {cell.constraint!r} does not compare {protected!r} with {reference!r} directly; state it "
                "pairwise."
            )

    def row(self, row: dict[str, Any]) -> dict[str, Any]:
        """Loss, signed gap (protected minus reference) and stated value, on train and test, with the counters."""
        counts = {k: row[k] for k in ("samples", "values", "gradients", "jvps", "jacobians")}
        out = {"step": row["step"], "seconds": row["seconds"], "counts": counts, "calls": self.calls(counts)}
        for part in self.plans:
            prefix = "" if part == self.own else f"{part}_"
            out[part] = self.measures(part, row["train"][f"{prefix}f"], row["train"][f"{prefix}g"])
        return out

    def measures(self, part: str, loss: float, g: list[float]) -> dict[str, float]:
        bounds = self.plans[part].bounds
        values = [math.nan if v is None else v + float(b) for v, b in zip(g, bounds, strict=True)]
        return {"loss": loss, "gap": max((values[i] for i in self.signed), key=abs), "value": max(values)}

    def calls(self, counts: dict[str, int]) -> int:
        """Passes over a batch: a Jacobian counts as 1 + m of them, any other call as one."""
        return counts["values"] + counts["gradients"] + counts["jvps"] + (1 + self.m) * counts["jacobians"]


def _sizes(part: Part) -> dict[str, int]:
    return {
        "rows": len(part), "positives": int(part.y.sum()), "reference": int((part.group == 0).sum()),
        "protected": int((part.group == 1).sum()),
    }  # fmt: skip


def _outputs(
    cell: Cell, measured_on: dict[str, FairProblem], rows: Rows, solution: Solution, reader: _Reader
) -> dict[str, Any]:
    """Measures and histograms of every model that the run can return."""
    models = {"last": solution.last, "best": solution.x}
    if hasattr(solution.state, "output"):
        models["random"] = solution.state.output
    out: dict[str, Any] = {}
    for name, x in models.items():
        out[name] = {}
        for part, data in (("train", rows.train), ("test", rows.test)):
            problem = measured_on[part]
            stated = problem.evaluate(x)
            scores = problem.all_scores(x, torch.from_numpy(data.x)).double().numpy()
            out[name][part] = {
                **reader.measures(part, float(stated.f), stated.g.tolist()), **measure(scores, data, cell.data.groups)
            }  # fmt: skip
    out["best"]["step"] = int(solution.best_step)
    out["best"]["feasible"] = bool(solution.feasible)
    return out


def _standard_error(scores: np.ndarray, y: np.ndarray, group: np.ndarray) -> float:
    losses = np.logaddexp(0.0, scores) - (y > 0) * scores
    parts = [losses[group == code] for code in (0, 1)]
    return float(np.sqrt(sum(part.var(ddof=1) / len(part) if len(part) > 1 else np.nan for part in parts)))


def measure(scores: np.ndarray, part: Part, names: tuple[str, str]) -> dict[str, Any]:
    """KLBM25's measures of one model on one part, and 50-bin histograms of its predicted probabilities.

    Ind, Sp, Ina, Sf: as in Table 3. Wd: its "Wd", the squared order-2 distance of 50-bin histograms. W1: the
    Wasserstein distance of order 1. SE: standard error of the difference between the groups' mean logistic losses, for
    rows drawn independently. Ina is over all rows, the others over rows of either group; NaN where undefined.
    """
    y, group = part.y, part.group
    known = group >= 0
    found = benchmark_metrics(scores[known], y[known], group[known])
    found["W1"] = found.pop("Wd")
    found["SE"] = _standard_error(scores, y, group)
    found["Ina"] = float(np.mean((scores > 0) != (y > 0)))
    reference, protected = (expit(scores[group == code]) for code in (0, 1))
    try:
        found["Wd"] = binned_squared_wasserstein(reference, protected)
    except FairboundError:
        found["Wd"] = math.nan
    return {
        **{k: float(v) for k, v in found.items()},
        "histogram": {
            name: np.histogram(p, bins=EDGES)[0].tolist() for name, p in zip(names, (reference, protected), strict=True)
        },
    }
