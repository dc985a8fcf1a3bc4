"""The codes of new rows for the loss, and the loop that gives none of them a group."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
import torch

from fairbound.base.errors import DataError, DataWarning
from fairbound.optim import Dual

pytestmark = pytest.mark.filterwarnings("ignore:.*too few training rows")  # what is tested here is not the data

BOUND = "demographic_parity <= 0.05"
CODES = np.array([0, 1, 1, 0])
Y = np.array([0, 1, 0, 1])


@pytest.mark.parametrize("copied", [lambda dual: dual, copy.deepcopy], ids=["itself", "a copy"])
@pytest.mark.parametrize("stream", [False, True])
def test_codes_that_names_were_given_for_are_codes(stream, copied):
    rows = {} if stream else {"groups": CODES, "targets": Y}
    encode = copied(Dual(BOUND, group_names={"sex": ["F", "M"]}, **rows)).encode
    forms = [CODES, torch.tensor(CODES), CODES.tolist(), CODES.astype(bool), CODES.astype(float), {"sex": CODES}]
    for given in [*forms, CODES[:, None], {"other": CODES}, np.array(["F", "M"])[CODES]]:
        assert encode(given).flatten().tolist() == CODES.tolist()
    assert encode([-1, 0, None, 1]).flatten().tolist() == [-1, 0, -1, 1]
    with pytest.warns(DataWarning, match="some rows have a group of 'sex' that is not known here.*: F, M are known"):
        assert encode(["F", "X", None]).flatten().tolist() == [0, -1, -1]
    assert encode([None, None]).flatten().tolist() == [-1, -1]
    for unknown in (["f ", "m"], ["0", "1"], [0.5, 1.5]):
        with pytest.raises(DataError, match="no row has a group of 'sex' that is known here: F, M"):
            encode(unknown)
    with pytest.raises(DataError, match="'sex' has the code 2, and names for 0 to 1"):
        encode([0, 2])


def test_names_that_are_numbers_are_looked_up():
    made = Dual(BOUND, groups=CODES, targets=Y, group_names=["10", "20"])
    with pytest.warns(DataWarning, match="10, 20 are known"):
        assert made.encode([20, 10, 5]).flatten().tolist() == [1, 0, -1]
    with pytest.raises(DataError, match="known here: 10, 20"):
        made.encode(CODES)


def test_labels_of_text_groups_are_no_codes():
    made = Dual(BOUND, groups=["F", "M", "M", "F"], targets=Y)
    with pytest.raises(DataError, match="known here: F, M"):
        made.encode(CODES)


def test_columns_without_names_stand_in_the_order_of_the_attributes():
    both = np.stack([CODES, CODES[::-1]], axis=1)
    made = Dual(BOUND, groups=both, targets=Y, group_names={"sex": ["F", "M"], "race": ["A", "B"]})
    for given in (both, both.tolist(), {"race": both[:, 1], "sex": both[:, 0]}):
        assert made.encode(given).tolist() == both.tolist()
    of_columns = Dual(BOUND, groups={"sex": both[:, 0], "race": both[:, 1]}, targets=Y)
    assert of_columns.encode(both).tolist() == both.tolist()
    with pytest.raises(DataError, match="Pass a dict or a data frame with columns of these names"):
        of_columns.encode(np.column_stack([both, both]))
    with pytest.raises(DataError, match=r"it has \['sex'\]\.$"):
        of_columns.encode({"sex": both[:, 0]})


def test_a_loop_without_a_row_of_any_group_is_told_once():
    def loop(codes, **options):
        made = Dual(BOUND, groups=CODES, targets=Y, **options)
        for k in range(12):
            scores = torch.full((4,), torch.nan) if options.get("nonfinite") and k < 6 else torch.randn(4)
            made.loss(scores, torch.tensor(Y), torch.tensor(codes))
            made.step()

    with pytest.warns(DataWarning, match="in the first 3 steps: no bound is active") as said:
        loop([-1] * 4, dual_every=3)
    told = [w for w in said if "no bound is active" in str(w.message)]
    assert len(told) == 1 and told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "no row of a group")
        loop([-1, -1, -1, 0], dual_every=3)
        loop(CODES, dual_every=3, nonfinite="skip")


@pytest.mark.parametrize(
    ("kind", "absent"),
    [
        ({"group_names": ["a", "b"]}, "b"),
        ({"groups": np.arange(1000) % 2, "targets": np.arange(1000) // 2 % 2}, "group: 1"),
        ({"groups": np.arange(1000) < 5, "targets": np.arange(1000) % 2}, None),  # so few that none may have come
    ],
)
def test_a_group_that_does_not_come_is_told_once(kind, absent):
    made = Dual(BOUND, memory=200, **kind)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(100):
            made.loss(torch.randn(8), torch.arange(8) % 2, torch.zeros(8, dtype=torch.int64))
            made.step()
    told = [w for w in said if str(w.message).startswith(f"no row of {absent} has come in the first ")]
    assert len(told) == len(said) == (absent is not None)
    assert all(w.filename == __file__ for w in told)


def test_rows_of_code_minus_one_are_counted_in_a_warning_and_in_the_report():
    with pytest.warns(DataWarning, match="1,000 of 3,000 rows are in no group: -1 is missing") as said:
        made = Dual(BOUND, groups=np.arange(3000) % 3 - 1, targets=np.arange(3000) // 3 % 2)
    assert said[0].filename == __file__ and made.groups.labels == (("0", "1"),)
    assert "1,000 training rows are in no group" in str(made.report())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert copy.deepcopy(made).report().missing == 1000
    assert "in no group" not in str(Dual(BOUND, groups=CODES, targets=Y).report())


@pytest.mark.parametrize("steps", [0, 3])
def test_a_loop_that_forgets_its_steps_is_asked_about_them_once(steps):
    dual = Dual("demographic_parity <= 0.05", group_names=["a", "b"])
    batch = torch.tensor([1.0, -1.0, 1.0, -1.0]), torch.tensor([0, 1, 1, 0]), torch.tensor([0, 0, 1, 1])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(steps):
            dual.loss(*batch)
            dual.step()
        for _ in range(199):
            dual.loss(*batch)
            dual.loss(*batch, observe=False)
        assert not said
        for _ in range(300):
            dual.loss(*batch)
    assert len(said) == 1 and ("and no dual.step()" in str(said[0].message)) == (steps == 0)
    assert said[0].filename == __file__


def test_a_loop_that_steps_once_per_pass_over_few_rows_is_asked_about_it_once():
    y, group = np.arange(1600) % 2, np.arange(1600) // 2 % 2
    dual = Dual("demographic_parity <= 0.05", groups=group, targets=y)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(3):
            for part in np.split(np.arange(1600), 16):
                dual.loss(torch.randn(100), torch.tensor(y[part]), torch.tensor(group[part]))
            dual.step()
    assert len(said) == 1 and "15 losses were asked for and no dual.step()" in str(said[0].message)
