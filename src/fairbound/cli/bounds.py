"""The bounds of `--constraint`, and what they ask of the labels and groups."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from fairbound.base.errors import OptionError
from fairbound.fairness.bound import check_judged
from fairbound.fairness.notions import Bound, constraint, constraints

_EACH = re.compile(r"[\[,]\s*each\s*[\],]")
"""What says in a bound's text that each attribute is compared by itself, as is otherwise the default."""


def compare_groups(bounds: Sequence[Bound]) -> bool:
    """Whether a bound compares groups."""
    return any("groups" in b.needs for b in bounds)


def of_classes_only(bounds: Sequence[Bound]) -> bool:
    """Whether bounds are stated and none of them compares groups."""
    return bool(bounds) and not compare_groups(bounds)


def of_two_classes(bounds: Sequence[Bound]) -> bool:
    """Whether y must have two classes: where nothing is stated, or a bound speaks of a positive one."""
    return not bounds or any("two classes" in b.needs for b in bounds)


def by_class(bounds: Sequence[Bound]) -> bool:
    """Whether a bound speaks of the rates of every class."""
    return any("classes" in b.needs for b in bounds)


def check_of_classes(bounds: Sequence[Bound], command: str) -> None:
    """Raises: OptionError for a bound on predicted numbers, under which `command` does not train."""
    for bound in bounds:
        if "predictions" in bound.needs:
            raise OptionError(
                f"{bound.statement!r} speaks of predicted numbers, and {command} takes bounds on classes only; train under it with "
                "fairbound regress."
            )


def saved_bounds(model: Any) -> list[str]:
    """The bounds that a saved model was trained under."""
    stated = model.constraint
    return [] if stated is None else [stated] if isinstance(stated, str) else list(stated)


def bounds_for(options: Any, *models: Any) -> list[Bound]:
    """The bounds of `--constraint`, or where none are stated, those of the last saved model;
    None stands for no model."""
    own = next((saved_bounds(model) for model in reversed(models) if model is not None), [])
    return bounds_of_texts(options.constraint or own, options.cross)


def bounds_in_words(bounds: Sequence[Bound]) -> str:
    """The bounds in one phrase, of none too."""
    return " and ".join(bound.text for bound in bounds) or "no bound"


def bounds_of_texts(texts: list[str], cross: bool = False, bound: float | None = None) -> list[Bound]:
    """The bounds of `--constraint`, over the crossed groups where `cross` says so and the text says nothing else.

    bound: the number of texts that state none. Raises: OptionError also of a bound without a verdict on rows, which
    every command gives.
    """
    bounds: list[Bound] = [constraint(text, bound=bound) for text in texts]
    if cross:
        bounds = [b if _EACH.search(text) else b.over("crossed") for b, text in zip(bounds, texts, strict=True)]
    check_judged(made := list(constraints(bounds)))
    return made
