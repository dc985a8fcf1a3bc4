"""Bounds watched on decisions as they come, with verdicts that may be looked at after every row."""

from fairbound.monitoring.monitor import Monitor

__all__ = ["Monitor"]
