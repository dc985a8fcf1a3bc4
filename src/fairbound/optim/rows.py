"""Rows as a loop of one's own hands them over: which groups there are, and which cells each row of a batch is in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbound.base.errors import DataError, OptionError
from fairbound.fairness.plan import Plan
from fairbound.optim.state import some
from fairbound.rows.groups import MISSING, Groups
from fairbound.rows.occurring import Occurring

LARGEST_CODE = 1 << 16


class CellTable:
    """Cells of rows by one look-up: (attribute codes, label) -> the plan's cells, tabulated from Plan.cells."""

    def __init__(self, plan: Plan, sizes: Sequence[int]):
        pieces, start = [], 0
        strides = np.zeros((len(sizes), len(plan.columns)), dtype=np.int64)
        offsets = np.zeros(len(plan.columns), dtype=np.int64)
        for j, column in enumerate(plan.columns):
            attributes = list(column.attributes or column.known)
            shape = [sizes[a] + 1 for a in attributes]
            codes = np.full((math.prod(shape), len(sizes)), MISSING, dtype=np.int64)
            codes[:, attributes] = np.indices(shape).reshape(len(shape), -1).T - 1
            pieces.append(np.stack([plan.cells(codes, np.full(len(codes), y))[:, j] for y in (0, 1)], axis=1).ravel())
            strides[attributes, j] = 2 * np.cumprod([1, *shape[:0:-1]])[::-1]
            offsets[j] = start + strides[:, j].sum()
            start += len(pieces[-1])
        self.table, self.strides = torch.as_tensor(np.concatenate(pieces)), torch.as_tensor(strides)
        self.offsets, self.limits = torch.as_tensor(offsets), tuple(sizes)

    def to(self, device: torch.device) -> None:
        self.table, self.strides = self.table.to(device), self.strides.to(device)
        self.offsets = self.offsets.to(device)

    def __call__(self, codes: Tensor, y: Tensor, groups: Groups) -> Tensor:
        """codes (B, A), y (B,) -> (B, C). Raises DataError for a label or a code outside of its range."""
        labels = y.long()
        low, high = torch.aminmax(codes, dim=0)
        ends = torch.cat([low, high, *(t.view(1) for t in torch.aminmax(labels))]).tolist()
        a = len(self.limits)
        if (
            min(ends[:a]) < MISSING
            or any(c >= size for c, size in zip(ends[a:-2], self.limits, strict=True))
            or ends[-2] < 0
            or ends[-1] > 1
            or (y.is_floating_point() and not torch.equal(labels.to(y.dtype), y))
        ):
            self._refuse(codes, y, groups)
        return self.table.take(
            codes * self.strides + (self.offsets + labels.unsqueeze(1))
            if a == 1
            else (codes.unsqueeze(-1) * self.strides).sum(1) + (self.offsets + labels.unsqueeze(1))
        )

    def _refuse(self, codes: Tensor, y: Tensor, groups: Groups) -> None:
        outside = (codes < MISSING) | (codes >= torch.tensor(self.limits, device=codes.device))
        if bool(outside.any()):
            row, a = outside.nonzero()[0].tolist()
            known = groups.labels[a]
            raise DataError(
                f"group code {int(codes[row, a])} of {groups.attributes[a]!r} in row {row} of the batch is "
                f"not in [-1, {len(known) - 1}]; known groups: {some(known)}. Get codes with "
                "Dual.encode(sensitive_features); -1 is missing."
            )
        row = int(((y != 0) & (y != 1)).nonzero()[0])
        raise DataError(f"targets must be 0 or 1, got {float(y[row]):g} in row {row} of the batch.")


def training_rows(groups: Any, targets: Any, names: Any) -> Occurring:
    """Which groups and labels the training rows have; without them every combination of the named groups and labels."""
    if names is not None and not isinstance(names, Mapping):
        names = {"group": names}
    labels = None if names is None else tuple(tuple(str(v) for v in column) for column in names.values())
    if groups is None:
        if not labels or not all(labels):
            raise OptionError(
                "Dual needs groups= and targets= of the training rows, or group_names= for streaming data."
            )
        if targets is not None:
            raise OptionError("targets= was given without groups=; give both, or group_names= alone.")
        return Occurring.every(tuple(names), labels)
    if targets is None:
        raise OptionError(
            "groups= was given without targets=; the labels of the same rows are needed to see which "
            "groups have positives and negatives."
        )
    made = _coded(groups, names, labels)
    y = np.asarray(targets.detach().cpu() if isinstance(targets, Tensor) else targets).reshape(-1)
    if len(y) != len(made):
        raise DataError(f"groups and targets differ in length: {len(made)} and {len(y)}.")
    if not np.isin(y, (0, 1)).all():
        raise DataError(f"targets must be 0 or 1, got {np.unique(y[~np.isin(y, (0, 1))])[:5].tolist()}.")
    return Occurring.of(made, y)


def _coded(groups: Any, names: Any, labels: tuple[tuple[str, ...], ...] | None) -> Groups:
    array = None
    if not isinstance(groups, (Groups, Mapping)) and not hasattr(groups, "columns"):
        array = np.asarray(groups.detach().cpu() if isinstance(groups, Tensor) else groups)
    if array is None or array.dtype.kind not in "iub":
        if labels is not None:
            raise OptionError(
                "group_names= labels integer codes, but groups= are not integers; their own values are the names."
            )
        return Groups.of(groups)
    codes = array.reshape(len(array), -1).astype(np.int64)
    if not codes.size or codes.min() < MISSING or codes.max() > LARGEST_CODE:
        found = f"values in [{codes.min()}, {codes.max()}]" if codes.size else "no rows"
        raise DataError(
            f"integer groups are codes from 0 to {LARGEST_CODE}, -1 missing, with at least one row; got "
            f"{found}. Number them with Groups.of first."
        )
    if labels is None:
        width = codes.shape[1]
        names = ["group"] if width == 1 else [f"group{a}" for a in range(width)]
        labels = tuple(tuple(map(str, range(int(codes[:, a].max()) + 1))) for a in range(width))
    if len(labels) != codes.shape[1] or any(len(known) <= codes[:, a].max() for a, known in enumerate(labels)):
        raise OptionError(
            f"group_names= has {[len(known) for known in labels]} labels by attribute, but the codes go "
            f"up to {codes.max(axis=0).tolist()}; each attribute needs a label per code."
        )
    return Groups(codes, tuple(names), labels)
