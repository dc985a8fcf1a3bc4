"""fit --estimator: a scikit-learn classifier under bounds, named by text that runs no code of its own."""

from __future__ import annotations

import csv
import json

import numpy as np
import pandas as pd
import pytest

import fairbound as fb
from fairbound.base.errors import OptionError
from fairbound.cli.app import main
from fairbound.cli.training.reduce import named_classifier
from fairbound.estimators.reducing.lottery import Lottery

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
pytest.importorskip("jinja2", reason="the page needs the extra 'report'")


def test_a_text_names_a_class_and_plain_options():
    made = named_classifier("sklearn.tree.DecisionTreeClassifier(max_depth=3, class_weight={0: 2.0})", 7)
    assert made.get_params()["max_depth"] == 3 and made.class_weight == {0: 2.0} and made.random_state == 7
    assert named_classifier("sklearn.tree.DecisionTreeClassifier(random_state=1)", 7).random_state == 1
    assert type(named_classifier(" sklearn.naive_bayes.GaussianNB ", 0)).__name__ == "GaussianNB"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("LogisticRegression", "by its full name"),
        ("sklearn.tree.DecisionTreeClassifier(3)", "by its full name"),
        ("sklearn.tree.DecisionTreeClassifier(max_depth=open('x'))", "by its full name"),
        ("sklearn.tree.DecisionTreeClassifier(**{})", "by its full name"),
        ("__import__('os').system('true')", "by its full name"),
        ("(lambda: 0).x", "by its full name"),
        ("os.system('true')", "by its full name"),
        ("os.system", "no scikit-learn classifier 'system'"),
        ("sklearn.linear_model.Ridge", "Ridge is no classifier"),
        ("sklearn.tree.DecisionTreeClassifier(depth=3)", "unexpected keyword argument 'depth'"),
        ("no_such_module.Thing", "no module 'no_such_module'"),
        ("sklearn.tree.Nothing", "no scikit-learn classifier 'Nothing'"),
        ("(" * 5000, "by its full name"),
    ],
)
def test_any_other_text_is_refused(text, words):
    with pytest.raises(OptionError, match=words):
        named_classifier(text, 0)


@pytest.fixture
def people(tmp_path):
    rng = np.random.default_rng(0)
    sex = rng.choice(["F", "M"], 1200)
    x = np.column_stack([rng.normal(size=1200) + 1.5 * (sex == "M"), rng.normal(size=1200)])
    hired = np.where(x.sum(1) + 0.3 * rng.normal(size=1200) > 0.7, "yes", "no")
    pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "sex": sex, "hired": hired}).to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def test_it_is_fitted_judged_and_its_decisions_are_written(people, tmp_path, capsys):
    out, bound = tmp_path / "out", "demographic_parity <= 0.05"
    given = [
        "fit", "--data", str(people), "--label", "hired", "--group", "sex", "--out", str(out),
        "--constraint", bound
    ]  # fmt: skip
    given += ["--estimator", "sklearn.linear_model.LogisticRegression", "--json", "--quiet"]
    assert main(given) in (0, 1, 3)
    found = json.loads(capsys.readouterr().out)
    frame = pd.read_csv(people)
    with open(out / "decisions.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    numbers = [int(row["row"]) for row in rows]
    held = frame.iloc[numbers]
    decided = np.array([row["decision"] for row in rows])
    assert len(rows) == found["rows"] == 300 and set(decided) == {"no", "yes"}
    assert found["metrics"]["accuracy"] == pytest.approx((decided == held["hired"]).mean(), abs=1e-12)
    value = fb.measure(
        "demographic_parity", (decided == "yes").astype(int), (held["hired"] == "yes").astype(int), held["sex"]
    )
    assert found["constraints"][0]["value"] == pytest.approx(value, abs=1e-12)
    whole = json.loads((out / "audit.json").read_text())
    free = whole["comparison"][1]
    assert free["name"] == "unconstrained" and free["constraints"][0]["value"] > 0.3 > found["constraints"][0]["value"]
    assert not (out / "model").exists() and any("No model is saved" in note for note in whole["notes"])
    assert whole["metrics"]["log_loss"] is None and whole["metrics"]["auc"] > 0.5, "scores are no probabilities"
    assert f"On the training rows, which the verdict is not about, the value of {bound!r} is 0.0" in " ".join(
        whole["notes"]
    )


@pytest.mark.parametrize("more", [["--model", "mlp:8"], ["--budget", "9 steps"], ["--qid", "a"], ["--certify"]])
def test_options_of_training_are_not_for_it(people, tmp_path, capsys, more):
    given = [
        "--label", "hired", "--group", "sex", "--constraint", "demographic_parity <= 0.1",
        "--out", str(tmp_path / "o")
    ]  # fmt: skip
    tree = ["--estimator", "sklearn.tree.DecisionTreeClassifier"]
    assert main(["fit", "--data", str(people), *given, *tree, *more]) == 2
    assert f"{more[0]} is not for a classifier of another library" in capsys.readouterr().err


def test_folds_judge_the_bound_by_rows_that_a_fit_had_not_seen(people, tmp_path, capsys):
    given = [
        "fit", "--data", str(people), "--label", "hired", "--group", "sex", "--out", str(tmp_path / "o"), "--quiet",
        "--constraint", "demographic_parity <= 0.5", "--folds", "3",
    ]  # fmt: skip
    assert main(given) == 2 and "name one with --estimator" in capsys.readouterr().err
    assert main([*given, "--estimator", "sklearn.ensemble.RandomForestClassifier(n_estimators=10)", "--json"]) in (
        0,
        1,
        3,
    )
    whole = json.loads((tmp_path / "o" / "audit.json").read_text())
    assert whole["model"]["algorithm"] == "plug-in" and whole["model"]["steps"] == 9
    assert main([*given, "--estimator", "sklearn.svm.LinearSVC", "--json"]) in (0, 1, 3)
    whole = json.loads((tmp_path / "o" / "audit.json").read_text())
    assert whole["model"]["algorithm"] == "reduction" and whole["model"]["steps"] % 3 == 0


def fit_of(people, tmp_path):
    """The command that fits and writes to a folder, but for the bound and the classifier."""
    return ["fit", "--data", str(people), "--label", "hired", "--group", "sex", "--out", str(tmp_path / "o"), "--quiet"]


def test_one_answer_for_all_is_judged_and_is_a_warning_of_the_page(people, tmp_path):
    frame = pd.read_csv(people)
    frame.assign(a=(frame["sex"] == "M") * 1, b=0).to_csv(
        people, index=False
    )  # the features tell no more than the group
    given = fit_of(people, tmp_path)
    stump = "sklearn.tree.DecisionTreeClassifier(max_depth=1)"
    assert main([*given, "--constraint", "demographic_parity <= 0.01", "--estimator", stump]) in (0, 1, 3)
    said = json.loads((tmp_path / "o" / "audit.json").read_text())["warnings"]
    assert any("the decisions are no more accurate than the same one for all rows" in line for line in said)


def test_labels_of_three_values_need_another_model(people, tmp_path, capsys):
    frame = pd.read_csv(people)
    frame.assign(hired=np.arange(len(frame)) % 3).to_csv(people, index=False)
    given = fit_of(people, tmp_path)
    bound = ["--constraint", "class_recall_parity <= 0.1", "--estimator", "sklearn.naive_bayes.GaussianNB"]
    assert main([*given, *bound]) == 2
    assert "without --estimator bound the rates of every class" in capsys.readouterr().err


def test_what_is_lost_to_a_lottery_is_a_warning_of_the_page(people, tmp_path, monkeypatch):
    monkeypatch.setattr(Lottery, "ahead", lambda lottery, error, by: True)
    given = fit_of(people, tmp_path)
    assert main([*given, "--constraint", "demographic_parity <= 0.1", "--estimator", "sklearn.naive_bayes.GaussianNB"]) in (0, 1, 3)  # fmt: skip
    said = json.loads((tmp_path / "o" / "audit.json").read_text())["warnings"]
    assert any("the best lottery over the same fits" in line and "FairClassifier" in line for line in said)
