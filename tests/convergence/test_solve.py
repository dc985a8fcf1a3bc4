"""The training loop: budgets, the best iterate, interrupts, kills, checkpoints, full disks and NaN."""

import json
import math
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch

from fairbound.base.errors import CheckpointError, NonFiniteError, OptionError
from fairbound.base.records import read_records
from fairbound.fairness.problem import FairProblem
from fairbound.methods import ALM, METHODS, SFLS, SGD, SSLALM, ProximalPoint, SwitchingSubgradient, algorithm
from fairbound.models.model import MLP
from fairbound.problems.wrappers import Wrapper
from fairbound.solver import checkpoint as store
from fairbound.solver.best import Best
from fairbound.solver.budget import Budget
from fairbound.solver.solve import solve
from fairbound.testing import PROBLEMS, differences, linear_program
from twelve_rows import FEATURES, TARGETS, TWO_GROUPS, convex_fair, tiny

noisy = partial(PROBLEMS["two_sided"], noise=0.1)
adam = partial(torch.optim.Adam, lr=0.01)


def named_optimizer(parameters):
    return torch.optim.Adam(parameters, lr=0.01)


# -- budgets and bookkeeping ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "steps"),
    [
        ("37 steps", 37),
        ("1000 samples", 125),
        ("0.5 epochs", 63),
        (Budget(steps=10, samples=1e9), 10),
        ("9 steps, 1 h", 9),
    ],
)
def test_a_run_ends_with_its_budget(budget, steps):
    """SGD touches 8 rows a step; an epoch of the test problems is 1,000."""
    solution = solve(noisy(), SGD(), budget=budget, batch_size=8)
    assert solution.steps == steps == solution.records[-1]["step"] and solution.stopped == "budget"
    assert solution.counts.gradients == steps and solution.counts.samples == 8 * steps


def test_seconds_are_of_training_and_evaluation_is_free():
    def slow(row):
        time.sleep(0.03)

    began = time.perf_counter()
    solution = solve(noisy(), SGD(), budget="0.1s", record_every=100, callback=slow)
    assert 0.1 <= solution.seconds < 0.1 + 1  # one step beyond, on a busy machine
    assert time.perf_counter() - began >= solution.seconds + 0.03 * (len(solution.records) - 1)
    assert solution.counts.values == 0


def test_a_second_run_of_the_same_problem_counts_from_zero():
    problem = noisy()
    first = solve(problem, SGD(), budget="800 samples", batch_size=8)
    second = solve(problem, SGD(), budget="800 samples", batch_size=8)
    assert first.steps == second.steps == 100 and first.counts == second.counts and first.counts is not second.counts
    assert torch.equal(first.last, second.last)


@pytest.mark.parametrize(
    ("make", "budget"),
    [
        *((noisy, budget) for budget in ("50 steps", "4000 samples", "3 epochs")),
        (convex_fair, "400 samples"),
        *(
            pytest.param(convex_fair, budget, marks=pytest.mark.long)
            for budget in ("50 steps", "4000 samples", "3 epochs")
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "__name__", "noisy"),
)
def test_a_stack_spends_what_each_run_would_alone(make, budget):
    config = SSLALM()
    stack = solve(make(), config, budget=budget, seed=[3, 4, 5], batch_size=8)
    for r, seed in enumerate((3, 4, 5)):
        one = solve(make(), config, budget=budget, seed=seed, batch_size=8)
        assert one.steps == stack.steps and one.counts.samples == stack.counts.samples
        assert torch.allclose(one.last, stack.last[r], rtol=0, atol=1e-10)
        assert torch.allclose(one.x, stack.x[r], rtol=0, atol=1e-10)
        assert int(one.best_step) == int(stack.best_step[r]) and bool(one.feasible) == bool(stack.feasible[r])


def test_records_say_what_happened(tmp_path):
    problem, rows = tiny("loss_gap <= 0.02"), []
    path = tmp_path / "r.jsonl"
    solution = solve(problem, ALM(dual_every=5), budget="40 steps", batch_size=6, record_every=10, records=path,
                     callback=rows.append)  # fmt: skip
    assert [r["step"] for r in solution.records] == [0, 10, 20, 30, 40] == [r["step"] for r in rows]
    assert read_records(path) == solution.records
    last = solution.records[-1]
    measured = problem.evaluate(solution.last)
    assert last["train"]["f"] == pytest.approx(float(measured.f)) and last["train"]["g"] == pytest.approx(
        measured.g.tolist()
    )
    assert last["multipliers"] == solution.state.multipliers.tolist() and last["gradients"] == 40
    spaced = solve(noisy(), SGD(), budget="5000 steps").records
    assert [r["step"] for r in spaced[:4]] == [0, 50, 100, 150]
    gaps = np.diff([r["step"] for r in spaced[:-1]])
    assert gaps.max() <= 5000 // 20 and len(spaced) < 80
    spaced = solve(noisy(), SGD(), budget="100 steps", record_every="10%").records
    assert [r["step"] for r in spaced] == [
        *range(21),
        *range(22, 31, 2),
        33,
        36,
        39,
        42,
        46,
        50,
        55,
        60,
        66,
        72,
        79,
        86,
        94,
        100,
    ]
    for wrong in ("0%", "101%", "-5%", "some%", "5 steps of"):
        with pytest.raises(OptionError, match=r"above 0%|record_every"):
            solve(noisy(), SGD(), budget="1 step", record_every=wrong)


def test_progress_goes_to_standard_error(capsys):
    solve(tiny("loss_gap <= 0.02"), "alm", budget="20 steps", batch_size=6, progress=True)
    out, err = capsys.readouterr()
    assert out == "" and "loss" in err and "worst g" in err and err.endswith("\n")
    assert err.startswith("alm: random batches, under the bounds, ") and err.splitlines()[1].startswith("step ")
    solve(tiny("loss_gap <= 0.02"), "sgd", budget="2 steps", sampling="full", progress=True)
    assert capsys.readouterr().err.startswith("sgd: all rows at once, without bounds, "), "sgd heeds none"


def test_the_line_above_progress_says_what_a_method_declares(capsys):
    @dataclass(frozen=True, kw_only=True)
    class Mine(SGD):
        name: ClassVar[str] = "mine"
        all_rows: ClassVar[bool] = True
        takes_bounds: ClassVar[bool] = True

    for method, said in (
        (Mine(), "mine: all rows at once, under the bounds, "),
        ("projected_gradient", "projected_gradient: all rows at once, without bounds, "),
        ("sgd_fairret", "sgd_fairret: random batches, under the bounds, "),
        (ProximalPoint(inner=SGD()), "proximal_point: random batches, without bounds, "),
    ):
        solve(tiny("loss_gap <= 0.02"), method, budget="2 steps", batch_size=6, progress=True)
        assert capsys.readouterr().err.startswith(said)


# -- the best iterate -----------------------------------------------------------------------------------------------


def test_the_best_iterate_is_feasible_first_then_lowest_then_nearest():
    best = Best.none(torch.zeros(1))
    offered = [
        (9.0, 0.5),
        (1.0, 0.7),
        (5.0, 0.2),
        (8.0, 0.0),
        (1.0, 0.1),
        (7.0, -0.1),
        (7.5, 0.0),
        (math.nan, 0.0),
        (0.0, math.nan),
    ]
    kept = []
    for k, (f, violation) in enumerate(offered):
        best.offer(torch.tensor([float(k)]), torch.tensor(f), torch.tensor(violation), k)
        kept.append(int(best.step))
        assert float(best.x) == kept[-1]
    assert kept == [0, 0, 2, 3, 3, 5, 5, 5, 5]


def test_each_run_of_a_stack_has_its_own_best():
    best = Best.none(torch.zeros(2, 3))
    best.offer(torch.ones(2, 3), torch.tensor([1.0, 1.0]), torch.tensor([0.0, 1.0]), 1)
    best.offer(2 * torch.ones(2, 3), torch.tensor([2.0, 2.0]), torch.tensor([0.0, 0.5]), 2)
    assert best.x[:, 0].tolist() == [1, 2] and best.step.tolist() == [1, 2]


@pytest.mark.parametrize("seed", range(5))
def test_the_returned_iterate_meets_the_true_bound_where_the_last_may_not(seed):
    problem = PROBLEMS["active"](noise=0.3)
    solution = solve(problem, ALM(dual_every=5, decay=0.0), budget="1500 steps", seed=seed, record_every=5)
    assert bool(solution.feasible) and float(problem.evaluate(solution.x).violation) == 0
    best = min(float(r["train"]["f"]) for r in solution.records if max(r["train"]["g"]) <= 0)
    found = float(problem.evaluate(solution.x).f)
    assert found == best or (
        found < best and int(solution.best_step) == solution.steps
    )  # it landed nearer to the bound
    assert solution.message == "every bound is met on the training rows."


def test_with_validation_rows_both_must_hold_and_those_rank():
    train, held = tiny("loss_gap <= 0.05", rows=[0, 1, 2, 5, 6, 7]), tiny("loss_gap <= 0.05", rows=[3, 4, 8, 9, 10, 11])
    solution = solve(train, ALM(dual_every=2), budget="400 steps", validation=held, batch_size=6, record_every=2)
    rows = solution.records
    violation = [max(0, *r["train"]["g"], *r["validation"]["g"]) for r in rows]
    feasible = [r for r, v in zip(rows, violation, strict=True) if v == 0]
    assert feasible and bool(solution.feasible)
    best = min(feasible, key=lambda r: r["validation"]["f"])
    assert int(solution.best_step) == best["step"] and "validation rows" in solution.message
    assert solution.counts.gradients == 400


def test_without_a_bound_the_message_says_so():
    solution = solve(tiny(None), SGD(), budget="10 steps", batch_size=6)
    assert solution.message == "no bound was stated." and bool(solution.feasible)


# -- interrupts, kills, checkpoints ---------------------------------------------------------------------------------

CHILD = """
import json, sys
from fairbound.methods import ALM
from fairbound.solver.solve import solve
from fairbound.testing import PROBLEMS

def report(row):
    print(json.dumps([row["step"], row["seconds"]]), flush=True)

solution = solve(
    PROBLEMS["two_sided"](noise=0.1), ALM(optimizer="adam", step_size=0.01, dual_every=3), budget={budget!r}, seed=5,
    checkpoint={checkpoint!r}, checkpoint_every=0.05, records={records!r}, record_every=50, callback=report,
)
print("DONE", solution.stopped, solution.steps, flush=True)
"""
STEPS = 60000  # far longer than the child lives


def unbroken(steps):
    config = ALM(optimizer="adam", step_size=0.01, dual_every=3)
    return solve(PROBLEMS["two_sided"](noise=0.1), config, budget=f"{steps} steps", seed=5, record_every=50)


def resumed(folder, steps, callback=None):
    config = ALM(optimizer="adam", step_size=0.01, dual_every=3)
    return solve(PROBLEMS["two_sided"](noise=0.1), config, budget=f"{steps} steps", seed=5, record_every=50,
                 checkpoint=folder / "run.ckpt", records=folder / "r.jsonl", callback=callback)  # fmt: skip


def stop_child(folder, how):
    """Start the child and stop it by a signal after its first checkpoint; the lines it printed, and its exit code."""
    code = CHILD.format(
        budget=f"{STEPS} steps",
        checkpoint=str(folder / "run.ckpt"),
        records=str(folder / "r.jsonl"),
    )
    lines = []
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        for line in child.stdout:
            lines.append(line)
            if len(lines) >= 8 and (folder / "run.ckpt").exists():
                break
        child.send_signal(how)
        lines += child.stdout.readlines()
        return lines, child.wait(timeout=60)


def test_an_interrupted_run_resumes_to_the_unbroken_one(tmp_path):
    """That Ctrl-C ends a process in this way is seen where a command is interrupted."""

    def interrupt(row):
        if row["step"] == 400:
            signal.raise_signal(signal.SIGINT)

    part = resumed(tmp_path, STEPS, callback=interrupt)
    saved = store.load(tmp_path / "run.ckpt", {})
    assert part.stopped == "interrupted" and 400 <= part.steps < 450
    assert saved["state"]["k"] == part.steps  # saved at the interrupt: nothing is lost
    goes_on_as_unbroken(tmp_path, part.steps + 700)


@pytest.mark.long
def test_a_killed_process_resumes_to_the_unbroken_run(tmp_path):
    """A killed sweep, whose cell goes on from its checkpoint, is tried always."""
    lines, code = stop_child(tmp_path, signal.SIGKILL)
    whole = [line for line in lines if line.endswith("\n")]
    saved = store.load(tmp_path / "run.ckpt", {})
    assert code == -signal.SIGKILL
    last, seconds = json.loads([line for line in whole if line.startswith("[")][-1])
    # the interval, one step and one record, and a second for a busy machine
    assert seconds - saved["seconds"] <= 0.05 + 1
    expected, found = goes_on_as_unbroken(tmp_path, max(last, saved["state"]["k"]) + 700)
    assert torch.equal(expected.x, found.x) and torch.equal(expected.best_step, found.best_step)


def goes_on_as_unbroken(tmp_path, steps):
    """The unbroken run of so many steps, and the one that goes on from the folder's checkpoint, which are the same."""
    expected, found = unbroken(steps), resumed(tmp_path, steps)
    assert differences(expected.state, found.state) == []
    assert torch.equal(expected.last, found.last) and expected.steps == found.steps == steps
    assert expected.counts.samples == found.counts.samples
    marks = [r["step"] for r in found.records]
    assert marks == sorted(set(marks)) and set(range(0, steps, 50)) <= set(marks)
    assert read_records(tmp_path / "r.jsonl") == found.records
    return expected, found


@pytest.mark.parametrize(
    "config",
    [
        ALM(dual_every=3),
        ALM(optimizer="adam"),
        ALM(optimizer=named_optimizer),
        SSLALM(),
        SwitchingSubgradient(),
        SGD(optimizer="momentum"),
    ],
    ids=lambda c: f"{c.name}-{getattr(getattr(c, 'optimizer', ''), '__name__', getattr(c, 'optimizer', ''))}",
)
@pytest.mark.parametrize(
    ("make", "seed"),
    [(noisy, 0), (noisy, [1, 2, 3]), (convex_fair, 0), pytest.param(convex_fair, [1, 2, 3], marks=pytest.mark.long)],
    ids=["one", "stack", "one of rows", "stack of rows"],
)
def test_every_method_resumes_bit_for_bit(config, make, seed, tmp_path):
    run = partial(solve, algorithm=config, seed=seed, batch_size=6, record_every=10)
    path = tmp_path / "run.ckpt"
    expected = run(make(), budget="60 steps")
    part = run(make(), budget="30 steps", checkpoint=path)
    rest = run(make(), budget="60 steps", checkpoint=path)
    assert part.steps == 30 and rest.steps == 60
    assert differences(expected.state, rest.state) == [] and torch.equal(expected.x, rest.x)
    assert expected.counts == rest.counts and rest.seconds > part.seconds
    again = run(make(), budget="60 steps", checkpoint=path)  # nothing left to do
    assert torch.equal(again.last, rest.last) and again.steps == 60 and len(again.records) == len(rest.records)


def test_a_bad_or_foreign_checkpoint_stops_the_run_before_it_starts(tmp_path):
    path = tmp_path / "run.ckpt"
    run = partial(solve, checkpoint=path, budget="20 steps")
    run(noisy(), SGD())
    whole = path.read_bytes()
    for change, words in (
        ({"algorithm": SGD(step_size=0.2)}, "its options is"),
        ({"algorithm": ALM()}, "its method is"),
        ({"seed": 1}, "its seeds is"),
        ({"batch_size": 7}, "its batch_size is"),
        ({"sampling": "uniform"}, "its sampling is"),
        ({"problem": PROBLEMS["box"]()}, "its parameters is|its constraints is"),
        ({"problem": noisy(dtype=torch.float32)}, "its dtype is 'torch.float64'"),
    ):
        with pytest.raises(CheckpointError, match=words):
            run(**{"problem": noisy(), "algorithm": SGD(), **change})
    assert path.read_bytes() == whole  # a refusal leaves it alone
    for content, words in ((b"", "0 bytes"), (whole[: len(whole) // 2], "truncated"), (b"hello", "not a checkpoint")):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=words):
            run(noisy(), SGD())


def test_a_checkpoint_that_cannot_be_written_is_said_at_once_or_warned_of(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"cannot be written: a part of the path is a file"):
        solve(noisy(), SGD(), budget="5 steps", checkpoint=tmp_path / "file" / "run.ckpt")
    solve(noisy(), SGD(), budget="30 steps", checkpoint=tmp_path / "run.ckpt")
    before = (tmp_path / "run.ckpt").read_bytes()

    def full(path, data):
        raise OSError(28, "could not write: the disk is full")

    monkeypatch.setattr(store, "atomic_write_bytes", full)
    with pytest.warns(RuntimeWarning, match="the disk is full.*training goes on"):
        solution = solve(noisy(), SGD(), budget="60 steps", checkpoint=tmp_path / "run.ckpt")
    assert solution.steps == 60 and (tmp_path / "run.ckpt").read_bytes() == before


def test_a_full_disk_keeps_the_records_in_memory():
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    with pytest.warns(RuntimeWarning, match="records could not be written") as caught:
        solution = solve(noisy(), SGD(), budget="30 steps", record_every=10, records="/dev/full")
    assert len(caught) == 1 and [r["step"] for r in solution.records] == [0, 10, 20, 30]


def test_two_runs_may_share_a_records_file_and_a_resume_keeps_the_other_s(tmp_path):
    records = tmp_path / "r.jsonl"
    solve(noisy(), SGD(), budget="20 steps", record_every=10, records=records)
    run = partial(solve, record_every=10, records=records, checkpoint=tmp_path / "c")
    run(noisy(), SGD(), budget="20 steps")
    with open(records, "a") as file:
        file.write('{"step": 30, "tra')  # killed while writing
    run(noisy(), SGD(), budget="40 steps")
    assert [r["step"] for r in read_records(records)] == [0, 10, 20, 0, 10, 20, 30, 40]


# -- NaN and infinities ---------------------------------------------------------------------------------------------


def poisoned(stated="loss_gap <= 0.02", row=7):
    """A loss that is NaN, with NaN slopes, on one row of group b."""
    X = np.column_stack([FEATURES, np.zeros(12)])
    X[row, 2] = 1.0

    class Marked(MLP):
        def forward(self, x, features):
            scores, tape = super().forward(x, features)
            return torch.where(features[..., 2] > 0, torch.nan, scores), tape

    return FairProblem(Marked(3), X, TARGETS, TWO_GROUPS, stated, dtype=torch.float64)


@pytest.mark.parametrize("method", ["alm", "ssl_alm", "switching_subgradient"])
@pytest.mark.parametrize("stated", ["loss_gap <= 0.02", "demographic_parity <= 0.02"])
def test_nan_raises_and_names_batch_group_and_constraint(method, stated):
    problem = poisoned(stated)
    problem.evaluate = lambda x: tiny(stated).evaluate(x[..., [0, 1, 3]])
    with pytest.raises(NonFiniteError, match=r"rows of batch \d+ of stream '\w+'.* b.*: (a - b|b - a)"):
        solve(problem, method, budget="200 steps", batch_size=4)


@pytest.mark.parametrize(
    "config",
    [ALM(dual_every=1, dual_rows=4), SSLALM(constraint_batch_size=4), SwitchingSubgradient()],
    ids=lambda c: c.name,
)
@pytest.mark.parametrize("stated", ["loss_gap <= 0.02", "demographic_parity <= 0.02"])
def test_nan_batches_are_skipped_and_counted_and_never_reach_the_multipliers(config, stated):
    problem = poisoned(stated)
    solution = solve(problem, config, budget="300 steps", batch_size=4, nonfinite="skip", record_every=1000)
    assert solution.steps == 300 and 0 < solution.counts.nonfinite < 300
    for value in vars(solution.state).values():
        assert not isinstance(value, torch.Tensor) or bool(torch.isfinite(value).all())
    assert solution.records == [] and "no iterate met" in solution.message  # the full data hold the row too


def test_a_diverging_run_says_to_lower_the_step():
    with pytest.raises(NonFiniteError, match="lower the step size"):
        solve(tiny(None, loss="squared"), SGD(step_size=1e3), budget="2000 steps", batch_size=6)


# -- options --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch_size": 0}, "batch_size must be positive"),
        ({"seed": []}, "seed holds no seed"),
        ({"nonfinite": "ignore"}, "nonfinite must be one of 'raise', 'skip'"),
        ({"average": -1}, "average must not be negative"),
        ({"record_every": 0}, "record_every must be at least 1"),
        ({"budget": "soon"}, "cannot read the budget"),
        ({"algorithm": "almm"}, "unknown algorithm 'almm'; did you mean 'alm'. known: alm, ssl_alm, "),
        ({"algorithm": "auto"}, "'auto' is FairClassifier's, .* name a method, such as 'alm', here: alm, ssl_alm, "),
        ({"algorithm": "ssl_alm:fast"}, "no preset 'fast'"),
        ({"algorithm": object()}, "an algorithm is a name"),
        ({"sampling": "balance"}, "unknown sampling"),
        ({"x0": torch.zeros(3)}, r"x0 must have shape \(2,\)"),
        ({"x0": torch.zeros(3, 2), "seed": [0, 1]}, r"x0 must have shape \(2, 2\)"),
    ],
)
def test_wrong_options_are_named(options, words):
    with pytest.raises(OptionError, match=words):
        solve(**{"problem": noisy(), "algorithm": SGD(), "budget": "5 steps", **options})


def test_a_start_is_copied_and_shared_by_a_stack():
    x0 = torch.tensor([0.3, 0.4], dtype=torch.float64)
    solution = solve(noisy(), SGD(), budget="5 steps", x0=x0, seed=[0, 1])
    assert x0.tolist() == [0.3, 0.4] and solution.last.shape == (2, 2)
    assert not torch.equal(solution.last[0], solution.last[1])


def test_methods_by_name():
    assert algorithm("alm", step_size=0.5) == ALM(step_size=0.5)
    assert algorithm("ssl_alm:paper-alm") == replace(algorithm("ssl_alm:paper"), smoothing=0.0)
    assert algorithm(SGD(step_size=0.3)) == SGD(step_size=0.3)
    with pytest.raises(OptionError, match="did you mean 'step_size'"):
        algorithm("alm", stepsize=0.5)
    with pytest.raises(OptionError, match="beside it"):
        algorithm(ALM(), step_size=0.5)
    assert {"alm", "ssl_alm", "switching_subgradient", "sgd"} <= set(METHODS)
    assert all(isinstance(algorithm(name), kind) and kind.name == name for name, kind in METHODS.items())


@pytest.mark.parametrize("seed", [0, [1, 2]], ids=["one", "stack"])
def test_the_average_is_the_weighted_mean_written_out(seed):
    """Offers x_10, x_20, ... with rates a_j = 10 (p + 1) / (k_j + p): the mean is sum_j a_j prod_{i > j} (1 - a_i) x_j."""
    power, steps = 3, 200
    runs = {
        k: solve(PROBLEMS["two_sided"](noise=0.1), ALM(), budget=f"{k} steps", seed=seed).last
        for k in range(10, steps + 1, 10)
    }
    rates = {k: min(1.0, 10 * (power + 1) / (k + power)) for k in runs}
    expected = sum(rates[k] * math.prod(1 - rates[j] for j in runs if j > k) * x for k, x in runs.items())
    averaged = solve(PROBLEMS["two_sided"](noise=0.1), ALM(), budget=f"{steps} steps", seed=seed, average=power)
    assert torch.allclose(averaged.last, expected, rtol=0, atol=1e-12)
    assert torch.equal(averaged.state.x, runs[steps])  # the iterates themselves are not touched


def test_an_averaged_run_resumes_bit_for_bit_and_refuses_another_power(tmp_path):
    def go(steps, **options):
        return solve(PROBLEMS["two_sided"](noise=0.1), ALM(), budget=f"{steps} steps", record_every=50, **options)

    go(105, average=2, checkpoint=tmp_path / "a.ckpt")
    resumed_run, whole = go(300, average=2, checkpoint=tmp_path / "a.ckpt"), go(300, average=2)
    assert torch.equal(resumed_run.last, whole.last) and torch.equal(resumed_run.x, whole.x)
    with pytest.raises(CheckpointError, match="average"):
        go(300, average=3, checkpoint=tmp_path / "a.ckpt")


def test_the_average_lies_nearer_the_optimum_than_noisy_iterates():
    """With constant steps an iterate keeps a variance of order step x noise, the average's falls with the steps: over 1,000
    steps of size 0.1 it counts about 25 independent iterates, so the root mean square over runs falls far below half."""
    config = ALM(decay=0.0, dual_every=1, dual_step_size=0.1)

    def distance(average):
        problem = PROBLEMS["active"](noise=3.0)
        solution = solve(problem, config, budget="1000 steps", seed=list(range(20)), average=average)
        return float((solution.last - problem.optimum.x).square().mean().sqrt())

    assert distance(3) < 0.5 * distance(0)


@pytest.mark.parametrize("budget", ["2000 epochs", "1e9 samples", "1e9 steps"])
def test_a_method_that_halts_ends_the_run(budget):
    config = SFLS(level=0.0, optimality_tolerance=0.5)
    solution = solve(linear_program(noise=0.2), config, budget=budget, batch_size=64)
    assert solution.stopped == "halted" and bool(solution.state.halted.all())
    assert float(solution.state.upper) >= -0.5


def test_a_batch_that_does_not_say_its_size_and_a_method_without_batches_are_errors():
    class Sizeless(Wrapper):
        def sample(self, *of):
            return [super().sample(*of)]

    @dataclass(frozen=True, kw_only=True)
    class Idle(SGD):
        def step(self, state, problem, draws):
            return replace(state, k=state.k + 1)

    with pytest.raises(OptionError, match="attribute `size`"):
        solve(Sizeless(PROBLEMS["active"]()), SGD(), budget="20 epochs")
    with pytest.raises(OptionError, match="asked for no rows"):
        solve(PROBLEMS["active"](), Idle(), budget="20 epochs")


def test_a_method_with_outer_iterates_is_not_averaged_and_says_when_it_has_none():
    with pytest.raises(OptionError, match="leave average at 0"):
        solve(linear_program(noise=0.2), SFLS(), budget="5 steps", average=3)
    solution = solve(linear_program(noise=0.2), SFLS(), budget="1 steps")
    assert int(solution.state.outer) == 0 and solution.message.startswith("the method has no outer iterate yet")


@pytest.mark.parametrize("average", ["3", 2.5, True])
def test_an_average_is_a_whole_number(average):
    with pytest.raises(OptionError, match="whole number"):
        solve(noisy(), SGD(), budget="5 steps", average=average)
