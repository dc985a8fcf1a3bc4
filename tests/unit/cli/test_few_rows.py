"""`fewest=` from the command line: a fit, an audit of its model, a gate and a monitor leave out the same kind of groups."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from fairbound.report import schema

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
pytest.importorskip("matplotlib", reason="the page's charts need the extra 'report'")

STATED = "demographic_parity[crossed,fewest=30] <= 0.3"


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """A folder with rows.csv, of which D has 24 men and 20 women, and more.csv, of which D has 80 of each."""
    folder, rng = tmp_path_factory.mktemp("people"), np.random.default_rng(0)
    for name, each in (("rows", [(700, 640), (360, 320), (24, 20)]), ("more", [(400, 400), (300, 300), (80, 80)])):
        race = np.concatenate([np.repeat(r, sum(n)) for r, n in zip("ABD", each, strict=True)])
        sex = np.concatenate([np.repeat(["M", "F"], n) for n in each])
        u = rng.normal(size=len(race))
        y = np.where(rng.random(len(race)) < 1 / (1 + np.exp(-2 * u)), "yes", "no")
        pd.DataFrame({"race": race, "sex": sex, "u": u, "y": y}).to_csv(folder / f"{name}.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def fitted(people):
    """The folder of a fit under STATED, and what it printed."""
    from fairbound.cli import app

    args = ["fit", "--data", people / "rows.csv", "--label", "y", "--group", "race,sex", "--constraint", STATED]
    app.main([str(a) for a in [*args, "--algorithm", "alm", "--budget", "20 steps", "--out", people / "fit"]])
    return people / "fit"


def test_a_fit_says_whom_training_and_the_verdict_leave_out(fitted):
    found = json.loads((fitted / "audit.json").read_text())
    schema.validate(found)
    (bound,) = found["constraints"]
    assert bound["left_out"] == ["D & F", "D & M"] and bound["left_out_rows"] == 11
    assert any(
        w.startswith("Groups left out of the bounds for want of rows (2 groups): D & F (15), D & M (18)")
        for w in found["warnings"]
    )
    page = (fitted / "report.html").read_text()
    assert "does not speak of 2 groups with 11 rows, which fewest=30 leaves out" in page


@pytest.mark.parametrize("more", [(), ("--chunk-rows", 200)])
def test_a_saved_model_brings_it_and_groups_that_are_judged_now_are_warned_of(run, people, fitted, tmp_path, more):
    args = ("audit", "--model", fitted / "model", "--label", "y", "--group", "race,sex", "--out", tmp_path / "o", *more)
    _, out, err = run(*args, "--data", people / "rows.csv")
    assert "does not speak of 2 groups with 44 rows" in out, err
    assert (
        "Left out (fewest=30): 2 groups with 44 rows, of which it says nothing: D & M (24 rows), D & F (20 rows)" in out
    )
    _, out, err = run(*args, "--data", people / "more.csv")
    assert "Left out" not in out, err
    assert "the model's bounds left 'D & F', 'D & M' out in training. Here they have enough, and are judged." in out
    code, _, err = run(*args, "--data", people / "more.csv", "--constraint", "demographic_parity[fewest=0] <= 0.1")
    assert code == 2 and "fewest must be a whole number of rows, 1 or more, got 0" in err
    code, out, err = run(
        *args, "--data", people / "more.csv", "--constraint", "demographic_parity[crossed,fewest=900] <= 0.1"
    )
    assert code == 3 and "State a smaller fewest" in out, err


def test_gates_and_monitors_name_them(run, people, fitted, tmp_path):
    header, *lines = (people / "rows.csv").read_text().splitlines(keepends=True)
    (tmp_path / "others.csv").write_text(
        "".join([header, *reversed(lines)])
    )  # a gate is closed on the file of training
    (tmp_path / "gate.toml").write_text(
        f'data = "{tmp_path / "others.csv"}"\nmodel = "{fitted / "model"}"\nlabel = "y"\ngroup = "race,sex"\naccept = ["insufficient"]\n'
    )
    _, out, err = run("gate", "--config", tmp_path / "gate.toml")
    assert (
        "Left out (fewest=30): 2 groups with 44 rows, of which it says nothing: D & M (24 rows), D & F (20 rows)" in out
    ), err
    args = ("--model", fitted / "model", "--label", "y", "--group", "race,sex", "--state", tmp_path / "m", "--json")
    _, out, err = run("monitor", "--data", people / "rows.csv", *args)
    (bound,) = json.loads(out)["constraints"]
    assert bound["left_out"] == ["D & F", "D & M"] and bound["left_out_rows"] == 44, err
    _, out, err = run("monitor", "--data", people / "more.csv", *args)
    (bound,) = json.loads(out)["constraints"]
    assert "left_out" not in bound and {"D & F", "D & M"} <= set(bound["groups"]), err
