"""A study's folder of records and numbers in, figures and one page out. Imports no algorithm and runs nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from itertools import count
from pathlib import Path
from typing import Any

from fairbound.base.errors import DataError
from fairbound.base.files import atomic_write_many, atomic_write_text
from fairbound.base.names import count_of
from fairbound.report.figures import files, inline
from fairbound.report.study_figures import drawings
from fairbound.report.study_page import rows_of, shows, study_page
from fairbound.report.study_scene import nearest


def write_report(folder: str | os.PathLike[str], say: Callable[[str], None] = lambda text: None) -> Path:
    """Draw `figures/*.png`, `figures/*.svg` and `report.html` of a study that was run into `folder`.

    Returns: the path of the page. Raises: DataError where the folder holds no study, or a figure draws what its records
    lack; ImportError without matplotlib.
    """
    folder = Path(folder)
    study, results, summary = (json.loads(_read(folder, f"{n}.json")) for n in ("study", "results", "summary"))
    runs: dict[tuple[str, str], dict[int, list[dict[str, Any]]]] = {}
    for line in _read(folder, "records.jsonl").splitlines():
        row = json.loads(line)
        runs.setdefault((row["data"], row["method"]), {}).setdefault(row["seed"], []).append(row)
    uids = (f"f{i}" for i in count(1))
    figures: dict[str, bytes] = {}
    drawn = {}
    for block in summary["blocks"]:
        made = list(drawings(study, block, rows_of(results, block), runs))
        for drawing in made:
            figures |= files(drawing)
        drawn[block["key"]] = [(d, inline(d, next(uids))) for d in made]
        if made:
            say(f"{count_of(len(made), 'figure')} of {block['title']}")
    for text in _lacking(study, results):
        say(text)
    if figures:
        (folder / "figures").mkdir(exist_ok=True)
        atomic_write_many(folder / "figures", figures)
    page = folder / "report.html"
    atomic_write_text(page, study_page(study, results, summary, drawn))
    return page


def _lacking(study: dict[str, Any], results: list[dict[str, Any]]) -> Iterator[str]:
    """What a table asks for beside columns that there are, and the results of the items that show it lack."""
    for table in study["tables"]:
        names = sorted({row["column"] for row in results if shows(table, row["item"])})
        lacking = [p for p in table["columns"] if not any(fnmatch(name, p) for name in names)]
        for pattern in lacking if len(lacking) < len(table["columns"]) else []:
            yield f"a table asks for {pattern!r}, which is no column of results.json{nearest(pattern, names)}"


def _read(folder: Path, name: str) -> str:
    try:
        return (folder / name).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"{str(folder)!r} holds no study ({name} is missing); fairbound reproduce runs one.") from None
