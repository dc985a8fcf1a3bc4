"""What can be minimised in place of the mean loss over all rows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairbound.base.errors import EmptyGroupError, OptionError
from fairbound.fairness.builder import Builder
from fairbound.fairness.notions.losses import GroupLoss
from fairbound.fairness.statistics import LOSS
from fairbound.rows.groups import label_text


@dataclass(frozen=True)
class ClassLoss:
    """The mean loss of the rows of one class, as in Neyman-Pearson classification. class_: its label."""

    class_: Any
    needs = frozenset[str]()

    @property
    def text(self) -> str:
        return f"loss of class {label_text(self.class_)}"

    def compile_objective(self, builder: Builder) -> None:
        code = builder.class_number(self.class_)
        if not builder.occurring.of_label(code):
            raise EmptyGroupError(f"objective_class={self.class_!r}: no row has this label.")
        column = builder.cells(LOSS, (), (code,), lambda: [f"class {label_text(self.class_)}"], ())
        builder.minimise([column.offset], [1.0])


@dataclass(frozen=True)
class LargestGroupLoss:
    """The largest mean loss of a group (minimax group fairness). attributes: as in bounds between groups.

    Source: Martinez, Bertran, Sapiro (2020); Diana, Gill, Kearns, Kenthapadi, Roth (2021).
    Departs: a subgradient of the largest group's loss in place of multiplicative weights.
    """

    attributes: str | tuple[str, ...] = "each"
    needs = frozenset({"groups"})

    @property
    def text(self) -> str:
        return GroupLoss(bound=0.0, attributes=self.attributes).statement.replace("group_loss", "largest_group_loss")  # type: ignore[arg-type]

    def compile_objective(self, builder: Builder) -> None:
        stated = GroupLoss(bound=0.0, attributes=self.attributes, empty="drop")  # type: ignore[arg-type]
        numbers: list[int] = []
        for compared, _ in stated.compared(builder.occurring):
            numbers += stated.quantities(builder, compared)[0, :-1].tolist()
        builder.minimise(numbers, np.ones(len(numbers)).tolist(), "max")


def objective_of(stated: Any) -> Any:
    """The objective that is stated: None or "loss" for the mean loss, "largest_group_loss", with options as in bounds, or
    an object. Raises: OptionError for anything else."""
    if stated is None or stated == "loss":
        return None
    if not isinstance(stated, str):
        return stated
    if not re.fullmatch(r"\s*largest_group_loss\s*(\[[^\[\]]*\])?\s*", stated):
        raise OptionError(
            f"unknown objective {stated!r}; known: 'loss', 'largest_group_loss', and the latter with [crossed] or [by=...]."
        )
    read = GroupLoss.read(stated.strip().replace("largest_", "", 1), bound=0.0)
    if read != GroupLoss(bound=0.0, attributes=read.attributes):  # type: ignore[arg-type]
        raise OptionError(f"the objective {stated!r} takes no other option than each, crossed or by=....")
    return LargestGroupLoss(read.attributes)
