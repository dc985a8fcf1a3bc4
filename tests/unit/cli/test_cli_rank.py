"""`fairbound fit --qid` and `fairbound audit --qid`."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from fairbound.cli.app import main
from fairbound.estimators.ranker import FairRanker


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    rng = np.random.default_rng(0)
    n = 900
    frame = pd.DataFrame(
        {"q": np.repeat(np.arange(90), 10), "kind": rng.choice(["a", "b"], n), "x": rng.normal(size=n)}
    )
    worth = frame.x + 0.7 * rng.normal(size=n)
    frame["grade"] = np.clip(np.round(worth + 1), 0, 3).astype(int)
    frame["x"] -= 0.8 * (frame.kind == "b")
    frame["colour"] = rng.choice(["red", "blue"], n)
    path = tmp_path_factory.mktemp("rank") / "documents.csv"
    frame.to_csv(path, index=False)
    return path


def test_fit_judges_queries_held_out_and_audit_takes_the_model_or_scores(csv, tmp_path, capsys):
    out = tmp_path / "out"
    bound = "pairwise_parity[inter] <= 0.9"
    common = ["--data", str(csv), "--label", "grade", "--group", "kind", "--qid", "q"]
    code = main(["fit", *common, "--constraint", bound, "--out", str(out), "--budget", "20 steps", "--json"])
    said = json.loads(capsys.readouterr().out)
    assert code in (0, 3) and said["constraints"][0]["text"] == bound and "ndcg_at_10" in said["metrics"]
    audit = json.loads((out / "audit.json").read_text())
    assert audit["data"]["rows"] == 230 and audit["data"]["queries"] == 23 and audit["data"]["train_rows"] == 670
    assert [m["name"] for m in audit["comparison"]] == ["constrained", "unconstrained"]
    ranker = FairRanker.load(out / "model")
    assert "q" not in ranker.encoder_.columns and "kind" not in ranker.encoder_.columns
    code = main(["audit", *common, "--model", str(out / "model"), "--out", str(tmp_path / "a"), "--json"])
    judged = json.loads(capsys.readouterr().out)
    assert judged["rows"] == 900 and judged["constraints"][0]["text"] == bound
    assert judged["warnings"][-1].startswith("This is the file that the model was trained on")
    frame = pd.read_csv(csv)
    frame["s"] = ranker.predict(frame[list(ranker.encoder_.columns)])
    frame.to_csv(tmp_path / "scored.csv", index=False)
    scored = ["--data", str(tmp_path / "scored.csv"), *common[2:], "--score", "s", "--constraint", bound]
    main(["audit", *scored, "--out", str(tmp_path / "b"), "--json"])
    again = json.loads(capsys.readouterr().out)
    assert again["constraints"][0]["value"] == pytest.approx(judged["constraints"][0]["value"])
    assert again["metrics"] == pytest.approx(judged["metrics"])


def test_a_column_that_a_saved_ranker_misses_is_said_as_of_other_models(csv, tmp_path, capsys):
    frame = pd.read_csv(csv)
    FairRanker(budget="2 steps").fit(frame[["x"]], frame.grade, frame.q).save(tmp_path / "model")
    frame.rename(columns={"x": "X"}).to_csv(tmp_path / "new.csv", index=False)
    call = ["audit", "--data", str(tmp_path / "new.csv"), "--label", "grade", "--group", "kind", "--qid", "q"]
    call += ["--model", str(tmp_path / "model"), "--out", str(tmp_path / "o")]
    assert main([*call, "--constraint", "pairwise_parity[inter] <= 0.9"]) == 2
    said = capsys.readouterr().err
    assert "lacks the column 'x' seen in training" in said and "'x' is 'X' here" in said


def test_documents_that_are_alike_are_not_taken_for_copies(csv, tmp_path, capsys):
    twice = pd.concat([pd.read_csv(csv)] * 2)
    twice.to_csv(tmp_path / "twice.csv", index=False)
    call = ["fit", "--data", str(tmp_path / "twice.csv"), "--budget", "2 steps", "--out", str(tmp_path / "o")]
    main([*call, "--label", "grade", "--qid", "q"])
    assert "repeat an earlier one" not in capsys.readouterr().err
    main([*call, "--label", "colour", "--positive", "red", "--group", "kind"])
    assert "900 of 1,800 rows repeat an earlier one" in capsys.readouterr().err


def test_a_named_set_is_ranked_by_its_own_queries(data_dir, tmp_path, capsys):
    code = main(
        ["fit", "--data", "lightgbm-rank", "--qid", "qid", "--data-dir", str(data_dir), "--out", str(tmp_path / "o")]
        + ["--constraint", "exposure_parity <= 0.3", "--no-baseline"]
    )
    said = capsys.readouterr().out
    assert code == 0 and "NDCG at 10" in said and "On the training rows, which" in said


OWN = """
import numpy as np
from fairbound.data import DatasetInfo
from fairbound.data.letor import as_dataset


def load(folder):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    grades = np.clip(np.round(X[:, 0] + 1), 0, 3)
    return as_dataset("mine", [("all", (X, grades, np.repeat(np.arange(60), 10)))], 2, 0.5, "")


MINE = DatasetInfo(
    name="mine", title="", loader="my_documents:load", label="relevance", groups=("quality",), licence="", citation=""
)
"""


def test_options_that_name_columns_are_heeded_for_a_named_set_too(tmp_path, monkeypatch, capsys):
    (tmp_path / "my_documents.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    given = ["fit", "--data", "my_documents:MINE", "--data-dir", str(tmp_path), "--qid", "q", "--out", str(tmp_path)]
    code = main([*given, "--drop", "feature 3", "--no-baseline", "--budget", "5 steps"])
    audit = json.loads((tmp_path / "audit.json").read_text())
    assert code == 0 and FairRanker.load(tmp_path / "model").n_features_in_ == 1
    assert "Columns left out by --drop: feature 3." in audit["notes"]
    assert sorted(g["group"] for g in audit["groups"]) == ["high", "low"]
    for more, said in (
        (["--drop", "feature 4"], "--drop: there is no column 'feature 4'"),
        (["--group", "sex"], "--group: there is no column 'sex'"),
        (["--label", "grade"], "has the label 'relevance'"),
        (["--encoding", "cp1252"], "are for files"),
    ):
        assert main([*given, *more]) == 2 and said in capsys.readouterr().err
    assert main([*given[:1], "--data", "loanapp", *given[3:]]) == 2 and "has no queries" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--constraint", "demographic_parity <= 0.1"], "a ranker makes none"),
        (["--objective", "auc"], "--objective is not for rankings"),
        (["--positive", "1"], "--positive is not for rankings"),
        (["--qid", "nothing"], "nothing"),
    ],
)
def test_wrong_use_is_said(csv, tmp_path, capsys, more, said):
    given = ["--data", str(csv), "--label", "grade", "--group", "kind", "--out", str(tmp_path / "o")]
    given += [] if "--qid" in more else ["--qid", "q"]
    assert main(["fit", *given, *more]) == 2
    assert said in capsys.readouterr().err
