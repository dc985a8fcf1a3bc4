"""A bound on the error of one class: at least so much of class b must be recognised, or at most so much of it missed.

    ClassRisk(class_="b", recall=0.95)     "recall of class b >= 0.95", or short: "recall[b] >= 0.95"
    ClassRisk(class_="b", error=0.05)      "error of class b <= 0.05", or short: "error[b] <= 0.05"

Recall of a class is the share of its rows that are given its label; its error is the rest. Both say the same to the
training, min f subject to error_b <= bound for every class named; what is shown is what was stated.

Source: Rigollet, Tong (2011), Neyman-Pearson classification; Lin, Nadarajah, Soheili, Yang (2020), section 6.3, for
    several classes.
"""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np

from fairbound.base.errors import EmptyGroupError, OptionError
from fairbound.fairness.bound import Bound
from fairbound.fairness.compiled.builder import Builder, class_number
from fairbound.fairness.compiled.statistics import RowFunction
from fairbound.fairness.language import leading_name, number_text, plain_number
from fairbound.fairness.notions.checks import check_smoothing
from fairbound.fairness.notions.registry import NOTIONS
from fairbound.fairness.scored import Finding, Scored
from fairbound.fairness.verdicts.judging import judge_share
from fairbound.rows.groups import label_text

_LONG = re.compile(
    r"^\s*(recall|error)\s+of\s+class\s+(.+?)\s*(?:\[((?:surrogate|sharpness)=[^\[\]]*)\])?\s*(<=|>=|≤|≥)\s*(\S+)\s*$"
)
_SHORT = re.compile(r"^\s*(recall|error)\s*\[(.*)\]\s*(<=|>=|≤|≥)\s*(\S+)\s*$")
_TAIL = re.compile(r"^(.*?)((?:,\s*(?:surrogate|sharpness)=[^,]*)*)$")
_SIGN = re.compile(r"(<=|>=|≤|≥)\s*\S+\s*$")
_SENSES = {"recall": ">=", "error": "<="}


@dataclass(frozen=True)
class ClassRisk(Bound):
    """Recall of one class at least `recall`, or its error at most `error`; one of the two is given.

    class_: a label of y, or its text; it is kept as text. recall, error: in [0, 1].
    surrogate: what training differentiates in place of "predicted as another class": "sigmoid" (one minus the softmax
        probability of the row's own class), "hinge", "clipped" (of the margin to the best other class) or "loss".
    sharpness: multiplies the scores inside the surrogate; larger is nearer the decision and harder to train. With 1 the
        sigmoid asks for a mean probability of the class, which costs more than its recall where bounds are tight.
    Raises: OptionError for a bound outside [0, 1], for both or neither of them, and for unknown options.
    """

    class_: Any
    _: KW_ONLY
    recall: float | None = None
    error: float | None = None
    surrogate: Literal["sigmoid", "hinge", "clipped", "loss"] = "sigmoid"
    sharpness: float = 2.0

    about: ClassVar[str] = "class"
    judged_from = "counts"
    clustered = True
    measures: ClassVar[str] = "an error"

    def __post_init__(self) -> None:
        label = label_text(self.class_)
        if not label or label != label.strip():
            raise OptionError(f"class_ must be a label of y, got {self.class_!r}.")
        object.__setattr__(self, "class_", label)
        if (self.recall is None) == (self.error is None):
            raise OptionError("a ClassRisk has one bound: recall= (at least) or error= (at most).")
        if not (isinstance(self.stated, Real) and 0 <= self.stated <= 1):
            raise OptionError(
                f"the bound of {self.name} must lie in [0, 1], got {self.stated!r}; it is a share of the rows of the class."
            )
        check_smoothing(self, "sigmoid", "hinge", "clipped", "loss")

    @property
    def name(self) -> str:
        """ "recall" or "error"."""
        return "error" if self.recall is None else "recall"

    @property
    def sense(self) -> str:
        """ "at least" for a recall, "at most" for an error."""
        return "at most" if self.recall is None else "at least"

    @property
    def stated(self) -> float:
        """The bound as it was stated."""
        return self.error if self.recall is None else self.recall  # type: ignore[return-value]

    @property
    def bound(self) -> float:
        """The largest error of the class that the bound allows; 1 - 0.95 is 0.05 to the last bit."""
        return float(self.stated) if self.recall is None else round(1 - float(self.stated), 15)

    def at(self, stated: float) -> ClassRisk:
        """The same bound with another recall, or another error."""
        return replace(self, error=stated) if self.recall is None else replace(self, recall=stated)

    def value_of(self, raw: Any, terms: Any) -> Any:
        error = raw.amax(-1)
        return error if self.recall is None else 1 - error

    @property
    def text(self) -> str:
        """The bound as a person states it; `constraint(text)` gives this object back."""
        return f"{self.statement} {_SENSES[self.name]} {number_text(self.stated)}"

    @property
    def statement(self) -> str:
        """The text without its bound."""
        options = [] if self.surrogate == "sigmoid" else [f"surrogate={self.surrogate}"]
        options += [] if self.sharpness == 2 else [f"sharpness={self.sharpness}"]
        inside = f" [{','.join(options)}]" if options else ""
        return f"{self.name} of class {self.class_}{inside}"

    @classmethod
    def read(cls, text: str, *, bound: float | None = None) -> ClassRisk:
        """The bound that `text` states on a class; bound: the number, where the text states none. Raises: OptionError
        where it cannot be read."""
        if bound is not None and not _SIGN.search(text):
            text = f"{text} {_SENSES[leading_name(text)]} {number_text(bound)}"
        return read_class_risk(text)

    def _function(self) -> RowFunction:
        return RowFunction(None, self.surrogate, self.sharpness, per_class=True)

    def compile(self, builder: Builder) -> None:
        """One column for all bounds on classes that train on the same surrogate: no row has two classes."""
        alike = [b for b in builder.stated if isinstance(b, ClassRisk) and b._function() == self._function()]
        codes = {builder.class_number(b.class_): b.class_ for b in alike}
        code = builder.class_number(self.class_)
        if not builder.occurring.of_label(code):
            raise EmptyGroupError(
                f"{self.text!r}: no row has the label {self.class_!r}, so the bound is undefined. Give rows of that "
                "class, or drop its bound."
            )
        column = builder.cells(self._function(), (), tuple(sorted(codes)), lambda: [""], ())
        place = column.offset + column.conditions.index(code)
        builder.name_cells({column.offset + i: f"class {codes[c]}" for i, c in enumerate(sorted(codes))})
        builder.contrasts(np.array([[place]]), [1.0], lambda _: f"class {self.class_}")

    def check_model(self, outputs: int, y: np.ndarray) -> None:
        self.check_class_scores(outputs, y)

    @property
    def fewest_rows(self) -> float:
        return 1 / max(self.bound, 0.01)

    def one_share(self, rows: Scored) -> tuple[np.ndarray, np.ndarray]:
        mine = rows.target == class_number(self.class_, rows.target, rows.classes)
        return mine, rows.wrong if self.recall is None else ~rows.wrong

    def judge(self, rows: Scored, alpha: float) -> Finding:
        mine, _ = self.one_share(rows)
        found = judge_share(self, f"class {self.class_}", rows, mine, rows.wrong, alpha)
        if found["value"] is None or self.recall is None:
            return found
        return found | _recall_of(found) | {"contrasts": [{**c, **_recall_of(c)} for c in found["contrasts"]]}


NOTIONS["recall"] = NOTIONS["error"] = ClassRisk


def _recall_of(error: dict[str, Any]) -> dict[str, float]:
    return {"value": 1 - error["value"], "lower": 1 - error["upper"], "upper": 1 - error["lower"]}


def read_class_risk(text: str) -> ClassRisk:
    """The bound that `text` states on a class.

    Raises: OptionError where it speaks of the recall or error of a class but cannot be read.
    """
    found, short = _LONG.match(text), _SHORT.match(text)
    if found:
        name, label, inside, sense, number = found.groups()
    elif short:
        name, rest, sense, number = short.groups()
        label, inside = _TAIL.match(rest).groups()  # type: ignore[union-attr]
    else:
        raise OptionError(
            f"cannot read the constraint {text!r}; write it like 'recall of class b >= 0.95' or 'error of class b <= 0.05'."
        )
    if {"≥": ">=", "≤": "<="}.get(sense, sense) != _SENSES[name]:
        raise OptionError(
            f"cannot read the constraint {text!r}: a recall is bounded from below (>=), an error from above (<=)."
        )
    try:
        options: dict[str, Any] = {name: plain_number(number)}
    except ValueError:
        raise OptionError(f"the bound {number!r} in {text!r} is not a number.") from None
    for option in filter(None, (o.strip() for o in (inside or "").split(","))):
        key, _, value = option.partition("=")
        if key == "sharpness":
            try:
                options[key] = plain_number(value)
            except ValueError:
                raise OptionError(f"the sharpness {value!r} in {text!r} is not a number.") from None
        elif key == "surrogate":
            options[key] = value
        else:
            raise OptionError(f"unknown option {option!r} in {text!r}; known: surrogate=..., sharpness=....")
    return ClassRisk(label.strip(), **options)
