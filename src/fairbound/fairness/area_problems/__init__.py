"""Linear scores under bounds on areas under ROC curves: an exact solver, and min-max forms that read single rows."""
