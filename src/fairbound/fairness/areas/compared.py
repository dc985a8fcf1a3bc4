"""Which areas under ROC curves a bound compares: sets of groups and labels, under the names of the literature.

A row is in a cell, label * G + group, of 2 G. Of k groups compared, there are 3 (k + 1) sets of cells: positives,
negatives and all rows of each group, and of everyone whose group is known. A comparison is four sets, AUC(first,
second) - AUC(third, fourth).

Source: Yao, Lin, Yang (2023), Appendix A; Beutel et al. (2019), Kallus, Zhou (2019), Borkan et al. (2019) for the
names.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairbound.fairness.comparing import Compared

KINDS = ("group", "inter", "intra", "positive", "negative", "bpsn", "bnsp", "bpsn_bnsp")

CONDITIONS: dict[str, tuple[int | None, ...]] = {
    "group": (None,), "inter": (1, 0), "intra": (1, 0), "positive": (1,), "negative": (0,),
    "bpsn": (0,), "bnsp": (1,), "bpsn_bnsp": (1, 0),
}  # fmt: skip
"""The labels of the rows that each group must have."""


@dataclass(frozen=True)
class Comparisons:
    """m differences of areas. sets: (S, 2 G) bool, which cells each set has. sides: (m, 4) sets, AUC(first, second) -
    AUC(third, fourth). a, b: (m / 2,) groups; the differences come in pairs of opposite sign."""

    compared: Compared
    sets: np.ndarray
    sides: np.ndarray
    a: np.ndarray
    b: np.ndarray
    kind: str

    def __len__(self) -> int:
        return len(self.sides)

    def name(self, i: int) -> str:
        """What the i-th difference compares."""
        pair, turned = divmod(i, 2)
        if self.kind == "bpsn_bnsp":
            return f"{'BNSP - BPSN' if turned else 'BPSN - BNSP'} of {self.compared.name(int(self.a[pair]))}"
        one, two = self.compared.name(int(self.a[pair])), self.compared.name(int(self.b[pair]))
        one, two = (two, one) if turned else (one, two)
        return {
            "group": f"{one} above {two}",
            "inter": f"{one} above {two}, crosswise",
            "positive": f"{one} above {two} | y=1",
            "negative": f"{one} above {two} | y=0",
        }.get(self.kind, f"{one} - {two}")

    @property
    def used(self) -> np.ndarray:
        """Numbers of the sets that are compared, in order."""
        return np.unique(self.sides)


def comparisons(compared: Compared, kind: str, overall: bool, apart: bool = False) -> Comparisons:
    """Every two groups, or each group and everyone (`overall`), in both directions. apart: whether groups left out are
    not among everyone."""
    k, cells = len(compared), int(np.prod(compared.sizes))
    group = np.zeros((k + 1, cells), dtype=bool)
    group[np.arange(k), compared.codes] = True
    group[k] = True
    if apart:
        group[k, list(compared.left)] = False
    none = np.zeros_like(group)
    sets = np.concatenate([np.hstack([none, group]), np.hstack([group, none]), np.hstack([group, group])])
    a, b = compared.pairs("overall" if overall or kind == "bpsn_bnsp" else "pairwise")
    one, two = sides(kind, a, b, k), sides(kind, b, a, k)
    if kind == "bpsn_bnsp":
        two = one[[2, 3, 0, 1]]
    return Comparisons(compared, sets, np.stack([one, two], axis=1).transpose(2, 1, 0).reshape(-1, 4), a, b, kind)


def sides(kind: str, own: np.ndarray, other: np.ndarray, k: int) -> np.ndarray:
    """(4, p) sets of the comparison of the groups `own` with the groups `other`, k for everyone."""
    everyone = np.full_like(own, k)
    negatives, both = k + 1, 2 * (k + 1)  # of group g the positives are set g, then come the negatives and all rows
    half = (both + everyone, both + everyone)
    return np.stack(
        {
            "group": (both + own, both + other, *half),
            "inter": (own, negatives + other, other, negatives + own),
            "intra": (own, negatives + own, other, negatives + other),
            "positive": (own, other, *half),
            "negative": (negatives + own, negatives + other, *half),
            "bpsn": (everyone, negatives + own, everyone, negatives + other),
            "bnsp": (own, negatives + everyone, other, negatives + everyone),
            "bpsn_bnsp": (everyone, negatives + own, own, negatives + everyone),
        }[kind]
    )
