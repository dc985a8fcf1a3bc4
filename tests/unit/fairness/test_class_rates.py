"""Bounds on the rates of every class: their values by loops over groups, two classes as one rate, slopes, training, audits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.base.errors import DataError, EmptyGroupError, OptionError
from fairbound.fairness.notions import constraint
from fairbound.fairness.pointwise import CROSS_ENTROPY, class_share, summed_slopes
from fairbound.fairness.predictions import read_predictions
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import MLP
from fairbound.testing import check_gradient

LABELS = ("low", "middle", "high")
NAMES = ("class_demographic_parity", "class_recall_parity", "class_equalized_odds", "class_error_parity")


def rows(seed=0, n=900, classes=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    sex, race = rng.choice(["F", "M"], n), rng.choice(["a", "b", "c"], n)
    X[:, 0] += sex == "M"
    y = (X @ np.eye(3)[:, :classes] + rng.gumbel(size=(n, classes))).argmax(1)
    return X, y, {"sex": sex, "race": race}


def shares(name, y, d, at, classes):
    """The compared values of the rows `at`, by the definition of each notion."""
    y, d = y[at], d[at]
    if name == "class_demographic_parity":
        return [np.mean(d == c) for c in range(classes)]
    if name == "class_recall_parity":
        return [np.mean(d[y == c] == c) for c in range(classes)]
    if name == "class_error_parity":
        return [np.mean(d != y)]
    return [np.mean(d[y == k] == c) for c in range(classes) for k in range(classes)]


def definition(name, y, d, columns, classes, against="pairwise", macro=False):
    worst = 0.0
    for column in columns:
        known = np.unique(column)
        values = {g: shares(name, y, d, np.flatnonzero(column == g), classes) for g in known}
        everyone = shares(name, y, d, np.arange(len(y)), classes)
        for i, a in enumerate(known):
            others = [everyone] if against == "overall" else [values[b] for b in known[i + 1 :]]
            for other in others:
                gaps = np.subtract(values[a], other)
                worst = max(worst, abs(gaps.mean()) if macro else abs(gaps).max())
    return worst


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("option", ["", "overall", "crossed", "both", "by=race", "macro"])
def test_values_are_their_definitions(seed, name, option):
    """In the metric, in the verdict, and as training measures the scores of a model."""
    if option == "macro" and name != "class_recall_parity":
        pytest.skip("only recalls are averaged over the classes")
    X, y, groups = rows(seed)
    stated = constraint(f"{name}[{option}]" if option else name, bound=0.1)
    problem = FairProblem(MLP(3, (), 3), X, y, groups, stated, loss="cross_entropy", dtype=torch.float64)
    x = torch.as_tensor(np.random.default_rng(seed).normal(size=problem.n))
    d = problem.model.scores(x, torch.as_tensor(X)).argmax(-1).numpy()
    crossed = np.char.add(groups["sex"], groups["race"])
    columns = {"crossed": [crossed], "both": [*groups.values(), crossed], "by=race": [groups["race"]]}
    against = "overall" if option == "overall" else "pairwise"
    expected = definition(name, y, d, columns.get(option, list(groups.values())), 3, against, option == "macro")
    assert fb.measure(stated, d, y, groups) == pytest.approx(expected, abs=1e-12)
    assert float(problem.evaluate(x).extra["stated"][0]) == pytest.approx(expected, abs=1e-12)
    found = fb.audit(d, y, groups, stated)["constraints"][0]
    assert found["value"] == pytest.approx(expected, abs=1e-12)
    assert found["lower"] <= expected <= found["upper"]
    assert constraint(stated.text) == stated


@pytest.mark.parametrize(
    ("name", "two"),
    [("class_demographic_parity", "demographic_parity"), ("class_equalized_odds", "equalized_odds"),
     ("class_recall_parity", "equalized_odds"), ("class_error_parity", "error_rate_parity")],
)  # fmt: skip
def test_with_two_classes_they_are_the_notions_of_one_rate(name, two):
    """Values, limits and slopes, whether the model has one score or two."""
    X, y, groups = rows(1, classes=2)
    x = torch.randn(4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    problems = [FairProblem(MLP(3), X, y, groups, f"{n} <= 0.1", dtype=torch.float64) for n in (name, two)]
    at_x = [p.evaluate(x).extra["stated"][0] for p in problems]
    assert float(at_x[0]) == pytest.approx(float(at_x[1]), abs=1e-12)
    trained = [p.values(x, p.full()).g.amax() for p in problems]
    assert float(trained[0]) == pytest.approx(float(trained[1]), abs=1e-12)
    d = (X[:, 0] > 0).astype(int)
    own, other = (fb.audit(d, y, groups, f"{n} <= 0.1")["constraints"][0] for n in (name, two))
    assert [own[k] for k in ("value", "verdict")] == pytest.approx([other[k] for k in ("value", "verdict")])


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("surrogate", ["sigmoid", "clipped", "hinge"])
@pytest.mark.parametrize("name", NAMES)
def test_slopes_are_differences_of_values(name, surrogate, outputs):
    X, y, groups = rows(2, n=60, classes=max(outputs, 2))
    stated = f"{name}[surrogate={surrogate},sharpness=1.7] <= 0.1"
    loss = "cross_entropy" if outputs > 1 else "logistic"
    check_gradient(FairProblem(
        MLP(3, (), outputs), X, y, {"sex": groups["sex"]}, stated, loss=loss, dtype=torch.float64
    ))  # fmt: skip


@pytest.mark.parametrize("stated", ["class_demographic_parity <= 0.03", "class_recall_parity <= 0.05"])
def test_a_classifier_of_three_classes_meets_them_on_its_rows(stated):
    X, y, groups = rows(0, n=1500)
    X[:, 1] += 0.8 * (groups["sex"] == "F") * (y == 1)
    free = fb.FairClassifier(random_state=0, budget="300 steps").fit(X, y)
    fair = fb.FairClassifier(stated, random_state=0, budget="600 steps", validation=0)
    fair.fit(X, np.array(LABELS)[y], {"sex": groups["sex"]})
    value = fb.measure(stated, fair.predict(X), np.array(LABELS)[y], {"sex": groups["sex"]})
    assert fair.fit_report_["feasible"] and value <= constraint(stated).bound + 1e-6
    assert fb.measure(stated, free.predict(X), y, {"sex": groups["sex"]}) > constraint(stated).bound
    assert fair.score(X, np.array(LABELS)[y]) > np.bincount(y).max() / len(y) + 0.08  # no constant model


def test_groups_without_a_row_of_a_class_are_said():
    _, y, groups = rows(3)
    y = np.where((groups["race"] == "c") & (y == 2), 0, y)
    named = np.array(LABELS)[y]
    with pytest.raises(EmptyGroupError, match="'c' has no row of the class 'high'"):
        fb.measure("class_recall_parity", named, named, {"race": groups["race"]}, classes=LABELS)
    assert fb.measure("class_recall_parity[empty=drop]", named, named, {"race": groups["race"]}) == 0
    found = fb.audit(named, named, {"race": groups["race"]}, "class_recall_parity <= 0.1")["constraints"][0]
    assert found["verdict"] == "insufficient" and "c" in found["why"]


def test_audits_list_classes_and_groups_and_take_scores_of_every_class():
    X, y, groups = rows(4)
    by_score = fb.audit(X, np.array(LABELS)[y], groups, "class_error_parity <= 0.2", classes=LABELS)
    by_label = fb.audit(np.array(LABELS)[X.argmax(1)], np.array(LABELS)[y], groups, "class_error_parity <= 0.2")
    assert by_score["constraints"] == by_label["constraints"]
    assert [g["group"] for g in by_score["groups"]] == [*LABELS, "F", "M", "a", "b", "c"]
    female = by_score["groups"][3]["rates"]["accuracy"]
    assert female["value"] == pytest.approx(np.mean((X.argmax(1) == y)[groups["sex"] == "F"]))
    assert read_predictions(X, y, (0, 1, 2)).predicted.tolist() == X.argmax(1).tolist()


def test_audits_show_the_rates_that_are_bounded_and_what_attains_the_value():
    X, y, groups = rows(5)
    labels, d = np.array(LABELS), X.argmax(1)
    found = fb.audit(labels[d], labels[y], groups, [f"{name} <= 0.2" for name in NAMES[:2]], classes=LABELS)
    of = {(g["attribute"], g["group"]): g["rates"] for g in found["groups"]}
    for attribute, column in groups.items():
        for value in np.unique(column):
            at = column == value
            for c, label in enumerate(LABELS):
                rates = of[attribute, value]
                assert rates[f"predicted {label}"]["value"] == pytest.approx(np.mean(d[at] == c))
                assert rates[f"recall | y={label}"]["value"] == pytest.approx(np.mean(d[at & (y == c)] == c))
    first, text = found["constraints"][0], fb.report.table(found)
    pair, label = first["worst"].split(", ")
    attribute = "race" if pair[0] in "abc" else "sex"
    high, low = (of[attribute, value][label]["value"] for value in pair.split(" - "))
    assert (
        first["value"] == pytest.approx(abs(high - low))
        and f"The value is that of {first['worst']} ({attribute})." in text
    )
    assert text.count("predicted middle") == 2 + text.count(f"{pair}, predicted middle")  # no column among the classes
    page = fb.report.page.audit_page(found)
    assert f"The value is that of {first['worst']} ({attribute})." in page and page.count("Predicted middle") >= 2
    many = [f"c{i:02}" for i in np.random.default_rng(0).integers(0, 13, 900)]
    assert list(fb.audit(many, many, groups, "class_demographic_parity <= 1")["groups"][-1]["rates"]) == ["accuracy"]


def test_which_pair_attains_the_value_is_said_of_more_than_two_groups():
    X, y, groups = rows(6, classes=2)
    for attribute, says in (("race", True), ("sex", False)):
        column = groups[attribute]
        made = fb.FairClassifier("demographic_parity <= 0.01", budget="20 steps").fit(X, y, {attribute: column})
        rate = {g: np.mean(made.predict(X)[column == g]) for g in np.unique(column)}
        high, low = max(rate, key=rate.get), min(rate, key=rate.get)
        assert made.fit_report_["constraints"][0]["worst"] == f"{high} - {low}"
        audit = fb.audit(made.predict(X), y, {attribute: column}, "demographic_parity <= 0.01")
        assert (f"The value is that of {audit['constraints'][0]['worst']}." in fb.report.table(audit)) == says
        assert set(audit["constraints"][0]["worst"].split(" - ")) == {high, low}


@pytest.mark.parametrize(
    ("stated", "words"),
    [("class_recall_parity[macro,best] <= 0.1", "averages them"), ("class_error_parity[surrogate=loss] <= 0.1", "surrogate"),
     ("class_demographic_parity[macro] <= 0.1", "unknown option 'macro'"), ("class_error_parity[sharpness=0] <= 0.1", "positive"),
     ("class_recall_parity <= 1.5", "must lie in")],
)  # fmt: skip
def test_bad_statements_are_refused(stated, words):
    with pytest.raises(OptionError, match=words):
        constraint(stated)


def test_bounds_that_need_two_classes_name_those_that_do_not():
    X, y, groups = rows()
    with pytest.raises(DataError, match="class_demographic_parity"):
        fb.FairClassifier("demographic_parity <= 0.1").fit(X, y, groups)
    with pytest.raises(OptionError, match="audit it by itself"):
        fb.audit(y, y, groups, ["class_error_parity <= 0.1", "demographic_parity <= 0.1"])


@pytest.mark.parametrize("codes", [[0], [2, 0], [0, 1, 2]])
def test_one_softmax_has_the_slopes_of_its_probabilities(codes):
    """Against autograd, for a stack of two runs, and against the functions one by one."""
    draws = torch.Generator().manual_seed(0)
    s = torch.randn(2, 7, 3, generator=draws, dtype=torch.float64).requires_grad_()
    weights = torch.randn(2, len(codes) * 7, generator=draws, dtype=torch.float64)
    functions = [class_share(code, "sigmoid", 1.3, CROSS_ENTROPY) for code in codes]
    pieces = weights.split(7, -1)
    y = torch.zeros(7, dtype=torch.int64)
    total = sum((w * f.value(s, y)).sum() for w, f in zip(pieces, functions, strict=True))
    expected = torch.autograd.grad(total, s)[0]
    with torch.no_grad():
        torch.testing.assert_close(summed_slopes(functions, s, y, weights, True), expected)
        alone = sum(w.unsqueeze(-1) * f.slope(s, y) for w, f in zip(pieces, functions, strict=True))
    torch.testing.assert_close(alone, expected)


def test_the_classes_share_one_softmax_of_scores_that_stay_as_they_are(monkeypatch):
    taken, softmax = [], torch.softmax
    monkeypatch.setattr(torch, "softmax", lambda *args: taken.append(1) or softmax(*args))
    s, y = torch.randn(7, 4, dtype=torch.float64), torch.zeros(7, dtype=torch.int64)
    functions = [class_share(code, "sigmoid", 1.3, CROSS_ENTROPY) for code in range(4)]
    values = [f.value(s, y) for f in functions]
    for function in functions:
        function.slope(s, y)
    assert len(taken) == 1
    torch.testing.assert_close(torch.stack(values, -1), softmax(1.3 * s, -1))
    s += torch.randn_like(s)
    torch.testing.assert_close(functions[0].value(s, y), softmax(1.3 * s, -1)[:, 0])
    torch.testing.assert_close(class_share(0, "sigmoid", 2.0, CROSS_ENTROPY).value(s, y), softmax(2.0 * s, -1)[:, 0])
    functions[0].value(s, y).zero_()
    torch.testing.assert_close(functions[0].value(s, y), softmax(1.3 * s, -1)[:, 0])
    leaf = s.clone().requires_grad_()
    for _ in range(2):
        torch.autograd.grad(functions[0].value(leaf, y).sum(), leaf)
    with torch.inference_mode():
        torch.testing.assert_close(functions[0].value(s + 0.0, y), functions[0].value(s, y))
