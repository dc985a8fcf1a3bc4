"""What Dual takes besides labels of 0 and 1: weights, soft labels, a score for every class, bounds on classes."""

from __future__ import annotations

import copy
import pickle
import re
import warnings

import numpy as np
import pytest
import torch
from torch.nn import functional

from fairbound.base.errors import CheckpointError, DataError, DataWarning, EmptyGroupError, NonFiniteError, OptionError
from fairbound.optim import Dual

pytestmark = pytest.mark.filterwarnings("ignore:.*too few training rows")  # what is tested here is not the data

N = 60
STATED = ["demographic_parity <= 0.05", "equal_opportunity[overall] <= 0.05", "loss_gap <= 0.02"]


def rows(seed=0, classes=2):
    made = torch.Generator().manual_seed(seed)
    s = torch.randn(N, *([classes] if classes > 2 else []), generator=made, dtype=torch.float64)
    return s, torch.randint(0, classes, (N,), generator=made), torch.randint(0, 3, (N,), generator=made)


def dual(stated=STATED, **options):
    kind = {"group_names": ["a", "b", "c"]} | options
    return Dual(stated, dual_every=1, memory=1e9, **kind)


def settled(made, *batch, **more):
    """The Dual after one step on the batch, so that its multipliers weigh."""
    made.observe(*batch, **more)
    made.step()
    assert made.multipliers.any()
    return made


def value_and_slope(made, s, *batch, **more):
    leaf = s.clone().requires_grad_()
    value = made.loss(leaf, *batch, **more)
    return value.detach(), torch.autograd.grad(value, leaf)[0]


def test_a_weight_of_two_is_the_row_twice():
    """Sums and counts take the weights, so weights (1, 2, 0) equal rows once, twice, not at all; only B differs."""
    s, y, group = rows()
    weight = torch.arange(N) % 3
    times = torch.repeat_interleave(torch.arange(N), weight)
    one = settled(dual(), s, y, group, weight=weight)
    two = settled(dual(), s[times], y[times], group[times])
    assert one.values() == pytest.approx(two.values(), abs=1e-12)
    torch.testing.assert_close(one.multipliers, two.multipliers, rtol=1e-12, atol=1e-14)
    f, slope = value_and_slope(one, s, y, group, weight=weight)
    g, twice = value_and_slope(two, s[times], y[times], group[times])
    share = len(times) / N  # the loss is divided by the rows of the batch
    joined = torch.zeros_like(slope).index_add_(0, times, twice)
    constant = float(one.weights @ one._compiled.contrasts.bounds)
    torch.testing.assert_close(slope, joined * share, rtol=1e-9, atol=1e-12)
    assert float(f) + constant == pytest.approx((float(g) + constant) * share, abs=1e-9)


def test_rows_of_weight_zero_are_rows_that_a_batch_lacks():
    made = dual(group_names=["a", "b"])
    for weight in ([1, 1, 0], [1, 1, 1]):
        made.observe(torch.tensor([1.0, -1.0, 1.0]), [1, 0, 1], [0, 0, 1], weight=weight)
        made.step()
    assert made.report().lacking["b"] == 1 and made.report().unmeasured == ()


def test_a_score_of_nan_in_a_row_of_weight_zero_does_not_count_where_nothing_is_differentiated():
    s, y, group = rows()
    weight = (torch.arange(N) > 4).double()
    padded = torch.where(weight > 0, s, torch.nan)
    found = dual().measure([(padded, y, group, weight)])
    assert found == dual().measure([(s[5:], y[5:], group[5:])])
    one, other = settled(dual(), padded, y, group, weight=weight), settled(dual(), s, y, group, weight=weight)
    assert one.values() == other.values() and torch.equal(one.weights, other.weights)
    with torch.no_grad():
        assert one.loss(padded, y, group, weight=weight) == other.loss(s, y, group, weight=weight)
    with pytest.raises(NonFiniteError, match="weigh 0, but a gradient that passes a NaN is NaN"):
        one.loss(padded.requires_grad_(), y, group, weight=weight)


def test_a_batch_of_equal_weights_is_one_without():
    s, y, group = rows()
    one, two = settled(dual(), s, y, group), settled(dual(), s, y, group, weight=torch.ones(N))
    torch.testing.assert_close(one.multipliers, two.multipliers)
    for a, b in zip(
        value_and_slope(one, s, y, group), value_and_slope(two, s, y, group, weight=torch.ones(N)), strict=True
    ):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("stated", [STATED, ["f1_parity <= 0.05"]])
def test_weights_of_any_size_keep_loss_and_bounds_in_balance(stated):
    """Survey weights of a hundred people a row: all is a hundred times as large, and as sure as without."""
    s, y, group = rows()
    one = settled(dual(stated), s, y, group)
    many = settled(dual(stated), s, y, group, weight=torch.full((N,), 100.0))
    torch.testing.assert_close(many.weights, one.weights)
    (f, slope), (g, larger) = (
        value_and_slope(one, s, y, group),
        value_and_slope(many, s, y, group, weight=torch.full((N,), 100.0)),
    )
    torch.testing.assert_close(100 * f, g)
    torch.testing.assert_close(100 * slope, larger)
    for name in ("values", "standard_errors", "raised", "rests_on"):
        assert getattr(many.report(), name) == pytest.approx(getattr(one.report(), name))


def test_rows_of_unequal_weights_count_as_so_many_fewer():
    """Kish's number: two weights of 3 and six of 1 are 12^2 / 24 = 6 rows, and tell as surely as so many."""
    made = Dual("demographic_parity <= 0.05", group_names=["a", "b"], memory=1e9)
    weight = torch.tensor([3, 3, 1, 1, 1, 1, 1, 1]).repeat_interleave(2)
    made.observe(torch.randn(16), torch.arange(16) // 2 % 2, torch.arange(16) % 2, weight=weight)
    assert list(made.report().rests_on.values()) == [6, 6]


def test_a_row_with_a_soft_label_is_one_row_of_its_group():
    made = Dual("demographic_parity <= 0.05", group_names=["a", "b"], soft_targets=True, memory=1e9)
    group, halves = torch.arange(200) % 2, torch.full((200,), 0.5)
    made.observe(torch.randn(200), halves, group)
    assert list(made.report().rests_on.values()) == [100, 100]
    made.observe(torch.randn(200), halves, group, weight=torch.full((200,), 7.0))
    assert sum(made.report().rests_on.values()) == pytest.approx(2 * 800**2 / 5000, abs=1)
    odds = Dual("equalized_odds <= 0.05", group_names=["a", "b"], soft_targets=True, memory=1e9)
    odds.observe(torch.randn(200), torch.full((200,), 0.05), group)
    assert sorted(odds.report().rests_on.values()) == [5, 5, 95, 95]


@pytest.mark.parametrize("bounds", ["demographic_parity <= 0.05", "recall of class 1 >= 0.9"])
def test_a_loop_may_write_over_its_scores_and_labels_afterwards(bounds):
    s, y, group = rows()
    given = (group.int(),) if "parity" in bounds else ()
    made, kept = (
        Dual(bounds, **({"group_names": ["a", "b", "c"]} if given else {"classes": 2}), memory=1e9) for _ in range(2)
    )
    s = s if given else torch.stack([-s, s], -1)
    written, labels = s.clone(), y.clone()
    made.loss(written.requires_grad_(), labels, *given)
    kept.loss(s, y, *given)
    written.detach().sigmoid_()
    labels.fill_(0)
    assert made.values() == kept.values() and next(iter(made.values().values())) > 0


def test_a_loss_without_a_graph_stays_out_of_the_estimates_unless_asked():
    s, y, group = rows()
    made = dual()
    with torch.no_grad():
        made.loss(s, y, group)
        assert made.report().rows == 0
        made.loss(s, y, group, observe=True)
    assert made.report().rows == N
    made.loss(s, y, group, observe=False)
    made.loss(s, y, group)
    assert made.report().rows == 2 * N


def test_soft_labels_are_two_weighted_rows():
    s, _, group = rows()
    p = torch.rand(N, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    soft = settled(dual(soft_targets=True), s, p, group)
    both = torch.cat([s, s]), torch.cat([torch.ones(N), torch.zeros(N)]).long(), torch.cat([group, group])
    hard = settled(dual(), *both, weight=torch.cat([p, 1 - p]))
    assert soft.values() == pytest.approx(hard.values(), abs=1e-12) and soft.report().rows == N
    plain = dual(soft_targets=True)
    f, slope = value_and_slope(plain, s, p, group)
    leaf = s.clone().requires_grad_()
    reference = functional.binary_cross_entropy_with_logits(leaf, p)
    assert float(f) == pytest.approx(float(reference.detach()), abs=1e-12)
    torch.testing.assert_close(slope, torch.autograd.grad(reference, leaf)[0])
    with pytest.raises(DataError, match="soft_targets=True"):
        dual().loss(s, p, group)
    with pytest.raises(DataError, match=r"in \[0, 1\]"):
        plain.loss(s, p + 1, group)


def test_soft_labels_of_the_training_rows_say_which_labels_the_groups_have():
    p = np.array([0.2] * 50 + [0.9] * 40 + [1.0, 0.0])
    group = np.array(["a"] * 50 + ["b"] * 42)
    stated = {"groups": group, "soft_targets": True}
    soft = Dual("equal_opportunity <= 0.6", targets=torch.tensor(p, dtype=torch.float32), **stated)
    rows = soft._compiled.options.groups  # 10 rows of label 1 in a, where rounded labels have none
    counts = {
        (g, y): n for (g,), y, n in zip(rows.codes.tolist(), rows.targets.tolist(), rows.counts.tolist(), strict=True)
    }
    assert counts == {(0, 0): 40, (0, 1): 10, (1, 0): 5, (1, 1): 37} and rows.rows == len(p)
    with pytest.raises(EmptyGroupError, match="'a"):
        Dual("equal_opportunity <= 0.6", targets=np.round(p), **stated)
    s, codes = torch.randn(len(p)), soft.encode(group)
    rounded = Dual("demographic_parity <= 0.6", targets=np.round(p), **stated)
    same = Dual("demographic_parity <= 0.6", targets=p, **stated)
    for made in (rounded, same):
        made.loss(s, torch.tensor(p), codes)
    assert same.values() == rounded.values() and same.memory == rounded.memory
    again = pickle.loads(pickle.dumps(same))
    assert again.values() == same.values()
    with pytest.raises(DataError, match="targets must be 0 or 1"):
        Dual("demographic_parity <= 0.6", targets=p + 0.5, **stated)


CLASS_BOUNDS = ["recall of class b >= 0.9", "error of class c <= 0.1"]


def test_bounds_on_classes_weigh_their_rows():
    """The gradient is that of the mean loss plus w_j times the mean surrogate of the class, by autograd from its words."""
    s, y, _ = rows(classes=3)
    made = Dual(CLASS_BOUNDS, classes=["a", "b", "c"], dual_every=1, memory=1e9)
    settled(made, s, y)
    right = (s.argmax(1) == y).double()
    values = made.values()
    assert values["recall of class b >= 0.9"] == pytest.approx(float(right[y == 1].mean()), abs=1e-12)
    assert values["error of class c <= 0.1"] == pytest.approx(1 - float(right[y == 2].mean()), abs=1e-12)
    _, slope = value_and_slope(made, s, y)
    leaf = s.clone().requires_grad_()
    total = functional.cross_entropy(leaf, y)
    for weight, code in zip(made.weights.tolist(), (1, 2), strict=True):
        total = total + weight * (1 - torch.softmax(2.0 * leaf, 1)[:, code])[y == code].mean()
    torch.testing.assert_close(slope, torch.autograd.grad(total, leaf)[0], rtol=1e-8, atol=1e-10)


def test_a_loop_reaches_a_bound_on_a_class():
    made = torch.Generator().manual_seed(0)
    X = torch.randn(900, 2, generator=made)
    y = (X[:, 0] + 0.8 * torch.randn(900, generator=made) > 1.2).long() + (X[:, 1] > 1).long()
    found = {}
    for stated in (None, "recall of class 2 >= 0.9"):
        torch.manual_seed(0)
        net, bound = torch.nn.Linear(2, 3), stated and Dual(stated, classes=3, dual_every=5)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
        for k in range(400):
            part = torch.arange(k * 90 % 900, k * 90 % 900 + 90)
            loss = bound.loss(net(X[part]), y[part]) if bound else functional.cross_entropy(net(X[part]), y[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if bound:
                bound.step()
        found[stated] = float((net(X).argmax(1) == y)[y == 2].float().mean())
    assert found[None] < 0.8 < 0.88 < found["recall of class 2 >= 0.9"]


def test_groups_and_a_score_per_class():
    s, y, group = rows(classes=3)
    made = settled(dual("loss_gap <= 0.02", classes=3), s, y, group)
    losses = functional.cross_entropy(s, y, reduction="none")
    means = [float(losses[group == g].mean()) for g in range(3)]
    assert made.values()["loss_gap <= 0.02"] == pytest.approx(max(means) - min(means), abs=1e-12)
    with pytest.raises(OptionError, match=r"\(B, 3\), one real score per class"):
        made.loss(s[:, 0], y, group)


@pytest.mark.parametrize(
    "arguments, said",
    [
        ({"stated": "demographic_parity <= 0.1", "classes": 3}, "speaks of positive and negative"),
        ({"stated": "recall of class z >= 0.5", "classes": 3}, "no class 'z'"),
        ({"stated": "loss_gap <= 0.1", "classes": 1}, "two or more"),
        ({"stated": "loss_gap <= 0.1", "classes": ["a", "a"]}, "two or more different"),
        ({"stated": "loss_gap <= 0.1", "classes": 3, "loss": "hinge"}, "one score per row"),
        ({"stated": "loss_gap <= 0.1", "loss": "cross_entropy"}, "give classes="),
        ({"stated": "loss_gap <= 0.1", "classes": 3, "soft_targets": True}, "soft_targets"),
    ],
)
def test_what_cannot_be_meant(arguments, said):
    with pytest.raises((OptionError, DataError), match=said):
        Dual(group_names=["a", "b"], **arguments)


@pytest.mark.parametrize("weight", [[-1.0] * N, [float("nan")] * N])
def test_weights_that_cannot_be(weight):
    with pytest.raises(DataError, match="finite and not negative"):
        dual().loss(*rows(), weight=weight)
    with pytest.raises(OptionError, match="weight must be"):
        dual().loss(*rows(), weight=[1.0])


def test_probabilities_in_place_of_scores_are_refused():
    s, y, group = rows()
    for shaped in (lambda p: p, lambda p: p.unsqueeze(1), lambda p: p.view(-1, 1).squeeze(1)):
        with pytest.raises(OptionError, match="probabilities, made by a sigmoid"):
            dual().loss(shaped(torch.sigmoid(s.clone().requires_grad_())), y, group)
    own = Dual("loss_gap <= 0.1", group_names=["a", "b", "c"], loss=lambda p, y: (p - y).abs())
    assert own.loss(torch.sigmoid(s.clone().requires_grad_()), y, group).isfinite()
    late = dual()
    late.loss(s, y, group)
    late.step()
    with pytest.raises(OptionError, match="probabilities, made by a sigmoid"):
        late.measure([(torch.sigmoid(s.clone().requires_grad_()), y, group)])
    of_classes = Dual("recall of class 1 >= 0.9", classes=3)
    with pytest.raises(OptionError, match=r"takes the softmax itself\.$"):
        of_classes.loss(torch.randn(9, 3, requires_grad=True).softmax(1), torch.arange(9) % 3)


@pytest.mark.parametrize("loss", [torch.nn.BCELoss(reduction="none"), torch.nn.functional.binary_cross_entropy])
def test_losses_of_probabilities_are_refused_where_decisions_are_counted(loss):
    with pytest.raises(OptionError, match=r"BCELoss takes probabilities.*Leave loss= out and pass logits"):
        dual(loss=loss)
    assert Dual("loss_gap <= 0.1", group_names=["a", "b"], loss=loss).m


def test_a_loss_module_of_torch_is_taken_row_by_row():
    s, y = torch.randn(40, dtype=torch.float64, requires_grad=True), torch.arange(40) % 2
    stated = torch.nn.BCEWithLogitsLoss()
    values = [dual(loss=loss).loss(s, y, torch.arange(40) // 2 % 2) for loss in ("logistic", stated)]
    assert abs((values[0] - values[1]).item()) < 1e-12
    assert stated.reduction == "mean"
    scores = torch.randn(9, 3, requires_grad=True)
    of_classes = [
        Dual("recall of class 1 >= 0.1", classes=3, loss=loss) for loss in ("logistic", torch.nn.CrossEntropyLoss())
    ]
    assert len({round(one.loss(scores, torch.arange(9) % 3).item(), 5) for one in of_classes}) == 1


@pytest.mark.parametrize(
    ("stated", "change", "said"),
    [
        (
            "demographic_parity <= 0.1",
            torch.sigmoid,
            r"all scores lie in \[0, 1\]\. If the scores are probabilities, pass",
        ),
        ("loss_gap <= 0.1", torch.sigmoid, r"all scores lie in \[0, 1\]"),
        ("demographic_parity <= 0.1", torch.exp, "every row measured is decided positive.*pass the logits"),
        ("demographic_parity <= 0.1", lambda s: -s.abs(), r"every row measured is decided negative.*of the groups\.$"),
        ("loss_gap <= 0.1", torch.exp, None),
        ("demographic_parity <= 0.1", lambda s: s, None),
    ],
)
def test_measure_says_where_what_it_is_given_tells_nothing(stated, change, said):
    """Scores without a graph, as of a model in evaluation mode, do not say who made them."""
    s, y, group = rows()
    made = dual(stated)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        made.measure(part for part in [(change(s), y, group)] * 2)
    heard = [w for w in heard if "too few training rows" not in str(w.message)]
    assert len(heard) == (said is not None)
    if said:
        assert re.search(said, str(heard[0].message)) and heard[0].filename == __file__


def test_several_attributes_are_joined_to_one_key():
    """Every row's cells are those that the plan gives, whatever is missing."""
    names = {"sex": ["F", "M"], "race": ["x", "y", "z"], "age": ["o", "p"]}
    made = Dual(["demographic_parity[crossed] <= 0.1", "equalized_odds <= 0.1"], group_names=names)
    codes = torch.cartesian_prod(torch.arange(-1, 2), torch.arange(-1, 3), torch.arange(-1, 2), torch.arange(2))
    batch = made._compiled.keys.read(torch.zeros(len(codes)), codes[:, 3], codes[:, :3], None, False, True)
    assert (
        made._compiled.keys.table[batch.keys].tolist()
        == made.plan.cells(codes[:, :3].numpy(), codes[:, 3].numpy()).tolist()
    )
    with pytest.raises(DataError, match="group code 3 of 'race' in row 0"):
        made.loss(torch.zeros(1), [1], [[0, 3, 0]])
    with pytest.raises(OptionError, match="combinations"):
        Dual("demographic_parity <= 0.1", groups=[[0] * 9, [8] * 9], targets=[0, 1])


def test_to_and_repr():
    made = dual()
    assert made.to("cpu", torch.float64) is made
    assert repr(made) == (
        "Dual('demographic_parity <= 0.05', 'equal_opportunity[overall] <= 0.05', 'loss_gap <= 0.02', groups={'group': 3}, "
        f"m={made.m}, steps=0, largest multiplier=0)"
    )
    assert "classes=3" in repr(Dual("recall of class 1 >= 0.9", classes=3))


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda d: d.loss(torch.zeros(2, device="meta"), [0, 1], [0, 1]), "meta device holds no numbers"),
        (lambda d: d.to("meta"), "meta device holds no numbers"),
        (lambda d: d.to("nowhere"), "no device 'nowhere'"),
        (lambda d: d.loss(torch.zeros(2), torch.zeros(2, device="meta"), [0, 1]), "targets must be numbers"),
        (lambda d: d.loss(torch.zeros(2), None, [0, 1]), "targets must be numbers"),
        (lambda d: d.loss(torch.zeros(2), ["a", "b"], [0, 1]), "targets must be numbers"),
        (lambda d: d.loss(torch.zeros(2), [0, 1], torch.zeros(2, dtype=torch.int64, device="meta")), "integer codes"),
        (lambda d: d.loss(torch.zeros(2), [0, 1], [0, 1], weight="x"), "weight must be"),
        (lambda d: d.loss(torch.zeros(2), [0, 1], [0, 1], weight=[1j, 1j]), "weight must be"),
        (lambda d: d.loss([0.0, 1.0], [0, 1], [0, 1]), "scores must be a tensor"),
        (lambda d: d.observe(None, [0, 1], [0, 1]), "scores must be a tensor"),
        (lambda d: d.loss(torch.zeros(2).to_sparse(), [0, 1], [0, 1]), "one real score per row"),
    ],
)
def test_what_holds_no_numbers_is_refused_in_words(call, said):
    made = dual(group_names=["a", "b"])
    with pytest.raises(OptionError, match=said):
        call(made)
    assert made.loss(torch.zeros(2), [0, 1], [0, 1]).isfinite() and made.report().batches == 1


@pytest.mark.parametrize("copied", [lambda d: pickle.loads(pickle.dumps(d)), copy.deepcopy, copy.copy])
@pytest.mark.parametrize("groups", [{"groups": {"g": ["a", "b", "c"] * 2}, "targets": [0, 1, 0, 1, 0, 1]}, {}])
def test_a_dual_can_be_pickled_and_copied(copied, groups):
    s, y, group = rows()
    made = settled(
        dual(
            ["demographic_parity <= 0.05", "equalized_odds <= 0.1"],
            **groups,
            **({"group_names": None} if groups else {}),
        ),
        s,
        y,
        group,
    )
    made.loss(s, y, group)  # rows that no update has taken yet
    again = copied(made)
    for one in (made, again):
        one.step()
        one.loss(-s, y, group)
        one.step()
    assert torch.equal(made.multipliers, again.multipliers) and str(made.report()) == str(again.report())
    with pytest.raises(CheckpointError, match="NoneType"):
        again.load_state_dict(None)


@pytest.mark.parametrize("copied", [lambda d: pickle.loads(pickle.dumps(d)), copy.deepcopy])
def test_a_new_dual_which_has_measured_nothing_can_be_copied(copied):
    again = copied(dual(group_names=["a", "b"]))
    assert "not measured yet" in str(again.report())


def test_a_state_with_weights_comes_back_from_plain_data(tmp_path):
    s, y, group = rows()
    made = Dual(STATED, group_names=["a", "b", "c"], dual_every=3)
    for k in range(4):
        made.loss(s + k, y, group, weight=torch.rand(N) if k % 2 else None)
        made.step()
    torch.save(made.state_dict(), tmp_path / "d.pt")
    again = Dual(STATED, group_names=["a", "b", "c"], dual_every=3)
    again.load_state_dict(torch.load(tmp_path / "d.pt", weights_only=True))
    for one in (made, again):
        for k in range(4):
            one.loss(s - k, y, group)
            one.step()
    assert torch.equal(made.multipliers, again.multipliers) and made.values() == again.values()
    spoilt = copy.deepcopy(made.state_dict())
    spoilt["classes"] = ["no", "yes"]
    with pytest.raises(CheckpointError, match="its classes"):
        again.load_state_dict(spoilt)


def test_a_wrong_batch_says_what_to_pass():
    made = Dual("demographic_parity <= 0.1", group_names=["a", "b"])
    s, y, group = torch.randn(4), torch.tensor([0, 1, 0, 1]), torch.tensor([0, 0, 1, 1])
    with pytest.raises(OptionError, match="scores have 2 rows and group has 4; give both of the same batch"):
        made.loss(s[:2], y, group)
    for labels, words in ((2 * y - 1, "POSITIVE"), (y + 14.5, "residual_gap"), (y * 0.5, "soft_targets=True")):
        with pytest.raises(DataError, match=words):
            made.loss(s, labels, group)
    with pytest.raises(OptionError, match=r"pass group=, the codes that dual\.encode"):
        made.loss(s, y)
    with pytest.raises(OptionError, match=r"one row: use squeeze\(1\)"):
        made.loss(s[:1, None].squeeze(), y[:1], group[:1])
    with pytest.raises(OptionError, match=r"float32 \(4, 3\)\. For several classes"):
        made.loss(torch.zeros(4, 3), y, group)
    with pytest.raises(OptionError, match="the batch has no rows; leave it out"):
        made.loss(s[:0], y[:0], group[:0])
    with pytest.raises(OptionError, match=r"'auc_parity\[intra\] <= 0.1' needs more; .*FairClassifier\(model"):
        Dual("auc_parity[intra] <= 0.1", group_names=["a", "b"])


def test_complex_labels_and_codes_are_refused_at_every_step():
    made = Dual("demographic_parity <= 0.1", group_names=["a", "b"], dual_every=2)
    s, y, group = torch.randn(4), torch.tensor([0, 1, 0, 1]), torch.tensor([0, 0, 1, 1])
    for _ in range(3):
        with pytest.raises(OptionError, match=r"targets must be real numbers, got torch\.complex64"):
            made.loss(s, y + 0j, group)
        with pytest.raises(OptionError, match="group must be integer codes"):
            made.loss(s, y, group + 0j)
        made.loss(s, y, group)
        made.step()


def test_a_bound_on_rates_adds_three_nodes_of_autograd():
    """A sigmoid, its product with the weights and a sum, beside the loss; no product by a sharpness of 1. A usual batch has one in all."""
    made = Dual("demographic_parity <= 0.0", group_names=["a", "b"], dual_every=1)
    s, y, group = (
        torch.tensor([3.0, 2.0, -1.0, -2.0], requires_grad=True),
        torch.tensor([0, 1, 0, 1]),
        torch.tensor([0, 0, 1, 1]),
    )
    made.loss(s, y, group)
    made.step()
    assert made.loss(s, y, group).grad_fn.next_functions[0][0].name().endswith("AccumulateGrad")
    open_, seen = [made.loss(s, y, group, observe=False).grad_fn], []
    while open_:
        node = open_.pop()
        seen.append(node.name())
        open_ += [following for following, _ in node.next_functions if following is not None]
    assert sorted(name.rstrip("0123456789") for name in seen) == [
        "AddBackward", "BinaryCrossEntropyWithLogitsBackward", "DotBackward", "SigmoidBackward", "torch::autograd::AccumulateGrad",
        "torch::autograd::AccumulateGrad",
    ]  # fmt: skip


def test_targets_may_be_the_texts_of_the_classes():
    names, sex = ["a", "b", "c"], ["f", "m"] * 3
    y = ["a", "b", "c", "c", "b", "a"]
    bound = "class_demographic_parity <= 0.1"
    made = [Dual(bound, groups=sex, targets=t, classes=names) for t in (y, [names.index(v) for v in y])]
    texts, numbers = (dual._compiled.options.groups for dual in made)
    assert texts.targets.tolist() == numbers.targets.tolist() and texts.codes.tolist() == numbers.codes.tolist()
    assert len(set(texts.targets.tolist())) == 3
    with pytest.raises(DataError, match=r"among classes=\['a', 'b', 'c'\], got 'x'"):
        Dual(bound, groups=sex, targets=["x", *y[1:]], classes=names)
    with pytest.raises(DataError, match="class numbers 0 to 2"):
        Dual(bound, groups=sex, targets=y, classes=3)


@pytest.mark.parametrize("bound", ["demographic_parity <= 0.1", "equal_opportunity <= 0.1"])
def test_the_report_says_where_all_rows_are_decided_alike(bound):
    """Probabilities that a sigmoid written by hand made are all above 0; every bound on rates is then met by itself."""
    torch.manual_seed(0)
    s, y, group = torch.randn(64), torch.arange(64) % 2, torch.arange(64) // 2 % 2
    for scores, alike in ((1 / (1 + (-s).exp()), "positive"), (-s.abs(), "negative"), (s, None)):
        made = Dual(bound, group_names=["a", "b"])
        for _ in range(45):
            made.loss(scores, y, group)
            made.step()
        assert made.report().alike == alike
        assert ("pass the logits" in str(made.report())) == (alike == "positive")
    of_losses = Dual("loss_gap <= 0.1", group_names=["a", "b"])
    of_losses.loss(torch.full((64,), 100.0), torch.ones(64), group)  # losses of 0
    assert of_losses.report().alike is None


def decided(bound, labelled, share, apart, **kind):
    """A Dual after some steps of scores of which `share` are positive, `apart` more in group 1 than in 0; `labelled` of
    the labels are."""
    n = 2000
    place, group = torch.arange(n) % 1000 / 1000, torch.arange(n) // 1000
    y = (place < labelled).long()
    kind = kind or {"groups": group, "targets": y}
    made = Dual(bound, dual_every=1, **kind)
    for _ in range(3):
        made.loss(torch.where(place < share + apart * (group - 0.5), 1.0, -1.0), y, group)
        made.step()
    return made.report()


DP, EO = "demographic_parity <= 0.01", "equalized_odds <= 0.01"


@pytest.mark.parametrize(
    "bound, labelled, share, apart, said",
    [
        (DP, 0.63, 0.967, 0.04, ("positive", 0.967, 0.63)),
        (EO, 0.63, 0.967, 0.04, ("positive", 0.967, 0.63)),
        (DP, 0.3, 0.03, 0.04, ("negative", 0.97, 0.7)),
        (["equal_opportunity <= 0.5", DP], 0.63, 0.967, 0.04, ("positive", 0.967, 0.63)),
        (DP, 0.63, 0.94, 0.04, None),  # not nearly all
        (DP, 0.63, 0.967, 0.0, None),  # no multiplier has moved: not the bound's doing
        (DP, 0.95, 0.98, 0.03, None),  # as common as its label
        (DP, 0.08, 0.01, 0.02, None),  # models of rare labels decide so without a bound
        ("equal_opportunity <= 0.01", 0.5, 0.49, 0.04, None),  # nearly all positive ones are found
    ],
)
def test_the_report_says_where_nearly_all_rows_are_decided_alike(bound, labelled, share, apart, said):
    report = decided(bound, labelled, share, apart)
    assert report.alike is None and ("rates of a nearly constant model" in str(report)) == (said is not None)
    if said is None:
        assert report.nearly is None
    else:
        assert report.nearly.decided == said[0] and report.nearly[1:] == pytest.approx(said[1:], abs=2e-3)


def test_labels_of_a_stream_are_known_where_bounds_are_on_them():
    stream = {"group_names": ["a", "b"]}
    assert decided(DP, 0.63, 0.967, 0.04, **stream).nearly is None
    assert decided(EO, 0.63, 0.967, 0.04, **stream).nearly.labelled == pytest.approx(0.63, abs=2e-3)


@pytest.mark.parametrize("positive", [0.05, 0.1, 0.2, 0.9])
def test_loops_of_imbalanced_data_are_not_said_to_decide_nearly_all_alike(positive):
    rng = np.random.default_rng(0)
    group, X = rng.choice(["a", "b"], 3000), rng.normal(size=(3000, 4)).astype(np.float32)
    told = 2 * X[:, 0] + (group == "a") + rng.logistic(size=3000)
    y = (told > np.quantile(told, 1 - positive)).astype(int)
    torch.manual_seed(0)
    model, made = torch.nn.Linear(4, 1), Dual("demographic_parity <= 0.01", groups=group, targets=y)
    optimizer, features, codes = torch.optim.Adam(model.parameters(), 0.05), torch.tensor(X), made.encode(group)
    for _ in range(10):
        for i in torch.randperm(len(y)).split(100):
            optimizer.zero_grad()
            made.loss(model(features[i]), torch.tensor(y)[i], codes[i]).backward()
            optimizer.step()
            made.step()
    report = made.report()
    assert report.alike is None and report.nearly is None


def test_the_report_says_which_bounds_are_not_met_yet_and_what_may_help():
    said = str(decided(DP, 0.5, 0.5, 0.2))
    assert "not met yet: demographic_parity <= 0.01. Train longer" in said and "quarter dual_step_size" in said
    assert "not met yet" not in str(decided("demographic_parity <= 0.4", 0.5, 0.5, 0.2))


def test_estimates_look_back_one_pass_over_the_rows_at_most_but_32_rows_of_every_cell():
    rng = np.random.default_rng(0)
    of = lambda n, groups, stated, **kind: Dual(  # noqa: E731
        stated, groups=rng.integers(0, groups, n), targets=rng.integers(0, 2, n), **kind
    )
    parity = "demographic_parity <= 0.1"
    small = of(700, 2, parity)
    assert small.memory == 700 and pickle.loads(pickle.dumps(small)).memory == 700
    assert of(5000, 2, parity).memory == 2048
    assert of(700, 2, parity, memory=900).memory == 900
    assert of(700, 15, "equalized_odds <= 0.1").memory == 32 * 2 * 15
    stream = Dual(parity, group_names=["a", "b"])
    assert stream.memory == 2048 and pickle.loads(pickle.dumps(stream)).memory == 2048


@pytest.mark.parametrize(
    ("stated", "options"),
    [
        ("demographic_parity <= {}", {}),
        ("demographic_parity <= {}", {"classes": 2}),
        ("prediction_parity[at=50] <= {}", {"targets": np.arange(100.0)}),
        ("recall of class b >= {}", {"classes": ["a", "b"], "groups": None}),
    ],
)
def test_a_group_with_fewer_rows_than_its_bound_needs_is_warned_of_once(stated, options):
    group, y = np.array(["a"] * 97 + ["b"] * 3), np.array([0] * 97 + [1] * 3)
    options = {"groups": group, "targets": y if "recall" in stated else np.arange(100) % 2, **options}
    if "classes" in options and "recall" not in stated:
        stated = stated.replace("demographic", "class_demographic")
    fine, fails = (0.6, 0.7) if "recall" in stated else (0.34, 0.33)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Dual(stated.format(fine), **options)
    with pytest.warns(DataWarning) as said:
        made = Dual(stated.format(fails), **options)
    assert len(said) == 1 and said[0].filename == __file__
    assert str(said[0].message).startswith(f"{stated.format(fails)}: ")
    assert ("with only 3 training rows" if "recall" in stated else "this small in 'b' (3)") in str(said[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        copy.deepcopy(made)


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ("demographic_parity <= {}", ("within", "too close", "above")),
        ("demographic_parity_ratio >= {}", ("below", "too close", "within")),
    ],
)
def test_estimates_of_rates_have_their_standard_error_and_a_verdict_beyond_it_alone(stated, words):
    """Rates of 0.3 and 0.6 of 40 rows each; the error is that of new draws of as many rows."""
    group = torch.arange(80) % 2
    rng, rates = np.random.default_rng(0), np.array([0.3, 0.6])
    s = torch.where(torch.arange(80) // 2 < torch.tensor([12, 24])[group], 1.0, -1.0)
    again = rng.binomial(40, rates, (100_000, 2)) / 40
    ratio = "ratio" in stated
    value = 0.5 if ratio else 0.3
    spread = float((again[:, 0] / again[:, 1] if ratio else again[:, 1] - again[:, 0]).std())
    bounds = sorted((value + k * spread for k in (-1.2, 0.8, 1.2)), reverse=True)
    for bound, word in zip(bounds, words, strict=True):
        made = Dual(stated.format(round(bound, 6)), group_names=["a", "b"])
        made.loss(s, group, group)
        made.step()
        report = made.report()
        (error,), (drift,) = report.standard_errors.values(), report.drifts.values()
        assert error == pytest.approx(spread, rel=0.1) and drift == 0.0
        line = str(report).split("\n")[1]
        assert word in line and f"{value} ± {error:.2g}, " in line and sum(w in line for w in words) == 1, line
