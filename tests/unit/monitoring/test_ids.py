"""Decisions that come again count once by their id, whatever else is watched, in a state that is saved and merged."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import fairbound as fb
from fairbound.base.errors import CheckpointError, DataError
from fairbound.monitoring.ids import PENDING, Ids, hashed_ids
from fairbound.report import schema

PARITY = "demographic_parity <= 0.05"


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 2, n), rng.integers(0, 2, n), {"sex": rng.choice(["f", "m"], n)}


def part(given, which):
    y, d, g = given
    return y[which], d[which], {"sex": g["sex"][which]}


def test_each_decision_counts_once_in_batches_one_by_one_and_after_a_restart(tmp_path):
    given, ids = rows(400), np.array([f"loan {i}" for i in range(400)])
    whole = fb.Monitor(PARITY).update(*given)
    monitor = fb.Monitor(PARITY)
    for end in (100, 250, 251, 400):
        monitor.update(*part(given, slice(0, end)), ids=ids[:end])
        monitor.save(tmp_path / "monitor.json")
        monitor = fb.Monitor.load(tmp_path / "monitor.json")
    monitor.update(int(given[0][3]), int(given[1][3]), {"sex": given[2]["sex"][3]}, ids="loan 3")
    assert (monitor.rows, monitor.repeated) == (400, 602)
    assert monitor._tally.counts == whole._tally.counts
    found = monitor.look()
    schema.validate(found)
    assert found["monitoring"]["repeated"] == 602 and "repeated" not in whole.look()["monitoring"]


def test_of_rows_with_one_id_the_first_counts_and_an_id_is_a_text_or_a_number():
    monitor = fb.Monitor(PARITY, classes=("no", "yes"))
    monitor.update(["yes"] * 4, ["yes", "no", "yes", "no"], {"sex": ["f"] * 4}, ids=pd.Series([1, 1, 2, 2]))
    assert monitor.rows == 2 and {key[-1] for key in monitor._tally.counts} == {1}
    monitor.update(["yes"] * 2, ["no"] * 2, {"sex": ["f"] * 2}, ids=[1.0, "2"])
    assert (monitor.rows, monitor.repeated) == (2, 4)


def test_rows_with_ids_and_without_are_not_mixed_and_a_refused_call_counts_nothing():
    given = rows(10)
    monitor = fb.Monitor(PARITY).update(*given, ids=range(10))
    plain = fb.Monitor(PARITY).update(*given)
    for one, ids, said in (
        (monitor, None, "pass the id of every row"),
        (plain, range(10), "counted without ids"),
        (monitor, [*range(10, 19), None], r"row 9 \(counting from 0\) has no id"),
        (monitor, [*range(10, 19), 2.0**60], "last digits"),
        (monitor, range(9), "differ in length"),
    ):
        before = json.dumps(one.to_dict())
        with pytest.raises(DataError, match=said):
            one.update(*given, ids=ids)
        assert json.dumps(one.to_dict()) == before
    with pytest.raises(DataError, match="must be '0' or '1'"):
        monitor.update([2], [0], {"sex": ["f"]}, ids=[99])
    assert monitor.update([1], [0], {"sex": ["f"]}, ids=[99]).rows == 11


def test_weights_are_drawn_once_for_each_id():
    """A row that was not drawn is not drawn again when it comes again."""
    given, w = rows(500), np.random.default_rng(1).uniform(0, 2, 500)
    once = fb.Monitor(PARITY, largest_weight=2.0).update(*given, sample_weight=w)
    again = fb.Monitor(PARITY, largest_weight=2.0)
    for end in (200, 350, 500):
        again.update(*part(given, slice(0, end)), sample_weight=w[:end], ids=range(end))
    assert again.rows == once.rows and again._tally.counts == once._tally.counts


def test_losses_and_areas_of_a_decision_that_comes_again_are_left_out():
    y, d, g = rows(300)
    score, loss = np.random.default_rng(2).random(300), np.random.default_rng(3).random(300)
    for bound, options, more in (
        ("loss_gap[largest=1] <= 0.1", {}, {"losses": loss}),
        ("auc_parity[intra] <= 0.1", {"threshold": 0.5}, {}),
    ):
        said = score if options else d
        once, again = fb.Monitor(bound, **options), fb.Monitor(bound, **options)
        for begin, end in ((0, 120), (120, 300)):
            these = {name: v[begin:end] for name, v in more.items()}
            once.update(y[begin:end], said[begin:end], {"sex": g["sex"][begin:end]}, **these)
            these = {name: v[:end] for name, v in more.items()}
            again.update(y[:end], said[:end], {"sex": g["sex"][:end]}, ids=range(end), **these)
        assert again.look()["constraints"] == once.look()["constraints"]


def test_monitors_that_share_an_id_are_not_merged():
    a, b = (fb.Monitor(PARITY).update(*rows(10, k), ids=range(10 * k, 10 * k + 10)) for k in range(2))
    both = a.merge(b)
    assert both.rows == 20 and both.update(*rows(20), ids=range(20)).repeated == 20
    with pytest.raises(DataError, match="20 ids were counted by both"):
        both.merge(both)
    with pytest.raises(DataError, match="the other did not"):
        both.merge(fb.Monitor(PARITY).update(*rows(10)))
    assert both.merge(fb.Monitor(PARITY)).rows == 20


def test_a_state_with_ids_is_of_its_own_format_and_must_fit_together():
    state = fb.Monitor(PARITY).update(*rows(10), ids=range(10)).to_dict()
    assert state["format"] == "fairbound.monitor/2" and fb.Monitor(PARITY).to_dict()["format"] == "fairbound.monitor/1"
    assert len(state["ids"]) < 10 * 11 + 4
    for wrong in ({"ids": state["ids"][:-12] + "AAAAAAAAAAA="}, {"ids": "?"}, {"ids": ""}):
        with pytest.raises(CheckpointError, match="does not fit together"):
            fb.Monitor.from_dict(state | wrong)
    with pytest.raises(CheckpointError, match=r"has the format fairbound\.monitor/3, written by fairbound 9"):
        fb.Monitor.from_dict(state | {"format": "fairbound.monitor/3", "library": "9"})


def test_a_set_of_ids_grows_past_what_waits_to_be_sorted_in():
    hashes, known = hashed_ids(range(PENDING + 100)), Ids()
    for begin in range(0, len(hashes), 1000):
        block = hashes[begin : begin + 1000]
        assert known.first(block).all()
        known.add(block)
        assert not known.first(block).any()
    assert len(known) == len(hashes) and Ids.from_text(known.to_text()).first(hashes).sum() == 0
