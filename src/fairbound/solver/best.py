"""The best iterate that meets the true bounds, and what may be said of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

MAY_BE_INFEASIBLE = (
    "The bound may be infeasible for this model and data: loosen it, train longer, or take another model."
)
"""Advice under bounds on groups of rows, where no point met them."""

PLAIN_ADVICE = "Loosen the bound, train longer, or take another step size or method."
"""Advice on any other problem."""

LATEST = 4
"""Latest iterates that are kept for `land`."""

TOWARDS, BISECTIONS = 2, 7
"""How many of these `land` moves towards, and how often it halves each distance."""

SEARCHES, POINTS, IN_ALL = 10, 150, 2000
"""Rounds of a search from one iterate, points of a round at most, and points after which no round begins."""

KICKS, KICK = 6, 0.01
"""Random points beside the one that misses least, and how far they lie, over its size."""

NEAR, FAR = 0.003, 0.3
"""How far the points of a search lie, over the size of the iterate."""


@dataclass
class Best:
    """The best iterate so far: feasible before infeasible; then the lower objective; then the smaller violation.

    x: (..., n); f, violation: (...,) of the rows it was chosen on; step: (...,) where it was met; met: (...,) the last
    step at which any iterate met the bounds, -1 for none. recent_x: (k, ..., n), recent_f, recent_violation: (k, ...)
    of the k latest iterates, for `land`.
    """

    x: Tensor
    f: Tensor
    violation: Tensor
    step: Tensor
    met: Tensor
    recent_x: Tensor
    recent_f: Tensor
    recent_violation: Tensor

    @classmethod
    def none(cls, x: Tensor, latest: int = LATEST) -> Best:
        """Nothing yet but the start x (..., n), which any point with a finite violation beats. latest: iterates that
        are kept for `land`, 0 where it is not to be called."""
        lead = x.shape[:-1]
        far = torch.full(lead, math.inf, dtype=torch.float64)
        never = torch.full(lead, -1, dtype=torch.int64)
        kept = far.expand(latest, *lead)
        return cls(x.clone(), far, far.clone(), never, never.clone(), x.expand(latest, *x.shape), kept, kept)

    @property
    def found(self) -> bool:
        """Whether every run has met the bounds somewhere else than at its start."""
        return bool((self.met > 0).all())

    def offer(self, x: Tensor, f: Tensor, violation: Tensor, step: int) -> None:
        """Take x (..., n) with objective f (...,) and violation (...,) >= 0 where it is better, run by run: one that
        meets the bounds before one that does not, then the lower f, or the smaller violation where neither does."""
        f, violation = f.double().cpu(), violation.double().cpu()
        if len(self.recent_x):
            self.recent_x = torch.cat([self.recent_x[1:], x.unsqueeze(0)])
            self.recent_f = torch.cat([self.recent_f[1:], f.unsqueeze(0)])
            self.recent_violation = torch.cat([self.recent_violation[1:], violation.unsqueeze(0)])
        self._take(x, f, violation, step)

    def _take(self, x: Tensor, f: Tensor, violation: Tensor, step: int | Tensor) -> None:
        at = torch.as_tensor(step, dtype=self.step.dtype)
        better = _better(f, violation, self.f, self.violation)
        self.x = torch.where(better.unsqueeze(-1).to(x.device), x, self.x)
        self.f, self.violation = torch.where(better, f, self.f), torch.where(better, violation, self.violation)
        self.step = torch.where(better, at, self.step)
        self.met = torch.where(violation <= 0, torch.maximum(at, self.met), self.met)

    def land(self, measure: Callable[[Tensor], tuple[Tensor, Tensor]], step: int) -> None:
        """Go from the best iterate, where it meets the bounds, towards late ones that miss them at a lower objective,
        as far as the bounds allow: by bisection, towards the two that miss them least.

        measure: x (..., n) -> objective and violation (...,), each as offered. step: the number under which points are
        kept. Where the start alone met the bounds it is the start's number, 0, for a point that has less than half of
        what the iterate ahead gained on the start: that is hardly trained.
        """
        begun, alone = self.f, self.met <= 0
        for _ in range(TOWARDS):
            ahead = (self.recent_violation > 0) & (self.recent_f < self.f) & (self.violation <= 0)
            if not ahead.any():
                return
            nearest = torch.where(ahead, self.recent_violation, torch.inf).argmin(0, keepdim=True)
            going = ahead.gather(0, nearest)[0]
            there = going.unsqueeze(-1).to(self.x.device)
            end = self.recent_x.gather(0, nearest.unsqueeze(-1).expand(1, *self.x.shape).to(self.x.device))[0]
            half = torch.where(going, (begun + self.recent_f.gather(0, nearest)[0]) / 2, -torch.inf)
            self.recent_violation = self.recent_violation.scatter(0, nearest, torch.inf)
            inside, outside = self.x, torch.where(there, end, self.x)
            for _ in range(BISECTIONS):
                middle = (inside + outside) / 2
                f, violation = (v.double().cpu() for v in measure(middle))
                self._take(middle, f, violation, torch.where(alone & (f > half), 0, step))
                meets = (violation <= 0).unsqueeze(-1).to(middle.device)
                inside, outside = torch.where(meets, middle, inside), torch.where(meets, outside, middle)

    def approach(
        self,
        measure: Callable[[Tensor], tuple[Tensor, Tensor]],
        step: int,
        *,
        nearer: Callable[[Tensor], Tensor | None],
        run: int | None = None,
        generator: torch.Generator,
        stopped: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Let the problem move points `nearer` to its bounds, and take a result where it is better. The points are the
        best iterate and the late ones that missed the bounds; while no result meets them, random points beside the one
        that misses them least. False where the problem knows no such move.

        measure: x (n,) -> objective and violation. run: which one of a stack. stopped: asked before each whether to
        end.
        """
        at = ... if run is None else run
        missed = self._missed(at)
        starts = [*([self.x[at]] if self.met[at] > 0 else []), *missed]
        nearest, least = self.x[at], math.inf
        for i in range(len(starts) + KICKS if starts else 0):
            if stopped() or (i >= len(starts) and self.met[at] > 0):
                break
            found = self._nearer(
                at, starts[i] if i < len(starts) else self._kicked(nearest, generator), nearer, measure, step
            )
            if found is None:
                return False
            if found[1] < least:
                nearest, least = found
        return True

    def better_start(
        self,
        measure: Callable[[Tensor], tuple[Tensor, Tensor]],
        *,
        nearer: Callable[[Tensor], Tensor | None],
        run: int | None = None,
    ) -> None:
        """Where only the start meets the bounds, take the point that the problem finds from there, if it is better:
        from equal scores of all rows, say, those of lowest objective. Arguments as of `approach`."""
        at = ... if run is None else run
        if self.met[at] <= 0 and self.violation[at] <= 0 and self._missed(at):
            self._nearer(at, self.x[at], nearer, measure, 0)

    def _nearer(self, at: Any, x: Tensor, nearer: Any, measure: Any, step: int) -> tuple[Tensor, float] | None:
        """The point (n,) that is `nearer` than x (n,), taken where it is better, and its violation."""
        point = nearer(x)
        if point is None:
            return None
        f, violation = (v.double().cpu() for v in measure(point))
        if _better(f, violation, self.f[at], self.violation[at]):
            self._keep(at, point, f, violation, step)
        return point, float(violation)

    def _missed(self, at: Any) -> list[Tensor]:
        """The late iterates (n,) of a run that missed the bounds, those that missed least first."""
        late, recent = self.recent_violation[(slice(None), at)], self.recent_x[(slice(None), at)]
        return [recent[i] for i in late.argsort().tolist() if 0 < late[i] < math.inf]

    def _keep(self, at: Any, x: Tensor, f: Tensor, violation: Tensor, step: int) -> None:
        """x (n,) as the best of one run."""
        self.x[at], self.f[at], self.violation[at], self.step[at] = x, f, violation, step
        if violation <= 0:
            self.met[at] = step

    def _kicked(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """A random point (n,) near x (n,)."""
        size = KICK * x.norm() / len(x) ** 0.5
        return x + size * torch.randn(len(x), generator=generator).to(x)

    def search(
        self,
        measure: Callable[[Tensor], tuple[Tensor, Tensor]],
        step: int,
        *,
        run: int | None = None,
        project: Callable[[Tensor], Tensor],
        points: int,
        generator: torch.Generator,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """Where a run met the bounds nowhere but at its start, try random points near a late iterate that missed them:
        the one of lowest objective that meets them is taken, where it is better than a start that meets them; while
        there is none, the next are near the one that misses them least. This is done from each late iterate in turn, as
        it may end nowhere. Rates of few rows move in steps, which smooth surrogates do not see.

        measure: x (n,) -> objective and violation. run: which one of a stack. project: x (n,) -> a point of the domain.
        points: from one iterate. stopped: asked before each round whether to end.
        """
        at = ... if run is None else run
        points = min(POINTS, points // SEARCHES)
        if points < 1 or self.met[at] > 0:
            return
        tries = 0
        for centre in self._missed(at):
            for _ in range(SEARCHES):
                if stopped() or tries >= IN_ALL:
                    return
                tries += points
                size = centre.norm() / len(centre) ** 0.5
                far = NEAR * (FAR / NEAR) ** torch.rand(points, 1, generator=generator)
                moves = far * torch.randn(points, len(centre), generator=generator)
                tried = [project(point) for point in centre + size * moves.to(centre)]
                f, violation = (torch.stack(v).double().cpu() for v in zip(*map(measure, tried), strict=True))
                better = (violation <= 0) & ((f < self.f[at]) | (self.violation[at] > 0))
                if better.any():
                    best = int(torch.where(better, f, torch.inf).argmin())
                    self._keep(at, tried[best], f[best], violation[best], step)
                    return
                centre = tried[int(violation.argmin())]

    def settled(self, step: int) -> bool:
        """Whether every run has met the bounds in the second half of its steps, and so not by an early chance alone."""
        return bool((self.met >= max(1, step // 2)).all())

    def verdict(self, where: str, grouped: bool) -> str:
        """What may be said of the best iterate. where: what it was chosen on, as " on the training rows", or "" where there is
        nothing to tell apart; grouped: whether the bounds are on groups of rows, which the advice then speaks of."""
        missed = ~(self.violation <= 0)
        if not missed.any():
            return self._met(where, grouped)
        least = float(self.violation[missed].min())
        one = missed.dim() == 0
        runs = "" if one else f" in {int(missed.sum())} of {missed.numel()} runs"
        start = ", that of the start, as training came no nearer" if one and self.step == 0 else ""
        return (
            f"no iterate met every bound{where}{runs}; the smallest excess reached is {least:.4g} in the units of the "
            f"{'metric' if grouped else 'constraints'}{start}. {MAY_BE_INFEASIBLE if grouped else PLAIN_ADVICE}"
        )

    def _met(self, where: str, grouped: bool) -> str:
        """What may be said where the bounds are met; where: as in `verdict`."""
        if not self.found:
            return (
                f"the bounds are met{where}, but by no iterate that training reached: only the starting point meets them. The result is "
                "that point, or a better one between it and iterates that missed them. "
                + ("Loosen the bound, train longer, or merge small groups." if grouped else PLAIN_ADVICE)
            )
        if self.step.dim() == 0 and self.step == 0:
            return (
                f"every bound is met{where}, by iterates of training too, but the objective is lowest at the starting point, which is the "
                "result."
            )
        return f"every bound is met{where}."


def _better(f: Tensor, violation: Tensor, than_f: Tensor, than_violation: Tensor) -> Tensor:
    """(...,) whether a point is to be taken in place of another: feasible before infeasible, then the lower objective,
    or the smaller violation where neither is feasible."""
    feasible, was = violation <= 0, than_violation <= 0
    return (feasible & ~was) | (feasible & was & (f < than_f)) | (~feasible & ~was & (violation < than_violation))
