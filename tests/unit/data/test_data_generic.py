"""load_csv on German-credit-like files, good and bad."""

import gzip

import numpy as np
import pytest

from fairbound.base.errors import DataError, DataWarning, OptionError
from fairbound.data import load_csv

pytest.importorskip("pandas")
HEAD = "age,job,sex,risk\n"
ROWS = ["30,clerk,F,good", "41,,M,bad", ",nurse,F,good", "55,clerk,,bad"]
GOOD = HEAD + "\n".join(ROWS) + "\n"


def write(folder, text, name="credit.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_small_file_is_read_as_it_stands(tmp_path):
    data = load_csv(write(tmp_path, GOOD), "risk", "sex", positive="bad")
    assert data.name == "credit.csv" and data.positive == "bad"
    assert data.y.tolist() == [0, 1, 0, 1]
    assert data.sensitive["sex"].tolist() == ["F", "M", "F", None]
    assert data.feature_names == ("age", "job=clerk", "job=nurse", "sex=F", "sex=M")
    np.testing.assert_array_equal(data.X[:, 0], [30, 41, np.nan, 55])
    assert data.without("sex").feature_columns == ("age", "job")
    assert data.frame["risk"].tolist() == [0, 1, 0, 1]


def test_packed_semicolons_options_and_numeric_labels(tmp_path):
    text = "id;age;code;sex;risk\n" + "\n".join(f"{i};{20 + i};{i % 3};{'FM'[i % 2]};{1 + i % 2}" for i in range(12))
    path = write(tmp_path, gzip.compress(text.encode()), "g.csv.gz")
    data = load_csv(path, "risk", ["sex", "code"], positive=1, drop=["id"], categorical=["code"])
    assert data.y.tolist() == [1, 0] * 6
    assert data.feature_names == ("age", "code=0", "code=1", "code=2", "sex=F", "sex=M")
    assert data.sensitive["code"].tolist() == ["0", "1", "2"] * 4


def with_column(name, values):
    lines = [f"{row},{value}" for row, value in zip(ROWS, values, strict=True)]
    return HEAD.replace("\n", f",{name}\n") + "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        ("", {}, "empty"),
        (HEAD, {}, "no rows"),
        (GOOD.replace("job", "age"), {}, "more than once: 'age'"),
        (GOOD.replace("bad", "good"), {}, "label column 'risk'.*one class"),
        (GOOD.replace("F,good", "F,fair", 1), {}, "label column 'risk'.*3 values"),
        (GOOD.replace(",bad", ","), {}, "label column 'risk'.*missing"),
        (GOOD, {"positive": "ugly"}, "positive='ugly' is not among"),
        (GOOD + "1,2\n", {}, "line 6 has 2 fields"),
        (gzip.compress(GOOD.encode(), mtime=0)[:-12], {}, "truncated"),
        (with_column("extra", ["", "", "", ""]), {}, "column 'extra' has no value"),
        (with_column("extra", ["1", "inf", "2", "3"]), {}, "column 'extra' is infinite in 1 rows, first in data row 2"),
    ],
)
def test_bad_content_is_named(tmp_path, text, arguments, words):
    with pytest.raises(DataError, match=words):
        load_csv(write(tmp_path, text), "risk", "sex", **arguments)


@pytest.mark.parametrize(
    ("label", "sensitive", "arguments", "words"),
    [
        ("rsk", "sex", {}, r"no column 'rsk' \(label\). Did you mean 'risk'"),
        ("risk", "gender", {}, r"no column 'gender' \(sensitive\)"),
        ("risk", "sex", {"drop": ["zzz"]}, r"no column 'zzz' \(drop\). It has: age, job, sex, risk"),
        ("risk", "risk", {}, "is the label"),
        ("risk", [], {}, "at least one sensitive"),
        ("risk", "sex", {"encoding": "x"}, "encoding must be"),
    ],
)
def test_wrong_arguments_are_named(tmp_path, label, sensitive, arguments, words):
    with pytest.raises(OptionError, match=words):
        load_csv(write(tmp_path, GOOD), label, sensitive, **arguments)


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load_csv(tmp_path / "no.csv", "risk", "sex")


def test_text_among_numbers_and_identifiers(tmp_path):
    lines = [f"{'x1' if i == 17 else i},{'FM'[i % 2]},{i // 2 % 2}" for i in range(1200)]
    path = write(tmp_path, "amount,sex,risk\n" + "\n".join(lines))
    with pytest.raises(DataError, match="column 'amount' holds numbers but 'x1' in data row 18"):
        load_csv(path, "risk", "sex")
    with pytest.raises(DataError, match="1,200 different texts"):
        load_csv(path, "risk", "sex", categorical=["amount"])
    assert load_csv(path, "risk", "sex", drop=["amount"]).feature_columns == ("sex",)


def test_a_group_of_one_is_kept(tmp_path):
    data = load_csv(write(tmp_path, GOOD), "risk", "sex")
    assert (data.sensitive["sex"] == "M").sum() == 1
    assert data.positive == "good"


def test_features_that_look_like_identifiers_are_warned_of(tmp_path):
    lines = [f"{1000 + 3 * i},{i % 7},{'FM'[i % 2]},{'yn'[i % 3 > 0]}" for i in range(300)]
    (tmp_path / "t.csv").write_text("\n".join(["case,a,sex,hired", *lines]))
    with pytest.warns(DataWarning, match="and are features: case. Leave them out with drop= if they are"):
        load_csv(tmp_path / "t.csv", label="hired", sensitive="sex")
    load_csv(tmp_path / "t.csv", label="hired", sensitive="sex", drop=["case"])


def test_sensitive_columns_are_read_as_the_command_line_reads_groups(tmp_path):
    rows = [f"{20 + i},{'F' if i % 3 else 'F '},{'1.0' if i % 2 else '1'},{i % 2}" for i in range(12)]
    path = write(tmp_path, "age,sex,code,risk\n" + "\n".join(rows) + "\n")
    with pytest.warns(DataWarning, match="'F' and 'F ', which differ only in blanks and are read as one"):
        data = load_csv(path, "risk", ["sex", "code"])
    assert set(data.sensitive["sex"]) == {"F"} and set(data.sensitive["code"]) == {"1"}
