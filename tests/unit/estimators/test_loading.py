"""fb.load: the model in a folder is of the class that saved it."""

from __future__ import annotations

import numpy as np
import pytest

import fairbound as fb
from fairbound.estimators.saving.folder import ModelFolderError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 2))
LABELS = (X[:, 0] + RNG.normal(size=120) > 0).astype(int)


@pytest.mark.parametrize(
    ("kind", "y", "more"),
    [(fb.FairClassifier, LABELS, {}), (fb.FairRegressor, X[:, 0] + X[:, 1], {}),
     (fb.FairRanker, RNG.integers(0, 3, 120), {"qid": np.repeat(np.arange(12), 10)})],
)  # fmt: skip
def test_a_folder_alone_gives_back_its_model(kind, y, more, tmp_path):
    fitted = kind(budget="5 steps").fit(X, y, **more) if kind is fb.FairRanker else kind().fit(X, y)
    fitted.save(tmp_path / "model")
    for path in (tmp_path / "model", str(tmp_path)):  # a command's folder has one of this name in it
        again = fb.load(path)
        assert type(again) is kind and (again.predict(X) == fitted.predict(X)).all()


def test_a_module_of_ones_own_is_passed_on(tmp_path):
    import torch

    module = torch.nn.Linear(2, 1)
    fitted = fb.FairClassifier(model=module, budget="5 steps").fit(X, LABELS)
    fitted.save(tmp_path)
    assert (fb.load(tmp_path, torch.nn.Linear(2, 1)).predict(X) == fitted.predict(X)).all()
    with pytest.raises(ModelFolderError):
        (tmp_path / "manifest.json").write_text("{}")
        fb.load(tmp_path)


def test_an_encoder_of_other_features_is_refused(tmp_path):
    fitted = fb.FairClassifier().fit(X, LABELS)
    fitted.encoder_ = fb.TableEncoder(fb.TableOptions(knots=2)).fit(X)
    fitted.save(tmp_path)
    with pytest.raises(ModelFolderError, match="makes 6 features, the model takes 2"):
        fb.load(tmp_path)
