"""Upper bounds on the constraints at a point that hold with a stated probability, and what convexity makes of them.

A method may do whatever it likes to find a point; the point is called feasible only once a certificate says so, and the
guarantee is the certificate's alone. Three kinds, each giving U_i with g_i(x) <= U_i for all i at once:

exact     one evaluation on a "full" batch; for a finite sum it costs one pass over its rows, and it cannot be wrong.
free      where no row can differ from another at x (all scores of a linear model are 0 at x = 0), any batch is exact.
sampled   rounds j = 0, 1, ... of n_j = FIRST_BATCHES 2^j independent balanced batches, whose means lie in the problem's `ranges`.
          Round j draws anew and bounds each of the m means with the empirical Bernstein inequality at level
          delta / (2^(j+1) m): by the union bound all bounds of all rounds hold together with probability at least
          1 - delta, however the number of rounds is decided. It ends when every U_i < 0, when a mean exceeds 0 by more
          than its width, or when the next round would pass the row limit.

Call number k = 0, 1, ... of a run gets delta_k = delta / 2^(k+1), and sum_k delta_k = delta: with probability at least
1 - delta no certificate of the run is ever wrong. Points and their number may depend on all that happened before, as
the batches of a certificate are independent of it.

Mixing. Let g be convex, U_a, U_b upper bounds at a and b. Then g(l a + (1 - l) b) <= l U_a + (1 - l) U_b, so that with
U_a < 0 every l >= max over i with U_b,i > 0 of U_b,i / (U_b,i - U_a,i) gives a feasible point, at no further cost in
rows and in probability.

Source: Maurer, Pontil (2009), Theorem 4, for the inequality; Lin, Nadarajah, Soheili, Yang (2020), Lemma 2, for what it
    replaces: the oracle's own error bound, whose constants are not known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairbound.base.errors import OptionError
from fairbound.confidence.single import bernstein_width
from fairbound.methods.failing import share_of_failure
from fairbound.problems.problem import Draws, Problem
from fairbound.problems.wrappers import innermost

FIRST_BATCHES = 64
LEAST_LEVEL = 1e-300
"""At a smaller level nothing is bounded."""


class Bounds(NamedTuple):
    """f: (...,) objective, exact or estimated; upper: (..., m) upper bounds on g; decided: (...,) whether the
    certificate said feasible or infeasible rather than giving up."""

    f: Tensor
    upper: Tensor
    decided: Tensor


class Mixture(NamedTuple):
    """share: (...,) of the anchor; f: (...,) and upper: (..., m) bounds at the mixture;
    inf where no mixture is feasible."""

    share: Tensor
    f: Tensor
    upper: Tensor


def rounding(problem: Problem, upper: Tensor) -> Tensor:
    """(...,) how far below 0 a computed g must lie for its sign to be beyond rounding; upper: (..., m) values of g."""
    large = torch.as_tensor(problem.bounds).abs().amax().to(upper) if problem.m else upper.new_zeros(())
    known = torch.where(torch.isfinite(upper), upper.abs(), 0.0)
    size = known.amax(-1) if problem.m else upper.new_zeros(upper.shape[:-1])
    return 1e3 * torch.finfo(upper.dtype).eps * (1 + large + size)


def exact(problem: Problem, x: Tensor, draws: Draws, call: int, true: bool = True) -> Bounds:
    """f (...,) and g (..., m) themselves at x (..., n) on a full batch, counted like any other call.

    true: of the metric where training has a surrogate."""
    e = problem.values(x, draws("certificate", call, sampling="full"), true=true)
    upper = e.g if e.seen is None else e.g.masked_fill(~e.seen, torch.inf)
    return Bounds(e.f, upper, torch.ones_like(e.f, dtype=torch.bool))


class Spread(NamedTuple):
    """low, high: (..., 1 + m), between which a balanced batch can show F_0 .. F_m, bounds r_i not subtracted; blocks:
    how many groups of rows are averaged apart, so that a batch of as many rows has one from each."""

    low: Tensor
    high: Tensor
    blocks: int


def spread(problem: Problem, x: Tensor) -> Spread | None:
    """What the problem's `ranges` at x (..., n) say of a batch; None where it has none."""
    found = problem.ranges(x)
    return None if found is None else Spread(found.low.sum(-1), found.high.sum(-1), found.low.shape[-1])


def check_ranges(problem: Problem, x: Tensor) -> Spread:
    """`spread`. Raises: OptionError where the problem has no `ranges` at x (..., n)."""
    found = spread(problem, x)
    if found is None:
        raise OptionError(
            f"a sampled certificate needs to know between what values one row can lie, but {type(innermost(problem)).__name__} "
            "has no `ranges`. Take certificate='exact'."
        )
    return found


def free(problem: Problem, x: Tensor, draws: Draws, size: int, true: bool = True) -> Bounds | None:
    """The bounds at x (..., n) from one small batch where no two rows differ there; None where they may."""
    ends = spread(problem, x)
    if ends is None:
        return None
    low, high, blocks = ends
    if not bool((high - low <= 1e-12 * (1 + high.abs())).all()):
        return None
    e = problem.values(x, draws("certificate-free", 0, max(size, blocks), "balanced"), true=true)
    upper = e.g + (high - low)[..., 1:]
    return None if e.seen is not None else Bounds(e.f, upper, torch.ones_like(e.f, dtype=torch.bool))


def sampled(
    problem: Problem,
    x: Tensor,
    draws: Draws,
    call: int,
    size: int,
    delta: float,
    most_rows: int,
    true: bool = True,
) -> Bounds:
    """Bounds at x (..., n) that hold at once with probability at least 1 - delta, from at most `most_rows` rows of each
    run.

    size: rows of a batch, raised to one from every block. delta: of this call, see `share_of_failure`.
    """
    ends = check_ranges(problem, x)
    low, high = (end.detach().cpu().numpy().astype(np.float64)[..., 1:] for end in ends[:2])
    size, lead = max(size, ends.blocks), x.shape[:-1]
    f, upper = x.new_full(lead, torch.inf), x.new_full((*lead, problem.m), torch.inf)
    decided = torch.zeros(lead, dtype=torch.bool, device=x.device)
    shown = torch.ones_like(upper, dtype=torch.bool)
    count, drawn, at, tries = FIRST_BATCHES, 0, 0, 0
    while drawn + count * size <= most_rows and not bool(decided.all()):
        fs, gs = [], []
        for b in range(at, at + count):
            e = problem.values(x, draws("certificate-rows", (call << 32) + b, size, "balanced"), true=true)
            fs.append(e.f)
            gs.append(e.g)
            shown &= True if e.seen is None else e.seen
        g = torch.stack(gs).double().cpu().numpy()
        mean_f = torch.stack(fs).mean(0)
        bound = upper_bounds(g, low, high, share_of_failure(delta, tries))
        mean = g.mean(0)
        above = torch.as_tensor(((mean > 0) & (2 * mean > bound)).any(-1), device=x.device)
        found = torch.as_tensor(bound, dtype=x.dtype, device=x.device).masked_fill(~shown, torch.inf)
        open_ = ~decided
        f = torch.where(open_, mean_f, f)
        upper = torch.where(open_.unsqueeze(-1), found, upper)
        decided = decided | (found < 0).all(-1) | above
        drawn, at, count, tries = drawn + count * size, at + count, 2 * count, tries + 1
    return Bounds(f, upper, decided)


def upper_bounds(g: np.ndarray, low: np.ndarray, high: np.ndarray, delta: float) -> np.ndarray:
    """(..., m) upper bounds on m means at once, with probability at least 1 - delta, from n >= 2 independent g (n, ...,
    m).

    low, high: (..., m) with the length of the interval that each lies in; its place does not matter.
    """
    level = delta / max(g.shape[-1], 1)
    if level < LEAST_LEVEL:
        return np.full(g.shape[1:], np.inf)
    length = np.maximum(high - low, 1e-100)  # whose square is a number still
    count = np.full(length.shape, g.shape[0], dtype=np.float64)
    width = bernstein_width(g.var(0, ddof=1) / length**2, count, level, 1.0)
    return g.mean(0) + length * width


def mixed(f: Tensor, upper: Tensor, anchor_f: Tensor, anchor_upper: Tensor, slack: Tensor | float) -> Mixture:
    """The least share of an anchor that makes a point with bounds f (...,), upper (..., m) feasible by `slack` >= 0,
    (...,).

    anchor_upper: every entry at most -slack, or inf where there is no anchor. Holds where f and g are convex.
    """
    over = upper + torch.as_tensor(slack, dtype=upper.dtype, device=upper.device).unsqueeze(-1)
    needed = torch.where(over > 0, over / (upper - anchor_upper).clamp_min(1e-300), torch.zeros_like(upper))
    share = needed.amax(-1).clamp(0, 1) if upper.shape[-1] else torch.zeros_like(f)
    none = ~torch.isfinite(anchor_f) | ~torch.isfinite(upper).all(-1)
    wide = share.unsqueeze(-1)
    return Mixture(
        share,
        torch.where(none, torch.inf, share * anchor_f + (1 - share) * f),
        torch.where(none.unsqueeze(-1), torch.inf, wide * anchor_upper + (1 - wide) * upper),
    )
