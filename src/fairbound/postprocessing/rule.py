"""The fitted rule: which group takes which thresholds, how it decides, and the same as plain data."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from fairbound.base.errors import DataError, DataWarning
from fairbound.rows.groups import AND, MISSING, Groups, cross, label_text

Unknown = Literal["pooled", "raise"]


class UnknownGroupError(DataError):
    """Rows to decide belong to no group that the rule was fitted to."""


@dataclass(frozen=True)
class GroupRule:
    """A row is positive where its score is above its group's threshold.

    attributes: A names; labels: of each the known values. codes: (C, A) the groups, MISSING where the value is not
    known.
    thresholds, shares: for each group one threshold with share 1, or several, each used with the probability `shares`
    (ascending in what they select). pooled: the threshold of a row of no fitted group.
    """

    attributes: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    codes: np.ndarray
    thresholds: tuple[tuple[float, ...], ...]
    shares: tuple[tuple[float, ...], ...]
    pooled: float

    @property
    def randomised(self) -> bool:
        """Whether some group mixes thresholds."""
        return any(len(t) > 1 for t in self.thresholds)

    def name(self, group: int) -> str:
        """The group's values joined by " & "; "missing" where one is not known."""
        parts = [
            "missing" if code == MISSING else known[code]
            for code, known in zip(self.codes[group], self.labels, strict=True)
        ]
        return AND.join(parts) or "all rows"

    def groups_of(self, sensitive_features: Any, n: int, unknown: Unknown = "pooled") -> np.ndarray:
        """(n,) number of each row's group, -1 where it is none of the fitted ones.

        unknown: "pooled" warns of such rows, "raise" raises UnknownGroupError.
        Raises: DataError where sensitive features lack an attribute, or have another number of rows.
        """
        group = self._places(sensitive_features, n)
        gone = int((group < 0).sum())
        if gone and unknown == "raise":
            words = self._outside(gone, n)
            raise UnknownGroupError(f"{words}. Correct their groups, or decide with unknown='pooled'.")
        if gone:
            warnings.warn(self.said_of_outside(gone, n), DataWarning, stacklevel=3)
        return group

    def outside(self, sensitive_features: Any, n: int) -> int:
        """How many of n rows are of no fitted group. Raises: as `groups_of`."""
        return int((self._places(sensitive_features, n) < 0).sum())

    def said_of_outside(self, rows: int, n: int) -> str:
        """What is said of so many of n rows that are of no fitted group."""
        return f"{self._outside(rows, n)}; the threshold of all rows together decides them."

    def _outside(self, rows: int, n: int) -> str:
        named = " & ".join(self.attributes)
        return f"{rows:,} of {n:,} rows have a value of {named!r} that the thresholds were not fitted to"

    def _places(self, sensitive_features: Any, n: int) -> np.ndarray:
        """(n,) as of `groups_of`, of which nothing is said."""
        if not self.attributes:
            return np.zeros(n, dtype=np.int64)
        known = Groups(np.zeros((0, len(self.attributes)), dtype=np.int64), self.attributes, self.labels)
        found, unseen = known.encode_needed(sensitive_features, n, "decide")
        at = self._flat(np.where(unseen, [len(labels) for labels in self.labels], found.codes))
        place = np.minimum(np.searchsorted(self._sorted[0], at), len(self.codes) - 1)
        return np.where(self._sorted[0][place] == at, self._sorted[1][place], -1)

    def chances(self, scores: np.ndarray, group: np.ndarray) -> np.ndarray:
        """(n,) probability of a positive decision; 0 or 1 where the group has one threshold. group: of `groups_of`."""
        out = (scores > self.pooled).astype(np.float64)
        for c, (thresholds, shares) in enumerate(zip(self.thresholds, self.shares, strict=True)):
            rows = np.flatnonzero(group == c)
            above = scores[rows, None] > np.array(thresholds)
            out[rows] = np.where(above.all(1), 1.0, (above * np.array(shares)).sum(1))
        return out

    def margins(self, scores: np.ndarray, group: np.ndarray) -> np.ndarray:
        """(n,) score minus threshold, as `margins` has it. Of a rule that is not random."""
        return margins(scores, np.array([t[0] for t in self.thresholds] + [self.pooled])[group])

    def _flat(self, codes: np.ndarray) -> np.ndarray:
        """(n,) a number for each combination of codes (n, A), where the code after the last is of values never seen."""
        sizes = [len(known) + 2 for known in self.labels]
        return cross([codes[:, j] + 1 for j in range(len(sizes))], sizes)

    @cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        """The groups' flat codes in order, and whose each is."""
        flat = self._flat(self.codes)
        order = np.argsort(flat)
        return flat[order], order

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data; infinite thresholds as "inf" (nobody) and "-inf" (everybody)."""
        return {
            "attributes": list(self.attributes),
            "labels": [list(known) for known in self.labels],
            "codes": self.codes.tolist(),
            "thresholds": [[_plain(t) for t in part] for part in self.thresholds],
            "shares": [list(part) for part in self.shares],
            "pooled": _plain(self.pooled),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> GroupRule:
        """The rule that `to_dict` wrote. Raises: DataError where it is none."""
        try:
            made = cls(
                tuple(map(str, data["attributes"])),
                tuple(tuple(map(str, known)) for known in data["labels"]),
                np.array(data["codes"], dtype=np.int64).reshape(len(data["codes"]), len(data["attributes"])),
                tuple(tuple(map(float, part)) for part in data["thresholds"]),
                tuple(tuple(map(float, part)) for part in data["shares"]),
                float(data["pooled"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"the thresholds cannot be read ({error!r}). Save the model again.") from None
        sizes = {len(made.codes), len(made.thresholds), len(made.shares)}
        if len(sizes) > 1 or any(len(t) != len(s) for t, s in zip(made.thresholds, made.shares, strict=True)):
            raise DataError("the thresholds cannot be read: their groups differ in number. Save the model again.")
        return made


def margins(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """(n,) score minus threshold, a finite number above 0 where the score is above.

    Where the decision is always positive, log(1 + exp(score)), and where it never is, -log(1 + exp(-score)): they rise
    with the score and never change their sign.
    """
    always = np.maximum(np.logaddexp(0, scores), np.finfo(float).tiny)
    finite = np.where(np.isfinite(thresholds), thresholds, 0.0)
    fixed = np.where(thresholds < 0, always, -np.logaddexp(0, -scores))
    return np.where(np.isfinite(thresholds), np.nan_to_num(scores - finite), fixed)


def draws(seed: int, row_ids: Sequence[Any] | np.ndarray) -> np.ndarray:
    """(n,) numbers in [0, 1): a function of the seed and the text of each row's identifier alone; 1.0 is 1, as in groups."""
    ids = np.asarray(row_ids)
    texts = [label_text(row) for row in (ids.tolist() if ids.dtype.kind == "f" else ids)]
    keys = (hashlib.blake2b(f"{seed}/{row}".encode(), digest_size=8).digest() for row in texts)
    return np.array([int.from_bytes(key, "big") >> 11 for key in keys], dtype=np.float64) / 2**53


def _plain(threshold: float) -> float | str:
    return threshold if math.isfinite(threshold) else str(threshold)
