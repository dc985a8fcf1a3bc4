"""Windows that hold the rates of all groups: the choices that they give against enumeration of all thresholds, and what
they are for, many groups."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fairbound.fairness.compiled.builder import compile_plan
from fairbound.fairness.notions import constraints
from fairbound.postprocessing import RuleOptions, deterministic, fit_rule, windows
from fairbound.postprocessing.curves import curve_of
from fairbound.postprocessing.program import Program, program_of
from fairbound.postprocessing.windows import Choices, by_windows
from fairbound.rows.groups import Groups

COMPARED = [
    "demographic_parity <= 0.1",
    "demographic_parity[best] <= 0",
    "equal_opportunity <= 0.15",
    "false_negative_rate_parity <= 0.2",
    "demographic_parity_ratio >= 0.8",
    "equalized_odds <= 0.3",
    "demographic_parity <= 0.1 and predictive_equality <= 0.2",
]
OTHERS = ["demographic_parity[overall] <= 0.1", "equalized_odds[sum] <= 0.3", "error_rate_parity <= 0.1"]


def rows(seed, n, k, ties=True):
    """Scores, labels that they follow, groups that they follow too, weights."""
    rng = np.random.default_rng(seed)
    group = np.concatenate([np.repeat(np.arange(k), 2), rng.integers(0, k, n - 2 * k)])
    y = np.concatenate([np.tile([0, 1], k), rng.integers(0, 2, n - 2 * k)])
    scores = rng.normal(size=n) + y + 0.3 * group
    return np.round(scores) if ties else scores, y, group, rng.choice([0.5, 1.0, 2.0], n)


def program(text, scores, y, group, weight, costs=(1.0, 1.0)) -> Program:
    known = Groups.of(group.astype(str))
    plan = compile_plan(constraints(text.split(" and ")), known, y, (0, 1))
    curves = tuple(curve_of(*(of[group == g] for of in (scores, y, weight))) for g in range(group.max() + 1))
    return program_of(plan, np.arange(group.max() + 1)[:, None], curves, costs)


def cheapest(of: Program) -> float:
    """The lowest cost over every choice of thresholds that meets the bounds."""
    search = deterministic.Search(of)
    choices = np.array(list(itertools.product(*(range(len(curve)) for curve in of.curves))))
    costs = of.fixed_cost + sum((c.selected @ of.unit_costs)[p] for c, p in zip(of.curves, choices.T, strict=True))
    return next(costs[i] for i in np.argsort(costs, kind="stable") if search.feasible(choices[i]))


@pytest.mark.parametrize("costs", [(1.0, 1.0), (3.0, 1.0)])
@pytest.mark.parametrize("text", COMPARED)
def test_the_first_choice_is_the_best_there_is(text, costs):
    for seed in range(3):
        of = program(text, *rows(seed, 22, 4), costs=costs)
        found, search = by_windows(of), deterministic.Search(of)
        assert found.of_bounds and found.exact and all(map(search.feasible, found.points))
        assert search.cost(found.points[0]) == pytest.approx(cheapest(of), abs=1e-12), seed
        assert np.all(np.diff([search.cost(points) for points in found.points]) >= -1e-12)


@pytest.mark.parametrize("notion", ["equalized_odds", "demographic_parity"])
def test_some_of_the_windows_give_a_choice_as_cheap_as_under_a_slightly_tighter_bound(notion, monkeypatch):
    """Where no two lower edges that are looked at lie further apart than `gap`, what lies in a window narrower by that
    lies in one of them."""
    saved = 0.0
    for seed in range(3):
        data = rows(seed, 600, 6, ties=False)
        of = program(f"{notion} <= 0.2", *data)
        search, exact = deterministic.Search(of), by_windows(of)
        families, most = windows._compared(of), 400
        each = windows._each(families, most)
        gap = max(np.diff(windows._some(e, 0, len(e) - 1, each)).max() for e in (f.edges() for f in families))
        with monkeypatch.context() as patch:
            patch.setattr(windows, "MOST_WORK", 6 * most)
            some = by_windows(of)
            patch.setattr(windows, "FINER", 0)
            saved += min(map(search.cost, by_windows(of).points)) - search.cost(some.points[0])
        assert exact.exact and some.of_bounds and not some.exact and all(map(search.feasible, some.points))
        tighter = search.cost(by_windows(program(f"{notion} <= {0.2 - gap}", *data)).points[0])
        costs = [search.cost(points) for points in some.points]
        assert search.cost(exact.points[0]) - 1e-12 <= min(costs) <= tighter + 1e-12, seed
        assert costs[0] == min(costs)  # of the last windows looked at, about the best ones before
    assert saved > 0.001 or notion == "demographic_parity"


@pytest.mark.parametrize("text", OTHERS)
def test_other_bounds_get_choices_in_windows_of_some_widths(text):
    of = program(text, *rows(0, 200, 5))
    found = by_windows(of)
    assert not found.of_bounds and not found.exact and len(found.points) == len(windows.WIDTHS)
    costs = [deterministic.Search(of).cost(points) for points in found.points]
    assert costs == sorted(costs)  # the wider, the cheaper
    for points, width in zip(found.points, windows.WIDTHS, strict=True):
        shares = [c.selected[p].sum() / c.total.sum() for c, p in zip(of.curves, points, strict=True)]
        if "odds" not in text:
            assert max(shares) - min(shares) <= width + 1e-12


@pytest.mark.parametrize(
    "text", ["equalized_odds <= 0.1", "equal_opportunity <= 0.02", "equalized_odds[overall] <= 0.05"]
)
def test_many_groups_do_not_end_at_one_decision_for_all(text, monkeypatch):
    rng = np.random.default_rng(20)
    group = rng.integers(0, 20, 2000)
    y = (rng.random(2000) < 0.3 + 0.3 * (group % 3 == 0)).astype(int)
    given = rng.normal(size=2000) + y * (0.5 + group / 20), y, Groups.of(group.astype(str)), constraints(text)
    facts = fit_rule(*given, weight=None, options=RuleOptions())[1]
    monkeypatch.setattr(deterministic, "by_windows", lambda program: Choices([]))
    monkeypatch.setattr(deterministic, "FURTHER", 1)
    without = fit_rule(*given, weight=None, options=RuleOptions())[1]
    assert facts["accuracy"] > without["accuracy"] + 0.02
    assert (
        not facts["no_better_than_constant"]
        and facts["constraints"][0]["train_value"] <= facts["constraints"][0]["bound"] + 1e-12
    )
