"""Groups whose names are blank, read like a missing value, or differ in spelling alone: every door says so, and merges none."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import fairbound as fb
from fairbound.base.errors import DataWarning
from fairbound.rows.groups import doubtful_groups, said_labels

PARITY = "demographic_parity <= 0.3"
SPELLED = "sex: the groups 'F' and 'F ' differ only in capitals or blanks"
BLANK = "sex: '', 'nan' are counted as a group of people like any other. Where it means not known, make it missing"


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    X, sex = rng.normal(size=(800, 2)), rng.choice(["F", "F ", "M", "", "nan"], 800)
    return X, (X[:, 0] + rng.normal(size=800) > 0).astype(int), {"sex": sex}


def warned(X, y, sex, door):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = door(X, y, sex)
    return [str(w.message) for w in caught if w.category is DataWarning], made


DOORS = {
    "classifier": lambda X, y, sex: fb.FairClassifier(PARITY, budget="5 steps").fit(X, y, sex),
    "thresholds": lambda X, y, sex: fb.PostProcessor(LogisticRegression(), PARITY).fit(X, y, sex),
    "reduction": lambda X, y, sex: fb.Reduction(LogisticRegression(), PARITY).fit(X, y, sex),
    "loop": lambda X, y, sex: fb.optim.Dual(PARITY, groups=sex, targets=y),
    "metrics": lambda X, y, sex: fb.metrics.table("selection_rate", X[:, 0], y, sex, threshold=0),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_door_warns(people, door):
    said, made = warned(*people, DOORS[door])
    assert sum(text.startswith(SPELLED) for text in said) == 1 == sum(text.startswith(BLANK) for text in said)
    if door == "metrics":
        assert set(made.by_group["sex"]) == {"F", "F ", "M", "", "nan"}


def test_records_say_it(people):
    X, y, sex = people
    decided = (X[:, 0] > 0).astype(int)
    for found in (
        fb.audit(decided, y, sex, PARITY),
        fb.compare(decided, 1 - decided, y, sex, draws=100),
        fb.Monitor(PARITY).update(y, decided, sex).look(),
    ):
        assert [w[: len(SPELLED)] == SPELLED for w in found["warnings"]].count(True) == 1
        assert [w[: len(BLANK)] == BLANK for w in found["warnings"]].count(True) == 1


def test_names_with_blanks_at_their_ends_stand_in_quotation_marks():
    assert said_labels(["sex"], [["F", "F ", "", "not said"]]) == (("F", "'F '", "''", "not said"),)
    (said,) = doubtful_groups({"sex": ["F", " "]})
    assert said.startswith("sex: ' ' is counted as a group of people")
    assert doubtful_groups({"sex": ["F", "M", "non binary"]}) == []
