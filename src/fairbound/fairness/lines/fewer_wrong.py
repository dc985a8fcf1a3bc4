"""A linear model moved along lines on which wrong decisions are counted: the part of the error rate that smooth
training leaves.

On a line x + t v the score of each row crosses 0 at most once. Sums over the rows in the order of their crossings give
the error rate and the bounds of every division of the rows on the line:

    for directions v of a few random coordinates, in which features have equal spread and no correlation, and a random reach:
        of all stretches between two crossings with |t| <= reach, but for that of x, which meet the bounds and decide no more rows
        wrongly than x, take those that decide the fewest wrongly; go to the middle of the longest

Steps that decide as many rows wrongly are made too, as better divisions lie beyond them. Where x misses bounds, the
stretches that miss them least are taken, by the sum of the squares of what exceeds them, and of these the fewest wrong.

Source: Nguyen and Sanner (2013), Algorithms for direct 0-1 loss optimization (coordinate search with counted losses).
    Departs: under bounds; several coordinates at once; steps on a plateau; only rows near the boundary are looked at,
    and every LINES lines all rows verify where they led.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbound.base.seeds import seed_for
from fairbound.fairness.lines.counted_rows import CountedRows
from fairbound.fairness.objectives import Accuracy
from fairbound.rows.reading import plain_array

ROUNDS, LINES = 12, 50
"""How often all rows are looked at, and lines between. Where these led outside the bounds,
or to more wrong decisions, they are forgotten."""

COORDINATES, REACHES = (1, 2, 4), (0.02, 0.1, 0.5)
"""Of how many coordinates a direction is made, and how far a line goes to either side,
in standard deviations of the scores."""

WIDE = 3.0
"""Rows are looked at whose scores lie within so many times the largest reach."""

MOST = 2_000_000
"""Such rows times lines, at most, but for the first round, where the bounds are met."""

MOST_TURNS = 1 << 22
"""Such rows times bounds, at most: with more, lines take too long."""

JUDGED = 1 << 21
"""Bounds times stretches of a line that are judged at once, at most."""

FLAT, SAME, CLEARLY = 1e-6, 1e-10, 1e-6
"""The least share of the reach that a stretch must have, the difference of error rates that is rounding, and the share of
what exceeds bounds that is."""

Judged = Callable[[np.ndarray], np.ndarray]
"""Sums (S, ...) -> (1 + m, ...) the error rate and the constraints."""


def fewer_wrong(problem: Any, x: Tensor) -> Tensor:
    """x (n,), or a better point: where x meets the bounds of a FairProblem, one that meets them too and decides fewer
    rows wrongly; where it misses them, one that misses them less, or by nothing.

    problem: its objective is an `Accuracy`. x is returned where it has no `CountedRows`.
    """
    problem = problem.with_objective(Accuracy(1.0))
    whole, curvature = CountedRows.of(problem, x), problem.curvature()
    if whole is None or curvature is None:
        return x
    spread = float(whole.scores(x).std())
    axes = even_axes(curvature) * spread
    near = (whole.scores(x).abs() <= WIDE * max(REACHES) * spread).nonzero()[:, 0]
    if len(near) * whole.height > MOST_TURNS:
        return x
    rows = plain_array(whole.features[near])
    columns = axes.astype(rows.dtype) @ (np.hstack([rows, np.ones_like(rows[:, :1])]) if whole.bias else rows).T
    start, met = x, float(problem.evaluate(x).violation) <= 0
    turns, judged = whole.turns[:, near.numpy()], whole.judged
    rng, sums = np.random.default_rng(seed_for("fewer wrong", root=0)), whole.sums(x)
    most = ROUNDS if missed(judged(sums)) else MOST // max(LINES * len(near), 1)
    for _ in range(max(1, min(ROUNDS, most))):
        scores = whole.scores(x)[near].double().cpu().numpy()
        tried = x + torch.from_numpy(_walk(scores, columns, turns, sums, judged, rng) @ axes).to(x)
        found = whole.sums(tried)
        if better(judged(found), judged(sums)):
            x, sums = tried, found
    return start if met and float(problem.evaluate(x).violation) > 0 else x


def missed(states: np.ndarray) -> np.ndarray:
    """(...,) the sum of the squares of what exceeds the bounds in states (1 + m, ...)."""
    return np.square(np.maximum(states[1:], 0.0)).sum(0)  # type: ignore[no-any-return]


def better(found: np.ndarray, state: np.ndarray) -> np.ndarray:
    """(...,) whether states (1 + m, ...) surely miss bounds less than a state (1 + m,), or no more at no more wrong decisions."""
    return _better(missed(found), found[0], state)


def _better(over: np.ndarray, wrong: np.ndarray, state: np.ndarray) -> np.ndarray:
    """`better`, of what is missed and the error rates (...,)."""
    now = missed(state)
    return (over < (1 - CLEARLY) * now) | ((over <= now) & (wrong <= state[0] + SAME))  # type: ignore[no-any-return]


def even_axes(curvature: Tensor) -> np.ndarray:
    """(r, n) coordinates of a linear model's parameters in which its features, whose second moments are the curvature
    (n, n), have equal spread and no correlation; without those in which they have hardly any."""
    size, axes = np.linalg.eigh(curvature.double().cpu().numpy())
    kept = size > FLAT * size[-1]
    return (axes[:, kept] / size[kept] ** 0.5).T  # type: ignore[no-any-return]


def _walk(
    scores: np.ndarray,
    columns: np.ndarray,
    turns: np.ndarray,
    sums: np.ndarray,
    judged: Judged,
    rng: np.random.Generator,
) -> np.ndarray:
    """How far LINES lines move each of r coordinates. scores: (k,) of the rows near the boundary; columns: (r, k) by
    how much a coordinate moves them. turns, sums, judged: as of `fewest`."""
    moved = np.zeros(len(columns))
    used, reaches = rng.choice(np.minimum(COORDINATES, len(columns)), LINES), rng.choice(REACHES, LINES)
    order = rng.random((LINES, len(columns))).argsort(axis=1)
    parts = rng.normal(size=(LINES, max(COORDINATES)))
    for line in range(LINES):
        chosen, part = order[line, : used[line]], parts[line, : used[line]]
        part = part / np.linalg.norm(part)
        along = part @ columns[chosen]
        found = fewest(scores, along, reaches[line], turns, sums, judged(sums), judged)
        if found is not None:
            t, sums = found
            scores = scores + t * along
            moved[chosen] += t * part
    return moved


def fewest(
    scores: np.ndarray,
    along: np.ndarray,
    reach: float,
    turns: np.ndarray,
    sums: np.ndarray,
    than: np.ndarray,
    judged: Judged,
) -> tuple[float, np.ndarray] | None:
    """Where to go on the line `scores` + t `along` (k,), and the sums there; None where no other stretch than that of
    t = 0 is at least as good as a state `than` (1 + m,).

    sums: (S,) at t = 0. turns: (S, k) by how much they rise where a row is decided positive. judged: as of
    `CountedRows`."""
    crossed = np.nonzero(np.abs(scores) < reach * np.abs(along))[0]
    t = -scores[crossed] / along[crossed]
    order = t.argsort()
    crossed = crossed[order]
    ends, summed, here = stretches_of(t[order], turns[:, crossed] * np.sign(along[crossed]), reach, sums)
    over, wrong = _over_and_wrong(summed, judged, len(than))
    length = ends[1:] - ends[:-1]
    good = _better(over, wrong, than) & (length > FLAT * reach)
    good[here] = False
    stretches = np.nonzero(good)[0]
    if not len(stretches):
        return None
    over = over[stretches]
    stretches = stretches[over <= (1 + CLEARLY) * over.min()]
    wrong = wrong[stretches]
    stretches = stretches[wrong <= wrong.min() + SAME]
    longest = stretches[length[stretches].argmax()]
    return float(ends[longest] + ends[longest + 1]) / 2, summed[:, longest]


def _over_and_wrong(summed: np.ndarray, judged: Judged, height: int) -> tuple[np.ndarray, np.ndarray]:
    """What the stretches of sums (S, c) miss the bounds by, as of `missed`, and their error rates, (c,) each. height: of
    how many numbers `judged` makes a state, of which no more than JUDGED are held at once."""
    over, wrong = np.empty((2, summed.shape[1]))
    step = max(1, JUDGED // height)
    for first in range(0, summed.shape[1], step):
        some = slice(first, first + step)
        states = judged(summed[:, some])
        over[some], wrong[some] = missed(states), states[0]
    return over, wrong


def stretches_of(
    t: np.ndarray, jumps: np.ndarray, reach: float, state: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int]:
    """The stretches of a line, up to `reach` to either side, between its places t (c,) in rising order, at which the
    state (s,) rises by the columns of `jumps` (s, c): their ends (c + 2,) and states (s, c + 1), and which is that of
    t = 0, where the state is `state`."""
    ends = np.empty(len(t) + 2)
    ends[0], ends[1:-1], ends[-1] = -reach, t, reach
    states = np.zeros((len(state), len(t) + 1))
    np.cumsum(jumps, axis=1, out=states[:, 1:])
    here = int(ends[1:-1].searchsorted(0.0))
    states += (state - states[:, here])[:, None]
    return ends, states, here
