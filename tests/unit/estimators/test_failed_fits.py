"""A fit that fails, or is interrupted, leaves an estimator as it was: no old model with a new encoder, scale or classes."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

import fairbound as fb
from fairbound.base.errors import DataWarning, FairboundError
from fairbound.estimators import classifier, ranker, reduction, regressor
from fairbound.estimators.certificates import certifying
from fairbound.fairness.area_problems.row_saddle import RowSaddle
from fairbound.postprocessing import processor
from fairbound.tables import TableEncoder, encoder

pytestmark = pytest.mark.filterwarnings("ignore")

PARITY = "demographic_parity <= 0.1"
RNG = np.random.default_rng(0)
SEX = RNG.choice(["F", "M"], 300)
X = pd.DataFrame({"a": RNG.normal(size=300) + 0.8 * (SEX == "M"), "b": RNG.normal(size=300)})
Y = (X.a + RNG.normal(size=300) > 0).astype(int).to_numpy()
QUERIES = {"qid": np.repeat(np.arange(30), 10)}
ONE_GROUP = np.full(300, "F")


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))


MADE = {
    "classifier": (lambda: fb.FairClassifier(PARITY, budget="20 steps"), {}, classifier, "warn_of_fit"),
    "module": (lambda: fb.FairClassifier(PARITY, model=network(), budget="20 steps"), {}, classifier, "warn_of_fit"),
    "regressor": (lambda: fb.FairRegressor("residual_gap <= 0.1"), {}, regressor, "warn_of_fit"),
    "ranker": (lambda: fb.FairRanker("pairwise_parity[inter] <= 0.1", budget="20 steps"), QUERIES, ranker, "trajectory"),
    "reduction": (lambda: fb.Reduction(LogisticRegression(), PARITY, rounds=2), {}, reduction, "warn_of_reduction"),
    "thresholds": (lambda: fb.PostProcessor(LogisticRegression(), PARITY), {}, processor, "dropped_words_of_groups"),
}  # fmt: skip
"""An estimator, what its fit needs besides, and a function that its fit calls near its end."""


def predicted(model):
    return model.predict(X, SEX) if isinstance(model, fb.PostProcessor) else model.predict(X)


def interrupted(*given, **named):
    raise KeyboardInterrupt


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("how", ["refused", "interrupted"])
def test_a_refit_that_fails_leaves_the_model_of_before(name, how, monkeypatch):
    make, more, module, last = MADE[name]
    model = make().fit(X, Y, sensitive_features=SEX, **more)
    before, decided = dict(vars(model)), predicted(model)
    labels = Y if name in ("regressor", "ranker") else np.where(Y, "yes", "no")
    if how == "interrupted":
        monkeypatch.setattr(module, last, interrupted)
    with pytest.raises(FairboundError if how == "refused" else KeyboardInterrupt):
        model.fit(3 * X + 5, labels, sensitive_features=ONE_GROUP if how == "refused" else SEX, **more)
    assert vars(model).keys() == before.keys() and all(vars(model)[key] is before[key] for key in before)
    np.testing.assert_array_equal(predicted(model), decided)


@pytest.mark.parametrize("name", MADE)
def test_a_first_fit_that_fails_leaves_nothing(name):
    make, more, *_ = MADE[name]
    model = make()
    before = dict(vars(model))
    with pytest.raises(FairboundError):
        model.fit(X, Y, sensitive_features=ONE_GROUP, **more)
    assert vars(model) == before
    with pytest.raises(NotFittedError):
        predicted(model)


def test_another_number_of_columns_leaves_a_regressor_that_predicts():
    model = fb.FairRegressor("residual_gap <= 0.1").fit(X, Y, sensitive_features=SEX)
    numbers = model.predict(X)
    with pytest.raises(FairboundError):
        model.fit(X.assign(c=X.a**2), Y, sensitive_features=ONE_GROUP)
    np.testing.assert_array_equal(model.predict(X), numbers)


@pytest.mark.parametrize("fitted", [False, True])
def test_a_module_has_the_parameters_of_before(fitted, monkeypatch):
    module = network()
    model = fb.FairClassifier(PARITY, model=module, budget="20 steps")
    if fitted:
        model.fit(X, Y, SEX)
    before = {name: values.clone() for name, values in module.state_dict().items()}
    monkeypatch.setattr(classifier, "warn_of_fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(3 * X + 5, 1 - Y, SEX)
    assert all(torch.equal(values, before[name]) for name, values in module.state_dict().items())


def test_a_certified_refit_that_is_interrupted_leaves_the_model_of_before(monkeypatch):
    model = fb.FairClassifier(PARITY, budget="20 steps").fit(X, Y, SEX)
    decided = model.predict(X)
    monkeypatch.setattr(certifying, "report_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(certify=True).fit(3 * X + 5, Y, SEX)
    np.testing.assert_array_equal(model.predict(X), decided)
    assert not hasattr(model, "certify_rows_")


@pytest.mark.parametrize("fit", ["fit", "fit_transform", "fit_encode"])
def test_an_encoder_keeps_what_it_had_learnt(fit, monkeypatch):
    coder = TableEncoder().fit(X)
    features = coder.transform(X)
    monkeypatch.setattr(encoder, "warned_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        getattr(coder, fit)(3 * X[["b"]])
    np.testing.assert_array_equal(coder.transform(X), features)


# -- a stream --------------------------------------------------------------------------------------------------------


def stream(solver):
    own = {"kappa": 0.2, "warm_up": 50} if solver == "rows" else {"sample": 60}
    return fb.StreamingAUC("auc_parity[group] <= 0.1", solver=solver, **own)


@pytest.mark.parametrize("solver", ["exact", "rows"])
def test_a_batch_that_fails_is_as_if_it_had_not_come(solver, monkeypatch):
    features, half = X.to_numpy(), slice(0, 150)
    model, other = (stream(solver).partial_fit(features[half], Y[half], SEX[half]) for _ in range(2))
    weights = model.coef_
    with monkeypatch.context() as patched:
        if solver == "rows":
            feed = RowSaddle.feed
            patched.setattr(RowSaddle, "feed", lambda *given: interrupted(feed(*given)))
        else:
            patched.setattr(type(model), "_draw", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(features[:200], Y[:200], SEX[:200])
    assert model.rows_ == 150
    np.testing.assert_array_equal(model.coef_, weights)
    for one in (model, other):
        one.partial_fit(features[150:], Y[150:], SEX[150:])
    np.testing.assert_array_equal(model.coef_, other.coef_)


def test_a_stream_whose_first_batch_is_refused_has_seen_nothing():
    model = stream("rows")
    with pytest.raises(FairboundError):
        model.partial_fit(X.to_numpy(), Y, np.arange(300))
    assert not hasattr(model, "rows_") and not hasattr(model, "n_features_in_")


def test_a_merge_that_fails_leaves_both_streams(monkeypatch):
    features = X.to_numpy()
    one, other = (stream("exact").partial_fit(features[at], Y[at], SEX[at]) for at in (slice(150), slice(150, 300)))
    weights = one.coef_
    one._rng = None  # the sample is drawn after the moments were taken in
    with pytest.raises(AttributeError):
        one.merge(other)
    one._found = None
    assert one.rows_ == 150
    np.testing.assert_array_equal(one.coef_, weights)


@pytest.mark.parametrize("name", ["reduction", "thresholds"])
def test_warnings_of_a_fit_name_the_line_that_called_it(name):
    shuffled, sex = X.sample(frac=1, random_state=0), pd.Series(np.where(np.arange(300) < 9, None, SEX))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", DataWarning)
        MADE[name][0]().fit(shuffled, pd.Series(Y), sensitive_features=sex)
    said = {one.filename for one in found if one.category is DataWarning}
    assert len(found) > 1 and said == {__file__}
