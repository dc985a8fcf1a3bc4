"""Several commands that write into one folder: no report stands beside the model or the decisions of another run, and no file
of the user's goes."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pytest

import fairbound as fb

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
pytest.importorskip("matplotlib", reason="the page's charts need the extra 'report'")

BOUND = ("--constraint", "demographic_parity <= 0.3")
REPORT = {"audit.json", "report.html", "model_card.md", "impact.csv"}
FITTED = {*REPORT, "model", "records.jsonl", "held_out.csv"}
OTHER = ("--estimator", "sklearn.naive_bayes.GaussianNB")


@pytest.fixture
def people(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"sex": rng.choice(["F", "M"], 400), "x": rng.normal(size=400), "score": rng.random(400)})
    frame["hired"] = np.where(frame["x"] + rng.normal(size=400) > 0, "yes", "no")
    frame.to_csv(tmp_path / "people.csv", index=False)
    return ("--data", tmp_path / "people.csv", "--label", "hired", "--group", "sex")


@pytest.fixture
def fit(run, people):
    def call(out, *more: object) -> None:
        budget = () if more else ("--budget", "5 steps", "--model", "linear", "--knots", "0", "--drop", "score")
        code, _, err = run("fit", *people, *BOUND, "--out", out, *budget, *more)
        assert code in (0, 1, 3), err

    return call


def names(folder) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_fit_leaves_nothing_of_another_fit_beside_its_report(fit, tmp_path):
    """A fit that saves no model takes the place of one that does, and the other way round."""
    out = tmp_path / "out"
    fit(out)
    assert names(out) == FITTED
    fit(out, *OTHER)
    assert names(out) == {*REPORT, "decisions.csv"}
    fit(out)
    assert names(out) == FITTED


def test_files_that_no_command_wrote_stay(fit, tmp_path):
    out = tmp_path / "out"
    fit(out)
    own = {
        "scores.csv": "row,score\n0,1\n",
        "weights.json": '{"a": 1}',
        "notes.txt": "mine",
        "model/readme.txt": "mine",
    }
    for name, text in own.items():
        (out / name).write_text(text)
    fit(out, *OTHER)
    assert names(out) == {*REPORT, "decisions.csv", "model", "scores.csv", "weights.json", "notes.txt"}
    assert all((out / name).read_text() == text for name, text in own.items())
    assert names(out / "model") == {"readme.txt"}
    (out / "model" / "model.json").write_text('{"learner": {}}')  # of another library
    (out / "decisions.csv").write_text("person,decision\n1,yes\n")
    fit(tmp_path / "new", *OTHER)
    shutil.copy(tmp_path / "new" / "decisions.csv", out / "held_out.csv")
    fit(out, *OTHER)
    assert names(out / "model") == {"readme.txt", "model.json"} and "held_out.csv" in names(out)


def test_an_audit_keeps_the_model_that_it_judges_and_refuses_the_folder_of_another(run, fit, people, tmp_path):
    out, other = tmp_path / "out", tmp_path / "other"
    fit(out)
    for named in (out, out / "model"):
        code, _, err = run("audit", *people, "--model", named, "--out", out)
        assert code in (0, 1, 3), err
        assert names(out) == FITTED and fb.load(out / "model") is not None
    found = (out / "audit.json").read_bytes()
    assert json.loads(found)["model"]["description"] == "saved in model"
    fit(other, "--seed", "1")
    for judged in (
        ("--model", other),
        ("--score", "score", *BOUND),
        ("--score", "score", "--label", "x", "--qid", "sex"),
    ):
        code, _, err = run(
            "audit",
            *[a for a in people if "--label" not in judged or a not in ("--label", "hired")],
            *judged,
            "--out",
            out,
        )
        assert code == 2 and "is a saved model, and the report would not be of it; write to another folder" in err, err
    code, _, err = run("audit", *people, "--model", tmp_path / "none", "--out", out)
    assert code == 2 and "there is no model folder" in err
    assert (out / "audit.json").read_bytes() == found and names(out) == FITTED


def test_a_monitor_does_not_begin_in_the_folder_of_another_run(run, fit, people, tmp_path):
    out, other = tmp_path / "out", tmp_path / "other"
    fit(out)
    watch = ("monitor", *people, *BOUND, "--state")
    code, _, err = run(*watch, out, "--score", "score>0.5")
    assert (
        code == 2 and "is a saved model, and the report would not be of it; write to another folder with --state" in err
    )
    assert names(out) == FITTED
    for _ in range(2):  # beside its own model, and going on without naming it
        code, _, err = run(*watch, out, "--model", out, "--id", "x")
        assert code in (0, 1, 3) and names(out) == FITTED | {"monitor.json"}, err
    assert run("monitor", "--state", out)[0] in (0, 1, 3)
    fit(other, *OTHER)
    code, _, err = run(*watch, other, "--score", "score>0.5")
    assert code == 2 and "holds the report of a run that trained" in err and "decisions.csv" in names(other)


def test_no_report_is_written_into_the_folder_of_the_model_itself(run, fit, people, tmp_path):
    out = tmp_path / "out"
    fit(out)
    before = names(out / "model")
    for command in (("audit", "--out"), ("monitor", *BOUND, "--state")):
        code, _, err = run(command[0], *people, "--model", out, *command[1:], out / "model")
        assert code == 2 and "is the folder of the model itself, and the report would stay there" in err
        assert f"write to another folder with {command[-1]}." in err and names(out / "model") == before


def test_an_audit_refuses_the_folder_of_decisions_of_another_run(run, fit, people, tmp_path):
    out = tmp_path / "out"
    fit(out, *OTHER)
    scored = ("audit", *people, "--score", "score", *BOUND, "--out")
    code, _, err = run(*scored, out)
    assert code == 2 and "holds the report of a run that trained" in err and "decisions.csv" in names(out)
    for _ in range(2):  # its own report of before is replaced
        assert run(*scored, tmp_path / "audited")[0] in (0, 1, 3)


def test_moved_scores_do_not_stand_beside_a_saved_model(run, fit, people, tmp_path):
    out = tmp_path / "out"
    fit(out)
    area = ("--constraint", "auc_parity[group] <= 0.5", "--out", out)
    for command in (("shift", *people, "--score", "score", *area), ("stream", *people, *area)):
        code, _, err = run(*command)
        assert code == 2 and "is a saved model" in err and names(out) == FITTED
    shutil.rmtree(out)
    for command, written in (("shift", {"shift.json", "scores.csv"}), ("stream", {"weights.json"})):
        score = ("--score", "score") if command == "shift" else ()
        code, _, err = run(command, *people, *score, *area)
        assert code in (0, 1, 3) and names(out) == {*REPORT, *written}, err
