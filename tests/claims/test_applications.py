"""LNSY20's Neyman-Pearson and fair-ratio problems: formulas, gradients, unbiased batches, dense against CSR, bad input."""

import itertools

import numpy as np
import pytest
import torch
from scipy import sparse

from fairbound.base.errors import DataError, NonFiniteError, OptionError
from fairbound.fairness.evaluation import batches
from fairbound.fairness.evaluation.row_sums import IndexedSums, StratifiedSums, entry_rows
from fairbound.instances import (
    INSTANCES,
    Block,
    LinearTerms,
    Term,
    fair_ratio,
    instance,
    neyman_pearson,
)
from fairbound.methods.alm import ALM
from fairbound.methods.sgd import SGD
from fairbound.problems.domain import Ball, Product, Space
from fairbound.problems.wrappers import Counted
from fairbound.rows.sampling import Rows, balanced_layout
from fairbound.testing import (
    check_counts,
    check_dtype,
    check_gradient,
    check_repeatable,
    check_resume,
    check_stacked,
    check_subgradient,
)

RNG = np.random.default_rng(5)
X = RNG.normal(size=(24, 4)) * (RNG.random((24, 4)) < 0.7)
X[:, 3] += 0.1
CLASSES = np.array(list("aaaabbbbbbbbbbbccccccccc"))
LABELS = (RNG.random(24) < 0.4).astype(int)
M, F = X[:9], X[9:14] + 0.3


def positive_shares(problem, x):
    """(...,) expected shares of positives, mean_M sigma(z) and mean_F sigma(z), of x (..., n), from all rows."""
    shares = [torch.clamp(problem.scores(x, group) + 0.5, 0, 1).mean(-1) for group in ("M", "F")]
    return shares[0], shares[1]


def pearson(form=np.asarray, **options):
    return neyman_pearson(form(X), CLASSES, **options)


def ratio(form=np.asarray, **options):
    return fair_ratio(form(X), LABELS, form(M), form(F), **options)


FORMS = {"dense": np.asarray, "csr": sparse.csr_matrix}
BUILDERS = {"pearson": pearson, "ratio": ratio}
MAKERS = [
    pytest.param(lambda b=b, f=f, loss=loss, **o: b(f, loss=loss, **o), id=f"{name}-{form}-{loss}")
    for (name, b), (form, f), loss in itertools.product(BUILDERS.items(), FORMS.items(), ("hinge", "logistic"))
]
HINGES = [
    pytest.param(lambda b=b, f=f, **o: b(f, **o), id=f"{n}-{m}") for n, b in BUILDERS.items() for m, f in FORMS.items()
]


def on_cpu(make):
    """A maker that also takes the device the checks name."""
    return lambda dtype=torch.float64, device="cpu": make(dtype=dtype)


# -- formulas -----------------------------------------------------------------------------------------------------


def pearson_by_loops(x, first="a", phi=lambda z: max(0.0, 1 - z)):
    """(14) as it stands in the paper: one double sum for each class."""
    order = [first, *(c for c in "abc" if c != first)]
    W = x.reshape(3, 4)
    out = []
    for i, label in enumerate(order):
        rows = X[label == CLASSES]
        total = sum(phi(float((W[i] - W[other]) @ a)) for a in rows for other in range(3) if other != i) / len(rows)
        out.append(total - (2.0 if i else 0.0))
    return np.array(out)


def ratio_by_loops(x, kappa=0.95):
    def mean(rows, value):
        return sum(value(float(a @ x)) for a in rows) / len(rows)

    def up(z):
        return max(0.0, z + 0.5)

    f = sum(max(0.0, 1 - (2 * b - 1) * float(a @ x)) for a, b in zip(X, LABELS, strict=True)) / len(X)
    sides = [mean(p, up) + mean(q, lambda z: up(-z)) / kappa - 1 / kappa for p, q in ((M, F), (F, M))]
    return np.array([f, *sides])


def functions(measured):
    return torch.cat([measured.f.unsqueeze(-1), measured.g], -1)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_formulation_14_by_loops(form):
    for seed in range(5):
        x = np.random.default_rng(seed).normal(size=12)
        for first in "abc":
            found = functions(pearson(form, first=first).evaluate(torch.as_tensor(x)))
            np.testing.assert_allclose(found, pearson_by_loops(x, first), rtol=1e-12, atol=1e-12)
        logistic = functions(pearson(form, loss="logistic").evaluate(torch.as_tensor(x)))
        expected = pearson_by_loops(x, phi=lambda z: np.log1p(np.exp(-z)))
        np.testing.assert_allclose(logistic, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_convex_form_of_15_by_loops(form):
    for seed in range(5):
        x = np.random.default_rng(seed).normal(size=4)
        np.testing.assert_allclose(
            functions(ratio(form).evaluate(torch.as_tensor(x))), ratio_by_loops(x), rtol=1e-12, atol=1e-12
        )


def test_the_start_is_what_the_papers_settings_need():
    p, q = pearson(), ratio(kappa=0.8)
    at = p.evaluate(p.start((0,)))
    assert float(at.f) == 2 and at.g.tolist() == [0, 0]  # r_i = m - 1: feasible, with no room
    at = q.evaluate(q.start((0,)))
    assert float(at.f) == pytest.approx(1, abs=1e-12)
    assert at.g.tolist() == pytest.approx([(1 + 1 / 0.8) / 2 - 1 / 0.8] * 2, abs=1e-12)  # strictly feasible
    assert p.start((0, 1)).shape == (2, 12) and not p.start((0, 1)).any()


def test_a_correct_prediction_costs_less():
    """The paper prints phi(-b a'x), with which the two inequalities below would be reversed."""
    rows, labels = np.array([[2.0, 0.0], [-2.0, 0.0]]), np.array([1, -1])
    problem = fair_ratio(rows, labels, rows, rows)
    right = torch.tensor([1.0, 0.0], dtype=torch.float64)
    assert float(problem.evaluate(right).f) == 0 < float(problem.evaluate(-right).f) == 3
    order = neyman_pearson(rows, labels)
    right = torch.tensor([-1.0, 0.0, 1.0, 0.0], dtype=torch.float64)  # class -1 first
    assert float(order.evaluate(right).f) == 0 < float(order.evaluate(-right).f) == 5


def test_feasible_points_keep_the_ratio_of_shares():
    """Feasible in the convex form implies (15); the converse fails."""
    problem, kappa, met = ratio(kappa=0.8), 0.8, 0
    for seed in range(200):
        x = torch.as_tensor(np.random.default_rng(seed).normal(size=4)) * 0.3
        m, f = positive_shares(problem, x)
        scores = M @ x.numpy()
        assert float(m) == pytest.approx(float(np.clip(scores + 0.5, 0, 1).mean()))
        if bool((problem.evaluate(x).g <= 0).all()):
            met += 1
            assert kappa * float(m) <= float(f) + 1e-12 and kappa * float(f) <= float(m) + 1e-12
    assert met >= 20
    same = fair_ratio(X, LABELS, X, X, kappa=0.8)
    x = torch.full((4,), 3.0, dtype=torch.float64)
    m, f = positive_shares(same, x)
    assert float(m) == float(f) and bool((same.evaluate(x).g > 0).any())


# -- gradients ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", MAKERS)
def test_the_verbs_agree_with_differences_and_each_other(make):
    for seeds, size in (((0,), 8), ((0,), 1), ((0, 1, 2), 2)):
        check_gradient(make, seeds=seeds, batch_size=size, points=1, kinds=("balanced", "uniform", "shuffled", "full"))
    check_subgradient(make)


def by_autograd(problem, x):
    """F_0 .. F_m of the whole data as dense torch expressions, differentiated by torch."""
    x = x.clone().requires_grad_()

    def mean(rows, value):
        return value(torch.as_tensor(rows) @ W.T).mean()

    W = x.view(problem.classes, 4)
    if problem.classes == 3:
        F_ = [
            mean(X[c == CLASSES], lambda s, i=i: (1 - (s[:, [i]] - s)).clamp_min(0).sum(1) - 1) - (2.0 if i else 0.0)
            for i, c in enumerate("abc")
        ]
    else:
        signs = torch.as_tensor(2.0 * LABELS - 1)
        inverse = 1 / 0.95
        up, down = (lambda s: (s + 0.5).clamp_min(0)), (lambda s: (0.5 - s).clamp_min(0))
        F_ = [
            mean(X, lambda s: (1 - signs * s[:, 0]).clamp_min(0)),
            mean(M, up) + inverse * mean(F, down) - inverse,
            mean(F, up) + inverse * mean(M, down) - inverse,
        ]
    return torch.stack(F_).detach(), torch.stack([torch.autograd.grad(v, x, retain_graph=True)[0] for v in F_])


@pytest.mark.parametrize("make", HINGES)
def test_the_jacobian_is_that_of_autograd(make):
    problem = make()
    for seed in range(5):
        x = torch.as_tensor(np.random.default_rng(seed).normal(size=problem.n))
        F_, J = by_autograd(problem, x)
        evaluation, jacobian = problem.jacobian(x, problem.full())
        torch.testing.assert_close(functions(evaluation), F_, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(jacobian, J, rtol=1e-12, atol=1e-12)


# -- batches ------------------------------------------------------------------------------------------------------


def possible_batches(problem, size, kind):
    """Every (row numbers, rows each stands for or None, probability) that a batch of this kind can be."""
    starts, sizes = problem.strata.starts, problem.strata.sizes
    if kind == "uniform":
        for rows in itertools.product(range(problem.rows), repeat=size):
            yield rows, None, problem.rows**-size
        return
    layout = balanced_layout(problem.strata, size)
    if layout is None:
        subsets = list(itertools.combinations(range(len(sizes)), size))
        for subset in subsets:
            scale = torch.as_tensor(sizes[list(subset)]).double() * len(sizes) / size
            for inside in itertools.product(*(range(sizes[b]) for b in subset)):
                chance = 1 / len(subsets) / np.prod(sizes[list(subset)])
                yield [starts[b] + i for b, i in zip(subset, inside, strict=True)], scale[None, None], chance
        return
    places = [
        [whole] if whole >= 0 else range(sizes[b])
        for b, whole in zip(layout.positions.tolist(), layout.within.tolist(), strict=True)
    ]
    chance = 1 / np.prod([len(choices) for choices in places])
    for inside in itertools.product(*places):
        rows = [starts[b] + i for b, i in zip(layout.positions.tolist(), inside, strict=True)]
        yield rows, layout.scale, chance


@pytest.mark.parametrize(
    ("size", "kind"), [(3, "balanced"), (5, "balanced"), (2, "balanced"), (1, "balanced"), (2, "uniform")]
)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("which", ["pearson", "ratio"])
def test_the_mean_over_all_batches_is_the_whole(monkeypatch, which, form, size, kind):
    rows = X[[0, 1, 2, 5, 6, 7, 8]]
    if which == "pearson":
        problem = neyman_pearson(form(rows), [0, 0, 1, 1, 1, 2, 2])
    else:
        problem = fair_ratio(form(rows[:2]), [0, 1], form(rows[2:5]), form(rows[5:]))
    x = torch.as_tensor(np.random.default_rng(0).normal(size=problem.n))
    whole, slopes = problem.jacobian(x, problem.full())
    values, jacobian, total = torch.zeros(1 + problem.m, dtype=torch.float64), torch.zeros_like(slopes), 0.0
    real = batches.draw_rows
    for number, (at, scale, chance) in enumerate(possible_batches(problem, size, kind)):

        def drawn(*arguments, at=at, scale=scale):
            made = real(*arguments)
            index = torch.as_tensor(np.array(at)).expand_as(made.index)
            assert (made.scale is None) == (scale is None)
            if scale is not None and scale.dim() == 1:
                assert made.fixed and torch.equal(made.scale, scale)
            elif scale is not None:
                scale = scale.expand_as(made.scale)
            return Rows(index, scale, made.fixed)

        monkeypatch.setattr(batches, "draw_rows", drawn)
        batch = problem.sample((0,), f"stream {number}", 0, size, kind)
        evaluation, J = problem.jacobian(x, batch)
        assert batch.size == size and len(at) == size
        values, jacobian, total = values + chance * functions(evaluation), jacobian + chance * J, total + chance
    assert total == pytest.approx(1)
    torch.testing.assert_close(values, functions(whole), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(jacobian, slopes, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("make", HINGES)
def test_an_epoch_without_replacement_is_the_whole(make):
    problem = make()
    size = problem.rows // 2 if problem.rows % 2 == 0 else 1
    x = torch.as_tensor(np.random.default_rng(0).normal(size=problem.n))
    epoch = [problem.values(x, problem.sample((0,), "e", k, size, "shuffled")) for k in range(problem.rows // size)]
    mean = torch.stack([functions(e) for e in epoch]).mean(0)
    torch.testing.assert_close(mean, functions(problem.evaluate(x)), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("make", HINGES)
def test_a_balanced_batch_holds_equally_many_rows_of_every_block(make):
    problem = make()
    batch = problem.sample((0,), "b", 0, 12, "balanced")
    weights = batch.row_sums.vjp(torch.eye(1 + problem.m, dtype=torch.float64))
    per_block = [int((w.view(-1, 12) > 0).any(0).sum()) for w in weights]
    assert per_block == ([4, 4, 4] if problem.classes == 3 else [4, 8, 8])
    again = problem.sample((0,), "b", 0, 12, "balanced")
    other = problem.sample((0,), "b", 1, 12, "balanced")
    x = torch.arange(problem.n, dtype=torch.float64)
    assert torch.equal(problem.values(x, batch).g, problem.values(x, again).g)
    assert not torch.equal(problem.values(x, batch).g, problem.values(x, other).g)
    assert problem.sample((0,), "b", 0, problem.rows, "balanced") is problem.full()


@pytest.mark.parametrize("make", HINGES)
def test_a_full_batch_summed_block_by_block_is_the_sum_over_rows(make):
    """Values, gradients and both ways to the Jacobian of the whole, with blocks summed first and without."""
    problem, plain = make(), make()
    full = problem.full()
    plain.sample((0,), "all", 0, problem.rows, "balanced").row_sums = IndexedSums(
        problem.cells.flatten(),
        entry_rows(problem.plan, problem.rows),
        problem._cell_shares(problem.cells, torch.ones_like(problem.targets)).flatten(),
        problem.joint,
    )
    assert isinstance(full.row_sums, StratifiedSums) and not isinstance(plain.full().row_sums, StratifiedSums)
    for lead in ((), (2,)):
        rng = np.random.default_rng(len(lead))
        x, w = (torch.as_tensor(rng.normal(size=(*lead, size))) for size in (problem.n, problem.m))
        torch.testing.assert_close(functions(problem.values(x, full)), functions(plain.values(x, plain.full())))
        one, other = (p.gradient(x, p.full(), (0.5, w))[1] for p in (problem, plain))
        torch.testing.assert_close(one, other)
        one, other = (p.jacobian(x, p.full())[1] for p in (problem, plain))
        torch.testing.assert_close(one, other)
        torch.testing.assert_close(problem.jacobian(x, full, [1, 0])[1], one[..., [1, 0], :])


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_csr_rows_give_what_dense_rows_give(name, seeds):
    dense, csr = BUILDERS[name](np.asarray), BUILDERS[name](sparse.csr_matrix)
    lead = () if len(seeds) == 1 else (len(seeds),)
    for seed, kind in enumerate(("balanced", "uniform", "shuffled", "full")):
        rng = np.random.default_rng(seed)
        x, dx = (torch.as_tensor(rng.normal(size=(*lead, dense.n))) for _ in range(2))
        w = torch.as_tensor(rng.normal(size=(*lead, dense.m)))
        one, other = (p.sample(seeds, "s", seed, 7, kind) for p in (dense, csr))
        torch.testing.assert_close(csr.jvp(x, other, dx), dense.jvp(x, one, dx))
        torch.testing.assert_close(csr.jacobian(x, other)[1], dense.jacobian(x, one)[1])
        for weights in ((0.5, w), (1.0, None), lambda e: (1.0, e.g)):
            a, b = (p.gradient(x, batch, weights) for p, batch in ((dense, one), (csr, other)))
            torch.testing.assert_close(b[1], a[1])
        torch.testing.assert_close(functions(csr.evaluate(x)), functions(dense.evaluate(x)))


def test_products_class_by_class_and_all_at_once_agree():
    """CSR products go class by class where there are many features for few stored entries."""
    rng = np.random.default_rng(0)
    wide = sparse.random(30, 400, density=0.01, format="csr", random_state=rng)
    narrow = wide[:, :40].tocsr()
    for rows in (wide, narrow):
        one, other = (neyman_pearson(form(rows), np.arange(30) % 3) for form in (lambda a: a, lambda a: a.toarray()))
        x = torch.as_tensor(rng.normal(size=one.n))
        torch.testing.assert_close(one.jacobian(x, one.full())[1], other.jacobian(x, other.full())[1])


def test_csr_rows_are_never_made_dense(monkeypatch):
    for name in ("toarray", "todense"):
        monkeypatch.setattr(sparse.csr_matrix, name, lambda *a, **o: pytest.fail("made dense"))
    for build in BUILDERS.values():
        problem = build(sparse.csr_matrix)
        for seeds in ((0,), (0, 1)):
            x = problem.start(seeds)
            for kind in ("balanced", "uniform", "full"):
                batch = problem.sample(seeds, "a", 0, 6, kind)
                problem.gradient(x, batch, lambda e: (1.0, torch.ones_like(e.g)))
                problem.jacobian(x, batch)
            problem.evaluate(x)
        problem.ranges()


# -- what solve relies on -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", HINGES)
@pytest.mark.parametrize("config", [SGD(step_size=0.05), ALM(step_size=0.05)], ids=["sgd", "alm"])
def test_methods_run_as_on_any_problem(make, config):
    make = on_cpu(make)
    check_resume(config, make, steps=8, at=(1, 5))
    for check in (check_repeatable, check_dtype, check_counts):
        check(config, make, steps=5)
    for sampling in ("balanced", "uniform", "shuffled"):
        check_stacked(config, make, sampling=sampling, steps=5)
    check_counts(config, make, seeds=(0, 1), sampling="uniform", steps=5)


def test_a_stack_is_measured_like_its_runs():
    for problem in (pearson(), ratio(), pearson(sparse.csr_matrix), ratio(sparse.csr_matrix)):
        x = torch.as_tensor(np.random.default_rng(0).normal(size=(3, problem.n)))
        many = functions(problem.evaluate(x))
        torch.testing.assert_close(many, torch.stack([functions(problem.evaluate(one)) for one in x]))


@pytest.mark.parametrize("make", HINGES)
def test_counts_are_rows_touched(make):
    problem = Counted(make())
    x = problem.start((0,))
    problem.values(x, problem.sample((0,), "a", 0, 9, "uniform"))
    problem.gradient(x, problem.sample((0,), "a", 0, 6, "balanced"), (1.0, None))
    problem.jvp(x, problem.full(), x)
    problem.jacobian(x, problem.full())
    counts = problem.counts
    assert (counts.values, counts.gradients, counts.jvps, counts.jacobians) == (1, 1, 1, 1)
    assert counts.samples == 15 + 2 * problem.rows and problem.rows == sum(problem.blocks.values())


def test_domains_and_starts():
    assert ratio().domain == Ball(5.0) and LinearTerms([Block("a", X)], [Term(0, 0, "ramp")], []).domain == Space()
    domain = pearson(radius=2.0).domain
    assert isinstance(domain, Product) and domain.sizes == [4, 4, 4] and domain.parts == [Ball(2.0)] * 3
    given = LinearTerms([Block("a", X)], [Term(0, 0, "ramp")], [], start=np.ones(4))
    assert given.start((0,)).tolist() == [1] * 4 and given.m == 0
    assert given.evaluate(given.start((0, 1))).g.shape == (2, 0)


def test_bounds_of_each_class_follow_the_order():
    problem = pearson(first="b", bound=[0.5, 1.5])
    assert problem.names == ("loss of class a", "loss of class c")
    assert problem.bounds.tolist() == [0.5, 1.5] and list(problem.blocks.values()) == [11, 4, 9]
    assert problem.evaluate(problem.start((0,))).g.tolist() == [1.5, 0.5]


# -- ranges -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", MAKERS)
def test_ranges_hold_for_every_row_and_point(make):
    problem = make(radius=2.0)
    over_all = problem.ranges()
    for seed in range(20):
        x = problem.domain.project(torch.as_tensor(np.random.default_rng(seed).normal(size=problem.n) * 2))
        here = problem.ranges(x)
        assert bool((over_all.low <= here.low + 1e-12).all() and (here.high <= over_all.high + 1e-12).all())
        for b, block in enumerate(problem.blocks):
            scores, first = problem.scores(x, block), int(problem.strata.starts[b])
            labels = problem.targets[first : first + problem.blocks[block]]
            rows = sum(A[:, b : b + 1] * loss.value(scores, labels) for loss, A in problem.losses)
            assert bool((rows <= here.high[:, [b]] + 1e-12).all() and (rows >= here.low[:, [b]] - 1e-12).all())


def test_ranges_are_attained():
    rows = np.array([[3.0, 4.0], [0.1, 0.0]])
    problem = fair_ratio(rows, [0, 1], rows, rows, radius=2.0, kappa=0.5)
    worst = torch.tensor([0.6, 0.8], dtype=torch.float64) * 2  # along the longest row, which has label 0
    score = float(problem.scores(worst, "labelled").max())
    ranges = problem.ranges()
    assert score == pytest.approx(10)
    assert ranges.high.tolist() == [[11, 0, 0], [0, 10.5, 21], [0, 21, 10.5]] and not ranges.low.any()
    two = neyman_pearson(rows, [0, 1], radius=2.0)
    torch.testing.assert_close(two.ranges().high, torch.tensor([[21, 0], [0, 1.4]], dtype=torch.float64))
    torch.testing.assert_close(two.ranges().low, torch.tensor([[0, 0], [0, 0.6]], dtype=torch.float64))
    assert two.ranges(torch.zeros(3, 4, dtype=torch.float64)).high.shape == (3, 2, 2)
    with pytest.raises(OptionError, match="no ranges"):
        LinearTerms([Block("a", X)], [Term(0, 0, "ramp")], []).ranges()


# -- instances ----------------------------------------------------------------------------------------------------

PENDIGITS = [780, 779, 780, 719, 780, 720, 720, 778, 719, 719]
MNIST = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
ROWS = {
    "np-connect-4-binary": ([50922, 16635], 2 * 126, 1),
    "np-connect-4-head": ([444, 85, 1816], 3 * 126, 2),
    "np-mnist-test": (MNIST, 10 * 784, 9),
    "np-pendigits": (PENDIGITS, 10 * 16, 9),
    "fair-a9a": ([32561, 10860, 5421], 123, 2),
    "fair-a9a-paper-column": ([32561, 14720, 1561], 123, 2),
    "fair-acs": ([382835, 199550, 183285], 821, 2),
}


def test_instances_are_named():
    assert set(INSTANCES) == {*ROWS, "inventory-2-10-10", "inventory-5-10-8", "inventory-2-5-10"}
    with pytest.raises(OptionError, match="unknown instance 'fair'; known: inventory-2-10-10"):
        instance("fair")


@pytest.mark.parametrize("name", ROWS)
def test_rows_of_every_instance(name, data_dir):
    if name in ("np-connect-4-binary", "fair-acs"):
        pytest.importorskip("pandas")
    blocks, n, m = ROWS[name]
    problem = instance(name, data_dir)
    assert list(problem.blocks.values()) == blocks and problem.rows == sum(blocks)
    assert (problem.n, problem.m, problem.name) == (n, m, name)
    at = problem.evaluate(problem.start((0,)))
    if name.startswith("np"):
        assert float(at.f) == pytest.approx(m, abs=1e-9) and at.g.abs().max() < 1e-9
        assert problem.bounds.tolist() == [m] * m and problem.radius == 5
        assert float(problem.matrix.min()) >= 0 and float(problem.matrix.max()) == 1
    else:
        assert float(at.f) == pytest.approx(1, abs=1e-9)
        assert at.g.tolist() == pytest.approx([(1 + 1 / 0.95) / 2 - 1 / 0.95] * 2, abs=1e-9)
        assert sparse.issparse(problem.matrix) and problem.domain == Ball(5.0)
    if name == "fair-acs":
        labelled = problem.matrix[: blocks[0], :1].toarray()
        assert abs(labelled.mean()) < 1e-9 and labelled.std() == pytest.approx(1)


# -- bad input ----------------------------------------------------------------------------------------------------


def with_nan(form):
    bad = X.copy()
    bad[3, 2] = np.nan
    return form(bad)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda f: neyman_pearson(with_nan(f), CLASSES), "block 'class a' holds NaN"),
        (lambda f: fair_ratio(f(X), LABELS, with_nan(f), f(F)), "block 'M' holds NaN"),
        (lambda f: fair_ratio(f(X), LABELS, f(M[:0]), f(F)), "block 'M' has shape \\(0, 4\\)"),
        (lambda f: fair_ratio(f(X), LABELS, f(M), f(F[:, :3])), "different numbers of features: \\[3, 4\\]"),
        (lambda f: fair_ratio(f(X), LABELS[:-1], f(M), f(F)), "24 rows but labels of shape \\(23,\\)"),
        (lambda f: fair_ratio(f(X), np.ones(24), f(M), f(F)), "must hold both labels"),
        (lambda f: fair_ratio(f(X), LABELS + 1, f(M), f(F)), "must hold both labels"),
        (lambda f: neyman_pearson(f(X), np.zeros(24)), "1 classes; .* at least two"),
        (lambda f: neyman_pearson(f(X), CLASSES[:-2]), "24 rows but y has shape \\(22,\\)"),
        (lambda f: neyman_pearson(f(X), np.full(24, np.nan)), "y holds NaN"),
    ],
)
def test_unusable_rows_are_refused(form, call, words):
    with pytest.raises(DataError, match=words):
        call(form)


BLOCK = [Block("a", X)]
ONE = [Term(0, 0, "ramp")]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: pearson(radius=-1.0), OptionError, "radius must be a positive"),
        (lambda: ratio(radius=0.0), OptionError, "radius must be a positive"),
        (lambda: ratio(kappa=0.0), OptionError, "kappa"),
        (lambda: ratio(kappa=1.01), OptionError, "kappa"),
        (lambda: ratio(loss="squared"), OptionError, "loss must be one of hinge, logistic"),
        (lambda: pearson(loss="ramp"), OptionError, "loss must be one of"),
        (lambda: pearson(first="z"), OptionError, "first='z' is not among the labels: a, b, c"),
        (lambda: pearson(bound=[1.0]), OptionError, "bound must be a positive number, or 2"),
        (lambda: pearson(bound=-1.0), OptionError, "bound must be a positive"),
        (lambda: pearson(bound=float("nan")), OptionError, "bound must be a positive"),
        (lambda: LinearTerms([], ONE, []), DataError, "there are no rows"),
        (lambda: LinearTerms([Block("a", X[0])], ONE, []), DataError, "must be a matrix"),
        (lambda: LinearTerms([Block("a", np.array([["x"]]))], ONE, []), DataError, "something else than numbers"),
        (lambda: LinearTerms([*BLOCK, Block("b", sparse.csr_matrix(X))], ONE, []), DataError, "some sparse"),
        (lambda: LinearTerms([Block("a", X, 2)], ONE, []), DataError, "whole numbers from 0 to 1"),
        (lambda: LinearTerms([*BLOCK, *BLOCK], ONE, []), OptionError, "block names repeat"),
        (lambda: LinearTerms(BLOCK, [], []), OptionError, "function 0 has no term"),
        (lambda: LinearTerms(BLOCK, ONE, [1.0]), OptionError, "function 1 has no term"),
        (lambda: LinearTerms(BLOCK, [Term(1, 0, "ramp")], []), OptionError, "names function 1"),
        (lambda: LinearTerms(BLOCK, [Term(0, 1, "ramp")], []), OptionError, "names block 1"),
        (lambda: LinearTerms(BLOCK, [Term(0, 0, "ramp", -1.0)], []), OptionError, "coefficient must be positive"),
        (
            lambda: LinearTerms(BLOCK, [Term(0, 0, "margin_hinge")], []),
            OptionError,
            "unknown loss 'margin_hinge' for 1",
        ),
        (lambda: LinearTerms(BLOCK, [*ONE, Term(1, 0, "ramp")], [np.inf]), OptionError, "bounds must be finite"),
        (lambda: LinearTerms(BLOCK, ONE, [], classes=0), OptionError, "classes must be at least 1"),
        (lambda: LinearTerms(BLOCK, ONE, [], names=["g"]), OptionError, "1 names for 0"),
        (lambda: LinearTerms(BLOCK, ONE, [], start=np.ones(3)), OptionError, "start must be 4 finite"),
        (lambda: LinearTerms(BLOCK, ONE, [], dtype=torch.float16), OptionError, "dtype must be"),
        (lambda: ratio().sample((0,), "a", 0, 4, "sorted"), OptionError, "unknown sampling 'sorted'"),
    ],
)
def test_wrong_use_is_explained(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("make", HINGES)
def test_a_point_that_is_not_finite_is_named(make):
    problem = make()
    x, batch = problem.start((0,)) + torch.nan, problem.sample((0,), "zeta", 3, 6, "balanced")
    for call in (
        lambda: problem.values(x, batch),
        lambda: problem.gradient(x, batch, lambda e: (1.0, None)),
        lambda: problem.jacobian(x, batch),
    ):
        with pytest.raises(NonFiniteError, match="batch 3 of stream 'zeta'"):
            call()
    with pytest.raises(NonFiniteError, match="lower the step size"):
        problem.evaluate(x)
