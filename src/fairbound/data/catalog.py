"""The table of data sets, from catalog.toml: files with checksums, publishers, counts, labels, groups,
licences and citations."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairbound.data.files import FileInfo


@dataclass(frozen=True, kw_only=True)
class DatasetInfo:
    """What is known about a data set before reading it.

    rows, positives: after the loader's default options; None where they depend on an option (`acs-income`).
    label: what y = 1 means.
    groups: sensitive attributes, the default one first; empty for sets of other tasks.
    classes: (class, rows) in the order of the labels 0, 1, ..., where the classes are not positive and negative.
    loader: "module:function" below fairbound.data; of a data set of your own, of any module.
    label_options: options of the loader that change which rows are positive.
    paper_splits: paper -> shares for `Dataset.split`, where a paper splits at random.
    """

    name: str
    title: str
    loader: str
    label: str
    groups: tuple[str, ...]
    rows: int | None = None
    positives: int | None = None
    licence: str
    citation: str
    note: str = ""
    files: tuple[FileInfo, ...] = ()
    label_options: tuple[str, ...] = ()
    paper_splits: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    classes: tuple[tuple[str, int], ...] = ()


CENSUS = "https://www2.census.gov/programs-surveys/acs/data/pums"


def _entry(name: str, facts: dict[str, Any]) -> DatasetInfo:
    made: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in facts.items()}
    made["files"] = tuple(
        FileInfo(**file | {"columns": tuple(file.get("columns", ()))}) for file in facts.get("files", ())
    )
    made["classes"] = tuple((label, rows) for label, rows in facts.get("classes", ()))
    return DatasetInfo(name=name, **made)


_TEXT = Path(__file__).with_name("catalog.toml").read_text(encoding="utf-8")
TABLE: dict[str, DatasetInfo] = {name: _entry(name, facts) for name, facts in tomllib.loads(_TEXT).items()}
