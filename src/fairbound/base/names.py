"""Names: many of them made when they are read, the first of many, and those that somebody may have meant who wrote
another."""

from __future__ import annotations

import bisect
import difflib
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any


def unspelled(name: Any) -> str:
    """A name without capitals and blanks, its letters stored in one way (é is one character or two), in which those
    that differ in nothing else are the same."""
    return "".join(unicodedata.normalize("NFKC", str(name)).casefold().split())


def seen(name: str) -> str:
    """A name as it is shown: in quotation marks where it begins or ends with a blank, or is empty."""
    return name if name and name == name.strip() else repr(name)


def plain_repr(value: Any) -> str:
    """How a value is shown that somebody passed: one of numpy's as that of Python which it stands for, 1 and not np.int64(1)."""
    if isinstance(value, list | tuple):
        shown = ", ".join(map(plain_repr, value))
        return f"[{shown}]" if isinstance(value, list) else f"({shown}{',' * (len(value) == 1)})"
    return repr(value.item() if type(value).__module__ == "numpy" and getattr(value, "shape", None) == () else value)


def shortlist(names: Iterable[Any], most: int = 6, quoted: bool = False) -> str:
    """The first `most` names, and how many more there are: "a, b and 3 more". quoted: each in quotation marks."""
    names = list(names)
    first = ", ".join(map(repr if quoted else str, names[:most]))
    return first + (f" and {len(names) - most:,} more" if len(names) > most else "")


def count_of(number: int, noun: str) -> str:
    """A number of things whose plural ends in s: "1 row", "2,000 rows"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


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


def lacking(absent: Sequence[str], names: Iterable[str]) -> str:
    """What is said of a table of columns `names` that lacks the columns `absent` of training."""
    names = list(names)
    alike = {unspelled(name): name for name in names}
    near = [f"{name!r} is {alike[key]!r} here" for name in absent if (key := unspelled(name)) in alike]
    return (
        f"the table lacks the column{'s' * (len(absent) > 1)} {shortlist(absent, 8, quoted=True)} seen in training; it has "
        f"{shortlist(names, 8, quoted=True)}. Add or rename{': ' * bool(near)}{shortlist(near, 8)}."
    )


class Names(Sequence[str]):
    """m names, each built only when it is read, so that half a million of them cost nothing.

    blocks: of each, how many names, and a function of the number within the block.
    """

    def __init__(self, blocks: Sequence[tuple[int, Callable[[int], str]]]):
        self._makers = [maker for _, maker in blocks]
        self._ends = list(accumulate(count for count, _ in blocks))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return tuple(self[j] for j in range(*i.indices(len(self))))
        i = int(i)
        i = i + len(self) if i < 0 else i
        if not 0 <= i < len(self):
            raise IndexError(i)
        block = bisect.bisect_right(self._ends, i)
        return self._makers[block](i - (self._ends[block - 1] if block else 0))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Sequence)
            and len(self) == len(other)
            and all(a == b for a, b in zip(self, other, strict=True))
        )

    def __hash__(self) -> int:
        return hash(len(self))

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3]))
        return f"({shown}, ... {len(self):,} names)" if len(self) > 3 else f"({shown})"
