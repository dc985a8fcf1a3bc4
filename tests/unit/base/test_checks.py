"""Checks of options: what a number, a whole number and a limit may be, in the helpers and in every method."""

import math
from dataclasses import dataclass, fields

import numpy as np
import pytest

from fairbound.base.checks import limit, nonnegative, number, positive, share
from fairbound.base.errors import OptionError
from fairbound.methods import METHODS

LIMITS = ("clip", "multiplier_bound")
"""Options of methods that may be infinite."""


@dataclass
class Given:
    real: object = None
    count: int | None = None


@pytest.mark.parametrize("check", [positive, nonnegative, share, number, limit])
def test_a_number_is_no_text_and_no_truth_value(check):
    check(Given(), "real", "count")
    check(Given(real=np.float32(0.5), count=None), "real")
    for wrong in (True, False, "1", math.nan, 1j, [0.5]):
        with pytest.raises(OptionError, match="real"):
            check(Given(real=wrong), "real")


def test_ends_of_the_ranges():
    for check, good, bad in (
        (positive, (1e-300, 3), (0, -1, math.inf)), (nonnegative, (0, 3), (-1e-300, math.inf)),
        (share, (0, 0.999), (-1e-300, 1.0)), (number, (-3, 0, 3), (math.inf, -math.inf)), (limit, (1e-300, math.inf), (0, -math.inf)),
    ):  # fmt: skip
        for value in good:
            check(Given(real=value), "real")
        for value in bad:
            with pytest.raises(OptionError, match="real"):
                check(Given(real=value), "real")


def test_a_field_of_whole_numbers_takes_these_alone():
    positive(Given(count=np.int64(2)), "count")
    with pytest.raises(OptionError, match=r"count must be a whole number, got 1\.5"):
        positive(Given(count=1.5), "count")


@pytest.mark.parametrize("name", METHODS)
def test_every_method_checks_its_numbers_at_construction(name):
    for field in fields(METHODS[name]):
        kind, wrong = str(field.type), [True, math.nan, "1"]
        if kind not in ("int", "int | None", "float", "float | None"):
            continue
        wrong += [1.5] if kind.startswith("int") else []
        wrong += [] if field.name in LIMITS else [math.inf]
        for value in wrong:
            with pytest.raises(OptionError):
                METHODS[name](**{field.name: value})
    for option in LIMITS:
        if option in {f.name for f in fields(METHODS[name])}:
            METHODS[name](**{option: math.inf})
