"""The scikit-learn door: every kind of input, every kind of bad input, and the same answer every time."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fairbound as fb
from fairbound.base.errors import DataError, DataWarning, EmptyGroupError, OptionError
from fairbound.estimators import training_rows
from fairbound.estimators.saving.folder import ModelFolderError
from fairbound.tables import Encoded
from fairbound.tables import encoder as encoder_module

QUICK = "200 steps"


def table(n: int = 600, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """The label follows pay, which sex shifts, and skill, which it does not; a fair model leans on skill."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["F", "M"], n)
    pay, skill = rng.normal(size=n) + 1.2 * (sex == "M"), rng.normal(size=n)
    frame = pd.DataFrame({"pay": pay, "skill": skill, "city": rng.choice(["A", "B", "C"], n)})
    return frame, (pay + 2 * skill + 0.5 * rng.normal(size=n) > 0.6).astype(int), sex


def gap(decisions: np.ndarray, sex: np.ndarray) -> float:
    return abs(decisions[sex == "F"].mean() - decisions[sex == "M"].mean())


def test_the_bound_holds_on_the_training_rows_and_costs_accuracy():
    X, y, sex = table(4000)
    free = fb.FairClassifier().fit(X, y)
    fair = fb.FairClassifier("demographic_parity <= 0.05", validation=0).fit(X, y, sensitive_features=sex)
    assert gap(free.predict(X), sex) > 0.15
    assert gap(fair.predict(X), sex) <= 0.05 + 1e-5
    assert fair.fit_report_["feasible"]
    assert fair.fit_report_["constraints"][0]["train_value"] == pytest.approx(gap(fair.predict(X), sex), abs=1e-5)
    assert free.score(X, y) > fair.score(X, y) > 0.7


@pytest.mark.parametrize("model", ["linear", "mlp:8"])
def test_equal_seeds_give_equal_bits_and_predictions_never_vary(model):
    X, y, sex = table()

    def made(seed):
        return fb.FairClassifier("demographic_parity <= 0.1", model=model, budget="60 steps", random_state=seed).fit(
            X, y, sex
        )

    one, two, other = made(3), made(3), made(4)
    assert torch.equal(one.x_, two.x_)
    assert torch.equal(one.x_, other.x_) == (model == "linear")  # all rows at once: nothing is random
    assert np.array_equal(one.decision_function(X), two.decision_function(X))
    assert np.array_equal(one.predict(X), one.predict(X))


@pytest.mark.parametrize("model", ["linear", "mlp:8"])
@pytest.mark.parametrize("thin", [False, True])
def test_a_row_is_scored_alike_whatever_rows_are_beside_it(model, thin):
    """In float64 a sum of d products is off by at most d * eps / 2 of the sum of their sizes; here d * eps < 1e-14."""
    X, y, _ = table(3000)
    X = X[["pay", "skill"]]
    X = sparse.csr_matrix(X.to_numpy()) if thin else X
    fair = fb.FairClassifier(model=model, budget="200 steps").fit(X, y)
    together = fair.decision_function(X)
    apart = [fair.decision_function(X[a : a + size]) for size in (1, 7, 500) for a in (0, 500, 1000)]
    for (size, a), scores in zip([(s, a) for s in (1, 7, 500) for a in (0, 500, 1000)], apart, strict=True):
        np.testing.assert_allclose(scores, together[a : a + size], rtol=0, atol=1e-12 * np.abs(together).max())


@pytest.mark.filterwarnings("ignore:sex is missing in 129 training rows:fairbound.base.errors.DataWarning")
def test_the_same_fit_on_pandas_polars_and_arrow_tables_gives_equal_bits():
    frame, y, sex = table(900)
    frame["age"] = np.random.default_rng(5).integers(18, 70, len(frame))
    frame["since"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(len(frame)) % 400, unit="D")
    frame["vip"] = frame["pay"] > 0.3
    frame.loc[frame.index % 11 == 3, ["pay", "city"]] = None
    frame["grade"] = pd.Categorical(np.where(frame["skill"] > 0, "high", "low"))
    tables = [frame, pl.from_pandas(frame), pa.Table.from_pandas(frame, preserve_index=False)]
    words = np.where(y == 1, "yes", "no")
    labels = [pd.Series(words), pl.Series(words), pa.chunked_array([words.tolist()])]
    known = np.where(np.arange(len(sex)) % 7 == 0, None, sex)
    groups = [pd.DataFrame({"sex": known}), pl.DataFrame({"sex": known.tolist()}), pa.table({"sex": known.tolist()})]
    made = [
        fb.FairClassifier("demographic_parity <= 0.2", model="mlp:4", budget="30 steps").fit(X, label, group)
        for X, label, group in zip(tables, labels, groups, strict=True)
    ]
    first = made[0]
    assert first.encoder_.feature_names == made[1].encoder_.feature_names == made[2].encoder_.feature_names
    for other in made[1:]:
        assert torch.equal(first.x_, other.x_) and first.feature_names_in_.tolist() == other.feature_names_in_.tolist()
        assert other.groups_.labels == (("F", "M"),) and other.classes_.tolist() == ["no", "yes"]
    for X in tables:
        np.testing.assert_array_equal(first.decision_function(X), first.decision_function(frame))


def test_one_encoding_serves_several_models_and_each_table_is_read_once(monkeypatch):
    X, y, sex = table()
    read = []
    real = encoder_module.read_columns
    monkeypatch.setattr(encoder_module, "read_columns", lambda *a, **k: read.append(1) or real(*a, **k))
    plain = fb.FairClassifier("demographic_parity <= 0.2", budget=QUICK).fit(X, y, sex)
    assert len(read) == 1
    rows = Encoded.of(fb.TableEncoder(), X)
    fair = fb.FairClassifier("demographic_parity <= 0.2", budget=QUICK).fit(rows, y, sex)
    free = fb.FairClassifier(budget=QUICK).fit(rows, y)
    held = Encoded.of(rows.encoder, X[:50])
    assert len(read) == 3
    np.testing.assert_array_equal(fair.decision_function(X[:50]), plain.decision_function(X[:50]))
    np.testing.assert_allclose(fair.decision_function(held), plain.decision_function(X[:50]), atol=1e-6)  # in float32
    assert fair.feature_names_in_.tolist() == plain.feature_names_in_.tolist()
    assert free.encoder_ is fair.encoder_ is rows.encoder and len(held) == 50
    with pytest.raises(DataError, match="another encoder"):
        plain.predict(held)
    with pytest.raises(OptionError, match="under other options"):
        fb.FairClassifier(options=fb.tables.TableOptions(min_count=9)).fit(rows, y)
    with pytest.raises(OptionError, match="before encoding"):
        fb.FairClassifier("demographic_parity <= 0.2", sensitive_columns="drop").fit(rows, y, X[["city"]])


def test_labels_are_read_once(monkeypatch):
    X, y, _ = table()
    seen = []
    real = training_rows.class_labels
    monkeypatch.setattr(training_rows, "class_labels", lambda labels: seen.append(1) or real(labels))
    fb.FairClassifier(budget="10 steps", positive=0).fit(X, y)
    assert seen == [1]


def test_a_module_is_left_in_the_mode_it_was_in():
    frame, y, _ = table()
    X, net = frame[["pay", "skill"]].to_numpy(dtype=np.float32), Net()
    fair = fb.FairClassifier(model=net, budget="20 steps").fit(X, y)
    net.train()
    net.inner[1].eval()
    before = [part.training for part in net.modules()]
    fair.predict(X)
    assert [part.training for part in net.modules()] == before


def test_the_global_generators_are_left_alone():
    X, y, sex = table()
    np.random.seed(7)
    torch.manual_seed(7)
    before = (np.random.get_state()[1].copy(), torch.get_rng_state())
    fb.FairClassifier("equalized_odds <= 0.1", model="mlp:4", budget=QUICK).fit(X, y, sex).predict(X)
    assert np.array_equal(before[0], np.random.get_state()[1])
    assert torch.equal(before[1], torch.get_rng_state())


def test_frames_arrays_tensors_lists_and_sparse_give_the_same_model():
    frame, y, sex = table()
    frame = frame[["pay", "skill"]]
    array = frame.to_numpy(dtype=float)
    reference = None
    for X, labels, groups in (
        (frame, pd.Series(y), pd.Series(sex, name="sex")),
        (pl.from_pandas(frame), pl.Series(y), pl.DataFrame({"sex": sex})),
        (array, y, sex),
        (torch.tensor(array), torch.tensor(y), sex.tolist()),
        (array.tolist(), y.tolist(), {"sex": sex}),
    ):
        scores = (
            fb.FairClassifier("demographic_parity <= 0.2", budget=QUICK).fit(X, labels, groups).decision_function(X)
        )
        reference = scores if reference is None else reference
        np.testing.assert_array_equal(scores, reference)
    thin = sparse.csr_matrix(array)
    fitted = fb.FairClassifier("demographic_parity <= 0.2", budget=QUICK).fit(thin, y, sex)
    np.testing.assert_allclose(fitted.decision_function(thin), fitted.decision_function(sparse.csr_array(array)))


def test_a_float32_frame_and_string_labels():
    frame, y, sex = table()
    words = np.where(y == 1, "approved", "denied")
    fair = fb.FairClassifier("demographic_parity <= 0.2", budget=QUICK, positive="approved")
    fair.fit(frame[["pay", "skill"]].astype(np.float32), words, sensitive_features=sex)
    assert fair.classes_.tolist() == ["denied", "approved"]
    assert set(fair.predict(frame)) <= {"approved", "denied"}
    assert np.mean(fair.predict(frame) == words) > 0.7
    assert fair.predict_proba(frame).shape == (len(y), 2)
    np.testing.assert_allclose(fair.predict_proba(frame).sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_rows_without_a_known_group_are_in_no_bound(missing):
    X, y, sex = table(2000)
    known = sex.astype(object)
    known[::3] = missing
    with pytest.warns(DataWarning, match="group is missing in 667 training rows"):
        fair = fb.FairClassifier("demographic_parity <= 0.05", validation=0).fit(X, y, sensitive_features=known)
    seen = np.arange(len(y)) % 3 > 0
    assert fair.groups_.labels == (("F", "M"),)
    assert fair.fit_report_["constraints"][0]["train_value"] == pytest.approx(
        gap(fair.predict(X)[seen], sex[seen]), abs=1e-5
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_several_attributes_crossed_and_each():
    X, y, sex = table(2000)
    race = np.random.default_rng(1).choice(["a", "b", "c"], len(y))
    stated = ["demographic_parity <= 0.1", "equal_opportunity[crossed] <= 0.2"]
    fair = fb.FairClassifier(stated, algorithm="alm", budget=QUICK).fit(X, y, pd.DataFrame({"sex": sex, "race": race}))
    assert [c["text"] for c in fair.fit_report_["constraints"]] == stated
    assert fair.groups_.attributes == ("sex", "race")
    curves = fair.trajectory_
    assert set(curves["constraints"]) == set(stated) and len(curves["multipliers"]) <= 12
    assert curves["steps"][0] == 0 and curves["steps"][-1] == 200


def test_the_trajectory_ends_at_the_measured_value_of_the_last_iterate():
    X, y, sex = table()
    fair = fb.FairClassifier("demographic_parity <= 0.2", budget=QUICK, validation=0).fit(X, y, sex)
    features, _ = fair.encode(X)
    last = fair.model_.scores(fair.solution_.last, features).numpy() > 0
    assert fair.trajectory_["constraints"]["demographic_parity <= 0.2"][-1] == pytest.approx(gap(last, sex), abs=1e-5)
    assert fair.trajectory_["bounds"] == {"demographic_parity <= 0.2": 0.2}


def test_weights_of_zero_take_rows_out_of_loss_and_bound():
    X, y, sex = table(2000)
    weight = np.where(np.arange(2000) < 1500, 1.0, 0.0)
    fair = fb.FairClassifier("demographic_parity <= 0.05", validation=0).fit(X, y, sex, sample_weight=weight)
    first = weight > 0
    assert fair.fit_report_["constraints"][0]["train_value"] == pytest.approx(
        gap(fair.predict(X)[first], sex[first]), abs=1e-5
    )
    for bad in (-weight, np.full(2000, np.nan), np.zeros(2000), weight[:-1]):
        for share in (0, 0.2):  # told of the rows given, not of those left after a validation part
            with pytest.raises(DataError, match=r"sample_weight must (be finite|have shape \(2000,\))"):
                fb.FairClassifier("demographic_parity <= 0.05", validation=share).fit(X, y, sex, sample_weight=bad)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(2, 6), torch.nn.Tanh(), torch.nn.Dropout(0.1))
        self.out = torch.nn.Linear(6, 1)

    def forward(self, x):
        return self.out(self.inner(x))


class Fixed(torch.nn.Module):
    """Its decisions cannot change: the sign of the first feature."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.zeros(()))

    def forward(self, x):
        return x[:, 0] * torch.exp(self.scale)


def test_an_nn_module_with_dropout_trains_and_predicts_the_same_twice(tmp_path):
    frame, y, sex = table()
    X = frame[["pay", "skill"]].to_numpy(dtype=np.float32)
    fair = fb.FairClassifier("demographic_parity <= 0.2", model=Net(), budget="100 steps").fit(X, y, sex)
    assert np.array_equal(fair.decision_function(X), fair.decision_function(X))
    assert fair.score(X, y) > 0.6
    fair.save(tmp_path / "model")
    with pytest.raises(ModelFolderError, match="module="):
        fb.FairClassifier.load(tmp_path / "model")
    again = fb.FairClassifier.load(tmp_path / "model", module=Net())
    np.testing.assert_array_equal(again.decision_function(X), fair.decision_function(X))


def tokens_of():
    return torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Flatten(), torch.nn.Linear(20, 1))


@pytest.mark.parametrize("kind", [pytest.param(np.uint8, marks=pytest.mark.long), torch.tensor])
def test_integers_reach_a_module_that_takes_nothing_else(tmp_path, kind):
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    tokens, sex = rng.integers(0, 9, (600, 5)), rng.choice(["f", "m"], 600)
    y = ((tokens < 4).sum(1) > 2).astype(int)
    X = kind(tokens) if kind is torch.tensor else tokens.astype(kind)
    fair = fb.FairClassifier("demographic_parity <= 0.2", model=tokens_of(), budget="300 steps").fit(X, y, sex)
    assert fair.score(X, y) > 0.8 and fair.encode(X)[0].dtype == torch.int64
    fair.save(tmp_path / "model")
    again = fb.FairClassifier.load(tmp_path / "model", module=tokens_of())
    np.testing.assert_array_equal(again.decision_function(X), fair.decision_function(X))
    with pytest.raises(OptionError, match=r"An embedding takes integers: give an array of integers"):
        fb.FairClassifier("demographic_parity <= 0.2", model=tokens_of()).fit(tokens + 0.0, y, sex)
    with pytest.raises(OptionError, match=r"torch\.int64: index out of range"):  # the error of what it can take
        fb.FairClassifier("demographic_parity <= 0.2", model=tokens_of()).fit(tokens + 9, y, sex)


def test_a_module_of_floats_gets_integers_as_floats():
    frame, y, sex = table()
    X = np.rint(frame[["pay", "skill"]].to_numpy()).astype(int)
    given = []
    for rows in (X, X.astype(np.float32)):
        torch.manual_seed(0)
        fair = fb.FairClassifier(
            "demographic_parity <= 0.2", model=Net(), algorithm="alm", budget="20 steps", random_state=0
        )
        given.append(fair.fit(rows, y, sex).decision_function(rows))
        assert fair.encode(rows)[0].dtype == torch.float32
    np.testing.assert_array_equal(*given)


def test_an_infeasible_bound_is_said_with_the_smallest_value_reached():
    frame, y, sex = table()
    X = frame[["pay", "skill"]].to_numpy(dtype=np.float32)
    fair = fb.FairClassifier("demographic_parity <= 0.01", model=Fixed(), budget=QUICK)
    with pytest.warns(ConvergenceWarning, match="no iterate met every bound"):
        fair.fit(X, y, sex)
    excess = gap(X[:, 0] > 0, sex) - 0.01
    assert not fair.fit_report_["feasible"]
    assert f"smallest excess reached is {excess:.4g}" in fair.fit_report_["message"]


@pytest.mark.parametrize("model", ["linear", "mlp:5"])
def test_a_saved_model_gives_the_same_scores_without_the_training_data(model, tmp_path):
    X, y, sex = table()
    words = np.where(y == 1, "yes", "no")
    fair = fb.FairClassifier("demographic_parity <= 0.1", model=model, budget=QUICK).fit(X, words, {"sex": sex})
    fair.save(tmp_path / "m")
    again = fb.FairClassifier.load(tmp_path / "m")
    np.testing.assert_array_equal(again.decision_function(X), fair.decision_function(X))
    np.testing.assert_array_equal(again.predict(X), fair.predict(X))
    assert again.fit_report_ == fair.fit_report_ | {"seconds": None} and again.groups_.labels == fair.groups_.labels
    assert again.constraint == "demographic_parity <= 0.1"
    assert not [p for p in (tmp_path / "m").iterdir() if p.suffix in (".pkl", ".pt", ".joblib")]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_pipelines_route_the_sensitive_features():
    frame, y, sex = table()
    X = frame[["pay", "skill"]]
    with config_context(enable_metadata_routing=True):
        fair = fb.FairClassifier("demographic_parity <= 0.2", budget=QUICK).set_fit_request(sensitive_features=True)
        pipe = make_pipeline(StandardScaler(), fair).fit(X, y, sensitive_features=sex)
        assert pipe[-1].fit_report_["feasible"]
        search = GridSearchCV(fair, {"constraint": ["demographic_parity <= 0.01", "demographic_parity <= 0.3"]}, cv=2)
        search.fit(X, y, sensitive_features=sex)
        assert search.best_params_["constraint"] == "demographic_parity <= 0.3"
        scores = cross_validate(pipe, X, y, cv=2, params={"sensitive_features": sex})["test_score"]
    assert (scores > 0.6).all()


def test_arguments_are_stored_untouched_and_cloned():
    bound = fb.DemographicParity(bound=0.05)
    made = fb.FairClassifier(bound, model="mlp:4", algorithm=fb.ALM(step_size=0.05), budget=fb.Budget(steps=10))
    assert made.constraint is bound
    assert clone(made).get_params()["algorithm"] == fb.ALM(step_size=0.05)


@pytest.mark.parametrize("algorithm", ["alm", "ssl_alm", "switching_subgradient", "sgd"])
def test_every_method_runs_by_name(algorithm):
    X, y, sex = table()
    fair = fb.FairClassifier("demographic_parity <= 0.3", algorithm=algorithm, budget=QUICK).fit(X, y, sex)
    assert np.isfinite(fair.decision_function(X)).all() and fair.fit_report_["algorithm"]


def test_sensitive_columns_among_the_features_are_kept_or_dropped_and_said():
    frame, y, sex = table()
    frame["sex"] = sex
    kept = fb.FairClassifier("demographic_parity <= 0.2", budget=QUICK).fit(frame, y, frame["sex"])
    dropped = clone(kept).set_params(sensitive_columns="drop").fit(frame, y, frame["sex"])
    assert any("sex=" in name for name in kept.encoder_.feature_names)
    assert not any("sex=" in name for name in dropped.encoder_.feature_names)
    assert any("kept" in note for note in kept.fit_report_["notes"])
    assert any("dropped" in note for note in dropped.fit_report_["notes"])
    np.testing.assert_array_equal(dropped.predict(frame), dropped.predict(frame.drop(columns="sex")))


def test_prediction_needs_no_group_and_a_group_never_seen_changes_nothing():
    X, y, sex = table()
    fair = fb.FairClassifier("demographic_parity <= 0.2", budget=QUICK).fit(X, y, sex)
    new, unseen = fair.groups_.encode(np.where(np.arange(len(y)) == 0, "X", sex))
    assert unseen == {"group": 1} and new.codes[0, 0] == -1
    assert fair.predict(X).shape == y.shape


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_group_of_one_is_trained_on_without_error():
    X, y, sex = table()
    sex = sex.astype(object)
    sex[0] = "X"
    with pytest.warns(DataWarning, match=r"'X' \(1\)"):
        fair = fb.FairClassifier("demographic_parity <= 0.2", budget=QUICK).fit(X, y, sex)
    assert fair.groups_.counts()["group"]["X"] == 1
    assert fair.fit_report_["validation_rows"] == 0  # too few rows of "X" to hold any back
    with pytest.raises(EmptyGroupError, match=r"'X' has no (positive|negative) row"):
        fb.FairClassifier("equalized_odds <= 0.2", budget=QUICK).fit(X, y, sex)
    with pytest.warns(DataWarning, match="want of rows: X"):
        dropped = fb.FairClassifier("equalized_odds[empty=drop] <= 0.2", budget=QUICK).fit(X, y, sex)
    assert dropped.fit_report_["dropped_groups"] == ["X"]


def test_training_rows_of_no_known_group_are_counted_and_warned_of():
    X, y, sex = table()
    sex = np.where(np.arange(len(y)) % 10 == 0, None, sex.astype(object))
    said = f"group is missing in {len(y) // 10} training rows"
    with pytest.warns(DataWarning, match=said):
        fair = fb.FairClassifier("demographic_parity <= 0.2", budget=QUICK).fit(X, y, sex)
    assert fair.fit_report_["missing_group_rows"] == {"group": len(y) // 10}
    assert any(said in line for line in fair.fit_report_["warnings"])


def test_an_unseen_category_is_predicted_and_reported():
    X, y, sex = table()
    fair = fb.FairClassifier("demographic_parity <= 0.2", budget=QUICK).fit(X, y, sex)
    new = X.assign(city=np.where(np.arange(len(y)) < 5, "Z", X["city"]))
    with pytest.warns(DataWarning, match=r"city: 5 of \d+ rows have a value that training did not know, 'Z'") as said:
        assert np.isfinite(fair.decision_function(new)).all()
    assert len(said) == 1 and np.isfinite(fair.decision_function(new)).all()
    assert fair.encode(new)[1].unseen == {"city": 5}


def test_validation_is_held_back_where_the_groups_are_large():
    X, y, sex = table(4000)
    on_batches = fb.FairClassifier("demographic_parity <= 0.2", algorithm="alm", budget=QUICK)
    assert clone(on_batches).fit(X, y, sex).fit_report_["validation_rows"] == pytest.approx(800, abs=4)
    at_once = fb.FairClassifier("demographic_parity <= 0.2").fit(X, y, sex)
    assert at_once.fit_report_["validation_rows"] == 0
    small = on_batches.fit(X[:200], y[:200], sex[:200])
    assert small.fit_report_["validation_rows"] == 0
    assert any("validation" in note for note in small.fit_report_["notes"])


# -- bad input ------------------------------------------------------------------------------------------------


def spoil(**columns):
    X, _, _ = table()
    return X.assign(**columns)


@pytest.mark.parametrize(
    ("X", "said"),
    [
        (lambda: spoil(pay=lambda f: f["pay"].where(f.index != 3, np.inf)), "'pay' has 1 infinite"),
        (lambda: spoil(pay=lambda f: f["pay"].astype(object).where(f.index != 3, "many")), "pay"),
        (lambda: table()[0].set_axis(["a", "a", "b"], axis=1), "'a'"),
        (lambda: table()[0][:0], "0"),
        (lambda: pd.DataFrame({"only": np.ones(600)}), "no column is left"),
        (lambda: table()[0][:-1], "599 rows"),
    ],
)
def test_bad_tables_are_errors_that_name_the_column(X, said):
    _, y, sex = table()
    with pytest.raises(DataError, match=said):
        fb.FairClassifier("demographic_parity <= 0.2", budget=QUICK).fit(X(), y, sex)


def test_a_constant_and_an_all_nan_column_are_dropped_and_reported():
    _, y, sex = table()
    X = spoil(same=1, gone=np.nan)
    with pytest.warns(DataWarning, match="Column '(gone|same)' was dropped") as said:
        fair = fb.FairClassifier("demographic_parity <= 0.2", budget=QUICK).fit(X, y, sex)
    assert set(fair.fit_report_["encoding"]["dropped"]) == {"same", "gone"} and len(said) == 2
    told = [line for line in fair.fit_report_["warnings"] if "was dropped" in line]
    assert [line.split(":")[0] for line in told] == ["Column 'same' was dropped", "Column 'gone' was dropped"]


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (np.zeros(600), "one class"),
        (np.arange(600) % 3, "3 values"),
        (np.where(np.arange(600) == 5, np.nan, np.arange(600) % 2), "row 5"),
        (None, "requires y"),
    ],
)
def test_bad_labels(y, said):
    X, _, sex = table()
    with pytest.raises(DataError, match=said):
        fb.FairClassifier("demographic_parity <= 0.2", budget=QUICK).fit(X, y, sex)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"constraint": "demographic_parity <= -0.1"}, "bound"),
        ({"constraint": "demographic_parity <= 1.5"}, "bound"),
        ({"constraint": "demografic_parity <= 0.1"}, "unknown constraint"),
        ({"constraint": "demographic_parity[race] <= 0.1"}, "race"),
        ({"algorithm": "almm"}, "almm"),
        ({"model": "forest"}, "'forest'.* fb.Reduction keeps a classifier of another library"),
        ({"loss": "huber"}, "huber"),
        ({"budget": "30 parsecs"}, "budget"),
        ({"batch_size": 0}, "batch_size"),
        ({"sampling": "lucky"}, "lucky"),
        ({"validation": 1.0}, "validation"),
        ({"sensitive_columns": "hide"}, "sensitive_columns"),
        ({"positive": 7}, "positive"),
    ],
)
def test_bad_options_name_themselves(options, said):
    X, y, sex = table()
    with pytest.raises((OptionError, DataError), match=said):
        fb.FairClassifier(**{"constraint": "demographic_parity <= 0.1", "budget": QUICK, **options}).fit(X, y, sex)


def test_bad_groups():
    X, y, sex = table()
    fair = fb.FairClassifier("demographic_parity <= 0.2", budget=QUICK)
    with pytest.raises(DataError, match="sensitive_features"):
        fair.fit(X, y)
    with pytest.raises(DataError, match="599"):
        fair.fit(X, y, sex[:-1])
    with pytest.raises(DataError, match="no known value"):
        fair.fit(X, y, np.full(len(y), None, dtype=object))
    with pytest.raises(DataError, match="Bin it first"):
        fair.fit(X, y, np.arange(len(y)) / 7)
    with pytest.raises(EmptyGroupError, match="at least two groups"):
        fair.fit(X, y, np.full(len(y), "F"))


def test_prediction_before_fit_and_on_other_columns():
    X, y, sex = table()
    with pytest.raises(NotFittedError):
        fb.FairClassifier().predict(X)
    fair = fb.FairClassifier("demographic_parity <= 0.2", budget=QUICK).fit(X, y, sex)
    with pytest.raises(DataError, match="city"):
        fair.predict(X.drop(columns="city"))
    with pytest.raises(DataError, match="pay"):
        fair.predict(X.assign(pay="much"))


@pytest.mark.parametrize("damage", [lambda b: b"", lambda b: b[: len(b) // 2], lambda b: b[:-1] + bytes([b[-1] ^ 1])])
def test_a_damaged_model_folder_is_refused(damage, tmp_path):
    X, y, sex = table()
    fb.FairClassifier("demographic_parity <= 0.2", budget=QUICK).fit(X, y, sex).save(tmp_path / "m")
    for file in sorted((tmp_path / "m").iterdir()):
        good = file.read_bytes()
        file.write_bytes(damage(good))
        if file.read_bytes() != good:
            try:
                fb.FairClassifier.load(tmp_path / "m")
            except ModelFolderError:
                pass
            else:
                pytest.fail(f"{file.name}, damaged, was loaded")
        file.write_bytes(good)
    fb.FairClassifier.load(tmp_path / "m")


def test_a_bound_finer_than_a_group_can_show_is_said():
    """Nine rows: their rate moves in steps of 1/9, so no difference of 0.05 can be seen among them."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(609, 2)), rng.integers(0, 2, 609)
    group = np.r_[np.repeat(["a", "b"], 300), np.repeat("tiny", 9)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", DataWarning)
        fine = fb.FairClassifier("demographic_parity <= 0.05", budget="100 steps").fit(X, y, sensitive_features=group)
        coarse = fb.FairClassifier("demographic_parity <= 0.2", budget="100 steps").fit(X, y, sensitive_features=group)
    said = [w for w in fine.fit_report_["warnings"] if "too few training rows" in w]
    assert len(said) == 1 and "'tiny' (9)" in said[0] and "'a'" not in said[0]
    assert not [w for w in coarse.fit_report_["warnings"] if "too few training rows" in w]


def test_a_model_that_gives_every_row_the_common_label_is_said_to_be_that():
    """In the weights of the rows, whatever the rounding; not where labels are weighted on purpose."""
    rng = np.random.default_rng(0)
    X, sex = rng.normal(size=(4870, 4)), rng.choice(["F", "M"], 4870)
    y = rng.random(4870) < 0.05 + 0.06 * (X[:, 0] > 0)
    bound, often = "equal_opportunity <= 0.05", rng.uniform(0.5, 2, 4870)
    for weight in (None, often):
        with pytest.warns(ConvergenceWarning, match=r"As 9\d\.\d % .* class_weight='balanced'"):
            made = fb.FairClassifier(bound).fit(X, y, sex, sample_weight=weight)
        assert not made.predict(X).any() and made.fit_report_["no_better_than_constant"]
    even = fb.FairClassifier(bound, class_weight="balanced").fit(X, y, sex)
    assert even.predict(X).mean() > 0.2 and not even.fit_report_["no_better_than_constant"]
    heavy = fb.FairClassifier(bound).fit(X, y, sex, sample_weight=np.where(y, 12.0, 1.0))
    assert heavy.predict(X).any() and not heavy.fit_report_["no_better_than_constant"]


@pytest.mark.parametrize("steps", [100, pytest.param(300, marks=pytest.mark.long)])
def test_a_module_is_itself_trained_and_holds_the_chosen_parameters_when_fit_ends(steps):
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b"], 400)
    X = (rng.normal(size=(400, 6)) + (group == "a")[:, None]).astype(np.float32)
    y = (X[:, 0] + rng.normal(size=400) > 0.5).astype(int)
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    fitted = fb.FairClassifier("demographic_parity <= 0.05", model=module, budget=f"{steps} steps", random_state=0)
    fitted.fit(X, y, sensitive_features=group)
    with torch.no_grad():
        own = module(torch.from_numpy(X)).ravel().numpy()
    assert fitted.model_.module is module
    np.testing.assert_allclose(own, fitted.decision_function(X), atol=1e-5)
