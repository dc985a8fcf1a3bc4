"""The benchmark's own arithmetic: windows, censoring, ratios, and a stopwatch that evaluations do not advance."""

import io
import json
import math
import sys
from pathlib import Path

import pytest
import torch

sys.path[:0] = [str(Path(__file__).parents[3] / "benchmarks")]

import time_to_feasibility as bench  # noqa: E402


def rows(gaps, losses=None):
    losses = losses or [0.4] * len(gaps)
    return [
        {"s": 0.1 * (i + 1), "steps": i, "gap": g, "loss": v} for i, (g, v) in enumerate(zip(gaps, losses, strict=True))
    ]


def test_the_time_is_the_end_of_the_first_window_whose_mean_absolute_gap_meets_the_bound():
    assert bench.time_reached(rows([0.02] * 7 + [0.004] * 12), 0.6) == pytest.approx(1.7)
    # of the windows, the first with a single 0.0139 has mean 0.00499, the one before it 0.00598
    assert bench.time_reached(rows([0.0139] * 5 + [0.004] * 12), 0.6) == pytest.approx(1.4)
    assert bench.time_reached(rows([0.0] * 9), 0.6) == math.inf
    assert bench.time_reached(rows([0.0] * 10), 0.6) == pytest.approx(1.0)


def test_swinging_around_zero_is_not_feasible():
    assert bench.time_reached(rows([0.02, -0.02] * 30), 0.6) == math.inf


def test_a_network_no_better_than_a_constant_does_not_count():
    losses = [0.69] * 10 + [0.3] * 10
    first = next(i for i in range(10, 21) if sum(losses[i - 10 : i]) / 10 < 0.6)
    assert bench.time_reached(rows([0.0] * 20, losses), 0.6) == pytest.approx(0.1 * first)
    assert bench.time_reached(rows([0.0] * 20, [0.69] * 20), 0.6) == math.inf


def test_runs_that_never_arrive_count_as_the_limit_and_make_ratios_lower_bounds():
    ours = bench.summary([1.0, 2.0, 3.0], 30.0)
    assert ours["median"] == 2.0 and ours["quartiles"] == [1.5, 2.5] and ours["censored"] == 0
    theirs = bench.summary([10.0, math.inf, math.inf], 30.0)
    assert theirs["median"] == 30.0 and theirs["censored"] == 2 and theirs["seconds"] == [10.0, None, None]
    assert bench.ratio(theirs, ours, 30.0) == {"ratio": 15.0, "lower_bound": True}
    assert bench.ratio(ours, ours, 30.0) == {"ratio": 1.0, "lower_bound": False}
    assert bench.ratio(ours, theirs, 30.0)["ratio"] is None


def test_evaluations_out_of_order_or_not_finite_are_refused():
    good = rows([0.1, 0.2])
    assert bench.parsed("\n".join(map(json.dumps, good))) == good
    with pytest.raises(ValueError, match="in order"):
        bench.parsed("\n".join(map(json.dumps, good[::-1])))
    with pytest.raises(ValueError, match="finite"):
        bench.parsed(json.dumps(rows([math.nan])[0]))


def test_the_stopwatch_stands_still_while_it_evaluates(monkeypatch):
    """A step takes 0.375 s and an evaluation 5 s: evaluations fall on the first step at or after 1 s, 2 s, 3 s."""
    from stopwatch import Finished, Stopwatch, Task

    now = [100.0]
    monkeypatch.setattr("stopwatch.time.process_time", lambda: now[0])
    task = Task(torch.zeros(4, 1), torch.tensor([0.0, 1, 0, 1]), torch.tensor([0, 0, 1, 1]), torch.zeros(1))

    def scores():
        now[0] += 5.0
        return torch.tensor([-1.0, 1.0, 0.0, 0.0])

    out = io.StringIO()
    watch = Stopwatch(task, scores, every=1.0, limit=3.0, stop_early=False, out=out, ticks_per_step=2)
    watch.start()
    with pytest.raises(Finished):
        for _ in range(100):
            now[0] += 0.375
            watch.tick()
    seen = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [row["s"] for row in seen] == pytest.approx([1.125, 2.25, 3.0]) and [r["steps"] for r in seen] == [1, 3, 4]
    assert seen[0]["gap"] == pytest.approx(math.log1p(math.exp(-1)) - math.log(2))
    assert seen[0]["loss"] == pytest.approx((math.log1p(math.exp(-1)) + math.log(2)) / 2)


def test_the_constant_s_loss_is_the_labels_entropy():
    task = bench.Task(torch.zeros(4, 1), torch.tensor([1.0, 0, 0, 0]), torch.tensor([0, 0, 1, 1]), torch.zeros(1))
    assert task.constant_loss() == pytest.approx(-0.25 * math.log(0.25) - 0.75 * math.log(0.75))
