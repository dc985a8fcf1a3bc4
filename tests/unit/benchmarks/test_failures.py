"""Ours stays right in every situation that other packages were seen to get wrong."""

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parents[3] / "benchmarks")]

import failures  # noqa: E402


@pytest.mark.parametrize("case", failures.CASES, ids=lambda case: case.name)
def test_ours_is_right(case):
    right, what = failures.judged(case.ours)
    assert right, what


def test_an_exception_of_another_kind_is_wrong_and_said():
    assert failures.judged(lambda: 1 / 0) == (False, "ZeroDivisionError: division by zero")


def test_every_peer_named_is_looked_for():
    assert {name for case in failures.CASES for name in case.peers} == set(failures.peers.MODULES)
