"""The base class of all bounds: text in and out, compiling for training, measuring exactly, judging held-out rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from torch import Tensor

from fairbound.base.errors import DataError, OptionError
from fairbound.fairness.compiled.builder import Builder
from fairbound.fairness.compiled.statistics import RowFunction
from fairbound.fairness.language import SENSES, Option, number_text, option_texts, read_bound
from fairbound.fairness.scored import Finding, Scored


def check_groups(bounds: Sequence[Bound], given: Any) -> None:
    """Raises: DataError naming a bound that compares groups where none are `given`."""
    for bound in bounds if given is None else ():
        if "groups" in bound.needs:
            raise DataError(f"the bound {bound.statement!r} compares groups; pass sensitive_features.")


def groups_wanted(asking: str, others: str = "") -> DataError:
    """The error of a `fit` without groups. asking: what compares them, as text. others: further arguments as they are
    written, each with a comma after it."""
    return DataError(
        f"{asking!r} needs fit(X, y, {others}sensitive_features=...). Inside scikit-learn's cross_val_score and cross_validate: "
        'params={"sensitive_features": ...}.'
    )


def check_clustered(bounds: Sequence[Bound]) -> None:
    """Raises: OptionError naming a bound that cannot be judged where rows come in clusters."""
    for bound in bounds:
        if not bound.clustered:
            raise OptionError(
                f"{bound.statement!r} cannot be judged where rows come in clusters, as several rows of one person: its limits take "
                "rows for independent. Keep one row of each cluster."
            )


def check_judged(bounds: Sequence[Bound]) -> None:
    """Raises: OptionError naming a bound that has no verdict on rows, before anything is trained that is to be judged."""
    for bound in bounds:
        if type(bound).judge is Bound.judge:
            raise bound.no_verdict()


def remarks_on(bounds: Sequence[Any], attributes: Sequence[str]) -> list[str]:
    """What a reader must know of bounds that are judged together where these are the sensitive attributes."""
    said = [remark for bound in bounds for remark in bound.remarks(attributes)]
    for given in dict.fromkeys(bound.within for bound in bounds if getattr(bound, "within", None) in attributes):
        others = [name for name in attributes if name != given]
        open_to_all = [b for b in bounds if getattr(b, "attributes", None) in ("each", "crossed", "both")]
        too = [b for b in open_to_all if getattr(b, "within", None) != given]
        if too and others:
            named = [(name,) for name in others] if too[0].attributes == "each" else [tuple(others)]
            instead = " and ".join(repr(replace(too[0], attributes=names).text) for names in named)
            said.append(
                f"{given!r} is given in another bound, and {', '.join(repr(b.text) for b in too)} "
                f"{'compares' if len(too) == 1 else 'compare'} its groups too. Where {given!r} tells nobody apart whom the law protects, "
                f"name the attributes that do: {instead}."
            )
    return said


class Bound(ABC):
    """A stated bound. A notion is a frozen dataclass below it, or below one of the families in `notions`.

    bound: in the units of the metric. name: as it is stated. sense: "at most" or "at least". example: a usual bound.
    needs: what it asks of the rows: "groups", "two classes" (a positive one), "scores" (decisions are not enough).
    about: what it bounds, a "group" or a "class"; measures: which number of it, in words.
    free_thresholds: whether training moves thresholds beside the model, which takes more passes a round.
    judged_from: the least that its measure and verdict need: the "counts" of (groups, label, decision), `Scored.each`;
        sums of "losses" up to its `largest`; "areas", of pairs by who has the higher score; or all "rows".
    reads_labels: whether it looks at labels; else decisions can be judged whose outcome nobody knows.
    clustered: whether its verdict heeds `Scored.clusters`; an audit of clustered rows refuses it otherwise.
    OPTIONS: what may stand in brackets, for reading and writing alike.
    """

    sense: Any = "at most"  # a property where it depends on the bound
    example: ClassVar[str] = "0.02"
    needs: ClassVar[frozenset[str]] = frozenset()
    about: ClassVar[str] = "group"
    measures: ClassVar[str] = "a difference"
    judged_from: ClassVar[Literal["counts", "losses", "areas", "rows"]] = "rows"
    free_thresholds: ClassVar[bool] = False
    reads_labels: Any = True  # a property where it depends on the notion
    clustered: ClassVar[bool] = False
    OPTIONS: ClassVar[Mapping[str, Option]] = {}

    name: Any
    bound: Any

    @property
    def stated(self) -> float:
        """The bound as it was stated."""
        return self.bound

    @property
    def statement(self) -> str:
        """The text without its bound."""
        options = option_texts(self, self.OPTIONS)
        return f"{self.name}[{','.join(options)}]" if options else self.name

    @property
    def text(self) -> str:
        """The bound as a person states it; `constraint(text)` gives this object back, unless the name of an attribute
        holds one of the signs , + = [ ]."""
        return f"{self.statement} {SENSES[self.sense]} {number_text(self.stated)}"

    @classmethod
    def read(cls, text: str, *, bound: float | None = None) -> Self:
        """The bound that `text` states, or with `bound` one that states none. Raises: OptionError."""
        return read_bound(cls, text, bound=bound)

    def at(self, stated: float) -> Self:
        """The same bound with another number, in the units that it is stated in."""
        return replace(self, bound=stated)  # type: ignore[type-var]

    def over(self, attributes: str) -> Self:
        """The same bound over "each" attribute or the "crossed" ones,
        where it compares groups and does not say which."""
        return self

    def remarks(self, attributes: Sequence[str]) -> list[str]:
        """What a reader must know of the bound where these are the sensitive attributes."""
        crosses = getattr(self, "attributes", None)
        names = [name for name in attributes if name != getattr(self, "within", None)]
        if crosses not in ("crossed", "both") or len(names) != 1:
            return []
        return [
            f"{self.text!r} has nothing to cross: {names[0]} is the only sensitive attribute, so its groups are compared as without "
            f"[{crosses}]. Name the others too (--group), or leave [{crosses}] (--cross) out."
        ]

    def row_functions(self) -> tuple[tuple[RowFunction, int | None], ...]:
        """For bounds that only compare each group's means with those of all rows: the row functions averaged, each with
        the label of the rows that it is averaged over (None for all). Empty for other bounds."""
        return ()

    def of_classes(self, classes: Any) -> Self:
        """The same bound on rows with these labels, where what it compares depends on them."""
        return self

    def settled_on(self, occurring: Any) -> Self:
        """The same bound, which compares the groups that it compares on the rows `occurring`, however many rows of each
        there are elsewhere."""
        return self

    def class_rates(self, classes: Any) -> dict[str, tuple[int | None, int | None]]:
        """The rates of classes that are compared, by name, each as (predicted, label): the share of the rows of class
        number `label` (None: of all) predicted as class number `predicted` (None: as the right one). Else empty."""
        return {}

    def score_curves(self) -> tuple[tuple[Any, int | None], ...]:
        """What to draw for a bound on percentile intervals of scores: a `partial_statistical_parity` over the same
        groups and intervals, and the label of the rows that it speaks of, None for all; empty for other notions."""
        return ()

    # -- training -----------------------------------------------------------------------------------------------

    @abstractmethod
    def compile(self, builder: Builder) -> None:
        """State this bound's inequalities in cells of the builder. Raises: EmptyGroupError, OptionError."""

    def value_of(self, raw: Tensor, terms: Tensor | None) -> Tensor:
        """(...,) the measured value, in the stated units, from the contrasts' sums raw (..., r) and terms (...,
        r, t)."""
        return raw.amax(-1)

    def check_model(self, outputs: int, y: np.ndarray) -> None:
        """Raises OptionError or DataError where a model with this many scores per row cannot be held to the bound."""
        if "two classes" in self.needs:
            self.check_two_classes(outputs, y)

    def check_two_classes(self, outputs: int, y: np.ndarray) -> None:
        """Raises: OptionError where a model with `outputs` scores per row has no positive class to speak of; DataError for
        labels (n,) other than 0 and 1, where the bound looks at them."""
        if outputs > 1:
            raise OptionError(
                f"{self.text!r} speaks of positive and negative, but the model gives {outputs} scores per row and "
                "no class is the positive one. State class_demographic_parity, class_recall_parity, class_equalized_odds, "
                "class_error_parity or loss_gap, which speak of every class, or train one class against the rest."
            )
        if self.reads_labels and not np.isin(y, (0, 1)).all():
            raise DataError(f"{self.text!r} needs labels 0 and 1; got {np.unique(y)[:5].tolist()}.")

    def check_class_scores(self, outputs: int, y: np.ndarray) -> None:
        """Raises: DataError where a model of one score is asked about classes other than 0 and 1."""
        if outputs == 1 and not np.isin(y, (0, 1)).all():
            raise DataError(
                f"{self.text!r} needs labels 0 and 1, or a model with a score for every class; got "
                f"{np.unique(y)[:5].tolist()}."
            )

    @property
    def fewest_rows(self) -> float:
        """Rows of a group or class (of rankings, queries) below which a value as small as
        the bound cannot be told from chance."""
        return 0.25 / max(self.bound, 0.01) ** 2

    @property
    def uncertain(self) -> str | None:
        """Why no interval of its value holds well enough for a certificate, and what to state instead;
        None where one does."""
        return None

    def step_of(self, rows: int) -> float:
        """The largest step in which the measured value moves where a group has so many rows;
        0 where it moves in none."""
        return 1 / rows

    # -- measuring ----------------------------------------------------------------------------------------------

    def judge(self, rows: Scored, alpha: float) -> Finding:
        """The verdict on held-out rows, wrong with probability at most alpha; `measure` takes its value from it.

        Raises: OptionError where the notion has none of its own.
        """
        raise self.no_verdict()

    def met_trivially(self, rows: Scored) -> str:
        """What is said where all rows that the bound speaks of are decided alike though others are not; "" else."""
        return ""

    def outside_words(self, found: Sequence[np.ndarray]) -> str:
        """What is said where all rows of every group's percentile interval have one decision, the same in all groups; "" for
        none. found: for each attribute the shares of positive decisions within the intervals, (rates groups) or
        (rates, groups)."""
        return ""

    def no_verdict(self) -> OptionError:
        """What to raise where the notion has no `judge` of its own."""
        return OptionError(
            f"{self.text!r} can be trained under, but not measured or judged on rows: its class {type(self).__name__} "
            "has no judge(rows, alpha). Write one, as docs/extending.md shows: `return judge_shares(...)` of "
            "fairbound.fairness.verdicts.judging for shares of rows, `return judge_means(...)` of "
            "fairbound.fairness.verdicts.judging_means for other means."
        )

    def measure(self, rows: Scored) -> float:
        """The exact metric on the rows; NaN where it is undefined."""
        value = self.judge(rows, 0.05)["value"]
        return float("nan") if value is None else value

    def one_share(self, rows: Scored) -> tuple[np.ndarray, np.ndarray] | None:
        """Of a bound on one share of rows, (n,) whether each row is among these, and whether it is a hit; else None."""
        return None

    def contrasts(self, rows: Scored) -> np.ndarray:
        """(m,) the numbers whose largest, of ratios whose least, is the exact metric, or nearly where there are too many of
        them; the metric itself where it is no such number. NaN where one is undefined. They are as many, and in the same order,
        for the same rows weighed otherwise, also by 0."""
        return np.array([self.measure(rows)])
