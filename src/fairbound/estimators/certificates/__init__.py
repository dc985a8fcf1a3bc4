"""`certify=True`: the models that are tried, the rows that judge them, and what is said of it."""
