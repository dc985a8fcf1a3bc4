"""Jumps: the effect of a number may change at once at values for which the labels ask."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.stats import chi2
from sklearn.linear_model import LogisticRegression

import fairbound as fb
from fairbound.base.errors import DataError, OptionError
from fairbound.tables import Chunks, Encoded, TableEncoder, TableOptions
from fairbound.tables.shapes.bending import regression
from fairbound.tables.shapes.growing import Growing
from fairbound.tables.shapes.jumping import BINS, MOST, Binned, jumps_of, sure_intervals

pytestmark = pytest.mark.filterwarnings("ignore:.*(was|were) dropped:fairbound.base.errors.DataWarning")
AUTO = TableOptions(knots=0, jumps="auto")


def jumps_in(features: np.ndarray, labels: np.ndarray, numbers: list[int]) -> list[list[float]]:
    return jumps_of(Growing(features, labels, MOST), [Binned.of(features[:, at]) for at in numbers])


def rows(n: int = 3000, seed: int = 0, gaps: bool = False) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """A code of forty values kept as a number, seven of which are mostly of label 1; an age at which a rule begins; a
    number whose effect is a line."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"code": rng.integers(0, 40, n), "age": rng.uniform(20, 80, n), "z": rng.normal(size=n)})
    score = 3 * X.code.between(11, 17) + 2 * (X.age >= 65) + X.z - 2
    y = (rng.random(n) < 1 / (1 + np.exp(-score))).to_numpy().astype(int)
    if gaps:
        X.loc[::9, "age"] = np.nan
    return X, y, rng.choice(["f", "m"], n)


def test_an_interval_of_a_code_and_a_threshold_are_found_and_a_line_is_left_alone() -> None:
    X, y, _ = rows()
    encoder = TableEncoder(AUTO).fit(X, y)
    assert set(encoder.jumping) == {"code", "age"}
    assert encoder.jumping["code"] == (10.5, 17.5)
    assert any(abs(at - 65) < 1.5 for at in encoder.jumping["age"])
    code = [name for name in encoder.feature_names if name.startswith("code")]
    assert code == ["code", "code>10.5", "code>17.5"]
    features = pd.DataFrame(encoder.transform(X), columns=encoder.feature_names)
    for at in encoder.jumping["age"]:
        assert np.array_equal(features[f"age>{at:.10g}"], X.age > at)
    at = X[:1].assign(age=encoder.jumping["age"][0])
    assert not encoder.transform(at)[0, encoder.feature_names.index(f"age>{encoder.jumping['age'][0]:.10g}")]
    weight = np.random.default_rng(2).normal(size=(len(encoder.feature_names), 1))
    assert np.allclose(encoder.weighted(at, weight), encoder.transform(at) @ weight, rtol=0, atol=1e-12)


def test_the_statistic_of_an_interval_is_a_score_test_and_all_intervals_are_tried() -> None:
    """Beside a loop over all intervals, on which the test with an intercept alone is done in full."""
    rng = np.random.default_rng(1)
    bins, y = rng.integers(0, 9, 700), rng.random(700)
    y = (y < np.where((bins >= 3) & (bins < 5), 0.75, 0.5)).astype(int)
    p = np.full(700, y.mean())
    best, largest = [], 0.0
    for a in range(9):
        for b in range(a + 1, 10):
            inside = (bins >= a) & (bins < b)
            if inside.all():
                continue
            design = np.column_stack([np.ones(700), inside])
            slope = design.T @ (y - p)
            statistic = slope @ np.linalg.solve(design.T @ ((p * (1 - p))[:, None] * design), slope)
            if statistic > largest + 1e-9:
                best, largest = [edge - 1 for edge in (a, b) if 0 < edge < 9], statistic
    assert best == [2, 4]
    assert sure_intervals(bins, 9, y - p, p * (1 - p), largest * (1 - 1e-9)).edges == best
    assert sure_intervals(bins, 9, y - p, p * (1 - p), largest * (1 + 1e-9)).edges == []
    assert largest > chi2.isf(0.01 / 36, 1)


def test_intervals_are_found_when_what_those_before_account_for_is_taken_off() -> None:
    """Two plateaus: behind the surest interval, the next is one of what is left, and what a Newton step accounts for
    whole is not looked for again."""
    bins = np.repeat(np.arange(10), 100)
    expected = np.select([bins < 2, bins < 4, bins < 7], [0.2, 0.4, 0.8], 0.3)
    left, spread = expected - expected.mean(), np.full(1000, 0.25)
    first = sure_intervals(bins, 10, left, spread, 150.0).edges
    assert first == [3, 6]
    assert sure_intervals(bins, 10, left, spread, 5.0).edges[:2] == first
    assert set(sure_intervals(bins, 10, left, spread, 5.0).edges) == {1, 3, 6}
    one = np.where((bins >= 3) & (bins < 6), 0.7, 0.3)
    assert sure_intervals(bins, 10, one - one.mean(), spread, 1e-6).edges == [2, 5]


def test_an_interval_with_little_in_it_or_outside_is_not_tried() -> None:
    bins = np.repeat([0, 1, 2], [400, 30, 400])
    left = np.where(bins == 1, 0.5, -0.0375 / 2)
    assert sure_intervals(bins, 3, left, np.full(830, 0.25), 9.0).edges == []
    assert sure_intervals(bins, 3, left, np.full(830, 0.35), 9.0).edges == [0, 1]


def test_edges_lie_between_all_values_of_few_and_between_bins_of_many() -> None:
    assert np.array_equal(Binned.of(np.array([3.0, 1, 1, 2, 9])).edges, [1.5, 2.5, 6])
    assert np.array_equal(Binned.of(np.array([0.0, 1, 1, 0])).edges, [0.5])
    assert not len(Binned.of(np.array([3.0, 3, 3])).edges)
    rng = np.random.default_rng(2)
    spiked = np.r_[np.zeros(9000), rng.lognormal(8, 1, 1000)]
    edges = Binned.of(spiked).edges
    assert BINS / 2 < len(edges) < BINS
    assert (np.diff(edges) > 0).all()
    assert edges[0] == np.sort(spiked)[9000] / 2
    assert np.bincount(np.searchsorted(edges, spiked))[1:].max() <= 10
    amid = np.r_[np.zeros(5000), rng.normal(size=5000)]  # the spike is a bin of its own
    assert np.bincount(Binned.of(amid).bins).max() == 5000
    even = Binned.of(rng.normal(size=20_000)).edges
    for values in (spiked, amid, np.array([0.0, 1, 1, 0]), np.array([3.0, 3, 3]), np.array([3.0, 1, 1, 2, 9])):
        own = Binned.of(values)
        assert np.array_equal(own.bins, np.searchsorted(own.edges, values))
    assert np.bincount(np.searchsorted(even, rng.normal(size=20_000))).max() < 3 * 20_000 / BINS


@pytest.mark.parametrize("common", [0.5, 0.03])
def test_numbers_that_do_not_jump_seldom_get_one(common: float) -> None:
    """In one of a hundred tables, at most; six of eighty or more come up with probability 1e-4 then. Rare labels and
    long tails too, where chance is least like a normal distribution."""
    rng, jumping = np.random.default_rng(3), 0
    for _ in range(80):
        X = np.column_stack([rng.lognormal(0, 2, (1500, 4)), rng.integers(0, 30, (1500, 4))])
        y = rng.random(1500) < 1 / (1 + np.exp(-np.log(common / (1 - common)) - 0.1 * np.minimum(X[:, 4] - 15, 9)))
        jumping += any(jumps_in((X - X.mean(0)) / X.std(0), y.astype(int), list(range(8))))
    assert jumping < 6


def test_a_model_that_jumps_decides_as_the_best_rule_does_and_keeps_its_bound() -> None:
    X, y, group = rows(6000)
    bound = "demographic_parity <= 0.02"
    model = fb.FairClassifier(bound).fit(X, y, sensitive_features=group)
    assert set(model.encoder_.jumping) == {"code", "age"}
    new, labels, _ = rows(6000, seed=9)
    best = (3 * new.code.between(11, 17) + 2 * (new.age >= 65) + new.z > 2) == labels
    straight = fb.FairClassifier(bound, options=TableOptions(knots=0)).fit(X, y, sensitive_features=group)
    assert straight.encoder_.jumping == {}
    assert straight.score(new, labels) < best.mean() - 0.08
    assert model.score(new, labels) > best.mean() - 0.015
    assert fb.measure(bound, model.decision_function(X), y, group, threshold=0) <= 0.02
    said = [note for note in model.fit_report_["notes"] if "jumps in these" in note]
    assert len(said) == 1
    assert "code (2)" in said[0]
    scores = model.intercept_[0] + model.coef_[0] @ [
        (X[name.split(">")[0]] > float(name.split(">")[1])) if ">" in name
        else np.maximum(X[name.split(" above ")[0]] - float(name.split(" above ")[1]), 0) if " above " in name
        else X[name]
        for name in model.encoder_.feature_names
    ]  # fmt: skip
    assert np.allclose(scores, model.decision_function(X), rtol=0, atol=2e-3)


@pytest.mark.parametrize("layout", ["rows", "columns", "apart"])
@pytest.mark.parametrize("knots", [0, 3])
def test_weighted_sums_are_those_of_the_features(layout: str, knots: int) -> None:
    X, y, _ = rows(6000, gaps=True)
    X["z"] += 1e5  # a mean far from 0 is taken off first
    values = {"rows": X.to_numpy(), "columns": np.asfortranarray(X), "apart": X.astype({"code": "float32"})}[layout]
    encoder = TableEncoder(TableOptions(knots=knots, jumps="auto")).fit(values, y)
    assert len(encoder.jumping) == 2
    weight = np.random.default_rng(6).normal(size=(len(encoder.feature_names), 2))
    assert np.allclose(encoder.weighted(values, weight), encoder.transform(values) @ weight, rtol=0, atol=1e-10)


def test_features_that_lie_column_by_column_are_the_same_and_a_jump_itself_is_not_beyond_it() -> None:
    X, y, _ = rows()
    encoder = TableEncoder(AUTO).fit(X, y)
    (jump, *_) = encoder.jumping["code"]
    X = X.assign(code=np.where(np.arange(len(X)) % 2, jump, X["code"]))
    by_row, by_column = (encoder.encode(X, by_column=told)[0] for told in (False, True))
    assert by_row.flags.c_contiguous and by_column.flags.f_contiguous and np.array_equal(by_row, by_column)
    beyond = next(i for i, name in enumerate(encoder.feature_names) if name.startswith("code>"))
    assert not by_row[1::2, beyond].any() and by_row[::2, beyond].any()


def test_a_saved_encoder_gives_the_same_bits_and_damaged_jumps_are_refused() -> None:
    X, y, _ = rows()
    encoder = TableEncoder(AUTO).fit(X, y)
    text = encoder.to_json()
    again = TableEncoder.from_json(text)
    assert np.array_equal(again.transform(X), encoder.transform(X))
    assert again.jumping == encoder.jumping
    for jumps in ([2.0, 1.0], [1.0, 1.0], ["1"], [float("1e999")]):
        state = json.loads(text)
        state["learnt"][0]["jumps"] = jumps
        with pytest.raises(DataError, match="lacks a part or has a wrong one"):
            TableEncoder.from_json(json.dumps(state))


def test_what_tells_where_numbers_jump_is_asked_for() -> None:
    X, y, _ = rows(300)
    assert TableOptions(knots="auto").jumps_by_labels
    assert not TableOptions(knots="auto", jumps=0).jumps_by_labels
    assert not TableOptions(knots=5).by_labels
    for jumps in (True, 3, "many"):
        with pytest.raises(OptionError, match="jumps must be 0 or 'auto'"):
            TableOptions(jumps=jumps)
    with pytest.raises(OptionError, match="by the labels of all rows: numbers, as floats, or 2 to 10 classes"):
        TableEncoder(AUTO).fit(X)
    with pytest.raises(DataError, match="sparse table takes no knots, jumps or pairs"):
        TableEncoder(AUTO).fit(sp.eye_array(5).tocsr())
    with pytest.raises(DataError, match="leave them out, or give the table whole"):
        Encoded.of(TableEncoder(AUTO), Chunks(lambda: [X[:20], X[20:40]]))
    assert TableEncoder(AUTO).fit(X[:25], y[:25]).jumping == {}  # too few rows to tell


def test_jumps_end_at_a_limit_of_all_together(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(8)
    code = rng.integers(0, 200, 20_000).astype(float)
    y = (rng.random(20_000) < np.where(code // 5 % 2, 0.9, 0.1)).astype(int)
    whole = jumps_in(code[:, None] / 50, y, [0])[0]
    assert len(whole) == 39
    monkeypatch.setattr("fairbound.tables.shapes.jumping.MOST", 7)
    some = jumps_in(code[:, None] / 50, y, [0])[0]
    assert len(some) == 7
    assert set(some) <= set(whole)


@pytest.mark.parametrize("told", ["a line", "an interval", "all but"])
def test_labels_that_a_number_tells_are_no_trouble(told: str) -> None:
    x = np.random.default_rng(11).uniform(-3, 3, 2000)
    y = {"a line": x > 0, "an interval": np.abs(x) < 1, "all but": x > 2.99}[told].astype(int)
    twice = np.column_stack([x, x, np.full(2000, 1.0)])
    encoder = TableEncoder(AUTO).fit(twice, y)
    assert np.isfinite(encoder.transform(twice)).all()
    model = LogisticRegression(C=1e4, max_iter=5000).fit(encoder.transform(twice), y)
    assert model.score(encoder.transform(twice), y) > 0.99


@pytest.mark.parametrize("seed", range(4))
def test_jumps_between_which_all_rows_are_of_one_label_stay(seed: int) -> None:
    """Their effect has no end, and a large standard error; without them the loss is larger by far."""
    rng = np.random.default_rng(seed)
    code = rng.integers(0, 12, 2000).astype(float)
    y = np.where((code >= 4) & (code < 7), 1, rng.random(2000) < 0.4).astype(int)
    assert jumps_in(code[:, None] / 4, y, [0]) == [[3.5 / 4, 6.5 / 4]]


@pytest.mark.parametrize("classes", [2, 3])
def test_the_search_begins_where_the_test_of_bends_ended(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, _ = rows(gaps=True)
    X["z"] = X["z"] ** 2
    X["job"] = np.random.default_rng(1).choice(["cook", "nurse"], len(X))
    y = y if classes == 2 else y + (X.job == "cook").to_numpy()
    begun, ended = list[np.ndarray](), list[np.ndarray]()

    class Told(Growing):
        def __init__(self, features: np.ndarray, *rest: object) -> None:
            super().__init__(features, *rest)  # type: ignore[arg-type]
            begun.append(self.x[0] + features @ self.x[1:])

    def told(*given: object) -> object:
        found = regression(*given)  # type: ignore[arg-type]
        ended.append(found[1].scores)
        return found

    monkeypatch.setattr("fairbound.tables.shapes.shapes.Growing", Told)
    monkeypatch.setattr("fairbound.tables.shapes.bending.regression", told)
    assert TableEncoder(TableOptions(knots="auto")).fit(X, y).bent
    assert len(begun) == len(ended) == (1 if classes == 2 else 3)
    assert all(np.allclose(*both, atol=1e-9) and np.ptp(both[0]) > 1 for both in zip(begun, ended, strict=True))


def test_numbers_are_looked_at_until_nothing_more_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two codes of one another, each value of which has an effect: what the one accounts for hides what the other does. To
    leave out numbers that showed nothing changes nothing."""
    once = 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        a = rng.integers(0, 12, 3000)
        codes = np.column_stack([a, (a + rng.integers(0, 3, 3000)) % 12, rng.integers(0, 12, 3000)])
        effects = 0.9 * rng.normal(size=(2, 12))
        score = effects[0][codes[:, 0]] + effects[1][codes[:, 1]]
        y = (rng.random(3000) < 1 / (1 + np.exp(-score))).astype(int)
        found = {}
        for near in (0.5, 0.0, 1e9):
            monkeypatch.setattr("fairbound.tables.shapes.jumping.NEAR", near)
            found[near] = jumps_in(codes / 4, y, [0, 1, 2])
        assert found[0.5] == found[0.0]
        once += found[0.5] == found[1e9]
    assert once < 5


def numbers(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Eight standardised columns, and labels that follow a line, more loosely where the first and fifth are large."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.lognormal(0, 1, (n, 4)), rng.integers(0, 30, (n, 4))])
    X = (X - X.mean(0)) / X.std(0)
    return X, X[:, 0] + rng.standard_t(3, n) * np.exp(0.7 * X[:, 0].clip(-2, 2) + 0.5 * X[:, 4])


def test_numbers_whose_spread_depends_on_the_row_seldom_ask_for_a_jump_or_a_bend() -> None:
    """In one of a hundred tables, at most; six of eighty or more come up with probability 1e-4 then. With one variance
    for all rows most of these tables would jump."""
    asked = [TableEncoder(TableOptions(knots="auto")).fit(*numbers(1000, seed)) for seed in range(80)]
    assert sum(bool(encoder.jumping or encoder.bent) for encoder in asked) < 6


def test_the_statistic_of_an_interval_of_numbers_has_the_larger_of_two_variances() -> None:
    rng = np.random.default_rng(4)
    bins = np.repeat(np.arange(5), 200)
    left = rng.normal(size=1000) * np.where(bins == 2, 3.0, 1.0) + 2.0 * (bins == 2)
    left = (left - left.mean()) / left.std()
    inside = bins == 2
    slope = left[inside].sum()
    one = slope**2 / (200 * 800 / 1000)
    share = np.where(inside, 0.8, -0.2)
    each = slope**2 / (share**2 @ left**2)
    assert each < 0.7 * one
    for enough, found in ((1.001 * each, []), (0.999 * each, [1, 2])):
        assert sure_intervals(bins, 5, left, np.ones(1000), enough, left**2).edges[:2] == found
    assert sure_intervals(bins, 5, left, np.ones(1000), 1.001 * each).edges[:2] == [1, 2]


def test_jumps_of_numbers_are_the_plateaus_of_a_code_whatever_their_units() -> None:
    rng = np.random.default_rng(6)
    code = rng.integers(0, 40, 4000).astype(float)
    y = np.select([code < 12, code < 25], [0.0, 1.5], 0.4) + rng.normal(size=4000)
    for labels in (y, 1e150 * y - 3e150, (1e-9 * y + 5).astype(float)):
        assert TableEncoder(AUTO).fit(code[:, None], labels).jumping == {"x0": (11.5, 24.5)}


def test_labels_that_are_a_line_to_rounding_ask_for_nothing() -> None:
    x = np.random.default_rng(5).lognormal(0, 1, (3000, 1))
    encoder = TableEncoder(TableOptions(knots="auto")).fit(x, (7 * x[:, 0] + 2).astype(np.float32))
    assert encoder.jumping == {}
    assert encoder.bent == ()
