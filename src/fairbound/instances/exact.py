"""Exact optima of the instances, each with a certificate: a feasible point above, a lower bound below.

    python -m fairbound.instances.exact np-connect-4-head      # solve again and print
    python -m fairbound.instances.exact --all --write          # and store in optima.json

The inventory's linear programs are solved by HiGHS; problems of hinges by Clarabel, or, where a point of objective 0
exists, by Polyak steps that find it (0 is a lower bound, as losses are not negative). Whatever the solver says, the
numbers are this library's: `upper` is the objective of a point that `evaluate` finds feasible, and `lower` a Lagrangian
bound from the solver's duals, clipped to where the bound holds (see `hinge_program`; for the linear program,
y . b - box |c + A' y|_1 for y >= 0).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch
from scipy.optimize import linprog
from torch import Tensor

from fairbound.base.errors import DataError, OptionError
from fairbound.instances.data_instances import INSTANCES
from fairbound.instances.hinge_program import HingeProgram
from fairbound.instances.inventory import Inventory
from fairbound.instances.linear_terms import LinearTerms
from fairbound.problems.problem import Evaluation, Weights

STORED = Path(__file__).with_name("optima.json")
TOLERANCE = 1e-9
MARGINS = (1e-8, 1e-7, 1e-6)
POLYAK_STEPS, POLYAK_PATIENCE = 5000, 300
NOTHING = 1e-12


@dataclass(frozen=True)
class ExactOptimum:
    """What is known of an optimum: lower <= f* <= upper.

    f: upper, the objective of a feasible point. x0_f: objective at the problem's start. max_g: largest constraint value
    at the feasible point (<= 0). rows, m: size of the data and number of constraints. checksum: of the problem's
    numbers.
    solver: what found it. seconds: it took.
    """

    f: float
    lower: float
    upper: float
    x0_f: float
    max_g: float
    rows: int
    m: int
    solver: str
    checksum: str
    seconds: float

    @property
    def gap(self) -> float:
        """upper - lower."""
        return self.upper - self.lower

    @property
    def certificate(self) -> str:
        return (
            f"a point with largest constraint {self.max_g:.3g} <= 0 has objective {self.upper:.12g}, and duals give the lower "
            f"bound {self.lower:.12g}: gap {self.gap:.2g} ({self.solver})"
        )


def optimum(name: str) -> ExactOptimum:
    """The stored optimum of an instance. Raises: OptionError for an unknown name."""
    stored = _stored()
    if name not in stored:
        raise OptionError(
            f"no optimum is stored for {name!r}; known: {', '.join(stored)}. "
            "`python -m fairbound.instances.exact NAME --write` solves an instance and stores it."
        )
    return ExactOptimum(**stored[name])


@cache
def _stored() -> dict[str, dict[str, Any]]:
    return json.loads(STORED.read_text()) if STORED.exists() else {}


def checksum(problem: Any) -> str:
    """16 hexadecimal digits of what defines the problem, its numbers rounded to 6 decimals so that machines agree.

    Raises: OptionError for a kind of problem without exact optima.
    """
    words, numbers = _definition(problem)
    digest = hashlib.sha256(words.encode())
    for part in numbers:
        rounded = np.round(np.asarray(part, dtype=np.float64), 6) + 0.0  # no -0.0
        digest.update(str(rounded.shape).encode())
        digest.update(np.ascontiguousarray(rounded).tobytes())
    return digest.hexdigest()[:16]


def _definition(problem: Any) -> tuple[str, list[Any]]:
    if isinstance(problem, Inventory):
        return "inventory", [problem.states, problem.actions, problem.costs, [problem.box]]
    if not isinstance(problem, LinearTerms):
        raise OptionError(f"exact optima exist for LinearTerms and Inventory, not for {type(problem).__name__}.")
    matrix = problem.matrix
    if isinstance(matrix, Tensor):
        rows = [matrix]
    else:
        ordered = matrix.sorted_indices()
        rows = [ordered.data, ordered.indices, ordered.indptr]
    shape = [problem.classes, problem.d, problem.radius or 0.0, *problem.blocks.values()]
    coefficients = [A for _, A in problem.losses]
    return " ".join(loss.name for loss, _ in problem.losses), [
        *rows,
        problem.targets,
        problem.bounds,
        shape,
        *coefficients,
    ]


def check(problem: Any, known: ExactOptimum) -> None:
    """Raises: DataError if `known` belongs to other data or settings than `problem`."""
    if checksum(problem) != known.checksum:
        raise DataError(
            "the stored optimum belongs to other data or settings of this instance: solve it again with "
            "`python -m fairbound.instances.exact NAME`."
        )


def solve_exactly(problem: Any) -> ExactOptimum:
    """Solve from scratch and certify. problem: an `Inventory`, or `LinearTerms` with piecewise linear losses and a
    radius.

    Raises: OptionError for another problem; ImportError without Clarabel where it is needed; DataError if no feasible
        point was found.
    """
    began = time.perf_counter()
    digest = checksum(problem)
    if isinstance(problem, Inventory):
        x, lower, solver = _linear_program(problem)
    else:
        zero = _vanishing_point(problem)
        x, lower, solver = _cone_program(problem) if zero is None else (zero, 0.0, "Polyak steps to objective 0")
    measured = problem.evaluate(x)
    start = problem.evaluate(problem.start((0,)))
    upper, worst = float(measured.f), float(measured.g.max())
    if worst > 0:
        raise DataError(f"no feasible point was found: the solver's has largest constraint {worst:.3g}.")
    return ExactOptimum(
        f=upper,
        lower=lower,
        upper=upper,
        x0_f=float(start.f),
        max_g=worst,
        rows=problem.rows,
        m=problem.m,
        solver=solver,
        checksum=digest,
        seconds=round(time.perf_counter() - began, 1),
    )


def _linear_program(problem: Inventory) -> tuple[Tensor, float, str]:
    """A feasible x and a lower bound. x = 0 is strictly feasible, so a share of it mends a violation by rounding."""
    A, b = (part.numpy().astype(float) for part in problem.matrices())
    c, box = problem.objective.numpy().astype(float), problem.box
    found = linprog(c, A_ub=A, b_ub=-b, bounds=(-box, box), method="highs")
    lower = lp_lower_bound(c, A, b, box, -found.ineqlin.marginals)
    x = torch.as_tensor(np.clip(found.x, -box, box))
    g, at_zero = problem.evaluate(x).g, problem.evaluate(torch.zeros_like(x)).g
    share = float((at_zero / (at_zero - g).clamp_max(-1e-300)).where(g > 0, torch.ones_like(g)).min())
    return x * (share if share == 1.0 else share * (1 - 1e-12)), lower, f"HiGHS in SciPy {scipy.__version__}"


def lp_lower_bound(c: np.ndarray, A: np.ndarray, b: np.ndarray, box: float, y: np.ndarray) -> float:
    """Least value over |x| <= box of c . x + y . (A x + b), for y (m,) clipped to >= 0: at most the optimum under
    A x + b <= 0."""
    y = np.maximum(y, 0.0)
    return float(y @ b - box * np.abs(c + A.T @ y).sum())


def _cone_program(problem: LinearTerms) -> tuple[Tensor, float, str]:
    """A feasible x and a lower bound. The constraints are tightened until the solver's point meets the true ones."""
    program = HingeProgram(problem)
    lower = -np.inf
    for margin in MARGINS:
        found, duals, solver = program.solve(margin, TOLERANCE)
        lower = max(lower, program.lower_bound(duals))
        x = problem.domain.project(torch.as_tensor(found))
        if float(problem.evaluate(x).g.max()) <= 0:
            break
    return x, lower, solver


def _vanishing_point(problem: LinearTerms) -> Tensor | None:
    """A feasible point whose objective is 0 to rounding, by Polyak steps on the objective and the worst constraint.

    None once the least feasible objective has not halved for some hundred steps.
    """
    x, batch = problem.start((0,)), problem.sample((0,), "exact", 0, 1, "full")
    least, since = np.inf, 0
    for _ in range(POLYAK_STEPS):
        value = 0.0
        feasible = False

        def choose(at: Evaluation) -> Weights:
            nonlocal value, feasible
            worst = int(at.g.argmax())
            feasible = float(at.g[worst]) <= 0
            value = float(at.f) if feasible else float(at.g[worst]) + 1e-3
            return (1.0, None) if feasible else (0.0, torch.nn.functional.one_hot(at.g.argmax(), problem.m).to(at.g))

        _, gradient = problem.gradient(x, batch, choose)
        if feasible:
            if value <= NOTHING:
                return x
            least, since = (value, 0) if value < least / 2 else (least, since)
        since += 1
        square = float(gradient.square().sum())
        if since > POLYAK_PATIENCE or square == 0:
            return None
        x = problem.domain.project(x - 1.5 * value / square * gradient)
    return None


def main(arguments: Sequence[str] | None = None) -> None:
    """Solve instances again, print them beside what is stored, and store them with --write."""
    parser = argparse.ArgumentParser(prog="python -m fairbound.instances.exact", description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one or more of {', '.join(INSTANCES)}")
    parser.add_argument("--all", action="store_true", help="every instance")
    parser.add_argument("--data-dir", default=os.environ.get("FAIRBOUND_DATA"), help="folder of data files")
    parser.add_argument("--write", action="store_true", help="store the results in the package's optima.json")
    chosen = parser.parse_args(arguments)
    names = list(INSTANCES) if chosen.all else chosen.names
    unknown = [name for name in names if name not in INSTANCES]
    if unknown or not names:
        parser.error(f"unknown instance {unknown[0]!r}." if unknown else "name an instance, or give --all.")
    torch.set_num_threads(1)
    for name in names:
        found = solve_exactly(INSTANCES[name](chosen.data_dir))
        before = _stored().get(name)
        print(
            json.dumps({"name": name, "gap": found.gap, **asdict(found), "stored": before and before["f"]}), flush=True
        )
        if chosen.write:
            known = {**_stored(), name: asdict(found)}
            STORED.write_text(json.dumps({n: known[n] for n in INSTANCES if n in known}, indent=1) + "\n")
            _stored.cache_clear()


if __name__ == "__main__":
    main()
