"""The groups that a bound leaves out for want of rows, and how many rows it says nothing of, as facts for reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairbound.fairness.comparing import Compared
from fairbound.rows.groups import Groups
from fairbound.rows.occurring import Occurring


def enough(bound: Any, found: Compared, rows: np.ndarray) -> np.ndarray:
    """(k,) bool: the groups `found` that have `fewest` rows, or one, behind each value (R, k); where `fewest` is stated none
    that is alone in the group within which it is compared."""
    has = np.asarray((rows >= (bound.fewest or 1)).all(0))
    if bound.fewest is None:
        return has
    if bound.only is not None:
        kept = dict(bound.only).get(found.attributes, ())
        return np.asarray(np.isin(found.codes, kept) & (rows > 0).all(0))
    if bound.within is not None:
        beside = np.bincount(found.stratum[has], minlength=int(found.stratum.max(initial=0)) + 1)
        has &= beside[found.stratum] > 1
    return has


def left_out_facts(bound: Any, occurring: Occurring) -> dict[str, Any]:
    """Of a bound that states `fewest`, what its finding says of the groups of fewer rows; {} where there are none.

    "left_out": their names. "left_out_groups": for each its "group", its "rows", and the "fewest" of them that are behind
    one of its values, with their "kind" in words where they are not all of its rows, and "alone" (True) where these are enough and no other group is left to compare it with.
    "left_out_rows": how many rows are in one of them. "fewest": as the bound states it.
    occurring: the rows that are judged, or trained on.
    """
    if getattr(bound, "fewest", None) is None:
        return {}
    given, groups = Groups(occurring.codes, occurring.attributes, occurring.labels), dict[str, dict[str, Any]]()
    away = np.zeros(len(occurring.counts), dtype=bool)
    for found, rows in bound.counted(occurring):
        out = ~enough(bound, found, rows)
        alone = _alone(bound, found, rows, ~out)[out]
        left, whole = found.keep(out), occurring.per_group(found.attributes)
        away |= left.of_rows(given) >= 0
        for g, few in enumerate(rows[:, out].min(0).tolist()):
            of_all = int(whole[left.codes[g]])
            groups[left.name(g)] = {
                "group": left.name(g),
                "rows": of_all,
                "fewest": int(few),
                **({} if few == of_all else {"kind": _kind(bound, rows[:, out][:, g])}),
                **({"alone": True} if alone[g] else {}),
            }
    if not groups:
        return {}
    return {
        "left_out": sorted(groups),
        "left_out_groups": [groups[name] for name in sorted(groups)],
        "left_out_rows": int(occurring.counts[away].sum()),
        "fewest": bound.fewest,
    }


def _kind(bound: Any, rows: np.ndarray) -> str:
    """What rows those are of which there are the fewest, "positive rows". rows: (R,) of a group, behind each of its values."""
    condition = bound.conditions()[int(rows.argmin())]
    return str(bound.row_words(condition)).removesuffix(f" (y = {condition})").replace("row", "rows", 1)


def _alone(bound: Any, found: Compared, rows: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """(k,) bool: the groups that have `fewest` rows behind each value (R, k), and none that is `kept` (k,) in the group
    within which they would be compared."""
    if bound.within is None:
        return np.zeros(len(found), dtype=bool)
    return np.asarray((rows >= bound.fewest).all(0) & ~np.isin(found.stratum, found.stratum[kept]))


def nothing_left(bound: Any, attributes: Sequence[str], found: Compared, kept: Compared) -> str:
    """What is said where too few of the groups `found` are `kept` to compare anything. attributes: all their names."""
    what = "*".join(attributes[a] for a in found.attributes)
    few = f"only {[kept.name(g) for g in range(len(kept))]}" if len(kept) else "none of them"
    if bound.fewest is None:
        return f"{bound.text!r} compares groups of {what!r}, but {few} can be measured; at least two groups are needed."
    needed = "one" if bound.compares_alone else "two to compare"
    return (
        f"{bound.text!r} leaves out groups of fewer than {bound.fewest:,} rows where a value needs them. Of the {len(found)} groups of "
        f"{what!r} {few} would be left, and it takes {needed}. State a smaller fewest, merge groups, or give more rows."
    )
