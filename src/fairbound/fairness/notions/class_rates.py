"""Notions that compare groups by the rates of every class, for labels of two or more values.

Of two groups, the largest difference over all classes is bounded ("worst"); of recalls also the difference of their
means over the classes ("macro"), which is the difference of balanced accuracies.

Source: Denis, Elie, Hebiri, Hu (2024), Fairness guarantees in multi-class classification, for demographic parity of
every class; Putzel, Lee (2022), Blackbox post-processing for multiclass fairness, for equalised odds over the whole
table of labels and decisions.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from fairbound.base.checks import check_choice
from fairbound.base.errors import OptionError
from fairbound.fairness.comparing import Compared
from fairbound.fairness.compiled.builder import Builder
from fairbound.fairness.compiled.forms import Function
from fairbound.fairness.compiled.statistics import ClassShare, RowFunction
from fairbound.fairness.language import Word
from fairbound.fairness.notions.checks import SMOOTHING, check_smoothing
from fairbound.fairness.notions.groups import GroupBound
from fairbound.fairness.notions.registry import register
from fairbound.fairness.scored import Finding, Scored
from fairbound.fairness.verdicts.judging import judge_groups, measured_contrasts, measured_groups
from fairbound.fairness.verdicts.values import Values, share_values
from fairbound.rows.groups import label_text


@dataclass(frozen=True, kw_only=True)
class ClassRateBound(GroupBound):
    """Rates of every class, compared between groups. A notion below it says which by `rates`.

    surrogate: what training differentiates in place of the decision: "sigmoid" (the softmax probability), "hinge" or
    "clipped" (of the margin to the best other class). sharpness: multiplies the scores inside the surrogate.
    classes: the labels, filled in where the data are known.
    """

    surrogate: Literal["sigmoid", "hinge", "clipped"] = "sigmoid"
    sharpness: float = 1.0
    classes: tuple[str, ...] = field(default=(), repr=False, compare=False)

    needs = frozenset({"groups", "classes"})
    judged_from = "counts"
    contrasts = measured_contrasts
    clustered = True
    OPTIONS: ClassVar[Any] = {**GroupBound.OPTIONS, **SMOOTHING}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_smoothing(self, "sigmoid", "hinge", "clipped")

    def rates(self) -> list[tuple[int | None, int | None]]:
        """(predicted, label) of each value: the share predicted as class number `predicted` (None: as another class
        than their own) of the rows of class number `label` (None: of all rows)."""
        raise NotImplementedError

    def of_classes(self, classes: Any) -> Self:
        """The same bound on rows with these labels."""
        return replace(self, classes=tuple(str(label_text(c)) for c in classes))

    def class_rates(self, classes: Any) -> dict[str, tuple[int | None, int | None]]:
        own = self.of_classes(classes)
        named = zip(own.tails, own.rates(), strict=True)
        return {(f"recall{tail}" if of[0] is None else tail.removeprefix(", ")): of for tail, of in named}

    @property
    def decided(self) -> range:
        """The class numbers whose shares are compared: of two classes the second alone, the other's being its rest."""
        k = len(self.classes)
        return range(1, 2) if k == 2 else range(k)

    @property
    def tails(self) -> tuple[str, ...]:
        def said(predicted: int | None, label: int | None) -> str:
            which = "" if predicted is None else f", predicted {self.classes[predicted]}"
            return which + ("" if label is None else f" | y={self.classes[label]}")

        return tuple(said(*rate) for rate in self.rates())

    @property
    def higher_is_better(self) -> tuple[bool, ...]:
        return tuple(predicted is not None for predicted, _ in self.rates())

    def conditions(self) -> tuple[int | None, ...]:
        return tuple(label for _, label in self.rates())

    def row_words(self, condition: int | None) -> str:
        return "row" if condition is None else f"row of the class {self.classes[condition]!r}"

    # -- training -----------------------------------------------------------------------------------------------

    def compile(self, builder: Builder) -> None:
        largest = int(builder.occurring.targets.max(initial=1))
        classes = range(largest + 1) if builder.classes is None else builder.classes
        own = self.of_classes(classes)
        super(ClassRateBound, own).compile(builder)

    def quantities(self, builder: Builder, compared: Compared) -> np.ndarray:
        out, overall = [], self.against == "overall"
        for predicted, label in self.rates():
            conditions = tuple(dict.fromkeys(given for other, given in self.rates() if other == predicted))
            function = self._function(predicted)
            numbers = builder.numbers(compared, function, conditions, label, overall)
            out.append(numbers)
            if label is not None:
                said = f" | y={self.classes[label]}"
                names = dict(zip(numbers[:-1].tolist(), map(compared.name, range(len(compared))), strict=True))
                builder.name_cells({cell: name + said for cell, name in names.items()})
        return np.stack(out)

    def _function(self, predicted: int | None) -> Function:
        if predicted is None:
            return RowFunction(None, self.surrogate, self.sharpness, per_class=True)
        return ClassShare(predicted, self.surrogate, self.sharpness)

    def check_model(self, outputs: int, y: np.ndarray) -> None:
        self.check_class_scores(outputs, y)

    # -- measuring ----------------------------------------------------------------------------------------------

    def judge(self, rows: Scored, alpha: float) -> Finding:
        return judge_groups(self.of_classes(rows.classes), rows, alpha)

    def measure(self, rows: Scored) -> float:
        return measured_groups(self.of_classes(rows.classes), rows)

    def values(self, rows: Scored, compared: Compared) -> Values:
        group, made = compared.of_rows(rows.groups), []
        for predicted, label in self.rates():
            among = np.full(len(rows), True) if label is None else rows.target == label
            hit = rows.wrong if predicted is None else rows.predicted == predicted
            made.append(share_values(hit, among, rows, group, len(compared)))
        return Values.of_shares(made)


@register()
class ClassDemographicParity(ClassRateBound):
    """Shares of the groups predicted as each class differ by at most `bound`, for the worst class."""

    name = "class_demographic_parity"

    def rates(self) -> list[tuple[int | None, int | None]]:
        return [(c, None) for c in self.decided]


@register()
@dataclass(frozen=True, kw_only=True)
class ClassRecallParity(ClassRateBound):
    """Recalls of the groups differ by at most `bound`: for the worst class ("worst"), or on average over the classes
    ("macro": balanced accuracies differ by at most the bound)."""

    over_classes: Literal["worst", "macro"] = "worst"

    name = "class_recall_parity"
    measures_rest = True
    OPTIONS: ClassVar[Any] = {
        **ClassRateBound.OPTIONS, "worst": Word("over_classes", "worst"), "macro": Word("over_classes", "macro")
    }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("over_classes", self.over_classes, ("worst", "macro"))
        if self.against == "best" and self.averaged:
            raise OptionError(
                f"against='best' needs one best-off group for each class; {self.name}[macro] averages them."
            )

    @property
    def averaged(self) -> bool:
        return self.over_classes == "macro"

    def rates(self) -> list[tuple[int | None, int | None]]:
        return [(None, c) for c in range(len(self.classes))]


@register()
class ClassEqualizedOdds(ClassRateBound):
    """Among the rows of every label, shares of the groups predicted as each class differ by at most `bound`."""

    name = "class_equalized_odds"

    def rates(self) -> list[tuple[int | None, int | None]]:
        return [(c, label) for c in self.decided for label in range(len(self.classes))]


@register()
class ClassErrorParity(ClassRateBound):
    """Shares of the groups predicted as another class than their own differ by at most `bound`."""

    name = "class_error_parity"

    def rates(self) -> list[tuple[int | None, int | None]]:
        return [(None, None)]
