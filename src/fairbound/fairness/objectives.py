"""What can be minimised in place of the mean loss over all rows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fairbound.base.errors import EmptyGroupError, OptionError
from fairbound.fairness.areas.pair_losses import PairLosses
from fairbound.fairness.compiled.builder import Builder
from fairbound.fairness.compiled.statistics import LOSS, RATES, RowFunction, row_table
from fairbound.fairness.language import option_texts, read_options
from fairbound.fairness.notions.auc import AUCParity, pair_loss
from fairbound.fairness.notions.losses import GroupLoss
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
            raise EmptyGroupError(f"the objective is the {self.text}, and no row has this label.")
        column = builder.cells(LOSS, (), (code,), lambda: [f"class {label_text(self.class_)}"], ())
        builder.minimise([column.offset], [1.0])


@dataclass(frozen=True)
class ClassLosses:
    """A weighted sum of the mean losses of the classes. coefficients: one >= 0 for each class number."""

    coefficients: tuple[float, ...]
    needs = frozenset[str]()

    @property
    def text(self) -> str:
        return "loss with class weights"

    def row_weights(self, mass: np.ndarray) -> np.ndarray:
        """(k,) what a row of each class counts, with mean 1 over all rows; 0 for a class without rows.

        mass: (k,) float64, the total weight of the rows of each class.
        """
        return np.divide(self.coefficients, mass / mass.sum(), out=np.zeros(len(mass)), where=mass > 0)

    def compile_objective(self, builder: Builder) -> None:
        used = tuple(code for code, c in enumerate(self.coefficients) if c > 0)
        column = builder.cells(LOSS, (), used, lambda: ["all rows"], ())
        builder.minimise([column.offset + i for i in range(len(used))], [self.coefficients[code] for code in used])


@dataclass(frozen=True)
class Accuracy:
    """The share of wrong decisions, with a share of the mean loss that keeps scores in order and probabilities in
    scale.

    share: of the error rate in the sum, in [0, 1]; the rest is the mean loss's. In training the error is smoothed like
    the rates of bounds.
    Source: Nguyen and Sanner (2013), Algorithms for direct 0-1 loss optimization, for a smoothed 0-1 loss reached from
    a convex start. Departs: the loss stays in the sum.
    """

    share: float = 0.9
    needs = frozenset[str]()

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise OptionError(f"the error rate's share in the objective must lie in [0, 1], got {self.share!r}.")

    @property
    def text(self) -> str:
        return "accuracy"

    @property
    def coefficients(self) -> tuple[float, float]:
        """The weights of the mean loss and of the error rate."""
        return 1 - self.share, self.share

    def compile_objective(self, builder: Builder) -> None:
        wrong = RowFunction(row_table(RATES["error_rate"]))
        columns = [builder.cells(of, (), (None,), lambda: ["all rows"], ()) for of in (LOSS, wrong)]
        builder.minimise([column.offset for column in columns], self.coefficients)


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


@dataclass(frozen=True)
class AUCLoss:
    """One minus the area under the ROC curve of all rows; surrogate, sharpness, c1: as in `auc_parity`.

    It says who is ranked above whom, not where positive begins: decisions need a threshold of their own.

    Source: Yao, Lin, Yang (2023), (3); Ying, Wen, Lyu (2016) for the quadratic loss.
    """

    surrogate: str = "sigmoid"
    sharpness: float = 1.0
    c1: float = 0.5
    name: ClassVar[str] = "auc"
    needs = frozenset[str]()
    OPTIONS: ClassVar[Any] = {key: AUCParity.OPTIONS[key] for key in ("surrogate", "sharpness", "c1")}

    def __post_init__(self) -> None:
        pair_loss(self.surrogate, self.sharpness, self.c1)

    @property
    def text(self) -> str:
        options = option_texts(self, self.OPTIONS)
        return f"auc[{','.join(options)}]" if options else "auc"

    def compile_objective(self, builder: Builder) -> None:
        if not builder.occurring.of_label(1) or not builder.occurring.of_label(0):
            raise EmptyGroupError(
                f"objective={self.text!r} ranks rows of label 1 above rows of label 0, and one is missing."
            )
        if not np.isin(builder.occurring.targets, (0, 1)).all():
            raise OptionError(f"objective={self.text!r} needs two classes, one of them positive.")
        column = builder.cells(LOSS, (), (0, 1), lambda: [""], ())
        loss = pair_loss(self.surrogate, self.sharpness, self.c1)
        pairs = np.array([[[1, 0]]])
        builder.minimise(
            builder.statistic(PairLosses(column.offset, np.eye(2, dtype=bool), pairs, loss)).tolist(), [1.0]
        )


def objective_of(stated: Any) -> Any:
    """The objective that is stated: None or "loss" for the mean loss, "accuracy", "auc" or "largest_group_loss", the
    last two with options as in bounds, or an object. Raises: OptionError for anything else."""
    if stated is None or stated in ("loss", "auto"):
        return None
    if stated == "accuracy":
        return Accuracy()
    if hasattr(stated, "compile_objective"):
        return stated
    if not isinstance(stated, str):
        raise OptionError(
            f"an objective is a text such as 'loss' or 'accuracy', or an object that compiles itself; got {stated!r}."
        )
    if re.fullmatch(r"\s*auc\s*(\[[^\[\]]*\])?\s*", stated):
        inside = stated.strip()[3:].strip().strip("[]")
        return AUCLoss(**read_options(AUCLoss, inside, stated))
    if not re.fullmatch(r"\s*largest_group_loss\s*(\[[^\[\]]*\])?\s*", stated):
        raise OptionError(
            f"unknown objective {stated!r}; known: 'loss', 'accuracy', 'auc' (with [surrogate=...]), and 'largest_group_loss' (with "
            "[crossed] or [by=...])."
        )
    read = GroupLoss.read(stated.strip().replace("largest_", "", 1), bound=0.0)
    if read != GroupLoss(bound=0.0, attributes=read.attributes):  # type: ignore[arg-type]
        raise OptionError(f"the objective {stated!r} takes no other option than each, crossed or by=....")
    return LargestGroupLoss(read.attributes)
