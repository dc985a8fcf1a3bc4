"""A model that is loaded and saved again keeps what its folder says of its training; another model loses it."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pandas as pd
import pytest

import fairbound as fb
from fairbound.estimators.saving.folder import load_folder


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    return x, (x[:, 0] + rng.normal(size=200) > 0).astype(int), rng.choice(["f", "m"], 200)


@pytest.mark.parametrize("kind", [fb.FairClassifier, fb.FairRegressor])
def test_the_files_beside_a_model_go_with_it_until_it_is_fitted_again(rows, tmp_path, kind):
    x, y, _ = rows
    kind(budget="5 steps").fit(x, y).save(tmp_path / "a", {"data.txt": "sha256:0", "note.md": "mine"})
    loaded = kind.load(tmp_path / "a")
    loaded.save(tmp_path / "b", {"note.md": "new"})
    assert load_folder(tmp_path / "b").extras == {"data.txt": "sha256:0", "note.md": "new"}
    pickle.loads(pickle.dumps(loaded)).save(tmp_path / "c")
    assert load_folder(tmp_path / "c").extras == {"data.txt": "sha256:0", "note.md": "mine"}
    loaded.fit(x, 1 - y).save(tmp_path / "a")
    assert load_folder(tmp_path / "a").extras == {}
    assert not (tmp_path / "a" / "data.txt").exists() and not (tmp_path / "a" / "note.md").exists()


def test_two_fits_that_are_the_same_have_the_same_bytes(rows, tmp_path):
    x, y, sex = rows
    for name in "ab":
        model = fb.FairClassifier("demographic_parity <= 0.2", budget="20 steps", algorithm="alm")
        model.fit(x, y, sensitive_features=sex).save(tmp_path / name)
        assert model.fit_report_["seconds"] > 0
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name
    again = fb.FairClassifier.load(tmp_path / "a")
    assert again.fit_report_["seconds"] is None and (again.predict(x) == model.predict(x)).all()


def test_an_audit_warns_of_the_training_file_and_of_weights_by_a_copy_too(rows, tmp_path):
    pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
    from fairbound.cli.app import main

    x, y, sex = rows
    frame = pd.DataFrame({"x": x[:, 0], "z": x[:, 1], "sex": sex, "y": y, "w": np.where(sex == "f", 1.0, 2.0)})
    frame.to_csv(tmp_path / "train.csv", index=False)
    data = ["--data", str(tmp_path / "train.csv"), "--label", "y", "--group", "sex"]
    bound = ["--constraint", "demographic_parity <= 0.9", "--budget", "20 steps", "--weights", "w"]
    assert main(["fit", *data, *bound, "--out", str(tmp_path / "fit")]) in (0, 1, 3)
    fb.FairClassifier.load(tmp_path / "fit").save(tmp_path / "copy")
    assert main(["audit", *data, "--model", str(tmp_path / "copy"), "--out", str(tmp_path / "audit")]) in (0, 1, 3)
    said = " ".join(json.loads((tmp_path / "audit" / "audit.json").read_text())["warnings"])
    assert "the file that the model was trained on" in said and "trained with the weights 'w'" in said
