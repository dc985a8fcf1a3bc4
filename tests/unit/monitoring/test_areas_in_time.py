"""A monitor of areas under ROC curves: pairs that are fair bets whatever is compared, and a state that can be kept, merged and weighed."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from scipy.stats import binom, norm

import fairbound as fb
from fairbound.base.errors import OptionError
from fairbound.base.seeds import seed_for
from fairbound.fairness.areas.compared import KINDS, comparisons
from fairbound.fairness.comparing import Compared
from fairbound.monitoring.pairing import MOST_WAITING, Pairing, roles_of
from fairbound.ranking.wins import cell_wins
from fairbound.report import schema
from fairbound.rows.groups import Groups
from fairbound.rows.occurring import Occurring

ATOMS = np.array([(1, 0, 2), (1, 1, 1), (0, 0, 1), (0, 1, 0), (1, 0, 0), (1, 2, 1)])  # label, group, score
SHARE = np.array([0.2, 0.2, 0.15, 0.2, 0.1, 0.15])
EVERY_KIND = [(kind, everyone) for kind in KINDS for everyone in (False, True) if everyone or kind != "bpsn_bnsp"]


def true_areas(kind, everyone):
    """The areas of the first comparison in the population of the atoms, from the table of all pairs."""
    groups = Groups(ATOMS[:, 1:2], ("g",), (("a", "b", "c"),))
    compared = Compared.of(Occurring.of(groups, ATOMS[:, 0]), (0,))
    found = comparisons(compared, kind, everyone)
    table = cell_wins(ATOMS[:, 2], ATOMS[:, 0] * 3 + ATOMS[:, 1], 6, SHARE).between(found.sets)
    first, second, third, fourth = found.sides[0]
    return [table[first, second], table[third, fourth]]


@pytest.mark.parametrize(("kind", "everyone"), EVERY_KIND)
def test_bets_on_the_areas_are_fair_in_all_sequences_of_rows(kind, everyone):
    """Capital that is bet at a fixed stake on each pair of either area keeps its mean, 1: all sequences of four rows are added up."""
    roles, areas = roles_of(kind, everyone), true_areas(kind, everyone)
    label, group, score = ATOMS.T
    side = np.where(group == 0, 0, 2) if everyone else group
    stakes, pairs = (0.7, -0.9), np.zeros(roles.areas)

    def capital(made, chance, rows_left):
        """What is expected of the capital that is 1 after the rows so far, times their chance."""
        if not rows_left:
            assert 2 * sum(made.pairs) + sum(map(len, made.waiting)) <= 4  # a row is used once
            pairs[:] += chance * np.array(made.pairs)
            return chance
        total = 0.0
        for row, share in enumerate(SHARE):
            after = copy.deepcopy(made)
            after.add(roles, label[[row]], side[[row]], score[[row]])
            grown = 1.0
            for a in range(roles.areas):
                grown *= 1 + stakes[a] * (after.wins[a] - made.wins[a] - areas[a] * (after.pairs[a] - made.pairs[a]))
            total += grown * capital(after, chance * share, rows_left - 1)
        return total

    assert capital(Pairing.begun(roles.areas, []), 1.0, 4) == pytest.approx(1.0, abs=1e-12)
    assert (pairs > 0.05).all()
    if roles.areas == 1:
        assert areas[1] == pytest.approx(0.5)


def scored(n, seed=0, apart=(1.5, 0.3), names=("f", "m")):
    rng = np.random.default_rng(seed)
    g, y = rng.integers(0, len(names), n), (rng.random(n) < 0.4).astype(int)
    score = np.round(rng.normal(size=n) + y * np.resize(apart, len(names))[g], 1)  # with ties
    return y, score, np.array(names, dtype=object)[g]


BOUNDS = [f"auc_parity[{kind}] <= 0.05" for kind in KINDS] + [
    "auc_parity[group,overall] <= 0.5",
    "demographic_parity <= 0.5",
]


def test_areas_are_near_those_of_an_audit_and_rows_come_in_any_portions():
    y, score, sex = scored(4000)
    parts = fb.Monitor(BOUNDS, threshold=0.0)
    for part in np.array_split(np.arange(4000), 8):
        parts.update(y[part], score[part], {"sex": sex[part]})
        parts = fb.Monitor.from_dict(json.loads(json.dumps(parts.to_dict())))
    found = parts.look()
    schema.validate(found)
    audit = fb.audit(score, y, {"sex": sex}, BOUNDS, threshold=0.0)
    for mine, plain in zip(found["constraints"], audit["constraints"], strict=True):
        assert abs(mine["value"] - plain["value"]) < 0.06, mine["text"]
        assert mine["lower"] <= mine["value"] <= mine["upper"] and mine["groups"] == plain["groups"]
        assert {c["name"] for c in mine["contrasts"]} == {c["name"] for c in plain["contrasts"]}
    needed = [c["rows_needed"] for c in found["constraints"] if c["verdict"] == "insufficient"]
    assert len(needed) > 2 and all(n is None or n > 4000 for n in needed) and any(needed)
    verdicts = parts.verdicts()
    assert verdicts["auc_parity[intra] <= 0.05"] == "violated" == verdicts["auc_parity[positive] <= 0.05"]
    assert verdicts["auc_parity[group,overall] <= 0.5"] == "met"
    some = fb.Monitor(BOUNDS, threshold=0.0).update(y[:120], score[:120], {"sex": sex[:120]})
    single = fb.Monitor(BOUNDS, threshold=0.0)
    for i in np.random.default_rng(seed_for("order of rows", 0)).permutation(120):  # the rows of a call are shuffled
        single.update(int(y[i]), float(score[i]), {"sex": sex[i]})
    kept, same = (
        {text: sorted(of_bound, key=lambda e: e["one"]) for text, of_bound in m.to_dict()["areas"].items()}
        for m in (single, some)
    )
    assert kept == same


def test_pairs_are_of_rows_in_their_order_and_no_more_wait_than_may():
    monitor = fb.Monitor("auc_parity[positive] <= 0.1", threshold=0.5)
    rows = zip([1, 1, 1, 1, 0, 1, 1, 1], [0.9, 0.2, 0.7, 0.2, 0.1, 0.8, 0.9, 0.2], [*"fmffm", None, *"mm"], strict=True)
    for y, score, sex in rows:  # one a call, as those of a call have no order
        monitor.update([y], [score], {"sex": [sex]})
    (kept,) = monitor.to_dict()["areas"]["auc_parity[positive] <= 0.1"]
    # before the first m no row of f is used; then 0.7 meets 0.2 (a win), 0.2 meets 0.9, and 0.2 waits
    assert (kept["wins"], kept["pairs"], kept["waiting"]) == ([1.0], [2], [[], [0.2]])
    monitor.update([1] * 5 * MOST_WAITING, [0.5] * 5 * MOST_WAITING, {"sex": ["f"] * 5 * MOST_WAITING})
    (kept,) = monitor.to_dict()["areas"]["auc_parity[positive] <= 0.1"]
    assert kept["pairs"] == [3] and [len(w) for w in kept["waiting"]] == [MOST_WAITING, 0]


FEW = ["auc_parity[positive] <= 0.05", "auc_parity[bpsn,overall] <= 0.5"]


def test_a_late_group_begins_with_its_first_row_and_merged_monitors_add_up():
    y, score, sex = scored(4000, names=("f", "m"))
    one = fb.Monitor(FEW, threshold=0.0).update(y, score, {"sex": sex})
    y, score, sex = scored(3000, seed=1, names=("f", "x"))
    two = fb.Monitor(FEW, threshold=0.0).update(y, score, {"sex": sex})
    one.look()
    one.update(*scored(500, seed=2, names=("x",)))
    both = one.merge(two)
    found = both.look()
    schema.validate(found)
    of = "auc_parity[positive] <= 0.05"
    assert [c["name"].split(" above ")[0] for c in found["constraints"][0]["contrasts"]]
    pairs = {tuple(map(tuple, (e["one"], e["two"]))): e["pairs"][0] for e in both.to_dict()["areas"][of]}
    apart = [
        {tuple(map(tuple, (e["one"], e["two"]))): e["pairs"][0] for e in m.to_dict()["areas"][of]} for m in (one, two)
    ]
    assert set(pairs) == {(("f",), ("m",)), (("f",), ("x",)), (("m",), ("x",))}
    assert all(
        apart[0].get(k, 0) + apart[1].get(k, 0) <= n <= apart[0].get(k, 0) + apart[1].get(k, 0) + 100
        for k, n in pairs.items()
    )
    assert fb.Monitor.from_dict(json.loads(json.dumps(both.to_dict()))).verdicts() == both.verdicts()


def test_weighted_rows_are_paired_where_they_are_counted():
    y, score, sex = scored(20_000, apart=(0.0, 0.0))
    weight = np.where(score > 0, 1.0, 0.2)  # of both groups alike, so that areas stay 1/2
    monitor = fb.Monitor(["auc_parity[group] <= 0.1"], threshold=0.0, largest_weight=1.0)
    found = monitor.update(y, score, {"sex": sex}, sample_weight=weight).look()["constraints"][0]
    (kept,) = monitor.to_dict()["areas"]["auc_parity[group] <= 0.1"]
    assert monitor.rows * 0.9 < 2 * kept["pairs"][0] <= monitor.rows and found["verdict"] == "met"


def test_areas_need_scores_and_say_so():
    with pytest.raises(OptionError, match="ranks rows by their scores"):
        fb.Monitor("auc_parity[intra] <= 0.1")
    one = fb.Monitor("auc_parity[intra] <= 0.1", threshold=0.0).update(
        [1] * 200, np.arange(200.0), {"sex": ["f", "m"] * 100}
    )
    why = one.look()["constraints"][0]
    assert why["verdict"] == "insufficient" and why["value"] is None and why["why"]


def at_the_bound(kind, rng, n):
    """Labels, groups and normal scores whose areas of this kind differ by exactly 0.05."""
    y, g = (rng.random(n) < 0.4).astype(int), (rng.random(n) < 0.35).astype(int)
    place = lambda area: np.sqrt(2) * norm.ppf(area)  # noqa: E731  the shift that gives it
    shift = {
        "positive": y * (1 + place(0.55) * g),
        "intra": y * np.where(g == 1, place(0.75), place(0.70)),
        "bpsn": np.where(y == 1, place(0.75), g * (place(0.75) - place(0.70))),
    }[kind]
    return y, rng.normal(size=n) + shift, {"sex": np.array(["f", "m"])[g]}


@pytest.mark.long
@pytest.mark.parametrize("kind", ["positive", "intra", "bpsn"])
def test_false_alarms_stay_within_the_error(kind):
    """150 streams of 16,000 rows whose areas differ by the bound, six looks each: alarms are no more than 5 % allow, by a binomial test at 0.1 %."""
    alarms, gaps = 0, []
    for seed in range(120):
        y, score, groups = at_the_bound(kind, np.random.default_rng([7, seed]), 16_000)
        monitor, start = fb.Monitor(f"auc_parity[{kind}] <= 0.05", threshold=0.0), 0
        for end in (500, 1000, 2000, 4000, 8000, 16_000):
            monitor.update(y[start:end], score[start:end], {"sex": groups["sex"][start:end]})
            monitor.verdicts()
            start = end
        alarms += bool(monitor.alarms)
        (kept,) = monitor.to_dict()["areas"].popitem()[1]
        area = np.divide(kept["wins"], kept["pairs"])
        gaps.append(area[0] - (area[1] if len(area) == 2 else 0.5))
    assert alarms <= binom.ppf(0.999, 150, 0.05)
    assert abs(abs(np.mean(gaps)) - 0.05) < 5 * np.std(gaps) / np.sqrt(150)
