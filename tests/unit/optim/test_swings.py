"""Contrasts that swing from one side of their bound to the other: what they move, and what the report says."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fairbound.methods.alm import ALM
from fairbound.optim import Dual, dual
from fairbound.optim.multipliers import BEHIND, CROWD, FORGOTTEN, moved, noise_of
from fairbound.optim.state import SWING, fresh_state

BOUND = "demographic_parity <= 0.05"


QUARTER = "Quarter dual_step_size and penalty, take larger batches"


def after(estimates, part=0.0, noise=0.1):
    """The state after an update from y = 0 by the last of these estimates of one contrast, and its turns at each."""
    state, seen = fresh_state(1, 1) | {"k": 20}, []
    for g in estimates:
        state |= {"multipliers": np.zeros(1)}
        given = ALM(decay=0.0, penalty=2.0), np.ones(1), np.array([g]), None, None, np.full(1, 0.1), part
        state |= moved(state, *given, np.full(1, noise))
        seen.append(float(state["turns"][0]))
    return state, seen


def test_from_its_third_turn_on_a_contrast_moves_and_weighs_half_and_then_a_quarter():
    swings = [0.4, -0.4] * 3 + [0.4]
    for n, gain in ((1, 1), (3, 1), (5, 0.25), (7, 0.25)):
        made, turns = after(swings[:n])
        assert turns == [min(t, 4) for t in range(n)]
        assert made["multipliers"] == pytest.approx(gain * 0.4) and made["w"] == pytest.approx(3 * gain * 0.4)
    assert after([-0.4, *swings[:4], 0.4])[0]["w"] == pytest.approx(3 * 0.25 * 0.4)


def test_what_may_be_chance_is_no_turn_and_turns_are_forgotten():
    assert after([0.4, -0.05, 0.4, 0.09, -0.09])[1] == [0] * 5
    assert after([0.4, -0.05, -0.4, 0.0, 0.4])[1] == [0, 0, 1, 1, 2]
    assert after([0.4, -0.4, *[-0.4] * FORGOTTEN], part=1.0)[1][-1] == 0
    assert after([0.4, -0.4, 0.4], noise=np.inf)[1] == [0] * 3


def test_noise_is_twice_the_standard_error_that_a_difference_of_two_rates_may_have():
    """The third cell holds no rates; of the last contrast one cell alone is compared."""
    plan = SimpleNamespace(cells_of=np.array([[0, 1], [1, 2], [1, 3]]))
    noise = noise_of(plan, np.array([True, True, False]), np.array([50.0, 200.0, 80.0]))
    assert noise[0] == pytest.approx(2 * np.sqrt(0.25 / 50 + 0.25 / 50))
    assert noise[0] >= 2 * np.sqrt(0.25 / 50 + 0.25 / 200)
    assert noise[1] > 1
    assert noise[2] == pytest.approx(2 * np.sqrt(0.5 / 200))


@pytest.mark.parametrize(
    ("rate", "seeds"), [(3e-2, 1), *(pytest.param(r, 3, marks=pytest.mark.long) for r in (1e-2, 3e-2))]
)
def test_a_linear_model_settles_under_a_learning_rate_that_stays(rate, seeds):
    """Mean excess in the last quarter, three seeds: 0.01 and 0.03; 0.17 and 0.29 where no gain is halved."""
    excess = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        group = rng.integers(0, 2, 3000)
        X = rng.normal(size=(3000, 6))
        X[:, 0] += 1.6 * group - 0.8
        X[:, 1] += 0.5 * group
        y = rng.random(3000) < 1 / (1 + np.exp(-X[:, :3] @ [1.5, 1.0, 0.5]))
        features, targets, codes = torch.tensor(X).float(), torch.tensor(y).long(), torch.tensor(group)
        torch.manual_seed(seed)
        model = torch.nn.Linear(6, 1)
        optimizer, dual = torch.optim.Adam(model.parameters(), lr=rate), Dual(BOUND, groups=codes, targets=targets)
        for k in range(1000):
            i = torch.randint(3000, (100,))
            optimizer.zero_grad()
            dual.loss(model(features[i]), targets[i], codes[i]).backward()
            optimizer.step()
            dual.step()
            if k >= 750 and k % 30 == 0:
                with torch.no_grad():
                    excess.append(max(dual.measure([(model(features), targets, codes)])[BOUND] - 0.05, 0))
    assert np.mean(excess) < 0.06


def reported(rates):
    """The report after batches of 400 rows whose groups have these rates of positive decisions, an update each."""
    made, place = Dual(BOUND, group_names=["a", "b"], dual_every=1, memory=400), torch.arange(400) % 200
    group = torch.arange(400) // 200
    for first, second in rates:
        rate = torch.tensor([first, second])[group]
        made.loss(torch.where(place < 200 * rate, 1.0, -1.0), torch.arange(400) % 2, group)
        made.step()
    return made.report()


def test_a_bound_that_swings_is_said_to_be_circled_and_its_error_holds_the_swing():
    swings = [(0.9, 0.1)] * 4 + [(0.1, 0.9)] * 4 + [(0.9, 0.1)] * 4 + [(0.5, 0.5)] * 3
    report = reported(swings)
    low, high = report.ranges[BOUND]
    assert low < 0.1 < 0.5 < high and report.unsure(BOUND) >= high - report.values[BOUND]
    assert f"circles the bound, lately between {low:.2g} and {high:.2g}: let the learning rate decay" in str(report)
    falling = reported([(0.9, 0.1)] * 4 + [(0.5, 0.45)] * 6)
    assert not falling.ranges and "circles" not in str(falling)
    assert falling.unsure(BOUND) == falling.standard_errors[BOUND] + abs(falling.drifts[BOUND])


def test_a_bound_that_has_turned_often_is_circled_until_its_estimates_lie_within_chance():
    turns = ([(0.9, 0.1)] * 4 + [(0.1, 0.9)] * 4) * 3
    for calm, circled in ((12, True), (24, False)):
        report = reported(turns + [(0.5, 0.5)] * calm)
        low, high = report.ranges[BOUND]
        assert report.turning == (BOUND,) and high - low < SWING * report.standard_errors[BOUND]
        assert ("circles the bound" in str(report)) is circled and ("within the bound" in str(report)) is not circled
    once = reported([(0.9, 0.1)] * 4 + [(0.1, 0.9)] * 4 + [(0.5, 0.5)] * 12)
    assert not once.turning and "within the bound" in str(once)


def test_a_bound_that_is_missed_after_swings_is_said_to_swing_and_not_to_need_more_steps():
    swings = [(0.9, 0.1)] * 4 + [(0.1, 0.9)] * 4
    report = str(reported([*swings * 2, *[(0.9, 0.1)] * 8]))
    assert (
        f"multipliers swing for {BOUND}: a difference was broken, met and broken again" in report and QUARTER in report
    )
    assert "not met yet" not in report
    missed = str(reported([(0.9, 0.1)] * 40))
    assert f"not met yet: {BOUND}. Train longer" in missed and "swing" not in missed


def step_of(behind, estimates=(0.3,), noise=(0.1,), room=None):
    """How far multipliers rise from 0, and the weights, after an update of estimates that look back on so many steps."""
    g = np.array(estimates)
    m, bounds = len(g), np.full(len(g), 0.1)
    given = ALM(decay=0.0, penalty=2.0), np.ones(m), g, None, room, bounds, 0.0, np.array(noise), behind
    made = moved(fresh_state(m, 1) | {"k": 20}, *given)
    return made["multipliers"], made["w"]


def test_where_estimates_look_back_on_many_steps_rates_move_by_as_much_less_and_weigh_no_less():
    for behind, share in ((0.0, 1), (BEHIND, 1), (2 * BEHIND, 1 / 2), (16 * BEHIND, 1 / 16)):
        y, w = step_of(behind)
        assert y == pytest.approx(0.3 * share) and w == pytest.approx(0.3 * share + 2 * 0.3)
    y, _ = step_of(4 * BEHIND, (0.3, 0.3), (0.1, np.inf))
    assert y == pytest.approx([0.3 / 4, 0.3])


def test_many_broken_contrasts_move_by_the_smaller_of_both_shares():
    many = 4 * CROWD
    for times, share in ((2, 1 / 4), (8, 1 / 8)):
        y, w = step_of(times * BEHIND, [0.3] * many, [0.1] * many)
        assert y == pytest.approx(0.3 * share) and w == pytest.approx(0.3 * share + 0.6 / 4)


@pytest.mark.parametrize(("memory", "steps"), [(400, 4), (math.inf, 6), (64, 0.64)])
def test_steps_looked_back_on_are_those_that_brought_the_rows_in_memory(monkeypatch, memory, steps):
    """Batches of 100 rows; all rows are those of the six updates where none fade."""
    seen, usual = [], dual.moved
    monkeypatch.setattr(dual, "moved", lambda *given: seen.append(given[-1]) or usual(*given))
    made = Dual(BOUND, group_names=["a", "b"], dual_every=1, memory=memory)
    for _ in range(6):
        made.loss(torch.ones(100), torch.ones(100), torch.arange(100) % 2)
        made.step()
    assert seen[0] == min(1, steps) and seen[-1] == steps


@pytest.mark.parametrize(
    ("rare", "seeds"), [(0.05, 1), *(pytest.param(r, 3, marks=pytest.mark.long) for r in (0.05, 0.5))]
)
def test_small_batches_settle_with_the_group_among_the_features(rare, seeds):
    """A rare group that needs no multiplier, and weighs much in standard units; and large ones that need one. Mean
    difference in the second half, three seeds: 0.07 and 0.05; 0.47 and 0.50 where moves are not smaller."""
    found = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        n, steps = 4000, 2000
        group = (rng.random(n) < rare).astype(int)
        X = rng.normal(size=(n, 5))
        X[:, 0] += 0.8 * (group - rare) * (rare == 0.5)
        y = X[:, 0] + 0.7 * X[:, 1] + 0.8 * rng.logistic(size=n) > 0
        own = (group - group.mean()) / group.std()
        features, targets, codes = torch.tensor(np.c_[X, own]).float(), torch.tensor(y).long(), torch.tensor(group)
        torch.manual_seed(seed)
        model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
        optimizer, made = torch.optim.Adam(model.parameters(), lr=2e-3), Dual(BOUND, groups=codes, targets=targets)
        slower = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        for k in range(steps):
            i = torch.randint(n, (8,))
            optimizer.zero_grad()
            made.loss(model(features[i]), targets[i], codes[i]).backward()
            optimizer.step()
            slower.step()
            made.step()
            if k >= steps // 2 and k % 100 == 0:
                with torch.no_grad():
                    found.append(made.measure([(model(features), targets, codes)])[BOUND])
    assert np.mean(found) < 0.15
