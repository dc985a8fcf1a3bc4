"""Bounds on areas under ROC curves: which areas are compared, losses of pairs, exact linear scores, the verdict."""
