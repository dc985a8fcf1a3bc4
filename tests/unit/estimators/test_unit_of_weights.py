"""The unit of weights changes no fit, weights that are all equal are as none, and a model of the user's own is fitted to
weights of one scale wherever it is fitted."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import fairbound as fb
from fairbound.base.errors import DataError, OptionError
from fairbound.estimators.reducing import reduction_fits
from fairbound.rows.weighted import scaled_weights

PARITY, N = "demographic_parity <= 0.05", 600
EVEN = {"1/n": np.full(N, 1 / N), "0.001": np.full(N, 0.001), "1000": np.full(N, 1000.0), "1e-60": np.full(N, 1e-60)}


def rows(n=N, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], n)
    X = rng.normal(size=(n, 4)) + 0.8 * (group == "b")[:, None]
    return X, (X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=n) > 0.8).astype(int), group


class Shrunk(ClassifierMixin, BaseEstimator):
    """A logistic regression that shrinks much, and keeps the weights of every fit."""

    seen: list = []  # noqa: RUF012

    def fit(self, X, y, sample_weight=None):
        Shrunk.seen.append(sample_weight)
        self.model_ = LogisticRegression(C=0.02).fit(X, y, sample_weight)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X)

    def predict(self, X):
        return self.model_.predict(X)


DOORS = {
    "thresholds": lambda: fb.PostProcessor(Shrunk(), PARITY),
    "thresholds, folds": lambda: fb.PostProcessor(Shrunk(), PARITY, folds=5),
    "reduction": lambda: fb.Reduction(Shrunk(), PARITY, folds=0, rounds=2),
    "reduction, folds": lambda: fb.Reduction(Shrunk(), PARITY, folds=5, rounds=2),
    "reduction, no probabilities": lambda: fb.Reduction(LinearSVC(C=0.01), PARITY, folds=3, rounds=2),
    "linear": lambda: fb.FairClassifier(PARITY),
    "network": lambda: fb.FairClassifier(PARITY, model="mlp:8", budget="40 steps"),
    "certified": lambda: fb.FairClassifier("demographic_parity <= 0.4", certify=True),
    "numbers": lambda: fb.FairRegressor("residual_gap <= 0.2"),
}


SLOW = ("network", "certified")


def decided(door, weight, kept=slice(None)):
    """What a model says of new rows, and its report."""
    X, y, group = rows()
    new, _, of = rows(2000, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = DOORS[door]().fit(X[kept], y[kept], group[kept], sample_weight=weight)
        said = made.predict(new, sensitive_features=of) if door.startswith("thresholds") else made.predict(new)
    return said, {k: v for k, v in made.fit_report_.items() if k not in ("seconds", "total_seconds", "trajectory")}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("door", DOORS)
def test_weights_that_are_all_equal_are_as_none(door):
    plain, report = decided(door, None)
    assert len(np.unique(plain)) > 1
    for name, weight in EVEN.items() if door not in SLOW else [("1000", EVEN["1000"])]:
        said, found = decided(door, weight)
        assert (said == plain).all() and found == report, name
    some = np.arange(N) % 3 > 0
    assert door in SLOW or (decided(door, 0.01 * some)[0] == decided(door, None, some)[0]).all()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("door", DOORS)
def test_the_unit_of_weights_changes_no_decision(door):
    weight = np.random.default_rng(7).choice([1.0, 2.0, 5.0], N)
    said, report = decided(door, weight)
    assert (said != decided(door, None)[0]).any()
    for unit in (1000.0, 1 / 3, 2.0**-180) if door not in SLOW else (1 / 3,):
        other, found = decided(door, weight * unit)
        assert (other == said).all() and found == report, unit


@pytest.mark.parametrize("door", ["thresholds, folds", "reduction, folds"])
def test_every_fit_of_a_model_sees_one_scale(door, monkeypatch):
    monkeypatch.setattr(reduction_fits, "LITTLE", -9.0)  # relabelled rows have weights of their own
    weight = np.random.default_rng(7).choice([0.0, 1.0, 2.0, 5.0], N)
    scaled, Shrunk.seen = set(np.unique(weight[weight > 0] / weight[weight > 0].mean())), []
    decided(door, 1e-3 * weight)
    assert len(Shrunk.seen) > 5 and all(
        np.isclose(sorted(scaled), np.unique(seen), rtol=1e-6).all() for seen in Shrunk.seen
    )
    Shrunk.seen = []
    decided(door, EVEN["1/n"])
    assert len(Shrunk.seen) > 5 and all(seen is None for seen in Shrunk.seen)


def test_thresholds_of_a_fitted_model_keep_their_bound_on_new_rows_whatever_the_unit():
    X, y, group = rows()
    new, truth, of = rows(4000, 1)
    for weight in EVEN.values():
        fair = fb.PostProcessor(LogisticRegression(), PARITY, folds=5).fit(X, y, group, sample_weight=weight)
        assert fb.measure(PARITY, fair.predict(new, of), truth, of) < 0.1


@pytest.mark.parametrize("model", [KNeighborsClassifier(), make_pipeline(StandardScaler(), KNeighborsClassifier())])
def test_a_model_that_takes_no_weights_says_so(model):
    X, y, group = rows()
    weight = np.random.default_rng(7).choice([1.0, 2.0, 5.0], N)
    for made in (fb.PostProcessor(model, PARITY), fb.Reduction(model, PARITY, folds=5, rounds=1)):
        with pytest.raises(OptionError, match=r"KNeighborsClassifier\.fit takes no sample_weight.*prefit=True"):
            made.fit(X, y, group, sample_weight=weight)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made.fit(X, y, group, sample_weight=EVEN["1000"])
    fair = fb.PostProcessor(model.fit(X, y), PARITY, prefit=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fair.fit(*rows(seed=2), sample_weight=weight)  # weighs the thresholds alone


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_pipeline_may_take_weights_in_a_step_before_its_last_by_routing():
    X, y, group = rows()
    weight = np.random.default_rng(7).choice([1.0, 2.0, 5.0], N)
    with config_context(enable_metadata_routing=True):
        asking = make_pipeline(StandardScaler().set_fit_request(sample_weight=True), KNeighborsClassifier())
        for made in (fb.PostProcessor(asking, PARITY), fb.Reduction(asking, PARITY, folds=3, rounds=1)):
            made.fit(X, y, group, sample_weight=weight)
        silent = make_pipeline(StandardScaler(), KNeighborsClassifier())
        with pytest.raises(OptionError, match=r"KNeighborsClassifier\.fit takes no sample_weight"):
            fb.PostProcessor(silent, PARITY).fit(X, y, group, sample_weight=weight)


@pytest.mark.parametrize("kind", [fb.PostProcessor, fb.Reduction])
def test_weights_are_read_before_any_fit(kind):
    X, y, group = rows()
    made = kind(LogisticRegression(), PARITY)
    for weight, said in (
        (np.r_[1.0, np.nan, np.ones(N - 2)], r"row 1 \(counting from 0\) has nan"),
        (np.zeros(N), "all are 0"),
        (np.ones(5), r"must have shape \(600,\), got \(5,\)"),
    ):
        with pytest.raises(DataError, match=f"sample_weight.*{said}"):
            made.fit(X, y, group, sample_weight=weight)
    weight = np.random.default_rng(7).choice([0.0, 1.0, 5.0], N)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reports = [made.fit(X, y, group, sample_weight=w).fit_report_ for w in (weight, pd.DataFrame({"w": weight}))]
    assert reports[0] == reports[1]


def test_processes_have_one_scale():
    """One has weights of 1 alone and the other of 3: these are not all equal, and their mean is 2.5."""
    parts, met = [np.ones(10), np.full(30, 3.0)], threading.Barrier(2)
    told: dict[int, object] = {}

    class Place:
        count, alone = 2, False

        def __init__(self, place):
            self.place = place

        def gather(self, value):
            told[self.place] = value
            met.wait()
            both = [told[0], told[1]]
            met.wait()
            return both

    found: dict[int, np.ndarray | None] = {}
    threads = [
        threading.Thread(target=lambda k=k: found.update({k: scaled_weights(parts[k], Place(k))})) for k in (0, 1)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0].tolist() == [pytest.approx(0.4)] * 10 and (found[1] == 3 * found[0][0]).all()
    assert scaled_weights(parts[1]) is None and scaled_weights(None) is None


def test_weights_are_the_same_to_the_last_digit_in_every_unit():
    rng = np.random.default_rng(0)
    for weight in (
        rng.uniform(0.2, 5, 2000),
        rng.integers(1, 500, 2000).astype(float),
        10.0 ** rng.uniform(-15, 15, 2000),
    ):
        scaled = scaled_weights(weight)
        assert np.allclose(scaled, weight / weight.mean(), rtol=1e-6, atol=0)
        for unit in (1 / 3, 7.3, 1e50):
            assert (scaled_weights(weight * unit) == scaled).all()
    people = np.r_[0, 1, rng.integers(1, 500, 2000)].astype(float)
    scaled = scaled_weights(people)
    assert (scaled == people * scaled[1]).all() and scaled.sum() == people.sum() * scaled[1]


BOUNDS = ["demographic_parity <= 0.1", "partial_group_auc <= 0.2", "partial_statistical_parity[0.2:0.6] <= 0.3"]


@pytest.mark.parametrize("bound", [*BOUNDS, "recall of class 1 >= 0.1", "residual_gap <= 5"])
def test_an_audit_is_that_without_equal_weights_and_the_same_in_every_unit(bound):
    X, y, group = rows()
    scores = y if "recall" in bound else X[:, 0]
    at = {} if "recall" in bound or "residual" in bound else {"threshold": 0}
    given = scores, y, group, bound

    def found(weight):
        return fb.audit(*given, sample_weight=weight, **at) | {"created": 0}

    def differing(weight):
        compared = fb.compare(scores, X[:, 1] if at else y, y, group, bound, sample_weight=weight, draws=100, **at)
        return compared | {"created": 0}

    weight = np.random.default_rng(7).choice([1.0, 2.0, 5.0], N)
    for same in ((None, *EVEN.values()), (weight, weight / 3, weight * 7.3)):
        audits = [found(one) for one in same]
        assert all(audit == audits[0] for audit in audits)
        measured = [fb.measure(bound, *given[:3], sample_weight=one, **at) for one in same]
        assert measured == pytest.approx([measured[0]] * len(same), rel=1e-12)
        if at:
            assert all(differing(one) == differing(same[0]) for one in same[1:])


def test_finish_takes_weights_of_any_unit():
    X, y, group = rows()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 1))
    state, found = {k: v.clone() for k, v in model.state_dict().items()}, []
    for weight in (None, EVEN["1000"], EVEN["1e-60"]):
        model.load_state_dict(state)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            done = fb.optim.finish(model, PARITY, torch.tensor(X).float(), y, group, sample_weight=weight)
        found.append((done.accuracy, done.values, model[2].weight.tolist()))
    assert found[0] == found[1] == found[2]
