"""Files that are not UTF-8: every command takes --encoding, reads byte order marks by itself, and says what to do where neither helps."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from fairbound.cli.app import COMMANDS
from fairbound.cli.options.common import ReadOptions

pytestmark = pytest.mark.filterwarnings("default::fairbound.base.errors.DataWarning")
BOUND = "demographic_parity <= 0.3"
LINES = {
    "fit": ("fit", "--no-baseline", "--algorithm", "alm", "--budget", "5 steps", "--constraint", BOUND, "--out", "OUT"),
    "fit in parts": (
        "fit", "--no-baseline", "--budget", "5 steps", "--constraint", BOUND, "--chunk-rows", "60", "--out", "OUT"
    ),
    "audit": ("audit", "--score", "s", "--constraint", BOUND, "--out", "OUT"),
    "audit in parts": ("audit", "--score", "s", "--constraint", BOUND, "--out", "OUT", "--chunk-rows", "60"),
    "compare": ("compare", "s", "x", "--constraint", BOUND),
    "monitor": ("monitor", "--score", "s", "--constraint", BOUND, "--state", "OUT"),
    "shift": ("shift", "--score", "s", "--constraint", "auc_parity[group] <= 0.3", "--out", "OUT"),
    "interval": ("interval", "--score", "s"),
    "regress": ("regress", "--budget", "5 steps", "--constraint", "residual_gap <= 0.5", "--out", "OUT"),
}  # fmt: skip


@pytest.fixture
def table():
    """240 rows, groups of which have names that Latin-1 and UTF-8 write differently, and a column of amounts."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=240).round(3)
    s = (x + rng.normal(size=240)).round(3)
    pay = [f"{1000 + v:,.2f} €" for v in rng.uniform(0, 900, 240)]
    return pd.DataFrame({"x": x, "pay": pay, "s": s, "g": ["Bär", "Öl"] * 120, "y": (s > 0) * 1})


def called(run, name, path, out, *more):
    label = () if name == "interval" else ("--label", "y")
    line = (str(out) if word == "OUT" else word for word in LINES[name])
    code, said, wrong = run(*line, "--data", path, "--group", "g", *label, "--json", *more)
    return code, re.sub(r'("(out|seconds)": )[^,}]*|\d+T[\d:+]+', "", said), wrong


@pytest.mark.parametrize("name", LINES)
def test_every_command_reads_the_encoding_that_it_is_told(run, table, tmp_path, name):
    found = []
    marked = (
        [("utf-16", ())] if "audit" in name else []
    )  # whoever opens a file reads marks: tests/unit/tables/test_files.py
    for k, (encoding, more) in enumerate((("utf-8", ()), *marked, ("cp1252", ("--encoding", "cp1252")))):
        (tmp_path / str(k)).mkdir()
        path = tmp_path / str(k) / "people.csv"
        table.to_csv(path, index=False, encoding=encoding)
        code, said, wrong = called(run, name, path, tmp_path / f"out{k}", *more)
        assert code in (0, 1, 3), wrong
        assert "read as numbers: 'pay'" in wrong or name == "regress", wrong
        found.append(said)
    assert "Bär" in found[0] or name == "interval"
    assert all(said == found[0] for said in found)
    code, _, wrong = called(run, name, path, tmp_path / "no")
    assert code == 2 and "utf-8 text" in wrong and "--encoding cp1252" in wrong and "encoding=" not in wrong, wrong
    code, _, wrong = called(run, name, path, tmp_path / "no", "--encoding", "klingon")
    assert code == 2 and "'klingon' is none that Python knows" in wrong


def test_predictions_gates_and_saved_models_read_it_too(run, table, tmp_path):
    path = tmp_path / "people.csv"
    table.to_csv(path, index=False, encoding="cp1252")
    code, _, wrong = called(run, "fit", path, tmp_path / "o", "--encoding", "cp1252")
    assert code in (0, 1, 3), wrong
    model, to = tmp_path / "o" / "model", tmp_path / "p.csv"
    code, _, wrong = run(
        "predict", "--data", path, "--model", model, "--out", to, "--keep", "g", "--encoding", "cp1252"
    )
    assert code == 0, wrong
    assert pd.read_csv(to)["g"].tolist() == table["g"].tolist()
    gate = 'data = "people.csv"\nlabel = "y"\ngroup = "g"\nmodel = "o/model"\nencoding = "cp1252"\n'
    (tmp_path / "gate.toml").write_text(gate)
    assert run("gate", "--config", tmp_path / "gate.toml")[0] in (0, 1, 3)
    (tmp_path / "gate.toml").write_text(gate.replace('encoding = "cp1252"\n', ""))
    code, _, wrong = run("gate", "--config", tmp_path / "gate.toml")
    assert code == 2 and "--encoding cp1252" in wrong


def test_decimal_says_what_commas_are(run, table, tmp_path):
    path = tmp_path / "people.csv"
    table.assign(pay="1.015,50 €").to_csv(path, index=False)
    assert 'pass --decimal ","' in called(run, "fit", path, tmp_path / "o")[2]
    code, _, wrong = called(run, "fit", path, tmp_path / "o", "--decimal", ",")
    assert code == 2 or "('1.015,50 €' as 1015.5)" in wrong


def test_all_commands_that_read_a_file_have_the_option(run):
    without = {name for name, options in COMMANDS.items() if not issubclass(options, ReadOptions)}
    assert without == {"gate", "reproduce"}
    code, _, wrong = run("fit", "--data", "adult", "--encoding", "cp1252", "--out", "o")
    assert code == 2 and "--encoding, --decimal and --text are for files" in wrong
