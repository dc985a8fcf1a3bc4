"""A study's folder of records and numbers in, figures and one page out. Imports no algorithm and runs nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from fairbound.base.errors import DataError
from fairbound.base.files import atomic_write_many, atomic_write_text

from . import fair_models_page, known_optima_page, study_drawing
from .study_page import View, rows_of, study_page

VIEWS: dict[str, View] = {"fair-models": fair_models_page, "known-optima": known_optima_page}


def write_report(folder: str | os.PathLike[str], say: Callable[[str], None] = lambda text: None) -> Path:
    """Draw `figures/*.png`, `figures/*.svg` and `report.html` of a study that was run into `folder`.

    Returns: the path of the page. Raises: DataError where the folder holds no study; ImportError without matplotlib.
    """
    folder = Path(folder)
    study, results, summary = (_read(folder, name) for name in ("study.json", "results.json", "summary.json"))
    view = VIEWS[study["kind"]]
    uids = (f"f{i}" for i in count(1))
    figures: dict[str, bytes] = {}
    drawn = {}
    for block in summary["blocks"]:
        made = list(view.drawings(study, block, rows_of(results, block)))
        for drawing in made:
            figures |= study_drawing.files(drawing)
        drawn[block["key"]] = [(d, study_drawing.inline(d, next(uids))) for d in made]
        say(f"{len(made)} figures of {block['title']}")
    (folder / "figures").mkdir(exist_ok=True)
    atomic_write_many(folder / "figures", figures)
    page = folder / "report.html"
    atomic_write_text(page, study_page(study, results, summary, drawn, view))
    return page


def _read(folder: Path, name: str) -> Any:
    try:
        return json.loads((folder / name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{str(folder)!r} holds no study ({name} is missing); fairbound reproduce runs one.") from None
