"""What other packages do in the situations of `failures.py`, through their own documented calls.

Each function gives whether the answer was right by the case's rule, and what happened. Packages are imported where they are used.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import warnings
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn import config_context
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

MODULES = {
    "fairlearn": "fairlearn",
    "fairret": "fairret",
    "torchmetrics": "torchmetrics",
    "libauc": "libauc",
    "humancompatible-train": "humancompatible",
    "cooper": "cooper",
}
Found = tuple[bool, str]


def installed() -> dict[str, bool]:
    """Which peers are there."""
    return {name: importlib.util.find_spec(module) is not None for name, module in MODULES.items()}


def table(rows: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x (n, 2), y (n,) in {0, 1}, two groups of which one has more positives."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], rows)
    x = rng.normal(size=(rows, 2)) + (group == "a")[:, None]
    return x, (x.sum(1) + rng.normal(size=rows) > 1).astype(int), group


def fairret_absent() -> Found:
    from fairret.loss import NormLoss
    from fairret.statistic import PositiveRate

    one_hot = torch.tensor([[1.0, 0.0], [1.0, 0.0]])  # no row of the second group
    value = float(NormLoss(PositiveRate())(torch.tensor([[2.0], [-2.0]]), one_hot))
    return value == 0 or math.isnan(value), f"penalty {value:g}"


def torchmetrics_absent() -> Found:
    from torchmetrics.classification import BinaryGroupStatRates

    metric = BinaryGroupStatRates(num_groups=3)
    found = metric(torch.tensor([0.9, 0.1, 0.2]), torch.tensor([1, 0, 0]), torch.tensor([1, 1, 2]))
    first = [float(v) for v in found["group_0"]]
    return all(map(math.isnan, first)), f"group 0, which has no row: {first}"


def libauc_no_positives() -> Found:
    from libauc.losses import AUCMLoss

    value = float(AUCMLoss(version="v2")(torch.tensor([[0.3], [0.2]]), torch.zeros(2, 1)))
    return math.isfinite(value), f"loss {value:g}"


def fairret_no_positives() -> Found:
    from fairret.loss import NormLoss
    from fairret.statistic import TruePositiveRate

    try:
        value = float(NormLoss(TruePositiveRate())(torch.tensor([[2.0], [-2.0]]), torch.eye(2), torch.zeros(2, 1)))
    except NotImplementedError as error:
        return False, f"NotImplementedError: {str(error)[:60]}"
    return math.isfinite(value), f"penalty {value:g}"


def fairlearn_no_positives() -> Found:
    from fairlearn.metrics import equal_opportunity_difference

    value = equal_opportunity_difference([1, 0, 0, 0], [1, 0, 1, 0], sensitive_features=["a", "a", "b", "b"])
    return math.isnan(value), f"difference {value:g}"


def _hc_steps(values: list[list[float]], **options: Any) -> torch.Tensor:
    from humancompatible.train.dual_optim import ALM

    dual = ALM(m=len(values[0]), lr=0.1, penalty=1.0, **options)
    for constraints in values:
        dual.forward_update(torch.tensor(1.0, requires_grad=True), torch.tensor(constraints, requires_grad=True))
    return dual.duals.detach()


def hc_nan() -> Found:
    duals = _hc_steps([[0.1], [math.nan], [0.1]], is_ineq=True)
    return bool(torch.isfinite(duals).all()), f"multipliers {duals.tolist()}"


def cooper_nan() -> Found:
    import cooper

    multiplier = cooper.multipliers.DenseMultiplier(num_constraints=1)
    part = cooper.Constraint(
        constraint_type=cooper.ConstraintType.INEQUALITY,
        multiplier=multiplier,
        formulation_type=cooper.formulations.Lagrangian,
    )
    x = torch.nn.Parameter(torch.tensor(1.0))
    values = iter([1.0, math.nan, 1.0])

    class Problem(cooper.ConstrainedMinimizationProblem):
        def __init__(self) -> None:
            super().__init__()
            self.part = part

        def compute_cmp_state(self) -> Any:
            state = cooper.ConstraintState(violation=(x * next(values)).reshape(1))
            return cooper.CMPState(loss=x.square(), observed_constraints={self.part: state})

    problem = Problem()
    optimizer = cooper.optim.SimultaneousOptimizer(
        cmp=problem,
        primal_optimizers=torch.optim.SGD([x], lr=0.1),
        dual_optimizers=torch.optim.SGD(problem.dual_parameters(), lr=0.1, maximize=True),
    )
    for _ in range(3):
        optimizer.roll()
    weight = multiplier.weight.detach()
    return bool(torch.isfinite(weight).all()), f"multipliers {weight.tolist()}"


def hc_out_of_reach() -> Found:
    duals = _hc_steps([[4.0]] * 2000, is_ineq=True)
    return False, f"silent; multiplier {float(duals.max()):g}, the end of its range"


def fairlearn_out_of_reach() -> Found:
    """Constant predictions meet every difference, so the bound is one that they meet too: an upper bound on the loss."""
    from fairlearn.reductions import BoundedGroupLoss, ExponentiatedGradient, ZeroOneLoss

    x, y, group = table()
    bound = BoundedGroupLoss(ZeroOneLoss(), upper_bound=0.001)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = ExponentiatedGradient(LogisticRegression(), bound, max_iter=5).fit(x, y, sensitive_features=group)
    spoken = [str(w.message) for w in said if "bound" in str(w.message) or "feasib" in str(w.message)]
    return bool(spoken), f"{spoken[0][:60] if spoken else 'silent'}; gap {model.best_gap_:.3g}"


def hc_satisfied() -> Found:
    duals = _hc_steps([[-0.2, -0.3]] * 5)
    return not duals.any(), f"multipliers {[round(v, 4) for v in duals.tolist()]}"


def hc_checkpoint() -> Found:
    from humancompatible.train.dual_optim import ALM

    five = ALM(m=5)
    try:
        five.load_state_dict(ALM(m=2).state_dict())
    except Exception as error:
        return True, f"{type(error).__name__}: {str(error)[:60]}"
    return False, f"m = 2 loads into m = 5 without a word: multipliers {five.duals.tolist()}"


def hc_options() -> Found:
    from humancompatible.train.dual_optim import ALM

    accepted = []
    for options in ({"lr": -1.0}, {"momentum": -3.0}, {"foo": 1}):
        with contextlib.suppress(TypeError, ValueError):
            ALM(m=2, **options)
            accepted.append(str(options))
    return not accepted, f"accepted: {accepted or 'none'}"


def fairlearn_unseen() -> Found:
    from fairlearn.postprocessing import ThresholdOptimizer

    x, y, group = table()
    model = ThresholdOptimizer(estimator=LogisticRegression(), predict_method="predict_proba").fit(
        x, y, sensitive_features=group
    )
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        decided = model.predict(x[:3], sensitive_features=["a", "b", "new"], random_state=0)
    spoken = [str(w.message) for w in said if "group" in str(w.message) or "new" in str(w.message)]
    return bool(spoken), f"decided {np.asarray(decided).tolist()}, {spoken[0][:60] if spoken else 'without a word'}"


def fairlearn_habits() -> Found:
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient

    x, y, group = table()
    frame, text = pd.DataFrame(x, columns=["one", "two"], dtype="float32"), np.where(y == 1, "yes", "no")
    with config_context(enable_metadata_routing=True):
        model = ExponentiatedGradient(LogisticRegression(), DemographicParity(), max_iter=3)
        try:
            fitted = make_pipeline(StandardScaler(), model).fit(frame, text, sensitive_features=group)
            labels = sorted(set(fitted.predict(frame)))
        except Exception as error:
            return False, f"{type(error).__name__}: {str(error).splitlines()[0][:60]}"
    return labels == ["no", "yes"], f"labels {labels}"


def fairlearn_twice() -> Found:
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient

    x, y, group = table()
    model = ExponentiatedGradient(LogisticRegression(), DemographicParity(difference_bound=0.01))
    model.fit(x, y, sensitive_features=group)
    changed = int((model.predict(x, random_state=0) != model.predict(x, random_state=1)).sum())
    return changed == 0, f"{changed} of {len(y)} decisions change"


def fairlearn_boosting() -> Found:
    from fairlearn.metrics import demographic_parity_difference
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient

    x, y, group = table(2000, seed=1)
    model = ExponentiatedGradient(
        GradientBoostingClassifier(n_estimators=10), DemographicParity(difference_bound=0.01), max_iter=10
    )
    model.fit(x[:1000], y[:1000], sensitive_features=group[:1000])
    gaps = [
        demographic_parity_difference(
            y[rows], model.predict(x[rows], random_state=0), sensitive_features=group[rows], method="to_overall"
        )
        for rows in (slice(1000), slice(1000, None))
    ]
    return bool(gaps[1] <= 0.01), f"train {gaps[0]:.3f}, held out {gaps[1]:.3f}, no verdict on held-out rows"
