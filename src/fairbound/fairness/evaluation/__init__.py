"""Values and slopes of compiled bounds on a batch or on all rows of a model."""
