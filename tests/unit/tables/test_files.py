"""CSV files at the door."""

from __future__ import annotations

import gzip
import warnings

import numpy as np
import pytest

from fairbound.base.errors import DataError, DataWarning, OptionError
from fairbound.tables import Chunks, TableEncoder, binary_labels, read_table
from fairbound.tables.reading.files import csv_parts
from fairbound.tables.reading.records import line_of

pd = pytest.importorskip("pandas")

# --- CSV ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_csv_is_read_with_any_separator_gzip_or_not(tmp_path, separator, packed, end):
    lines = ['age;"income ;year"; name', '20;1.5;"Ann; B."', "30;?;x", "40;;y", "50; .;z", ""]
    data = end.join(lines).replace(";", separator).encode("utf-8-sig")
    path = tmp_path / "file.dat"
    path.write_bytes(gzip.compress(data) if packed else data)
    frame = read_table(path)
    assert list(frame.columns) == ["age", f"income {separator}year", "name"]
    assert frame["age"].tolist() == [20, 30, 40, 50]
    assert frame.iloc[:, 1].tolist() == pytest.approx([1.5, np.nan, np.nan, np.nan], nan_ok=True)
    assert frame["name"][0] == f"Ann{separator} B."


def test_one_column_csv_and_other_encodings(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"x\n1\n2\n")
    assert read_table(str(path))["x"].tolist() == [1, 2]
    path.write_bytes("näme\nÄ\n".encode("latin-1"))
    both = (read_table, lambda path: list(csv_parts(path, 1000)))
    for read in both:
        with pytest.raises(DataError, match=r"line 1 is not utf-8 text \(byte 0xe4\).*encoding=.cp1252"):
            read(path)
    for encoding in ("latin-1", "cp1252"):
        assert read_table(path, encoding=encoding)["näme"].tolist() == ["Ä"]
    for lines in (2, 20_000, 400_000):  # within what is read for the header, and within parts that are decoded at once
        long = b"x,y\n1,a\n" * (lines // 2) + b"1,\xe4\n"
        for bytes_of_file in (long, gzip.compress(long)):
            path.write_bytes(bytes_of_file)
            for read in both:
                with pytest.raises(
                    DataError, match=rf"line {lines + 1} is not utf-8 text \(byte 0xe4\).*encoding=.cp1252"
                ):
                    read(path)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("utf-16", None),
        ("utf-16", "cp1252"),
        ("utf-32", None),
        ("utf-8-sig", "latin-1"),
        ("utf-16-le", "utf-16-le"),
        ("cp1252", "cp1252"),
    ],
)
def test_a_byte_order_mark_tells_the_encoding_and_else_the_caller(tmp_path, written, asked, packed):
    text = "näme;x\nÄ €;1\n\nb;2\nc;0,5\n"
    path = tmp_path / "a.csv"
    path.write_bytes(gzip.compress(text.encode(written)) if packed else text.encode(written))
    whole = read_table(path, encoding=asked)
    parts = pd.concat(list(csv_parts(path, 2, encoding=asked)), ignore_index=True)
    for frame in (whole, parts):
        assert frame["näme"].tolist() == ["Ä €", "b", "c"]
    assert whole["x"].tolist() == [1, 2, 0.5]
    if asked != "utf-16-le":  # without a mark nothing tells it
        assert line_of(path, 1) == 4


def test_encodings_and_marks_that_there_are_not_are_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a\n1\n")
    for options, words in (
        ({"encoding": "klingon"}, "'klingon' is none"),
        ({"encoding": "rot13"}, "none"),
        ({"decimal": "x"}, "'.' or ','"),
    ):
        with pytest.raises(OptionError, match=words):
            read_table(path, **options)
        with pytest.raises(OptionError, match=words):
            Chunks.read(path, **options)
    with pytest.raises(OptionError, match="Parquet file, which has no encoding"):
        read_table(tmp_path / "a.parquet", encoding="cp1252")


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
        (b"a\x00,\x00b\x00\n\x00", "zero bytes.*utf-16-le"),
        (b"\xff\xfea\x00,\x00b\x00", r"a header \(2 columns\) but no rows"),
        (b"\xff\xfea\x00,\x00b", "line 1 is not utf-16 text"),
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


@pytest.mark.parametrize("columns", [None, ["a"]])
@pytest.mark.parametrize(
    "cut", [lambda packed: packed[:15], lambda packed: packed[: len(packed) // 2], lambda packed: packed[:-20]]
)
def test_a_gzip_file_that_is_cut_off_is_told_in_parts_too(tmp_path, columns, cut):
    numbers = np.random.default_rng(0).normal(size=(20_000, 2))
    text = "a,b\n" + "".join(f"{a:.6f},{b:.6f}\n" for a, b in numbers)
    path = tmp_path / "a.csv.gz"
    path.write_bytes(cut(gzip.compress(text.encode(), mtime=0)))
    with pytest.raises(DataError, match=r"the gzip file is truncated or damaged \(.*\)\. Copy or download it again"):
        list(csv_parts(path, 5000, columns))


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
    with pytest.warns(DataWarning, match="'thousands' is read as text, since '.' does not begin decimals"):
        whole = read_table(path)
        parts = pd.concat(list(csv_parts(path, 2)), ignore_index=True)
    for frame in (whole, parts):
        np.testing.assert_array_equal(frame["share"], [0.221, -1500.0, np.nan])
        np.testing.assert_array_equal(frame["count"], [3, np.nan, 4])
        assert frame["date"].tolist()[:2] == ["1,5,2020", "2,5,2020"] and frame["words"].tolist()[0] == "1,5"
    assert whole["thousands"].tolist() == ["1,234,567", "2", "3"]
    path.write_text('a,b\n"0,221",1\n"0,5",2\n')
    with pytest.warns(DataWarning, match="'a' is read as text, since ',' does not begin decimals.*decimal=\",\""):
        assert read_table(path)["a"].tolist() == ["0,221", "0,5"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_table(path, decimal=",")["a"].tolist() == [0.221, 0.5]


def test_rows_longer_than_the_header_are_refused_whatever_is_done_with_warnings(tmp_path):
    """pandas leaves their last cells out with a warning where all rows are too long."""
    (tmp_path / "t.csv").write_text("a,b\n1,2,3\n4,5,6\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(DataError, match="line 2 has 3 fields, the header 2"):
            read_table(tmp_path / "t.csv")


@pytest.mark.parametrize("whole", [True, False])
def test_row_numbers_without_a_name_are_left_out(tmp_path, whole):
    path, frame = tmp_path / "a.csv", pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]})
    frame.to_csv(path)
    with pytest.warns(
        DataWarning, match="first column has no name, as the row numbers that pandas and R write"
    ) as seen:
        found = read_table(path) if whole else pd.concat(csv_parts(path, 2), ignore_index=True)
    assert len(seen) == 1
    pd.testing.assert_frame_equal(found, frame)
    path.write_text(",b\n1,x\n".replace(",b", "a,", 1))  # a column without a name elsewhere stays
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(read_table(path).columns) == ["a", "Unnamed: 1"]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("parquet", "is a Parquet file, by its first bytes. Give it a name that ends in .parquet"),
        ("records", "holds JSON, by its first characters. Save it as CSV or Parquet"),
        ("lines", "holds JSON"),
        ("columns", "holds JSON"),
        ("indented", "holds JSON"),
        ("marked", "holds JSON"),
    ],
)
def test_other_kinds_of_files_are_told_from_a_table(tmp_path, kind, said):
    frame, path = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), tmp_path / "table.csv"
    texts = {
        "records": frame.to_json(orient="records"),
        "lines": frame.to_json(orient="records", lines=True),
        "columns": frame.to_json(),
        "indented": "\n" + frame.to_json(orient="records", indent=4),
        "marked": "\ufeff" + frame.to_json(),
    }
    if kind == "parquet":
        frame.to_parquet(path)
    else:
        path.write_text(texts[kind], encoding="utf-8")
    zipped = tmp_path / "table.csv.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    for file in (path, zipped):
        with pytest.raises(DataError, match=said):
            read_table(file)
        with pytest.raises(DataError, match=said):
            list(csv_parts(file, 10))


@pytest.mark.parametrize("header", ["[a],b", "{a},b", "[1],b", '"[a]",b'])
def test_a_header_may_begin_with_a_bracket(tmp_path, header):
    (tmp_path / "table.csv").write_text(f"{header}\n1,2\n")
    assert read_table(tmp_path / "table.csv").shape == (1, 2)


@pytest.mark.parametrize("begins", [b"PK\x03\x04", b"\xd0\xcf\x11\xe0"])
def test_a_workbook_is_told_from_a_table(tmp_path, begins):
    path = tmp_path / "book.csv"
    path.write_bytes(begins + b"\x00\x08,\xff\n" * 40)
    with pytest.raises(DataError, match=r"is an Excel workbook, or a zip file. Save its sheet as CSV or Parquet"):
        read_table(path)
    with pytest.raises(DataError, match="is an Excel workbook"):
        next(csv_parts(path, 10))


@pytest.mark.parametrize("first", ["sep=;", '"sep=;"', "SEP=;"])
def test_a_line_that_names_the_separator_is_no_row(tmp_path, first):
    path = tmp_path / "t.csv"
    path.write_bytes("\r\n".join([first, "a;b", "1;x, y", "2;z", ""]).encode("utf-8-sig"))
    frame = read_table(path)
    assert list(frame.columns) == ["a", "b"] and frame["a"].tolist() == [1, 2]
    assert pd.concat(csv_parts(path, 1)).reset_index(drop=True).equals(frame)
    assert line_of(path, 1) == 4
    path.write_text(first + "\na;b\n1;2\n3\n")
    with pytest.raises(DataError, match="line 4 has 1 fields, the header 2"):
        read_table(path)


@pytest.mark.parametrize("columns", [None, ["a"], ["c"]])
@pytest.mark.parametrize("row", ["4,5", "4", "4,5,6,7"])
@pytest.mark.parametrize("at", [0, 5])
def test_a_file_read_in_parts_is_refused_where_a_row_is_cut_off_or_too_long(tmp_path, columns, row, at):
    path = tmp_path / "t.csv"
    lines = ["1,2,3"] * 6
    path.write_text("\n".join(["a,b,c", *lines[:at], row, *lines[at + 1 :]]) + "\n")
    with pytest.raises(DataError, match=f"line {at + 2} has {row.count(',') + 1} fields, the header 3. A cut-off file"):
        list(Chunks.read(path, rows=2, columns=columns))
    path.write_text("a,b,c\n" + "1,2,\n" * 6)  # a last cell may be empty
    assert len(Chunks.read(path, rows=2, columns=columns)) == 6


@pytest.mark.parametrize(
    ("text", "said"), [("", "the file is empty"), ("\n\n", "empty"), ("a,b\n", r"header \(2 columns\) but no rows")]
)
def test_an_empty_file_says_so_in_parts_too(tmp_path, text, said):
    path = tmp_path / "t.csv"
    path.write_text(text)
    for read in (read_table, lambda path: list(Chunks.read(path))):
        with pytest.raises(DataError, match=said):
            read(path)


def test_a_file_read_in_parts_and_again_is_spoken_of_once(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(
        ",pay,note\n" + "".join(f'{i},"${i},015","$1{i}.5"\n' for i in range(1, 10)) + '9,"$9,015",none\n' * 3
    )
    with pytest.warns(DataWarning) as seen:
        parts = Chunks.read(path, rows=4)
        first, second = list(parts), list(parts)
    assert all(a.equals(b) for a, b in zip(first, second, strict=True))
    said = [str(w.message) for w in seen]
    assert len(said) == len(set(said)) and sum("'pay'" in line for line in said) == 1
    assert sum("no name" in line for line in said) == 1
