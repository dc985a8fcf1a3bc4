"""A data set of a user's own is a loader and a DatasetInfo, as docs/extending.md says."""

import hashlib
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from fairbound.base.errors import DataError, OptionError
from fairbound.cli.options.common import RowOptions
from fairbound.cli.training.rows import is_file, rows_of_options
from fairbound.data import info, load, names, options

pytest.importorskip("pandas")
PAGE = Path(__file__).parents[3] / "docs" / "extending.md"
CSV = "age,sex,hired\n" + "".join(f"{20 + i},{'fm'[i % 2]},{i // 4}\n" for i in range(8))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The page's module, on the path, with the checksum of a file of eight people."""
    section = PAGE.read_text(encoding="utf-8").split("\n## A data set\n")[1].split("\n## ")[0]
    code = re.search(r"```python\n(.*?)```", section, re.S)[1]
    (tmp_path / "people.csv").write_text(CSV)
    (tmp_path / "my_data.py").write_text(code.replace("SHA256", hashlib.sha256(CSV.encode()).hexdigest()))
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("my_data", None)


def test_it_is_loaded_by_the_name_of_its_module(folder):
    people = load("my_data:PEOPLE", folder)
    assert len(people) == 8 and people.y.sum() == 4 and people.group("sex").tolist() == list("fm" * 4)
    assert options("my_data:PEOPLE") == {"encoding": "one-hot"} and info("my_data:PEOPLE").licence == "CC0"
    assert "my_data:PEOPLE" not in names()
    with pytest.raises(OptionError, match="has no option colour"):
        load("my_data:PEOPLE", folder, colour="red")


def test_every_load_checks_the_files_and_the_counts(folder):
    import my_data

    (folder / "people.csv").write_text(CSV.replace("20,f,0", "21,f,0"))
    with pytest.raises(DataError, match=r"people\.csv"):
        load("my_data:PEOPLE", folder)
    (folder / "people.csv").write_text(CSV)
    object.__setattr__(my_data.PEOPLE, "rows", 9)
    with pytest.raises(DataError, match="rows"):
        load("my_data:PEOPLE", folder)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("my_data:PEOPEL", "'PEOPEL' of my_data is no DatasetInfo"),
        ("my_data:load_people", "is no DatasetInfo"),
        ("my_dat:PEOPLE", "no module 'my_dat' to import"),
        ("people", r"One of your own is 'package.module:NAME'"),
    ],
)
def test_a_wrong_name_is_explained(folder, name, words):
    with pytest.raises(OptionError, match=words):
        load(name, folder)


def test_the_command_line_and_studies_read_it(folder):
    from fairbound.studies.rows import load_rows

    assert not is_file("my_data:PEOPLE") and is_file(str(folder / "people.csv"))
    rows = rows_of_options(RowOptions(data="my_data:PEOPLE", data_dir=str(folder)))
    assert rows.groups.attributes == ("sex",) and np.array_equal(rows.target, np.arange(8) // 4)
    assert rows.checksum == "sha256:" + hashlib.sha256(CSV.encode()).hexdigest()
    part = load_rows("my_data:PEOPLE", {}, "sex", ("m", "f"), 0, str(folder))
    assert len(part.train) + len(part.test) == 8


def test_it_is_described_like_any_other(folder):
    from fairbound.cli.datasets import describe_dataset
    from fairbound.cli.options.data import InfoOptions

    said = describe_dataset(InfoOptions(name="my_data:PEOPLE"))
    assert "Who was hired" in said.text and json.dumps(said.summary)
