"""`fairbound audit`: every group of the file is measured, and what could mislead a reader is said."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

import fairbound as fb
from fairbound.cli import app as cli
from fairbound.report import schema

pd = pytest.importorskip("pandas")
pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
pytest.importorskip("matplotlib", reason="the page's charts need the extra 'report'")


@pytest.fixture
def run(capsys):
    """(exit code, audit or None, standard error) of a command line that writes to `out`."""

    def call(*arguments: object, out) -> tuple[int, dict | None, str]:
        code = cli.main([*map(str, arguments), "--out", str(out)])
        found = json.loads((out / "audit.json").read_text()) if (out / "audit.json").exists() else None
        if found is not None:
            schema.validate(found)
        return code, found, capsys.readouterr().err

    return call


def people(group: list[str], seed: int, n: int = 1500) -> pd.DataFrame:
    """Rows whose skill decides; those of group c have too little of it to be selected."""
    rng = np.random.default_rng(seed)
    g = rng.choice(group, n)
    skill = rng.normal(size=n) - 9.0 * (g == "c")
    return pd.DataFrame({"skill": skill, "g": g, "y": (skill + 0.3 * rng.normal(size=n) > 0).astype(int)})


@pytest.mark.parametrize("more", [[], ["--chunk-rows", 400]])
def test_a_group_that_training_lacked_is_measured_like_any_other(run, tmp_path, more):
    people(["a", "b"], 0).to_csv(tmp_path / "old.csv", index=False)
    new = people(["a", "b", "c"], 1)
    new.to_csv(tmp_path / "new.csv", index=False)
    bound = ["--label", "y", "--group", "g", "--constraint", "demographic_parity <= 0.2"]
    code, _, error = run(
        "fit",
        "--data",
        tmp_path / "old.csv",
        *bound,
        "--algorithm",
        "alm",
        "--budget",
        "60 steps",
        "--no-baseline",
        out=tmp_path / "fit",
    )
    assert code in (0, 3), error
    model = tmp_path / "fit" / "model"
    code, found, _ = run("audit", "--data", tmp_path / "new.csv", "--model", model, *bound, *more, out=tmp_path / "o")
    digest = f"sha256:{hashlib.sha256((model / 'model.json').read_bytes()).hexdigest()}"
    written = json.loads((tmp_path / "fit" / "audit.json").read_text())
    assert found["model"]["checksum"] == written["model"]["checksum"] == digest
    for page in ("report.html", "model_card.md"):
        assert digest in (tmp_path / "fit" / page).read_text() and digest in (tmp_path / "o" / page).read_text()
    (judged,) = found["constraints"]
    assert (code, judged["verdict"]) == (1, "violated") and judged["value"] > 0.4
    assert judged["groups"] == new["g"].value_counts().to_dict()
    assert found["data"]["missing_group_rows"] == {"g": 0} and found["impact"][0]["unknown"] == 0
    assert any(f"{(new['g'] == 'c').sum():,} of 1,500 rows have a group that training lacked ('c')" in w
               for w in found["warnings"])  # fmt: skip
    new[new["g"] != "b"].to_csv(tmp_path / "new.csv", index=False)
    code, found, _ = run("audit", "--data", tmp_path / "new.csv", "--model", model, *bound, *more, out=tmp_path / "o")
    assert code == 1 and "No held-out row measures b." in found["constraints"][0]["why"]


def decided(tmp_path, n: int = 1000) -> pd.DataFrame:
    """Scores, decisions and outcomes of loans; "approved" comes first in the alphabet, so "declined" is guessed positive."""
    rng = np.random.default_rng(2)
    p = rng.random(n)
    words = lambda hit: np.where(hit, "approved", "declined")  # noqa: E731
    frame = pd.DataFrame(
        {"p": p, "made": words(p > 0.5), "g": rng.choice(["a", "b"], n), "loan": words(p > rng.random(n))}
    )
    frame.to_csv(tmp_path / "loans.csv", index=False)
    return frame


@pytest.fixture
def paid(tmp_path):
    """300 rows with a model of "no" and "yes" (`two`) and one of three classes (`three`) saved beside them."""
    frame = people(["a", "b"], 0, 300)
    frame["y"] = np.where(frame["y"] == 1, "yes", "no")
    shown = frame["skill"] + np.random.default_rng(1).normal(size=300)
    frame["three"] = np.where(shown > 0.5, "top", np.where(shown > -0.5, "mid", "low"))
    for name, label in (("two", "y"), ("three", "three")):
        fb.FairClassifier(None, budget="20 steps").fit(frame[["skill"]], frame[label]).save(tmp_path / name)
    return frame


def test_labels_in_other_capitals_are_those_of_the_saved_model(run, tmp_path, paid):
    asked = ["--data", tmp_path / "t.csv", "--group", "g", "--constraint", "demographic_parity <= 0.9", "--label"]
    two, found = ["y", "--model", tmp_path / "two"], []
    for case in (str, str.upper, " {} ".format):
        frame = paid.assign(y=paid["y"].map(case), three=paid["three"].map(case), old=paid["y"].map(case))
        frame.to_csv(tmp_path / "t.csv", index=False)
        for more in ([*two], [*two, "--chunk-rows", 100], [*two, "--positive", "YES"]):
            _, audited, said = run("audit", *asked, *more, out=tmp_path / "o")
            assert audited["data"]["positive"] == "yes", said
            found.append((case, more, audited["metrics"]))
        state = tmp_path / f"state{len(found)}"
        assert cli.main([*map(str, ["monitor", *asked, *two, "--state", state])]) in (0, 3)
        found.append((case, "state", json.loads((state / "audit.json").read_text())["metrics"]))
        assert cli.main([*map(str, ["compare", tmp_path / "two", "old", *asked, "y", "--out", tmp_path / "c"])]) == 0
        found.append((case, "both", json.loads((tmp_path / "c" / "compare.json").read_text())["differences"]))
        _, audited, _ = run("audit", *asked[:2], "--label", "three", "--model", tmp_path / "three", out=tmp_path / "o")
        found.append((case, "three", audited["metrics"]))
    first = {str(way): value for case, way, value in found if case is str}
    assert all(value == first[str(way)] for _, way, value in found)


def test_labels_in_other_words_than_the_saved_model_s_are_to_be_recoded(tmp_path, paid, capsys):
    paid.assign(y=(paid["y"] == "yes").astype(int)).to_csv(tmp_path / "t.csv", index=False)
    asked, model = ["--data", tmp_path / "t.csv", "--group", "g", "--label", "y"], ["--model", tmp_path / "two"]
    bound = ["--constraint", "demographic_parity <= 0.9"]
    for command in (
        ["audit", *model, "--out", tmp_path / "o"],
        ["audit", *model, "--out", tmp_path / "o", "--positive", "1"],
        ["audit", *model, "--out", tmp_path / "o", "--chunk-rows", 100],
        ["monitor", *model, "--state", tmp_path / "s", *bound],
        ["compare", tmp_path / "two", "skill"],
    ):
        assert cli.main([*map(str, [*command, *asked])]) == 2
        said = capsys.readouterr().err
        assert "the labels are 0, 1, and the model was trained on 'no' and 'yes'. Recode the column" in said


def test_another_positive_label_than_the_saved_model_s_is_refused(tmp_path, paid, capsys):
    paid.to_csv(tmp_path / "t.csv", index=False)
    asked, model = ["--data", tmp_path / "t.csv", "--group", "g", "--label", "y", "--positive", "no"], tmp_path / "two"
    for command in (
        ["audit", "--model", model, "--out", tmp_path / "o"],
        ["audit", "--model", model, "--out", tmp_path / "o", "--chunk-rows", 100],
        ["monitor", "--model", model, "--state", tmp_path / "s", "--constraint", "demographic_parity <= 0.9"],
        ["compare", model, "skill"],
    ):
        assert cli.main([*map(str, [*command, *asked])]) == 2
        assert "the model's positive label is 'yes', not 'no'; leave --positive out" in capsys.readouterr().err


@pytest.mark.filterwarnings("default:The label 'declined' counts as positive")
def test_scores_of_the_other_label_are_noticed(run, tmp_path):
    decided(tmp_path)
    asked = ["audit", "--data", tmp_path / "loans.csv", "--score", "p", "--label", "loan", "--group", "g"]
    _, found, said = run(*asked, out=tmp_path / "o")
    assert found["metrics"]["auc"] < 0.3 and "To turn them, pass --positive 'approved'" in said
    assert any("higher for approved than for declined" in w and "--positive" in w for w in found["warnings"])
    _, found, _ = run(*asked, "--positive", "approved", out=tmp_path / "o")
    assert found["metrics"]["auc"] > 0.7 and found["warnings"] == []


@pytest.mark.parametrize("more", [[], ["--chunk-rows", 300]])
def test_a_column_of_predicted_labels_is_audited_under_bounds_on_rates(run, tmp_path, more):
    frame = decided(tmp_path)
    code, found, error = run(
        "audit", "--data", tmp_path / "loans.csv", "--score", "made", "--label", "loan", "--positive", "approved",
        "--group", "g", "--constraint", "demographic_parity <= 0.2", *more, out=tmp_path / "o",
    )  # fmt: skip
    assert code == 0, error
    assert found["metrics"]["accuracy"] == pytest.approx((frame["made"] == frame["loan"]).mean())
    assert found["metrics"]["selection_rate"] == pytest.approx((frame["made"] == "approved").mean())


@pytest.mark.parametrize("more", [[], ["--chunk-rows", 300]])
def test_an_audit_without_bound_or_group_measures_and_judges_nothing(run, tmp_path, more):
    frame = decided(tmp_path)
    code, found, error = run(
        "audit", "--data", tmp_path / "loans.csv", "--score", "p", "--label", "loan", "--positive", "approved", *more,
        out=tmp_path / "o",
    )  # fmt: skip
    assert code == 0, error
    assert (found["verdict"], found["constraints"], found["data"]["sensitive"]) == (None, [], [])
    assert found["metrics"]["accuracy"] == pytest.approx(((frame["p"] > 0.5) == (frame["loan"] == "approved")).mean())


@pytest.mark.parametrize("more", [[], ["--chunk-rows", 300]])
def test_a_group_called_na_in_a_csv_file_is_said_to_be_read_as_missing(run, tmp_path, more):
    frame = decided(tmp_path).assign(g=lambda f: f["g"].replace("a", "NA"))
    frame["g"] = np.where(np.arange(len(frame)) % 3 == 0, "EU", frame["g"])
    asked = ["--score", "p", "--label", "loan", "--positive", "approved", "--group", "g"]
    frame.to_csv(tmp_path / "na.csv", index=False)
    _, found, _ = run("audit", "--data", tmp_path / "na.csv", *asked, *more, out=tmp_path / "o")
    gone = int((frame["g"] == "NA").sum())
    assert found["data"]["missing_group_rows"] == {"g": gone}
    assert [w.startswith(f"g is not known in {gone} of 1,000 rows") for w in found["warnings"]] == [True, False]
    assert "words such as NA, None" in found["warnings"][1]
    pytest.importorskip("pyarrow")
    frame.to_parquet(tmp_path / "na.parquet")
    _, found, _ = run("audit", "--data", tmp_path / "na.parquet", *asked, *more, out=tmp_path / "o")
    (said,) = found["warnings"]
    assert said.startswith("g: 'NA' is counted as a group of people like any other.") and {
        g["group"] for g in found["groups"]
    } == {"EU", "NA", "b"}


@pytest.mark.parametrize("command", ["audit", "audit in parts", "audit of decisions", "compare", "monitor"])
def test_a_model_that_decides_by_two_attributes_says_which_is_not_named(tmp_path, capsys, command):
    rows = people(["a", "b"], 0, 400).assign(sex=np.resize(["f", "m", "m"], 400))
    rows.to_csv(tmp_path / "rows.csv", index=False)
    model = fb.FairClassifier("demographic_parity <= 0.5", use_groups_at_prediction=True)
    model.fit(rows[["skill"]], rows.y, sensitive_features=rows[["sex", "g"]]).save(tmp_path / "model")
    saved, label = str(tmp_path / "model"), ["--label", "y"]
    given = {
        "audit": ["audit", "--model", saved, "--out", str(tmp_path / "o"), *label],
        "audit in parts": ["audit", "--model", saved, "--out", str(tmp_path / "o"), *label, "--chunk-rows", "99"],
        "audit of decisions": ["audit", "--model", saved, "--out", str(tmp_path / "o")],
        "compare": ["compare", saved, "skill", *label],
        "monitor": ["monitor", "--model", saved, "--state", str(tmp_path / "s"), *label],
    }[command]
    assert cli.main([*given, "--data", str(tmp_path / "rows.csv"), "--group", "g"]) == 2
    assert f"--group must name sex too: the model in {saved} decides by it." in capsys.readouterr().err
