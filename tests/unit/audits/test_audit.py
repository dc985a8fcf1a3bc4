"""The held-out verdict: right values, right words, wrong at most as often as it says, honest where it cannot know."""

from __future__ import annotations

import numpy as np
import pytest

import fairbound as fb
from fairbound.base.errors import DataError, OptionError
from fairbound.report import schema
from fairbound.rows.groups import Groups
from fairbound.rows.scores import as_logits

PARITY = "demographic_parity <= 0.05"


def exact(n: int, rates: dict[str, float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, labels and groups: n rows of each group, of which exactly the given share is selected."""
    scores = np.concatenate([np.where(np.arange(n) < round(rate * n), 1.0, -1.0) for rate in rates.values()])
    return scores, np.tile(np.arange(n) % 2, len(rates)), np.repeat(list(rates), n)


def drawn(rng, n=3000):
    group = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    y = rng.integers(0, 2, n)
    return rng.normal(size=n) + 0.8 * y + 0.3 * (group == "c"), y, group


@pytest.mark.parametrize(
    ("n", "rates", "verdict", "code"),
    [
        (20000, {"a": 0.40, "b": 0.41}, "met", 0),
        (20000, {"a": 0.40, "b": 0.41, "c": 0.50}, "violated", 1),
        (50, {"a": 0.40, "b": 0.44}, "insufficient", 3),
        (50, {"a": 0.40, "b": 0.40}, "insufficient", 3),
    ],
)
def test_verdicts_and_exit_codes(n, rates, verdict, code):
    found = fb.audit(*exact(n, rates), PARITY)
    schema.validate(found)
    (judged,) = found["constraints"]
    assert (found["verdict"], found["exit_code"]) == (verdict, code)
    assert judged["value"] == pytest.approx(max(rates.values()) - min(rates.values()), abs=1e-12)
    assert judged["lower"] <= judged["value"] <= judged["upper"]
    assert judged["groups"] == dict.fromkeys(rates, n)
    assert (judged["rows_needed"] is not None) == (verdict == "insufficient")


def test_bounds_that_compare_a_variable_given_in_another_are_said_to():
    rng = np.random.default_rng(0)
    groups = {
        name: rng.choice(known, 900)
        for name, known in (("sex", ["F", "M"]), ("race", ["a", "b"]), ("rich", ["no", "yes"]))
    }
    rows = (rng.normal(size=900), rng.integers(0, 2, 900), groups)
    given = "conditional_demographic_parity[given=rich] <= 0.3"
    said = lambda *bounds: [w for w in fb.audit(*rows, bounds)["warnings"] if "is given in another" in w]  # noqa: E731
    (one,) = said("demographic_parity_ratio >= 0.5", given)
    assert "'rich' is given" in one and "'demographic_parity_ratio >= 0.5' compares its groups too" in one
    assert "'demographic_parity_ratio[by=sex] >= 0.5' and 'demographic_parity_ratio[by=race] >= 0.5'" in one
    assert "'equal_opportunity[by=sex+race] <= 0.4'" in said("equal_opportunity[crossed] <= 0.4", given)[0]
    assert said("demographic_parity_ratio[by=sex] >= 0.5", given) == said(given) == []


def test_the_rows_said_to_decide_do_decide():
    rates = {"a": 0.40, "b": 0.43}
    few = fb.audit(*exact(100, rates), PARITY)["constraints"][0]
    per_group = -(-few["rows_needed"] // 2)
    enough = fb.audit(*exact(100 * round(1.05 * per_group / 100), rates), PARITY)
    short = fb.audit(*exact(100 * round(0.9 * per_group / 100), rates), PARITY)
    assert (enough["verdict"], short["verdict"]) == ("met", "insufficient")


def test_the_worst_constraint_gives_the_verdict_and_no_bound_gives_none():
    data = exact(20000, {"a": 0.40, "b": 0.50})
    found = fb.audit(*data, ["demographic_parity <= 0.3", PARITY])
    assert [c["verdict"] for c in found["constraints"]] == ["met", "violated"] and found["verdict"] == "violated"
    nothing = fb.audit(*data)
    assert (nothing["verdict"], nothing["exit_code"], nothing["constraints"]) == (None, 0, [])
    schema.validate(nothing)


def test_values_agree_with_fairlearn():
    metrics = pytest.importorskip("fairlearn.metrics")
    s, y, group = drawn(np.random.default_rng(0))
    decided = (s > 0).astype(int)
    for text, theirs in (
        ("demographic_parity <= 0.1", metrics.demographic_parity_difference),
        ("equal_opportunity <= 0.1", metrics.equal_opportunity_difference),
        ("equalized_odds <= 0.1", metrics.equalized_odds_difference),
    ):
        ours = fb.audit(s, y, group, text)["constraints"][0]["value"]
        assert ours == pytest.approx(theirs(y, decided, sensitive_features=group), abs=1e-12)
    overall = fb.audit(s, y, group, "demographic_parity[overall] <= 0.1")["constraints"][0]["value"]
    theirs = metrics.demographic_parity_difference(y, decided, sensitive_features=group, method="to_overall")
    assert overall == pytest.approx(theirs, abs=1e-12)


def test_metrics_and_loss_gap_by_hand():
    s, y, group = drawn(np.random.default_rng(1))
    found = fb.audit(s, y, group, ["loss_gap <= 0.1", "demographic_parity[best] <= 0.1"])
    loss = np.logaddexp(0, np.where(y == 1, -s, s))
    means = [loss[group == g].mean() for g in "abc"]
    rates = [(s > 0)[group == g].mean() for g in "abc"]
    assert found["constraints"][0]["value"] == pytest.approx(max(means) - min(means), abs=1e-12)
    assert found["constraints"][1]["value"] == pytest.approx(max(rates) - min(rates), abs=1e-12)
    assert found["metrics"]["accuracy"] == np.mean((s > 0) == y)
    assert found["metrics"]["log_loss"] == pytest.approx(loss.mean(), abs=1e-12)
    for row, g in zip(found["groups"], "abc", strict=True):
        part = group == g
        assert (row["n"], row["positives"]) == (part.sum(), y[part].sum())
        assert row["rates"]["true_positive_rate"]["value"] == pytest.approx((s > 0)[part & (y == 1)].mean(), abs=1e-12)


@pytest.mark.parametrize(
    ("n", "base"), [(200, 0.5), *(pytest.param(*more, marks=pytest.mark.long) for more in ((200, 0.02), (2000, 0.3)))]
)
def test_a_verdict_is_wrong_at_most_as_often_as_stated(n, base):
    """100 audits at 90 %: of a gap just above the bound, "met" is wrong; of one at the bound, "violated" is.

    Allowed: 10 % plus three standard errors (0.3 / sqrt(100) = 0.03 each). tests/claims/test_intervals.py enumerates.
    """
    rng = np.random.default_rng([n, round(100 * base)])
    y, group = np.tile([0, 1], n // 2), np.repeat(["a", "b"], n // 2)
    wrong = {}
    for verdict, truth in (("met", 0.1001), ("violated", 0.1)):
        rate = np.where(group == "a", base, base + truth)
        scores = np.where(rng.random((100, n)) < rate, 1.0, -1.0)
        drawn = dict(zip(map(str, range(100)), scores, strict=True))
        judged = fb.audit(scores[0], y, group, "demographic_parity <= 0.1", compare=drawn, confidence=0.9)
        wrong[verdict] = sum(m["constraints"][0]["verdict"] == verdict for m in judged["comparison"])
    assert max(wrong.values()) / 100 <= 0.1 + 3 * 0.03, wrong


def test_several_bounds_share_the_chance_of_error():
    data = exact(2000, {"a": 0.40, "b": 0.42})
    alone = fb.audit(*data, PARITY)["constraints"][0]
    joint = fb.audit(*data, [PARITY, "equal_opportunity <= 0.1"])["constraints"][0]
    strict = fb.audit(*data, PARITY, confidence=0.975)["constraints"][0]
    assert joint["upper"] == strict["upper"] > alone["upper"]
    each = fb.audit(*data, [PARITY, "equal_opportunity <= 0.1"], together=False)["constraints"]
    assert (each[0]["lower"], each[0]["upper"]) == (alone["lower"], alone["upper"])
    assert "stated bounds" in joint["method"] and not any("stated bounds" in c["method"] for c in each)


def test_a_group_without_a_held_out_row_is_not_enough_evidence():
    s, y, group = exact(20000, {"a": 0.40, "b": 0.40})
    known = Groups.of(np.array(["a", "b", "rare"]))
    held, _ = known.encode(group)
    (judged,) = fb.audit(s, y, held, PARITY)["constraints"]
    assert judged["verdict"] == "insufficient" and "rare" in judged["why"] and judged["rows_needed"] is None
    assert fb.audit(s, y, group, PARITY)["verdict"] == "met"
    apart, y, group = exact(20000, {"a": 0.40, "b": 0.60})
    assert fb.audit(apart, y, known.encode(group)[0], PARITY)["verdict"] == "violated"  # a third group cannot mend it


def test_one_group_alone_is_not_enough_evidence():
    s, y, _ = exact(100, {"a": 0.40, "b": 0.40})
    held, _ = Groups.of(np.array(["a", "b"])).encode(np.full(200, "a"))
    found = fb.audit(s, y, held, PARITY)
    schema.validate(found)
    assert found["verdict"] == "insufficient" and found["constraints"][0]["value"] is None


def test_a_group_without_positives_has_no_true_positive_rate():
    s, y, group = exact(100, {"a": 0.40, "b": 0.40, "c": 0.4})
    y = np.where(group == "b", 0, y)
    found = fb.audit(s, y, group, "equal_opportunity <= 0.1")
    schema.validate(found)
    (judged,) = found["constraints"]
    assert judged["verdict"] == "insufficient" and "b" in judged["why"]
    rate = next(g for g in found["groups"] if g["group"] == "b")["rates"]["true_positive_rate"]
    assert (rate["value"], rate["count"], rate["why"]) == (None, 0, "no positives")


@pytest.mark.parametrize(
    ("stated", "worst"),
    [
        ("equalized_odds <= 0.1", "c - "),
        ("equalized_odds[overall] <= 0.1", "c - "),
        ("class_recall_parity <= 0.1", " - c"),
    ],
)
def test_a_group_without_positives_is_still_compared_among_negatives(stated, worst):
    rng = np.random.default_rng(0)
    group, y = rng.choice(["a", "b"], 2000), rng.integers(0, 2, 2000)
    decision = (rng.random(2000) < np.where(y == 1, 0.8, 0.2)).astype(int)
    group[:300], y[:300], decision[:300] = "c", 0, 1
    found = fb.audit(decision, y, group, stated)["constraints"][0]
    assert found["verdict"] == "violated" and found["lower"] > 0.5 and worst in found["worst"]
    assert found["groups"]["c | y=1"] == 0 and found["why"] == "No held-out row measures c | y=1."
    decision[:300] = rng.random(300) < 0.2
    alike = fb.audit(decision, y, group, stated)["constraints"][0]
    assert alike["verdict"] == "insufficient" and alike["upper"] == 1.0


def test_groups_that_a_bound_leaves_out_are_named_and_do_not_keep_it_from_being_met():
    rng = np.random.default_rng(0)
    group, y = rng.choice(["a", "b"], 4000), rng.integers(0, 2, 4000)
    group[:300], y[:300] = "c", 0
    decision = rng.integers(0, 2, 4000)
    rest = fb.audit(decision[300:], y[300:], group[300:], "equalized_odds <= 0.2")["constraints"][0]
    for labels in (["a", "b", "c"], ["a", "b", "c", "d"]):  # nobody is in d
        known = Groups.of(labels).encode(group)[0]
        assert fb.audit(decision, y, known, "equalized_odds <= 0.2")["verdict"] == "insufficient"
        made = fb.audit(decision, y, known, "equalized_odds[empty=drop] <= 0.2")
        found = made["constraints"][0]
        assert found["left_out"] == labels[2:] and found["why"] is None
        for key in ("value", "lower", "upper", "groups", "verdict"):
            assert found[key] == rest[key]
        assert found["verdict"] == "met"
        assert f"Left out (empty=drop), for want of rows that it needs: {', '.join(labels[2:])}." in fb.report.table(
            made
        )


@pytest.mark.parametrize("stated", ["auc_parity[intra{}] <= 0.2", "partial_equal_opportunity[0.2:0.8{}] <= 0.5"])
def test_groups_left_out_of_ranks_are_named(stated):
    rng = np.random.default_rng(0)
    group, y, scores = rng.choice(["a", "b"], 4000), rng.integers(0, 2, 4000), rng.normal(size=4000)
    group[:300], y[:300] = "c", 0
    known = Groups.of(["a", "b", "c", "d"]).encode(group)[0]
    assert fb.audit(scores, y, known, stated.format(""), threshold=0)["verdict"] == "insufficient"
    found = fb.audit(scores, y, known, stated.format(",empty=drop"), threshold=0)["constraints"][0]
    assert (found["verdict"], found["left_out"][-1]) == ("met", "d")


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_rows_of_unknown_group_are_counted_and_in_no_bound(missing):
    s, y, group = exact(1000, {"a": 0.40, "b": 0.42})
    known = fb.audit(s, y, group, PARITY)
    more = fb.audit(
        np.append(s, np.ones(500)), np.append(y, np.ones(500)), np.append(group.astype(object), [missing] * 500), PARITY
    )
    assert more["data"]["missing_group_rows"] == {"group": 500}
    for key in ("value", "lower", "upper", "groups"):
        assert more["constraints"][0][key] == known["constraints"][0][key]


def test_weights():
    s, y, group = drawn(np.random.default_rng(2), 600)
    plain = fb.audit(s, y, group, PARITY)
    same = fb.audit(s, y, group, PARITY, sample_weight=np.full(600, 3.0))
    assert same["metrics"] == pytest.approx(plain["metrics"], abs=1e-12)
    for key in ("value", "lower", "upper"):
        assert same["constraints"][0][key] == pytest.approx(plain["constraints"][0][key], abs=1e-12)
    w = np.random.default_rng(3).integers(1, 4, 600)
    repeated = fb.audit(np.repeat(s, w), np.repeat(y, w), np.repeat(group, w), PARITY)
    weighted = fb.audit(s, y, group, PARITY, sample_weight=w)
    assert weighted["constraints"][0]["value"] == pytest.approx(repeated["constraints"][0]["value"], abs=1e-12)
    assert weighted["metrics"] == pytest.approx(repeated["metrics"], abs=1e-12)
    assert weighted["constraints"][0]["upper"] > repeated["constraints"][0]["upper"]  # weights are not rows
    assert "effective number" in weighted["constraints"][0]["method"]


def test_other_models_are_judged_on_the_same_rows():
    s, y, group = exact(20000, {"a": 0.40, "b": 0.41})
    other = exact(20000, {"a": 0.40, "b": 0.50})[0]
    found = fb.audit(s, y, group, PARITY, compare={"ours": s, "theirs": other})
    schema.validate(found)
    assert [m["constraints"][0]["verdict"] for m in found["comparison"]] == ["met", "violated"]
    with pytest.raises(DataError, match="theirs"):
        fb.audit(s, y, group, PARITY, compare={"theirs": other[:-1]})
    with pytest.raises(OptionError, match="compare must be a mapping"):
        fb.audit(s, y, group, PARITY, compare=other)


def test_a_compared_model_of_one_decision_is_a_warning_and_decisions_have_no_loss():
    """Probabilities beside logits, at threshold 0, are all positive: a bound on rates is met by them without meaning."""
    s, y, group = exact(200, {"a": 0.4, "b": 0.8})
    s = np.where(s > 0, 2.0, -2.0)
    found = fb.audit(s, y, group, PARITY, threshold=0, compare={"p": 1 / (1 + np.exp(-s)), "logits": s})
    said = [w for w in found["warnings"] if "compared model" in w]
    assert len(said) == 1 and "'p' every row is predicted positive" in said[0]
    with pytest.raises(DataError, match="the compared scores 'd' are decisions"):
        fb.audit(s, y, group, "group_loss <= 1", compare={"d": s > 0})


def test_one_class_of_labels_has_no_auc_and_many_groups_still_fit():
    s, y, group = exact(100, {f"g{i}": 0.5 for i in range(40)})
    found = fb.audit(s, np.ones_like(y), group, PARITY)
    schema.validate(found)
    assert found["metrics"]["auc"] is None and len(found["constraints"][0]["contrasts"]) == 400
    assert len(found["constraints"][0]["groups"]) == 40


def test_rows_that_weigh_nothing_give_no_class_and_huge_losses_have_a_mean():
    y, groups = [0, 1, 1, 1], ["a", "b", "a", "b"]
    assert fb.audit([0.3, 2.0, -1.0, 3.0], y, groups, sample_weight=[0, 1, 1, 1])["metrics"]["auc"] is None
    losses = fb.audit([1e308] * 4, [0, 0, 0, 1], groups, threshold=0)["metrics"]["log_loss"]
    assert losses == pytest.approx(0.75e308)


def test_as_logits_reads_decisions_probabilities_and_real_scores():
    assert as_logits([0, 1, 1])[0].tolist() == [-1.0, 1.0, 1.0]
    p = np.array([0.2, 0.5, 0.7, 1.0])
    at_half, said = as_logits(p)
    assert (at_half > 0).tolist() == (p > 0.5).tolist() and "0.5" in said and np.isfinite(at_half).all()
    moved, _ = as_logits(p, 0.6)
    assert (moved > 0).tolist() == (p > 0.6).tolist()
    np.testing.assert_allclose(at_half[:3], np.log(p[:3] / (1 - p[:3])), atol=1e-12)
    real, _ = as_logits([-3.0, 0.5, 4.0], 1.0)
    assert (real > 0).tolist() == [False, False, True]
    assert as_logits([-1, 1])[0].tolist() == [-1.0, 1.0]
    with pytest.raises(DataError, match="1 of 2"):
        as_logits([np.nan, 1.0])
    with pytest.raises(OptionError, match="threshold"):
        as_logits([0.2, 0.8], 1.5)
    assert as_logits([0.2, 0.8], 0)[0].tolist() == [0.2, 0.8]  # logits that happen to lie in [0, 1]
    assert as_logits([1, 5, 9], 4.5)[0].tolist() == [-3.5, 0.5, 4.5]
    with pytest.raises(DataError, match=r"all 3 scores are above 0 .* threshold"):
        as_logits([1, 5, 9])  # deciles: zero is no place to cut
    with pytest.raises(
        DataError, match=r"all 3 scores are 0 or above \(from 0 to 99.5\), so every row above 0 .* threshold"
    ):
        as_logits([0, 12.5, 99.5])  # per cent
    with pytest.raises(DataError, match=r"\[:, 1\]"):
        as_logits([[0.2, 0.8], [0.5, 0.5]])
    with pytest.raises(DataError, match="not numbers"):
        as_logits(["yes", "no"])


def test_probabilities_are_judged_at_a_half_and_decisions_have_no_loss():
    """A probability column read as logits would call every row positive and every bound on rates met."""
    y, group = np.tile([0, 1], 200), np.repeat(["a", "b"], 200)
    p = np.where(group == "a", 0.9, 0.1)
    found = fb.audit(p, y, group, "demographic_parity <= 0.1")
    assert found["verdict"] == "violated" and found["constraints"][0]["value"] == 1.0
    assert (
        found["constraints"][0]["value"]
        == fb.audit(p > 0.5, y, group, "demographic_parity <= 0.1")["constraints"][0]["value"]
    )
    with pytest.raises(DataError, match="no loss"):
        fb.audit(p > 0.5, y, group, "loss_gap <= 0.1")
    constant = fb.audit(np.full(400, 0.7), y, group, "demographic_parity <= 0.1")
    assert constant["verdict"] == "met" and any("Every row is predicted positive" in w for w in constant["warnings"])


@pytest.mark.parametrize(
    ("scores", "threshold", "rows"),
    [
        ([0.2, 0.9, 0.4, 0.6], 0, "every row"),
        ([0.0, 0.9, 0.4, 0.6], 0, "every row above 0"),
        ([0.2, 0.9, 0.4, 0.6], 0.5, None),
        ([0.2, 1.9, 0.4, 0.6], 0, None),
        ([0.0, 1.0, 1.0, 0.0], 0, None),
    ],
)
def test_probabilities_decided_at_0_are_warned_of(scores, threshold, rows):
    found = fb.audit(scores, [0, 1, 1, 0], list("aabb"), "demographic_parity <= 0.1", threshold=threshold)
    said = f"All scores lie in [0, 1], so threshold=0 selects {rows}; did you mean threshold=0.5?"
    assert [w for w in found["warnings"] if "did you mean" in w] == ([said] if rows else [])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"scores": [np.nan, 0, 1, 2]}, "score"),
        ({"scores": [0.0, 1.0, 2.0]}, "rows|length|3"),
        ({"y": [0, 1, 2, 1]}, "0|1"),
        ({"y": 1}, "labels"),
        ({"sensitive_features": ["a", "b", "a"]}, "3 rows"),
        ({"sensitive_features": [None] * 4}, "no known value"),
        ({"confidence": 0.4}, "confidence"),
        ({"sample_weight": [1, -1, 1, 1]}, "weight"),
        ({"constraint": "parity <= 0.1"}, "unknown constraint"),
        ({"constraint": "demographic_parity[age] <= 0.1"}, "age"),
    ],
)
def test_bad_input(change, said):
    good = {
        "scores": [1.0, -1.0, 1.0, 2.0],
        "y": [0, 1, 1, 0],
        "sensitive_features": list("abab"),
        "constraint": PARITY,
    }
    with pytest.raises((DataError, OptionError), match=said):
        fb.audit(**{**good, **change})


def test_the_audit_is_plain_json_with_versions():
    import json

    found = fb.audit(*exact(50, {"a": 0.4, "b": 0.5}), PARITY, title="T", warnings=["w"], notes=["n"])
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert {"fairbound", "python", "torch", "numpy"} <= set(found["library"])
    assert (found["title"], found["warnings"], found["notes"][0]) == ("T", ["w"], "n")


@pytest.mark.parametrize("way", ["crossed", "both"])
def test_a_bound_without_anything_to_cross_says_so(way):
    scores, y, group = drawn(np.random.default_rng(0), 600)
    bound = f"demographic_parity[{way}] <= 0.2"
    said = f"{bound!r} has nothing to cross: sex is the only sensitive attribute"
    alone, plain = (fb.audit(scores, y, {"sex": group}, b) for b in (bound, "demographic_parity <= 0.2"))
    assert sum(said in w for w in alone["warnings"]) == 1 and not any("cross" in w for w in plain["warnings"])
    assert [alone["constraints"][0][k] for k in ("value", "lower", "upper")] == [
        plain["constraints"][0][k] for k in ("value", "lower", "upper")
    ]
    two = {"sex": group, "old": np.arange(600) % 2}
    assert not any("cross" in w for w in fb.audit(scores, y, two, bound)["warnings"])
    given = f"conditional_demographic_parity[given=old,{way}] <= 0.9"
    assert any("sex is the only" in w for w in fb.audit(scores, y, two, given)["warnings"])
    with pytest.warns(fb.DataWarning, match="nothing to cross"):
        fair = fb.FairClassifier(bound, budget="2 steps").fit(scores[:, None], y, {"sex": group})
    assert sum(said in w for w in fair.fit_report_["warnings"]) == 1


@pytest.mark.parametrize(("option", "shown"), [("[crossed]", True), ("[both]", True), ("", False)])
def test_groups_that_a_bound_crosses_are_shown_with_their_rates(option, shown):
    rng = np.random.default_rng(0)
    groups = {"sex": rng.choice(["F", "M"], 400), "age": rng.choice(["old", "young"], 400)}
    said, y = rng.integers(0, 2, 400), rng.integers(0, 2, 400)
    audit = fb.audit(said, y, groups, f"demographic_parity{option} <= 0.1")
    both = {g["group"]: g["rates"]["selection_rate"]["value"] for g in audit["groups"] if g["attribute"] == "sex*age"}
    assert bool(both) == shown == ("Groups of sex*age" in fb.report.table(audit))
    if shown:
        mine = (groups["sex"] == "F") & (groups["age"] == "old")
        assert len(both) == 4 and both["F & old"] == pytest.approx(said[mine].mean())


@pytest.mark.parametrize(("option", "shown"), [("[crossed]", True), ("[both]", True), ("", False)])
def test_crossed_groups_are_shown_of_numbers_and_of_many_classes_too(option, shown):
    rng = np.random.default_rng(0)
    groups = {"sex": rng.choice(["F", "M"], 400), "age": rng.choice(["old", "young"], 400)}
    mine = (groups["sex"] == "F") & (groups["age"] == "old")
    y, number = rng.choice(["a", "b", "c"], 400), rng.normal(size=400)
    said, told = rng.choice(["a", "b", "c"], 400), number + rng.normal(size=400)
    classes = fb.audit(said, y, groups, f"class_recall_parity{option} <= 0.9")
    numbers = fb.audit(told, number, groups, f"residual_gap{option} <= 9")
    monitor = fb.Monitor(f"class_recall_parity{option} <= 0.9", classes=("a", "b", "c")).update(y, said, groups)
    for audit in (classes, numbers, monitor.look()):
        schema.validate(audit)
        both = {g["group"]: g for g in audit["groups"] if g["attribute"] == "sex*age"}
        assert bool(both) == shown == ("Groups of sex*age" in fb.report.table(audit))
        assert not shown or (len(both) == 4 and both["F & old"]["n"] == mine.sum())
        if shown and audit is numbers:
            residual = both["F & old"]["means"]["mean_residual"]["value"]
            assert residual == pytest.approx((told - number)[mine].mean())
        elif shown:
            accuracy = both["F & old"]["rates"]["accuracy"]["value"]
            assert accuracy == pytest.approx((said == y)[mine].mean())


def test_classes_that_are_never_predicted_are_named():
    y = np.tile(["a", "b", "c", "d"], 100)

    def said(predicted):
        return fb.audit(predicted, y, None, "recall of class a >= 0.1")["warnings"]

    assert said(y) == []
    assert said(np.where(y == "c", "a", y)) == ["No row is predicted 'c', so its recall is 0."]
    assert said(np.where(y > "b", "a", y)) == ["No row is predicted 'c' or 'd', so their recalls are 0."]
    assert said(np.full(400, "a")) == ["Every row is predicted 'a', so a bound on that class is met trivially."]


def test_of_labels_1_and_0_the_positive_one_is_0_where_that_is_said():
    rng = np.random.default_rng(0)
    y, sex = rng.integers(0, 2, 400), rng.choice(["a", "b"], 400)
    decided = np.where(rng.random(400) < 0.8, y, 1 - y)
    turned, plain = fb.audit(decided, y, sex, PARITY, positive=0), fb.audit(1 - decided, 1 - y, sex, PARITY)
    assert turned["metrics"] == plain["metrics"] and turned["metrics"]["accuracy"] > 0.7
    keys = ("value", "lower", "upper", "verdict")
    assert all(turned["constraints"][0][key] == plain["constraints"][0][key] for key in keys)
    assert turned["notes"] == ["The scores are labels, of which 0 is the positive one."]
    assert fb.measure("demographic_parity", decided, y, sex, positive=0) == plain["constraints"][0]["value"]
    assert fb.audit(decided[y == 0], y[y == 0], sex[y == 0], PARITY, positive=0)["metrics"]["selection_rate"] > 0.7
    (doubt,) = fb.audit(1 - decided, y, sex, PARITY)["warnings"]
    assert doubt.startswith("Rows of 0 are decided positive far more often than rows of 1") and "AUC" not in doubt


def test_a_threshold_decides_and_leaves_probabilities_as_they_are():
    rng = np.random.default_rng(0)
    p, sex = rng.uniform(0.05, 0.95, 500), rng.choice(["a", "b"], 500)
    y = (rng.random(500) < p).astype(int)
    loss = -np.where(y == 1, np.log(p), np.log(1 - p))
    of_groups = [loss[sex == name].mean() for name in "ab"]
    for at in (0.5, 0.8):
        found = fb.audit(p, y, sex, ["loss_gap <= 0.5", PARITY], threshold=at)
        assert found["metrics"]["log_loss"] == pytest.approx(loss.mean(), rel=1e-12)
        assert found["metrics"]["selection_rate"] == (p > at).mean()
        assert found["metrics"]["accuracy"] == ((p > at) == y).mean()
        assert found["constraints"][0]["value"] == pytest.approx(abs(of_groups[0] - of_groups[1]), abs=1e-12)
        assert fb.measure("loss_gap", p, y, sex, threshold=at) == pytest.approx(
            found["constraints"][0]["value"], abs=1e-12
        )
        counted = fb.AuditCounts.of(p, y, sex, threshold=at).audit(PARITY)
        assert counted["metrics"]["log_loss"] == pytest.approx(loss.mean(), rel=1e-12)
        assert counted["distributions"] == found["distributions"]
        both = fb.compare(p, 1 - p, y, sex, ["loss_gap <= 0.5", PARITY], threshold=at)["differences"]
        assert [d["first"] for d in both if d["name"] == "loss_gap <= 0.5"] == pytest.approx(
            [found["constraints"][0]["value"]], abs=1e-12
        )
    with pytest.raises(DataError, match=r"needs probabilities or logits, and these are neither.*Divide percentages"):
        fb.audit(100 * p, y, sex, "loss_gap <= 0.5", threshold=50)
    assert fb.audit(100 * p, y, sex, "auc_parity[intra] <= 0.9", threshold=50)["verdict"]


@pytest.mark.parametrize(
    "stated", ["predictive_parity <= 0.1", "treatment_equality <= 1", "false_omission_rate_parity <= 0.1"]
)
@pytest.mark.parametrize("decided", ["nobody", "everybody", "some of a"])
def test_an_undefined_value_is_not_enough_evidence_and_says_why(stated, decided):
    sex, y = np.repeat(["a", "b", "c"], 60), np.tile([0, 1], 90)
    scores = {"nobody": 0 * y, "everybody": 0 * y + 1, "some of a": (sex == "a") & (np.arange(180) % 3 == 0)}[decided]
    found = fb.audit(scores.astype(int), y, sex, stated)
    schema.validate(found)
    (fact,) = found["constraints"]
    if fact["value"] is None:
        assert fact["verdict"] == "insufficient" and fact["rows_needed"] is None
        assert "undefined on these rows" in fact["why"] and "b - a" not in fact["why"]
        assert fb.report.table(found)
    assert (fact["value"] is None) == (
        stated[:5] in {"nobody": ("predi", "treat"), "everybody": ("false",)}.get(decided, ("predi", "treat"))
    )


def test_an_interval_all_of_whose_rows_are_decided_alike_is_said_to_tell_nothing():
    rng = np.random.default_rng(0)
    s, group = rng.normal(size=2000), rng.integers(0, 2, 2000)
    y = (s + rng.normal(size=2000) > 0).astype(int)
    for interval, said in (("0.05:0.3", "positive"), ("0.7:0.9", "negative"), ("0.3:0.6", None)):
        found = fb.audit(s, y, group, f"partial_demographic_parity[{interval}] <= 0.05", threshold=0)
        told = [w for w in found["warnings"] if "met trivially" in w]
        assert len(told) == (said is not None) and (
            said is None or f"every row of the interval is predicted {said}" in told[0]
        )
