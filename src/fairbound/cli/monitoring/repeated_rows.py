"""Whether a file holds rows that the file before it held: what is kept of its rows, and how many of them come again.

A row is all of its cells, by the names of their columns, as a number of eight bytes. The smallest MOST numbers of a file
are a sample of its rows that does not depend on their order, and of which the next file holds as many as it holds of
all. Only rows that occur once in their file are taken. In files of few columns rows are alike by chance: about as many
come again in the next file as occur twice in one, and so much is taken off.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from fairbound.base.errors import DataError
from fairbound.rows.groups import texts_of

MOST, FEWEST = 1000, 20
AGAIN = 0.1
"""The share of rows that come again from which on they are spoken of."""
TWICE = 2
"""How much oftener than within one file rows may be alike by chance."""


def beside_the_last(frame: Any, name: str, before: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """A warning where many rows of a file are equal to rows of the file before, and what is kept of its own rows, as
    plain data: {} of one whose rows are too much alike to be known again, and of one whose cells are no values, such as
    lists. before: what was kept of the file before."""
    try:
        once, share = _once(frame)
    except (DataError, TypeError):
        return [], {}
    said = _come_again_warnings(once, share, name, before) if before else []
    if _by_chance(share) > 1:
        return said, {}
    sample = base64.b64encode(once[:MOST].astype("<u8").tobytes()).decode("ascii")
    return said, {"name": name, "rows": sample, "whole": len(once) <= MOST, "once": share}


def _come_again_warnings(once: np.ndarray, share: float, name: str, before: dict[str, Any]) -> list[str]:
    """The warning, of the rows that occur once and their share of all."""
    known = np.frombuffer(base64.b64decode(before["rows"]), dtype="<u8").astype(np.uint64)
    mine = once if before["whole"] else once[once <= known[-1]]
    of_mine, of_known = _held(mine, known), _held(known, once)
    last = f"the file counted last ({before['name']})"
    if of_mine >= _by_chance(before["once"]):
        what = f"About {of_mine:.0%} of the rows of {name} are equal in every column to rows of {last}"
    elif of_known >= _by_chance(share):
        what = f"About {of_known:.0%} of the rows of {last} come again in {name}, equal in every column"
    else:
        return []
    return [
        f"{what}. Decisions that come again count twice, and the limits are too narrow. Send each decision once, when its outcome is "
        "known; or begin the state anew and name the column that tells decisions apart with --id."
    ]


def _by_chance(once: float) -> float:
    """The share from which on rows that come again are spoken of. once: the share of rows of a file that occur once."""
    return AGAIN + TWICE * (1 - once)


def _once(frame: Any) -> tuple[np.ndarray, float]:
    """The numbers of the rows that occur once, in order, and which share of the rows they are."""
    values, counts = np.unique(_numbers(frame), return_counts=True)
    once = values[counts == 1]
    return once, len(once) / max(len(frame), 1)


def _held(rows: np.ndarray, by: np.ndarray) -> float:
    """The share of the rows that are among others; 0 of too few to tell."""
    return float(np.isin(rows, by).mean()) if len(rows) >= FEWEST else 0.0


def _numbers(frame: Any) -> np.ndarray:
    """(n,) a number for each row, the same however the file separates and orders its columns."""
    from pandas.util import hash_array

    out = np.zeros(len(frame), dtype=np.uint64)
    for name in sorted(frame.columns, key=str):
        if frame[name].dtype.kind in "iuf":  # whole numbers are floats where one is missing
            cells = hash_array(frame[name].to_numpy(dtype=np.float64, na_value=np.nan))
        else:
            cells = hash_array(np.array([text or "" for text in texts_of(frame[name])], dtype=object))
        out = (out ^ cells) * np.uint64(0x9E3779B97F4A7C15)
        out ^= out >> np.uint64(29)
    return out
