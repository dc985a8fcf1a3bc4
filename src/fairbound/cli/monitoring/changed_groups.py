"""Groups that a file of a monitor brings for the first time, and those that it lacks though the files before had them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fairbound.base.names import shortlist

Counted = Mapping[str, Mapping[str, int]]
"""Rows by attribute and group."""
BY_CHANCE = 1e-4
"""How likely it may be that a group is absent by chance, and nothing is said."""


def changed_group_warnings(data: str, before: Counted, after: Counted, rows: int, added: int) -> list[str]:
    """A warning for each attribute of which the file has groups that no earlier file had, or lacks some.
    before, after: what was counted without the file, of `rows` rows, and with it, which `added` more."""
    name, said = Path(data).name, []
    for attribute, known in before.items():
        if new := sorted(set(after[attribute]) - set(known)):
            said.append(
                f"{name} brings groups of {attribute} that no earlier file had: {shortlist(new, quoted=True)}. "
                f"If they are known ones written otherwise, they are counted apart now: correct the file, and begin the "
                "state anew."
            )
        gone = [
            f"{group!r} (about {added * count / rows:,.0f} were to be expected)"
            for group, count in sorted(known.items())
            if after[attribute][group] == count and _absent_by_chance(count, rows, added) < BY_CHANCE
        ]
        if gone:
            said.append(
                f"None of the {added:,} decisions counted from {name} is of these groups of {attribute}, which earlier files had: "
                f"{shortlist(gone)}. See whether the file lost them, or writes them otherwise."
            )
    return said


def _absent_by_chance(count: int, rows: int, added: int) -> float:
    """The most that the chance can be of no row of a group among those added, were its share as before: all of its
    rows in both are then among the first, as if drawn without replacement."""
    return float((rows / (rows + added)) ** count)
