"""The options of `solve`: each is checked before the run begins, and an error names the one that is wrong."""

import math

import numpy as np
import pytest
import torch

from fairbound.base.errors import OptionError
from fairbound.base.seeds import seeds_of
from fairbound.methods import SGD
from fairbound.solver.budget import Budget
from fairbound.solver.settings import Spacing
from fairbound.solver.solve import solve
from fairbound.testing import PROBLEMS, differences


def go(**options):
    return solve(**{"problem": PROBLEMS["two_sided"](), "algorithm": SGD(), "budget": "5 steps", **options})


@pytest.mark.parametrize(
    ("option", "wrong", "words"),
    [
        *(("batch_size", wrong, "must be a whole number") for wrong in (2.5, "32", True, None)), ("batch_size", 0, "must be positive"),
        *(("keep", wrong, "must be a function of a record") for wrong in (3, "f")), ("callback", 3, "must be a function of a record"),
        ("validation", 3, "must be a problem of other rows"), ("validation", [], "must be a problem of other rows"),
        ("nonfinite", "ignore", "must be one of 'raise', 'skip'"), ("nonfinite", None, "must be one of 'raise', 'skip'"),
        *(("patience", wrong, "must be at least 1, for the budget itself") for wrong in (0, -1, 0.5, math.nan)), ("patience", "2", "must be a number"),
        ("checkpoint_every", -1, "must not be negative"), ("checkpoint_every", math.nan, "must not be negative"), ("checkpoint_every", "60", "must be a number"),
        ("progress", "x", "must be True or False"), ("progress", 1, "must be True or False"),
        ("average", -1, "must not be negative"), ("average", 2.5, "must be a whole number"),
        ("checkpoint", 3, "must be the path of a file"), ("records", 3, "must be the path of a file"),
        *(("record_every", wrong, "is a whole number of steps, passes like") for wrong in ("5", "soon", "10 steps", 2.5, True, [5])),
        ("record_every", 0, "must be at least 1"), ("sampling", 3, "must be a text"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_named(option, wrong, words):
    with pytest.raises(OptionError, match=f"^{option} {words}"):
        go(**{option: wrong})


@pytest.mark.parametrize(
    ("seed", "words"),
    [
        *((wrong, "seed must be a whole number, or a list") for wrong in (1.5, "12", "a", True, None)),
        *((wrong, "a seed must be a whole number that is not negative") for wrong in (-1, [0, -1], [0, 1.5], [True, False], ["1", "2"])),
        ([1, 1], r"equal seeds in \[1, 1\] would make equal runs"), ([], "holds no seed"),
    ],
)  # fmt: skip
def test_seeds_are_whole_numbers_and_apart(seed, words):
    with pytest.raises(OptionError, match=words):
        go(seed=seed)


def test_whole_numbers_of_numpy_are_taken():
    plain = go(seed=3, batch_size=4, record_every=2, average=0)
    other = go(seed=np.int64(3), batch_size=np.int64(4), record_every=np.int32(2), average=np.int8(0))
    assert differences(plain.state, other.state) == [] and len(plain.records) == len(other.records)
    assert seeds_of(np.arange(3)) == seeds_of(range(3)) == seeds_of(torch.arange(3)) == (0, 1, 2)
    assert seeds_of(np.array(3)) == seeds_of(torch.tensor(3)) == seeds_of(3) == (3,)
    assert Spacing(np.int64(7)).steps == 7


def test_what_is_no_limit_stays_allowed(tmp_path):
    go(patience=3.0, checkpoint_every=math.inf, checkpoint=tmp_path / "run.ckpt", budget="3 steps")
    with pytest.raises(OptionError, match="seconds must be a number"):
        Budget(seconds="3")


def test_a_validation_problem_of_another_size_is_refused():
    other = PROBLEMS["linear_program"]() if "linear_program" in PROBLEMS else PROBLEMS["box"]()
    other.n = 5
    with pytest.raises(OptionError, match="validation problem has 5 parameters, the one to be solved 2"):
        go(validation=other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_x0_is_brought_to_the_dtype_of_the_problem(dtype):
    x0 = torch.tensor([0.25, 0.5], dtype=dtype)
    found = go(x0=x0)
    assert found.last.dtype == torch.float64 and torch.equal(found.last, go(x0=x0.double()).last)
    assert x0.dtype == dtype and x0.tolist() == [0.25, 0.5]
