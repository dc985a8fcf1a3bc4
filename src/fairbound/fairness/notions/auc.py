"""Bounds on differences of areas under ROC curves: who is ranked above whom, whatever the threshold.

    auc_parity[group]       |AUC(a, b) - 1/2|                          rows of group a above rows of group b
    auc_parity[inter]       |AUC(a+, b-) - AUC(b+, a-)|                positives above negatives of the other group
    auc_parity[intra]       |AUC(a+, a-) - AUC(b+, b-)|                positives above negatives of their own group
    auc_parity[positive]    |AUC(a+, b+) - 1/2|                        among positives; [negative] among negatives
    auc_parity[bpsn]        |AUC(+, a-) - AUC(+, b-)|                  all positives above the group's negatives
    auc_parity[bnsp]        |AUC(a+, -) - AUC(b+, -)|                  the group's positives above all negatives
    auc_parity[bpsn_bnsp]   |AUC(+, a-) - AUC(a+, -)|                  the two of one group

The largest over every two groups a, b; with `overall` b is everyone whose group is known, as in Borkan et al.'s average
equality gaps ([positive,overall], [negative,overall]).

Source: Yao, Lin, Yang (2023), Definition 2 and Appendix A; Beutel et al. (2019), Kallus, Zhou (2019), Borkan et al.
(2019).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from fairbound.base.checks import check_choice
from fairbound.base.errors import EmptyGroupError, OptionError
from fairbound.fairness.areas.compared import CONDITIONS, KINDS, Comparisons, comparisons
from fairbound.fairness.areas.judging import judge_areas, measured_areas
from fairbound.fairness.areas.pair_losses import Loss, PairLosses, Quadratic, Ramp, Sigmoid
from fairbound.fairness.bound import Bound
from fairbound.fairness.compiled.builder import Builder
from fairbound.fairness.compiled.statistics import LOSS
from fairbound.fairness.language import Key, Word, number_text, plain_number
from fairbound.fairness.notions.groups import GroupBound
from fairbound.fairness.notions.registry import constraint, register
from fairbound.fairness.scored import Finding, Scored
from fairbound.rows.occurring import Occurring

SURROGATES = ("sigmoid", "ramp", "quadratic")


def pair_loss(surrogate: str, sharpness: float, c1: float) -> Loss:
    """The loss of pairs of this name. Raises: OptionError for another name, or options out of range."""
    check_choice("surrogate", surrogate, SURROGATES)
    for option, value in (("sharpness", sharpness), ("c1", c1)):
        if not 0 < value < math.inf:
            raise OptionError(f"{option} must be positive and finite, got {value}.")
    if surrogate == "quadratic":
        return Quadratic(c1)
    return Sigmoid(sharpness) if surrogate == "sigmoid" else Ramp(sharpness)


@register()
@dataclass(frozen=True, kw_only=True)
class AUCParity(GroupBound):
    """Areas under ROC curves between sets of rows differ by at most `bound`.

    kind: which areas, see above. against: "pairwise" or "overall"; [bpsn_bnsp] looks at each group by itself either
    way.
    surrogate: what training puts in place of "is ranked below": "sigmoid" or "ramp" of the difference of two scores
    times `sharpness`, or "quadratic", c1 (difference - 1)^2.
    """

    kind: Literal["group", "inter", "intra", "positive", "negative", "bpsn", "bnsp", "bpsn_bnsp"]
    surrogate: Literal["sigmoid", "ramp", "quadratic"] = "sigmoid"
    sharpness: float = 1.0
    c1: float = 0.5

    name = "auc_parity"
    needs = frozenset({"groups", "two classes", "scores"})
    judged_from = "areas"
    clustered = True
    contrasts = measured_areas
    measures: ClassVar[str] = "a difference of areas"
    OPTIONS: ClassVar[Any] = {
        **{kind: Word("kind", kind) for kind in KINDS},
        **{key: option for key, option in GroupBound.OPTIONS.items() if key != "best"},
        "surrogate": Key("surrogate"),
        "sharpness": Key("sharpness", plain_number, number_text),
        "c1": Key("c1", plain_number, number_text),
    }

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        if self.against == "best":
            raise OptionError(
                "auc_parity compares groups pairwise, or each with everyone ('overall'), not with the best."
            )
        pair_loss(self.surrogate, self.sharpness, self.c1)
        super().__post_init__()

    def step_of(self, rows: int) -> float:
        return 0.0

    @property
    def with_everyone(self) -> bool:
        """Whether a group is compared with everyone, or with itself, rather than with another group."""
        return self.against == "overall" or self.kind == "bpsn_bnsp"

    def conditions(self) -> tuple[int | None, ...]:
        return CONDITIONS[self.kind]

    def differences(self, occurring: Occurring, empty: str | None = None) -> list[tuple[Comparisons, list[str]]]:
        """The areas compared, of each set of attributes, and the names of the groups left out.

        Raises: EmptyGroupError as `compared` does, and where no row has a label that an area needs.
        """
        out = []
        for compared, dropped in self.compared(occurring, empty):
            found = comparisons(compared, self.kind, self.against == "overall", self.fewest is not None)
            counts = np.concatenate([occurring.per_group(compared.attributes, y) for y in (0, 1)])
            if (found.sets[found.used] @ counts == 0).any():
                raise EmptyGroupError(
                    f"{self.text!r} needs rows of both labels whose group is known, and has none of one of them."
                )
            out.append((found, dropped))
        return out

    def compile(self, builder: Builder) -> None:
        loss = pair_loss(self.surrogate, self.sharpness, self.c1)
        for found, _ in self.differences(builder.occurring):
            builder.drop(found.compared)
            column = builder.cells_of(LOSS, found.compared, (0, 1))
            sets, sides = np.unique(found.sides, return_inverse=True)
            sides = sides.reshape(found.sides.shape)
            pairs = np.stack([sides[:, [1, 0]], sides[:, [2, 3]]], axis=1)
            made = builder.statistic(PairLosses(column.offset, found.sets[sets], pairs, loss, -1.0))
            builder.contrasts(made[:, None], [1.0], found.name)

    def measure(self, rows: Scored) -> float:
        return float(self.contrasts(rows).max())

    def judge(self, rows: Scored, alpha: float) -> Finding:
        return judge_areas(self, rows, alpha)


def area_bound(stated: str | Bound, taker: str, bound: float | None = None) -> AUCParity:
    """The bound on areas that is stated, for `taker`, which takes no other. bound: the number of a text that states
    none.

    Raises: OptionError for another notion.
    """
    found = constraint(stated, bound=bound)
    if not isinstance(found, AUCParity):
        raise OptionError(f"{taker} takes one auc_parity, such as 'auc_parity[group] <= 0.05'; got {found.text!r}.")
    return found
