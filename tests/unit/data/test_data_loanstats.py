"""The LoanStats loader, on a small file written in the publisher's layout."""

import gzip

import numpy as np
import pytest
from scipy import sparse

from fairbound.base.errors import DataError, OptionError
from fairbound.data import fetch, load
from fairbound.data.loanstats import CATEGORIES, FILE, NUMBERS

pytest.importorskip("pandas")

NOTE = "Notes offered by Prospectus (https://www.lendingclub.com/info/prospectus.action)"
COLUMNS = ("id", *NUMBERS, *CATEGORIES, "loan_status", "total_pymnt")
FOOT = ["", '"Total amount funded in policy code 1: 3000"', '"Total amount funded in policy code 2: 0"']


def loan(number, **changes):
    values = dict.fromkeys(NUMBERS, str(number + 1)) | {
        "id": "",
        "int_rate": f" {10 + number}.5%",
        "revol_util": f"{number}%",
        "term": " 36 months" if number % 2 else " 60 months",
        "grade": "AB"[number % 2],
        "sub_grade": f"A{number % 3}",
        "emp_length": "n/a" if number == 0 else "10+ years",
        "home_ownership": ("MORTGAGE", "RENT", "OWN")[number % 3],
        "verification_status": "Verified",
        "purpose": "car",
        "addr_state": "OK",
        "application_type": "Individual",
        "loan_status": ("Current", "Fully Paid", "Charged Off")[number % 3],
        "total_pymnt": "999",
    }
    return ",".join(f'"{(values | changes)[column]}"' for column in COLUMNS)


def text(loans, columns=COLUMNS, note=NOTE, foot=FOOT):
    return "\n".join([note, ",".join(columns), *loans, *foot]) + "\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / FILE).write_text(text([loan(i) for i in range(7)]))
    return tmp_path


def test_what_a_file_becomes(folder):
    data = load("loanstats", folder)
    assert len(data) == 7 and sparse.issparse(data.X) and data.X.format == "csr"
    assert data.y.tolist() == [1, 1, 0, 1, 1, 0, 1]
    assert data.group("mortgage").tolist() == ["Mortgage", "Other", "Other"] * 2 + ["Mortgage"]
    column = data.feature_names.index("int_rate")
    assert data.X[:, [column]].toarray().ravel().tolist() == [10.5 + i for i in range(7)]
    assert {"term=36 months", "term=60 months", "emp_length=n/a", "home_ownership=OWN"} <= set(data.feature_names)
    assert not any("total_pymnt" in name or "loan_status" in name for name in data.feature_names)
    assert not any("home_ownership" in name for name in data.without("mortgage").feature_names)


def test_another_label_and_a_packed_file(folder):
    (folder / f"{FILE}.gz").write_bytes(gzip.compress((folder / FILE).read_bytes()))
    (folder / FILE).unlink()
    assert load("loanstats", folder, good=("Charged Off",)).y.tolist() == [0, 0, 1, 0, 0, 1, 0]
    with pytest.raises(OptionError, match="one class; the file has the statuses Charged Off, Current, Fully Paid"):
        load("loanstats", folder, good=("Lost",))


def test_a_missing_number_stays_missing(folder):
    (folder / FILE).write_text(text([loan(0, dti=""), loan(1), loan(2)]))
    column = load("loanstats", folder, encoding="numeric")
    assert np.isnan(column.X[0, column.feature_names.index("dti")])


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=rf"{FILE}' is missing. Lending Club no longer publishes it"):
        load("loanstats", tmp_path)
    with pytest.raises(DataError, match=f"nobody publishes {FILE}"):
        fetch("loanstats", tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (text([loan(0), loan(1)], foot=[]), "cut short"),
        (text([loan(0), loan(1), loan(2)[:40]]), "damaged|cut short"),
        (text([loan(0), loan(1)], columns=[c if c != "dti" else "debt" for c in COLUMNS]), "lacks the columns dti"),
        (text([loan(0), loan(1)], columns=[c if c != "loan_status" else "s" for c in COLUMNS]), "no column 'loan_st"),
        (text([]), "holds no loan"),
        (text([loan(0), loan(1, annual_inc="much")]), "column 'annual_inc': 'much' of loan 2 is no number"),
        (text([loan(0), loan(1, loan_status="")]), "loan 2 of 2 has no loan_status"),
        ("", "no LoanStats file"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, content, words):
    (tmp_path / FILE).write_text(content)
    with pytest.raises(DataError, match=words) as caught:
        load("loanstats", tmp_path)
    assert FILE in str(caught.value)


def test_a_truncated_packed_file(folder):
    packed = gzip.compress((folder / FILE).read_bytes())
    (folder / f"{FILE}.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(DataError, match="truncated"):
        load("loanstats", folder)
