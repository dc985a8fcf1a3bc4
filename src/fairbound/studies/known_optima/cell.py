"""One run of a method on an instance: objective and worst constraint over all the data, at every evaluation."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from fairbound.instances import exact, instance
from fairbound.solver.solve import Solution
from fairbound.studies.known_optima.spec import Cell
from fairbound.studies.spec import Prepared

CALLS = ("values", "gradients", "jvps", "jacobians")


def prepare(cell: Cell, data_dir: str | None) -> Prepared:
    """The instance as `fairbound.instances` makes it, in batches of the cell's rows of every block.

    Raises: DataError where the stored optimum is of other data.
    """
    problem, known = instance(cell.data.key, data_dir), exact.optimum(cell.data.key)
    exact.check(problem, known)
    options = {
        "batch_size": cell.batch_size * max(1, len(getattr(problem, "blocks", ()))),
        "record_every": cell.record_every, "keep": kept,
    }  # fmt: skip

    def read(solution: Solution) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        records = [row_of(r, problem.rows) for r in solution.records]
        end = records[-1]
        many = "" if end["outer"] is None else f", {end['outer']} outer iterates"
        told = f"objective {end['f']:.6g} (optimum {known.f:.6g}), largest constraint {end['worst']:.3g}{many}"
        return records, {"rows": problem.rows, "m": problem.m, "message": told}

    return Prepared(problem, cell.method.config(cell.options), options, known.checksum, read)


def kept(row: dict[str, Any]) -> dict[str, Any]:
    """Of a record the worst constraint, its place and the counters: an instance may have 10,000 constraints."""
    g: Tensor = row["train"]["g"]
    worst = {"worst": g.amax(-1), "worst_at": g.argmax(-1)}
    return {**row, "train": {"f": row["train"]["f"], **worst}, "multipliers": []}


def row_of(row: dict[str, Any], rows: int) -> dict[str, Any]:
    """A record of `solve` as an evaluation: objective, worst constraint, and what they have cost so far.

    passes: rows touched over the rows of the data. outer: outer iterates so far, None for a method without them; level
    and upper: its level and its online upper bound.
    """
    counts = {k: row[k] for k in ("samples", *CALLS)}
    return {
        "step": row["step"], "seconds": row["seconds"], "passes": row["samples"] / rows, "counts": counts,
        "f": row["train"]["f"], "worst": row["train"]["worst"], "worst_at": row["train"]["worst_at"],
        **{name: row.get(name) for name in ("outer", "level", "upper")},
    }  # fmt: skip
