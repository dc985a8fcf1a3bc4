"""Rankings: losses of pairs, exposure, the verbs of the ranking problem, and verdicts on bounds between groups."""
