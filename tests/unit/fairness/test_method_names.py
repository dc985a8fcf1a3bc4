"""The named method of an interval is the one that computed it: a reader can recompute it from docs/intervals.md."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import fairbound as fb

PAGE = Path(__file__).resolve().parents[3] / "docs" / "intervals.md"


def example(counts: str) -> dict:
    """What the script of the page computes of these counts."""
    (text,) = re.findall(r"^```python\n(import math.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.M | re.S)
    names: dict = {}
    exec(compile(text.replace("(60, 100), (90, 300)", counts), "intervals.md", "exec"), names)
    return names


@pytest.mark.parametrize("counts", ["(60, 100), (90, 300)", "(52, 100), (120, 300)", "(30, 50), (30, 60)"])
def test_the_worked_example_of_the_page_is_the_interval_of_an_audit(counts, capsys):
    made = example(counts)
    decided = [np.repeat([1, 0], [made[f"x_{k}"], made[f"n_{k}"] - made[f"x_{k}"]]) for k in "ab"]
    groups = np.repeat(["a", "b"], [made["n_a"], made["n_b"]])
    (found,) = fb.audit(np.concatenate(decided), None, groups, "demographic_parity <= 0.1")["constraints"]
    assert found["value"] == pytest.approx(made["a"] - made["b"], abs=1e-12)
    assert found["lower"] == pytest.approx(max(made["lower"], 0), abs=1e-10)
    assert found["upper"] == pytest.approx(min(made["upper"], 1), abs=1e-10)
    if counts == "(60, 100), (90, 300)":
        assert f"It prints `{capsys.readouterr().out.strip()}`" in PAGE.read_text(encoding="utf-8")


RATES, BETS = "MOVER: Clopper-Pearson limits", "betting limits of means of"
JOINT, WHOLE = "lower bound: jointly over the pairs", "upper bound: each comparison at the whole level"


@pytest.mark.parametrize(
    ("stated", "says", "says_not"),
    [
        ("demographic_parity <= 0.1", [RATES, "half a row, the larger 1 / (2 n);", JOINT, WHOLE], []),
        ("demographic_parity[overall] <= 0.1", [RATES, "shares of the groups", WHOLE], [JOINT]),
        ("treatment_equality <= 1", [RATES, "half a row;", JOINT], ["1 / (2 n)"]),
        ("demographic_parity_ratio >= 0.8", [RATES, "lower bound: each comparison at the whole level"], [JOINT]),
        ("group_loss <= 1", ["Student's t for means of losses"], ["differences", "Welch"]),
        ("loss_gap <= 1", ["Welch's t for differences of means of losses", WHOLE], [JOINT]),
        ("loss_gap[largest=5] <= 1", [BETS, "upper bound: Bonferroni over the groups of one comparison"], [JOINT]),
        ("group_loss[largest=5] <= 1", [BETS, WHOLE], []),
        ("residual_gap <= 1", ["Welch's t for differences of means of residuals"], ["loss"]),
        ("residual_gap[largest=8] <= 1", ["means of residuals from -8 to 8 (guaranteed)"], ["loss"]),
        ("group_squared_error <= 3", ["Student's t for means of squared errors"], ["loss", "differences"]),
    ],
)
def test_the_name_of_a_method_says_what_was_done(stated, says, says_not):
    rng = np.random.default_rng(0)
    group, s = rng.choice(["a", "b", "c"], 1200), rng.normal(size=1200)
    y = s + rng.normal(size=1200) if "residual" in stated or "squared" in stated else rng.integers(0, 2, 1200)
    method = fb.audit(s, y, group, stated)["constraints"][0]["method"]
    assert all(part in method for part in says) and method.endswith("Bonferroni over stated bounds")
    assert not any(part in method for part in says_not)
