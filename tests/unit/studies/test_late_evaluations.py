"""Late evaluations are told by steps: a budget in steps gives the same share whatever the clock said."""

from __future__ import annotations

import pytest

from fairbound.studies import deep_benchmark
from fairbound.studies.deep_benchmark import MEASURES, PARTS, WITHIN
from fairbound.studies.task import Run


@pytest.mark.parametrize("pace", [1.0, 10.0])
def test_late_evaluations_do_not_depend_on_the_clock(pace):
    """pace: by how much the second half of the steps is slower."""
    model = {f"{part} {name}": 0.0 for part in PARTS for name in MEASURES} | {"step": 90}
    records = [
        {"step": k, "seconds": min(k, 45) + pace * max(k - 45, 0), "samples": k, "calls": k, WITHIN: 0.0,
         "train |gap|": 0.0 if k < 70 else 1.0}
        for k in range(0, 91, 10)
    ]  # fmt: skip
    result = {"task": {"constraint": "loss_gap <= 0.005"}, "steps": 90, "seconds": records[-1]["seconds"]}
    out = deep_benchmark.numbers(Run(result, records, {"best": model, "last": model}, "best"), None)
    assert out["late evaluations within the bound"] == pytest.approx(1 / 4)  # of steps 60, 70, 80 and 90, the first
