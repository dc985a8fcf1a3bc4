"""A feature that tells the label by itself is named, whatever the bounds made of the model."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import fairbound as fb
from fairbound.base.errors import CertificateWarning, DataWarning
from fairbound.cli import app as cli
from fairbound.tables import Encoded

TELLS = "by itself tells the labels of all"
BOUND = "demographic_parity <= 0.05"


def people(n=400, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["F", "M"], n)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    return X, np.digitize(X.a + 0.8 * (sex == "M") + rng.logistic(size=n), np.arange(classes - 1)), sex


def copied(X, y, how):
    if how == "number":
        return X.assign(copy=2.0 * y)
    if how == "falling":
        return X.assign(copy=-1.0 * y + 0.1 * np.tanh(X.b))
    if how == "text":
        return X.assign(copy=np.where(y == 1, "paid", "not") if y.max() == 1 else np.array(list("pqr"))[y])
    return sparse.csr_array(np.column_stack([X.to_numpy(), y == 1]))


@pytest.mark.parametrize(
    ("how", "bound"),
    [("number", BOUND), ("falling", None), ("text", BOUND), ("sparse", None),
     *(pytest.param(*more, marks=pytest.mark.long) for more in (("number", None), ("falling", BOUND), ("text", None), ("sparse", BOUND)))],
)  # fmt: skip
def test_a_copy_of_the_label_is_named_under_a_bound_too(how, bound):
    X, y, sex = people()
    with pytest.warns(
        DataWarning, match=f"feature '.*' {TELLS} 400 training rows. If that is a surprise, look for a column"
    ):
        fair = fb.FairClassifier(bound, budget="10 steps").fit(copied(X, y, how), y, sensitive_features=sex)
    (said,) = [line for line in fair.fit_report_["warnings"] if TELLS in line]
    assert said == fair.fit_report_["telling_feature"] and (how == "sparse" or "copy" in said)
    assert not any("A model decides" in line for line in fair.fit_report_["warnings"])


@pytest.mark.parametrize("how", ["number", "text"])
def test_of_three_classes(how):
    X, y, _ = people(classes=3)
    with pytest.warns(DataWarning, match=TELLS):
        fb.FairClassifier("recall of class 1 >= 0.1", budget="5 steps").fit(copied(X, y, how), y)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_finer_form_of_the_label_is_named_by_its_column(classes):
    X, y, _ = people(6000, classes)  # more rows than are looked at together
    finer = pd.Series(y).astype(str) + np.random.default_rng(1).choice(list("pqr"), len(y))
    stated = {"budget": "3 steps"}
    with pytest.warns(DataWarning, match=f"column 'finer' {TELLS} 6,000 training rows"):
        fb.FairClassifier(**stated).fit(X.assign(finer=finer), y)
    for at in (0, len(y) - 1):  # one row is enough to say nothing
        spoiled = finer.copy()
        spoiled[at] = finer[np.flatnonzero(y != y[at])[0]]
        assert fb.FairClassifier(**stated).fit(X.assign(finer=spoiled), y).fit_report_["telling_feature"] is None
    encoder, new = fb.TableEncoder().fit(X.assign(finer=finer)), finer.copy()
    new[0] = "of no feature"
    for texts, told in ((finer, True), (new, False)):
        table = Encoded.of(encoder, X.assign(finer=texts))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = fb.FairClassifier(**stated).fit(table, y)
        assert (model.fit_report_["telling_feature"] is not None) == told
    some = X[:200].assign(id=[f"p{i}" for i in range(100)] * 2)
    twice = np.tile(y[:100], 2)  # an id tells the label of its rows, and nothing of others
    every = {"options": fb.tables.TableOptions(min_count=1, max_categories=200, unique_share=1.0)}
    assert fb.FairClassifier(**stated, **every).fit(some, twice).fit_report_["telling_feature"] is None


@pytest.mark.parametrize("spoiled", [0, pytest.param(1, marks=pytest.mark.long)])
def test_one_row_is_enough_to_say_nothing(spoiled):
    """Of 9,000 rows, more than are looked at together, and whichever class the row is of."""
    X, y, sex = people(9000)
    X = copied(X, y, "number")
    at = int(np.flatnonzero(y == spoiled)[-1])
    X.loc[at, "copy"] = 2.0 - X.loc[at, "copy"]
    fair = fb.FairClassifier(BOUND, budget="3 steps").fit(X, y, sensitive_features=sex)
    assert fair.fit_report_["telling_feature"] is None


def test_a_certificate_and_the_command_say_it_too(tmp_path, capsys):
    X, y, sex = people(800)
    X = copied(X, y, "number")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fb.FairClassifier("demographic_parity <= 0.2", certify=True, algorithm="alm", budget="5 steps").fit(
            X, y, sensitive_features=sex
        )
    assert sum(TELLS in str(one.message) for one in caught if one.category is not CertificateWarning) == 1
    pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
    X.assign(sex=sex, y=y).to_csv(tmp_path / "people.csv", index=False)
    call = ["fit", "--data", tmp_path / "people.csv", "--label", "y", "--group", "sex", "--constraint", BOUND]
    assert cli.main([str(a) for a in [*call, "--out", tmp_path / "out", "--budget", "10 steps"]]) in (0, 1, 3)
    assert "feature 'copy' by itself tells" in " ".join(capsys.readouterr().out.split())
    warned = json.loads((tmp_path / "out" / "audit.json").read_text())["warnings"]
    assert sum(TELLS in line for line in warned) == 1
