"""Batches as most loops have them: fewer calls, the same numbers, and labels and codes that are checked before they count."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from fairbound.base.errors import DataError, NonFiniteError
from fairbound.optim import Dual

pytestmark = pytest.mark.filterwarnings("ignore:.*too few training rows")  # what is tested here is not the data

N, B = 240, 12


def rows(dtype=torch.float32):
    made = torch.Generator().manual_seed(0)
    group = torch.randint(-1, 2, (N,), generator=made)
    x = torch.randn(N, 3, generator=made, dtype=dtype) + group.clamp_min(0).unsqueeze(1)
    return x, (x[:, 0] + torch.randn(N, generator=made, dtype=dtype) > 0.5).long(), group


def trained(
    stated, dtype=torch.float32, quick=True, change=lambda y, g: (y, g), more=lambda k: {}, steps=50, **options
):
    """A Dual after `steps` batches, and their losses and gradients. change: the form of labels and codes; more: arguments of batch k."""
    x, y, group = rows(dtype)
    dual = Dual(
        stated, groups=[0, 1, 0, 1], targets=[0, 1, 1, 0], dual_every=5, dual_step_size=0.3, memory=200, **options
    )
    dual._compiled = replace(dual._compiled, quick=dual._compiled.quick and quick)
    theta, seen = torch.zeros(3, dtype=dtype, requires_grad=True), []
    for k in range(steps):
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
    assert quick._compiled.quick == (stated != "equal_opportunity <= 0.01") and slow.weights.max() > 0
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
    np.testing.assert_allclose(trained(STATED[1])[1], trained(STATED[1], change=change)[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [8, 64, 512])
@pytest.mark.parametrize(
    "stated", ["loss_gap <= 0.001", "demographic_parity <= 0.001", "demographic_parity[sharpness=3] <= 0.001"]
)
def test_value_and_gradient_are_those_of_the_formula(stated, size):
    """mean l + sum_j w_j (A q)_j, with q the mean over a group by its share of all rows, less w . bounds."""
    dual, _ = trained(stated, torch.float64)
    made = torch.Generator().manual_seed(size)
    s = (3 * torch.randn(size, generator=made, dtype=torch.float64)).requires_grad_()
    y, group = (torch.randint(low, 2, (size,), generator=made) for low in (0, -1))
    state, losses = dual._means.state, functional.binary_cross_entropy_with_logits(s, y.double(), reduction="none")
    phi = losses if "loss" in stated else torch.sigmoid((3 if "=3" in stated else 1) * s)
    asked = losses.mean() - dual.weights.sum() * 0.001
    for w, pair in zip(dual.weights, dual.plan.index, strict=True):
        for sign, cell in zip((1, -1), pair, strict=True):
            share = state["rows"][cell] / state["total_rows"]
            asked = asked + sign * w * phi[group == int(cell)].sum() / size / share
    value, before = dual.loss(s, y, group), dual._means.fast_queue.rows
    assert before >= size and dual.weights.max() > 0
    torch.testing.assert_close(value, asked, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(*(torch.autograd.grad(v, s)[0] for v in (value, asked)), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("size", "steps"), [(8, 64), *(pytest.param(*p, marks=pytest.mark.long) for p in ((64, 32), (512, 20)))]
)
def test_small_batches_are_put_together_and_multipliers_keep_their_pace(size, steps):
    """The pace from step 320 to 640: before, the rows that estimates look back on become more at each update."""
    group, options = torch.arange(size) % 2, {"group_names": ["a", "b"], "dual_step_size": 0.01, "decay": 0.0}
    waiting, fixed = [Dual("demographic_parity <= 0.1", dual_every=every, **options) for every in (None, 20)]
    together, moved = Dual("demographic_parity <= 0.1", distributed=True, **options), []
    losses, early = Dual("loss_gap <= 0.1", **options), []
    for k in range(1, 641):
        for dual in (waiting, fixed, together, losses):
            dual.loss(1 - 2.0 * group, group, group)
            dual.step()
        moved += [k] if waiting.state_dict()["weighed"] == k else []
        early = early if k > 320 else [dual.multipliers for dual in (waiting, fixed)]
        assert together.state_dict()["weighed"] == losses.state_dict()["weighed"] == k // 20 * 20
    assert moved == list(range(steps, 641, steps))
    paces = [dual.multipliers - before for dual, before in zip((waiting, fixed), early, strict=True)]
    torch.testing.assert_close(*paces, rtol=1e-9, atol=0)
    assert paces[0].max() == pytest.approx(min(1, size / 128) * 16 * 0.01 * 0.9, rel=1e-9)
    waiting.loss(1 - 2.0 * group, group, group)
    waiting.step()
    assert waiting.report().rows == 641 * size and waiting.state_dict()["queue"]["sizes"] == [size]


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
    with pytest.raises(NonFiniteError, match="1 of 3 rows of batch 51; groups group: 1"):
        dual.loss(*batch)
    dual, _ = trained(STATED[0], nonfinite="skip")
    assert dual.loss(*batch).item() == 0.0 and dual.report().skipped == 1 and dual.report().rows == 50 * B


def test_a_loop_has_second_derivatives_whenever_it_takes_them():
    dual, _ = trained(STATED[2], torch.float64, steps=70)
    s = torch.linspace(-1, 1, B, dtype=torch.float64, requires_grad=True)
    y, g = torch.arange(B) % 2, torch.arange(B) // 3 % 2
    for _ in range(3):
        assert dual.weights.max() > 0 and dual.loss(s, y, g).grad_fn.name().startswith("DotBackward")
        assert torch.autograd.gradgradcheck(lambda s: dual.loss(s, y, g), s)
        assert dual._means.fast_queue.rows
        dual.step()


def test_a_loss_without_a_graph_and_in_autocast():
    dual, _ = trained(STATED[1])
    s, y, g = torch.linspace(-1, 1, B, requires_grad=True), torch.arange(B) % 2, torch.arange(B) // 3 % 2
    plain = dual.loss(s, y, g)
    with torch.no_grad():
        alone = dual.loss(s, y, g)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = dual.loss(s, y, g)
    assert plain == alone == cast and alone.grad_fn is None and cast.dtype == torch.float32
    assert torch.equal(*(torch.autograd.grad(v, s)[0] for v in (plain, cast)))
