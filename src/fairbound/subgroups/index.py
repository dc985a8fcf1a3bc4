"""Subgroups as numbers: products of attributes with billions of members, never listed.

A subgroup fixes some attributes to one value each and leaves the others open ("any value"): a conjunction such as
sex=Female & race=Black. With attributes of s_1, ..., s_A values there are (s_1 + 1) ... (s_A + 1) of them, from 0
(nothing fixed: everyone) on, and the number is the mixed-radix number whose digit for an attribute is 0 where it is
open and 1 + the value's code where it is fixed; the last attribute's digit moves fastest.

Source: Kliachkin et al. (2025), section 1 (up to 5.7 billion protected subgroups from products of attributes).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairbound.base.errors import DataError, OptionError
from fairbound.base.names import shortlist
from fairbound.rows.groups import AND, MISSING, Groups

OPEN = -1
ANY = "*"
LARGEST = 2**62
EVERYONE = "everyone"

Where = int | Mapping[str, Any]
"""One subgroup: its number, or {attribute: label}, where "*" or absence is open and several labels are any of them."""


@dataclass(frozen=True)
class Subgroups:
    """Every conjunction of values of A attributes, addressed by a number in [0, nominal).

    attributes: A names. labels: for each attribute the value names, in code order (as in `Groups`).
    Raises: OptionError where there are more than 2^62 subgroups, a name occurs twice, or a label is "*".
    """

    attributes: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    _weights: np.ndarray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.attributes or len(self.attributes) != len(self.labels):
            raise OptionError(f"give one list of labels per attribute: {len(self.attributes)} and {len(self.labels)}.")
        for kind, names in (("attributes", self.attributes), *zip(self.attributes, self.labels, strict=True)):
            if not names or len(set(names)) < len(names) or ANY in names:
                raise OptionError(f"the names of {kind!r} must be some, distinct and not {ANY!r}: {list(names)[:5]}.")
        if self.nominal > LARGEST:
            raise OptionError(
                f"{len(self.attributes)} attributes of sizes {self.sizes} make {self.nominal:.3g} subgroups, more than "
                "2^62. Leave an attribute out, or bin the largest."
            )
        radices = [size + 1 for size in self.sizes]
        weights = np.array([math.prod(radices[j + 1 :]) for j in range(len(radices))], dtype=np.int64)
        object.__setattr__(self, "_weights", weights)

    @classmethod
    def of(cls, groups: Groups) -> Subgroups:
        """The subgroups of the attributes of `groups`; `groups.codes` are the codes that the methods here take."""
        return cls(groups.attributes, groups.labels)

    @property
    def sizes(self) -> tuple[int, ...]:
        """A numbers of values."""
        return tuple(len(values) for values in self.labels)

    @property
    def nominal(self) -> int:
        """How many conjunctions there are, whether or not a row is in them: prod(size + 1)."""
        return math.prod(size + 1 for size in self.sizes)

    @property
    def cells(self) -> int:
        """How many of them fix every attribute: prod(size)."""
        return math.prod(self.sizes)

    @property
    def weights(self) -> np.ndarray:
        """(A,) int64: what one step of each digit adds to the number."""
        return self._weights

    def encode(self, patterns: Any) -> np.ndarray:
        """(k,) int64 numbers of patterns (k, A): the code of each fixed attribute, OPEN (-1) where it is open."""
        patterns = np.asarray(patterns)
        self.check_codes(patterns)
        out = np.zeros(len(patterns), dtype=np.int64)
        for column, weight in zip(patterns.T, self._weights, strict=True):
            out += (column.astype(np.int64) + 1) * weight
        return out

    def decode(self, indices: Any) -> np.ndarray:
        """(k, A) int64 patterns of (k,) numbers; the inverse of `encode`."""
        numbers = self._numbers(indices)
        out = np.empty((len(numbers), len(self.sizes)), dtype=np.int64)
        for j, weight in enumerate(self._weights):
            digit, numbers = np.divmod(numbers, weight)
            out[:, j] = digit - 1
        return out

    def index_of(self, assignment: Mapping[str, Any]) -> int:
        """The number of {attribute: label}; "*" or a missing attribute is open.

        Raises: OptionError for an unknown attribute or label, or several labels of one attribute (for `members` only).
        """
        total = 0
        for j, codes in self._codes_of(assignment).items():
            if len(codes) != 1:
                raise OptionError(
                    f"{self.attributes[j]!r} is given {len(codes)} labels; a numbered subgroup fixes one, or leaves it "
                    "open with '*'."
                )
            total += (codes[0] + 1) * int(self._weights[j])
        return total

    def assignment(self, index: int) -> dict[str, str]:
        """The fixed attributes of a subgroup and their labels."""
        (pattern,) = self.decode([index])
        return {a: values[c] for a, values, c in zip(self.attributes, self.labels, pattern, strict=True) if c != OPEN}

    def name(self, index: int) -> str:
        """ "sex=Female & race=Black"; "everyone" for 0."""
        return AND.join(f"{a}={label}" for a, label in self.assignment(index).items()) or EVERYONE

    def members(self, where: Where, codes: np.ndarray) -> np.ndarray:
        """(n,) bool: the rows of codes (n, A) inside. A row whose value of a fixed attribute is missing is outside."""
        codes = np.asarray(codes)
        self.check_codes(codes)
        if isinstance(where, Mapping):
            wanted = self._codes_of(where)
        else:
            wanted = {j: [int(c)] for j, c in enumerate(self.decode([where])[0]) if c != OPEN}
        inside = np.ones(len(codes), dtype=bool)
        for j, values in wanted.items():
            inside &= codes[:, j] == values[0] if len(values) == 1 else np.isin(codes[:, j], values)
        return inside

    def as_groups(self, indices: Sequence[int], codes: np.ndarray) -> Groups:
        """Chosen subgroups as columns of group codes, for a Plan: each row's code says which of them it is in.

        Subgroups that cannot share a row (two values of one attribute) share a column; overlapping ones get columns of
        their own. MISSING where a row is in none of a column's subgroups. A number given twice counts once.
        """
        chosen = list(dict.fromkeys(operator.index(i) for i in indices))
        patterns = self.decode(chosen)
        columns: list[list[int]] = []
        for i in range(len(chosen)):
            for column in columns:
                if all(_disjoint(patterns[i], patterns[j]) for j in column):
                    column.append(i)
                    break
            else:
                columns.append([i])
        out = np.full((len(codes), len(columns)), MISSING, dtype=np.int64)
        for at, column in enumerate(columns):
            for place, i in enumerate(column):
                out[self.members(chosen[i], codes), at] = place
        labels = tuple(tuple(self.name(chosen[i]) for i in column) for column in columns)
        return Groups(out, tuple(f"subgroups {at}" for at in range(len(columns))), labels)

    def check_codes(self, codes: np.ndarray) -> None:
        """Raises: DataError unless codes are integers (n, A), each in [-1, size of its attribute)."""
        if codes.ndim != 2 or codes.shape[1] != len(self.sizes) or codes.dtype.kind not in "iu":
            raise DataError(f"codes must be integers (n, {len(self.sizes)}), got {codes.dtype} {codes.shape}.")
        if not len(codes):
            return
        for attribute, size, low, high in zip(self.attributes, self.sizes, codes.min(0), codes.max(0), strict=True):
            if low < MISSING or high >= size:
                raise DataError(
                    f"the codes of {attribute!r} lie in [{low}, {high}], outside [-1, {size - 1}]. Encode the rows "
                    "with the Groups that the subgroups were made of (Groups.encode)."
                )

    def _numbers(self, indices: Any) -> np.ndarray:
        numbers = [operator.index(i) for i in (indices.tolist() if isinstance(indices, np.ndarray) else indices)]
        wrong = [i for i in numbers if not 0 <= i < self.nominal]
        if wrong:
            raise OptionError(f"a subgroup's number must lie in [0, {self.nominal}), got {wrong[0]}.")
        return np.array(numbers, dtype=np.int64)

    def _codes_of(self, assignment: Mapping[str, Any]) -> dict[int, list[int]]:
        """Attribute position -> wanted codes, for the attributes that are not open."""
        out = {}
        for attribute, wanted in assignment.items():
            if attribute not in self.attributes:
                raise OptionError(f"no attribute is called {attribute!r}; there are {', '.join(self.attributes)}.")
            if isinstance(wanted, str) and wanted == ANY:
                continue
            j = self.attributes.index(attribute)
            several = isinstance(wanted, Collection) and not isinstance(wanted, str)
            texts = [str(label) for label in (wanted if several else [wanted])]
            unknown = [label for label in texts if label not in self.labels[j]]
            if unknown or not texts:
                raise OptionError(f"{attribute!r} has no label {unknown[:3]}; it has {shortlist(self.labels[j], 8)}.")
            out[j] = sorted({self.labels[j].index(label) for label in texts})
        return out


def _disjoint(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two patterns fix some attribute to different values."""
    return bool(((a != b) & (a != OPEN) & (b != OPEN)).any())
