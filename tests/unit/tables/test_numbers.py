"""Columns of numbers read a few rows at a time: the same numbers as numpy's of whole columns, and weighted sums of features."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from fairbound.base.errors import DataError
from fairbound.tables import TableEncoder, TableOptions
from fairbound.tables.columns import Column
from fairbound.tables.numbers import ROWS_AT_ONCE, learn_number, learn_numbers

pd = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("ignore:.*(was|were) dropped:fairbound.base.errors.DataWarning")


@pytest.mark.parametrize("rows", [2, 129, ROWS_AT_ONCE, ROWS_AT_ONCE + 1, 3 * ROWS_AT_ONCE + 77, 40_001])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8])
def test_what_is_learnt_in_parts_is_numpys_of_the_whole_column_to_the_last_bit(rows, dtype):
    for seed in range(5):
        x = np.random.default_rng(seed).normal(60, 20, (rows, 3)).clip(0, 255).astype(dtype)
        x[:2] = [[1], [2]]  # no column is constant
        columns = [Column(f"x{j}", "number", x[:, j]) for j in range(3)]
        found = learn_numbers(columns)
        for column in columns:
            whole = Column(column.name, "number", column.values.astype(np.float64))
            assert found[column.name] == learn_number(whole)[0]
            assert found[column.name].mean == whole.values.mean() and found[column.name].sd == whole.values.std()
            assert found[column.name].median == np.median(whole.values)


def test_columns_that_are_not_ordinary_are_left_to_be_learnt_one_by_one():
    n = 5000
    varied = np.random.default_rng(0).normal(size=n)
    odd = {
        "gap": np.where(np.arange(n) == 4321, np.nan, varied),
        "infinite": np.where(np.arange(n) == 7, -np.inf, varied),
        "constant": np.full(n, 0.1),
        "huge": varied * 1e200,
        "tiny": varied * 1e-200,
        "overflowing": np.full(n, 1.7e308),
    }
    columns = [Column(name, "number", values) for name, values in (odd | {"plain": varied}).items()]
    assert list(learn_numbers(columns)) == ["plain"]
    assert learn_numbers([]) == {}


@pytest.mark.parametrize("gaps", [0, 3])
@pytest.mark.parametrize(
    ("others", "rows", "ranged"), [(4, 100, True), (4, 1000, True), (5, 1000, False), (4, 99, False)]
)
def test_numbers_that_differ_in_fewer_rows_than_a_category_needs_are_divided_by_their_range(gaps, others, rows, ranged):
    """Wherever these rows stand and whatever they hold; below 20 times as many rows by the standard deviation, as others."""
    x = np.full(rows, 7.0)
    x[np.linspace(0, rows - 1, others).astype(int)] = [1, 2, 3, 40, 5][:others]
    (feature,) = TableEncoder().fit(np.r_[x, np.full(gaps, np.nan)][:, None]).learnt
    assert feature.mean == pytest.approx(x.mean()) and feature.sd == pytest.approx(39.0 if ranged else x.std())
    (plain,) = TableEncoder(TableOptions(min_count=1)).fit(x[:, None]).learnt
    assert plain.sd == pytest.approx(x.std())
    wide = np.where(np.arange(1000) < 3, [1.7e308, -1.7e308, 0.0] + [0.0] * 997, 0.0) if rows == 1000 else x
    assert np.isfinite(TableEncoder().fit(wide[:, None]).learnt[0].sd)


def mixed(rows, seed=0):
    """A table with gaps in one column, texts with a missing and a rare value, and dates."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "a": rng.normal(1e4, 3, rows).astype(np.float32),
            "c": rng.choice(["x", "y", "z", None], rows),
            "b": np.where(rng.random(rows) < 0.1, np.nan, rng.normal(size=rows)),
            "i": rng.integers(-9, 90, rows),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 400, rows), unit="D"),
        }
    )
    frame.loc[:2, "c"] = "rare"
    return frame


def close(found, features, weight):
    """Equal up to the roundings of a sum of d products, of numbers at most 64 sd larger than the features."""
    size = (np.abs(features) + 64) @ np.abs(weight)
    tolerance = (features.shape[1] + 4) * np.finfo(float).eps
    assert (np.abs(found - features @ weight) <= tolerance * size + 1e-300).all()


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("rows", [1, 5, ROWS_AT_ONCE + 3])
def test_weighted_sums_are_those_of_the_features(rows, outputs):
    rng = np.random.default_rng(3)
    numbers = rng.normal(50, 5, (9000, 6)).astype(np.float32)
    numbers[:, 4] = 7.0  # dropped
    gaps = numbers.astype(np.float64)
    gaps[::3, 2] = np.nan
    for table in (numbers, np.asfortranarray(numbers), gaps, mixed(9000), numbers.tolist(), numbers.astype(object)):
        encoder = TableEncoder().fit(table)
        weight = rng.normal(size=(len(encoder.feature_names), outputs))
        part = table.iloc[:rows] if isinstance(table, pd.DataFrame) else table[:rows]
        features, report = encoder.encode(part)
        close(encoder.weighted(part, weight), features, weight)
        assert encoder.last_report == report


def test_a_gap_that_training_did_not_have_does_not_move_the_rows_beside_it():
    rng = np.random.default_rng(5)
    x = rng.normal(1e5, 2, (3000, 4))
    encoder = TableEncoder(TableOptions(infinite="missing")).fit(x)
    weight = rng.normal(size=(4, 1))
    plain, holed = encoder.weighted(x, weight), x.copy()
    holed[[10, 2500], 1], holed[77, 3] = np.nan, np.inf
    found = encoder.weighted(holed, weight)
    assert encoder.last_report.missing == {"x1": 2, "x3": 1} and encoder.last_report.infinite == {"x3": 1}
    close(found, encoder.transform(holed), weight)
    others = np.setdiff1d(np.arange(3000), [10, 2500, 77])
    scale = np.abs(encoder.transform(x)) @ np.abs(weight)
    assert (np.abs(found - plain)[others] <= 10 * np.finfo(float).eps * scale[others]).all()  # the mean is 50,000 sd
    with pytest.raises(DataError, match=r"'x3' has 1 infinite value, the first in row 2100"):
        TableEncoder().fit(x).weighted(np.where(np.arange(12000).reshape(3000, 4) == 8403, np.inf, x), weight)


@pytest.mark.parametrize("dropped", [np.nan, 3.0])
@pytest.mark.parametrize("layout", ["rows", "columns", "frame"])
def test_columns_of_gaps_and_dropped_ones_in_one_array(layout, dropped):
    x = np.random.default_rng(7).normal(2, 3, (5000, 5))
    x[:, 1], x[::5, 2], x[::7, 3] = dropped, np.nan, np.nan
    x[~np.isnan(x[:, 3]), 3] = 4.0  # constant where it is known: only its gaps are a feature
    table = {"rows": x, "columns": np.asfortranarray(x), "frame": pd.DataFrame(dict(zip("abcde", x.T, strict=True)))}[
        layout
    ]
    with np.errstate(invalid="ignore"):
        encoder = TableEncoder().fit(table)
    assert len(encoder.feature_names) == 5 and len(encoder.dropped) == 2  # a, c, (gaps of c), (gaps of d), e
    weight = np.random.default_rng(8).normal(size=(5, 2))
    features, report = encoder.encode(table)
    close(encoder.weighted(table, weight), features, weight)
    assert encoder.last_report == report and sorted(report.missing.values()) == [715, 1000]


@pytest.mark.filterwarnings("ignore:.*training's range", "ignore:.*tiny beside")
def test_a_frame_is_read_alike_whole_and_column_by_column(monkeypatch):
    """Of plain numbers in any order of any kind; and errors and reports are the same."""
    frame = mixed(300)[["a", "b", "i"]].rename(columns=str.upper)
    encoder = TableEncoder().fit(frame)
    weight = np.random.default_rng(9).normal(size=(len(encoder.feature_names), 1))
    tables = [
        frame,
        frame.iloc[:1],
        frame[["I", "B", "A"]],
        frame.assign(more=1),
        frame.to_numpy(),
        frame.convert_dtypes(),
        frame.assign(I=frame.I > 9),
        frame.assign(I=frame.I.astype(str)),
        frame.assign(I=frame.I.astype("uint64") + 2**60),
        frame.assign(A=np.inf),
        frame.assign(B=1e308 * np.sign(frame.B)),
        frame.assign(I="many"),
        frame.assign(I=pd.Timestamp("2020-01-01")),
        frame[["A", "B"]],
        frame.iloc[:0],
    ]

    def outcome(table):
        try:
            return encoder.weighted(table, weight), encoder.last_report
        except DataError as error:
            return np.zeros(0), str(error)

    found = [outcome(table) for table in tables]
    monkeypatch.setattr("fairbound.tables.encoder.number_array", lambda *_: None)
    for table, (sums, report) in zip(tables, found, strict=True):
        expected, said = outcome(table)
        np.testing.assert_allclose(sums, expected, rtol=1e-13, atol=1e-12)
        assert report == said
    assert sum(isinstance(report, str) for _, report in found) == 5


@pytest.mark.parametrize("frame", [False, True])
def test_encoding_takes_no_copy_of_the_table_but_its_float32_features(frame):
    table = np.random.default_rng(1).normal(5, 2, (160_000, 40)).astype(np.float32)
    one = table.nbytes
    table = pd.DataFrame(table) if frame else table
    encoder = TableEncoder().fit(table.iloc[:2000] if frame else table[:2000])  # what is loaded once counts no more
    encoder.weighted(table, np.ones((40, 1)))
    peaks = []
    for run in (
        lambda: TableEncoder().fit_encode(table, np.float32),
        lambda: encoder.weighted(table, np.ones((40, 1))),
    ):
        tracemalloc.start()
        kept = run()
        peaks.append(tracemalloc.get_traced_memory()[1] / one)
        tracemalloc.stop()
        del kept
    assert peaks[0] < 1.15, "features, and a few rows"
    assert peaks[1] < 0.2, "a few rows, and a score of each"
