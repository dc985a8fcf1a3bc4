"""How soon IDCA as it ships reaches what a straightforward IDCA with the switching subgradient reaches in 100 x 200 steps.

Both solve the same problem from the same start: a linear model with group terms, mean logistic loss, the scores of two groups bounded
on a percentile interval with the clipped step (He, Huang, Yao, Lin 2026, (15), Algorithms 1 and 2), law school or a9a. The
rendering below is dense numpy in float64. Its time is that of the first outer iterate as good as its last, to 1e-6 in the objective
and no further outside the bounds; ours that of the first iterate as good. One thread, one run, processor seconds. `evaluation` is
the cost of f, all constraints and a subgradient of the largest one beside that of the scores X @ w alone, the least of several calls;
--evaluation measures nothing else. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

import harness

harness.single_thread()

import numpy as np  # noqa: E402
import torch  # noqa: E402

from fairbound.fairness.notions import constraint  # noqa: E402
from fairbound.fairness.percentiles.intervals import Percentiles  # noqa: E402
from fairbound.fairness.problem import FairProblem  # noqa: E402
from fairbound.methods import IDCA, FullBatchALM  # noqa: E402
from fairbound.models.mlp import MLP  # noqa: E402
from fairbound.problems.problem import Draws  # noqa: E402
from fairbound.studies.partial_fairness import Options, parts_of  # noqa: E402
from fairbound.studies.rows import StudyRows  # noqa: E402

torch.set_num_threads(1)

SETS: dict[str, dict[str, Any]] = {
    "law-school": {"group": "race", "interval": "0.7:1", "shares": (0.5625, 0.1875, 0.25)},
    "a9a": {"group": "sex", "interval": "0.05:0.3", "shares": (0.6, 0.0667, 0.3333), "stated_test": True},
}
TEXT = "partial_statistical_parity[{},surrogate=clip,sharpness=1,points=10] <= {:g}"
RATIO = 20
CLOSE = 1e-6
MOST = 3
"""Times the scores that one evaluation may cost on a9a."""


class Plain:
    """The problem in numpy: x = (w, intercept, thresholds); f the mean loss, g (2 groups x levels, above and below)."""

    def __init__(self, part: StudyRows, interval: Percentiles, kappa: float, levels: np.ndarray):
        self.X = np.hstack([part.x.astype(np.float64), np.ones((len(part.x), 1))])
        self.y = part.y.astype(np.float64)
        self.rows = [np.flatnonzero(part.group == name) for name in np.unique(part.group)]
        self.low, self.high = interval.rank(levels), interval.rank(levels + kappa)
        self.half, self.d = interval.length / 2, self.X.shape[1]

    def loss(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        h = self.X @ x[: self.d]
        slope = 1 / (1 + np.exp(-h)) - self.y
        out = np.zeros_like(x)
        out[: self.d] = self.X.T @ slope / len(h)
        return float(np.mean(np.logaddexp(0, h) - self.y * h)), out

    def halves(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(2, P) means over each group of max(h - theta + 1/2, 0), and of max(h - theta - 1/2, 0)."""
        away = (self.X @ x[: self.d])[:, None] - x[self.d :]
        made = [np.maximum(away + side, 0) for side in (0.5, -0.5)]
        plus, minus = (np.stack([m[rows].mean(0) for rows in self.rows]) for m in made)
        return plus, minus

    def slope(self, x: np.ndarray, side: float, group: int, place: int) -> np.ndarray:
        """A subgradient of one of these means."""
        rows = self.rows[group]
        over = (self.X[rows] @ x[: self.d] - x[self.d + place] + side >= 0) / len(rows)
        out = np.zeros_like(x)
        out[: self.d], out[self.d + place] = self.X[rows].T @ over, -over.sum()
        return out

    def constraints(self, plus: np.ndarray, minus: np.ndarray) -> np.ndarray:
        """(2, 2, P) g of the means above: not above the highest rank, not below the lowest."""
        return np.stack([plus - minus - self.high, self.low - plus + minus]) / self.half


def ssg(problem: Plain, centre: np.ndarray, steps: int, eps: float) -> np.ndarray:
    """Algorithm 2 on the convex problem (31) at `centre`: the best of its nearly feasible iterates."""
    plus, minus = problem.halves(centre)
    places = [(k, p) for k in range(plus.shape[0]) for p in range(plus.shape[1])]
    tangents = np.array([[problem.slope(centre, side, k, p) for k, p in places] for side in (0.5, -0.5)])
    v, best, lowest = centre.copy(), centre.copy(), np.inf
    for _ in range(steps):
        f, slope = problem.loss(v)
        moved = (tangents @ (v - centre)).reshape(2, *plus.shape)
        now_plus, now_minus = problem.halves(v)
        upper = problem.constraints(now_plus, minus + moved[1])[0]
        lower = problem.constraints(plus + moved[0], now_minus)[1]
        g = np.stack([upper, lower])
        side, k, p = np.unravel_index(int(g.argmax()), g.shape)
        length = eps
        if g[side, k, p] <= eps:
            if f < lowest:
                best, lowest = v.copy(), f
        else:
            own = problem.slope(v, 0.5 if side == 0 else -0.5, int(k), int(p))
            slope = (own - tangents[1 - side, k * plus.shape[1] + p]) / problem.half
            length = g[side, k, p]
        v = v - length / (slope @ slope) * slope
    return best


def plain_idca(problem: Plain, start: np.ndarray, outer: int, inner: int, eps: float) -> list[tuple[float, np.ndarray]]:
    """(seconds, x) of every iterate of Algorithm 1."""
    x, began, out = start, time.process_time(), []
    for _ in range(outer):
        x = ssg(problem, x, inner, eps)
        out.append((time.process_time() - began, x))
    return out


def path(problem: FairProblem, method: Any, steps: int, reached: Callable[[np.ndarray], bool]) -> Any:
    """(seconds, x) of every iterate of a method of the library until one is as good; looking at it is not counted."""
    draws, out, spent = Draws(problem, (0,), 1, "full"), [], 0.0
    began = time.process_time()
    state = method.init(problem, problem.start([0]), draws)
    for _ in range(steps):
        state = method.step(state, problem, draws)
        spent += time.process_time() - began
        out.append((spent, state.point.clone().double().numpy().reshape(-1)))
        if reached(out[-1][1]):
            break
        began = time.process_time()
    return out


def evaluation(problem: FairProblem, repeats: int) -> dict[str, float]:
    """The least seconds of the scores of all rows, and of one evaluation of f and all g with a subgradient of the largest g."""
    everything, x, features = problem.full(), problem.start([0]).reshape(-1), problem.features
    assert isinstance(features, torch.Tensor)
    x = x + 0.05 * torch.from_numpy(np.random.default_rng(0).normal(size=x.shape)).to(x)
    w = problem.split(x)[0][: features.shape[1]].clone()

    def largest(e: Any) -> tuple[float, torch.Tensor]:
        return 0.0, torch.nn.functional.one_hot(e.g.argmax(), len(e.g)).to(e.g)

    calls = {
        "scores": lambda: features @ w,
        "evaluation": lambda: problem.gradient(x, everything, largest),
    }
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for key, call in calls.items():
            began = time.process_time()
            call()
            least[key] = min(least[key], time.process_time() - began)
    return {**least, "ratio": least["evaluation"] / least["scores"]}


def compare(name: str, kappa: float, outer: int, inner: int, eps: float, data_dir: str | None) -> dict[str, Any]:
    asked = Options(dataset=name, **SETS[name])
    part = parts_of(asked, 0, data_dir)["train"]
    text, interval = TEXT.format(asked.interval, kappa), Percentiles.read(asked.interval)
    bound: Any = constraint(text)
    assert interval is not None
    plain = Plain(part, interval, kappa, bound.levels())
    stated = {
        kind: FairProblem(MLP(part.x.shape[1]), part.x, part.y, part.group, text, dtype=kind)
        for kind in (torch.float32, torch.float64)
    }
    judge = stated[torch.float64]
    start = judge.start([0]).numpy().reshape(-1)

    def of(x: np.ndarray) -> tuple[float, float]:
        e = judge.values(torch.from_numpy(x), judge.full())
        return float(e.f), float(e.g.max())

    aside = start + 0.1 * np.random.default_rng(0).normal(size=len(start))
    mine = float(plain.loss(aside)[0]), float(plain.constraints(*plain.halves(aside)).max())
    assert np.allclose(mine, of(aside), atol=1e-9), f"two problems, not one: {mine} and {of(aside)}"
    if not outer:
        return {"rows": len(part.y), "evaluation": evaluation(stated[torch.float32], 50)}
    reference = [(s, *of(x)) for s, x in plain_idca(plain, start, outer, inner, eps)]
    _, f, g = reference[-1]

    def good(values: tuple[float, float]) -> bool:
        return values[0] <= f + CLOSE and values[1] <= max(g, 0.0) + CLOSE

    first = next(s for s, *values in reference if good((values[0], values[1])))
    out: dict[str, Any] = {
        "rows": len(part.y),
        "features": part.x.shape[1],
        "bound": text,
        "evaluation": evaluation(stated[torch.float32], 50),
        "plain": {"seconds": first, "all": reference[-1][0], "objective": f, "infeasibility": g},
    }
    contenders = {
        "idca": (IDCA(residuals=False), 100),
        "full_batch_alm": (FullBatchALM(dual_values="surrogate", sharpness=(1.0,)), 400),
    }
    for key, (method, steps) in contenders.items():
        seen = path(stated[torch.float32], method, steps, lambda x: good(of(x)))
        seconds, last = seen[-1][0], of(seen[-1][1])
        out[key] = {
            "seconds": seconds, "steps": len(seen), "objective": last[0], "infeasibility": last[1], "reached": good(last),
            "ratio": first / seconds if good(last) else None,
        }  # fmt: skip
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--kappa", type=float, default=0.1)
    parser.add_argument("--tolerance", type=float, default=1e-3, help="eps of the switching subgradient")
    parser.add_argument("--quick", action="store_true", help="law school, ten outer iterates of the rendering")
    parser.add_argument("--evaluation", action="store_true", help="the cost of one evaluation only")
    given = parser.parse_args()
    names, outer = (["law-school"], 10) if given.quick else (given.data, 0 if given.evaluation else 100)
    data_dir = os.environ.get("FAIRBOUND_DATA")
    made = {name: compare(name, given.kappa, outer, 200, given.tolerance, data_dir) for name in names}
    result: dict[str, Any] = {"benchmark": "partial_speed", "outer": outer, "inner": 200, "tolerance": given.tolerance}
    result |= {"results": made}
    result["checks"] = [
        harness.check(f"{name}: idca in the seconds of the rendering", 1 / (one["idca"]["ratio"] or 1.0), 1 / RATIO)
        for name, one in made.items()
        if outer
    ]
    result["checks"] += [
        harness.check(f"{name}: one evaluation in the seconds of X @ w", one["evaluation"]["ratio"], MOST)
        for name, one in made.items()
        if name == "a9a"
    ]
    result["environment"] = harness.environment()
    harness.emit(result)


if __name__ == "__main__":
    main()
