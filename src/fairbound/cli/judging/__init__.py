"""Decisions, scores and saved models, judged on the rows of a file."""
