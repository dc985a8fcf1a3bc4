"""Rankings: documents of queries, losses of pairs, exposure, the ranking problem, and verdicts on bounds between groups."""
