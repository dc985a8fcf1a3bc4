"""Tables in parts: what is learnt, the features and the fitted model are those of the table in one piece, in bounded memory."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import fairbound as fb
from fairbound.base.errors import DataError, DataWarning, OptionError
from fairbound.tables import Chunks, Encoded, TableEncoder, TableOptions

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def frame(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    out = pd.DataFrame(
        {
            "year": rng.normal(2015, 1, n),
            "job": rng.choice(["clerk", "cook", None, "(other)"], n, p=[0.6, 0.3, 0.09, 0.01]),
            "pay": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "count": rng.integers(0, 50, n),
            "same": 1.0,
            "half": np.where(rng.random(n) < 0.5, 3.0, np.nan),
            "vip": rng.random(n) < 0.2,
        }
    )
    days = pd.Timestamp("2020-02-01") + pd.to_timedelta(rng.integers(0, 400, n), unit="D")
    out["seen"] = np.where(rng.random(n) < 0.1, None, days.strftime("%Y-%m-%d"))
    out.loc[5, "job"] = "astronaut"
    return out


def parts(table, ends):
    return Chunks(lambda: (table[a:b] for a, b in zip([0, *ends], [*ends, len(table)], strict=True)))


def check_alike(found, encoder, whole, learnt):
    """Means and deviations to rounding; features to float32's; medians to float32's of the standardised number."""
    np.testing.assert_allclose(found, whole, rtol=1e-6, atol=2e-6)
    mine, other = (json.loads(e.to_json()) for e in (encoder, learnt))
    assert {k: v for k, v in mine.items() if k != "learnt"} == {k: v for k, v in other.items() if k != "learnt"}
    for a, b in zip(mine["learnt"], other["learnt"], strict=True):
        if a["kind"] == "category" or a["sd"] is None:
            assert a == b
            continue
        assert a["mean"] == pytest.approx(b["mean"], rel=1e-12, abs=1e-12 * b["sd"])
        assert a["sd"] == pytest.approx(b["sd"], rel=1e-12)
        assert a["median"] == pytest.approx(b["median"], abs=1e-6 * b["sd"])


@pytest.mark.parametrize("ends", [[], [1], [1000, 1001, 2500], list(range(100, 3000, 100))])
@pytest.mark.parametrize("make", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
def test_parts_of_any_size_give_what_the_whole_table_gives(ends, make, tmp_path):
    table = frame()
    learnt = TableEncoder()
    whole, report = learnt.fit_encode(table, np.float32)
    for folder in (None, tmp_path):
        chunks = Chunks(lambda: map(make, parts(table, ends)), folder=folder)
        rows = Encoded.of(TableEncoder(), chunks)
        assert isinstance(rows.features, np.memmap) == (folder is not None) and len(chunks) == len(rows) == 3000
        check_alike(rows.features, rows.encoder, whole, learnt)
        assert rows.report == report and list(tmp_path.iterdir()) == []
    later = frame(700, seed=1)
    again = Encoded.of(rows.encoder, parts(later, [333]))
    np.testing.assert_array_equal(again.features, rows.encoder.encode(later, np.float32)[0])


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".csv.gz"])
def test_files_are_read_in_parts(tmp_path, suffix):
    table, path = frame(), tmp_path / f"t{suffix}"
    table.to_parquet(path) if suffix == ".parquet" else table.to_csv(path, index=False)
    chunks = Chunks.read(path, rows=400, columns=["pay", "job", "year"])
    assert [len(part) for part in chunks] == [400] * 7 + [200] and len(chunks) == 3000
    learnt = TableEncoder()
    whole = learnt.fit_encode(table[["year", "job", "pay"]], np.float32)[0]
    rows = Encoded.of(TableEncoder(), chunks)
    places = [rows.encoder.feature_names.index(name) for name in learnt.feature_names]
    np.testing.assert_allclose(rows.features[:, places], whole, rtol=1e-6, atol=2e-6)
    some = np.flatnonzero(np.arange(3000) % 7 == 3)
    np.testing.assert_array_equal(Encoded.of(rows.encoder, chunks.take(some)).features, rows.features[some])


def test_a_classifier_takes_parts_and_scores_them_as_rows(tmp_path):
    table = frame(4000)
    rng = np.random.default_rng(1)
    sex, y = rng.choice(["F", "M"], 4000), (table["count"].to_numpy() + rng.normal(0, 9, 4000) > 25).astype(int)
    with pytest.warns(DataWarning, match="Column '(same|half)' was dropped: constant"):
        fitted = [
            fb.FairClassifier("demographic_parity <= 0.05", budget="300 steps").fit(X, y, sensitive_features=sex)
            for X in (table, parts(table, [900, 1800]), Chunks(lambda: parts(table, [10]), folder=tmp_path))
        ]
    for fair in fitted[1:]:
        np.testing.assert_allclose(fair.decision_function(table), fitted[0].decision_function(table), atol=1e-4)
        assert fair.feature_names_in_.tolist() == list(table.columns)
    apart = fitted[1].decision_function(parts(table, [1, 2000]))
    np.testing.assert_allclose(apart, fitted[1].decision_function(table), rtol=0, atol=1e-12 * np.abs(apart).max())
    named = fb.FairClassifier("demographic_parity <= 0.5", budget="20 steps", sensitive_columns="drop")
    with pytest.warns(DataWarning, match="Column '(same|half)' was dropped: constant"):
        named.fit(parts(table.assign(sex=sex), [500]), y, sensitive_features=pd.DataFrame({"sex": sex}))
    assert named.dropped_columns_ == ["sex"] and "sex=F" not in named.encoder_.feature_names


def test_what_does_not_fit_together_is_refused(tmp_path):
    table = frame(300)
    with pytest.raises(DataError, match="different columns"):
        Encoded.of(TableEncoder(), Chunks(lambda: [table, table[["pay"]]]))
    texts = table.assign(count="many")
    with pytest.raises(DataError, match=r"'count' holds number values .* text values from about row 300 on"):
        Encoded.of(TableEncoder(), Chunks(lambda: [table, texts]))
    codes = TableOptions(categorical=("count",), min_count=1, max_categories=60)
    both = Encoded.of(TableEncoder(codes), Chunks(lambda: [table, texts]))
    assert {"count=many", "count=7"} <= set(both.encoder.feature_names)
    with pytest.raises(DataError, match="no rows"):
        Encoded.of(TableEncoder(), Chunks(lambda: []))
    infinite = table.assign(pay=np.where(np.arange(300) == 40, np.inf, 1.0 * np.arange(300)))
    with pytest.raises(DataError, match=r"'pay' has 1 infinite value, the first in row 340"):
        Encoded.of(TableEncoder(), Chunks(lambda: [table, infinite]))
    tolerant = Encoded.of(TableEncoder(TableOptions(infinite="missing")), Chunks(lambda: [table, infinite]))
    assert tolerant.report.infinite == {"pay": 1}
    with pytest.raises(DataError, match=r"1 infinite value.*In the part that begins with row 300"):
        Encoded.of(Encoded.of(TableEncoder(), table).encoder, Chunks(lambda: [table, infinite]))
    with pytest.raises(DataError, match="no column is left"):
        Encoded.of(TableEncoder(), Chunks(lambda: [table[["same"]], table[["same"]]]))
    with pytest.raises(DataError, match="too far"):
        Encoded.of(TableEncoder(), Chunks(lambda: [pd.DataFrame({"x": [-1e300, 1e300]})] * 2))
    for wrong, error in (({"rows": 0}, OptionError), ({}, FileNotFoundError)):
        with pytest.raises(error):
            Chunks.read(tmp_path / "none.csv", **wrong)
    (tmp_path / "bad.parquet").write_bytes(b"no parquet")
    with pytest.raises(DataError, match="not a readable Parquet"):
        list(Chunks.read(tmp_path / "bad.parquet"))
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n1,2,3\n")
    with pytest.raises(DataError, match="line 3 has 3 fields, the header 2"):
        list(Chunks.read(tmp_path / "bad.csv"))
    with pytest.raises(OptionError, match="ascending"):
        parts(table, [10]).take(np.array([3, 1]))


def test_memory_beyond_the_features_is_that_of_a_part(tmp_path):
    rng = np.random.default_rng(3)
    path = tmp_path / "t.parquet"
    writer = None
    for _ in range(20):
        table = pa.table({f"x{j}": rng.normal(size=10_000).astype(np.float32) for j in range(20)})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()
    chunks, one = Chunks.read(path, rows=5000, folder=tmp_path), 200_000 * 20 * 4
    Encoded.of(TableEncoder(), Chunks.read(path, rows=5000).take(np.arange(100)))  # what is loaded once counts no more
    tracemalloc.start()
    rows = Encoded.of(TableEncoder(), chunks)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(rows) == 200_000 and peak < 1.2 * one, "columns are copied for their medians, nothing else"


def test_partitions_of_dask_and_batches_of_a_dataset_are_parts(tmp_path):
    dd, ds = pytest.importorskip("dask.dataframe"), pytest.importorskip("pyarrow.dataset")
    table = frame()
    learnt = TableEncoder()
    whole = learnt.fit_encode(table, np.float32)[0]
    table.to_parquet(tmp_path / "a.parquet")
    partitions, data = dd.from_pandas(table, npartitions=4), ds.dataset(tmp_path)
    for chunks in (
        Chunks(lambda: (part.compute() for part in partitions.partitions)),
        Chunks(lambda: (pa.Table.from_batches([batch]) for batch in data.to_batches(batch_size=700))),
    ):
        rows = Encoded.of(TableEncoder(), chunks)
        check_alike(rows.features, rows.encoder, whole, learnt)
    y, sex = np.arange(3000) % 2, np.where(np.arange(3000) % 3 == 0, "F", "M")
    scores = table["year"].to_numpy() - 2015
    both = dd.from_pandas(pd.DataFrame({"s": scores, "y": y, "sex": sex}), npartitions=5)
    counts = [fb.AuditCounts.of(p["s"], p["y"], p["sex"], threshold=0) for p in (q.compute() for q in both.partitions)]
    merged = sum(counts[1:], start=counts[0]).audit("demographic_parity <= 0.1")
    expected = fb.audit(scores, y, pd.Series(sex, name="sex"), "demographic_parity <= 0.1", threshold=0)
    assert merged["constraints"] == expected["constraints"]


def test_the_page_on_tables_larger_than_memory_runs_and_gives_the_model_of_the_table_in_memory(tmp_path, monkeypatch):
    text = (Path(__file__).parents[3] / "docs" / "training.md").read_text(encoding="utf-8")
    code = text.split("## Tables larger than memory")[1].split("```py\n")[1].split("```")[0]
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"skill": rng.normal(size=600), "town": rng.choice(["a", "b"], 600)})
    people["sex"] = rng.choice(["f", "m"], 600)
    people["hired"] = np.where(people.skill + (people.sex == "m") > 0.5, "yes", "no")
    people.to_parquet(tmp_path / "people.parquet")
    monkeypatch.chdir(tmp_path)
    names: dict = {"fb": fb}
    exec(code, names)
    straight = fb.TableOptions(knots=0)  # as every model of a table in parts
    whole = fb.FairClassifier("demographic_parity <= 0.05", options=straight).fit(
        people[["skill", "town"]], people.hired, sensitive_features=people[["sex"]]
    )
    assert np.allclose(names["model"].coef_, whole.coef_, atol=1e-4)
    assert [p.name for p in tmp_path.iterdir()] == ["people.parquet"]


def test_parts_without_rows_are_passed_over_and_a_list_is_a_table():
    table = frame(300).drop(columns=["same", "half"])
    whole = Encoded.of(TableEncoder(), parts(table, [100]))
    listed = [table[:0], table[:100], table[:0], table[100:]]
    for chunks in (Chunks(lambda: iter(listed)), Chunks(listed)):
        again = Encoded.of(TableEncoder(), chunks)
        np.testing.assert_array_equal(again.features, whole.features)
        assert len(chunks) == 300 and [len(part) for part in chunks] == [100, 200]
    linear = fb.FairClassifier(budget="5 steps").fit(Chunks(listed), np.arange(300) % 2)
    with pytest.raises(DataError, match="the table has no rows"):
        linear.predict(Chunks([table[:0]]))


def test_parts_that_can_be_read_once_are_refused():
    table = frame(300)
    begun = iter([table[:100], table[100:]])
    for once in (iter([table]), table):
        with pytest.raises(OptionError, match="a list of frames, or a function that makes them anew each time"):
            Chunks(once)
    with pytest.raises(DataError, match="have 0 rows, and had 300 when they were read before"):
        Encoded.of(TableEncoder(), Chunks(lambda: begun))
    begun = iter([table[:100], table[100:]])
    first = Chunks(lambda: begun)
    assert len(first) == 300
    for made in (first.map(lambda part: part), first.take(np.arange(10))):  # what is made of it is read from it
        with pytest.raises(DataError, match="have 0 rows, and had 300"):
            list(made)


def test_parts_whose_rows_are_not_computed_yet_are_refused():
    with pytest.raises(DataError, match=r"a polars LazyFrame, whose rows are not computed yet\. Call \.collect\(\)"):
        list(Chunks([pl.LazyFrame({"a": [1.0, 2.0]})]))


def test_dask_columns_are_read_and_dask_frames_say_what_to_call():
    dd = pytest.importorskip("dask.dataframe")
    table = frame(300)[["year", "vip"]]
    y = np.where((table["year"] > 2015) ^ (np.arange(300) % 7 == 0), "yes", "no")
    sex = pd.Series(np.where(np.arange(300) % 2 == 0, "F", "M"), name="sex")
    columns = [dd.from_pandas(column, npartitions=3) for column in (pd.Series(y, name="y"), sex)]
    short = fb.FairClassifier("demographic_parity <= 0.5", budget="5 steps", random_state=0)
    lazy = clone(short).fit(table, columns[0], sensitive_features=columns[1])
    plain = clone(short).fit(table, y, sensitive_features=sex)
    np.testing.assert_array_equal(lazy.decision_function(table), plain.decision_function(table))
    with pytest.raises(DataError, match=r"a dask DataFrame, whose rows are not computed yet\. Call"):
        short.fit(dd.from_pandas(table, npartitions=3), y, sensitive_features=sex)
