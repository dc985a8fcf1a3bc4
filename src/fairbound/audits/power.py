"""The odds at which rows that would decide are stated."""

from __future__ import annotations

from collections.abc import Sequence

from fairbound.base.errors import OptionError
from fairbound.fairness.bound import Bound


def check_power(power: float, bounds: Sequence[Bound]) -> None:
    """Raises: OptionError for a power outside [0.5, 1), and where a bound knows of even odds alone."""
    if not 0.5 <= power < 1:
        raise OptionError(f"power must lie in [0.5, 1), got {power!r}.")
    for bound in bounds:
        if power > 0.5 and bound.judged_from == "rows":
            raise OptionError(f"{bound.text!r} knows the rows that decide at about even odds alone; leave power out.")


def words_of_power(power: float) -> list[str]:
    """The note that says what rows that would decide mean; none for even odds."""
    said = f"Rows that would decide are so many that {100 * power:.4g} % of such audits decide, if what was measured is the truth."
    return [said] if power > 0.5 else []
