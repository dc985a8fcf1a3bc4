"""What a monitor found at earlier looks: alarms, which stay, and the values over time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fairbound.fairness.scored import Finding

MOST_LOOKS = 400
"""Most looks that are kept for the figure; beyond this every second one is dropped."""


@dataclass
class History:
    """alarms: by bound, the rows at the look that found it violated, and the limit found then. looks: of each kept, its
    rows and by bound value, lower and upper limit."""

    alarms: dict[str, dict[str, Any]] = field(default_factory=dict)
    looks: list[list[Any]] = field(default_factory=list)

    @property
    def rows(self) -> list[int]:
        """The rows at each look."""
        return [rows for rows, _ in self.looks]

    @property
    def alarm_rows(self) -> dict[str, int]:
        """The bounds found violated, and the rows at the look that found it."""
        return {text: found["rows"] for text, found in self.alarms.items()}

    def alarm(self, finding: Finding, rows: int) -> str | None:
        """Raise the alarm where a bound is violated at so many rows, and keep it: `finding` is changed in place.
        Returns a warning where rates must have changed since."""
        text, floor = finding["text"], finding["sense"] == "at least"
        end, other = ("upper", "lower") if floor else ("lower", "upper")
        if finding["verdict"] == "violated" and text not in self.alarms:
            self.alarms[text] = {"rows": rows, end: finding[end]}
        if text not in self.alarms or finding["verdict"] == "violated":
            return None
        kept = self.alarms[text][end]
        finding |= {"verdict": "violated", end: kept, "why": f"Found violated at {self.alarms[text]['rows']:,} rows"}
        if finding[other] is None:
            return None
        apart = finding[other] > kept if floor else finding[other] < kept
        if apart:
            finding[other] = kept
            return (
                f"{text}: the rows since the alarm contradict those before it, so the rates have changed. Start a new monitor to "
                "judge the new rates."
            )
        return None

    def remember(self, found: list[Finding], rows: int) -> None:
        """Keep a look at so many rows, in place of one at the same rows."""
        ends = {f["text"]: [f["value"], f["lower"], f["upper"]] for f in found}
        if self.looks and self.looks[-1][0] == rows:
            self.looks.pop()
        self.looks.append([rows, ends])
        if len(self.looks) > MOST_LOOKS:
            self.looks = self.looks[:-1:2] + self.looks[-1:]

    def over_time(self, text: str) -> dict[str, list[float | None]]:
        """Value and limits of a bound at each look."""
        ends = [of.get(text, [None] * 3) for _, of in self.looks]
        return {name: [e[i] for e in ends] for i, name in enumerate(("value", "lower", "upper"))}
