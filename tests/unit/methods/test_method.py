"""Methods by name and by import, what they need of a problem, and what every state has."""

import sys
from dataclasses import InitVar, dataclass, field
from typing import ClassVar

import pytest
import torch

from fairbound.base.errors import OptionError
from fairbound.fairness.problem import FairProblem
from fairbound.methods import METHODS, SFLS, SGD, Method, State, algorithm
from fairbound.methods.certified_level_set import CertifiedLevelSet
from fairbound.methods.method import NEEDS, check_needs, declared, described
from fairbound.methods.stochastic_ghost import StochasticGhost
from fairbound.models.mlp import MLP
from fairbound.problems.domain import Ball
from fairbound.problems.wrappers import Wrapper
from fairbound.solver.solve import solve
from fairbound.testing import PROBLEMS, linear_program, run
from twelve_rows import convex_fair


def of_differences():
    """A small problem that is known as a difference of convex functions."""
    X = torch.tensor([[1.0, 0.0], [-1.0, 0.5], [0.5, 1.0], [-0.5, -1.0], [2.0, 0.3], [0.2, -2.0]], dtype=torch.float64)
    bound = "partial_statistical_parity[0:1,surrogate=clip,sharpness=1,points=2] <= 0.5"
    return FairProblem(MLP(2), X, [1, 0, 1, 0, 1, 0], list("aabbab"), bound, dtype=torch.float64)


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
@pytest.mark.parametrize("name", METHODS)
def test_every_state_has_the_multipliers_of_g_a_point_and_whether_it_halted(name, seeds):
    for steps in (0, 5):
        method = METHODS[name]()
        problem = of_differences() if "differences" in method.needs else convex_fair()
        state = run(method, problem, steps, seeds=seeds)
        lead = () if len(seeds) == 1 else (len(seeds),)
        assert isinstance(state, State) and state.k == steps
        assert state.multipliers.shape == (*lead, problem.m)
        assert state.point.shape == state.x.shape == (*lead, problem.n)
        assert not torch.as_tensor(state.halted).any()
        assert state.outer is None or state.outer.shape == lead
        assert all(value.shape == lead for value in state.shown.values())


@pytest.mark.parametrize("name", METHODS)
def test_methods_of_all_rows_and_no_others_say_so(name):
    method, kinds = METHODS[name](), []

    class Seen(Wrapper):
        def sample(self, seeds, stream, k, size, kind):
            kinds.append(kind)
            return self.inner.sample(seeds, stream, k, size, kind)

    run(method, Seen(of_differences() if "differences" in method.needs else convex_fair()), 3)
    assert declared(method, "all_rows", False) == (set(kinds) == {"full"})


@pytest.mark.parametrize("name", ["sfls", "certified_level_set"])
def test_level_set_methods_give_the_multipliers_of_a_lagrangian(name):
    """At the optimum y_i / y_0 are the multipliers: (1, 1/2, 0) for the linear program, f + y g being y_0 phi + const."""
    config = SFLS(level=0.0, restart="last", theta=1.05, step_size=0.2) if name == "sfls" else CertifiedLevelSet()
    seen = []
    run(config, linear_program(), 1500, sampling="full", after=lambda s: seen.append(s.multipliers))
    mean = torch.stack(seen[-750:]).mean(0)
    assert torch.allclose(mean, torch.tensor([1.0, 0.5, 0.0], dtype=torch.float64), atol=0.25)


def test_a_class_is_found_by_import_with_options_and_preset():
    assert algorithm("fairbound.methods.sfls:SFLS", theta=3.0) == SFLS(theta=3.0)
    assert algorithm("fairbound.methods.sfls.SFLS") == SFLS()
    assert algorithm("fairbound.methods.sfls:SFLS:fair") == algorithm("sfls:fair")
    for wrong, words in (
        ("nowhere:Mine", "no module 'nowhere' to import"),
        ("nowhere.at.all:Mine", "no module 'nowhere' to import"),
        ("fairbound.methods.sfls:Mine", "no class 'Mine'"),
        ("fairbound.methods.level_estimate:halve", "no dataclass with init, step"),
        ("fairbound.methods.sfls:SFLSState", "no dataclass with init, step"),
        ("fairbound.methods.sfls:SFLS:quick", "no preset 'quick'"),
        ("ssl_amm", "did you mean 'ssl_alm'"),
    ):
        with pytest.raises(OptionError, match=words):
            algorithm(wrong)
    for wrong in (SGD, 3, None):
        with pytest.raises(OptionError, match="an object with init and step"):
            algorithm(wrong)


def test_an_error_inside_a_module_is_not_taken_for_a_wrong_name(tmp_path, monkeypatch):
    (tmp_path / "halfway.py").write_text("import not_installed_anywhere\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        algorithm("halfway:Mine")
    sys.modules.pop("halfway", None)


def test_what_a_method_needs_is_said_before_it_trains():
    class Asked(Wrapper):
        def gradient(self, *given):
            raise AssertionError("trained")

    biased, unlike = Asked(PROBLEMS["active"]()), Asked(PROBLEMS["weakly_convex"]())
    biased.unbiased = False
    ball = Asked(PROBLEMS["ball"]())
    for config, problem, words in (
        (StochasticGhost(), biased, r"stochastic_ghost needs batches whose mean.*`unbiased` is False"),
        (StochasticGhost(), ball, r"stochastic_ghost needs all of R\^n, but the problem's domain is a set: Ball"),
        (CertifiedLevelSet(certificate="sampled"), biased, "certified_level_set needs batches whose mean"),
        (CertifiedLevelSet(certificate="both"), biased, "certified_level_set needs batches whose mean"),
        (Wants(needs_of=frozenset({"convex"})), unlike, r"wants needs a convex problem.*`convex` is False"),
        (Wants(needs_of=frozenset({"differences"})), unlike, "no `plus` and `minus`"),
        (Wants(needs_of=frozenset({"luck"})), unlike, "'luck', which is not one of convex, unbiased"),
    ):
        with pytest.raises(OptionError, match=words):
            solve(problem, config, budget="5 steps")
    check_needs(CertifiedLevelSet(), biased)
    check_needs(Wants(needs_of=frozenset({"convex", "unbiased", "space"})), PROBLEMS["active"]())
    assert set(NEEDS) == {"convex", "unbiased", "space", "differences"} and Ball


@dataclass(frozen=True, kw_only=True)
class Wants(SGD):
    """SGD that needs what it is told to."""

    needs_of: frozenset = frozenset()
    name: ClassVar[str] = "wants"

    @property
    def needs(self):
        return self.needs_of


@dataclass(frozen=True, kw_only=True)
class Holding(SGD):
    inner: Method = field(default_factory=SGD)
    name: ClassVar[str] = "holding"


def test_a_description_names_functions_by_their_place_in_inner_methods_too():
    def factory(parameters):
        return torch.optim.Adam(parameters)

    text = described(Holding(inner=SGD(optimizer=factory)))
    assert "inner=SGD(step_size=0.1, optimizer=" in text and "factory" in text and "0x" not in text


def test_an_inner_method_may_be_given_by_name_or_as_a_table():
    name = f"{__name__}:Holding"
    assert algorithm(name, inner="alm").inner == METHODS["alm"]()
    assert algorithm(name, inner={"name": "sgd", "step_size": 0.7}).inner == SGD(step_size=0.7)
    with pytest.raises(OptionError, match="did you mean 'step_size'"):
        algorithm(name, inner={"name": "sgd", "stepsize": 0.7})


def test_a_method_of_ones_own_may_take_more_at_construction_than_it_keeps():
    @dataclass(frozen=True)
    class Scaled(Method[State]):
        rate: float = 0.1
        by: InitVar[float] = 2.0
        name: ClassVar[str] = "scaled"

        def __post_init__(self, by: float) -> None:
            object.__setattr__(self, "rate", self.rate * by)

    assert Scaled(by=3.0).rate == pytest.approx(0.3)
    with pytest.raises(OptionError, match="rate"):
        Scaled(rate=None)  # type: ignore[arg-type]
