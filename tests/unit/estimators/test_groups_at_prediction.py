"""FairClassifier(use_groups_at_prediction=True): the model trained without bounds, thresholds of groups, the folder, the commands."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score

import fairbound as fb
from fairbound.base.errors import DataError, DataWarning, OptionError
from fairbound.cli.files.advice import for_commands
from fairbound.tables import TableOptions

BOUND = "demographic_parity <= 0.03"


def table(n=600, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["F", "M"], n)
    pay, skill = rng.normal(size=n) + 1.2 * (sex == "M"), rng.normal(size=n)
    return pd.DataFrame({"pay": pay, "skill": skill}), np.where(pay + skill + rng.normal(size=n) > 1, "yes", "no"), sex


def made(constraint=BOUND, **options):
    return fb.FairClassifier(constraint, use_groups_at_prediction=True, budget="300 steps", **options)


def gap(decisions, sex):
    return abs((decisions[sex == "F"] == "yes").mean() - (decisions[sex == "M"] == "yes").mean())


def test_the_model_is_that_without_bounds_and_the_thresholds_those_of_a_post_processor():
    X, y, sex = table()
    fair = made().fit(X, y, sensitive_features=sex)
    free = fb.FairClassifier(budget="300 steps").fit(X, y)
    assert (fair.predict_proba(X) == free.predict_proba(X)).all()
    assert gap(free.predict(X), sex) > 0.2
    decisions = fair.predict(X, sex)
    assert gap(decisions, sex) <= 0.03 + 1e-12
    other = fb.PostProcessor(free, BOUND, scores="decision_function").fit(X, y, sex)
    assert (other.predict(X, sex) == decisions).all()
    assert ((fair.decision_function(X, sex) > 0) == (decisions == "yes")).all()
    facts = fair.fit_report_
    assert facts["feasible"] and not facts["no_better_than_constant"]
    assert facts["constraints"][0]["train_value"] == pytest.approx(gap(decisions, sex), abs=1e-12)
    assert facts["group_thresholds"]["accuracy"] == pytest.approx((decisions == y).mean(), abs=1e-12)
    json.dumps(facts, allow_nan=False)
    audit = fb.audit(fair.decision_function(X, sex), (y == "yes").astype(int), sex, BOUND, threshold=0)
    assert audit["constraints"][0]["value"] == pytest.approx(gap(decisions, sex), abs=1e-12)


def crossing(n=1200, seed=1):
    """The features tell more of F, but of M there is one that says little to one score for both."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["F", "M"], n)
    man = sex == "M"
    strong, weak = rng.normal(size=n), rng.normal(size=n)
    y = np.where(np.where(man, weak, 3 * strong) + rng.normal(size=n) > 0, "yes", "no")
    return pd.DataFrame({"strong": strong, "weak": weak}), y, sex


def test_where_single_thresholds_cost_much_a_model_trained_under_the_bounds_has_them_too():
    X, y, sex = crossing()
    bound = "equalized_odds <= 0.02"
    with pytest.warns(ConvergenceWarning, match="One threshold for each group costs much|Every row gets"):
        on_free = fb.PostProcessor(fb.FairClassifier(), bound).fit(X, y, sex)
    trained = fb.FairClassifier(bound).fit(X, y, sensitive_features=sex)
    fair = fb.FairClassifier(bound, use_groups_at_prediction=True).fit(X, y, sensitive_features=sex)
    decisions = fair.predict(X, sex)
    assert (fair.predict_proba(X) == trained.predict_proba(X)).all()
    assert (decisions == y).mean() >= max(trained.score(X, y), on_free.score(X, y, sex) + 0.02)
    assert fb.measure(bound, (decisions == "yes").astype(int), y == "yes", sex) <= 0.02 + 1e-12
    facts = fair.fit_report_
    assert "Trained under the bounds" in facts["notes"][-1] and facts["message"].endswith(
        "by thresholds of the groups."
    )
    assert facts["group_thresholds"]["accuracy"] == pytest.approx((decisions == y).mean(), abs=1e-12)


def test_what_mixtures_would_add_is_said_where_no_single_thresholds_come_near():
    rng = np.random.default_rng(0)
    sex = rng.choice(["F", "M"], 2000)
    score = rng.normal(size=2000)  # of one feature no model makes another order
    y = np.where(score * np.where(sex == "M", 0.5, 4) + rng.normal(size=2000) > 0, "yes", "no")
    bound = "equalized_odds <= 0.01"
    with pytest.warns(DataWarning, match=r"One threshold for each group costs accuracy.*group_terms=True, or put"):
        fair = fb.FairClassifier(bound, use_groups_at_prediction=True, options=TableOptions(knots=0)).fit(
            score[:, None], y, sensitive_features=sex
        )
    free = fb.FairClassifier(options=TableOptions(knots=0)).fit(score[:, None], y)
    mixed = fb.PostProcessor(free, bound, randomised=True).fit(score[:, None], y, sex)
    said = fair.fit_report_["warnings"][-1]
    assert f"have {mixed.fit_report_['accuracy']:.3f}" in said
    assert "take --group-terms, or in Python put fb.PostProcessor(" in for_commands(said)


def test_the_accuracy_of_such_decisions_is_that_of_predict_also_in_cross_validation():
    X, y, sex = table()
    fair = made().fit(X, y, sensitive_features=sex)
    right = fair.predict(X, sex) == y
    assert fair.score(X, y, sensitive_features=sex) == right.mean()
    weight = np.where(sex == "F", 3.0, 1.0)
    assert fair.score(X, y, weight, sensitive_features=sex) == pytest.approx(np.average(right, weights=weight))
    with pytest.raises(DataError, match="as sensitive_features=, with group"):
        fair.score(X, y)
    with config_context(enable_metadata_routing=True):
        routed = made().set_fit_request(sensitive_features=True)
        scores = cross_val_score(routed, X, y, cv=2, params={"sensitive_features": sex})
    assert (scores > 0.6).all()


def test_predictions_need_the_groups_and_only_then():
    X, y, sex = table()
    fair = clone(made()).fit(X, y, sensitive_features=sex)
    with pytest.raises(DataError, match="as sensitive_features=, with group"):
        fair.predict(X)
    with pytest.warns(UserWarning, match="the threshold of all rows together decides them"):
        fair.predict(X, np.full(len(y), "X"))
    plain = fb.FairClassifier("demographic_parity <= 0.9", budget="300 steps").fit(X, y, sensitive_features=sex)
    assert plain.rule_ is None and (plain.predict(X) == plain.predict(X, sex)).all()


def test_the_folder_brings_the_thresholds_back(tmp_path):
    X, y, sex = table()
    fair = made("equalized_odds <= 0.1").fit(X, y, sensitive_features=pd.DataFrame({"sex": sex}))
    fair.save(tmp_path / "model")
    again = fb.FairClassifier.load(tmp_path / "model")
    assert again.use_groups_at_prediction and again.constraint == "equalized_odds <= 0.1"
    assert (again.decision_function(X, sex) == fair.decision_function(X, sex)).all()
    manifest = json.loads((tmp_path / "model" / "model.json").read_text())
    assert manifest["rule"]["attributes"] == ["sex"]


def test_groups_of_few_rows_are_told_as_by_a_post_processor():
    X, y, sex = table()
    few = np.where(np.arange(len(y)) < 12, "X", sex)
    for bound, begins, left_out in (
        ("demographic_parity[fewest=30] <= 0.1", "Groups of fewer than 50 rows that no bound holds for", True),
        ("demographic_parity <= 0.1", "Thresholds fitted to fewer than 50 rows", False),
    ):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            fair = made(bound).fit(X, y, sensitive_features=few)
        said = [str(one.message) for one in told]
        assert sum(text.startswith(begins) and "'X' (12)" in text for text in said) == 1
        assert any("groups left out of the bounds for want of rows: X (12)" in text for text in said) == left_out
        assert any(text.startswith(begins) for text in fair.fit_report_["warnings"])
        assert (fair.rule_.thresholds[2] == (fair.rule_.pooled,)) == left_out


def test_sparse_and_encoded_tables_and_weights():
    from scipy import sparse

    X, y, sex = table()
    w = np.random.default_rng(0).choice([1.0, 2.0], len(y))
    for rows in (X.to_numpy(), sparse.csr_matrix(X.to_numpy()), fb.tables.Encoded.of(fb.TableEncoder(), X)):
        fair = made().fit(rows, y, sensitive_features=sex, sample_weight=w)
        d = fair.predict(rows, sex) == "yes"
        rates = [np.average(d[sex == s], weights=w[sex == s]) for s in "FM"]
        assert abs(rates[0] - rates[1]) <= 0.03 + 1e-12


@pytest.mark.parametrize(
    ("constraint", "y", "words"),
    [
        (None, [0, 1] * 20, "needs a bound"),
        ("recall of class 1 >= 0.5", [0, 1, 2, 1] * 10, "needs two classes"),
        ("predictive_parity <= 0.1", [0, 1] * 20, "no weighted sum"),
    ],
)
def test_what_thresholds_cannot_do_is_refused(constraint, y, words):
    X = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.raises(OptionError, match=words):
        made(constraint).fit(X, np.array(y), sensitive_features=["a", "b"] * 20)


def test_the_commands_decide_by_groups(tmp_path, monkeypatch, capsys):
    pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
    pytest.importorskip("matplotlib", reason="the page's charts need the extra 'report'")
    from fairbound.cli.app import main

    X, y, sex = table()
    X.assign(hired=y, sex=sex).to_csv(tmp_path / "rows.csv", index=False)
    monkeypatch.chdir(tmp_path)
    common = ["--data", "rows.csv", "--label", "hired", "--group", "sex"]
    fit = ["fit", *common, "--use-groups-at-prediction", "--constraint", BOUND, "--budget", "300 steps", "--out", "out"]
    assert main([*fit, "--json"]) in (0, 1, 3)
    found = json.loads(capsys.readouterr().out)
    assert found["constraints"][0]["value"] < 0.2 < gap_without(X, y, sex)
    assert main(["audit", *common, "--model", "out/model", "--out", "audited"]) in (0, 1, 3)
    audit = json.loads((tmp_path / "audited" / "audit.json").read_text())
    assert audit["constraints"][0]["text"] == BOUND and audit["constraints"][0]["value"] < 0.1
    capsys.readouterr()
    plain = ["audit", "--data", "rows.csv", "--label", "hired", "--model", "out/model", "--out", "none"]
    assert main([*plain, "--constraint", "recall of class yes >= 0.5"]) == 2
    assert "--group" in capsys.readouterr().err
    assert main(["fit", *common, "--use-groups-at-prediction", "--out", "none"]) == 2
    assert "needs a bound" in capsys.readouterr().err


def gap_without(X, y, sex):
    return gap(fb.FairClassifier(budget="300 steps").fit(X, y).predict(X), sex)
