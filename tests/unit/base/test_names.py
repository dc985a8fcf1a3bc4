"""Names in messages: what a misspelt one may have meant, and the first of many."""

from __future__ import annotations

import numpy as np
import pytest

from fairbound.base.names import count_of, did_you_mean, plain_repr, shortlist


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("wieght", {}, "did you mean 'weight'?"),
        ("wieght", {"before": "; "}, "; did you mean 'weight'?"),
        ("wieght", {"before": ". "}, ". Did you mean 'weight'?"),
        ("wieght", {"shown": {"weight": "weight=..."}}, "did you mean 'weight=...'?"),
        ("B IG", {}, "did you mean 'big'?"),
        ("zzz", {"before": "; ", "otherwise": "."}, "."),
        ("zzz", {}, ""),
        ("weigh", {"most": 2, "alike": 0.4}, "did you mean 'weight' or 'height'?"),
    ],
)
def test_names_that_are_alike_are_asked_for(name, options, said):
    assert did_you_mean(name, (n for n in ("weight", "height", "big")), **options) == said


@pytest.mark.parametrize(
    ("names", "options", "said"),
    [
        ("abc", {}, "a, b, c"),
        ("abc", {"most": 2}, "a, b and 1 more"),
        (range(2000), {"most": 1, "quoted": True}, "0 and 1,999 more"),
        (iter("abc"), {"most": 3, "quoted": True}, "'a', 'b', 'c'"),
        ("", {}, ""),
    ],
)
def test_of_many_names_the_first_are_said_and_how_many_more_there_are(names, options, said):
    assert shortlist(names, **options) == said


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 held-out rows"), (1, "1 held-out row"), (2000, "2,000 held-out rows")]
)
def test_one_thing_is_counted_in_the_singular(number, said):
    assert count_of(number, "held-out row") == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.int64(1), "1"),
        (np.str_("F"), "'F'"),
        ([np.str_("F"), 2], "['F', 2]"),
        ((np.float64(0.5),), "(0.5,)"),
        (True, "True"),
        (None, "None"),
    ],
)
def test_values_of_numpy_are_shown_as_those_of_python(value, said):
    assert plain_repr(value) == said
