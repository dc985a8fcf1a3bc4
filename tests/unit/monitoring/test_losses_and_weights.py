"""A monitor of mean losses and of weighted rows: sums that agree with the audit, limits that hold, rows counted by their weight."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pandas as pd
import pytest

import fairbound as fb
from fairbound.base.errors import DataError, OptionError
from fairbound.base.verdicts import about
from fairbound.cli import app as cli
from fairbound.confidence.sequences import CountsInTime
from fairbound.confidence.tilted import Pairs
from fairbound.report import schema
from fairbound.report.terminal import table

BOUNDS = ["loss_gap[largest=2] <= 0.5", "group_loss[largest=3] <= 1", "loss_gap[y=1,largest=2] <= 0.5"]


def lossy(n, seed=0, gap=0.3):
    rng = np.random.default_rng(seed)
    sex, y = rng.choice(["f", "m"], n), rng.integers(0, 2, n)
    loss = rng.exponential(0.5, n) + gap * (sex == "m") * rng.integers(0, 2, n)
    return y, rng.integers(0, 2, n), sex, loss


def test_mean_losses_are_those_of_the_rows_and_need_sums_alone():
    y, d, sex, loss = lossy(3000)
    whole = fb.Monitor(BOUNDS).update(y, d, {"sex": sex}, losses=loss)
    parts = fb.Monitor(BOUNDS)
    for part in np.array_split(np.arange(3000), 7):
        parts.update(y[part], d[part], {"sex": sex[part]}, losses=loss[part])
    found, again = whole.look()["constraints"], parts.look()["constraints"]
    means = {c: [np.minimum(loss, c)[sex == g].mean() for g in ("f", "m")] for c in (2, 3)}
    of_positive = [np.minimum(loss, 2)[(sex == g) & (y == 1)].mean() for g in ("f", "m")]
    expected = [abs(np.subtract(*means[2])), max(means[3]), abs(np.subtract(*of_positive))]
    assert [c["value"] for c in found] == pytest.approx(expected, abs=1e-9)
    assert [c["value"] for c in again] == pytest.approx(expected, abs=1e-9)
    assert all(c["lower"] <= c["value"] <= c["upper"] for c in found)
    assert found[0]["groups"] == {"f": int((sex == "f").sum()), "m": int((sex == "m").sum())}
    assert "up to 2" in found[0]["method"] and found[1]["verdict"] == "met"
    loaded = fb.Monitor.from_dict(json.loads(json.dumps(parts.to_dict())))
    assert loaded.look()["constraints"] == again
    both = fb.Monitor(BOUNDS).update(y[:1000], d[:1000], {"sex": sex[:1000]}, losses=loss[:1000])
    both = both.merge(fb.Monitor(BOUNDS).update(y[1000:], d[1000:], {"sex": sex[1000:]}, losses=loss[1000:]))
    assert [c["value"] for c in both.look()["constraints"]] == pytest.approx(expected, abs=1e-9)
    schema.validate(whole.look())


def test_losses_of_nought_and_the_largest_alone_are_judged_as_decisions_are():
    y, d, sex, _ = lossy(4000)
    d = np.where(sex == "f", d, np.arange(4000) % 6 == 0).astype(int)
    rates = fb.Monitor("demographic_parity <= 0.1").update(y, d, {"sex": sex}).look()["constraints"][0]
    losses = (
        fb.Monitor("loss_gap[largest=5] <= 0.5").update(y, y, {"sex": sex}, losses=5.0 * d).look()["constraints"][0]
    )
    for end in ("value", "lower", "upper"):
        assert losses[end] == pytest.approx(5 * rates[end], rel=1e-6)
    assert losses["verdict"] == rates["verdict"] == "violated"


@pytest.mark.parametrize("law", [(0.2, 0.5, 0.3), (0.6, 0.1, 0.3), (0.5, 0.0, 0.5)])
def test_the_capital_is_expected_to_grow_at_no_time_for_any_law_of_losses(law):
    """Three rows of each of two groups, losses 0, a half and 1 of the largest: E M <= 1 by adding up all outcomes, at checkpoint and after."""
    values, p = np.array([0.0, 0.5, 1.0]), np.array(law)
    before = [(np.array([4.0, 7.5]), np.array([12.0, 12.0]))]
    total = 0.0
    outcomes = list(itertools.product(range(3), repeat=3))
    sums = {}
    for one in outcomes:
        key = values[list(one)].sum()
        sums[key] = sums.get(key, 0.0) + p[list(one)].prod()
    mean = float(values @ p)
    for (a, pa), (b, pb) in itertools.product(sums.items(), repeat=2):
        now = np.array([4.0 + a, 7.5 + b]), np.array([15.0, 15.0])
        pairs = Pairs(CountsInTime.of(*now, before), np.array([[0, 1]]))
        pairs.known = pairs.known[1:]  # the forecaster that is scored from the checkpoint on
        total += pa * pb * float(np.exp(pairs.at(np.array([[[mean, mean]]]))[0, 0]))
    line_and_second = 0.75 + 0.25 * 0.2
    assert total <= line_and_second + 1e-9
    if law[1] == 0:
        assert total == pytest.approx(line_and_second, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_rows_are_counted_by_their_weight_whatever_the_calls(seed):
    rng = np.random.default_rng(seed)
    n = 20_000
    sex, d = rng.choice(["f", "m"], n), rng.integers(0, 2, n)
    weight = np.where(d == 1, 4.0, 1.0) * rng.uniform(0.5, 1.0, n)  # weights go with the decision
    options = {"largest_weight": 5.0, "random_state": seed}
    whole = fb.Monitor("demographic_parity <= 0.5", **options).update(d, d, {"sex": sex}, sample_weight=weight)
    parts = fb.Monitor("demographic_parity <= 0.5", **options)
    for part in np.array_split(np.arange(n), 9):
        parts.update(d[part], d[part], {"sex": sex[part]}, sample_weight=weight[part])
        parts = fb.Monitor.from_dict(json.loads(json.dumps(parts.to_dict())))
    assert parts._tally.counts == whole._tally.counts
    expected = weight.sum() / 5
    assert abs(whole.rows - expected) < 5 * np.sqrt(expected)
    rate = np.average(d, weights=weight)
    found = whole.look()
    assert abs(found["metrics"]["selection_rate"] - rate) < 5 * np.sqrt(rate * (1 - rate) / whole.rows)
    assert f"{whole.rows:,} of {n:,} weighted rows" in found["data"]["split"]
    assert found["monitoring"]["offered"] == n
    other = fb.Monitor("demographic_parity <= 0.5", largest_weight=5.0, random_state=seed + 10)
    assert other.update(d, d, {"sex": sex}, sample_weight=weight)._tally.counts != whole._tally.counts
    assert other.merge(whole).rows == other.rows + whole.rows
    with pytest.raises(DataError, match="same random numbers"):
        whole.merge(parts)


def test_the_terminal_says_how_many_of_the_rows_given_were_counted_and_how_many_more_to_give():
    rng = np.random.default_rng(0)
    n = 1500
    sex, d = rng.choice(["f", "m"], n), rng.integers(0, 2, n)
    monitor = fb.Monitor("demographic_parity <= 0.2", largest_weight=5.0, random_state=0)
    found = monitor.update(d, d, {"sex": sex}, sample_weight=rng.uniform(1, 2, n)).look()
    rows, (bound,), text = monitor.rows, found["constraints"], table(found)
    assert bound["verdict"] == "insufficient" and rows < n / 2
    assert f"Of 1,500 rows given, {rows:,} were counted, by their weight" in text
    assert f"this monitor has counted {rows:,} of the 1,500 rows given, by their weight" in text
    more = about(math.ceil(bound["rows_needed"] * n / rows))
    assert (
        f"{about(bound['rows_needed'])} decisions of this kind, out of about {more} rows to give, would decide" in text
    )


@pytest.mark.parametrize(
    ("options", "given", "says"),
    [
        ({}, {"sample_weight": [1.0, 2.0]}, "say the largest"),
        ({"largest_weight": 2.0}, {}, "pass sample_weight"),
        ({"largest_weight": 2.0}, {"sample_weight": [1.0, 3.0]}, r"1 of 2 weights lie outside \[0, 2\]"),
        ({"largest_weight": 2.0}, {"sample_weight": [1.0, -1.0]}, "1 of 2 weights"),
        ({"largest_weight": 2.0}, {"sample_weight": [1.0]}, "columns differ in length"),
        ({"constraint": BOUNDS[0]}, {}, "pass the loss of every row"),
        ({"constraint": BOUNDS[0]}, {"losses": [1.0, -0.1]}, "losses must be at least 0"),
        ({"constraint": BOUNDS[0]}, {"losses": [1.0, np.nan]}, "missing or infinite"),
        ({"constraint": BOUNDS[0]}, {"losses": [1.0]}, "columns differ in length"),
    ],
)
def test_what_cannot_be_counted_is_said_and_counts_nothing(options, given, says):
    monitor = fb.Monitor(**{"constraint": "demographic_parity <= 0.1", **options})
    with pytest.raises(DataError, match=says):
        monitor.update([0, 1], [1, 1], {"sex": ["f", "m"]}, **given)
    assert monitor.rows == 0 and monitor._tally.offered == 0


def test_the_command_watches_losses_and_weights(tmp_path, capsys):
    pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
    y, d, sex, loss = lossy(2000, gap=3.0)
    rows = pd.DataFrame({"y": y, "d": d, "sex": sex, "loss": loss, "w": np.where(sex == "f", 1.0, 2.0)})
    for i, part in enumerate(np.array_split(np.arange(2000), 2)):
        rows.iloc[part].to_csv(tmp_path / f"{i}.csv", index=False)
    call = f"monitor --state {tmp_path}/s --label y --group sex --score d".split()
    first = [*call, "--data", f"{tmp_path}/0.csv", "--constraint", "loss_gap[largest=4] <= 0.3"]
    assert cli.main([*first, "--weights", "w", "--largest-weight", "2"]) == 2
    assert "--loss" in capsys.readouterr().err
    assert cli.main([*first, "--loss", "loss", "--weights", "w", "--largest-weight", "2"]) == 1
    assert "violated" in capsys.readouterr().out
    more = [*call, "--data", f"{tmp_path}/1.csv", "--loss", "loss"]
    assert cli.main(more) == 2 and "--weights differs from the state" in capsys.readouterr().err
    assert cli.main([*more, "--weights", "w", "--largest-weight", "3"]) == 2
    assert cli.main([*more, "--weights", "w"]) == 1
    state = fb.Monitor.load(tmp_path / "s" / "monitor.json")
    assert state.rows < 2000 == state._tally.offered and state.largest_weight == 2


def test_bounds_on_losses_without_a_range_are_refused():
    with pytest.raises(OptionError, match=r"group_loss\[largest=5\]"):
        fb.Monitor("group_loss <= 1")
