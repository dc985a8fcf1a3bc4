"""Checks of options: what a number, a whole number and a limit may be, in the helpers and in every method."""

import math
from dataclasses import dataclass, field, fields

import numpy as np
import pytest

from fairbound.base.checks import check_kinds, limit, nonnegative, number, positive, share
from fairbound.base.errors import OptionError
from fairbound.methods import (
    ALM,
    IDCA,
    METHODS,
    SFLS,
    MultiplierModel,
    ProximalPoint,
    SGDCorrelation,
    SGDFairret,
    algorithm,
)
from fairbound.methods.method import Method, described
from fairbound.methods.ovsmd import LightTails
from fairbound.optim import Dual

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


@dataclass(frozen=True)
class Kinds:
    real: float = 0.5
    count: int = 1
    maybe: int | None = None
    yes: bool = True
    word: str = "a"
    widths: tuple[int, ...] = (1, 2)
    table: "tuple[tuple[float, ...], ...] | None" = None
    other: object = None
    made: int = field(init=False)

    def __post_init__(self):
        check_kinds(self)


def test_values_are_of_the_kind_that_the_annotation_says():
    for name, wrong, words in (
        ("real", None, "must be a number, got None"), ("real", "1", "must be a number"), ("real", True, "must be a number"),
        ("count", 1.0, r"must be a whole number, got 1\.0"), ("maybe", "1", "must be a whole number or None"),
        ("yes", "false", "must be True or False, got 'false'"), ("yes", 1, "must be True or False"), ("yes", None, "must be True or False"),
        ("word", ["a"], "must be a text"), ("widths", 64, r"must be a tuple of whole numbers, got 64; write \(64,\) for one"),
        ("widths", "64", "must be a tuple of whole numbers, got '64'"), ("widths", (1, "2"), r"widths\[1\] must be a whole number"),
        ("table", 3, "must be a tuple of rows or None, got 3"), ("table", [[1.0], ["a"]], r"table\[1\]\[0\] must be a number"),
    ):  # fmt: skip
        with pytest.raises(OptionError, match=f"^{words}" if name in words else f"^{name} {words}"):
            Kinds(**{name: wrong})


def test_values_of_numpy_become_those_of_python():
    given = Kinds(
        real=np.float32(0.5),
        count=np.int64(3),
        yes=np.bool_(False),
        widths=np.array([4, 5]),
        table=np.ones((1, 2)),
        other=1j,
    )
    assert repr(given.count) == "3" and given.yes is False and given.real == 0.5 and given.other == 1j
    assert given.widths == (4, 5) and given.table == ((1.0, 1.0),)
    assert described(ALM(dual_every=np.int64(20))) == described(ALM())


@pytest.mark.parametrize("name", METHODS)
def test_every_method_checks_its_truth_values_and_tuples_at_construction(name):
    for one in fields(METHODS[name]):
        wrong = {"bool": ("false", 1, None), "str": (3, None, [])}.get(one.type, ())
        wrong = (3.0, "64", None, ("a",), (0,)) if one.type in ("tuple[int, ...]", "tuple[float, ...]") else wrong
        for value in wrong:
            with pytest.raises(OptionError, match=f"{one.name}|optimizer"):
                METHODS[name](**{one.name: value})


def test_a_method_of_one_s_own_is_checked_before_its_own_checks():
    @dataclass(frozen=True, kw_only=True)
    class Plain(Method):
        step_size: float = 0.1

    @dataclass(frozen=True, kw_only=True)
    class Ranged(Plain):
        share: float = 0.5

        def __post_init__(self):
            if not self.share < 1:
                raise OptionError("share must be below 1.")

    for kind, options, words in (
        (Plain, {"step_size": None}, "step_size must be a number"), (Ranged, {"step_size": "1"}, "step_size must be a number"),
        (Ranged, {"share": None}, "share must be a number"), (Ranged, {"share": 1}, "share must be below 1"),
    ):  # fmt: skip
        with pytest.raises(OptionError, match=words):
            kind(**options)


def test_options_of_other_kinds_are_checked_at_construction():
    for make, words in (
        (lambda: MultiplierModel(descriptions=3), "descriptions must be a tuple of rows or None"),
        (lambda: MultiplierModel(descriptions=((1.0, 2.0), (3.0,))), "equally many numbers in every row"),
        (lambda: ProximalPoint(inner=3), "inner must be a method, such as"), (lambda: IDCA(inner=ALM), "inner must be a method, such as"),
        (lambda: algorithm("proximal_point", inner={"step_size": 0.1}), "must say its name"),
        (lambda: SGDCorrelation(attributes=3), "attributes must be 'each', 'crossed' or a tuple of names"),
        (lambda: SGDFairret(attributes=()), "attributes must be 'each', 'crossed' or a tuple of names"),
        (lambda: SFLS(light_tails=3), "light_tails must be LightTails"),
        (lambda: LightTails(M_x=1.0, M_y=None, Q=0.0), "M_y must be a number"),
        (lambda: Dual("demographic_parity <= 0.1", group_names=["a", "b"], penalty=None), "penalty must be a number"),
        (lambda: Dual("demographic_parity <= 0.1", group_names=["a", "b"], distributed="false"), "distributed must be True or False"),
        (lambda: Dual("demographic_parity <= 0.1", group_names=["a", "b"], soft_targets=1), "soft_targets must be True or False"),
        (lambda: Dual("demographic_parity <= 0.1", group_names=["a", "b"], memory="2048"), "memory must be a number or None"),
    ):  # fmt: skip
        with pytest.raises(OptionError, match=words):
            make()
    assert SGDCorrelation(attributes="sex").attributes == ("sex",)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_checks_its_numbers_at_construction(name):
    for one in fields(METHODS[name]):
        kind, wrong = str(one.type), [True, math.nan, "1"]
        if kind not in ("int", "int | None", "float", "float | None"):
            continue
        wrong += [1.5] if kind.startswith("int") else []
        wrong += [] if one.name in LIMITS else [math.inf]
        wrong += [] if kind.endswith("None") else [None]
        for value in wrong:
            with pytest.raises(OptionError):
                METHODS[name](**{one.name: value})
    for option in LIMITS:
        if option in {f.name for f in fields(METHODS[name])}:
            METHODS[name](**{option: math.inf})
