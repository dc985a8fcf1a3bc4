"""`fairbound interval`: what Python suggests, on a file, with its picture."""

import json

import numpy as np
import pandas as pd
import pytest

import fairbound as fb
from fairbound.cli import app as cli

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
pytest.importorskip("matplotlib", reason="the picture needs the extra 'report'")


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    made = pd.DataFrame({"sex": rng.choice(["f", "m"], 200), "score": rng.normal(size=200)})
    made.to_csv(tmp_path / "rows.csv", index=False)
    return tmp_path, made


def test_the_command_says_what_python_says_and_draws_it(table, capsys):
    folder, made = table
    found = fb.suggest_interval(made.score, {"sex": made.sex})
    arguments = ["interval", "--data", str(folder / "rows.csv"), "--score", "score", "--group", "sex"]
    assert cli.main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {**found, "exit_code": 0}
    assert cli.main([*arguments, "--out", str(folder / "out")]) == 0
    assert f"{found['text']} <= ..." in capsys.readouterr().out
    assert json.loads((folder / "out" / "interval.json").read_text()) == found
    assert (folder / "out" / "interval.png").read_bytes()[:4] == b"\x89PNG"
    assert b"<svg" in (folder / "out" / "interval.svg").read_bytes()
    assert cli.main([*arguments, "--threshold", "0.5", "--positive-rate", "0.2"]) == 2
    assert "either" in capsys.readouterr().err


def test_the_help_names_the_picture_that_is_written_and_no_page(capsys):
    pages = {"interval": "as data and as a picture", "compare": "as data and as a page"}
    for command, written in pages.items():
        assert cli.main([command, "--help"]) == 0
        assert written in " ".join(capsys.readouterr().out.split())
