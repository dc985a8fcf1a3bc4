"""How x moves: plain steps along minus the gradient, with the stated decay, by torch's optimisers, and never too far."""

from __future__ import annotations

import pytest
import torch

from fairbound.methods import SGD
from fairbound.methods.primal import clipped, decayed, make_optimizer, move
from fairbound.solver.solve import solve
from twelve_rows import tiny


def test_steps_diminish_by_their_formula():
    assert [decayed(k, 100.0, 0.5) for k in (0, 300, 800)] == pytest.approx([1, 1 / 2, 1 / 3])
    assert decayed(10**6, 1.0, 0.0) == 1.0 and decayed(9, 1.0, 1.0) == pytest.approx(0.1)


@pytest.mark.parametrize("decay", [0.0, 0.5, 1.0])
def test_sgd_on_all_rows_is_gradient_descent_written_out(decay):
    problem = tiny(None)
    config = SGD(step_size=0.3, decay=decay, decay_steps=4.0)
    x = problem.start((0,))
    for k in range(20):
        _, slope = problem.gradient(x, problem.full(), (1.0, None))
        x = x - 0.3 / (1 + k / 4.0) ** decay * slope
    last = solve(problem, config, budget="20 steps", sampling="full").last
    torch.testing.assert_close(last, x, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["momentum", "adam", "adamw"])
def test_an_optimizer_moves_as_torch_s_own(name):
    torch.manual_seed(0)
    made = {"momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
            "adam": lambda p: torch.optim.Adam(p, lr=0.1), "adamw": lambda p: torch.optim.AdamW(p, lr=0.1)}[name]  # fmt: skip
    x, z = torch.ones(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    ours, theirs = make_optimizer(name, x, 0.1), made([z])
    for k in range(5):
        gradient = torch.tensor([1.0, -2.0, 0.5 * k], dtype=torch.float64)
        factor = decayed(k, 2.0, 1.0)
        move(x, gradient, ours, 0.1, factor)
        theirs.param_groups[0]["lr"] = 0.1 * factor
        z.grad = gradient
        theirs.step()
    assert torch.equal(x, z)


def test_a_long_gradient_is_shortened_to_the_norm_and_a_short_one_left():
    rows = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    expected = torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]])
    torch.testing.assert_close(clipped(rows, 1.0), expected)
    for one, wanted in zip(rows, expected, strict=True):
        torch.testing.assert_close(clipped(one, 1.0), wanted)
