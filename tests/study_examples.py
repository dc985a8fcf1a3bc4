"""A study small enough for a test: generated rows, a linear model, step budgets."""

from __future__ import annotations

import json
from pathlib import Path

TINY = """
name = "tiny"
title = "A tiny study"
source = "generated rows"
measures = "fairbound.studies.deep_benchmark"
task = {{ model = "linear", constraint = "loss_gap <= 0.05" }}
batch = 32
seeds = 2
budget = "{budget}"
checkpoint_every = 0.1

[quick]
seeds = 1
budget = "40 steps"

[tuning]
budget = "60 steps"

[[items]]
key = "main"
title = "Main"
data = ["generated"]
methods = ["sgd", "alm"]
paper = "table"

[[items]]
key = "switching"
title = "Switching"
data = ["generated"]
methods = ["ssw"]
figures = ["train"]

[data.generated]
title = "Generated rows"

[data.generated.task]
dataset = "gaussian-parity"
options = {{ n = 600, seed = 3 }}
group = "group"
groups = ["0", "1"]

[methods.sgd]
title = "SGD"
algorithm = "sgd"
sampling = "shuffled"
record_every = 20
grid = {{ step_size = [0.01, 0.3] }}
tune_by = "loss"

[methods.alm]
title = "ALM"
algorithm = "alm"
output = "best"
record_every = 20
grid = {{ step_size = [0.05, 0.2] }}

[methods.ssw]
title = "SSw"
algorithm = "switching_subgradient:paper"
per_epoch = ["tolerance_every"]
output = "random"
record_every = 20

[[tables]]
caption = "Measures"
columns = ["test Ina", "train within*"]
percent = ["train within*"]

[[figures]]
key = "train"
kind = "curve"
title = "Loss and gap"
x = ["seconds"]
y = ["train loss", "train gap"]
scales = ["linear", "symlog"]
lines = [[], [-0.05, 0.05]]
panels = "methods"
mean = true

[[figures]]
key = "profiles"
kind = "profile"
title = "Profiles"
x = ["seconds", "calls"]
y = ["train within the bound", "lowest train loss within the bound"]
statistic = ["mean", "median"]

[[figures]]
key = "densities"
kind = "density"
title = "Densities"
y = ["test histogram *"]

[[figures]]
key = "spider"
kind = "radar"
title = "Spider"
x = ["train", "test"]
y = ["Ind", "Ina"]

[[figures]]
key = "tradeoff"
kind = "frontier"
title = "Trade-off"
x = ["test Ind"]
y = ["test Ina"]

[paper.table.sgd]
"test Ina" = [0.25, 0.01]
"""


def write_tiny(folder: Path, budget: str = "200 steps") -> Path:
    path = folder / "tiny.toml"
    path.write_text(TINY.format(budget=budget), encoding="utf-8")
    return path


def changed(table: dict, path: str, value) -> dict:
    """A copy of a study's table with one entry changed; dots separate keys."""
    copied = json.loads(json.dumps(table))
    place = copied
    *outer, last = path.split(".")
    for key in outer:
        place = place[int(key)] if key.isdigit() else place[key]
    place[last] = value
    return copied
