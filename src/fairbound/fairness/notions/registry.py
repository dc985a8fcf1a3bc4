"""The registry of notions by name, and `constraint`, which turns text into a bound."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from fairbound.base.errors import OptionError
from fairbound.base.names import did_you_mean
from fairbound.base.own import own_module
from fairbound.fairness.bound import Bound
from fairbound.fairness.language import leading_name

NOTIONS: dict[str, type[Bound]] = {}

SHORT = {"dp": "demographic_parity", "eo": "equalized_odds", "eop": "equal_opportunity", "tpr": "true_positive_rate", "fpr": "false_positive_rate",
         "fnr": "false_negative_rate", "recall": "true_positive_rate", "gap": "parity", "diff": "parity", "difference": "parity",
         "disparate": "demographic", "impact": "parity_ratio"}  # fmt: skip
"""What others call notions, or parts of their names: spelled out where a name is unknown,
to find the one that was meant."""

ELSEWHERE = {
    "selection_rate": "demographic_parity", "positive_rate": "demographic_parity", "mean": "demographic_parity, prediction_parity",
    "independence": "demographic_parity", "true_positive_rate": "true_positive_rate_parity",
    "sensitivity": "true_positive_rate_parity", "false_positive_rate": "false_positive_rate_parity",
    "true_negative_rate": "false_positive_rate_parity", "specificity": "false_positive_rate_parity",
    "false_negative_rate": "false_negative_rate_parity", "false_omission_rate": "false_omission_rate_parity",
    "false_discovery_rate": "predictive_parity", "precision": "predictive_parity",
    "positive_predictive_value": "predictive_parity", "error": "error_rate_parity", "error_rate": "error_rate_parity",
    "zero_one_loss": "error_rate_parity", "accuracy": "error_rate_parity", "f1": "f1_parity", "roc_auc": "auc_parity",
    "bounded_group_loss": "group_loss", "separation": "equalized_odds", "average_odds": "equalized_odds",
    "average_abs_odds": "equalized_odds", "average_absolute_odds": "equalized_odds", "sufficiency": "predictive_parity",
    "statistical_parity_ratio": "demographic_parity_ratio",
    "selection_rate_ratio": "demographic_parity_ratio", "impact_ratio": "demographic_parity_ratio",
    "four_fifths": "demographic_parity_ratio", "four_fifths_rule": "demographic_parity_ratio",
    "p_percent_rule": "demographic_parity_ratio", "equal_opportunity_ratio": "true_positive_rate_ratio",
    "equalized_odds_ratio": "true_positive_rate_ratio, false_positive_rate_ratio",
}  # fmt: skip
"""What fairlearn, AIF360 and textbooks call notions, or the rates that they compare, without the words "difference" and
"parity" at the end; names of several notions stand side by side."""

_OWN = re.compile(r"^\s*([A-Za-z_][\w.]*):(?=[A-Za-z_])(.*)$", re.DOTALL)

B = TypeVar("B", bound=type[Bound])


def register(*other_names: str) -> Callable[[B], B]:
    """A class decorator that makes a notion known to `constraint`, by its `name` and by other ones."""

    def known(notion: B) -> B:
        for name in (notion.name, *other_names):
            taken = NOTIONS.get(name)
            if taken is not None and taken.__qualname__ != notion.__qualname__:
                raise OptionError(f"the name {name!r} is taken by {taken.__qualname__}; give the notion another one.")
            NOTIONS[name] = notion
        return notion

    return known


OF_A_CLASS = " A least recall is stated of a class, as in 'recall of class b >= 0.95'."


def constraint(text: str | Bound, *, bound: float | None = None) -> Any:
    """The bound stated by `text`, as in "demographic_parity <= 0.02" or "equalized_odds[sum,crossed] <= 0.05".

    Inside the brackets, separated by commas, what the notion's OPTIONS list: pairwise | overall | best; each | crossed
    | by=ATTRIBUTE+ATTRIBUTE; max | sum; y=1 | y=0 | y=both (losses); surrogate=..., sharpness=..., empty=..., fewest=...
    Of one class: "recall of class b >= 0.95" or "recall[b] >= 0.95"; "error of class b <= 0.05" or "error[b] <= 0.05".
    A notion of your own comes after its module, which is imported: "my_notions:npv_parity <= 0.05".
    bound: the number, for a text that states none.
    Raises: OptionError naming what was not understood.
    """
    if isinstance(text, Bound):
        return text
    own = _OWN.match(text) if isinstance(text, str) else None
    if own:
        own_module(own[1])
        text = own[2]
    name = leading_name(text)
    if name not in NOTIONS:
        meant = _meant(name)
        where = f" The module {own[1]!r} registers no such notion." if own else (
            OF_A_CLASS * (">=" in text or "≥" in text) +
            " One of your own is named after its module, as 'module:notion', or its module imported first."
        )  # fmt: skip
        raise OptionError(f"unknown constraint {name!r}{meant} All {len(NOTIONS)} stand in docs/bounds.md.{where}")
    return NOTIONS[name].read(text, bound=bound)


def _meant(name: str) -> str:
    """A question for the notion that may be meant by an unknown name, "." where none is like it."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()  # fairlearn's classes join capitals
    spelled = "_".join(SHORT.get(part, part) for part in words.split("_")).replace("parity_parity", "parity")
    alone = spelled.removesuffix("_parity").removesuffix("_score")
    known = next((ELSEWHERE.get(one, one) for one in (spelled, alone) if one in ELSEWHERE or one in NOTIONS), None)
    if known is not None:
        return f"; did you mean {' or '.join(map(repr, known.split(', ')))}?"
    return did_you_mean(spelled, NOTIONS, before="; ", otherwise=".", most=3, alike=0.4)


def constraints(stated: str | Bound | Sequence[str | Bound] | None) -> tuple[Any, ...]:
    """One or several bounds as objects. Raises: OptionError for one that is stated twice,
    which would halve the error of each verdict."""
    if stated is None:
        return ()
    several = [stated] if isinstance(stated, (str, Bound)) else stated
    if not isinstance(several, Sequence | set | frozenset):
        raise OptionError(
            f"bounds are texts such as 'demographic_parity <= 0.05', or objects, one or a list of them; got a {type(several).__name__}."
        )
    bounds = tuple(constraint(s) for s in several)
    for place, bound in enumerate(bounds):
        if bound in bounds[:place]:
            raise OptionError(f"the constraint {bound.text!r} is stated twice; state it once.")
    return bounds
