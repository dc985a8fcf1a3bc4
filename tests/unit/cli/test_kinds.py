"""A saved model says how the columns of a file are read, and codes keep their names: whichever rows are in the file."""

from __future__ import annotations

import json
import os
import stat
import threading

import numpy as np
import pandas as pd
import pytest

from fairbound.cli import predict as command
from fairbound.cli.files import kinds
from fairbound.estimators.saving.folder import load_folder
from fairbound.tables import read_table

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")

CODES = ["01", "02", "03", "1A"]
DAYS = [f"20{year}-0{month}-15" for year in range(10, 24) for month in range(1, 8)]


def customers(rows=400, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "id": [f"{12345678901234560 + i}" for i in range(rows)],
        "x": rng.normal(size=rows).round(3).astype(str),
        "code": rng.choice(CODES, rows, p=[0.4, 0.3, 0.25, 0.05]),
        "opened": rng.choice(DAYS, rows),
        "card": rng.choice(["true", "false"], rows),
        "sex": rng.choice(["f", "m"], rows),
    })  # fmt: skip
    z = frame.x.astype(float) + 2.0 * (frame.code == "01") - 1 + rng.normal(size=rows)
    frame["y"] = np.where(z > 0, "yes", "no")
    return frame


@pytest.fixture
def fitted(tmp_path, run):
    """A folder with customers.csv and a model that was fitted on it."""
    customers().to_csv(tmp_path / "customers.csv", index=False)
    code, _, said = run(
        "fit", "--data", tmp_path / "customers.csv", "--label", "y", "--group", "sex", "--drop", "id", "--constraint",
        "demographic_parity <= 0.3", "--algorithm", "alm", "--budget", "20 steps", "--out", tmp_path / "fit",
    )  # fmt: skip
    assert code in (0, 1, 3), said
    return tmp_path


def predicted(folder, run, frame, *more, name="new.csv"):
    frame.to_csv(folder / name, index=False)
    code, out, said = run(
        "predict", "--data", folder / name, "--model", folder / "fit", "--out", folder / "out.csv", "--keep", "id", "--json", *more
    )  # fmt: skip
    assert code == 0, said
    return pd.read_csv(folder / "out.csv", dtype={"id": str}).set_index("id").score, json.loads(out)


def test_a_row_is_decided_alike_whichever_other_rows_are_in_the_file(fitted, run, monkeypatch):
    frame = customers(seed=1)
    whole, said = predicted(fitted, run, frame)
    assert not said["warnings"] and not said["notes"]
    for some in (frame[frame.code != "1A"], frame[frame.code == "02"], frame[frame.card == "true"].head(3)):
        found, said = predicted(fitted, run, some)
        assert np.allclose(found, whole[some.id]) and not said["notes"]
    monkeypatch.setattr(command, "ROWS", 50)
    found, _ = predicted(fitted, run, frame.sort_values("code"))
    assert np.allclose(found[whole.index], whole)


def test_cells_in_another_notation_are_those_that_the_model_knows(fitted, run):
    frame = customers(seed=1)
    whole, _ = predicted(fitted, run, frame)
    found, _ = predicted(fitted, run, frame.assign(card=frame.card.str.upper()))
    assert np.allclose(found, whole)
    found, _ = predicted(fitted, run, frame.assign(card=[*frame.card.str.title()[:-1], ""]))
    assert np.allclose(found[:-1], whole[:-1])


def test_a_model_trained_on_texts_of_parquet_reads_csv_as_these(tmp_path, run):
    pytest.importorskip("pyarrow")
    frame = customers()
    frame["code"] = frame.code.map({"01": "01003", "02": "01005", "03": "02001", "1A": "02003"})
    frame.assign(x=frame.x.astype(float)).to_parquet(tmp_path / "customers.parquet")
    run(
        "fit", "--data", tmp_path / "customers.parquet", "--label", "y", "--group", "sex", "--drop", "id", "--constraint",
        "demographic_parity <= 0.3", "--algorithm", "alm", "--budget", "20 steps", "--out", tmp_path / "fit",
    )  # fmt: skip
    of_csv, said = predicted(tmp_path, run, frame)
    assert not said["notes"] and not said["warnings"]
    frame.assign(x=frame.x.astype(float)).to_parquet(tmp_path / "new.parquet")
    run("predict", "--data", tmp_path / "new.parquet", "--model", tmp_path / "fit", "--out", tmp_path / "out.csv")
    assert np.allclose(of_csv, pd.read_csv(tmp_path / "out.csv").score)


@pytest.mark.parametrize("chunks", [(), ("--chunk-rows", 50)])
def test_an_audit_of_a_saved_model_reads_as_it_does(fitted, run, chunks):
    frame = customers(seed=1)
    whole, _ = predicted(fitted, run, frame)
    some = frame[frame.code != "1A"]
    some.to_csv(fitted / "some.csv", index=False)
    code, out, said = run(
        "audit", "--data", fitted / "some.csv", "--label", "y", "--group", "sex", "--model", fitted / "fit", "--out",
        fitted / "audit", "--json", *chunks,
    )  # fmt: skip
    assert code in (0, 1, 3), said
    right = np.mean((whole[some.id] > 0).to_numpy() == (some.y == "yes").to_numpy())
    assert json.loads(out)["metrics"]["accuracy"] == pytest.approx(right)


@pytest.mark.parametrize(
    "command",
    [("audit", "--label", "y", "--group", "sex"), ("audit", "--label", "y", "--group", "sex", "--chunk-rows", "100"), ("predict",)],
)  # fmt: skip
def test_a_saved_model_is_asked_once_how_to_read_a_file(fitted, run, monkeypatch, command):
    loaded = []
    monkeypatch.setattr(kinds, "load_folder", lambda path: loaded.append(path) or load_folder(path))
    name, *more = command
    out = fitted / ("out.csv" if name == "predict" else "again")
    code, _, said = run(
        name, "--data", fitted / "customers.csv", "--model", fitted / "fit" / "model", "--out", out, *more
    )
    assert code in (0, 1, 3) and loaded == [fitted / "fit" / "model"], said


@pytest.mark.parametrize("codes", [["1", "2", "3", "1A"], ["01", "2", "03", "10"]])
def test_a_code_column_is_learnt_alike_from_a_file_in_parts(tmp_path, run, codes):
    frame = customers()
    frame["code"] = frame.code.map(dict(zip(CODES, codes, strict=True)))
    frame.sort_values("code").to_csv(tmp_path / "customers.csv", index=False)
    names = []
    for chunks in ((), ("--chunk-rows", 60)):
        code, _, said = run(
            "fit", "--data", tmp_path / "customers.csv", "--label", "y", "--group", "sex", "--drop", "id", "--constraint",
            "demographic_parity <= 0.3", "--algorithm", "alm", "--budget", "20 steps", "--out", tmp_path / "fit", *chunks,
        )  # fmt: skip
        assert code in (0, 1, 3), said
        learnt = json.loads((tmp_path / "fit" / "model" / "encoder.json").read_text())["learnt"]
        names.append(next(c for c in learnt if c["name"] == "code")["values"])
    assert names[0] == names[1] == sorted(codes)


def test_text_states_that_numbers_are_codes_and_the_model_remembers(tmp_path, run):
    frame = customers()
    frame["code"] = frame.code.map({"01": "10", "02": "11", "03": "12", "1A": "13"})
    frame.to_csv(tmp_path / "customers.csv", index=False)
    fit = [
        "fit", "--data", tmp_path / "customers.csv", "--label", "y", "--group", "sex", "--drop", "id", "--constraint",
        "demographic_parity <= 0.3", "--algorithm", "alm", "--budget", "20 steps", "--out", tmp_path / "fit", "--text",
    ]  # fmt: skip
    assert run(*fit, "code")[0] in (0, 1, 3)
    whole, _ = predicted(tmp_path, run, frame)
    found, _ = predicted(tmp_path, run, frame[frame.code == "10"])
    assert np.allclose(found, whole[found.index])
    code, _, said = run(*fit, "cod")
    assert code == 2 and "did you mean 'code'" in said.lower()


def test_kept_columns_are_copied_as_they_are_written(fitted, run):
    frame = customers(20, seed=1)
    cells = ["00123", "00E1", "1E5", "NA", "", "1.10", "12345678901234567", "true", 'a,"b"', "?"]
    frame["acct"] = cells * 2
    frame.to_csv(fitted / "new.csv", index=False)
    run(
        "predict", "--data", fitted / "new.csv", "--model", fitted / "fit", "--out", fitted / "out.csv", "--keep", "id,acct"
    )  # fmt: skip
    found = pd.read_csv(fitted / "out.csv", dtype=str, keep_default_na=False)
    assert found.acct.tolist() == cells * 2 and found.id.tolist() == frame.id.tolist()


def test_kept_columns_of_parquet_keep_their_digits(fitted, run):
    pytest.importorskip("pyarrow")
    frame = customers(20, seed=1).assign(acct=pd.array([12345678901234567, None] * 10, dtype="Int64"))
    frame.assign(x=frame.x.astype(float)).to_parquet(fitted / "new.parquet")
    out = fitted / "out.csv"
    run("predict", "--data", fitted / "new.parquet", "--model", fitted / "fit", "--out", out, "--keep", "acct")
    assert pd.read_csv(out, dtype=str).acct[0] == "12345678901234567"


def test_a_kept_column_never_gives_way_to_one_of_the_model(fitted, run):
    customers(20).assign(score="mine").to_csv(fitted / "new.csv", index=False)
    code, _, said = run(
        "predict", "--data", fitted / "new.csv", "--model", fitted / "fit", "--out", fitted / "out.csv", "--keep", "score"
    )  # fmt: skip
    assert code == 2 and "'score'" in said and "Rename" in said and not (fitted / "out.csv").exists()


def test_predictions_are_written_in_the_format_of_their_name(fitted, run):
    customers(20).to_csv(fitted / "new.csv", index=False)
    said = {}
    for name in ("out.csv", "out.csv.gz", "out.parquet", "out.xlsx", "out.csv.zip"):
        said[name] = run("predict", "--data", fitted / "new.csv", "--model", fitted / "fit", "--out", fitted / name)
    plain = pd.read_csv(fitted / "out.csv")
    assert (fitted / "out.csv.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert pd.read_csv(fitted / "out.csv.gz").equals(plain)
    if said["out.parquet"][0] == 0:
        assert np.allclose(pd.read_parquet(fitted / "out.parquet").score, plain.score)
    for name in ("out.xlsx", "out.csv.zip"):
        assert said[name][0] == 2 and "another format" in said[name][2] and not (fitted / name).exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_predictions_go_through_a_pipe_and_leave_it_one(fitted, run):
    customers(20).to_csv(fitted / "new.csv", index=False)
    pipe, read = fitted / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    assert run("predict", "--data", fitted / "new.csv", "--model", fitted / "fit", "--out", pipe)[0] == 0
    reader.join(20)
    assert read and read[0].startswith("prediction,probability,score\n") and stat.S_ISFIFO(pipe.stat().st_mode)
    code, _, said = run("predict", "--data", fitted / "new.csv", "--model", fitted / "fit", "--out", "/dev/stdout")
    assert code == 2 and "name a file or a pipe" in said


def decisions(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {"region": rng.choice(["01", "1", "10", "1E1"], rows), "d": rng.integers(0, 2, rows).astype(str)}
    )


@pytest.mark.parametrize("regions", [["01", "1", "10", "1E1"], ["1", "10", "1E1", ""], ["1.0", "2.50", "x", "3"]])
@pytest.mark.parametrize("chunks", [(), ("--chunk-rows", 50)])
def test_groups_are_told_apart_by_their_cells(tmp_path, run, regions, chunks):
    frame = decisions()
    frame["region"] = frame.region.map(dict(zip(["01", "1", "10", "1E1"], regions, strict=True)))
    frame.to_csv(tmp_path / "d.csv", index=False)
    run(
        "audit", "--data", tmp_path / "d.csv", "--score", "d", "--group", "region", "--constraint", "demographic_parity <= 0.5",
        "--out", tmp_path / "a", *chunks,
    )  # fmt: skip
    names = {"1.0": "1", "2.50": "2.5"}
    found = json.loads((tmp_path / "a" / "audit.json").read_text())["groups"]
    assert {g["group"] for g in found} == {names.get(r, r) for r in regions if r}


def test_a_monitor_gives_groups_the_same_names_on_each_day(tmp_path, run):
    for day, regions in enumerate((["1.0", "2.0", ""], ["1", "2", "x"], ["1.0", "2", "x"])):
        frame = decisions(seed=day)
        frame["region"] = np.resize(regions, len(frame))
        frame.to_csv(tmp_path / "d.csv", index=False)
        code, out, said = run(
            "monitor", "--state", tmp_path / "m", "--data", tmp_path / "d.csv", "--score", "d", "--group", "region",
            *(["--constraint", "demographic_parity <= 0.5"] * (day == 0)), "--json",
        )  # fmt: skip
        assert code in (0, 1, 3), said
        new = [line for line in json.loads(out)["warnings"] if "brings groups" in line]
        assert len(new) == (day == 1) and all("'x'" in line and "'1'" not in line for line in new)


def test_persons_with_long_numbers_are_not_merged(tmp_path, run):
    frame = decisions()
    frame["acct"] = [f"{123456789012345600 + i // 2}" for i in range(len(frame))]
    frame.loc[len(frame) - 1, "acct"] = ""
    frame.to_csv(tmp_path / "d.csv", index=False)
    run(
        "audit", "--data", tmp_path / "d.csv", "--score", "d", "--group", "region", "--clusters", "acct", "--constraint",
        "demographic_parity <= 0.5", "--out", tmp_path / "a",
    )  # fmt: skip
    assert "in 151 clusters of up to 2" in (tmp_path / "a" / "audit.json").read_text()


def test_codes_stay_text_wherever_in_the_file_they_are(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("zip,n,day\n" + "90210,1,05\n" * 3 + "02138,2,06\n")
    frame = read_table(path)
    assert frame.zip.tolist() == ["90210"] * 3 + ["02138"] and frame.day.tolist() == ["05"] * 3 + ["06"]
    assert frame.n.tolist() == [1, 1, 1, 2]


def test_what_was_not_delivered_or_is_in_other_units_is_said(fitted, run):
    frame = customers(seed=1)
    _, said = predicted(fitted, run, frame.assign(x=""))
    assert [line[:28] for line in said["warnings"]] == ["x: 400 of 400 rows are missi"]
    _, said = predicted(fitted, run, frame.assign(x=(frame.x.astype(float) * 1000).astype(str)))
    assert "x: " in said["warnings"][0] and "outside training's range" in said["warnings"][0]
    total = pd.DataFrame([{name: "TOTAL" if name == "id" else "" for name in frame}])
    _, said = predicted(fitted, run, pd.concat([frame, total]))
    assert said["warnings"] == ["1 of 401 rows have no value in any column. Are they blank lines, or sums?"]


@pytest.mark.filterwarnings("default::fairbound.DataWarning")
@pytest.mark.parametrize("more", [(), ("--chunk-rows", "70")])
def test_groups_of_a_csv_file_that_blanks_alone_tell_apart_are_one_with_a_warning(tmp_path, run, more):
    frame = pd.DataFrame({"sex": ["F", "F ", "M", "M"] * 50, "y": [0, 1] * 100, "yes": [0, 1, 1, 0] * 50})
    judged = ("audit", "--data", tmp_path / "d.csv", "--label", "y", "--score", "yes", "--group", "sex")
    bound = ("--constraint", "demographic_parity <= 0.5", "--out", tmp_path / "o", *more)
    frame.to_csv(tmp_path / "d.csv", index=False)
    code, _, said = run(*judged, *bound)
    assert code == 0, said
    assert said.count("the column 'sex' of the CSV file holds 'F' and 'F ', which differ only in blanks") == 1
    found = json.loads((tmp_path / "o" / "audit.json").read_text())
    assert {group["group"]: group["n"] for group in found["groups"]} == {"F": 100, "M": 100}
    frame.replace({"F ": "F"}).to_csv(tmp_path / "d.csv", index=False)
    assert "differ only in blanks" not in run(*judged, *bound)[2]
