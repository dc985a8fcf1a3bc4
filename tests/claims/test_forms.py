"""The general forms, each by a small bound of its own: a function of means that is no contrast, a statistic of a whole batch,
auxiliary variables, and the recipe of docs/extending.md."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.base.errors import EmptyGroupError, OptionError
from fairbound.cli.bounds import bounds_of_texts
from fairbound.fairness.bound import Bound
from fairbound.fairness.compiled.builder import compile_plan
from fairbound.fairness.compiled.statistics import Rate
from fairbound.fairness.notions import NOTIONS
from fairbound.fairness.pointwise import LOGISTIC, Pointwise
from fairbound.fairness.problem import FairProblem
from fairbound.fairness.scored import Scored
from fairbound.models.mlp import MLP
from fairbound.problems.domain import Box
from fairbound.rows.groups import Groups
from fairbound.rows.occurring import Occurring
from fairbound.testing import check_gradient

ROOT = Path(__file__).resolve().parents[2]


def rows(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    group = rng.choice(["a", "b"], n)
    y = (rng.random(n) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    return X, y, group


@dataclass(frozen=True)
class Power:
    """The row function score^p; the same exactly and in training."""

    p: int

    def trained(self, loss):
        return Pointwise(f"s^{self.p}", lambda s, y: s**self.p, lambda s, y: self.p * s ** (self.p - 1))

    exact = trained


@dataclass(frozen=True)
class Quadratic:
    """E[(h - h' - 1)^2] <= limit of independent scores h, h' of two groups, from means of s and of s^2."""

    first: tuple
    second: tuple
    limit: float
    m = 1
    unbiased = False

    def value(self, q):
        (a, aa), (b, bb) = self.first, self.second
        gap = q[..., a] - q[..., b] - 1
        variance = q[..., aa] - q[..., a] ** 2 + q[..., bb] - q[..., b] ** 2
        return (gap**2 + variance - self.limit).unsqueeze(-1), (q, gap)

    def vjp(self, w, memo):
        (q, gap), ((a, aa), (b, bb)) = memo, (self.first, self.second)
        dq = torch.zeros_like(q)
        dq[..., a] = w[..., 0] * (2 * gap - 2 * q[..., a])
        dq[..., b] = w[..., 0] * (-2 * gap - 2 * q[..., b])
        dq[..., aa] = dq[..., bb] = w[..., 0]
        return dq


class OfTest(Bound):
    """A bound that is only trained under."""

    bound = 0.5
    name = "of_test"
    needs = frozenset({"groups"})


class PairLoss(OfTest):
    def compile(self, builder):
        means, squares = (builder.cells(Power(p), (0,), (None,), lambda: ["a", "b"]) for p in (1, 2))
        cells = [(means.offset + g, squares.offset + g) for g in (0, 1)]
        builder.combine(Quadratic(*cells, self.bound), ["a over b"])


def test_a_combination_of_means_is_the_double_sum():
    X, y, group = rows()
    make = lambda **kw: FairProblem(MLP(3), X, y, group, [PairLoss(), "demographic_parity <= 0.1"],  # noqa: E731
                                    **({"dtype": torch.float64} | kw))  # fmt: skip
    problem = make()
    x = problem.start([2])
    s = problem.model.scores(x, torch.as_tensor(X)).numpy()
    double_sum = np.mean([(h - k - 1) ** 2 for h in s[group == "a"] for k in s[group == "b"]])
    g = dict(zip(problem.names, problem.evaluate(x).g.tolist(), strict=True))
    assert g["of_test: a over b"] == pytest.approx(double_sum - 0.5, abs=1e-12)
    assert problem.m == 3 and not problem.unbiased
    check_gradient(make, kinds=("balanced", "full"), batch_size=40, points=2)
    check_gradient(make, kinds=("full",), batch_size=40, seeds=(0, 1), points=1)


@dataclass(frozen=True)
class Pairs:
    """The mean over all pairs (positive, negative) of a batch of sigmoid(negative - positive)."""

    size = 1
    unbiased = False

    def value(self, scores, z, batch, true):
        positive = batch.targets.expand_as(scores) > 0.5
        both = positive.unsqueeze(-1) & ~positive.unsqueeze(-2)
        away = scores.unsqueeze(-2) - scores.unsqueeze(-1)
        p = torch.where(both, (away > 0).to(scores) if true else torch.sigmoid(away), 0.0)
        count = both.sum((-1, -2))
        return (p.sum((-1, -2)) / count).unsqueeze(-1), (p, count)

    def vjp(self, dq, memo):
        p, count = memo
        slope = p * (1 - p) * (dq / count.unsqueeze(-1)).unsqueeze(-1)
        return slope.sum(-2) - slope.sum(-1), None


class RankingLoss(OfTest):
    def compile(self, builder):
        (number,) = builder.statistic(Pairs())
        builder.contrasts(np.array([[number]]), [1.0], lambda _: "pairs ranked wrongly")


def test_a_statistic_of_a_batch_sees_all_its_rows():
    X, y, group = rows()
    make = lambda **kw: FairProblem(MLP(3), X, y, group, [RankingLoss(), "loss_gap <= 0.1"],  # noqa: E731
                                    **({"dtype": torch.float64} | kw))  # fmt: skip
    problem = make()
    x = problem.start([3])
    s = problem.model.scores(x, torch.as_tensor(X)).numpy()
    wrong = np.mean([n > p for p in s[y == 1] for n in s[y == 0]])
    assert float(problem.evaluate(x).g[0]) == pytest.approx(wrong - 0.5, abs=1e-12)
    check_gradient(make, kinds=("full",), batch_size=40, points=2)
    check_gradient(make, kinds=("full",), batch_size=40, seeds=(0, 1), points=1)


@dataclass(frozen=True)
class AboveThreshold:
    """For each group the mean of sigmoid(s - z), z an auxiliary variable of each group."""

    offset: int
    size = 2
    unbiased = True

    def value(self, scores, z, batch, true):
        away = scores.unsqueeze(-2) - z.unsqueeze(-1)  # (..., 2, B)
        p = (away > 0).to(scores) if true else torch.sigmoid(away)
        inside = torch.stack([(batch.cells[..., 0] == self.offset + g) for g in (0, 1)], -2).to(scores)
        weight = inside / inside.sum(-1, keepdim=True)
        return (p * weight).sum(-1), (p, weight)

    def vjp(self, dq, memo):
        p, weight = memo
        slope = dq.unsqueeze(-1) * p * (1 - p) * weight
        return slope.sum(-2), -slope.sum(-1)


class TopShare(OfTest):
    """Above its own threshold each group has at most the share 0.3 of its rows; the thresholds differ by at most 0.5."""

    def compile(self, builder):
        column = builder.cells(Power(1), (0,), (None,), lambda: ["a", "b"])
        thresholds = builder.auxiliary(2, start=0.25, domain=Box(-2.0, 2.0))
        shares = builder.statistic(AboveThreshold(column.offset))
        builder.contrasts(shares[:, None], [1.0], lambda i: f"share above {i}", bound=0.3)
        builder.contrasts(thresholds[None, :], [1.0, -1.0], lambda _: "thresholds", bound=0.5)


def test_auxiliary_variables_are_trained_beside_the_model():
    X, y, group = rows()
    make = lambda **kw: FairProblem(MLP(3), X, y, group, TopShare(), **({"dtype": torch.float64} | kw))  # noqa: E731
    problem = make()
    assert problem.n == problem.model.n + 2
    x = problem.start([0])
    assert x[-2:].tolist() == [0.25, 0.25]
    assert problem.domain.project(torch.full_like(x, 9.0))[-2:].tolist() == [2.0, 2.0]
    check_gradient(make, kinds=("full",), batch_size=40, points=2)
    check_gradient(make, kinds=("full",), batch_size=40, seeds=(0, 1), points=1)
    solution = fb.solve(problem, "alm", budget="800 steps", sampling="full", batch_size=60)
    z, s = solution.x[-2:].numpy(), problem.all_scores(solution.x).numpy()
    member = problem.cells[:, 0].numpy()
    for g in (0, 1):
        assert np.mean(s[member == g] > z[g]) <= 0.3 + 1e-9
    assert z[0] - z[1] <= 0.5 + 1e-9


def test_jacobian_rows_and_directional_derivatives_agree_beyond_means():
    X, y, group = rows()
    problem = FairProblem(MLP(3), X, y, group, [TopShare(), PairLoss()], dtype=torch.float64)
    x, batch = problem.start([1]) + 0.1, problem.full()
    dx = torch.as_tensor(np.random.default_rng(0).normal(size=problem.n))
    _, jacobian = problem.jacobian(x, batch)
    torch.testing.assert_close(problem.jvp(x, batch, dx), jacobian @ dx, rtol=1e-12, atol=1e-12)
    w = torch.rand(problem.m, dtype=torch.float64)
    _, gradient = problem.gradient(x, batch, (2.0, w))
    torch.testing.assert_close(gradient, 2 * jacobian[0] + w @ jacobian[1:], rtol=1e-12, atol=1e-12)


def test_the_recipe_of_the_docs_is_true():
    text = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    section = text[text.index("## A notion") : text.index("## A data set")]
    names = dict(__name__="recipe")
    try:
        for block in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
            exec(compile(block, "docs/extending.md", "exec"), names)
        X, y, group = rows(400)
        perfect = np.where(y == 1, 3.0, -3.0)
        assert fb.measure("mistake_parity", perfect, y, {"race": group}) == 0.0
        audit = fb.audit(perfect, y, {"race": group}, "mistake_parity <= 0.05", threshold=0)
        assert audit["constraints"][0]["value"] == 0.0 and audit["verdict"] != "violated"
        made = fb.FairClassifier("mistake_parity <= 0.1", budget="200 steps").fit(X, y, sensitive_features=group)
        value = made.fit_report_["constraints"][0]["train_value"]
        scores = made.decision_function(X)
        if made.fit_report_["validation_rows"] == 0:
            assert value == pytest.approx(fb.measure("mistake_parity", scores, y, group), abs=1e-6)
        _average_odds_is_what_its_name_says(X, y, group)
        _calibration_gap_is_what_its_name_says(X, y, group)
        _calm_scores_are_what_their_name_says(names["CalmScores"](), X, y, group)
    finally:
        for name in ("mistake_parity", "average_odds_difference", "calibration_gap"):
            NOTIONS.pop(name, None)


def _calibration_gap_is_what_its_name_says(X, y, group):
    s = 2 * X[:, 1] + (group == "a")
    residual = 1 / (1 + np.exp(-s)) - y
    gap = abs(residual[group == "a"].mean() - residual[group == "b"].mean())
    assert fb.measure("calibration_gap", s, y, group, threshold=0) == pytest.approx(gap, abs=1e-12)
    text, weight = "calibration_gap <= 0.4", np.where(np.arange(len(y)) % 2, 2.0, 0.0)
    found = fb.audit(s, y, group, text, threshold=0)["constraints"][0]
    assert found["value"] == pytest.approx(gap) and found["lower"] < gap < found["upper"]
    assert "guaranteed" in found["method"] and len(found["contrasts"]) == 2
    kept = weight > 0
    weighed = fb.measure("calibration_gap", s, y, group, threshold=0, sample_weight=weight)
    assert weighed == pytest.approx(fb.measure("calibration_gap", s[kept], y[kept], group[kept], threshold=0))
    twice = [np.concatenate([v, v]) for v in (s, y, group)]
    clusters = np.tile(np.arange(len(y)), 2)
    again = fb.audit(*twice, text, threshold=0, clusters=clusters)["constraints"][0]
    assert again["value"] == pytest.approx(gap) and again["upper"] >= found["upper"] - 1e-9  # no new evidence
    problem = FairProblem(MLP(3), X, y, group, "calibration_gap <= 0.1", dtype=torch.float64)
    check_gradient(problem, kinds=("full",), batch_size=40, points=1)
    with pytest.raises(
        OptionError, match=r"no model meets 'calibration_gap <= -0.1': it bounds .* State a bound of at least 0"
    ):
        fb.FairClassifier("calibration_gap <= -0.1").fit(X, y, sensitive_features=group)
    made = fb.FairClassifier("calibration_gap <= 0.02").fit(X, y, sensitive_features=group)
    stated = made.fit_report_["constraints"][0]
    scores = made.decision_function(X)
    assert stated["train_value"] <= 0.02
    assert stated["train_value"] == pytest.approx(
        fb.measure("calibration_gap", scores, y, group, threshold=0), abs=1e-5
    )


def test_a_notion_without_a_verdict_says_what_to_write():
    X, y, group = rows()
    message = r"its class RankingLoss has no judge\(rows, alpha\).*docs/extending.md.*judge_means"
    with pytest.raises(OptionError, match=message):
        fb.measure(RankingLoss(), X[:, 0], y, group, threshold=0)
    with pytest.raises(OptionError, match=message):
        fb.audit(X[:, 0], y, group, RankingLoss(), threshold=0)


def test_a_notion_without_a_verdict_is_refused_before_what_would_judge_it_trains(monkeypatch):
    X, y, group = rows()
    message = r"its class RankingLoss has no judge\(rows, alpha\)"
    monkeypatch.setattr(fb.FairClassifier, "_fit", lambda *a, **k: pytest.fail("trained"))
    with pytest.raises(OptionError, match=message):
        fb.FairClassifier(RankingLoss(), certify=True).fit(X, y, sensitive_features=group)
    with pytest.raises(OptionError, match=message):
        fb.feasibility(RankingLoss(), X, y, group)
    with pytest.raises(OptionError, match=message):
        monkeypatch.setattr("fairbound.cli.bounds.constraint", lambda text, **_: RankingLoss())
        bounds_of_texts(["ranking_loss <= 0.5"])


def _calm_scores_are_what_their_name_says(bound, X, y, group):
    make = lambda **kw: FairProblem(MLP(3), X, y, group, [bound], **({"dtype": torch.float64} | kw))  # noqa: E731
    problem = make()
    x = problem.start([1])
    s = problem.model.scores(x, torch.as_tensor(X)).numpy()
    means = [(1 / (1 + np.exp(-s)) - y)[group == g].mean() for g in ("a", "b")]
    g = dict(zip(problem.names, problem.evaluate(x).g.tolist(), strict=True))
    assert g["calm_scores: spread"] == pytest.approx(s.var() - 0.5, abs=1e-12)
    assert g["calm_scores: squared gap"] == pytest.approx((means[0] - means[1]) ** 2 - 0.5, abs=1e-12)
    check_gradient(make, kinds=("full",), batch_size=40, points=1)


def _average_odds_is_what_its_name_says(X, y, group):
    other = np.where(np.arange(len(y)) % 3 == 0, "p", "q")
    groups = {"race": group, "sex": other}
    decided = (X[:, 1] + (group == "a") > 0).astype(int)
    rates = {}
    for g in ("a", "b"):
        for o in ("p", "q"):
            mine = (group == g) & (other == o)
            rates[g + o] = np.mean([decided[mine & (y == label)].mean() for label in (0, 1)])
    by_hand = max(rates.values()) - min(rates.values())
    assert fb.measure("average_odds_difference", decided, y, groups) == pytest.approx(by_hand, abs=1e-12)
    found = fb.audit(decided, y, groups, "average_odds_difference <= 0.1")["constraints"][0]
    assert found["value"] == pytest.approx(by_hand) and found["lower"] < found["value"] < found["upper"]
    assert len(found["contrasts"]) == 12 and found["verdict"] in ("violated", "insufficient")
    problem = FairProblem(MLP(3), X, y, groups, "average_odds_difference <= 0.1", dtype=torch.float64)
    x = problem.start([0])
    exact = float(problem.evaluate(x).g.max()) + 0.1
    assert exact == pytest.approx(
        fb.measure("average_odds_difference", problem.all_scores(x).numpy(), y, groups, threshold=0)
    )
    check_gradient(problem, kinds=("full",), batch_size=40, points=1)
    made = fb.FairClassifier("average_odds_difference <= 0.1", budget="200 steps").fit(X, y, sensitive_features=groups)
    assert made.fit_report_["constraints"][0]["text"] == "average_odds_difference <= 0.1"
    alone = np.where((group == "a") & (other == "p"), 0, y)  # a group without positives is in no pair
    assert len(fb.audit(decided, alone, groups, "average_odds_difference <= 0.1")["constraints"][0]["contrasts"]) == 6


def test_a_notion_of_one_s_own_is_named_after_its_module(tmp_path, monkeypatch):
    (tmp_path / "my_notions.py").write_text(
        "from fairbound.fairness.notions import DemographicParity, register\n\n\n"
        "@register()\nclass Mine(DemographicParity):\n    name = 'mine'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        with pytest.raises(OptionError, match="named after its module, as 'module:notion'"):
            fb.constraint("mine <= 0.1")
        stated = fb.constraint(" my_notions:mine[overall] <= 0.1")
        assert stated.text == "mine[overall] <= 0.1" and fb.constraint("mine[overall] <= 0.1") == stated
        with pytest.raises(OptionError, match=r"did you mean 'mine'.*'my_notions' registers no such notion"):
            fb.constraint("my_notions:mien <= 0.1")
        with pytest.raises(OptionError, match=r"no module 'my_notion' to import.*PYTHONPATH"):
            fb.constraint("my_notion:mine <= 0.1")
        assert fb.constraint("recall of class a:b >= 0.5").class_ == fb.constraint("recall[a:b] >= 0.5").class_ == "a:b"
    finally:
        NOTIONS.pop("mine", None)


@pytest.mark.parametrize(
    "tables", [(((0, 0),), ((1, 0),)), (((2, 0), (0, 0)), ((0, 0), (0, 1))), (((1, 0), (0, 0)),) * 2]
)
def test_a_rate_is_two_tables_of_0_and_1_without_a_1_in_common(tables):
    with pytest.raises(OptionError, match="the rate 'mine' needs successes and failures as tables"):
        Rate("mine", *tables)


@pytest.mark.parametrize("seed", range(5))
def test_counts_of_two_parts_of_the_rows_are_those_of_all(seed):
    rng = np.random.default_rng(seed)
    groups = Groups.of({"a": rng.choice(["x", "y", None], 90), "b": rng.choice(list("pqr"), 90)})
    y = rng.integers(0, 2, 90)
    whole = Occurring.of(groups, y)
    merged = Occurring.of(groups.take(range(40)), y[:40]).merge(Occurring.of(groups.take(range(40, 90)), y[40:]))
    assert whole.rows == merged.rows == 90
    for attributes in ((0,), (1,), (0, 1)):
        for label in (None, 0, 1):
            code = groups.codes[:, list(attributes)]
            known = (code >= 0).all(1) & (True if label is None else y == label)
            flat = np.ravel_multi_index(code[known].T, whole.sizes(attributes))
            counts = np.bincount(flat, minlength=int(np.prod(whole.sizes(attributes))))
            assert whole.per_group(attributes, label).tolist() == counts.tolist()
            assert merged.per_group(attributes, label).tolist() == counts.tolist()


def test_compiling_from_counts_is_compiling_from_rows():
    _, y, group = rows(80)
    groups = Groups.of(group)
    stated = fb.fairness.notions.constraints(["equalized_odds <= 0.1", "f1_parity <= 0.2"])
    one, two = compile_plan(stated, groups, y), compile_plan(stated, Occurring.of(groups, y))
    assert one.names == two.names and (one.index == two.index).all() and one.cell_names == two.cell_names
    assert Scored(y, y, groups=groups).occurring.rows == 80


@dataclass(frozen=True)
class WorstMeans:
    """The mean of the k largest of the means of some cells is at most `limit`."""

    cells: tuple
    k: int
    limit: float
    m = 1
    unbiased = False

    def value(self, q):
        top = q[..., list(self.cells)].topk(self.k, -1)
        return (top.values.mean(-1) - self.limit).unsqueeze(-1), (q, top.indices)

    def vjp(self, w, memo):
        q, where = memo
        chosen = torch.zeros_like(q[..., list(self.cells)]).scatter(-1, where, (w / self.k).expand(where.shape))
        dq = torch.zeros_like(q)
        dq[..., list(self.cells)] = chosen
        return dq


class WorstLosses(OfTest):
    """Stated by a function of means alone, so that no cell stands behind its row as behind a contrast's."""

    bound = 0.65

    def compile(self, builder):
        groups = builder.occurring.sizes((0,))[0]
        column = builder.cells(LOGISTIC, (0,), (None,), lambda: list("abcdefg")[:groups])
        cells = tuple(range(column.offset, column.offset + groups))
        builder.combine(WorstMeans(cells, max(1, groups // 2), self.bound), ["worst half"])


@dataclass(frozen=True)
class EachMean:
    """The mean of each of two cells is at most `limit`: two numbers of one function."""

    cells: tuple[int, ...]
    limit: float
    m, unbiased = 2, True

    def value(self, q):
        return q[..., list(self.cells)] - self.limit, q

    def vjp(self, w, q):
        dq = torch.zeros_like(q)
        dq[..., list(self.cells)] = w
        return dq


class TwoMeans(OfTest):
    def compile(self, builder):
        column = builder.cells(LOGISTIC, (0,), (None,), lambda: ["a", "b"])
        builder.combine(EachMean((column.offset, column.offset + 1), self.bound), ["a", "b"])


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_the_slope_of_the_objective_alone_is_that_of_a_batch_that_lacks_a_group_too(seeds):
    """Functions of several numbers are left out where the objective alone is asked for, and which of them the batch
    lacks with them."""
    X, y, group = rows()
    problem = FairProblem(MLP(3), X, y, group, [TwoMeans(), TwoMeans()], dtype=torch.float64)
    x, lacking = problem.start(seeds), 0
    for k in range(20):
        batch = problem.sample(seeds, "few", k, 2, "uniform")
        evaluation, jacobian = problem.jacobian(x, batch)
        lacking += evaluation.seen is not None and not bool(evaluation.seen.all())
        assert torch.allclose(problem.gradient(x, batch, (1.0, None))[1], jacobian[..., 0, :], atol=1e-12)
    assert lacking > 3


@pytest.mark.parametrize("bound", [WorstLosses(), RankingLoss()])
@pytest.mark.parametrize("validation", ["auto", 0.3])
def test_a_classifier_is_trained_under_a_bound_without_cells(bound, validation):
    X, y, group = rows(600)
    made = fb.FairClassifier(bound, algorithm="alm", budget="200 steps", validation=validation, random_state=0)
    report = made.fit(X, y, sensitive_features=group).fit_report_
    assert report["feasible"] and report["constraints"][0]["train_value"] <= bound.bound


def test_row_functions_need_no_sharper_form():
    X, y, group = rows(400)

    class SecondMoments(OfTest):
        bound = 0.01

        def compile(self, builder):
            column = builder.cells(Power(2), (0,), (None,), lambda: ["a", "b"])
            builder.contrasts(np.array([[column.offset, column.offset + 1]] * 2), [[1.0, -1.0], [-1.0, 1.0]], str)

    # all rows at once, at last with steeper surrogates
    made = fb.FairClassifier(SecondMoments()).fit(X, y, sensitive_features=group)
    s = made.decision_function(X)
    assert abs(np.mean(s[group == "a"] ** 2) - np.mean(s[group == "b"] ** 2)) <= 0.01 + 1e-5


def test_a_batch_without_a_group_says_nothing_of_a_function_of_its_mean():
    rng = np.random.default_rng(0)
    X, y, _ = rows(600)
    group = rng.choice(["a", "b", "c"], 600, p=[0.9, 0.05, 0.05])
    problem = FairProblem(MLP(3), X, y, group, WorstLosses(), dtype=torch.float64)
    x, found = problem.start([0]), set()
    for k in range(40):
        batch = problem.sample([0], "test", k, 16, "uniform")
        e = problem.values(x, batch)
        whole = len(set(batch.cells[..., 0].tolist())) == 3
        assert (e.seen is None or bool(e.seen)) == whole == (float(e.g) != 0)
        found.add(whole)
    assert found == {True, False}
    solution = fb.solve(problem, "ynw", sampling="uniform", batch_size=16, budget="100 steps")
    assert solution.records[-1]["unseen"] > 0
    with pytest.raises(EmptyGroupError, match="'c'"):
        FairProblem(MLP(3), X, y, group, WorstLosses(), sample_weight=(group != "c").astype(float))
