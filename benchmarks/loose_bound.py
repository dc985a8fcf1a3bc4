"""What a bound costs that does not bind: accuracy of linear models under bounds too loose to matter, and without any.

For each table and split (those of frontier_vs_fairlearn.py) `FairClassifier` is fitted without bounds and under each of LOOSE, which the model
without bounds meets by far, with its defaults, and straight in every number without weight decay with objective="loss", which is logistic
regression. Printed: the mean accuracy over splits of scikit-learn's LogisticRegression and of ours without bounds, and the largest
change under a loose bound, of the mean and of one split, on the training rows and on those held out.
"""

from __future__ import annotations

import argparse
import warnings

from frontier_vs_fairlearn import OURS, TABLES, library_split
from sklearn.linear_model import LogisticRegression

from fairbound import FairClassifier

LOOSE = ("demographic_parity <= 1", "demographic_parity <= 0.6", "equalized_odds <= 0.6")
FORMS = {"default": {}, "logistic regression": OURS["fairbound straight"] | {"objective": "loss"}}
PARTS = ("train", "test")


def accuracies(model, data) -> list[float]:
    """On the training and on the held-out rows."""
    return [float((model.predict(getattr(data, f"X_{of}")) == getattr(data, f"y_{of}")).mean()) for of in PARTS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--data", default=",".join(list(TABLES)[:5]), help="comma-separated subset of " + ", ".join(TABLES)
    )
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for table in args.data.split(","):
        splits = [library_split(table, seed) for seed in range(args.seeds)]
        peer = [accuracies(LogisticRegression(max_iter=2000).fit(d.X_train, d.y_train), d) for d in splits]
        for name, form in FORMS.items():
            of = {
                bound: [
                    accuracies(
                        FairClassifier(bound or (), **form).fit(d.X_train, d.y_train, sensitive_features=d.group_train),
                        d,
                    )
                    for d in splits
                ]
                for bound in ("", *LOOSE)
            }
            for i, part in enumerate(PARTS):
                mean = lambda rows: sum(r[i] for r in rows) / len(rows)  # noqa: B023, E731
                lost = max(mean(of[""]) - mean(of[bound]) for bound in LOOSE)
                worst = max(a[i] - b[i] for bound in LOOSE for a, b in zip(of[""], of[bound], strict=True))
                print(f"{table} {part}, {name}: {mean(of['']):.4f} without bounds (scikit-learn {mean(peer):.4f}), "
                      f"at most {lost:.4f} lower under a loose bound ({worst:.4f} in one split)", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
