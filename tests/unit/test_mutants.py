"""Wrong formulas that a test of their own room must notice. One formula a time is broken in a copy of the source.

Each entry names the file, the text to replace (it occurs once), the wrong text, and the tests that must fail then, as
arguments of pytest. The runs are long (`make long`); that each text is still there is checked always.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "fairbound"


class Mutant(NamedTuple):
    file: str
    old: str
    new: str
    tests: str


MUTANTS = {
    # methods
    "alm: multipliers descend": Mutant("methods/alm.py", "(state.multipliers + (config", "(state.multipliers - (config", "claims/test_alm.py"),
    "ssl_alm: smoothing pushes away": Mutant("methods/ssl_alm.py", "config.smoothing * (state.x - state.z)", "config.smoothing * (state.z - state.x)", "claims/test_ssl_alm.py"),
    "switching: Polyak's step over the norm": Mutant("methods/switching_subgradient.py", "base * length / square,", "base * length / square.sqrt(),", "claims/test_switching.py"),
    "ghost: halves not averaged": Mutant("methods/stochastic_ghost.py", "(d_odd + d_even) / 2) /", "(d_odd + d_even)) /", "claims/test_ghost.py"),
    "ynw: queues without the move": Mutant("methods/ynw.py", "(queues + e.g + along)", "(queues + e.g)", "claims/test_level_set_baselines.py"),
    "dfls: level moved whole": Mutant("methods/dfls.py", "state.level + upper / 2)", "state.level + upper)", "claims/test_level_set_baselines.py"),
    "sfls: level moved twice as far": Mutant("methods/sfls.py", "state.level + U / (2 * config.theta)", "state.level + U / config.theta", "claims/test_sfls.py"),
    "ovsmd: half of Student's margin": Mutant("methods/ovsmd.py", "student_quantile(z, freedom) * error,", "0.5 * student_quantile(z, freedom) * error,", "claims/test_sfls.py"),
    "certificates: every round at the whole level": Mutant("methods/certificates.py", "delta / 2.0 ** (tries + 1)", "delta", "claims/test_certified_level_set.py"),
    "certificates: every call at the whole level": Mutant("methods/certificates.py", "math.ldexp(delta, -(call + 1))", "delta", "claims/test_certified_level_set.py"),
    "certified: weights of the mean": Mutant("methods/certified_level_set.py", "(config.averaging + 1) / (state.k + 1 + config.averaging)", "1 / (state.k + 1)", "unit/methods/test_certified_average.py"),
    "clipping: too long by the norm": Mutant("methods/primal.py", "gradient * (most / norm)", "gradient * (norm / most)", "claims/test_alm.py"),
    # confidence
    "rates: Clopper-Pearson without its row": Mutant("confidence/single.py", "n - x + 1, level), 0.0)", "n - x, level), 0.0)", "claims/test_intervals.py"),
    "gaps: half of MOVER's half row": Mutant("confidence/contrasts.py", "np.abs(c) / (2 * n[", "np.abs(c) / (4 * n[", "unit/audits/test_effective_size.py"),
    # fairness
    "cells: the second group's sign": Mutant("fairness/reduction.py", "self.index[:, 1], w, alpha=-1)", "self.index[:, 1], w)", "claims/test_problem.py"),
    "cells: means of absent rows": Mutant("fairness/reduction.py", "entries = dq.gather(-1, cells) * self.shares", "entries = dq.gather(-1, cells)", "claims/test_problem.py"),
    "logistic: slope": Mutant("fairness/pointwise.py", "torch.sigmoid(s) - y,", "torch.sigmoid(s) + y,", "claims/test_problem.py"),
    "sigmoid: sharpness left out of the slope": Mutant("fairness/pointwise.py", "return (p - p * p) * sharpness", "return p - p * p", "claims/test_problem.py"),
    # which rows
    "solver: training bounds forgotten": Mutant("solver/solve.py", "f, violation = held.f, torch.maximum(violation, held.violation)", "f, violation = held.f, held.violation", "unit/solver/test_validation_rows.py"),
    "classifier: validation rows trained on": Mutant("estimators/classifier.py", "problem = build(kept)", "problem = build()", "unit/estimators/test_held_rows.py"),
    # effective numbers of rows
    "Kish: gaps": Mutant("audits/groups.py", "np.where(square > 0, total**2 / np.where(square > 0, square, 1.0), 0.0)", "np.bincount(flat, minlength=k + 1)[:k].astype(float)", "unit/audits/test_effective_size.py"),
    "Kish: classes": Mutant("audits/classes.py", "total**2 / square if square > 0 else 0.0", "float(among.sum())", "unit/audits/test_effective_size.py"),
    "Kish: rates": Mutant("fairness/counts.py", "_divide(total**2, (self.cell_square * among).sum((1, 2)), 0.0)", "(self.cells * among).sum((1, 2)).astype(float)", "unit/audits/test_effective_size.py"),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_the_text_to_break_is_there_once(name):
    mutant = MUTANTS[name]
    assert (PACKAGE / mutant.file).read_text(encoding="utf-8").count(mutant.old) == 1, f"bring {name!r} up to date"
    assert mutant.old != mutant.new and (ROOT / "tests" / mutant.tests.split("::")[0]).is_file()


@pytest.mark.long
@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_formula_is_noticed(name, tmp_path):
    mutant = MUTANTS[name]
    shutil.copytree(PACKAGE, tmp_path / "fairbound", ignore=shutil.ignore_patterns("__pycache__"))
    broken = tmp_path / "fairbound" / mutant.file
    broken.write_text(broken.read_text(encoding="utf-8").replace(mutant.old, mutant.new), encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-n", "0", "-p", "no:cacheprovider", *f"tests/{mutant.tests}".split()],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 1, f"{name!r} lives:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
