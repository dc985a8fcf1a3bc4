"""Choose the bound by cross-validation: scikit-learn passes the sensitive feature to every fold."""

from sklearn import set_config
from sklearn.model_selection import GridSearchCV

import fairbound as fb

set_config(enable_metadata_routing=True)
data = fb.data.load("loanapp")
X, race = data.without("race").features, data.group("race")

fair = fb.FairClassifier(random_state=0)
bounds = {"constraint": [f"demographic_parity <= {b}" for b in (0.02, 0.05, 0.1)]}
search = GridSearchCV(fair, bounds, scoring="roc_auc", cv=3).fit(X, data.y, sensitive_features=race)
for stated, score in zip(bounds["constraint"], search.cv_results_["mean_test_score"], strict=True):
    print(f"{stated:<28} AUC {score:.4f}")
