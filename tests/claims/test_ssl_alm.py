"""SSL-ALM against Algorithm 2 of Kliachkin et al. (2025): unbiased G, slacks, the reset at M_y, a loop by hand."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from fairbound.base.errors import OptionError
from fairbound.methods import SSLALM, algorithm
from fairbound.methods.ssl_alm import SSLALMState
from fairbound.problems.problem import Draws
from fairbound.testing import PROBLEMS, run
from twelve_rows import tiny


def paper(**options):
    """Algorithm 2 as the paper runs it, with options on top."""
    return algorithm("ssl_alm:paper", **options)


X = torch.tensor([0.6, -0.8, 0.3], dtype=torch.float64)
STATE = SSLALMState(
    x=X,
    k=0,
    multipliers=torch.tensor([0.7, -0.4], dtype=torch.float64),
    s=torch.tensor([0.2, 0.1], dtype=torch.float64),
    z=X - torch.tensor([0.1, 0.2, -0.3], dtype=torch.float64),
    zs=torch.tensor([0.0, 0.3], dtype=torch.float64),
)
# a dual step so small that y + eta (c + s) is y in float64: G at a given y, as the lemma has it
FIXED_Y = paper(dual_step_size=1e-300)


def enumerated(eta=1e-300):
    """Five rows, two groups: every one-row xi, and every zeta of one row per group, all equally likely."""
    problem = tiny("loss_gap <= 0.02", rows=[0, 1, 5, 6, 9])
    rows, pairs = {}, {}
    for k in range(400):
        xi, zeta = problem.sample((0,), "xi", k, 1, "uniform"), problem.sample((0,), "zeta", k, 2, "balanced")
        rows[tuple(xi.features.flatten().tolist())] = xi
        pairs[tuple(zeta.features.flatten().tolist())] = zeta
    assert len(rows) == 5 and len(pairs) == 2 * 3
    return problem, list(rows.values()), list(pairs.values()), paper(dual_step_size=eta)


def gradient_of_K(config, problem, y):
    """grad K = grad f + grad c' (y + rho (c + s)) + mu (x - z), and its part in s, on all rows."""
    e, jacobian = problem.jacobian(STATE.x, problem.full())
    w = y + config.penalty * (e.g + STATE.s)
    in_x = jacobian[0] + w @ jacobian[1:] + config.smoothing * (STATE.x - STATE.z)
    return in_x, w + config.smoothing * (STATE.s - STATE.zs)


def mean(parts):
    return [torch.stack(p).mean(0) for p in zip(*parts, strict=True)]


def test_G_is_an_unbiased_gradient_of_K():
    """E[G] = grad K over independent xi, zeta1, zeta2 (section 3.3), to rounding: an enumeration has no noise."""
    problem, rows, pairs, config = enumerated()
    g_x, g_s, y = mean(config.estimate(STATE, problem, *z) for z in product(rows, pairs, pairs))
    in_x, in_s = gradient_of_K(config, problem, STATE.multipliers)
    assert torch.allclose(y, STATE.multipliers, rtol=0, atol=1e-15)
    assert torch.allclose(g_x, in_x, rtol=0, atol=1e-14) and torch.allclose(g_s, in_s, rtol=0, atol=1e-14)


def test_G_is_biased_where_zeta1_and_zeta2_are_the_same_sample():
    """The bias is rho Cov(grad c, c), which is far from zero here: the two samples must be independent."""
    problem, rows, pairs, config = enumerated()
    g_x, _, _ = mean(config.estimate(STATE, problem, xi, z, z) for xi, z in product(rows, pairs))
    in_x, _ = gradient_of_K(config, problem, STATE.multipliers)
    values, slopes = zip(*((e.g, j[1:]) for e, j in (problem.jacobian(STATE.x, z) for z in pairs)), strict=True)
    values, slopes = torch.stack(values), torch.stack(slopes)
    covariance = ((values - values.mean(0)).unsqueeze(-1) * (slopes - slopes.mean(0))).mean(0).sum(0)
    assert torch.allclose(g_x - in_x, config.penalty * covariance, rtol=0, atol=1e-14)
    assert float(covariance.abs().max()) > 0.01


def test_the_multiplier_step_shares_zeta1_with_the_slope_and_adds_its_covariance():
    """y+ and grad c come from the same zeta1 (lines 5 and 8), so with eta > 0 the mean is grad K(y + eta (c + s)) plus
    eta Cov(grad c, c): the lemma holds for given y+, and this is by how much it fails otherwise."""
    problem, rows, pairs, config = enumerated(eta=0.05)
    g_x, _, y = mean(config.estimate(STATE, problem, *z) for z in product(rows, pairs, pairs))
    full = problem.values(STATE.x, problem.full()).g
    assert torch.allclose(y, STATE.multipliers + 0.05 * (full + STATE.s), rtol=0, atol=1e-14)
    in_x, _ = gradient_of_K(config, problem, y)
    values, slopes = zip(*((e.g, j[1:]) for e, j in (problem.jacobian(STATE.x, z) for z in pairs)), strict=True)
    values, slopes = torch.stack(values), torch.stack(slopes)
    covariance = ((values - values.mean(0)).unsqueeze(-1) * (slopes - slopes.mean(0))).mean(0).sum(0)
    assert torch.allclose(g_x, in_x + 0.05 * covariance, rtol=0, atol=1e-14)


def test_the_three_samples_of_a_step_are_different_streams():
    problem = tiny("loss_gap <= 0.02")
    asked = []

    class Listening(Draws):
        def __call__(self, name, k, size=None, sampling=None):
            asked.append((name, k, size))
            return super().__call__(name, k, size, sampling)

    draws = Listening(problem, (0,), 4)
    config = paper(constraint_batch_size=6)
    state = config.init(problem, problem.start((0,)), draws)
    config.step(config.step(state, problem, draws), problem, draws)
    assert asked == [(n, k, s) for k in (0, 1) for n, s in (("xi", None), ("zeta1", 6), ("zeta2", 6))]


@pytest.mark.parametrize("name", ["two_sided", "box", "ball", "weakly_convex"])
@pytest.mark.parametrize("smoothing", [0.0, 2.0])
def test_steps_equal_algorithm_2_written_by_hand(name, smoothing):
    """Lines 4 to 10 in numpy, 200 steps without noise."""
    problem = PROBLEMS[name]()
    c = paper(smoothing=smoothing, step_size=0.02, dual_step_size=0.5, multiplier_bound=1.5)
    state = run(c, problem, 200, batch_size=4)
    x = problem.start((0,)).numpy()
    y, s, z, zs = np.zeros(problem.m), np.zeros(problem.m), x.copy(), np.zeros(problem.m)
    full, resets = problem.sample((0,), "a", 0, 1, "full"), 0
    for _ in range(200):
        e, J = (t if isinstance(t, torch.Tensor) else t.g for t in problem.jacobian(torch.tensor(x), full))
        g, J = e.numpy(), J.numpy()
        y = y + c.dual_step_size * (g + s)
        if np.linalg.norm(y) >= c.multiplier_bound:
            y, resets = np.zeros_like(y), resets + 1
        w = y + c.penalty * (g + s)
        G_x = J[0] + w @ J[1:] + smoothing * (x - z)
        G_s = w + smoothing * (s - zs)
        z, zs = z + c.centre_step * (x - z), zs + c.centre_step * (s - zs)
        x = problem.domain.project(torch.tensor(x - c.step_size * G_x)).numpy()
        s = np.maximum(s - c.step_size * G_s, 0)
    for ours, theirs in ((state.x, x), (state.multipliers, y), (state.s, s), (state.z, z), (state.zs, zs)):
        assert np.allclose(ours.numpy(), theirs, rtol=0, atol=1e-12)
    assert resets > 0 or name != "weakly_convex"  # its multiplier, 2.4, lies beyond the bound


def test_slacks_stay_in_the_cone_and_multipliers_restart_at_their_bound():
    problem = PROBLEMS["infeasible"]()
    seen = []
    config = paper(multiplier_bound=2.0, dual_step_size=0.3)
    run(config, problem, 300, after=lambda s: seen.append((s.s.clone(), s.multipliers.clone())))
    slacks, multipliers = (torch.stack(v) for v in zip(*seen, strict=True))
    assert bool((slacks >= 0).all())
    norms = multipliers.norm(dim=-1)
    assert float(norms.max()) < config.multiplier_bound
    restarts = (norms[1:] == 0) & (norms[:-1] > 0)
    assert int(restarts.sum()) >= 2  # the multipliers of an infeasible problem grow without end, and restart


def test_a_constraint_that_a_sample_lacks_leaves_its_multiplier_alone():
    problem = tiny("loss_gap <= 0.02")
    batches = [problem.sample((0,), "u", k, 2, "uniform") for k in range(40)]
    lacking = next(b for b in batches if b.seen is not None and not b.seen.any())
    whole = problem.full()
    _, _, y = paper().estimate(STATE, problem, whole, lacking, whole)
    assert torch.equal(y, STATE.multipliers)
    g_x, g_s, _ = FIXED_Y.estimate(STATE, problem, whole, whole, lacking)
    _, jacobian = problem.jacobian(STATE.x, whole)
    assert torch.allclose(g_x, jacobian[0] + STATE.multipliers @ jacobian[1:] + 2.0 * (STATE.x - STATE.z))
    assert torch.allclose(g_s, STATE.multipliers + 2.0 * (STATE.s - STATE.zs))


def test_the_margin_moves_every_constraint_inside_its_bound():
    """With a share of the bound as margin, G and y+ are those of the bounds that are tighter by that share."""
    stated = tiny("loss_gap <= 0.02")
    tighter = stated.with_bounds(0.75 * stated.bounds)
    ours = paper(margin=0.25).estimate(STATE, stated, *3 * [stated.full()])
    theirs = paper().estimate(STATE, tighter, *3 * [stated.full()])
    assert all(torch.allclose(a, b, rtol=0, atol=1e-14) for a, b in zip(ours, theirs, strict=True))


def test_steps_decay():
    """After 3 * decay_steps steps with decay 1/2, tau and eta are half of what they were."""
    problem = PROBLEMS["two_sided"]()
    draws = Draws(problem, (0,), 4)

    def after(config):
        state = config.init(problem, problem.start((0,)), draws)
        return config.step(replace(state, k=300), problem, draws)

    decaying = after(paper(decay=0.5, decay_steps=100.0))
    halved = after(paper(step_size=0.005, dual_step_size=0.025))
    assert torch.equal(decaying.x, halved.x) and torch.equal(decaying.multipliers, halved.multipliers)
    assert not torch.equal(decaying.x, after(paper()).x)


def test_the_paper_s_preset_has_its_numbers_and_options_are_checked():
    c = paper()
    assert (c.decay, c.margin, c.constraint_batch_size) == (0.0, 0.0, 0)
    assert (c.smoothing, c.penalty, c.step_size, c.dual_step_size, c.centre_step, c.multiplier_bound) == (
        2.0, 1.0, 0.01, 0.05, 0.5, 10.0,
    )  # fmt: skip
    for bad in (
        {"step_size": 0},
        {"dual_step_size": -1},
        {"smoothing": -1},
        {"multiplier_bound": float("nan")},
        {"margin": 1},
    ):
        with pytest.raises(OptionError, match=next(iter(bad))):
            SSLALM(**bad)
