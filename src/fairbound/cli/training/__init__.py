"""The commands that train, the rows they learn from, and how these are split."""
