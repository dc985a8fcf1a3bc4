"""Models on one flat tensor, and the scoring of rows."""
