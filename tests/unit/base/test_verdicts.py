"""Estimated numbers of rows are said to three digits, never fewer rows than were estimated."""

import pytest

from fairbound.base.verdicts import about, direction


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


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ([(0.04, 0.05, "at most")], "they would confirm it"),
        ([(0.06, 0.05, "at most")], "they would show it violated"),
        ([(0.85, 0.8, "at least"), (0.04, 0.05, "at most")], "they would confirm it"),
        ([(0.75, 0.8, "at least"), (0.04, 0.05, "at most")], "they would show it violated"),
        ([(None, 0.8, "at least"), (0.06, 0.05, "at most")], ""),
    ],
)
def test_rows_that_would_decide_say_which_way(found, says):
    said = direction({"value": v, "bound": b, "sense": sense} for v, b, sense in found)
    assert says in said and bool(says) == bool(said)
