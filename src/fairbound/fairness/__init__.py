"""Fairness bounds: how they are stated, compiled for training, measured exactly and judged."""
