"""Bounds inside a PyTorch training loop of your own."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairbound.optim.dual import Dual
from fairbound.optim.state import DualReport

if TYPE_CHECKING:
    from fairbound.optim.finishing import Finished, finish

__all__ = ["Dual", "DualReport", "Finished", "finish"]


def __getattr__(name: str) -> Any:
    """What ends a loop, which loads the estimators, is read where it is asked for."""
    if name in ("Finished", "finish"):
        return getattr(import_module("fairbound.optim.finishing"), name)
    raise AttributeError(f"module 'fairbound.optim' has no attribute {name!r}")
