"""Errors of the library between processes."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import pickle
import pkgutil

import pytest

import fairbound


def own_errors() -> list[type[Exception]]:
    """Every error of the package, whose modules are imported as far as the extras are installed."""
    for module in pkgutil.walk_packages(fairbound.__path__, "fairbound."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
    found, rest = set[type[Exception]](), [Exception]
    while rest:
        new = set(rest.pop().__subclasses__()) - found
        found |= new
        rest += new
    return [kind for kind in found if kind.__module__.startswith("fairbound.")]


@pytest.mark.filterwarnings("ignore")
def test_errors_come_back_from_another_process_as_they_were():
    """A pool of processes waits without end for an error that cannot be pickled."""
    every = own_errors()
    assert {"NoRowsError", "ModelFolderError", "SchemaError"} <= {kind.__name__ for kind in every}
    for kind in every:
        taken = list(inspect.signature(kind.__init__).parameters)[2:] if inspect.isfunction(kind.__init__) else []
        error = kind("what is wrong", *(["a", "b"] for _ in taken))
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is kind and str(again) == str(error) and vars(again) == vars(error), kind
