"""Batches as most loops have them: fewer calls, the same numbers, and labels and codes that are checked before they count."""

import math

import numpy as np
import pytest
import torch

from fairbound.base.errors import DataError, NonFiniteError
from fairbound.optim import Dual

N, B = 240, 12


def rows(dtype=torch.float32):
    made = torch.Generator().manual_seed(0)
    group = torch.randint(-1, 2, (N,), generator=made)
    x = torch.randn(N, 3, generator=made, dtype=dtype) + group.clamp_min(0).unsqueeze(1)
    return x, (x[:, 0] + torch.randn(N, generator=made, dtype=dtype) > 0.5).long(), group


def trained(stated, dtype=torch.float32, quick=True, change=lambda y, g: (y, g), more=lambda k: {}, **options):
    """A Dual after 50 batches, and their losses and gradients. change: the form of labels and codes; more: arguments of batch k."""
    x, y, group = rows(dtype)
    dual = Dual(
        stated, groups=[0, 1, 0, 1], targets=[0, 1, 1, 0], dual_every=5, dual_step_size=0.3, memory=200, **options
    )
    dual._quick = dual._quick and quick
    theta, seen = torch.zeros(3, dtype=dtype, requires_grad=True), []
    for k in range(50):
        part = torch.arange(N).roll(-B * k)[:B]
        loss = dual.loss(x[part] @ theta + 0.1, *change(y[part].clone(), group[part].clone()), **more(k))
        (slope,) = torch.autograd.grad(loss, theta)
        with torch.no_grad():
            theta -= 0.3 * slope
        dual.step()
        seen.append((loss.item(), *slope.tolist()))
    return dual, seen


STATED = ["loss_gap <= 0.001", "demographic_parity <= 0.001", ("loss_gap <= 0.001", "demographic_parity <= 0.001")]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("stated", [*STATED, "equal_opportunity <= 0.01"], ids=str)
def test_they_give_the_numbers_of_any_other_batch(stated, dtype):
    quick, seen = trained(stated, dtype)
    slow, asked = trained(stated, dtype, quick=False)
    assert quick._quick == (stated != "equal_opportunity <= 0.01") and slow.weights.max() > 0
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    np.testing.assert_allclose(seen, asked, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(quick.multipliers, slow.multipliers, rtol=tolerance, atol=tolerance)
    assert quick.report().lacking == slow.report().lacking and quick.report().batches == slow.report().batches == 50


@pytest.mark.parametrize(
    "change",
    [
        lambda y, g: (y.float(), g),
        lambda y, g: (y, g.unsqueeze(1)),
        lambda y, g: (y.to(torch.int8), g),
        lambda y, g: (y.tolist(), g.tolist()),
    ],
)
def test_the_form_of_labels_and_codes_changes_nothing(change):
    assert trained(STATED[1])[1] == trained(STATED[1], change=change)[1]


def test_other_batches_may_come_between():
    mixed, seen = trained(STATED[2], more=lambda k: {"weight": torch.ones(B)} if k % 3 == 1 else {})
    plain, asked = trained(STATED[2])
    np.testing.assert_allclose(seen, asked, rtol=1e-5, atol=1e-6)
    assert mixed._means.seen_rows == plain._means.seen_rows == 50 * B
    torch.testing.assert_close(mixed.multipliers, plain.multipliers, rtol=1e-5, atol=1e-6)


def test_tensors_that_a_loop_fills_anew_for_every_batch_are_copied():
    y_kept, g_kept = torch.zeros(B), torch.zeros(B, dtype=torch.int64)
    dual, seen = trained(STATED[1], change=lambda y, g: (y_kept.copy_(y), g_kept.copy_(g)))
    assert seen == trained(STATED[1])[1] and dual.multipliers.max() > 0


@pytest.mark.parametrize(
    ("labels", "codes", "said"),
    [
        ([0, 2, 0], [0, 1, 1], "got 2 in row 1 .* batch 2 of the 4"),
        ([0, -1, 0], [0, 1, 1], "got -1 in row 1 .* batch 2 of the 4"),
        ([0.0, 0.5, 1.0], [0, 1, 1], r"got 0\.5 in row 1 .* batch 2 of the 4"),
        ([0, 1, 0], [0, 1, 2], "group code 2 of 'group' in row 2 .* batch 2 of the 4"),
        ([0, 1, 0], [-2, 1, 1], "group code -2 of 'group' in row 0 .* batch 2 of the 4"),
    ],
)
def test_labels_and_codes_that_cannot_be_are_said_before_they_move_a_multiplier(labels, codes, said):
    dual = Dual("demographic_parity <= 0.1", groups=[0, 1], targets=[0, 1], dual_every=4)
    s, good = torch.tensor([1.0, -1.0, 1.0]), (torch.tensor([1.0, 0.0, 1.0]), torch.tensor([0, 1, 1]))

    def steps(count):
        for _ in range(count):
            dual.loss(s, *good)
            dual.step()

    steps(5)
    before = dual.multipliers, dual.values()
    dual.loss(s, torch.tensor(labels, dtype=torch.float32), torch.tensor(codes))
    dual.step()
    steps(1)
    dual.loss(s, *good)
    with pytest.raises(DataError, match=said):
        dual.step()
    assert torch.equal(dual.multipliers, before[0]) and dual.values() == before[1]
    steps(4)
    assert not torch.equal(dual.multipliers, before[0])


def test_a_code_that_has_no_weight_is_said_at_once():
    dual, _ = trained(STATED[0])
    with pytest.raises(DataError, match="group code 7 of 'group' in row 1"):
        dual.loss(torch.zeros(2), torch.tensor([0, 1]), torch.tensor([0, 7]))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_refused_or_skipped_at_once(bad):
    batch = torch.tensor([1.0, bad, -1.0]), torch.tensor([1, 0, 0]), torch.tensor([0, 1, 0])
    dual, _ = trained(STATED[0])
    with pytest.raises(NonFiniteError, match="1 of 3 rows of batch 51; groups 1"):
        dual.loss(*batch)
    dual, _ = trained(STATED[0], nonfinite="skip")
    assert dual.loss(*batch).item() == 0.0 and dual.report().skipped == 1 and dual.report().rows == 50 * B


def test_a_slope_may_be_differentiated_again():
    dual, _ = trained(STATED[1], torch.float64)
    s = torch.linspace(-1, 1, B, dtype=torch.float64, requires_grad=True)
    y, g = torch.arange(B) % 2, torch.arange(B) // 3 % 2
    assert dual.weights.max() > 0
    assert torch.autograd.gradgradcheck(lambda s: dual.loss(s, y, g), s)
    assert dual._means.recent.rows
