"""What fb.audit makes of labels, scores and groups as people have them."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import fairbound as fb
from fairbound.base.errors import DataError, DataWarning, OptionError
from fairbound.report import audit_page, summary, words
from fairbound.report.card import model_card
from fairbound.report.schema import validate

PARITY = "demographic_parity <= 0.2"
OF = {"true_positive_rate": "equal_opportunity <= 0.2", "selection_rate": PARITY}


def rows(n=400, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.normal(size=n)
    return s, (s + rng.normal(size=n) > 0).astype(int), rng.choice(["F", "M"], n)


@pytest.mark.parametrize(
    "labels", [("no", "yes"), (1, 2), (-1, 1), (False, True), (0.5, 1.5)], ids=["text", "12", "-11", "bool", "halves"]
)
def test_labels_of_any_two_values(labels):
    s, y, g = rows()
    stated = list(OF.values())
    plain = fb.audit(s, y, g, stated)
    found = fb.audit(s, np.array(labels)[y], g, stated)
    assert found["constraints"] == plain["constraints"] and found["metrics"] == plain["metrics"]
    if labels != (False, True):
        assert any(f"{labels[1]} is taken as positive" in note for note in found["notes"])
    turned = fb.audit(-s, np.array(labels, dtype=object)[1 - y], g, stated, classes=labels)
    other = fb.audit(-s, 1 - y, g, stated)
    assert turned["constraints"] == other["constraints"]


def test_predicted_labels_are_decisions():
    s, y, g = rows()
    words = np.array(["no", "yes"])
    plain = fb.audit((s > 0).astype(int), y, g, PARITY)
    found = fb.audit(words[(s > 0).astype(int)], words[y], g, PARITY, compare={"other": words[y].tolist()})
    assert found["constraints"] == plain["constraints"]
    with pytest.raises(DataError, match="none of the classes"):
        fb.audit(s, words[y], g, PARITY, classes=("no", "maybe"))
    with pytest.raises(DataError, match="3 values"):
        fb.audit(s, np.arange(len(s)) % 3, g, PARITY)


def test_the_positive_label_may_be_named_and_is_said():
    """Of "paid" and "refused" the greater one is not what a decision for the person means."""
    s, y, g = rows()
    words = np.array(["refused", "paid"])
    decided, stated = words[(s > 0).astype(int)], list(OF.values())
    plain = fb.audit((s > 0).astype(int), y, g, stated)
    found = fb.audit(decided, words[y], g, stated, positive="paid")
    assert (
        found["constraints"] == plain["constraints"]
        and found["data"]["positive"] == "paid"
        and plain["data"]["positive"] == "1"
    )
    assert fb.audit(decided, words[y], g, stated, classes=("refused", "paid"))["data"]["positive"] == "paid"
    alone = fb.audit(decided, words[y], positive="paid")
    assert alone["metrics"]["selection_rate"] == pytest.approx((s > 0).mean())
    both = fb.compare(decided, words[y], words[y], g, stated, positive="paid", draws=100)["differences"]
    assert both == fb.compare((s > 0).astype(int), y, y, g, stated, draws=100)["differences"]
    assert fb.measure(PARITY, decided, words[y], g, positive="paid") == plain["constraints"][1]["value"]
    with pytest.raises(OptionError, match="keep one of them"):
        fb.audit(s, words[y], g, PARITY, classes=("refused", "paid"), positive="paid")
    with pytest.raises(OptionError, match="leave it out"):
        fb.audit(decided, words[y], g, "class_demographic_parity <= 0.2", positive="paid")
    with pytest.raises(DataError, match="not among the labels"):
        fb.audit(decided, words[y], g, PARITY, positive="payed")
    with pytest.warns(DataWarning, match="pass positive='paid'"):
        fb.measure(PARITY, decided, words[y], g)


def test_how_scores_were_read_is_noted():
    _, y, g = rows()
    p = np.random.default_rng(1).uniform(size=len(y))
    assert any("probabilities; positive where above 0.5" in note for note in fb.audit(p, y, g, PARITY)["notes"])
    assert not fb.audit(p, y, g, PARITY, threshold=0.0)["notes"]


def test_rows_of_weight_0_are_left_out_and_spoken_of():
    s, y, g = rows()
    found = fb.audit(s, y, g, PARITY, sample_weight=(g == "F").astype(float))
    assert found["verdict"] == "insufficient" and [group["group"] for group in found["groups"]] == ["F"]
    gone = f"{(g == 'M').sum():,} of {len(g):,} rows have the weight 0 and are left out."
    assert gone in found["notes"]


@pytest.mark.parametrize("threshold", [[0.5], "0", float("nan"), True, 1j])
def test_a_threshold_is_one_number(threshold):
    s, y, g = rows(40)
    with pytest.raises((OptionError, TypeError), match="threshold"):
        fb.audit(s, y, g, PARITY, threshold=threshold)


def test_complex_scores_and_groups_without_a_hash_are_refused():
    s, y, g = rows(40)
    with pytest.raises(DataError, match="complex"):
        fb.audit(s + 0j, y, g, PARITY)
    with pytest.raises(DataError, match="a group must be a text"):
        fb.audit(s, y, [{}] * len(s), PARITY)


@pytest.mark.parametrize("stated", ["residual_gap <= 0.5", "loss_gap <= 0.5"])
def test_groups_that_are_too_small_for_bounds_of_means_are_named(stated):
    s, y, _ = rows(500)
    g = np.repeat(["many", "few"], [301, 199])
    (judged,) = fb.audit(s, y + 0.5 if "residual" in stated else y, g, stated)["constraints"]
    assert judged["verdict"] == "insufficient" and judged["upper"] is None
    assert judged["why"] == "Means are judged from 200 held-out rows of every group on; fewer have few (199)."
    assert judged["why"].rstrip(".") in words.explain(judged, 500)
    weighed = {"sample_weight": np.tile([1.0, 2.0], 250)}
    (judged,) = fb.audit(
        s, y + 0.5 if "residual" in stated else y, np.repeat(["many", "few"], [290, 210]), stated, **weighed
    )["constraints"]
    of = f"{np.tile([1, 2], 105).sum() ** 2 / np.tile([1, 4], 105).sum():.4g}"
    assert "200 effective held-out rows" in judged["why"] and judged["why"].endswith(
        f"fewer have few ({of} of 210 rows)."
    )
    (enough,) = fb.audit(s, y + 0.5 if "residual" in stated else y, np.repeat(["many", "few"], [300, 200]), stated)[
        "constraints"
    ]
    assert enough["why"] is None and enough["upper"] is not None


def test_rows_of_no_known_group_are_said_in_a_warning_and_beside_the_verdict():
    people = {"sex": ["F", "M"] * 400 + [None] * 100, "race": (["x"] * 450 + ["y"] * 449 + [None])}
    s, y = [1, 1, 0, 0] * 225, [0, 1, 1, 0] * 225
    found = fb.audit(s, y, people, "demographic_parity <= 0.3")
    assert found["verdict"] == "met" and found["data"]["missing_group_rows"] == {"sex": 100, "race": 1}
    assert [w.partition(";")[0] for w in found["warnings"]] == [
        "sex is not known in 100 of 900 rows", "race is not known in 1 of 900 rows"
    ]  # fmt: skip
    assert "holds on 900 held-out rows (800 with a known sex, 899 with a known race), even" in summary.said(found)
    del people["race"]
    people["sex"][800:] = ["NA", "nan"] * 50  # texts are groups here; only a file's reader takes them for missing
    whole = fb.audit(s, y, people, "demographic_parity <= 0.3")
    (said,) = whole["warnings"]
    assert said.startswith("sex: 'NA', 'nan' are counted as") and "on 900 held-out rows," in summary.said(whole)
    counted = fb.AuditCounts.of(s, y, {"sex": [None, *people["sex"][1:]]}).audit("demographic_parity <= 0.3")
    assert any("sex is not known in 1 of 900 rows" in w for w in counted["warnings"])


def test_decisions_have_no_log_loss():
    y = np.array([0, 1, 1, 0, 1, 0])
    for decisions in (np.array([0, 1, 0, 0, 1, 1]), np.array([-1, 1, -1, -1, 1, 1])):
        metrics = fb.audit(decisions, y)["metrics"]
        assert metrics["log_loss"] is None and metrics["accuracy"] == pytest.approx(4 / 6)
    assert fb.audit(np.array([0.1, 0.9, 0.4, 0.2, 0.8, 0.6]), y)["metrics"]["log_loss"] > 0


def test_names_that_differ_in_blanks_and_values_of_very_few_rows_are_warned_of():
    rng = np.random.default_rng(0)
    s, y, sex = rng.normal(size=400), rng.integers(0, 2, 400), np.array(["F", "M"] * 200, dtype=object)
    assert not any("held-out row" in w for w in fb.audit(s, y, sex, PARITY)["warnings"])
    s[1], sex[1] = 3.0, "m "
    assert not any("held-out row" in w for w in fb.audit(np.ones(400), y, sex, PARITY)["warnings"])  # no difference
    for found in (fb.audit(s, y, sex, PARITY), fb.AuditCounts.of(s, y, sex).audit(PARITY)):
        assert any("the groups 'M' and 'm ' differ only in capitals or blanks" in w for w in found["warnings"])
        (few,) = [w for w in found["warnings"] if "held-out row" in w]
        assert (
            f"that of {found['constraints'][0]['worst']}, and only 1 held-out row measures 'm '" in few
            and "State fewest=30 in the bound to leave out groups of fewer rows, merge" in few
        )
        assert (
            found["constraints"][0]["worst_groups"]["'m '"] == 1 and len(found["constraints"][0]["worst_groups"]) == 2
        )
        validate(found)
    stated = fb.audit(s, y, sex, "demographic_parity[fewest=1] <= 0.02")["warnings"]
    assert any("State a larger fewest" in one and "fewest=30" not in one for one in stated)
    tight = fb.audit(s, y, sex, "demographic_parity <= 0.01")["warnings"]
    assert any("State fewest=100 in the bound" in one for one in tight)  # by fewer rows a rate moves in larger steps
    overall = fb.audit(s, y, sex, "demographic_parity[overall] <= 0.2")["constraints"][0]
    assert overall["worst"].startswith("'m '") and list(overall["worst_groups"]) == [
        "'m '"
    ]  # the others are but a part of the mean
    assert not any("held-out row" in w for w in fb.audit(s, y, sex, "demographic_parity <= 1")["warnings"])  # met


def test_decisions_have_no_mean_loss_and_no_histogram_in_any_group():
    y, sex = np.array([0, 1, 1, 0, 1, 0]), list("FFFMMM")
    decisions = np.array([0, 1, 0, 0, 1, 1])
    whole, counted = fb.audit(decisions, y, {"sex": sex}), fb.AuditCounts.of(decisions, y, {"sex": sex}).audit()
    for found in (whole, counted, fb.audit(np.where(decisions, "Y", "N"), np.where(y, "Y", "N"), {"sex": sex})):
        validate(found)
        assert [g["mean_loss"] for g in found["groups"]] == [None, None] and found["metrics"]["log_loss"] is None
        assert found["distributions"] == [] and "Mean loss" not in audit_page(found)
    assert all(g["mean_loss"] > 0 for g in fb.audit(decisions * 0.9, y, {"sex": sex})["groups"])


def test_errors_show_plain_values():
    """No repr of numpy's, no whole table."""
    _, y, g = rows()
    with pytest.raises(DataError, match=r"not numbers \('maybe'\).* y_pred == 'maybe'"):
        fb.audit(np.full(400, "maybe"), y, g, PARITY)
    with pytest.raises(OptionError, match="got a ndarray"):
        fb.feasibility(np.zeros((400, 2)), y, g, PARITY)


def test_real_scores_decided_elsewhere_than_at_0_have_no_log_loss():
    """Account numbers above 1,000,600 are a decision, and no logits."""
    numbers, y, sex = 1_000_000.0 + np.arange(0, 1200, 200), np.array([0, 1, 1, 0, 1, 0]), list("FFFMMM")
    for found in (
        fb.audit(numbers, y, sex, threshold=1_000_600),
        fb.AuditCounts.of(numbers, y, sex, threshold=1_000_600).audit(),
    ):
        validate(found)
        assert found["metrics"]["log_loss"] is None and found["distributions"] == []
    logits = numbers - 1_000_600
    for told in (logits / 100, (logits + 600) / 1000):  # real scores decided at 0, probabilities
        assert fb.audit(told, y, sex)["metrics"]["log_loss"] > 0
    assert fb.audit((logits + 600) / 1000, y, sex, threshold=0.3)["metrics"]["log_loss"] > 0


def test_a_group_that_ends_in_a_blank_is_told_from_its_like_in_every_table():
    s, y, _ = rows()
    found = fb.audit(s, y, {"sex": ["F", "F "] * 200})
    page, printed = audit_page(found), fb.report.table(found)
    assert "│ 'F ' " in printed and "│ F " in printed
    heads = re.findall(r"<th scope=\"row\">.*?</th>", page)
    assert (
        sum("<bdi>&#39;F &#39;</bdi>" in head for head in heads) == 2 == sum("<bdi>F</bdi>" in head for head in heads)
    )
    assert "| 'F ' |" in model_card(found)


def test_labels_of_one_value_are_judged_with_a_warning():
    """Who is selected can be compared; what needs the other label is undefined, and never met."""
    rng = np.random.default_rng(0)
    group, decided, same = rng.choice(["a", "b"], 400), rng.integers(0, 2, 400), np.ones(400, dtype=int)
    found = fb.audit(decided, same, group, ["demographic_parity <= 0.3", "false_positive_rate_parity <= 0.3"])
    assert [c["verdict"] for c in found["constraints"]] == ["met", "insufficient"]
    assert any("All 400 rows have the label 1" in said for said in found["warnings"])
    assert any("The one row has the label 0: what" in said for said in fb.audit([1], [0], ["a"])["warnings"])
    both = fb.audit(decided, rng.integers(0, 2, 400), group)
    assert not any("have the label" in said for said in both["warnings"])
    with pytest.raises(DataError, match="one class, 'yes'"):
        fb.audit(decided, np.full(400, "yes"), group, "demographic_parity <= 0.3")


@pytest.mark.parametrize("labels", [2, 3])
def test_a_label_that_is_its_own_group_is_warned_of(labels):
    rng = np.random.default_rng(0)
    y = rng.integers(0, labels, 400)
    guess = rng.integers(0, labels, 400)
    bound = "equalized_odds <= 0.3" if labels == 2 else "recall of class 1 >= 0.1"
    said = lambda groups: " ".join(fb.audit(guess, y, groups, bound)["warnings"])  # noqa: E731
    assert "The groups of y tell the labels" in said({"y": y.astype(str)})
    assert "The groups of y tell the labels" in said({"y": y + labels * rng.integers(0, 2, 400)})
    assert "tell the labels" not in said({"z": rng.choice(["a", "b"], 400)})


def test_no_limit_is_minus_zero():
    y = np.repeat([0, 1], 200)
    (found,) = fb.audit(y, y, np.tile(["a", "b"], 200), "demographic_parity <= 0.3")["constraints"]
    ends = [c[k] for c in (found, *found["contrasts"]) for k in ("value", "lower", "upper")]
    assert 0.0 in ends and not any(math.copysign(1, v) < 0 and v == 0 for v in ends)
