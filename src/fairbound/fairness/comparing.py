"""Who is compared with whom: the groups of some attributes that occur, and the contrasts between their values.

Of R values (one for each rate, or each label) of k groups, unit r * (k + 1) + g is value r of group g, and g = k is the
value of all rows whose group is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Literal

import numpy as np

from fairbound.base.errors import OptionError
from fairbound.rows.groups import AND, Groups, cross, said_labels
from fairbound.rows.occurring import Occurring

Against = Literal["pairwise", "overall", "best", "none"]


def attribute_sets(
    attributes: str | tuple[str, ...], names: Sequence[str], text: str, given: str | None = None
) -> list[tuple[int, ...]]:
    """Numbers of the attributes that are compared together: each by itself, all crossed, both, or those named.

    given: an attribute within whose groups the others are compared; it comes first in every set.
    Raises: OptionError where the data lack one of them.
    """
    wanted = [] if isinstance(attributes, str) else list(attributes)
    unknown = [a for a in [*wanted, *([] if given is None else [given])] if a not in names]
    if unknown:
        raise OptionError(
            f"{text!r} names {', '.join(map(repr, unknown))}, which {'is' if len(unknown) == 1 else 'are'} not among the "
            f"sensitive features: {', '.join(map(repr, names))}. Pass it with them (--group), or correct the name."
        )
    others = [a for a, name in enumerate(names) if name != given]
    first = () if given is None else (list(names).index(given),)
    if given is not None and (given in wanted or not others):
        raise OptionError(f"{text!r} needs an attribute to compare within the groups of {given!r}; add another one.")
    if attributes in ("each", "both"):
        alone = [(*first, a) for a in others]
        return [*alone, (*first, *others)] if attributes == "both" and len(others) > 1 else alone
    chosen = tuple(others) if attributes == "crossed" else tuple(list(names).index(a) for a in wanted)
    return [(*first, *chosen)]


@dataclass(frozen=True)
class Compared:
    """The groups of one set of attributes. said: their labels as names have them. codes: (k,) their codes in the
    crossing of the attributes, in order; within: number of attributes, from the first on,
    inside whose groups alone the others are compared. left: codes of the groups that were left out."""

    attributes: tuple[int, ...]
    sizes: tuple[int, ...]
    labels: tuple[tuple[str, ...], ...]
    said: tuple[tuple[str, ...], ...]
    codes: np.ndarray
    within: int = 0
    left: tuple[int, ...] = ()

    @classmethod
    def of(cls, occurring: Occurring, attributes: tuple[int, ...], within: int = 0) -> Compared:
        """The groups of these attributes that occur."""
        codes = np.flatnonzero(occurring.per_group(attributes))
        every = said_labels(occurring.attributes, occurring.labels, crossed=len(attributes) > 1)
        labels, said = (tuple(of[a] for a in attributes) for of in (occurring.labels, every))
        return cls(attributes, occurring.sizes(attributes), labels, said, codes, within)

    def keep(self, kept: np.ndarray) -> Compared:
        """These groups without those where kept (k,) is False."""
        return replace(self, codes=self.codes[kept], left=(*self.left, *self.codes[~kept].tolist()))

    def repeated(self, times: int) -> Repeated:
        """These groups in each of so many sets of rows."""
        return Repeated(**{field.name: getattr(self, field.name) for field in fields(Compared)} | {"times": times})

    def __len__(self) -> int:
        return len(self.codes)

    def name(self, group: int) -> str:
        """Name of the group-th group, its labels in the order of the data's attributes; "overall" for k."""
        return "overall" if group == len(self) else self._named(int(self.codes[group]), self.said)

    def left_names(self) -> list[str]:
        """Names of the groups that were left out, in the order of their codes."""
        return [self._named(code, self.said) for code in self.left]

    def plain_name(self, group: int) -> str:
        """Its labels alone, without their attributes."""
        return self._named(int(self.codes[group]), self.labels)

    def all_names(self) -> list[str]:
        """Names of all groups of the crossing, whether they occur or not, in the order of their codes."""
        return [self._named(code, self.said) for code in range(math.prod(self.sizes))]

    def _named(self, code: int, labels: tuple[tuple[str, ...], ...]) -> str:
        parts = {}
        for a, size, known in zip(reversed(self.attributes), reversed(self.sizes), reversed(labels), strict=True):
            code, place = divmod(code, size)
            parts[a] = known[place]
        return AND.join(parts[a] for a in sorted(parts))

    def of_rows(self, groups: Groups) -> np.ndarray:
        """(n,) the group of each row, -1 where it is in none of these."""
        code = cross([groups.codes[:, a] for a in self.attributes], self.sizes)
        place = np.full(int(np.prod(self.sizes)), -1, dtype=np.int64)
        place[self.codes] = np.arange(len(self.codes))
        return np.where(code >= 0, place[np.maximum(code, 0)], -1)

    @cached_property
    def stratum(self) -> np.ndarray:
        """(k,) the group of the attributes within which each group is compared."""
        return self.codes // int(np.prod(self.sizes[self.within :]))

    def pairs(self, against: Against) -> tuple[np.ndarray, np.ndarray]:
        """(p,), (p,): group a and what it is compared with: every later group, or k for all rows."""
        k = len(self)
        if against == "overall":
            return np.arange(k), np.full(k, k)
        a, b = np.triu_indices(k, 1)
        if self.within:
            inside = self.stratum[a] == self.stratum[b]
            a, b = a[inside], b[inside]
        return a, b


@dataclass(frozen=True)
class Repeated(Compared):
    """The groups of each of several sets of rows, one after another, each of which has the same groups: times * k."""

    times: int = 1

    def __len__(self) -> int:
        return self.times * len(self.codes)

    def of_rows(self, groups: Groups) -> np.ndarray:
        """(times * n,) the group of each row, -1 where it is in none of these."""
        group, k = super().of_rows(groups), len(self.codes)
        first = np.repeat(np.arange(self.times) * k, len(group) // self.times)
        return np.where(group >= 0, group + first, -1)


@dataclass(frozen=True)
class ValueContrasts:
    """m contrasts of values of groups: index (m, t) units, coefficient (m, t), and what the i-th compares in words."""

    index: np.ndarray
    coefficient: np.ndarray
    name: Callable[[int], str]

    def take(self, rows: np.ndarray) -> ValueContrasts:
        """The contrasts numbered `rows` (k,)."""
        return ValueContrasts(self.index[rows], self.coefficient[rows], lambda i: self.name(int(rows[i])))

    def turned(self) -> ValueContrasts:
        """The same contrasts, both directions of every comparison next to each other, each named as the other one."""
        return ValueContrasts(self.index, self.coefficient, lambda i: self.name(i ^ 1))


def singles(compared: Compared, tails: tuple[str, ...]) -> ValueContrasts:
    """Every value of every group by itself, one value after another. tails: what is said after a name,
    for each value."""
    k = len(compared)
    index = np.arange(len(tails))[:, None] * (k + 1) + np.arange(k)
    return ValueContrasts(
        index.reshape(-1, 1), np.ones((index.size, 1)), lambda i: compared.name(i % k) + tails[i // k]
    )


def differences(
    compared: Compared,
    against: Against,
    tails: tuple[str, ...],
    *,
    summed: bool = False,
    averaged: bool = False,
    ratio: float | None = None,
) -> ValueContrasts:
    """Both directions of every comparison of every value; `summed` joins the two values of a pair under one bound, and
    `averaged` compares the mean of all values of a group.

    ratio: each value must be at least this share of the one it is compared with: ratio * q_b - q_a <= 0.
    """
    a, b = compared.pairs(against)
    k, values = len(compared), len(tails)
    start = np.arange(values) * (k + 1)
    one, two = a[:, None] + start, b[:, None] + start  # (p, R)
    if summed:
        index = np.stack([one[:, 0], two[:, 0], one[:, 1], two[:, 1]], axis=1)
        signs = np.array([[s, -s, t, -t] for s in (1.0, -1.0) for t in (1.0, -1.0)])
        index = np.repeat(index, 4, axis=0)
        return ValueContrasts(index, np.tile(signs, (len(a), 1)), partial(_name_of_sum, compared, a, b, tails))
    if averaged:
        index = np.stack([np.hstack([one, two]), np.hstack([two, one])], axis=1).reshape(-1, 2 * values)
        share = np.repeat([1.0, -1.0], values) / values
        name = partial(_name, compared, a, b, (", mean",), "-")
        return ValueContrasts(index, np.broadcast_to(share, index.shape), name)
    if ratio is not None:  # the first of each pair of rows speaks of a / b, as its name does
        index = np.stack([np.stack([two, one], -1), np.stack([one, two], -1)], axis=2).reshape(-1, 2)
        coefficient = np.broadcast_to(np.array([ratio, -1.0]), index.shape)
        return ValueContrasts(index, coefficient, partial(_name, compared, a, b, tails, "/"))
    index = np.stack([np.stack([one, two], -1), np.stack([two, one], -1)], axis=2).reshape(-1, 2)
    coefficient = np.broadcast_to(np.array([1.0, -1.0]), index.shape)
    return ValueContrasts(index, coefficient, partial(_name, compared, a, b, tails, "-"))


def _name(compared: Compared, a: np.ndarray, b: np.ndarray, tails: tuple[str, ...], sign: str, i: int) -> str:
    """What the i-th contrast compares: the groups of a pair, for each value in both directions."""
    i, side = divmod(i, 2)
    i, r = divmod(i, len(tails))
    one, two = compared.name(int(a[i])), compared.name(int(b[i]))
    one, two = (two, one) if side else (one, two)
    return f"{one} {sign} {two}{tails[r]}"


def _name_of_sum(compared: Compared, a: np.ndarray, b: np.ndarray, tails: tuple[str, ...], i: int) -> str:
    """What the i-th sum of two differences compares: the groups of a pair, in four patterns of signs."""
    i, pattern = divmod(i, 4)
    s, t = ("", "-")[pattern // 2], ("", "-")[pattern % 2]
    return f"{s}({compared.name(int(a[i]))} - {compared.name(int(b[i]))}){tails[0]}, {t}(same){tails[1]}"
