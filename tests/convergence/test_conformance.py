"""Every method: the optimum of every test problem; repeatable, resumable, dtype and device kept, stacked, counted on each kind.

Tolerances. `check_optimum` accepts iterates that violate by at most VIOLATION and derives the gap of f: VIOLATION
times the optimal multipliers, plus the last step size times the squared bound on gradients. The last step sizes below
are the methods' own schedules at k = STEPS. The noise, 0.1 per row, adds to x a stationary deviation of about
sqrt(last_step / 2) * 0.1 / sqrt(batch) <= 0.002, an order below what VIOLATION allows.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest
import torch

from fairbound.base.errors import OptionError
from fairbound.methods import (
    ALM,
    DFLS,
    IDCA,
    METHODS,
    PLADA,
    SFLS,
    SGD,
    SMD,
    SSG,
    SSLALM,
    YNW,
    CertifiedLevelSet,
    ConEx,
    FullBatchALM,
    MultiplierModel,
    ProjectedGradient,
    ProximalPoint,
    ProxyLagrangian,
    SGDCorrelation,
    SGDFairret,
    SGDMaxPenalty,
    StochasticGhost,
    SwitchingSubgradient,
)
from fairbound.problems.wrappers import Counted
from fairbound.testing import (
    CHECKS,
    PROBLEMS,
    check_gradient,
    check_optimum,
    check_repeatable,
    check_resume,
    check_stacked,
    check_subgradient,
    conformance,
    run,
)
from twelve_rows import convex_fair

STEPS = 3000
VIOLATION = 0.01
MAKERS = {**PROBLEMS, "convex_fair": convex_fair}
NOISY = {**{name: partial(make, noise=0.1) for name, make in PROBLEMS.items()}, "convex_fair": convex_fair}

KINDS = ("two_sided", "simplex", "largest", "convex_fair")  # noisy, in a set, with a kink, of rows
ALIKE = ("box", "ball", "absolute")  # another set, another kink: long, as are promises on kinds other than PROMISED
PROMISED = ("simplex", "convex_fair")
SETS, KINKS = ("box", "ball", "simplex"), ("largest", "absolute", "weakly_convex", "weakly_convex_constraint")


@dataclass(frozen=True)
class Case:
    """A method's row: its configuration, the size of its last steps, and which optimum it claims where."""

    config: Any
    last_step: float
    constrained: bool = True
    refuses: tuple[str, ...] = ()  # problems it says it is not for
    claims_no_optimum: tuple[str, ...] = ()
    solves: tuple[str, ...] = ()  # problems whose solution it finds to the last bit from every start
    optimum: dict = field(default_factory=dict)


CASES = {
    "alm": Case(
        ALM(step_size=0.1, dual_every=1, dual_rows=64, dual_step_size=0.1, dual_values="surrogate", decay_steps=100.0),
        0.1 / (1 + STEPS / 100) ** 0.5,
    ),
    "ssl_alm": Case(SSLALM(constraint_batch_size=64), 0.01),
    "switching_subgradient": Case(
        SwitchingSubgradient(
            rule="diminishing", objective_step=0.3, constraint_step=0.3, tolerance=1e-3, constraint_batch_size=64
        ),
        0.3 / STEPS**0.5,
    ),
    "stochastic_ghost": Case(
        StochasticGhost(max_level=3),
        0.05,
        refuses=SETS,
        claims_no_optimum=KINKS,
        optimum={"steps": 300, "seeds": (0, 1, 2), "violation": 0.03},
    ),
    "sgd": Case(SGD(step_size=0.2, decay=0.5, decay_steps=100.0), 0.2 / (1 + STEPS / 100) ** 0.5, constrained=False),
    "sgd_fairret": Case(
        SGDFairret(step_size=0.2, strength=0.0, decay=0.5, decay_steps=100.0),
        0.2 / (1 + STEPS / 100) ** 0.5,
        constrained=False,
        refuses=tuple(PROBLEMS),
    ),
    "sgd_correlation": Case(SGDCorrelation(), 0.1, constrained=False, refuses=tuple(PROBLEMS)),
    "sgd_max_penalty": Case(
        SGDMaxPenalty(step_size=0.2, strength=0.0, decay=0.5, decay_steps=100.0),
        0.2 / (1 + STEPS / 100) ** 0.5,
        constrained=False,
    ),
    # on all rows, in the sets alone
    "projected_gradient": Case(
        ProjectedGradient(), 1e-3, constrained=False, claims_no_optimum=KINKS, solves=(*PROBLEMS, "convex_fair")
    ),
    "proxy_lagrangian": Case(
        ProxyLagrangian(step_size=0.1, dual_step_size=0.1), 0.1, claims_no_optimum=tuple(PROBLEMS)
    ),
    # outer iterates; a call lasts 75 steps or more. Convexity is assumed: no claim where it fails. On "absolute", with slopes
    # up to sqrt(5) and x unscaled, the gap is still 0.2 after these steps (0.1 after twice as many).
    "sfls": Case(
        SFLS(step_size=0.2, theta=1.2, restart="last"),
        0.2 / 75**0.5,
        claims_no_optimum=("absolute", "weakly_convex", "weakly_convex_constraint"),
    ),
    "smd": Case(
        SMD(level=1.0), 0.1 / STEPS**0.5, claims_no_optimum=(*PROBLEMS, "convex_fair")
    ),  # it solves for a level, not f*
    "dfls": Case(DFLS(step_size=0.3), 0.3 / (STEPS / 10) ** 0.5),
    # outer iterates, exactly certified; the mean of the steps lags behind by about a third of them
    "certified_level_set": Case(CertifiedLevelSet(certify="surrogate"), 0.01),
    "full_batch_alm": Case(
        FullBatchALM(dual_values="surrogate", sharpness=(1.0,), margin=0.0),
        1e-6,
        refuses=SETS,
        claims_no_optimum=KINKS,
        solves=("inactive",),
        optimum={"steps": 40},
    ),
    "plada": Case(PLADA(decay_steps=100.0), 1.0 / (1 + STEPS / 100) ** 0.5),
    "conex": Case(ConEx(step_size=0.05, dual_step=0.3), 0.05),
    # outer centres: the inner steps are those of a strongly convex problem
    "proximal_point": Case(
        ProximalPoint(
            inner=ConEx(step_size=0.2, modulus=0.2, dual_step=0.03, output="average"), rho=0.2, inner_steps=100
        ),
        0.2,
        claims_no_optimum=("infeasible",),
    ),
    "multiplier_model": Case(
        MultiplierModel(hidden=(16,), dual_step=0.01, decay_steps=100.0),
        0.1 / (1 + STEPS / 100) ** 0.5,
        claims_no_optimum=("infeasible",),
    ),
    "ynw": Case(YNW(horizon=300), 0.5 / 300**0.5),
    # on all rows; steps of length tolerance / |s|
    "ssg": Case(
        SSG(tolerance=5e-3),
        0.01,
        claims_no_optimum=("infeasible", "weakly_convex", "weakly_convex_constraint"),
        solves=("inactive",),
    ),
    "idca": Case(IDCA(), 1e-3, refuses=tuple(MAKERS)),  # its own problems: claims/test_idca.py
}


def test_every_method_and_every_problem_has_a_row():
    assert {type(case.config) for case in CASES.values()} == set(METHODS.values())
    for make in MAKERS.values():
        assert make().optimum.certificate


@pytest.mark.parametrize("problem", MAKERS)
def test_the_stated_optimum_satisfies_the_kkt_conditions(problem):
    made = MAKERS[problem]()
    optimum, full = made.optimum, made.sample((0,), "check", 0, 1, "full")
    e, jacobian = made.jacobian(optimum.x, full)
    free = made.values(optimum.free_x, full)
    assert abs(float(e.f) - optimum.f) < 1e-14 and abs(float(free.f) - optimum.free_f) < 1e-14
    assert abs(float(e.g.max()) - optimum.violation) < 1e-14 or float(e.g.max()) <= 0
    assert torch.equal(made.domain.project(optimum.x), optimum.x)
    if optimum.multipliers is None or problem in ("largest", "absolute"):
        return  # a kink: zero is a combination of subgradients that the certificate states, not of the one returned
    assert bool((optimum.multipliers >= 0).all()) and float((optimum.multipliers * e.g).abs().max()) < 1e-14
    descent = jacobian[0] + optimum.multipliers @ jacobian[1:]
    # stationarity over the domain: a small step along -descent projects back onto x (to first order)
    moved = made.domain.project(optimum.x - 1e-3 * descent)
    assert float((moved - optimum.x).abs().max()) < 1e-15


@pytest.mark.parametrize("problem", MAKERS)
def test_the_four_verbs_agree_with_central_differences(problem):
    check_gradient(NOISY[problem])
    check_gradient(NOISY[problem], seeds=(0, 1, 2))
    if getattr(MAKERS[problem](), "convex", False):
        check_subgradient(MAKERS[problem])


@pytest.mark.parametrize(("method", "problem"), [(m, p) for m in CASES for p in CASES[m].refuses])
def test_what_a_method_is_not_for_it_refuses(method, problem):
    with pytest.raises(OptionError, match=r"domain is|needs a FairProblem|a difference of convex functions"):
        conformance(CASES[method].config, NOISY[problem])


@pytest.mark.parametrize(
    ("method", "problem"),
    [
        pytest.param(m, p, marks=[pytest.mark.long] if p in ALIKE else [])
        for m in CASES
        for p in MAKERS
        if p not in CASES[m].claims_no_optimum and p not in CASES[m].refuses
    ],
)
def test_the_optimum_of_every_problem_is_reached(method, problem):
    case = CASES[method]
    optimum = {
        "steps": STEPS,
        "violation": VIOLATION,
        "last_step": case.last_step,
        "constrained": case.constrained,
        "batch_size": 12 if problem == "convex_fair" else 64,
        "seeds": (0, 1, 2, 3, 4),
        **case.optimum,
    }
    conformance(case.config, NOISY[problem], checks=(), optimum=optimum)


@pytest.mark.parametrize(
    ("method", "problem"),
    [
        pytest.param(m, p, marks=[] if p in PROMISED else [pytest.mark.long])
        for m in CASES
        for p in KINDS
        if p not in CASES[m].refuses
    ],
)
def test_conformance(method, problem):
    """On one problem of each kind, what every method promises."""
    case = CASES[method]
    checks = [check for check in CHECKS if check is not check_repeatable or problem not in case.solves]
    conformance(case.config, NOISY[problem], checks=checks)


def test_the_penalised_method_counts_its_gradients():
    problem = Counted(convex_fair())
    run(SGDFairret(), problem, 10, batch_size=6)
    assert problem.counts.gradients == 10 and problem.counts.samples == 60


@pytest.mark.parametrize("optimizer", ["momentum", "adam", "adamw", lambda p: torch.optim.RMSprop(p, lr=0.01)])
@pytest.mark.parametrize("method", [SGD, ALM])
def test_torch_optimisers_resume_and_stack(method, optimizer):
    config = method(optimizer=optimizer, step_size=0.02)
    for make in (NOISY["two_sided"], convex_fair):
        check_resume(config, make)
        check_stacked(config, make)


def test_the_checks_catch_a_method_that_breaks_each_promise():
    """A check that cannot fail checks nothing: each broken method below is caught, and by the words for its fault."""
    make = NOISY["two_sided"]
    config = SGD(step_size=0.1)
    broken = {
        "same seed differ": {"noise": lambda x: x.add_(torch.rand(()).item())},
        "float32": {"state": lambda s: {"multipliers": s.multipliers.float()}},
        "resumed": {"hidden": True},
        "stack differs": {"noise": lambda x: x.add_(x.sum() * 1e-3)},
        "counts": {"uncounted": True},
        r"called evaluate 10 times in 10 steps.*sampling=\"full\"": {"evaluates": True},
    }
    for words, fault in broken.items():
        with pytest.raises(AssertionError, match=words):
            conformance(_Broken(step_size=0.1, fault=fault), make)
    with pytest.raises(AssertionError, match=r"outside the problem's domain, by .*Take problem.domain.project"):
        conformance(_Broken(step_size=0.1, fault={"noise": lambda x: x.add_(1.0)}), NOISY["simplex"])
    with pytest.raises(AssertionError, match="above the least possible"):
        check_optimum(config, MAKERS["active"], steps=500, violation=0.01, last_step=0.1)
    with pytest.raises(AssertionError, match=r"f - f\*"):
        check_optimum(
            SGD(step_size=1e-5), MAKERS["active"], steps=50, violation=0.01, last_step=0.01, constrained=False
        )


@dataclass(frozen=True, kw_only=True)
class _Broken(SGD):
    """SGD with one fault."""

    fault: dict

    def init(self, problem, x, draws):
        object.__setattr__(self, "velocity", torch.zeros_like(x))
        return super().init(problem, x, draws)

    def step(self, state, problem, draws):
        if "uncounted" in self.fault:
            problem = getattr(problem, "inner", problem)
        if "evaluates" in self.fault:
            problem.evaluate(state.x)
        state = super().step(state, problem, draws)
        if "noise" in self.fault:
            self.fault["noise"](state.x)
        if "state" in self.fault:
            state = replace(state, **self.fault["state"](state))
        if "hidden" in self.fault:
            object.__setattr__(self, "velocity", 0.9 * self.velocity + 1e-3 * state.x)
            state.x.add_(self.velocity)
        return state


def test_noise_has_the_stated_mean_and_variance():
    """Over 4,000 batches; a mean within five standard errors, a variance within five of its own, sqrt(2 / 4000)."""
    problem, exact = NOISY["two_sided"](), MAKERS["two_sided"]()
    x = torch.tensor([0.4, -0.3], dtype=torch.float64)
    batches = [problem.sample((3,), "noise", k, 4, "balanced") for k in range(4000)]
    values = torch.stack([torch.cat([e.f[None], e.g]) for e in (problem.values(x, b) for b in batches)])
    slopes = torch.stack([problem.jacobian(x, b)[1] for b in batches])
    full = problem.sample((3,), "noise", 0, 4, "full")
    for noisy, true, variance in (
        (values, torch.cat([exact.evaluate(x).f[None], exact.evaluate(x).g]), 0.01 * (1 + float(x @ x)) / 4),
        (slopes, problem.jacobian(x, full)[1], 0.01 / 4),
    ):
        assert float((noisy.mean(0) - true).abs().max()) < 5 * (variance / 4000) ** 0.5
        assert float((noisy.var(0) / variance - 1).abs().max()) < 5 * (2 / 4000) ** 0.5
    assert torch.equal(problem.values(x, full).g, exact.evaluate(x).g)
    again = problem.sample((3,), "noise", 7, 4, "balanced")
    assert torch.equal(again.slope, batches[7].slope)
    with pytest.raises(OptionError, match="must not be negative"):
        PROBLEMS["box"](noise=-1.0)
    with pytest.raises(OptionError, match="unknown sampling"):
        problem.sample((3,), "noise", 7, 4, "half")


@pytest.mark.parametrize("verb", ["jacobian", "jvp", "gradient", "values"])
def test_check_gradient_catches_a_wrong_verb(verb):

    problem = convex_fair()
    right = getattr(problem, verb)
    calls = []

    def wrong(*arguments):
        result = right(*arguments)
        calls.append(1)
        if verb == "jvp":
            return result * 1.001
        if verb == "values":
            return result._replace(g=result.g + 1e-6 * len(calls))
        return result[0], result[1] * 1.001

    setattr(problem, verb, wrong)
    with pytest.raises(AssertionError, match=verb):
        check_gradient(problem)
