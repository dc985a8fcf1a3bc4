"""Names in messages: the first of many, and those that somebody may have meant who wrote another."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any


def unspelled(name: Any) -> str:
    """A name without capitals and blanks, its letters stored in one way (é is one character or two), in which those
    that differ in nothing else are the same."""
    return "".join(unicodedata.normalize("NFKC", str(name)).casefold().split())


def seen(name: str) -> str:
    """A name as it is shown: in quotation marks where it begins or ends with a blank, or is empty."""
    return name if name and name == name.strip() else repr(name)


def shortlist(names: Iterable[Any], most: int = 6, quoted: bool = False) -> str:
    """The first `most` names, and how many more there are: "a, b and 3 more". quoted: each in quotation marks."""
    names = list(names)
    first = ", ".join(map(repr if quoted else str, names[:most]))
    return first + (f" and {len(names) - most:,} more" if len(names) > most else "")


def did_you_mean(
    name: str,
    known: Iterable[str],
    *,
    before: str = "",
    otherwise: str = "",
    most: int = 1,
    alike: float = 0.6,
    shown: Mapping[str, str] | None = None,
) -> str:
    """`before` and "did you mean 'x'?", with the names of `known` like `name`; `otherwise` where there is none.

    before: of a new sentence where it ends in a full stop. most: names. alike: from 0 to 1. shown: how a name is shown,
    if not as it is.
    """
    names = list(known)
    same = [one for one in names if unspelled(one) == unspelled(name)]
    near = same[:1] if most == 1 and same else difflib.get_close_matches(name, names, most, alike)
    if not near:
        return otherwise
    asks = "Did" if before.rstrip().endswith(".") else "did"
    return f"{before}{asks} you mean {' or '.join(repr((shown or {}).get(one, one)) for one in near)}?"
