"""Bounds inside a PyTorch training loop of your own."""

from fairbound.optim.dual import Dual
from fairbound.optim.state import DualReport

__all__ = ["Dual", "DualReport"]
