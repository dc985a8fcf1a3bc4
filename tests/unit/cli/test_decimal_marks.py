"""A saved model reads numbers with the mark before decimals of the file that it was trained on, whichever rows a new file
has."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from fairbound.tables.marks import Mark

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")

from fairbound.cli.files.saved_model import COLUMNS, trained_marks

pytestmark = pytest.mark.filterwarnings("default::fairbound.base.errors.DataWarning")
BOUND = ("--constraint", "demographic_parity <= 0.5")
FIT = ("--label", "y", "--group", "g", *BOUND, "--no-baseline", "--knots", "0", "--jumps", "0", "--pairs", "0")


def german(text: str) -> str:
    return text.translate(str.maketrans(",.", ".,"))


def loans(decimal=".", rows=400, seed=0):
    """Incomes that are whole numbers, and balances with cents, some above 1,000."""
    rng = np.random.default_rng(seed)
    income, balance = rng.integers(1000, 90_000, rows), rng.lognormal(6, 1, rows)
    written = (lambda text: text) if decimal == "." else german
    z = income / 45_000 + rng.normal(size=rows) * 0.4
    return pd.DataFrame({
        "inc": [written(f"{v:,}") for v in income],
        "bal": [written(f"{v:,.2f}") for v in balance],
        "g": rng.choice(["m", "w"], rows),
        "y": (z > 1).astype(int),
    }), balance  # fmt: skip


def fitted(run, path, out, *more):
    code, _, said = run("fit", "--data", path, "--out", out, *FIT, *more)
    assert code in (0, 1, 3), said
    return said


def scores(run, path, model, *more):
    out = path.parent / "scores.csv"
    code, _, said = run("predict", "--data", path, "--model", model, "--out", out, *more)
    assert code == 0, said
    return pd.read_csv(out).score.to_numpy()


@pytest.mark.parametrize(("decimal", "separator"), [(".", "\t"), (",", ";")])
@pytest.mark.parametrize("chunks", [(), ("--chunk-rows", "70")])
def test_no_row_is_decided_by_the_marks_of_other_rows(tmp_path, run, decimal, separator, chunks):
    frame, balance = loans(decimal)
    frame.iloc[np.argsort(balance)].to_csv(tmp_path / "a.csv", sep=separator, index=False)
    fitted(run, tmp_path / "a.csv", tmp_path / "o", *chunks)
    other = {";": "\t", "\t": ";"}[separator]
    known = json.loads((tmp_path / "o" / "model" / "columns.json").read_text())["decimal"]
    assert known == {separator: decimal, other: decimal}
    frame, balance = loans(decimal, seed=1)
    new = tmp_path / "new.csv"
    frame.to_csv(new, sep=separator, index=False)
    whole = scores(run, new, tmp_path / "o")
    for some, between in ((balance < 1000, separator), (np.arange(400) == np.argmin(balance), other)):
        frame[some].to_csv(new, sep=between, index=False)
        assert np.array_equal(scores(run, new, tmp_path / "o"), whole[some])


@pytest.mark.parametrize("chunks", [(), ("--chunk-rows", "50")])
def test_commands_that_judge_a_saved_model_read_its_mark(tmp_path, run, chunks):
    frame, balance = loans()
    frame.to_csv(tmp_path / "a.tsv", sep="\t", index=False)
    fitted(run, tmp_path / "a.tsv", tmp_path / "o")
    frame, balance = loans(seed=1)
    small = frame[balance < 1000]
    small.to_csv(tmp_path / "small.tsv", sep="\t", index=False)
    right = np.mean((scores(run, tmp_path / "small.tsv", tmp_path / "o") > 0) == small.y)
    assert right > 0.7
    judged = ("--data", tmp_path / "small.tsv", "--label", "y", "--group", "g")
    code, out, said = run(
        "audit", *judged, "--model", tmp_path / "o", "--out", tmp_path / "b", "--json", *BOUND, *chunks
    )
    assert code in (0, 1, 3), said
    assert json.loads(out)["metrics"]["accuracy"] == pytest.approx(right)
    if chunks:
        return
    code, out, said = run("compare", tmp_path / "o", tmp_path / "o", *judged, "--json", *BOUND)
    assert code == 0, said
    assert next(d for d in json.loads(out)["differences"] if d["name"] == "accuracy")["first"] == pytest.approx(right)
    keys = {"data": "small.tsv", "label": "y", "group": "g", "model": "o", "constraint": BOUND[1]}
    (tmp_path / "gate.toml").write_text("".join(f'{key} = "{value}"\n' for key, value in keys.items()))
    code, out, said = run("gate", "--config", tmp_path / "gate.toml", "--json")
    assert code in (0, 1, 3), said
    assert json.loads(out)["audit"]["metrics"]["accuracy"] == pytest.approx(right)


def test_a_file_with_another_mark_is_refused_until_that_is_stated(tmp_path, run):
    frame, _ = loans()
    frame.to_csv(tmp_path / "a.tsv", sep="\t", index=False)
    fitted(run, tmp_path / "a.tsv", tmp_path / "o")
    loans(",", seed=1)[0].to_csv(tmp_path / "german.csv", sep=";", index=False)
    loans(".", seed=1)[0].to_csv(tmp_path / "new.tsv", sep="\t", index=False)
    asked = ("predict", "--data", tmp_path / "german.csv", "--model", tmp_path / "o", "--out", tmp_path / "p.csv")
    code, _, said = run(*asked)
    assert code == 2 and "german.csv, line 2: the column 'bal' holds numbers, and" in said
    assert "since '.' begins decimals" in said and '--decimal ","' in said
    found = scores(run, tmp_path / "german.csv", tmp_path / "o", "--decimal", ",")
    assert np.array_equal(found, scores(run, tmp_path / "new.tsv", tmp_path / "o"))


@pytest.mark.parametrize("chunks", [(), ("--chunk-rows", "2")])
def test_numbers_with_points_are_not_read_by_another_mark_than_that_of_the_saved_model(tmp_path, run, chunks):
    rng = np.random.default_rng(0)
    cells = [f"{v:.3f}" for v in rng.uniform(0, 100, 200)]
    frame = pd.DataFrame({"a": cells, "g": rng.choice(["m", "w"], 200), "y": [int(float(c) > 50) for c in cells]})
    frame.assign(a=frame.a.map(german)).to_csv(tmp_path / "a.csv", sep=";", index=False)
    fitted(run, tmp_path / "a.csv", tmp_path / "o")
    new = tmp_path / "new.csv"
    new.write_text("a;g;y\n64.696;m;1\n71.125;w;0\n12.5;m;0\n64.696;w;1\n")
    judged = ("audit", "--data", new, "--model", tmp_path / "o", "--label", "y", "--group", "g", "--json", *BOUND)
    code, _, said = run(*judged, "--out", tmp_path / "b", *chunks)
    assert code == 2 and "new.csv, line 4: the column 'a' holds numbers, and '12.5' is not read as one" in said
    assert "since ',' begins decimals" in said and '--decimal "."' in said
    code, out, said = run(*judged, "--out", tmp_path / "c", *chunks, "--decimal", ".")
    assert code in (0, 1, 3) and json.loads(out)["metrics"]["accuracy"] == pytest.approx(0.75), said


def both(rows=300, seed=0):
    """Amounts with decimal commas, of which some look like plain numbers (5.000), beside rates with decimal points."""
    rng = np.random.default_rng(seed)
    amount = rng.integers(1000, 9000, rows)
    return pd.DataFrame({
        "amount": [german(f"{v:,.1f}" if v % 2 else f"{v:,}") for v in amount],
        "rate": [f"{v:.2f}" for v in rng.uniform(0, 1, rows)],
        "g": rng.choice(["m", "w"], rows),
        "y": (amount > 4500).astype(int),
    }), amount  # fmt: skip


@pytest.mark.parametrize("chunks", [(), ("--chunk-rows", "70")])
def test_a_saved_model_knows_in_which_columns_commas_begin_decimals(tmp_path, run, chunks):
    both()[0].to_csv(tmp_path / "a.csv", sep=";", index=False)
    fitted(run, tmp_path / "a.csv", tmp_path / "o", *chunks)
    path = tmp_path / "o" / "model" / "columns.json"
    known = json.loads(path.read_text())
    assert known["decimal"] == {";": ".,", "\t": ".,"} and known["commas"] == ["amount"]
    frame, amount = both(seed=1)
    frame, with_comma = frame.iloc[np.argsort(amount % 2, kind="stable")], np.sort(amount % 2)
    new = tmp_path / "new.csv"
    frame.to_csv(new, sep=";", index=False)
    whole = scores(run, new, tmp_path / "o")
    asked = ("--model", tmp_path / "o", "--label", "y", "--group", "g", "--json", *BOUND)
    for rows in (with_comma >= 0, with_comma == 0):
        frame[rows].to_csv(new, sep=";", index=False)
        assert np.array_equal(scores(run, new, tmp_path / "o"), whole[rows])
        code, out, said = run("audit", "--data", new, *asked, "--out", tmp_path / "b", *chunks)
        right = np.mean((whole[rows] > 0) == frame.y[rows])
        assert code in (0, 1, 3), said
        assert right > 0.9 and json.loads(out)["metrics"]["accuracy"] == pytest.approx(right)
    frame.assign(rate=frame.rate.map(german)).to_csv(new, sep=";", index=False)
    code, _, said = run("predict", "--data", new, "--model", tmp_path / "o", "--out", tmp_path / "p.csv")
    assert code == 2 and "the column 'rate' holds numbers" in said and "since '.' begins decimals" in said


def test_a_folder_without_the_columns_with_commas_leaves_both_marks_to_the_file():
    folder = SimpleNamespace(extras={COLUMNS: '{"label": "y", "weights": null, "decimal": {";": ".,"}}'})
    assert trained_marks(folder) == {} == trained_marks(SimpleNamespace(extras={}))
    folder.extras[COLUMNS] = '{"label": "y", "decimal": {";": ","}}'
    assert trained_marks(folder) == {";": Mark(",")}


def test_two_models_that_were_trained_on_different_marks_are_compared_where_one_is_stated(tmp_path, run):
    for decimal, name in ((".", "a"), (",", "b")):
        loans(decimal)[0].to_csv(tmp_path / f"{name}.csv", sep=";", index=False)
        fitted(run, tmp_path / f"{name}.csv", tmp_path / name)
    loans(",", seed=1)[0].to_csv(tmp_path / "new.csv", sep=";", index=False)
    asked = (
        "compare",
        tmp_path / "a",
        tmp_path / "b",
        "--data",
        tmp_path / "new.csv",
        "--label",
        "y",
        "--group",
        "g",
        *BOUND,
    )
    code, _, said = run(*asked)
    assert code == 2 and "trained on files with" in said and "--decimal" in said
    code, _, said = run(*asked, "--decimal", ",")
    assert code == 0, said


def test_a_mark_that_was_stated_is_remembered_and_one_that_is_told_by_the_separator_is_not(tmp_path, run):
    frame, balance = loans(",")
    path, columns = tmp_path / "a.csv", tmp_path / "o" / "model" / "columns.json"
    frame.to_csv(path, index=False)
    fitted(run, path, tmp_path / "o", "--decimal", ",")
    assert json.loads(columns.read_text())["decimal"] == {",": ","}
    whole = scores(run, path, tmp_path / "o")
    frame[balance < 1000].to_csv(path, index=False)
    assert np.array_equal(scores(run, path, tmp_path / "o"), whole[balance < 1000])
    loans()[0].to_csv(path, index=False)
    fitted(run, path, tmp_path / "o")
    assert json.loads(columns.read_text()) == {"label": "y", "weights": None}
    loans(",")[0].to_csv(path, sep=";", index=False)
    assert np.array_equal(scores(run, path, tmp_path / "o"), scores(run, path, tmp_path / "o", "--decimal", ","))


def test_training_in_parts_says_how_amounts_were_read(tmp_path, run):
    frame, balance = loans()
    frame.iloc[np.argsort(balance)].to_csv(tmp_path / "a.tsv", sep="\t", index=False)
    said = fitted(run, tmp_path / "a.tsv", tmp_path / "o", "--chunk-rows", "70")
    assert said.count("read as numbers: 'inc'") == 1 and "'bal'" in said
