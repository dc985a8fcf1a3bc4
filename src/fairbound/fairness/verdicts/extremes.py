"""How large and how small the contrasts of two models may be in truth, in draws of the weights of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairbound.confidence.rates import Transform
from fairbound.fairness.comparing import Compared, ValueContrasts
from fairbound.fairness.scored import Scored
from fairbound.fairness.verdicts.judging import compared_values
from fairbound.fairness.verdicts.values import Values, quotient


@dataclass(frozen=True)
class Extremes:
    """What the m contrasts of a bound may be in truth in D draws, at most and at least, of each of two models.

    made: the contrasts of each set of compared values. ends: (2, 2, D, v) of each set its values, in the order most and
    least, then model."""

    bound: Any
    made: list[ValueContrasts]
    ends: list[np.ndarray]

    @classmethod
    def joined(cls, parts: Sequence[Extremes]) -> Extremes:
        """The draws of all the parts, which are of one bound on the same rows."""
        first = parts[0]
        ends = [np.concatenate(same, axis=2) for same in zip(*(part.ends for part in parts), strict=True)]
        return cls(first.bound, first.made, ends)

    def of(self, model: int, some: np.ndarray) -> np.ndarray:
        """(2, D, p) the contrasts of one model numbered `some` (p,), ascending, at most and at least."""
        out, before = [], 0
        for made, ends in zip(self.made, self.ends, strict=True):
            own = some[(some >= before) & (some < before + len(made.index))] - before
            before += len(made.index)
            c, (high, low) = made.coefficient[own], ends[:, model][..., made.index[own]]
            most, least = np.where(c > 0, high, low), np.where(c > 0, low, high)
            out.append(np.stack([compared_values(self.bound, end, c) for end in (most, least)]))
        return np.concatenate(out, axis=-1)


def extremes_of_draws(
    bound: Any, both: Sequence[Scored], masses: np.ndarray, square: np.ndarray, rng: np.random.Generator
) -> Extremes:
    """What the contrasts of a bound are in D draws, at most and at least, of each of two models.

    In a draw the n rows weigh masses (D, n) > 0, and one more row of every group weighs at random. Its values make the
    contrasts largest (of ratios the quotients least), then smallest: behind shares they are 1 and 0, behind means the
    largest of the group's rows in one model, and in the other so much less as it is less in any of them.

    both: the same rows in the same order. square: (n,) sums of the squares of their weights, from which that of one
    more row follows. rng: of its exponential law; the row has one weight in both models.
    """
    found = bound.compared(both[0].occurring, "drop" if bound.leaves_out else "partly")
    weight, sets, ends = both[0].mass[1], [], []
    for compared, _ in found:
        made = bound.value_contrasts(compared)
        if not len(made.index):
            continue
        drawn = [_means_of_draws(bound, rows, compared, masses) for rows in both]
        group, k = compared.of_rows(both[0].groups), len(compared)
        sums = [np.bincount(group[group >= 0], part[group >= 0], k) for part in (square, weight)]
        more = rng.standard_exponential((*drawn[0][0].shape[:2], k + 1))
        more *= np.divide(*(np.append(part, part.sum()) for part in sums))
        values = [bound.values(rows, compared) for rows in both]
        each = zip(drawn, values, _most_and_least(values), strict=True)
        sets.append(made)
        ends.append(np.stack([_ends(*one, of.transform, more, own) for one, of, own in each], axis=1))
    return Extremes(bound, sets, ends)


def _ends(
    means: np.ndarray, totals: np.ndarray, transform: Transform | None, more: np.ndarray, values: tuple[Any, Any]
) -> np.ndarray:
    """(2, D, v) the values of one model, at most and at least; more: (R, D, k + 1) the weight of one more row,
    values: its most and least, (R, 1, k + 1) or numbers. transform: of the values of groups, of which none is compared with
    that of all rows."""
    sums, totals = (np.concatenate([part, part.sum(-1, keepdims=True)], -1) for part in (means * totals, totals))
    each = [(sums + more * one) / (totals + more) for one in values]
    if transform is not None:
        each = [np.concatenate([transform(end[..., :-1]), end[..., -1:]], -1) for end in each]
    return np.stack([np.moveaxis(end, 1, 0).reshape(more.shape[1], -1) for end in each])


def _means_of_draws(bound: Any, rows: Scored, compared: Compared, masses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(R, D, k) the shares or means behind the values in every draw, and the weights behind these."""
    drawn = replace(rows.take(np.tile(np.arange(len(rows)), len(masses))), weight=masses.ravel(), each=None)
    of = bound.values(drawn, compared.repeated(len(masses)))
    means = quotient(of.successes, of.trials) if of.means is None else np.where(of.trials > 0, of.means, 0.0)
    shape = (-1, len(masses), len(compared))
    return means.reshape(shape), of.totals.reshape(shape)


def _most_and_least(both: Sequence[Values]) -> list[tuple[Any, Any]]:
    """Of each of two models the values of one more row in every group and among all, (R, 1, k + 1), as of
    `extremes_of_draws`."""
    if both[0].losses is None or both[0].cells is None:
        return [(1.0, 0.0)] * 2
    shape, cells = both[0].trials.shape, both[0].cells
    some = cells >= 0
    rows = [v.losses[some] for v in both if v.losses is not None]

    def largest(numbers: np.ndarray) -> np.ndarray:
        out = np.full(shape, -np.inf)
        np.maximum.at(out.reshape(-1), cells[some], numbers)
        return np.concatenate([out, out.max(1, keepdims=True)], 1)[:, None]

    most = [largest(part) for part in rows]
    return [(most[i], most[1 - i] - largest(rows[1 - i] - rows[i])) for i in range(2)]
