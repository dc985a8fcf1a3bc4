"""This library's methods: `init` and `step` as `solve` calls them, batches drawn as it draws them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stopwatch import BOUND, Stopwatch, Task, main

from fairbound.fairness.problem import FairProblem
from fairbound.methods import algorithm
from fairbound.models.model import model_of
from fairbound.problems.problem import Draws


def method(task: Task, seed: int, settings: dict[str, Any], stopwatch: Callable[..., Stopwatch]) -> None:
    """settings: algorithm (a name, with its preset), batch_size, options of the method."""
    model = model_of("mlp:64,32", task.x.shape[1])
    problem = FairProblem(model, task.x, task.y, task.group.reshape(-1, 1).numpy(), f"loss_gap <= {BOUND}")
    chosen = algorithm(settings["algorithm"], **settings.get("options", {}))
    draws = Draws(problem, (seed,), settings["batch_size"])
    state = chosen.init(problem, task.start.clone(), draws)
    watch = stopwatch(lambda: model.scores(state.x, task.x))
    watch.start()
    while True:
        state = chosen.step(state, problem, draws)
        watch.tick()


if __name__ == "__main__":
    main({"method": method})
