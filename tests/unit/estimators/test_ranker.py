"""FairRanker: bounds met on the training queries by the true metric, scikit-learn's habits, saving, and errors that help."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import fairbound as fb
from fairbound.base.errors import DataError, DataWarning, OptionError, silenced
from fairbound.estimators.ranker import FairRanker
from fairbound.estimators.saving.folder import ModelFolderError
from fairbound.fairness.notions import constraint
from fairbound.fairness.scored import Scored
from fairbound.ranking import by_query
from fairbound.ranking.documents import Documents


def some_rows(seed=0, queries=120):
    """Documents of group b are as relevant as others, but look worse in the first feature."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 12, queries)
    qid = np.repeat(np.arange(queries), sizes)
    n = len(qid)
    group = np.where(rng.random(n) < 0.4, "b", "a")
    worth = rng.normal(size=n)
    X = np.column_stack([worth - 1.0 * (group == "b"), rng.normal(size=n), worth + 2 * rng.normal(size=n)])
    y = np.clip(np.round(worth + 0.5 * rng.normal(size=n) + 1), 0, 4)
    return X, y, qid, group


def value(text, ranker, X, y, qid, group):
    documents = Documents.of(qid, y, group)
    zero = np.zeros(len(y), dtype=np.int64)
    s = ranker.predict(X)[documents.queries.order]
    return constraint(text).measure(Scored(zero, zero, scores=s, groups=documents.groups, documents=documents))


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("pairwise_parity[inter] <= 0.05", "linear"),
        ("exposure_parity <= 0.02", "linear"),
        pytest.param("pairwise_parity[marginal] <= 0.03", "mlp:8", marks=pytest.mark.long),
    ],
)
def test_the_bound_holds_on_the_training_queries_by_its_true_metric(text, model):
    rows = some_rows()
    budget = None if model == "linear" else "400 steps"
    free = FairRanker(model=model, budget=budget).fit(*rows)
    fair = FairRanker(text, model=model, budget=budget).fit(*rows)
    bound = constraint(text).bound
    assert value(text, free, *rows) > 1.5 * bound
    assert value(text, fair, *rows) <= bound + 1e-6  # predictions are in float64, training in float32
    report = fair.fit_report_
    assert report["feasible"] and report["best_step"] > 0
    assert report["constraints"][0]["train_value"] == pytest.approx(value(text, fair, *rows), abs=1e-6)
    assert report["train_queries"] == 120 and report["train_rows"] == len(rows[1])
    assert 0.5 < fair.score(*rows[:3]) <= free.score(*rows[:3])
    assert set(fair.trajectory_["constraints"]) == {text}


def two_features(seed, queries=200, noise=0.0):
    """The first feature tells the worth of documents, and holds group 1 back; the second tells it poorly, and does not.
    An order by the second alone meets bounds on pairs."""
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(queries), 12)
    group, worth = rng.integers(0, 2, len(qid)), rng.normal(size=len(qid))
    X = np.column_stack([worth - 0.8 * group, worth + 2 * rng.normal(size=len(qid))])
    return X, np.clip(np.round(worth + noise * rng.normal(size=len(qid)) + 1), 0, 3), qid, group.astype(str)


def best_of_all_orders(text, X, y, qid, group):
    """The largest NDCG of scores in the direction (cos t, sin t), of 90 that go half round, that meet the bound."""
    queries = Documents.of(qid, y, group).queries
    bound, found = constraint(text), 0.0
    for t in np.linspace(-0.2, 2.94, 90):
        scores = X @ np.array([np.cos(t), np.sin(t)])
        if fb.measure(text.split(" <=")[0], scores, y, group, qid=qid) <= bound.bound:
            gained = by_query.ndcg(scores[queries.order], y[queries.order], queries.starts)
            found = max(found, float(np.nanmean(gained)))
    return found


@pytest.mark.parametrize(
    ("seed", "text"),
    [
        (0, "pairwise_parity[inter] <= 0.1"),
        (0, "pairwise_parity[inter] <= 0.05"),
        (0, "pairwise_parity[marginal] <= 0.03"),
        (1, "pairwise_parity[inter] <= 0.02"),
        (1, "pairwise_parity[inter] <= 0.2"),
    ],
)
def test_a_bound_on_pairs_alone_is_met_by_nearly_the_best_order_there_is(seed, text):
    rows = two_features(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        fair = FairRanker(text).fit(*rows)
    assert fair.fit_report_["algorithm"] == "full_batch_alm" and fair.fit_report_["steps"] < 60
    assert value(text, fair, *rows) <= constraint(text).bound + 1e-6
    assert fair.score(*rows[:3]) > best_of_all_orders(text, *rows) - 0.01


def test_steeper_surrogates_go_on_where_smooth_ones_end():
    rows, text = two_features(32, queries=60, noise=0.4), "pairwise_parity[inter] <= 0.1"
    smooth = FairRanker(text, algorithm="full_batch_alm:rankings").fit(*rows)
    both = FairRanker(text).fit(*rows)
    assert smooth.fit_report_["feasible"] and both.fit_report_["feasible"]
    assert both.fit_report_["train_loss"] < 0.995 * smooth.fit_report_["train_loss"]
    assert both.fit_report_["steps"] > smooth.fit_report_["steps"]
    (said,) = (note for note in both.fit_report_["notes"] if "Several runs" in note)
    assert sum(map(int, re.findall(r"full_batch_alm (\d+)", said))) == both.fit_report_["steps"]
    assert not any("Several runs" in note for note in smooth.fit_report_["notes"])


@pytest.mark.parametrize("seed", [17, 27])
def test_smoother_surrogates_find_an_order_where_no_small_change_comes_nearer_to_the_bound(seed):
    rng, text = np.random.default_rng(seed), "pairwise_parity[marginal] <= 0.03"
    qid = np.repeat(np.arange(40), 12)
    group = (rng.random(len(qid)) < 0.2).astype(int)
    worth = rng.normal(size=len(qid)) - 0.5 * group
    X = np.column_stack(
        [worth - 0.6 * group + 0.3 * rng.normal(size=len(qid)), worth + 1.5 * rng.normal(size=len(qid))]
    )
    rows = X, (worth > 0.5).astype(float), qid, group.astype(str)
    with pytest.warns(ConvergenceWarning, match="only the starting point meets them"):
        FairRanker(text, algorithm="full_batch_alm:rankings").fit(*rows)
    fair = FairRanker(text).fit(*rows)
    report = fair.fit_report_
    assert report["feasible"] and report["best_step"] > 40 and report["algorithm"] == "full_batch_alm"
    assert value(text, fair, *rows) <= 0.03 + 1e-6
    assert fair.score(*rows[:3]) > best_of_all_orders(text, *rows) - 0.01
    assert report["steps"] == fair.trajectory_["steps"][-1]


def test_an_order_no_better_than_chance_is_warned_of():
    """By the mean of its differences it is hardly better than one score, by most pairs worse: few large wins, many small
    losses."""
    qid, relevance = np.repeat(np.arange(30), 4), np.tile([1.0, 0, 0, 0], 30)
    x = np.where(relevance == 1, np.where(qid % 3 == 0, 10.0, -1.0), 0.0) + 0.001 * np.arange(120) % 7
    group = np.tile(["a", "b"], 60)
    with pytest.warns(ConvergenceWarning, match="puts 6.% of the pairs of documents the wrong way"):
        FairRanker("exposure_parity <= 0.5").fit(x[:, None], relevance, qid, group)


def test_random_batches_and_a_network_meet_a_tight_bound_on_pairs():
    rows = two_features(1)
    fair = FairRanker("pairwise_parity[inter] <= 0.1", model="mlp:8").fit(*rows)
    assert fair.fit_report_["feasible"] and fair.fit_report_["best_step"] > 0
    assert value("pairwise_parity[inter] <= 0.1", fair, *rows) <= 0.1 + 1e-6 and fair.score(*rows[:3]) > 0.82


def test_a_bound_on_every_query_is_trained_on_all_queries_at_once():
    rng = np.random.default_rng(0)
    qid, group = np.repeat(np.arange(40), 30), rng.choice(["small", "large"], 1200)
    worth = rng.normal(size=len(qid))
    X = np.column_stack([worth - 0.8 * (group == "small"), worth + 2 * rng.normal(size=len(qid))])
    relevance = np.clip(np.round(worth + 1), 0, 3)
    ranker = FairRanker("query_pairwise_parity <= 0.15", random_state=0, budget="40 steps")
    report = ranker.fit(X, relevance, qid=qid, sensitive_features=group).fit_report_
    assert report["algorithm"] == "full_batch_alm" and "all queries at once" in report["notes"][0]
    assert report["feasible"] and report["best_step"] > 0 and report["train_pair_error"] < 0.15


def test_a_random_batch_method_and_rows_held_back():
    rows = some_rows(1)
    ranker = FairRanker("pairwise_parity[inter] <= 0.1", algorithm="alm", validation=0.25, budget="300 steps").fit(
        *rows
    )
    assert ranker.fit_report_["validation_queries"] == 30 and ranker.fit_report_["train_queries"] == 90
    assert ranker.fit_report_["algorithm"] == "alm"


def test_queries_held_back_that_tell_no_order_are_trained_on_or_said():
    rng = np.random.default_rng(0)
    qid, relevance = np.repeat(np.arange(1200), 3), np.zeros(3600)
    relevance[0] = 1  # of one query, which is held back or is not
    X, group = rng.normal(size=(3600, 2)), rng.choice(["a", "b"], 3600)
    bounded = FairRanker("exposure_parity <= 0.05", algorithm="alm", budget="2 steps")
    with silenced(ConvergenceWarning):
        report = bounded.fit(X, relevance, qid=qid, sensitive_features=group).fit_report_
    assert report["validation_queries"] == 0 and report["train_queries"] == 1200
    assert any("No queries were held back for validation: no query has two" in note for note in report["notes"])
    with pytest.raises(DataError, match=r"queries held back for validation: no query has two .* Or set validation=0"):
        bounded.set_params(validation=0.2).fit(X, relevance, qid=qid, sensitive_features=group)
    assert FairRanker(validation=0.2, budget="2 steps").fit(X, relevance, qid=qid).fit_report_["train_queries"] == 1200


def test_a_module_and_the_hinge_loss():
    X, y, qid, group = some_rows(2)
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    ranker = FairRanker("exposure_parity <= 0.3", model=module, loss="hinge", budget="200 steps").fit(X, y, qid, group)
    with torch.no_grad():
        own = module(torch.from_numpy(X).float()).ravel().numpy()  # the module itself, before anything is asked
    assert own.shape == (len(y),) and np.allclose(own, ranker.predict(X), atol=1e-5)


def test_equal_seeds_give_equal_rankers_and_clones_are_unfitted():
    rows = some_rows(3)
    made = FairRanker("pairwise_parity[inter] <= 0.1", algorithm="alm", budget="50 steps", random_state=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        one, two = made.fit(*rows).predict(rows[0]), clone(made).fit(*rows).predict(rows[0])
    assert np.array_equal(one, two)
    with pytest.raises(NotFittedError):
        clone(made).predict(rows[0])


@pytest.mark.parametrize("model", ["linear", "mlp:4"])
def test_a_saved_ranker_scores_as_before(tmp_path, model):
    X, y, qid, group = some_rows(4)
    ranker = FairRanker(model=model, budget="30 steps", batch_size=16).fit(X, y, qid, group)
    ranker.save(tmp_path / "m")
    again = FairRanker.load(tmp_path / "m")
    assert again.get_params()["random_state"] == 0 and again.get_params()["batch_size"] == 16
    assert np.array_equal(again.predict(X), ranker.predict(X)) and again.fit_report_ == ranker.fit_report_ | {
        "seconds": None
    }
    with pytest.raises(ModelFolderError, match=r"FairRanker.load"):
        fb.FairClassifier.load(tmp_path / "m")
    fb.FairClassifier(budget="5 steps").fit(X, y > 1).save(tmp_path / "c")
    with pytest.raises(ModelFolderError, match=r"FairClassifier.load"):
        FairRanker.load(tmp_path / "c")


@pytest.mark.parametrize(
    ("options", "change", "error", "said"),
    [
        ({}, {"qid": None}, DataError, "a ranking needs queries"),
        ({}, {"y": "bad"}, DataError, "relevance must be numbers"),
        ({}, {"qid": "short"}, DataError, "X has|y has"),
        ({"constraint": "demographic_parity <= 0.1"}, {}, OptionError, "a ranker makes none"),
        ({"constraint": "pairwise_parity[inter] <= 0.1"}, {"group": None}, DataError, "needs fit"),
        ({"validation": 1.0}, {}, OptionError, "validation must be"),
        ({"batch_size": 0}, {}, OptionError, "batch_size must be at least 1"),
        ({"algorithm": "stochastic"}, {}, OptionError, "stochastic"),
        ({"loss": "squared"}, {}, OptionError, "loss must be one of"),
    ],
)
def test_what_cannot_be_used_is_said(options, change, error, said):
    X, y, qid, group = some_rows(5)
    y = np.array(["x"] * len(y)) if change.get("y") == "bad" else y
    qid = {"short": qid[:-1], None: None}[change["qid"]] if "qid" in change else qid
    group = None if "group" in change else group
    with pytest.raises(error, match=said):
        FairRanker(**options).fit(X, y, qid, group)


def test_a_bound_out_of_reach_is_warned_of():
    """Scores that are all equal meet any bound, so only the start does."""
    X, y, qid, group = some_rows(6)
    with pytest.warns(ConvergenceWarning):
        FairRanker("pairwise_parity[inter] <= 0.0001", algorithm="alm", budget="3 steps").fit(X, y, qid, group)


def test_integers_reach_a_ranking_module_that_takes_nothing_else():
    X, y, qid, group = some_rows()
    tokens = (X[:, :2] > 0).astype(int)
    module = torch.nn.Sequential(torch.nn.Embedding(2, 3), torch.nn.Flatten(), torch.nn.Linear(6, 1))
    ranker = FairRanker("exposure_parity <= 0.3", model=module, budget="50 steps").fit(tokens, y, qid, group)
    with torch.no_grad():
        own = module(torch.from_numpy(tokens)).ravel().numpy()
    np.testing.assert_allclose(ranker.predict(tokens), own, atol=1e-6)


def test_documents_without_a_group_are_warned_of():
    X, y, qid, group = some_rows()
    some = np.asarray(group, dtype=object).copy()
    some[::10] = None
    with pytest.warns(DataWarning, match=f"group is missing in {len(some[::10])} training rows.*places in the order"):
        FairRanker("pairwise_parity[inter] <= 0.2", budget="20 steps").fit(X, y, qid, some)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("algorithm", ["full_batch_alm", "alm"])
def test_documents_without_a_group_count_in_training_as_in_audits(algorithm):
    X, y, qid, group = some_rows()
    some = np.asarray(group, dtype=object).copy()
    some[::4] = None
    bounds = ["pairwise_parity[marginal] <= 0.3", "pairwise_parity[inter] <= 0.3", "exposure_parity <= 0.3",
              "exposure_parity[merit] <= 0.3"]  # fmt: skip
    ranker = FairRanker(bounds, algorithm=algorithm, budget="20 steps", random_state=0).fit(X, y, qid, some)
    found = fb.audit(ranker.predict(X), y, some, bounds, qid=qid)
    values = [c["value"] for c in found["constraints"]]
    assert [c["train_value"] for c in ranker.fit_report_["constraints"]] == pytest.approx(values, abs=1e-6)
    assert any(
        "documents; they are in none of its groups, but take places in the order" in w for w in found["warnings"]
    )
    known = np.array([g is not None for g in some])
    rows = [(X[:, 0], y, some, qid), (X[known, 0], y[known], some[known], qid[known])]
    measured = [[fb.measure(bound, *given, qid=of) for bound in bounds] for *given, of in rows]
    gaps = np.abs(np.diff(measured, axis=0))[0]
    assert gaps[1] < 1e-12 < gaps[[0, 2, 3]].min()  # pairs across the groups leave them out
