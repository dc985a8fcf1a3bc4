"""The drawing under bounds on percentile intervals: what the audit holds, what the schema refuses, and what the page shows."""

import copy
import re

import numpy as np
import pytest

import fairbound as fb
from fairbound.report import audit_page
from fairbound.report.schema import SchemaError, validate

pytest.importorskip("matplotlib", reason="the page's charts need the extra 'report'")
BOUND = "partial_statistical_parity[0.1:0.5,b@0.2:0.6] <= 0.2"


def rows(n=400):
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b"], n)
    s = rng.normal(size=n) + 0.5 * (group == "a")
    return s, (rng.random(n) < 1 / (1 + np.exp(-s))).astype(int), group


@pytest.fixture(scope="module")
def found():
    s, y, group = rows()
    return fb.audit(s, y, {"team": group}, [BOUND, "partial_equalized_odds[0:0.5] <= 0.3"], threshold=0)


def test_the_audit_holds_the_scores_of_every_percentile(found):
    s, y, group = rows()
    validate(found)
    assert [(p["text"], p["among"]) for p in found["percentiles"]] == [
        (BOUND, "rows"),
        ("partial_equalized_odds[0:0.5] <= 0.3", "positive rows"),
        ("partial_equalized_odds[0:0.5] <= 0.3", "negative rows"),
    ]
    for entry, inside in zip(found["percentiles"], (y >= 0, y == 1, y == 0), strict=True):
        assert entry["attribute"] == "team"
        full = fb.measure("partial_statistical_parity", s[inside], y[inside], group[inside], threshold=0)
        few = 1 / min(g["rows"] for g in entry["groups"].values())
        assert full - 0.01 - few <= max(entry["disparity"]) <= full + 1e-12
        for name, g in entry["groups"].items():
            own = np.sort(s[inside & (group == name)])[::-1]
            assert g["rows"] == len(own)
            logits = np.log(g["scores"]) - np.log1p(-np.array(g["scores"]))
            place = [min(int(np.floor(p * len(own) + 1e-9)), len(own) - 1) for p in entry["percentiles"]]
            assert logits == pytest.approx(own[place], abs=1e-9)
    assert [g["intervals"] for g in found["percentiles"][0]["groups"].values()] in (
        [[[0.1, 0.5]], [[0.2, 0.6]]],
        [[[0.2, 0.6]], [[0.1, 0.5]]],
    )


def test_only_bounds_on_intervals_of_scores_are_drawn():
    s, y, group = rows()
    assert "percentiles" not in fb.audit(s, y, group, "demographic_parity <= 0.1", threshold=0)
    decided = fb.audit((s > 0).astype(int), y, group, "partial_demographic_parity[0:0.5] <= 0.1")
    assert "percentiles" not in decided


def test_a_group_without_a_row_of_the_label_leaves_the_others_drawn():
    s, y, group = rows()
    y = np.where(group == "b", 1, y)
    made = fb.audit(s, y, group, "partial_equalized_odds[0:0.5] <= 0.3", threshold=0)
    assert [p["among"] for p in made["percentiles"]] == ["positive rows"]


def test_the_page_draws_every_entry(found):
    page = audit_page(found)
    section = page[page.index('id="percentiles"') :]
    assert section.count("Scores of team by percentile") == 3
    for among in ("rows", "positive rows", "negative rows"):
        assert f"of all {among} of the groups" in section and f"percentile of the group's {among} in %" in section
    entry = found["percentiles"][0]
    assert re.search(r"\(\d+ rows, 0\.1:0\.5\)", section)
    inside = [d for p, d in zip(entry["percentiles"], entry["disparity"], strict=True) if 0.1 <= p <= 0.6]
    assert f"largest disparity there {max(inside):.3g}" in section


@pytest.mark.parametrize(
    ("spoil", "path"),
    [
        (lambda p: p["disparity"].pop(), r"audit.percentiles\[0\].disparity"),
        (lambda p: p["groups"]["a"]["scores"].pop(), r"audit.percentiles\[0\].groups.a.scores"),
        (lambda p: p["percentiles"].__setitem__(0, -0.1), r"audit.percentiles\[0\].percentiles\[0\]"),
        (lambda p: p.pop("among"), r"audit.percentiles\[0\].among"),
    ],
)
def test_the_schema_names_what_is_wrong(found, spoil, path):
    spoilt = copy.deepcopy(found)
    spoil(spoilt["percentiles"][0])
    with pytest.raises(SchemaError, match=path):
        validate(spoilt)
