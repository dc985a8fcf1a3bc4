"""What the examples of networks share: training with a bound and without it, and a table of both."""

from __future__ import annotations

from collections.abc import Callable

import fairbound as fb


def with_and_without(
    problems: Callable[[], dict], stated: str, algorithm: object, steps: int, seed: int
) -> dict[str, dict]:
    """Loss gap, loss and accuracy on the parts of `problems()`, a new model's problem for each, trained on "train"."""
    found: dict[str, dict] = {}
    for name, method in (("no bound", fb.SGD(step_size=0.1)), (stated, algorithm)):
        made = problems()
        solution = fb.solve(made["train"], method, budget=f"{steps} steps", batch_size=64, seed=seed)
        x = solution.last if name == "no bound" else solution.x
        for part, problem in made.items():
            measured = problem.evaluate(x)
            found.setdefault(name, {"steps": solution.steps, "parameters": problem.n})[part] = {
                "loss gap": float(problem.stated_values(measured)[0]),
                "loss": float(measured.f),
                "accuracy": float(measured.extra["accuracy"]),
            }
    return found


def show(found: dict[str, dict]) -> None:
    print(f"{'':>18}  {'part':<5}  {'loss gap':>8}  {'loss':>6}  {'accuracy':>8}")
    for name, result in found.items():
        for part in ("train", "test"):
            r = result[part]
            print(f"{name:>18}  {part:<5}  {r['loss gap']:8.4f}  {r['loss']:6.4f}  {r['accuracy']:8.3f}")
        print(f"{'':>18}  {result['steps']:,} steps, {result['parameters']:,} parameters")
