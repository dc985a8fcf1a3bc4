"""docs/extending.md, "A method" and "A problem": its code is taken from the page, put into a folder outside the package, and run."""

import re
import sys
from pathlib import Path

import pytest
import torch

from fairbound.base.errors import CheckpointError, OptionError
from fairbound.fairness.formulate import formulate
from fairbound.methods import METHODS, algorithm
from fairbound.problems.problem import Evaluation
from fairbound.solver.solve import solve
from fairbound.testing import PROBLEMS, check_gradient, check_stacked, conformance, differences
from twelve_rows import convex_fair

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


def code_of(section):
    """The Python blocks of a section of the page, as one module."""
    text = PAGE.read_text(encoding="utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
    return "\n\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.S))


HOLDS_ANOTHER = '''
from dataclasses import field, replace
from typing import Any

from fairbound.methods import algorithm

@dataclass(frozen=True, kw_only=True)
class RestartedState(State):
    """inner: the state of the method held, whose x is this x."""

    inner: State


@dataclass(frozen=True, kw_only=True)
class Restarted(Method[RestartedState]):
    """Another method, begun anew from where it stands every so many steps."""

    inner: Any = field(default_factory=lambda: algorithm("sgd"))
    every: int = 50

    name: ClassVar[str] = "restarted"

    def __post_init__(self):
        object.__setattr__(self, "inner", algorithm(self.inner))

    @property
    def needs(self):
        return self.inner.needs

    def init(self, problem, x, draws):
        inner = self.inner.init(problem, x, draws)
        return RestartedState(x=x, k=0, multipliers=inner.multipliers, inner=inner)

    def step(self, state, problem, draws):
        held = state.inner
        if state.k and state.k % self.every == 0:
            held = replace(self.inner.init(problem, state.x, draws), k=held.k)
        held = self.inner.step(held, problem, draws)
        return state.next(multipliers=held.multipliers, inner=held)
'''
"""A method that holds another, as the page says in words."""


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """The page's modules, importable, and forgotten afterwards."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "my_methods.py").write_text(code_of("A method") + HOLDS_ANOTHER)
    (folder / "my_problems.py").write_text(code_of("A problem"))
    sys.path.insert(0, str(folder))
    try:
        import my_methods
        import my_problems

        yield my_methods, my_problems
    finally:
        sys.path.remove(str(folder))
        for name in ("my_methods", "my_problems"):
            sys.modules.pop(name, None)


@pytest.mark.parametrize("problem", [PROBLEMS["two_sided"], PROBLEMS["box"], convex_fair])
def test_the_page_s_methods_keep_the_promises_that_solve_relies_on(own, problem):
    methods, _ = own
    for method in (
        methods.Penalty(),
        methods.Restarted(),
        methods.Restarted(inner="alm"),
        methods.Restarted(inner=methods.Penalty()),
    ):
        conformance(method, problem)


def test_a_method_of_one_s_own_finds_the_known_optimum(own):
    methods, _ = own
    conformance(
        methods.Penalty(step_size=0.02, weight=40.0),
        PROBLEMS["two_sided"],
        checks=(),
        optimum={"steps": 1500, "violation": 0.03, "last_step": 0.02},
    )


def test_it_runs_in_solve_unregistered_and_by_its_dotted_name(own):
    methods, _ = own
    assert methods.Penalty not in METHODS.values()
    solutions = [
        solve(convex_fair(), given, budget="60 steps", batch_size=6)
        for given in (methods.Penalty(), "my_methods:Penalty", "my_methods.Penalty")
    ]
    assert all(torch.equal(s.last, solutions[0].last) and s.counts.gradients == 60 for s in solutions)
    assert algorithm("my_methods:Penalty:strict").weight == 50.0
    with pytest.raises(OptionError, match="penalty has no option 'wieght'; did you mean 'weight'"):
        algorithm("my_methods:Penalty", wieght=3.0)


@pytest.mark.parametrize("inner", ["sgd", {"name": "alm", "optimizer": "adam", "dual_every": 3}, "my_methods:Penalty"])
def test_a_method_that_holds_another_resumes_from_a_checkpoint_bit_for_bit(own, inner, tmp_path):
    def go(steps, **options):
        method = algorithm("my_methods:Restarted", inner=inner, every=20)
        return solve(convex_fair(), method, budget=f"{steps} steps", batch_size=6, record_every=20, **options)

    whole = go(90)
    go(50, checkpoint=tmp_path / "run.ckpt")
    resumed = go(90, checkpoint=tmp_path / "run.ckpt")
    assert differences(whole.state, resumed.state) == [] and torch.equal(whole.x, resumed.x)
    assert whole.counts == resumed.counts
    with pytest.raises(CheckpointError, match="its options is"):
        solve(convex_fair(), algorithm("my_methods:Restarted", inner="ynw"), budget="90 steps", batch_size=6,
              checkpoint=tmp_path / "run.ckpt")  # fmt: skip


def test_the_page_s_problem_has_right_slopes_and_is_solved_by_every_method_that_takes_it(own):
    _, problems = own
    check_gradient(problems.Portfolio)
    for method in ("alm", "sfls", "ynw", "my_methods:Penalty"):
        solution = solve(problems.Portfolio(), method, budget="300 steps", batch_size=16)
        assert torch.isfinite(solution.x).all() and solution.counts.samples > 0
    check_stacked(algorithm("alm"), problems.Portfolio)
    with pytest.raises(OptionError, match=r"all of R\^n"):
        solve(problems.Portfolio(), "stochastic_ghost", budget="5 steps")
    best = solve(problems.Portfolio(), "alm", budget="1500 steps", batch_size=64)
    assert bool(best.feasible) and float(best.x.sum()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("verb", "broken", "words"),
    [
        ("gradient", lambda e, slope: (e, slope.sum(0, keepdim=True).expand_as(slope)), "jacobian"),
        ("gradient", lambda e, slope: (e, slope.unsqueeze(-2)), "shape"),
        ("values", lambda f, g: Evaluation(f.mean().expand_as(f), g), "f of run 0 of a stack against the run alone"),
    ],
)
def test_a_problem_that_is_wrong_for_stacks_alone_is_caught(own, verb, broken, words):
    _, problems = own

    class Broken(problems.Portfolio):
        def values(self, x, batch, true=False):
            found = super().values(x, batch, true)
            return broken(found.f, found.g) if verb == "values" and x.dim() > 1 else found

        def gradient(self, x, batch, weights):
            found = super().gradient(x, batch, weights)
            return broken(*found) if verb == "gradient" and x.dim() > 1 else found

    check_gradient(Broken, seeds=(0,))
    with pytest.raises(AssertionError, match=words):
        check_gradient(Broken)


def test_a_problem_that_says_no_optimum_cannot_be_checked_for_one():
    asked = {"steps": 10, "violation": 0.1, "last_step": 0.1}
    rows = torch.randn(20, 2), torch.arange(20) % 2, torch.arange(20) // 2 % 2
    problem = formulate(torch.nn.Linear(2, 1), "logistic", rows, constraint="loss_gap <= 0.1")
    with pytest.raises(OptionError, match=r"FairProblem says no optimum.*leave optimum= out"):
        conformance(algorithm("sgd"), problem, checks=(), optimum=asked)
