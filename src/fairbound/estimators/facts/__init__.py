"""What an estimator says of its fit: the report, its curves, and what it warns of."""
