"""Two attributes, crossed, with unknown values: bounded where known, judged on held-out rows, shown as a page."""

import fairbound as fb

data = fb.data.load("loanapp")
part = data.split(seed=0, test=0.25, stratify="group,label")
train, held = part["train"], part["test"]
X = data.without("race", "sex").features
minority = ["minority" if r in ("black", "hispanic") else r for r in data.group("race")]
groups = fb.Groups.of({"race": minority, "sex": data.group("sex")})

fair = fb.FairClassifier("demographic_parity[crossed] <= 0.1", random_state=0)
fair.fit(X.iloc[train], data.y[train], sensitive_features=groups.take(train))
audit = fb.audit(
    fair.decision_function(X.iloc[held]), data.y[held], groups.take(held), fair.constraint, threshold=0,
    title="Approvals by race and sex", trajectory=fair.trajectory_, notes=fair.fit_report_["notes"],
)  # fmt: skip
print(fb.report.table(audit))
fb.report.write_audit(audit, "two-attributes")
