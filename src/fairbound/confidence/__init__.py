"""Confidence bounds for means and for contrasts of means; no knowledge of fairness."""
