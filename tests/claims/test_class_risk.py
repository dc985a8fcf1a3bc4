"""Bounds on the recall of classes: their words, their arithmetic, training under them, and the verdict on new rows."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse, stats
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning
from torch import nn

import fairbound as fb
from fairbound.base.errors import DataError, DataWarning, EmptyGroupError, OptionError
from fairbound.cli import app as cli
from fairbound.estimators import training
from fairbound.fairness.objectives import ClassLoss
from fairbound.fairness.pointwise import CROSS_ENTROPY, LOGISTIC, WRONG_CLASS, class_error
from fairbound.fairness.problem import FairProblem
from fairbound.models.model import MLP, ModuleModel
from fairbound.optim import Dual
from fairbound.problems.wrappers import DualRows
from fairbound.report import audit_page, schema
from fairbound.solver.solve import solve
from fairbound.testing import check_gradient

SURROGATES = ["sigmoid", "hinge", "clipped", "loss"]
QUICK = "400 steps"


def three(n: int = 900, seed: int = 0, spread: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Features (n, 3) and labels "a", "b", "c" (60, 30 and 10 %) around the corners of a triangle."""
    rng = np.random.default_rng(seed)
    y = rng.choice(3, n, p=[0.6, 0.3, 0.1])
    corners = np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 1.7]])
    X = np.column_stack([corners[y] + spread * rng.normal(size=(n, 2)), rng.normal(size=n)])
    return X, np.array(["a", "b", "c"])[y]


def recall(fitted: fb.FairClassifier, X, y, label) -> float:
    return float((fitted.predict(X)[y == label] == label).mean())


# -- words ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["b", "3", "very bad", ">50K", "<=50K", "a, b", "x=1", "ä"])
def test_text_gives_the_object_back(label):
    for kind, bound, surrogate, sharpness in product(
        ("recall", "error"), (0, 0.95, 1, 1 / 3, 1e-7), SURROGATES, (1.0, 0.5, 3)
    ):
        made = fb.ClassRisk(label, **{kind: bound}, surrogate=surrogate, sharpness=sharpness)
        assert fb.constraint(made.text) == made and fb.constraint(made) is made
        assert hash(fb.constraint(made.text)) == hash(made)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("recall of class b >= 0.95", fb.ClassRisk(class_="b", recall=0.95)),
        (" recall  of class 3 ≥ .95 ", fb.ClassRisk(3, recall=0.95)),
        ("recall[b] >= 0.95", fb.ClassRisk("b", recall=0.95)),
        ("error[ b ]<=5e-2", fb.ClassRisk("b", error=0.05)),
        ("error of class b <= 0.05", fb.ClassRisk("b", error=0.05)),
        ("recall[a, b] >= 0.5", fb.ClassRisk("a, b", recall=0.5)),
        ("recall[b,surrogate=hinge, sharpness=3] >= 0.5", fb.ClassRisk("b", recall=0.5, surrogate="hinge", sharpness=3)),
        ("error of class b [surrogate=loss] <= 0.5", fb.ClassRisk("b", error=0.5, surrogate="loss")),
    ],
)  # fmt: skip
def test_what_people_write(text, expected):
    assert fb.constraint(text) == expected


def test_a_number_and_its_text_are_one_class_and_a_recall_is_an_error_bound():
    assert fb.ClassRisk(3, recall=0.9) == fb.ClassRisk("3", recall=0.9) == fb.ClassRisk(3.0, recall=0.9)
    assert fb.ClassRisk(True, recall=0.9).class_ == "True"
    stated = fb.ClassRisk("b", recall=0.95)
    assert (stated.bound, stated.stated, stated.sense, stated.text) == (
        0.05,
        0.95,
        "at least",
        "recall of class b >= 0.95",
    )
    error = torch.tensor([0.25])
    assert stated.value_of(error, None) == 0.75 and fb.ClassRisk("b", error=0.05).value_of(error, None) == 0.25


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("recall of class b <= 0.95", "bounded from below"),
        ("error of class b >= 0.05", "from above"),
        ("recall of class b >= 1.5", r"\[0, 1\], got 1.5"),
        ("error[b] <= -0.1", r"\[0, 1\], got -0.1"),
        ("recall of class b >= nan", r"\[0, 1\]"),
        ("recall of class b >= most", "not a number"),
        ("recall of class >= 0.9", "write it like"),
        ("recall >= 0.9", "write it like"),
        ("recall[] >= 0.9", "label"),
        ("recall[b,surrogate=tanh] >= 0.9", "surrogate"),
        ("recall[b,sharpness=0] >= 0.9", "sharpness"),
        ("recal of class b >= 0.9", "cannot read"),
    ],
)
def test_what_cannot_be_read(text, said):
    with pytest.raises(OptionError, match=said):
        fb.constraint(text)


def test_one_bound_is_stated():
    for bounds in ({}, {"recall": 0.9, "error": 0.1}):
        with pytest.raises(OptionError, match="one bound"):
            fb.ClassRisk("b", **bounds)


# -- arithmetic -----------------------------------------------------------------------------------------------


STATED = [
    "recall of class 2 >= 0.9",
    ["recall[0] >= 0.9", "error[2] <= 0.2", "recall[2] >= 0.7"],
    ["recall[0,surrogate=hinge] >= 0.9", "recall[1,surrogate=clipped,sharpness=2] >= 0.9", "recall[2,sharpness=3] >= 0.8"],
    ["recall[1,surrogate=loss] >= 0.3", "recall[0] >= 0.9"],
]  # fmt: skip


def problem_of(stated, outputs=3, model=None, **options):
    X, labels = three(40, seed=1)
    y = np.searchsorted(["a", "b", "c"], labels) % (outputs if outputs > 1 else 2)
    made = model or MLP(3, (), outputs)
    loss = "cross_entropy" if outputs > 1 else "logistic"
    return FairProblem(made, X, y, None, stated, **{"loss": loss, "dtype": torch.float64, **options})


def _module():
    torch.manual_seed(3)
    return ModuleModel(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3)).double(), 3)


@pytest.mark.parametrize("stated", STATED, ids=str)
@pytest.mark.parametrize("model", ["linear", "mlp", "module"])
def test_verbs_agree_with_central_differences(stated, model):
    made = {"linear": lambda: MLP(3, (), 3), "mlp": lambda: MLP(3, (5,), 3), "module": _module}[model]()
    check_gradient(lambda: problem_of(stated, model=made), batch_size=9, points=1)


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_verbs_agree_for_two_classes_and_for_one_class_as_objective(surrogate):
    stated = [f"recall[1,surrogate={surrogate}] >= 0.9", f"error[0,surrogate={surrogate},sharpness=2] <= 0.2"]
    check_gradient(lambda: problem_of(stated, outputs=1), kinds=("balanced", "full"), batch_size=8, points=2)
    for options in (
        {"objective": ClassLoss(0)},
        {"objective": ClassLoss("1"), "sample_weight": np.linspace(0.5, 2, 40)},
    ):
        check_gradient(lambda o=options: problem_of(stated, outputs=1, **o), kinds=("balanced", "full"), points=1)
        check_gradient(lambda o=options: problem_of("recall[2] >= 0.9", **o), kinds=("balanced", "full"), points=1)


@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("sharpness", [1.0, 2.5])
def test_two_scores_say_what_one_says(surrogate, sharpness):
    """With class scores (0, s) the softmax is the logistic function of s, and the margin of class 1 is s."""
    s = torch.linspace(-4.01, 4.03, 60, dtype=torch.float64)
    two = torch.stack([torch.zeros_like(s), s], -1)
    for y in (torch.zeros_like(s), torch.ones_like(s)):
        one = class_error(surrogate, sharpness, LOGISTIC) if surrogate != "loss" else LOGISTIC
        pair = class_error(surrogate, sharpness, CROSS_ENTROPY) if surrogate != "loss" else CROSS_ENTROPY
        torch.testing.assert_close(pair.value(two, y), one.value(s, y), rtol=0, atol=1e-12)
        torch.testing.assert_close(pair.slope(two, y)[:, 1], one.slope(s, y), rtol=0, atol=1e-12)
        torch.testing.assert_close(WRONG_CLASS.value(two, y), ((s > 0) != (y > 0.5)).to(s.dtype), rtol=0, atol=0)


def test_the_sigmoid_surrogate_is_one_minus_the_probability_of_the_own_class():
    s = torch.randn(50, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y = torch.arange(50) % 4
    for t in (1.0, 3.0):
        expected = 1 - torch.softmax(t * s, -1)[torch.arange(50), y]
        torch.testing.assert_close(class_error("sigmoid", t, CROSS_ENTROPY).value(s, y), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("surrogate", ["sigmoid", "hinge", "clipped"])
def test_the_error_of_class_1_is_made_of_the_pieces_of_equal_opportunity(surrogate):
    """Error of class 1 = sum over groups of (its share of the positives) x (1 - its true positive rate), and so for the
    surrogates that are odd around their value at 0."""
    X, labels = three(300, seed=2)
    y, group = (labels == "b").astype(int), np.random.default_rng(0).choice(["f", "m", "x"], 300)
    options = f"surrogate={surrogate},sharpness=1.5"
    stated = [f"error[1,{options}] <= 0.1", f"equal_opportunity[{options}] <= 0.1"]
    problem = FairProblem(MLP(3, (4,)), X, y, group, stated, dtype=torch.float64)
    x = problem.start([4])
    share = np.array([np.mean(group[y == 1] == g) for g in ("f", "m", "x")])
    batch = problem.full()
    for true in (True, False):
        if surrogate == "hinge" and not true:
            continue  # [1 - s]_+ is not 1 - [1 + s]_+
        kinds = problem._true if true else problem._functions
        scores = problem.model.scores(x, problem.features)
        phi = problem._phi(kinds, scores, batch)
        cells = dict(zip(problem.plan.cell_names, batch.row_sums.means(phi).tolist(), strict=True))
        rates = np.array([cells[f"{g} | y=1"] for g in ("f", "m", "x")])
        assert cells["class 1"] == pytest.approx(share @ (1 - rates), abs=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_measured_value_is_the_definition(weighted):
    X, labels = three(200, seed=3)
    y = np.searchsorted(["a", "b", "c"], labels)
    w = np.random.default_rng(1).exponential(size=200) if weighted else np.ones(200)
    stated = ["recall of class c >= 0.9", "error of class a <= 0.05"]
    problem = FairProblem(MLP(3, (4,), 3), X, y, None, stated, classes=["a", "b", "c"], loss="cross_entropy",
                          dtype=torch.float64, sample_weight=w if weighted else None, objective=ClassLoss("b"))  # fmt: skip
    x = problem.start([0])
    scores = problem.model.scores(x, torch.as_tensor(X)).numpy()
    right = scores.argmax(1) == y
    measured = problem.evaluate(x)
    of_c, of_a = (np.average(right[y == k], weights=w[y == k]) for k in (2, 0))
    assert [float(v) for v in problem.stated_values(measured)] == pytest.approx([of_c, 1 - of_a], abs=1e-12)
    assert measured.g.tolist() == pytest.approx([0.9 - of_c, (1 - of_a) - 0.05], abs=1e-12)
    loss = -np.log(np.exp(scores)[np.arange(200), y] / np.exp(scores).sum(1))
    assert float(measured.f) == pytest.approx(np.average(loss[y == 1], weights=w[y == 1]), abs=1e-12)
    assert problem.names == ("recall: class c", "error: class a")


# -- training -------------------------------------------------------------------------------------------------


def test_a_linear_neyman_pearson_problem_reaches_its_exact_optimum():
    """Hinge loss over class 0 subject to a mean hinge of at most 0.35 over class 1 is a linear programme, solved by HiGHS.

    The method's last iterate is feasible for it to 0.001 and within 0.5 % of its value.
    """
    X, labels = three(400, seed=5)
    y = (labels == "b").astype(int)
    n, d = X.shape
    sign, bound = 2 * y - 1, 0.35
    rows = np.hstack([X, np.ones((n, 1))])
    # variables: weights and intercept, then one hinge per row; t_i >= 1 - sign_i (w x_i), t_i >= 0
    cost = np.concatenate([np.zeros(d + 1), (y == 0) / (y == 0).sum()])
    hinge = np.hstack([-sign[:, None] * rows, -np.eye(n)])
    limit = np.concatenate([np.zeros(d + 1), (y == 1) / (y == 1).sum()])
    exact = linprog(cost, np.vstack([hinge, limit]), np.concatenate([-np.ones(n), [bound]]),
                    bounds=[(None, None)] * (d + 1) + [(0, None)] * n, method="highs")  # fmt: skip
    assert exact.status == 0
    problem = FairProblem(MLP(d), X, y, None, fb.ClassRisk(1, error=bound, surrogate="hinge", sharpness=1), loss="hinge",
                          objective=ClassLoss(0), dtype=torch.float64)  # fmt: skip
    method = fb.ALM(
        dual_values="surrogate",
        margin=0,
        dual_rows=0,
        step_size=0.3,
        dual_step_size=3,
        dual_every=5,
        decay=0.7,
        decay_steps=300,
    )
    found = fb.solve(problem, method, budget="2500 steps", sampling="full")
    at = problem.values(found.last, problem.full())
    assert float(at.g[0]) < 0.001
    assert float(at.f) == pytest.approx(exact.fun, rel=0.005)


def test_bounds_on_three_classes_are_met_and_cost_accuracy():
    X, y = three(1000)
    new_X, new_y = three(3000, seed=9)
    free = fb.FairClassifier(validation=0).fit(X, y)
    assert recall(free, X, y, "c") < 0.8
    for bound, stated in (
        (0.9, "recall of class c >= 0.9"),
        (0.8, [fb.ClassRisk("c", error=0.2), "recall of class b >= 0.7"]),
    ):
        fair = fb.FairClassifier(stated).fit(X, y)
        assert fair.fit_report_["feasible"] and recall(fair, X, y, "c") >= bound - 0.02
        assert free.score(new_X, new_y) > fair.score(new_X, new_y) > 0.6


def test_scores_labels_and_probabilities_are_those_of_scikit_learn():
    X, y = three()
    for labels in (y, np.searchsorted(["a", "b", "c"], y) - 1, pd.Series(y)):
        fair = fb.FairClassifier(fb.ClassRisk(np.asarray(labels)[0], recall=0.5), model="mlp:4", budget=QUICK).fit(
            X, labels
        )
        scores, p = fair.decision_function(X), fair.predict_proba(X)
        assert fair.classes_.tolist() == sorted(set(labels)) and scores.shape == p.shape == (900, 3)
        assert np.array_equal(fair.predict(X), fair.classes_[scores.argmax(1)])
        np.testing.assert_allclose(p.sum(1), 1)
        np.testing.assert_allclose(np.log(p) - np.log(p[:, :1]), scores - scores[:, :1], atol=1e-6)
    two = fb.FairClassifier("recall of class b >= 0.5", budget=QUICK).fit(X[y != "c"], y[y != "c"])
    assert two.decision_function(X).shape == (900,) and two.predict_proba(X).shape == (900, 2)


def test_tables_sparse_rows_and_modules_are_taken_and_equal_seeds_give_equal_bits():
    X, y = three()
    stated = "recall of class c >= 0.5"
    frame = fb.FairClassifier(stated, budget=QUICK).fit(pd.DataFrame(X, columns=["u", "v", "w"]), y)
    again = fb.FairClassifier(stated, budget=QUICK).fit(pd.DataFrame(X, columns=["u", "v", "w"]), y)
    assert torch.equal(frame.x_, again.x_)
    thin = sparse.csr_matrix(np.where(np.abs(X) < 0.5, 0, X))
    assert fb.FairClassifier(stated, budget=QUICK).fit(thin, y).decision_function(thin).shape == (900, 3)
    module = fb.FairClassifier(stated, model=nn.Linear(3, 3), budget=QUICK).fit(X, y)
    assert module.score(X, y) > 0.6
    with pytest.raises(OptionError, match=r"give 3 scores per row, \(rows, 3\)"):
        fb.FairClassifier(stated, model=nn.Linear(3, 1), budget=QUICK).fit(X, y)


def test_a_class_bound_and_a_group_bound_hold_together_on_two_classes():
    X, labels = three(3000)
    y, sex = (labels == "b").astype(int), np.where(X[:, 2] > 0, "f", "m")
    stated = ["recall of class 1 >= 0.85", "demographic_parity <= 0.1"]
    fair = fb.FairClassifier(stated, validation=0).fit(X, y, sensitive_features=sex)
    chosen = fair.predict(X)
    assert fair.fit_report_["feasible"] and (chosen[y == 1] == 1).mean() >= 0.85
    assert abs(chosen[sex == "f"].mean() - chosen[sex == "m"].mean()) <= 0.1 + 1e-6
    audit = fb.audit(fair.decision_function(X), y, sex, stated, threshold=0)
    assert [c["value"] for c in audit["constraints"]] == pytest.approx(
        [c["train_value"] for c in fair.fit_report_["constraints"]], abs=1e-5
    )


def test_one_class_as_the_objective_is_neyman_pearson():
    """With the loss of class a alone, a's error falls below what it is with the loss of all rows, under the same bound."""
    X, labels = three(3000)
    X, y = X[labels != "c"], labels[labels != "c"]
    stated = "recall of class b >= 0.7"
    alone = fb.FairClassifier(stated, objective_class="a", validation=0).fit(X, y)
    assert alone.fit_report_["feasible"] and 0.7 <= recall(alone, X, y, "b") < 0.74
    assert recall(alone, X, y, "a") >= recall(fb.FairClassifier(stated, validation=0).fit(X, y), X, y, "a")
    with pytest.raises(OptionError, match="there is no class 'z'"):
        fb.FairClassifier(stated, objective_class="z").fit(X, y)


def test_bounds_that_exclude_each_other_are_said_with_the_smallest_excess():
    X, y = three(600, spread=3.0)
    few = pytest.warns(DataWarning, match="class c .* one error already breaks the bound")
    with few, pytest.warns(ConvergenceWarning, match="no iterate met every bound"):
        fair = fb.FairClassifier([f"recall of class {k} >= 0.99" for k in "abc"], budget=QUICK).fit(X, y)
    assert not fair.fit_report_["feasible"] and "smallest excess" in fair.fit_report_["message"]
    certain = fb.FairClassifier("recall of class c >= 1", budget="1500 steps").fit(X, y)
    assert recall(certain, X, y, "c") == 1


def test_a_model_that_fits_only_its_own_rows_is_not_said_to_meet_the_bounds():
    """Labels without any relation to 400 features: separable on 480 rows, a coin toss on the 120 held back."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 400)), np.repeat(["a", "b"], 300)
    with pytest.warns(ConvergenceWarning, match="on the training and the validation rows"):
        fair = fb.FairClassifier(["recall of class a >= 0.8", "recall of class b >= 0.8"], budget="500 steps").fit(X, y)
    assert not fair.fit_report_["feasible"]
    assert any("missed by more than chance explains" in w for w in fair.fit_report_["warnings"])


def test_few_rows_of_a_class():
    X, y = three(300)
    y[:] = np.where(y == "c", "a", y)
    y[7] = "c"
    with pytest.warns(DataWarning, match="only 1 training rows of the class, one error already breaks the bound"):
        one = fb.FairClassifier("recall of class c >= 0.9", budget=QUICK).fit(X, y)
    assert one.fit_report_["validation_rows"] == 0 and recall(one, X, y, "c") == 1
    assert any("only 1 training rows of the class" in w for w in one.fit_report_["warnings"])
    with pytest.raises(EmptyGroupError, match="'class c'"):
        fb.FairClassifier("recall of class c >= 0.9", budget=QUICK, validation=0.2).fit(X, y)
    with pytest.raises(EmptyGroupError, match="no row has the label '1'"):
        FairProblem(MLP(3, (), 3), X, np.where(y == "b", 2, 0), None, "recall[1] >= 0.5", loss="cross_entropy")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"constraint": "recall of class cc >= 0.9"}, "there is no class 'cc'; did you mean 'c'"),
        ({"constraint": "demographic_parity <= 0.1"}, "needs two classes.*3 values, 'a', 'b', 'c'"),
        ({"constraint": "equalized_odds <= 0.1"}, "needs two classes"),
        ({"positive": "a"}, "needs two classes"),
        ({"loss": "hinge"}, "is for two classes"),
    ],
)
def test_what_three_classes_cannot_have(options, said):
    X, y = three(300)
    with pytest.raises((OptionError, DataError), match=said):
        fb.FairClassifier(**{"budget": QUICK, **options}).fit(X, y, sensitive_features=np.where(X[:, 0] > 0, "f", "m"))


def test_three_classes_can_have_a_bound_on_the_loss_of_groups():
    X, y = three()
    sex = np.where(X[:, 0] > 0, "f", "m")
    fair = fb.FairClassifier("loss_gap <= 0.1", budget=QUICK, validation=0).fit(X, y, sensitive_features=sex)
    losses = -np.log(fair.predict_proba(X)[np.arange(900), np.searchsorted(fair.classes_, y)])
    gap = abs(losses[sex == "f"].mean() - losses[sex == "m"].mean())
    assert fair.fit_report_["feasible"] and gap <= 0.1 + 1e-6
    assert fair.fit_report_["constraints"][0]["train_value"] == pytest.approx(gap, abs=1e-6)


def test_dual_and_problems_refuse_what_they_cannot_train():
    assert Dual("recall of class 1 >= 0.9", groups=[0, 1] * 20, targets=[0, 1, 1, 0] * 10).names == ("recall: class 1",)
    with pytest.raises(OptionError, match="there is no class '2'"):
        Dual("recall of class 2 >= 0.9", groups=[0, 1, 0, 1], targets=[0, 1, 1, 0])
    with pytest.raises(DataError, match="recall of class 0 >= "):
        FairProblem(MLP(1), [[1.0], [2.0]], [0.0, 2.0], None, "recall[0] >= 0.9", loss="squared")


@pytest.mark.parametrize("model", ["linear", "mlp:5"])
def test_a_saved_model_gives_the_same_scores(model, tmp_path):
    X, y = three()
    fair = fb.FairClassifier("recall of class c >= 0.5", model=model, budget=QUICK).fit(X, y)
    fair.save(tmp_path / "m")
    again = fb.FairClassifier.load(tmp_path / "m")
    np.testing.assert_array_equal(again.decision_function(X), fair.decision_function(X))
    np.testing.assert_array_equal(again.predict(X), fair.predict(X))
    assert again.constraint == "recall of class c >= 0.5" and again.classes_.tolist() == ["a", "b", "c"]
    assert again.fit_report_ == fair.fit_report_ | {"seconds": None}
    assert not [p for p in (tmp_path / "m").iterdir() if p.suffix not in (".json", ".safetensors")]


def test_multipliers_may_follow_other_rows_than_the_gradient():
    X, labels = three(200, seed=3)
    y = (labels == "b").astype(int)
    make = lambda rows, plan=None: FairProblem(  # noqa: E731
        MLP(3), X[rows], y[rows], None, plan or "recall[1] >= 0.9", dtype=torch.float64
    )
    train = make(slice(0, 120))
    held = make(slice(120, 200), train.plan)
    both = DualRows(train, held)
    x = both.start([0]) + 0.3
    for kind, size in (("balanced", 16), ("full", 0)):
        of_held, of_both = held.sample([0], "dual", 2, size, kind), both.sample([0], "dual", 2, size, kind)
        assert torch.equal(of_both.batch.features, of_held.features) and of_both.size == of_held.size
        assert torch.equal(both.values(x, of_both, true=True).g, held.values(x, of_held, true=True).g)
        primal = [p.sample([0], "primal", 2, size or 16, "balanced").features for p in (train, both)]
        assert torch.equal(*primal)
    assert torch.equal(both.evaluate(x).g, train.evaluate(x).g)


@pytest.mark.parametrize(("stopped", "runs"), [("budget", 3), ("interrupted", 1)])
def test_a_fit_that_meets_no_bound_is_run_again_unless_it_was_interrupted(monkeypatch, stopped, runs):
    done = []

    def counted(problem, method, **options):
        done.append((isinstance(problem, DualRows), options.get("validation") is not None))
        return replace(solve(problem, method, **options), stopped=stopped)

    monkeypatch.setattr(training, "solve", counted)
    X = np.random.default_rng(0).normal(size=(1000, 2))
    y = (np.random.default_rng(1).random(1000) < 0.5).astype(int)
    bounds = ["recall of class 1 >= 0.9", "recall of class 0 >= 0.9"]
    with pytest.warns(ConvergenceWarning):
        fair = fb.FairClassifier(bounds, budget="60 steps").fit(X, y)
    assert done == [(False, True), (True, True), (False, False)][:runs]
    assert not fair.fit_report_["feasible"] and not any("follow" in note for note in fair.fit_report_["notes"])


def test_the_trajectory_is_in_the_units_of_the_bound():
    X, y = three()
    fair = fb.FairClassifier("recall of class c >= 0.5", budget=QUICK, validation=0).fit(X, y)
    features, _ = fair.encode(X)
    last = fair.model_.scores(fair.solution_.last, features).numpy().argmax(1)
    assert fair.trajectory_["bounds"] == {"recall of class c >= 0.5": 0.5}
    curve = fair.trajectory_["constraints"]["recall of class c >= 0.5"]
    assert curve[-1] == pytest.approx((last[y == "c"] == 2).mean(), abs=1e-6)


# -- the verdict ----------------------------------------------------------------------------------------------


def test_limits_are_clopper_pearson_and_recall_mirrors_error():
    y = np.repeat(["a", "b", "c"], [50, 40, 30])
    guess = y.copy()
    guess[[0, 1, 60, 61, 62, 100]] = "b"
    guess[60:63] = "c"
    stated = ["recall of class b >= 0.75", "error of class b <= 0.25", "recall of class a >= 0.99"]
    audit = fb.audit(guess, y, None, stated, confidence=0.94)
    of_b, error, of_a = audit["constraints"]
    interval = stats.binomtest(37, 40).proportion_ci(confidence_level=1 - 2 * 0.06 / 3, method="exact")
    assert (of_b["value"], of_b["lower"], of_b["upper"]) == pytest.approx(
        (37 / 40, interval.low, interval.high), abs=1e-9
    )
    assert [error["value"], error["lower"], error["upper"]] == pytest.approx(
        [1 - of_b["value"], 1 - of_b["upper"], 1 - of_b["lower"]], abs=1e-12
    )
    assert [c["verdict"] for c in audit["constraints"]] == ["met", "met", "insufficient"]
    assert of_a["rows_needed"] > 120 and of_b["groups"] == {"class b": 40}
    assert audit["metrics"] == pytest.approx({"accuracy": 114 / 120, "balanced_accuracy": np.mean([48 / 50, 37 / 40, 29 / 30]),
                                              "lowest_recall": 37 / 40})  # fmt: skip
    assert {g["group"]: g["rates"]["precision"]["value"] for g in audit["groups"]}["b"] == pytest.approx(37 / 40)
    schema.validate(json.loads(json.dumps(audit)))


@pytest.mark.parametrize("n", [20, 80])
@pytest.mark.parametrize("bound", [0.8, 0.95])
def test_a_wrong_verdict_has_at_most_the_stated_chance(n, bound):
    """Over every count of right rows, with its binomial probability: no sampling."""
    y = np.array([1] * n + [0] * 5)
    verdicts = []
    for right in range(n + 1):
        guess = np.array([1] * right + [0] * (n - right) + [0] * 5)
        verdicts.append(fb.audit(guess, y, None, fb.ClassRisk(1, recall=bound), confidence=0.9)["verdict"])
    verdicts = np.array(verdicts)
    for true in np.linspace(0.5, 0.999, 60):
        chance = stats.binom.pmf(np.arange(n + 1), n, true)
        wrong = "met" if true < bound else "violated"
        assert chance[verdicts == wrong].sum() <= 0.1 + 1e-12
    assert "violated" in verdicts and (n < 80 or "met" in verdicts)


def test_labels_scores_and_decisions_get_one_verdict():
    X, y = three()
    fair = fb.FairClassifier("recall of class c >= 0.6", budget=QUICK).fit(X, y)
    by_label = fb.audit(fair.predict(X), y, None, fair.constraint)
    by_score = fb.audit(fair.decision_function(X), y, None, fair.constraint, classes=fair.classes_)
    assert by_label["constraints"] == by_score["constraints"] and by_label["metrics"] == by_score["metrics"]
    two = y != "c"
    pair = fb.FairClassifier("recall of class b >= 0.6", budget=QUICK).fit(X[two], y[two])
    code = (y[two] == "b").astype(int)
    by_logit = fb.audit(pair.decision_function(X[two]), code, None, pair.constraint, classes=pair.classes_, threshold=0)
    words = fb.audit(pair.predict(X[two]), y[two], None, pair.constraint)
    assert by_logit["constraints"] == words["constraints"]
    weighted = fb.audit(fair.predict(X), y, None, fair.constraint, sample_weight=np.full(len(y), 2.0))
    assert weighted["constraints"][0]["lower"] == pytest.approx(by_label["constraints"][0]["lower"], abs=1e-9)


def test_a_class_without_held_out_rows_is_not_enough_evidence():
    audit = fb.audit(
        ["a", "b"] * 50, ["a", "b"] * 50, None, ["recall[c] >= 0.9", "recall[a] >= 0.5"], classes=["a", "b", "c"]
    )
    assert [c["verdict"] for c in audit["constraints"]] == ["insufficient", "met"] and audit["exit_code"] == 3
    assert audit["constraints"][0]["why"] == "No held-out row has the label c."
    assert "No held-out row has the label c" in audit_page(audit)
    unknown = fb.audit(["a", "b", "b"], ["a", "b", "z"], None, "recall[z] >= 0.9", classes=["a", "b"])
    assert unknown["constraints"][0]["value"] == 0  # a class the model never learnt is never recognised
    constant = fb.audit(["a"] * 4, ["a", "b", "a", "c"], None, "recall[a] >= 0.1")
    assert "met trivially" in constant["warnings"][0]


@pytest.mark.parametrize(
    ("scores", "y", "more", "said"),
    [
        (["a", "b"], ["a", "b"], {"constraint": "recall[d] >= 0.5"}, "there is no class 'd'"),
        (["a"], ["a", "b"], {}, "1 rows of predictions and 2 labels"),
        (["a", None], ["a", "b"], {}, "prediction is missing in 1"),
        (["a", "b"], ["a", None], {}, "label is missing in 1"),
        ([0.3, 0.7, 1.2], [0, 1, 2], {}, "fractions"),
        ([], [], {"classes": list("abc")}, "no rows"),
        (np.zeros((2, 3)), ["a", "b"], {}, "Name the class of each"),
        (np.full((2, 3), np.nan), ["a", "b"], {"classes": list("abc")}, "missing or infinite in 2"),
        (["a", "b"], ["a", "b"], {"constraint": "demographic_parity <= 0.1"}, "not numbers|sensitive"),
    ],
)
def test_predictions_that_cannot_be_judged(scores, y, more, said):
    with pytest.raises((DataError, OptionError), match=said):
        fb.audit(scores, y, None, **more)


def test_the_page_says_which_side_of_the_bound_is_wrong():
    y = np.repeat(["a", "b"], 200)
    guess = np.where(np.arange(400) % 10 == 0, "a", y)
    audit = fb.audit(
        guess, y, None, ["recall of class b >= 0.97", "recall of class a >= 0.9", "error of class b <= 0.2"]
    )
    assert [c["verdict"] for c in audit["constraints"]] == ["violated", "met", "met"]
    page, words = audit_page(audit), fb.report.table(audit)
    assert "below the bound 0.97" in words and "within the bound 0.9" in words and "within the bound 0.2" in words
    assert "Audit of a classifier" in page and "Classes" in page and "Precision" in page
    assert "a lower bound (&gt;=) is met when “at least” lies within it" in page


# -- the command line -----------------------------------------------------------------------------------------


def test_fit_and_audit_from_the_command_line_need_no_group(tmp_path, capsys):
    X, y = three(1200)
    pd.DataFrame(X, columns=["u", "v", "w"]).assign(kind=y).to_csv(tmp_path / "rows.csv", index=False)
    base = ["--data", str(tmp_path / "rows.csv"), "--label", "kind"]
    bound = ["--constraint", "recall of class c >= 0.9", "--constraint", "error of class b <= 0.9"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        code = cli.main(["fit", *base, *bound, "--out", str(tmp_path / "o"), "--budget", QUICK, "--json"])
    summary = json.loads(capsys.readouterr().out)
    assert code in (0, 1, 3) and [c["sense"] for c in summary["constraints"]] == ["at least", "at most"]
    audit = json.loads((tmp_path / "o" / "audit.json").read_text())
    schema.validate(audit)
    assert audit["data"]["positive"] is None and audit["data"]["classes"] == ["a", "b", "c"]
    assert [m["name"] for m in audit["comparison"]] == ["constrained", "unconstrained"]
    assert audit["trajectory"]["bounds"]["recall of class c >= 0.9"] == 0.9

    model = str(tmp_path / "o" / "model")
    assert cli.main(["audit", *base, "--model", model, "--out", str(tmp_path / "a")]) in (0, 1, 3)
    assert "file that the model was trained on" in capsys.readouterr().out
    again = json.loads((tmp_path / "a" / "audit.json").read_text())
    assert [c["text"] for c in again["constraints"]] == bound[1::2] and again["data"]["rows"] == 1200

    guessed = pd.DataFrame(X, columns=["u", "v", "w"]).assign(
        kind=y, guess=fb.FairClassifier.load(model).predict(pd.DataFrame(X, columns=["u", "v", "w"]))
    )
    guessed.to_csv(tmp_path / "guessed.csv", index=False)
    cli.main(["audit", "--data", str(tmp_path / "guessed.csv"), "--label", "kind", "--score", "guess", *bound,
              "--out", str(tmp_path / "s")])  # fmt: skip
    by_column = json.loads((tmp_path / "s" / "audit.json").read_text())
    assert by_column["constraints"] == again["constraints"]

    capsys.readouterr()
    assert cli.main(["fit", *base, "--out", str(tmp_path / "x")]) == 2
    assert "--group" in capsys.readouterr().err
    assert cli.main(["fit", *base, "--constraint", "recall of class d >= 0.9", "--out", str(tmp_path / "x")]) == 2
    assert "there is no class 'd'" in capsys.readouterr().err


def test_a_named_set_without_groups_is_fitted(data_dir, tmp_path, capsys):
    code = cli.main(["fit", "--data", "pendigits", "--label", "digit", "--constraint", "recall of class 3 >= 0.9", "--out",
                     str(tmp_path), "--data-dir", str(data_dir), "--no-baseline"])  # fmt: skip
    assert code == 0 and "bound met" in capsys.readouterr().out.lower()
    assert cli.main(["fit", "--data", "pendigits", "--constraint", "demographic_parity <= 0.1", "--out", str(tmp_path),
                     "--data-dir", str(data_dir)]) == 2  # fmt: skip
    assert "no sensitive attribute" in capsys.readouterr().err


def test_a_text_without_its_number_takes_the_one_given():
    for text, number in (("recall of class b", 0.9), ("error[b]", 0.1), ("recall of class a [surrogate=hinge]", 0.5)):
        stated = fb.constraint(text, bound=number)
        assert (
            stated.stated == number
            and stated == fb.constraint(stated.text)
            and stated.text.startswith(stated.statement)
        )
    assert fb.constraint("recall of class a<b >= 0.3", bound=0.9).stated == 0.3
    assert fb.constraint("recall of class a<b", bound=0.9).statement == "recall of class a<b"


@pytest.mark.parametrize("bounds", ["recall of class c >= 0.2", "error of class a <= 0.7"])
def test_a_bound_on_a_class_that_costs_nothing_leaves_the_model_as_it_is(bounds):
    X, y = three()
    free, kept = (fb.FairClassifier(stated).fit(X, y) for stated in (None, bounds))
    assert kept.fit_report_["algorithm"] == "full_batch_alm" and kept.fit_report_["feasible"]
    assert any("the bounds cost nothing there" in note for note in kept.fit_report_["notes"])
    assert kept.score(X, y) >= free.score(X, y) - 0.0005
    tight = fb.FairClassifier("recall of class c >= 0.97").fit(X, y)
    assert any("the least added to the scores" in note for note in tight.fit_report_["notes"])
    assert not any("cost nothing" in note for note in tight.fit_report_["notes"])
