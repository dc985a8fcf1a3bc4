"""Columns of numbers as people write them: with signs, per cent, marks between thousands and decimal commas."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

from fairbound.base.errors import DataWarning
from fairbound.tables import TableEncoder, TableOptions, read_table
from fairbound.tables.amounts import Amounts
from fairbound.tables.reading.files import csv_parts

pd = pytest.importorskip("pandas")


@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("between", ["", "other", " ", "\u00a0", "\u202f", "'", "’"])
def test_every_way_to_write_a_number_is_read_as_that_number(decimal, between):
    """Against Python's own formatting, for whole numbers and decimals of all sizes, with and without units and signs."""
    between = {"other": ",.".replace(decimal, "")}.get(between, between)
    for value, places, (before, after) in itertools.product(
        (0, 5, 12, 999, 1000, 1015, 12345, 999999, 1000000, 123456789.0),
        (0, 1, 2, 3),
        (("", ""), ("$", ""), ("€ ", ""), ("", "€"), ("", " %"), ("", " EUR"), ("-", " ₹"), ("-$", ""), ("$-", "")),
    ):
        number = value + 0.125 * (places == 3)
        text = f"{number:,.{places}f}".replace(",", "@").replace(".", decimal).replace("@", between)
        got = Amounts.of([before + text + after], decimal)
        want = -number if "-" in before else number
        assert got.numbers == {before + text + after: want} and not got.other and got.alike, (text, got)
        assert bool(got.marked) == bool(before.strip("-") or after or (between and between in text))


@pytest.mark.parametrize(
    "text",
    ["", "$", "%", "1,01", "1,0155", "12,345,6", "0,123", "1,015 016", "1 015,016", "$5 €", "-$-5", "5 kg", "007", "02138", "1.2.3", "a1", "1-2", "٣",
     "(-30)", "-(30)", "(30)-", "-30-", "(30", "30)", "($30 €)", "5 m", "5k %", "1e3k", "5 B", "5kk", "5k run", "$k", "(030) 123", "555-1234", "12-01-2020", "$50k+", "<$5k"],
)  # fmt: skip
def test_what_is_no_number_is_not_read(text):
    found = Amounts.of([text], ".")
    assert found.other == (text,) and not found.numbers


COLUMNS = {
    "dollars": (["$1,015", "$950", "-$3.50", ""], [1015, 950, -3.5, np.nan]),
    "percent": (["12 %", "3.5%", "0%", "?"], [12, 3.5, 0, np.nan]),
    "thousands": (["1,015", "950", "1,234,567", "2.5"], [1015, 950, 1234567, 2.5]),
    "blanks": (["1 015", "950", "12", "7"], [1015, 950, 12, 7]),
    "words": (["a", "b", "$5", "c"], None),
    "units": (["$5", "5 €", "7", "8"], None),
    "shares": (["1%", "0.5", "2%", "3%"], None),
    "marks": (["1,015", "1 016", "2", "3"], None),
    "lists": (["1,5", "2", "1,2,3", "4"], None),
    "codes": (["007 123", "012 233", "1", "2"], None),
    "long": (["123456789012345678901234", "1", "2", "3"], None),
    "accounting": (["($30)", "$1,015.50", "(7)", "8"], [-30, 1015.5, -7, 8]),
    "cents": (["(30.00)", "12.50", "(7)", "8"], [-30, 12.5, -7, 8]),
    "last": (["1,015-", "950", "12-", "8"], [-1015, 950, -12, 8]),
    "factors": (["$1.2k", "$950", "-$3M", "$2 bn"], [1200, 950, -3e6, 2e9]),
    "millions": (["3.5M", "900k", "2M", "7"], [3.5e6, 9e5, 2e6, 7]),
    "runs": (["5k run", "10k run", "1 mile", "5k run"], None),
    "areas": (["(212)", "(213)", "(415)", "(212)"], None),
    "rooms": (["12-", "13-", "14-", "12-"], None),
    "phones": (["(212) 555", "555-1234", "5551234", "1"], None),
    "dates": (["12-01", "2020-", "2021-", "2022"], None),
    "sizes": (["38M", "38L", "40M", "40L"], None),
}


@pytest.fixture
def file(tmp_path):
    """A CSV file of `COLUMNS`."""
    path = tmp_path / "a.csv"
    pd.DataFrame({name: cells for name, (cells, _) in COLUMNS.items()}).to_csv(path, index=False)
    return path


def test_columns_of_amounts_are_read_as_numbers_and_said(file):
    with pytest.warns(DataWarning) as said:
        whole = read_table(file)
    with pytest.warns(DataWarning):
        parts = pd.concat(list(csv_parts(file, 4)), ignore_index=True)
    for frame, (name, (cells, numbers)) in itertools.product((whole, parts), COLUMNS.items()):
        if numbers is None:
            assert frame[name].astype(str).tolist() == cells, name
        else:
            np.testing.assert_array_equal(frame[name], np.array(numbers, dtype=float), err_msg=name)
    texts = [str(one.message) for one in said]
    assert len(texts) == 4 and all(text.startswith(f"{file}: ") for text in texts)
    assert (
        "read as numbers: 'dollars' ('$1,015' as 1015), 'percent' ('12 %' as 12), 'thousands' ('1,015' as 1015), 'blanks'"
        in texts[0]
    )
    for text, name in zip(texts[1:], ("units", "shares", "marks"), strict=True):
        assert f"the column {name!r} is read as text" in text and "Write them alike" in text


@pytest.mark.parametrize(
    "cells, said",
    [
        (["12-", "13-", "14-"], None),  # codes
        (["(1)", "(2)", "(3)"], None),  # notes
        (["12-", "13", "14"], "'12-' may be a number or a code"),
        (["(30)", "12", "14"], "'(30)' may be a number or a code"),
        (["1.5-", "2", "3-"], "'1.5-' may be"),  # grades
        (["5k", "10k", "42k"], "'5k' may be"),
        (["₹1.2 cr", "₹3 cr", "₹2 lakh"] * 2 + [f"₹{i} cr" for i in range(10)], "look like amounts, such as '₹1.2 cr'"),
        (["₹1.2 cr", "a", "b"], None),
        ([f"${i}" for i in range(10)] + list("abcdefg"), "most cells are numbers such as '$0', not 'a'"),
        ([f"${i}" for i in range(10)] + list("abcdefghijk"), None),
        ([f"{i}" for i in range(30)] + ["a", "$5"], "most cells are numbers such as '$5', not 'a'"),
        ([f"${i}k-${i + 1}k" for i in range(30)], None),  # ranges
        (["<$25k", "$25k-$50k", "$50k+"], None),
    ],
)
def test_a_column_that_may_be_amounts_stays_text_and_says_so(tmp_path, recwarn, cells, said):
    path = tmp_path / "a.csv"
    pd.DataFrame({"a": cells, "b": 1}).to_csv(path, index=False)
    assert read_table(path)["a"].tolist() == cells
    texts = [str(one.message) for one in recwarn]
    assert len(texts) == (said is not None) and all("'a' is read as text" in text and said in text for text in texts), (
        texts
    )


@pytest.mark.parametrize(
    "clear, bare, number", [("$1,015-", "12-", -12), ("($30)", "(12)", -12), ("1.5k", "12k", 12000)]
)
@pytest.mark.filterwarnings("ignore::fairbound.base.errors.DataWarning")
def test_what_one_part_of_a_file_settles_holds_for_the_next(tmp_path, clear, bare, number):
    path = tmp_path / "a.csv"
    pd.DataFrame({"a": [clear, "7", bare, bare]}).to_csv(path, index=False)
    assert list(csv_parts(path, rows=2))[1]["a"].tolist() == [number] * 2


def test_commas_that_may_be_either_mark_are_said_with_the_way_to_state_it(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a;b\n1,015;1.015,50 €\n950;3 €\n", encoding="utf-8")
    with pytest.warns(
        DataWarning,
        match=r"'a' \('1,015' as 1.015\), 'b' \('1.015,50 €' as 1015.5\). If '.' begins decimals there, pass decimal=\".\"",
    ) as said:
        assert read_table(path)["a"].tolist() == [1.015, 950]
    assert len(said) == 1
    with pytest.warns(DataWarning) as said:
        assert read_table(path, decimal=".")["a"].tolist() == [1015, 950]
    assert "'a' ('1,015' as 1015). If ',' begins decimals" in str(said[0].message) and "'b' is read as text" in str(
        said[1].message
    )
    path.write_text('a,b\n"1.015,50 €",1.015\n3 €,950\n', encoding="utf-8")
    with pytest.warns(DataWarning, match="'a' is read as text.*pass decimal=\",\""):
        assert read_table(path)["a"].tolist() == ["1.015,50 €", "3 €"]
    with pytest.warns(DataWarning, match="read as numbers"):
        frame = read_table(path, decimal=",")
    assert frame["a"].tolist() == [1015.5, 3] and frame["b"].tolist() == [1015, 950]


@pytest.mark.parametrize(
    "columns, value",
    [
        (["$1,015", "$20", "$1,815"], 1015),  # money has no three decimals
        (
            ["1,015", "20", "1,815"],
            1015,
        ),  # nor has a column whose marks all stand before three digits, but for small numbers
        (["1,015", "0", "1,815"], 1.015),
        (["1,015", "2000", "1,815"], 1.015),
        (["1,015", "2,125", "1,815"], 1.015),
        (["1,015;31.97", "2,125;18.75", "1,815;67.25"], 1015),  # a plain number says what a point is
        (["1,015;1.125", "2,125;2.5", "1,815;3"], 1015),
        (["1,015;1.125", "2,125;2.875", "1,815;3.125"], 1.015),
        (["12,125 %", "20 %", "1,815 %"], 12.125),
        (["1,015;$1,015.00", "20;$2,000", "1,815;$30"], 1015),  # the second column says what commas are
        (["1,015;1,234,567", "20;5", "1,815;6"], 1015),
        (["$1,015;0,5", "$20;1,25", "$1,815;3"], 1.015),
    ],
)
@pytest.mark.filterwarnings("ignore::fairbound.base.errors.DataWarning")
def test_commas_that_may_be_either_mark_follow_the_other_columns(tmp_path, columns, value):
    path = tmp_path / "a.csv"
    rows = [f"{row};x" for row in columns]
    path.write_text("\n".join(["a;b;c"[: 2 * rows[0].count(";") + 1], *rows]) + "\n", encoding="utf-8")
    assert read_table(path)["a"][0] == value
    parts = list(csv_parts(path, rows=2))
    assert parts[0]["a"].iloc[0] == value and parts[1]["a"].iloc[0] == {1015: 1815}.get(value, 1.815)


POINTS = [
    (
        ["2.581;1.236,42", "640;3,5", "1.000;7"],
        2581,
    ),  # the second column has decimal commas, so points are between thousands
    (["2.581;31,97", "640;18,75", "1.000;7"], 2581),
    (
        ["2.581;1,015 %", "640;2,125 %", "1.000;7 %"],
        2581,
    ),  # beside small numbers without a point, and commas that may be decimals
    (["2.581;1.015 €", "2.640;20 €", "1.000;7 €"], 2581),  # money has no three decimals
    (["2.581;31,97", "0.640;18,75", "1.000;7"], 2.581),  # 0.640 is no thousand
    (["2.581;31,97;0.5", "640;18,75;2", "1.000;7;3"], 2.581),  # points and commas begin decimals in this file
    (["1,015.5;31,97;0.5", "640;18,75;2", "1,000;7;3"], 1015.5),  # points in the first column and the third
    (["2.581;a", "640;b", "1.000;c"], 2.581),
    (["2.581;31.97", "640;18.75", "1.000;7"], 2.581),
]


@pytest.mark.parametrize("separator", [";", "\t"])
@pytest.mark.parametrize(("rows", "value"), POINTS)
@pytest.mark.filterwarnings("ignore::fairbound.base.errors.DataWarning")
def test_points_of_plain_numbers_follow_the_other_columns(tmp_path, rows, value, separator):
    path = tmp_path / "a.csv"
    rows = [f"{row};x" for row in rows]
    lines = ["a;b;c;d"[: 2 * rows[0].count(";") + 1], *rows, *([";" * rows[0].count(";")] * 3)]
    path.write_text("\n".join(lines).replace(";", separator) + "\n", encoding="utf-8")
    wanted = [
        value,
        0.64 if rows[1].startswith("0") else 2640 if rows[1].startswith("2") else 640,
        1000 if value > 3 else 1,
    ]
    for frame in (read_table(path), pd.concat(csv_parts(path, rows=2), ignore_index=True)):
        np.testing.assert_array_equal(frame["a"], [*wanted, np.nan, np.nan, np.nan])


def test_points_that_may_stand_between_thousands_are_said_with_the_way_to_state_it(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a;b\n2.581;x\n640;y\n")
    said = (
        r"points begin decimals in 'a' \('2.581' as 2.581\). If they stand between thousands there, pass decimal=\",\""
    )
    for read in (read_table, lambda path: list(csv_parts(path, rows=1))):
        with pytest.warns(DataWarning, match=said) as seen:
            read(path)
        assert len(seen) == 1
    with pytest.warns(DataWarning, match=r"read as numbers: 'a' \('2.581' as 2581\). If '.' begins decimals there"):
        assert read_table(path, decimal=",")["a"].tolist() == [2581, 640]
    for plainly in ("2.581;7.5", "2.50;7", "2;7"):  # nothing is in doubt
        path.write_text(f"a;b\n{plainly}\n640;9\n")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            read_table(path)


def test_a_file_in_parts_is_read_and_spoken_of_as_the_whole_file_is(tmp_path):
    """The first part has no cell of 1,000 or more in the column that says what commas are."""
    path = tmp_path / "a.csv"
    rows = [f"{1000 + 7 * i:,};{100 * i + 0.25:,.2f};{'' if i % 3 else '$5'}" for i in range(40)]
    path.write_text("\n".join(["inc;bal;fee", *rows]) + "\n")
    with pytest.warns(DataWarning) as of_whole:
        whole = read_table(path)
    with pytest.warns(DataWarning) as of_parts:
        parts = pd.concat(csv_parts(path, rows=5), ignore_index=True)
    pd.testing.assert_frame_equal(whole, parts)
    assert whole["inc"].tolist() == [1000 + 7 * i for i in range(40)] and whole["bal"][39] == 3900.25
    assert [str(one.message) for one in of_parts] == [str(one.message) for one in of_whole] and len(of_whole) == 1
    with pytest.warns(DataWarning):
        narrow = pd.concat(csv_parts(path, rows=5, columns=["inc"]), ignore_index=True)  # whatever else is looked at
    assert narrow["inc"].tolist() == whole["inc"].tolist()


def test_a_column_with_a_few_other_cells_stays_text_and_names_one(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a\n" + "".join(f'"$1,{i:03d}"\n' for i in range(60)) + "n.a.\n")
    with pytest.warns(DataWarning, match=r"'a' is read as text: most cells are numbers such as '\$1,000', not 'n.a.'"):
        assert read_table(path)["a"][60] == "n.a."


def test_text_of_a_frame_that_is_amounts_is_warned_of(recwarn):
    frame = pd.DataFrame({"price": ["$1,015", "$950"] * 10, "kind": ["a", "b"] * 10})
    with pytest.warns(DataWarning, match=r"column 'price' is text and taken for categories.*'\$1,015'"):
        TableEncoder().fit(frame)
    recwarn.clear()
    TableEncoder(TableOptions(categorical=("price",))).fit(frame)
    assert not recwarn.list
