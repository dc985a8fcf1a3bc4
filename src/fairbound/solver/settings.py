"""The options of `solve`, checked: what it is told at the start, before anything is made."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, Literal

from fairbound.base.checks import check_choice, check_kinds, nonnegative, positive
from fairbound.base.errors import OptionError
from fairbound.base.names import plain_repr
from fairbound.methods.method import Method
from fairbound.problems.problem import Problem
from fairbound.problems.stated import check_stated
from fairbound.solver.budget import Budget

FIRST_RECORD = 50
GROWTH = 0.05
"""The next record is due after this share of the steps done so far."""


class Spacing:
    """When the next record is due, in steps, or in data passes where the text says epochs; with a share like "5%" after
    every step at first, then after that share of the steps done; with None the same, but for `least` steps at first."""

    def __init__(self, every: int | str | None, least: int = FIRST_RECORD):
        self.share, self.epochs, self.steps = GROWTH, None, None
        if isinstance(every, str) and every.endswith("%"):
            self.share, least = _share(every), 1
        elif isinstance(every, str):
            self.epochs = _epochs(every)
        elif every is not None:
            self.steps = _steps(every)
        self.least = least

    def done(self, k: int, samples: int, rows: int) -> float:
        """How far the run is, in the unit of the spacing."""
        return k if self.epochs is None else samples / rows

    def after(self, done: float) -> float:
        """Where the record after one at `done` is due."""
        if self.epochs is not None:
            return (math.floor(done / self.epochs) + 1) * self.epochs
        return done + (self.steps or max(self.least, math.floor(done * self.share)))


def _share(text: str) -> float:
    """The share in (0, 1] that a text like "5%" says. Raises: OptionError for another text."""
    try:
        share = float(text[:-1]) / 100
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise OptionError(f"a share in record_every lies above 0% and is at most 100%; got {text!r}.")
    return share


def _epochs(text: str) -> float:
    """The data passes that a text like "0.5 epochs" says. Raises: OptionError for another text."""
    try:
        asked = Budget.of(text)
    except OptionError:
        asked = None
    if asked is None or not math.isinf(min(asked.seconds, asked.steps, asked.samples)):
        raise _no_spacing(text)
    return asked.epochs


def _steps(every: Any) -> int:
    """A number of steps, at least 1. Raises: OptionError for anything else."""
    if isinstance(every, bool) or not isinstance(every, Integral):
        raise _no_spacing(every)
    if every < 1:
        raise OptionError(f"record_every must be at least 1, got {plain_repr(every)}.")
    return int(every)


def _no_spacing(every: Any) -> OptionError:
    return OptionError(
        f"record_every is a whole number of steps, passes like '0.5 epochs' or a share like '5%'; got {plain_repr(every)}."
    )


def path_of(name: str, value: Any) -> Path | None:
    """Where a file is to be; None for none. Raises: OptionError for anything but text and paths."""
    if value is not None and not isinstance(value, str | os.PathLike):
        raise OptionError(f"{name} must be the path of a file, got {plain_repr(value)}.")
    return Path(value) if value else None


def check_validation(validation: Any, problem: Problem) -> None:
    """Raises: OptionError where `validation` is neither None nor a problem with the parameters of `problem`."""
    if validation is None:
        return
    if not callable(getattr(validation, "evaluate", None)):
        raise OptionError(
            f"validation must be a problem of other rows, made as the one to be solved; got {plain_repr(validation)}."
        )
    check_stated(validation)
    if validation.n != problem.n:
        raise OptionError(
            f"the validation problem has {validation.n} parameters, the one to be solved {problem.n}; state the same model for both."
        )


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The options of `solve`, checked; its docstring explains them. Raises: OptionError naming the one that is wrong."""

    method: Method[Any]
    limit: Budget
    seeds: tuple[int, ...]
    batch_size: int
    sampling: str
    spacing: Spacing
    nonfinite: Literal["raise", "skip"]
    patience: float
    average: int
    validation: Problem | None
    checkpoint: Path | None
    checkpoint_every: float
    progress: bool
    callback: Callable[[dict[str, Any]], None] | None
    keep: Callable[[dict[str, Any]], dict[str, Any]] | None

    def __post_init__(self) -> None:
        check_kinds(self)
        positive(self, "batch_size")
        nonnegative(self, "average")
        check_choice("nonfinite", self.nonfinite, ("raise", "skip"))
        if not self.patience >= 1:
            raise OptionError(f"patience must be at least 1, for the budget itself, got {self.patience!r}.")
        if not self.checkpoint_every >= 0:
            raise OptionError(f"checkpoint_every must not be negative, got {self.checkpoint_every!r}.")
        for name in ("callback", "keep"):
            if not callable(value := getattr(self, name)) and value is not None:
                raise OptionError(f"{name} must be a function of a record, got {plain_repr(value)}.")
