"""Audits: verdicts on stated bounds from held-out scores or predictions, as plain data."""
