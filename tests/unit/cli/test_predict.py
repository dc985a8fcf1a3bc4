"""`fairbound predict`: the file it writes holds what the saved model says in Python."""

from __future__ import annotations

import json
import os
from threading import Thread

import numpy as np
import pandas as pd
import pytest

import fairbound as fb
from fairbound.cli import app as cli
from fairbound.cli import predict as command
from fairbound.tables import encoder

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")


@pytest.fixture
def rows(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"id": np.arange(300), "x": rng.normal(size=300), "city": rng.choice(["a", "b"], 300)})
    frame["sex"] = rng.choice(["f", "m"], 300)
    frame["y"] = np.where(frame.x + (frame.sex == "m") + rng.normal(size=300) > 0.5, "yes", "no")
    frame.drop(columns="y").to_csv(tmp_path / "new.csv", index=False)
    return tmp_path, frame


def written(folder, model, *more):
    model.save(folder / "model")
    out = folder / "out" / "said.csv"
    arguments = ["predict", "--data", str(folder / "new.csv"), "--model", str(folder / "model"), "--out", str(out)]
    assert cli.main([*arguments, *more]) == 0
    return pd.read_csv(out)


@pytest.mark.parametrize("by_group", [False, True])
def test_two_classes_read_in_parts(rows, monkeypatch, capsys, by_group):
    monkeypatch.setattr(command, "ROWS", 64)
    folder, frame = rows
    X = frame[["x", "city"]]
    model = fb.FairClassifier("demographic_parity <= 0.05", use_groups_at_prediction=by_group)
    model.fit(X, frame.y, sensitive_features=frame[["sex"]])
    found = written(folder, model, "--keep", "id", "--json")
    groups = frame[["sex"]] if by_group else None
    assert list(found) == ["id", "prediction", "probability", "score"]
    assert (found.id == frame.id).all() and (found.prediction == model.predict(X, groups)).all()
    assert np.allclose(found.score, model.decision_function(X, groups), atol=1e-9)
    assert np.allclose(found.probability, model.predict_proba(X)[:, 1], atol=1e-9)
    said = json.loads(capsys.readouterr().out)
    assert said["rows"] == 300 and said["predicted"] == found.prediction.value_counts().to_dict()
    frame.drop(columns="y").iloc[:0].to_csv(folder / "new.csv", index=False)  # a day on which nothing came
    found = written(folder, model, "--keep", "id")
    assert list(found) == ["id", "prediction", "probability", "score"] and len(found) == 0
    assert "has a header and no rows" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:.*by itself tells the labels")  # its labels are made from one column
def test_more_classes_and_numbers(rows):
    folder, frame = rows
    X, three = frame[["x", "city"]], np.digitize(frame.x, [-0.5, 0.5])
    model = fb.FairClassifier("recall of class 1 >= 0.2", budget="200 steps").fit(X, three)
    found = written(folder, model)
    assert (found.prediction == model.predict(X)).all()
    assert np.allclose(found[[f"probability {k}" for k in range(3)]], model.predict_proba(X), atol=1e-9)
    numbers = fb.FairRegressor("residual_gap <= 0.5").fit(X, 3 * frame.x, sensitive_features=frame[["sex"]])
    assert np.allclose(written(folder, numbers).prediction, numbers.predict(X), atol=1e-9)


def test_what_is_wrong_is_said(rows, capsys):
    folder, frame = rows
    X = frame[["x", "city"]]
    model = fb.FairClassifier("demographic_parity <= 0.05", use_groups_at_prediction=True)
    model.fit(X, frame.y, sensitive_features=frame[["sex"]]).save(folder / "model")
    frame.drop(columns=["y", "sex"]).to_csv(folder / "lacks.csv", index=False)
    start = ["predict", "--model", str(folder / "model"), "--out", str(folder / "said.csv"), "--data"]
    for data, words in (("lacks.csv", "decides by sex"), ("none.csv", "none.csv")):
        assert cli.main([*start, str(folder / data)]) == 2
        assert words in capsys.readouterr().err
    assert cli.main([*start, str(folder / "new.csv"), "--keep", "idd"]) == 2
    assert "'id'" in capsys.readouterr().err and not (folder / "said.csv").exists()


@pytest.mark.parametrize("form", [int, float, str])
def test_ones_and_zeros_are_the_true_and_false_of_training(rows, form):
    folder, frame = rows
    X = frame[["x"]].assign(owner=frame.sex == "f")
    model = fb.FairClassifier(budget="20 steps").fit(X, frame.y)
    other = X.assign(owner=X.owner.astype(int).astype(form))
    assert (model.decision_function(other) == model.decision_function(X)).all()
    other.to_csv(folder / "new.csv", index=False)
    assert np.allclose(written(folder, model).score, model.decision_function(X), atol=1e-9)


def test_a_few_values_that_training_lacked_are_counted(rows, capsys):
    folder, frame = rows
    model = fb.FairClassifier("demographic_parity <= 0.5").fit(
        frame[["x", "city"]], frame.y, sensitive_features=frame[["sex"]]
    )
    frame.assign(city=np.where(np.arange(300) < 7, "elsewhere", frame.city)).to_csv(folder / "new.csv", index=False)
    written(folder, model, "--json")
    said = json.loads(capsys.readouterr().out)
    assert (
        said["notes"] == ["city: 7 of 300 rows have a value unseen or too rare in training."] and not said["warnings"]
    )


def test_a_column_written_in_another_way_is_said_by_predict_in_its_one_reading_and_by_audit(rows, capsys, monkeypatch):
    folder, frame = rows
    model = fb.FairClassifier("demographic_parity <= 0.5").fit(
        frame[["x", "city"]], frame.y, sensitive_features=frame[["sex"]]
    )
    written(folder, model, "--json")
    assert json.loads(capsys.readouterr().out)["warnings"] == []
    upper = frame.assign(city=np.where(np.arange(300) < 149, frame.city, frame.city.str.upper()))
    upper.to_csv(folder / "new.csv", index=False)
    read, whole = [], encoder.read_columns
    with monkeypatch.context() as patched:
        patched.setattr(encoder, "read_columns", lambda *a, **k: read.append(len(a[0])) or whole(*a, **k))
        written(folder, model)
    assert read == [300], "the features were made more than once"
    assert "city: 151 of 300 rows have a value that training did not know" in capsys.readouterr().out
    cli.main(["audit", "--data", str(folder / "new.csv"), "--label", "y", "--group", "sex", "--model", str(folder / "model"),
              "--out", str(folder / "judged")])  # fmt: skip
    found = json.loads((folder / "judged" / "audit.json").read_text())
    assert any("city: 151 of 300" in line for line in found["warnings"])
    assert not any("sex: not in" in line or "y: not in" in line for line in found["notes"])
    assert any("id: not in the training table" in line for line in found["notes"])


@pytest.mark.parametrize("more", [[], ["--chunk-rows", "77"]])
def test_an_audit_of_fewer_attributes_than_were_bound_says_which_it_leaves_out(rows, more):
    folder, frame = rows
    both = frame.assign(other=np.where(np.arange(300) % 2, "p", "q"))
    both.to_csv(folder / "new.csv", index=False)
    model = fb.FairClassifier("demographic_parity <= 0.5").fit(
        frame[["x"]], frame.y, sensitive_features=both[["sex", "other"]]
    )
    model.save(folder / "model")
    for group, said in (("sex", True), ("sex,other", False)):
        cli.main(["audit", "--data", str(folder / "new.csv"), "--label", "y", "--group", group, "--model", str(folder / "model"),
                  "--out", str(folder / "judged"), *more])  # fmt: skip
        found = json.loads((folder / "judged" / "audit.json").read_text())
        assert any("bounds on other too, which this audit does not judge" in line for line in found["warnings"]) == said


@pytest.mark.parametrize("out", ["new.csv", "model/model.json", "link.csv"])
def test_what_is_read_is_not_written_over(rows, capsys, out):
    folder, frame = rows
    fb.FairClassifier(budget="50 steps").fit(frame[["x"]], frame.y).save(folder / "model")
    (folder / "link.csv").symlink_to(folder / "new.csv")
    before = (folder / out).read_bytes()
    arguments = ["predict", "--data", str(folder / "new.csv"), "--model", str(folder)]
    assert cli.main([*arguments, "--out", str(folder / out)]) == 2
    assert f"{out} is read, so it cannot be written too" in capsys.readouterr().err
    assert (folder / out).read_bytes() == before


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("scores.csv", "shift --score x --label y --group sex --constraint auc_parity[group]<=0.1"),
        ("decisions.csv", "fit --label y --group sex --estimator sklearn.tree.DecisionTreeClassifier"),
    ],
)
def test_nor_by_a_command_that_writes_a_folder(rows, capsys, name, command):
    folder, frame = rows
    frame.to_csv(folder / name, index=False)
    assert cli.main([*command.split(), "--data", str(folder / name), "--out", str(folder)]) == 2
    assert f"{name} is read, so it cannot be written too" in capsys.readouterr().err


def test_a_folder_given_as_data_is_said_to_be_one(rows, capsys):
    folder, frame = rows
    fb.FairClassifier(budget="50 steps").fit(frame[["x"]], frame.y).save(folder / "model")
    (folder / "old.csv").write_text("prediction\n")
    arguments = ["predict", "--data", str(folder), "--model", str(folder / "model")]
    assert cli.main([*arguments, "--out", str(folder / "old.csv")]) == 2
    assert f"{folder} is a folder; give the path of a CSV file in it." in capsys.readouterr().err


def test_an_empty_cell_that_is_kept_is_missing_in_parquet_and_empty_in_csv(rows, monkeypatch):
    monkeypatch.setattr(command, "ROWS", 64)
    folder, frame = rows
    fb.FairClassifier(budget="50 steps").fit(frame[["x"]], frame.y).save(folder / "model")
    frame = frame.assign(sex=np.where(frame.id < 100, None, frame.sex), code="007", note=None)
    frame.to_csv(folder / "new.csv", index=False)
    arguments = [
        "predict",
        "--data",
        str(folder / "new.csv"),
        "--model",
        str(folder / "model"),
        "--keep",
        "sex,code,note",
    ]
    for out in ("said.parquet", "said.csv"):
        assert cli.main([*arguments, "--out", str(folder / out)]) == 0
    found = pd.read_parquet(folder / "said.parquet")
    assert list(found.sex[found.sex.notna()]) == list(frame.sex[100:]) and found.sex.isna().sum() == 100
    assert set(found.code) == {"007"} and found.note.isna().all()
    assert (folder / "said.csv").read_text().splitlines()[1].startswith(",007,,")
    frame.assign(sex=frame.sex.fillna("")).to_parquet(folder / "new.parquet")
    arguments[2] = str(folder / "new.parquet")
    assert cli.main([*arguments, "--out", str(folder / "said.parquet")]) == 0
    assert (pd.read_parquet(folder / "said.parquet").sex == "").sum() == 100, "a text of a Parquet file, as it is"


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="the system gives no paths to what is open")
def test_a_pipe_of_the_shell_is_written_to_and_standard_output_is_not(rows, capsys):
    folder, frame = rows
    fb.FairClassifier(budget="50 steps").fit(frame[["x"]], frame.y).save(folder / "model")
    arguments = ["predict", "--data", str(folder / "new.csv"), "--model", str(folder / "model")]
    for taken in ("-", "/dev/stdout", "/dev/stderr", "/dev/fd/1", "/proc/self/fd/2"):
        assert cli.main([*arguments, "--out", taken]) == 2
        assert "is where the command says what it did" in capsys.readouterr().err
    read, write = os.pipe()
    with open(read) as end:
        thread = Thread(target=lambda: lines.extend(end))
        lines: list[str] = []
        thread.start()
        code = cli.main([*arguments, "--out", f"/dev/fd/{write}"])
        os.close(write)
        thread.join()
    assert code == 0 and len(lines) == 301 and lines[0].startswith("prediction")


def test_a_cut_off_row_is_not_scored(rows, capsys):
    folder, frame = rows
    fb.FairClassifier(budget="50 steps").fit(frame[["x", "city"]], frame.y).save(folder / "model")
    (folder / "new.csv").write_text("id,x,city,sex\n1,0.5,a,f\n2,0.5\n")
    arguments = ["predict", "--data", str(folder / "new.csv"), "--model", str(folder / "model")]
    assert cli.main([*arguments, "--out", str(folder / "said.csv")]) == 2
    assert "new.csv: line 3 has 2 fields, the header 4. A cut-off file" in capsys.readouterr().err
    assert not (folder / "said.csv").exists()
