"""`objective=` of the classifier and `--objective` of the command line: what is minimised, kept and refused."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

import fairbound as fb
from fairbound.base.errors import DataError, OptionError
from fairbound.cli.app import main

MOST_STEPS = "800 steps"


def conflict(seed, n=600):
    """A large group whose label follows x, and a small one whose label is against it."""
    rng = np.random.default_rng(seed)
    group = np.where(rng.random(n) < 0.85, "large", "small")
    x = rng.normal(size=n)
    sign = np.where(group == "large", 1.0, -1.0)
    y = (rng.random(n) < 1 / (1 + np.exp(-2 * sign * x))).astype(int)
    return pd.DataFrame({"x": x}), y, group


def losses(model, X, y, group):
    s = model.decision_function(X)
    loss = np.logaddexp(0, np.where(y == 1, -s, s))
    return {g: loss[group == g].mean() for g in np.unique(group)}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_the_worst_off_group_s_loss_is_the_one_minimised(seed):
    """The groups want opposite slopes. Slope 0 gives both log 2; no line gives the worse one less than log 2 less what a
    constant gains, while the mean loss follows the large group."""
    X, y, group = conflict(seed)
    least = fb.FairClassifier(objective="largest_group_loss", budget=MOST_STEPS).fit(X, y, group)
    mean = fb.FairClassifier(objective="loss").fit(X, y, group)
    assert max(losses(least, X, y, group).values()) < np.log(2) + 0.01
    assert max(losses(mean, X, y, group).values()) > np.log(2) + 0.2
    assert least.fit_report_["train_loss"] == pytest.approx(max(losses(least, X, y, group).values()), rel=1e-4)


def test_it_is_stored_untouched_and_kept_in_the_model_folder(tmp_path):
    X, y, group = conflict(0)
    stated = "largest_group_loss[by=group]"
    model = fb.FairClassifier(objective=stated, budget="50 steps")
    assert model.objective is stated and clone(model).objective == stated
    model.fit(X, y, {"group": group}).save(tmp_path / "model")
    loaded = fb.FairClassifier.load(tmp_path / "model")
    assert loaded.objective == stated
    assert (loaded.decision_function(X) == model.decision_function(X)).all()
    fb.FairClassifier(budget="50 steps").fit(X, y).save(tmp_path / "plain")
    assert fb.FairClassifier.load(tmp_path / "plain").objective == "auto"


@pytest.mark.parametrize(
    "options",
    [{}, {"objective": "accuracy"}, {"class_weight": "balanced"}, {"loss": "hinge"}, {"loss": "squared"}, {"model": "mlp:4", "validation": 0},
     {"use_groups_at_prediction": True}, {"group_terms": True}, {"model": "mlp:4", "validation": 0.3}],
)  # fmt: skip
@pytest.mark.parametrize("weighted", [pytest.param(False, marks=pytest.mark.long), True])
@pytest.mark.filterwarnings("ignore:One threshold for each group costs accuracy")
def test_the_report_has_the_accuracy_that_score_has(options, weighted):
    X, y, group = conflict(1)
    weight = np.random.default_rng(0).uniform(0, 3, len(y)) if weighted else None
    model = fb.FairClassifier("demographic_parity <= 0.3", budget="30 steps", random_state=0, **options)
    model.fit(X, y, sensitive_features=group, sample_weight=weight)
    scored = model.score(X, y, weight, **({"sensitive_features": group} if model.needs_groups else {}))
    near = 0.1 if model.fit_report_["validation_rows"] else 1e-6  # then of the rows that were trained on alone
    assert model.fit_report_["accuracy"] == pytest.approx(scored, abs=near)


def test_squares_are_of_the_labels_between_which_scores_are_decided():
    """Drawn to 0 and 1, nearly all scores would be decided positive."""
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(800, 3)), rng.integers(0, 2, 800)
    y = (X[:, 0] + 0.5 * rng.normal(size=800) > 0.8).astype(int)
    A = np.column_stack([X, np.ones(800)])
    lowest = np.mean((A @ np.linalg.lstsq(A, 2.0 * y - 1, rcond=None)[0] > 0) == y)
    module = torch.nn.Linear(3, 1)
    for options in ({}, {"algorithm": "alm"}, {"model": module}):
        made = fb.FairClassifier(
            "demographic_parity <= 0.2", loss="squared", random_state=0, budget="400 steps", **options
        )
        assert made.fit(X, y, sensitive_features=group).score(X, y) > lowest - 0.02
    s = torch.tensor([0.3, -2.0, 1.5])
    dual = fb.optim.Dual("demographic_parity <= 0.2", group_names=["a", "b"], loss="squared")
    assert float(dual.loss(s, torch.tensor([1, 0, 0]), [0, 1, 0])) == pytest.approx((0.7**2 + 1 + 2.5**2) / 3)
    for bound, labels in (("demographic_parity <= 0.2", 2 * y - 1), ("loss_gap <= 9", y)):
        problem = fb.formulate(module, "squared", (X.astype(np.float32), y), group, bound)
        weight, bias = np.split(x := problem.start((0,)).numpy(), [3])
        assert float(problem.evaluate(torch.tensor(x)).f) == pytest.approx(
            np.mean((X @ weight + bias - labels) ** 2), rel=1e-5
        )


def test_the_report_of_more_classes_has_the_accuracy_that_score_has():
    X, y, _ = conflict(1)
    y = y + (X["x"].to_numpy() > 1)
    model = fb.FairClassifier("recall of class 1 >= 0.1", validation=0, budget="200 steps", random_state=0).fit(X, y)
    assert model.fit_report_["accuracy"] == pytest.approx(model.score(X, y), abs=1e-6)


def test_what_it_cannot_be_is_refused():
    X, y, group = conflict(0)
    with pytest.raises(DataError, match=r"largest_group_loss.*sensitive_features"):
        fb.FairClassifier(objective="largest_group_loss").fit(X, y)
    with pytest.raises(OptionError, match="unknown objective"):
        fb.FairClassifier(objective="fewest").fit(X, y, group)
    with pytest.raises(OptionError, match="two classes"):
        fb.FairClassifier(objective="accuracy").fit(X, np.arange(len(y)) % 3)
    with pytest.raises(OptionError, match="two objectives"):
        fb.FairClassifier(objective="largest_group_loss", objective_class=1).fit(X, y, group)


def test_the_loss_of_one_class_is_minimised_on_all_rows_at_once():
    """It was refused, as two objectives, where algorithm= named the method."""
    X, y, group = conflict(1)

    def recall(**options):
        model = fb.FairClassifier("demographic_parity <= 0.3", algorithm="full_batch_alm", budget="20 steps", **options)
        return model.fit(X, y, group).predict(X)[y == 1].mean()

    assert recall(objective_class=1) > recall(objective="loss")


def test_the_command_line_takes_it_with_and_without_bounds(tmp_path, capsys):
    X, y, group = conflict(0)
    X.assign(group=group, y=y).to_csv(tmp_path / "rows.csv", index=False)
    base = ["fit", "--data", str(tmp_path / "rows.csv"), "--label", "y", "--group", "group", "--budget", "20 steps"]
    for name, more in (
        ("alone", []),
        ("bounded", ["--constraint", "demographic_parity <= 0.5"]),
        ("class", ["--constraint", "recall of class 1 >= 0.1"]),
    ):
        code = main([*base, "--objective", "largest_group_loss", *more, "--out", str(tmp_path / name)])
        assert code in (0, 1, 3), capsys.readouterr().err
        manifest = json.loads((tmp_path / name / "model" / "model.json").read_text())
        assert "largest_group_loss" in json.dumps(manifest)
    assert main([*base, "--objective", "smallest", "--out", str(tmp_path / "bad")]) == 2
    assert "unknown objective 'smallest'" in capsys.readouterr().err
