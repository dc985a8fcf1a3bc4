"""Warnings of many fits, each said once."""

import warnings

import pytest

from fairbound.base.said_once import said_once


def test_warnings_that_differ_in_counts_alone_are_said_once_and_names_are_no_counts():
    with pytest.warns(Warning) as said, said_once():
        for rows in (4800, 3200, 3200):
            warnings.warn(f"Column 'x1' was dropped: {rows} different texts.", UserWarning, stacklevel=1)
        warnings.warn("Column 'x2' was dropped: 10 different texts.", UserWarning, stacklevel=1)
        warnings.warn("Column 'x1' was dropped: 4,800 different texts.", FutureWarning, stacklevel=1)
    assert [str(one.message)[7:11] for one in said] == ["'x1'", "'x2'", "'x1'"]
    assert said[0].filename == __file__ and "4800" in str(said[0].message)


def test_they_are_said_where_the_fits_fail_too():
    with pytest.warns(UserWarning, match="first"), pytest.raises(ValueError, match="then"), said_once():
        warnings.warn("first", UserWarning, stacklevel=1)
        raise ValueError("then")
