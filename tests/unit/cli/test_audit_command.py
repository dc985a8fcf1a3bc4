"""`fairbound audit`: every group of the file is measured, and what could mislead a reader is said."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

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
