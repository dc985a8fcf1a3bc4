"""Columns that look like identifiers are named, and stay features."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import fairbound as fb
from fairbound.base.errors import DataWarning
from fairbound.tables.identifiers import is_identifier, names_identifier


@pytest.mark.parametrize(
    "name",
    [
        "id",
        "ID",
        "patient_id",
        "CustomerID",
        "userId",
        "id number",
        "subject",
        "person_no",
        "Patient",
        "pidnum",
        "schoolid2",
        "schoolidk",
        "custid",
        "hhid",
        "districtID",
    ],
)
def test_names_of_identifiers(name):
    assert names_identifier(name)


@pytest.mark.parametrize(
    "name",
    [
        "paid",
        "grid",
        "idle",
        "humid",
        "identity",
        "age",
        "subject_area",
        "candid",
        "students",
        "stupid",
        "pid_controller_output",
        "caseidx2",
        "liquid",
        "region",
        "state",
        "p",
        "class",
        "covid",
        "bid",
    ],
)
def test_other_names(name):
    assert not names_identifier(name)


@pytest.mark.parametrize("n", [60, 200, 5000])
def test_numbers_of_rows_are_found_with_gaps_and_in_any_order(n):
    rng = np.random.default_rng(0)
    gaps = 1001 + np.cumsum(rng.integers(1, 4, n))
    assert is_identifier("case", gaps) and is_identifier("case", rng.permutation(gaps))
    assert is_identifier("case", gaps.astype(float))
    amounts = (2 * np.arange(n) ** 2, np.arange(n) // 2, gaps / 2, rng.integers(0, 50 * n, n))
    assert not any(is_identifier("case", values) for values in amounts)


def test_whole_numbers_drawn_at_random_are_hardly_ever_taken_for_an_identifier():
    draws = [np.random.default_rng(seed).integers(0, 500, 100) for seed in range(2000)]
    assert sum(is_identifier("pay", draw) for draw in draws) < 5  # exp(-10) of them, and fewer, by chance


def test_by_its_name_also_a_column_that_repeats_or_is_sparse():
    rng = np.random.default_rng(0)
    person, wide = rng.integers(10**8, 10**9, 300), rng.integers(10**8, 10**9, 900)
    for values in (np.repeat(person, 3), wide, np.where(wide % 7 == 0, np.nan, wide)):
        assert is_identifier("person_id", values) and not is_identifier("pay", values)
    assert not is_identifier("region_id", np.tile(np.arange(5), 50))
    assert not is_identifier("person_id", rng.normal(size=300))


def test_a_fit_names_them_and_keeps_them():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"case": 1000 + np.cumsum(rng.integers(1, 5, 400)), "age": rng.integers(20, 60, 400)})
    y = (X.age + rng.normal(0, 5, 400) > 40).astype(int)
    with pytest.warns(DataWarning, match="look like identifiers of rows or persons, and are features: case. Leave"):
        fair = fb.FairClassifier(random_state=0).fit(X, y)
    assert fair.fit_report_["encoding"]["identifiers"] == ["case"]
    assert any("case" in said for said in fair.fit_report_["warnings"])
    assert "case" in fair.encoder_.columns


def test_dates_and_durations_are_none():
    days = pd.Series(pd.date_range("2020-01-01", periods=400))
    X = pd.DataFrame({"date": days, "id_since": days - days[0], "id": np.arange(400)})
    assert fb.tables.TableEncoder().fit(X).identifiers == ("id",)
