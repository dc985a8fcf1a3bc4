"""What the command line says of small mistakes: options twice, dates as text, lines of a file, folders, wide headers, pipes."""

from __future__ import annotations

import gzip
import json
import logging
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fairbound
from fairbound.base.errors import DataError
from fairbound.base.locks import locked
from fairbound.cli.app import COMMANDS, main
from fairbound.cli.files.advice import ADVICE
from fairbound.cli.options.typer_commands import joined
from fairbound.tables import TableEncoder, read_table
from fairbound.tables.reading.files import csv_parts
from fairbound.tables.reading.records import line_of


def refused(capsys, *arguments):
    assert main(list(arguments)) == 2
    return capsys.readouterr().err


def test_an_option_of_several_values_may_be_given_for_each():
    lists, words = ("--drop", "--group"), ["fit", "--drop", "a", "--seed", "1", "--drop=b,c", "--group=g", "--drop"]
    assert joined(words, lists) == ["fit", "--drop", "a,b,c", "--seed", "1", "--group", "g", "--drop"]
    assert joined(["--out=--drop", "x=1"], lists) == ["--out=--drop", "x=1"]


def test_an_option_given_twice_is_refused(capsys, tmp_path):
    base = ["fit", "--data", "loanapp", "--out", str(tmp_path)]
    assert "--out is given twice" in refused(capsys, *base, "--out", "elsewhere")
    assert "--seed is given twice; give it once." in refused(capsys, *base, "--seed", "1", "--seed=2")
    for command in ("feasibility", "frontier"):  # these ask about one
        two = ("--constraint", "demographic_parity", "--constraint=equalized_odds")
        assert "--constraint is given twice" in refused(capsys, command, "--data", "loanapp", *two)
    said = refused(capsys, *base, "--constraint", "foo <= 1", "--constraint", "bar <= 1")
    assert "unknown constraint 'foo'" in said  # a bound may be given several times


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_an_empty_folder_is_not_the_current_one(capsys, tmp_path, monkeypatch, command):
    """As `--out "$OUT"` is where OUT is not set."""
    monkeypatch.chdir(tmp_path)
    for option in ("--out", "--state", "--model", "--config"):
        for empty in ([option, ""], [f"{option}="]):
            said = refused(capsys, command, "--data", "loanapp", *empty, "--seed", "1")
            assert f"{option} is given an empty value, as of a shell variable that is not set" in said
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore:.*was dropped:fairbound.base.errors.DataWarning")
def test_dates_as_text_that_may_be_read_two_ways_are_named_as_dates():
    days = pd.date_range("2001-01-01", periods=400).strftime("%d/%m/%y")
    table = pd.DataFrame({"day": days, "x": np.arange(400.0), "who": [f"p{i}" for i in range(400)]})
    dropped = TableEncoder().fit(table).dropped
    assert "look like dates, such as '01/01/01'" in dropped["day"] and "identifier" in dropped["who"]


def test_rows_of_a_file_are_named_by_their_lines(capsys, tmp_path):
    table = pd.DataFrame({"x": np.arange(40.0), "g": ["a", "b"] * 20, "y": [0.0, 1.0] * 20})
    table.loc[7, "y"] = np.nan
    table.to_csv(tmp_path / "t.csv", index=False)
    path = str(tmp_path / "t.csv")
    said = refused(capsys, "fit", "--data", path, "--label", "y", "--group", "g", "--out", str(tmp_path / "o"))
    assert "line 9 of the file" in said and "counting from 0" not in said


@pytest.fixture
def broken_lines(tmp_path):
    """60 rows, a cell of two lines and a blank line among them, with an infinite x in row 20 (from 0), whose line is returned."""
    rng = np.random.default_rng(1)
    head, x = "x,note,g,q,y,w", rng.normal(size=60).round(3).astype(object)
    x[20] = "inf"
    lines = [
        f'{x[k]},"{"two" + chr(10) + "lines" if k % 9 == 4 else "one"}",{"ab"[k % 2]},{k // 6},{k // 2 % 2},1'
        for k in range(60)
    ]
    lines.insert(7, "")
    (tmp_path / "t.csv").write_text("\n".join([head, *lines]) + "\n")
    before = "\n".join([head, *lines])
    return tmp_path / "t.csv", before[: before.index("inf")].count("\n") + 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit"],
        ["fit", "--chunk-rows", "7"],
        ["fit", "--qid", "q"],
        ["stream", "--constraint", "auc_parity[group] <= 0.5", "--chunk-rows", "7"],
        ["regress", "--constraint", "residual_gap <= 5"],
    ],
    ids=" ".join,
)
def test_lines_are_counted_with_breaks_in_quotes_and_blank_ones(capsys, tmp_path, broken_lines, arguments):
    path, line = broken_lines
    bound = [] if "--constraint" in arguments or "--qid" in arguments else ["--constraint", "demographic_parity <= 0.9"]
    given = [
        "--data", str(path), "--label", "y", "--group", "g", "--drop", "note,w",
        "--out", str(tmp_path / "o"), *bound
    ]  # fmt: skip
    said = refused(capsys, *arguments, *given)
    assert f"line {line} of the file" in said and "t.csv" in said and "counting from 0" not in said


def test_a_saved_model_names_the_lines_it_cannot_read(capsys, tmp_path, broken_lines, numbers):
    path, line = broken_lines
    good = tmp_path / "good.csv"
    numbers.drop(columns="z").to_csv(good, index=False)
    base = [
        "--label", "y", "--group", "g", "--constraint", "demographic_parity <= 0.9", "--quiet",
        "--budget", "20 steps"
    ]  # fmt: skip
    main(["fit", "--data", str(good), *base, "--no-baseline", "--out", str(tmp_path / "m")])
    capsys.readouterr()
    model = ["--model", str(tmp_path / "m" / "model"), "--data", str(path)]
    judge = ["--label", "y", "--group", "g", "--out", str(tmp_path / "o")]
    for command in (
        ["audit", *judge], ["audit", *judge, "--chunk-rows", "7"], ["predict", "--out", str(tmp_path / "p.csv")],
        ["monitor", "--label", "y", "--group", "g", "--state", str(tmp_path / "s"), "--constraint", "demographic_parity <= 0.9"],
    ):  # fmt: skip
        assert f"line {line} of the file" in refused(capsys, *command, *model), command


def test_a_line_is_found_in_files_of_every_kind(tmp_path):
    text = 'a;b\r\n"1\r\n2";3\r\n\r\n"x ""y"" z";5\r\n6;7\r\n'
    (tmp_path / "t.csv").write_bytes(text.encode("utf-8-sig"))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("t.csv", "t.csv.gz"):
        assert [line_of(tmp_path / name, row) for row in range(4)] == [2, 5, 6, None]
    assert line_of(tmp_path / "none.csv", 0) is None


@pytest.fixture
def numbers(tmp_path):
    """200 rows of numbers, of two groups, with labels 0 and 1."""
    rng = np.random.default_rng(0)
    x, g = rng.normal(size=(200, 2)).round(3), np.array(["a", "b"] * 100)
    return pd.DataFrame({"x": x[:, 0], "z": x[:, 1], "g": g, "y": (x[:, 0] + rng.normal(size=200) > 0).astype(int)})


@pytest.mark.parametrize(
    ("command", "bad"),
    [*[(command, "inf") for command in ("fit", "certify", "parts", "regress", "feasibility")],
     *[(command, "abc") for command in ("fit", "parts", "regress")]],
)  # fmt: skip
def test_a_cell_that_cannot_be_used_is_named_by_its_line_in_the_file(capsys, tmp_path, numbers, command, bad):
    one = ((171,),) if command == "certify" else ((5,), (171,))
    for rows in one if bad == "inf" else ((5, 60, 120, 171),):  # text is an error where it is in training
        table = numbers.astype({"x": object})
        table.loc[list(rows), "x"] = bad
        path = str(tmp_path / f"{rows[0]}.csv")
        table.to_csv(path, index=False)
        out = str(tmp_path / "o")
        more = {
            "fit": ("fit", "--out", out),
            "certify": ("fit", "--out", out, "--certify"),
            "parts": ("fit", "--out", out, "--chunk-rows", "50"),
            "regress": ("regress", "--out", out),
            "feasibility": ("feasibility",),
        }[command]
        bound = "residual_gap <= 0.5" if command == "regress" else "demographic_parity <= 0.5"
        arguments = ("--data", path, "--label", "y", "--group", "g", "--budget", "2 steps", "--constraint", bound)
        said = refused(capsys, *more, *arguments)
        if (command, bad) != ("parts", "abc"):  # texts of a file in parts are counted, not placed
            assert any(f"line {row + 2} of the file" in said for row in rows), said
        assert "in row" not in said and "counting from 0" not in said, said
        assert "TableOptions" not in said and "leave" in said and "empty (missing)" in said, said


def test_a_saved_model_and_a_parquet_file_name_the_row(capsys, tmp_path, numbers):
    good, out = str(tmp_path / "good.csv"), str(tmp_path / "o")
    numbers.to_csv(good, index=False)
    base = ("--label", "y", "--group", "g", "--out", out)
    bound = ("--constraint", "demographic_parity <= 0.5", "--budget", "2 steps", "--no-baseline")
    main(["fit", "--data", good, *base, *bound, "--quiet"])
    capsys.readouterr()
    numbers.loc[77, "x"] = np.inf
    numbers.to_csv(tmp_path / "bad.csv", index=False)
    numbers.to_parquet(tmp_path / "bad.parquet")
    for name, where in (("bad.csv", "line 79 of the file"), ("bad.parquet", "row 78 of the file")):
        said = refused(capsys, "audit", "--data", str(tmp_path / name), *base, "--model", f"{out}/model")
        assert where in said and name in said and "TableOptions" not in said, said


def test_a_model_that_is_not_confirmed_and_is_refused_is_not_wrong_use(capsys, tmp_path, numbers):
    path, out = tmp_path / "t.csv", tmp_path / "o"
    numbers.to_csv(path, index=False)
    bound = (
        "--certify", "--on-insufficient", "raise", "--constraint", "demographic_parity <= 0.001",
        "--budget", "5 steps"
    )  # fmt: skip
    code = main(["fit", "--data", str(path), "--label", "y", "--group", "g", "--out", str(out), *bound])
    said = capsys.readouterr().err
    assert code == 3 and "cannot be certified" in said, said
    assert not (out / "model").exists()
    assert main(["fit", "--data", str(path), "--label", "y", "--group", "g", "--out", str(out), *bound, "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["exit_code"] == 3 and found["refused"] and "cannot be certified" in found["reason"], found


def test_a_file_in_another_encoding_is_told_what_the_shell_can_do(capsys, tmp_path):
    path = tmp_path / "latin.csv"
    path.write_bytes("x,g,y\n1,Bär,0\n2,a,1\n".encode("latin-1"))
    said = refused(capsys, "fit", "--data", str(path), "--label", "y", "--group", "g", "--out", str(tmp_path / "o"))
    assert "line 2 is not utf-8" in said and "--encoding cp1252" in said and "encoding=" not in said


def test_advice_of_python_is_still_what_the_library_says():
    files = [
        path.read_text(encoding="utf-8")
        for path in Path(fairbound.__file__).parent.rglob("*.py")
        if path.name != "advice.py"
    ]
    library = re.sub(r"""["']\s+f?["']""", "", "".join(files))
    for words in ADVICE:
        assert words.strip() in library, words


def test_a_folder_that_cannot_be_written_is_said_without_numbers_of_errors(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    said = refused(capsys, "fit", "--data", "loanapp", "--out", str(tmp_path / "file"))
    assert "cannot be written: a part of the path is a file" in said and "Errno" not in said


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_header_longer_than_the_readers_limit(tmp_path, separator):
    names = [f"column_{i:0100}" for i in range(1_300)]
    assert len(separator.join(names)) > 131_072
    lines = [separator.join(names), *(separator.join(map(str, np.full(len(names), k))) for k in range(3))]
    path = tmp_path / "wide.csv"
    path.write_text("\n".join(lines) + "\n")
    assert read_table(path).shape == (3, 1_300)
    assert next(csv_parts(path, 2, names[-1:])).shape == (2, 1)


def test_a_pipe_is_refused_before_it_is_opened(capsys, tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match="is a pipe"):
        read_table(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match="is a pipe"):
        next(csv_parts(tmp_path / "pipe.csv", 10))
    pipe = str(tmp_path / "pipe.csv")
    assert "is a pipe" in refused(capsys, "fit", "--data", pipe, "--label", "y", "--out", str(tmp_path / "o"))


def test_two_commands_do_not_write_into_one_folder(capsys, tmp_path):
    data = ("--data", "t.csv", "--label", "y")
    with locked(tmp_path):
        for command in (
            ("fit", "--data", "loanapp"),
            ("fit", *data, "--qid", "q"),
            ("fit", *data, "--estimator", "sklearn.tree.DecisionTreeClassifier"),
            ("frontier", "--data", "loanapp", "--constraint", "demographic_parity"),
            ("regress", *data),
            ("audit", *data, "--score", "s"),
            ("audit", *data, "--score", "s", "--qid", "q"),
            ("compare", "a", "b", *data),
            ("feasibility", "--data", "loanapp", "--constraint", "demographic_parity <= 0.1"),
            ("interval", "--data", "t.csv", "--score", "s", "--group", "g"),
            ("stream", *data),
            ("shift", *data, "--score", "s", "--group", "g"),
            ("reproduce", "plada"),
        ):
            said = refused(capsys, *command, "--out", str(tmp_path))
            assert "another fairbound command is writing" in said, command
        said = refused(capsys, "monitor", *data, "--score", "s", "--state", str(tmp_path))
        assert "another fairbound command is writing" in said  # else one of two would lose the other's rows
        (tmp_path / "gate.toml").write_text('data = "t.csv"\nlabel = "y"\nscore = "s"\nout = "."\n')
        assert "another fairbound command" in refused(capsys, "gate", "--config", str(tmp_path / "gate.toml"))


def test_progress_is_logged_and_quiet_leaves_it_out(capsys, tmp_path):
    base = [
        "fit", "--data", "loanapp", "--budget", "2 steps", "--no-baseline",
        "--constraint", "demographic_parity <= 0.5"
    ]  # fmt: skip
    main([*base, "--out", str(tmp_path / "a")])
    assert "loanapp: training on" in capsys.readouterr().err
    main([*base, "--quiet", "--out", str(tmp_path / "b")])
    out, err = capsys.readouterr()
    assert "training on" not in err and "report.html" in out
    log = logging.getLogger("fairbound")
    assert log.handlers == [] and log.level == logging.NOTSET


def test_lines_of_progress_where_standard_error_is_no_terminal(capsys, tmp_path):
    base = ["fit", "--data", "loanapp", "--budget", "60 steps", "--no-baseline", "--algorithm", "alm"]
    base += ["--constraint", "demographic_parity <= 0.5", "--out", str(tmp_path)]
    main([*base])
    assert "worst g" not in capsys.readouterr().err
    main([*base, "--progress"])
    lines = [line for line in capsys.readouterr().err.splitlines() if "worst g" in line]
    assert len(lines) >= 2 and all(line.startswith("step ") and "\r" not in line for line in lines)
    assert main([*base, "--progress", "--quiet"]) == 2 and "exclude each other" in capsys.readouterr().err
    assert logging.getLogger("fairbound.progress").level == logging.NOTSET


def test_a_command_that_fails_leaves_no_empty_folder(capsys, tmp_path):
    table = pd.DataFrame({"x": np.arange(40.0), "g": ["a", "b"] * 20, "y": [0, 1] * 20})
    table.to_csv(tmp_path / "t.csv", index=False)
    own = tmp_path / "mine"
    own.mkdir()
    for command in (["fit"], ["audit", "--score", "x"]):
        for out in (tmp_path / "new" / "o", own):
            refused(
                capsys, *command, "--data", str(tmp_path / "t.csv"), "--label", "yy", "--group", "g", "--out", str(out)
            )
    assert not (tmp_path / "new").exists() and own.exists()


def test_a_file_of_true_and_false_is_read_by_its_own_words(capsys, tmp_path):
    table = pd.DataFrame({"s": np.linspace(-1, 1, 40), "g": ["a", "b"] * 20, "y": ["TRUE", "FALSE"] * 20})
    table.to_csv(tmp_path / "t.csv", index=False)
    base = ["audit", "--data", str(tmp_path / "t.csv"), "--score", "s", "--group", "g", "--out", str(tmp_path / "o")]
    assert main([*base, "--label", "y", "--positive", "TRUE"]) == 0
    assert "Positive is y = True" in capsys.readouterr().out
    said = refused(
        capsys, "regress", *base[1:3], "--label", "g", "--group", "y", "--constraint", "residual_gap <= 1", *base[-2:]
    )
    assert "To predict classes such as these, take `fairbound fit`" in said
