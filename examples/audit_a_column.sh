#!/usr/bin/env bash
# Audit the scores of a model that fairbound did not train: here, probabilities of a scikit-learn model in a CSV column.
set -uo pipefail
python - <<'PY'
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import fairbound as fb

data = fb.data.load("loanapp")
X = fb.TableEncoder().fit_transform(data.features)
train, held = train_test_split(range(len(data)), test_size=0.5, random_state=0, stratify=data.group("race"))
model = LogisticRegression(max_iter=1000).fit(X[train], data.y[train])
scored = data.frame.iloc[held][["approve", "race"]].assign(score=model.predict_proba(X[held])[:, 1])
scored.to_csv("scored.csv", index=False)
PY
fairbound audit --data scored.csv --score score --label approve --group race \
  --constraint "demographic_parity <= 0.05" --constraint "equal_opportunity <= 0.05" --out audited
case $? in
  0) echo "met" ;;
  1) echo "violated" ;;
  3) echo "not enough evidence" ;;
  *) exit 1 ;;
esac
