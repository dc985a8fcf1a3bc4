"""What compiled bounds say of themselves: objectives, dual scales, and how many rows show a bound."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fairbound.base.errors import OptionError
from fairbound.fairness.comparing import Compared
from fairbound.fairness.compiled.statistics import LOSS
from fairbound.fairness.notions import constraint
from fairbound.fairness.objectives import LargestGroupLoss, objective_of
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import MLP
from fairbound.rows.occurring import Occurring
from fairbound.testing import check_gradient


def problem(stated=None, seed=0, n=120, **options):
    rng = np.random.default_rng(seed)
    columns = {"sex": rng.choice(["F", "M"], n), "race": rng.choice(["a", "b", "c"], n)}
    return FairProblem(MLP(2), rng.normal(size=(n, 2)), (rng.random(n) < 0.4).astype(int), columns, stated, **options)


@pytest.mark.parametrize(
    ("text", "attributes"),
    [("largest_group_loss", "each"), ("largest_group_loss[crossed]", "crossed"), ("largest_group_loss[by=sex]", ("sex",))],
)  # fmt: skip
def test_an_objective_is_read(text, attributes):
    assert objective_of(text) == LargestGroupLoss(attributes) and objective_of(f" {text} ").text == text


@pytest.mark.parametrize(
    "text",
    ["largest_group_loss <= 0.2", "largest_group_losses", "largest_group_loss[y=1]", "largest_group_loss[largest=2]",
     "largest_group_loss[empty=drop]", "group_loss", "smallest"],
)  # fmt: skip
def test_what_an_objective_cannot_say_is_refused_and_not_left_out(text):
    with pytest.raises(OptionError, match="objective"):
        objective_of(text)


@pytest.mark.parametrize("sharpness", [0.5, 1.0, 4.0])
def test_dual_scale_is_one_over_four_times_the_steepest_slope(sharpness):
    """Slopes of sigmoid(t s) are at most t / 4, those of the logistic loss 1, found here on a grid."""
    made = problem([f"demographic_parity[by=sex,sharpness={sharpness}] <= 0.1", "group_loss[by=race] <= 0.4"])
    s = torch.linspace(-40, 40, 80_001, dtype=torch.float64)
    steepest = [float(f.slope(s, torch.zeros_like(s)).abs().max()) for f in made._functions]
    expected = [0.25 / steepest[0]] * 2 + [0.25 / steepest[1]] * 3
    assert made.dual_scale.tolist() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("bound", [0.02, 0.1, 0.5])
def test_rows_that_can_show_a_bound_have_a_standard_error_no_larger(bound):
    """sqrt(p (1 - p) / n) <= bound at p = 1/2, the largest; of a ratio 1 / sqrt(n) is at most what lies below 1."""
    n = constraint(f"demographic_parity <= {bound}").fewest_rows
    assert np.sqrt(0.25 / n) == pytest.approx(bound)
    assert 1 / np.sqrt(constraint(f"demographic_parity_ratio >= {1 - bound}").fewest_rows) == pytest.approx(
        max(bound, 0.05)
    )


@pytest.mark.parametrize("least", [0.5, 0.8, 1.0])
def test_a_ratio_can_spare_what_lies_between_its_bound_and_equality(least):
    """At the rate q of positive labels in both groups, least q - q <= 0 has (1 - least) q to spare."""
    made = problem(f"demographic_parity_ratio >= {least}")
    q = float(made.targets.mean())
    assert made.bounds.tolist() == pytest.approx([(1 - least) * q] * made.m, rel=1e-6, abs=1e-12)


def test_groups_of_one_stratum_alone_are_paired():
    """Three departments of two sexes: a pair in each, and no other."""
    occurring = Occurring.every(("dept", "sex"), (("a", "b", "c"), ("F", "M")))
    compared = Compared.of(occurring, (0, 1), within=1)
    names = [(compared.name(a), compared.name(b)) for a, b in zip(*compared.pairs("pairwise"), strict=True)]
    assert names == [(f"{d} & F", f"{d} & M") for d in "abc"]


class Shares:
    """An objective of one's own: 0.3 times the loss of the positive rows and 0.7 times that of the negative ones."""

    needs = frozenset()
    text = "shares"

    def compile_objective(self, builder):
        column = builder.cells(LOSS, (), (1, 0), lambda: ["all"], ())
        builder.minimise([column.offset, column.offset + 1], [0.3, 0.7])


def test_an_objective_may_weigh_its_parts():
    make = lambda **options: problem("demographic_parity <= 0.1", objective=Shares(), **options)  # noqa: E731
    check_gradient(lambda **options: make(**{"dtype": torch.float64, **options}), kinds=("full",), points=2)
    made = make(dtype=torch.float64)
    x = made.start((1,))
    s, y = made.all_scores(x), made.targets
    loss = torch.nn.functional.softplus(s) - y * s
    wanted = 0.3 * loss[y == 1].mean() + 0.7 * loss[y == 0].mean()
    assert float(made.evaluate(x).f) == pytest.approx(float(wanted), abs=1e-12)


@pytest.mark.parametrize(
    "stated",
    [
        ["demographic_parity <= 0.1", "equalized_odds <= 0.2"],
        ["demographic_parity[overall] <= 0.1"],
        ["loss_gap[best] <= 0.1"],
    ],
)
def test_sums_of_some_contrasts_are_those_of_all_and_of_their_terms(stated):
    made = problem(stated)
    contrasts, q = (
        made.contrasts,
        torch.rand(made.plan.n_cells + 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0)),
    )
    everything = np.arange(len(made.plan.index))
    sums, terms = contrasts.raw(q, everything)
    assert torch.allclose(sums, contrasts.values(q)[0] + contrasts.bounds, rtol=0, atol=1e-15)
    assert torch.allclose((terms * contrasts.coefficient).sum(-1), sums, rtol=0, atol=1e-15)
    some = everything[1::2]
    assert all(
        torch.equal(part, whole[some]) for part, whole in zip(contrasts.raw(q, some), (sums, terms), strict=True)
    )


@pytest.mark.parametrize(
    "stated", ["demographic_parity[by=race] <= 0.1", "equalized_odds[by=race] <= 0.1", "loss_gap[by=race] <= 0.1"]
)
def test_a_plan_tells_which_contrasts_are_one_group_less_another(stated):
    """By what they are, and not by how they are called: of two bounds, each finds its own."""
    plan = problem([stated, "demographic_parity[overall] <= 0.1", "demographic_parity_ratio[by=race] >= 0.5"]).plan
    for one, other in ((0, 1), (1, 0), (2, 0)):
        found = [plan.names[i] for i in plan.differences(one, other)]
        assert found and all(f"{'abc'[one]} - {'abc'[other]}" in name for name in found)
        assert len(found) == sum(f": {'abc'[one]} - {'abc'[other]}" in name for name in plan.names)
    assert not len(plan.differences(0, 0)) and not len(plan.differences(0, 7))
