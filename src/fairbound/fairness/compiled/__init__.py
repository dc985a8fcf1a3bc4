"""Bounds as what training needs: cells of rows, statistics of them, and contrasts that must be <= 0."""
