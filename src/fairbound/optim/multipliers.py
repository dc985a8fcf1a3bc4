"""How the multipliers of a `Dual` move: y <- [y + eta g]_+, w = [y + rho g]_+; faster, and with a guard, under bounds
that set the mean loss of one group against that of others.

There w lowers what rows of a cell weigh in the loss, 1 - w |a| / s for a coefficient a and the share s of all rows that
lie in the cell: at w = s / |a|, the contrast's room, they weigh nothing, and beyond it training raises their loss, to
which there is no limit. Such a contrast is kept with a margin of its bound. While it stays broken, or more than met,
its steps grow; but beyond the room y only creeps, and the whole loss is divided by the rows' mean absolute weight.

Another contrast that swings from one side of its bound to the other is moved and weighed too hard for the loop's
learning rate: from its third turn on each halves its step and its penalty, down to a quarter. Turns are forgotten, one
in the time of 16 memories, as a learning rate may have fallen since.

Estimates look back on `memory` rows, and the fewer rows a step brings, the more steps these are. Meanwhile multipliers
go on rising by what was, and model and multipliers chase each other. So where they are more than `BEHIND` steps,
contrasts of rates move by as much less at a step. Their penalty stays, as it damps.

Of such contrasts many may be broken at once, as of every two groups for each class and label. Their weights add up, and
more so the fewer rows each is about, until the loss no longer counts. So beyond `CROWD` of them they share the steps and
the penalty that so many would have.

A ratio a / b changes by 1 / b with a: of what few rows are selected for, it is steep, and its estimate as noisy. So a
contrast of ratios is multiplied by a number e, and its weight w by e too, such that a violation of g pushes rows by at
most what one of g of rates does: e^2 is the smallest b, over the ratio where that is above 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairbound.fairness.compiled.contrasts import Memo, PlanContrasts
from fairbound.fairness.compiled.plan import Plan
from fairbound.methods.alm import ALM
from fairbound.methods.primal import decayed

FASTEST, GROWTH = 8.0, 1.5  # times the usual step at most, and more for every `memory` rows
DAMPING = 2.0  # times the usual penalty
MARGIN = 0.05  # of the bound
CREEP = 0.1  # of the room
NOISE = 2.0  # standard errors of a rate by which a contrast is surely on one side of its bound
FREE, MOST = 2, 4  # turns that change nothing, as a first rise that goes too far; and that are counted at most
FORGOTTEN = 16  # times `memory`, after which a turn counts no longer
CROWD = 4  # broken contrasts that each take a whole step
BEHIND = 16  # steps that estimates of rates may look back on before multipliers move by less


def factors_of_ratios(contrasts: PlanContrasts, memo: Memo | None) -> np.ndarray | float:
    """(m,) the number e of the module's docstring, 1 for contrasts without ratios. memo: of the contrasts at the running
    means."""
    if memo is None or memo.quotients is None or memo.below is None:
        return 1.0
    plan, below, quotients = contrasts.plan, memo.below.numpy(), memo.quotients.numpy()
    of_quantities = np.append(np.ones(plan.quantities - len(below)), below / np.fmax(np.abs(quotients), 1.0))
    index = plan.index if memo.compared is None else memo.compared.numpy()
    least = np.where(plan.coefficient != 0, of_quantities[index], 1.0).min(1)
    return np.sqrt(np.append(least, np.ones(plan.m - len(least))))


def room_of_contrasts(
    contrasts: PlanContrasts, memo: Memo | None, of_losses: np.ndarray, state: dict[str, Any], y: np.ndarray
) -> np.ndarray | None:
    """(m,) the weight at which rows of a cell whose loss a contrast lowers weigh nothing, shared among contrasts with
    a multiplier y (m,); infinite where no cell is lowered; None where none of all is. of_losses: (K + 1,) cells
    that average the loss; state: of the running means."""
    plan = contrasts.plan
    if not of_losses.any() or len(plan.ratios) or not state["total_mass"].any():
        return None
    cells = plan.index if memo is None or memo.compared is None else memo.compared.numpy()
    lowers = (plan.coefficient < 0) & of_losses[cells]
    if not lowers.any():
        return None
    together = np.bincount(
        cells[lowers], np.broadcast_to(y[: len(cells), None] > 0, cells.shape)[lowers], len(of_losses)
    )
    share = np.append(state["mass"] / state["total_mass"], 1.0)[cells] / np.maximum(together, 1)[cells]
    room = np.where(lowers, share / np.where(lowers, -plan.coefficient, 1.0), np.inf).min(1)
    return np.append(room, np.full(plan.m - len(room), np.inf))


def moved(
    state: dict[str, Any],
    config: ALM,
    scale: np.ndarray,
    g: np.ndarray,
    fresh: np.ndarray | None,
    room: np.ndarray | None = None,
    bounds: np.ndarray | None = None,
    part: float = 1.0,
    noise: np.ndarray | None = None,
    behind: float = 0.0,
) -> dict[str, np.ndarray]:
    """g, multipliers y, weights w, pace, side and turns (m,) after an update. state: of a `Dual`, k steps of which `weighed` had
    passed at the last one;
    scale: (m,) see `dual_scale`; fresh: (m,) which contrasts had rows since then, None where all had: the others keep
    their g, y and pace. room: as of `room_of_contrasts`, for bounds (m,); part: rows since the last update over
    `memory`; noise: (m,) as of `turned`; behind: steps in which the rows came that estimates look back on."""
    slower = decayed(state["k"], config.decay_steps, config.decay) * (state["k"] - state["weighed"]) / config.dual_every
    step, y, pace = config.dual_step_size * slower * scale, state["multipliers"], state["pace"]
    most, damped, asked = config.multiplier_bound, config.penalty * scale, g
    shared: Any = 1.0
    if (crowd := broken_at_once(g, fresh, room)) > CROWD:
        shared = CROWD / crowd if room is None else np.where(room < np.inf, 1.0, CROWD / crowd)
        damped = damped * shared
    if behind > BEHIND and noise is not None:
        shared = np.minimum(shared, np.where(noise < np.inf, BEHIND / behind, 1.0))
    step = step * shared
    side, turns = turned(state, g, fresh, noise, part)
    if np.count_nonzero(turns > FREE):
        gain = 0.5 ** np.maximum(turns - FREE, 0)
        step, damped = step * gain, damped * gain
    if room is None or bounds is None:
        y = np.minimum(np.maximum(y + step * g, 0), most)
    else:
        guarded = room < np.inf
        margin = np.where(guarded, MARGIN * bounds, 0.0)
        asked, before = g + margin, state["g"] + margin
        goes_on = guarded & (asked * before > 0) & ((asked > 0) | (y > 0)) & (state["weighed"] > 0)
        pace = np.where(goes_on, np.minimum(pace * GROWTH ** min(part, 1.0), FASTEST), 1.0)
        step, damped = step * asked, np.where(guarded, DAMPING * damped, damped)
        limit = np.where(asked > 0, np.maximum(room, y + np.minimum(step, CREEP * room)), np.inf)
        y = np.minimum(np.maximum(np.minimum(y + pace * step, limit), 0), most)
    if fresh is not None:
        g, y = np.where(fresh, g, state["g"]), np.where(fresh, y, state["multipliers"])
        pace, asked = np.where(fresh, pace, state["pace"]), np.where(fresh, asked, state["g"])
    w = np.minimum(np.maximum(y + damped * asked, 0), most)
    return {"g": g, "multipliers": y, "w": w, "pace": pace, "side": side, "turns": turns}


def noise_of(plan: Plan, rates: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(m,) by how much a contrast of rates may be off, at most: twice the standard error of the difference of two rates
    of 1/2. Infinite for others. rates: (K,) as of `of_rates`. weight: (K,) of the cells' running means."""
    counted = np.append(np.where(rates, weight, 0.0), np.inf)
    with np.errstate(divide="ignore", over="ignore"):
        return NOISE * np.sqrt(0.5 / counted[plan.cells_of].min(-1))


def turned(
    state: dict[str, Any], g: np.ndarray, fresh: np.ndarray | None, noise: np.ndarray | None, part: float
) -> tuple[np.ndarray, np.ndarray]:
    """(m,) the side of its bound on which each contrast was last found by more than `noise` (m,), 1 where broken, -1
    where met; and how often it has changed sides so, of late. The others as of `moved`."""
    side, turns = state["side"], state["turns"]
    if noise is None:
        return side, turns
    found = np.where(np.abs(g) > noise, np.sign(g), side)
    found = found if fresh is None else np.where(fresh, found, side)
    return found, np.maximum(np.minimum(turns + (found * side < 0), MOST) - part / FORGOTTEN, 0)


def broken_at_once(g: np.ndarray, fresh: np.ndarray | None, room: np.ndarray | None) -> int:
    """How many contrasts without a room are broken, of those that had rows. g, fresh, room: (m,) as of `moved`."""
    broken = g > 0
    for apart in (fresh, None if room is None else room == np.inf):
        broken = broken if apart is None else broken & apart
    return int(np.count_nonzero(broken))


def raised(by_cell: np.ndarray, of_losses: np.ndarray) -> np.ndarray:
    """(K,) by how much what a row of each cell of losses weighs in the loss is below 0. by_cell: (K + 1,) what is
    added to its weight of 1."""
    return np.where(of_losses, np.maximum(-1 - by_cell, 0), 0.0)[:-1]


def shrunk(by_cell: np.ndarray, of_losses: np.ndarray, state: dict[str, Any]) -> float:
    """1 over the rows' mean absolute weight in the loss, where their mean weight is 1. state: of the running means."""
    below = raised(by_cell, of_losses)
    if not np.count_nonzero(below):
        return 1.0
    return float(1 / (1 + 2 * below @ state["mass"] / state["total_mass"][0]))
