"""The real files: checksums, published counts, labels, groups and splits. Skipped where no data folder is there."""

import gzip
from collections import Counter

import numpy as np
import pytest
from scipy import sparse

from fairbound.base.errors import DataError, OptionError
from fairbound.data import info, load, names, prepare, threshold_groups
from fairbound.data.acs import FEATURES, LABEL

pytest.importorskip("pandas")
ON_FILE = [name for name in names() if info(name).files and info(name).groups and not info(name).classes]


@pytest.fixture(scope="module")
def data(data_dir):
    """data(name): the data set with its default options, read once."""
    read = {}

    def get(name):
        if name not in read:
            read[name] = load(name, data_dir)
        return read[name]

    return get


@pytest.mark.parametrize("name", ON_FILE)
def test_checksum_counts_and_groups(data, name):
    """load() itself refuses other checksums and counts; here the data set must also be what its entry says."""
    entry, loaded = info(name), data(name)
    assert (len(loaded), int(loaded.y.sum())) == (entry.rows, entry.positives)
    assert set(np.unique(loaded.y)) == {0, 1}
    assert tuple(loaded.sensitive) == entry.groups
    assert not np.isnan(loaded.X.data if sparse.issparse(loaded.X) else loaded.X).any()
    for attribute, column in loaded.sensitive.items():
        assert None not in set(column) and len(set(column)) >= 2, attribute
        assert set(loaded.sensitive_sources[attribute]) <= {*loaded.feature_sources, "HISP", "DIS", "ST"}
    if loaded.frame is not None:
        assert set(loaded.frame.columns) == {*loaded.feature_columns, loaded.label, *loaded.sensitive}
        assert np.array_equal(loaded.frame[loaded.label].to_numpy(), loaded.y)
        assert loaded.label not in loaded.feature_columns


def test_a9a_is_adult_row_for_row(data):
    a9a, adult = data("a9a"), data("adult")
    assert np.array_equal(a9a.y, adult.y)
    assert np.array_equal(a9a.sensitive["sex"], adult.sensitive["sex"])
    assert np.array_equal(a9a.sensitive["race"], adult.sensitive["race"])
    for part in ("train", "test"):
        assert np.array_equal(a9a.splits[part], adult.splits[part])
    assert sparse.issparse(a9a.X) and a9a.X.format == "csr" and set(a9a.X.data) == {1.0}


def test_adult_published_numbers(data):
    adult = data("adult")
    test = adult.splits["test"]
    assert (len(adult.splits["train"]), len(test)) == (32561, 16281)
    assert Counter(adult.sensitive["sex"][test]) == {"Female": 5421, "Male": 10860}
    assert (int(adult.y[test].sum()), int(adult.y.sum())) == (3846, 11687)
    unknown = (adult.frame[["workclass", "occupation", "native-country"]] == "?").any(axis=1).to_numpy()
    assert (unknown[:32561].sum(), unknown[32561:].sum()) == (2399, 1221)
    assert not {"fnlwgt", "income"} & set(adult.feature_columns)


def test_column_71_gives_the_split_printed_in_the_paper(data, data_dir):
    paper = load("a9a", data_dir, group="paper-column-71")
    assert next(iter(paper.sensitive)) == "paper-column-71"
    column = paper.group("paper-column-71")[paper.splits["test"]]
    assert Counter(column) == {"column 71 = 0": 14720, "column 71 = 1": 1561}
    np.testing.assert_array_equal(
        paper.X[:, 70].toarray().ravel() == 1, paper.group("paper-column-71") == "column 71 = 1"
    )
    with pytest.raises(OptionError, match="paper-column-71"):
        load("a9a", data_dir, group="race")


def test_a9a_without_sex_has_121_features(data):
    assert data("a9a").without("sex").X.shape == (48842, 121)


def test_bank_groups_and_duration(data, data_dir):
    bank = data("bank")
    assert Counter(bank.sensitive["age_25_60"]) == {"25-60": 39210, "other": 1978}
    assert Counter(bank.sensitive["age_25_59"]) == {"25-59": 38927, "other": 2261}
    assert Counter(data("bank-full").sensitive["marital"])["divorced"] == 5207
    assert "duration" not in bank.feature_names
    with_duration = load("bank", data_dir, duration=True, encoding="one-hot-reference")
    assert with_duration.X.shape == (41188, 53) and "duration" in with_duration.feature_names


def test_law_school_groups(data):
    law = data("law-school")
    assert Counter(law.sensitive["race"]) == {"White": 17491, "Non-White": 3307}
    shares = info("law-school").paper_splits["HHYL26"]
    parts = law.split(0, **shares)
    assert [len(parts[p]) for p in ("train", "validation", "test")] == [11698, 3900, 5200]


def test_compas_after_propublicas_filter(data, data_dir):
    compas = data("compas-two-years")
    races = Counter(compas.sensitive["race"])
    # ProPublica's notebook prints these counts after its filter.
    assert races == {
        "African-American": 3175,
        "Caucasian": 2103,
        "Hispanic": 509,
        "Other": 343,
        "Asian": 31,
        "Native American": 11,
    }
    assert Counter(compas.sensitive["sex"]) == {"Male": 4997, "Female": 1175}
    assert Counter(compas.sensitive["race_binary"])["Caucasian"] == 2103
    assert not {"is_recid", "decile_score"} & set(compas.feature_columns)
    scored = load("compas-two-years", data_dir, compas_scores=True)
    assert set(scored.feature_columns) - set(compas.feature_columns) == {"decile_score", "v_decile_score"}
    assert scored.frame["decile_score"].between(1, 10).all()


def test_communities_labels_and_folds(data, data_dir):
    communities = data("communities-crime")
    assert Counter(communities.sensitive["Black"]) == {"1": 1038, "0": 956}
    assert communities.X.min() == 0 and communities.X.max() == 1
    assert len(communities.splits) == 10 and sum(map(len, communities.splits.values())) == 1994
    upper = load("communities-crime", data_dir, threshold=0.28)
    assert int(upper.y.sum()) == 608
    with pytest.raises(OptionError, match="threshold"):
        load("communities-crime", data_dir, threshold=0)


def test_overlapping_groups_of_communities(data):
    communities = data("communities-crime")
    members, thresholds = threshold_groups(communities)
    assert members.shape == (848, 1994) and thresholds.shape == (848, 3)
    columns = [communities.feature_names.index(c) for c in ("racepctblack", "racePctAsian", "racePctHisp")]
    for k in (0, 400, 847):
        assert np.array_equal(members[k], (communities.X[:, columns] > thresholds[k]).all(axis=1))
        assert members[k].mean() > 0.01
    half = np.arange(997)
    fewer, _ = threshold_groups(communities, rows=half, minimum=0.2)
    assert (fewer[:, half].mean(axis=1) > 0.2).all() and len(fewer) < 848
    none, empty = threshold_groups(communities, minimum=0.9)
    assert none.shape == (0, 1994) and empty.shape == (0, 3)
    with pytest.raises(OptionError, match="no feature race"):
        threshold_groups(communities, ["race"])


def test_acs_extracts(data, data_dir):
    us, oklahoma = data("acs-income-us-46pct"), data("acs-income-ok-partial")
    in_oklahoma = us.sensitive["state"] == "OK"
    assert np.array_equal(us.X[in_oklahoma], oklahoma.X)
    assert np.array_equal(us.y[in_oklahoma], oklahoma.y)
    assert len(set(us.sensitive["state"])) == 51 and "DC" not in set(us.sensitive["state"])
    assert set(us.sensitive["race"][us.sensitive["race_binary"] == "White"]) == {"White"}
    one_hot = load("acs-income-us-46pct", data_dir, encoding="one-hot-reference")
    assert one_hot.X.format == "csr" and one_hot.X.shape == (765670, 813)  # HHYL26, Table 1: 813 attributes


def test_klbm25_preparation(data):
    """Section 4.1: nine features, race not among them, 80/20 stratified by race, standardised on train."""
    colorado = data("acs-income-co")
    parts = prepare(colorado, 0, group="race_binary")
    assert parts.X_train.shape == (25044, 9) and parts.X_test.shape == (6262, 9)
    assert parts.feature_names == tuple(f for f in FEATURES if f != "RAC1P")
    assert set(parts.group_train) == {"White", "Non-White"}
    share = [(group == "White").mean() for group in (parts.group_train, parts.group_test)]
    assert abs(share[0] - share[1]) < 1 / 6262 + 1 / 25044
    np.testing.assert_allclose(parts.X_train.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(parts.X_train.std(axis=0), 1, atol=1e-12)
    assert not np.allclose(parts.X_test.mean(axis=0), 0, atol=1e-6)
    assert not np.array_equal(parts.X_test, prepare(colorado, 1, group="race_binary").X_test)


@pytest.fixture
def raw_colorado(data, tmp_path):
    """A folder with a Census-like raw file of Colorado: the extract's rows, an income, and people outside the task."""
    frame = data("acs-income-co").frame
    raw = frame[list(FEATURES)].assign(PINCP=frame[LABEL] * 1000 + 50000, PWGTP=1)
    child, idle, poor = (raw.iloc[[0]].assign(**change) for change in ({"AGEP": 16}, {"WKHP": None}, {"PINCP": 100}))
    import pandas

    raw = pandas.concat([child, raw, idle, poor])
    path = tmp_path / "2018" / "1-Year" / "psam_p08.csv"
    path.parent.mkdir(parents=True)
    raw.to_csv(path, index=False)
    return tmp_path


def test_folktables_gives_the_extract(data, raw_colorado):
    pytest.importorskip("folktables")
    built, extract = load("acs-income", raw_colorado, state="co", year=2018), data("acs-income-co")
    np.testing.assert_array_equal(built.X, extract.X)
    np.testing.assert_array_equal(built.y, extract.y)
    assert all(np.array_equal(built.sensitive[k], extract.sensitive[k]) for k in extract.sensitive)


def test_folktables_failures_are_named(raw_colorado):
    pytest.importorskip("folktables")
    with pytest.raises(DataError, match=r"psam_p40.csv' is missing.*fetch acs-income"):
        load("acs-income", raw_colorado, state=["CO", "OK"])
    for bad, words in ((["XX"], "state must be"), (["CO", "co"], "twice"), ([], "state must be")):
        with pytest.raises(OptionError, match=words):
            load("acs-income", raw_colorado, state=bad)
    with pytest.raises(OptionError, match="from 2014"):
        load("acs-income", raw_colorado, year=2013)
    path = raw_colorado / "2018" / "1-Year" / "psam_p08.csv"
    text = path.read_text()
    path.write_text("\n".join(text.splitlines()[:100]))
    with pytest.raises(DataError, match="but the published file has 31,306"):
        load("acs-income", raw_colorado, state="CO")
    path.write_text(text.replace("POBP", "POB"))
    with pytest.raises(DataError, match="lack POBP"):
        load("acs-income", raw_colorado, state="CO")
    path.write_text("")
    with pytest.raises(DataError, match="cannot be read"):
        load("acs-income", raw_colorado, state="CO")
    later = raw_colorado / "2019" / "1-Year" / "psam_p08.csv"
    later.parent.mkdir(parents=True)
    later.write_text(text.replace("RELP", "RELSHIPP"))
    assert "RELSHIPP" in load("acs-income", raw_colorado, state="CO", year=2019).feature_names


def test_a_truncated_real_file(data_dir, tmp_path):
    packed = (data_dir / "law_school.csv.gz").read_bytes()
    (tmp_path / "law_school.csv.gz").write_bytes(packed[:-1000])
    with pytest.raises(DataError, match=r"law_school.csv.gz' is truncated"):
        load("law-school", tmp_path)
    (tmp_path / "law_school.csv.gz").write_bytes(gzip.compress(gzip.decompress(packed)[:-1]))
    with pytest.raises(DataError, match="is not the published one: expected sha256 23c1b173"):
        load("law-school", tmp_path)
