"""Files with several rows of one person: what is said, and `--split-by`."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from fairbound.cli.columns import repeated_identifiers, units_of
from fairbound.cli.options import FitOptions
from fairbound.cli.rows import read_rows, split_rows


@pytest.fixture
def visits(tmp_path):
    """A file of 150 patients with one to five visits each, and 5 visits of nobody known."""
    rng = np.random.default_rng(0)
    who = rng.permutation(np.repeat(np.arange(150), rng.integers(1, 6, 150))).astype(float)
    n = len(who)
    sex, age = np.where(who % 2 == 0, "F", "M"), 20 + who % 50
    y = np.where(age + rng.normal(0, 10, n) > 45, "yes", "no")
    who[:5] = np.nan
    path = tmp_path / "visits.csv"
    pd.DataFrame({"patient_id": who, "age": age, "sex": sex, "cured": y}).to_csv(path, index=False)
    return path


def asked(path, **more):
    return FitOptions(data=str(path), label="cured", group="sex", out="o", **more)


def test_whole_persons_are_held_out_and_the_column_is_no_feature(visits):
    rows = read_rows(asked(visits, split_by="patient_id"))
    split = split_rows(rows, None, 0)
    who = pd.read_csv(visits).patient_id.to_numpy()
    train, test = who[split.train], who[split.test]
    assert not set(train[~np.isnan(train)]) & set(test[~np.isnan(test)])
    assert len(np.unique(rows.units)) == 155 and 0.15 < len(split.test) / len(rows) < 0.35
    assert list(rows.X.columns) == ["age"] and "patient_id" in split.words
    plain = split_rows(read_rows(asked(visits)), None, 0)
    assert set(who[plain.train]) & set(who[plain.test])


def test_what_is_said(run, visits, tmp_path):
    call = ["fit", "--data", visits, "--label", "cured", "--group", "sex", "--constraint", "demographic_parity <= 0.2"]
    for more, said in (
        ([], "rows of one stand on both sides of the split"),
        (
            ["--split-by", "patient_id"],
            "Rows that share a value of patient_id are on one side of the split, but the limits",
        ),
    ):
        code, _, before = run(*call, *more, "--budget", "5 steps", "--out", tmp_path / "o")
        assert code in (0, 1, 3) and said in before[: before.index("training on")]
        warnings = json.loads((tmp_path / "o" / "audit.json").read_text())["warnings"]
        assert sum(said in one for one in warnings) == 1 and ("--split-by" in " ".join(warnings)) == (not more)
    for more, said in ((["--split-by", "cured"], "is the label"), (["--split-by", "x"], "no column 'x'"),
                       (["--split-by", "patient_id", "--certify"], "one row of each person")):  # fmt: skip
        code, _, err = run(*call, *more, "--out", tmp_path / "o")
        assert code == 2 and said in err
    _, _, before = run(*call, "--certify", "--budget", "5 steps", "--out", tmp_path / "c")
    assert "Keep one row of each person." in before and "--split-by" not in before
    code, _, err = run("fit", "--data", "loanapp", "--split-by", "id", "--out", tmp_path / "o")
    assert code == 2 and "--split-by" in err


def test_columns_that_are_warned_of():
    n = 400
    frame = pd.DataFrame(
        {
            "patient_id": np.arange(n) // 2,
            "subject": [f"s{i // 4}" for i in range(n)],
            "row_id": np.arange(n),
            "shop_id": np.arange(n) % 5,
            "age": np.arange(n) // 8,
        }
    )
    assert [said.split()[1] for said in repeated_identifiers(frame, None)] == ["patient_id", "subject"]
    assert repeated_identifiers(frame, "row_id") == ()
    assert units_of(pd.DataFrame({"a": ["x", None, "x", None]}), "a").tolist() == [0, 5, 0, 7]
