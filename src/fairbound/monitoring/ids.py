"""Ids of decisions that were counted, each kept as eight bytes, so that a decision that comes again counts once.

A new id is taken for a known one where their hashes agree. Among n ids the chance that this ever happens is less than
n^2 / 2^65: 3 in 10^8 for a million, 3 in 10^4 for a hundred million. The decision would then be left out.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import numpy as np

from fairbound.base.errors import DataError
from fairbound.rows.groups import label_text
from fairbound.rows.reading import column_values

BYTES = 8
PENDING = 1 << 14
"""Hashes that wait to be sorted in: a row at a time would sort all of them each time."""
EXACT = 2.0**53
"""From here on floats are no longer all whole numbers."""


class Ids:
    """A set of hashes that grows."""

    def __init__(self, known: np.ndarray | None = None):
        self._sorted = np.empty(0, dtype=np.uint64) if known is None else known
        self._pending: set[int] = set()

    def __len__(self) -> int:
        return len(self._sorted) + len(self._pending)

    def first(self, hashes: np.ndarray) -> np.ndarray:
        """(n,) whether each is neither known nor an earlier one of these."""
        out = np.zeros(len(hashes), dtype=bool)
        out[np.unique(hashes, return_index=True)[1]] = True
        if len(self._sorted):
            place = np.minimum(np.searchsorted(self._sorted, hashes), len(self._sorted) - 1)
            out &= self._sorted[place] != hashes
        if self._pending:
            out &= np.array([h not in self._pending for h in hashes.tolist()], dtype=bool)
        return out

    def add(self, hashes: np.ndarray) -> None:
        """Know these from now on; none of them was known."""
        self._pending.update(hashes.tolist())
        if len(self._pending) >= PENDING:
            self._settle()

    def joined(self, other: Ids) -> Ids:
        """Those of both. Raises: DataError where they share some."""
        both = np.union1d(self._settle(), other._settle())
        if again := len(self) + len(other) - len(both):
            raise DataError(f"{again:,} ids were counted by both monitors; their decisions would count twice.")
        return Ids(both)

    def to_text(self) -> str:
        """As text, from which `from_text` makes the same set."""
        return base64.b64encode(self._settle().astype("<u8").tobytes()).decode("ascii")

    @classmethod
    def from_text(cls, text: str) -> Ids:
        """The set of a text. Raises: ValueError, TypeError for another text."""
        known = np.frombuffer(base64.b64decode(text, validate=True), dtype="<u8").astype(np.uint64)
        if (known[1:] <= known[:-1]).any():
            raise ValueError("the ids are not in order")
        return cls(known)

    def _settle(self) -> np.ndarray:
        if self._pending:
            self._sorted = np.union1d(self._sorted, np.fromiter(self._pending, np.uint64, len(self._pending)))
            self._pending = set()
        return self._sorted


def hashed_ids(ids: Any) -> np.ndarray:
    """(n,) the hashes of a column of ids, or of one. A whole number is the same id with and without ".0".

    Raises: DataError where one is missing, or is too large a number to be told from its neighbours.
    """
    out = []
    for i, value in enumerate(column_values("ids", [ids] if np.ndim(ids) == 0 else ids)):
        text = label_text(value)
        if not text:
            raise DataError(f"row {i} (counting from 0) has no id; give each decision one, or leave the row out.")
        if isinstance(value, float) and abs(value) >= EXACT:
            raise DataError(
                f"the id of row {i} (counting from 0), {value!r}, is a number too large for its last digits to be known. Write ids as text."
            )
        out.append(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=BYTES).digest(), "little"))
    return np.array(out, dtype=np.uint64)
