"""Which method wins where, computed: the best mean of each measure, and the methods that the runs cannot tell from it.

Runs of one seed share split and start, so that methods are compared by their differences seed by seed. A method is told
apart from the best one where a paired t test at 5 % does; with many methods and measures some such verdicts are chance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import stdtrit

LEVEL = 0.05
QUESTIONS = (
    ("test loss", "lowest test loss"),
    ("test Ina", "lowest inaccuracy on test"),
    ("test |gap|", "smallest gap on test"),
    ("train |gap|", "smallest gap on train"),
    ("test Ind", "lowest independence gap on test"),
    ("test Sp", "lowest separation gap on test"),
    ("test Sf", "lowest sufficiency gap on test"),
    ("test W1", "smallest Wasserstein distance between the groups' predictions on test"),
)
PAIRS = (("test Ind", "test Ina"), ("test Sp", "test Ina"))


def findings(study: dict[str, Any], numbers: dict[str, Any]) -> list[dict[str, Any]]:
    """One entry per question: {"question", "winner", "value", "tied": methods not told apart, "text"}.

    numbers: method -> {"columns": column -> {seed: value}, "n"} of one data set.
    """
    titles = {m: study["methods"][m]["title"] for m in numbers}
    bound = study["bound"]
    out: list[dict[str, Any] | None] = []
    within = {m: int(sum(told["columns"]["train within the bound"].values())) for m, told in numbers.items()}
    always = [m for m, told in numbers.items() if within[m] == told["n"]]
    counts = ", ".join(f"{titles[m]} {within[m]} of {numbers[m]['n']}" for m in numbers)
    out.append({
        "question": f"within {bound:g} on train at the end", "winner": None, "value": None, "tied": always,
        "text": f"Runs whose reported model is within {bound:g} on the training rows: {counts}.",
    })  # fmt: skip
    for column, question in QUESTIONS:
        out.append(_best(numbers, titles, column, question, list(numbers)))
    if always:
        for column, question in QUESTIONS[:2]:
            asked = f"{question} among the methods within the bound in every run"
            out.append(_best(numbers, titles, column, asked, always))
    out.append(_noise(numbers, titles))
    out.append(_fastest(numbers, titles, bound))
    for pair in PAIRS:
        out.append(_dominance(numbers, titles, pair))
    return [f for f in out if f is not None]


def _values(told: dict[str, Any], column: str) -> dict[int, float]:
    return {seed: v for seed, v in told["columns"].get(column, {}).items() if v is not None}


def _mean(told: dict[str, Any], column: str) -> float | None:
    known = list(_values(told, column).values())
    return float(np.mean(known)) if known else None


def _best(
    numbers: dict[str, Any], titles: dict[str, str], column: str, question: str, among: list[str]
) -> dict[str, Any] | None:
    means = {m: mean for m in among if (mean := _mean(numbers[m], column)) is not None}
    if not means:
        return None
    winner = min(means, key=means.__getitem__)
    tied = [m for m in means if m != winner and not apart(numbers[m], numbers[winner], column)]
    text = f"{question[0].upper()}{question[1:]}: {titles[winner]} ({means[winner]:.4f})"
    rest = sorted((m for m in means if m != winner and m not in tied), key=means.__getitem__)
    if tied and len(tied) == len(means) - 1 > 1:
        text += ", not told apart from any other"
    elif tied:
        names = ", ".join(f"{titles[m]} ({means[m]:.4f})" for m in sorted(tied, key=means.__getitem__))
        text += f", not told apart from {names}"
    elif rest:
        text += f", before {titles[rest[0]]} ({means[rest[0]]:.4f})"
    return {"question": question, "winner": winner, "value": means[winner], "tied": tied, "text": text + "."}


def apart(one: dict[str, Any], other: dict[str, Any], column: str) -> bool:
    """Whether a paired t test at 5 % tells two methods apart; False below 3 runs of the same seeds."""
    a, b = _values(one, column), _values(other, column)
    seeds = sorted(set(a) & set(b))
    if len(seeds) < 3:
        return False
    difference = np.array([a[s] - b[s] for s in seeds])
    error = difference.std(ddof=1) / np.sqrt(len(seeds))
    return bool(abs(difference.mean()) > stdtrit(len(seeds) - 1, 1 - LEVEL / 2) * error)


def _fastest(numbers: dict[str, Any], titles: dict[str, str], bound: float) -> dict[str, Any]:
    column = "seconds to the bound"
    reached = {m: _values(told, column) for m, told in numbers.items()}
    medians = {m: float(np.median(list(by.values()))) for m, by in reached.items() if len(by) == numbers[m]["n"]}
    question = f"soonest within {bound:g} on train, by the mean over 10 evaluations"
    if not medians:
        return {
            "question": question, "winner": None, "value": None, "tied": [],
            "text": f"No method came within {bound:g} on train, by the mean over 10 evaluations, in every run.",
        }  # fmt: skip
    order = sorted(medians, key=medians.__getitem__)
    listed = ", ".join(f"{titles[m]} {medians[m]:.2f} s" for m in order)
    return {
        "question": question, "winner": order[0], "value": medians[order[0]], "tied": [],
        "text": f"Soonest within {bound:g} on train by the mean over 10 evaluations, median of runs, among methods "
                f"that get there in every run: {listed}.",
    }  # fmt: skip


def _noise(numbers: dict[str, Any], titles: dict[str, str]) -> dict[str, Any] | None:
    """What of the test gaps is noise: a normal variable of mean 0 has mean size sqrt(2 / pi) standard deviations."""
    losses = {m: loss for m, told in numbers.items() if (loss := _mean(told, "test loss")) is not None}
    least = min(losses, key=losses.__getitem__, default=None)
    error = None if least is None else _mean(numbers[least], "test SE")
    if least is None or error is None:
        return None
    floor = float(np.sqrt(2 / np.pi) * error)
    return {
        "question": "the part of the test gap that is sampling noise", "winner": None, "value": floor, "tied": [],
        "text": f"A model with equal expected losses in both groups, as sure of itself as {titles[least]}, which has the lowest test "
                f"loss, would still show a mean gap of {floor:.4f} on as many test rows (standard error {error:.4f}).",
    }  # fmt: skip


def _dominance(numbers: dict[str, Any], titles: dict[str, str], pair: tuple[str, str]) -> dict[str, Any]:
    """Who has both means below another's (one of them strictly), and who nobody dominates."""
    known: dict[str, list[float]] = {}
    for m, told in numbers.items():
        means = [mean for c in pair if (mean := _mean(told, c)) is not None]
        if len(means) == len(pair):
            known[m] = means
    beaten = {
        m: [o for o in known if known[m] != known[o] and all(a <= b for a, b in zip(known[m], known[o], strict=True))]
        for m in known
    }
    words = " and ".join(c.removeprefix("test ") for c in pair)
    best = max(beaten, key=lambda m: len(beaten[m]), default=None)
    if best is not None and beaten[best] and len(beaten[best]) == len(known) - 1:
        text = f"{titles[best]} dominates every other row in ({words}) on test."
    else:
        left = [m for m in known if not any(m in others for others in beaten.values())]
        names = ", ".join(titles[m] for m in left)
        text = f"No row dominates every other in ({words}) on test; not dominated: {names}."
    winner = best if best is not None and len(beaten[best]) == len(known) - 1 else None
    return {
        "question": f"dominance in ({words}) on test", "winner": winner, "value": None, "tied": [], "dominated": beaten,
        "text": text,
    }  # fmt: skip
