"""How long a run may take: seconds of the clock or of the processor, steps, samples or epochs, whichever ends first."""

from __future__ import annotations

import math
import re
import time
from dataclasses import dataclass, replace

from fairbound.base.checks import check_kinds
from fairbound.base.errors import OptionError

_WORDS = {
    ("seconds", 1.0): "s sec secs second seconds",
    ("seconds", 60.0): "m min mins minute minutes",
    ("seconds", 3600.0): "h hour hours",
    ("steps", 1.0): "step steps",
    ("samples", 1.0): "sample samples",
    ("epochs", 1.0): "epoch epochs",
}
_UNITS = {word: unit for unit, words in _WORDS.items() for word in words.split()}
_PART = re.compile(r"^\s*(\d+\.?\d*(?:e[+-]?\d+)?|\.\d+)\s*(cpu\s+)?([a-z]+)\s*$")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How long a run trains: it ends where the first of the stated limits is reached.

    seconds: of training, evaluation not counted.
    steps: of the method.
    samples: rows touched. epochs: samples over the problem's rows. In a stack of runs both are those of each run.
    processor: whether seconds are those of the processor, all threads of the process together, which other work on the
        machine changes little; else those of the clock.
    deadline: reading of time.perf_counter, or of time.process_time with `processor`, from which on no step is begun.
    """

    seconds: float = math.inf
    steps: float = math.inf
    samples: float = math.inf
    epochs: float = math.inf
    processor: bool = False
    deadline: float = math.inf

    def __post_init__(self) -> None:
        check_kinds(self)
        limits = (self.seconds, self.steps, self.samples, self.epochs)
        if not all(v > 0 for v in limits):
            raise OptionError(f"every limit of a budget must be positive, got {self.text!r}.")
        if all(v == math.inf for v in limits):
            raise OptionError("a budget needs at least one finite limit, like Budget(seconds=30) or '5000 steps'.")

    @classmethod
    def of(cls, text: str | Budget) -> Budget:
        """Text like "30s", "2 min", "20 cpu s", "5000 steps", "2e6 samples" or "10 epochs, 30s".
        Raises: OptionError for other texts, and for a number, which could be any of these."""
        if isinstance(text, Budget):
            return text
        if not isinstance(text, str):
            raise OptionError(f"a budget is a text with a unit, such as '30s' or '5000 steps'; got {text!r}.")
        limits: dict[str, float] = {}
        processor = False
        for part in text.lower().split(","):
            match = _PART.match(part)
            if match is None or match[3] not in _UNITS or (match[2] and _UNITS[match[3]][0] != "seconds"):
                raise OptionError(
                    f"cannot read the budget {part.strip()!r}; write '30s', '2 min', '20 cpu s', '5000 steps', "
                    "'2e6 samples' or '10 epochs'."
                )
            field, scale = _UNITS[match[3]]
            if field in limits:
                raise OptionError(f"the budget {text!r} states {field} twice.")
            limits[field] = float(match[1]) * scale
            processor = processor or bool(match[2])
        return cls(**limits, processor=processor)

    def spent(self, seconds: float, steps: float, samples: float, rows: int) -> bool:
        """Whether what has been spent reaches the budget. rows: of an epoch."""
        return (
            steps >= self.steps or seconds >= self.seconds or samples >= self.samples or samples >= self.epochs * rows
        )

    def from_now(self) -> Budget:
        """With its seconds from now on as a deadline, for several runs and their evaluations together; itself where it
        has one."""
        if self.seconds == math.inf or self.deadline < math.inf:
            return self
        return replace(self, deadline=self._now() + self.seconds)

    def part(self, share: float) -> Budget:
        """With this share of the time that is left, where there is a deadline."""
        if self.deadline == math.inf:
            return self
        now = self._now()
        return replace(self, deadline=now + share * (self.deadline - now))

    def until(self, other: Budget) -> Budget:
        """With the deadline of `other`, where that has one."""
        if other.deadline == math.inf:
            return self
        return replace(self, deadline=other.deadline, processor=other.processor)

    @property
    def over(self) -> bool:
        """Whether the deadline has come."""
        return self._now() >= self.deadline

    def _now(self) -> float:
        return time.process_time() if self.processor else time.perf_counter()

    @property
    def text(self) -> str:
        """The budget in words."""
        words = {"seconds": "cpu seconds" if self.processor else "seconds"}
        limits = {k: getattr(self, k) for k in ("seconds", "steps", "samples", "epochs")}
        return ", ".join(f"{v:g} {words.get(k, k)}" for k, v in limits.items() if v != math.inf)
