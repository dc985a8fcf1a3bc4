"""Two models on the same rows: score limits that solve their equation, coverage by enumeration, and values that are the audit's."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import optimize, stats

import fairbound as fb
from fairbound.audits import drawn_again, nearly_largest
from fairbound.audits.compare import _score, paired_interval
from fairbound.audits.drawn_again import DrawnAgain, contrasts
from fairbound.audits.nearly_largest import difference_of_largest
from fairbound.base.errors import DataError, OptionError
from fairbound.confidence.single import clopper_pearson, effective_size
from fairbound.fairness.notions import constraint
from fairbound.fairness.percentiles import judging as percentiles
from fairbound.fairness.scored import Scored
from fairbound.fairness.verdicts import extremes
from fairbound.report.compare import compare_page
from fairbound.rows.groups import Groups

Z = stats.norm.ppf(0.975)


@pytest.mark.parametrize(("b", "c", "n"), [(7, 3, 50), (0, 5, 40), (20, 20, 90), (1, 0, 12), (30, 2, 45)])
def test_limits_are_where_the_statistic_is_the_quantile(b, c, n):
    lower, upper = paired_interval(b, c, n, 0.05)
    assert lower < (b - c) / n < upper
    assert abs(_score(b, c, n, upper)) == pytest.approx(Z, abs=1e-6)
    assert abs(_score(c, b, n, -lower)) == pytest.approx(Z, abs=1e-6)
    turned = paired_interval(c, b, n, 0.05)
    np.testing.assert_allclose([-turned[1], -turned[0]], [lower, upper], atol=1e-12)


@pytest.mark.parametrize(("b", "c", "n", "delta"), [(7, 3, 50, 0.1), (2, 9, 60, -0.05), (5, 5, 30, 0.2)])
def test_the_variance_uses_the_likeliest_shares_with_this_difference(b, c, n, delta):
    def minus_log(q):  # share of the first alone; the second alone has q + delta
        return -(b * np.log(q + delta) + c * np.log(q) + (n - b - c) * np.log(1 - 2 * q - delta))

    q = optimize.minimize_scalar(
        minus_log, bounds=(max(0, -delta) + 1e-9, (1 - delta) / 2 - 1e-9), method="bounded", options={"xatol": 1e-12}
    ).x
    expected = (b + 1 - c - n * delta) / np.sqrt(n * (2 * q + delta - delta**2))
    assert _score(b, c, n, delta) == pytest.approx(expected, rel=1e-4)


def test_without_a_changed_decision_the_limits_are_those_of_the_formula():
    """(80 delta - 1)^2 = Z^2 80 delta (1 - delta), of which the larger delta is the limit."""
    lower, upper = paired_interval(0, 0, 80, 0.05)
    root = np.roots([80**2 + 80 * Z**2, -2 * 80 - 80 * Z**2, 1]).max()
    assert upper == pytest.approx(root, abs=1e-9) and lower == pytest.approx(-upper)


@pytest.mark.parametrize(
    ("n", "p", "q"), [(5, 0.45, 0.005), (10, 0.8, 0.03), (20, 0.05, 0.37), (40, 0.01, 0.15), (40, 0.1, 0.1), (40, 0.3, 0.1)]
)  # fmt: skip
def test_by_enumeration_each_side_is_wrong_no_more_often_than_stated(n, p, q):
    """Without the one row more up to 6 %, of the first four cases at least 3.8 %."""
    wrong = np.zeros(2)
    for b in range(n + 1):
        for c in range(n + 1 - b):
            chance = stats.multinomial.pmf([b, c, n - b - c], n, [p, q, 1 - p - q])
            if chance > 1e-7:
                lower, upper = paired_interval(b, c, n, 0.05)
                wrong += chance * np.array([lower > p - q, upper < p - q])
    assert wrong.max() <= 0.025 + 1e-5


def made(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    s = rng.normal(size=n) + 0.5 * (sex == "m")
    return s, s - 0.4 * (sex == "m"), (s + rng.normal(size=n) > 0).astype(int), {"sex": sex}


def test_a_comparison_is_printed_by_the_function_that_prints_audits():
    """A line for each difference, with its interval where it has one, and what it tells."""
    first, second, y, groups = made()
    alone = {**groups, "here": np.where(np.arange(len(y)) < 1, "one", "rest")}  # a group without negatives or positives
    found = fb.compare(first, second, y, alone, "demographic_parity[by=sex] <= 0.1", draws=100, names=("old", "new"))
    text = fb.report.table(found)
    lines = {
        line.split("│")[1].strip(): [cell.strip() for cell in line.split("│")[2:-1]]
        for line in text.splitlines()
        if "│" in line
    }
    assert lines["measured"] == ["old", "new", "difference", "95 % interval", "verdict"]
    assert (
        lines["selection_rate, sex = m"][-1] == "lower"
        and lines["selection_rate, sex = f"][-1] == "no clear difference"
    )
    assert set(lines) == {"measured", *(d["name"] for d in found["differences"])}
    one = next(d for d in found["differences"] if d["name"].startswith("demographic_parity"))
    limits = f"[{one['lower']:.4f}, {one['upper']:.4f}]".replace("-", "−")
    assert lines[one["name"]][3:] == [limits, "lower"]
    assert ["–"] * 4 + ["not known"] in lines.values()
    assert "decisions differ." in text and all(f"warning: {w}" in text for w in found["warnings"])


def test_of_many_groups_the_clearest_differences_are_printed_and_the_others_counted():
    first, second, y, groups = made()
    many = {**groups, "place": np.arange(len(y)) % 40}
    found = fb.compare(first, second, y, many, "demographic_parity[by=sex] <= 0.1", draws=100)
    text, names = fb.report.table(found), [d["name"] for d in found["differences"]]
    shown = [name for name in names if f"│ {name} " in text]
    clear = [d["name"] for d in found["differences"] if d["lower"] is not None and (d["lower"] > 0 or d["upper"] < 0)]
    assert len(shown) == 30 and len(clear) < 30 and {*clear, "accuracy", names[-1]} <= set(shown)
    assert f"{len(names) - 30} more differences between groups are not shown" in text and "--json" in text


def test_bounds_on_a_class_are_compared_by_the_names_of_the_labels():
    first, second, y, _ = made()
    named = np.where(y == 1, "Y", "N")
    given = {"threshold": 0.0, "draws": 100}
    bound = "recall of class {} >= 0.9"
    wanted = fb.compare(first, second, y, None, bound.format(1), **given)["differences"][-1]
    assert (wanted["first"], wanted["second"]) == tuple((s[y == 1] > 0).mean() for s in (first, second))
    for labels, classes in [(named, None), (named, ("N", "Y")), (y, ("N", "Y"))]:
        found = fb.compare(first, second, labels, None, bound.format("Y"), classes=classes, **given)["differences"][-1]
        assert found == wanted | {"name": bound.format("Y")}
    turned = fb.compare(-first, -second, named, None, bound.format("Y"), classes=("Y", "N"), **given)["differences"][-1]
    assert turned["second"] == wanted["second"]
    with pytest.raises(OptionError, match="labels of two classes, got classes of 3"):
        fb.compare(first, second, y, classes=("a", "b", "c"), **given)


def test_values_are_those_of_the_audits_and_differences_lie_in_their_intervals():
    first, second, y, groups = made()
    bounds = ["demographic_parity <= 0.05", "demographic_parity_ratio >= 0.8", "loss_gap <= 0.1"]
    found = fb.compare(first, second, y, groups, bounds, threshold=0.0, draws=100)
    by = {d["name"]: d for d in found["differences"]}
    audits = [fb.audit(s, y, groups, bounds, threshold=0.0) for s in (first, second)]
    for which, audit in zip(("first", "second"), audits, strict=True):
        assert by["accuracy"][which] == pytest.approx(audit["metrics"]["accuracy"])
        for c in audit["constraints"]:
            assert by[c["text"]][which] == pytest.approx(c["value"], abs=1e-12)
        for g in audit["groups"]:
            for rate in ("selection_rate", "true_positive_rate", "false_positive_rate"):
                assert by[f"{rate}, sex = {g['group']}"][which] == pytest.approx(g["rates"][rate]["value"])
    for d in found["differences"]:
        assert d["difference"] == pytest.approx(d["second"] - d["first"], abs=1e-12)
        assert d["lower"] <= d["difference"] <= d["upper"]
    assert by["demographic_parity <= 0.05"]["upper"] < 0 < by["demographic_parity_ratio >= 0.8"]["lower"]
    assert found["changed"] == int(((first > 0) != (second > 0)).sum())
    again = fb.compare(first, second, y, groups, bounds, threshold=0.0, draws=100)
    assert again["differences"] == found["differences"]


def test_pairing_narrows_and_the_bootstrap_moves_as_much_as_the_value_does():
    values, widths = [], []
    for seed in range(8):
        first, second, y, groups = made(600, seed)
        found = fb.compare(first, second, y, groups, "demographic_parity <= 0.05", threshold=0.0, draws=100)
        (d,) = [d for d in found["differences"] if "<=" in d["name"]]
        values.append(d["difference"])
        widths.append((d["upper"] - d["lower"]) / (2 * Z))
    # the deviation over eight samples, of 7 degrees of freedom, is within these factors of the intervals' with probability 0.99
    assert 0.5 < np.mean(widths) / np.std(values, ddof=1) < 2.2


def test_far_from_0_the_interval_of_a_loss_gap_is_that_of_paired_means():
    """The gap is one signed difference there, and its change the difference of two means of paired differences of losses."""
    rng = np.random.default_rng(0)
    n = 1000
    y, old = rng.integers(0, 2, n), rng.random(n) < 0.5
    first = np.where(y == 1, 1, -1) * np.where(old, -0.5, 1.0) + 0.3 * rng.normal(size=n)
    second = first + np.where(y == 1, 0.1, -0.1) * old + 0.2 * rng.normal(size=n)
    found = fb.compare(first, second, y, {"old": old.astype(int)}, "loss_gap <= 0.1", threshold=0.0, draws=1000)
    (d,) = [d for d in found["differences"] if "<=" in d["name"]]
    sign = np.where(y == 1, 1, -1)
    change = np.logaddexp(0, -sign * second) - np.logaddexp(0, -sign * first)
    mean = change[old].mean() - change[~old].mean()
    error = np.sqrt(change[old].var() / old.sum() + change[~old].var() / (~old).sum())
    assert d["difference"] == pytest.approx(mean, abs=1e-9)
    # of 1,000 draws an end deviates by 0.085 standard errors by its quantile and as much by its shift: four of both together
    assert abs(np.array([d["lower"], d["upper"]]) - (mean + np.array([-Z, Z]) * error)).max() < 0.48 * error


def test_areas_have_intervals_that_pairing_narrows():
    first, _, y, groups = made(800)
    noise, bound, widths = np.random.default_rng(1).normal(size=len(first)), "auc_parity[intra] <= 0.1", []
    for second in (first + 0.3 * noise, first + noise):
        found = fb.compare(first, second, y, groups, bound, threshold=0.0, draws=200)
        (d,) = [d for d in found["differences"] if "<=" in d["name"]]
        audit = fb.audit(second, y, groups, bound, threshold=0.0)["constraints"][0]
        assert d["second"] == pytest.approx(audit["value"])
        widths.append(d["upper"] - d["lower"])
    assert 0 < widths[0] < 0.7 * widths[1]


def test_two_models_of_the_same_true_gap_of_areas_differ_for_certain_no_more_often_than_stated():
    """One model has its gap between two of six groups, the other between each of three and each of three others, so
    that its measured gap is the larger. By a bootstrap of the largest alone about a third of intervals lie above 0; of 20 at 2.5 % a
    side more than 3 do with a probability below 0.002."""
    rng, above = np.random.default_rng(0), 0
    first, second = np.array([1.2, 0.9, 0.9, 0.9, 0.9, 0.6]), np.array([1.2] * 3 + [0.6] * 3)
    for _ in range(20):
        g, y, s = np.repeat(np.arange(6), 300), rng.integers(0, 2, 1800), rng.normal(size=1800)
        both = s + first[g] * y, s + second[g] * y
        given = {"threshold": 0.0, "draws": 100}
        above += (
            fb.compare(*both, y, g.astype(str), "auc_parity[intra] <= 0.1", **given)["differences"][-1]["lower"] > 0
        )
    assert above <= 3


@pytest.mark.parametrize(
    "text",
    ["auc_parity[group] <= 0.1", "auc_parity[inter,overall] <= 0.1", "partial_group_auc[0.1:0.8] <= 0.1",
     "partial_demographic_parity[0.1:0.8] <= 0.1", "partial_equalized_odds[by=age,old@0.1:0.9,0.2:0.6] <= 0.1"],
)  # fmt: skip
def test_the_largest_of_the_comparisons_that_are_drawn_again_is_the_value(text):
    first, second, y, groups = made(300)
    groups["age"] = np.random.default_rng(1).choice(["old", "mid", "young"], 300)
    both = [Scored(y, (s > 0) * 1, groups=Groups.of(groups), scores=s) for s in (first, second)]
    bound = constraint(text).settled_on(both[0].occurring)
    own = DrawnAgain(both, 100, 0).measured(bound)
    assert own.shape[1] > 2 and own.max(1) == pytest.approx([bound.measure(rows) for rows in both])


@pytest.mark.parametrize("rows", [60, 3000])
def test_thresholds_at_which_curves_are_compared_are_those_of_the_rows_and_leave_hardly_anything_out(rows):
    """Of few rows all thresholds are looked at. The curves are compared where the rows had been, also where these now weigh
    nothing."""
    first, second, y, groups = made(rows)
    both = [Scored(y, (s > 0) * 1, groups=Groups.of(groups), scores=s) for s in (first, second)]
    bound = constraint("partial_statistical_parity[0.1:0.6] <= 0.1")
    own, exact = DrawnAgain(both, 100, 0).measured(bound), [bound.measure(r) for r in both]
    assert own.shape == (2, 2 * 2 * percentiles.MOST_POINTS)
    assert np.all(own.max(1) <= np.array(exact) + 1e-12) and own.max(1) == pytest.approx(exact, abs=0.04)
    some = np.random.default_rng(1).random(rows) < 0.5
    drawn, kept = contrasts(bound, both, some * 1.0), [r.take(np.flatnonzero(some)) for r in both]
    assert drawn.shape == own.shape
    assert np.all(drawn.max(1) <= np.array([bound.measure(r) for r in kept]) + 1e-12)
    assert np.all(drawn.max(1) >= np.array([bound.measure(r) for r in kept]) - 0.08)


@pytest.mark.parametrize("none_selected", [False, True])
def test_a_ratio_to_a_group_of_which_one_model_selects_nobody_has_an_interval(none_selected):
    """It is limited from 0 by where the other model's lies; p / 0, the turned quotient, is no least ratio."""
    rng = np.random.default_rng(0)
    g = np.repeat([0, 1], 150)
    a = np.r_[(rng.random(150) < 0.3) & (not none_selected), np.zeros(150)].astype(int)
    b = np.r_[rng.random(150) < 0.3, rng.random(150) < 0.2].astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        (d,) = fb.compare(a, b, None, g, "demographic_parity_ratio >= 0.8")["differences"][-1:]
        turned = fb.compare(b, a, None, g, "demographic_parity_ratio >= 0.8")["differences"][-1]
    assert d["lower"] <= d["difference"] <= d["upper"]
    assert (turned["lower"], turned["upper"]) == pytest.approx((-d["upper"], -d["lower"]), abs=0.05)
    if not none_selected:
        assert d["first"] == 0 and d["lower"] > 0.2 and d["upper"] <= 1


def test_weights_that_go_with_the_change_count_as_rows_of_the_same_variance():
    """The variance of a share of changes among so many rows is that of the weighted mean over fresh rows, to 5 %; by
    Kish's number it would be two thirds."""
    rng = np.random.default_rng(0)

    def sums(draws: int, n: int = 400) -> tuple[np.ndarray, ...]:
        change = rng.choice([-1.0, 0.0, 1.0], (draws, n), p=[0.1, 0.7, 0.2])
        w = np.where(change == 0, 1.0, 3.0)
        return w, change, (w * np.abs(change)).sum(1) / w.sum(1), (w * change).sum(1) / w.sum(1)

    _, _, changed, difference = sums(20_000)
    share, mean = changed.mean(), difference.mean()
    w, change, own, gap = (part[0] for part in sums(1, 100_000))
    spread = (w**2 * (change - gap) ** 2).sum()
    rows = effective_size(w.sum(), (w**2).sum(), own - gap**2, spread) * 400 / 100_000
    assert (share - mean**2) / rows == pytest.approx(difference.var(), rel=0.05)
    kish = 400 * w.mean() ** 2 / (w**2).mean()
    assert (share - mean**2) / kish < 0.75 * difference.var()


def test_weights_count_as_repeated_rows_do_but_for_the_rows_they_are_worth():
    first, second, y, groups = made(400)
    times = np.random.default_rng(1).integers(0, 4, 400)
    bounds = ["demographic_parity <= 0.05", "loss_gap <= 0.1"]
    repeated = [np.repeat(v, times, axis=0) for v in (first, second, y)]
    codes = {name: np.repeat(np.asarray(v), times) for name, v in groups.items()}
    plain = fb.compare(*repeated, codes, bounds, threshold=0.0, draws=100)["differences"]
    weighted = fb.compare(first, second, y, groups, bounds, threshold=0.0, draws=100, sample_weight=times)[
        "differences"
    ]
    for mine, theirs in zip(weighted, plain, strict=True):
        assert [mine[k] for k in ("first", "second", "difference")] == pytest.approx(
            [theirs[k] for k in ("first", "second", "difference")], abs=1e-12
        )
        assert mine["lower"] <= mine["difference"] <= mine["upper"]
        assert mine["upper"] - mine["lower"] > theirs["upper"] - theirs["lower"]
    right = [(s > 0) == (y == 1) for s in (first, second)]
    change = right[1].astype(float) - right[0]
    gap = np.average(change, weights=times)
    variance = (times**2 * (change - gap) ** 2).sum() / times.sum() ** 2
    rows = min(times.sum() ** 2 / (times**2).sum(), (np.average(np.abs(change), weights=times) - gap**2) / variance)
    gained, lost = (np.average(hit, weights=times) * rows for hit in (right[1] & ~right[0], right[0] & ~right[1]))
    assert [weighted[0]["lower"], weighted[0]["upper"]] == pytest.approx(paired_interval(gained, lost, rows, 0.05))
    alike = fb.compare(first, second, y, groups, bounds, threshold=0.0, draws=100, sample_weight=np.full(400, 7.0))
    once = fb.compare(first, second, y, groups, bounds, threshold=0.0, draws=100)
    assert alike | {"created": 0} == once | {"created": 0}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "text",
    ["demographic_parity[crossed] <= 0.1", "equalized_odds[sum] <= 0.1", "demographic_parity[overall] <= 0.1",
     "equal_opportunity[best,empty=drop] <= 0.1", "demographic_parity_ratio >= 0.8", "f1_parity[by=sex] <= 0.1",
     "predictive_parity[fewest=9] <= 0.1", "treatment_equality[by=sex] <= 1", "class_recall_parity <= 0.1",
     "loss_gap[by=sex,y=both] <= 0.1", "excess_loss[by=sex] <= 0.1", "group_loss[by=sex] <= 1",
     "partial_equalized_odds[by=sex,f@0.1:0.9,0.2:0.6] <= 0.1"],
)  # fmt: skip
def test_draws_measured_together_are_those_measured_one_by_one(text, weighted, monkeypatch):
    """Without one more row what a contrast is at most and at least is the contrast of the drawn weights."""
    monkeypatch.setattr(drawn_again, "DRAWN_AT_ONCE", 500)
    first, second, y, groups = made(300)
    rng = np.random.default_rng(1)
    groups["age"] = np.where(rng.random(300) < 0.04, "old", np.where(rng.random(300) < 0.3, "mid", "young"))
    groups["age"][:7] = None
    weight = rng.choice([0.0, 0.5, 2.0], 300) if weighted else None
    both = [Scored(y, (s > 0) * 1, groups=Groups.of(groups), weight=weight, scores=s) for s in (first, second)]
    bound = constraint(text).of_classes(("0", "1")).settled_on(both[0].occurring)
    drawn = DrawnAgain(both, 60, 0)
    rows, _, square = drawn._cells if bound.judged_from == "counts" else drawn._rows
    masses = rng.exponential(size=(60, len(square)))
    expected = np.stack([contrasts(bound, rows, mass) for mass in masses], axis=1)
    found = extremes.extremes_of_draws(bound, rows, masses, square, _NoMore())
    m = drawn.measured(bound).shape[1]
    for end in ends_of(found, m):
        np.testing.assert_allclose(end, expected, rtol=0, atol=1e-12)
    most, least = ends_of(drawn.extremes(bound), m)
    sign = -1 if "ratio" in text else 1
    assert most.shape == (2, 60, m) and np.all(sign * most >= sign * least)


def ends_of(found: extremes.Extremes, m: int) -> np.ndarray:
    """(2, 2, D, m) all contrasts of both models, most and least; asked for in two parts."""
    some = np.arange(m)
    return np.stack(
        [np.concatenate([found.of(k, part) for part in (some[: m // 2], some[m // 2 :])], -1) for k in range(2)], 1
    )


class _NoMore:
    def standard_exponential(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros(shape)


@pytest.mark.parametrize("weight", [None, 0.2])
def test_of_a_single_share_the_quantiles_are_clopper_and_pearsons_limits(weight):
    """The other group is so large that its share is known; 3 of 40 are selected by the first, none by the second."""
    n, known = 40, 100_000
    decided = [np.r_[np.arange(n) < x, np.ones(known, dtype=bool)].astype(int) for x in (3, 0)]
    own = None if weight is None else np.full(n + known, weight)
    groups = Groups.of({"g": np.repeat(["few", "known"], (n, known))})
    both = [Scored(d, d, groups=groups, weight=own) for d in decided]
    most, least = ends_of(DrawnAgain(both, 40_000, 0).extremes(constraint("demographic_parity <= 0.1")), 2)
    for k, x in enumerate((3, 0)):
        for end, level in ((least, 0.025), (most, 0.975)):
            share = np.sort(end[k, :, np.argmin(end[k].mean(0))])  # that of the few less the known one
            low, high = (float(np.quantile(share, level + off)) for off in (-0.004, 0.004))  # five standard errors
            limit = clopper_pearson(x, n)[int(level > 0.5)] - 1
            assert low - 1e-4 <= limit <= high + 1e-4


def test_one_more_row_has_the_largest_values_and_the_largest_changes_of_its_group():
    first, second, y, groups = made(200)
    groups = {"sex": np.where(np.arange(200) < 9, None, groups["sex"].astype(object))}
    both = [Scored(y, y, groups=Groups.of(groups), scores=s) for s in (first, second)]
    bound = constraint("loss_gap[y=both] <= 0.1")
    (compared, _), = bound.compared(both[0].occurring)  # fmt: skip
    found = extremes._most_and_least([bound.values(rows, compared) for rows in both])
    losses = [rows.loss for rows in both]
    for r, label in enumerate((1, 0)):
        for g, name in enumerate(["f", "m", None]):
            known = groups["sex"] != None if name is None else groups["sex"] == name  # noqa: E711
            mine = known.astype(bool) & (y == label)
            for k in range(2):
                own, other = losses[k][mine], losses[1 - k][mine]
                assert found[k][0][r, 0, g] == own.max()
                assert found[k][1][r, 0, g] == pytest.approx(other.max() - (other - own).max())


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("sizes", "first", "second"),
    [((960, 40), (0.5, 0.95), (0.5, 0.9)), ((900, 100), (0.5, 0.1), (0.5, 0.05)), ((200, 200), (0.0, 1.0), (0.02, 0.98))],
)  # fmt: skip
def test_few_rows_of_the_rarer_outcome_are_not_taken_for_certainty(sizes, first, second, seed):
    """A bootstrap turned round is wrong in about a tenth. Of 100 intervals wrong with 2.5 % a side, more than 8 are with
    a probability below 0.002."""
    rng = np.random.default_rng(seed)
    g, wrong = np.repeat([0, 1], sizes), np.zeros(2)
    truth = abs(second[1] - second[0]) - abs(first[1] - first[0])
    for _ in range(100):
        u = rng.random(len(g))
        v = np.where(rng.random(len(g)) < 0.9, u, rng.random(len(g)))
        decided = [(part < np.array(p)[g]).astype(int) for part, p in ((u, first), (v, second))]
        (d,) = fb.compare(*decided, None, g.astype(str), "demographic_parity <= 0.1", draws=200)["differences"][-1:]
        wrong += [d["lower"] > truth + 1e-9, d["upper"] < truth - 1e-9]
    assert wrong.max() <= 8


def test_the_recall_of_a_class_has_the_score_limits_of_its_rows():
    first, second, y, _ = made(300)
    found = fb.compare(first, second, y, None, ["recall of class 1 >= 0.5", "error of class 1 <= 0.5"], threshold=0.0)
    hit = [s[y == 1] > 0 for s in (first, second)]
    gained, lost = int((hit[1] & ~hit[0]).sum()), int((hit[0] & ~hit[1]).sum())
    limits = paired_interval(gained, lost, int((y == 1).sum()), 0.05)
    recall, error = found["differences"][-2:]
    assert (recall["lower"], recall["upper"]) == pytest.approx(limits)
    assert (error["lower"], error["upper"]) == pytest.approx((-limits[1], -limits[0]))
    assert recall["rows"] == (y == 1).sum()


def test_intervals_of_losses_of_few_rows_are_said_to_be_narrow():
    first, second, y, groups = made(400)
    alone = {**groups, "here": np.where(np.arange(400) < 60, "one", "rest")}
    bounds = ["demographic_parity <= 0.1", "loss_gap <= 0.1", "loss_gap[by=sex] <= 0.1"]
    found = fb.compare(first, second, y, alone, bounds, threshold=0.0, draws=100)
    assert found["warnings"] == [
        "loss_gap <= 0.1: its interval may be too narrow, as fewer than 100 rows measure one (60)."
    ]


def test_most_draws_are_measured_together(monkeypatch):
    first, second, y, groups = made()
    alone = []
    monkeypatch.setattr(drawn_again, "contrasts", lambda *given: alone.append(0) or contrasts(*given))
    for weight in (None, np.ones(1500)):
        fb.compare(first, second, y, groups, "equalized_odds <= 0.05", threshold=0.0, draws=100, sample_weight=weight)
    assert len(alone) == 2  # of the rows as they are


def test_rows_without_a_group_are_counted():
    rng = np.random.default_rng(0)
    y, first, second = rng.integers(0, 2, (3, 200))
    sex = np.where(np.arange(200) < 12, None, rng.choice(["F", "M"], 200).astype(object))
    for labels in (y, None):
        (said,) = fb.compare(first, second, labels, {"sex": sex})["warnings"]
        assert said.startswith("sex is not known in 12 of 200 rows; they are in none of its groups")
    assert fb.compare(first, second, y, {"sex": sex.astype(str)})["warnings"] != [said]


def test_labels_in_words_are_decisions():
    first, second, y, groups = made(300)
    words = np.array(["no", "yes"])
    found = fb.compare(
        words[(first > 0) * 1], words[(second > 0) * 1], words[y], groups, "demographic_parity <= 0.05", draws=100
    )
    same = fb.compare((first > 0) * 1, (second > 0) * 1, y, groups, "demographic_parity <= 0.05", draws=100)
    assert found["differences"] == same["differences"]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"second": np.ones(3)}, DataError, "as many scores"),
        ({"confidence": 0.3}, OptionError, "confidence"),
        ({"sensitive_features": None}, DataError, "pass sensitive_features"),
        ({"y": np.full(300, 2)}, DataError, "one class"),
        ({"y": None, "constraint": "equal_opportunity <= 0.1"}, OptionError, "needs the outcomes"),
        ({"sample_weight": np.full(300, -1.0)}, DataError, "weight"),
    ],
)
def test_what_cannot_be_compared_is_refused(change, error, message):
    first, second, y, groups = made(300)
    given = {"first": first, "second": second, "y": y, "sensitive_features": groups}
    given |= {"constraint": "demographic_parity <= 0.05"} | change
    with pytest.raises(error, match=message):
        fb.compare(**given, draws=100)


def test_a_model_beside_itself_has_no_interval_that_claims_certainty():
    s, other, y, sex = made()
    bounds = ["demographic_parity <= 0.1", "loss_gap <= 0.1"]
    found = fb.compare(s, s, y, sex, bounds, draws=100)
    by = {d["name"]: d for d in found["differences"]}
    assert found["changed"] == 0 and all(by[b]["difference"] == 0 for b in bounds)
    assert by[bounds[1]]["lower"] is by[bounds[1]]["upper"] is None  # no row says how far losses may differ
    assert -0.02 < by[bounds[0]]["lower"] < 0 < by[bounds[0]]["upper"] < 0.02
    assert by["accuracy"]["lower"] < 0 < by["accuracy"]["upper"]  # Tango's interval of no changed row in n
    assert "No decision differs." in compare_page(found)
    found = fb.compare(s, other, y, sex, bounds[0], draws=100)
    assert found["changed"] and not found["warnings"] and found["differences"][-1]["lower"] is not None
    assert f"{found['changed']} of 1,500 decisions differ." in compare_page(found)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_two_models_of_the_same_true_gap_differ_for_certain_no_more_often_than_stated(seed):
    """One model has its gap between two of ten groups, the other between each of five and each of five others, so that
    its measured gap is the larger. By a bootstrap of the largest alone about a quarter of intervals lie above 0; of 20
    at 2.5 % a side more than 3 do with a probability below 0.002."""
    rng = np.random.default_rng(seed)
    first, second = np.array([0.5, 0.4] + [0.45] * 8), np.array([0.5] * 5 + [0.4] * 5)
    g, above = np.repeat(np.arange(10), 300), 0
    for _ in range(20):
        u = rng.random(len(g))
        v = np.where(rng.random(len(g)) < 0.3, u, rng.random(len(g)))
        decided = [(part < shares[g]).astype(int) for part, shares in ((u, first), (v, second))]
        found = fb.compare(*decided, None, g.astype(str), "demographic_parity <= 0.1", draws=100)["differences"]
        (d,) = [d for d in found if "<=" in d["name"]]
        above += d["lower"] > 0
    assert above <= 3


def limits(own, most, least, *of):
    return difference_of_largest(own, lambda k, some: np.stack([most[k][:, some], least[k][:, some]]), *of)


def test_limits_let_every_comparison_near_the_largest_be_the_true_one(monkeypatch):
    """By loops over draws and over which comparison is truly the largest; the third is too far to be it."""
    rng = np.random.default_rng(0)
    own = np.array([[0.10, 0.09, -0.2], [0.11, 0.10, -0.2]])
    least = own + rng.normal(size=(400, 2, 3)) * np.array([0.02, 0.03, 0.02])
    most = least + rng.exponential(size=(400, 1, 1)) * 0.01
    ends = [np.moveaxis(part, 1, 0) for part in (most, least)]
    near = range(2)

    def highest(k: int, other: int) -> float:
        """Of the other value less the k-th: of both limits the lowest place in the order of draws above which, in the
        one or in the other, no more than 9 of 400 draws lie."""
        found = []
        for i in near:
            both = [
                (many[other, i] + max(own[k, j] - few[k, j] for j in near) - own[k].max(), many[other, i] - few[k, i])
                for few, many in zip(least, most, strict=True)
            ]
            ends = [sorted(draw[side] for draw in both) for side in range(2)]
            first, second = next(
                ends for ends in zip(*ends, strict=True) if sum(a > ends[0] or b > ends[1] for a, b in both) <= 9
            )
            found.append(min(first, second))
        return max(found)

    found = limits(own, *ends, "differences", 1000, 0.95, 1.0)
    assert [found["lower"], found["upper"]] == pytest.approx([-highest(1, 0), highest(0, 1)])
    turned = limits(own[::-1], *(part[::-1] for part in ends), "differences", 1000, 0.95, 1.0)
    assert [turned["lower"], turned["upper"]] == pytest.approx([-found["upper"], -found["lower"]])
    assert limits(own, *(part[:, :99] for part in ends), "differences", 1000, 0.95, 1.0) == {}
    monkeypatch.setattr(nearly_largest, "BLOCK", 1)
    assert found == limits(own, *ends, "differences", 1000, 0.95, 1.0)
    reached = limits(own, *ends, "differences", 1000, 0.95, 0.01)
    assert reached == {"lower": max(found["lower"], -0.01), "upper": min(found["upper"], 0.01)} != found


@pytest.mark.parametrize("equal", [False, True])
def test_limits_of_ratios_take_chance_in_logarithms_and_know_that_the_least_is_at_most_one(equal):
    """By loops as above. Where groups may be equal, that a ratio may be 1 is a third limit."""
    rng = np.random.default_rng(0)
    own = np.array([[0.10, 0.09, -0.2], [0.11, 0.10, -0.2]]) - (0.08 if equal else 0)  # logarithms, turned
    least = own[:, None] + rng.normal(size=(2, 400, 3)) * np.array([0.02, 0.03, 0.02])
    most, near = least + rng.exponential(size=(1, 400, 1)) * 0.01, range(2)

    def lowest(k: int, other: int) -> float:
        """The other ratio less the k-th at least."""
        found = []
        for i in near:
            each = []
            for few, many in zip(least.swapaxes(0, 1), most.swapaxes(0, 1), strict=True):
                ratio = np.exp(-many[other, i])
                largest = np.exp(max(own[k, j] - few[k, j] for j in near) - own[k].max())
                each.append([ratio - largest, ratio - np.exp(-few[k, i]), *[ratio - 1] * equal])
            ordered = np.sort(each, axis=0)[::-1]
            place = next(row for row in ordered if (np.array(each) < row).any(1).sum() <= 9)
            found.append(place.max())
        return min(found)

    found = limits(np.exp(-own), np.exp(-most), np.exp(-least), "ratios", 1000, 0.95, 1.0)
    assert [found["lower"], found["upper"]] == pytest.approx([lowest(0, 1), -lowest(1, 0)])


@pytest.mark.parametrize(("sizes", "rates", "same"), [([200] * 4, [0.3] * 4, 0.0), ([600] * 3, [0.3] * 3, 0.5)])
def test_of_nearly_equal_groups_a_change_of_the_ratio_is_known_about_as_well_as_from_two_audits(sizes, rates, same):
    """Ratios above 1, which cannot be the least, made it 1.6 times as wide."""
    rng, g = np.random.default_rng(0), np.repeat(np.arange(len(sizes)), sizes)
    rate, text, widths = np.array(rates)[g], "demographic_parity_ratio >= 0.8", []
    for _ in range(20):
        u = rng.random(len(g))
        both = [(v < rate).astype(int) for v in (u, np.where(rng.random(len(g)) < same, u, rng.random(len(g))))]
        (d,) = [d for d in fb.compare(*both, None, g.astype(str), text)["differences"] if d["name"] == text]
        audits = [fb.audit(s, None, g.astype(str), text, confidence=0.9875)["constraints"][0] for s in both]
        widths.append([d["upper"] - d["lower"], sum(c["upper"] - c["lower"] for c in audits)])
    ours, theirs = np.mean(widths, axis=0)
    assert ours < 1.1 * theirs


def test_contrasts_that_both_models_have_alike_differ_by_no_more_than_one_more_row_moves_them():
    """The largest of c' exceeds the largest of c by at most the largest c' - c, whichever may be the largest."""
    rng = np.random.default_rng(0)
    own = np.array([[0.10, 0.09, 0.08]] * 2)
    least = own[:, None] + 0.03 * rng.normal(size=(1, 400, 3)).repeat(2, axis=0)
    found = limits(own, least + 0.01, least, "differences", 1000, 0.95, 1.0)
    assert found == pytest.approx({"lower": -0.01, "upper": 0.01})


def test_the_tighter_of_two_limits_fails_no_more_often_than_stated():
    """One model has no difference, so that either group may be ahead, the other one that is clear. 2.5 % may lie too
    low, and 0.85 % of the runs lie where a contrast that is truly the largest is not near it (a normal variable beyond
    sqrt(log 1000)); to three standard errors of 2,000 runs (0.35 %) each. With each limit at the level by itself 4.6 %
    fail, with half the reach 5.0 %."""
    rng, misses, runs = np.random.default_rng(0), 0, 2000
    for _ in range(runs):
        measured = np.array([0.0, 10.0]) + rng.normal(size=2)
        drawn = measured + rng.normal(size=(400, 2))
        ends = np.stack([drawn.T, -drawn.T], axis=2)
        found = limits(np.stack([measured, -measured], axis=1), ends, ends, "differences", 1000, 0.95, 100.0)
        misses += not found["lower"] <= 10 <= found["upper"]
    assert misses / runs < 0.025 + 0.0085 + 3 * 0.0035


def test_a_contrast_is_near_the_largest_by_the_end_that_varies_more_and_without_draws_that_vary_nothing_is_said():
    """The second varies at most, not at least; by the larger spread it may be the largest, and widens the limits."""
    rng = np.random.default_rng(0)
    own, n = np.array([[0.10, 0.05], [0.11, 0.05]]), 1000
    least = np.repeat(own[:, None], 400, axis=1) - 0.001 * rng.random((2, 400, 1))
    most = least + 0.001
    most[..., 1] = own[:, 1:] + 0.04 * rng.normal(size=(2, 400))
    assert own[0, 0] - own[0, 1] < np.log(n) ** 0.5 * most[0, :, 1].std()
    both, alone = (limits(own[:, :m], most[..., :m], least[..., :m], "differences", n, 0.95, 1.0) for m in (2, 1))
    assert both["lower"] < alone["lower"] - 0.01 and both["upper"] > alone["upper"] + 0.01
    still = np.repeat(own[:, None], 400, axis=1)
    assert limits(own, still + 0.01, still - 0.01, "differences", n, 0.95, 1.0) == {}


def test_how_far_beyond_one_the_turned_quotient_lies_widens_nothing():
    rng = np.random.default_rng(0)
    own = np.array([[0.1, 10.0], [0.15, 1 / 0.15]])
    moved = np.exp(0.4 * rng.normal(size=(2, 400, 1)))  # of a / b, and the other way round of b / a
    most = own[:, None] * np.concatenate([moved, 1 / moved], axis=2) + 0.02
    assert (
        own[:, 1] - np.log(1000) ** 0.5 * most[..., 1].std(1) < own[:, 0]
    ).all()  # by its own spread it may be the least
    both = limits(own, most, most - 0.04, "ratios", 1000, 0.95, 1.0)
    assert both == limits(own[:, :1], most[..., :1], most[..., :1] - 0.04, "ratios", 1000, 0.95, 1.0)


def test_a_ratio_that_one_pair_of_groups_decides_has_the_width_of_its_spread():
    """1.96 standard deviations each side, of the difference of two ratios over fresh rows, to a fifth."""
    rng = np.random.default_rng(0)
    g = np.repeat([0, 1], 1000)
    shares = np.array([[0.3, 0.6], [0.4, 0.6]])

    def drawn() -> list[np.ndarray]:
        return [(rng.random(2000) < part[g]).astype(int) for part in shares]

    def ratio(decided: np.ndarray) -> float:
        return decided[:1000].mean() / decided[1000:].mean()

    spread = np.std([ratio(b) - ratio(a) for a, b in (drawn() for _ in range(2000))])
    found = fb.compare(*drawn(), None, g.astype(str), "demographic_parity_ratio >= 0.8")["differences"]
    (d,) = [d for d in found if ">=" in d["name"]]
    assert d["upper"] - d["lower"] == pytest.approx(2 * 1.96 * spread, rel=0.2)
    assert d["lower"] < 1 / 6 < d["upper"]


def test_a_value_that_is_not_defined_is_said():
    rng = np.random.default_rng(0)
    group, y, first = rng.choice(["a", "b"], 400), rng.integers(0, 2, 400), rng.integers(0, 2, 400)
    second = np.where(group == "a", 0, first)
    found = fb.compare(first, second, y, {"g": group}, ["predictive_parity <= 0.2", "demographic_parity <= 0.2"])
    (said,) = [text for text in found["warnings"] if "undefined" in text]
    assert said.startswith("predictive_parity <= 0.2: undefined for second, ")
