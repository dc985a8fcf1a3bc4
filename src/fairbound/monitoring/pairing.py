"""Areas under ROC curves of rows as they come, from pairs of rows each of which is used once.

An area AUC(G, G') is the mean over all pairs of a row of G and a row of G' of 1 where the first has the higher score,
1/2 where both are equal, and 0 else. Pairs that share rows are not independent, so no sequence of limits for means
holds for them. Here the k-th row of G is paired with the k-th row of G' in order of arrival, those of one call in a
shuffled one (`tally`), and neither is used again: the results are independent, lie in [0, 1] and have the area as their
mean, whatever the order of groups and labels. It costs evidence: of all pairs as many are used as the smaller set has
rows.

A comparison asks for one area or the difference of two, so it has two or four roles that a row can play. Where the sets
of two roles have rows in common, turns decide: the rows that can play any role are numbered as they come, and each turn
has roles whose sets are disjoint. What decides about a row's use is which sets it is in, never its score.

Source: the kernel of a U-statistic on disjoint blocks, Hoeffding (1963), JASA 58, 13-30, section 5; Yao, Lin, Yang
(2023), Definition 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from fairbound.fairness.areas.compared import sides
from fairbound.fairness.comparing import attribute_sets
from fairbound.fairness.notions.auc import AUCParity
from fairbound.rows.groups import natural_order

MOST_WAITING = 100
"""Rows of a role that wait for a partner; further ones are left out.
Where two sets grow alike this costs less than 1 % of the pairs."""

Group = tuple[str, ...]
EVERYONE = 2


class Who(NamedTuple):
    """A comparison: of which attributes (their numbers), and of which two groups;
    None for everyone whose group is known."""

    attributes: tuple[int, ...]
    one: Group
    two: Group | None


class Roles(NamedTuple):
    """areas: 1 or 2. of: (turns, 2 labels, 3) the role of a row by the turn, its label, and whether it is of the first
    group, the second or another one; -1 for none."""

    areas: int
    of: np.ndarray


@cache
def roles_of(kind: str, everyone: bool) -> Roles:
    """The roles of a comparison of two groups, or of a group with `everyone`."""
    found = sides(kind, np.array([0]), np.array([EVERYONE if everyone else 1]), EVERYONE)[:, 0].tolist()
    found = found[:2] if found[2] == found[3] else found  # an area of a set with itself is 1/2 for certain
    plays = np.zeros((len(found), 2, 3), dtype=bool)
    for role, number in enumerate(found):
        labels, who = divmod(number, 3)
        plays[role][{0: [1], 1: [0], 2: [0, 1]}[labels], :] = np.arange(3) == who if who < EVERYONE else True
    apart = ~np.any(plays[:, None] & plays[None], axis=(2, 3))
    left, turns = list(range(len(found))), []
    while left:
        turn = [left[0]]
        for role in [*left[1:], *range(len(found))]:
            if all(apart[role, other] for other in turn):
                turn.append(role)
        left = [role for role in left if role not in turn]
        turns.append(turn)
    of = np.full((len(turns), 2, 3), -1)
    for number, turn in enumerate(turns):
        for role in turn:
            of[number][plays[role]] = role
    return Roles(len(found) // 2, of)


@dataclass
class Pairing:
    """The wins and the pairs so far of each area of a comparison, and the scores that wait for each role, oldest first.
    seen: rows that can play a role. before: (wins, pairs) when each checkpoint was passed, None for one that is not
    known."""

    wins: list[float]
    pairs: list[int]
    waiting: list[list[float]]
    seen: int = 0
    before: list[tuple[list[float], list[int]] | None] = field(default_factory=list)

    @classmethod
    def begun(cls, areas: int, checkpoints: Iterable[Any]) -> Pairing:
        """Without a row, after `checkpoints`: None for each that is not known."""
        nothing = [None if b is None else ([0.0] * areas, [0] * areas) for b in checkpoints]
        return cls([0.0] * areas, [0] * areas, [[] for _ in range(2 * areas)], before=nothing)

    def add(self, roles: Roles, label: np.ndarray, who: np.ndarray, scores: np.ndarray) -> None:
        """Rows in order: labels (n,), 0, 1 or 2 for the group (n,), and scores (n,)."""
        able = (roles.of[:, label, who] >= 0).any(0)
        label, who, scores = label[able], who[able], scores[able]
        turn = (self.seen + np.arange(len(label))) % len(roles.of)
        self.seen += len(label)
        role = roles.of[turn, label, who]
        self.take([scores[role == r].tolist() for r in range(2 * roles.areas)])

    def take(self, scores: Sequence[Sequence[float]]) -> None:
        """Pair what waits, and then these scores of each role, in order."""
        for area in range(len(self.wins)):
            first, second = ([*self.waiting[r], *scores[r]] for r in (2 * area, 2 * area + 1))
            n = min(len(first), len(second))
            above = np.array(first[:n]) - np.array(second[:n])
            self.wins[area] += float((above > 0).sum() + (above == 0).sum() / 2)
            self.pairs[area] += n
            self.waiting[2 * area : 2 * area + 2] = [first[n:][:MOST_WAITING], second[n:][:MOST_WAITING]]

    def check(self, areas: int, checkpoints: int) -> None:
        """Raises: TypeError, ValueError where these are no pairs of so many areas after so many checkpoints."""
        sizes = [len(self.wins), len(self.pairs), len(self.waiting), len(self.before)]
        numbers = [*self.wins, *(s for role in self.waiting for s in role)]
        counts = [(self.wins, self.pairs), *(b for b in self.before if b is not None)]
        fits = sizes == [areas, areas, 2 * areas, checkpoints] and all(map(math.isfinite, numbers))
        fits = fits and all(type(n) is int and 0 <= n < 2**53 for n in (self.seen, *self.pairs))
        if not fits or not all(0 <= w <= n for wins, pairs in counts for w, n in zip(wins, pairs, strict=True)):
            raise ValueError("the pairs of rows do not fit together")

    def merge(self, other: Pairing) -> Pairing:
        """The pairs of both, and what waits of both."""
        shorter, longer = sorted((self.before, other.before), key=len)
        before = [
            None if a is None or b is None else ([*map(sum, zip(a[0], b[0]))], [*map(sum, zip(a[1], b[1]))])  # noqa: B905
            for a, b in zip(shorter, longer, strict=False)
        ]
        made = Pairing(
            [a + b for a, b in zip(self.wins, other.wins, strict=True)],
            [a + b for a, b in zip(self.pairs, other.pairs, strict=True)],
            [list(scores) for scores in self.waiting],
            self.seen + other.seen,
            [*before, *[None] * (len(longer) - len(shorter))],
        )
        made.take(other.waiting)
        return made


@dataclass
class AreaTally:
    """The pairings of every comparison of the bounds on areas: by the bound's text, then by who is compared."""

    bounds: tuple[AUCParity, ...] = ()
    pairings: dict[str, dict[Who, Pairing]] = field(default_factory=dict)

    def add(
        self,
        names: Sequence[str],
        before: Iterable[tuple[Any, ...]],
        checkpoints: Sequence[Any],
        keys: Sequence[tuple[Any, ...]],
        scores: np.ndarray,
    ) -> None:
        """Rows in order. names: of the attributes. before: the combinations counted already; checkpoints: those passed,
        None for one not known. keys: (n,) of each row its groups, its label and its decision; scores: (n,).

        Raises: OptionError where a bound names other attributes.
        """
        sets = [attribute_sets(bound.attributes, names, bound.text) for bound in self.bounds]
        place: dict[tuple[Any, ...], int] = {}
        of_rows = np.array([place.setdefault(key, len(place)) for key in keys], dtype=np.int64)
        label = np.array([key[-2] for key in place], dtype=np.int64)[of_rows]
        earlier = list(before)
        for bound, attributes in zip(self.bounds, sets, strict=True):
            everyone = bound.with_everyone
            mine, roles = self.pairings.setdefault(bound.text, {}), roles_of(bound.kind, everyone)
            for chosen in attributes:
                known = {_group(key, chosen) for key in earlier}
                of_keys = [_group(key, chosen) for key in place]
                groups = sorted(
                    {g for g in (*known, *of_keys) if g is not None}, key=lambda g: [*map(natural_order, g)]
                )
                number = {group: i for i, group in enumerate(groups)}
                group = np.array([-1 if g is None else number[g] for g in of_keys], dtype=np.int64)[of_rows]
                start = [0 if g in known else int(np.argmax(group == i)) for i, g in enumerate(groups)]
                for i, one in enumerate(groups):
                    for j in [i] if everyone else range(i + 1, len(groups)):
                        who = Who(chosen, one, None if everyone else groups[j])
                        pairing = mine.setdefault(who, Pairing.begun(roles.areas, checkpoints))
                        rows = np.flatnonzero(group >= 0)
                        rows = rows[rows >= max(start[i], start[j])]
                        side = np.where(group[rows] == i, 0, np.where(group[rows] == j, 1, EVERYONE))
                        pairing.add(roles, label[rows], side, scores[rows])

    def pass_checkpoint(self) -> None:
        """Remember the pairs now."""
        for pairing in self._all():
            pairing.before.append((list(pairing.wins), list(pairing.pairs)))

    def _all(self) -> Iterable[Pairing]:
        return (pairing for of_bound in self.pairings.values() for pairing in of_bound.values())

    def merge(self, other: AreaTally, mine: Sequence[Any], theirs: Sequence[Any]) -> AreaTally:
        """The pairs of both. mine, theirs: the checkpoints that each has passed."""
        made = AreaTally(self.bounds)
        for bound in self.bounds:
            a, b = self.pairings.get(bound.text, {}), other.pairings.get(bound.text, {})
            made.pairings[bound.text] = {
                who: a.get(who, Pairing.begun(_areas(bound), mine)).merge(
                    b.get(who, Pairing.begun(_areas(bound), theirs))
                )
                for who in dict.fromkeys([*a, *b])
            }
        return made

    def to_dict(self) -> dict[str, list[dict[str, Any]]]:
        """As plain data."""
        return {
            text: [{**who._asdict(), **asdict(pairing)} for who, pairing in of_bound.items()]
            for text, of_bound in self.pairings.items()
        }

    @classmethod
    def from_dict(
        cls, plain: dict[str, list[dict[str, Any]]], bounds: tuple[AUCParity, ...], checkpoints: int
    ) -> AreaTally:
        """The tally that `to_dict` wrote after so many checkpoints. Raises: KeyError, TypeError, ValueError for other
        data."""
        made = cls(bounds)
        for bound in bounds:
            mine = made.pairings[bound.text] = {}
            for entry in plain.get(bound.text, []):
                who = [None if entry[of] is None else tuple(entry[of]) for of in Who._fields]
                pairing = Pairing(**{name: v for name, v in entry.items() if name not in Who._fields})
                pairing.before = [None if b is None else (b[0], b[1]) for b in pairing.before]
                pairing.check(_areas(bound), checkpoints)
                mine[Who(*who)] = pairing  # type: ignore[arg-type]
        return made


def _areas(bound: AUCParity) -> int:
    return roles_of(bound.kind, bound.with_everyone).areas


def _group(key: tuple[Any, ...], attributes: tuple[int, ...]) -> Group | None:
    found = tuple(key[a] for a in attributes)
    return None if None in found else found
