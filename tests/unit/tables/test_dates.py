"""Texts that are dates with slashes, as they are read in training and at prediction."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fairbound.base.errors import DataError, DataWarning
from fairbound.tables import TableEncoder, TableOptions, read_table
from fairbound.tables.encoded import Encoded
from fairbound.tables.reading.chunks import Chunks

WHEN = pd.Series(pd.date_range("2020-02-01 00:30", periods=80, freq="31h"))


def table(texts) -> pd.DataFrame:
    return pd.DataFrame({"t": texts, "x": np.arange(len(texts)) % 7})


@pytest.mark.parametrize(
    "written",
    [
        "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d-%m-%Y %H:%M:%S", "%m/%d/%Y %H:%M", "%m/%d/%Y %I:%M:%S %p", "%d/%m/%Y %I:%M%p", "%m/%d/%Y %-H:%M",
    ],
)  # fmt: skip
def test_dates_with_slashes_are_days_in_the_order_that_training_shows(written, recwarn):
    texts = WHEN.dt.strftime(written)
    days = table(pd.to_datetime(texts, format=written.replace("-H", "H")))
    encoder = TableEncoder().fit(table(texts))
    assert encoder.feature_names == ("t", "x") and not recwarn
    np.testing.assert_array_equal(encoder.transform(table(texts)), TableEncoder().fit_transform(days))
    for known in (encoder, TableEncoder.from_json(encoder.to_json())):
        few = [i for i, day in enumerate(WHEN) if day.day <= 12][:3]  # these rows alone do not tell the order
        np.testing.assert_array_equal(known.transform(table(texts)[:80].iloc[few]), known.transform(days.iloc[few]))
        with pytest.raises(DataError, match="'t' held dates in training and holds no dates now, such as '30/30/2020'"):
            known.transform(table(["30/30/2020"]))
    parts = [table(texts)[:30], table(texts)[30:]]
    together = Encoded.of(TableEncoder(), Chunks(lambda: parts)).features
    np.testing.assert_allclose(together[:, 0], encoder.transform(table(texts))[:, 0], atol=1e-6)


@pytest.mark.parametrize(
    ("learnt", "now", "said"),
    [
        ("%Y-%m-%d", "07/03/2024", "and training does not tell whether the month or the day comes first in them"),
        ("%d.%m.%Y", "31-03-2024", "and training does not tell whether the month or the day comes first in them"),
        ("%m/%d/%Y", "31/03/2024", "in which the month does not come first, as it did in training"),
        ("%d/%m/%Y", "03/31/2024 10:00", "in which the day does not come first, as it did in training"),
    ],
)
def test_dates_in_an_order_that_training_does_not_tell_are_not_called_no_dates(learnt, now, said):
    encoder = TableEncoder().fit(table(WHEN.dt.strftime(learnt)))
    with pytest.raises(
        DataError, match=f"column 't' holds dates such as '{now}' now, {said}. Write them as in training"
    ):
        encoder.transform(table([now]))
    for other in ("soon", "31/31/2024"):
        with pytest.raises(DataError, match=f"held dates in training and holds no dates now, such as '{other}'"):
            encoder.transform(table([other]))


@pytest.mark.parametrize("written", ["%d-%b-%Y", "%-d %B %Y", "%B %-d, %Y", "%b. %d, %Y %I:%M %p", "%dth %b %Y %H:%M"])
def test_dates_with_the_name_of_the_month_are_days(written, recwarn):
    texts = WHEN.dt.strftime(written)
    encoder = TableEncoder().fit(table(texts))
    assert encoder.feature_names == ("t", "x") and not recwarn
    days = WHEN.dt.floor("min" if ":" in written else "D")
    np.testing.assert_allclose(encoder.transform(table(texts)), TableEncoder().fit_transform(table(days)), atol=1e-12)


@pytest.mark.parametrize(
    "written",
    [
        "%Y/%m/%d", "%Y.%m.%d", "%Y-%-m-%-d", "%Y/%m/%d %H:%M:%S", "%Y/%m/%dT%H:%M", "%Y-%m-%d %H:%M:%S+00:00",
        "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S.%f UTC", "%Y-%m-%d %H:%M:%S.%f000", "%d.%m.%Y %H:%M-00",
    ],
)  # fmt: skip
def test_dates_that_begin_with_the_year_or_name_their_zone_are_days(written, recwarn):
    texts = WHEN.dt.strftime(written)
    encoder = TableEncoder().fit(table(texts))
    assert encoder.feature_names == ("t", "x") and not recwarn
    days = WHEN if "H" in written else WHEN.dt.floor("D")
    np.testing.assert_array_equal(encoder.transform(table(texts)), TableEncoder().fit_transform(table(days)))


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Kolkata", "America/St_Johns", "Etc/GMT+5", "UTC", "+05:30"])
@pytest.mark.parametrize("part", ["0s", "123456us", "123456789ns"])
def test_times_of_a_zone_are_read_as_pandas_writes_them(zone, part, tmp_path):
    frame = table((WHEN + pd.Timedelta(part)).dt.tz_localize("UTC").dt.tz_convert(zone))
    frame.to_csv(tmp_path / "own.csv", index=False)
    encoder = TableEncoder().fit(frame)
    texts = read_table(tmp_path / "own.csv")
    assert texts.t.map(type).eq(str).all()
    np.testing.assert_array_equal(encoder.transform(texts), encoder.transform(frame))
    np.testing.assert_array_equal(TableEncoder().fit_transform(texts), encoder.transform(frame))
    with pytest.raises(DataError, match=r"holds no dates now, such as '2020-02-01 00:30:00\+15:00'"):
        encoder.transform(table(["2020-02-01 00:30:00+15:00"]))


LONG = pd.Series(pd.to_timedelta(np.arange(80) * 7919 - 90_000, unit="s"))


@pytest.mark.parametrize("part", ["0s", "5ms", "123456us"])
@pytest.mark.parametrize("days", [False, True])
def test_durations_are_read_as_pandas_and_python_write_them(days, part, tmp_path, recwarn):
    long = pd.Series(pd.to_timedelta(np.arange(80) - 5, unit="D")) if days else LONG + pd.Timedelta(part)
    table(long).to_csv(tmp_path / "own.csv", index=False)
    python = [str(one.to_pytimedelta()) for one in long]
    texts = [read_table(tmp_path / "own.csv").t, [text if "day" in text else f"0 days, {text}" for text in python]]
    encoder = TableEncoder().fit(table(long))
    for known in (encoder, TableEncoder.from_json(encoder.to_json()), TableEncoder().fit(table(texts[0]))):
        assert known.feature_names == ("t", "x")
        for cells in (long, *texts):
            np.testing.assert_array_equal(known.transform(table(cells)), encoder.transform(table(long)))
    assert not recwarn


def test_a_column_of_durations_is_called_one_and_is_no_other_kind():
    parts = [table(LONG)[:30], table(LONG)[30:]]
    chunked = TableEncoder()
    Encoded.of(chunked, Chunks(lambda: parts))
    unnamed = TableEncoder().fit(LONG.to_numpy()[:, None])
    with pytest.warns(DataWarning, match="only its missing indicator is kept"):
        constant = TableEncoder().fit(table(pd.Series([pd.Timedelta("3h"), None] * 40)))
    for encoder in (TableEncoder().fit(table(LONG)), chunked, constant):
        for cells, said in (
            (["soon"], "durations in training and holds no durations now, such as 'soon'"),
            ([1.5], "durations in training and holds numbers now"),
            (WHEN[:1], "durations in training and holds dates now"),
        ):
            with pytest.raises(DataError, match=f"'t' held {said}"):
                encoder.transform(table(cells))
        assert encoder.transform(table([None])).shape == (1, len(encoder.feature_names))
    with pytest.raises(DataError, match="'x0' held durations in training and holds dates now"):
        unnamed.transform(WHEN.to_numpy()[:, None])
    assert unnamed.transform(LONG.to_numpy()[:, None]).any()
    with pytest.raises(DataError, match="'x' held numbers in training and holds durations now"):
        TableEncoder().fit(table(WHEN)).transform(table(WHEN).assign(x=LONG))


@pytest.mark.parametrize("written", ["%H:%M", "%-H:%M:%S", "%I:%M %p"])
def test_times_of_a_day_are_parts_of_it(written, recwarn):
    when = pd.Series(pd.date_range("2020-02-01", periods=80, freq="17min"))
    encoder = TableEncoder().fit(table(when.dt.strftime(written)))
    assert encoder.feature_names == ("t", "x") and not recwarn
    part = (when.dt.hour * 60 + when.dt.minute) / 1440
    np.testing.assert_allclose(
        encoder.transform(table(when.dt.strftime(written)))[:, 0], (part - part.mean()) / part.std(ddof=0)
    )


def test_times_of_a_day_and_dates_are_not_mixed():
    times = pd.Series(pd.date_range("2020-02-01", periods=80, freq="17min")).dt.strftime("%H:%M")
    days = WHEN.dt.strftime("%Y-%m-%d")
    mixed = pd.concat([days, times.iloc[:30]], ignore_index=True)
    with pytest.warns(DataWarning, match="'t' was dropped"):
        assert "t" not in TableEncoder(TableOptions(min_count=1)).fit(table(mixed)).feature_names
    for one, other in ((times, days), (days, times)):
        encoder = TableEncoder().fit(table(one))
        for known in (encoder, TableEncoder.from_json(encoder.to_json())):
            with pytest.raises(DataError, match="'t' held dates in training and holds no dates now"):
                known.transform(table(other))


@pytest.mark.parametrize(
    "texts", [[f"{i % 30}:{i % 60:02}" for i in range(400)], [f"{i % 28 + 1} Foo {2000 + i % 3}" for i in range(400)]]
)
def test_hours_and_months_that_are_none_are_no_times(texts):
    assert TableEncoder(TableOptions(min_count=1)).fit(table(texts)).feature_names[0].startswith("t=")


@pytest.mark.parametrize(
    "texts",
    [
        [f"{1 + i % 12}/{1 + i // 12 % 12}/2020" for i in range(300)],  # no day above 12
        [f"{1 + i % 12:02}-{1 + i // 12 % 12:02}-2020" for i in range(300)],
        [f"{1 + i % 12}/{13 + i % 15}/20{20 + i % 5}" for i in range(200)] + ["13/1/2020"] * 5,  # both
        [f"{1 + i % 12}/{13 + i % 15}/{20 + i % 5}" for i in range(300)],  # the century is not known
        [f"{1 + i % 12}/{13 + i % 15}/20{20 + i % 5} {i % 2 * 13}:00 PM" for i in range(300)],  # no such hour
    ],
)
def test_dates_that_may_be_read_in_two_ways_become_categories_with_a_word(texts):
    with pytest.warns(DataWarning, match="'t' is text and taken for categories, though they look like dates, such as"):
        names = TableEncoder(TableOptions(min_count=1)).fit(table(texts)).feature_names
    assert names[0].startswith("t=")


def test_units_of_many_numbers_are_spoken_of():
    with pytest.warns(DataWarning, match="though they look like numbers, such as '100 kg': remove signs, units"):
        TableEncoder(TableOptions(min_count=1)).fit(table([f"{100 + i % 90} kg" for i in range(400)]))


def test_a_column_of_dates_that_is_constant_keeps_its_order_for_its_gaps():
    texts = ["05/31/2020"] * 30 + [None] * 20
    options = TableOptions(max_categories=2)
    assert TableEncoder(options).fit(table(texts)).feature_names == ("t=05/31/2020", "t=(missing)", "x")
    damaged = TableEncoder().fit(table(WHEN.dt.strftime("%m/%d/%Y"))).to_json().replace("month first", "year first")
    with pytest.raises(DataError, match="the dates of column 't' are written 'year first'"):
        TableEncoder.from_json(damaged)


def test_a_column_of_other_dates_does_not_guess_the_order_later():
    encoder = TableEncoder().fit(table(WHEN.dt.strftime("%Y-%m-%d")))
    with pytest.raises(DataError, match="holds dates such as '5/31/2020' now, and training does not tell whether"):
        encoder.transform(table(["5/31/2020", "5/6/2020"]))


@pytest.mark.parametrize("turned", [1, -1])
def test_columns_of_which_some_texts_alone_look_like_numbers_or_dates_are_not_spoken_of(turned, recwarn):
    mixed = ([f"{i} kg" for i in range(20)] + [f"town {i}" for i in range(200)])[::turned]
    addresses = [f"10.0.{i % 20}.{1 + i}" for i in range(220)]
    for texts in (mixed, addresses):
        names = TableEncoder().fit(table([text for text in texts for _ in range(5)])).feature_names
        assert len(names) == 221 and not recwarn


RNG = np.random.default_rng(0)
FEW = pd.Series(pd.Timestamp("2019-12-30") + pd.to_timedelta(RNG.integers(0, 20, 300), unit="D"))
SPELT = {
    "with the year first": FEW.dt.strftime("%Y-%m-%d"),
    "with points": FEW.dt.strftime("%d.%m.%Y"),
    "with slashes": FEW.dt.strftime("%m/%d/%Y"),
    "with the month by name": FEW.dt.strftime("%d-%b-%Y"),
    "with a word": FEW.dt.strftime("%Y-%m-%d").where(RNG.random(300) < 0.9, "unknown"),
    "as dates": FEW.astype("category"),
}


@pytest.mark.parametrize("texts", SPELT.values(), ids=SPELT)
def test_few_dates_that_are_categories_are_found_again_as_dates(texts, recwarn):
    encoder = TableEncoder().fit(table(texts))
    assert {name.partition("=")[0] for name in encoder.feature_names[:-1]} == {"t"}
    known = texts != "unknown"
    expected = encoder.transform(table(texts))[known]
    for dates in (FEW, FEW.dt.date, FEW.dt.tz_localize("UTC")):
        np.testing.assert_array_equal(encoder.transform(table(dates))[known], expected)
    assert not recwarn


def test_times_and_durations_that_are_categories_are_found_again_too():
    times = FEW + pd.to_timedelta(RNG.integers(0, 2, 300) * 7.53, unit="h")
    longs = FEW - pd.Timestamp("2020-01-08 13:00:00.25")
    for values in (times, longs):
        encoder = TableEncoder().fit(table(values.astype(str)))
        assert len(encoder.feature_names) > 15
        np.testing.assert_array_equal(encoder.transform(table(values)), encoder.transform(table(values.astype(str))))


def test_dates_that_are_to_be_categories_are_called_by_their_dates():
    options = TableOptions(categorical=("t",), min_count=1)
    times = [pd.Timestamp("2020-01-01"), pd.Timestamp("2020-05-31 07:34"), pd.Timestamp("2020-05-31 07:34:00.5")]
    encoder = TableEncoder(options).fit(table(times * 30))
    assert encoder.feature_names[:3] == ("t=2020-01-01", "t=2020-05-31 07:34:00", "t=2020-05-31 07:34:00.500000")
    longs = [pd.Timedelta("1 days"), pd.Timedelta("2 days 02:35:51"), pd.Timedelta("-1 days +12:00:00")]
    names = TableEncoder(options).fit(table(longs * 30)).feature_names
    assert names[:3] == ("t=-1 days +12:00:00", "t=1 days", "t=2 days 02:35:51")
    with pytest.warns(DataWarning, match="2021-02-03"):
        encoder.transform(table([pd.Timestamp("2021-02-03")]))
    before = TableEncoder.from_json(encoder.to_json().replace('"2020-01-01"', '"18262"'))  # as older folders have it
    np.testing.assert_array_equal(before.transform(table(times)), encoder.transform(table(times)))
    late = np.array([[10**12], [10**12 + 86400 * 7]] * 30, dtype="datetime64[s]")
    assert TableEncoder(TableOptions(categorical=("x0",))).fit(late).transform(late).sum() == 60
