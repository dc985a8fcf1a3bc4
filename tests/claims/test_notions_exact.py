"""Every notion's value is its definition: in training, in the exact metric and in the verdict, against loops over groups."""

from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.base.errors import EmptyGroupError
from fairbound.fairness.compiled.statistics import RowFunction
from fairbound.fairness.notions import NOTIONS, constraint
from fairbound.fairness.objectives import ClassLoss
from fairbound.fairness.pointwise import LOGISTIC
from fairbound.fairness.problem import FairProblem
from fairbound.fairness.scored import Scored
from fairbound.models.mlp import MLP
from fairbound.rows.groups import Groups
from fairbound.testing import check_gradient

# name -> for each value: (rows counted, rows among which), of label and decision; a Fraction of weights
DEFINITIONS = {
    "demographic_parity": [(lambda y, d: d, lambda y, d: 1)],
    "conditional_demographic_parity": [(lambda y, d: d, lambda y, d: 1)],
    "demographic_parity_ratio": [(lambda y, d: d, lambda y, d: 1)],
    "equal_opportunity": [(lambda y, d: y * d, lambda y, d: y)],
    "true_positive_rate_ratio": [(lambda y, d: y * d, lambda y, d: y)],
    "predictive_equality": [(lambda y, d: (1 - y) * d, lambda y, d: 1 - y)],
    "false_positive_rate_ratio": [(lambda y, d: (1 - y) * d, lambda y, d: 1 - y)],
    "equalized_odds": [(lambda y, d: y * d, lambda y, d: y), (lambda y, d: (1 - y) * d, lambda y, d: 1 - y)],
    "error_rate_parity": [(lambda y, d: y != d, lambda y, d: 1)],
    "false_negative_rate_parity": [(lambda y, d: y * (1 - d), lambda y, d: y)],
    "predictive_parity": [(lambda y, d: y * d, lambda y, d: d)],
    "false_omission_rate_parity": [(lambda y, d: y * (1 - d), lambda y, d: 1 - d)],
    "f1_parity": [(lambda y, d: 2 * y * d, lambda y, d: y + d)],
    "treatment_equality": [(lambda y, d: y * (1 - d), lambda y, d: (1 - y) * d)],
}
LOWER_IS_BETTER = ("predictive_equality", "error_rate_parity", "false_negative_rate_parity", "false_omission_rate_parity",
                   "treatment_equality", "loss_gap")  # fmt: skip


def rows(seed=0, n=400):
    """Rows of two attributes, one with missing values, and a third that others are compared within."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    sex = rng.choice(["F", "M"], n)
    race = rng.choice(np.array(["a", "b", "c", None], dtype=object), n, p=[0.4, 0.3, 0.2, 0.1])
    y = (rng.random(n) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    return X, y, {"sex": sex, "race": race}


def values_of(stated, y, d, loss, at, weight):
    """The values of the rows `at`: one for each rate, or each label of a loss."""
    name = stated.name
    if name in DEFINITIONS:
        out = []
        for counted, among in DEFINITIONS[name]:
            above = sum(weight[i] * float(counted(y[i], d[i])) for i in at)
            below = sum(weight[i] * float(among(y[i], d[i])) for i in at)
            out.append(above / below if below else np.nan)
        return out
    labels = {None: [(0, 1)], 1: [(1,)], 0: [(0,)], "both": [(1,), (0,)]}[stated.given]
    capped = np.minimum(loss, np.inf if stated.largest is None else stated.largest)
    return [np.average([capped[i] for i in at if y[i] in chosen], weights=[weight[i] for i in at if y[i] in chosen])
            for chosen in labels]  # fmt: skip


def definition(stated, y, d, loss, columns, weight):
    """The measured value of a bound, by loops over groups."""
    names = list(columns)
    given = getattr(stated, "given", None) if stated.name.startswith("conditional") else None
    compared = [a for a in names if a != given]
    sets = {"each": [(a,) for a in compared], "crossed": [tuple(compared)]}.get(stated.attributes, [stated.attributes])
    found = []
    for chosen in sets:
        for stratum in sorted(set(columns[given])) if given else [None]:
            label = [
                None if any(columns[a][i] is None for a in chosen) or (given and columns[given][i] != stratum)
                else tuple(columns[a][i] for a in chosen)
                for i in range(len(y))
            ]  # fmt: skip
            known = sorted({v for v in label if v is not None})
            q = {g: values_of(stated, y, d, loss, [i for i, v in enumerate(label) if v == g], weight) for g in known}
            everyone = [i for i, v in enumerate(label) if v is not None]
            overall = values_of(stated, y, d, loss, everyone, weight)
            found += compare(stated, q, overall)
    return min(found) if stated.sense == "at least" else max(found)


def compare(stated, q, overall):
    if stated.name == "group_loss":
        return [v for values in q.values() for v in values]
    if stated.name == "excess_loss":
        return [v - o for values in q.values() for v, o in zip(values, overall, strict=True)]
    if stated.name.endswith("_ratio"):
        return [q[a][0] / q[b][0] for a, b in permutations(q, 2)]
    if stated.against == "overall":
        parts = [[abs(v - o) for v, o in zip(q[g], overall, strict=True)] for g in q]
    elif stated.against == "best":
        best = [min(v) if stated.name in LOWER_IS_BETTER else max(v) for v in zip(*q.values(), strict=True)]
        if stated.name == "equalized_odds":
            best = [max(v[0] for v in q.values()), min(v[1] for v in q.values())]
        parts = [[abs(v - b) for v, b in zip(q[g], best, strict=True)] for g in q]
    else:
        parts = [[abs(v - o) for v, o in zip(q[a], q[b], strict=True)] for a, b in combinations(q, 2)]
    return [sum(p) if getattr(stated, "aggregated", "max") == "sum" else max(p) for p in parts]


STATED = [
    "demographic_parity", "equal_opportunity", "predictive_equality", "equalized_odds", "equalized_odds[sum]",
    "error_rate_parity", "false_negative_rate_parity", "predictive_parity", "false_omission_rate_parity", "f1_parity",
    "treatment_equality", "demographic_parity_ratio", "true_positive_rate_ratio", "false_positive_rate_ratio",
    "conditional_demographic_parity[given=sex]", "loss_gap", "loss_gap[y=1]", "loss_gap[y=both]", "loss_gap[y=both,sum]",
    "loss_gap[largest=0.5]", "group_loss", "group_loss[y=0]", "group_loss[largest=0.6]", "excess_loss",
    "excess_loss[y=0]",
]  # fmt: skip


def all_statements():
    for base in STATED:
        head, _, inside = base.rstrip("]").partition("[")
        for against in ("pairwise", "overall", "best"):
            for attributes in ("each", "crossed", "by=race"):
                words = (
                    [] if head in ("group_loss", "excess_loss", "conditional_demographic_parity") else [against]
                ) + [attributes]
                text = f"{head}[{','.join([inside, *words] if inside else words)}]"
                unfit = ("sum" in inside and against == "best") or (
                    against == "overall" and (head.endswith("_ratio") or head in ("f1_parity", "treatment_equality"))
                )
                if not unfit and (against == "pairwise" or len(words) == 2):
                    yield text


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("text", list(dict.fromkeys(all_statements())))
def test_training_metric_and_verdict_measure_the_definition(text, weighted):
    bound = constraint(text, bound=0.3)
    X, y, columns = rows()
    weight = np.random.default_rng(1).exponential(size=len(y)) if weighted else np.ones(len(y))
    problem = FairProblem(
        MLP(3, (4,)), X, y, columns, bound, dtype=torch.float64, sample_weight=weight if weighted else None
    )
    x = problem.start([3])
    scores = problem.model.scores(x, torch.as_tensor(X)).numpy()
    decision, loss = (scores > 0).astype(int), np.logaddexp(0, scores) - y * scores
    wanted = definition(bound, y, decision, loss, columns, weight)
    measured = problem.evaluate(x)
    (value,) = problem.stated_values(measured)
    assert float(value) == pytest.approx(wanted, abs=1e-12)
    assert bool(measured.violation == 0) == (wanted >= 0.3 if bound.sense == "at least" else wanted <= 0.3)
    assert len(problem.names) == problem.m == len(set(problem.names))
    held = Scored(y, decision, scores=scores, groups=Groups.of(columns), weight=weight if weighted else None)
    assert bound.measure(held) == pytest.approx(wanted, abs=1e-12)
    assert bound.judge(held, 0.05)["value"] == pytest.approx(wanted, abs=1e-12)


SHORT = ["error_rate_parity <= 0.1", "false_negative_rate_parity[best] <= 0.1", "predictive_parity <= 0.1",
         "predictive_parity[overall] <= 0.1", "false_omission_rate_parity <= 0.1", "f1_parity[best] <= 0.1",
         "treatment_equality <= 0.5", "demographic_parity_ratio >= 0.8", "demographic_parity_ratio[best] >= 0.8",
         "false_positive_rate_ratio >= 0.8", "group_loss <= 0.4", "loss_gap[largest=2] <= 0.1",
         "error_rate_parity[surrogate=hinge] <= 0.1", "predictive_parity[surrogate=clipped,sharpness=0.25] <= 0.1",
         "conditional_demographic_parity[given=sex] <= 0.1"]  # fmt: skip


@pytest.mark.parametrize("stated", [*SHORT, SHORT[:1] + SHORT[2:8]], ids=str)
def test_verbs_agree_with_central_differences(stated):
    X, y, columns = rows(n=60)
    make = lambda **kw: FairProblem(MLP(3), X, y, columns, stated, **({"dtype": torch.float64} | kw))  # noqa: E731
    check_gradient(make, kinds=("balanced", "full"), batch_size=40, points=2)
    check_gradient(make, kinds=("balanced",), batch_size=40, seeds=(0, 1), points=1)


@pytest.mark.parametrize("objective", ["largest_group_loss", "largest_group_loss[crossed]"])
def test_the_largest_group_loss_is_the_objective(objective):
    X, y, columns = rows(n=80)
    make = lambda **kw: FairProblem(MLP(3), X, y, columns, "demographic_parity <= 0.1", objective=objective,  # noqa: E731
                                    **({"dtype": torch.float64} | kw))  # fmt: skip
    check_gradient(make, kinds=("balanced", "full"), batch_size=60, points=2)
    problem = make()
    x = problem.start([1])
    loss = np.logaddexp(0, s := problem.model.scores(x, torch.as_tensor(X)).numpy()) - y * s
    bound = constraint("group_loss" + objective.removeprefix("largest_group_loss"), bound=1.0)
    wanted = definition(bound, y, (s > 0).astype(int), loss, columns, np.ones(len(y)))
    assert float(problem.evaluate(x).f) == pytest.approx(wanted, abs=1e-12)
    assert float(problem.values(x, problem.full()).f) == pytest.approx(wanted, abs=1e-12)


def test_training_for_the_largest_group_loss_lowers_it():
    rng = np.random.default_rng(0)
    group = rng.random(4000) < 0.1
    X = rng.normal(size=(4000, 2))
    y = (rng.random(4000) < 1 / (1 + np.exp(-np.where(group, 3 * X[:, 1], 3 * X[:, 0])))).astype(int)
    largest = {}
    for objective in ("loss", "largest_group_loss"):
        problem = FairProblem(MLP(2), X, y, group.astype(str), objective=objective)
        x = fb.solve(problem, "sgd", budget="400 steps", batch_size=256).last
        loss = FairProblem(MLP(2), X, y, group.astype(str), objective="largest_group_loss").evaluate(x).f
        largest[objective] = float(loss)
    assert largest["largest_group_loss"] < largest["loss"] - 0.05


def test_an_undefined_ratio_is_missed_and_never_zero():
    X, y, columns = rows(n=60)
    problem = FairProblem(MLP(3), X, y, columns["sex"], "predictive_parity <= 0.1", dtype=torch.float64)
    x = torch.zeros(problem.n, dtype=torch.float64)
    x[-1] = -5.0  # nobody is predicted positive
    measured = problem.evaluate(x)
    assert float(measured.violation) == 1.0 and bool(torch.isnan(problem.stated_values(measured)[0]))
    held = Scored(y, np.zeros_like(y), scores=np.full(len(y), -5.0), groups=Groups.of(columns["sex"]))
    bound = constraint("predictive_parity <= 0.1")
    assert np.isnan(bound.measure(held))
    found = bound.judge(held, 0.05)
    assert found["value"] is None and found["verdict"] == "insufficient"


@pytest.mark.parametrize("stated", ["treatment_equality <= 0.1", "treatment_equality[best] <= 0.1"])
def test_what_is_undefined_on_a_batch_is_a_constant(stated):
    """Batches without a negative row of some group have no FN / FP of it: g is 1 there, and its slopes 0 in every verb."""
    X, y, columns = rows(n=60)
    problem = FairProblem(MLP(3), X, y, columns, stated, dtype=torch.float64)
    x = problem.start([1])
    undefined = 0
    for k in range(8):
        batch = problem.sample([0], "uniform", k, 6, "uniform")
        evaluation, slopes = problem.jacobian(x, batch)
        constant = torch.isclose(evaluation.g, evaluation.g.new_ones(()), atol=0) & evaluation.seen
        undefined += int(constant.sum())
        assert not slopes[1:][constant].any()
        w = torch.where(constant, 1.0, 0.0).to(x)
        assert not problem.gradient(x, batch, (0.0, w))[1].any()
        assert not problem.jvp(x, batch, torch.ones_like(x))[1:][constant].any()
    assert undefined


@pytest.mark.parametrize("level", [-15.0, -25.0, -60.0])
def test_slopes_of_a_ratio_stay_finite_where_hardly_anybody_is_positive(level):
    """FN / FP in float32 with false positive rates of 1e-7, 1e-11 and 1e-26: values and slopes are numbers, with a multiplier of 100 too."""
    X, y, columns = rows(n=60)
    problem = FairProblem(MLP(3), X, y, columns["sex"], "treatment_equality <= 0.1")
    x = problem.start([1])
    x[-1] = level
    evaluation, slopes = problem.jacobian(x, problem.full())
    assert torch.isfinite(evaluation.g).all() and torch.isfinite((100 * slopes).square().sum())


def test_a_score_of_zero_is_one_decision():
    """At x = 0 every row is predicted negative: half-way surrogates are one thing, decisions another."""
    X, y, columns = rows(n=100)
    for stated, sign in (("error_rate_parity", 0), ("false_negative_rate_parity", 1), ("false_positive_rate_ratio", 1)):
        problem = FairProblem(MLP(3), X, y, columns["sex"], f"{stated} {'>=' if 'ratio' in stated else '<='} 0.1",
                              dtype=torch.float64)  # fmt: skip
        (value,) = problem.stated_values(problem.evaluate(torch.zeros(problem.n, dtype=torch.float64)))
        base = [y[columns["sex"] == g].mean() for g in ("F", "M")]
        wanted = abs(base[0] - base[1]) if not sign else float("ratio" in stated)
        assert float(value) == pytest.approx(wanted, abs=1e-12)
    function = RowFunction(((0, 0), (1, 0))).exact(LOGISTIC)  # false negatives
    zero, one = torch.zeros(2, dtype=torch.float64), torch.tensor([0.0, 1.0], dtype=torch.float64)
    assert function.value(zero, one).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("stated", ["demographic_parity", "equal_opportunity", "predictive_equality", "predictive_parity",
                                    "error_rate_parity", "false_negative_rate_parity", "loss_gap"])  # fmt: skip
def test_the_best_off_group_is_at_no_distance_from_itself(stated):
    """The best-off group has the highest rate, of errors the lowest; its own contrast is 0, and the others' are not."""
    X, y, columns = rows()
    problem = FairProblem(MLP(3), X, y, columns["race"], f"{stated}[best] <= 0.1", dtype=torch.float64)
    x = problem.start([1]) + 0.5
    measured = problem.evaluate(x)
    s = problem.model.scores(x, torch.as_tensor(X)).numpy()
    d, loss = (s > 0).astype(int), np.logaddexp(0, s) - y * s
    rates = {
        g: values_of(constraint(stated, bound=0.1), y, d, loss, np.flatnonzero(columns["race"] == g), np.ones(len(y)))[
            0
        ]
        for g in "abc"
    }
    best = (min if stated in LOWER_IS_BETTER else max)(rates, key=rates.get)
    for name, g in zip(problem.names, measured.g.tolist(), strict=True):
        (group,) = [part for part in name.split(": ")[1].split(" | ")[0].split(" - ") if part != "best"]
        assert g + 0.1 == pytest.approx(abs(rates[group] - rates[best]), abs=1e-12)


def test_a_group_within_no_other_of_its_stratum_is_compared_with_none():
    groups = Groups.of({"sex": list("FFMMFFFF"), "dept": list("aaaabbbb")})
    y, d = np.array([0, 1] * 4), np.array([1, 1, 1, 0, 0, 0, 0, 1])
    bound = constraint("conditional_demographic_parity[given=dept] <= 0.1")
    assert bound.measure(Scored(y, d, groups=groups)) == pytest.approx(0.5)
    with pytest.raises(EmptyGroupError):
        constraint("conditional_demographic_parity[given=sex] <= 0.1").measure(
            Scored(y[4:], d[4:], groups=Groups.of({"sex": list("FFFF"), "dept": list("bbbb")}))
        )


ELSEWHERE = {
    "claims/test_auc_parity.py": {"auc_parity"},
    "claims/test_partial.py": {"partial_statistical_parity", "partial_group_auc", "partial_demographic_parity",
                               "partial_equal_opportunity", "partial_equalized_odds"},
    "unit/fairness/test_class_rates.py": {"class_demographic_parity", "class_recall_parity", "class_equalized_odds",
                                          "class_error_parity"},
    "unit/fairness/test_ranking_problem.py": {"pairwise_parity", "query_pairwise_parity", "exposure_parity"},
    "unit/estimators/test_regressor.py": {"prediction_parity", "residual_gap", "group_squared_error"},
}  # fmt: skip


def test_every_notion_has_a_definition_here():
    """Or in the file that holds its own, which names it."""
    here = set(DEFINITIONS) | {"loss_gap", "group_loss", "excess_loss"}
    known = {n.name for n in NOTIONS.values() if isinstance(n.name, str) and n.__module__.startswith("fairbound.")}
    assert known == here.union(*ELSEWHERE.values())
    for file, names in ELSEWHERE.items():
        text = (Path(__file__).resolve().parents[1] / file).read_text(encoding="utf-8")
        assert all(name in text for name in names), file


@pytest.mark.parametrize("stated", ["predictive_parity <= 0.1", "f1_parity <= 0.1", "treatment_equality <= 0.5"])
@pytest.mark.parametrize("options", [{"objective": "accuracy"}, {"objective": ClassLoss(1)}])
def test_a_ratio_is_the_same_number_whatever_is_minimised(stated, options):
    """Another objective adds quantities before the ratios; the bounds must not read these in their place."""
    rng = np.random.default_rng(0)
    X, y, group = rng.normal(size=(300, 3)), rng.integers(0, 2, 300), rng.choice(["a", "b", "c"], 300)
    x = torch.tensor([0.5, -1.0, 0.3, 0.1], dtype=torch.float64)

    def problem(**more):
        return fb.FairProblem(MLP(3), X, y, group, stated, dtype=torch.float64, **more)

    plain, other = problem(), problem(**options)
    for true in (False, True):
        assert torch.allclose(plain.values(x, plain.full(), true).g, other.values(x, other.full(), true).g, atol=1e-12)
    assert torch.allclose(plain.jacobian(x, plain.full())[1][1:], other.jacobian(x, other.full())[1][1:], atol=1e-12)
