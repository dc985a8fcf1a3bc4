"""Tables into features: what is learnt, what is reported, what is refused, and the JSON that brings it all back."""

from __future__ import annotations

import datetime as dt
import json
import tracemalloc
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, StandardScaler

from fairbound.base.errors import DataError, DataWarning, FairboundError, OptionError
from fairbound.rows.shards import ALONE
from fairbound.tables import TableEncoder, TableOptions
from fairbound.tables.columns import read_columns
from fairbound.tables.group_terms import GroupTerms
from fairbound.tables.in_parts import encode_chunks
from fairbound.tables.reading.chunks import Chunks

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

pytestmark = pytest.mark.filterwarnings("ignore:.*(was|were) dropped:fairbound.base.errors.DataWarning")
EVERY = TableOptions(min_count=1)


def small():
    return pd.DataFrame({"age": [20, 30, 40, 50], "sex": ["F", "M", "M", "F"], "vip": [True, False, True, True]})


def col(encoder, features, name):
    return features[:, encoder.feature_names.index(name)]


# --- what is learnt -------------------------------------------------------------------------------------------------


def test_numbers_equal_standard_scaler_and_categories_equal_one_hot():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(5, 3, 200), "b": rng.integers(0, 9, 200), "c": rng.choice(list("xyz"), 200)})
    encoder = TableEncoder(EVERY).fit(frame)
    got = encoder.transform(frame)
    scaled = StandardScaler().fit_transform(frame[["a", "b"]].to_numpy(np.float64))
    hot = OneHotEncoder(sparse_output=False).fit_transform(frame[["c"]])
    assert encoder.feature_names == ("a", "b", "c=x", "c=y", "c=z")
    np.testing.assert_allclose(got, np.hstack([scaled, hot]), rtol=1e-12, atol=1e-12)
    assert got.dtype == np.float64 and encoder.columns == ("a", "b", "c")


def test_missing_numbers_take_the_median_and_are_marked():
    train = pd.DataFrame({"x": [1.0, 2.0, np.nan, 9.0], "y": [1.0, 2.0, 3.0, 4.0]})
    encoder = TableEncoder().fit(train)
    got, report = encoder.encode(pd.DataFrame({"x": [np.nan, 4.0], "y": [np.nan, 1.0]}))
    known = np.array([1.0, 2.0, 9.0])
    expected = (np.array([2.0, 4.0]) - known.mean()) / known.std()
    np.testing.assert_allclose(col(encoder, got, "x"), expected, rtol=1e-15)
    assert col(encoder, got, "x=(missing)").tolist() == [1.0, 0.0]
    assert encoder.feature_names == ("x", "x=(missing)", "y")
    assert col(encoder, got, "y")[0] == 0.0  # the median 2.5 is the mean
    assert report.missing == {"x": 1, "y": 1}


def test_missing_is_a_category_of_its_own_where_training_had_it():
    encoder = TableEncoder(EVERY).fit(pd.DataFrame({"c": ["a", None, "b", "", "  "]}))
    assert encoder.feature_names == ("c=a", "c=b", "c=(missing)")
    assert encoder.last_report.missing == {"c": 3}
    assert encoder.transform(pd.DataFrame({"c": [None]})).tolist() == [[0.0, 0.0, 1.0]]


def test_missing_category_unknown_to_training_goes_to_other_or_zeros():
    rare = TableEncoder(TableOptions(min_count=2)).fit(pd.DataFrame({"c": ["a", "a", "b", "b", "z"]}))
    assert rare.transform(pd.DataFrame({"c": [None]})).tolist() == [[0.0, 0.0, 1.0]]
    plain = TableEncoder(EVERY).fit(pd.DataFrame({"c": ["a", "b"]}))
    got, report = plain.encode(pd.DataFrame({"c": [None]}))
    assert got.tolist() == [[0.0, 0.0]] and report.missing == {"c": 1} and report.unseen == {}


def test_rare_categories_are_pooled_and_unseen_ones_join_them():
    frame = pd.DataFrame({"c": ["a"] * 5 + ["b"] * 5 + ["r1", "r2"]})
    encoder = TableEncoder(TableOptions(min_count=3)).fit(frame)
    assert encoder.feature_names == ("c=a", "c=b", "c=(other)")
    got, report = encoder.encode(pd.DataFrame({"c": ["b", "r1", "never"]}))
    assert got.tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 1]]
    assert report.unseen == {"c": 2}


def test_values_too_rare_in_training_are_no_sign_of_another_spelling():
    """Of 200 shops 29 have a feature, so that most rows of training share one; only more such rows than there are strange."""
    shops = np.array([f"s{i}" for i in range(200)])
    draw = np.random.default_rng(0).choice
    frame = pd.DataFrame({"shop": draw(shops, 20_000), "age": np.arange(20_000.0)})
    encoder = TableEncoder(TableOptions(max_categories=30)).fit(frame)
    (shop,) = (spec for spec in encoder.learnt if spec.name == "shop")
    assert shop.rare == pytest.approx(1 - frame.shop.isin(shop.values).mean(), abs=1e-12) and shop.rare > 0.7
    again = TableEncoder.from_json(encoder.to_json())
    for one in (encoder, again):
        _, report = one.encode(pd.DataFrame({"shop": draw(shops, 500), "age": 9999.0}))
        assert report.unseen["shop"] > 350 and report.rare == {"shop": shop.rare} and not report.strange_lines()
        _, other = one.encode(pd.DataFrame({"shop": draw(np.char.upper(shops), 500), "age": 9999.0}))
        (line,) = other.strange_lines()
        assert "500 of 500 rows have a value that training did not know or that was too rare there" in line
    older = json.loads(encoder.to_json())
    for column in older["learnt"]:
        column.pop("rare", None)
    assert TableEncoder.from_json(json.dumps(older)).feature_names == encoder.feature_names


def test_unseen_category_without_a_pool_is_zeros_and_counted():
    encoder = TableEncoder(EVERY).fit(small())
    late = small()
    late["sex"] = ["X", "M", "Y", "F"]
    got, report = encoder.encode(late)
    assert report.unseen == {"sex": 2} and encoder.last_report == report
    assert col(encoder, got, "sex=F").tolist() == [0, 0, 0, 1] and col(encoder, got, "sex=M").tolist() == [0, 1, 0, 0]
    assert report.lines() == ["sex: 2 of 4 rows have a value unseen or too rare in training."]
    assert json.loads(json.dumps(report.to_dict()))["unseen"] == {"sex": 2}


def test_a_value_that_training_never_had_is_said_once_of_a_column():
    encoder = TableEncoder(EVERY).fit(small())
    late = small()
    late["sex"] = ["X", "M", "Y" * 50, "F"]
    said = rf"^sex: 2 of 4 rows have a value that training did not know, 'X', '{'Y' * 40}', so the column says nothing"
    with pytest.warns(DataWarning, match=said) as caught:
        encoder.transform(late)
    assert len(caught) == 1 and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            encoder.transform(late.assign(sex=["Z", "M", "F", None]))
        encoder.encode(late)  # whose report is returned
        TableEncoder.from_json(encoder.to_json()).transform(small())
    report = encoder.encode(late)[1]
    assert report.new == {"sex": ("X", "Y" * 50)} and "X" not in json.dumps(report.to_dict())
    with pytest.warns(DataWarning, match=said):
        encoder.fit(small()).transform(late)


@pytest.mark.parametrize("kind", [int, float, bool, object, str, np.int8])
def test_numbers_where_true_and_false_were_learnt_are_these(kind):
    truth = pd.DataFrame({"own": [True, False, None, True], "x": [1.0, 2.0, 3.0, 4.0]})
    encoder = TableEncoder(EVERY).fit(truth)
    assert list(encoder.feature_names[:3]) == ["own=False", "own=True", "own=(missing)"]
    rows = truth.iloc[[0, 1, 3]]
    got = encoder.transform(rows.assign(own=np.array([1, 0, 1], dtype=kind)))
    np.testing.assert_array_equal(got, encoder.transform(rows))
    np.testing.assert_array_equal(encoder.transform(truth.assign(own=[1, 0, np.nan, "1.0"])), encoder.transform(truth))
    with pytest.warns(DataWarning, match="own: 1 of 4 rows have a value that training did not know, '2'"):
        other = encoder.transform(truth.assign(own=[1, 0, np.nan, 2]))
    np.testing.assert_array_equal(other[:3], encoder.transform(truth)[:3])
    assert not other[3, :3].any()


FLOATS, WHOLE, TRUTHS = ["1.0", "2.0", "3.5"], [1, 2, 3.5], [True, False, True]
IN_OTHER_NOTATIONS = [
    (FLOATS, [WHOLE, ["1", "2", "3.5"], ["1.00", "2.", "3.50"], pd.Categorical(WHOLE), np.array(WHOLE, dtype=object)]),
    (pd.Categorical(["1", "2", "3.5"]), [WHOLE, FLOATS, ["1.00", "2", "3.50"], pd.Categorical(WHOLE)]),
    (pd.Categorical(WHOLE), [WHOLE, FLOATS, ["1", "2", "3.5"]]),
    (pd.Categorical([1, 2, 4]), [["1.0", "2.0", "4.0"], pd.array([1, 2, 4], dtype="Int64"), [1.0, 2.0, 4.0]]),
    (TRUTHS, [["true", "false", "true"], ["TRUE", "FALSE", "TRUE"], ["True", "False", "true"], [1, 0, 1], ["1.0", "0.0", "1"]]),
    (["true", "false", "true"], [TRUTHS, ["TRUE", "FALSE", "True"], [1.0, 0.0, 1.0], ["1", "0", "1"]]),
    (["1.0", "0.0", "1.0"], [TRUTHS, ["true", "false", "TRUE"], [1, 0, 1], ["1", "0", "1"]]),
    (["01", "1", "007"], [["01", 1, "007"], ["01", "1.0", "007"]]),
]  # fmt: skip


@pytest.mark.parametrize(("learnt", "later"), IN_OTHER_NOTATIONS, ids=[str(list(x)) for x, _ in IN_OTHER_NOTATIONS])
def test_a_category_is_found_in_any_notation_of_its_number_or_truth_value(learnt, later):
    def of(cells):
        return pd.DataFrame({"c": cells, "x": [1.0, 2.0, 4.0]})

    encoder = TableEncoder(EVERY).fit(of(learnt))
    whole = encoder.transform(of(learnt))
    assert len({tuple(row) for row in whole[:, :-1]}) == len(set(learnt))
    for known in (encoder, TableEncoder.from_json(encoder.to_json())):
        for cells in later:
            np.testing.assert_array_equal(known.transform(of(cells)), whole)
            assert not known.last_report.unseen


def test_what_may_be_two_categories_or_is_a_code_is_none_of_them():
    def of(*cells):
        return pd.DataFrame({"c": cells, "x": np.arange(len(cells)) % 3.0})

    encoder = TableEncoder(EVERY).fit(of("1", "1.0", "01", "7"))
    assert encoder.feature_names[:4] == ("c=01", "c=1", "c=1.0", "c=7")
    with pytest.warns(DataWarning, match=r"c: 4 of 7 rows have a value .*, '1\.00', '007', '1E0' and 1 more"):
        got = encoder.transform(of("1", "1.0", "01", "1.00", "007", "1E0", "True"))
    np.testing.assert_array_equal(got[:3, :4], np.eye(4)[[1, 2, 0]])
    assert not got[3:, :4].any()
    truth = TableEncoder(EVERY).fit(of("true", "false", "maybe"))
    with pytest.warns(DataWarning, match="c: 2 of 4 rows have a value that training did not know, '1', '0'"):
        assert truth.transform(of("TRUE", "1", "0", False))[:, :3].sum(axis=1).tolist() == [1, 0, 0, 1]


def test_a_value_among_the_rare_ones_of_training_may_be_one_of_them():
    frame = pd.DataFrame({"c": ["a"] * 12 + ["b"] * 12 + ["r1"] * 3})
    encoder = TableEncoder(TableOptions(min_count=10)).fit(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder.transform(pd.DataFrame({"c": ["b", "r1", "never"]}))
    assert encoder.last_report.unseen == {"c": 2} and encoder.last_report.new == {}


def test_max_categories_keeps_the_most_frequent():
    frame = pd.DataFrame({"c": ["a"] * 9 + ["b"] * 7 + ["d"] * 5 + ["e"] * 6})
    encoder = TableEncoder(TableOptions(max_categories=3)).fit(frame)
    assert encoder.feature_names == ("c=a", "c=b", "c=(other)")


@pytest.mark.parametrize(("rows", "columns"), [(1_500, 250), (100_000, 250), (200_000, 125), (600_000, 50)])
def test_a_column_of_categories_has_at_most_250_columns_fewer_in_long_tables(rows, columns):
    frame = pd.DataFrame({"c": pd.Categorical.from_codes(np.arange(rows) % 300, [f"v{i}" for i in range(300)])})
    encoder = TableEncoder().fit(frame)
    assert len(encoder.feature_names) == columns and encoder.feature_names[-1] == "c=(other)"
    assert TableOptions().most_categories(0) == 250  # a process without rows
    assert len(TableEncoder(TableOptions(max_categories=280)).fit(frame).feature_names) == 280


@pytest.mark.parametrize(("most", "advised"), [(20, True), (41, False), (45, False)])
def test_more_columns_are_advised_only_where_they_would_be_used(most, advised):
    values = [f"v{i % 40}" if i < 600 else f"rare{i}" for i in range(800)]
    frame, options = pd.DataFrame({"c": values}), TableOptions(max_categories=most)
    encoder = TableEncoder(options).fit(frame)
    for known in (encoder, TableEncoder.from_json(encoder.to_json())):
        (said,) = known.encode(frame)[1].rare_lines()
        assert said.endswith("gives more values their own.") == advised
        assert said.endswith("share one feature, as few rows have any one of them.") != advised
    _, report = encode_chunks(TableEncoder(options), Chunks(lambda: [frame[::2], frame[1::2]]), ALONE)
    assert report.full == ("c",) * advised


def test_literal_other_and_missing_texts_do_not_collide_with_the_pools():
    frame = pd.DataFrame({"c": ["a", "a", "(other)", "b", "(missing)", None]})
    encoder = TableEncoder(EVERY).fit(frame)
    assert encoder.feature_names == ("c=a", "c=b", "c=(other)", "c=(missing)")
    got, report = encoder.encode(frame)
    assert got.sum(axis=1).tolist() == [1] * 6 and got[:, 3].sum() == 2 and report.unseen == {}


def test_whole_numbers_stay_numbers_unless_the_type_says_category():
    codes = [1, 2, 1, 2, 3]
    for plain in (codes, pd.Series(codes, dtype=object)):
        assert TableEncoder(EVERY).fit(pd.DataFrame({"c": plain})).feature_names == ("c",)
    for typed in (pd.Series(codes, dtype="category"), pd.Series(map(str, codes))):
        encoder = TableEncoder(EVERY).fit(pd.DataFrame({"c": typed}))
        assert encoder.feature_names == ("c=1", "c=2", "c=3")
        assert encoder.transform(pd.DataFrame({"c": [2.0]})).tolist() == [[0, 1, 0]]
    named = TableEncoder(TableOptions(min_count=1, categorical=("c",))).fit(pd.DataFrame({"c": codes}))
    assert named.feature_names == ("c=1", "c=2", "c=3")


@pytest.mark.parametrize("kind", [int, float, Decimal, np.int8, np.float64, Fraction])
@pytest.mark.parametrize("values", [7, 90])
def test_numbers_kept_as_objects_are_the_numbers_that_they_are(kind, values):
    plain = pd.DataFrame({"n": np.arange(400) % values + 1.0, "x": np.arange(400) % 13})
    cells = pd.Series([kind(int(n)) for n in plain.n], dtype=object)
    gaps = np.arange(400) % 9 == 0
    for own, none in ((plain, None), (plain.assign(n=plain.n.mask(gaps)), [None, np.nan, pd.NA])):
        kept = (
            cells
            if none is None
            else pd.Series([none[i % 3] if i in np.flatnonzero(gaps) else cells[i] for i in range(400)], dtype=object)
        )
        for frame in (
            plain.assign(n=kept),
            pl.DataFrame(
                {"n": pl.Series([None if pd.isna(v) else v for v in kept], dtype=pl.Object), "x": plain.x.to_numpy()}
            ),
        ):
            encoder = TableEncoder().fit(frame)
            assert encoder.feature_names[0] == "n" and encoder.options.many == 50
            np.testing.assert_array_equal(encoder.transform(frame), TableEncoder().fit_transform(own))
            np.testing.assert_array_equal(encoder.transform(own), TableEncoder().fit_transform(own))
    parts = Chunks(lambda: [plain.assign(n=cells)[:200], plain[200:]])
    whole = TableEncoder().fit_transform(plain)
    np.testing.assert_allclose(encode_chunks(TableEncoder(), parts, ALONE)[0], whole, atol=1e-6)


def test_objects_that_may_be_codes_are_categories_as_they_were(recwarn):
    for cells in ([True, 2, 3], [10**16, 10**16 + 1, 3], [1, 2, "3"], ["1", "2", "3"]):
        frame = pd.DataFrame({"n": pd.Series(cells * 40, dtype=object), "x": np.arange(120) % 7})
        encoder = TableEncoder().fit(frame)
        assert encoder.feature_names == (*(f"n={cell}" for cell in sorted(map(str, cells))), "x")
    stated = TableEncoder(TableOptions(categorical=("n",))).fit(
        frame.assign(n=pd.Series([1, 2.5, 3] * 40, dtype=object))
    )
    assert stated.feature_names == ("n=1", "n=2.5", "n=3", "x")
    infinite = frame.assign(n=pd.Series([1, Decimal("Infinity"), 3] * 40, dtype=object))
    with pytest.raises(DataError, match="column 'n' has 40 infinite values, the first in row 1"):
        TableEncoder().fit(infinite)


def test_a_saved_model_that_took_objects_for_categories_reads_them_so():
    frame = pd.DataFrame({"n": pd.Series([1, 2, 3.5] * 40, dtype=object), "x": np.arange(120) % 7})
    saved = TableEncoder(TableOptions(categorical=("n",))).fit(frame).to_json().replace('"n"\n  ]', "]", 1)
    older = TableEncoder.from_json(saved)
    assert older.feature_names == ("n=1", "n=2", "n=3.5", "x")
    texts = frame.assign(n=frame.n.map({1: "1", 2: "2", 3.5: "3.5"}))
    np.testing.assert_array_equal(older.transform(frame), older.transform(texts))
    assert not older.last_report.unseen


def test_untyped_text_of_many_numbers_is_a_number_and_leading_zeros_make_codes():
    numbers = [str(v % 60) for v in range(600)]
    assert TableEncoder().fit(np.array(numbers)[:, None]).feature_names == ("x0",)
    assert TableEncoder().fit([[text] for text in numbers]).feature_names == ("x0",)
    assert TableEncoder().fit(pd.DataFrame({"x": pd.Series(map(int, numbers), dtype=object)})).feature_names == ("x",)
    with pytest.warns(DataWarning, match="'x' is text and taken for categories, though all its texts are numbers"):
        assert len(TableEncoder().fit(pd.DataFrame({"x": numbers})).feature_names) == 60
    zips = pd.DataFrame({"z": [f"{v % 60:05d}" for v in range(600)]})
    assert len(TableEncoder(TableOptions(max_categories=10)).fit(zips).feature_names) == 10
    assert TableEncoder(TableOptions(numeric=("z",))).fit(zips).feature_names == ("z",)


def test_dates_are_days_since_1970_and_durations_days():
    when = pd.to_datetime(["1970-01-01 00:00", "1970-01-03 12:00", None])
    dates = [dt.date(1970, 1, day) for day in (1, 2, 3)]
    frame = pd.DataFrame({"t": when, "d": pd.to_timedelta([1, 2, 6], unit="D"), "o": dates})
    encoder = TableEncoder().fit(frame)
    stored = {spec["name"]: spec for spec in json.loads(encoder.to_json())["learnt"]}
    assert stored["t"]["mean"] == 1.25 and stored["d"]["mean"] == 3.0 and stored["o"]["mean"] == 1.0
    zoned = frame.assign(t=when.tz_localize("UTC").tz_convert("Asia/Tokyo"))
    assert np.array_equal(encoder.transform(zoned), encoder.transform(frame))
    with pytest.raises(DataError, match="'t' held dates in training and holds numbers now"):
        encoder.transform(frame.assign(t=[1.0, 2.0, 3.0]))
    with pytest.raises(DataError, match="'d' held durations in training and holds numbers now"):
        encoder.transform(frame.assign(d=[1.0, 2.0, 3.0]))
    with pytest.raises(DataError, match="'d' held numbers in training and holds durations now"):
        TableEncoder().fit(frame.assign(d=[1.0, 2.0, 3.0])).transform(frame)


@pytest.mark.parametrize("written", ["%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%SZ", "%d.%m.%Y %H:%M"])
def test_texts_that_are_all_dates_are_days_where_they_are_many(written):
    when = pd.Series(pd.date_range("2020-02-01 06:30", periods=60, freq="31h")).dt.strftime(written)
    frame = pd.DataFrame({"t": pd.concat([when, pd.Series([None])], ignore_index=True), "x": range(61)})
    days = frame.assign(t=pd.to_datetime(frame["t"], dayfirst=written.startswith("%d")))
    encoder = TableEncoder().fit(frame)
    assert encoder.feature_names == ("t", "t=(missing)", "x")
    np.testing.assert_array_equal(encoder.transform(frame), TableEncoder().fit_transform(days))
    np.testing.assert_array_equal(encoder.transform(days[:3]), encoder.transform(frame[:3]))
    np.testing.assert_array_equal(TableEncoder.from_json(encoder.to_json()).transform(frame), encoder.transform(frame))
    assert encoder.transform(frame.assign(t=None))[:, 1].all()
    for wrong in ("next week", "2020-06-31"):
        with pytest.raises(DataError, match=f"'t' held dates in training and holds no dates now, such as '{wrong}'"):
            encoder.transform(frame.replace(when[3], wrong))
        assert "t" in TableEncoder().fit(frame.replace(when[0], wrong)).dropped
    many = pd.concat([frame] * 5, ignore_index=True)
    assert len(TableEncoder(TableOptions(categorical=("t",))).fit(many).feature_names) == 62
    assert f"t={when[0]}" in TableEncoder().fit(many[many["t"].isin(when[:50])]).feature_names


@pytest.mark.parametrize("big", [1.7e308, 1e200, 1e-200, 5e-324])
def test_extreme_magnitudes_neither_overflow_nor_vanish(big):
    train = np.array([[0.0], [big], [big], [0.0]])
    if big == 5e-324:  # half the smallest float rounds to zero, so its spread cannot be held
        with pytest.raises(DataError, match="constant"):
            TableEncoder().fit(train)
        return
    np.testing.assert_allclose(TableEncoder().fit_transform(train)[:, 0], [-1, 1, 1, -1], rtol=1e-12)


def test_value_too_far_from_training_is_named():
    encoder = TableEncoder().fit(np.array([[0.0], [1e-10]]))
    with pytest.raises(DataError, match=r"'x0' has the value 1e\+300 in row 1"):
        encoder.transform([[0.0], [1e300]])


# --- what is dropped ------------------------------------------------------------------------------------------------


def test_useless_columns_are_dropped_with_the_reason():
    n = 120
    frame = pd.DataFrame(
        {
            "x": np.arange(n),
            "same": 7,
            "one": "only",
            "void": np.nan,
            "none": [None] * n,
            "name": [f"person {i}" for i in range(n)],
            "half": [3.0, np.nan] * (n // 2),
        }
    )
    encoder = TableEncoder().fit(frame)
    assert encoder.feature_names == ("x", "half=(missing)")
    assert set(encoder.dropped) == {"same", "one", "void", "none", "name", "half"}
    assert "constant (7)" in encoder.dropped["same"] and "constant ('only')" in encoder.dropped["one"]
    assert "no row has a value" in encoder.dropped["void"] and "no row has a value" in encoder.dropped["none"]
    assert "nearly unique" in encoder.dropped["name"] and "indicator" in encoder.dropped["half"]
    got, report = encoder.encode(frame[["half", "x"]])  # dropped columns are not asked for
    assert got.shape == (n, 2) and report.ignored == () and report.dropped == encoder.dropped
    assert "same: dropped, constant (7)." in report.lines()


def test_small_tables_of_all_different_texts_say_why_nothing_is_left():
    with pytest.raises(DataError, match=r"no column is left .* c: none of its 3 values is in min_count=5 rows"):
        TableEncoder().fit(pd.DataFrame({"c": ["a", "b", "d"]}))


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (pd.DataFrame({"a": []}), "no rows"),
        (pd.DataFrame(index=[0, 1]), "no columns"),
        (pl.DataFrame(), "no columns"),
        (np.zeros((0, 3)), r"0 sample\(s\) \(shape=\(0, 3\)\)"),
        (np.zeros((3, 0)), r"0 feature\(s\) \(shape=\(3, 0\)\)"),
        ([], "empty list"),
        (np.zeros(3), "Reshape your data"),
        ([1, 2], "Reshape your data"),
        (torch.zeros(2, 2, 2), "2-D"),
        (pd.Series([1, 2]), "to_frame"),
        (pl.Series([1, 2]), "to_frame"),
        (pl.LazyFrame({"a": [1]}), "collect"),
        (pa.chunked_array([[1, 2]]), "to_frame"),
        (pa.table({"z": [[1], [2]]}), "'z' has type List"),
        (pa.table([[1], [2]], names=["z", "z"]), "these repeat: 'z'"),
        ([{"a": 1}], "list of dicts"),
        ([[1, 2], [3]], "row 1 .* has 1 cells, the others 2"),
        (np.zeros((2, 2), complex), "Complex data not supported"),
        (pd.DataFrame({"z": [1j, 2j]}), "Complex data not supported: column 'z'"),
        (
            pd.DataFrame({"z": [[1], [2]]}),
            r"'z' holds a list \('\[1\]'\); each cell must be a text, a bool or a number\. Turn",
        ),
        (pd.DataFrame({"z": [b"a", b"b"]}), "'z' holds a bytes"),
        (
            pd.DataFrame({"z": pd.period_range("2020", periods=2, freq="D")}),
            r"'z' has type period.*dt\.to_timestamp\(\)",
        ),
        (
            pd.DataFrame({"z": [*pd.period_range("2020", periods=2, freq="D"), "x"]}),
            r"'z' holds a Period .*dt\.to_timestamp\(\)",
        ),
        (pl.DataFrame({"z": [[1], [2]]}), "'z' has type List"),
        (
            np.array([["a"], [{"b": 1}]], dtype=object),
            "each cell must be a text, a bool or a number .*argument must be a string.* number",
        ),
        (5, "a table must be"),
        (sp.csr_array((0, 3)), r"0 sample\(s\)"),
        (sp.csr_array(np.array([[np.nan, 1.0]])), "1 NaN or infinite values, the first in column x0"),
        (sp.csr_array(np.array([[1j]])), "Complex data not supported"),
    ],
)
def test_tables_that_are_none_are_refused(table, words):
    with pytest.raises(FairboundError, match=words) as caught:
        TableEncoder().fit(table)
    assert isinstance(caught.value, ValueError)


def test_unknown_cell_types_are_type_errors_too():
    with pytest.raises(TypeError, match="dict"):
        TableEncoder().fit(np.array([[{"a": 1}]], dtype=object))


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame([[1, 2, 3]], columns=["a", "b", "a"]),
        pd.DataFrame([[1, 2]], columns=[1, "1"]),
    ],
)
def test_duplicate_column_names_are_refused_at_fit_and_at_predict(frame):
    with pytest.raises(DataError, match="must be unique"):
        TableEncoder().fit(frame)
    plain = pd.DataFrame({"a": [1, 2], "b": [1, 3], "1": [2, 3]})
    with pytest.raises(DataError, match="must be unique"):
        TableEncoder().fit(plain).transform(frame)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_infinities_are_named_and_counted_or_taken_as_missing(value, make):
    good, bad = make({"a": [1.0, 2.0, 3.0]}), make({"a": [1.0, value, value]})
    with pytest.raises(DataError, match=r"'a' has 2 infinite values, the first in row 1"):
        TableEncoder().fit(bad)
    with pytest.raises(DataError, match=r"'a' has 2 infinite values"):
        TableEncoder().fit(good).transform(bad)
    tolerant = TableEncoder(TableOptions(infinite="missing")).fit(good)
    got, report = tolerant.encode(bad)
    assert np.isfinite(got).all() and report.infinite == {"a": 2} and report.missing == {"a": 2}


def test_text_in_a_numeric_column_is_named_with_an_example():
    encoder = TableEncoder().fit(small())
    with pytest.raises(DataError, match=r"'age' .* 1 of 4 rows have text in it, e\.g\. 'forty' in row 2"):
        encoder.transform(small().assign(age=["20", "30", "forty", None]))
    got, report = encoder.encode(small().assign(age=[" 20", "3e1", "40.0", None]))
    np.testing.assert_array_equal(got[:3], encoder.transform(small())[:3])
    assert report.missing == {"age": 1}
    for text in ("1_000", "nan", "inf", "1e999", "0x10"):
        with pytest.raises(DataError, match="'age' holds numbers"):
            encoder.transform(small().assign(age=["20", "30", "40", text]))


def test_text_that_is_nearly_all_numbers_at_fit_is_taken_for_an_error():
    ages = [str(a) for a in range(20, 70)] + ["unknown"]
    with pytest.raises(DataError, match=r"'age'.* e\.g\. 'unknown' in row 50.*categorical"):
        TableEncoder().fit(pd.DataFrame({"age": ages}))
    options = TableOptions(categorical=("age",), max_categories=60, min_count=1)
    assert len(TableEncoder(options).fit(pd.DataFrame({"age": ages})).feature_names) == 51


def test_columns_are_matched_by_name_in_any_order_and_extras_reported():
    encoder = TableEncoder(EVERY).fit(small())
    expected = encoder.transform(small())
    shuffled = small()[["vip", "age", "sex"]].assign(note=[[1], {}, None, "x"])  # an ignored column may hold anything
    got, report = encoder.encode(shuffled)
    np.testing.assert_array_equal(got, expected)
    assert report.ignored == ("note",) and "note: not in the training table, ignored." in report.lines()
    with pytest.raises(DataError, match=r"lacks the column 'sex' seen in training; it has 'age', 'vip'"):
        encoder.transform(small().drop(columns="sex"))


def test_tables_without_names_are_matched_by_place():
    encoder = TableEncoder(EVERY).fit(small())
    got, report = encoder.encode(small().to_numpy(dtype=object))
    np.testing.assert_array_equal(got, encoder.transform(small()))
    assert report.positional and "by their place" in report.lines()[-1]
    with pytest.raises(DataError, match="X has 2 features, but TableEncoder is expecting 3 features as input"):
        encoder.transform([[1, "F"]])
    bare = TableEncoder().fit(np.arange(6.0).reshape(3, 2))
    assert bare.feature_names == ("x0", "x1") and not bare.last_report.positional
    assert bare.encode(pd.DataFrame({"u": [1.0], "v": [2.0]}))[1].positional


def test_unfitted_encoder_says_so():
    for act in (lambda e: e.transform([[1]]), lambda e: e.to_json(), lambda e: e.feature_names, lambda e: e.columns):
        with pytest.raises(NotFittedError, match="fit"):
            act(TableEncoder())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"min_count": 0}, "min_count"),
        ({"min_count": True}, "min_count"),
        ({"max_categories": 1}, "max_categories"),
        ({"max_categories": 2.5}, "max_categories"),
        ({"unique_share": 0.0}, "unique_share"),
        ({"unique_share": float("nan")}, "unique_share"),
        ({"infinite": "ignore"}, "infinite"),
        ({"sparse_scale": "sd"}, "sparse_scale"),
        ({"categorical": "age"}, "list of column names"),
        ({"categorical": ("a",), "numeric": ("a",)}, "both categorical and numeric"),
    ],
)
def test_wrong_options_fail_where_they_are_written(options, words):
    with pytest.raises(OptionError, match=words):
        TableOptions(**options)


def test_options_that_name_no_column_are_refused():
    with pytest.raises(DataError, match="'aeg'"):
        TableEncoder(TableOptions(numeric=("aeg",))).fit(small())
    with pytest.raises(DataError, match="sparse table"):
        TableEncoder(TableOptions(categorical=("x0",))).fit(sp.eye_array(3).tocsr())


# --- the same table in every form -----------------------------------------------------------------------------------


def test_every_kind_of_numeric_table_gives_the_same_features():
    x = np.random.default_rng(1).normal(size=(30, 3)).astype(np.float32)
    expected = TableEncoder().fit_transform(x.astype(np.float64))
    forms = [
        x,
        torch.tensor(x, requires_grad=True),
        x.tolist(),
        tuple(map(tuple, x.tolist())),
        [*x],
        x.astype(object),
        pd.DataFrame(x),
        pd.DataFrame(x).astype("Float32"),
        pl.DataFrame(x),
        pa.table({f"x{j}": x[:, j] for j in range(3)}),
    ]
    for form in forms:
        np.testing.assert_array_equal(TableEncoder().fit_transform(form), expected)
    half = torch.tensor(x, dtype=torch.bfloat16)
    np.testing.assert_array_equal(
        TableEncoder().fit_transform(half), TableEncoder().fit_transform(half.double().numpy())
    )


def test_pandas_types_polars_and_nested_lists_agree():
    rows = [(1, "a", True, 1.5), (None, "b", False, 2.5), (3, None, None, 3.5), (5, "a", True, None)]
    names = ["i", "s", "b", "f"]
    base = pd.DataFrame(
        {
            "i": pd.array([1, None, 3, 5], dtype="Int64"),
            "s": pd.array(["a", "b", None, "a"], dtype="string"),
            "b": pd.array([True, False, None, True], dtype="boolean"),
            "f": [1.5, 2.5, 3.5, np.nan],
        }
    )
    encoder = TableEncoder(EVERY).fit(base)
    expected = encoder.transform(base)
    categorical = base.astype({"s": "category", "b": object})
    arrow = base.astype({"i": "int64[pyarrow]", "s": "string[pyarrow]", "b": "bool[pyarrow]", "f": "float64[pyarrow]"})
    polars = pl.DataFrame(rows, schema=names, orient="row")
    enumerated = polars.with_columns(pl.col("s").cast(pl.Enum(["b", "a"])))
    tabled = pa.table({name: list(cells) for name, cells in zip(names, zip(*rows, strict=True), strict=True)})
    coded = tabled.set_column(1, "s", tabled["s"].dictionary_encode())
    (batch,) = tabled.to_batches()
    for form in (categorical, arrow, polars, enumerated, tabled, coded, batch, rows):
        np.testing.assert_array_equal(encoder.transform(form), expected)
        np.testing.assert_array_equal(TableEncoder(EVERY).fit_transform(form), expected)


@pytest.mark.parametrize("kind", [float, int, bool])
def test_sparse_and_long_columns_of_pandas_are_read_as_others(kind):
    dense = pd.DataFrame({"a": np.array([0, 0, 1, 0, 1]).astype(kind), "x": [1.5, 2.0, 3.0, np.nan, 0.0]})
    other = pd.DataFrame({"a": pd.arrays.SparseArray(dense["a"]), "x": dense["x"].astype(np.longdouble)})
    encoder = TableEncoder(EVERY).fit(dense)
    np.testing.assert_array_equal(encoder.transform(other), encoder.transform(dense))
    np.testing.assert_array_equal(TableEncoder(EVERY).fit_transform(other), encoder.transform(dense))


def test_polars_dates_equal_pandas_dates():
    when = [dt.datetime(2020, 1, 1, 6), dt.datetime(2021, 7, 9), None]
    frame = pd.DataFrame({"t": pd.to_datetime(pd.Series(when)), "d": pd.to_timedelta([1.5, 2, 3], unit="D")})
    encoder = TableEncoder().fit(frame)
    mine = pl.DataFrame({"t": when, "d": [dt.timedelta(days=d) for d in (1.5, 2, 3)]})
    zoned = mine.with_columns(pl.col("t").dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo"))
    for form in (mine, zoned, mine.to_arrow(), zoned.to_arrow()):
        np.testing.assert_array_equal(encoder.transform(form), encoder.transform(frame))


def test_reading_once_gives_what_reading_twice_gives_in_either_precision():
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(
        {"a": rng.normal(size=9000), "c": rng.choice(["x", "y", None], 9000), "b": rng.normal(3, 2, 9000)}
    )
    frame.loc[rng.choice(9000, 50), "b"] = np.nan
    once, twice = TableEncoder(), TableEncoder()
    features, report = once.fit_encode(frame)
    expected, said = twice.fit(frame).encode(frame)
    np.testing.assert_array_equal(features, expected)
    assert report == said == once.last_report and once.to_json() == twice.to_json()
    narrow = once.encode(frame, np.float32)[0]
    assert narrow.dtype == np.float32 and np.array_equal(narrow, features.astype(np.float32))
    thin = sp.csr_array(np.eye(4))
    assert (TableEncoder().fit_encode(thin)[0] != TableEncoder().fit(thin).transform(thin)).nnz == 0
    with pytest.raises(DataError, match=r"'a' has the value 1e\+40 in row 8999"):  # finite in float64 only
        once.encode(frame.assign(a=np.r_[np.zeros(8999), 1e40]), np.float32)


def test_sparse_stays_sparse_and_equals_max_abs_scaler():
    x = sp.random_array((50, 20), density=0.1, rng=np.random.default_rng(2), format="csr")
    x.data -= 0.5
    encoder = TableEncoder().fit(x)
    got = encoder.transform(x)
    assert sp.issparse(got) and got.nnz == x.nnz and encoder.sparse
    expected = MaxAbsScaler().fit_transform(x).toarray()  # multiplies by 1/max: one rounding more
    np.testing.assert_allclose(got.toarray(), expected, rtol=4 * np.finfo(float).eps)
    np.testing.assert_array_equal(encoder.transform(x.toarray()).toarray(), got.toarray())
    plain = TableEncoder(TableOptions(sparse_scale="none"))
    np.testing.assert_array_equal(plain.fit_transform(x).toarray(), x.toarray())
    again = TableEncoder.from_json(encoder.to_json())
    np.testing.assert_array_equal(again.transform(x.tocsc()).toarray(), got.toarray())
    with pytest.raises(DataError, match="expecting 20 features"):
        encoder.transform(x[:, :3])
    with pytest.raises(DataError, match="toarray"):
        TableEncoder().fit(x.toarray()).transform(x)


def test_transform_leaves_its_input_alone():
    x = np.array([[1.0, np.inf], [2.0, np.nan], [3.0, 1.0]])
    frame, before = pd.DataFrame(x), x.copy()
    TableEncoder(TableOptions(infinite="missing")).fit_transform(x)
    TableEncoder(TableOptions(infinite="missing")).fit_transform(frame)
    m = sp.csr_array(np.array([[2.0, 0.0], [4.0, 1.0]]))
    TableEncoder().fit_transform(m)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(frame.to_numpy(), before)
    assert m.data.tolist() == [2.0, 4.0, 1.0]


# --- JSON -----------------------------------------------------------------------------------------------------------

finite = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)
words = st.text(max_size=4)


@st.composite
def frames(draw):
    n = draw(st.integers(2, 25))
    cells = {
        "float": st.one_of(finite, st.just(float("nan"))),
        "int": st.integers(-(2**53), 2**53),
        "bool": st.booleans(),
        "text": st.one_of(words, st.none()),
        "mixed": st.one_of(words, st.none(), st.booleans(), st.integers(), st.just(float("nan"))),
    }
    data = {}
    for j, kind in enumerate(draw(st.lists(st.sampled_from(sorted(cells)), min_size=1, max_size=5))):
        column = draw(st.lists(cells[kind], min_size=n, max_size=n))
        data[f"{kind}{j}"] = pd.Series(column, dtype=object if kind in ("mixed", "text") else None)
    return pd.DataFrame(data)


@pytest.mark.filterwarnings("ignore:.* a value that training did not know")
@settings(max_examples=150, deadline=None)
@given(frames(), frames())
def test_json_round_trip_transforms_bit_for_bit_and_output_is_sound(frame, other):
    options = TableOptions(min_count=1, max_categories=4)
    try:
        encoder = TableEncoder(options).fit(frame)
    except DataError as error:
        assert "no column is left" in str(error) or "holds numbers" in str(error)
        return
    again = TableEncoder.from_json(encoder.to_json())
    assert again.to_json() == encoder.to_json() and again.feature_names == encoder.feature_names
    got = encoder.transform(frame)
    np.testing.assert_array_equal(again.transform(frame), got)
    assert got.shape == (len(frame), len(encoder.feature_names)) and np.isfinite(got).all()
    assert set(encoder.columns) | set(encoder.dropped) == set(frame.columns)
    order = np.random.default_rng(0).permutation(len(frame))
    np.testing.assert_array_equal(encoder.transform(frame.iloc[order]), got[order])  # rows do not affect each other
    for name in encoder.columns:  # the 0/1 columns of a category sum to one: the training table has no unseen value
        spec = next(spec for spec in encoder.learnt if spec.name == name)
        if name.startswith(("bool", "text", "mixed")) and spec.kind == "category":
            block = [j for j, f in enumerate(encoder.feature_names) if f.startswith(f"{name}=")]
            assert (got[:, block].sum(axis=1) == 1).all()
    mixed = pd.concat([frame.iloc[:0], other]).reindex(columns=frame.columns)
    try:
        late = encoder.transform(mixed)
    except DataError as error:
        assert any(name in str(error) for name in frame.columns)
    else:
        np.testing.assert_array_equal(again.transform(mixed), late)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "damaged or cut off"),
        ("[1]", "not a table encoder"),
        ('{"format": "other"}', "not a table encoder"),
        ('{"format": "fairbound-table-encoder", "version": 99}', "version 99; this library reads up to 1"),
        ('{"format": "fairbound-table-encoder", "version": 1}', "lacks a part"),
    ],
)
def test_foreign_or_newer_json_is_refused(text, words):
    with pytest.raises(DataError, match=words):
        TableEncoder.from_json(text)


def test_damaged_json_is_refused_wherever_it_is_cut():
    text = TableEncoder(EVERY).fit(small()).to_json()
    for cut in range(0, len(text) - 1, 7):
        with pytest.raises(DataError, match="damaged"):
            TableEncoder.from_json(text[:cut])
    state = json.loads(text)
    state["learnt"][0]["kind"] = "magic"
    with pytest.raises(DataError, match="unknown kind 'magic'"):
        TableEncoder.from_json(json.dumps(state))


@pytest.mark.parametrize(
    ("text", "number"),
    [("1,{}.5", True), ("$ 12,{}", True), ("{} %", True), ("2,{}.37 EUR", True), ("CHF {}", True), ("{} km", True),
     ("AB{}", False), ("x {}", False), ("{}b", False), ("12 Elmstreet {}", False)],
)  # fmt: skip
def test_texts_that_look_like_numbers_are_said_to(text, number):
    values = [text.format(100 + i) for i in range(300)]
    encoder = TableEncoder().fit(pd.DataFrame({"pay": values, "x": range(300)}))
    assert ("look like numbers" in encoder.dropped["pay"]) == number


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_long_columns_of_texts_are_read_as_short_ones_are(kind, monkeypatch):
    rng = np.random.default_rng(0)
    texts = rng.choice(["a", " a ", "b", "", "1", "01", None, "(missing)", "\u00e9"], 40_000).tolist()
    many = [f"v{i}" for i in rng.integers(0, 300, 40_000)]
    table = kind({"few": texts, "many": many})
    if kind is pa.table:
        table = pa.concat_tables([table[:100], table[100:]])  # in chunks of other dictionaries
    found = read_columns(table)
    monkeypatch.setattr("fairbound.tables.columns.LONG", 1 << 30)
    for column, expected in zip(found.columns, read_columns(table).columns, strict=True):
        assert (column.kind, column.categories) == (expected.kind, expected.categories)
        assert np.array_equal(column.values, expected.values)
    assert found.columns[0].categories == tuple(dict.fromkeys(t.strip() for t in texts if t and t != "(missing)"))
    assert [column.values.dtype for column in found.columns] == [np.int8, np.int16]


@pytest.mark.filterwarnings("ignore:.*outside training's range")
def test_texts_are_coded_without_an_object_for_each_and_weighed_in_parts():
    frame = pd.DataFrame({"job": np.random.default_rng(0).choice(list("abcdefg"), 200_000), "x": np.arange(200_000.0)})
    frame.loc[::9, "job"] = None
    encoder = TableEncoder().fit(frame[:5000])
    weight = np.random.default_rng(1).normal(size=(len(encoder.feature_names), 1))
    encoder.weighted(frame, weight)
    tracemalloc.start()
    found = encoder.weighted(frame, weight)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(found, encoder.transform(frame) @ weight, rtol=0, atol=1e-11)
    assert peak < 32 * len(frame), "a score and a code of each row, what Arrow holds not counted"


def test_of_many_columns_that_were_dropped_the_first_are_said_and_the_others_named():
    frame = pd.DataFrame({"x": [1.0, 2.0], **{f"same{i}": [i, i] for i in range(30)}})
    said = TableEncoder().fit(frame).last_report.column_lines()
    assert said[:5] == [f"Column 'same{i}' was dropped: constant ({i})." for i in range(5)] and len(said) == 6
    assert said[5].startswith("Further columns were dropped, 25 in all: same5, same6, ") and said[5].endswith(
        "same24 and 5 more."
    )


def test_the_intervals_that_pandas_cuts_numbers_into_are_categories():
    frame = pd.DataFrame({"x": pd.cut(pd.Series([1, 5, 9, 5]), [0, 3, 6, 10])})
    encoder = TableEncoder(TableOptions(min_count=1)).fit(frame)
    assert encoder.feature_names == ("x=(0, 3]", "x=(3, 6]", "x=(6, 10]")
    np.testing.assert_array_equal(
        encoder.transform(frame), TableEncoder(TableOptions(min_count=1)).fit_transform(frame.astype(str))
    )


def test_a_dropped_text_column_is_told_what_it_looks_like():
    pd = pytest.importorskip("pandas")
    days = pd.Series(pd.date_range("2022-01-01", periods=1200, freq="8h")).dt.strftime("%d/%m/%y")
    codes = [f"{7919 * i % 100_000:05d}" for i in range(1200)]
    plain = [str(10_000 + 7 * i) for i in range(1200)]
    table = pd.DataFrame({"day": days, "code": codes, "plain": plain, "x": np.arange(1200.0)})
    dropped = TableEncoder().fit(table).dropped
    assert dropped["day"].startswith("none of its 400 values is in min_count=5 rows; they look like dates, such as")
    assert dropped["code"].endswith("nearly unique, like a name or an identifier")
    assert "numbers kept as text, such as '10000': make it a column of numbers" in dropped["plain"]


def test_features_have_names_and_become_frames_as_of_scikit_learns_transformers():
    frame = pd.DataFrame({"age": [1.0, 2, np.nan, 4], "city": ["b", "a", "b", "a"]}, index=[7, 5, 3, 1])
    encoder = TableEncoder(TableOptions(min_count=1))
    plain = encoder.fit_transform(frame)
    names = ["age", "age=(missing)", "city=a", "city=b"]
    assert encoder.get_feature_names_out().tolist() == encoder.get_feature_names_out(["age", "city"]).tolist() == names
    with pytest.raises(ValueError, match="input_features is not equal to feature_names_in_"):
        encoder.get_feature_names_out(["city", "age"])
    for kind in ("pandas", "polars"):
        made = clone(encoder).set_output(transform=kind)
        for out in (made.fit_transform(frame), made.fit(frame).transform(frame)):
            assert list(out.columns) == names and (out.to_numpy() == plain).all()
            assert kind != "pandas" or out.index.tolist() == [7, 5, 3, 1]
    with config_context(transform_output="pandas"):
        pipe = make_pipeline(TableEncoder(TableOptions(min_count=1)), LogisticRegression()).fit(frame, [0, 1, 0, 1])
        assert pipe[-1].feature_names_in_.tolist() == pipe[:-1].get_feature_names_out().tolist() == names
        assert isinstance(GroupTerms().fit_transform(frame, ["f", "m", "f", "m"]), np.ndarray)


def test_columns_without_names_take_those_that_are_given():
    encoder = TableEncoder().fit(np.array([[1.0, 2.0], [3.0, np.nan], [2.0, 5.0]]))
    assert encoder.get_feature_names_out().tolist() == list(encoder.feature_names)
    assert encoder.get_feature_names_out(["a", "b"]).tolist() == ["a", "b", "b=(missing)"]
    with pytest.raises(ValueError, match=r"number of features \(2\), got 1"):
        encoder.get_feature_names_out(["a"])
    sparse = TableEncoder().fit(sp.csr_array(np.eye(3)))
    assert sparse.get_feature_names_out(["a", "b", "c"]).tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="outputs a scipy sparse matrix"):
        sparse.set_output(transform="pandas").transform(sp.csr_array(np.eye(3)))


def test_one_row_taken_as_a_series_is_told_how_to_stay_a_row():
    table = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": ["x", "y", "x"]})
    encoder = TableEncoder().fit(table)
    with pytest.raises(DataError, match=r"table\.iloc\[\[i\]\] of a row"):
        encoder.transform(table.iloc[1])
    assert encoder.transform(table.iloc[[1]]).shape[0] == 1


def test_whole_numbers_that_a_float_does_not_hold_are_told_apart():
    pd = pytest.importorskip("pandas")
    ids = 2**53 + np.arange(6).repeat(50)
    encoder = TableEncoder(TableOptions(categorical=["id"])).fit(pd.DataFrame({"id": ids.astype(str).astype(object)}))
    learnt = encoder.transform(pd.DataFrame({"id": ids.astype(str).astype(object)}))
    assert np.array_equal(encoder.transform(pd.DataFrame({"id": ids})), learnt) and len(np.unique(learnt, axis=0)) == 6
    with pytest.warns(DataWarning, match="id"):  # rounded to even ones, they may be any
        rounded = encoder.transform(pd.DataFrame({"id": ids.astype(float)}))
    assert len(np.unique(rounded, axis=0)) == 1
