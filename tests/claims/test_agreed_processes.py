"""What is wrong in one process of a distributed fit, or otherwise than in the others, is raised in all of them."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from threads import halves, in_threads

import fairbound as fb
from fairbound.base.errors import DataError, OptionError
from fairbound.estimators.sharded import check_agreed, with_labels_of_all


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"use_groups_at_prediction": True}, "thresholds of groups"),
        ({"certify": True}, "for a certificate"),
        ({"class_weight": "balanced"}, "counts the classes"),
        ({"validation": 0.2}, "hold no rows back"),
        ({"budget": "30s"}, "must stop together"),
    ],
)
def test_options_of_one_process_are_refused(options, message, monkeypatch):
    for error in errors_of(monkeypatch, lambda place: (*halves(place)[:3], options)):
        assert isinstance(error, OptionError) and message in str(error)


def errors_of(monkeypatch, given, weights=(None, None)):
    """What two processes raise: given(place) is the table, labels, groups and options of one of them. weights: of both."""
    own = threading.local()
    monkeypatch.setattr("fairbound.estimators.sharded.Processes", lambda: own.shards)

    def fit(shards):
        own.shards = shards
        X, y, group, options = given(shards.place)
        model = fb.FairClassifier(**{"constraint": "demographic_parity <= 0.1", "distributed": True, **options})
        with pytest.raises((DataError, OptionError)) as raised:
            model.fit(X, y, sensitive_features=group, sample_weight=weights[shards.place])
        return raised.value

    return in_threads(2, fit)


def spoilt(what, place):
    X, y, group, options = halves(place)
    if what == "different bounds":
        return X, y, group, {"constraint": f"demographic_parity <= 0.{1 + place}"}
    if not place:
        return X, y, group, options
    if what == "label":
        y[3] = np.nan
    elif what == "infinity":
        X.loc[3, "x"] = np.inf
    elif what == "no rows":
        X, y, group = X[:0], y[:0], group[:0]
    elif what == "no groups":
        group = None
    elif what == "length":
        X = X[:-1]
    elif what == "option":
        options = {"batch_size": 0}
    return X, y, group, options


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("label", "1 of 200 labels are missing (NaN), the first in row 3 "),
        ("infinity", "column 'x' has 1 infinite value, the first in row 3 "),
        ("no rows", "there are no labels"),
        ("no groups", "needs fit(X, y, sensitive_features=...)"),
        ("length", "199"),
        ("option", "batch_size must be at least 1"),
    ],
)
def test_what_is_wrong_in_one_process_is_said_in_all_and_none_waits(monkeypatch, what, said):
    here, there = errors_of(monkeypatch, lambda place: spoilt(what, place))
    assert said in str(there) and "process" not in str(there)
    assert str(here) == f"process 1 of 2 (counting from 0) cannot go on: {there}"


def test_processes_with_other_options_or_attributes_say_so_alike(monkeypatch):
    here, there = errors_of(monkeypatch, lambda place: spoilt("different bounds", place))
    assert str(here) == str(there) and isinstance(here, OptionError)
    assert "constraint is ['demographic_parity <= 0.1'] in process 0 and ['demographic_parity <= 0.2'] in" in str(here)

    def without_groups(place):
        X, y, group, _ = halves(place)
        return X, y, None if place else group, {"constraint": "recall of class 1.0 >= 0.1"}

    here, there = errors_of(monkeypatch, without_groups)
    assert str(here) == str(there) and "different sensitive attributes: [('group',), ()]" in str(here)

    def one_class(place):
        X, y, group, _ = halves(place)
        return X, 0 * y, group, {}

    here, there = errors_of(monkeypatch, one_class)
    assert str(here) == str(there) and "all labels of all processes are 0.0" in str(here)


@pytest.mark.parametrize(
    "options",
    [
        ({"class_weight": {0.0: 1, 1.0: 2}}, {"class_weight": {1: 2.0, 0: 1.0}}),
        ({"batch_size": 64}, {"batch_size": np.int64(64)}),
        ({"constraint": ("demographic_parity <= 0.5",)}, {"constraint": ["demographic_parity <= 0.5"]}),
        ({"options": fb.TableOptions(categorical=["x"])}, {"options": fb.TableOptions(categorical=("x",))}),
    ],
    ids=["dicts", "numbers", "lists", "options of a table"],
)
def test_equal_options_are_the_same_however_they_are_written(monkeypatch, options):
    agree(monkeypatch, options)


def agree(monkeypatch, options):
    """Compare the options of two processes. Raises: where they differ."""
    own = threading.local()
    monkeypatch.setattr("fairbound.estimators.sharded.Processes", lambda: own.shards)

    def agreed(shards):
        own.shards = shards
        stated = {"constraint": "demographic_parity <= 0.5", "distributed": True, **options[shards.place]}
        check_agreed(fb.FairClassifier(**stated))

    in_threads(2, agreed)


def test_options_that_differ_within_are_refused(monkeypatch):
    for options in (
        ({"class_weight": {0.0: 1, 1.0: 2}}, {"class_weight": {0.0: 2, 1.0: 1}}),
        ({"options": fb.TableOptions(min_count=5)}, {"options": fb.TableOptions(min_count=6)}),
    ):
        here, there = errors_of(monkeypatch, lambda place, options=options: (*halves(place)[:3], options[place]))
        assert str(here) == str(there) and f"different options: {next(iter(options[0]))} is " in str(here)


def test_weights_in_one_process_alone_are_refused_in_both(monkeypatch):
    for weights in ((np.ones(200), None), (None, np.ones(200))):
        here, there = errors_of(monkeypatch, halves, weights)
        given = 0 if weights[1] is None else 1
        assert str(here) == str(there) and isinstance(here, DataError)
        assert f"sample_weight is given in process {given} of a distributed fit and not in process {1 - given}" in str(
            here
        )


def test_weights_that_a_process_would_read_in_a_unit_of_its_own_are_refused_in_both(monkeypatch):
    for weights in ((np.full(200, 1e-101), np.ones(200)), (np.full(200, 1e-101), np.full(200, 1e120))):
        here, there = errors_of(monkeypatch, halves, weights)
        assert str(here) == str(there) and isinstance(here, DataError)
        assert "the largest sample_weight of process 0 (counting from 0) is 1e-101; give" in str(here)


@pytest.mark.parametrize(("turned", "kind"), [(lambda y: y.astype(int).astype(str), "text"), (lambda y: y > 0, "bool")])
def test_labels_of_another_kind_in_one_process_are_refused_in_both(monkeypatch, turned, kind):
    def given(place):
        X, y, group, _ = halves(place)
        return X, turned(y) if place else y.astype(int), group, {}

    here, there = errors_of(monkeypatch, given)
    assert str(here) == str(there) and isinstance(here, DataError)
    assert f"the labels are number values in process 0 and {kind} values in process 1" in str(here)


def test_numbers_kept_as_objects_in_one_process_are_the_same_labels(monkeypatch):
    labels = ([0, 1, 1], np.array([0.0, 1.0]), np.array([1, 0], dtype=object))
    found = in_threads(3, lambda own: with_labels_of_all(labels[own.place], own))
    assert [(sorted(set(map(repr, values.tolist()))), n) for values, n in found] == [
        (["0.0", "1.0"], n) for n in (3, 2, 2)
    ]


def test_classes_and_weights_that_one_process_refuses_end_both(monkeypatch):
    """More than 100 labels in fewer than ten rows each, as one of the two sees it; a warning of weights made an error."""

    def given(place):
        n = 1380 if place else 100
        X, _, group, _ = halves(place, n)
        return X, np.arange(n) % 150, group, {"constraint": "recall of class 3 >= 0.1"}

    here, there = errors_of(monkeypatch, given)
    assert "the labels have 150 values" in str(here)
    assert str(there) == f"process 0 of 2 (counting from 0) cannot go on: {here}"

    def warn(weight):
        if weight[0] == 2:
            raise DataError("weights unlike each other")

    monkeypatch.setattr("fairbound.rows.weighted.warn_of_weights", warn)
    here, there = errors_of(monkeypatch, halves, (np.ones(200), np.full(200, 2.0)))
    assert str(here) == f"process 1 of 2 (counting from 0) cannot go on: {there}"


def test_modules_that_begin_at_other_parameters_are_refused_in_both(monkeypatch):
    modules = [torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1)) for _ in (0, 1)]
    given = lambda place: (*halves(place)[:3], {"model": modules[place]})  # noqa: E731
    here, there = errors_of(monkeypatch, given)
    assert str(here) == str(there) and isinstance(here, OptionError)
    assert "the module begins at other parameters in process 1 than in process 0" in str(here)
    modules[1].load_state_dict(modules[0].state_dict())
    agree(monkeypatch, [given(place)[3] for place in (0, 1)])
