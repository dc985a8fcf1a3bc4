"""Ranking files: every line as it is written, broken ones named, MSLR's folders, and made rows of its size."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

from fairbound import data
from fairbound.base.errors import DataError, OptionError
from fairbound.data import letor
from fairbound.data.letor import high_or_low, parse_letor, read_letor, rows_like_mslr

LINES = b"2 qid:7 1:0.5 2:-1 3:2e-3 # doc = 1 2:9\n0 qid:7 1:1 2:0 3:4\n1 qid:3 1:3 2:0.25 3:0\n"


def test_lines_are_read_as_written():
    X, y, q = parse_letor(LINES, "x")
    assert X.tolist() == [[0.5, -1, 0.002], [1, 0, 4], [3, 0.25, 0]]
    assert y.tolist() == [2, 0, 1] and q.tolist() == ["7", "7", "3"]


def test_features_left_out_are_zero_and_null_is_missing():
    X, y, q = parse_letor(b"1 qid:a 2:5\n\n0 qid:b 1:NULL 3:1#c\n3 qid:b\n", "x", 4)
    np.testing.assert_array_equal(X, [[0, 5, 0, 0], [np.nan, 0, 1, 0], [0, 0, 0, 0]])
    assert y.tolist() == [1, 0, 3] and q.tolist() == ["a", "b", "b"]


def test_both_ways_of_reading_agree(monkeypatch):
    rng = np.random.default_rng(0)
    lines = b"".join(
        b"%d qid:%d %s\n" % (rng.integers(5), i // 10, b" ".join(b"%d:%.4g" % (j + 1, v) for j, v in enumerate(row)))
        for i, row in enumerate(rng.normal(size=(200, 6)))
    )
    fast = parse_letor(lines, "x")
    assert letor._even_lines(lines) is not None
    monkeypatch.setattr(letor, "_even_lines", lambda chunk: None)
    slow = parse_letor(lines, "x")
    assert all(np.array_equal(a, b) for a, b in zip(fast, slow, strict=True))


def test_a_long_file_is_read_in_parts(tmp_path, monkeypatch):
    path = tmp_path / "f.txt.gz"
    path.write_bytes(gzip.compress(LINES * 50))
    whole = read_letor(path)
    monkeypatch.setattr(letor, "CHUNK_BYTES", 100)
    parts = read_letor(path)
    assert all(np.array_equal(a, b) for a, b in zip(whole, parts, strict=True)) and len(whole[1]) == 150


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"1 1:2 2:3", "the second entry must be qid"),
        (b"x qid:1 1:2", "could not convert"),
        (b"1 qid: 1:2", "the second entry must be qid"),
        (b"1", "it has no query"),
        (b"1 qid:1 2:3 1:2", "ascending"),
        (b"1 qid:1 0:3", "ascending"),
        (b"1 qid:1 1", "no feature:value"),
        (b"1 qid:1 1:x", "could not convert"),
    ],
)
def test_a_broken_line_is_named(tmp_path, line, said):
    with pytest.raises(DataError, match=f"line 4 cannot be read: .*{said}"):
        parse_letor(LINES + line + b"\n", "x")


def test_files_without_documents_or_cut_short(tmp_path):
    with pytest.raises(DataError, match="holds no documents"):
        parse_letor(b"# nothing\n", "x")
    with pytest.raises(DataError, match="has a feature 3, but 2"):
        parse_letor(LINES, "x", 2)
    path = tmp_path / "f.txt.gz"
    path.write_bytes(gzip.compress(LINES * 100)[:-20])
    with pytest.raises(DataError, match="cut short"):
        read_letor(path)


def test_the_real_files_are_those_of_scikit_learn(data_dir):
    path = data_dir / "ltr" / "lightgbm_rank_test.letor.txt.gz"
    X, y, q = read_letor(path, features=300, dtype=np.float64)
    expected, grades, queries = load_svmlight_file(str(path), n_features=300, query_id=True)
    assert np.array_equal(X, expected.toarray()) and np.array_equal(y, grades)
    assert np.array_equal(q.astype(int), queries)


@pytest.mark.parametrize(("name", "queries"), [("lightgbm-rank", 251), ("mq2007-agg", 675)])
def test_named_sets_have_queries_and_groups(data_dir, name, queries):
    made = data.load(name, data_dir)
    assert len(set(made.qid)) == queries and set(made.group("quality")) <= {"high", "low", None}
    parts = list(made.splits.values())
    assert not set(made.qid[parts[0]]) & set(made.qid[parts[1]])
    assert len(made.take(parts[1]).qid) == len(parts[1])
    with pytest.raises(OptionError, match="there is no feature 999"):
        data.load(name, data_dir, attribute=999)


def test_mslr_is_read_from_its_own_folders(tmp_path):
    row = b" ".join(b"%d:%d" % (j, j) for j in range(1, 137))
    for i, part in enumerate(("train", "vali", "test")):
        (tmp_path / "Fold2").mkdir(exist_ok=True)
        lines = b"".join(b"%d qid:%d %s\n" % (g, i, row.replace(b"132:132", b"132:%d" % g)) for g in range(4))
        (tmp_path / "Fold2" / f"{part}.txt").write_bytes(lines)
    made = data.load("mslr-web10k", tmp_path, fold=2)
    assert (
        made.X.shape == (12, 136)
        and made.X.dtype == np.float32
        and list(made.splits) == ["train", "validation", "test"]
    )
    assert made.group("quality").tolist() == ["low", "low", "high", "high"] * 3 and made.y.tolist() == [0, 1, 2, 3] * 3
    with pytest.raises(DataError, match="no folder Fold1"):
        data.load("mslr-web10k", tmp_path)
    (tmp_path / "Fold2" / "vali.txt").unlink()
    with pytest.raises(DataError, match=r"lacks .*vali\.txt"):
        data.load("mslr-web10k", tmp_path, fold=2)


def test_quality_is_split_at_its_quantile():
    assert high_or_low(np.array([1.0, 2, 3, 4, np.nan]), 0.5).tolist() == ["low", "low", "high", "high", None]
    with pytest.raises(OptionError, match="quantile must lie"):
        high_or_low(np.ones(2), 1.0)


def test_made_rows_have_the_shape_of_mslr():
    made = rows_like_mslr(300, seed=1, features=12)
    again = rows_like_mslr(300, seed=1, features=12)
    assert np.array_equal(made.X, again.X) and np.array_equal(made.y, again.y)
    assert not np.array_equal(made.y, rows_like_mslr(300, seed=2, features=12).y)
    np.testing.assert_allclose(np.bincount(made.y) / len(made), [0.52, 0.32, 0.13, 0.02, 0.01], atol=1e-3)
    assert made.X.shape == (36_000, 12) and len(np.unique(made.qid)) == 300
    from fairbound.fairness.rankings.query_cells import QueryCells
    from fairbound.ranking.documents import Documents

    documents = Documents.of(made.qid, made.y, {"score": made.sensitive["score"]})
    cells = QueryCells.of(documents, documents.groups.codes[:, 0], 150, str, 1.0)
    assert abs(len(cells) / 300 - 47) < 0.5, "470,000 of 10,000 queries"
