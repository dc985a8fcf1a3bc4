"""Recall of the classes that matter, bounded from below: how often the bound holds on new rows, and what it costs.

    python examples/class_risk.py                                   handwritten digits of scikit-learn, a few seconds
    python examples/class_risk.py pendigits connect-4 mnist-test    named data sets (fairbound datasets fetch NAME)

Five random splits of each set. A model trained to a bound lies near it on new rows, on either side; one trained with half
the error that the bound allows leaves room.
"""

import sys
import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

import fairbound as fb
from fairbound.base.errors import DataWarning

BOUNDS = {
    "digits": [fb.ClassRisk(1, recall=0.95), fb.ClassRisk(8, recall=0.95)],
    "pendigits": [fb.ClassRisk(1, recall=0.95), fb.ClassRisk(9, recall=0.95)],
    "connect-4": [fb.ClassRisk(1, recall=0.9)],
    "mnist-test": [fb.ClassRisk(5, recall=0.95), fb.ClassRisk(8, recall=0.95)],
}
SEEDS = range(5)


def rows_of(name):
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        return fb.data.Dataset(name, X, y, {}, tuple(f"pixel{j}" for j in range(X.shape[1])))
    return fb.data.load(name)


def measure(name, model):
    data, bounds = rows_of(name), BOUNDS[name]
    half = [fb.ClassRisk(b.class_, recall=(1 + b.recall) / 2) for b in bounds]
    print(f"\n{name}, {model}: {', '.join(b.text for b in bounds)}")
    print("  trained under       met on new rows  recall on new rows  accuracy  verdicts")
    for words, stated in (("no bound", None), ("the bounds", bounds), ("half their errors", half)):
        met, recalls, accuracy, verdicts = 0, [], [], []
        for seed in SEEDS:
            part = data.split(seed, test=0.25, stratify="label")
            fair = fb.FairClassifier(stated, model=model, random_state=seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # a bound that no model met is seen in the table
                warnings.simplefilter("ignore", DataWarning)  # pixels that are always blank, classes of few rows
                fair.fit(data.X[part["train"]], data.y[part["train"]])
            audit = fb.audit(fair.predict(data.X[part["test"]]), data.y[part["test"]], None, bounds)
            values = [c["value"] for c in audit["constraints"]]
            met += all(v >= b.recall for v, b in zip(values, bounds, strict=True))
            recalls.append(values)
            accuracy.append(audit["metrics"]["accuracy"])
            verdicts.append(audit["verdict"])
        shown = " ".join(f"{v:.3f}" for v in np.mean(recalls, axis=0))
        counts = ", ".join(f"{verdicts.count(v)} {v}" for v in ("met", "insufficient", "violated") if v in verdicts)
        print(f"  {words:<19} {met} of {len(SEEDS):<10}  {shown:<18}  {np.mean(accuracy):.4f}    {counts}")


for asked in sys.argv[1:] or ["digits"]:
    for kind in ("linear", "mlp:64") if sys.argv[1:] else ("linear",):
        measure(asked, kind)
