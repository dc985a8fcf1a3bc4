"""How far the objective goes from the loss towards the error rate: the most accurate candidate that keeps the order of scores."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fairbound import FairClassifier, FairProblem, FullBatchALM
from fairbound.base.records import Counts
from fairbound.estimators import gains, optimality, runs, trained
from fairbound.estimators.linear import full_batch
from fairbound.fairness.objectives import Accuracy
from fairbound.models.mlp import MLP
from fairbound.solver.solve import Solution
from fairbound.subproblems.multipliers import KKT
from fairbound.tables import TableOptions

START, MIDDLE, LESS, MORE = 0.0, full_batch.MIDDLE, full_batch.LESS, full_batch.MORE


def stay(x, other, allowed):
    return x, 0.0


def share_of(*case, **options):
    return facts_of(*case, **options)["error_share"]


def facts_of(
    seen,
    refined,
    monkeypatch,
    free_thresholds=False,
    unmet=None,
    chance=1.0,
    way=stay,
    rows=full_batch.MANY_ROWS,
    common=0.0,
    numbers=1,
):
    """What is said of a run where the candidate of share s has the (loss, accuracy, area) seen[s]; `unmet` takes that option of every run;
    chance: what of a gain of accuracy may be chance. way: `part_way`, of points whose only number is the share. common: the share of the
    most frequent label; areas surely tell of it from 0.6 on. numbers: of the model."""

    def solve(on, by, **options):
        if unmet is not None:
            unmet.append(by.unmet)
        made = torch.tensor([on.share])
        true, state = torch.tensor(True), SimpleNamespace(k=1)
        return Solution(made, made, true, 0 * made[0], torch.tensor(1), state, [], 1, 0.0, Counts(), "halted", "")

    def problem(share):
        def sharpened(factor):
            return made

        made = SimpleNamespace(share=share, names=[], with_objective=lambda o: problem(o.share), sharpened=sharpened)
        made.loss, made.n, made.total_rows, made.plan = (
            None,
            numbers,
            rows,
            SimpleNamespace(notions=[SimpleNamespace(free_thresholds=free_thresholds)]),
        )
        return made

    monkeypatch.setattr(runs, "solve", solve)
    monkeypatch.setattr(full_batch, "moved_outward", lambda problem, aim, solution, *options: solution)
    monkeypatch.setattr(
        full_batch, "_quality", lambda on, x, ranks: full_batch._Quality(*seen.get(round(float(x[0]), 6), GOOD))
    )
    of = {share: full_batch._Quality(*numbers).accuracy for share, numbers in seen.items()}

    def gained(on, x, other):
        return gains.Gain(of[round(float(other[0]), 6)] - of[round(float(x[0]), 6)], chance / gains.SURE)

    monkeypatch.setattr(full_batch, "gained", gained)
    monkeypatch.setattr(gains, "beyond_chance", lambda on: gains.SURE)
    monkeypatch.setattr(trained, "largest_share", lambda on: common)
    monkeypatch.setattr(gains, "ranks_surely", lambda on, area: area >= 0.6)
    monkeypatch.setattr(full_batch, "fewer_wrong", lambda on, x: x)
    monkeypatch.setattr(full_batch, "scaled", lambda parts, x, decay: x)
    monkeypatch.setattr(full_batch, "area", lambda on, x: float(x[0]))
    monkeypatch.setattr(full_batch, "part_way", lambda on, x, other, allowed: way(x, other, allowed))
    monkeypatch.setattr(optimality, "kkt", lambda on, x: KKT(0.0, 0.0, 0.0, torch.zeros(0), None))
    solution, facts = full_batch.train_full_batch(problem(None), None, FullBatchALM(), refined=refined)
    assert float(solution.x[0]) == pytest.approx(facts["error_share"])
    return facts


GOOD = (0.60, 0.70, 0.700)


@pytest.mark.parametrize(("free_thresholds", "rounds"), [(True, full_batch.UNMET), (False, FullBatchALM().unmet)])
def test_runs_under_bounds_on_distributions_end_early_where_another_follows(free_thresholds, rounds, monkeypatch):
    seen, unmet = dict.fromkeys((START, LESS, MIDDLE, MORE), GOOD), []
    share_of(seen, "yes", monkeypatch, free_thresholds, unmet)
    assert set(unmet) == {rounds}


@pytest.mark.parametrize(
    ("middle", "beside", "auto", "yes"),
    [
        ((0.61, 0.71, 0.699), (0.62, 0.72, 0.6985), MORE, MORE),
        ((0.61, 0.71, 0.699), (0.62, 0.72, 0.697), MIDDLE, MORE),  # the order of scores would be lost
        ((0.61, 0.71, 0.699), (0.62, 0.705, 0.699), MIDDLE, MIDDLE),  # accuracy would fall
        ((0.61, 0.71, 0.690), (0.62, 0.705, 0.699), LESS, MIDDLE),
        ((0.61, 0.71, 0.690), (0.62, 0.705, 0.690), START, MIDDLE),
        ((0.61, 0.69, 0.700), (0.62, 0.70, 0.700), LESS, LESS),  # as accurate as at the start
        ((0.61, 0.69, 0.700), (0.62, 0.69, 0.700), START, START),
        ((0.59, 0.71, 0.710), (0.62, 0.72, 0.699), MIDDLE, MORE),  # the start is not the lowest loss
        ((0.59, 0.69, 0.710), (0.62, 0.72, 0.699), START, LESS),
    ],
)
def test_the_share_rises_while_accuracy_does_not_fall_and_the_order_is_that_of_the_lowest_loss(
    middle, beside, auto, yes, monkeypatch
):
    seen = {START: GOOD, MIDDLE: middle, LESS: beside, MORE: beside}
    assert share_of(seen, "auto", monkeypatch) == auto
    assert share_of(seen, "yes", monkeypatch) == yes


@pytest.mark.parametrize(
    ("middle", "beside", "chance", "taken"),
    [
        ((0.61, 0.76, 0.690), (0.62, 0.70, 0.690), 0.059, MIDDLE),  # 0.06 of accuracy for 0.008 of the area beyond the limit
        ((0.61, 0.76, 0.690), (0.62, 0.70, 0.690), 0.061, START),  # which may be chance
        ((0.61, 0.705, 0.694), (0.62, 0.70, 0.690), 0.0, MIDDLE),  # 0.005 for 0.004
        ((0.61, 0.705, 0.692), (0.62, 0.70, 0.690), 0.0, START),  # 0.005 for 0.006
        ((0.61, 0.76, 0.690), (0.62, 0.71, 0.699), 0.049, MIDDLE),  # beside what the smaller share gains already
        ((0.61, 0.76, 0.690), (0.62, 0.71, 0.699), 0.051, LESS),
        ((0.61, 0.71, 0.699), (0.62, 0.76, 0.690), 0.049, MORE),
        ((0.61, 0.71, 0.699), (0.62, 0.76, 0.690), 0.051, MIDDLE),
        ((0.61, 0.76, 0.690), (0.62, 0.80, 0.685), 0.030, LESS),  # 0.04 more for 0.005 less
        ((0.61, 0.76, 0.690), (0.62, 0.76, 0.695), 0.030, LESS),  # as accurate, of the larger area
        ((0.61, 0.69, 0.690), (0.62, 0.69, 0.690), -1.0, START),  # no model that is less accurate
        ((0.59, 0.76, 0.710), (0.62, 0.80, 0.700), 0.039, MORE),  # the area is measured from that of the lowest loss
        ((0.59, 0.76, 0.710), (0.62, 0.80, 0.700), 0.041, MIDDLE),
    ],
)  # fmt: skip
def test_area_is_given_for_accuracy_one_for_one_where_that_is_beyond_chance(middle, beside, chance, taken, monkeypatch):
    seen = {START: GOOD, MIDDLE: middle, LESS: beside, MORE: beside}
    assert share_of(seen, "auto", monkeypatch, chance=chance) == taken


@pytest.mark.parametrize(
    ("common", "area", "chance", "taken"),
    [
        (0.70, 0.60, 0.059, MIDDLE),
        (0.69, 0.60, 0.059, START),  # more than a constant
        (0.70, 0.59, 0.059, START),  # the scores may say nothing of the label
        (0.70, 0.60, 0.061, START),  # nor may the decisions
    ],
)
def test_a_model_no_better_than_a_constant_gives_way_where_scores_surely_rank(common, area, chance, taken, monkeypatch):
    seen = {START: GOOD, MIDDLE: (0.61, 0.76, area), LESS: (0.62, 0.69, 0.699)}
    assert share_of(seen, "auto", monkeypatch, chance=chance, common=common) == taken


@pytest.mark.parametrize(
    ("rows", "refined", "common", "taken"),
    [
        (99, "auto", 0.0, START),
        (100, "auto", 0.0, MORE),
        (99, "yes", 0.0, MORE),
        (99, "auto", 0.70, MORE),  # no better than a constant
    ],
)
def test_with_fewer_than_ten_rows_for_each_number_auto_stays_at_the_lowest_loss(
    rows, refined, common, taken, monkeypatch
):
    seen = {START: GOOD, MIDDLE: (0.61, 0.71, 0.699), MORE: (0.62, 0.72, 0.6985)}
    assert share_of(seen, refined, monkeypatch, rows=rows, common=common, numbers=10) == taken


@pytest.mark.long
def test_on_wide_tables_the_default_is_as_accurate_on_new_rows_as_the_lowest_loss():
    """60 columns made of 8 numbers, and 200 rows: the error rate of so few says little of new rows."""
    rights: dict[str, list[float]] = {"auto": [], "loss": [], "accuracy": []}
    for seed in range(3):
        rng = np.random.default_rng(seed)
        group, weights = rng.integers(0, 2, 2200), rng.normal(size=(8, 60))
        numbers = rng.normal(size=(2200, 8))
        numbers[:, 0] += group
        X = numbers @ weights + 2 * rng.normal(size=(2200, 60))
        y = (numbers[:, 0] + 0.6 * numbers[:, 1:5].sum(1) - 0.5 + rng.logistic(size=2200) > 0).astype(int)
        for objective in rights:
            fair = FairClassifier("demographic_parity <= 0.05", objective=objective)
            fair.fit(X[:200], y[:200], sensitive_features=group[:200])
            rights[objective].append(fair.score(X[200:], y[200:]))
    assert np.mean(rights["auto"]) == pytest.approx(np.mean(rights["loss"]), abs=0.005)
    assert np.mean(rights["auto"]) > np.mean(rights["accuracy"]) + 0.01


@pytest.mark.parametrize("seed", [8, pytest.param(11, marks=pytest.mark.long)])
def test_of_two_categories_the_default_finds_the_best_linear_rule(seed):
    """Eight cells, so that all ways to divide them by a line are known: the most accurate of these that meets the bound
    is 0.05 and 0.06 more accurate than the model of lowest loss, which is a constant for one of the seeds."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], 2000)
    a = (rng.random(2000) < np.where(group == "a", 0.6, 0.35)).astype(int)
    c, of_cells = rng.integers(0, 4, 2000), rng.uniform(0.1, 0.9, (2, 4))
    y = (rng.random(2000) < of_cells[a, c]).astype(int)
    X = np.column_stack([a, *(c == k for k in range(4))]).astype(float)
    cells, of = np.unique(X, axis=0, return_inverse=True)
    directions = rng.normal(size=(20_000, 6))
    rules = np.unique(directions @ np.column_stack([cells, np.ones(8)]).T > 0, axis=0)
    right = np.stack([np.bincount(of.ravel(), y == label, 8) for label in (0, 1)])
    rates = np.stack([np.bincount(of.ravel()[group == g], minlength=8) / (group == g).sum() for g in ("a", "b")])
    met = np.abs(rules @ (rates[0] - rates[1])) <= 0.05
    best = max((rules[met] @ right[1] + ~rules[met] @ right[0]) / 2000)
    line = TableOptions(pairs=0)
    fair = FairClassifier("demographic_parity <= 0.05", options=line).fit(X, y, sensitive_features=group)
    assert fair.score(X, y) == pytest.approx(best)
    assert np.ptp([fair.predict(X)[group == g].mean() for g in ("a", "b")]) <= 0.05


@pytest.mark.parametrize(
    ("middle", "beside", "refined", "taken"),
    [
        ((0.61, 0.71, 0.690), (0.62, 0.705, 0.699), "auto", (LESS + MIDDLE) / 2),
        ((0.61, 0.71, 0.690), (0.62, 0.705, 0.690), "auto", LESS / 2),  # both refused: to the nearer one
        ((0.61, 0.71, 0.690), (0.62, 0.695, 0.699), "auto", MIDDLE / 2),  # the smaller share is less accurate
        ((0.61, 0.69, 0.700), (0.62, 0.70, 0.700), "auto", LESS),  # nothing was refused for its area
        ((0.61, 0.71, 0.699), (0.62, 0.72, 0.697), "auto", MIDDLE),
        ((0.61, 0.71, 0.690), (0.62, 0.705, 0.699), "yes", MIDDLE),
    ],
)
def test_below_the_middle_share_auto_goes_on_part_of_the_way(middle, beside, refined, taken, monkeypatch):
    seen = {START: GOOD, MIDDLE: middle, LESS: beside, MORE: beside}
    halfway = lambda x, other, allowed: ((x + other) / 2, 0.5)  # noqa: E731
    assert share_of(seen, refined, monkeypatch, way=halfway) == pytest.approx(taken)
    few = share_of(seen, refined, monkeypatch, way=halfway, rows=full_batch.MANY_ROWS - 1)
    assert few == share_of(seen, refined, monkeypatch)


@pytest.mark.parametrize(
    ("middle", "beside", "refined", "passed"),
    [
        ((0.61, 0.72, 0.660), (0.62, 0.715, 0.655), "auto", {"accuracy": 0.02, "area": 0.04}),
        ((0.61, 0.715, 0.660), (0.62, 0.72, 0.655), "auto", {"accuracy": 0.02, "area": 0.045}),
        ((0.61, 0.72, 0.660), (0.62, 0.713, 0.699), "auto", None),  # 0.007 less accurate than the one refused
        ((0.61, 0.72, 0.699), (0.62, 0.72, 0.660), "auto", None),  # as accurate as the one taken
        ((0.61, 0.72, 0.660), (0.62, 0.715, 0.655), "yes", None),  # none was refused
    ],
)
def test_a_model_that_is_far_more_accurate_and_passed_over_for_its_area_is_told_of(
    middle, beside, refined, passed, monkeypatch
):
    found = facts_of({START: GOOD, MIDDLE: middle, LESS: beside, MORE: beside}, refined, monkeypatch)["passed_over"]
    assert found == (None if passed is None else pytest.approx(passed))


def test_the_report_names_the_objective_that_takes_a_model_passed_over(monkeypatch):
    """One feature tells the few rows that are likely positive, the other orders all rows."""
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(3000, 8)), rng.integers(0, 2, 3000)
    likely = (X[:, 0] > 1.5) & (rng.random(3000) < 0.9)
    y = (rng.random(3000) < np.where(likely, 0.8, 0.4 / (1 + np.exp(-X[:, 1])))).astype(int)
    monkeypatch.setattr(full_batch, "WORTH_SAYING", 0.0005)
    said = {}
    for objective in ("auto", "accuracy"):
        fair = FairClassifier(
            "demographic_parity <= 0.1", objective=objective, algorithm=FullBatchALM(dual_values="shifted")
        ).fit(X, y, sensitive_features=group)
        said[objective] = [note for note in fair.fit_report_["notes"] if "objective='accuracy'" in note]
        passed = fair.fit_report_["optimality"]["passed_over"]
        assert bool(said[objective]) == bool(passed) == (objective == "auto")
        if passed:
            numbers = f"{100 * passed['accuracy']:.1f} points", f"{passed['area']:.3f} less"
            assert passed["area"] > full_batch.AUC_LOSS and all(number in said[objective][0] for number in numbers)


@pytest.mark.parametrize(("beside", "least"), [((0.62, 0.705, 0.699), 0.698), ((0.59, 0.705, 0.710), 0.708)])
def test_part_of_the_way_is_as_far_as_the_area_of_the_lowest_loss_allows(beside, least, monkeypatch):
    told = []

    def way(x, other, allowed):
        told.extend(allowed(torch.tensor([area])) for area in (least - 1e-4, least + 1e-4))
        return x, 0.0

    seen = {START: GOOD, MIDDLE: (0.61, 0.71, 0.690), LESS: beside}
    share_of(seen, "auto", monkeypatch, way=way)
    assert told == [False, True]


@pytest.mark.parametrize("weighted", [False, True])
def test_a_gain_is_what_more_rows_are_decided_right_and_its_standard_error_is_mcnemar_s(weighted):
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(500, 2)), rng.integers(1, 4, 500).astype(float) if weighted else np.ones(500)
    y = (X[:, 0] + 0.2 * X[:, 1] > 0).astype(int)
    problem = FairProblem(MLP(2), X, y, objective=Accuracy(0.5), sample_weight=weight if weighted else None)
    x, other = torch.tensor([1.0, 1.0, 0.0]), torch.tensor([1.0, 0.1, 0.0])
    right = [((X @ at[:2].double().numpy() > 0) == y).astype(float) for at in (x, other)]
    more = weight * (right[1] - right[0])
    error = (more**2).sum() ** 0.5 / weight.sum()
    for k, (start, end) in ((1, (x, other)), (-1, (other, x))):
        expected = k * more.sum() / weight.sum(), error
        assert gains.gained(problem, start, end) == pytest.approx(expected, abs=1e-6)
    assert gains.beyond_chance(problem) == 3**0.5 + gains.SURE
    assert gains.gained(problem, x, x) == (0, 0)


@pytest.mark.parametrize("weights", [None, [2.0, 1.0, 1.0]])
def test_ranks_are_sure_by_the_standard_error_of_mann_and_whitney(weights):
    """Scores that know nothing of the label have every order of the rows as likely: here three positives among six rows."""
    orders = list(combinations(range(6), 3))
    areas = [np.mean([a > b for a in c for b in set(range(6)) - set(c)]) for c in orders]
    least = 0.5 + (3**0.5 + gains.SURE) * np.std(areas)
    both = None if weights is None else np.array(weights * 2)  # the share of each label stays 1/2
    problem = FairProblem(MLP(2), np.eye(6, 2), np.array([1, 1, 1, 0, 0, 0]), sample_weight=both, dtype=torch.float64)
    assert gains.ranks_surely(problem, least + 1e-6) and not gains.ranks_surely(problem, least - 1e-6)


def test_a_run_that_betters_nothing_does_not_call_the_model_it_began_at_a_start():
    def run(best_step, message, feasible=True):
        zero = torch.zeros(())
        return Solution(
            torch.ones(2), torch.ones(2), torch.tensor(feasible), zero, torch.tensor(best_step), None, [{"step": 0, "seconds": 0.0}],
            5, 1.0, Counts(), "budget", message,
        )  # fmt: skip

    made, start = run(3, "every bound is met"), run(0, "only the starting point meets them")
    assert runs.joined(made, start).message == "every bound is met" and int(runs.joined(made, start).best_step) == 3
    assert runs.joined(start, start).message == "only the starting point meets them"
    assert runs.joined(made, run(2, "anew")).message == "anew"
    assert (
        runs.joined(made, run(0, "no iterate met every bound", feasible=False)).message == "no iterate met every bound"
    )
