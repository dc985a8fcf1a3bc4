"""Files with several rows of one person: what is said, and `--split-by`."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from fairbound.base.errors import OptionError
from fairbound.cli.files.columns import units_of
from fairbound.cli.files.row_warnings import identifier_warnings
from fairbound.cli.gate import check
from fairbound.cli.options.training import FitOptions
from fairbound.cli.training.rows import rows_of_options
from fairbound.cli.training.splitting import split_rows


@pytest.fixture
def visits(tmp_path):
    """A file of 150 patients with one to five visits each, and 5 visits of nobody known."""
    rng = np.random.default_rng(0)
    who = rng.permutation(np.repeat(np.arange(150), rng.integers(1, 6, 150))).astype(float)
    n = len(who)
    sex, age = np.where(who % 2 == 0, "F", "M"), 20 + who % 50
    y = np.where(age + rng.normal(0, 10, n) > 45, "yes", "no")
    who[:5] = np.nan
    path = tmp_path / "visits.csv"
    pd.DataFrame({"patient_id": who, "age": age, "sex": sex, "cured": y}).to_csv(path, index=False)
    return path


def asked(path, **more):
    return FitOptions(data=str(path), label="cured", group="sex", out="o", **more)


def test_whole_persons_are_held_out_and_the_column_is_no_feature(visits):
    rows = rows_of_options(asked(visits, split_by="patient_id"))
    split = split_rows(rows, None, 0)
    who = pd.read_csv(visits).patient_id.to_numpy()
    train, test = who[split.train], who[split.test]
    assert not set(train[~np.isnan(train)]) & set(test[~np.isnan(test)])
    assert len(np.unique(rows.units)) == 155 and 0.15 < len(split.test) / len(rows) < 0.35
    assert list(rows.X.columns) == ["age"] and "patient_id" in split.words
    plain = split_rows(rows_of_options(asked(visits)), None, 0)
    assert set(who[plain.train]) & set(who[plain.test])


def test_what_is_said(run, visits, tmp_path):
    call = ["fit", "--data", visits, "--label", "cured", "--group", "sex", "--constraint", "demographic_parity <= 0.2"]
    for more, said in (
        ([], "rows of one stand on both sides of the split"),
        (["--split-by", "patient_id"], None),
    ):
        code, _, before = run(
            *call, *more, "--algorithm", "alm", "--budget", "5 steps", "--no-baseline", "--out", tmp_path / "o"
        )
        assert code in (0, 1, 3) and (said is None or said in before[: before.index("training on")])
        made = json.loads((tmp_path / "o" / "audit.json").read_text())
        assert sum("If each is one person" in one for one in made["warnings"]) == (said is not None)
        assert any("come in" in one and "clusters" in one for one in made["notes"]) == (said is None)
        assert ("rows of clusters" in made["constraints"][0]["method"]) == (said is None)
        named = made["data"].get("clusters", {}).get("column")
        assert named == (None if said else "patient_id")
    for more, said in ((["--split-by", "cured"], "is the label"), (["--split-by", "x"], "no column 'x'"),
                       (["--split-by", "patient_id", "--certify"], "one row of each person")):  # fmt: skip
        code, _, err = run(*call, *more, "--out", tmp_path / "o")
        assert code == 2 and said in err
    remedy, *_ = rows_of_options(asked(visits, certify=True, constraint=["demographic_parity <= 0.2"])).warnings
    assert "Keep one row of each person." in remedy and "--split-by" not in remedy
    code, _, err = run("fit", "--data", "loanapp", "--split-by", "id", "--out", tmp_path / "o")
    assert code == 2 and "--split-by" in err


def test_the_rows_of_a_person_are_judged_together(run, visits, tmp_path):
    """`audit --clusters`, a gate and a file of numbers; without the option a warning, also of `monitor` and `compare`."""
    frame = pd.read_csv(visits)
    frame["decision"] = np.where(frame.age > 40, "yes", "no")
    frame.assign(guess=frame.age + 1).to_csv(visits, index=False)
    call = ["--data", visits, "--label", "cured", "--group", "sex", "--constraint", "demographic_parity <= 0.2"]
    scored = [*call, "--score", "decision"]
    width = {}
    for more in ([], ["--clusters", "patient_id"]):
        run("audit", *scored, *more, "--out", tmp_path / "a")
        found = json.loads((tmp_path / "a" / "audit.json").read_text())
        said = " ".join(found["warnings"])
        assert ("--clusters patient_id takes the rows of each together." in said) == (not more)
        c = found["constraints"][0]
        assert found["data"].get("clusters", {}).get("column") == (more[1] if more else None)
        width[len(more)] = c["upper"] - c["value"]
    assert width[2] > 1.2 * width[0]
    assert all(c["four_fifths"]["p_value"] is None for t in found["impact"] for c in t["categories"])
    (tmp_path / "g.toml").write_text(
        f'data = "{visits}"\nlabel = "cured"\ngroup = "sex"\nscore = "decision"\nclusters = "patient_id"\n'
        'constraint = "demographic_parity <= 0.2"\naccept = ["met", "insufficient"]\n'
    )
    passed = check(tmp_path / "g.toml")
    assert passed.summary["constraints"][0]["upper"] == pytest.approx(c["upper"])
    with open(tmp_path / "g.toml", "a") as file:
        file.write('baseline = "age"\n')
    with pytest.raises(OptionError, match="leave baseline or clusters out"):
        check(tmp_path / "g.toml")
    _, out, _ = run("monitor", "--state", tmp_path / "m", *scored)
    assert "Keep one row of each person." in out
    _, out, _ = run("compare", "decision", "decision", *call)
    assert "Keep one row of each person." in out
    for more, said in ((["--chunk-rows", "50"], "leave --clusters or"), (["--qid", "age"], "not for rankings")):
        code, _, err = run("audit", *scored, *more, "--clusters", "patient_id", "--out", tmp_path / "a")
        assert code == 2 and said in err
    numbers = ["--data", visits, "--label", "age", "--score", "guess", "--group", "sex", "--clusters", "patient_id"]
    run("audit", *numbers, "--constraint", "residual_gap[largest=50] <= 5", "--out", tmp_path / "n")
    (judged,) = json.loads((tmp_path / "n" / "audit.json").read_text())["constraints"]
    assert "rows of a cluster as one" in judged["method"]


def test_a_bound_that_persons_cannot_be_judged_by_is_refused_before_training(run, visits, tmp_path):
    code, _, err = run(
        "fit", "--data", visits, "--label", "cured", "--group", "sex", "--split-by", "patient_id", "--out", tmp_path / "o",
        "--constraint", "partial_statistical_parity[0:0.5] <= 0.1",
    )  # fmt: skip
    assert code == 2 and "cannot be judged where rows come in clusters" in err and "training on" not in err


def test_columns_that_are_warned_of():
    n = 400
    frame = pd.DataFrame(
        {
            "patient_id": np.arange(n) // 2,
            "subject": [f"s{i // 4}" for i in range(n)],
            "row_id": np.arange(n),
            "shop_id": np.arange(n) % 5,
            "age": np.arange(n) // 8,
        }
    )
    assert [said.split()[1] for said in identifier_warnings(frame)] == ["patient_id", "subject"]
    (said,) = identifier_warnings(frame[["patient_id"]].set_axis(["patient id"], axis=1), "take --split-by {}.")
    assert said.endswith("take --split-by 'patient id'.")
    assert units_of(pd.DataFrame({"a": ["x", None, "x", None]}), "a").tolist() == [0, 5, 0, 7]
