"""One value as programs write it: 1, 1.0 and 1.00; true, TRUE and True; words for a value that is missing."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PLAIN = re.compile(r"(-?(?:0|[1-9]\d*))(?:\.(\d*?)0*)?")
"""A number as most programs write it: its whole part, and its decimals without zeros at their end."""
EXACT_DIGITS = 15
"""Digits of a whole number that a float holds for certain."""
_TRUTH = {"true": "True", "TRUE": "True", "false": "False", "FALSE": "False"}
_AS_TRUTH, _AS_BITS = {"0": "False", "1": "True"}, {"False": "0", "True": "1"}

MAY_BE_WORDS = ("None", "N/A", "n/a", "NA", "NULL", "null")
"""Those of `MISSING_WORDS` that may also be a category."""
MISSING_WORDS = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "NaN", "nan",
    *MAY_BE_WORDS,  # so far what pandas takes for missing
    "?", ".",  # the latter in files of SAS and Stata
)  # fmt: skip
"""Cells of a CSV file that are taken for missing."""
WORDS = frozenset(MISSING_WORDS)


def key_text(cell: str) -> str:
    """A cell in plain notation: 1.0 is 1 and true is True, as other programs write them; 01 is 01, and 1E5 is 1E5."""
    bare = cell.strip()
    if found := _PLAIN.fullmatch(bare):
        return f"{found[1]}.{found[2]}" if found[2] else found[1]
    return _TRUTH.get(bare, bare)


class Notations:
    """Some values, each to be found in any notation of it that `key_text` knows; of values that are all True and False
    also as 1 and 0, and of 1 and 0 as True and False. What may be two of the values is none of them."""

    def __init__(self, values: Iterable[str]) -> None:
        self._of: dict[str, str | None] = {}
        for value in values:
            key = key_text(value)
            self._of[key] = value if key not in self._of else None
        turns = (turn for turn in (_AS_TRUTH, _AS_BITS) if self._of.keys() <= set(turn.values()))
        self._turn = next(turns, {})

    def find(self, text: str) -> str | None:
        """The value that a text which is spelt as none of them is in another notation; None where it is none, and for a
        number with a decimal point and more digits before it than a float holds, which may have been another one."""
        if len(text.partition(".")[0].lstrip("-")) > EXACT_DIGITS and "." in text:
            return None
        key = key_text(text)
        return self._of.get(self._turn.get(key, key))
