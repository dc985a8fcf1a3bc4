"""Networks under bounds on areas whose decay validation rows choose."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fairbound.fairness.problem import FairProblem
from fairbound.problems.penalised import Proximal
from fairbound.studies import shrunk_network
from fairbound.studies.shrunk_network import DECAYS, GroupScaled, group_scaled, network, shrunk
from fairbound.studies.task import Before
from fairbound.tables.group_terms import with_terms


def rows(n, seed):
    """Features (n, 3), labels and groups; one feature tells the groups apart and the label too."""
    rng = np.random.default_rng(seed)
    group = (rng.random(n) < 0.3).astype(int)
    x = rng.normal(size=(n, 3)) + 0.8 * group[:, None]
    y = (x[:, 0] + rng.normal(size=n) > 0.5).astype(int)
    return x.astype(np.float32), y, np.array(["a", "b"])[group]


def problem(n, seed, bound, model, terms=False):
    x, y, group = rows(n, seed)
    x = with_terms(x, (group == "b").astype(int), 2) if terms else x
    return FairProblem(model, x, y, group, [f"auc_parity[group] <= {bound}"], objective="auc")


def test_a_network_that_knows_groups_scales_and_shifts_its_score():
    net = nn.Linear(2, 1)
    made = GroupScaled(net, 2)
    x = torch.randn(6, 2)
    inside = torch.tensor([0.0, 1.0, 0.0, 1.0, 1.0, 0.0])
    features = torch.column_stack([x, inside, inside[:, None] * x])
    own = net(x).squeeze(-1)
    assert torch.equal(made(features), own)
    with torch.no_grad():
        made.terms.copy_(torch.tensor([0.5, -2.0]))
    assert made(features).detach().numpy() == pytest.approx(
        torch.where(inside == 1, 1.5 * own - 2, own).detach().numpy()
    )


def test_a_network_without_bounds_is_scaled_and_shifted_within_both_bounds():
    model = network(7, 0, True)
    made = [problem(n, seed, 0.05, model, terms=True) for n, seed in ((300, 0), (200, 1))]
    free = network(3, 1, False).start(torch.Generator())
    plain = problem(300, 0, 0.05, network(3, 1, False))
    before = Before("")
    x = group_scaled(*made, free, before)
    assert before.steps > 0 and before.samples > 0
    assert max(float(part.evaluate(x).violation) for part in made) <= 0
    assert float(plain.evaluate(free).violation) > 0
    before, after = plain.all_scores(free).numpy(), made[0].all_scores(x).numpy()
    inside = made[0].features[:, 3].numpy() == 1
    for part in (inside, ~inside):
        slope, constant = np.polyfit(before[part], after[part], 1)
        assert after[part] == pytest.approx(slope * before[part] + constant, abs=1e-4 * float(np.ptp(after)))


def test_starts_are_of_the_seed_and_leave_the_global_generator():
    torch.manual_seed(3)
    state = torch.get_rng_state()
    first, again, other = (network(4, seed, False).start(torch.Generator()) for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.fixture
def pair():
    model = network(3, 0, False)
    return problem(300, 0, 0.05, model), problem(200, 1, 0.05, model)


def test_it_is_the_decay_of_the_largest_validation_area_that_meets_both_bounds(pair, monkeypatch):
    train, held = pair
    tried, solve = {}, shrunk_network.solve

    def watched(decayed, *args, **options):
        tried[decayed.strength] = solve(decayed, *args, **options)
        return tried[decayed.strength]

    monkeypatch.setattr(shrunk_network, "solve", watched)
    before = Before("")
    found = shrunk(train, held, train.start((0,)), 0, "20 steps", before)
    assert before.steps == sum(s.steps for s in tried.values())  # also of those not taken
    assert before.samples == sum(s.counts.samples for s in tried.values())
    assert tuple(tried) == DECAYS
    area = {d: 1 - float(held.evaluate(s.x).f) for d, s in tried.items() if bool(s.feasible)}
    assert len(area) > 1 and 1 - float(held.evaluate(found.x).f) == max(area.values()) > min(area.values())
    assert max(float(part.evaluate(found.x).violation) for part in pair) <= 0
    small, large = (float(tried[d].x.norm()) for d in (DECAYS[-1], DECAYS[0]))
    assert small < large


def test_where_no_decay_meets_the_validation_rows_their_bounds_are_constraints_too(pair, monkeypatch):
    train, held = pair
    asked = []

    def on_both(decayed, method, solution, **options):
        asked.append((type(decayed), bool(solution.feasible)))
        return replace(solution, steps=solution.steps + 7)

    monkeypatch.setattr(shrunk_network, "also_on_validation", on_both)
    shrunk(train, held.with_bounds(torch.full((held.m,), -1.0)), train.start((0,)), 0, "2 steps", before := Before(""))
    assert asked == [(Proximal, False)] and before.steps == 2 * len(DECAYS) + 7
