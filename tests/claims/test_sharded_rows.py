"""Rows held in parts: every function, gradient and measure is that of the whole table, and every process gets one model."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from threads import halves, in_threads
from two_processes import in_two_processes, needs_gloo

import fairbound as fb
from fairbound.base.errors import DataError, OptionError
from fairbound.estimators.networks import whole_network
from fairbound.estimators.sharded import same_groups, with_labels_of_all
from fairbound.fairness.objectives import Accuracy
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import MLP
from fairbound.problems.problem import Draws
from fairbound.rows.groups import Groups
from fairbound.tables import Chunks, Encoded, TableEncoder

pd = pytest.importorskip("pandas")

STATED = [
    "demographic_parity <= 0.02",
    "equalized_odds[overall] <= 0.1",
    "equalized_odds[best] <= 0.1",
    ["predictive_parity <= 0.05", "loss_gap <= 0.01"],
]


def table(n=240, seed=0):
    """Features, labels, groups of which "c" is in the last third alone, weights, and three parts of unequal size."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2]).astype(object)
    group[: 2 * n // 3][group[: 2 * n // 3] == "c"] = "a"
    X = rng.normal(size=(n, 3)) + (group == "b")[:, None]
    y = (X[:, 0] + rng.normal(size=n) > 0.3).astype(int)
    return X, y, group, rng.uniform(0.5, 2, n), [slice(0, 50), slice(50, 2 * n // 3), slice(2 * n // 3, n)]


def everything(problem, x):
    """What a problem says at x, of all rows, and of a balanced batch as large as the table."""
    draws = Draws(problem, (0,), 1000, "balanced")
    out = []
    for batch in (draws("full", 0, sampling="full"), draws("main", 0)):
        weights = torch.linspace(-1, 2, problem.m, dtype=x.dtype)
        e = problem.values(x, batch)
        out += [e.f, e.g, problem.values(x, batch, true=True).g]
        out += [
            problem.gradient(x, batch, lambda e, w=weights: (1.0, w + e.g))[1],
            problem.gradient(x, batch, (0.5, None))[1],
        ]
        out += [problem.jvp(x, batch, torch.ones_like(x)), problem.jacobian(x, batch)[1]]
    measured = problem.evaluate(x)
    out += [measured.f, measured.g, measured.extra["accuracy"], measured.extra["stated"]]
    curvature = problem.curvature()
    out += [] if curvature is None else [curvature]
    return [*out, torch.as_tensor(problem.counts_of_cells()), problem.totals(), torch.tensor(problem.total_rows)]


@pytest.mark.parametrize("stated", STATED, ids=str)
@pytest.mark.parametrize("model", ["linear", "mlp"])
@pytest.mark.parametrize(
    ("weighted", "objective"),
    [
        (False, None),
        (True, Accuracy(0.4)),
        pytest.param(True, None, marks=pytest.mark.long),
        pytest.param(False, Accuracy(0.4), marks=pytest.mark.long),
    ],
    ids=["loss", "weighted accuracy", "weighted loss", "accuracy"],
)
def test_parts_together_say_what_the_whole_table_says(stated, model, weighted, objective):
    X, y, group, weight, parts = table()
    groups = Groups.of(group)

    def problem(rows, **shards):
        made = MLP(3, (4,) if model == "mlp" else ())
        own = weight[rows] if weighted else None
        return FairProblem(
            made, X[rows], y[rows], groups.take(rows), stated, objective=objective, sample_weight=own,
            dtype=torch.float64, **shards,
        )  # fmt: skip

    x = torch.linspace(-0.7, 0.9, MLP(3, (4,) if model == "mlp" else ()).n, dtype=torch.float64)
    whole = everything(problem(slice(None)), x)
    for found in in_threads(3, lambda own: everything(problem(parts[own.place], shards=own), x)):
        for mine, other in zip(found, whole, strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("kind", ["balanced", "uniform", "shuffled"])
def test_batches_of_parts_are_unbiased_together(kind):
    """Means over the batches of an epoch (shuffled: each row once) or of 200 draws: within five standard errors."""
    X, y, group, _, parts = table()
    groups, count = Groups.of(group), {"shuffled": 6}.get(kind, 200)
    x = torch.linspace(-0.7, 0.9, 4, dtype=torch.float64)

    def drawn(own):
        rows = parts[own.place] if own.place < 2 else slice(160, 240)
        problem = FairProblem(MLP(3), X[rows], y[rows], groups.take(rows), STATED[0], dtype=torch.float64, shards=own)
        draws = Draws(problem, (3,), 10, kind)
        found = [problem.values(x, draws("main", k)) for k in range(count)]
        full = problem.values(x, draws("full", 0, sampling="full"))
        return torch.stack([torch.cat([e.f[None], e.g]) for e in found]), torch.cat([full.f[None], full.g])

    found, full = in_threads(3, drawn)[0]
    error = found.std(0) / count**0.5
    assert (error > 0).all()
    assert ((found.mean(0) - full).abs() < 5 * error).all()


def test_a_bound_on_pairs_of_rows_is_refused():
    X, y, group, _, parts = table()

    def build(own):
        rows = parts[own.place]
        with pytest.raises(OptionError, match="compare rows with each other"):
            FairProblem(MLP(3), X[rows], y[rows], Groups.of(group).take(rows), "auc_parity[group] <= 0.1", shards=own)

    in_threads(3, build)


def test_classes_and_groups_are_numbered_alike():
    labels = [np.array(["no", "no"]), ["yes"], np.array(["maybe"], dtype=object)]
    found = in_threads(3, lambda own: with_labels_of_all(labels[own.place], own))
    assert [(values[:n].tolist(), set(values)) for values, n in found] == [
        (list(own), {"no", "yes", "maybe"}) for own in labels
    ]
    sexes = [["m", "f", None], ["x"], ["m"]]
    found = in_threads(3, lambda own: same_groups(Groups.of({"sex": sexes[own.place]}), own))
    assert [part.labels for part in found] == [(("f", "m", "x"),)] * 3
    assert [part.codes[:, 0].tolist() for part in found] == [[1, 0, -1], [2], [1]]
    with pytest.raises(DataError, match="different sensitive attributes"):
        in_threads(2, lambda own: same_groups(Groups.of({f"a{own.place}": ["m"]}), own))


def test_groups_are_looked_at_of_all_processes_together():
    unknown = [[None, None], ["x", "y"]]
    found = in_threads(2, lambda own: same_groups(Groups.of({"sex": unknown[own.place]}, whole=False), own))
    assert [part.labels for part in found] == [(("x", "y"),)] * 2 and found[0].codes.tolist() == [[-1], [-1]]
    with pytest.raises(DataError, match="'sex' has no known value"):
        in_threads(2, lambda own: same_groups(Groups.of({"sex": [None]}, whole=False), own))
    regions = [f"r{i % 150}" for i in range(900)]  # six rows each in one process, twelve in both
    many = lambda own: same_groups(Groups.of({"region": regions}, whole=False), own)  # noqa: E731
    assert len(in_threads(2, many)[1].labels[0]) == 150
    with pytest.raises(DataError, match="'region' has 150 values in 900 rows"):
        in_threads(1, many)


def frame(n=1500):
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b", "c"], n, p=[0.5, 0.4, 0.1])
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=list("pqrs"))
    X["p"] += group == "b"
    y = np.where(X["p"] + X["q"] + rng.logistic(size=n) > 0.5, "yes", "no")
    X["t"] = rng.choice(["u", "v", "w"], n)
    X.loc[rng.random(n) < 0.05, "q"] = np.nan
    order = np.argsort(np.where(group == "c", 1, rng.random(n)))  # the last process has all of group c
    return X.iloc[order], y[order], group[order], [slice(0, 700), slice(700, n)]


def test_an_encoder_learns_from_all_parts():
    X, _, _, parts = frame()
    encoded = in_threads(2, lambda own: Encoded.of(TableEncoder(), X.iloc[parts[own.place]], own))
    together = Encoded.of(TableEncoder(), Chunks(lambda: (X.iloc[rows] for rows in parts)))
    medians = [float(X["q"].iloc[rows].median()) for rows in parts]
    known = [int(X["q"].iloc[rows].notna().sum()) for rows in parts]
    for own, rows in zip(encoded, parts, strict=True):
        assert own.encoder.feature_names == together.encoder.feature_names
        q = own.encoder.learnt[1]
        assert q.median == pytest.approx(np.average(medians, weights=known), abs=1e-6)
        gaps = np.isnan(X["q"].to_numpy()[rows])
        np.testing.assert_allclose(own.features[~gaps], together.features[rows][~gaps], rtol=1e-6, atol=2e-6)
        np.testing.assert_allclose(own.features[gaps][:, 1], (q.median - q.mean) / q.sd, atol=1e-6)
    with pytest.raises(DataError, match="tables of different columns"):
        in_threads(2, lambda own: Encoded.of(TableEncoder(), X[["p", "q"][: 1 + own.place]], own))


FITS = (
    {"constraint": "demographic_parity <= 0.05", "budget": "15 steps"},
    {"constraint": "equalized_odds <= 0.05", "model": "mlp:4", "budget": "30 steps", "batch_size": 64},
)


def process(rank, folder):
    """What each of the two processes does."""
    X, y, group, parts = frame()
    rows = parts[rank]
    for number, options in enumerate(FITS):
        model = fb.FairClassifier(distributed=True, **options)
        model.fit(X.iloc[rows], y[rows], sensitive_features=group[rows])
        model.save(f"{folder}/model{number}-{rank}")


def test_threads_train_one_model_that_meets_the_bound_on_all_their_rows(monkeypatch):
    own = threading.local()
    monkeypatch.setattr("fairbound.estimators.sharded.Processes", lambda: own.shards)
    X, y, group, parts = frame()

    def fit(shards):
        own.shards, rows = shards, parts[shards.place]
        model = fb.FairClassifier(distributed=True, **FITS[0])
        return model.fit(X.iloc[rows], y[rows], sensitive_features=group[rows])

    one, other = in_threads(2, fit)
    assert torch.equal(one.x_, other.x_) and one.fit_report_["train_rows"] == other.fit_report_["train_rows"] == 1500
    found = fb.measure(FITS[0]["constraint"], one.decision_function(X), y == "yes", sensitive_features=group)
    assert one.fit_report_["feasible"] and found <= 0.05 + 1e-6
    assert found == pytest.approx(one.fit_report_["constraints"][0]["train_value"], abs=2e-3)
    alone = fb.FairClassifier(**FITS[0]).fit(X, y, sensitive_features=group)
    assert (one.predict(X) == y).mean() >= (alone.predict(X) == y).mean() - 0.02


@pytest.mark.long
@needs_gloo
def test_two_processes_train_one_model_that_meets_the_bound_on_all_their_rows(tmp_path, monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    in_two_processes(process, tmp_path)
    X, y, group, _ = frame()
    monkeypatch.setattr(whole_network, "MOST_ROWS", 0)  # several processes make no rounds on all rows
    for number, options in enumerate(FITS):
        models = [fb.FairClassifier.load(tmp_path / f"model{number}-{rank}") for rank in (0, 1)]
        assert torch.equal(models[0].x_, models[1].x_)
        assert [m.fit_report_["train_rows"] for m in models] == [1500, 1500]
        alone = fb.FairClassifier(**options).fit(X, y, sensitive_features=group)
        for model in models:
            found = fb.measure(options["constraint"], model.decision_function(X), y == "yes", sensitive_features=group)
            assert model.fit_report_["feasible"] and found <= 0.05 + 1e-6
            assert found == pytest.approx(model.fit_report_["constraints"][0]["train_value"], abs=2e-3)
            assert (model.predict(X) == y).mean() >= (alone.predict(X) == y).mean() - 0.02


def test_each_process_may_have_its_own_seed(monkeypatch):
    own = threading.local()
    monkeypatch.setattr("fairbound.estimators.sharded.Processes", lambda: own.shards)

    def fit(shards):
        own.shards = shards
        X, y, group, _ = halves(shards.place)
        model = fb.FairClassifier("demographic_parity <= 0.5", distributed=True, random_state=shards.place)
        return model.fit(X, y, sensitive_features=group)

    one, other = in_threads(2, fit)
    assert torch.equal(one.x_, other.x_) and one.fit_report_["seed"] == other.fit_report_["seed"] == 0


def test_without_processes_it_says_how_to_start_them(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    X, y, group, _, _ = table()
    with pytest.raises(OptionError, match="torchrun --nproc-per-node 2"):
        fb.FairClassifier("demographic_parity <= 0.1", distributed=True).fit(X, y, sensitive_features=group)
