"""Dataset, its splits and the preparation of arrays: claims checked on small made-up tables."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from fairbound.base.errors import DataError, OptionError
from fairbound.base.seeds import seed_for
from fairbound.data import Dataset, prepare
from fairbound.data.encode import encode, labels


def small(n=100, missing=3, name="small"):
    """n rows: the first quarter in group b, the last `missing` without a group, the rest in a; every fifth positive."""
    group = np.array(["b"] * (n // 4) + ["a"] * (n - n // 4 - missing) + [None] * missing, dtype=object)
    return Dataset(
        name=name,
        X=np.column_stack([np.arange(n), np.ones(n), group == "b"]).astype(float),
        y=(np.arange(n) % 5 == 0).astype(np.int64),
        sensitive={"g": group},
        feature_names=("number", "constant", "g=b"),
        feature_sources=("number", "constant", "g"),
        sensitive_sources={"g": ("g",)},
    )


def test_seed_is_the_hash_of_its_parts():
    digest = hashlib.sha256(b"7/split/adult/3").digest()
    assert seed_for("split", "adult", 3, root=7) == int.from_bytes(digest[:8], "big") % 2**63
    assert len({seed_for("split", name, k, root=r) for name in "ab" for k in range(9) for r in range(3)}) == 54


@pytest.mark.parametrize("stratify", [None, "label", "group", "group,label"])
@pytest.mark.parametrize(("test", "validation"), [(0.2, 0.0), (0.25, 0.1875), (0.0, 0.3), (1 / 3, 0.1)])
def test_split_covers_all_rows_once_with_rounded_up_sizes(stratify, test, validation):
    for n in (20, 100, 101):
        parts = small(n, missing=1).split(0, test, stratify, validation=validation)
        assert np.array_equal(np.sort(np.concatenate(list(parts.values()))), np.arange(n))
        for part, share in (("test", test), ("validation", validation)):
            assert len(parts.get(part, ())) == int(np.ceil(share * n - 1e-9))
        assert all((np.diff(rows) > 0).all() for rows in parts.values())


def test_split_depends_on_seed_and_name_only():
    a, again, other = small().split(1), small().split(1), small().split(2)
    assert np.array_equal(a["test"], again["test"])
    assert not np.array_equal(a["test"], other["test"])
    assert not np.array_equal(a["test"], small(name="else").split(1)["test"])


@pytest.mark.parametrize("seed", range(5))
def test_stratified_split_keeps_each_stratum_within_one_row(seed):
    data = small(997, missing=11)
    strata = np.array([f"{g}{y}" for g, y in zip(data.sensitive["g"], data.y, strict=True)])
    parts = data.split(seed, 0.2, "group,label", validation=0.1)
    for stratum in np.unique(strata):
        size = (strata == stratum).sum()
        assert abs((strata[parts["test"]] == stratum).sum() - size * 200 / 997) < 1
        assert abs((strata[parts["validation"]] == stratum).sum() - size * 100 / 997) < 2


@pytest.mark.parametrize("seed", range(5))
def test_a_stratum_with_the_larger_remainder_gets_the_row(seed):
    parts = small(10).split(seed, 0.3, "label")  # 0.6 of 2 positives and 2.4 of 8 negatives
    assert small(10).y[parts["test"]].sum() == 1


def test_each_row_is_equally_likely_to_be_held_out():
    counts = np.zeros(40)
    for seed in range(400):
        counts[small(40).split(seed, 0.25, "group")["test"]] += 1
    # Each count is binomial(400, about 1/4), standard deviation 8.7; 5 of them for 40 rows.
    assert np.abs(counts - 100).max() < 5 * 8.7


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"test": 0.0}, "shares whose sum"),
        ({"test": -0.1}, "shares whose sum"),
        ({"test": 0.6, "validation": 0.4}, "shares whose sum"),
        ({"test": 0.995}, "too few"),
        ({"stratify": "sex"}, "stratify must be"),
        ({"stratify": "group", "group": "sex"}, "no sensitive attribute 'sex'"),
        ({"stratify": "label", "group": "g"}, "has no effect"),
    ],
)
def test_split_says_what_is_wrong(arguments, words):
    with pytest.raises(OptionError, match=words):
        small().split(0, **arguments)


def test_split_by_group_needs_a_group():
    with pytest.raises(OptionError, match="no sensitive attribute to stratify"):
        replace(small(), sensitive={}).split(0, stratify="group")


def test_without_removes_what_reveals_the_attribute():
    data = small().without("g")
    assert data.feature_names == ("number", "constant")
    assert data.X.shape == (100, 2)
    assert "g" in data.sensitive
    with pytest.raises(OptionError, match="'sex' to remove"):
        small().without("sex")
    with pytest.raises(OptionError, match="leaves no feature"):
        small().without("g", "number", "constant")


def test_take_by_mask_equals_take_by_position():
    data = small()
    mask = data.sensitive["g"] == "b"
    a, b = data.take(mask), data.take(np.flatnonzero(mask))
    assert len(a) == 25 and np.array_equal(a.X, b.X) and np.array_equal(a.y, data.y[:25])
    assert set(a.sensitive["g"]) == {"b"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"y": np.zeros(99, dtype=np.int64)}, "X has shape"),
        ({"y": np.full(100, -1)}, "integers from 0"),
        ({"y": np.full(100, 0.5)}, "integers from 0"),
        ({"X": np.full((100, 3), np.inf)}, "infinite"),
        ({"feature_names": ("a", "b")}, "2 names for 3"),
        ({"sensitive": {"g": np.array(["a"])}}, "'g' has 1 rows"),
        ({"splits": {"train": np.array([100])}}, "outside 0..99"),
        ({"splits": {"train": np.array([0, 1]), "test": np.array([1])}}, "shares rows"),
    ],
)
def test_an_inconsistent_data_set_is_refused(change, words):
    with pytest.raises(DataError, match=words):
        replace(small(), **change)


def test_prepare_standardises_by_the_training_rows_alone():
    parts = prepare(small(), 0, group="g")
    assert parts.feature_names == ("number", "constant")
    np.testing.assert_allclose(parts.X_train[:, 0].mean(), 0, atol=1e-14)
    np.testing.assert_allclose(parts.X_train[:, 0].std(), 1, atol=1e-14)
    np.testing.assert_array_equal(parts.X_train[:, 1], 0)
    assert len(parts.y_test) == len(parts.group_test) == 20


def test_prepare_agrees_with_scikit_learn():
    from sklearn.preprocessing import StandardScaler

    data = replace(small(), X=np.random.default_rng(0).normal(size=(100, 3)))
    parts, rows, X = prepare(data, 3, group="g"), data.split(3, 0.2, "group", group="g"), data.without("g").X
    scaler = StandardScaler().fit(X[rows["train"]])
    np.testing.assert_allclose(parts.X_test, scaler.transform(X[rows["test"]]), atol=1e-13)


def test_prepare_gives_missing_numbers_the_mean_of_the_training_rows():
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(0)
    X = np.where(rng.random((100, 3)) < 0.3, np.nan, rng.normal(5, 2, size=(100, 3)))
    data = replace(small(), X=X)
    parts, rows, X = prepare(data, 3, group="g"), data.split(3, 0.2, "group", group="g"), data.without("g").X
    usual = make_pipeline(SimpleImputer(), StandardScaler()).fit(X[rows["train"]])
    np.testing.assert_allclose(parts.X_train, usual.transform(X[rows["train"]]), atol=1e-13)
    np.testing.assert_allclose(parts.X_test, usual.transform(X[rows["test"]]), atol=1e-13)


def test_prepare_refuses_to_fill_a_sparse_matrix():
    data = replace(small(), X=sparse.csr_matrix(small().X))
    with pytest.raises(OptionError, match="sparse"):
        prepare(data, 0, group="g")


def test_encodings():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"n": [1.0, np.nan, 3.0], "t": ["x", None, "a"], "code": [5, 2, 5]})
    X, names, sources = encode(frame, ["n", "t", "code"], "one-hot", categorical=["code"])
    assert names == ("n", "t=a", "t=x", "code=2", "code=5")
    assert sources == ("n", "t", "t", "code", "code")
    np.testing.assert_array_equal(X, [[1, 0, 1, 0, 1], [np.nan, 0, 0, 1, 0], [3, 1, 0, 0, 1]])
    S, _, _ = encode(frame, ["t", "code"], "one-hot", categorical=["code"], sparse=True)
    np.testing.assert_array_equal(S.toarray(), X[:, 1:])
    R, names, _ = encode(frame, ["n", "t", "code"], "one-hot-reference", categorical=["code"])
    assert names == ("n", "t=x", "code=5")
    np.testing.assert_array_equal(R, X[:, [0, 2, 4]])
    N, _, _ = encode(frame, ["n", "t", "code"], "numeric", categorical=["code"])
    np.testing.assert_array_equal(N, [[1, 1, 5], [np.nan, np.nan, 2], [3, 0, 5]])
    with pytest.raises(OptionError, match="encoding must be one of"):
        encode(frame, ["n"], "onehot")


def test_labels_are_text_and_none():
    pandas = pytest.importorskip("pandas")
    assert labels(pandas.Series([1.0, np.nan, 2.0])).tolist() == ["1", None, "2"]
    assert labels(pandas.Series([1, 2, 3]), {1: "one", 3: "three"}).tolist() == ["one", None, "three"]
    assert labels(pandas.Series(["b", None])).tolist() == ["b", None]
