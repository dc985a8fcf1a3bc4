"""Bounds on percentile intervals of scores: the intervals, shares within them as differences of convex functions,
the verdict."""
