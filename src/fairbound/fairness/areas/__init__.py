"""Bounds on areas under ROC curves: which areas are compared, losses of pairs, the verdict."""
