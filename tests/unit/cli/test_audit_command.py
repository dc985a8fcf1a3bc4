"""`fairbound audit`: every group of the file is measured, and what could mislead a reader is said."""

from __future__ import annotations

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
        "fit", "--data", tmp_path / "old.csv", *bound, "--budget", "300 steps", "--no-baseline", out=tmp_path / "fit"
    )
    assert code in (0, 3), error
    model = tmp_path / "fit" / "model"
    code, found, _ = run("audit", "--data", tmp_path / "new.csv", "--model", model, *bound, *more, out=tmp_path / "o")
    (judged,) = found["constraints"]
    assert (code, judged["verdict"]) == (1, "violated") and judged["value"] > 0.4
    assert judged["groups"] == new["g"].value_counts().to_dict()
    assert found["data"]["missing_group_rows"] == {"g": 0} and found["impact"][0]["unknown"] == 0
    assert any(f"{(new['g'] == 'c').sum():,} of 1,500 rows have a group that training lacked ('c')" in w
               for w in found["warnings"])  # fmt: skip
    new[new["g"] != "b"].to_csv(tmp_path / "new.csv", index=False)
    code, found, _ = run("audit", "--data", tmp_path / "new.csv", "--model", model, *bound, *more, out=tmp_path / "o")
    assert code == 1 and "No held-out row measures b." in found["constraints"][0]["why"]
