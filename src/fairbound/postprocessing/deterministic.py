"""The best single threshold of every group under bounds on rates: branch and bound over spans of thresholds.

A node limits every group to a span of its thresholds. Its linear program over mixtures bounds what any of them reaches
from below. Near its solution a rule with one threshold per group is looked for: every group goes to the point nearest
to its mixture, then one group after another, or two at once, to the point that lowers the excess over the bounds, and
the cost next. The group that is farthest from its mixture is split there. Every move is decided by numbers alone, so
that equal rows give equal rules.

Of three groups or more the search begins with the choices of `windows`, which are often the best
there are.

Source: Land, Doig (1960), branch and bound; the nodes' programs are those of `fairbound.postprocessing.optimum`.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass

import numpy as np

from fairbound.postprocessing.optimum import Mixture, Relaxation, Span
from fairbound.postprocessing.program import Program
from fairbound.postprocessing.windows import Choices, by_windows

ROUNDING = 1e-12  # an excess over a bound that is none
SOLVED = 1e-9  # by how much the cost of a node's program may be off
WORK = 400  # groups solved for: nodes times groups, at most ...
LEAST_NODES = 10  # ... but so many nodes,
FURTHER = 10  # and so many times as many without windows, while the best costs more than any left may by ...
FAR = 0.005  # ... so much
REACH = 512  # points to either side that a group may move at once
PAIR_REACH = 12  # the same of two groups that move together
MOST_PAIRED = 8  # groups, for pairs of them to move
ROUNDS = 20


@dataclass(frozen=True)
class Choice:
    """points: (C,) of each group the number of its curve's point. proved: whether no other choice costs less."""

    points: np.ndarray
    cost: float
    proved: bool


def best_choice(program: Program, relaxation: Relaxation, root: Mixture) -> Choice | None:
    """The cheapest choice of one threshold per group that is found, None where none is that meets the bounds.

    root: the solution over all thresholds. The two constant choices are looked at first.
    """
    search = Search(program)
    starts = by_windows(program) if len(program.curves) > 2 else Choices([])
    spans = [(0, len(c) - 1) for c in program.curves]
    number, tried = itertools.count(), itertools.count()  # of equal costs the older node first
    heap: list[tuple[float, int, list[Span], Mixture]] = [(root.cost, next(number), spans, root)]
    best: np.ndarray | None = None
    cost, step, seen = np.inf, search.step, set()
    nodes = [max(LEAST_NODES, times * WORK // len(spans)) for times in (1, 1 if starts.of_bounds else FURTHER)]
    constants = [np.array([everywhere * last for _, last in spans]) for everywhere in (0, 1)]
    for found in [*constants, *starts.points, *map(search.improved, () if starts.exact else starts.points)]:
        if search.feasible(found) and (reached := search.cost(found)) < cost:
            best, cost = found, reached
    if starts.exact and best is not None and search.feasible(starts.points[0]):
        return Choice(best, cost, True)
    while heap and next(tried) < nodes[cost - heap[0][0] > FAR]:
        floor, _, spans, mixture = heapq.heappop(heap)
        if floor > cost - step - SOLVED:
            heap = []
            break
        near, far = search.nearest(spans, mixture)
        if near.tobytes() not in seen:
            seen.add(near.tobytes())
            found = search.improved(near)
            if search.feasible(found) and (reached := search.cost(found)) < cost:
                best, cost = found, reached
        for child in _children(spans, near, far, mixture):
            solved = relaxation.solve(child)
            if solved is not None and solved.cost <= cost - step - SOLVED:
                heapq.heappush(heap, (solved.cost, next(number), child, solved))
    return None if best is None else Choice(best, cost, not heap)


def _children(spans: list[Span], near: np.ndarray, far: np.ndarray, mixture: Mixture) -> list[list[Span]]:
    """The spans of one group cut in two such that its mixture is in neither;
    in three at its point where nothing is mixed."""
    mixed = [c for c, points in enumerate(mixture.points) if len(points) > 1]
    if mixed:
        group = max(mixed, key=lambda c: (far[c], -c))
        points = mixture.points[group]
        cut = min(max(int(near[group]), int(points[0])), int(points[-1]) - 1)
        first, last = spans[group]
        parts = [(first, cut), (cut + 1, last)]
    else:
        group = max(range(len(spans)), key=lambda c: (spans[c][1] - spans[c][0], -c))
        (first, last), at = spans[group], int(near[group])
        parts = [(first, at - 1), (at, at), (at + 1, last)] if first < last else []
    return [[*spans[:group], part, *spans[group + 1 :]] for part in parts if part[0] <= part[1]]


class Search:
    """Moves from choice to choice. A choice is (C,) numbers of points."""

    def __init__(self, program: Program):
        self.program = program
        self.curves = program.curves
        self._rows, self._effect = [], []
        for c in range(len(self.curves)):
            part = program.matrix[:, 2 * c : 2 * c + 2].tocoo()
            rows, place = np.unique(part.row, return_inverse=True)
            self._rows.append(rows)
            self._effect.append(np.zeros((len(rows), 2)))
            self._effect[c][place, part.col] = part.data

    @property
    def step(self) -> float:
        """Costs of choices differ by a multiple of this, where all rows weigh the same
        and both errors cost the same; else 0."""
        program = self.program
        jumps = np.unique(np.concatenate([np.diff(c.selected, axis=0).ravel() for c in self.curves]))
        jumps = jumps[jumps > 0]
        if program.costs[0] != program.costs[1] or not (jumps == np.round(jumps)).all():
            return 0.0
        unit = float(np.gcd.reduce(jumps.astype(np.int64)))
        return unit * program.costs[0] / program.total - 2 * SOLVED

    def selected(self, points: np.ndarray) -> np.ndarray:
        """(C, 2) weight selected of each group and label."""
        return np.array([c.selected[p] for c, p in zip(self.curves, points, strict=True)])

    def cost(self, points: np.ndarray) -> float:
        return self.program.cost(self.selected(points))

    def feasible(self, points: np.ndarray) -> bool:
        return bool((self.program.excess(self.selected(points)) <= ROUNDING).all())

    def nearest(self, spans: list[Span], mixture: Mixture) -> tuple[np.ndarray, np.ndarray]:
        """Of each group the point of its span nearest to its mixture, and the distance (C,), as a share of all rows."""
        targets = mixture.selected(self.program)
        points, far = [], []
        for curve, target, mixed, (first, last) in zip(self.curves, targets, mixture.points, spans, strict=True):
            low, high = max(first, int(mixed[0])), min(last, int(mixed[-1]))
            distances = np.abs(curve.selected[low : high + 1] - target).sum(1)
            at = int(distances.argmin())
            points.append(low + at)
            far.append(distances[at] / self.program.total)
        return np.array(points), np.array(far)

    def improved(self, points: np.ndarray) -> np.ndarray:
        """A choice that no move of one group, or of two nearby, betters: first in the sum of excesses,
        then in the cost."""
        points = points.copy()
        excess = self.program.excess(self.selected(points))
        pairs = list(itertools.combinations(range(len(points)), 2)) if len(points) <= MOST_PAIRED else []
        for _ in range(ROUNDS):
            moved = False
            for groups in [*((c,) for c in range(len(points))), *pairs]:
                step = self._best_move(points, excess, groups)
                if step is not None:
                    before = self.selected(points)
                    points[list(groups)] = step
                    excess = excess + self.program.matrix @ (self.selected(points) - before).ravel()
                    moved = True
            if not moved:
                break
        return points

    def _best_move(self, points: np.ndarray, excess: np.ndarray, groups: tuple[int, ...]) -> list[int] | None:
        """Where to move one or two groups, together; None where no point nearby is better."""
        reach = REACH if len(groups) == 1 else PAIR_REACH
        spans = [np.arange(max(0, points[c] - reach), min(len(self.curves[c]), points[c] + reach + 1)) for c in groups]
        moves = [
            self.curves[c].selected[s] - self.curves[c].selected[points[c]] for c, s in zip(groups, spans, strict=True)
        ]
        effects = [self._effect[c] @ m.T for c, m in zip(groups, moves, strict=True)]
        costs = [m @ self.program.unit_costs for m in moves]
        if len(groups) == 1:
            rows, change, cost = self._rows[groups[0]], effects[0], costs[0]
        else:
            (a, b), shape = groups, (len(spans[0]), len(spans[1]))
            shared = np.intersect1d(self._rows[a], self._rows[b], assume_unique=True)
            if not len(shared):
                return None
            rows = np.union1d(self._rows[a], self._rows[b])
            change = np.zeros((len(rows), *shape))
            change[np.searchsorted(rows, self._rows[a])] += effects[0][:, :, None]
            change[np.searchsorted(rows, self._rows[b])] += effects[1][:, None, :]
            change, cost = change.reshape(len(rows), -1), (costs[0][:, None] + costs[1]).ravel()
        over = excess[rows]
        summed = np.where(over[:, None] + change > ROUNDING, over[:, None] + change, 0.0).sum(0)
        now = over[over > ROUNDING].sum()
        least = summed.min()
        lower = least < now - ROUNDING
        best = int(np.where(summed <= (least + ROUNDING if lower else now), cost, np.inf).argmin())
        if not (lower or cost[best] < -ROUNDING):
            return None
        if len(groups) == 1:
            return [int(spans[0][best])]
        i, j = divmod(best, len(spans[1]))
        return [int(spans[0][i]), int(spans[1][j])]
