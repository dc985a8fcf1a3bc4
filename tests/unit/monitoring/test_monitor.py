"""A monitor: rows by one or by thousands, looks that agree, files that are safe, groups that come late."""

import json

import numpy as np
import pandas as pd
import pytest

import fairbound as fb
from fairbound.base.errors import CheckpointError, DataError, OptionError
from fairbound.confidence.sequences import CountsInTime
from fairbound.monitoring import history, judging
from fairbound.monitoring.judging import LATE, Shares
from fairbound.report import schema

PARITY = "demographic_parity <= 0.05"


def decisions(n, rates=(0.5, 0.42), seed=0, names=("f", "m")):
    rng = np.random.default_rng(seed)
    g = rng.integers(0, len(names), n)
    d = (rng.random(n) < np.array(rates)[g]).astype(int)
    return (rng.random(n) < 0.4).astype(int), d, {"sex": np.array(names, dtype=object)[g]}


def test_row_by_row_in_batches_and_in_any_library_is_one_monitor():
    y, d, g = decisions(300)
    whole = fb.Monitor(PARITY).update(y, d, g)
    single, parts = fb.Monitor(PARITY), fb.Monitor(PARITY)
    for i in range(300):
        single.update(int(y[i]), int(d[i]), {"sex": g["sex"][i]})
    for part in (slice(0, 251), slice(251, 300)):
        parts.update(pd.Series(y[part]), d[part].astype(bool), pd.DataFrame(g)[part])
    assert single.rows == parts.rows == whole.rows == 300
    texts = fb.Monitor(PARITY, classes=("no", "yes"))
    texts.update(np.array(["no", "yes"])[y], np.array(["no", "yes"])[d], g["sex"])
    scores = fb.Monitor(PARITY, threshold=0.5).update(y, 0.2 + 0.6 * d, g)
    found = [m.look()["constraints"][0] for m in (whole, texts, scores)]
    assert found[0] == found[1] == found[2]
    # the 250 rows of the first checkpoint are drawn from the 300 of a call
    ends = [m.look()["constraints"][0] for m in (single, parts, whole)]
    assert all(e["value"] == ends[0]["value"] and abs(e["upper"] - ends[0]["upper"]) < 0.05 for e in ends)


def test_more_than_two_labels_are_measured_as_an_audit_measures_them():
    rng = np.random.default_rng(0)
    y, sex = rng.choice(["a", "b", "c"], 3000, p=[0.5, 0.3, 0.2]), rng.choice(["f", "m"], 3000)
    said = np.where(rng.random(3000) < np.where(sex == "f", 0.9, 0.5), y, rng.choice(["a", "b", "c"], 3000))
    texts = ["recall of class b >= 0.2", "class_recall_parity <= 0.05", "class_demographic_parity <= 0.5"]
    monitor = fb.Monitor(texts, classes=("a", "b", "c")).update(y[:1000], said[:1000], {"sex": sex[:1000]})
    found = monitor.update(y[1000:], said[1000:], {"sex": sex[1000:]}).look()
    schema.validate(found)
    audit = fb.audit(said, y, {"sex": sex}, texts)
    for mine, plain in zip(found["constraints"], audit["constraints"], strict=True):
        assert mine["value"] == pytest.approx(plain["value"]) and mine["lower"] <= mine["value"] <= mine["upper"]
        assert (
            mine["lower"] <= plain["lower"] + 1e-9 and mine["upper"] >= plain["upper"] - 1e-9
        )  # it holds at every look
    assert [c["verdict"] for c in found["constraints"]] == ["met", "violated", "met"]
    assert found["metrics"] == pytest.approx(audit["metrics"])
    for key in ("attribute", "group", "n"):
        assert [g[key] for g in found["groups"]] == [g[key] for g in audit["groups"]]
    assert fb.Monitor.from_dict(json.loads(json.dumps(monitor.to_dict()))).verdicts() == monitor.verdicts()
    with pytest.raises(OptionError, match="needs a positive label, but there are 3"):
        fb.Monitor(PARITY, classes=("a", "b", "c"))
    with pytest.raises(OptionError, match="a threshold"):
        fb.Monitor(texts, classes=("a", "b", "c"), threshold=0.5)
    with pytest.raises(DataError, match="'a' or 'b' or 'c'"):
        monitor.update(["d"], ["a"], {"sex": ["f"]})


def test_a_look_is_an_audit_with_every_kind_of_bound_on_rates():
    texts = [
        "demographic_parity <= 0.05",
        "equalized_odds[sum] <= 0.3",
        "demographic_parity_ratio >= 0.8",
        "demographic_parity[overall] <= 0.2",
        "f1_parity[best] <= 0.4",
        "treatment_equality <= 5",
        "recall of class 1 >= 0.3",
        "error of class 0 <= 0.7",
        "class_recall_parity <= 0.9",
        "class_recall_parity[macro] <= 0.9",
        "class_demographic_parity <= 0.9",
    ]
    monitor = fb.Monitor(texts).update(*decisions(4000, rates=(0.7, 0.2, 0.5), names=("f", "m", "x")))
    found = monitor.look()
    schema.validate(found)
    assert {c["text"]: c["verdict"] for c in found["constraints"]} == monitor.verdicts()
    assert found["verdict"] == "violated" and found["exit_code"] == 1
    for c in found["constraints"]:
        assert c["lower"] <= c["value"] <= c["upper"], c["text"]
        for k in c["contrasts"]:
            assert k["lower"] <= k["value"] <= k["upper"], (c["text"], k)
    for group in found["groups"]:
        assert all(r["lower"] < r["value"] < r["upper"] for r in group["rates"].values())


def test_limits_are_wider_than_those_of_one_audit_and_not_by_much():
    y, d, g = decisions(20_000)
    seen = fb.Monitor(PARITY)
    for part in np.array_split(np.arange(20_000), 200):
        seen.update(y[part], d[part], g["sex"][part])
    ours, once = seen.look()["constraints"][0], fb.audit(d, y, g, PARITY)["constraints"][0]
    assert ours["value"] == pytest.approx(once["value"], abs=1e-12)
    assert 1.2 < (ours["upper"] - ours["lower"]) / (once["upper"] - once["lower"]) < 3


def test_an_alarm_stays_and_contradicting_rows_are_said_to_have_changed():
    monitor = fb.Monitor(PARITY).update(*decisions(3000, rates=(0.6, 0.4)))
    assert monitor.verdicts() == {PARITY: "violated"} and monitor.alarms == {PARITY: 3000}
    for seed in range(40):
        monitor.update(*decisions(3000, rates=(0.5, 0.5), seed=seed))
    found = monitor.look()
    schema.validate(found)
    assert found["verdict"] == "violated" and monitor.alarms == {PARITY: 3000}
    assert "Start a new monitor" in found["warnings"][0]


def test_an_order_of_rows_that_excludes_the_measured_value_is_said_to_show_that_rates_have_changed():
    """250 rows with a gap of 0.4 on the other side, then 1,500 with one of 0.4: bets that begin there exclude the gap of all."""
    for rates, changes in (((0.3, 0.7), True), ((0.7, 0.3), False)):
        for seed in range(6):
            monitor = fb.Monitor(PARITY).update(*decisions(250, rates=rates, seed=seed))
            found = monitor.update(*decisions(1500, rates=(0.7, 0.3), seed=seed + 9)).look()
            assert any("the rates have changed" in said for said in found["warnings"]) == changes


def test_shares_of_the_error_never_add_up_to_more_than_one():
    shares = Shares()
    first = shares.of(["a", "b", "a"])
    np.testing.assert_allclose(first, [(1 - LATE) / 2] * 3)
    late = shares.of(["a", "c", "d"])
    np.testing.assert_allclose(late, [(1 - LATE) / 2, LATE / 2, LATE / 6])
    np.testing.assert_allclose(shares.of(["b", "d"]), [(1 - LATE) / 2, LATE / 6])
    everyone = Shares(first=["a"]).of(["a", *map(str, range(5000))])
    assert 0.999 < everyone.sum() <= 1


def test_a_group_that_appears_late_is_compared_and_keeps_the_others_shares():
    monitor = fb.Monitor(PARITY).update(*decisions(2000, rates=(0.5, 0.5)))
    before = monitor.look()["constraints"][0]
    monitor.update(np.ones(500, int), np.ones(500, int), ["x"] * 500)
    after = monitor.look()["constraints"][0]
    assert set(after["groups"]) == {"f", "m", "x"} and after["verdict"] == "violated"
    assert [c for c in after["contrasts"] if c["name"] == before["worst"]]
    plain = monitor.to_dict()["shares"][PARITY]
    assert len(plain["first"]) == 1 and len(plain["late"]) == 2


def test_nothing_is_said_of_few_rows_or_one_group():
    monitor = fb.Monitor(PARITY)
    with pytest.raises(DataError, match="no row yet"):
        monitor.look()
    found = monitor.update(*decisions(60)).look()
    assert found["verdict"] == "insufficient" and "before 100 rows" in found["constraints"][0]["why"]
    one = fb.Monitor(PARITY).update([1, 0] * 100, [1, 0] * 100, ["a"] * 200).look()
    schema.validate(one)
    assert "at least two groups" in one["constraints"][0]["why"]
    empty = fb.Monitor("recall of class 1 >= 0.5").update([0] * 200, [0] * 200).look()
    assert "No row has the label" in empty["constraints"][0]["why"]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_rows_needed_are_those_at_which_the_monitor_decides(seed, late):
    """Rows as those so far until so many: they decide, and 15 % fewer do not. late: both checkpoints were passed after 6,000
    rows, as once those within a call were; a plan that took them for passed on time would ask for too few."""
    monitor = fb.Monitor(PARITY).update(*decisions(6000, rates=(0.5, 0.42), seed=seed))
    plain = monitor.to_dict()
    if late:
        plain |= {"checkpoints": [plain["counts"]] * 2}
    found = fb.Monitor.from_dict(plain).look()["constraints"][0]
    assert found["verdict"] == "insufficient" and found["value"] > 0.06

    def at(rows):
        each = [round(c * rows / 6000) for c in plain["counts"]]
        coming = [[round(c * 16_000 / 6000) for c in plain["counts"]]] if rows > 16_000 else []
        state = plain | {"counts": each, "checkpoints": [*plain["checkpoints"], *coming], "rows": sum(each)}
        state["losses_at_checkpoints"] = [[()] * len(each)] * len(state["checkpoints"])
        return fb.Monitor.from_dict(state)

    assert at(found["rows_needed"] * 1.02).verdicts()[PARITY] == "violated"
    assert at(found["rows_needed"] * 0.85).verdicts()[PARITY] == "insufficient"


@pytest.mark.parametrize(
    "rates", [(0.5, 0.47), *(pytest.param(rates, marks=pytest.mark.long) for rates in ((0.5, 0.4), (0.5, 0.4501)))]
)
@pytest.mark.parametrize(
    "text",
    ["demographic_parity <= 0.05", "demographic_parity[overall] <= 0.03", "equalized_odds[sum] <= 0.1", "f1_parity <= 0.05",
     "demographic_parity_ratio >= 0.88", "error of class 1 <= 0.53"],
)  # fmt: skip
def test_rows_needed_are_found_by_asking_few_numbers_of_rows(text, rates, monkeypatch):
    """They are those of a search through all numbers, about 150 of them."""
    asked, of = [], CountsInTime.of

    def counts(successes, trials, before=()):
        asked.append(len(trials) if before and np.ndim(trials) == 2 else 0)
        if asked[-1]:  # the checkpoint at 250 rows has been passed, that at 2,000 is to come
            assert (before[0][1] < before[1][1]).all() and before[0][1][0].sum() == before[0][1][-1].sum()
        return of(successes, trials, before)

    monkeypatch.setattr(judging.CountsInTime, "of", counts)
    found, monitor = [], fb.Monitor(text).update(*decisions(1000, rates))
    for most in (24, 200):
        found.append(monitor.look()["constraints"][0])
        assert 0 < sum(asked) <= most
        monkeypatch.setattr(judging, "SECTIONS", 1000)
        asked.clear()
    assert found[0] == found[1] and found[0]["verdict"] == "insufficient" and found[0]["rows_needed"] > 1000


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (([1, 2], [0, 1], ["a", "b"]), "y_true holds 2"),
        (([1, None], [0, 1], ["a", "b"]), "y_true is missing"),
        (([1, 0], [0.3, 1], ["a", "b"]), "y_pred holds 0.3"),
        (([1, 0], [0, 1, 1], ["a", "b"]), "differ in length"),
        (([1, 0], [0, 1], {"age": [1, 2]}), "the rows before"),
        (([1, 0], [0, 1], pd.Series([1, 2], name="age")), "the rows before"),
        (([1, 0], [0, 1], pd.DataFrame({"age": [1, 2]})), "the rows before"),
        (([1, 0], [0, 1], pd.Series(["f", "m"])), None),
        (([1, 0], [0, 1], {"sex": ["a", "b"], "age": [1, 2]}), "the rows before"),
        (([1] * 200, [0] * 200, [str(i) for i in range(200)]), "more than 100 values"),
        (([1, 0], [0, 1], None), "pass sensitive_features"),
    ],
)
def test_rows_that_cannot_be_used_change_nothing(rows, message):
    monitor = fb.Monitor(PARITY).update(*decisions(50))
    before = json.dumps(monitor.to_dict())
    if message is None:  # a single column without a name is the one there is
        assert monitor.update(*rows).rows == 52
        return
    with pytest.raises(DataError, match=message):
        monitor.update(*rows)
    assert json.dumps(monitor.to_dict()) == before


def test_groups_that_differ_only_in_capitals_or_blanks_are_pointed_out():
    monitor = fb.Monitor(PARITY).update(*decisions(200, names=("yes", "no")))
    assert monitor.look()["warnings"] == []
    warned = monitor.update([1, 0], [1, 0], {"sex": ["Yes", "no "]}).look()["warnings"]
    assert len(warned) == 2 and "'Yes' and 'yes' differ only in capitals" in warned[1]


def test_a_missing_group_is_counted_and_compared_with_nobody():
    y, d, g = decisions(500)
    g["sex"][:100] = None
    found = fb.Monitor(PARITY).update(y, d, g).look()
    assert found["data"]["missing_group_rows"] == {"sex": 100}
    assert sum(found["constraints"][0]["groups"].values()) == 400


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"constraint": []}, "at least one bound"),
        ({"constraint": "loss_gap <= 0.1"}, r"loss_gap\[largest=5\]"),
        ({"constraint": "auc_parity[intra] <= 0.1"}, "ranks rows by their scores"),
        ({"constraint": PARITY, "largest_weight": 0}, "largest_weight must be"),
        ({"constraint": PARITY, "confidence": 0.4}, "confidence must lie"),
        ({"constraint": PARITY, "classes": ("a", "a")}, "two or more different labels"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        fb.Monitor(**options)


def test_merged_monitors_count_as_one_and_lose_checkpoints_that_one_lacks():
    big, small = fb.Monitor(PARITY).update(*decisions(3000)), fb.Monitor(PARITY).update(*decisions(100, seed=1))
    merged, turned = big.merge(small), small.merge(big)
    assert merged.rows == 3100 and merged.look()["constraints"] == turned.look()["constraints"]
    assert merged.to_dict()["checkpoints"] == [None, None]
    same = fb.Monitor(PARITY).update(*decisions(3000, seed=2))
    counts = np.array(big.merge(same).to_dict()["checkpoints"])
    assert counts.shape[0] == 2 and counts.sum(1).tolist() == [500, 4000]
    value = (
        fb.Monitor(PARITY).update(*decisions(3000)).update(*decisions(100, seed=1)).look()["constraints"][0]["value"]
    )
    assert merged.look()["constraints"][0]["value"] == pytest.approx(value, abs=1e-12)
    with pytest.raises(DataError, match="cannot be merged"):
        big.merge(fb.Monitor("demographic_parity <= 0.1"))
    big.files.append({"name": "a", "sha256": "s", "rows": 1})
    small.files.append({"name": "b", "sha256": "s", "rows": 1})
    with pytest.raises(DataError, match="count twice"):
        big.merge(small)


def test_a_saved_monitor_goes_on_and_a_damaged_or_foreign_file_is_refused(tmp_path):
    path = tmp_path / "m.json"
    monitor = fb.Monitor([PARITY, "recall of class 1 >= 0.2"], 0.9).update(*decisions(2500))
    monitor.look()
    monitor.save(path)
    again = fb.Monitor.load(path)
    assert again.to_dict() == monitor.to_dict()
    again.update(*decisions(100, seed=3)).save(path)
    with pytest.raises(CheckpointError, match="changed since"):
        monitor.save(path)
    with pytest.raises(CheckpointError, match="is there already"):
        fb.Monitor(PARITY).save(path)
    text = path.read_text()
    path.write_text(text.replace('"rows": 2600', '"rows": 2601'))
    with pytest.raises(CheckpointError, match="checksum"):
        fb.Monitor.load(path)
    path.write_text(text[:-40])
    with pytest.raises(CheckpointError, match="cut off"):
        fb.Monitor.load(path)
    with pytest.raises(CheckpointError, match="no state"):
        fb.Monitor.from_dict({"format": "other"})
    state = json.loads(text)["state"]
    with pytest.raises(CheckpointError, match="add up"):
        fb.Monitor.from_dict(state | {"rows": 1})
    with pytest.raises(CheckpointError, match="does not fit"):
        fb.Monitor.from_dict(state | {"counts": [1]})
    with pytest.raises(FileNotFoundError):
        fb.Monitor.load(tmp_path / "none.json")


def test_looks_are_thinned_and_keep_the_last(monkeypatch):
    monkeypatch.setattr(history, "MOST_LOOKS", 40)
    monitor = fb.Monitor("recall of class 1 >= 0.2")
    for i in range(50):
        monitor.update([1, 0], [i % 2, 0])
        monitor.verdicts()
    looks = monitor.look()["monitoring"]["looks"]
    assert len(looks) <= 40 and looks[-1] == 100 and looks == sorted(set(looks))


@pytest.mark.parametrize("stated, lacks", [("equalized_odds <= 0.3", "c | y=1"), ("equal_opportunity <= 0.3", "c")])
def test_a_bound_is_not_met_while_a_group_cannot_be_measured(stated, lacks):
    rng = np.random.default_rng(0)
    sex, y = rng.choice(["a", "b"], 4000), rng.integers(0, 2, 4000)
    d = (rng.random(4000) < np.where(y == 1, 0.8, 0.2)).astype(int)
    monitor = fb.Monitor(stated).update(y, d, {"sex": sex})
    assert monitor.verdicts()[stated] == "met"
    negative = rng.random(300) < 0.2
    monitor.update(np.zeros(300, int), negative.astype(int), {"sex": np.full(300, "c")})
    found = monitor.look()["constraints"][0]
    assert found["verdict"] == "insufficient" and found["why"] == f"No decision measures {lacks}."
    assert found["rows_needed"] is None


@pytest.mark.parametrize("stated", ["equalized_odds[{}] <= 0.3", "auc_parity[intra{}] <= 0.4"])
def test_a_group_that_a_bound_leaves_out_is_named_and_does_not_keep_it_from_being_met(stated):
    rng = np.random.default_rng(0)
    sex, y = rng.choice(["a", "b"], 8000), rng.integers(0, 2, 8000)
    sex[:300], y[:300] = "c", 0
    d = (rng.random(8000) < np.where(y == 1, 0.8, 0.2)).astype(float)
    found = {}
    for empty in ("raise", "drop"):
        text = stated.format(("," if "intra" in stated else "") + f"empty={empty}")
        monitor = fb.Monitor(text, threshold=0.5).update(y, d, {"sex": sex})
        found[empty] = monitor.look()["constraints"][0]
    assert found["raise"]["verdict"] == "insufficient" and "c" in found["raise"]["why"]
    assert (found["drop"]["verdict"], found["drop"]["left_out"]) == ("met", ["c"])


def test_other_labels_are_refused_with_what_names_them():
    names = r"Name other labels to the monitor, the negative one first: classes=\['no', 'yes'\]"
    for y, decided, said in [
        ("yes", "no", f"y_true holds 'yes'; it must be '0' or '1'. {names}"),
        (1, 0.4, f"y_pred holds 0.4; it must be '0' or '1', or a score with threshold=.... {names}"),
    ]:
        with pytest.raises(DataError, match=said):
            fb.Monitor("demographic_parity <= 0.3").update([y], [decided], {"sex": ["F"]})
    with pytest.raises(DataError, match=r"y_pred holds 0.4; it must be 'a' or 'b' or 'c'\. Name"):
        fb.Monitor("recall of class a >= 0.3", classes=["a", "b", "c"]).update(["a"], [0.4])  # takes no threshold
    named = fb.Monitor("demographic_parity <= 0.3", classes=["no", "yes"]).update(["yes"], ["no"], {"sex": ["F"]})
    assert named.look()["data"]["rows"] == 1


def test_a_ratio_of_nothing_is_said_to_be_one():
    monitor = fb.Monitor("demographic_parity_ratio >= 0.8")
    monitor.update(np.zeros(500), np.zeros(500, dtype=int), np.repeat(["f", "m"], 250))
    (found,) = monitor.look()["constraints"]
    assert found["value"] == 1.0 and found["why"].startswith("Nobody is selected in any group")


def test_verdicts_are_kept_until_rows_come(monkeypatch):
    y, d, g = decisions(600)
    monitor, judged, real = fb.Monitor(PARITY).update(y, d, g), [], judging.judge_in_time
    monkeypatch.setattr("fairbound.monitoring.monitor.judge_in_time", lambda *a: (judged.append(1), real(*a))[1])
    first = monitor.verdicts()
    first["changed"] = "by the caller"
    assert monitor.verdicts() == monitor.verdicts() == {PARITY: "insufficient"} and len(judged) == 1
    monitor.update(0, 1, {"sex": "f"}).verdicts()
    assert len(judged) == 2
    monitor.look()
    monitor.verdicts()
    assert len(judged) == 3
