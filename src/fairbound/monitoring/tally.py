"""Decisions counted by groups, label and decision as they come, and what the counts were at earlier moments.

Beside the counts stand sums of losses, where bounds on mean losses are watched: they are all that limits of means need;
and the pairs of rows that areas need (`pairing`).

A row of weight w, where none weighs more than W, is counted with probability w / W, by a random stream of its own. The
rows counted are then independent draws from the population that the weights speak of, each with weight 1, so that all
that holds for counts holds for them (rejection sampling, von Neumann 1951). It costs evidence: of n rows n times the
mean of w / W are counted.

The rows of one call have no order: a file may be sorted by group, label or score. Where their order matters, at a
checkpoint within a call and for pairs of rows, they are shuffled by a stream of their own that does not look at them.
Independent draws stay independent draws so, and what was sorted becomes as if it had not been. Each checkpoint is
passed at its own number of rows, however many rows a call has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count, takewhile
from typing import Any, NamedTuple

import numpy as np

from fairbound.base.errors import DataError
from fairbound.base.seeds import seed_for
from fairbound.confidence.sequences import checkpoint_rows
from fairbound.fairness.predictions import finite_numbers
from fairbound.fairness.scored import Scored
from fairbound.monitoring.ids import Ids, hashed_ids
from fairbound.monitoring.pairing import AreaTally
from fairbound.rows.groups import MANY_VALUES, MISSING, Groups, columns_of, has_names, label_text, natural_order
from fairbound.rows.reading import column_values, is_missing
from fairbound.rows.scores import check_finite_scores

Key = tuple[Any, ...]
"""The group of each attribute (None where it is not known), and the numbers of the label and of the decision."""


Sums = dict[Key, tuple[float, ...]]


OTHER_LABELS = "Name other labels to the monitor, the negative one first: classes=['no', 'yes']."


class Moment(NamedTuple):
    """The counts at one moment: rows (u,) of each of u combinations, and the sums of their losses (u, L)."""

    each: np.ndarray
    losses: np.ndarray


class Rows(NamedTuple):
    """Rows of one call: their groups, label and decision as given, losses (n, L), and scores (n,), 0 where decisions are
    labels."""

    given: list[Key]
    losses: np.ndarray
    scores: np.ndarray

    def take(self, which: np.ndarray) -> Rows:
        """The rows of these numbers (k,), in this order."""
        return Rows([self.given[i] for i in which.tolist()], self.losses[which], self.scores[which])


@dataclass
class Tally:
    """How often each combination has occurred.

    largest: (L,) what a loss counts as at most, in each of the sums. largest_weight: None where rows have no weights.
    seed: of the streams by which rows are counted and shuffled. losses, losses_before: sums by combination, as counts. offered: rows,
    counted or not. areas: the pairs of rows. ids: of the rows offered, None where they have none. repeated: rows left
    out, since their id was known.
    classes: the labels that 0, 1, ... mean. attributes: their names, set by the first rows. counts: rows by
    combination. before: the counts when each checkpoint was passed, None for one that is not known. threshold: where
    decisions are given as scores.
    """

    classes: tuple[str, ...]
    threshold: float | None = None
    attributes: tuple[str, ...] | None = None
    counts: dict[Key, int] = field(default_factory=dict)
    before: list[dict[Key, int] | None] = field(default_factory=list)
    rows: int = 0
    largest: tuple[float, ...] = ()
    largest_weight: float | None = None
    seed: int = 0
    losses: Sums = field(default_factory=dict)
    losses_before: list[Sums | None] = field(default_factory=list)
    offered: int = 0
    areas: AreaTally = field(default_factory=AreaTally)
    ids: Ids | None = None
    repeated: int = 0

    def add(
        self,
        y_true: Any,
        y_pred: Any,
        sensitive_features: Any = None,
        losses: Any = None,
        sample_weight: Any = None,
        ids: Any = None,
    ) -> int:
        """Count some rows, or one; how many were counted. Raises: DataError where one cannot be used,
        and then counts none of them."""
        y, decided = _column("y_true", y_true), _column("y_pred", y_pred)
        scores = np.zeros(len(decided)) if self.threshold is None else _scores(decided)
        if self.threshold is not None:
            decided = (scores > self.threshold).astype(int).tolist()
        names, columns = self._columns(sensitive_features)
        lengths = {"y_true": len(y), "y_pred": len(decided)} | dict(zip(names, map(len, columns), strict=True))
        loss = self._losses(losses, len(y))
        weight = self._weights(sample_weight, len(y))
        lengths |= {"losses": len(loss)} if self.largest else {}
        hashes = self._hashes(ids)
        lengths |= {"sample_weight": len(weight)} | ({} if hashes is None else {"ids": len(hashes)})
        if len(set(lengths.values())) > 1:
            raise DataError(f"the columns differ in length: {lengths}.")
        rows = Rows(list(zip(*columns, y, decided, strict=True)), loss, scores)
        known = {key: self._key(key) for key in Counter(rows.given)}  # rows that are not counted are read all the same
        repeated = 0
        if hashes is not None:
            new = (Ids() if self.ids is None else self.ids).first(hashes)
            rows, weight, hashes, repeated = rows.take(np.flatnonzero(new)), weight[new], hashes[new], int((~new).sum())
        counted = self._counted(weight)
        rows = rows if counted is None else rows.take(np.flatnonzero(counted))
        pieces = [(piece, Counter(piece.given)) for piece in self._pieces(rows)]
        self._check_values(names, {known[key] for _, found in pieces for key in found})
        for piece, found in pieces:
            self._add_piece(names, piece, found, known)
        self.attributes = names
        self.offered += len(weight)
        if hashes is not None:
            self.ids, self.repeated = self.ids or Ids(), self.repeated + repeated
            self.ids.add(hashes)
        return len(rows.given)

    def _columns(self, sensitive_features: Any) -> tuple[tuple[str, ...], list[list[Any]]]:
        """The names of the sensitive features, and the values of each. Raises: DataError for others than before."""
        given = {} if sensitive_features is None else columns_of(_as_columns(sensitive_features))
        names = tuple(given) if self.attributes is None else self.attributes
        if len(names) == len(given) == 1 and not has_names(sensitive_features):
            given = {names[0]: next(iter(given.values()))}
        if set(names) != set(given):
            raise DataError(
                f"these rows have the sensitive features {sorted(given)}, the rows before {sorted(names)}. Give the same ones, "
                "or begin another monitor."
            )
        return names, [column_values(name, given[name]) for name in names]

    def _pieces(self, rows: Rows) -> list[Rows]:
        """The rows of a call in pieces that end at checkpoints, shuffled where their order matters."""
        end = self.rows + len(rows.given)
        inside = takewhile(lambda at: at < end, map(checkpoint_rows, count(len(self.before) + 1)))
        cuts = [at - self.rows for at in inside if at > self.rows]
        if not cuts and not self.areas.bounds:
            return [rows]
        stream = np.random.default_rng(seed_for("order of rows", self.offered, root=self.seed))
        return [rows.take(piece) for piece in np.split(stream.permutation(len(rows.given)), cuts)]

    def _add_piece(self, names: Sequence[str], rows: Rows, found: dict[Key, int], known: dict[Key, Key]) -> None:
        """Count rows in this order, of which none but the last reaches a checkpoint. found: how often each combination
        is given; known: what is counted for it."""
        if self.areas.bounds:
            self.areas.add(names, self.counts, self.before, [known[key] for key in rows.given], rows.scores)
        if self.largest:
            self._add_losses([known[key] for key in rows.given], rows.losses)
        for key, number in found.items():
            self.counts[known[key]] = self.counts.get(known[key], 0) + number
        self.rows += len(rows.given)
        self.pass_checkpoints()

    def _hashes(self, ids: Any) -> np.ndarray | None:
        """(n,) the hashes of ids. Raises: DataError where rows with ids and without would be mixed."""
        if ids is None and self.ids is not None:
            raise DataError("this monitor counts each id once; pass the id of every row as ids=.")
        if ids is not None and self.ids is None and self.offered:
            raise DataError(
                "the rows so far were counted without ids, so they cannot be told now; begin another monitor."
            )
        return None if ids is None else hashed_ids(ids)

    def _losses(self, given: Any, n: int) -> np.ndarray:
        """(n, L) the losses, each at most as large as it counts."""
        if not self.largest:
            return np.zeros((n, 0))
        if given is None:
            raise DataError("a bound on mean losses is watched; pass the loss of every row as losses=.")
        loss = finite_numbers("losses", [given] if np.ndim(given) == 0 else given)
        if (loss < 0).any():
            raise DataError(f"losses must be at least 0; {int((loss < 0).sum())} of {len(loss)} are not.")
        return np.minimum(loss[:, None], self.largest)

    def _weights(self, given: Any, n: int) -> np.ndarray:
        """(n,) the weights."""
        if self.largest_weight is None:
            if given is not None:
                raise DataError(
                    "these rows have weights; say the largest that a row can have, as Monitor(..., largest_weight=10)."
                )
            return np.broadcast_to(1.0, n)
        if given is None:
            raise DataError("this monitor counts weighted rows (largest_weight); pass sample_weight.")
        weight = finite_numbers("sample_weight", [given] if np.ndim(given) == 0 else given)
        bad = (weight < 0) | (weight > self.largest_weight)
        if bad.any():
            raise DataError(
                f"{int(bad.sum())} of {len(weight)} weights lie outside [0, {self.largest_weight:g}], which was stated as largest. Begin "
                "a new monitor with a larger one."
            )
        return weight

    def _counted(self, weight: np.ndarray) -> np.ndarray | None:
        """(n,) whether each row is counted, the same however rows are divided into calls; None for all."""
        if self.largest_weight is None:
            return None
        stream = np.random.PCG64(seed_for("monitor", root=self.seed))
        stream.advance(self.offered)
        return np.random.Generator(stream).random(len(weight)) * self.largest_weight < weight

    def _add_losses(self, keys: Sequence[Key], loss: np.ndarray) -> None:
        place: dict[Key, int] = {}
        of_rows = np.array([place.setdefault(key, len(place)) for key in keys], dtype=np.int64)
        sums = np.zeros((len(place), loss.shape[1]))
        np.add.at(sums, of_rows, loss)
        self.losses = _sums_of(self.losses, {key: tuple(sums[i].tolist()) for key, i in place.items()})

    def pass_checkpoints(self) -> None:
        """Remember the counts for every checkpoint that has been reached."""
        while self.rows >= checkpoint_rows(len(self.before) + 1):
            self.before.append(dict(self.counts))
            self.losses_before.append(dict(self.losses))
            self.areas.pass_checkpoint()

    def _key(self, raw: Key) -> Key:
        *groups, y, decision = raw
        return (
            *map(label_text, groups),
            self._place("y_true", y),
            decision if self.threshold is not None else self._place("y_pred", decision),
        )

    def _place(self, what: str, value: Any) -> int:
        if is_missing(value):
            raise DataError(f"{what} is missing in some rows; leave these rows out until it is known.")
        text = label_text(value)
        text = {"True": "1", "False": "0"}.get(str(text), text) if self.classes == ("0", "1") else text
        if text not in self.classes:
            known = " or ".join(map(repr, self.classes))
            score = ", or a score with threshold=..." if what == "y_pred" and len(self.classes) == 2 else ""
            raise DataError(f"{what} holds {value!r}; it must be {known}{score}. {OTHER_LABELS}")
        return self.classes.index(str(text))

    def _check_values(self, names: Sequence[str], found: Iterable[Key]) -> None:
        for a, name in enumerate(names):
            values = {key[a] for keys in (self.counts, found) for key in keys}
            if len(values) > MANY_VALUES:
                raise DataError(
                    f"the sensitive feature {name!r} has more than {MANY_VALUES} values; it looks like a number or an "
                    "identifier. Bin it first."
                )

    def scored(self) -> tuple[Scored, Moment, list[Moment | None]]:
        """The combinations as rows, each of which stands for its count, and the counts now and at each checkpoint."""
        names = self.attributes or ()
        keys = list(self.counts)
        labels = tuple(tuple(sorted({key[a] for key in keys} - {None}, key=natural_order)) for a in range(len(names)))
        places: list[dict[Any, int]] = [{g: i for i, g in enumerate(known)} | {None: MISSING} for known in labels]
        codes = np.array([[places[a][key[a]] for a in range(len(names))] for key in keys], dtype=np.int64)
        groups = Groups(codes.reshape(len(keys), len(names)), names, labels)
        target, decision = (np.array([key[i] for key in keys], dtype=np.int64) for i in (-2, -1))
        each = np.array([self.counts[key] for key in keys], dtype=np.int64)
        nothing = (0.0,) * len(self.largest)

        def moment(counts: dict[Key, int], sums: Sums) -> Moment:
            losses = np.array([sums.get(key, nothing) for key in keys]).reshape(len(keys), len(self.largest))
            return Moment(np.array([counts.get(key, 0) for key in keys], dtype=np.int64), losses)

        before = [
            None if counts is None or sums is None else moment(counts, sums)
            for counts, sums in zip(self.before, self.losses_before, strict=True)
        ]
        rows = Scored(target, decision, self.classes, groups=groups, each=each)
        return rows, moment(self.counts, self.losses), before

    def merge(self, other: Tally) -> Tally:
        """The counts of both; a checkpoint that only one of them has passed is not known of the two."""
        if self.rows and other.rows and self.attributes != other.attributes:
            raise DataError(f"counts of {self.attributes} and of {other.attributes} cannot be merged.")
        if self.offered and other.offered and (self.ids is None) != (other.ids is None):
            raise DataError(
                "one of the monitors counted rows by their ids and the other did not; they cannot be merged."
            )
        before = [
            None if a is None or b is None else _sum(a, b) for a, b in zip(self.before, other.before, strict=False)
        ]
        sums = [
            None if a is None or b is None else _sums_of(a, b)
            for a, b in zip(self.losses_before, other.losses_before, strict=False)
        ]
        lost = [None] * abs(len(self.before) - len(other.before))
        attributes = self.attributes if self.rows else other.attributes
        counts, rows = _sum(self.counts, other.counts), self.rows + other.rows
        made = Tally(self.classes, self.threshold, attributes, counts, [*before, *lost], rows, self.largest)
        made.losses, made.losses_before = _sums_of(self.losses, other.losses), [*sums, *lost]
        made.largest_weight, made.offered = self.largest_weight, self.offered + other.offered
        made.areas = self.areas.merge(other.areas, self.before, other.before)
        if self.ids is not None or other.ids is not None:
            made.ids, made.repeated = (self.ids or Ids()).joined(other.ids or Ids()), self.repeated + other.repeated
        made.seed = seed_for("merged", self.seed, other.seed)  # a stream that neither has used
        made.pass_checkpoints()
        return made


def _column(name: str, values: Any) -> list[Any]:
    return column_values(name, [values] if np.ndim(values) == 0 else values)


def _as_columns(features: Any) -> Any:
    """Sensitive features, where those of a single row may be a value, or a dict of values."""
    if isinstance(features, dict):
        return {name: [v] if np.ndim(v) == 0 else v for name, v in features.items()}
    return [features] if isinstance(features, str) or np.ndim(features) == 0 else features


def _scores(scores: list[Any]) -> np.ndarray:
    try:
        s = np.array(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("y_pred holds values that are no numbers; with threshold= they must be scores.") from None
    check_finite_scores(s)
    return s


def _sums_of(a: Sums, b: Sums) -> Sums:
    """Both sums of losses together."""
    out = dict(a)
    for key, more in b.items():
        out[key] = tuple(x + y for x, y in zip(out[key], more, strict=True)) if key in out else more
    return out


def _sum(a: dict[Key, int], b: dict[Key, int]) -> dict[Key, int]:
    return {key: a.get(key, 0) + b.get(key, 0) for key in dict.fromkeys([*a, *b])}
