"""Estimated numbers of rows are said to three digits, never fewer rows than were estimated."""

import pytest

from fairbound.base.verdicts import about


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (0, "0"),
        (7, "7"),
        (999, "999"),
        (1000, "1,000"),
        (1001, "1,010"),
        (9996, "10,000"),
        (3_458_373, "3,460,000"),
        (10**9, "1,000,000,000"),
        (10**9 + 1, "a billion or more"),
    ],
)
def test_rows_to_three_digits(rows, said):
    assert about(rows) == said
