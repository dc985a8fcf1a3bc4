"""Lending Club's loans issued in the fourth quarter of 2018, from the publisher's own file, which nobody offers any
more.

Source: Lin, Nadarajah, Soheili, Yang (2020), section 6.4, "LoanStats".
Departs: the paper's goal, whether a loan is approved, is not in this file, which lists issued loans only: the label
    here is the status of the loan. The paper's 250 columns are not listed there; the features here are what was known
    when the loan was asked for or priced, and nothing of its later course.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairbound.base.errors import DataError, OptionError
from fairbound.data.catalog import TABLE
from fairbound.data.dataset import Dataset
from fairbound.data.encode import build
from fairbound.data.files import require_pandas, unpack

FILE = "LoanStats_2018Q4.csv"
NUMBERS = (
    "loan_amnt", "int_rate", "installment", "annual_inc", "dti", "delinq_2yrs", "inq_last_6mths", "open_acc", "pub_rec",
    "revol_bal", "revol_util", "total_acc",
)  # fmt: skip
CATEGORIES = (
    "term", "grade", "sub_grade", "emp_length", "home_ownership", "verification_status", "purpose", "addr_state",
    "application_type",
)  # fmt: skip
FOOTER = "Total amount funded in policy code"


def load_loanstats(
    folder: Path, *, good: Sequence[str] = ("Fully Paid", "Current"), encoding: str = "one-hot"
) -> Dataset:
    """LoanStats_2018Q4.csv (or .csv.gz) in the folder: y = 1 where loan_status is one of `good`; CSR unless "numeric".

    Group: `mortgage`, whether home_ownership is MORTGAGE. Rates in percent are numbers ("13.56%" is 13.56); a missing
    number is NaN. encoding: see `fairbound.data.encode.encode`.
    Raises: DataError if the file is absent, cut short, lacks a column or holds text among numbers; OptionError where no
        loan, or every loan, has a status among `good`.
    """
    info = TABLE["loanstats"]
    path = _path(folder)
    frame = _read(path)
    for column in NUMBERS:
        frame[column] = _numbers(frame[column], f"file {str(path)!r}, column {column!r}")
    for column in CATEGORIES:
        frame[column] = frame[column].str.strip()
    statuses = frame["loan_status"].str.strip()
    y = statuses.isin([good] if isinstance(good, str) else list(good)).to_numpy(dtype=np.int64)
    if y.min() == y.max():
        known = ", ".join(sorted(statuses.dropna().unique()))
        raise OptionError(f"good={good!r} puts all loans into one class; the file has the statuses {known}.")
    mortgage = np.where(frame["home_ownership"] == "MORTGAGE", "Mortgage", "Other").astype(object)
    return build(
        info.name,
        frame,
        label="good_status",
        y=y,
        positive="1",
        features=(*NUMBERS, *CATEGORIES),
        sensitive={"mortgage": (mortgage, ("home_ownership",))},
        encoding=encoding,
        description=info.title,
        sparse=encoding != "numeric",
    )


def _path(folder: Path) -> Path:
    for name in (f"{FILE}.gz", FILE):
        if (folder / name).is_file():
            return folder / name
    raise DataError(
        f"data set 'loanstats': file {str(folder / FILE)!r} is missing. Lending Club no longer publishes it; put a copy "
        "there. The set 'acs-income-us-46pct' stands in for it in 'fair-acs'."
    )


def _read(path: Path) -> Any:
    """The loans as text, without the note before the header and the totals after the last loan."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"data set 'loanstats': file {str(path)!r} cannot be read: {error}.") from error
    if path.suffix == ".gz":
        content = unpack(content, path)
    try:
        lines = [line for line in content.decode("utf-8").replace("\r\n", "\n").split("\n") if line.strip()]
    except UnicodeDecodeError as error:
        raise DataError(f"file {str(path)!r} is no text in UTF-8: {error}.") from error
    head = next((at for at, line in enumerate(lines[:2]) if "loan_status" in line), None)
    if head is None:
        raise DataError(f"file {str(path)!r} has no column 'loan_status' in its first two lines: no LoanStats file.")
    body = [line for line in lines[head:] if not line.lstrip('"').startswith(FOOTER)]
    if len(body) == len(lines) - head and head == 1:
        raise DataError(
            f"file {str(path)!r} is cut short: the line {FOOTER + ' ...'!r} after the last loan is missing."
        )
    pandas = require_pandas()
    try:
        frame = pandas.read_csv(io.StringIO("\n".join(body)), dtype=str, keep_default_na=False, na_values=[""])
    except pandas.errors.ParserError as error:
        raise DataError(f"file {str(path)!r} is damaged: {error}") from error
    absent = [column for column in (*NUMBERS, *CATEGORIES, "loan_status") if column not in frame]
    if absent:
        raise DataError(f"file {str(path)!r} lacks the columns {', '.join(absent)}.")
    if frame.empty:
        raise DataError(f"file {str(path)!r} holds no loan.")
    unknown = np.flatnonzero(frame["loan_status"].isna())
    if len(unknown):
        raise DataError(
            f"file {str(path)!r}: loan {unknown[0] + 1} of {len(frame)} has no loan_status; the file is damaged or cut short."
        )
    return frame


def _numbers(values: Any, where: str) -> Any:
    pandas = require_pandas()
    texts = values.str.strip().str.removesuffix("%")
    made = pandas.to_numeric(texts, errors="coerce")
    wrong = np.flatnonzero(made.isna() & texts.notna())
    if len(wrong):
        raise DataError(f"{where}: {values.iloc[wrong[0]]!r} of loan {wrong[0] + 1} is no number.")
    return made.astype(np.float64)
