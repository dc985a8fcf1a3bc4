"""Verdicts on bounds from held-out rows: the values of groups, limits for their comparisons, and what is found."""
