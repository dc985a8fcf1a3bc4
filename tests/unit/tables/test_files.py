"""CSV files at the door."""

from __future__ import annotations

import gzip
import warnings

import numpy as np
import pytest

from fairbound.base.errors import DataError, DataWarning
from fairbound.tables import TableEncoder, binary_labels, read_table
from fairbound.tables.files import csv_parts

pd = pytest.importorskip("pandas")

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


@pytest.mark.parametrize("separator", [";", "\t"])
def test_decimal_commas_are_numbers_where_no_comma_separates(tmp_path, separator):
    lines = ["share;count;date;thousands;words", "0,221;3;1,5,2020;1,234,567;1,5", "-1,5e3;?;2,5,2020;2;x", ";4;;3;2,5"]
    path = tmp_path / "file.csv"
    path.write_text("\n".join(lines).replace(";", separator))
    whole = read_table(path)
    parts = pd.concat(list(csv_parts(path, 2)), ignore_index=True)
    for frame in (whole, parts):
        np.testing.assert_array_equal(frame["share"], [0.221, -1500.0, np.nan])
        np.testing.assert_array_equal(frame["count"], [3, np.nan, 4])
        assert frame["date"].tolist()[:2] == ["1,5,2020", "2,5,2020"] and frame["words"].tolist()[0] == "1,5"
    assert whole["thousands"].tolist() == ["1,234,567", "2", "3"]
    path.write_text('a,b\n"0,221",1\n"0,5",2\n')
    with pytest.warns(DataWarning, match="'a' holds numbers with commas, such as '0,221'"):
        assert read_table(path)["a"].tolist() == ["0,221", "0,5"]


def test_rows_longer_than_the_header_are_refused_whatever_is_done_with_warnings(tmp_path):
    """pandas leaves their last cells out with a warning where all rows are too long."""
    (tmp_path / "t.csv").write_text("a,b\n1,2,3\n4,5,6\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(DataError, match="line 2 has 3 fields, the header 2"):
            read_table(tmp_path / "t.csv")
