"""Gradient-boosted trees trained under a bound: XGBoost and LightGBM with an objective of their own.

    pip install 'fairbound[boosting]'
    python examples/boosted_trees_under_a_bound.py                  the embedded sample, a few seconds
    python examples/boosted_trees_under_a_bound.py adult sex        a named data set and one of its attributes

Both libraries ask an objective for the slope and the curvature of the loss in every row's score. Here the loss is that of
`fairbound.optim.Dual`, log loss plus weighted bounds, and autograd gives its slopes; the multipliers move after every round,
outside the trees. They swing, so that the last round may end above the bound: of all rounds that meet it on the training
rows the most accurate is kept. No group is needed at prediction. Trees that learn their rows by heart meet a bound there
that new rows do not keep: take shallow ones, and judge them on rows held out.
"""

import sys

import numpy as np
import torch

import fairbound as fb
from fairbound.optim import Dual

ROUNDS = 150
LARGEST = 0.03
BOUND = f"demographic_parity <= {LARGEST}"


class UnderBound:
    """The objective of a booster: (scores, data) -> slopes and curvatures, (n,) each."""

    def __init__(self, y, groups):
        self.dual = Dual(BOUND, groups=groups, targets=y, dual_every=1, memory=len(y), decay_steps=1e9)
        self.y, self.group = torch.tensor(y), self.dual.encode(groups)
        self.groups, self.seen, self.rounds, self.most = groups, 0, ROUNDS, -1.0

    def __call__(self, scores, data):
        self.keep(np.asarray(scores))
        s = torch.tensor(np.asarray(scores), dtype=torch.float64, requires_grad=True)
        (len(s) * self.dual.loss(s, self.y, self.group)).backward()
        self.dual.step()  # before the next round the multipliers follow the decisions of this one
        p = torch.sigmoid(s.detach())
        curvature = torch.maximum(p * (1 - p), s.grad.abs() / 2)  # so that no row asks for a step above 2
        return s.grad.numpy(), curvature.numpy()

    def keep(self, scores):
        """Remember how many rounds gave these scores, if no more accurate ones met the bound."""
        y = self.y.numpy()
        accuracy = ((scores > 0) == y).mean()
        if self.seen and accuracy > self.most and fb.measure(BOUND, scores, y, self.groups, threshold=0) <= LARGEST:
            self.rounds, self.most = self.seen, accuracy
        self.seen += 1


def with_xgboost(X, y, objective):
    import xgboost

    settings = {"max_depth": 2, "eta": 0.1, "base_score": 0.0, "nthread": 1}
    if objective is None:
        settings |= {"objective": "binary:logitraw", "base_score": 0.5}  # 0.5 is a probability there, a score of 0
    made = xgboost.train(settings, xgboost.DMatrix(X, y), ROUNDS, obj=objective)
    kept = (0, getattr(objective, "rounds", ROUNDS))
    return lambda rows: made.predict(xgboost.DMatrix(rows), output_margin=True, iteration_range=kept)


def with_lightgbm(X, y, objective):
    import lightgbm

    settings = {
        "max_depth": 2,
        "learning_rate": 0.1,
        "objective": (lambda scores, data: objective(scores, data)) if objective else "binary",  # objects are copied
        "num_threads": 1,
        "verbose": -1,
    }
    made = lightgbm.train(settings, lightgbm.Dataset(X, y), ROUNDS)
    kept = getattr(objective, "rounds", ROUNDS)
    return lambda rows: made.predict(rows, raw_score=True, num_iteration=kept)


name, attribute = sys.argv[1:] if len(sys.argv) > 2 else ("loanapp", "race")
data = fb.data.load(name)
part = data.split(seed=0, test=0.25, stratify="group,label", group=attribute)
train, held = part["train"], part["test"]
X, y = np.asarray(data.without(attribute).X), data.y
group = data.group(attribute)
if name == "loanapp":  # few black and few hispanic applicants, so that they are one group
    group = np.where(np.isin(group.astype(str), ["black", "hispanic"]), "minority", "other")

for library, fit in (("xgboost", with_xgboost), ("lightgbm", with_lightgbm)):
    try:
        __import__(library)
    except ImportError:
        print(f"{library} is not installed; skipped")
        continue
    for words, objective in (("without the bound", None), ("under the bound", UnderBound(y[train], group[train]))):
        scores = fit(X[train], y[train], objective)
        found = []
        for rows in (train, held):
            s = scores(X[rows])
            value = fb.measure("demographic_parity", s, y[rows], group[rows], threshold=0)
            found.append(f"difference {value:.4f}, accuracy {((s > 0) == y[rows]).mean():.4f}")
        print(f"{library:<9} {words:<18} training rows: {found[0]}; held out: {found[1]}")
