"""Draw the pictures of the gallery from the embedded sample: python docs/pictures.py (about a minute)."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("agg")
import matplotlib.pyplot as plt

import fairbound as fb

IMAGES = Path(__file__).resolve().parent / "img"
COLOURS = ("#3f51b5", "#e07a1f", "#2a9d5c")
matplotlib.rcParams |= {
    "svg.hashsalt": "fairbound",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def rows():
    data = fb.data.load("loanapp")
    part = data.split(seed=0, test=0.25, stratify="group,label")
    X, race = data.without("race").features, data.group("race")
    return X, data.y, race, part["train"], part["test"]


def saved(figure, name: str) -> None:
    figure.tight_layout()
    figure.savefig(IMAGES / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)


def price() -> None:
    """Accuracy on held-out rows at each bound, and the difference there."""
    X, y, race, train, held = rows()
    bounds, accuracy, gaps = [0.01, 0.02, 0.03, 0.05, 0.08, 0.12], [], []
    for bound in bounds:
        model = fb.FairClassifier(f"demographic_parity <= {bound}").fit(X.iloc[train], y[train], race[train])
        accuracy.append(model.score(X.iloc[held], y[held]))
        scores = model.decision_function(X.iloc[held])
        gaps.append(fb.measure("demographic_parity", scores, y[held], race[held], threshold=0))
    figure, left = plt.subplots(figsize=(5, 3))
    left.plot(bounds, accuracy, "o-", color=COLOURS[0])
    left.set(xlabel="bound on the difference of approval rates", ylabel="accuracy on held-out rows")
    right = left.twinx()
    right.plot(bounds, gaps, "s--", color=COLOURS[1])
    right.set_ylabel("difference on held-out rows", color=COLOURS[1])
    saved(figure, "price")


def before_and_after() -> None:
    """Approval rates of the groups with their intervals, without a bound and with one."""
    X, y, race, train, held = rows()
    figure, axes = plt.subplots(1, 2, figsize=(6, 3), sharey=True)
    for axis, stated in zip(axes, (None, "demographic_parity <= 0.03"), strict=True):
        model = fb.FairClassifier(stated).fit(X.iloc[train], y[train], race[train] if stated else None)
        scores = model.decision_function(X.iloc[held])
        table = fb.metrics.table("selection_rate", scores, y[held], {"race": race[held]}, threshold=0)
        for i, (group, values) in enumerate(table.by_group["race"].items()):
            value, (low, high) = values["selection_rate"], table.intervals["race"][group]["selection_rate"]
            axis.errorbar(i, value, [[value - low], [high - value]], fmt="o", color=COLOURS[i], capsize=4)
        axis.set_xticks(range(len(table.by_group["race"])), list(table.by_group["race"]))
        axis.set_title(f"{stated or 'no bound'}\naccuracy {model.score(X.iloc[held], y[held]):.3f}", fontsize=9)
    axes[0].set_ylabel("approval rate, held-out rows, 95 %")
    saved(figure, "before-and-after")


def training() -> None:
    """The loss and the bound's value over the rounds of training."""
    X, y, race, train, _ = rows()
    model = fb.FairClassifier("demographic_parity <= 0.03").fit(X.iloc[train], y[train], race[train])
    way = model.trajectory_
    figure, axes = plt.subplots(1, 2, figsize=(6, 2.6))
    axes[0].plot(way["steps"], way["loss"], color=COLOURS[0])
    axes[0].set(xlabel="round", ylabel="loss")
    ((text, values),) = way["constraints"].items()
    axes[1].plot(way["steps"], np.array(values, dtype=float), color=COLOURS[1])
    axes[1].axhline(way["bounds"][text], color="grey", lw=1, ls="--")
    axes[1].set(xlabel="round", ylabel="difference of approval rates")
    saved(figure, "training")


if __name__ == "__main__":
    for draw in (price, before_and_after, training):
        draw()
