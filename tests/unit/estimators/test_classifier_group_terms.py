"""FairClassifier(group_terms=True): a linear model with weights of each group; the folder, the commands, what is refused."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import fairbound as fb
from fairbound.base.errors import DataError, OptionError
from fairbound.estimators.saving.folder import ModelFolderError, load_folder, save_folder

BOUND = "demographic_parity <= 0.05"


def table(n=900, seed=0):
    """What skill and pay are worth depends on the group, of which there are three."""
    rng = np.random.default_rng(seed)
    race = rng.choice(["a", "b", "c"], n)
    pay, skill = rng.normal(size=(2, n))
    turn = np.array([1.0, -1.0, 0.3])[np.searchsorted(["a", "b", "c"], race)]
    y = np.where(turn * pay + skill + rng.normal(size=n) > 0.3, "yes", "no")
    return pd.DataFrame({"pay": pay, "skill": skill}), y, pd.Series(race, name="race")


def made(constraint=None, **options):
    return fb.FairClassifier(constraint, group_terms=True, objective="loss", **options)


def test_without_bounds_each_group_has_the_model_of_its_own_rows():
    """The mean loss is a sum over groups, of which each has all its weights to itself."""
    X, y, race = table()
    fair = made().fit(X, y, race)
    chances = fair.predict_proba(X, race)
    for group in "abc":
        mine = (race == group).to_numpy()
        alone = LogisticRegression(C=1e6).fit(X[mine], y[mine])
        assert log_loss(y[mine], chances[mine]) == pytest.approx(
            log_loss(y[mine], alone.predict_proba(X[mine])), abs=2e-4
        )


def test_rows_of_a_sparse_an_encoded_and_a_plain_table_have_the_same_scores():
    X, y, race = table(300)
    scores = []
    plain = X.to_numpy()
    for rows in (plain, sparse.csr_matrix(plain), fb.tables.Encoded.of(fb.TableEncoder(), plain)):
        fair = made(BOUND, budget="40 steps", weight_decay=0).fit(
            rows, y, race
        )  # "auto" takes another amount for sparse rows
        scores.append(fair.decision_function(rows, race))
        some = np.arange(0, 300, 7)
        if rows is plain:
            assert fair.decision_function(plain[some], race[some]) == pytest.approx(scores[0][some], abs=1e-12)
    assert scores[1] == pytest.approx(scores[0], abs=0.1) and scores[2] == pytest.approx(scores[0], abs=1e-4)


def test_the_folder_brings_the_terms_back(tmp_path):
    X, y, race = table(300)
    fair = made(BOUND, budget="40 steps").fit(X, y, race)
    fair.save(tmp_path / "model")
    again = fb.FairClassifier.load(tmp_path / "model")
    assert again.group_terms and again.needs_groups
    assert (again.decision_function(X, race) == fair.decision_function(X, race)).all()
    folder = load_folder(tmp_path / "model")
    folder.manifest["groups"]["labels"] = [["a", "b"]]
    kept = {k: v for k, v in folder.manifest.items() if not k.startswith(("format", "library"))}
    save_folder(tmp_path / "changed", manifest=kept, tensors=folder.tensors, encoder=folder.encoder)
    with pytest.raises(ModelFolderError, match="does not fit its groups"):
        fb.FairClassifier.load(tmp_path / "changed")


def test_groups_that_are_not_known_are_refused_and_missing_ones_have_the_weights_of_the_first():
    X, y, race = table(300)
    fair = made(BOUND, budget="40 steps").fit(X, y, race)
    for ask in (fair.predict, fair.decision_function, fair.predict_proba):
        with pytest.raises(DataError, match="as sensitive_features=, with race"):
            ask(X)
    with pytest.raises(DataError, match="1 of 300 rows have a race that was not among the training rows"):
        fair.predict(X, pd.Series(["d", *race[1:]], name="race"))
    with pytest.raises(DataError, match="300 rows to score but 2 rows"):
        fair.predict(X, ["a", "b"])
    gone = race.where(race.index % 2 == 0)
    first = fair.decision_function(X, pd.Series(["a"] * 300, name="race"))
    assert (fair.decision_function(X, gone)[1::2] == first[1::2]).all()
    assert not hasattr(fair, "coef_")


@pytest.mark.parametrize(
    ("options", "groups", "error", "words"),
    [
        ({}, None, DataError, "one sensitive attribute"),
        ({}, ["a"] * 40, DataError, "one sensitive attribute"),
        ({}, {"race": ["a", "b"] * 20, "sex": ["F", "M"] * 20}, DataError, "one sensitive attribute"),
        ({"model": torch.nn.Linear(2, 1)}, ["a", "b"] * 20, OptionError, "takes X as it is"),
    ],
)
def test_what_has_no_terms_is_refused(options, groups, error, words):
    X = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    with pytest.raises(error, match=words):
        made(**options).fit(X, [0, 1] * 20, groups)


def test_the_commands_score_by_group(tmp_path, monkeypatch, capsys):
    pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
    pytest.importorskip("matplotlib", reason="the page's charts need the extra 'report'")
    from fairbound.cli.app import main

    X, y, race = table(600)
    X.assign(hired=y, race=race).to_csv(tmp_path / "rows.csv", index=False)
    monkeypatch.chdir(tmp_path)
    common = ["--data", "rows.csv", "--label", "hired", "--group", "race"]
    fit = ["fit", *common, "--group-terms", "--constraint", "demographic_parity <= 0.1", "--budget", "40 steps"]
    assert main([*fit, "--out", "out", "--json"]) in (0, 1, 3)
    capsys.readouterr()
    assert main(["audit", *common, "--model", "out/model", "--out", "audited"]) in (0, 1, 3)
    audit = json.loads((tmp_path / "audited" / "audit.json").read_text())
    assert audit["metrics"]["accuracy"] > 0.7
    assert main(["predict", "--data", "rows.csv", "--model", "out/model", "--out", "said.csv"]) == 0
    said, model = pd.read_csv("said.csv"), fb.FairClassifier.load("out/model")
    assert said["score"].to_numpy() == pytest.approx(model.decision_function(X, race), abs=1e-9)
    assert said["probability"].to_numpy() == pytest.approx(model.predict_proba(X, race)[:, 1], abs=1e-9)
    X.to_csv(tmp_path / "without.csv", index=False)
    capsys.readouterr()
    assert main(["predict", "--data", "without.csv", "--model", "out/model", "--out", "none.csv"]) == 2
    assert "the model decides by race" in capsys.readouterr().err
    assert main(["fit", "--data", "rows.csv", "--label", "hired", "--group-terms", "--out", "none"]) == 2
    assert "--group" in capsys.readouterr().err
