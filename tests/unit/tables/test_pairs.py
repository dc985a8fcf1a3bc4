"""Pairs: two columns may have an effect together for which the labels ask."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2
from sklearn.linear_model import LogisticRegression

import fairbound as fb
from fairbound.base.errors import DataError, OptionError
from fairbound.tables import TableEncoder, TableOptions
from fairbound.tables.numbers import NumberFeature
from fairbound.tables.pairs import Pair, Side
from fairbound.tables.shapes.growing import Growing
from fairbound.tables.shapes.jumping import Binned
from fairbound.tables.shapes.pairing import AT_ONCE, MOST, pairs_of, surest
from fairbound.tables.shapes.regressions import NUMBERS, TWO_CLASSES
from fairbound.tables.shapes.splits import Divided, divided

AUTO = TableOptions(knots=0, pairs="auto")
pytestmark = pytest.mark.filterwarnings("ignore:.*was dropped:fairbound.base.errors.DataWarning")


def rows(n: int = 4000, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Three jobs, in one of which the old are mostly of label 1 and the young of label 0; else the other way round. A
    number whose effect is a line."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.choice(np.arange(20.0, 80, 4), n),
            "job": rng.choice(["cook", "driver", "nurse"], n),
            "z": rng.normal(size=n),
        }
    )
    score = np.where((X.age > 50) == (X.job == "nurse"), 1.5, -1.5) + X.z
    y = (rng.random(n) < 1 / (1 + np.exp(-score))).to_numpy().astype(int)
    return X, y, rng.choice(["f", "m"], n)


def only(encoder: TableEncoder) -> Pair:
    (pair,) = encoder.pairs
    return pair


def split_by(encoder: TableEncoder, features: np.ndarray) -> list[Divided]:
    """The columns of an encoder's features."""
    learnt = encoder.learnt or ()
    ends = np.cumsum([len(spec.feature_names) for spec in learnt])
    numbers = {
        spec.name: Binned.of(features[:, end - len(spec.feature_names)])
        for spec, end in zip(learnt, ends, strict=True)
        if isinstance(spec, NumberFeature)
    }
    return divided(learnt, features, numbers)


def column(bins: np.ndarray, splits: list[list[int]]) -> Divided:
    return Divided(bins, np.array(splits, dtype=float), [], slice(0, 1))


def test_a_number_and_a_category_that_tell_together_what_neither_tells_alone_are_found() -> None:
    X, y, _ = rows()
    encoder = TableEncoder(AUTO).fit(X, y)
    number, category = only(encoder).sides
    assert (number.name, category) == ("age", Side("job", value="nurse"))
    assert number.beyond == pytest.approx(50, abs=1e-9)
    assert encoder.feature_names[-1] == f"age>{number.beyond:.10g} & job=nurse"
    features = pd.DataFrame(encoder.transform(X), columns=encoder.feature_names)
    assert np.array_equal(features.iloc[:, -1], (X.age > number.beyond) & (X.job == "nurse"))
    at = X[:1].assign(age=number.beyond, job="nurse")
    assert encoder.transform(at)[0, -1] == 0.0


def test_the_statistic_is_a_score_test_beside_both_splits_and_all_are_tried() -> None:
    """Beside a loop over all splits, on which the test with an intercept and both splits is done in full."""
    rng = np.random.default_rng(1)
    a, b, y = rng.integers(0, 4, 900), rng.integers(0, 3, 900), rng.random(900)
    y = (y < np.where((a >= 2) & (b == 1), 0.95, 0.5)).astype(int)
    p = np.full(900, y.mean()) + 0.1 * (a - a.mean()) / 4
    number, category = (
        column(a, [[0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1]]),
        column(b, [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
    )
    best, largest = None, 0.0
    for s, t in product(range(3), range(3)):
        first, second = a > s, b == t
        beside = np.column_stack([np.ones(900), first, second])
        both = (first & second).astype(float)
        weight, left = p * (1 - p), y - p
        inverse = np.linalg.inv(beside.T @ (weight[:, None] * beside))
        across = beside.T @ (weight * both)
        slope = both @ left - across @ inverse @ (beside.T @ left)
        statistic = slope**2 / (weight @ both - across @ inverse @ across)
        if statistic > largest:
            best, largest = (s, t), statistic
    size, s, t = surest(number, category, y - p, p * (1 - p))
    assert (s, t) == best == (1, 1)
    assert size == pytest.approx(largest, rel=1e-9)
    assert size > chi2.isf(0.01 / 9, 1)


def test_the_statistic_of_numbers_has_the_larger_of_two_variances() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.random(1000) < 0.3, rng.random(1000) < 0.3
    left = rng.normal(size=1000) * np.where(a & b, 3.0, 1.0) + 2.0 * (a & b)
    left = (left - left.mean()) / left.std()
    cells = [left[(a == i) & (b == j)] for i, j in product((True, False), (True, False))]
    effect = cells[0].mean() - cells[1].mean() - cells[2].mean() + cells[3].mean()
    one = effect**2 / sum(1 / len(of) for of in cells)
    each = effect**2 / sum(of @ of / len(of) ** 2 for of in cells)
    assert each < 0.8 * one
    columns = column(a.astype(int), [[0, 1]]), column(b.astype(int), [[0, 1]])
    assert surest(*columns, left, np.ones(1000))[0] == pytest.approx(one)
    assert surest(*columns, left, np.ones(1000), left**2)[0] == pytest.approx(each)
    assert surest(*columns, left, np.ones(1000), 0.01 * left**2)[0] == pytest.approx(one)


def test_splits_with_little_in_a_cell_are_not_tried() -> None:
    a, b = np.repeat([0, 1], 500), np.r_[np.tile([0, 1], 250), np.repeat([0, 1], [461, 39])]
    columns, left = (column(a, [[0, 1]]), column(b, [[0, 1]])), np.where(a & b, 1.0, -0.1)
    assert surest(*columns, left, np.full(1000, 0.25)) == (0.0, 0, 0)
    assert surest(*columns, left, np.full(1000, 0.26))[0] > 0


@pytest.mark.parametrize("common", [0.5, 0.05])
def test_columns_that_add_up_seldom_ask_for_a_pair(common: float) -> None:
    """In one of a hundred tables, at most; six of eighty or more come up with probability 1e-4 then."""
    rng, asked = np.random.default_rng(3), 0
    for _ in range(80):
        X = np.column_stack([rng.lognormal(0, 1, (2000, 3)), rng.integers(0, 2, (2000, 3)), rng.normal(size=2000)])
        X[:, 6] += X[:, 3] + 0.5 * X[:, 0]  # not independent
        score = np.log(common / (1 - common)) + 0.7 * (X[:, 3] - 0.5) + 0.4 * (X[:, 6] - X[:, 6].mean())
        y = (rng.random(2000) < 1 / (1 + np.exp(-score))).astype(int)
        asked += bool(TableEncoder(AUTO).fit(X, y).pairs)
    assert asked < 6


def test_numbers_whose_spread_depends_on_the_row_seldom_ask_for_a_pair() -> None:
    """As above; with one variance for all rows some ten more of these tables would have one."""
    asked = 0
    for seed in range(80):
        rng = np.random.default_rng(seed)
        X = np.column_stack([rng.normal(size=(1500, 3)), rng.integers(0, 4, (1500, 3))])
        y = X[:, 0] + rng.standard_t(3, 1500) * np.exp(0.7 * X[:, 1].clip(-2, 2) * (X[:, 3] - 1))
        asked += bool(TableEncoder(AUTO).fit(X, y).pairs)
    assert asked < 6


def test_pairs_of_numbers_are_found_whatever_their_units() -> None:
    rng = np.random.default_rng(6)
    a, b = rng.uniform(size=(2, 4000))
    y = np.where((a > 0.5) == (b > 0.5), 1.0, -1.0) + rng.normal(size=4000)
    for labels in (y, 1e150 * y - 3e150, 1e-9 * y + 5):
        first, second = only(TableEncoder(AUTO).fit(np.column_stack([a, b]), labels)).sides
        assert [first.beyond, second.beyond] == pytest.approx([0.5, 0.5], abs=0.04)


def test_classes_are_asked_one_by_one() -> None:
    rng = np.random.default_rng(7)
    a, b, c = rng.integers(0, 2, (3, 6000))
    y = np.where(rng.random(6000) < 0.5, rng.choice(4, 6000), np.where(a == b, 0, np.where(b == c, 1, 2)))
    found = {
        frozenset(side.name for side in pair.sides)
        for pair in TableEncoder(AUTO).fit(np.column_stack([a, b, c]), y).pairs
    }
    assert {frozenset({"x0", "x1"}), frozenset({"x1", "x2"})} <= found
    assert TableEncoder(TableOptions(knots="auto")).fit(np.column_stack([a, b, c]), y).pairs == ()  # unless stated


def test_dummies_are_one_column_as_the_text_that_they_are_of() -> None:
    X, y, _ = rows()
    dummies = pd.get_dummies(X, dtype=float)
    of_text = TableEncoder(AUTO).fit(X, y)
    of_dummies = TableEncoder(AUTO).fit(dummies[["age", "job_cook", "job_driver", "job_nurse", "z"]], y)
    assert only(of_dummies).second == Side("job_nurse", pytest.approx(0.5))
    assert np.array_equal(of_text.transform(X)[:, -1], of_dummies.transform(dummies)[:, -1])
    plain = TableEncoder(TableOptions(knots=0)).fit(dummies[["age", "job_cook", "job_driver", "job_nurse", "z"]])
    columns = split_by(plain, plain.transform(dummies))
    assert [len(column.splits) for column in columns] == [14, 3, 15]
    assert [(column.features.start, column.features.stop) for column in columns] == [(0, 1), (1, 4), (4, 5)]
    both = dummies.assign(job_driver=dummies.job_cook)  # on where its neighbour is, which stays alone
    twice = TableEncoder(TableOptions(knots=0)).fit(both[["job_cook", "job_driver", "job_nurse"]])
    assert [len(column.splits) for column in split_by(twice, twice.transform(both))] == [1, 2]


def test_every_way_to_split_a_column_is_that_of_its_sides() -> None:
    X, _, _ = rows(300)
    X["job"] = X["job"].where(X.index % 7 != 0)
    X["two"] = np.where(X.z > 1, "yes", "no")
    X["flag"], X["late"] = X.z > 0.5, (X.age > 70).astype(float)
    encoder = TableEncoder(TableOptions(knots=0)).fit(X)
    columns = split_by(encoder, encoder.transform(X))
    assert [len(column.splits) for column in columns] == [14, 4, 15, 1, 1, 1]
    for column in columns:
        for split, side in enumerate(column.sides[: len(column.splits)]):
            if side.beyond is not None:
                expected = X[side.name] > side.beyond
            else:
                expected = X[side.name].astype(object).fillna("(missing)").astype(str) == side.value
            assert np.array_equal(column.of_rows(split), expected)


def table(layout: str) -> tuple[object, np.ndarray]:
    rng = np.random.default_rng(8)
    X = rng.normal(size=(6000, 4))
    X[:, 2] += 1e5
    y = (rng.random(6000) < np.where((X[:, 0] > 0) == (X[:, 2] > 1e5), 0.85, 0.15)).astype(int)
    X[::9, 0] = np.nan
    frame = pd.DataFrame(X, columns=list("abcd"))
    return {
        "rows": X,
        "columns": np.asfortranarray(X),
        "apart": frame.astype({"b": "float32"}),
        "text": frame.assign(b=np.where(X[:, 1] > 0, "up", "down")),
    }[layout], y


@pytest.mark.parametrize("layout", ["rows", "columns", "apart", "text"])
@pytest.mark.parametrize("knots", [0, 3])
def test_weighted_sums_are_those_of_the_features(layout: str, knots: int) -> None:
    values, y = table(layout)
    encoder = TableEncoder(TableOptions(knots=knots, pairs="auto")).fit(values, y)
    assert len(encoder.pairs) >= 1
    weight = np.random.default_rng(6).normal(size=(len(encoder.feature_names), 2))
    features = encoder.transform(values)
    sums = encoder.weighted(values, weight)
    assert np.allclose(sums, features @ weight, rtol=0, atol=1e-10)
    some = values[17:18]  # type: ignore[index]
    assert np.allclose(encoder.weighted(some, weight), sums[17:18], rtol=0, atol=1e-12)
    assert np.array_equal(encoder.transform(some), features[17:18])
    assert np.array_equal(encoder.encode(values, by_column=True)[0], features)


def test_what_training_never_had_and_what_is_missing_lie_on_no_side_but_their_own() -> None:
    X, y, _ = rows()
    encoder = TableEncoder(AUTO).fit(X, y)
    new = pd.DataFrame({"age": [79.0, 79, np.nan, np.inf], "job": ["nurse", "pilot", "nurse", "nurse"], "z": 0.0})
    with pytest.raises(DataError, match="infinite"):
        encoder.transform(new)
    with pytest.warns(fb.DataWarning, match="pilot"):
        found = encoder.transform(new[:3])[:, -1]
    spec = encoder.learnt[0]  # type: ignore[index]
    assert isinstance(spec, NumberFeature)
    assert found.tolist() == [1, 0, float(spec.median > only(encoder).first.beyond)]  # type: ignore[operator]
    down = TableEncoder(AUTO).fit(X.assign(age=-X.age), y)
    assert down.transform(new[2:3])[0, -1] == 1.0  # the median, -48, lies beyond -50
    gaps = X.assign(job=X.job.where(X.job != "nurse"))
    pair = only(TableEncoder(AUTO).fit(gaps, y))
    assert pair.second == Side("job", value="(missing)")


def test_a_missing_number_is_beyond_no_value_unless_training_had_none() -> None:
    """Then it is taken for the median, as in its other features."""
    X = pd.DataFrame({"a": [1.0, 2, 9, 9, np.nan], "b": [1.0, 2, 9, 9, 9], "c": [0.0, 1, 0, 1, 1]})
    encoder = TableEncoder(TableOptions(knots=0)).fit(X)
    encoder.pairs = tuple(Pair(Side(name, 5.0), Side("c", 0.5)) for name in "ab")
    new = pd.DataFrame({"a": [9.0, np.nan], "b": [9.0, np.nan], "c": [1.0, 1.0]})
    assert encoder.transform(new)[:, -2:].tolist() == [[1, 1], [0, 1]]
    assert encoder.weighted(new, np.eye(len(encoder.feature_names)))[:, -2:].tolist() == [[1, 1], [0, 1]]


@pytest.mark.parametrize("constant", [False, True])
def test_rows_without_a_number_are_a_side_of_their_own(constant: bool) -> None:
    rng = np.random.default_rng(0)
    age, job, gap = rng.integers(20, 80, 9000), rng.choice(["u", "v"], 9000), rng.random(9000) < 0.4
    y = (rng.random(9000) < np.where(gap & (job == "u"), 0.9, 0.3)).astype(int)
    X = pd.DataFrame({"age": np.where(gap, np.nan, 3.0 if constant else age), "job": job})
    encoder = TableEncoder(AUTO).fit(X, y)
    assert set(only(encoder).sides) == {Side("age", value="(missing)"), Side("job", value="u")}
    assert encoder.feature_names[-1] == "age=(missing) & job=u"
    assert np.array_equal(encoder.transform(X)[:, -1], gap & (job == "u"))
    again = TableEncoder.from_json(encoder.to_json())
    weight = rng.normal(size=(len(encoder.feature_names), 1))
    assert np.array_equal(again.weighted(X, weight), encoder.weighted(X, weight))
    assert np.allclose(again.weighted(X, weight), again.transform(X) @ weight, atol=1e-12)
    if not constant:
        columns = split_by(encoder, encoder.transform(X)[:, :-1])
        assert not columns[0].of_rows(7)[gap].any()  # beyond no value


def test_a_saved_encoder_gives_the_same_bits_and_damaged_pairs_are_refused() -> None:
    X, y, _ = rows()
    encoder = TableEncoder(AUTO).fit(X, y)
    text = encoder.to_json()
    again = TableEncoder.from_json(text)
    assert again.pairs == encoder.pairs
    assert np.array_equal(again.transform(X), encoder.transform(X))
    good = json.loads(text)["pairs"][0]
    other = {"name": "z", "beyond": 0.5, "value": None}
    for first, second in [
        (good["first"], {**good["second"], "value": "pilot"}),
        (good["first"], {**good["second"], "beyond": 1.0}),
        ({**good["first"], "beyond": None}, good["second"]),
        ({**good["first"], "value": "old"}, good["second"]),
        ({**good["first"], "name": "height"}, good["second"]),
        ({**other, "beyond": float("1e999")}, good["second"]),
        (good["first"], {**good["first"], "beyond": 30.0}),
        (good["first"], {"name": "z"}),
    ]:
        state = json.loads(text)
        state["pairs"] = [{"first": first, "second": second}]
        with pytest.raises(DataError, match="lacks a part or has a wrong one"):
            TableEncoder.from_json(json.dumps(state))
    state = json.loads(text)
    del state["pairs"]  # as folders of before are
    assert TableEncoder.from_json(json.dumps(state)).pairs == ()


def test_names_of_the_features_follow_those_of_the_columns() -> None:
    values, y = table("rows")
    encoder = TableEncoder(AUTO).fit(values, y)
    given = encoder.get_feature_names_out(["p", "q", "r", "s"])
    assert " & " in given[-1]
    assert given[-1] == encoder.feature_names[-1].replace("x0", "p").replace("x2", "r")
    assert tuple(encoder.get_feature_names_out()) == encoder.feature_names


def test_the_options_say_whether_labels_are_asked() -> None:
    assert TableOptions(knots="auto").pairs_by_labels
    assert not TableOptions(knots="auto", pairs=0).pairs_by_labels
    assert not TableOptions(knots=5).by_labels
    assert not TableOptions(knots="auto", jumps=0).pairs_by_labels
    assert not TableOptions(jumps="auto").pairs_by_labels
    assert AUTO.by_labels and AUTO.jumps_by_labels
    with pytest.raises(OptionError, match="pairs='auto' needs jumps"):
        TableOptions(pairs="auto", jumps=0)
    for pairs in (True, 3, "many"):
        with pytest.raises(OptionError, match="pairs must be 0 or 'auto'"):
            TableOptions(pairs=pairs)
    X, y, _ = rows(25)
    assert TableEncoder(AUTO).fit(X, y).pairs == ()  # too few rows to tell
    encoded = fb.tables.Encoded.of(TableEncoder(TableOptions(pairs=0, knots=0)), X)
    with pytest.raises(OptionError, match="encoded already, under other options"):
        fb.FairClassifier(None, options=AUTO).fit(encoded, y)
    encoded = fb.tables.Encoded.of(TableEncoder(AUTO), X, labels=y)
    with pytest.raises(OptionError, match="encoded already, under other options"):
        fb.FairClassifier(None, options=TableOptions(jumps=0)).fit(encoded, y)


def test_labels_that_are_alike_in_the_rows_looked_at_ask_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, _ = rows(400)
    parts = iter([np.arange(400), np.flatnonzero(y == 1)])
    monkeypatch.setattr("fairbound.tables.shapes.shapes.looked_at", lambda *_: next(parts))
    encoder = TableEncoder(TableOptions(knots="auto")).fit(X, y)
    assert not encoder.jumping and not encoder.pairs


def test_large_numbers_that_differ_in_their_last_digits_have_names_of_their_own() -> None:
    rng = np.random.default_rng(2)
    at, b = 1.7e12 + rng.integers(0, 4, 6000), rng.integers(0, 2, 6000).astype(float)
    y = (rng.random(6000) < np.where(np.isin(at - 1.7e12, [1, 2]) == (b > 0), 0.9, 0.1)).astype(int)
    encoder = TableEncoder(AUTO).fit(np.column_stack([at, b]), y)
    assert len(encoder.pairs) == 2
    assert len(set(encoder.feature_names)) == len(encoder.feature_names)
    assert "x0>1700000000000.5 & x1>0.5" in encoder.feature_names


def test_a_fit_forgets_the_pairs_of_the_one_before() -> None:
    X, y, _ = rows()
    encoder = TableEncoder(AUTO).fit(X, y)
    assert encoder.pairs
    assert encoder.fit(X, np.random.default_rng(0).integers(0, 2, len(X))).pairs == ()
    assert encoder.transform(X).shape == (len(X), len(encoder.feature_names))


def found_in(X: np.ndarray, y: np.ndarray, share: float = 1.0) -> list[tuple[int, int, int, int]]:
    return pairs_of(Growing(X, y, 3 * MOST), split_columns(X), share=share).pairs


def checkers(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns of 0 and 1, every two neighbours of which have an effect together."""
    rng = np.random.default_rng(9)
    X = rng.integers(0, 2, (20_000, count)).astype(float)
    score = sum(np.where(X[:, j] == X[:, j + 1], 0.5, -0.5) for j in range(count - 1))
    return X, (rng.random(20_000) < 1 / (1 + np.exp(-score))).astype(int)


def split_columns(X: np.ndarray) -> list[Divided]:
    learnt = [NumberFeature(f"x{j}", "number", 0.0, 1.0, 0.0, False) for j in range(X.shape[1])]
    return divided(learnt, X, {f"x{j}": Binned.of(X[:, j]) for j in range(X.shape[1])})


def test_all_that_act_together_are_found_and_no_others() -> None:
    X, y = checkers(12)
    found = found_in(X, y)
    assert sorted((c, d) for c, _, d, _ in found) == [(j, j + 1) for j in range(11)]
    assert len(found) > 2 * AT_ONCE
    some = found_in(X, y, share=5 / MOST)
    assert len(some) == 5
    assert set(some) <= set(found)


def test_a_pair_that_later_ones_make_needless_goes_again() -> None:
    """What a copy of a column tells is told already."""
    rng = np.random.default_rng(2)
    X = rng.integers(0, 2, (8000, 3)).astype(float)
    X[:, 2] = np.where(rng.random(8000) < 0.9, X[:, 1], 1 - X[:, 1])
    y = (rng.random(8000) < np.where(X[:, 0] == X[:, 1], 0.8, 0.2)).astype(int)
    regression = Growing(X, y, 3 * MOST)
    assert [(c, d) for c, _, d, _ in pairs_of(regression, split_columns(X)).pairs] == [(0, 1)]
    assert regression.width == len(regression.x) == 1 + 3 + 1
    left, spread, _ = regression.fitted()
    fresh = Growing(np.column_stack([X, (X[:, 0] > 0) & (X[:, 1] > 0)]), y, 0)
    assert np.allclose(left, fresh.fitted()[0], atol=1e-3)
    assert np.allclose(spread, TWO_CLASSES.curvature(y - left))


def test_columns_that_are_not_needed_leave_the_regression_as_if_they_had_never_come() -> None:
    rng = np.random.default_rng(4)
    X = rng.integers(0, 2, (5000, 4)).astype(float)
    y = (rng.random(5000) < 0.2 + 0.3 * X[:, 1] + 0.3 * X[:, 3]).astype(int)
    regression, first = Growing(X[:, :1], y, 3), 2
    for place in (1, 2, 3):
        regression.add(X[:, place])
    regression.fitted()
    assert regression.keep_needed(first, 0.01) == [True, False, True]
    assert regression.width == len(regression.x) == 4
    kept = np.column_stack([np.ones(5000), X[:, [0, 1, 3]]])
    assert np.array_equal(regression.room[:, :4], kept)
    near = regression.near
    assert near is not None
    assert np.allclose(near.Q, kept.T @ (near.weight[:, None] * kept), rtol=1e-3)
    assert np.allclose(regression.fitted()[0], Growing(X[:, [0, 1, 3]], y, 0).fitted()[0], atol=1e-3)


def test_of_many_columns_those_are_looked_at_with_which_scores_vary_most(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = checkers(3)
    rng = np.random.default_rng(1)
    more = rng.integers(0, 2, (20_000, 6)).astype(float)
    y = np.where(rng.random(20_000) < 0.3 * X[:, 0] * X[:, 1] + 0.2 * X[:, 2], 1, y)
    wide = np.column_stack([more, X])
    monkeypatch.setattr("fairbound.tables.shapes.pairing.COLUMNS", 3)
    found = found_in(wide, y)
    assert {(c, d) for c, _, d, _ in found} == {(6, 7), (7, 8)}


def test_of_many_rows_a_random_part_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where every second row is alike."""
    X, y = checkers(3)
    order = np.argsort(X[:, 1], kind="stable").reshape(2, -1).T.ravel()  # which turns with every row, nearly
    seen = list[int]()

    def told(first: Divided, second: Divided, *rest: np.ndarray) -> tuple[float, int, int]:
        seen.append(len(first.bins))
        assert len(first.bins) == len(second.bins) == len(rest[0])
        return surest(first, second, *rest)

    monkeypatch.setattr("fairbound.tables.shapes.pairing.surest", told)
    monkeypatch.setattr("fairbound.tables.shapes.pairing.CELLS", 3 * 10_000)
    assert {(c, d) for c, _, d, _ in found_in(X[order], y[order])} == {(0, 1), (1, 2)}
    assert set(seen) == {10_000}


def test_numbers_jump_at_the_sides_of_pairs() -> None:
    """Where neither number has an effect of its own, the cells of a pair are told by it and its two sides together."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 2))
    y = (rng.random(8000) < np.where((X[:, 0] > 0) == (X[:, 1] > 0), 0.9, 0.1)).astype(int)
    encoder = TableEncoder(AUTO).fit(X, y)
    sides = {(side.name, side.beyond) for pair in encoder.pairs for side in pair.sides}
    assert sides == {(name, value) for name, values in encoder.jumping.items() for value in values}
    model = LogisticRegression(max_iter=1000).fit(encoder.transform(X), y)
    assert model.score(encoder.transform(X), y) > 0.9 - 0.02
    jumps = [name for name in encoder.feature_names if " & " not in name]
    alone = encoder.transform(X)[:, : len(jumps)]
    assert LogisticRegression(max_iter=1000).fit(alone, y).score(alone, y) < 0.6


def test_a_side_at_which_a_number_jumps_already_is_not_added_again() -> None:
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.integers(0, 10, 8000), rng.integers(0, 10, 8000)]).astype(float)
    score = 2.0 * (X[:, 0] > 4.5) - 1 + np.where((X[:, 0] > 4.5) & (X[:, 1] > 2.5), 1.5, 0.0)
    y = (rng.random(8000) < 1 / (1 + np.exp(-score))).astype(int)
    encoder = TableEncoder(AUTO).fit(X, y)
    assert encoder.jumping == {"x0": (4.5,), "x1": (2.5,)}
    assert len(set(encoder.feature_names)) == len(encoder.feature_names) == 5
    assert [side.beyond for side in only(encoder).sides] == [4.5, 2.5]


def test_the_regression_of_numbers_grows_by_pairs_too() -> None:
    rng = np.random.default_rng(5)
    X = rng.integers(0, 2, (4000, 3)).astype(float)
    y = np.where(X[:, 0] == X[:, 2], 0.4, -0.4) + rng.normal(size=4000)
    regression = Growing(X, (y - y.mean()) / y.std(), 3 * MOST, NUMBERS)
    assert [(c, d) for c, _, d, _ in pairs_of(regression, split_columns(X)).pairs] == [(0, 2)]


def test_a_model_with_pairs_decides_as_the_best_rule_does_and_keeps_its_bound(tmp_path) -> None:
    X, y, group = rows(6000)
    bound = "demographic_parity <= 0.02"
    model = fb.FairClassifier(bound).fit(X, y, sensitive_features=group)
    new, labels, _ = rows(6000, seed=9)
    best = (np.where((new.age > 50) == (new.job == "nurse"), 1.5, -1.5) + new.z > 0) == labels
    alone = fb.FairClassifier(bound, options=TableOptions(pairs=0)).fit(X, y, sensitive_features=group)
    assert alone.encoder_.pairs == ()
    assert alone.score(new, labels) < best.mean() - 0.05
    assert model.score(new, labels) > best.mean() - 0.015
    assert fb.measure(bound, model.decision_function(X), y, group, threshold=0) <= 0.02
    (said,) = [note for note in model.fit_report_["notes"] if "takes these together" in note]
    assert "age and job (1)" in said
    both = only(model.encoder_)
    named = dict(zip(model.encoder_.feature_names, model.coef_[0], strict=True))
    without = {name: weight for name, weight in named.items() if " & " not in name}
    moved = X.assign(job=np.where(X.job == "nurse", "cook", "nurse"))
    inside = (X.age > both.first.beyond) & (X.job == "nurse")
    change = model.decision_function(X[inside]) - model.decision_function(moved[inside])
    step = without["job=nurse"] - without["job=cook"]
    assert np.allclose(change, named[both.feature_name] + step, atol=1e-6)
    model.save(tmp_path / "model")
    again = fb.FairClassifier.load(tmp_path / "model")
    assert np.array_equal(again.decision_function(new), model.decision_function(new))


def test_a_regressor_has_pairs_and_a_network_none() -> None:
    X, _, group = rows(1500)
    y = np.where((X.age > 50) == (X.job == "nurse"), 1.0, -1.0)
    number = y + np.random.default_rng(0).normal(size=1500)
    model = fb.FairRegressor("prediction_parity <= 0.5").fit(X, number, sensitive_features=group)
    assert {side.name for pair in model.encoder_.pairs for side in pair.sides} == {"age", "job"}
    network = fb.FairClassifier(None, model="mlp:4", budget="20 steps").fit(X, y, sensitive_features=group)
    assert network.encoder_.pairs == ()
