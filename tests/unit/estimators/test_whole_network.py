"""A network trained further on all rows: how many rounds, on which rows, and what stays as it was."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sparse
import torch

import fairbound as fb
from fairbound.estimators import training
from fairbound.estimators.gains import Gain, loss_gained
from fairbound.estimators.linear.weight_decay import auto_decay
from fairbound.estimators.networks import whole_network
from fairbound.estimators.networks.last_layer import last_layer, with_last_layer_solved
from fairbound.models.mlp import MLP
from fairbound.problems.problem import Draws
from fairbound.solver.budget import Budget

ANY = Budget(steps=1)  # no deadline


def table(n, seed, labels="learnable"):
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], n)
    X = rng.normal(size=(n, 4)) + (group == "b")[:, None]
    score = X[:, 0] * X[:, 1] + X[:, 2] if labels == "learnable" else np.zeros(n)
    return X.astype(np.float32), (score + rng.normal(size=n) > 0.5).astype(int), group


def begun(X, y, group, *, bounds="demographic_parity <= 0.05", steps=100, hidden=(8,)):
    problem = fb.FairProblem(MLP(4, hidden), X, y, group, bounds)
    return problem, fb.solve(problem, "alm", budget=f"{steps} steps", seed=0)


def test_the_cheapest_record_prices_what_is_exceeded():
    """y = (2, 1): 0.50 + 2 * 0.02 = 0.54, 0.51 + 0.02 = 0.53, 0.52 with room (0.52), and 0.60 with a bound that nobody can tell."""
    at = [(0.50, [0.02, -1.0]), (0.51, [-1.0, 0.02]), (0.52, [-0.5, -0.5]), (0.60, [float("nan"), -1.0])]
    records = [{"step": k, "validation": {"f": f, "g": g}} for k, (f, g) in enumerate(at)]
    multipliers = torch.tensor([2.0, 1.0])
    assert whole_network.cheapest(records, multipliers) == 2
    assert (
        whole_network.cheapest(records[:2], multipliers) == 1
        and whole_network.cheapest(records[:1] + records[3:], multipliers) == 0
    )
    assert whole_network.cheapest(records[:2], torch.zeros(2)) == 0


@pytest.mark.parametrize("thin", [False, True])
def test_two_parts_hold_every_row_once(thin):
    """The weighted mean of their losses is that of all rows, at any point, and each has its share of every group."""
    X, y, group = table(500, 0)
    weight = np.random.default_rng(1).random(500)
    problem = fb.FairProblem(
        MLP(4, (5,)), sparse.csr_matrix(X) if thin else X, y, group, "loss_gap <= 0.1", sample_weight=weight,
        dtype=torch.float64,
    )  # fmt: skip
    x = problem.start((0,)) + 0.1
    parts = whole_network._parts(problem, 0)
    assert [part.rows for part in parts] == [400, 100]
    total = sum(part.row_weight.sum() * part.evaluate(x).f for part in parts)
    assert float(total) == pytest.approx(float(weight.sum() * problem.evaluate(x).f), rel=1e-9)
    for name in ("a", "b"):
        counts = [np.sum(np.array(part.groups.labels[0])[part.groups.codes[:, 0]] == name) for part in parts]
        assert sum(counts) == (group == name).sum() and abs(counts[1] - 0.2 * sum(counts)) <= 2


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 2))])
def test_the_rounds_are_those_of_the_method_and_the_best_model_stays(seed):
    X, y, group = table(1500, seed)
    problem, before = begun(X, y, group)
    after, rounds = whole_network.trained_further(problem, before, seed, False, ANY)
    assert rounds > 0 and after.steps == before.steps + rounds
    method = fb.FullBatchALM(sharpness=(8.0,))
    draws = Draws(problem, (0,), 64, "full")
    state = method.init(problem, before.last.clone(), draws)
    for _ in range(rounds):
        state = method.step(state, problem, draws)
    assert torch.equal(after.last, state.x) and not torch.equal(after.last, before.last)
    assert (
        torch.equal(after.x, before.x)
        and torch.equal(after.feasible, before.feasible)
        and after.message == before.message
    )
    assert float(problem.evaluate(after.last).f) < float(problem.evaluate(before.last).f)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 3))])
def test_labels_by_chance_are_not_learnt_by_heart(seed):
    """A network that has begun to learn 200 labels by chance gains nothing on other rows."""
    X, y, group = table(200, seed, labels="chance")
    problem, before = begun(X, y, group, steps=800, hidden=(32,))
    assert whole_network.trained_further(problem, before, seed, False, ANY) == (before, 0)


def batches(steps=800):
    """`solve` as the classifier calls it, and the budgets that it tries."""
    return partial(fb.solve, budget=f"{steps} steps", batch_size=64, seed=0), [Budget(steps=steps)]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 3))])
def test_batches_end_where_rows_that_they_did_not_meet_say_so(seed):
    """Labels by chance are left early, and the loss of new rows is lower there than after all steps."""
    X, y, group = table(300, seed, labels="chance")
    problem, method = fb.FairProblem(MLP(4, (32,)), X, y, group, "demographic_parity <= 0.05"), fb.ALM()
    run, limits = batches()
    steps, broken_off = whole_network.useful_steps(run, problem, method, None, seed, limits)
    assert 0 < steps < 400 and broken_off is None
    new = fb.FairProblem(MLP(4, (32,)), *table(3000, 9 + seed, labels="chance"), "demographic_parity <= 0.05")
    few, all_of_them = (run(problem, method, budget=f"{k} steps") for k in (steps, 800))
    assert float(new.evaluate(few.last).f) < float(new.evaluate(all_of_them.last).f)


@pytest.mark.parametrize("method", [fb.ALM(), fb.SGD()])
def test_rows_held_back_choose_the_steps_and_are_not_met(method):
    """The steps are those of the record at which rows held back cost least; a run without bounds has none to price."""
    X, y, group = table(400, 0)
    problem, held = begun(X[:300], y[:300], group[:300])[0], begun(X[300:], y[300:], group[300:])[0]
    run, limits = batches()
    steps, _ = whole_network.useful_steps(run, problem, method, held, 0, limits)
    made = run(problem, method, validation=held)
    assert steps == max(whole_network.cheapest(made.records, made.state.multipliers), 1)
    if method.name == "sgd":
        assert steps == max(made.records, key=lambda row: -float(row["validation"]["f"]))["step"]


@pytest.mark.parametrize(
    ("labels", "rows", "few", "longer"), [("learnable", 2000, 300, True), ("chance", 300, 800, False)]
)
def test_more_steps_are_tried_only_where_the_loss_still_falls(labels, rows, few, longer):
    """A product of two numbers takes long steps to learn; labels by chance are learnt by heart at once."""
    X, y, group = table(rows, 0, labels=labels)
    problem = fb.FairProblem(MLP(4, (16,)), X, y, group)
    budgets = []

    def run(*given, **options):
        budgets.append(options["budget"].steps)
        return fb.solve(*given, batch_size=64, seed=0, **options)

    steps, _ = whole_network.useful_steps(run, problem, fb.ALM(), None, 0, [Budget(steps=few), Budget(steps=1200)])
    assert budgets == ([few, 1200] if longer else [few])
    assert (steps > few) == longer


def test_the_budgets_that_are_tried():
    """Of 1,500 steps of 256 rows: 3,500 rows are met 110 times, which is as often as any; 10,000 rows 38 times, of at
    most 100; 30,000 rows 13 times, too seldom to end early; a stated budget is not gone beyond."""
    usual = Budget(steps=1500)
    steps = lambda rows, stated=False: [b.steps for b in whole_network.limits_of(usual, stated, rows, 256)]  # noqa: E731
    assert steps(3500) == [1500] and steps(10_000) == [1500, 3906] and steps(30_000) == [8000]
    assert steps(10_000, True) == [1500] and steps(30_000, True) == []
    many = whole_network.limits_of(Budget(steps=8000), False, 500_000, 256)
    assert many == []


def test_where_no_steps_are_chosen():
    X, y, group = table(300, 0)
    problem, _ = begun(X, y, group)
    run, limits = batches(steps=100)
    alone = fb.FairProblem(MLP(4, (8,)), X, y, np.where(np.arange(300) == 7, "z", group), "demographic_parity <= 0.5")
    ranked = fb.FairProblem(MLP(4, (8,)), X, y, group, "auc_parity[inter] <= 0.1", objective="auc")
    for on, tried in ((problem, []), (alone, limits), (ranked, limits)):
        assert whole_network.useful_steps(run, on, fb.ALM(), None, 0, tried) == (0, None)


def test_a_run_that_the_user_stops_is_judged_on_all_rows():
    X, y, group = table(300, 0)
    problem, _ = begun(X, y, group)
    run, limits = batches(steps=100)
    interrupted = lambda *given, **options: replace(run(*given, **options), stopped="interrupted")  # noqa: E731
    steps, stopped = whole_network.useful_steps(interrupted, problem, fb.ALM(), None, 0, limits)
    assert steps == 0 and stopped.stopped == "interrupted"
    assert float(stopped.violation) == float(problem.evaluate(stopped.x).violation)
    assert bool(stopped.feasible) == (float(stopped.violation) <= 0)


@pytest.mark.parametrize("decay", [0.0, "auto"])
def test_the_last_layer_has_the_decay_of_its_own_features(decay):
    X, y, group = table(600, 1)
    problem, before = begun(X, y, group, bounds="demographic_parity <= 0.1")
    own = last_layer(problem, problem.split(before.last)[0], "no", problem.plan)
    asked = auto_decay(own) if decay == "auto" else 0.0
    options = {"refined": "no", "budget": Budget(steps=40)}
    after, facts = with_last_layer_solved(problem, None, before, weight_decay=decay, **options)
    assert facts["weight_decay"] == asked and (asked > 0) == (decay == "auto")
    other, _ = with_last_layer_solved(problem, None, before, **options)
    weights = [float(one.x[-own.model.n : -1].norm()) for one in (after, other)]
    assert (weights[0] < weights[1]) == (decay == "auto")


def test_where_no_rounds_are_made(monkeypatch):
    X, y, group = table(300, 0)
    problem, before = begun(X, y, group)
    alone = begun(X, y, np.where(np.arange(300) == 7, "z", group), bounds="demographic_parity <= 0.5")
    ranked = fb.FairProblem(MLP(4, (8,)), X, y, group, "auc_parity[inter] <= 0.1", objective="auc")
    interrupted = replace(before, stopped="interrupted")
    for on, given in (alone, (ranked, before), (problem, interrupted)):
        assert whole_network.trained_further(on, given, 0, False, ANY) == (given, 0)
    rounds = whole_network._rounds
    monkeypatch.setattr(whole_network, "_rounds", lambda *a: replace(rounds(*a), stopped="interrupted"))
    stopped, made = whole_network.trained_further(problem, before, 0, False, ANY)
    assert stopped.stopped == "interrupted" and made == 0 and torch.equal(stopped.last, before.last)
    monkeypatch.setattr(whole_network, "MOST_ROWS", 299)
    assert whole_network.trained_further(problem, before, 0, False, ANY) == (before, 0)


def test_the_classifier_says_so_and_meets_its_bound():
    X, y, group = table(1500, 0)
    model = fb.FairClassifier("demographic_parity <= 0.05", model="mlp:8", budget="100 steps", random_state=0)
    positive = model.fit(X, y, sensitive_features=group).predict(X)
    assert abs(positive[group == "a"].mean() - positive[group == "b"].mean()) <= 0.05 + 1e-12
    assert any("all rows at once (rounds: " in note for note in model.fit_report_["notes"])


def test_random_batches_are_not_repeated_where_the_last_layer_meets_the_bounds(monkeypatch):
    """Batches alone miss a small bound, and more patience or margin costs time that the last layer saves."""
    monkeypatch.setattr(training, "on_batches", lambda *a: pytest.fail("random batches were made again"))
    X, y, group = table(600, 0)
    model = fb.FairClassifier("demographic_parity <= 0.01", model="mlp:8", budget="200 steps", random_state=0)
    positive = model.fit(X, y, sensitive_features=group).predict(X)
    assert abs(positive[group == "a"].mean() - positive[group == "b"].mean()) <= 0.01 + 1e-12


@pytest.mark.parametrize(
    ("batch_size", "budget", "step_size"),
    [(16, None, 0.4), pytest.param(64, None, 0.1, marks=pytest.mark.long), (16, "50 steps", 0.1)],
)
def test_steps_are_longer_where_more_of_them_may_be_made(batch_size, budget, step_size):
    """1,500 steps of 16 rows meet each of 300 rows 80 times, of at most 100; of 64 rows more often."""
    X, y, group = table(300, 0)
    made = fb.FairClassifier(
        "demographic_parity <= 0.05", model="mlp:8", batch_size=batch_size, budget=budget, random_state=0
    )
    assert made.fit(X, y, sensitive_features=group).fit_report_["options"].count(f"step_size={step_size},") == 1


GAINS = {
    "hardly more than a constant before": ([(0.03, 0.02), (0.0, 0.001)], [True, True], 0),
    "none pays": ([(0.03, 0.02), (0.0, 0.001)], [True, True], None),
    "the first": ([(0.05, 0.02), (0.02, 0.001)], [True, True], 0),
    "the second": ([(0.05, 0.02), (0.06, 0.001)], [True, True], 1),
    "not where a bound is missed": ([(0.05, 0.02), (0.06, 0.001)], [True, False], 0),
}


@pytest.mark.parametrize("by_accuracy", [True, False])
@pytest.mark.parametrize("case", GAINS)
def test_rounds_under_bounds_are_made_from_the_start_that_gains_most_on_rows_apart(case, by_accuracy, monkeypatch):
    gains, feasible, taken = GAINS[case]
    X, y, group = table(600, 0)
    problem, first = begun(X, y, group, steps=20)
    starts = [first, replace(first, last=first.last + 0.1)]
    queue, met, rows = iter(gains), iter([True, *feasible]), []
    name, other = ("gained", "loss_gained") if by_accuracy else ("loss_gained", "gained")

    def gain(on, before, after):
        rows.append(on.rows)
        return Gain(*next(queue))

    little = case == "hardly more than a constant before"
    monkeypatch.setattr(whole_network, "hardly_better_than_constant", lambda *given: little)
    monkeypatch.setattr(whole_network, name, gain)
    monkeypatch.setattr(whole_network, other, None)
    last = lambda of, solution: replace(solution, feasible=torch.tensor(next(met)))  # noqa: E731
    after = whole_network.rounds_under_bounds(problem, starts, 0, False, last, by_accuracy)
    assert rows == [120, 120]
    if taken is None or (little and not by_accuracy):
        assert after is None
    else:
        rounds = Budget(steps=whole_network.ROUNDS)
        made = fb.solve(problem, whole_network.LAST, budget=rounds, sampling="full", x0=starts[taken].last)
        assert torch.equal(after.last, made.last) and after.steps == first.steps + made.steps


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("steps", "counted"), [(1, "1 step"), (1500, "1,500 steps")])
def test_notes_say_which_network_was_taken_and_what_was_done_with_it(steps, counted, monkeypatch):
    """Where the one whose random batches knew no bounds is the better."""
    monkeypatch.setattr(training, "useful_steps", lambda *a: (steps, None))
    monkeypatch.setattr(training, "trained_further", lambda problem, solution, *a: (solution, 0))
    monkeypatch.setattr(training, "rounds_under_bounds", lambda *a: None)
    monkeypatch.setattr(
        training, "better", lambda first, second, by, note: second._replace(notes=[*second.notes, note])
    )
    X, y, group = skewed()
    fair = fb.FairClassifier("demographic_parity <= 0.02", model="mlp:4", random_state=0, validation=0.2)
    notes = " ".join(fair.fit(X, y, sensitive_features=group).fit_report_["notes"])
    assert f"Random batches without bounds (sgd) ended after {counted}, as" in notes and training.FREE in notes
    assert "The other was under the bounds from its first batch (alm)." in notes


def test_layers_that_know_the_groups_too_well_are_trained_on_under_the_bound():
    """On these rows rounds of all layers pay; with other ones it may be the last layer alone."""
    rng = np.random.default_rng(2)
    group = rng.integers(0, 5, 2000)
    X = np.column_stack([rng.normal(size=(2000, 4)), group[:, None] == np.arange(5)]).astype("float32")
    y = (X[:, 0] + X[:, 1] * X[:, 2] + 1.5 * (group - 2) + rng.normal(size=2000) > 0).astype(int)
    bound = "demographic_parity <= 0.02"
    fair = fb.FairClassifier(bound, model="mlp:16", random_state=0).fit(X, y, sensitive_features=group)
    assert fair.fit_report_["feasible"] and training.ROUNDS_PAY in fair.fit_report_["notes"]
    problem = fb.FairProblem(MLP(9, (16,)), X, y, group, bound)
    free = fb.solve(problem, "sgd", budget="400 steps", seed=0)
    alone = with_last_layer_solved(problem, None, free, refined="auto", weight_decay="auto")[0]
    assert fair.score(X, y) > float(problem.evaluate(alone.x).extra["accuracy"]) + 0.005


def test_a_lower_mean_loss_and_its_error_are_those_of_the_rows():
    X, y, group = table(300, 0)
    weight = np.random.default_rng(1).random(300)
    problem = fb.FairProblem(MLP(4, (5,)), X, y, group, "loss_gap <= 0.1", sample_weight=weight, dtype=torch.float64)
    x, other = problem.start((0,)), problem.start((1,))
    y, w = problem.targets, problem.row_weight
    loss = [
        torch.nn.functional.binary_cross_entropy_with_logits(problem.all_scores(at), y, reduction="none")
        for at in (x, other)
    ]
    gain = w * (loss[0] - loss[1])
    expected = gain.sum() / w.sum(), gain.square().sum().sqrt() / w.sum()
    assert loss_gained(problem, x, other) == pytest.approx(tuple(map(float, expected)))


def skewed(n=800):
    """Rows of two groups, of which a tenth has label 1."""
    X, _, group = table(n, 0)
    return X, (X[:, 2] + np.random.default_rng(1).normal(size=n) > 2.4).astype(int), group


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::fairbound.DataWarning")
@pytest.mark.parametrize(
    "options",
    [
        {"class_weight": "balanced"},
        {"objective": "auc"},
        {"constraint": "partial_statistical_parity[0.5:0.9] <= 0.1"},
        {"budget": "30 s"},
    ],
    ids=["class weights", "area", "thresholds beside the model", "a deadline"],
)
def test_layers_trained_without_bounds_are_followed_by_the_last_one_alone(options, monkeypatch):
    """Where rounds without bounds would forget the objective, have no thresholds, or could not keep the deadline."""
    seen = []
    further = training.trained_further
    monkeypatch.setattr(training, "trained_further", lambda problem, *a: seen.append(problem.m) or further(problem, *a))
    monkeypatch.setattr(training, "rounds_under_bounds", None)
    X, y, group = skewed()
    model = {"constraint": "demographic_parity <= 0.02", "model": "mlp:4", "random_state": 0} | options
    fair = fb.FairClassifier(**model).fit(X, y, sensitive_features=group)
    assert fair.fit_report_["constraints"] and seen and 0 not in seen


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_user_who_stops_rounds_under_bounds_has_what_was_found_until_then(number, monkeypatch):
    """Interrupted are the rounds on a part from the first start, from the second, or those on all rows."""
    made, rounds = [], whole_network._rounds

    def stopped(problem, x, limit, progress, held=None):
        out = rounds(problem, x, limit, progress, held)
        made.append(held is None)
        return replace(out, stopped="interrupted") if made.count(True) == number and held is None else out

    def tried(*given):
        monkeypatch.setattr(whole_network, "_rounds", stopped)
        return rounds_under_bounds(*given)

    rounds_under_bounds = training.rounds_under_bounds
    monkeypatch.setattr(training, "rounds_under_bounds", tried)
    gains = iter([(0.5, 0.01), (0.6, 0.01)])
    monkeypatch.setattr(whole_network, "gained", lambda *given: Gain(*next(gains)))
    X, y, group = table(600, 0)
    fair = fb.FairClassifier("demographic_parity <= 0.05", model="mlp:4", random_state=0).fit(X, y, group)
    assert fair.solution_.interrupted and made.count(True) == number
    assert fair.fit_report_["feasible"] and "interrupted" in fair.fit_report_["notes"][0]
