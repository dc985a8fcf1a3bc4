"""Percentile intervals of scores: unions of [alpha, beta) within [0, 1], and what share of their rows a rank lets
through.

The rank of a score in its group is the share of the group's rows above it, so that 0 is the top. Of the rows whose
ranks lie in a union I of intervals, the share above a score of rank p is

    T(p) = sum over [alpha, beta) in I of (min(p, beta) - min(p, alpha)) / |I|,

which rises from 0 to 1; on a single interval it is (p - alpha) / (beta - alpha). Where scores are tied, rows at the end
of an interval belong to it in part: T is taken of the ranks as they are, so that nothing depends on the order of equal
rows.

Source: He, Huang, Yao, Lin (2026), (62), (63) and Remark 5.3. Departs: (62) is the definition where scores are tied.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from fairbound.base.errors import OptionError
from fairbound.fairness.language import number_text

_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_UNION = rf"{_NUMBER}:{_NUMBER}(?:\+{_NUMBER}:{_NUMBER})*"
_TEXT = re.compile(rf"^{_UNION}$")
_OWN = re.compile(rf"^(.+)@({_UNION})$")


@dataclass(frozen=True)
class Percentiles:
    """parts: intervals (alpha, beta), 0 <= alpha < beta <= 1, in order and without a rank in common; 0 is the top.

    Raises: OptionError where they are not.
    """

    parts: tuple[tuple[float, float], ...] = ((0.0, 1.0),)

    def __post_init__(self) -> None:
        parts = tuple((float(a), float(b)) for a, b in self.parts)
        ends = [end for part in parts for end in part]
        ordered = all(a < b for a, b in parts) and all(p[1] <= q[0] for p, q in pairwise(parts))
        if not parts or not all(math.isfinite(e) and 0 <= e <= 1 for e in ends) or not ordered:
            said = "+".join(f"{a:g}:{b:g}" for a, b in parts) or "nothing"
            raise OptionError(
                f"a percentile interval is written alpha:beta with 0 <= alpha < beta <= 1, as in 0.05:0.3 (0 is the top); several "
                f"are joined by + in ascending order and must not overlap. Got {said}."
            )
        object.__setattr__(self, "parts", parts)

    @classmethod
    def read(cls, word: str) -> Percentiles | None:
        """The intervals that a text like "0.05:0.3" or "0:0.1+0.9:1" states; None for any other text."""
        if not _TEXT.match(word):
            return None
        return cls(tuple((float(a), float(b)) for a, b in (part.split(":") for part in word.split("+"))))

    @property
    def text(self) -> str:
        return "+".join(f"{number_text(a)}:{number_text(b)}" for a, b in self.parts)

    @property
    def length(self) -> float:
        """|I|, the share of the rows that lie in it."""
        return sum(b - a for a, b in self.parts)

    def through(self, rank: Any) -> np.ndarray:
        """T of ranks in [0, 1], an array of any shape; NaN stays."""
        p = np.asarray(rank, dtype=np.float64)
        total = sum(np.minimum(p, b) - np.minimum(p, a) for a, b in self.parts)
        return np.clip(total / self.length, 0.0, 1.0)

    def rank(self, through: Any) -> np.ndarray:
        """The least rank p with T(p) = `through`, of shares in [0, 1]."""
        left = np.asarray(through, dtype=np.float64) * self.length
        out = np.full(left.shape, self.parts[-1][1])
        done = 0.0
        for a, b in self.parts:
            inside = (left >= done) & (left < done + b - a)
            out = np.where(inside, a + left - done, out)
            done += b - a
        return out


EVERYTHING = Percentiles()


def read_own(word: str) -> tuple[str, Percentiles] | None:
    """A group's own intervals, as in "Female@0.1:0.4"; None for any other text."""
    match = _OWN.match(word)
    if match is None:
        return None
    made = Percentiles.read(match[2])
    return None if made is None else (match[1], made)
