"""Tables and streams of metrics: equal to fairlearn's and to loops, whole in parts, and honest about groups without rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sklearn
from fairlearn import metrics as theirs
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, mean_absolute_error, recall_score
from sklearn.model_selection import cross_validate

import fairbound as fb
from fairbound.base.errors import DataError, OptionError
from fairbound.rows.groups import Groups

NAMES = ("selection_rate", "true_positive_rate", "false_positive_rate", "accuracy", "f1", "positive_predictive_value")


def rows(seed=0, n=500):
    rng = np.random.default_rng(seed)
    y, d = rng.integers(0, 2, n), rng.integers(0, 2, n)
    groups = {"sex": rng.choice(["F", "M"], n), "race": rng.choice(["a", "b", "c"], n)}
    return d, y, groups, rng.uniform(0.5, 2, n)


def flat(values):
    return [v for groups in values.values() for row in groups.values() for v in row.values()]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("attribute", ["sex", "race"])
def test_values_differences_and_ratios_are_fairlearns(attribute, weighted):
    d, y, groups, weight = rows()
    functions = {"selection_rate": theirs.selection_rate, "true_positive_rate": theirs.true_positive_rate,
                 "false_positive_rate": theirs.false_positive_rate, "accuracy": accuracy_score}  # fmt: skip
    params = {name: {"sample_weight": weight} for name in functions} if weighted else None
    frame = theirs.MetricFrame(
        metrics=functions, y_true=y, y_pred=d, sensitive_features=groups[attribute], sample_params=params
    )
    ours = fb.metrics.table(
        list(functions), d, y, {attribute: groups[attribute]}, sample_weight=weight if weighted else None
    )
    for name in functions:
        assert ours.overall[name] == pytest.approx(frame.overall[name], abs=1e-12)
        for g in frame.by_group.index:
            assert ours.by_group[attribute][g][name] == pytest.approx(frame.by_group.loc[g, name], abs=1e-12)
    for against, how in (("pairwise", "between_groups"), ("overall", "to_overall")):
        for mine, other in ((ours.difference, frame.difference), (ours.ratio, frame.ratio)):
            assert mine(against)[attribute] == pytest.approx(dict(other(method=how)), abs=1e-12)
    assert ours.group_min()[attribute] == pytest.approx(dict(frame.group_min()))
    assert ours.group_max()[attribute] == pytest.approx(dict(frame.group_max()))


def test_a_table_goes_to_fairlearn_and_back():
    d, y, groups, _ = rows()
    found = fb.metrics.table(NAMES, d, y, groups)
    frame = fb.metrics.to_fairlearn(found, "race")
    assert dict(frame.overall) == found.overall
    assert dict(frame.difference()) == pytest.approx(found.difference()["race"])
    back = fb.metrics.from_fairlearn(frame)
    assert back.by_group == {"race": found.by_group["race"]} and back.overall == found.overall
    whole = theirs.MetricFrame(metrics=accuracy_score, y_true=y, y_pred=d, sensitive_features=groups)
    ours = fb.metrics.table("accuracy", d, y, groups, attributes="crossed")
    read = fb.metrics.from_fairlearn(whole)
    assert flat(read.by_group) == pytest.approx(flat(ours.by_group))
    assert list(read.by_group) == list(ours.by_group) == ["sex*race"]
    controlled = theirs.MetricFrame(
        metrics=accuracy_score, y_true=y, y_pred=d, sensitive_features=groups["sex"], control_features=groups["race"]
    )
    with pytest.raises(OptionError, match="control features"):
        fb.metrics.from_fairlearn(controlled)
    with pytest.raises(OptionError, match="attribute must be one of 'sex', 'race'"):
        fb.metrics.to_fairlearn(found)


@pytest.mark.parametrize("seed", range(3))
def test_a_stream_is_the_table_of_all_rows(seed):
    """In any order of batches and of merges, with groups that come late."""
    d, y, groups, _ = rows(seed)
    order = np.argsort(groups["race"], kind="stable")  # the first batches lack b and c
    parts = np.array_split(order, 7)
    streams = [fb.metrics.Stream(NAMES) for _ in range(2)]
    for i, at in enumerate(parts):
        streams[i % 2].update(d[at], y[at], {a: g[at] for a, g in groups.items()})
    merged = streams[1].merge(streams[0])
    for attributes in ("each", "crossed", "both"):
        assert merged.compute(attributes) == fb.metrics.table(NAMES, d, y, groups, attributes=attributes)
    assert merged.measure("equalized_odds") == fb.measure("equalized_odds", d, y, groups)
    found, whole = merged.audit("demographic_parity <= 0.1"), fb.audit(d, y, groups, "demographic_parity <= 0.1")
    assert found["constraints"] == whole["constraints"] and len(merged) == len(y)


def test_groups_without_rows_are_said_and_keep_their_place():
    d, y, groups, _ = rows()
    some = groups["race"] != "b"
    stream = fb.metrics.Stream("true_positive_rate", groups={"race": ["c", "b", "a", "z"]})
    stream.update(d[some], y[some], {"race": groups["race"][some]})
    found = stream.compute()
    assert list(found.by_group["race"]) == ["c", "b", "a", "z"]
    assert [n for n in found.counts["race"].values()] == [
        np.sum(groups["race"] == "c"),
        0,
        np.sum(groups["race"] == "a"),
        0,
    ]
    assert math.isnan(found.by_group["race"]["b"]["true_positive_rate"])
    assert found.missing == ("race: the group 'b' has no row.", "race: the group 'z' has no row.")
    assert math.isnan(found.difference()["race"]["true_positive_rate"])
    assert found.difference(missing="drop")["race"]["true_positive_rate"] >= 0
    stream.update(d[:5], y[:5], {"race": ["?"] * 5})
    assert (
        stream.unseen == {"race": 5}
        and "5 of these rows have a group that was not declared" in stream.compute().missing[-1]
    )
    known = Groups.of(groups["race"]).encode(groups["race"][some])[0]
    again = fb.metrics.table("true_positive_rate", d[some], y[some], known)
    assert list(again.by_group["group"]) == ["a", "b", "c"] and "'b' has no row" in again.missing[0]


def test_a_batch_may_have_no_rows_and_no_known_group():
    d, y, groups, _ = rows()
    region = np.array([f"r{i % 120}" for i in range(1500)])
    stream = fb.metrics.Stream("selection_rate")
    stream.update([], [], {"sex": []})
    with pytest.raises(DataError, match="no row has come yet"):
        stream.compute()
    stream.update(d[:50], y[:50], {"sex": [None] * 50})
    with pytest.raises(DataError, match="'sex' has no known value"):
        stream.compute()
    stream.update(d[50:], y[50:], {"sex": groups["sex"][50:]})
    sex = [None] * 50 + list(groups["sex"][50:])
    assert stream.compute() == fb.metrics.table("selection_rate", d, y, {"sex": sex})
    d, y, *_ = rows(n=1500)
    many = fb.metrics.Stream("selection_rate")
    for at in range(0, 1500, 500):
        many.update(d[at : at + 500], y[at : at + 500], {"region": region[at : at + 500]})
        if at == 0:
            with pytest.raises(DataError, match="'region' has 120 values in 500 rows"):
                many.compute()
    assert len(many.compute().by_group["region"]) == 120
    declared = fb.metrics.Stream("selection_rate", groups={"region": sorted(set(region))})
    declared.update(d[:500], y[:500], {"region": region[:500]})
    assert len(declared.audit()["groups"]) == len(declared.compute().by_group["region"]) == 120


def test_own_functions_have_bootstrap_intervals():
    rng = np.random.default_rng(0)
    y, predicted, sex = rng.normal(size=400), rng.normal(size=400), rng.choice(["F", "M"], 400)
    metrics = {"mae": mean_absolute_error, "bias": lambda y, p: np.mean(p - y)}
    found = fb.metrics.table(metrics, predicted, y, {"sex": sex}, bootstrap=200)
    at = sex == "F"
    assert found.by_group["sex"]["F"]["mae"] == pytest.approx(np.abs(predicted - y)[at].mean())
    low, high = found.intervals["sex"]["F"]["bias"]
    error = (predicted - y)[at].std() / np.sqrt(at.sum())
    assert (high - low) / 2 == pytest.approx(1.96 * error, rel=0.3)
    assert found == fb.metrics.table(metrics, predicted, y, {"sex": sex}, bootstrap=200)
    with pytest.raises(OptionError, match="takes no sample_weight"):
        fb.metrics.table({"bias": metrics["bias"]}, predicted, y, sex, sample_weight=np.ones(400))
    frame = found.to_pandas()
    assert (
        frame.loc[("sex", "M"), "mae_lower"] <= frame.loc[("sex", "M"), "mae"] <= frame.loc[("sex", "M"), "mae_upper"]
    )


def test_limits_of_rates_are_those_of_an_audit():
    d, y, groups, _ = rows()
    found, audit = fb.metrics.table(NAMES, d, y, groups), fb.audit(d, y, groups)
    for entry in audit["groups"]:
        for name in ("selection_rate", "true_positive_rate"):
            limits = found.intervals[entry["attribute"]][entry["group"]][name]
            assert limits == (entry["rates"][name]["lower"], entry["rates"][name]["upper"])
    assert found.by_group["sex"]["F"]["f1"] == pytest.approx(
        2 * np.sum((d & y)[groups["sex"] == "F"]) / np.sum((d + y)[groups["sex"] == "F"])
    )


def test_a_scorer_asks_for_the_groups():
    rng = np.random.default_rng(0)
    X, sex = rng.normal(size=(200, 2)), rng.choice(["F", "M"], 200)
    y = (X[:, 0] + (sex == "M") > 0.5).astype(int)
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = fb.scorer("equalized_odds")
        assert scorer.get_metadata_routing().consumes("score", ["sensitive_features"]) == {"sensitive_features"}
        made = cross_validate(LogisticRegression(), X, y, scoring=scorer, params={"sensitive_features": sex}, cv=3)
    assert (made["test_score"] <= 0).all() and np.isfinite(made["test_score"]).all()


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [({"metrics": "recal"}, OptionError, "unknown metric"), ({"metrics": []}, OptionError, "at least one"),
     ({"metrics": {"x": 3}}, OptionError, "must be the name"), ({"confidence": 1}, OptionError, "confidence"),
     ({"attributes": "all"}, OptionError, "attributes must be"), ({"y": [0, 1, 2], "metrics": "f1"}, DataError, "accuracy and error_rate"),
     ({"y": [0, 1, 2], "scores": [0.5, 0.1, 1]}, DataError, "predictions are fractions"),
     ({"positive": "yes"}, DataError, "positive='yes' is not among"),
     ({"y": [0, 1]}, DataError, "3 scores and 2 labels"), ({"sensitive_features": ["a", "b"]}, DataError, "2 rows"),
     ({"scores": [], "y": []}, DataError, "no rows")],
)  # fmt: skip
def test_bad_input_is_said(change, error, words):
    given = {
        "metrics": "accuracy",
        "scores": [0, 1, 1],
        "y": [0, 1, 0],
        "sensitive_features": ["a", "b", "a"],
        **change,
    }
    with pytest.raises(error, match=words):
        fb.metrics.table(**given)


@pytest.mark.parametrize("labels", [("no", "yes"), (1, 2), (0, 7), (-1, 0), (2.0, 3.0)], ids=str)
@pytest.mark.parametrize("positive", [False, True])
def test_labels_of_any_two_values_are_those_of_an_audit(labels, positive):
    """The greater one is positive unless the other is named; predictions may be such labels or scores of the positive one."""
    d, y, groups, _ = rows()
    named = labels[0] if positive else None
    wanted = fb.metrics.table(NAMES, 1 - d if positive else d, 1 - y if positive else y, groups)
    given = np.array(labels, dtype=object if isinstance(labels[0], str) else None)
    for decided in (given[d], list(given[d].tolist()), np.where(d == (0 if positive else 1), 0.75, 0.25)):
        assert fb.metrics.table(NAMES, decided, given[y], groups, positive=named) == wanted
    if not positive:
        audit = fb.audit(given[d], given[y], groups)
        assert audit["metrics"]["selection_rate"] == wanted.overall["selection_rate"]


def test_streams_of_different_things_do_not_merge():
    with pytest.raises(DataError, match="no row has come yet"):
        fb.metrics.Stream().compute()
    one, two = fb.metrics.Stream(threshold=0.5), fb.metrics.Stream(threshold=0)
    with pytest.raises(DataError, match="merged only where"):
        one.merge(two)
    one.update([0.2, 0.8], [0, 1], ["a", "b"])
    with pytest.raises(DataError, match="needs the rows themselves"):
        one.measure("loss_gap")
    one.reset()
    assert len(one) == 0
    with pytest.raises(OptionError, match="pairwise"):
        fb.metrics.table("accuracy", [0, 1], [0, 1], ["a", "b"]).difference("best")


def test_scikit_learns_functions_are_taken():
    d, y, groups, weight = rows()
    found = fb.metrics.table({"recall": recall_score, "tpr": "true_positive_rate"}, d, y, groups, sample_weight=weight)
    for values in found.by_group["race"].values():
        assert values["recall"] == pytest.approx(values["tpr"])


@pytest.mark.parametrize(
    ("name", "meant"),
    [("recall", "true_positive_rate"), ("Precision", "positive_predictive_value"), ("t_p_r", "true_positive_rate")],
)
def test_the_usual_name_of_a_rate_leads_to_ours(name, meant):
    with pytest.raises(OptionError, match=f"unknown metric '{name}'; write '{meant}'. Known: selection_rate"):
        fb.metrics.table(name, [0, 1], [0, 1], ["a", "b"])
    with pytest.raises(OptionError, match="did you mean 'selection_rate'"):
        fb.metrics.table("selction_rate", [0, 1], [0, 1], ["a", "b"])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("labels", [(0, 1, 2), ("x", "y", "z")], ids=str)
def test_the_accuracy_of_several_classes_is_that_of_the_function(labels, weighted):
    _, _, groups, weight = rows()
    drawn = np.random.default_rng(1).integers(0, 3, (2, len(weight)))
    d, y = np.array(labels)[drawn]
    more = {"sample_weight": weight} if weighted else {}
    found = fb.metrics.table(["accuracy", "error_rate"], d, y, groups, attributes="both", **more)
    called = fb.metrics.table({"accuracy": accuracy_score}, d, y, groups, attributes="both", **more)
    np.testing.assert_allclose(flat(found.by_group)[::2], flat(called.by_group), atol=1e-12)
    assert found.overall["accuracy"] == pytest.approx(called.overall["accuracy"]) == 1 - found.overall["error_rate"]
    low, high = found.intervals["sex"]["F"]["accuracy"]
    assert low < found.by_group["sex"]["F"]["accuracy"] < high
