"""Sentences that compare methods by their numbers, for the findings of any study.

Runs of one seed share what the seed decides, so that methods are compared by their differences seed by seed. A method
is told apart from the best one where a paired t test at 5 % does; with many methods and measures some such verdicts are
chance.
numbers: method -> column -> seed -> value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import stdtrit

from fairbound.studies.table import Numbers

LEVEL = 0.05
FEWEST = 3
"""Runs of the same seeds below which nothing tells two methods apart."""


def values(numbers: Numbers, column: str) -> dict[int, float]:
    """The known values of one method by seed."""
    return {seed: v for seed, v in numbers.get(column, {}).items() if v is not None}


def mean(numbers: Numbers, column: str) -> float | None:
    """The mean of the known values of one method."""
    known = list(values(numbers, column).values())
    return float(np.mean(known)) if known else None


def _both(one: Numbers, other: Numbers, column: str) -> list[int]:
    """The seeds at which both methods have a value."""
    return sorted(set(values(one, column)) & set(values(other, column)))


def apart(one: Numbers, other: Numbers, column: str) -> bool:
    """Whether a paired t test at 5 % tells two methods apart; False below FEWEST runs of the same seeds."""
    a, b = values(one, column), values(other, column)
    seeds = _both(one, other, column)
    if len(seeds) < FEWEST:
        return False
    difference = np.array([a[s] - b[s] for s in seeds])
    error = difference.std(ddof=1) / np.sqrt(len(seeds))
    return bool(abs(difference.mean()) > stdtrit(len(seeds) - 1, 1 - LEVEL / 2) * error)


def lowest(
    numbers: Mapping[str, Numbers], titles: Mapping[str, str], column: str, question: str
) -> dict[str, Any] | None:
    """{"question", "winner", "value", "tied", "text"} of the lowest mean of a column; None where no run has a value. Of too few
    runs also "again": the text where another one has said why it is not sure."""
    means = {m: found for m, by in numbers.items() if (found := mean(by, column)) is not None}
    if not means:
        return None
    order = sorted(means, key=means.__getitem__)
    winner = order[0]
    tied = [m for m in order[1:] if not apart(numbers[m], numbers[winner], column)]
    rest = [m for m in order[1:] if m not in tied]
    text = f"{question[0].upper()}{question[1:]}: {titles[winner]} ({means[winner]:.4f})"
    again = {}
    runs = max((len(_both(numbers[m], numbers[winner], column)) for m in order[1:]), default=FEWEST)
    if runs < FEWEST:
        again = {"again": f"{text}, not told apart."}
        many = "one run" if runs == 1 else f"{runs} runs" if runs else "runs of different seeds"
        text += f"; {many} of a method cannot tell it apart from {'any other' if len(tied) > 1 else titles[tied[0]]}, {FEWEST} of the same seeds can"
    elif tied and len(tied) == len(means) - 1 > 1:
        text += ", not told apart from any other"
    elif tied:
        text += f", not told apart from {', '.join(f'{titles[m]} ({means[m]:.4f})' for m in tied)}"
    elif rest:
        text += f", before {titles[rest[0]]} ({means[rest[0]]:.4f})"
    return {"question": question, "winner": winner, "value": means[winner], "tied": tied, "text": text + ".", **again}


def dominance(
    numbers: Mapping[str, Numbers], titles: Mapping[str, str], columns: Sequence[str]
) -> dict[str, Any] | None:
    """Who has all means of the columns at most another's (one of them below), and whom nobody dominates; None where
    fewer than two have them."""
    known: dict[str, list[float]] = {}
    for m, by in numbers.items():
        means = [found for c in columns if (found := mean(by, c)) is not None]
        if len(means) == len(columns):
            known[m] = means
    if len(known) < 2:
        return None
    beaten = {
        m: [o for o in known if known[m] != known[o] and all(a <= b for a, b in zip(known[m], known[o], strict=True))]
        for m in known
    }
    words = " and ".join(c.removeprefix("test ") for c in columns)
    best = max(beaten, key=lambda m: len(beaten[m]))
    winner = best if len(beaten[best]) == len(known) - 1 else None
    if winner is not None:
        text = f"{titles[winner]} dominates every other row in ({words}) on test."
    else:
        left = [titles[m] for m in known if not any(m in others for others in beaten.values())]
        text = f"No row dominates every other in ({words}) on test; not dominated: {', '.join(left)}."
    return {
        "question": f"dominance in ({words}) on test", "winner": winner, "value": None, "tied": [], "dominated": beaten,
        "text": text,
    }  # fmt: skip
