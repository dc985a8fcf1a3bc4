"""Reads a batch of a training loop as rows with one key each, a number for the row's groups and label."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbound.base.errors import DataError, DataWarning, FairboundError, OptionError
from fairbound.base.names import shortlist
from fairbound.fairness.class_numbers import how_to_pass, said_of
from fairbound.fairness.compiled.plan import Plan
from fairbound.fairness.pointwise import LOSSES, Pointwise, loss_named
from fairbound.optim.rows import OF_DUAL
from fairbound.optim.state import PADDED, TRAINED, not_finite
from fairbound.rows.groups import MISSING, Groups
from fairbound.rows.occurring import Occurring

MOST_KEYS = 1 << 22
UNSTEPPED = 200  # losses without a step after which a loop is asked about it
A_PASS, SEVERAL = 0.9, 8  # or as many, if several, as take this share of the training rows, where no step has come yet

Joined = tuple[Tensor, Tensor, np.ndarray, np.ndarray | None, tuple[tuple[int, ...], ...]]
"""Rows of several batches on the CPU: scores (N,) or (N, k), labels (N,) of their dtype, cells (columns, N), weights
(2, N) or None, those of the rows and of the rows that the loop gave, which may stand here in two parts; and of each
batch how many steps after the first it came, the rows that the loop gave, and the rows that stand here."""


@dataclass
class Batch:
    """B rows: scores (B,) or (B, k) in float32 at least, labels y (B,) of their dtype, keys (B,), weight (B,) or None.

    places: (B,) in a table of weights. rows: that the loop gave; a row with a soft label stands here twice.
    """

    scores: Tensor
    y: Tensor
    keys: Tensor
    places: Tensor
    weight: Tensor | None
    rows: int


class Keys:
    """One number for the groups and the label of a row, and the plan's cells of each number (`table`, on the CPU).

    With one attribute the key is code * classes + label, where a code of -1 (missing) counts from the end of the table,
    as in Python; with several they are joined to one code first. by_code: whether the code of one attribute says what a
    row weighs, whatever its label: then the code is the place in tables of weights, else the key.
    """

    def __init__(self, plan: Plan, groups: Groups, classes: int, outputs: int):
        self.groups, self.classes, self.outputs = groups, classes, outputs
        self.sizes = tuple(len(names) for names in groups.labels)
        shape = [size + 1 for size in self.sizes]
        self.n = math.prod(shape) * classes
        if self.n > MOST_KEYS:
            raise OptionError(
                f"the attributes have {self.n // classes:,} combinations, more than Dual tabulates ({MOST_KEYS // classes:,}). Give "
                "fewer attributes, or one crossed one."
            )
        codes = np.indices(shape).reshape(len(shape), -1).T if shape else np.zeros((1, 0), dtype=np.int64)
        codes = np.where(codes == np.array(self.sizes, dtype=np.int64), MISSING, codes)  # the last of each is missing
        repeated, labels = np.repeat(codes, classes, axis=0), np.tile(np.arange(classes), len(codes))
        self.table = torch.as_tensor(plan.cells(repeated, labels)).long()
        table = self.table.numpy()
        self.by_code = len(shape) == 1 and bool((table[::classes].repeat(classes, 0) == table).all())
        self._cells = table.T.copy()
        table = table[::classes] if self.by_code else table
        self._cells_of_codes = np.roll(table.T, -MISSING, 1).copy()
        self.columns_of = [table[:, [j for j, c in enumerate(plan.columns) if c.function == f]] for f in plan.functions]
        strides = np.cumprod([1, *shape[:0:-1]])[::-1].copy() if shape else np.zeros(0, dtype=np.int64)
        self.strides, self.ends = torch.as_tensor(strides * classes), torch.tensor(shape)

    @property
    def kept_shape(self) -> tuple[int, ...]:
        """The shape of what is kept of a row."""
        return () if self.outputs == 1 else (self.outputs,)

    def kept(self, batch: Batch) -> Tensor:
        """(B, *kept_shape) what is kept of each row beside its key: a copy, as the loop may write over its scores."""
        return batch.scores.detach().clone()

    def apart(self, kept: Tensor, keys: np.ndarray) -> tuple[Tensor, Tensor]:
        """Scores and labels of rows that were kept, on the CPU."""
        return kept, self.labels(keys).to(kept.dtype)

    def to(self, device: torch.device) -> None:
        """Make keys on this device from now on."""
        self.strides, self.ends = self.strides.to(device), self.ends.to(device)

    def weights(self, function: int, by_cell: np.ndarray) -> np.ndarray:
        """(places,) the weight of a row's number `function` of the plan: the sum of the weights (K + 1,) of its cells,
        the last of which is none."""
        columns = self.columns_of[function]
        return by_cell.take(columns[:, 0]) if columns.shape[1] == 1 else np.add.reduce(by_cell[columns], 1)

    def labels(self, keys: np.ndarray) -> Tensor:
        """(N,) float32 labels of rows by their keys."""
        return torch.from_numpy(keys % self.classes).float()

    def read(self, scores: Tensor, targets: Any, group: Any, weight: Any, soft: bool, careful: bool) -> Batch:
        """The batch. careful: whether targets are compared with whole numbers too; their range is looked at always.

        Raises: OptionError for shapes, DataError for labels, codes and weights that cannot be.
        """
        s = self._scores(scores)
        rows, labels = s.shape[0], on_device(s.device, targets, "targets must be numbers, one for each row of scores.")
        labels = labels if labels.dim() == 1 else labels.reshape(-1)
        w = None if weight is None else self._weight(weight, s)
        s = s if w is None else without_padding(s, w)
        if soft and labels.is_floating_point():
            return self._soft(s, labels, self._codes(group, s), w)
        if labels.is_complex():
            raise OptionError(f"targets must be real numbers, got {labels.dtype}.")
        whole = labels if labels.dtype == torch.int64 else labels.long()
        codes = self._codes(group, s)
        if labels.shape[0] != rows:
            raise OptionError(f"targets must be ({rows},), one for each row of scores, got {tuple(labels.shape)}.")
        low, high = torch.aminmax(whole)
        if (
            low.item() < 0
            or high.item() >= self.classes
            or (careful and labels.dtype != torch.int64 and not torch.equal(whole.to(labels.dtype), labels))
        ):
            self._refuse_labels(labels)
        y = labels if labels.dtype == s.dtype else labels.to(s.dtype)
        return self._batch(s, y, codes, whole, w, rows)

    def _batch(self, s: Tensor, y: Tensor, codes: Tensor | None, labels: Tensor, w: Tensor | None, rows: int) -> Batch:
        keys = self._keys(codes, labels)
        return Batch(s, y, keys, codes.long() if self.by_code and codes is not None else keys, w, rows)

    def cells(self, keys: np.ndarray) -> np.ndarray:
        """(columns, N) the plan's cells of rows."""
        return self._cells.take(keys, 1, mode="wrap")

    def cells_by_code(self, labels: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """(columns, N) the same of rows of one attribute and labels 0 and 1.
        Raises: DataError for labels and codes that cannot be."""
        from_missing = codes - MISSING
        unknown = np.count_nonzero(from_missing.view(np.uint64) > self.sizes[0])
        if unknown or np.count_nonzero(labels * labels != labels):
            self.read(torch.zeros(len(labels)), torch.tensor(labels), torch.tensor(codes), None, False, True)
        return self._cells_of_codes.take(from_missing, 1)

    def _scores(self, scores: Tensor) -> Tensor:
        if scores.dim() and not len(scores):
            raise OptionError("the batch has no rows; leave it out.")
        if self.outputs == 1 and scores.dim() == 2 and scores.shape[1] == 1:
            scores = scores.squeeze(1)
        fits = scores.dim() == 1 if self.outputs == 1 else scores.dim() == 2 and scores.shape[1] == self.outputs
        if not fits or not scores.is_floating_point() or scores.is_sparse:
            asked = (
                "(B,) or (B, 1), one real score per row" if self.outputs == 1
                else f"(B, {self.outputs}), one real score per class"
            )  # fmt: skip
            more = " For several classes give Dual classes=." if self.outputs == 1 and scores.dim() == 2 else ""
            if not scores.dim() and self.outputs == 1:
                more = " squeeze() makes this of a batch of one row: use squeeze(1)."
            raise OptionError(f"scores must be floating {asked}, got {scores.dtype} {tuple(scores.shape)}.{more}")
        return scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores

    def _codes(self, group: Any, s: Tensor) -> Tensor | None:
        """(B,) of one attribute, (B, A) of several, None of none."""
        attributes = len(self.sizes)
        if group is None and not attributes:
            return None
        if group is None:
            raise OptionError("pass group=, the codes that dual.encode(...) gave, of the rows of the batch.")
        codes = on_device(s.device, group, "group must hold integer codes, as dual.encode(sensitive_features) gives.")
        if attributes == 1 and codes.dim() == 2 and codes.shape[1] == 1:
            codes = codes.squeeze(1)
        if codes.dim() and len(codes) != len(s):
            raise OptionError(f"scores have {len(s)} rows and group has {len(codes)}; give both of the same batch.")
        wanted = s.shape[:1] if attributes == 1 else (s.shape[0], attributes)
        if codes.shape != wanted or codes.is_floating_point() or codes.is_complex() or not attributes:
            raise OptionError(
                f"group must be integer codes ({len(s)}, {attributes}), one column for each of {self.groups.attributes}, got "
                f"{codes.dtype} {tuple(codes.shape)}."
            )
        return codes

    def _keys(self, codes: Tensor | None, labels: Tensor) -> Tensor:
        if codes is None:
            return labels.clone()
        if codes.dim() == 1:
            low, high = torch.aminmax(codes)
            if low.item() < MISSING or high.item() >= self.sizes[0]:
                self._refuse_codes(codes.unsqueeze(1))
            return torch.add(labels, codes, alpha=self.classes)
        if bool(((codes < MISSING) | (codes >= self.ends - 1)).any()):
            self._refuse_codes(codes)
        return (torch.remainder(codes, self.ends) * self.strides).sum(1) + labels

    def _weight(self, weight: Any, s: Tensor) -> Tensor:
        w = on_device(s.device, weight, f"weight must be ({len(s)},), one number for each row of scores.").reshape(-1)
        w = w.to(s.dtype) if not w.is_complex() else w[:0]
        if len(w) != len(s):
            raise OptionError(f"weight must be ({len(s)},), one for each row of scores, got {tuple(w.shape)}.")
        if not bool((torch.isfinite(w) & (w >= 0)).all()):
            raise DataError("weight must be finite and not negative.")
        return w.clone()

    def _soft(self, s: Tensor, p: Tensor, codes: Tensor | None, w: Tensor | None) -> Batch:
        """A row of label p in [0, 1] is two rows, of label 1 with p of its weight and of label 0 with the rest."""
        if self.classes != 2 or len(p) != len(s) or not bool(((p >= 0) & (p <= 1)).all()):
            raise DataError(f"soft targets must be ({len(s)},) in [0, 1], of two classes.")
        share = torch.cat([p, 1 - p]).to(s.dtype) * (1.0 if w is None else w.repeat(2))
        labels = torch.cat([torch.ones_like(p), torch.zeros_like(p)]).long()
        repeated = None if codes is None else torch.cat([codes, codes])
        twice = torch.cat([s, s])
        return self._batch(twice, labels.to(s.dtype), repeated, labels, share, len(s))

    def _refuse_codes(self, codes: Tensor) -> None:
        outside = (codes < MISSING) | (codes >= torch.tensor(self.sizes, device=codes.device))
        row, a = outside.nonzero()[0].tolist()
        known = self.groups.labels[a]
        raise DataError(
            f"group code {int(codes[row, a])} of {self.groups.attributes[a]!r} in row {row} of the batch is "
            f"not in [-1, {len(known) - 1}]; known groups: {shortlist(known)}. Get codes with "
            "Dual.encode(sensitive_features); -1 is missing."
        )

    def _refuse_labels(self, y: Tensor) -> None:
        fine = (y == y.round()) & (y >= 0) & (y < self.classes)
        row = int((~fine).nonzero()[0])
        value = float(y[row])
        hint = how_to_pass([value], self.classes, OF_DUAL)
        raise DataError(f"targets must be {said_of(self.classes)}, got {value:g} in row {row} of the batch.{hint}")


def without_padding(s: Tensor, w: Tensor) -> Tensor:
    """The scores (B,) or (B, k), those of weight 0 as 0, where nothing is differentiated: a gradient that passes a NaN
    is NaN, whatever the row weighs."""
    if torch.is_grad_enabled() and s.requires_grad:
        return s
    return s.masked_fill((w == 0) if s.dim() == 1 else (w == 0).unsqueeze(1), 0.0)


def on_device(device: torch.device, value: Any, needed: str) -> Tensor:
    """The value as a tensor there. Raises: OptionError, which says what is needed."""
    if isinstance(value, Tensor) and value.device == device:
        return value
    try:
        return torch.as_tensor(value, device=device)
    except (TypeError, ValueError, RuntimeError):
        raise OptionError(needed) from None


def device_named(device: Any) -> torch.device:
    """The device. Raises: OptionError where there is none of that name, or where it holds no numbers."""
    try:
        found = torch.device(device)
    except (TypeError, RuntimeError):
        raise OptionError(f"no device {device!r}; torch knows names such as 'cpu' and 'cuda:0'.") from None
    if found.type == "meta":
        raise OptionError("the meta device holds no numbers; give scores of a model that has run on another device.")
    return found


def without_number(value: Tensor, batch: Batch, loss: Pointwise) -> Tensor | None:
    """(B,) whether a score or the loss of each row is NaN or infinite; None where it is so of none.
    value: () of all rows together, finite only if every loss is."""
    s = batch.scores.detach()
    total = value.item() if loss is LOSSES["logistic"] else float(value.detach() + 0 * s.sum())
    if total - total == 0.0:
        return None
    finite = torch.isfinite(s) if s.dim() == 1 else torch.isfinite(s).all(1)
    bad = ~(finite & torch.isfinite(loss.value(s, batch.y))).detach()
    return bad if bool(bad.any()) else None


def refuse_rows(bad: Tensor, batch: Batch, plan: Plan, keys: Keys, number: int, hint: str = "") -> None:
    """Raises: NonFiniteError of the bad rows (B,) of the batch of this number; it names their groups and constraints,
    and says what to do."""
    cells = keys.table[batch.keys[bad].cpu()].flatten().tolist()
    padded = batch.weight is not None and not bool(batch.weight[bad].any())
    raise not_finite(int(bad.sum()), len(bad), number, *plan.touched(cells), hint or (PADDED if padded else TRAINED))


def check_step(state: Mapping[str, Any], world: int) -> None:
    """Raises: FairboundError where no batch has come since the last step. state: of a Dual; world: of how many processes."""
    if world == 1 and state["calls"] == state["calls_at_step"]:
        raise FairboundError(
            "Dual.step() was called without a batch since the last step(); call loss(scores, "
            "targets, group) or observe(...) in every step."
        )


def warned_of_no_step(state: Mapping[str, Any], rows: int, trained: Occurring) -> bool:
    """Whether a loop was warned, as it has asked for many losses since the last step, or for several on about as many rows
    as the training rows before the first. state: of a Dual; rows: seen so far; trained: labels of the training rows, once
    each of a stream. Warns: DataWarning."""
    asked = state["calls"] - state["calls_at_step"]
    a_pass = not state["k"] and rows >= A_PASS * trained.rows and bool((trained.counts > 1).any())
    if told := asked >= UNSTEPPED or (a_pass and asked >= SEVERAL):
        since = "since the last" if state["k"] else "and no"
        warnings.warn(
            f"{asked} losses were asked for {since} dual.step(), which moves the multipliers: until then the bounds do "
            "not follow the model. Call it after every optimizer.step(), not once per epoch. Where one step does gather so "
            "many batches, this is as it should be; for batches of a validation say observe=False.",
            DataWarning,
            stacklevel=3,
        )
    return told


def no_loss(scores: Tensor) -> Tensor:
    """() 0, with a gradient of 0 in every leaf (parameter) behind the scores. It goes to the leaves at once, past what
    lies between: NaN times 0 would be NaN there."""
    value = scores.new_zeros((), requires_grad=True)
    nodes, seen = [scores.view_as(scores).grad_fn], set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if type(node).__name__ == "AccumulateGrad":
            value = value + node.variable.flatten()[:0].sum().to(value)  # type: ignore[attr-defined]
        nodes += [before for before, _ in node.next_functions]
    return value


def loss_of_rows(loss: Any, outputs: int, soft_targets: bool) -> Pointwise:
    """The loss called `loss`, for models with `outputs` scores per row.
    Raises: OptionError where it takes another number."""
    found = loss_named("cross_entropy" if loss == "logistic" and outputs > 1 else loss, outputs)
    if found.per_class != (outputs > 1):
        raise OptionError(
            f"the loss {found.name!r} takes {'a score for every class' if outputs == 1 else 'one score per row'}; "
            f"{'give classes= too' if outputs == 1 else 'leave classes= out'}."
        )
    if soft_targets and outputs > 1:
        raise OptionError("soft_targets are shares of the label 1; leave classes= out.")
    return found


def class_names(classes: int | Sequence[Any] | None) -> tuple[Any, ...]:
    """The labels of the class numbers: 0 and 1 for None, 0 to k - 1 for a number k. Raises: OptionError."""
    if classes is None:
        return (0, 1)
    names = tuple(range(classes)) if isinstance(classes, int) else tuple(classes)
    if len(names) < 2 or len(set(map(str, names))) < len(names):
        raise OptionError(f"classes must be two or more different labels, or their number; got {classes!r}.")
    return names
