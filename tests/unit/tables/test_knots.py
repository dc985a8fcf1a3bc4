"""Knots: a number's part of a linear model may bend at values of training."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

import fairbound as fb
from fairbound.base.errors import DataError, OptionError
from fairbound.cli.app import main
from fairbound.tables import Chunks, Encoded, TableEncoder, TableOptions
from fairbound.tables.shapes import shapes
from fairbound.tables.shapes.bending import looked_at, score_statistics
from fairbound.tables.shapes.regressions import NUMBERS

BENT = TableOptions(knots=3)


def table(n: int = 400, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(17, 90, n),
            "pay": rng.lognormal(9, 1, n),
            "job": rng.choice(list("abc"), n),
            "yes": rng.integers(0, 2, n),
        }
    )


def test_a_knot_is_a_value_at_an_equal_step_of_rank_and_its_feature_is_how_far_a_number_lies_above_it() -> None:
    frame = table()
    encoder = TableEncoder(BENT)
    features = pd.DataFrame(encoder.fit_transform(frame), columns=encoder.feature_names)
    age = frame.age.to_numpy()
    knots = [sorted(age)[(len(age) - 1) * k // 4] for k in (1, 2, 3)]
    assert [name for name in features if name.startswith("age")] == ["age", *(f"age above {k}" for k in knots)]
    for knot in knots:
        expected = np.where(age > knot, age - knot, 0) / age.std()
        assert np.allclose(features[f"age above {knot}"], expected, rtol=0, atol=1e-12)


def test_the_features_of_a_number_represent_every_function_that_is_linear_between_its_knots() -> None:
    x = np.sort(np.random.default_rng(1).normal(size=200))
    encoder = TableEncoder(TableOptions(knots=4))
    features = encoder.fit_transform(x[:, None])
    knots = [float(name.split()[-1]) for name in encoder.feature_names[1:]]
    corners = [x[0], *knots, x[-1]]
    wanted = np.interp(x, corners, np.random.default_rng(2).normal(size=len(corners)))
    design = np.column_stack([np.ones(len(x)), features])
    assert np.abs(design @ np.linalg.lstsq(design, wanted, rcond=None)[0] - wanted).max() < 1e-6


def test_knots_of_a_number_with_gaps_are_values_between_its_ends() -> None:
    even, spiked = np.arange(100.0), np.r_[np.zeros(300), 1:101]
    for values, knots in ((even, (24.0, 49.0, 74.0)), (spiked, ()), (-spiked, (-1.0,)), (spiked[150:], (37.0,))):
        known = np.random.default_rng(8).permutation(values)
        for column in (known, np.r_[known, np.nan]):
            assert TableEncoder(BENT).fit(column[:, None]).learnt[0].knots == knots


@pytest.mark.parametrize("values", [[0, 1] * 50, [3.0] * 99 + [4.0], [1] * 50 + [2] * 50], ids=str)
def test_a_number_of_two_values_has_no_knot(values: list[float]) -> None:
    assert TableEncoder(BENT).fit(np.array(values, dtype=float)[:, None]).feature_names == ("x0",)


@pytest.mark.parametrize("knots", [3, "auto"])
def test_weighted_sums_are_those_of_the_features_with_gaps_too(knots: int | str) -> None:
    frame = table().astype({"age": float})
    frame.loc[::7, "age"] = np.nan
    encoder = TableEncoder(TableOptions(knots=knots)).fit(frame, (frame.age - 50).abs() < 20)
    weight = np.random.default_rng(3).normal(size=(len(encoder.feature_names), 2))
    assert encoder.bent == (("age",) if knots == "auto" else ("age", "pay"))
    assert np.allclose(encoder.weighted(frame, weight), encoder.transform(frame) @ weight, rtol=0, atol=1e-12)
    assert encoder.last_report.missing == {"age": int(frame.age.isna().sum())}


@pytest.mark.parametrize("bent", [1, 3, 5])
@pytest.mark.parametrize("layout", ["rows", "columns", "apart"])
def test_weighted_sums_bend_in_few_numbers_or_in_all(layout: str, bent: int) -> None:
    x = np.random.default_rng(5).normal(1e3, 4, (70_000, 5))  # in two parts
    x[:, bent:] = x[:, bent:] > 1e3  # of two values, which take no knot
    x[69_000, 0] = np.nan
    values = {"rows": x, "columns": np.asfortranarray(x), "apart": pd.DataFrame(x).astype({0: "float32"})}[layout]
    encoder = TableEncoder(BENT).fit(values[:400] if layout != "apart" else values.iloc[:400])
    assert len(encoder.bent) == bent
    weight = np.random.default_rng(6).normal(size=(len(encoder.feature_names), 1))
    assert np.allclose(encoder.weighted(values, weight), encoder.transform(values) @ weight, rtol=0, atol=1e-11)


def test_a_saved_encoder_gives_the_same_bits_and_damaged_knots_are_refused() -> None:
    encoder = TableEncoder(BENT).fit(table())
    text = encoder.to_json()
    assert np.array_equal(TableEncoder.from_json(text).transform(table(seed=1)), encoder.transform(table(seed=1)))
    for knots in ([2.0, 1.0], [1.0, 1.0], ["1"], [float("1e999")], [True]):
        state = json.loads(text)
        state["learnt"][0]["knots"] = knots
        with pytest.raises(DataError, match="lacks a part or has a wrong one"):
            TableEncoder.from_json(json.dumps(state))
    older = json.loads(TableEncoder().fit(table()).to_json())
    for feature in older["learnt"]:
        feature.pop("knots", None)
    older["options"].pop("knots")
    assert TableEncoder.from_json(json.dumps(older)).feature_names == TableEncoder().fit(table()).feature_names


def test_tables_without_ranks_are_refused() -> None:
    with pytest.raises(DataError, match="sparse table takes no knots, jumps or pairs"):
        TableEncoder(BENT).fit(sp.eye_array(5).tocsr())
    with pytest.raises(DataError, match="leave them out, or give the table whole"):
        Encoded.of(TableEncoder(BENT), Chunks(lambda: [table(20), table(20)]))
    with pytest.raises(OptionError, match="knots must be a whole number of at least 0"):
        TableOptions(knots=-1)
    fitted = TableEncoder(BENT).fit(table())
    parts = Encoded.of(fitted, Chunks(lambda: [table(20), table(20)]))
    assert np.allclose(parts.features[:20], fitted.transform(table(20)), rtol=1e-6, atol=1e-6)


def bent_rows() -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Rows whose label is 1 in the middle of x, which no line separates, but for a row in fifty."""
    rng = np.random.default_rng(4)
    x = rng.uniform(-3, 3, 900)
    X, y = pd.DataFrame({"x": x, "z": rng.normal(size=900)}), (np.abs(x) < 1.2).astype(int)
    y[::50] = 1 - y[::50]
    return X, y, rng.choice(["f", "m"], 900)


def test_a_bounded_model_bends_where_a_line_cannot_and_its_weights_say_so() -> None:
    X, y, group = bent_rows()
    bound = "demographic_parity <= 0.05"
    bent = fb.FairClassifier(bound, options=TableOptions(knots=5)).fit(X, y, sensitive_features=group)
    assert LogisticRegression().fit(X, y).score(X, y) < 0.7 < 0.95 < (bent.predict(X) == y).mean()
    assert fb.measure(bound, bent.decision_function(X), y, group, threshold=0) <= 0.05
    scores = np.full(len(X), bent.intercept_[0])
    for name, weight in zip(bent.encoder_.feature_names, bent.coef_[0], strict=True):
        column, _, knot = name.partition(" above ")
        scores += weight * (np.maximum(X[column] - float(knot), 0) if knot else X[column])
    assert np.allclose(scores, bent.decision_function(X), rtol=0, atol=1e-3)


def test_a_test_keeps_the_knots_of_the_numbers_that_bend() -> None:
    X, y, group = bent_rows()
    auto = TableOptions(knots="auto", jumps=0)
    model = fb.FairClassifier("demographic_parity <= 0.05", options=auto).fit(X, y, sensitive_features=group)
    assert model.encoder_.bent == ("x",)
    assert [name for name in model.encoder_.feature_names if name.startswith("z")] == ["z"]
    assert (model.predict(X) == y).mean() > 0.95
    said = "As the labels ask for it, the model bends at up to 3 values in these columns: x. "
    said += "options=TableOptions(knots=0) keeps it straight."
    assert said in model.fit_report_["notes"]
    again = TableEncoder.from_json(model.encoder_.to_json())
    assert np.array_equal(again.transform(X), TableEncoder(auto).fit_transform(X, y))
    assert TableEncoder(auto).fit(X.iloc[:29], y[:29]).bent == ()  # too few rows to tell


def test_more_rows_than_the_test_needs_are_left_out(monkeypatch) -> None:
    monkeypatch.setattr("fairbound.tables.shapes.bending.ROWS", 300)
    X, y, _ = bent_rows()
    assert len(looked_at(len(X), 2)) == 300
    assert TableEncoder(TableOptions(knots="auto")).fit(X, y).bent == ("x",)
    assert len(looked_at(len(X), 2, 400)) == 200
    assert looked_at(200, 20) is None  # 20 rows: too few for 21 weights


def test_the_score_statistic_is_the_slope_against_the_whole_information_matrix() -> None:
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.normal(size=(800, 3)), np.ones(800)])
    E = np.maximum(X[:, :2] - 0.3, 0)
    y = (rng.random(800) < 0.3).astype(int)
    p = LogisticRegression(C=1e9, tol=1e-10, max_iter=2000).fit(X[:, :3], y).predict_proba(X[:, :3])[:, 1]
    both = np.column_stack([X, E - E.mean(0)])
    slope = both.T @ (y - p)
    whole = slope @ np.linalg.solve(both.T @ ((p * (1 - p))[:, None] * both), slope)
    ((statistic, df),) = score_statistics(X, [E], y, p)
    assert df == 2
    assert abs(statistic - whole) < 1e-5 * whole
    early = LogisticRegression(C=1e9, tol=1e-10, max_iter=2000).fit(X[:, :3], y).predict_proba(1.2 * X[:, :3])[:, 1]
    ((statistic, _),) = score_statistics(X, [E], y, early)
    assert abs(statistic - whole) < 0.02 * whole


def test_a_number_that_a_category_tells_needs_no_knots() -> None:
    X, y, _ = bent_rows()
    X["years"] = np.digitize(X.x, [-2, -1, 0, 1, 2])
    X["school"] = X.years.map(dict(enumerate("abcdef")))
    assert "years" not in TableEncoder(TableOptions(knots="auto")).fit(X, y).bent


def test_numbers_that_do_not_bend_seldom_get_knots() -> None:
    """In one of a hundred tables, at most; six of eighty or more come up with probability 1e-4 then."""
    rng, bent = np.random.default_rng(6), 0
    for _ in range(80):
        X = rng.normal(size=(500, 20))
        y = rng.random(500) < 1 / (1 + np.exp(-X[:, 0]))
        bent += bool(TableEncoder(TableOptions(knots="auto")).fit(X, y).bent)
    assert bent < 6


def test_a_choice_of_knots_needs_labels() -> None:
    X, y, _ = bent_rows()
    auto = TableOptions(knots="auto")
    with pytest.raises(DataError, match="X has 900 rows, y 899"):
        TableEncoder(auto).fit(X, y[:-1])
    for labels in (None, np.arange(900) % 11, np.zeros(900)):
        with pytest.raises(OptionError, match="by the labels of all rows: numbers, as floats, or 2 to 10 classes"):
            TableEncoder(auto).fit(X, labels)
    with pytest.raises(DataError, match="labels must be finite"):
        TableEncoder(auto).fit(X, np.where(y > 0, np.nan, X.x))
    with pytest.raises(OptionError, match="knots must be a whole number of at least 0 or 'auto'"):
        TableOptions(knots="many")


def test_the_score_statistic_of_numbers_has_the_larger_of_two_spreads() -> None:
    """With one variance of all rows, and White's, in full; both by hand."""
    rng = np.random.default_rng(7)
    X = np.column_stack([rng.normal(size=(800, 3)), np.ones(800)])
    E = np.maximum(X[:, :2] - 0.3, 0)
    for wide in (0.0, 1.5):
        y = X[:, 0] + rng.normal(size=800) * np.exp(wide * X[:, 0])
        expected = X @ np.linalg.lstsq(X, y, rcond=None)[0]
        left, beyond = y - expected, E - X @ np.linalg.lstsq(X, E, rcond=None)[0]
        slope = beyond.T @ left
        one = slope @ np.linalg.solve(beyond.T @ beyond * (left @ left / 796), slope)
        each = slope @ np.linalg.solve((left[:, None] * beyond).T @ (left[:, None] * beyond), slope)
        ((statistic, df),) = score_statistics(X, [E], y, expected, NUMBERS)
        assert df == 2
        assert abs(statistic - min(one, each)) < 1e-6 * one
        assert (each < 0.5 * one) == (wide > 0)


def test_classes_share_the_chance_of_a_needless_bend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three classes each is asked against the rest, at a third of the level."""
    X, y, _ = bent_rows()
    asked = []
    plain = shapes.useful
    monkeypatch.setattr(shapes, "useful", lambda *args: asked.append(args[1:]) or plain(*args))
    three = np.array(["low", "mid", "high"])[y + (X.z > 1)]
    assert "x" in TableEncoder(TableOptions(knots="auto", jumps=0)).fit(X, three).bent
    labels = [one[0] for one in asked]
    assert np.array_equal(np.column_stack(labels), three[:, None] == ["high", "low", "mid"])
    assert [one[3] for one in asked] == [1 / 3] * 3


def test_the_command_line_trains_saves_and_predicts_with_knots(tmp_path, capsys) -> None:
    X, y, group = bent_rows()
    data = tmp_path / "rows.csv"
    X.assign(group=group, y=y).to_csv(data, index=False)
    out = tmp_path / "out"
    fit = ["fit", "--data", str(data), "--label", "y", "--group", "group", "--constraint", "demographic_parity <= 0.2"]
    main([*fit, "--knots", "5", "--out", str(out), "--no-baseline", "--quiet"])
    model = fb.FairClassifier.load(out / "model")
    assert model.options == TableOptions(knots=5)
    assert (model.predict(X) == y).mean() > 0.95
    main([*fit, "--knots", "auto", "--out", str(out), "--no-baseline", "--quiet"])
    assert fb.FairClassifier.load(out / "model").encoder_.bent == ("x",)
    page = (out / "report.html").read_text()
    assert page.count("bends at up to 3 values") == page.count("--knots 0 keeps it straight") == 1
    assert main([*fit, "--knots", "some", "--out", str(out)]) == 2
    assert "--knots must be a whole number or 'auto'" in capsys.readouterr().err
    assert main([*fit, "--knots", "5", "--chunk-rows", "100", "--out", str(tmp_path / "parts"), "--quiet"]) == 2
    assert "leave them out, or give the table whole" in capsys.readouterr().err
