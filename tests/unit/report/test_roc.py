"""ROC curves under bounds on areas: what the audit holds, what the schema refuses, and what the page shows."""

import copy
import re

import numpy as np
import pytest

import fairbound as fb
from fairbound.ranking.wins import auc
from fairbound.report import audit_page
from fairbound.report.schema import SchemaError, validate

pytest.importorskip("matplotlib", reason="the page's charts need the extra 'report'")
BOUND = "auc_parity[group] <= 0.2"
NOTE = "The surrogate that met the bound at the largest area: sigmoid pairs, steered by the true areas."


def rows(n=300, groups="ab", ties=1, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.choice(list(groups), n)
    s = np.round((rng.normal(size=n) + 0.5 * (group == "a")) * ties) / ties
    return s, (rng.random(n) < 1 / (1 + np.exp(-s))).astype(int), group


@pytest.fixture(scope="module")
def found():
    s, y, group = rows(ties=5)
    return fb.audit(s, y, {"team": group}, BOUND, threshold=0, notes=[NOTE])


def test_areas_are_those_of_the_sets_and_of_the_curves(found):
    """Exactly, where a curve has fewer corners than points: the trapezoids of tied scores count half."""
    s, y, group = rows(ties=5)
    validate(found)
    (entry,) = found["roc"]
    assert [p["kind"] for p in entry["pictures"]] == ["within groups", "across groups", "of two groups"]
    names = {f"{word}{g}": (group == g) & inside for g in "ab" for word, inside in
             (("", y >= 0), ("positives of ", y == 1), ("negatives of ", y == 0))}  # fmt: skip
    seen = set()
    for picture in entry["pictures"]:
        for c in picture["curves"]:
            one, two = names[c["above"]], names[c["below"]]
            assert c["area"] == pytest.approx(auc(s, one, two), abs=1e-12)
            y_, x_ = np.array(c["y"]), np.array(c["x"])
            assert float(np.diff(x_) @ (y_[1:] + y_[:-1]) / 2) == pytest.approx(c["area"], abs=1e-12)
            assert c["rows"] == [one.sum(), two.sum()] and c["x"][0] == c["y"][0] == 0 and c["x"][-1] == c["y"][-1] == 1
            seen.add((c["above"], c["below"]))
    assert seen == {
        *((f"positives of {a}", f"negatives of {b}") for a in "ab" for b in "ab"),
        *({("a", "b"), ("b", "a")} & seen),
    }


@pytest.mark.parametrize("seed", range(3))
def test_weights_count_as_copies_and_points_are_few(seed):
    s, y, group = rows(400, ties=10**6, seed=seed)
    weight = np.random.default_rng(seed).integers(0, 3, len(s))
    many = np.repeat(np.arange(len(s)), weight)
    one = fb.audit(s, y, group, "auc_parity[intra] <= 0.2", threshold=0, sample_weight=weight)["roc"]
    two = fb.audit(s[many], y[many], group[many], "auc_parity[intra] <= 0.2", threshold=0)["roc"]
    for a, b in zip(one[0]["pictures"], two[0]["pictures"], strict=True):
        for c, d in zip(a["curves"], b["curves"], strict=True):
            assert c["area"] == pytest.approx(d["area"], abs=1e-12) and c["above"] == d["above"]
            assert len(c["x"]) <= 101 and c["x"] == pytest.approx(d["x"]) and c["y"] == pytest.approx(d["y"])


def test_many_groups_and_groups_without_a_label():
    s, y, group = rows(600, "abcdefgh")
    y[group == "a"] = 1
    (entry,) = fb.audit(s, y, group, "auc_parity[group] <= 0.5", threshold=0)["roc"]
    assert entry["groups_left_out"] == 2 and max(len(p["curves"]) for p in entry["pictures"]) == 6
    assert not any("negatives of a" in c["below"] for p in entry["pictures"] for c in p["curves"])


def test_only_bounds_on_areas_of_scores_are_drawn():
    s, y, group = rows()
    assert "roc" not in fb.audit(s, y, group, "demographic_parity <= 0.1", threshold=0)
    assert "roc" not in fb.audit((s > 0).astype(float), y, group, "auc_parity[group] <= 0.9", threshold=0.5)


def test_the_schema_refuses_curves_of_unequal_length(found):
    wrong = copy.deepcopy(found)
    wrong["roc"][0]["pictures"][0]["curves"][0]["y"].pop()
    with pytest.raises(SchemaError, match="as x does"):
        validate(wrong)


def test_the_page_draws_them_with_words_and_says_which_surrogate_met_the_bound(found):
    page = audit_page(found)
    part = re.search(r'<section id="roc".*?</section>', page, re.S)[0]
    assert part.count('<svg class="chart"') == 3 and NOTE in part
    labels = re.findall(r'role="img" aria-label="([^"]*)"', part)
    assert all("area 0." in label and "ROC curves" in label for label in labels)
    assert "across groups" in part and "positives of a" in part
    plain = audit_page({k: v for k, v in found.items() if k != "roc"})
    assert 'id="roc"' not in plain
