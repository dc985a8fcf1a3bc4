"""A checkpoint is taken up by the run that it is of, and refused where what is to be solved differs."""

from functools import partial

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.base.errors import CheckpointError
from fairbound.methods import ALM, SGD
from fairbound.problems.wrappers import Rebounded
from fairbound.solver import checkpoint
from fairbound.solver.identity import identity_of
from fairbound.solver.solve import solve
from fairbound.testing import PROBLEMS

N = 200


def rows(seed=0):
    rng = np.random.default_rng(seed)
    g = rng.integers(0, 2, N)
    X = rng.normal(size=(N, 3)) + g[:, None]
    return X, (X.sum(1) + rng.normal(size=N) > 1.5).astype(int), g


X, Y, G = rows()


def problem(bound=0.2, X=X, y=Y, g=G, weights=None):
    torch.manual_seed(0)
    module = torch.nn.Linear(3, 1).double()
    more = {} if weights is None else {"sample_weight": weights}
    return fb.formulate(module, "logistic", (X, y), g, f"demographic_parity <= {bound}", **more)


go = partial(solve, algorithm="alm", budget="60 steps")
WORDS = "objective and constraints are .* at a point where they are .* now, so that rows, labels"
ZEROS = torch.zeros(4, dtype=torch.float64)


@pytest.mark.parametrize(
    ("other", "options", "words"),
    [
        (lambda: problem(0.02), {}, r"run under other bounds, 0\.2, 0\.2 in place of 0\.02, 0\.02\. Give another path, or delete it"),
        (lambda: problem(X=X[:, ::-1] * 3), {}, WORDS),
        (lambda: problem(X=X + np.eye(N)[:, :3]), {}, WORDS),
        (lambda: problem(y=1 - Y), {}, WORDS),
        (lambda: problem(g=1 - G), {}, WORDS + "|its constraints"),
        (problem, {"x0": ZEROS + 1}, "it began at another point"), (problem, {"x0": None}, "it began at another point"),
        (problem, {"validation": problem()}, "it was run without validation, and this run is with it"),
    ],
)  # fmt: skip
def test_what_is_to_be_solved_must_be_the_same(tmp_path, other, options, words):
    """From weights 0, at which objective and rates are those of any features."""
    path = tmp_path / "run.ckpt"
    go(problem(), checkpoint=path, x0=ZEROS)
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match=words):
        go(other(), checkpoint=path, **{"x0": ZEROS, **options})
    assert path.read_bytes() == before
    assert go(problem(), checkpoint=path, x0=ZEROS.float(), budget="80 steps").steps == 80


def test_other_validation_rows_are_another_run(tmp_path):
    path = tmp_path / "run.ckpt"
    other, third = (problem(X=x, y=y, g=g) for x, y, g in (rows(1), rows(2)))
    go(problem(), checkpoint=path, validation=other)
    with pytest.raises(CheckpointError, match="objective and constraints of the validation problem are"):
        go(problem(), checkpoint=path, validation=third)
    with pytest.raises(CheckpointError, match="it was run with validation, and this run is without it"):
        go(problem(), checkpoint=path)
    assert go(problem(), checkpoint=path, validation=other, budget="70 steps").steps == 70


def test_runs_of_a_stack_have_their_own_bounds(tmp_path):
    def stack(second):
        return Rebounded(problem(), [[0.2, 0.2], [second, second]])

    run = partial(go, checkpoint=tmp_path / "run.ckpt", seed=[0, 1])
    run(stack(0.1))
    with pytest.raises(CheckpointError, match=r"other bounds, 0\.1, 0\.1 in place of 0\.05, 0\.05"):
        run(stack(0.05))
    assert run(stack(0.1), budget="70 steps").steps == 70


def test_what_rounds_otherwise_is_the_same(tmp_path):
    """As sums of other threads do; a thousandth is another run."""
    made = problem()

    class Rounded(type(made)):
        share = 1.0

        def evaluate(self, x):
            found = super().evaluate(x)
            return type(found)(found.f * self.share, found.g, found.extra)

    made.__class__ = Rounded
    run = partial(go, checkpoint=tmp_path / "run.ckpt")
    run(made)
    made.share = 1 + 1e-6
    assert run(made, budget="70 steps").steps == 70
    made.share = 1 + 1e-3
    with pytest.raises(CheckpointError, match=WORDS):
        run(made, budget="80 steps")


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_problem_goes_on_where_it_was(name, tmp_path):
    run = partial(solve, algorithm=SGD(step_size=0.01), checkpoint=tmp_path / "run.ckpt")
    run(PROBLEMS[name](), budget="3 steps")
    assert run(PROBLEMS[name](), budget="6 steps").steps == 6


def test_a_point_without_numbers_does_not_stop_the_run(tmp_path):
    made = PROBLEMS["two_sided"]()
    start = made.start((0,))

    class Undefined(type(made)):
        def evaluate(self, x):
            found = super().evaluate(x)
            return (
                found if torch.equal(x, start) else type(found)(found.f * torch.inf, found.g * torch.nan, found.extra)
            )

    made.__class__ = Undefined
    run = partial(solve, made, SGD(), checkpoint=tmp_path / "run.ckpt", nonfinite="skip")
    run(budget="3 steps")
    assert run(budget="6 steps").steps == 6


def test_a_checkpoint_of_an_older_format_says_so(tmp_path):
    path = tmp_path / "run.ckpt"
    go(problem(), checkpoint=path)
    path.write_bytes(path.read_bytes().replace(checkpoint.HEAD, b"fairbound-checkpoint 3 "))
    with pytest.raises(
        CheckpointError, match=r"another version of fairbound: its format is 3, this version reads 4\. Delete it"
    ):
        go(problem(), checkpoint=path)


def test_no_identity_is_measured_without_a_checkpoint(monkeypatch):
    monkeypatch.setattr("fairbound.solver.run.identity_of", lambda *given: pytest.fail("measured"))
    solve(PROBLEMS["two_sided"](), ALM(), budget="2 steps")
    assert identity_of
