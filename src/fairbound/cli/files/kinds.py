"""How a command reads the columns of a file: as its options and its saved models say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairbound.cli.files.columns import pandas_part
from fairbound.cli.files.saved_model import trained_marks
from fairbound.estimators.saving.folder import load_folder
from fairbound.tables import Chunks, Kinds
from fairbound.tables.marks import Mark
from fairbound.tables.notation import WORDS
from fairbound.tables.reading.parquet import is_parquet


def kinds_of(options: Any) -> Kinds:
    """The columns that --text names or saved models dictate, and those that tell persons or groups apart."""
    model = getattr(options, "model", None)  # of a command that trains, a text that is no folder
    named = [Path(p) for what in ("first", "second") if (p := getattr(options, what, None)) and Path(p).is_dir()]
    folders = [load_folder(path) for path in (*([model] if isinstance(model, Path) else []), *named)]
    learnt = Kinds.learnt(*(folder.encoder for folder in folders if folder.encoder is not None))
    marks = defaultdict[str, set[Mark]](set)
    for folder in folders:
        for separator, mark in trained_marks(folder).items():
            marks[separator].add(mark)
    keys = [
        name for what in ("group", "clusters", "split_by", "qid", "id") for name in stated(getattr(options, what, None))
    ]
    text = learnt.text | set(stated(options.text))
    return Kinds(
        text=text,
        numbers=learnt.numbers - text,
        keys=frozenset(keys),
        known=learnt.known,
        marks={separator: frozenset(found) for separator, found in marks.items()},
    )


def as_read_for(model: Any, frame: Any, path: str) -> Any:
    """The rows of the file `path`, read for several saved models, as they are read for one alone: a word for a missing value
    that another has learnt as a category is missing where this one has not. A Parquet file says which cells are text."""
    if is_parquet(path) or model.encoder_ is None:
        return frame
    for name, values in Kinds.learnt(model.encoder_).known.items():
        if name in frame and (gone := frame[name].isin(WORDS - values)).any():
            frame = frame.assign(**{name: frame[name].mask(gone)})
    return frame


def as_stated(table: Any, text: str | None) -> Any:
    """A table, or its parts, whose columns of --text are categories, whatever their cells look like."""
    names = stated(text)
    if not names:
        return table
    if isinstance(table, Chunks):
        return table.map(lambda part: as_stated(pandas_part(part), text))
    return table.astype({name: "category" for name in table.columns if name in names})


def stated(names: str | None) -> Sequence[str]:
    """The names of columns in an option, separated by commas, or the one name with commas in it."""
    return () if names is None else (names, *(name.strip() for name in names.split(",")))
