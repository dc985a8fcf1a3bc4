"""Numbers unlike those of training, columns that were not delivered and rows without values are spoken of."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import pytest

import fairbound as fb
from fairbound.base.errors import DataError
from fairbound.tables import Chunks, Encoded, TableEncoder, TableOptions, read_table
from fairbound.tables.encode_report import merged_reports
from fairbound.tables.ranges import FOLD, ends_of

DAYS = pd.date_range("2015-01-01", periods=3000).strftime("%Y-%m-%d").to_numpy()


def table(rows=500, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"debt": rng.gamma(2, 5000, rows), "age": rng.uniform(18, 80, rows), "opened": rng.choice(DAYS, rows)}
    )
    frame["job"] = rng.choice(["full", "part", None], rows, p=[0.6, 0.35, 0.05])
    frame.loc[::20, "age"] = np.nan
    return frame


def said_of(frame):
    return TableEncoder().fit(table()).encode(frame)[1].strange_lines()


def test_nothing_is_said_of_rows_like_those_of_training():
    for seed in range(1, 20):
        assert said_of(table(200, seed)) == [] == said_of(table(1, seed))
    later = table(200, 1)
    later["opened"] = pd.date_range("2024-01-01", periods=200).strftime("%Y-%m-%d")
    assert said_of(later) == []  # days go on


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"debt": lambda c: c * 1000}, "debt: 200 of 200 rows hold a number outside training's range (about 0 to "),
        ({"debt": lambda c: c / 1000}, "debt: 200 of 200 rows hold a number tiny beside those of training"),
        ({"debt": lambda c: -c}, "debt: 200 of 200 rows hold a number outside training's range (about 0 to "),
        ({"debt": lambda c: c.where(c.index > 2, 1e7)}, "debt: 3 of 200 rows hold a value far outside training's range (about 0 to "),
        ({"opened": lambda c: c.where(c.index > 0, "9999-12-31")}, "opened: 1 of 200 rows hold a value far outside training's range."),
        ({"debt": lambda c: c * np.nan}, "debt: 200 of 200 rows are missing, in training 0 %"),
        ({"age": lambda c: c * np.nan}, "age: 200 of 200 rows are missing, in training 5 %"),
        ({"job": lambda c: None}, "job: 200 of 200 rows are missing, in training "),
        ({"opened": lambda c: None}, "opened: 200 of 200 rows are missing, in training 0 %"),
        ({n: (lambda c: c.where(c.index != 7, None)) for n in table(1)}, "1 of 200 rows have no value in any column."),
    ],
)  # fmt: skip
def test_rows_unlike_those_of_training_are_counted(change, said):
    frame = table(200, 1)
    for name, of in change.items():
        frame[name] = of(frame[name])
    found = said_of(frame)
    assert len(found) == 1 and found[0].startswith(said)
    encoder = TableEncoder().fit(table())
    parts = Encoded.of(encoder, Chunks(lambda: (frame[at : at + 30] for at in range(0, 200, 30)))).report
    assert parts.strange_lines() == found


def test_a_few_missing_where_none_was_are_noted():
    frame = table(200, 1)
    frame.loc[:2, ["debt", "age"]] = np.nan
    report = TableEncoder().fit(table()).encode(frame)[1]
    assert report.strange_lines() == []
    assert report.noted_lines() == ["debt: 3 of 200 rows are missing, and in training none was."]
    assert merged_reports([report, report]).noted_lines()[0].startswith("debt: 6 of 400 rows are missing")


def test_plain_numbers_are_looked_at_in_one_array():
    x = np.random.default_rng(0).uniform(1, 2, (300, 3))
    encoder = TableEncoder().fit(x)
    x[:, 1] *= 1000
    x[5] = np.nan
    with pytest.warns(match="training's range|no value in any column") as found:
        encoder.weighted(x, np.ones((len(encoder.feature_names), 1)))
    assert [str(w.message)[:16] for w in found] == ["1 of 300 rows ha", "x1: 299 of 300 r"]


def test_a_saved_range_ends_at_round_numbers_and_old_folders_have_none():
    encoder = TableEncoder().fit(pd.DataFrame({"x": [21.37, 33.3, 58.91]}))
    state = json.loads(encoder.to_json())
    assert (state["learnt"][0]["low"], state["learnt"][0]["high"]) == (20.0, 60.0)
    for key in ("low", "high", "gaps"):
        del state["learnt"][0][key]
    old = TableEncoder.from_json(json.dumps(state))
    assert old.encode(pd.DataFrame({"x": [1e9] * 50}))[1].strange_lines() == []
    state["learnt"][0]["gaps"] = 2.0
    with pytest.raises(DataError, match="share of missing values"):
        TableEncoder.from_json(json.dumps(state))


def test_a_missing_column_is_told_by_the_one_that_differs_in_capitals_or_blanks():
    with pytest.raises(DataError, match=r"Add or rename: 'debt' is 'Debt ' here\."):
        TableEncoder().fit(table()).encode(table().rename(columns={"debt": "Debt "}))


def test_fields_separated_by_bars_are_refused(tmp_path):
    (tmp_path / "t.csv").write_text("a|b\n1|2\n")
    with pytest.raises(DataError, match=r"separated by \|"):
        read_table(tmp_path / "t.csv")


def test_a_column_that_is_nearly_always_missing_may_be_so_by_chance():
    """Of 247 rows 7 are expected to have a value; 4 or none is no news. Of 4,000 rows 120 are, and none is."""
    rare = pd.DataFrame({"x": np.where(np.arange(1000) % 100 < 3, np.arange(1000.0), np.nan), "z": np.arange(1000.0)})
    encoder = TableEncoder().fit(rare)
    for rows, few in ((247, 4), (247, 0), (4000, 0)):
        new = pd.DataFrame({"x": np.where(np.arange(rows) < few, 3.0, np.nan), "z": np.arange(rows) % 1000.0})
        said = encoder.encode(new)[1].strange_lines()
        assert said == [] if rows == 247 else "x: 4,000 of 4,000 rows are missing, in training 97 %" in said[0]


def test_many_columns_with_a_value_far_outside_are_named_in_one_sentence():
    train = pd.DataFrame(np.random.default_rng(0).uniform(size=(300, 5)), columns=list("abcde"))
    encoder = TableEncoder().fit(train)
    for count in (3, 4):
        new = train.copy()
        new.iloc[:2, :count] = 1e6
        said = encoder.encode(new)[1].strange_lines()
        assert len(said) == (3 if count == 3 else 1)
    assert said == [
        "4 columns hold values far outside training's range in some of 300 rows: a (2), b (2), c (2), d (2). Are they right?"
    ]


@pytest.mark.parametrize("bound", [None, "demographic_parity <= 0.1"])
def test_training_rows_without_any_value_are_spoken_of_once(bound):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 2)), columns=["a", "b"])
    X[:100] = np.nan
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model = fb.FairClassifier(bound).fit(X, X.b.gt(0) * 1, sensitive_features=rng.choice(["x", "y"], 400))
    begins = "100 of 400 rows have no value in any column."
    assert [str(w.message).startswith(begins) for w in found].count(True) == 1
    assert any(said.startswith(begins) for said in model.fit_report_["warnings"])


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("rows", [1, FOLD - 1, FOLD, 3 * FOLD + 5])
def test_least_and_greatest_are_those_of_every_row(kind: type, rows: int) -> None:
    values = np.random.default_rng(rows).normal(0, 100, (rows, 7)).astype(kind)
    values[-1, 4], values[-1, 6] = 1000, -1000
    if kind is not np.int64:
        values[::3, 1], values[:, 2] = np.nan, np.nan
    for of in (values, np.asfortranarray(values), values[:, ::2], values[::-1]):
        for end, expected in ((np.fmin, np.nanmin), (np.fmax, np.nanmax)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # of a column without a number
                assert np.array_equal(ends_of(of, end), expected(of, axis=0), equal_nan=True)


@pytest.mark.parametrize("kind", ["array", "by column", "frame", "texts beside"])
def test_what_lies_outside_is_counted_wherever_it_lies(kind: str) -> None:
    """Numbers outside in the first rows, in the middle, in the last one and everywhere, of more rows than are read at once."""
    rows = 20_003
    x = np.random.default_rng(0).uniform(10, 20, (rows, 40))
    trained = {"array": x, "by column": np.asfortranarray(x), "frame": pd.DataFrame(x)}.get(kind)
    if trained is None:
        trained = pd.DataFrame(x).assign(job=np.resize(["a", "b"], rows))
    encoder = TableEncoder(TableOptions(infinite="missing")).fit(trained)
    new = trained.copy()
    values = new if isinstance(new, np.ndarray) else new.iloc[:, :40].to_numpy(copy=True)
    values[[0, 5, 9_000], 3], values[-1, 7], values[2, 12] = 1000, -1000, np.inf
    values[:, 9], values[15_000:, 11] = 0.01, 25
    if values is not new:
        new.iloc[:, :40] = values
    with pytest.warns(match="training's range"):
        encoder.weighted(new, np.ones((len(encoder.feature_names), 1)))
    names = list(encoder.columns)
    for report in (encoder.last_report, encoder.encode(new)[1]):
        assert report.far == {names[3]: 3, names[7]: 1}
        assert report.beyond == {names[3]: 3, names[7]: 1, names[9]: rows, names[11]: rows - 15_000}
        assert report.tiny == {names[9]: rows}
        assert sorted(report.ranges) == sorted(names[j] for j in (3, 7, 9, 11, 12))
