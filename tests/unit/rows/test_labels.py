"""Label columns -> class numbers: every container, the positive class, and what is refused."""

from __future__ import annotations

import re
import warnings
from decimal import Decimal

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.base.errors import DataError, DataWarning, OptionError
from fairbound.rows.labels import binary_labels, class_labels, class_tuple, labels_of, positive_last, read_targets
from fairbound.rows.reading import number_column

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        ([0, 1, 1, 0], (0, 1)),
        ([-1, 1, 1, -1], (-1, 1)),
        ([1.0, 2.0, 2.0, 1.0], (1.0, 2.0)),
        ([False, True, True, False], (False, True)),
        (["no", "yes", "yes", "no"], ("no", "yes")),
        (["<=50K", ">50K", ">50K", "<=50K"], ("<=50K", ">50K")),
    ],
)
def test_the_greater_label_is_positive_in_every_container(y, classes):
    forms = [y, tuple(y), np.array(y), np.array(y, dtype=object), pd.Series(y), pl.Series(y), np.array(y)[:, None]]
    forms += [pd.Series(y, dtype="category"), pd.DataFrame({"y": y}), pl.DataFrame({"y": y})]
    forms += [pa.array(y), pa.chunked_array([y[:1], y[1:]]), pa.table({"y": y})]
    forms += [] if isinstance(y[0], str) else [torch.tensor(y)]
    for form in forms:
        codes, found = binary_labels(form)
        assert codes.dtype == np.int64 and codes.tolist() == [0, 1, 1, 0]
        assert found == classes and [type(v) for v in found] == [type(v) for v in classes]


def test_decimal_labels_are_numbers():
    y = [Decimal("0"), Decimal("1.00"), Decimal("1"), Decimal("0")]
    for form in (y, pd.Series(y), pl.Series(y), pa.array(y)):
        codes, found = binary_labels(form)
        assert codes.tolist() == [0, 1, 1, 0] and found == (0.0, 1.0)
    score, group = [0.2, 0.7, 0.4, 0.1], ["a", "b", "a", "b"]
    for given in (y, [0, 1, 1, 0]):
        found = fb.audit(score, given, group, "demographic_parity <= 0.1", threshold=0.5)
        assert found["metrics"]["accuracy"] == 0.75
    assert binary_labels(y, positive=Decimal(0))[1] == (1.0, 0.0)
    with pytest.raises(DataError, match="1 of 3 labels are missing"):
        binary_labels([*y[:2], Decimal("NaN")])


@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_label_is_asked_about_and_not_advised(blank):
    for other in ("no", "yes"):
        with pytest.warns(DataWarning, match=f"The label {blank!r} is blank.*; {other!r} is positive") as caught:
            assert binary_labels([blank, other] * 3)[1] == (blank, other)
        assert len(caught) == 1 and "positive=" not in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert binary_labels([blank, "no"] * 3, "no")[1] == (blank, "no")
    with pytest.raises(DataError, match=f"Is {blank!r} a code for a missing label.* such as y == 'no'"):
        binary_labels([blank, "no", "yes"] * 12)
    with pytest.raises(DataError, match=r"5 values.* such as y == 'a'"):
        binary_labels([blank, "a", "b", "c", "d"] * 12)


def test_a_blank_label_is_not_named_where_scores_seem_turned_round():
    y, group = np.repeat(["", "hired"], 200), np.tile(["a", "b"], 200)
    scores = np.linspace(1, 0, 400)
    with pytest.warns(DataWarning, match="is blank"):
        said = " ".join(fb.audit(scores, y, group, threshold=0.5)["warnings"])
    assert "higher for '' than for hired" in said and "Did you mean" not in said
    assert "Did you mean refused" in " ".join(
        fb.audit(scores, np.where(y == "", "refused", y), group, threshold=0.5, positive="hired")["warnings"]
    )


def test_positive_picks_the_label_that_becomes_one():
    codes, classes = binary_labels(["approved", "denied"], positive="approved")
    assert codes.tolist() == [1, 0] and classes == ("denied", "approved")
    assert binary_labels([0, 1], positive="0")[1] == (1, 0)
    assert binary_labels(["0", "1"], positive=0)[1] == ("1", "0")
    assert binary_labels([True, False], positive="False")[1] == (True, False)
    for named, said in (("ok", "Name one of these."), ("YES", "Did you mean 'yes'?"), ("yse", "Did you mean 'yes'?")):
        with pytest.raises(
            DataError, match=re.escape(f"positive='{named}' is not among the labels 'no', 'yes'. {said}")
        ):
            binary_labels(["no", "yes"], positive=named)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([], "no labels"),
        ([1, 1], "one class, 1"),
        (
            [0, 1, 2],
            r"two classes are needed.*the labels have 3 values, 0, 1, 2\..*against the rest.*Only binary classification",
        ),
        ([0.1, 0.2, 0.3], "Unknown label type: continuous"),
        ([0, 1, None], r"1 of 3 labels are missing \(NaN\), the first in row 2"),
        ([0.0, float("nan"), 1.0], "the first in row 1"),
        (pd.Series(["a", pd.NA, "b"], dtype="string"), "1 of 3 labels are missing"),
        (pl.Series(["a", None, "b"]), "1 of 3 labels are missing"),
        ([0.0, float("inf")], "infinite"),
        (["a", 1], "mix number and text"),
        ([True, 0], "mix bool and number"),
        (np.zeros((2, 2)), r"one column, got shape \(2, 2\)"),
        ([[0, 1], [1, 0]], "one column"),
        ([b"a", b"b"], "a label is a bytes"),
    ],
)
def test_wrong_labels_are_refused(y, words):
    with pytest.raises(DataError, match=words):
        binary_labels(y)


def test_the_codes_of_any_number_of_classes_are_places_in_sorted_order():
    codes, classes = class_labels(["c", "a", "b", "a"])
    assert codes.tolist() == [2, 0, 1, 0] and classes == ("a", "b", "c")
    with pytest.raises(DataError, match=r"^two classes are needed"):
        positive_last(codes, classes)
    with pytest.raises(DataError, match=r"^positive='a' needs two classes"):
        positive_last(codes, classes, np.str_("a"))
    codes, classes = class_labels(np.array([2.5, 1.5, 2.5]))
    assert positive_last(codes, classes, 1.5) == (pytest.approx([0, 1, 0]), (2.5, 1.5))


def test_targets_are_zero_and_one_already():
    for y in ([0, 1, 1], np.array([[0.0], [1.0], [1.0]]), torch.tensor([0, 1, 1]), pl.Series([False, True, True])):
        assert read_targets(y, 3).tolist() == [0, 1, 1]
    assert read_targets(None, 3) is None
    for texts in (["no", "yes", "no"], np.array(["no", "yes", "no"], dtype=object), pl.Series(["no", "yes", "no"])):
        with pytest.raises(DataError, match=r"3 of 3 rows hold others, such as 'no'.* Pass y == POSITIVE"):
            read_targets(texts, 3)
    with pytest.raises(DataError, match=r"2 of 3 rows hold others, such as -1"):
        read_targets([-1, 1, -1], 3)
    with pytest.raises(DataError, match=r"shape \(2,\), got \(3,\)"):
        read_targets([0, 1, 1], 2)


@pytest.mark.parametrize(
    "labels", [["approved", "denied"], ["1. Yes", "2. No"], ["hired", "not_hired"], ["Ja", "Nein"]]
)
def test_a_positive_label_that_says_no_is_asked_about_unless_it_is_named(labels):
    with pytest.warns(DataWarning, match=f"'{labels[1]}' counts as positive.*pass positive='{labels[0]}'"):
        assert binary_labels(labels)[1] == tuple(labels)
    for positive in labels:
        assert binary_labels(labels, positive)[1][1] == positive
    for pair in (["no", "yes"], ["non", "oui"], ["north", "south"], ["no", "not known"], ["a note", "notable"]):
        assert binary_labels(pair)[1] == tuple(pair)


@pytest.mark.parametrize("order", [["low", "high"], ["high", "low"], ["low", "middle", "high"]])
def test_categories_whose_order_is_not_that_of_the_alphabet_are_asked_about(order):
    labels = pd.Series(pd.Categorical(["low", "high", "low"], categories=order, ordered=True))
    if order[-1] == "high":
        asked = "'low' counts as positive.*categories end with 'high'.*pass positive='high'"
        for given in (labels, labels.to_frame("y"), pl.Series(labels.tolist(), dtype=pl.Enum(order))):
            with pytest.warns(DataWarning, match=asked):
                assert binary_labels(given)[1] == ("high", "low")
    for given, positive in ((labels, "high"), (labels.astype("category").cat.as_unordered(), None), (labels, "low")):
        assert binary_labels(given, positive)[1][1] == (positive or "low")
    if order[-1] == "low":
        assert binary_labels(labels)[1] == ("high", "low")


def test_amounts_are_told_from_classes():
    with pytest.raises(DataError, match="make a label of those above a threshold, or predict the number itself"):
        binary_labels(list(range(11)) * 10)
    with pytest.raises(DataError, match="one class against the rest, such as y == 0, and take that"):
        binary_labels(list(range(10)) * 10)


def test_the_class_to_set_against_the_rest_is_the_one_that_was_named():
    with pytest.raises(DataError, match=r"positive='live' needs two classes.* such as y == 'live ', and take that"):
        binary_labels(["dead", "live ", "lost"], positive="live")


def test_labels_that_differ_in_capitals_or_blanks_alone_are_said_to():
    with pytest.raises(DataError, match="3 values, 'No', 'Yes', 'yes ', which differ only in capitals or blanks"):
        binary_labels(["No", "Yes", "yes ", "No"])


def test_of_three_labels_and_more_those_spelled_alike_are_named_first():
    said = "'Yes' and 'yes' differ only in capitals or blanks. Write them alike. "
    with pytest.raises(DataError, match=re.escape(said)) as raised:
        binary_labels(["No", "Yes", "yes", "lost"], positive="yes")
    assert "one class against the rest" not in str(raised.value)


def test_the_number_of_classes_stands_for_labels_from_0():
    assert class_tuple(3) == class_tuple(np.int64(3)) == class_tuple(range(3)) == (0, 1, 2)
    for wrong in (1, True, 2.0, "3", ["a"], 10**6 + 1, 10**30):
        with pytest.raises(
            OptionError,
            match="two or more classes, or their number k, up to 1,000,000, where labels are 0 to k - 1; got",
        ):
            class_tuple(wrong)
    scores, y, group = np.eye(3)[[0, 1, 2, 0, 1, 1]], np.array([0, 1, 2, 0, 1, 2]), np.array(list("aaabbb"))
    named = fb.measure("class_recall_parity", scores, y, group, classes=range(3))
    assert fb.measure("class_recall_parity", scores, y, group, classes=3) == named == 1.0
    assert fb.audit(scores, y, group, "class_recall_parity <= 0.1", classes=3)["data"]["classes"] == ["0", "1", "2"]
    assert fb.Monitor("class_recall_parity <= 0.1", classes=3).classes == ("0", "1", "2")


def test_a_positive_label_may_be_written_as_in_a_file():
    assert binary_labels([True, False], positive="TRUE")[1] == (False, True)
    assert binary_labels([True, False], positive="false")[1] == (True, False)
    assert binary_labels([0.0, 1.0], positive="0")[1] == (1.0, 0.0)
    assert labels_of([True, True], "TRUE")[0].tolist() == [1, 1]
    assert binary_labels(["live          ", "dead "], positive="live")[1] == ("dead ", "live          ")
    assert binary_labels(["a", "a ", "a"], positive="a")[1] == ("a ", "a")
    with pytest.raises(DataError, match="positive='TRUE' is not among the labels 'True', 'no'"):
        binary_labels(["True", "no"], positive="TRUE")  # texts are as they stand in the file


def test_a_label_that_may_be_a_code_for_missing_is_asked_about():
    for labels, code in (([-9, 0, 1], "-9"), (["999", "no", "yes"], "'999'"), ([1, 2, 9.0], r"9\.0")):
        with pytest.raises(
            DataError, match=rf"Is {code} a code for a missing label\? Then empty these cells"
        ) as raised:
            binary_labels(labels * 10)
        assert f"y == {code}" not in str(raised.value)
    with pytest.raises(DataError) as raised:
        binary_labels(list(range(10)) * 10)
    assert "a code for" not in str(raised.value)


def test_numbers_given_as_texts_are_spoken_of():
    with pytest.warns(DataWarning, match=r"the labels y: texts such as '1\.5' are read as numbers"):
        assert number_column("the labels y", ["1.5", "2"]).tolist() == [1.5, 2.0]
