"""A saved model of any kind, by the folder alone."""

from __future__ import annotations

import os
from typing import Any

from torch import nn

from fairbound.estimators.classifier import FairClassifier
from fairbound.estimators.ranker import FairRanker
from fairbound.estimators.regressor import FairRegressor
from fairbound.estimators.saving.folder import Folder, load_folder
from fairbound.estimators.saving.saved import kind_of

MODELS: dict[str, Any] = {kind.__name__: kind for kind in (FairClassifier, FairRegressor, FairRanker)}


def load(path: str | os.PathLike[str] | Folder, module: nn.Module | None = None) -> Any:
    """The FairClassifier, FairRegressor or FairRanker in a model folder, as its own `load` gives it back.

    path: a folder that `save` wrote, or one of a command with such a folder `model` in it, or what was read of it.
    module: of a model that is a module of your own.
    Raises: FileNotFoundError where there is no such folder; ModelFolderError where it is damaged or holds no model.
    """
    folder = path if isinstance(path, Folder) else load_folder(path)
    of_its_own = {} if module is None else {"module": module}
    return MODELS[kind_of(folder)].load(folder, **of_its_own)
