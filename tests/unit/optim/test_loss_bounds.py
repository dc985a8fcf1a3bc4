"""Bounds that set the mean loss of one group against another's: optima in closed form, and the guard of the weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fairbound.methods.alm import ALM
from fairbound.optim import Dual
from fairbound.optim.means import cell_weights
from fairbound.optim.multipliers import moved, room_of_contrasts
from fairbound.optim.state import fresh_state

pytestmark = pytest.mark.filterwarnings("ignore:.*too few training rows")  # what is tested here is not the data

BOUND, KEPT = "loss_gap <= 0.05", 0.95 * 0.05  # with its margin
GROUP = torch.tensor([0] * 40 + [1] * 60)
Y = torch.cat([torch.arange(40) % 2, (torch.arange(60) % 10 != 0).long()])  # shares of positives: 1/2 and 9/10


def squares(s, y):
    """Group means: (s - 1/2)^2 + 1/4 and (s - 9/10)^2 + 9/100."""
    return (s - y) ** 2


def trained(model_of, theta, steps, lr):
    """All rows in every step, at a rate that falls: the last model, its group losses, and the Dual."""
    dual = Dual(BOUND, groups=GROUP, targets=Y, loss=squares, dual_every=5, memory=1.0, decay=0.0)
    theta = torch.tensor(theta, dtype=torch.float64, requires_grad=True)
    for k in range(steps):
        (slope,) = torch.autograd.grad(dual.loss(model_of(theta), Y, GROUP), theta)
        with torch.no_grad():
            theta -= lr / (1 + k / 500) * slope
        dual.step()
    losses = squares(model_of(theta.detach()), Y)
    return theta.detach(), [float(losses[k == GROUP].mean()) for k in (0, 1)], dual


def test_one_score_for_all_ends_at_the_optimum_and_its_multiplier():
    """The gap at a score s is 0.8 s - 0.4, so s is known, and of it the multiplier of 0 - 1:
    (0.4 + y) (s - 0.5) = (0.6 - y) (0.9 - s), with y < 0.6: no row weighs less than 0."""
    theta, (a, b), dual = trained(lambda t: t.expand(100), 0.7, 2000, 0.1)
    s = (KEPT + 0.4) / 0.8
    assert float(theta) == pytest.approx(s, abs=1e-3)
    assert a - b == pytest.approx(KEPT, abs=1e-3) and not dual.report().raised
    assert dual.multipliers.tolist() == pytest.approx([(0.6 * (0.9 - s) - 0.4 * (s - 0.5)) / 0.4, 0.0], abs=5e-3)


def test_a_score_for_each_group_ends_with_the_better_off_group_at_the_bound():
    """The worse-off group keeps its least loss, 1/4; the other's must rise from 0.09 to 0.2025, where its rows weigh
    nothing: the multiplier is their share."""
    _, (a, b), dual = trained(lambda t: t[GROUP], [0.5, 0.85], 4000, 0.3)
    assert a == pytest.approx(0.25, abs=1e-4)
    assert 0.9 * KEPT <= a - b <= 0.05
    assert dual.multipliers.tolist() == pytest.approx([0.6, 0.0], abs=0.06)


STATE = fresh_state(1, 1) | {"k": 40, "weighed": 20}


def after(now, room=9.0, part=1.0, fresh=None, **state):
    """The numbers of one contrast of bound 0.02 after an update from y = 0, if nothing else is said, with eta = 1,
    rho = 2 and a scale of 1/4: a usual step is a quarter of g = `now` and the margin, 0.001."""
    state = STATE | {name: np.array([float(v)]) for name, v in state.items()}
    given = [np.array([v]) for v in (0.25, now)]
    found = moved(state, ALM(decay=0.0, penalty=2.0), *given, fresh, np.array([room]), np.array([0.02]), part)
    return {name: float(v[0]) for name, v in found.items()}


def test_steps_grow_while_a_bound_stays_broken_and_begin_anew_when_it_turns():
    made = after(0.099)  # from g = 0, which with its margin is broken
    assert made["pace"] == 1.5 and made["multipliers"] == pytest.approx(1.5 * 0.025)
    made = after(0.099, g=0.2, pace=2.0, multipliers=0.1, part=0.5)
    pace = 2 * 1.5**0.5
    assert made["pace"] == pytest.approx(pace) and made["multipliers"] == pytest.approx(0.1 + pace * 0.025)
    assert made["w"] == pytest.approx(made["multipliers"] + 2 * 2 * 0.25 * 0.1)
    assert after(0.099, g=0.2, pace=7.9)["pace"] == 8.0 == after(-0.101, g=-0.2, pace=8.0, multipliers=0.9)["pace"]
    made = after(-0.101, g=0.2, pace=8.0, multipliers=0.9)
    assert made["pace"] == 1.0 and made["multipliers"] == pytest.approx(0.9 - 0.025)
    assert after(-0.101, g=-0.2, pace=8.0)["pace"] == 1.0  # met, without a multiplier: nothing to undo


def test_beyond_the_room_multipliers_creep():
    grown = {"g": 0.2, "pace": 4.0, "part": 0.0}
    for y, expected in (
        (0.1, 0.2),
        (0.25, 0.3),
        (0.28, 0.305),
        (0.3, 0.325),
    ):  # four steps; no further than the room; one
        made = after(0.099, 0.3, multipliers=y, **grown)
        assert made["multipliers"] == pytest.approx(expected)
        assert made["w"] == pytest.approx(expected + 2 * 2 * 0.25 * 0.1)
    assert after(3.999, 0.3, multipliers=0.5, **grown)["multipliers"] == pytest.approx(0.5 + 0.1 * 0.3)
    made = after(-0.101, 0.3, multipliers=0.5, **grown)
    assert made["multipliers"] == pytest.approx(0.5 - 0.025) and made["w"] == pytest.approx(0.5 - 0.125)
    waits = after(0.099, 0.3, fresh=np.array([False]), multipliers=0.25, **grown)
    assert waits["multipliers"] == 0.25 and waits["pace"] == 4.0 and waits["g"] == 0.2


def test_a_contrast_that_lowers_no_loss_moves_as_without_a_guard():
    state = STATE | {"g": np.array([0.2]), "multipliers": np.array([0.1])}
    given = state, ALM(decay=0.0, penalty=2.0), np.array([0.25]), np.array([0.1]), None
    plain, guarded = moved(*given), moved(*given, np.array([np.inf]), np.array([0.02]), 1.0)
    assert {k: v.tolist() for k, v in plain.items()} == {k: v.tolist() for k, v in guarded.items()}
    assert plain["multipliers"].tolist() == [pytest.approx(0.125)] and plain["w"].tolist() == [pytest.approx(0.175)]


def test_rows_that_weigh_less_than_nothing_are_named_and_the_loss_is_divided_by_absolute_weights():
    """Losses 4 and 0.018 that cannot change; half of the rows in each group. At y, a row of b weighs 1 - 2 y."""
    dual = Dual("loss_gap <= 0.1", group_names=["a", "b"], dual_every=1, memory=1.0, decay=0.0)
    s, y, group = torch.tensor([4.0, 4.0]), torch.tensor([0, 1]), torch.tensor([0, 1])
    each = torch.nn.functional.binary_cross_entropy_with_logits(s, y.float(), reduction="none")
    for _ in range(12):
        value = dual.loss(s, y, group)
        w = float(dual.weights[0])
        weights = torch.tensor([1 + 2 * w, 1 - 2 * w])
        weights = weights / max(1.0, float(weights.abs().mean()))
        constant = 0.1 * w / max(1.0, 2 * w)
        assert float(value) == pytest.approx(float((weights * each).mean()) - constant, rel=1e-5)
        assert ("raises the loss of b" in str(dual.report())) == (w > 0.5)
        dual.step()
    assert w > 0.7 and dual.report().raised == {
        "b": pytest.approx((1 - 2 * float(dual.weights[0])) / (2 * float(dual.weights[0])))
    }


@pytest.mark.parametrize(
    ("stated", "room"),
    [
        ("loss_gap <= 0.05", [0.5, 0.3, 0.2, 0.3, 0.2, 0.5]),  # of each pair the share of the lowered one
        ("loss_gap[overall] <= 0.05", None),
        ("demographic_parity <= 0.05", None),
    ],
)
def test_the_room_of_a_contrast_is_where_a_row_weighs_nothing(stated, room):
    """Shares 0.2, 0.3 and 0.5; with a weight of the room on one contrast the least weight of a row is 0."""
    group = torch.tensor([0] * 20 + [1] * 30 + [2] * 50)
    dual = Dual(stated, groups=group, targets=torch.arange(100) % 2, memory=1e9)
    dual.observe(torch.linspace(-1, 1, 100), torch.arange(100) % 2, group)
    state = dual._means.state
    dual._means.update(1, torch.device("cpu"))
    found = room_of_contrasts(dual._compiled.contrasts, None, dual._compiled.of_losses, state, np.zeros(dual.m))
    if "demographic" in stated:
        assert found is None
        return
    for i in range(dual.m):
        w = np.where(np.arange(dual.m) == i, found[i], 0.0)
        if np.isfinite(found[i]):
            v = cell_weights(dual._compiled.contrasts, w, state, 1, None)[1]
            assert 1 + v[dual._compiled.of_losses].min() == pytest.approx(0, abs=1e-12)
    if room:
        named = dict(zip(dual.names, found.tolist(), strict=True))
        assert all(share == pytest.approx((0.2, 0.3, 0.5)[int(name[-1])]) for name, share in named.items())
    both = room_of_contrasts(dual._compiled.contrasts, None, dual._compiled.of_losses, state, np.ones(dual.m))
    assert (both < found).any()  # shared among those that lower the same rows
