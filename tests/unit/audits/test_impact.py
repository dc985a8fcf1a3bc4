"""Impact ratios counted by hand, Fisher's test by its definition, what is left out, and the card and table made of them."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math

import numpy as np
import pytest

import fairbound as fb
from fairbound.audits.impact import impact_tables
from fairbound.fairness.scored import Scored
from fairbound.report import schema
from fairbound.report.card import COLUMNS, impact_csv, model_card
from fairbound.rows.groups import Groups


def rows_of(counts, unknown=0):
    """Scored rows with (n, selected) per category; unknown rows are selected."""
    sex = [name for name, (n, _) in counts.items() for _ in range(n)] + [None] * unknown
    hit = [i < k for n, k in counts.values() for i in range(n)] + [True] * unknown
    decision = np.array(hit, dtype=int)
    return Scored(np.zeros(len(sex), int), decision, groups=Groups.of({"sex": sex}), scores=np.where(hit, 1.0, -1.0))


def hypergeometric(table):
    """Two-sided p-value by adding up all tables with the same margins that are no likelier."""
    (a, b), (c, d) = table
    n, k, m = a + b, a + c, a + b + c + d
    p = lambda i: math.comb(k, i) * math.comb(m - k, n - i) / math.comb(m, n)  # noqa: E731
    return sum(p(i) for i in range(max(0, n + k - m), min(n, k) + 1) if p(i) <= p(a) * (1 + 1e-7))


def test_ratios_and_screens_are_those_counted_by_hand():
    (table,) = impact_tables(rows_of({"f": (200, 60), "m": (300, 150), "x": (9, 9), "z": (40, 18)}, unknown=51))
    found = {c["category"]: c for c in table["categories"]}
    assert table["unknown"] == 51 and table["highest"] == "m"
    assert found["f"]["impact_ratio"] == pytest.approx(0.3 / 0.5) and found["m"]["impact_ratio"] == 1
    assert found["x"]["impact_ratio"] is None and found["x"]["selection_rate"] == 1
    assert found["x"]["left_out"] == "1.5 % of the rows, less than 2 %" and found["x"]["four_fifths"] is None
    assert found["f"]["four_fifths"]["below"] and not found["z"]["four_fifths"]["below"]
    for name, other in (("f", (60, 140)), ("z", (18, 22))):
        screen = found[name]["four_fifths"]
        assert screen["p_value"] == pytest.approx(hypergeometric([other, (150, 150)]), rel=1e-9)
        assert not screen["small_sample"]
    assert found["m"]["four_fifths"] == {"below": False, "p_value": 1.0, "small_sample": False}
    assert all(c["scoring_rate"] is None for c in table["categories"])  # decisions have no scores


def test_small_samples_are_flagged_and_nobody_selected_has_no_ratio():
    (table,) = impact_tables(rows_of({"f": (29, 10), "m": (300, 150)}))
    assert [c["four_fifths"]["small_sample"] for c in table["categories"]] == [True, False]
    (rare,) = impact_tables(rows_of({"f": (100, 1), "m": (100, 3)}))
    assert [c["four_fifths"]["small_sample"] for c in rare["categories"]] == [True, True]
    (none,) = impact_tables(rows_of({"f": (50, 0), "m": (50, 0)}))
    assert none["highest"] is None and all(c["impact_ratio"] is None for c in none["categories"])


def test_scoring_rates_are_shares_above_the_median_and_intersections_are_there():
    rng = np.random.default_rng(0)
    people = {"sex": rng.choice(["f", "m"], 400), "race": rng.choice(["a", "b"], 400)}
    s = rng.normal(size=400) + (people["sex"] == "m")
    found = fb.audit(s, (s > 0).astype(int), people, "demographic_parity <= 0.1")
    schema.validate(found)
    assert [t["attribute"] for t in found["impact"]] == ["sex", "race", "sex*race"]
    by = {c["category"]: c for c in found["impact"][2]["categories"]}
    for a, b in itertools.product("fm", "ab"):
        mine = (people["sex"] == a) & (people["race"] == b)
        assert by[f"{a} & {b}"]["scoring_rate"] == pytest.approx((s[mine] > np.median(s)).mean())
        assert by[f"{a} & {b}"]["selection_rate"] == pytest.approx((s[mine] > 0).mean())
    rates = [c["scoring_rate"] for c in found["impact"][0]["categories"]]
    assert found["impact"][0]["categories"][0]["scoring_impact_ratio"] == pytest.approx(rates[0] / max(rates))
    parts = fb.AuditCounts.of(s[:150], (s[:150] > 0).astype(int), {k: v[:150] for k, v in people.items()}, threshold=0)
    parts = parts.merge(
        fb.AuditCounts.of(s[150:], (s[150:] > 0).astype(int), {k: v[150:] for k, v in people.items()}, threshold=0)
    )
    counted = parts.audit("demographic_parity <= 0.1")["impact"]
    for one, two in zip(found["impact"], counted, strict=True):
        assert [c["impact_ratio"] for c in one["categories"]] == [c["impact_ratio"] for c in two["categories"]]


def test_card_and_table_hold_the_numbers_and_stay_plain_text():
    yaml = pytest.importorskip("yaml", reason="reads the card's metadata as others would")
    sex = ["=cmd|'/c calc'!A1", "<script>|", "m"] * 100
    s = np.tile([0.9, 0.2, 0.7, 0.1, 0.6, 0.3], 50)
    found = fb.audit(s, (s > 0.5).astype(int), {"sex": sex}, "demographic_parity <= 0.5", title="a: 'b' # c\n---")
    card = model_card(found)
    meta = yaml.safe_load(card.split("\n---\n")[0].removeprefix("---\n"))
    assert meta["fairbound"]["verdict"] == found["verdict"] and meta["library_name"] == "fairbound"
    assert meta["fairbound"]["bounds"][0]["upper"] == found["constraints"][0]["upper"]
    assert "<script>" not in card and "passes" not in card.lower()
    lines = list(csv.reader(io.StringIO(impact_csv(found))))
    assert tuple(lines[0]) == COLUMNS and all(len(line) == len(COLUMNS) for line in lines)
    assert lines[2][1].startswith("'=") and lines[-1][1] == "(unknown)"
    assert impact_csv({**found, "impact": []}) == ""
    json.dumps(found, allow_nan=False)


def test_a_weighted_audit_says_that_its_ratios_are_not_weighted():
    """The selection rate of one group stands on the page twice, weighted and not."""
    from fairbound.report import audit_page

    rng = np.random.default_rng(0)
    sex, y, weight = rng.choice(["f", "m"], 200), rng.integers(0, 2, 200), rng.gamma(2, size=200)
    found = fb.audit(rng.integers(0, 2, 200), y, {"sex": sex}, "demographic_parity <= 0.2", sample_weight=weight)
    plain = fb.audit(rng.integers(0, 2, 200), y, {"sex": sex}, "demographic_parity <= 0.2")
    schema.validate(found)
    assert found["data"]["weighted"] is True and "weighted" not in plain["data"]
    for made in (audit_page, model_card):
        assert "impact ratios, unweighted" in made(found) and "whatever their weights" in made(found)
        assert "unweighted" not in made(plain)
    assert "as sure as that of 41 independent rows of equal weight" in audit_page(found)
    assert "a share of 41 rows, not of the whole group" in audit_page(plain)
