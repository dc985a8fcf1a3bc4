"""Audits of scores or predictions, as plain data."""
