"""Sensitive attributes -> codes: every container, missing values, crossing, new rows, and what is refused."""

import numpy as np
import pytest
import torch

from fairbound.base.errors import DataError
from fairbound.rows.groups import MISSING, Groups, cross, has_names

VALUES = ["b", "a", None, "b", float("nan"), "c"]
CODES = [1, 0, MISSING, 1, MISSING, 2]


def containers():
    pandas, polars, arrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    plain = [v if isinstance(v, str) else None for v in VALUES]
    return {
        "list": VALUES,
        "object array": np.array(VALUES, dtype=object),
        "list of texts and NaN": [float("nan") if v is None else v for v in VALUES],
        "pandas series": pandas.Series(VALUES, name="race"),
        "pandas string": pandas.Series(plain, dtype="string", name="race"),
        "pandas category": pandas.Series(plain, dtype="category", name="race"),
        "pandas frame": pandas.DataFrame({"race": VALUES}),
        "polars series": polars.Series("race", plain),
        "polars frame": polars.DataFrame({"race": plain}),
        "arrow table": arrow.table({"race": plain}),
        "arrow codes": arrow.table({"race": arrow.array(plain).dictionary_encode()}),
        "dict": {"race": VALUES},
        "dict of arrow": {"race": arrow.chunked_array([plain[:2], plain[2:]])},
        "dict of arrays": {"race": arrow.array(plain)},
    }


def test_an_index_has_an_attribute_for_each_of_its_levels():
    pandas = pytest.importorskip("pandas")
    sex, race = ["F", "M", "M"], ["u", "v", None]
    frame = pandas.DataFrame({"sex": sex, "race": race})
    index = pandas.MultiIndex.from_frame(frame)
    found, same = Groups.of(index), Groups.of(frame)
    assert (
        (found.attributes, found.labels)
        == (same.attributes, same.labels)
        == (("sex", "race"), (("F", "M"), ("u", "v")))
    )
    assert found.codes.tolist() == same.codes.tolist() == found.encode(index)[0].codes.tolist()
    assert has_names(index) and not has_names(index.set_names([None, "race"]))
    assert Groups.of(index.set_names([None, "race"])).attributes == ("group0", "race")
    assert Groups.of(pandas.Index(sex, name="sex")).attributes == ("sex",)
    assert Groups.of(pandas.Index(sex)).attributes == ("group",)
    with pytest.raises(DataError, match="these repeat: 'sex'"):
        Groups.of(index.set_names(["sex", "sex"]))


def test_every_container_gives_the_same_codes():
    for name, values in containers().items():
        groups = Groups.of(values)
        assert groups.codes[:, 0].tolist() == CODES, name
        assert groups.labels == (("a", "b", "c"),)
        assert groups.attributes == (
            ("group",) if name in ("list", "list of texts and NaN", "object array") else ("race",)
        ), name
        assert len(groups) == 6 and Groups.of(groups) is groups


def test_numbers_are_labels_in_numeric_order():
    for values in (
        [10, 9, 2, 10],
        np.array([10.0, 9.0, 2.0, 10.0]),
        torch.tensor([10, 9, 2, 10]),
        np.array(["10", "9", "2", "10"]),
    ):
        groups = Groups.of(values)
        assert groups.labels == (("2", "9", "10"),) and groups.codes[:, 0].tolist() == [2, 1, 0, 2]
    assert Groups.of(np.array([True, False, True])).labels == (("False", "True"),)
    assert Groups.of([0.5, 2.0]).labels == (("0.5", "2"),)
    assert Groups.of(np.array([1.0, np.nan, 0.0])).codes[:, 0].tolist() == [1, MISSING, 0]


def test_two_dimensions_are_attributes():
    groups = Groups.of(np.array([[0, "x"], [1, "y"], [1, None]], dtype=object))
    assert groups.attributes == ("group0", "group1") and groups.codes.tolist() == [[0, 0], [1, 1], [1, MISSING]]
    assert Groups.of(np.array([[3], [4]])).attributes == ("group",)
    assert groups.take([2, 0]).codes.tolist() == [[1, MISSING], [0, 0]]
    assert groups.counts() == {"group0": {"0": 1, "1": 2}, "group1": {"x": 1, "y": 1}}


def test_crossing_keeps_the_combinations_that_occur():
    groups = Groups.of({"sex": ["f", "f", "m", "m", None, "f"], "race": ["x", "y", "x", "x", "y", None]})
    crossed = groups.crossed()
    assert crossed.attributes == ("sex*race",) and crossed.labels == (("f & x", "f & y", "m & x"),)
    assert crossed.codes[:, 0].tolist() == [0, 1, 2, 2, MISSING, MISSING]


def test_cross_is_mixed_radix():
    a, b = np.array([0, 1, 1, MISSING]), np.array([2, 0, MISSING, 1])
    assert cross([a, b], [2, 3]).tolist() == [2, 3, MISSING, MISSING]


def test_new_rows_are_read_in_the_codes_of_the_old():
    groups = Groups.of({"sex": ["f", "m", "f"], "race": ["x", "y", "z"]})
    new, unseen = groups.encode({"race": ["z", "w", None, "x"], "sex": ["m", "f", "q", "q"], "other": [1, 2, 3, 4]})
    assert new.codes.tolist() == [[1, 2], [0, MISSING], [MISSING, MISSING], [MISSING, 0]]
    assert unseen == {"sex": 2, "race": 1} and new.attributes == groups.attributes
    with pytest.raises(DataError, match=r"lacks \['race'\]"):
        groups.encode({"sex": ["f"]})
    single = Groups.of([0, 1, 0])
    renamed, unseen = single.encode({"anything": [1, 5]})
    assert renamed.codes[:, 0].tolist() == [1, MISSING] and unseen == {"group": 1}


def test_what_is_refused():
    pandas = pytest.importorskip("pandas")
    twice = pandas.DataFrame([[1, 2], [3, 4]], columns=["a", "a"])
    for values, words in (
        ([None, float("nan")], "no known value"),
        (np.arange(2000), "Bin it first"),
        (np.zeros((2, 2, 2)), "one or two dimensions"),
        ({"a": [1, 2], "b": [1, 2, 3]}, "differ in length"),
        (twice, "must be unique"),
    ):
        with pytest.raises(DataError, match=words):
            Groups.of(values)
    with pytest.raises(DataError, match="codes must be"):
        Groups(np.zeros(3, dtype=np.int64), ("a",), (("x",),))


def test_a_group_with_one_member_and_many_groups_are_groups():
    assert Groups.of(["a"] * 9 + ["b"]).counts() == {"group": {"a": 9, "b": 1}}
    many = np.repeat(np.arange(150), 20)
    assert len(Groups.of(many).labels[0]) == 150


def test_groups_after_those_known_keep_every_row():
    known = Groups.of({"sex": ["F", "M"], "race": ["x", "z"]})
    given = Groups.of({"race": ["y", "z", None], "sex": ["F", "F", "D"]})
    found, new = given.after(known)
    assert found.attributes == ("sex", "race") and found.labels == (("F", "M", "D"), ("x", "z", "y"))
    assert found.codes.tolist() == [[0, 2], [0, 1], [2, MISSING]] and new == {"sex": ["D"], "race": ["y"]}
