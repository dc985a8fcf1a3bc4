"""Rows: their groups, scores, draws and sparse tables."""
