"""A single cell that does not belong in its column is named with its line, not taken for a column of another kind."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import fairbound as fb
from fairbound.base.errors import DataError
from fairbound.rows.labels import binary_labels

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
BOUND = ("--group", "sex", "--constraint", "demographic_parity <= 0.5")


@pytest.fixture
def lent(tmp_path):
    """400 rows with a score of which the one in line 202 is a word."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"sex": ["F", "M"] * 200, "score": rng.random(400).round(4).astype(object), "afam": ["yes", "no"] * 200}
    )
    frame["paid"] = rng.integers(0, 2, 400)
    frame.loc[200, "score"] = "oops"
    frame.to_csv(tmp_path / "lent.csv", index=False)
    return tmp_path / "lent.csv"


@pytest.mark.parametrize("chunks", [(), ("--chunk-rows", "150")])
@pytest.mark.parametrize("label", [(), ("--label", "paid")])
def test_a_score_that_is_no_number_is_named_with_its_line(lent, run, tmp_path, label, chunks):
    words = ("--data", lent, "--score", "score", *label, *BOUND)
    code, _, said = run("audit", *words, "--out", tmp_path / "o", *chunks)
    assert code == 2 and "lent.csv: 1 cell is no number among the" in said and "'oops' in line 202 of the file" in said
    assert "name the one that is positive" not in said and "values" not in said


def test_so_it_is_by_other_commands_and_of_other_columns(lent, run, tmp_path):
    rows = ("--data", lent, "--label", "paid")
    for words in (
        ("monitor", *rows, "--score", "score", *BOUND, "--state", tmp_path / "state"),
        ("compare", "score", "afam=yes", *rows),
        ("interval", "--data", lent, "--score", "score", "--group", "sex"),
    ):
        code, _, said = run(*words)
        assert code == 2 and "'oops' in line 202 of the file" in said, said
    code, _, said = run("audit", *rows, "--score", "afam=yes", *BOUND, "--out", tmp_path / "o", "--weights", "afam")
    assert code == 2 and "'yes' in line 2 of the file is the first. The column of --weights must hold numbers." in said
    code, _, said = run("audit", *rows, "--score", "afam", *BOUND, "--out", tmp_path / "o")
    assert code == 2 and "name the one that is positive, as in 'afam=yes'" in said  # words, not mistakes


def test_a_label_of_one_row_is_named_with_its_line(lent, run, tmp_path):
    text = lent.read_text().replace("oops", "0.5")
    lent.write_text(text + "Total,200,,655\n")
    for words in (("audit", "--score", "score"), ("fit", "--budget", "2 steps")):
        code, _, said = run(*words, "--data", lent, "--label", "paid", *BOUND, "--out", tmp_path / "o")
        assert code == 2 and "Of these 655 is in line 402 of the file alone. If that row sums up the others" in said, (
            said
        )
    with pytest.raises(DataError, match="Make a label of one class against the rest"):
        binary_labels([0, 1, 2] * 20)


def test_python_names_the_row():
    with pytest.raises(DataError, match=r"of the scores: 'oops' in row 30 \(counting from 0\)"):
        fb.audit([*map(str, np.linspace(0.1, 0.9, 30)), "oops"], None, np.repeat(["a", "b", "a"], [15, 15, 1]))


@pytest.mark.parametrize("chunks", [(), ("--chunk-rows", "50")])
@pytest.mark.parametrize(
    ("cell", "said"), [(1, "what begins in line 196 ends in line 401"), (-1, "a quotation mark in line 196 opens")]
)
def test_a_quotation_mark_that_is_never_closed_is_named_with_its_line(lent, run, tmp_path, chunks, cell, said):
    lines = [line.split(",") for line in lent.read_text().splitlines()]
    lines[195][cell] = '"' + lines[195][cell]
    lent.write_text("\n".join(map(",".join, lines)) + "\n")
    code, _, err = run(
        "audit", "--data", lent, "--score", "score", "--label", "paid", *BOUND, "--out", tmp_path / "o", *chunks
    )
    assert code == 2 and said in err and "lose it or take it out" in err


def test_standard_input_is_said_not_to_be_read(run, tmp_path):
    for chunks in ((), ("--chunk-rows", "50")):
        code, _, err = run("audit", "--data", "-", "--score", "p", "--label", "y", "--out", tmp_path / "o", *chunks)
        assert code == 2 and "standard input is not read" in err
