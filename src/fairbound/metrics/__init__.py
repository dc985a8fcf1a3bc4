"""Metrics of every group as a table, of rows at hand (`table`) or as they come (`Stream`),
to and from fairlearn's MetricFrame."""

from fairbound.metrics.fairlearn import from_fairlearn, to_fairlearn
from fairbound.metrics.stream import Stream
from fairbound.metrics.table import MetricTable, table

__all__ = ["MetricTable", "Stream", "from_fairlearn", "table", "to_fairlearn"]
