"""Groups whose names are blank, read like a missing value, or differ in spelling alone: every door says so, and merges none."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import fairbound as fb
from fairbound.base.errors import DataError, DataWarning
from fairbound.rows.doubtful import doubtful_groups, twin_words
from fairbound.rows.groups import Groups, said_labels

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


@pytest.mark.parametrize("name", ["unknown", "Not Stated", "missing"])
def test_words_for_not_known_are_asked_about(name):
    (said,) = doubtful_groups({"race": ["a", "b", name]})
    assert said.startswith(f"race: {name!r} is counted as a group of people")


def test_letters_stored_in_two_ways_are_told():
    said = doubtful_groups({"name": ("Zo\u00e9", "Zoe\u0301", "Ann")})
    assert len(said) == 1 and r"'Zo\xe9' and 'Zoe\u0301' differ only in how their letters are stored" in said[0]


def test_a_feature_that_is_a_group_by_another_name_is_told():
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], 300)
    title = np.where(sex == "f", "Ms", "Mr").astype(object)
    X = pd.DataFrame({"x": rng.normal(size=300), "title": title, "code": np.where(sex == "f", 1.0, 2.0)})
    y = (X.x + rng.normal(size=300) > 0).astype(int)
    groups = Groups.of({"sex": sex, "other": rng.choice(["a", "b"], 300)})
    said = twin_words(X, groups)
    assert [text[:45] for text in said] == [
        f"Column {c!r} is the sensitive attribute 'sex'"[:45] for c in ("title", "code")
    ]
    with pytest.warns(DataWarning, match="Column 'title' is the sensitive attribute 'sex' by another name"):
        fb.FairClassifier(PARITY, budget="5 steps").fit(X[["x", "title"]], y, {"sex": sex})
    for kept in (
        X[["x"]],
        X.assign(title=["Dr", *title[1:]])[["title"]],
        X.rename(columns={"title": "sex"})[["sex"]],
    ):
        assert not twin_words(kept, groups)
    assert not twin_words(X[:8], Groups.of({"sex": sex[:8]}))  # too few rows to tell it from chance
    unknown = Groups.of({"sex": np.where(np.arange(300) < 250, sex, None)})
    assert len(twin_words(X.assign(title=[*title[:250], *["Dr"] * 50]), unknown)) == 2  # rows of no group say nothing
    one = sex == "f"
    for alone in (
        Groups.of({"sex": sex[one]}),
        Groups.of({"sex": np.where(one, sex, None)}),
        groups.take(np.flatnonzero(one)),
    ):
        rows = X[one] if len(alone) == one.sum() else X
        assert not twin_words(rows.assign(title="Ms", code=1.0), alone)  # a constant is no name of the one group


TABLES = {
    "floats": lambda X: X,
    "objects": lambda X: X.astype(object),
    "texts": lambda X: X.astype(str),
    "lists": lambda X: X.tolist(),
    "tensor": torch.tensor,
    "rows of a sparse table": sparse.csr_matrix,
    "cells of a sparse table": sparse.coo_array,
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_columns_without_names_that_are_a_group_are_told(table):
    rng = np.random.default_rng(0)
    sex, race = np.repeat(["f", "m"], 300), rng.choice(["a", "b", "c"], 600)
    code = np.searchsorted(["a", "b", "c"], race)
    own = [rng.normal(size=600), rng.random(600) < 0.5, race == "b"]
    X = table(np.column_stack([*own, sex == "m", sex == "f", code]).astype(float))
    said = twin_words(X, Groups.of({"sex": sex, "race": race}))
    assert [text[: text.index(" by")] for text in said] == [
        f"Column {column!r} is the sensitive attribute {attribute!r}"
        for column, attribute in (("x3", "sex"), ("x4", "sex"), ("x5", "race"))
    ]
    other = np.where(np.arange(600) == 599, "f", sex)  # one row, far down, is of the other group
    assert not twin_words(X, Groups.of({"sex": other}))
    unknown = Groups.of({"sex": np.where(np.arange(600) % 599 == 0, None, other)})
    assert len(twin_words(X, unknown)) == 2  # rows of no group say nothing
    assert not twin_words(X, Groups.of({"sex": sex[:500]}))


@pytest.mark.parametrize("X", [[[1.0], [1.0, 2.0]] * 20, np.zeros((40, 2, 2)), [{"a": 1}] * 40])
def test_what_is_no_table_has_no_such_column(X):
    assert twin_words(X, Groups.of(np.repeat(["f", "m"], 20))) == []


def test_dropping_columns_that_have_no_names_is_warned_of():
    rng = np.random.default_rng(0)
    sex, x = rng.choice(["f", "m"], 300), rng.normal(size=300)
    y = (x + rng.normal(size=300) > 0).astype(int)
    for table in (np.column_stack, lambda columns: sparse.csr_matrix(np.column_stack(columns))):
        X = table([x, sex == "m"])
        fit = {
            choice: warned(X, y, {"sex": sex}, lambda *given, choice=choice: fb.FairClassifier(
                PARITY, budget="5 steps", sensitive_columns=choice).fit(*given))
            for choice in ("keep", "drop")
        }  # fmt: skip
        (twin,), model = fit["keep"]
        assert twin.startswith("Column 'x1' is the sensitive attribute 'sex'") and twin in model.fit_report_["notes"]
        (nothing, also), model = fit["drop"]
        assert nothing == (
            "Nothing was dropped: sensitive_columns='drop' finds columns by their names, and X has none. Pass a data frame, or "
            "leave columns that tell sex out of X."
        )
        assert also == twin and nothing in model.fit_report_["notes"] and model.dropped_columns_ == []


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["1", "2", "-9"], True),
        (["f", "m", "-99"], True),
        (["-2", "1", "-9"], False),
        (["-1", "1"], False),
        (["0", "1", "-1"], True),
        (["0", "f", "-1"], False),
    ],
)
def test_a_group_named_by_a_code_for_a_missing_value_is_doubted(names, said):
    found = doubtful_groups({"sex": names})
    assert len(found) == said and all(f"sex: {names[-1]!r} is counted as a group" in line for line in found)


OTHERS = {
    "regressor": lambda X, y, third: fb.FairRegressor("residual_gap <= 0.5").fit(X, X[:, 0], third),
    "audit": lambda X, y, third: fb.audit(X[:, 0], y, third, PARITY, threshold=0),
}


@pytest.mark.parametrize("door", {**DOORS, **OTHERS})
def test_weights_in_the_place_of_groups_are_refused_or_warned_of(door):
    """scikit-learn's third argument of fit is the weights; here it is the groups."""
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(60, 2)), rng.uniform(0.5, 2, 60)
    y, call = (X[:, 0] + rng.normal(size=60) > 0).astype(int), {**DOORS, **OTHERS}[door]
    for given in (weight, weight.tolist(), pd.Series(weight, name="w"), np.tile(weight[:25], 3)[:60]):
        with pytest.raises(
            DataError, match=r"values in 60 rows.*Weights of rows are passed by name, as sample_weight="
        ):
            call(X, y, given)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = call(X, y, np.where(np.arange(60) % 2, 0.75, 1.5))  # as of class weights
    said = made["warnings"] if door == "audit" else [str(w.message) for w in caught if w.category is DataWarning]
    assert sum("groups that are fractions, such as 1.5. If these are weights" in text for text in said) == 1


def test_whole_numbers_and_few_fractions_are_groups():
    assert len(Groups.of(np.repeat(np.arange(40.0), 20)).labels[0]) == 40
    assert len(Groups.of(np.tile([0.5, 1.5], 20)).labels[0]) == 2
    assert doubtful_groups({"decade": ("10", "20")}) == doubtful_groups({"size": ("1.5", "big")}) == []


@pytest.mark.parametrize("door", ["classifier", "thresholds", "reduction"])
@pytest.mark.parametrize("finer", [False, True])
def test_a_label_that_is_told_by_the_group_is_warned_of_in_training(door, finer):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 2)), rng.integers(0, 2, 400)
    own = 2 * rng.integers(0, 2, 400) + y if finer else y
    told = "The groups of who tell the labels: all rows of a group have the same label"
    said, _ = warned(X, y, {"who": own}, DOORS[door])
    assert sum(text.startswith(told) for text in said) == 1
    said, _ = warned(X, y, {"who": np.where(np.arange(400) == 7, 1 - y, y)}, DOORS[door])
    assert not any(text.startswith(told) for text in said)


def test_a_wide_sparse_table_is_looked_at_without_filling_it():
    """100,000 columns of 500 rows would be 400 MB of numbers."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 500)
    wide = sparse.random(500, 100_000, density=1e-4, format="csr", random_state=rng)
    for dtype in (float, bool):
        X = sparse.hstack([wide, sparse.csr_matrix(group[:, None])]).tocsr().astype(dtype)
        tracemalloc.start()
        said = twin_words(X, Groups.of(group))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(said) == 1 and said[0].startswith("Column 'x100000' is") and peak < 40e6
