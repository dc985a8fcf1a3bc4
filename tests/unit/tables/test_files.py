"""CSV files and label columns at the door."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
import torch

from fairbound.base.errors import DataError
from fairbound.tables import TableEncoder, binary_labels, read_table

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

# --- labels ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        ([0, 1, 1, 0], (0, 1)),
        ([-1, 1, 1, -1], (-1, 1)),
        ([1.0, 2.0, 2.0, 1.0], (1.0, 2.0)),
        ([False, True, True, False], (False, True)),
        (["no", "yes", "yes", "no"], ("no", "yes")),
        (["<=50K", ">50K", ">50K", "<=50K"], ("<=50K", ">50K")),
    ],
)
def test_the_greater_label_is_positive_in_every_container(y, classes):
    forms = [y, tuple(y), np.array(y), np.array(y, dtype=object), pd.Series(y), pl.Series(y), np.array(y)[:, None]]
    forms += [pd.Series(y, dtype="category"), pd.DataFrame({"y": y}), pl.DataFrame({"y": y})]
    forms += [] if isinstance(y[0], str) else [torch.tensor(y)]
    for form in forms:
        codes, found = binary_labels(form)
        assert codes.dtype == np.int64 and codes.tolist() == [0, 1, 1, 0]
        assert found == classes and [type(v) for v in found] == [type(v) for v in classes]


def test_positive_picks_the_label_that_becomes_one():
    codes, classes = binary_labels(["approved", "denied"], positive="approved")
    assert codes.tolist() == [1, 0] and classes == ("denied", "approved")
    assert binary_labels([0, 1], positive="0")[1] == (1, 0)
    assert binary_labels(["0", "1"], positive=0)[1] == ("1", "0")
    assert binary_labels([True, False], positive="False")[1] == (True, False)
    with pytest.raises(DataError, match=r"positive='ok' is not among the labels 'a', 'b'"):
        binary_labels(["a", "b"], positive="ok")


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([], "no labels"),
        ([1, 1], "one class, 1"),
        ([0, 1, 2], r"Only binary classification is supported.*multiclass: it has 3 values, 0, 1, 2"),
        ([0.1, 0.2, 0.3], "Unknown label type: continuous"),
        ([0, 1, None], r"1 of 3 labels are missing \(NaN\), the first in row 2"),
        ([0.0, float("nan"), 1.0], "the first in row 1"),
        (pd.Series(["a", pd.NA, "b"], dtype="string"), "1 of 3 labels are missing"),
        (pl.Series(["a", None, "b"]), "1 of 3 labels are missing"),
        ([0.0, float("inf")], "infinite"),
        (["a", 1], "mix number and text"),
        ([True, 0], "mix bool and number"),
        (np.zeros((2, 2)), r"one column, got shape \(2, 2\)"),
        ([[0, 1], [1, 0]], "one column"),
        ([b"a", b"b"], "a label is a bytes"),
    ],
)
def test_wrong_labels_are_refused(y, words):
    with pytest.raises(DataError, match=words):
        binary_labels(y)


# --- CSV ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_csv_is_read_with_any_separator_gzip_or_not(tmp_path, separator, packed, end):
    lines = ['age;"income ;year"; name', '20;1.5;"Ann; B."', "30;?;x", "40;;y", ""]
    data = end.join(lines).replace(";", separator).encode("utf-8-sig")
    path = tmp_path / "file.dat"
    path.write_bytes(gzip.compress(data) if packed else data)
    frame = read_table(path)
    assert list(frame.columns) == ["age", f"income {separator}year", "name"]
    assert frame["age"].tolist() == [20, 30, 40] and frame.iloc[:, 1].isna().tolist() == [False, True, True]
    assert frame["name"][0] == f"Ann{separator} B."


def test_one_column_csv_and_other_encodings(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"x\n1\n2\n")
    assert read_table(str(path))["x"].tolist() == [1, 2]
    path.write_bytes("näme\nÄ\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"line 1 is not utf-8 text \(byte 0xe4\).*latin-1"):
        read_table(path)
    assert read_table(path, encoding="latin-1")["näme"].tolist() == ["Ä"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", r"empty \(0 bytes\)"),
        (b" \n\n", "empty but for blanks"),
        (b"a,b\n", r"a header \(2 columns\) but no rows"),
        (b"a,b", r"a header \(2 columns\) but no rows"),
        (b"a,b,a\n1,2,3\n", "these names more than once: 'a'"),
        (b"a,b\n1,2,3\n4,5,6\n", "line 2 has 3 fields, the header 2"),
        (b"a,b\n1,2\n4,5,6\n", "line 3 has 3 fields, the header 2"),
        (b"a,b,c\n1,2,3\n4,5\n", "line 3 has 2 fields, the header 3"),
        (b'a,b\n"1,2\n', "not a readable table|no rows|fields"),
        (b"\xff\xfea\x00,\x00b\x00", "zero bytes"),
        (gzip.compress(b"a,b\n" + b"1,2\n" * 999, mtime=0)[:-20], "truncated or damaged"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0)[:15], "truncated or damaged"),
        (gzip.compress(b"", mtime=0), "blanks|empty"),
    ],
)
def test_damaged_csv_files_are_refused(tmp_path, content, words):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=words) as caught:
        read_table(path)
    assert str(path) in str(caught.value)


def test_wrong_paths_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read_table(tmp_path)
    (tmp_path / "a.csv.gz").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="not a gzip file"):
        read_table(tmp_path / "a.csv.gz")


def test_real_bank_table_goes_from_file_to_features(data_dir):
    frame = read_table(data_dir / "bank-additional-full.csv.gz")
    assert frame.shape == (41188, 21)
    codes, classes = binary_labels(frame.pop("y"))
    assert codes.sum() == 4640 and classes == ("no", "yes")
    encoder = TableEncoder().fit(frame)
    got = encoder.transform(frame)
    assert np.isfinite(got).all() and encoder.dropped == {} and not encoder.last_report.ignored
    np.testing.assert_array_equal(TableEncoder.from_json(encoder.to_json()).transform(frame), got)
