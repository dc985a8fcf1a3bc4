"""--weights: a column of row weights counts in training and in every verdict, and is no feature."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest

import fairbound as fb
from fairbound.cli.app import main

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
pytest.importorskip("jinja2", reason="the page needs the extra 'report'")
COMMON = ["--label", "y", "--group", "g", "--json", "--quiet"]


@pytest.fixture
def half_wrong(tmp_path):
    """600 rows, every second one with the other label (or the number turned round) and the weight 0."""
    rng = np.random.default_rng(3)
    x, g, wrong = rng.normal(size=600), rng.choice(["a", "b"], 600), np.arange(600) % 2 == 1
    number = np.where(wrong, -3 * x, 3 * x)
    frame = pd.DataFrame({"x": x, "g": g, "w": np.where(wrong, 0.0, 2.5), "y": (number > 0).astype(int), "z": number})
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    return path, frame


@pytest.fixture
def run(tmp_path, capsys):
    def call(*arguments: object) -> dict:
        code = main([*map(str, arguments), "--out", str(tmp_path / "out")])
        said = capsys.readouterr()
        assert code in (0, 1, 3), said.err
        return json.loads(said.out)

    return call


def test_rows_of_no_weight_count_neither_in_training_nor_in_the_verdict(run, half_wrong, tmp_path):
    path, frame = half_wrong
    given = ["fit", "--data", path, *COMMON, "--no-baseline", "--constraint", "demographic_parity <= 0.5"]
    weighed = run(*given, "--weights", "w", "--drop", "z", "--algorithm", "alm", "--budget", "20 steps")
    assert weighed["metrics"]["accuracy"] > 0.95
    model = fb.FairClassifier.load(tmp_path / "out" / "model")
    assert model.encoder_.columns == ("x",)
    assert (model.predict(frame) == frame["y"])[::2].mean() > 0.95  # the rows that weigh
    found = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert "Every row counts with its weight, column w." in found["notes"]
    assert (
        abs(run(*given, "--drop", "w,z", "--algorithm", "alm", "--budget", "20 steps")["metrics"]["accuracy"] - 0.5)
        < 0.1
    )

    audited = run("audit", "--data", path, *COMMON, "--model", tmp_path / "out" / "model", "--weights", "w")
    assert audited["metrics"]["accuracy"] != 1.0  # the second model learnt of both halves


def test_the_rows_that_train_are_those_with_a_weight(half_wrong, tmp_path, capsys):
    path, _ = half_wrong
    given = [
        "fit",
        "--data",
        path,
        "--label",
        "y",
        "--group",
        "g",
        "--no-baseline",
        "--algorithm",
        "alm",
        "--budget",
        "2 steps",
    ]
    main([*map(str, given), "--weights", "w", "--drop", "z", "--out", str(tmp_path / "out")])
    said = re.search(r"training on (\d+) rows under no bound; (\d+) are held out", capsys.readouterr().err)
    found = json.loads((tmp_path / "out" / "audit.json").read_text())
    trained, held = map(int, said.groups())
    assert trained + held == 300 and held == found["data"]["rows"] and trained == found["data"]["train_rows"]


def test_an_audit_is_that_of_python(run, half_wrong):
    path, frame = half_wrong
    scores, bound = frame["x"].to_numpy(), "equalized_odds <= 0.1"
    judge = ["audit", "--data", path, *COMMON, "--score", "x", "--threshold", "0.2", "--constraint", bound]
    given = {"threshold": 0.2, "constraint": bound}
    whole = fb.audit(scores, frame["y"], frame["g"], **given)["constraints"][0]
    part = fb.audit(scores, frame["y"], frame["g"], sample_weight=frame["w"], **given)["constraints"][0]
    for found, expected in ((run(*judge), whole), (run(*judge, "--weights", "w"), part)):
        assert [found["constraints"][0][k] for k in ("value", "lower", "upper")] == [
            expected[k] for k in ("value", "lower", "upper")
        ]
    assert whole["upper"] != part["upper"]


def test_the_other_commands_take_them(run, half_wrong):
    path, _ = half_wrong
    usual = ["--data", path, *COMMON, "--weights", "w"]
    points = run("frontier", *usual, "--drop", "z", "--constraint", "demographic_parity", "--bounds", "0.4", "--seeds", "1",
                 "--algorithm", "alm", "--budget", "20 steps")["points"]  # fmt: skip
    assert all(point["accuracy"] > 0.95 for point in points)
    regress = [
        "regress", "--data", path, "--label", "z", "--group", "g", "--json", "--quiet", "--drop", "y",
        "--budget", "200 steps"
    ]  # fmt: skip
    bound = ["--constraint", "prediction_parity <= 0.9"]
    assert (
        run(*regress, *bound, "--weights", "w")["metrics"]["r2"]
        > 0.9
        > run(*regress, *bound, "--keep-sensitive", "--pairs", "0")["metrics"]["r2"]
    )


def test_a_classifier_of_ones_own_and_that_without_bounds_see_weights_of_one_scale(run, half_wrong, tmp_path):
    path, frame = half_wrong
    usual = ["fit", "--data", path, *COMMON, "--drop", "z", "--constraint", "demographic_parity <= 0.4"]
    usual += ["--estimator", "sklearn.linear_model.LogisticRegression(C=0.1)", "--weights", "w"]
    found = []
    for unit in (1.0, 2.0**-20):
        frame.assign(w=unit * frame["w"] * (1 + (frame["x"] > 1))).to_csv(path, index=False)
        assert run(*usual)["metrics"]["accuracy"] > 0.95
        audit = json.loads((tmp_path / "out" / "audit.json").read_text())
        assert audit["data"]["train_rows"] + audit["data"]["rows"] == 300  # of a weight above 0
        found.append([audit["constraints"], audit["comparison"]])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--weights", "v"], "--weights: there is no column 'v'"),
        (["--weights", "bad"], "line 4 of the file has -1"),
        (["--weights", "none"], "not all 0, and all are 0"),
        (["--weights", "w", "--qid", "g"], "not for rankings"),
    ],
)
def test_wrong_weights_are_named(half_wrong, tmp_path, capsys, more, words):
    path, frame = half_wrong
    bad = np.ones(len(frame))
    bad[2] = -1
    frame.assign(bad=bad, none=0).to_csv(path, index=False)
    given = ["--data", str(path), "--label", "y", "--out", str(tmp_path / "o"), *more]
    for command in (["fit", "--group", "g"], ["audit", "--group", "g", "--score", "x"]):
        assert main([*command, *given]) == 2
        assert words in capsys.readouterr().err
    assert main(["audit", "--score", "x", "--chunk-rows", "50", *given]) == 2


def test_a_named_set_has_survey_weights_or_says_that_it_has_none(tmp_path, capsys):
    given = ["fit", "--data", "loanapp", "--group", "race", "--out", str(tmp_path), "--weights"]
    assert main([*given, "survey"]) == 2 and "'loanapp' has no survey weights" in capsys.readouterr().err


def test_the_weights_of_the_census(run, data_dir, tmp_path):
    usual = ["fit", "--data", "acs-pums-ok-2024", "--data-dir", data_dir, "--group", "sex", "--no-baseline", "--json"]
    usual += ["--constraint", "demographic_parity <= 0.1", "--budget", "100 steps"]
    found, plain = run(*usual, "--weights", "survey"), run(*usual)
    assert found["metrics"]["accuracy"] != plain["metrics"]["accuracy"]
    assert found["constraints"][0]["groups"] == plain["constraints"][0]["groups"]


def test_two_columns_of_decisions_in_words_are_compared_by_weight(run, half_wrong, tmp_path):
    path, frame = half_wrong
    words = np.array(["no", "yes"])
    frame = frame.assign(y=words[frame["y"]], one=words[(frame["x"] > 0) * 1], two=words[(frame["x"] > 0.5) * 1])
    frame.to_csv(path, index=False)
    given = ["compare", "one", "two", "--data", path, *COMMON]
    plain, weighed = run(*given)["differences"][0], run(*given, "--weights", "w")["differences"][0]
    assert plain["first"] == pytest.approx(0.5, abs=0.05) and weighed["first"] == 1.0
    assert weighed["second"] == pytest.approx((frame["two"] == frame["y"])[::2].mean())


def test_another_label_or_no_weights_than_in_training_are_warned_of(run, half_wrong, tmp_path, capsys):
    path, frame = half_wrong
    run("fit", "--data", path, *COMMON, "--no-baseline", "--weights", "w", "--drop", "z", "--budget", "50 steps")
    model = tmp_path / "model"
    (tmp_path / "out" / "model").rename(model)
    frame.assign(other=frame.y)[1:].to_csv(path, index=False)
    weights, label = "was trained with the weights 'w', and none are given", "was trained on the label 'y', not 'other'"
    other = ["--label", "other", *COMMON[2:], "--weights", "w"]
    for given, said in ((COMMON, weights), (other, label), ([*COMMON, "--weights", "w"], None)):
        found = run("audit", "--data", path, *given, "--model", model)["warnings"]
        assert [text for text in (weights, label) if any(text in line for line in found)] == [said] * (said is not None)
    assert main(["predict", "--data", str(path), "--model", str(model), "--out", str(tmp_path / "p.csv")]) == 0
    assert "rows are counted here; the model was trained with weights" in capsys.readouterr().out
    assert main(["compare", str(model), "x", "--data", str(path), *other[:-2]]) == 0
    found = json.loads(capsys.readouterr().out)["warnings"]
    assert any(label in line for line in found) and any(weights in line for line in found)
    asked = ["--constraint", "demographic_parity <= 0.5", "--state", str(tmp_path / "state")]
    assert main(["monitor", "--data", str(path), "--model", str(model), *COMMON, *asked]) in (0, 1, 3)
    assert any(weights in line for line in json.loads(capsys.readouterr().out)["warnings"])


def test_every_report_names_the_column_of_weights(run, half_wrong, tmp_path, capsys):
    path, frame = half_wrong
    frame.assign(d=(frame["x"] > 0) * 1, v=frame["w"] / 7.5 * (1 + np.arange(600) % 4)).to_csv(path, index=False)
    bound, page = ["--constraint", "demographic_parity <= 0.5"], tmp_path / "out" / "report.html"
    said = "Every row counts with its weight, column v."
    numbers = ["--label", "z", "--group", "g", "--json", "--quiet", "--constraint", "residual_gap <= 9"]
    for given in ([*COMMON, *bound, "--score", "d"], [*COMMON[2:], *bound, "--score", "d"], [*numbers, "--score", "x"]):
        run("audit", "--data", path, *given, "--weights", "v")
        assert said in json.loads(page.with_name("audit.json").read_text())["notes"]
        assert said in page.read_text(encoding="utf-8")
        run("audit", "--data", path, *given)
        assert said not in page.read_text(encoding="utf-8")
    found = run("compare", "d", "x", "--data", path, *COMMON, "--weights", "v")
    assert found["weights"] == "v" and said in fb.report.table(found)
    state = ["--state", tmp_path / "state", "--largest-weight", "1", "--score", "d", "--weights", "v"]
    assert main([*map(str, ["monitor", "--data", path, *COMMON, *bound, *state])]) in (0, 1, 3)
    found = json.loads((tmp_path / "state" / "audit.json").read_text())
    assert "by their weight, column v" in found["data"]["split"]
