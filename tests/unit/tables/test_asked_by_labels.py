"""Jumps and pairs alike: what labels ask for is trained on, and the command line says whether they are asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import fairbound as fb
from fairbound.cli.app import main
from fairbound.tables import TableEncoder, TableOptions


def rows(n: int = 4000) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """A code of forty values kept as a number, seven of which are mostly of label 1; and three jobs, in one of which the
    old are mostly of label 1 and the young of label 0, else the other way round."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "code": rng.integers(0, 40, n),
            "age": rng.choice(np.arange(20.0, 80, 4), n),
            "job": rng.choice(["cook", "driver", "nurse"], n),
        }
    )
    score = 3 * X.code.between(11, 17) + np.where((X.age > 50) == (X.job == "nurse"), 1.5, -1.5) - 0.5
    return X, (rng.random(n) < 1 / (1 + np.exp(-score))).to_numpy().astype(int), rng.choice(["f", "m"], n)


@pytest.mark.parametrize("asked", ["jumps", "pairs"])
def test_the_fit_stands_where_a_regression_on_the_same_columns_does(asked: str) -> None:
    options: Any = TableOptions(**{"knots": 0, asked: "auto"})
    X, y, group = rows()
    encoder = TableEncoder(options).fit(X, y)
    assert encoder.jumping if asked == "jumps" else encoder.pairs
    plain = LogisticRegression(C=1e6, max_iter=2000).fit(encoder.transform(X), y)
    ours = fb.FairClassifier(None, options=options, objective="loss", weight_decay=0)
    ours.fit(X, y, sensitive_features=group)
    assert abs(ours.score(X, y) - plain.score(encoder.transform(X), y)) < 5e-4


@pytest.mark.parametrize("asked", ["jumps", "pairs"])
def test_the_command_line_trains_with_them_and_without(asked: str, tmp_path, capsys) -> None:
    X, y, group = rows(2000)
    data, out = tmp_path / "rows.csv", tmp_path / "out"
    X.assign(group=group, y=y).to_csv(data, index=False)
    fit = ["fit", "--data", str(data), "--label", "y", "--group", "group", "--constraint", "demographic_parity <= 0.2"]
    main([*fit, "--out", str(out), "--no-baseline", "--quiet"])
    encoder = fb.FairClassifier.load(out / "model").encoder_
    assert "code" in encoder.jumping
    assert [pair.second.value for pair in encoder.pairs] == ["nurse"]
    assert " & job=nurse" in (out / "report.html").read_text().replace("&amp;", "&")
    main([*fit, f"--{asked}", "0", "--out", str(out), "--no-baseline", "--quiet"])
    encoder = fb.FairClassifier.load(out / "model").encoder_
    assert encoder.pairs == ()
    assert ("code" in encoder.jumping) is (asked == "pairs")
    assert encoder.jumping == {} or asked == "pairs"
    assert main([*fit, f"--{asked}", "3", "--out", str(out)]) == 2
    assert f"--{asked} must be 0 or 'auto'" in capsys.readouterr().err
