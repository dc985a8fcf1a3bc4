"""Training linear scores under bounds on areas: the exact program and its path along kappa, the min-max form over rows."""
