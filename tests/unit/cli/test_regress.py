"""`fairbound regress`, and the audit of predicted numbers: what they write, say and refuse."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fairbound as fb
from fairbound.cli.app import main
from fairbound.cli.training.common import MET_WITHOUT
from fairbound.report import schema


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    sex = rng.choice(["F", "M"], 4000)
    frame = pd.DataFrame(
        {"sex": sex, "years": rng.normal(size=4000) + (sex == "M"), "area": rng.choice(["x", "y"], 4000)}
    )
    frame["pay"] = frame.years + 0.8 * (sex == "M") + 0.5 * rng.normal(size=4000)
    frame.to_csv("pay.csv", index=False)
    return frame


def test_a_method_is_named_as_for_fit(table, capsys):
    arguments = [
        "regress",
        "--data",
        "pay.csv",
        "--label",
        "pay",
        "--group",
        "sex",
        "--constraint",
        "residual_gap <= 1",
    ]
    assert main([*arguments, "--algorithm", "alm", "--budget", "20 steps", "--out", "out", "--json"]) in (0, 3)
    assert json.loads(Path("out/audit.json").read_text())["model"]["algorithm"] == "alm"
    capsys.readouterr()
    assert main([*arguments, "--algorithm", "almm", "--out", "other"]) == 2
    assert "almm" in capsys.readouterr().err and not Path("other").exists()


def test_it_trains_judges_and_is_audited_again(table, capsys):
    arguments = ["--data", "pay.csv", "--label", "pay", "--group", "sex"]
    code = main(["regress", *arguments, "--constraint", "residual_gap <= 0.05", "--out", "out", "--json"])
    summary = json.loads(capsys.readouterr().out)
    assert code == 3 and summary["verdict"] == "insufficient" and summary["rows"] == 1000
    audit = json.loads(Path("out/audit.json").read_text())
    schema.validate(audit)
    assert [m["name"] for m in audit["comparison"]] == ["constrained", "unconstrained"]
    assert audit["comparison"][1]["constraints"][0]["verdict"] == "violated"
    assert all(set(m["metrics"]) == set(audit["metrics"]) for m in audit["comparison"])
    assert "undefined" not in fb.report.table(audit)
    assert main(["audit", *arguments, "--model", "out/model", "--out", "again", "--json"]) in (0, 3)
    again = json.loads(capsys.readouterr().out)
    judged = json.loads(Path("again/audit.json").read_text())["model"]
    assert judged == audit["model"] | {"description": "saved in model", "seconds": None}
    assert judged["checksum"].startswith("sha256:")
    assert again["constraints"][0]["text"] == "residual_gap <= 0.05" and again["rows"] == 4000
    assert again["warnings"][-1].startswith("This is the file that the model was trained on")
    records = [json.loads(line) for line in Path("out/records.jsonl").read_text().splitlines()]
    assert [r["step"] for r in records[:1]] == [0] and len(records) > 1
    assert audit["trajectory"]["steps"] == [r["step"] for r in records]
    again, third = (Path(name, "report.html").read_text() for name in ("out", "again"))
    assert (
        f"{len(records)} points were recorded." in again
        and "No trajectory" not in third
        and 'id="training"' not in third
    )
    wider = ["--constraint", "residual_gap <= 0.15"]
    assert main(["audit", *arguments, "--model", "out/model", "--out", "again", *wider, "--json"]) == 0
    capsys.readouterr()
    model = fb.FairRegressor.load("out/model")
    table.assign(guess=model.predict(table)).to_csv("guess.csv", index=False)
    arguments[1] = "guess.csv"
    stated = "prediction_parity[at=0:1] <= 0.01"
    assert main(["audit", *arguments, "--score", "guess", "--constraint", stated, "--out", "third", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["constraints"][0]
    assert found["value"] == pytest.approx(fb.measure(stated, model.predict(table), table.pay, table.sex))
    asked = [*arguments, "--score", "guess", "--constraint", stated, "--power", "0.8", "--out", "fourth"]
    assert main(["audit", *asked]) == 2, "it says nothing at these odds"
    assert "leave power out" in capsys.readouterr().err


def test_a_broken_bound_gets_its_value_in_training_and_a_next_step(table, capsys):
    """As of `fit`, and by the same function; a mean of losses as they are has no certificate, so that it is not advised."""
    rng = np.random.default_rng(1)
    few = table.iloc[:600].assign(**{f"noise{i}": rng.normal(size=600) for i in range(60)})
    few.to_csv("few.csv", index=False)
    call = ["regress", "--data", "few.csv", "--label", "pay", "--group", "sex", "--constraint"]
    assert main([*call, "residual_gap <= 0.001", "--out", "out"]) in (1, 3)
    said = capsys.readouterr().out
    value = "On the training rows, which the verdict is not about, the value of 'residual_gap <= 0.001' is 0.00"
    assert value in said and "; without the bound it is " in said
    assert "The bound is met on the training rows" in said and "has no certificate: a mean loss without" in said
    noted = json.loads(Path("out/audit.json").read_text())["notes"]
    assert any(value in line for line in noted) and any("as in 'residual_gap[largest=0.02]'" in line for line in noted)
    assert MET_WITHOUT not in said
    main([*call, "residual_gap <= 1000", "--out", "out"])
    assert MET_WITHOUT in " ".join(capsys.readouterr().out.split())
    assert main([*call, "residual_gap[largest=5] <= 0.001", "--out", "out"]) in (1, 3)
    assert "train with --certify" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "words"),
    [(["--group", "sex"], "state a bound"), (["--constraint", "residual_gap <= 1"], "--group"),
     (["--group", "sex", "--constraint", "demographic_parity <= 1"], "residual_gap"),
     (["--group", "sex", "--constraint", "residual_gap <= 1", "--drop", "years,area"], "no column is left")],
)  # fmt: skip
def test_wrong_use_is_one_line(more, words, table, capsys):
    assert main(["regress", "--data", "pay.csv", "--label", "pay", "--out", "out", *more]) == 2
    assert words in capsys.readouterr().err


def test_a_label_of_text_is_said(table, capsys):
    arguments = ["--data", "pay.csv", "--label", "area", "--group", "sex", "--constraint", "residual_gap <= 1"]
    assert main(["regress", *arguments, "--out", "out"]) == 2
    assert "no numbers" in capsys.readouterr().err


def test_a_model_of_numbers_is_sent_to_audit_by_what_takes_classifiers(table, capsys):
    fb.FairRegressor(budget="5 steps").fit(table[["years"]], table.pay).save("model")
    rows = ["--data", "pay.csv", "--group", "sex"]
    for command, *more in (
        ["compare", "model", "model", "--label", "pay"],
        ["compare", "model", "model"],
        ["monitor", "--model", "model", "--state", "s", "--label", "pay"],
        ["audit --chunk-rows", "1000", "--model", "model", "--label", "pay", "--out", "o"],
    ):
        assert main([*command.split(), *more, *rows]) == 2
        said = (
            f"'model' is a FairRegressor, and {command} takes classifiers; judge it by itself with fairbound audit.\n"
        )
        assert said in capsys.readouterr().err
