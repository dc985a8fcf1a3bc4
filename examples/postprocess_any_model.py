"""Thresholds for each group on top of a model of any library: scikit-learn, XGBoost, LightGBM, or scores in a column.

    python examples/postprocess_any_model.py

The model is fitted on one part of the rows, the thresholds on a second, and both are judged on a third. Decisions need the
group of every row; docs/postprocessing.md says where the law does not allow that.
"""

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fairbound as fb

BOUND = "demographic_parity <= 0.05"

data = fb.data.load("loanapp")
part = data.split(seed=0, test=0.3, validation=0.3, stratify="group,label")
train, choose, held = part["train"], part["validation"], part["test"]
X, y = np.nan_to_num(data.without("race").X), data.y
group = np.where(np.isin(data.group("race").astype(str), ["black", "hispanic"]), "minority", "other")

models = {
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression()),
    "boosted trees of scikit-learn": HistGradientBoostingClassifier(max_depth=3, max_iter=60),
}
try:
    from xgboost import XGBClassifier

    models["XGBoost"] = XGBClassifier(max_depth=3, n_estimators=60, n_jobs=1)
except ImportError:
    print("xgboost is not installed; skipped")
try:
    from lightgbm import LGBMClassifier

    models["LightGBM"] = LGBMClassifier(max_depth=3, n_estimators=60, n_jobs=1, verbose=-1)
except ImportError:
    print("lightgbm is not installed; skipped")


def shown(decisions, rows):
    value = fb.measure(BOUND, decisions, y[rows], group[rows])
    return f"difference {value:.4f}, accuracy {(decisions == y[rows]).mean():.4f}"


for name, model in models.items():
    model.fit(X[train], y[train])
    fair = fb.PostProcessor(model, BOUND).fit(X[choose], y[choose], sensitive_features=group[choose])
    facts = fair.fit_report_
    print(f"\n{name}, {BOUND}")
    print(f"  thresholds chosen on {facts['rows']} rows: accuracy {facts['accuracy']:.4f}, and no thresholds, mixed or not, "
          f"reach more than {facts['accuracy_bound']:.4f}")  # fmt: skip
    print(f"  held out, the model alone: {shown(model.predict(X[held]), held)}")
    print(f"  held out, with thresholds: {shown(fair.predict(X[held], sensitive_features=group[held]), held)}")

# Scores in a column need no model at all; the rule is a few numbers that can be written down.
scores = model.predict_proba(X)[:, 1]
fair = fb.PostProcessor(None, BOUND).fit(scores[choose], y[choose], sensitive_features=group[choose])
for g in fair.fit_report_["groups"]:
    print(f"\n{g['group']}: positive where the score is above {g['thresholds'][0]:.4f} "
          f"({g['selection_rate']:.1%} of {g['rows']} rows)", end="")  # fmt: skip
print()
